"""The header of the explorer: scenario, mechanism, proof, undo, redo, share."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Any

from nicegui import ui

from drfh.auditor.comparison import WHOLE_TASKS
from drfh.files.scenario_file import shipped_scenarios
from drfh.web.components.controls import container, flat_button, icon_button
from drfh.web.session.answers import solved_text
from drfh.web.session.comparison import COMPARED
from drfh.web.session.open_file import scenario_files

if TYPE_CHECKING:
    from drfh.web.explorer.page import Explorer

__all__ = ["FIRST", "Examples", "HeaderBar"]

#: The scenario that is open at first.
FIRST = "paper-two-servers"

#: Example scenarios in the header: name → label.
EXAMPLES: dict[str, str] = {
    "paper-two-servers": "Two servers",
    "paper-two-servers-weighted": "Weights 2 and 1",
    "paper-two-servers-finite": "Few tasks",
    "paper-dynamic": "100 servers",
    "google-2011": "Google's cluster",
    "three-resources": "Three resources",
    "gpu-cluster": "GPUs",
}


class HeaderBar:
    """The bar at the top of the page."""

    def __init__(self, page: Explorer) -> None:
        self.page = page
        self._updating = False
        with ui.element("header").classes("top"), container("top-inner"):
            ui.link("drfh", "/").classes(replace="brand")
            self.scenario = ui.select({}, label="scenario", on_change=self._scenario)
            self.scenario.props("dense outlined options-dense data-testid=scenario")
            self.mechanism = ui.select({}, label="mechanism", on_change=self._mechanism)
            self.mechanism.props("dense outlined options-dense data-testid=mechanism")
            self.solved = ui.label().classes("solved")
            self.solved.props("role=status aria-live=polite data-testid=solved")
            ui.space().classes("spring")
            with container("tools"):
                self.undo = icon_button("undo", "undo", "undo", page.undo_clicked)
                self.redo = icon_button("redo", "redo", "redo", page.redo_clicked)
                icon_button("upload_file", "open a file", "open-file", page.files.pick)
                icon_button("link", "share", "share", page.share)
                self.light = icon_button("dark_mode", "light or dark", "scheme", None)
                # The browser knows how it looks now, the page perhaps not yet.
                self.light.on(
                    "click",
                    lambda event: page.toggle_dark(dark=bool(event.args)),
                    js_handler="() => emit(drfhPage.keepOther())",
                )

    def show(self) -> None:
        """Show the state of the page."""
        page = self.page
        self._updating = True
        try:
            own = page.shipped_name if page.book.title == page.book.base.title else ""
            names = shipped_titles() | {
                f"file:{name}": name for name in scenario_files(page.folder)
            }
            if not own:
                names = {"": page.book.title or "untitled"} | names
            _offer(self.scenario, names, own)
            _offer(self.mechanism, mechanisms(page.mechanism), page.mechanism)
        finally:
            self._updating = False
        self.undo.set_enabled(bool(page.book.steps))
        self.redo.set_enabled(bool(page.book.undone))
        text, good = page.stale, False
        if not text:
            text, good = solved_text(page.answer), page.answer.proven
        self.solved.set_text(text)
        classes = "solved" + " proven" * good + " stale" * bool(page.stale)
        if " ".join(self.solved.classes) != classes:
            self.solved.classes(replace=classes)

    def _scenario(self, event: Any) -> None:
        if not self._updating and event.value:
            self.page.open_named(str(event.value).removeprefix("file:"))

    def _mechanism(self, event: Any) -> None:
        if not self._updating and event.value:
            self.page.choose_mechanism(str(event.value))


def _offer(select: ui.select, options: dict[str, str], value: str) -> None:
    """Set options and value, if they are not set already."""
    if select.options != options or select.value != value:
        select.set_options(options, value=value)


class Examples:
    """Buttons that open example scenarios."""

    def __init__(self, page: Explorer) -> None:
        self.page = page
        self._buttons: dict[str, ui.button] = {}
        with ui.element("nav").classes("examples").props('aria-label="examples"'):
            for name, label in EXAMPLES.items():
                open_ = partial(page.open_named, name)
                self._buttons[name] = flat_button(label, f"example-{name}", open_)

    def show(self) -> None:
        """Mark the example that is open."""
        for name, button in self._buttons.items():
            if (name == self.page.shipped_name) != ("chosen" in button.classes):
                button.classes(toggle="chosen")


@cache
def shipped_titles() -> dict[str, str]:
    """Return name and title of the shipped scenarios, the examples first."""
    titles = shipped_scenarios()
    return {name: titles[name] for name in [*EXAMPLES, *titles]}


def mechanisms(chosen: str) -> dict[str, str]:
    """Return the mechanisms to choose from, by name, with a label.

    Examples
    --------
    >>> mechanisms("max-min:cpu")["max-min:cpu"]
    'max-min:cpu'
    """
    listed = {name: f"{name}: {text}" for name, text in COMPARED.items()}
    listed[WHOLE_TASKS] = f"{WHOLE_TASKS}: DRFH with whole tasks"
    return listed if chosen in listed else {chosen: chosen, **listed}
