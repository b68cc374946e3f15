"""The control loop of any engine: cycles until it is stopped, whatever fails."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from drfh.engines.engine import EngineError
from drfh.engines.lifecycle import Stoppable
from drfh.engines.observer import Cycle, CycleFailure, Observer, notify

__all__ = ["Controller", "Service"]

log = logging.getLogger(__name__)

_MIN_PAUSE = 0.05
_MAX_PAUSE = 30.0


class Controller(Protocol):
    """Schedules a live cluster, one cycle at a time."""

    @property
    def observers(self) -> Sequence[Observer]:
        """Who follows it."""

    def cycle(self) -> Cycle:
        """Run one cycle; raise :class:`EngineError` if the cluster cannot be read."""

    def forget(self) -> None:
        """Drop everything that was remembered, as after a restart."""

    def set_weights(self, weights: Mapping[str, float]) -> None:
        """Share by other weights from the next cycle on."""


class Service(Stoppable):
    """Runs cycles of a controller until it is stopped, whatever fails.

    Parameters
    ----------
    controller
        Its observers get each cycle, or its failure.
    interval
        Seconds between two cycles while nothing happens.
    check
        Called before each cycle; it raises if the controller must not go on.
    """

    def __init__(
        self,
        controller: Controller,
        *,
        interval: float = 1.0,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__()
        self.controller, self.interval, self.check = controller, interval, check
        self.cycles = 0
        self.failures = 0  # in a row
        self._idle_pause = interval
        self._broken: frozenset[str] = frozenset()  # logged, as long as it is so

    def run(self, cycles: int | None = None) -> None:
        """Run until stopped, or for so many cycles."""
        while not self.stop_requested.is_set() and (cycles is None or self.cycles < cycles):
            self.check()
            cycle = self._run_cycle()
            self.cycles += 1
            if cycles is None or self.cycles < cycles:
                self.stop_requested.wait(self._pause(cycle))

    def _run_cycle(self) -> Cycle | None:
        try:
            cycle = self.controller.cycle()
        except EngineError as error:
            self._failed(error)
            return None
        except Exception as error:
            # Whatever it is, the cluster must go on: all that is known can be read from it.
            self._failed(error, internal=True)
            self.controller.forget()
            return None
        self._log(cycle)
        self.failures = 0
        notify(self.controller.observers, lambda observer: observer.on_cycle(cycle))
        return cycle

    def _failed(self, error: Exception, *, internal: bool = False) -> None:
        self.failures += 1
        failure = CycleFailure(error, self.failures, internal)
        log.warning(
            "cycle aborted failures=%(failures)d kind=%(kind)s error=%(error)s",
            {"failures": failure.count, "kind": failure.kind, "error": error},
            exc_info=error if internal and log.isEnabledFor(logging.DEBUG) else None,
        )
        notify(self.controller.observers, lambda observer: observer.on_failure(failure))

    def _log(self, cycle: Cycle) -> None:
        if self.failures:
            log.info("cycles resumed failures=%(failures)d", {"failures": self.failures})
        for name, message in cycle.failed.items():
            fields = {"job": name or "unknown", "error": message}
            log.warning("change refused job=%(job)s error=%(error)s", fields)
        broken = cycle.cluster.broken
        for line in broken:
            if line not in self._broken:
                log.warning("entry skipped error=%(error)s", {"error": line})
        self._broken = frozenset(broken)
        for name, reason in cycle.recalled.items():
            recall = {"job": name, "code": reason.code.value, "reason": reason}
            log.info("job recalled job=%(job)s code=%(code)s reason=%(reason)s", recall)
        if cycle.placed:
            users = Counter(one.user for one in cycle.placed)
            tasks = cycle.cluster.snapshot.tasks.values()
            waiting = sum(task.on is None and task.blocked is None for task in tasks)
            log.info(
                "jobs placed count=%(count)d waiting=%(waiting)d users=%(users)s",
                {
                    "count": len(cycle.placed),
                    "waiting": waiting - len(cycle.placed),
                    "users": ",".join(f"{user}:{count}" for user, count in sorted(users.items())),
                },
            )
        log.debug(
            "cycle finished seconds=%(seconds).3f decision_seconds=%(decision).3f",
            {"seconds": cycle.seconds, "decision": cycle.decision_seconds},
        )

    def _pause(self, cycle: Cycle | None) -> float:
        if cycle is None:
            return float(min(self.interval * 2.0 ** min(self.failures - 1, 10), _MAX_PAUSE))
        # Where something has just happened more will soon; where not, cycles become rarer.
        self._idle_pause = _MIN_PAUSE if cycle.busy else min(self._idle_pause * 2, self.interval)
        return min(self._idle_pause, self.interval)
