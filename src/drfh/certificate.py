"""The proof of optimality: prices for each round, and what anyone can check with them.

A price vector p for every server bounds what users can have together: whatever they are given,
the tasks of user i cost at least mu_i = min over its servers of p·d_i a unit, and all servers
together are worth P = Σ p·c. So Σ_i mu_i·share_i ≤ P for *every* allocation. If the shares
that were given out use up P, nobody with mu_i > 0 can have more without somebody at or below
its level having less. That is one round of the leximin order; the next round says the same for
those that are left, with the earlier ones held.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from drfh.placement import Placement
from drfh.problem import Floats, Ints, Problem
from drfh.resources import TOLERANCE
from drfh.waterfill import water_level

__all__ = [
    "Certificate",
    "Check",
    "KinkedPrices",
    "PoolPrices",
    "Prices",
    "Round",
    "TablePrices",
    "Verification",
    "single_resource",
]

_CHUNK = 4_000_000  # numbers in one temporary array

# A user that pays less than this part of all payments, at prices found by a solver, cannot be
# told from one that pays nothing and is not stopped.
_FAINTEST_PAYMENT = 1e-12


class Prices(Protocol):
    """Prices ≥ 0 of every resource on every block of servers, in shares of the pool."""

    #: Whether 0 means 0: a closed form knows, a solver has round-off.
    sharp: ClassVar[bool]

    def value(self, problem: Problem) -> float:
        """Return the worth of all capacity."""

    def of_users(self, problem: Problem) -> Floats:
        """Return the least price of one unit of share, for each user."""

    def of_blocks(self, problem: Problem) -> Floats:
        """Return the prices as a table, blocks × resources."""


@dataclass(frozen=True, slots=True)
class PoolPrices:
    """The same price vector on every server."""

    sharp: ClassVar[bool] = True

    vector: tuple[float, ...]

    def value(self, problem: Problem) -> float:
        """Return the worth of all capacity."""
        return float(problem.capacity.sum(axis=0) @ np.array(self.vector))

    def of_users(self, problem: Problem) -> Floats:
        """Return the price of one unit of share, for each user."""
        price: Floats = problem.direction @ np.array(self.vector)
        return price

    def of_blocks(self, problem: Problem) -> Floats:
        """Return the prices as a table, blocks × resources."""
        return np.tile(np.array(self.vector), (len(problem.blocks), 1))


def single_resource(resource: int, problem: Problem) -> PoolPrices:
    """Return the prices that make one resource worth 1 everywhere and the others nothing."""
    return PoolPrices(tuple(float(r == resource) for r in range(problem.demand.shape[1])))


@dataclass(frozen=True, slots=True)
class KinkedPrices:
    """Two resources: the price function min(slope·x_first, x_second)."""

    sharp: ClassVar[bool] = True

    slope: float
    first: int
    second: int

    def _of(self, rows: Floats) -> Floats:
        return np.minimum(self.slope * rows[:, self.first], rows[:, self.second])

    def value(self, problem: Problem) -> float:
        """Return the worth of all capacity."""
        return float(self._of(problem.capacity).sum())

    def of_users(self, problem: Problem) -> Floats:
        """Return the price of one unit of share, for each user."""
        return self._of(problem.direction)

    def of_blocks(self, problem: Problem) -> Floats:
        """Return the prices as a table, blocks × resources."""
        capacity = problem.capacity
        by_first = self.slope * capacity[:, self.first] <= capacity[:, self.second]
        table = np.zeros_like(capacity)
        table[by_first, self.first] = self.slope
        table[~by_first, self.second] = 1.0
        return table


@dataclass(frozen=True, slots=True, eq=False)
class TablePrices:
    """A price vector for each class of servers."""

    sharp: ClassVar[bool] = False

    table: Floats
    class_of_block: Ints

    def value(self, problem: Problem) -> float:
        """Return the worth of all capacity."""
        return float(np.einsum("br,br->", problem.capacity, self.table[self.class_of_block]))

    def of_users(self, problem: Problem) -> Floats:
        """Return the least price of one unit of share over the servers a user can use."""
        rows, blocks = self._distinct(problem)
        n = len(problem.users)
        cheapest = np.empty(n)
        usable = problem.usable_on(blocks)
        step = max(1, _CHUNK // len(blocks))
        for start in range(0, n, step):
            part = slice(start, start + step)
            cost = problem.direction[part] @ rows.T
            if usable is not None:
                cost[~usable[part]] = np.inf
            cheapest[part] = cost.min(axis=1)
        # A user that can use no server pays nothing for nothing.
        cheapest[np.isinf(cheapest)] = 0.0
        return cheapest

    def _distinct(self, problem: Problem) -> tuple[Floats, Ints]:
        """Return price rows and example blocks: a row a class, if its blocks are all alike."""
        classes, first, member = np.unique(
            self.class_of_block, return_index=True, return_inverse=True
        )
        example = first[member]
        alike = problem.eligible is None or bool(
            (problem.eligible == problem.eligible[:, example]).all()
        )
        if alike and problem.lacks is not None:
            alike = bool((problem.lacks == problem.lacks[example]).all())
        if alike:
            return self.table[classes], first
        return self.table[self.class_of_block], np.arange(len(self.class_of_block))

    def of_blocks(self, problem: Problem) -> Floats:
        """Return the prices as a table, blocks × resources."""
        table: Floats = self.table[self.class_of_block]
        return table


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """One round of the leximin order.

    Attributes
    ----------
    users : int array
        Who stops in this round, by position. They stop at `level`, or at their last task.
    level : float
        The common level (share / weight) of those that have tasks left.
    prices : Prices or None
        Why nobody of them can have more; None if all of them have all their tasks.
    bound : float
        Upper bound of `level` by the prices, given what stopped earlier.
    gap : float
        1 − level / bound.
    """

    users: Ints
    level: float
    prices: Prices | None
    bound: float = math.inf
    gap: float = 0.0


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was checked: what, how bad, how bad it may be."""

    name: str
    worst: float
    limit: float

    @property
    def ok(self) -> bool:
        """Whether it is within its limit."""
        return bool(self.worst <= self.limit)


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` found. It is true if every check is within its limit."""

    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether every check is within its limit."""
        return all(check.ok for check in self.checks)

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return "\n".join(
            f"{'ok  ' if c.ok else 'FAIL'} {c.name}: {c.worst:.2e} (limit {c.limit:.0e})"
            for c in self.checks
        )


@dataclass(frozen=True, eq=False)
class Certificate:
    """Prices for each round and the gap that they leave.

    Attributes
    ----------
    rounds : tuple of Round
        In the order of rising levels.
    gap : float
        The largest relative gap of any round, or shortfall below a task limit.
    tolerance : float
        The gap that this problem should reach: 1e-9 for two resources, 1e-8 otherwise.
    """

    placement: Placement
    entitlement: Floats
    cap: Floats
    rounds: tuple[Round, ...]
    gap: float
    tolerance: float

    @classmethod
    def of(
        cls,
        placement: Placement,
        rounds: list[Round],
        *,
        entitlement: Floats | None = None,
        cap: Floats | None = None,
    ) -> Certificate:
        """Measure the rounds against a placement.

        Parameters
        ----------
        placement
            What was given out.
        rounds
            Who stopped when, and the prices that say why.
        entitlement
            Share that makes a level of 1; the weights by default.
        cap
            Most share of each user; all its tasks by default.
        """
        problem = placement.problem
        entitlement = problem.weight if entitlement is None else entitlement
        cap = problem.share_limit if cap is None else cap
        measured, shortfall = _measure(placement, rounds, entitlement, cap)
        gap = max([shortfall, *(r.gap for r in measured)])
        needed = np.count_nonzero(problem.demand.any(axis=0))
        tolerance = TOLERANCE if needed <= 2 else 10 * TOLERANCE
        return cls(placement, entitlement, cap, tuple(measured), gap, tolerance)

    @property
    def closed(self) -> bool:
        """Whether the gap is within the tolerance."""
        return self.gap <= self.tolerance

    def round_of(self, user: int) -> int:
        """Return the number of the round in which a user stopped."""
        return next(k for k, r in enumerate(self.rounds) if user in r.users)

    def verify(self) -> Verification:
        """Check placement and prices from scratch, without a solver.

        Every server is summed up in user order; every user's least price is taken over all
        servers it can use; every round's bound is computed anew.

        Examples
        --------
        >>> import drfh
        >>> cluster = drfh.Cluster([drfh.Server({"cpu": 9, "memory": 18})])
        >>> user = drfh.User("a", {"cpu": 1, "memory": 4})
        >>> bool(drfh.allocate(cluster, [user]).certificate.verify())
        True
        """
        placement, problem = self.placement, self.placement.problem
        blocks = np.arange(len(problem.blocks))
        parts = np.array_split(blocks, 1 + placement.expanded // _CHUNK)
        overload = max(placement.overload(part) for part in parts)
        misplaced = sum(placement.misplaced(part) for part in parts)
        share = placement.user_tasks * problem.task_share
        with np.errstate(invalid="ignore"):
            above = np.where(np.isfinite(self.cap), share / self.cap - 1, -1.0)
            above[self.cap == 0] = np.where(share[self.cap == 0] > 0, np.inf, 0.0)
        negative = min(
            [float(placement.tasks.min(initial=0.0))]
            + [float(r.prices.of_blocks(problem).min()) for r in self.rounds if r.prices]
        )
        measured, shortfall = _measure(placement, list(self.rounds), self.entitlement, self.cap)
        stopped = np.zeros(len(problem.users), dtype=np.int64)
        for r in self.rounds:
            stopped[r.users] += 1
        gap = max([shortfall, *(r.gap for r in measured)])
        checks = (
            Check("server over capacity", overload, 0.0),
            Check("task where it may not run", float(misplaced), 0.0),
            Check("more tasks than a user has", max(float(above.max()), 0.0), 1e-12),
            Check("negative task or price", max(0.0, -negative), 0.0),
            Check("user without a proof", float((stopped != 1).sum()), 0.0),
            Check("relative gap", gap, self.tolerance),
        )
        return Verification(checks)


def _measure(
    placement: Placement, rounds: list[Round], entitlement: Floats, cap: Floats
) -> tuple[list[Round], float]:
    """Return the rounds with bound and gap, and the worst shortfall below a cap."""
    problem = placement.problem
    share = placement.user_tasks * problem.task_share
    active = np.ones(len(share), dtype=bool)
    measured: list[Round] = []
    shortfall = 0.0
    for r in rounds:
        at_cap = np.zeros(len(r.users), dtype=bool)
        mine, own_cap = share[r.users], cap[r.users]
        if r.prices is None:
            at_cap[:] = True
            bound = math.inf
        else:
            unit = r.prices.of_users(problem)
            spent = float(unit[~active] @ share[~active]) if len(measured) else 0.0
            rising = np.where(active, entitlement, 0.0) if len(measured) else entitlement
            bound = water_level(unit, rising, cap, r.prices.value(problem) - spent)
            # A user counts as stopped by the prices only if it pays them.
            at_cap = (own_cap <= entitlement[r.users] * bound) | (unit[r.users] <= 0)
        if at_cap.any():
            given, limit = mine[at_cap], own_cap[at_cap]
            with np.errstate(invalid="ignore", divide="ignore"):
                missing = np.where(limit > 0, 1 - given / limit, 0.0)
            shortfall = max(shortfall, float(np.nan_to_num(missing, nan=1.0).max()))
        gap = 0.0
        if not at_cap.all():
            level = float((mine / entitlement[r.users])[~at_cap].min())
            gap = max(0.0, 1 - level / bound) if bound > 0 else 0.0
            if r.prices is not None and not r.prices.sharp:
                paid = unit * np.minimum(share, entitlement * level)
                if paid[r.users][~at_cap].min() < _FAINTEST_PAYMENT * float(paid.sum()):
                    gap = 1.0
        measured.append(Round(r.users, r.level, r.prices, bound, gap))
        active[r.users] = False
    return measured, shortfall
