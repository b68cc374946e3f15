"""Figures of runs: utilisation, shares, turnaround, waiting, completion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import altair
import polars as pl

from drfh.errors import InputError, UnknownNameError
from drfh.formatting import format_count, format_duration, format_percent, time_unit
from drfh.report.charts.axes import (
    SHAPES,
    SHORT_NAMES,
    WIDTH,
    LogAxis,
    colour_of,
    dash_of,
    legend_above,
)
from drfh.report.charts.lines import MOST_POINTS, on_grid, spread_lines, spread_table, time_lines
from drfh.report.figures import Plot, dot_keys, line_keys
from drfh.simulation.result import Result, mixed_note
from drfh.traces.measure import Distribution

__all__ = [
    "MOST_LINES",
    "RUN_FIGURES",
    "NamedRun",
    "each_run",
    "longest_plot",
    "names_of_runs",
    "ratio_plot",
    "run_plot",
    "run_plots",
    "starving",
    "turnaround_plot",
    "waiting_plot",
]


_LONGEST = 12
_FEW = 4


@dataclass(frozen=True)
class NamedRun:
    """Run with its name on the page."""

    name: str
    result: Result


def names_of_runs(runs: Sequence[NamedRun]) -> list[str]:
    """Return the names of runs."""
    return [run.name for run in runs]


def each_run(texts: Sequence[str]) -> str:
    """Return the texts of runs joined; of many, the first few.

    Examples
    --------
    >>> each_run(["a 1", "b 2"])
    'a 1; b 2'
    """
    return "; ".join(texts[:_FEW]) + ("; …" if len(texts) > _FEW else "")


def _jobs_spread(runs: Sequence[NamedRun], column: str) -> pl.DataFrame:
    samples = [
        (run.name, run.result.jobs[column].drop_nulls().to_numpy(), len(run.result.jobs))
        for run in runs
    ]
    return spread_table(samples)


def _quantiles(runs: Sequence[NamedRun], column: str) -> str:
    words = []
    for run in runs:
        known = Distribution.of(run.result.jobs[column].drop_nulls().to_numpy())
        median, high = format_duration(known.quantile(0.5)), format_duration(known.quantile(0.95))
        words.append(f"{run.name} {median} and {high} ({known.size:,} of {len(run.result.jobs):,})")
    return each_run(words)


def turnaround_plot(runs: Sequence[NamedRun]) -> Plot:
    """Return the distribution of turnaround times of jobs."""
    table = _jobs_spread(runs, "turnaround")
    chart = spread_lines(
        table, names_of_runs(runs), "from submission to the last end", "part of all jobs"
    )
    caption = (
        "Further left and higher is better. A line that ends below 100 % leaves jobs unfinished. "
        f"Median and 95 % quantile of the jobs that are complete: {_quantiles(runs, 'turnaround')}."
    )
    return Plot(
        "turnaround",
        "Jobs complete within a time",
        caption,
        [("", chart)],
        table,
        line_keys(names_of_runs(runs)),
    )


def waiting_plot(runs: Sequence[NamedRun]) -> Plot:
    """Return the distribution of waiting times of jobs."""
    table = _jobs_spread(runs, "waiting")
    chart = spread_lines(
        table, names_of_runs(runs), "from submission to the first start", "part of all jobs"
    )
    caption = (
        "Where a line begins is the part of the jobs that start at once; where it ends, the part "
        "that ever starts. Median and 95 % quantile of the jobs that started: "
        f"{_quantiles(runs, 'waiting')}."
    )
    return Plot(
        "waiting",
        "Jobs started within a time",
        caption,
        [("", chart)],
        table,
        line_keys(names_of_runs(runs)),
    )


def starving(runs: Sequence[NamedRun]) -> pl.DataFrame:
    """Return users by longest mean waiting, a row for each run.

    A user of whom no task ever started comes first: nobody waits longer.

    Examples
    --------
    >>> import drfh
    >>> scenario = drfh.load_scenario("gpu-day")
    >>> result = drfh.simulate(scenario.cluster, scenario.workload)
    >>> starving([NamedRun("mine", result)])["user"].to_list()[:2]
    ['research', 'genomics']
    """
    columns = ("user", "submitted", "started", "completed", "completion_ratio", "mean_waiting")
    tables = [
        run.result.users.filter(pl.col("submitted") > 0).select(
            pl.lit(run.name).alias("run"), *columns
        )
        for run in runs
    ]
    frame = pl.concat(tables)
    never = (pl.col("started") == 0).any().over("user")
    longest = pl.col("mean_waiting").max().over("user").fill_null(0.0)
    lost = (pl.col("submitted") - pl.col("completed")).max().over("user")
    return (
        frame.with_columns(never.alias("_never"), longest.alias("_longest"), lost.alias("_lost"))
        .sort("_never", "_longest", "_lost", "user", descending=[True, True, True, False],
              maintain_order=True)
        .drop("_never", "_longest", "_lost")
    )  # fmt: skip


def longest_plot(runs: Sequence[NamedRun]) -> Plot | None:
    """Return the mean waiting of the users that wait longest, by run."""
    frame = starving(runs)
    order = frame["user"].unique(maintain_order=True)
    if not frame["started"].sum():
        return None
    users = order.head(_LONGEST).to_list()
    drawn = frame.filter(pl.col("user").is_in(users))
    waits = drawn["mean_waiting"].drop_nulls().to_numpy()
    axis = LogAxis.of(waits, "seconds")
    started = drawn.filter(pl.col("started") > 0)
    started = started.select(
        "run", "user",
        pl.Series("place", axis.place(waits)).round(4),
        pl.Series("waits", [format_duration(v) for v in waits.tolist()]),
        pl.Series("done", [format_percent(v, trim=True) for v in started["completion_ratio"]]),
    )  # fmt: skip
    never = (
        drawn.filter(pl.col("started") == 0)
        .group_by("user", maintain_order=True)
        .agg(pl.col("run").str.join(", ").alias("runs"))
        .select("user", (pl.lit("never starts: ") + pl.col("runs")).alias("words"))
    )
    names = names_of_runs(runs)
    y = altair.Y("user:N", sort=users, title=None, axis=SHORT_NAMES)
    marks = (
        altair.Chart(started)
        .mark_point(filled=True, size=90, opacity=0.9)
        .encode(
            x=altair.X(
                "place:Q", title="mean waiting of its tasks", scale=axis.scale(), axis=axis.axis()
            ),
            y=y,
            color=altair.Color(
                "run:N", scale=colour_of(names), legend=legend_above(names, "circle")
            ),
            shape=altair.Shape(
                "run:N",
                scale=altair.Scale(domain=names, range=list(SHAPES[: len(names)])),
                legend=legend_above(names, "circle"),
            ),
            tooltip=[
                altair.Tooltip("user:N"),
                altair.Tooltip("run:N"),
                altair.Tooltip("waits:N", title="mean waiting"),
                altair.Tooltip("done:N", title="tasks completed"),
            ],
        )
    )
    words = (
        altair.Chart(never)
        .mark_text(align="right", dx=-4, fontSize=11)
        .encode(x=altair.value("width"), y=y, text="words:N")
    )
    chart = altair.LayerChart(
        layer=[marks, words] if len(never) else [marks], data=started,
        width=WIDTH, height=24 * len(users),
    )  # fmt: skip
    more = len(order) - len(users)
    which = (
        f"The {len(users)} of {format_count(len(order), 'user')} that wait longest"
        if more
        else "Users"
    )
    caption = (
        f"{which}, by the longest mean waiting in any run, those of whom no task "
        "ever starts first. Tasks that never start are in no mean: see the completion ratios."
    )
    return Plot(
        "longest-waiting", "How long tasks of a user wait for their first start, on average",
        caption, [("", chart)], frame, dot_keys(names),
    )  # fmt: skip


def ratio_plot(runs: Sequence[NamedRun]) -> Plot:
    """Return completion ratios of users, lowest first, a line for each run."""
    tables, words = [], []
    for run in runs:
        ratios = run.result.users["completion_ratio"].drop_nulls()
        tables.append(spread_table([(run.name, ratios.to_numpy(), len(ratios))]))
        below = int((ratios < 1).sum())
        nothing = int((ratios == 0).sum())
        words.append(
            f"{run.name}: {below:,} of {format_count(len(ratios), 'user')} miss tasks, "
            f"{nothing:,} have none completed"
        )
    table = pl.concat(tables).rename({"amount": "ratio", "part": "users"})
    names = names_of_runs(runs)
    # From the left edge, so that nobody with nothing hides behind the axis.
    frames = []
    for name in names:
        own = table.filter(pl.col("run") == name)
        first = pl.DataFrame({"run": [name], "ratio": [0.0], "users": [0.0]})
        frames.append(pl.concat([first, own]))
    chart = (
        altair.Chart(pl.concat(frames), width=WIDTH, height=220)
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=altair.X(
                "ratio:Q", title="tasks completed, of those submitted",
                scale=altair.Scale(domain=[0, 1.02], nice=False),
                axis=altair.Axis(format="%", values=[0, 0.25, 0.5, 0.75, 1]),
            ),
            y=altair.Y(
                "users:Q", title="part of the users",
                scale=altair.Scale(domain=[0, 1]), axis=altair.Axis(format="%", tickCount=5),
            ),
            color=altair.Color("run:N", scale=colour_of(names), legend=legend_above(names)),
            strokeDash=altair.StrokeDash(
                "run:N", scale=dash_of(names), legend=legend_above(names)
            ),
            tooltip=[altair.Tooltip("run:N", title=" ")],
        )
    )  # fmt: skip
    caption = (
        "Which part of the users has at most this part of its tasks completed: a line that stays "
        f"at the bottom until 100 % is one where all users get all done. {each_run(words)}."
    )
    return Plot(
        "ratios", "Users by the part of their tasks that is completed", caption, [("", chart)],
        table, line_keys(names),
    )  # fmt: skip


#: So many runs are drawn; tables have all.
MOST_LINES = 8
_LARGEST = 6


def run_plots(runs: Sequence[NamedRun]) -> list[tuple[str, list[Plot]]]:
    """Return the figures of runs by section heading.

    Examples
    --------
    >>> import drfh
    >>> scenario = drfh.load_scenario("gpu-day")
    >>> result = drfh.simulate(scenario.cluster, scenario.workload)
    >>> [plot.name for _, plots in run_plots([NamedRun("mine", result)]) for plot in plots]
    ['utilisation', 'tasks', 'shares', 'turnaround', 'waiting', 'longest-waiting', 'ratios']
    """
    drawn = list(runs[:MOST_LINES])
    sections = []
    for heading, names in _SECTIONS.items():
        plots = [plot for name in names if (plot := RUN_FIGURES[name](drawn)) is not None]
        if plots:
            sections.append((heading, plots))
    return sections


def run_plot(runs: Sequence[NamedRun], name: str) -> Plot:
    """Return one figure of runs.

    Parameters
    ----------
    runs
        From :func:`drfh.report.name_runs`.
    name
        Of the figure, see :data:`RUN_FIGURES`.

    Examples
    --------
    >>> import drfh
    >>> result = drfh.simulate(drfh.load_scenario("gpu-day"))
    >>> run_plot([NamedRun("mine", result)], "tasks").title
    'Tasks that wait and that run, over time'
    """
    if name not in RUN_FIGURES:
        raise UnknownNameError("figure", str(name), RUN_FIGURES)
    plot = RUN_FIGURES[name](list(runs[:MOST_LINES]))
    if plot is None:
        raise InputError("figure", _NEEDS[name], name)
    return plot


def _end(runs: Sequence[NamedRun]) -> float:
    return max(run.result.horizon for run in runs)


def _unit(runs: Sequence[NamedRun]) -> tuple[int, str]:
    return time_unit(_end(runs))


def _resources(runs: Sequence[NamedRun]) -> list[str]:
    found: list[str] = []
    for run in runs:
        found += list(run.result.numbers["utilisation"])
    return list(dict.fromkeys(found))


def _samples(runs: Sequence[NamedRun], columns: dict[str, str]) -> pl.DataFrame:
    """Return columns of the samples of all runs that have them, thinned; time in seconds."""
    frames = []
    for run in runs:
        table = run.result.samples
        there = [
            pl.col(column).cast(pl.Float64).alias(name)
            if column in table.columns
            else pl.lit(None, pl.Float64).alias(name)
            for column, name in columns.items()
        ]
        frames.append(table.select(pl.lit(run.name).alias("run"), "time", *there))
    return on_grid(pl.concat(frames), ["run"])


def _in_unit(frame: pl.DataFrame, size: int, column: str) -> pl.DataFrame:
    value = pl.col(column).alias("value")
    return frame.select("run", pl.col("time") / size, value).drop_nulls("value")


_THINNED = (
    f"Lines have at most {MOST_POINTS} points, each the mean of the samples until the next one."
)


def utilisation_plot(runs: Sequence[NamedRun]) -> Plot:
    """Return utilisation over time, a line for each run."""
    size, unit = _unit(runs)
    resources = _resources(runs)
    frame = _samples(runs, {f"utilisation.{name}": name for name in resources})
    panels = [
        (
            name,
            time_lines(
                _in_unit(frame, size, name), names_of_runs(runs), unit, f"{name} in use", top=1
            ),
        )
        for name in resources
    ]
    means = [
        f"{run.name} "
        + ", ".join(
            f"{format_percent(v, trim=True)} of the {k}"
            for k, v in run.result.numbers["utilisation"].items()
        )
        for run in runs
    ]
    caption = f"Mean over the whole run: {each_run(means)}. {_THINNED}"
    return Plot(
        "utilisation", "Resources in use over time, part of the capacity that is up", caption,
        panels, frame, line_keys(names_of_runs(runs)), small=len(panels) > 2,
    )  # fmt: skip


def tasks_plot(runs: Sequence[NamedRun]) -> Plot:
    """Return waiting and running tasks over time."""
    size, unit = _unit(runs)
    frame = _samples(runs, {"queued": "waiting", "running": "running"})
    panels = [
        (
            word,
            time_lines(
                _in_unit(frame, size, word), names_of_runs(runs), unit, "tasks", percent=False
            ),
        )
        for word in ("waiting", "running")
    ]
    most = [f"{run.name} {max(run.result.samples['queued'], default=0):,}" for run in runs]
    caption = f"Most tasks that waited at a sample: {each_run(most)}."
    return Plot(
        "tasks",
        "Tasks that wait and that run, over time",
        caption,
        panels,
        frame,
        line_keys(names_of_runs(runs)),
    )


def shares_plot(runs: Sequence[NamedRun]) -> Plot:
    """Return dominant shares of the largest users over time, by run."""
    size, unit = _unit(runs)
    users = _largest_users(runs)
    frames, everyone = [], set[str]()
    for run in runs:
        columns = [c for c in run.result.samples.columns if c.startswith("share.")]
        everyone.update(c.removeprefix("share.") for c in columns)
        named = [f"share.{user}" for user in users if f"share.{user}" in columns]
        rest = [c for c in columns if c not in named]
        kept = [pl.col(c).alias(c.removeprefix("share.")) for c in named]
        if rest:
            kept.append(pl.sum_horizontal(rest).alias(""))
        table = run.result.samples.select("time", *kept)
        long = table.unpivot(index="time", variable_name="user", value_name="share")
        frames.append(long.select(pl.lit(run.name).alias("run"), "user", "time", "share"))
    others = len(everyone) - len(users)
    rest_name = f"the other {format_count(others, 'user')} together" if others else ""
    frame = on_grid(pl.concat(frames), ["run", "user"])
    frame = frame.with_columns(pl.col("user").replace({"": rest_name}))
    names = [*users, *([rest_name] if others else [])]
    top: Any = frame["share"].max()
    panels = []
    for run in runs:
        own = frame.filter(pl.col("run") == run.name).select(
            "user", pl.col("time") / size, pl.col("share").alias("value")
        )
        chart = time_lines(
            own, names, unit, "dominant share", of="user", top=max(1.04 * (top or 0), 0.01),
            end=_end(runs) / size,
        )  # fmt: skip
        panels.append((run.name if len(runs) > 1 else "", chart))
    who = (
        f"The {len(users)} users with the largest mean share in any run, and the sum of the others"
        if others
        else "All users"
    )
    caption = (
        f"{who}. A dominant share is the part of the pool that a user holds of the resource that "
        f"it holds most of; dominant shares of different resources may add up to more than 100 %. "
        f"{_THINNED}"
    )
    return Plot(
        "shares",
        "Dominant shares over time",
        caption,
        panels,
        frame,
        line_keys(names),
        small=len(panels) > 2,
    )


def _largest_users(runs: Sequence[NamedRun]) -> list[str]:
    tables = [run.result.users.select("user", "mean_share") for run in runs]
    most = pl.concat(tables).group_by("user", maintain_order=True).agg(pl.col("mean_share").max())
    most = most.sort("mean_share", descending=True, maintain_order=True)
    # One more is no less readable than a line for a single other user.
    return most["user"].head(_LARGEST if len(most) > _LARGEST + 1 else len(most)).to_list()


def fair_plot(runs: Sequence[NamedRun]) -> Plot | None:
    """Return the missing share over time, if a run has it."""
    if not any("fair.missing" in run.result.samples.columns for run in runs):
        return None
    size, unit = _unit(runs)
    columns = {"fair.missing": "missing", "fair.distance": "worst_off"}
    frame = _samples(runs, columns).drop_nulls("missing")
    chart = time_lines(
        _in_unit(frame, size, "missing"), names_of_runs(runs), unit, "missing share", top=1.02
    )
    solved = [run for run in runs if run.result.numbers["fair"] is not None]
    means, worst = [], []
    for run in solved:
        fair, samples = run.result.numbers["fair"], run.result.samples
        means.append(f"{run.name} {format_percent(fair['mean_missing'], trim=True)}")
        most = samples.row(samples["fair.missing"].arg_max() or 0, named=True)
        if most["fair.missing"] > 0:
            worst.append(
                f"{run.name} {format_percent(most['fair.missing'], trim=True)} after "
                f"{format_duration(most['time'])}, when {most['fair.worst']} lacked "
                f"{format_percent(most['fair.distance'], trim=True)} of its own"
            )
    mixed = max((run.result.numbers["fair"].get("mixed_users", 0) for run in solved), default=0)
    caption = (
        "The part of the fair shares that is not where it belongs: 0 % is fair. Fair shares are "
        "those of the exact DRFH allocation of the users that are active then. Mean over the "
        f"samples: {each_run(means)}."
        + (f" Furthest from fair, and who was worst off: {each_run(worst)}." if worst else "")
        + (f" {mixed_note(mixed)}." if mixed else "")
    )
    return Plot(
        "fair",
        "Distance from fair over time",
        caption,
        [("", chart)],
        frame,
        line_keys(names_of_runs(runs)),
    )


#: The figures of runs by name; one that these runs have no data for is None.
RUN_FIGURES: dict[str, Callable[[Sequence[NamedRun]], Plot | None]] = {
    "utilisation": utilisation_plot,
    "tasks": tasks_plot,
    "shares": shares_plot,
    "fair": fair_plot,
    "turnaround": turnaround_plot,
    "waiting": waiting_plot,
    "longest-waiting": longest_plot,
    "ratios": ratio_plot,
}
_NEEDS = {
    "fair": "must be of a run that measured it: simulate(..., fair=True)",
    "longest-waiting": "must be of a run in which a task started",
}
_SECTIONS = {
    "How full the servers are": ("utilisation", "tasks"),
    "Who has what": ("shares",),
    "How fair it is": ("fair",),
    "How long jobs take": ("turnaround", "waiting"),
    "Who waits longest, and who starves": ("longest-waiting", "ratios"),
}
