"""Comparisons as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drfh.cli.audit_text import MARKS
from drfh.cli.output import bar, console, percent, print_json, table
from drfh.resources import some

if TYPE_CHECKING:
    from drfh.comparison import Comparison, Row

__all__ = ["print_comparison", "print_mechanisms"]

_MOST_USERS = 4  # that have a column each
_MOST_PROMISES = 8


def print_comparison(comparison: Comparison) -> None:
    """Print promises, then a row a mechanism."""
    out = console()
    if comparison.scenario.title:
        out.print(comparison.scenario.title, style="bold")
    out.print(repr(comparison.scenario.cluster)[8:-1])
    out.print()
    _print_promises(out, comparison)
    _print_tasks(out, comparison)
    _print_quality(out, comparison)
    for row in comparison.rows:
        if row.allocation is None:
            out.print(f"{row.name}: no answer, {row.why_not}", style="yellow")
        elif row.allocation.certificate is not None and not row.allocation.certificate.closed:
            gap = row.allocation.certificate.gap
            out.print(f"{row.name}: NOT proven, relative gap {gap:.1e}", style="bold red")


def _print_promises(out: Any, comparison: Comparison) -> None:
    """Print what pooled shares promise, and what part of it can be placed."""
    frame = comparison.promises()
    if len(frame) == 0:
        return
    first = frame["mechanism"][0]
    mine = frame.filter(frame["mechanism"] == first)
    promised, placed = (float(mine[column].sum()) for column in ("promised", "placed"))
    out.print(
        f"{first} adds the servers up as if they were one: of {promised:,.6g} promised tasks "
        f"{percent(1 - placed / promised if promised else 0.0)} cannot be placed"
    )
    grid = table("user", "promised", "placed", "gap", "", right=("promised", "placed", "gap"))
    shown = mine.sort("gap", descending=True).head(_MOST_PROMISES) if len(mine) > 12 else mine
    for _, user, promise, place, gap in shown.iter_rows():
        grid.add_row(user, f"{promise:,.6g}", f"{place:,.6g}", percent(gap), bar(gap))
    out.print(grid)
    if len(shown) < len(mine):
        out.print(f"… and {some(len(mine) - len(shown), 'user')} more (--json and --csv have them)")
        out.print()


def _print_tasks(out: Any, comparison: Comparison) -> None:
    names = [user.name for user in comparison.scenario.users]
    few = len(names) <= _MOST_USERS
    columns = names if few else ["least", "median", "most"]
    what = "tasks (share)" if few else "share"
    resources = list(comparison.scenario.cluster.resources)
    grid = table("mechanism", *columns, "tasks in all", *resources, right=(
        *columns, "tasks in all", *resources))  # fmt: skip
    for row in comparison.answered:
        grid.add_row(row.name, *_user_cells(row, few), *_pool_cells(row))
    out.print(f"{what[0].upper()}{what[1:]} of each user, and how full the cluster is")
    out.print(grid)


def _user_cells(row: Row, few: bool) -> list[str]:
    answer = row.allocation
    if answer is None:
        return []
    shares = answer.share_vector
    if few:
        tasks = answer.assignment.user_tasks
        return [
            f"{t:,.4g} ({percent(s)})" for t, s in zip(tasks.tolist(), shares.tolist(), strict=True)
        ]
    return [percent(float(v)) for v in (shares.min(), np.median(shares), shares.max())]


def _pool_cells(row: Row) -> list[str]:
    if row.allocation is None:
        return []
    total = float(row.allocation.assignment.user_tasks.sum())
    return [f"{total:,.5g}", *(percent(u) for u in row.allocation.utilisation.values())]


def _print_quality(out: Any, comparison: Comparison) -> None:
    grid = table(
        "mechanism", "from fair", "", "worst off", *comparison.properties, "seconds",
        right=("from fair", "seconds"),
    )  # fmt: skip
    for row in comparison.answered:
        marks = [_mark(row, name) for name in comparison.properties]
        grid.add_row(
            row.name, percent(row.distance), bar(row.distance, 6), row.worst_off or "–", *marks,
            f"{row.seconds:.3f}",
        )  # fmt: skip
    out.print("How fair (distance from the DRFH optimum, and properties that were measured)")
    out.print(grid)


def _mark(row: Row, name: str) -> str:
    finding = row.marks[name]
    mark = MARKS[finding.verdict]
    return f"{mark} {percent(finding.amount)}" if finding.amount > 0 else mark


def print_mechanisms(*, as_json: bool) -> None:
    """Print the mechanisms by name, each with its first sentence."""
    from drfh.mechanisms import MECHANISMS
    from drfh.mechanisms.card import card_of

    summaries = {name: card_of(function).summary for name, function in MECHANISMS.items()}
    if as_json:
        print_json(summaries)
        return
    grid = table("mechanism", "what it does")
    for name, summary in summaries.items():
        grid.add_row(name, summary)
    console().print(grid)
