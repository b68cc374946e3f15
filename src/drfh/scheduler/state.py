"""State of a scheduler: tables of names and numbers, and the core."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from operator import add
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from drfh.errors import DrfhError, InputError, UnknownNameError
from drfh.model.cluster import Cluster, Server, check_name
from drfh.model.resources import Units
from drfh.model.users import Restriction, parse_weight
from drfh.policies import Policy
from drfh.scheduler.core import NEVER, QUEUED, RUNNING, Core, CoreState
from drfh.scheduler.nodes import NodeEntry, NodeTable, Restrictions, Terms
from drfh.scheduler.plain import PlainCore
from drfh.scheduler.rules import Rules

__all__ = [
    "KEEP",
    "LARGEST_TOTAL",
    "Amounts",
    "Engine",
    "Groups",
    "Placed",
    "SchedulerState",
    "read_groups",
    "whole_number",
]

Amounts = Mapping[str, float | str]
Engine = Literal["auto", "plain", "indexed"]
Groups = Mapping[str, Mapping[str, Any]]

_STATES = {QUEUED: "queued", NEVER: "never", RUNNING: "running"}
_ENGINES = ("auto", "plain", "indexed")
_MOST_KNOWN_DEMANDS = 2**16
_MOST_NAMES_COMPARED = 1000  # finding the nearest of a million takes minutes
_MOST_TASKS = 2**31
_SMALL_CLUSTER = 64  # so many servers are searched faster than an index is kept
_LARGEST_SERVER = 2**50


class _Keep:
    def __repr__(self) -> str:
        return "as it is"


#: Units of a resource on all servers: so far sums of them are exact in float64.
LARGEST_TOTAL = 2**52

#: Default of an argument: what it was before.
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


class SchedulerState:
    """Users, servers and tasks by name and number, and the core.

    Attributes
    ----------
    rules : Rules
        The policy on the resources of the cluster.
    engine : str
        ``plain`` or ``indexed``.
    core : Core
        Decides in numbers.
    nodes, units, restrictions
        Tables of servers, sizes of units, and sets of servers.
    up : list of bool
        Whether each server is there, by number.
    totals : list of int
        Units of all servers that are up, by resource.
    groups, group_rows
        Number of each group of users; parent and weight by number.
    users : dict
        Number of each user who is there. Users who left keep their numbers in the lists
        `user_names`, `weights`, `parents` and `user_terms`.
    tasks : dict
        Number of each task that is queued or running; `task_names` and `owners` by number.
    ended : dict
        ``done`` or ``cancelled`` by name, if ended tasks are remembered.
    needs, demands
        Units and restriction of each shape; its demand as the log has it.
    evictions : int
        Of all tasks; also by user and by task.
    """

    def __init__(
        self, nodes: NodeTable, units: Units, policy: Policy, seed: int, engine: str
    ) -> None:
        if engine not in _ENGINES:
            raise UnknownNameError("engine", str(engine), _ENGINES)
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**64:
            raise InputError("seed", "must be a whole number from 0 to 2**64 − 1", seed)
        self.rules = Rules(policy, units.resources, units.sizes, seed)
        self.engine = _chosen_engine(engine, self.rules, len(nodes.entries))
        self.core = self._new_core()
        self.nodes, self.units = nodes, units
        self.restrictions = Restrictions(nodes)
        self.server_names = [entry.name for entry in nodes.entries]
        self.up = [True] * len(nodes.entries)
        self.totals = [0] * len(units.resources)
        self.groups: dict[str, int] = {}
        self.group_rows: list[tuple[int, float]] = []
        self.users: dict[str, int] = {}
        self.user_names: list[str] = []
        self.weights: list[float] = []
        self.parents: list[str | None] = []
        self.user_terms: list[Terms | None] = []
        self.tasks: dict[str, int] = {}
        self.task_names: list[str] = []
        self.owners: list[str] = []
        self.ended: dict[str, str] = {}
        self.remembers = True
        self.needs: list[tuple[tuple[int, ...], int]] = []
        self.demands: list[dict[str, float]] = []
        self.evictions = 0
        self.user_evictions: dict[str, int] = {}
        self.task_evictions: dict[str, int] = {}
        self._shapes: dict[tuple[tuple[int, ...], int], int] = {}
        self._known_demands: dict[Any, int] = {}

    @classmethod
    def of_cluster(cls, cluster: Cluster, policy: Policy, seed: int, engine: str) -> SchedulerState:
        """Return the state with the servers of a cluster alone."""
        state = cls(NodeTable(cluster), Units.of(cluster), policy, seed, engine)
        sizes = np.repeat(state.units.rows(cluster.capacity), cluster.counts, axis=0)
        state.totals = sizes.sum(axis=0).tolist()
        only_servers = CoreState(
            weight=[], group=[], groups=[], capacity=sizes.tolist(), need=[], restriction=[],
            allowed=[], tasks=[], user=[], shape=[], server=[], order=[], stamp=[],
            next_order=0, next_stamp=0, draws=seed,
        )  # fmt: skip
        state.load_core(only_servers)
        return state

    def _new_core(self) -> Core:
        if self.engine == "indexed":
            from drfh.scheduler.indexed import IndexedCore  # brings numba: only when needed

            return IndexedCore(self.rules)
        plain = PlainCore(self.rules)
        # Methods, not lambdas: a copy of the state asks the copy.
        plain.user_name, plain.server_name = self._user_name, self._server_name
        return plain

    def _user_name(self, user: int) -> str:
        return self.user_names[user]

    def _server_name(self, server: int) -> str:
        return self.server_names[server]

    def load_core(self, state: CoreState) -> None:
        """Replace the core by a new one of this state, tasks renumbered."""
        names, owners = self.task_names, self.owners
        core = self._new_core()
        core.load(state)
        self.core = core
        self.task_names = [names[task] for task in state.tasks]
        self.owners = [owners[task] for task in state.tasks]
        self.tasks = {name: task for task, name in enumerate(self.task_names)}

    # Names to numbers

    def user(self, name: str) -> int:
        """Return the number of a user."""
        number = self.users.get(name) if isinstance(name, str) else None
        if number is None:
            raise UnknownNameError("user", str(name), self.users)
        return number

    def server(self, name: str) -> int:
        """Return the number of a server that is up."""
        position = self.nodes.position.get(name) if isinstance(name, str) else None
        if position is None:
            known = [n for n, up in zip(self.server_names, self.up, strict=True) if up]
            raise UnknownNameError("server", str(name), known)
        if not self.up[position]:
            raise InputError("server", "must be up (it was removed)", name)
        return position

    def task(self, name: str, required: str) -> int:
        """Return the number of a queued or running task."""
        number = self.tasks.get(name) if isinstance(name, str) else None
        if number is not None:
            return number
        if isinstance(name, (list, tuple, set)):
            raise InputError("task", "must be a name (unpack a list of them: *tasks)", name)
        ended = self.ended.get(name) if isinstance(name, str) else None
        if ended is None and len(self.tasks) > _MOST_NAMES_COMPARED:
            raise InputError("task", "must be one that was submitted", name)
        if ended is None:
            raise UnknownNameError("task", str(name), self.tasks)
        raise InputError("task", f"must be {required} (it is {ended})", name)

    def running_task(self, name: str) -> int:
        """Return the number of a running task."""
        number = self.task(name, "running")
        if self.core.state(number) != RUNNING:
            rule = f"must be running (it is {_STATES[self.core.state(number)]})"
            raise InputError("task", rule, name)
        return number

    def task_state(self, name: str) -> str:
        """Return ``queued``, ``never``, ``running``, ``done`` or ``cancelled``."""
        if isinstance(name, str) and name in self.ended:
            return self.ended[name]
        return _STATES[self.core.state(self.task(name, "known"))]

    # Views

    def task_states(self, user: str | None) -> dict[str, str]:
        """Return open tasks with their states, running ones first."""
        core = self.core
        users = self.users.values() if user is None else [self.user(user)]
        of_them = set(users)
        runs = [
            name
            for name, task in self.tasks.items()
            if core.user_of(task) in of_them and core.state(task) == RUNNING
        ]
        waiting = [self.task_names[task] for number in users for task in core.queue_of(number)]
        return dict.fromkeys(runs, "running") | {
            name: _STATES[core.state(self.tasks[name])] for name in waiting
        }

    def where(self, name: str) -> str | None:
        """Return the server on which a task runs, or None."""
        if isinstance(name, str) and name in self.ended:
            return None
        server = self.core.server_of(self.task(name, "known"))
        return None if server < 0 else self.server_names[server]

    def placed(self, tasks: Sequence[int], servers: Sequence[int]) -> list[Placed]:
        """Return tasks and where they start, by name."""
        names = map(self.task_names.__getitem__, tasks)
        owners = map(self.owners.__getitem__, tasks)
        return list(map(Placed, names, owners, map(self.server_names.__getitem__, servers)))

    def observed(self) -> list[dict[str, Any]]:
        """Return what each user holds on each server, as rows by column name."""
        core = self.core
        held: dict[tuple[int, int], list[int]] = {}
        for task in self.tasks.values():
            server = core.server_of(task)
            if server >= 0:
                need = self.needs[core.shape_of(task)][0]
                row = held.setdefault((core.user_of(task), server), [0] * len(need))
                row[:] = map(add, row, need)
        return [
            {
                "user": self.user_names[user],
                "server": self.server_names[server],
                **self.units.amounts(row),
            }
            for (user, server), row in sorted(held.items())
        ]

    def dominant(self, user: int) -> tuple[str | None, float]:
        """Return the dominant resource of a user, and its part of it."""
        name, most = None, 0.0
        rows = zip(self.units.resources, self.core.usage(user), self.totals, strict=True)
        for resource, amount, total in rows:
            share = amount / total if total > 0 else 0.0
            if share > most:
                name, most = resource, share
        return name, most

    def status(self) -> dict[str, Any]:
        """Return all users and servers with their numbers, as plain data."""
        core, amounts = self.core, self.units.amounts
        users: dict[str, dict[str, Any]] = {}
        for name, user in self.users.items():
            running, queued, never = core.counts(user)
            resource, share = self.dominant(user)
            users[name] = {
                "weight": self.weights[user],
                "level": float(core.level(user)),
                "dominant_share": share,
                "dominant_resource": resource,
                "running": running,
                "queued": queued,
                "never": never,
                "evictions": self.user_evictions.get(name, 0),
            }
        servers = {
            name: {
                "capacity": amounts(core.capacity(server)),
                "free": amounts(core.free(server)),
                "running": len(core.running_on(server)),
            }
            for server, name in enumerate(self.server_names)
            if self.up[server]
        }
        total = {
            key: sum(user[key] for user in users.values()) for key in ("running", "queued", "never")
        }
        ended = list(self.ended.values())
        total |= {how: ended.count(how) for how in ("done", "cancelled")}
        return {
            "policy": self.rules.policy.name,
            "users": users,
            "servers": servers,
            "tasks": total,
            "evictions": self.evictions,
        }

    # Users

    def add_group(self, name: str, parent: str | None, weight: float) -> None:
        """Add a group of users below another one, or below the root."""
        above = -1 if parent is None else self.groups[parent]
        self.groups[name] = len(self.group_rows)
        self.group_rows.append((above, weight))
        if self.rules.mode == "tree":  # no other turn asks for it
            self.core.add_group(above, weight)

    def add_user(self, name: str, weight: float, parent: str | None, terms: Terms | None) -> None:
        """Add a user, and its group if that is new."""
        if parent is not None and parent not in self.groups:
            self.add_group(parent, None, 1.0)
        group = -1 if parent is None else self.groups[parent]
        self.users[name] = self.core.add_user(weight, group)
        self.user_names.append(name)
        self.weights.append(weight)
        self.parents.append(parent)
        self.user_terms.append(terms)

    # Tasks

    def new_names(self, task: str, count: int) -> tuple[str, ...]:
        """Return the names of `count` new tasks."""
        check_name(task, "task")
        if not task.isprintable():
            raise InputError("task", "must have a name of printable characters", task)
        number = 1 if type(count) is int and count == 1 else whole_number(count, "count", 1)
        names = (task,) if number == 1 else tuple(f"{task}/{i}" for i in range(number))
        for name in names:
            if name in self.tasks or name in self.ended:
                raise InputError("task", "must have a name that was never used", name)
        return names

    def add_tasks(self, names: Sequence[str], user: str, first: int) -> None:
        """Enter tasks that the core numbered from `first` on."""
        self.tasks.update(zip(names, range(first, first + len(names)), strict=True))
        self.task_names.extend(names)
        self.owners.extend([user] * len(names))

    def named_once(self, names: Sequence[str]) -> None:
        """Raise if a name occurs twice."""
        if len(names) > 1 and len(set(names)) != len(names):
            raise InputError("task", "must be named once", Counter(names).most_common(1)[0][0])

    def end_task(self, name: str, ended: str) -> None:
        """Take a task out of the tables; the core has dropped it."""
        del self.tasks[name]
        if self.remembers:
            self.ended[name] = ended

    def drop_task(self, name: str) -> None:
        """Cancel a task, queued or running."""
        number = self.tasks[name]
        runs = self.core.state(number) == RUNNING
        (self.core.finish if runs else self.core.cancel)(number)
        self.end_task(name, "cancelled")

    def update_task(
        self, name: str, demand: Amounts | None, servers: Any
    ) -> tuple[int, Terms | None]:
        """Change a queued task; return its shape and the terms of its restriction."""
        core = self.core
        number = self.task(name, "queued")
        if core.state(number) == RUNNING:
            raise InputError("task", "must be queued (it is running)", name)
        need, restriction = self.needs[core.shape_of(number)]
        if demand is not None:
            need = tuple(self.units.demand(demand))
        own = self.restrictions.pair(restriction)[1]
        with self.undone_on_error(task_check=True):
            if servers is not KEEP:
                own = self.restrictions.read(servers, f"servers of {name}")
            shape = self.shape_number(need, (self.user_terms[core.user_of(number)], own))
            core.update(number, shape)
        return shape, own

    def count_evictions(self, names: Sequence[str]) -> None:
        """Count tasks that lost their servers."""
        for name in names:
            owner = self.owners[self.tasks[name]]
            self.user_evictions[owner] = self.user_evictions.get(owner, 0) + 1
            self.task_evictions[name] = self.task_evictions.get(name, 0) + 1
        self.evictions += len(names)

    # Shapes of tasks

    def shape(
        self, user: int, demand: Amounts, servers: Restriction | None
    ) -> tuple[int, Terms | None]:
        """Return the shape of a task, and the terms of its restriction."""
        key = None
        if servers is None and type(demand) is dict:
            values = demand.values()
            # With the types: True is no amount, but it equals 1.
            key = (user, *demand, *values, *map(type, values))
            try:
                known = self._known_demands.get(key)
            except TypeError:  # an unhashable value: the reader below has the error
                key = known = None
            if known is not None:
                return known, None
        need = tuple(self.units.demand(demand))
        terms = self.restrictions.read(servers)
        shape = self.shape_number(need, (self.user_terms[user], terms))
        if key is not None:
            if len(self._known_demands) >= _MOST_KNOWN_DEMANDS:
                self._known_demands.clear()
            self._known_demands[key] = shape
        return shape, terms

    def shape_number(self, need: tuple[int, ...], pair: tuple[Terms | None, Terms | None]) -> int:
        """Return the number of a shape, which is added if new."""
        restriction = self.restrictions.find(pair)
        if restriction is None:
            row = self.restrictions.both(*pair)
            self.core.add_restriction(row)
            restriction = self.restrictions.add(pair, row)
        shape = self._shapes.get((need, restriction))
        if shape is None:
            shape = self.core.add_shape(need, restriction)
            self.enter_shape(need, restriction)
        return shape

    def enter_shape(self, need: tuple[int, ...], restriction: int) -> None:
        """Enter the shape with the next number of the core."""
        self._shapes[need, restriction] = len(self.needs)
        self.needs.append((need, restriction))
        self.demands.append(self.amounts(need))

    def amounts(self, row: Sequence[int]) -> dict[str, float]:
        """Return the amounts that are not 0, as people write them."""
        return {name: amount for name, amount in self.units.amounts(row).items() if amount}

    # Servers

    def size(self, resources: Amounts) -> list[int]:
        """Read the size of a server."""
        size = self.units.capacity(resources)
        for name, unit, amount in zip(self.units.resources, self.units.sizes, size, strict=True):
            if amount >= _LARGEST_SERVER:
                rule = f"must be below {_LARGEST_SERVER * unit:g} on this cluster"
                raise InputError(f"resources.{name}", rule, resources[name])
        return size

    def new_totals(self, size: Sequence[int], position: int | None = None) -> list[int]:
        """Return the totals once a server, known or new, has this size."""
        old = [0] * len(size) if position is None else self.core.capacity(position)
        totals = [t - o + n for t, o, n in zip(self.totals, old, size, strict=True)]
        for name, unit, total in zip(self.units.resources, self.units.sizes, totals, strict=True):
            if total > LARGEST_TOTAL:
                rule = f"must be at most {LARGEST_TOTAL * unit:g} on this cluster"
                raise InputError(f"total of {name}", rule, total * unit)
        return totals

    def add_server(
        self,
        name: str,
        resources: Amounts,
        labels: Mapping[str, str] | None,
    ) -> tuple[NodeEntry, list[int]]:
        """Add a server; return its entry and the predicates that accept it."""
        check_name(name, "server")
        old = self.nodes.position.get(name)
        if old is not None and self.up[old]:
            raise InputError("server", "must be new", name)
        if old is None and any(entry.group == name for entry in self.nodes.entries):
            raise InputError("server", "must not be the name of a group of servers", name)
        size = self.size(resources)
        totals = self.new_totals(size)
        record = Server(self.amounts(size), name=name, labels=labels)
        accepting = self.restrictions.ask(name, record)
        before = None if old is None else self.nodes.entries[old]
        position = self.nodes.add(name, record)
        column = self.restrictions.column(position, accepting)
        try:
            with self.undone_on_error():
                if old is None:
                    self.server_names.append(name)
                    self.core.add_server(size, column)
                elif (rows := self.restrictions.rows_with(position, column)) is None:
                    self.core.set_capacity(position, size)
                else:
                    # It came back with other labels: a core cannot change who may use a server.
                    state = replace(self.core.dump(), allowed=rows)
                    state.capacity[position] = size
                    self.load_core(state)
        except DrfhError:
            if before is None:
                self.server_names.pop()
                self.nodes.entries.pop()
                del self.nodes.position[name]
            else:
                self.nodes.entries[position] = before
            raise
        self.totals = totals
        if old is None:
            self.up.append(True)
        self.up[position] = True
        self.restrictions.settle(position, accepting, column)
        return self.nodes.entries[position], accepting

    def remove_server(self, name: str) -> list[str]:
        """Remove a server, put its tasks back and return their names."""
        position = self.server(name)
        zeros = [0] * len(self.totals)
        totals = self.new_totals(zeros, position)
        tasks = self.core.running_on(position)
        names = [self.task_names[task] for task in tasks]
        with self.undone_on_error():
            for task in tasks:
                self.core.put_back(task)
            self.core.set_capacity(position, zeros)
        self.totals = totals
        self.up[position] = False
        self.count_evictions(names)
        return names

    def resize_server(self, name: str, resources: Amounts) -> tuple[dict[str, float], list[str]]:
        """Resize a server; return its size and the tasks put back."""
        position = self.server(name)
        size = self.size(resources)
        totals = self.new_totals(size, position)
        old = self.core.capacity(position)
        names = []
        with self.undone_on_error():
            self.core.set_capacity(position, size)
            if any(new < was for new, was in zip(size, old, strict=True)):
                while self.core.overfull(position):
                    last = self.core.running_on(position)[-1]
                    names.append(self.task_names[last])
                    self.core.put_back(last)
        self.totals = totals
        entry = self.nodes.entries[position]
        amounts = self.amounts(size)
        record = Server(amounts, name=entry.record.name, labels=entry.record.labels)
        self.nodes.add(name, record, entry.group)
        self.count_evictions(names)
        return amounts, names

    # Errors of a policy's own functions

    @contextmanager
    def undone_on_error(self, *, task_check: bool = False) -> Iterator[None]:
        """Undo all steps if a function of the policy raises.

        With `task_check` only the policy's own check of tasks is called here.
        """
        core, policy = self.core, self.rules.policy
        calls = policy.fits is not None if task_check else bool(policy.own)
        if not calls or not isinstance(core, PlainCore):
            yield
            return
        before, known, shapes = core.copy(), self.restrictions.known, len(self.needs)
        try:
            yield
        except Exception as error:
            self.core = before
            self.restrictions.forget(known)
            for need in self.needs[shapes:]:
                del self._shapes[need]
            del self.needs[shapes:], self.demands[shapes:]
            self._known_demands.clear()
            if isinstance(error, DrfhError):
                raise
            rule = f"must have functions that accept everything ({type(error).__name__}: {error})"
            raise InputError("policy", rule) from error


def _chosen_engine(engine: str, rules: Rules, servers: int) -> str:
    cannot = bool(rules.policy.own) or rules.turn == "hdrf"
    if engine == "indexed" and cannot:
        rule = "must be plain or auto for hdrf and for a policy with functions of your own"
        raise InputError("engine", rule, engine)
    if engine == "auto":
        return "plain" if cannot or servers <= _SMALL_CLUSTER else "indexed"
    return engine


def whole_number(value: Any, field: str, least: int) -> int:
    """Check a number of tasks."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InputError(field, f"must be a whole number ≥ {least}", value)
    if not least <= value < _MOST_TASKS:
        raise InputError(field, f"must be a whole number from {least} to 2**31 − 1", value)
    return int(value)


def read_groups(groups: Groups | None) -> dict[str, tuple[str | None, float]]:
    """Return parent and weight of each group of users, parents before children.

    Groups that are only named as a parent have weight 1.

    Examples
    --------
    >>> read_groups({"vision": {"parent": "research", "weight": 2}})
    {'research': (None, 1.0), 'vision': ('research', 2.0)}
    """
    if groups is None:
        return {}
    if not isinstance(groups, Mapping):
        raise InputError("groups", "must map names of groups to their parent and weight", groups)
    given: dict[str, tuple[str | None, float]] = {}
    for name, fields in groups.items():
        check_name(name, "name of a group")
        if not isinstance(fields, Mapping):
            raise InputError(f"groups.{name}", "must have a parent, a weight or both", fields)
        for key in fields:
            if key not in ("parent", "weight"):
                raise UnknownNameError(f"groups.{name}", str(key), ["parent", "weight"])
        above = fields.get("parent")
        check_name(above, f"groups.{name}.parent", optional=True)
        given[name] = above, parse_weight(fields.get("weight", 1.0), f"groups.{name}.weight")
    ordered: dict[str, tuple[str | None, float]] = {}
    for name in given:
        path: list[str] = []
        at: str | None = name
        while at is not None and at not in ordered:
            if at in path:
                raise InputError(f"groups.{at}", "must not be above itself")
            path.append(at)
            at = given.get(at, (None, 1.0))[0]
        for below in reversed(path):
            ordered[below] = given.get(below, (None, 1.0))
    return ordered
