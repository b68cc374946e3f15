"""The stage of the panel "Play": films side by side, one slider, and what is at its time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from nicegui import ui

from drfh.formatting import format_clock
from drfh.report.html import tag
from drfh.web.components.heat_map import HeatMap
from drfh.web.components.slider import Slider
from drfh.web.play.charts import (
    LEFT,
    RIGHT,
    Curve,
    curve_options,
    fair_text,
    keys,
    shares_of,
    used_of,
)
from drfh.web.play.film import Film, Frame
from drfh.web.play.labels import cell_words, now_text, summary_table, times_of, user_table

__all__ = ["STAGE_STYLE", "Stage"]

# Seconds between two pictures, and the part of the time that making them may take.
_TICK, _LOAD = 0.1, 0.25
_SPEEDS = {60: "in 1 minute", 20: "in 20 s", 10: "in 10 s", 5: "in 5 s"}

STAGE_STYLE = """
.drfh-panel .columns { display: grid; gap: 0 2rem; align-items: start;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
.drfh-panel .columns > * { min-width: 0; }
.drfh-panel .slide { display: flex; flex-wrap: wrap; gap: .3rem 1rem; align-items: center;
  position: sticky; top: 3.4rem; z-index: 20; background: var(--paper); padding: .4rem 0; }
/* What scrolls by itself would keep the slider from staying in sight. */
.q-tab-panels:has(.slide), .q-panel:has(.slide), .q-tab-panel:has(.slide) { overflow: visible; }
@media (max-width: 44rem) {
  .drfh-panel .slide { position: static; }
  .drfh-panel table.tight { font-size: .9rem; }
  .drfh-panel table.tight th, .drfh-panel table.tight td { padding-right: .45rem; }
  .drfh-panel table.tight th { white-space: normal; vertical-align: bottom; } }
.drfh-panel .drfh-slide { flex: 1 1 14rem; min-width: 8rem; height: 2rem; margin: 0;
  accent-color: var(--bar); cursor: pointer; }
.drfh-panel .slide .at { min-width: 6.5rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.drfh-panel .over-time { position: relative; width: 100%; }
.drfh-panel .over-time .chart { height: 180px; }
.drfh-panel .over-time .at-line { position: absolute; top: 10px; bottom: 28px; width: 2px;
  background: var(--ink); opacity: .65; pointer-events: none; }
.drfh-panel h3 { font-size: .95rem; line-height: 1.3; font-weight: 600; margin: .8rem 0 0; }
.drfh-panel .choose { margin-bottom: .6rem; }
.drfh-panel .choose .q-field { max-width: min(100%, 20rem); }
.drfh-panel .choose .q-field__native { flex-wrap: nowrap; }
.drfh-panel .choose .q-field__native > span { overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; }
.drfh-panel table.first-stays th:first-child, .drfh-panel table.first-stays td:first-child {
  position: sticky; left: 0; background: var(--paper); }
.drfh-panel .tables { display: flex; flex-wrap: wrap; gap: 0 4rem; }
.drfh-panel .tables > * { max-width: 100%; }
.drfh-panel .now p { min-height: 3em; }
"""


class _Column:
    """One film: its heat map, and its curves."""

    def __init__(
        self, film: Film, frame: Frame, end: float, most: float, shares: list[Curve], number: int
    ) -> None:
        self.film, self.frame, self._end = film, frame, end
        self._lines: list[ui.element] = []
        with ui.element("section") as section:
            section.props(f"data-testid=play-film-{number}")
            with ui.element("h2"):
                ui.label(film.policy)
            self._now = ui.html("", sanitize=False).classes("now")
            self._now.props(f"data-testid=play-now-{number}")
            self._heat = HeatMap(film.cells(frame), describe=self._words, height=380)
            used = used_of(film)
            self._chart("How full everything is", used, 1.0)
            self._chart("Dominant shares", shares, most)
            ui.html(tag("p", fair_text(shares), "note") if fair_text(shares) else "",
                    sanitize=False)  # fmt: skip

    def _chart(self, title: str, curves: list[Curve], most: float) -> None:
        with ui.element("h3"):
            ui.label(title)
        ui.html(keys(curves), sanitize=False)
        with ui.element("div").classes("over-time"):
            chart = ui.echart(curve_options(curves, self._end, most), renderer="svg")
            chart.classes("chart").props(f'role=img aria-label="{title} over time"')
            self._lines.append(ui.element("div").classes("at-line").props("aria-hidden=true"))

    def _words(self, server: int) -> Any:
        return cell_words(self.film, self.frame, server)

    def show(self, frame: Frame) -> None:
        """Show an instant."""
        self.frame = frame
        self._now.set_content(now_text(self.film, frame))
        self._heat.patch(self.film.cells(frame))
        part = frame.time / self._end if self._end > 0 else 0.0
        for line in self._lines:
            line.style(f"left: calc({LEFT}px + (100% - {LEFT + RIGHT}px) * {part:.5f} - 1px)")


class Stage:
    """Films in step."""

    def __init__(self) -> None:
        self.films: list[Film] = []
        self._columns: list[_Column] = []
        self._times = np.zeros(1)
        self._at = 0.0  # position of the slider, in steps; between two while it plays
        self._told = 0.0
        with ui.element("div") as self.place:
            self._build()
        self.place.set_visibility(False)
        self._timer = ui.timer(_TICK, self._tick, active=False)

    def _build(self) -> None:
        with ui.element("div").classes("slide"):
            self._button = ui.button(icon="play_arrow", on_click=self._flip)
            self._button.props('round dense data-testid=play-flip aria-label="play"')
            self._slide = Slider(self._moved)
            self._slide.props("data-testid=play-slider")
            self._label = ui.label("").classes("at").props("data-testid=play-time")
            self._speed = ui.select(_SPEEDS, value=20, label="all of it")
            self._speed.props("dense options-dense borderless data-testid=play-speed")
            busiest = ui.button("Busiest moment", on_click=self._to_busiest)
            busiest.props("flat dense no-caps data-testid=play-busiest")
        self._place = ui.element("div").classes("columns")
        with ui.element("div").classes("tables"):
            with ui.element("section"):
                with ui.element("h2"):
                    self._who = ui.label("")
                self._users = ui.html("", sanitize=False).props("data-testid=play-users")
            with ui.element("section"):
                with ui.element("h2"):
                    ui.label("The whole run")
                self._summary = ui.html("", sanitize=False).props("data-testid=play-summary")

    @property
    def time(self) -> float:
        """What the slider is at, in seconds."""
        return float(self._times[self._position])

    @property
    def _position(self) -> int:
        return int(min(max(self._at, 0), len(self._times) - 1))

    def set(self, films: Sequence[Film]) -> None:
        """Show other films, from the start."""
        self.pause()
        self.films, self._times = list(films), times_of(films)
        end = float(self._times[-1])
        shares = [shares_of(films[0])]
        names = [curve.name for curve in shares[0] if not curve.thin]
        shares += [shares_of(film, names) for film in films[1:]]
        parts = [curve.part for curves in shares for curve in curves if len(curve.part)]
        most = max((float(np.nanmax(part, initial=0.0)) for part in parts), default=1.0)
        self._place.clear()
        with self._place:
            self._columns = [
                _Column(film, film.frame(0.0), end, most, curves, number)
                for number, (film, curves) in enumerate(zip(films, shares, strict=True))
            ]
        self._summary.set_content(summary_table(films))
        self.place.set_visibility(True)
        self.go(0)

    def go(self, position: float) -> None:
        """Go to a step of the slider."""
        self._at = position
        self._draw()

    def go_to(self, moment: float) -> None:
        """Go to the last step until a time in seconds."""
        self.go(int(np.searchsorted(self._times, moment + 1e-9, side="right")) - 1)

    def play(self) -> None:
        """Let the time pass; from the start again if it is at the end."""
        if self._position >= len(self._times) - 1:
            self._at = 0.0
        self._told = time.monotonic()
        self._timer.activate()
        self._button.props('icon=pause aria-label="pause"')

    def pause(self) -> None:
        """Let the time stand still."""
        self._timer.deactivate()
        self._button.props('icon=play_arrow aria-label="play"')

    def _flip(self) -> None:
        if self._timer.active:
            self.pause()
        else:
            self.play()

    def _to_busiest(self) -> None:
        self.pause()
        if self.films:
            self.go_to(self.films[0].busiest)

    def _tick(self) -> None:
        now = time.monotonic()
        passed, self._told = now - self._told, now
        last = len(self._times) - 1
        self.go(min(self._at + passed * last / float(self._speed.value or 20), last))
        if self._position >= last:
            self.pause()
        # A large film may not take all the time of the server.
        self._timer.interval = max(_TICK, (time.monotonic() - now) / _LOAD)

    def _moved(self, position: int) -> None:
        self.pause()  # somebody else holds the slider
        self.go(position)

    def _draw(self) -> None:
        moment = self.time
        frames = [column.film.frame(moment) for column in self._columns]
        for column, frame in zip(self._columns, frames, strict=True):
            column.show(frame)
        self._label.set_text(format_clock(moment))
        self._who.set_text(f"Who has what at {format_clock(moment)}")
        self._users.set_content(user_table(self.films, frames))
        words = (
            f"{format_clock(moment, long=True)} of "
            f"{format_clock(float(self._times[-1]), long=True)}"
        )
        self._slide.set(self._position, max(len(self._times) - 1, 1), words)
