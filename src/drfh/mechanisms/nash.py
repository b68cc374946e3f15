"""``nash``: the largest product of tasks, the competitive equilibrium from equal incomes."""

from __future__ import annotations

from drfh.allocation.placement import Solution
from drfh.allocation.problem import Problem
from drfh.allocation.proofs.welfare import PowerWelfare
from drfh.mechanisms.shared.welfare import most_welfare

__all__ = ["nash"]


def nash(problem: Problem) -> Solution:
    """Maximise the weighted product of the users' tasks over all servers.

    Definition
        Maximise Σ_i weight_i·log(tasks_i). It is the market in which every user has its weight to
        spend and every resource of every server has a price (CEEI). A user that no server can
        serve, or that has no tasks, is left out.

    Paper
        Eisenberg, Gale (1959); CEEI in Ghodsi et al. (NSDI 2011), section 5.2; here on many
        servers.

    Properties
        pareto: yes; the product grows with everybody's tasks
        envy-free: yes; all pay the same prices, out of their weights
        sharing-incentive: yes if endless tasks; everybody can afford its part of every server
        single-resource: yes if no restrictions; one price, so tasks·demand follow the weights
        truthful: no; Ghodsi et al. 2011, section 5.2
        population-monotone: no; Ghodsi et al. 2011, table 2
        resource-monotone: no; Ghodsi et al. 2011, table 2

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 9, "memory": 18})])
    >>> users = [User("a", {"cpu": 1, "memory": 4}), User("b", {"cpu": 3, "memory": 1})]
    >>> [round(t, 4) for t in allocate(cluster, users, mechanism="nash").tasks.values()]
    [4.0909, 1.6364]
    """
    return most_welfare(problem, PowerWelfare(beta=1))
