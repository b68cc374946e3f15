"""Leximin rounds by the interior-point method, for many distinct servers.

The method answers one question: how far can the shares of some users rise beside what the others
hold? A round with caps asks it a few times, coming up from below: who has enough at a level that
fits holds its cap from then on. Every answer has prices, and the prices bound the level.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from drfh.allocation.placement import Placement
from drfh.allocation.problem import Bools, Floats, Ints, water_level
from drfh.allocation.proofs.certificate import Prices, ResourcePrices, TablePrices
from drfh.mechanisms.solvers.interior.column_generation import RadialSolution, solve_radial
from drfh.mechanisms.solvers.oracle import NOTHING_STOPS, Cut
from drfh.mechanisms.solvers.presolve import Classes

__all__ = ["InteriorPoint"]

_ROUGH = 1e-3  # gap that will do to see who has enough
_TARGET = 1e-12  # gap of a round in which all stop: a user may pay a thousandth of all
_FINE = 1e-13  # gap of the others: what is held from them magnifies their error in the next
_SURE = 1e-9  # part by which a user that is stopped could rise at most
_BUDGET = 1e-9  # part of the value that must be left over for prices to mean anything
# Part of what is held that is lacking, and gap, that mean that the question was too hard.
_LOST, _POOR = 1e-9, 1e-6
_MOST_STEPS = 40
_SOME = 1e-2  # part of a user or of a server that matters
# Pairs above which all is scaled together: columns chosen for one question do not hold what is
# held in the next, and finding that out takes longer than it is worth.
_SMALL = 50_000


class InteriorPoint:
    """Asks :func:`solve_radial` about classes of users and servers."""

    def __init__(self, classes: Classes, progress: Callable[[float], None] | None = None) -> None:
        self.classes = classes
        self._progress = progress
        self._allowed = None if classes.usable.all() else classes.usable
        self._served: Ints = np.zeros(0, dtype=np.int64)
        self._last: RadialSolution | None = None
        self._level = 0.0  # reached so far; it never falls
        #: Pairs of classes that matter in some answer.
        self.used: Bools = np.zeros(classes.usable.shape, dtype=bool)

    def new_phase(self) -> None:
        """Let levels start from nothing again."""
        self._level = 0.0

    def raise_level(self, fixed: Floats, rising: Floats, cap: Floats) -> Cut:
        """Return the highest level and the prices that bound it."""
        classes, problem = self.classes, self.classes.problem
        best = NOTHING_STOPS
        for resource in range(problem.demand.shape[1]):  # the pool as a whole is a bound
            best = self._lower(best, ResourcePrices(resource), fixed, rising, cap)
        if classes.usable.size > _SMALL:
            return self._together(best, fixed, rising, cap)
        held, moving = fixed.copy(), rising.copy()
        level, target = self._level if fixed.any() else 0.0, _ROUGH
        for _ in range(_MOST_STEPS):
            # A user that has enough at this level does at any higher one; ask for no more.
            enough = (moving > 0) & (cap <= moving * level)
            held[enough] += cap[enough]
            moving[enough] = 0.0
            if not moving.any():
                return NOTHING_STOPS
            if held.any():
                target = _FINE  # what is held magnifies errors, and part of it may be lacking
            guess = best.level
            if not np.isfinite(guess):
                guess = float((cap[moving > 0] / moving[moving > 0]).max())
            solution = self._solve(held, moving, guess, target)
            table = classes.full_prices(solution.prices)
            prices = TablePrices(table, classes.server_class)
            best = self._lower(best, prices, fixed, rising, cap)
            if held.any() and (solution.kept < 1.0 - _LOST or solution.gap > _POOR):
                return self._together(best, fixed, rising, cap)
            # Demands that level off at caps are less than these, which do not: it will fit.
            level = max(level, solution.theta)
            if ((moving > 0) & (cap <= moving * level)).any():
                continue
            last = target <= _TARGET and self._stops_all(best, held, moving, level)
            if last or target <= _FINE:
                break
            target = _TARGET if target > _TARGET else _FINE
        self._level = level
        return Cut(level, best.prices)

    def _together(self, best: Cut, fixed: Floats, rising: Floats, cap: Floats) -> Cut:
        """Return the highest level, found by scaling what is held and what rises together.

        That loses digits where little rises, but it always fits. It comes down from above: the
        shares at the bound by the last prices are the next question (Newton's method).
        """
        classes = self.classes
        required = _shares(fixed, rising, cap, best.level)
        # What is held from earlier rounds magnifies the error of this one.
        last = _TARGET / 10 if fixed.any() else _TARGET
        target = _ROUGH if np.isfinite(cap).any() else last  # to see first who has enough
        for _ in range(_MOST_STEPS):
            solution = self._solve(np.zeros_like(required), required, 1.0, target)
            prices = TablePrices(classes.full_prices(solution.prices), classes.server_class)
            lower = self._lower(best, prices, fixed, rising, cap)
            given = solution.theta * required
            required = _shares(fixed, rising, cap, lower.level)
            enough = given * (1 + 2 * max(solution.gap, target))
            done = lower is best or bool(np.all(required <= enough))
            best = lower
            if done and target == last:
                break
            if done:
                target = last
        # Stop a little below the bound, at what was really placed: frozen users that ask for more
        # than there is would take it from those that still rise.
        with np.errstate(divide="ignore", invalid="ignore"):
            part = float(np.min(given / required, initial=1.0, where=required > 0))
        self._level = best.level * part
        return Cut(self._level, best.prices)

    def _stops_all(self, cut: Cut, held: Floats, moving: Floats, level: float) -> bool:
        """Return whether all that move pay, so that this round is the last."""
        if cut.prices is None:
            return False
        problem = self.classes.problem
        paid = cut.prices.of_users(problem) * np.where(moving > 0, moving * level, held)
        unspent = max(0.0, cut.prices.value(problem) - float(paid.sum()))
        return bool((unspent <= _SURE * paid[moving > 0]).all())

    def _lower(self, best: Cut, prices: Prices, fixed: Floats, rising: Floats, cap: Floats) -> Cut:
        """Return the lower of a known bound of the level and that by other prices."""
        unit, value = prices.of_users(self.classes.problem), prices.value(self.classes.problem)
        budget = value - float(unit @ fixed)
        if budget <= _BUDGET * value:
            return best  # the rising users pay nothing but round-off, and are not bound by it
        level = water_level(unit, rising, cap, budget)
        return Cut(level, prices) if level < best.level else best

    def _solve(self, held: Floats, moving: Floats, guess: float, target: float) -> RadialSolution:
        """Return how far the shares of the user classes can be raised, with prices and columns."""
        classes = self.classes
        fixed, a = classes.sum_users(held), classes.sum_users(moving)
        served = np.flatnonzero(fixed + a > 0)
        same = len(served) == len(self._served) and bool((served == self._served).all())
        self._last = solve_radial(
            classes.direction[served],
            classes.capacity,
            a[served],
            None if self._allowed is None else self._allowed[served],
            fixed=fixed[served] if fixed.any() else None,
            guess=guess,
            start=self._last.state if self._last is not None and same else None,
            tolerance=target,
            progress=self._progress,
        )
        self._served = served
        self._note(self._last)
        return self._last

    def _note(self, solution: RadialSolution) -> None:
        """Note the pairs that hold some of the user, or of the server."""
        user, server, share = self._served[solution.user], solution.server, solution.share
        total = np.bincount(user, share, minlength=len(self.used))
        with np.errstate(divide="ignore", invalid="ignore"):
            load = share[:, None] * self.classes.direction[user] / self.classes.capacity[server]
        some = (share > _SOME * total[user]) | (np.nan_to_num(load).max(axis=1) > _SOME)
        self.used[user[some], server[some]] = True

    def place(self, share: Floats) -> Placement:
        """Return the placement of the last answer."""
        last = self._last
        if last is None:
            none = np.zeros(0, dtype=np.int64)
            return self.classes.place(share, none, none, np.zeros(0))
        return self.classes.place(share, self._served[last.user], last.server, last.share)


def _shares(fixed: Floats, rising: Floats, cap: Floats, level: float) -> Floats:
    with np.errstate(invalid="ignore"):
        raised: Floats = fixed + np.where(rising > 0, np.minimum(rising * level, cap), 0.0)
    return raised
