"""HTML: escaped markup, tables, style, and self-contained pages with figures."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, TypeAlias

from markupsafe import Markup, escape

from drfh.errors import InputError
from drfh.files.atomic import write_whole
from drfh.formatting import format_number, format_percent, format_rest

if TYPE_CHECKING:
    import altair
    import polars

    from drfh.auditor.finding import Finding

__all__ = [
    "COLUMN_INCHES",
    "DARK",
    "DASHES",
    "FONT",
    "LIGHT",
    "PALETTE",
    "Cell",
    "Figure",
    "Markup",
    "Tile",
    "as_cell",
    "bar",
    "body_of",
    "column_files",
    "details",
    "figure_bytes",
    "figure_files",
    "join",
    "library",
    "mark",
    "offline_page",
    "page_of",
    "save_page",
    "stylesheet",
    "table",
    "tag",
]


FONT = "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"

#: Eight colours that stay apart in every common kind of colour vision, on white and on black: the
#: two nearest are 17 apart in CIELAB for whoever lacks one kind of cone (a test measures it).
PALETTE = (
    "#2d7dc4", "#e07b00", "#5f7d4a", "#b23cf5", "#a65b83", "#a6a15b", "#bf3300", "#00add9",
)  # fmt: skip

#: Lines differ in their dashes too, so that no line is known by its colour alone.
DASHES = ((1, 0), (7, 3), (2, 2), (10, 3, 2, 3), (5, 5), (1, 3), (12, 4), (3, 2, 8, 2))

#: Colours of text, paper and lines by name, for pages that are light and for those that are dark.
LIGHT = """--ink: #1c2330; --soft: #5a6475; --paper: #ffffff; --line: #d9dee7; --bar: #4c78a8;
        --bad: #b3261e; --good: #1b7f3b; --yes: #1766a8; --partly: #8a5a00;"""
DARK = """--ink: #e6e9ef; --soft: #9aa4b5; --paper: #14181f; --line: #2c3440; --bar: #72a6d8;
          --bad: #ff8f86; --good: #7bd88f; --yes: #7db8ee; --partly: #f0b44c;"""


@cache
def stylesheet(package: str, name: str) -> str:
    """Return a stylesheet of a package's ``assets``, with colours and font.

    Examples
    --------
    >>> stylesheet("drfh.report", "page.css")[:40]
    ':root { color-scheme: light dark; --ink:'
    """
    text = files(package).joinpath("assets", name).read_text(encoding="utf-8")
    return Template(text).substitute(light=LIGHT, dark=DARK, font=FONT)


#: Verdict → symbol and CSS class.
MARKS: dict[str, tuple[str, str]] = {
    "fails": ("✘", "fails"),
    "holds": ("✔", "holds"),
    "not found": ("?", "searched"),
    "measured": ("·", "measured"),
    "not applicable": ("–", "nothing"),
}


@dataclass(frozen=True)
class Cell:
    """Cell of a table.

    Attributes
    ----------
    content : str
        Text, or markup.
    kind : str
        CSS classes.
    part : float or None
        From 0 to 1: a bar behind the text.
    title : str
        Tooltip.
    """

    content: str
    kind: str = ""
    part: float | None = None
    title: str = ""


Content: TypeAlias = str | int | float | Cell | None


@dataclass(frozen=True, slots=True)
class Tile:
    """A number at the top of a page, with its label.

    Attributes
    ----------
    name : str
        For tests and styles.
    label, value, note : str
        What it is, the number, and what stands below it.
    part : float or None
        From 0 to 1: a thin bar under the number.
    hint : str
        What the label means, as a tooltip.
    tone : str
        ``good``, ``bad`` or nothing.
    """

    name: str
    label: str
    value: str
    note: str = ""
    part: float | None = None
    hint: str = ""
    tone: str = ""


@dataclass(frozen=True)
class Figure:
    """Chart on a page.

    Attributes
    ----------
    chart : altair chart
        The chart.
    stretch : bool
        Whether it fills the width of the page; for single and layered charts.
    least : int
        Narrower than this many pixels it is scrolled and not squeezed.
    keys : bool
        Whether to draw the legends of colours, dashes and shapes; not if the page has them.
    """

    chart: altair.TopLevelMixin
    stretch: bool = False
    least: int = 0
    keys: bool = True


def join(pieces: Iterable[str], between: str = "") -> Markup:
    """Return pieces joined, each escaped unless it is markup.

    Examples
    --------
    >>> print(join(["a & b", Markup("<br>")]))
    a &amp; b<br>
    """
    return escape(between).join(pieces)


def tag(name: str, content: str, kind: str = "") -> Markup:
    """Return an element around text or markup.

    Examples
    --------
    >>> print(tag("p", "1 < 2", "note"))
    <p class="note">1 &lt; 2</p>
    """
    return Markup(f"<{name}{_attribute('class', kind)}>{escape(content)}</{name}>")


def _attribute(name: str, value: str) -> str:
    return f' {name}="{escape(value)}"' if value else ""


def bar(part: float | None, title: str = "") -> Cell:
    """Return a cell with a part as percent and bar.

    Examples
    --------
    >>> bar(0.25).content
    '25 %'
    """
    if part is None:
        return Cell("", "part", title=title)
    return Cell(format_percent(part, trim=True), "part", min(max(part, 0.0), 1.0), title)


def mark(finding: Finding, *, short: bool = False) -> Cell:
    """Return the mark of a finding: symbol and text, never colour alone.

    Parameters
    ----------
    finding
        The finding.
    short
        Symbol and amount only, for a table with many marks.

    Examples
    --------
    >>> from drfh.auditor import Finding
    >>> finding = Finding("fair", "fails", 0.25, "ann has 3 tasks, 4 in the DRFH optimum")
    >>> mark(finding).content, mark(finding, short=True).content
    ('✘ fails', '✘ 25 %')
    """
    sign, kind = MARKS[finding.verdict]
    measured = finding.verdict in ("fails", "measured")
    amount = format_percent(finding.amount, trim=True) if measured else ""
    if short:
        title = f"{finding.name}, {finding.verdict}: {finding.text}"
        return Cell(f"{sign} {amount}".strip(), f"mark {kind}", title=title)
    word = amount if finding.verdict == "measured" else finding.verdict
    return Cell(f"{sign} {word}", f"mark {kind}")


def table(head: Sequence[str], rows: Iterable[Sequence[Content]], kind: str = "") -> Markup:
    """Return a table.

    Parameters
    ----------
    head
        Names of the columns.
    rows
        Cells, or texts and numbers.
    kind
        ``cards``: on a narrow screen each row becomes a block of its own; with ``labelled`` its
        cells then say of which column they are.

    Examples
    --------
    >>> print(table(["user", "tasks"], [["<ann>", 10.0]]))
    <div class="table"><table><tr><th>user</th><th class="number">tasks</th></tr>
    <tr><td>&lt;ann&gt;</td><td class="number">10</td></tr></table></div>
    """
    content = [[as_cell(value) for value in row] for row in rows]
    kinds = [
        {cell.kind.partition(" ")[0] for row in content if (cell := row[column]).content}
        for column in range(len(head))
    ]
    names = join(
        tag("th", name, "number" if found and found <= {"number", "part"} else "")
        for name, found in zip(head, kinds, strict=True)
    )
    labels = head if "labelled" in kind.split() else [""] * len(head)
    lines = join((tag("tr", join(map(_element, row, labels))) for row in content), "\n")
    style = _attribute("class", kind)
    return Markup(f'<div class="table"><table{style}><tr>{names}</tr>\n{lines}</table></div>')


def as_cell(value: Content) -> Cell:
    """Return a cell for a text, a number or nothing.

    Examples
    --------
    >>> as_cell(2.5)
    Cell(content='2.5', kind='number', part=None, title='')
    """
    if isinstance(value, Cell):
        return value
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return Cell("")
    if isinstance(value, (int, float)):
        return Cell(format_number(value, 5, zero_below=0), "number")
    return Cell(value)


def _element(cell: Cell, label: str) -> Markup:
    style = "" if cell.part is None else f"--part: {100 * cell.part:.2f}%"
    attributes = {"class": cell.kind, "style": style, "data-label": label, "title": cell.title}
    listed = "".join(_attribute(name, value) for name, value in attributes.items())
    return Markup(f"<td{listed}>{escape(cell.content)}</td>")


def details(summary: str, content: str, *, name: str = "") -> Markup:
    """Return a ``<details>`` element.

    Examples
    --------
    >>> print(details("more", "a < b"))
    <details><summary>more</summary>
    a &lt; b
    </details>
    """
    head = f"<details{_attribute('id', name)}>{tag('summary', summary)}"
    return Markup(f"{head}\n{escape(content)}\n</details>")


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
    import vl_convert  # slow to import

    drawn = str(vl_convert.vegalite_to_svg(json.dumps(_for_paper(chart.to_dict()))))
    made: dict[str, Callable[[], bytes]] = {
        ".svg": drawn.encode,
        ".png": lambda: bytes(vl_convert.svg_to_png(drawn, scale=2.0)),
        ".pdf": lambda: bytes(vl_convert.svg_to_pdf(drawn)),
    }
    return {suffix: made[suffix]() for suffix in suffixes}


#: Width of one column of a two-column paper, in inches and in points.
COLUMN_INCHES = 3.5
_COLUMN = 72 * COLUMN_INCHES
_COLUMN_UNITS = 400  # laid out so wide and then shrunk: text of 12 becomes 7.6 points
_DOTS_AN_INCH = 300
_SIZE = re.compile(r'<svg([^>]*?) width="([\d.]+)" height="([\d.]+)"')


def column_files(
    draw: Callable[[float], dict[str, Any]], suffixes: Iterable[str]
) -> dict[str, bytes]:
    r"""Return a chart, one paper column wide, as the content of files by suffix.

    Parameters
    ----------
    draw
        From the width of the plot, without axes and legends, to the specification.
    suffixes
        Among ``.svg``, ``.png`` (300 dots an inch) and ``.pdf``.

    Examples
    --------
    >>> import altair
    >>> chart = altair.Chart(altair.InlineData([{"a": 1}])).mark_point().encode(x="a:Q")
    >>> files = column_files(lambda width: {**chart.to_dict(), "width": width}, [".svg", ".pdf"])
    >>> b' width="252pt"' in files[".svg"], b"[0 0 252 " in files[".pdf"]
    (True, True)
    """
    import vl_convert

    inner, drawn, width = 0.85 * _COLUMN_UNITS, "", 0.0
    for _ in range(3):  # how wide axes and legends are is known when they are drawn
        inner = max(inner - (width - _COLUMN_UNITS if drawn else 0.0), 0.2 * _COLUMN_UNITS)
        spec = {**_for_paper(draw(inner)), "padding": 2}
        drawn = str(vl_convert.vegalite_to_svg(json.dumps(spec)))
        width, height = map(float, _SIZE.match(drawn).group(2, 3))  # type: ignore[union-attr]
        if abs(width - _COLUMN_UNITS) <= 1:
            break
    tall = _COLUMN * height / width

    def sized(unit: str = "") -> str:
        size = f'<svg\\1 width="{_COLUMN:g}{unit}" height="{tall:.6g}{unit}"'
        return _SIZE.sub(size, drawn, count=1)

    made: dict[str, Callable[[], bytes]] = {
        ".svg": lambda: sized("pt").encode(),
        ".png": lambda: bytes(vl_convert.svg_to_png(sized(), ppi=_DOTS_AN_INCH)),
        ".pdf": lambda: bytes(vl_convert.svg_to_pdf(sized())),
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
    import vl_convert

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
        encoding = spec.get("encoding", {}).get(channel)
        if isinstance(encoding, dict) and "field" in encoding:
            encoding["legend"] = None
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
