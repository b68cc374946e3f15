"""Gavel's max-min policy: jobs that run at different speeds on different accelerators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from drfh.allocation.problem import Floats
from drfh.errors import InputError

__all__ = ["GavelShares", "gavel"]


class GavelShares(NamedTuple):
    """What Gavel's policy gives out.

    Attributes
    ----------
    objective : float
        The least throughput of a job, as a multiple of its throughput under an even split.
    time : array, jobs × kinds of workers
        Part of the time that a job runs on each kind. Not unique.
    """

    objective: float
    time: Floats


def gavel(
    throughput: Sequence[Sequence[float]],
    workers: Sequence[float],
    *,
    scale_factor: Sequence[float] | None = None,
    weights: Sequence[float] | None = None,
) -> GavelShares:
    """Raise the least throughput of a job, relative to an even split of all workers.

    Definition
        Maximise min_m throughput(m, X)·scale_m/(weight_m·throughput(m, X_equal)) over
        0 ≤ X, Σ_j X_mj ≤ 1 for each job and Σ_m scale_m·X_mj ≤ workers_j for each kind of
        worker; throughput(m, X) = Σ_j T_mj·X_mj. In X_equal a job spends its time on each kind
        in proportion to the number of workers. One linear program.

    Paper
        Narayanan, Santhanam, Kazhamiaka, Phanishayee, Zaharia: Heterogeneity-aware cluster
        scheduling policies for deep learning workloads, OSDI 2020, section 4.1.

    Parameters
    ----------
    throughput
        Jobs × kinds of workers, ≥ 0; every job runs on some kind that has workers.
    workers
        How many there are of each kind.
    scale_factor
        How many workers each job takes at a time; 1 by default.
    weights
        Of the jobs; 1 by default.

    Examples
    --------
    >>> objective, time = gavel([[40, 20, 10], [12, 4, 2], [100, 50, 25]], [1, 1, 1])
    >>> round(objective, 6), bool((time.sum(axis=0) <= 1 + 1e-9).all())
    (1.020619, True)
    """
    from drfh.mechanisms.solvers.most_tasks import small_program

    speed = _numbers("throughput", throughput, 2)
    jobs, kinds = speed.shape
    count = _numbers("workers", workers, 1, kinds)
    scale = _numbers("scale_factor", scale_factor or [1.0] * jobs, 1, jobs)
    weight = _numbers("weights", weights or [1.0] * jobs, 1, jobs)
    for name, values in (("scale_factor", scale), ("weights", weight)):
        if values.min() <= 0:
            raise InputError(name, "must be > 0", float(values.min()))
    if count.sum() <= 0:
        raise InputError("workers", "must have at least one worker")
    even = speed @ (count / count.sum())
    if even.min() <= 0:
        raise InputError(f"throughput[{int(np.argmin(even))}]", "must be > 0 on some worker", 0.0)
    # Columns: time of job m on kind j, row by row, and the least normalised throughput.
    rows = np.zeros((jobs + jobs + kinds, jobs * kinds + 1))
    for job in range(jobs):
        own = slice(job * kinds, (job + 1) * kinds)
        rows[job, own] = speed[job] * scale[job] / (weight[job] * even[job])
        rows[job, -1] = -1.0
        rows[jobs + job, own] = 1.0
        rows[2 * jobs + np.arange(kinds), job * kinds + np.arange(kinds)] = scale[job]
    low = np.concatenate((np.zeros(jobs), np.full(jobs + kinds, -np.inf)))
    high = np.concatenate((np.full(jobs, np.inf), np.ones(jobs), count))
    cost = np.zeros(rows.shape[1])
    cost[-1] = -1.0
    best = small_program(cost, rows, low, high)
    if best is None:  # nothing at all is always allowed
        raise AssertionError("no allocation")
    time = np.maximum(best[:-1].reshape(jobs, kinds), 0.0)
    return GavelShares(float((rows[:jobs, :-1] @ time.ravel()).min()), time)


def _numbers(name: str, values: object, depth: int, length: int | None = None) -> Floats:
    try:
        table = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(name, "must be numbers in rows of one length", values) from None
    if table.ndim != depth or table.size == 0 or length not in (None, len(table)):
        required = "a table, jobs × kinds of workers" if depth == 2 else f"{length} numbers"
        raise InputError(name, f"must be {required}", values)
    if not (np.isfinite(table).all() and table.min() >= 0):
        raise InputError(name, "must be finite and ≥ 0", values)
    return table
