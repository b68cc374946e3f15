"""Figures with title, caption and data, for pages and files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import altair
import polars as pl
from markupsafe import Markup

from drfh.report.charts.axes import SHAPES, legend_columns
from drfh.report.charts.lines import READER
from drfh.report.html import DASHES, PALETTE, Figure, column_files, join, tag

__all__ = [
    "Chart",
    "FigureKey",
    "Plot",
    "column_figure",
    "contents",
    "dot_keys",
    "file_chart",
    "line_keys",
    "plot_parts",
]

Chart: TypeAlias = altair.Chart | altair.LayerChart

_SMALL = 280  # width of a small panel in a file, pixels
_PANEL_HEIGHT = 130  # of one of several panels in a paper's column
_LINE = 110  # characters in a line of a caption in a file


# A vega shape that is filled, in a box from -1 to 1.
_PATHS = {
    "circle": "M-.8,0 A.8,.8 0 1 0 .8,0 A.8,.8 0 1 0 -.8,0 Z",
    "square": "M-.75,-.75 H.75 V.75 H-.75 Z",
    "triangle-up": "M0,-.9 L.9,.8 H-.9 Z",
    "triangle-down": "M0,.9 L.9,-.8 H-.9 Z",
    "diamond": "M0,-1 L.8,0 L0,1 L-.8,0 Z",
    "cross": "M-.3,-.9 H.3 V-.3 H.9 V.3 H.3 V.9 H-.3 V.3 H-.9 V-.3 H-.3 Z",
    "triangle-right": "M.9,0 L-.8,.9 V-.9 Z",
    "triangle-left": "M-.9,0 L.8,.9 V-.9 Z",
}


class FigureKey(NamedTuple):
    """Legend entry: a line or filled shape, and a name."""

    name: str
    colour: str
    shape: str = ""
    dash: Sequence[int] = ()

    def markup(self) -> Markup:
        """Return the symbol and the name."""
        if self.shape:
            drawn = f'<path d="{_PATHS[self.shape]}" transform="translate(6,6) scale(6)"'
            symbol = f'<svg width="12" height="12">{drawn} fill="{self.colour}"/></svg>'
        else:
            dash = " ".join(map(str, self.dash)) if self.dash[1:] != (0,) else ""
            symbol = (
                f'<svg width="30" height="12"><path d="M0,6 H30" stroke="{self.colour}" '
                f'stroke-width="2.5" stroke-dasharray="{dash}"/></svg>'
            )
        return tag("span", Markup(symbol) + self.name)


def line_keys(names: Sequence[str]) -> list[FigureKey]:
    """Return the keys of lines in the order of the palette.

    Examples
    --------
    >>> line_keys(["fifo"])[0].colour
    '#2d7dc4'
    """
    count = len(PALETTE)
    return [
        FigureKey(name, PALETTE[i % count], dash=DASHES[i % count]) for i, name in enumerate(names)
    ]


def dot_keys(names: Sequence[str]) -> list[FigureKey]:
    """Return the keys of marks in the order of the palette."""
    count = len(PALETTE)
    return [
        FigureKey(name, PALETTE[i % count], shape=SHAPES[i % count]) for i, name in enumerate(names)
    ]


@dataclass(frozen=True)
class Plot:
    """A figure: one chart, or several side by side.

    Attributes
    ----------
    name : str
        Its anchor on the page and its name as a file.
    title : str
        Heading.
    caption : str
        Text below it.
    panels : sequence of (str, chart)
        Heading and chart of each panel; a single one needs no heading.
    data : polars.DataFrame
        The data drawn, offered as CSV.
    keys : sequence of FigureKey
        Legend of all panels.
    small : bool
        Whether more panels fit side by side.
    square : bool
        Whether its width is limited.
    least : int
        Narrower than this many pixels a panel is scrolled and not squeezed.
    """

    name: str
    title: str
    caption: str
    panels: Sequence[tuple[str, Chart]]
    data: pl.DataFrame
    keys: Sequence[FigureKey] = ()
    small: bool = False
    square: bool = False
    least: int = 0


def plot_parts(plot: Plot) -> list[str | Figure]:
    """Return title, panels, caption and data link of a figure.

    Examples
    --------
    >>> frame = pl.DataFrame({"x": [1, 2]})
    >>> chart = altair.Chart(frame).mark_point().encode(x="x:Q")
    >>> parts = plot_parts(Plot("dots", "Two dots", "One is to the right.", [("", chart)], frame))
    >>> print(parts[0])
    <figure class="plot" id="dots"><h3>Two dots</h3><div class="panels">
    """
    kind = "panels" + " small" * plot.small + " square" * plot.square
    keys = tag("p", join(key.markup() for key in plot.keys), "keys") if plot.keys else ""
    parts: list[str | Figure] = [
        Markup('<figure class="plot" id="{}">{}{}<div class="{}">').format(
            plot.name, tag("h3", plot.title), keys, kind
        )
    ]
    for heading, chart in plot.panels:
        parts.append(join([Markup("<div>"), *([tag("p", heading, "head")] if heading else [])]))
        parts += [Figure(chart, stretch=True, least=plot.least, keys=False), Markup("</div>")]
    csv = plot.data.write_csv(float_precision=None)
    # In JSON, as nothing in it may end the script.
    data = json.dumps(csv, ensure_ascii=False).replace("<", "\\u003c")
    caption = plot.caption.replace(" %", "\u00a0%")  # never at the start of a line
    parts.append(
        Markup(
            '</div><figcaption>{caption} <a class="data" download="{name}.csv" '
            'data-source="data-{name}">data (CSV, {rows:,} rows)</a></figcaption></figure>'
            '<script type="application/json" id="data-{name}">{data}</script>'
        ).format(caption=caption, name=plot.name, rows=len(plot.data), data=Markup(data))
    )
    return parts


def contents(links: Sequence[tuple[str, str]]) -> Markup:
    """Return links to the sections of a page.

    Examples
    --------
    >>> print(contents([("top", "Top")]))
    <nav><a href="#top">Top</a></nav>
    """
    return tag("nav", join(Markup('<a href="#{}">{}</a>').format(*link) for link in links))


def file_chart(plot: Plot, *, caption: bool = True) -> altair.TopLevelMixin:
    """Return a figure as one chart with title and caption.

    Parameters
    ----------
    plot
        The figure.
    caption
        Whether to write its caption below the title.

    Examples
    --------
    >>> frame = pl.DataFrame({"x": [1, 2]})
    >>> chart = altair.Chart(frame).mark_point().encode(x="x:Q")
    >>> drawn = file_chart(Plot("dots", "Two dots", "Look.", [("", chart)], frame))
    >>> drawn.title.text, drawn.title.subtitle
    ('Two dots', ['Look.'])
    """
    drawn = _panels(plot)
    if plot.small:
        for one in drawn:
            one.width = _SMALL
    title = altair.TitleParams(
        plot.title,
        subtitle=_lines(plot.caption) if caption else altair.Undefined,
        anchor="start",
        fontSize=15,
        offset=14,
    )
    if len(drawn) == 1:
        drawn[0].title = title
        result: altair.TopLevelMixin = drawn[0]
        return result
    together: altair.TopLevelMixin = altair.ConcatChart(
        concat=drawn, columns=3 if plot.small else 2, spacing={"row": 26, "column": 36}, title=title
    ).resolve_scale(color="independent", shape="independent", strokeDash="independent")
    return together


def column_figure(plot: Plot, suffixes: Sequence[str]) -> dict[str, bytes]:
    """Return a figure, one paper column wide, as the content of files by suffix.

    Panels stand below each other under one legend. Title and caption are left to the paper.

    Examples
    --------
    >>> frame = pl.DataFrame({"x": [1, 2]})
    >>> chart = altair.Chart(frame).mark_point().encode(x="x:Q")
    >>> list(column_figure(Plot("dots", "Two dots", "Look.", [("", chart)], frame), [".pdf"]))
    ['.pdf']
    """
    panels = _panels(plot)
    spec: dict[str, Any] = panels[0].to_dict()
    if len(panels) > 1:
        together = altair.VConcatChart(vconcat=panels, spacing=12)
        spec = together.resolve_scale(color="shared", strokeDash="shared").to_dict()
    names = [key.name for key in plot.keys]

    def draw(width: float) -> dict[str, Any]:
        for panel in spec.get("vconcat", [spec]):
            panel["width"] = width
            if panel is not spec:
                panel["height"] = _PANEL_HEIGHT
            _fit_legends(panel, legend_columns(names, width))
        return spec

    return column_files(draw, suffixes)


def _fit_legends(spec: dict[str, Any], columns: int) -> None:
    for channel in spec.get("encoding", {}).values():
        if isinstance(channel, dict) and channel.get("legend"):
            channel["legend"] |= {"columns": columns, "offset": 6}
    for layer in spec.get("layer", ()):
        _fit_legends(layer, columns)


def _panels(plot: Plot) -> list[Any]:
    """Return copies of the panels for a file, each with its heading."""
    drawn: list[Any] = []
    for heading, chart in plot.panels:
        one: Any = chart.copy(deep=True)
        if isinstance(one, altair.LayerChart):  # no tooltips in a file
            one.layer = [layer for layer in one.layer if layer.name != READER]
            one.params = altair.Undefined
        if heading:
            one.title = altair.TitleParams(heading, anchor="start", frame="group", fontSize=12)
        drawn.append(one)
    return drawn


def _lines(text: str) -> list[str]:
    """Return a caption broken into lines."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) >= _LINE:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines
