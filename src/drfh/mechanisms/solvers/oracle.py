"""Protocol of solvers of a leximin round; repair of their prices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from drfh.allocation.placement import Placement
from drfh.allocation.problem import Floats
from drfh.allocation.proofs.certificate import Prices, TablePrices
from drfh.kernels import fast
from drfh.kernels.schur import price_servers
from drfh.mechanisms.solvers.presolve import Classes

__all__ = ["Cut", "Oracle", "lowest_prices", "raised_prices"]


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """How far a level can rise, and the prices that stop it."""

    level: float
    prices: Prices | None


NOTHING_STOPS = Cut(math.inf, None)


class Oracle(Protocol):
    """Solves one round, and places the result.

    `raise_level` finds the largest t for which the shares ``fixed + minimum(rising * t, cap)``
    fit on the servers (users with ``rising == 0`` have just `fixed`). `place` puts given shares,
    known to fit, on servers; where round-off stands in the way it places a little less.

    `classes` are what its prices are computed for; None if they are sharp, by a closed form.
    """

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
