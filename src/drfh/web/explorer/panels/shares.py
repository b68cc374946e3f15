"""Who gets what: usage of servers, shares of users, what limits them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from markupsafe import escape
from nicegui import ui

from drfh.allocation.explain import explain
from drfh.formatting import format_amount, format_number, format_percent
from drfh.report.html import Cell, Content, Markup, table, tag
from drfh.web.components.bars import (
    OTHERS,
    StackedBars,
    bars_height,
    colours_of,
    select_largest,
    share_options,
    shares_height,
    stack_options,
    stacked_bars,
)
from drfh.web.components.controls import container, heading, markup, section
from drfh.web.components.panel import Page
from drfh.web.session.answers import Answer, UserRow, user_rows

__all__ = ["SharesPanel", "keys", "server_table", "user_table"]

# Users in the chart of shares, with an explanation each.
_MOST_LISTED = 16


class SharesPanel:
    """Charts and tables of usage and shares."""

    def __init__(self) -> None:
        self._answer: Answer | None = None
        self._colours: dict[str, str] = {}

    def build(self, page: Page) -> None:
        """Make its elements."""
        with section("Who gets what", "drfh-panel"):
            self._headline = markup(testid="shares-headline")
            with container("tools"):
                self._find_users = self._search("Find users", "find-users")
                self._find_groups = self._search("Find server groups", "find-groups")
            heading("How full the servers are, and with whose tasks")
            self._keys = markup(testid="shares-keys")
            self._bars = _chart("shares-bars", "How full the servers are")
            with ui.element("details").props("data-testid=shares-servers"):
                ui.label("The same as a table").tag = "summary"
                self._server_table = markup(testid="shares-server-table")
            heading("What everybody has, and what limits it")
            markup(_SHARE_KEYS)
            self._shares = _chart("shares-shares", "Dominant share of each user")
            self._user_table = markup(testid="shares-user-table")

    def _search(self, label: str, name: str) -> ui.input:
        field = ui.input(label, on_change=lambda: self._draw())
        return field.props(f'dense clearable debounce=200 data-testid={name} aria-label="{label}"')

    def show(self, answer: Answer) -> None:
        """Show an answer."""
        self._answer = answer
        self._draw()

    def _draw(self) -> None:
        if self._answer is None:
            return
        answer = self._answer
        users, groups = self._find_users.value or "", self._find_groups.value or ""
        stacked = stacked_bars(answer, users, groups)
        self._colours = colours_of(stacked.users, self._colours)
        # Nothing to find where everything is there already.
        self._find_users.set_visibility(bool(users or stacked.others))
        self._find_groups.set_visibility(bool(groups or stacked.joined))
        self._headline.set_content(_headline(answer))
        self._keys.set_content(keys(stacked, self._colours))
        _redraw(self._bars, stack_options(stacked, self._colours), bars_height(stacked))
        self._server_table.set_content(server_table(stacked))
        rows = self._rows(answer, users)
        _redraw(self._shares, share_options(rows, self._colours), shares_height(rows))
        self._user_table.set_content(user_table(rows, len(answer.allocation.problem.users)))

    def _rows(self, answer: Answer, find: str) -> list[UserRow]:
        """Return the users that are listed, each with a sentence."""
        rows = user_rows(answer)
        names, sizes = [row.user for row in rows], np.array([row.share for row in rows])
        return [
            replace(rows[i], limiting=rows[i].limiting or explain(answer.allocation, i))
            for i in select_largest(names, sizes, find, _MOST_LISTED)
        ]


_SHARE_KEYS = tag(
    "p",
    Markup(
        'Bars: how much of its dominant resource each user has. <span><i class="ideal"></i>'
        "in the fair allocation: what the exact DRFH answer gives it</span>"
    ),
    "keys note",
)


def _chart(name: str, label: str) -> ui.echart:
    chart = ui.echart({"series": []}, renderer="svg").classes("chart")
    return chart.props(f'data-testid={name} role=img aria-label="{label}"')


def _redraw(chart: ui.echart, options: dict[str, object], height: int) -> None:
    chart.style(f"height: {height}px")
    chart.options.clear()
    chart.options.update(options)
    chart.update()


def _headline(answer: Answer) -> Markup:
    used = answer.allocation.utilisation
    parts = ", ".join(
        f"{format_percent(part, trim=True)} of all {name}" for name, part in used.items()
    )
    total = float(answer.allocation.assignment.user_tasks.sum())
    text = f"{answer.mechanism} runs {format_number(total, 5)} tasks and uses {parts}."
    return tag("p", text, "headline")


def keys(stacked: StackedBars, colours: dict[str, str]) -> Markup:
    """Return the key to the colours.

    Examples
    --------
    >>> import numpy as np
    >>> empty = np.zeros((0, 0, 1))
    >>> stacked = StackedBars((), (), (), ("<ann>",), 0, 0, np.zeros((0, 0)), empty)
    >>> print(keys(stacked, {"<ann>": "#2d7dc4"}))
    <p class="keys"><span><i style="background: #2d7dc4"></i>&lt;ann&gt;</span>\
<span><i class="free"></i>free</span></p>
    """
    parts = []
    for name in stacked.names:
        colour = colours.get(name, OTHERS) if name in stacked.users else OTHERS
        parts.append(f'<span><i style="background: {colour}"></i>{escape(name)}</span>')
    parts.append('<span><i class="free"></i>free</span>')
    return tag("p", Markup("".join(parts)), "keys")


def server_table(stacked: StackedBars) -> Markup:
    """Return the bars as a table: what each user holds, and what is free.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.web.session.answers import answer_of
    >>> from drfh.web.session.workbook import Workbook
    >>> stacked = stacked_bars(answer_of(Workbook(load_scenario("paper-two-servers"))))
    >>> "<td>high-memory, 1 server</td><td>cpu</td>" in server_table(stacked)
    True
    """
    rows: list[list[Content]] = []
    for group, resource in stacked.bars:
        line = (group, resource)
        rows.append(
            [
                f"{stacked.groups[group]}, {stacked.notes[group]}",
                stacked.resources[resource],
                *(
                    Cell(format_amount(amount), "number")
                    for amount in (stacked.capacity[line], *stacked.used[line], stacked.free[line])
                ),
            ]
        )
    return table(["server group", "resource", "there is", *stacked.names, "free"], rows)


def user_table(rows: list[UserRow], everybody: int) -> Markup:
    """Return what users have, and what limits each.

    Parameters
    ----------
    rows
        Who is listed.
    everybody
        How many users there are.

    Examples
    --------
    >>> from drfh.allocation.explain import Explanation, LimitCode
    >>> found = Explanation("ann", "has 10 tasks", "cpu is used up on big", LimitCode.USED_UP)
    >>> row = UserRow("ann", 1.0, None, 10.0, 0.5, 0.5, 0.6, "cpu", None, 8.0, True, found)
    >>> shown = user_table([row], 1)
    >>> "10 claimed, 8 really" in shown, ">cpu is used up on big.<" in shown
    (True, True)
    """
    if not rows:
        return tag("p", "No user has this in its name.", "note")
    lines: list[list[Content]] = []
    for row in rows:
        tasks = format_number(row.tasks, 5)
        if row.lying:
            tasks = f"{tasks} claimed, {format_number(row.real, 5)} really"
        elif row.promised is not None:
            tasks = f"{tasks} of {format_number(row.promised, 5)} promised"
        share = f"{format_percent(row.share, trim=True)} of {row.dominant}"
        lines.append(
            [
                Cell(tag("b", row.user)),
                Cell(tasks, "number"),
                Cell(share, "number"),
                Cell(format_percent(row.ideal, trim=True), "number"),
                Cell(_reason(row), "wrap"),
            ]
        )
    head = ["user", "tasks", "dominant share", "in the fair allocation", "what limits it"]
    shown = table(head, lines, "cards labelled")
    if len(rows) == everybody:
        return shown
    text = f"{len(rows):,} of {everybody:,} users: find the others by name."
    return Markup(shown + tag("p", text, "note"))


def _reason(row: UserRow) -> str:
    """Return what limits a user, without its name and the numbers that stand beside it."""
    found = row.limiting
    if found is None:
        return ""
    return f"{found.reason}." if found.stopped else f"it {found.predicate}"
