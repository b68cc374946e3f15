"""``cautious-lp``: users arrive one by one, and the worst is still to come."""

from __future__ import annotations

import numpy as np

from drfh.allocation.placement import Solution
from drfh.allocation.problem import Floats, Problem, water_level
from drfh.mechanisms.dynamic_drf import steps
from drfh.mechanisms.shared.leximin import placed

__all__ = ["cautious_lp", "cautious_lp_steps"]


def cautious_lp(problem: Problem, *, method: str = "auto") -> Solution:
    """Raise those that have arrived only as far as the worst newcomers would leave room.

    Definition
        Users arrive in the order of listing; their number (with weights: the sum of the weights)
        is known. After each arrival everybody has the highest level that could still be given to
        all, even if each user to come needed every resource as much as any. The promise on the
        pool after the last arrival is then placed on the servers, leximin of placed/promised.

    Paper
        Kash, Procaccia, Shah: No agent left behind: dynamic fair division of multiple resources,
        JAIR 51, 2014.

    Properties
        envy-free: yes if one server, endless tasks, positive demands; Kash, Procaccia, Shah 2014
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
    >>> [round(t, 6) for t in allocate(cluster, users, mechanism="cautious-lp").tasks.values()]
    [0.666667, 0.666667]
    """
    return placed(problem, cautious_lp_steps(problem)[-1] / problem.task_share, method=method)


def cautious_lp_steps(problem: Problem) -> list[Floats]:
    """Return the shares of those that have arrived after each arrival.

    Examples
    --------
    >>> from drfh import Cluster, Server, User
    >>> cluster = Cluster([Server({"cpu": 1, "memory": 1})])
    >>> users = [User("a", {"cpu": 1}), User("b", {"memory": 1})]
    >>> [step.tolist() for step in cautious_lp_steps(Problem.build(cluster, users))]
    [[0.5], [1.0, 1.0]]
    """

    def level(k: int, share: Floats, cap: Floats) -> float:
        # All that are still to come, as one user that needs everything and has no end of tasks.
        weight = np.append(problem.weight[:k], problem.weight[k:].sum())
        most = np.append(cap, np.inf)
        return min(
            water_level(np.append(column[:k], 1.0), weight, most, 1.0)
            for column in problem.direction[:, problem.demand.any(axis=0)].T
        )

    return steps(problem, level)
