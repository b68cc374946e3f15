"""The history of each task of a journal: arrival, runs, end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from drfh.engines.journal.reader import Journal, JournalStep
from drfh.engines.snapshot import ClusterSnapshot, NodeSnapshot, TaskSnapshot

__all__ = [
    "SHIFT",
    "HistoryCounts",
    "JournalHistory",
    "StartedBy",
    "TaskHistory",
    "TaskRun",
    "history_of",
]

#: Time of a workload = time of its journal + this. What runs at the first entry arrives at 0, on
#: the empty cluster, and so has its server before anybody else can ask for it.
SHIFT = 1.0

#: Who started a run: drfh, the engine that drfh only observed, somebody else though drfh was in
#: charge, or whoever it was before the journal began.
StartedBy: TypeAlias = Literal["drfh", "engine", "others", "before"]


@dataclass(slots=True)
class TaskRun:
    """A task on a server, from `start` to `end` (None: still at the end of the journal)."""

    server: str
    start: float
    by: StartedBy
    end: float | None = None

    @property
    def starts(self) -> float:
        """When it starts in the workload."""
        return 0.0 if self.by == "before" else self.start + SHIFT

    @property
    def ends(self) -> float | None:
        """When it ends in the workload."""
        return None if self.end is None else self.end + SHIFT


@dataclass(slots=True)
class TaskHistory:
    """The history of one task.

    Attributes
    ----------
    name : str
        Its name; with a number if an earlier task had the same.
    snapshot : TaskSnapshot
        The last one.
    arrival : float or None
        When it was first seen to wait and was not blocked.
    runs : list of TaskRun
        In order.
    gone : float or None
        When it was gone.
    held : bool
        Whether it was blocked at some time.
    """

    name: str
    snapshot: TaskSnapshot
    arrival: float | None = None
    runs: list[TaskRun] = field(default_factory=list)
    gone: float | None = None
    held: bool = False

    @property
    def running(self) -> TaskRun | None:
        """The run that goes on."""
        return self.runs[-1] if self.runs and self.runs[-1].end is None else None

    @property
    def last(self) -> TaskRun | None:
        """The run that ended or goes on; None if it waits."""
        return self.running if self.gone is None or not self.runs else self.runs[-1]

    @property
    def left_out(self) -> bool:
        """Whether it was cancelled before it ran, or was never free to run."""
        return not self.runs and (self.gone is not None or self.arrival is None)

    @property
    def bound(self) -> bool:
        """Whether it has its server from somebody else."""
        return self.last is not None and self.last.by in ("before", "others")

    @property
    def arrives(self) -> float:
        """When it arrives in the workload."""
        last = self.last
        if last is not None and self.bound:
            return last.starts
        return (self.runs[0].start if self.arrival is None else self.arrival) + SHIFT

    @property
    def first(self) -> TaskRun | None:
        """The first run since it arrived."""
        runs = self.runs[-1:] if self.bound else self.runs
        return next((run for run in runs if run.starts >= self.arrives), None)


@dataclass(slots=True)
class HistoryCounts:
    """How often something happened that a simulation does not have."""

    requeued: int = 0
    refused: int = 0
    changed: int = 0
    limited: int = 0
    weights: int = 0


@dataclass(frozen=True)
class JournalHistory:
    """All tasks and servers of a journal, over time.

    Attributes
    ----------
    tasks : list of TaskHistory
        In order of appearance.
    servers : list
        (time, servers) whenever they changed.
    weights : dict
        The last weight of every user that has one.
    resources : tuple of str
        In order: those of the first entry, then others as they came up.
    counts : HistoryCounts
        What a simulation does not have.
    """

    tasks: list[TaskHistory]
    servers: list[tuple[float, Mapping[str, NodeSnapshot]]]
    weights: Mapping[str, float]
    resources: tuple[str, ...]
    counts: HistoryCounts


def history_of(journal: Journal) -> JournalHistory:
    """Return the history of every task of a journal.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from drfh.engines.journal.reader import read_journal
    >>> from drfh.engines.journal.writer import JournalWriter
    >>> from drfh.scheduler import Placed
    >>> nodes = {"n0": NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0})}
    >>> task = TaskSnapshot("ann", {"cpu": 2.0}, (8, 0))
    >>> with TemporaryDirectory() as folder:
    ...     header = {"policy": "fifo", "engine": "slurm", "started": 0}
    ...     with JournalWriter(f"{folder}/log", header) as writer:
    ...         first = ClusterSnapshot(nodes, {"8": task})
    ...         times = [writer.write(0, first, [Placed("8", "ann", "n0")]),
    ...                  writer.write(9, ClusterSnapshot(nodes, {}), [])]
    ...     history_of(read_journal(f"{folder}/log")).tasks[0].runs
    [TaskRun(server='n0', start=0.0, by='drfh', end=9.0)]
    """
    builder = _HistoryBuilder()
    for step in journal.steps():
        builder.add(step)
    return JournalHistory(
        builder.tasks, builder.servers, builder.weights, tuple(builder.resources), builder.counts
    )


class _HistoryBuilder:
    """Builds histories from the entries of a journal."""

    def __init__(self) -> None:
        self.tasks: list[TaskHistory] = []
        self.servers: list[tuple[float, Mapping[str, NodeSnapshot]]] = []
        self.weights: dict[str, float] = {}
        self.resources: dict[str, None] = {}
        self.counts = HistoryCounts()
        self._here: dict[str, TaskHistory] = {}  # the tasks that are not gone
        self._seen: dict[str, int] = {}  # how many tasks have had a name
        self._placed: dict[str, str] = {}  # at the entry before
        self._before = ClusterSnapshot({}, {})

    def add(self, step: JournalStep) -> None:
        entry, snapshot = step.entry, step.entry.snapshot
        first = not self.servers
        if first:
            self.resources.update(dict.fromkeys(snapshot.resources))
        if first or snapshot.servers is not self._before.servers:
            self.servers.append((entry.t, snapshot.servers))
            for server in snapshot.servers.values():
                self.resources.update(dict.fromkeys(server.size))
        by: StartedBy = "others" if step.header.controls else "engine"
        for name in dict.fromkeys((*self._placed, *step.changed)):
            self._add_task(name, snapshot.tasks.get(name), entry.t, "before" if first else by)
        self._add_weights(snapshot)
        self.counts.limited += entry.limit is not None and len(entry.placed or ()) >= entry.limit
        # A scheduler that only observes may decide, but nobody carries it out.
        self._placed = dict(entry.placed or ()) if step.header.controls else {}
        for name, place in self._placed.items():
            self._here[name].runs.append(TaskRun(place, entry.t, "drfh"))
        self._before = snapshot

    def _add_task(self, name: str, task: TaskSnapshot | None, time: float, by: StartedBy) -> None:
        history = self._here.get(name)
        if history is None:
            if task is None:
                return
            history = self._new(name, task)
        elif task is not None and history.running is None and task.on is None:
            old = history.snapshot
            new = (task.user, task.demand, task.servers)
            self.counts.changed += (old.user, old.demand, old.servers) != new
        running = history.running
        if running is not None and (task is None or task.on != running.server):
            if task is not None and name in self._placed:  # the engine would not have it there
                history.runs.pop()
                self.counts.refused += 1
            else:
                running.end = time
                self.counts.requeued += task is not None
        if task is None:
            history.gone = time
            del self._here[name]
            return
        history.snapshot = task
        history.held |= task.blocked is not None
        self.resources.update(dict.fromkeys(task.demand))
        if task.on is not None and history.running is None:
            history.runs.append(TaskRun(task.on, time, by))
        elif task.on is None and task.blocked is None and history.arrival is None:
            history.arrival = time

    def _new(self, name: str, task: TaskSnapshot) -> TaskHistory:
        number = self._seen[name] = self._seen.get(name, 0) + 1
        history = TaskHistory(name if number == 1 else f"{name} ({number})", task)
        self.tasks.append(history)
        self._here[name] = history
        return history

    def _add_weights(self, snapshot: ClusterSnapshot) -> None:
        before = self._before
        if snapshot.weights is before.weights or snapshot.weights == before.weights:
            return
        users = set(before.users)
        for user in {*before.weights, *snapshot.weights}:
            changed = before.weight(user) != snapshot.weight(user)
            self.counts.weights += changed and user in users
            self.weights[user] = snapshot.weight(user)
