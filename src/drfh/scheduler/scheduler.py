"""``drfh.Scheduler``: events in, placements out; no clock, no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drfh.errors import InputError
from drfh.formatting import format_count, plural
from drfh.model.cluster import Cluster, Server, check_name  # noqa: F401 (Server: in examples)
from drfh.model.users import Restriction, parse_weight
from drfh.policies import Policy, find_policy
from drfh.scheduler.diagnostics import Why, explain_task
from drfh.scheduler.log import first_record, keeps_log, replay
from drfh.scheduler.nodes import Terms, to_json
from drfh.scheduler.snapshot import read_snapshot, write_snapshot
from drfh.scheduler.state import (
    KEEP,
    Amounts,
    Engine,
    Groups,
    Placed,
    SchedulerState,
    read_groups,
    whole_number,
)

__all__ = ["Scheduler"]


class Scheduler:
    """Decides which task starts next and where, as tasks, users and servers come and go.

    Every call takes effect whole or raises an error and changes nothing.

    Parameters
    ----------
    cluster
        The servers at the start. Its resources are all there will be.
    policy
        A name such as ``best-fit-drfh``, ``slots:14`` or ``drfh+cosine+strict``, the parts as a
        mapping, or a :class:`~drfh.policies.Policy`.
    seed
        Start of the draws of ``random``.
    engine
        ``plain`` (a short definition), ``indexed`` (fast on large clusters), or ``auto``. Both
        decide alike.
    groups
        The tree of users for ``hdrf``: ``{"vision": {"parent": "research", "weight": 2}}``.
        A group that is named as a parent and not listed has weight 1.
    log
        Whether to keep every call in :attr:`log`; by default if `remember`.
    remember
        Whether tasks that ended are remembered, so that their names are not used again. False
        is for a scheduler that runs for months: there is no log then.

    Examples
    --------
    >>> from drfh import Cluster, Scheduler, Server
    >>> cluster = Cluster([Server({"cpu": 4, "memory": "8Gi"}, name="a")])
    >>> scheduler = Scheduler(cluster, policy="best-fit-drfh")
    >>> scheduler.add_user("ann")
    >>> scheduler.add_user("bob", weight=2)
    >>> scheduler.submit("report", "ann", {"cpu": 2, "memory": "1Gi"})
    ('report',)
    >>> scheduler.submit("sweep", "bob", {"cpu": 1}, count=3)
    ('sweep/0', 'sweep/1', 'sweep/2')
    >>> [placed.task for placed in scheduler.place()]
    ['report', 'sweep/0', 'sweep/1']
    >>> scheduler.finish("report")
    >>> scheduler.place()
    [Placed(task='sweep/2', user='bob', server='a')]
    """

    def __init__(
        self,
        cluster: Cluster,
        policy: str | Policy | Mapping[str, Any] = "best-fit-drfh",
        *,
        seed: int = 0,
        engine: Engine = "auto",
        groups: Groups | None = None,
        log: bool | None = None,
        remember: bool = True,
    ) -> None:
        if not isinstance(cluster, Cluster):
            raise InputError("cluster", "must be a drfh.Cluster", cluster)
        self._keeps_log = keeps_log(log, remember)
        tree = read_groups(groups)
        chosen = find_policy(policy)
        self._state = SchedulerState.of_cluster(cluster, chosen, seed, engine)
        self._state.remembers = bool(remember)
        for name, (parent, weight) in tree.items():
            self._state.add_group(name, parent, weight)
        self._records: list[dict[str, Any]] = []
        if self._keeps_log:
            self._records.append(first_record(cluster, chosen, seed, tree))

    def __repr__(self) -> str:
        servers = format_count(len(self.servers), "server")
        users = format_count(len(self.users), "user")
        running = sum(self.running(user) for user in self.users)
        tasks = f"{running:,} of {format_count(len(self._state.tasks), 'task')} running"
        return f"Scheduler({self.policy.name}, {servers}, {users}, {tasks})"

    # Users

    def add_user(
        self,
        name: str,
        weight: float | str = 1.0,
        servers: Restriction | None = None,
        parent: str | None = None,
    ) -> None:
        """Add a user. Ties go to the one who was added first.

        Parameters
        ----------
        weight
            Entitlement relative to others, > 0.
        servers
            Where its tasks may run, as for :class:`drfh.User`.
        parent
            The group of users above, for ``hdrf``.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann", servers="a")
        >>> scheduler.add_user("ann")
        Traceback (most recent call last):
        drfh.errors.InputError: user must be new, got 'ann'
        """
        state = self._state
        check_name(name, "user")
        if name in state.users:
            raise InputError("user", "must be new", name)
        number = parse_weight(weight)
        check_name(parent, "parent", optional=True)
        known = len(state.restrictions.answers)
        terms = state.restrictions.read(servers, f"servers of {name}")
        state.add_user(name, number, parent, terms)
        record = {"call": "add_user", "name": name, "weight": number}
        if parent is not None:
            record["parent"] = parent
        self._log(record, terms, known)

    def set_weight(self, user: str, weight: float | str) -> None:
        """Change the weight of a user, from the next turn on.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> scheduler.set_weight("ann", 0)
        Traceback (most recent call last):
        drfh.errors.InputError: weight must be > 0, got 0
        """
        number, value = self._state.user(user), parse_weight(weight)
        self._state.core.set_weight(number, value)
        self._state.weights[number] = value
        self._log({"call": "set_weight", "user": user, "weight": value})

    def remove_user(self, user: str, *, cancel: bool = False) -> list[str]:
        """Remove a user and cancel its queued tasks. Return the names of cancelled tasks.

        With `cancel` its running tasks too; otherwise a user with running tasks is refused.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> scheduler.adopt("t1", "ann", {"cpu": 1}, "a")
        >>> scheduler.remove_user("ann")
        Traceback (most recent call last):
        drfh.errors.InputError: user must have no running tasks to be removed (or cancel=True; \
1 runs), got 'ann'
        >>> scheduler.remove_user("ann", cancel=True)
        ['t1']
        """
        runs = self.running(user)
        if runs and not cancel:
            run = plural(runs, "runs", "run")
            rule = f"must have no running tasks to be removed (or cancel=True; {runs} {run})"
            raise InputError("user", rule, user)
        names = list(self.tasks(user))
        for name in names:
            self._state.drop_task(name)
        del self._state.users[user]
        self._state.user_evictions.pop(user, None)
        self._log({"call": "remove_user", "user": user, "cancel": bool(cancel)})
        return names

    # Servers

    def add_server(
        self, name: str, resources: Amounts, labels: Mapping[str, str] | None = None
    ) -> None:
        """Add a server; ``big/7`` belongs to the group ``big``.

        One that was removed takes its old place in the order.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_server("b", {"cpu": 8}, labels={"zone": "x"})
        >>> scheduler.servers
        ('a', 'b')
        """
        added, accepting = self._state.add_server(name, resources, labels)
        size = dict(added.record.resources)
        record: dict[str, Any] = {"call": "add_server", "name": name, "resources": size}
        if added.record.labels:
            record["labels"] = dict(added.record.labels)
        if accepting:
            record["accepting"] = accepting
        self._log(record)

    def remove_server(self, name: str) -> list[str]:
        """Remove a server; its tasks go back to the heads of their queues. Return their names.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a", count=2)]))
        >>> scheduler.add_user("ann")
        >>> scheduler.adopt("t1", "ann", {"cpu": 1}, "a/1")
        >>> scheduler.remove_server("a/1")
        ['t1']
        >>> scheduler.remove_server("a/1")
        Traceback (most recent call last):
        drfh.errors.InputError: server must be up (it was removed), got 'a/1'
        """
        names = self._state.remove_server(name)
        self._log({"call": "remove_server", "name": name})
        return names

    def resize_server(self, name: str, resources: Amounts) -> list[str]:
        """Change the size of a server. Return the tasks that lost their place, newest first.

        `resources` is all it has from then on; what is not named is 0. Where an amount shrinks,
        the tasks that were placed last go back to their queues until the others fit. Who may use
        the server stays as it is.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> names = scheduler.submit("job", "ann", {"cpu": 2}, count=2)
        >>> placed = scheduler.place()
        >>> scheduler.resize_server("a", {"cpu": 3})
        ['job/1']
        """
        size, names = self._state.resize_server(name, resources)
        self._log({"call": "resize_server", "name": name, "resources": size})
        return names

    # Tasks

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

        A task that no server could hold is accepted; its state is *never*.

        Parameters
        ----------
        task
            A name that was never used here. The tasks of a job are ``task/0``, ``task/1``, …
        demand
            What one task needs.
        servers
            Where they may run; the restriction of the user holds too.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a", labels={"zone": "x"})]))
        >>> scheduler.add_user("ann")
        >>> scheduler.submit("t1", "ann", {"cpu": "500m"}, servers={"zone": "x"})
        ('t1',)
        >>> scheduler.submit("t2", "ann", {"cpu": -1})
        Traceback (most recent call last):
        drfh.errors.InputError: demand.cpu must be a finite number ≥ 0, such as 4, 0.5, '500m' \
or '16Gi', got -1
        """
        state = self._state
        owner = state.user(user)
        names = state.new_names(task, count)
        known = len(state.restrictions.answers)
        with state.undone_on_error(task_check=True):
            shape, terms = state.shape(owner, demand, servers)
            first = state.core.submit(owner, shape, len(names))
        state.add_tasks(names, user, first)
        if self._keeps_log:
            record: dict[str, Any]
            record = {"call": "submit", "task": task, "user": user, "demand": state.demands[shape]}
            if len(names) > 1:
                record["count"] = len(names)
            self._log(record, terms, known)
        return names

    def cancel(self, *tasks: str) -> None:
        """Drop tasks, queued or running.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4})]))
        >>> scheduler.add_user("ann")
        >>> names = scheduler.submit("t1", "ann", {"cpu": 1})
        >>> scheduler.cancel("t1")
        >>> scheduler.state("t1")
        'cancelled'
        """
        for name in tasks:
            self._state.task(name, "queued or running")
        self._state.named_once(tasks)
        for name in tasks:
            self._state.drop_task(name)
        self._log({"call": "cancel", "tasks": list(tasks)})

    def update(self, task: str, *, demand: Amounts | None = None, servers: Any = KEEP) -> None:
        """Change what a queued task needs or where it may run; it keeps its place in the queue.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> names = scheduler.submit("t1", "ann", {"cpu": 8})
        >>> scheduler.update("t1", demand={"cpu": 2}, servers="a")
        >>> scheduler.place()
        [Placed(task='t1', user='ann', server='a')]
        """
        state, known = self._state, len(self._state.restrictions.answers)
        shape, own = state.update_task(task, demand, servers)
        record = {"call": "update", "task": task, "demand": state.demands[shape], "servers": None}
        self._log(record, own, known)

    def place(self, limit: int | None = None) -> list[Placed]:
        """Start what may start now, in order: all, or at most `limit` tasks.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a", count=2)]))
        >>> scheduler.add_user("ann")
        >>> names = scheduler.submit("job", "ann", {"cpu": 3}, count=9)
        >>> for placed in scheduler.place():
        ...     print(placed.task, "runs on", placed.server)
        job/0 runs on a/0
        job/1 runs on a/1
        """
        state = self._state
        most = -1 if limit is None else whole_number(limit, "limit", 0)
        with state.undone_on_error():
            tasks, servers = state.core.place(most)
        placed = state.placed(tasks.tolist(), servers.tolist())
        record = {"call": "place", "placed": len(placed)}
        if limit is not None:
            record["limit"] = most
        self._log(record)
        return placed

    def finish(self, *tasks: str) -> None:
        """End running tasks: all of them, or none if one of them does not run.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> scheduler.adopt("t1", "ann", {"cpu": 1}, "a")
        >>> scheduler.finish("t1")
        >>> scheduler.finish("t1")
        Traceback (most recent call last):
        drfh.errors.InputError: task must be running (it is done), got 't1'
        """
        state = self._state
        numbers = [state.running_task(name) for name in tasks]
        state.named_once(tasks)
        for name, number in zip(tasks, numbers, strict=True):
            state.core.finish(number)
            state.end_task(name, "done")
        self._log({"call": "finish", "tasks": list(tasks)})

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

        The arguments are those of :meth:`submit`. The restriction `servers` counts only if the
        task is put back.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> scheduler.adopt("t1", "ann", {"cpu": 6}, "a")
        >>> scheduler.free("a")
        {'cpu': -2.0}
        """
        state = self._state
        owner, position = state.user(user), state.server(server)
        names = state.new_names(task, 1)
        known = len(state.restrictions.answers)
        shape, terms = state.shape(owner, demand, servers)
        state.add_tasks(names, user, state.core.adopt(owner, shape, position))
        record = {"call": "adopt", "task": task, "user": user, "demand": state.demands[shape]}
        self._log({**record, "server": server}, terms, known)

    def unplace(self, task: str) -> None:
        """Put a task back to the head of its user's queue, because the engine refused it.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> names = scheduler.submit("t1", "ann", {"cpu": 1})
        >>> for placed in scheduler.place():
        ...     scheduler.unplace(placed.task)
        >>> scheduler.state("t1"), scheduler.evictions
        ('queued', 0)
        """
        number = self._state.running_task(task)
        with self._state.undone_on_error(task_check=True):
            self._state.core.put_back(number)
        self._log({"call": "unplace", "task": task})

    # Read-only views

    @property
    def policy(self) -> Policy:
        """The policy.

        Examples
        --------
        >>> Scheduler(Cluster([Server({"cpu": 1})]), "fifo").policy.name
        'fifo'
        """
        return self._state.rules.policy

    @property
    def engine(self) -> str:
        """Which core decides: ``plain`` or ``indexed``. Both decide alike.

        Examples
        --------
        >>> Scheduler(Cluster([Server({"cpu": 1})])).engine
        'plain'
        """
        return self._state.engine

    @property
    def resources(self) -> tuple[str, ...]:
        """Names of the resources.

        Examples
        --------
        >>> Scheduler(Cluster([Server({"cpu": 1, "gpu": 2})])).resources
        ('cpu', 'gpu')
        """
        return self._state.units.resources

    @property
    def users(self) -> tuple[str, ...]:
        """Names of the users, in the order in which they were added.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 1})]))
        >>> scheduler.add_user("ann")
        >>> scheduler.users
        ('ann',)
        """
        return tuple(self._state.users)

    @property
    def servers(self) -> tuple[str, ...]:
        """Names of the servers that are up, in their order.

        Examples
        --------
        >>> Scheduler(Cluster([Server({"cpu": 1}, name="a", count=2)])).servers
        ('a/0', 'a/1')
        """
        pairs = zip(self._state.server_names, self._state.up, strict=True)
        return tuple(name for name, up in pairs if up)

    @property
    def evictions(self) -> int:
        """How often a task lost its server because that was removed or made smaller.

        Examples
        --------
        >>> Scheduler(Cluster([Server({"cpu": 1})])).evictions
        0
        """
        return self._state.evictions

    @property
    def log(self) -> Sequence[dict[str, Any]]:
        """Every call that changed something, in order, as plain data. The first entry starts it.

        :meth:`replay` runs it again. A copy, as long as the log; empty with ``log=False``.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 1})]))
        >>> scheduler.add_user("ann", weight=2)
        >>> scheduler.log[-1]
        {'call': 'add_user', 'name': 'ann', 'weight': 2.0}
        """
        return tuple(self._records)

    def state(self, task: str) -> str:
        """Return ``queued``, ``never``, ``running``, ``done`` or ``cancelled``.

        *Never*: no server that is up could hold it, even empty.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 1})]))
        >>> scheduler.add_user("ann")
        >>> names = scheduler.submit("large", "ann", {"cpu": 2})
        >>> scheduler.state("large")
        'never'
        """
        return self._state.task_state(task)

    def where(self, task: str) -> str | None:
        """Return the name of the server on which a task runs, or None.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 1}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> scheduler.adopt("t1", "ann", {"cpu": 1}, "a")
        >>> scheduler.where("t1")
        'a'
        """
        return self._state.where(task)

    def tasks(self, user: str | None = None) -> dict[str, str]:
        """Return the tasks that have not ended, of one user or of all, with their states.

        Those that run come first, then the others in the order of their queues.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 2})]))
        >>> scheduler.add_user("ann")
        >>> names = scheduler.submit("job", "ann", {"cpu": 1}, count=3)
        >>> placed = scheduler.place()
        >>> scheduler.tasks("ann")
        {'job/0': 'running', 'job/1': 'running', 'job/2': 'queued'}
        """
        return self._state.task_states(user)

    def running(self, user: str) -> int:
        """Return how many tasks of a user run.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 2}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> scheduler.running("ann")
        0
        """
        return self._state.core.counts(self._state.user(user))[0]

    def queued(self, user: str) -> int:
        """Return how many tasks of a user are queued, without those that never run.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 2})]))
        >>> scheduler.add_user("ann")
        >>> names = scheduler.submit("job", "ann", {"cpu": 1}, count=3)
        >>> scheduler.queued("ann")
        3
        """
        return self._state.core.counts(self._state.user(user))[1]

    def level(self, user: str) -> float:
        """Return the number by which the turn of a user comes, the lowest first.

        For ``drfh`` that is its global dominant share divided by its weight.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann", weight=2)
        >>> scheduler.adopt("t1", "ann", {"cpu": 1}, "a")
        >>> scheduler.level("ann")
        0.125
        """
        return float(self._state.core.level(self._state.user(user)))

    def share(self, user: str) -> float:
        """Return the global dominant share of a user: the largest part of a resource it holds.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4, "memory": 8}, name="a")]))
        >>> scheduler.add_user("ann", weight=2)
        >>> scheduler.adopt("t1", "ann", {"cpu": 1, "memory": 1}, "a")
        >>> scheduler.share("ann")
        0.25
        """
        return self._state.dominant(self._state.user(user))[1]

    def free(self, server: str) -> dict[str, float]:
        """Return what is free on a server; below 0 where adopted tasks overfill it.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4, "memory": "1Gi"}, name="a")]))
        >>> scheduler.free("a")
        {'cpu': 4.0, 'memory': 1073741824.0}
        """
        state = self._state
        return state.units.amounts(state.core.free(state.server(server)))

    def fits(self, task: str, server: str) -> bool:
        """Return whether a queued task would fit on a server now.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> names = scheduler.submit("t1", "ann", {"cpu": 8})
        >>> scheduler.fits("t1", "a")
        False
        """
        state = self._state
        return state.core.takes(state.task(task, "queued"), state.server(server))

    def evictions_of(self, task: str) -> int:
        """Return how often a task lost its server.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> scheduler.adopt("t1", "ann", {"cpu": 1}, "a")
        >>> scheduler.remove_server("a")
        ['t1']
        >>> scheduler.evictions_of("t1")
        1
        """
        self.state(task)
        return self._state.task_evictions.get(task, 0)

    def why(self, task: str) -> Why:
        """Say why a task waits, or why it never runs: what is missing where, and who is ahead.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> names = scheduler.submit("large", "ann", {"cpu": 8})
        >>> print(scheduler.why("large").text)
        large of ann never runs: it needs 8 cpu, and no server has more than 4 cpu.
        """
        return explain_task(self._state, task)

    def observed(self) -> list[dict[str, Any]]:
        """Return what each user holds on each server: rows for ``drfh.audit(observed=...)``.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4, "memory": 8}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> names = scheduler.submit("job", "ann", {"cpu": 1, "memory": 2}, count=2)
        >>> placed = scheduler.place()
        >>> scheduler.observed()
        [{'user': 'ann', 'server': 'a', 'cpu': 2.0, 'memory': 4.0}]
        """
        return self._state.observed()

    def status(self) -> dict[str, Any]:
        """Return all users and servers with their numbers, as plain data.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> scheduler.adopt("t1", "ann", {"cpu": 1}, "a")
        >>> status = scheduler.status()
        >>> status["users"]["ann"]["dominant_share"], status["servers"]["a"]
        (0.25, {'capacity': {'cpu': 4.0}, 'free': {'cpu': 3.0}, 'running': 1})
        """
        return self._state.status()

    # Snapshot and log

    def snapshot(self) -> dict[str, Any]:
        """Return the whole state as plain data, ready for JSON.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> names = scheduler.submit("t1", "ann", {"cpu": 1})
        >>> twin = Scheduler.restore(scheduler.snapshot())
        >>> twin.place() == scheduler.place()
        True
        """
        return write_snapshot(self._state)

    @classmethod
    def restore(
        cls,
        snapshot: Mapping[str, Any],
        *,
        policy: str | Policy | None = None,
        engine: Engine = "auto",
        log: bool | None = None,
        remember: bool = True,
    ) -> Scheduler:
        """Return a scheduler with the state of a snapshot, and the same future.

        Parameters
        ----------
        snapshot
            What :meth:`snapshot` returned. Predicates are kept as the servers that they accept.
        policy
            Needed if the policy has functions of your own: the same again. Otherwise left out.
        engine, log, remember
            As for :class:`Scheduler`. The log starts with the snapshot.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]), policy="mesos")
        >>> Scheduler.restore(scheduler.snapshot()).policy.name
        'mesos'
        """
        scheduler = cls.__new__(cls)
        scheduler._keeps_log = keeps_log(log, remember)
        scheduler._state = read_snapshot(snapshot, policy, engine)
        scheduler._state.remembers = bool(remember)
        scheduler._records = []
        if scheduler._keeps_log:  # not the caller's own lists, which may change
            scheduler._records.append({"call": "restore", "snapshot": scheduler.snapshot()})
        return scheduler

    @classmethod
    def replay(
        cls,
        log: Sequence[Mapping[str, Any]],
        *,
        policy: str | Policy | None = None,
        engine: Engine = "auto",
    ) -> Scheduler:
        """Make the calls of a log again and return the scheduler.

        Parameters
        ----------
        log
            What :attr:`log` has, also after a journey through JSON.
        policy, engine
            As for :meth:`restore`.

        Examples
        --------
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> names = scheduler.submit("t1", "ann", {"cpu": 1})
        >>> Scheduler.replay(scheduler.log).status() == scheduler.status()
        True
        """
        return replay(cls, log, policy, engine, lambda scheduler: scheduler._state)

    def _log(
        self, record: dict[str, Any], terms: Terms | None = None, known: int | None = None
    ) -> None:
        """Log a call that has succeeded; `known` predicates were there before it."""
        if not self._keeps_log:
            return
        if "demand" in record:
            record["demand"] = dict(record["demand"])  # the state keeps its own
        if terms is not None:
            record["servers"] = to_json(terms)
            new = self._state.restrictions.answers[known:]
            if new:
                record["accepted"] = [sorted(names) for names in new]
        self._records.append(record)
