"""Figures of run directories as content for the browser.

Imports Altair and Vega, so it is itself imported only when a run is opened.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from drfh.errors import DrfhError, InputError
from drfh.experiments.reproduction import Reproduction
from drfh.report.charts.runs import run_plots
from drfh.report.figures import Plot
from drfh.report.html import Figure, body_of
from drfh.report.pages.reproduction import TITLE, reproduction_parts, reproduction_plots
from drfh.report.pages.runs import name_runs, runs_parts
from drfh.simulation.result import Result
from drfh.web.components.jobs import ReportProgress
from drfh.web.runs.files import MOST_RUNS, RunDirectory, damaged, read_run

__all__ = ["RunPage", "run_page"]

_MAX_PAGE = 40_000_000  # characters


@dataclass(frozen=True)
class RunPage:
    """Content of the panel for one or several runs.

    Attributes
    ----------
    title : str
        Heading.
    content : str
        JSON for the browser: escaped ``markup``, ``specs`` of figures by element id, ``together``.
    figures : dict
        Name → title of each figure.
    together : bool
        Whether figures over time share one time axis.
    """

    title: str
    content: str
    figures: dict[str, str]
    together: bool


def run_page(directories: Sequence[RunDirectory], tell: ReportProgress) -> RunPage:
    """Read run directories and return their figures: of one run, or several compared.

    Parameters
    ----------
    directories
        One reproduction, or any runs.
    tell
        Called with a text and the part that is done.
    """
    if len(directories) > 1 and any(directory.kind == "reproduction" for directory in directories):
        raise InputError("runs", "must be runs to be compared, not a reproduction")
    found: dict[str, Result] = {}
    for at, directory in enumerate(directories):

        def tell_part(text: str, part: float, at: int = at) -> None:
            tell(text, 0.6 * (at + part) / len(directories))

        read = read_run(directory, tell_part)
        if isinstance(read, Reproduction):
            parts, plots = _reproduced(read, directory.name, tell)
            return _drawn(directory.name, TITLE, parts, plots, tell, False)
        found |= dict(read)
        if len(found) > MOST_RUNS:
            raise InputError("runs", f"must be at most {MOST_RUNS} on one page", len(found))
    tell("drawing the figures", 0.65)
    try:
        runs = name_runs(list(found.values()), list(found))
        sections = run_plots(runs)
        title, parts = runs_parts(runs, sections=sections)
    except DrfhError:
        raise
    except Exception as error:
        raise damaged(", ".join(found), error) from None
    return _drawn(", ".join(found), title, parts, sections, tell, True)


def _reproduced(
    read: Reproduction, name: str, tell: ReportProgress
) -> tuple[list[str | Figure], list[tuple[str, list[Plot]]]]:
    tell("drawing the figures", 0.65)
    try:
        plots = reproduction_plots(read)
        return reproduction_parts(read, plots), plots
    except Exception as error:
        raise damaged(name, error) from None


def _drawn(
    name: str,
    title: str,
    parts: list[str | Figure],
    sections: Sequence[tuple[str, Sequence[Plot]]],
    tell: ReportProgress,
    together: bool,
) -> RunPage:
    tell("drawing the figures", 0.8)
    try:
        markup, specs = body_of(parts)
    except Exception as error:
        raise damaged(name, error) from None
    content = json.dumps({"markup": markup, "specs": specs, "together": together})
    if len(content) > _MAX_PAGE:
        rule = "must have less to show here (see drfh report, which writes a page)"
        raise InputError("run", rule, name)
    figures = {plot.name: plot.title for _, found in sections for plot in found}
    return RunPage(title, content, figures, together)
