"""What charts share: colours, width, legends, the unit of time, numbers on bars."""

from __future__ import annotations

from collections.abc import Sequence

import altair

from drfh.report.style import DASHES, PALETTE

__all__ = [
    "BAD",
    "GOOD",
    "SHAPES",
    "SHORT_NAMES",
    "WIDTH",
    "colour_of",
    "dash_of",
    "legend_above",
    "on_bars",
    "time_unit",
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

_TIMES = ((3 * 86400, 86400, "days"), (2 * 3600, 3600, "hours"), (180, 60, "minutes"))
_LETTER, _SYMBOL = 7, 46  # pixels in a legend


def time_unit(end: float) -> tuple[int, str]:
    """Return how many seconds the unit of an axis has, and its name.

    Examples
    --------
    >>> time_unit(70_000), time_unit(90)
    ((3600, 'hours'), (1, 'seconds'))
    """
    return next(((size, word) for least, size, word in _TIMES if end >= least), (1, "seconds"))


def legend_above(names: Sequence[str], symbol: str = "stroke") -> altair.Legend:
    """Return a legend for a chart on paper, with as many columns as there is room for.

    On a page one legend stands above all panels of a figure (see :mod:`drfh.report.figures`).
    """
    widest = _SYMBOL + _LETTER * max((len(name) for name in names), default=1)
    return altair.Legend(
        title=None,
        orient="top",
        symbolType=symbol,
        symbolSize=300 if symbol == "stroke" else 90,
        symbolStrokeWidth=2.5 if symbol == "stroke" else 1,
        symbolOpacity=1,
        labelLimit=280,
        columns=max(1, min(len(names), WIDTH // widest)),
    )


def colour_of(names: Sequence[str]) -> altair.Scale:
    """Return a colour for each name, in the order of the palette.

    Examples
    --------
    >>> colour_of(["best-fit-drfh", "fifo"]).to_dict()["range"]
    ['#2d7dc4', '#e07b00']
    """
    colours = [PALETTE[i % len(PALETTE)] for i in range(len(names))]
    return altair.Scale(domain=list(names), range=colours)


def dash_of(names: Sequence[str]) -> altair.Scale:
    """Return dashes for each name, so that no line is known by its colour alone."""
    dashes = [list(DASHES[i % len(DASHES)]) for i in range(len(names))]
    return altair.Scale(domain=list(names), range=dashes)


def on_bars(base: altair.Chart, part: str, label: str, enough: float) -> list[altair.Chart]:
    """Return labels in the bars that are long enough, and behind the others.

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
