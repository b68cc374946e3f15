"""``drfh scenario``: check, list and show scenario files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from drfh.cli.allocate import check_mechanism
from drfh.cli.render.console import console, print_json, table
from drfh.formatting import format_amounts

if TYPE_CHECKING:
    from drfh.model.scenario import Scenario

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
    from drfh.files.scenario_file import load_scenario
    from drfh.files.validation import check as check_scenario

    scenario = load_scenario(file, strict=True)
    check_mechanism(scenario, file)
    warnings = [issue.message for issue in check_scenario(scenario)]
    if as_json:
        print_json({"file": file, **_summary(scenario), "warnings": warnings})
    else:
        _print_summary(scenario, warnings)


@app.command(name="list")
def list_(as_json: _Json = False) -> None:
    """List the scenarios that come with drfh.

    Example: drfh scenario list
    """
    from drfh.files.scenario_file import shipped_scenarios

    shipped = shipped_scenarios()
    if as_json:
        print_json({"scenarios": shipped})
        return
    out, grid = console(), table("name", "title")
    for name, title in shipped.items():
        grid.add_row(name, title)
    out.print(grid)


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a shipped scenario.")],
    as_json: _Json = False,
) -> None:
    """Print a shipped scenario, to read or to start your own from.

    Example: drfh scenario show paper-two-servers > mine.yaml
    """
    from drfh.files.scenario_file import shipped_text
    from drfh.files.yaml import parse, plain

    text = shipped_text(name)
    if as_json:
        print_json(plain(parse(text, name).root))
    else:
        typer.echo(text, nl=False)


@app.command()
def schema(
    output: Annotated[
        str | None,
        typer.Argument(
            metavar="[OUTPUT]",
            help="Instead: what a command prints with --json, such as allocate or trace-info.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="No difference: it is JSON.")] = False,
) -> None:
    """Print the JSON Schema of scenario files, for your editor; or that of an output.

    Example: drfh scenario schema > drfh.schema.json
    """
    import json

    from drfh.files.output_schema import output_schema
    from drfh.files.scenario_file import scenario_schema

    found = scenario_schema() if output is None else output_schema(output)
    typer.echo(json.dumps(found, indent=2, ensure_ascii=False))


def _summary(scenario: Scenario) -> dict[str, Any]:
    cluster = scenario.cluster
    return {
        "title": scenario.title,
        "servers": cluster.size,
        "groups": len(cluster),
        "resources": dict(zip(cluster.resources, cluster.totals.tolist(), strict=True)),
        "users": [user.name for user in scenario.users],
        "mechanism": scenario.mechanism,
        **({"jobs": scenario.workload.job_count} if scenario.jobs else {}),
        **({"tasks": scenario.workload.task_count} if scenario.jobs else {}),
        **({"events": len(scenario.events)} if scenario.events else {}),
    }


def _print_summary(scenario: Scenario, warnings: list[str]) -> None:
    from drfh.formatting import format_count, format_quantity
    from drfh.model.users import Kind, User, shown_restriction

    out = console()
    facts = _summary(scenario)
    if scenario.title:
        out.print(scenario.title, style="bold")
    totals = ", ".join(f"{name} {format_quantity(t)}" for name, t in facts["resources"].items())
    size = f"{format_count(facts['servers'], 'server')} in {format_count(facts['groups'], 'group')}"
    out.print(f"{size}: {totals}")
    out.print(f"{format_count(len(facts['users']), 'user')}, mechanism {scenario.mechanism}")
    grid = table("user", "demand of one task", "weight", "tasks", "servers")

    def add(name: str, weight: str, one: User | Kind) -> None:
        demand = format_amounts(one.demand, resource_first=True) or "that of its jobs"
        tasks = "no end" if one.tasks is None else f"{one.tasks:,.6g}"
        grid.add_row(name, demand, weight, tasks, shown_restriction(one.servers))

    for user in scenario.users[:_MOST_USERS]:
        if not user.kinds:
            add(user.name, f"{user.weight:g}", user)
            continue
        grid.add_row(user.name, format_count(len(user.kinds), "kind"), f"{user.weight:g}", "", "")
        for number, kind in enumerate(user.kinds, start=1):
            add(f"  {kind.name or number}", "", kind)
    out.print(grid)
    if len(scenario.users) > _MOST_USERS:
        out.print(f"and {format_count(len(scenario.users) - _MOST_USERS, 'more user')}")
    if scenario.jobs:
        out.print(scenario.workload.summary)
    for warning in warnings[:_MOST_USERS]:
        out.print(f"warning: {warning}", style="yellow")
    if len(warnings) > _MOST_USERS:
        more = format_count(len(warnings) - _MOST_USERS, "more warning")
        out.print(f"and {more}", style="yellow")
    out.print("OK" if not warnings else f"OK, with {format_count(len(warnings), 'warning')}")
