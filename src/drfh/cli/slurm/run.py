"""``drfh slurm run``, ``record``, ``install`` and ``release-all``: what acts, or prepares to."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drfh.cli.cluster.web import publish, publishing, view_at
from drfh.cli.render.console import print_json
from drfh.cli.slurm.options import (
    JsonOption,
    PartitionOption,
    PolicyOption,
    UserByOption,
    WebHostOption,
    WebOption,
    WebPortOption,
    WeightsOption,
    open_site,
    partition_names,
)
from drfh.errors import DrfhError, InputError

if TYPE_CHECKING:
    from drfh.engines.slurm.config import SlurmConfig
    from drfh.engines.slurm.controller import Controller, Cycle
    from drfh.engines.snapshot import ClusterSnapshot
    from drfh.scheduler import Placed

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
    as_json: JsonOption = False,
) -> None:
    """Place the jobs of a Slurm cluster: the controller beside slurmctld.

    Jobs wait under a hold, are pinned to the node that the policy chooses, and released. All that
    it knows comes from Slurm: stop it or kill it at any moment, and start it again.
    """
    from drfh import __version__
    from drfh.engines.cache import SchedulerCache
    from drfh.engines.lock import ControllerLock
    from drfh.engines.metrics import Metrics, serve
    from drfh.engines.slurm.config import lock_path
    from drfh.engines.slurm.controller import Controller
    from drfh.engines.slurm.metrics import Gauges
    from drfh.engines.slurm.service import Service, check_plugin, check_rights

    for option, value in (("--interval", interval), ("--patience", patience), ("--batch", batch)):
        if not 0 < value < 1e9:
            raise InputError(option, "must be > 0", value)
    if hold_by not in _HOLDERS:
        raise InputError("--hold-by", "must be plugin or controller", hold_by)
    place = view_at(web, web_host, web_port)
    opened = open_site(policy, weights, user_by, partition, hold_by=hold_by, afresh=True)
    slurm, site, configuration = opened.slurm, opened.site, opened.configuration
    check_rights(configuration)
    if hold_by == "plugin":
        check_plugin(configuration)
    say = _unheard(_say_json if as_json else _say)
    with ExitStack() as stack:
        held = ControllerLock(lock or lock_path(configuration))
        stack.enter_context(held.acquire(opened.facts, say=say))
        slurm.keep_open = (held.fd,)
        cache = SchedulerCache(opened.policy)
        gauges = None
        if metrics_port is not None:
            gauges = Gauges(Metrics(), __version__, cache.policy.name)
            slurm.told = gauges.command
            server = stack.enter_context(serve(gauges.metrics, metrics_port))
            say(f"metrics: {server.url}")
        controller = Controller(slurm, site, cache, patience=patience, batch=batch)
        if record_to is not None:
            header = {"policy": cache.policy.name, "started": time.time(), **_shared(site)}
            controller.noted = stack.enter_context(_Journal(record_to, header, say, batch)).note
        reload = _reload(controller, weights, say)
        how = f"{cache.policy.name} places jobs by {site.user_by}, in {_where(site)}"
        follower = None
        if place is not None:
            follower = publish(stack, opened.name, how, place, say, interval)

        def check() -> None:
            held.check()
            if reload():
                held.tell({**opened.facts, "weights": dict(controller.site.weights)})

        def tell(line: str) -> None:
            say(line)
            if follower is not None and service.failures:
                follower.on_failure(line, service.failures)

        service = Service(
            controller,
            interval=interval,
            say=tell,
            seen=publishing(follower, controller.cluster, _seen(say, as_json=as_json), say),
            gauges=gauges,
            check=check,
        )
        say(how)
        with service.signals():
            service.run(rounds)
        say("stopped; waiting jobs stay held (drfh slurm release-all gives them to Slurm)")


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
    as_json: JsonOption = False,
) -> None:
    """Keep the event log of a cluster that somebody else schedules; nothing is touched.

    drfh slurm replay LOG --policy best-fit-drfh then answers what drfh would have done.
    """
    from drfh.engines.slurm.recorder import Recorder

    for option, value in (("--interval", interval), ("--for", duration)):
        if value is not None and not 0 < value < 1e9:
            raise InputError(option, "must be > 0", value)
    opened = open_site(policy, weights, user_by, partition)
    say = _say_json if as_json else _say
    header = {
        "policy": opened.facts["policy"],
        "started": time.time(),
        "controls": False,
        **_shared(opened.site),
    }
    with _Journal(log, header, say, None, append=go_on, force=force) as journal:
        recorder = Recorder(opened.slurm, opened.site, journal.note, say=say)
        with recorder.signals():
            recorder.run(interval, duration)
    if as_json:
        print_json({"log": str(log), "looks": recorder.looks, "jobs": len(recorder.jobs)})
    else:
        say(f"{log}: {recorder.looks:,} looks, {len(recorder.jobs):,} jobs")


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
        slurm.keep_open = (held.fd,)
        names, failed = service.release_all(slurm, config_of(configuration, hold_by=holder))
    if as_json:
        print_json({"released": names, "failed": failed, "still_holds": plugin})
    else:
        _say(f"{len(names)} jobs given back to Slurm's own scheduler")
        for name, words in failed.items():
            _say(f"{f'job {name}: ' if name else ''}{words}")
        if plugin:
            _say(
                "job_submit.lua still holds new jobs: take lua out of JobSubmitPlugins, then "
                "scontrol reconfigure"
            )
    if failed:
        raise typer.Exit(1)


class _Journal:
    """Writes a journal; a full disk must not stop a cluster."""

    def __init__(
        self,
        path: Path,
        header: dict[str, Any],
        say: Callable[[str], None],
        limit: int | None,
        *,
        append: bool = True,
        force: bool = False,
    ) -> None:
        from drfh.engines.journal.writer import JournalWriter

        self.writer = JournalWriter(path, header, append=append and path.exists(), force=force)
        self.started, self.say, self.limit = float(header["started"]), say, limit
        self.controls = header.get("controls", True)
        self.complained = False

    def __enter__(self) -> _Journal:
        return self

    def __exit__(self, *_: object) -> None:
        self.writer.close()

    def note(self, now: float, snapshot: ClusterSnapshot, placed: list[Placed]) -> None:
        """Write a look."""
        try:
            self.writer.write(
                now - self.started, snapshot, placed if self.controls else None, self.limit
            )
        except (OSError, DrfhError) as error:
            if not self.complained:
                self.complained = True
                self.say(f"the event log has a gap from here: {error}")


def _shared(site: SlurmConfig) -> dict[str, Any]:
    return {"user_by": site.user_by, "partitions": list(site.partitions)}


def _where(site: SlurmConfig) -> str:
    if not site.partitions:
        return "all partitions"
    return f"partition {', '.join(site.partitions)}"


def _unheard(say: Callable[[str], None]) -> Callable[[str], None]:
    """Return one that goes on when nobody listens any more: the cluster must."""

    def told(line: str) -> None:
        with suppress(OSError, ValueError):  # ValueError: of a file that was closed
            say(line)

    return told


def _say(line: str) -> None:
    typer.echo(f"{datetime.now():%H:%M:%S} {line}")


def _say_json(line: str) -> None:
    typer.echo(json.dumps({"time": time.time(), "says": line}))


def _reload(
    controller: Controller, weights: str | None, say: Callable[[str], None]
) -> Callable[[], bool]:
    """Return what reads the weights file again once it has changed, and says whether it has."""
    from drfh.engines.slurm.config import read_weights

    if weights is None:
        return lambda: False
    file = Path(weights)

    def changed() -> int | None:
        try:
            return file.stat().st_mtime_ns
        except OSError:
            return None

    read = [changed()]

    def reload() -> bool:
        now = changed()
        if now is None or now == read[0]:
            return False
        read[0] = now
        try:
            controller.site = replace(controller.site, weights=read_weights(file))
        except DrfhError as error:
            say(f"{error}; the old weights hold")
            return False
        say(f"{file}: new weights")
        return True

    return reload


def _seen(say: Callable[[str], None], *, as_json: bool) -> Callable[[Cycle], None]:
    """Return what is said after a round."""

    def seen(done: Cycle) -> None:
        if as_json and done.busy:
            typer.echo(json.dumps(_facts(done)))
        elif done.placed:
            users = Counter(one.user for one in done.placed)
            shown = ", ".join(f"{user} {number}" for user, number in sorted(users.items()))
            tasks = done.view.snapshot.tasks.values()
            queued = sum(task.on is None and task.blocked is None for task in tasks)
            waiting = queued - len(done.placed)
            say(f"placed {len(done.placed)} ({shown}); {waiting} wait")

    return seen


def _facts(done: Cycle) -> dict[str, Any]:
    return {
        "time": done.time,
        "placed": [[one.task, one.user, one.server] for one in done.placed],
        "released": done.released,
        "taken_back": {name: str(why) for name, why in done.recalled.items()},
        "failed": done.failed,
        "decision_seconds": done.decision_seconds,
        "seconds": done.seconds,
    }
