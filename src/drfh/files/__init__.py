"""Files: scenarios (YAML or JSON) ⇄ records, their schema, atomic writes.

The names load on first use: writing a file whole needs no YAML.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drfh.files.scenario_file import (
        check,
        load_scenario,
        parse_scenario,
        save_scenario,
        scenario_schema,
        scenario_text,
        shipped_scenarios,
        shipped_text,
    )

__all__ = [
    "check",
    "load_scenario",
    "parse_scenario",
    "save_scenario",
    "scenario_schema",
    "scenario_text",
    "shipped_scenarios",
    "shipped_text",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'drfh.files' has no attribute {name!r}")
    return getattr(import_module("drfh.files.scenario_file"), name)
