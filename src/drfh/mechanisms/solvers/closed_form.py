"""At most two resources, or proportional servers, and no restrictions: closed forms.

For two resources a vector of shares fits on the servers if and only if, for the price functions
x1, x2 and min(s·x1, x2), what the users cost is at most what the servers are worth; and only
the slopes s of users need to be looked at (docs/mathematics.md). So the highest level is a
minimum over a few sums, and the assignment is one sweep over sorted slopes. If all servers are
proportional, the prices of single resources are enough, for any number of them.
"""

from __future__ import annotations

import math

import numpy as np

from drfh.certificate import KinkedPrices, PoolPrices, Prices
from drfh.kernels import fast
from drfh.kernels.assign import assign_two_resources
from drfh.mechanisms.solvers.oracle import NOTHING_STOPS, Cut
from drfh.placement import Placement, Pools
from drfh.problem import Floats, Ints, Problem
from drfh.waterfill import water_level

__all__ = ["ProportionalServers", "TwoResources"]

# Round-off in a sweep may leave a user short by more than this, relatively. Then the sweep is
# done again with every share smaller by _MARGIN, which is room enough for all rounding.
_SHORT = 1e-12
_MARGIN = 1e-12


def _unit(resource: int, width: int) -> PoolPrices:
    return PoolPrices(tuple(float(r == resource) for r in range(width)))


class ProportionalServers:
    """All servers have the same direction: the pool is one big server, whatever it is made of."""

    faintest = 0.0

    def __init__(self, problem: Problem, pools: Pools) -> None:
        self._problem = problem
        self._pools = pools

    def raise_level(self, fixed: Floats, rising: Floats, cap: Floats) -> Cut:
        """Return the highest level and the resource that bounds it."""
        problem = self._problem
        best = NOTHING_STOPS
        worth = problem.capacity.sum(axis=0)
        for r in range(problem.demand.shape[1]):
            price = problem.direction[:, r]
            level = water_level(price, rising, cap, float(worth[r] - price @ fixed))
            if level < best.level:
                best = Cut(level, _unit(r, problem.demand.shape[1]))
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
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = d2 / d1
            server_slope = c2 / c1
        self._order = np.argsort(slope)
        self._server_order = np.argsort(server_slope)  # NaN, a server with neither, comes last
        self._slope = slope[self._order]
        self._d1, self._d2 = d1[self._order], d2[self._order]
        self._c1, self._c2 = c1[self._server_order], c2[self._server_order]
        self._server_slope = server_slope[self._server_order]
        self._worth = self._worth_by_slope()

    def _worth_by_slope(self) -> Floats:
        """Return what all servers are worth at the slope of every user, then by x1 and by x2.

        Sums run from both ends and are never subtracted: a tiny server keeps its digits.
        """
        c1, c2, slope = self._c1, self._c2, self._slope
        split = np.searchsorted(self._server_slope, slope)  # servers before it are worth c2
        by_second = np.concatenate(([0.0], np.cumsum(c2)))
        by_first = np.concatenate((np.cumsum(c1[::-1])[::-1], [0.0]))
        with np.errstate(invalid="ignore"):
            worth = slope * by_first[split] + by_second[split]
        return np.concatenate((worth, [by_first[0], by_second[-1]]))

    def _cost_by_slope(self, amount: Floats) -> Floats:
        """Return what `amount`, in slope order, costs at every slope, then by x1 and by x2."""
        by_first = np.cumsum((amount * self._d1)[::-1])[::-1]
        by_second = np.cumsum(amount * self._d2)
        with np.errstate(invalid="ignore"):
            cost = self._slope * by_first
        cost[1:] += by_second[:-1]
        return np.concatenate((cost, [by_first[0], by_second[-1]]))

    def raise_level(self, fixed: Floats, rising: Floats, cap: Floats) -> Cut:
        """Return the highest level and the price function that bounds it."""
        order = self._order
        if np.isinf(cap).all():
            left = self._worth
            if fixed.any():
                left = left - self._cost_by_slope(fixed[order])
            rate = self._cost_by_slope(rising[order])
            with np.errstate(divide="ignore", invalid="ignore"):
                level = np.where(rate > 0, np.maximum(left, 0.0) / rate, math.inf)
            # NaN: the slope of a user without one of the two resources; it prices nobody.
            best = int(np.nanargmin(level))
            return Cut(float(level[best]), self._prices(best))
        return self._raise_capped(fixed, rising, cap)

    def _raise_capped(self, fixed: Floats, rising: Floats, cap: Floats) -> Cut:
        """Newton's method from above: find what is most over-spent, fill that exactly, repeat."""
        problem, order = self._problem, self._order
        n = len(order)
        best = NOTHING_STOPS
        candidate = [n, n + 1] if self._pair[0] != self._pair[1] else [n]
        for _ in range(n + 4):
            improved = False
            for index in candidate:
                prices = self._prices(index)
                price = prices.of_users(problem)
                budget = float(self._worth[index] - price @ fixed)
                level = water_level(price, rising, cap, budget)
                if level < best.level:
                    best = Cut(level, prices)
                    improved = True
            if not improved and candidate[0] < n:
                break  # round-off: it is as good as filled
            with np.errstate(invalid="ignore"):
                share = np.where(rising > 0, np.minimum(rising * best.level, cap), fixed)
            with np.errstate(divide="ignore", invalid="ignore"):
                spent = self._cost_by_slope(share[order]) / self._worth
            spent[np.isnan(spent)] = 0.0
            worst = int(np.argmax(spent))
            if spent[worst] <= 1.0:
                break
            candidate = [worst]
        return best

    def _prices(self, index: int) -> Prices:
        first, second = self._pair
        width = self._problem.demand.shape[1]
        n = len(self._slope)
        if index >= n:
            return _unit(self._pair[index - n], width)
        return KinkedPrices(float(self._slope[index]), first, second)

    def place(self, share: Floats) -> Placement:
        """Sweep over servers by slope, mixing for each the nearest users on both sides."""
        amount = share[self._order]
        user, server, placed, short = self._sweep(amount)
        if short > _SHORT:
            user, server, placed, _ = self._sweep(amount * (1 - _MARGIN))
        user = self._order[user]
        tasks = placed / self._problem.task_share[user]
        pools = Pools.single(len(self._problem.blocks))
        return Placement.fitted(self._problem, user, self._server_order[server], tasks, pools)

    def _sweep(self, amount: Floats) -> tuple[Ints, Ints, Floats, float]:
        """Return the entries (in slope order) and the largest relative shortfall of a user."""
        n, k = len(amount), len(self._c1)
        # Two dummies stand for idle capacity, so that every server is filled exactly.
        idle1 = max(0.0, float(self._worth[n] - amount @ self._d1))
        idle2 = max(0.0, float(self._worth[n + 1] - amount @ self._d2))
        left = np.concatenate(([idle1], amount, [idle2]))
        user = np.empty(n + 2 + 3 * k, dtype=np.int64)
        server = np.empty_like(user)
        placed = np.empty(len(user))
        kernel = fast(assign_two_resources, steps=8 * (n + k))
        written = kernel(
            np.concatenate(([1.0], self._d1, [0.0])),
            np.concatenate(([0.0], self._d2, [1.0])),
            left,
            self._c1,
            self._c2,
            user,
            server,
            placed,
        )
        user, server, placed = user[:written] - 1, server[:written], placed[:written]
        real = (user >= 0) & (user < n)
        with np.errstate(divide="ignore", invalid="ignore"):
            short = np.where(amount > 0, left[1:-1] / amount, 0.0)
        return user[real], server[real], placed[real], float(short.max())
