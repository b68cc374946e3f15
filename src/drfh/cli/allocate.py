"""``drfh allocate``: the exact allocation of a scenario, and what-if."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drfh.cli.errors import named_as_options
from drfh.cli.input import (
    OUTPUT_PANEL,
    FileArgument,
    JsonOutputOption,
    SetOption,
    SplitOption,
    StrictOption,
    TraceOption,
    read_input,
)
from drfh.cli.render.console import console, json_output, print_csv, print_json, print_line
from drfh.cli.whatif import (
    AddOption,
    DemandOption,
    Edits,
    RemoveOption,
    TasksOption,
    WeightOption,
    WeightsOption,
)
from drfh.errors import InputError

if TYPE_CHECKING:
    from drfh.allocation.allocation import Allocation
    from drfh.model.scenario import Scenario

__all__ = ["allocate"]

_SUFFIXES = (".json", ".csv", ".parquet")
_MOST_WARNINGS = 10


def allocate(
    file: FileArgument = None,
    trace: TraceOption = None,
    settings: SetOption = None,
    strict: StrictOption = False,
    split: SplitOption = None,
    mechanism: Annotated[
        str | None, typer.Option(help="Use this mechanism instead of the file's.")
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(help="Force a solver: closed-form, single-pool, simplex, interior-point."),
    ] = None,
    whole_tasks: Annotated[
        bool, typer.Option("--whole-tasks", help="Place whole tasks; show the loss.")
    ] = False,
    filling: Annotated[
        str | None,
        typer.Option(
            metavar="best|paper",
            help="Whole tasks: the best found (default), or the paper's filling with Best-Fit.",
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(metavar="S", help="Whole tasks: time of the local search (default 2)."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Whole tasks: seed of the local search.")
    ] = None,
    add: AddOption = None,
    remove: RemoveOption = None,
    weight: WeightOption = None,
    weights: WeightsOption = None,
    demand: DemandOption = None,
    tasks: TasksOption = None,
    explain: Annotated[
        str | None,
        typer.Option(
            metavar="USER",
            rich_help_panel=OUTPUT_PANEL,
            help="Say in a sentence what limits a user.",
        ),
    ] = None,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            rich_help_panel=OUTPUT_PANEL,
            help="Check placement and prices from scratch; show the gap.",
        ),
    ] = False,
    placement: Annotated[
        bool,
        typer.Option(
            "--placement",
            rich_help_panel=OUTPUT_PANEL,
            help="Print who runs where, by server group.",
        ),
    ] = False,
    expand: Annotated[
        bool,
        typer.Option(
            "--expand", rich_help_panel=OUTPUT_PANEL, help="Print who runs where, server by server."
        ),
    ] = False,
    everyone: Annotated[
        bool,
        typer.Option(
            "--all", rich_help_panel=OUTPUT_PANEL, help="Print all users and groups, however many."
        ),
    ] = False,
    as_json: JsonOutputOption = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", rich_help_panel=OUTPUT_PANEL, help="Print CSV.")
    ] = False,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=OUTPUT_PANEL,
            help="Write to a .json, .csv or .parquet file.",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=OUTPUT_PANEL,
            help="Draw to an .html, .svg, .png or .pdf file.",
        ),
    ] = None,
) -> None:
    """Share a cluster among its users, exactly, with a proof.

    Shows tasks and dominant share of each user, how full each group of
    servers is, what limits whom, and whether it is proven optimal;
    --verify adds the relative gap, the method and every check.

    With --add, --remove, --weight, --demand or --tasks: before and after.

    Try:

      drfh allocate paper-two-servers

      drfh allocate team.yaml --add "10x cpu=8,memory=512Gi" --weight ann=2

      drfh allocate team.yaml --plot team.html --save team.json

      drfh allocate --trace kubernetes:cluster.json
    """
    from drfh.cli.render import allocation as text
    from drfh.files.validation import check as check_scenario

    if as_json and as_csv:
        raise InputError("--json", "must not be used together with --csv")
    if save is not None and save.suffix not in _SUFFIXES:
        raise InputError("--save", f"must end in one of {', '.join(_SUFFIXES)}", str(save))
    given = read_input(
        file,
        trace,
        verb="allocate",
        settings=settings,
        strict=strict,
        split=split,
        edits=Edits(add, remove, weight, weights, demand, tasks),
    )
    given.print_account()
    placement = placement or expand
    asked = {"filling": filling, "seconds": seconds, "seed": seed}
    names = given.node_names
    scenario = given.scenario
    with given.one_kind_named():
        before = (
            _solve(given.before, mechanism, method, whole_tasks, asked) if given.edits else None
        )
        allocation = _solve(scenario, mechanism, method, whole_tasks, asked)
    checked = allocation.verify() if verify else None
    warnings = [issue.message for issue in check_scenario(scenario)]
    open_ = text.unproven(allocation)
    if plot is not None:
        from drfh.report.charts.allocation import save_chart

        save_chart(allocation, plot, title=scenario.title)
    if save is not None:
        _save(save, allocation, before, placement=placement, expand=expand, names=names)
    for warning in warnings[:_MOST_WARNINGS]:
        console(stderr=True).print(f"warning: {warning}", style="yellow")
    if open_ and (as_csv or explain is not None or placement):
        console(stderr=True).print(f"warning: {open_}", style="bold red")
    if as_json:
        data = {**_data(allocation, before, expand=expand, names=names), **given.to_dict()}
        warnings = [*given.warnings, *warnings]
        print_json({**data, "warnings": warnings} if warnings else data)
    elif as_csv:
        print_csv(_table(allocation, placement, expand, names).write_csv())
    elif explain is not None:
        if before is not None:
            print_line(f"before: {before.explain(explain)}")
        print_line(f"{'after:  ' * (before is not None)}{allocation.explain(explain)}")
    elif placement:
        text.print_placement(_table(allocation, True, expand, names), everyone=everyone)
    elif before is not None:
        text.print_change(before, allocation, scenario.title, everyone=everyone)
    else:
        text.print_allocation(allocation, scenario.title, everyone=everyone)
    if checked is not None:
        text.print_verification(allocation, checked, stderr=as_json or as_csv)
        if not checked:
            raise typer.Exit(1)


def check_mechanism(scenario: Scenario, file: str) -> None:
    """Raise, with the name of the file, unless it names a mechanism and parameters it takes."""
    from drfh.mechanisms import check_parameters, find_mechanism

    parameters = dict(scenario.parameters)
    whole = parameters.pop("whole_tasks", False)
    if not isinstance(whole, bool):
        raise InputError("parameters.whole_tasks", "must be true or false", whole, place=file)
    try:
        check_parameters(*find_mechanism(scenario.mechanism), parameters, whole_tasks=whole)
    except InputError as error:
        error.place = file
        raise


def _solve(
    scenario: Scenario,
    mechanism: str | None,
    method: str | None,
    whole_tasks: bool,
    asked: Mapping[str, Any],
) -> Allocation:
    from drfh.mechanisms import allocate as solve

    parameters: dict[str, Any] = {} if method is None else {"method": method}
    for option, value in asked.items():
        if value is not None:
            if not (whole_tasks or scenario.parameters.get("whole_tasks")):
                raise InputError(f"--{option}", "must be used together with --whole-tasks")
            parameters[option] = value
    out = console(stderr=True)
    status = out.status("solving") if out.is_terminal else nullcontext()
    with status as shown, named_as_options(*asked):
        return solve(
            scenario,
            mechanism=mechanism,
            whole_tasks=whole_tasks,
            progress=shown and (lambda step: shown.update(f"solving: {step}")),
            **parameters,
        )


def _data(
    allocation: Allocation, before: Allocation | None, *, expand: bool, names: Mapping[str, str]
) -> dict[str, Any]:
    data = allocation.to_dict()
    if expand:
        data["placement"] = _table(allocation, True, expand, names).to_dicts()
    if before is not None:
        data["before"] = before.to_dict()
    return data


def _table(allocation: Allocation, placement: bool, expand: bool, names: Mapping[str, str]) -> Any:
    """Return users, or who runs where; servers by the names of their nodes."""
    if not placement:
        return allocation.user_table()
    frame = allocation.placement(expand=expand)
    if not (expand and names):
        return frame
    return frame.with_columns(frame["server"].replace(dict(names)))


def _save(
    path: Path,
    allocation: Allocation,
    before: Allocation | None,
    *,
    placement: bool,
    expand: bool,
    names: Mapping[str, str],
) -> None:
    from drfh.files.atomic import write_whole

    if path.suffix == ".json":
        data = _data(allocation, before, expand=placement and expand, names=names)
        write_whole(path, json_output(data).encode())
        return
    frame = _table(allocation, placement, expand, names)
    if path.suffix == ".csv":
        write_whole(path, frame.write_csv().encode())
        return
    from io import BytesIO

    buffer = BytesIO()
    frame.write_parquet(buffer)
    write_whole(path, buffer.getvalue())
