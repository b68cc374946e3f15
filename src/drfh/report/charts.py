"""What charts of audits and comparisons share: colours, width, numbers on bars."""

from __future__ import annotations

import altair

__all__ = ["BAD", "GOOD", "SHORT_NAMES", "WIDTH", "on_bars"]

#: Colours that stay apart for most kinds of colour vision, dark enough for white text.
BAD, GOOD = "#c2493a", "#4c78a8"
#: Width of a plot in pixels, where no page says otherwise.
WIDTH = 460
#: Long names end in an ellipsis, so that bars stay long enough; tooltips have them whole.
SHORT_NAMES = altair.Axis(labelLimit=120)


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
