"""Steps about users: a cell, one who joins, leaves, lies or tells the truth again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from drfh.errors import InputError
from drfh.resources import format_quantity
from drfh.web import editing
from drfh.web.editing import State, user_of
from drfh.web.step import Cell, Step
from drfh.web.typed import (
    Typed,
    read_amount,
    read_amounts,
    read_name,
    read_servers,
    read_tasks,
    read_weight,
)
from drfh.web.words import amounts_text, servers_text, shown_servers, shown_value, tasks_text
from drfh.workload import User

__all__ = ["SAME", "AddUser", "Lie", "RemoveUser", "SetUser", "Truth"]

#: In a lie: no lie about this.
SAME = "="


@dataclass(frozen=True)
class SetUser(Step):
    """One cell of a user. Of one who lies, the demand, tasks and servers are what it claims.

    Attributes
    ----------
    user : str
        Name of the user.
    field : str
        ``weight``, ``tasks``, ``servers``, ``name``, ``parent``, or a resource. A resource that
        has such a name is ``demand.weight``.
    value : str, number, list or mapping
        As typed; servers also as a scenario file has them.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> state = State(load_scenario("paper-two-servers"))
    >>> SetUser("ann", "tasks", "5").told(state)
    'ann: 5 tasks instead of no end'
    >>> SetUser("ann", "weight", "0").apply(state)
    Traceback (most recent call last):
    drfh.errors.InputError: weight of ann must be a number > 0, such as 1 or 2.5, got '0'
    """

    user: str
    field: str
    value: Typed

    kind = "user"
    _names = ("user", "field")

    @property
    def cell(self) -> Cell:  # noqa: D102
        return Cell("users", self.user, self.field)

    @property
    def text(self) -> str:  # noqa: D102
        value = shown_value(self.value)
        if self.field == "name":
            return f"{self.user} is now called {value}"
        if self.field == "tasks":
            tasks = tasks_text(self.value)
            return f"{self.user}: {'no end of tasks' if tasks == 'no end' else tasks}"
        if self.field == "servers":
            return f"{self.user}: servers {servers_text(self.value)}"
        if self.field == "parent":
            return f"{self.user}: parent {value or 'none'}"
        return f"{self.user}: {self._resource} {value or '0'}"

    def told(self, before: State) -> str:  # noqa: D102
        if self.field == "name":
            return self.text
        user = user_of(before, self.user)
        old = {
            "weight": format_quantity(user.weight),
            "tasks": "no end" if user.tasks is None else format_quantity(user.tasks),
            "servers": shown_servers(user.servers) or "all",
            "parent": user.parent or "none",
        }
        amount = format_quantity(user.demand.get(self._resource, 0.0))
        return f"{self.text} instead of {old.get(self.field, amount)}"

    @property
    def _resource(self) -> str:
        return self.field.removeprefix("demand.")

    def may_break(self, user: User) -> bool:  # noqa: D102
        return self.field == "servers" and user.name == self.user

    def change(self, state: State) -> State:  # noqa: D102
        user = user_of(state, self.user)
        value: Any
        if self.field == "name":
            value = read_name(self.value, self.field)
        elif self.field == "weight":
            value = read_weight(self.value, self.field)
        elif self.field == "tasks":
            value = read_tasks(self.value, self.field)
        elif self.field == "servers":
            value = _servers(self.value, state)
        elif self.field == "parent":
            value = read_name(self.value, self.field) if shown_value(self.value) else None
        else:
            resource = read_name(self._resource, self.field)
            demand = {**user.demand, resource: read_amount(self.value, self.field)}
            return editing.put_user(state, self.user, replace(user, demand=demand))
        return editing.put_user(state, self.user, replace(user, **{self.field: value}))


@dataclass(frozen=True)
class AddUser(Step):
    """A user that joins, at the end.

    Attributes
    ----------
    name : str
        Its name.
    demand : mapping
        What one task needs, as typed.
    weight, tasks, servers, parent
        As for :class:`SetUser`.

    Examples
    --------
    >>> AddUser("eve", {"cpu": "500m"}, tasks="20").text
    'eve joins: cpu 500m, 20 tasks'
    """

    name: str
    demand: Mapping[str, Typed]
    weight: Typed = 1
    tasks: Typed = None
    servers: Typed = None
    parent: Typed = None

    kind = "+user"
    _many_columns = True

    @property
    def cell(self) -> Cell:  # noqa: D102
        return Cell("users", shown_value(self.name) or "the new user", "")

    @property
    def text(self) -> str:  # noqa: D102
        parts = [amounts_text(self.demand)]
        if shown_value(self.weight) not in ("", "1"):
            parts.append(f"weight {shown_value(self.weight)}")
        if tasks_text(self.tasks) != "no end":
            parts.append(tasks_text(self.tasks))
        if servers_text(self.servers) != "all":
            parts.append(f"servers {servers_text(self.servers)}")
        return f"{shown_value(self.name)} joins: {', '.join(parts)}"

    def may_break(self, user: User) -> bool:  # noqa: D102
        return user.name == shown_value(self.name)

    def change(self, state: State) -> State:  # noqa: D102
        user = User(
            read_name(self.name, "name"),
            read_amounts(self.demand, "demand"),
            weight=read_weight(self.weight, "weight"),
            tasks=read_tasks(self.tasks, "tasks"),
            servers=_servers(self.servers, state),
            parent=read_name(self.parent, "parent") if shown_value(self.parent) else None,
        )
        return editing.add_user(state, user)


@dataclass(frozen=True)
class RemoveUser(Step):
    """A user that leaves.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> state = RemoveUser("ann").apply(State(load_scenario("paper-two-servers")))
    >>> [user.name for user in state.scenario.users]
    ['bob']
    """

    user: str

    kind = "-user"
    _names = ("user",)

    @property
    def cell(self) -> Cell:  # noqa: D102
        return Cell("users", self.user, "")

    @property
    def text(self) -> str:  # noqa: D102
        return f"{self.user} leaves"

    def change(self, state: State) -> State:  # noqa: D102
        user_of(state, self.user)
        return editing.remove_user(state, self.user)


@dataclass(frozen=True)
class Lie(Step):
    """A user claims something else than the truth, which is kept.

    Attributes
    ----------
    user : str
        Who lies.
    demand : mapping
        All that it claims one task to need; :data:`SAME` for what it says already.
    tasks, servers
        What else it claims; by default what it says already.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> state = State(load_scenario("paper-two-servers"))
    >>> lie = Lie("ann", {"cpu": 1, "memory": 1})
    >>> lie.told(state)
    'ann claims cpu 1, memory 1 instead of cpu 0.2, memory 1'
    >>> after = lie.apply(state)
    >>> after.scenario.users[0].demand, after.really("ann").demand
    ({'cpu': 1.0, 'memory': 1.0}, {'cpu': 0.2, 'memory': 1.0})
    """

    user: str
    demand: Mapping[str, Typed] | str = SAME
    tasks: Typed = SAME
    servers: Typed = SAME

    kind = "lie"
    _many_columns = True
    _names = ("user",)

    @property
    def cell(self) -> Cell:  # noqa: D102
        return Cell("users", self.user, "")

    @property
    def text(self) -> str:  # noqa: D102
        parts = [amounts_text(self.demand)] if isinstance(self.demand, Mapping) else []
        parts += [] if self.tasks == SAME else [tasks_text(self.tasks)]
        parts += [] if self.servers == SAME else [f"servers {servers_text(self.servers)}"]
        return f"{self.user} claims {', '.join(parts) or 'the truth'}"

    def told(self, before: State) -> str:  # noqa: D102
        user = before.really(self.user)
        parts = [] if self.demand == SAME else [amounts_text(user.demand)]
        parts += [] if self.tasks == SAME else [tasks_text(user.tasks)]
        parts += [] if self.servers == SAME else [f"servers {shown_servers(user.servers) or 'all'}"]
        return f"{self.text} instead of {', '.join(parts)}" if parts else self.text

    def may_break(self, user: User) -> bool:  # noqa: D102
        return self.servers != SAME and user.name == self.user

    def change(self, state: State) -> State:  # noqa: D102
        now, really = user_of(state, self.user), state.really(self.user)
        claim: dict[str, Any] = {}
        if self.demand != SAME:
            claim["demand"] = read_amounts(self.demand, "demand")
        if self.tasks != SAME:
            claim["tasks"] = read_tasks(self.tasks, "tasks")
        if self.servers != SAME:
            claim["servers"] = _servers(self.servers, state)
        told = replace(now, **claim)
        about = {*claim, *state.truths.get(self.user, {})}
        truth = {name: getattr(really, name) for name in sorted(about)}
        truth = {name: value for name, value in truth.items() if value != getattr(told, name)}
        return editing.put_user(state, self.user, told).with_truth(self.user, truth)


@dataclass(frozen=True)
class Truth(Step):
    """A user that lies tells the truth again.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> state = State(load_scenario("paper-two-servers"))
    >>> Truth("ann").apply(Lie("ann", {"cpu": 1}).apply(state)) == state
    True
    """

    user: str

    kind = "truth"
    _names = ("user",)

    @property
    def cell(self) -> Cell:  # noqa: D102
        return Cell("users", self.user, "")

    @property
    def text(self) -> str:  # noqa: D102
        return f"{self.user} tells the truth again"

    def may_break(self, user: User) -> bool:  # noqa: D102
        return user.name == self.user

    def change(self, state: State) -> State:  # noqa: D102
        really = state.really(self.user)
        if self.user not in state.truths:
            raise InputError(self.user, "must lie first, to tell the truth again")
        return editing.put_user(state, self.user, really).with_truth(self.user, {})


def _servers(value: Typed, state: State) -> Any:
    find = state.scenario.cluster.find_server
    return read_servers(value, "servers", lambda name: find(name) is not None)
