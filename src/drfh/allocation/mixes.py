"""Mixes: users with several kinds of tasks, which rise together in a proportion."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from drfh.errors import InputError
from drfh.model.users import User

__all__ = ["MixPath", "Mixes", "SeveralKindsError"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]


class SeveralKindsError(InputError):
    """Several kinds of tasks for a mechanism that takes one kind a user."""


@dataclass(frozen=True, eq=False)
class Mixes:
    """Whose the rows of a problem are, where users have several kinds of tasks.

    Attributes
    ----------
    users : tuple of User
        The users, with their kinds.
    rows : tuple of User
        A user for each kind, named ``user/kind``.
    owner : int array
        Position of the user of each row.
    ratio : array
        Tasks of each row in one mix of its user.

    Examples
    --------
    >>> from drfh import Kind
    >>> user = User("ml", kinds=[Kind({"gpu": 1}, tasks=3), Kind({"cpu": 1}, name="etl")])
    >>> mixes = Mixes.of([user, User("web", {"cpu": 2})])
    >>> [row.name for row in mixes.rows], mixes.owner.tolist(), mixes.ratio.tolist()
    (['ml/1', 'ml/etl', 'web'], [0, 0, 1], [1.0, 1.0, 1.0])
    """

    users: tuple[User, ...]
    rows: tuple[User, ...]
    owner: NDArray[np.int64]
    ratio: Floats

    @classmethod
    def of(cls, users: Iterable[User]) -> Mixes:
        """Take users with kinds apart."""
        everyone = tuple(users)
        rows: list[User] = []
        owner: list[int] = []
        ratio: list[float] = []
        for position, user in enumerate(everyone):
            if not user.kinds:
                rows.append(user)
                owner.append(position)
                ratio.append(1.0)
                continue
            finite = all(kind.tasks is not None for kind in user.kinds)
            for number, kind in enumerate(user.kinds, start=1):
                name = f"{user.name}/{kind.name or number}"
                rows.append(
                    User(
                        name,
                        kind.demand,
                        weight=user.weight,
                        tasks=kind.tasks,
                        servers=kind.servers,
                        parent=user.parent,
                    )
                )
                owner.append(position)
                if kind.ratio is not None:
                    ratio.append(kind.ratio)
                else:
                    # A kind of no tasks takes no part; its ratio does not count.
                    ratio.append((kind.tasks or 1.0) if finite else 1.0)
        return cls(everyone, tuple(rows), np.array(owner, dtype=np.int64), np.array(ratio))

    @cached_property
    def weight(self) -> Floats:
        """Weights of the users."""
        return np.array([user.weight for user in self.users])

    def sums(self, rows: Floats) -> Floats:
        """Return the sum over the rows of each user, of one column or of several.

        Examples
        --------
        >>> from drfh import Kind
        >>> kinds = [Kind({"cpu": 1}), Kind({"cpu": 2})]
        >>> Mixes.of([User("a", kinds=kinds)]).sums(np.array([1.0, 2.0]))
        array([3.])
        """
        total = np.zeros((len(self.users), *rows.shape[1:]))
        np.add.at(total, self.owner, rows)
        return total

    def rates(self, part: Floats, rising: Bools) -> Floats:
        """Return the tasks of each row a unit of level, for the rows that rise; else 0.

        Parameters
        ----------
        part
            What one task of each row needs, in shares of the pool, rows × resources.
        rising
            Which rows rise: they make up the mixes.
        """
        amount = np.where(rising, self.ratio, 0.0)
        share = self.sums(amount[:, None] * part).max(axis=1)  # of one mix
        with np.errstate(divide="ignore", invalid="ignore"):
            mixes = np.where(share > 0, self.weight / share, 0.0)
        rates: Floats = amount * mixes[self.owner]
        return rates

    def refuse(self, mechanism: str) -> NoReturn:
        """Raise for a mechanism that takes one kind a user.

        Raises
        ------
        SeveralKindsError
            Always; it names the first user with several kinds.
        """
        name = next(user.name for user in self.users if user.kinds)
        rule = f"must be one kind: {mechanism} takes one kind a user (drfh and drf take several)"
        raise SeveralKindsError(f"kinds of {name}", rule)


class MixPath:
    """What each kind has at every level above the present one, if nothing but its number stops it.

    A kind whose tasks all run stops; the others of its user rise on with the mix of those left.

    Parameters
    ----------
    mixes
        Whose the rows are.
    part
        What one task of each row needs, in shares of the pool, rows × resources.
    rising
        The rows that rise.
    tasks, most
        What each row has now, and the most that it may have.
    """

    def __init__(
        self, mixes: Mixes, part: Floats, rising: Bools, tasks: Floats, most: Floats
    ) -> None:
        self._owner = mixes.owner
        self._start = [np.zeros(len(mixes.users))]  # of each piece, a level for each user
        self._tasks = [tasks]
        self._rate: list[Floats] = []
        rising = rising & (tasks < most)
        while True:
            rate = mixes.rates(part, rising)
            self._rate.append(rate)
            if not np.isfinite(most[rising]).any():
                break
            with np.errstate(divide="ignore", invalid="ignore"):
                until = np.where(rising, (most - self._tasks[-1]) / rate, math.inf)
            piece = np.full(len(mixes.users), math.inf)
            np.minimum.at(piece, mixes.owner, until)
            ends = rising & (until <= piece[mixes.owner])
            length = piece[mixes.owner]
            with np.errstate(invalid="ignore"):
                more = np.where(rising & np.isfinite(length), rate * length, 0.0)
            self._tasks.append(np.where(ends, most, self._tasks[-1] + more))
            self._start.append(self._start[-1] + piece)
            rising = rising & ~ends & np.isfinite(length)

    @property
    def ends(self) -> Floats:
        """For each user the level from which on none of its kinds rises; inf without an end."""
        ends = np.full_like(self._start[0], math.inf)
        for start, rate in zip(self._start, self._rate, strict=True):
            rises = np.zeros(len(ends), dtype=bool)
            rises[self._owner[rate > 0]] = True
            ends = np.where(np.isinf(ends) & ~rises, start, ends)
        return ends

    def at(self, level: float) -> Floats:
        """Return the tasks of each row at a level, counted from the present one."""
        result = self._tasks[0]
        for start, tasks, rate in zip(self._start, self._tasks, self._rate, strict=True):
            reached = (start <= level)[self._owner]
            with np.errstate(invalid="ignore"):
                above = np.where(rate > 0, rate * (level - start[self._owner]), 0.0)
            result = np.where(reached, tasks + above, result)
        return result

    def level_for(self, price: Floats, budget: float) -> float:
        """Return the highest level at which all rows together cost at most the budget.

        Parameters
        ----------
        price
            Of one task of each row.
        budget
            What may be spent, at least what is spent at level 0 (else by round-off); inf comes
            back if all that there is costs less.
        """

        def cost(level: float) -> float:
            return float(price @ self.at(level))

        budget = max(budget, cost(0.0))
        starts = np.unique(np.concatenate(self._start))
        starts = starts[np.isfinite(starts)]
        low, high = 0, len(starts)  # the first start that costs too much
        while low < high:
            middle = (low + high) // 2
            if cost(float(starts[middle])) > budget:
                high = middle
            else:
                low = middle + 1
        start = float(starts[max(low - 1, 0)])
        if low < len(starts):
            end = float(starts[low])
            slope = (cost(end) - cost(start)) / (end - start)
        else:
            slope = float(price @ self._slope_after(start))
        return start + (budget - cost(start)) / slope if slope > 0 else math.inf

    def _slope_after(self, level: float) -> Floats:
        """Return the rate of each row from a level on."""
        result = np.zeros_like(self._rate[0])
        for start, rate in zip(self._start, self._rate, strict=True):
            result = np.where((start <= level)[self._owner], rate, result)
        return result
