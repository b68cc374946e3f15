"""An instant of a live cluster as a trace: the one way from there to the auditor and to DRFH."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from drfh.allocation.problem import Problem
from drfh.engines.snapshot import ClusterSnapshot, NodeSnapshot, TaskSnapshot
from drfh.errors import InputError
from drfh.files.ledger import Ledger
from drfh.mechanisms.drfh import drfh
from drfh.model.resources import FrozenMap
from drfh.traces import Trace
from drfh.traces.scenario import reduced, uneven_users
from drfh.traces.snapshot import NodeRecord, TaskRecord, snapshot

__all__ = ["FairShare", "ideal_of", "is_active", "trace_of"]

_CANNOT = (
    "an instant has no run times: every task runs on for ever, and all are there from the start",
    "a job on several nodes is one task for each node: tasks that must start together are not told",
)


def is_active(wanted: ClusterSnapshot) -> bool:
    """Return whether a server works, and a task runs or may be placed.

    Examples
    --------
    >>> here = NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0})
    >>> is_active(ClusterSnapshot({"n0": here}, {}))
    False
    """
    there = any(any(server.room.values()) for server in wanted.servers.values())
    return there and any(not task.aside for task in wanted.tasks.values())


@dataclass(frozen=True, slots=True)
class FairShare:
    """The exact divisible DRFH allocation of an instant.

    Attributes
    ----------
    shares : mapping of float
        Global dominant share of each active user.
    uneven : tuple of str
        Users whose tasks differ in more than size: what they should have is that of their mean
        task, which may fit fewer servers than most of their tasks do.
    """

    shares: Mapping[str, float]
    uneven: tuple[str, ...] = ()


def ideal_of(wanted: ClusterSnapshot) -> FairShare:
    """Return what each active user would have in the exact DRFH allocation of this instant.

    A user counts with the mean of its tasks that run or may be placed, and with their number. If
    they have different restrictions, it may use what one of them may use.

    Parameters
    ----------
    wanted
        The cluster, with weights.

    Examples
    --------
    >>> here = NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0})
    >>> tasks = {"7": TaskSnapshot("ann", {"cpu": 1.0}, (7, 0), on="n0"),
    ...          "8": TaskSnapshot("bob", {"cpu": 4.0}, (8, 0)),
    ...          "9": TaskSnapshot("eve", {"cpu": 1.0}, (9, 0), aside="held by its owner")}
    >>> ideal_of(ClusterSnapshot({"n0": here}, tasks)).shares
    {'ann': 0.25, 'bob': 0.75}
    """
    if not is_active(wanted):
        return FairShare({})
    try:
        trace = trace_of(wanted, "")
        scenario = reduced(trace).scenario
    except InputError as error:
        if error.field != "trace":  # all that waits fits nowhere
            raise
        return FairShare({})
    problem = Problem.build(scenario.cluster, scenario.users)
    share = drfh(problem).placement.user_tasks * problem.task_share
    return FairShare(dict(zip(problem.names(), share.tolist(), strict=True)), uneven_users(trace))


def trace_of(
    wanted: ClusterSnapshot,
    source: str,
    *,
    format: str = "slurm",  # noqa: A002 - the word that everybody uses
    options: Mapping[str, Any] | None = None,
) -> Trace:
    """Return what runs and what waits, as a snapshot that was read from files would be.

    What must not be placed now is left out, and counted. A server counts with the room that the
    brain counts: one that takes nothing new, with what runs there.

    Parameters
    ----------
    wanted
        The cluster, with weights.
    source
        What to call it.
    format, options
        As of :class:`~drfh.traces.Trace`.

    Examples
    --------
    >>> here = NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0})
    >>> tasks = {"7": TaskSnapshot("ann", {"cpu": 1.0}, (7, 0), on="n0"),
    ...          "8": TaskSnapshot("bob", {"cpu": 1.0}, (8, 0)),
    ...          "9": TaskSnapshot("bob", {"cpu": 1.0}, (9, 0), aside="held by its owner")}
    >>> trace = trace_of(ClusterSnapshot({"n0": here}, tasks, {"bob": 2.0}), "here")
    >>> [(user.name, user.weight) for user in trace.workload.users], trace.counts["tasks queued"]
    ([('ann', 1.0), ('bob', 2.0)], 1)
    """
    ledger = Ledger()
    aside = sum(bool(task.aside) for task in wanted.tasks.values())
    ledger.count("tasks that must not be placed now, left out", aside)
    reading = snapshot(
        [_node(name, server) for name, server in wanted.servers.items()],
        _tasks(wanted),
        ledger,
        nouns=("nodes", "tasks"),
        weights=wanted.weights,
    )
    for remark in _CANNOT:
        ledger.remark(remark)
    return Trace(
        format=format,
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
    # What runs on one that is down still holds its room there, as it does for the brain.
    if server.state == "down" and not any(server.room.values()):
        return NodeRecord(name, server.size, server.labels, "down")
    return NodeRecord(name, server.size, server.labels, "up" if server.state == "up" else "closing")


def _tasks(wanted: ClusterSnapshot) -> Iterator[TaskRecord]:
    """Yield those that run one by one, and those that wait by kind: there may be very many."""
    waiting: dict[tuple[Any, ...], tuple[str, TaskSnapshot, int]] = {}
    lists: dict[tuple[str, ...] | None, frozenset[str] | None] = {None: None}
    for name, task in sorted(wanted.tasks.items(), key=lambda item: item[1].order):
        if task.servers not in lists:
            lists[task.servers] = frozenset(task.servers or ())
        if task.on is not None:
            yield TaskRecord(
                task.user, name, task.demand, lists[task.servers], task.on, since=task.since
            )
        elif not task.aside:
            kind = (task.user, tuple(sorted(task.demand.items())), task.servers)
            first, like, count = waiting.get(kind, (name, task, 0))
            waiting[kind] = (first, like, count + 1)
    for name, task, count in waiting.values():
        allowed = lists[task.servers]
        yield TaskRecord(task.user, name, task.demand, allowed, since=task.since, count=count)
