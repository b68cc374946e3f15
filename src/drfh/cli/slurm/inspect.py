"""``drfh slurm status``, ``why`` and ``audit``: looks at a live cluster that change nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drfh.cli.render.console import console, print_json
from drfh.cli.slurm.options import (
    JsonOption,
    OpenSite,
    PartitionOption,
    PolicyOption,
    UserByOption,
    WeightsOption,
    open_site,
)
from drfh.cli.slurm.web import WebHostOption, WebOption, WebPortOption, view_at, watch_in_browser
from drfh.errors import InputError

if TYPE_CHECKING:
    from drfh.cli.input import Subject
    from drfh.engines.slurm.status import Status

__all__ = ["audit", "status", "why"]

_SECONDS = 2.0
_FEW_USERS = 4


def status(
    seconds: Annotated[
        float | None,
        typer.Argument(
            metavar="[SECONDS]", help="With --watch or --web: time between two looks; else 2."
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Look again and again, until Ctrl-C.")
    ] = False,
    count: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="With --watch: stop after so many looks."),
    ] = None,
    everyone: Annotated[bool, typer.Option("--all", help="All users, however many.")] = False,
    web: WebOption = False,
    web_port: WebPortOption = None,
    web_host: WebHostOption = None,
    as_json: JsonOption = False,
    policy: PolicyOption = None,
    weights: WeightsOption = None,
    user_by: UserByOption = None,
    partition: PartitionOption = None,
) -> None:
    """Show who has what beside what would be fair, and how full the nodes are.

    The ideal share is that of the exact DRFH allocation, if tasks were
    divisible, of all who have jobs that run or could run now.

    Try:

      drfh slurm status --watch 5

      drfh slurm status --json

      drfh slurm status --web
    """
    place = view_at(web, web_host, web_port)
    if not watch:
        both = [] if place is not None else [("SECONDS", seconds)]
        for name, given in (*both, ("--count", count)):
            if given is not None:
                raise InputError(name, "must be used together with --watch", given)
    if seconds is not None and not 0 <= seconds < 1e6:
        raise InputError("SECONDS", "must be a number ≥ 0", seconds)

    if place is not None:
        if watch or as_json:
            given_too = "--watch" if watch else "--json"
            raise InputError(given_too, "must not be used together with --web")
        pause = _SECONDS if seconds is None else max(seconds, 0.1)
        say = console(stderr=True).print
        watch_in_browser(lambda: open_site(policy, weights, user_by, partition), pause, place, say)
        return

    def look() -> tuple[OpenSite, Status]:
        from drfh.engines.slurm.status import status_of

        # Again each time: a controller may have started, or started again with other options.
        site = open_site(policy, weights, user_by, partition)
        return site, status_of(site.look())

    if watch:
        _watch(look, _SECONDS if seconds is None else seconds, count, everyone, as_json)
        return
    site, found = look()
    if as_json:
        print_json(_as_data(site, found))
        return
    from drfh.cli.slurm.render import print_status

    print_status(found, head=site.controller.text, everyone=everyone)


def why(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Such as 12, or 12_3 of an array.")],
    as_json: JsonOption = False,
    policy: PolicyOption = None,
    weights: WeightsOption = None,
    user_by: UserByOption = None,
    partition: PartitionOption = None,
) -> None:
    """Say why a job waits: what is missing where, and who goes first.

    Try:

      drfh slurm why 12

      drfh slurm why 12_3
    """
    from drfh.engines.slurm.explain import why_job
    from drfh.wire.slurm.notation import parse_job_name

    parse_job_name(job)
    answer = why_job(open_site(policy, weights, user_by, partition).look(), job)
    if as_json:
        print_json(answer.to_dict())
        return
    from drfh.cli.slurm.render import print_why

    print_why(answer)


def audit(
    only: Annotated[
        str | None, typer.Option(metavar="A,B", help="Measure these properties only.")
    ] = None,
    require: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Exit with code 3 if one of these properties fails."),
    ] = None,
    split: Annotated[
        bool | None,
        typer.Option(
            "--split/--no-split",
            help="Each kind of task by itself, or the mean task of its user; by default by itself "
            "where tasks of a user differ in more than size.",
        ),
    ] = None,
    show: Annotated[
        str | None, typer.Option(metavar="PROPERTY", help="Show the counterexample to one.")
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="With --show: write the counterexample as a scenario file."
        ),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one offline page with charts.")
    ] = None,
    as_json: JsonOption = False,
    policy: PolicyOption = None,
    weights: WeightsOption = None,
    user_by: UserByOption = None,
    partition: PartitionOption = None,
) -> None:
    """Measure every fairness property of what runs now: a report card, worst first.

    Whole tasks and jobs that end keep a cluster a little away from the
    ideal: --show says for whom, and by how much.

    Try:

      drfh slurm audit

      drfh slurm audit --require feasible
    """
    from drfh.cli.audit import audit_subject, read_request

    asked = read_request(only, require, show, save, html)
    asked.check_for_observed()
    site = open_site(policy, weights, user_by, partition)
    subject = _subject(site, split)
    if subject is None or subject.observed is None:
        if as_json:
            print_json({"subject": "observed allocation", "tasks": {}, "findings": []})
        else:
            console().print("nothing runs, so there is nothing to audit")
        return
    subject.print_account()
    audit_subject(subject, asked, observed=subject.observed, as_json=as_json)


def _subject(site: OpenSite, split: bool | None) -> Subject | None:
    """Return what runs and waits now as what an audit is about; None if nothing runs."""
    from drfh.cli.input import Subject
    from drfh.engines.fair_share import trace_of
    from drfh.traces.scenario import reduced

    live = site.look()
    snapshot = live.view.snapshot
    if not any(job.on for job in live.view.jobs.values()):
        return None
    for line in live.picture.broken:
        console(stderr=True).print(f"warning: broken: {line}", style="yellow")
    when = datetime.fromtimestamp(live.picture.time).isoformat(" ", "seconds")
    # What is released and has not started holds nothing yet.
    tasks = {name: replace(task, on=None) if name in live.view.released else task
             for name, task in snapshot.tasks.items()}  # fmt: skip
    snapshot = replace(snapshot, tasks=tasks)
    trace = trace_of(snapshot, f"{site.name}, {when}", options={"user_by": site.site.user_by})
    result = reduced(trace, split=split)
    return Subject(result.scenario, trace.source, trace, result.observed, result.notes)


def _as_data(site: OpenSite, found: Status) -> dict[str, Any]:
    return {**found.to_dict(), "cluster": site.name, "controller": site.controller.to_dict()}


def _watch(
    look: Callable[[], tuple[OpenSite, Status]],
    seconds: float,
    count: int | None,
    everyone: bool,
    as_json: bool,
) -> None:
    """Show look after look until Ctrl-C, or until there were enough.

    The first look must succeed. Later slurmctld may be away for a while: that is shown.
    """
    from drfh.engines.slurm.client import SlurmError

    looks = 0
    try:
        with _display(as_json, everyone) as show:
            while True:
                try:
                    show(look(), "")
                except SlurmError as error:
                    if not looks:
                        raise
                    show(None, str(error))
                looks += 1
                if count is not None and looks >= count:
                    return
                _pause(seconds)
    except KeyboardInterrupt:  # the way to end it, not a failure
        return


Show = Callable[["tuple[OpenSite, Status] | None", str], None]


@contextmanager
def _display(as_json: bool, everyone: bool) -> Iterator[Show]:
    """Yield what shows a look, or the words of why there was none."""
    from drfh.cli.slurm.render import StatusLines, print_status, write_status

    out = console()
    if as_json or not out.is_terminal:

        def line_by_line(seen: tuple[OpenSite, Status] | None, trouble: str) -> None:
            if as_json:
                now = {"time": time.time(), "error": trouble}
                data = now if seen is None else _as_data(*seen)
                typer.echo(json.dumps(data, ensure_ascii=False, allow_nan=False))
            elif seen is None:
                typer.echo(f"{_clock()}: {trouble}\n")
            else:
                print_status(seen[1], head=seen[0].controller.text, everyone=everyone)
                typer.echo()

        yield line_by_line
        return
    from rich.console import Console, Group
    from rich.live import Live as Screen
    from rich.text import Text

    plain = Console(markup=False, highlight=False, emoji=False)
    last: list[Any] = []
    with Screen(console=plain, screen=True, auto_refresh=False) as screen:

        def draw(seen: tuple[OpenSite, Status] | None, trouble: str) -> None:
            if seen is None:
                words = Text(f"{_clock()}: {trouble}; what was seen last:", style="bold red")
                screen.update(Group(words, *last), refresh=True)
                return
            site, found = seen
            most: int | None = _FEW_USERS
            for _ in range(2):  # the second time with as many users as there is room for
                lines = StatusLines(plain.width)
                write_status(lines, found, head=site.controller.text, most=most)
                used = len(plain.render_lines(Group(*lines.kept)))
                most = None if everyone else _FEW_USERS + max(plain.height - used, 0)
            last[:] = lines.kept
            screen.update(Group(*lines.kept), refresh=True)

        yield draw


def _pause(seconds: float) -> None:
    time.sleep(seconds)


def _clock() -> str:
    return datetime.now().strftime("%H:%M:%S")
