"""Formats and generators with their options, as text and as data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drfh.cli.output import console, table
from drfh.cli.simulate_text import say
from drfh.cli.trace_text import option_text

__all__ = ["formats_data", "print_formats"]


def formats_data(formats: Mapping[str, Any], generators: Mapping[str, Any]) -> dict[str, Any]:
    """Return formats and generators with their options as plain data."""

    def data(one: Any) -> dict[str, Any]:
        options = [
            {
                "name": o.name,
                "kind": o.kind,
                "default": list(o.default) if isinstance(o.default, tuple) else o.default,
                **({"choices": list(o.choices)} if o.choices else {}),
                "help": o.help,
            }
            for o in one.options
        ]
        snapshot = {"snapshot": one.snapshot} if hasattr(one, "snapshot") else {}
        return {"title": one.title, **snapshot, "options": options}

    return {
        "formats": {name: data(one) for name, one in formats.items()},
        "generators": {name: data(one) for name, one in generators.items()},
    }


def print_formats(
    formats: Mapping[str, Any], generators: Mapping[str, Any], *, whole: bool = False
) -> None:
    """Print formats and generators with their options; those that several share are said once.

    Parameters
    ----------
    formats, generators
        By name.
    whole
        Whether it is about one of them alone.
    """
    out = console()
    every = {**formats, **generators}
    for what, known in (("format", formats), ("generator", generators)):
        if whole or not known:
            continue
        grid = table(what, "what it is")
        grid.columns[0].no_wrap = True
        for name, one in known.items():
            grid.add_row(name, _title(one))
        out.print(grid)
    owners: dict[Any, list[str]] = {}
    for name, one in every.items():
        for option in one.options:
            owners.setdefault(option, []).append(name)
    sections: dict[str, list[Any]] = {}
    for option, names in owners.items():
        sections.setdefault(", ".join(names), []).append(option)
    if whole:
        for name, one in every.items():
            say(f"{name}: {_title(one)}", "bold")
    for whose, options in sections.items():
        if not whole:
            say(f"Options of {whose}", "bold")
        grid = table("option", "default", "what it does")
        grid.columns[0].no_wrap = True
        for option in options:
            default = "–" if option.default is None else option_text(option.default)
            unsaid = any(choice not in option.help for choice in option.choices)
            choices = f" ({', '.join(option.choices)})" if unsaid else ""
            grid.add_row(option.name, default, option.help + choices)
        out.print(grid)
    flags = "--hours, --start, --users, --sample and --seed are flags of their own"
    say(f"{flags}; set any other with --set NAME=VALUE")


def _title(one: Any) -> str:
    return f"{one.title} (a snapshot)" if getattr(one, "snapshot", False) else str(one.title)
