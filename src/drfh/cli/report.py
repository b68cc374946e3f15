"""``drfh report``: one offline page for runs that were saved."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from drfh.cli.input import FigureFormatOption, FiguresOption, check_figures
from drfh.cli.render.console import console, print_json
from drfh.errors import InputError

__all__ = ["report"]


def report(
    directories: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="DIR...", help="Run directories, or directories that hold run directories."
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The page, an .html file.")
    ] = Path("report.html"),
    title: Annotated[str, typer.Option(metavar="TEXT", help="Head of the page.")] = "",
    figures: FiguresOption = None,
    figure_format: FigureFormatOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was read and written as JSON.")
    ] = False,
) -> None:
    """Write one offline page for saved runs: how full, who has what, who waits, who starves.

    Runs are compared side by side; every figure has its data one click away.

    Try:

      drfh simulate gpu-day --policy best-fit-drfh,fifo -o runs

      drfh report runs -o page.html

      drfh report runs --figures figures --figure-format pdf
    """
    if not directories:
        raise InputError("DIR", "must be given (see drfh report --help)")
    from drfh.report.pages.runs import check_report, load_runs, save_figures, save_runs

    check_report(output, "--output")
    formats = check_figures(figures, figure_format)
    runs = load_runs(directories)
    save_runs(runs, output, title)
    drawn = [] if figures is None else save_figures(runs, figures, formats)
    if as_json:
        data = {"page": str(output), "runs": [run.name for run in runs]}
        print_json({**data, "figures": list(map(str, drawn))} if drawn else data)
        return
    names = ", ".join(run.name for run in runs[:8]) + (" …" if len(runs) > 8 else "")
    console().print(f"saved: {output} ({names})")
    if figures is not None:
        console().print(f"saved: {figures}")
