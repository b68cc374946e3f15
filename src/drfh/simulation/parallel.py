"""Several simulations of one workload at once, in a process pool.

``concurrent.futures`` lacks four things, which are added here: progress while a call runs (a
queue), workers that a terminal's Ctrl-C does not reach (they start with SIGINT blocked), workers
that are stopped at once (``terminate_workers`` comes with Python 3.14), and workers that end when
their parent was killed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import connection, resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from drfh.errors import DrfhError, InputError
from drfh.model.cluster import Cluster
from drfh.model.jobs import Workload
from drfh.simulation.result import Result
from drfh.simulation.run import Progress, simulate

__all__ = ["OnProgress", "SimulationRun", "simulate_many"]

_SECONDS_BETWEEN_REPORTS = 0.2


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
        An existing folder for the files of the run.
    cluster : Cluster or None
        Servers of its own, instead of those of all runs.
    workload : Workload or None
        Users and jobs of its own.
    options : mapping
        Options of :func:`~drfh.simulate` for this run only.
    """

    name: str
    policy: str
    seed: int
    folder: Path | None = None
    cluster: Cluster | None = None
    workload: Workload | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


#: Called with the position of a run and how far it is.
OnProgress: TypeAlias = Callable[[int, Progress], None]


def simulate_many(
    cluster: Cluster,
    workload: Workload,
    runs: Sequence[SimulationRun],
    *,
    processes: int = 1,
    progress: OnProgress | None = None,
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
            _simulate(cluster, workload, run, options, progress and _of_run(progress, position))
            for position, run in enumerate(runs)
        ]
    context = multiprocessing.get_context("spawn")  # a fork would copy threads half alive
    # Starting a process would start the tracker too, which unblocks SIGINT in its caller.
    resource_tracker.ensure_running()
    reports = context.SimpleQueue() if progress is not None else None
    pool = ProcessPoolExecutor(
        min(processes, len(runs)),
        context,
        initializer=_start_worker,
        initargs=(_Worker(cluster, workload, options, reports),),
    )
    futures: list[Future[Result]] = []
    workers: list[BaseProcess] = []
    complete = False
    try:
        with _sigint_blocked():
            others = multiprocessing.active_children()
            for position, run in enumerate(runs):
                futures.append(pool.submit(_run_in_worker, position, run))
            workers = [child for child in multiprocessing.active_children() if child not in others]
        waiting = set(futures)
        while waiting:
            done, waiting = wait(waiting, _SECONDS_BETWEEN_REPORTS, FIRST_COMPLETED)
            while reports is not None and not reports.empty():
                assert progress is not None
                progress(*reports.get())
            for future in done:
                future.result()
        complete = True
    except BrokenProcessPool:
        pass  # said below, when all have ended
    finally:
        if not complete:
            for worker in workers:
                worker.terminate()
        pool.shutdown(wait=True, cancel_futures=True)
    if not complete:
        # The pool terminates the others: the one that died first has another code.
        codes = [worker.exitcode for worker in workers]
        code = next((c for c in codes if c not in (None, 0, -signal.SIGTERM)), -signal.SIGTERM)
        name = next(
            run.name for run, future in zip(runs, futures, strict=False) if future.exception()
        )
        raise DrfhError(f"{name}: its process ended with code {code}")
    return [future.result() for future in futures]


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    """Block SIGINT in processes that start meanwhile; the caller gets it afterwards.

    A terminal sends it to all of them; the parent alone handles it and stops the others.
    """
    received: list[int] = []
    main = threading.current_thread() is threading.main_thread()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    # Another thread, of a library, may still take the signal, and Python would act on it here.
    handler = signal.getsignal(signal.SIGINT)
    if main and handler is not None:
        signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    try:
        yield
    finally:
        if main and handler is not None:
            signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if received:
            signal.raise_signal(signal.SIGINT)


def _of_run(progress: OnProgress, position: int) -> Callable[[Progress], None]:
    return lambda news: progress(position, news)


def _simulate(
    cluster: Cluster,
    workload: Workload,
    run: SimulationRun,
    options: Mapping[str, Any],
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


class _Worker(NamedTuple):
    """What a worker process has for all of its runs."""

    cluster: Cluster
    workload: Workload
    options: dict[str, Any]
    reports: Any  # a queue of (position, Progress), or None


_worker: _Worker | None = None


def _start_worker(worker: _Worker) -> None:
    global _worker
    _worker = worker
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    connection.wait([parent.sentinel])
    os._exit(1)


def _run_in_worker(position: int, run: SimulationRun) -> Result:
    assert _worker is not None
    cluster, workload, options, reports = _worker

    def report(news: Progress) -> None:
        reports.put((position, news))

    try:
        return _simulate(cluster, workload, run, options, report if reports is not None else None)
    except InputError as error:
        error.place = f"{run.name}: {error.place}" if error.place else run.name
        raise
    except Exception as error:  # as one that surely can be sent
        ours = isinstance(error, DrfhError)
        text = str(error) if ours else f"internal error: {type(error).__name__}: {error}"
        plain = DrfhError(f"{run.name}: {text}")
        plain.exit_code = error.exit_code if isinstance(error, DrfhError) else 1
        raise plain from None
