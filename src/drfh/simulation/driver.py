"""Drivers: the virtual clock of arrivals and ends, and its counters."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from drfh.scheduler.core import Core
from drfh.scheduler.plain import PlainCore
from drfh.simulation.plan import Plan

__all__ = ["Driver", "PlainDriver", "RunCounters", "TaskLog", "make_driver"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]


class TaskLog:
    """When and where each task ran.

    Attributes
    ----------
    first : float array, tasks
        First start; NaN if there was none, as in the others.
    start, end : float array, tasks
        Of the run that ended or still goes on: NaN for a task that was put back and waits.
    server : int array, tasks
        Where that run is or was; -1 if there is none.
    evictions : int array, tasks
        How often it was put back.
    lost : float array, tasks
        Seconds of the runs that were cut short.
    cut : list of tuple
        Those runs: arrays of tasks, servers and starts, and when they were cut short.

    Examples
    --------
    >>> log = TaskLog(1)
    >>> log.start[0], log.server[0] = 5.0, 3
    >>> log.evicted([0], 7.0)
    >>> log.start.tolist(), log.evictions.tolist(), log.lost.tolist()
    ([nan], [1], [2.0])
    """

    def __init__(self, tasks: int) -> None:
        self.first, self.start, self.end = (np.full(tasks, math.nan) for _ in range(3))
        self.server = np.full(tasks, -1, dtype=np.int64)
        self.evictions = np.zeros(tasks, dtype=np.int64)
        self.lost = np.zeros(tasks)
        self.cut: list[tuple[Ints, Ints, Floats, float]] = []

    def evicted(self, tasks: Sequence[int], time: float) -> None:
        """Note that these tasks, each named once, were put back."""
        which = np.array(tasks, dtype=np.int64)
        self.cut.append((which, self.server[which], self.start[which], time))
        self.evictions[which] += 1
        self.lost[which] += time - self.start[which]
        self.start[which], self.server[which] = math.nan, -1


class Driver(Protocol):
    """Plays a plan on a core.

    An *instant* is releases, then arrivals, then placing.

    A task that ends at the time it starts is released at once, and placing starts again.

    Attributes
    ----------
    job_start, job_finish : float array, jobs
        First start of a task; end of the last task. NaN before that.
    job_done : int array, jobs
        Tasks that have ended.
    user_done, user_started : int array, users
        Tasks that have ended, and tasks that were started at least once.
    user_wait : float array, users
        Sum over started tasks of first start − arrival.
    user_share : float array, users
        Integral over time of the dominant share.
    used, capacity : float array, resources
        Integrals over time of units in use, and of units that are there.
    active : int array, pairs
        Tasks that have arrived and not ended.
    log : TaskLog or None
        When and where each task ran, if that is kept.
    """

    job_start: Floats
    job_finish: Floats
    job_done: Ints
    user_done: Ints
    user_started: Ints
    user_wait: Floats
    user_share: Floats
    used: Floats
    capacity: Floats
    active: Ints
    log: TaskLog | None

    @property
    def now(self) -> float:
        """Time of the last instant that something happened in."""

    @property
    def arrived(self) -> int:
        """How many batches of the plan have arrived."""

    @property
    def placements(self) -> int:
        """How many tasks were started, each as often as it was."""

    def next_time(self) -> float:
        """Return when the next task arrives or ends; infinity if none does."""

    def advance(self, before: float) -> None:
        """Go through all instants with a time < `before`."""

    def release(self, time: float) -> None:
        """End the tasks that end at `time`, in order of their start; all before it are done."""

    def arrive(self, time: float) -> None:
        """Let the tasks of `time` arrive."""

    def settle(self, time: float) -> None:
        """Let the tasks of `time` arrive, and place."""

    def flush(self, time: float) -> None:
        """Bring all integrals up to `time`: before totals change, and at the end."""

    def evicted(self, tasks: Sequence[int], time: float) -> None:
        """Forget when these tasks would have ended: they were put back and start from scratch."""

    def rescale(self) -> None:
        """Take totals and shares from the core again: after servers or evictions changed them."""


class RunCounters:
    """Times, counts and integrals of a run, see :class:`Driver`."""

    def __init__(self, plan: Plan) -> None:
        jobs, users, resources = len(plan.job_size), len(plan.weight), plan.need.shape[1]
        self.job_start, self.job_finish = np.full(jobs, math.nan), np.full(jobs, math.nan)
        self.job_done = np.zeros(jobs, dtype=np.int64)
        self.user_done = np.zeros(users, dtype=np.int64)
        self.user_started = np.zeros(users, dtype=np.int64)
        self.user_wait, self.user_share = np.zeros(users), np.zeros(users)
        self.used, self.capacity = np.zeros(resources), np.zeros(resources)
        self.active = np.zeros(len(plan.pair_user), dtype=np.int64)


class PlainDriver(RunCounters):
    """See :class:`Driver`.

    Examples
    --------
    >>> from drfh import Cluster, Job, Server, Workload
    >>> from drfh.policies import Policy
    >>> from drfh.simulation.plan import build
    >>> workload = Workload(["ann"], [Job("ann", demand={"cpu": 3}, duration=9, tasks=2)])
    >>> core, plan, _, _ = build(Cluster([Server({"cpu": 4})]), workload, Policy())
    >>> driver = PlainDriver(core, plan)
    >>> driver.advance(math.inf)
    >>> driver.job_start.tolist(), driver.job_finish.tolist(), driver.user_wait.tolist()
    ([0.0], [18.0], [9.0])
    """

    def __init__(self, core: Core, plan: Plan, *, log: bool = False) -> None:
        super().__init__(plan)
        users, tasks = len(plan.weight), len(plan.duration)
        self.core, self.plan = core, plan
        self.now = 0.0
        self.arrived = 0
        self.placements = 0
        self.log = TaskLog(tasks) if log else None
        self._arrival: list[float] = plan.arrival.tolist()
        self._duration: list[float] = plan.duration.tolist()
        self._batch: list[int] = plan.batch.tolist()
        self._need: list[list[int]] = plan.need.tolist()
        self._ends: list[tuple[float, int, int]] = []  # (time, start sequence, task), a heap
        self._sequence = [-1] * tasks  # of the start that counts; -1: does not run
        self._started = [False] * tasks
        self._next_sequence = 0
        self._since = [0.0] * users  # up to when the share of a user is counted
        self._share = [0.0] * users
        self._pool_since = 0.0
        self._pool_used = [0] * plan.need.shape[1]
        self._total: list[float] = []
        self.rescale()

    # The clock

    def next_time(self) -> float:
        """Return when the next task arrives or ends; infinity if none does."""
        arrives = self._arrival[self.arrived] if self.arrived < len(self._arrival) else math.inf
        return min(self._next_end(), arrives)

    def _next_end(self) -> float:
        while self._ends and self._sequence[self._ends[0][2]] != self._ends[0][1]:
            heapq.heappop(self._ends)  # it was put back before it ended
        return self._ends[0][0] if self._ends else math.inf

    def advance(self, before: float) -> None:
        """Go through all instants with a time < `before`."""
        while (time := self.next_time()) < before:
            self.release(time)
            self.settle(time)

    def release(self, time: float) -> None:
        """End the tasks that end at `time`, in order of their start; all before it are done."""
        while self._next_end() <= time:
            self._finish(heapq.heappop(self._ends)[2], time)
        self.now = time

    def arrive(self, time: float) -> None:
        """Let the tasks of `time` arrive."""
        self.now = time
        plan = self.plan
        while self.arrived < len(self._arrival) and self._arrival[self.arrived] <= time:
            batch = self.arrived
            count = int(plan.count[batch])
            self.core.submit(int(plan.user[batch]), int(plan.shape[batch]), count)
            self.active[plan.pair[batch]] += count
            self.arrived += 1

    def settle(self, time: float) -> None:
        """Let the tasks of `time` arrive, and place."""
        self.arrive(time)
        again = True
        while again:
            tasks, servers = self.core.place()
            again = False
            for task, server in zip(tasks.tolist(), servers.tolist(), strict=True):
                again |= self._start(task, server, time) <= time
            if again:
                self.release(time)

    def evicted(self, tasks: Sequence[int], time: float) -> None:
        """Forget when these tasks would have ended: they were put back and start from scratch."""
        for task in tasks:
            self._sequence[task] = -1
        if self.log is not None:
            self.log.evicted(tasks, time)

    def _start(self, task: int, server: int, time: float) -> float:
        batch = self._batch[task]
        user, job = int(self.plan.user[batch]), int(self.plan.job[batch])
        end = time + self._duration[task]
        if end < math.inf:
            heapq.heappush(self._ends, (end, self._next_sequence, task))
        self._sequence[task] = self._next_sequence
        self._next_sequence += 1
        self.placements += 1
        if self.log is not None:
            self.log.start[task], self.log.server[task] = time, server
            if not self._started[task]:
                self.log.first[task] = time
        if not self._started[task]:
            self._started[task] = True
            self.user_started[user] += 1
            self.user_wait[user] += time - self._arrival[batch]
            if math.isnan(self.job_start[job]):
                self.job_start[job] = time
        self._count(user, self.plan.shape[batch], 1, time)
        return end

    def _finish(self, task: int, time: float) -> None:
        batch = self._batch[task]
        user, job = int(self.plan.user[batch]), int(self.plan.job[batch])
        self._sequence[task] = -1
        self.core.finish(task)
        self.user_done[user] += 1
        self.active[self.plan.pair[batch]] -= 1
        self.job_done[job] += 1
        if self.job_done[job] == self.plan.job_size[job]:
            self.job_finish[job] = time
        if self.log is not None:
            self.log.end[task] = time
        self._count(user, self.plan.shape[batch], -1, time)

    # What is counted: a user's share only when it changes, so that an instant costs what happens

    def _count(self, user: int, shape: int, sign: int, time: float) -> None:
        """Count one task more or fewer in use from now on."""
        self._count_pool(time)
        self._count_user(user, time)
        for r, amount in enumerate(self._need[shape]):
            self._pool_used[r] += sign * amount
        self._share[user] = self._dominant(user)

    def _count_pool(self, time: float) -> None:
        passed = time - self._pool_since
        if passed > 0:
            for r, total in enumerate(self._total):
                self.used[r] += passed * self._pool_used[r]
                self.capacity[r] += passed * total
            self._pool_since = time

    def _count_user(self, user: int, time: float) -> None:
        self.user_share[user] += (time - self._since[user]) * self._share[user]
        self._since[user] = time

    def _dominant(self, user: int) -> float:
        pairs = zip(self.core.usage(user), self._total, strict=True)
        return max(amount / total if total > 0 else 0.0 for amount, total in pairs)

    def flush(self, time: float) -> None:
        """Bring all integrals up to `time`: before totals change, and at the end."""
        self._count_pool(time)
        for user in range(len(self._since)):
            self._count_user(user, time)

    def rescale(self) -> None:
        """Take totals and shares from the core again: after servers or evictions changed them."""
        servers, users = range(len(self.plan.capacity)), range(len(self._since))
        sizes = np.array([self.core.capacity(server) for server in servers], dtype=np.int64)
        self._total = [float(total) for total in sizes.sum(axis=0).tolist()]
        held = [self.core.usage(user) for user in users]
        self._pool_used = np.array(held, dtype=np.int64).sum(axis=0).tolist()
        self._share = [self._dominant(user) for user in users]


def make_driver(core: Core, plan: Plan, *, log: bool = False) -> Driver:
    """Return the driver for a core."""
    if isinstance(core, PlainCore):
        return PlainDriver(core, plan, log=log)
    from drfh.scheduler.indexed import IndexedCore
    from drfh.simulation.compiled import CompiledDriver

    assert isinstance(core, IndexedCore)
    return CompiledDriver(core, plan, log=log)
