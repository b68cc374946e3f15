"""Simulations as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from drfh.cli.render.console import Column, console, print_columns, print_json, print_line, table
from drfh.formatting import (
    format_count,
    format_duration,
    format_number,
    format_percent,
    format_rest,
    plural,
)

if TYPE_CHECKING:
    from polars import DataFrame

    from drfh.model.cluster import Cluster
    from drfh.model.jobs import Workload
    from drfh.simulation.result import Result

__all__ = ["print_devices", "print_policies", "print_runs", "spans", "spark"]

_BLOCKS = "▁▂▃▄▅▆▇█"
_WIDTH = 24
_MOST_USERS = 12


def spark(values: Any, width: int = _WIDTH, top: float = 1.0) -> str:
    """Return a sparkline of numbers from 0 to `top`.

    Examples
    --------
    >>> spark([0, 0.25, 0.5, 1.0]), spark([0, 1, 1, 1], width=2)
    ('▁▃▅█', '▅█')
    """
    numbers = np.nan_to_num(np.asarray(values, dtype=float))
    if not len(numbers) or not top > 0:
        return ""
    parts = np.array_split(numbers, min(width, len(numbers)))
    steps = [min(max(float(part.mean()) / top, 0.0), 1.0) for part in parts]
    return "".join(_BLOCKS[min(int(step * len(_BLOCKS) + 0.5), len(_BLOCKS) - 1)] for step in steps)


def spans(values: Sequence[float | None]) -> list[str]:
    """Return time spans, each in its own unit.

    Examples
    --------
    >>> spans([60, 7200, None])
    ['60 s', '2 h', '–']
    """
    return [format_duration(value) for value in values]


def print_policies(*, as_json: bool) -> None:
    """Print the names of policies and of their parts."""
    from drfh.policies import POLICIES
    from drfh.policies.policy import KNOWN, shown_names

    named = {name: policy.name for name, policy in POLICIES.items()}
    if as_json:
        parts = {part: shown_names(known) for part, known in KNOWN.items()}
        print_json({"policies": [*named, "slots:N"], "parts": parts})
        return
    out = console()
    print_line("policies: " + ", ".join([*named, "slots:N"]))
    print_line("or parts joined by +, such as drfh+cosine+strict+backfill:")
    grid = table("part", "name", "what it does")
    for part, known in KNOWN.items():
        for name, what in zip(shown_names(known), known.values(), strict=True):
            grid.add_row(part, name, what)
    out.print(grid)


def print_runs(
    title: str,
    cluster: Cluster,
    workload: Workload,
    names: Sequence[str],
    results: Sequence[Result],
    *,
    everyone: bool = False,
) -> None:
    """Print a row for each run; for one, also its users."""
    from drfh.simulation.result import common_jobs

    out = console()
    if title:
        out.print(title, style="bold")
    print_line(cluster.summary)
    print_line(f"{format_count(len(workload.users), 'user')}, {workload.summary}")
    out.print()
    jobs = common_jobs(results)
    _print_summaries(out, names, results, jobs)
    if len(results) == 1:
        _print_users(out, results[0], everyone=everyone)
    _print_job_scope(results, len(jobs[0]))
    for name, result in zip(names, results, strict=True):
        _print_notes(name if len(results) > 1 else "", result)


def print_devices(names: Sequence[str], found: Sequence[Mapping[str, Any]]) -> None:
    """Print how many tasks with parts of GPUs fit no device."""
    rows = [(name, each["devices"]) for name, each in zip(names, found, strict=True) if each]
    for name, facts in rows:
        who = f"{name}: " if len(rows) > 1 else ""
        part = facts["fractional_no_room"] / facts["fractional"] if facts["fractional"] else None
        print_line(
            f"{who}{facts['fractional_no_room']:,} of {facts['fractional']:,} tasks with a part of "
            f"a GPU ({format_percent(part)}) were placed where no single device had room, and "
            f"{facts['whole_no_room']:,} of {facts['whole']:,} with whole GPUs where too few were "
            "empty"
        )


def _print_summaries(
    out: Any, names: Sequence[str], results: Sequence[Result], jobs: Sequence[DataFrame]
) -> None:
    from drfh.simulation.metrics import spread

    facts = [result.numbers for result in results]
    turnaround = [spread(table["turnaround"]) or {} for table in jobs]
    resources = list(facts[0]["utilisation"])
    work = [
        Column("time", spans([f["horizon"] for f in facts])),
        Column("tasks done", [f"{f['tasks']['completed']:,}" for f in facts], wraps=True),
        Column("of", [f"{f['tasks']['submitted']:,}" for f in facts]),
        Column("mean waiting", spans([f["mean_waiting"] for f in facts]), wraps=True),
        Column("median job", spans([t.get("median") for t in turnaround]), wraps=True),
        Column("p95 job", spans([t.get("p95") for t in turnaround]), wraps=True),
    ]
    full = [
        Column(resource, [format_percent(f["utilisation"][resource]) for f in facts])
        for resource in resources
    ]
    used = [f"utilisation.{resource}" for resource in resources]
    lines = [spark(result.samples.select(used).to_numpy().mean(axis=1)) for result in results]
    full.append(Column("full over time", lines, right=False))
    fairness = [Column("Jain", ["–" if f["jain"] is None else f"{f['jain']:.3f}" for f in facts])]
    if any(f["fair"] for f in facts):
        away = [f["fair"] or {} for f in facts]
        lines = [spark(result.samples["fair.missing"]) for result in results]
        fairness += [
            Column("from fair", [format_percent(f.get("mean_missing")) for f in away], wraps=True),
            Column("at most", [format_percent(f.get("max_missing")) for f in away], wraps=True),
            Column("", lines, right=False, spare=1),
        ]
    print_columns(out, Column("policy", names, right=False), [work, full, fairness])


def _print_users(out: Any, result: Result, *, everyone: bool) -> None:
    rows = result.users.to_dicts()
    shown = rows
    if len(rows) > _MOST_USERS and not everyone:
        shown = sorted(rows, key=lambda row: -row["mean_share"])[:_MOST_USERS]
    print_line("Users, with their dominant share over time")
    names = [row["user"] for row in shown]
    top = max((float(result.samples[f"share.{name}"].max() or 0.0) for name in names), default=0.0)  # type: ignore[arg-type]
    columns = [
        Column("weight", [format_number(row["weight"]) for row in shown], spare=1),
        Column("tasks done", [f"{row['completed']:,}" for row in shown], wraps=True),
        Column("of", [f"{row['submitted']:,}" for row in shown]),
        Column("mean waiting", spans([row["mean_waiting"] for row in shown]), wraps=True),
        Column("mean share", [format_percent(row["mean_share"]) for row in shown], wraps=True),
        Column("", [spark(result.samples[f"share.{n}"], top=top) for n in names], right=False,
               spare=2),
    ]  # fmt: skip
    if result.numbers["fair"]:
        below = spans([row["below_fair"] for row in shown])
        columns.append(Column("below fair", below, wraps=True))
    print_columns(out, Column("user", names, right=False), [columns])
    if len(shown) < len(rows):
        print_line(format_rest(len(rows) - len(shown), "user", "more with less (--all shows them)"))


def _print_job_scope(results: Sequence[Result], finished: int) -> None:
    """Print of which jobs the times are, if not of all."""
    open_ = len(results[0].jobs) - finished
    if finished and open_:
        where = " in all runs" if len(results) > 1 else ""
        which = f"{format_count(finished, 'job')} that finished{where}"
        print_line(f"job times are of the {which}; {open_:,} did not", "yellow")
    elif open_ and any(result.numbers["jobs"]["completed"] for result in results):
        print_line("no job finished in all runs: there are no job times to compare", "yellow")


def _print_scope(head: str, tasks: Mapping[str, int]) -> None:
    """Print of which tasks the waiting is, if not of all."""
    started = tasks["started"]
    idle = tasks["submitted"] - started
    if started and idle:
        which = f"{format_count(started, 'task')} that started"
        print_line(f"{head}mean waiting is of the {which}; {idle:,} never did", "yellow")


def _print_notes(name: str, result: Result) -> None:
    """Print what the table does not have."""
    from drfh.simulation.result import mixed_note

    facts = result.numbers
    tasks = facts["tasks"]
    head = f"{name}: " if name else ""
    if tasks["never"]:
        lost = format_count(tasks["never"], "task")
        print_line(f"{head}{lost} could run on no server, not even on an empty one", "yellow")
    if tasks["evictions"]:
        were = plural(tasks["evictions"], "was", "were")
        print_line(f"{head}{format_count(tasks['evictions'], 'task')} {were} put back when "
            "servers left or shrank, and had to start again")  # fmt: skip
    _print_scope(head, tasks)
    left = tasks["running"] + tasks["queued"]
    if left:
        print_line(
            f"{head}at the end {tasks['running']:,} tasks ran and {tasks['queued']:,} waited"
        )
    if facts["fair"]:
        info = result.info
        cost = (
            f"{format_count(info['fair_solved'], 'exact allocation')} took "
            f"{info['fair_seconds']:.2f} s"
        )
        most = result.samples.row(result.samples["fair.missing"].arg_max() or 0, named=True)
        if most["fair.missing"] > 0:
            print_line(f"{head}furthest from fair at {format_duration(most['time'])}: "
                f"{format_percent(most['fair.missing'])} of the fair shares missing; worst off: "
                f"{most['fair.worst']}, {format_percent(most['fair.distance'])} below its fair "
                f"level ({cost})")  # fmt: skip
        else:
            print_line(f"{head}fair at all samples ({cost})")
        mixed = facts["fair"].get("mixed_users", 0)  # runs of old have no such number
        if mixed:
            print_line(f"{head}{mixed_note(mixed)}", "yellow")
