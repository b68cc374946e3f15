"""Allocations of the largest welfare, with proof: nash, fds and gfj."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from drfh.allocation.placement import Placement, Solution
from drfh.allocation.problem import Floats, Problem
from drfh.allocation.proofs.certificate import TablePrices
from drfh.allocation.proofs.welfare import PowerWelfare, WelfareProof
from drfh.errors import InputError, SolverError
from drfh.mechanisms.solvers.interior.welfare import LIGHTEST, maximise
from drfh.mechanisms.solvers.oracle import raised_prices
from drfh.mechanisms.solvers.presolve import Classes

__all__ = [
    "best_proof",
    "most_welfare",
    "objective",
    "placed_classes",
    "power_welfare",
    "within_floats",
]


_TOO_FAR = "weights, demands or numbers of tasks are too far apart for float64"
_LIGHT = 3e-9  # weight, of the largest, that the path still finds
_LITTLE = 1e-7  # share of the pool that does not matter
_GOOD = 1e-12  # a gap that is not worth mending


def most_welfare(problem: Problem, welfare: PowerWelfare) -> Solution:
    """Return the allocation of the largest welfare, and its proof.

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
    """Turn arithmetic errors into a :class:`SolverError`; infinities are no error.

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
    """Return the placement of finite amounts by class."""
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
    """Return the proof of the smallest gap from a solver's prices.

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


_LEAST, _MOST = 0.2, 20.0
_ROUND_OFF = 1e-12  # of a lam that was computed from beta


def objective(
    name: str, problem: Problem, y: Floats, beta: float | str, lam: float | str | None
) -> float:
    """Return the value of what a family maximises, for tasks or shares y."""
    b, power = _parameters(name, beta, lam)
    counts = problem.share_limit > 0
    y, weight = y[counts], problem.weight[counts]
    total = float(y.sum())
    if b == 1:  # the limit, up to what does not depend on y
        with np.errstate(divide="ignore"):
            return float(weight @ np.log(y))
    with np.errstate(divide="ignore"):
        parts = float(weight @ (y / weight / total) ** (1 - b))
    return math.copysign(parts ** (1 / b) * total**power, 1 - b)


def power_welfare(
    name: str, beta: float | str, lam: float | str | None, *, of_tasks: bool
) -> PowerWelfare:
    """Return the same as a welfare that can be maximised and proven."""
    b, power = _parameters(name, beta, lam)
    least = abs(1 - b) / b
    extra = max(0.0, abs(power) / least - 1) if b != 1 else 0.0
    return PowerWelfare(b, extra if extra > _ROUND_OFF else 0.0, of_tasks)


def _parameters(name: str, beta: float | str, lam: float | str | None) -> tuple[float, float]:
    """Return beta and lam as numbers that make the problem convex."""
    b = _number(beta)
    if not _LEAST <= b <= _MOST:
        raise InputError(f"beta of {name}", f"must be a number from {_LEAST:g} to {_MOST:g}", beta)
    least = (1 - b) / b
    if lam is None:
        return b, least
    power = _number(lam)
    slack = _ROUND_OFF * (1 + abs(least))
    if b == 1:
        fine, rule = power == 0, "must be 0 where beta is 1"
    elif b > 1:
        fine, rule = -math.inf < power <= least + slack, f"must be at most {least:g}"
    else:
        fine, rule = least - slack <= power < math.inf, f"must be at least {least:g}"
    if not fine:
        reason = "" if b == 1 else ", (1 − beta)/beta: else the problem is not convex"
        raise InputError(f"lam of {name}", rule + reason, lam)
    return b, power


def _number(value: object) -> float:
    """Return a number, NaN if it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str, np.number)):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan
