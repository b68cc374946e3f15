"""Linear program of the most tasks in total, solved by HiGHS."""

from __future__ import annotations

import math
from dataclasses import dataclass

import highspy
import numpy as np

from drfh.allocation.problem import Bools, Floats, Ints
from drfh.errors import SolverError
from drfh.mechanisms.solvers.presolve import Classes
from drfh.mechanisms.solvers.simplex import run_highs

__all__ = ["most_tasks", "small_program"]


_SMALLEST_COEFFICIENT = 1e-12
_TOGETHER = 2_000  # pairs up to which one linear program is quick
_FAINT = 1e-8  # part of the largest value below which HiGHS overlooks a user
_FULL = 1e-9  # free part of a server that is round-off
_SPECK = 1e-12  # part of a server that makes no difference to the others
_LAYERS = 40  # 10⁻⁸ each: more than floats span


def most_tasks(classes: Classes, unit: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return shares, amounts by class, prices, and worths of a share.

    Who has few tasks counts so little beside millions that HiGHS overlooks it: such users get what
    they can of what the others leave, layer by layer.
    """
    problem = classes.problem
    n, k = classes.usable.shape
    share, amount = np.zeros(len(problem.users)), np.zeros((n, k))
    prices, worth = np.zeros_like(classes.capacity), np.zeros(n)
    who = np.flatnonzero(problem.share_limit > 0)
    spread = _everything(classes)
    if spread is not None:
        return np.where(problem.share_limit > 0, problem.share_limit, 0.0), spread, prices, worth
    if n * k > _TOGETHER and np.isinf(problem.limit).all():
        return _server_by_server(classes, unit)
    available, usable = classes.capacity.copy(), classes.usable
    for layer in range(_LAYERS):
        left = problem.share_limit[who] - share[who]
        found = _Layer.of(classes, available, usable, unit, who, left)
        if len(found.who) == 0:
            break
        share[found.who] += found.share
        amount += found.amount
        if layer == 0:
            prices, worth = found.prices, found.worth
        who = found.who[found.faint]
        if len(who) == 0:
            break
        used = np.einsum("cr,cl->lr", classes.direction, amount)
        available = np.where(used < classes.capacity * (1 - _FULL), classes.capacity - used, 0.0)
        usable = classes.usable & _fits(classes.direction, available)
    return share, amount, prices, worth


def _fits(direction: Floats, available: Floats) -> Bools:
    """Return classes × servers: whether there is some of all that a class needs."""
    fits: Bools = np.ones((len(direction), len(available)), dtype=bool)
    for needed, free in zip(direction.T, available.T, strict=True):
        fits &= (needed <= 0)[:, None] | (free > 0)
    return fits


def _alone(direction: Floats, available: Floats) -> Floats:
    """Return what a class could have of a server alone, row by row."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        alone: Floats = np.where(direction > 0, available / direction, math.inf).min(axis=-1)
    return alone


def _everything(classes: Classes) -> Floats | None:
    """Return amounts that give everybody all its tasks, if they fit when spread evenly."""
    required = classes.sum_users(classes.problem.share_limit)
    if not np.isfinite(required).all():
        return None
    n, k = classes.usable.shape
    used = np.zeros_like(classes.capacity)
    amount = np.zeros((n, k))
    for c in np.flatnonzero(required > 0).tolist():
        alone = np.where(classes.usable[c], _alone(classes.direction[c], classes.capacity), 0.0)
        amount[c] = alone * (required[c] / alone.sum())
        used += amount[c][:, None] * classes.direction[c]
        if (used > classes.capacity).any():
            return None
    return amount


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """The most tasks of some users on what is free.

    Attributes
    ----------
    who : int array
        Users that can run something.
    share : array
        Of each of them.
    faint : bool array
        Which of them HiGHS may have overlooked.
    amount, prices, worth : arrays
        As :func:`most_tasks` returns them.
    """

    who: Ints
    share: Floats
    faint: Bools
    amount: Floats
    prices: Floats
    worth: Floats

    @classmethod
    def of(
        cls,
        classes: Classes,
        available: Floats,
        usable: Bools,
        unit: Floats,
        who: Ints,
        limit: Floats,
    ) -> _Layer:
        """Solve one linear program.

        Columns are scaled so that 1 means all that a class or a user can have, on a server or in
        total, rows so that 1 means a whole server or all that a class can have, and the best user
        counts 1: then HiGHS's absolute tolerances are relative ones, however small a task is.
        """
        n, k = usable.shape
        m = available.shape[1]
        present = np.zeros(n, dtype=bool)
        present[classes.user_class[who]] = True
        user, server = np.nonzero(usable & present[:, None])
        d, c = classes.direction[user], available[server]
        alone = _alone(d, c)
        total = np.bincount(user, alone, n)
        own = classes.user_class[who]
        some = (total[own] > 0) & (limit > 0)
        who, own, limit = who[some], own[some], limit[some]
        amount, prices, worth = np.zeros((n, k)), np.zeros((k, m)), np.zeros(n)
        if len(who) == 0:
            return cls(who, limit, some[:0], amount, prices, worth)
        most = np.minimum(limit, total[own])
        size = np.minimum(np.bincount(own, most, n), total)
        size[size <= 0] = 1.0
        piece = np.minimum(alone, size[user])
        with np.errstate(divide="ignore", invalid="ignore"):
            load = np.where(c > 0, np.minimum(d * piece[:, None] / c, 1.0), 0.0)
        value = unit[who] * most
        # Columns of pairs: loads on the server, then a part of the class; columns of users take it.
        rows = np.concatenate((server[:, None] * m + np.arange(m), k * m + user[:, None]), axis=1)
        values = np.concatenate((load, -(piece / size[user])[:, None]), axis=1)
        part = most / size[own]
        keep, taken = np.abs(values) > _SMALLEST_COEFFICIENT, part > _SMALLEST_COEFFICIENT
        ends = np.cumsum(np.concatenate((keep.sum(axis=1), taken)))
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(user) + len(who), k * m + n
        lp.col_cost_ = np.concatenate((np.zeros(len(user)), -value / value.max()))
        lp.col_lower_ = np.zeros(lp.num_col_)
        # A limit that does not bind must not bound a column: it would take the price of servers.
        bound = np.where((limit < total[own]) | ~taken, 1.0, highspy.kHighsInf)
        lp.col_upper_ = np.concatenate((np.full(len(user), highspy.kHighsInf), bound))
        lp.row_lower_ = np.full(lp.num_row_, -highspy.kHighsInf)
        lp.row_upper_ = np.concatenate((np.ones(k * m), np.zeros(n)))
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_ = np.concatenate(([0], ends)).astype(np.int32)
        lp.a_matrix_.index_ = np.concatenate((rows[keep], k * m + own[taken])).astype(np.int32)
        lp.a_matrix_.value_ = np.concatenate((values[keep], part[taken]))
        solution = run_highs(lp).getSolution()
        column = np.maximum(np.array(solution.col_value), 0.0)
        dual = np.maximum(-np.array(solution.row_dual), 0.0) * value.max()
        amount[user, server] = column[: len(user)] * piece
        given = column[len(user) :]
        with np.errstate(divide="ignore", invalid="ignore"):
            prices = np.where(available > 0, dual[: k * m].reshape(k, m) / available, 0.0)
        worth[:] = dual[k * m :] / size
        faint = (value < _FAINT * value.max()) & (given < 1 - _FULL)
        _complete(
            classes.direction, available, amount, np.bincount(own, given * most, n).astype(float)
        )
        return cls(who, given * most, faint, amount, prices, worth)


def _complete(direction: Floats, available: Floats, amount: Floats, required: Floats) -> None:
    """Add what a class lacks of its share, where it is a speck: a solver does not see specks."""
    given = amount.sum(axis=1)
    for c in np.flatnonzero((given > 0) & (given < required * (1 - _SPECK))).tolist():
        more = amount[c] * (required[c] / given[c] - 1)
        if (more[:, None] * direction[c] <= _SPECK * available).all():
            amount[c] += more


def _server_by_server(classes: Classes, unit: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the same for endless tasks, where no server needs to know of the others.

    Every server by itself runs the most that it can: a linear program with a row a resource.
    """
    problem = classes.problem
    n, k = classes.usable.shape
    m = classes.direction.shape[1]
    best = np.zeros(n, dtype=np.int64)  # the user of each class whose tasks are smallest
    order = np.argsort(unit, kind="stable")
    best[classes.user_class[order]] = order
    share, amount, prices = np.zeros(len(problem.users)), np.zeros((n, k)), np.zeros((k, m))
    patterns, pattern = np.unique(classes.usable.T, axis=0, return_inverse=True)
    for number, open_to in enumerate(patterns):
        users = np.flatnonzero(open_to)
        if len(users) == 0:
            continue
        basis: highspy.HighsBasis | None = None
        for server in np.flatnonzero(pattern.ravel() == number).tolist():
            available, left = classes.capacity[server].copy(), users
            for layer in range(_LAYERS):
                d = classes.direction[left]
                left = left[~((d > 0) & (available <= 0)).any(axis=1)]
                if len(left) == 0:
                    break
                given, price, faint, end = _one_server(
                    classes.direction[left],
                    available,
                    unit[best[left]],
                    basis if layer == 0 else None,
                )
                amount[left, server] += given
                if layer == 0:
                    prices[server], basis = price, end
                if not faint.any():
                    break
                used = amount[users, server] @ classes.direction[users]
                free = classes.capacity[server] - used
                available = np.where(free > _FULL * classes.capacity[server], free, 0.0)
                left = left[faint]
    share[best] = amount.sum(axis=1)
    cost = np.where(classes.usable, classes.direction @ prices.T, math.inf)
    least: Floats = cost.min(axis=1)
    return share, amount, prices, np.where(np.isfinite(least), least, 0.0)


def _one_server(
    direction: Floats, available: Floats, worth: Floats, basis: highspy.HighsBasis | None
) -> tuple[Floats, Floats, Bools, highspy.HighsBasis]:
    """Return amounts, prices, whom HiGHS may have overlooked, and the basis, for one server.

    A column of 1 means the whole server, and the best user counts 1.
    """
    n, m = direction.shape
    alone = _alone(direction, available)
    value = worth * alone
    with np.errstate(divide="ignore", invalid="ignore"):
        load = np.where(available > 0, np.minimum(direction * alone[:, None] / available, 1.0), 0.0)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = n, m
    lp.col_cost_ = -value / value.max()
    lp.col_lower_, lp.col_upper_ = np.zeros(n), np.full(n, highspy.kHighsInf)
    lp.row_lower_, lp.row_upper_ = np.full(m, -highspy.kHighsInf), np.ones(m)
    keep = load > _SMALLEST_COEFFICIENT
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.concatenate(([0], np.cumsum(keep.sum(axis=1)))).astype(np.int32)
    lp.a_matrix_.index_ = np.nonzero(keep)[1].astype(np.int32)
    lp.a_matrix_.value_ = load[keep]
    model = run_highs(lp, basis)
    solution = model.getSolution()
    column = np.maximum(np.array(solution.col_value), 0.0)
    dual = np.maximum(-np.array(solution.row_dual), 0.0) * value.max()
    with np.errstate(divide="ignore", invalid="ignore"):
        prices = np.where(available > 0, dual / available, 0.0)
    faint = (value < _FAINT * value.max()) & (column <= 0)
    return column * alone, prices, faint, model.getBasis()


def small_program(cost: Floats, rows: Floats, low: Floats, high: Floats) -> Floats | None:
    """Return the vertex x ≥ 0 of least cost·x; None if infeasible.

    The constraints are low ≤ rows·x ≤ high.

    Examples
    --------
    >>> import numpy as np
    >>> small_program(np.array([-1.0, -2.0]), np.ones((1, 2)), np.zeros(1), np.ones(1))
    array([0., 1.])
    """
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = rows.shape
    lp.col_cost_ = cost
    lp.col_lower_, lp.col_upper_ = np.zeros(len(cost)), np.full(len(cost), highspy.kHighsInf)
    lp.row_lower_, lp.row_upper_ = low, high
    row, column = np.nonzero(rows)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.searchsorted(row, np.arange(len(rows) + 1)).astype(np.int32)
    lp.a_matrix_.index_ = column.astype(np.int32)
    lp.a_matrix_.value_ = rows[row, column]
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("solver", "simplex")
    solver.passModel(lp)
    solver.run()
    status = solver.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        return None
    if status != highspy.HighsModelStatus.kOptimal:
        raise SolverError(f"HiGHS ended with {status}")
    return np.array(solver.getSolution().col_value)
