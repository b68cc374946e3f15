"""What the parts of the explorer's page have in common.

Panels are made of NiceGUI's elements. There is no Tailwind on the page: classes are Quasar's, those
of :mod:`drfh.web.explorer.style`, or a panel's own (``ui.add_css`` in `build`). Colours are
the variables ``--ink``, ``--soft``, ``--paper``, ``--line``, ``--card``, ``--bar``, ``--bad``
and ``--good``.
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
    from drfh.web.session.answers import Answer
    from drfh.web.session.steps import Step
    from drfh.web.session.workbook import Workbook

__all__ = ["Page", "Panel"]

T = TypeVar("T")


class Page(Protocol):
    """What a panel may ask of the page that it is on. Each browser tab has its own.

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
    """

    book: Workbook
    mechanism: str
    folder: Path | None
    run: Path | None
    trace: Trace | None
    dark: bool

    @property
    def answer(self) -> Answer:
        """To the scenario as it is now; the last good one."""

    def do(self, *steps: Step) -> None:
        """Make steps, all or none; raise an InputError if one is refused."""

    def undo(self, count: int = 1) -> None:
        """Take the last steps back."""

    def redo(self) -> None:
        """Make again what was taken back."""

    def reset(self) -> None:
        """Take all steps back."""

    def load(self, book: Workbook, mechanism: str = "") -> None:
        """Begin with another scenario, by default with the mechanism that it asks for."""

    def open(self, panel: str) -> None:
        """Go to another panel, by its name."""

    def notify(self, text: str, kind: str = "info") -> None:
        """Show a line for a moment; kind is info, positive, warning or negative."""

    def background(
        self,
        work: Callable[[], T],
        then: Callable[[T], Any],
        label: str,
        on_cancel: Callable[[], None] = lambda: None,
    ) -> Callable[[], None]:
        """Do work in a thread and hand over what it returns, unless the page is gone by then.

        The page says what is under way, with a button to stop it. Returns what cancels it: its
        result is then dropped, and `on_cancel` is called, as it is when somebody stops it or
        the page is closed. Errors are shown as a line.
        """


class Panel(Protocol):
    """A part of the page.

    Attributes
    ----------
    name, title, icon : str
        For the address and tests, for people, and one of Material's.
    """

    name: str
    title: str
    icon: str

    def build(self, page: Page) -> None:
        """Make its elements, inside the container that is open; once, when it is first seen."""

    def show(self, answer: Answer) -> None:
        """Show an answer: after each good step, if it can be seen."""
