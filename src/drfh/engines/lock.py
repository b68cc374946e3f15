"""The lock of a cluster's controller: a file that only one process holds, with facts about it.

The lock is the kernel's (``flock``), not the text: it is free when its last holder ends, however
that happens. A command that the controller starts should hold it too: a controller that was
killed may leave one behind, which still changes the cluster, and the next one must wait for it::

    subprocess.Popen(arguments, pass_fds=(lock.fd,))

Only children that are given the descriptor so hold the lock. Lock files of a library hold no
facts, and are not held by commands that outlive the controller.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from drfh.errors import InputError
from drfh.files.atomic import shown_path
from drfh.files.drafts import same_file

__all__ = ["ControllerLock", "is_running"]

log = logging.getLogger(__name__)

_FIELD = "controller"
_ONLY = "must be the only one for this cluster"
_MAX_SIZE = 2**20  # bytes that are read; the controller writes a few hundred
_POLL_SECONDS = 0.05


class ControllerLock:
    """The right to control one cluster, held by one process and the commands that it starts.

    Parameters
    ----------
    path
        The file, in a folder that is there: one for each cluster. It is never removed, because
        two processes could then hold a lock on two files of one name.
    hint
        What to do if it cannot be locked, as errors say it.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = f"{folder}/drfh.lock"
    ...     with ControllerLock(path).acquire({"policy": "best-fit-drfh"}):
    ...         print(ControllerLock.read(path)["policy"])
    ...     print(ControllerLock.read(path))
    best-fit-drfh
    None
    """

    def __init__(self, path: str | os.PathLike[str], hint: str = "") -> None:
        self.path = os.fspath(path)
        self.hint = hint
        self._fd: int | None = None
        self._own: dict[str, Any] = {}

    @property
    def fd(self) -> int:
        """The descriptor that holds the lock, to be given to commands as ``pass_fds=(fd,)``."""
        if self._fd is None:
            raise self._refused("must hold its lock before it starts a command")
        return self._fd

    def acquire(self, facts: Mapping[str, Any], *, timeout: float = 30.0) -> Self:
        """Take the lock and write the facts into it, or raise.

        While another controller runs, this is refused at once. If it has ended, but not all of
        its commands, this waits for them.

        Parameters
        ----------
        facts
            What others may want to know, ready for JSON; beside it are written ``pid``, ``host``,
            ``started`` and ``birth`` (which tells it from a later process of the same number).
        timeout
            Seconds to wait for the commands of a controller that has ended.
        """
        own = _own_facts()
        text = _text(own | dict(facts) | own)
        fd = self._locked(timeout)
        try:
            _write(fd, text)
        except OSError as error:
            os.close(fd)
            raise self._unwritable(error) from None
        self._fd, self._own = fd, own
        return self

    def update(self, facts: Mapping[str, Any]) -> None:
        """Replace the facts; a full disk changes nothing."""
        with suppress(OSError):
            _write(self.fd, _text(self._own | dict(facts) | self._own))

    def check(self) -> None:
        """Raise if the file was removed or replaced since, so that a second controller may run."""
        if not same_file(self.fd, self.path):
            raise self._refused("must stop: its lock was removed or replaced")

    def release(self) -> None:
        """Release the lock; twice does no harm.

        A command that was given the descriptor and still runs keeps the lock until it ends.
        """
        if self._fd is not None:
            fd, self._fd = self._fd, None
            with suppress(OSError):  # a full disk must not keep the lock
                os.ftruncate(fd, 0)
            os.close(fd)  # LOCK_UN would take the lock from the commands, too

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    @staticmethod
    def read(path: str | os.PathLike[str]) -> dict[str, Any] | None:
        """Return the facts of the last controller; None if it has released the lock.

        None, too, if there is no such file or it has no such text. A controller that was killed
        leaves its text: ask :func:`is_running`.
        """
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            rule = f"must be readable ({error.strerror})"
            raise InputError("lock", rule, place=shown_path(os.fspath(path))) from None
        try:
            return _facts_in(fd)
        finally:
            os.close(fd)

    def _locked(self, timeout: float) -> int:
        """Return a descriptor that holds the lock."""
        deadline = time.monotonic() + timeout
        logged = False
        while True:
            fd = self._opened()
            try:
                while not self._try(fd):
                    holder = _facts_in(fd)
                    if holder is not None and is_running(holder) is not False:
                        raise self._refused(
                            f"{_ONLY} ({_process(holder)} runs since {holder['started']})"
                        )
                    reason = _wait_reason(holder)
                    if time.monotonic() >= deadline:
                        raise self._refused(f"{_ONLY} ({reason})")
                    if not logged:
                        fields = {"seconds": timeout, "reason": reason}
                        log.info("lock awaited seconds=%(seconds)g reason=%(reason)s", fields)
                        logged = True
                    time.sleep(_POLL_SECONDS)
                if same_file(fd, self.path):
                    return fd
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)  # the file was removed before this had the lock: begin again

    def _opened(self) -> int:
        # Not through a link: a controller may be root, and must write to no file but this one.
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            try:
                fd = os.open(self.path, flags)
            except FileNotFoundError:
                try:
                    fd = os.open(self.path, flags | os.O_CREAT | os.O_EXCL, 0o644)
                    os.fchmod(fd, 0o644)  # whatever the umask: all may know who runs
                except FileExistsError:  # another process was faster
                    fd = os.open(self.path, flags)
        except (OSError, ValueError) as error:
            raise self._unwritable(error) from None
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise self._refused("must have a regular file as its lock")
        return fd

    def _try(self, fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise self._unwritable(error) from None
        return True

    def _refused(self, rule: str) -> InputError:
        return InputError(_FIELD, rule, place=shown_path(self.path))

    def _unwritable(self, error: Exception) -> InputError:
        reason = getattr(error, "strerror", None) or str(error)
        hint = f": {self.hint}" if self.hint else ""
        return self._refused(f"must be able to lock this file ({reason}){hint}")


def _text(facts: Mapping[str, Any]) -> bytes:
    return f"{json.dumps(facts)}\n".encode()


def _write(fd: int, text: bytes) -> None:
    # One write to an empty file: who reads meanwhile finds nothing, or all of it.
    os.ftruncate(fd, 0)
    os.pwrite(fd, text, 0)


def is_running(facts: Mapping[str, Any]) -> bool | None:
    """Return whether the process that wrote these facts runs; None if that is on another host.

    Examples
    --------
    >>> is_running({"pid": os.getpid(), "host": socket.gethostname()})
    True
    """
    if facts["host"] != socket.gethostname():
        return None
    try:
        os.kill(facts["pid"], 0)
    except PermissionError:
        pass  # it runs, as another user
    except (OSError, OverflowError):
        return False
    birth = _birth(facts["pid"])
    return birth is None or (birth != "dead" and facts.get("birth") in (None, birth))


def _birth(pid: int) -> str | None:
    """Return what no later process with this number shares; None if the system does not tell."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The second field is the name, in brackets; it may contain both.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    ended = fields[0] in (b"Z", b"X")  # killed, and not yet reaped
    return "dead" if ended else fields[19].decode()


def _own_facts() -> dict[str, Any]:
    started = datetime.now(UTC).isoformat(timespec="seconds")
    own = {"pid": os.getpid(), "host": socket.gethostname(), "started": started}
    return own | {"birth": _birth(os.getpid())}


def _facts_in(fd: int) -> dict[str, Any] | None:
    try:
        found = json.loads(os.pread(fd, _MAX_SIZE, 0))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    pid, texts = found.get("pid"), (found.get("host"), found.get("started"))
    ours = isinstance(pid, int) and pid > 0 and all(isinstance(text, str) for text in texts)
    return found if ours else None


def _process(holder: Mapping[str, Any]) -> str:
    return f"process {holder['pid']} on host {holder['host']}"


def _wait_reason(holder: Mapping[str, Any] | None) -> str:
    if holder is None:
        return "a process that has not said who it is holds the lock"
    return f"{_process(holder)} has ended, but a command that it started has not"
