"""The publisher of a controller's cycles to a live view, in a thread of its own.

The controller hands over what it observed and decided, which nobody changes any more, and goes on.
All that costs time (fair shares, explanations) is done here, at this thread's own pace and with a
scheduler of its own; of several cycles that passed meanwhile the newest counts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from drfh.engines.cache import SchedulerCache
from drfh.web.live.events import cycle_events

if TYPE_CHECKING:
    from drfh.engines.engine import CycleReport, LiveCluster
    from drfh.web.live.store import LiveStore

__all__ = ["Publisher"]

_POLL = 0.25  # seconds: somebody may begin to watch
_LONGEST_STOP = 5.0


class Publisher:
    """Updates a live view from the cycles of a controller; runs within a ``with`` block.

    Parameters
    ----------
    log
        Called once with a line if it cannot follow.
    """

    def __init__(self, store: LiveStore, log: Callable[[str], None] | None = None) -> None:
        self.store, self._log = store, log or (lambda line: None)
        self._changed = threading.Condition()
        self._newest: tuple[LiveCluster, Mapping[str, str]] | None = None  # with what was placed
        self._stopping = self._failed = False
        self._failures = 0  # cycles of the controller, in a row
        self._cache: SchedulerCache | None = None
        self._thread = threading.Thread(target=self._run, name="drfh-publisher", daemon=True)

    def on_cycle(self, cluster: LiveCluster, cycle: CycleReport) -> None:
        """Take over a finished cycle; called by the controller, and over in no time."""
        self._failures = 0
        self.store.add_events(cycle_events(cycle), len(cycle.placed))
        with self._changed:
            self._newest = cluster, dict(cluster.cache.placed)
            self._changed.notify()

    def on_failure(self, text: str, failures: int) -> None:
        """Show what the controller logs after so many failed cycles in a row.

        That it goes on after them is no trouble.
        """
        if failures > self._failures:
            self.store.trouble(text)
        else:
            self.store.note(text)
        self._failures = failures

    def step(self) -> bool:
        """Publish the newest cycle, if there is one and it is time; return whether it did."""
        with self._changed:
            if self._newest is None or not self.store.due():
                return False
            (cluster, placed), self._newest = self._newest, None
        try:
            policy = cluster.cache.policy
            if self._cache is None or self._cache.policy != policy:
                self._cache = SchedulerCache(policy)
            self.store.observe(cluster.after(placed, self._cache), starts=False)
            self._failed = False
        except Exception as error:  # a page that does not follow is better than none
            self._cache = None
            text = f"the live view could not follow ({type(error).__name__}: {error})"
            self.store.trouble(text)
            if not self._failed:
                self._log(text)
            self._failed = True
        return True

    # The thread

    def _run(self) -> None:
        while not self._stopping:
            if self.step():
                continue
            with self._changed:
                if self._newest is None:
                    self._changed.wait_for(lambda: self._stopping or self._newest is not None)
                else:  # it waits for its time
                    self._changed.wait_for(lambda: self._stopping, _POLL)

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
            self._stopping = True
            self._changed.notify()
        self._thread.join(_LONGEST_STOP)
