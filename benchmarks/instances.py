"""The instances that the benchmarks run on.

- Hard: log demand ~ N(0, 0.3), log capacity ~ N(0, 1). (On uniform random numbers one resource of
  the whole pool binds and the answer is trivial.)
- Google's cluster of 2011, with random users.
- Fleets: nodes of eight shapes, no two alike, in three zones, with GPUs, pools and taints.
- Mixtures: zero demands, servers that lack a resource, restrictions and finite tasks at random.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drfh import Cluster, Kind, User, load_scenario
from drfh.allocation.problem import Problem

Floats = NDArray[np.float64]
RESOURCES = ("cpu", "memory", "gpu", "disk")
Case = tuple[Cluster, list[User]]


@dataclass(frozen=True)
class Instance:
    """Ready-made records, and the same as normalised arrays for solvers of linear programs.

    Attributes
    ----------
    direction : array, users × resources
        Demand in shares of the pool, largest entry 1.
    capacity : array, server groups × resources
        In shares of the pool.
    """

    name: str
    cluster: Cluster
    users: list[User]
    direction: Floats
    capacity: Floats


def _finish(name: str, cluster: Cluster, demand: Floats) -> Instance:
    names = RESOURCES[: demand.shape[1]]
    users = [
        User(f"u{i}", dict(zip(names, row, strict=True))) for i, row in enumerate(demand.tolist())
    ]
    share = demand / cluster.totals
    capacity = cluster.capacity * cluster.counts[:, None] / cluster.totals
    return Instance(name, cluster, users, share / share.max(axis=1, keepdims=True), capacity)


def hard(users: int, servers: int, resources: int, seed: int = 0) -> Instance:
    """Return a random hard instance; every server is different."""
    random = np.random.default_rng(seed)
    demand = np.exp(random.normal(0, 0.3, (users, resources)))
    capacity = np.exp(random.normal(0, 1, (servers, resources)))
    cluster = Cluster.from_arrays(capacity, RESOURCES[:resources])
    return _finish(f"hard {users:,} × {servers:,}, m = {resources}", cluster, demand)


def google(users: int = 933, seed: int = 0, size: float = 1.0) -> Instance:
    """Return Google's 12,583 servers (Table I of the paper) with random users."""
    random = np.random.default_rng(seed)
    cluster = load_scenario("google-2011").cluster
    demand = size * np.exp(random.normal(0, 0.3, (users, 2)))
    return _finish(f"Google, {users} users", cluster, demand)


def merged(instance: Instance) -> Instance:
    """Return the instance with proportional server groups joined, as a rival would be given it."""
    rows = instance.capacity
    key = np.round(rows / rows.max(axis=1, keepdims=True), 12)
    _, member = np.unique(key, axis=0, return_inverse=True)
    joined = np.zeros((int(member.max()) + 1, rows.shape[1]))
    np.add.at(joined, member, rows)
    return Instance(instance.name, instance.cluster, instance.users, instance.direction, joined)


# Shapes of nodes: part of the fleet, CPUs, GiB of memory and of disk, GPUs, pool.
SHAPES = (
    (0.25, 32, 128, 200, 0, "general"),
    (0.20, 64, 256, 400, 0, "general"),
    (0.15, 16, 128, 200, 0, "memory"),
    (0.10, 48, 768, 800, 0, "memory"),
    (0.10, 96, 192, 200, 0, "compute"),
    (0.05, 24, 96, 8_000, 0, "storage"),
    (0.10, 64, 512, 1_600, 8, "gpu"),
    (0.05, 32, 256, 400, 4, "gpu"),
)
ZONES, POOLS = ("a", "b", "c"), ("general", "memory", "compute", "storage")


def fleet(users: int, servers: int, *, kinds: int = 1, seed: int = 0) -> Case:
    """Return distinct nodes with labels and taints, and teams with tasks.

    What a node has left for tasks differs from node to node. GPU nodes are tainted: of the tasks
    that need no GPU one in twelve tolerates that. One in five of those is bound to one pool, and a
    quarter of all to two of the zones; half are finite. A team has as many sorts as it has kinds.
    """
    random = np.random.default_rng(seed)
    parts, *_ = zip(*SHAPES, strict=True)
    shape = random.choice(len(SHAPES), servers, p=parts)
    amounts = np.array([row[1:5] for row in SHAPES], dtype=float)[shape]
    amounts[:, :3] *= 1 - random.uniform(0.02, 0.12, (servers, 3))  # the system's own part
    labels = [
        {"zone": ZONES[zone], "pool": SHAPES[s][5]}
        for s, zone in zip(shape.tolist(), random.integers(0, 3, servers).tolist(), strict=True)
    ]
    names = ("cpu", "memory", "disk", "gpu")
    cluster = Cluster.from_arrays(amounts, names, labels=labels)

    def some_kind() -> tuple[dict[str, float], dict[str, list[str]] | None, float | None]:
        cpu = float(np.exp(random.normal(0.7, 0.8)))
        demand = {
            "cpu": cpu,
            "memory": cpu * float(np.exp(random.normal(1.3, 0.8))),
            "disk": cpu * float(np.exp(random.normal(0.5, 1.2))) if random.random() < 0.4 else 0.0,
            "gpu": float(random.choice((1, 2, 4))) if random.random() < 0.3 else 0.0,
        }
        where: dict[str, list[str]] = {}
        if demand["gpu"]:
            where["pool"] = ["gpu"]
        elif random.random() < 0.2:
            where["pool"] = [str(random.choice(POOLS))]
        elif random.random() < 0.9:
            where["pool"] = list(POOLS)
        if random.random() < 0.25:
            where["zone"] = [str(zone) for zone in random.choice(ZONES, 2, replace=False)]
        share = max(demand[name] / total for name, total in zip(names, cluster.totals, strict=True))
        finite = random.random() < 0.5
        tasks = float(1 + int(np.exp(random.normal(0, 1.5)) / (share * users * kinds)))
        return demand, where or None, tasks if finite else None

    made = []
    for i in range(users):
        weight = float(random.choice((1, 1, 1, 2, 4)))
        drawn = [some_kind() for _ in range(kinds)]
        if kinds == 1:
            ((demand, where, tasks),) = drawn
            made.append(User(f"team-{i}", demand, weight=weight, tasks=tasks, servers=where))
        else:
            listed = [Kind(demand, tasks=tasks, servers=where) for demand, where, tasks in drawn]
            made.append(User(f"team-{i}", kinds=listed, weight=weight))
    return cluster, made


def mixture(servers: int, users: int, resources: int, zone_count: int = 20, seed: int = 0) -> Case:
    """Return a mixture of zero demands, restrictions and finite tasks.

    Three in ten demands are 0, a tenth of the servers lacks a resource, four in ten users are bound
    to one to three of the zones, and half have finite tasks.
    """
    random = np.random.default_rng(seed)
    names = RESOURCES[:resources]
    capacity = np.exp(random.normal(0, 0.7, (servers, resources)))
    lacking = np.flatnonzero(random.random(servers) < 0.1)
    capacity[lacking, random.integers(0, resources, len(lacking))] = 0.0
    demand = np.exp(random.normal(0, 0.7, (users, resources))) * 0.01
    demand[random.random((users, resources)) < 0.3] = 0.0
    demand[demand.max(axis=1) == 0, 0] = 0.01
    labels = [{"zone": str(zone)} for zone in random.integers(0, zone_count, servers)]
    cluster = Cluster.from_arrays(capacity, names, labels=labels)
    fair = 1 / (demand / capacity.sum(axis=0)).max(axis=1) / users
    made = []
    for i, row in enumerate(demand.tolist()):
        some = random.choice(zone_count, random.integers(1, 4), replace=False)
        restricted, finite = random.random(2) < (0.4, 0.5)
        made.append(
            User(
                f"u{i}",
                dict(zip(names, row, strict=True)),
                servers={"zone": [str(zone) for zone in some]} if restricted else None,
                tasks=float(int(fair[i] * np.exp(random.normal(0, 1.5))) + 1) if finite else None,
            )
        )
    return cluster, made


def usable_pairs(problem: Problem) -> NDArray[np.bool_]:
    """Return which user may use which server."""
    usable = problem.usable_on(np.arange(len(problem.blocks)))
    return np.ones((len(problem.users), len(problem.blocks)), bool) if usable is None else usable
