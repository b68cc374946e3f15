"""The event log of a live cluster: JSON lines, a header and then every look that changed something.

The first line is a header::

    {"drfh": "journal 1", "version": "0.1.0", "policy": "best-fit-drfh", "seed": 0,
     "started": 1763222400.0, "engine": "slurm", "controls": true}

and anything else worth knowing. `controls` says whether drfh placed the tasks, or only watched.
A header further down is a restart: there the brain starts afresh, and the next line tells
everything again. The other lines are looks: ``t``, the seconds since `started`; what changed since
the look before, as :mod:`drfh.engines.changes` writes it; and, if the brain was asked,
``"placed": [[task, server], …]`` (empty if it placed nothing) with ``"limit": n`` if it was to
place at most so many. Times are multiples of 1/1024 s and always increase, so that sums and
differences of them are exact.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import stat
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple, Self

from drfh import __version__
from drfh.disk import LARGEST_FILE, shown_path
from drfh.engines.changes import KEYS, Picture, changes, is_number, short
from drfh.engines.wanted import Wanted
from drfh.errors import DrfhError, InputError, UnknownNameError
from drfh.scheduler import Placed

__all__ = ["Header", "Journal", "JournalWriter", "Look", "Step", "on_grid", "read_journal"]

_FORMAT = "journal 1"
_TICK = 1 / 1024
_GZIP = b"\x1f\x8b"
_LOOK_KEYS = ("t", *KEYS, "placed", "limit")
_LONGEST_LINE = LARGEST_FILE


def on_grid(seconds: float) -> float:
    """Return the nearest multiple of 1/1024 s.

    Examples
    --------
    >>> on_grid(0.3), on_grid(7.0)
    (0.2998046875, 7.0)
    """
    return round(seconds * 1024) / 1024


class Look(NamedTuple):
    """One look at the cluster, and what the brain then placed."""

    t: float
    """Seconds since the journal began, all restarts included."""
    wanted: Wanted
    """The cluster as it was."""
    placed: tuple[tuple[str, str], ...] | None
    """(task, server) in order; None if the brain was not asked."""
    limit: int | None
    """At most so many were to be placed."""


@dataclass(frozen=True)
class Header:
    """What a journal says of itself.

    Attributes
    ----------
    policy, seed : str, int
        Of the brain.
    started : float
        Seconds since 1970.
    engine : str
        What kind of cluster it is.
    controls : bool
        Whether drfh placed the tasks, or only watched.
    version : str
        Of drfh.
    facts : mapping
        Anything else.
    """

    policy: str
    seed: int
    started: float
    engine: str
    controls: bool
    version: str
    facts: Mapping[str, Any] = field(default_factory=dict)


class Step(NamedTuple):
    """A look with what a reader of the whole journal wants to know of it."""

    line: int
    """Number of the line."""
    header: Header
    """The header that it is under."""
    first: bool
    """Whether it is the first one there."""
    look: Look
    """The look."""
    changed: tuple[str, ...]
    """Tasks that came, changed or went since the look before."""


def _read_header(record: Mapping[str, Any]) -> Header:
    facts = dict(record)
    if facts.pop("drfh", None) != _FORMAT:
        raise InputError("drfh", f"must be {_FORMAT!r}", record.get("drfh"))
    kinds: dict[str, tuple[type, str]] = {
        "policy": (str, "the name of a policy"), "engine": (str, "text"), "version": (str, "text"),
        "controls": (bool, "true or false"), "seed": (int, "a whole number"),
    }  # fmt: skip
    values = {}
    for name, (kind, words) in kinds.items():
        values[name] = facts.pop(name, None)
        if type(values[name]) is not kind:
            raise InputError(name, f"must be {words}", values[name])
    started = facts.pop("started", None)
    if not is_number(started):
        raise InputError("started", "must be a number of seconds since 1970", started)
    return Header(**values, started=float(started), facts=facts)


class JournalWriter:
    """Writes a journal, a whole line for each look.

    Parameters
    ----------
    path
        The file. One that is there stays as it is, unless it is to be continued or replaced.
    header
        ``policy`` and ``started`` (seconds since 1970); ``seed`` (0), ``engine`` (``slurm``),
        ``controls`` (true) unless they differ; and anything else that JSON can hold.
    append
        Go on with a journal that is there, after a restart. A last line that was cut short by a
        crash is cut off.
    force
        Replace a file that is there.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from drfh.engines.wanted import WantedServer, WantedTask
    >>> room = WantedServer({"cpu": 4.0}, {"cpu": 4.0})
    >>> wanted = Wanted({"n0": room}, {"8": WantedTask("ann", {"cpu": 2.0}, (8, 0))})
    >>> with TemporaryDirectory() as folder:
    ...     with JournalWriter(f"{folder}/log", {"policy": "fifo", "started": 0}) as writer:
    ...         times = [writer.look(0.0, wanted, [Placed("8", "ann", "n0")]),
    ...                  writer.look(0.7, wanted, []), writer.look(1.0, wanted, [])]
    ...     journal = read_journal(f"{folder}/log")
    ...     [(look.t, look.placed) for look in journal], times
    ([(0.0, (('8', 'n0'),)), (0.7001953125, ())], [0.0, 0.7001953125, None])
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        header: Mapping[str, Any],
        *,
        append: bool = False,
        force: bool = False,
    ) -> None:
        usual = {"seed": 0, "engine": "slurm", "controls": True}
        first = {"drfh": _FORMAT, "version": __version__, **usual, **header}
        self.header = _read_header(first)
        self.path = os.fspath(path)
        self._wanted = Wanted({}, {})
        self._lists: dict[tuple[str, ...], int] = {}
        self._time = -_TICK
        self._placed = False
        self._file = _open_for_writing(self.path, append=append, force=force)
        try:
            self._size = os.fstat(self._file).st_size
            self._write(first)
        except BaseException:
            os.close(self._file)
            raise

    def look(
        self,
        t: float,
        wanted: Wanted,
        placed: Sequence[Placed] | None = None,
        limit: int | None = None,
    ) -> float | None:
        """Write a look, before anything is done about what was placed.

        Parameters
        ----------
        t
            Seconds since the start.
        wanted
            What the brain was told.
        placed, limit
            What it then placed, and at most how many it was to place; None if it was not asked.

        Returns
        -------
        float or None
            The time that was written. None if there was nothing to write: nothing has changed,
            nothing was placed, and nothing was placed at the look before.
        """
        line, lists = changes(self._wanted, wanted, self._lists)
        # What became of placements is news also if nothing did.
        if not line and not placed and not self._placed:
            return None
        time = max(on_grid(t), self._time + _TICK)
        record: dict[str, Any] = {"t": short(time), **line}
        if placed is not None:
            record["placed"] = [[one.task, one.server] for one in placed]
            if limit is not None:
                record["limit"] = int(limit)
        self._write(record)
        # Only what has been written counts: the next line tells the difference to it.
        # A copy, should the caller go on with the same mappings.
        self._wanted = Wanted(dict(wanted.servers), dict(wanted.tasks), dict(wanted.weights))
        self._lists, self._time, self._placed = lists, time, bool(placed)
        return time

    def _write(self, record: Mapping[str, Any]) -> None:
        try:
            text = json.dumps(record, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InputError("a line of the journal", f"must fit into JSON ({error})") from None
        data = text.encode() + b"\n"
        try:
            written = os.write(self._file, data)
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._file, self._size)  # no half of a line in the middle
            reason = error.strerror or str(error)
            raise DrfhError(
                f"{shown_path(self.path)}: cannot write the journal: {reason}"
            ) from None
        self._size += len(data)

    def close(self) -> None:
        """Close the file; twice does no harm."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _open_for_writing(path: str, *, append: bool, force: bool) -> int:
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
    place = shown_path(path)
    try:
        there = os.path.lexists(path)
        if there and not os.path.isfile(path):
            raise InputError("the journal", "must be a regular file or a new one", place=place)
        if there and append and os.path.getsize(path) > 0:
            descriptor = os.open(path, flags)
            try:
                _check_and_mend(descriptor, place)
            except BaseException:
                os.close(descriptor)
                raise
            return descriptor
        if there and not (append or force):
            rule = "must be new (or be continued with append, or replaced with force)"
            raise InputError("the journal", rule, place=place)
        return os.open(path, flags | (os.O_TRUNC if there else os.O_EXCL), 0o644)
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError("the journal", f"must be writable ({reason})", place=place) from None


def _check_and_mend(descriptor: int, place: str) -> None:
    """Raise unless the file is a journal; cut off a last line that a crash has left unfinished."""
    with open(descriptor, "rb", closefd=False) as file:
        try:
            _read_header(_parsed(file.readline(_LONGEST_LINE), "line 1"))
        except InputError:
            rule = "must be a journal to be continued"
            raise InputError("the file", rule, place=place) from None
        end = file.seek(0, os.SEEK_END)
        whole = end
        while whole > 0:
            start = max(whole - 2**16, 0)
            file.seek(start)
            last = file.read(whole - start).rfind(b"\n")
            if last >= 0:
                whole = start + last + 1
                break
            whole = start
    if whole < end:
        os.ftruncate(descriptor, whole)


# Reading


@dataclass(frozen=True)
class Journal:
    """A journal that has been read and found sound; iterate over its looks.

    Attributes
    ----------
    path : str
        The file.
    headers : tuple of Header
        One, and one more for each restart.
    looks : int
        How many there are.
    horizon : float
        Time of the last one, in seconds since the journal began.
    remarks : tuple of str
        What was odd.
    """

    path: str
    headers: tuple[Header, ...]
    looks: int
    horizon: float
    remarks: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Look]:
        return (step.look for step in self.steps())

    def steps(self) -> Iterator[Step]:
        """Iterate over the looks, with their lines, headers and changed tasks."""
        reader = _Reader(self.path)
        for count, step in enumerate(reader.steps(), start=1):
            yield step
            if count == self.looks:  # a live journal may have grown meanwhile
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
    reader = _Reader(os.fspath(path))
    looks, horizon = 0, 0.0
    for step in reader.steps():
        looks, horizon = looks + 1, step.look.t
    if not reader.headers:
        raise InputError("the journal", "must not be empty", place=shown_path(reader.path))
    return Journal(reader.path, tuple(reader.headers), looks, horizon, tuple(reader.remarks))


class _Reader:
    """Goes through a file once."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.headers: list[Header] = []
        self.remarks: list[str] = []

    def steps(self) -> Iterator[Step]:
        picture, first, known = Picture(), True, frozenset[str]()
        offset, last = 0.0, -math.inf
        for number, data in self._lines():
            place = f"{shown_path(self.path)}, line {number}"
            with _placed_at(place):
                record = _parsed(data, "the line")
                if "drfh" in record or not self.headers:
                    self.headers.append(_read_header(record))
                    offset = on_grid(self.headers[-1].started - self.headers[0].started)
                    offset = max(offset, 0.0)
                    known = frozenset(picture.tasks)
                    picture, first = Picture(), True
                    continue
                for key in record:
                    if key not in _LOOK_KEYS:
                        raise UnknownNameError("a key of the line", key, _LOOK_KEYS)
                time = self._time(record)
                if first and offset + time <= last:
                    self.remarks.append(f"the clock went back before line {number}")
                    offset = last + _TICK - time
                if offset + time <= last:
                    raise InputError("t", "must be later than at the line before", time)
                last = offset + time
                changed = picture.apply(record)
                wanted = picture.wanted()
                if first:  # after a restart everything is told again
                    changed = tuple(dict.fromkeys((*sorted(known - {*changed}), *changed)))
                placed, limit = _read_placed(record, wanted)
            yield Step(number, self.headers[-1], first, Look(last, wanted, placed, limit), changed)
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
                    data = file.readline(_LONGEST_LINE)
                except (EOFError, zlib.error, gzip.BadGzipFile):
                    self.remarks.append("the packed file is damaged: what comes after is missing")
                    return
                if not data:
                    return
                number += 1
                if not data.endswith(b"\n"):
                    if len(data) == _LONGEST_LINE:
                        rule = f"must be at most {_LONGEST_LINE // 2**20} MiB long"
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
    """Say in errors where in the file they are."""
    try:
        yield
    except InputError as error:
        error.place = place
        raise


def _parsed(data: bytes, name: str) -> dict[str, Any]:
    try:
        record = json.loads(data)
    except (ValueError, RecursionError):
        raise InputError(name, "must be JSON", data[:40].decode(errors="replace")) from None
    if not isinstance(record, dict):
        raise InputError(name, "must be a JSON object", record)
    return record


def _read_placed(
    record: Mapping[str, Any], wanted: Wanted
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
        if task not in wanted.tasks:
            raise InputError(f"placed[{position}]", "must name a task that is there", task)
        if server not in wanted.servers:
            raise InputError(f"placed[{position}]", "must name a server that is there", server)
        placed.append((task, server))
    return tuple(placed), limit
