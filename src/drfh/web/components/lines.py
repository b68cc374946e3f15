"""A line chart over time, to which points are appended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from nicegui.element import Element
from nicegui.elements import echart  # noqa: F401 - it makes its library known to pages
from nicegui.events import GenericEventArguments
from numpy.typing import NDArray

__all__ = ["Line", "LineChart"]


@dataclass(frozen=True, slots=True)
class Line:
    """Name and style of a line.

    Parameters
    ----------
    name
        What it is; the dashed line of a name belongs to the other one of that name.
    colour
        As CSS has it.
    dashed
        What would be, beside what is.
    filled
        The area below it, too.
    """

    name: str
    colour: str
    dashed: bool = False
    filled: bool = False


class LineChart(Element, component="../assets/lines.js"):
    """A chart of lines over time.

    Parameters
    ----------
    unit
        ``percent`` for parts from 0 to 1, or ``number``.
    height
        Pixels.
    ends
        Whether names stand at the right ends of lines.
    """

    def __init__(self, *, unit: str = "percent", height: int = 260, ends: bool = False) -> None:
        super().__init__()
        self._props.update(unit=unit, height=height, ends=ends, first=None, number=0)
        self._lines: tuple[Line, ...] = ()
        self._times: list[float] = []
        self._rows: list[list[float | None]] = []
        self._span, self._text, self._number = 60.0, "", 0
        self.on("ready", self._ready)

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines that are drawn."""
        return self._lines

    @property
    def last(self) -> float:
        """Time of the last point; minus infinity if there is none."""
        return self._times[-1] if self._times else -np.inf

    def set(
        self,
        lines: Sequence[Line],
        times: NDArray[np.float64],
        rows: Sequence[NDArray[np.float64]],
        *,
        span: float,
        text: str,
    ) -> None:
        """Replace all lines.

        Parameters
        ----------
        lines
            Their names and styles.
        times, rows
            Seconds since 1970, and a row of values for each line; NaN where it has none.
        span
            Seconds that are shown.
        text
            The chart as text, for screen readers.
        """
        self._lines, self._span, self._text = tuple(lines), span, text
        self._times, self._rows = times.tolist(), [_plain(row) for row in rows]
        self._number += 1
        self._send()

    def add(
        self, times: NDArray[np.float64], rows: Sequence[NDArray[np.float64]], text: str
    ) -> None:
        """Append points to all lines."""
        more = [_plain(row) for row in rows]
        self._times += times.tolist()
        for row, new in zip(self._rows, more, strict=True):
            row += new
        old = sum(time < self.last - self._span for time in self._times)
        del self._times[:old]
        for row in self._rows:
            del row[:old]
        before, self._text = self._number, text
        self._number += 1
        data = {"times": times.tolist(), "rows": more, "text": text}
        self.run_method("add", data, before, self._number)

    def _send(self) -> None:
        data: dict[str, Any] = {
            "series": [asdict(line) for line in self._lines],
            "times": self._times,
            "rows": self._rows,
            "span": self._span,
            "text": self._text,
        }
        self.run_method("set", data, self._number)

    def _ready(self, event: GenericEventArguments) -> None:
        if event.args != self._number:
            self._send()


def _plain(row: NDArray[np.float64]) -> list[float | None]:
    """Return numbers for JSON, rounded to five digits."""
    return [None if np.isnan(value) else float(f"{value:.5g}") for value in row]
