"""``dynamic-drf``: users arrive one by one and never leave."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from drfh.allocation.placement import Solution
from drfh.allocation.problem import Floats, Problem, water_level_above
from drfh.mechanisms.pooled import one_server
from drfh.mechanisms.shared.leximin import placed

__all__ = ["dynamic_drf", "dynamic_drf_steps", "steps"]


def steps(problem: Problem, level: Callable[[int, Floats, Floats], float]) -> list[Floats]:
    """Return the shares after each arrival: raised to a level, and never taken back.

    Parameters
    ----------
    problem
        Cluster and users, in the order of their arrival.
    level
        From how many have arrived, what they have and the most they may have, to the level.
    """
    cap = one_server(problem).share_limit
    share = np.zeros(0)
    after = []
    for k in range(1, len(cap) + 1):
        share = np.append(share, 0.0)
        reached = problem.weight[:k] * level(k, share, cap[:k])
        share = np.maximum(share, np.minimum(reached, cap[:k]))
        after.append(share)
    return after


def dynamic_drf(problem: Problem, *, method: str = "auto") -> Solution:
    """Raise the lowest of those that have arrived, within the part of the pool that is theirs.

    Definition
        Users arrive in the order of listing; their number (with weights: the sum of the weights)
        is known. When the k-th arrives, the pool's part that belongs to the first k, k/n, is
        opened, and the level below which nobody stays is raised as far as it allows; nobody loses
        what it has. The promise on the pool after the last arrival is then placed on the servers,
        leximin of placed/promised.

    Paper
        Kash, Procaccia, Shah: No agent left behind: dynamic fair division of multiple resources,
        JAIR 51, 2014.

    Properties
        order-of-users: no; users arrive in this order
        sharing-incentive: yes if one server, endless tasks, positive demands; Kash, Procaccia,
            Shah 2014
        truthful: yes if one server, endless tasks, positive demands; Kash, Procaccia, Shah 2014

    Parameters
    ----------
    problem
        Cluster and users.
    method
        How to place, see :func:`~drfh.mechanisms.drfh.drfh`.

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 1, "memory": 1})])
    >>> users = [User("a", {"cpu": 1, "memory": 0.5}), User("b", {"cpu": 0.5, "memory": 1})]
    >>> [round(t, 6) for t in allocate(cluster, users, mechanism="dynamic-drf").tasks.values()]
    [0.666667, 0.666667]
    """
    return placed(problem, dynamic_drf_steps(problem)[-1] / problem.task_share, method=method)


def dynamic_drf_steps(problem: Problem) -> list[Floats]:
    """Return the shares of those that have arrived after each arrival.

    Examples
    --------
    >>> from drfh import Cluster, Server, User
    >>> cluster = Cluster([Server({"cpu": 1})])
    >>> users = [User(name, {"cpu": 1}) for name in "ab"]
    >>> [step.tolist() for step in dynamic_drf_steps(Problem.build(cluster, users))]
    [[0.5], [0.5, 0.5]]
    """
    arrived = np.cumsum(problem.weight) / problem.weight.sum()

    def level(k: int, share: Floats, cap: Floats) -> float:
        return min(
            water_level_above(column[:k], problem.weight[:k], share, cap, float(arrived[k - 1]))
            for column in problem.direction.T
        )

    return steps(problem, level)
