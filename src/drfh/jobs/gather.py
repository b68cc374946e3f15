"""Turn records of users, jobs and events into the fields of a workload."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfh.errors import InputError, UnknownNameError
from drfh.jobs.events import AddServers, RemoveServers, ResizeServer, ServerEvent
from drfh.jobs.records import Job
from drfh.workload import User

__all__ = ["counted", "gather", "read_events", "read_users"]

_MOST_TASKS = 10**8  # the arrays of more would not fit into the memory of most machines


def gather(users: Any, jobs: Any) -> dict[str, Any]:
    """Return the fields of a workload, except its events.

    Examples
    --------
    >>> fields = gather(["ann"], [Job("ann", demand={"cpu": 2}, duration=60, tasks=3)])
    >>> fields["demand"].tolist(), fields["batch_count"].tolist(), fields["_names"]
    ([[2.0]], [3], ('job-1',))
    """
    everyone = read_users(users)
    given = _jobs(jobs)
    index = {user.name: position for position, user in enumerate(everyone)}
    order: dict[str, int] = {}
    restrictions: dict[Any, int] = {None: 0}
    wanted: list[tuple[Mapping[str, float], int]] = []  # demand and restriction of each batch
    for position, job in enumerate(given):
        if job.user not in index:
            raise UnknownNameError(f"jobs[{position}].user", job.user, index)
        demand = everyone[index[job.user]].demand if job.demand is None else job.demand
        if not demand:
            rule = f"must be given ({job.user} has no demand of its own)"
            raise InputError(f"jobs[{position}].demand", rule)
        for resource in demand:
            order.setdefault(resource, len(order))
        wanted.append((demand, restrictions.setdefault(job.servers, len(restrictions))))
    # Demands that differ only in resources of which they need none have one shape.
    shapes: dict[tuple[Any, ...], int] = {}
    shape_of: dict[tuple[Mapping[str, float], int], int] = {}
    for pair in wanted:
        if pair not in shape_of:
            row = tuple(pair[0].get(resource, 0.0) for resource in order)
            shape_of[pair] = shapes.setdefault((*row, pair[1]), len(shapes))
    names, batch_job = _named(given)
    batch_user = np.array([index[job.user] for job in given], dtype=np.int64)
    job_user = np.zeros(len(names), dtype=np.int64)
    job_user[batch_job] = batch_user
    seconds = [0.0 if isinstance(job.duration, tuple) else job.duration for job in given]
    return {
        "users": everyone,
        "resources": tuple(order),
        "demand": np.array([s[:-1] for s in shapes]).reshape(len(shapes), len(order)),
        "restrictions": tuple(restrictions),
        "restriction": np.array([s[-1] for s in shapes], dtype=np.int64),
        "batch_user": batch_user,
        "batch_job": np.array(batch_job, dtype=np.int64),
        "batch_arrival": np.array([job.arrival for job in given], dtype=np.float64),
        "batch_shape": np.array([shape_of[pair] for pair in wanted], dtype=np.int64),
        "batch_count": counted(np.array([job.tasks for job in given], dtype=np.int64)),
        "job_user": job_user,
        "_names": names,
        "_seconds": np.array(seconds, dtype=np.float64),
        "_listed": tuple(
            (batch, job.duration)
            for batch, job in enumerate(given)
            if isinstance(job.duration, tuple)
        ),
    }


def _jobs(jobs: Any) -> tuple[Job, ...]:
    if isinstance(jobs, (Job, str, Mapping)) or not isinstance(jobs, Iterable):
        raise InputError("jobs", "must be a list of drfh.Job", jobs)
    given = tuple(jobs)
    for position, job in enumerate(given):
        if not isinstance(job, Job):
            raise InputError(f"jobs[{position}]", "must be a drfh.Job", job)
    return given


def read_users(users: Any) -> tuple[User, ...]:
    """Return the users; a name becomes a user without a demand.

    Examples
    --------
    >>> read_users(["ann", User("bob", {"cpu": 1})])
    (User('ann'), User('bob', {'cpu': 1.0}))
    """
    if isinstance(users, (User, str)) or not isinstance(users, Iterable):
        raise InputError("users", "must be a list of drfh.User or of names", users)
    everyone: list[User] = []
    seen: set[str] = set()
    for position, entry in enumerate(users):
        if not isinstance(entry, (User, str)):
            raise InputError(f"users[{position}]", "must be a drfh.User or a name", entry)
        try:
            user = User(entry) if isinstance(entry, str) else entry
        except InputError as error:
            raise error.within(f"users[{position}]") from None
        if user.name in seen:
            raise InputError(f"users[{position}].name", "must be unique", user.name)
        seen.add(user.name)
        everyone.append(user)
    if not everyone:
        raise InputError("users", "must have at least one user")
    return tuple(everyone)


def read_events(events: Any) -> tuple[ServerEvent, ...]:
    """Return the events in order of time; those of one time as given.

    Examples
    --------
    >>> read_events([RemoveServers(60, "b"), RemoveServers(30, "a")])
    (RemoveServers(30.0, 'a'), RemoveServers(60.0, 'b'))
    """
    kinds = (AddServers, RemoveServers, ResizeServer)
    if isinstance(events, (*kinds, str, Mapping)) or not isinstance(events, Iterable):
        raise InputError("events", "must be a list of server events", events)
    given = tuple(events)
    for position, event in enumerate(given):
        if not isinstance(event, kinds):
            rule = "must be a drfh.AddServers, RemoveServers or ResizeServer"
            raise InputError(f"events[{position}]", rule, event)
    return tuple(sorted(given, key=lambda event: event.time))


def _named(jobs: Sequence[Job]) -> tuple[tuple[str, ...], list[int]]:
    """Return the names of the jobs, and which job each record belongs to."""
    first: dict[str, int] = {}
    for position, job in enumerate(jobs):
        if job.name is not None:
            other = first.setdefault(job.name, position)
            if jobs[other].user != job.user:
                rule = f"must not be that of a job of another user ({jobs[other].user})"
                raise InputError(f"jobs[{position}].name", rule, job.name)
    number: dict[str, int] = {}
    belongs: list[int] = []
    for position, job in enumerate(jobs):
        name = job.name
        if name is None:
            name, again = f"job-{position + 1}", 1
            while name in first:  # somebody calls a job so: number on
                again += 1
                name = f"job-{position + 1}-{again}"
        belongs.append(number.setdefault(name, len(number)))
    return tuple(number), belongs


def counted(count: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of tasks, unless these are too many in all.

    Examples
    --------
    >>> counted(np.array([10**8, 1]))
    Traceback (most recent call last):
    drfh.errors.InputError: jobs must have at most 100,000,000 tasks in all, got '100,000,001'
    """
    total = float(count.sum(dtype=np.float64))  # in integers it might overflow
    if total > _MOST_TASKS:
        raise InputError("jobs", f"must have at most {_MOST_TASKS:,} tasks in all", f"{total:,.0f}")
    return count
