"""``sequential-min-max``: whole tasks, so that the largest level grows as slowly as it can."""

from __future__ import annotations

import numpy as np

from drfh.allocation.placement import Solution
from drfh.allocation.problem import Ints, Problem
from drfh.mechanisms.shared.progressive_filling import fill_whole_tasks, filling_order

__all__ = ["sequential_min_max", "sequential_min_max_order"]


def sequential_min_max(problem: Problem, *, reference: str | None = None) -> Solution:
    """Place whole tasks one by one, each where the level that it leads to is lowest.

    Definition
        Again and again one task to the user with the smallest (x_i + 1)·s_i/weight among those
        whose task still fits on some server; ties to the user listed first. The server is chosen
        by Best-Fit.

    Paper
        Parkes, Procaccia, Shah: Beyond dominant resource fairness: extensions, limitations, and
        indivisibilities, TEAC 2015; there on one server.

    Properties
        order-of-users: no; ties go to who is listed first
        order-of-servers: no; whole tasks go to the best fit, ties to the first
        pareto: yes if one server; Parkes, Procaccia, Shah 2015
        sharing-incentive: yes if one server, endless tasks; Parkes, Procaccia, Shah 2015
        truthful: no; no such rule is, Parkes, Procaccia, Shah 2015

    Parameters
    ----------
    problem
        Cluster and users.
    reference
        Resource that Best-Fit divides by: ``cpu`` if there is one, else the first, by default.

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 6, "memory": 6})])
    >>> users = [User("a", {"cpu": 1, "memory": 1}), User("b", {"cpu": 4, "memory": 3})]
    >>> allocate(cluster, users, mechanism="sequential-min-max").tasks
    {'a': 6.0, 'b': 0.0}
    """
    placement = fill_whole_tasks(problem, reference=reference, ahead=True)
    return Solution(placement, method="best-fit filling", whole=True)


def sequential_min_max_order(problem: Problem, *, reference: str | None = None) -> Ints:
    """Return the users in the order in which they get their tasks.

    Examples
    --------
    >>> from drfh import Cluster, Server, User
    >>> cluster = Cluster([Server({"cpu": 9, "memory": 18})])
    >>> users = [User("a", {"cpu": 1, "memory": 4}), User("b", {"cpu": 3, "memory": 1})]
    >>> sequential_min_max_order(Problem.build(cluster, users)).tolist()
    [0, 1, 0, 0, 1]
    """
    pieces = filling_order(problem, reference=reference, ahead=True)
    return np.concatenate([user.copy() for user, _ in pieces])
