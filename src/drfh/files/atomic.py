"""Bounded reading of text files; atomic writing of files and directories."""

from __future__ import annotations

import difflib
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from drfh.errors import InputError
from drfh.files.drafts import open_draft

__all__ = [
    "LARGEST_FILE",
    "DirectoryError",
    "check_directory",
    "check_folder",
    "check_writable",
    "read_text",
    "shown_path",
    "standard_input",
    "whole_directory",
    "write_whole",
    "writing_into",
]

#: Larger files are refused before they are read.
LARGEST_FILE = 64 * 2**20

_LONGEST_PATH = 200
_KINDS = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def shown_path(path: str) -> str:
    r"""Return a path as one printable line.

    Examples
    --------
    >>> print(shown_path("team.yaml"), shown_path("two\nlines"))
    team.yaml 'two\nlines'
    """
    line = path if path.isprintable() else ascii(path)
    return line if len(line) <= _LONGEST_PATH else "…" + line[1 - _LONGEST_PATH :]


def read_text(path: str, instead: Iterable[str] = ()) -> str:
    """Return the text of a UTF-8 file of at most :data:`LARGEST_FILE` bytes.

    Parameters
    ----------
    path
        The file.
    instead
        Names that could have been meant if there is no such file.

    Examples
    --------
    >>> read_text("pager-two-servers", ["paper-two-servers"])
    Traceback (most recent call last):
    drfh.errors.InputError: pager-two-servers: the file must exist, or be a shipped scenario (did \
you mean paper-two-servers?)
    """
    data = _read_bytes(path, instead)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            "the file",
            "must be text in UTF-8",
            data[error.start : error.start + 1],
            place=f"{shown_path(path)}, line {line}",
        ) from None
    if not text.strip():
        raise _bad_file(path, "must not be empty")
    return text


# What each standard input held: it can be read once, and is looked at before it is parsed.
_inputs: WeakKeyDictionary[Any, bytes] = WeakKeyDictionary()


def standard_input() -> bytes:
    """Return all of standard input, also when it is asked for again."""
    stream = sys.stdin.buffer
    if stream not in _inputs:
        _inputs[stream] = stream.read()
    return _inputs[stream]


_MOST_BESIDE = 1_000  # names of a folder that are looked at


def _names_beside(path: str) -> list[str]:
    """Return some names of files in the folder of a path."""
    try:
        with os.scandir(Path(path).parent) as entries:
            return [entry.name for entry in islice(entries, _MOST_BESIDE)]
    except (OSError, ValueError):
        return []


def _read_bytes(path: str, instead: Iterable[str]) -> bytes:
    if path == "-":
        data = standard_input()
        if len(data) > LARGEST_FILE:
            raise _too_large("standard input", len(data))
        return data
    try:
        # Opening a pipe would wait for its writer; this does not, and nothing is read yet.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, NotADirectoryError):
        names = list(instead)
        beside = difflib.get_close_matches(Path(path).name, _names_beside(path), n=1, cutoff=0.7)
        near = beside or difflib.get_close_matches(Path(path).stem, names, n=1, cutoff=0.6)
        hint = f" (did you mean {near[0]}?)" if near else ""
        other = ", or be a shipped scenario" if names else ""
        raise _bad_file(path, f"must exist{other}{hint}") from None
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    try:
        facts = os.fstat(descriptor)
        for is_kind, kind in _KINDS:
            if is_kind(facts.st_mode):
                raise _bad_file(path, f"must be a regular file, not {kind}")
        if facts.st_size > LARGEST_FILE:
            raise _too_large(path, facts.st_size)
        with open(descriptor, "rb", closefd=False) as file:
            # A file can grow or hide its size, so the limit also holds for what is read.
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    finally:
        os.close(descriptor)
    if len(data) > LARGEST_FILE:
        raise _too_large(path, len(data))
    return data


def _unreadable(path: str, error: Exception) -> InputError:
    reason = getattr(error, "strerror", None) or str(error)
    return _bad_file(path, f"must be readable ({reason})")


def _too_large(path: str, size: int) -> InputError:
    limit = LARGEST_FILE // 2**20
    return _bad_file(path, f"must be at most {limit} MiB, not {size / 2**20:,.0f} MiB")


def _bad_file(path: str, rule: str) -> InputError:
    return InputError("the file", rule, place=shown_path(path))


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file: whole, or not at all.

    Examples
    --------
    >>> write_whole("no-such-folder/a.yaml", b"")
    Traceback (most recent call last):
    drfh.errors.InputError: path must be writable (No such file or directory), got \
'no-such-folder/a.yaml'
    """
    given = os.fspath(path)
    try:
        target = os.path.realpath(given)
        if os.path.lexists(target) and not os.path.isfile(target):
            raise InputError("path", "must be a regular file or a new one", given)
        # In the same directory, so that the last step is one rename.
        with open_draft(os.path.dirname(target), target) as draft:
            draft.make(directory=False)
            with open(draft.path, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileNotFoundError):
                os.chmod(draft.path, stat.S_IMODE(os.stat(target).st_mode))
            draft.put()
    except InputError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError("path", f"must be writable ({reason})", given) from None


def check_writable(path: str | os.PathLike[str], option: str) -> None:
    """Raise unless a file could be written; to call before long work.

    Parameters
    ----------
    path
        The file.
    option
        What asks for it, such as ``--html``.

    Examples
    --------
    >>> check_writable("no-such-folder/a.html", "--html")
    Traceback (most recent call last):
    drfh.errors.InputError: --html must be in a folder that exists, got 'no-such-folder/a.html'
    """
    given = os.fspath(path)
    try:
        target = os.path.realpath(given)
        folder = os.path.dirname(target)
        if not os.path.isdir(folder):
            raise InputError(option, "must be in a folder that exists", given)
        with suppress(FileNotFoundError):
            if not stat.S_ISREG(os.stat(target).st_mode):
                raise InputError(option, "must be a regular file or a new one", given)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise InputError(option, "must be in a folder that can be written to", given)
    except InputError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(option, f"must be writable ({reason})", given) from None


def check_folder(path: str | os.PathLike[str], option: str) -> None:
    """Raise unless files could be written into a folder, there or new.

    Examples
    --------
    >>> check_folder(__file__, "--figures")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    drfh.errors.InputError: --figures must be a folder that can be written to, or a new one, got ...
    """
    given = os.fspath(path)
    try:
        folder = _existing(os.path.realpath(given))
        usable = os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)
    except (OSError, ValueError):
        usable = False
    if not usable:
        raise InputError(option, "must be a folder that can be written to, or a new one", given)


class DirectoryError(InputError):
    """A directory that cannot be written, or must not be replaced."""


def check_directory(
    path: str | os.PathLike[str], marker: str, *, force: bool, field: str = "directory"
) -> str:
    """Raise unless a directory could be written; return its real path.

    Parameters
    ----------
    path
        A new directory or an empty one; with `force`, also one that has the file `marker`.
    marker
        The file by which a directory of ours is known: no other is ever replaced.
    force
        Whether one of ours may be replaced.
    field
        What asks for it, such as ``--output``.

    Examples
    --------
    >>> check_directory(__file__, "run_info.json", force=True)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    drfh.files.atomic.DirectoryError: directory must be a directory or a new one, got ...
    """
    given = os.fspath(path)
    try:
        target = os.path.realpath(given)
        if os.path.lexists(target):
            if not os.path.isdir(target):
                raise DirectoryError(field, "must be a directory or a new one", given)
            if os.listdir(target):
                if not os.path.isfile(os.path.join(target, marker)):
                    rule = f"must be new, empty, or have a {marker} to be replaced"
                    raise DirectoryError(field, rule, given)
                if not force:
                    rule = "must be new (or be replaced with {force})"
                    raise DirectoryError(field, rule, given, names={"force": "force"})
        folder = _existing(os.path.dirname(target))
        if not os.path.isdir(folder) or not os.access(folder, os.W_OK | os.X_OK):
            raise DirectoryError(field, "must be in a folder that can be written to", given)
    except DirectoryError:
        raise
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DirectoryError(field, f"must be writable ({reason})", given) from None
    return target


def _existing(folder: str) -> str:
    """Return the folder, or the nearest one above it that is there."""
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    return folder


@contextmanager
def whole_directory(
    path: str | os.PathLike[str], marker: str, *, force: bool = False
) -> Iterator[Path]:
    """Yield an empty draft that replaces `path` at the end.

    Parameters
    ----------
    path, marker, force
        As for :func:`check_directory`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with whole_directory(f"{folder}/run", "done") as draft:
    ...         _ = (draft / "done").write_text("")
    ...     os.listdir(f"{folder}/run")
    ['done']
    """
    target = check_directory(path, marker, force=force)
    with open_draft(_existing(os.path.dirname(target)), target) as draft:
        with writing_into(path):
            draft.make(directory=True)
        yield Path(draft.path)
        check_directory(path, marker, force=force)  # somebody may have been faster
        with writing_into(path):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            draft.put()


@contextmanager
def writing_into(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise a :class:`DirectoryError` for an :class:`OSError` in the block."""
    try:
        yield
    except OSError as error:
        rule = f"must be writable ({error.strerror or error})"
        raise DirectoryError("directory", rule, os.fspath(path)) from None
