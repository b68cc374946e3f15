"""The published files of Google's trace: which parts there are, and what is in all of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from drfh.errors import InputError
from drfh.files.ledger import Ledger, Progress
from drfh.kernels import expect
from drfh.traces.google2011.rows import AFTER_TRACE, Part, read_part
from drfh.traces.google2011.runs import Steps

__all__ = ["ENDS", "START_OF_TRACE", "TaskEvents", "find_parts", "read_task_events"]

#: What happened before the trace has time 0; the trace itself begins here, in microseconds.
START_OF_TRACE = 600_000_000
#: Event type → what ended the run.
ENDS = {2: "evict", 3: "fail", 4: "finish", 5: "kill", 6: "lost"}
_NAMES = ("SUBMIT", "SCHEDULE", "EVICT", "FAIL", "FINISH", "KILL", "LOST")
# Bytes of text for which loading compiled code pays as much as for a step of other kernels; a
# packed byte is about ten of them.
_TEXT_A_STEP, _TEXT_A_PACKED = 320, 10

_PART = re.compile(r"part-(\d{5})-of-(\d{5})\.csv(\.gz)?")


@dataclass(frozen=True, slots=True)
class TaskEvents:
    """The rows of ``task_events`` that matter.

    Parameters
    ----------
    steps
        SUBMIT, SCHEDULE and end events in order of time; those of one instant as in the files.
    form
        For each SUBMIT in the same order its row in `forms`.
    forms
        Who and what: `user`, `cpu`, `memory`, `disk`, `priority`, `scheduling_class`,
        `different_machines`.
    first_time, last_time
        Of all rows, in microseconds.
    """

    steps: tuple[Steps, ...]
    form: NDArray[np.int64]
    forms: pl.DataFrame
    first_time: int
    last_time: int


def find_parts(folder: Path, table: str, ledger: Ledger) -> list[Path]:
    """Return the files of a table in order; parts missing in the middle are counted.

    Parameters
    ----------
    folder
        The directory of the trace.
    table
        Name of a directory in it.
    ledger
        Where missing parts are counted.
    """
    inside = folder / table
    if not inside.is_dir():
        raise InputError("path", f"must be a directory with {table}/ in it", str(folder))
    found: dict[int, Path] = {}
    for path in sorted(inside.iterdir()):
        match = _PART.fullmatch(path.name)
        if match is not None and path.is_file():
            found.setdefault(int(match[1]), path)  # a plain file comes before its .gz
    if not found:
        rule = f"must have files such as part-00000-of-00500.csv.gz in {table}/"
        raise InputError("path", rule, str(folder))
    numbers = sorted(found)
    missing = [n for n in range(numbers[0], numbers[-1]) if n not in found]
    if missing:
        rule = "must be there, as it is between others: what happened meanwhile is not known"
        first = InputError(f"{table} part", rule, f"part-{missing[0]:05}")
        ledger.broken(first, len(missing), "missing part")
    return [found[number] for number in numbers]


def read_task_events(parts: Sequence[Path], ledger: Ledger, tell: Progress | None) -> TaskEvents:
    """Read ``task_events``, several parts at a time.

    Parameters
    ----------
    parts
        The files in order.
    ledger
        Where rows are counted. How many tasks there are is found out later.
    tell
        Told how many parts are done.
    """
    text = sum(
        path.stat().st_size * (_TEXT_A_PACKED if path.suffix == ".gz" else 1) for path in parts
    )
    expect(text / _TEXT_A_STEP)
    steps: list[Steps] = []
    form, forms, jobs = [], [], []
    users: set[str] = set()
    first, last, rows, known = AFTER_TRACE, 0, 0, 0
    kinds = np.zeros(9, dtype=np.int64)
    for number, part in enumerate(_parts(parts, ledger)):
        if tell is not None:
            tell("task_events", number + 1, len(parts))
        if not len(part.steps.task) and not part.rows:
            continue
        if part.first < last:
            rule = "must not be before that of the part before it (rows are put in order of time)"
            place = str(parts[number])
            error = InputError("time", rule, part.first, place=place)
            ledger.broken(error, what="disordered part")
        first, last = min(first, part.first), max(last, part.last)
        rows += part.rows
        kinds += part.kinds
        steps.append(part.steps)
        form.append(part.form + np.int64(known))
        forms.append(part.forms)
        known += len(part.forms)
        users.update(part.users)
        jobs.append(part.jobs)
    if not sum(map(len, form)):
        raise InputError("trace", "must have at least one SUBMIT row", place=str(parts[0].parent))
    events = _in_order(steps, np.concatenate(form), pl.concat(forms), first, last)
    ledger.count("rows", rows)
    ledger.count("users", len(users))
    ledger.count("jobs", len(np.unique(np.concatenate(jobs))))
    ledger.count("tasks", 0)
    for code, name in enumerate(_NAMES):
        ledger.count(f"{name} rows", int(kinds[code]))
    ledger.count("UPDATE rows", int(kinds[7] + kinds[8]))
    at_zero = sum(int(((one.time == 0) & (one.event == 0)).sum()) for one in events.steps)
    ledger.count("SUBMIT rows at time 0", at_zero)
    times = np.bincount(events.form, minlength=len(events.forms))
    asked = events.forms.filter(times > 0).select("cpu", "memory").drop_nulls()
    ledger.count("different requests of CPU and memory", asked.n_unique())
    for what, which in (
        ("without a request", pl.col("cpu").is_null() & pl.col("memory").is_null()),
        ("that ask for no CPU", (pl.col("cpu") == 0).fill_null(False)),
        ("that ask for no memory", (pl.col("memory") == 0).fill_null(False)),
    ):
        chosen = events.forms.select(which).to_series().to_numpy()
        ledger.count(f"SUBMIT rows {what}", int(times[chosen].sum()))
    return events


def _in_order(
    steps: list[Steps], form: NDArray[np.int64], forms: pl.DataFrame, first: int, last: int
) -> TaskEvents:
    """Put together what the parts hold; if time runs backwards, by time."""
    steps = [piece for piece in steps if len(piece.task)]
    inside = all(bool((one.time[1:] >= one.time[:-1]).all()) for one in steps)
    between = all(one.time[-1] <= two.time[0] for one, two in pairwise(steps))
    if not (inside and between):  # the order of rows of one instant stays
        task, time, event = (np.concatenate(columns) for columns in zip(*steps, strict=True))
        form = form[np.argsort(time[event == 0], kind="stable")]
        order = np.argsort(time, kind="stable")
        steps = [Steps(task[order], time[order], event[order])]
    return TaskEvents(tuple(steps), form, forms, first, last)


def _parts(paths: Sequence[Path], ledger: Ledger) -> Iterator[Part]:
    """Read parts in threads, a few ahead: memory holds no more than these as text."""
    threads = min(4, os.cpu_count() or 1)
    with ThreadPoolExecutor(threads) as pool:
        waiting: list[tuple[Ledger, Future[Part]]] = []
        for path in paths:
            own = Ledger(strict=ledger.strict)
            waiting.append((own, pool.submit(read_part, path, own)))
            if len(waiting) > threads:
                yield _finished(*waiting.pop(0), ledger)
        for pair in waiting:
            yield _finished(*pair, ledger)


def _finished(own: Ledger, future: Future[Part], ledger: Ledger) -> Part:
    part = future.result()
    ledger.merge(own)
    return part
