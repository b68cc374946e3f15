"""The linear program of the most tasks in total, by HiGHS."""

from __future__ import annotations

import math

import highspy
import numpy as np

from drfh.mechanisms.solvers.classes import Classes
from drfh.mechanisms.solvers.simplex import run_highs
from drfh.problem import Floats

__all__ = ["most_tasks"]

_SMALLEST_COEFFICIENT = 1e-12
_TOGETHER = 2_000  # pairs up to which one linear program is quick


def most_tasks(classes: Classes, unit: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return shares, amounts by class, prices and what a share is worth to each class.

    Columns are scaled so that 1 means a whole server or all servers that a class can use, and
    the best column counts 1: then HiGHS's absolute tolerances are relative ones.
    """
    problem = classes.problem
    n, k = classes.usable.shape
    m = classes.direction.shape[1]
    share, amount, worth = np.zeros(len(problem.users)), np.zeros((n, k)), np.zeros(n)
    who = np.flatnonzero(problem.share_limit > 0)
    if len(who) == 0:
        return share, amount, np.zeros((k, m)), worth
    if n * k > _TOGETHER and np.isinf(problem.limit).all():
        return _server_by_server(classes, unit)
    user, server = np.nonzero(classes.usable)
    d, c = classes.direction[user], classes.capacity[server]
    with np.errstate(divide="ignore", invalid="ignore"):
        alone = np.where(d > 0, c / d, math.inf).min(axis=1)
        load = np.where(c > 0, np.minimum(d * alone[:, None] / c, 1.0), 0.0)
    total = np.bincount(user, alone, n)
    total[total <= 0] = 1.0
    own = classes.user_class[who]
    value = unit[who] * total[own]
    # Columns of pairs: loads on the server, then a part of the class; columns of users take it.
    rows = np.concatenate((server[:, None] * m + np.arange(m), k * m + user[:, None]), axis=1)
    values = np.concatenate((load, -(alone / total[user])[:, None]), axis=1)
    keep = np.abs(values) > _SMALLEST_COEFFICIENT
    ends = np.cumsum(np.concatenate((keep.sum(axis=1), np.ones(len(who), dtype=np.int64))))
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(user) + len(who), k * m + n
    lp.col_cost_ = np.concatenate((np.zeros(len(user)), -value / value.max()))
    lp.col_lower_ = np.zeros(lp.num_col_)
    # A limit that does not bind must not bound a column: it would take the price of servers.
    limit = problem.share_limit[who]
    most = np.where(limit < total[own], limit / total[own], highspy.kHighsInf)
    lp.col_upper_ = np.concatenate((np.full(len(user), highspy.kHighsInf), most))
    lp.row_lower_ = np.full(lp.num_row_, -highspy.kHighsInf)
    lp.row_upper_ = np.concatenate((np.ones(k * m), np.zeros(n)))
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.concatenate(([0], ends)).astype(np.int32)
    lp.a_matrix_.index_ = np.concatenate((rows[keep], k * m + own)).astype(np.int32)
    lp.a_matrix_.value_ = np.concatenate((values[keep], np.ones(len(who))))
    solution = run_highs(lp).getSolution()
    column = np.maximum(np.array(solution.col_value), 0.0)
    dual = np.maximum(-np.array(solution.row_dual), 0.0) * value.max()
    share[who] = column[len(user) :] * total[own]
    amount[user, server] = column[: len(user)] * alone
    by_row = dual[: k * m].reshape(k, m)
    with np.errstate(divide="ignore", invalid="ignore"):
        prices = np.where(classes.capacity > 0, by_row / classes.capacity, 0.0)
    worth[:] = dual[k * m :] / total
    return share, amount, prices, worth


def _server_by_server(classes: Classes, unit: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the same for endless tasks, where no server needs to know of the others.

    Every server by itself runs the most that it can: a linear program with a row a resource, the
    same but for its right side on all servers that are open to the same users.
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
        worth = unit[best[users]]
        model = _one_server(classes.direction[users], worth / worth.max())
        for server in np.flatnonzero(pattern.ravel() == number).tolist():
            room = classes.capacity[server]
            size = float(room.max())
            for r in range(m):
                model.changeRowBounds(r, -highspy.kHighsInf, float(room[r]) / size)
            model.run()
            solution = model.getSolution()
            amount[users, server] = np.maximum(np.array(solution.col_value), 0.0) * size
            dual = np.array(solution.row_dual)
            prices[server] = np.maximum(-dual, 0.0) * worth.max()
    share[best] = amount.sum(axis=1)
    cost = np.where(classes.usable, classes.direction @ prices.T, math.inf)
    least: Floats = cost.min(axis=1)
    return share, amount, prices, np.where(np.isfinite(least), least, 0.0)


def _one_server(direction: Floats, worth: Floats) -> highspy.Highs:
    """Return the model of one server, its room still to be set."""
    n, m = direction.shape
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = n, m
    lp.col_cost_ = -worth
    lp.col_lower_, lp.col_upper_ = np.zeros(n), np.full(n, highspy.kHighsInf)
    lp.row_lower_, lp.row_upper_ = np.full(m, -highspy.kHighsInf), np.ones(m)
    keep = direction > _SMALLEST_COEFFICIENT
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.concatenate(([0], np.cumsum(keep.sum(axis=1)))).astype(np.int32)
    lp.a_matrix_.index_ = np.nonzero(keep)[1].astype(np.int32)
    lp.a_matrix_.value_ = direction[keep]
    model = highspy.Highs()
    model.silent()
    model.passModel(lp)
    return model
