"""Figures 7 and 8 of the paper, and other policies: single users."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair
import polars as pl

from drfh.formatting import format_duration, format_percent, format_points, time_unit
from drfh.report.charts.axes import WIDTH, legend_above
from drfh.report.charts.lines import on_grid, time_lines
from drfh.report.charts.reproduction import NEUTRAL, Tables, mean_and_spread, one_name_for_slots
from drfh.report.figures import Chart, FigureKey, Plot
from drfh.report.html import PALETTE
from drfh.simulation.result import mixed_note

__all__ = ["fair_plot", "policies_plot", "ratios_plot", "sharing_plots", "shortened"]

_BETTER, _WORSE = PALETTE[0], PALETTE[1]
_SAME = 1e-9
_TALL = 340
_LONG_NAME = 14
_PAPERS = 3  # policies of the paper, which come first
_SMALL_LINES = 120  # points of a line in a small panel


def _sides(more: str, less: str) -> list[FigureKey]:
    return [
        FigureKey(more, _BETTER, shape="circle"),
        FigureKey("the same", NEUTRAL, shape="circle"),
        FigureKey(less, _WORSE, shape="circle"),
    ]


def _compared(
    frame: pl.DataFrame, ours: str, theirs: str, keys: Sequence[FigureKey]
) -> pl.DataFrame:
    """Return users with the side that is larger, and the radius of their bubble."""
    apart = pl.col(ours) - pl.col(theirs)
    side = (
        pl.when(apart > _SAME)
        .then(pl.lit(keys[0].name))
        .when(apart < -_SAME)
        .then(pl.lit(keys[2].name))
        .otherwise(pl.lit(keys[1].name))
    )
    radius = 2.2 + 1.9 * pl.col("tasks").clip(lower_bound=1).log10()
    return (
        frame.filter(pl.col("tasks") > 0)
        .with_columns(side.alias("side"), (radius**2 * math.pi).round(1).alias("area"))
        # The large ones first, so that the small ones lie on top of them.
        .sort("tasks", descending=True, maintain_order=True)
    )


def _bubbles(
    frame: pl.DataFrame, x: str, y: str, x_title: str, y_title: str, keys: Sequence[FigureKey]
) -> altair.LayerChart:
    """Return a bubble for each user, and the line on which both are the same."""
    part = altair.Axis(format="%", values=[0, 0.25, 0.5, 0.75, 1])
    scale = altair.Scale(domain=[-0.05, 1.05], nice=False)
    names = [key.name for key in keys]
    drawn = frame.select("user", "tasks", "side", "area", pl.col(x, y).round(4))
    bubbles = (
        altair.Chart(drawn)
        .mark_circle(opacity=0.5, strokeWidth=0.6, stroke=NEUTRAL)
        .encode(
            x=altair.X(f"{x}:Q", title=x_title, scale=scale, axis=part),
            y=altair.Y(f"{y}:Q", title=y_title, scale=scale, axis=part),
            size=altair.Size("area:Q", scale=None, legend=None),
            color=altair.Color(
                "side:N",
                scale=altair.Scale(domain=names, range=[key.colour for key in keys]),
                legend=legend_above(names, "circle"),
            ),
            tooltip=[
                altair.Tooltip("user:N"),
                altair.Tooltip("tasks:Q", format=","),
                altair.Tooltip(f"{x}:Q", title=x_title, format=".1%"),
                altair.Tooltip(f"{y}:Q", title=y_title, format=".1%"),
            ],
        )
    )
    ends = altair.InlineData([{"at": 0}, {"at": 1}])
    line = altair.Chart(ends).mark_line(strokeWidth=1, strokeDash=[4, 3], color=NEUTRAL)
    return altair.LayerChart(
        layer=[line.encode(x="at:Q", y="at:Q"), bubbles], data=drawn, width=WIDTH, height=_TALL
    )


def _by_seed(frame: pl.DataFrame, part: pl.Expr) -> list[float]:
    """Return the part of users that meet a condition, for each seed."""
    table = frame.filter(pl.col("tasks") > 0).group_by("seed", maintain_order=True)
    return [float(value) for value in table.agg(part.mean().alias("part"))["part"]]


def ratios_plot(tables: Tables) -> Plot:
    """Return Fig. 7: completion ratios of users, Best-Fit against slots."""
    frame = tables["ratios"]
    keys = _sides("more under Best-Fit", "more under slots")
    first = frame["seed"][0]
    shown = _compared(frame.filter(pl.col("seed") == first), "best_fit", "slots", keys)
    chart = _bubbles(
        shown, "slots", "best_fit", "tasks completed under slots",
        "tasks completed under Best-Fit", keys,
    )  # fmt: skip
    best, slots = pl.col("best_fit"), pl.col("slots")
    more = mean_and_spread(_by_seed(frame, best > slots + _SAME))
    less = mean_and_spread(_by_seed(frame, best < slots - _SAME))
    only = mean_and_spread(_by_seed(frame, (best >= 1 - _SAME) & (slots < 1 - _SAME)))
    return Plot(
        "fig-7",
        "Part of its tasks that each user gets done, Best-Fit against slots (Fig. 7)",
        f"A bubble is a user; its radius grows with the logarithm of its tasks. Above the line "
        f"Best-Fit gets more done: for {more} of the users; slots for {less}. {only} have "
        f"everything done under Best-Fit but not under slots (the paper: about 20 %)."
        + _seeds(frame, first),
        [("", chart)],
        frame,
        keys,
        square=True,
    )


def _seeds(frame: pl.DataFrame, first: int) -> str:
    if frame["seed"].n_unique() < 2:
        return ""
    return f" Drawn: seed {first}; numbers: the mean over the seeds, the least and the most."


def sharing_plots(tables: Tables) -> list[Plot]:
    """Return Fig. 8: the shared cloud against dedicated ones."""
    frame = tables["sharing"].filter(pl.col("tasks") > 0)
    keys = _sides("more in the shared cloud", "more in a cloud of its own")
    first = frame["seed"][0]
    panels: list[tuple[str, Chart]] = []
    sizes: list[tuple[str, Chart]] = []
    notes = []
    for blocked in frame["blocked"].unique(maintain_order=True):
        own = frame.filter(pl.col("blocked") == blocked)
        shown = _compared(own.filter(pl.col("seed") == first), "shared", "dedicated", keys)
        chart = _bubbles(
            shown, "dedicated", "shared", "tasks completed in a cloud of its own",
            "tasks completed in the shared cloud", keys,
        )  # fmt: skip
        panels.append((f"blocked users: {blocked}", chart))
        sizes.append((f"blocked users: {blocked}", _by_size(shown, keys)))
        fall = own.filter(pl.col("shared") < pl.col("dedicated") - _SAME)
        lost = (fall["dedicated"] - fall["shared"]).sort()
        falls = _by_seed(own, pl.col("shared") < pl.col("dedicated") - _SAME)
        amount = ""
        if len(lost):
            middle: Any = lost.mean()
            most: Any = lost.max()
            amount = f", by {format_points(middle)} on average and {format_points(most)} at most"
        notes.append(f"{blocked}: {mean_and_spread(falls)} of the users get less done{amount}")
    starved = "; ".join(_starved(frame, b) for b in frame["blocked"].unique(maintain_order=True))
    return [
        Plot(
            "fig-8",
            "Part of its tasks that each user gets done, shared cloud against one of its own "
            "(Fig. 8)",
            f"Below the line a user would be better off alone. {'; '.join(notes)} (the paper: 2 %, "
            f"“only slightly”).{_seeds(frame, first)}",
            panels,
            frame,
            keys,
        ),
        Plot(
            "fig-8-sizes",
            "Who gains and who loses by sharing, by the largest task of a user",
            "Each bubble is a user, by its largest task as part of the largest server. Below 0 it "
            f"loses by sharing. Mean of users whose largest task is above a quarter: {starved}.",
            sizes,
            frame.select("user", "tasks", "largest_task", "shared", "dedicated", "blocked", "seed"),
            keys,
        ),
    ]


def _starved(frame: pl.DataFrame, blocked: str) -> str:
    own = frame.filter(pl.col("blocked") == blocked, pl.col("largest_task") > 0.25)
    mean: Any = (own["shared"] - own["dedicated"]).mean()
    if mean is None:
        return f"{blocked}: nobody"
    return f"{blocked} {format_points(mean, signed=True, trim=True)}"


def _by_size(frame: pl.DataFrame, keys: Sequence[FigureKey]) -> altair.LayerChart:
    names = [key.name for key in keys]
    drawn = frame.select(
        "user", "tasks", "side", "area", pl.col("largest_task").round(4),
        (pl.col("shared") - pl.col("dedicated")).round(4).alias("gain"),
    )  # fmt: skip
    bubbles = (
        altair.Chart(drawn)
        .mark_circle(opacity=0.5, strokeWidth=0.6, stroke=NEUTRAL)
        .encode(
            x=altair.X(
                "largest_task:Q", title="largest task, part of the largest server",
                axis=altair.Axis(format="%", tickCount=5),
                scale=altair.Scale(zero=True, nice=False, padding=8),
            ),
            y=altair.Y(
                "gain:Q", title="shared − own, of its tasks",
                axis=altair.Axis(format="+%", values=[-1, -0.5, 0, 0.5, 1]),
                scale=altair.Scale(domain=[-1.05, 1.05], nice=False),
            ),
            size=altair.Size("area:Q", scale=None, legend=None),
            color=altair.Color(
                "side:N",
                scale=altair.Scale(domain=names, range=[key.colour for key in keys]),
                legend=legend_above(names, "circle"),
            ),
            tooltip=[
                altair.Tooltip("user:N"),
                altair.Tooltip("tasks:Q", format=","),
                altair.Tooltip("largest_task:Q", title="largest task", format=".1%"),
                altair.Tooltip("gain:Q", title="shared − own", format="+.1%"),
            ],
        )
    )  # fmt: skip
    zero = altair.Chart(altair.InlineData([{"at": 0}])).mark_rule(strokeDash=[4, 3])
    return altair.LayerChart(
        layer=[zero.encode(y="at:Q"), bubbles], data=drawn, width=WIDTH, height=260
    )


# Column, heading, whether it is a part or seconds, and what is better.
_MEASURES = (
    ("cpu", "CPU in use", "part", "more"),
    ("memory", "memory in use", "part", "more"),
    ("completed", "tasks completed", "count", "more"),
    ("mean_waiting", "mean waiting of a task", "seconds", "less"),
    ("median_turnaround", "median time of a job", "seconds", "less"),
    ("jain", "Jain's index of mean levels", "number", "more"),
    ("mean_missing", "mean distance from fair (missing share)", "part", "less"),
    ("mean_distance", "what the worst-off user lacks, on average", "part", "less"),
    ("below_fair", "time of users below their fair share", "part", "less"),
)


def policies_plot(tables: Tables) -> Plot:
    """Return other policies beside the paper's: a small panel for each measure."""
    frame = tables["policies"].with_columns(one_name_for_slots(tables["policies"]))
    order = frame["policy"].unique(maintain_order=True).to_list()
    panels: list[tuple[str, Chart]] = []
    for column, heading, kind, better in _MEASURES:
        part = (
            frame.drop_nulls(column)
            .group_by("policy", maintain_order=True)
            .agg(
                pl.col(column).mean().alias("value"),
                pl.col(column).min().alias("low"),
                pl.col(column).max().alias("high"),
            )
        )
        if not len(part):
            continue
        chart = _dots(part, order, kind)
        panels.append((f"{heading} ({better} is better)", chart))
    many = frame["seed"].n_unique() > 1
    return Plot(
        "policies",
        "Other policies on the same jobs and servers",
        "The first three are the paper's. Read how full the servers are together with how long "
        "users wait and how far from fair it is. Times of jobs are of the same jobs under every "
        "policy: those that were not there at the start and are complete under all; policies that "
        "complete hardly any of them have none."
        + (" Lines: the least and the most over the seeds." if many else ""),
        panels,
        frame,
        small=True,
    )


def _written(kind: str, value: float) -> str:
    if kind == "part":
        return format_percent(value, trim=True)
    if kind == "seconds":
        return format_duration(value)
    return f"{value:,.0f}" if kind == "count" else f"{value:.3f}"


def _dots(frame: pl.DataFrame, order: Sequence[str], kind: str) -> altair.LayerChart:
    """Return a dot for each policy from 0 on, with its value."""
    labels = pl.Series("label", [_written(kind, value) for value in frame["value"]])
    drawn = frame.with_columns(labels, pl.col("value", "low", "high").round_sig_figs(5))
    largest: Any = drawn["high"].max()
    base = altair.Chart(drawn).encode(
        y=altair.Y("policy:N", sort=list(order), title=None, axis=altair.Axis(labelLimit=130))
    )
    x = altair.X(
        "value:Q", title=None, axis=None,
        scale=altair.Scale(domain=[0, 1.6 * (largest or 1.0)], nice=False),
    )  # fmt: skip
    bars = base.mark_bar(height=9, color=PALETTE[0], opacity=0.75).encode(
        x=x, tooltip=[altair.Tooltip("policy:N"), altair.Tooltip("label:N", title="mean")]
    )
    spread = base.mark_rule(strokeWidth=2).encode(x=altair.X("low:Q", title=None), x2="high:Q")
    labels = base.mark_text(align="left", dx=5, fontSize=11).encode(
        x=altair.X("high:Q"), text="label:N"
    )
    return altair.LayerChart(
        layer=[bars, spread, labels], data=drawn, width=WIDTH, height=20 * len(drawn)
    )


def fair_plot(tables: Tables) -> Plot:
    """Return the missing share over time, a small panel for each policy."""
    frame = tables["fair"]
    last: Any = frame["time"].max()
    size, unit = time_unit(float(last or 0.0))
    thin = on_grid(frame.select("policy", "time", "missing", "distance"), ["policy"], _SMALL_LINES)
    panels: list[tuple[str, Chart]] = []
    worst = []
    for policy in frame["policy"].unique(maintain_order=True):
        own = thin.filter(pl.col("policy") == policy).select(
            "policy", pl.col("time") / size, pl.col("missing").alias("value")
        )
        samples = frame.filter(pl.col("policy") == policy)
        mean: Any = samples["missing"].mean()
        chart = time_lines(
            own.drop_nulls(), [policy], unit, "missing share", of="policy", top=1.02, height=110
        )
        panels.append((f"{policy}: {format_percent(mean or 0.0, trim=True)} on average", chart))
        most = samples.row(samples["missing"].arg_max() or 0, named=True)
        if most["worst"] is not None:
            worst.append(
                f"{policy}: {format_percent(most['missing'], trim=True)} after "
                f"{format_duration(most['time'])}, worst off {shortened(most['worst'])} "
                f"(lacks {format_percent(most['distance'], trim=True)} of its own)"
            )
    mixed: Any = tables["policies"]["mixed_users"].max() if "policies" in tables else None
    return Plot(
        "fair",
        "How far from fair each policy is over time",
        "The part of the fair shares that is not where it belongs: 0 % is fair, 100 % is that "
        "nobody has any of its fair share. Fair shares are those of the exact DRFH allocation of "
        "the users that are active then. Nothing is preempted, so a user who arrives on full "
        "servers waits under every policy. Furthest from fair: "
        f"{'; '.join(worst[:_PAPERS])}. Points are means over up to 1/{_SMALL_LINES} of the time."
        + (f" {mixed_note(mixed)}." if mixed else ""),
        panels,
        thin,
        small=True,
    )


def shortened(name: str) -> str:
    """Return a name, cut if it is long: Google's users have hashes of 44 letters.

    Examples
    --------
    >>> shortened("ann"), shortened("hWQ0fyhXTDQuDBzBNhF7GX")
    ('ann', 'hWQ0fyhXTDQuDB…')
    """
    return name if len(name) <= _LONG_NAME else f"{name[:_LONG_NAME]}…"
