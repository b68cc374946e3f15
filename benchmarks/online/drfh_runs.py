"""drfh's own core on the benchmarks' instances: kernels alone, and through the public calls."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
from numba import njit

import drfh
from benchmarks.online.instances import Churn, Day
from benchmarks.online.rivals import Integers, Policy, SimulationRun
from drfh.kernels.online import place as steps_of
from drfh.kernels.online import state as st
from drfh.policies import Policy as DrfhPolicy
from drfh.scheduler.indexed import IndexedCore
from drfh.scheduler.rules import Rules
from drfh.simulation.driver import make_driver
from drfh.simulation.plan import build

RESOURCES = ("cpu", "memory", "gpu")
QUEUED_FOR_EACH = 2  # tasks a user has waiting: endless, as far as one step at a time can tell

finish, place, submit = steps_of.finish, steps_of.place, steps_of.submit
ints2, AT_TASK, TASK_USER = st.ints2, st.AT_TASK, st.TASK_USER


def _churn(
    core_head: Integers, line: Integers, running: int, users: Integers, servers: Integers
) -> None:
    """Make the steps of `online_rivals.churn`, in machine code from the first to the last."""
    head, tail = 0, running
    task, server = np.zeros(1, np.int64), np.zeros(1, np.int64)
    for step in range(len(users)):
        if head < tail:
            finish(core_head, line[head])
            head += 1
        if place(core_head, task, server, 1) == 0:
            users[step] = servers[step] = -1
            continue
        user = ints2(core_head, AT_TASK)[task[0], TASK_USER]
        users[step], servers[step] = user, server[0]
        line[tail] = task[0]
        tail += 1
        submit(core_head, user, user, 1)  # a user's shape has its number


_compiled_churn = cast("Callable[..., None]", njit(_churn))


@dataclass(frozen=True)
class Steps:
    """Which user and server each step of churn chose (-1: none), and the time all took.

    `first` is the number of the first step, counted from the state that the pool starts in.
    """

    user: Integers
    server: Integers
    seconds: float
    first: int = 0


class OurChurn:
    """A pool in churn in drfh's indexed core. Every run starts from the same state.

    Parameters
    ----------
    work
        The pool.
    policy
        How servers are chosen.
    most
        The most steps that a run will have.
    """

    def __init__(self, work: Churn, policy: Policy, most: int) -> None:
        users, m = work.need.shape
        rules = Rules(DrfhPolicy.parse(f"{policy}-drfh"), RESOURCES[:m], (1.0,) * m)
        self.core = core = IndexedCore(rules)
        core.forget_places()  # as in a simulation without changes of servers; no rival has lists
        self.running = len(work.task_user)
        tasks = self.running + most + QUEUED_FOR_EACH * users
        core.reserve(users=users, tasks=tasks, shapes=users, queues=users)
        for weight in work.weight.tolist():
            core.add_user(weight)
        core.add_servers(work.capacity)
        core.add_shapes(work.need, np.zeros(users, np.int64))
        for user, server in zip(work.task_user.tolist(), work.task_server.tolist(), strict=True):
            core.adopt(user, user, server)
        for user in range(users):
            core.submit(user, user, QUEUED_FOR_EACH)
        steps_of.settle(core.ready())
        arrays = vars(core.data).items()
        self._saved = {name: a.copy() for name, a in arrays if isinstance(a, np.ndarray)}

    def run(self, steps: int) -> Steps:
        """Return what so many steps do; the time covers the steps alone."""
        for name, array in self._saved.items():
            getattr(self.core.data, name)[...] = array
        line = np.zeros(self.running + steps, np.int64)
        line[: self.running] = np.arange(self.running)
        users, servers = np.zeros(steps, np.int64), np.zeros(steps, np.int64)
        started = time.process_time()
        _compiled_churn(self.core.data.head, line, self.running, users, servers)
        return Steps(users, servers, time.process_time() - started)


class PublicChurn:
    """The same pool behind `drfh.Scheduler`: names in, names out. Runs go on where one ended."""

    def __init__(self, work: Churn, policy: Policy) -> None:
        users, m = work.need.shape
        names = RESOURCES[:m]
        cluster = drfh.Cluster.from_arrays(work.capacity.astype(float), names)
        self.scheduler = scheduler = drfh.Scheduler(
            cluster, f"{policy}-drfh", engine="indexed", log=False
        )
        self.user = {f"user-{number}": number for number in range(users)}
        self.server = {name: number for number, name in enumerate(scheduler.servers)}
        who, where = list(self.user), list(self.server)
        self.demand = [dict(zip(names, row, strict=True)) for row in work.need.tolist()]
        for name, weight in zip(who, work.weight.tolist(), strict=True):
            scheduler.add_user(name, weight)
        self.line: deque[str] = deque()
        for user, server in zip(work.task_user.tolist(), work.task_server.tolist(), strict=True):
            task = f"running-{len(self.line)}"
            scheduler.adopt(task, who[user], self.demand[user], where[server])
            self.line.append(task)
        for name, demand in zip(who, self.demand, strict=True):
            scheduler.submit(f"{name}-waits", name, demand, count=QUEUED_FOR_EACH)
        self.steps = 0
        self.submitted = 0

    def run(self, steps: int) -> Steps:
        """Return what the next steps do; the time covers every call of the scheduler."""
        scheduler, line, demand = self.scheduler, self.line, self.demand
        users, servers = np.full(steps, -1), np.full(steps, -1)
        started = time.process_time()
        for step in range(steps):
            if line:
                scheduler.finish(line.popleft())
            for placed in scheduler.place(1):
                user = self.user[placed.user]
                users[step], servers[step] = user, self.server[placed.server]
                line.append(placed.task)
                scheduler.submit(f"task-{self.submitted}", placed.user, demand[user])
                self.submitted += 1
        seconds = time.process_time() - started
        self.steps += steps
        return Steps(users, servers, seconds, self.steps - steps)


def records(day: Day) -> tuple[drfh.Cluster, drfh.Workload]:
    """Return a day as drfh's records."""
    names = RESOURCES[: day.capacity.shape[1]]
    users = [drfh.User(f"user-{i}", weight=w) for i, w in enumerate(day.weight.tolist())]
    workload = drfh.Workload.from_arrays(
        users,
        names,
        day.shape.astype(float),
        user=day.batch_user,
        arrival=day.batch_arrival,
        shape=day.batch_shape,
        count=day.batch_count,
        duration=day.duration,
    )
    return drfh.Cluster.from_arrays(day.capacity.astype(float), names), workload


def play(day: Day, policy: Policy = "best-fit") -> SimulationRun:
    """Simulate a day with the compiled clock and core; the time is theirs alone, like simpy's."""
    cluster, workload = records(day)
    how = DrfhPolicy.parse(f"{policy}-drfh")
    core, plan, _, _ = build(cluster, workload, how, engine="indexed")
    driver = make_driver(core, plan, log=True)
    started = time.process_time()
    driver.advance(day.horizon)
    seconds = time.process_time() - started
    assert driver.log is not None
    return SimulationRun(driver.log.start, driver.log.server, 0, 0, seconds)
