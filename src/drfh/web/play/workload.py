"""What can be played: the jobs of a trace or a scenario, its users at work, made-up workloads."""

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
    "Asked",
    "Piece",
    "busy_users",
    "check_size",
    "offers",
    "piece_of",
]

#: What a page may simulate; ``drfh simulate`` has no such limits.
MOST_TASKS, MOST_SERVERS, MOST_USERS = 1_000_000, 50_000, 5_000

# Users without an end to their tasks have so many rounds of what is fair, if that is not too much.
_ROUNDS = 4
_MANY_TASKS = 250_000
# Seconds: between users who come, until the last one has, and of tasks.
_GAP, _LAST = 30.0, 60.0
_SHORTEST, _LONGEST = 30.0, 90.0
# Of a workload like Google's on the page: users, hours, and servers if it brings its own.
_GOOGLE = {"users": 100, "hours": 1.0}
_GOOGLE_SERVERS = 500
# A made-up workload suits servers that have from half to twice of what its own have.
_LIKE = 2.0


@dataclass(frozen=True, eq=False)
class Asked:
    """What somebody wants to see; it can be sent to another process.

    Attributes
    ----------
    key : str
        One of :func:`offers`.
    scenario : Scenario
        What is on the page.
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
class Piece:
    """What is simulated.

    Attributes
    ----------
    cluster, workload, until
        As for :func:`drfh.simulate`.
    words : str
        What it is, in a sentence.
    """

    cluster: Cluster
    workload: Workload
    until: float | None
    words: str


def offers(scenario: Scenario, trace: Trace | None = None) -> dict[str, str]:
    """Return what can be played, key → title; the best first.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> list(offers(load_scenario("gpu-day")))[:3]
    ['jobs', 'users', 'google-like']
    """
    from drfh.generators import GENERATORS

    found = {}
    if trace is not None and trace.running is None:  # nothing happens in a snapshot
        found["trace"] = "The jobs of the trace"
    if scenario.jobs:
        found["jobs"] = "The jobs of this scenario"
    found["users"] = "The users of this scenario, coming one after the other"
    found |= {name: f"{name}: {one.title}" for name, one in GENERATORS.items()}
    return found


def piece_of(asked: Asked) -> Piece:
    """Return what to simulate.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> piece_of(Asked("jobs", load_scenario("gpu-day"))).until is None
    True
    >>> piece_of(Asked("bursts", load_scenario("gpu-day"))).words
    'A steady user beside a bursty one: 2 users, 2,816 tasks on 10 servers of its own.'
    """
    scenario = asked.scenario
    if asked.key == "trace":
        if asked.trace is None:
            raise InputError("trace", "must be given when the page is opened (--trace)")
        cluster, workload, window = asked.trace
        # The servers may have been edited since: what if there were more?
        edited = not set(cluster.names).isdisjoint(scenario.cluster.names)
        edited = edited and _is_right(workload, scenario.cluster)
        servers = scenario.cluster if edited else cluster
        words = _words("The trace", servers, workload)
        if edited and _weights(scenario.users) != _weights(workload.users):
            words += " Its users and their weights are those of the trace, not of the table."
        return Piece(servers, workload, window, words)
    if asked.key == "jobs":
        workload = scenario.workload
        title = "The jobs of this scenario"
        return Piece(scenario.cluster, workload, None, _words(title, scenario.cluster, workload))
    if asked.key == "users":
        workload = busy_users(scenario.users, asked.fair)
        title = "The users of this scenario"
        return Piece(scenario.cluster, workload, None, _words(title, scenario.cluster, workload))
    return _made_up(asked.key, scenario.cluster)


def busy_users(users: Sequence[User], fair: Sequence[float] = ()) -> Workload:
    """Return users who come one after the other, each with one job.

    Who has a number of tasks has these, and who has none has no job; who has no end of them has
    some times what it would run at once in the exact allocation. Tasks take from half a minute to
    one and a half.

    Parameters
    ----------
    users
        With their demands.
    fair
        Tasks of each in the exact allocation.

    Examples
    --------
    >>> busy_users([User("ann", {"cpu": 1}, tasks=7), User("bob", {"cpu": 2})], [3.0, 2.5])
    Workload(2 users, 2 jobs, 17 tasks, arrivals 0 to 30 s)
    """
    endless = sum(n for user, n in zip(users, fair, strict=False) if user.tasks is None)
    rounds = min(float(_ROUNDS), _MANY_TASKS / endless) if endless > 0 else float(_ROUNDS)
    counts, at_work = [], []
    for position, user in enumerate(users):
        if user.tasks == 0:
            continue
        share = fair[position] if position < len(fair) else 0.0
        wanted = user.tasks if user.tasks is not None else rounds * share
        counts.append(max(math.ceil(min(wanted, MOST_TASKS + 1.0) - 1e-9), 1))
        at_work.append(position)
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
        user=np.array(at_work, dtype=np.int64),
        arrival=np.round(gap * np.array(at_work, dtype=np.float64), 3),
        shape=np.array(at_work, dtype=np.int64),
        count=counts,
        duration=np.round(draw.uniform(_SHORTEST, _LONGEST, sum(counts)), 1),
        job_names=[f"job of {users[position].name}" for position in at_work],
    )


def _made_up(name: str, cluster: Cluster) -> Piece:
    """Return a made-up workload: on the servers of the page if they are like its own."""
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
    ours = _is_right(made.workload, cluster) and _is_like(cluster, made.cluster)
    servers = cluster if ours else made.cluster
    words = _words(title, servers, made.workload, "" if ours else " of its own")
    return Piece(servers, made.workload, made.window, words)


def _weights(users: Sequence[User]) -> dict[str, float]:
    return {user.name: user.weight for user in users}


def _is_right(workload: Workload, cluster: Cluster) -> bool:
    try:
        workload.check(cluster)
    except DrfhError:
        return False
    return True


def _is_like(cluster: Cluster, other: Cluster) -> bool:
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
        1 / _LIKE <= ours[name] / theirs[name] <= _LIKE
        and largest[name] / theirs_largest[name] >= 1 / _LIKE
        for name in ours
    )


def _words(title: str, cluster: Cluster, workload: Workload, whose: str = "") -> str:
    users, tasks = (
        format_count(len(workload.users), "user"),
        format_count(workload.task_count, "task"),
    )
    return f"{title}: {users}, {tasks} on {format_count(cluster.size, 'server')}{whose}."


def check_size(piece: Piece) -> None:
    """Raise if a piece is too large for a page.

    Examples
    --------
    >>> from drfh import Job, Server
    >>> workload = Workload(["ann"], [Job("ann", demand={"cpu": 1}, duration=9, tasks=2_000_000)])
    >>> check_size(Piece(Cluster([Server({"cpu": 4})]), workload, None, ""))
    Traceback (most recent call last):
    drfh.errors.InputError: tasks must be at most 1,000,000 to be played on a page (drfh simulate \
has no such limit), got 2000000
    """
    workload = piece.workload
    for what, most, number in (
        ("tasks", MOST_TASKS, workload.task_count),
        ("servers", MOST_SERVERS, piece.cluster.size),
        ("users", MOST_USERS, len(workload.users)),
    ):
        if number > most:
            raise _too_many(what, most, number)


def _too_many(what: str, most: int, number: int) -> InputError:
    rule = f"must be at most {most:,} to be played on a page (drfh simulate has no such limit)"
    return InputError(what, rule, number)
