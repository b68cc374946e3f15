"""The instances that the benchmarks run on: the *hard* family, and Google's cluster.

Hard: log demand ~ N(0, 0.3), log capacity ~ N(0, 1). (On uniform random numbers one resource of
the whole pool binds and the answer is trivial.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from drfh import Cluster, User, load_scenario

Floats = NDArray[np.float64]
RESOURCES = ("cpu", "memory", "gpu", "disk")


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
