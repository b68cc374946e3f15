"""The reader of journals: JSON lines, a header and then an entry for each change of a cluster.

The first line is a header::

    {"drfh": "journal 1", "version": "0.1.0", "policy": "best-fit-drfh", "seed": 0,
     "started": 1763222400.0, "engine": "slurm", "controls": true}

and anything else worth knowing. `controls` says whether drfh placed the tasks, or only observed.
A header further down is a restart: there the scheduler starts afresh, and the next line has the
whole cluster again. The other lines are entries: ``t``, the seconds since `started`; what changed
since the entry before, as :mod:`drfh.engines.diff` writes it; and, if the scheduler was asked,
``"placed": [[task, server], …]`` (empty if it placed nothing) with ``"limit": n`` if it was to
place at most so many. Times are multiples of 1/1024 s and always increase, so that sums and
differences of them are exact.
"""

from __future__ import annotations

import gzip
import math
import os
import stat
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

from drfh.engines.diff import KEYS, SnapshotBuilder, is_number
from drfh.engines.journal.format import (
    LONGEST_LINE,
    TICK,
    JournalHeader,
    on_grid,
    parse_line,
    read_header,
)
from drfh.engines.snapshot import ClusterSnapshot
from drfh.errors import InputError, UnknownNameError
from drfh.files.atomic import shown_path

__all__ = ["Journal", "JournalEntry", "JournalStep", "read_journal"]

_GZIP = b"\x1f\x8b"
_ENTRY_KEYS = ("t", *KEYS, "placed", "limit")


class JournalEntry(NamedTuple):
    """A snapshot of the cluster, and what the scheduler then placed."""

    t: float
    """Seconds since the journal began, all restarts included."""
    snapshot: ClusterSnapshot
    placed: tuple[tuple[str, str], ...] | None
    """(task, server) in order; None if the scheduler was not asked."""
    limit: int | None
    """At most so many were to be placed."""


class JournalStep(NamedTuple):
    """An entry with its place in the journal."""

    line: int
    """Number of the line."""
    header: JournalHeader
    """The header that it is under."""
    first: bool
    """Whether it is the first one there."""
    entry: JournalEntry
    changed: tuple[str, ...]
    """Tasks that came, changed or went since the entry before."""


@dataclass(frozen=True)
class Journal:
    """A journal that was read and found sound; iterate over its entries.

    Attributes
    ----------
    path : str
        The file.
    headers : tuple of JournalHeader
        One, and one more for each restart.
    entries : int
        How many there are.
    horizon : float
        Time of the last entry, in seconds since the journal began.
    remarks : tuple of str
        What was odd.
    """

    path: str
    headers: tuple[JournalHeader, ...]
    entries: int
    horizon: float
    remarks: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[JournalEntry]:
        return (step.entry for step in self.steps())

    def steps(self) -> Iterator[JournalStep]:
        """Iterate over the entries, with their lines, headers and changed tasks."""
        reader = _JournalReader(self.path)
        for count, step in enumerate(reader.steps(), start=1):
            yield step
            if count == self.entries:  # a live journal may have grown meanwhile
                return


def read_journal(path: str | os.PathLike[str]) -> Journal:
    """Read a journal and check all of it; it may be packed with gzip.

    Parameters
    ----------
    path
        The file. A last line that was cut short is left out, with a remark.

    Examples
    --------
    >>> read_journal("no-such-log")
    Traceback (most recent call last):
    drfh.errors.InputError: no-such-log: the journal must be readable (No such file or directory)
    """
    reader = _JournalReader(os.fspath(path))
    entries, horizon = 0, 0.0
    for step in reader.steps():
        entries, horizon = entries + 1, step.entry.t
    if not reader.headers:
        raise InputError("the journal", "must not be empty", place=shown_path(reader.path))
    return Journal(reader.path, tuple(reader.headers), entries, horizon, tuple(reader.remarks))


class _JournalReader:
    """Reads a file once."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.headers: list[JournalHeader] = []
        self.remarks: list[str] = []

    def steps(self) -> Iterator[JournalStep]:
        builder, first, known = SnapshotBuilder(), True, frozenset[str]()
        offset, last = 0.0, -math.inf
        for number, data in self._lines():
            place = f"{shown_path(self.path)}, line {number}"
            with _placed_at(place):
                record = parse_line(data, "the line")
                if "drfh" in record or not self.headers:
                    self.headers.append(read_header(record))
                    offset = on_grid(self.headers[-1].started - self.headers[0].started)
                    offset = max(offset, 0.0)
                    known = frozenset(builder.tasks)
                    builder, first = SnapshotBuilder(), True
                    continue
                for key in record:
                    if key not in _ENTRY_KEYS:
                        raise UnknownNameError("a key of the line", key, _ENTRY_KEYS)
                time = self._time(record)
                if first and offset + time <= last:
                    self.remarks.append(f"the clock went back before line {number}")
                    offset = last + TICK - time
                if offset + time <= last:
                    raise InputError("t", "must be later than at the line before", time)
                last = offset + time
                changed = builder.apply(record)
                snapshot = builder.snapshot()
                if first:  # after a restart everything is there again
                    changed = tuple(dict.fromkeys((*sorted(known - {*changed}), *changed)))
                placed, limit = _read_placed(record, snapshot)
            yield JournalStep(
                number,
                self.headers[-1],
                first,
                JournalEntry(last, snapshot, placed, limit),
                changed,
            )
            first = False

    @staticmethod
    def _time(record: Mapping[str, Any]) -> float:
        if not is_number(record.get("t")) or record["t"] < 0:
            raise InputError("t", "must be a number of seconds ≥ 0", record.get("t"))
        return on_grid(float(record["t"]))

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the whole lines, with their numbers."""
        number = 0
        with _opened(self.path) as file:
            while True:
                try:
                    data = file.readline(LONGEST_LINE)
                except (EOFError, zlib.error, gzip.BadGzipFile):
                    self.remarks.append("the packed file is damaged: what comes after is missing")
                    return
                if not data:
                    return
                number += 1
                if not data.endswith(b"\n"):
                    if len(data) == LONGEST_LINE:
                        rule = f"must be at most {LONGEST_LINE // 2**20} MiB long"
                        place = f"{shown_path(self.path)}, line {number}"
                        raise InputError("the line", rule, place=place)
                    self.remarks.append(f"line {number}, the last one, is cut short and left out")
                    return
                yield number, data


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    """Open a file, packed or not."""
    place = shown_path(path)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # a pipe could keep us waiting
            raise InputError("the journal", "must be a regular file", place=place)
        with open(path, "rb") as file:
            if file.peek(2)[:2] == _GZIP:
                with gzip.GzipFile(fileobj=file) as unpacked:
                    yield unpacked  # type: ignore[misc]
            else:
                yield file
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError("the journal", f"must be readable ({reason})", place=place) from None


@contextmanager
def _placed_at(place: str) -> Iterator[None]:
    """Add to errors where in the file they are."""
    try:
        yield
    except InputError as error:
        error.place = place
        raise


def _read_placed(
    record: Mapping[str, Any], snapshot: ClusterSnapshot
) -> tuple[tuple[tuple[str, str], ...] | None, int | None]:
    rows, limit = record.get("placed"), record.get("limit")
    if rows is None:
        if limit is not None:
            raise InputError("limit", "must come together with placed", limit)
        return None, None
    if not isinstance(rows, list):
        raise InputError("placed", "must be a list of [task, server]", rows)
    if limit is not None and (type(limit) is not int or limit < 0):
        raise InputError("limit", "must be a whole number ≥ 0", limit)
    placed = []
    for position, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != 2 or not all(isinstance(n, str) for n in row):
            raise InputError(f"placed[{position}]", "must be [task, server]", row)
        task, server = row
        if task not in snapshot.tasks:
            raise InputError(f"placed[{position}]", "must name a task that is there", task)
        if server not in snapshot.servers:
            raise InputError(f"placed[{position}]", "must name a server that is there", server)
        placed.append((task, server))
    return tuple(placed), limit
