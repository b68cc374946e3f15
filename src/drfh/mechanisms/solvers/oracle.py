"""What the leximin rounds ask of a solver."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from drfh.allocation.placement import Placement
from drfh.allocation.prices import Prices
from drfh.allocation.problem import Floats

__all__ = ["Cut", "Oracle"]


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """How far a level can rise, and the prices that stop it (None: nothing does)."""

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
        """Be told that other users rise from now on: levels start from nothing again."""

    def raise_level(self, fixed: Floats, rising: Floats, cap: Floats) -> Cut:
        """Return the highest level and the prices that bound it."""

    def place(self, share: Floats) -> Placement:
        """Return a placement of the shares."""
