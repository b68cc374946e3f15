"""Where a workbook may start: a scenario that can be allocated."""

from __future__ import annotations

from dataclasses import replace

from drfh.errors import InputError
from drfh.files import Scenario
from drfh.files.checks import problems
from drfh.problem import Problem
from drfh.workload import User

__all__ = ["completed"]


def completed(scenario: Scenario) -> Scenario:
    """Return a scenario that can be allocated: users without a demand get that of their jobs.

    It is the mean over the tasks of the user's jobs, and their number.

    Raises
    ------
    InputError
        If no mechanism can run it.

    Examples
    --------
    >>> from drfh import Cluster, Job, Server, User
    >>> jobs = [Job("ann", demand={"cpu": 1}, duration=60, tasks=3),
    ...         Job("ann", demand={"cpu": 3}, duration=60)]
    >>> completed(Scenario(Cluster([Server({"cpu": 8})]), (User("ann"),), jobs=jobs)).users
    (User('ann', {'cpu': 1.5}, tasks=4.0),)
    """
    users = tuple(user if user.demand else _of_jobs(user, scenario) for user in scenario.users)
    if users != scenario.users:
        scenario = replace(scenario, users=users)
    for problem in problems(scenario.cluster, users, scenario.jobs, scenario.events):
        raise problem
    Problem.build(scenario.cluster, users)
    return scenario


def _of_jobs(user: User, scenario: Scenario) -> User:
    jobs = [job for job in scenario.jobs if job.user == user.name and job.demand]
    tasks = sum(job.tasks for job in jobs)
    if not tasks:
        raise InputError(f"demand of {user.name}", "must be given (it has no jobs either)")
    total: dict[str, float] = {}
    for job in jobs:
        for resource, amount in (job.demand or {}).items():
            total[resource] = total.get(resource, 0.0) + amount * job.tasks
    demand = {resource: amount / tasks for resource, amount in total.items()}
    return replace(user, demand=demand, tasks=float(tasks) if user.tasks is None else user.tasks)
