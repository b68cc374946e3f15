"""``drfh compare``: mechanisms side by side on one cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from drfh.cli.input import (
    OUTPUT_PANEL,
    AllUsersOption,
    FileArgument,
    JsonOutputOption,
    PageOption,
    SetOption,
    SplitOption,
    StrictOption,
    TraceOption,
    read_input,
)
from drfh.cli.render.console import print_csv, print_json, progress_bar
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
    from drfh.auditor.comparison import Comparison

__all__ = ["compare"]


def compare(
    file: FileArgument = None,
    trace: TraceOption = None,
    settings: SetOption = None,
    strict: StrictOption = False,
    split: SplitOption = None,
    mechanisms: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Compare these; norm:2, max-min:cpu, whole-tasks too."),
    ] = None,
    properties: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Mark these properties (drfh audit --list names them)."),
    ] = None,
    add: AddOption = None,
    remove: RemoveOption = None,
    weight: WeightOption = None,
    weights: WeightsOption = None,
    demand: DemandOption = None,
    tasks: TasksOption = None,
    everyone: AllUsersOption = False,
    as_json: JsonOutputOption = False,
    as_csv: Annotated[
        bool,
        typer.Option(
            "--csv", rich_help_panel=OUTPUT_PANEL, help="Print a CSV row a mechanism and user."
        ),
    ] = False,
    html: PageOption = None,
    listed: Annotated[
        bool,
        typer.Option("--list", rich_help_panel=OUTPUT_PANEL, help="Name the mechanisms and stop."),
    ] = False,
) -> None:
    """Compare mechanisms on one cluster: who gets what, how full it is, how fair.

    Starts with what today's pooled fair shares promise, and how much of
    that can be placed on the servers at hand.

    Try:

      drfh compare paper-two-servers

      drfh compare team.yaml --mechanisms drfh,drf,tsf,nash --html team.html

      drfh compare team.yaml --add "10x cpu=8,memory=512Gi" --weight ann=2

      drfh compare --trace slurm:sinfo.json,squeue.json
    """
    from drfh.auditor.comparison import MARKS
    from drfh.auditor.comparison import compare as run
    from drfh.cli.audit import check_page, property_names
    from drfh.cli.render import comparison as text

    if listed:
        text.print_mechanisms(as_json=as_json)
        return
    if as_json and as_csv:
        raise InputError("--json", "must not be used together with --csv")
    check_page(html)
    chosen = None
    if mechanisms is not None:
        chosen = [name.strip() for name in mechanisms.split(",") if name.strip()]
        if not chosen:
            raise InputError("--mechanisms", "must name at least one mechanism", mechanisms)
    marks = property_names(properties, "--properties") if properties is not None else list(MARKS)
    given = read_input(
        file,
        trace,
        verb="compare",
        settings=settings,
        strict=strict,
        split=split,
        edits=Edits(add, remove, weight, weights, demand, tasks),
    )
    given.print_account()
    scenario = given.scenario
    with given.one_kind_named(), progress_bar() as progress:
        result: Comparison = run(scenario, mechanisms=chosen, properties=marks, progress=progress)
    if html is not None:
        from drfh.report.pages.comparison import save_comparison

        save_comparison(result, html, title=scenario.title)
    if as_json:
        print_json({**result.to_dict(), **given.to_dict()})
    elif as_csv:
        print_csv(result.table().write_csv())
    else:
        text.print_comparison(result, everyone=everyone)
