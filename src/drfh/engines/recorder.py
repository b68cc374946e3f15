"""Records the journal of a cluster that another scheduler runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from drfh.engines.engine import EngineError
from drfh.engines.lifecycle import Stoppable
from drfh.engines.observer import Decision, Observer
from drfh.engines.snapshot import ClusterSnapshot

__all__ = ["Recorder"]

log = logging.getLogger(__name__)

_MAX_PAUSE = 30.0


class Recorder(Stoppable):
    """Reads the state of a cluster at intervals, and changes nothing.

    Parameters
    ----------
    read
        Reads the cluster, of any engine.
    observers
        Their ``on_decision`` gets every snapshot, without placements.
    """

    def __init__(self, read: Callable[[], ClusterSnapshot], observers: Sequence[Observer]) -> None:
        super().__init__()
        self.read, self.observers = read, observers
        self.snapshots = 0
        self.jobs: set[str] = set()

    def run(self, interval: float, duration: float | None = None) -> None:
        """Record until stopped, or for so many seconds."""
        end = None if duration is None else time.monotonic() + duration
        failures = 0
        while not self.stop_requested.is_set():
            try:
                self.record()
                failures = 0
            except EngineError as error:
                failures += 1
                fields = {"failures": failures, "error": error}
                log.warning("state not read failures=%(failures)d error=%(error)s", fields)
            pause = interval if not failures else min(interval * 2.0**failures, _MAX_PAUSE)
            if end is not None:
                if time.monotonic() >= end:
                    return
                pause = min(pause, max(end - time.monotonic(), 0.01))
            self.stop_requested.wait(pause)

    def record(self) -> None:
        """Record one snapshot."""
        snapshot = self.read()
        now = time.time()
        for observer in self.observers:
            observer.on_decision(Decision(now, snapshot))
        self.snapshots += 1
        self.jobs.update(snapshot.tasks)
