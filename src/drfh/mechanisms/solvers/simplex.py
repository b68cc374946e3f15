"""Leximin rounds by HiGHS's simplex method, for moderate sizes."""

from __future__ import annotations

import math

import highspy
import numpy as np
from numpy.typing import NDArray

from drfh.allocation.placement import Placement
from drfh.allocation.problem import Bools, Floats, Ints
from drfh.allocation.proofs.certificate import TablePrices
from drfh.errors import SolverError
from drfh.mechanisms.solvers.oracle import NOTHING_STOPS, Cut, raised_prices
from drfh.mechanisms.solvers.presolve import Classes

__all__ = ["DUAL", "PRIMAL", "Simplex", "exact_model", "run_from_basis", "run_highs"]

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
# Where numbers are far apart HiGHS may go round in circles: a hundred times what it needs else.
_SECONDS, _COLUMNS_A_SECOND = 5.0, 100
_PIVOTS = 100  # most pivots for each row: without perturbation it may go round in circles
_QUICK = 2_000  # columns that HiGHS solves in the blink of an eye


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
        model.setOptionValue("time_limit", _SECONDS + lp.num_col_ / _COLUMNS_A_SECOND)
        model.HandleKeyboardInterrupt = lp.num_col_ > _QUICK
        model.solve()
        if model.getModelStatus() == highspy.HighsModelStatus.kInterrupt:
            raise KeyboardInterrupt
        if model.getModelStatus() == highspy.HighsModelStatus.kOptimal:
            return model
        if model.getModelStatus() == highspy.HighsModelStatus.kTimeLimit:
            raise SolverError("HiGHS finds no end of a round")
        if model.getSolution().value_valid and model.getSolution().dual_valid:
            best = model
    if best is None:
        status = model.modelStatusToString(model.getModelStatus())
        raise SolverError(f"HiGHS found no solution of a round (status {status})")
    return best


_FULL = 100.0  # a full server, and a fully served user: so the tolerance is 1e-12 of it
# Rows are scaled already, and what HiGHS adds hides what is short from it. Bounds must not be
# perturbed: users that are held leave next to no room.
_EXACT = {
    **_OPTIONS,
    "simplex_scale_strategy": 0,
    "factor_pivot_threshold": 0.5,
    "primal_simplex_bound_perturbation_multiplier": 0.0,
}
DUAL, PRIMAL = 1, 4  # strategies of HiGHS
# Parts of what is held that may be given up, and strategies, if HiGHS finds no way else.
_GIVEN_UP = ((0.0, DUAL), (1e-15, PRIMAL), (1e-13, PRIMAL), (1e-11, PRIMAL), (1e-9, PRIMAL))
_WELL_SCALED = (0.1, 10.0)
_ADDED = 3  # most columns that join at a time, for each server
_PRICE_ERROR = 1e-10  # part of a price that is round-off
_NOTHING_LEFT = 1e-9  # part of what a late user would have alone
_FAINTEST = 1e-15  # duals sum to about 1; below this one cannot be told from 0
_CORRECTIONS = 2


def exact_model(lp: highspy.HighsLp, basis: highspy.HighsBasis | None) -> highspy.Highs:
    """Return a model that HiGHS solves as it is, from a basis if there is one."""
    model = highspy.Highs()
    model.silent()
    for option, value in _EXACT.items():
        model.setOptionValue(option, value)
    if model.passModel(lp) == highspy.HighsStatus.kError:
        raise SolverError("HiGHS refused the model of a round")
    if basis is not None and basis.valid:
        model.setBasis(basis)
    return model


def run_from_basis(model: highspy.Highs, strategy: int, pivots: int | None = None) -> bool:
    """Solve from the last basis, if there is one; return whether that was the end of it."""
    if model.getBasis().valid:
        model.setOptionValue("simplex_strategy", strategy)
    columns = model.getNumCol() - 1
    seconds = model.getRunTime() + _SECONDS + columns / _COLUMNS_A_SECOND
    model.setOptionValue("time_limit", seconds)
    pivots = _PIVOTS * model.getNumRow() if pivots is None else max(pivots, 0)
    model.setOptionValue("simplex_iteration_limit", pivots)
    # Else Ctrl-C waits for the end; but the thread that it takes costs a millisecond.
    model.HandleKeyboardInterrupt = columns > _QUICK
    model.solve()
    status = model.getModelStatus()
    if status == highspy.HighsModelStatus.kInterrupt:
        raise KeyboardInterrupt
    if status == highspy.HighsModelStatus.kTimeLimit:
        raise SolverError("HiGHS finds no end of a round")
    return bool(status == highspy.HighsModelStatus.kOptimal)


class Simplex:
    """Every pair of user class and server class is a column.

    Columns are scaled so that 1 means the whole server, rows so that a full server and a fully
    served user are alike, and the level so that it comes out near 1: then absolute tolerances are
    relative ones, however uneven servers and users are. One model serves all rounds: holding a
    user leaves the last solution feasible, so that the primal method goes on from it. The digits
    that HiGHS leaves open are computed from its last basis.

    Parameters
    ----------
    classes
        Users and servers.
    first
        Pairs to begin with, user classes × server classes; those that the prices leave too cheap
        join them. None: all pairs at once.
    """

    def __init__(self, classes: Classes, first: Bools | None = None) -> None:
        self.classes = classes
        d, c = classes.direction, classes.capacity
        self._user, self._server = np.nonzero(classes.usable)
        with np.errstate(divide="ignore", invalid="ignore"):
            alone = np.where(d[self._user] > 0, c[self._server] / d[self._user], math.inf)
            self._alone: Floats = alone.min(axis=1)  # share of the user if it had the server
            load = d[self._user] * self._alone[:, None] / c[self._server]
        self._load = np.where(d[self._user] > 0, np.minimum(load, 1.0), 0.0)
        self._amount = np.zeros(len(self._user))
        self._number = np.full(classes.usable.shape, -1, dtype=np.int64)
        self._number[self._user, self._server] = np.arange(len(self._user))
        chosen = np.ones(len(self._user), dtype=bool)
        if first is not None:
            chosen = first[self._user, self._server]
        self._columns: Ints = np.flatnonzero(chosen)
        self._model: highspy.Highs | None = None
        self._unit = 1.0  # level that is 1 in the model
        self._scale = self._rate = self._held = np.ones(len(d))  # of the users' rows
        self._reached = 0.0
        self._late = False

    follow = None

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
                classes = self.classes
                return Cut(level, TablePrices(classes.full_prices(table), classes.server_class))
            held[enough] += cap[enough]
            moving[enough] = 0.0
            if not moving.any():
                return NOTHING_STOPS

    def _maximise(self, held: Floats, moving: Floats, guess: float) -> tuple[float, Floats]:
        """Return the largest t such that ``held + t * moving`` fits, and prices by class."""
        classes = self.classes
        fixed, rising = classes.sum_users(held), classes.sum_users(moving)
        guess = max(guess, self._reached)
        if guess <= 0:
            # Nobody gets more than all servers together hold of its tasks alone; and with nothing
            # held, everyone gets at least an equal part of that.
            alone = np.bincount(self._user, self._alone, minlength=len(rising))
            with np.errstate(divide="ignore", invalid="ignore"):
                guess = float(np.where(rising > 0, alone / rising, math.inf).min())
        for _ in range(12):
            self._set_up(fixed, rising, guess)
            part, table = self._solve()
            level = part * self._unit
            if _WELL_SCALED[0] <= part <= _WELL_SCALED[1]:
                break
            if self._late and part < _NOTHING_LEFT:
                return 0.0, table
            # Levels never fall from round to round of a phase.
            guess = max(self._unit * max(part, 1e-6), self._reached)
            if guess == self._unit:
                break
        return level, table

    def _set_up(self, fixed: Floats, rising: Floats, guess: float) -> None:
        """Let the model hold `fixed` and raise `rising`; build it where it is not scaled so."""
        first_user = self.classes.capacity.size
        played = (fixed > 0) | (rising > 0)
        known = self._model is not None and bool((self._scale[played] > 0).all())
        if not known or not _WELL_SCALED[0] <= guess / self._unit <= _WELL_SCALED[1]:
            self._unit = guess
            self._scale = fixed + rising * guess
            self._rate = self._held = self._scale
            self._build()
        scale = np.where(self._scale > 0, self._scale, 1.0)
        rate, held = -rising * self._unit / scale, _FULL * fixed / scale
        model = self._model
        assert model is not None
        for user in np.flatnonzero(rate != self._rate).tolist():
            model.changeCoeff(first_user + user, 0, float(rate[user]))
        self._rate = rate
        self._hold(held)

    def _hold(self, held: Floats) -> None:
        """Set what users have in any case."""
        assert self._model is not None
        for user in np.flatnonzero(held != self._held).tolist():
            row = self.classes.capacity.size + user
            self._model.changeRowBounds(row, float(held[user]), highspy.kHighsInf)
        self._held = held

    def _build(self) -> None:
        """Make the model of the columns in play; its start is the last basis."""
        basis = None if self._model is None else self._model.getBasis()
        size, users = self.classes.capacity.size, len(self.classes.direction)
        start, rows, values = self._entries(self._columns)
        lp = highspy.HighsLp()
        columns = lp.num_col_ = len(self._columns) + 1
        lp.num_row_ = size + users
        # The level comes first, so that columns can be added at the end.
        lp.col_cost_ = np.concatenate(([-1.0], np.zeros(columns - 1)))
        lp.col_lower_ = np.zeros(columns)
        lp.col_upper_ = np.full(columns, highspy.kHighsInf)
        lp.row_lower_ = np.concatenate((np.full(size, -highspy.kHighsInf), self._held))
        lp.row_upper_ = np.concatenate((np.full(size, _FULL), np.full(users, highspy.kHighsInf)))
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_ = np.concatenate(([0], start + users)).astype(np.int32)
        lp.a_matrix_.index_ = np.concatenate((size + np.arange(users), rows)).astype(np.int32)
        lp.a_matrix_.value_ = np.concatenate((self._rate, values))
        self._model = exact_model(lp, basis)

    def _entries(self, chosen: Ints) -> tuple[NDArray[np.int32], NDArray[np.int32], Floats]:
        """Return the entries of columns: where each begins, rows and values.

        They are m loads on the server, then the part of the user's need.
        """
        size, m = self.classes.capacity.size, self.classes.direction.shape[1]
        user, server = self._user[chosen], self._server[chosen]
        rows = np.empty((len(chosen), m + 1), dtype=np.int32)
        rows[:, :m] = server[:, None] * m + np.arange(m)
        rows[:, m] = size + user
        values = np.empty((len(chosen), m + 1))
        values[:, :m] = self._load[chosen]
        scale = np.where(self._scale > 0, self._scale, 1.0)
        # A server that could serve the user 10¹² times over does so with nothing to speak of.
        values[:, m] = np.minimum(self._alone[chosen] / scale[user], _LARGEST_COEFFICIENT)
        keep = values > _SMALLEST_COEFFICIENT
        start = np.concatenate(([0], np.cumsum(keep.sum(axis=1)))).astype(np.int32)
        return start, rows[keep], values[keep]

    def _solve(self) -> tuple[float, Floats]:
        """Return the largest part of the unit that fits, and prices by class."""
        model = self._model
        assert model is not None
        while True:
            held = self._held
            for given_up, strategy in ((0.0, PRIMAL), *_GIVEN_UP):
                self._hold(held * (1 - given_up))
                if run_from_basis(model, strategy):
                    break
            else:  # numbers that are too far apart
                self._model = model = run_highs(model.getLp())
            part, prices, worth = self._read()
            self._hold(held)
            more = self._too_cheap(prices, worth)
            if not len(more):
                return part, raised_prices(self.classes, prices, worth)
            start, rows, values = self._entries(more)
            none = np.zeros(len(more))
            model.addCols(
                len(more), none, none, np.full(len(more), highspy.kHighsInf),
                len(rows), start[:-1], rows, values,
            )  # fmt: skip
            self._columns = np.concatenate((self._columns, more))

    def _read(self) -> tuple[float, Floats, Floats]:
        """Return the part of the unit, prices by class and the worth of users' shares."""
        assert self._model is not None
        classes, size = self.classes, self.classes.capacity.size
        solution = self._model.getSolution()
        value, dual = self._corrected(np.array(solution.col_value), np.array(solution.row_dual))
        value = np.maximum(value / _FULL, 0.0)
        self._amount = np.zeros(len(self._user))
        self._amount[self._columns] = value[1:] * self._alone[self._columns]
        dual[np.abs(dual) < _FAINTEST] = 0.0
        by_row = np.maximum(-dual[:size].reshape(classes.capacity.shape), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            prices = np.where(classes.capacity > 0, by_row / classes.capacity, 0.0)
            worth = np.where(self._scale > 0, np.maximum(dual[size:], 0.0) / self._scale, 0.0)
        return float(value[0]), prices, worth

    def _corrected(self, value: Floats, dual: Floats) -> tuple[Floats, Floats]:
        """Return the solution of the last basis: values of columns and duals of rows.

        HiGHS drops numbers below 1e-14. What its solution misses, summed up in long doubles and
        brought to size, is solved for in turn.
        """
        model = self._model
        assert model is not None
        size = self.classes.capacity.size
        status, basic = model.getBasicVariables()
        if status != highspy.HighsStatus.kOk:
            return value, dual
        basic = np.asarray(basic)
        is_column = basic >= 0
        column = basic[is_column]
        free = np.zeros(len(dual), dtype=bool)
        free[-1 - basic[~is_column]] = True
        # Entries of the basic columns; the level is the first of all.
        start, rows, values = self._entries(self._columns[column[column > 0] - 1])
        place = np.flatnonzero(column > 0)
        place = np.repeat(place, np.diff(start))
        if (column == 0).any():
            level = int(np.flatnonzero(column == 0)[0])
            rows = np.concatenate((rows, size + np.arange(len(self._rate))))
            values = np.concatenate((values, self._rate))
            place = np.concatenate((place, np.full(len(self._rate), level)))
        entries = values.astype(np.longdouble)
        right = np.concatenate((np.full(size, _FULL), self._held)).astype(np.longdouble)
        cost = np.where(column == 0, -1.0, 0.0).astype(np.longdouble)
        x = value[column].astype(np.longdouble)
        y = np.where(free, 0.0, dual).astype(np.longdouble)
        for _ in range(_CORRECTIONS):
            short = right.copy()
            np.subtract.at(short, rows, entries * x[place])
            short[free] = 0.0
            most = float(np.abs(short).max(initial=0.0))
            if most > 0:
                _, more = model.getBasisSolve((short / most).astype(float))
                x += np.asarray(more)[is_column] * np.longdouble(most)
            reduced = cost.copy()
            np.subtract.at(reduced, place, entries * y[rows])
            most = float(np.abs(reduced).max(initial=0.0))
            if most > 0:
                error = np.zeros(len(basic))
                error[is_column] = (reduced / most).astype(float)
                _, more = model.getBasisTransposeSolve(error)
                y += np.where(free, 0.0, np.asarray(more)) * np.longdouble(most)
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            return value, dual
        result = np.zeros_like(value)
        result[column] = x.astype(float)
        return result, y.astype(float)

    def _too_cheap(self, prices: Floats, worth: Floats) -> Ints:
        """Return pairs out of play that cost less than they are worth, some of each server."""
        none: Ints = np.zeros(0, dtype=np.int64)
        if len(self._columns) == len(self._user):
            return none
        out = self._number.copy()
        out[self._user[self._columns], self._server[self._columns]] = -1
        with np.errstate(divide="ignore", invalid="ignore"):
            short = 1.0 - (self.classes.direction @ prices.T) / worth[:, None]
        short[(out < 0) | (worth <= 0)[:, None]] = 0.0
        found = []
        for _ in range(_ADDED):
            user = short.argmax(axis=0)
            server = np.flatnonzero(short[user, np.arange(len(user))] > _PRICE_ERROR)
            if not len(server):
                break
            found.append(out[user[server], server])
            short[user[server], server] = 0.0
        return np.concatenate(found) if found else none

    def place(self, share: Floats) -> Placement:
        """Return the placement of the last round's solution."""
        used: Ints = np.flatnonzero(self._amount > 0)
        return self.classes.place(share, self._user[used], self._server[used], self._amount[used])
