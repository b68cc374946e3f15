"""Steps: single changes to a cluster and its users, as people make them on a page.

A step is a small record that can be written as a list (for a link), said in a line, and applied:
either it applies whole, or it is refused with an error about the cell that it is about.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

from drfh.errors import InputError, UnknownNameError
from drfh.web.editing import State
from drfh.web.server_steps import AddServer, RemoveServer, SetServer
from drfh.web.step import Cell, Step
from drfh.web.user_steps import SAME, AddUser, Lie, RemoveUser, SetUser, Truth

__all__ = [
    "SAME",
    "STEPS",
    "AddServer",
    "AddUser",
    "Cell",
    "Lie",
    "RemoveServer",
    "RemoveUser",
    "SetServer",
    "SetUser",
    "State",
    "Step",
    "Truth",
    "step_of",
]

#: Every kind of step by the word that it is written with.
STEPS: dict[str, type[Step]] = {
    "server": SetServer,
    "+server": AddServer,
    "-server": RemoveServer,
    "user": SetUser,
    "+user": AddUser,
    "-user": RemoveUser,
    "lie": Lie,
    "truth": Truth,
}


def step_of(data: Any) -> Step:
    """Return the step that a list stands for; the other way is :meth:`Step.to_list`.

    Examples
    --------
    >>> step_of(["server", "big", "count", "10"])
    SetServer(group='big', field='count', value='10')
    >>> step_of(["user", "ann"])
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
