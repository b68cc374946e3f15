"""Small elements that pages share: buttons, headings, containers, markup, dialogs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from markupsafe import Markup
from nicegui import ui

__all__ = [
    "container",
    "error_label",
    "flat_button",
    "heading",
    "icon_button",
    "markup",
    "open_dialog",
    "section",
]


_NOTHING = Markup("")


def flat_button(
    label: str, testid: str, on_click: Callable[..., Any] | None = None, *, icon: str | None = None
) -> ui.button:
    """Return a small button without a background."""
    button = ui.button(label, icon=icon, on_click=on_click)
    return button.props(f"flat dense no-caps data-testid={testid}")


def icon_button(icon: str, label: str, testid: str, on_click: Any = None) -> ui.button:
    """Return a round button with an icon and a tooltip."""
    button = ui.button(icon=icon, on_click=on_click).classes("bare").tooltip(label)
    return button.props(f'flat dense round data-testid={testid} aria-label="{label}"')


def heading(text: str = "", testid: str = "", *, level: int = 2) -> ui.label:
    """Return a heading, by default of second level."""
    label = ui.label(text)
    label.tag = f"h{level}"
    return label.props(f"data-testid={testid}") if testid else label


def container(classes: str = "", testid: str = "") -> ui.element:
    """Return a container that the page's own stylesheet lays out."""
    element = ui.element("div").classes(classes)
    return element.props(f"data-testid={testid}") if testid else element


def markup(content: Markup = _NOTHING, testid: str = "") -> ui.html:
    """Return an element with markup, whose parts were escaped when it was made."""
    element = ui.html(content, sanitize=False)
    return element.props(f"data-testid={testid}") if testid else element


def section(label: str, classes: str = "") -> ui.element:
    """Return a section with a label for screen readers."""
    return ui.element("section").classes(classes).props(f'aria-label="{label}"')


def error_label(testid: str = "") -> ui.label:
    """Return a label for errors, which screen readers announce."""
    label = ui.label().classes("refused").props("role=alert")
    return label.props(f"data-testid={testid}") if testid else label


@contextmanager
def open_dialog(title: str, label: str, classes: str = "") -> Iterator[ui.dialog]:
    """Open a dialog with a heading, deleted once it is closed."""
    with ui.dialog(value=True) as dialog, ui.card().classes(classes):
        dialog.props(f'aria-label="{label}"').on("hide", dialog.delete)
        heading(title)
        yield dialog
