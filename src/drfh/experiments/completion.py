"""Fig. 6: when jobs are complete, and how much sooner by their size."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from drfh.experiments.evidence import BEST_FIT, FIRST_FIT, Evidence

__all__ = [
    "CLASSES",
    "both_complete",
    "completion_numbers",
    "completion_table",
    "reduction_table",
    "reductions",
]

#: Name, least and most tasks of a job (the paper has five classes and does not give their edges).
CLASSES: tuple[tuple[str, int, int | None], ...] = (
    ("1–50", 1, 50),
    ("51–100", 51, 100),
    ("101–500", 101, 500),
    ("501–1,000", 501, 1000),
    ("> 1,000", 1001, None),
)
_POINTS = 500


def both_complete(
    evidence: Evidence, seed: int, rival: str, blocked: str = "skip", *, at_start: bool = False
) -> pl.DataFrame:
    """Return the jobs that are complete under both: ``job``, ``tasks``, ``ours``, ``theirs``.

    Parameters
    ----------
    evidence
        The runs.
    seed, blocked
        Which.
    rival
        The policy that Best-Fit is compared with.
    at_start
        Whether to keep jobs that were there at the start, whose run times are cut off.
    """
    one = evidence.run(BEST_FIT, seed, blocked).jobs
    two = evidence.run(rival, seed, blocked).jobs
    table = one.select("job", "tasks", pl.col("turnaround").alias("ours")).with_columns(
        two["turnaround"].alias("theirs"), evidence.jobs["at_start"]
    )
    keep = pl.col("ours").is_not_null() & pl.col("theirs").is_not_null()
    if not at_start:
        keep &= ~pl.col("at_start")
    return table.filter(keep).drop("at_start")


def completion_table(evidence: Evidence) -> pl.DataFrame:
    """Return the distribution of job completion times, of the first draw.

    Columns: ``policy``, ``seconds``, ``fraction`` of the jobs that are complete by then. Jobs
    that are complete under Best-Fit and under slots, and were not there at the start.
    """
    seed = evidence.seeds[0]
    rival = evidence.best_slots(seed)
    jobs = both_complete(evidence, seed, rival)
    parts = []
    for policy, column in ((BEST_FIT, "ours"), (rival, "theirs")):
        times = np.sort(jobs[column].to_numpy())
        pick = np.unique(np.linspace(0, len(times) - 1, min(len(times), _POINTS)).astype(np.int64))
        parts.append(
            pl.DataFrame(
                {
                    "policy": pl.Series([policy] * len(pick), dtype=pl.String),
                    "seconds": times[pick],
                    "fraction": (pick + 1) / max(len(times), 1),
                }
            )
        )
    return pl.concat(parts)


def reduction_table(evidence: Evidence) -> pl.DataFrame:
    """Return how much sooner jobs are complete under Best-Fit, by class of size.

    Columns: ``job_class``, ``low``, ``high`` (tasks), ``jobs``, ``mean_of_reductions``,
    ``reduction_of_means``, ``median_reduction``, ``seed``, ``rival``. A reduction is 1 − seconds
    under Best-Fit / seconds under the rival; the same jobs as in the distribution.
    """
    parts = []
    for seed in evidence.seeds:
        for rival in (evidence.best_slots(seed), FIRST_FIT):
            jobs = both_complete(evidence, seed, rival)
            parts.append(
                reductions(jobs).with_columns(
                    pl.lit(seed, dtype=pl.Int64).alias("seed"), pl.lit(rival).alias("rival")
                )
            )
    return pl.concat(parts)


def reductions(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return both statistics of each class.

    Examples
    --------
    >>> jobs = pl.DataFrame({"tasks": [1, 2], "ours": [5.0, 90.0], "theirs": [10.0, 90.0]})
    >>> reductions(jobs).row(0)[3:]
    (2, 0.25, 0.050000000000000044, 0.25)
    """
    rows = []
    for name, low, high in CLASSES:
        of_class = jobs.filter(
            pl.col("tasks") >= low, pl.lit(True) if high is None else pl.col("tasks") <= high
        )
        ours, theirs = of_class["ours"].to_numpy(), of_class["theirs"].to_numpy()
        numbers: tuple[float | None, ...] = (None, None, None)
        if len(ours):
            # A job of no length is complete at once under both.
            each = 1 - np.divide(ours, theirs, out=np.ones_like(ours), where=theirs > 0)
            whole = 1 - float(ours.mean() / theirs.mean()) if theirs.any() else 0.0
            numbers = float(each.mean()), whole, float(np.median(each))
        rows.append((name, low, high, len(ours), *numbers))
    schema = {
        "job_class": pl.String, "low": pl.Int64, "high": pl.Int64, "jobs": pl.Int64,
        "mean_of_reductions": pl.Float64, "reduction_of_means": pl.Float64,
        "median_reduction": pl.Float64,
    }  # fmt: skip
    return pl.DataFrame(rows, schema=schema, orient="row")


def completion_numbers(evidence: Evidence) -> list[dict[str, Any]]:
    """Return how many jobs the figure speaks of, and what jobs at the start would change.

    For each seed: jobs complete under both, those of them that were there at the start and are
    left out; and the reductions by class if they were not.
    """
    found = []
    for seed in evidence.seeds:
        rival = evidence.best_slots(seed)
        every = both_complete(evidence, seed, rival, at_start=True)
        kept = both_complete(evidence, seed, rival)
        found.append(
            {
                "seed": seed,
                "rival": rival,
                "all_jobs": len(evidence.jobs),
                "jobs": len(kept),
                "left_out_at_start": len(every) - len(kept),
                "with_jobs_at_start": reductions(every).to_dicts(),
            }
        )
    return found
