"""A workload in numbers, in the order in which the brain sees it, and the brain for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from drfh.cluster import Cluster
from drfh.errors import InputError, UnknownNameError
from drfh.jobs import Workload
from drfh.policies import Policy
from drfh.scheduler.core import Core, CoreState
from drfh.scheduler.fleet import Fleet
from drfh.scheduler.plain import PlainCore
from drfh.scheduler.rules import Rules
from drfh.scheduler.units import Units
from drfh.simulation.servers import (
    Change,
    has_predicate,
    resolve_allowed,
    resolve_changes,
    units_of,
)

__all__ = ["ENGINES", "Engine", "Plan", "build", "make_plan"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
Engine: TypeAlias = Literal["auto", "plain", "indexed"]

ENGINES: tuple[Engine, ...] = ("auto", "plain", "indexed")

# Tasks × (servers + users) up to which the plain brain is done before the indexed one is loaded:
# it looks at all of them for each task.
_SMALL_WORK = 200_000


@dataclass(frozen=True, eq=False)
class Plan:
    """What is submitted when, as arrays in order of submission.

    A *batch* is a number of equal tasks that arrive together. Tasks are numbered batch by batch,
    which is how a brain numbers them. A *pair* is a user with one of its shapes.

    Attributes
    ----------
    user, shape, job, count, first : int array, batches
        Position of the user, the brain's shape, the job; how many tasks, and the first of them.
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
    changes: tuple[Change, ...]

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
) -> tuple[Core, Plan, Fleet, Units]:
    """Return an empty brain on the servers, and what to submit to it.

    Parameters
    ----------
    cluster, workload
        Checked against each other.
    policy
        What the brain carries out.
    seed
        Start of its draws.
    engine
        ``"plain"``, ``"indexed"``, or ``"auto"`` for the one that is done sooner.

    Examples
    --------
    >>> from drfh import Job, Server
    >>> workload = Workload(["ann"], [Job("ann", demand={"cpu": 1}, duration=9, arrival=5),
    ...                               Job("ann", demand={"cpu": 2}, duration=7, tasks=2)])
    >>> core, plan, fleet, units = build(Cluster([Server({"cpu": 4})]), workload, Policy())
    >>> plan.arrival.tolist(), plan.count.tolist(), plan.duration.tolist()
    ([0.0, 5.0], [2, 1], [7.0, 7.0, 9.0])
    """
    units = units_of(cluster, workload.events)
    rules = Rules(policy, units.resources, units.sizes, seed)
    plan, fleet = make_plan(cluster, workload, units)
    looked_at = len(plan.capacity) + len(plan.weight)  # for each task
    core = _core(rules, engine, len(plan.duration) * looked_at)
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
        core.server_name = [member.name for member in fleet.members].__getitem__
    return core, plan, fleet, units


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


def make_plan(cluster: Cluster, workload: Workload, units: Units) -> tuple[Plan, Fleet]:
    """Return the plan and the servers, those that come later included."""
    fleet = Fleet(cluster)
    start = len(fleet.members)
    changes = resolve_changes(
        fleet, workload.events, units, by_size=bool(workload.events) and has_predicate(workload)
    )
    capacity = np.zeros((len(fleet.members), len(units.resources)), dtype=np.int64)
    column = [units.resources.index(name) for name in cluster.resources]
    sizes = np.zeros((len(cluster), len(units.resources)))
    sizes[:, column] = cluster.capacity
    capacity[:start] = np.repeat(units.rows(sizes), cluster.counts, axis=0)
    allowed, of_user, of_shape = _restrictions(workload, fleet)

    # A brain's shape is the workload's together with what the user is restricted to.
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
    return plan, fleet


def _restrictions(workload: Workload, fleet: Fleet) -> tuple[Bools, Ints, Ints]:
    """Return the different restrictions, that of each user and that of each shape."""
    changes = bool(workload.events)
    rows = [np.ones(len(fleet.members), dtype=bool)]
    number: dict[object, int] = {None: 0}
    of_user = np.zeros(len(workload.users), dtype=np.int64)
    for position, user in enumerate(workload.users):
        if user.servers not in number:
            number[user.servers] = len(rows)
            rows.append(resolve_allowed(fleet, user.servers or (), user.name, changes=changes))
        of_user[position] = number[user.servers]
    of_job = np.zeros(len(workload.restrictions), dtype=np.int64)
    used = set(workload.restriction.tolist())
    for position, terms in enumerate(workload.restrictions):
        if position in used and terms is not None:
            if terms not in number:
                number[terms] = len(rows)
                asks = np.flatnonzero((workload.restriction == position)[workload.batch_shape])
                owner = workload.job_name(int(workload.batch_job[asks[0]])) if len(asks) else "jobs"
                rows.append(resolve_allowed(fleet, terms, owner, changes=changes))
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
