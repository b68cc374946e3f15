"""A scheduler kept in agreement with a live cluster.

A fresh scheduler (:func:`fresh`) defines what :class:`SchedulerCache` must hold: it applies
the few changes from one look to the next, and starts afresh wherever they cannot be told apart
from a fresh start only by those. So a controller that was killed and started again decides as one
that never was.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drfh.engines.snapshot import ClusterSnapshot, NodeSnapshot, TaskSnapshot
from drfh.errors import InputError
from drfh.model.cluster import Cluster, Server
from drfh.policies import Policy, find_policy
from drfh.scheduler import Placed, Scheduler

__all__ = ["NOWHERE", "SchedulerCache", "fresh"]

#: A restriction that no server meets: a task that must not be placed keeps its place so.
NOWHERE = {"drfh/nowhere": "yes"}

_MOST_ENDED = 100_000  # a brain numbers tasks on and on: start afresh after so many


def fresh(
    snapshot: ClusterSnapshot,
    policy: str | Policy | Mapping[str, Any] = "best-fit-drfh",
    *,
    seed: int = 0,
) -> Scheduler:
    """Return a brain that knows what is snapshot, and nothing else.

    Parameters
    ----------
    snapshot
        The cluster as it is.
    policy, seed
        As for :class:`drfh.Scheduler`.

    Examples
    --------
    >>> room = NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0})
    >>> tasks = {"7": TaskSnapshot("bob", {"cpu": 1.0}, (7, 0), on="n0"),
    ...          "8": TaskSnapshot("ann", {"cpu": 2.0}, (8, 0))}
    >>> fresh(ClusterSnapshot({"n0": room}, tasks)).place()
    [Placed(task='8', user='ann', server='n0')]
    """
    resources = snapshot.resources
    first = True
    records = []
    for name, server in snapshot.servers.items():
        # The first names every resource, so that all are known in one order.
        size = {r: server.size.get(r, 0.0) for r in resources} if first else dict(server.size)
        records.append(Server(size, name=name, labels=dict(server.labels)))
        first = False
    scheduler = Scheduler(Cluster(records), policy, seed=seed, log=False, remember=False)
    for name, server in snapshot.servers.items():
        _make_room(scheduler, name, server, server.size)
    for user in snapshot.users:
        scheduler.add_user(user, snapshot.weight(user))
    some_server = next(iter(scheduler.servers), None)
    for name, task in sorted(snapshot.tasks.items(), key=lambda item: (item[1].order, item[0])):
        if task.on is not None:
            scheduler.adopt(name, task.user, task.demand, task.on, servers=_may(task))
        elif task.returned and some_server is not None:
            # As one that was put back: before all that had no server yet.
            scheduler.adopt(name, task.user, task.demand, some_server, servers=_may(task))
            scheduler.unplace(name)
        else:
            scheduler.submit(name, task.user, task.demand, servers=_may(task))
    return scheduler


class SchedulerCache:
    """Follows a cluster look by look, and says what to start where.

    Parameters
    ----------
    policy, seed
        As for :class:`drfh.Scheduler`.

    Attributes
    ----------
    scheduler : Scheduler
        The brain; only to look at.
    snapshot : ClusterSnapshot
        What it was last told.
    placed : dict of str
        What it has placed and not yet been seen to run: task → server.
    starts : int
        How often it started afresh.

    Examples
    --------
    >>> room = NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0})
    >>> cache = SchedulerCache("best-fit-drfh")
    >>> task = TaskSnapshot("ann", {"cpu": 2.0}, (8, 0))
    >>> cache.follow(ClusterSnapshot({"n0": room}, {"8": task}))
    >>> cache.place(), cache.placed
    ([Placed(task='8', user='ann', server='n0')], {'8': 'n0'})
    >>> task = TaskSnapshot("ann", {"cpu": 2.0}, (8, 0), on="n0")
    >>> cache.follow(ClusterSnapshot({"n0": room}, {"8": task}))
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
        # Adopted after the start: the brain's order of them is not that of a fresh one.
        self._late: set[str] = set()

    @property
    def scheduler(self) -> Scheduler:
        """The brain; there is one from the first look on."""
        if self._scheduler is None:
            raise InputError("the cache", "must have seen the cluster first (follow)")
        return self._scheduler

    def follow(self, snapshot: ClusterSnapshot) -> None:
        """Make the brain agree with the cluster as it is now."""
        if self._scheduler is None or not self._followed(snapshot):
            self._scheduler = fresh(snapshot, self.policy, seed=self.seed)
            self._late.clear()
            self._ended = 0
            self.starts += 1
        self.placed.clear()
        self.snapshot = snapshot

    def place(self, limit: int | None = None) -> list[Placed]:
        """Decide what may start now; the next look must show it, or it is taken back."""
        placed = self.scheduler.place(limit)
        for one in placed:
            self.placed[one.task] = one.server
        return placed

    def _followed(self, snapshot: ClusterSnapshot) -> bool:
        """Apply the changes; False where a fresh brain is needed (this one is then spoilt)."""
        brain, before = self.scheduler, self.snapshot
        if (
            tuple(snapshot.servers) != tuple(before.servers)
            or snapshot.users != brain.users
            or self._ended > _MOST_ENDED
            or not _any_room(before)
            or not _any_room(snapshot)  # nobody can have been put back from nowhere
            or any(not known(brain, task.demand) for task in _new(before, snapshot))
        ):
            return False
        if not (self._drop_ended(snapshot) and self._take_back(snapshot)):
            return False
        for name, server in snapshot.servers.items():
            old = before.servers[name]
            if old.size != server.size or old.labels != server.labels:
                return False
            if old.room != server.room and _make_room(brain, name, server, old.room):
                return False
        for user in snapshot.users:
            if snapshot.weight(user) != before.weight(user):
                brain.set_weight(user, snapshot.weight(user))
        return self._change(snapshot) and self._add(snapshot)

    def _drop_ended(self, snapshot: ClusterSnapshot) -> bool:
        for name in self.snapshot.tasks.keys() - snapshot.tasks.keys():
            self.scheduler.cancel(name)
            self._late.discard(name)
            self._ended += 1
        return True

    def _on(self, name: str) -> str | None:
        """Return where the brain has a task."""
        return self.placed.get(name) or self.snapshot.tasks[name].on

    def _take_back(self, snapshot: ClusterSnapshot) -> bool:
        """Put back what has lost its server, or never got it."""
        for name, old in self.snapshot.tasks.items():
            new = snapshot.tasks.get(name)
            here = self._on(name)
            if new is None or here is None or new.on == here:
                continue
            if new.on is not None or not new.returned or name in self._late:
                return False
            if new.user != old.user or new.order != old.order:
                return False
            self.scheduler.unplace(name)
            # What it may use can have changed while it ran.
            self.scheduler.update(name, demand=new.demand, servers=_may(new))
        return True

    def _change(self, snapshot: ClusterSnapshot) -> bool:
        """Change what waits still, or has been started by somebody else."""
        for name, old in self.snapshot.tasks.items():
            new = snapshot.tasks.get(name)
            if new is None:
                continue
            here = self._on(name)
            if new.on is not None and new.on == here:
                if new.user != old.user or new.demand != old.demand or new.order != old.order:
                    return False
            elif here is not None:
                continue  # put back above
            elif new.on is not None:
                self.scheduler.cancel(name)
                self._adopt(name, new)
            elif new.user != old.user or new.order != old.order or new.returned != old.returned:
                return False
            elif (new.demand, new.servers, new.aside) != (old.demand, old.servers, old.aside):
                self.scheduler.update(name, demand=new.demand, servers=_may(new))
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
            elif task.returned or order < last.get(task.user, ()):
                return False
            else:
                self.scheduler.submit(name, task.user, task.demand, servers=_may(task))
        return True

    def _adopt(self, name: str, task: TaskSnapshot) -> None:
        assert task.on is not None
        self.scheduler.adopt(name, task.user, task.demand, task.on, servers=_may(task))
        self._late.add(name)


def known(brain: Scheduler, demand: Mapping[str, float]) -> bool:
    """Return whether a brain knows all resources of a demand.

    Examples
    --------
    >>> brain = Scheduler(Cluster([Server({"cpu": 4})]))
    >>> known(brain, {"cpu": 1.0}), known(brain, {"gpu": 1.0})
    (True, False)
    """
    resources = brain._units.resources
    return all(name in resources for name in demand)


def _any_room(snapshot: ClusterSnapshot) -> bool:
    return any(any(server.room.values()) for server in snapshot.servers.values())


def _new(before: ClusterSnapshot, snapshot: ClusterSnapshot) -> list[TaskSnapshot]:
    return [
        task
        for name, task in snapshot.tasks.items()
        if name not in before.tasks or before.tasks[name].demand != task.demand
    ]


def _may(task: TaskSnapshot) -> Any:
    if task.aside or task.servers == ():
        return NOWHERE
    return task.servers


def _make_room(
    scheduler: Scheduler, name: str, server: NodeSnapshot, now: Mapping[str, float]
) -> bool:
    """Give a server the room that counts; return whether a task lost its place by that."""
    there, snapshot = any(now.values()), any(server.room.values())
    if there and not snapshot:
        return bool(scheduler.remove_server(name))
    if snapshot and not there:
        scheduler.add_server(name, server.room, dict(server.labels))
    elif snapshot and dict(server.room) != dict(now):
        return bool(scheduler.resize_server(name, server.room))
    return False
