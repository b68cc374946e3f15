"""The published files of Google's trace: which parts there are, and their rows."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from drfh.errors import InputError
from drfh.traces.format import Tell
from drfh.traces.ledger import Ledger
from drfh.traces.opening import unpacked
from drfh.traces.rows import LINE, parse_rows, refuse

__all__ = ["ENDS", "INDEX_BITS", "START_OF_TRACE", "TaskEvents", "find_parts", "read_task_events"]

#: What happened before the trace has time 0; the trace itself begins here, in microseconds.
START_OF_TRACE = 600_000_000
#: A task is one number: its job's, and its index in the job in so many bits.
INDEX_BITS = 23
_JOB_BITS = 62 - INDEX_BITS
_AFTER_TRACE = 2**63 - 1
#: Event type → what ended the run.
ENDS = {2: "evict", 3: "fail", 4: "finish", 5: "kill", 6: "lost"}
_NAMES = ("SUBMIT", "SCHEDULE", "EVICT", "FAIL", "FINISH", "KILL", "LOST")

_PART = re.compile(r"part-(\d{5})-of-(\d{5})\.csv(\.gz)?")
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
class TaskEvents:
    """The rows of ``task_events`` that matter, in the order of the files.

    Parameters
    ----------
    steps
        SUBMIT, SCHEDULE and end events: `task` (a number), `time` in microseconds, `event`.
    submits
        One row for each SUBMIT, in the same order: who and what.
    first_time, last_time
        Of all rows, in microseconds.
    """

    steps: pl.DataFrame
    submits: pl.DataFrame
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
        ledger.broken(InputError(f"{table} part", rule, f"part-{missing[0]:05}"), len(missing))
    return [found[number] for number in numbers]


def read_task_events(parts: Sequence[Path], ledger: Ledger, tell: Tell | None) -> TaskEvents:
    """Read ``task_events``, several parts at a time.

    Parameters
    ----------
    parts
        The files in order.
    ledger
        Where rows are counted.
    tell
        Told how many parts are done.
    """
    steps, submits = [], []
    users, jobs = pl.Series([], dtype=pl.String), pl.Series([], dtype=pl.Int64)
    first, last, rows = _AFTER_TRACE, 0, 0
    kinds = [0] * 9
    for number, part in enumerate(_parts(parts, ledger)):
        if tell is not None:
            tell("task_events", number + 1, len(parts))
        if not len(part.steps) and not part.rows:
            continue
        if part.first < last:
            rule = "must not be before that of the part before it (rows are put in order of time)"
            place = str(parts[number])
            ledger.broken(InputError("time", rule, part.first, place=place))
        first, last = min(first, part.first), max(last, part.last)
        rows += part.rows
        kinds = [a + b for a, b in zip(kinds, part.kinds, strict=True)]
        steps.append(part.steps)
        submits.append(part.submits)
        users = pl.concat([users, part.users]).unique()
        jobs = pl.concat([jobs, part.jobs]).unique()
    if not submits or not sum(map(len, submits)):
        raise InputError("trace", "must have at least one SUBMIT row", place=str(parts[0].parent))
    every, asked = pl.concat(steps), pl.concat(submits)
    if not every["time"].is_sorted():  # the order of rows of one instant stays
        asked = asked.sort("time", maintain_order=True)
        every = every.sort("time", maintain_order=True)
    ledger.count("rows", rows)
    ledger.count("users", len(users))
    ledger.count("jobs", len(jobs))
    ledger.count("tasks", every["task"].n_unique())
    for code, name in enumerate(_NAMES):
        ledger.count(f"{name} rows", kinds[code])
    ledger.count("UPDATE rows", kinds[7] + kinds[8])
    ledger.count("SUBMIT rows at time 0", int((asked["time"] == 0).sum()))
    ledger.count("SUBMIT rows without a request", int(_no_request(asked).sum()))
    ledger.count("SUBMIT rows that ask for no CPU", int((asked["cpu"] == 0).sum()))
    ledger.count("SUBMIT rows that ask for no memory", int((asked["memory"] == 0).sum()))
    return TaskEvents(every, asked, first, last)


def _no_request(submits: pl.DataFrame) -> pl.Series:
    return submits["cpu"].is_null() & submits["memory"].is_null()


@dataclass(frozen=True, slots=True)
class _Part:
    steps: pl.DataFrame
    submits: pl.DataFrame
    users: pl.Series
    jobs: pl.Series
    kinds: list[int]
    rows: int
    first: int
    last: int


def _parts(paths: Sequence[Path], ledger: Ledger) -> Iterator[_Part]:
    """Read parts in threads, a few ahead: memory holds no more than these as text."""
    threads = min(4, os.cpu_count() or 1)
    with ThreadPoolExecutor(threads) as pool:
        waiting: list[tuple[Ledger, Future[_Part]]] = []
        for path in paths:
            own = Ledger(strict=ledger.strict)
            waiting.append((own, pool.submit(_read_part, path, own)))
            if len(waiting) > threads:
                yield _finished(*waiting.pop(0), ledger)
        for pair in waiting:
            yield _finished(*pair, ledger)


def _finished(own: Ledger, future: Future[_Part], ledger: Ledger) -> _Part:
    part = future.result()
    ledger.merge(own)
    return part


def _read_part(path: Path, ledger: Ledger) -> _Part:
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
    after = int((frame["time"] == _AFTER_TRACE).sum())
    if after:
        ledger.count("rows after the end of the trace, left out", after)
        frame = frame.filter(pl.col("time") < _AFTER_TRACE)
    back = frame.filter(pl.col("time") < pl.col("time").shift(1))
    if len(back):
        rule = "must not be before that of the row above (rows are put in order of time)"
        where = f"{place}, line {back[LINE][0]}"
        ledger.broken(InputError("time", rule, back["time"][0], place=where), len(back))
    kinds = dict(frame["event type"].value_counts().iter_rows())
    frame = frame.with_columns(
        pl.col("event type").alias("event"),
        ((pl.col("job ID") * 2**INDEX_BITS) + pl.col("task index")).alias("task"),
    )
    submits = frame.filter(pl.col("event") == 0).select(
        "task",
        "time",
        pl.col("user").cast(pl.Categorical),
        pl.col("CPU request").alias("cpu"),
        pl.col("memory request").alias("memory"),
        pl.col("disk request").alias("disk"),
        "priority",
        pl.col("scheduling class").alias("scheduling_class"),
        (pl.col("different machines") == 1).alias("different_machines"),
    )
    return _Part(
        steps=frame.filter(pl.col("event") <= 6).select("task", "time", "event"),
        submits=submits,
        users=frame["user"].unique(),
        jobs=frame["job ID"].unique(),
        kinds=[kinds.get(kind, 0) for kind in range(9)],
        rows=rows,
        first=int(frame["time"].min() or 0) if len(frame) else _AFTER_TRACE,  # type: ignore[arg-type]
        last=int(frame["time"].max() or 0) if len(frame) else 0,  # type: ignore[arg-type]
    )


def _amount(name: str) -> pl.Expr:
    """Whether a field is empty or a finite number ≥ 0."""
    return (pl.col(name).is_finite() & (pl.col(name) >= 0)).fill_null(True)
