"""Rounds by the interior-point method: for many distinct servers and any number of resources.

The method answers one question: by what factor can given shares be scaled? A round with caps and
frozen users asks it a few times, coming down from above: every answer has prices, the prices
bound the level, and the shares at that bound are the next question (Newton's method).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from drfh.certificate import TablePrices
from drfh.mechanisms.solvers.classes import Classes
from drfh.mechanisms.solvers.columns import RadialSolution, solve_radial
from drfh.mechanisms.solvers.oracle import NOTHING_STOPS, Cut
from drfh.placement import Placement
from drfh.problem import Floats, Ints
from drfh.waterfill import water_level

__all__ = ["InteriorPoint"]

_TARGET = 1e-9
_MOST_STEPS = 40


class InteriorPoint:
    """Asks :func:`solve_radial` about classes of users and servers."""

    faintest = 1e-7

    def __init__(
        self, classes: Classes, progress: Callable[[float], None] | None = None
    ) -> None:
        self._classes = classes
        self._progress = progress
        self._allowed = None if classes.usable.all() else classes.usable
        self._served: Ints = np.zeros(0, dtype=np.int64)
        self._last: RadialSolution | None = None

    def raise_level(self, fixed: Floats, rising: Floats, cap: Floats) -> Cut:
        """Return the highest level and the prices that bound it."""
        classes, problem = self._classes, self._classes.problem
        worth = problem.capacity.sum(axis=0)
        level = min(
            water_level(price, rising, cap, float(room - price @ fixed))
            for price, room in zip(problem.direction.T, worth, strict=True)
        )
        cut = NOTHING_STOPS
        wanted = _shares(fixed, rising, cap, level)
        for _ in range(_MOST_STEPS):
            solution = self._scale(classes.sum_users(wanted))
            given = solution.theta * wanted
            prices = TablePrices(classes.full_prices(solution.prices), classes.server_class)
            unit = prices.of_users(problem)
            bound = water_level(
                unit, rising, cap, prices.value(problem) - float(unit @ fixed)
            )
            if bound < level or cut.prices is None:
                if math.isinf(bound) and solution.theta >= 1 - _TARGET:
                    return NOTHING_STOPS
                if bound <= level * (1 + _TARGET):
                    cut = Cut(bound, prices)
                level = min(level, bound)
            wanted = _shares(fixed, rising, cap, level)
            slack = max(solution.gap, _TARGET)
            if np.all(wanted <= given * (1 + 2 * slack)):
                break
        return cut

    def _scale(self, wanted: Floats) -> RadialSolution:
        """Return how far the shares of the user classes can be scaled, with prices and columns."""
        classes = self._classes
        served = np.flatnonzero(wanted > 0)
        same = len(served) == len(self._served) and bool((served == self._served).all())
        self._last = solve_radial(
            classes.direction[served],
            classes.capacity,
            wanted[served],
            None if self._allowed is None else self._allowed[served],
            start=self._last.state if self._last is not None and same else None,
            tolerance=_TARGET,
            progress=self._progress,
        )
        self._served = served
        return self._last

    def place(self, share: Floats) -> Placement:
        """Return the placement of the last answer."""
        last = self._last
        if last is None:
            none = np.zeros(0, dtype=np.int64)
            return self._classes.place(share, none, none, np.zeros(0))
        return self._classes.place(share, self._served[last.user], last.server, last.share)


def _shares(fixed: Floats, rising: Floats, cap: Floats, level: float) -> Floats:
    with np.errstate(invalid="ignore"):
        raised: Floats = np.where(rising > 0, np.minimum(rising * level, cap), fixed)
    return raised
