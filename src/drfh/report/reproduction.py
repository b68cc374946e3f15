"""The page of ``drfh reproduce``: the scorecard, the paper's figures beside ours, and beyond."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from drfh.disk import write_whole
from drfh.report.page import figure_files, page_of
from drfh.report.parts import Figure, Markup, seconds, tag, text
from drfh.report.plots import Plot, contents, paper_chart, plot_parts
from drfh.report.reproduction_charts import (
    Tables,
    dynamic_plots,
    slots_plot,
    two_servers_plots,
    utilisation_plots,
)
from drfh.report.reproduction_jobs import completion_plot, reduction_plot
from drfh.report.reproduction_tables import choices_table, has_rows, tables_of
from drfh.report.reproduction_users import fair_plot, policies_plot, ratios_plot, sharing_plots
from drfh.report.scorecard import scorecard
from drfh.resources import some

__all__ = [
    "TITLE",
    "Reproduced",
    "reproduction_page",
    "reproduction_parts",
    "reproduction_plots",
    "save_reproduction",
    "source_line",
]

#: Head of the page.
TITLE = "The paper's evaluation, reproduced"

_SUFFIXES = (".svg", ".png", ".pdf")


class Reproduced(Protocol):
    """What the page is made of: a ``drfh.experiments.Reproduction``."""

    @property
    def setup(self) -> Mapping[str, Any]:
        """Every choice, as plain data."""

    @property
    def tables(self) -> Tables:
        """Tables by name."""

    @property
    def numbers(self) -> Mapping[str, Any]:
        """What stands beside the tables, as plain data."""


# Heading, the tables that it needs, and what draws it.
_Draw = Callable[[Tables], list[Plot]]
_SECTIONS: tuple[tuple[str, str, tuple[str, ...], _Draw], ...] = (
    ("two-servers", "Two servers, two users", ("two_servers", "two_servers_use"),
     two_servers_plots),
    ("dynamic", "Three users come and go", ("dynamic",), dynamic_plots),
    ("slots", "Slots: how many?", ("slots",), lambda tables: [slots_plot(tables)]),
    ("utilisation", "How full the servers are", ("utilisation",), utilisation_plots),
    ("completion", "How long jobs take", ("completion",), lambda tables: [completion_plot(tables)]),
    ("reduction", "", ("reduction",), lambda tables: [reduction_plot(tables)]),
    ("ratios", "What users get done", ("ratios",), lambda tables: [ratios_plot(tables)]),
    ("sharing", "Is sharing worth it?", ("sharing",), sharing_plots),
    ("beyond", "Beyond the paper", ("policies",), lambda tables: [policies_plot(tables)]),
    ("fairness", "", ("fair",), lambda tables: [fair_plot(tables)]),
)  # fmt: skip


def save_reproduction(reproduction: Reproduced, folder: str | os.PathLike[str]) -> None:
    """Write ``index.html`` and ``figures/NAME.svg``, ``.png`` and ``.pdf`` into a folder.

    Parameters
    ----------
    reproduction
        From :func:`drfh.experiments.reproduce`, or read from a directory; only its tables and its
        set-up are used.
    folder
        It must be there.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from types import SimpleNamespace
    >>> nothing = SimpleNamespace(setup={"data": None}, tables={}, numbers={})
    >>> with TemporaryDirectory() as folder:
    ...     save_reproduction(nothing, folder)
    ...     sorted(os.listdir(folder))
    ['figures', 'index.html']
    """
    place = Path(folder)
    plots = reproduction_plots(reproduction)
    (place / "figures").mkdir(exist_ok=True)
    for _, found in plots:
        for plot in found:
            for suffix, data in figure_files(paper_chart(plot), _SUFFIXES).items():
                write_whole(place / "figures" / f"{plot.name}{suffix}", data)
    page = reproduction_page(reproduction, plots)
    write_whole(place / "index.html", page.encode(errors="replace"))


def reproduction_plots(reproduction: Reproduced) -> list[tuple[str, list[Plot]]]:
    """Return the figures of each section, none where a table is missing or empty.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> nothing = SimpleNamespace(setup={"data": None}, tables={}, numbers={})
    >>> any(plots for _, plots in reproduction_plots(nothing))
    False
    """
    tables = reproduction.tables
    return [
        (name, draw(tables) if all(has_rows(tables, need) for need in needs) else [])
        for name, _, needs, draw in _SECTIONS
    ]


def reproduction_page(
    reproduction: Reproduced, plots: Sequence[tuple[str, Sequence[Plot]]] | None = None
) -> str:
    """Return the page, with everything inside it.

    Parameters
    ----------
    reproduction
        What to show.
    plots
        Its figures, if they are there already.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> nothing = SimpleNamespace(setup={"data": None}, tables={}, numbers={})
    >>> "Generated workload, not the real trace" in reproduction_page(nothing)
    True
    """
    return page_of(TITLE, reproduction_parts(reproduction, plots))


def reproduction_parts(
    reproduction: Reproduced, plots: Sequence[tuple[str, Sequence[Plot]]] | None = None
) -> list[str | Figure]:
    """Return what is on the page, below its head; see :func:`reproduction_page`.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> nothing = SimpleNamespace(setup={"data": None}, tables={}, numbers={})
    >>> any("scorecard" in part for part in reproduction_parts(nothing) if isinstance(part, str))
    True
    """
    drawn = dict(reproduction_plots(reproduction) if plots is None else plots)
    tables = reproduction.tables
    links = [("scorecard", "Scorecard")]
    body: list[str | Figure] = []
    for name, heading, _, _ in _SECTIONS:
        if heading:
            links.append((name, heading))
            body.append(Markup(f'<h2 id="{name}">{text(heading)}</h2>'))
        for plot in drawn[name]:
            body += plot_parts(plot)
        if not drawn[name]:
            body.append(tag("p", "Not in this reproduction.", "note"))
        body += tables_of(name, tables)
    links.append(("setup", "Every choice"))
    return [
        tag("p", source_line(reproduction), "source"),
        *_summary(reproduction),
        contents(links),
        Markup('<h2 id="scorecard">Scorecard: what the paper says, and what we found</h2>'),
        *_claims(tables, {plot.name for found in drawn.values() for plot in found}),
        *body,
        Markup('<h2 id="setup">Every choice</h2>'),
        choices_table(reproduction.setup),
        tag(
            "p",
            "Beside this page: figures/ (SVG, PNG, PDF), tables/ (CSV, Parquet), runs/ (run "
            "directories, see drfh report) and summary.json. The page needs no network.",
            "note",
        ),
    ]


def _claims(tables: Tables, figures: set[str]) -> list[str]:
    if has_rows(tables, "claims"):
        return scorecard(tables["claims"], figures)
    return [tag("p", "Not in this reproduction.", "note")]


def source_line(reproduction: Reproduced) -> str:
    """Return the first line: whether this is the real trace or the generator.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> source_line(SimpleNamespace(setup={"data": "/data"}, tables={}, numbers={}))
    "Real trace: the jobs and machines of Google's cluster trace of 2011."
    """
    source = reproduction.numbers.get("source", {})
    if source.get("generated", reproduction.setup.get("data") is None):
        return (
            "Generated workload, not the real trace: drawn by the calibrated generator "
            "google-like. Give the trace with --data to see the real one."
        )
    return "Real trace: the jobs and machines of Google's cluster trace of 2011."


def _summary(reproduction: Reproduced) -> list[str]:
    setup, numbers = reproduction.setup, reproduction.numbers
    words = [
        form.format(known[name])
        for known, name, form in (
            (numbers, "users", "{:,} users"),
            (numbers, "jobs", "{:,} jobs"),
            (numbers, "tasks", "{:,} tasks"),
            (setup, "servers", "on {:,} servers"),
        )
        if known.get(name) is not None
    ]
    if numbers.get("window") is not None:
        words.append(f"over {seconds(numbers['window'])}")
    draws = setup.get("draws") or []
    if draws:
        words.append(f"{some(len(draws), 'draw')} of the servers")
    if setup.get("preset"):
        # A generated workload is not read from events: of a preset it has the load.
        generated = numbers.get("source", {}).get("generated")
        made = generated and setup.get("offered_load")
        words.append(f"a load of {made:g}" if made else f"preset {setup['preset']}")
    if setup.get("quick"):
        words.append("quick: a first look, not the evaluation")
    return [tag("p", ", ".join(words) + ".", "summary")] if words else []
