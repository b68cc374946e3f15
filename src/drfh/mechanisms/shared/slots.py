"""Mechanism ``slots:N``: whole tasks in equal slots, placed by the scheduler."""

from __future__ import annotations

from collections import Counter

import numpy as np

from drfh.allocation.placement import Placement, Pools
from drfh.allocation.problem import Problem
from drfh.errors import InputError
from drfh.mechanisms import Mechanism, Solution
from drfh.mechanisms.shared.progressive_filling import single_servers
from drfh.policies.policy import read_slots
from drfh.scheduler import Scheduler

__all__ = ["MOST_SERVERS", "check_servers", "slots_mechanism"]

#: Servers that are filled with whole tasks on a page: they are filled one by one.
MOST_SERVERS = 200_000

# Tasks in every queue: so many can be placed before anybody's queue may run dry.
_QUEUED = 1_000


def check_servers(servers: int) -> None:
    """Raise if there are too many servers to fill one by one.

    Examples
    --------
    >>> check_servers(12_583)
    """
    if servers > MOST_SERVERS:
        rule = f"must be at most {MOST_SERVERS:,} to be filled with whole tasks here"
        raise InputError("servers", rule, servers)


def slots_mechanism(name: str) -> Mechanism:
    """Return the mechanism that fills slots, such as ``slots:14``, with endless queues.

    Examples
    --------
    >>> from drfh import allocate, load_scenario
    >>> scenario = load_scenario("paper-two-servers")
    >>> allocate(scenario.cluster, scenario.users, mechanism=slots_mechanism("slots:14")).tasks
    {'ann': 1.0, 'bob': 1.0}
    """
    read_slots(name)  # refuses a wrong name before any work

    def fill(problem: Problem) -> Solution:
        return _filled(problem, name)

    fill.__name__ = name
    return fill


def _filled(problem: Problem, policy: str) -> Solution:
    cluster = problem.cluster
    check_servers(cluster.size)
    scheduler = Scheduler(cluster, policy, log=False, remember=False)
    left: dict[str, float] = {}
    for user, limit in zip(problem.users, problem.limit.tolist(), strict=True):
        scheduler.add_user(user.name, user.weight, user.servers)
        left[user.name] = np.floor(limit + 1e-9)
    demands = {
        user.name: dict(zip(cluster.resources, row, strict=True))
        for user, row in zip(problem.users, problem.demand.tolist(), strict=True)
    }
    refill = Counter(dict.fromkeys(left, _QUEUED))
    where: Counter[tuple[str, str]] = Counter()
    batch = 0
    while refill:
        for name, number in refill.items():
            count = int(min(number, left[name]))
            if count > 0:
                scheduler.submit(f"{name} {batch}", name, demands[name], count=count)
                left[name] -= count
        batch += 1
        placed = scheduler.place(_QUEUED)
        where.update((one.user, one.server) for one in placed)
        scheduler_is_full = len(placed) < _QUEUED
        refill = Counter() if scheduler_is_full else Counter(one.user for one in placed)
    return Solution(_placement(problem, where), method=f"filling {policy}", whole=True)


def _placement(problem: Problem, where: Counter[tuple[str, str]]) -> Placement:
    cluster = problem.cluster
    position = {name: i for i, name in enumerate(problem.names())}
    start = np.concatenate(([0], np.cumsum(cluster.counts)[:-1])).tolist()
    count: dict[tuple[int, int], float] = {}
    for (user, server), tasks in where.items():
        group, index = cluster.find_server(server) or (0, 0)  # it is there: it was placed on
        count[start[group] + (index or 0), position[user]] = float(tasks)
    keys = sorted(count)
    single = single_servers(problem)
    return Placement(
        single,
        np.array([user for _, user in keys], dtype=np.int64),
        np.array([server for server, _ in keys], dtype=np.int64),
        np.array([count[key] for key in keys], dtype=np.float64),
        Pools.single(len(single.blocks)),
    )
