"""Leximin rounds by iterative refinement of simplex bases, with hundreds of digits.

HiGHS finds the basis of a round in doubles. The numbers of that basis are computed in fixed point:
what they miss of the exact equations, brought to size, is solved for with HiGHS's factors, again
and again. If a number has the wrong sign then, the program is posed anew as a change of this
solution, magnified until doubles see it (Gleixner, Steffy and Wolter 2016).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from fractions import Fraction
from typing import TypeAlias

import highspy
import numpy as np
from numpy.typing import NDArray

from drfh.allocation.problem import Bools, Floats, Ints
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
_PIVOTS = 50  # most pivots of all rounds, for each row: some seconds
_POSED = 12  # most times that a round is posed
_LARGEST_BOUND, _LARGEST_COST = 1e15, 1e6
_SMALLEST_ENTRY, _LARGEST_ENTRY = 1e-12, 1e12


class RefinedSimplex:
    """Raises the tasks of users as far as the blocks hold them, round by round.

    The first column is the level, then every pair of user and block has one. Every capacity has a
    row, then every user. All units are powers of two, so that scaling rounds nothing.

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
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.ldexp(
                capacity[self._block].astype(float) / demand[self._user].astype(float),
                self._block_unit[self._block] - unit[self._user],
            )
        # Tasks of the user if it had the block.
        alone: Floats = np.where(demand[self._user] > 0, ratio, math.inf).min(axis=1)
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
        self._amount: Fixed = np.zeros(len(pairs) + 1, dtype=object)
        self._basis: highspy.HighsBasis | None = None
        self._pivots = _PIVOTS * len(self._right)  # left for all rounds

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
        cost: Fixed = np.zeros(len(self._amount), dtype=object)
        cost[0] = -1 << _BITS
        seen, seen_cost = _FULL, 0  # bits by which amounts and costs are magnified
        for _ in range(_POSED):
            model = self._posed(cost, seen, seen_cost)
            status, basic = model.getBasicVariables()
            if status != highspy.HighsStatus.kOk:
                break
            self._basis = model.getBasis()
            basis = np.asarray(basic)
            self._amount, price = self._refined(model, basis)
            cost = self._reduced(price)
            cost[basis[basis >= 0]] = 0
            short = max(-min(self._room()), -min(self._amount))
            cheap = max(max(price[: self._size]), -min(price[self._size :]), -min(cost))
            if max(short, cheap) < 1 << _SIGN:
                self._level = _fraction(self._amount[0], self._level_unit)
                return self._level, self._prices(price)
            seen, seen_cost = _FULL + _magnified(short), _magnified(cheap)
        raise SolverError("the basis of a round is not found")

    def tasks(self) -> dict[tuple[int, int], Fraction]:
        """Return the tasks of each user on each block, where there are any."""
        spare = 1 - Fraction(1, 1 << _BITS - _SPARE)
        return {
            (int(self._user[i]), int(self._block[i])): spare
            * _fraction(self._amount[i + 1], int(self._pair_unit[i]))
            for i in np.flatnonzero(self._amount[1:] > 0).tolist()
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
        self._user_unit = np.array([_exponent(one) for one in have], dtype=np.int64)
        self._rate: Fixed = np.zeros(len(have), dtype=object)
        for user, unit in enumerate(self._user_unit.tolist()):
            right = 0
            if user in rising:
                self._rate[user] = _fixed(rates[user], self._level_unit - unit)
            else:
                right = _fixed(held[user], -unit)
            self._right[self._size + user] = right
        if self._amount[0]:
            self._amount[0] = _fixed(self._level, -self._level_unit)
        one = np.full(len(self._user), 1 << _BITS, dtype=object)
        self._part = _shifted(one, self._pair_unit - self._user_unit[self._user])

    def _posed(self, cost: Fixed, seen: int, seen_cost: int) -> highspy.Highs:
        """Return a solved model of what must change, with numbers and costs times powers of two."""
        users, columns = len(self._rate), len(self._amount)
        load = np.column_stack((self._load, self._part)).astype(float) * 2.0**-_BITS
        load = np.minimum(load, _LARGEST_ENTRY)
        row = np.column_stack((self._load_row, self._size + self._user))
        keep = load > _SMALLEST_ENTRY
        start = np.concatenate(([0, users], users + np.cumsum(keep.sum(axis=1))))
        room = _bounds(self._room(), seen)
        none = np.full(self._size, highspy.kHighsInf), np.full(users, highspy.kHighsInf)
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = columns, len(room)
        lp.col_cost_ = np.clip(np.ldexp(cost.astype(float), seen_cost - _BITS), None, _LARGEST_COST)
        lp.col_lower_ = -_bounds(self._amount, seen)
        lp.col_upper_ = np.full(columns, highspy.kHighsInf)
        lp.row_lower_ = np.concatenate((-none[0], -room[self._size :]))
        lp.row_upper_ = np.concatenate((room[: self._size], none[1]))
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_ = start.astype(np.int32)
        lp.a_matrix_.index_ = np.concatenate((self._size + np.arange(users), row[keep])).astype(
            np.int32
        )
        rate = -self._rate.astype(float) * 2.0**-_BITS
        lp.a_matrix_.value_ = np.concatenate((rate, load[keep]))
        model = exact_model(lp, self._basis)
        model.setOptionValue("simplex_strategy", PRIMAL)  # no change is feasible, from the start
        for strategy in (PRIMAL, DUAL):
            solved = run_from_basis(model, strategy, self._pivots)
            self._pivots -= model.getInfo().simplex_iteration_count
            if solved:
                return model
        raise SolverError("HiGHS finds no basis of a round")

    def _used(self, amount: Fixed) -> Fixed:
        """Return what each row has of these amounts, times 2^_BITS once more."""
        used: Fixed = np.zeros(len(self._right), dtype=object)
        some = np.flatnonzero(amount[1:])
        here = amount[1:][some]
        np.add.at(used, self._load_row[some], self._load[some] * here[:, None])
        np.add.at(used, self._size + self._user[some], self._part[some] * here)
        used[self._size :] -= self._rate * amount[0]
        return used

    def _room(self) -> Fixed:
        """Return what is free of each capacity, and what each user has more than it must."""
        room = self._right - (self._used(self._amount) >> _BITS)
        room[self._size :] *= -1
        return room

    def _reduced(self, price: Fixed, columns: Ints | None = None) -> Fixed:
        """Return the cost of columns that these prices leave; of all by default."""
        pairs = slice(None) if columns is None else columns[columns > 0] - 1
        by_row, by_user = price[: self._size], price[self._size :]
        worth = (self._load[pairs] * by_row[self._load_row[pairs]]).sum(axis=1)
        worth = worth + self._part[pairs] * by_user[self._user[pairs]]
        level = (self._rate * by_user).sum() - (1 << 2 * _BITS)
        if columns is None:
            return np.concatenate(([level], -worth)) >> _BITS
        cost: Fixed = np.zeros(len(columns), dtype=object)
        cost[columns > 0] = -worth
        cost[columns == 0] = level
        return cost >> _BITS

    def _refined(self, model: highspy.Highs, basis: Ints) -> tuple[Fixed, Fixed]:
        """Return the amounts of columns and the prices of rows that a basis says."""
        column = basis >= 0
        columns = basis[column]
        bound: Bools = np.ones(len(self._right), dtype=bool)
        bound[-1 - basis[~column]] = False
        amount: Fixed = np.zeros_like(self._amount)
        price: Fixed = np.zeros_like(self._right)

        def missing() -> Fixed:
            return np.where(bound, self._right - (self._used(amount) >> _BITS), 0)

        def add(more: Fixed) -> None:
            amount[columns] += more[column]

        def overpriced() -> Fixed:
            over: Fixed = np.zeros(len(basis), dtype=object)
            over[column] = self._reduced(price, columns)
            return over

        def add_price(more: Fixed) -> None:
            price[bound] += more[bound]

        _correct(missing, model.getBasisSolve, add)
        _correct(overpriced, model.getBasisTransposeSolve, add_price)
        return amount, price


def _correct(
    missing: Callable[[], Fixed],
    solve: Callable[[Floats], tuple[highspy.HighsStatus, Floats]],
    add: Callable[[Fixed], None],
) -> None:
    """Add what is missing, solved for in floats, until nothing is."""
    last: int | None = None
    while True:
        short = missing()
        most = max(abs(short), default=0)
        if most < 1 << _ROUND_OFF:
            return
        if last is not None and most >= last:
            break
        last = most
        # Floats of 1 at most go in; what comes out is multiplied in integers.
        unit = max(most.bit_length() - _KEPT, 0)
        given = np.ldexp((short >> unit).astype(float), -_KEPT)
        status, found = solve(given)
        more = np.asarray(found)
        if status != highspy.HighsStatus.kOk or not np.isfinite(more).all():
            break
        whole = np.array([int(part) for part in np.ldexp(more, _KEPT).tolist()], dtype=object)
        add(whole << unit)
    raise SolverError("the numbers of a basis are not found")


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
    return (fixed << left) >> right


def _bounds(fixed: Fixed, bits: int) -> Floats:
    """Return numbers times 2^bits as bounds for HiGHS."""
    floats: Floats = np.ldexp(fixed.astype(float), bits - _BITS)
    return np.where(np.abs(floats) < _LARGEST_BOUND, floats, np.copysign(highspy.kHighsInf, floats))


def _magnified(wrong: int) -> int:
    """Return the bits that make 1 of what has the wrong sign; 0 where nothing has."""
    return _BITS - wrong.bit_length() if wrong >= 1 << _SIGN else 0
