"""``tsf``: Task Share Fairness."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from drfh.allocation.placement import Solution
from drfh.allocation.problem import Floats, PerTask, Problem
from drfh.mechanisms.shared.leximin import lexicographic
from drfh.mechanisms.solvers.presolve import tasks_alone

__all__ = ["TASK_SHARE", "tsf"]


def _one_task(problem: Problem) -> Floats:
    alone = tasks_alone(replace(problem, eligible=None, restriction=None))
    # Who can run nothing has a cap of 0 anyway.
    return 1 / np.where(alone > 0, alone, 1.0)


TASK_SHARE = PerTask(_one_task)


def tsf(problem: Problem, *, method: str = "auto") -> Solution:
    """Equalise the part of its tasks that each user could run alone, restrictions removed.

    Definition
        h_i is how many tasks user i could run if it had all servers for itself, its restriction
        and its number of tasks ignored. Leximin of tasks/(h_i·weight).

    Paper
        Wang, Li, Li, Liang: Multi-resource fair sharing for datacenter jobs with placement
        constraints, SC 2016.

    Properties
        pareto: yes; a leximin point leaves nobody room
        envy-free: yes; Lemma B of the mathematics page
        truthful: yes; Lemma A of the mathematics page, for demands and restrictions
        group-truthful: yes; Lemma A of the mathematics page
        sharing-incentive: yes if no restrictions, endless tasks; the equal split puts everybody at
            level 1/n
        single-server: yes; h_i is 1/s_i there
        single-resource: yes if no restrictions; h_i is 1/s_i there
        resource-monotone: no; on one server it is DRF

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 6, "memory": 1}), Server({"cpu": 1, "memory": 6})])
    >>> users = [User("a", {"cpu": 1, "memory": 0.1}), User("b", {"cpu": 1, "memory": 1})]
    >>> [round(t, 6) for t in allocate(cluster, users, mechanism="tsf").tasks.values()]
    [5.185185, 1.481481]
    """
    return lexicographic(problem, TASK_SHARE, method=method)
