"""The scorecard: every sentence of the paper's evaluation that says a number or makes a claim.

What is claimed and where the line is drawn stands here; the verdict follows by
:func:`~drfh.experiments.claims.judge`. Where the paper gives no line (“slightly”), it is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from drfh.experiments.claims import Claim, Reading, judge
from drfh.experiments.dynamic import Dynamic
from drfh.experiments.evidence import BEST_FIT, BLOCKED, Evidence
from drfh.experiments.scorecard_trace import CONDITIONS, trace_claims
from drfh.experiments.slots import PAPER

__all__ = ["score"]

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
    """Return all claims with their verdicts, in the order of the paper."""
    return (
        *_two_servers(tables["two_servers"]),
        *_set_up(evidence, numbers),
        *_dynamic(dynamic),
        *_slots(tables["slots"]),
        *trace_claims(evidence, tables),
    )


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

    def reading(table: pl.DataFrame, policy: str, users: str, column: str, paper: float) -> Reading:
        rows = table.filter(pl.col("phase") == users, pl.col("user").is_in(users.split("+")))
        middle = rows.group_by("user", maintain_order=True).agg(pl.col(column).median())
        values = middle[column].to_list()
        near = [abs(value - paper) <= _STATED for value in values]
        return Reading(f"{policy} is meant", values, near)

    def stated(short: str, text: str, users: str, column: str, paper: float) -> Claim:
        readings = [reading(settled, "Best-Fit, as the paper says,", users, column, paper)]
        if column == "dominant":  # of the others the paper's algorithm is not in doubt
            other = _settled(dynamic, dynamic.first_fit)
            strict = f"First-Fit where {CONDITIONS['strict']}"
            readings.append(reading(other, strict, users, column, paper))
        rule = f"each is within {100 * _STATED:g} point of the paper's"
        paper_text = f"{100 * paper:g} %"
        return judge(short, figure, text, paper_text, readings, rule, each="users")

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
    """Return the samples at which neither old tasks nor the end of a user blur the picture."""
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
    claims = []
    for number, stated in PAPER.items():
        for resource, paper in zip(("cpu", "memory"), stated, strict=True):
            readings = []
            for count, oversize in rules if number in numbers else ():
                values = ours.filter(
                    pl.col("count_rule") == count, pl.col("oversize") == oversize,
                    pl.col("slots") == number,
                )[resource].to_list()  # fmt: skip
                near = [abs(value - paper) <= _OTHER_POOL for value in values]
                readings.append(Reading(_rule_words(count, oversize), values, near))
            claims.append(
                judge(
                    f"slots-{number}-{resource}",
                    "Table II",
                    f"{number} slots per largest server: {resource} utilisation",
                    f"{100 * paper:.1f} %",
                    readings,
                    f"it is within {100 * _OTHER_POOL:g} points of the paper's",
                )
            )
    best = []
    for count, oversize in rules if 14 in numbers else ():
        rows = ours.filter(pl.col("count_rule") == count, pl.col("oversize") == oversize)
        overall = (pl.col("cpu") + pl.col("memory")).alias("overall")
        top = rows.sort("slots").sort(overall, descending=True, maintain_order=True)
        first = top.unique("seed", keep="first", maintain_order=True).sort("seed")
        found = [float(value) for value in first["slots"].to_list()]
        best.append(Reading(_rule_words(count, oversize), found, [v == 14 for v in found]))
    claims.append(
        judge("slots-best", "Table II", "14 slots give the highest overall utilisation",
              "14 slots", best, "CPU and memory utilisation together are highest with 14",
              "slots")
    )  # fmt: skip
    return claims


def _rule_words(count: str, oversize: str) -> str:
    return f"slots follow {_COUNTED[count]} and large tasks {_OVERSIZE[oversize]}"
