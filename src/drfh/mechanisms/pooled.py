"""``pooled:MECHANISM``: any mechanism on the pool as if it were one server, then placed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from drfh.allocation.placement import Solution
from drfh.allocation.problem import Blocks, Problem
from drfh.mechanisms.shared.leximin import placed
from drfh.model.cluster import Cluster

__all__ = ["one_server", "pooled"]


def one_server(problem: Problem) -> Problem:
    """Return the problem on one server that has all resources of the pool; nobody is restricted.

    Examples
    --------
    >>> from drfh import Cluster, Server, User
    >>> cluster = Cluster([Server({"cpu": 2}), Server({"cpu": 3})])
    >>> one_server(Problem.build(cluster, [User("a", {"cpu": 1})])).cluster
    Cluster(1 server in 1 group: cpu 5)
    """
    zero = np.zeros(1, dtype=np.int64)
    return replace(
        problem,
        cluster=Cluster.from_arrays(problem.cluster.totals[None, :], problem.cluster.resources),
        blocks=Blocks(zero, zero, zero + 1),
        eligible=None,
        restriction=None,
    )


def pooled(problem: Problem, *, mechanism: Callable[[Problem], Solution]) -> Solution:
    """Promise what a mechanism gives on the summed-up pool; place what can be placed of it.

    Definition
        The promise is the mechanism's answer on one server that has all resources of the pool.
        What is placed is leximin of placed/promised, at most 1, over the real servers.

    Paper
        The way schedulers in use compute shares of many servers; the gap is the subject of Wang,
        Li, Liang (INFOCOM 2014), section III-D.

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 2, "memory": 12}), Server({"cpu": 12, "memory": 2})])
    >>> users = [User("a", {"cpu": 0.2, "memory": 1}), User("b", {"cpu": 1, "memory": 0.2})]
    >>> answer = allocate(cluster, users, mechanism="pooled:asset-fairness")
    >>> [round(t, 3) for t in answer.promised.values()]
    [11.667, 11.667]
    >>> [round(t, 3) for t in answer.tasks.values()]
    [10.0, 10.0]
    """
    return placed(problem, mechanism(one_server(problem)))
