"""Protocol of solvers of a leximin round; repair of their prices."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from drfh.allocation.placement import Placement
from drfh.allocation.problem import Floats
from drfh.allocation.proofs.certificate import Prices
from drfh.mechanisms.solvers.presolve import Classes

__all__ = ["Cut", "Oracle", "raised_prices"]


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

    `faintest` says how sharp its prices are: a user is stopped by prices if it pays more than this
    part of what all users pay. At an interior point no price is exactly 0, and one that should be
    must not freeze anybody.
    """

    faintest: float

    def new_phase(self) -> None:
        """Start again from level 0: other users rise from now on."""

    def raise_level(self, fixed: Floats, rising: Floats, cap: Floats) -> Cut:
        """Return the highest level and the prices that bound it."""

    def place(self, share: Floats) -> Placement:
        """Return a placement of the shares."""


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
