"""Base classes of the explorer's page and of its panels.

There is no Tailwind on the page: classes are Quasar's, those of ``assets/explorer.css`` and
``assets/panel.css``, or a panel's own (``ui.add_css`` in `build`). Colours are the variables
``--ink``, ``--soft``, ``--paper``, ``--line``, ``--card``, ``--bar``, ``--bad`` and ``--good``.
Names of users, servers and resources come from links and files: they go into texts and values,
never into markup, scripts, the text of ``props()``, or the keys of dicts that become props (NiceGUI
runs the value of a key that begins with a colon).
"""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from drfh.web.session.answers import Answer
from drfh.web.session.session import Session

if TYPE_CHECKING:
    from drfh.traces import Trace
    from drfh.web.explorer.files import Files

__all__ = ["Page", "Panel"]


class Page(Session):
    """The page of a panel: a session, for one browser tab.

    Attributes
    ----------
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

    folder: Path | None
    run: Path | None
    trace: Trace | None
    dark: bool
    files: Files

    @abstractmethod
    def open(self, panel: str) -> None:
        """Open another panel, by its name."""

    @abstractmethod
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
