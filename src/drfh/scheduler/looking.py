"""All that can be looked at. Nothing here changes the scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drfh.policies import Policy
from drfh.scheduler.core import RUNNING
from drfh.scheduler.desk import STATES, SchedulerDesk
from drfh.scheduler.diagnostics import Why, explain_task

__all__ = ["Looking"]


class Looking(SchedulerDesk):
    """What a scheduler tells."""

    @property
    def policy(self) -> Policy:
        """The policy.

        Examples
        --------
        >>> from drfh import Cluster, Scheduler, Server
        >>> Scheduler(Cluster([Server({"cpu": 1})]), "fifo").policy.name
        'fifo'
        """
        return self._rules.policy

    @property
    def engine(self) -> str:
        """Which brain runs: ``plain`` or ``indexed``. Both decide alike.

        Examples
        --------
        >>> from drfh import Cluster, Scheduler, Server
        >>> Scheduler(Cluster([Server({"cpu": 1})])).engine
        'plain'
        """
        return self._engine

    @property
    def users(self) -> tuple[str, ...]:
        """Names of the users, in the order in which they were added.

        Examples
        --------
        >>> from drfh import Cluster, Scheduler, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 1})]))
        >>> scheduler.add_user("ann")
        >>> scheduler.users
        ('ann',)
        """
        return tuple(self._users)

    @property
    def servers(self) -> tuple[str, ...]:
        """Names of the servers that are up, in their order.

        Examples
        --------
        >>> from drfh import Cluster, Scheduler, Server
        >>> Scheduler(Cluster([Server({"cpu": 1}, name="a", count=2)])).servers
        ('a/0', 'a/1')
        """
        pairs = zip(self._server_names, self._up, strict=True)
        return tuple(name for name, up in pairs if up)

    @property
    def evictions(self) -> int:
        """How often a task lost its server because that was removed or made smaller.

        Examples
        --------
        >>> from drfh import Cluster, Scheduler, Server
        >>> Scheduler(Cluster([Server({"cpu": 1})])).evictions
        0
        """
        return self._evictions

    @property
    def log(self) -> Sequence[dict[str, Any]]:
        """Every call that changed something, in order, as plain data. The first entry starts it.

        :meth:`Scheduler.replay` runs it again. Empty with ``log=False``.

        Examples
        --------
        >>> from drfh import Cluster, Scheduler, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 1})]))
        >>> scheduler.add_user("ann", weight=2)
        >>> scheduler.log[-1]
        {'call': 'add_user', 'name': 'ann', 'weight': 2.0}
        """
        return self._records

    def state(self, task: str) -> str:
        """Return ``queued``, ``never``, ``running``, ``done`` or ``cancelled``.

        *Never*: no server that is up could hold it, even empty.

        Examples
        --------
        >>> from drfh import Cluster, Scheduler, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 1})]))
        >>> scheduler.add_user("ann")
        >>> names = scheduler.submit("large", "ann", {"cpu": 2})
        >>> scheduler.state("large")
        'never'
        """
        if isinstance(task, str) and task in self._past:
            return self._past[task]
        return STATES[self._core.state(self._task(task, "known"))]

    def where(self, task: str) -> str | None:
        """Return the name of the server on which a task runs, or None.

        Examples
        --------
        >>> from drfh import Cluster, Scheduler, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 1}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> scheduler.adopt("t1", "ann", {"cpu": 1}, "a")
        >>> scheduler.where("t1")
        'a'
        """
        if isinstance(task, str) and task in self._past:
            return None
        server = self._core.server_of(self._task(task, "known"))
        return None if server < 0 else self._server_names[server]

    def tasks(self, user: str | None = None) -> dict[str, str]:
        """Return the tasks that have not ended, of one user or of all, with their states.

        Those that run come first, then the others in the order of their queues.

        Examples
        --------
        >>> from drfh import Cluster, Scheduler, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 2})]))
        >>> scheduler.add_user("ann")
        >>> names = scheduler.submit("job", "ann", {"cpu": 1}, count=3)
        >>> placed = scheduler.place()
        >>> scheduler.tasks("ann")
        {'job/0': 'running', 'job/1': 'running', 'job/2': 'queued'}
        """
        core = self._core
        chosen = self._users.values() if user is None else [self._user(user)]
        wanted = set(chosen)
        runs = [
            name
            for name, task in self._tasks.items()
            if core.user_of(task) in wanted and core.state(task) == RUNNING
        ]
        waits = [self._task_names[task] for number in chosen for task in core.queue_of(number)]
        return dict.fromkeys(runs, "running") | {
            name: STATES[core.state(self._tasks[name])] for name in waits
        }

    def running(self, user: str) -> int:
        """Return how many tasks of a user run.

        Examples
        --------
        >>> from drfh import Cluster, Scheduler, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 2})]))
        >>> scheduler.add_user("ann")
        >>> scheduler.running("ann")
        0
        """
        return self._core.counts(self._user(user))[0]

    def queued(self, user: str) -> int:
        """Return how many tasks of a user wait for room.

        Examples
        --------
        >>> from drfh import Cluster, Scheduler, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 2})]))
        >>> scheduler.add_user("ann")
        >>> names = scheduler.submit("job", "ann", {"cpu": 1}, count=3)
        >>> scheduler.queued("ann")
        3
        """
        return self._core.counts(self._user(user))[1]

    def level(self, user: str) -> float:
        """Return the number by which the turn of a user comes, the lowest first.

        For ``drfh`` that is its global dominant share divided by its weight.

        Examples
        --------
        >>> from drfh import Cluster, Scheduler, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann", weight=2)
        >>> scheduler.adopt("t1", "ann", {"cpu": 1}, "a")
        >>> scheduler.level("ann")
        0.125
        """
        return float(self._core.level(self._user(user)))

    def share(self, user: str) -> float:
        """Return the global dominant share of a user: the largest part of a resource it holds.

        Examples
        --------
        >>> from drfh import Cluster, Scheduler, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4, "memory": 8}, name="a")]))
        >>> scheduler.add_user("ann", weight=2)
        >>> scheduler.adopt("t1", "ann", {"cpu": 1, "memory": 1}, "a")
        >>> scheduler.share("ann")
        0.25
        """
        return self._dominant(self._user(user))[1]

    def free(self, server: str) -> dict[str, float]:
        """Return what is free on a server; below 0 where adopted tasks overfill it.

        Examples
        --------
        >>> from drfh import Cluster, Scheduler, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4, "memory": "1Gi"}, name="a")]))
        >>> scheduler.free("a")
        {'cpu': 4.0, 'memory': 1073741824.0}
        """
        return self._units.amounts(self._core.free(self._server(server)))

    def evictions_of(self, task: str) -> int:
        """Return how often a task lost its server.

        Examples
        --------
        >>> from drfh import Cluster, Scheduler, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> scheduler.adopt("t1", "ann", {"cpu": 1}, "a")
        >>> scheduler.remove_server("a")
        ['t1']
        >>> scheduler.evictions_of("t1")
        1
        """
        self.state(task)
        return self._task_evictions.get(task, 0)

    def why(self, task: str) -> Why:
        """Say why a task waits, or why it never runs: what is missing where, and who is ahead.

        Examples
        --------
        >>> from drfh import Cluster, Scheduler, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> names = scheduler.submit("large", "ann", {"cpu": 8})
        >>> print(scheduler.why("large").text)
        large of ann never runs: it needs 8 cpu, and no server has more than 4 cpu.
        """
        return explain_task(self, task)

    def status(self) -> dict[str, Any]:
        """Return all users and servers with their numbers, as plain data.

        Examples
        --------
        >>> from drfh import Cluster, Scheduler, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> scheduler.adopt("t1", "ann", {"cpu": 1}, "a")
        >>> status = scheduler.status()
        >>> status["users"]["ann"]["dominant_share"], status["servers"]["a"]
        (0.25, {'capacity': {'cpu': 4.0}, 'free': {'cpu': 3.0}, 'running': 1})
        """
        core, amounts = self._core, self._units.amounts
        users: dict[str, dict[str, Any]] = {}
        for name, user in self._users.items():
            running, queued, never = core.counts(user)
            resource, share = self._dominant(user)
            users[name] = {
                "weight": self._weights[user],
                "level": float(core.level(user)),
                "dominant_share": share,
                "dominant_resource": resource,
                "running": running,
                "queued": queued,
                "never": never,
                "evictions": self._user_evictions.get(name, 0),
            }
        servers = {
            name: {
                "capacity": amounts(core.capacity(server)),
                "free": amounts(core.free(server)),
                "running": len(core.running_on(server)),
            }
            for server, name in enumerate(self._server_names)
            if self._up[server]
        }
        total = {
            key: sum(user[key] for user in users.values()) for key in ("running", "queued", "never")
        }
        ended = list(self._past.values())
        total |= {state: ended.count(state) for state in ("done", "cancelled")}
        return {
            "policy": self.policy.name,
            "users": users,
            "servers": servers,
            "tasks": total,
            "evictions": self._evictions,
        }

    def _dominant(self, user: int) -> tuple[str | None, float]:
        name, most = None, 0.0
        rows = zip(self._units.resources, self._core.usage(user), self._totals, strict=True)
        for resource, amount, total in rows:
            share = amount / total if total > 0 else 0.0
            if share > most:
                name, most = resource, share
        return name, most
