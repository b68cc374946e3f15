"""Logarithmic axes that have room for 0, and ticks at amounts that people say."""

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

__all__ = ["LogAxis", "kind_of"]

Floats: TypeAlias = NDArray[np.float64]
Kind: TypeAlias = Literal["plain", "count", "bytes", "seconds"]

_MOST_TICKS = 8
_ZERO_ROOM = 0.07  # of the axis, between 0 and the least amount
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
    """Return ``bytes`` if amounts look like bytes: large, and nearly all whole KiB.

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
    """Positions of amounts on an axis of powers of ten, with 0 a little below the least.

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
        """Return an axis with room for all values."""
        numbers = np.asarray(values, dtype=np.float64)
        positive = numbers[numbers > 0]
        low, high = 0.0, 0.0
        if len(positive):
            low, high = math.log10(positive.min()), math.log10(positive.max())
        # Something to see left and right of a single amount.
        if high - low < 0.5:
            low, high = low - 0.25, high + 0.25
        room = max(_ZERO_ROOM * (high - low), 0.15)
        return cls(low, high, low - 2 * room if (numbers == 0).any() else None, kind)

    def place(self, values: ArrayLike) -> Floats:
        """Return where amounts are; those below the least are at it."""
        numbers = np.asarray(values, dtype=np.float64)
        zero = self.low if self.zero is None else self.zero
        with np.errstate(divide="ignore"):
            return np.where(numbers > 0, np.maximum(np.log10(numbers), self.low), zero)

    def ticks(self) -> tuple[list[float], list[str]]:
        """Return positions of ticks, and what is written there."""
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
        room = 0.04 * (self.high - self.low)
        start = (self.low if self.zero is None else self.zero) - room
        return altair.Scale(domain=[start, self.high + room], nice=False, zero=False)

    def axis(self, *, grid: bool = True) -> altair.Axis:
        """Return the axis with its ticks."""
        places, words = self.ticks()
        written = f"{_literal(words)}[indexof({_literal(places)}, datum.value)]"
        return altair.Axis(values=places, labelExpr=written, grid=grid, labelOverlap="greedy")


def _literal(values: Sequence[object]) -> str:
    return json.dumps(list(values), ensure_ascii=False)
