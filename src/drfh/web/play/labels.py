"""Texts and tables of the panel "Play": times, the current frame, policies compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from drfh.formatting import (
    format_clock,
    format_count,
    format_duration,
    format_percent,
    format_quantity,
    plural,
)
from drfh.model.resources import Units
from drfh.report.html import Cell, Content, Markup, table, tag
from drfh.web.components.heat_map_data import CellText
from drfh.web.play.recording import Frame, Recording

__all__ = [
    "cell_text",
    "now_text",
    "step_of",
    "summary_table",
    "times_of",
    "user_table",
]

Floats: TypeAlias = NDArray[np.float64]

_MOST_STEPS = 400
_MOST_USERS = 20
_MOST_OWNERS = 8


def step_of(horizon: float) -> float:
    """Return the step of the slider: a round time, at most 400 in a run.

    Examples
    --------
    >>> step_of(150), step_of(7200), step_of(0)
    (0.5, 20.0, 1.0)
    """
    if not 0 < horizon < np.inf:
        return 1.0
    ten = 10.0 ** np.floor(np.log10(horizon / _MOST_STEPS))
    return next(float(f"{s * ten:.0e}") for s in (1, 2, 5, 10) if s * ten >= horizon / _MOST_STEPS)


def times_of(recordings: Sequence[Recording]) -> Floats:
    """Return the times of the slider: round ones, and the end of the longest run.

    Examples
    --------
    >>> times_of([])
    array([0.])
    """
    end = max((recording.horizon for recording in recordings), default=0.0)
    step = step_of(end)
    times: Floats = np.round(step * np.arange(int(end / step + 1e-9) + 1), 9)
    return np.append(times, end) if end - times[-1] > 1e-6 * step else times


def now_text(recording: Recording, frame: Frame) -> Markup:
    """Return the summary of a frame as one paragraph."""
    running, waiting, done = (int(x.sum()) for x in (frame.running, frame.waiting, frame.done))
    used = ", ".join(
        f"{name} {format_percent(float(part), trim=True)}"
        for name, part in zip(recording.resources, frame.utilisation, strict=True)
    )
    ended = (
        f" It ended at {format_clock(recording.horizon)}." if frame.time > recording.horizon else ""
    )
    text = f"{format_count(running, 'task')} {plural(running, 'runs', 'run')}, {waiting:,} "
    text += f"{plural(waiting, 'waits', 'wait')}, {done:,} done. In use: {used}.{ended}"
    if waiting and recording.numbers["tasks"]["never"]:
        text += " Among those that wait are tasks that fit on no server."
    return tag("p", text)


def user_table(recordings: Sequence[Recording], frames: Sequence[Frame]) -> Markup:
    """Return a table of users: share, fair share, running and waiting under each policy.

    Examples
    --------
    >>> from drfh import Cluster, Job, Server, Workload, simulate
    >>> from drfh.web.play.recording import record
    >>> cluster = Cluster([Server({"cpu": 4}, name="a")])
    >>> workload = Workload(["ann"], [Job("ann", demand={"cpu": 2}, duration=60, tasks=3)])
    >>> recording = record(simulate(cluster, workload, log=True, fair=True), cluster, workload)
    >>> '<td class="number">100 %</td>' in user_table([recording], [recording.frame(0)])
    True
    """
    if not recordings:
        return Markup("")
    users, several = recordings[0].users, len(recordings) > 1
    shares = np.array([frame.share for frame in frames])
    listed = sorted(recordings[0].largest[:_MOST_USERS])
    fair = [
        recording.fair_at(frame.time) for recording, frame in zip(recordings, frames, strict=True)
    ]
    head = ["user"]
    for recording, level in zip(recordings, fair, strict=True):
        after = f", {recording.policy}" if several else ""
        head += [f"share{after}", *(["fair"] if level is not None else []), "run", "wait"]
    rows: list[list[Content]] = []
    for user in listed:
        row: list[Content] = [Cell(tag("b", users[user]))]
        for share, frame, level in zip(shares, frames, fair, strict=True):
            row.append(Cell(format_percent(float(share[user]), trim=True), "number"))
            if level is not None:
                known = not np.isnan(level[user])
                row.append(
                    Cell(format_percent(float(level[user]), trim=True) if known else "–", "number")
                )
            row += [Cell(f"{frame.running[user]:,}", "number")]
            row += [Cell(f"{frame.waiting[user]:,}", "number")]
        rows.append(row)
    shown = table(head, rows, "tight first-stays")
    if len(listed) == len(users):
        return shown
    note = f"The {len(listed)} of {len(users):,} users with the largest shares."
    return shown + tag("p", note, "note")


def summary_table(recordings: Sequence[Recording]) -> Markup:
    """Return a table of whole-run metrics, a column for each policy."""
    rows: list[list[Content]] = []

    def add(title: str, values: Sequence[str]) -> None:
        rows.append([Cell(title, "wrap"), *(Cell(value, "number") for value in values)])

    numbers = [recording.numbers for recording in recordings]
    add("tasks completed", [_of(n["tasks"]["completed"], n["tasks"]["submitted"]) for n in numbers])
    add("mean wait of a task", [format_duration(n["mean_waiting"]) for n in numbers])
    add("mean slowdown of a job", [_mean(n["stretch"], "{:,.3g}".format) for n in numbers])
    add("mean turnaround of a job", [_mean(n["turnaround"], format_duration) for n in numbers])
    for name in recordings[0].resources if recordings else ():
        add(
            f"{name} in use, mean",
            [format_percent(n["utilisation"].get(name, 0.0), trim=True) for n in numbers],
        )
    if all(n["fair"] is not None for n in numbers):
        add(
            "distance from fair, mean",
            [format_percent(n["fair"]["mean_distance"], trim=True) for n in numbers],
        )
    add("it ended at", [format_clock(recording.horizon) for recording in recordings])
    if any(n["tasks"]["evictions"] for n in numbers):
        add("put back when servers left", [f"{n['tasks']['evictions']:,}" for n in numbers])
    if any(n["tasks"]["never"] for n in numbers):
        add("fit on no server", [f"{n['tasks']['never']:,}" for n in numbers])
    return table(["whole run", *(recording.policy for recording in recordings)], rows, "tight")


def _of(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,}"


def _mean(spread: dict[str, float] | None, text: Callable[[float], str]) -> str:
    return "–" if spread is None else text(spread["mean"])


def cell_text(recording: Recording, frame: Frame, server: int) -> CellText:
    """Return the tooltip of a server at the time of a frame.

    Examples
    --------
    >>> from drfh import Cluster, Job, Server, Workload, simulate
    >>> from drfh.web.play.recording import record
    >>> cluster = Cluster([Server({"cpu": 4}, name="a")])
    >>> workload = Workload(["ann"], [Job("ann", demand={"cpu": 1}, duration=60, tasks=3)])
    >>> recording = record(simulate(cluster, workload, log=True), cluster, workload)
    >>> cell_text(recording, recording.frame(0), 0).to_dict()
    {'title': 'a', 'lines': ['cpu: 3 of 4 (75 %)'], 'tasks': ['ann: 3 tasks']}
    """
    units = Units(recording.resources, recording.sizes)
    used, there = units.amounts(frame.used[server]), units.amounts(frame.capacity[server])
    lines = [
        f"{name}: {format_quantity(used[name])} of {format_quantity(capacity)} "
        f"({format_percent(used[name] / capacity, trim=True)})"
        for name, capacity in there.items()
        if capacity > 0
    ]
    owners = recording.on_server(frame.time, server)
    tasks = [
        f"{user}: {format_count(n, 'task')}" for user, n in list(owners.items())[:_MOST_OWNERS]
    ]
    if len(owners) > _MOST_OWNERS:
        tasks.append(f"… and of {format_count(len(owners) - _MOST_OWNERS, 'user')} more")
    name = recording.servers[server]
    return CellText(name if lines else f"{name}, down", lines, tasks)
