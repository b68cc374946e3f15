"""The allocation of the largest welfare, with its proof: what nash, fds and gfj have in common."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from drfh.mechanisms.solution import Solution
from drfh.mechanisms.solvers.classes import Classes
from drfh.mechanisms.solvers.concave import maximise
from drfh.mechanisms.solvers.mending import raised_prices
from drfh.placement import Placement
from drfh.prices import TablePrices
from drfh.problem import Floats, Problem
from drfh.welfare import PowerWelfare, WelfareProof

__all__ = ["best_proof", "most_welfare"]

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
    classes = Classes.of(problem)
    found = maximise(classes, welfare.unit(problem), welfare.beta, welfare.extra)
    user, server = np.nonzero(found.amount)
    placement = classes.place(found.share, user, server, found.amount[user, server])
    # The solver's prices have a length of their own; the welfare's gradient sets it right.
    share = placement.user_tasks * problem.task_share
    value = float(found.gradient @ share)
    length = float(welfare.gradient(problem, share) @ share) / value if value > 0 else 1.0
    proof = best_proof(classes, placement, welfare, found.prices * length, found.worth * length)
    return Solution(placement, proof, "interior-point")


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
        if best is None or proof.gap < best.gap:
            best = proof
        if best.gap <= _GOOD:
            break
    assert best is not None
    return best


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
