"""Google's task events → tasks with an arrival, a demand and a run time."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from drfh.errors import InputError
from drfh.traces.google_parts import ENDS, TaskEvents
from drfh.traces.google_rows import INDEX_BITS
from drfh.traces.google_runs import OPEN, Runs, find_runs
from drfh.traces.ledger import Ledger

__all__ = ["tasks_of"]

_FINISH = 4
_RESOURCES = ("cpu", "memory")
_OF_FORMS = ("user", "disk", "priority", "scheduling_class", "different_machines")
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def tasks_of(
    events: TaskEvents, begin: int, end: int, options: Mapping[str, Any], ledger: Ledger
) -> pl.DataFrame:
    """Return a table of batches, one for each task, in the order in which they arrive.

    Parameters
    ----------
    events
        What happened.
    begin, end
        The window in microseconds. What happens after `end` is not looked at.
    options
        The choices of the format.
    ledger
        Where tasks that are left out are counted.
    """
    runs = find_runs(events.steps, end, each=options["resubmissions"] == "each")
    ledger.count("tasks", runs.tasks)
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
        kept.leave_out(at_start, "there at the start")
    if options["ended_by"] == "finish":
        kept.leave_out(~still & (runs.event != _FINISH), "evicted, failed, killed or lost")
    if options["at_cut"] == "drop":
        kept.leave_out(still, "still running at the cut")
    form = events.form[runs.submit]
    request = _requests(form, events.forms, kept, options)
    kept.leave_out(_of_others(runs, form, events.forms, kept.flags), "of a job of another user")
    chosen = np.flatnonzero(kept.flags)
    if not len(chosen):
        raise InputError("trace", "must have at least one task that ran in the window")
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


class _Kept:
    """Which tasks are kept."""

    def __init__(self, size: int, ledger: Ledger) -> None:
        self.flags = np.ones(size, dtype=bool)
        self._ledger = ledger

    def leave_out(self, wrong: Flags, why: str) -> None:
        before = np.count_nonzero(self.flags)
        self.flags &= ~wrong
        after = np.count_nonzero(self.flags)
        self._ledger.count(f"tasks left out: {why}", int(before - after))


def _requests(
    form: Ints, forms: pl.DataFrame, kept: _Kept, options: Mapping[str, Any]
) -> dict[str, Floats]:
    """Settle what tasks ask for that ask for nothing, or do not say."""
    asked = {name: forms[name].to_numpy()[form] for name in _RESOURCES}
    if options["missing_requests"] == "mean":
        for column in asked.values():
            mean = pl.Series(column[kept.flags]).fill_nan(None).mean()
            if mean is not None:
                column[np.isnan(column)] = mean
    kept.leave_out(np.isnan(asked["cpu"]) & np.isnan(asked["memory"]), "without a request")
    for column in asked.values():
        column[np.isnan(column)] = 0.0
    no_cpu, no_memory = asked["cpu"] == 0, asked["memory"] == 0
    kept.leave_out(no_cpu & no_memory, "ask for neither CPU nor memory")
    if options["zero_requests"] == "drop":
        kept.leave_out(no_cpu | no_memory, "ask for no CPU or no memory")
    return asked


def _of_others(runs: Runs, form: Ints, forms: pl.DataFrame, kept: Flags) -> Flags:
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
