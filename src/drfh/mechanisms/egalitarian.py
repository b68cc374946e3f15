"""``egalitarian``: equalise utilities that are measured in one resource."""

from __future__ import annotations

from drfh.allocation.placement import Solution
from drfh.allocation.problem import Problem
from drfh.errors import UnknownNameError
from drfh.mechanisms.max_min import max_min

__all__ = ["egalitarian"]


def egalitarian(
    problem: Problem, *, numeraire: str | None = None, method: str = "auto"
) -> Solution:
    """Equalise utilities that are measured in one fixed resource, the numeraire.

    Definition
        Utility is the share of the numeraire that a user's tasks use; leximin of utility/weight
        over all placements. Users that need none of it share what is left by dominant shares.

    Paper
        Li, Xue: Egalitarian division under Leontief preferences, Economic Theory 54, 2013; on
        many servers.

    Properties
        pareto: yes; a leximin point leaves nobody room
        envy-free: yes if positive demands; Lemma B of the mathematics page
        truthful: yes if positive demands; Lemma A of the mathematics page
        resource-monotone: yes if positive demands, no restrictions; one common level, and more
            fits
        single-resource: yes if no restrictions; it is the share of that resource
        sharing-incentive: no; who needs little of the numeraire pays for all

    Parameters
    ----------
    problem
        Cluster and users.
    numeraire
        Name of the resource: ``cpu`` if there is one, else the first, by default.
    method
        See :func:`~drfh.mechanisms.drfh.drfh`.

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 9, "memory": 18})])
    >>> users = [User("a", {"cpu": 1, "memory": 4}), User("b", {"cpu": 3, "memory": 1})]
    >>> [round(t, 6) for t in allocate(cluster, users, mechanism="egalitarian").tasks.values()]
    [4.153846, 1.384615]
    """
    names = problem.cluster.resources
    chosen = numeraire or ("cpu" if "cpu" in names else names[0])
    if chosen not in names:
        raise UnknownNameError("numeraire", str(chosen), names)
    return max_min(problem, resource=chosen, method=method)
