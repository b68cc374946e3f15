"""Leximin rounds in rational arithmetic, for small problems with numbers of any range."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from drfh.allocation.proofs.rational import RationalProblem, RationalProof, RationalRound

__all__ = ["RationalRise", "RationalTableau", "TooLargeError", "rational_leximin"]

# A variable: tasks of an item on a server, what is free of a resource on a server, what an item
# has more than it must, or the level.
Variable = tuple[str, int, int]

_LEVEL: Variable = ("level", 0, 0)
# Pivots without progress after which the entering variable is chosen so that none comes back.
_PATIENCE = 20
_SMALL_NUMBER = 500  # bits of a number whose arithmetic costs about as much as handling it


class TooLargeError(Exception):
    """The problem is too large for rational arithmetic."""


@dataclass(frozen=True, slots=True)
class RationalRise:
    """How far items rose together, and the prices that stop them.

    Attributes
    ----------
    step : Fraction
        What the level rose.
    prices : dict or None
        Price of each resource on each server, where it is not 0; None if the limit was reached.
    """

    step: Fraction
    prices: dict[tuple[int, int], Fraction] | None


class RationalTableau:
    """Raises the tasks of items (users, or kinds of tasks) as far as the servers hold them.

    One simplex tableau is kept from the first rise to the last. It is free of fractions: entries
    are integers over one common denominator, and every division is exact (Edmonds 1967, Bareiss
    1968). Items that no longer rise keep their number; where they run is open.

    Parameters
    ----------
    demand
        What one task of each item needs, items × resources.
    capacity
        Servers × resources.
    usable
        The servers of each item.
    work
        Most digits computed in all, in billions of bits: about half a second each.

    Examples
    --------
    >>> one = Fraction(1)
    >>> tableau = RationalTableau([[one], [one / 2]], [[one], [one]], [[0, 1], [1]], work=1.0)
    >>> tableau.rise({0: one, 1: one}).step
    Fraction(4, 3)
    >>> tableau.tasks()
    {(0, 0): Fraction(1, 1), (0, 1): Fraction(1, 3), (1, 1): Fraction(4, 3)}
    """

    def __init__(
        self,
        demand: Sequence[Sequence[Fraction]],
        capacity: Sequence[Sequence[Fraction]],
        usable: Sequence[Iterable[int]],
        *,
        work: float,
    ) -> None:
        self._left = work * 1e9
        self._columns: list[Variable] = [
            ("tasks", item, server) for item, where in enumerate(usable) for server in where
        ]
        self._rows: list[Variable] = []
        self._factor: dict[Variable, Fraction] = {}
        self._value: list[Fraction] = []
        table: list[list[int]] = []
        for server, sizes in enumerate(capacity):
            for resource, size in enumerate(sizes):
                row = [
                    demand[item][resource] if at == server else Fraction(0)
                    for _, item, at in self._columns
                ]
                if not any(row):
                    continue
                integers, factor = _integers([*row, size])
                table.append(integers[:-1])
                self._value.append(Fraction(integers[-1]))
                self._rows.append(("free", server, resource))
                self._factor[self._rows[-1]] = factor
        for item in range(len(demand)):
            self._rows.append(("over", item, 0))
            table.append([-int(at == item) for _, at, _ in self._columns])
            self._value.append(Fraction(0))
        # Row: basic variable = its value − entries / unit · nonbasic variables, which are 0.
        self._table: NDArray[np.object_] = np.array(table, dtype=object)
        self._unit = 1

    def rise(self, rates: Mapping[int, Fraction], limit: Fraction | None = None) -> RationalRise:
        """Let items rise together, each at its rate (tasks a unit of level), from where they are.

        Parameters
        ----------
        rates
            Of the items that rise, > 0.
        limit
            The most that the level may rise.
        """
        items = list(rates)
        integers, factor = _integers([rates[item] for item in items])
        column = np.array([0] * len(self._rows), dtype=object)
        for item, rate in zip(items, integers, strict=True):
            column = column + rate * self._column_of(("over", item, 0))
        self._table = np.insert(self._table, len(self._columns), column, axis=1)
        self._columns.append(_LEVEL)
        # The level is measured in units of `factor`, so that its column is integral.
        most = None if limit is None else limit / factor
        row = self._raise_level(most)
        if row is None:
            assert limit is not None
            self._drop_column(self._columns.index(_LEVEL))
            return RationalRise(limit, None)
        step = self._value[row] * factor
        prices = {
            (variable[1], variable[2]): Fraction(self._table[row, j]) * self._factor[variable]
            for j, variable in enumerate(self._columns)
            if variable[0] == "free" and self._table[row, j]
        }
        self._fix_level(row)
        return RationalRise(step, prices)

    def tasks(self) -> dict[tuple[int, int], Fraction]:
        """Return the tasks of each item on each server, where there are any."""
        return {
            (item, server): value
            for (what, item, server), value in sorted(zip(self._rows, self._value, strict=True))
            if what == "tasks" and value
        }

    def _column_of(self, variable: Variable) -> NDArray[np.object_]:
        if variable in self._columns:
            return self._table[:, self._columns.index(variable)]
        column = np.array([0] * len(self._rows), dtype=object)
        column[self._rows.index(variable)] = self._unit
        return column

    def _raise_level(self, most: Fraction | None) -> int | None:
        """Pivot until the level is as high as can be; return its row, or None at the limit."""
        enter = len(self._columns) - 1
        stalled = 0
        while True:
            row = self._rows.index(_LEVEL) if _LEVEL in self._rows else None
            if row is not None:
                found = self._entering(row, careful=stalled > _PATIENCE)
                if found is None:
                    return row
                enter = found
            leave, step = self._leaving(enter)
            if most is not None:
                # What the level gains for a unit of the entering variable.
                now = Fraction(0) if row is None else self._value[row]
                gain = (
                    Fraction(1) if row is None else Fraction(-self._table[row, enter], self._unit)
                )
                if leave is None or now + gain * step >= most:
                    self._move(enter, (most - now) / gain)
                    if row is not None:
                        self._value[row] = Fraction(0)
                        self._pivot(row, enter)
                        self._value[row] = (most - now) / gain
                    return None
            if leave is None:
                raise ArithmeticError("a level without a bound")
            stalled = 0 if step else stalled + 1
            self._pivot(leave, enter)

    def _entering(self, row: int, *, careful: bool) -> int | None:
        """Return the column that raises the variable of a row the most a unit, or None."""
        raising = [j for j in range(len(self._columns)) if self._table[row, j] < 0]
        if not raising:
            return None
        if careful:
            return min(raising, key=lambda j: self._columns[j])

        def gain(j: int) -> tuple[Fraction, Variable]:
            leave, step = self._leaving(j)
            worth = step * -self._table[row, j] if leave is not None else Fraction(0)
            return worth, self._columns[j]

        return max(raising, key=gain)

    def _leaving(self, enter: int) -> tuple[int | None, Fraction]:
        """Return the row that stops a column from rising, and how far it can rise."""
        best: tuple[Fraction, Variable, int] | None = None
        column = self._table[:, enter]
        for i in np.flatnonzero(column > 0).tolist():
            found = (self._value[i] * self._unit / column[i], self._rows[i], i)
            if best is None or found < best:
                best = found
        return (None, Fraction(0)) if best is None else (best[2], best[0])

    def _pivot(self, row: int, column: int) -> None:
        """Exchange the basic variable of a row with the nonbasic one of a column."""
        table, unit = self._table, self._unit
        self._left -= table.size * (unit.bit_length() + _SMALL_NUMBER)
        if self._left < 0:
            raise TooLargeError
        pivot = table[row, column]
        enters = self._value[row] * unit / pivot
        self._move(column, enters)
        self._value[row] = enters
        line, across = table[row].copy(), table[:, column].copy()
        table = (table * pivot - np.multiply.outer(across, line)) // unit
        table[row] = line
        table[:, column] = -across
        table[row, column] = unit
        if pivot < 0:
            table, pivot = -table, -pivot
        self._table, self._unit = table, pivot
        self._rows[row], self._columns[column] = self._columns[column], self._rows[row]

    def _fix_level(self, row: int) -> None:
        """Make what the level reached a constant."""
        self._value[row] = Fraction(0)
        nonzero = [j for j in range(len(self._columns)) if self._table[row, j]]
        if nonzero:
            # Its value is 0 now, so the exchange moves nothing.
            self._pivot(row, nonzero[0])
            self._drop_column(nonzero[0])
        else:
            self._table = np.delete(self._table, row, axis=0)
            del self._rows[row], self._value[row]

    def _drop_column(self, column: int) -> None:
        self._table = np.delete(self._table, column, axis=1)
        del self._columns[column]

    def _move(self, column: int, step: Fraction) -> None:
        """Change the values of the basic variables for a nonbasic one that is raised."""
        if step:
            for i in np.flatnonzero(self._table[:, column]).tolist():
                self._value[i] -= step * self._table[i, column] / self._unit


def rational_leximin(problem: RationalProblem, *, work: float) -> RationalProof:
    """Return the exact leximin allocation with its proof.

    Raises
    ------
    TooLargeError
        If more `work` is needed, see :class:`RationalTableau`.
    """
    cap = problem.cap
    tableau = RationalTableau(problem.demand, problem.capacity, problem.usable, work=work)
    rounds: list[RationalRound] = []
    have = [Fraction(0)] * len(cap)
    active = {user for user, most in enumerate(cap) if most != 0}
    level = Fraction(0)
    if len(active) < len(cap):
        nothing = tuple(user for user in range(len(cap)) if user not in active)
        rounds.append(RationalRound(nothing, level, None))
    while active:
        rates = problem.rates(active)
        full_at = {u: (most - have[u]) / rates[u] for u in active if (most := cap[u]) is not None}
        rise = tableau.rise(rates, min(full_at.values(), default=None))
        level += rise.step
        for user, rate in rates.items():
            have[user] += rate * rise.step
        stopped = {user for user in active if have[user] == cap[user]}
        if rise.prices is not None:
            unit = problem.unit_prices(rise.prices)
            stopped |= {user for user in active if unit[user]}
        rounds.append(RationalRound(tuple(sorted(stopped)), level, rise.prices))
        active -= stopped
    return RationalProof(problem, tuple(rounds), tableau.tasks())


def _integers(numbers: Sequence[Fraction]) -> tuple[list[int], Fraction]:
    """Return numbers in proportion to these without fractions and common factors, and the factor.

    Examples
    --------
    >>> _integers([Fraction(3, 2), Fraction(3, 4)])
    ([2, 1], Fraction(4, 3))
    """
    below = math.lcm(*(number.denominator for number in numbers))
    scaled = [int(number * below) for number in numbers]
    common = math.gcd(*scaled) or 1
    return [number // common for number in scaled], Fraction(below, common)
