"""The differences between two snapshots of a cluster as plain data, and back.

A *line* is a mapping with these keys, each left out if nothing changed there:

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

What a group leaves out is as before; for a name that is new it is the default of
:class:`~drfh.engines.snapshot.NodeSnapshot` (available: all of its size) or
:class:`~drfh.engines.snapshot.TaskSnapshot`. Three fields have other names in a line: `available`
is ``room``, `recalled` is ``returned``, and `blocked` is ``aside``, the text alone, empty for None.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from drfh.engines.snapshot import (
    BlockedCode,
    BlockedReason,
    ClusterSnapshot,
    NodeSnapshot,
    TaskSnapshot,
)
from drfh.errors import InputError, UnknownNameError
from drfh.model.resources import parse_amounts

__all__ = ["KEYS", "SnapshotBuilder", "compact", "difference", "is_number"]

#: The keys of a line that :func:`difference` writes and :meth:`SnapshotBuilder.apply` reads.
KEYS = ("order", "servers", "lists", "tasks", "gone", "weights")

_DEFAULT_TASK = TaskSnapshot("", {}, ())
_KEYS_OF_FIELDS = {"available": "room", "blocked": "aside", "recalled": "returned"}


def _keys(record: type) -> dict[str, str]:
    """Return the fields of a record: key in a line → name."""
    return {_KEYS_OF_FIELDS.get(field.name, field.name): field.name for field in fields(record)}


_TASK_FIELDS, _SERVER_FIELDS = _keys(TaskSnapshot), _keys(NodeSnapshot)


def compact(value: Any) -> Any:
    """Return a number as it is written: 4 for 4.0; mappings and lists with such numbers.

    Examples
    --------
    >>> compact({"cpu": 4.0, "gpu": 0.5}), compact(None)
    ({'cpu': 4, 'gpu': 0.5}, None)
    """
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError("a number in a journal", "must be finite", value)
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, Mapping):
        return {name: compact(inner) for name, inner in value.items()}
    return [compact(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def is_number(value: Any) -> bool:
    """Return whether a value from JSON is a finite number.

    Examples
    --------
    >>> is_number(1.5), is_number(True), is_number("1")
    (True, False, False)
    """
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < math.inf


def difference(
    before: ClusterSnapshot, after: ClusterSnapshot, lists: Mapping[tuple[str, ...], int]
) -> tuple[dict[str, Any], dict[tuple[str, ...], int]]:
    """Return the line that leads from one snapshot to the next, and all numbered lists after it.

    Parameters
    ----------
    before, after
        The snapshots; ``ClusterSnapshot({}, {})`` before the first one.
    lists
        Lists of servers that earlier lines have numbered.

    Examples
    --------
    >>> node = NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0})
    >>> tasks = {f"7_{i}": TaskSnapshot("ann", {"cpu": 1.0}, (7, i)) for i in range(2)}
    >>> first = ClusterSnapshot({"n0": node}, tasks)
    >>> line, lists = difference(ClusterSnapshot({}, {}), first, {})
    >>> line["order"], line["servers"]
    (['n0'], [{'names': ['n0'], 'size': {'cpu': 4}}])
    >>> line["tasks"]
    [{'names': ['7_0', '7_1'], 'order': [[7, 0], [7, 1]], 'user': 'ann', 'demand': {'cpu': 1}}]
    >>> difference(first, ClusterSnapshot({"n0": node}, {"7_0": tasks["7_0"]}), lists)[0]
    {'gone': ['7_1']}
    """
    servers = _Groups()
    for name, server in after.servers.items():
        old_server = before.servers.get(name)
        if old_server is not server and old_server != server:
            base = old_server or NodeSnapshot(server.size, server.size)
            change = _changed_fields(base, server, _SERVER_FIELDS)
            if old_server is None:
                change = {"size": server.size, **change}
            servers.add(name, change)
    known = dict(lists)
    tasks = _Groups()
    for name, task in after.tasks.items():
        old_task = before.tasks.get(name)
        if old_task is not task and old_task != task:
            change = _changed_fields(old_task or _DEFAULT_TASK, task, _TASK_FIELDS)
            if "aside" in change:
                change["aside"] = "" if task.blocked is None else str(task.blocked)
            if old_task is None:  # also where they happen to be those of the default
                change = {"user": task.user, "demand": task.demand, "order": task.order} | change
            if change.get("servers") is not None:
                change["servers"] = known.setdefault(task.servers or (), len(known))
            tasks.add(name, change, change.pop("order", None))
    line: dict[str, Any] = {
        "servers": servers.rows(),
        "lists": [list(names) for names in known][len(lists) :],
        "tasks": tasks.rows(),
        "gone": [name for name in before.tasks if name not in after.tasks],
        "weights": _changed_weights(before.weights, after.weights),
    }
    line = {key: value for key, value in line.items() if value}
    if tuple(before.servers) != tuple(after.servers):
        line = {"order": list(after.servers), **line}  # empty if there are none any more
    return line, known


def _changed_fields(old: Any, new: Any, keys: Mapping[str, str]) -> dict[str, Any]:
    pairs = ((key, getattr(old, name), getattr(new, name)) for key, name in keys.items())
    return {key: value for key, was, value in pairs if was != value}


def _changed_weights(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, Any]:
    if before is after or before == after:
        return {}
    names = dict.fromkeys((*before, *after))
    pairs = {name: (before.get(name), after.get(name)) for name in names}
    return {name: compact(new) for name, (old, new) in pairs.items() if old != new}


class _Groups:
    """Names with equal changes, together."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, Any]] = {}

    def add(self, name: str, change: Mapping[str, Any], order: Any = None) -> None:
        plain = compact(change)
        key = json.dumps([order is not None, plain])
        group = self._groups.setdefault(
            key, {"names": [], **({} if order is None else {"order": []}), **plain}
        )
        group["names"].append(name)
        if order is not None:
            group["order"].append(list(order))

    def rows(self) -> list[dict[str, Any]]:
        return list(self._groups.values())


class SnapshotBuilder:
    """Builds the snapshot of a cluster from lines.

    Examples
    --------
    >>> builder = SnapshotBuilder()
    >>> builder.apply({"order": ["n0"], "servers": [{"names": ["n0"], "size": {"cpu": 4}}]})
    ()
    >>> builder.apply({"tasks": [{"names": ["7"], "user": "ann", "demand": {"cpu": 1},
    ...                           "order": [[7, 0]]}]})
    ('7',)
    >>> builder.snapshot().tasks["7"].order, builder.snapshot().servers["n0"].available
    ((7, 0), {'cpu': 4.0})
    """

    def __init__(self) -> None:
        self.servers: dict[str, NodeSnapshot] = {}
        self.tasks: dict[str, TaskSnapshot] = {}
        self.weights: dict[str, float] = {}
        self._lists: list[tuple[str, ...]] = []

    def snapshot(self) -> ClusterSnapshot:
        """Return the snapshot so far; later lines do not change it."""
        return ClusterSnapshot(self.servers, dict(self.tasks), self.weights)

    def apply(self, line: Mapping[str, Any]) -> tuple[str, ...]:
        """Apply a line; return the names of tasks that came, changed or went."""
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
            names, given = _group(group, field, _SERVER_FIELDS)
            change: dict[str, Any] = {}
            for key, value in given.items():
                if key in ("size", "room"):
                    change[_SERVER_FIELDS[key]] = dict(parse_amounts(value, f"{field}.{key}"))
                elif key == "state":
                    change[key] = _text(value, f"{field}.state")
                else:
                    change[key] = _labels(value, f"{field}.labels")
            for name in names:
                if name in servers:
                    servers[name] = replace(servers[name], **change)
                elif "size" not in change:
                    raise InputError(f"{field}.size", f"must be given: {name} is new")
                else:
                    servers[name] = NodeSnapshot(**{"available": change["size"], **change})
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
        names, given = _group(group, field, _TASK_FIELDS)
        change = {
            _TASK_FIELDS[key]: self._task_value(key, value, f"{field}.{key}")
            for key, value in given.items()
        }
        orders = change.pop("order", None)
        if orders is not None and len(orders) != len(names):
            raise InputError(f"{field}.order", f"must be one for each of {len(names)} names")
        found: dict[str, TaskSnapshot] = {}
        for position, name in enumerate(names):
            own = {} if orders is None else {"order": orders[position]}
            if name in self.tasks:
                found[name] = replace(self.tasks[name], **change, **own)
                continue
            for key in ("user", "demand", "order"):
                if key not in given:
                    raise InputError(f"{field}.{key}", f"must be given: {name} is new")
            found[name] = TaskSnapshot(**change, **own)
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
        if value is None and key == "on":
            return None
        text = _text(value, field)
        if key == "aside":
            return BlockedReason(BlockedCode.RECORDED, text) if text else None
        return text

    def _change_weights(self, change: Any) -> None:
        if not isinstance(change, Mapping):
            raise InputError("weights", "must map users to weights", change)
        weights = dict(self.weights)
        for user, weight in change.items():
            if weight is None:
                weights.pop(user, None)
            elif is_number(weight) and weight > 0:
                weights[user] = float(weight)
            else:
                raise InputError(f"weights.{user}", "must be a number > 0, or null", weight)
        self.weights = weights


def _group(group: Any, field: str, known: Mapping[str, str]) -> tuple[list[str], dict[str, Any]]:
    """Return the names of a group, and its other keys."""
    if not isinstance(group, Mapping):
        raise InputError(field, "must be a mapping with names", group)
    given = dict(group)
    names = _names(given.pop("names", None), f"{field}.names")
    for key in given:
        if key not in known:
            raise UnknownNameError(f"a key of {field}", key, ("names", *known))
    return names, given


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
