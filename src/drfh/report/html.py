"""HTML of tables, cells with marks and bars, details; all text is escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from markupsafe import Markup, escape

from drfh.formatting import format_number, format_percent

if TYPE_CHECKING:
    import altair

    from drfh.auditor.finding import Finding

__all__ = [
    "Cell", "Figure", "Markup", "bar", "details", "join", "mark",
    "table", "tag"
]  # fmt: skip

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
    """Return a cell with a part as percent and as a bar; empty for None.

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
    content = [[_cell(value) for value in row] for row in rows]
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


def _cell(value: Content) -> Cell:
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
