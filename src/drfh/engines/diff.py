"""From one look at a cluster to the next: only what changed, as plain data, and back.

A *line* is a mapping with these keys, each left out if it has nothing to say:

``order``
    Names of all servers, in order: given when servers came, left or changed places. One that is
    not in it is gone.
``servers``
    Servers that are new or have changed, in groups with equal changes:
    ``{"names": ["n0", "n1"], "size": {"cpu": 4}, "room": {"cpu": 1}, "state": "closing"}``.
``lists``
    Lists of servers that tasks are restricted to. All lists count on from 0 since the first line,
    and tasks name the number: the nodes of a partition are written once, not for every task.
``tasks``
    Tasks that are new or have changed, in groups with equal changes:
    ``{"names": ["7_0", "7_1"], "user": "ann", "demand": {"cpu": 1}, "order": [[7, 0], [7, 1]]}``,
    the order of each task in a list beside the names; later
    ``{"names": ["7_0", "7_1"], "on": "n0"}``.
``gone``
    Names of tasks that are gone.
``weights``
    Weights that are new or have changed; null for one that is not given any more.

What a group does not say is as before; for a name that is new it is the default of
:class:`~drfh.engines.snapshot.NodeSnapshot` (its room: all of its size) or
:class:`~drfh.engines.snapshot.TaskSnapshot`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from drfh.engines.snapshot import ClusterSnapshot, NodeSnapshot, TaskSnapshot
from drfh.errors import InputError, UnknownNameError
from drfh.model.resources import parse_amounts

__all__ = ["KEYS", "SnapshotBuilder", "changes", "is_number", "short"]

#: The keys of a line that :func:`changes` writes and :meth:`SnapshotBuilder.apply` reads.
KEYS = ("order", "servers", "lists", "tasks", "gone", "weights")

_DEFAULT_TASK = TaskSnapshot("", {}, ())
_TASK_FIELDS = tuple(field.name for field in fields(TaskSnapshot))
_SERVER_FIELDS = tuple(field.name for field in fields(NodeSnapshot))


def short(value: Any) -> Any:
    """Return a number as it is written: 4 for 4.0; mappings and lists with such numbers.

    Examples
    --------
    >>> short({"cpu": 4.0, "gpu": 0.5}), short(None)
    ({'cpu': 4, 'gpu': 0.5}, None)
    """
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError("a number in a journal", "must be finite", value)
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, Mapping):
        return {name: short(inner) for name, inner in value.items()}
    return [short(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def is_number(value: Any) -> bool:
    """Return whether a value from JSON is a finite number.

    Examples
    --------
    >>> is_number(1.5), is_number(True), is_number("1")
    (True, False, False)
    """
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < math.inf


# What changed


def changes(
    before: ClusterSnapshot, after: ClusterSnapshot, lists: Mapping[tuple[str, ...], int]
) -> tuple[dict[str, Any], dict[tuple[str, ...], int]]:
    """Return the line that leads from one look to the next, and all numbered lists after it.

    Parameters
    ----------
    before, after
        The looks; ``ClusterSnapshot({}, {})`` before the first one.
    lists
        Lists of servers that earlier lines have numbered.

    Examples
    --------
    >>> room = NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0})
    >>> tasks = {f"7_{i}": TaskSnapshot("ann", {"cpu": 1.0}, (7, i)) for i in range(2)}
    >>> first = ClusterSnapshot({"n0": room}, tasks)
    >>> line, lists = changes(ClusterSnapshot({}, {}), first, {})
    >>> line["order"], line["servers"]
    (['n0'], [{'names': ['n0'], 'size': {'cpu': 4}}])
    >>> line["tasks"]
    [{'names': ['7_0', '7_1'], 'order': [[7, 0], [7, 1]], 'user': 'ann', 'demand': {'cpu': 1}}]
    >>> changes(first, ClusterSnapshot({"n0": room}, {"7_0": tasks["7_0"]}), lists)[0]
    {'gone': ['7_1']}
    """
    order = {}
    if tuple(before.servers) != tuple(after.servers):
        order["order"] = list(after.servers)  # empty if there are none any more
    line: dict[str, Any] = {}
    servers = _Groups()
    for name, server in after.servers.items():
        old_server = before.servers.get(name)
        if old_server is not server and old_server != server:
            base = old_server or NodeSnapshot(server.size, server.size)
            change = _differences(base, server, _SERVER_FIELDS)
            if old_server is None:
                change = {"size": server.size, **change}
            servers.add(name, change)
    known = dict(lists)
    tasks = _Groups()
    for name, task in after.tasks.items():
        old_task = before.tasks.get(name)
        if old_task is not task and old_task != task:
            change = _differences(old_task or _DEFAULT_TASK, task, _TASK_FIELDS)
            if old_task is None:  # also where they happen to be those of the default
                change = {"user": task.user, "demand": task.demand, "order": task.order} | change
            if change.get("servers") is not None:
                change["servers"] = known.setdefault(task.servers or (), len(known))
            tasks.add(name, change, change.pop("order", None))
    line |= {"servers": servers.rows(), "lists": [list(names) for names in known][len(lists) :]}
    line["tasks"] = tasks.rows()
    line["gone"] = [name for name in before.tasks if name not in after.tasks]
    if before.weights is not after.weights and before.weights != after.weights:
        names = dict.fromkeys((*before.weights, *after.weights))
        pairs = {name: (before.weights.get(name), after.weights.get(name)) for name in names}
        line["weights"] = {name: short(new) for name, (old, new) in pairs.items() if old != new}
    return {**order, **{key: value for key, value in line.items() if value}}, known


def _differences(old: Any, new: Any, names: Iterable[str]) -> dict[str, Any]:
    pairs = ((name, getattr(old, name), getattr(new, name)) for name in names)
    return {name: value for name, was, value in pairs if was != value}


class _Groups:
    """Names with equal changes, together."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, Any]] = {}

    def add(self, name: str, change: Mapping[str, Any], order: Any = None) -> None:
        plain = short(change)
        key = json.dumps([order is not None, plain])
        group = self._groups.setdefault(
            key, {"names": [], **({} if order is None else {"order": []}), **plain}
        )
        group["names"].append(name)
        if order is not None:
            group["order"].append(list(order))

    def rows(self) -> list[dict[str, Any]]:
        return list(self._groups.values())


# And back


class SnapshotBuilder:
    """The cluster as the lines so far tell it.

    Examples
    --------
    >>> picture = SnapshotBuilder()
    >>> picture.apply({"order": ["n0"], "servers": [{"names": ["n0"], "size": {"cpu": 4}}]})
    ()
    >>> picture.apply({"tasks": [{"names": ["7"], "user": "ann", "demand": {"cpu": 1},
    ...                           "order": [[7, 0]]}]})
    ('7',)
    >>> picture.snapshot().tasks["7"].order, picture.snapshot().servers["n0"].room
    ((7, 0), {'cpu': 4.0})
    """

    def __init__(self) -> None:
        self.servers: dict[str, NodeSnapshot] = {}
        self.tasks: dict[str, TaskSnapshot] = {}
        self.weights: dict[str, float] = {}
        self._lists: list[tuple[str, ...]] = []

    def snapshot(self) -> ClusterSnapshot:
        """Return what is known now; later lines do not change it."""
        return ClusterSnapshot(self.servers, dict(self.tasks), self.weights)

    def apply(self, line: Mapping[str, Any]) -> tuple[str, ...]:
        """Take over what a line says; return the names of tasks that came, changed or went."""
        if "order" in line or "servers" in line:
            self._change_servers(line)
        for position, names in enumerate(_sequence(line.get("lists", []), "lists")):
            self._lists.append(tuple(_names(names, f"lists[{position}]")))
        changed: dict[str, None] = {}
        for name in _names(line.get("gone", []), "gone"):
            if self.tasks.pop(name, None) is None:
                raise InputError("gone", "must name tasks that are there", name)
            changed[name] = None
        for position, group in enumerate(_sequence(line.get("tasks", []), "tasks")):
            field = f"tasks[{position}]"
            for name, task in self._changed_tasks(group, field).items():
                self.tasks[name] = task
                changed[name] = None
        if "weights" in line:
            self._change_weights(line["weights"])
        return tuple(changed)

    def _change_servers(self, line: Mapping[str, Any]) -> None:
        # A new mapping: those that were given out stay as they are.
        servers = dict(self.servers)
        for position, group in enumerate(_sequence(line.get("servers", []), "servers")):
            field = f"servers[{position}]"
            names, said = _group(group, field, _SERVER_FIELDS)
            told: dict[str, Any] = {}
            for key, value in said.items():
                if key in ("size", "room"):
                    told[key] = dict(parse_amounts(value, f"{field}.{key}"))
                elif key == "state":
                    told[key] = _text(value, f"{field}.state")
                else:
                    told[key] = _labels(value, f"{field}.labels")
            for name in names:
                if name in servers:
                    servers[name] = replace(servers[name], **told)
                elif "size" not in told:
                    raise InputError(f"{field}.size", f"must be given: {name} is new")
                else:
                    servers[name] = NodeSnapshot(**{"room": told["size"], **told})
        order = _names(line["order"], "order") if "order" in line else list(servers)
        for name in order:
            if name not in servers:
                raise InputError("order", "must name servers that are there", name)
        if len(set(order)) != len(order):
            raise InputError("order", "must name each server once", order)
        if "order" not in line and len(servers) != len(self.servers):
            raise InputError("order", "must be given: there are new servers")
        self.servers = {name: servers[name] for name in order}

    def _changed_tasks(self, group: Any, field: str) -> dict[str, TaskSnapshot]:
        names, said = _group(group, field, _TASK_FIELDS)
        told = {key: self._task_value(key, value, f"{field}.{key}") for key, value in said.items()}
        orders = told.pop("order", None)
        if orders is not None and len(orders) != len(names):
            raise InputError(f"{field}.order", f"must be one for each of {len(names)} names")
        found: dict[str, TaskSnapshot] = {}
        for position, name in enumerate(names):
            own = {} if orders is None else {"order": orders[position]}
            if name in self.tasks:
                found[name] = replace(self.tasks[name], **told, **own)
                continue
            for key in ("user", "demand", "order"):
                if key not in said:
                    raise InputError(f"{field}.{key}", f"must be given: {name} is new")
            found[name] = TaskSnapshot(**told, **own)
        return found

    def _task_value(self, key: str, value: Any, field: str) -> Any:
        if key == "demand":
            return dict(parse_amounts(value, field))
        if key == "servers":
            if value is None:
                return None
            if isinstance(value, bool) or not isinstance(value, int):
                raise InputError(field, "must be the number of a list, or null", value)
            if not 0 <= value < len(self._lists):
                raise InputError(field, f"must be one of {len(self._lists)} lists so far", value)
            return self._lists[value]
        if key == "order":
            return [_order(row, f"{field}[{i}]") for i, row in enumerate(_sequence(value, field))]
        if key == "returned":
            if not isinstance(value, bool):
                raise InputError(field, "must be true or false", value)
            return value
        if key in ("since", "limit"):
            if value is None and key == "limit":
                return None
            if not is_number(value):
                raise InputError(field, "must be a number", value)
            return float(value)
        return None if value is None and key == "on" else _text(value, field)

    def _change_weights(self, told: Any) -> None:
        if not isinstance(told, Mapping):
            raise InputError("weights", "must map users to weights", told)
        weights = dict(self.weights)
        for user, weight in told.items():
            if weight is None:
                weights.pop(user, None)
            elif is_number(weight) and weight > 0:
                weights[user] = float(weight)
            else:
                raise InputError(f"weights.{user}", "must be a number > 0, or null", weight)
        self.weights = weights


def _group(group: Any, field: str, known: tuple[str, ...]) -> tuple[list[str], dict[str, Any]]:
    """Return the names of a group, and what it says."""
    if not isinstance(group, Mapping):
        raise InputError(field, "must be a mapping with names", group)
    said = dict(group)
    names = _names(said.pop("names", None), f"{field}.names")
    for key in said:
        if key not in known:
            raise UnknownNameError(f"a key of {field}", key, ("names", *known))
    return names, said


def _sequence(value: Any, field: str) -> list[Any]:
    if not isinstance(value, list):
        raise InputError(field, "must be a list", value)
    return value


def _names(value: Any, field: str) -> list[str]:
    names = _sequence(value, field)
    for name in names:
        if not isinstance(name, str) or not name:
            raise InputError(field, "must be a list of names", name)
    return names


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str):
        raise InputError(field, "must be text", value)
    return value


def _labels(value: Any, field: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise InputError(field, "must map label names to values", value)
    return {name: _text(label, f"{field}.{name}") for name, label in value.items()}


def _order(value: Any, field: str) -> tuple[int, ...]:
    row = _sequence(value, field)
    for number in row:
        if isinstance(number, bool) or not isinstance(number, int):
            raise InputError(field, "must be a list of whole numbers", number)
    return tuple(row)
