"""``bbf``: bottleneck-based fairness, an allocation that leaves no justified complaint."""

from __future__ import annotations

import numpy as np

from drfh.allocation.placement import Solution
from drfh.allocation.problem import Floats, Problem
from drfh.errors import InputError
from drfh.mechanisms.nash import nash
from drfh.mechanisms.pooled import one_server
from drfh.mechanisms.shared.leximin import placed

__all__ = ["bbf", "complaints"]

_TOLERANCE = 1e-6


def bbf(problem: Problem) -> Solution:
    """Promise tasks on the pool that leave nobody a justified complaint; place what can be placed.

    Definition
        A user complains justly if it has not all its tasks and holds less than its entitlement,
        weight/Σ weights, of every resource of the pool that is used up. Many allocations leave
        no complaint; this is that of the largest weighted product of tasks. It is promised on
        one server that has all resources of the pool, then placed on the real servers.

    Paper
        Dolev, Feitelson, Halpern, Kupferman, Linial: No justified complaints, ITCS 2012; Gutman,
        Nisan: Fair allocation without trade, AAMAS 2012 (the equilibrium is such an allocation).

    Properties
        pareto: yes if one server; the product grows with everybody's tasks
        envy-free: yes if one server; all pay the same prices, out of their weights
        sharing-incentive: yes if one server, endless tasks; everybody can afford its part
        truthful: no; on one server it is nash

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 9, "memory": 18})])
    >>> users = [User("a", {"cpu": 1, "memory": 4}), User("b", {"cpu": 3, "memory": 1})]
    >>> [round(t, 4) for t in allocate(cluster, users, mechanism="bbf").tasks.values()]
    [4.0909, 1.6364]
    """
    return placed(problem, nash(one_server(problem)))


def complaints(
    problem: Problem,
    tasks: Floats,
    *,
    entitlements: Floats | None = None,
    tolerance: float = _TOLERANCE,
) -> dict[str, float]:
    """Return who complains justly on the pool, and what part of its entitlement it lacks.

    Parameters
    ----------
    problem
        Users, and the cluster as one pool.
    tasks
        Of every user.
    entitlements
        Part of the pool that each user may claim; by default in proportion to the weights.
    tolerance
        How much of a resource may be free though it counts as used up, and how much of an
        entitlement or of its tasks a user may lack though it does not complain.

    Examples
    --------
    >>> from drfh import Cluster, Server, User
    >>> users = [User("a", {"cpu": 1, "memory": 4}), User("b", {"cpu": 3, "memory": 1})]
    >>> problem = Problem.build(Cluster([Server({"cpu": 9, "memory": 18})]), users)
    >>> lacks = complaints(problem, np.array([3.0, 2.0]))  # DRF: only cpu is used up
    >>> {name: round(part, 4) for name, part in lacks.items()}
    {'a': 0.3333}
    """
    given = np.asarray(tasks, dtype=float)
    entitled = problem.weight / problem.weight.sum() if entitlements is None else entitlements
    entitled = np.asarray(entitled, dtype=float)
    for field, values in (("tasks", given), ("entitlements", entitled)):
        if values.shape != problem.weight.shape or not (values >= 0).all():
            raise InputError(field, "must be a number ≥ 0 for every user", values.tolist())
    held = given[:, None] * problem.task_share[:, None] * problem.direction
    used_up = held.sum(axis=0) >= 1 - tolerance
    best = held[:, used_up].max(axis=1, initial=0.0)
    lacking = 1 - best / np.where(entitled > 0, entitled, np.inf)
    lacking[(entitled <= 0) | (given >= problem.limit * (1 - tolerance))] = 0.0
    names = problem.names()
    return {names[i]: float(lacking[i]) for i in np.flatnonzero(lacking > tolerance)}
