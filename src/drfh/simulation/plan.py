"""Plan of a simulation: a workload as arrays, and its core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from drfh.errors import InputError, UnknownNameError
from drfh.model.cluster import Cluster, Server
from drfh.model.jobs import AddServers, RemoveServers, ServerEvent, Workload, everything_up
from drfh.model.resources import LARGEST_AMOUNT, Units
from drfh.model.users import Restriction
from drfh.policies import Policy
from drfh.scheduler.core import Core, CoreState
from drfh.scheduler.nodes import NodeTable
from drfh.scheduler.plain import PlainCore
from drfh.scheduler.rules import Rules

__all__ = [
    "ENGINES",
    "Engine",
    "Plan",
    "ServerChange",
    "apply_change",
    "build",
    "has_predicate",
    "make_plan",
    "resolve_allowed",
    "resolve_changes",
    "units_of",
]


Bools: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ServerChange:
    """At `time` the servers at `positions` have `capacity` (units; 0: down)."""

    time: float
    kind: Literal["add", "remove", "resize"]
    positions: tuple[int, ...]
    capacity: tuple[int, ...]


def units_of(cluster: Cluster, events: Sequence[ServerEvent]) -> Units:
    """Return the units of a cluster and of resources that come later.

    Examples
    --------
    >>> new = AddServers(60, Server({"gpu": 8}, name="new"))
    >>> units_of(Cluster([Server({"cpu": 8})]), [new]).resources
    ('cpu', 'gpu')
    """
    units = Units.of(cluster)
    if not events:
        return units
    every = everything_up(cluster, events)
    later = Units.of(every)
    size = dict(zip(later.resources, later.sizes, strict=True))
    largest = dict(zip(every.resources, every.totals.tolist(), strict=True))
    own = zip(units.resources, units.sizes, cluster.totals.tolist(), strict=True)
    # The same integers as a scheduler on this cluster has, unless the pool outgrows them.
    size |= {
        name: unit
        for name, unit, total in own
        if total > 0 and largest.get(name, 0.0) / unit < LARGEST_AMOUNT
    }
    names = (*units.resources, *(name for name in later.resources if name not in units.resources))
    return Units(names, tuple(size[name] for name in names))


def resolve_changes(
    nodes: NodeTable, events: Sequence[ServerEvent], units: Units, *, by_size: bool
) -> list[ServerChange]:
    """Add the servers of events to the nodes; return server changes.

    Parameters
    ----------
    nodes
        The servers at the start; the later ones are put into it.
    events
        Checked, and ordered by time.
    units
        Of all resources.
    by_size
        Whether some restriction looks at the size of a server (a predicate may).
    """
    up = dict(nodes.position)
    groups = {position: entry.group for position, entry in enumerate(nodes.entries)}
    changes: list[ServerChange] = []
    for event in events:
        if isinstance(event, AddServers):
            record = event.server
            names = [str(record.name)]
            if record.count > 1:
                names = [f"{record.name}/{index}" for index in range(record.count)]
            positions = tuple(_enter(nodes, name, record, by_size) for name in names)
            up.update(zip(names, positions, strict=True))
            groups.update(dict.fromkeys(positions, str(record.name)))
            row = units.capacity(record.resources)
            changes.append(ServerChange(event.time, "add", positions, tuple(row)))
            continue
        names = _names_up(event.name, up, groups)
        positions = tuple(up[name] for name in names)
        if isinstance(event, RemoveServers):
            for name in names:
                del up[name]
            nothing = (0,) * len(units.resources)
            changes.append(ServerChange(event.time, "remove", positions, nothing))
        else:
            row = units.capacity(event.resources)
            changes.append(ServerChange(event.time, "resize", positions, tuple(row)))
    return changes


def _enter(nodes: NodeTable, name: str, record: Server, by_size: bool) -> int:
    """Return the place of a server that comes: its old one, unless others may use it now."""
    old = nodes.position.get(name)
    if old is not None:
        before = nodes.entries[old].record
        sizes_differ = by_size and before.resources != record.resources
        if before.labels != record.labels or sizes_differ:
            del nodes.position[name]
    return nodes.add(name, record, str(record.name))


def _names_up(name: str, up: dict[str, int], groups: dict[int, str]) -> list[str]:
    if name in up:
        return [name]
    group, _, index = name.rpartition("/")
    if index == "0" and group in up:  # the only server of its group
        return [group]
    return [server for server, position in up.items() if groups[position] == name]


def resolve_allowed(
    nodes: NodeTable, restriction: Restriction, owner: str, *, changes: bool = False
) -> Bools:
    """Return for each server whether a restriction allows it."""
    field = f"servers of {owner}"
    terms = restriction if isinstance(restriction, tuple) else (restriction,)
    known = tuple(_as_here(term, nodes) if isinstance(term, str) else term for term in terms)
    if not changes:
        return np.array(nodes.allowed(known, field), dtype=bool)
    # One by one: a name may have been that of a server, and later of a group or another server.
    every = range(len(nodes.entries))
    return np.array([nodes.allows(known, position, field) for position in every], dtype=bool)


def _as_here(name: str, nodes: NodeTable) -> str:
    """Return ``big`` for ``big/0`` where that is the only one."""
    group, _, index = name.rpartition("/")
    return (
        group if index == "0" and name not in nodes.position and group in nodes.position else name
    )


def apply_change(core: Core, change: ServerChange) -> list[int]:
    """Change the servers of a core; return the tasks put back."""
    evicted: list[int] = []
    for server in change.positions:
        shrinks = any(
            new < old for new, old in zip(change.capacity, core.capacity(server), strict=True)
        )
        core.set_capacity(server, change.capacity)
        newest_first = core.running_on(server)[::-1] if shrinks else []
        for task in newest_first:
            if change.kind != "remove" and not core.overfull(server):
                break
            core.put_back(task)
            evicted.append(task)
    return evicted


def has_predicate(workload: Workload) -> bool:
    """Return whether some restriction is a Python function."""
    everyone = (*(user.servers for user in workload.users), *workload.restrictions)
    return any(callable(term) for terms in everyone for term in terms or ())  # type: ignore[union-attr]


Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Engine: TypeAlias = Literal["auto", "plain", "indexed"]

ENGINES: tuple[Engine, ...] = ("auto", "plain", "indexed")

# Tasks × servers up to which the plain core is done before the indexed one is loaded, for few
# users. With more it takes longer: when a task ends, everybody who waits may be asked again.
_SMALL_WORK = 200_000
_FEW_USERS = 5


@dataclass(frozen=True, eq=False)
class Plan:
    """What is submitted when, as arrays in order of submission.

    A *batch* is a number of equal tasks that arrive together. Tasks are numbered batch by batch,
    which is how a core numbers them. A *pair* is a user with one of its shapes.

    Attributes
    ----------
    user, shape, job, count, first : int array, batches
        Position of the user, the core's shape, the job; how many tasks, and the first of them.
    arrival : float array, batches
        In seconds, never falling.
    duration : float array, tasks
        In seconds.
    source : int array, batches
        Number of the batch in the workload.
    pair : int array, batches
        Number of the pair.
    pair_user, pair_shape : int array, pairs
        Its user and its shape.
    job_size : int array, jobs
        How many tasks a job has.
    weight : float array, users
        Entitlement.
    need : int array, shapes × resources
        What a task needs, in units.
    restriction : int array, shapes
        Row of `allowed`.
    allowed : bool array, restrictions × servers
        The first row is all true.
    capacity : int array, servers × resources
        At the start; all zeros for those that come later.
    changes : tuple
        What happens to the servers, ordered by time.
    """

    user: Ints
    shape: Ints
    job: Ints
    count: Ints
    first: Ints
    arrival: Floats
    duration: Floats
    source: Ints
    pair: Ints
    pair_user: Ints
    pair_shape: Ints
    job_size: Ints
    weight: Floats
    need: Ints
    restriction: Ints
    allowed: Bools
    capacity: Ints
    changes: tuple[ServerChange, ...]

    @cached_property
    def batch(self) -> Ints:
        """Batch of each task."""
        return np.repeat(np.arange(len(self.count), dtype=np.int64), self.count)

    @cached_property
    def task_source(self) -> Ints:
        """Number of each task in the workload."""
        return _places(self.first, self.count, self._workload_first)

    @cached_property
    def _workload_first(self) -> Ints:
        count = np.empty_like(self.count)
        count[self.source] = self.count
        first: Ints = np.cumsum(count) - count
        return first[self.source]


def _places(first: Ints, count: Ints, start: Ints) -> Ints:
    """Return, for tasks in order of submission, their places where batches begin at `start`."""
    places: Ints = np.repeat(start - first, count) + np.arange(int(count.sum()), dtype=np.int64)
    return places


def build(
    cluster: Cluster, workload: Workload, policy: Policy, seed: int = 0, engine: Engine = "auto"
) -> tuple[Core, Plan, NodeTable, Units]:
    """Return an empty core with the servers, and the plan.

    Parameters
    ----------
    cluster, workload
        Checked against each other.
    policy
        What the core carries out.
    seed
        Start of its draws.
    engine
        ``"plain"``, ``"indexed"``, or ``"auto"`` for the one that is done sooner.

    Examples
    --------
    >>> from drfh import Job, Server
    >>> workload = Workload(["ann"], [Job("ann", demand={"cpu": 1}, duration=9, arrival=5),
    ...                               Job("ann", demand={"cpu": 2}, duration=7, tasks=2)])
    >>> core, plan, nodes, units = build(Cluster([Server({"cpu": 4})]), workload, Policy())
    >>> plan.arrival.tolist(), plan.count.tolist(), plan.duration.tolist()
    ([0.0, 5.0], [2, 1], [7.0, 7.0, 9.0])
    """
    units = units_of(cluster, workload.events)
    rules = Rules(policy, units.resources, units.sizes, seed)
    plan, nodes = make_plan(cluster, workload, units)
    work = len(plan.duration) * len(plan.capacity)
    core = _core(rules, engine, work * max(1, len(workload.users) // _FEW_USERS))
    groups: dict[str, int] = {}
    for user in workload.users:
        if user.parent is not None:
            groups.setdefault(user.parent, len(groups))
    core.load(
        CoreState(
            weight=plan.weight.tolist(),
            group=[-1 if u.parent is None else groups[u.parent] for u in workload.users],
            groups=[(-1, 1.0)] * len(groups),
            capacity=plan.capacity.tolist(),
            need=plan.need.tolist(),
            restriction=plan.restriction.tolist(),
            allowed=plan.allowed[1:].tolist(),
            tasks=[], user=[], shape=[], server=[], order=[], stamp=[],
            next_order=0, next_stamp=0, draws=seed,
        )
    )  # fmt: skip
    if isinstance(core, PlainCore):  # whose policy may have functions that look at names
        core.user_name = [user.name for user in workload.users].__getitem__
        core.server_name = [entry.name for entry in nodes.entries].__getitem__
    return core, plan, nodes, units


def _core(rules: Rules, engine: Engine, work: int) -> Core:
    if engine not in ENGINES:
        raise UnknownNameError("engine", str(engine), ENGINES)
    only_plain = bool(rules.policy.own) or rules.mode == "tree"
    if engine == "indexed" and only_plain:
        why = "functions of its own" if rules.policy.own else "the turn hdrf"
        raise InputError("engine", f"must be plain for a policy with {why}", engine)
    if engine == "plain" or only_plain or (engine == "auto" and work < _SMALL_WORK):
        return PlainCore(rules)
    from drfh.scheduler.indexed import IndexedCore  # loads numba

    return IndexedCore(rules)


def make_plan(cluster: Cluster, workload: Workload, units: Units) -> tuple[Plan, NodeTable]:
    """Return the plan and the servers, those that come later included."""
    nodes = NodeTable(cluster)
    start = len(nodes.entries)
    changes = resolve_changes(
        nodes, workload.events, units, by_size=bool(workload.events) and has_predicate(workload)
    )
    capacity = np.zeros((len(nodes.entries), len(units.resources)), dtype=np.int64)
    column = [units.resources.index(name) for name in cluster.resources]
    sizes = np.zeros((len(cluster), len(units.resources)))
    sizes[:, column] = cluster.capacity
    capacity[:start] = np.repeat(units.rows(sizes), cluster.counts, axis=0)
    allowed, of_user, of_shape = _restrictions(workload, nodes)

    # A core's shape is the workload's together with what the user is restricted to.
    demand = np.zeros((len(workload.demand), len(units.resources)))
    for index, name in enumerate(workload.resources):
        if name in units.resources:  # else nobody demands it
            demand[:, units.resources.index(name)] = workload.demand[:, index]
    need = units.rows(demand)
    _check_need(workload, units, demand, need)
    order = np.argsort(workload.batch_arrival, kind="stable")
    user = workload.batch_user[order]
    base = workload.batch_shape[order]
    key = base * len(allowed) + of_user[user]
    kinds, shape = np.unique(key, return_inverse=True)
    shape = shape.reshape(-1).astype(np.int64)
    own, limit = kinds // len(allowed), kinds % len(allowed)
    rows: dict[bytes, int] = {row.tobytes(): number for number, row in enumerate(allowed)}
    both = list(allowed)
    restriction = np.zeros(len(kinds), dtype=np.int64)
    for number, (a, b) in enumerate(zip(of_shape[own], limit, strict=True)):
        row = allowed[a] & allowed[b]
        restriction[number] = rows.setdefault(row.tobytes(), len(both))
        if restriction[number] == len(both):
            both.append(row)
    pairs, pair = np.unique(user * max(len(kinds), 1) + shape, return_inverse=True)
    count = workload.batch_count[order]
    first: Ints = np.cumsum(count) - count
    ordered = bool((np.diff(order) == 1).all())
    duration = workload.duration
    if not ordered:
        duration = duration[_places(first, count, workload.batch_first[order])]
    plan = Plan(
        user=user,
        shape=shape,
        job=workload.batch_job[order],
        count=count,
        first=first,
        arrival=workload.batch_arrival[order],
        duration=duration,
        source=order.astype(np.int64),
        pair=pair.reshape(-1).astype(np.int64),
        pair_user=pairs // max(len(kinds), 1),
        pair_shape=pairs % max(len(kinds), 1),
        job_size=np.bincount(
            workload.batch_job, workload.batch_count, minlength=workload.job_count
        ).astype(np.int64),
        weight=np.array([user.weight for user in workload.users]),
        need=need[own],
        restriction=restriction,
        allowed=np.array(both, dtype=bool),
        capacity=capacity,
        changes=tuple(changes),
    )
    return plan, nodes


def _restrictions(workload: Workload, nodes: NodeTable) -> tuple[Bools, Ints, Ints]:
    """Return the different restrictions, that of each user and that of each shape."""
    changes = bool(workload.events)
    rows = [np.ones(len(nodes.entries), dtype=bool)]
    number: dict[object, int] = {None: 0}
    of_user = np.zeros(len(workload.users), dtype=np.int64)
    for position, user in enumerate(workload.users):
        if user.servers not in number:
            number[user.servers] = len(rows)
            rows.append(resolve_allowed(nodes, user.servers or (), user.name, changes=changes))
        of_user[position] = number[user.servers]
    of_job = np.zeros(len(workload.restrictions), dtype=np.int64)
    used = set(workload.restriction.tolist())
    for position, terms in enumerate(workload.restrictions):
        if position in used and terms is not None:
            if terms not in number:
                number[terms] = len(rows)
                asks = np.flatnonzero((workload.restriction == position)[workload.batch_shape])
                owner = workload.job_name(int(workload.batch_job[asks[0]])) if len(asks) else "jobs"
                rows.append(resolve_allowed(nodes, terms, owner, changes=changes))
            of_job[position] = number[terms]
    return np.array(rows, dtype=bool), of_user, of_job[workload.restriction]


def _check_need(workload: Workload, units: Units, demand: Floats, need: Ints) -> None:
    """Raise if somebody needs a little that counts as nothing."""
    lost = (demand > 0) & (need == 0)
    used = np.zeros(len(lost), dtype=bool)
    used[workload.batch_shape] = True
    lost &= used[:, None]
    if lost.any():
        shape, resource = (int(i) for i in np.argwhere(lost)[0])
        batch = int(np.flatnonzero(workload.batch_shape == shape)[0])
        job = workload.job_name(int(workload.batch_job[batch]))
        name, size = units.resources[resource], units.sizes[resource]
        rule = f"must be 0 or at least {size / 2:g}, half of one unit on this cluster"
        raise InputError(f"demand.{name} of {job}", rule, float(demand[shape, resource]))
