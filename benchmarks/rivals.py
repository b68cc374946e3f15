"""The same linear program for other solvers: max g with Σ_i x_il d_ir ≤ c_lr, Σ_l x_il = g."""

from __future__ import annotations

import numpy as np

from benchmarks.instances import Instance


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


def scipy_highs(instance: Instance) -> float:
    """Return the level by scipy's linprog with HiGHS's interior-point method."""
    from scipy.optimize import linprog

    load, even = _sparse(instance)
    cost = np.zeros(load.shape[1])  # type: ignore[attr-defined]
    cost[-1] = -1.0
    c = instance.capacity
    zero = np.zeros(len(instance.direction))
    found = linprog(cost, load, c.ravel(), even, zero, method="highs-ipm")
    return float(-found.fun)


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


RIVALS = {
    "cvxpy": cvxpy_clarabel,
    "scipy HiGHS": scipy_highs,
    "OR-tools": ortools_glop,
}
