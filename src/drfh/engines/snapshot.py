"""What an engine observed of a live cluster at one moment, as plain records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["ClusterSnapshot", "NodeSnapshot", "TaskSnapshot"]


@dataclass(frozen=True, slots=True)
class NodeSnapshot:
    """A server of the cluster, in any state.

    Parameters
    ----------
    size
        All it has when it works.
    room
        What counts now: `size` if it takes new tasks, else what still runs there.
    state
        ``up``, ``closing`` (takes nothing new) or ``down``.
    labels
        Partitions and features, for people.

    Examples
    --------
    >>> NodeSnapshot({"cpu": 4.0}, {"cpu": 1.0}, "closing").room
    {'cpu': 1.0}
    """

    size: Mapping[str, float]
    room: Mapping[str, float]
    state: str = "up"
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """A task that has not ended.

    Parameters
    ----------
    user
        Whose it is.
    demand
        What it needs, or holds.
    order
        Its place in its user's queue: an earlier one has a smaller tuple.
    servers
        Where it may run, in the order of the servers; None: everywhere.
    on
        Where it runs, or will as soon as the engine starts it.
    aside
        Why it must not be placed now, such as an open dependency; empty if it may.
    returned
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
    aside: str = ""
    returned: bool = False
    since: float = 0.0
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """Servers in the engine's order, tasks by name, and weights of users (1 where not named).

    Examples
    --------
    >>> here = NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0})
    >>> task = TaskSnapshot("ann", {"cpu": 1.0}, (7, 0))
    >>> snapshot = ClusterSnapshot({"n0": here}, {"7": task}, {"bob": 2.0})
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
