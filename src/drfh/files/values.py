"""Values that stand in several places of a file: amounts, restrictions, groups of servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drfh.cluster import Server
from drfh.errors import InputError
from drfh.files.scalars import written
from drfh.resources import format_quantity, parse_quantity

__all__ = [
    "amount",
    "amounts",
    "number",
    "read_restriction",
    "saved_group",
    "saved_restriction",
]


def number(value: float) -> int | float:
    """Return a number as people write it: without a point if it is whole.

    Examples
    --------
    >>> number(3.0), number(2.5)
    (3, 2.5)
    """
    return int(value) if value.is_integer() and value < 2**53 else value


def amount(value: float) -> int | float | str:
    """Return an amount as people write it.

    Examples
    --------
    >>> amount(2.0**34), amount(4.0)
    ('16Gi', 4)
    """
    short = format_quantity(value)
    return short if short.endswith("i") and parse_quantity(short) == value else number(value)


def amounts(values: Mapping[str, float]) -> dict[str, Any]:
    """Return amounts by name, each as people write it.

    Examples
    --------
    >>> amounts({"cpu": 0.5, "memory": 2.0**30})
    {'cpu': 0.5, 'memory': '1Gi'}
    """
    return {name: amount(value) for name, value in values.items()}


def read_restriction(value: Any) -> Any:
    """Return a restriction with every name and label as the text that was written.

    Examples
    --------
    >>> from drfh.files.scalars import resolve
    >>> read_restriction([resolve("007"), {"zone": "a"}])
    ['007', {'zone': 'a'}]
    """
    if isinstance(value, list):
        return [_term(term, f"servers[{position}]") for position, term in enumerate(value)]
    return None if value is None else _term(value, "servers")


def _term(value: Any, field: str) -> Any:
    value = written(value)
    if isinstance(value, dict):
        return {key: _choices(choice, f"{field}.{key}") for key, choice in value.items()}
    if not isinstance(value, str):
        raise InputError(field, "must be the name of a server or group, or labels", value)
    return value


def _choices(value: Any, field: str) -> str | list[str]:
    several = isinstance(value, list)
    choices = [written(choice) for choice in (value if several else [value])]
    if not choices or not all(isinstance(choice, str) for choice in choices):
        raise InputError(field, "must be a label value or a list of them", value)
    return choices if several else choices[0]


def saved_restriction(restriction: Any, field: str) -> Any:
    """Return a restriction for a file; `field` names it in an error.

    Examples
    --------
    >>> saved_restriction(("big", {"gpu": ("a100", "h100")}), "servers")
    ['big', {'gpu': ['a100', 'h100']}]
    """
    saved: list[Any] = []
    for term in restriction:
        if isinstance(term, str):
            saved.append(term)
        elif isinstance(term, Mapping):
            saved.append({k: v[0] if len(v) == 1 else list(v) for k, v in term.items()})
        else:
            raise InputError(field, "must be names or labels to be saved, not a predicate", term)
    return saved[0] if len(saved) == 1 else saved


def saved_group(server: Server) -> dict[str, Any]:
    """Return a group of servers for a file.

    Examples
    --------
    >>> saved_group(Server({"cpu": 8}, name="big"))
    {'name': 'big', 'count': 1, 'resources': {'cpu': 8}}
    """
    entry: dict[str, Any] = {"name": server.name, "count": server.count}
    entry["resources"] = amounts(server.resources)
    return {**entry, "labels": dict(server.labels)} if server.labels else entry
