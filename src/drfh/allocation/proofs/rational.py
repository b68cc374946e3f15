"""Proof of a leximin allocation in rational arithmetic."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from drfh.allocation.problem import Entitlement, Floats, Ints, Problem

__all__ = ["RationalMixes", "RationalProblem", "RationalProof", "RationalRound"]


@dataclass(frozen=True, slots=True)
class RationalMixes:
    """Kinds of tasks that rise together: owner, weight, ratio and parts of the pool of each."""

    owner: tuple[int, ...]
    weight: tuple[Fraction, ...]
    ratio: tuple[Fraction, ...]
    part: tuple[tuple[Fraction, ...], ...]

    def rates(self, rising: Collection[int]) -> dict[int, Fraction]:
        """Return the tasks of each kind that rises, a unit of level."""
        mixes: dict[int, list[int]] = {}
        for kind in rising:
            mixes.setdefault(self.owner[kind], []).append(kind)
        rates: dict[int, Fraction] = {}
        for kinds in mixes.values():
            columns = zip(*(self.part[kind] for kind in kinds), strict=True)
            amounts = [self.ratio[kind] for kind in kinds]
            share = max(
                sum((a * p for a, p in zip(amounts, column, strict=True)), Fraction(0))
                for column in columns
            )
            rates |= {kind: self.ratio[kind] * self.weight[kind] / share for kind in kinds}
        return rates


@dataclass(frozen=True, slots=True)
class RationalProblem:
    """A problem and its entitlements as fractions.

    Attributes
    ----------
    demand, capacity
        Users × resources and blocks × resources, in the cluster's units.
    usable
        The blocks of each user.
    rate
        Tasks of each user at level 1.
    cap
        The most tasks of each user; None for no end.
    mixes
        If the users are kinds of tasks: then their rates change with the kinds that rise.
    """

    demand: tuple[tuple[Fraction, ...], ...]
    capacity: tuple[tuple[Fraction, ...], ...]
    usable: tuple[tuple[int, ...], ...]
    rate: tuple[Fraction, ...]
    cap: tuple[Fraction | None, ...]
    mixes: RationalMixes | None = None

    @classmethod
    def of(
        cls, problem: Problem, entitlement: Entitlement, *, mixed: bool = False
    ) -> RationalProblem:
        """Return every number as the fraction that it is."""
        blocks = np.arange(len(problem.blocks))
        usable = problem.usable_on(blocks)
        if usable is None:
            usable = np.ones((len(problem.users), len(blocks)), dtype=bool)
        count = problem.blocks.count.tolist()
        sizes = problem.cluster.capacity[problem.blocks.group].tolist()
        task = [Fraction(share) for share in problem.task_share.tolist()]
        return cls(
            tuple(tuple(map(Fraction, row)) for row in problem.demand.tolist()),
            tuple(
                tuple(Fraction(size) * number for size in row)
                for row, number in zip(sizes, count, strict=True)
            ),
            tuple(tuple(np.flatnonzero(row).tolist()) for row in usable),
            tuple(
                Fraction(share) / one
                for share, one in zip(entitlement.share.tolist(), task, strict=True)
            ),
            tuple(
                None if np.isinf(most) else Fraction(most) / one
                for most, one in zip(entitlement.cap.tolist(), task, strict=True)
            ),
            _mixes(problem) if mixed else None,
        )

    def rates(self, rising: Collection[int]) -> dict[int, Fraction]:
        """Return the tasks of each user that rises, a unit of level."""
        if self.mixes is not None:
            return self.mixes.rates(rising)
        return {user: self.rate[user] for user in rising}

    def unit_prices(self, prices: Mapping[tuple[int, int], Fraction]) -> list[Fraction]:
        """Return the least price of one task of each user over all blocks that it may use."""
        below = math.lcm(*(price.denominator for price in prices.values()))
        table = np.zeros((len(self.capacity), len(self.capacity[0])), dtype=object)
        for key, price in prices.items():
            table[key] = price.numerator * (below // price.denominator)
        result = []
        for demand, usable in zip(self.demand, self.usable, strict=True):
            unit = math.lcm(*(one.denominator for one in demand))
            need = np.array([one.numerator * (unit // one.denominator) for one in demand], object)
            costs = table[list(usable)] @ need
            result.append(Fraction(min(costs, default=0), below * unit))
        return result


def _mixes(problem: Problem) -> RationalMixes:
    assert problem.mixes is not None
    return RationalMixes(
        tuple(problem.mixes.owner.tolist()),
        tuple(map(Fraction, problem.weight.tolist())),
        tuple(map(Fraction, problem.mixes.ratio.tolist())),
        tuple(tuple(map(Fraction, row)) for row in problem.part_of_pool.tolist()),
    )


@dataclass(frozen=True, slots=True)
class RationalRound:
    """Who stops at a level, and the prices that say why (None: all have all their tasks)."""

    users: tuple[int, ...]
    level: Fraction
    prices: Mapping[tuple[int, int], Fraction] | None


@dataclass(frozen=True, slots=True)
class RationalProof:
    """An allocation as fractions, exact or to many digits: placement, and prices of each round.

    Attributes
    ----------
    problem
        The numbers.
    rounds
        In the order of rising levels.
    placement
        Tasks of each user on each block.
    """

    problem: RationalProblem
    rounds: tuple[RationalRound, ...]
    placement: Mapping[tuple[int, int], Fraction]

    def tasks(self) -> list[Fraction]:
        """Return the tasks of each user: those of the level at which it stopped."""
        return self._after_rounds()[-1]

    def _after_rounds(self) -> list[list[Fraction]]:
        """Return the tasks of each user at the end of each round."""
        problem = self.problem
        have = [Fraction(0)] * len(problem.rate)
        rising = {user for user, most in enumerate(problem.cap) if most != 0}
        level = Fraction(0)
        result = []
        for stop in self.rounds:
            for user, rate in problem.rates(rising).items():
                have[user] += rate * (stop.level - level)
            result.append(list(have))
            rising.difference_update(stop.users)
            level = stop.level
        return result

    def gap(self) -> float:
        """Return how far, relatively, any single user may be from its exact tasks.

        It is 0 where all equations hold exactly, and infinite where this is no proof. Who stops
        could get what the prices leave unspent, and what those before it may have too much.
        Only results are rounded, upwards.
        """
        problem, after = self.problem, self._after_rounds()
        users = range(len(problem.rate))
        lacking = self._lacking()
        if lacking is None or sorted(u for stop in self.rounds for u in stop.users) != [*users]:
            return math.inf
        off = list(lacking)
        last = Fraction(0)
        rising = {user for user, most in enumerate(problem.cap) if most != 0}
        for stop, have in zip(self.rounds, after, strict=True):
            prices = stop.prices or {}
            # Who reaches its last task stops there: its rate ends, and that of its mix changes.
            beyond = any((cap := problem.cap[u]) is not None and have[u] > cap for u in rising)
            if stop.level < last or beyond or any(price < 0 for price in prices.values()):
                return math.inf
            last = stop.level
            rising.difference_update(stop.users)
            unit = problem.unit_prices(prices) if prices else [Fraction(0)] * len(users)
            paid = [one * has for one, has in zip(unit, have, strict=True)]
            worth = (price * problem.capacity[b][r] for (b, r), price in prices.items())
            unspent = abs(sum(worth, Fraction(0)) - sum(paid, Fraction(0)))
            unspent += sum((Fraction(off[u]) * paid[u] for u in users if off[u]), Fraction(0))
            for user in stop.users:
                cap, slack = problem.cap[user], math.inf
                if unit[user]:
                    slack = _upwards(unspent, paid[user])
                if cap is not None:
                    slack = min(slack, _upwards(cap - have[user], cap))
                off[user] = lacking[user] + slack
        return max(off, default=0.0)

    def _lacking(self) -> list[float] | None:
        """Return the part of its tasks that each user lacks; None if the placement is not valid."""
        problem = self.problem
        placed = [Fraction(0)] * len(problem.rate)
        load = [[Fraction(0)] * len(row) for row in problem.capacity]
        for (user, block), amount in self.placement.items():
            if amount < 0 or block not in problem.usable[user]:
                return None
            placed[user] += amount
            for resource, one in enumerate(problem.demand[user]):
                load[block][resource] += one * amount
        if any(
            used > size
            for row, sizes in zip(load, problem.capacity, strict=True)
            for used, size in zip(row, sizes, strict=True)
        ):
            return None
        return [
            _upwards(max(need - have, Fraction(0)), need)
            for have, need in zip(placed, self.tasks(), strict=True)
        ]

    def placed(self) -> tuple[Ints, Ints, Floats]:
        """Return the entries of the placement: user, block, tasks; nothing above the exact sum."""
        left = self.tasks()
        entries = []
        for (user, block), amount in self.placement.items():
            used = min(amount, left[user])
            left[user] -= used
            entries.append((user, block, float(used)))
        users, blocks, tasks = zip(*entries, strict=True) if entries else ((), (), ())
        return (
            np.array(users, dtype=np.int64),
            np.array(blocks, dtype=np.int64),
            np.array(tasks, dtype=np.float64),
        )

    def error(self, tasks: Floats) -> float:
        """Return how far, relatively, these numbers of tasks are from the exact ones."""
        worst = Fraction(0)
        for given, right in zip(map(Fraction, tasks.tolist()), self.tasks(), strict=True):
            if given != right:
                worst = max(worst, abs(given - right) / right) if right else Fraction(1)
        return float(worst)


def _upwards(part: Fraction, whole: Fraction) -> float:
    """Return a part of a whole as a float that is not below it."""
    if not part:
        return 0.0
    return math.nextafter(float(part / whole), math.inf) if whole else math.inf
