"""``drf``: Dominant Resource Fairness on the pool as if it were one server."""

from __future__ import annotations

from drfh.allocation.placement import Solution
from drfh.allocation.problem import Problem
from drfh.mechanisms.pooled import one_server
from drfh.mechanisms.shared.leximin import lexicographic, placed

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
        pareto: yes if one server; Ghodsi et al. 2011, section 6
        envy-free: yes if one server; Ghodsi et al. 2011, section 6
        truthful: yes if one server; Ghodsi et al. 2011, section 6
        group-truthful: yes if one server; Parkes, Procaccia, Shah 2015
        sharing-incentive: yes if one server, endless tasks; Ghodsi et al. 2011, section 6
        population-monotone: yes if one server, positive demands; Ghodsi et al. 2011, section 6
        single-server: yes; it is DRF there
        single-resource: yes if one server; Ghodsi et al. 2011, section 3
        bottleneck-fair: yes if one server, positive demands; Ghodsi et al. 2011, section 3
        resource-monotone: no; Ghodsi et al. 2011, section 6
        promise-kept: no; the pool is not one server

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 9, "memory": 18})])
    >>> users = [User("a", {"cpu": 1, "memory": 4}), User("b", {"cpu": 3, "memory": 1})]
    >>> [round(t, 9) for t in allocate(cluster, users, mechanism="drf").tasks.values()]
    [3.0, 2.0]
    """
    promise = lexicographic(one_server(problem), method="single-pool")
    return placed(problem, promise, method=method)
