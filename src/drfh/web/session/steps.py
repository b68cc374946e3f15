"""Edit steps of a workbook, as typed; their application to a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

from drfh.allocation.problem import Problem
from drfh.errors import InputError, UnknownNameError
from drfh.files.validation import problems
from drfh.formatting import format_count, plural
from drfh.model import edits
from drfh.model.cluster import Server
from drfh.model.users import User, resolve_restriction
from drfh.web.session.cell_input import (
    CellValue,
    amounts_text,
    frozen,
    is_in_bytes,
    labels_text,
    plain,
    read_amount,
    read_amounts,
    read_count,
    read_labels,
    read_name,
    read_servers,
    read_tasks,
    read_weight,
    servers_text,
    shown_amount,
    shown_number,
    shown_servers,
    shown_value,
    tasks_text,
)

__all__ = [
    "MOST_RESOURCES",
    "SAME",
    "STEPS",
    "AddServer",
    "AddUser",
    "CellRef",
    "LieStep",
    "RemoveServer",
    "RemoveUser",
    "SetServer",
    "SetUser",
    "Step",
    "TrueValueStep",
    "WorkbookState",
    "step_from_list",
]


#: How many resources there may be: each is a column of every table.
MOST_RESOURCES = 100


@dataclass(frozen=True)
class WorkbookState(edits.ReportedScenario):
    """A scenario with its arrays, which checks and solvers share.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> WorkbookState(load_scenario("paper-two-servers")).problem.task_share.round(3).tolist()
    [0.071, 0.071]
    """

    @cached_property
    def unrestricted_problem(self) -> Problem:
        """The scenario as arrays, without restrictions, which take long to resolve."""
        return Problem.build(self.scenario.cluster, self.scenario.users, restrictions=False)

    @cached_property
    def problem(self) -> Problem:
        """The scenario as arrays."""
        return self.unrestricted_problem.restricted()

    def is_in_bytes(self, resource: str) -> bool:
        """Return whether amounts of a resource may have units of bytes."""
        held = [server.resources for server in self.scenario.cluster.servers]
        held += [user.demand for user in self.scenario.users]
        return is_in_bytes(resource, (amounts.get(resource, 0.0) for amounts in held))

    @property
    def true_users(self) -> dict[str, User]:
        """Every user that lies, with its true values."""
        return {name: self.true_user(name) for name in self.truths}


class CellRef(NamedTuple):
    """A cell: table (``servers`` or ``users``), row, column (may be empty).

    Examples
    --------
    >>> str(CellRef("servers", "big", "count"))
    'count of big'
    """

    table: str
    row: str
    column: str

    def __str__(self) -> str:
        return f"{self.column} of {self.row}" if self.column else self.row


@dataclass(frozen=True)
class Step:
    """One edit of a scenario, as somebody typed it.

    Attributes
    ----------
    kind : str
        First entry of the list that it is written as.
    """

    kind: ClassVar[str] = ""
    # Values that name something which is there: any text. The others are typed by somebody.
    _names: ClassVar[tuple[str, ...]] = ()
    _many_columns: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.name not in self._names:
                name = str(self.cell) if entry.name == "value" else entry.name
                object.__setattr__(self, entry.name, frozen(value, name))
            elif not isinstance(value, str):
                raise InputError(entry.name, "must be text", value)

    @property
    def cell(self) -> CellRef:
        """The cell that it is about, named in its errors."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """The step in one line."""
        raise NotImplementedError

    def describe(self, before: WorkbookState) -> str:
        """Return the step in one line, with the value before it."""
        return self.text

    def change(self, state: WorkbookState) -> WorkbookState:
        """Return the state after the step, not checked yet."""
        raise NotImplementedError

    def apply(self, state: WorkbookState) -> WorkbookState:
        """Return the state after the step.

        Raises
        ------
        InputError
            If it is refused; its field is the cell: column and row.
        """
        try:
            after = self.change(state)
            resources = after.scenario.cluster.resources
            if len(resources) > MOST_RESOURCES:
                rule = f"must have at most {MOST_RESOURCES} resources in all"
                raise InputError("servers", rule, len(resources))
        except InputError as error:
            raise self._about(error) from None
        try:
            self._check(after)
        except InputError as error:
            if self.cell.table == "servers":
                rule = f"must not break another entry: {error}"
                raise InputError(str(self.cell), rule) from None
            raise self._about(error) from None
        return after

    def _check(self, after: WorkbookState) -> None:
        """Raise what every mechanism would refuse after the step."""
        scenario = after.scenario
        cluster = scenario.cluster
        _ = after.unrestricted_problem
        for user in scenario.users:
            if user.servers is not None and self.may_break(user):
                resolve_restriction(user.servers, cluster, user.name)
        if scenario.jobs or scenario.events:
            for problem in problems(cluster, scenario.users, scenario.jobs, scenario.events):
                raise problem

    def may_break(self, user: User) -> bool:
        """Return whether a user's restriction may match nothing afterwards."""
        return False

    def _about(self, error: InputError) -> InputError:
        """Return the error with the step's cell as its field."""
        if isinstance(error, UnknownNameError):  # of a row that is not there
            return error
        cell = self.cell
        if not cell.column and self._many_columns:
            cell = cell._replace(column=error.item)
        error.field = str(cell)
        return error

    def to_list(self) -> list[Any]:
        """Return the step as a list: its kind, then its values."""
        values = [(plain(getattr(self, entry.name)), entry) for entry in fields(self)]
        while values and _is_default(*values[-1]):
            values.pop()
        return [self.kind, *(value for value, _ in values)]


def _is_default(value: Any, entry: Field[Any]) -> bool:
    if entry.default_factory is not MISSING:
        return bool(value == {})
    return entry.default is not MISSING and bool(value == plain(entry.default))


@dataclass(frozen=True)
class SetServer(Step):
    """A new value of one cell of a server group.

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
    >>> state = WorkbookState(load_scenario("paper-two-servers"))
    >>> step = SetServer("high-cpu", "count", "3")
    >>> step.describe(state)
    'high-cpu: 3 servers instead of 1'
    >>> step.apply(state).scenario.cluster
    Cluster(4 servers in 2 groups: cpu 38, memory 18)
    """

    group: str
    field: str
    value: CellValue

    kind = "server"
    _names = ("group", "field")

    @property
    def cell(self) -> CellRef:  # noqa: D102
        return CellRef("servers", self.group, self.field)

    @property
    def text(self) -> str:  # noqa: D102
        if self.field == "name":
            return f"{self.group} is now called {shown_value(self.value)}"
        if self.field == "labels":
            return f"{self.group}: labels {labels_text(self.value) or 'none'}"
        if self.field == "count":
            count = shown_value(self.value)
            return f"{self.group}: {count} {plural(1 if count == '1' else 2, 'server')}"
        return f"{self.group}: {self._resource} {shown_value(self.value) or '0'}"

    def describe(self, before: WorkbookState) -> str:  # noqa: D102
        if self.field == "name":
            return self.text
        server = before.group(self.group)
        old = {"count": f"{server.count:,}", "labels": labels_text(server.labels) or "none"}
        amount = shown_amount(server.resources.get(self._resource, 0.0))
        return f"{self.text} instead of {old.get(self.field, amount)}"

    @property
    def _resource(self) -> str:
        return self.field.removeprefix("resources.")

    def may_break(self, user: User) -> bool:  # noqa: D102
        return self.field == "labels"  # names follow, or go

    def change(self, state: WorkbookState) -> WorkbookState:  # noqa: D102
        server = state.group(self.group)
        if self.field == "name":
            new = replace(server, name=read_name(self.value, self.field))
        elif self.field == "count":
            new = replace(server, count=read_count(self.value, self.field))
        elif self.field == "labels":
            new = replace(server, labels=read_labels(self.value, self.field))
        else:
            resource = read_name(self._resource, self.field)
            amount = read_amount(self.value, resource, state.is_in_bytes)
            new = replace(server, resources={**server.resources, resource: amount})
        return edits.set_group(state, self.group, new)


@dataclass(frozen=True)
class AddServer(Step):
    """A new group of servers, after the others.

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
    resources: Mapping[str, CellValue]
    count: CellValue = 1
    labels: CellValue = field(default_factory=dict)

    kind = "+server"
    _many_columns = True

    @property
    def cell(self) -> CellRef:  # noqa: D102
        return CellRef("servers", shown_value(self.name) or "the new servers", "")

    @property
    def text(self) -> str:  # noqa: D102
        count = shown_value(self.count) or "0"
        named = f" {shown_value(self.name)}" if shown_value(self.name) else ""
        servers = plural(1 if count == "1" else 2, "new server")
        return f"{count} {servers}{named}: {amounts_text(self.resources)}"

    def change(self, state: WorkbookState) -> WorkbookState:  # noqa: D102
        server = Server(
            read_amounts(self.resources, "resources", state.is_in_bytes),
            name=read_name(self.name, "name") if shown_value(self.name) else None,
            count=read_count(self.count, "count"),
            labels=read_labels(self.labels, "labels"),
        )
        return edits.add_group(state, server)


@dataclass(frozen=True)
class RemoveServer(Step):
    """The removal of a group of servers.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> state = WorkbookState(load_scenario("paper-two-servers"))
    >>> RemoveServer("high-cpu").apply(state).scenario.cluster
    Cluster(1 server in 1 group: cpu 2, memory 12)
    """

    group: str

    kind = "-server"
    _names = ("group",)

    @property
    def cell(self) -> CellRef:  # noqa: D102
        return CellRef("servers", self.group, "")

    @property
    def text(self) -> str:  # noqa: D102
        return f"{self.group} is removed"

    def describe(self, before: WorkbookState) -> str:  # noqa: D102
        return f"{self.text} ({format_count(before.group(self.group).count, 'server')})"

    def may_break(self, user: User) -> bool:  # noqa: D102
        return True

    def change(self, state: WorkbookState) -> WorkbookState:  # noqa: D102
        return edits.remove_servers(state, self.group)


#: In a lie: no lie about this.
SAME = "="


@dataclass(frozen=True)
class SetUser(Step):
    """A new value of one cell of a user, as reported.

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
    >>> state = WorkbookState(load_scenario("paper-two-servers"))
    >>> SetUser("ann", "tasks", "5").describe(state)
    'ann: 5 tasks instead of no end'
    >>> SetUser("ann", "weight", "0").apply(state)
    Traceback (most recent call last):
    drfh.errors.InputError: weight of ann must be a number > 0, such as 1 or 2.5, got '0'
    """

    user: str
    field: str
    value: CellValue

    kind = "user"
    _names = ("user", "field")

    @property
    def cell(self) -> CellRef:  # noqa: D102
        return CellRef("users", self.user, self.field)

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

    def describe(self, before: WorkbookState) -> str:  # noqa: D102
        if self.field == "name":
            return self.text
        user = before.user(self.user)
        old = {
            "weight": shown_number(user.weight),
            "tasks": "no end" if user.tasks is None else shown_number(user.tasks),
            "servers": shown_servers(user.servers) or "all",
            "parent": user.parent or "none",
        }
        amount = shown_amount(user.demand.get(self._resource, 0.0))
        return f"{self.text} instead of {old.get(self.field, amount)}"

    @property
    def _resource(self) -> str:
        return self.field.removeprefix("demand.")

    def may_break(self, user: User) -> bool:  # noqa: D102
        return self.field == "servers" and user.name == self.user

    def change(self, state: WorkbookState) -> WorkbookState:  # noqa: D102
        user = state.user(self.user)
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
            demand = {**user.demand, resource: read_amount(self.value, resource, state.is_in_bytes)}
            return edits.set_user(state, self.user, replace(user, demand=demand))
        return edits.set_user(state, self.user, replace(user, **{self.field: value}))


@dataclass(frozen=True)
class AddUser(Step):
    """A new user, after the others.

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
    demand: Mapping[str, CellValue]
    weight: CellValue = 1
    tasks: CellValue = None
    servers: CellValue = None
    parent: CellValue = None

    kind = "+user"
    _many_columns = True

    @property
    def cell(self) -> CellRef:  # noqa: D102
        return CellRef("users", shown_value(self.name) or "the new user", "")

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

    def change(self, state: WorkbookState) -> WorkbookState:  # noqa: D102
        user = User(
            read_name(self.name, "name"),
            read_amounts(self.demand, "demand", state.is_in_bytes),
            weight=read_weight(self.weight, "weight"),
            tasks=read_tasks(self.tasks, "tasks"),
            servers=_servers(self.servers, state),
            parent=read_name(self.parent, "parent") if shown_value(self.parent) else None,
        )
        return edits.add_user(state, user)


@dataclass(frozen=True)
class RemoveUser(Step):
    """The removal of a user.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> state = RemoveUser("ann").apply(WorkbookState(load_scenario("paper-two-servers")))
    >>> [user.name for user in state.scenario.users]
    ['bob']
    """

    user: str

    kind = "-user"
    _names = ("user",)

    @property
    def cell(self) -> CellRef:  # noqa: D102
        return CellRef("users", self.user, "")

    @property
    def text(self) -> str:  # noqa: D102
        return f"{self.user} leaves"

    def change(self, state: WorkbookState) -> WorkbookState:  # noqa: D102
        return edits.remove_user(state, self.user)


@dataclass(frozen=True)
class LieStep(Step):
    """A false claim of a user; the true values are kept.

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
    >>> state = WorkbookState(load_scenario("paper-two-servers"))
    >>> lie = LieStep("ann", {"cpu": 1, "memory": 1})
    >>> lie.describe(state)
    'ann claims cpu 1, memory 1 instead of cpu 0.2, memory 1'
    >>> after = lie.apply(state)
    >>> after.scenario.users[0].demand, after.true_user("ann").demand
    ({'cpu': 1.0, 'memory': 1.0}, {'cpu': 0.2, 'memory': 1.0})
    """

    user: str
    demand: Mapping[str, CellValue] | str = SAME
    tasks: CellValue = SAME
    servers: CellValue = SAME

    kind = "lie"
    _many_columns = True
    _names = ("user",)

    @property
    def cell(self) -> CellRef:  # noqa: D102
        return CellRef("users", self.user, "")

    @property
    def text(self) -> str:  # noqa: D102
        parts = [amounts_text(self.demand)] if isinstance(self.demand, Mapping) else []
        parts += [] if self.tasks == SAME else [tasks_text(self.tasks)]
        parts += [] if self.servers == SAME else [f"servers {servers_text(self.servers)}"]
        return f"{self.user} claims {', '.join(parts) or 'the truth'}"

    def describe(self, before: WorkbookState) -> str:  # noqa: D102
        user = before.true_user(self.user)
        parts = [] if self.demand == SAME else [amounts_text(user.demand)]
        parts += [] if self.tasks == SAME else [tasks_text(user.tasks)]
        parts += [] if self.servers == SAME else [f"servers {shown_servers(user.servers) or 'all'}"]
        return f"{self.text} instead of {', '.join(parts)}" if parts else self.text

    def may_break(self, user: User) -> bool:  # noqa: D102
        return self.servers != SAME and user.name == self.user

    def change(self, state: WorkbookState) -> WorkbookState:  # noqa: D102
        claim: dict[str, Any] = {}
        if self.demand != SAME:
            claim["demand"] = read_amounts(self.demand, "demand", state.is_in_bytes)
        if self.tasks != SAME:
            claim["tasks"] = read_tasks(self.tasks, "tasks")
        if self.servers != SAME:
            claim["servers"] = _servers(self.servers, state)
        return edits.claim(state, self.user, **claim)


@dataclass(frozen=True)
class TrueValueStep(Step):
    """The return of a lying user to its true values.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> state = WorkbookState(load_scenario("paper-two-servers"))
    >>> TrueValueStep("ann").apply(LieStep("ann", {"cpu": 1}).apply(state)) == state
    True
    """

    user: str

    kind = "truth"
    _names = ("user",)

    @property
    def cell(self) -> CellRef:  # noqa: D102
        return CellRef("users", self.user, "")

    @property
    def text(self) -> str:  # noqa: D102
        return f"{self.user} tells the truth again"

    def may_break(self, user: User) -> bool:  # noqa: D102
        return user.name == self.user

    def change(self, state: WorkbookState) -> WorkbookState:  # noqa: D102
        return edits.tell_truth(state, self.user)


def _servers(value: CellValue, state: WorkbookState) -> Any:
    find = state.scenario.cluster.find_server
    return read_servers(value, "servers", lambda name: find(name) is not None)


#: Every kind of step by the word that it is written with.
STEPS: dict[str, type[Step]] = {
    "server": SetServer,
    "+server": AddServer,
    "-server": RemoveServer,
    "user": SetUser,
    "+user": AddUser,
    "-user": RemoveUser,
    "lie": LieStep,
    "truth": TrueValueStep,
}


def step_from_list(data: Any) -> Step:
    """Return the step of a list made by :meth:`Step.to_list`.

    Examples
    --------
    >>> step_from_list(["server", "big", "count", "10"])
    SetServer(group='big', field='count', value='10')
    >>> step_from_list(["user", "ann"])
    Traceback (most recent call last):
    drfh.errors.InputError: step must have 3 values after its kind, got ['user', 'ann']
    """
    if not isinstance(data, list | tuple) or not data or not isinstance(data[0], str):
        raise InputError("step", "must be a list that starts with its kind", data)
    kind = STEPS.get(data[0])
    if kind is None:
        raise UnknownNameError("step", data[0], list(STEPS))
    entries = fields(kind)
    least = sum(e.default is MISSING and e.default_factory is MISSING for e in entries)
    if not least <= len(data) - 1 <= len(entries):
        most = f" to {len(entries)}" if len(entries) > least else ""
        raise InputError("step", f"must have {least}{most} values after its kind", data)
    return kind(*data[1:])
