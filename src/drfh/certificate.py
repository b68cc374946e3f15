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

import numpy as np

from drfh.placement import Placement
from drfh.prices import Prices, TablePrices
from drfh.problem import Bools, Floats, Ints, Problem
from drfh.resources import TOLERANCE
from drfh.waterfill import water_level

__all__ = ["Certificate", "Check", "Round", "Verification", "entitlements"]

_CHUNK = 4_000_000  # entries checked at once

# Prices found by a solver stop a user only if they leave it, all others held, no more room than
# this, and if it pays enough to be told from one that pays nothing.
_MOST_ROOM = 1e-4
_FAINTEST_PAYMENT = 1e-12
_PAST = 1e-7  # relative rise that is no round-off


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


def entitlements(problem: Problem, promised: Floats | None = None) -> tuple[Floats, Floats]:
    """Return the share that makes a level of 1, and the most share, of each user.

    By default these are weights and all tasks. Where tasks were promised, a level of 1 is the
    promise kept, and nobody gets more; a user that no server can serve gets nothing.
    """
    if promised is None:
        return problem.weight, problem.share_limit
    share = promised * problem.task_share
    return np.where(share > 0, share, 1.0), np.where(problem.reachable, share, 0.0)


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
    promised : array or None
        Promised tasks, where it is about keeping a promise.
    """

    placement: Placement
    rounds: tuple[Round, ...]
    gap: float
    tolerance: float
    promised: Floats | None = None

    @classmethod
    def of(
        cls, placement: Placement, rounds: list[Round], promised: Floats | None = None
    ) -> Certificate:
        """Measure the rounds against a placement.

        Parameters
        ----------
        placement
            What was given out.
        rounds
            Who stopped when, and the prices that say why.
        promised
            Promised tasks, see :func:`entitlements`.
        """
        problem = placement.problem
        measured, gap = _measure(placement, rounds, promised)
        needed = np.count_nonzero(problem.demand.any(axis=0))
        tolerance = TOLERANCE if needed <= 2 else 10 * TOLERANCE
        return cls(placement, tuple(measured), gap, tolerance, promised)

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
        _, cap = entitlements(problem, self.promised)
        with np.errstate(invalid="ignore", divide="ignore"):
            above = np.where(np.isfinite(cap), share / cap - 1, -1.0)
            above[cap == 0] = np.where(share[cap == 0] > 0, np.inf, 0.0)
        tables = [r.prices.of_blocks(problem) for r in self.rounds if r.prices is not None]
        unsound = sum(int((~(np.isfinite(t) & (t >= 0))).sum()) for t in [placement.tasks, *tables])
        stopped = np.zeros(len(problem.users), dtype=np.int64)
        for r in self.rounds:
            stopped[r.users] += 1
        _, gap = _measure(placement, list(self.rounds), self.promised)
        checks = (
            Check("server over capacity", overload, 0.0),
            Check("task where it may not run", float(misplaced), 0.0),
            Check("task on no server", placement.lost(), 1e-12),
            Check("more tasks than a user has", max(float(above.max()), 0.0), 1e-12),
            Check("negative or infinite task or price", float(unsound), 0.0),
            Check("user without a proof", float((stopped != 1).sum()), 0.0),
            Check("relative gap", gap, self.tolerance),
        )
        return Verification(checks)


def _measure(
    placement: Placement, rounds: list[Round], promised: Floats | None
) -> tuple[list[Round], float]:
    """Return the rounds with bound and gap, and the largest gap or shortfall below a cap."""
    problem = placement.problem
    entitlement, cap = entitlements(problem, promised)
    share = placement.user_tasks * problem.task_share
    active = np.ones(len(share), dtype=bool)
    measured: list[Round] = []
    worst = 0.0
    for r in rounds:
        bound, gap = math.inf, 0.0
        satisfied = np.ones(len(r.users), dtype=bool)
        if r.prices is not None:
            unit, value = r.prices.of_users(problem), r.prices.value(problem)
            held = float(unit[~active] @ share[~active]) if len(measured) else 0.0
            rising = np.where(active, entitlement, 0.0) if len(measured) else entitlement
            bound = water_level(unit, rising, cap, value - held)
            full = cap <= entitlement * bound  # has all its tasks at this level
            gap = _gap_of_round(share, entitlement, active & ~full, bound)
            # A user counts as stopped by the prices only if it pays them.
            satisfied = full[r.users] | ~(unit[r.users] > 0)
            payers = r.users[~satisfied]
            if len(payers) and not r.prices.sharp:
                room = _room(unit, share, np.where(active, rising * bound, math.inf), value, payers)
                gap = gap if room <= _MOST_ROOM else max(gap, room)
            later = active.copy()
            later[r.users] = False
            if isinstance(r.prices, TablePrices) and later.any():
                firm = r.prices.firm(float(unit[r.users].max()))
                gap = max(gap, _escape(firm, problem, share / entitlement, later, bound))
        if satisfied.any():
            given, limit = share[r.users][satisfied], cap[r.users][satisfied]
            with np.errstate(invalid="ignore", divide="ignore"):
                missing = np.where(limit > 0, 1 - given / limit, 0.0)
            worst = max(worst, float(np.nan_to_num(missing, nan=1.0).max()))
        worst = max(worst, gap)
        measured.append(Round(r.users, r.level, r.prices, bound, gap))
        active[r.users] = False
    return measured, worst


def _gap_of_round(share: Floats, entitlement: Floats, raised: Bools, bound: float) -> float:
    """Return how far below the bound the lowest of all users stays that this round raises."""
    if math.isnan(bound):
        return math.inf
    if not raised.any() or bound <= 0:
        return 0.0
    gap = 1 - float((share[raised] / entitlement[raised]).min()) / bound
    # Everybody clearly above a bound that holds for all allocations: that is no allocation.
    return abs(gap) if gap < -TOLERANCE else max(gap, 0.0)


def _escape(
    prices: TablePrices, problem: Problem, level: Floats, later: Bools, bound: float
) -> float:
    """Return 1 if a user rises past prices that it pays, however little it needs; else 0.

    DRFH jumps where a demand becomes 0: a user that needs 1e-12 of what is used up stops with
    the others, and a solver does not see it.
    """
    past = later & (level > bound * (1 + _PAST))
    if not past.any():
        return 0.0
    return float((prices.of_users(problem)[past] > 0).any())


def _room(unit: Floats, share: Floats, level: Floats, value: float, users: Ints) -> float:
    """Return by what part a user could rise, all others held, for what the prices leave unspent."""
    paid = unit * np.minimum(share, level)
    total = float(paid.sum())
    smallest = float(paid[users].min())
    if smallest < _FAINTEST_PAYMENT * total:
        return 1.0
    return max(0.0, value - total) / smallest
