"""Columns of the radial sharing problem, and points on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from drfh.allocation.problem import Bools, Floats, Ints
from drfh.kernels import compiled, fast
from drfh.kernels.schur import (
    nearest_pairs,
    price_servers,
    server_loads,
    unit_costs,
)

__all__ = [
    "FEW_USERS",
    "Columns",
    "Iterate",
    "RadialProblem",
    "RadialState",
    "Target",
    "alike_order",
    "cold_start",
    "every_pair",
    "lacking",
    "usable_pairs",
]


MANY = 50_000  # columns from which on compiled sums are faster, with the time to load them
ALIKE = 8  # servers in a run, on average, from which on matrix products are faster


@dataclass(frozen=True, slots=True)
class Run:
    """Servers one after the other with columns for the same users.

    `servers` and `columns` are where they stand, `users` who they are for, `demand` the rows of
    these users.
    """

    servers: slice
    columns: slice
    users: Ints
    demand: Floats

    def of(self, values: Floats) -> Floats:
        """Return values of the columns as a table, servers × users."""
        return values[self.columns].reshape(-1, self.users.size)


class Columns:
    """The usable user-server pairs in play, sorted by server, then user.

    `user` and `server` have shape (J,). `runs` are servers with the same users, if they are many:
    then sums are matrix products.

    Examples
    --------
    >>> columns = Columns(np.array([[1.0], [0.5]]), 1, np.array([0, 1]), np.array([0, 0]))
    >>> columns.load(np.array([1.0, 2.0])).tolist()
    [[2.0]]
    """

    def __init__(self, d: Floats, servers: int, user: Ints, server: Ints) -> None:
        self.users, self.resources, self.servers = *d.shape, servers
        self.user, self.server, self._d = user, server, d
        self.count = np.bincount(server, minlength=servers)
        self.start = np.concatenate(([0], np.cumsum(self.count))).astype(np.int64)
        self._filled = np.flatnonzero(self.count)
        self._first = self.start[self._filled]
        self.runs = self._find_runs() if user.size >= MANY else None

    def _find_runs(self) -> list[Run] | None:
        """Return the runs of servers with the same users; None if they are short."""
        ends = np.flatnonzero(np.diff(self.count)) + 1  # where the number of users changes
        first, last = np.concatenate(([0], ends)), np.concatenate((ends, [self.servers]))
        most = self.servers / ALIKE
        if first.size > most:
            return None
        runs: list[Run] = []
        for i, j in zip(first.tolist(), last.tolist(), strict=True):
            size = int(self.count[i])
            table = self.user[self.start[i] : self.start[j]].reshape(-1, size) if size else None
            if table is None:
                continue
            cut = np.flatnonzero((table[1:] != table[:-1]).any(axis=1)) + i + 1
            for low, high in zip([i, *cut.tolist()], [*cut.tolist(), j], strict=True):
                users = self.user[self.start[low] : self.start[low] + size]
                part = slice(int(self.start[low]), int(self.start[high]))
                runs.append(Run(slice(low, high), part, users, self._d[users]))
            if len(runs) > most:
                return None
        return runs

    @cached_property
    def keys(self) -> Ints:
        """The columns as ``server * n + user``, ascending."""
        keys: Ints = self.server * self.users + self.user
        return keys

    @cached_property
    def demand(self) -> Floats:
        """Demand of each column, one row per resource, shape (m, J)."""
        return np.ascontiguousarray(self._d.T[:, self.user])

    @cached_property
    def by_user(self) -> tuple[Ints, Ints]:
        """The columns sorted by user, then server, and where each user's begin in that order."""
        count = np.bincount(self.user, minlength=self.users)
        start = np.concatenate(([0], np.cumsum(count))).astype(np.int64)
        return np.argsort(self.user, kind="stable"), start

    def load(self, x: Floats, times: Floats | None = None) -> Floats:
        """Return what the amounts `x` use of each resource (row) at each server (column).

        `times` multiplies the amounts of each user.
        """
        if times is not None and self.runs is None:
            x = x * times[self.user]
        if self.user.size < MANY:
            return np.stack([self.per_server(row * x) for row in self.demand])
        load = np.zeros((self.resources, self.servers))
        if self.runs is None:
            compiled(server_loads)(self.start, self.demand, x, load)
            return load
        for run in self.runs:
            demand = run.demand if times is None else run.demand * times[run.users, None]
            load[:, run.servers] = (run.of(x) @ demand).T
        return load

    def fitted(self, x: Floats, c: Floats, load: Floats | None = None) -> Floats:
        """Return the amounts with each server scaled so that it is full, by its load on `c`."""
        load = self.load(x) if load is None else load
        with np.errstate(divide="ignore", invalid="ignore"):
            used = np.where(c > 0, load / c, 0.0).max(axis=0)
        return x / self.spread(np.where(used > 0, used, 1.0))

    def per_server(self, x: Floats) -> Floats:
        """Return each server's total of the amounts `x`."""
        total = np.zeros(self.servers)
        total[self._filled] = np.add.reduceat(x, self._first)
        return total

    def spread(self, values: Floats) -> Floats:
        """Return one value per column from one per server."""
        return np.asarray(np.repeat(values, self.count))

    def of_users(self, values: Floats) -> Floats:
        """Return one value per column from one per user."""
        if self.runs is None:
            return values[self.user]
        result = np.empty(self.user.size)
        for run in self.runs:
            run.of(result)[:] = values[run.users]
        return result

    def least(self, values: Floats) -> Floats:
        """Return each user's least of the values of its columns; all must have one."""
        if self.runs is None:
            order, start = self.by_user
            return np.asarray(np.minimum.reduceat(values[order], start[:-1]))
        least = np.full(self.users, np.inf)
        for run in self.runs:
            least[run.users] = np.minimum(least[run.users], run.of(values).min(axis=0))
        return least

    def cost(self, p: Floats, mu: Floats | None = None) -> Floats:
        """Return what a unit of each column costs at the prices `p`, shape (m, k), less `mu`."""
        if self.runs is not None:
            total = np.empty(self.user.size)
            for run in self.runs:
                price, demand = p[:, run.servers].T, run.demand
                if mu is not None:
                    price = np.column_stack((price, np.ones(len(price))))
                    demand = np.column_stack((demand, -mu[run.users]))
                np.matmul(price, demand.T, out=run.of(total))
            return total
        total = np.zeros(self.user.size)
        if self.user.size >= MANY:
            compiled(unit_costs)(self.start, self.demand, np.ascontiguousarray(p), total)
        else:
            for row, price in zip(self.demand, p, strict=True):
                total += row * self.spread(price)
        return total if mu is None else total - mu[self.user]

    def spent(self, x: Floats, p: Floats) -> Floats:
        """Return what the amounts `x` of each user cost at the prices `p`, shape (m, k)."""
        if self.runs is None:
            return self.per_user(x * self.cost(p))
        total = np.zeros(self.users)
        for run in self.runs:
            total[run.users] += ((p[:, run.servers] @ run.of(x)) * run.demand.T).sum(axis=0)
        return total

    def per_user(self, x: Floats) -> Floats:
        """Return each user's total of the amounts `x`."""
        if self.runs is None:
            return np.asarray(np.bincount(self.user, x, minlength=self.users), dtype=np.float64)
        total = np.zeros(self.users)
        for run in self.runs:
            total[run.users] += run.of(x).sum(axis=0)
        return total

    def moments(self, ratio: Floats) -> list[list[Floats]]:
        """Return sums over each server's columns of ratio × demand × demand, r × q ≤ r."""
        m = self.resources
        if self.runs is None:
            weighted = ratio * self.demand
            return [
                [self.per_server(weighted[r] * self.demand[q]) for q in range(r + 1)]
                for r in range(m)
            ]
        result = np.zeros((m, m, self.servers))
        lower = np.tril_indices(m)
        for run in self.runs:
            squares = run.demand[:, lower[0]] * run.demand[:, lower[1]]
            result[(*lower, run.servers)] = (run.of(ratio) @ squares).T
        return [list(result[r, : r + 1]) for r in range(m)]


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


# What users should have, given their prices and what all servers are worth at them: the question
# that follows from a bound. It must get smaller as the bound does.
Target = Callable[[Floats, float], Floats]

CHUNK = 2_000_000  # pairs looked at together
FEW_USERS = 300
# Pairs that may join at a time, for each server, of few users and of more; and the part of its
# reduced cost that a step leaves to such a pair.
JOINING, SHRUNK = (2, 4), 0.05
PIVOTS, MISSED = 60, 1e-13  # most pivots to price a server, and what is missed by round-off


@dataclass(frozen=True, slots=True)
class RadialState:
    """The columns in play and a point on them."""

    columns: Columns
    point: Iterate


@dataclass(frozen=True, slots=True)
class RadialProblem:
    """The problem, scaled: capacities (m, k) average one and `a` sums to the servers.

    User i gets ``fixed[i] + theta * a[i]``, where theta is likely to be about `guess`. `fixed` is
    None if nothing is; else `most` is what it may cost at most. With a `target`, `a` follows the
    prices. `unit` is the capacity, `more` the share of `a` that is one here.
    """

    d: Floats
    c: Floats
    a: Floats
    fixed: Floats | None
    guess: float
    most: float
    usable: Bools | None  # (k, n); None if every user may use every server
    target: Target | None = None
    unit: float = 1.0
    more: float = 1.0

    @property
    def keys(self) -> Ints:
        """All pairs, as ``server * n + user``."""
        if self.usable is None:
            return np.arange(self.c.shape[1] * len(self.d))
        return np.flatnonzero(self.usable)

    @property
    def pairs(self) -> int:
        """How many pairs there are."""
        return self.c.shape[1] * len(self.d) if self.usable is None else int(self.usable.sum())

    @property
    def alike(self) -> bool:
        """Whether restrictions leave long runs of servers for the same users."""
        if self.usable is None:
            return False
        return ALIKE * int((self.usable[1:] != self.usable[:-1]).any(axis=1).sum()) < len(
            self.usable
        )

    def aimed(self, mu: Floats, worth: float) -> RadialProblem:
        """Return the problem with the `a` that follows from prices of users and of all servers."""
        if self.target is None:
            return self
        return replace(self, a=self.target(mu, worth * self.unit) * self.more)

    def ahead(self, columns: Columns, at: Iterate, step: Iterate) -> tuple[float, Ints]:
        """Return the multiple of a step that makes no pair out of play too cheap.

        And the pairs to join: those that it makes much cheaper, a few of each server.
        """
        found = np.empty((columns.servers, JOINING[len(self.d) > FEW_USERS]), dtype=np.int64)
        reach = np.empty(found.shape)
        usable = np.empty((0, len(self.d)), dtype=np.bool_) if self.usable is None else self.usable
        kernel = fast(nearest_pairs, steps=2.0 * self.c.size * len(self.d))
        kernel(
            columns.start, columns.user, self.d, usable, np.ascontiguousarray(at.p.T), at.mu,
            np.ascontiguousarray(step.p.T), step.mu, SHRUNK, found, reach,
        )  # fmt: skip
        server, slot = np.nonzero(found >= 0)
        return float(reach.min()), np.sort(server * len(self.d) + found[server, slot])

    def columns(self, keys: Ints) -> Columns:
        """Return the columns of some pairs."""
        server, user = np.divmod(keys, self.d.shape[0])
        return Columns(self.d, self.c.shape[1], user, server)

    def start(self, columns: Columns) -> RadialState:
        """Return a point on these columns, away from everything that is known."""
        point = cold_start(columns, self.c, self.a, self.fixed, self.guess, self.most)
        return RadialState(columns, point)

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


def alike_order(usable: Bools) -> Ints:
    """Return an order of the servers with those for the same users side by side."""
    _, pattern = np.unique(np.packbits(usable, axis=1), axis=0, return_inverse=True)
    return np.argsort(pattern, kind="stable")


def every_pair(problem: RadialProblem) -> RadialState:
    """Return all columns and a point on them."""
    return problem.start(problem.columns(problem.keys))
