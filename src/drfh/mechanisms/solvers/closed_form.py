"""Closed-form solvers: at most two resources, or proportional servers."""

from __future__ import annotations

import math

import numpy as np

from drfh.allocation.placement import Placement, Pools
from drfh.allocation.problem import Floats, Ints, Problem, water_level
from drfh.allocation.proofs.certificate import KinkedPrices, Prices, ResourcePrices
from drfh.kernels import fast
from drfh.kernels.fill import assign_two_resources
from drfh.mechanisms.solvers.oracle import NOTHING_STOPS, Cut

__all__ = ["ProportionalServers", "Slopes", "TwoResources"]


class Slopes:
    """Users and servers with two resources, sorted by slope.

    Price functions are numbered: the slopes of the users in order, then x1, then x2.

    Parameters
    ----------
    d1, d2
        Direction of each user.
    c1, c2
        Capacity of each server.

    Examples
    --------
    >>> import numpy as np
    >>> slopes = Slopes(*np.array([[0.2, 1], [1, 0.2]]), *np.array([[2, 12], [12, 2]]) / 14)
    >>> level, _ = slopes.highest_level(np.ones(2))
    >>> round(level, 6)  # 5/7
    0.714286
    """

    def __init__(self, d1: Floats, d2: Floats, c1: Floats, c2: Floats) -> None:
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = d2 / d1
            server_slope = c2 / c1
        self.order = np.argsort(slope)
        self.server_order = np.argsort(server_slope)  # NaN, a server with neither, comes last
        self.slope = slope[self.order]
        self._server_slope = server_slope[self.server_order]
        self._d1, self._d2 = d1[self.order], d2[self.order]
        self._c1, self._c2 = c1[self.server_order], c2[self.server_order]
        # A user that lacks one of the two has no kink: what is worth everything binds nobody.
        kink = np.isfinite(self.slope) & (self.slope > 0)
        self._at = self.slope if kink.all() else np.where(kink, self.slope, 0.0)
        self.worth = self._worth()
        if self._at is not self.slope:
            self.worth[:-2][~kink] = math.inf

    def _worth(self) -> Floats:
        """Return what all servers are worth under every price function.

        Sums run from both ends and are never subtracted: a tiny server keeps its digits.
        """
        n, k = len(self.slope), len(self._c1)
        split = np.searchsorted(self._server_slope, self._at)  # servers before it are worth c2
        by_first, by_second = np.zeros(k + 1), np.zeros(k + 1)
        np.cumsum(self._c1[::-1], out=by_first[k - 1 :: -1] if k > 1 else by_first[:1])
        np.cumsum(self._c2, out=by_second[1:])
        worth = np.empty(n + 2)
        np.multiply(self._at, by_first[split], out=worth[:n])
        worth[:n] += by_second[split]
        worth[n], worth[n + 1] = by_first[0], by_second[k]
        return worth

    def cost(self, amount: Floats) -> Floats:
        """Return the cost of all users' amounts under every price function."""
        amount = amount[self.order]
        n = len(amount)
        result = np.empty(n + 2)
        by_first = np.cumsum((amount * self._d1)[::-1])[::-1]
        by_second = np.cumsum(amount * self._d2)
        np.multiply(self._at, by_first, out=result[:n])
        result[1:n] += by_second[:-1]
        result[n], result[n + 1] = by_first[0], by_second[-1]
        return result

    def highest_level(self, rising: Floats, fixed: Floats | None = None) -> tuple[float, int]:
        """Return the largest t such that ``fixed + t * rising`` fits, and what stops it."""
        left = self.worth if fixed is None else np.maximum(self.worth - self.cost(fixed), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            level = left / self.cost(rising)
        best = int(np.argmin(level))
        if math.isnan(level[best]):  # 0/0: a resource that nobody has and nobody needs
            level[np.isnan(level)] = math.inf
            best = int(np.argmin(level))
        return float(level[best]), best

    def sweep(self, amount: Floats) -> tuple[Ints, Ints, Floats, float]:
        """Place the amounts of all users.

        Returns
        -------
        user, server, placed
            The entries.
        short
            The largest part of a user's amount that round-off left out.
        """
        n, k = len(amount), len(self._c1)
        # Two dummies stand for idle capacity, so that every server is filled exactly.
        d1, d2, left = np.empty((3, n + 2))
        d1[0], d1[1:-1], d1[-1] = 1.0, self._d1, 0.0
        d2[0], d2[1:-1], d2[-1] = 0.0, self._d2, 1.0
        required = amount[self.order]
        left[0] = max(0.0, float(self.worth[n] - required @ self._d1))
        left[1:-1] = required
        left[-1] = max(0.0, float(self.worth[n + 1] - required @ self._d2))
        user, server = np.empty((2, n + 2 + 3 * k), dtype=np.int64)
        placed = np.empty(len(user))
        kernel = fast(assign_two_resources, steps=8 * (n + k))
        written = kernel(d1, d2, left, self._c1, self._c2, user, server, placed)
        user, server, placed = user[:written] - 1, server[:written], placed[:written]
        real = np.flatnonzero((user >= 0) & (user < n))
        short = 0.0
        if left[1:-1].any():
            with np.errstate(divide="ignore", invalid="ignore"):
                short = float(np.where(required > 0, left[1:-1] / required, 0.0).max())
        return self.order[user[real]], self.server_order[server[real]], placed[real], short


# Round-off in a sweep may leave a user short by more than this, relatively. Then the sweep is
# done again with every share smaller by _MARGIN, which is room enough for all rounding.
_SHORT = 1e-12
_MARGIN = 1e-12


class ProportionalServers:
    """Solver for servers of one direction: the pool is one server.

    Then the prices of single resources are enough, for any number of them.
    """

    classes = None

    def __init__(self, problem: Problem, pools: Pools) -> None:
        self._problem = problem
        self._pools = pools

    follow = None

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
    """Solver for two resources: closed form, and placement in one sweep.

    Parameters
    ----------
    problem
        Without restrictions.
    resources
        The one or two resources that anybody demands.
    """

    classes = None

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

    follow = None

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
                share = fixed + np.where(rising > 0, np.minimum(rising * best.level, cap), 0.0)
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
