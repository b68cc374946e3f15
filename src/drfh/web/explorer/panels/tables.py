"""Cluster and users: two tables whose cells can be edited."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nicegui import ui

from drfh.errors import DrfhError
from drfh.formatting import format_count
from drfh.model.edits import fresh_name
from drfh.web.components.controls import (
    container,
    error_label,
    flat_button,
    heading,
    open_dialog,
    section,
)
from drfh.web.components.grid import Grid
from drfh.web.components.panel import Page
from drfh.web.session.answers import Answer
from drfh.web.session.cell_input import LONGEST, read_name, shown_amount
from drfh.web.session.steps import (
    AddServer,
    AddUser,
    RemoveServer,
    RemoveUser,
    SetServer,
    SetUser,
    Step,
)
from drfh.web.session.table_rows import (
    RowCache,
    TableColumn,
    server_columns,
    server_table_rows,
    user_columns,
    user_table_rows,
)

__all__ = ["TablesPanel"]


class TablesPanel:
    """Tables of server groups and users, with what each gets."""

    def build(self, page: Page) -> None:
        """Make both tables."""
        self.page = page
        self._rows = RowCache(), RowCache()
        self._state: Any = None
        self.users = _Table(
            page,
            "users",
            edit=lambda name, column, text: SetUser(name, column.step, text),
            remove=RemoveUser,
            add=self._new_user,
            add_label="Add a user",
        )
        with self.users.tools:
            ui.label("Click a cell and type: every edit is solved at once.").classes("soft")
        container("table-gap")
        self.servers = _Table(
            page,
            "servers",
            edit=lambda name, column, text: SetServer(name, column.step, text),
            remove=RemoveServer,
            add=self._new_servers,
            add_label="Add servers",
        )
        with self.servers.tools:
            flat_button("Add a resource", "add-resource", self._ask_resource, icon="add")

    def show(self, answer: Answer) -> None:
        """Show an answer in both tables."""
        scenario = answer.scenario
        steps = self.page.book.steps
        if self._state is not None and steps[: len(self._state)] != self._state:
            # Undone, or another scenario: what was refused goes with it.
            self.forget_refused()
        self._state = steps
        title = format_count(len(scenario.users), "user")
        self.users.show(title, user_columns(answer), user_table_rows(answer, self._rows[0]))
        title = format_count(sum(server.count for server in scenario.cluster.servers), "server")
        self.servers.show(title, server_columns(answer), server_table_rows(answer, self._rows[1]))

    def forget_refused(self) -> bool:
        """Remove what was typed and refused; return whether there was any."""
        marked = [table for table in (self.users, self.servers) if table.grid.has_marks]
        for table in marked:
            table.forget_refused()
        return bool(marked)

    def _new_user(self) -> tuple[Step, str]:
        users = self.page.book.scenario.users
        name = fresh_name("user", {user.name for user in users})
        demand = {r: shown_amount(a) for r, a in users[-1].demand.items()}
        return AddUser(name, demand), name

    def _new_servers(self) -> tuple[Step, str]:
        cluster = self.page.book.scenario.cluster
        name = fresh_name("servers", cluster.group_index)
        last = cluster.servers[-1].resources
        return AddServer(name, {r: shown_amount(a) for r, a in last.items()}), name

    def _ask_resource(self) -> None:
        names = list(self.page.book.scenario.cluster.names)
        with open_dialog("A new resource", "a new resource") as dialog:
            resource = ui.input("name, such as gpu").props("dense outlined autofocus")
            resource.props(f"data-testid=resource-name maxlength={LONGEST + 1}")
            group = ui.select(names, value=names[0], label="servers that have it")
            group.props("dense outlined data-testid=resource-group").classes("full-width")
            amount = ui.input("how much one of them has", value="1").props("dense outlined")
            amount.props("data-testid=resource-amount")
            error_text = error_label()

            def add() -> None:
                try:
                    field = read_name(resource.value or "", "name")
                    if field in ("name", "count", "labels"):
                        field = f"resources.{field}"
                    self.page.do(SetServer(str(group.value), field, str(amount.value or "")))
                except DrfhError as error:
                    error_text.set_text(str(error))
                else:
                    dialog.close()

            with ui.row():
                ui.button("Add", on_click=add).props("no-caps unelevated data-testid=resource-add")
                ui.button("Cancel", on_click=dialog.close).props("flat no-caps")


class _Table:
    """One table with its buttons and an error line."""

    def __init__(
        self,
        page: Page,
        what: str,
        *,
        edit: Callable[[str, TableColumn, str], Step],
        remove: Callable[[str], Step],
        add: Callable[[], tuple[Step, str]],
        add_label: str,
    ) -> None:
        self.page, self._edit, self._remove, self._add = page, edit, remove, add
        with section(what):
            with container("table-head"):
                self._title = heading(testid=f"{what}-title")
                with container("row-of") as self.tools:
                    flat_button(add_label, f"add-{what}", self._added, icon="add")
                    flat_button("Remove ticked", f"remove-{what}", self._removed, icon="remove")
            self.grid = Grid(what, f"{what}-table", self._edited)
            self._error = error_label(f"{what}-refused")

    def show(
        self, title: str, columns: Sequence[TableColumn], rows: Sequence[dict[str, Any]]
    ) -> None:
        self._title.set_text(title)
        self.grid.show(columns, rows)
        if not self.grid.has_marks:
            self._error.set_text("")

    def forget_refused(self) -> None:
        self.grid.forget_marks()
        self._error.set_text("")

    def _edited(self, name: str, column: TableColumn, text: str) -> None:
        self.grid.unmark(name, column)
        renamed = column.field == "name" and text.strip()
        if renamed:
            self.grid.rename(name, text.strip())
        try:
            self.page.do(self._edit(name, column, text))
        except DrfhError as error:
            if renamed:
                self.grid.rename(text.strip(), name)
            self.grid.mark(name, column, text[:LONGEST], str(error))
            self._error.set_text(str(error))

    def _added(self) -> None:
        step, name = self._add()
        if self._do(step):
            self.grid.edit(name, "name")

    async def _removed(self) -> None:
        names = await self.grid.selected()
        if names:
            self._do(*(self._remove(name) for name in names))
        else:
            self.page.notify("tick the rows first")

    def _do(self, *steps: Step) -> bool:
        try:
            self.page.do(*steps)
        except DrfhError as error:
            self._error.set_text(str(error))
            return False
        return True
