"""At most two resources, or proportional servers, and no restrictions: closed forms."""

from __future__ import annotations

import numpy as np

from drfh.mechanisms.solvers.oracle import NOTHING_STOPS, Cut
from drfh.mechanisms.solvers.slopes import Slopes
from drfh.placement import Placement, Pools
from drfh.prices import KinkedPrices, Prices, ResourcePrices
from drfh.problem import Floats, Ints, Problem
from drfh.waterfill import water_level

__all__ = ["ProportionalServers", "TwoResources"]

# Round-off in a sweep may leave a user short by more than this, relatively. Then the sweep is
# done again with every share smaller by _MARGIN, which is room enough for all rounding.
_SHORT = 1e-12
_MARGIN = 1e-12


class ProportionalServers:
    """All servers have the same direction: the pool is one big server, whatever it is made of.

    Then the prices of single resources are enough, for any number of them.
    """

    faintest = 0.0

    def __init__(self, problem: Problem, pools: Pools) -> None:
        self._problem = problem
        self._pools = pools

    def new_phase(self) -> None:
        """Nothing is kept from round to round."""

    def raise_level(self, fixed: Floats, rising: Floats, cap: Floats) -> Cut:
        """Return the highest level and the resource that bounds it."""
        problem = self._problem
        best = NOTHING_STOPS
        worth = problem.capacity.sum(axis=0)
        for r in range(problem.demand.shape[1]):
            price = problem.direction[:, r]
            level = water_level(price, rising, cap, float(worth[r] - price @ fixed))
            if level < best.level:
                best = Cut(level, ResourcePrices(r))
        return best

    def place(self, share: Floats) -> Placement:
        """Spread everyone evenly over the whole pool."""
        users = np.flatnonzero(share > 0)
        tasks = share[users] / self._problem.task_share[users]
        pool = np.zeros(len(users), dtype=np.int64)
        return Placement.fitted(self._problem, users, pool, tasks, self._pools)


class TwoResources:
    """Levels by the closed form, placement by one sweep over users and servers by slope.

    Parameters
    ----------
    problem
        Without restrictions.
    resources
        The one or two resources that anybody demands.
    """

    faintest = 0.0

    def __init__(self, problem: Problem, resources: Ints) -> None:
        self._problem = problem
        self._pair = (int(resources[0]), int(resources[-1]))
        first, second = self._pair
        d1, c1 = problem.direction[:, first], problem.capacity[:, first]
        if first == second:
            d2, c2 = np.zeros_like(d1), np.zeros_like(c1)
        else:
            d2, c2 = problem.direction[:, second], problem.capacity[:, second]
        self._slopes = Slopes(d1, d2, c1, c2)

    def new_phase(self) -> None:
        """Nothing is kept from round to round."""

    def raise_level(self, fixed: Floats, rising: Floats, cap: Floats) -> Cut:
        """Return the highest level and the price function that bounds it."""
        if not np.isinf(cap).all():
            return self._raise_capped(fixed, rising, cap)
        level, best = self._slopes.highest_level(rising, fixed if fixed.any() else None)
        return Cut(level, self._prices(best))

    def _raise_capped(self, fixed: Floats, rising: Floats, cap: Floats) -> Cut:
        """Newton's method from above: find what is most over-spent, fill that exactly, repeat."""
        problem, slopes = self._problem, self._slopes
        n = len(slopes.slope)
        best = NOTHING_STOPS
        candidate = [n, n + 1] if self._pair[0] != self._pair[1] else [n]
        for _ in range(n + 4):
            improved = False
            for index in candidate:
                prices = self._prices(index)
                price = prices.of_users(problem)
                budget = float(slopes.worth[index] - price @ fixed)
                level = water_level(price, rising, cap, budget)
                if level < best.level:
                    best = Cut(level, prices)
                    improved = True
            if not improved and candidate[0] < n:
                break  # round-off: it is as good as filled
            with np.errstate(invalid="ignore"):
                share = np.where(rising > 0, np.minimum(rising * best.level, cap), fixed)
            with np.errstate(divide="ignore", invalid="ignore"):
                spent = slopes.cost(share) / slopes.worth
            spent[np.isnan(spent)] = 0.0
            worst = int(np.argmax(spent))
            if spent[worst] <= 1.0:
                break
            candidate = [worst]
        return best

    def _prices(self, index: int) -> Prices:
        first, second = self._pair
        n = len(self._slopes.slope)
        if index >= n:
            return ResourcePrices(self._pair[index - n])
        return KinkedPrices(float(self._slopes.slope[index]), first, second)

    def place(self, share: Floats) -> Placement:
        """Sweep over servers by slope, mixing for each the nearest users on both sides."""
        user, server, placed, short = self._slopes.sweep(share)
        if short > _SHORT:
            user, server, placed, _ = self._slopes.sweep(share * (1 - _MARGIN))
        tasks = placed / self._problem.task_share[user]
        pools = Pools.single(len(self._problem.blocks))
        return Placement.fitted(self._problem, user, server, tasks, pools)
