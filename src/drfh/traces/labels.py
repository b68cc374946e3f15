"""Names of traces and labels of their measures, for text and charts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from drfh.formatting import (
    format_amount,
    format_count,
    format_duration,
    format_number,
    format_percent,
    join_names,
    plural,
)
from drfh.traces.base import Trace

__all__ = ["MeasureLabels", "format_measure", "headline", "measure_labels", "short_names"]

_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class MeasureLabels:
    """Labels of a measure.

    Parameters
    ----------
    things
        What has one value each: tasks, jobs, users, hours or steps.
    kind
        What a value is.
    log_scale
        Whether its chart has a logarithmic axis.
    """

    short: str
    title: str
    heading: str
    things: str
    kind: Literal["amount", "seconds", "count", "part"] = "count"
    log_scale: bool = True


_LABELS = {
    "duration": MeasureLabels(
        "duration", "how long a task runs", "How long tasks run", "tasks", "seconds"
    ),
    "job size": MeasureLabels("job size", "tasks of a job", "How large jobs are", "jobs"),
    "tasks per user": MeasureLabels(
        "tasks per user", "tasks of a user", "How many tasks users have", "users"
    ),
    "tasks per hour": MeasureLabels(
        "tasks per hour",
        "tasks that arrive in an hour",
        "Tasks by the hour",
        "hours",
        log_scale=False,
    ),
    "jobs per hour": MeasureLabels(
        "jobs per hour", "jobs that arrive in an hour", "Jobs by the hour", "hours", log_scale=False
    ),
}


def measure_labels(measure: str) -> MeasureLabels:
    """Return the labels of a measure of :func:`drfh.traces.measure.distributions`, or a load.

    Examples
    --------
    >>> measure_labels("request.cpu").title, measure_labels("job size").things
    ('cpu of a task', 'jobs')
    """
    kind, _, resource = measure.partition(".")
    if kind == "request" and resource:
        title = f"{resource} of a task"
        return MeasureLabels(title, title, f"How much {resource} tasks ask for", "tasks", "amount")
    if kind == "load" and resource:
        title = f"{resource} asked for / capacity"
        heading = f"Demand against capacity: {resource}"
        return MeasureLabels(f"load of {resource}", title, heading, "steps", "part")
    return _LABELS[measure]


def format_measure(measure: str, value: float | None, *, like: float | None = None) -> str:
    """Return a value of a measure in the unit that it has.

    Parameters
    ----------
    measure, value
        As in :func:`measure_labels`; None gives a dash.
    like
        A given amount of the same measure, which tells bytes from other units.

    Examples
    --------
    >>> format_measure("duration", 5400.0), format_measure("load.cpu", 0.5)
    ('90 min', '50.0 %')
    """
    kind = measure_labels(measure).kind
    if kind == "seconds":
        return format_duration(value)
    if kind == "part":
        return format_percent(value)
    if kind == "amount" and value is not None:
        return format_amount(value, like=value if like is None else like)
    return format_number(value)


def short_names(*traces: Trace) -> list[str]:
    """Return a short name for each trace, all different.

    Examples
    --------
    >>> from drfh.files.scenario_file import load_scenario
    >>> import polars as pl
    >>> scenario = load_scenario("gpu-day")
    >>> one = Trace("tables", "data/monday", scenario.cluster, scenario.workload, pl.DataFrame())
    >>> short_names(one), short_names(one, one)
    (['monday'], ['monday (1)', 'monday (2)'])
    """
    names = []
    for trace in traces:
        last = os.path.basename(trace.source.split(", ")[0].rstrip("/"))
        last = " ".join(last.split())
        if not last or last in (".", ".."):
            last = trace.format
        names.append(last if len(last) <= _LONGEST_NAME else f"{last[: _LONGEST_NAME - 1]}…")
    if len(set(names)) == len(names):
        return names
    tagged = [f"{n} ({t.format})" for n, t in zip(names, traces, strict=True)]
    if len(set(tagged)) == len(tagged):
        return tagged
    return [f"{name} ({number})" for number, name in enumerate(names, start=1)]


def headline(facts: Mapping[str, Any]) -> str:
    """Return a trace in one sentence.

    Parameters
    ----------
    facts
        From :func:`drfh.traces.measure.describe`.

    Examples
    --------
    >>> headline({"users": 2, "jobs": 3, "tasks": 1200, "servers": 1,
    ...           "load": {"cpu": {"mean": 0.5}, "gpu": {"mean": None}}})
    '2 users ask for 1,200 tasks in 3 jobs: 50 % of the cpu of 1 server'
    """
    ask = plural(facts["users"], "asks", "ask")
    loads = [
        f"{format_number(100 * load['mean'], 3)} % of the {name}"
        for name, load in facts["load"].items()
        if load["mean"] is not None
    ]
    what = join_names(loads)
    of = f": {what} of {format_count(facts['servers'], 'server')}" if what else ""
    return (
        f"{format_count(facts['users'], 'user')} {ask} for "
        f"{format_count(facts['tasks'], 'task')} in "
        f"{format_count(facts['jobs'], 'job')}{of}"
    )
