"""The writer of a journal: a whole line for each entry, also if the machine fails in between."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from drfh import __version__
from drfh.engines.diff import compact, difference
from drfh.engines.journal.format import FORMAT, LONGEST_LINE, TICK, on_grid, parse_line, read_header
from drfh.engines.observer import Decision, Observer
from drfh.engines.snapshot import ClusterSnapshot
from drfh.errors import DrfhError, InputError
from drfh.files.atomic import shown_path
from drfh.scheduler import Placed

__all__ = ["JournalWriter"]

log = logging.getLogger(__name__)


class JournalWriter(Observer):
    """Writes a journal, a whole line for each entry.

    Parameters
    ----------
    path
        The file. One that is there stays as it is, unless it is to be continued or replaced.
    header
        ``policy``, ``engine`` and ``started`` (seconds since 1970); ``seed`` (0) and ``controls``
        (true) unless they differ; and anything else that JSON can hold.
    append
        Go on with a journal that is there, after a restart. A last line that was cut short by a
        crash is cut off.
    force
        Replace a file that is there.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from drfh.engines.journal.reader import read_journal
    >>> from drfh.engines.snapshot import NodeSnapshot, TaskSnapshot
    >>> node = NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0})
    >>> snapshot = ClusterSnapshot({"n0": node}, {"8": TaskSnapshot("ann", {"cpu": 2.0}, (8, 0))})
    >>> with TemporaryDirectory() as folder:
    ...     header = {"policy": "fifo", "engine": "slurm", "started": 0}
    ...     with JournalWriter(f"{folder}/log", header) as writer:
    ...         times = [writer.write(0.0, snapshot, [Placed("8", "ann", "n0")]),
    ...                  writer.write(0.7, snapshot, []), writer.write(1.0, snapshot, [])]
    ...     journal = read_journal(f"{folder}/log")
    ...     [(entry.t, entry.placed) for entry in journal], times
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
        usual = {"seed": 0, "controls": True}
        first = {"drfh": FORMAT, "version": __version__, **usual, **header}
        self.header = read_header(first)
        self.path = os.fspath(path)
        self._snapshot = ClusterSnapshot({}, {})
        self._lists: dict[tuple[str, ...], int] = {}
        self._time = -TICK
        self._placed = False
        self._gap = False
        self._file = _open_for_writing(self.path, append=append, force=force)
        try:
            self._size = os.fstat(self._file).st_size
            self._write(first)
        except BaseException:
            os.close(self._file)
            raise

    def write(
        self,
        t: float,
        snapshot: ClusterSnapshot,
        placed: Sequence[Placed] | None = None,
        limit: int | None = None,
    ) -> float | None:
        """Write an entry, before anything is done about what was placed.

        Parameters
        ----------
        t
            Seconds since the start.
        snapshot
            What the scheduler was given.
        placed, limit
            What it then placed, and at most how many it was to place; None if it was not asked.

        Returns
        -------
        float or None
            The time that was written. None if there was nothing to write: it is not the first
            entry, nothing has changed, nothing was placed, and nothing at the entry before.
        """
        line, lists = difference(self._snapshot, snapshot, self._lists)
        # The first entry counts, and what became of placements, also if nothing did.
        if not line and not placed and not self._placed and self._time >= 0:
            return None
        time = max(on_grid(t), self._time + TICK)
        record: dict[str, Any] = {"t": compact(time), **line}
        if placed is not None:
            record["placed"] = [[one.task, one.server] for one in placed]
            if limit is not None:
                record["limit"] = int(limit)
        self._write(record)
        # Only what has been written counts: the next line has the difference to it.
        # A copy, should the caller go on with the same mappings.
        self._snapshot = ClusterSnapshot(
            dict(snapshot.servers), dict(snapshot.tasks), dict(snapshot.weights)
        )
        self._lists, self._time, self._placed = lists, time, bool(placed)
        return time

    def on_decision(self, decision: Decision) -> None:
        """Write a decision; a full disk leaves a gap, and must not stop the cluster."""
        t = decision.time - self.header.started
        try:
            self.write(t, decision.snapshot, decision.placed, decision.limit)
        except (OSError, DrfhError) as error:
            if not self._gap:
                self._gap = True
                log.error("journal has a gap error=%(error)s", {"error": error})

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
            read_header(parse_line(file.readline(LONGEST_LINE), "line 1"))
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
