"""Self-contained HTML pages, and charts as image files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import vl_convert
from markupsafe import Markup

from drfh.errors import InputError
from drfh.files.atomic import write_whole
from drfh.formatting import format_number, format_percent, format_rest
from drfh.report.html import Cell, Content, Figure, join, table, tag
from drfh.report.style import FONT, stylesheet

if TYPE_CHECKING:
    import altair
    import polars

__all__ = [
    "body_of", "figure_bytes", "figure_files", "library", "offline_page", "page_of", "save_page"
]  # fmt: skip

_MOST_ROWS = 1_000
_KEYED = ("color", "shape", "strokeDash", "strokeWidth")
_SUFFIXES = (".html", ".svg", ".png", ".pdf")


def figure_bytes(chart: altair.TopLevelMixin, suffix: str) -> bytes:
    """Return a chart as the content of an .svg, .png or .pdf file."""
    return next(iter(figure_files(chart, [suffix]).values()))


def figure_files(chart: altair.TopLevelMixin, suffixes: Iterable[str]) -> dict[str, bytes]:
    r"""Return a chart as the content of files by suffix; laid out once.

    Examples
    --------
    >>> import altair
    >>> chart = altair.Chart(altair.InlineData([{"a": 1}])).mark_point().encode(x="a:Q")
    >>> {kind: data[:4] for kind, data in figure_files(chart, [".svg", ".png", ".pdf"]).items()}
    {'.svg': b'<svg', '.png': b'\x89PNG', '.pdf': b'%PDF'}
    """
    drawn = str(vl_convert.vegalite_to_svg(json.dumps(_for_paper(chart.to_dict()))))
    made: dict[str, Callable[[], bytes]] = {
        ".svg": drawn.encode,
        ".png": lambda: bytes(vl_convert.svg_to_png(drawn, scale=2.0)),
        ".pdf": lambda: bytes(vl_convert.svg_to_pdf(drawn)),
    }
    return {suffix: made[suffix]() for suffix in suffixes}


def _for_paper(spec: dict[str, Any]) -> dict[str, Any]:
    config = {
        **spec.get("config", {}),
        "background": "white",
        "view": {"stroke": None},
        "axis": {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal"},
        "legend": {"labelFontSize": 12},
        "header": {"labelFontSize": 12},
        "text": {"fontSize": 12},
    }
    return {**spec, "config": config, "padding": 12}


def offline_page(
    title: str,
    summary: str,
    figures: Sequence[tuple[str, altair.TopLevelMixin]],
    tables: Sequence[tuple[str, polars.DataFrame]] = (),
) -> str:
    """Return a self-contained HTML page of charts and tables.

    Parameters
    ----------
    title, summary
        Head of the page.
    figures
        Heading and chart of each figure.
    tables
        Heading and content of each table; a column called ``share`` is drawn as bars.
    """
    parts: list[str | Figure] = [tag("p", summary, "summary")]
    for heading, chart in figures:
        parts += [tag("h2", heading), Figure(chart)]
    for heading, frame in tables:
        parts += [tag("h2", heading), _table(frame)]
    return page_of(title, parts)


def page_of(title: str, parts: Iterable[str | Figure]) -> str:
    """Return a self-contained HTML page of markup and figures.

    Examples
    --------
    >>> page = page_of("Answer", [tag("p", "1 < 2")])
    >>> "<h1>Answer</h1>" in page and "<p>1 &lt; 2</p>" in page
    True
    """
    body, specs = body_of(parts)
    # "</script" would end a script, and "<!--" could hide its end.
    data = json.dumps(specs).replace("<", "\\u003c")
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            tag("title", title),
            f"<style>\n{stylesheet('drfh.report', 'page.css')}</style></head><body>",
            tag("h1", title),
            body,
            f'<script type="module">{library()}',
            f"const FONT = {json.dumps(FONT)};",
            f"const FIGURES = {data};",
            "",
            files("drfh.report").joinpath("assets", "page.js").read_text(encoding="utf-8"),
            "</script></body></html>",
            "",
        )
    )


def body_of(parts: Iterable[str | Figure]) -> tuple[Markup, dict[str, Any]]:
    """Return markup with an empty element per figure, and specs by its id.

    Examples
    --------
    >>> body_of([tag("p", "1 < 2")])
    (Markup('<p>1 &lt; 2</p>'), {})
    """
    specs: dict[str, Any] = {}
    body: list[str] = []
    for part in parts:
        if isinstance(part, Figure):
            name = f"figure-{len(specs) + 1}"
            specs[name] = _for_screen(part)
            kind = "figure stretch" if part.stretch else "figure"
            least = f' style="min-width: {part.least}px"' if part.least else ""
            body.append(
                Markup(f'<div class="scroll"><div class="{kind}" id="{name}"{least}></div></div>')
            )
        else:
            body.append(part)
    return join(body, "\n"), specs


@cache
def library() -> str:
    """Return the Vega bundle; building it takes a second."""
    return str(vl_convert.javascript_bundle()).replace("</script", "<\\/script")


def _for_screen(figure: Figure) -> dict[str, Any]:
    spec = figure.chart.to_dict()
    spec.pop("config", None)  # the page has its own, light and dark
    _escape_hints(spec)
    if not figure.keys:
        _drop_legends(spec)
    if figure.stretch:
        spec["width"] = "container"
        spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    return spec


def _escape_hints(spec: dict[str, Any]) -> None:
    """Escape backslashes in tooltip titles: Vega puts them into an expression."""
    hints = spec.get("encoding", {}).get("tooltip", ())
    for hint in hints if isinstance(hints, list) else [hints]:
        if isinstance(hint, dict) and isinstance(hint.get("title"), str):
            hint["title"] = hint["title"].replace("\\", "\\\\")
    for layer in spec.get("layer", ()):
        _escape_hints(layer)


def _drop_legends(spec: dict[str, Any]) -> None:
    for channel in _KEYED:
        words = spec.get("encoding", {}).get(channel)
        if isinstance(words, dict) and "field" in words:
            words["legend"] = None
    for layer in spec.get("layer", ()):
        _drop_legends(layer)


def save_page(
    path: str | os.PathLike[str],
    chart: Callable[[], altair.TopLevelMixin],
    page: Callable[[], str],
) -> None:
    """Write a page (.html) or its main chart (.svg, .png, .pdf), atomically."""
    target = Path(path)
    if target.suffix not in _SUFFIXES:
        raise InputError("--plot", f"must end in one of {', '.join(_SUFFIXES)}", str(path))
    if target.suffix == ".html":
        write_whole(target, page().encode(errors="replace"))
    else:
        write_whole(target, figure_bytes(chart(), target.suffix))


def _table(frame: polars.DataFrame) -> Markup:
    rows = [
        [_shown(name, value) for name, value in row.items()]
        for row in frame.head(_MOST_ROWS).iter_rows(named=True)
    ]
    more = len(frame) - len(rows)
    note = [tag("p", format_rest(more, "more row", ""))] if more else []
    return join([table(frame.columns, rows), *note])


def _shown(name: str, value: Any) -> Content:
    if name == "share":
        return Cell(format_percent(value, 2), "part", value)
    if isinstance(value, (int, float)):
        return Cell(format_number(value, 6), "number")
    return None if value is None else str(value)
