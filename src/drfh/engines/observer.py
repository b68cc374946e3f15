"""The observer protocol of controllers, and the records that observers receive."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from drfh.engines.cache import SchedulerCache
from drfh.engines.engine import LiveCluster
from drfh.engines.snapshot import BlockedReason, ClusterSnapshot
from drfh.errors import DrfhError
from drfh.scheduler import Placed

__all__ = ["Cycle", "CycleFailure", "CycleWriter", "Decision", "Observer", "notify"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Decision:
    """What was observed in a cycle, and what the scheduler decided on it.

    Parameters
    ----------
    time
        When the cluster was read, seconds since 1970.
    snapshot
        The cluster that the scheduler was given.
    placed
        Placements in order; None if the scheduler was not asked.
    limit
        Most placements that were allowed; None if there was no limit.
    """

    time: float
    snapshot: ClusterSnapshot
    placed: Sequence[Placed] | None = None
    limit: int | None = None


@dataclass(slots=True)
class Cycle:
    """One cycle of a controller.

    Parameters
    ----------
    cluster
        The cluster as it was read; its cache is the controller's, not for other threads.
    pending
        Tasks that the scheduler has placed and that `cluster` does not show: task → node.
    placed
        What the scheduler decided, in order.
    released
        Tasks that the engine may start from now on.
    recalled
        Tasks that were taken back from the engine before they started, and why.
    failed
        What the engine refused: task → its message; an empty key for what names no task.
    decision_seconds, seconds
        Time of the scheduler, and of the whole cycle.
    fresh
        The scheduler was built from scratch.
    busy
        A change was requested from the engine, so that the next state will differ.
    """

    cluster: LiveCluster
    pending: Mapping[str, str] = field(default_factory=dict)
    placed: Sequence[Placed] = ()
    released: list[str] = field(default_factory=list)
    recalled: dict[str, BlockedReason] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    decision_seconds: float = 0.0
    seconds: float = 0.0
    fresh: bool = False
    busy: bool = False

    def outcome(self, cache: SchedulerCache | None = None) -> LiveCluster:
        """Return the cluster with the pending tasks on their nodes.

        Parameters
        ----------
        cache
            Follows it: one of the caller's thread, from an earlier outcome; None: a new one.
        """
        policy = self.cluster.cache.policy
        if cache is None or cache.policy != policy:
            cache = SchedulerCache(policy)
        return self.cluster.after(self.pending, cache)

    def to_dict(self) -> dict[str, Any]:
        """Return what was done as plain data, ready for JSON."""
        return {
            "time": self.cluster.time,
            "placed": [[one.task, one.user, one.server] for one in self.placed],
            "released": self.released,
            "taken_back": {name: str(reason) for name, reason in self.recalled.items()},
            "failed": self.failed,
            "decision_seconds": self.decision_seconds,
            "seconds": self.seconds,
        }


@dataclass(frozen=True, slots=True)
class CycleFailure:
    """A cycle that was aborted.

    Parameters
    ----------
    error
        Why.
    count
        Failures in a row, this one included.
    internal
        The error is not one of the engine's commands.

    Examples
    --------
    >>> CycleFailure(ZeroDivisionError("division by zero"), 1, internal=True).text
    'this round was given up (ZeroDivisionError: division by zero)'
    """

    error: Exception
    count: int
    internal: bool = False

    @property
    def kind(self) -> str:
        """The class of the error."""
        return type(self.error).__name__

    @property
    def text(self) -> str:
        """The failure in a line, for people."""
        if not self.internal:
            return str(self.error)
        kind = "" if isinstance(self.error, DrfhError) else f"{self.kind}: "
        return f"this round was given up ({kind}{self.error})"


class Observer:
    """Base class of what follows a controller; its methods do nothing.

    Except for :meth:`on_decision`, exceptions are logged and do not reach the controller.
    """

    def on_decision(self, decision: Decision) -> None:
        """Take a decision before it is carried out; an exception aborts the cycle."""

    def on_command(self, command: str, seconds: float, succeeded: bool) -> None:
        """Take a finished command of the engine; called from any thread."""

    def on_cycle(self, cycle: Cycle) -> None:
        """Take a finished cycle."""

    def on_failure(self, failure: CycleFailure) -> None:
        """Take an aborted cycle."""


class CycleWriter(Observer):
    """Passes every busy cycle to a function, as plain data.

    Parameters
    ----------
    write
        Takes what :meth:`Cycle.to_dict` returns.
    """

    def __init__(self, write: Callable[[dict[str, Any]], None]) -> None:
        self._write = write

    def on_cycle(self, cycle: Cycle) -> None:
        """Pass a cycle on."""
        if cycle.busy:
            self._write(cycle.to_dict())


def notify(observers: Iterable[Observer], call: Callable[[Observer], None]) -> None:
    """Call every observer; log what they raise.

    Examples
    --------
    >>> notify([Observer()], lambda observer: observer.on_command("squeue", 0.1, True))
    """
    for observer in observers:
        try:
            call(observer)
        except Exception as error:
            log.warning(
                "observer failed observer=%(observer)s error=%(error)s",
                {"observer": type(observer).__name__, "error": repr(error)},
            )
