"""``utilitarian``: the most tasks in total, whoever they belong to."""

from __future__ import annotations

from drfh.allocation.placement import Solution
from drfh.allocation.problem import Problem
from drfh.allocation.proofs.welfare import PowerWelfare
from drfh.mechanisms.shared.welfare import best_proof, placed_classes, within_floats
from drfh.mechanisms.solvers.presolve import Classes

__all__ = ["utilitarian"]


def utilitarian(problem: Problem) -> Solution:
    """Run as many tasks in total as the servers hold.

    Definition
        Maximise Σ_i tasks_i. Weights do not matter. Where several allocations are best, one of
        them is taken, always the same.

    Paper
        The benchmark of every price of fairness, as in Joe-Wong et al. (INFOCOM 2012).

    Properties
        order-of-users: no; one of several best allocations is taken
        order-of-servers: no; one of several best allocations is taken
        units: no; one of several best allocations is taken
        pareto: yes; who could run more would raise the total
        envy-free: no; a user with large tasks may get nothing
        sharing-incentive: no; a user with large tasks may get nothing
        truthful: no; asking for less than a task needs makes it the better choice
        single-server: no; it is not DRF there

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 9, "memory": 18})])
    >>> users = [User("a", {"cpu": 1, "memory": 1}), User("b", {"cpu": 3, "memory": 1})]
    >>> allocate(cluster, users, mechanism="utilitarian").tasks
    {'a': 9.0, 'b': 0.0}
    """
    from drfh.mechanisms.solvers.most_tasks import most_tasks

    welfare = PowerWelfare(beta=0, of_tasks=True)
    with within_floats():
        classes = Classes.of(problem)
        share, amount, prices, worth = most_tasks(classes, welfare.unit(problem))
        placement = placed_classes(classes, share, amount)
        proof = best_proof(classes, placement, welfare, prices, worth)
    return Solution(placement, proof, "simplex")
