"""Protocol of solvers of a leximin round; repair of their prices."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from drfh.allocation.mixes import MixPath
from drfh.allocation.placement import Placement
from drfh.allocation.problem import Bools, Floats, Problem, water_level
from drfh.allocation.proofs.certificate import Prices, TablePrices
from drfh.kernels import fast
from drfh.kernels.schur import price_servers
from drfh.mechanisms.solvers.presolve import Classes

__all__ = [
    "Cut",
    "MixRise",
    "Oracle",
    "Rise",
    "SharePath",
    "lower_cut",
    "lowest_prices",
    "raised_prices",
]


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """How far a level can rise, and the prices that stop it.

    `part` is what round-off leaves each user of its share at that level; None for all of it.
    """

    level: float
    prices: Prices | None
    part: Floats | None = None


NOTHING_STOPS = Cut(math.inf, None)


def lower_cut(best: Cut, prices: Prices, path: SharePath, problem: Problem) -> Cut:
    """Return the lower of a known bound of the level and that by other prices."""
    level = path.level_for(prices.of_users(problem), prices.value(problem))
    return Cut(level, prices) if level < best.level else best


class SharePath(Protocol):
    """What everybody has at each level.

    `holds` says whether somebody has something at level 0.
    """

    @property
    def holds(self) -> bool: ...  # noqa: D102

    def shares(self, level: float) -> Floats:
        """Return the share of each user at a level; at infinity, all that it may have."""

    def level_for(self, price: Floats, worth: float) -> float:
        """Return the highest level that prices allow; inf if they are no bound.

        Parameters
        ----------
        price
            Of one unit of share, for each user.
        worth
            Of all capacity.
        """


_BUDGET = 1e-9  # part of the value that must be left over for prices to mean anything


@dataclass(frozen=True, slots=True, eq=False)
class Rise:
    """Users that rise in proportion, up to a cap, beside what is fixed."""

    fixed: Floats
    rising: Floats
    cap: Floats

    @property
    def holds(self) -> bool:
        """Whether something is fixed."""
        return bool(self.fixed.any())

    def shares(self, level: float) -> Floats:
        """Return the share of each user at a level."""
        with np.errstate(invalid="ignore"):
            raised = np.where(self.rising > 0, np.minimum(self.rising * level, self.cap), 0.0)
        shares: Floats = self.fixed + raised
        return shares

    def level_for(self, price: Floats, worth: float) -> float:
        """Return the highest level that prices allow; inf if they are no bound."""
        budget = worth - float(price @ self.fixed)
        if budget <= _BUDGET * worth:
            return math.inf  # the rising users pay nothing but round-off, and are not bound by it
        return water_level(price, self.rising, self.cap, budget)


@dataclass(frozen=True, slots=True, eq=False)
class MixRise:
    """Kinds that rise in the proportion of their mixes, beside those that have stopped."""

    problem: Problem
    path: MixPath
    share: Floats
    active: Bools

    @property
    def holds(self) -> bool:
        """Whether somebody has something already."""
        return bool(self.share.any())

    def shares(self, level: float) -> Floats:
        """Return the share of each kind at a level above the present one."""
        if math.isinf(level):
            level = float(self.path.ends.max())
        tasks = self.path.at(level)
        shares: Floats = np.where(self.active, tasks * self.problem.task_share, self.share)
        return shares

    def level_for(self, price: Floats, worth: float) -> float:
        """Return the highest level that prices allow: 0 if nothing is left to spend."""
        return self.path.level_for(price * self.problem.task_share, worth)


class Oracle(Protocol):
    """Solves one round, and places the result.

    `raise_level` finds the largest t for which the shares ``fixed + minimum(rising * t, cap)``
    fit on the servers (users with ``rising == 0`` have just `fixed`). `place` puts given shares,
    known to fit, on servers; where round-off stands in the way it places a little less.

    `classes` are what its prices are computed for; None if they are sharp, by a closed form.
    `follow` is None, or finds the highest level along a path that is not straight.
    """

    @property
    def follow(self) -> Callable[[SharePath], Cut] | None: ...  # noqa: D102

    @property
    def classes(self) -> Classes | None: ...  # noqa: D102

    def new_phase(self) -> None:
        """Start again from level 0: other users rise from now on."""

    def raise_level(self, fixed: Floats, rising: Floats, cap: Floats) -> Cut:
        """Return the highest level and the prices that bound it."""

    def place(self, share: Floats) -> Placement:
        """Return a placement of the shares."""


_PIVOTS = 60
_MISSED = 1e-14  # part of the dearest user's price that is round-off
_CHUNK = 4_000_000  # pairs priced together


def lowest_prices(classes: Classes, worth: Floats) -> TablePrices:
    """Return the lowest prices at which a unit of share costs each user at least its `worth`.

    Parameters
    ----------
    classes
        Users and servers.
    worth
        One number ≥ 0 for each user; who has 0 does not count.
    """
    of_class = np.zeros(len(classes.direction))
    np.maximum.at(of_class, classes.user_class, worth)
    paying = np.flatnonzero(of_class > 0)
    d, c = classes.direction[paying], classes.capacity
    table = np.zeros_like(c)
    step = max(1, _CHUNK // max(1, len(paying)))
    kernel = fast(price_servers, steps=5.0 * d.size * len(c))
    for start in range(0, len(c), step):
        some = slice(start, start + step)
        value = np.where(classes.usable[paying, some].T, of_class[paying], -1.0)
        dearest = value.max(axis=1, initial=0.0)
        served = np.flatnonzero(dearest > 0)
        value = value[served] / dearest[served, None]
        size = c[some][served] / c[some][served].max(axis=1, keepdims=True)
        prices, basis = np.empty_like(size), np.empty(size.shape, dtype=np.int64)
        size, value = np.ascontiguousarray(size), np.ascontiguousarray(value)
        kernel(d, size, value, _PIVOTS, _MISSED, prices, basis)
        table[start + served] = prices * dearest[served, None]
    return TablePrices(classes.full_prices(table), classes.server_class)


_PRICE_ERROR = 1e-11  # what is less short than this is round-off and must not raise a price


def raised_prices(classes: Classes, prices: Floats, worth: Floats) -> Floats:
    """Raise prices where a user pays less than its share is worth.

    That is so on servers that are too small for the solver's tolerances to see. Pricing them
    costs as little as they have, and without it the user's least price would be 0 there.
    """
    prices = prices.copy()
    d, c = classes.direction, classes.capacity
    paying = worth > 0
    cheap = (d @ prices.T < worth[:, None] * (1 - _PRICE_ERROR)) & classes.usable
    for server in np.flatnonzero(cheap.any(axis=0)).tolist():
        users = np.flatnonzero(classes.usable[:, server] & paying)
        for _ in range(2 * len(users)):
            covered = d[users] @ prices[server] / worth[users]
            worst = int(np.argmin(covered))
            if covered[worst] >= 1 - _PRICE_ERROR / 2:
                break
            row = d[users[worst]]
            with np.errstate(divide="ignore", invalid="ignore"):
                r = int(np.argmin(np.where(row > 0, c[server] / row, math.inf)))
            prices[server, r] += (1 - covered[worst]) * worth[users[worst]] / row[r]
    return prices
