"""Long work behind a panel: a line that says how far it is, and a button that stops it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from drfh.errors import DrfhError, InputError

if TYPE_CHECKING:
    from drfh.web.components.panel import Page

__all__ = ["Tell", "Working"]

T = TypeVar("T")
#: Called by work now and then, with what it does and the part that is done.
Tell = Callable[[str, float], None]

_LOOK = 0.2  # seconds
# What has ended and was not handed over by then was stopped by somebody else: by the page.
_PATIENCE = 2.0


class _StoppedError(Exception):
    """Raised inside work that nobody waits for any more."""


class Working:
    """At most one piece of work at a time; new work takes the place of old.

    A thread cannot be ended from outside: what is stopped ends the next time that it tells how
    far it is, and only then does the next piece begin.

    Parameters
    ----------
    page
        Where the work is done.
    name
        Of the panel, for tests.
    stopped
        Called when somebody stops the work.
    midway
        Called now and then while there is work: to show what is there already.
    """

    def __init__(
        self,
        page: Page,
        name: str,
        stopped: Callable[[], None],
        midway: Callable[[], None] = lambda: None,
    ) -> None:
        from nicegui import ui

        self._page, self._when_stopped, self._midway = page, stopped, midway
        self._cancel: Callable[[], None] = lambda: None
        self._next: Callable[[], None] | None = None
        self._turn = 0  # which piece of work is the one that counts
        self._threads = 0
        self._ended = 0.0
        self._said: tuple[str, float] = ("", 0.0)
        with ui.element("div").classes("progress") as self._row:
            self._words = ui.label("").classes("soft")
            self._words.props(f"aria-live=polite data-testid={name}-progress")
            self._bar = ui.linear_progress(0, show_value=False).props("instant-feedback")
            self._bar.props('aria-label="part that is done"')
            stop = ui.button("Stop", on_click=self._stop_by_hand)
            stop.props(f"flat dense no-caps data-testid={name}-stop")
        self._row.set_visibility(False)
        self._timer = ui.timer(_LOOK, self._look, active=False)

    def start(
        self, work: Callable[[Tell], T], then: Callable[[T | None, str], Any], label: str
    ) -> None:
        """Do work; then call with what it returns, or with None and why it failed."""
        self.stop()
        turn = self._turn
        self._said = (label, 0.0)

        def tell(words: str, part: float) -> None:
            if self._turn != turn:
                raise _StoppedError
            self._said = (words, part)

        def guarded() -> tuple[T | None, str]:
            try:
                return work(tell), ""
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

        def give_up() -> None:
            if self._turn == turn:
                self._turn += 1  # the work ends the next time that it tells how far it is

        def begin() -> None:
            self._threads += 1
            try:
                self._cancel = self._page.background(guarded, done, label, give_up)
            except InputError:  # too much is under way on the page: later
                self._threads -= 1
                return
            self._next = None

        self._next = begin
        self._row.set_visibility(True)
        self._timer.activate()
        self._look()

    def stop(self) -> None:
        """Stop the work, if there is any: its result is dropped."""
        self._turn += 1
        self._cancel()
        self._finish()

    def _stop_by_hand(self) -> None:
        self.stop()
        self._when_stopped()

    def _finish(self) -> None:
        self._cancel, self._next = lambda: None, None
        self._row.set_visibility(False)
        self._timer.deactivate()

    def _look(self) -> None:
        words, part = self._said
        self._words.set_text(words)
        self._bar.set_value(part)
        if self._threads == 0:
            if self._next is not None:
                self._next()
            elif time.monotonic() - self._ended > _PATIENCE:
                self._stop_by_hand()
                return
        self._midway()
