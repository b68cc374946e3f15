"""Format ``google-2011``: Google's cluster trace, in the published layout.

J. Wilkes, C. Reiss: *Google cluster-usage traces: format + schema*, 2011. Two of its tables are
read: ``machine_events/`` and ``task_events/``, gzip or plain, any parts of them.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from drfh.errors import InputError
from drfh.files.reader import Ledger, Progress
from drfh.formatting import format_count, plural
from drfh.traces.base import (
    SAMPLING,
    WINDOW,
    EmptyTraceError,
    Format,
    Option,
    Signature,
    TraceReading,
)
from drfh.traces.build import build, keep_sample
from drfh.traces.google2011.machine_events import drawn_servers, read_machines
from drfh.traces.google2011.task_events import (
    ENDS,
    INDEX_BITS,
    START_OF_TRACE,
    TaskEvents,
    find_parts,
    read_task_events,
)
from drfh.traces.google2011.task_runs import OPEN, TaskRuns, find_runs

__all__ = ["FORMAT", "PRESETS", "tasks_of"]


_FINISH = 4
# Why a task has no SUBMIT, as in TaskRuns.unsubmitted.
_UNSUBMITTED = ("SCHEDULE without SUBMIT", "end without SUBMIT or SCHEDULE", "UPDATE alone")
_RESOURCES = ("cpu", "memory")
_OF_FORMS = ("user", "disk", "priority", "scheduling_class", "different_machines")
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def tasks_of(
    events: TaskEvents, begin: int, end: int, options: Mapping[str, Any], ledger: Ledger
) -> pl.DataFrame:
    """Return a batch for each task, in order of arrival.

    Parameters
    ----------
    events
        What happened.
    begin, end
        The window in microseconds. What happens after `end` is ignored.
    options
        The choices of the format.
    ledger
        Where tasks that are left out are counted.
    """
    runs = find_runs(events.steps, end, each=options["resubmissions"] == "each")
    ledger.count("tasks", runs.tasks)
    _count_unsubmitted(runs, ledger)
    ledger.count("runs that ended", runs.ended)
    ledger.count("runs still open at the cut", runs.still_open)
    at_start = runs.time < begin
    still = runs.event == OPEN
    kept = _Kept(len(runs.task), ledger)
    kept.leave_out(runs.start < 0, "never ran")
    if begin > 0:
        # Also a task whose first SUBMIT is later: then what ran was an attempt without a SUBMIT.
        kept.leave_out(~still & (runs.end < begin), "ended before the window")
    if options["at_start"] == "drop":
        kept.leave_out(at_start, "there at the start", "at_start=backlog")
    if options["ended_by"] == "finish":
        unfinished = ~still & (runs.event != _FINISH)
        kept.leave_out(unfinished, "evicted, failed, killed or lost", "ended_by=any")
    if options["at_cut"] == "drop":
        kept.leave_out(still, "still running at the cut", "at_cut=cut")
    form = events.form[runs.submit]
    request = _requests(form, events.forms, kept, options, ledger)
    kept.leave_out(_of_others(runs, form, events.forms, kept.flags), "of a job of another user")
    chosen = np.flatnonzero(kept.flags)
    if not len(chosen):
        raise EmptyTraceError("must have at least one task that ran in the window")
    left = runs.chosen(chosen)
    stop = np.where(left.event == OPEN, end, left.end)
    took = (stop - np.maximum(left.start, begin)) / 1e6
    if options["at_cut"] == "run":
        took[left.event == OPEN] = np.inf
    names = ["cut", *ENDS.values()]
    ended = np.where(left.event == OPEN, 0, left.event - 1)
    who_and_what = form[chosen]
    forms = {name: events.forms[name].gather(who_and_what) for name in _OF_FORMS}
    return pl.DataFrame(
        {
            "user": forms["user"],
            "job": left.task >> INDEX_BITS,
            "arrival": np.maximum(left.time - begin, 0) / 1e6,
            "duration": took,
            **{name: column[chosen] for name, column in request.items()},
            "index": left.task & (2**INDEX_BITS - 1),
            **forms,
            "at_start": at_start[chosen],
            "end": pl.Series(names, dtype=pl.Enum(names)).gather(ended),
        }
    )


def _count_unsubmitted(runs: TaskRuns, ledger: Ledger) -> None:
    """Count the tasks of which no SUBMIT is in the window, and SUBMITs beyond one a task."""
    submitted = runs.tasks - runs.later - sum(runs.unsubmitted)
    ledger.count("later SUBMITs, each a task", len(runs.task) - submitted)
    for number, why in zip(runs.unsubmitted, _UNSUBMITTED, strict=True):
        ledger.leave_out("tasks", why, number)
    ledger.leave_out("tasks", "after the window", runs.later)
    lost = sum(runs.unsubmitted)
    if lost:
        ledger.remark(
            f"{format_count(lost, 'task')} {plural(lost, 'is', 'are')} left out: no SUBMIT, as "
            "the parts begin later (add those before them)"
        )


class _Kept:
    """Which tasks are kept."""

    def __init__(self, size: int, ledger: Ledger) -> None:
        self.flags = np.ones(size, dtype=bool)
        self._ledger = ledger

    def leave_out(self, wrong: Flags, why: str, option: str = "") -> int:
        before = np.count_nonzero(self.flags)
        self.flags &= ~wrong
        after = np.count_nonzero(self.flags)
        self._ledger.leave_out("tasks", why, int(before - after), option)
        return int(before - after)


def _requests(
    form: Ints, forms: pl.DataFrame, kept: _Kept, options: Mapping[str, Any], ledger: Ledger
) -> dict[str, Floats]:
    """Return the requests; tasks without one are left out or get the mean."""
    asked = {name: forms[name].to_numpy()[form] for name in _RESOURCES}
    if options["missing_requests"] == "mean":
        for column in asked.values():
            mean = pl.Series(column[kept.flags]).fill_nan(None).mean()
            if mean is not None:
                column[np.isnan(column)] = mean
    nothing = np.isnan(asked["cpu"]) & np.isnan(asked["memory"])
    lost = kept.leave_out(nothing, "without a request", "missing_requests=mean")
    if lost:
        who = f"{format_count(lost, 'task')} without a request {plural(lost, 'is', 'are')}"
        ledger.remark(f"{who} left out (missing_requests=mean gives the mean of the others)")
    for column in asked.values():
        column[np.isnan(column)] = 0.0
    no_cpu, no_memory = asked["cpu"] == 0, asked["memory"] == 0
    kept.leave_out(no_cpu & no_memory, "ask for neither CPU nor memory")
    if options["zero_requests"] == "drop":
        kept.leave_out(no_cpu | no_memory, "ask for no CPU or no memory", "zero_requests=keep")
    return asked


def _of_others(runs: TaskRuns, form: Ints, forms: pl.DataFrame, kept: Flags) -> Flags:
    """Return which tasks are not of the user of their job: of its kept task of lowest index."""
    user = forms["user"].to_physical().to_numpy()[form]
    chosen = np.flatnonzero(kept)
    others = np.zeros(len(kept), dtype=bool)
    job = runs.task[chosen] >> INDEX_BITS
    if "numba" in sys.modules:
        from drfh.kernels.trace_runs import number

        codes, first = number(job)
        if (user[chosen] == user[chosen[first]][codes]).all():  # nearly always
            return others
    order = chosen[np.lexsort((runs.submit[chosen], runs.task[chosen]))]
    job = runs.task[order] >> INDEX_BITS
    begins = np.ones(len(job), dtype=bool)
    begins[1:] = job[1:] != job[:-1]
    owner = user[order][begins][np.cumsum(begins) - 1]
    others[order] = user[order] != owner
    return others


#: Sets of choices with a name.
PRESETS: dict[str, dict[str, str]] = {
    "backlog_cut": {
        "at_start": "backlog",
        "resubmissions": "dedup",
        "ended_by": "any",
        "at_cut": "cut",
    },
    "each_drop": {
        "at_start": "drop",
        "resubmissions": "each",
        "ended_by": "any",
        "at_cut": "drop",
    },
}

_OPTIONS = (
    *WINDOW,
    *SAMPLING,
    Option(
        "preset",
        "The four choices below at once: backlog_cut is backlog, dedup, any, cut; each_drop is "
        "drop, each, any, drop.",
        "choice",
        "backlog_cut",
        tuple(PRESETS),
    ),
    Option(
        "at_start",
        "Tasks that are there when the window begins: backlog (they arrive then; what they ran "
        "before is lost) or drop.",
        "choice",
        None,
        ("backlog", "drop"),
    ),
    Option(
        "resubmissions",
        "Of the same task: dedup (one task: first SUBMIT, run time of the last attempt that ran) "
        "or each (every SUBMIT is a task).",
        "choice",
        None,
        ("dedup", "each"),
    ),
    Option(
        "ended_by",
        "What ends a run: any (FINISH, FAIL, KILL, EVICT, LOST) or finish (others are left out).",
        "choice",
        None,
        ("any", "finish"),
    ),
    Option(
        "at_cut",
        "Tasks still running when the window ends: cut (they ran until then), run (they never "
        "end) or drop.",
        "choice",
        None,
        ("cut", "run", "drop"),
    ),
    Option("zero_requests", "Of CPU or memory: keep or drop.", "choice", "keep", ("keep", "drop")),
    Option(
        "missing_requests",
        "Tasks without a request: drop, or mean (what all others ask for on average).",
        "choice",
        "drop",
        ("drop", "mean"),
    ),
    Option(
        "servers",
        "Draw so many servers from the shapes of the machines, without machine events; by "
        "default the machines as they are.",
        "whole",
    ),
)


def _read(
    paths: tuple[Path, ...], given: Mapping[str, Any], ledger: Ledger, progress: Progress | None
) -> TraceReading:
    options = dict(given)
    for name, choice in PRESETS[options["preset"]].items():
        options[name] = options[name] or choice
    if len(paths) != 1 or not paths[0].is_dir():
        rule = "must be one directory, with machine_events/ and task_events/ in it"
        raise InputError("path", rule, ", ".join(map(str, paths)))
    folder = paths[0]
    parts = find_parts(folder, "task_events", ledger)
    events = read_task_events(parts, ledger, progress)
    begin, end = _window(events.first_time, events.last_time, options)
    batches = tasks_of(events, begin, end, options, ledger)
    every = len(batches)
    batches = keep_sample(batches, options)
    ledger.leave_out("tasks", "not in the sample", every - len(batches))
    ledger.count("tasks kept", len(batches))
    ledger.count("tasks kept that were there at the start", int(batches["at_start"].sum()))
    ledger.count("tasks kept that still run at the cut", int((batches["end"] == "cut").sum()))
    cluster, changes = read_machines(
        find_parts(folder, "machine_events", ledger), begin, end, ledger
    )
    if options["servers"] is not None:
        cluster, changes = drawn_servers(cluster, options["servers"], options["seed"]), ()
    workload, details = build(batches, ("cpu", "memory"), events=changes)
    ledger.remark("amounts are parts of the largest machine's; disk requests are in the details")
    if details["at_start"].any():
        ledger.remark("run times of tasks that were there at the start are truncated on the left")
    return TraceReading(cluster, workload, details, window=(end - begin) / 1e6, options=options)


def _window(first: int, last: int, options: Mapping[str, Any]) -> tuple[int, int]:
    """Return begin and end in the trace's own microseconds."""
    origin = START_OF_TRACE if first < START_OF_TRACE else first
    begin = origin + round(options["start"] * 3600e6)
    end = last
    if begin >= end:
        if not options["start"]:
            raise InputError("trace", "must have events after its first 600 seconds")
        rule = (
            f"must be less than the {max(end - origin, 0) / 3600e6:.2f} hours that the parts hold"
        )
        raise InputError("start", rule, options["start"])
    if options["hours"] is not None:
        end = min(end, begin + round(options["hours"] * 3600e6))
    return begin, end


FORMAT = Format(
    title="Google cluster trace 2011, version 2 (machine_events/, task_events/)",
    read=_read,
    signature=Signature(folders=(("task_events",),)),
    options=_OPTIONS,
)
