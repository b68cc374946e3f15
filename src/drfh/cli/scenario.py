"""``drfh scenario``: check, list and show scenario files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from drfh.files import Scenario

__all__ = ["app"]

app = typer.Typer(
    help="Check scenario files, and see the ones that come with drfh.", no_args_is_help=True
)

_MOST_USERS = 20
_Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


@app.command()
def check(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A YAML or JSON file, or a shipped scenario.")
    ],
    as_json: _Json = False,
) -> None:
    """Check a scenario file and say what is in it.

    The first mistake is named with its line (exit code 2).
    What is allowed but looks odd, such as a missing unit, is a warning.

    Example: drfh scenario check team.yaml
    """
    from drfh.files import check as look
    from drfh.files import load_scenario

    scenario = load_scenario(file, strict=True)
    warnings = [line.removeprefix("warning: ") for line in look(scenario)]
    if as_json:
        _print_json({"file": file, **_summary(scenario), "warnings": warnings})
    else:
        _print_summary(scenario, warnings)


@app.command(name="list")
def list_(as_json: _Json = False) -> None:
    """List the scenarios that come with drfh.

    Example: drfh scenario list
    """
    from drfh.files import shipped_scenarios

    shipped = shipped_scenarios()
    if as_json:
        _print_json(shipped)
        return
    console, table = _console(), _table("name", "title")
    for name, title in shipped.items():
        table.add_row(name, title)
    console.print(table)


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a shipped scenario.")],
    as_json: _Json = False,
) -> None:
    """Print a shipped scenario, to read or to start your own from.

    Example: drfh scenario show paper-two-servers > mine.yaml
    """
    from drfh._scalars import plain
    from drfh._yaml import parse
    from drfh.files import shipped_text

    text = shipped_text(name)
    if as_json:
        _print_json(plain(parse(text, name).root))
    else:
        typer.echo(text, nl=False)


@app.command()
def schema(
    as_json: Annotated[bool, typer.Option("--json", help="No difference: it is JSON.")] = False,
) -> None:
    """Print the JSON Schema of scenario files, for your editor.

    Example: drfh scenario schema > drfh.schema.json
    """
    from drfh.files import scenario_schema

    _print_json(scenario_schema())


def _summary(scenario: Scenario) -> dict[str, Any]:
    cluster = scenario.cluster
    return {
        "title": scenario.title,
        "servers": cluster.size,
        "groups": len(cluster),
        "resources": dict(zip(cluster.resources, cluster.totals.tolist(), strict=True)),
        "users": [user.name for user in scenario.users],
        "mechanism": scenario.mechanism,
    }


def _print_summary(scenario: Scenario, warnings: list[str]) -> None:
    from drfh.resources import format_quantity

    console = _console()
    facts = _summary(scenario)
    if scenario.title:
        console.print(scenario.title, style="bold")
    totals = ", ".join(f"{name} {format_quantity(t)}" for name, t in facts["resources"].items())
    size = f"{_some(facts['servers'], 'server')} in {_some(facts['groups'], 'group')}"
    console.print(f"{size}: {totals}")
    console.print(f"{_some(len(facts['users']), 'user')}, mechanism {scenario.mechanism}")
    table = _table("user", "demand of one task", "weight", "tasks", "servers")
    for user in scenario.users[:_MOST_USERS]:
        demand = ", ".join(f"{r} {format_quantity(a)}" for r, a in user.demand.items() if a)
        tasks = "no end" if user.tasks is None else f"{user.tasks:,.6g}"
        table.add_row(user.name, demand, f"{user.weight:g}", tasks, _where(user.servers))
    console.print(table)
    if len(scenario.users) > _MOST_USERS:
        console.print(f"and {len(scenario.users) - _MOST_USERS:,} more users")
    for warning in warnings[:_MOST_USERS]:
        console.print(f"warning: {warning}", style="yellow")
    if len(warnings) > _MOST_USERS:
        console.print(f"and {len(warnings) - _MOST_USERS:,} more warnings", style="yellow")
    console.print("OK" if not warnings else f"OK, with {_some(len(warnings), 'warning')}")


def _where(restriction: Any) -> str:
    if restriction is None:
        return "all"
    return " or ".join(
        term if isinstance(term, str) else ", ".join(f"{k}={'|'.join(v)}" for k, v in term.items())
        for term in restriction
    )


def _some(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'s' * (number != 1)}"


def _console() -> Console:
    from rich.console import Console

    # Names are not markup, and a pipe is no reason to cut lines.
    return Console(markup=False, highlight=False, emoji=False, soft_wrap=True)


def _table(*columns: str) -> Any:
    from rich import box
    from rich.table import Table

    return Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False)


def _print_json(data: Any) -> None:
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False))
