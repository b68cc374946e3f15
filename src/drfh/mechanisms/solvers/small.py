"""A small linear program, dense and at once, by HiGHS."""

from __future__ import annotations

import highspy
import numpy as np

from drfh.errors import SolverError
from drfh.problem import Floats

__all__ = ["small_program"]


def small_program(cost: Floats, rows: Floats, low: Floats, high: Floats) -> Floats | None:
    """Return a vertex x ≥ 0 with the least cost·x and low ≤ rows·x ≤ high; None if there is none.

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
