"""Reader of ``task_events``: each part by a kernel or row by row."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from drfh.errors import InputError
from drfh.files.reader import DamagedError, Fault, Ledger, Progress, pieces, unpacked
from drfh.kernels import expect
from drfh.traces.google2011.task_runs import Steps
from drfh.traces.rows import LINE, parse_rows, refuse

__all__ = [
    "AFTER_TRACE",
    "ENDS",
    "INDEX_BITS",
    "START_OF_TRACE",
    "Part",
    "TaskEvents",
    "compiled_part",
    "find_parts",
    "plain_part",
    "read_part",
    "read_task_events",
]


#: What happened before the trace has time 0; the trace itself begins here, in microseconds.
START_OF_TRACE = 600_000_000
#: Event type → what ended the run.
ENDS = {2: "evict", 3: "fail", 4: "finish", 5: "kill", 6: "lost"}
_NAMES = ("SUBMIT", "SCHEDULE", "EVICT", "FAIL", "FINISH", "KILL", "LOST")
# Bytes of text for which loading compiled code pays as much as for a step of other kernels; a
# packed byte is about ten of them.
_TEXT_A_STEP, _TEXT_A_PACKED = 320, 10

_PART = re.compile(r"part-(\d{5})-of-(\d{5})\.csv(\.gz)?")
#: A task is one number: its job's, and its index in the job in so many bits.
INDEX_BITS = 23
#: What happens after the trace has this time.
AFTER_TRACE = 2**63 - 1
_JOB_BITS = 62 - INDEX_BITS
_COLUMNS = {
    "time": pl.Int64,
    "missing info": pl.Int8,
    "job ID": pl.Int64,
    "task index": pl.Int64,
    "machine ID": pl.Int64,
    "event type": pl.Int8,
    "user": pl.String,
    "scheduling class": pl.Int8,
    "priority": pl.Int8,
    "CPU request": pl.Float64,
    "memory request": pl.Float64,
    "disk request": pl.Float64,
    "different machines": pl.Int8,
}


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of one part that matter.

    Parameters
    ----------
    steps
        All events, in the order of the file.
    form
        For each SUBMIT its row in `forms`.
    forms
        Who and what: the user, the request and so on. A row may be there twice, or for no SUBMIT.
    users, jobs
        The different ones, of all rows.
    kinds
        How many rows there are of each event type.
    rows
        How many there are in all.
    first, last
        Least and greatest time.
    """

    steps: Steps
    form: NDArray[np.int32]
    forms: pl.DataFrame
    users: pl.Series
    jobs: NDArray[np.int64]
    kinds: list[int]
    rows: int
    first: int
    last: int


def read_part(path: Path, ledger: Ledger) -> Part:
    """Read a file, by the compiled kernel where that is possible.

    Parameters
    ----------
    path
        The file.
    ledger
        Where broken rows are counted.
    """
    part = compiled_part(path) if "numba" in sys.modules else None
    return plain_part(path, ledger) if part is None else part


def plain_part(path: Path, ledger: Ledger) -> Part:
    """Read a file row by row: the definition of :func:`read_part`."""
    place = f"{path.parent.name}/{path.name}"
    required = ("time", "job ID", "task index", "event type", "user")
    frame = parse_rows(unpacked(path, ledger), _COLUMNS, ledger, place, required=required)
    rows = len(frame)
    for field, wrong, rule in (
        ("time", pl.col("time") < 0, "must be ≥ 0"),
        ("job ID", ~pl.col("job ID").is_between(0, 2**_JOB_BITS - 1), "must be a job's number"),
        (
            "task index",
            ~pl.col("task index").is_between(0, 2**INDEX_BITS - 1),
            f"must be from 0 to {2**INDEX_BITS - 1:,}",
        ),
        ("event type", ~pl.col("event type").is_between(0, 8), "must be from 0 to 8"),
        ("CPU request", ~_amount("CPU request"), "must be a finite number ≥ 0"),
        ("memory request", ~_amount("memory request"), "must be a finite number ≥ 0"),
        ("user", pl.col("user").str.strip_chars() != pl.col("user"), "must have no spaces around"),
    ):
        frame = refuse(frame, wrong, field, rule, ledger, place)
    after = int((frame["time"] == AFTER_TRACE).sum())
    if after:
        ledger.count("rows after the end of the trace, left out", after)
        frame = frame.filter(pl.col("time") < AFTER_TRACE)
    back = frame.filter(pl.col("time") < pl.col("time").shift(1))
    if len(back):
        rule = "must not be before that of the row above (rows are put in order of time)"
        where = f"{place}, line {back[LINE][0]}"
        error = InputError("time", rule, back["time"][0], place=where)
        ledger.broken(error, len(back), Fault.DISORDERED_ROW)
    kinds = dict(frame["event type"].value_counts().iter_rows())
    steps = frame.select(
        ((pl.col("job ID") * 2**INDEX_BITS) + pl.col("task index")).alias("task"),
        "time",
        "event type",
    )
    forms = frame.filter(pl.col("event type") == 0).select(
        pl.col("user").cast(pl.Categorical),
        pl.col("CPU request").alias("cpu"),
        pl.col("memory request").alias("memory"),
        pl.col("disk request").alias("disk"),
        "priority",
        pl.col("scheduling class").alias("scheduling_class"),
        (pl.col("different machines") == 1).alias("different_machines"),
    )
    return Part(
        # Not read-only, as those of the kernel are: another type would be compiled anew.
        steps=Steps(*(column.to_numpy(writable=True) for column in steps)),
        form=np.arange(len(forms), dtype=np.int32),
        forms=forms,
        users=frame["user"].unique(),
        jobs=frame["job ID"].unique().to_numpy(),
        kinds=[kinds.get(kind, 0) for kind in range(9)],
        rows=rows,
        first=int(frame["time"].min() or 0) if len(frame) else AFTER_TRACE,  # type: ignore[arg-type]
        last=int(frame["time"].max() or 0) if len(frame) else 0,  # type: ignore[arg-type]
    )


def _amount(name: str) -> pl.Expr:
    """Whether a field is empty or a finite number ≥ 0."""
    return (pl.col(name).is_finite() & (pl.col(name) >= 0)).fill_null(True)


def compiled_part(path: Path) -> Part | None:
    """Read a file by the kernel; None if anything is unusual.

    Parameters
    ----------
    path
        The file.
    """
    reader = _PartReader()
    rest = b""
    try:
        for piece in pieces(path):
            # Only the row that two pieces share is copied.
            head = piece.find(b"\n") + 1
            if not head:
                rest += piece
                continue
            tail = piece.rfind(b"\n") + 1
            if not (reader.read(rest + piece[:head], 0) and reader.read(piece, head, tail)):
                return None
            rest = piece[tail:]
    except DamagedError:
        return None
    if rest and not reader.read(rest + b"\n", 0):
        return None
    return reader.part()


class _PartReader:
    """The arrays of the kernel, which grow as rows come."""

    def __init__(self) -> None:
        from drfh.kernels import trace_rows as kernel

        self._kernel = kernel
        self._kept = np.zeros(kernel.KEPT, dtype=np.int64)
        self._kept[kernel.JOB] = -1
        # Memory that is never written to is never taken.
        self._task = np.empty(2**18, dtype=np.int64)
        self._time = np.empty(2**18, dtype=np.int64)
        self._event = np.empty(2**18, dtype=np.int8)
        self._submit = np.empty(2**18, dtype=np.int32)
        self._job_table = np.full(2**13, -1, dtype=np.int64)
        self._job_form = np.empty(2**13, dtype=np.int32)
        self._text = np.empty(2**18, dtype=np.uint8)
        self._form = np.empty((2**12, kernel.FORM_COLUMNS), dtype=np.int64)
        self._request = np.empty((2**12, 3), dtype=np.float64)
        self._user_table = np.full(2**10, -1, dtype=np.int32)

    def read(self, data: bytes, begin: int, end: int | None = None) -> bool:
        """Read whole rows; return whether they are in order."""
        kernel, kept = self._kernel, self._kept
        stop = len(data) if end is None else end
        kept[kernel.POSITION] = begin
        most = int(kept[kernel.ROWS]) + (stop - begin) // kernel.ROWS_AT_LEAST + 1
        if most > len(self._task):
            size = 2 * most
            self._task = _grown(self._task, size)
            self._time = _grown(self._time, size)
            self._event = _grown(self._event, size)
            self._submit = _grown(self._submit, size)
        array = np.frombuffer(data, dtype=np.uint8)
        while True:
            answer = kernel.read_rows(
                array, stop, kept, self._task, self._time, self._event, self._submit,
                self._job_table, self._job_form, self._text, self._form, self._request,
                self._user_table,
            )  # fmt: skip
            if answer in (kernel.DONE, kernel.ODD):
                return bool(answer == kernel.DONE)
            self._grow(answer, stop - begin)

    def _grow(self, answer: int, size: int) -> None:
        kernel = self._kernel
        if answer == kernel.MORE_TEXT:  # one row may be as long as all of it
            self._text = _grown(self._text, 2 * len(self._text) + size)
        elif answer == kernel.MORE_FORMS:
            self._form = _grown(self._form, 2 * len(self._form))
            self._request = _grown(self._request, 2 * len(self._request))
        elif answer == kernel.MORE_JOBS:
            table, form = self._job_table, self._job_form
            self._job_table = np.full(4 * len(table), -1, dtype=np.int64)
            self._job_form = np.empty(4 * len(table), dtype=np.int32)
            kernel.move_jobs(table, form, self._job_table, self._job_form)
            self._kept[kernel.JOB] = -1  # it is no longer where it was
        else:
            old = self._user_table
            self._user_table = np.full(4 * len(old), -1, dtype=np.int32)
            kernel.move_users(old, self._user_table, self._text, self._form)

    def part(self) -> Part:
        """Return what was read."""
        kernel, kept = self._kernel, self._kept
        rows, submits = int(kept[kernel.ROWS]), int(kept[kernel.SUBMITS])
        number = int(kept[kernel.FORMS])
        form, request = self._form[:number], self._request[:number]
        names = self._users()
        # Column by column: questions to polars' threads, many times a second, would cost more.
        forms = pl.DataFrame(
            [
                names.cast(pl.Categorical).gather(form[:, kernel.USER]),
                *(
                    pl.Series(name, request[:, column], nan_to_null=True)
                    for column, name in enumerate(("cpu", "memory", "disk"))
                ),
                _tiny("priority", form[:, kernel.PRIORITY], kernel.MISSING),
                _tiny("scheduling_class", form[:, kernel.CLASS], kernel.MISSING),
                _tiny("different_machines", form[:, kernel.DIFFERENT], kernel.MISSING) == 1,
            ]
        )
        return Part(
            steps=Steps(
                _trimmed(self._task, rows),
                _trimmed(self._time, rows),
                _trimmed(self._event, rows),
            ),
            form=_trimmed(self._submit, submits),
            forms=forms,
            users=names,
            jobs=self._job_table[self._job_table >= 0],
            kinds=kept[kernel.KINDS : kernel.KINDS + 9].tolist(),
            rows=rows,
            first=int(kept[kernel.FIRST]) if rows else AFTER_TRACE,
            last=int(kept[kernel.LAST]),
        )

    def _users(self) -> pl.Series:
        """Return the names of the users, in the order of their numbers."""
        kernel = self._kernel
        names = [""] * int(self._kept[kernel.USERS])
        for number in self._user_table[self._user_table >= 0].tolist():
            form = self._form[number]
            at, length = int(form[kernel.AT]), int(form[kernel.USER_LENGTH])
            names[int(form[kernel.USER])] = self._text[at : at + length].tobytes().decode("ascii")
        return pl.Series("user", names, dtype=pl.String)


def _tiny(name: str, values: NDArray[np.int64], missing: int) -> pl.Series:
    """Return small numbers, with null for those that are missing."""
    # Every number in order is its own position; the last one is null.
    table = pl.Series(name, [*range(128), None], dtype=pl.Int8)
    return table.gather(np.where(values == missing, 128, values))


def _grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    larger = np.empty((size, *array.shape[1:]), dtype=array.dtype)
    larger[: len(array)] = array
    return larger


def _trimmed(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Return the part that is used; a copy, if keeping the whole would cost much."""
    return array[:size] if 2 * size > len(array) else array[:size].copy()


@dataclass(frozen=True, slots=True)
class TaskEvents:
    """The rows of ``task_events`` that matter.

    Parameters
    ----------
    steps
        All events in order of time; those of one instant as in the files.
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
    """Return the files of a table in order; missing parts are counted.

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
        ledger.broken(first, len(missing), Fault.MISSING_PART)
    return [found[number] for number in numbers]


def read_task_events(
    parts: Sequence[Path], ledger: Ledger, progress: Progress | None
) -> TaskEvents:
    """Read ``task_events``, several parts at a time.

    Parameters
    ----------
    parts
        The files in order.
    ledger
        Where rows are counted. How many tasks there are is found out later.
    progress
        Called with the number of parts done.
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
        if progress is not None:
            progress("task_events", number + 1, len(parts))
        if not len(part.steps.task) and not part.rows:
            continue
        if part.first < last:
            rule = "must not be before that of the part before it (rows are put in order of time)"
            place = str(parts[number])
            error = InputError("time", rule, part.first, place=place)
            ledger.broken(error, what=Fault.DISORDERED_PART)
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
