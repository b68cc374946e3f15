"""Fig. 5: how full the servers are over time, and who is ahead."""

from __future__ import annotations

from itertools import combinations

import polars as pl

from drfh.experiments.evidence import BLOCKED, Evidence
from drfh.experiments.setup import RESOURCES

__all__ = ["ahead_table", "utilisation_table"]


def utilisation_table(evidence: Evidence) -> pl.DataFrame:
    """Return a row for each sample of Best-Fit, First-Fit and slots at their best number.

    Columns: ``policy``, ``blocked``, ``seed``, ``time``, ``cpu``, ``memory``.
    """
    parts = []
    for seed in evidence.seeds:
        for blocked in BLOCKED:
            for policy in evidence.main_policies(seed):
                samples = evidence.run(policy, seed, blocked).samples
                parts.append(
                    samples.select(
                        pl.lit(policy).alias("policy"),
                        pl.lit(blocked).alias("blocked"),
                        pl.lit(seed, dtype=pl.Int64).alias("seed"),
                        "time",
                        *(pl.col(f"utilisation.{name}").alias(name) for name in RESOURCES),
                    )
                )
    return pl.concat(parts)


def ahead_table(evidence: Evidence) -> pl.DataFrame:
    """Return for each pair of the three how often, and by how much, the first is ahead.

    Columns: ``first``, ``second``, ``blocked``, ``seed``, ``resource``; ``part_of_time`` and
    ``part_behind``, of the samples at which the first is fuller or less full than the second;
    ``mean_difference`` of the utilisation over the whole window.
    """
    rows: list[dict[str, object]] = []
    for seed in evidence.seeds:
        for blocked in BLOCKED:
            for first, second in combinations(evidence.main_policies(seed), 2):
                one, two = (evidence.run(p, seed, blocked) for p in (first, second))
                for name in RESOURCES:
                    column = f"utilisation.{name}"
                    apart = one.samples[column] - two.samples[column]
                    mean = [r.numbers["utilisation"][name] for r in (one, two)]
                    rows.append(
                        {
                            "first": first,
                            "second": second,
                            "blocked": blocked,
                            "seed": seed,
                            "resource": name,
                            "part_of_time": float((apart > 0).mean()),  # type: ignore[arg-type]
                            "part_behind": float((apart < 0).mean()),  # type: ignore[arg-type]
                            "mean_difference": mean[0] - mean[1],
                        }
                    )
    return pl.DataFrame(rows)
