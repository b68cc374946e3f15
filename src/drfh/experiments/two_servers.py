"""Fig. 1 to 3: two servers, two users, and why a server at a time is not enough."""

from __future__ import annotations

import numpy as np
import polars as pl

from drfh.allocation import Allocation
from drfh.files import load_scenario
from drfh.mechanisms import allocate

__all__ = ["two_servers_tables"]

_DIVISIBLE, _WHOLE = "divisible", "whole tasks"


def two_servers_tables() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return who has how much, and how full each server is.

    The first: ``mechanism``, ``kind`` (divisible or whole tasks), ``user``, ``tasks``, ``share``
    (global dominant). The second: ``mechanism``, ``kind``, ``server``, ``resource``, ``used``
    (a part of the server).

    Examples
    --------
    >>> two_servers_tables()[0].select("mechanism", "tasks").row(0)
    ('per-server-drf', 6.0)
    """
    scenario = load_scenario("paper-two-servers")
    found = [
        ("per-server-drf", _DIVISIBLE, _allocate(scenario, "per-server-drf")),
        ("drfh", _DIVISIBLE, _allocate(scenario, "drfh")),
        ("drfh", _WHOLE, _allocate(scenario, "drfh", whole_tasks=True)),
    ]
    users, use = [], []
    for mechanism, kind, allocation in found:
        # An exact solver stops a rounding away from 10.
        tasks = {name: float(f"{n:.12g}") for name, n in allocation.tasks.items()}
        users += [(mechanism, kind, u, n, allocation.shares[u]) for u, n in tasks.items()]
        use += [(mechanism, kind, *row) for row in _used(allocation)]
    return (
        pl.DataFrame(users, schema=["mechanism", "kind", "user", "tasks", "share"], orient="row"),
        pl.DataFrame(use, schema=["mechanism", "kind", "server", "resource", "used"], orient="row"),
    )


def _allocate(scenario: object, mechanism: str, *, whole_tasks: bool = False) -> Allocation:
    cluster, users = scenario.cluster, scenario.users  # type: ignore[attr-defined]
    return allocate(cluster, users, mechanism=mechanism, whole_tasks=whole_tasks)


def _used(allocation: Allocation) -> list[tuple[str, str, float]]:
    problem = allocation.problem
    cluster = problem.cluster
    place = {name: position for position, name in enumerate(cluster.names)}
    demand = dict(zip(problem.names(), problem.demand, strict=True))
    used = np.zeros_like(cluster.capacity)
    for user, group, tasks in allocation.placement().rows():
        used[place[group]] += tasks * demand[user]
    part = used / (cluster.capacity * cluster.counts[:, None])
    return [
        (server, resource, float(part[s, r]))
        for s, server in enumerate(cluster.names)
        for r, resource in enumerate(cluster.resources)
    ]
