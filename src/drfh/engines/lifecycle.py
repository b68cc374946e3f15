"""Start and stop of long-running parts: stop signals, background workers."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

__all__ = ["LatestWorker", "Stoppable"]

log = logging.getLogger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_POLL_SECONDS = 0.25
_STOP_SECONDS = 5.0

_Item = TypeVar("_Item")


class Stoppable:
    """A loop that ends after its current cycle when it is asked to.

    Examples
    --------
    >>> loop = Stoppable()
    >>> loop.stop()
    >>> loop.stop_requested.is_set()
    True
    """

    def __init__(self) -> None:
        self.stop_requested = threading.Event()

    def stop(self, *_: Any) -> None:
        """Stop after the current cycle; usable as a signal handler."""
        self.stop_requested.set()

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Let SIGTERM and SIGINT call :meth:`stop` inside the block."""
        before = {number: signal.signal(number, self.stop) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class LatestWorker(Generic[_Item]):
    """Processes the newest submitted item in a thread of its own; older ones are dropped.

    :meth:`submit` never waits, however slow the work is. Exceptions of the work are logged.

    Parameters
    ----------
    work
        Called with an item, always in the same thread.
    name
        Of the thread.
    due
        Whether an item may be processed now; asked again every 0.25 s.

    Examples
    --------
    >>> done = []
    >>> with LatestWorker(done.append, "example") as worker:
    ...     worker.submit(7)
    ...     while not done:
    ...         pass
    >>> done
    [7]
    """

    def __init__(
        self,
        work: Callable[[_Item], None],
        name: str,
        *,
        due: Callable[[], bool] = lambda: True,
    ) -> None:
        self._work, self._due = work, due
        self._changed = threading.Condition()
        self._latest: list[_Item] = []  # empty or one
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def alive(self) -> bool:
        """Whether its thread runs."""
        return self._thread.is_alive()

    def submit(self, item: _Item) -> None:
        """Replace the item that is processed next."""
        with self._changed:
            self._latest = [item]
            self._changed.notify()

    def step(self) -> bool:
        """Process the newest item in this thread; return whether there was one that was due."""
        with self._changed:
            if not self._latest or not self._due():
                return False
            item = self._latest.pop()
        try:
            self._work(item)
        except Exception as error:
            log.warning(
                "background work failed worker=%(worker)s error=%(error)s",
                {"worker": self._thread.name, "error": repr(error)},
            )
        return True

    def _run(self) -> None:
        while not self._stopped:
            if self.step():
                continue
            with self._changed:
                if self._latest:  # not yet due
                    self._changed.wait_for(lambda: self._stopped, _POLL_SECONDS)
                else:
                    self._changed.wait_for(lambda: self._stopped or bool(self._latest))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join(_STOP_SECONDS)
