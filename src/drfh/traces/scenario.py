"""Scenario of a trace: users with kinds of tasks, or with one demand each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from drfh.formatting import format_count, format_quantity, join_names
from drfh.model.cluster import Cluster, Server
from drfh.model.jobs import Workload
from drfh.model.resources import TOLERANCE, FrozenMap
from drfh.model.scenario import Scenario
from drfh.model.users import Kind, Restriction, User, parse_restriction, resolve_restriction
from drfh.traces.base import EmptyTraceError, Trace
from drfh.traces.groups import group_nodes

__all__ = ["Reduced", "observed_of", "reduced", "scenario_of", "uneven_users"]

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Reduced:
    """What is left of a trace without time.

    Attributes
    ----------
    scenario : Scenario
        Cluster and users.
    observed : list of dict or None
        Of a snapshot: who holds what where; None if nothing runs, or if it is no snapshot.
    notes : tuple of str
        What the reduction loses, and for whom.
    nodes : mapping
        Of a snapshot: names of the nodes of each group that has several.
    """

    scenario: Scenario
    observed: list[dict[str, Any]] | None
    notes: tuple[str, ...] = ()
    nodes: Mapping[str, tuple[str, ...]] = FrozenMap()


def scenario_of(trace: Trace, *, split: bool | None = False, kinds: bool = True) -> Scenario:
    """Return the users of a trace with their mean demand, or with kinds of tasks.

    Running and queued tasks count the same; of a trace with time all tasks count, whenever they
    arrive. Tasks that fit no server are left out.

    Parameters
    ----------
    trace
        What was read.
    split
        Make every kind of task (demand and restriction) of a user a user of its own. Its weight
        is such that its level is that of the whole user when all its kinds are served alike.
        None gives users of a snapshot kinds of tasks instead, with one share together, where
        tasks have different sizes or restrictions.
    kinds
        Whether users may have kinds; if not, None makes each kind a user of its own.

    Examples
    --------
    >>> import polars
    >>> from drfh.model.cluster import Server
    >>> from drfh.model.jobs import Job
    >>> cluster = Cluster([Server({"cpu": 8}, name="a")])
    >>> jobs = [Job("ann", demand={"cpu": 1}, duration=60, tasks=3),
    ...         Job("ann", demand={"cpu": 3}, duration=60)]
    >>> trace = Trace("swf", "a.swf", cluster, Workload(["ann"], jobs), polars.DataFrame())
    >>> scenario_of(trace).users
    (User('ann', {'cpu': 1.5}, tasks=4.0),)
    >>> [(user.name, user.weight) for user in scenario_of(trace, split=True).users]
    [('ann (cpu 1)', 0.5), ('ann (cpu 3)', 0.5)]
    """
    return reduced(trace, split=split, kinds=kinds).scenario


def observed_of(trace: Trace) -> list[dict[str, Any]] | None:
    """Return who holds what where in a snapshot: rows for :func:`drfh.audit`.

    They are about the users of :func:`scenario_of`, unsplit.

    Returns
    -------
    list of dict or None
        Rows with user, server and amounts; None if nothing runs, or if it is no snapshot.
    """
    return reduced(trace).observed


class _Measured(NamedTuple):
    """Tasks that are measured in one demand: of a user, or of one of its kinds."""

    user: str
    kind: str | None = None

    def __str__(self) -> str:
        return self.user if self.kind is None else f"{self.user}/{self.kind}"


def reduced(trace: Trace, *, split: bool | None = False, kinds: bool = True) -> Reduced:
    """Return the scenario of a trace, with what it loses.

    Parameters
    ----------
    trace, split, kinds
        As for :func:`scenario_of`.
    """
    workload = trace.workload
    placed = _placed(trace)
    fits = _fits(trace.cluster, workload) | placed
    notes = []
    if not fits.all():
        whose = _names(workload.users[u].name for u in np.unique(workload.batch_user[~fits]))
        lost = int(workload.batch_count[~fits].sum())
        notes.append(f"tasks that fit no server, left out: {lost:,} ({whose})")
    if not fits.any():
        raise EmptyTraceError("must have a task that fits some server")
    by_kind = split is None and trace.running is not None
    apart = np.full(len(workload.users), bool(split))
    if by_kind:
        owner = np.unique(_kind(workload)[fits]) // len(workload.demand)
        apart = np.bincount(owner, minlength=len(apart)) > 1
    part, owner = _parts(workload, apart)
    count = np.where(fits, workload.batch_count, 0)
    tasks = np.bincount(part, count)
    cluster = _without_nothing(trace.cluster)
    # Of a resource that no server has, even what runs holds nothing that could be shared.
    kept = [r for r, resource in enumerate(workload.resources) if resource in cluster.resources]
    resources = [workload.resources[r] for r in kept]
    table = workload.demand[:, kept]
    demand = np.stack([np.bincount(part, count * c[workload.batch_shape]) for c in table.T], 1)
    weight = _weights(cluster, workload, owner, resources, demand)
    restrictions = _restrictions(workload, part, fits)
    groups = None
    if trace.running is not None:
        groups = group_nodes(cluster, [one for listed in restrictions.values() for one in listed])
        cluster = groups.cluster
    by_owner: dict[int, list[int]] = {}
    for i in np.flatnonzero(tasks > 0).tolist():
        by_owner.setdefault(int(owner[i]), []).append(i)
    users: list[User] = []
    names: dict[int, _Measured] = {}
    torn: list[str] = []
    for position, parts in by_owner.items():
        user = workload.users[position]
        several = len(parts) > 1
        taken: set[str] = set()
        made: list[Kind] = []
        for i in parts:
            mean = (demand[i] / tasks[i]).tolist()
            amounts = {r: a for r, a in zip(resources, mean, strict=True) if a > 0}
            servers, alike = _common(user, restrictions[i])
            servers = servers if groups is None else groups.restriction(servers)
            if not alike:
                torn.append(user.name)
            name = _unique(
                ", ".join(f"{r} {format_quantity(a)}" for r, a in amounts.items()), taken
            )
            made.append(Kind(amounts, tasks=float(tasks[i]), servers=servers, name=name))
            names[i] = _Measured(user.name, name if several else None)
        if by_kind and kinds:
            users.append(User(user.name, weight=user.weight, parent=user.parent, kinds=made))
            continue
        for i, kind in zip(parts, made, strict=True):
            if several:
                names[i] = _Measured(f"{user.name} ({kind.name})")
            users.append(
                User(
                    names[i].user,
                    kind.demand,
                    weight=float(weight[i]),
                    tasks=kind.tasks,
                    servers=kind.servers,
                    parent=user.name if several else user.parent,
                )
            )
    torn_apart = {u: len(parts) for u, parts in by_owner.items() if len(parts) > 1}
    if torn_apart and not (by_kind and kinds):
        shown = _names(f"{workload.users[u].name} into {n}" for u, n in torn_apart.items())
        notes.append(f"users whose tasks differ are split by kind of task: {shown}")
    if torn:
        may = "may use servers here that only some of their tasks may use"
        notes.append(f"{_names(torn)}: {may}, as a user has one restriction")
    scenario = Scenario(cluster, tuple(users), title=f"{trace.format}: {trace.source}")
    observed = None
    if placed.any():
        observed = _observed(trace, part, placed, names, kept)
        if groups is not None:
            for row in observed:
                row["server"] = groups.place[row["server"]][1]
        measured = {names[i]: demand[i] / tasks[i] for i in names}
        running = np.bincount(part[placed], minlength=len(owner))
        notes += _mixed(measured, observed, {names[i]: int(running[i]) for i in names}, resources)
    return Reduced(
        scenario, observed, tuple(notes), FrozenMap() if groups is None else groups.nodes
    )


def uneven_users(trace: Trace) -> tuple[str, ...]:
    """Return the users whose tasks differ in more than size.

    Examples
    --------
    >>> import polars
    >>> from drfh.model.jobs import Job
    >>> cluster = Cluster([Server({"cpu": 8, "gpu": 2}, name="a")])
    >>> asked = [("ann", {"cpu": 1}), ("bob", {"cpu": 1}), ("ann", {"cpu": 2}), ("bob", {"gpu": 1})]
    >>> jobs = [Job(user, demand=demand, duration=60) for user, demand in asked]
    >>> uneven_users(Trace("swf", "a", cluster, Workload(["ann", "bob"], jobs), polars.DataFrame()))
    ('bob',)
    """
    workload = trace.workload
    fits = _fits(trace.cluster, workload) | _placed(trace)
    return tuple(workload.users[user].name for user in _uneven(workload, fits))


def _uneven(workload: Workload, fits: Any) -> list[int]:
    """Return the users whose tasks differ in more than their size."""
    first: dict[int, tuple[Any, int]] = {}
    uneven: set[int] = set()
    for kind in np.unique(_kind(workload)[fits]).tolist():
        user, shape = divmod(kind, len(workload.demand))
        demand = workload.demand[shape]
        base, restriction = first.setdefault(user, (demand, int(workload.restriction[shape])))
        ratio = demand[base > 0] / base[base > 0]
        alike = ((demand > 0) == (base > 0)).all() and ratio.max() <= 1.01 * ratio.min()
        if restriction != workload.restriction[shape] or not alike:
            uneven.add(user)
    return sorted(uneven)


def _parts(workload: Workload, apart: Any) -> tuple[Any, Any]:
    """Return the part that each batch belongs to, and the user that it is of.

    Tasks of users that are taken `apart` are of one part if they are of one kind, those of others
    anyway. Parts are in the order of their owners, and then of first appearance.
    """
    whole = workload.batch_user * len(workload.demand)
    key = np.where(apart[workload.batch_user], _kind(workload), whole)
    _, first, part = np.unique(key, return_index=True, return_inverse=True)
    owner = workload.batch_user[first]
    order = np.lexsort((first, owner))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    return rank[part], owner[order]


def _without_nothing(cluster: Cluster) -> Cluster:
    """Return the cluster without resources of which there is nothing."""
    if (cluster.totals > 0).all():
        return cluster
    return Cluster(
        Server(
            {r: a for r, a in server.resources.items() if a > 0},
            name=server.name,
            count=server.count,
            labels=server.labels,
        )
        for server in cluster.servers
    )


def _placed(trace: Trace) -> Any:
    """Return which batches run somewhere in a snapshot."""
    if trace.running is None or "server" not in trace.details.columns:
        return np.zeros(len(trace.workload.batch_user), dtype=bool)
    return trace.details["server"].is_not_null().to_numpy()


def _fits(cluster: Cluster, workload: Workload) -> Any:
    """Return which batches some empty server could hold, with the restrictions they have."""
    known: dict[tuple[Any, Any], Any] = {}
    columns = {resource: r for r, resource in enumerate(cluster.resources)}
    need = np.zeros((len(workload.demand), len(cluster.resources)))
    unknown = np.zeros(len(workload.demand), dtype=bool)
    for r, resource in enumerate(workload.resources):
        if resource in columns:
            need[:, columns[resource]] = workload.demand[:, r]
        else:
            unknown |= workload.demand[:, r] > 0
    kinds, batch = np.unique(_kind(workload), return_inverse=True)
    fits = np.zeros(len(kinds), dtype=bool)
    for number, (user, shape) in enumerate(zip(*divmod(kinds, len(need)), strict=True)):
        asks = workload.users[user].servers, workload.restrictions[workload.restriction[shape]]
        if asks not in known:
            allowed = np.ones(len(cluster), dtype=bool)
            for restriction in asks:
                if restriction is not None:
                    allowed &= _groups(restriction, cluster, workload.users[user].name)
            known[asks] = np.unique(cluster.capacity[allowed], axis=0) * (1 + TOLERANCE)
        fits[number] = not unknown[shape] and (known[asks] >= need[shape]).all(axis=1).any()
    return fits[batch]


def _kind(workload: Workload) -> Any:
    """Return a number for each batch: equal for equal user, demand and restriction."""
    return workload.batch_user * len(workload.demand) + workload.batch_shape


def _restrictions(workload: Workload, part: Any, fits: Any) -> dict[int, list[Restriction | None]]:
    """Return the different restrictions of the tasks that count, by user of the scenario."""
    which = workload.restriction[workload.batch_shape]
    width = len(workload.restrictions)
    pairs = np.unique((part * width + which)[fits])
    found: dict[int, list[Restriction | None]] = {}
    for pair in pairs.tolist():
        found.setdefault(pair // width, []).append(workload.restrictions[pair % width])
    return found


def _groups(restriction: Restriction, cluster: Cluster, owner: str) -> Any:
    """Return the groups of which at least one server may be used."""
    groups, singles = resolve_restriction(restriction, cluster, owner)
    groups = groups.copy()
    groups[list(singles)] = True
    return groups


def _common(
    user: User, restrictions: Sequence[Restriction | None]
) -> tuple[Restriction | None, bool]:
    """Return one restriction for all tasks of a user, and whether it is exact.

    Where they differ, what one of them may use counts for all.
    """
    if restrictions == [None] or not restrictions:
        return user.servers, True
    if user.servers is not None:
        return user.servers, False
    if len(restrictions) == 1:
        return restrictions[0], True
    if None in restrictions:
        return None, False
    terms = dict.fromkeys(
        term for one in restrictions if one is not None for term in parse_restriction(one)
    )
    return tuple(terms), False


def _weights(
    cluster: Cluster, workload: Workload, owner: Any, resources: Sequence[str], demand: Any
) -> Any:
    """Return the weights; those of the parts of a user follow what they ask for in total."""
    own = np.array([user.weight for user in workload.users])[owner]
    totals = dict(zip(cluster.resources, cluster.totals.tolist(), strict=True))
    pool = np.array([totals[r] for r in resources])
    whole = np.stack([np.bincount(owner, column) for column in demand.T], 1)[owner]
    share, together = (demand / pool).max(axis=1), (whole / pool).max(axis=1)
    return np.where(share > 0, own * (share / np.where(together > 0, together, 1.0)), own)


def _unique(shown: str, taken: set[str]) -> str:
    name, number = shown, 2
    while name in taken:
        name, number = f"{shown} #{number}", number + 1
    taken.add(name)
    return name


def _observed(
    trace: Trace, part: Any, placed: Any, names: Mapping[int, _Measured], kept: Sequence[int]
) -> list[dict[str, Any]]:
    """Return what each user of the scenario, or each of its kinds, holds on each server."""
    workload = trace.workload
    servers = trace.details["server"].to_list()
    resources = [workload.resources[r] for r in kept]
    held: dict[tuple[_Measured, str], Any] = {}
    demand = workload.demand[:, kept]
    for batch in np.flatnonzero(placed).tolist():
        key = names[int(part[batch])], servers[batch]
        amounts = demand[workload.batch_shape[batch]] * workload.batch_count[batch]
        held[key] = held.get(key, 0.0) + amounts
    return [
        {
            "user": one.user,
            **({} if one.kind is None else {"kind": one.kind}),
            "server": server,
            **dict(zip(resources, row.tolist(), strict=True)),
        }
        for (one, server), row in held.items()
    ]


def _mixed(
    demand: Mapping[_Measured, Any],
    observed: Sequence[Mapping[str, Any]],
    running: Mapping[_Measured, int],
    resources: Sequence[str],
) -> list[str]:
    """Return whose tasks differ so much that a count in mean tasks is wrong, and by how much."""
    counted: dict[_Measured, float] = dict.fromkeys(demand, 0.0)
    for row in observed:
        one = _Measured(row["user"], row.get("kind"))
        need = demand[one]
        held = np.array([row[r] for r in resources])
        counted[one] += float((held[need > 0] / need[need > 0]).min())
    wrong = [
        f"{one} runs {format_count(number, 'task')}, counted as {counted[one]:.3g}"
        for one, number in running.items()
        if number and abs(counted[one] - number) > 0.01 * number
    ]
    if not wrong:
        return []
    why = "tasks of one user differ, and are measured in its mean task, server by server"
    return [
        f"{why}: {join_names(dict.fromkeys(wrong), '', separator='; ', most=_MOST_NAMED)} "
        "(--split measures each kind by itself)"
    ]


def _names(names: Iterable[str]) -> str:
    return join_names(dict.fromkeys(names), "", most=_MOST_NAMED)
