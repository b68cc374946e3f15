"""A journal as a cluster and a workload for the simulator, with the usage measured in it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from drfh.engines.cache import NOWHERE
from drfh.engines.journal.format import on_grid
from drfh.engines.journal.history import SHIFT, JournalHistory, TaskHistory, history_of
from drfh.engines.journal.reader import Journal
from drfh.engines.snapshot import NodeSnapshot
from drfh.errors import InputError
from drfh.formatting import format_count
from drfh.model.cluster import Cluster, Server
from drfh.model.jobs import AddServers, Job, RemoveServers, ResizeServer, ServerEvent, Workload
from drfh.model.users import Restriction, User

if TYPE_CHECKING:
    import polars

__all__ = [
    "JournalWorkload",
    "available_on",
    "measured_usage",
    "placement_table",
    "servers_over_time",
    "workload_of",
]


def available_on(server: NodeSnapshot | None) -> dict[str, float]:
    """Return what is available on a server: nothing if it is down or not there.

    Examples
    --------
    >>> available_on(NodeSnapshot({"cpu": 4.0, "gpu": 1.0}, {"cpu": 2.0, "gpu": 0.0}, "closing"))
    {'cpu': 2.0}
    >>> available_on(None)
    {}
    """
    return {name: amount for name, amount in server.available.items() if amount} if server else {}


def servers_over_time(history: JournalHistory) -> list[tuple[float, Mapping[str, NodeSnapshot]]]:
    """Return the servers with times of the workload: those of the first entry from 0 on."""
    first, *later = history.servers
    return [(0.0, first[1]), *((time + SHIFT, servers) for time, servers in later)]


def placement_table(tasks: Sequence[TaskHistory]) -> polars.DataFrame:
    """Return a row for each task, as :class:`JournalWorkload` has it."""
    import polars as pl

    first, last = [task.first for task in tasks], [task.last for task in tasks]
    columns: dict[str, tuple[list[Any], Any]] = {
        "task": ([task.name for task in tasks], pl.String),
        "user": ([task.snapshot.user for task in tasks], pl.String),
        "submission": ([task.arrives for task in tasks], pl.Float64),
        "first_start": ([run and run.starts for run in first], pl.Float64),
        "start": ([run and run.starts for run in last], pl.Float64),
        "end": ([run and run.ends for run in last], pl.Float64),
        "server": ([run and run.server for run in last], pl.String),
        "by": ([run and run.by for run in last], pl.String),
    }
    return pl.DataFrame({name: pl.Series(v, dtype=kind) for name, (v, kind) in columns.items()})


def measured_usage(
    history: JournalHistory, tasks: Sequence[TaskHistory], users: Sequence[str], horizon: float
) -> tuple[dict[str, float], dict[str, float]]:
    """Return utilisation by resource and mean dominant share by user, from 0 to `horizon`."""
    resources = history.resources
    changes: list[tuple[float, int, Any]] = []  # (time, servers before tasks, what)
    for time, servers in servers_over_time(history):
        each = [available_on(server) for server in servers.values()]
        changes.append((time, 0, [sum(one.get(r, 0.0) for one in each) for r in resources]))
    for task in tasks:
        held = [task.snapshot.demand.get(r, 0.0) for r in resources]
        for run in task.runs:
            stop = horizon if run.ends is None else run.ends
            changes.append((run.starts, 1, (task.snapshot.user, 1, held)))
            changes.append((stop, 1, (task.snapshot.user, -1, held)))
    changes.sort(key=lambda change: change[:2])
    usage = _UsageIntegrals(users, len(resources))
    for time, kind, what in changes:
        if time <= horizon:
            usage.change(time, kind, what)
    usage.pass_time(horizon)
    pairs = zip(resources, usage.used, usage.available, strict=True)
    return (
        {name: used / total if total > 0 else 0.0 for name, used, total in pairs},
        {user: usage.passed_share(user, horizon) / horizon for user in users},
    )


class _UsageIntegrals:
    """What is available and used, and shares of users, integrated over time."""

    def __init__(self, users: Sequence[str], resources: int) -> None:
        self.used, self.available = [0.0] * resources, [0.0] * resources
        self._now = 0.0
        self._totals = [0.0] * resources
        self._held = [0.0] * resources
        self._of = {user: [0.0] * resources for user in users}
        self._integral = dict.fromkeys(users, 0.0)
        self._since = dict.fromkeys(users, 0.0)

    def pass_time(self, time: float) -> None:
        """Count what is there and used up to `time`."""
        passed = time - self._now
        if passed > 0:
            for r, total in enumerate(self._totals):
                self.available[r] += passed * total
                self.used[r] += passed * self._held[r]
            self._now = time

    def passed_share(self, user: str, time: float) -> float:
        """Count the share of a user up to `time`, and return its integral."""
        passed = time - self._since[user]
        if passed > 0:
            pairs = zip(self._of[user], self._totals, strict=True)
            share = max((held / total if total > 0 else 0.0 for held, total in pairs), default=0.0)
            self._integral[user] += passed * share
            self._since[user] = time
        return self._integral[user]

    def change(self, time: float, kind: int, what: Any) -> None:
        """Change the servers (kind 0) or what somebody has."""
        self.pass_time(time)
        if kind == 0:
            for user in self._of:
                self.passed_share(user, time)
            self._totals = what
            return
        user, sign, held = what
        self.passed_share(user, time)
        for r, amount in enumerate(held):
            self._of[user][r] += sign * amount
            self._held[r] += sign * amount


_LEAST = 1.0  # seconds that a task beyond its limit goes on


@dataclass(frozen=True, eq=False)
class JournalWorkload:
    """The cluster and workload of a journal, with times of the journal + 1 s.

    Attributes
    ----------
    cluster : Cluster
        Every server that was ever there; those that came later are removed at 0.
    workload : Workload
        A job for each task, and what happened to the servers.
    placements : polars.DataFrame
        A row for each job: ``task``, ``user``, ``submission``, ``first_start``; ``start``, ``end``
        and ``server`` of its last run; ``by``, who started that: ``drfh``, the ``engine`` (which
        drfh only observed), ``others`` (though drfh was in charge), or whoever it was ``before``
        the journal began. Tasks of the last two are bound to their servers. Null where it did not
        come to that.
    horizon : float
        The last entry.
    utilisation : dict
        What was used of each resource, a part of what was there, integrated over time: until the
        last task ended if all did, else until the last entry.
    shares : dict
        The dominant share of each user, integrated over that time and divided by it.
    finished : bool
        Whether all tasks had ended at the last entry.
    remarks : tuple of str
        What the workload leaves out, or had to guess.
    """

    cluster: Cluster
    workload: Workload
    placements: polars.DataFrame
    horizon: float
    utilisation: Mapping[str, float]
    shares: Mapping[str, float]
    finished: bool
    remarks: tuple[str, ...]


def workload_of(journal: Journal) -> JournalWorkload:
    """Return the cluster and workload of a journal.

    A task arrives when it was first seen to wait and was not blocked, and lasts from its start to
    the entry at which it is gone. One that was requeued and started again has the duration of its
    last run. One that still runs lasts until its limit, or for ever; one that has not
    started, as long as its limit or as the mean of its user's tasks that ended. One that was
    cancelled before it started, or always held, is left out. Users have their last weights.

    Parameters
    ----------
    journal
        From :func:`~drfh.engines.journal.reader.read_journal`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import drfh
    >>> from drfh.engines.journal.reader import read_journal
    >>> from drfh.engines.journal.writer import JournalWriter
    >>> from drfh.engines.snapshot import ClusterSnapshot, TaskSnapshot
    >>> from drfh.scheduler import Placed
    >>> nodes = {"n0": NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0})}
    >>> task = TaskSnapshot("ann", {"cpu": 2.0}, (8, 0))
    >>> with TemporaryDirectory() as folder:
    ...     header = {"policy": "fifo", "engine": "slurm", "started": 0}
    ...     with JournalWriter(f"{folder}/log", header) as writer:
    ...         first = ClusterSnapshot(nodes, {"8": task})
    ...         times = [writer.write(0, first, [Placed("8", "ann", "n0")]),
    ...                  writer.write(9, ClusterSnapshot(nodes, {}), [])]
    ...     recorded = workload_of(read_journal(f"{folder}/log"))
    >>> recorded.workload
    Workload(1 user, 1 job, 1 task, arrivals at 1 s)
    >>> drfh.simulate(recorded.cluster, recorded.workload, "fifo").horizon, recorded.horizon
    (10.0, 10.0)
    """
    history = history_of(journal)
    end = journal.horizon
    kept = [task for task in history.tasks if not task.left_out]
    if not kept or not any(servers for _, servers in history.servers):
        rule = "must show at least one server, and one task that is neither cancelled nor held"
        raise InputError("the journal", rule, place=journal.path)
    order = _server_order(history)
    cluster, events = _servers(history, order)
    durations = _DurationEstimates(kept, end, journal.headers[0].started)
    rows = sorted(
        ((task.arrives, task.snapshot.order, task.name, task) for task in kept),
        key=lambda row: row[:3],
    )
    everywhere = frozenset(order)
    jobs = [
        Job(
            task.snapshot.user,
            demand=task.snapshot.demand,
            duration=durations.of(task),
            arrival=arrival,
            servers=_restriction(task, everywhere),
            name=task.name,
        )
        for arrival, _, _, task in rows
    ]
    names = sorted({task.snapshot.user for task in kept})
    users = [User(name, weight=history.weights.get(name, 1.0)) for name in names]
    tasks = [row[-1] for row in rows]
    finished = all(task.gone is not None for task in kept)
    # As a simulation that stops when nothing more happens: a quiet time at the end is not idle.
    ends = [run.ends or 0.0 for task in tasks for run in task.runs]
    used, shares = measured_usage(history, tasks, names, max(ends) if finished else end + SHIFT)
    return JournalWorkload(
        cluster=cluster,
        workload=Workload(users, jobs, events),
        placements=placement_table(tasks),
        horizon=end + SHIFT,
        utilisation=used,
        shares=shares,
        finished=finished,
        remarks=(*journal.remarks, *_remarks(journal, history, kept, order, durations)),
    )


def _restriction(task: TaskHistory, everywhere: frozenset[str]) -> Restriction | None:
    if task.bound and task.last is not None:
        return task.last.server
    allowed = task.snapshot.servers
    if allowed is None:
        return None
    # A name that no server ever had is no mistake here: it was not there at that time.
    return tuple(name for name in allowed if name in everywhere) or NOWHERE


# Servers


def _server_order(history: JournalHistory) -> list[str]:
    """Return all servers that ever were, in an order that agrees with that of the entries."""
    order: list[str] = []
    known: set[str] = set()
    for _, servers in history.servers:
        if known.issuperset(servers):
            continue
        after = 0
        for name in servers:
            if name in known:
                after = order.index(name) + 1
            else:
                order.insert(after, name)
                known.add(name)
                after += 1
    return order


def _servers(history: JournalHistory, order: Sequence[str]) -> tuple[Cluster, list[ServerEvent]]:
    first: dict[str, NodeSnapshot] = {}
    for _, servers in history.servers:
        for name, server in servers.items():
            first.setdefault(name, server)
    records: dict[str, Server] = {}
    for name in order:
        size = dict(first[name].size)
        if not records:  # it names every resource, so that all are known in one order
            size = {resource: size.get(resource, 0.0) for resource in history.resources}
        records[name] = Server(size, name=name, labels=dict(first[name].labels))
    now = {name: {r: a for r, a in records[name].resources.items() if a} for name in order}
    events: list[ServerEvent] = []
    for time, servers in servers_over_time(history):
        for name in order:
            available = available_on(servers.get(name))
            if available == now[name]:
                continue
            if not available:
                events.append(RemoveServers(time, name))
            elif now[name]:
                events.append(ResizeServer(time, name, available))
            else:
                # With its first labels: it takes its old place.
                again = Server(available, name=name, labels=records[name].labels)
                events.append(AddServers(time, again))
            now[name] = available
    return Cluster(records.values()), events


# How long tasks last


class _DurationEstimates:
    """Durations of tasks, estimated for those that did not end within the journal."""

    def __init__(self, tasks: Sequence[TaskHistory], end: float, started: float) -> None:
        self.limited = self.endless = self.by_limit = self.by_mean = self.unknown = 0
        self._end, self._started = end, started
        sums: dict[str, list[float]] = {}
        for task in tasks:
            if task.gone is not None and task.runs[-1].by != "before":
                sums.setdefault(task.snapshot.user, []).append(self._last(task))
        self._means = {user: on_grid(sum(row) / len(row)) for user, row in sums.items()}
        every = [seconds for row in sums.values() for seconds in row]
        self._mean = on_grid(sum(every) / len(every)) if every else math.inf

    @staticmethod
    def _last(task: TaskHistory) -> float:
        run = task.runs[-1]
        assert run.end is not None
        return run.end - run.start

    def of(self, task: TaskHistory) -> float:
        """Return how long a task lasts, from when it starts in the simulation."""
        last = task.last
        if last is not None:
            early = last.start + SHIFT - last.starts  # of what ran before
            long = self._still(task) if last.end is None else self._last(task)
            return long + early
        limit = task.snapshot.limit
        if limit is not None:
            self.by_limit += 1
            return on_grid(limit)
        mean = self._means.get(task.snapshot.user, self._mean)
        self.by_mean += mean < math.inf
        self.unknown += mean == math.inf
        return mean

    def _still(self, task: TaskHistory) -> float:
        run, limit = task.runs[-1], task.snapshot.limit
        if limit is None:
            self.endless += 1
            return math.inf
        self.limited += 1
        passed = self._end - run.start
        if run.by == "before" and task.snapshot.since > 0:  # it has used up some of its limit
            limit -= max(self._started + run.start - task.snapshot.since, 0.0)
        return max(on_grid(limit), passed + _LEAST)


# What the workload leaves out


def _remarks(
    journal: Journal,
    history: JournalHistory,
    kept: Sequence[TaskHistory],
    order: Sequence[str],
    lasts: _DurationEstimates,
) -> list[str]:
    counts, restarts = history.counts, len(journal.headers) - 1
    away = [task for task in history.tasks if task.left_out]
    gone = sum(task.gone is not None for task in away)
    by = Counter(task.last.by for task in kept if task.last is not None)
    closing = {
        name
        for _, servers in history.servers
        for name, server in servers.items()
        if server.state == "closing"
    }
    remarks = [
        (restarts, "restart", "of drfh: the next look shows what happened meanwhile"),
        (by["before"], "task", "running when the journal began: bound to the server"),
        (by["others"], "task", "started by somebody else: bound to the server"),
        (gone, "task", "cancelled before a start: left out"),
        (len(away) - gone, "task", "held all the time: left out"),
        (sum(task.held for task in kept), "task", "held for a while: arriving when free to run"),
        (counts.requeued, "run", "cut short by a requeue: only the last run of a task counts"),
        (counts.refused, "placement", "refused by the engine"),
        (counts.changed, "change", "of a waiting task: the last demand and servers count"),
        (counts.weights, "change", "of a weight: the last one counts"),
        (counts.limited, "look", "cut short by a limit on placements: a simulation has none"),
        (_turned(history, order), "change", "of the order of the servers: the first one counts"),
        (len(closing), "server", "taking nothing new for a while: a simulation puts back what it"
         " has there beyond what was there"),
        (lasts.limited, "task", "still running at the end: taken to last until the limit"),
        (lasts.endless, "task", "still running at the end, without a limit: taken to never end"),
        (lasts.by_limit, "task", "not started at the end: taken to last as long as the limit"),
        (lasts.by_mean, "task", "not started at the end: taken to last as long as the user's mean"),
        (lasts.unknown, "task", "not started at the end, nothing to tell by: taken to never end"),
    ]  # fmt: skip
    return [f"{format_count(number, thing)} {text}" for number, thing, text in remarks if number]


def _turned(history: JournalHistory, order: Sequence[str]) -> int:
    """Return how often servers came in an order that is not this one."""
    rank = {name: position for position, name in enumerate(order)}
    ranks = [[rank[name] for name in servers] for _, servers in history.servers]
    return sum(
        now != sorted(now) and now != before
        for before, now in zip([[], *ranks], ranks, strict=False)
    )
