"""Status, explanations and audits of live clusters, for the verbs of every engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from drfh.cli.render.console import console, print_json
from drfh.errors import InputError
from drfh.formatting import escaped, format_time

if TYPE_CHECKING:
    from drfh.cli.cluster.web import WebAddress
    from drfh.cli.input import Input
    from drfh.engines.engine import Engine
    from drfh.engines.status import Status

__all__ = ["audit_cluster", "print_job_explanation", "show_status"]

_SECONDS = 2.0
_FEW_USERS = 4


def show_status(
    connect: Callable[[], Engine],
    *,
    seconds: float | None = None,
    watch: bool = False,
    count: int | None = None,
    everyone: bool = False,
    web: WebAddress | None = None,
    as_json: bool = False,
) -> None:
    """Print the status of a cluster, once or again and again, or serve it to a browser.

    Parameters
    ----------
    connect
        Opens the cluster; again each time, as a controller may start or start again.
    seconds
        Between two observations, with `watch` or `web`; by default 2.
    count
        With `watch`: stop after so many observations.
    everyone
        All users, however many.
    """
    if not watch:
        both = [] if web is not None else [("SECONDS", seconds)]
        for name, given in (*both, ("--count", count)):
            if given is not None:
                raise InputError(name, "must be used together with --watch", given)
    if seconds is not None and not 0 <= seconds < 1e6:
        raise InputError("SECONDS", "must be a number ≥ 0", seconds)
    if web is not None:
        if watch or as_json:
            given_too = "--watch" if watch else "--json"
            raise InputError(given_too, "must not be used together with --web")
        from drfh.cli.cluster.web import watch_in_browser

        pause = _SECONDS if seconds is None else max(seconds, 0.1)
        printer = console(stderr=True)
        watch_in_browser(connect, pause, web, lambda text, **facts: printer.print(text))
        return

    def observe() -> tuple[Engine, Status]:
        from drfh.engines.status import status_of

        engine = connect()
        return engine, status_of(engine.observe())

    if watch:
        _watch(observe, _SECONDS if seconds is None else seconds, count, everyone, as_json)
        return
    engine, status = observe()
    if as_json:
        print_json(_as_data(engine, status))
        return
    from drfh.cli.cluster.render import print_status

    print_status(status, controller=engine.controller, everyone=everyone)


def print_job_explanation(engine: Engine, job: str, *, as_json: bool = False) -> None:
    """Print why a job of a cluster waits, or where it runs."""
    explanation = engine.observe().explain(job)
    if as_json:
        print_json(explanation.to_dict())
        return
    from drfh.cli.cluster.render import print_explanation

    print_explanation(explanation)


def audit_cluster(
    connect: Callable[[], Engine],
    *,
    only: str | None = None,
    require: str | None = None,
    split: bool | None = None,
    show: str | None = None,
    save: Path | None = None,
    html: Path | None = None,
    as_json: bool = False,
) -> None:
    """Audit what runs on a cluster now.

    Parameters
    ----------
    connect
        Opens the cluster.
    only, require, split, show, save, html
        As the options of ``drfh audit``.
    """
    from drfh.cli.audit import audit_subject, read_request

    asked = read_request(only, require, show, save, html)
    asked.check_for_observed()
    subject = _subject(connect(), split)
    if subject is None or subject.observed is None:
        if as_json:
            print_json({"subject": "observed allocation", "tasks": {}, "findings": []})
        else:
            console().print("nothing runs, so there is nothing to audit")
        return
    subject.print_account()
    audit_subject(subject, asked, observed=subject.observed, as_json=as_json)


def _subject(engine: Engine, split: bool | None) -> Input | None:
    """Return what runs and waits now as what an audit is about; None if nothing runs."""
    from drfh.cli.input import Input
    from drfh.engines.fair_share import trace_of

    cluster = engine.observe()
    # What is released and has not started holds nothing yet.
    tasks = {
        name: replace(task, on=None) if name in cluster.starting else task
        for name, task in cluster.snapshot.tasks.items()
    }
    if all(task.on is None for task in tasks.values()):
        return None
    for line in cluster.broken:
        console(stderr=True).print(f"warning: broken: {line}", style="yellow")
    when = format_time(cluster.time, date=True)
    trace = trace_of(
        replace(cluster.snapshot, tasks=tasks),
        f"{engine.name}, {when}",
        engine=cluster.engine,
        options={"user_by": engine.user_by},
    )
    return Input(trace.source, trace=trace, split=split)


def _as_data(engine: Engine, status: Status) -> dict[str, Any]:
    return {**status.to_dict(), "cluster": engine.name, "controller": engine.controller.to_dict()}


def _watch(
    observe: Callable[[], tuple[Engine, Status]],
    seconds: float,
    count: int | None,
    everyone: bool,
    as_json: bool,
) -> None:
    """Show the status until Ctrl-C, or until it was shown often enough.

    The first observation must succeed. Later the engine may be away for a while: that is shown.
    """
    from drfh.engines.engine import EngineError

    observations = 0
    try:
        with _display(as_json, everyone) as show:
            while True:
                try:
                    show(observe(), "")
                except EngineError as error:
                    if not observations:
                        raise
                    show(None, str(error))
                observations += 1
                if count is not None and observations >= count:
                    return
                _pause(seconds)
    except KeyboardInterrupt:  # the way to end it, not a failure
        return


Show = Callable[["tuple[Engine, Status] | None", str], None]


@contextmanager
def _display(as_json: bool, everyone: bool) -> Iterator[Show]:
    """Yield what shows a status, or why there is none."""
    from drfh.cli.cluster.render import StatusLines, print_status, write_status

    out = console()
    if as_json or not out.is_terminal:

        def line_by_line(observed: tuple[Engine, Status] | None, trouble: str) -> None:
            if as_json:
                now = {"time": time.time(), "error": trouble}
                data = now if observed is None else _as_data(*observed)
                print_json(data, in_a_line=True)
            elif observed is None:
                typer.echo(f"{format_time(time.time())}: {escaped(trouble)}\n")
            else:
                engine, status = observed
                print_status(status, controller=engine.controller, everyone=everyone)
                typer.echo()

        yield line_by_line
        return
    from rich.console import Group
    from rich.live import Live as Screen
    from rich.text import Text

    plain = console(soft_wrap=False)
    last: list[Any] = []
    with Screen(console=plain, screen=True, auto_refresh=False) as screen:

        def draw(observed: tuple[Engine, Status] | None, trouble: str) -> None:
            if observed is None:
                text = Text(
                    f"{format_time(time.time())}: {escaped(trouble)}; what was seen last:",
                    style="bold red",
                )
                screen.update(Group(text, *last), refresh=True)
                return
            engine, status = observed
            most: int | None = _FEW_USERS
            for _ in range(2):  # the second time with as many users as the screen can show
                lines = StatusLines(plain.width)
                write_status(lines, status, controller=engine.controller, most=most)
                used = len(plain.render_lines(Group(*lines.kept)))
                most = None if everyone else _FEW_USERS + max(plain.height - used, 0)
            last[:] = lines.kept
            screen.update(Group(*lines.kept), refresh=True)

        yield draw


def _pause(seconds: float) -> None:
    time.sleep(seconds)
