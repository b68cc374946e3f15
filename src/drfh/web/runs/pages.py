"""What is shown of run directories: the parts of the offline pages, for a page with a frame."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from drfh.errors import DrfhError, InputError
from drfh.experiments.reproduction import Reproduction
from drfh.report.charts.runs import run_plots
from drfh.report.figures import Plot
from drfh.report.html import Figure
from drfh.report.page import body_of
from drfh.report.pages.reproduction import TITLE, reproduction_parts, reproduction_plots
from drfh.report.pages.runs import name_runs, runs_parts
from drfh.simulation.result import Result
from drfh.web.components.jobs import ReportProgress
from drfh.web.runs.files import MOST_RUNS, RunPlace, damaged, read_place

__all__ = ["RunPage", "run_page"]

_LARGEST_PAGE = 40_000_000  # characters


@dataclass(frozen=True)
class RunPage:
    """What is shown.

    Attributes
    ----------
    title : str
        What it is.
    content : str
        For the browser, as JSON: ``markup`` that is escaped, ``specs`` of what to draw in it by
        place, and ``together``.
    figures : dict
        Name → title of each figure.
    together : bool
        Whether all figures over time have the same time.
    """

    title: str
    content: str
    figures: dict[str, str]
    together: bool


def run_page(places: Sequence[RunPlace], tell: ReportProgress) -> RunPage:
    """Read run directories, and return what is shown of them: one, or several compared.

    Parameters
    ----------
    places
        A reproduction, or directories with runs.
    tell
        Told what is done, and how much of it.
    """
    if len(places) > 1 and any(place.kind == "reproduction" for place in places):
        raise InputError("runs", "must be runs to be compared, not a reproduction")
    found: dict[str, Result] = {}
    for at, place in enumerate(places):

        def tell_part(words: str, part: float, at: int = at) -> None:
            tell(words, 0.6 * (at + part) / len(places))

        read = read_place(place, tell_part)
        if isinstance(read, Reproduction):
            return _drawn(place.name, TITLE, *_reproduced(read, place.name, tell), tell, False)
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
    if len(content) > _LARGEST_PAGE:
        rule = "must have less to show here (see drfh report, which writes a page)"
        raise InputError("run", rule, name)
    figures = {plot.name: plot.title for _, found in sections for plot in found}
    return RunPage(title, content, figures, together)
