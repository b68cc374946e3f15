"""Levels: the share of each user that counts as 1, and its limit.

Every leximin mechanism is one such scale. DRFH measures the dominant share per weight, TSF the
tasks against those a user could run alone, asset fairness the sum of shares, and placing a promise
measures what part of it is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from drfh.allocation.problem import Floats, Ints, Problem

__all__ = [
    "Entitlement",
    "PerTask",
    "Promise",
    "Rule",
    "by_weight",
    "water_level",
    "water_level_above",
]


@dataclass(frozen=True, slots=True, eq=False)
class Entitlement:
    """The scale on which users rise.

    Attributes
    ----------
    share : array
        Dominant share that makes a level of 1, > 0.
    cap : array
        The most share that each user may have.
    phase : int array or None
        Users of a later phase rise only when those of the earlier ones have stopped.
    """

    share: Floats
    cap: Floats
    phase: Ints | None = None


#: From a problem to the scale of a mechanism: certificates keep it and measure anew with it.
Rule: TypeAlias = Callable[[Problem], Entitlement]


def by_weight(problem: Problem) -> Entitlement:
    """Return the scale of DRFH: a share of the size of the weight is level 1.

    Examples
    --------
    >>> from drfh import Cluster, Server, User
    >>> problem = Problem.build(Cluster([Server({"cpu": 4})]), [User("a", {"cpu": 1}, tasks=2)])
    >>> by_weight(problem).cap
    array([0.5])
    """
    return Entitlement(problem.weight, problem.share_limit)


@dataclass(frozen=True, slots=True, eq=False)
class Promise:
    """The part of promised tasks that is kept, at most 1; who can use no server gets nothing."""

    tasks: Floats

    def __call__(self, problem: Problem) -> Entitlement:
        """Return the scale."""
        share = self.tasks * problem.task_share
        cap = np.where(problem.reachable, share, 0.0)
        return Entitlement(np.where(share > 0, share, 1.0), cap)


@dataclass(frozen=True, slots=True, eq=False)
class PerTask:
    """Level = tasks · measure / weight, for a measure of one task of each user.

    A user whose task measures 0 stays at level 0 whatever it gets, so leximin says nothing about
    it: such users share what the others leave, by dominant share.
    """

    measure: Callable[[Problem], Floats]

    def __call__(self, problem: Problem) -> Entitlement:
        """Return the scale."""
        one = self.measure(problem)
        counts = one > 0
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(counts, problem.weight * problem.task_share / one, problem.weight)
        phase = None if counts.all() else np.where(counts, 0, 1).astype(np.int64)
        return Entitlement(share, problem.share_limit, phase)


def water_level(
    price: NDArray[np.float64],
    weight: NDArray[np.float64],
    cap: NDArray[np.float64],
    budget: float,
) -> float:
    """Return the largest t with ``sum(price * minimum(weight * t, cap)) <= budget``.

    Parameters
    ----------
    price
        What one unit of each user costs, ≥ 0.
    weight
        Weights, ≥ 0 (0: the user takes no part).
    cap
        The most that each may have; inf for no cap.
    budget
        What may be spent.

    Returns
    -------
    float
        The level; inf if everyone fits at its cap, 0 if nothing can be spent.

    Examples
    --------
    >>> import numpy as np
    >>> water_level(np.ones(3), np.ones(3), np.array([1.0, np.inf, np.inf]), 6.0)
    2.5
    """
    cost = price * weight
    total = float(cost.sum())
    if total <= 0:
        return math.inf
    if budget <= 0:
        return 0.0
    if not np.isfinite(cap).any():
        return budget / total
    paying = cost > 0
    cost, cap, weight, price = cost[paying], cap[paying], weight[paying], price[paying]
    stop = cap / weight  # the level at which each user has enough
    order = np.argsort(stop, kind="stable")
    stop, cost = stop[order], cost[order]
    full = np.where(np.isfinite(stop), price[order] * cap[order], 0.0)
    spent_full = np.concatenate(([0.0], np.cumsum(full)))  # by the users before each
    rising = np.concatenate((np.cumsum(cost[::-1])[::-1], [0.0]))  # rate of it and those after
    with np.errstate(invalid="ignore"):
        spent = spent_full[:-1] + stop * rising[:-1]
    over = np.flatnonzero(~(spent <= budget))
    if len(over) == 0:
        return math.inf
    first = int(over[0])
    return max(0.0, (budget - float(spent_full[first])) / float(rising[first]))


def water_level_above(
    price: NDArray[np.float64],
    weight: NDArray[np.float64],
    floor: NDArray[np.float64],
    cap: NDArray[np.float64],
    budget: float,
) -> float:
    """Return the largest t with ``sum(price * clip(weight * t, floor, cap)) <= budget``.

    Parameters
    ----------
    price
        What one unit of each user costs, ≥ 0.
    weight
        Weights, > 0.
    floor, cap
        What each has already, and the most that it may have; floor ≤ cap.
    budget
        What may be spent.

    Returns
    -------
    float
        The level; inf if everyone fits at its cap. If already the floors use up the budget, the
        level at which the first that costs something begins to rise.

    Examples
    --------
    >>> import numpy as np
    >>> water_level_above(np.ones(2), np.ones(2), np.array([3.0, 0.0]), np.full(2, np.inf), 5.0)
    2.0
    """
    paying = (price > 0) & (floor < cap)
    cost, one = price[paying] * weight[paying], weight[paying]
    level = np.concatenate((floor[paying] / one, cap[paying] / one))
    order = np.argsort(level, kind="stable")
    level = level[order]
    slope = np.cumsum(np.concatenate((cost, -cost))[order])
    ends = np.isfinite(level)
    level, slope = level[ends], slope[ends]
    if len(level) == 0:
        return math.inf
    held = price > 0
    spent = float(price[held] @ floor[held]) + np.concatenate(
        ([0.0], np.cumsum(slope[:-1] * np.diff(level)))
    )
    last = max(int(np.searchsorted(spent, budget, side="right")) - 1, 0)
    if last == len(level) - 1 and slope[-1] <= 1e-12 * float(cost.sum()):
        return math.inf
    return float(level[last] + max(0.0, budget - float(spent[last])) / slope[last])
