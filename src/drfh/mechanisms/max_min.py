"""``max-min:RESOURCE``, ``egalitarian`` and ``cmmf``: equalise one resource."""

from __future__ import annotations

from functools import partial

import numpy as np

from drfh.entitlement import PerTask
from drfh.errors import InputError, UnknownNameError
from drfh.mechanisms.lexicographic import lexicographic
from drfh.mechanisms.solution import Solution
from drfh.problem import Floats, Problem

__all__ = ["cmmf", "egalitarian", "max_min"]


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


def cmmf(problem: Problem, *, method: str = "auto") -> Solution:
    """Constrained max-min fairness: one resource, users restricted to some of the servers.

    Definition
        One resource only; leximin of tasks·D_i/weight over all placements that respect the
        restrictions.

    Paper
        Ghodsi, Zaharia, Shenker, Stoica: Choosy: max-min fair sharing for datacenter jobs with
        constraints, EuroSys 2013, section 3.

    Properties
        pareto: yes if one resource; Ghodsi et al. 2013, section 3
        envy-free: yes if one resource; Lemma B of the mathematics page
        truthful: yes if one resource; Ghodsi et al. 2013, section 3
        group-truthful: yes if one resource; Lemma A of the mathematics page
        single-resource: yes; it is defined so

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 4}, name=n) for n in "xyz"])
    >>> users = [User("a", {"cpu": 1}), User("b", {"cpu": 1}, servers="x"),
    ...          User("c", {"cpu": 1}, servers="x")]
    >>> [round(t, 9) for t in allocate(cluster, users, mechanism="cmmf").tasks.values()]
    [8.0, 2.0, 2.0]
    """
    needed = np.flatnonzero(problem.demand.any(axis=0))
    if len(needed) != 1:
        names = ", ".join(problem.cluster.resources[r] for r in needed.tolist())
        raise InputError("cmmf", "needs users that demand one resource, the same one", names)
    return max_min(problem, resource=problem.cluster.resources[needed[0]], method=method)
