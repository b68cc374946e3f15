"""``drfh``: Dominant Resource Fairness with Heterogeneous servers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from drfh.errors import InputError, UnknownNameError
from drfh.mechanisms.solution import Solution
from drfh.mechanisms.solvers.classes import Classes
from drfh.mechanisms.solvers.closed_form import ProportionalServers, TwoResources
from drfh.mechanisms.solvers.leximin import leximin
from drfh.mechanisms.solvers.oracle import Oracle
from drfh.problem import Problem

__all__ = ["METHODS", "choose_oracle", "drfh"]

# Pairs of classes up to which the simplex method on the whole model is the fastest way.
_SIMPLEX_PAIRS = 3_000
# And up to which it is worth the minute when the interior point leaves the certificate open.
_SECOND_TRY_PAIRS = 40_000

#: The ways to solve a round, from the most special to the most general.
METHODS = ("closed-form", "single-pool", "simplex", "interior-point")


def drfh(
    problem: Problem, *, method: str = "auto", progress: Callable[[float], None] | None = None
) -> Solution:
    """Equalise weighted global dominant shares, each server respected: leximin of levels.

    Definition
        T_r is the total of resource r over all servers, s_i = max_r D_ir/T_r the dominant share
        of one task of user i. Its level is s_i·tasks/weight. Among all placements that respect
        every server, every restriction and every number of tasks, the sorted vector of levels is
        lexicographically the largest.

    Paper
        Wang, Li, Liang: Dominant Resource Fairness in Cloud Computing Systems with Heterogeneous
        Servers, INFOCOM 2014, section IV; with rounds for what LP (7) leaves open (zero demands,
        finite tasks, restrictions).

    Properties
        Pareto optimal, envy-free (per weight, up to the number of tasks) and truthful; with
        positive demands also population monotone. Not resource monotone. No sharing incentive.

    Parameters
    ----------
    problem
        Cluster and users.
    method
        ``"auto"`` or one of :data:`METHODS`.
    progress
        Called with the relative gap while a large problem is being solved.

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 6, "memory": 1}), Server({"cpu": 1, "memory": 6})])
    >>> users = [User("a", {"cpu": 1, "memory": 0.1}), User("b", {"cpu": 1, "memory": 1})]
    >>> [round(t, 6) for t in allocate(cluster, users).tasks.values()]  # 20/11 each
    [1.818182, 1.818182]
    """
    oracle, used = choose_oracle(problem, method, progress)
    placement, certificate = leximin(problem, oracle)
    if method == "auto" and used == "interior-point" and not certificate.closed:
        # Several rounds can wear the interior point's digits out; a vertex keeps them.
        classes = Classes.of(problem)
        if classes.usable.sum() <= _SECOND_TRY_PAIRS:
            oracle, other = choose_oracle(problem, "simplex")
            second, proof = leximin(problem, oracle)
            if proof.gap < certificate.gap:
                placement, certificate, used = second, proof, other
    return Solution(placement, certificate, used)


def choose_oracle(
    problem: Problem, method: str = "auto", progress: Callable[[float], None] | None = None
) -> tuple[Oracle, str]:
    """Return the solver for this problem and its name."""
    if method not in ("auto", *METHODS):
        raise UnknownNameError("method", str(method), ["auto", *METHODS])
    needed = np.flatnonzero(problem.demand.any(axis=0))
    free = problem.eligible is None
    if method == "closed-form" or (method == "auto" and free and len(needed) <= 2):
        if not free or len(needed) > 2:
            raise InputError(
                "method",
                "closed-form needs at most two demanded resources and no restrictions",
                method,
            )
        return TwoResources(problem, needed), "closed-form"
    classes = Classes.of(problem)
    pairs = int(classes.usable.sum())
    if method == "auto":
        if free and len(classes.capacity) == 1:
            method = "single-pool"
        else:
            method = "simplex" if pairs <= _SIMPLEX_PAIRS else "interior-point"
    if method == "single-pool":
        if not free or len(classes.capacity) > 1:
            raise InputError(
                "method", "single-pool needs proportional servers and no restrictions", method
            )
        return ProportionalServers(problem, classes.pools), method
    if method == "simplex":
        from drfh.mechanisms.solvers.simplex import Simplex

        return Simplex(classes), method
    from drfh.mechanisms.solvers.radial import InteriorPoint

    return InteriorPoint(classes, progress), method
