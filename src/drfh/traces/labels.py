"""What to call a trace and what was measured of it, in text and in pictures."""

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
)
from drfh.traces.base import Trace

__all__ = ["Words", "format_measure", "headline", "names_of", "words_of"]

_LONGEST_NAME = 40


@dataclass(frozen=True, slots=True)
class Words:
    """What a measure is called, of what there are parts, and what its amounts are."""

    short: str
    title: str
    heading: str
    things: str
    kind: Literal["amount", "seconds", "count", "part"] = "count"


_WORDS = {
    "duration": Words("duration", "how long a task runs", "How long tasks run", "tasks", "seconds"),
    "job size": Words("job size", "tasks of a job", "How large jobs are", "jobs"),
    "tasks per user": Words(
        "tasks per user", "tasks of a user", "How many tasks users have", "users"
    ),
    "tasks per hour": Words(
        "tasks per hour", "tasks that arrive in an hour", "Tasks by the hour", "hours"
    ),
    "jobs per hour": Words(
        "jobs per hour", "jobs that arrive in an hour", "Jobs by the hour", "hours"
    ),
}


def words_of(measure: str) -> Words:
    """Return the words for a measure of :func:`drfh.traces.measure.distributions`, or a load.

    Examples
    --------
    >>> words_of("request.cpu").title, words_of("load.cpu").title, words_of("job size").things
    ('cpu of a task', 'cpu asked for / capacity', 'jobs')
    """
    kind, _, resource = measure.partition(".")
    if kind == "request" and resource:
        title = f"{resource} of a task"
        return Words(title, title, f"How much {resource} tasks ask for", "tasks", "amount")
    if kind == "load" and resource:
        title = f"{resource} asked for / capacity"
        heading = f"Demand against capacity: {resource}"
        return Words(f"load of {resource}", title, heading, "steps", "part")
    return _WORDS[measure]


def format_measure(measure: str, value: float | None, *, like: float | None = None) -> str:
    """Return a value of a measure in the unit that it has.

    Parameters
    ----------
    measure, value
        As in :func:`words_of`; None gives a dash.
    like
        A given amount of the same measure, which tells bytes from other units.

    Examples
    --------
    >>> format_measure("duration", 5400.0), format_measure("load.cpu", 0.5)
    ('90 min', '50.0 %')
    """
    kind = words_of(measure).kind
    if kind == "seconds":
        return format_duration(value)
    if kind == "part":
        return format_percent(value)
    if kind == "amount" and value is not None:
        return format_amount(value, like=value if like is None else like)
    return format_number(value)


def names_of(*traces: Trace) -> list[str]:
    """Return a short name for each trace, all different.

    Examples
    --------
    >>> from drfh.files.scenario_file import load_scenario
    >>> import polars as pl
    >>> scenario = load_scenario("gpu-day")
    >>> one = Trace("tables", "data/monday", scenario.cluster, scenario.workload, pl.DataFrame())
    >>> names_of(one), names_of(one, one)
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
    ask = "asks" if facts["users"] == 1 else "ask"
    loads = [
        f"{format_percent(load['mean'], trim=True)} of the {name}"
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
