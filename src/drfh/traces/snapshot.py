"""Snapshot of a live cluster: its nodes and tasks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import polars as pl

from drfh.errors import InputError
from drfh.files.reader import Ledger
from drfh.model.cluster import Cluster, Server
from drfh.model.users import User
from drfh.traces.base import Option, TraceReading
from drfh.traces.build import build

__all__ = [
    "CLOSING",
    "CLOSING_HELP",
    "HELD",
    "NO_GANGS",
    "NO_RUN_TIMES",
    "NodeRecord",
    "TaskRecord",
    "snapshot",
]

#: Remarks on what a snapshot does not have.
NO_RUN_TIMES = "has no run times: every task runs on for ever, and all are there from the start"
NO_GANGS = (
    "a job on several nodes is one task for each node: tasks that must start together are not told"
)


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node of a live cluster.

    Parameters
    ----------
    name, amounts, labels
        As of :class:`~drfh.Server`.
    state
        ``closing``: takes nothing new, but what runs there runs on. ``down``: does not work.
    """

    name: str
    amounts: Mapping[str, float]
    labels: Mapping[str, str] = field(default_factory=dict)
    state: Literal["up", "closing", "down"] = "up"


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """Equal tasks that are queued, or one that runs.

    Parameters
    ----------
    user, job
        Whose they are.
    demand
        What one of them needs.
    servers
        Names of the servers that it may use; None for all.
    on
        Where it runs; None if it is queued.
    since
        When it started, or was submitted: only the order counts.
    count
        How many there are.
    details
        What else is known.
    """

    user: str
    job: str
    demand: Mapping[str, float]
    servers: frozenset[str] | None = None
    on: str | None = None
    since: float = 0.0
    count: int = 1
    details: Mapping[str, Any] = field(default_factory=dict)


#: Option for what waits for something else than free capacity.
HELD = Option(
    "held",
    "What waits for something else than room (a hold, a gate, a dependency, a begin time): "
    "drop it, or keep it as queued.",
    "choice",
    "drop",
    ("drop", "keep"),
)


#: What to do with nodes that take nothing new, and how an option explains it.
CLOSING = ("used", "keep", "drop")
CLOSING_HELP = (
    "take nothing new. used: count what runs there and no more; keep: count them whole; drop: "
    "leave them out with what runs there."
)


def snapshot(
    nodes: Sequence[NodeRecord],
    tasks: Iterable[TaskRecord],
    ledger: Ledger,
    *,
    nouns: tuple[str, str],
    closing: str = "used",
    reserved: Mapping[str, Mapping[str, float]] | None = None,
    weights: Mapping[str, float] | None = None,
) -> TraceReading:
    """Build a cluster, a workload and the table of holdings.

    Parameters
    ----------
    nodes
        All servers, also those that are down.
    tasks
        All tasks, running and queued.
    ledger
        Where it is counted what is left out.
    nouns
        What nodes and tasks are called there, such as ``("nodes", "pods")``.
    closing
        What to do with servers that take nothing new: ``used``, ``keep`` or ``drop``.
    reserved
        What is taken off each server because nobody can have it.
    weights
        Of users, where they are known; 1 for the others.

    Examples
    --------
    >>> reading = snapshot(
    ...     [NodeRecord("a", {"cpu": 4.0}), NodeRecord("b", {"cpu": 8.0}, state="closing")],
    ...     [TaskRecord("ann", "j", {"cpu": 1.0}), TaskRecord("bob", "k", {"cpu": 3.0}, on="b")],
    ...     Ledger(), nouns=("nodes", "pods"),
    ... )
    >>> reading.cluster, reading.workload.users[0].name
    (Cluster(2 servers in 2 groups: cpu 7), 'bob')
    >>> reading.running.to_dicts()
    [{'user': 'bob', 'server': 'b', 'cpu': 3.0}]
    """
    by_name = {node.name: node for node in nodes}
    kept = _placed(by_name, tasks, ledger, nouns, closing)
    servers = _servers(nodes, kept, ledger, nouns, closing, reserved or {})
    up = frozenset(servers)
    kept = [t if t.on is None or t.on in up else replace(t, on=None) for t in kept]
    kept = _restricted(kept, up, ledger, nouns)
    kept.sort(key=lambda task: (task.on is None, task.since))
    resources = _resources(servers, kept)
    cluster = Cluster(
        Server(amounts, name=name, labels=by_name[name].labels) for name, amounts in servers.items()
    )
    restrictions: dict[tuple[str, ...] | None, int] = {None: 0}
    order = {name: position for position, name in enumerate(cluster.names)}
    lists: dict[frozenset[str], tuple[str, ...]] = {}
    job_user: dict[str, str] = {}
    rows: dict[str, list[Any]] = {name: [] for name in ("user", "job", "tasks", "restriction")}
    for task in kept:
        shared = job_user.setdefault(task.job, task.user) != task.user
        job = f"{task.job} ({task.user})" if shared else task.job
        job_user.setdefault(job, task.user)
        listed = None
        if task.servers is not None:
            if task.servers not in lists:
                lists[task.servers] = tuple(sorted(task.servers, key=order.__getitem__))
            listed = lists[task.servers]
        number = restrictions.setdefault(listed, len(restrictions))
        for name, value in zip(rows, (task.user, job, task.count, number), strict=True):
            rows[name].append(value)
    batches = pl.DataFrame(
        {
            **rows,
            "arrival": [0.0] * len(kept),
            "duration": [math.inf] * len(kept),
            "state": ["queued" if task.on is None else "running" for task in kept],
            "server": pl.Series([task.on for task in kept], dtype=pl.String),
            **{r: [task.demand.get(r, 0.0) for task in kept] for r in resources},
            **_details(kept, {*rows, *resources}),
        }
    )
    names = dict.fromkeys(rows["user"])
    users = [User(name, weight=(weights or {}).get(name, 1.0)) for name in names]
    workload, details = build(batches, resources, users=users, restrictions=list(restrictions))
    running = (
        batches.filter(pl.col("server").is_not_null())
        .group_by("user", "server", maintain_order=True)
        .agg(pl.col(r).sum() for r in resources)
    )
    ledger.count("tasks running", sum(task.count for task in kept if task.on is not None))
    ledger.count("tasks queued", sum(task.count for task in kept if task.on is None))
    return TraceReading(cluster, workload, details, running)


def _placed(
    nodes: Mapping[str, NodeRecord],
    tasks: Iterable[TaskRecord],
    ledger: Ledger,
    nouns: tuple[str, str],
    closing: str,
) -> list[TaskRecord]:
    """Return the tasks that count, with those on dead servers back in the queue."""
    noun, things = nouns
    kept: list[TaskRecord] = []
    lost = outside = dropped = 0
    for task in tasks:
        on = nodes.get(task.on) if task.on is not None else None
        if task.on is not None and on is None:
            outside += 1
        elif on is not None and on.state == "closing" and closing == "drop":
            dropped += 1
        elif on is not None and on.state == "down":
            lost += 1
            kept.append(replace(task, on=None))
        else:
            kept.append(task)
    ledger.count(f"{things} on {noun} that are down, taken as queued", lost)
    ledger.count(f"{things} on {noun} that are not in the snapshot, left out", outside)
    if closing == "drop":
        ledger.count(f"{things} on {noun} that take nothing new, left out", dropped)
    return kept


def _servers(
    nodes: Sequence[NodeRecord],
    tasks: Sequence[TaskRecord],
    ledger: Ledger,
    nouns: tuple[str, str],
    closing: str,
    reserved: Mapping[str, Mapping[str, float]],
) -> dict[str, dict[str, float]]:
    """Return what each server that counts has to share."""
    noun, _ = nouns
    used: dict[str, dict[str, float]] = {}
    for task in tasks:
        if task.on is not None:
            held = used.setdefault(task.on, {})
            for resource, amount in task.demand.items():
                held[resource] = held.get(resource, 0.0) + amount
    servers: dict[str, dict[str, float]] = {}
    full = 0
    for node in nodes:
        if node.state == "down" or (node.state == "closing" and closing == "drop"):
            continue
        off = reserved.get(node.name, {})
        amounts = {r: max(a - off.get(r, 0.0), 0.0) for r, a in node.amounts.items()}
        if node.state == "closing" and closing == "used":
            amounts = dict(used.get(node.name, {}))
        if any(amounts.values()):
            servers[node.name] = amounts
        elif node.state == "up":
            full += 1
    closed = sum(node.state == "closing" for node in nodes)
    ledger.count(f"{noun} used", len(servers))
    ledger.count(f"{noun} that are down, left out", sum(node.state == "down" for node in nodes))
    ways = {"used": "only what runs there counts", "keep": "counted whole", "drop": "left out"}
    ledger.count(f"{noun} that take nothing new, {ways[closing]}", closed)
    if full:
        ledger.count(f"{noun} with nothing to share, left out", full)
    if not servers:
        raise InputError(noun, "must have at least one that works and has something to share")
    return servers


def _restricted(
    tasks: Iterable[TaskRecord], up: frozenset[str], ledger: Ledger, nouns: tuple[str, str]
) -> list[TaskRecord]:
    """Return the tasks with restrictions to servers that count; None if that is all of them."""
    noun, things = nouns
    known: dict[frozenset[str], frozenset[str] | None] = {}
    kept: list[TaskRecord] = []
    nowhere = 0
    for task in tasks:
        allowed = task.servers
        if allowed is not None:
            if task.on is not None and task.on not in allowed:
                allowed |= {task.on}  # it runs there, so it may
            if allowed not in known:
                inside = allowed & up
                known[allowed] = None if len(inside) == len(up) else inside
            allowed = known[allowed]
            if allowed is not None and not allowed:
                nowhere += task.count
                continue
        kept.append(task if allowed is task.servers else replace(task, servers=allowed))
    ledger.count(f"{things} that no {noun.removesuffix('s')} admits, left out", nowhere)
    return kept


def _resources(servers: dict[str, dict[str, float]], tasks: Sequence[TaskRecord]) -> list[str]:
    """Return the resources; what is asked for and nobody has becomes a 0 on the first server."""
    names: dict[str, None] = {}
    for amounts in servers.values():
        names.update(dict.fromkeys(r for r, amount in amounts.items() if amount > 0))
    for name, amounts in servers.items():
        servers[name] = {r: a for r, a in amounts.items() if r in names}
    first = servers[next(iter(servers))]
    for task in tasks:
        for resource, amount in task.demand.items():
            if amount > 0 and resource not in names:
                names[resource] = None
                first[resource] = 0.0
    return list(names)


def _details(tasks: Sequence[TaskRecord], taken: set[str]) -> dict[str, pl.Series]:
    names = dict.fromkeys(name for task in tasks for name in task.details if name not in taken)
    return {
        name: pl.Series([task.details.get(name) for task in tasks], dtype=pl.String)
        for name in names
    }
