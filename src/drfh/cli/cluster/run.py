"""The controller and the recorder of a cluster of any engine, as services."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drfh.cli.cluster.web import WebAddress, publish
from drfh.cli.render.console import print_json
from drfh.cli.service import Printer
from drfh.errors import InputError

if TYPE_CHECKING:
    from drfh.engines.cache import SchedulerCache
    from drfh.engines.engine import Engine
    from drfh.engines.lock import ControllerLock
    from drfh.engines.observer import Observer
    from drfh.engines.service import Controller

__all__ = ["RunOptions", "check_positive", "record_journal", "run_controller"]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of a controller that every engine has.

    Parameters
    ----------
    interval
        Seconds between two cycles while nothing happens.
    cycles
        Stop after so many; None: when it is asked to.
    weights
        The weights file, which is read again when it changes.
    journal
        Where the journal is written; one that is there is continued.
    metrics_port
        Of 127.0.0.1, for Prometheus; 0: any free one.
    """

    interval: float = 1.0
    cycles: int | None = None
    weights: Path | None = None
    journal: Path | None = None
    metrics_port: int | None = None
    web: WebAddress | None = None
    as_json: bool = False


def check_positive(options: Mapping[str, float | None]) -> None:
    """Raise unless options that are given are above 0.

    Examples
    --------
    >>> check_positive({"--interval": 0.5, "--for": None})
    """
    for option, value in options.items():
        if value is not None and not 0 < value < 1e9:
            raise InputError(option, "must be > 0", value)


def run_controller(
    engine: Engine,
    lock: ControllerLock,
    facts: Mapping[str, Any],
    start: Callable[[SchedulerCache, Sequence[Observer]], Controller],
    options: RunOptions,
    *,
    scope: str,
    farewell: str,
) -> None:
    """Run a controller until it is stopped, with journal, metrics and live view.

    Parameters
    ----------
    lock, facts
        It is held meanwhile, and others can read these facts in it.
    start
        Makes the controller, once the lock is held.
    scope
        What it schedules, as text, such as ``all partitions``.
    farewell
        What becomes of the jobs that wait when it has stopped.
    """
    from drfh import __version__
    from drfh.engines.cache import SchedulerCache
    from drfh.engines.journal.writer import JournalWriter
    from drfh.engines.metrics import Metrics, MetricsObserver, serve
    from drfh.engines.observer import CycleWriter
    from drfh.engines.service import Service
    from drfh.engines.weights import WeightsFile

    printer = Printer(options.as_json)
    with ExitStack() as stack:
        stack.enter_context(lock.acquire(facts))
        cache = SchedulerCache(engine.policy)
        observers: list[Observer] = []
        if options.metrics_port is not None:
            metrics = Metrics()
            server = stack.enter_context(serve(metrics, options.metrics_port))
            observer = MetricsObserver(metrics, __version__, cache.policy.name)
            observers.append(stack.enter_context(observer))
            printer(f"metrics: {server.url}", metrics=server.url)
        if options.journal is not None:
            header = _journal_header(engine, cache.policy.name)
            there = options.journal.exists()
            writer = JournalWriter(options.journal, header, append=there)
            observers.append(stack.enter_context(writer))
        how = f"{cache.policy.name} places jobs by {engine.user_by}, in {scope}"
        if options.web is not None:
            publisher = publish(
                stack, engine.name, how, options.web, printer, options.interval, engine.cluster_type
            )
            if publisher is not None:
                observers.append(publisher)
        if options.as_json:
            observers.append(CycleWriter(printer.print_json))
        controller = start(cache, observers)
        weights = None if options.weights is None else WeightsFile(options.weights)

        def check() -> None:
            lock.check()
            changed = None if weights is None else weights.changed()
            if changed is not None:
                controller.set_weights(changed)
                lock.update({**facts, "weights": changed})

        service = Service(controller, interval=options.interval, check=check)
        printer(how, started=True)
        with service.signals():
            service.run(options.cycles)
        printer(f"stopped; {farewell}")


def record_journal(
    engine: Engine,
    log: Path,
    *,
    interval: float = 2.0,
    duration: float | None = None,
    append: bool = False,
    force: bool = False,
    as_json: bool = False,
) -> None:
    """Write the journal of a cluster that another scheduler runs.

    Parameters
    ----------
    interval, duration
        Seconds between two snapshots, and until it ends; None: when it is asked to.
    append, force
        Continue a journal that is there, or replace it.
    """
    from drfh.engines.journal.writer import JournalWriter
    from drfh.engines.recorder import Recorder
    from drfh.policies import find_policy

    header = _journal_header(engine, find_policy(engine.policy).name) | {"controls": False}
    with JournalWriter(log, header, append=append and log.exists(), force=force) as writer:
        recorder = Recorder(engine.snapshot, [writer])
        with recorder.signals():
            recorder.run(interval, duration)
    snapshots, jobs = recorder.snapshots, len(recorder.jobs)
    if as_json:
        print_json({"log": str(log), "looks": snapshots, "jobs": jobs})
    else:
        Printer(as_json)(f"{log}: {snapshots:,} looks, {jobs:,} jobs")


def _journal_header(engine: Engine, policy: str) -> dict[str, Any]:
    return {
        "policy": policy,
        "engine": engine.cluster_type.engine,
        "started": time.time(),
        **engine.sharing,
    }
