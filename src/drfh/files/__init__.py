"""Scenario files (YAML or JSON) ⇄ records."""

from drfh.files.scenario import (
    Scenario,
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
    "Scenario",
    "check",
    "load_scenario",
    "parse_scenario",
    "save_scenario",
    "scenario_schema",
    "scenario_text",
    "shipped_scenarios",
    "shipped_text",
]
