"""The allocation of the largest welfare, with its proof: what nash, fds and gfj have in common."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from drfh.mechanisms.solution import Solution
from drfh.mechanisms.solvers.classes import Classes
from drfh.mechanisms.solvers.concave import Optimum, maximise
from drfh.mechanisms.solvers.simplex import raised_prices
from drfh.prices import TablePrices
from drfh.problem import Floats, Problem
from drfh.welfare import PowerWelfare, WelfareProof

__all__ = ["most_welfare"]


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
    share = placement.user_tasks * problem.task_share
    gradient = welfare.gradient(problem, share)
    proofs = (
        WelfareProof.of(placement, welfare, gradient, prices)
        for prices in _candidates(classes, found, gradient, share)
    )
    return Solution(placement, min(proofs, key=lambda proof: proof.gap), "interior-point")


def _candidates(
    classes: Classes, found: Optimum, gradient: Floats, share: Floats
) -> Iterator[TablePrices]:
    """Yield the solver's prices, as they are and mended in several ways."""
    value = float(found.gradient @ share)
    length = float(gradient @ share) / value if value > 0 else 1.0
    for table in (found.prices, raised_prices(classes, found.prices, found.worth)):
        full = classes.full_prices(table) * length
        prices = TablePrices(full, classes.server_class)
        yield prices
        # Where limits do not bind, prices must cover the gradient to the last digit.
        least = prices.of_users(classes.problem)
        free = (least > 0) & np.isinf(classes.problem.limit)
        short = float((gradient[free] / least[free]).max(initial=1.0))
        yield TablePrices(full * short, classes.server_class)
