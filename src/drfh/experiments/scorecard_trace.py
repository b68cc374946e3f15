"""Claims about the trace: Fig. 5 to 8."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import polars as pl

from drfh.experiments.claims import Claim, Reading, judge
from drfh.experiments.completion import both_complete, reductions
from drfh.experiments.evidence import BEST_FIT, BLOCKED, FIRST_FIT, Evidence
from drfh.experiments.ratios import ratios_of

__all__ = ["CONDITIONS", "trace_claims"]

#: What to do when the user whose turn it is is blocked → the end of “holds if …”.
CONDITIONS = {"skip": "a blocked user is skipped", "strict": "a blocked user stops all"}

_ALWAYS = 0.99  # of the samples
_MUCH = 0.10  # utilisation: far above
_NO_CHANGE = 0.05  # of a completion time
_LARGE_CHANGE = 0.20
_ALMOST_ALL = 0.90
_AROUND = 0.05  # “around 20 %”
_ONLY_TWO = 0.03  # “only 2 %”, up to one more
_SLIGHTLY = 0.10  # of a user's tasks
_SMALL_JOB = 50

#: A value for a seed and a rule of blocking, and whether the claim holds with it.
Measured = Callable[[int, str], tuple[float, bool]]


def trace_claims(evidence: Evidence, tables: Mapping[str, pl.DataFrame]) -> list[Claim]:
    """Return the claims about Fig. 5 to 8."""
    return [
        *_utilisation(evidence, tables["ahead"]),
        *_completion(evidence),
        *_ratios(evidence),
        *_sharing(evidence, tables["sharing"]),
    ]


def _readings(evidence: Evidence, measured: Mapping[str, Measured]) -> list[Reading]:
    """Return a reading for each way to count and each rule of blocking; the usual ones first."""
    readings = []
    for words, measure in measured.items():
        for blocked in BLOCKED:
            found = [measure(seed, blocked) for seed in evidence.seeds]
            found = [(value, holds) for value, holds in found if value == value]
            values, holds = [v for v, _ in found], [h for _, h in found]
            readings.append(Reading(CONDITIONS[blocked], values, holds, words))
    return readings


def _utilisation(evidence: Evidence, ahead: pl.DataFrame) -> list[Claim]:
    def row(first: str, seed: int, blocked: str, resource: str) -> pl.DataFrame:
        return ahead.filter(
            pl.col("first") == first, pl.col("seed") == seed, pl.col("blocked") == blocked,
            pl.col("resource") == resource,
        )  # fmt: skip

    claims = []
    for resource in ("cpu", "memory"):

        def over_slots(seed: int, blocked: str, resource: str = resource) -> tuple[float, bool]:
            pairs = pl.concat(row(first, seed, blocked, resource).filter(
                pl.col("second") == evidence.best_slots(seed)
            ) for first in (BEST_FIT, FIRST_FIT))  # fmt: skip
            least = float(pairs["mean_difference"].min())  # type: ignore[arg-type]
            return least, least >= _MUCH

        claims.append(judge(
            f"utilisation-over-slots-{resource}", "Fig. 5",
            f"Both DRFH schedulers have much higher {resource} utilisation than slots",
            "significantly", _readings(evidence, {"": over_slots}),
            f"both are at least {100 * _MUCH:g} points above slots on average",
            "points",
        ))  # fmt: skip
    for resource in ("cpu", "memory"):

        def over_first(seed: int, blocked: str, resource: str = resource) -> tuple[float, bool]:
            pair = row(BEST_FIT, seed, blocked, resource).filter(pl.col("second") == FIRST_FIT)
            part = float(pair["part_of_time"][0])
            return part, part >= _ALWAYS and pair["part_behind"][0] == 0

        claims.append(judge(
            f"utilisation-over-first-fit-{resource}", "Fig. 5",
            f"Best-Fit has uniformly higher {resource} utilisation than First-Fit at all times",
            "always", _readings(evidence, {"": over_first}),
            f"Best-Fit is ahead at {100 * _ALWAYS:g} % of the samples and never behind",
        ))  # fmt: skip
    claims.append(judge(
        "utilisation-why", "Fig. 5",
        "Slots are worse mainly because they ignore that servers and tasks differ", "yes", [],
        "a cause, which these runs cannot tell from others",
    ))  # fmt: skip
    return claims


def _completion(evidence: Evidence) -> list[Claim]:
    found = {
        (seed, blocked): both_complete(evidence, seed, evidence.best_slots(seed), blocked)
        for seed in evidence.seeds
        for blocked in BLOCKED
    }
    by_class = {key: reductions(jobs) for key, jobs in found.items()}
    quantiles = np.arange(0.01, 1.0, 0.01)

    def sooner(seed: int, blocked: str) -> tuple[float, bool]:
        jobs = found[seed, blocked]
        if not len(jobs):
            return float("nan"), False
        ours, theirs = (np.quantile(jobs[c].to_numpy(), quantiles) for c in ("ours", "theirs"))
        part = float((ours <= theirs).mean())
        return part, part >= _ALWAYS

    def of_jobs(statistic: str, *, small: bool) -> Measured:
        def measure(seed: int, blocked: str) -> tuple[float, bool]:
            jobs = found[seed, blocked]
            size = pl.col("tasks")
            jobs = jobs.filter(size <= _SMALL_JOB if small else size > _SMALL_JOB)
            # As one class, whatever their sizes are.
            value = reductions(jobs.with_columns(pl.lit(1).alias("tasks")))[statistic][0]
            if value is None:
                return float("nan"), False
            return value, abs(value) <= _NO_CHANGE if small else value >= _LARGE_CHANGE

        return measure

    def rises(statistic: str) -> Measured:
        def measure(seed: int, blocked: str) -> tuple[float, bool]:
            values = by_class[seed, blocked][statistic].drop_nulls().to_numpy()
            if len(values) < 2:
                return float("nan"), False
            part = float((np.diff(values) > 0).mean())
            return part, part == 1.0

        return measure

    ways = {
        "the mean of the jobs' reductions is meant": "mean_of_reductions",
        "the reduction of the mean time is meant": "reduction_of_means",
    }
    return [
        judge("completion-sooner", "Fig. 6a", "Jobs are complete sooner under Best-Fit than "
              "under slots", "at all quantiles", _readings(evidence, {"": sooner}),
              f"Best-Fit is not later at {100 * _ALWAYS:g} % of the quantiles"),
        judge("completion-small", "Fig. 6b",
              f"No improvement for small jobs (here: up to {_SMALL_JOB} tasks)", "none",
              _readings(evidence, {w: of_jobs(s, small=True) for w, s in ways.items()}),
              f"the reduction is within ±{100 * _NO_CHANGE:g} %"),
        judge("completion-large", "Fig. 6b",
              f"A significant reduction for larger jobs (here: more than {_SMALL_JOB} tasks)",
              "significant",
              _readings(evidence, {w: of_jobs(s, small=False) for w, s in ways.items()}),
              f"the reduction is at least {100 * _LARGE_CHANGE:g} %"),
        judge("completion-grows", "Fig. 6b", "The larger the job, the more improvement",
              "generally", _readings(evidence, {w: rises(s) for w, s in ways.items()}),
              "the reduction rises from each class of sizes to the next; the value is the part "
              "of these steps that rise"),
    ]  # fmt: skip


def _ratios(evidence: Evidence) -> list[Claim]:
    def better(*, ties: bool) -> Measured:
        def measure(seed: int, blocked: str) -> tuple[float, bool]:
            users = ratios_of(evidence, seed, blocked)
            ours, theirs = users["best_fit"], users["slots"]
            part = float(((ours >= theirs) if ties else (ours > theirs)).mean())  # type: ignore[arg-type]
            return part, part >= _ALMOST_ALL

        return measure

    def only_ours(seed: int, blocked: str) -> tuple[float, bool]:
        users = ratios_of(evidence, seed, blocked)
        part = float(((users["best_fit"] == 1) & (users["slots"] < 1)).mean())  # type: ignore[arg-type]
        return part, abs(part - 0.20) <= _AROUND

    ways = {"more is meant": better(ties=False), "more or as many is meant": better(ties=True)}
    return [
        judge("ratios-higher", "Fig. 7",
              "Almost all users complete a higher part of their tasks under Best-Fit",
              "almost all", _readings(evidence, ways),
              f"it is so for at least {100 * _ALMOST_ALL:g} % of the users"),
        judge("ratios-all-tasks", "Fig. 7",
              "Around 20 % of the users complete all tasks under Best-Fit but not under slots",
              "20 %", _readings(evidence, {"": only_ours}),
              f"it is within {100 * _AROUND:g} points of 20 %"),
    ]  # fmt: skip


def _sharing(evidence: Evidence, table: pl.DataFrame) -> list[Claim]:
    def gain(seed: int, blocked: str) -> pl.Series:
        rows = table.filter(pl.col("seed") == seed, pl.col("blocked") == blocked)
        return rows["shared"] - rows["dedicated"]

    def most(*, ties: bool) -> Measured:
        def measure(seed: int, blocked: str) -> tuple[float, bool]:
            more = gain(seed, blocked)
            part = float(((more >= 0) if ties else (more > 0)).mean())  # type: ignore[arg-type]
            return part, part > 0.5

        return measure

    def fall(seed: int, blocked: str) -> tuple[float, bool]:
        part = float((gain(seed, blocked) < 0).mean())  # type: ignore[arg-type]
        return part, part <= _ONLY_TWO

    def lost(statistic: Callable[[pl.Series], Any]) -> Measured:
        def measure(seed: int, blocked: str) -> tuple[float, bool]:
            more = gain(seed, blocked)
            if not (more < 0).any():  # then there is nobody to speak of
                return float("nan"), False
            amount = float(statistic(-more.filter(more < 0)))
            return amount, amount <= _SLIGHTLY

        return measure

    def some(seed: int, blocked: str) -> tuple[float, bool]:
        number = int((gain(seed, blocked) < 0).sum())
        return float(number), number > 0

    ways = {"more is meant": most(ties=False), "more or as many is meant": most(ties=True)}
    slightly = {
        "the user who loses most is meant": lost(pl.Series.max),
        "the median of those who lose is meant": lost(pl.Series.median),
    }
    return [
        judge("sharing-not-all", "Fig. 8", "Sharing incentive is not guaranteed for all users",
              "some fall", _readings(evidence, {"": some}),
              "at least one user completes fewer tasks in the shared cloud", "number"),
        judge("sharing-most", "Fig. 8", "Most users benefit from the shared cloud", "most",
              _readings(evidence, ways),
              "more than half of the users complete more tasks in it than in their own"),
        judge("sharing-fall", "Fig. 8",
              "Only 2 % of the users see fewer tasks finished in the shared cloud", "2 %",
              _readings(evidence, {"": fall}), f"it is at most {100 * _ONLY_TWO:g} %"),
        judge("sharing-slightly", "Fig. 8",
              "Even for these users the completion ratio decreases only slightly", "slightly",
              _readings(evidence, slightly),
              f"the fall is at most {100 * _SLIGHTLY:g} points", "points"),
    ]  # fmt: skip
