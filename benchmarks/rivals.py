"""The same linear program for other solvers: max g with Σ_i x_il d_ir ≤ c_lr, Σ_l x_il = g.

HiGHS gets two more: the first round where users have weights, caps and restrictions, by its
interior-point method; and all rounds by its simplex method, as this project solved problems with
many rounds before it generated columns. Solvers are imported late: OR-tools brings a HiGHS of its
own, and two of them do not go into one process.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from benchmarks.instances import Floats, Instance

if TYPE_CHECKING:
    import highspy

Bools = NDArray[np.bool_]


def cvxpy_clarabel(instance: Instance) -> float:
    """Return the level by cvxpy with its default solver, modelled the way its manual does."""
    import cvxpy

    d, c = instance.direction, instance.capacity
    x = cvxpy.Variable((len(d), len(c)), nonneg=True)
    g = cvxpy.Variable()
    problem = cvxpy.Problem(cvxpy.Maximize(g), [x.T @ d <= c, cvxpy.sum(x, axis=1) == g])
    problem.solve(solver=cvxpy.CLARABEL)
    return float(g.value)


def _sparse(instance: Instance) -> tuple[object, object]:
    """Return the capacity rows and the user rows of the program; the last column is g."""
    from scipy import sparse

    d, c = instance.direction, instance.capacity
    n, k, m = len(d), len(c), d.shape[1]
    column = np.arange(n * k).reshape(n, k)
    rows = (np.arange(k)[:, None] * m + np.arange(m)).ravel()
    load = sparse.coo_array(
        (
            np.repeat(d, k, axis=0).ravel(),
            (np.tile(rows, n), np.repeat(column.ravel(), m)),
        ),
        shape=(k * m, n * k + 1),
    ).tocsr()
    even = sparse.coo_array(
        (
            np.concatenate((np.ones(n * k), -np.ones(n))),
            (
                np.concatenate((np.repeat(np.arange(n), k), np.arange(n))),
                np.concatenate((column.ravel(), np.full(n, n * k))),
            ),
        ),
        shape=(n, n * k + 1),
    ).tocsr()
    return load, even


def ortools_glop(instance: Instance) -> float:
    """Return the level by OR-tools' GLOP, through its array interface."""
    from ortools.linear_solver.python import model_builder_helper as helper
    from scipy import sparse

    load, even = _sparse(instance)
    matrix = sparse.vstack((load, even)).tocsr()
    columns = matrix.shape[1]
    cost = np.zeros(columns)
    cost[-1] = 1.0
    rows, n = load.shape[0], len(instance.direction)  # type: ignore[attr-defined]
    lower = np.concatenate((np.full(rows, -np.inf), np.zeros(n)))
    upper = np.concatenate((instance.capacity.ravel(), np.zeros(n)))
    model = helper.ModelBuilderHelper()
    model.fill_model_from_sparse_data(
        np.zeros(columns), np.full(columns, np.inf), cost, lower, upper, sparse.csr_matrix(matrix)
    )
    model.set_maximize(True)
    solver = helper.ModelSolverHelper("glop")
    solver.solve(model)
    return float(solver.objective_value())


class RoundModels:
    """Models of leximin rounds for HiGHS: each has all pairs that may be used.

    A column is scaled so that 1 is the whole server, rows so that 1 is a full server and a served
    user, and the level so that 1 is `unit`.

    Parameters
    ----------
    direction, capacity
        Users × resources, and servers × resources, in shares of the pool.
    usable
        Users × servers: who may run where.
    """

    def __init__(self, direction: Floats, capacity: Floats, usable: Bools) -> None:
        self.shape = (len(direction), capacity.size)
        self._user, server = np.nonzero(usable)
        need, there = direction[self._user], capacity[server]
        with np.errstate(divide="ignore", invalid="ignore"):
            alone = np.where(need > 0, there / need, math.inf)
            self._alone = alone.min(axis=1)  # share of the user if it had the server
            load = np.where(need > 0, need * self._alone[:, None] / there, 0.0)
        m = direction.shape[1]
        self._rows = np.empty((len(need), m + 1), dtype=np.int32)
        self._rows[:, :m] = server[:, None] * m + np.arange(m)
        self._rows[:, m] = capacity.size + self._user
        self._load = np.minimum(load, 1.0)

    def level_alone(self, rising: Floats) -> float:
        """Return the least level of a rising user that has all its servers for itself."""
        alone = np.bincount(self._user, self._alone, minlength=len(rising))
        return float((alone[rising > 0] / rising[rising > 0]).min())

    def model(self, held: Floats, rising: Floats, unit: float) -> highspy.HighsLp:
        """Return: maximise t such that shares ``held + t * unit * rising`` fit; t is last."""
        import highspy

        users, full = self.shape
        scale = held + unit * rising
        scale[scale <= 0] = 1.0
        values = np.column_stack((self._load, self._alone / scale[self._user]))
        keep = values > 0
        movers = np.flatnonzero(rising)
        ends = np.cumsum(keep.sum(axis=1))
        lp = highspy.HighsLp()
        columns = lp.num_col_ = len(values) + 1
        lp.num_row_ = full + users
        lp.col_cost_ = np.concatenate((np.zeros(columns - 1), [-1.0]))
        lp.col_lower_, lp.col_upper_ = np.zeros(columns), np.full(columns, highspy.kHighsInf)
        lp.row_lower_ = np.concatenate((np.full(full, -highspy.kHighsInf), held / scale))
        lp.row_upper_ = np.concatenate((np.ones(full), np.full(users, highspy.kHighsInf)))
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        starts = np.concatenate(([0], ends, [ends[-1] + len(movers)]))
        lp.a_matrix_.start_ = starts.astype(np.int32)
        lp.a_matrix_.index_ = np.concatenate((self._rows[keep], full + movers)).astype(np.int32)
        rates = -unit * rising[movers] / scale[movers]
        lp.a_matrix_.value_ = np.concatenate((values[keep], rates))
        return lp


def first_round(
    direction: Floats, capacity: Floats, usable: Bools, held: Floats, rising: Floats
) -> float:
    """Return the largest t for shares ``held + t * rising``, by HiGHS's interior-point method.

    It should be near 1. Without crossover: the level is asked for, no vertex.
    """
    import highspy

    highs = highspy.Highs()
    highs.silent()
    highs.setOptionValue("solver", "ipm")
    highs.setOptionValue("run_crossover", "off")
    highs.passModel(RoundModels(direction, capacity, usable).model(held, rising, 1.0))
    highs.run()
    return -float(highs.getInfo().objective_function_value)


def highs_ipm(instance: Instance) -> float:
    """Return the level by HiGHS's interior-point method, through its array interface."""
    d, c = instance.direction, instance.capacity
    most = float(1 / d.sum(axis=0).max())  # what the pool as a whole allows
    usable = np.ones((len(d), len(c)), dtype=bool)
    return most * first_round(d, c, usable, np.zeros(len(d)), np.full(len(d), most))


_FAINTEST = 1e-9  # part of all that is paid; below this a dual is round-off
_WELL_SCALED = (0.3, 3.0)


def old_second_try(
    direction: Floats, capacity: Floats, usable: Bools, weight: Floats, cap: Floats
) -> Floats:
    """Return all shares, by rounds with HiGHS's simplex method.

    Each round is a new model of all pairs, which starts from the last basis. Who pays its price,
    or has all its tasks, stops.
    """
    from drfh.mechanisms.solvers.simplex import run_highs

    models = RoundModels(direction, capacity, usable)
    share = np.zeros(len(weight))
    active = cap > 0
    level, reached, basis = 0.0, 0.0, None
    while active.any():
        rising = np.where(active, weight, 0.0)
        part, level = 0.0, level or models.level_alone(rising)
        while not _WELL_SCALED[0] <= part <= _WELL_SCALED[1]:
            scale = share + level * rising
            highs = run_highs(models.model(share, rising, level), basis)
            basis, solution = highs.getBasis(), highs.getSolution()
            part = solution.col_value[-1]
            level = max(level * part, reached)  # levels never fall
        reached = level
        enough = active & (cap <= weight * level)
        if enough.any():  # what they leave may raise the others in the same round
            share[enough] = cap[enough]
            active &= ~enough
            continue
        goal = share + level * rising
        dual = np.maximum(solution.row_dual[capacity.size :], 0.0)
        paid = dual * goal / np.where(scale > 0, scale, 1.0)
        stopped = active & (paid > _FAINTEST * paid.sum())
        share[stopped] = goal[stopped]
        active &= ~stopped
        level = 0.0
    return share


RIVALS = {
    "cvxpy": cvxpy_clarabel,
    "HiGHS interior point": highs_ipm,
    "OR-tools": ortools_glop,
}
