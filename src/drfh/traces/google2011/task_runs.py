"""Runs of tasks, from their events: SUBMIT, SCHEDULE, end and UPDATE."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["OPEN", "Steps", "TaskRuns", "find_runs", "plain_runs"]

#: The event of a run that has not ended when the window does.
OPEN = -1
_SUBMIT, _SCHEDULE, _LAST_END = 0, 1, 6  # what is above changes no state
_BLOCK = 2**14  # steps between two checks of the arrays' size
Ints = NDArray[np.int64]
Events = NDArray[np.int8]


class Steps(NamedTuple):
    """Events of tasks in order of time: task, microseconds, kind.

    Examples
    --------
    >>> Steps(np.array([7]), np.array([0]), np.array([0], dtype=np.int8)).task
    array([7])
    """

    task: Ints
    time: Ints
    event: Events

    def part(self, begin: int, end: int | None) -> Steps:
        """Return the steps from one position to before another."""
        chosen = slice(begin, end)
        return Steps(self.task[chosen], self.time[chosen], self.event[chosen])


class TaskRuns(NamedTuple):
    """One entry for each task, in the order of their SUBMITs.

    Parameters
    ----------
    task, time, submit
        Its number, when it was submitted, and which of all SUBMITs that is.
    start, end, event
        The run in microseconds and what ended it; `start` is -1 if it never ran, `end` and `event`
        are -1 if it has not ended.
    ended, still_open
        How many runs there are of either kind, also those of which nothing comes out.
    tasks
        How many tasks have any event, also after the window.
    later
        Those of them that have events after the window alone.
    unsubmitted
        Those without a SUBMIT in it: with a SCHEDULE, with an end but no SCHEDULE, and with UPDATEs
        alone.

    Examples
    --------
    >>> steps = Steps(np.array([7, 7]), np.array([5, 9]), np.array([0, 1], dtype=np.int8))
    >>> runs = find_runs([steps], 10, each=False)
    >>> runs.start.tolist(), runs.event.tolist(), runs.still_open
    ([9], [-1], 1)
    """

    task: Ints
    time: Ints
    submit: Ints
    start: Ints
    end: Ints
    event: Events
    ended: int
    still_open: int
    tasks: int
    later: int
    unsubmitted: tuple[int, int, int]

    def chosen(self, which: Ints) -> TaskRuns:
        """Return some of the tasks."""
        columns = {name: getattr(self, name)[which] for name in self._fields[:6]}
        return self._replace(**columns)


def find_runs(steps: Sequence[Steps], until: int, *, each: bool) -> TaskRuns:
    """Find the run of every task (or SUBMIT), up to `until`.

    Parameters
    ----------
    steps
        Pieces that follow each other.
    until
        Time of the last event that counts.
    each
        Whether every SUBMIT is a task, or only the first one of each task.
    """
    inside, outside = [], []
    for piece in steps:
        cut = int(np.searchsorted(piece.time, until, side="right"))
        inside.append(piece.part(0, cut))
        outside.append(piece.part(cut, None))
    if "numba" in sys.modules:
        return _compiled_runs(inside, outside, each=each)
    return plain_runs(inside, outside, each=each)


def plain_runs(inside: Sequence[Steps], outside: Sequence[Steps], *, each: bool) -> TaskRuns:
    """Find the runs by sorting: what :func:`find_runs` means.

    Examples
    --------
    >>> steps = Steps(np.array([7, 7]), np.array([5, 9]), np.array([0, 1], dtype=np.int8))
    >>> plain_runs([steps], [], each=True).start.tolist()
    [9]
    """
    steps = Steps(*(np.concatenate(columns) for columns in zip(*inside, strict=True)))
    every = np.concatenate([steps.task, *(piece.task for piece in outside)])
    # All steps of one task together, in the order in which they happened.
    order = np.argsort(steps.task, kind="stable")
    task, time, event = steps.task[order], steps.time[order], steps.event[order]
    first = np.ones(len(task), dtype=bool)
    first[1:] = task[1:] != task[:-1]
    group = np.cumsum(first) - 1
    starts = np.flatnonzero(event == _SCHEDULE)
    ends = np.flatnonzero((event > _SCHEDULE) & (event <= _LAST_END))
    # The end of a run is the next end event, if that is of the same task.
    closing, closed = _next(ends, starts)
    closed &= group[closing] == group[starts]
    asks = np.flatnonzero(event == _SUBMIT)
    # Submits keep their order in the file: the position among all SUBMIT rows.
    submit = np.cumsum(steps.event == _SUBMIT)[order[asks]] - 1
    if each:
        # The first SCHEDULE after a SUBMIT, if it comes before the task's next SUBMIT.
        at, there = _next(starts, asks)
        there &= (at < np.append(asks[1:], len(task))) & (group[at] == group[asks])
    else:
        # Of each task the first SUBMIT, and its last SCHEDULE.
        lead = np.ones(len(asks), dtype=bool)
        lead[1:] = group[asks[1:]] != group[asks[:-1]]
        asks, submit = asks[lead], submit[lead]
        last = np.searchsorted(group[starts], group[asks], side="right") - 1
        at = starts[np.maximum(last, 0)] if len(starts) else np.zeros_like(asks)
        there = (last >= 0) & (group[at] == group[asks])
    there &= len(starts) > 0
    run = np.searchsorted(starts, np.where(there, at, starts[0] if len(starts) else 0))
    ended = there.copy()
    ended[there] = closed[run[there]]
    stop = np.zeros_like(at)
    stop[ended] = closing[run[ended]]
    # What is best known of each task: UPDATE, end, SCHEDULE or SUBMIT.
    known = np.select([event == _SUBMIT, event == _SCHEDULE, event <= _LAST_END], [3, 2, 1], 0)
    best = np.zeros(int(first.sum()), dtype=np.int64)
    np.maximum.at(best, group, known)
    updated, over, scheduled, _ = np.bincount(best, minlength=4).tolist()
    number = len(np.unique(every))
    rank = np.argsort(submit)
    return TaskRuns(
        task=task[asks][rank],
        time=time[asks][rank],
        submit=submit[rank],
        start=np.where(there, time[at], -1)[rank],
        end=np.where(ended, time[stop], -1)[rank],
        event=np.where(ended, event[stop], OPEN).astype(np.int8)[rank],
        ended=int(closed.sum()),
        still_open=int((~closed).sum()),
        tasks=number,
        later=number - len(best),
        unsubmitted=(scheduled, over, updated),
    )


def _next(these: Ints, after: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Return for each position the next one of `these`, and whether there is one (else 0)."""
    follows = np.searchsorted(these, after)
    there = follows < len(these)
    found = np.zeros(len(after), dtype=np.int64)
    found[there] = these[follows[there]]
    return found, there


def _compiled_runs(inside: Sequence[Steps], outside: Sequence[Steps], *, each: bool) -> TaskRuns:
    """Find the runs in one pass, by the compiled kernel."""
    from drfh.kernels import trace_runs as kernel

    pass_ = _Pass(sum(len(piece.task) for piece in inside), each=each)
    for piece in inside:
        pass_.follow(piece)
    kept, rows = pass_.kept, pass_.rows
    count = int(kept[kernel.ROWS])
    if not each:
        kernel.settle(pass_.tasks, rows, count)
    ended, scheduled = int(kept[kernel.ENDED]), int(kept[kernel.SCHEDULED])
    known = int(kept[kernel.TASKS])
    seen = pass_.tasks[:known, kernel.SEEN][pass_.tasks[:known, kernel.ROW] < 0]
    columns = rows[:, :count]
    if any(len(piece.task) for piece in outside):
        columns = columns.copy()
        for piece in outside:  # only to count tasks
            pass_.follow(piece)
    return TaskRuns(
        task=columns[kernel.ROW_TASK],
        time=columns[kernel.ROW_TIME],
        submit=columns[kernel.ROW_SUBMIT],
        start=columns[kernel.ROW_START],
        end=columns[kernel.ROW_STOP],
        event=columns[kernel.ROW_EVENT].astype(np.int8),
        ended=ended,
        still_open=scheduled - ended,
        tasks=int(kept[kernel.TASKS]),
        later=int(kept[kernel.TASKS]) - known,
        unsubmitted=(int((seen == 1).sum()), int((seen == 0).sum()), int((seen == -1).sum())),
    )


class _Pass:
    """The arrays of one pass, which grow with it."""

    def __init__(self, steps: int, *, each: bool) -> None:
        from drfh.kernels import trace_runs as kernel

        self._kernel = kernel
        self._each = each
        size = max(_BLOCK, steps // 4)  # there are about four steps a task
        self.kept = np.zeros(kernel.KEPT, dtype=np.int64)
        self._table = np.full(_BLOCK, -1, dtype=np.int64)
        self._page = np.empty(_BLOCK, dtype=np.int32)
        self._entry = np.empty((_BLOCK, kernel.PAGE), dtype=np.int32)
        self.tasks = np.empty((size, kernel.TASK_COLUMNS), dtype=np.int64)
        self.rows = np.empty((kernel.ROW_COLUMNS, size), dtype=np.int64)

    def follow(self, steps: Steps) -> None:
        """Take more steps."""
        for begin in range(0, len(steps.task), _BLOCK):
            block = steps.part(begin, begin + _BLOCK)
            self._grow(len(block.task))
            self._kernel.follow(
                block.task, block.time, block.event, self._each, self.kept, self._table,
                self._page, self._entry, self.tasks, self.rows,
            )  # fmt: skip

    def _grow(self, more: int) -> None:
        kernel, kept = self._kernel, self.kept
        self.tasks = _with_capacity(self.tasks, int(kept[kernel.TASKS]), more)
        self._entry = _with_capacity(self._entry, int(kept[kernel.PAGES]), more)
        pages = int(kept[kernel.PAGES]) + more
        if 2 * pages > len(self._table):
            size = 1 << (4 * pages).bit_length()
            table, page = np.full(size, -1, dtype=np.int64), np.empty(size, dtype=np.int32)
            kernel.move_pages(self._table, self._page, table, page)
            self._table, self._page = table, page
        rows, width = int(kept[kernel.ROWS]), self.rows.shape[1]
        if rows + more > width:
            wider = np.empty((len(self.rows), 2 * (rows + more)), dtype=np.int64)
            wider[:, :rows] = self.rows[:, :rows]
            self.rows = wider


def _with_capacity(array: NDArray[Any], used: int, more: int) -> NDArray[Any]:
    """Return the array if more rows fit, else a copy of twice the size."""
    if used + more <= len(array):
        return array
    larger = np.empty((2 * (used + more), *array.shape[1:]), dtype=array.dtype)
    larger[:used] = array[:used]
    return larger
