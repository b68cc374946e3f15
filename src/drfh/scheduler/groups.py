"""The tree of groups of users, for ``hdrf``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drfh.errors import InputError, UnknownNameError
from drfh.model.cluster import check_name
from drfh.model.resources import parse_quantity

__all__ = ["Groups", "read_groups", "read_weight"]

Groups = Mapping[str, Mapping[str, Any]]


def read_weight(weight: Any, field: str = "weight") -> float:
    """Read a weight.

    Examples
    --------
    >>> read_weight("2.5")
    2.5
    """
    number = parse_quantity(weight, field, "must be a number > 0, such as 1 or 2.5")
    if number <= 0:
        raise InputError(field, "must be > 0", weight)
    return number


def read_groups(groups: Groups | None) -> dict[str, tuple[str | None, float]]:
    """Return parent and weight of each group, a group above before those below.

    Groups that are only named as a parent are there too, with weight 1.

    Examples
    --------
    >>> read_groups({"vision": {"parent": "research", "weight": 2}})
    {'research': (None, 1.0), 'vision': ('research', 2.0)}
    """
    if groups is None:
        return {}
    if not isinstance(groups, Mapping):
        raise InputError("groups", "must map names of groups to their parent and weight", groups)
    given: dict[str, tuple[str | None, float]] = {}
    for name, fields in groups.items():
        check_name(name, "name of a group")
        if not isinstance(fields, Mapping):
            raise InputError(f"groups.{name}", "must have a parent, a weight or both", fields)
        for key in fields:
            if key not in ("parent", "weight"):
                raise UnknownNameError(f"groups.{name}", str(key), ["parent", "weight"])
        above = fields.get("parent")
        check_name(above, f"groups.{name}.parent", optional=True)
        given[name] = above, read_weight(fields.get("weight", 1.0), f"groups.{name}.weight")
    ordered: dict[str, tuple[str | None, float]] = {}
    for name in given:
        path: list[str] = []
        at: str | None = name
        while at is not None and at not in ordered:
            if at in path:
                raise InputError(f"groups.{at}", "must not be above itself")
            path.append(at)
            at = given.get(at, (None, 1.0))[0]
        for below in reversed(path):
            ordered[below] = given.get(below, (None, 1.0))
    return ordered
