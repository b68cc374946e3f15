"""Compiled driver: the indexed core and the clock in machine code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from drfh.kernels.online import clock
from drfh.kernels.online.state import TASK_RUN, StateHeader
from drfh.scheduler.indexed import IndexedCore
from drfh.simulation.driver import RunCounters, TaskLog
from drfh.simulation.plan import Plan

__all__ = ["CompiledDriver"]

_PLACED_AT_ONCE = 4096


class CompiledDriver(RunCounters):
    """See :class:`~drfh.simulation.driver.Driver`.

    Examples
    --------
    >>> from drfh import Cluster, Job, Server, Workload
    >>> from drfh.policies import Policy
    >>> from drfh.simulation.plan import build
    >>> workload = Workload(["ann"], [Job("ann", demand={"cpu": 3}, duration=9, tasks=2)])
    >>> core, plan, _, _ = build(Cluster([Server({"cpu": 4})]), workload, Policy(),
    ...                          engine="indexed")
    >>> driver = CompiledDriver(core, plan)
    >>> driver.advance(float("inf"))
    >>> driver.job_start.tolist(), driver.job_finish.tolist(), driver.user_wait.tolist()
    ([0.0], [18.0], [9.0])
    """

    def __init__(self, core: IndexedCore, plan: Plan, *, log: bool = False) -> None:
        super().__init__(plan)
        users, tasks, resources = len(plan.weight), len(plan.duration), plan.need.shape[1]
        self.core = core
        if not plan.changes:
            core.forget_places()
        core.reserve(tasks=tasks, queues=len(plan.pair_user))
        self._clock = StateHeader(clock.REGISTERS, clock.ARRAYS)
        self._head = self._clock.head
        self._head[clock.LOGS] = log
        kept = TaskLog(tasks if log else 0)
        self.log = kept if log else None
        arrays: dict[str, Any] = {
            "time": np.zeros(2), "batch_user": plan.user, "batch_shape": plan.shape,
            "batch_job": plan.job, "batch_count": plan.count, "batch_pair": plan.pair,
            "arrival": plan.arrival, "duration": plan.duration, "batch": plan.batch,
            "job_size": plan.job_size, "end_time": np.empty(tasks + 1),
            "end_tag": np.empty(tasks + 1, dtype=np.int64), "job_start": self.job_start,
            "job_finish": self.job_finish, "job_done": self.job_done,
            "user_done": self.user_done, "user_started": self.user_started,
            "user_wait": self.user_wait, "user_share": self.user_share, "used": self.used,
            "capacity": self.capacity, "active": self.active, "since": np.zeros(users),
            "share": np.zeros(users), "pool_used": np.zeros(resources, dtype=np.int64),
            "need": plan.need, "task_start": kept.start, "task_end": kept.end,
            "task_server": kept.server, "task_first": kept.first,
            "tasks": np.zeros(_PLACED_AT_ONCE, dtype=np.int64),
            "servers": np.zeros(_PLACED_AT_ONCE, dtype=np.int64),
        }  # fmt: skip
        for name, array in arrays.items():
            self._clock.set(name, np.ascontiguousarray(array))
        self.rescale()

    @property
    def now(self) -> float:
        """Time of the last instant that something happened in."""
        return float(self._clock.time[clock.NOW])  # type: ignore[attr-defined]

    @property
    def arrived(self) -> int:
        """How many batches of the plan have arrived."""
        return int(self._head[clock.ARRIVED])

    @property
    def placements(self) -> int:
        """How many tasks were started, each as often as it was."""
        return int(self._head[clock.PLACEMENTS])

    def next_time(self) -> float:
        """Return when the next task arrives or ends; infinity if none does."""
        return float(clock.next_time(self._head, self.core.ready()))

    def advance(self, before: float) -> None:
        """Go through all instants with a time < `before`."""
        clock.advance(self._head, self.core.ready(), before)

    def release(self, time: float) -> None:
        """End the tasks that end at `time`, in order of their start; all before it are done."""
        clock.release(self._head, self.core.ready(), time)

    def arrive(self, time: float) -> None:
        """Let the tasks of `time` arrive."""
        clock.arrive(self._head, self.core.ready(), time)

    def settle(self, time: float) -> None:
        """Let the tasks of `time` arrive, and place."""
        clock.settle(self._head, self.core.ready(), time)

    def flush(self, time: float) -> None:
        """Bring all integrals up to `time`: before totals change, and at the end."""
        clock.flush(self._head, self.core.ready(), time)

    def evicted(self, tasks: Sequence[int], time: float) -> None:
        """Forget when these tasks would have ended: they were put back and start from scratch."""
        self.core.data.task[list(tasks), TASK_RUN] = -1
        if self.log is not None:
            self.log.evicted(tasks, time)
        # Their ends stay in the heap until their time comes, beside those of the new runs.
        for name in ("end_time", "end_tag"):
            old = getattr(self._clock, name)
            new = np.empty(len(old) + len(tasks), dtype=old.dtype)
            new[: self._head[clock.ENDS]] = old[: self._head[clock.ENDS]]
            self._clock.set(name, new)

    def rescale(self) -> None:
        """Take totals and shares from the core again: after servers or evictions changed them."""
        clock.rescale(self._head, self.core.ready())
