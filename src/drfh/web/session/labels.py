"""What was typed, in words: the parts of a step's line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drfh.errors import InputError
from drfh.model.resources import format_quantity
from drfh.model.users import shown_restriction
from drfh.web.session.cell_input import Typed, read_servers, read_tasks

__all__ = [
    "amounts_text",
    "labels_text",
    "servers_text",
    "shown_servers",
    "shown_value",
    "tasks_text",
]


def shown_servers(restriction: Any) -> str:
    """Return a restriction as :func:`read_servers` reads it; empty for everywhere.

    Examples
    --------
    >>> shown_servers(("big", {"zone": ("a", "b")})), shown_servers(None)
    ('big or zone=a|b', '')
    """
    return "" if restriction is None else shown_restriction(restriction)


def shown_value(value: Typed) -> str:
    """Return what somebody typed, as a word.

    Examples
    --------
    >>> shown_value(" 16Gi "), shown_value(2.0), shown_value(None)
    ('16Gi', '2', '')
    """
    if isinstance(value, int | float):
        return format_quantity(float(value)) if abs(value) < 1e300 else str(value)[:20]
    return "" if value is None else str(value).strip()


def amounts_text(amounts: Any) -> str:
    """Return amounts by resource in words.

    Examples
    --------
    >>> amounts_text({"cpu": 0.5, "memory": "2Gi"})
    'cpu 0.5, memory 2Gi'
    """
    if not isinstance(amounts, Mapping):
        return shown_value(amounts)
    return ", ".join(f"{r} {shown_value(a) or '0'}" for r, a in amounts.items()) or "nothing"


def tasks_text(value: Typed) -> str:
    """Return a number of tasks in words.

    Examples
    --------
    >>> tasks_text("100"), tasks_text("")
    ('100 tasks', 'no end')
    """
    try:
        tasks = read_tasks(value, "tasks")
    except InputError:
        return f"{shown_value(value)} tasks"
    return "no end" if tasks is None else f"{shown_value(value)} task{'s' * (tasks != 1)}"


def servers_text(value: Typed) -> str:
    """Return where tasks may run in words.

    Examples
    --------
    >>> servers_text(["big", {"zone": "a"}]), servers_text("")
    ('big or zone=a', 'all')
    """
    try:
        return shown_servers(read_servers(value, "servers")) or "all"
    except InputError:
        return shown_value(value)


def labels_text(labels: Typed) -> str:
    """Return labels in words.

    Examples
    --------
    >>> labels_text({"zone": "a", "disk": "ssd"})
    'zone=a, disk=ssd'
    """
    if not isinstance(labels, Mapping):
        return shown_value(labels)
    return ", ".join(f"{key}={label}" for key, label in labels.items())
