"""The what-if explorer: its page, header and panels."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from nicegui import ui

from drfh.errors import DrfhError
from drfh.model.scenario import Scenario
from drfh.report.html import stylesheet
from drfh.web.components.controls import container
from drfh.web.components.jobs import BackgroundJobs
from drfh.web.components.panel import Page, Panel
from drfh.web.explorer.files import Files, open_share_dialog
from drfh.web.explorer.header import FIRST, Examples, HeaderBar
from drfh.web.explorer.panels.cluster import ClusterPanel
from drfh.web.explorer.panels.compare import ComparePanel
from drfh.web.explorer.panels.report_card import CardPanel
from drfh.web.explorer.panels.whatif import WhatIfPanel
from drfh.web.play.panel import PlayPanel
from drfh.web.runs.figures import vega_bundle
from drfh.web.runs.panel import RunsPanel
from drfh.web.session.answers import Answer, answer_of, check_mechanism, own_mechanism
from drfh.web.session.open_file import is_quick_to_open, open_named
from drfh.web.session.share_links import book_from_link, book_to_link
from drfh.web.session.workbook import Workbook, base_from_data

if TYPE_CHECKING:
    from drfh.traces import Trace

__all__ = ["PANELS", "Explorer", "Start", "explorer_page"]

log = logging.getLogger(__name__)

T = TypeVar("T")

#: The panels, in the order of their tabs.
PANELS: tuple[Callable[[], Panel], ...] = (
    ClusterPanel,
    ComparePanel,
    CardPanel,
    WhatIfPanel,
    PlayPanel,
    RunsPanel,
)

# Seconds after the last change at which the address is updated.
_ADDRESS_DELAY = 0.4
_SCHEME = "drfh_scheme"  # set by explorer.js


@dataclass(frozen=True)
class Start:
    """What all pages start with.

    Attributes
    ----------
    scenario : Scenario or None
        What is open; by default an example of the paper.
    folder : Path or None
        The only place whose files may be opened.
    run : Path or None
        A run directory to show.
    trace : Trace or None
        What the scenario was made of.
    panel : str
        Name of the panel that is open.
    """

    scenario: Scenario | None = None
    folder: Path | None = None
    run: Path | None = None
    trace: Trace | None = None
    panel: str = ""


@cache
def _script(name: str) -> str:
    return files("drfh.web").joinpath("assets", name).read_text(encoding="utf-8")


def explorer_page(start: Start) -> Callable[..., None]:
    """Return the function that builds the page of one browser tab."""
    # Warm before somebody waits for it.
    answer_of(Workbook(base_from_data(FIRST)))
    Workbook(start.scenario or base_from_data(FIRST))
    if start.run is not None:
        vega_bundle()

    def page(s: str = "", m: str = "", open: str = "", panel: str = "") -> None:  # noqa: A002
        Explorer(start, link=s, mechanism=m, name=open, panel=panel).build()

    return page


class Explorer(Page):
    """The page of the explorer, for one browser tab.

    Parameters
    ----------
    start
        What it starts with.
    link, mechanism, name, panel
        What the address asks for: a shared link, a mechanism, a shipped scenario or file of the
        folder, a panel. What cannot be opened is said at the top.
    """

    def __init__(
        self, start: Start, *, link: str = "", mechanism: str = "", name: str = "", panel: str = ""
    ) -> None:
        book, self._error = Workbook(start.scenario or base_from_data(FIRST)), ""
        self._open_later = "" if link or is_quick_to_open(name, start.folder) else name
        try:
            if link:
                book = book_from_link(link)
            elif name and not self._open_later:
                book = open_named(name, start.folder)
        except DrfhError as error:
            self._error = f"{error}. This is {book.title or 'the first scenario'} instead."
        try:
            check_mechanism(mechanism)
        except DrfhError as error:
            self._error = f"{self._error} {error}. This is answered with its own.".strip()
            mechanism = ""
        super().__init__(book, mechanism)
        self.folder, self.run, self.trace = start.folder, start.run, start.trace
        self.dark = False
        self._first_panel = panel or start.panel
        self._panels: dict[str, Panel] = {}
        self._places: dict[str, ui.element] = {}
        self._shown: dict[str, tuple[Answer, bool]] = {}
        self._visible = ""
        self._warned: Workbook | None = None
        self._address: asyncio.TimerHandle | None = None

    # Building

    def build(self) -> None:
        """Make its elements, and solve."""
        self._client = ui.context.client
        ui.add_css(stylesheet("drfh.web", "explorer.css"))
        ui.add_css(stylesheet("drfh.web", "panel.css"))
        ui.add_css(stylesheet("drfh.web", "tiles.css"))
        for name in ("explorer.js", "grid.js"):
            ui.add_body_html(f"<script>{_script(name)}</script>")
        self._build_scheme()
        self.files = Files(self)
        self._header = HeaderBar(self)
        with container("explorer") as main:  # inside <main>, which is Quasar's
            self._examples = Examples(self)
            with container("trouble") as self._error_box:
                self._error_box.props("role=alert data-testid=trouble").set_visibility(False)
                self._error_text = ui.label()
                close = ui.button(icon="close")
                close.on_click(lambda: self._error_box.set_visibility(False))
                close.props('flat dense round size=sm aria-label="close"')
            self._jobs = BackgroundJobs(self.notify, self.on_stop)
            with ui.element("h1"):
                self._title = ui.label().props("contenteditable=plaintext-only role=textbox")
                self._title.tag = "span"
                self._title.props('data-testid=title aria-label="title, click to change it"')
                self._title.on("keydown.enter.prevent", js_handler="(e) => e.target.blur()")
                self._title.on(
                    "blur",
                    lambda event: self.rename(str(event.args)),
                    js_handler="(e) => emit(e.target.innerText.slice(0, 1000))",
                )
            self._about = ui.label().classes("about")
            self._build_tabs()
        ui.skip_link(target=main)
        ui.on("drfh-undo", self.undo_clicked)
        ui.on("drfh-redo", self.redo_clicked)
        ui.on("drfh-back", lambda event: self._went_back(str(event.args)))
        self._client.on_exception(self._failed)
        try:
            self.solve()
        except DrfhError as error:
            self._error = f"{self._error} {error}".strip()
            self.book, self.mechanism = Workbook(base_from_data(FIRST)), "drfh"
            self.solve()
        if self._error:
            self.show_error(self._error)
        if self._open_later:
            self.open_named(self._open_later)

    def _build_scheme(self) -> None:
        client = self._client
        request = client.request
        self._origin = f"{request.url.scheme}://{request.headers.get('host', '')}"
        chosen = request.cookies.get(_SCHEME)
        self._scheme = ui.dark_mode({"dark": True, "light": False}.get(chosen or ""))
        self.dark = chosen == "dark"

        async def ask() -> None:
            # What is set while the page is built is sent before this.
            dark = await client.run_javascript("drfhPage.ready()", timeout=10)
            if chosen not in ("dark", "light"):
                self._set_dark(bool(dark))

        client.on_connect(ask)

    def _build_tabs(self) -> None:
        made = [panel() for panel in PANELS]
        self._panels = {panel.name: panel for panel in made}
        self._visible = self._first_panel if self._first_panel in self._panels else made[0].name
        self._tabs = ui.tabs(on_change=lambda event: self.open(str(event.value)))
        self._tabs.props("no-caps inline-label align=left outside-arrows mobile-arrows")
        self._tabs.props('aria-label="views"')
        with self._tabs:
            for panel in made:
                tab = ui.tab(panel.name, label=panel.title, icon=panel.icon)
                tab.props(f"data-testid=tab-{panel.name}")
        with ui.tab_panels(self._tabs, animated=False):
            for panel in made:
                self._places[panel.name] = ui.tab_panel(panel.name)
        self._tabs.set_value(self._visible)

    # For panels

    def open(self, panel: str) -> None:
        """Open another panel, by its name."""
        if panel not in self._panels:
            return
        if self._tabs.value != panel:
            self._tabs.set_value(panel)  # comes back here
            return
        if self._visible != panel:
            self._visible = panel
            ui.navigate.history.push(self._own_address())
        self._show_panel()

    def _went_back(self, panel: str) -> None:
        """Show the panel of the address that the browser went back to."""
        panel = panel or next(iter(self._panels))
        if panel in self._panels:
            self._visible = panel
            self.open(panel)

    def notify(self, text: str, kind: str = "info") -> None:
        """Show a line: info, positive, warning or negative."""
        with self._client:
            ui.notify(text, type=kind, position="bottom", multi_line=True)  # type: ignore[arg-type]

    def background(
        self,
        work: Callable[[], T],
        then: Callable[[T], Any],
        label: str,
        on_cancel: Callable[[], None] = lambda: None,
    ) -> Callable[[], None]:
        """Run work in a thread, then `then`; return what cancels it."""
        return self._jobs.start(work, then, label, on_cancel)

    # Clicks

    def undo_clicked(self) -> None:
        """Undo refused input of a cell, else the last step."""
        panel = self._panels[self._visible]
        if isinstance(panel, ClusterPanel) and panel.forget_refused():
            return
        if self.book.steps:
            self.attempt(self.undo)

    def redo_clicked(self) -> None:
        """Redo the step that was undone last, if there is one."""
        if self.book.undone:
            self.attempt(self.redo)

    def open_named(self, name: str) -> None:
        """Open a shipped scenario, or a file of the folder."""

        def work() -> Workbook | DrfhError:
            try:
                return open_named(name, self.folder)
            except DrfhError as error:
                return error

        def opened(found: Workbook | DrfhError) -> None:
            if isinstance(found, DrfhError):
                self.notify(str(found), "negative")
            if isinstance(found, DrfhError) or not self.attempt(lambda: self.load(found)):
                self._header.show()

        if is_quick_to_open(name, self.folder):
            opened(work())
        elif not self.attempt(lambda: self.background(work, opened, f"opening {name[:100]}")):
            self._header.show()

    def share(self) -> None:
        """Show the link to what is on the page."""
        open_share_dialog(self)

    def show_error(self, text: str) -> None:
        """Show an error at the top, until somebody closes it."""
        self._error_text.set_text(text)
        self._error_box.set_visibility(True)

    def toggle_dark(self, *, dark: bool) -> None:
        """Change between light and dark; `dark` says how it is now."""
        self._scheme.value = not dark
        self._set_dark(not dark)

    def _set_dark(self, dark: bool) -> None:
        if dark != self.dark:
            self.dark = dark
            self._show_panel()

    # Showing

    def refresh(self) -> None:
        """Show the book, and the answer if there is one."""
        with self._client:  # what was clicked may be gone by now
            self._header.show()
            self._examples.show()
            self._show_panel()
            self._schedule_address()

    def _show_panel(self) -> None:
        """Show the answer in the visible panel."""
        name = self._visible
        self._show_title()
        if not self.has_answer or self._shown.get(name) == (self.answer, self.dark):
            return
        with self._places[name]:
            try:
                if name not in self._shown:
                    self._panels[name].build(self)
                self._shown[name] = self.answer, self.dark
                self._panels[name].show(self.answer)
            except Exception as error:  # one panel that fails must not take the others along
                self._failed(error)

    def _show_title(self) -> None:
        """Show the title of the scenario, or that of the runs."""
        title, about = self.book.title or "A scenario without a title", self.book.base.description
        if self.book.steps:  # what it says is of the scenario before them
            about = ""
        if self._visible == "runs":
            title, about = "Runs", ""
        self._title.set_text(title)
        self._about.set_text(" ".join(about.split()))

    def _failed(self, error: Exception) -> None:
        """Show an error of a handler; an unexpected one is logged."""
        if isinstance(error, DrfhError):
            self.notify(str(error), "negative")
            return
        log.error("handler failed", exc_info=error)
        self.notify(f"internal error: {type(error).__name__}: {error}", "negative")

    # The address

    def link(self) -> str | None:
        """Return a link to the page; None if it is too long."""
        text = book_to_link(self.book)
        if text is None:
            return None
        return f"{self._origin}/?{urlencode({'s': text} | self._view())}"

    def _view(self) -> dict[str, str]:
        """Return the parameters of the address beside the scenario."""
        view = {}
        if self.mechanism != own_mechanism(self.book.scenario):
            view["m"] = self.mechanism
        if self._visible != next(iter(self._panels)):
            view["panel"] = self._visible
        return view

    def _own_address(self) -> str:
        """Return the address of what is on the page."""
        query = {}
        own = self.book.title == self.book.base.title
        if self.shipped_name and own and not (self.book.steps or self.book.undone):
            query["open"] = self.shipped_name
        elif (text := book_to_link(self.book)) is not None:
            query["s"] = text
        elif self.book.steps and self._warned is not self.book:
            self._warned = self.book
            self.notify("Too much for the address: to keep this, save it under What if.", "warning")
        return f"/?{urlencode(query | self._view())}"

    def _schedule_address(self) -> None:
        if self._address is not None:
            self._address.cancel()

        def put() -> None:
            if not self._client.is_deleted:
                with self._client:
                    ui.navigate.history.replace(self._own_address())

        self._address = asyncio.get_running_loop().call_later(_ADDRESS_DELAY, put)
