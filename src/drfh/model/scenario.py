"""Scenario: a cluster, its users, and their workload."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from drfh.errors import InputError
from drfh.formatting import format_quantity
from drfh.model.cluster import Cluster, check_name
from drfh.model.jobs import Job, ServerEvent, Workload
from drfh.model.resources import FrozenMap
from drfh.model.users import Kind, User

__all__ = ["Scenario", "titled_shapes", "unit_slips"]

# A demand below this part of the smallest server, where others count in millions, has the wrong
# unit rather than a small task.
_TINY = 1e-6
_LARGE = 2**20


@dataclass(frozen=True)
class Scenario:
    """A cluster, its users and what to do with them: what a scenario file holds.

    Parameters
    ----------
    cluster
        The servers.
    users
        Who shares them; at least one, with names that differ.
    title, description
        What this is and where it comes from.
    mechanism
        Name of a mechanism.
    parameters
        Its parameters: plain values by name. Lists become tuples.
    jobs
        What the users submit over time, for a simulation; none are needed to allocate.
    events
        What happens to the servers meanwhile.

    Examples
    --------
    >>> from drfh import Server
    >>> scenario = Scenario(Cluster([Server({"cpu": 4})]), [User("ann", {"cpu": 1})])
    >>> scenario.mechanism, len(scenario.users)
    ('drfh', 1)
    """

    cluster: Cluster
    users: tuple[User, ...]
    title: str = ""
    description: str = ""
    mechanism: str = "drfh"
    parameters: Mapping[str, Any] = field(default_factory=FrozenMap)
    jobs: tuple[Job, ...] = ()
    events: tuple[ServerEvent, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.cluster, Cluster):
            raise InputError("cluster", "must be a drfh.Cluster", self.cluster)
        users = tuple(self.users)
        if not users:
            raise InputError("users", "must have at least one entry")
        first: dict[str, int] = {}
        for position, user in enumerate(users):
            if not isinstance(user, User):
                raise InputError(f"users[{position}]", "must be a drfh.User", user)
            if first.setdefault(user.name, position) != position:
                rule = f"must be unique (users[{first[user.name]}] has it too)"
                raise InputError(f"users[{position}].name", rule, user.name)
        for name in ("title", "description"):
            if not isinstance(getattr(self, name), str):
                raise InputError(name, "must be text", getattr(self, name))
        check_name(self.mechanism, "mechanism")
        if not isinstance(self.parameters, Mapping):
            raise InputError("parameters", "must map names to values", self.parameters)
        object.__setattr__(self, "users", users)
        object.__setattr__(self, "parameters", _frozen(self.parameters, "parameters"))
        for name in ("jobs", "events"):
            given = getattr(self, name)
            listed = isinstance(given, Iterable) and not isinstance(given, (str, Mapping))
            object.__setattr__(self, name, tuple(given) if listed else given)
        if self.jobs != () or self.events != ():  # anything else than a list is refused here
            self.__dict__["_workload"] = Workload(users, self.jobs, self.events)

    @property
    def workload(self) -> Workload:
        """The users, jobs and events, as a simulation reads them.

        Raises
        ------
        InputError
            If there are no jobs.

        Examples
        --------
        >>> from drfh import load_scenario
        >>> load_scenario("gpu-day").workload.users[0].name
        'research'
        """
        if not self.jobs:
            rule = "must have at least one entry"
            raise InputError(
                "jobs", f"{rule} (a scenario without jobs can be allocated, not simulated)"
            )
        workload: Workload = self.__dict__["_workload"]
        return workload


def _frozen(value: Any, field: str) -> Any:
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InputError(field, "must have keys that are text", key)
        return FrozenMap({k: _frozen(v, f"{field}.{k}") for k, v in value.items()})
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(entry, f"{field}[{i}]") for i, entry in enumerate(value))
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise InputError(field, "must be a plain value: text, number, list or mapping", value)


def titled_shapes(users: Sequence[User]) -> list[tuple[str, User | Kind]]:
    """Return users, then kinds of tasks, each with its place and the user's name.

    Examples
    --------
    >>> [title for title, _ in titled_shapes([User("ann", {"cpu": 1})])]
    ['users[0] (ann)']
    """
    return [
        *((f"users[{p}] ({user.name})", user) for p, user in enumerate(users)),
        *(
            (f"users[{p}].kinds[{q}] ({user.name})", kind)
            for p, user in enumerate(users)
            for q, kind in enumerate(user.kinds)
        ),
    ]


def unit_slips(
    cluster: Cluster, demands: Iterable[tuple[str, Mapping[str, float]]]
) -> Iterator[tuple[str, str]]:
    """Yield demands that look like a number without its unit, and what is odd about them.

    Parameters
    ----------
    cluster
        Where they would run.
    demands
        Titles and amounts by resource.

    Examples
    --------
    >>> from drfh.model.cluster import Server
    >>> list(unit_slips(Cluster([Server({"memory": "8Gi"})]), [("ann", {"memory": 4.0})]))
    [('ann', 'memory 4 is 4 bytes where servers have 8Gi; did you mean 4Gi?')]
    """
    named = list(demands)
    for position, resource in enumerate(cluster.resources):
        amounts = cluster.capacity[:, position]
        smallest = float(amounts[amounts > 0].min(initial=math.inf))
        if not _LARGE < smallest < math.inf:
            continue
        for title, demand in named:
            amount = demand.get(resource, 0.0)
            if 0 < amount < _TINY * smallest:
                has = format_quantity(smallest)
                short = format_quantity(amount)
                suffix = next((s for s in ("Gi", "Mi") if has.endswith(s)), "Gi")
                text = f"{resource} {short} is {short} bytes where servers have {has}; "
                yield title, f"{text}did you mean {short}{suffix}?"
