"""The fair share of each user of a live cluster, and the cluster as a trace to audit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from drfh.allocation.problem import Problem
from drfh.engines.snapshot import ClusterSnapshot, NodeSnapshot, TaskSnapshot
from drfh.files.reader import Ledger
from drfh.mechanisms.drfh import drfh
from drfh.model.resources import FrozenMap
from drfh.traces import Trace
from drfh.traces.base import EmptyTraceError
from drfh.traces.scenario import reduced, uneven_users
from drfh.traces.snapshot import NO_GANGS, NO_RUN_TIMES, NodeRecord, TaskRecord
from drfh.traces.snapshot import snapshot as read_snapshot

__all__ = ["FairShare", "fair_share_of", "is_active", "trace_of"]

_REMARKS = (f"an instant {NO_RUN_TIMES}", NO_GANGS)


def is_active(snapshot: ClusterSnapshot) -> bool:
    """Return whether a server works, and a task runs or may be placed.

    Examples
    --------
    >>> node = NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0})
    >>> is_active(ClusterSnapshot({"n0": node}, {}))
    False
    """
    return snapshot.has_capacity and any(not task.blocked for task in snapshot.tasks.values())


@dataclass(frozen=True, slots=True)
class FairShare:
    """The exact divisible DRFH allocation at one moment.

    Attributes
    ----------
    shares : mapping of float
        Global dominant share of each active user.
    uneven : tuple of str
        Users whose tasks differ in more than size: their share is that of their mean task, which
        may fit fewer servers than most of their tasks do.
    """

    shares: Mapping[str, float]
    uneven: tuple[str, ...] = ()


def fair_share_of(snapshot: ClusterSnapshot) -> FairShare:
    """Return what each active user would have in the exact DRFH allocation of a snapshot.

    A user counts with the mean of its tasks that run or may be placed, and with their number. If
    they have different restrictions, it may use what one of them may use.

    Examples
    --------
    >>> node = NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0})
    >>> from drfh.engines.snapshot import BlockedCode, BlockedReason
    >>> held = BlockedReason(BlockedCode.HELD_BY_OWNER, "held by its owner")
    >>> tasks = {"7": TaskSnapshot("ann", {"cpu": 1.0}, (7, 0), on="n0"),
    ...          "8": TaskSnapshot("bob", {"cpu": 4.0}, (8, 0)),
    ...          "9": TaskSnapshot("eve", {"cpu": 1.0}, (9, 0), blocked=held)}
    >>> fair_share_of(ClusterSnapshot({"n0": node}, tasks)).shares
    {'ann': 0.25, 'bob': 0.75}
    """
    if not is_active(snapshot):
        return FairShare({})
    try:
        trace = trace_of(snapshot, "")
        scenario = reduced(trace).scenario
    except EmptyTraceError:  # all that waits fits nowhere
        return FairShare({})
    problem = Problem.build(scenario.cluster, scenario.users)
    share = drfh(problem).placement.user_tasks * problem.task_share
    return FairShare(dict(zip(problem.names(), share.tolist(), strict=True)), uneven_users(trace))


def trace_of(
    snapshot: ClusterSnapshot,
    source: str,
    *,
    engine: str = "",
    options: Mapping[str, Any] | None = None,
) -> Trace:
    """Return what runs and what waits, as a snapshot that was read from files would be.

    Blocked tasks are left out, and counted. A server that takes nothing new counts with what runs
    there, as for the scheduler.

    Parameters
    ----------
    source, options
        As of :class:`~drfh.traces.Trace`.
    engine
        The trace's format.

    Examples
    --------
    >>> node = NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0})
    >>> from drfh.engines.snapshot import BlockedCode, BlockedReason
    >>> held = BlockedReason(BlockedCode.HELD_BY_OWNER, "held by its owner")
    >>> tasks = {"7": TaskSnapshot("ann", {"cpu": 1.0}, (7, 0), on="n0"),
    ...          "8": TaskSnapshot("bob", {"cpu": 1.0}, (8, 0)),
    ...          "9": TaskSnapshot("bob", {"cpu": 1.0}, (9, 0), blocked=held)}
    >>> trace = trace_of(ClusterSnapshot({"n0": node}, tasks, {"bob": 2.0}), "now")
    >>> [(user.name, user.weight) for user in trace.workload.users], trace.counts["tasks queued"]
    ([('ann', 1.0), ('bob', 2.0)], 1)
    """
    ledger = Ledger()
    blocked = sum(task.blocked is not None for task in snapshot.tasks.values())
    ledger.count("tasks that must not be placed now, left out", blocked)
    reading = read_snapshot(
        [_node(name, server) for name, server in snapshot.servers.items()],
        _tasks(snapshot),
        ledger,
        nouns=("nodes", "tasks"),
        weights=snapshot.weights,
    )
    for remark in _REMARKS:
        ledger.remark(remark)
    return Trace(
        format=engine,
        source=source,
        cluster=reading.cluster,
        workload=reading.workload,
        details=reading.details,
        running=reading.running,
        options=FrozenMap(dict(options or {})),
        counts=FrozenMap(ledger.counts),
        oddities=ledger.oddities,
        remarks=tuple(ledger.remarks),
    )


def _node(name: str, server: NodeSnapshot) -> NodeRecord:
    # What runs on one that is down still counts there, as it does for the scheduler.
    if server.state == "down" and not any(server.available.values()):
        return NodeRecord(name, server.size, server.labels, "down")
    return NodeRecord(name, server.size, server.labels, "up" if server.state == "up" else "closing")


def _tasks(snapshot: ClusterSnapshot) -> Iterator[TaskRecord]:
    """Yield running tasks one by one, and waiting ones by kind: there may be very many."""
    waiting: dict[tuple[Any, ...], tuple[str, TaskSnapshot, int]] = {}
    lists: dict[tuple[str, ...] | None, frozenset[str] | None] = {None: None}
    for name, task in sorted(snapshot.tasks.items(), key=lambda item: item[1].order):
        if task.servers not in lists:
            lists[task.servers] = frozenset(task.servers or ())
        if task.on is not None:
            yield TaskRecord(
                task.user, name, task.demand, lists[task.servers], task.on, since=task.since
            )
        elif task.blocked is None:
            kind = (task.user, tuple(sorted(task.demand.items())), task.servers)
            first, like, count = waiting.get(kind, (name, task, 0))
            waiting[kind] = (first, like, count + 1)
    for name, task, count in waiting.values():
        allowed = lists[task.servers]
        yield TaskRecord(task.user, name, task.demand, allowed, since=task.since, count=count)
