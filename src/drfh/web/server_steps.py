"""Steps about servers: a cell, a group that comes, a group that goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from drfh.cluster import Server
from drfh.resources import format_quantity, some
from drfh.web import editing
from drfh.web.editing import State, group_of
from drfh.web.step import Cell, Step
from drfh.web.typed import Typed, read_amount, read_amounts, read_count, read_labels, read_name
from drfh.web.words import amounts_text, labels_text, shown_value
from drfh.workload import User

__all__ = ["AddServer", "RemoveServer", "SetServer"]


@dataclass(frozen=True)
class SetServer(Step):
    """One cell of a server group.

    Attributes
    ----------
    group : str
        Name of the group.
    field : str
        ``count``, ``name``, ``labels``, or a resource. A resource that has such a name is
        ``resources.count``.
    value : str or number
        As typed: ``10``, ``16Gi``, ``500m``.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> state = State(load_scenario("paper-two-servers"))
    >>> step = SetServer("high-cpu", "count", "3")
    >>> step.told(state)
    'high-cpu: 3 servers instead of 1'
    >>> step.apply(state).scenario.cluster
    Cluster(4 servers in 2 groups: cpu 38, memory 18)
    """

    group: str
    field: str
    value: Typed

    kind = "server"
    _names = ("group", "field")

    @property
    def cell(self) -> Cell:  # noqa: D102
        return Cell("servers", self.group, self.field)

    @property
    def text(self) -> str:  # noqa: D102
        if self.field == "name":
            return f"{self.group} is now called {shown_value(self.value)}"
        if self.field == "labels":
            return f"{self.group}: labels {labels_text(self.value) or 'none'}"
        if self.field == "count":
            count = shown_value(self.value)
            return f"{self.group}: {count} server{'s' * (count != '1')}"
        return f"{self.group}: {self._resource} {shown_value(self.value) or '0'}"

    def told(self, before: State) -> str:  # noqa: D102
        if self.field == "name":
            return self.text
        server = group_of(before, self.group)
        old = {"count": f"{server.count:,}", "labels": labels_text(server.labels) or "none"}
        amount = format_quantity(server.resources.get(self._resource, 0.0))
        return f"{self.text} instead of {old.get(self.field, amount)}"

    @property
    def _resource(self) -> str:
        return self.field.removeprefix("resources.")

    def may_break(self, user: User) -> bool:  # noqa: D102
        return self.field == "labels"  # names follow, or go

    def change(self, state: State) -> State:  # noqa: D102
        server = group_of(state, self.group)
        if self.field == "name":
            new = replace(server, name=read_name(self.value, self.field))
        elif self.field == "count":
            new = replace(server, count=read_count(self.value, self.field))
        elif self.field == "labels":
            new = replace(server, labels=read_labels(self.value, self.field))
        else:
            resource = read_name(self._resource, self.field)
            amount = read_amount(self.value, self.field)
            new = replace(server, resources={**server.resources, resource: amount})
        return editing.put_group(state, self.group, new)


@dataclass(frozen=True)
class AddServer(Step):
    """A new group of servers, at the end.

    Attributes
    ----------
    name : str or None
        Its name; by default ``added-1``, ``added-2``, …
    resources : mapping
        What one server has, as typed.
    count, labels
        As for :class:`SetServer`.

    Examples
    --------
    >>> AddServer("new", {"cpu": "8", "memory": "64Gi"}, "10").text
    '10 new servers new: cpu 8, memory 64Gi'
    """

    name: str | None
    resources: Mapping[str, Typed]
    count: Typed = 1
    labels: Typed = field(default_factory=dict)

    kind = "+server"
    _many_columns = True

    @property
    def cell(self) -> Cell:  # noqa: D102
        return Cell("servers", shown_value(self.name) or "the new servers", "")

    @property
    def text(self) -> str:  # noqa: D102
        count = shown_value(self.count) or "0"
        named = f" {shown_value(self.name)}" if shown_value(self.name) else ""
        return f"{count} new server{'s' * (count != '1')}{named}: {amounts_text(self.resources)}"

    def change(self, state: State) -> State:  # noqa: D102
        server = Server(
            read_amounts(self.resources, "resources"),
            name=read_name(self.name, "name") if shown_value(self.name) else None,
            count=read_count(self.count, "count"),
            labels=read_labels(self.labels, "labels"),
        )
        return editing.add_group(state, server)


@dataclass(frozen=True)
class RemoveServer(Step):
    """A group of servers that goes; restrictions no longer name it.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> state = State(load_scenario("paper-two-servers"))
    >>> RemoveServer("high-cpu").apply(state).scenario.cluster
    Cluster(1 server in 1 group: cpu 2, memory 12)
    """

    group: str

    kind = "-server"
    _names = ("group",)

    @property
    def cell(self) -> Cell:  # noqa: D102
        return Cell("servers", self.group, "")

    @property
    def text(self) -> str:  # noqa: D102
        return f"{self.group} is removed"

    def told(self, before: State) -> str:  # noqa: D102
        return f"{self.text} ({some(group_of(before, self.group).count, 'server')})"

    def may_break(self, user: User) -> bool:  # noqa: D102
        return True

    def change(self, state: State) -> State:  # noqa: D102
        group_of(state, self.group)
        return editing.remove_group(state, self.group)
