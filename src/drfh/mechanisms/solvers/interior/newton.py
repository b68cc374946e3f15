"""Newton system of the interior-point method, factorised in two ways.

Each server couples its own few columns through m capacities, and the servers meet only in the
users' rows. With few users, eliminate the servers (m × m blocks, all at once) and solve a dense
n × n system in the users' prices. With few servers, eliminate the users (their block is diagonal)
and solve a dense km × km system in the servers' prices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from drfh.allocation.problem import Bools, Floats, Ints
from drfh.kernels import fast
from drfh.kernels.schur import subtract_outer
from drfh.mechanisms.solvers.interior.points import Columns, Iterate

__all__ = ["Newton", "ServersLast", "UsersLast", "newton_system"]

# What is missing in the rows of the capacities, the users, theta, the columns and what is lacking
# of the fixed part (both dual).
Residual = tuple[Floats, Floats, float, Floats, float]

# Share of used pairs above which one dense matrix product beats the loop over sparse columns.
DENSE = 0.2
# Entries of the dense factor formed at once: they should stay near the processor.
DENSE_ENTRIES = 1_000_000
# Side of the diagonal blocks inverted outright, so that substitution runs in matrix products.
BLOCK = 64


class Newton(ABC):
    """The factorised Newton system at one point; `fixed` is zero where nothing is."""

    def __init__(
        self, columns: Columns, a: Floats, at: Iterate, live: Bools, fixed: Floats
    ) -> None:
        self.columns, self.a, self.at, self.live, self.fixed = columns, a, at, live, fixed
        self.ratio = at.x / at.z
        self.slope = at.lack / at.calm if fixed.any() else 0.0
        self.price = np.where(live, at.p, 1.0)
        self.total = columns.per_user(self.ratio)

    @abstractmethod
    def _once(self, capacity: Floats, user: Floats, unit: float) -> tuple[Floats, float, Floats]:
        """Return the step (mu, theta, p), all else already eliminated."""

    def step(
        self, xz: Floats, sp: Floats, lc: float, residual: Residual, *, refine: int
    ) -> Iterate:
        """Return the step that changes the products x z, s p and lack calm as told, to first order.

        It also removes the residuals. Each time it is refined costs as much as another step.
        """
        columns, at, fixed = self.columns, self.at, self.fixed
        capacity, user, unit, reduced, calm = residual
        x = (xz - at.x * reduced) / at.z
        s = np.where(self.live, sp / self.price, 0.0)
        lack = (lc - at.lack * calm) / at.calm if self.slope > 0 else 0.0
        mu, theta, p = np.zeros_like(self.a), 0.0, np.zeros_like(s)
        for _ in range(1 + refine):
            more = self._once(
                np.where(self.live, capacity - columns.load(x) - s, 0.0),
                user - columns.per_user(x) - fixed * lack + self.a * theta,
                unit - float(self.a @ mu),
            )
            # Large ratios magnify the round-off of prices. Those of a correction are small, and
            # so is what they add to the amounts; computed from the sum it would come back.
            change = columns.cost(more[2], more[0])
            change *= self.ratio
            x -= change
            s = np.where(self.live, s - at.s * more[2] / self.price, 0.0)
            lack += self.slope * float(fixed @ more[0])
            mu, theta, p = mu + more[0], theta + more[1], p + more[2]
        z = columns.cost(p, mu)
        z += reduced
        return Iterate(x, s, theta, p, mu, z, lack, calm - float(fixed @ mu))

    def _factorise(self, schur: Floats, diagonal: Floats, border: Floats) -> None:
        """Scale the dense system that is left to a unit diagonal and take its Cholesky factor.

        Scaling all prices together hardly changes this matrix near the optimum. The row of theta,
        ``border``, fixes that direction, so its square may be added without harm.
        """
        self.scale = 1.0 / np.sqrt(diagonal)
        schur *= self.scale[:, None]
        schur *= self.scale
        self.border = border * self.scale
        self.length = float(np.sqrt(self.border @ self.border))
        self.border /= self.length
        schur += self.border[:, None] * self.border
        self.root = root = _cholesky(schur)
        self.corners = [
            (i, min(i + BLOCK, len(root)), np.linalg.inv(root[i : i + BLOCK, i : i + BLOCK]))
            for i in range(0, len(root), BLOCK)
        ]
        self.of_border = self._dense(self.border)
        self.along_border = float(self.border @ self.of_border)

    def _dense(self, right: Floats) -> Floats:
        """Solve the (scaled) dense system by blocked substitution."""
        root, out = self.root, right.copy()
        for i, j, corner in self.corners:
            out[i:j] = corner @ (out[i:j] - root[i:j, :i] @ out[:i])
        for i, j, corner in reversed(self.corners):
            out[i:j] = corner.T @ (out[i:j] - out[j:] @ root[j:, i:j])
        return out


class UsersLast(Newton):
    """Servers eliminated: a dense system in the users' prices is left."""

    def __init__(
        self, columns: Columns, a: Floats, at: Iterate, live: Bools, fixed: Floats
    ) -> None:
        super().__init__(columns, a, at, live, fixed)
        self.lower = lower = columns.moments(self.ratio)
        m = columns.resources
        # The servers' blocks, all factorised side by side (m is small). Capacities that do not
        # count are left out.
        for r in range(m):
            for q in range(r + 1):
                block = lower[r][q] * (live[r] & live[q])
                if q == r:
                    block += np.where(live[r], at.s[r] / self.price[r], 1.0)
                    floor = 1e-15 * block
                for t in range(q):
                    block = block - lower[r][t] * lower[q][t]
                lower[r][q] = block / lower[q][q] if q < r else np.sqrt(np.maximum(block, floor))
        schur = np.diag(self.total)
        self._subtract_servers(schur)
        if self.slope > 0:
            schur += (self.slope * fixed)[:, None] * fixed
        self._factorise(schur, self.total + self.slope * fixed**2, a)

    def _subtract_servers(self, schur: Floats) -> None:
        """Take every server's part out of the users' matrix (at least its lower triangle)."""
        columns, lower, live = self.columns, self.lower, self.live
        m = columns.resources
        if columns.runs is None:
            factor = self.ratio * columns.demand
            for r in range(m):
                factor[r] *= columns.spread(live[r].astype(float))
                for q in range(r):
                    factor[r] -= columns.spread(lower[r][q]) * factor[q]
                factor[r] /= columns.spread(lower[r][r])
            _subtract_squares(schur, columns.start, columns.server, columns.user, factor)
            return
        # The inverse of each server's factor, row by row.
        inverse = np.zeros((columns.servers, m, m))
        for r in range(m):
            inverse[:, r, r] = live[r]
            for q in range(r):
                inverse[:, r] -= lower[r][q][:, None] * inverse[:, q]
            inverse[:, r] /= lower[r][r][:, None]
        for run in columns.runs:
            ratio, size = run.of(self.ratio), run.users.size
            # Capacities that do not count have no row.
            row = np.flatnonzero(live[:, run.servers].T)
            factor = inverse[run.servers].reshape(-1, m)[row]
            taken = np.zeros((size, size))
            step = max(1, DENSE_ENTRIES // size)
            for first in range(0, row.size, step):
                some = slice(first, first + step)
                part = factor[some] @ run.demand.T
                part *= ratio[row[some] // m]
                taken += part.T @ part
            schur[np.ix_(run.users, run.users)] -= taken

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

    def _once(self, capacity: Floats, user: Floats, unit: float) -> tuple[Floats, float, Floats]:
        columns = self.columns
        user = user - columns.spent(self.ratio, self._servers(capacity))
        unit = unit / self.length
        particular = self._dense(user * self.scale + self.border * unit)
        theta = (unit - float(self.border @ particular)) / self.along_border
        mu = self.scale * (particular + theta * self.of_border)
        pull = columns.load(self.ratio, mu)
        return mu, theta / self.length, self._servers(np.where(self.live, pull - capacity, 0.0))


class ServersLast(Newton):
    """Users eliminated: a dense system in the servers' prices is left."""

    def __init__(
        self, columns: Columns, a: Floats, at: Iterate, live: Bools, fixed: Floats
    ) -> None:
        super().__init__(columns, a, at, live, fixed)
        k, m, own, demand = columns.servers, columns.resources, columns.user, columns.demand
        order, start = columns.by_user
        entry = (columns.server[order, None] * m + np.arange(m)).ravel()
        factor = (self.ratio / np.sqrt(self.total)[own]) * demand
        factor *= [columns.spread(row) for row in live.astype(float)]
        factor = factor[:, order].T.ravel()
        schur = np.zeros((k * m, k * m))
        _subtract_squares(schur, start * m, np.repeat(own[order], m), entry, factor[None])
        # A user on one server nearly cancels out there; what is left of it is what it has on the
        # others, and that sum is taken without subtracting. So these blocks are sums of positive
        # numbers, right to the last digits however large the ratios have grown.
        major = self.ratio > 0.5 * self.total[own]
        rest = columns.per_user(np.where(major, 0.0, self.ratio))
        others = np.where(major, rest[own], self.total[own] - self.ratio)
        left = self.ratio * (others / self.total[own])
        moments = columns.moments(left)
        blocks, number = schur.reshape(k, m, k, m), np.arange(k)
        for r in range(m):
            for q in range(r + 1):
                block = moments[r][q] * (live[r] & live[q])
                if q == r:
                    block += np.where(live[r], at.s[r] / self.price[r], 1.0)
                blocks[number, r, number, q] = blocks[number, q, number, r] = block
        # What is lacking of the fixed part joins the users' rows: rank one beside the diagonal.
        self.each = fixed / self.total
        self.joint = self.slope / (1.0 + self.slope * float(fixed @ self.each))
        if self.slope > 0:
            shared = self._server_load(self.each)
            schur += (self.joint * shared)[:, None] * shared
        of_a = self._users(a)
        self.ease = float(a @ of_a)
        self._factorise(schur, np.diagonal(schur).copy(), self._server_load(of_a))

    def _users(self, right: Floats) -> Floats:
        """Solve the users' block for a right-hand side."""
        alone: Floats = right / self.total
        return alone - self.each * (self.joint * float(self.fixed @ alone))

    def _server_load(self, mu: Floats) -> Floats:
        """Return what prices of the users mean to the servers' rows."""
        load = self.columns.load(self.ratio, mu)
        return np.where(self.live, load, 0.0).T.ravel()

    def _once(self, capacity: Floats, user: Floats, unit: float) -> tuple[Floats, float, Floats]:
        columns = self.columns
        alone = self._users(user)
        right = self._server_load(alone) - np.where(self.live, capacity, 0.0).T.ravel()
        unit = (unit - float(self.a @ alone)) / self.length
        particular = self._dense(right * self.scale + self.border * unit)
        # Unlike the users' prices, the servers' are not held by theta's row alone: raising theta
        # also raises the eliminated users' prices, by `ease`. Both terms below are positive.
        ease = self.ease / self.length**2
        theta = unit - float(self.border @ particular)
        theta /= self.along_border + ease * (1.0 - self.along_border)
        flat = self.scale * (particular + theta * (1.0 - ease) * self.of_border)
        p = np.where(self.live, flat.reshape(columns.servers, -1).T, 0.0)
        theta /= self.length
        mu = user + columns.spent(self.ratio, p) + self.a * theta
        return self._users(mu), theta, p


def newton_system(columns: Columns, a: Floats, at: Iterate, live: Bools, fixed: Floats) -> Newton:
    """Return the Newton system at a point, taken apart in the cheaper way."""
    few = columns.servers * columns.resources < columns.users
    return (ServersLast if few else UsersLast)(columns, a, at, live, fixed)


def _subtract_squares(schur: Floats, start: Ints, group: Ints, place: Ints, factor: Floats) -> None:
    """Take F' F out of `schur` (at least its lower triangle) for every group of entries.

    Entries ``start[g]:start[g + 1]`` belong to group g; entry e is a column of F, ``factor[:, e]``,
    at position ``place[e]``, which ascends within a group.
    """
    rank, size, groups = len(factor), len(schur), start.size - 1
    if place.size > DENSE * size * groups:
        step = max(1, DENSE_ENTRIES // (size * rank))
        for first in range(0, groups, step):
            last = min(first + step, groups)
            some = slice(start[first], start[last])
            part = np.zeros((rank, (last - first) * size))
            part[:, (group[some] - first) * size + place[some]] = factor[:, some]
            part = part.reshape(-1, size)
            schur -= part.T @ part
    else:
        steps = 20.0 * rank * float((np.diff(start).astype(float) ** 2).sum())
        fast(subtract_outer, steps=steps)(start, place, np.ascontiguousarray(factor.T), schur)


def _cholesky(matrix: Floats) -> Floats:
    """Return the Cholesky factor of a matrix with unit diagonal, lifted a little if need be."""
    for lift in (0.0, 1e-15, 1e-13, 1e-11, 1e-9):
        try:
            matrix[np.diag_indices_from(matrix)] += lift
            return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
        except np.linalg.LinAlgError:
            pass
    raise np.linalg.LinAlgError
