"""Machine code of kernels on disk; importing this imports numba.

It is read from where the package is installed, which need not be writable, and from one directory
that the user can write: numba alone gives up where it cannot write beside the source.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit
from numba.core import config, event
from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    IndexDataCacheFile,
    _CacheLocator,
)

__all__ = ["kept_in", "kernel", "source_stamp"]

log = logging.getLogger(__name__)

Function = TypeVar("Function", bound=Callable[..., Any])

_NOTICE_SECONDS = 2.0


def kernel(function: Function, **options: Any) -> Function:
    """Compile a function when it is first called, and keep the machine code on disk.

    Parameters
    ----------
    function
        On arrays and numbers.
    **options
        As numba's ``njit`` takes them.
    """
    compiled = njit(**options)(function)
    if compiled is not function:  # it is, where NUMBA_DISABLE_JIT is set
        compiled._cache = _KernelCache(function)
    return cast("Function", compiled)


@cache
def source_stamp(directory: Path) -> str:
    """Return a mark of all sources in a directory.

    Numba looks only at the file of a function to tell whether its machine code is still good.
    Kernels call each other and share numbers, so code made before any of the files changed must go.
    """
    sources = sorted(directory.glob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


@cache
def kept_in(package: Path) -> Path | None:
    """Return the directory that new machine code is written to, or None.

    ``DRFH_CACHE`` goes first, then the package, the user's cache and the temporary directory. What
    is read from there is run: outside the package nobody else may be able to write to it.

    Parameters
    ----------
    package
        The directory of the sources.
    """
    if config.CACHE_DIR:  # numba's own setting, alone
        return Path(config.CACHE_DIR, source_stamp(package))
    own = os.environ.get("DRFH_CACHE")
    if own and not _is_private(_of_user(own)):
        log.warning("cache not writable DRFH_CACHE=%(directory)s", {"directory": own})
    elif own:
        return _of_user(own) / source_stamp(package)
    installed = package / "__pycache__"
    if _is_writable(installed):
        return installed
    return next((d / source_stamp(package) for d in _fallbacks() if _is_private(d)), None)


def _of_user(base: str) -> Path:
    return Path(base, f"drfh-{os.geteuid()}")


def _fallbacks() -> Iterator[Path]:
    for base in (os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~/.cache")):
        if os.path.isabs(base):  # there may be no home
            yield Path(base, "drfh")
            break
    for base in (os.environ.get("TMPDIR", ""), "/tmp", "/var/tmp"):
        if os.path.isabs(base):
            yield _of_user(base)


def _is_private(directory: Path) -> bool:
    """Return whether this user alone can write to a directory, which is made if need be."""
    made = False
    try:
        directory.parent.mkdir(exist_ok=True)  # ~/.cache, but no home
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
            made = True
        facts = directory.lstat()
    except OSError:
        return False
    alone = facts.st_uid == os.geteuid() and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if stat.S_ISDIR(facts.st_mode) and alone and _is_writable(directory):
        return True
    if made:
        with suppress(OSError):
            directory.rmdir()
    return False


def _is_writable(directory: Path) -> bool:
    try:
        directory.mkdir(exist_ok=True)
        with tempfile.TemporaryFile(dir=directory) as file:
            file.write(b"1")
    except OSError:
        return False
    return True


class _KernelLocator(_CacheLocator):  # type: ignore[misc]
    """Names the machine code of a kernel, for numba."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        self._package = Path(file).parent
        self._line = function.__code__.co_firstlineno

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> _KernelLocator:
        return cls(py_func, py_file)

    def get_cache_path(self) -> str:
        return str(self._package / "__pycache__")

    def get_source_stamp(self) -> str:
        return source_stamp(self._package)

    def get_disambiguator(self) -> str:
        return str(self._line)


class _KernelCacheFiles(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_KernelLocator,)


class _KernelCache(FunctionCache):  # type: ignore[misc]
    """Machine code of one kernel, from the package or from the user's directory."""

    _impl_class = _KernelCacheFiles

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        installed = self._cache_file
        kept = kept_in(Path(self.cache_path).parent)
        self._own = None
        if kept is not None:
            stamp = self._impl.locator.get_source_stamp()
            self._own = IndexDataCacheFile(str(kept), self._impl.filename_base, stamp)
        self._files = [file for file in (installed, self._own) if file is not None]
        if config.CACHE_DIR:
            del self._files[0]

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        key = self._index_key(sig, target_context.codegen())
        for file in self._files:
            # A damaged file is as good as none: the kernel is compiled again.
            with suppress(Exception):
                data = file.load(key)
                if data is not None:
                    return self._impl.rebuild(target_context, data)
        return None

    def _save_overload(self, sig: Any, data: Any) -> None:
        if self._own is None or not self._impl.check_cachable(data):
            return
        try:
            os.makedirs(self._own._cache_path, exist_ok=True)
            self._own.save(self._index_key(sig, data.codegen), self._impl.reduce(data))
        except OSError as error:  # the disk is full: the work goes on
            log.warning("machine code not kept error=%(error)s", {"error": error})
            self._own = None


class _CompileNotice(event.Listener):  # type: ignore[misc]
    """Logs once that kernels are compiled, if that takes more than 2 s."""

    def __init__(self) -> None:
        self._depth = 0
        self._began = self._spent = 0.0
        self._timer: threading.Timer | None = None
        self._said = False

    def on_start(self, event: Any) -> None:
        # Numba compiles one function at a time; those it calls are compiled on the way.
        function = event.data["dispatcher"].py_func
        self._depth += 1
        if self._depth > 1 or self._said or not function.__module__.startswith("drfh."):
            return
        self._began = time.monotonic()
        kept = kept_in(Path(function.__code__.co_filename).parent)
        wait = _NOTICE_SECONDS - self._spent if kept is not None else 0.0
        self._timer = threading.Timer(max(wait, 0.0), self._say, [kept])
        self._timer.daemon = True
        self._timer.start()

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0 and self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._spent += time.monotonic() - self._began

    def _say(self, kept: Path | None) -> None:
        self._said = True
        if kept is None:
            log.warning(
                "compiling kernels in memory, for about a minute, as in every run: no directory "
                "for machine code can be written; set DRFH_CACHE to one"
            )
        else:
            log.warning(
                "compiling kernels, once, for about a minute directory=%(directory)s",
                {"directory": kept},
            )


_notice = _CompileNotice()
event.register("numba:compile", _notice)
