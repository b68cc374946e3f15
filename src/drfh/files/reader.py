"""Read plain or gzip files, and count rows, broken rows and remarks."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from drfh.errors import InputError
from drfh.files.atomic import standard_input

__all__ = [
    "DamagedError",
    "Fault",
    "Ledger",
    "Oddity",
    "Progress",
    "as_paths",
    "pieces",
    "read_head",
    "unpacked",
]


_STDIN = Path("-")

#: Called with how far a long reading is: what, how much of it, of how much.
Progress: TypeAlias = Callable[[str, float, int], None]


class Fault(StrEnum):
    """Kinds of faults of an input, each as the noun that is counted."""

    BROKEN_ROW = "broken row"  # left out
    DAMAGED_FILE = "damaged file"  # read as far as it goes
    DISORDERED_PART = "disordered part"  # put in order
    DISORDERED_ROW = "disordered row"  # put in order
    MISSING_PART = "missing part"  # cannot be read


@dataclass(frozen=True, slots=True)
class Oddity:
    """One kind of fault of an input: how many there are, and the first of them.

    Examples
    --------
    >>> Oddity("priority must be a whole number", 3, "part-7.csv, line 12: …").count
    3
    """

    kind: str
    count: int
    first: str
    what: Fault = Fault.BROKEN_ROW

    @property
    def left_out(self) -> bool:
        """Whether what is wrong was not used."""
        return self.what is Fault.BROKEN_ROW

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data.

        Examples
        --------
        >>> Oddity("row must have 2 fields", 1, "a.csv, line 3: …").to_dict()["count"]
        1
        """
        return asdict(self) | {"what": str(self.what)}


class Ledger:
    """The counts of one reading.

    Parameters
    ----------
    strict
        Stop at the first broken row instead of counting it.

    Examples
    --------
    >>> ledger = Ledger()
    >>> ledger.count("rows", 10)
    >>> wrong = InputError("priority", "must be a whole number", "x", place="a.csv, line 3")
    >>> ledger.broken(wrong, 2)
    >>> ledger.counts, ledger.oddities[0].count, ledger.oddities[0].first
    ({'rows': 10}, 2, "a.csv, line 3: priority must be a whole number, got 'x'")
    >>> Ledger(strict=True).broken(wrong)
    Traceback (most recent call last):
    drfh.errors.InputError: a.csv, line 3: priority must be a whole number, got 'x'
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.counts: dict[str, int] = {}
        self.remarks: list[str] = []
        self.kept_by: dict[str, str] = {}  # count of what is left out → the option that keeps it
        self._broken: dict[tuple[str, str, Fault], Oddity] = {}  # by field, rule and fault

    def count(self, what: str, number: int = 1) -> None:
        """Add to a count; a count of 0 is kept too, as it says that this was looked for."""
        self.counts[what] = self.counts.get(what, 0) + int(number)

    def leave_out(self, what: str, why: str, number: int, option: str = "") -> None:
        """Count what a rule leaves out; `option` is how to keep it, such as ``failed=keep``.

        Examples
        --------
        >>> ledger = Ledger()
        >>> ledger.leave_out("jobs", "failed", 2, "failed=keep")
        >>> ledger.counts, ledger.reasons
        ({'jobs left out: failed': 2}, ['jobs left out: failed: 2 (failed=keep keeps them)'])
        """
        name = f"{what} left out: {why}"
        self.count(name, number)
        self.kept_by[name] = option

    @property
    def reasons(self) -> list[str]:
        """Why things are missing: what rules left out, and the first of the broken rows."""
        out = [(self.counts[name], name, option) for name, option in self.kept_by.items()]
        found = [
            f"{name}: {number:,}{f' ({option} keeps them)' if option else ''}"
            for number, name, option in sorted(out, key=lambda entry: -entry[0])
            if number
        ]
        return found + [odd.first for odd in self.oddities[:1]]

    def broken(self, error: InputError, number: int = 1, what: Fault = Fault.BROKEN_ROW) -> None:
        """Count rows (or `what`) that break one rule; `error` is about the first of them.

        Raises
        ------
        InputError
            The error itself, in a strict reading.
        """
        if number < 1:
            return
        if self.strict:
            raise error
        kind = f"{error.field} {error.rule}"
        self._add((error.field, error.rule, what), Oddity(kind, int(number), str(error), what))

    def _add(self, key: tuple[str, str, Fault], more: Oddity) -> None:
        known = self._broken.get(key)
        if known is not None:
            more = replace(known, count=known.count + more.count)
        self._broken[key] = more

    def merge(self, other: Ledger) -> None:
        """Add what another ledger counted: of a part that was read at the same time."""
        for what, number in other.counts.items():
            self.count(what, number)
        self.kept_by |= other.kept_by
        for text in other.remarks:
            self.remark(text)
        for key, oddity in sorted(other._broken.items(), key=lambda entry: -entry[1].count):
            self._add(key, oddity)

    def remark(self, text: str) -> None:
        """Keep a sentence about what the data cannot tell, or what was decided for it."""
        if text not in self.remarks:
            self.remarks.append(text)

    @property
    def oddities(self) -> tuple[Oddity, ...]:
        """The kinds of what is wrong, the most frequent first."""
        return tuple(sorted(self._broken.values(), key=lambda oddity: -oddity.count))


try:  # unpacks four times as fast; there is none for every machine
    from isal import isal_zlib
except ImportError:  # pragma: no cover
    isal_zlib = zlib


_GZIP = b"\x1f\x8b"
_WHOLE_GZIP = "must be a whole gzip file (what could be unpacked before the break is kept)"
_TOO_EARLY = "it ends too early"

_PIECE = 2**17  # bytes of a file that are unpacked at a time


class DamagedError(Exception):
    """A file that cannot be read in pieces: :func:`unpacked` says what is wrong, if anything is."""


def as_paths(path: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> tuple[Path, ...]:
    """Return one path or several as a tuple; each must exist.

    Examples
    --------
    >>> as_paths("no-such-file")
    Traceback (most recent call last):
    drfh.errors.InputError: path must be a file or directory that exists, got 'no-such-file'
    """
    single = isinstance(path, (str, os.PathLike))
    given = [path] if single else path
    if not isinstance(given, Iterable):
        raise InputError("path", "must be a path or a list of paths", path)
    paths = []
    for one in given:
        if not isinstance(one, (str, os.PathLike)) or not str(one):
            raise InputError("path", "must be a path or a list of paths", one)
        found = Path(os.fspath(one))
        try:
            there = found == _STDIN or found.exists()
        except (OSError, ValueError):  # too long, or a null byte
            there = False
        if not there:
            raise InputError("path", "must be a file or directory that exists", str(found))
        paths.append(found)
    if not paths:
        raise InputError("path", "must name at least one file or directory")
    return tuple(paths)


def _opened(path: Path) -> BinaryIO:
    """Open a file; ``-`` is standard input."""
    return BytesIO(standard_input()) if path == _STDIN else path.open("rb")


def read_head(path: Path, size: int = 4096) -> bytes:
    """Return the first bytes of a file, unpacked; nothing if it cannot be read.

    Examples
    --------
    >>> read_head(Path("no-such-file"))
    b''
    """
    try:
        with _opened(path) as file:
            head = file.read(size)
    except OSError:
        return b""
    if not head.startswith(_GZIP):
        return head
    try:
        return zlib.decompressobj(wbits=31).decompress(head, size)
    except zlib.error:
        return b""


def unpacked(path: Path, ledger: Ledger) -> bytes:
    """Return the bytes of a file; gzip is recognised by its content, not by its name.

    A damaged gzip file is an oddity; what comes before the damage is returned.

    Parameters
    ----------
    path
        The file.
    ledger
        Where damage is counted.
    """
    try:
        return b"".join(pieces(path))
    except DamagedError:
        pass  # the slow way finds out what is wrong, and keeps what is not
    try:
        with _opened(path) as file:
            data = file.read()
    except IsADirectoryError:
        raise InputError("path", "must be a file, not a directory", str(path)) from None
    except OSError as error:
        rule = f"must be a file that can be read ({error.strerror})"
        raise InputError("path", rule, str(path)) from None
    if not data.startswith(_GZIP):
        if not data and path.suffix == ".gz":
            _damaged(path, _TOO_EARLY, ledger)
        return data
    whole = []
    rest = data
    while rest.startswith(_GZIP):  # a gzip file may have several members
        member = zlib.decompressobj(wbits=31)
        try:
            whole.append(member.decompress(rest))
        except zlib.error as error:
            whole.append(_before_damage(rest))
            _damaged(path, str(error), ledger)
            return b"".join(whole)
        if not member.eof:
            _damaged(path, _TOO_EARLY, ledger)
            break
        rest = member.unused_data.lstrip(b"\0")
    return b"".join(whole)


def _damaged(path: Path, why: str, ledger: Ledger) -> None:
    """Count a gzip file that is not whole."""
    error = InputError("file", f"{_WHOLE_GZIP}: {why}", place=str(path))
    ledger.broken(error, what=Fault.DAMAGED_FILE)


def pieces(path: Path) -> Iterator[bytes]:
    """Return the bytes of a file, unpacked, piece by piece.

    Raises
    ------
    DamagedError
        Sooner or later, if the file cannot be read, is not whole, or has more than one member.

    Examples
    --------
    >>> next(pieces(Path("no-such-file")))
    Traceback (most recent call last):
    drfh.files.reader.DamagedError
    """
    try:
        with _opened(path) as file:
            piece = file.read(_PIECE)
            if not piece and path.suffix == ".gz":  # not even the head of a gzip file
                raise DamagedError
            member: Any = isal_zlib.decompressobj(wbits=31) if piece.startswith(_GZIP) else None
            while piece:
                if member is None:
                    yield piece
                elif member.eof:
                    raise DamagedError
                else:
                    yield member.decompress(piece)
                piece = file.read(_PIECE)
            if member is not None and (not member.eof or member.unused_data):
                raise DamagedError
    except (OSError, zlib.error, isal_zlib.error):
        raise DamagedError from None


def _before_damage(data: bytes) -> bytes:
    """Unpack in small steps up to the step that fails."""
    member = zlib.decompressobj(wbits=31)
    out = bytearray()
    try:
        for start in range(0, len(data), 4096):
            out += member.decompress(data[start : start + 4096])
    except zlib.error:
        pass
    return bytes(out)
