"""Tasks are submitted, placed and ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from drfh.errors import InputError
from drfh.model.cluster import check_name
from drfh.model.users import Restriction
from drfh.scheduler.core import RUNNING
from drfh.scheduler.desk import Amounts, SchedulerDesk

__all__ = ["KEEP", "Placed", "TaskCalls"]

_MOST_TASKS = 2**31


class _Keep:
    def __repr__(self) -> str:
        return "as it is"


KEEP: Final = _Keep()


class Placed(NamedTuple):
    """A task that may start now, and where.

    Examples
    --------
    >>> Placed("t1", "ann", "big/0").server
    'big/0'
    """

    task: str
    user: str
    server: str


class TaskCalls(SchedulerDesk):
    """The calls about tasks."""

    def submit(
        self,
        task: str,
        user: str,
        demand: Amounts,
        *,
        count: int = 1,
        servers: Restriction | None = None,
    ) -> tuple[str, ...]:
        """Queue a task, or a job of equal tasks, and return the names of the tasks.

        A task that no server could hold is accepted, and set aside as *never*.

        Parameters
        ----------
        task
            A name that was never used here. The tasks of a job are ``task/0``, ``task/1``, …
        user
            Whose it is.
        demand
            What one task needs.
        count
            How many tasks there are.
        servers
            Where they may run; the restriction of the user holds too.

        Examples
        --------
        >>> from drfh import Cluster, Scheduler, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a", labels={"zone": "x"})]))
        >>> scheduler.add_user("ann")
        >>> scheduler.submit("t1", "ann", {"cpu": "500m"}, servers={"zone": "x"})
        ('t1',)
        >>> scheduler.submit("t2", "ann", {"cpu": -1})
        Traceback (most recent call last):
        drfh.errors.InputError: demand.cpu must be a finite number ≥ 0, such as 4, 0.5, '500m' \
or '16Gi', got -1
        """
        owner = self._user(user)
        names = self._new_names(task, count)
        known = len(self._restrictions.answers)
        with self._unharmed(asks=self._asks_about_tasks):
            shape, terms = self._shape(owner, demand, servers)
            first = self._core.submit(owner, shape, len(names))
        self._remember_tasks(names, user, first)
        if self._keeps_log:
            record: dict[str, Any] = {
                "call": "submit",
                "task": task,
                "user": user,
                "demand": self._demands[shape],
            }
            if len(names) > 1:
                record["count"] = len(names)
            self._keep(record, terms, known)
        return names

    def cancel(self, *tasks: str) -> None:
        """Drop tasks, queued or running.

        Examples
        --------
        >>> from drfh import Cluster, Scheduler, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4})]))
        >>> scheduler.add_user("ann")
        >>> names = scheduler.submit("t1", "ann", {"cpu": 1})
        >>> scheduler.cancel("t1")
        >>> scheduler.state("t1")
        'cancelled'
        """
        for name in tasks:
            self._task(name, "queued or running")
        self._each_once(tasks)
        for name in tasks:
            self._drop(name)
        self._keep({"call": "cancel", "tasks": list(tasks)})

    def update(self, task: str, *, demand: Amounts | None = None, servers: Any = KEEP) -> None:
        """Change what a queued task needs or where it may run; it keeps its place in the queue.

        Examples
        --------
        >>> from drfh import Cluster, Scheduler, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> names = scheduler.submit("t1", "ann", {"cpu": 8})
        >>> scheduler.update("t1", demand={"cpu": 2}, servers="a")
        >>> scheduler.place()
        [Placed(task='t1', user='ann', server='a')]
        """
        number = self._task(task, "queued")
        if self._core.state(number) == RUNNING:
            raise InputError("task", "must be queued (it is running)", task)
        need, restriction = self._needs[self._core.shape_of(number)]
        known = len(self._restrictions.answers)
        if demand is not None:
            need = tuple(self._units.demand(demand))
        own = self._restrictions.pair(restriction)[1]
        with self._unharmed(asks=self._asks_about_tasks):
            if servers is not KEEP:
                own = self._restrictions.read(servers, f"servers of {task}")
            shape = self._shape_of(need, (self._user_terms[self._core.user_of(number)], own))
            self._core.update(number, shape)
        record = {"call": "update", "task": task, "demand": self._demands[shape], "servers": None}
        self._keep(record, own, known)

    def place(self, limit: int | None = None) -> list[Placed]:
        """Start what may start now, in order.

        Parameters
        ----------
        limit
            At most so many tasks.

        Examples
        --------
        >>> from drfh import Cluster, Scheduler, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a", count=2)]))
        >>> scheduler.add_user("ann")
        >>> names = scheduler.submit("job", "ann", {"cpu": 3}, count=9)
        >>> for placed in scheduler.place():
        ...     print(placed.task, "runs on", placed.server)
        job/0 runs on a/0
        job/1 runs on a/1
        """
        most = -1 if limit is None else _whole(limit, "limit", 0)
        with self._unharmed():
            tasks, servers = self._core.place(most)
        numbers = tasks.tolist()
        placed = list(
            map(
                Placed,
                map(self._task_names.__getitem__, numbers),
                map(self._owners.__getitem__, numbers),
                map(self._server_names.__getitem__, servers.tolist()),
            )
        )
        record = {"call": "place", "placed": len(placed)}
        if limit is not None:
            record["limit"] = most
        self._keep(record)
        return placed

    def finish(self, *tasks: str) -> None:
        """End running tasks: all of them, or none if one of them does not run.

        Examples
        --------
        >>> from drfh import Cluster, Scheduler, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> scheduler.adopt("t1", "ann", {"cpu": 1}, "a")
        >>> scheduler.finish("t1")
        >>> scheduler.finish("t1")
        Traceback (most recent call last):
        drfh.errors.InputError: task must be running (it is done), got 't1'
        """
        numbers = [self._running_task(name) for name in tasks]
        self._each_once(tasks)
        for name, number in zip(tasks, numbers, strict=True):
            self._core.finish(number)
            del self._tasks[name]
            self._ended(name, "done")
        self._keep({"call": "finish", "tasks": list(tasks)})

    def adopt(
        self,
        task: str,
        user: str,
        demand: Amounts,
        server: str,
        *,
        servers: Restriction | None = None,
    ) -> None:
        """Count a task that already runs, even if it overfills the server.

        Parameters
        ----------
        task, user, demand, servers
            As in :meth:`submit`. The restriction counts only if the task is put back.
        server
            Where it runs.

        Examples
        --------
        >>> from drfh import Cluster, Scheduler, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> scheduler.adopt("t1", "ann", {"cpu": 6}, "a")
        >>> scheduler.free("a")
        {'cpu': -2.0}
        """
        owner, position = self._user(user), self._server(server)
        names = self._new_names(task, 1)
        known = len(self._restrictions.answers)
        shape, terms = self._shape(owner, demand, servers)
        self._remember_tasks(names, user, self._core.adopt(owner, shape, position))
        record = {"call": "adopt", "task": task, "user": user, "demand": self._demands[shape]}
        self._keep({**record, "server": server}, terms, known)

    def unplace(self, task: str) -> None:
        """Put a task back to the head of its user's queue, because the engine refused it.

        Examples
        --------
        >>> from drfh import Cluster, Scheduler, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> names = scheduler.submit("t1", "ann", {"cpu": 1})
        >>> for placed in scheduler.place():
        ...     scheduler.unplace(placed.task)
        >>> scheduler.state("t1"), scheduler.evictions
        ('queued', 0)
        """
        number = self._running_task(task)
        with self._unharmed(asks=self._asks_about_tasks):
            self._core.put_back(number)
        self._keep({"call": "unplace", "task": task})

    def _new_names(self, task: str, count: int) -> tuple[str, ...]:
        check_name(task, "task")
        if not task.isprintable():
            raise InputError("task", "must have a name of printable characters", task)
        number = 1 if type(count) is int and count == 1 else _whole(count, "count", 1)
        names = (task,) if number == 1 else tuple(f"{task}/{i}" for i in range(number))
        for name in names:
            if name in self._tasks or name in self._past:
                raise InputError("task", "must have a name that was never used", name)
        return names

    @staticmethod
    def _each_once(tasks: Sequence[str]) -> None:
        if len(tasks) > 1 and len(set(tasks)) != len(tasks):
            twice = Counter(tasks).most_common(1)[0][0]
            raise InputError("task", "must be named once", twice)


def _whole(value: Any, field: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InputError(field, f"must be a whole number ≥ {least}", value)
    if not least <= value < _MOST_TASKS:
        raise InputError(field, f"must be a whole number from {least} to 2**31 − 1", value)
    return int(value)
