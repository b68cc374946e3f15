"""The panel "What if": steps, forms, before and after."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from nicegui import ui

from drfh.errors import DrfhError
from drfh.formatting import format_count, format_quantity
from drfh.model.cluster import Server
from drfh.web.components.controls import container, error_label, flat_button, heading, section
from drfh.web.components.grid import Grid
from drfh.web.components.panel import Page
from drfh.web.session.answers import Answer, answer_of, change_text, changes, is_quick
from drfh.web.session.cell_input import amounts_text, labels_text
from drfh.web.session.steps import (
    AddServer,
    LieStep,
    RemoveServer,
    RemoveUser,
    SetServer,
    SetUser,
    Step,
    TrueValueStep,
)
from drfh.web.session.table_rows import TableColumn
from drfh.web.session.workbook import Workbook

__all__ = ["ServersForm", "UserForm", "WhatIfPanel"]


class _Form:
    """A form about one row: a number, amounts, buttons."""

    heading: str
    what: str  # a row, in one word, also for tests
    number: str  # what the number is
    amounts: str  # what the amounts are

    def __init__(self, page: Page) -> None:
        self.page = page
        self.chosen = ""
        self._fields: dict[str, ui.input] = {}

    # For subclasses

    def names(self) -> list[str]:
        """Return the rows that there are."""
        raise NotImplementedError

    def values(self) -> tuple[float, Any]:
        """Return the number and the amounts of the chosen row."""
        raise NotImplementedError

    def actions(self) -> list[tuple[str, str, Any]]:
        """Return label, test id and step of each button."""
        raise NotImplementedError

    def remark(self) -> str:
        """Return a line about the chosen row."""
        return ""

    def build(self) -> None:
        """Make its elements."""
        with section(self.heading, "card"):
            heading(self.heading)
            with container("row-of"):
                self._choice = ui.select([], label=self.what, on_change=self._choose)
                self._choice.props(f"dense outlined options-dense data-testid=form-{self.what}")
                self._number = ui.input(self.number)
                self._number.props(f"dense outlined data-testid=form-{self.number}")
            ui.label(self.amounts).classes("soft")
            with container("row-of"):
                self._amounts()
            self._remark = ui.label().classes("soft").props(f"data-testid=remark-{self.what}")
            self._error = error_label(f"refused-{self.what}")
            with container("row-of"):
                for label, testid, step in self.actions():
                    flat_button(label, testid, lambda step=step: self._do(step()))

    def show(self, answer: Answer) -> None:
        """Show the rows that there are."""
        names = self.names()
        if self.chosen not in names:
            self.chosen = names[0]
        self._choice.set_options(names, value=self.chosen)
        self._fill()

    def _choose(self, event: Any) -> None:
        if event.value is not None and event.value != self.chosen:
            self.chosen = str(event.value)
            self._fill()

    def _fill(self) -> None:
        self._error.set_text("")
        number, _ = self.values()
        self._number.set_value(format_quantity(number))
        if tuple(self._fields) == self.page.book.scenario.cluster.resources:
            self._fill_amounts()
        else:
            self._amounts.refresh()
        self._remark.set_text(self.remark())

    def _fill_amounts(self) -> None:
        _, amounts = self.values()
        for resource, field in self._fields.items():
            amount = amounts.get(resource)
            field.set_value("" if amount is None else format_quantity(amount))

    @ui.refreshable_method
    def _amounts(self) -> None:
        """Make a field for each resource."""
        self._fields = {r: ui.input(r) for r in self.page.book.scenario.cluster.resources}
        for place, field in enumerate(self._fields.values()):
            field.props(f"dense outlined data-testid=form-{self.what}-{place}")
        if self.chosen in self.names():
            self._fill_amounts()

    def entered(self) -> str:
        """Return the number as text."""
        return str(self._number.value or "")

    def entered_amounts(self) -> dict[str, str]:
        """Return the amounts as text, without those left empty."""
        return {r: str(f.value) for r, f in self._fields.items() if str(f.value or "").strip()}

    def _do(self, step: Step) -> None:
        try:
            self.page.do(step)
        except DrfhError as error:
            self._error.set_text(str(error))


class ServersForm(_Form):
    """A form that adds, resizes and removes servers."""

    heading = "Add or remove servers"
    what = "servers"
    number = "count"
    amounts = "What one of them has:"

    def names(self) -> list[str]:
        """Return the groups."""
        return list(self.page.book.scenario.cluster.names)

    def values(self) -> tuple[float, Any]:
        """Return the count and the capacity of the chosen group."""
        server = self._server()
        return server.count, server.resources

    def actions(self) -> list[tuple[str, str, Any]]:
        """Return the buttons."""
        return [
            (
                "Set the count",
                "set-count",
                lambda: SetServer(self.chosen, "count", self.entered()),
            ),
            ("Add as new servers", "add-these", self._new),
            ("Remove them all", "remove-these", lambda: RemoveServer(self.chosen)),
        ]

    def _new(self) -> Step:
        # With the labels of those that they are like, or users bound to labels could not use them.
        return AddServer(None, self.entered_amounts(), self.entered(), self._server().labels)

    def _server(self) -> Server:
        return self.page.book.scenario.cluster.servers[self.names().index(self.chosen)]

    def remark(self) -> str:
        """Return the labels of the chosen group."""
        labels = labels_text(self._server().labels)
        return f"Labels, for new servers too: {labels}." if labels else ""


class UserForm(_Form):
    """A form for a user's claims, weight and leaving."""

    heading = "Let a user lie, weigh more, or leave"
    what = "user"
    number = "weight"
    amounts = "What it claims that one task needs:"

    def names(self) -> list[str]:
        """Return the users."""
        return [user.name for user in self.page.book.scenario.users]

    def values(self) -> tuple[float, Any]:
        """Return weight and demand of the chosen user."""
        user = self.page.book.scenario.users[self.names().index(self.chosen)]
        return user.weight, user.demand

    def actions(self) -> list[tuple[str, str, Any]]:
        """Return the buttons."""
        return [
            ("Claim this", "claim", lambda: LieStep(self.chosen, self.entered_amounts())),
            ("Tell the truth", "tell-truth", lambda: TrueValueStep(self.chosen)),
            (
                "Set weight",
                "set-weight",
                lambda: SetUser(self.chosen, "weight", self.entered()),
            ),
            ("Let it leave", "leave", lambda: RemoveUser(self.chosen)),
        ]

    def remark(self) -> str:
        """Return what a liar needs in truth."""
        true = self.page.book.truths.get(self.chosen)
        return "" if true is None else f"In truth it needs {amounts_text(true.demand)}."


_MOST_LISTED = 100
_COLUMNS = [
    TableColumn("name", "user", width=150),
    TableColumn("tasks_before", "tasks before", "tasks that it could run", kind="number"),
    TableColumn("tasks_after", "tasks after", "tasks that it can run", kind="number"),
    TableColumn("change", "change", "of its tasks", kind="change"),
    TableColumn("share_before", "share before", "dominant share", kind="part"),
    TableColumn("share_after", "share after", "dominant share", kind="part"),
]


class WhatIfPanel:
    """Steps, forms, saving, and a table of before and after."""

    name = "whatif"
    title = "What if"
    icon = "alt_route"

    def build(self, page: Page) -> None:
        """Make its parts."""
        self.page = page
        self._before: tuple[Workbook, Answer] | None = None
        self._cancel: Callable[[], None] = lambda: None
        self._since: int = 0
        self._forms = (ServersForm(page), UserForm(page))
        with container("two"):
            with section("steps"):
                with container("table-head"):
                    self._title = heading(testid="steps-title")
                    reset = partial(page.attempt, page.reset)
                    label = "Back to the start"
                    self._reset = flat_button(label, "reset", reset, icon="restart_alt")
                self._step_list()
                self._build_saving()
            with container("forms"):
                for form in self._forms:
                    form.build()
        with section("before and after"):
            with container("table-head after-head"):
                heading("Before and after")
                self._from = ui.select({0: "since the start"}, value=0, on_change=self._choose)
                self._from.props('dense outlined options-dense aria-label="since when"')
                self._from.props("data-testid=since")
            self._none = ui.label("Nothing has changed yet: add servers, or let somebody lie.")
            self._none.classes("soft").props("data-testid=no-change")
            self._summary = ui.label().props("data-testid=change-summary")
            self.grid = Grid("before and after", "changes-table")

    def _build_saving(self) -> None:
        page = self.page
        with container("row-of"):
            for label, icon, testid, action in (
                ("Copy a link", "link", "share-steps", page.share),
                ("Save as a scenario file", "download", "save-scenario", page.files.save_scenario),
                ("Save with its steps", "history", "save-steps", page.files.save_book),
                ("Open a file", "upload_file", "open-steps", page.files.pick),
            ):
                flat_button(label, testid, action, icon=icon)

    def show(self, answer: Answer) -> None:
        """Show the steps and what they come to."""
        book = self.page.book
        self._title.set_text(
            format_count(len(book.steps), "step") if book.steps else "No steps yet"
        )
        self._reset.set_enabled(bool(book.steps))
        self._step_list.refresh()
        for form in self._forms:
            form.show(answer)
        self._since = min(self._since, max(len(book.steps) - 1, 0))
        first = max(0, len(book.steps) - _MOST_LISTED)
        since = {0: "since the start"}
        since |= {k: f"since step {k}" for k in range(max(first, 1), len(book.steps))}
        self._from.set_options(since, value=self._since)
        self._compare()

    @ui.refreshable_method
    def _step_list(self) -> None:
        page, book = self.page, self.page.book
        texts = book.texts
        first = max(0, len(texts) - _MOST_LISTED)
        with ui.element("ol").classes("steps").props("data-testid=steps"):
            if first:
                with ui.element("li").classes("soft"):
                    ui.label(f"{format_count(first, 'step')} before these")
            for number, text in enumerate(texts[first:], first + 1):
                with ui.element("li"):
                    ui.label(f"{number}. {text}")
                    label = "undo" if number == len(texts) else "back to here"
                    undo = partial(page.undo, max(1, len(texts) - number))
                    button = flat_button(label, f"back-to-{number}", partial(page.attempt, undo))
                    button.props("size=sm")
            for step in book.undone[::-1][:_MOST_LISTED]:
                with ui.element("li").classes("undone"):
                    ui.label(step.text)

    # Before and after

    def _choose(self, event: Any) -> None:
        if event.value is not None and event.value != self._since:
            self._since = int(event.value)
            self._compare()

    def _compare(self) -> None:
        """Show users now and before, once that is solved."""
        book, mechanism = self.page.book, self.page.mechanism
        self._cancel()
        changed = bool(book.steps)
        self._none.set_visibility(not changed)
        self._summary.set_visibility(changed)
        self.grid.box.set_visibility(changed)
        if not changed:
            return
        if self._before is not None:
            known, answer = self._before
            same = known.base is book.base and known.steps == book.steps[: self._since]
            if same and answer.mechanism == mechanism:
                self._show_changes(answer)
                return
        earlier = Workbook(book.base, book.steps[: self._since])

        def then(before: Answer) -> None:
            self._before = earlier, before
            self._show_changes(before)

        if is_quick(earlier.scenario, mechanism):
            try:
                then(answer_of(earlier, mechanism))
            except DrfhError as error:
                self._summary.set_text(f"before: {error}")
            return
        self._cancel = self.page.background(
            lambda: answer_of(earlier, mechanism), then, "solving what was before"
        )

    def _show_changes(self, before: Answer) -> None:
        found = changes(before, self.page.answer)
        rows = [
            {
                "name": change.user,
                "tasks_before": change.tasks_before,
                "tasks_after": change.tasks_after,
                "change": change.difference,
                "share_before": change.share_before,
                "share_after": change.share_after,
            }
            for change in found
        ]
        self._summary.set_text(change_text(before, self.page.answer, found))
        self.grid.show(_COLUMNS, rows)
