"""Rounds by the interior-point method: for many distinct servers and any number of resources.

The method answers one question: by what factor can given shares be scaled? A round with caps and
frozen users asks it a few times, coming down from above: every answer has prices, the prices
bound the level, and the shares at that bound are the next question (Newton's method).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from drfh.mechanisms.solvers.classes import Classes
from drfh.mechanisms.solvers.columns import RadialSolution, solve_radial
from drfh.mechanisms.solvers.oracle import NOTHING_STOPS, Cut
from drfh.placement import Placement
from drfh.prices import Prices, ResourcePrices, TablePrices
from drfh.problem import Floats, Ints
from drfh.waterfill import water_level

__all__ = ["InteriorPoint"]

_TARGET = 1e-9
_MOST_STEPS = 40


class InteriorPoint:
    """Asks :func:`solve_radial` about classes of users and servers."""

    faintest = 1e-7

    def __init__(self, classes: Classes, progress: Callable[[float], None] | None = None) -> None:
        self._classes = classes
        self._progress = progress
        self._allowed = None if classes.usable.all() else classes.usable
        self._served: Ints = np.zeros(0, dtype=np.int64)
        self._last: RadialSolution | None = None

    def raise_level(self, fixed: Floats, rising: Floats, cap: Floats) -> Cut:
        """Return the highest level and the prices that bound it."""
        classes, problem = self._classes, self._classes.problem
        best = NOTHING_STOPS
        for resource in range(problem.demand.shape[1]):  # the pool as a whole is a bound
            best = self._lower(best, ResourcePrices(resource), fixed, rising, cap)
        # What is held from earlier rounds magnifies the error of this one.
        target = _TARGET / 10 if fixed.any() else _TARGET
        wanted = _shares(fixed, rising, cap, best.level)
        for _ in range(_MOST_STEPS):
            solution = self._scale(classes.sum_users(wanted), target)
            table = classes.full_prices(solution.prices)
            prices = TablePrices(table, classes.server_class)
            lower = self._lower(best, prices, fixed, rising, cap)
            given = solution.theta * wanted
            wanted = _shares(fixed, rising, cap, lower.level)
            done = lower is best or bool(
                np.all(wanted <= given * (1 + 2 * max(solution.gap, target)))
            )
            best = lower
            if done:
                break
        # Stop a little below the bound, at what was really placed: frozen users that ask for more
        # than there is would take it from those that still rise.
        with np.errstate(divide="ignore", invalid="ignore"):
            part = float(np.min(given / wanted, initial=1.0, where=wanted > 0))
        return Cut(best.level * part, best.prices)

    def _lower(self, best: Cut, prices: Prices, fixed: Floats, rising: Floats, cap: Floats) -> Cut:
        """Return the lower of a known bound of the level and that by other prices."""
        unit = prices.of_users(self._classes.problem)
        budget = prices.value(self._classes.problem) - float(unit @ fixed)
        level = water_level(unit, rising, cap, budget)
        return Cut(level, prices) if level < best.level else best

    def _scale(self, wanted: Floats, target: float) -> RadialSolution:
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
            tolerance=target,
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
