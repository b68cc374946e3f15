"""What became of each task of a journal: when it came, where it ran, when it went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from drfh.engines.journal.reader import Journal, JournalStep
from drfh.engines.snapshot import ClusterSnapshot, NodeSnapshot, TaskSnapshot

__all__ = ["SHIFT", "By", "Counts", "TaskHistory", "TaskLife", "TaskRun", "follow"]

#: Time of a workload = time of its journal + this. What runs at the first look arrives at 0, on
#: the empty cluster, and so has its server before anybody else can ask for it.
SHIFT = 1.0

#: Who started a run: drfh, the engine that drfh only watched, somebody else though drfh was in
#: charge, or whoever it was before the journal began.
By: TypeAlias = Literal["drfh", "engine", "others", "before"]


@dataclass(slots=True)
class TaskRun:
    """A task on a server, from `start` to `end` (None: still at the end of the journal)."""

    server: str
    start: float
    by: By
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
class TaskLife:
    """One task.

    Attributes
    ----------
    name : str
        Its name; with a number if an earlier task had the same.
    task : TaskSnapshot
        The last that was known of it.
    arrival : float or None
        When it was first seen to wait for nothing but room.
    runs : list of TaskRun
        In order.
    gone : float or None
        When it was gone.
    held : bool
        Whether something else than room kept it waiting at some time.
    """

    name: str
    task: TaskSnapshot
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
class Counts:
    """How often something happened that a simulation does not know."""

    requeued: int = 0
    refused: int = 0
    changed: int = 0
    limited: int = 0
    weights: int = 0


@dataclass(frozen=True)
class TaskHistory:
    """All tasks and servers of a journal, over time.

    Attributes
    ----------
    lives : list of TaskLife
        In order of appearance.
    servers : list
        (time, servers) whenever they changed.
    weights : dict
        The last weight of every user that has one.
    resources : tuple of str
        In order: those of the first look, then others as they came up.
    counts : Counts
        What a simulation does not know.
    """

    lives: list[TaskLife]
    servers: list[tuple[float, Mapping[str, NodeSnapshot]]]
    weights: Mapping[str, float]
    resources: tuple[str, ...]
    counts: Counts


def follow(journal: Journal) -> TaskHistory:
    """Go through a journal, and note what became of every task.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from drfh.engines.journal.reader import JournalWriter, read_journal
    >>> from drfh.scheduler import Placed
    >>> rooms = {"n0": NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0})}
    >>> task = TaskSnapshot("ann", {"cpu": 2.0}, (8, 0))
    >>> with TemporaryDirectory() as folder:
    ...     with JournalWriter(f"{folder}/log", {"policy": "fifo", "started": 0}) as writer:
    ...         first = ClusterSnapshot(rooms, {"8": task})
    ...         times = [writer.look(0, first, [Placed("8", "ann", "n0")]),
    ...                  writer.look(9, ClusterSnapshot(rooms, {}), [])]
    ...     follow(read_journal(f"{folder}/log")).lives[0].runs
    [TaskRun(server='n0', start=0.0, by='drfh', end=9.0)]
    """
    notes = _Notes()
    for step in journal.steps():
        notes.take(step)
    return TaskHistory(
        notes.lives, notes.servers, notes.weights, tuple(notes.resources), notes.counts
    )


class _Notes:
    """What is known so far."""

    def __init__(self) -> None:
        self.lives: list[TaskLife] = []
        self.servers: list[tuple[float, Mapping[str, NodeSnapshot]]] = []
        self.weights: dict[str, float] = {}
        self.resources: dict[str, None] = {}
        self.counts = Counts()
        self._here: dict[str, TaskLife] = {}  # the tasks that are not gone
        self._seen: dict[str, int] = {}  # how many tasks have had a name
        self._placed: dict[str, str] = {}  # at the look before
        self._before = ClusterSnapshot({}, {})

    def take(self, step: JournalStep) -> None:
        """Take note of a look."""
        look, snapshot = step.look, step.look.snapshot
        first = not self.servers
        if first:
            self.resources.update(dict.fromkeys(snapshot.resources))
        if first or snapshot.servers is not self._before.servers:
            self.servers.append((look.t, snapshot.servers))
            for server in snapshot.servers.values():
                self.resources.update(dict.fromkeys(server.size))
        start: By = "others" if step.header.controls else "engine"
        for name in dict.fromkeys((*self._placed, *step.changed)):
            self._take_task(name, snapshot.tasks.get(name), look.t, "before" if first else start)
        self._take_weights(snapshot)
        self.counts.limited += look.limit is not None and len(look.placed or ()) >= look.limit
        # A brain that only watches may say what it would do, but nobody does it.
        self._placed = dict(look.placed or ()) if step.header.controls else {}
        for name, place in self._placed.items():
            self._here[name].runs.append(TaskRun(place, look.t, "drfh"))
        self._before = snapshot

    def _take_task(self, name: str, task: TaskSnapshot | None, time: float, start: By) -> None:
        life = self._here.get(name)
        if life is None:
            if task is None:
                return
            life = self._new(name, task)
        elif task is not None and life.running is None and task.on is None:
            old = life.task
            told = (old.user, old.demand, old.servers) != (task.user, task.demand, task.servers)
            self.counts.changed += told
        running = life.running
        if running is not None and (task is None or task.on != running.server):
            if task is not None and name in self._placed:  # the engine would not have it there
                life.runs.pop()
                self.counts.refused += 1
            else:
                running.end = time
                self.counts.requeued += task is not None
        if task is None:
            life.gone = time
            del self._here[name]
            return
        life.task = task
        life.held |= task.blocked is not None
        self.resources.update(dict.fromkeys(task.demand))
        if task.on is not None and life.running is None:
            life.runs.append(TaskRun(task.on, time, start))
        elif task.on is None and task.blocked is None and life.arrival is None:
            life.arrival = time

    def _new(self, name: str, task: TaskSnapshot) -> TaskLife:
        number = self._seen[name] = self._seen.get(name, 0) + 1
        life = TaskLife(name if number == 1 else f"{name} ({number})", task)
        self.lives.append(life)
        self._here[name] = life
        return life

    def _take_weights(self, snapshot: ClusterSnapshot) -> None:
        before = self._before
        if snapshot.weights is before.weights or snapshot.weights == before.weights:
            return
        users = set(before.users)
        for user in {*before.weights, *snapshot.weights}:
            changed = before.weight(user) != snapshot.weight(user)
            self.counts.weights += changed and user in users
            self.weights[user] = snapshot.weight(user)
