"""The panel "Compare": mechanisms side by side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from nicegui import ui

from drfh.allocation.problem import Floats
from drfh.formatting import (
    format_elapsed,
    format_number,
    format_percent,
    format_points,
)
from drfh.report.html import Cell, Content, Markup, bar, join, table, tag
from drfh.web.components.bars import select_largest
from drfh.web.components.controls import container, markup, section
from drfh.web.components.jobs import JobPanel, PanelJob, ReportProgress
from drfh.web.components.panel import Page
from drfh.web.session.answers import Answer
from drfh.web.session.comparison import COMPARED, CompareRow, compare_rows

__all__ = ["ComparePanel", "difference", "side_by_side"]


#: Differences up to this part are round-off of solvers.
_SAME = 1e-6
_MOST_USERS = 20


_SIGNS = {"more": ("+", "▲"), "less": ("−", "▼")}


def difference(value: float, fair: float) -> tuple[str, str, float]:
    """Return a difference from DRFH: text, kind and part.

    Examples
    --------
    >>> difference(12.5, 10.0), difference(7.5, 10.0), difference(10.0, 10.0)
    (('▲ +2.5 (+25 %)', 'more', 0.25), ('▼ −2.5 (−25 %)', 'less', 0.25), ('=', 'same', 0.0))
    >>> difference(1.0, 0.0)
    ('▲ +1', 'more', 1.0)
    """
    apart = value - fair
    if abs(apart) <= _SAME * max(abs(fair), abs(value), 1e-12):
        return "=", "same", 0.0
    kind = "more" if apart > 0 else "less"
    sign, arrow = _SIGNS[kind]
    amount = f"{arrow} {sign}{format_number(abs(apart))}"
    if fair <= 0:
        return amount, kind, 1.0
    part = abs(apart) / fair
    return f"{amount} ({sign}{format_percent(part, trim=True)})", kind, min(part, 1.0)


def side_by_side(
    rows: Sequence[CompareRow], *, find: str = "", shares: bool = False
) -> tuple[Markup, int, int]:
    """Return the table, and how many users of how many it lists.

    Parameters
    ----------
    rows
        A mechanism each; differences are from DRFH, if that has an answer.
    find
        Users to list, by parts of their names; empty: those that differ most.
    shares
        Dominant shares instead of tasks.

    Examples
    --------
    >>> fair = CompareRow("drfh", "equal shares", {"ann": 10.0}, {"ann": 0.5}, total=10.0)
    >>> other = CompareRow("tsf", "others", {"ann": 8.0}, {"ann": 0.4}, total=8.0)
    >>> markup, listed, everybody = side_by_side([fair, other])
    >>> "▼ −2 (−20 %)" in markup, listed, everybody
    (True, 1, 1)
    """
    answered = [row for row in rows if not row.why_not]
    fair = next((row for row in answered if row.mechanism == "drfh"), None)
    users = list(answered[0].tasks) if answered else []
    listed = select_largest(users, _apart(answered, fair, users), find, _MOST_USERS)
    lines = _summary_lines(rows, fair)
    lines += [_user_line(rows, fair, users[position], shares=shares) for position in listed]
    unit = "dominant share of" if shares else "tasks of"
    head = [unit, *(row.mechanism for row in rows)]
    return table(head, lines, "side"), len(listed), len(users)


def _apart(rows: Sequence[CompareRow], fair: CompareRow | None, users: list[str]) -> Floats:
    """Return each user's largest difference from DRFH, as a part."""
    if fair is None or not users:
        return np.zeros(len(users))
    right = np.array([fair.tasks[user] for user in users])
    scale = np.where(right > 0, right, 1.0)
    apart: Floats = np.max(
        [np.abs(np.array([row.tasks[u] for u in users]) - right) / scale for row in rows], axis=0
    )
    return apart


def _summary_lines(rows: Sequence[CompareRow], fair: CompareRow | None) -> list[list[Content]]:
    resources = list(fair.utilisation) if fair is not None else []
    total = None if fair is None else fair.total
    lines: list[list[Content]] = [
        ["what it does", *(_summary(row) for row in rows)],
        ["all tasks", *(_value(row, row.total, total) for row in rows)],
        ["below fair, at worst", *(_distance(row) for row in rows)],
    ]
    for resource in resources:
        cells: list[Content] = [
            Cell("–") if row.why_not else bar(row.utilisation.get(resource)) for row in rows
        ]
        lines.append([f"{resource} in use", *cells])
    lines.append(["took", *(Cell(format_elapsed(row.seconds), "number") for row in rows)])
    return lines


def _summary(row: CompareRow) -> Cell:
    if not row.why_not:
        return Cell(tag("span", row.summary, "soft"), "wrap")
    text = join([tag("span", "✘ no answer", "mark fails"), tag("span", row.why_not, "soft")])
    return Cell(text, "no-answer")


def _distance(row: CompareRow) -> Cell:
    if row.why_not:
        return Cell("–")
    if row.distance <= _SAME:
        return Cell("nobody", "number")
    worst = tag("span", row.worst_off, "soft") if row.worst_off else ""
    return Cell(join([tag("b", format_percent(row.distance, trim=True)), worst]), "number")


def _user_line(
    rows: Sequence[CompareRow], fair: CompareRow | None, user: str, *, shares: bool
) -> list[Content]:
    cells: list[Content] = [Cell(tag("b", user), title=user)]
    for row in rows:
        if row.why_not:
            cells.append(Cell("–", "number"))
            continue
        right = None
        if fair is not None:
            right = fair.shares[user] if shares else fair.tasks[user]
        value = row.shares[user] if shares else row.tasks[user]
        promise = ""
        if row.promised is not None and not shares:
            promise = f"of {format_number(row.promised[user])} promised"
        cells.append(_value(row, value, right, promise, percent=shares))
    return cells


def _value(
    row: CompareRow, value: float, fair: float | None, note: str = "", *, percent: bool = False
) -> Cell:
    """Return a number and its difference from that of DRFH."""
    if row.why_not:
        return Cell("–", "number")
    parts = [tag("span", format_percent(value, trim=True) if percent else format_number(value))]
    if note:
        parts.append(tag("span", note, "soft"))
    if fair is not None and row.mechanism != "drfh":
        text, kind, part = difference(value, fair)
        if percent and kind != "same":
            sign, arrow = _SIGNS[kind]
            text = f"{arrow} {sign}{format_points(abs(value - fair), trim=True)}"
        size = "" if kind == "same" else f'<b style="--size: {part:.3f}"></b>'
        parts.append(Markup(f'<span class="diff {kind}">{size}{text}</span>'))
    return Cell(join(parts), "number")


_MANY_USERS = 20


class ComparePanel(JobPanel):
    """Mechanisms side by side."""

    name = "compare"
    title = "Compare"
    icon = "balance"
    small = 20_000
    cost = "this may take a while, and can be stopped."

    def __init__(self) -> None:
        super().__init__()
        # What is known, for which answer, and how much of it is on the page.
        self._rows: list[CompareRow] = []
        self._rows_of: Answer | None = None
        self._drawn = 0

    def build(self, page: Page) -> None:
        """Make its elements."""
        with section("Compare mechanisms", "drfh-panel"):
            text = (
                "The same servers and users, shared by other rules. ▲ more and ▼ less than DRFH "
                "gives, = the same; the bars are as long as the difference is large."
            )
            markup(tag("p", text, "note"))
            with container("tools"):
                units = {"tasks": "Tasks", "shares": "Dominant shares"}
                self._unit = ui.toggle(units, value="tasks", on_change=self._draw)
                self._unit.props('no-caps dense data-testid=compare-unit aria-label="What to show"')
                self._find = ui.input("Find users", on_change=self._draw)
                self._find.props("dense clearable debounce=200 data-testid=compare-find")
                self._start = ui.button("Compare", on_click=self._work)
                self._start.props("no-caps data-testid=compare-start")
            self._job = PanelJob(page, "compare", self._offer, self._draw_more)
            self._message = markup(testid="compare-note").props("aria-live=polite")
            self._table = markup(testid="compare-table")
        self._start.set_visibility(False)
        self._find.set_visibility(False)

    def _outdate(self, answer: Answer) -> None:
        self._table.classes(add="stale")

    def _work(self) -> None:
        if self._answer is None:
            return
        answer = self._answer
        self._start.set_visibility(False)

        names = tuple(COMPARED)
        rows: list[CompareRow] = []

        def work(report: ReportProgress) -> list[CompareRow]:
            for done, name in enumerate(names):
                report(f"{name}: {done + 1} of {len(names)} mechanisms", done / len(names))
                rows.extend(compare_rows(answer, [name]))
                # The first ones are shown while the others are still at work.
                if self._answer is answer:
                    self._rows, self._rows_of = rows, answer
            return rows

        def then(rows: list[CompareRow] | None, why_not: str) -> None:
            if rows is None:
                self._fail(why_not)
                return
            self._rows, self._rows_of = rows, answer
            self._draw()

        self._job.start(work, then, "comparing mechanisms")

    def _draw_more(self) -> None:
        if self._rows_of is self._answer and len(self._rows) != self._drawn:
            self._draw()

    def _draw(self) -> None:
        if not self._rows or self._answer is None:
            return
        find, shares = self._find.value or "", self._unit.value == "shares"
        rows = list(self._rows)  # another thread may add to it
        self._drawn = len(rows)
        content, listed, everybody = side_by_side(rows, find=find, shares=shares)
        self._find.set_visibility(everybody > _MANY_USERS)
        self._table.set_content(content)
        if self._rows_of is self._answer:
            self._table.classes(remove="stale")
        text = ""
        if listed < everybody:
            which = "those with this in their names" if find else "those that differ most"
            text = f"{listed:,} of {everybody:,} users: {which}."
        self._message.set_content(tag("p", text, "note") if text else "")
