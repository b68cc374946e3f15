"""Drafts of files and directories: hidden beside them, locked while in use, then removed.

A draft is removed when its block ends, on SIGTERM, and, if its process was killed, by the next one
that makes a draft in the same directory. A lock tells a draft in use from one that was left: it
ends with its process, whatever that died of, and other hosts and containers see it too.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

__all__ = ["Draft", "open_draft", "same_file"]

_NAME = re.compile(r"\.(.+)\.drfh-[0-9a-f]{16}\.(tmp|old)", re.DOTALL)
_LONGEST_NAME = 200  # bytes of a target's name that stand in the name of its draft
_TRIES, _SECONDS_BETWEEN = 20, 0.05

_drafts: list[Draft] = []


class Draft:
    """A file or directory that will take the place of another.

    Attributes
    ----------
    path : str
        The draft.
    target : str
        What it will be.
    """

    def __init__(self, folder: str, target: str) -> None:
        name = os.path.basename(target)
        if len(os.fsencode(name)) > _LONGEST_NAME:
            name = hashlib.sha256(os.fsencode(name)).hexdigest()
        stem = os.path.join(folder, f".{name}.drfh-{secrets.token_hex(8)}")
        self.path, self._old = f"{stem}.tmp", f"{stem}.old"
        self.target = target
        self._locks: list[int] = []

    def make(self, *, directory: bool) -> None:
        """Make an empty draft and lock it."""
        while True:
            if directory:
                os.mkdir(self.path)
            else:
                os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
            lock = self._hold(self.path)
            if lock is None or same_file(lock, self.path):
                return
            # Another process took it for a left one before it was locked.

    def put(self) -> None:
        """Move it to its target, in the place of a file or directory that is there."""
        if not os.path.isdir(self.target):
            os.replace(self.path, self.target)
            return
        self._hold(self.target)
        os.rename(self.target, self._old)
        os.rename(self.path, self.target)

    def remove(self) -> None:
        """Remove what is left of it, and put back what it has moved away."""
        _put_back(self._old, self.target)
        for path in (self.path, self._old):
            for _ in range(_TRIES):
                if _removed(path):
                    break
                time.sleep(_SECONDS_BETWEEN)  # a process of ours may have written into it

    def close(self) -> None:
        """Remove what is left of it, and let its locks go."""
        self.remove()
        while self._locks:
            os.close(self._locks.pop())

    def _hold(self, path: str) -> int | None:
        lock = _locked(path)
        if lock is not None:
            self._locks.append(lock)
        return lock


@contextmanager
def open_draft(folder: str, target: str) -> Iterator[Draft]:
    """Yield a draft in `folder` that is removed at the end, and on SIGTERM."""
    _remove_left(folder)
    draft = Draft(folder, target)
    _drafts.append(draft)
    watching = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )
    if watching:
        signal.signal(signal.SIGTERM, _end)
    try:
        yield draft
    finally:
        draft.close()
        _drafts.remove(draft)
        if watching:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def same_file(descriptor: int, path: str) -> bool:
    """Return whether an open file is still the one at a path."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except OSError:
        return False


def _end(number: int, _frame: FrameType | None) -> None:
    """Remove all drafts and end as the signal does without a handler."""
    for draft in _drafts:
        draft.remove()
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


def _remove_left(folder: str) -> None:
    """Remove drafts of this user whose processes have ended."""
    try:
        with os.scandir(folder) as entries:
            left = [(entry.path, _NAME.fullmatch(entry.name)) for entry in entries]
    except OSError:
        return  # what comes next says why
    for path, name in left:
        if name is None:
            continue
        lock = _locked(path)
        if lock is None:
            continue
        try:
            if os.fstat(lock).st_uid == os.geteuid() and same_file(lock, path):
                if name[2] == "old":
                    _put_back(path, os.path.join(folder, name[1]))
                _removed(path)
        finally:
            os.close(lock)


def _locked(path: str) -> int | None:
    """Return a descriptor that holds a lock, or None if another does or there are no locks."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def _put_back(old: str, target: str) -> None:
    """Undo the first of the two steps that replace a directory."""
    if os.path.isdir(old) and not os.path.lexists(target):
        with suppress(OSError):
            os.rename(old, target)


def _removed(path: str) -> bool:
    """Remove a file or a directory, and return whether it is gone."""
    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            os.unlink(path)
    return not os.path.lexists(path)
