"""The scorecard: every claim of the paper's evaluation, and the numbers it is judged by.

The verdict follows by :func:`~drfh.experiments.claims.judge`. Where the paper gives no threshold
(“slightly”), it is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from drfh.experiments.claims import Claim, Reading, judge
from drfh.experiments.figures import (
    PAPER,
    Dynamic,
    both_complete,
    job_reductions,
    ratios_of,
    reductions,
)
from drfh.experiments.runs import BEST_FIT, BLOCKED, FIRST_FIT, Evidence
from drfh.formatting import format_percent, format_points

__all__ = ["CONDITIONS", "rank_correlation", "score", "trace_claims"]


#: What to do when the user whose turn it is is blocked → the end of “holds if …”.
CONDITIONS = {"skip": "a blocked user is skipped", "strict": "a blocked user stops all"}

_ALWAYS = 0.99  # of the samples
_MUCH = 0.10  # utilisation: far above
_NO_CHANGE = 0.05  # of a completion time
_LARGE_CHANGE = 0.20
_ALMOST_ALL = 0.90
_AROUND = 0.05  # “around 20 %”
_ONLY_TWO = 0.03  # “only 2 %”, up to one more
_SLIGHTLY = 0.10  # of a user's tasks: the mean fall
_FEW_MORE = 0.10  # of those who fall may fall by more than that
_WORST_FALL = 0.25  # of the one who falls most
_CORRELATED = 0.10  # a rank correlation below that is none to speak of
_SURE = 1.96  # standard errors to the ends of a 95 % interval
_ROUND_OFF = 1e-12
_SMALL_JOB = 50


class Measured(NamedTuple):
    """A claim's value for a seed and a rule of blocking."""

    value: float
    holds: bool
    further: tuple[float, ...] = ()
    """Values that are named beside it."""


_NOTHING = Measured(float("nan"), False)
Floats: TypeAlias = NDArray[np.float64]
Measure: TypeAlias = Callable[[int, str], Measured]


def trace_claims(evidence: Evidence, tables: Mapping[str, pl.DataFrame]) -> list[Claim]:
    """Return the claims about Fig. 5 to 8."""
    return [
        *_utilisation(evidence, tables["ahead"]),
        *_completion(evidence),
        *_ratios(evidence),
        *_sharing(evidence, tables["sharing"]),
    ]


def _readings(
    evidence: Evidence,
    measures: Mapping[str, Measure],
    beside: Callable[[Floats], str] = lambda further: "",
) -> list[Reading]:
    """Return a reading for each way to count and each rule of blocking; the usual ones first.

    `beside` says what stands beside, from the further values: seeds × values.
    """
    readings = []
    for way, measure in measures.items():
        for blocked in BLOCKED:
            found = [measure(seed, blocked) for seed in evidence.seeds]
            found = [one for one in found if one.value == one.value]
            values, holds = [one.value for one in found], [one.holds for one in found]
            said = beside(np.array([one.further for one in found])) if found else ""
            readings.append(Reading(CONDITIONS[blocked], values, holds, way, said))
    return readings


def _ties(what: str) -> Callable[[Floats], str]:
    """Return what names the ties, which are the first further value."""

    def said(further: Floats) -> str:
        same = float(further[:, 0].mean())
        return f"ties: {format_percent(same)} of the {what}" if same else "no ties"

    return said


def _utilisation(evidence: Evidence, ahead: pl.DataFrame) -> list[Claim]:
    def row(first: str, seed: int, blocked: str, resource: str) -> pl.DataFrame:
        return ahead.filter(
            pl.col("first") == first, pl.col("seed") == seed, pl.col("blocked") == blocked,
            pl.col("resource") == resource,
        )  # fmt: skip

    claims = []
    for resource in ("cpu", "memory"):

        def over_slots(seed: int, blocked: str, resource: str = resource) -> Measured:
            pairs = pl.concat(row(first, seed, blocked, resource).filter(
                pl.col("second") == evidence.best_slots(seed)
            ) for first in (BEST_FIT, FIRST_FIT))  # fmt: skip
            least = float(pairs["mean_difference"].min())  # type: ignore[arg-type]
            return Measured(least, least >= _MUCH)

        claims.append(judge(
            f"utilisation-over-slots-{resource}", "Fig. 5",
            f"Both DRFH schedulers have much higher {resource} utilisation than slots",
            "significantly", _readings(evidence, {"": over_slots}),
            f"both are at least {format_points(_MUCH, trim=True)} above slots on average",
            "points",
        ))  # fmt: skip
    for resource in ("cpu", "memory"):

        def over_first(seed: int, blocked: str, resource: str = resource) -> Measured:
            pair = row(BEST_FIT, seed, blocked, resource).filter(pl.col("second") == FIRST_FIT)
            ahead, behind = (float(pair[name][0]) for name in ("part_of_time", "part_behind"))
            same = round(1 - behind - ahead, 12)
            return Measured(1 - behind, behind == 0 and ahead > 0, (same,))

        claims.append(judge(
            f"utilisation-over-first-fit-{resource}", "Fig. 5",
            f"Best-Fit has uniformly higher {resource} utilisation than First-Fit at all times",
            "always", _readings(evidence, {"": over_first}, _ties("samples")),
            "Best-Fit is behind at no sample, and ahead at some; the value is the part of the "
            "samples at which it is not behind",
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
    quantiles = np.arange(0.01, 1.0, 0.01)

    def sooner(seed: int, blocked: str) -> Measured:
        jobs = found[seed, blocked]
        if not len(jobs):
            return _NOTHING
        ours, theirs = (np.quantile(jobs[c].to_numpy(), quantiles) for c in ("ours", "theirs"))
        part = float((ours <= theirs).mean())
        return Measured(part, part >= _ALWAYS, (float((ours == theirs).mean()),))

    def of_jobs(statistic: str, *, small: bool) -> Measure:
        def measure(seed: int, blocked: str) -> Measured:
            jobs = found[seed, blocked]
            size = pl.col("tasks")
            jobs = jobs.filter(size <= _SMALL_JOB if small else size > _SMALL_JOB)
            # As one class, whatever their sizes are.
            value = reductions(jobs.with_columns(pl.lit(1).alias("tasks")))[statistic][0]
            if value is None:
                return _NOTHING
            return Measured(value, abs(value) <= _NO_CHANGE if small else value >= _LARGE_CHANGE)

        return measure

    def grows(seed: int, blocked: str) -> Measured:
        jobs = found[seed, blocked]
        correlation, low, high = rank_correlation(jobs["tasks"], job_reductions(jobs))
        return Measured(correlation, low > _CORRELATED, (low, high))

    def interval(ends: Floats) -> str:
        low, high = ends[:, 0].min(), ends[:, 1].max()
        return f"95 % interval {low:.3f} to {high:.3f}"

    ways = {
        "the mean of the jobs' reductions is meant": "mean_of_reductions",
        "the reduction of the mean time is meant": "reduction_of_means",
    }
    return [
        judge("completion-sooner", "Fig. 6a", "Jobs are complete sooner under Best-Fit than "
              "under slots", "at all quantiles",
              _readings(evidence, {"": sooner}, _ties("quantiles")),
              f"Best-Fit is not later at {format_percent(_ALWAYS, trim=True)} of the quantiles"),
        judge("completion-small", "Fig. 6b",
              f"No improvement for small jobs (here: up to {_SMALL_JOB} tasks)", "none",
              _readings(evidence, {w: of_jobs(s, small=True) for w, s in ways.items()}),
              f"the reduction is within ±{format_percent(_NO_CHANGE, trim=True)}"),
        judge("completion-large", "Fig. 6b",
              f"A significant reduction for larger jobs (here: more than {_SMALL_JOB} tasks)",
              "significant",
              _readings(evidence, {w: of_jobs(s, small=False) for w, s in ways.items()}),
              f"the reduction is at least {format_percent(_LARGE_CHANGE, trim=True)}"),
        judge("completion-grows", "Fig. 6b", "The larger the job, the more improvement",
              "generally", _readings(evidence, {"": grows}, interval),
              "Spearman's rank correlation of a job's tasks and its reduction is above "
              f"{_CORRELATED:g}, with its whole 95 % interval (all draws together)", "number"),
    ]  # fmt: skip


def rank_correlation(one: pl.Series, two: pl.Series) -> tuple[float, float, float]:
    """Return Spearman's rank correlation and the ends of its 95 % interval.

    The interval is that of Fisher's transformation, with the standard error of Bonett and Wright
    (2000); NaN for fewer than four pairs, or if one of the two is the same for all.

    Examples
    --------
    >>> found = rank_correlation(pl.Series([1, 2, 3, 4, 5]), pl.Series([0.1, 0.2, 0.4, 0.3, 0.5]))
    >>> [round(number, 3) for number in found]
    [0.9, -0.169, 0.996]
    """
    ranks = [column.rank().to_numpy() for column in (one, two)]
    if len(one) < 4 or any(np.ptp(rank) == 0 for rank in ranks):
        return (float("nan"),) * 3
    found = float(np.corrcoef(ranks[0], ranks[1])[0, 1])
    inside = min(max(found, -1 + _ROUND_OFF), 1 - _ROUND_OFF)
    reach = _SURE * np.sqrt((1 + inside**2 / 2) / (len(one) - 3))
    middle = np.arctanh(inside)
    return found, float(np.tanh(middle - reach)), float(np.tanh(middle + reach))


def _ratios(evidence: Evidence) -> list[Claim]:
    def not_behind(seed: int, blocked: str) -> Measured:
        users = ratios_of(evidence, seed, blocked)
        part, same = _not_behind(users["best_fit"] - users["slots"])
        return Measured(part, part >= _ALMOST_ALL, (same,))

    def only_ours(seed: int, blocked: str) -> Measured:
        users = ratios_of(evidence, seed, blocked)
        part = float(((users["best_fit"] == 1) & (users["slots"] < 1)).mean())  # type: ignore[arg-type]
        return Measured(part, abs(part - 0.20) <= _AROUND)

    ties = _ties("users")
    return [
        judge("ratios-higher", "Fig. 7",
              "Almost all users complete a higher part of their tasks under Best-Fit",
              "almost all",
              _readings(evidence, {"": not_behind}, ties),
              f"at least {format_percent(_ALMOST_ALL, trim=True)} of the users are not behind"),
        judge("ratios-all-tasks", "Fig. 7",
              "Around 20 % of the users complete all tasks under Best-Fit but not under slots",
              "20 %", _readings(evidence, {"": only_ours}),
              f"it is within {format_points(_AROUND, trim=True)} of 20 %"),
    ]  # fmt: skip


def _not_behind(gain: pl.Series) -> tuple[float, float]:
    """Return the part of users that do not lose, and of those that neither gain nor lose."""
    return float((gain >= 0).mean()), float((gain == 0).mean())  # type: ignore[arg-type]


def _sharing(evidence: Evidence, table: pl.DataFrame) -> list[Claim]:
    def gain(seed: int, blocked: str) -> pl.Series:
        rows = table.filter(pl.col("seed") == seed, pl.col("blocked") == blocked)
        return rows["shared"] - rows["dedicated"]

    def most(seed: int, blocked: str) -> Measured:
        part, same = _not_behind(gain(seed, blocked))
        return Measured(part, part > 0.5, (same,))

    def fall(seed: int, blocked: str) -> Measured:
        part = float((gain(seed, blocked) < 0).mean())  # type: ignore[arg-type]
        return Measured(part, part <= _ONLY_TWO)

    def slightly(seed: int, blocked: str) -> Measured:
        more = gain(seed, blocked)
        lost = -more.filter(more < 0).to_numpy()
        if not len(lost):  # then there is nobody to speak of
            return _NOTHING
        mean, above, worst = lost.mean(), (lost > _SLIGHTLY).mean(), lost.max()
        few = mean <= _SLIGHTLY and above <= _FEW_MORE and worst <= _WORST_FALL
        return Measured(float(mean), bool(few), (float(above), float(worst)))

    def falls(further: Floats) -> str:
        above, worst = float(further[:, 0].mean()), float(further[:, 1].max())
        return (
            f"{format_percent(above)} of them fall by more than "
            f"{format_points(_SLIGHTLY, trim=True)}, the worst by {format_points(worst)}"
        )

    def some(seed: int, blocked: str) -> Measured:
        number = int((gain(seed, blocked) < 0).sum())
        return Measured(float(number), number > 0)

    ties = _ties("users")
    return [
        judge("sharing-not-all", "Fig. 8", "Sharing incentive is not guaranteed for all users",
              "some fall", _readings(evidence, {"": some}),
              "at least one user completes fewer tasks in the shared cloud", "number"),
        judge("sharing-most", "Fig. 8", "Most users benefit from the shared cloud", "most",
              _readings(evidence, {"": most}, ties),
              "more than half of the users are not behind in it"),
        judge("sharing-fall", "Fig. 8",
              "Only 2 % of the users see fewer tasks finished in the shared cloud", "2 %",
              _readings(evidence, {"": fall}), "it is at most "
                                               f"{format_percent(_ONLY_TWO, trim=True)}"),
        judge("sharing-slightly", "Fig. 8",
              "Even for these users the completion ratio decreases only slightly", "slightly",
              _readings(evidence, {"": slightly}, falls),
              f"they fall by at most {format_points(_SLIGHTLY, trim=True)} on average, at most "
              f"{format_percent(_FEW_MORE, trim=True)} of them by more than that, and nobody by "
              f"more than {format_points(_WORST_FALL, trim=True)}", "points"),
    ]  # fmt: skip


_STATED = 0.01  # a whole percentage of the same pool: this far apart it is the same
_OTHER_POOL = 0.02  # a percentage of another draw of servers
_TWELVE_THOUSAND = (11_500, 13_000)
_TWO_THOUSAND = 2000
_COUNTED = {"min": "the scarcer resource", "cpu": "the CPU"}
_OVERSIZE = {
    "ceil": "take several",
    "reject": "never run",
    "overcommit": "take one",
    "fitcheck": "take one where they fit",
}


def score(
    evidence: Evidence,
    tables: Mapping[str, pl.DataFrame],
    dynamic: Dynamic,
    numbers: Mapping[str, Any],
) -> tuple[Claim, ...]:
    """Return all claims with their verdicts, in the order of the paper.

    What is claimed about the trace neither holds nor fails on a generated workload.
    """

    def on_trace(claims: list[Claim]) -> list[Claim]:
        return [_on_generated(c) for c in claims] if numbers["source"]["generated"] else claims

    return (
        *_two_servers(tables["two_servers"]),
        *on_trace(_set_up(evidence, numbers)),
        *_dynamic(dynamic),
        *on_trace([*_slots(tables["slots"]), *trace_claims(evidence, tables)]),
    )


def _on_generated(claim: Claim) -> Claim:
    """Return the claim with its number, if it has one, and without a verdict."""
    if claim.ours is None:
        return claim
    note = f"on Google's trace: {claim.note}"
    return replace(claim, verdict="generated", condition="", note=note)


def _two_servers(table: pl.DataFrame) -> list[Claim]:
    def claim(short: str, figure: str, mechanism: str, text: str, tasks: float) -> Claim:
        rows = table.filter(pl.col("mechanism") == mechanism, pl.col("kind") == "divisible")
        values = rows["tasks"].to_list()
        reading = Reading("", values, [value == tasks for value in values])
        rule = f"both users have {tasks:g} tasks"
        return judge(short, figure, text, f"{tasks:g} each", [reading], rule, "tasks")

    return [
        claim("two-naive", "Fig. 2", "per-server-drf",
              "DRF on each server apart: both users schedule 6 tasks", 6),
        claim("two-drfh", "Fig. 3", "drfh", "DRFH: both users schedule 10 tasks", 10),
    ]  # fmt: skip


def _set_up(evidence: Evidence, numbers: Mapping[str, Any]) -> list[Claim]:
    real = not numbers["source"]["generated"]
    machines = [float(numbers["source"]["machines"])] if real else []
    low, high = _TWELVE_THOUSAND
    part = "only this part of the trace is used"
    own = evidence.users.filter(pl.col("seed") == evidence.seeds[0])["servers"]
    servers = int(own.sum())  # dedicated clouds are a partition of them
    here = "" if servers == _TWO_THOUSAND else f" (here: {servers:,})"
    waits = [
        Reading(
            CONDITIONS[blocked],
            values := [_part_waiting(evidence, seed, blocked) for seed in evidence.seeds],
            [value >= 0.5 for value in values],
        )
        for blocked in BLOCKED
    ]
    users = judge("set-users", "Set-up", "The traces have over 900 users", "> 900", [], part)
    hours = judge("set-hours", "Set-up", "24 hours of demand are simulated", "24 hours", [], part)
    return [
        replace(users, ours=float(numbers["users"]), unit="number"),
        judge("set-machines", "Set-up", "The traces are of a cluster of 12K servers", "12K",
              [Reading("", machines, [low <= n <= high for n in machines])] if real else [],
              f"there are {low:,} to {high:,} machines at the start of the window", "number"),
        replace(hours, ours=numbers["window"] / 3600, unit="hours"),
        judge("set-relevant", "Set-up",
              f"On 2,000 servers{here} fairness becomes relevant (tasks wait)", "yes", waits,
              "tasks wait for at least half of the time under Best-Fit"),
    ]  # fmt: skip


def _part_waiting(evidence: Evidence, seed: int, blocked: str) -> float:
    queued = evidence.run(BEST_FIT, seed, blocked).samples["queued"]
    return float((queued > 0).mean())  # type: ignore[arg-type]


def _dynamic(dynamic: Dynamic) -> list[Claim]:
    figure = "Fig. 4"
    phases = [row["users"] for row in dynamic.phases.rows(named=True)]
    settled = _settled(dynamic, dynamic.table)
    alone, two, three, last = phases[:4]

    def shares(table: pl.DataFrame, users: str, column: str) -> list[float]:
        rows = table.filter(pl.col("phase") == users, pl.col("user").is_in(users.split("+")))
        middle = rows.group_by("user", maintain_order=True).agg(pl.col(column).median())
        return [float(value) for value in middle[column]]

    def stated(short: str, text: str, users: str, column: str, paper: float) -> Claim:
        values = shares(settled, users, column)
        near = [abs(value - paper) <= _STATED for value in values]
        beside = ""
        if column == "dominant" and not all(near):  # no reading of the paper's words: beside it
            other = shares(_settled(dynamic, dynamic.first_fit), users, column)
            strict = f"First-Fit where {CONDITIONS['strict']}"
            mean = format_percent(sum(other) / len(other))
            beside = f"{strict}, another algorithm, gives {mean}"
        rule = f"each is within {100 * _STATED:g} point of the paper's under Best-Fit"
        paper_text = f"{format_percent(paper, trim=True)}"
        reading = Reading("", values, near, beside=beside)
        return judge(short, figure, text, paper_text, [reading], rule, each="users")

    totals = dynamic.totals
    same = [round(totals[name], 2) == value for name, value in (("cpu", 52.75), ("memory", 51.32))]
    after = settled.filter(pl.col("phase") == last, pl.col("dominant") > 0)
    spread = after.group_by("time").agg(
        (pl.col("dominant").max() - pl.col("dominant").min()).alias("apart")
    )["apart"]
    worst = float(spread.max())  # type: ignore[arg-type]
    leaves = judge(
        "dynamic-leaves", figure, "User 1 finishes its tasks and departs at 1,080 s", "1,080 s",
        [], "the paper does not give numbers and run times of tasks: here they are chosen for this",
    )  # fmt: skip
    return [
        judge("dynamic-pool", figure, "100 servers have 52.75 CPU units (and 51.32 memory units)",
              "52.75", [Reading("", [totals["cpu"]], [all(same)])],
              "both totals are the paper's, to two digits", "number"),
        stated("dynamic-alone-cpu", "User 1 alone is allocated 40 % of the CPU",
               alone, "cpu", 0.40),
        stated("dynamic-alone-memory", "User 1 alone is allocated 62 % of the memory",
               alone, "memory", 0.62),
        stated("dynamic-two", "Users 1 and 2 receive 44 % global dominant share each",
               two, "dominant", 0.44),
        stated("dynamic-three", "All three users receive the same share of 26 %",
               three, "dominant", 0.26),
        replace(leaves, ours=float(dynamic.phases["end"][2]), unit="seconds"),
        judge("dynamic-after", figure, "Then users 2 and 3 receive the same share", "equal",
              [Reading("", [worst], [worst <= _STATED])],
              f"their shares are within {100 * _STATED:g} point of each other", "points"),
        _precise(settled, figure),
    ]  # fmt: skip


def _settled(dynamic: Dynamic, table: pl.DataFrame) -> pl.DataFrame:
    """Return the samples at which neither old tasks nor the end of a user disturb."""
    parts = []
    for start, end, users in dynamic.phases.rows():
        inside = pl.col("time").is_between(
            start + dynamic.task_seconds, end - dynamic.task_seconds, closed="left"
        )
        parts.append(table.filter(inside).with_columns(pl.lit(users).alias("phase")))
    return pl.concat(parts)


def _precise(settled: pl.DataFrame, figure: str) -> Claim:
    readings = []
    for column, condition in (
        ("exact", "the exact divisible allocation is meant"),
        ("whole", "the optimum of whole tasks is meant"),
    ):
        active = settled.filter(pl.col(column) > 0)
        short = float((1 - active["dominant"] / active[column]).max())  # type: ignore[arg-type]
        readings.append(Reading(condition, [max(short, 0.0)], [short <= _STATED]))
    rule = "nobody ever misses more than 1 % of its share, a run time after a change and before one"
    return judge(
        "dynamic-precise", figure, "Best-Fit precisely achieves the DRFH allocation at all times",
        "nobody misses anything", readings, rule,
    )  # fmt: skip


def _slots(table: pl.DataFrame) -> list[Claim]:
    ours = table.filter(pl.col("source") == "ours")
    rules = ours.select("count_rule", "oversize").unique(maintain_order=True).rows()
    if ("min", "ceil") in rules:  # the usual one first
        rules = sorted(rules, key=lambda rule: rule != ("min", "ceil"))
    numbers = ours["slots"].unique().to_list()
    claims = [_cells(ours, count, oversize) for count, oversize in rules]
    best = []
    for count, oversize in rules if 14 in numbers else ():
        rows = ours.filter(pl.col("count_rule") == count, pl.col("oversize") == oversize)
        overall = (pl.col("cpu") + pl.col("memory")).alias("overall")
        top = rows.sort("slots").sort(overall, descending=True, maintain_order=True)
        first = top.unique("seed", keep="first", maintain_order=True).sort("seed")
        found = [float(value) for value in first["slots"].to_list()]
        best.append(Reading(_rule_text(count, oversize), found, [v == 14 for v in found]))
    claims.append(
        judge("slots-best", "Table II", "14 slots give the highest overall utilisation",
              "14 slots", best, "CPU and memory utilisation together are highest with 14",
              "slots")
    )  # fmt: skip
    return claims


def _cells(ours: pl.DataFrame, count: str, oversize: str) -> Claim:
    """Return the claim that all cells of Table II come out under one rule of slots."""
    cells = sum(len(used) for used in PAPER.values())
    rows = ours.filter(pl.col("count_rule") == count, pl.col("oversize") == oversize)
    near, apart = [], []
    for _, of_seed in rows.group_by("seed", maintain_order=True):
        found = {number: used for number, *used in of_seed.select("slots", "cpu", "memory").rows()}
        if found.keys() >= PAPER.keys():
            away = np.abs([np.subtract(found[number], used) for number, used in PAPER.items()])
            near.append(float((away <= _OTHER_POOL).sum()))
            apart.append(away)
    beside = ""
    if apart:
        beside = (
            f"{format_points(float(np.mean(apart)))} apart on average, "
            f"{format_points(float(np.max(apart)))} at most"
        )
    return judge(
        f"slots-{count}-{oversize}", "Table II",
        f"CPU and memory utilisation for 10 to 20 slots, if {_rule_text(count, oversize)}",
        f"{cells} cells", [Reading("", near, [n == cells for n in near], beside=beside)],
        f"all {cells} cells are within {format_points(_OTHER_POOL, trim=True)} of the paper's; "
        "the value is how many are", "cells",
    )  # fmt: skip


def _rule_text(count: str, oversize: str) -> str:
    return f"slots follow {_COUNTED[count]} and large tasks {_OVERSIZE[oversize]}"
