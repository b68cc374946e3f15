"""Leximin rounds by the interior-point method, for many distinct servers.

The method answers one question: how far can the shares of some users rise beside what the others
hold? A round with caps asks it a few times, coming up from below: who has enough at a level that
fits holds its cap from then on. Every answer has prices, and the prices bound the level.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from drfh.allocation.placement import Placement
from drfh.allocation.problem import Bools, Floats, Ints
from drfh.allocation.proofs.certificate import ResourcePrices, TablePrices
from drfh.mechanisms.solvers.interior.column_generation import RadialSolution, solve_radial
from drfh.mechanisms.solvers.interior.points import Target
from drfh.mechanisms.solvers.oracle import NOTHING_STOPS, Cut, Rise, SharePath, lower_cut
from drfh.mechanisms.solvers.presolve import Classes

__all__ = ["InteriorPoint"]

_ROUGH = 1e-3  # gap that will do to see who has enough
_TARGET = 1e-12  # gap of a round in which all stop: a user may pay a thousandth of all
_FINE = 1e-13  # gap of the others: what is held from them magnifies their error in the next
_SURE = 1e-9  # part by which a user that is stopped could rise at most
# Part of what is held that is lacking, and gap, that mean that the question was too hard.
_LOST, _POOR = 1e-9, 1e-6
_MOST_STEPS = 40
_SOME = 1e-2  # part of a user or of a server that matters
# Pairs above which all is scaled together: columns chosen for one question do not hold what is
# held in the next, and finding that out takes longer than it is worth.
_SMALL = 50_000
_KEPT = 2_000_000  # pairs up to which it is noted which of them are used


class InteriorPoint:
    """Asks :func:`solve_radial` about classes of users and servers."""

    def __init__(self, classes: Classes, progress: Callable[[float], None] | None = None) -> None:
        self.classes = classes
        self._progress = progress
        self._allowed = None if classes.usable.all() else classes.usable
        self._served: Ints = np.zeros(0, dtype=np.int64)
        self._last: RadialSolution | None = None
        self._level = 0.0  # reached so far; it never falls
        self._answers: list[tuple[Ints, Ints, Floats]] = []

    def new_phase(self) -> None:
        """Let levels start from nothing again."""
        self._level = 0.0

    def raise_level(self, fixed: Floats, rising: Floats, cap: Floats) -> Cut:
        """Return the highest level and the prices that bound it."""
        classes, problem = self.classes, self.classes.problem
        path = Rise(fixed, rising, cap)
        if classes.usable.size > _SMALL:
            return self._follow(path)
        best = NOTHING_STOPS
        for resource in range(problem.demand.shape[1]):  # the pool as a whole is a bound
            best = lower_cut(best, ResourcePrices(resource), path, problem)
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
            best = lower_cut(best, prices, path, problem)
            if held.any() and (solution.kept < 1.0 - _LOST or solution.gap > _POOR):
                return self._follow(path, best)
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

    @property
    def follow(self) -> Callable[[SharePath], Cut] | None:
        """How to find the highest level along a path, where there are many pairs."""
        return self._follow if self.classes.usable.size > _SMALL else None

    def _follow(self, path: SharePath, best: Cut = NOTHING_STOPS) -> Cut:
        """Return the highest level along a path, and the prices that stop it.

        What is held and what rises is scaled together. That loses digits where little rises, but
        it always fits. It comes down from above: the shares at the bound by the latest prices are
        asked for (Newton's method).

        Parameters
        ----------
        path
            What everybody has at each level.
        best
            A bound that is known already.
        """
        classes, problem = self.classes, self.classes.problem
        for resource in range(problem.demand.shape[1]):  # the pool as a whole is a bound
            best = lower_cut(best, ResourcePrices(resource), path, problem)
        level = best.level
        served: Ints = np.zeros(0, dtype=np.int64)

        def target(price: Floats, worth: float) -> Floats:
            nonlocal level
            of_class = np.zeros(len(classes.direction))
            of_class[served] = price
            level = min(level, path.level_for(of_class[classes.user_class], worth))
            return classes.sum_users(path.shares(level))[served]

        self._last = None  # the prices of another round are no start
        # What is held from earlier rounds magnifies the error of this one.
        last = _TARGET / 10 if path.holds else _TARGET
        for _ in range(_MOST_STEPS):
            required = path.shares(level)
            served = np.flatnonzero(classes.sum_users(required) > 0)
            solution = self._solve(np.zeros_like(required), required, 1.0, last, target)
            prices = TablePrices(classes.full_prices(solution.prices), classes.server_class)
            lower = lower_cut(best, prices, path, problem)
            given = np.bincount(served[solution.user], solution.share, len(classes.direction))
            required = classes.sum_users(path.shares(lower.level))
            enough = given * (1 + 2 * max(solution.gap, last))
            done = lower is best or bool(np.all(required <= enough))
            best, level = lower, lower.level
            if done:
                break
        # Stop a little below the bound, at what was really placed: frozen users that ask for more
        # than there is would take it from those that still rise.
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.minimum(np.where(required > 0, given / required, 1.0), 1.0)
        self._level = best.level
        return Cut(best.level, best.prices, part[classes.user_class])

    def _stops_all(self, cut: Cut, held: Floats, moving: Floats, level: float) -> bool:
        """Return whether all that move pay, so that this round is the last."""
        if cut.prices is None:
            return False
        problem = self.classes.problem
        paid = cut.prices.of_users(problem) * np.where(moving > 0, moving * level, held)
        unspent = max(0.0, cut.prices.value(problem) - float(paid.sum()))
        return bool((unspent <= _SURE * paid[moving > 0]).all())

    def _solve(
        self,
        held: Floats,
        moving: Floats,
        guess: float,
        tolerance: float,
        target: Target | None = None,
    ) -> RadialSolution:
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
            tolerance=tolerance,
            progress=self._progress,
            target=target,
        )
        self._served = served
        if self.classes.usable.size <= _KEPT:
            last = self._last
            self._answers.append((served[last.user], last.server, last.share))
        return self._last

    @property
    def used(self) -> Bools:
        """Pairs of classes that hold some of the user, or of the server, in some answer."""
        used = np.zeros(self.classes.usable.shape, dtype=bool)
        for user, server, share in self._answers:
            total = np.bincount(user, share, minlength=len(used))
            with np.errstate(divide="ignore", invalid="ignore"):
                load = share[:, None] * self.classes.direction[user] / self.classes.capacity[server]
            some = (share > _SOME * total[user]) | (np.nan_to_num(load).max(axis=1) > _SOME)
            used[user[some], server[some]] = True
        return used

    def place(self, share: Floats) -> Placement:
        """Return the placement of the last answer."""
        last = self._last
        if last is None:
            none = np.zeros(0, dtype=np.int64)
            return self.classes.place(share, none, none, np.zeros(0))
        return self.classes.place(share, self._served[last.user], last.server, last.share)
