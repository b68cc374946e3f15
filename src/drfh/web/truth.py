"""What a liar can really run with what it is given."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from drfh.allocation import Allocation
from drfh.auditor.bundles import Bundles
from drfh.auditor.case import Case
from drfh.auditor.lies import utility
from drfh.errors import InputError
from drfh.files import Scenario
from drfh.mechanisms import Solution
from drfh.problem import Problem
from drfh.web.editing import unrestricted
from drfh.workload import User

__all__ = ["real_tasks"]


def real_tasks(allocation: Allocation, truths: Mapping[str, User]) -> dict[str, float]:
    """Return the true tasks of every liar, as the auditor counts them.

    Parameters
    ----------
    allocation
        The answer to what the users report.
    truths
        The true record of every user that lies.

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> told = allocate(Cluster([Server({"cpu": 8})]), [User("ann", {"cpu": 2})])
    >>> real_tasks(told, {"ann": User("ann", {"cpu": 1})})
    {'ann': 8.0}
    """
    return {name: _real(allocation, name, truth) for name, truth in truths.items()}


def _real(allocation: Allocation, name: str, truth: User) -> float:
    told = allocation.problem
    position = told.names().index(name)
    # Of the others only the number matters, and to resolve their restrictions takes long.
    users = [unrestricted(user) for user in told.users]
    users[position] = truth
    try:
        problem = Problem.build(told.cluster, users)
    except InputError:
        return 0.0  # it truly needs what no server has any more
    nothing = np.zeros(0, dtype=np.int64)
    empty = np.zeros((0, problem.demand.shape[1]))
    bundles = Bundles(problem, nothing, nothing, empty, whole=allocation.whole)
    case = Case(Scenario(told.cluster, tuple(users)), bundles)
    return utility(case, Solution(allocation.assignment), position)
