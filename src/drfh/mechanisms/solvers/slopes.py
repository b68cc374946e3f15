"""Two resources as slopes: levels by a closed form, placements by one sweep. Arrays only.

A vector of shares fits on the servers if and only if, for the price functions x1, x2 and
min(s·x1, x2), what the users cost is at most what the servers are worth; and only the slopes s of
users need to be looked at (docs/mathematics.md).
"""

from __future__ import annotations

import math

import numpy as np

from drfh.kernels import fast
from drfh.kernels.assign import assign_two_resources
from drfh.problem import Floats, Ints

__all__ = ["Slopes"]


class Slopes:
    """Users and servers with two resources, sorted by slope (second resource over first).

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
        """Return what the amounts of all users (in their own order) cost under every function."""
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
        wanted = amount[self.order]
        left[0] = max(0.0, float(self.worth[n] - wanted @ self._d1))
        left[1:-1] = wanted
        left[-1] = max(0.0, float(self.worth[n + 1] - wanted @ self._d2))
        user, server = np.empty((2, n + 2 + 3 * k), dtype=np.int64)
        placed = np.empty(len(user))
        kernel = fast(assign_two_resources, steps=8 * (n + k))
        written = kernel(d1, d2, left, self._c1, self._c2, user, server, placed)
        user, server, placed = user[:written] - 1, server[:written], placed[:written]
        real = np.flatnonzero((user >= 0) & (user < n))
        short = 0.0
        if left[1:-1].any():
            with np.errstate(divide="ignore", invalid="ignore"):
                short = float(np.where(wanted > 0, left[1:-1] / wanted, 0.0).max())
        return self.order[user[real]], self.server_order[server[real]], placed[real], short
