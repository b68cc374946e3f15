"""``drfh reproduce``: the paper's evaluation again, with a verdict on each of its claims."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drfh.cli.errors import named_as_options
from drfh.cli.input import OUTPUT_PANEL, JsonOutputOption
from drfh.cli.render.console import console, print_json, progress_bar, table
from drfh.errors import InputError, UnknownNameError
from drfh.formatting import format_count

if TYPE_CHECKING:
    from drfh.experiments import Reproduction, Setup

__all__ = ["reproduce"]

PRESETS = {"A": "backlog_cut", "B": "each_drop"}
PAGE = "index.html"
_OPTIONS = ("data", "servers", "seeds", "hours", "jobs")
_WIDE = 120
_STYLE = {"holds": "green", "does not hold": "red", "not tested": "dim", "generated": "dim"}


def reproduce(
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            envvar="DRFH_DATA",
            help="Google's trace of 2011; without it, a workload like it is generated.",
        ),
    ] = None,
    preset: Annotated[
        str,
        typer.Option(
            metavar="A|B",
            help="How its events become tasks: A keeps what was there at the start, B drops it. "
            "A generated workload has the same jobs in B, but fewer: its load.",
        ),
    ] = "A",
    servers: Annotated[
        int, typer.Option(metavar="N", help="Draw so many from the shapes of its machines.")
    ] = 2000,
    seeds: Annotated[
        int, typer.Option(metavar="N", help="Draw so many times, to see how much that matters.")
    ] = 3,
    hours: Annotated[
        float | None, typer.Option(metavar="N", help="Simulate so many hours; else all.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Try all rules of slots, not only the usual ones.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="One draw, three hours, one rule of slots.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(metavar="N", help="Processes at a time; by default one for each processor."),
    ] = None,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            rich_help_panel=OUTPUT_PANEL,
            help="Write the page, its figures and tables, and all runs there.",
        ),
    ] = Path("reproduction"),
    force: Annotated[
        bool,
        typer.Option("--force", rich_help_panel=OUTPUT_PANEL, help="Replace one that is there."),
    ] = False,
    as_json: JsonOutputOption = False,
) -> None:
    """Reproduce the evaluation of the DRFH paper, and write a page about it.

    Everything is simulated again: dynamic allocation, utilisation, job
    completion times, completion ratios and sharing incentive; and more
    policies than the paper has. Each of its claims gets a verdict.

    Try:

      drfh reproduce --quick

      drfh reproduce --data clusterdata-2011-2 --seeds 1 -o paper
    """  # fmt: skip
    from drfh.experiments import Setup
    from drfh.experiments.reproduction import SUMMARY_FILE
    from drfh.files.atomic import check_directory, whole_directory

    if jobs is not None and jobs < 1:
        raise InputError("--jobs", "must be a whole number ≥ 1", jobs)
    with named_as_options(*_OPTIONS, output=output):
        setup = Setup(
            data=data,
            preset=_preset(preset),  # type: ignore[arg-type]
            servers=servers,
            seeds=seeds,
            hours=hours,
            full=full,
            quick=quick,
        )
        check_directory(output, SUMMARY_FILE, force=force, field="--output")
        with whole_directory(output, SUMMARY_FILE, force=force) as draft:
            found = _carry_out(setup, draft, jobs)
    page = output / PAGE
    if as_json:
        print_json({**found.summary(), "directory": str(output), "page": str(page)})
        return
    _print_scorecard(found)
    out = console()
    out.print(f"page: {page}")


def _preset(given: str) -> str:
    """Return the trace's own name of a preset.

    Examples
    --------
    >>> _preset("b")
    'each_drop'
    """
    name = PRESETS.get(given.upper(), given)
    if name not in PRESETS.values():
        raise UnknownNameError("--preset", given, PRESETS)
    return name


def _carry_out(setup: Setup, draft: Path, jobs: int | None) -> Reproduction:
    """Compute, and write everything into a folder."""
    from drfh.experiments import reproduce as compute
    from drfh.report.pages.reproduction import save_reproduction

    with progress_bar() as update:
        found = compute(setup, folder=draft, progress=update, processes=jobs)
        if update is not None:
            update("writing the page", 1, 1)
        found.write(draft)
        save_reproduction(found, draft)
    return found


def _print_scorecard(found: Reproduction) -> None:
    from rich.text import Text

    from drfh.experiments.claims import tally

    out = console()
    numbers = found.numbers
    source = "generated workload" if numbers["source"]["generated"] else "Google's trace of 2011"
    out.print(
        f"{source}: {numbers['users']:,} users, {numbers['jobs']:,} jobs, {numbers['tasks']:,} "
        f"tasks in {numbers['window'] / 3600:.1f} hours on {found.setup['servers']:,} servers"
    )
    # On a narrow terminal without the paper's value, which most claims contain.
    wide = out.width >= _WIDE
    grid: Any = table("figure", "claim", *(["paper"] if wide else []), "ours", "verdict")
    for claim in found.claims:
        verdict: str = claim.verdict
        if claim.condition:
            verdict = f"holds if {claim.condition}"
        style = _STYLE.get(claim.verdict, "yellow")
        paper = [claim.paper] if wide else []
        ours = "; ".join(part for part in (claim.ours_text, claim.beside) if part)
        grid.add_row(claim.figure, claim.text, *paper, ours, Text(verdict, style))
    out.print(grid)
    counts = tally(found.claims)
    generated = counts.pop("generated", 0)
    out.print(", ".join(f"{number} {verdict}" for verdict, number in counts.items()))
    if generated:
        out.print(
            f"{format_count(generated, 'claim')} about Google's trace: numbers of a generated "
            "workload, which can neither hold nor fail (--data)"
        )
