"""``gfj``: generalised fairness on jobs."""

from __future__ import annotations

import numpy as np

from drfh.allocation.placement import Solution
from drfh.allocation.problem import Floats, Problem
from drfh.mechanisms.shared.welfare import most_welfare, objective, power_welfare

__all__ = ["gfj", "gfj_objective"]


def gfj(problem: Problem, *, beta: float = 2, lam: float | None = None) -> Solution:
    """Maximise fairness on numbers of tasks: as fair as beta says, as efficient as lam says.

    Definition
        As ``fds``, with y_i the tasks of user i: β = 1 is weighted Nash welfare, β → ∞ tasks in
        proportion to the weights.

    Paper
        Joe-Wong, Sen, Lan, Chiang: Multi-resource allocation: fairness-efficiency tradeoffs in a
        unifying framework, INFOCOM 2012 and ToN 2013; here on many servers.

    Properties
        pareto: yes; Joe-Wong et al. 2013, for |λ| ≥ |1−β|/β

    Parameters
    ----------
    problem
        Cluster and users.
    beta, lam
        See :func:`fds`.

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 9, "memory": 18})])
    >>> users = [User("a", {"cpu": 1, "memory": 4}), User("b", {"cpu": 3, "memory": 1})]
    >>> [round(t, 4) for t in allocate(cluster, users, mechanism="gfj", beta=5).tasks.values()]
    [2.6407, 2.1198]
    """
    return most_welfare(problem, power_welfare("gfj", beta, lam, of_tasks=True))


def gfj_objective(
    problem: Problem, tasks: Floats, *, beta: float = 2, lam: float | None = None
) -> float:
    """Return the value that ``gfj`` maximises, for given tasks of all users.

    Examples
    --------
    >>> from drfh import Cluster, Server, User
    >>> users = [User("a", {"cpu": 1, "memory": 4}), User("b", {"cpu": 3, "memory": 1})]
    >>> problem = Problem.build(Cluster([Server({"cpu": 9, "memory": 18})]), users)
    >>> round(gfj_objective(problem, np.array([3, 2])) ** 2 * 6, 9)
    5.0
    """
    return objective("gfj", problem, np.asarray(tasks, dtype=float), beta, lam)
