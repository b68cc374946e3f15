"""Columns of the radial sharing problem, and points on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from drfh.allocation.problem import Bools, Floats, Ints
from drfh.kernels import compiled, fast
from drfh.kernels.schur import price_servers, server_loads, unit_costs

__all__ = [
    "Columns",
    "Iterate",
    "RadialProblem",
    "RadialState",
    "cold_start",
    "every_pair",
    "lacking",
    "usable_pairs",
]


MANY = 50_000  # columns from which on compiled sums are faster, with the time to load them


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
        self._set(np.ascontiguousarray(d.T[:, user]), servers, len(d), user, server)

    def _set(self, demand: Floats, servers: int, users: int, user: Ints, server: Ints) -> None:
        self.users, self.resources, self.demand = users, len(demand), demand
        self.servers, self.user, self.server = servers, user, server
        self.count = np.bincount(server, minlength=servers)
        self.start = np.concatenate(([0], np.cumsum(self.count))).astype(np.int64)
        self._filled = np.flatnonzero(self.count)
        self._first = self.start[self._filled]

    @cached_property
    def by_user(self) -> tuple[Ints, Ints]:
        """The columns sorted by user, then server, and where each user's begin in that order."""
        count = np.bincount(self.user, minlength=self.users)
        start = np.concatenate(([0], np.cumsum(count))).astype(np.int64)
        return np.argsort(self.user, kind="stable"), start

    def subset(self, chosen: Ints, counted: Bools) -> Columns:
        """Return some of the columns, with demands of the capacities that count, shape (m, k)."""
        columns = Columns.__new__(Columns)
        columns._set(
            self.demand[:, chosen] * counted[:, self.server[chosen]],
            self.servers,
            self.users,
            self.user[chosen],
            self.server[chosen],
        )
        return columns

    @property
    def complete(self) -> bool:
        """Whether every user has a column."""
        return bool(np.bincount(self.user, minlength=self.users).all())

    def load(self, x: Floats) -> Floats:
        """Return what the amounts `x` use of each resource (row) at each server (column)."""
        if self.user.size < MANY:
            return np.stack([self.per_server(row * x) for row in self.demand])
        load = np.empty((self.resources, self.servers))
        compiled(server_loads)(self.start, self.demand, x, load)
        return load

    def fitted(self, x: Floats, c: Floats) -> Floats:
        """Return the amounts with each server scaled so that it is full, by its load on `c`."""
        with np.errstate(divide="ignore", invalid="ignore"):
            used = np.where(c > 0, self.load(x) / c, 0.0).max(axis=0)
        return x / self.spread(np.where(used > 0, used, 1.0))

    def per_server(self, x: Floats) -> Floats:
        """Return each server's total of the amounts `x`."""
        total = np.zeros(self.servers)
        total[self._filled] = np.add.reduceat(x, self._first)
        return total

    def spread(self, values: Floats) -> Floats:
        """Return one value per column from one per server."""
        return np.asarray(np.repeat(values, self.count))

    def least(self, values: Floats) -> Floats:
        """Return each user's least of the values of its columns; all must have one."""
        order, start = self.by_user
        return np.asarray(np.minimum.reduceat(values[order], start[:-1]))

    def cost(self, p: Floats) -> Floats:
        """Return what a unit of each column costs at the prices `p`, shape (m, k)."""
        total = np.zeros(self.user.size)
        if self.user.size >= MANY:
            compiled(unit_costs)(self.start, self.demand, np.ascontiguousarray(p), total)
            return total
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
    one and `p` zero throughout. `lack` is the part of what is fixed that nobody gets yet, `calm`
    its reduced cost; both stay at one if nothing is fixed.
    """

    x: Floats
    s: Floats
    theta: float
    p: Floats
    mu: Floats
    z: Floats
    lack: float = 1.0
    calm: float = 1.0


def cold_start(
    columns: Columns,
    c: Floats,
    a: Floats,
    fixed: Floats | None = None,
    guess: float = 1.0,
    most: float = 0.0,
) -> Iterate:
    """Return a point far inside: every user spread over its servers, half the room left.

    `c`, shape (m, k), must average about one and `a` sum to the number of servers. Without a
    fixed part the point is feasible; with one, some of it is lacking. `guess` is a likely theta,
    `most` what the fixed part may cost.

    Examples
    --------
    >>> columns = Columns(np.array([[1.0]]), 1, np.array([0]), np.array([0]))
    >>> point = cold_start(columns, np.array([[1.0]]), np.array([1.0]))
    >>> point.theta, point.s.tolist()
    (0.5, [[0.5]])
    """
    live = c > 0
    weight = columns.spread(np.where(live, c, np.inf).min(axis=0))
    likely = guess * a if fixed is None else fixed + guess * a
    x = weight * (likely / columns.per_user(weight))[columns.user]
    load = columns.load(x)
    part = 0.5 / float((load[live] / c[live]).max())
    mu = np.full(columns.users, columns.servers / a.sum())
    p = np.where(live, 2.0 * mu[0], 0.0)
    s = np.where(live, c - part * load, 1.0)
    point = Iterate(x * part, s, guess * part, p, mu, columns.cost(p) - mu[0])
    if fixed is not None:
        point.lack, point.calm = lacking(part, float(fixed @ mu), most)
    return point


def lacking(part: float, cost: float, most: float) -> tuple[float, float]:
    """Return where to start with what is lacking if users have `part` of what they should."""
    return max(1.0 - part, 0.1), max(most - cost, 0.1 * most)


CHUNK = 2_000_000  # pairs looked at together
PIVOTS, MISSED = 60, 1e-13  # most pivots to price a server, and what is missed by round-off


@dataclass(frozen=True, slots=True)
class RadialState:
    """Columns (as ``server * n + user``, ascending) and a point on them."""

    keys: Ints
    point: Iterate


@dataclass(frozen=True, slots=True)
class RadialProblem:
    """The problem, scaled: capacities (m, k) average one and `a` sums to the servers.

    User i gets ``fixed[i] + theta * a[i]``, where theta is likely to be about `guess`. `fixed` is
    None if nothing is; else `most` is what it may cost at most.
    """

    d: Floats
    c: Floats
    a: Floats
    fixed: Floats | None
    guess: float
    most: float
    usable: Bools | None  # (k, n); None if every user may use every server

    def columns(self, keys: Ints) -> Columns:
        """Return the columns of some pairs."""
        server, user = np.divmod(keys, self.d.shape[0])
        return Columns(self.d, self.c.shape[1], user, server)

    def start(self, keys: Ints) -> Iterate:
        """Return a point on these columns, away from everything that is known."""
        return cold_start(self.columns(keys), self.c, self.a, self.fixed, self.guess, self.most)

    def likely(self) -> Floats:
        """Return what each user is likely to get."""
        return self.guess * self.a + (0.0 if self.fixed is None else self.fixed)

    def priced(self, some: slice, worth: Floats) -> tuple[Floats, Ints]:
        """Return the prices of some servers, and which users fill them best.

        Parameters
        ----------
        some
            The servers.
        worth
            What a unit of each user is worth there, shape (servers, n).
        """
        if self.usable is not None:
            worth[~self.usable[some]] = -1.0
        c = np.ascontiguousarray(self.c[:, some].T)
        prices, basis = np.empty_like(c), np.empty(c.shape, dtype=np.int64)
        kernel = fast(price_servers, steps=5.0 * worth.size * c.shape[1])
        kernel(self.d, c, worth, PIVOTS, MISSED, prices, basis)
        return prices, basis

    def chunks(self) -> Iterator[tuple[slice, Ints]]:
        """Yield runs of servers whose pairs fit into memory, with the keys of their first pairs."""
        step = max(1, CHUNK // self.d.shape[0])
        for first in range(0, self.c.shape[1], step):
            last = min(first + step, self.c.shape[1])
            yield slice(first, last), np.arange(first, last)[:, None] * self.d.shape[0]


def usable_pairs(d: Floats, c: Floats, allowed: Bools | None) -> Bools | None:
    """Return which pairs (k, n) can be used at all, or None if all can."""
    usable = None if allowed is None or allowed.all() else np.array(allowed.T, order="C")
    for empty, needy in zip(c.T <= 0, d.T > 0, strict=True):
        if empty.any() and needy.any():
            if usable is None:
                usable = np.ones((c.shape[0], d.shape[0]), dtype=np.bool_)
            usable[empty] &= ~needy
    return usable


def every_pair(problem: RadialProblem) -> RadialState:
    """Return all columns and a point on them."""
    keys = np.arange(problem.d.shape[0] * problem.c.shape[1])
    if problem.usable is not None:
        keys = np.flatnonzero(problem.usable)
    return RadialState(keys, problem.start(keys))
