"""Leximin allocation for a given scale, and the choice of its solver."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from drfh.allocation.placement import Placement, Pools, Solution
from drfh.allocation.problem import (
    Bools,
    Entitlement,
    Floats,
    Ints,
    Problem,
    Promise,
    Rule,
    by_mix,
    by_weight,
)
from drfh.allocation.proofs.certificate import Certificate, Prices, ResourcePrices, Round
from drfh.errors import InputError, SolverError, UnknownNameError
from drfh.kernels.threads import one_thread
from drfh.mechanisms.solvers.closed_form import ProportionalServers, TwoResources
from drfh.mechanisms.solvers.oracle import (
    NOTHING_STOPS,
    Cut,
    MixRise,
    Oracle,
    lower_cut,
    lowest_prices,
)
from drfh.mechanisms.solvers.presolve import Classes

if TYPE_CHECKING:
    from drfh.allocation.proofs.rational import RationalProof

__all__ = ["METHODS", "Unsure", "choose_oracle", "lexicographic", "leximin", "placed"]


_NOTHING_LEFT = 1e-12  # of the pool
_ROUND_OFF = 1e-15  # part of a sum
_NOISE = 1e-14  # part of the worth of all capacity by which lowered prices may miss
_FAINT = 0.1  # part of a price that is left where the right one is 0
_SURE = 4e-9  # part by which a user that stops could rise at most
# Rows of servers up to which the simplex method ends.
_MOST_ROWS = 10_000


class Unsure(Enum):
    """What happens with users of which a round does not tell whether they stop."""

    STOP = "they stop, and the certificate says how far they might rise"
    POSTPONE = "they rise on: a round that is about them alone tells more"
    REFUSE = "the solver is given up"


def leximin(
    problem: Problem, oracle: Oracle, rule: Rule = by_weight, unsure: Unsure = Unsure.STOP
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
    unsure
        What happens with users of which a round does not tell whether they stop.
    """
    entitlement = rule(problem)
    by_rounds = _mixes_by_rounds if rule is by_mix else _shares_by_rounds
    share, rounds = by_rounds(problem, oracle, entitlement, unsure)
    placement = oracle.place(share)
    return placement, Certificate.of(placement, rounds, rule, entitlement)


def _shares_by_rounds(
    problem: Problem, oracle: Oracle, entitlement: Entitlement, unsure: Unsure
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
            if cut.part is not None:
                share *= cut.part
            if last > 0:  # what the earlier phases leave may be round-off
                share[share < _NOTHING_LEFT] = 0.0
            share[~turn] = fixed[~turn]
            full = turn & (cap <= rising * cut.level)
            stopped, prices = _stopped(
                problem, oracle.classes, cut.prices, share, turn, full, unsure
            )
            cut = replace(cut, prices=prices)
            if oracle.classes is not None:
                share = share * (1 - _spare(problem, prices, share, stopped & ~full))
            fixed[stopped] = share[stopped]
        rounds.append(Round(np.flatnonzero(stopped), cut.level, cut.prices))
        active &= ~stopped
    return fixed, rounds


def _mixes_by_rounds(
    problem: Problem, oracle: Oracle, entitlement: Entitlement, unsure: Unsure
) -> tuple[Floats, list[Round]]:
    """Return the share of each kind and the rounds, not measured yet; nothing is placed."""
    cap = entitlement.cap
    share = np.zeros(len(problem.users))
    active = cap > 0
    rounds: list[Round] = []
    if not active.all():
        rounds.append(Round(np.flatnonzero(~active), 0.0, None))
    level = 0.0
    while active.any():
        path = problem.path(active, share)
        cut = _highest_mix(oracle, MixRise(problem, path, share, active))
        if cut.prices is None:
            rounds.append(Round(np.flatnonzero(active), level + float(path.ends.max()), None))
            return np.where(active, cap, share), rounds
        raised = path.at(cut.level) * problem.task_share
        if cut.part is not None:
            raised = np.maximum(raised * cut.part, share)
        share = np.where(active, np.minimum(raised, cap), share)
        full = active & (share >= cap * (1 - _ALL))
        share = np.where(full, cap, share)
        stopped, prices = _stopped(problem, oracle.classes, cut.prices, share, active, full, unsure)
        if not stopped.any():  # round-off; the certificate will show how good this is
            stopped = active
        level += cut.level
        rounds.append(Round(np.flatnonzero(stopped), level, prices))
        active = active & ~stopped
    return share, rounds


_MOST_CUTS = 60
_ALL = 1e-12  # part of all tasks of a kind that may be lacking by round-off


def _highest_mix(oracle: Oracle, path: MixRise) -> Cut:
    """Return how far the level can rise along a path, and the prices that stop it.

    Newton's method from above: where the last prices are spent is the next question.
    """
    if oracle.follow is not None:
        return oracle.follow(path)
    problem, best = path.problem, NOTHING_STOPS
    for resource in range(problem.demand.shape[1]):  # the pool as a whole is a bound
        best = lower_cut(best, ResourcePrices(resource), path, problem)
    for _ in range(_MOST_CUTS):
        rising = np.maximum(path.shares(best.level) - path.share, 0.0)
        if not rising.any():
            break
        oracle.new_phase()
        cut = oracle.raise_level(path.share, rising, np.full(len(rising), math.inf))
        if cut.prices is None:
            break
        lower = lower_cut(best, cut.prices, path, problem)
        if lower is best:
            # All fits; the prices that bound it say why it cannot be more.
            if cut.level <= 1 + 1e-9 and not math.isinf(best.level):
                best = replace(best, prices=cut.prices)
            break
        best = lower
    return best


def _stopped(
    problem: Problem,
    classes: Classes | None,
    prices: Prices,
    share: Floats,
    turn: Bools,
    full: Bools,
    if_unsure: Unsure,
) -> tuple[Bools, Prices]:
    """Return who stops at these shares, and the prices that say so.

    A user stops if it has all its tasks, or if the prices leave it next to nothing more. A solver
    has small prices where the right one is 0; who pays only such ones rises on, and the prices
    are lowered to what the others need.
    """
    unit = prices.of_users(problem)
    rising = turn & ~full
    if classes is None or not (share[turn] > 0).any():
        # Sharp prices; or nothing is left for a late phase: then a price is enough.
        return full | (rising & (unit > 0)), prices
    payers = rising & (unit > 0)
    paid, unspent = _spent(problem, prices, unit, share)
    unsure = _unsure(payers, paid, unspent)
    while len(unsure):
        worth = np.where(rising & ~payers, 0.0, unit)
        worth[unsure] = 0.0
        lower = lowest_prices(classes, worth)
        unit_lower = lower.of_users(problem)
        paid_lower, less = _spent(problem, lower, unit_lower, share)
        free = paid_lower[unsure] <= np.maximum(_FAINT * paid[unsure], less)
        if free.all() and less <= 2 * unspent + _NOISE * lower.value(problem):
            prices, unit, paid, unspent = lower, unit_lower, paid_lower, less
            payers[unsure] = False
            unsure = _unsure(payers, paid, unspent)
        elif len(unsure) > 1:  # some of them do pay, only little
            unsure = unsure[: len(unsure) // 2]
        else:
            if if_unsure is Unsure.REFUSE:
                raise SolverError("a round does not tell who stops")
            if if_unsure is Unsure.POSTPONE:
                payers[_unsure(payers, paid, unspent)] = False
            break
    return full | payers, prices


def _spare(problem: Problem, prices: Prices, share: Floats, payers: Bools) -> Floats:
    """Return the part of each payer's share that round-off of the others' may take away.

    Held exactly where the prices stop it, it might not fit beside them in the next round.
    """
    paid, _ = _spent(problem, prices, prices.of_users(problem), share)
    total = _ROUND_OFF * prices.value(problem)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(payers & (paid > 0), total / (payers.sum() * paid), 0.0)
    spare: Floats = np.minimum(part, _SURE)
    return spare


def _unsure(payers: Bools, paid: Floats, unspent: float) -> Ints:
    """Return who could rise for what is unspent, the least payers first; never the largest."""
    largest = float(paid[payers].max(initial=0.0))
    unsure = np.flatnonzero(payers & (unspent > _SURE * paid) & (paid < largest))
    order: Ints = unsure[np.argsort(paid[unsure], kind="stable")]
    return order


def _spent(problem: Problem, prices: Prices, unit: Floats, share: Floats) -> tuple[Floats, float]:
    """Return what each user pays, and what is left of the worth of all capacity."""
    paid, value = unit * share, prices.value(problem)
    return paid, max(_ROUND_OFF * value, value - float(paid.sum()))


# Pairs of classes up to which the simplex method on the whole model is the fastest way; and where
# not all pairs can be used, so that there are many rounds.
_SIMPLEX_PAIRS, _SPARSE_PAIRS = 3_000, 40_000

_FAR = 1e-8  # part of the largest amount of a user or of a server
# Gap from the simplex method that only more digits would close.
_ILL_CONDITIONED = 1e-5

# Entries (users × servers × resources) and work up to which rational arithmetic takes seconds.
_RATIONAL_ENTRIES = 600
_RATIONAL_WORK = 4.0

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
    if problem.mixes is not None and rule is by_weight:
        rule = by_mix
    if method == "auto" and _far_apart(problem) and (exact := _exact(problem, rule)) is not None:
        return exact
    found: list[tuple[float, Solution]] = []
    failure = SolverError("no solver was tried")
    for oracle, used, unsure in _attempts(problem, method, progress, found):
        try:
            with one_thread() if used == "interior-point" else nullcontext():
                placement, certificate = leximin(problem, oracle, rule, unsure)
        except SolverError as error:
            failure = error
        else:
            solution = Solution(placement, certificate, used)
            if certificate.closed:
                return solution
            found.append((certificate.gap, solution))
        exact = _exact(problem, rule) if method == "auto" else None
        if exact is not None:
            return exact
        if used == "simplex" and found and found[-1][0] <= _ILL_CONDITIONED:
            refined = _refined(problem, rule) if method == "auto" else None
            if refined is not None:
                return refined
            break
    if not found:
        raise failure
    return min(found, key=lambda one: one[0])[1]


def _attempts(
    problem: Problem,
    method: str,
    progress: Callable[[float], None] | None,
    found: Sequence[object],
) -> Iterator[tuple[Oracle, str, Unsure]]:
    """Yield solvers, until one closes the certificate; `found` has those that do not."""
    oracle, used = choose_oracle(problem, method, progress)
    classes = oracle.classes
    if classes is None or classes.capacity.size > _MOST_ROWS:
        yield oracle, used, Unsure.STOP
        return
    if used == "simplex":
        yield oracle, used, Unsure.POSTPONE
        if method == "auto":
            yield *choose_oracle(problem, "interior-point", progress), Unsure.STOP
        return
    if method != "auto" or _far_apart(problem):
        yield oracle, used, Unsure.STOP
        return
    # Several rounds can wear the interior point's digits out; a vertex keeps them.
    from drfh.mechanisms.solvers.interior.rounds import InteriorPoint
    from drfh.mechanisms.solvers.simplex import Simplex

    yield oracle, used, Unsure.REFUSE
    assert isinstance(oracle, InteriorPoint)
    yield Simplex(classes, oracle.used), "simplex", Unsure.POSTPONE
    if not found:
        yield *choose_oracle(problem, used, progress), Unsure.STOP


def _far_apart(problem: Problem) -> bool:
    """Return whether numbers differ so much that HiGHS may lose its way, and not come back."""
    if not problem.demand.any(axis=0).sum() > 2:
        return False
    capacity = problem.capacity[:, problem.demand.any(axis=0)]
    largest = capacity.max(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = (problem.direction, capacity / largest)
    return any(bool((part[part > 0] < _FAR).any()) for part in parts)


def _exact(problem: Problem, rule: Rule) -> Solution | None:
    """Return the allocation by rational arithmetic, where the problem is small."""
    entitlement = rule(problem)
    entries = len(problem.users) * len(problem.blocks) * problem.demand.shape[1]
    if entries > _RATIONAL_ENTRIES or entitlement.phase is not None:
        return None
    from drfh.allocation.proofs.rational import RationalProblem
    from drfh.mechanisms.solvers.rational import TooLargeError, rational_leximin

    try:
        exact = RationalProblem.of(problem, entitlement, mixed=rule is by_mix)
        proof = rational_leximin(exact, work=_RATIONAL_WORK)
    except TooLargeError:
        return None
    return Solution(*_rounded(problem, proof, rule), "rational")


def _refined(problem: Problem, rule: Rule) -> Solution | None:
    """Return the allocation with many digits, where that is not too large and closes."""
    entitlement = rule(problem)
    pairs = len(problem.users) * len(problem.blocks)
    if pairs > _SPARSE_PAIRS or rule is by_mix or entitlement.phase is not None:
        return None
    from drfh.allocation.proofs.rational import RationalProblem
    from drfh.mechanisms.solvers.refinement import refined_leximin

    try:
        proof = refined_leximin(RationalProblem.of(problem, entitlement))
    except SolverError:
        return None
    placement, certificate = _rounded(problem, proof, rule)
    return Solution(placement, certificate, "refined") if certificate.closed else None


def _rounded(problem: Problem, proof: RationalProof, rule: Rule) -> tuple[Placement, Certificate]:
    """Return the placement of a proof in floats, and its certificate."""
    users, blocks, tasks = proof.placed()
    pools = Pools.single(len(problem.blocks))
    placement = Placement.fitted(problem, users, blocks, tasks, pools)
    return placement, Certificate.rational(placement, proof, rule)


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
            most = _SIMPLEX_PAIRS if pairs == classes.usable.size else _SPARSE_PAIRS
            quick = pairs <= most and not _far_apart(problem)
            method = "simplex" if quick else "interior-point"
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
