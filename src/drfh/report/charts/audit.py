"""Charts of an audit: failures by amount, users' parts of their fair level."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair
import polars

from drfh.errors import InputError, UnknownNameError
from drfh.formatting import format_number, format_percent
from drfh.report.charts.axes import BAD, GOOD, SHORT_NAMES, WIDTH, on_bars

if TYPE_CHECKING:
    from drfh.auditor import Report

__all__ = ["audit_chart", "failures_chart", "fair_chart"]

_FIGURES = ("failures", "fair")

_MOST_USERS = 24
_FULL = 2.0  # beyond twice the fair level a bar ends


def audit_chart(report: Report, name: str) -> altair.LayerChart:
    """Return the chart ``failures`` or ``fair`` of a report.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.auditor import audit
    >>> audit_chart(audit(load_scenario("gpu-cluster"), properties=["pareto"]), "fair")
    Traceback (most recent call last):
    drfh.errors.InputError: figure must be of a report in which the property fair fails, got 'fair'
    """
    if name not in _FIGURES:
        raise UnknownNameError("figure", str(name), _FIGURES)
    if name == "failures":
        return failures_chart(report, report.scenario.title)
    chart = fair_chart(report)
    if chart is None:
        raise InputError("figure", "must be of a report in which the property fair fails", name)
    return chart


def failures_chart(report: Report, title: str = "") -> altair.LayerChart:
    """Return a bar for each property that fails, the longest first.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.auditor import audit
    >>> report = audit(load_scenario("gpu-cluster"), mechanism="drf", properties=["fair"])
    >>> failures_chart(report).data["amount"].round(4).to_list()
    [0.0922]
    """
    failed = [finding for finding in report if finding.verdict == "fails"]
    if not failed:
        words = polars.DataFrame({"words": ["✔ nothing fails"]})
        nothing = altair.Chart(words).mark_text(fontSize=16).encode(text="words:N")
        return altair.LayerChart(
            layer=[nothing], title=title or altair.Undefined, width=WIDTH, height=60
        )
    frame = polars.DataFrame(
        {
            "property": [finding.name for finding in failed],
            "amount": [finding.amount for finding in failed],
            "label": [format_percent(finding.amount, trim=True) for finding in failed],
            "found": [finding.text for finding in failed],
        }
    )
    base = altair.Chart(frame).encode(
        x=altair.X(
            "amount:Q",
            title="missed by the one hurt most",
            axis=altair.Axis(format="%", values=[0, 0.25, 0.5, 0.75, 1], grid=False),
            scale=altair.Scale(domain=[0, 1.15], nice=False),  # and room for the last label
        ),
        y=altair.Y("property:N", sort=frame["property"].to_list(), title=None),
        tooltip=[altair.Tooltip("property:N"), altair.Tooltip("found:N")],
    )
    labels = base.mark_text(align="left", dx=5).encode(text="label:N")
    return altair.LayerChart(
        layer=[base.mark_bar(color=BAD), labels],
        data=frame,
        title=title or altair.Undefined,
        width=WIDTH,
        height=24 * len(frame),
    )


def _held_and_fair(report: Report) -> dict[str, tuple[float, float, str]]:
    """Return what users have, what is fair, and both in words: shares if they are known."""
    if report.answer is not None:
        return {
            team.name: (
                team.now,
                team.fair,
                f"{format_percent(team.now)} of {format_percent(team.fair)}",
            )
            for team in report.answer.teams
        }
    example = next((f.counterexample for f in report if f.name == "fair"), None)
    if example is None:
        return {}
    return {
        user: (has, fair, f"{format_number(has)} of {format_number(fair)}")
        for user, fair in example.after.items()
        for has in [example.before.get(user, 0.0)]
    }


def fair_chart(report: Report) -> altair.LayerChart | None:
    """Return users' parts of their fair level; None if nobody is below it.

    Of many users only the ones furthest below are shown.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.auditor import audit
    >>> report = audit(load_scenario("gpu-cluster"), mechanism="drf", properties=["fair"])
    >>> fair_chart(report).data["tasks"][0]
    '65.37 of 72'
    """
    held = _held_and_fair(report)
    parts = {user: has / fair for user, (has, fair, _) in held.items() if fair > 0}
    if not any(part < 1 - 1e-6 for part in parts.values()):
        return None
    users = sorted(parts, key=lambda user: round(parts[user], 9))[:_MOST_USERS]
    frame = polars.DataFrame(
        {
            "user": users,
            "part": [parts[user] for user in users],
            "shown": [min(parts[user], _FULL) for user in users],
            "side": ["below" if parts[user] < 1 - 1e-6 else "at or above" for user in users],
            "tasks": [held[user][2] for user in users],
        }
    )
    widest = max(1.0, *frame["shown"])
    base = altair.Chart(frame).encode(
        y=altair.Y("user:N", sort=users, title=None, axis=SHORT_NAMES),
        tooltip=[
            altair.Tooltip("user:N"),
            altair.Tooltip("part:Q", title="of its fair share", format=".1%"),
            altair.Tooltip("tasks:N"),
        ],
    )
    title = "has, of its fair share"
    if len(parts) > len(users):
        title += f" ({len(users)} of {len(parts):,} users, lowest first)"
    x = altair.X(
        "shown:Q",
        title=title,
        axis=altair.Axis(format="%", tickCount=5, grid=False),
        scale=altair.Scale(domain=[0, 1.05 * widest], nice=False),
    )
    colour = altair.Color(
        "side:N",
        scale=altair.Scale(domain=["below", "at or above"], range=[BAD, GOOD]),
        legend=altair.Legend(title=None, orient="top"),
    )
    line = altair.Chart(polars.DataFrame({"fair": [1.0]})).mark_rule(strokeDash=[4, 3])
    return altair.LayerChart(
        layer=[
            base.mark_bar().encode(x=x, color=colour),
            line.encode(x="fair:Q"),
            *on_bars(base, "shown", "tasks", 0.55 * widest),
        ],
        data=frame,
        width=WIDTH,
        height=22 * len(frame),
    )
