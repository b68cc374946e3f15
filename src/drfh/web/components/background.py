"""Work that takes long, in a thread beside the page: what it is, and a way to stop it."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from nicegui import background_tasks, ui

from drfh.errors import DrfhError, InputError

__all__ = ["BackgroundJobs"]

T = TypeVar("T")

# Threads cannot be ended: what was stopped may go on for a while, and so many may do that.
_MOST_JOBS = 4
# What is done by then needs no word.
_PATIENCE = 0.25


class _Job:
    def __init__(self, label: str, when_dropped: Callable[[], None]) -> None:
        self.label, self.when_dropped = label, when_dropped
        self.dropped = False
        self.note: ui.element | None = None


class BackgroundJobs:
    """What a page has under way.

    Parameters
    ----------
    say
        Shows a line: words, and of what kind.
    stopped
        Called when somebody stops something.
    """

    def __init__(self, say: Callable[[str, str], None], stopped: Callable[[], None]) -> None:
        self._say, self._stopped = say, stopped
        self._running: set[_Job] = set()
        self._client = ui.context.client
        self._client.on_delete(self.drop_all)
        self._place = ui.element("div").classes("jobs").props("role=status aria-live=polite")
        self._place.props("data-testid=jobs")

    def start(
        self,
        work: Callable[[], T],
        then: Callable[[T], Any],
        label: str,
        when_dropped: Callable[[], None] = lambda: None,
    ) -> Callable[[], None]:
        """Do work in a thread and hand over what it returns; return what drops it.

        `when_dropped` is called then, and when the page is gone: work that can end early does.

        Raises
        ------
        InputError
            If too much is under way.
        """
        if len(self._running) >= _MOST_JOBS:
            rule = "must wait: what was started before, or stopped just now, still runs"
            raise InputError(label, rule)
        job = _Job(label, when_dropped)
        self._running.add(job)
        background_tasks.create(self._run(job, work, then), name=label)
        return lambda: self._drop(job)

    def drop_all(self) -> None:
        """Drop everything: nobody waits for it any more."""
        for job in list(self._running):
            self._give_up(job)

    async def _run(self, job: _Job, work: Callable[[], T], then: Callable[[T], Any]) -> None:
        result = asyncio.ensure_future(_in_thread(work, job.label))
        try:
            done, _ = await asyncio.wait([result], timeout=_PATIENCE)
            if not done and not job.dropped:
                self._show(job)
            value = await result
        except Exception as error:
            self._hide(job)
            if not job.dropped:
                self._complain(job.label, error)
            return
        finally:
            self._running.discard(job)
        self._hide(job)
        if job.dropped or self._client.is_deleted:
            return
        with self._client:
            try:
                handed = then(value)
                if inspect.isawaitable(handed):
                    await handed
            except Exception as error:
                self._complain(job.label, error)

    def _complain(self, label: str, error: Exception) -> None:
        if self._client.is_deleted:
            return
        with self._client:
            if isinstance(error, DrfhError):
                self._say(str(error), "negative")
            else:
                logging.getLogger("drfh").error("%s", label, exc_info=error)
                self._say(f"{label}: internal error: {type(error).__name__}", "negative")

    def _show(self, job: _Job) -> None:
        if self._client.is_deleted:
            return
        with self._place:
            job.note = ui.element("div").classes("job")
            with job.note:
                ui.spinner(size="1.1em").props("aria-hidden=true")
                ui.label(f"{job.label} …")
                stop = ui.button("Stop", on_click=lambda: self._stop(job))
                stop.props("flat dense no-caps size=sm data-testid=stop-job")

    def _hide(self, job: _Job) -> None:
        if job.note is not None and not self._client.is_deleted:
            job.note.delete()
        job.note = None

    def _stop(self, job: _Job) -> None:
        self._drop(job)
        with self._client:  # the button that was clicked is gone
            self._stopped()

    def _drop(self, job: _Job) -> None:
        self._give_up(job)
        self._hide(job)

    @staticmethod
    def _give_up(job: _Job) -> None:
        if not job.dropped:
            job.dropped = True
            job.when_dropped()


async def _in_thread(work: Callable[[], T], name: str) -> T:
    """Do work in a thread that does not keep the program alive."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result, failed = None, None
        try:
            result = work()
        except BaseException as error:
            failed = error
        with suppress(RuntimeError):  # the server has stopped meanwhile
            loop.call_soon_threadsafe(settle, result, failed)

    threading.Thread(target=run, name=name, daemon=True).start()
    return await future
