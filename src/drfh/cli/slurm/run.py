"""``drfh slurm run``, ``record``, ``install`` and ``release-all``: the controller's verbs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drfh.cli.cluster.run import RunOptions, check_positive, record_journal, run_controller
from drfh.cli.cluster.web import view_at
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
from drfh.errors import InputError

if TYPE_CHECKING:
    from drfh.engines.cache import SchedulerCache
    from drfh.engines.observer import Observer
    from drfh.engines.slurm.controller import SlurmController

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
    from drfh.engines.slurm.config import check_plugin, check_rights, controller_lock

    check_positive({"--interval": interval, "--patience": patience, "--batch": batch})
    if hold_by not in _HOLDERS:
        raise InputError("--hold-by", "must be plugin or controller", hold_by)
    with service_logging(log_level, log_format):
        address = view_at(web, web_host, web_port)
        connection = connect(policy, weights, user_by, partition, hold_by=hold_by, afresh=True)
        check_rights(connection.configuration)
        if hold_by == "plugin":
            check_plugin(connection.configuration)
        held = controller_lock(connection.configuration, lock)

        def start(cache: SchedulerCache, observers: Sequence[Observer]) -> SlurmController:
            from drfh.engines.slurm.controller import SlurmController

            slurm = connection.slurm
            slurm.inherited_fds = (held.fd,)
            slurm.observers = observers
            return SlurmController(
                slurm, connection.config, cache, patience=patience, batch=batch, observers=observers
            )

        names = ", ".join(connection.config.partitions)
        run_controller(
            connection,
            held,
            connection.facts,
            start,
            RunOptions(
                interval=interval,
                cycles=rounds,
                weights=None if weights is None else Path(weights),
                journal=record_to,
                metrics_port=metrics_port,
                web=address,
                as_json=as_json,
            ),
            scope=f"partition {names}" if names else "all partitions",
            farewell="waiting jobs stay held (drfh slurm release-all gives them to Slurm)",
        )


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
    check_positive({"--interval": interval, "--for": duration})
    with service_logging(log_level, log_format):
        record_journal(
            connect(policy, weights, user_by, partition),
            log,
            interval=interval,
            duration=duration,
            append=go_on,
            force=force,
            as_json=as_json,
        )


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
    from drfh.engines.slurm import controller
    from drfh.engines.slurm.client import Slurm
    from drfh.engines.slurm.config import check_rights, config_of, controller_lock
    from drfh.wire.slurm.scontrol import submit_plugins

    slurm = Slurm()
    configuration = slurm.configuration()
    check_rights(configuration)
    plugin = "lua" in submit_plugins(configuration)
    held = controller_lock(configuration, lock)
    last = (ControllerLock.read(held.path) or {}).get("hold_by")
    holder = hold_by or last or ("plugin" if plugin else "controller")
    if holder not in _HOLDERS:
        raise InputError("--hold-by", "must be plugin or controller", holder)
    with held.acquire({"release_all": True, "hold_by": holder}):
        slurm.inherited_fds = (held.fd,)
        names, failed = controller.release_all(slurm, config_of(configuration, hold_by=holder))
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
