"""Prices of resources on servers, of which certificates consist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from drfh.allocation.problem import Floats, Ints, Problem

__all__ = ["KinkedPrices", "Prices", "ResourcePrices", "TablePrices"]

_CHUNK = 4_000_000  # numbers in one temporary array
_FIRM = 1e-9


class Prices(Protocol):
    """Prices ≥ 0 of every resource on every block of servers, in shares of the pool."""

    #: Whether 0 means 0: a closed form has no small number that stands for it, a solver has.
    sharp: ClassVar[bool]

    def value(self, problem: Problem) -> float:
        """Return the worth of all capacity."""

    def of_users(self, problem: Problem) -> Floats:
        """Return the least price of one unit of share, for each user."""

    def of_blocks(self, problem: Problem) -> Floats:
        """Return the prices as a table, blocks × resources."""


@dataclass(frozen=True, slots=True)
class ResourcePrices:
    """One resource is worth 1 on every server, the others nothing."""

    sharp: ClassVar[bool] = True

    resource: int

    def value(self, problem: Problem) -> float:
        """Return the worth of all capacity."""
        return float(problem.capacity[:, self.resource].sum())

    def of_users(self, problem: Problem) -> Floats:
        """Return the price of one unit of share, for each user."""
        return problem.direction[:, self.resource]

    def of_blocks(self, problem: Problem) -> Floats:
        """Return the prices as a table, blocks × resources."""
        table = np.zeros((len(problem.blocks), problem.demand.shape[1]))
        table[:, self.resource] = 1.0
        return table


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

    def firm(self, paid: float) -> TablePrices:
        """Return the prices without those that a solver cannot tell from 0 where `paid` is paid."""
        return TablePrices(self.table * (self.table >= _FIRM * paid), self.class_of_block)

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
