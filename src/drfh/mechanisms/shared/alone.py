"""How much a user could run if it had servers all to itself."""

from __future__ import annotations

import math

import numpy as np

from drfh.allocation.problem import Floats, Problem
from drfh.mechanisms.solvers.presolve import Classes

__all__ = ["tasks_alone"]

_CHUNK = 4_000_000  # numbers in one temporary array


def tasks_alone(problem: Problem) -> Floats:
    """Return the tasks of each user with all the servers it may use; its own number is ignored.

    Examples
    --------
    >>> from drfh import Cluster, Server, User
    >>> cluster = Cluster([Server({"cpu": 6, "memory": 1}), Server({"cpu": 1, "memory": 6})])
    >>> tasks_alone(Problem.build(cluster, [User("a", {"cpu": 1, "memory": 1})]))
    array([2.])
    """
    classes = Classes.of(problem)
    d, c = classes.direction, classes.capacity
    share = np.empty(len(d))
    step = max(1, _CHUNK // c.size)
    for start in range(0, len(d), step):
        rows = slice(start, start + step)
        alone = np.full((len(d[rows]), len(c)), math.inf)
        for r in range(d.shape[1]):
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = c[:, r] / d[rows, r][:, None]
            np.minimum(alone, np.where(d[rows, r][:, None] > 0, ratio, math.inf), out=alone)
        alone[~classes.usable[rows]] = 0.0
        share[rows] = alone.sum(axis=1)
    tasks: Floats = share[classes.user_class] / problem.task_share
    return tasks
