"""The panel "Compare": mechanisms side by side, and where they differ from DRFH."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drfh.report.parts import tag
from drfh.resources import some
from drfh.web.answers import Answer
from drfh.web.comparing import COMPARED, CompareRow, compare_rows
from drfh.web.differences import side_by_side
from drfh.web.looks import PANEL_STYLE
from drfh.web.working import Tell, Working

if TYPE_CHECKING:
    from nicegui import ui

    from drfh.web.panel import Page

__all__ = ["ComparePanel"]

#: Users times server groups, up to which the work starts by itself.
SMALL = 20_000
_MANY_USERS = 20


class ComparePanel:
    """Mechanisms side by side.

    Attributes
    ----------
    name, title, icon : str
        See :class:`drfh.web.panel.Panel`.
    """

    name = "compare"
    title = "Compare"
    icon = "balance"

    _working: Working
    _start: ui.button
    _find: ui.input
    _unit: ui.toggle
    _note: ui.html
    _table: ui.html

    def __init__(self) -> None:
        self._answer: Answer | None = None
        # What is known, for which answer, and how much of it is on the page.
        self._rows: list[CompareRow] = []
        self._rows_of: Answer | None = None
        self._drawn = 0

    def build(self, page: Page) -> None:
        """Make its elements."""
        from nicegui import ui

        ui.add_css(PANEL_STYLE)
        with ui.element("section").classes("drfh-panel").props('aria-label="Compare mechanisms"'):
            words = (
                "The same servers and users, shared by other rules. ▲ more and ▼ less than DRFH "
                "gives, = the same; the bars are as long as the difference is large."
            )
            ui.html(tag("p", words, "note"), sanitize=False)
            with ui.element("div").classes("tools"):
                units = {"tasks": "Tasks", "shares": "Dominant shares"}
                self._unit = ui.toggle(units, value="tasks", on_change=self._draw)
                self._unit.props('no-caps dense data-testid=compare-unit aria-label="What to show"')
                self._find = ui.input("Find users", on_change=self._draw)
                self._find.props("dense clearable debounce=200 data-testid=compare-find")
                self._start = ui.button("Compare", on_click=self._compare)
                self._start.props("no-caps data-testid=compare-start")
            self._working = Working(page, "compare", self._offer, self._draw_more)
            self._note = ui.html("", sanitize=False).props(
                "data-testid=compare-note aria-live=polite"
            )
            self._table = ui.html("", sanitize=False)
            self._table.props("data-testid=compare-table")
        self._start.set_visibility(False)
        self._find.set_visibility(False)

    def show(self, answer: Answer) -> None:
        """Compare on the scenario of an answer; a large one waits for a click."""
        if self._answer is answer:
            return
        self._answer = answer
        size = len(answer.scenario.users) * len(answer.scenario.cluster)
        self._table.classes(add="stale")
        if size <= SMALL:
            self._compare()
        else:
            self._working.stop()
            self._offer()

    def _offer(self) -> None:
        self._start.set_visibility(True)
        if self._answer is not None:
            cluster, users = self._answer.scenario.cluster, self._answer.scenario.users
            words = f"{some(len(users), 'user')}, {some(len(cluster), 'server group')}: "
            words += "this may take a while, and can be stopped."
            self._note.set_content(tag("p", words, "note"))

    def _compare(self) -> None:
        if self._answer is None:
            return
        answer = self._answer
        self._start.set_visibility(False)

        names = tuple(COMPARED)
        rows: list[CompareRow] = []

        def work(tell: Tell) -> list[CompareRow]:
            for done, name in enumerate(names):
                tell(f"{name}: {done + 1} of {len(names)} mechanisms", done / len(names))
                rows.extend(compare_rows(answer, [name]))
                # The first ones are shown while the others are still at work.
                if self._answer is answer:
                    self._rows, self._rows_of = rows, answer
            return rows

        def then(rows: list[CompareRow] | None, why_not: str) -> None:
            if rows is None:
                self._offer()
                self._note.set_content(tag("p", f"✘ {why_not}", "mark fails"))
                return
            self._rows, self._rows_of = rows, answer
            self._draw()

        self._working.start(work, then, "comparing mechanisms")

    def _draw_more(self) -> None:
        if self._rows_of is self._answer and len(self._rows) != self._drawn:
            self._draw()

    def _draw(self) -> None:
        if not self._rows or self._answer is None:
            return
        find, shares = self._find.value or "", self._unit.value == "shares"
        rows = list(self._rows)  # another thread may add to it
        self._drawn = len(rows)
        markup, listed, everybody = side_by_side(rows, find=find, shares=shares)
        self._find.set_visibility(everybody > _MANY_USERS)
        self._table.set_content(markup)
        if self._rows_of is self._answer:
            self._table.classes(remove="stale")
        words = ""
        if listed < everybody:
            which = "those with this in their names" if find else "those that differ most"
            words = f"{listed:,} of {everybody:,} users: {which}."
        self._note.set_content(tag("p", words, "note") if words else "")
