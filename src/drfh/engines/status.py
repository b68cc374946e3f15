"""The status of a live cluster: shares, fair shares, counts of jobs, use of nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from drfh.allocation.fairness import missing_share, worst_off
from drfh.engines.engine import LiveCluster, TaskState
from drfh.engines.fair_share import fair_share_of
from drfh.engines.snapshot import BlockedReason, ClusterSnapshot, job_of
from drfh.model.resources import TOLERANCE

__all__ = ["NodeStatus", "Status", "Total", "UserStatus", "status_of"]


@dataclass(frozen=True, slots=True)
class UserStatus:
    """The status of a user; each task of an array counts as a job.

    Parameters
    ----------
    share, resource
        Global dominant share of what it holds, and of which resource; None if it holds nothing.
    level
        Its share divided by its weight.
    fair_share
        Its share in the exact divisible DRFH allocation of who is active now; None if it is not.
    uneven
        Its jobs differ in more than size: its fair share is that of its mean job, which may fit
        fewer nodes than most of its jobs do.
    running, starting
        Jobs that run, and that are released to a node and will.
    waiting, never
        Jobs that could be placed when enough is free, and that no node could hold.
    blocked
        Jobs that must not be placed now: why, without details → how many.

    Examples
    --------
    >>> UserStatus("ann", 2.0, 0.5, "cpu", 0.25, 0.8, False, 3, 0, 1, 0, {}).fulfilled
    0.625
    """

    name: str
    weight: float
    share: float
    resource: str | None
    level: float
    fair_share: float | None
    uneven: bool
    running: int
    starting: int
    waiting: int
    never: int
    blocked: Mapping[BlockedReason, int]

    @property
    def fulfilled(self) -> float | None:
        """What part of its fair share it has; None if it is not active."""
        return None if not self.fair_share else self.share / self.fair_share

    @property
    def jobs(self) -> int:
        """How many jobs it has in all."""
        return self.running + self.starting + self.waiting + self.never + sum(self.blocked.values())

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, ready for JSON, under the names that JSON output has."""
        keys = {"fair_share": "ideal", "blocked": "aside"}
        plain = asdict(replace(self, blocked={})) | {"blocked": _by_text(self.blocked)}
        data = {keys.get(key, key): value for key, value in plain.items()}
        return {**data, "fulfilled": self.fulfilled}


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """The status of a node: what it has, what its jobs hold, those included that start there.

    Examples
    --------
    >>> NodeStatus("n0", "up", {"cpu": 4.0, "memory": 8.0}, {"cpu": 1.0, "memory": 6.0}, 1).fullness
    0.75
    """

    name: str
    state: str
    size: Mapping[str, float]
    used: Mapping[str, float]
    jobs: int

    @property
    def fullness(self) -> float:
        """How full its fullest resource is, from 0 to 1."""
        parts = (self.used.get(r, 0.0) / size for r, size in self.size.items() if size > 0)
        return min(max(parts, default=0.0), 1.0)


@dataclass(frozen=True, slots=True)
class Total:
    """The capacity of a cluster in one resource, and what is used of it."""

    capacity: float
    used: float


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a whole cluster.

    Parameters
    ----------
    time
        Seconds since 1970.
    policy
        By which it is shared.
    users
        Sorted by name; also those without jobs that have a weight.
    totals
        Of each resource, over the nodes that work. Of those that take nothing new, what is used.
    nodes
        In the engine's order.
    distance, worst
        The missing share: the part of the active users' fair shares that they do not have; and
        who has the least part of its own. Nobody at a distance of 0.
    unmanaged
        Jobs that wait and are not drfh's: why → how many.
    broken, notes
        As of :class:`~drfh.engines.engine.LiveCluster`.
    """

    time: float
    policy: str
    users: tuple[UserStatus, ...]
    totals: Mapping[str, Total]
    nodes: tuple[NodeStatus, ...]
    distance: float
    worst: str | None
    unmanaged: Mapping[BlockedReason, int]
    broken: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, ready for JSON."""
        return {
            "time": self.time,
            "policy": self.policy,
            "users": [user.to_dict() for user in self.users],
            "totals": {name: asdict(total) for name, total in self.totals.items()},
            "nodes": [asdict(node) | {"fullness": node.fullness} for node in self.nodes],
            "worst": self.worst,
            "outside": _by_text(self.unmanaged),
            "broken": list(self.broken),
            "notes": list(self.notes),
            "distance_from_fair": self.distance,
        }


def _by_text(counts: Mapping[BlockedReason, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for reason, number in counts.items():
        found[str(reason)] = found.get(str(reason), 0) + number
    return found


def status_of(cluster: LiveCluster) -> Status:
    """Return the status of a live cluster.

    Examples
    --------
    >>> from drfh.engines.cache import SchedulerCache
    >>> from drfh.engines.snapshot import NodeSnapshot, TaskSnapshot
    >>> node = NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0})
    >>> snapshot = ClusterSnapshot({"n0": node}, {"7": TaskSnapshot("ann", {"cpu": 2.0}, (7, 0))})
    >>> cache = SchedulerCache("best-fit-drfh")
    >>> cache.follow(snapshot)
    >>> status = status_of(LiveCluster(0.0, snapshot, cache))
    >>> [(user.name, user.waiting, user.share, user.fair_share) for user in status.users]
    [('ann', 1, 0.0, 0.5)]
    >>> status.distance, status.worst
    (1.0, 'ann')
    """
    users = _users(cluster)
    distance, worst = _distance(users)
    nodes = _nodes(cluster.snapshot)
    return Status(
        time=cluster.time,
        policy=cluster.cache.policy.name,
        users=users,
        totals=_totals(cluster.snapshot, nodes),
        nodes=nodes,
        distance=distance,
        worst=worst,
        unmanaged=dict(Counter(cluster.unmanaged().values()).most_common()),
        broken=cluster.broken,
        notes=cluster.notes,
    )


def _users(cluster: LiveCluster) -> tuple[UserStatus, ...]:
    snapshot = cluster.snapshot
    counts: dict[str, Counter[TaskState]] = {name: Counter() for name in snapshot.users}
    blocked: dict[str, Counter[BlockedReason]] = {name: Counter() for name in snapshot.users}
    counted: set[str] = set()
    for name, task in snapshot.tasks.items():
        job = job_of(name)
        if job in counted:  # on another node, too
            continue
        counted.add(job)
        counts[task.user][cluster.task_state(name)] += 1
        if task.on is None and task.blocked is not None:
            blocked[task.user][task.blocked.without_detail()] += 1
    fair = fair_share_of(snapshot)
    found = cluster.cache.scheduler.status()["users"]
    return tuple(
        UserStatus(
            name=name,
            weight=snapshot.weight(name),
            share=found[name]["dominant_share"],
            resource=found[name]["dominant_resource"],
            level=found[name]["dominant_share"] / snapshot.weight(name),
            fair_share=fair.shares.get(name),
            uneven=name in fair.uneven,
            running=counts[name][TaskState.RUNNING],
            starting=counts[name][TaskState.STARTING],
            waiting=counts[name][TaskState.WAITING],
            never=counts[name][TaskState.NEVER],
            blocked=dict(blocked[name].most_common()),
        )
        for name in snapshot.users
    )


def _distance(users: Iterable[UserStatus]) -> tuple[float, str | None]:
    active = [user for user in users if user.fair_share]
    if not active:
        return 0.0, None
    share = np.array([user.share for user in active])
    weight = np.array([user.weight for user in active])
    fair = np.array([user.fair_share or 0.0 for user in active]) / weight
    missing, (_, worst) = missing_share(share, weight, fair), worst_off(share, weight, fair)
    if missing <= TOLERANCE:
        return 0.0, None
    return float(missing), active[int(worst)].name


def _nodes(snapshot: ClusterSnapshot) -> tuple[NodeStatus, ...]:
    used: dict[str, dict[str, float]] = {name: {} for name in snapshot.servers}
    jobs: Counter[str] = Counter()
    for task in snapshot.tasks.values():
        if task.on is not None:
            jobs[task.on] += 1
            _add(used[task.on], task.demand)
    return tuple(
        NodeStatus(name, server.state, dict(server.size), used[name], jobs[name])
        for name, server in snapshot.servers.items()
    )


def _totals(snapshot: ClusterSnapshot, nodes: Iterable[NodeStatus]) -> dict[str, Total]:
    capacity: dict[str, float] = {}
    used: dict[str, float] = {}
    for server in snapshot.servers.values():
        _add(capacity, dict.fromkeys(server.size, 0.0) | dict(server.available))
    for node in nodes:
        _add(used, node.used)
    return {r: Total(amount, used.get(r, 0.0)) for r, amount in capacity.items()}


def _add(total: dict[str, float], amounts: Mapping[str, float]) -> None:
    for resource, amount in amounts.items():
        total[resource] = total.get(resource, 0.0) + amount
