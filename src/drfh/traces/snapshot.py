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
from drfh.model.rules import Rule, named_servers
from drfh.model.users import Term, User
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
        A rule for the servers that it may use, or their names; None for all.
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
    servers: Rule | frozenset[str] | None = None
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
    terms = _Terms(_records(servers, by_name))
    kept = _admitted(kept, terms, ledger, nouns)
    kept.sort(key=lambda task: (task.on is None, task.since))
    resources = _resources(servers, kept)
    cluster = Cluster(_records(servers, by_name))
    restrictions: dict[tuple[Term, ...] | None, int] = {None: 0}
    job_user: dict[str, str] = {}
    rows: dict[str, list[Any]] = {name: [] for name in ("user", "job", "tasks", "restriction")}
    for task in kept:
        shared = job_user.setdefault(task.job, task.user) != task.user
        job = f"{task.job} ({task.user})" if shared else task.job
        job_user.setdefault(job, task.user)
        number = restrictions.setdefault(terms.of(task), len(restrictions))
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
        first = f" (the first that is broken: {odd[0].first})" if (odd := ledger.oddities) else ""
        rule = f"must have at least one that works and has something to share{first}"
        raise InputError(noun, rule)
    return servers


def _records(
    servers: Mapping[str, Mapping[str, float]], nodes: Mapping[str, NodeRecord]
) -> list[Server]:
    return [
        Server(amounts, name=name, labels=nodes[name].labels) for name, amounts in servers.items()
    ]


class _Terms:
    """Restrictions of tasks, and the servers that they admit; each is worked out once."""

    def __init__(self, servers: Sequence[Server]) -> None:
        self._servers = servers
        self._order = {str(server.name): position for position, server in enumerate(servers)}
        self._admitted: dict[Rule | frozenset[str], frozenset[str]] = {}
        self._listed: dict[Any, tuple[Term, ...] | None] = {}

    def admitted(self, servers: Rule | frozenset[str]) -> frozenset[str]:
        """Return the names of the servers that a task may use."""
        if servers not in self._admitted:
            self._admitted[servers] = (
                servers & self._order.keys()
                if isinstance(servers, frozenset)
                else frozenset(str(one.name) for one in self._servers if servers(one))
            )
        return self._admitted[servers]

    def of(self, task: TaskRecord) -> tuple[Term, ...] | None:
        """Return the restriction of a task; where it runs, it may."""
        if task.servers is None:
            return None
        admitted = self.admitted(task.servers)
        pinned = task.on if task.on is not None and task.on not in admitted else None
        key = task.servers, pinned
        if key not in self._listed:
            self._listed[key] = self._terms(task.servers, pinned)
        return self._listed[key]

    def _terms(self, servers: Rule | frozenset[str], on: str | None) -> tuple[Term, ...] | None:
        more = () if on is None else (on,)
        if not isinstance(servers, frozenset):
            return (servers, *more)
        names = self.admitted(servers) | set(more)
        if len(names) == len(self._order):
            return None
        return tuple(sorted(names, key=self._order.__getitem__))


def _admitted(
    tasks: Iterable[TaskRecord], terms: _Terms, ledger: Ledger, nouns: tuple[str, str]
) -> list[TaskRecord]:
    """Return the tasks that some server admits; say what stays a name and is no rule."""
    noun, things = nouns
    one = noun.removesuffix("s")
    kept: list[TaskRecord] = []
    nowhere = pinned = by_name = 0
    for task in tasks:
        if task.servers is not None:
            admitted = terms.admitted(task.servers)
            if task.on is None and not admitted:
                nowhere += task.count
                continue
            if not isinstance(task.servers, frozenset):
                pinned += task.on is not None and task.on not in admitted
                by_name += task.count if named_servers(task.servers) else 0
        kept.append(task)
    ledger.count(f"{things} that no {one} admits, left out", nowhere)
    if pinned:
        ledger.remark(
            f"{things} that run where their rules would not let them start: {pinned:,}; each may "
            f"stay on its {one}, which is kept as a name and not as a rule"
        )
    if by_name:
        ledger.remark(f"{things} that name {noun}: {by_name:,}; names admit no new {noun}")
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
