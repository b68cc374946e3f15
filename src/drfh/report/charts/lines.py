"""Line charts over time, and cumulative distributions, of several runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair
import polars as pl
from numpy.typing import ArrayLike

from drfh.report.charts.axes import WIDTH, Kind, LogAxis, colour_of, dash_of, legend_above
from drfh.traces.measure import Distribution

__all__ = ["MOST_POINTS", "READER", "on_grid", "spread_lines", "spread_table", "time_lines"]

#: A line has at most about so many points.
MOST_POINTS = 240
#: The layer that is only there to be pointed at.
READER = "reader"
_HEIGHT = 220
_TINY = 1e-9


def on_grid(frame: pl.DataFrame, by: Sequence[str], most: int = MOST_POINTS) -> pl.DataFrame:
    """Return lines resampled to at most `most` common times, as means.

    Parameters
    ----------
    frame
        Rows of all lines: `time`, the columns `by`, and numbers.
    by
        Columns that tell lines apart.
    most
        Points of a line.

    Examples
    --------
    >>> frame = pl.DataFrame({"run": ["a"] * 4, "time": [0, 1, 2, 3], "y": [0.0, 1.0, 4.0, 6.0]})
    >>> on_grid(frame, ["run"], most=2).rows()
    [('a', 0.0, 0.5), ('a', 2.0, 5.0)]
    """
    keys = list(by)
    gaps = frame.select(pl.col("time").diff().over(keys)).to_series().drop_nulls()
    between: Any = gaps.filter(gaps > 0).median()
    last: Any = frame["time"].max()
    if between is None or last is None:
        return frame.with_columns(pl.col("time").cast(pl.Float64))
    points = last / between + 1
    step = between * max(math.ceil(points / most - _TINY), 1)
    place = (pl.col("time") / step + 1e-6).floor() * step
    values = [name for name in frame.columns if name not in (*keys, "time")]
    return (
        frame.with_columns(place.cast(pl.Float64).alias("time"))
        .group_by(*keys, "time", maintain_order=True)
        .agg(pl.col(name).mean() for name in values)
        .select(frame.columns)
    )


def time_lines(
    frame: pl.DataFrame,
    names: Sequence[str],
    unit: str,
    y_title: str,
    *,
    of: str = "run",
    percent: bool = True,
    top: float | None = None,
    end: float | None = None,
    height: int = _HEIGHT,
    widths: Sequence[float] | None = None,
) -> altair.LayerChart:
    """Return a line for each name, with all values at the pointer.

    Parameters
    ----------
    frame
        Columns `time` (in `unit`), `of` and `value`; with `low` and `high` also a band.
    names
        The lines, in the order of the palette.
    unit
        Of the time.
    y_title
        What `value` is.
    of
        The column with the names.
    percent
        Whether values are parts.
    top, end
        Where the axes end, by default a little above the largest value and at the last time.
    height
        In pixels.
    widths
        Of the lines, by default 2 each.

    Examples
    --------
    >>> frame = pl.DataFrame({"time": [0, 1], "run": ["a", "a"], "value": [0.1, 0.2]})
    >>> len(time_lines(frame, ["a"], "hours", "used").layer)
    2
    """
    numbers = [c for c in ("value", "low", "high") if c in frame.columns]
    frame = frame.with_columns(pl.col("time", *numbers).cast(pl.Float64).round_sig_figs(5))
    largest: Any = frame.select(pl.max_horizontal(pl.col(c).max() for c in numbers)).item()
    most = 1.04 * (largest or 1.0) if top is None else top
    style = ".0%" if percent and most > 0.08 else ".2~%" if percent else "~s"
    last: Any = frame["time"].max()
    x = altair.X(
        "time:Q",
        title=f"{unit} since the start",
        axis=altair.Axis(grid=False, tickCount=6),
        scale=altair.Scale(domain=[0, end or float(last or 1.0)], nice=False),
    )
    scale = altair.Scale(domain=[0, most], nice=False)
    y = altair.Y("value:Q", title=y_title, axis=altair.Axis(format=style, tickCount=5), scale=scale)
    # The same legend for all that tells lines apart, or there would be one for each.
    keys = legend_above(names) if len(names) > 1 else None
    colour = altair.Color(f"{of}:N", scale=colour_of(names), legend=keys)
    base = altair.Chart(frame)
    # A width of the mark would win over the widths of lines.
    width = 2 if widths is None else altair.Undefined
    line = base.mark_line(strokeWidth=width, clip=True, strokeJoin="round").encode(
        x=x,
        y=y,
        color=colour,
        strokeDash=altair.StrokeDash(f"{of}:N", scale=dash_of(names), legend=keys)
        if widths is None
        else altair.Undefined,
        strokeWidth=altair.StrokeWidth(
            f"{of}:O",
            scale=altair.Scale(type="ordinal", domain=list(names), range=list(widths)),
            legend=None,
        )
        if widths is not None
        else altair.Undefined,
    )
    layers: list[altair.Chart] = [line]
    if "low" in numbers:
        band = base.mark_area(opacity=0.18, clip=True).encode(
            x=x, y=altair.Y("low:Q", title=y_title, scale=scale), y2="high:Q", color=colour
        )
        layers.insert(0, band)
    return altair.LayerChart(
        layer=[*layers, _reader(frame, names, of, unit, ".1%" if percent else ",.5~g")],
        data=frame,
        width=WIDTH,
        height=height,
    )


def _reader(
    frame: pl.DataFrame, names: Sequence[str], of: str, unit: str, style: str
) -> altair.Chart:
    """Return a vertical rule at the nearest time pointed at, with a tooltip."""
    # A chart is read on touch screens too: nearest, so that a finger need not hit a line.
    near = altair.selection_point(
        name="near",
        fields=["time"],
        nearest=True,
        on="pointerover",
        clear="pointerout",
        empty=False,
    )
    # The columns of the pivot have the names of the lines, which may hold anything.
    keys = {name: f"line{i}" for i, name in enumerate(names)}
    wide = frame.select("time", pl.col(of).replace(keys).alias("key"), pl.col("value")).unique(
        ["time", "key"], keep="first", maintain_order=True
    )
    wide = wide.pivot("key", index="time", values="value")
    shown = [(name, key) for name, key in keys.items() if key in wide.columns]
    rule: altair.Chart = (
        altair.Chart(wide)
        .mark_rule(strokeWidth=1)
        .encode(
            x="time:Q",
            opacity=altair.condition(near, altair.value(0.5), altair.value(0)),
            tooltip=[
                altair.Tooltip("time:Q", title=unit, format=",.4~g"),
                *(altair.Tooltip(f"{key}:Q", title=name, format=style) for name, key in shown),
            ],
        )
        .add_params(near)
        .properties(name=READER)
    )
    return rule


def spread_table(samples: Sequence[tuple[str, ArrayLike, int]], of: str = "run") -> pl.DataFrame:
    """Return cumulative distributions: columns `of`, amount, part.

    Parameters
    ----------
    samples
        Name, amounts that are known, and of how many things in all: a line that ends below 1
        tells how many have none.
    of
        The column with the names.

    Examples
    --------
    >>> spread_table([("a", [1.0, 5.0], 4)]).rows()
    [('a', 1.0, 0.25), ('a', 5.0, 0.5)]
    """
    frames = []
    for name, amounts, total in samples:
        known = Distribution.of(amounts)
        amount, part = known.curve(MOST_POINTS)
        columns = {"amount": amount, "part": part * (known.size / max(total, 1))}
        frames.append(pl.DataFrame(columns).select(pl.lit(name).alias(of), "amount", "part"))
    return pl.concat(frames)


def spread_lines(
    table: pl.DataFrame,
    names: Sequence[str],
    axis_title: str,
    y_title: str,
    *,
    of: str = "run",
    kind: Kind = "seconds",
    height: int = _HEIGHT,
) -> altair.Chart:
    """Return cumulative distributions as steps on a logarithmic axis.

    Parameters
    ----------
    table
        From :func:`spread_table`.
    names
        The lines, in the order of the palette.
    axis_title, y_title
        What the amount is, and what there are parts of.
    of
        The column with the names.
    kind
        How amounts are written.
    height
        In pixels.

    Examples
    --------
    >>> table = spread_table([("a", [1.0, 50.0], 4)])
    >>> spread_lines(table, ["a"], "waiting", "part of the jobs").data["part"].to_list()
    [0.0, 0.25, 0.5, 0.5]
    """
    axis = LogAxis.of(table["amount"].to_numpy(), kind)
    last: Any = table["amount"].max()
    frames = []
    for name in names:
        part = table.filter(pl.col(of) == name).drop(of)
        if not len(part):
            continue
        # From the bottom up, and on to the end of the axis: a line that stays below has an end.
        first = part.head(1).with_columns(part=pl.lit(0.0))
        end = part.tail(1).with_columns(amount=pl.lit(float(last)))
        frames.append(pl.concat([first, part, end]).with_columns(pl.lit(name).alias(of)))
    frame = pl.concat(frames) if frames else table
    frame = frame.with_columns(
        pl.Series("place", axis.place(frame["amount"].to_numpy()), pl.Float64).round(4),
        pl.col("part").round(5),
        pl.col("amount").round_sig_figs(5),
    )
    keys = legend_above(names) if len(names) > 1 else None
    chart: altair.Chart = (
        altair.Chart(frame, width=WIDTH, height=height)
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=altair.X("place:Q", title=axis_title, scale=axis.scale(), axis=axis.axis()),
            y=altair.Y(
                "part:Q",
                title=y_title,
                scale=altair.Scale(domain=[0, 1]),
                axis=altair.Axis(format="%", tickCount=5),
            ),
            color=altair.Color(f"{of}:N", scale=colour_of(names), legend=keys),
            strokeDash=altair.StrokeDash(f"{of}:N", scale=dash_of(names), legend=keys),
            tooltip=[altair.Tooltip(f"{of}:N", title=" ")],
        )
    )
    return chart
