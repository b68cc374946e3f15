"""Servers that come, go and change size while jobs run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from drfh.cluster import Server, check_name
from drfh.errors import InputError
from drfh.jobs.records import parse_time
from drfh.resources import parse_amounts

__all__ = ["AddServers", "RemoveServers", "ResizeServer", "ServerEvent"]


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
