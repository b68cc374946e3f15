"""Checks of a snapshot, before anything is built from it.

A core assumes that it is called rightly, and the indexed one writes where a number says. So every
length, index and amount of a snapshot is checked here, once for both cores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from itertools import chain
from typing import Any

import numpy as np

from drfh.errors import InputError, UnknownNameError
from drfh.formatting import plural
from drfh.model.cluster import check_name
from drfh.model.resources import LARGEST_AMOUNT, Units
from drfh.policies import find_policy
from drfh.scheduler.core import RETURNED, CoreState, Ints
from drfh.scheduler.rules import Rules
from drfh.scheduler.state import LARGEST_TOTAL

__all__ = ["check_snapshot"]

_LARGEST_HELD = 2**62  # so far sums of what tasks hold are exact in int64
_FIELDS = {field.name for field in fields(CoreState)} - {"tasks"}
_PARTS = ("turn", "choice", "blocked", "inside", "fits")


def check_snapshot(snapshot: Mapping[str, Any]) -> None:
    """Raise unless every field is there, and they agree with each other.

    Examples
    --------
    >>> from drfh import Cluster, Scheduler, Server
    >>> saved = Scheduler(Cluster([Server({"cpu": 4}, name="a")])).snapshot()
    >>> check_snapshot(saved)
    >>> saved["core"]["capacity"][0][0] = -1
    >>> check_snapshot(saved)
    Traceback (most recent call last):
    drfh.errors.InputError: snapshot.core.capacity[0][0] must be a whole number from 0 to \
1125899906842624, got -1
    """
    at = "snapshot"
    if not isinstance(snapshot.get("policy"), str):
        raise InputError(f"{at}.policy", "must be the name of a policy", snapshot.get("policy"))
    for position, part in enumerate(_list(snapshot.get("own"), f"{at}.own")):
        if part not in _PARTS:
            raise UnknownNameError(f"{at}.own[{position}]", str(part), _PARTS)
    _integer(snapshot.get("seed"), f"{at}.seed", 0, 2**64 - 1)
    resources = _names(snapshot.get("resources"), f"{at}.resources")
    units = _list(snapshot.get("units"), f"{at}.units", len(resources), "resource")
    _each(units, f"{at}.units", _is_unit, "must be a whole number ≥ 1, or 1 divided by one")
    if not snapshot["own"]:
        try:
            Rules(find_policy(snapshot["policy"]), tuple(resources), tuple(units))
        except InputError as error:
            raise error.within(at) from None
    core = _mapping(snapshot.get("core"), f"{at}.core")
    if set(core) != _FIELDS:
        odd = ", ".join(sorted(map(str, _FIELDS ^ set(core))))
        raise InputError(f"{at}.core", f"must have the fields of this version ({odd})")
    up = _check_servers(snapshot, core, Units(tuple(resources), tuple(units)))
    there = _check_users(snapshot, core)
    _check_restrictions(snapshot, core, len(resources), len(up))
    _check_names_of_tasks(snapshot)
    _check_tasks(core, len(snapshot["tasks"]), up, there)
    _check_shapes(snapshot, core)
    evictions = _mapping(snapshot.get("evictions"), f"{at}.evictions")
    _integer(evictions.get("total"), f"{at}.evictions.total", 0, 2**63 - 1)
    for kind in ("users", "tasks"):
        for name, number in _mapping(evictions.get(kind), f"{at}.evictions.{kind}").items():
            _integer(number, f"{at}.evictions.{kind}.{name}", 0, 2**63 - 1)


# Parts of a snapshot


def _check_servers(
    snapshot: Mapping[str, Any], core: Mapping[str, Any], units: Units
) -> list[bool]:
    """Check the servers and their amounts; return which of them are up."""
    at = "snapshot.servers"
    servers = _records(snapshot.get("servers"), at)
    _names([server.get("name") for server in servers], at, ".name")
    amounts = np.zeros((len(servers), len(units.resources)))
    for position, server in enumerate(servers):
        here = f"{at}[{position}]"
        for key in ("group", "record"):
            check_name(server.get(key), f"{here}.{key}")
        if not isinstance(server.get("up"), bool):
            raise InputError(f"{here}.up", "must be true or false", server.get("up"))
        for name, amount in _mapping(server.get("resources"), f"{here}.resources").items():
            if name not in units.resources:
                raise UnknownNameError(f"resource of {here}", str(name), units.resources)
            column = units.resources.index(name)
            most = LARGEST_AMOUNT * units.sizes[column]
            if not _is_number(amount) or not 0 <= amount <= most:
                rule = f"must be a number from 0 to {most:g}"
                raise InputError(f"{here}.resources.{name}", rule, amount)
            amounts[position, column] = amount
        if not amounts[position].any():
            raise InputError(f"{here}.resources", "must have at least one amount > 0")
        for name, value in _mapping(server.get("labels"), f"{here}.labels").items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise InputError(f"{here}.labels", "must map text to text", {name: value})
    up = [bool(server["up"]) for server in servers]
    at = "snapshot.core.capacity"
    _list(core["capacity"], at, len(servers), "server")
    capacity = _table(core["capacity"], at, len(units.resources), "resource", LARGEST_AMOUNT)
    expected = units.rows(amounts) * np.array(up, dtype=np.int64)[:, None]
    for position, column in np.argwhere(capacity != expected)[:1].tolist():
        where = f"snapshot.servers[{position}]" if up[position] else "a server that was removed"
        rule = f"must be {expected[position, column]}, the {units.resources[column]} of {where}"
        raise InputError(f"{at}[{position}][{column}]", rule, int(capacity[position, column]))
    for name, total in zip(units.resources, capacity.sum(axis=0, dtype=float), strict=True):
        if total > LARGEST_TOTAL:
            raise InputError(at, f"must have at most {LARGEST_TOTAL} units of {name}", total)
    return up


def _check_users(snapshot: Mapping[str, Any], core: Mapping[str, Any]) -> list[bool]:
    """Check the users and the groups above them; return which of them are there."""
    groups = _names(snapshot.get("groups"), "snapshot.groups", empty=True)
    at = "snapshot.core.groups"
    rows = _list(core["groups"], at, len(groups), "group")
    for position, row in enumerate(rows):
        parent, weight = _list(row, f"{at}[{position}]", 2, "of parent and weight")
        _integer(parent, f"{at}[{position}][0]", -1, position - 1)  # parents stand before
        _check_weights([weight], f"{at}[{position}]")
    users = _records(snapshot.get("users"), "snapshot.users", empty=True)
    at = "snapshot.core"
    weights = _list(core["weight"], f"{at}.weight", len(users), "user")
    _check_weights(weights, f"{at}.weight")
    above = _integers(core["group"], f"{at}.group", -1, len(groups) - 1, len(users), "user")
    numbers = {name: number for number, name in enumerate(groups)}
    seen: set[str] = set()
    for position, (user, group) in enumerate(zip(users, above.tolist(), strict=True)):
        here = f"snapshot.users[{position}]"
        for key in ("parent", "servers"):  # which may be None
            if key not in user:
                raise InputError(here, f"must have {key}", dict(user))
        name, left, parent = user.get("name"), user.get("left"), user["parent"]
        check_name(name, f"{here}.name")
        check_name(parent, f"{here}.parent", optional=True)
        if not isinstance(left, bool):
            raise InputError(f"{here}.left", "must be true or false", left)
        if (-1 if parent is None else numbers.get(parent)) != group:
            raise InputError(f"{here}.parent", f"must be that of core.group[{position}]", parent)
        if not left:
            if name in seen:
                raise InputError(f"{here}.name", "must be unique", name)
            seen.add(str(name))
    return [not user["left"] for user in users]


def _check_restrictions(
    snapshot: Mapping[str, Any], core: Mapping[str, Any], resources: int, servers: int
) -> None:
    """Check where users and tasks may run, and what tasks need."""
    predicates = _list(snapshot.get("predicates"), "snapshot.predicates")
    for position, accepted in enumerate(predicates):
        _names(accepted, f"snapshot.predicates[{position}]", empty=True)
    known = {server[key] for server in snapshot["servers"] for key in ("name", "group")}
    for position, user in enumerate(snapshot["users"]):
        at = f"snapshot.users[{position}].servers"
        _check_terms(user["servers"], at, known, len(predicates))
    pairs = _list(snapshot.get("restrictions"), "snapshot.restrictions")
    for position, pair in enumerate(pairs):
        at = f"snapshot.restrictions[{position}]"
        for side, terms in enumerate(_list(pair, at, 2, "of user and task")):
            _check_terms(terms, f"{at}[{side}]", known, len(predicates))
        if pair[0] is None and pair[1] is None:
            raise InputError(at, "must restrict something", pair)
    at = "snapshot.core.allowed"
    for position, row in enumerate(_list(core["allowed"], at, len(pairs), "restriction")):
        here = f"{at}[{position}]"
        may = _list(row, here, servers, "server")
        _each(may, here, lambda value: isinstance(value, bool), "must be true or false")
    at = "snapshot.core.need"
    need = _table(_list(core["need"], at), at, resources, "resource", LARGEST_AMOUNT)
    for empty in np.flatnonzero(~need.any(axis=1))[:1].tolist():
        raise InputError(
            f"{at}[{empty}]", "must have at least one amount > 0", need[empty].tolist()
        )
    at = "snapshot.core.restriction"
    _integers(core["restriction"], at, 0, len(pairs), len(need), "row of core.need")


def _check_terms(terms: Any, at: str, known: set[str], predicates: int) -> None:
    if terms is None:
        return
    if not _list(terms, at):
        raise InputError(at, "must have at least one term", terms)
    for position, term in enumerate(terms):
        here = f"{at}[{position}]"
        if isinstance(term, str):
            if term not in known:
                raise UnknownNameError(here, term, known)
        elif isinstance(term, Mapping):
            for choices in term.values():
                texts = _list(choices, here)
                _each(texts, here, lambda text: isinstance(text, str), "must be text")
            if not term or not all(term.values()):
                raise InputError(here, "must have labels with at least one value", term)
        else:
            _integer(term, here, 0, predicates - 1)


def _check_names_of_tasks(snapshot: Mapping[str, Any]) -> None:
    states: dict[str, str] = {}
    for state in ("tasks", "done", "cancelled"):
        at = f"snapshot.{state}"
        names = _names(snapshot.get(state), at, empty=True)
        for position, name in enumerate(names if states else ()):
            if name in states:
                rule = f"must be in one list (it is in {states[name]} too)"
                raise InputError(f"{at}[{position}]", rule, name)
        states.update(dict.fromkeys(names, state))


def _check_tasks(core: Mapping[str, Any], tasks: int, up: list[bool], there: list[bool]) -> None:
    """Check whose the tasks are, what they need, where they run, and their order."""
    at = "snapshot.core"

    def column(name: str, low: int, high: int) -> Ints:
        return _integers(core[name], f"{at}.{name}", low, high, tasks, "task")

    def check(name: str, wrong: Any, rule: str) -> None:
        for task in np.flatnonzero(wrong)[:1].tolist():
            raise InputError(f"{at}.{name}[{task}]", rule, core[name][task])

    next_order = _integer(core["next_order"], f"{at}.next_order", 0, RETURNED)
    next_stamp = _integer(core["next_stamp"], f"{at}.next_stamp", 0, RETURNED)
    _integer(core["draws"], f"{at}.draws", 0, 2**64 - 1)
    if _mapping(core["extra"], f"{at}.extra"):
        raise InputError(f"{at}.extra", "must be empty in this version", core["extra"])
    user = column("user", 0, len(there) - 1)
    shape = column("shape", 0, len(core["need"]) - 1)
    server = column("server", -1, len(up) - 1)
    order = column("order", -RETURNED, RETURNED - 1)
    stamp = column("stamp", -1, next_stamp - 1)
    check("user", ~np.array(there, dtype=bool)[user], "must be a user who is there")
    runs = server >= 0
    check("server", runs & ~np.array(up, dtype=bool)[server], "must be a server that is up")
    check("stamp", runs != (stamp >= 0), "must be ≥ 0 where a task runs, and -1 elsewhere")
    check("stamp", runs & _again(stamp), "must be unique")
    submitted = order % RETURNED
    check("order", submitted >= next_order, f"must be of a task before {next_order}")
    check("order", _again(submitted), "must be unique")
    held = np.array([sum(row) for row in core["need"]], dtype=float)
    if held[shape[runs]].sum() > _LARGEST_HELD:
        raise InputError(f"{at}.need", f"must be at most {_LARGEST_HELD} of all tasks that run")


def _check_shapes(snapshot: Mapping[str, Any], core: Mapping[str, Any]) -> None:
    """Check that tasks obey the restrictions of their users."""
    users = [user["servers"] for user in snapshot["users"]]
    obeyed = [None, *(first for first, _ in snapshot["restrictions"])]
    seen = {pair: task for task, pair in enumerate(zip(core["user"], core["shape"], strict=True))}
    for (user, shape), task in seen.items():
        number = core["restriction"][shape]
        if obeyed[number] != users[user]:
            rule = f"must have the restriction of its user, {snapshot['users'][user]['name']}"
            raise InputError(f"snapshot.core.shape[{task}]", rule, shape)


# Lists, names and numbers


def _again(values: Ints) -> Any:
    """Return which values stand earlier in the list too."""
    again = np.ones(len(values), dtype=bool)
    again[np.unique(values, return_index=True)[1]] = False
    return again


def _mapping(value: Any, at: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise InputError(at, "must be a mapping", value)
    return value


def _list(value: Any, at: str, length: int | None = None, of: str = "") -> Sequence[Any]:
    if not isinstance(value, (list, tuple)):
        raise InputError(at, "must be a list", value)
    if length is not None and len(value) != length:
        of = of if of.startswith("of ") else f"for each {of}"
        rule = f"must have {length:,} {plural(length, 'entry', 'entries')} ({of})"
        raise InputError(at, rule, len(value))
    return value


def _records(value: Any, at: str, *, empty: bool = False) -> Sequence[Mapping[str, Any]]:
    records = _list(value, at)
    _each(records, at, lambda record: isinstance(record, Mapping), "must be a mapping")
    if not records and not empty:
        raise InputError(at, "must have at least one entry", value)
    return records


def _each(values: Sequence[Any], at: str, fine: Callable[[Any], bool], rule: str) -> None:
    for position, value in enumerate(values):
        if not fine(value):
            raise InputError(f"{at}[{position}]", rule, value)


def _names(value: Any, at: str, key: str = "", *, empty: bool = False) -> Sequence[str]:
    """Check a list of names that differ."""
    names = _list(value, at)
    if not names and not empty:
        raise InputError(at, "must have at least one name", value)
    for position, name in enumerate(names):
        if type(name) is not str or not name or name != name.strip():
            check_name(name, f"{at}[{position}]{key}")
    if len(set(names)) != len(names):
        seen: set[str] = set()
        for position, name in enumerate(names):
            if name in seen:
                raise InputError(f"{at}[{position}]{key}", "must be unique", name)
            seen.add(name)
    return names


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _is_unit(size: Any) -> bool:
    if not _is_number(size) or size <= 0:
        return False
    if size >= 1:
        return bool(size <= LARGEST_TOTAL and size == math.floor(size))
    return bool(1 / size < 2**63 and 1 / round(1 / size) == size)


def _check_weights(weights: Sequence[Any], at: str) -> None:
    rule = "must be a finite number > 0"
    _each(weights, at, lambda weight: _is_number(weight) and weight > 0, rule)


def _integer(value: Any, at: str, low: int, high: int) -> int:
    if type(value) is not int or not low <= value <= high:
        rule = f"must be a whole number from {low} to {high}"
        raise InputError(at, rule if low <= high else "must name something that is there", value)
    return value


def _integers(value: Any, at: str, low: int, high: int, length: int, of: str) -> Ints:
    """Check a list of whole numbers and return it as an array."""
    numbers = _list(value, at, length, of)
    whole = not set(map(type, numbers)) - {int}
    if not whole or (numbers and not (low <= min(numbers) and max(numbers) <= high)):
        for position, number in enumerate(numbers):
            _integer(number, f"{at}[{position}]", low, high)
    return np.array(numbers, dtype=np.int64)


def _table(rows: Sequence[Any], at: str, width: int, of: str, high: int) -> Ints:
    """Check rows of whole numbers ≥ 0 and return them as an array."""
    for position, row in enumerate(rows):
        _list(row, f"{at}[{position}]", width, of)
    numbers = list(chain.from_iterable(rows))
    if set(map(type, numbers)) - {int} or (
        numbers and not 0 <= min(numbers) <= max(numbers) <= high
    ):
        for position, row in enumerate(rows):
            _integers(row, f"{at}[{position}]", 0, high, width, of)
    return np.array(numbers, dtype=np.int64).reshape(-1, width)
