"""Background jobs of a page: threads with a stop button.

What `nicegui.run.io_bound` lacks for solvers that take minutes: threads that do not keep the
server alive when it ends, a bound on the jobs of one page, and a way to stop a job.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from nicegui import background_tasks, ui

from drfh.errors import DrfhError, InputError
from drfh.formatting import format_count
from drfh.report.html import tag
from drfh.web.components.controls import container, flat_button

if TYPE_CHECKING:
    from drfh.web.components.panel import Page
    from drfh.web.session.answers import Answer

__all__ = ["BackgroundJobs", "JobPanel", "PanelJob", "ReportProgress"]

log = logging.getLogger(__name__)

T = TypeVar("T")
#: Called by work now and then, with what it does and the part that is done.
ReportProgress: TypeAlias = Callable[[str, float], None]

# Threads cannot be ended from outside: stopped jobs may run on, and count until they end.
_MOST_JOBS = 4
# Seconds after which a job is shown.
_SHOWN_AFTER = 0.25


@dataclass(eq=False)
class _Job:
    label: str
    on_cancel: Callable[[], None]
    cancelled: bool = False
    row: ui.element | None = None

    def cancel(self) -> None:
        if not self.cancelled:
            self.cancelled = True
            self.on_cancel()


class BackgroundJobs:
    """The background jobs of one page.

    Parameters
    ----------
    notify
        Shows a line: its text and kind.
    on_stop
        Called when somebody stops a job.
    """

    def __init__(self, notify: Callable[[str, str], None], on_stop: Callable[[], None]) -> None:
        self._notify, self._on_stop = notify, on_stop
        self._running: set[_Job] = set()
        self._client = ui.context.client
        self._client.on_delete(self.cancel_all)
        self._list = container("jobs").props("role=status aria-live=polite")
        self._list.props("data-testid=jobs")

    def start(
        self,
        work: Callable[[], T],
        then: Callable[[T], Any],
        label: str,
        on_cancel: Callable[[], None] = lambda: None,
    ) -> Callable[[], None]:
        """Run work in a thread, then `then`; return what cancels it.

        `on_cancel` is called when it is cancelled or the page is closed: work may end early.

        Raises
        ------
        InputError
            If too many jobs run.
        """
        if len(self._running) >= _MOST_JOBS:
            rule = "must wait: what was started before, or stopped just now, still runs"
            raise InputError(label, rule)
        job = _Job(label, on_cancel)
        self._running.add(job)
        background_tasks.create(self._run(job, work, then), name=label)
        return lambda: self._cancel(job)

    def cancel_all(self) -> None:
        """Cancel all jobs: the page is closed."""
        for job in list(self._running):
            job.cancel()

    async def _run(self, job: _Job, work: Callable[[], T], then: Callable[[T], Any]) -> None:
        result = asyncio.ensure_future(_in_thread(work, job.label))
        try:
            done, _ = await asyncio.wait([result], timeout=_SHOWN_AFTER)
            if not done and not job.cancelled:
                self._show(job)
            value = await result
        except Exception as error:
            self._hide(job)
            if not job.cancelled:
                self._failed(job.label, error)
            return
        finally:
            self._running.discard(job)
        self._hide(job)
        if job.cancelled or self._client.is_deleted:
            return
        with self._client:
            try:
                handled = then(value)
                if inspect.isawaitable(handled):
                    await handled
            except Exception as error:
                self._failed(job.label, error)

    def _failed(self, label: str, error: Exception) -> None:
        if self._client.is_deleted:
            return
        with self._client:
            if isinstance(error, DrfhError):
                self._notify(str(error), "negative")
            else:
                log.error("job failed label=%(label)s", {"label": label}, exc_info=error)
                self._notify(f"{label}: internal error: {type(error).__name__}", "negative")

    def _show(self, job: _Job) -> None:
        if self._client.is_deleted:
            return
        with self._list, container("job") as job.row:
            ui.spinner(size="1.1em").props("aria-hidden=true")
            ui.label(f"{job.label} …")
            flat_button("Stop", "stop-job", lambda: self._stop(job)).props("size=sm")

    def _hide(self, job: _Job) -> None:
        if job.row is not None and not self._client.is_deleted:
            job.row.delete()
        job.row = None

    def _cancel(self, job: _Job) -> None:
        job.cancel()
        self._hide(job)

    def _stop(self, job: _Job) -> None:
        self._cancel(job)
        with self._client:  # the button that was clicked is gone
            self._on_stop()


async def _in_thread(work: Callable[[], T], name: str) -> T:
    """Run work in a daemon thread."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(set_: Callable[[Any], None], value: Any) -> None:
        if not future.done():
            set_(value)

    def run() -> None:
        outcome: tuple[Callable[[Any], None], Any]
        try:
            outcome = future.set_result, work()
        except BaseException as error:
            outcome = future.set_exception, error
        with suppress(RuntimeError):  # the server has stopped meanwhile
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await future


# Seconds between two updates of a progress line.
_UPDATE_SECONDS = 0.2
# What has ended and was not handed over by then was stopped from the page's list of jobs.
_HANDOVER_SECONDS = 2.0


class _StoppedError(Exception):
    """Raised inside work that was stopped."""


class PanelJob:
    """The background job of a panel, with a progress line.

    New work replaces old: that ends the next time it reports progress, and only then does the next
    begin.

    Parameters
    ----------
    page
        Where the work is done.
    name
        Of the panel, for tests.
    on_stop
        Called when somebody stops the work.
    on_update
        Called now and then while work runs: to show what is there already.
    """

    def __init__(
        self,
        page: Page,
        name: str,
        on_stop: Callable[[], None],
        on_update: Callable[[], None] = lambda: None,
    ) -> None:
        self._page, self._on_stop, self._on_update = page, on_stop, on_update
        self._cancel: Callable[[], None] = lambda: None
        self._next: Callable[[], None] | None = None
        self._turn = 0  # of the work that counts
        self._threads = 0
        self._ended = 0.0
        self._progress: tuple[str, float] = ("", 0.0)
        with container("progress") as self._row:
            self._text = ui.label("").classes("soft")
            self._text.props(f"aria-live=polite data-testid={name}-progress")
            self._bar = ui.linear_progress(0, show_value=False).props("instant-feedback")
            self._bar.props('aria-label="part that is done"')
            flat_button("Stop", f"{name}-stop", self._stop_clicked)
        self._row.set_visibility(False)
        self._timer = ui.timer(_UPDATE_SECONDS, self._update, active=False)

    def start(
        self, work: Callable[[ReportProgress], T], then: Callable[[T | None, str], Any], label: str
    ) -> None:
        """Run work; call `then` with its result, or None and the error."""
        self.stop()
        turn = self._turn
        self._progress = (label, 0.0)

        def report(text: str, part: float) -> None:
            if self._turn != turn:
                raise _StoppedError
            self._progress = (text, part)

        def guarded() -> tuple[T | None, str]:
            try:
                return work(report), ""
            except _StoppedError:
                return None, ""
            except DrfhError as error:
                return None, str(error)
            except Exception as error:  # a page has no traceback to show
                return None, f"{type(error).__name__}: {' '.join(str(error).split())}"
            finally:
                self._threads, self._ended = self._threads - 1, time.monotonic()

        def done(result: tuple[T | None, str]) -> None:
            if self._turn == turn:
                self._finish()
                then(*result)

        def on_cancel() -> None:
            if self._turn == turn:
                self._turn += 1  # the work ends the next time that it reports progress

        def begin() -> None:
            self._threads += 1
            try:
                self._cancel = self._page.background(guarded, done, label, on_cancel)
            except InputError:  # too many jobs run on the page: later
                self._threads -= 1
                return
            self._next = None

        self._next = begin
        self._row.set_visibility(True)
        self._timer.activate()
        self._update()

    def stop(self) -> None:
        """Stop the work, if there is any; its result is dropped."""
        self._turn += 1
        self._cancel()
        self._finish()

    def _stop_clicked(self) -> None:
        self.stop()
        self._on_stop()

    def _finish(self) -> None:
        self._cancel, self._next = lambda: None, None
        self._row.set_visibility(False)
        self._timer.deactivate()

    def _update(self) -> None:
        text, part = self._progress
        self._text.set_text(text)
        self._bar.set_value(part)
        if self._threads == 0:
            if self._next is not None:
                self._next()
            elif time.monotonic() - self._ended > _HANDOVER_SECONDS:
                self._stop_clicked()
                return
        self._on_update()


class JobPanel(ABC):
    """Base of panels that a background job fills, at once where that is quick."""

    #: Users times server groups, up to which the work starts by itself.
    small: int
    #: What is said of the work where it waits for a click.
    cost: str

    _start: ui.button
    _message: ui.html
    _job: PanelJob

    def __init__(self) -> None:
        self._answer: Answer | None = None

    def show(self, answer: Answer) -> None:
        """Work on an answer; a large one waits for a click."""
        if self._answer is answer:
            return
        self._answer = answer
        self._outdate(answer)
        if len(answer.scenario.users) * len(answer.scenario.cluster) <= self.small:
            self._work()
        else:
            self._job.stop()
            self._offer()

    @abstractmethod
    def _outdate(self, answer: Answer) -> None:
        """Mark what is shown as outdated by a new answer."""

    @abstractmethod
    def _work(self) -> None:
        """Start the job for the answer."""

    def _offer(self) -> None:
        self._start.set_visibility(True)
        if self._answer is not None:
            users = format_count(len(self._answer.scenario.users), "user")
            groups = format_count(len(self._answer.scenario.cluster), "server group")
            self._message.set_content(tag("p", f"{users}, {groups}: {self.cost}", "note"))

    def _fail(self, error: str) -> None:
        self._offer()
        self._message.set_content(tag("p", f"✘ {error}", "mark fails"))
