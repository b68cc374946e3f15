"""The panel "Runs": figures of run directories, of one or of several that are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicegui import ui

from drfh.errors import DrfhError
from drfh.web.components.controls import container, error_label, heading, section
from drfh.web.components.jobs import PanelJob, ReportProgress
from drfh.web.runs.figures import RunFigures, runs_css, vega_bundle
from drfh.web.runs.files import RunDirectory, find_run, list_runs, newest

if TYPE_CHECKING:
    from drfh.web.components.panel import Page
    from drfh.web.runs.pages import RunPage
    from drfh.web.session.answers import Answer

__all__ = ["RunsPanel"]

_MAKE = "drfh simulate gpu-day --policy best-fit-drfh,fifo -o runs"
_SHOW = "drfh explore --run runs"
_EVERYTHING = ""
_ALL = {"min": 0, "max": 100}


class RunsPanel:
    """Panel with the figures of ``drfh report`` for run directories of the folder.

    Attributes
    ----------
    name, title, icon : str
        See :class:`drfh.web.components.panel.Panel`.
    """

    name = "runs"
    title = "Runs"
    icon = "insights"

    _page: Page
    _working: PanelJob
    _figures: RunFigures
    _how: ui.element
    _head: ui.label
    _hint: ui.element
    _refused: ui.label
    _run: ui.select
    _path: ui.input
    _span: ui.range
    _span_text: ui.label
    _time: ui.element
    _others: ui.select
    _figure: ui.select

    def __init__(self) -> None:
        self._known: dict[str, RunDirectory] = {}
        self._quiet = False  # ignore change events

    def build(self, page: Page) -> None:
        """Create the elements; open the run of ``--run``, or the newest."""
        self._page = page
        ui.add_css(runs_css())
        with section("Runs"):
            self._build_tools()
            self._refused = error_label("runs-refused")
            with container("drfh-panel"):
                self._working = PanelJob(page, "runs", self._stopped)
            self._how = container("runs-how", "runs-how")
            with self._how:
                self._build_how()
            self._head = heading(testid="runs-title").classes("runs-title")
            with container("soft runs-hint") as self._hint:
                ui.label("Point at a figure to read it; click on a name above it to hide its line.")
                ui.label(
                    "Shift and the wheel zoom in time, dragging moves, a double click goes back."
                ).classes("mouse")
            self._hint.set_visibility(False)
            with container("runs-time") as self._time:
                self._span_text = ui.label("Time shown: all").classes("soft")
                self._span = ui.range(
                    min=0, max=100, value=dict(_ALL), on_change=self._span_changed
                )
                self._span.props('dense aria-label="part of the time that is shown, percent"')
                self._span.props("data-testid=runs-span")
            self._time.set_visibility(False)
            self._figures = RunFigures(self._show_everything, self._moved)
        self._rescan()
        first = next(iter(self._known.values()), None)
        if page.run is None:
            first = newest(list(self._known.values()))
        elif first is None or first.path != page.run.resolve():
            first = None
            self._refuse(f"--run must be a run directory, or hold some, got {str(page.run)!r}")
        if first is not None:
            self._choose(first.name)

    def show(self, answer: Answer) -> None:
        """Do nothing: runs do not depend on the answer."""

    # Building

    def _build_tools(self) -> None:
        with container("runs-tools") as self._tools:
            self._run = ui.select({}, label="Run directory", on_change=self._run_changed)
            self._run.props("dense outlined data-testid=runs-run")
            self._path = ui.input("or its path in the folder")
            self._path.props("dense outlined data-testid=runs-path")
            self._path.on("keydown.enter", lambda: self._open_path(str(self._path.value or "")))
            self._others = ui.select(
                {}, label="Compare with", multiple=True, on_change=self._others_changed
            )
            self._others.props("dense outlined use-chips data-testid=runs-others")
            self._figure = ui.select(
                {_EVERYTHING: "All figures"}, value=_EVERYTHING, label="Show",
                on_change=lambda event: self._only(str(event.value or "")),
            )  # fmt: skip
            self._figure.props("dense outlined data-testid=runs-figure")
            again = ui.button(icon="refresh", on_click=self._rescan)
            again.props('flat round dense aria-label="look for runs again"')
            again.tooltip("look for runs again")

    def _build_how(self) -> None:
        if self._page.folder is None:
            text = "This page was started without a directory, so it opens no files."
        else:
            text = "There are no runs in the folder of this page yet."
        ui.label(text)
        ui.label("Simulate something and keep what it found:")
        self._box(_MAKE)
        if self._page.folder is None:
            ui.label("Then open the page on it, or on a directory with all your runs (--folder):")
            self._box(_SHOW)
        else:
            ui.label("Write it into that folder, then look again (the round arrow).")
        ui.label(
            "You will see how full the servers were, who had what, how long jobs took and who "
            "waited, each figure to point at, with its data."
        ).classes("soft")

    def _box(self, command: str) -> None:
        def copy() -> None:
            ui.clipboard.write(command)
            self._page.notify("copied", "positive")

        with container("box"):
            with ui.element("pre"):
                ui.label(command)
            button = ui.button(icon="content_copy", on_click=copy)
            button.props('flat round dense aria-label="copy the command"')

    # The list

    def _rescan(self) -> None:
        """Search the folder again; the selection stays."""
        found = list_runs(self._page.folder, self._page.run)
        self._known = {directory.name: directory for directory in found} | {
            name: directory for name, directory in self._known.items() if name in self._chosen()
        }
        self._how.set_visibility(not self._known)
        self._tools.set_visibility(bool(self._known) or self._page.folder is not None)
        self._offer()

    def _chosen(self) -> list[str]:
        """Return the selected names, the run first."""
        run = self._run.value
        others = self._others.value or []
        return list(dict.fromkeys(str(name) for name in (run, *others) if name))

    def _offer(self) -> None:
        labels = {name: directory.label for name, directory in self._known.items()}
        run = self._run.value if self._run.value in labels else None
        others = {
            name: label
            for name, label in labels.items()
            if name != run and self._known[name].kind != "reproduction"
        }
        chosen = [name for name in self._others.value or [] if name in others]
        if run is not None and self._known[run].kind == "reproduction":
            others, chosen = {}, []
        self._quiet = True
        try:
            self._run.set_options(labels, value=run)
            self._others.set_options(others, value=chosen)
        finally:
            self._quiet = False
        self._others.set_enabled(bool(others))

    # Opening

    def _choose(self, name: str) -> None:
        self._quiet = True
        try:
            self._run.set_value(name)
        finally:
            self._quiet = False
        self._offer()
        self._open()

    def _run_changed(self, event: Any) -> None:
        if not self._quiet and event.value:
            self._choose(str(event.value))

    def _open_path(self, name: str) -> None:
        """Open a directory by a typed path."""
        if not name.strip():
            return
        try:
            directory = find_run(name.strip(), self._page.folder, self._page.run)
        except DrfhError as error:
            self._refuse(str(error))
            return
        self._path.set_value("")
        self._known[directory.name] = directory
        self._choose(directory.name)

    def _others_changed(self, event: Any) -> None:
        if not self._quiet:
            self._open()

    def _open(self) -> None:
        names = self._chosen()
        if not names:
            return
        vega_bundle()
        folder, run = self._page.folder, self._page.run

        def work(tell: ReportProgress) -> RunPage:
            from drfh.web.runs.pages import run_page

            return run_page([find_run(name, folder, run) for name in names], tell)

        self._refuse("")
        self._figures.classes(add="stale")
        self._working.start(work, self._opened, "reading the run")

    def _opened(self, found: RunPage | None, error: str) -> None:
        self._figures.classes(remove="stale")
        if found is None:
            self._refuse(error)
            return
        self._how.set_visibility(False)
        self._hint.set_visibility(True)
        self._head.set_text(found.title)
        self._figures.set(found.content)
        self._time.set_visibility(found.together)
        self._moved(0.0, 1.0)
        before = self._figure.value
        self._figure.set_options({_EVERYTHING: "All figures", **found.figures}, value=_EVERYTHING)
        if before in found.figures:
            self._figure.set_value(before)

    def _stopped(self) -> None:
        self._figures.classes(remove="stale")
        self._refuse("Stopped. Choose a run to open it.")

    def _refuse(self, text: str) -> None:
        self._refused.set_text(text)

    # Figures

    def _span_changed(self, event: Any) -> None:
        low, high = event.value["min"], event.value["max"]
        shown = "all" if (low, high) == (0, 100) else f"{low}–{high} %"
        self._span_text.set_text(f"Time shown: {shown}")
        if not self._quiet:
            self._figures.span(low / 100, high / 100)

    def _moved(self, start: float, end: float) -> None:
        """Move the slider after a zoom in a figure."""
        self._quiet = True
        try:
            self._span.set_value({"min": round(100 * start), "max": round(100 * end)})
        finally:
            self._quiet = False

    def _only(self, name: str) -> None:
        self._figures.only(name)

    def _show_everything(self) -> None:
        self._figure.set_value(_EVERYTHING)
