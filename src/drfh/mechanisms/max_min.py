"""``max-min:RESOURCE``: equalise the share of one resource."""

from __future__ import annotations

from functools import partial

from drfh.allocation.placement import Solution
from drfh.allocation.problem import Floats, PerTask, Problem
from drfh.errors import UnknownNameError
from drfh.mechanisms.shared.leximin import lexicographic

__all__ = ["max_min"]


def _share_of_task(problem: Problem, resource: int) -> Floats:
    share: Floats = problem.direction[:, resource] * problem.task_share
    return share


def max_min(problem: Problem, *, resource: str, method: str = "auto") -> Solution:
    """Equalise the share of one resource; the others count only as limits of the servers.

    Definition
        Leximin of tasks·D_ir/T_r/weight for one resource r, over all placements. Users that need
        none of r share what is left by their dominant shares.

    Paper
        Max-min fairness of one resource, as schedulers with a single resource apply it (Wang,
        Li, Liang, INFOCOM 2014, section I, names them).

    Properties
        pareto: yes; a leximin point leaves nobody room
        envy-free: yes if positive demands; Lemma B of the mathematics page
        truthful: yes if positive demands; Lemma A of the mathematics page
        single-resource: yes if no restrictions; it is the share of that resource
        resource-monotone: yes if positive demands, no restrictions; one common level, and more
            fits
        sharing-incentive: no; who needs little of it pays for all

    Parameters
    ----------
    problem
        Cluster and users.
    resource
        Its name.
    method
        See :func:`~drfh.mechanisms.drfh.drfh`.

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 9, "memory": 18})])
    >>> users = [User("a", {"cpu": 1, "memory": 4}), User("b", {"cpu": 3, "memory": 1})]
    >>> [round(t, 6) for t in allocate(cluster, users, mechanism="max-min:memory").tasks.values()]
    [0.692308, 2.769231]
    """
    names = problem.cluster.resources
    if resource not in names:
        raise UnknownNameError("max-min:RESOURCE", str(resource), names)
    rule = PerTask(partial(_share_of_task, resource=names.index(resource)))
    return lexicographic(problem, rule, method=method)
