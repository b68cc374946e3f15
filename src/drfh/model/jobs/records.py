"""One job: equal tasks that arrive together."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from drfh.errors import InputError
from drfh.model.cluster import Server, check_name
from drfh.model.resources import parse_amounts
from drfh.model.users import Restriction, User, parse_demand, parse_restriction

__all__ = [
    "DURATION_RULE",
    "TIME_RULE",
    "AddServers",
    "Job",
    "RemoveServers",
    "ResizeServer",
    "ServerEvent",
    "parse_time",
]


TIME_RULE = "must be a finite number of seconds ≥ 0"
DURATION_RULE = "must be a number of seconds ≥ 0 (infinite for a task that never ends)"
_TASKS_RULE = "must be a whole number ≥ 1"


@dataclass(frozen=True, slots=True, init=False)
class Job:
    """Tasks of one shape that arrive together.

    Parameters
    ----------
    user
        Name of the user whose tasks these are.
    demand
        What one task needs, by resource name; by default what the user's own demand says.
    duration
        How long a task runs, in seconds; ``math.inf`` for one that never ends. A sequence has one
        number for each task.
    tasks
        How many tasks there are; by default as many as there are durations.
    arrival
        When they arrive, in seconds.
    servers
        Where they may run, as for :class:`~drfh.User`. A task must satisfy both its user's
        restriction and its own.
    name
        Records of one user with the same name are one job, whose tasks may have different shapes.
        A workload names unnamed jobs ``job-1``, ``job-2``, … by position.

    Examples
    --------
    >>> Job("ann", demand={"cpu": "500m"}, duration=60, tasks=100, arrival=30)
    Job('ann', demand={'cpu': 0.5}, duration=60.0, tasks=100, arrival=30.0)
    >>> Job("bob", duration=[60, 90, 75]).tasks
    3
    """

    user: str
    demand: Mapping[str, float] | None
    duration: float | tuple[float, ...]
    tasks: int
    arrival: float
    servers: Restriction | None
    name: str | None

    def __init__(
        self,
        user: str | User,
        *,
        demand: Mapping[str, float | str] | None = None,
        duration: float | Sequence[float] | NDArray[Any],
        tasks: int | None = None,
        arrival: float = 0.0,
        servers: Restriction | None = None,
        name: str | None = None,
    ) -> None:
        user = user.name if isinstance(user, User) else user
        check_name(user, "user")
        check_name(name, "name", optional=True)
        seconds = _durations(duration)
        listed = len(seconds) if isinstance(seconds, tuple) else None
        if tasks is None:
            count = 1 if listed is None else listed
        else:
            whole = isinstance(tasks, (int, np.integer)) and not isinstance(tasks, bool)
            if not whole or not 1 <= tasks < 2**53:
                raise InputError("tasks", _TASKS_RULE, tasks)
            count = int(tasks)
        if listed is not None and listed != count:
            rule = f"must be one number, or one for each of {count:,} tasks"
            raise InputError("duration", rule, f"{listed:,} numbers")
        set_ = object.__setattr__
        set_(self, "user", user)
        set_(self, "demand", None if demand is None else parse_demand(demand))
        set_(self, "duration", seconds)
        set_(self, "tasks", count)
        set_(self, "arrival", parse_time(arrival, "arrival"))
        set_(self, "servers", None if servers is None else parse_restriction(servers))
        set_(self, "name", name)

    def __repr__(self) -> str:
        parts = [repr(self.user)]
        if self.demand is not None:
            parts.append(f"demand={self.demand!r}")
        parts.append(f"duration={self.duration!r}")
        if self.tasks != 1 and not isinstance(self.duration, tuple):
            parts.append(f"tasks={self.tasks}")
        if self.arrival:
            parts.append(f"arrival={self.arrival!r}")
        given = {"servers": self.servers, "name": self.name}
        parts += [f"{key}={value!r}" for key, value in given.items() if value is not None]
        return f"Job({', '.join(parts)})"


def parse_time(value: Any, field: str, rule: str = TIME_RULE, *, endless: bool = False) -> float:
    """Read a number of seconds.

    Parameters
    ----------
    value
        A plain number ≥ 0; text is refused, as it may be in minutes or hours.
    field, rule
        What to call it, and what to ask for, in an error.
    endless
        Whether it may be infinite.

    Examples
    --------
    >>> parse_time(90, "arrival")
    90.0
    >>> parse_time("1h", "arrival")
    Traceback (most recent call last):
    drfh.errors.InputError: arrival must be a finite number of seconds ≥ 0, got '1h'
    """
    number = isinstance(value, (int, float, np.integer, np.floating))
    if not number or isinstance(value, bool):
        raise InputError(field, rule, value)
    try:
        seconds = float(value)
    except OverflowError:
        raise InputError(field, rule, value) from None
    if not (0 <= seconds < math.inf or (endless and seconds == math.inf)):
        raise InputError(field, rule, value)
    return seconds + 0.0  # turns -0.0 into 0.0


def _durations(duration: Any) -> float | tuple[float, ...]:
    if isinstance(duration, np.ndarray) and duration.ndim == 1:
        duration = duration.tolist()
    if not isinstance(duration, Sequence) or isinstance(duration, str):
        return parse_time(duration, "duration", DURATION_RULE, endless=True)
    if not duration:
        raise InputError("duration", "must be one number, or at least one in a list", duration)
    return tuple(
        parse_time(seconds, f"duration[{position}]", DURATION_RULE, endless=True)
        for position, seconds in enumerate(duration)
    )


@dataclass(frozen=True, slots=True)
class AddServers:
    """At `time`, a group of equal servers joins the cluster.

    Parameters
    ----------
    time
        When, in seconds.
    server
        The group; it has a name, and its servers are named as a cluster's are.

    Examples
    --------
    >>> AddServers(300, Server({"cpu": 8}, name="spare", count=2))
    AddServers(300.0, Server({'cpu': 8.0}, name='spare', count=2))
    """

    time: float
    server: Server

    def __post_init__(self) -> None:
        object.__setattr__(self, "time", parse_time(self.time, "time"))
        if not isinstance(self.server, Server):
            raise InputError("server", "must be a drfh.Server", self.server)
        if self.server.name is None:
            raise InputError("server.name", "must be given")

    def __repr__(self) -> str:
        return f"AddServers({self.time!r}, {self.server!r})"


@dataclass(frozen=True, slots=True)
class RemoveServers:
    """At `time`, a server or a whole group leaves; its tasks go back to their users' queues.

    Parameters
    ----------
    time
        When, in seconds.
    name
        Name of a server (``big/0``) or of a group (``big``).

    Examples
    --------
    >>> RemoveServers(400, "big/0")
    RemoveServers(400.0, 'big/0')
    """

    time: float
    name: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "time", parse_time(self.time, "time"))
        check_name(self.name, "name")

    def __repr__(self) -> str:
        return f"RemoveServers({self.time!r}, {self.name!r})"


@dataclass(frozen=True, slots=True, init=False)
class ResizeServer:
    """At `time`, one server has other resources than before.

    Parameters
    ----------
    time
        When, in seconds.
    name
        Name of a single server.
    resources
        All it has from then on. What is not mentioned is 0.

    Examples
    --------
    >>> ResizeServer(500, "small/1", {"cpu": 4, "memory": "16Gi"})
    ResizeServer(500.0, 'small/1', {'cpu': 4.0, 'memory': 17179869184.0})
    """

    time: float
    name: str
    resources: Mapping[str, float]

    def __init__(self, time: float, name: str, resources: Mapping[str, float | str]) -> None:
        amounts = parse_amounts(resources, "resources")
        if not any(amounts.values()):
            rule = "must have at least one amount > 0 (to have none, remove the server)"
            raise InputError("resources", rule, dict(amounts))
        check_name(name, "name")
        object.__setattr__(self, "time", parse_time(time, "time"))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "resources", amounts)

    def __repr__(self) -> str:
        return f"ResizeServer({self.time!r}, {self.name!r}, {self.resources!r})"


#: What can happen to the servers.
ServerEvent: TypeAlias = AddServers | RemoveServers | ResizeServer
