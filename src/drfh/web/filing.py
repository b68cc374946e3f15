"""The start of a workbook as plain data: the name of a shipped scenario, or a whole one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from drfh.errors import InputError, UnknownNameError
from drfh.files import Scenario, parse_scenario, scenario_text, shipped_scenarios, shipped_text
from drfh.web.editing import MOST_RESOURCES

__all__ = ["base_data", "base_of"]

_MOST_ENTRIES = 100_000


@cache
def _shipped(name: str) -> Scenario:
    return parse_scenario(shipped_text(name), f"{name}.yaml", strict=True)


@cache
def _titles() -> dict[str, str]:
    """Return name by title; titles differ."""
    return {title: name for name, title in shipped_scenarios().items()}


def base_data(scenario: Scenario) -> dict[str, Any] | str:
    """Return a scenario as plain data: a shipped one is its name.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> base_data(load_scenario("gpu-day"))
    'gpu-day'
    """
    name = _titles().get(scenario.title)
    if name is not None and _shipped(name) == scenario:
        return name
    data: dict[str, Any] = json.loads(scenario_text(scenario, as_json=True))
    return data


def base_of(data: Any) -> Scenario:
    """Return the scenario that plain data stands for; the checks are those of scenario files.

    Examples
    --------
    >>> base_of("paper-two-servers").title
    'Two servers, two users'
    """
    if isinstance(data, str):
        if data not in _titles().values():  # never the name of a file
            raise UnknownNameError("base", data, list(_titles().values()))
        return _shipped(data)
    if not isinstance(data, Mapping):
        rule = "must be the name of a shipped scenario, or a scenario"
        raise InputError("base", rule, data)
    _check_size(data)
    text = json.dumps(data)
    return parse_scenario(text, "base", strict=True)


def _check_size(data: Mapping[str, Any]) -> None:
    """Raise, before anything is built, if tables would be too large to hold."""
    for key in ("cluster", "users", "jobs", "events"):
        entries = data.get(key)
        if isinstance(entries, list) and len(entries) > _MOST_ENTRIES:
            raise InputError(key, f"must have at most {_MOST_ENTRIES:,} entries", len(entries))
    groups = data.get("cluster")
    names: set[Any] = set()
    for group in groups if isinstance(groups, list) else ():
        resources = group.get("resources") if isinstance(group, Mapping) else None
        names |= set(resources) if isinstance(resources, Mapping) else set()
        if len(names) > MOST_RESOURCES:
            rule = f"must have at most {MOST_RESOURCES} resources in all"
            raise InputError("cluster", rule)
