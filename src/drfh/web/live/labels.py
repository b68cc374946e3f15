"""Texts and markup of the live view: tiles, users, pending jobs, events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from drfh.formatting import (
    format_amount,
    format_count,
    format_percent,
    format_rest,
    format_time,
    plural,
    short_resource,
)
from drfh.report.html import Cell, Content, Markup, Tile, join, table, tag
from drfh.web.live.events import KINDS

if TYPE_CHECKING:
    from drfh.engines.status import Status, UserStatus
    from drfh.web.live.events import LiveEvent
    from drfh.web.live.pending import Pending

__all__ = [
    "FEW_USERS",
    "choose_users",
    "events_markup",
    "pending_markup",
    "shares_text",
    "status_tiles",
    "users_markup",
]

#: Rows of the table of users, unless all are shown.
FEW_USERS = 20
_ALL_USERS = 500
_MOST_EVENTS = 80


def status_tiles(status: Status) -> list[Tile]:
    """Return the tiles: distance from fair, jobs, nodes, each resource.

    Examples
    --------
    >>> from drfh.engines.status import Status, Total
    >>> status = Status(0.0, "p", (), {"cpu": Total(8.0, 2.0)}, (), 0.0, None, {})
    >>> [(tile.label, tile.value, tile.note) for tile in status_tiles(status)][-1]
    ('cpu used', '25 %', '2 of 8')
    """
    return [_distance(status), _jobs(status), _nodes(status), *_resources(status)]


def _distance(status: Status) -> Tile:
    note = "nobody has jobs that could run"
    if status.worst is not None:
        user = next(user for user in status.users if user.name == status.worst)
        note = (
            f"{user.name} has {format_percent(user.fulfilled or 0.0, trim=True)} of its fair share"
        )
    elif any(user.fair_share for user in status.users):
        note = "nobody has less than its fair share"
    value = format_percent(status.distance, trim=True)
    return Tile("distance", "distance from fair", value, note, status.distance)


def _jobs(status: Status) -> Tile:
    running = sum(user.running + user.starting for user in status.users)
    waiting = sum(user.waiting for user in status.users)
    more = {
        "starting": sum(user.starting for user in status.users),
        "set aside": sum(sum(user.blocked.values()) for user in status.users),
        "never fit": sum(user.never for user in status.users),
        "not drfh's": sum(status.unmanaged.values()),
    }
    note = ", ".join(f"{number:,} {word}" for word, number in more.items() if number)
    return Tile("jobs", "jobs", f"{running:,} run, {waiting:,} wait", note)


def _nodes(status: Status) -> Tile:
    states = Counter(node.state for node in status.nodes)
    texts = {"closing": "draining", "down": "down"}
    note = ", ".join(f"{states[state]:,} {word}" for state, word in texts.items() if states[state])
    return Tile("nodes", "nodes", f"{states['up']:,} up", note or "all of them")


def _resources(status: Status) -> list[Tile]:
    found = []
    for name, total in status.totals.items():
        part = total.used / total.capacity if total.capacity else 0.0
        note = " of ".join(format_amount(a, like=a) for a in (total.used, total.capacity))
        shown = short_resource(name)
        found.append(
            Tile(f"used-{shown}", f"{shown} used", format_percent(part, trim=True), note, part)
        )
    return found


def users_markup(status: Status, *, everyone: bool = False) -> Markup:
    """Return the table of users, furthest from fair first; at most 20 unless `everyone`."""
    users = sorted((user for user in status.users if user.jobs), key=_by_need)
    if not users:
        return tag("p", "Nobody has a job.", "note")
    shown = users[: _ALL_USERS if everyone else FEW_USERS]
    scale = max(max(user.share, user.fair_share or 0.0) for user in shown) or 1.0
    extra = {
        "set aside": [sum(user.blocked.values()) for user in shown],
        "never fit": [user.never for user in shown],
    }
    extra = {word: numbers for word, numbers in extra.items() if any(numbers)}
    weighted = any(user.weight != 1.0 for user in shown)
    head = ["user", "now", "", "in the fair allocation", "has of it", "largest in",
            *(["weight"] if weighted else []), "run", "wait", *extra]  # fmt: skip
    rows = [
        _user_row(user, scale, weighted, [numbers[i] for numbers in extra.values()])
        for i, user in enumerate(shown)
    ]
    notes = []
    if len(shown) < len(users):
        notes.append(format_rest(len(users) - len(shown), "user", "nearer to fair."))
    if any(user.uneven for user in shown):
        notes.append("≈ of its mean job, as its jobs differ in more than size.")
    below = tag("p", " ".join(notes), "note") if notes else ""
    return join([table(head, rows, "cards labelled users"), below])


def _by_need(user: UserStatus) -> tuple[bool, float, str]:
    return user.fulfilled is None, user.fulfilled or 0.0, user.name


def _user_row(
    user: UserStatus, scale: float, weighted: bool, extra: Sequence[int]
) -> list[Content]:
    fair = (
        ""
        if user.fair_share is None
        else f"{'≈ ' * user.uneven}{format_percent(user.fair_share, trim=True)}"
    )
    has = "" if user.fulfilled is None else format_percent(user.fulfilled, trim=True)
    mark = "" if user.fair_share is None else f"--fair: {100 * user.fair_share / scale:.2f}%"
    style = f"--has: {100 * user.share / scale:.2f}%; {mark}".rstrip("; ")
    kind = "meter" if mark else "meter idle"
    strip = Markup(f'<span class="{kind}" style="{style}" aria-hidden="true"></span>')
    return [
        Cell(user.name, "name"),
        Cell(format_percent(user.share, trim=True), "number"),
        Cell(strip, "strip"),
        Cell(fair, "number"),
        Cell(has, "number"),
        Cell(short_resource(user.resource or "")),
        *([Cell(f"{user.weight:g}", "number")] if weighted else []),
        Cell(f"{user.running + user.starting:,}", "number"),
        Cell(f"{user.waiting:,}", "number"),
        *(Cell(f"{number:,}" if number else "", "number") for number in extra),
    ]


def pending_markup(waits: Iterable[Pending]) -> Markup:
    """Return the users with pending jobs, and the reasons."""
    blocks = []
    for one in waits:
        counts = {
            f"{one.waiting:,} {plural(one.waiting, 'waits', 'wait')}": one.waiting,
            f"{one.never:,} never fit": one.never,
        }
        listed = ", ".join(texts for texts, number in counts.items() if number)
        lines = [tag("li", text) for text in one.explanations.values()]
        lines += [
            tag("li", f"{format_count(number, 'job')} set aside: {why}")
            for why, number in one.blocked.items()
        ]
        head = join([tag("b", one.user), f": {listed}" if listed else ""])
        blocks.append(tag("div", join([tag("p", head), tag("ul", join(lines))]), "waits"))
    if not blocks:
        return tag("p", "Nobody waits.", "note")
    return tag("div", join(blocks), "waiting")


def events_markup(events: Iterable[LiveEvent]) -> Markup:
    """Return the list of events."""
    lines = []
    for event in list(events)[:_MOST_EVENTS]:
        when = format_time(event.time)
        kind = tag("span", KINDS.get(event.kind, event.kind), f"kind {event.kind}")
        lines.append(tag("li", join([tag("time", when), kind, tag("span", event.text)])))
    if not lines:
        return tag("p", "Nothing has happened yet.", "note")
    return tag("ol", join(lines), "events")


def choose_users(
    status: Status, before: Sequence[str], most: int, past: Iterable[str] = ()
) -> list[str]:
    """Return the users to draw: those drawn before, in their order, and the largest.

    A user without jobs stays until its position is needed.

    Parameters
    ----------
    before
        Users drawn so far.
    most
        Number of users.
    past
        Users that had jobs, for positions that are left.

    Examples
    --------
    >>> from drfh.engines.status import Status, UserStatus
    >>> def user(name, share):
    ...     return UserStatus(name, 1.0, share, "cpu", share, share, False, 1, 0, 0, 0, {})
    >>> users = (user("ann", 0.1), user("bob", 0.3), user("eve", 0.2))
    >>> status = Status(0.0, "p", users, {}, (), 0.0, None, {})
    >>> choose_users(status, ["zoe", "ann"], 2), choose_users(status, ["zoe"], 5, ["kim"])
    (['bob', 'ann'], ['zoe', 'bob', 'eve', 'ann', 'kim'])
    """
    size = {
        user.name: max(user.share, user.fair_share or 0.0) for user in status.users if user.jobs
    }
    chosen = list(before[:most])
    new = sorted((name for name in size if name not in chosen), key=lambda n: (-size[n], n))
    free = [place for place, name in enumerate(chosen) if name not in size]
    for name in new:
        if len(chosen) < most:
            chosen.append(name)
        elif free:
            chosen[free.pop(0)] = name
    others = [name for name in past if name not in chosen]
    return [*chosen, *others[: max(most - len(chosen), 0)]]


def shares_text(status: Status, users: Iterable[str]) -> str:
    """Return the current shares as text for screen readers."""
    known = {user.name: (user.share, user.fair_share or 0.0) for user in status.users}
    parts = [
        f"{name} has {format_percent(known[name][0], trim=True)}, in the fair allocation "
        f"{format_percent(known[name][1], trim=True)}"
        for name in users
        if name in known
    ]
    return f"Shares over time. Now: {'; '.join(parts) or 'nobody has jobs'}."
