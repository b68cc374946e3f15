"""Trace formats (reader, options, signature), and the trace that is read."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from drfh.errors import InputError, UnknownNameError
from drfh.files.reader import Ledger, Oddity, Progress, read_head
from drfh.model.cluster import Cluster
from drfh.model.jobs import Workload
from drfh.model.resources import FrozenMap

if TYPE_CHECKING:
    import polars

__all__ = [
    "SAMPLING",
    "WINDOW",
    "EmptyTraceError",
    "Format",
    "Option",
    "Signature",
    "Trace",
    "TraceReading",
    "read_options",
    "split_source",
]


_HEAD = 16384  # bytes of a file that are compared


class EmptyTraceError(InputError):
    """A trace without a task that can be used."""

    def __init__(self, rule: str) -> None:
        super().__init__("trace", rule)


Kind = Literal["number", "whole", "choice", "text", "users"]
_RULES = {
    "number": "must be a finite number ≥ 0",
    "whole": "must be a whole number ≥ 0",
    "text": "must be text",
    "users": "must be a number of users ≥ 1, or a list of names",
}


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a reader.

    Parameters
    ----------
    name, help
        What it is called, and what it is for.
    kind
        What values it takes; ``users`` is a number or names.
    default
        None if it may be left out.
    choices
        The values of a ``choice``.

    Examples
    --------
    >>> option = Option("start", "Skip so many hours.", "number", 0.0)
    >>> option.read("1.5")
    1.5
    >>> option.read(-1)
    Traceback (most recent call last):
    drfh.errors.InputError: start must be a finite number ≥ 0, got -1
    """

    name: str
    help: str
    kind: Kind
    default: Any = None
    choices: tuple[str, ...] = ()

    def read(self, value: Any) -> Any:
        """Return a value of the right type, parsed if it is text."""
        if value is None and self.default is None:
            return None
        if self.kind == "choice":
            if not isinstance(value, str) or value not in self.choices:
                raise UnknownNameError(self.name, str(value), self.choices)
            return value
        if self.kind == "text":
            if not isinstance(value, str) or not value:
                raise self._wrong(value)
            return value
        if self.kind == "users":
            return self._users(value)
        return self._number(value)

    def _number(self, value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise self._wrong(value)
        try:
            number = float(value)
        except (ValueError, OverflowError):
            raise self._wrong(value) from None
        if not 0 <= number < math.inf:
            raise self._wrong(value)
        if self.kind == "number":
            return number
        if number != int(number) or number >= 2**62:
            raise self._wrong(value)
        return int(number)

    def _users(self, value: Any) -> int | tuple[str, ...]:
        if isinstance(value, str):
            if value.isascii() and value.isdigit():
                return self._users(int(value))
            value = [name.strip() for name in value.split(",")]
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**53:
            return value
        listed = isinstance(value, Sequence) and len(value) > 0
        if not listed or not all(isinstance(name, str) and name for name in value):
            raise self._wrong(value)
        return tuple(value)

    def _wrong(self, value: Any) -> InputError:
        return InputError(self.name, _RULES[self.kind], value)


#: What part of the time to read.
WINDOW = (
    Option("start", "Leave out so many hours at the beginning.", "number", 0.0),
    Option("hours", "Read so many hours; by default all.", "number"),
)
#: What part of the jobs to keep.
SAMPLING = (
    Option("users", "Keep so many users, drawn at random, or those named.", "users"),
    Option("sample", "Keep this part of the jobs, drawn at random.", "number", 1.0),
    Option("seed", "Start of the draws.", "whole", 0),
)


def read_options(
    declared: Iterable[Option], given: Mapping[str, Any], *, of: str
) -> dict[str, Any]:
    """Return every declared option with its value.

    Parameters
    ----------
    declared
        The options that there are.
    given
        Values by name; the rest have their defaults.
    of
        Whose options they are, for an error.

    Examples
    --------
    >>> read_options(SAMPLING, {"users": "3", "sample": 0.5}, of="swf")
    {'users': 3, 'sample': 0.5, 'seed': 0}
    >>> read_options(SAMPLING, {"user": 3}, of="swf")
    Traceback (most recent call last):
    drfh.errors.UnknownNameError: option of swf must be one of sample, seed, users \
(did you mean users?), got 'user'
    """
    known = {option.name: option for option in declared}
    for name in given:
        if name not in known:
            raise UnknownNameError(f"option of {of}", name, known)
    values = {name: o.read(given.get(name, o.default)) for name, o in known.items()}
    if not 0 < values.get("sample", 1.0) <= 1:
        raise InputError("sample", "must be a part of all jobs, > 0 and ≤ 1", values["sample"])
    if values.get("hours") == 0:
        raise InputError("hours", "must be > 0", 0)
    return values


def split_source(source: str, formats: Collection[str]) -> tuple[str | None, list[str]]:
    """Return the format (None if not given) and the paths.

    A path that exists is taken whole, whatever it contains.

    Parameters
    ----------
    source
        Such as ``google-2011:clusterdata`` or ``slurm:sinfo.json,squeue.json``.
    formats
        The names that there are.

    Examples
    --------
    >>> split_source("slurm:sinfo.json,squeue.json", ["slurm"])
    ('slurm', ['sinfo.json', 'squeue.json'])
    >>> split_source("my-traces/monday", ["slurm"])
    (None, ['my-traces/monday'])
    >>> split_source("slrum:sinfo.json", ["slurm"])
    Traceback (most recent call last):
    drfh.errors.UnknownNameError: format must be one of slurm (did you mean slurm?), got 'slrum'
    """
    if not source:
        raise InputError("trace", "must be FORMAT:PATH or PATH", source)
    if _exists(source):
        return None, [source]
    prefix, colon, rest = source.partition(":")
    name = None
    if colon and "/" not in prefix:
        if prefix not in formats:
            raise UnknownNameError("format", prefix, formats)
        name, source = prefix, rest
    paths = [source] if _exists(source) else [path for path in source.split(",") if path]
    if not paths:
        raise InputError("trace", "must name a file or directory after the format", prefix)
    return name, paths


def _exists(path: str) -> bool:
    try:
        return os.path.exists(path)
    except ValueError:  # a null byte
        return False


@dataclass(frozen=True, slots=True)
class TraceReading:
    """What a reader of one format returns.

    Parameters
    ----------
    cluster, workload
        The servers at the start; the users, jobs and server events.
    details
        One row for each batch of the workload: what the format knows beyond, such as a priority.
    running
        Of a snapshot: who holds what where, with the columns user, server and one a resource.
    window
        Length of the time that the trace covers, in seconds; None if it has no end of its own.
    options
        The options as they were understood, if that is more than what was given.
    """

    cluster: Cluster
    workload: Workload
    details: polars.DataFrame
    running: polars.DataFrame | None = None
    window: float | None = None
    options: Mapping[str, Any] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """A cluster and a workload, with an account of where they come from.

    It unpacks into the two: ``cluster, workload = drfh.traces.read(…)``.

    Attributes
    ----------
    cluster : Cluster
        The servers at the start.
    workload : Workload
        Users, jobs and server events. Times count from the start of the window.
    details : polars.DataFrame
        One row for each batch of the workload: what the format knows beyond, such as a priority.
    running : polars.DataFrame or None
        Of a snapshot: who holds what where.
    window : float or None
        Length of the time that the trace covers, in seconds; None if it has no end of its own.
    format, source : str
        Name of the format, and where it was read from.
    options : mapping
        Every option of the format with the value it had.
    counts : mapping
        Rows read, and what was left out and why.
    oddities : tuple of Oddity
        Broken rows by kind.
    remarks : tuple of str
        What is missing in the data, and what was assumed.
    """

    format: str
    source: str
    cluster: Cluster
    workload: Workload
    details: polars.DataFrame
    running: polars.DataFrame | None = None
    window: float | None = None
    options: Mapping[str, Any] = field(default_factory=FrozenMap)
    counts: Mapping[str, int] = field(default_factory=FrozenMap)
    oddities: tuple[Oddity, ...] = ()
    remarks: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Any]:
        return iter((self.cluster, self.workload))

    def __repr__(self) -> str:
        return f"Trace({self.format}: {self.cluster!r}, {self.workload!r})"


@dataclass(frozen=True, slots=True)
class Signature:
    """File names and first bytes by which a format is recognised.

    Parameters
    ----------
    folders
        Groups of glob patterns: a directory matches a group if it has a file for each pattern.
    suffixes
        Endings of file names.
    heads
        Regular expressions: a file matches if all are found in its beginning.
    files
        Glob patterns of the files of a directory whose beginning is compared.

    Examples
    --------
    >>> Signature(suffixes=(".swf",)).matches(Path("log.SWF"))
    True
    """

    folders: tuple[tuple[str, ...], ...] = ()
    suffixes: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    files: tuple[str, ...] = ()

    def matches(self, path: Path) -> bool:
        """Return whether a file or directory has the format."""
        if path.is_dir():
            if any(all(any(path.glob(name)) for name in group) for group in self.folders):
                return True
            files = sorted(file for name in self.files for file in path.glob(name))
        else:
            if path.name.lower().endswith(self.suffixes):
                return True
            files = [path]
        return bool(self.heads) and any(self._has_head(file) for file in files)

    def _has_head(self, file: Path) -> bool:
        head = read_head(file, _HEAD)
        text = head.decode(json.detect_encoding(head), "ignore").lstrip("\ufeff \t\r\n")
        return all(re.search(pattern, text, re.MULTILINE) for pattern in self.heads)


@dataclass(frozen=True, slots=True)
class Format:
    """One outside format.

    Parameters
    ----------
    title
        A short description.
    read
        Takes the paths, the options (each with a value), a ledger, and a function to call with
        the progress, or None.
    signature
        How it is recognised.
    options
        The options of the reader.
    snapshot
        Whether it is the state of a live cluster at one instant.
    """

    title: str
    read: Callable[[tuple[Path, ...], Mapping[str, Any], Ledger, Progress | None], TraceReading]
    signature: Signature
    options: tuple[Option, ...] = ()
    snapshot: bool = False
