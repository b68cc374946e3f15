"""``asset-fairness``: equalise the sum of the shares of all resources."""

from __future__ import annotations

from drfh.allocation.placement import Solution
from drfh.allocation.problem import Problem
from drfh.mechanisms.norm import norm

__all__ = ["asset_fairness"]


def asset_fairness(problem: Problem, *, method: str = "auto") -> Solution:
    """Equalise the sum of the shares of all resources that each user holds.

    Definition
        Leximin of tasks·Σ_r D_ir/T_r/weight over all placements.

    Paper
        Ghodsi et al. (NSDI 2011), section 5.1; here on many servers.

    Properties
        pareto: yes; a leximin point leaves nobody room
        envy-free: yes; Lemma B of the mathematics page
        truthful: yes; Lemma A of the mathematics page, the sum grows with every demand
        group-truthful: yes; Lemma A of the mathematics page
        single-resource: yes if no restrictions; the only share is the sum
        sharing-incentive: no; Ghodsi et al. 2011, section 5.1
        bottleneck-fair: no; Ghodsi et al. 2011, table 2
        resource-monotone: no; Ghodsi et al. 2011, table 2

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 9, "memory": 18})])
    >>> users = [User("a", {"cpu": 1, "memory": 4}), User("b", {"cpu": 3, "memory": 1})]
    >>> [round(t, 9) for t in allocate(cluster, users, mechanism="asset-fairness").tasks.values()]
    [2.52, 2.16]
    """
    return norm(problem, p=1, method=method)
