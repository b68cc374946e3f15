"""The state of a live cluster in numbers: who has what, what would be fair, how full nodes are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from drfh.engines.fair_share import ideal_of
from drfh.engines.slurm.cluster import SlurmCluster
from drfh.engines.slurm.unmanaged import waiting_unmanaged
from drfh.engines.snapshot import ClusterSnapshot
from drfh.model.resources import TOLERANCE
from drfh.simulation.fairness import distances

__all__ = ["NodeStatus", "Status", "Total", "UserStatus", "status_of"]

_DETAILS = re.compile(r" \(|[,;:] | before ")


@dataclass(frozen=True, slots=True)
class UserStatus:
    """A user now. Jobs are counted as Slurm names them: each task of an array is one.

    Parameters
    ----------
    name, weight
        As the site has them.
    share, resource
        Global dominant share of what it holds, and of which resource; None if it holds nothing.
    level
        Its share divided by its weight.
    ideal
        Its share in the exact divisible DRFH allocation of who is active now; None if it is not.
    uneven
        Its jobs differ in more than size: its ideal share is that of its mean job, which may fit
        fewer nodes than most of its jobs do.
    running, starting
        Jobs that run, and that are released to a node and will.
    waiting, never
        Jobs that could be placed when there is room, and that no node could hold.
    aside
        Jobs that must not be placed now: why → how many.

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
    ideal: float | None
    uneven: bool
    running: int
    starting: int
    waiting: int
    never: int
    aside: Mapping[str, int]

    @property
    def fulfilled(self) -> float | None:
        """What part of its ideal share it has; None if it is not active."""
        return None if not self.ideal else self.share / self.ideal

    @property
    def jobs(self) -> int:
        """How many jobs it has in all."""
        return self.running + self.starting + self.waiting + self.never + sum(self.aside.values())


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """A node now: what it has, what jobs hold there or will in a moment, and how many jobs.

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
    """What counts of a resource in the whole cluster, and what is used of that."""

    capacity: float
    used: float


@dataclass(frozen=True, slots=True)
class Status:
    """The whole cluster now.

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
        In Slurm's order.
    distance, worst
        1 − the least part of its ideal share that an active user has, and who that is; nobody
        at a distance of 0.
    outside
        Jobs that wait and are not drfh's: why → how many.
    broken
        Entries of Slurm that could not be read.
    notes
        What else should be known.
    """

    time: float
    policy: str
    users: tuple[UserStatus, ...]
    totals: Mapping[str, Total]
    nodes: tuple[NodeStatus, ...]
    distance: float
    worst: str | None
    outside: Mapping[str, int]
    broken: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, ready for JSON."""
        data = asdict(self)
        for found, user in zip(data["users"], self.users, strict=True):
            found["fulfilled"] = user.fulfilled
        for found, node in zip(data["nodes"], self.nodes, strict=True):
            found["fullness"] = node.fullness
        data["distance_from_fair"] = data.pop("distance")
        return {key: list(v) if isinstance(v, tuple) else v for key, v in data.items()}


def status_of(live: SlurmCluster) -> Status:
    """Return the state of a live cluster in numbers.

    Parameters
    ----------
    live
        The cluster, as :func:`drfh.engines.slurm.cluster.observe` has it.

    Examples
    --------
    >>> from drfh.engines.slurm.cluster import understood
    >>> from drfh.engines.slurm.state import read_state
    >>> from drfh.engines.slurm.config import SlurmConfig
    >>> node = {"name": "n0", "cpus": 4, "real_memory": 1024, "state": "idle", "partitions": ["a"]}
    >>> job = {"job_id": 7, "job_state": "PENDING", "user_name": "ann", "partition": "a",
    ...        "tres_req_str": "cpu=2,mem=100M,node=1", "memory_per_node": 100, "priority": 0,
    ...        "state_reason": "JobHeldUser", "admin_comment": "drfh"}
    >>> status = status_of(understood(read_state([node], [job], 0.0), SlurmConfig()))
    >>> [(user.name, user.waiting, user.share, user.ideal) for user in status.users]
    [('ann', 1, 0.0, 0.5)]
    >>> status.distance, status.worst
    (1.0, 'ann')
    """
    snapshot = live.view.snapshot
    users = _users(live)
    distance, worst = _distance(users)
    nodes = _nodes(snapshot)
    outside = Counter(waiting_unmanaged(live).values())
    return Status(
        time=live.picture.time,
        policy=live.cache.policy.name,
        users=users,
        totals=_totals(snapshot, nodes),
        nodes=nodes,
        distance=distance,
        worst=worst,
        outside=dict(outside.most_common()),
        broken=live.picture.broken,
        notes=tuple(_notes(live)),
    )


def _users(live: SlurmCluster) -> tuple[UserStatus, ...]:
    snapshot, brain = live.view.snapshot, live.cache.scheduler
    counts: dict[str, Counter[str]] = {name: Counter() for name in snapshot.users}
    aside: dict[str, Counter[str]] = {name: Counter() for name in snapshot.users}
    seen: set[str] = set()
    for name, task in snapshot.tasks.items():
        job = live.view.jobs[name].name
        if job in seen:  # on another node, too
            continue
        seen.add(job)
        if task.on is not None:
            counts[task.user]["starting" if name in live.view.released else "running"] += 1
        elif task.aside:
            aside[task.user][_DETAILS.split(task.aside, maxsplit=1)[0]] += 1
        else:
            never = brain.state(name) == "never"
            counts[task.user]["never" if never else "waiting"] += 1
    ideal = ideal_of(snapshot)
    found = brain.status()["users"]
    return tuple(
        UserStatus(
            name=name,
            weight=snapshot.weight(name),
            share=found[name]["dominant_share"],
            resource=found[name]["dominant_resource"],
            level=found[name]["dominant_share"] / snapshot.weight(name),
            ideal=ideal.shares.get(name),
            uneven=name in ideal.uneven,
            running=counts[name]["running"],
            starting=counts[name]["starting"],
            waiting=counts[name]["waiting"],
            never=counts[name]["never"],
            aside=dict(aside[name].most_common()),
        )
        for name in snapshot.users
    )


def _distance(users: Iterable[UserStatus]) -> tuple[float, str | None]:
    active = [user for user in users if user.ideal]
    if not active:
        return 0.0, None
    share = np.array([[user.share for user in active]])
    weight = np.array([user.weight for user in active])
    fair = np.array([[user.ideal or 0.0 for user in active]]) / weight
    far, worst = distances(share, weight, fair)
    if far[0] <= TOLERANCE:
        return 0.0, None
    return float(far[0]), active[worst[0]].name


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
        _add(capacity, dict.fromkeys(server.size, 0.0) | dict(server.room))
    for node in nodes:
        _add(used, node.used)
    return {r: Total(amount, used.get(r, 0.0)) for r, amount in capacity.items()}


def _add(total: dict[str, float], amounts: Mapping[str, float]) -> None:
    for resource, amount in amounts.items():
        total[resource] = total.get(resource, 0.0) + amount


def _notes(live: SlurmCluster) -> list[str]:
    known = {name for node in live.picture.nodes.values() for name in node.partitions}
    strange = [name for name in live.site.partitions if name not in known]
    return [f"no node is in the managed partition {name}" for name in strange]
