"""Charts of traces: requests, distributions, load over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import altair
import numpy as np
import polars as pl
from numpy.typing import NDArray

from drfh.formatting import format_quantity, time_unit
from drfh.report.charts.axes import GOOD, WIDTH, Kind, LogAxis, kind_of
from drfh.traces import Trace
from drfh.traces.measure import Distribution, request_table

__all__ = ["SECOND", "load_chart", "panel", "request_chart", "spread_chart"]

#: The colour of a second trace, apart from the first for most kinds of colour vision.
SECOND = "#e8830c"
_RESOURCES = (GOOD, SECOND, "#54a24b", "#b279a2", "#72b7b2", "#9d755d")
_MOST_BUBBLES = 1_500
_CELLS = 48
_TINY = 0.001
_LITTLE = 0.2
_HEIGHT, _TALL = 240, 300

Floats: TypeAlias = NDArray[np.float64]


def _colour(names: Sequence[str]) -> altair.Color:
    """Return a colour for each trace; a single one needs no legend."""
    return altair.Color(
        "trace:N",
        scale=altair.Scale(domain=list(names), range=[GOOD, SECOND][: len(names)]),
        legend=None
        if len(names) == 1
        else altair.Legend(title=None, orient="top", labelLimit=320, symbolOpacity=1),
    )


def _named(chart: altair.Chart, title: str, height: int) -> altair.Chart:
    chart.width, chart.height = WIDTH, height
    if title:
        chart.title = _title(title)
    return chart


def _title(text: str) -> altair.TitleParams:
    return altair.TitleParams(text, anchor="start", fontSize=13, fontWeight="bold", offset=8)


def request_chart(
    traces: Sequence[tuple[str, Trace]], x: str, y: str, title: str = ""
) -> altair.Chart:
    """Return requests for two resources as bubbles, by part of the tasks.

    Parameters
    ----------
    traces
        One or two, with a :class:`~drfh.traces.Trace` each.
    x, y
        The resources.
    title
        Above the chart.

    Examples
    --------
    >>> from drfh.files.scenario_file import load_scenario
    >>> scenario = load_scenario("gpu-day")
    >>> trace = Trace("scenario", "", scenario.cluster, scenario.workload, pl.DataFrame())
    >>> chart = request_chart([("gpu-day", trace)], "cpu", "memory")
    >>> chart.data["tasks"].sum() == trace.workload.task_count
    True
    """
    tables = [_requests(trace, x, y) for _, trace in traces]
    every = pl.concat(tables)
    x_axis = LogAxis.of(every["x"].to_numpy(), kind_of(every["x"].to_numpy()))
    y_axis = LogAxis.of(every["y"].to_numpy(), kind_of(every["y"].to_numpy()))
    frames = [
        _bubbles(frame, x_axis, y_axis).with_columns(pl.lit(name).alias("trace"))
        for (name, _), frame in zip(traces, tables, strict=True)
    ]
    # The large ones first, so that the small ones lie on top of them.
    frame = pl.concat(frames).sort("part", descending=True, maintain_order=True)
    frame = frame.with_columns(
        pl.Series(
            "what",
            [
                f"{x} {format_quantity(a)}, {y} {format_quantity(b)}"
                for a, b in zip(frame["x"], frame["y"], strict=True)
            ],
            pl.String,
        )
    )
    most: Any = frame["part"].max()
    chart = (
        altair.Chart(frame.drop("x", "y"))
        .mark_circle(opacity=0.55, stroke=None)
        .encode(
            x=altair.X("x_place:Q", title=f"{x} of a task", scale=x_axis.scale(),
                       axis=x_axis.axis()),
            y=altair.Y("y_place:Q", title=f"{y} of a task", scale=y_axis.scale(),
                       axis=y_axis.axis()),
            size=altair.Size(
                "part:Q",
                scale=altair.Scale(domain=[0, float(most or 1.0)], range=[12, 1100]),
                legend=altair.Legend(title="of all tasks", format=".2~%", orient="right",
                                     values=_round_parts(float(most or 1.0)),
                                     symbolFillColor="#888888", titleFontWeight="normal",
                                     symbolStrokeWidth=0),
            ),
            color=_colour([name for name, _ in traces]),
            tooltip=[
                *([altair.Tooltip("trace:N")] if len(traces) > 1 else []),
                altair.Tooltip("what:N", title="asks for"),
                altair.Tooltip("tasks:Q", format=","),
                altair.Tooltip("part:Q", title="of all tasks", format=".2~%"),
                altair.Tooltip("joined:Q", title="different requests", format=","),
            ],
        )
    )  # fmt: skip
    return _named(chart, title, _TALL)


def _round_parts(most: float) -> list[float]:
    """Return three round parts up to the largest, for a legend."""
    power = 10.0 ** math.floor(math.log10(most))
    steps = next(s for s in ((5, 1, 0.2), (2, 0.5, 0.1), (1, 0.2, 0.05)) if s[0] * power <= most)
    return [float(f"{step * power:.3g}") for step in steps]


def _requests(trace: Trace, x: str, y: str) -> pl.DataFrame:
    table = request_table(trace)
    nothing = pl.lit(0.0)
    asked = {
        name: pl.col(f"request.{r}") if f"request.{r}" in table.columns else nothing
        for name, r in (("x", x), ("y", y))
    }
    return (
        table.select(**asked, tasks=pl.col("tasks"))
        .group_by("x", "y", maintain_order=True)
        .agg(pl.col("tasks").sum())
        .with_columns((pl.col("tasks") / max(trace.workload.task_count, 1)).alias("part"))
    )


def _bubbles(frame: pl.DataFrame, x_axis: LogAxis, y_axis: LogAxis) -> pl.DataFrame:
    """Return a row for each bubble; near ones are joined if there are too many."""
    placed = frame.with_columns(
        pl.Series("x_place", x_axis.place(frame["x"].to_numpy())),
        pl.Series("y_place", y_axis.place(frame["y"].to_numpy())),
        pl.lit(1, pl.Int64).alias("joined"),
    )
    if len(placed) <= _MOST_BUBBLES:
        return placed

    def cell(name: str, axis: LogAxis) -> pl.Expr:
        place = pl.col(name)
        inner = ((place - axis.low) / (axis.high - axis.low) * _CELLS).floor()
        return pl.when(place < axis.low - 1e-9).then(-1).otherwise(inner)

    weight = pl.col("tasks") / pl.col("tasks").sum()
    return (
        placed.group_by(
            cell("x_place", x_axis).alias("column"), cell("y_place", y_axis).alias("row"),
            maintain_order=True,
        )
        .agg(
            *((pl.col(name) * weight).sum() for name in ("x", "y")),
            pl.col("tasks").sum(),
            pl.col("part").sum(),
            *((pl.col(name) * weight).sum() for name in ("x_place", "y_place")),
            pl.len().cast(pl.Int64).alias("joined"),
        )
        .drop("column", "row")
    )  # fmt: skip


def spread_chart(
    samples: Sequence[tuple[str, Distribution]],
    axis_title: str,
    title: str = "",
    *,
    kind: Kind | None = None,
    things: str = "tasks",
    log: bool = True,
) -> altair.Chart:
    """Return the cumulative distribution of a measure.

    Parameters
    ----------
    samples
        One or two, with a :class:`~drfh.traces.measure.Distribution` each.
    axis_title, title
        Below and above the chart.
    kind
        How amounts are written, by default as they look.
    things
        What there are parts of.
    log
        Whether the axis of amounts is one of powers of ten.

    Examples
    --------
    >>> chart = spread_chart([("mine", Distribution.of([1, 10, 10, 100]))], "tasks of a job")
    >>> chart.data["part"].to_list()
    [0.0, 0.25, 0.75, 1.0]
    """
    # A few tiny ones must not take most of the axis: they share its beginning.
    values = [s.values[s.values >= (s.quantile(_TINY) or 0.0)] for _, s in samples]
    every = np.concatenate(values)
    axis = LogAxis.of(every, kind_of(every) if kind is None else kind)
    frames = []
    for name, sample in samples:
        value, part = sample.curve()
        # From the bottom up: the first step is one too.
        amounts = np.concatenate((value[:1], value))
        columns = {
            "place": axis.place(amounts) if log else amounts,
            "part": np.concatenate((np.zeros(len(value[:1])), part)),
            "value": amounts,
        }
        frames.append(pl.DataFrame(columns).with_columns(pl.lit(name).alias("trace")))
    x = altair.X("place:Q", title=axis_title, axis=altair.Axis(tickCount=6))
    if log:
        x = altair.X("place:Q", title=axis_title, scale=axis.scale(), axis=axis.axis())
    chart = (
        altair.Chart(pl.concat(frames))
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=x,
            y=altair.Y(
                "part:Q",
                title=f"part of the {things}",
                scale=altair.Scale(domain=[0, 1]),
                axis=altair.Axis(format="%", tickCount=5),
            ),
            color=_colour([name for name, _ in samples]),
            tooltip=[
                *([altair.Tooltip("trace:N")] if len(samples) > 1 else []),
                altair.Tooltip("value:Q", title="at most", format=",.5~g"),
                altair.Tooltip("part:Q", title=f"part of the {things}", format=".1%"),
            ],
        )
    )
    return _named(chart, title, _HEIGHT)


def load_chart(
    loads: Sequence[tuple[str, pl.DataFrame]], resources: Sequence[str], title: str = ""
) -> altair.LayerChart:
    """Return the load over time as part of the capacity.

    Parameters
    ----------
    loads
        One or two, with a table from :func:`~drfh.traces.load.offered_load` each.
    resources
        Lines of different colours for one trace; for two, only the first is drawn.
    title
        Above the chart.

    Examples
    --------
    >>> table = pl.DataFrame({"time": [0.0, 60.0], "end": [60.0, 120.0], "load.cpu": [0.5, 2.0]})
    >>> load_chart([("mine", table)], ["cpu"]).data["load"].to_list()
    [0.5, 2.0, 2.0]
    """
    single = len(loads) == 1
    end = max(float(table["end"][-1]) for _, table in loads)
    size, unit = time_unit(end)
    frames = [
        _line(table, resource, size).with_columns(pl.lit(resource if single else name).alias("of"))
        for name, table in loads
        for resource in (resources if single else resources[:1])
    ]
    frame = pl.concat(frames)
    names = list(resources) if single else [name for name, _ in loads]
    colours = [(_RESOURCES if single else (GOOD, SECOND))[i % 6] for i in range(len(names))]
    peak: Any = frame["load"].max()
    # Where little is asked for, the line of the capacity would leave nothing else to see.
    little = (peak or 1.0) < _LITTLE
    top = 1.05 * peak if little else max(1.05 * (peak or 0.0), 1.1)
    base = altair.Chart(frame)
    line = base.mark_line(interpolate="step-after", strokeWidth=1.75).encode(
        x=altair.X("time:Q", title=f"{unit} since the start", axis=altair.Axis(grid=False),
                   scale=altair.Scale(domain=[0, end / size], nice=False)),
        y=altair.Y("load:Q", title=f"{'' if single else resources[0] + ' '}asked for / capacity",
                   axis=altair.Axis(format=".2~%" if little else "%", tickCount=5),
                   scale=altair.Scale(domain=[0, top], nice=False)),
        color=altair.Color(
            "of:N",
            scale=altair.Scale(domain=names, range=colours),
            legend=altair.Legend(
                title=None, orient="right" if single else "top", labelLimit=320
            ),
        ),
        tooltip=[
            altair.Tooltip("of:N", title=" "),
            altair.Tooltip("time:Q", title=unit, format=",.4~g"),
            altair.Tooltip("load:Q", title="of capacity", format=".1%"),
        ],
    )  # fmt: skip
    full = altair.Chart(altair.InlineData([{"full": 1}]))
    rule = full.mark_rule(strokeDash=[5, 4]).encode(y="full:Q")
    left = _points_within(frame, 0.0, 0.15 * end / size, top) <= _points_within(
        frame, 0.85 * end / size, end, top
    )
    word = full.mark_text(
        align="left" if left else "right", baseline="bottom", dx=4 if left else -4, dy=-2
    ).encode(x=altair.value(0 if left else "width"), y="full:Q", text=altair.value("capacity"))
    return altair.LayerChart(
        layer=[line] if little else [line, rule, word],
        data=frame,
        width=WIDTH,
        height=_HEIGHT,
        title=_title(title) if title else altair.Undefined,
    )


def _points_within(frame: pl.DataFrame, start: float, end: float, top: float) -> int:
    """Return the number of points where the label of the capacity would be."""
    near = pl.col("time").is_between(start, end) & pl.col("load").is_between(1, 1 + 0.1 * top)
    return frame.filter(near).height


def _line(table: pl.DataFrame, name: str, size: float) -> pl.DataFrame:
    """Return the points of a line, up to the end of the last step."""
    drawn = table.select(time=pl.col("time") / size, load=pl.col(f"load.{name}"))
    last = table.select(time=pl.col("end") / size, load=pl.col(f"load.{name}")).tail(1)
    return pl.concat([drawn, last])


def panel(
    charts: Sequence[altair.Chart | altair.LayerChart], title: str = ""
) -> altair.ConcatChart:
    """Return charts in two columns, for a file.

    Examples
    --------
    >>> one = spread_chart([("mine", Distribution.of([1, 2]))], "tasks of a job")
    >>> panel([one, one]).to_dict()["columns"]
    2
    """
    for one in charts:
        one.height = _HEIGHT
    chart = altair.ConcatChart(
        concat=list(charts), columns=2, spacing={"row": 34, "column": 40}
    ).resolve_scale(color="independent", size="independent")
    if title:
        chart.title = altair.TitleParams(title, anchor="start", fontSize=16, offset=14)
    result: altair.ConcatChart = chart
    return result
