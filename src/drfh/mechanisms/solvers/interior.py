"""A primal-dual interior-point method for the radial sharing problem on a set of columns.

A *column* is a user-server pair that may be used. The Newton system is a block arrow: each
server couples its own few columns through m capacities, and the servers meet only in the users'
rows. So the servers are eliminated first (m × m blocks, all at once) and one dense n × n system
in the users' prices is left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from drfh.kernels import fast
from drfh.kernels.schur import subtract_outer
from drfh.problem import Bools, Floats, Ints

__all__ = ["Columns", "Iterate", "cold_start", "improve"]

# What is missing in the rows of the capacities, the users, theta, and the columns (dual).
_Residual = tuple[Floats, Floats, float, Floats]

# Share of used pairs above which one dense matrix product beats the loop over sparse columns.
DENSE = 0.2
# Rows of the dense factor formed at once (bounds the memory of the dense way).
DENSE_ENTRIES = 20_000_000
# Side of the diagonal blocks inverted outright, so that substitution runs in matrix products.
BLOCK = 64
# Most attempts per iteration to lengthen the step by pulling outlying products back.
CORRECTORS = 2
# Iterations without progress after which to give up.
PATIENCE = 12


class Columns:
    """The usable user-server pairs in play, sorted by server, then user.

    `user` and `server` have shape (J,), `demand`, one row per resource, has shape (m, J).

    Examples
    --------
    >>> columns = Columns(np.array([[1.0], [0.5]]), 1, np.array([0, 1]), np.array([0, 0]))
    >>> columns.load(np.array([1.0, 2.0])).tolist()
    [[2.0]]
    """

    def __init__(self, d: Floats, servers: int, user: Ints, server: Ints) -> None:
        self.users, self.resources = d.shape
        self.servers, self.user, self.server = servers, user, server
        self.count = np.bincount(server, minlength=servers)
        self.start = np.concatenate(([0], np.cumsum(self.count))).astype(np.int64)
        self.demand = np.ascontiguousarray(d.T[:, user])
        self._filled = np.flatnonzero(self.count)
        self._first = self.start[self._filled]

    def load(self, x: Floats) -> Floats:
        """Return what the amounts `x` use of each resource (row) at each server (column)."""
        return np.stack([self.per_server(row * x) for row in self.demand])

    def per_server(self, x: Floats) -> Floats:
        """Return each server's total of the amounts `x`."""
        total = np.zeros(self.servers)
        total[self._filled] = np.add.reduceat(x, self._first)
        return total

    def spread(self, values: Floats) -> Floats:
        """Return one value per column from one per server."""
        return np.asarray(np.repeat(values, self.count))

    def cost(self, p: Floats) -> Floats:
        """Return what a unit of each column costs at the prices `p`, shape (m, k)."""
        total = np.zeros(self.user.size)
        for row, price in zip(self.demand, p, strict=True):
            total += row * self.spread(price)
        return total

    def per_user(self, x: Floats) -> Floats:
        """Return each user's total of the amounts `x`."""
        return np.asarray(np.bincount(self.user, x, minlength=self.users), dtype=np.float64)


@dataclass(slots=True)
class Iterate:
    """A point of the method; all of it positive but `mu` and `theta`.

    `x` and `z` are each column's amount and reduced cost, `s` and `p` each capacity's slack and
    price, shape (m, k), `mu` the users' prices. Capacities of zero are out of play: there `s` is
    one and `p` zero throughout.
    """

    x: Floats
    s: Floats
    theta: float
    p: Floats
    mu: Floats
    z: Floats


def cold_start(columns: Columns, c: Floats, a: Floats) -> Iterate:
    """Return a strictly feasible point: every user spread over its servers, half the room left.

    `c`, shape (m, k), must average about one and `a` sum to the number of servers.

    Examples
    --------
    >>> columns = Columns(np.array([[1.0]]), 1, np.array([0]), np.array([0]))
    >>> point = cold_start(columns, np.array([[1.0]]), np.array([1.0]))
    >>> point.theta, point.s.tolist()
    (0.5, [[0.5]])
    """
    live = c > 0
    weight = columns.spread(np.where(live, c, np.inf).min(axis=0))
    x = weight * (a / columns.per_user(weight))[columns.user]
    load = columns.load(x)
    theta = 0.5 / float((load[live] / c[live]).max())
    mu = np.full(columns.users, columns.servers / a.sum())
    p = np.where(live, 2.0 * mu[0], 0.0)
    s = np.where(live, c - theta * load, 1.0)
    return Iterate(x * theta, s, theta, p, mu, columns.cost(p) - mu[0])


class _Newton:
    """The factorised Newton system at one point."""

    def __init__(self, columns: Columns, a: Floats, at: Iterate, live: Bools):
        self.columns, self.a, self.at, self.live = columns, a, at, live
        self.ratio = at.x / at.z
        self.price = np.where(live, at.p, 1.0)
        weighted = self.ratio * columns.demand
        m = columns.resources
        # The servers' blocks, all factorised side by side (m is small).
        lower: list[list[Floats]] = []
        factor = np.empty_like(weighted)
        for r in range(m):
            lower.append([])
            part = weighted[r]
            for q in range(r + 1):
                block = columns.per_server(weighted[r] * columns.demand[q])
                if q == r:
                    block += np.where(live[r], at.s[r] / self.price[r], 1.0)
                    floor = 1e-15 * block
                for t in range(q):
                    block = block - lower[r][t] * lower[q][t]
                if q < r:
                    block /= lower[q][q]
                    part = part - columns.spread(block) * factor[q]
                else:
                    block = np.sqrt(np.maximum(block, floor))
                    part = part / columns.spread(block)
                lower[r].append(block)
            factor[r] = part
        self.lower = lower
        self._factorise(factor)

    def _factorise(self, factor: Floats) -> None:
        """Form the users' system, scaled to a unit diagonal, and take its Cholesky factor."""
        columns, n, m = self.columns, self.columns.users, self.columns.resources
        total = columns.per_user(self.ratio)
        schur = np.diag(total)
        if columns.user.size > DENSE * n * columns.servers:
            step = max(1, DENSE_ENTRIES // (n * m))
            for first in range(0, columns.servers, step):
                last = min(first + step, columns.servers)
                some = slice(columns.start[first], columns.start[last])
                part = np.zeros((m, (last - first) * n))
                part[:, (columns.server[some] - first) * n + columns.user[some]] = factor[:, some]
                part = part.reshape(-1, n)
                schur -= part.T @ part
        else:
            steps = 20.0 * m * float((columns.count.astype(float) ** 2).sum())
            fast(subtract_outer, steps=steps)(
                columns.start, columns.user, np.ascontiguousarray(factor.T), schur
            )
        self.scale = 1.0 / np.sqrt(total)
        schur *= self.scale[:, None]
        schur *= self.scale
        # Scaling all prices together hardly changes this matrix near the optimum; the row
        # a . mu = const fixes that direction, so its square may be added without harm.
        self.border = self.a * self.scale
        self.length = float(np.sqrt(self.border @ self.border))
        self.border /= self.length
        schur += self.border[:, None] * self.border
        self.root = root = _cholesky(schur)
        self.corners = [
            (i, min(i + BLOCK, n), np.linalg.inv(root[i : i + BLOCK, i : i + BLOCK]))
            for i in range(0, n, BLOCK)
        ]
        self.of_border = self._users(self.border)

    def _users(self, right: Floats) -> Floats:
        """Solve the (scaled) users' system by blocked substitution."""
        root, out = self.root, right.copy()
        for i, j, corner in self.corners:
            out[i:j] = corner @ (out[i:j] - root[i:j, :i] @ out[:i])
        for i, j, corner in reversed(self.corners):
            out[i:j] = corner.T @ (out[i:j] - out[j:] @ root[j:, i:j])
        return out

    def _servers(self, right: Floats) -> Floats:
        """Solve every server's block for its right-hand side, shape (m, k)."""
        m, lower, out = len(self.lower), self.lower, right.copy()
        for r in range(m):
            for q in range(r):
                out[r] -= lower[r][q] * out[q]
            out[r] /= lower[r][r]
        for r in range(m - 1, -1, -1):
            for q in range(r + 1, m):
                out[r] -= lower[q][r] * out[q]
            out[r] /= lower[r][r]
        return out

    def _once(
        self, of_x: Floats, of_s: Floats, capacity: Floats, user: Floats, unit: float
    ) -> tuple[Floats, float, Floats]:
        """Return the step (mu, theta, p), the columns' and slacks' parts already eliminated."""
        columns = self.columns
        capacity = np.where(self.live, capacity - columns.load(of_x) - of_s, 0.0)
        user = user - columns.per_user(of_x + self.ratio * columns.cost(self._servers(capacity)))
        unit = unit / self.length
        particular = self._users(user * self.scale + self.border * unit)
        theta = (unit - float(self.border @ particular)) / float(self.border @ self.of_border)
        mu = self.scale * (particular + theta * self.of_border)
        pull = columns.load(self.ratio * mu[columns.user])
        return mu, theta / self.length, self._servers(np.where(self.live, pull - capacity, 0.0))

    def step(self, xz: Floats, sp: Floats, residual: _Residual, *, refine: bool) -> Iterate:
        """Return the step that changes the products x z and s p by `xz` and `sp`, to first order.

        It also removes the residuals. Refining costs as much as a second step.
        """
        columns, at = self.columns, self.at
        capacity, user, unit, reduced = residual
        of_x = (xz - at.x * reduced) / at.z
        of_s = np.where(self.live, sp / self.price, 0.0)
        mu, theta, p = self._once(of_x, of_s, capacity, user, unit)
        for last in (False, True) if refine else (True,):
            z = columns.cost(p) - mu[columns.user]
            x = of_x - self.ratio * z
            s = np.where(self.live, of_s - at.s * p / self.price, 0.0)
            if last:
                break
            more = self._once(
                np.zeros_like(x),
                np.zeros_like(s),
                np.where(self.live, capacity - columns.load(x) - s, 0.0),
                user - columns.per_user(x) + self.a * theta,
                unit - float(self.a @ mu),
            )
            mu, theta, p = mu + more[0], theta + more[1], p + more[2]
        return Iterate(x, s, theta, p, mu, z + reduced)


def _cholesky(matrix: Floats) -> Floats:
    """Return the Cholesky factor of a matrix with unit diagonal, lifted a little if need be."""
    for lift in (0.0, 1e-15, 1e-13, 1e-11, 1e-9):
        try:
            matrix[np.diag_indices_from(matrix)] += lift
            return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
        except np.linalg.LinAlgError:
            pass
    raise np.linalg.LinAlgError


def _reach(value: Floats, step: Floats) -> float:
    """Return the longest step (at most a huge one) that keeps `value` nonnegative."""
    worst = float((step / value).min(initial=0.0))
    return 1e30 if worst >= 0 else -1.0 / worst


def improve(
    columns: Columns,
    c: Floats,
    a: Floats,
    at: Iterate,
    target: float,
    limit: int = 80,
    watch: Callable[[Iterate, float], None] = lambda point, gap: None,
) -> tuple[Iterate, float, int]:
    """Follow the central path from `at` until the relative gap on these columns is `target`.

    Parameters
    ----------
    columns, c, a
        The pairs in play, capacities (m, k) averaging about one, and shares (n,) summing to the
        number of servers.
    at
        Where to start; positive, but it need not be feasible.
    target, limit
        Relative gap to reach, and most iterations.
    watch
        Called with each point and its gap.

    Returns
    -------
    tuple of Iterate, float, int
        The best point, its gap (scaled into capacity, hence honest) and the iterations made.

    Examples
    --------
    >>> columns = Columns(np.array([[1.0], [1.0]]), 1, np.array([0, 1]), np.array([0, 0]))
    >>> c, a = np.array([[1.0]]), np.array([0.5, 0.5])
    >>> point, gap, _ = improve(columns, c, a, cold_start(columns, c, a), 1e-9)
    >>> round(point.theta, 6), gap <= 1e-9
    (1.0, True)
    """
    live = c > 0
    pairs = at.x.size + int(live.sum())
    best, best_gap, least, since, iteration = at, np.inf, np.inf, 0, 0
    for iteration in range(limit + 1):
        load, given = columns.load(at.x), columns.per_user(at.x)
        capacity = np.where(live, c - load - at.s, 0.0)
        user = at.theta * a - given
        unit = columns.servers - float(a @ at.mu)
        reduced = columns.cost(at.p) - at.mu[columns.user] - at.z
        residual = (capacity, user, unit, reduced)
        # What is certain on these columns: the placement scaled into capacity, and the prices
        # with mu lowered by the worst violation.
        lower = float((given / a).min()) / float((load[live] / c[live]).max())
        paid = float(a @ at.mu) + float(a.sum()) * min(0.0, float((reduced + at.z).min()))
        cost = float((at.p * c).sum())
        gap = 1.0 - lower * paid / cost if paid > 0 else np.inf
        xz, sp = at.x * at.z, np.where(live, at.s * at.p, 0.0)
        mean = (float(xz.sum()) + float(sp.sum())) / pairs
        since = 0 if gap < 0.9 * best_gap or mean < 0.9 * least else since + 1
        least = min(least, mean)
        if gap < best_gap:
            best, best_gap = at, gap
        watch(at, gap)
        lost = best_gap < 1e-6 and gap > 1e3 * best_gap
        if gap <= target or lost or since >= PATIENCE or iteration == limit:
            break
        try:
            newton = _Newton(columns, a, at, live)
        except np.linalg.LinAlgError:
            break  # rounding has eaten the system; the best point stands
        step = newton.step(-xz, -sp, residual, refine=False)
        primal, dual = (min(1.0, length) for length in _lengths(at, step, live))
        after = float((at.x + primal * step.x) @ (at.z + dual * step.z))
        after += float(((at.s + primal * step.s) * (at.p + dual * step.p))[live].sum())
        # Products far below what the target needs only spoil the conditioning.
        aim = max(mean * (after / pairs / mean) ** 3, 0.1 * target * cost / pairs)
        xz = aim - xz - step.x * step.z
        sp = np.where(live, aim - sp - step.s * step.p, 0.0)
        step = newton.step(xz, sp, residual, refine=True)
        primal, dual = _lengths(at, step, live)
        for _ in range(CORRECTORS):
            far, deep = min(1.0, 1.1 * primal + 0.1), min(1.0, 1.1 * dual + 0.1)
            xz = xz + _pull((at.x + far * step.x) * (at.z + deep * step.z), aim)
            sp = sp + live * _pull((at.s + far * step.s) * (at.p + deep * step.p), aim)
            other = newton.step(xz, sp, residual, refine=True)
            far, deep = _lengths(at, other, live)
            if min(far, 1.0) + min(deep, 1.0) < min(primal, 1.0) + min(dual, 1.0) + 0.01:
                break
            step, primal, dual = other, far, deep
        keep = max(0.9, 1.0 - 10.0 * gap)
        primal, dual = min(1.0, keep * primal), min(1.0, keep * dual)
        at = Iterate(
            at.x + primal * step.x,
            np.where(live, at.s + primal * step.s, 1.0),
            at.theta + primal * step.theta,
            np.where(live, at.p + dual * step.p, 0.0),
            at.mu + dual * step.mu,
            at.z + dual * step.z,
        )
    return best, best_gap, iteration


def _lengths(at: Iterate, step: Iterate, live: Bools) -> tuple[float, float]:
    """Return how far the primal and the dual part can move along `step`."""
    primal = min(_reach(at.x, step.x), _reach(at.s[live], step.s[live]))
    dual = min(_reach(at.z, step.z), _reach(at.p[live], step.p[live]))
    return primal, dual


def _pull(product: Floats, aim: float) -> Floats:
    """Return the change that takes each product at the trial point back near `aim`."""
    return np.maximum(np.clip(product, 0.1 * aim, 10.0 * aim) - product, -10.0 * aim)
