"""Axes, colour scales, legends and bar labels of charts."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import altair
import numpy as np
from numpy.typing import ArrayLike, NDArray

from drfh.formatting import format_axis_value
from drfh.report.html import DASHES, PALETTE

__all__ = [
    "BAD",
    "GOOD",
    "SHAPES",
    "SHORT_NAMES",
    "WIDTH",
    "LogAxis",
    "colour_of",
    "dash_of",
    "kind_of",
    "legend_above",
    "legend_columns",
    "on_bars",
]


#: Colours that stay apart for most kinds of colour vision, dark enough for white text.
BAD, GOOD = "#c2493a", "#4c78a8"
#: Width of a plot in pixels, where no page says otherwise.
WIDTH = 460
#: Long names end in an ellipsis, so that bars stay long enough; tooltips have them whole.
SHORT_NAMES = altair.Axis(labelLimit=120)
#: Marks differ in their shapes too.
SHAPES = (
    "circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right",
    "triangle-left",
)  # fmt: skip

_LETTER, _SYMBOL = 7, 46  # pixels in a legend


def legend_above(names: Sequence[str], symbol: str = "stroke") -> altair.Legend:
    """Return a legend above a chart, in as many columns as fit.

    On a page one legend stands above all panels of a figure (see :mod:`drfh.report.figures`).
    """
    return altair.Legend(
        title=None,
        orient="top",
        symbolType=symbol,
        symbolSize=300 if symbol == "stroke" else 90,
        symbolStrokeWidth=2.5 if symbol == "stroke" else 1,
        symbolOpacity=1,
        labelLimit=280,
        columns=legend_columns(names),
    )


def legend_columns(names: Sequence[str], width: float = WIDTH) -> int:
    """Return how many names of a legend fit side by side.

    Examples
    --------
    >>> legend_columns(["best-fit-drfh", "fifo"]), legend_columns(["best-fit-drfh", "fifo"], 200)
    (2, 1)
    """
    widest = _SYMBOL + _LETTER * max((len(name) for name in names), default=1)
    return max(1, min(len(names), int(width // widest)))


def colour_of(names: Sequence[str]) -> altair.Scale:
    """Return a colour scale in the order of the palette.

    Examples
    --------
    >>> colour_of(["best-fit-drfh", "fifo"]).to_dict()["range"]
    ['#2d7dc4', '#e07b00']
    """
    colours = [PALETTE[i % len(PALETTE)] for i in range(len(names))]
    return altair.Scale(domain=list(names), range=colours)


def dash_of(names: Sequence[str]) -> altair.Scale:
    """Return a scale of dashes, so that lines differ without colour too."""
    dashes = [list(DASHES[i % len(DASHES)]) for i in range(len(names))]
    return altair.Scale(domain=list(names), range=dashes)


def on_bars(base: altair.Chart, part: str, label: str, enough: float) -> list[altair.Chart]:
    """Return labels inside long bars, and after short ones.

    Parameters
    ----------
    base
        The chart with its y axis.
    part, label
        Columns with the length of a bar and its label.
    enough
        The length that holds a label.
    """
    x = altair.X(f"{part}:Q", stack=None)
    start = altair.XDatum(0)
    inside = base.transform_filter(altair.datum[part] >= enough)
    outside = base.transform_filter(altair.datum[part] < enough)
    return [
        inside.mark_text(align="left", dx=6, color="white").encode(x=start, text=f"{label}:N"),
        outside.mark_text(align="left", dx=5).encode(x=x, text=f"{label}:N"),
    ]


Floats: TypeAlias = NDArray[np.float64]
Kind: TypeAlias = Literal["plain", "count", "bytes", "seconds"]

_MOST_TICKS = 8
_ZERO_MARGIN = 0.07  # of the axis, between 0 and the least amount
_MANY_POWERS = 2.5
_BYTES = 2**20
_TIMES = (
    (1e-6, "1 µs"), (1e-3, "1 ms"), (0.01, "10 ms"), (0.1, "0.1 s"), (1, "1 s"), (10, "10 s"),
    (60, "1 min"), (600, "10 min"), (3600, "1 h"), (36_000, "10 h"), (864e2, "1 d"),
    (864e3, "10 d"), (864e4, "100 d"), (864e5, "1,000 d"), (864e6, "10,000 d"),
)  # fmt: skip

_SHORT_TIMES = tuple(
    (amount * size, f"{amount} {unit}")
    for size, unit, amounts in (
        (1, "s", (1, 2, 5, 10, 20, 30)), (60, "min", (1, 2, 5, 10, 20, 30)),
        (3600, "h", (1, 2, 5, 10)), (86400, "d", (1, 2, 5, 10, 20, 50, 100)),
    )
    for amount in amounts
)  # fmt: skip


def kind_of(values: ArrayLike) -> Kind:
    """Return ``bytes`` if amounts are large and nearly all whole KiB.

    Examples
    --------
    >>> kind_of([0, 2**30, 3 * 2**20]), kind_of([0.5, 4, 16])
    ('bytes', 'plain')
    """
    numbers = np.asarray(values, dtype=np.float64)
    positive = numbers[numbers > 0]
    if not len(positive) or np.median(positive) < _BYTES:
        return "plain"
    return "bytes" if (positive % 1024 == 0).mean() > 0.9 else "plain"


@dataclass(frozen=True)
class LogAxis:
    """Logarithmic axis with a position for 0, below the least amount.

    Vega's own logarithmic scales have no place for 0, and tasks do ask for none of a resource.

    Attributes
    ----------
    low, high : float
        Exponents of the least and the largest amount above 0.
    zero : float or None
        Where 0 is; None if there is none.
    kind : str
        How ticks are written.

    Examples
    --------
    >>> axis = LogAxis.of([0, 0.01, 1])
    >>> axis.place([0.01, 1]).tolist(), axis.zero is not None, axis.ticks()[1]
    ([-2.0, 0.0], True, ['0', '0.01', '0.1', '1'])
    """

    low: float
    high: float
    zero: float | None
    kind: Kind = "plain"

    @classmethod
    def of(cls, values: ArrayLike, kind: Kind = "plain") -> LogAxis:
        """Return the axis of all values."""
        numbers = np.asarray(values, dtype=np.float64)
        positive = numbers[numbers > 0]
        low, high = 0.0, 0.0
        if len(positive):
            low, high = math.log10(positive.min()), math.log10(positive.max())
        # Something to see left and right of a single amount.
        if high - low < 0.5:
            low, high = low - 0.25, high + 0.25
        margin = max(_ZERO_MARGIN * (high - low), 0.15)
        return cls(low, high, low - 2 * margin if (numbers == 0).any() else None, kind)

    def place(self, values: ArrayLike) -> Floats:
        """Return the positions of amounts; below the least: the least."""
        numbers = np.asarray(values, dtype=np.float64)
        zero = self.low if self.zero is None else self.zero
        with np.errstate(divide="ignore"):
            return np.where(numbers > 0, np.maximum(np.log10(numbers), self.low), zero)

    def ticks(self) -> tuple[list[float], list[str]]:
        """Return positions and labels of ticks."""
        if self.kind == "seconds":
            # An axis of few powers has ticks between them.
            few = self.low >= 0 and self.high - self.low <= _MANY_POWERS
            times = _SHORT_TIMES if few else _TIMES
            found = [(math.log10(s), word) for s, word in times]
        elif self.kind == "bytes":
            found = self._powers(2.0, range(80))
        else:
            found = self._powers(10.0, range(-30, 31))
        inside = [tick for tick in found if self.low - 1e-9 <= tick[0] <= self.high + 1e-9]
        if self.kind in ("plain", "count") and len(inside) < 3:
            inside = self._between()
        if self.kind == "count":
            inside = [tick for tick in inside if abs(10 ** tick[0] % 1 - 0.5) > 0.499]
        every = math.ceil(len(inside) / _MOST_TICKS)
        ticks = inside[::every] if every else []
        if self.zero is not None:
            ticks = [(self.zero, "0"), *ticks]
        # With few digits, as not all that draw charts read all digits of a number.
        return [round(place, 6) for place, _ in ticks], [word for _, word in ticks]

    def _powers(self, base: float, exponents: range) -> list[tuple[float, str]]:
        return [(math.log10(base) * e, format_axis_value(base**e)) for e in exponents]

    def _between(self) -> list[tuple[float, str]]:
        """Return ticks at 1, 2 and 5 of each power, or finer ones, of a short axis."""
        least, most = 10**self.low, 10**self.high
        for steps in ((1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8), ()):
            powers = range(math.floor(self.low), math.floor(self.high) + 1)
            found = [m * 10.0**e for e in powers for m in steps]
            found = [value for value in found if least * (1 - 1e-9) <= value <= most * (1 + 1e-9)]
            if len(found) >= 3:
                return [(math.log10(value), format_axis_value(value)) for value in found]
        middle = (self.low + self.high) / 2
        return [(middle, f"{10**middle:.3g}")]

    def scale(self) -> altair.Scale:
        """Return the scale of the positions."""
        margin = 0.04 * (self.high - self.low)
        start = (self.low if self.zero is None else self.zero) - margin
        return altair.Scale(domain=[start, self.high + margin], nice=False, zero=False)

    def axis(self, *, grid: bool = True) -> altair.Axis:
        """Return the axis with its ticks."""
        places, words = self.ticks()
        written = f"{_literal(words)}[indexof({_literal(places)}, datum.value)]"
        return altair.Axis(values=places, labelExpr=written, grid=grid, labelOverlap="greedy")


def _literal(values: Sequence[object]) -> str:
    return json.dumps(list(values), ensure_ascii=False)
