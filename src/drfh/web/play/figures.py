"""Charts, tables and texts of recordings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from drfh.formatting import (
    format_clock,
    format_count,
    format_duration,
    format_percent,
    format_quantity,
    plural,
    time_unit,
)
from drfh.model.resources import Units
from drfh.report.html import DASHES, FONT, PALETTE, Cell, Content, Markup, join, table, tag
from drfh.web.components.heat_map_data import CellText
from drfh.web.play.recording import Frame, Recording

__all__ = [
    "LEFT",
    "RIGHT",
    "Curve",
    "cell_text",
    "curve_options",
    "fair_text",
    "keys",
    "now_text",
    "shares_of",
    "step_of",
    "summary_table",
    "times_of",
    "used_of",
    "user_table",
]


Floats: TypeAlias = NDArray[np.float64]

#: Pixels left and right of the plot area.
LEFT, RIGHT = 52, 16
_MOST_CURVES = 8
_MOST_FAIR = 4


@dataclass(frozen=True, eq=False)
class Curve:
    """Line of parts of 1 over time; thin for a fair share."""

    name: str
    colour: str
    dash: Sequence[int]
    time: Floats
    part: Floats
    thin: bool = False


def used_of(recording: Recording) -> list[Curve]:
    """Return the utilisation curve of each resource.

    Examples
    --------
    >>> from drfh import load_scenario, simulate
    >>> from drfh.web.play.recording import record
    >>> cluster, workload = load_scenario("gpu-day").cluster, load_scenario("gpu-day").workload
    >>> recording = record(simulate(cluster, workload, log=True), cluster, workload)
    >>> [curve.name for curve in used_of(recording)]
    ['cpu', 'memory', 'gpu']
    """
    samples = recording.samples
    return [
        Curve(name, _colour(i), _dash(i), samples.time, samples.utilisation[:, i])
        for i, name in enumerate(recording.resources)
    ]


def shares_of(recording: Recording, users: Sequence[str] = ()) -> list[Curve]:
    """Return the curves of dominant shares, with fair shares for up to four users.

    Parameters
    ----------
    users
        Names; by default the eight users with the largest mean shares.
    """
    samples = recording.samples
    if not users:
        users = [recording.users[i] for i in sorted(recording.largest[:_MOST_CURVES])]
    place = {name: position for position, name in enumerate(recording.users)}
    curves = []
    for i, name in enumerate(users):
        own = place[name]
        curves.append(Curve(name, _colour(i), _dash(i), samples.time, samples.share[:, own]))
        if samples.fair is not None and len(recording.users) <= _MOST_FAIR:
            fair = samples.fair[:, own]
            curves.append(Curve(name, _colour(i), (), samples.time, fair, thin=True))
    return curves


def curve_options(curves: Sequence[Curve], end: float, most: float) -> dict[str, Any]:
    """Return the options of an ECharts line chart.

    Parameters
    ----------
    end
        End of the time axis in seconds.
    most
        Part of 1 that the vertical axis reaches, at least.

    Examples
    --------
    >>> curve = Curve("cpu", "#2d7dc4", (), np.array([0.0, 300.0]), np.array([0.5, 0.25]))
    >>> options = curve_options([curve], 600.0, 1.0)
    >>> options["series"][0]["data"], options["xAxis"]["max"]
    ([[0.0, 50.0], [5.0, 25.0]], 10.0)
    """
    size, unit = time_unit(end, short=True)
    top = next((t for t in (0.05, 0.1, 0.2, 0.4, 0.6, 0.8) if most <= t), 1.0)
    return {
        "animation": False,
        "textStyle": {"fontFamily": FONT},
        "grid": {"left": LEFT, "right": RIGHT, "top": 10, "bottom": 28},
        "xAxis": {
            "type": "value",
            "min": 0,
            "max": float(end / size) or 1.0,
            "axisLabel": {
                "color": "currentColor",
                "formatter": f"{{value}} {unit}",
                "hideOverlap": True,
                "showMaxLabel": False,
            },
            "axisLine": {"lineStyle": {"color": "currentColor", "opacity": 0.4}},
            "splitLine": {"show": False},
            "axisPointer": {"label": {"formatter": f"{{value}} {unit}", "precision": 2}},
            "splitNumber": 4,
        },
        "yAxis": {
            "type": "value",
            "min": 0,
            "max": round(100 * max(top, 0.01), 6),
            "interval": round(25 * top, 6),
            "axisLabel": {"formatter": "{value} %", "color": "currentColor"},
            "splitLine": {"lineStyle": {"color": "currentColor", "opacity": 0.15}},
        },
        "tooltip": {"trigger": "axis", "confine": True, "className": "drfh-tip",
                    "transitionDuration": 0},
        "series": [_series(curve, size) for curve in curves],
    }  # fmt: skip


def _series(curve: Curve, size: int) -> dict[str, Any]:
    kept = ~np.isnan(curve.part)
    values = np.where(kept, np.round(100 * curve.part, 2), 0.0)
    data = [
        [float(f"{time / size:.6g}"), value if there else None]
        for time, value, there in zip(
            curve.time.tolist(), values.tolist(), kept.tolist(), strict=True
        )
    ]
    dash = list(curve.dash) or "solid"
    style = {"color": curve.colour, "width": 1 if curve.thin else 2.2, "type": dash}
    return {
        "type": "line",
        "name": f"{curve.name}, fair" if curve.thin else curve.name,
        "color": curve.colour,
        "step": "end",
        "showSymbol": False,
        "silent": True,
        "lineStyle": style,
        "data": data,
    }


def keys(curves: Sequence[Curve]) -> Markup:
    """Return the legend of the curves; names are escaped.

    Examples
    --------
    >>> curve = Curve("<b>", "#2d7dc4", (4, 2), np.zeros(1), np.zeros(1))
    >>> "&lt;b&gt;</span>" in keys([curve])
    True
    """
    parts = []
    for curve in curves:
        if not curve.thin:
            dash = ",".join(map(str, curve.dash)) or "none"
            line = f'<line x1="0" y1="5" x2="26" y2="5" stroke="{curve.colour}" stroke-width="3" '
            line += f'stroke-dasharray="{dash}"/>'
            symbol = Markup(f'<svg width="26" height="10" aria-hidden="true">{line}</svg>')
            parts.append(tag("span", symbol + curve.name))
    return tag("p", join(parts), "keys note")


def fair_text(curves: Sequence[Curve]) -> str:
    """Return the note on thin lines; empty if there are none."""
    thin = any(curve.thin for curve in curves)
    return "Thin lines: the share in the exact DRFH answer of that moment." if thin else ""


def _colour(number: int) -> str:
    return PALETTE[number % len(PALETTE)]


def _dash(number: int) -> Sequence[int]:
    return DASHES[number % len(DASHES)]


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
            [format_percent(n["fair"]["mean_missing"], trim=True) for n in numbers],
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
