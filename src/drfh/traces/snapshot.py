"""The state of a live cluster at one instant: machines and tasks → what a reader returns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from drfh.errors import InputError
from drfh.files.ledger import Ledger
from drfh.model.cluster import Cluster, Server
from drfh.model.users import User
from drfh.traces.base import Option, TraceReading
from drfh.traces.build import build
from drfh.wire.records import Machine, Task

__all__ = ["HELD", "closing_option", "snapshot"]

#: Option: what waits for something else than room.
HELD = Option(
    "held",
    "What waits for something else than room (a hold, a gate, a dependency, a begin time): "
    "drop it, or keep it as queued.",
    "choice",
    "drop",
    ("drop", "keep"),
)


def closing_option(name: str, what: str) -> Option:
    """Return the option for servers that take nothing new.

    Examples
    --------
    >>> closing_option("cordoned", "Cordoned nodes").default
    'used'
    """
    words = (
        f"{what} take nothing new. used: count what runs there and no more; keep: count them "
        "whole; drop: leave them out with what runs there."
    )
    return Option(name, words, "choice", "used", ("used", "keep", "drop"))


def snapshot(
    machines: Sequence[Machine],
    tasks: Iterable[Task],
    ledger: Ledger,
    *,
    words: tuple[str, str],
    closing: str = "used",
    reserved: Mapping[str, Mapping[str, float]] | None = None,
    weights: Mapping[str, float] | None = None,
) -> TraceReading:
    """Build a cluster, a workload and the table of who holds what where.

    Parameters
    ----------
    machines
        All servers, also those that are down.
    tasks
        All tasks, running and queued.
    ledger
        Where it is counted what is left out.
    words
        What servers and tasks are called there, such as ``("nodes", "pods")``.
    closing
        What to do with servers that take nothing new: ``used``, ``keep`` or ``drop``.
    reserved
        What is taken off each server because nobody can have it.
    weights
        Of users, where they are known; 1 for the others.

    Examples
    --------
    >>> reading = snapshot(
    ...     [Machine("a", {"cpu": 4.0}), Machine("b", {"cpu": 8.0}, state="closing")],
    ...     [Task("ann", "j", {"cpu": 1.0}), Task("bob", "k", {"cpu": 3.0}, on="b")],
    ...     Ledger(), words=("nodes", "pods"),
    ... )
    >>> reading.cluster, reading.workload.users[0].name
    (Cluster(2 servers in 2 groups: cpu 7), 'bob')
    >>> reading.running.to_dicts()
    [{'user': 'bob', 'server': 'b', 'cpu': 3.0}]
    """
    by_name = {machine.name: machine for machine in machines}
    kept = _placed(by_name, tasks, ledger, words, closing)
    servers = _servers(machines, kept, ledger, words, closing, reserved or {})
    up = frozenset(servers)
    kept = [t if t.on is None or t.on in up else replace(t, on=None) for t in kept]
    kept = _restricted(kept, up, ledger, words)
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
    machines: Mapping[str, Machine],
    tasks: Iterable[Task],
    ledger: Ledger,
    words: tuple[str, str],
    closing: str,
) -> list[Task]:
    """Return the tasks that count, with those on dead servers back in the queue."""
    nodes, things = words
    kept: list[Task] = []
    lost = outside = dropped = 0
    for task in tasks:
        on = machines.get(task.on) if task.on is not None else None
        if task.on is not None and on is None:
            outside += 1
        elif on is not None and on.state == "closing" and closing == "drop":
            dropped += 1
        elif on is not None and on.state == "down":
            lost += 1
            kept.append(replace(task, on=None))
        else:
            kept.append(task)
    ledger.count(f"{things} on {nodes} that are down, taken as queued", lost)
    ledger.count(f"{things} on {nodes} that are not in the snapshot, left out", outside)
    if closing == "drop":
        ledger.count(f"{things} on {nodes} that take nothing new, left out", dropped)
    return kept


def _servers(
    machines: Sequence[Machine],
    tasks: Sequence[Task],
    ledger: Ledger,
    words: tuple[str, str],
    closing: str,
    reserved: Mapping[str, Mapping[str, float]],
) -> dict[str, dict[str, float]]:
    """Return what each server that counts has to share."""
    nodes, _ = words
    used: dict[str, dict[str, float]] = {}
    for task in tasks:
        if task.on is not None:
            held = used.setdefault(task.on, {})
            for resource, amount in task.demand.items():
                held[resource] = held.get(resource, 0.0) + amount
    servers: dict[str, dict[str, float]] = {}
    full = 0
    for machine in machines:
        if machine.state == "down" or (machine.state == "closing" and closing == "drop"):
            continue
        off = reserved.get(machine.name, {})
        amounts = {r: max(a - off.get(r, 0.0), 0.0) for r, a in machine.amounts.items()}
        if machine.state == "closing" and closing == "used":
            amounts = dict(used.get(machine.name, {}))
        if any(amounts.values()):
            servers[machine.name] = amounts
        elif machine.state == "up":
            full += 1
    closed = sum(machine.state == "closing" for machine in machines)
    ledger.count(f"{nodes} used", len(servers))
    ledger.count(f"{nodes} that are down, left out", sum(m.state == "down" for m in machines))
    ways = {"used": "only what runs there counts", "keep": "counted whole", "drop": "left out"}
    ledger.count(f"{nodes} that take nothing new, {ways[closing]}", closed)
    if full:
        ledger.count(f"{nodes} with nothing to share, left out", full)
    if not servers:
        raise InputError(nodes, "must have at least one that works and has something to share")
    return servers


def _restricted(
    tasks: Iterable[Task], up: frozenset[str], ledger: Ledger, words: tuple[str, str]
) -> list[Task]:
    """Return the tasks with restrictions to servers that count; None if that is all of them."""
    nodes, things = words
    seen: dict[frozenset[str], frozenset[str] | None] = {}
    kept: list[Task] = []
    nowhere = 0
    for task in tasks:
        allowed = task.servers
        if allowed is not None:
            if task.on is not None and task.on not in allowed:
                allowed |= {task.on}  # it runs there, so it may
            if allowed not in seen:
                inside = allowed & up
                seen[allowed] = None if len(inside) == len(up) else inside
            allowed = seen[allowed]
            if allowed is not None and not allowed:
                nowhere += task.count
                continue
        kept.append(task if allowed is task.servers else replace(task, servers=allowed))
    ledger.count(f"{things} that no {nodes.removesuffix('s')} admits, left out", nowhere)
    return kept


def _resources(servers: dict[str, dict[str, float]], tasks: Sequence[Task]) -> list[str]:
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


def _details(tasks: Sequence[Task], taken: set[str]) -> dict[str, pl.Series]:
    names = dict.fromkeys(name for task in tasks for name in task.details if name not in taken)
    return {
        name: pl.Series([task.details.get(name) for task in tasks], dtype=pl.String)
        for name in names
    }
