"""What an engine observed of a live cluster at one moment, as plain records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = [
    "BlockedCode",
    "BlockedReason",
    "ClusterSnapshot",
    "NodeSnapshot",
    "TaskSnapshot",
    "job_of",
]


class BlockedCode(StrEnum):
    """Kinds of reasons why drfh must not place a task, or recalled it from its node."""

    HELD_BY_OWNER = "held-by-owner"
    HELD_BY_ADMINISTRATOR = "held-by-administrator"
    HELD_BY_ENGINE = "held-by-engine"
    DEPENDENCY = "dependency"  # on another task
    BEGIN_TIME = "begin-time"
    RESUMING = "resuming"  # nothing blocks it any more, and the engine does not show that yet
    REQUEUED = "requeued"
    RELEASED = "released"  # by somebody else than drfh
    NODE_LIST_CHANGED = "node-list-changed"
    NODE_UNAVAILABLE = "node-unavailable"
    NOT_STARTED = "not-started"  # on the node that it was released to
    ARRAY_LIMIT = "array-limit"
    BACK_OFF = "back-off"  # after the engine refused it
    UNSUPPORTED = "unsupported"  # drfh cannot place such tasks
    # Of tasks that are left to the engine's own scheduler
    RESERVATION = "reservation"
    OTHER_PARTITION = "other-partition"
    OTHER_SCHEDULER = "other-scheduler"  # it was not handed to drfh
    NEW = "new"  # drfh takes it over in its next cycle
    NO_DEMAND = "no-demand"
    RECORDED = "recorded"  # read from a journal, which has only the text


@dataclass(frozen=True, slots=True)
class BlockedReason:
    """Why drfh must not place a task now.

    Parameters
    ----------
    code
        What kind of reason it is.
    summary
        The reason without what differs from task to task: tasks are counted by it.
    detail
        The rest of the text, with the blank or comma before it.

    Examples
    --------
    >>> str(BlockedReason(BlockedCode.DEPENDENCY, "waits for another job", " (afterok:7)"))
    'waits for another job (afterok:7)'
    """

    code: BlockedCode
    summary: str
    detail: str = ""

    def without_detail(self) -> BlockedReason:
        """Return what tasks are counted by."""
        return BlockedReason(self.code, self.summary)

    def __str__(self) -> str:
        return f"{self.summary}{self.detail}"


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
    """A server of the cluster, in any state.

    Parameters
    ----------
    size
        All it has when it works.
    available
        What counts now: `size` if it takes new tasks, else what still runs there.
    state
        ``up``, ``closing`` (takes nothing new) or ``down``.
    labels
        Partitions and features, for people.

    Examples
    --------
    >>> NodeSnapshot({"cpu": 4.0}, {"cpu": 1.0}, "closing").available
    {'cpu': 1.0}
    """

    size: Mapping[str, float]
    available: Mapping[str, float]
    state: str = "up"
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """A task that has not ended.

    Parameters
    ----------
    demand
        What it needs, or holds.
    order
        Its place in its user's queue: an earlier one has a smaller tuple.
    servers
        Where it may run, in the order of the servers; None: everywhere.
    on
        Where it runs, or will as soon as the engine starts it.
    blocked
        Why it must not be placed now, such as an open dependency; None if it may.
    recalled
        It waits, and had a server before: it goes before those that had none.
    since
        When it was submitted, or started if it runs; seconds since 1970, for people.
    limit
        Seconds that it may run at most, if that is known.

    Examples
    --------
    >>> TaskSnapshot("ann", {"cpu": 1.0}, (12, 0), on="n3").on
    'n3'
    """

    user: str
    demand: Mapping[str, float]
    order: tuple[int, ...]
    servers: tuple[str, ...] | None = None
    on: str | None = None
    blocked: BlockedReason | None = None
    recalled: bool = False
    since: float = 0.0
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """Servers in the engine's order, tasks by name, and weights of users (1 where not named).

    A job that runs on several nodes is a task for each, named ``job@node``; else a task has the
    name of its job.

    Examples
    --------
    >>> node = NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0})
    >>> task = TaskSnapshot("ann", {"cpu": 1.0}, (7, 0))
    >>> snapshot = ClusterSnapshot({"n0": node}, {"7": task}, {"bob": 2.0})
    >>> snapshot.users, snapshot.weight("ann"), snapshot.resources
    (('ann', 'bob'), 1.0, ('cpu',))
    """

    servers: Mapping[str, NodeSnapshot]
    tasks: Mapping[str, TaskSnapshot]
    weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def users(self) -> tuple[str, ...]:
        """All users, sorted by name, so that a restart breaks ties alike."""
        return tuple(sorted({task.user for task in self.tasks.values()} | set(self.weights)))

    def weight(self, user: str) -> float:
        """Return the weight of a user."""
        return self.weights.get(user, 1.0)

    @property
    def resources(self) -> tuple[str, ...]:
        """Resources in order of first mention, of servers and then of tasks."""
        names: dict[str, None] = {}
        for server in self.servers.values():
            names.update(dict.fromkeys(server.size))
        for task in self.tasks.values():
            names.update(dict.fromkeys(task.demand))
        return tuple(names)

    @property
    def has_capacity(self) -> bool:
        """Whether any server has anything available."""
        return any(any(server.available.values()) for server in self.servers.values())


def job_of(task: str) -> str:
    """Return the job that a task belongs to.

    Examples
    --------
    >>> job_of("12@n0"), job_of("12_3")
    ('12', '12_3')
    """
    return task.partition("@")[0]
