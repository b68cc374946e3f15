"""``drf``: Dominant Resource Fairness on the pool as if it were one server."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from drfh.cluster import Cluster
from drfh.mechanisms.drfh import choose_oracle
from drfh.mechanisms.solution import Solution
from drfh.mechanisms.solvers.closed_form import ProportionalServers
from drfh.mechanisms.solvers.leximin import leximin
from drfh.placement import Pools
from drfh.problem import Blocks, Problem

__all__ = ["drf"]


def drf(problem: Problem, *, method: str = "auto") -> Solution:
    """Equalise dominant shares on the summed-up pool; then place what can be placed.

    Definition
        The promise is leximin of s_i·tasks/weight on one server that has all resources of the
        pool. What is placed is leximin of placed/promised, at most 1, over the real servers.
        On a single server the promise is kept whole.

    Paper
        Ghodsi et al.: Dominant Resource Fairness: Fair Allocation of Multiple Resource Types,
        NSDI 2011, section 4; and the way schedulers in use apply it to many servers.

    Properties
        On one server: Pareto optimal, envy-free, truthful, sharing incentive, population
        monotone; not resource monotone. On many servers the promise need not fit.

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 9, "memory": 18})])
    >>> users = [User("a", {"cpu": 1, "memory": 4}), User("b", {"cpu": 3, "memory": 1})]
    >>> [round(t, 9) for t in allocate(cluster, users, mechanism="drf").tasks.values()]
    [3.0, 2.0]
    """
    one = Cluster.from_arrays(problem.cluster.totals[None, :], problem.cluster.resources)
    zero = np.zeros(1, dtype=np.int64)
    pooled = replace(
        problem,
        cluster=one,
        blocks=Blocks(zero, zero, zero + 1),
        eligible=None,
        restriction=None,
    )
    promise, _ = leximin(pooled, ProportionalServers(pooled, Pools.single(1)))
    promised = promise.user_tasks
    oracle, used = choose_oracle(problem, method)
    placement, certificate = leximin(problem, oracle, promised)
    return Solution(placement, certificate, used, promised)
