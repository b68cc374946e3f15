"""Charts of an allocation: utilisation of server groups by user; shares."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import altair
import numpy as np
import polars

from drfh.allocation.proofs.certificate import proof_text
from drfh.errors import UnknownNameError
from drfh.formatting import format_percent
from drfh.report.charts.axes import GOOD, SHORT_NAMES, WIDTH, on_bars
from drfh.report.html import offline_page, save_page

if TYPE_CHECKING:
    from drfh.allocation.allocation import Allocation

__all__ = ["allocation_chart", "allocation_figure", "save_chart", "shares_chart", "usage_table"]

_FIGURES = ("servers", "shares")
_MOST_SHARES = 24

_MOST_USERS = 10
_MOST_GROUPS = 16
_OTHERS = "other users"
_REST = "other groups"
_FREE = "free"
_FREE_COLOUR = "#8888884d"
# Ten colours that stay apart for most kinds of colour vision, on white and on black.
_PALETTE = (
    "#4c78a8", "#f58518", "#54a24b", "#e45756", "#b279a2",
    "#72b7b2", "#eeca3b", "#9d755d", "#ff9da6", "#79706e",
)  # fmt: skip


def usage_table(allocation: Allocation) -> polars.DataFrame:
    """Return the used part of each resource of each group, by user.

    Beyond ten users the ones with small shares are joined, and beyond sixteen groups the small
    groups.

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 4}, name="node")])
    >>> usage_table(allocate(cluster, [User("ann", {"cpu": 1})])).rows()
    [('node', 'cpu', 'ann', 0, 0, 1.0)]
    """
    problem, placed = allocation.problem, allocation.assignment
    cluster = problem.cluster
    m = len(cluster.resources)
    # Users and groups in the order of the picture; what is beyond shares the last place.
    user_place, users = _places(allocation.share_vector, problem.names(), _MOST_USERS, _OTHERS)
    totals = np.where(cluster.totals > 0, cluster.totals, 1.0)
    size = (cluster.capacity * cluster.counts[:, None] / totals).max(axis=1)
    group_place, shown = _places(size, list(cluster.names), _MOST_GROUPS, _REST)
    block, user, tasks = placed.entries_of(np.arange(len(problem.blocks)))
    where = group_place[problem.blocks.group[block]] * len(users) + user_place[user]
    capacity = np.zeros((len(shown), m))
    np.add.at(capacity, group_place, cluster.capacity * cluster.counts[:, None])
    rows = []
    for r in range(m):
        used = np.bincount(
            where, tasks * problem.demand[user, r], minlength=len(shown) * len(users)
        )
        for g in range(len(shown)):
            if capacity[g, r] <= 0:
                continue
            parts = used[g * len(users) : (g + 1) * len(users)] / capacity[g, r]
            rows += [
                (shown[g], cluster.resources[r], users[i], g, i, float(parts[i]))
                for i in range(len(users))
            ]
    columns = ["group", "resource", "user", "group_place", "user_place", "used"]
    return polars.DataFrame(rows, schema=columns, orient="row")


def _unused_name(name: str, taken: list[str]) -> str:
    while name in taken:
        name = f"({name})"
    return name


def _places(
    size: np.ndarray[tuple[int], np.dtype[np.float64]], names: list[str], most: int, rest: str
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], list[str]]:
    """Return the index of each name, and names by index; small ones share the last."""
    if len(names) <= most:
        return np.arange(len(names)), names
    keep = np.sort(np.argsort(-size, kind="stable")[: most - 1])
    place = np.full(len(names), most - 1)
    place[keep] = np.arange(most - 1)
    return place, [*(names[i] for i in keep.tolist()), rest]


def allocation_chart(allocation: Allocation, title: str = "") -> altair.FacetChart:
    """Return stacked bars per server group and resource, coloured by user.

    Free capacity stays visible as the empty end of each bar.

    Examples
    --------
    >>> from drfh import allocate, load_scenario
    >>> scenario = load_scenario("paper-two-servers")
    >>> chart = allocation_chart(allocate(scenario.cluster, scenario.users))
    >>> sorted(chart.to_dict())[:3]
    ['$schema', 'columns', 'config']
    """
    cluster = allocation.problem.cluster
    frame = usage_table(allocation)
    counts = dict(zip(cluster.names, cluster.counts.tolist(), strict=True))
    label = {
        name: name if counts.get(name, 1) == 1 else f"{name} × {counts[name]:,}"
        for name in frame["group"].unique(maintain_order=True)
    }
    frame = frame.with_columns(polars.col("group").replace(label))
    groups = list(label.values())
    users = frame.sort("user_place")["user"].unique(maintain_order=True).to_list()
    # What is left of each bar, so that it is seen and not only missing.
    keys = ["group", "resource", "group_place"]
    free = frame.group_by(keys, maintain_order=True).agg(
        (1 - polars.col("used").sum()).clip(0, 1).alias("used")
    )
    label_of_free = _unused_name(_FREE, users)
    free = free.with_columns(
        polars.lit(label_of_free).alias("user"),
        polars.lit(len(users), polars.Int64).alias("user_place"),
    )
    frame = polars.concat([frame, free.select(frame.columns)])
    colours = [_PALETTE[i % len(_PALETTE)] for i in range(len(users))]
    chart: altair.FacetChart = (
        altair.Chart(frame)
        .mark_bar()
        .encode(
            x=altair.X(
                "used:Q",
                stack="zero",
                title="part of the group's capacity",
                axis=altair.Axis(format="%", tickCount=5, grid=False),
                scale=altair.Scale(domain=[0, 1]),
            ),
            y=altair.Y("resource:N", sort=list(cluster.resources), title=None),
            color=altair.Color(
                "user:N",
                scale=altair.Scale(domain=[*users, label_of_free], range=[*colours, _FREE_COLOUR]),
                legend=altair.Legend(title=None, symbolLimit=_MOST_USERS + 1),
            ),
            order=altair.Order("user_place:Q"),
            tooltip=[
                altair.Tooltip("group:N"),
                altair.Tooltip("resource:N"),
                altair.Tooltip("user:N"),
                altair.Tooltip("used:Q", format=".1%"),
            ],
        )
        .properties(width=460, height=altair.Step(20))
        .facet(
            facet=altair.Facet(
                "group:N",
                sort=groups,
                header=altair.Header(
                    title=None,
                    labelOrient="top",
                    labelAnchor="start",
                    labelFontWeight="bold",
                    labelPadding=3,
                ),
            ),
            columns=1,
            spacing=14,
        )
        .resolve_scale(y="independent")
    )
    if title:
        chart.title = title
    return chart


def allocation_figure(allocation: Allocation, name: str) -> altair.TopLevelMixin:
    """Return the chart ``servers`` or ``shares`` of an allocation.

    Examples
    --------
    >>> from drfh import allocate, load_scenario
    >>> allocation_figure(allocate(load_scenario("paper-two-servers")), "share")
    Traceback (most recent call last):
    drfh.errors.UnknownNameError: figure must be one of servers, shares (did you mean shares?), \
got 'share'
    """
    if name not in _FIGURES:
        raise UnknownNameError("figure", str(name), _FIGURES)
    return allocation_chart(allocation) if name == "servers" else shares_chart(allocation)


def shares_chart(allocation: Allocation) -> altair.LayerChart:
    """Return the dominant share of each user; of many, the largest.

    Examples
    --------
    >>> from drfh import allocate, load_scenario
    >>> shares_chart(allocate(load_scenario("paper-two-servers"))).data["label"].to_list()
    ['71.4 %', '71.4 %']
    """
    shares, names = allocation.share_vector, [user.name for user in allocation.users]
    shown = np.sort(np.argsort(-shares, kind="stable")[:_MOST_SHARES]).tolist()
    users = [names[i] for i in shown]
    frame = polars.DataFrame(
        {
            "user": users,
            "share": shares[shown],
            "label": [format_percent(share) for share in shares[shown].tolist()],
        }
    )
    many = f" ({len(users)} of {len(names):,} users)" if len(users) < len(names) else ""
    widest = max(float(shares.max()), 1e-9)
    base = altair.Chart(frame).encode(
        y=altair.Y("user:N", sort=users, title=None, axis=SHORT_NAMES),
        tooltip=[altair.Tooltip("user:N"), altair.Tooltip("share:Q", format=".2%")],
    )
    bars = base.mark_bar(color=GOOD).encode(
        x=altair.X(
            "share:Q",
            title=f"dominant share{many}",
            axis=altair.Axis(format="~%", tickCount=5, grid=False),
            scale=altair.Scale(domain=[0, 1.15 * widest], nice=False),  # and room for labels
        )
    )
    return altair.LayerChart(
        layer=[bars, *on_bars(base, "share", "label", 0.55 * widest)],
        data=frame,
        width=WIDTH,
        height=22 * len(frame),
    )


def save_chart(allocation: Allocation, path: str | os.PathLike[str], *, title: str = "") -> None:
    """Write the chart to an .html, .svg, .png or .pdf file, atomically."""
    save_page(path, lambda: allocation_chart(allocation, title), lambda: _page(allocation, title))


def _page(allocation: Allocation, title: str) -> str:
    certificate = allocation.certificate
    how = allocation.method if certificate is None else proof_text(certificate)
    cluster = allocation.problem.cluster
    summary = (
        f"{allocation.mechanism} ({how}): {len(allocation.problem.users):,} "
        f"users on {cluster.size:,} servers in {len(cluster):,} groups."
    )
    return offline_page(
        title or "Allocation",
        summary,
        [("How full each server group is, and with whose tasks", allocation_chart(allocation))],
        [("Users", allocation.user_table())],
    )
