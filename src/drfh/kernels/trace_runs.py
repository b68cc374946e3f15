"""Runs of Google's tasks from their events, and numbers for values.

Short cuts both: :func:`drfh.traces.google2011.task_runs.plain_runs` and
:func:`drfh.traces.build.codes` define what comes out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from drfh.kernels import machine_code

__all__ = ["follow", "move_pages", "number", "settle"]

Ints = NDArray[np.int64]
Small = NDArray[np.int32]
Tiny = NDArray[np.int8]

Function = TypeVar("Function", bound=Callable[..., Any])


def _kernel(function: Function) -> Function:
    """Compile when it is first called, to run beside other threads, and keep the machine code."""
    return machine_code.kernel(function, nogil=True)


_MIX = -7046029254386353131
# Columns of a task that `follow` keeps. Of one task for each SUBMIT, OPEN is the last of its runs
# that have not ended; of one task in all, the run is here. SEEN of a task without a SUBMIT is 1
# after a SCHEDULE, 0 after an end alone, -1 after UPDATEs alone.
PENDING, ROW, OPEN, START, STOP, EVENT, SEEN = range(7)
TASK_COLUMNS = 7
# Numbers that `follow` keeps, in `kept`.
TASKS, PAGES, SUBMITS, ROWS, ENDED, SCHEDULED = range(6)
KEPT = 6
# Rows of the array of `follow`'s tasks that come out: a column each, so each number lies together.
ROW_TASK, ROW_TIME, ROW_SUBMIT, ROW_START, ROW_STOP, ROW_EVENT, ROW_LINK = range(7)
ROW_COLUMNS = 7
# Tasks of a job that are looked up together: neighbours are often asked for one after another.
_PAGE_BITS = 4
PAGE = 1 << _PAGE_BITS
_TOGETHER = 256


@_kernel
def _slot(value: int, mask: int) -> int:
    """Return where a number belongs in a table."""
    mixed = value * _MIX
    return (mixed ^ (mixed >> 32)) & mask


@_kernel
def move_pages(table: Ints, page: Small, to: Ints, to_page: Small) -> None:
    """Fill a larger table (all -1) with the pages of another one."""
    mask = len(to) - 1
    for place in range(len(table)):
        if table[place] >= 0:
            slot = _slot(table[place], mask)
            while to[slot] >= 0:
                slot = (slot + 1) & mask
            to[slot] = table[place]
            to_page[slot] = page[place]


@_kernel
def follow(
    task: Ints,
    time: Ints,
    event: Tiny,
    each: bool,
    kept: Ints,
    table: Ints,
    page: Small,
    entry: Small,
    tasks: Ints,
    rows: Ints,
) -> None:
    """Follow tasks through their steps, which are in order of time.

    Parameters
    ----------
    task, time, event
        The steps.
    each
        Whether every SUBMIT is a task of its own, or only the first of each task.
    kept
        Numbers from call to call.
    table, page, entry
        Open-addressing table of pages of tasks (-1: free), their numbers, and for each page the
        positions of its tasks in `tasks`; with room for one more page a step.
    tasks
        What is known of each task; with room for one more a step.
    rows
        A column for each task that comes out, in the order of their SUBMIT; with room for one
        more a step.
    """
    known, numbered = kept[TASKS], kept[PAGES]
    mask = len(table) - 1
    found = np.empty(_TOGETHER, dtype=np.int32)
    for begin in range(0, len(task), _TOGETHER):
        end = min(begin + _TOGETHER, len(task))
        # First find many of them: memory answers several such questions at once.
        for step in range(begin, end):
            key = task[step] >> _PAGE_BITS
            slot = _slot(key, mask)
            while table[slot] >= 0 and table[slot] != key:
                slot = (slot + 1) & mask
            if table[slot] < 0:
                table[slot] = key
                page[slot] = numbered
                for other in range(PAGE):
                    entry[numbered, other] = -1
                numbered += 1
            at, lane = page[slot], task[step] & (PAGE - 1)
            if entry[at, lane] < 0:
                entry[at, lane] = known
                tasks[known, PENDING] = 0
                for column in range(ROW, TASK_COLUMNS):
                    tasks[known, column] = -1
                known += 1
            found[step - begin] = entry[at, lane]
        for step in range(begin, end):
            one = found[step - begin]
            if event[step] == 0:
                if each or tasks[one, ROW] < 0:
                    row = kept[ROWS]
                    kept[ROWS] = row + 1
                    tasks[one, ROW] = row
                    rows[ROW_TASK, row] = task[step]
                    rows[ROW_TIME, row] = time[step]
                    rows[ROW_SUBMIT, row] = kept[SUBMITS]
                    rows[ROW_LINK, row] = one
                    if each:
                        for column in range(ROW_START, ROW_COLUMNS):
                            rows[column, row] = -1
                kept[SUBMITS] += 1
            elif event[step] == 1:
                kept[SCHEDULED] += 1
                tasks[one, PENDING] += 1
                tasks[one, SEEN] = 1
                if not each:
                    tasks[one, START] = time[step]
                    tasks[one, STOP] = -1
                    tasks[one, EVENT] = -1
                    continue
                row = tasks[one, ROW]
                if row >= 0 and rows[ROW_START, row] < 0:
                    rows[ROW_START, row] = time[step]
                    rows[ROW_LINK, row] = tasks[one, OPEN]
                    tasks[one, OPEN] = row
            elif event[step] <= 6 and tasks[one, PENDING] == 0:
                tasks[one, SEEN] = max(tasks[one, SEEN], 0)
            elif event[step] <= 6:
                kept[ENDED] += tasks[one, PENDING]
                tasks[one, PENDING] = 0
                tasks[one, STOP] = time[step]
                tasks[one, EVENT] = event[step]
                row = tasks[one, OPEN]
                while row >= 0:  # all that began since the last end
                    rows[ROW_STOP, row] = time[step]
                    rows[ROW_EVENT, row] = event[step]
                    row = rows[ROW_LINK, row]
                tasks[one, OPEN] = -1
    kept[TASKS], kept[PAGES] = known, numbered


@_kernel
def settle(tasks: Ints, rows: Ints, count: int) -> None:
    """Write the run of each task into its row, where there is one row a task."""
    for row in range(count):
        one = rows[ROW_LINK, row]
        rows[ROW_START, row] = tasks[one, START]
        rows[ROW_STOP, row] = tasks[one, STOP]
        rows[ROW_EVENT, row] = tasks[one, EVENT]


@_kernel
def number(values: Ints) -> tuple[Ints, Ints]:
    """Return a number for each value, in order of first appearance, and where each is first."""
    codes = np.empty(len(values), dtype=np.int64)
    first = np.empty(1024, dtype=np.int64)
    table = np.full(2048, -1, dtype=np.int32)
    mask = len(table) - 1
    known = 0
    for position in range(len(values)):
        value = values[position]
        if position and value == values[position - 1]:
            codes[position] = codes[position - 1]
            continue
        slot = _slot(value, mask)
        while table[slot] >= 0 and values[first[table[slot]]] != value:
            slot = (slot + 1) & mask
        if table[slot] < 0:
            if known == len(first):
                more = np.empty(2 * known, dtype=np.int64)
                more[:known] = first
                first = more
                table = np.full(4 * known, -1, dtype=np.int32)
                mask = len(table) - 1
                for code in range(known):
                    slot = _slot(values[first[code]], mask)
                    while table[slot] >= 0:
                        slot = (slot + 1) & mask
                    table[slot] = code
                slot = _slot(value, mask)
                while table[slot] >= 0:
                    slot = (slot + 1) & mask
            first[known] = position
            table[slot] = known
            known += 1
        codes[position] = table[slot]
    return codes, first[:known].copy()
