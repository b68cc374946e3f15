"""Leximin rounds by HiGHS's simplex method, for moderate sizes."""

from __future__ import annotations

import math

import highspy
import numpy as np

from drfh.allocation.placement import Placement
from drfh.allocation.problem import Floats, Ints
from drfh.allocation.proofs.certificate import TablePrices
from drfh.errors import SolverError
from drfh.mechanisms.solvers.oracle import NOTHING_STOPS, Cut, raised_prices
from drfh.mechanisms.solvers.presolve import Classes

__all__ = ["Simplex", "run_highs"]

_SMALLEST_COEFFICIENT = 1e-12
_LARGEST_COEFFICIENT = 1e12
_OPTIONS = {
    "solver": "simplex",
    "primal_feasibility_tolerance": 1e-10,  # the smallest that HiGHS accepts
    "dual_feasibility_tolerance": 1e-10,
    "small_matrix_value": _SMALLEST_COEFFICIENT,
}
_ATTEMPTS: tuple[dict[str, object], ...] = (
    {},
    {"presolve": "off"},
    {"presolve": "off", "simplex_strategy": 4},
    {"primal_feasibility_tolerance": 1e-7, "dual_feasibility_tolerance": 1e-7},
)
_QUICK = 2_000  # columns that HiGHS solves in the blink of an eye
_WELL_SCALED = (0.3, 3.0)
_NOTHING_LEFT = 1e-9  # part of what a late user would have alone
# Duals sum to about 1; below this one cannot be told from 0.
_FAINTEST = 1e-13


def run_highs(lp: highspy.HighsLp, basis: highspy.HighsBasis | None = None) -> highspy.Highs:
    """Solve a feasible, bounded model; again with other settings on failure.

    What it returns need not be optimal to the last digit: the certificate measures that.
    """
    best: highspy.Highs | None = None
    for options in _ATTEMPTS:
        model = highspy.Highs()
        model.silent()
        for option, value in {**_OPTIONS, **options}.items():
            model.setOptionValue(option, value)
        if model.passModel(lp) == highspy.HighsStatus.kError:
            raise SolverError("HiGHS refused the model of a round")
        if basis is not None and options is _ATTEMPTS[0]:
            model.setBasis(basis)
        # Else Ctrl-C waits for the end; but the thread that it takes costs a millisecond.
        model.HandleKeyboardInterrupt = lp.num_col_ > _QUICK
        model.solve()
        if model.getModelStatus() == highspy.HighsModelStatus.kInterrupt:
            raise KeyboardInterrupt
        if model.getModelStatus() == highspy.HighsModelStatus.kOptimal:
            return model
        if model.getSolution().value_valid and model.getSolution().dual_valid:
            best = model
    if best is None:
        status = model.modelStatusToString(model.getModelStatus())
        raise SolverError(f"HiGHS found no solution of a round (status {status})")
    return best


class Simplex:
    """Every pair of user class and server class is a column.

    Columns are scaled so that 1 means the whole server, rows so that 1 means a full server or a
    fully served user, and the level so that it comes out near 1: then absolute tolerances are
    relative ones, however uneven servers and users are.
    """

    faintest = 1e-9

    def __init__(self, classes: Classes) -> None:
        self._classes = classes
        d, c = classes.direction, classes.capacity
        self._user, self._server = np.nonzero(classes.usable)
        with np.errstate(divide="ignore", invalid="ignore"):
            alone = np.where(d[self._user] > 0, c[self._server] / d[self._user], math.inf)
            self._alone: Floats = alone.min(axis=1)  # share of the user if it had the server
            load = d[self._user] * self._alone[:, None] / c[self._server]
        self._load = np.where(d[self._user] > 0, np.minimum(load, 1.0), 0.0)
        self._amount = np.zeros(len(self._user))
        self._basis: highspy.HighsBasis | None = None
        self._reached = 0.0
        self._late = False

    def new_phase(self) -> None:
        """Let levels start from nothing again."""
        self._reached = 0.0
        self._late = True

    def raise_level(self, fixed: Floats, rising: Floats, cap: Floats) -> Cut:
        """Return the highest level and the prices that bound it."""
        held, moving = fixed.copy(), rising.copy()
        level = 0.0
        while True:
            level, table = self._maximise(held, moving, level)
            self._reached = max(self._reached, level)
            # A user that has enough at this level does at any higher one; ask for no more.
            enough = (moving > 0) & (cap <= moving * level * (1 + 1e-13))
            if not enough.any():
                classes = self._classes
                return Cut(level, TablePrices(classes.full_prices(table), classes.server_class))
            held[enough] = cap[enough]
            moving[enough] = 0.0
            if not moving.any():
                return NOTHING_STOPS

    def _maximise(self, held: Floats, moving: Floats, guess: float) -> tuple[float, Floats]:
        """Return the largest t such that ``held + t * moving`` fits, and prices by class."""
        classes = self._classes
        fixed, rising = classes.sum_users(held), classes.sum_users(moving)
        if guess <= 0:
            # Nobody gets more than all servers together hold of its tasks alone; and with nothing
            # held, everyone gets at least an equal part of that.
            alone = np.bincount(self._user, self._alone, minlength=len(rising))
            with np.errstate(divide="ignore", invalid="ignore"):
                guess = float(np.where(rising > 0, alone / rising, math.inf).min())
        for _ in range(12):
            factor, table = self._solve(fixed, rising * guess)
            if _WELL_SCALED[0] <= factor <= _WELL_SCALED[1]:
                return guess * factor, table
            if self._late and factor < _NOTHING_LEFT:
                return 0.0, table
            # Levels never fall from round to round of a phase.
            guess = max(guess * max(factor, 1e-6), self._reached)
        return guess, table

    def _solve(self, fixed: Floats, rising: Floats) -> tuple[float, Floats]:
        """Return the largest f such that ``fixed + f * rising`` fits, and prices by class."""
        classes = self._classes
        n, k = classes.usable.shape
        m = classes.direction.shape[1]
        scale = fixed + rising
        scale[scale <= 0] = 1.0
        columns = len(self._user)
        # Entries column by column: m loads on the server, then the part of the user's need.
        rows = np.empty((columns, m + 1), dtype=np.int32)
        rows[:, :m] = self._server[:, None] * m + np.arange(m)
        rows[:, m] = k * m + self._user
        values = np.empty((columns, m + 1))
        values[:, :m] = self._load
        # A server that could serve the user 10¹² times over does so with nothing to speak of.
        values[:, m] = np.minimum(self._alone / scale[self._user], _LARGEST_COEFFICIENT)
        keep = values > _SMALLEST_COEFFICIENT
        movers = np.flatnonzero(rising > 0)
        start = np.concatenate(([0], np.cumsum(keep.sum(axis=1)))).astype(np.int32)
        lp = highspy.HighsLp()
        lp.num_col_ = columns + 1
        lp.num_row_ = k * m + n
        lp.col_cost_ = np.concatenate((np.zeros(columns), [-1.0]))
        lp.col_lower_ = np.zeros(columns + 1)
        lp.col_upper_ = np.full(columns + 1, highspy.kHighsInf)
        lp.row_lower_ = np.concatenate((np.full(k * m, -highspy.kHighsInf), fixed / scale))
        lp.row_upper_ = np.concatenate((np.ones(k * m), np.full(n, highspy.kHighsInf)))
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_ = np.append(start, start[-1] + len(movers)).astype(np.int32)
        lp.a_matrix_.index_ = np.concatenate((rows[keep], k * m + movers)).astype(np.int32)
        lp.a_matrix_.value_ = np.concatenate((values[keep], -rising[movers] / scale[movers]))
        model = run_highs(lp, self._basis)
        self._basis = model.getBasis()
        solution = model.getSolution()
        value = np.maximum(np.array(solution.col_value), 0.0)
        self._amount = value[:-1] * self._alone
        dual = np.array(solution.row_dual)
        dual[np.abs(dual) < _FAINTEST] = 0.0
        by_row = np.maximum(-dual[: k * m].reshape(k, m), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            prices = np.where(classes.capacity > 0, by_row / classes.capacity, 0.0)
        worth = np.maximum(dual[k * m :], 0.0) / scale
        return float(value[-1]), raised_prices(classes, prices, worth)

    def place(self, share: Floats) -> Placement:
        """Return the placement of the last round's solution."""
        used: Ints = np.flatnonzero(self._amount > 0)
        return self._classes.place(share, self._user[used], self._server[used], self._amount[used])
