"""Several simulations of one workload, side by side in processes."""

from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeAlias

from drfh.errors import DrfhError, InputError
from drfh.model.cluster import Cluster
from drfh.model.jobs import Workload
from drfh.simulation.result import Result
from drfh.simulation.run import Progress, simulate

__all__ = ["SimulationRun", "simulate_many"]

_SECONDS_BETWEEN_LOOKS = 0.2


@dataclass(frozen=True)
class SimulationRun:
    """One of several simulations.

    Attributes
    ----------
    name : str
        What to call it.
    policy : str
        Name of the policy.
    seed : int
        Start of its draws.
    folder : Path or None
        A folder that is there, to write the files of the run into.
    cluster : Cluster or None
        Servers of its own, instead of those of all runs.
    workload : Workload or None
        Users and jobs of its own.
    options : mapping
        What it wants to be different: options of :func:`~drfh.simulate`.
    """

    name: str
    policy: str
    seed: int
    folder: Path | None = None
    cluster: Cluster | None = None
    workload: Workload | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


#: Called with the position of a run and how far it is.
Told: TypeAlias = Callable[[int, Progress], None]


def simulate_many(
    cluster: Cluster,
    workload: Workload,
    runs: Sequence[SimulationRun],
    *,
    processes: int = 1,
    progress: Told | None = None,
    **options: Any,
) -> list[Result]:
    """Simulate a workload several times.

    Parameters
    ----------
    cluster, workload
        As for :func:`~drfh.simulate`.
    runs
        Policies and seeds.
    processes
        How many may run at a time; with 1 no process is started.
    progress
        Called now and then with the position of a run and how far it is.
    **options
        For every :func:`~drfh.simulate`.

    Returns
    -------
    list of Result
        One for each run. If one fails, the others are stopped.

    Examples
    --------
    >>> from drfh import Job, Server
    >>> workload = Workload(["ann"], [Job("ann", demand={"cpu": 1}, duration=9, tasks=3)])
    >>> runs = [SimulationRun(name, name, 0) for name in ("best-fit-drfh", "slots:2")]
    >>> simulate_many(Cluster([Server({"cpu": 3})]), workload, runs)[1].horizon
    18.0
    """
    if processes <= 1 or len(runs) <= 1:
        return [
            _one(cluster, workload, run, options, progress and _told(progress, position))
            for position, run in enumerate(runs)
        ]
    context = multiprocessing.get_context("spawn")  # a fork would copy threads half alive
    results: dict[int, Result] = {}
    alive: dict[Connection, tuple[int, BaseProcess]] = {}
    waiting = list(enumerate(runs))[::-1]
    # The first start would start the tracker too, which lets its caller hear signals again.
    resource_tracker.ensure_running()
    try:
        while waiting or alive:
            while waiting and len(alive) < processes:
                ours, theirs = context.Pipe()
                words = (theirs, cluster, workload, options, progress is not None)
                child: BaseProcess = context.Process(target=_child, args=words, daemon=True)
                position, run = waiting.pop()
                with _deaf():
                    child.start()
                    theirs.close()
                    alive[ours] = position, child
                _send(ours, run)
            for ready in wait(list(alive), timeout=_SECONDS_BETWEEN_LOOKS):
                assert isinstance(ready, Connection)
                if not _listen(ready, alive, results, runs, progress):
                    continue
                _, child = alive[ready]
                if waiting:  # a process that has loaded everything goes on
                    position, run = waiting.pop()
                    alive[ready] = position, child
                    _send(ready, run)
                else:
                    del alive[ready]
                    ready.close()
                    child.join()
    finally:
        for connection, (_, child) in alive.items():
            child.terminate()
            child.join()
            connection.close()
    return [results[position] for position in range(len(runs))]


def _send(connection: Connection, run: SimulationRun) -> None:
    with suppress(OSError):  # a process that died: its end of the pipe will say so
        connection.send(run)


@contextmanager
def _deaf() -> Iterator[None]:
    """Let processes that start meanwhile not hear of Ctrl-C, not even while they load.

    A terminal sends it to all of them; the parent is told when this is over, and stops them.
    """
    heard: list[int] = []
    main = threading.current_thread() is threading.main_thread()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    # Another thread, of a library, may still take the signal, and Python would act on it here.
    handler = signal.getsignal(signal.SIGINT)
    if main and handler is not None:
        signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        yield
    finally:
        if main and handler is not None:
            signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if heard:
            signal.raise_signal(signal.SIGINT)


def _told(progress: Told, position: int) -> Callable[[Progress], None]:
    return lambda news: progress(position, news)


def _one(
    cluster: Cluster,
    workload: Workload,
    run: SimulationRun,
    options: dict[str, Any],
    progress: Callable[[Progress], None] | None,
) -> Result:
    result = simulate(
        run.cluster or cluster,
        run.workload or workload,
        run.policy,
        seed=run.seed,
        progress=progress,
        **{**options, **run.options},
    )
    if run.folder is not None:
        result.write(run.folder)
    return result


def _listen(
    ready: Connection,
    alive: dict[Connection, tuple[int, BaseProcess]],
    results: dict[int, Result],
    runs: Sequence[SimulationRun],
    progress: Told | None,
) -> bool:
    """Take one message of a process; return whether its run is done."""
    position, child = alive[ready]
    try:
        kind, news = ready.recv()
    except (EOFError, ConnectionResetError):
        child.join()
        kind, news = "failed", DrfhError(f"its process ended with code {child.exitcode}")
    if kind == "progress":
        if progress is not None:
            progress(position, news)
        return False
    if kind == "failed":
        name = runs[position].name
        if isinstance(news, InputError) and not news.place:
            news.place = name
            raise news
        error = DrfhError(f"{name}: {news}")
        error.exit_code = news.exit_code
        raise error
    results[position] = news
    return True


def _child(
    connection: Connection,
    cluster: Cluster,
    workload: Workload,
    options: dict[str, Any],
    tells: bool,
) -> None:
    """Carry out one run after the other, until nobody asks for more."""

    def tell(news: Progress) -> None:
        connection.send(("progress", news))

    try:
        while True:
            run = connection.recv()
            connection.send(
                ("done", _one(cluster, workload, run, options, tell if tells else None))
            )
    except (BrokenPipeError, ConnectionResetError, EOFError):
        pass  # nobody listens any more
    except Exception as error:  # one line at the other end, whatever it is
        if not isinstance(error, DrfhError):
            error = DrfhError(f"internal error: {type(error).__name__}: {error}")
        with suppress(OSError):
            connection.send(("failed", error))
    finally:
        connection.close()
