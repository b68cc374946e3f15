"""Measurements in processes of their own, with a limit on processor time."""

from __future__ import annotations

import math
import multiprocessing
import resource
import signal
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["apart", "limit_processor", "peak_memory"]

Result = TypeVar("Result")


def apart(function: Callable[..., Result], *arguments: Any) -> Result:
    """Return what a function returns in a process of its own.

    Raises
    ------
    TimeoutError
        If the function ran into its :func:`limit_processor`.
    ChildProcessError
        If the process ended otherwise, for lack of memory say.
    """
    context = multiprocessing.get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(writer, function, arguments), daemon=True)
    process.start()
    writer.close()
    try:
        result, error = reader.recv()
    except EOFError:
        result, error = None, None
    process.join()
    if error is not None:
        raise error
    if process.exitcode == -signal.SIGXCPU:
        raise TimeoutError("no processor time left")
    if process.exitcode != 0:
        raise ChildProcessError(f"{function.__name__} ended with code {process.exitcode}")
    found: Result = result
    return found


def _send(writer: Connection, function: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    try:
        writer.send((function(*arguments), None))
    except Exception as error:
        writer.send((None, error))


def limit_processor(seconds: float) -> None:
    """Let the system end this process when it has used so many more seconds, rounded up.

    Solvers look at their own limits of time only now and then, and some never do.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    used = math.ceil(time.process_time() + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (used, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def peak_memory() -> float:
    """Return the most memory of this process so far, in GiB.

    Not by getrusage where it can be helped: a new process starts with the peak of its parent.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        kib = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kib / 2**20
