"""Google's task events → tasks with an arrival, a demand and a run time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from drfh.errors import InputError
from drfh.traces.google_parts import ENDS, INDEX_BITS, TaskEvents
from drfh.traces.ledger import Ledger

__all__ = ["tasks_of"]

_SUBMIT, _SCHEDULE = 0, 1
_RESOURCES = ("cpu", "memory")
_OPEN = -1  # a run that has not ended when the window does
Ints = NDArray[np.int64]


class _Runs(NamedTuple):
    """One row for each task, in no order: which SUBMIT it is, and its run in microseconds.

    `start` is -1 if it never ran.
    """

    submit: Ints
    start: Ints
    end: Ints
    event: NDArray[np.int8]


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
    steps = events.steps
    if len(steps) and events.last_time > end:
        steps = steps.filter(pl.col("time") <= end)
    runs = _runs(steps, ledger, each=options["resubmissions"] == "each")
    submits = events.submits[runs.submit]
    tasks = submits.with_columns(
        pl.Series("start", runs.start),
        pl.Series("end_time", runs.end),
        pl.Series("event", runs.event),
        pl.Series("submit", runs.submit),
        (pl.col("time") < begin).alias("at_start"),
        (pl.col("task") // 2**INDEX_BITS).alias("job"),
    )

    def leave_out(frame: pl.DataFrame, wrong: pl.Expr, why: str) -> pl.DataFrame:
        kept = frame.filter(~wrong)
        ledger.count(f"tasks left out: {why}", len(frame) - len(kept))
        return kept

    tasks = leave_out(tasks, pl.col("start") < 0, "never ran")
    if begin > 0:
        over = pl.col("at_start") & (pl.col("event") != _OPEN) & (pl.col("end_time") < begin)
        tasks = leave_out(tasks, over, "ended before the window")
    if options["at_start"] == "drop":
        tasks = leave_out(tasks, pl.col("at_start"), "there at the start")
    if options["ended_by"] == "finish":
        ended = ~pl.col("event").is_in([_OPEN, 4])
        tasks = leave_out(tasks, ended, "evicted, failed, killed or lost")
    if options["at_cut"] == "drop":
        tasks = leave_out(tasks, pl.col("event") == _OPEN, "still running at the cut")
    tasks = _with_requests(tasks, options, leave_out)
    owner = tasks.group_by("job").agg(pl.col("user").first().alias("owner"))
    tasks = tasks.join(owner, on="job", how="left", maintain_order="left")
    tasks = leave_out(tasks, pl.col("user") != pl.col("owner"), "of a job of another user")
    if not len(tasks):
        raise InputError("trace", "must have at least one task that ran in the window")
    return _batches(tasks, begin, end, endless=options["at_cut"] == "run")


def _runs(steps: pl.DataFrame, ledger: Ledger, *, each: bool) -> _Runs:
    """Find the run of every task (or of every SUBMIT)."""
    # All steps of one task together, in the order in which they happened.
    order = np.argsort(steps["task"].to_numpy(), kind="stable")
    task = steps["task"].to_numpy()[order]
    time = steps["time"].to_numpy()[order]
    event = steps["event"].to_numpy()[order]
    first = np.ones(len(task), dtype=bool)
    first[1:] = task[1:] != task[:-1]
    group = np.cumsum(first) - 1
    starts = np.flatnonzero(event == _SCHEDULE)
    ends = np.flatnonzero(event > _SCHEDULE)
    # The end of a run is the next end event, if that is of the same task.
    closing, closed = _next(ends, starts)
    closed &= group[closing] == group[starts]
    ledger.count("runs that ended", int(closed.sum()))
    ledger.count("runs still open at the cut", int((~closed).sum()))
    asks = np.flatnonzero(event == _SUBMIT)
    # Submits keep their order in the file: the position among all SUBMIT rows.
    number = np.cumsum(steps["event"].to_numpy() == _SUBMIT)[order[asks]] - 1
    if each:
        # The first SCHEDULE after a SUBMIT, if it comes before the task's next SUBMIT.
        at, there = _next(starts, asks)
        there &= (at < np.append(asks[1:], len(task))) & (group[at] == group[asks])
    else:
        # Of each task the first SUBMIT, and its last SCHEDULE.
        lead = np.ones(len(asks), dtype=bool)
        lead[1:] = group[asks[1:]] != group[asks[:-1]]
        asks, number = asks[lead], number[lead]
        last = np.searchsorted(group[starts], group[asks], side="right") - 1
        at = starts[np.maximum(last, 0)] if len(starts) else np.zeros_like(asks)
        there = (last >= 0) & (group[at] == group[asks])
    there &= len(starts) > 0
    run = np.searchsorted(starts, np.where(there, at, starts[0] if len(starts) else 0))
    ended = there.copy()
    ended[there] = closed[run[there]]
    stop = np.zeros_like(at)
    stop[ended] = closing[run[ended]]
    return _Runs(
        submit=number,
        start=np.where(there, time[at], -1),
        end=np.where(ended, time[stop], -1),
        event=np.where(ended, event[stop], _OPEN).astype(np.int8),
    )


def _next(these: Ints, after: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Return for each position the next one of `these`, and whether there is one (else 0)."""
    follows = np.searchsorted(these, after)
    there = follows < len(these)
    found = np.zeros(len(after), dtype=np.int64)
    found[there] = these[follows[there]]
    return found, there


def _with_requests(
    tasks: pl.DataFrame,
    options: Mapping[str, Any],
    leave_out: Callable[[pl.DataFrame, pl.Expr, str], pl.DataFrame],
) -> pl.DataFrame:
    """Settle what tasks ask for that ask for nothing, or do not say."""
    missing = pl.col("cpu").is_null() & pl.col("memory").is_null()
    if options["missing_requests"] == "mean":
        tasks = tasks.with_columns(pl.col(r).fill_null(pl.col(r).mean()) for r in _RESOURCES)
    tasks = leave_out(tasks, missing, "without a request")
    tasks = tasks.with_columns(pl.col(r).fill_null(0.0) for r in _RESOURCES)
    nothing = (pl.col("cpu") == 0) & (pl.col("memory") == 0)
    tasks = leave_out(tasks, nothing, "ask for neither CPU nor memory")
    if options["zero_requests"] == "drop":
        some = (pl.col("cpu") == 0) | (pl.col("memory") == 0)
        tasks = leave_out(tasks, some, "ask for no CPU or no memory")
    return tasks


def _batches(tasks: pl.DataFrame, begin: int, end: int, *, endless: bool) -> pl.DataFrame:
    """Return the columns of a batch, in order of arrival; those of one instant as in the files."""
    still = pl.col("event") == _OPEN
    stop = pl.when(still).then(end).otherwise(pl.col("end_time"))
    took = (stop - pl.max_horizontal("start", pl.lit(begin))) / 1e6
    if endless:
        took = pl.when(still).then(float("inf")).otherwise(took)
    arrival = pl.max_horizontal(pl.col("time") - begin, pl.lit(0)) / 1e6
    names = {_OPEN: "cut", **ENDS}
    return (
        tasks.with_columns(arrival.alias("arrival"), took.alias("duration"))
        .sort("arrival", "submit")
        .select(
            "user",
            "job",
            "arrival",
            "duration",
            *_RESOURCES,
            (pl.col("task") % 2**INDEX_BITS).alias("index"),
            "disk",
            "priority",
            "scheduling_class",
            "different_machines",
            "at_start",
            pl.col("event")
            .replace_strict(names, return_dtype=pl.Enum(list(names.values())))
            .alias("end"),
        )
    )
