"""``cdrf``: Constrained DRF, task shares measured with the restrictions."""

from __future__ import annotations

import numpy as np

from drfh.allocation.placement import Solution
from drfh.allocation.problem import Floats, PerTask, Problem
from drfh.mechanisms.shared.leximin import lexicographic
from drfh.mechanisms.solvers.presolve import tasks_alone

__all__ = ["cdrf"]


def _one_task(problem: Problem) -> Floats:
    alone = tasks_alone(problem)
    # Who can run nothing has a cap of 0 anyway.
    return 1 / np.where(alone > 0, alone, 1.0)


_CONSTRAINED_TASK_SHARE = PerTask(_one_task)


def cdrf(problem: Problem, *, method: str = "auto") -> Solution:
    """Equalise the part of its tasks that each user could run alone where it may run.

    Definition
        h_i is how many tasks user i could run if it had all servers that it may use for itself,
        its number of tasks ignored. Leximin of tasks/(h_i·weight).

    Paper
        The constrained variant that Wang et al. (SC 2016) compare TSF with.

    Properties
        pareto: yes; a leximin point leaves nobody room
        truthful: no; claiming servers that one cannot use lowers one's level
        sharing-incentive: yes if endless tasks; the equal split puts everybody at level 1/n
        single-server: yes; h_i is 1/s_i there
        resource-monotone: no; on one server it is DRF

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": c}, name=f"s{c}") for c in (3, 1, 6)])
    >>> users = [User("a", {"cpu": 1}, servers="s3"), User("b", {"cpu": 1}, servers="s6"),
    ...          User("c", {"cpu": 1}, servers=["s3", "s6"])]
    >>> [round(t, 9) for t in allocate(cluster, users, mechanism="cdrf").tasks.values()]
    [1.5, 3.0, 4.5]
    """
    return lexicographic(problem, _CONSTRAINED_TASK_SHARE, method=method)
