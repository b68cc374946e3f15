"""Workloads of the panel "Play": of a trace, a scenario, its users, a generator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from drfh.errors import DrfhError, InputError, UnknownNameError
from drfh.formatting import format_count
from drfh.model.cluster import Cluster
from drfh.model.jobs import Workload
from drfh.model.scenario import Scenario
from drfh.model.users import User

if TYPE_CHECKING:
    from drfh.traces import Trace

__all__ = [
    "MOST_SERVERS",
    "MOST_TASKS",
    "MOST_USERS",
    "PlayChoice",
    "PlayInput",
    "check_size",
    "play_input",
    "users_workload",
    "workload_choices",
]

#: Limits of a simulation on a page; ``drfh simulate`` has none.
MOST_TASKS, MOST_SERVERS, MOST_USERS = 1_000_000, 50_000, 5_000

# Users with unlimited tasks get so many times their fair number, within a total.
_ROUNDS = 4
_MANY_TASKS = 250_000
# Seconds between arrivals of users, until the last arrival, and of tasks.
_GAP, _LAST = 30.0, 60.0
_SHORTEST, _LONGEST = 30.0, 90.0
# Options of the workload google-like, and its servers if it brings its own.
_GOOGLE = {"users": 100, "hours": 1.0}
_GOOGLE_SERVERS = 500
# A generated workload runs on the servers of the page if these have half to twice its own.
_SIMILAR = 2.0


@dataclass(frozen=True, eq=False)
class PlayChoice:
    """Workload selected on the page, not yet built; can be pickled.

    Attributes
    ----------
    key : str
        One of :func:`workload_choices`.
    scenario : Scenario
        Scenario of the page.
    fair : tuple of float
        Tasks of its users in the exact allocation.
    trace : tuple or None
        Cluster, workload and window of the trace that the page was opened with.
    """

    key: str
    scenario: Scenario
    fair: tuple[float, ...] = ()
    trace: tuple[Cluster, Workload, float | None] | None = None


@dataclass(frozen=True, eq=False)
class PlayInput:
    """Arguments of :func:`drfh.simulate`, and a description of the workload."""

    cluster: Cluster
    workload: Workload
    until: float | None
    description: str


def workload_choices(scenario: Scenario, trace: Trace | None = None) -> dict[str, str]:
    """Return the workloads offered, key → title, the default first.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> list(workload_choices(load_scenario("gpu-day")))[:3]
    ['jobs', 'users', 'google-like']
    """
    from drfh.generators import GENERATORS

    found = {}
    if trace is not None and trace.running is None:  # a snapshot has no arrivals
        found["trace"] = "The jobs of the trace"
    if scenario.jobs:
        found["jobs"] = "The jobs of this scenario"
    found["users"] = "The users of this scenario, coming one after the other"
    found |= {name: f"{name}: {one.title}" for name, one in GENERATORS.items()}
    return found


def play_input(choice: PlayChoice) -> PlayInput:
    """Return cluster, workload and end of the simulation of a selected workload.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> play_input(PlayChoice("jobs", load_scenario("gpu-day"))).until is None
    True
    >>> play_input(PlayChoice("bursts", load_scenario("gpu-day"))).description
    'A steady user beside a bursty one: 2 users, 2,816 tasks on 10 servers of its own.'
    """
    scenario = choice.scenario
    if choice.key == "trace":
        if choice.trace is None:
            raise InputError("trace", "must be given when the page is opened (--trace)")
        cluster, workload, window = choice.trace
        # The servers may have been edited on the page.
        edited = not set(cluster.names).isdisjoint(scenario.cluster.names)
        edited = edited and _fits(workload, scenario.cluster)
        servers = scenario.cluster if edited else cluster
        text = _description("The trace", servers, workload)
        if edited and _weights(scenario.users) != _weights(workload.users):
            text += " Its users and their weights are those of the trace, not of the table."
        return PlayInput(servers, workload, window, text)
    if choice.key == "jobs":
        workload, title = scenario.workload, "The jobs of this scenario"
    elif choice.key == "users":
        workload = users_workload(scenario.users, choice.fair)
        title = "The users of this scenario"
    else:
        return _generated(choice.key, scenario.cluster)
    text = _description(title, scenario.cluster, workload)
    return PlayInput(scenario.cluster, workload, None, text)


def users_workload(users: Sequence[User], fair: Sequence[float] = ()) -> Workload:
    """Return a workload of users that arrive one after the other, each with one job.

    Users with unlimited tasks get four times what they would run at once in the exact allocation;
    users with zero tasks get no job. Tasks take 30 to 90 s.

    Parameters
    ----------
    fair
        Tasks of each user in the exact allocation.

    Examples
    --------
    >>> users_workload([User("ann", {"cpu": 1}, tasks=7), User("bob", {"cpu": 2})], [3.0, 2.5])
    Workload(2 users, 2 jobs, 17 tasks, arrivals 0 to 30 s)
    """
    endless = sum(n for user, n in zip(users, fair, strict=False) if user.tasks is None)
    rounds = min(float(_ROUNDS), _MANY_TASKS / endless) if endless > 0 else float(_ROUNDS)
    counts, owners = [], []
    for position, user in enumerate(users):
        if user.tasks == 0:
            continue
        share = fair[position] if position < len(fair) else 0.0
        tasks = user.tasks if user.tasks is not None else rounds * share
        counts.append(max(math.ceil(min(tasks, MOST_TASKS + 1.0) - 1e-9), 1))
        owners.append(position)
    if sum(counts) > MOST_TASKS:
        raise _too_many("tasks", MOST_TASKS, sum(counts))
    resources = list(dict.fromkeys(name for user in users for name in user.demand or {}))
    demand = [[float((user.demand or {}).get(r, 0.0)) for r in resources] for user in users]
    gap = min(_GAP, _LAST / max(len(users) - 1, 1))
    gap = math.floor(gap) if gap >= 1 else gap
    draw = np.random.default_rng(2014)
    return Workload.from_arrays(
        users,
        resources,
        demand,
        user=np.array(owners, dtype=np.int64),
        arrival=np.round(gap * np.array(owners, dtype=np.float64), 3),
        shape=np.array(owners, dtype=np.int64),
        count=counts,
        duration=np.round(draw.uniform(_SHORTEST, _LONGEST, sum(counts)), 1),
        job_names=[f"job of {users[position].name}" for position in owners],
    )


def _generated(name: str, cluster: Cluster) -> PlayInput:
    """Return a generated workload, on the servers of the page if they are similar to its own."""
    from drfh.generators import GENERATORS, generate

    if name not in GENERATORS:
        raise UnknownNameError("workload", name, ["trace", "jobs", "users", *GENERATORS])
    title = GENERATORS[name].title
    options = dict(_GOOGLE) if name == "google-like" else {}
    if name == "google-like":
        like_google = set(cluster.resources) == {"cpu", "memory"} and cluster.capacity.max() <= 1.0
        few = min(max(cluster.size, 1), MOST_SERVERS)
        options["servers"] = few if like_google else _GOOGLE_SERVERS
    made = generate(name, **options)
    ours = _fits(made.workload, cluster) and _is_similar(cluster, made.cluster)
    servers = cluster if ours else made.cluster
    text = _description(title, servers, made.workload, "" if ours else " of its own")
    return PlayInput(servers, made.workload, made.window, text)


def _weights(users: Sequence[User]) -> dict[str, float]:
    return {user.name: user.weight for user in users}


def _fits(workload: Workload, cluster: Cluster) -> bool:
    try:
        workload.check(cluster)
    except DrfhError:
        return False
    return True


def _is_similar(cluster: Cluster, other: Cluster) -> bool:
    if set(cluster.resources) != set(other.resources):
        return False
    ours, theirs = (
        dict(zip(c.resources, c.totals.tolist(), strict=True)) for c in (cluster, other)
    )
    largest, theirs_largest = (
        dict(zip(c.resources, c.capacity.max(axis=0).tolist(), strict=True))
        for c in (cluster, other)
    )
    return all(
        1 / _SIMILAR <= ours[name] / theirs[name] <= _SIMILAR
        and largest[name] / theirs_largest[name] >= 1 / _SIMILAR
        for name in ours
    )


def _description(title: str, cluster: Cluster, workload: Workload, whose: str = "") -> str:
    users, tasks = (
        format_count(len(workload.users), "user"),
        format_count(workload.task_count, "task"),
    )
    return f"{title}: {users}, {tasks} on {format_count(cluster.size, 'server')}{whose}."


def check_size(inputs: PlayInput) -> None:
    """Raise if a simulation is too large for a page.

    Examples
    --------
    >>> from drfh import Job, Server
    >>> workload = Workload(["ann"], [Job("ann", demand={"cpu": 1}, duration=9, tasks=2_000_000)])
    >>> check_size(PlayInput(Cluster([Server({"cpu": 4})]), workload, None, ""))
    Traceback (most recent call last):
    drfh.errors.InputError: tasks must be at most 1,000,000 to be played on a page (drfh simulate \
has no such limit), got 2000000
    """
    workload = inputs.workload
    for what, most, number in (
        ("tasks", MOST_TASKS, workload.task_count),
        ("servers", MOST_SERVERS, inputs.cluster.size),
        ("users", MOST_USERS, len(workload.users)),
    ):
        if number > most:
            raise _too_many(what, most, number)


def _too_many(what: str, most: int, number: int) -> InputError:
    rule = f"must be at most {most:,} to be played on a page (drfh simulate has no such limit)"
    return InputError(what, rule, number)
