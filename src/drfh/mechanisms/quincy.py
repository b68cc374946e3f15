"""Quincy: tasks on slots by minimum-cost flow. A plain function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from drfh.errors import InputError, UnknownNameError

__all__ = ["QuincyPlan", "quincy"]


class QuincyPlan(NamedTuple):
    """The cheapest flow.

    Attributes
    ----------
    cost : float
        Sum over all tasks.
    assignment : dict
        Task → machine, or None for a task that is left unscheduled.
    """

    cost: float
    assignment: dict[str, str | None]


def quincy(
    costs: Mapping[str, Mapping[str, float]],
    slots: Mapping[str, int],
    jobs: Mapping[str, Sequence[str]],
    *,
    unscheduled: float,
    job_min_running: Mapping[str, int] | None = None,
) -> QuincyPlan:
    """Place tasks on slots, or leave them unscheduled, as cheaply as possible.

    Definition
        Minimum-cost flow from tasks to the sink, through a machine that has a free slot or
        through the unscheduled node of the task's job. A job that must run at least k tasks lets
        at most (its tasks − k) through its unscheduled node. All numbers of the flow are whole.

    Paper
        Isard, Prabhakaran, Currey, Wieder, Talwar, Goldberg: Quincy: fair scheduling for
        distributed computing clusters, SOSP 2009.

    Parameters
    ----------
    costs
        Task → machine → cost of running there; a machine that is not mentioned is out of reach.
    slots
        Machine → number of tasks that it can run.
    jobs
        Job → its tasks; every task belongs to one job.
    unscheduled
        Cost of leaving a task unscheduled.
    job_min_running
        Job → how many of its tasks must run; 0 by default.

    Examples
    --------
    >>> costs = {"t1": {"m1": 1, "m2": 5}, "t2": {"m1": 2, "m2": 4}, "t3": {"m1": 3, "m2": 1}}
    >>> quincy(costs, {"m1": 1, "m2": 1}, {"j1": ["t1", "t2"], "j2": ["t3"]}, unscheduled=6)
    QuincyPlan(cost=8.0, assignment={'t1': 'm1', 't2': None, 't3': 'm2'})
    """
    from drfh.mechanisms.solvers.most_tasks import small_program

    floor = job_min_running or {}
    _check(costs, slots, jobs, floor, unscheduled)
    tasks, machines = list(costs), list(slots)
    arcs: list[tuple[int, int | None]] = [(t, None) for t in range(len(tasks))]
    arcs += [(t, machines.index(m)) for t, task in enumerate(tasks) for m in costs[task]]
    price = np.array([unscheduled if m is None else costs[tasks[t]][machines[m]] for t, m in arcs])
    # Rows: every task goes somewhere; slots; what may stay unscheduled of each job. This is the
    # matrix of a network, so a vertex is whole.
    rows = np.zeros((len(tasks) + len(machines) + len(jobs), len(arcs)))
    job_of = {task: position for position, names in enumerate(jobs.values()) for task in names}
    for column, (task, machine) in enumerate(arcs):
        rows[task, column] = 1.0
        below = len(tasks) + (len(machines) + job_of[tasks[task]] if machine is None else machine)
        rows[below, column] = 1.0
    spare = [len(names) - floor.get(job, 0) for job, names in jobs.items()]
    high = np.array([1.0] * len(tasks) + [float(slots[m]) for m in machines] + spare)
    low = np.concatenate((np.ones(len(tasks)), np.zeros(len(high) - len(tasks))))
    flow = small_program(price.astype(np.float64), rows, low, high)
    if flow is None:
        raise InputError("job_min_running", "must be within reach of the slots", dict(floor))
    used = [arcs[k] for k in np.flatnonzero(flow > 0.5).tolist()]
    assignment = {tasks[t]: None if m is None else machines[m] for t, m in sorted(used, key=_task)}
    return QuincyPlan(float(price[flow > 0.5].sum()), assignment)


def _task(arc: tuple[int, int | None]) -> int:
    return arc[0]


def _check(
    costs: Mapping[str, Mapping[str, float]],
    slots: Mapping[str, int],
    jobs: Mapping[str, Sequence[str]],
    floor: Mapping[str, int],
    unscheduled: float,
) -> None:
    if not costs:
        raise InputError("costs", "must have at least one task")
    _check_number("unscheduled", unscheduled)
    for machine, number in slots.items():
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise InputError(f"slots.{machine}", "must be a whole number ≥ 0", number)
    for task, row in costs.items():
        for machine, cost in row.items():
            if machine not in slots:
                raise UnknownNameError(f"costs.{task}", str(machine), slots)
            _check_number(f"costs.{task}.{machine}", cost)
    grouped: set[str] = set()
    for job, names in jobs.items():
        for task in names:
            if task not in costs:
                raise UnknownNameError(f"jobs.{job}", str(task), costs)
            if task in grouped:
                raise InputError(f"jobs.{job}", "must not have a task of another job", task)
            grouped.add(task)
    for task in costs:
        if task not in grouped:
            raise InputError("jobs", "must have every task", task)
    for job, number in floor.items():
        if job not in jobs:
            raise UnknownNameError("job_min_running", str(job), jobs)
        if (
            isinstance(number, bool)
            or not isinstance(number, int)
            or not (0 <= number <= len(jobs[job]))
        ):
            rule = f"must be a whole number from 0 to {len(jobs[job])}"
            raise InputError(f"job_min_running.{job}", rule, number)


def _check_number(field: str, value: float) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not np.isfinite(value):
        raise InputError(field, "must be a finite number", value)
