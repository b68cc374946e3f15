"""The publisher of a controller's cycles to a live view."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import TYPE_CHECKING, Self

from drfh.engines.lifecycle import LatestWorker
from drfh.engines.observer import Cycle, CycleFailure, Observer
from drfh.web.live.events import cycle_events

if TYPE_CHECKING:
    from drfh.engines.cache import SchedulerCache
    from drfh.web.live.store import LiveStore

__all__ = ["Publisher"]

log = logging.getLogger(__name__)


class Publisher(Observer):
    """Updates a live view from the cycles of a controller; runs within a ``with`` block.

    The controller hands over what it observed and decided, and goes on. All that costs time (fair
    shares, explanations) is done in a thread of its own, at the pace of the view and with a
    scheduler of its own; of several cycles that passed meanwhile the newest counts.
    """

    def __init__(self, store: LiveStore) -> None:
        self.store = store
        self.worker = LatestWorker(self._publish, "drfh-publisher", due=store.due)
        self._failures = 0  # cycles of the controller, in a row
        self._failed = False
        self._cache: SchedulerCache | None = None  # of the worker's thread

    def on_cycle(self, cycle: Cycle) -> None:
        """Take over a finished cycle."""
        if self._failures:
            self.store.note(f"goes on after {self._failures} rounds that failed")
            self._failures = 0
        self.store.add_events(cycle_events(cycle), len(cycle.placed))
        self.worker.submit(cycle)

    def on_failure(self, failure: CycleFailure) -> None:
        """Show why there is no newer cycle."""
        self._failures = failure.count
        self.store.trouble(failure.text)

    def _publish(self, cycle: Cycle) -> None:
        cache, self._cache = self._cache, None
        try:
            cluster = cycle.outcome(cache)
            self.store.observe(cluster, starts=False)
        except Exception as error:
            text = f"the live view could not follow ({type(error).__name__}: {error})"
            self.store.trouble(text)
            if not self._failed:  # once, as long as it is so
                log.warning("live view not updated error=%(error)r", {"error": error})
            self._failed = True
        else:
            self._cache, self._failed = cluster.cache, False

    def __enter__(self) -> Self:
        self.worker.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.worker.__exit__(kind, error, trace)
