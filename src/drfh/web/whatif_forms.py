"""Forms of what-if: servers that come and go, a user that lies, weighs more or leaves."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from drfh.cluster import Server
from drfh.errors import DrfhError
from drfh.resources import format_quantity
from drfh.web.answers import Answer
from drfh.web.panel import Page
from drfh.web.steps import AddServer, Lie, RemoveServer, RemoveUser, SetServer, SetUser, Step, Truth
from drfh.web.words import labels_text

__all__ = ["ServersForm", "UserForm"]


class _Form:
    """A choice of one row, a number, an amount of each resource, and buttons.

    Parameters
    ----------
    page
        Where its steps are made.
    """

    heading: str
    what: str  # a row, in one word, also for tests
    number: str  # what the number is
    amounts: str  # what the amounts are

    def __init__(self, page: Page) -> None:
        self.page = page
        self.chosen = ""
        self._fields: dict[str, ui.input] = {}

    # For the forms to say

    def names(self) -> list[str]:
        """Return the rows that there are."""
        raise NotImplementedError

    def values(self) -> tuple[float, Any]:
        """Return the number and the amounts of the chosen row."""
        raise NotImplementedError

    def actions(self) -> list[tuple[str, str, Any]]:
        """Return words, name for tests, and what it does, for each button."""
        raise NotImplementedError

    def remark(self) -> str:
        """Return a line about the chosen row."""
        return ""

    # What they share

    def build(self) -> None:
        """Make its elements."""
        section = ui.element("section").classes("card").props(f'aria-label="{self.heading}"')
        with section:
            with ui.element("h2"):
                ui.label(self.heading)
            with ui.element("div").classes("row-of"):
                self._choice = ui.select([], label=self.what, on_change=self._choose)
                self._choice.props(f"dense outlined options-dense data-testid=form-{self.what}")
                self._number = ui.input(self.number)
                self._number.props(f"dense outlined data-testid=form-{self.number}")
            ui.label(self.amounts).classes("soft")
            self._amounts = ui.element("div").classes("row-of")
            self._remark = ui.label().classes("soft").props(f"data-testid=remark-{self.what}")
            self._wrong = ui.label().classes("refused")
            self._wrong.props(f"role=alert data-testid=refused-{self.what}")
            with ui.element("div").classes("row-of"):
                for words, testid, action in self.actions():
                    button = ui.button(words, on_click=lambda action=action: self._do(action()))
                    button.props(f"flat dense no-caps data-testid={testid}")

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
        self._wrong.set_text("")
        number, amounts = self.values()
        self._number.set_value(format_quantity(number))
        resources = self.page.book.scenario.cluster.resources
        if tuple(self._fields) != resources:
            self._amounts.clear()
            with self._amounts:
                self._fields = {resource: ui.input(resource) for resource in resources}
            for place, field in enumerate(self._fields.values()):
                field.props(f"dense outlined data-testid=form-{self.what}-{place}")
        for resource, field in self._fields.items():
            amount = amounts.get(resource)
            field.set_value("" if amount is None else format_quantity(amount))
        self._remark.set_text(self.remark())

    def typed(self) -> str:
        """Return the number, as typed."""
        return str(self._number.value or "")

    def typed_amounts(self) -> dict[str, str]:
        """Return the amounts, as typed, without those left empty."""
        return {r: str(f.value) for r, f in self._fields.items() if str(f.value or "").strip()}

    def _do(self, step: Step) -> None:
        try:
            self.page.do(step)
        except DrfhError as error:
            self._wrong.set_text(str(error))


class ServersForm(_Form):
    """Lets servers come and go."""

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
            ("Set the count", "set-count", lambda: SetServer(self.chosen, "count", self.typed())),
            ("Add as new servers", "add-these", self._new),
            ("Remove them all", "remove-these", lambda: RemoveServer(self.chosen)),
        ]

    def _new(self) -> Step:
        # With the labels of those that they are like, or users bound to labels could not use them.
        return AddServer(None, self.typed_amounts(), self.typed(), self._server().labels)

    def _server(self) -> Server:
        return self.page.book.scenario.cluster.servers[self.names().index(self.chosen)]

    def remark(self) -> str:
        """Return the labels of the chosen group."""
        words = labels_text(self._server().labels)
        return f"Labels, for new servers too: {words}." if words else ""


class UserForm(_Form):
    """Lets one user claim another demand, change its weight, or leave."""

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
            ("Claim this", "claim", lambda: Lie(self.chosen, self.typed_amounts())),
            ("Tell the truth", "tell-truth", lambda: Truth(self.chosen)),
            ("Set weight", "set-weight", lambda: SetUser(self.chosen, "weight", self.typed())),
            ("Let it leave", "leave", lambda: RemoveUser(self.chosen)),
        ]

    def remark(self) -> str:
        """Return what a liar needs in truth."""
        really = self.page.book.truths.get(self.chosen)
        if really is None:
            return ""
        needs = ", ".join(f"{r} {format_quantity(a)}" for r, a in really.demand.items())
        return f"In truth it needs {needs}."
