"""Bar charts of usage and shares, as options for ECharts."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drfh.allocation.problem import Floats, Ints
from drfh.formatting import format_amount, format_amounts, format_count, format_percent
from drfh.model.cluster import Cluster
from drfh.report.html import FONT, PALETTE
from drfh.web.session.answers import Answer, UserRow

__all__ = [
    "FREE",
    "MOST_USERS",
    "OTHERS",
    "StackedBars",
    "bars_height",
    "colours_of",
    "ink_on",
    "select_largest",
    "share_options",
    "shares_height",
    "stack_options",
    "stacked_bars",
]


#: Colours of what is no single user: of all others, and of what is free.
OTHERS, FREE = "#8a8f98", "#8a8f98"


def colours_of(names: tuple[str, ...], before: dict[str, str]) -> dict[str, str]:
    """Return a colour for each name; those that had one keep it.

    Parameters
    ----------
    names
        At most as many as the palette has colours.
    before
        What this returned the last time.

    Examples
    --------
    >>> first = colours_of(("ann", "bob"), {})
    >>> first == {"ann": PALETTE[0], "bob": PALETTE[1]}
    True
    >>> colours_of(("bob", "carl"), first) == {"bob": PALETTE[1], "carl": PALETTE[0]}
    True
    """
    kept = {name: before[name] for name in names if name in before}
    free = iter([colour for colour in PALETTE if colour not in kept.values()])
    return {name: kept.get(name) or next(free, OTHERS) for name in names}


def ink_on(colour: str) -> str:
    """Return the colour of text on a colour: black or white.

    Examples
    --------
    >>> ink_on("#00add9"), ink_on("#bf3300")
    ('#000000', '#ffffff')
    """
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    # Contrast with black is (light + 0.05) / 0.05, with white 1.05 / (light + 0.05).
    return "#000000" if (light + 0.05) ** 2 > 0.05 * 1.05 else "#ffffff"


#: Users with a colour of their own.
MOST_USERS = 8
# Most bars in the chart; and fewest server groups, however many resources there are.
_MOST_BARS, _FEWEST_GROUPS = 36, 4


@dataclass(frozen=True, eq=False)
class StackedBars:
    """Stacked bars: a bar for each server group and resource.

    Attributes
    ----------
    groups : tuple of str
        Server groups, or their sizes; the last one may be the rest of them, joined.
    notes : tuple of str
        What a group is made of: ``4 servers``.
    resources : tuple of str
        Names of the resources.
    users : tuple of str
        Whose tasks have a colour of their own, in the order of listing.
    other_users : int
        How many users have no colour of their own.
    joined : int
        How many groups have no bars of their own.
    capacity : array, groups × resources
        How much there is.
    used : array, groups × resources × users
        How much each holds; the last entry is that of the others, if there are any.
    """

    groups: tuple[str, ...]
    notes: tuple[str, ...]
    resources: tuple[str, ...]
    users: tuple[str, ...]
    other_users: int
    joined: int
    capacity: Floats
    used: Floats

    @property
    def others(self) -> str:
        """All other users, as text; empty if there are none."""
        return "".join(_rest(self.other_users, "user"))

    @property
    def names(self) -> tuple[str, ...]:
        """The users, and then the others."""
        return (*self.users, self.others) if self.others else self.users

    @property
    def free(self) -> Floats:
        """What nobody holds, groups × resources."""
        left: Floats = np.maximum(self.capacity - self.used.sum(axis=2), 0.0)
        return np.where(left > 1e-12 * self.capacity, left, 0.0)

    @property
    def bars(self) -> list[tuple[int, int]]:
        """Group and resource of each bar, from the top."""
        rows, columns = np.nonzero(self.capacity > 0)
        return list(zip(rows.tolist(), columns.tolist(), strict=True))


def select_largest(names: Sequence[str], size: Floats, find: str, most: int) -> list[int]:
    """Return the positions of the largest whose names contain a text.

    Parameters
    ----------
    names, size
        Of what is to be chosen.
    find
        What was searched for, upper and lower case alike; several texts with commas between.
    most
        How many at most.

    Examples
    --------
    >>> select_largest(["ann", "bob", "Anton"], np.array([1.0, 3.0, 2.0]), "", 2)
    [1, 2]
    >>> select_largest(["ann", "bob", "Anton"], np.array([1.0, 3.0, 2.0]), "an", 2)
    [0, 2]
    """
    terms = [part.strip().casefold() for part in find.split(",") if part.strip()]
    matching = np.arange(len(names))
    if terms:
        plain = [name.casefold() for name in names]
        matching = np.array(
            [i for i, name in enumerate(plain) if any(part in name for part in terms)],
            dtype=np.int64,
        )
    largest = np.argsort(-size[matching], kind="stable")[:most]
    return sorted(matching[largest].tolist())


def stacked_bars(answer: Answer, find_users: str = "", find_groups: str = "") -> StackedBars:
    """Return the bars for an answer.

    Parameters
    ----------
    answer
        What to show.
    find_users, find_groups
        What was searched for; empty: the largest.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.web.session.answers import answer_of
    >>> from drfh.web.session.workbook import Workbook
    >>> stacked = stacked_bars(answer_of(Workbook(load_scenario("paper-two-servers"))))
    >>> stacked.groups, stacked.users
    (('high-memory', 'high-cpu'), ('ann', 'bob'))
    >>> stacked.used[0].round(3).tolist(), stacked.free[0].round(3).tolist()
    ([[2.0, 0.0], [10.0, 0.0]], [0.0, 2.0])
    """
    allocation = answer.allocation
    problem, cluster = allocation.problem, allocation.problem.cluster
    resources = len(cluster.resources)
    held = cluster.capacity * cluster.counts[:, None]
    size = (held / np.where(cluster.totals > 0, cluster.totals, 1.0)).max(axis=1)
    most_groups = max(_FEWEST_GROUPS, _MOST_BARS // resources)
    users = select_largest(problem.names(), allocation.share_vector, find_users, MOST_USERS)
    alike = None if find_groups.strip() else _sizes(cluster, most_groups)
    if alike is not None:
        names, group_place = alike
        joined = len(cluster)
    else:
        groups = select_largest(cluster.names, size, find_groups, most_groups)
        group_place, joined = _places(len(cluster), groups)
        names = [*(cluster.names[g] for g in groups), *_rest(joined, "group")]
    user_place, others = _places(len(problem.users), users)
    rows, columns = len(names), len(users) + (others > 0)
    capacity = np.zeros((rows, resources))
    np.add.at(capacity, group_place, held)
    used = np.zeros((rows, resources, columns))
    block, user, tasks = allocation.assignment.entries_of(np.arange(len(problem.blocks)))
    where = group_place[problem.blocks.group[block]] * columns + user_place[user]
    for r in range(resources):
        amount = np.bincount(where, tasks * problem.demand[user, r], minlength=rows * columns)
        used[:, r] = amount.reshape(rows, columns)
    counts = np.bincount(group_place, cluster.counts, minlength=rows).astype(np.int64)
    return StackedBars(
        tuple(names),
        tuple(format_count(count, "server") for count in counts.tolist()),
        tuple(cluster.resources),
        tuple(problem.users[i].name for i in users),
        others,
        joined,
        capacity,
        used,
    )


def _sizes(cluster: Cluster, most: int) -> tuple[list[str], Ints] | None:
    """Return the sizes of servers, and the size of every group.

    None if all groups have room, or if there are too many sizes as well.
    """
    if len(cluster) <= most:
        return None
    sizes, first, place = np.unique(
        cluster.capacity, axis=0, return_index=True, return_inverse=True
    )
    if len(sizes) > most:
        return None
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    names = [
        format_amounts(dict(zip(cluster.resources, sizes[i].tolist(), strict=True)))
        for i in order.tolist()
    ]
    return names, rank[place.reshape(-1)]


def _places(size: int, chosen: list[int]) -> tuple[Ints, int]:
    """Return the row of everything, the rest last, and the rest's count."""
    place = np.full(size, len(chosen), dtype=np.int64)
    place[chosen] = np.arange(len(chosen))
    return place, size - len(chosen)


def _rest(count: int, word: str) -> list[str]:
    return [format_count(count, f"other {word}")] if count else []


_ROW, _AXIS = 24, 34  # pixels
_NARROW = 260  # pixels that a bar has at least: on a telephone
_LETTER = 8
_LONGEST_HEAD = 38  # letters that fit over a bar on a telephone
_NARROWEST, _WIDEST = 48, 132  # pixels for names


def bars_height(stacked: StackedBars) -> int:
    """Return how high the chart of :func:`stack_options` must be, in pixels."""
    lines = len(stacked.bars) + len({group for group, _ in stacked.bars})
    return _ROW * max(lines, 1) + _AXIS


def shares_height(rows: Sequence[UserRow]) -> int:
    """Return how high the chart of :func:`share_options` must be, in pixels."""
    return _ROW * max(len(rows), 1) + _AXIS


def stack_options(stacked: StackedBars, colours: Mapping[str, str]) -> dict[str, Any]:
    """Return stacked bars: for each server group a bar a resource.

    Parameters
    ----------
    stacked
        What to show.
    colours
        Of the users.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.web.session.answers import answer_of
    >>> from drfh.web.components.bars import stacked_bars
    >>> from drfh.web.session.workbook import Workbook
    >>> stacked = stacked_bars(answer_of(Workbook(load_scenario("paper-two-servers"))))
    >>> options = stack_options(stacked, {"ann": "#2d7dc4", "bob": "#e07b00"})
    >>> [series["name"] for series in options["series"]]
    ['ann', 'bob', 'free', '']
    >>> options["series"][0]["data"][1]["value"], options["series"][0]["data"][1]["tooltip"]
    (100.0, {'formatter': 'ann holds 2 of 2 cpu on high-memory: 100 %'})
    """
    labels: list[str] = []
    # For every line of the chart: a bar, or None for the name of a group.
    lines: list[tuple[int, int] | None] = []
    heads: list[dict[str, Any]] = []
    last = -1
    for group, resource in stacked.bars:
        if group != last:
            heads.append(_head(len(lines), stacked.groups[group], stacked.notes[group]))
            lines.append(None)
            labels.append("")
            last = group
        lines.append((group, resource))
        labels.append(stacked.resources[resource])
    left = _names_width(labels)
    series = []
    for position, user in enumerate(stacked.names):
        is_rest = position >= len(stacked.users)
        colour = OTHERS if is_rest else colours[user]
        data: list[Any] = []
        for line in lines:
            if line is None:
                data.append(None)
                continue
            amount, there = float(stacked.used[line][position]), float(stacked.capacity[line])
            holder = f"{user} hold{'' if is_rest and stacked.other_users > 1 else 's'}"
            data.append(_piece(amount, there, holder, stacked, line, user, ink_on(colour)))
        style = {"color": colour}
        series.append({**_STACKED, "name": user, "itemStyle": style, "data": data})
    free: list[Any] = []
    for line in lines:
        if line is None:
            free.append(None)
        else:
            amount, there = float(stacked.free[line]), float(stacked.capacity[line])
            free.append(_piece(amount, there, "free:", stacked, line, "free", "currentColor"))
    dashed = {
        "color": f"{FREE}22",
        "borderColor": FREE,
        "borderType": "dashed",
        "borderWidth": 1,
    }
    series.append({**_STACKED, "name": "free", "itemStyle": dashed, "data": free})
    series.append({"type": "scatter", "name": "", "symbolSize": 0, "silent": True, "data": heads})
    return {
        **_PLAIN,
        "grid": {"left": left, "right": 18, "top": 0, "bottom": _AXIS - 6},
        "xAxis": _percent_axis(100.0),
        "yAxis": _names_axis(labels, left),
        "series": series,
        "aria": {"enabled": True, "label": {"description": _summary(stacked)}},
    }


def _head(line: int, group: str, note: str) -> dict[str, Any]:
    """Return the label of a group, which has the whole width."""
    longest = _LONGEST_HEAD - len(note) - 4
    name = group if len(group) <= longest else f"{group[: longest - 1]}…"
    label = {
        "show": True,
        "formatter": _as_label(f"{name}  ({note})"),
        "position": "right",
        "distance": 0,
        "offset": [0, 5],
        "fontWeight": "bold",
        "color": "currentColor",
    }
    return {"value": [0, line], "label": label, "itemStyle": {"opacity": 1}}


def _piece(
    amount: float,
    there: float,
    holder: str,
    stacked: StackedBars,
    line: tuple[int, int],
    name: str,
    ink: str,
) -> dict[str, Any]:
    part = amount / there
    resource, group = stacked.resources[line[1]], stacked.groups[line[0]]
    text = (
        f"{holder} {format_amount(amount)} of {format_amount(there)} {resource} on {group}: "
        f"{format_percent(part, trim=True)}"
    )
    piece: dict[str, Any] = {
        "value": 100 * part if amount > 0 else None,
        "tooltip": {"formatter": _as_text(text)},
    }
    if part * _NARROW > _LETTER * len(name) + 8:
        piece["label"] = {"show": True, "formatter": _as_label(name), "color": ink}
    return piece


def share_options(rows: Sequence[UserRow], colours: Mapping[str, str]) -> dict[str, Any]:
    """Return a bar a user: its dominant share, and that in the fair allocation.

    Examples
    --------
    >>> row = UserRow("ann", 1.0, None, 10.0, 0.5, 0.5, 0.6, "cpu", None, 10.0, False, "")
    >>> options = share_options([row], {"ann": "#2d7dc4"})
    >>> options["series"][0]["data"][0]["tooltip"]
    {'formatter': 'ann has 50 % of all cpu, 60 % in the fair allocation'}
    >>> options["series"][1]["data"]
    [[60.0, 0]]
    """
    bars = []
    for row in rows:
        text = (
            f"{row.user} has {format_percent(row.share, trim=True)} of all {row.dominant}, "
            f"{format_percent(row.ideal, trim=True)} in the fair allocation"
        )
        bars.append(
            {
                "value": 100 * row.share,
                "itemStyle": {"color": colours.get(row.user, OTHERS)},
                "tooltip": {"formatter": _as_text(text)},
            }
        )
    ideal = [[100 * row.ideal, position] for position, row in enumerate(rows)]
    tick = {
        "type": "scatter",
        "name": "ideal",
        "symbol": "rect",
        "symbolSize": [3, _ROW - 4],
        "itemStyle": {"color": "currentColor", "opacity": 1},
        "silent": True,
        "z": 5,
        "data": ideal,
    }
    names = [row.user for row in rows]
    most = max((100 * max(row.share, row.ideal) for row in rows), default=0.0)
    left = _names_width(names)
    values = {
        **_names_axis([format_percent(row.share, trim=True) for row in rows], 80),
        "position": "right",
    }
    described = "; ".join(
        f"{row.user} {format_percent(row.share, trim=True)}, in the fair allocation "
        f"{format_percent(row.ideal, trim=True)}"
        for row in rows[:20]
    )
    return {
        **_PLAIN,
        "grid": {"left": left, "right": 62, "top": 0, "bottom": _AXIS - 6},
        "xAxis": _percent_axis(most),
        "yAxis": [_names_axis(names, left), values],
        "series": [{"type": "bar", "name": "share", "barWidth": "70%", "data": bars}, tick],
        "aria": {"enabled": True, "label": {"description": f"Dominant shares: {described}"}},
    }


_STACKED: dict[str, Any] = {"type": "bar", "stack": "used", "barWidth": "74%"}
_PLAIN: dict[str, Any] = {
    "animationDuration": 200,
    "animationDurationUpdate": 200,
    "textStyle": {"fontFamily": FONT},
    "tooltip": {"trigger": "item", "confine": True, "className": "drfh-tip"},
}


def _percent_axis(most: float) -> dict[str, Any]:
    """Return an axis in percent, with at most four steps."""
    step = _step(most)
    return {
        "type": "value",
        "min": 0,
        "max": step * max(math.ceil(most / step - 1e-9), 1),
        "interval": step,
        "axisLabel": {"formatter": "{value} %", "color": "currentColor"},
        "splitLine": {"lineStyle": {"color": "currentColor", "opacity": 0.15}},
    }


def _step(most: float) -> float:
    """Return a round number that fits about four times into another.

    Examples
    --------
    >>> [_step(most) for most in (100.0, 71.4, 0.3, 0.0)]
    [25.0, 20.0, 0.1, 25.0]
    """
    if most <= 0:
        return 25.0
    size = 10.0 ** math.floor(math.log10(most / 4))
    step = next(size * times for times in (1, 2, 2.5, 5, 10) if most <= 4 * size * times + 1e-12)
    return float(f"{step:.3g}")


def _names_width(labels: list[str]) -> int:
    longest = max(map(len, labels), default=0)
    return int(min(max(_LETTER * longest + 24, _NARROWEST), _WIDEST))


def _names_axis(labels: list[str], width: int) -> dict[str, Any]:
    return {
        "type": "category",
        "inverse": True,
        "data": labels,
        "axisTick": {"show": False},
        "axisLine": {"show": False},
        "axisLabel": {
            "color": "currentColor",
            "interval": 0,
            "width": width - 12,
            "overflow": "truncate",
            "fontSize": 13,
        },
    }


def _as_text(text: str) -> str:
    """Return text for a tooltip: escaped HTML, without braces."""
    return html.escape(text).replace("{", "&#123;").replace("}", "&#125;")


def _as_label(text: str) -> str:
    """Return text for a label, without braces: they would be placeholders."""
    return text.replace("{", "(").replace("}", ")")


def _summary(stacked: StackedBars) -> str:
    """Return the chart as text, for screen readers."""
    parts = []
    for line in stacked.bars[:12]:
        part = 1 - float(stacked.free[line]) / float(stacked.capacity[line])
        parts.append(
            f"{stacked.resources[line[1]]} of {stacked.groups[line[0]]} "
            f"{format_percent(part, trim=True)}"
        )
    more = "" if len(stacked.bars) <= 12 else ", and more in the table"
    return f"How full the servers are: {', '.join(parts)}{more}"
