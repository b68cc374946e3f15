"""``drfh.Scheduler``: the online brain with names. Events in, placements out; no clock, no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from drfh.errors import InputError
from drfh.formatting import format_count
from drfh.model.cluster import Cluster, check_name
from drfh.model.users import Restriction
from drfh.policies import Policy, find_policy
from drfh.scheduler.core import CoreState
from drfh.scheduler.desk import Engine
from drfh.scheduler.groups import Groups, read_groups, read_weight
from drfh.scheduler.log import first_record, replay
from drfh.scheduler.looking import Looking
from drfh.scheduler.nodes import Fleet
from drfh.scheduler.servers import ServerCalls
from drfh.scheduler.snapshot import restore, take
from drfh.scheduler.tasks import TaskCalls
from drfh.scheduler.units import Units

__all__ = ["Scheduler"]


class Scheduler(Looking, ServerCalls, TaskCalls):
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
        ``plain`` (small, in the open), ``indexed`` (fast on large clusters), or ``auto``. Both
        decide alike.
    groups
        The tree of users for ``hdrf``: ``{"vision": {"parent": "research", "weight": 2}}``.
        A group that is named as a parent and not listed has weight 1.
    log
        Whether to keep every call in :attr:`log`.
    remember
        Whether tasks that ended are remembered, so that nobody takes their names for new ones.
        False is for one that runs for months; it keeps no log.

    Examples
    --------
    >>> from drfh import Cluster, Server
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
        log: bool = True,
        remember: bool = True,
    ) -> None:
        if not isinstance(cluster, Cluster):
            raise InputError("cluster", "must be a drfh.Cluster", cluster)
        if log and not remember:
            raise InputError("log", "must be False with remember=False", log)
        tree = read_groups(groups)
        chosen = find_policy(policy)
        self._open(Fleet(cluster), Units.of(cluster), chosen, seed, engine, log)
        self._remembers = bool(remember)
        sizes = np.repeat(self._units.rows(cluster.capacity), cluster.counts, axis=0)
        self._totals = sizes.sum(axis=0).tolist()
        self._take_over(_empty(sizes.tolist(), seed))
        for name, (parent, weight) in tree.items():
            self._add_group(name, -1 if parent is None else self._groups[parent], weight)
        if log:
            self._records.append(first_record(cluster, chosen, seed, tree))

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
        name
            A name that no other user has.
        weight
            Entitlement relative to others, > 0.
        servers
            Where its tasks may run, as :class:`drfh.User` has it.
        parent
            The group of users above, for ``hdrf``.

        Examples
        --------
        >>> from drfh import Cluster, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann", servers="a")
        >>> scheduler.add_user("ann")
        Traceback (most recent call last):
        drfh.errors.InputError: user must be new, got 'ann'
        """
        check_name(name, "user")
        if name in self._users:
            raise InputError("user", "must be new", name)
        number = read_weight(weight)
        check_name(parent, "parent", optional=True)
        known = len(self._restrictions.answers)
        terms = self._restrictions.read(servers, f"servers of {name}")
        if parent is not None and parent not in self._groups:
            self._add_group(parent, -1, 1.0)
        group = -1 if parent is None else self._groups[parent]
        self._users[name] = self._core.add_user(number, group)
        self._user_names.append(name)
        self._weights.append(number)
        self._parents.append(parent)
        self._user_terms.append(terms)
        record = {"call": "add_user", "name": name, "weight": number}
        if parent is not None:
            record["parent"] = parent
        self._keep(record, terms, known)

    def set_weight(self, user: str, weight: float | str) -> None:
        """Change the weight of a user, from the next turn on.

        Examples
        --------
        >>> from drfh import Cluster, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> scheduler.set_weight("ann", 0)
        Traceback (most recent call last):
        drfh.errors.InputError: weight must be > 0, got 0
        """
        number, value = self._user(user), read_weight(weight)
        self._core.set_weight(number, value)
        self._weights[number] = value
        self._keep({"call": "set_weight", "user": user, "weight": value})

    def remove_user(self, user: str, *, cancel: bool = False) -> list[str]:
        """Remove a user; what it has queued is cancelled. Return the names of cancelled tasks.

        Parameters
        ----------
        user
            Who leaves.
        cancel
            Cancel its running tasks too. Otherwise a user with running tasks stays.

        Examples
        --------
        >>> from drfh import Cluster, Server
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
        number = self._user(user)
        runs = self._core.counts(number)[0]
        if runs and not cancel:
            rule = f"must have no running tasks to be removed (or cancel=True; {runs} run"
            raise InputError("user", f"{rule}{'s' * (runs == 1)})", user)
        names = list(self.tasks(user))
        for name in names:
            self._drop(name)
        del self._users[user]
        self._user_evictions.pop(user, None)
        self._keep({"call": "remove_user", "user": user, "cancel": bool(cancel)})
        return names

    # Saving

    def snapshot(self) -> dict[str, Any]:
        """Return the whole state as plain data, ready for JSON.

        Examples
        --------
        >>> from drfh import Cluster, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> names = scheduler.submit("t1", "ann", {"cpu": 1})
        >>> twin = Scheduler.restore(scheduler.snapshot())
        >>> twin.place() == scheduler.place()
        True
        """
        return take(self)

    def __repr__(self) -> str:
        servers, users = (
            format_count(sum(self._up), "server"),
            format_count(len(self._users), "user"),
        )
        running = sum(self.running(user) for user in self._users)
        tasks = f"{running:,} of {format_count(len(self._tasks), 'task')} running"
        return f"Scheduler({self.policy.name}, {servers}, {users}, {tasks})"

    @classmethod
    def restore(
        cls,
        snapshot: Mapping[str, Any],
        *,
        policy: str | Policy | None = None,
        engine: Engine = "auto",
        log: bool = True,
    ) -> Scheduler:
        """Return a scheduler with the state of a snapshot, and the same future.

        Parameters
        ----------
        snapshot
            What :meth:`snapshot` returned. Predicates are kept as the servers that they accept.
        policy
            Needed if the policy has functions of your own: the same again. Otherwise left out.
        engine, log
            As for :class:`Scheduler`. The log starts with the snapshot.

        Examples
        --------
        >>> from drfh import Cluster, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]), policy="mesos")
        >>> Scheduler.restore(scheduler.snapshot()).policy.name
        'mesos'
        """
        scheduler = cls.__new__(cls)
        restore(scheduler, snapshot, policy, engine, log)
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
        policy
            Needed if the policy has functions of your own: the same again. Otherwise left out.
        engine
            As for :class:`Scheduler`.

        Examples
        --------
        >>> from drfh import Cluster, Server
        >>> scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]))
        >>> scheduler.add_user("ann")
        >>> names = scheduler.submit("t1", "ann", {"cpu": 1})
        >>> Scheduler.replay(scheduler.log).status() == scheduler.status()
        True
        """
        return replay(cls, log, policy, engine)


def _empty(capacity: list[list[int]], seed: int) -> CoreState:
    """Return the state of a core that has only servers: all at once, not one by one."""
    return CoreState(
        weight=[], group=[], groups=[], capacity=capacity, need=[], restriction=[], allowed=[],
        tasks=[], user=[], shape=[], server=[], order=[], stamp=[],
        next_order=0, next_stamp=0, draws=seed,
    )  # fmt: skip
