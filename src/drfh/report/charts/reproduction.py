"""Figures 1 to 5 and Table II of the paper, reproduced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import altair
import polars as pl

from drfh.formatting import format_count, format_duration, format_number, format_percent, time_unit
from drfh.report.charts.axes import WIDTH, colour_of, legend_above
from drfh.report.charts.lines import MOST_POINTS, on_grid, spread_lines, time_lines
from drfh.report.figures import Chart, FigureKey, Plot, dot_keys, line_keys
from drfh.report.html import PALETTE

__all__ = [
    "NEUTRAL",
    "Tables",
    "completion_plot",
    "dynamic_plots",
    "mean_and_spread",
    "one_name_for_slots",
    "over_seeds",
    "reduction_plot",
    "slots_plot",
    "two_servers_plots",
    "utilisation_plots",
]


Tables: TypeAlias = Mapping[str, pl.DataFrame]

#: What is neither ours nor a rival's.
NEUTRAL = "#858c99"
_MECHANISMS = {"per-server-drf": "DRF on each server", "drfh": "DRFH"}
_BLOCKED = {
    "skip": "a user whose next task does not fit is skipped",
    "strict": "nobody goes ahead of a user who is blocked",
}
_WIDTHS = (6.5, 3.5, 1.5)


def mean_and_spread(values: Sequence[float | None]) -> str:
    """Return the mean of parts over seeds, with the least and the most.

    Examples
    --------
    >>> mean_and_spread([0.5]), mean_and_spread([0.25, 0.75]), mean_and_spread([])
    ('50 %', '50 % (25 to 75 %)', '–')
    """
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    mean, low, high = sum(known) / len(known), min(known), max(known)
    if format_percent(low, trim=True) == format_percent(high, trim=True):
        return format_percent(mean, trim=True)
    return (
        f"{format_percent(mean, trim=True)} "
        f"({format_percent(low, trim=True, unit='')} to "
        f"{format_percent(high, trim=True)})"
    )


def two_servers_plots(tables: Tables) -> list[Plot]:
    """Return Fig. 1 to 3: tasks of users, and utilisation of both servers."""
    frame = tables["two_servers"].with_columns(_row())
    use = tables["two_servers_use"].with_columns(_row())
    users = frame["user"].unique(maintain_order=True).to_list()
    resources = use["resource"].unique(maintain_order=True).to_list()
    written = pl.Series(
        "label",
        [
            f"{format_number(row['tasks'])} ({format_percent(row['share'], trim=True)})"
            for row in frame.iter_rows(named=True)
        ],
    )
    most: Any = frame["tasks"].max()
    bars = _bars(
        frame.with_columns(written), "user", users, "tasks", "tasks (share of the pool)",
        altair.Axis(tickCount=5, grid=True), 1.8 * (most or 1.0),
    )  # fmt: skip
    panels = []
    for server in use["server"].unique(maintain_order=True):
        part = use.filter(pl.col("server") == server)
        words = pl.Series("label", [format_percent(value, trim=True) for value in part["used"]])
        chart = _bars(
            part.with_columns(words), "resource", resources, "used", "part in use",
            altair.Axis(format="%", values=[0, 0.5, 1]), 1.6,
        )  # fmt: skip
        panels.append((str(server), chart))
    totals = frame.group_by("row", maintain_order=True).agg(pl.col("tasks").sum())
    means = use.group_by("row", maintain_order=True).agg(pl.col("used").mean())
    in_use = "; ".join(f"{row} {format_percent(mean, trim=True)}" for row, mean in means.rows())
    words_of = "; ".join(f"{row} {format_number(total)}" for row, total in totals.rows())
    return [
        Plot(
            "fig-2",
            "Two servers, two users: DRF on each server wastes what DRFH gives out (Fig. 1 to 3)",
            f"Tasks of both users together: {words_of}. "
            "Whole tasks are what a scheduler can really place.",
            [("", bars)],
            frame.drop("row"),
            dot_keys(users),
        ),
        Plot(
            "fig-3",
            "How full the two servers are (Fig. 2 and 3)",
            f"In use, the mean of both servers and resources: {in_use}.",
            panels,
            use.drop("row"),
            dot_keys(resources),
        ),
    ]


def _row() -> pl.Expr:
    return (pl.col("mechanism").replace(_MECHANISMS) + ", " + pl.col("kind")).alias("row")


# Names in two lines, split at the comma: a phone is narrow.
_LINES = altair.Axis(labelLimit=190, labelExpr="split(datum.label, ', ')")


def _bars(
    frame: pl.DataFrame,
    of: str,
    names: Sequence[str],
    value: str,
    title: str,
    axis: altair.Axis,
    end: float,
) -> altair.LayerChart:
    """Return grouped bars with labels after them."""
    rows = frame["row"].unique(maintain_order=True).to_list()
    base = altair.Chart(frame).encode(
        y=altair.Y("row:N", sort=rows, title=None, axis=_LINES),
        yOffset=altair.YOffset(f"{of}:N", sort=list(names)),
        x=altair.X(
            f"{value}:Q", title=title, axis=axis,
            scale=altair.Scale(domain=[0, end], nice=False),
        ),
    )  # fmt: skip
    bars = base.mark_bar().encode(
        color=altair.Color(f"{of}:N", scale=colour_of(names), legend=legend_above(names, "square")),
        tooltip=[altair.Tooltip("row:N", title=" "), altair.Tooltip(f"{of}:N"), "label:N"],
    )
    labels = base.mark_text(align="left", dx=4, fontSize=11).encode(text="label:N")
    height = (18 * len(names) + 10) * len(rows)
    return altair.LayerChart(layer=[bars, labels], data=frame, width=WIDTH, height=height)


def dynamic_plots(tables: Tables) -> list[Plot]:
    """Return Fig. 4: shares of three users over time, with the exact optima."""
    frame = tables["dynamic"]
    users = frame["user"].unique(maintain_order=True).to_list()
    widths = [_WIDTHS[min(i, len(_WIDTHS) - 1)] for i in range(len(users))]
    keys = [FigureKey(name, PALETTE[i % len(PALETTE)]) for i, name in enumerate(users)]
    # Without the time before the first task of a user and after its last.
    held = pl.col("dominant")
    beside_it = held.shift(1).over("user").fill_null(0) + held.shift(-1).over("user").fill_null(0)
    there = frame.filter((held > 0) | (beside_it > 0) | (pl.col("exact") > 0))
    thin = on_grid(there, ["user"], 2 * MOST_POINTS)
    panels: list[tuple[str, Chart]] = []
    for column, word in (("cpu", "CPU"), ("memory", "memory")):
        lines = thin.select("user", "time", pl.col(column).alias("value"))
        chart = time_lines(
            lines, users, "seconds", f"part of all {word}", of="user", top=0.8, widths=widths
        )
        panels.append((f"{word} share", chart))
    most: Any = frame.select(pl.max_horizontal(pl.col("dominant", "exact", "whole").max())).item()
    dominant = time_lines(
        thin.select("user", "time", pl.col("dominant").alias("value")), users, "seconds",
        "global dominant share", of="user", top=1.04 * float(most or 1.0), widths=widths,
    )  # fmt: skip
    beside = thin.unpivot(
        ["exact", "whole"], index=["user", "time"], variable_name="optimum", value_name="value"
    ).filter(pl.col("value") > 0)
    beside = beside.with_columns(
        pl.col("optimum").replace({"exact": "exact, divisible", "whole": "exact, whole tasks"})
    )
    optimum_keys = [
        FigureKey("exact, divisible", NEUTRAL, dash=(7, 3)),
        FigureKey("exact, whole tasks", NEUTRAL, dash=(1, 2)),
    ]
    optima = (
        altair.Chart(beside)
        .mark_line(strokeWidth=1.4, color=NEUTRAL)
        .encode(
            x="time:Q",
            y="value:Q",
            detail="user:N",
            strokeDash=altair.StrokeDash(
                "optimum:N",
                scale=altair.Scale(
                    domain=[key.name for key in optimum_keys],
                    range=[list(key.dash) for key in optimum_keys],
                ),
                legend=legend_above([key.name for key in optimum_keys]),
            ),
        )
    )
    dominant.layer = [*dominant.layer, optima]
    apart = [(frame["dominant"] - frame[column]).abs().median() for column in ("exact", "whole")]
    gaps = [format_percent(float(value), trim=True) for value in apart if isinstance(value, float)]
    caption = (
        "Users whose shares are equal lie on top of each other: the line below looks out on both "
        "sides. After a change shares move as fast as tasks end, for nothing is preempted."
    )
    if len(gaps) == 2:
        caption += (
            f" In the median the simulation is {gaps[0]} of the pool away from the exact divisible "
            f"optimum and {gaps[1]} from that of whole tasks."
        )
    return [
        Plot(
            "fig-4",
            "Three users come and go on 100 servers: global dominant shares over time (Fig. 4)",
            caption,
            [("", dominant)],
            frame,
            [*keys, *optimum_keys],
        ),
        Plot(
            "fig-4-resources",
            "The same three users: what they hold of CPU and memory (Fig. 4)",
            "A user who needs mostly CPU holds little memory, and the other way round: they leave "
            "each other what they do not need.",
            panels,
            frame.select("time", "user", "cpu", "memory"),
            keys,
        ),
    ]


def slots_plot(tables: Tables) -> Plot:
    """Return Table II: utilisation by number of slots, the paper's line beside ours."""
    frame = tables["slots"]
    rule = (pl.col("count_rule") + " count, " + pl.col("oversize")).fill_null("the paper")
    named = frame.with_columns(
        pl.when(pl.col("source") == "paper").then(pl.lit("the paper")).otherwise(rule).alias("row")
    )
    names = [name for name in named["row"].unique(maintain_order=True) if name != "the paper"]
    keys = [FigureKey("the paper", NEUTRAL, shape="cross"), *dot_keys(names)]
    domain = [key.name for key in keys]
    colours = altair.Scale(domain=domain, range=[key.colour for key in keys])
    shapes = altair.Scale(domain=domain, range=[key.shape for key in keys])
    legend = legend_above(domain, "circle")
    panels: list[tuple[str, Chart]] = []
    for column, word in (("cpu", "CPU"), ("memory", "memory")):
        part = named.group_by("row", "slots", maintain_order=True).agg(
            pl.col(column).mean().alias("value"),
            pl.col(column).min().alias("low"),
            pl.col(column).max().alias("high"),
        )
        base = altair.Chart(part.with_columns(pl.col("value", "low", "high").round(5))).encode(
            x=altair.X(
                "slots:Q", title="slots per largest server",
                scale=altair.Scale(zero=False, nice=False, padding=14),
                axis=altair.Axis(values=part["slots"].unique().sort().to_list(), grid=False),
            ),
            color=altair.Color("row:N", scale=colours, legend=legend),
        )  # fmt: skip
        y = altair.Y(
            "value:Q", title=f"{word} in use", axis=altair.Axis(format="%", tickCount=5),
            scale=altair.Scale(domainMin=0),
        )  # fmt: skip
        line = base.mark_line(strokeWidth=1.5).encode(y=y)
        range_ = base.mark_rule(strokeWidth=2).encode(
            y=altair.Y("low:Q", title=f"{word} in use"), y2="high:Q"
        )
        dots = base.mark_point(filled=True, size=75, opacity=1).encode(
            y=y,
            shape=altair.Shape("row:N", scale=shapes, legend=legend),
            tooltip=[
                altair.Tooltip("row:N", title=" "),
                altair.Tooltip("slots:Q"),
                altair.Tooltip("value:Q", title="mean", format=".1%"),
                altair.Tooltip("low:Q", title="least", format=".1%"),
                altair.Tooltip("high:Q", title="most", format=".1%"),
            ],
        )  # fmt: skip
        chart = altair.LayerChart(layer=[line, range_, dots], width=WIDTH, height=260)
        panels.append((word, chart))
    return Plot(
        "table-2",
        "Utilisation of the Slots scheduler by number of slots (Table II)",
        "How a server is cut into slots (by its scarcer resource, or by CPU alone) and what "
        "becomes of a task that is larger than a slot are not in the paper. "
        f"{_differences(named.filter(pl.col('source') != 'paper'))}"
        f"{over_seeds(frame, 'Upright lines')}",
        panels,
        frame,
        keys,
    )


def over_seeds(frame: pl.DataFrame, what: str) -> str:
    """Return the note on lines over seeds; empty for one seed.

    Examples
    --------
    >>> over_seeds(pl.DataFrame({"seed": [0, 1]}), "Lines")
    ' Lines: the least and the most over the seeds.'
    """
    many = frame["seed"].drop_nulls().n_unique() > 1
    return f" {what}: the least and the most over the seeds." if many else ""


def _differences(frame: pl.DataFrame) -> str:
    """Return the text on differences between rules, and between numbers of slots."""
    means = frame.group_by("row", "slots").agg(pl.col("cpu").mean())
    found = []
    for key in ("slots", "row"):
        apart = means.group_by(key).agg((pl.col("cpu").max() - pl.col("cpu").min()).alias("apart"))
        most: Any = apart["apart"].max()
        found.append(f"{100 * (most or 0.0):.1f}")
    if frame["row"].n_unique() == 1:
        return f"Only one rule was tried; its numbers differ by up to {found[1]} points of CPU."
    return (
        f"With the same number of slots these rules differ by up to {found[0]} points of CPU; "
        f"under one rule the numbers differ by up to {found[1]}."
    )


def utilisation_plots(tables: Tables) -> list[Plot]:
    """Return Fig. 5: utilisation over time, under both rules for blocked users."""
    frame = tables["utilisation"].with_columns(one_name_for_slots(tables["utilisation"]))
    names = frame["policy"].unique(maintain_order=True).to_list()
    last: Any = frame["time"].max()
    size, unit = time_unit(float(last or 0.0))
    many = frame["seed"].n_unique() > 1
    plots: list[Plot] = []
    for blocked in frame["blocked"].unique(maintain_order=True):
        own = frame.filter(pl.col("blocked") == blocked).drop("blocked")
        thin = on_grid(own, ["policy", "seed"])
        panels: list[tuple[str, Chart]] = []
        for column, word in (("cpu", "CPU"), ("memory", "memory")):
            over = thin.group_by("policy", "time", maintain_order=True).agg(
                pl.col(column).mean().alias("value"),
                *([pl.col(column).min().alias("low"), pl.col(column).max().alias("high")]
                  if many else []),
            )  # fmt: skip
            over = over.with_columns(pl.col("time") / size)
            panels.append(
                (word, time_lines(over, names, unit, f"{word} in use", of="policy", top=1))
            )
        means = own.group_by("policy", maintain_order=True).agg(pl.col("cpu", "memory").mean())
        words = "; ".join(
            f"{policy} {format_percent(cpu, trim=True)} of CPU and "
            f"{format_percent(memory, trim=True)} of memory"
            for policy, cpu, memory in means.rows()
        )
        extra = "Bands: the least and the most over the seeds. " if many else ""
        plots.append(
            Plot(
                "fig-5" if not plots else f"fig-5-{blocked}",
                f"CPU and memory in use over time, if {_BLOCKED.get(blocked, blocked)} (Fig. 5)",
                f"Mean of the samples: {words}. {extra}Lines have at most {MOST_POINTS} points.",
                panels,
                thin.with_columns(pl.lit(blocked).alias("blocked")),
                line_keys(names),
            )
        )
    return plots


def one_name_for_slots(frame: pl.DataFrame, column: str = "policy") -> pl.Expr:
    """Return the column with one name for slots of differing best number.

    Examples
    --------
    >>> frame = pl.DataFrame({"policy": ["fifo", "slots:14", "slots:12"]})
    >>> frame.select(one_name_for_slots(frame))["policy"].to_list()
    ['fifo', 'slots:12 or 14', 'slots:12 or 14']
    """
    slots = frame.filter(pl.col(column).str.starts_with("slots"))[column].unique()
    if len(slots) < 2:
        return pl.col(column)
    numbers = sorted(name.partition(":")[2] for name in slots)
    name = f"slots:{' or '.join(numbers)}"
    return pl.col(column).replace(dict.fromkeys(slots, name))


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
            medians.append(f"{name} {format_duration(float(reached[0]))}")
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
    """Return Fig. 6b: reduction of completion times by job size."""
    frame = tables["reduction"].with_columns(one_name_for_slots(tables["reduction"], "rival"))
    names = list(_STATISTICS.values())
    least: Any = frame.select(pl.min_horizontal(pl.col(c).min() for c in _STATISTICS)).item()
    lowest = max(min(1.1 * (least or 0.0), 0.0), _LOWEST)
    cut = " Bars end at −100 %." if (least or 0.0) < _LOWEST else ""
    panels: list[tuple[str, Chart]] = []
    for rival in frame["rival"].unique(maintain_order=True):
        own = frame.filter(pl.col("rival") == rival)
        jobs = own.group_by("job_class", maintain_order=True).agg(pl.col("jobs").mean())
        labels = {
            name: f"{name} tasks|{format_count(round(count), 'job')}" for name, count in jobs.rows()
        }
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
    """Return horizontal bars: five classes side by side fit no narrow screen."""
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
