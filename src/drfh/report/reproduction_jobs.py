"""Figure 6 of the paper: when jobs are complete, and how much sooner by their size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair
import polars as pl

from drfh.report.charts import WIDTH, colour_of, legend_above
from drfh.report.line_charts import spread_lines
from drfh.report.parts import seconds
from drfh.report.plots import Chart, Plot, dot_keys, line_keys
from drfh.report.reproduction_charts import Tables, one_name_for_slots, over_seeds
from drfh.resources import some

__all__ = ["completion_plot", "reduction_plot"]

_LOWEST = -1.0  # twice as slow: further down bars end


def completion_plot(tables: Tables) -> Plot:
    """Return Fig. 6a: the distribution of completion times."""
    frame = tables["completion"]
    names = frame["policy"].unique(maintain_order=True).to_list()
    # The table is thinned, so a distribution of its rows would be off by little: parts are kept.
    table = frame.select(
        "policy", pl.col("seconds").alias("amount"), pl.col("fraction").alias("part")
    )
    chart = spread_lines(
        table, names, "from submission to the last end", "part of these jobs",
        of="policy", height=260,
    )  # fmt: skip
    medians = []
    for name in names:
        own = frame.filter(pl.col("policy") == name)
        reached = own.filter(pl.col("fraction") >= 0.5)["seconds"]
        if len(reached):
            medians.append(f"{name} {seconds(float(reached[0]))}")
    return Plot(
        "fig-6",
        "Jobs complete within a time (Fig. 6a)",
        "Only jobs that are complete under both, and that were not there at the start. Further "
        f"left is better. Median: {'; '.join(medians)}.",
        [("", chart)],
        frame,
        line_keys(names),
    )


_STATISTICS = {
    "mean_of_reductions": "mean of the reductions of single jobs",
    "reduction_of_means": "reduction of the mean time",
}


def reduction_plot(tables: Tables) -> Plot:
    """Return Fig. 6b: how much sooner jobs are complete, by their size, in two statistics."""
    frame = tables["reduction"].with_columns(one_name_for_slots(tables["reduction"], "rival"))
    names = list(_STATISTICS.values())
    least: Any = frame.select(pl.min_horizontal(pl.col(c).min() for c in _STATISTICS)).item()
    lowest = max(min(1.1 * (least or 0.0), 0.0), _LOWEST)
    cut = " Bars end at −100 %." if (least or 0.0) < _LOWEST else ""
    panels: list[tuple[str, Chart]] = []
    for rival in frame["rival"].unique(maintain_order=True):
        own = frame.filter(pl.col("rival") == rival)
        jobs = own.group_by("job_class", maintain_order=True).agg(pl.col("jobs").mean())
        labels = {name: f"{name} tasks|{some(round(count), 'job')}" for name, count in jobs.rows()}
        long = (
            own.unpivot(
                list(_STATISTICS), index=["job_class"], variable_name="statistic",
                value_name="value",
            )
            .drop_nulls("value")
            .group_by("job_class", "statistic", maintain_order=True)
            .agg(
                pl.col("value").mean(),
                pl.col("value").min().alias("low"),
                pl.col("value").max().alias("high"),
            )
            .with_columns(
                pl.col("statistic").replace(_STATISTICS),
                pl.col("job_class").replace(labels).alias("class"),
                pl.col("value", "low", "high").clip(_LOWEST, 1),
            )
        )  # fmt: skip
        panels.append(
            (f"Best-Fit against {rival}", _reductions(long, names, list(labels.values()), lowest))
        )
    return Plot(
        "fig-6-sizes",
        "How much sooner jobs are complete under Best-Fit, by their number of tasks (Fig. 6b)",
        "Above 0 % Best-Fit is faster. The two statistics answer different questions: the first "
        f"counts every job alike, the second every second.{cut}"
        f"{over_seeds(frame, 'Lines')}",
        panels,
        frame,
        dot_keys(names),
    )


def _reductions(
    frame: pl.DataFrame, names: Sequence[str], order: Sequence[str], lowest: float
) -> altair.LayerChart:
    """Return lying bars: on a narrow screen there is no room for five classes side by side."""
    base = altair.Chart(frame).encode(
        y=altair.Y(
            "class:N", sort=list(order), title=None,
            scale=altair.Scale(domain=list(order)),  # also classes without a job
            axis=altair.Axis(labelExpr="split(datum.label, '|')"),
        ),
        yOffset=altair.YOffset("statistic:N", sort=list(names)),
    )  # fmt: skip
    x = altair.X(
        "value:Q", title="time saved", axis=altair.Axis(format="%", tickCount=5),
        scale=altair.Scale(domain=[lowest, 1], nice=False),
    )  # fmt: skip
    bars = base.mark_bar().encode(
        x=x,
        color=altair.Color(
            "statistic:N", scale=colour_of(names), legend=legend_above(names, "square")
        ),
        tooltip=[
            altair.Tooltip("class:N", title="tasks"),
            altair.Tooltip("statistic:N", title=" "),
            altair.Tooltip("value:Q", title="time saved", format=".1%"),
        ],
    )
    spread = base.mark_rule(strokeWidth=1.5).encode(
        x=altair.X("low:Q", title="time saved"), x2="high:Q"
    )
    return altair.LayerChart(layer=[bars, spread], data=frame, width=WIDTH, height=44 * len(order))
