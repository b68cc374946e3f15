"""Charts of a comparison: placed part of promises; shares by mechanism."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair
import numpy as np
import polars

from drfh.errors import InputError, UnknownNameError
from drfh.formatting import format_number, format_percent
from drfh.report.charts.axes import BAD, GOOD, SHORT_NAMES, WIDTH, on_bars

if TYPE_CHECKING:
    from drfh.auditor.comparison import Comparison

__all__ = ["FEW_USERS", "comparison_chart", "promise_chart", "users_chart"]

#: Up to this many users each has a place of its own in a chart.
FEW_USERS = 12
_FIGURES = ("users", "promises")
_PLACED, _MISSING = "placed", "promised, no place"
_ROUND_OFF = 1e-6
_SPREAD = "Shares of the users"
_MARKS = [
    "line: all users; thicker: the middle 80 %; thickest: the middle 50 %",
    "yellow tick: the median; red diamond: the user furthest below DRFH",
]


def promise_chart(promises: polars.DataFrame, title: str = "") -> altair.LayerChart:
    """Return the placed part of each user's promise, the worst first.

    Parameters
    ----------
    promises
        Rows of one mechanism from :meth:`drfh.auditor.comparison.Comparison.promises`.
    title
        Above the chart.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.auditor.comparison import compare
    >>> promises = compare(load_scenario("paper-two-servers"), mechanisms=["drf"]).promises()
    >>> promise_chart(promises).data["label"].to_list()[0]
    '10 of 11.67'
    """
    # What differs by round-off only stays in the order of the users.
    worst = promises.sort(-polars.col("gap").round(9), maintain_order=True).head(FEW_USERS)
    users = worst["user"].to_list()
    gap = [part if part > _ROUND_OFF else 0.0 for part in worst["gap"]]
    frame = polars.DataFrame(
        {
            "user": users * 2,
            "what": [_PLACED] * len(users) + [_MISSING] * len(users),
            "part": [*(1 - part for part in gap), *gap],
            "order": [0] * len(users) + [1] * len(users),
            "label": [
                f"{format_number(row['placed'])} of {format_number(row['promised'])}"
                for row in worst.iter_rows(named=True)
            ]
            * 2,
        }
    )
    many = len(promises) > len(users)
    base = altair.Chart(frame).encode(
        y=altair.Y("user:N", sort=users, title=None, axis=SHORT_NAMES)
    )
    bars = base.mark_bar(stroke=BAD).encode(
        x=altair.X(
            "part:Q",
            stack="zero",
            title="part of what is promised"
            + (f" ({len(users)} of {len(promises):,} users, worst first)" if many else ""),
            axis=altair.Axis(format="%", values=[0, 0.25, 0.5, 0.75, 1], grid=False),
            scale=altair.Scale(domain=[0, 1]),
        ),
        color=altair.Color(
            "what:N",
            scale=altair.Scale(domain=[_PLACED, _MISSING], range=[GOOD, f"{BAD}40"]),
            legend=altair.Legend(title=None, orient="top", labelLimit=260, symbolStrokeWidth=0),
        ),
        strokeWidth=altair.condition(
            f"datum.what === '{_MISSING}' && datum.part > 0", altair.value(1), altair.value(0)
        ),
        order="order:Q",
        tooltip=[
            altair.Tooltip("user:N"),
            altair.Tooltip("what:N", title="tasks"),
            altair.Tooltip("part:Q", title="part of the promise", format=".1%"),
            altair.Tooltip("label:N", title="placed"),
        ],
    )
    placed = base.transform_filter(f"datum.what === '{_PLACED}'")
    return altair.LayerChart(
        layer=[bars, *on_bars(placed, "part", "label", 0.55)],
        data=frame,
        title=title or altair.Undefined,
        width=WIDTH,
        height=24 * len(users),
    )


def comparison_chart(comparison: Comparison, name: str) -> altair.LayerChart:
    """Return the chart ``users`` or ``promises`` of a comparison.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.auditor.comparison import compare
    >>> comparison = compare(load_scenario("paper-two-servers"), mechanisms=["drfh"])
    >>> comparison_chart(comparison, "promises")
    Traceback (most recent call last):
    drfh.errors.InputError: figure must be of a comparison with a mechanism that promises, such \
as drf, got 'promises'
    """
    if name not in _FIGURES:
        raise UnknownNameError("figure", str(name), _FIGURES)
    title = comparison.scenario.title
    if name == "users":
        return users_chart(comparison, title)
    promises = comparison.promises()
    if promises.is_empty():
        rule = "must be of a comparison with a mechanism that promises, such as drf"
        raise InputError("figure", rule, name)
    first = promises.filter(polars.col("mechanism") == promises["mechanism"][0])
    return promise_chart(first, title)


def users_chart(comparison: Comparison, title: str = "") -> altair.LayerChart:
    """Return the users' levels, mechanisms as rows.

    Up to twelve users: a table of tasks, coloured by the part of what DRFH gives. More: how the
    shares per weight are spread, and where the worst-off user is.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.auditor.comparison import compare
    >>> scenario = load_scenario("paper-two-servers")
    >>> users_chart(compare(scenario, mechanisms=["drfh", "drf"])).data.row(0)
    ('drfh', 'ann', 10.0, '10', 1.0, '100 %')
    """
    few = len(comparison.scenario.users) <= FEW_USERS
    chart = _heat_map(comparison) if few else _spread(comparison)
    if few and title:
        chart.title = title
    elif not few:  # a subtitle is drawn only below a title
        chart.title = altair.Title(title or _SPREAD, subtitle=_MARKS, anchor="start")
    return chart


def _heat_map(comparison: Comparison) -> altair.LayerChart:
    answers = [(row.name, row.allocation) for row in comparison.answered if row.allocation]
    users = [user.name for user in comparison.scenario.users]
    tasks = np.array([answer.task_vector for _, answer in answers])
    named = [name for name, _ in answers]
    measure = tasks[named.index("drfh")] if "drfh" in named else tasks.max(axis=0)
    part = np.divide(tasks, measure, out=np.ones_like(tasks), where=measure > 0)
    of = "of DRFH" if "drfh" in named else "of the most"
    frame = polars.DataFrame(
        {
            "mechanism": [name for name in named for _ in users],
            "user": users * len(named),
            "tasks": tasks.ravel(),
            "label": [format_number(value) for value in tasks.ravel().tolist()],
            "part": part.ravel().clip(0, 2),
            "percent": [format_percent(value, trim=True) for value in part.ravel().tolist()],
        }
    )
    angle = -40 if max(len(name) for name in users) * len(users) > 90 else 0
    base = altair.Chart(frame).encode(
        x=altair.X(
            "user:N", sort=users, title=None, axis=altair.Axis(orient="top", labelAngle=angle)
        ),
        y=altair.Y("mechanism:N", sort=named, title=None),
    )
    colour = altair.Color(
        "part:Q",
        scale=altair.Scale(
            domain=[0, 0.99, 1, 1.01, 2],
            range=[f"{BAD}b3", f"{BAD}1f", "#88888818", f"{GOOD}1f", f"{GOOD}b3"],
            interpolate="rgb",
        ),
        legend=altair.Legend(
            title=f"tasks, {of}", format="%", orient="bottom", values=[0, 0.5, 1, 1.5, 2],
            gradientLength=180, titleFontWeight="normal",
        ),
    )  # fmt: skip
    tips = [
        altair.Tooltip("mechanism:N"),
        altair.Tooltip("user:N"),
        altair.Tooltip("tasks:Q", format=",.6~g"),
        altair.Tooltip("percent:N", title=of),
    ]
    return altair.LayerChart(
        layer=[
            base.mark_rect().encode(color=colour, tooltip=tips),
            base.mark_text().encode(text="label:N", tooltip=tips),
        ],
        data=frame,
        width=max(WIDTH, 74 * len(users)),
        height=26 * len(named),
    )


def _spread(comparison: Comparison) -> altair.LayerChart:
    names = [user.name for user in comparison.scenario.users]
    rows = []
    for row in comparison.answered:
        if row.allocation is None:
            continue
        levels = row.allocation.level_vector
        quantiles = np.quantile(levels, [0, 0.1, 0.25, 0.5, 0.75, 0.9, 1]).tolist()
        worst = float(levels[names.index(row.worst_off)]) if row.worst_off else None
        rows.append(
            (row.name, *quantiles, worst, row.worst_off, format_percent(row.distance, trim=True))
        )
    columns = ["mechanism", "min", "p10", "p25", "median", "p75", "p90", "max"]
    columns += ["worst", "who", "distance"]
    types = {"worst": polars.Float64}
    frame = polars.DataFrame(rows, schema=columns, schema_overrides=types, orient="row")
    tips = [altair.Tooltip("mechanism:N")]
    tips += [altair.Tooltip(f"{name}:Q", format=".3%") for name in columns[1:8]]
    scale = altair.Scale(domain=[0, max(row[7] for row in rows) or 1.0], nice=False)
    axis = altair.Axis(format="~%", tickCount=5, grid=False)
    base = altair.Chart(frame).encode(
        y=altair.Y("mechanism:N", sort=frame["mechanism"].to_list(), title=None), tooltip=tips
    )

    def between(low: str, high: str, size: int, opacity: float) -> altair.Chart:
        x = altair.X(f"{low}:Q", title="share per weight", axis=axis, scale=scale)
        rule = base.mark_rule(color=GOOD, strokeWidth=size, opacity=opacity)
        chart: altair.Chart = rule.encode(x=x, x2=f"{high}:Q")
        return chart

    worst_tips = [
        altair.Tooltip("mechanism:N"),
        altair.Tooltip("who:N", title="furthest below DRFH"),
        altair.Tooltip("distance:N", title="below DRFH by"),
        altair.Tooltip("worst:Q", title="share per weight", format=".3%"),
    ]
    return altair.LayerChart(
        layer=[
            between("min", "max", 1, 1.0),
            between("p10", "p90", 6, 0.5),
            between("p25", "p75", 12, 0.8),
            base.mark_tick(color="#f2c14e", thickness=3, size=16).encode(x="median:Q"),
            base.mark_point(shape="diamond", color=BAD, filled=True, size=90, opacity=1)
            .encode(x="worst:Q", tooltip=worst_tips)
            .transform_filter("datum.worst !== null"),
        ],
        data=frame,
        width=WIDTH,
        height=26 * len(frame),
    )
