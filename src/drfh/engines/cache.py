"""A scheduler kept in agreement with a live cluster.

A fresh scheduler (:func:`fresh`) defines what :class:`SchedulerCache` must hold. The cache applies
the few changes from one snapshot to the next, and starts afresh wherever that would not give what
a fresh one holds. So a controller that was killed and started again decides as one that never was.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from drfh.engines.snapshot import ClusterSnapshot, NodeSnapshot, TaskSnapshot
from drfh.errors import InputError
from drfh.model.cluster import Cluster, Server
from drfh.policies import Policy, find_policy
from drfh.scheduler import Placed, Scheduler

__all__ = ["NOWHERE", "SchedulerCache", "fresh"]

log = logging.getLogger(__name__)

#: A restriction that no server meets: a task that must not be placed keeps its place so.
NOWHERE = {"drfh/nowhere": "yes"}

_MOST_ENDED = 100_000  # a scheduler numbers tasks on and on: start afresh after so many


def fresh(
    snapshot: ClusterSnapshot,
    policy: str | Policy | Mapping[str, Any] = "best-fit-drfh",
    *,
    seed: int = 0,
) -> Scheduler:
    """Return a scheduler that holds a snapshot, and nothing else.

    Parameters
    ----------
    policy, seed
        As for :class:`drfh.Scheduler`.

    Examples
    --------
    >>> node = NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0})
    >>> tasks = {"7": TaskSnapshot("bob", {"cpu": 1.0}, (7, 0), on="n0"),
    ...          "8": TaskSnapshot("ann", {"cpu": 2.0}, (8, 0))}
    >>> fresh(ClusterSnapshot({"n0": node}, tasks)).place()
    [Placed(task='8', user='ann', server='n0')]
    """
    resources = snapshot.resources
    records: list[Server] = []
    for name, server in snapshot.servers.items():
        # The first names every resource, so that all are known in one order.
        size = dict(server.size) if records else {r: server.size.get(r, 0.0) for r in resources}
        records.append(Server(size, name=name, labels=dict(server.labels)))
    scheduler = Scheduler(Cluster(records), policy, seed=seed, log=False, remember=False)
    for name, server in snapshot.servers.items():
        _set_available(scheduler, name, server, server.size)
    for user in snapshot.users:
        scheduler.add_user(user, snapshot.weight(user))
    some_server = next(iter(scheduler.servers), None)
    for name, task in sorted(snapshot.tasks.items(), key=lambda item: (item[1].order, item[0])):
        if task.on is not None:
            scheduler.adopt(name, task.user, task.demand, task.on, servers=_restriction(task))
        elif task.recalled and some_server is not None:
            # As one that was put back: before all that had no server yet.
            scheduler.adopt(name, task.user, task.demand, some_server, servers=_restriction(task))
            scheduler.unplace(name)
        else:
            scheduler.submit(name, task.user, task.demand, servers=_restriction(task))
    return scheduler


class SchedulerCache:
    """A scheduler that follows the snapshots of a cluster and places its tasks.

    Parameters
    ----------
    policy, seed
        As for :class:`drfh.Scheduler`.

    Attributes
    ----------
    scheduler : Scheduler
        To read only.
    snapshot : ClusterSnapshot
        The last one.
    placed : dict of str
        What it placed and no snapshot has shown to run: task → server.
    starts : int
        How often it started afresh.

    Examples
    --------
    >>> node = NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0})
    >>> cache = SchedulerCache("best-fit-drfh")
    >>> task = TaskSnapshot("ann", {"cpu": 2.0}, (8, 0))
    >>> cache.follow(ClusterSnapshot({"n0": node}, {"8": task}))
    >>> cache.place(), cache.placed
    ([Placed(task='8', user='ann', server='n0')], {'8': 'n0'})
    >>> task = TaskSnapshot("ann", {"cpu": 2.0}, (8, 0), on="n0")
    >>> cache.follow(ClusterSnapshot({"n0": node}, {"8": task}))
    >>> cache.placed, cache.starts
    ({}, 1)
    """

    def __init__(
        self, policy: str | Policy | Mapping[str, Any] = "best-fit-drfh", *, seed: int = 0
    ) -> None:
        self.policy = find_policy(policy)
        self.seed = seed
        self.snapshot = ClusterSnapshot({}, {})
        self.placed: dict[str, str] = {}
        self.starts = 0
        self._scheduler: Scheduler | None = None
        self._ended = 0
        self._resources: frozenset[str] = frozenset()
        # Adopted after the start: their order is not that of a fresh scheduler.
        self._late: set[str] = set()

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler; there is one from the first snapshot on."""
        if self._scheduler is None:
            raise InputError("the cache", "must have seen the cluster first (follow)")
        return self._scheduler

    def follow(self, snapshot: ClusterSnapshot) -> None:
        """Make the scheduler agree with a newer snapshot."""
        if self._scheduler is None or not self._apply(snapshot):
            self._scheduler = fresh(snapshot, self.policy, seed=self.seed)
            self._resources = frozenset(snapshot.resources)
            self._late.clear()
            self._ended = 0
            self.starts += 1
            log.debug(
                "scheduler rebuilt nodes=%(nodes)d tasks=%(tasks)d starts=%(starts)d",
                {
                    "nodes": len(snapshot.servers),
                    "tasks": len(snapshot.tasks),
                    "starts": self.starts,
                },
            )
        elif log.isEnabledFor(logging.DEBUG):
            before, after = self.snapshot.tasks.keys(), snapshot.tasks.keys()
            log.debug(
                "snapshot followed tasks=%(tasks)d new=%(new)d ended=%(ended)d",
                {"tasks": len(after), "new": len(after - before), "ended": len(before - after)},
            )
        self.placed.clear()
        self.snapshot = snapshot

    def place(self, limit: int | None = None) -> list[Placed]:
        """Decide what may start now; what the next snapshot does not show is recalled."""
        placed = self.scheduler.place(limit)
        for one in placed:
            self.placed[one.task] = one.server
        return placed

    def _apply(self, snapshot: ClusterSnapshot) -> bool:
        """Apply the changes; False where a fresh scheduler is needed (this one is then spoilt)."""
        scheduler, before = self.scheduler, self.snapshot
        if (
            tuple(snapshot.servers) != tuple(before.servers)
            or snapshot.users != scheduler.users
            or self._ended > _MOST_ENDED
            or not before.has_capacity
            or not snapshot.has_capacity  # a fresh scheduler has no server to recall tasks from
            or not self._resources.issuperset(_new_resources(before, snapshot))
        ):
            return False
        self._drop_ended(snapshot)
        if not self._recall(snapshot):
            return False
        for name, server in snapshot.servers.items():
            old = before.servers[name]
            if old.size != server.size or old.labels != server.labels:
                return False
            if old.available != server.available and _set_available(
                scheduler, name, server, old.available
            ):
                return False
        for user in snapshot.users:
            if snapshot.weight(user) != before.weight(user):
                scheduler.set_weight(user, snapshot.weight(user))
        return self._change(snapshot) and self._add(snapshot)

    def _drop_ended(self, snapshot: ClusterSnapshot) -> None:
        for name in self.snapshot.tasks.keys() - snapshot.tasks.keys():
            self.scheduler.cancel(name)
            self._late.discard(name)
            self._ended += 1

    def _on(self, name: str) -> str | None:
        """Return where the scheduler has a task."""
        return self.placed.get(name) or self.snapshot.tasks[name].on

    def _recall(self, snapshot: ClusterSnapshot) -> bool:
        """Queue again what has lost its server, or never got it."""
        for name, old in self.snapshot.tasks.items():
            new = snapshot.tasks.get(name)
            here = self._on(name)
            if new is None or here is None or new.on == here:
                continue
            if new.on is not None or not new.recalled or name in self._late:
                return False
            if new.user != old.user or new.order != old.order:
                return False
            self.scheduler.unplace(name)
            # What it may use can have changed while it ran.
            self.scheduler.update(name, demand=new.demand, servers=_restriction(new))
        return True

    def _change(self, snapshot: ClusterSnapshot) -> bool:
        """Update what still waits, or was started by somebody else."""
        for name, old in self.snapshot.tasks.items():
            new = snapshot.tasks.get(name)
            if new is None:
                continue
            here = self._on(name)
            if new.on is not None and new.on == here:
                if new.user != old.user or new.demand != old.demand or new.order != old.order:
                    return False
            elif here is not None:
                continue  # recalled above
            elif new.on is not None:
                self.scheduler.cancel(name)
                self._adopt(name, new)
            elif new.user != old.user or new.order != old.order or new.recalled != old.recalled:
                return False
            elif (new.demand, new.servers, new.blocked) != (old.demand, old.servers, old.blocked):
                self.scheduler.update(name, demand=new.demand, servers=_restriction(new))
        return True

    def _add(self, snapshot: ClusterSnapshot) -> bool:
        """Add what is new, if it comes after all that is there."""
        new = [(task.order, name, task) for name, task in snapshot.tasks.items()
               if name not in self.snapshot.tasks]  # fmt: skip
        if not new:
            return True
        new.sort(key=lambda row: row[:2])
        last: dict[str, tuple[int, ...]] = {}
        for task in self.snapshot.tasks.values():
            if task.order > last.get(task.user, ()):
                last[task.user] = task.order
        for order, name, task in new:
            if task.on is not None:
                self._adopt(name, task)
            elif task.recalled or order < last.get(task.user, ()):
                return False
            else:
                self.scheduler.submit(name, task.user, task.demand, servers=_restriction(task))
        return True

    def _adopt(self, name: str, task: TaskSnapshot) -> None:
        assert task.on is not None
        self.scheduler.adopt(name, task.user, task.demand, task.on, servers=_restriction(task))
        self._late.add(name)


def _new_resources(before: ClusterSnapshot, snapshot: ClusterSnapshot) -> set[str]:
    """Return the resources of tasks that are new or have a new demand."""
    return {
        resource
        for name, task in snapshot.tasks.items()
        if name not in before.tasks or before.tasks[name].demand != task.demand
        for resource in task.demand
    }


def _restriction(task: TaskSnapshot) -> Any:
    if task.blocked is not None or task.servers == ():
        return NOWHERE
    return task.servers


def _set_available(
    scheduler: Scheduler, name: str, server: NodeSnapshot, now: Mapping[str, float]
) -> bool:
    """Give a server what is available there; return whether a task lost its server by that."""
    if any(now.values()) and not any(server.available.values()):
        return bool(scheduler.remove_server(name))
    if not any(now.values()) and any(server.available.values()):
        scheduler.add_server(name, server.available, dict(server.labels))
    elif any(now.values()) and dict(server.available) != dict(now):
        return bool(scheduler.resize_server(name, server.available))
    return False
