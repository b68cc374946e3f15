"""The live view: shares over time, pending jobs, nodes, events.

Each browser tab has a page of its own, which polls the store twice a second and sends changes only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from nicegui import ui

from drfh.errors import DrfhError
from drfh.formatting import format_duration, format_time
from drfh.report.html import PALETTE, Markup, stylesheet, tag
from drfh.web.components.controls import container, heading, markup, section
from drfh.web.components.heat_map import HeatMap
from drfh.web.components.lines import Line, LineChart
from drfh.web.components.tiles import Tiles
from drfh.web.live.history import SPANS, HistoryColumns
from drfh.web.live.labels import (
    FEW_USERS,
    choose_users,
    events_markup,
    pending_markup,
    shares_text,
    status_tiles,
    users_markup,
)
from drfh.web.live.store import LiveStore, LiveView
from drfh.web.server.app import PageServer, listen

__all__ = ["LivePage", "live_server"]

_PERIOD = 0.5  # seconds
_POINTS = 900  # of a line
_PRIMARY = "#2a6fb0"  # legible below white text
_LINES = 6  # users drawn by default
_LOST = (
    "There is no connection to drfh any more: it has stopped, or cannot be reached. What is shown "
    "is as it was seen last; it goes on by itself when drfh is back."
)
_SCHEMES = {"auto": None, "light": False, "dark": True}


def live_server(store: LiveStore, port: int = 0, host: str = "127.0.0.1") -> PageServer:
    """Return the server of the live view, for a ``with`` block.

    Parameters
    ----------
    store
        The data shown.
    port
        0: any free one.
    host
        As of :func:`drfh.web.server.app.listen`: one that is not loopback gets a token.

    Examples
    --------
    >>> live_server(LiveStore(), 70_000)
    Traceback (most recent call last):
    drfh.errors.InputError: --web-port must be from 0 to 65535, got 70000
    """
    address, listener = listen(host, port, options=("--web-host", "--web-port"))

    def page() -> None:
        LivePage(store).build()

    try:
        return PageServer(address, listener, page, title="drfh live")
    except BaseException:
        listener.close()
        raise


class LivePage:
    """Live view in one browser tab."""

    def __init__(self, store: LiveStore) -> None:
        self.store = store
        self.version = -1
        self.paused = self.broken = self.everyone = self.another_span = False
        self.span = next(iter(SPANS))
        self.drawn: list[str] = []
        self.chosen: list[str] = []
        self.job_asked = ""

    def build(self) -> None:
        """Create the elements, fill them, and start polling."""
        for sheet in ("live.css", "tiles.css"):
            ui.add_css(stylesheet("drfh.web", sheet))
        self.dark = ui.dark_mode(None)
        ui.colors(primary=_PRIMARY)
        with ui.element("main").classes("live"):
            self._build_top()
            with _section("Shares over time"):
                self._build_shares()
            with container("two"):
                with _section("Distance from fair"):
                    self.distance = LineChart(height=180).props("data-testid=live-distance-chart")
                with _section("Jobs that wait, and that were placed"):
                    self.queue = LineChart(unit="number", height=180, ends=True)
                    self.queue.props("data-testid=live-queue-chart")
            with _section("Who has what"):
                self.users = markup(testid="live-users")
                self.all_users = ui.switch("all users", on_change=self._everyone)
                self.all_users.props("data-testid=live-all-users dense")
            with _section("Who waits, and why"):
                self._build_why()
                self.pending = markup(testid="live-waits")
            with _section("Nodes"):
                self.heat = HeatMap(describe=self._node_text, height=520).props(
                    "data-testid=live-heat"
                )
            with _section("What happened"):
                self.events = markup(testid="live-events").classes("events-box")
                self.events.props("tabindex=0 role=region aria-label='What happened'")
        self.tick()
        ui.timer(_PERIOD, self.tick)

    def _build_top(self) -> None:
        with ui.element("header").classes("top"):
            with container("names"):
                self.title = heading(testid="live-title", level=1)
                self.how = _label("live-how", "soft")
                self.observed = _label("live-observed", "soft")
            with container("tools"):
                self.pause = ui.button("pause", icon="pause", on_click=self._pause, color=None)
                self.pause.props("outline no-caps dense padding='4px 12px' data-testid=live-pause")
                schemes = ui.toggle(list(_SCHEMES), value="auto", on_change=self._scheme)
                schemes.props("no-caps dense padding='4px 10px' data-testid=live-scheme")
                schemes.props("aria-label='light or dark'")
        # Shown by the stylesheet once the connection is lost.
        _label("live-lost", "trouble lost").props("role=alert").set_text(_LOST)
        self.trouble = _label("live-trouble", "trouble").props("role=alert")
        self.trouble.set_visibility(False)
        self.tiles = Tiles(testid="live-tiles")

    def _build_shares(self) -> None:
        with container("pick"):
            spans = ui.toggle(list(SPANS), value=self.span, on_change=self._span)
            spans.props("no-caps dense padding='2px 10px' data-testid=live-span")
            spans.props("aria-label='how far back'")
            self.choice = ui.select([], multiple=True, on_change=self._choose)
            self.choice.props("dense options-dense outlined use-chips clearable")
            self.choice.props("label='users' data-testid=live-choice")
        key = (
            '<span class="lines-key"></span>has &emsp;'
            '<span class="lines-key dashed"></span>in the fair allocation'
        )
        markup(tag("p", Markup(key), "note"))
        self.shares = LineChart(height=300, ends=True).props("data-testid=live-shares-chart")

    def _build_why(self) -> None:
        with container("pick"):
            self.job = ui.input("job, such as 12 or 12_3").props("dense outlined")
            self.job.props("data-testid=live-job").on("keydown.enter", self._ask)
            ask = ui.button("why?", on_click=self._ask, color=None).props("outline no-caps dense")
            ask.props("padding='4px 12px' data-testid=live-ask")
        self.answer = _label("live-answer", "answer").props("aria-live=polite")
        self.answer.set_visibility(False)

    # Controls

    def _pause(self) -> None:
        self.paused = not self.paused
        self.pause.set_text("go on" if self.paused else "pause")
        self.pause.set_icon("play_arrow" if self.paused else "pause")
        self.tick()

    def _scheme(self, event: Any) -> None:
        self.dark.set_value(_SCHEMES.get(event.value))

    def _span(self, event: Any) -> None:
        self.span = event.value if event.value in SPANS else self.span
        self.another_span = True
        self._redraw()

    def _choose(self, event: Any) -> None:
        self.chosen = list(event.value or ())[: len(PALETTE)]
        self._redraw()

    def _everyone(self, event: Any) -> None:
        self.everyone = bool(event.value)
        self._redraw()

    def _ask(self) -> None:
        try:
            self.job_asked = self.store.request_explanation(str(self.job.value or ""))
            text = f"job {self.job_asked}: the answer comes with the next look …"
        except DrfhError as error:
            self.job_asked, text = "", str(error)
        self.answer.set_visibility(True)
        self.answer.set_text(text)

    def _node_text(self, position: int) -> Any:
        now = self.shown
        return now.nodes.cell_text(position, now.on_nodes.get(now.nodes.nodes[position].name, []))

    # Updates

    def _redraw(self) -> None:
        self.version = -1
        if self.paused:
            self._show(self.shown)
        else:
            self.tick()

    def tick(self) -> None:
        """Show the store's latest view; an exception becomes a warning on the page."""
        try:
            if not self.paused:
                now = self.store.view()
                if now.version != self.version:
                    self._show(now)
                self._show_age(now)
        except Exception as error:
            if not self.broken:
                self.broken = True
                self._warn(f"This page has a fault and may be out of date: {error!r}")

    def _show(self, now: LiveView) -> None:
        self.shown, self.version = now, now.version
        self.title.set_text(f"{now.title or 'cluster'}, live")
        self.how.set_text(now.how)
        self.events.set_content(events_markup(now.events))
        if self.job_asked and self.job_asked in now.explanations:
            self.answer.set_text(now.explanations[self.job_asked].text)
        status = now.status
        if status is None:
            return
        self.tiles.show(status_tiles(status))
        self.users.set_content(users_markup(status, everyone=self.everyone))
        self.all_users.set_visibility(sum(bool(user.jobs) for user in status.users) > FEW_USERS)
        self.pending.set_content(pending_markup(now.pending))
        self._show_lines(now)
        self.heat.patch(now.nodes.cells)

    def _show_age(self, now: LiveView) -> None:
        if now.status is None:
            self.observed.set_text("waits for the first look …")
        else:
            age = max(time.time() - now.status.time, 0.0)
            when = format_time(now.status.time)
            self.observed.set_text(
                f"seen at {when}" + (f", {format_duration(int(age))} ago" if age > 2 else "")
            )
            if age > self.store.late and not now.trouble:
                self._warn(f"No new look for {format_duration(int(age))}: what is shown is old.")
                return
        if not self.broken:
            self._warn(now.trouble)

    def _warn(self, text: str) -> None:
        self.trouble.set_visibility(bool(text))
        self.trouble.set_text(text)

    def _show_lines(self, now: LiveView) -> None:
        assert now.status is not None
        past = self.store.past_users(self.span)
        users = self.chosen or choose_users(now.status, self.drawn, _LINES, past)
        active = (user.name for user in now.status.users if user.jobs)
        names = sorted({*past, *active, *self.chosen})
        if names != self.choice.options:
            self.choice.set_options(names)
        text = shares_text(now.status, users)
        plain = {"distance": Line("distance from fair", PALETTE[1], filled=True),
                 "waiting": Line("wait", PALETTE[0], filled=True),
                 "placed": Line("placed", PALETTE[2])}  # fmt: skip
        charts: list[tuple[LineChart, list[Line], Callable[[HistoryColumns], list[Any]], str]] = [
            (self.shares, _user_lines(users), lambda found: _user_rows(found, users), text),
            (self.distance, [plain["distance"]], lambda found: [found.distance],
             f"Distance from fair over time, now {now.status.distance:.1%}."),
            (self.queue, [plain["waiting"], plain["placed"]],
             lambda found: [found.waiting, found.placed], "Jobs that wait, over time."),
        ]  # fmt: skip
        for chart, lines, rows, description in charts:
            back = now.status.time < chart.last  # the clock was set back
            whole = self.another_span or back or chart.lines != tuple(lines)
            since = -np.inf if whole else chart.last
            found = self.store.columns(self.span, users, since)
            if whole:
                length = SPANS[self.span] * _POINTS
                chart.set(lines, found.time, rows(found), span=length, text=description)
            elif found.time.size:
                chart.add(found.time, rows(found), description)
        self.drawn, self.another_span = list(users), False


def _user_lines(users: list[str]) -> list[Line]:
    colours = [PALETTE[i % len(PALETTE)] for i in range(len(users))]
    has = [Line(user, colour) for user, colour in zip(users, colours, strict=True)]
    fair = [Line(user, colour, dashed=True) for user, colour in zip(users, colours, strict=True)]
    return [*has, *fair]


def _user_rows(found: HistoryColumns, users: list[str]) -> list[Any]:
    nothing = np.full(found.time.size, np.nan)
    return [part.get(user, nothing) for part in (found.share, found.fair) for user in users]


def _section(title: str) -> ui.element:
    with section(title) as element:
        heading(title)
    return element


def _label(testid: str, classes: str) -> ui.label:
    return ui.label().classes(classes).props(f"data-testid={testid}")
