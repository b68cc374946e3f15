"""Leximin rounds by iterative refinement of simplex bases, with hundreds of digits.

HiGHS finds the basis of a round in doubles. The numbers of that basis are computed in fixed point:
what they miss of the exact equations, brought to size, is solved for with HiGHS's factors, again
and again. If a number has the wrong sign then, the program is posed anew as a change of this
solution, magnified until doubles see it (Gleixner, Steffy and Wolter 2016).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from fractions import Fraction
from typing import TypeAlias

import highspy
import numpy as np
from numpy.typing import NDArray

from drfh.allocation.problem import Floats, Ints
from drfh.allocation.proofs.rational import RationalProblem, RationalProof, RationalRound
from drfh.errors import SolverError
from drfh.mechanisms.solvers.simplex import DUAL, PRIMAL, exact_model, run_from_basis

__all__ = ["RefinedSimplex", "refined_leximin"]

# Integers, for numbers times 2^_BITS: few enough bits that a float holds them.
Fixed: TypeAlias = NDArray[np.object_]

_BITS = 768
_ROUND_OFF = _BITS // 12  # bits that sums of rounded numbers may miss
_ZERO = _BITS // 2  # bits below which a price is 0 in truth
_SIGN = _BITS // 4  # bits below which a negative number is 0 in truth
_SPARE = _SIGN + 16  # bits of an amount that are given up, so that servers hold all
_FULL = 7  # bits by which numbers are larger to HiGHS, as its tolerance is absolute
_KEPT = 60  # bits of a correction
_PIVOTS = 30  # most pivots of all rounds, for each row: some seconds
_PRODUCTS = 20_000_000  # most products of integers in all rounds: some seconds, too
_POSED = 12  # most times that a round is posed
_LARGEST_BOUND, _LARGEST_COST = 1e15, 1e6
_SMALLEST_ENTRY, _LARGEST_ENTRY = 1e-12, 1e12


class RefinedSimplex:
    """Raises the tasks of users as far as the blocks hold them, round by round.

    Every capacity is a row, then every user. Columns are the level, every pair of user and block,
    and for each row what is free of it: of a capacity, or what a user has more than it must. All
    units are powers of two, so that scaling rounds nothing.

    Examples
    --------
    >>> one = Fraction(1)
    >>> demand, capacity = ((one,), (one / 2,)), ((one,), (one,))
    >>> usable, rate, cap = ((0, 1), (1,)), (one, one), (None, None)
    >>> simplex = RefinedSimplex(RationalProblem(demand, capacity, usable, rate, cap))
    >>> level, _ = simplex.raise_level([one, one], {0, 1})
    >>> abs(level - Fraction(4, 3)) < Fraction(1, 10**200)
    True
    """

    def __init__(self, problem: RationalProblem) -> None:
        self._problem = problem
        users, resources = len(problem.demand), len(problem.demand[0])
        pairs = [(user, block) for user, where in enumerate(problem.usable) for block in where]
        self._user, self._block = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        capacity, self._block_unit = _scaled(problem.capacity)
        demand, unit = _scaled(problem.demand)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            ratio = np.ldexp(
                capacity[self._block].astype(float) / demand[self._user].astype(float),
                self._block_unit[self._block] - unit[self._user],
            )
        # Tasks of the user if it had the block.
        alone: Floats = np.where(demand[self._user] > 0, ratio, math.inf).min(axis=1)
        if not np.isfinite(alone).all():
            raise SolverError("numbers are too far apart")
        self._pair_unit: Ints = np.frexp(alone)[1].astype(np.int64)
        shift = unit[self._user] + self._pair_unit[:, None] - self._block_unit[self._block]
        self._load = _shifted(demand[self._user], shift)
        self._load_row: Ints = self._block[:, None] * resources + np.arange(resources)
        self._size = capacity.size
        self._right: Fixed = np.concatenate((capacity.ravel(), np.zeros(users, dtype=object)))
        most = np.bincount(self._user, alone, minlength=users).tolist()
        self._level = min(  # a bound, until a round gave it
            (
                Fraction(tasks) / rate
                for tasks, rate, cap in zip(most, problem.rate, problem.cap, strict=True)
                if cap != 0
            ),
            default=Fraction(1),
        )
        rows = len(self._right)
        self._first = 1 + len(pairs)  # column of what is free
        self._sign: Ints = np.where(np.arange(rows) < self._size, 1, -1)  # in its row
        self._value: Fixed = np.zeros(self._first + rows, dtype=object)
        status = highspy.HighsBasisStatus
        self._basis = highspy.HighsBasis()
        self._basis.col_status = [status.kLower] * self._first + [status.kBasic] * rows
        self._basis.row_status = [status.kLower] * rows
        self._basis.valid = True
        self._pivots = _PIVOTS * rows  # left for all rounds
        self._products = _PRODUCTS

    def raise_level(
        self, held: Sequence[Fraction], rising: Collection[int]
    ) -> tuple[Fraction, dict[tuple[int, int], Fraction]]:
        """Return the highest level and the prices that bound it.

        Parameters
        ----------
        held
            Tasks of the users that do not rise.
        rising
            The others, whose tasks are rate times level.

        Raises
        ------
        SolverError
            If no basis is found that has the right signs.
        """
        self._set_up(held, rising)
        everything = np.arange(len(self._value))
        cost = self._reduced(np.zeros_like(self._right), everything)
        seen, seen_cost = _FULL, 0  # bits by which numbers and costs are magnified
        for _ in range(_POSED):
            model = self._posed(cost, seen, seen_cost)
            price = self._refine(model)
            cost = self._reduced(price, everything)
            short, cheap = -min(self._value), -min(cost)
            if max(short, cheap) < 1 << _SIGN:
                self._level = _fraction(self._value[0], self._level_unit)
                return self._level, self._prices(price)
            seen, seen_cost = _FULL + _magnified(short), _magnified(cheap)
        raise SolverError("the basis of a round is not found")

    def tasks(self) -> dict[tuple[int, int], Fraction]:
        """Return the tasks of each user on each block, where there are any."""
        spare = 1 - Fraction(1, 1 << _BITS - _SPARE)
        amount = self._value[1 : self._first]
        return {
            (int(self._user[i]), int(self._block[i])): spare
            * _fraction(amount[i], int(self._pair_unit[i]))
            for i in np.flatnonzero(amount > 0).tolist()
        }

    def _prices(self, price: Fixed) -> dict[tuple[int, int], Fraction]:
        """Return the price of each resource on each block, where it is not 0."""
        above = np.flatnonzero(-price[: self._size] >= 1 << _ZERO)
        keys = [divmod(row, self._block_unit.shape[1]) for row in above.tolist()]
        return {
            key: _fraction(-price[row], -int(self._block_unit[key]))
            for key, row in zip(keys, above.tolist(), strict=True)
        }

    def _set_up(self, held: Sequence[Fraction], rising: Collection[int]) -> None:
        """Choose units near what the level and the users have; hold some and raise the others."""
        rates = self._problem.rate
        self._level_unit = _exponent(self._level)
        have = [rates[u] * self._level if u in rising else one for u, one in enumerate(held)]
        user_unit: Ints = np.array([_exponent(one) for one in have], dtype=np.int64)
        self._rate: Fixed = np.zeros(len(have), dtype=object)
        for user, unit in enumerate(user_unit.tolist()):
            right = 0
            if user in rising:
                self._rate[user] = _fixed(rates[user], self._level_unit - unit)
            else:
                right = _fixed(held[user], -unit)
            self._right[self._size + user] = right
        if self._value[0]:
            self._value[0] = _fixed(self._level, -self._level_unit)
        one = np.full(len(self._user), 1 << _BITS, dtype=object)
        self._part = _shifted(one, self._pair_unit - user_unit[self._user])
        self._value[self._first :] = 0
        self._value[self._first :] = self._missing() * self._sign

    def _posed(self, cost: Fixed, seen: int, seen_cost: int) -> highspy.Highs:
        """Return a solved model of what must change, with numbers and costs times powers of two."""
        rows, columns, users = len(self._right), len(self._value), len(self._rate)
        load = np.column_stack((_floats(self._load), _floats(self._part)))
        load = np.minimum(load, _LARGEST_ENTRY)
        row = np.column_stack((self._load_row, self._size + self._user))
        keep = load > _SMALLEST_ENTRY
        count = np.concatenate(([0, users], keep.sum(axis=1), np.ones(rows, dtype=np.int64)))
        index = np.concatenate((self._size + np.arange(users), row[keep], np.arange(rows)))
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = columns, rows
        lp.col_cost_ = np.minimum(_floats(cost, seen_cost), _LARGEST_COST)
        lower = -_floats(self._value, seen)
        lp.col_lower_ = np.where(lower > -_LARGEST_BOUND, lower, -highspy.kHighsInf)
        lp.col_upper_ = np.full(columns, highspy.kHighsInf)
        lp.row_lower_ = lp.row_upper_ = np.zeros(rows)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_ = np.cumsum(count).astype(np.int32)
        lp.a_matrix_.index_ = index.astype(np.int32)
        entries = -_floats(self._rate), load[keep], self._sign.astype(float)
        lp.a_matrix_.value_ = np.concatenate(entries)
        model = exact_model(lp, self._basis)
        for strategy in (PRIMAL, DUAL, PRIMAL, DUAL):
            solved = run_from_basis(model, strategy, self._pivots)
            self._pivots -= model.getInfo().simplex_iteration_count
            self._basis, replaced = self._of_columns(model.getBasis())
            if self._pivots <= 0:
                raise SolverError("the rounds take too long")
            if not replaced and (solved or strategy == DUAL):
                return model  # if it is not solved, refinement shows what is wrong
            model.setBasis(self._basis)
        raise SolverError("HiGHS finds no basis of a round")

    def _of_columns(self, basis: highspy.HighsBasis) -> tuple[highspy.HighsBasis, bool]:
        """Return a basis without rows, which HiGHS puts in where one is singular."""
        basic, lower = highspy.HighsBasisStatus.kBasic, highspy.HighsBasisStatus.kLower
        of_column, of_row = list(basis.col_status), list(basis.row_status)
        rows = [row for row, status in enumerate(of_row) if status == basic]
        for row in rows:
            of_column[self._first + row], of_row[row] = basic, lower
        if rows:
            basis.col_status, basis.row_status = of_column, of_row
        return basis, bool(rows)

    def _missing(self) -> Fixed:
        """Return what each row lacks."""
        used: Fixed = np.zeros_like(self._right)
        amount = self._value[1 : self._first]
        some = np.flatnonzero(amount)
        self._count(some)
        np.add.at(used, self._load_row[some], self._load[some] * amount[some, None])
        np.add.at(used, self._size + self._user[some], self._part[some] * amount[some])
        used[self._size :] -= self._rate * self._value[0]
        missing: Fixed = self._right - (used >> _BITS) - self._value[self._first :] * self._sign
        return missing

    def _reduced(self, price: Fixed, columns: Ints) -> Fixed:
        """Return the costs of columns that these prices of rows leave."""
        cost: Fixed = np.zeros(len(columns), dtype=object)
        by_user = price[self._size :]
        cost[columns == 0] = ((self._rate * by_user).sum() >> _BITS) - (1 << _BITS)
        paired = (columns > 0) & (columns < self._first)
        pairs = columns[paired] - 1
        self._count(pairs)
        worth = (self._load[pairs] * price[self._load_row[pairs]]).sum(axis=1)
        cost[paired] = -((worth + self._part[pairs] * by_user[self._user[pairs]]) >> _BITS)
        rows = columns[columns >= self._first] - self._first
        cost[columns >= self._first] = -price[rows] * self._sign[rows]
        return cost

    def _count(self, pairs: Ints) -> None:
        self._products -= len(pairs) * (self._load.shape[1] + 1)
        if self._products < 0:
            raise SolverError("the rounds take too long")

    def _refine(self, model: highspy.Highs) -> Fixed:
        """Set all values to those of the basis, and return its prices of rows."""
        status, basic = model.getBasicVariables()
        basis: Ints = np.asarray(basic)
        if status != highspy.HighsStatus.kOk or basis.min() < 0:
            raise SolverError("HiGHS has no basis of a round")
        self._value = np.zeros_like(self._value)
        price: Fixed = np.zeros_like(self._right)
        for missing, solve, found, where in (
            (self._missing, model.getBasisSolve, self._value, basis),
            (
                lambda: self._reduced(price, basis),
                model.getBasisTransposeSolve,
                price,
                np.arange(len(price)),
            ),
        ):
            for more in _corrections(missing, solve):
                found[where] += more
        return price


def _corrections(
    missing: Callable[[], Fixed], solve: Callable[[Floats], tuple[highspy.HighsStatus, Floats]]
) -> Iterator[Fixed]:
    """Yield what is to be added, solved for in floats, until nothing is missing."""
    last: int | None = None
    while (most := max(abs(short := missing()), default=0)) >= 1 << _ROUND_OFF:
        if last is not None and most >= last:
            raise SolverError("the numbers of a basis are not found")
        last = most
        # Floats of 1 at most go in; what comes out is brought to size in integers.
        unit = max(most.bit_length() - _KEPT, 0)
        _, more = solve(np.ldexp((short >> unit).astype(float), -_KEPT))
        more = np.asarray(more) * 2.0**_KEPT
        if not np.isfinite(more).all():
            raise SolverError("the numbers of a basis are not found")
        yield np.array([int(one) << unit for one in more.tolist()], dtype=object)


def refined_leximin(problem: RationalProblem) -> RationalProof:
    """Return the leximin allocation to hundreds of digits, with its proof.

    Raises
    ------
    SolverError
        If the rounds are too ill-conditioned even for that.
    """
    cap, rate = problem.cap, problem.rate
    simplex = RefinedSimplex(problem)
    rounds: list[RationalRound] = []
    held = [Fraction(0)] * len(cap)
    rising = {user for user, most in enumerate(cap) if most != 0}
    if len(rising) < len(cap):
        nothing = tuple(user for user in range(len(cap)) if user not in rising)
        rounds.append(RationalRound(nothing, Fraction(0), None))
    full_at = {user: most / rate[user] for user in rising if (most := cap[user]) is not None}
    last, enough = Fraction(0), 1 + Fraction(1, 1 << _BITS - _ZERO)
    while rising:
        level, prices = simplex.raise_level(held, rising)
        level = max(level, last)
        full = [user for user in rising if user in full_at and full_at[user] <= level * enough]
        if full:
            # Without them the others may rise higher.
            for user in sorted(full, key=full_at.__getitem__):
                last = min(full_at[user], level)
                rounds.append(RationalRound((user,), last, None))
                held[user] = rate[user] * last
            rising.difference_update(full)
            continue
        unit = problem.unit_prices(prices)
        stopped = tuple(user for user in sorted(rising) if unit[user])
        if not stopped:
            raise SolverError("a round stops nobody")
        last = level
        rounds.append(RationalRound(stopped, level, prices))
        for user in stopped:
            held[user] = rate[user] * level
        rising.difference_update(stopped)
    return RationalProof(problem, tuple(rounds), simplex.tasks())


def _exponent(number: Fraction) -> int:
    """Return the power of two next to a number; 0 for 0."""
    return number.numerator.bit_length() - number.denominator.bit_length() if number else 0


def _fixed(number: Fraction, shift: int) -> int:
    """Return a number times 2^shift in fixed point."""
    shift += _BITS
    if shift < 0:
        return number.numerator // (number.denominator << -shift)
    return (number.numerator << shift) // number.denominator


def _fraction(fixed: int, shift: int) -> Fraction:
    """Return a number in fixed point times 2^shift."""
    shift -= _BITS
    return Fraction(fixed << shift) if shift > 0 else Fraction(fixed, 1 << -shift)


def _scaled(table: Sequence[Sequence[Fraction]]) -> tuple[Fixed, Ints]:
    """Return numbers of about 1 in fixed point, and the powers of two that they are short of."""
    unit = np.array([[_exponent(one) for one in row] for row in table], dtype=np.int64)
    fixed = [
        [_fixed(one, -shift) for one, shift in zip(row, shifts, strict=True)]
        for row, shifts in zip(table, unit.tolist(), strict=True)
    ]
    return np.array(fixed, dtype=object), unit


def _shifted(fixed: Fixed, shift: Ints) -> Fixed:
    """Return integers times 2^shift."""
    left, right = np.maximum(shift, 0).astype(object), np.maximum(-shift, 0).astype(object)
    shifted: Fixed = (fixed << left) >> right
    return shifted


def _floats(fixed: Fixed, bits: int = 0) -> Floats:
    """Return numbers in fixed point times 2^bits as floats."""
    most = 1 << _BITS + 200
    floats = np.minimum(np.maximum(fixed, -most), most).astype(float)
    with np.errstate(over="ignore"):
        result: Floats = np.ldexp(floats, bits - _BITS)
    return result


def _magnified(wrong: int) -> int:
    """Return the bits that make 1 of what has the wrong sign; 0 where nothing has."""
    return _BITS - wrong.bit_length() if wrong >= 1 << _SIGN else 0
