"""Scenario: a cluster, its users, and their workload."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from drfh.errors import InputError
from drfh.model.cluster import Cluster, check_name
from drfh.model.jobs import Job, ServerEvent, Workload
from drfh.model.resources import FrozenMap
from drfh.model.users import User

__all__ = ["Scenario"]


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
