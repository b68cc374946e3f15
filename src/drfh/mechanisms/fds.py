"""``fds``: fairness on dominant shares."""

from __future__ import annotations

from drfh.allocation.placement import Solution
from drfh.allocation.problem import Floats, Problem
from drfh.mechanisms.shared.welfare import most_welfare, objective, power_welfare

__all__ = ["fds", "fds_objective"]


def fds(problem: Problem, *, beta: float = 2, lam: float | None = None) -> Solution:
    """Maximise fairness on dominant shares: as fair as beta says, as efficient as lam says.

    Definition
        With y_i the dominant share of user i, maximise
        sgn(1−β)·(Σ_i (y_i/Σy)^(1−β))^(1/β)·(Σy)^λ. A user of weight w counts as w users that
        have y_i/w each: then β = 1 is weighted Nash welfare, β → ∞ DRFH. Users that can have
        nothing are left out.

    Paper
        Joe-Wong, Sen, Lan, Chiang: Multi-resource allocation: fairness-efficiency tradeoffs in a
        unifying framework, INFOCOM 2012 and ToN 2013; here on many servers.

    Properties
        pareto: yes; Joe-Wong et al. 2013, for |λ| ≥ |1−β|/β
        envy-free: yes if default parameters; who holds more dominant share holds what costs less
            (β > 1, λ = (1−β)/β)
        sharing-incentive: yes if one server, endless tasks, default parameters; Joe-Wong et al.
            2013 (β > 1, λ = (1−β)/β)

    Parameters
    ----------
    problem
        Cluster and users.
    beta
        How much fairness counts, from 0.2 to 20. The properties are those of the default, 2.
    lam
        How much the total counts: at most (1−β)/β for β > 1, at least that for β < 1 (else the
        problem is not convex). By default just that: the α-fair allocation with α = β.

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 9, "memory": 18})])
    >>> users = [User("a", {"cpu": 1, "memory": 4}), User("b", {"cpu": 3, "memory": 1})]
    >>> [round(t, 4) for t in allocate(cluster, users, mechanism="fds", beta=5).tasks.values()]
    [3.2834, 1.9055]
    """
    return most_welfare(problem, power_welfare("fds", beta, lam, of_tasks=False))


def fds_objective(
    problem: Problem, tasks: Floats, *, beta: float = 2, lam: float | None = None
) -> float:
    """Return the value that ``fds`` maximises, for given tasks of all users.

    Examples
    --------
    >>> from drfh import Cluster, Server, User
    >>> users = [User("a", {"cpu": 1, "memory": 4}), User("b", {"cpu": 3, "memory": 1})]
    >>> problem = Problem.build(Cluster([Server({"cpu": 9, "memory": 18})]), users)
    >>> import numpy as np
    >>> round(fds_objective(problem, np.array([3, 2])) ** 2, 9)
    3.0
    """
    return objective("fds", problem, tasks * problem.task_share, beta, lam)
