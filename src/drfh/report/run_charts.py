"""Figures of runs: how full, who has what, how long jobs take and wait, and who starves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from drfh.report.charts import time_unit
from drfh.report.line_charts import MOST_POINTS, on_grid, time_lines
from drfh.report.parts import part_text
from drfh.report.plots import Plot, line_keys
from drfh.report.run_jobs import (
    NamedRun,
    each_run,
    longest_plot,
    names_of_runs,
    ratio_plot,
    turnaround_plot,
    waiting_plot,
)
from drfh.resources import some

__all__ = ["MOST_LINES", "run_plots"]

#: So many runs are drawn; tables have all.
MOST_LINES = 8
_LARGEST = 6


def run_plots(runs: Sequence[NamedRun]) -> list[tuple[str, list[Plot]]]:
    """Return the figures of runs: heading of a section, and its figures.

    Examples
    --------
    >>> import drfh
    >>> scenario = drfh.load_scenario("gpu-day")
    >>> result = drfh.simulate(scenario.cluster, scenario.workload)
    >>> [plot.name for _, plots in run_plots([NamedRun("mine", result)]) for plot in plots]
    ['utilisation', 'tasks', 'shares', 'turnaround', 'waiting', 'longest-waiting', 'ratios']
    """
    drawn = list(runs[:MOST_LINES])
    sections: list[tuple[str, list[Plot | None]]] = [
        ("How full the servers are", [utilisation_plot(drawn), tasks_plot(drawn)]),
        ("Who has what", [shares_plot(drawn)]),
        ("How long jobs take", [turnaround_plot(drawn), waiting_plot(drawn)]),
        ("Who waits longest, and who starves", [longest_plot(drawn), ratio_plot(drawn)]),
    ]
    if any("fair.distance" in run.result.samples.columns for run in drawn):
        sections.insert(2, ("How fair it is", [fair_plot(drawn)]))
    return [(heading, [plot for plot in plots if plot is not None]) for heading, plots in sections]


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
    """Return how full each resource is over time, a line for each run."""
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
            f"{part_text(v)} of the {k}" for k, v in run.result.numbers["utilisation"].items()
        )
        for run in runs
    ]
    caption = f"Mean over the whole run: {each_run(means)}. {_THINNED}"
    return Plot(
        "utilisation", "Resources in use over time, part of the capacity that is up", caption,
        panels, frame, line_keys(names_of_runs(runs)), small=len(panels) > 2,
    )  # fmt: skip


def tasks_plot(runs: Sequence[NamedRun]) -> Plot:
    """Return how many tasks wait and run over time."""
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
    """Return the dominant shares of the largest users over time, a panel for each run."""
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
    rest_name = f"the other {some(others, 'user')} together" if others else ""
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


def fair_plot(runs: Sequence[NamedRun]) -> Plot:
    """Return the distance from fair over time."""
    size, unit = _unit(runs)
    frame = _samples(runs, {"fair.distance": "distance"}).drop_nulls("distance")
    chart = time_lines(
        _in_unit(frame, size, "distance"), names_of_runs(runs), unit, "distance from fair", top=1.02
    )
    means = [
        f"{run.name} {part_text(fair['mean_distance'])}"
        for run in runs
        if (fair := run.result.numbers["fair"]) is not None
    ]
    caption = (
        "What the worst-off user lacks of its level in the exact DRFH allocation of the users that "
        f"are active then: 0 % is fair, 100 % is somebody who has nothing. Mean over the samples: "
        f"{each_run(means)}."
    )
    return Plot(
        "fair",
        "Distance from fair over time",
        caption,
        [("", chart)],
        frame,
        line_keys(names_of_runs(runs)),
    )
