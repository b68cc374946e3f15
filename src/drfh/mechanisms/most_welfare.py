"""The allocation of the largest welfare, with its proof: what nash, fds and gfj have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from drfh.errors import SolverError
from drfh.mechanisms.solution import Solution
from drfh.mechanisms.solvers.classes import Classes
from drfh.mechanisms.solvers.concave import LIGHTEST, maximise
from drfh.mechanisms.solvers.mending import raised_prices
from drfh.placement import Placement
from drfh.prices import TablePrices
from drfh.problem import Floats, Problem
from drfh.welfare import PowerWelfare, WelfareProof

__all__ = ["best_proof", "most_welfare", "placed_classes", "within_floats"]

_TOO_FAR = "weights, demands or numbers of tasks are too far apart for float64"
_LIGHT = 3e-9  # weight, of the largest, that the path still finds
_LITTLE = 1e-7  # share of the pool that does not matter
_GOOD = 1e-12  # a gap that is not worth mending


def most_welfare(problem: Problem, welfare: PowerWelfare) -> Solution:
    """Return the allocation of the largest welfare, beta > 0, and its proof.

    Examples
    --------
    >>> from drfh import Cluster, Server, User
    >>> users = [User("a", {"cpu": 1}, weight=3), User("b", {"cpu": 1})]
    >>> problem = Problem.build(Cluster([Server({"cpu": 4})]), users)
    >>> most_welfare(problem, PowerWelfare(beta=1)).placement.user_tasks.round(9)
    array([3., 1.])
    """
    with within_floats():
        classes = Classes.of(problem)
        proof = _solve(classes, welfare, LIGHTEST)
        light = problem.weight < _LIGHT * problem.weight.max()
        if not proof.closed and light.any() and np.isinf(problem.limit[~light]).all():
            # Too far apart for the path: the light count a little more than they should. That is
            # no answer where the heavy leave them servers: there, ratios among them are lost.
            again = _solve(classes, welfare, _LIGHT)
            held = again.placement.user_tasks * problem.task_share
            if _rank(again) < _rank(proof) and held[light].sum() < _LITTLE:
                proof = again
    return Solution(proof.placement, proof, "interior-point")


def _solve(classes: Classes, welfare: PowerWelfare, lightest: float) -> WelfareProof:
    problem = classes.problem
    found = maximise(classes, welfare.unit(problem), welfare.beta, welfare.extra, lightest)
    placement = placed_classes(classes, found.share, found.amount)
    # The solver's prices have a length of their own; the welfare's gradient sets it right.
    share = placement.user_tasks * problem.task_share
    value = float(found.gradient @ share)
    length = float(welfare.gradient(problem, share) @ share) / value if value > 0 else 1.0
    return best_proof(classes, placement, welfare, found.prices * length, found.worth * length)


@contextmanager
def within_floats() -> Iterator[None]:
    """Turn errors of arithmetic into one that says what is wrong; infinities are no error.

    Examples
    --------
    >>> with within_floats():
    ...     1 / 0
    Traceback (most recent call last):
    drfh.errors.SolverError: weights, demands or numbers of tasks are too far apart for float64 \
(division by zero)
    """
    try:
        with np.errstate(all="ignore"):
            yield
    except (ArithmeticError, np.linalg.LinAlgError) as error:
        reason = str(error) or type(error).__name__
        raise SolverError(f"{_TOO_FAR} ({reason})") from error


def placed_classes(classes: Classes, share: Floats, amount: Floats) -> Placement:
    """Return the placement of amounts by class, of which none may be infinite or no number."""
    if not (np.isfinite(share).all() and np.isfinite(amount).all()):
        raise SolverError(f"{_TOO_FAR} (amounts that are no numbers)")
    user, server = np.nonzero(amount)
    placement = classes.place(share, user, server, amount[user, server])
    if not np.isfinite(placement.tasks).all():
        raise SolverError(f"{_TOO_FAR} (tasks that are no numbers)")
    return placement


def best_proof(
    classes: Classes, placement: Placement, welfare: PowerWelfare, prices: Floats, worth: Floats
) -> WelfareProof:
    """Return the proof of the smallest gap that a solver's prices give, as they are or mended.

    Parameters
    ----------
    classes, placement, welfare
        What was solved, and the answer.
    prices : array, server classes × needed resources
        By the solver.
    worth : array, user classes
        What a share is worth to those that are not at their limit, by the solver.
    """
    share = placement.user_tasks * classes.problem.task_share
    gradient = welfare.gradient(classes.problem, share)
    best: WelfareProof | None = None
    for candidate in _candidates(classes, prices, worth, gradient):
        proof = WelfareProof.of(placement, welfare, gradient, candidate)
        if best is None or _rank(proof) < _rank(best):
            best = proof
        if best.gap <= _GOOD:
            break
    assert best is not None
    return best


def _rank(proof: WelfareProof) -> tuple[bool, float]:
    """Return what is better: closed, and then the smaller gap of the whole."""
    return not proof.closed, proof.of_whole


def _candidates(
    classes: Classes, table: Floats, worth: Floats, gradient: Floats
) -> Iterator[TablePrices]:
    problem = classes.problem
    for mended in (False, True):
        if mended:
            table = raised_prices(classes, table, worth)
        full = classes.full_prices(table)
        prices = TablePrices(full, classes.server_class)
        yield prices
        # Where no limit binds, prices must cover the gradient to the last digit.
        least = prices.of_users(problem)
        free = (least > 0) & np.isinf(problem.limit)
        short = float((gradient[free] / least[free]).max(initial=1.0))
        yield TablePrices(full * short, classes.server_class)
