"""Columns and rows of the explorer's tables.

Fields of rows are short names of our own: names of resources and users come from files and links,
and are values only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drfh.model.cluster import Server
from drfh.model.users import User
from drfh.web.session.answers import Answer, real_tasks
from drfh.web.session.cell_input import labels_text, shown_amount, shown_number, shown_servers

__all__ = [
    "RowCache",
    "TableColumn",
    "server_columns",
    "server_table_rows",
    "user_columns",
    "user_table_rows",
]

_MOST_USED = 6  # resources that get a column of how full they are
_DIGITS = 9


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table.

    Attributes
    ----------
    field : str
        Its short name in rows.
    title : str
        What stands above it.
    hint : str
        What can be typed, or what it says.
    step : str
        The field of a step that an edit makes; empty: it cannot be edited.
    kind : str
        ``text``, ``amount``, ``number`` or ``part`` (of 1).
    width : int
        In pixels, at least.
    empty : str
        What an empty cell means.
    pinned : bool
        Whether it stays in sight where there is room.
    """

    field: str
    title: str
    hint: str = ""
    step: str = ""
    kind: str = "text"
    width: int = 82
    empty: str = ""
    pinned: bool = False


def _resource_columns(
    resources: Iterable[str], prefix: str, taken: Sequence[str]
) -> list[TableColumn]:
    hint = {
        "resources": "how much one server has, such as 16, 500m or 64Gi",
        "demand": "how much one task needs, such as 1, 500m or 2Gi",
    }[prefix]
    return [
        TableColumn(f"r{i}", name, f"{name}: {hint}", f"{prefix}.{name}" if name in taken else name,
               "amount", 82, empty="0")
        for i, name in enumerate(resources)
    ]  # fmt: skip


def server_columns(answer: Answer) -> list[TableColumn]:
    """Return the columns of the table of servers.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.web.session.answers import answer_of
    >>> from drfh.web.session.workbook import Workbook
    >>> answer = answer_of(Workbook(load_scenario("paper-two-servers")))
    >>> [column.title for column in server_columns(answer)]
    ['servers', 'count', 'cpu', 'memory', 'labels', 'cpu used', 'memory used']
    """
    cluster = answer.scenario.cluster
    own = ("name", "count", "labels")
    columns = [
        TableColumn("name", "servers", "name of the group", "name", width=120),
        TableColumn(
            "count", "count", "how many servers are alike: a whole number", "count", "amount"
        ),
        *_resource_columns(cluster.resources, "resources", own),
        TableColumn(
            "labels", "labels", "such as zone=a, disk=ssd", "labels", width=110, empty="none"
        ),
    ]
    used = cluster.resources if len(cluster.resources) <= _MOST_USED else ()
    columns += [
        TableColumn(f"u{i}", f"{name} used", f"part of {name} in use", kind="part", width=100)
        for i, name in enumerate(used)
    ]
    return columns


def user_columns(answer: Answer) -> list[TableColumn]:
    """Return the columns of the table of users.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.web.session.answers import answer_of
    >>> from drfh.web.session.workbook import Workbook
    >>> answer = answer_of(Workbook(load_scenario("paper-two-servers")))
    >>> [column.title for column in user_columns(answer)]
    ['user', 'cpu', 'memory', 'weight', 'tasks', 'may use', 'gets', 'share', 'level']
    """
    scenario = answer.scenario
    own = ("name", "weight", "tasks", "servers", "parent")
    columns = [
        TableColumn("name", "user", "name of the user", "name", width=120),
        *_resource_columns(scenario.cluster.resources, "demand", own),
        TableColumn("weight", "weight", "a number > 0: twice the weight, twice the share", "weight",
               "amount"),
        TableColumn("tasks", "tasks", "how many it has; empty for no end", "tasks", "amount",
               empty="no end"),
        TableColumn("servers", "may use", "servers such as big or zone=a; empty for all", "servers",
               width=110, empty="all"),
    ]  # fmt: skip
    if any(user.parent for user in scenario.users):
        columns.append(TableColumn("parent", "parent", "whose part it is", "parent"))
    gets = [("gets", "gets", "tasks that it is given", "number")]
    if answer.truths:
        hint = "tasks that it can really run; a user that lies may run fewer than it is given"
        gets.append(("real", "can run", hint, "number"))
    if answer.allocation.promised_tasks is not None:
        gets.append(("promised", "promised", "tasks that it is promised", "number"))
    hint = "dominant share: the largest part it has of any resource"
    gets.append(("share", "share", hint, "part"))
    gets.append(("level", "level", "share / weight: what DRFH makes equal", "part"))
    return [*columns, *(TableColumn(f, t, h, kind=k, pinned=True) for f, t, h, k in gets)]


class RowCache:
    """A cache of one table's rows, by record.

    Records do not change: a step makes a new one for the row that it is about, and all others are
    the same objects as before.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, tuple[str, ...], dict[str, Any]]] = {}

    def cells(self, records: Sequence[Any], resources: tuple[str, ...]) -> list[dict[str, Any]]:
        """Return the cells that can be edited, for each record."""
        known: dict[int, tuple[Any, tuple[str, ...], dict[str, Any]]] = {}
        rows = []
        for record in records:
            entry = self._known.get(id(record))
            if entry is None or entry[0] is not record or entry[1] != resources:
                cells = _server(record) if isinstance(record, Server) else _user(record)
                held = record.resources if isinstance(record, Server) else record.demand
                for i, resource in enumerate(resources):
                    amount = held.get(resource)
                    cells[f"r{i}"] = "" if amount is None else shown_amount(amount)
                entry = record, resources, cells
            known[id(record)] = entry
            rows.append(dict(entry[2]))
        self._known = known
        return rows


def _server(server: Server) -> dict[str, Any]:
    return {
        "name": str(server.name),
        "count": f"{server.count}",
        "labels": labels_text(server.labels),
    }


def _user(user: User) -> dict[str, Any]:
    return {
        "name": user.name,
        "weight": shown_number(user.weight),
        "tasks": "" if user.tasks is None else shown_number(user.tasks),
        "servers": shown_servers(user.servers),
        "parent": user.parent or "",
    }


def server_table_rows(answer: Answer, rows: RowCache) -> list[dict[str, Any]]:
    """Return a row for each group, with its usage.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.web.session.answers import answer_of
    >>> from drfh.web.session.workbook import Workbook
    >>> answer = answer_of(Workbook(load_scenario("paper-two-servers")))
    >>> row = server_table_rows(answer, RowCache())[0]
    >>> row["name"], row["count"], row["r0"], row["u0"]
    ('high-memory', '1', '2', 1.0)
    """
    cluster = answer.scenario.cluster
    made = rows.cells(cluster.servers, cluster.resources)
    if len(cluster.resources) <= _MOST_USED:
        capacity = cluster.capacity * cluster.counts[:, None]
        usage = answer.allocation.assignment.group_usage
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = np.where(capacity > 0, usage / capacity, np.nan)
        for i, column in enumerate(_numbers(parts.T)):
            for row, part in zip(made, column, strict=True):
                row[f"u{i}"] = part
    return made


def user_table_rows(answer: Answer, rows: RowCache) -> list[dict[str, Any]]:
    """Return a row for each user, with what it gets.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.web.session.answers import answer_of
    >>> from drfh.web.session.workbook import Workbook
    >>> answer = answer_of(Workbook(load_scenario("paper-two-servers")))
    >>> row = user_table_rows(answer, RowCache())[0]
    >>> row["name"], row["tasks"], row["gets"], row["share"]
    ('ann', '', 10.0, 0.714285714)
    """
    allocation, scenario = answer.allocation, answer.scenario
    made = rows.cells(scenario.users, scenario.cluster.resources)
    shares = allocation.share_vector
    gets = allocation.assignment.user_tasks
    results = {"gets": gets, "share": shares, "level": shares / allocation.problem.weight}
    if allocation.promised_tasks is not None:
        results["promised"] = allocation.promised_tasks
    for field, column in zip(results, _numbers(np.array(list(results.values()))), strict=True):
        for row, number in zip(made, column, strict=True):
            row[field] = number
    if answer.truths:
        real = real_tasks(allocation, answer.truths)
        for row in made:
            row["lies"] = row["name"] in real
            row["real"] = round(real.get(row["name"], row["gets"]), _DIGITS)
    return made


def _numbers(table: Any) -> list[list[float | None]]:
    """Return rounded numbers; None for NaN."""
    rounded = np.round(table, _DIGITS)
    return [[None if x != x else x for x in column] for column in rounded.tolist()]
