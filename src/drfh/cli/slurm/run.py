"""``drfh slurm run``, ``record``, ``install`` and ``release-all``: the controller's verbs."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drfh.cli.cluster.web import publish, view_at
from drfh.cli.render.console import print_json
from drfh.cli.service import LogFormatOption, LogLevelOption, Printer, service_logging
from drfh.cli.slurm.options import (
    JsonOption,
    PartitionOption,
    PolicyOption,
    UserByOption,
    WebHostOption,
    WebOption,
    WebPortOption,
    WeightsOption,
    connect,
    partition_names,
)
from drfh.errors import DrfhError, InputError

if TYPE_CHECKING:
    from drfh.engines.observer import Observer
    from drfh.engines.slurm.config import SlurmConfig
    from drfh.engines.slurm.controller import Controller

__all__ = ["install", "record", "release_all", "run"]

_HOLDERS = ("plugin", "controller")


def run(
    policy: PolicyOption = None,
    weights: WeightsOption = None,
    user_by: UserByOption = None,
    partition: PartitionOption = None,
    hold_by: Annotated[
        str,
        typer.Option(
            metavar="plugin|controller",
            envvar="DRFH_SLURM_HOLD_BY",
            help="Who puts new jobs under the hold: job_submit.lua, or this controller as soon as "
            "it sees them.",
        ),
    ] = "plugin",
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time between two looks at an idle cluster.")
    ] = 1.0,
    patience: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", help="How long a released job may wait for its node at most."
        ),
    ] = 60.0,
    batch: Annotated[
        int, typer.Option(metavar="JOBS", help="Most jobs that are placed in one round.")
    ] = 200,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            envvar="DRFH_SLURM_METRICS_PORT",
            help="Serve metrics for Prometheus on this port of 127.0.0.1 (0: any free one).",
        ),
    ] = None,
    web: WebOption = False,
    web_port: WebPortOption = None,
    web_host: WebHostOption = None,
    record_to: Annotated[
        Path | None,
        typer.Option(
            "--record",
            metavar="LOG",
            help="Keep the event log here, for drfh slurm replay; goes on with one that is there.",
        ),
    ] = None,
    lock: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The lock (default: drfh.lock in Slurm's own state)."),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(metavar="N", help="Stop after so many rounds.")
    ] = None,
    log_level: LogLevelOption = "info",
    log_format: LogFormatOption = "text",
    as_json: JsonOption = False,
) -> None:
    """Place the jobs of a Slurm cluster: the controller beside slurmctld.

    Jobs wait under a hold, are pinned to the node that the policy chooses, and released. All that
    it knows comes from Slurm: stop it or kill it at any moment, and start it again.
    """
    from drfh import __version__
    from drfh.engines.cache import SchedulerCache
    from drfh.engines.journal.writer import JournalWriter
    from drfh.engines.lock import ControllerLock
    from drfh.engines.metrics import Metrics, MetricsObserver, serve
    from drfh.engines.observer import CycleWriter
    from drfh.engines.slurm.config import lock_path
    from drfh.engines.slurm.controller import Controller
    from drfh.engines.slurm.service import Service, check_plugin, check_rights

    for option, value in (("--interval", interval), ("--patience", patience), ("--batch", batch)):
        if not 0 < value < 1e9:
            raise InputError(option, "must be > 0", value)
    if hold_by not in _HOLDERS:
        raise InputError("--hold-by", "must be plugin or controller", hold_by)
    with ExitStack() as stack:
        stack.enter_context(service_logging(log_level, log_format))
        address = view_at(web, web_host, web_port)
        connection = connect(policy, weights, user_by, partition, hold_by=hold_by, afresh=True)
        slurm, config = connection.slurm, connection.config
        check_rights(connection.configuration)
        if hold_by == "plugin":
            check_plugin(connection.configuration)
        printer = Printer(as_json)
        held = ControllerLock(lock or lock_path(connection.configuration))
        stack.enter_context(held.acquire(connection.facts))
        slurm.inherited_fds = (held.fd,)
        cache = SchedulerCache(connection.policy)
        observers: list[Observer] = []
        slurm.observers = observers
        if metrics_port is not None:
            metrics = Metrics()
            server = stack.enter_context(serve(metrics, metrics_port))
            observer = MetricsObserver(metrics, __version__, cache.policy.name)
            observers.append(stack.enter_context(observer))
            printer(f"metrics: {server.url}", metrics=server.url)
        if record_to is not None:
            header = {"policy": cache.policy.name, "started": time.time(), **_sharing(config)}
            writer = JournalWriter(record_to, header, append=record_to.exists())
            observers.append(stack.enter_context(writer))
        how = f"{cache.policy.name} places jobs by {config.user_by}, in {_where(config)}"
        if address is not None:
            from drfh.engines.slurm.cluster import SlurmCluster

            publisher = publish(
                stack, connection.name, how, address, printer, interval, SlurmCluster
            )
            if publisher is not None:
                observers.append(publisher)
        if as_json:
            observers.append(CycleWriter(printer.print_json))
        controller = Controller(
            slurm, config, cache, patience=patience, batch=batch, observers=observers
        )
        reload = _weights_reload(controller, weights)

        def check() -> None:
            held.check()
            if reload():
                held.update({**connection.facts, "weights": dict(controller.config.weights)})

        service = Service(controller, interval=interval, check=check)
        printer(how, started=True)
        with service.signals():
            service.run(rounds)
        printer("stopped; waiting jobs stay held (drfh slurm release-all gives them to Slurm)")


def record(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="The event log to write.")],
    policy: PolicyOption = None,
    weights: WeightsOption = None,
    user_by: UserByOption = None,
    partition: PartitionOption = None,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time between two looks.")
    ] = 2.0,
    duration: Annotated[
        float | None, typer.Option("--for", metavar="SECONDS", help="Stop after this time.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a log that is there.")] = False,
    go_on: Annotated[
        bool, typer.Option("--append", help="Go on with a log that is there.")
    ] = False,
    log_level: LogLevelOption = "info",
    log_format: LogFormatOption = "text",
    as_json: JsonOption = False,
) -> None:
    """Keep the event log of a cluster that somebody else schedules; nothing is touched.

    drfh slurm replay LOG --policy best-fit-drfh then answers what drfh would have done.
    """
    from drfh.engines.journal.writer import JournalWriter
    from drfh.engines.recorder import Recorder
    from drfh.engines.slurm.cluster import snapshot_of_all

    for option, value in (("--interval", interval), ("--for", duration)):
        if value is not None and not 0 < value < 1e9:
            raise InputError(option, "must be > 0", value)
    with service_logging(log_level, log_format):
        connection = connect(policy, weights, user_by, partition)
        header = {
            "policy": connection.facts["policy"],
            "started": time.time(),
            "controls": False,
            **_sharing(connection.config),
        }
        with JournalWriter(log, header, append=go_on and log.exists(), force=force) as writer:
            read = partial(snapshot_of_all, connection.slurm, connection.config)
            recorder = Recorder(read, [writer])
            with recorder.signals():
                recorder.run(interval, duration)
    snapshots, jobs = recorder.snapshots, len(recorder.jobs)
    if as_json:
        print_json({"log": str(log), "looks": snapshots, "jobs": jobs})
    else:
        Printer(as_json)(f"{log}: {snapshots:,} looks, {jobs:,} jobs")


def install(
    show: Annotated[
        bool, typer.Option("--print", help="Print the script; nothing is installed.")
    ] = False,
    partition: PartitionOption = None,
) -> None:
    """Print job_submit.lua, which puts new jobs under a hold that their owners cannot lift.

    How to install it, and how to take it out again, stands at its top.
    """
    from drfh.engines.slurm.client import Slurm, SlurmError
    from drfh.engines.slurm.submit_plugin import installation

    if not show:
        rule = "must be given: an administrator puts the script in its place"
        raise InputError("--print", rule)
    try:
        configuration = Slurm().configuration()
    except SlurmError:
        configuration = {}  # the script can be made on another machine
    typer.echo(installation(configuration, partition_names(partition)), nl=False)


def release_all(
    lock: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The lock (default: drfh.lock in Slurm's own state)."),
    ] = None,
    hold_by: Annotated[
        str | None,
        typer.Option(
            metavar="plugin|controller",
            envvar="DRFH_SLURM_HOLD_BY",
            help="Who held the jobs; by default as the last controller did, else as Slurm is "
            "configured.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Give all waiting jobs back to Slurm's own scheduler, as their owners submitted them.

    No controller may run meanwhile. New jobs are held as long as job_submit.lua is installed.
    """
    from drfh.engines.lock import ControllerLock
    from drfh.engines.slurm import service
    from drfh.engines.slurm.client import Slurm
    from drfh.engines.slurm.config import config_of, lock_path

    slurm = Slurm()
    configuration = slurm.configuration()
    service.check_rights(configuration)
    plugin = "lua" in configuration.get("JobSubmitPlugins", "").split(",")
    path = lock or lock_path(configuration)
    last = (ControllerLock.read(path) or {}).get("hold_by")
    holder = hold_by or last or ("plugin" if plugin else "controller")
    if holder not in _HOLDERS:
        raise InputError("--hold-by", "must be plugin or controller", holder)
    held = ControllerLock(path)
    with held.acquire({"release_all": True, "hold_by": holder}):
        slurm.inherited_fds = (held.fd,)
        names, failed = service.release_all(slurm, config_of(configuration, hold_by=holder))
    if as_json:
        print_json({"released": names, "failed": failed, "still_holds": plugin})
    else:
        printer = Printer(as_json)
        printer(f"{len(names)} jobs given back to Slurm's own scheduler")
        for name, message in failed.items():
            printer(f"{f'job {name}: ' if name else ''}{message}")
        if plugin:
            printer(
                "job_submit.lua still holds new jobs: take lua out of JobSubmitPlugins, then "
                "scontrol reconfigure"
            )
    if failed:
        raise typer.Exit(1)


def _sharing(config: SlurmConfig) -> dict[str, Any]:
    return {"user_by": config.user_by, "partitions": list(config.partitions)}


def _where(config: SlurmConfig) -> str:
    if not config.partitions:
        return "all partitions"
    return f"partition {', '.join(config.partitions)}"


def _weights_reload(controller: Controller, weights: str | None) -> Callable[[], bool]:
    """Return a function that reads the weights file once it has changed; True if it did."""
    import logging

    from drfh.engines.slurm.config import read_weights

    if weights is None:
        return lambda: False
    file = Path(weights)
    log = logging.getLogger(__name__)

    def modified() -> int | None:
        try:
            return file.stat().st_mtime_ns
        except OSError:
            return None

    last = modified()

    def reload() -> bool:
        nonlocal last
        now = modified()
        if now is None or now == last:
            return False
        last = now
        try:
            controller.config = replace(controller.config, weights=read_weights(file))
        except DrfhError as error:
            log.warning("weights kept error=%(error)s", {"error": error})
            return False
        log.info("weights reloaded file=%(file)s", {"file": file})
        return True

    return reload
