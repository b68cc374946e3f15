"""Player of recordings: heat maps and charts side by side, one time slider."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from nicegui import ui
from nicegui.element import Element
from nicegui.events import GenericEventArguments

from drfh.formatting import format_clock
from drfh.report.html import tag
from drfh.web.components.controls import container, flat_button, heading, markup
from drfh.web.components.heat_map import HeatMap
from drfh.web.play.figures import (
    LEFT,
    RIGHT,
    Curve,
    cell_text,
    curve_options,
    fair_text,
    keys,
    now_text,
    shares_of,
    summary_table,
    times_of,
    used_of,
    user_table,
)
from drfh.web.play.recording import Frame, Recording

__all__ = ["Player", "Slider"]


class Slider(Element, component="../assets/slider.js"):
    """A slider with keyboard control: arrows, Home and End.

    Parameters
    ----------
    moved
        Called with the step that somebody moved it to; then :meth:`set` must be called.
    """

    def __init__(self, moved: Callable[[int], None]) -> None:
        super().__init__()
        self._moved_to = moved
        self._at, self._last, self._text, self._turn = 0, 1, "", 0
        self.on("ready", self._send)
        self.on("move", self._moved)

    def set(self, at: int, last: int, text: str) -> None:
        """Set the step, the last step, and the step's text."""
        self._at, self._last, self._text = at, last, text
        self._send()

    def _send(self) -> None:
        self.run_method("set", self._at, self._last, self._text, self._turn)

    def _moved(self, event: GenericEventArguments) -> None:
        news = event.args if isinstance(event.args, dict) else {}
        at, turn = news.get("at"), news.get("turn")
        if isinstance(at, int) and isinstance(turn, int):
            self._turn = turn
            self._moved_to(min(max(at, 0), self._last))


_TICK = 0.1  # seconds between two frames, at least
_MAX_LOAD = 0.25  # part of the time that drawing frames may take
_SPEEDS = {60: "in 1 minute", 20: "in 20 s", 10: "in 10 s", 5: "in 5 s"}


class _Column:
    """Heat map and charts of one recording."""

    def __init__(
        self,
        recording: Recording,
        frame: Frame,
        end: float,
        most: float,
        shares: list[Curve],
        number: int,
    ) -> None:
        self.recording, self.frame, self._end = recording, frame, end
        self._lines: list[ui.element] = []
        with container(testid=f"play-recording-{number}"):
            heading(recording.policy)
            self._now = markup(testid=f"play-now-{number}").classes("now")
            self._heat = HeatMap(recording.cells(frame), describe=self._cell_text, height=380)
            used = used_of(recording)
            self._chart("How full everything is", used, 1.0)
            self._chart("Dominant shares", shares, most)
            if fair := fair_text(shares):
                markup(tag("p", fair, "note"))

    def _chart(self, title: str, curves: list[Curve], most: float) -> None:
        heading(title, level=3)
        markup(keys(curves))
        with container("over-time"):
            chart = ui.echart(curve_options(curves, self._end, most), renderer="svg")
            chart.classes("chart").props(f'role=img aria-label="{title} over time"')
            self._lines.append(container("at-line").props("aria-hidden=true"))

    def _cell_text(self, server: int) -> Any:
        return cell_text(self.recording, self.frame, server)

    def show(self, frame: Frame) -> None:
        """Show a frame."""
        self.frame = frame
        self._now.set_content(now_text(self.recording, frame))
        self._heat.patch(self.recording.cells(frame))
        part = frame.time / self._end if self._end > 0 else 0.0
        for line in self._lines:
            line.style(f"left: calc({LEFT}px + (100% - {LEFT + RIGHT}px) * {part:.5f} - 1px)")


class Player:
    """Player of recordings in step."""

    def __init__(self) -> None:
        self.recordings: list[Recording] = []
        self._columns: list[_Column] = []
        self._times = np.zeros(1)
        self._at = 0.0  # position of the slider in steps, fractional while playing
        self._last_tick = 0.0  # on the monotonic clock
        with container() as self.element:
            self._build()
        self.element.set_visibility(False)
        self._timer = ui.timer(_TICK, self._tick, active=False)

    def _build(self) -> None:
        with container("slide"):
            self._button = ui.button(icon="play_arrow", on_click=self._toggle)
            self._button.props('round dense data-testid=play-flip aria-label="play"')
            self._slide = Slider(self._moved)
            self._slide.props("data-testid=play-slider")
            self._label = ui.label("").classes("at").props("data-testid=play-time")
            self._speed = ui.select(_SPEEDS, value=20, label="all of it")
            self._speed.props("dense options-dense borderless data-testid=play-speed")
            flat_button("Busiest moment", "play-busiest", self._to_busiest)
        self._row = container("columns")
        with container("tables"):
            with container():
                self._who = heading()
                self._users = markup(testid="play-users")
            with container():
                heading("The whole run")
                self._summary = markup(testid="play-summary")

    @property
    def time(self) -> float:
        """Time of the slider in seconds."""
        return float(self._times[self._position])

    @property
    def _position(self) -> int:
        return int(min(max(self._at, 0), len(self._times) - 1))

    def set(self, recordings: Sequence[Recording]) -> None:
        """Show recordings from the start."""
        self.pause()
        self.recordings, self._times = list(recordings), times_of(recordings)
        end = float(self._times[-1])
        shares = [shares_of(recordings[0])]
        names = [curve.name for curve in shares[0] if not curve.thin]
        shares += [shares_of(recording, names) for recording in recordings[1:]]
        parts = [curve.part for curves in shares for curve in curves if len(curve.part)]
        most = max((float(np.nanmax(part, initial=0.0)) for part in parts), default=1.0)
        self._row.clear()
        with self._row:
            self._columns = [
                _Column(recording, recording.frame(0.0), end, most, curves, number)
                for number, (recording, curves) in enumerate(zip(recordings, shares, strict=True))
            ]
        self._summary.set_content(summary_table(recordings))
        self.element.set_visibility(True)
        self.go(0)

    def go(self, position: float) -> None:
        """Show the frame at a step of the slider."""
        self._at = position
        self._draw()

    def go_to(self, moment: float) -> None:
        """Show the last frame until a time in seconds."""
        self.go(int(np.searchsorted(self._times, moment + 1e-9, side="right")) - 1)

    def play(self) -> None:
        """Play; from the start if it is at the end."""
        if self._position >= len(self._times) - 1:
            self._at = 0.0
        self._last_tick = time.monotonic()
        self._timer.activate()
        self._button.props('icon=pause aria-label="pause"')

    def pause(self) -> None:
        """Pause."""
        self._timer.deactivate()
        self._button.props('icon=play_arrow aria-label="play"')

    def _toggle(self) -> None:
        if self._timer.active:
            self.pause()
        else:
            self.play()

    def _to_busiest(self) -> None:
        self.pause()
        if self.recordings:
            self.go_to(self.recordings[0].busiest)

    def _tick(self) -> None:
        now = time.monotonic()
        passed, self._last_tick = now - self._last_tick, now
        last = len(self._times) - 1
        self.go(min(self._at + passed * last / float(self._speed.value or 20), last))
        if self._position >= last:
            self.pause()
        self._timer.interval = max(_TICK, (time.monotonic() - now) / _MAX_LOAD)

    def _moved(self, position: int) -> None:
        self.pause()
        self.go(position)

    def _draw(self) -> None:
        moment = self.time
        frames = [column.recording.frame(moment) for column in self._columns]
        for column, frame in zip(self._columns, frames, strict=True):
            column.show(frame)
        self._label.set_text(format_clock(moment))
        self._who.set_text(f"Who has what at {format_clock(moment)}")
        self._users.set_content(user_table(self.recordings, frames))
        end = float(self._times[-1])
        spoken = f"{format_clock(moment, long=True)} of {format_clock(end, long=True)}"
        self._slide.set(self._position, max(len(self._times) - 1, 1), spoken)
