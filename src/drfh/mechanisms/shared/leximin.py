"""Leximin allocation for a given scale, and the choice of its solver."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from drfh.allocation.placement import Placement, Solution
from drfh.allocation.problem import Bools, Entitlement, Floats, Problem, Promise, Rule, by_weight
from drfh.allocation.proofs.certificate import Certificate, Prices, Round
from drfh.errors import InputError, UnknownNameError
from drfh.mechanisms.solvers.closed_form import ProportionalServers, TwoResources
from drfh.mechanisms.solvers.oracle import Oracle
from drfh.mechanisms.solvers.presolve import Classes

__all__ = ["METHODS", "choose_oracle", "lexicographic", "leximin", "placed"]


_NOTHING_LEFT = 1e-12  # of the pool


def leximin(
    problem: Problem, oracle: Oracle, rule: Rule = by_weight
) -> tuple[Placement, Certificate]:
    """Return the leximin allocation of levels, share / entitlement, and its proof.

    Only levels are frozen between rounds, never placements: where the tasks of a frozen user run
    is decided anew each time.

    Parameters
    ----------
    problem
        Cluster and users.
    oracle
        Solver for a round.
    rule
        What a level is.
    """
    entitlement = rule(problem)
    share, rounds = _shares_by_rounds(problem, oracle, entitlement)
    placement = oracle.place(share)
    return placement, Certificate.of(placement, rounds, rule, entitlement)


def _shares_by_rounds(
    problem: Problem, oracle: Oracle, entitlement: Entitlement
) -> tuple[Floats, list[Round]]:
    """Return the share of each user and the rounds, not measured yet; nothing is placed."""
    cap, phase = entitlement.cap, entitlement.phase
    fixed = np.zeros(len(problem.users))
    active = np.ones(len(fixed), dtype=bool)
    rounds: list[Round] = []
    last = 0
    if not cap.all():
        nothing = np.flatnonzero(cap <= 0)
        active[nothing] = False
        rounds.append(Round(nothing, 0.0, None))
    while active.any():
        turn = active
        if phase is not None:
            current = int(phase[active].min())
            turn = active & (phase == current)
            if current > last:
                oracle.new_phase()
                last = current
        rising = np.where(turn, entitlement.share, 0.0)
        cut = oracle.raise_level(fixed, rising, cap)
        if cut.prices is None:
            stopped = turn.copy()
            fixed[stopped] = cap[stopped]
        else:
            share = np.minimum(rising * cut.level, cap)
            if last > 0:  # what the earlier phases leave may be round-off
                share[share < _NOTHING_LEFT] = 0.0
            share[~turn] = fixed[~turn]
            stopped = turn & (
                _stopped(problem, cut.prices, share, turn, oracle.faintest)
                | (cap <= rising * cut.level)
            )
            fixed[stopped] = share[stopped]
        rounds.append(Round(np.flatnonzero(stopped), cut.level, cut.prices))
        active &= ~stopped
    return fixed, rounds


def _stopped(
    problem: Problem, prices: Prices, share: Floats, active: Bools, faintest: float
) -> Bools:
    """Return who pays the prices that stop this round."""
    unit = prices.of_users(problem)
    # At level 0 (nothing is left for a late phase) nobody spends: then a price is enough.
    spent = unit * share if (share[active] > 0).any() else np.where(active, unit, 0.0)
    stopped: Bools = spent > faintest * float(spent.sum())
    if not (stopped & active).any():
        # The certificate will show how good this is; going on is better than stopping here.
        stopped = spent == spent[active].max()
    return stopped


# Pairs of classes up to which the simplex method on the whole model is the fastest way.
_SIMPLEX_PAIRS = 3_000
# And up to which it is worth the minute when the interior point leaves the certificate open.
_SECOND_TRY_PAIRS = 40_000

#: The ways to solve a round, from the most special to the most general.
METHODS = ("closed-form", "single-pool", "simplex", "interior-point")


def lexicographic(
    problem: Problem,
    rule: Rule = by_weight,
    *,
    method: str = "auto",
    progress: Callable[[float], None] | None = None,
) -> Solution:
    """Return the leximin allocation of a rule's levels, with its proof.

    Parameters
    ----------
    problem
        Cluster and users.
    rule
        What a level is, see :mod:`drfh.allocation.problem`.
    method
        ``"auto"`` or one of :data:`METHODS`.
    progress
        Called with the relative gap while a large problem is being solved.

    Examples
    --------
    >>> from drfh import Cluster, Server, User
    >>> problem = Problem.build(Cluster([Server({"cpu": 4})]), [User("a", {"cpu": 1})])
    >>> lexicographic(problem).placement.user_tasks
    array([4.])
    """
    oracle, used = choose_oracle(problem, method, progress)
    placement, certificate = leximin(problem, oracle, rule)
    if method == "auto" and used == "interior-point" and not certificate.closed:
        # Several rounds can wear the interior point's digits out; a vertex keeps them.
        classes = Classes.of(problem)
        if classes.usable.sum() <= _SECOND_TRY_PAIRS:
            oracle, other = choose_oracle(problem, "simplex")
            second, proof = leximin(problem, oracle, rule)
            if proof.gap < certificate.gap:
                placement, certificate, used = second, proof, other
    return Solution(placement, certificate, used)


def placed(problem: Problem, promise: Solution | Floats, *, method: str = "auto") -> Solution:
    """Return what can be placed of a promise: leximin of placed/promised.

    Parameters
    ----------
    problem
        Cluster and users.
    promise
        Promised tasks, or the answer on the pool that promises them. If that answer is unproven,
        so is what is placed of it.
    method
        ``"auto"`` or one of :data:`METHODS`.
    """
    tasks = promise.placement.user_tasks if isinstance(promise, Solution) else promise
    solution = lexicographic(problem, Promise(tasks), method=method)
    proof = solution.certificate
    if isinstance(promise, Solution) and promise.certificate is not None:
        proof = proof if promise.certificate.closed else promise.certificate
    return Solution(solution.placement, proof, solution.method, tasks)


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
    from drfh.mechanisms.solvers.interior.rounds import InteriorPoint

    return InteriorPoint(classes, progress), method
