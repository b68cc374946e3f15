"""``cmmf``: constrained max-min fairness of one resource."""

from __future__ import annotations

import numpy as np

from drfh.allocation.placement import Solution
from drfh.allocation.problem import Problem
from drfh.errors import InputError
from drfh.mechanisms.max_min import max_min

__all__ = ["cmmf"]


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
