"""Protocols of the explorer's page and its panels.

There is no Tailwind on the page: classes are Quasar's, those of ``assets/explorer.css`` and
``assets/panel.css``, or a panel's own (``ui.add_css`` in `build`). Colours are the variables
``--ink``, ``--soft``, ``--paper``, ``--line``, ``--card``, ``--bar``, ``--bad`` and ``--good``.
Names of users, servers and resources come from links and files: they go into texts and values,
never into markup, scripts, the text of ``props()``, or the keys of dicts that become props (NiceGUI
runs the value of a key that begins with a colon).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from drfh.traces import Trace
    from drfh.web.explorer.files import Files
    from drfh.web.session.answers import Answer
    from drfh.web.session.steps import Step
    from drfh.web.session.workbook import Workbook

__all__ = ["Page", "Panel"]

T = TypeVar("T")


class Page(Protocol):
    """The page of a panel; each browser tab has its own.

    Attributes
    ----------
    book : Workbook
        The scenario and the steps.
    mechanism : str
        Whose answer it is.
    folder : Path or None
        The only place whose files may be opened.
    run : Path or None
        A run directory to show from the start.
    trace : Trace or None
        What the scenario at the start was made of, with its jobs.
    dark : bool
        Whether the page is dark now. When that changes, the panel is shown again.
    files : Files
        Uploads and downloads.
    """

    book: Workbook
    mechanism: str
    folder: Path | None
    run: Path | None
    trace: Trace | None
    dark: bool
    files: Files

    @property
    def answer(self) -> Answer:
        """The last answer."""

    def do(self, *steps: Step) -> None:
        """Apply steps, all or none."""

    def undo(self, count: int = 1) -> None:
        """Undo the last steps."""

    def redo(self) -> None:
        """Apply the step that was undone last."""

    def reset(self) -> None:
        """Undo all steps."""

    def load(self, book: Workbook, mechanism: str = "") -> None:
        """Open another workbook, by default with its own mechanism."""

    def open(self, panel: str) -> None:
        """Open another panel, by its name."""

    def notify(self, text: str, kind: str = "info") -> None:
        """Show a line: info, positive, warning or negative."""

    def background(
        self,
        work: Callable[[], T],
        then: Callable[[T], Any],
        label: str,
        on_cancel: Callable[[], None] = lambda: None,
    ) -> Callable[[], None]:
        """Run work in a thread, then `then`; return what cancels it.

        The page shows the label with a button that stops it. `on_cancel` is called when it is
        cancelled or stopped, or the page is closed: its result is dropped. Errors are notified.
        """

    def attempt(self, action: Callable[[], Any]) -> bool:
        """Run an action, notify its error; return whether there was none."""

    def share(self) -> None:
        """Show the link to what is on the page."""


class Panel(Protocol):
    """A tab of the page.

    Attributes
    ----------
    name, title, icon : str
        For the address and tests, for people, and one of Material's.
    """

    name: str
    title: str
    icon: str

    def build(self, page: Page) -> None:
        """Make its elements, when it is first opened."""

    def show(self, answer: Answer) -> None:
        """Show an answer; called while the panel is visible."""
