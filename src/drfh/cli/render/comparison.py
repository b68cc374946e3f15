"""Comparisons as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from drfh.allocation.proofs.certificate import proof_text
from drfh.cli.render.audit import MARKS
from drfh.cli.render.console import (
    Column,
    bar,
    console,
    print_columns,
    print_json,
    print_line,
    table,
)
from drfh.formatting import format_count, format_number, format_percent, format_rest

if TYPE_CHECKING:
    import polars

    from drfh.allocation.allocation import Allocation
    from drfh.auditor.comparison import Comparison, Row

__all__ = ["print_comparison", "print_mechanisms"]

_MOST_USERS = 12  # that have a column each
_MOST_PROMISES = 8
_ROUND_OFF = 1e-6
_BELOW = 0.01  # of its DRFH level, and a user is marked


def print_comparison(comparison: Comparison, *, everyone: bool = False) -> None:
    """Print promises, then a row a mechanism."""
    out = console()
    if comparison.scenario.title:
        out.print(comparison.scenario.title, style="bold")
    print_line(comparison.scenario.cluster.summary)
    out.print()
    _print_promises(out, comparison, everyone)
    if comparison.answered:
        _print_tasks(out, comparison, everyone)
        _print_quality(out, comparison)
    same = comparison.same_as_drfh()
    if same:
        print_line(f"same tasks as drfh: {', '.join(same)}")
    single = _of_one_kind(comparison)
    if single:
        text = f"no answer for several kinds of tasks a user: {', '.join(single)}"
        print_line(text, style="yellow")
    for row in comparison.rows:
        if row.name in single:
            continue
        if row.allocation is None:
            print_line(f"{row.name}: no answer, {row.why_not}", style="yellow")
        elif row.allocation.certificate is not None and not row.allocation.certificate.closed:
            text = proof_text(row.allocation.certificate)
            print_line(f"{row.name}: {text}", style="bold red")


def _of_one_kind(comparison: Comparison) -> list[str]:
    """Return the mechanisms that have no answer because a user has several kinds of tasks."""
    from drfh.auditor.comparison import WHOLE_TASKS
    from drfh.mechanisms import TAKE_KINDS, find_mechanism

    if not any(user.kinds for user in comparison.scenario.users):
        return []
    names = [row.name for row in comparison.rows if row.allocation is None]
    return [n for n in names if n != WHOLE_TASKS and find_mechanism(n)[1] not in TAKE_KINDS]


def _print_promises(out: Any, comparison: Comparison, everyone: bool) -> None:
    """Print what pooled shares promise, and what part of it can be placed."""
    promises = comparison.promises().partition_by("mechanism", maintain_order=True)
    if not promises:
        return
    first, *others = promises
    name, worst, hit = first["mechanism"][0], *_worst(first)
    if not hit:
        print_line(f"{name} adds the servers up as if they were one: all that it promises can be "
             "placed here")  # fmt: skip
    else:
        print_line(
            f"{name} adds the servers up as if they were one: {worst['user']} is promised "
            f"{format_number(worst['promised'])} tasks and {format_number(worst['placed'])} can "
            "be placed "
            f"({format_percent(worst['gap'])} missing); {_count(hit, first)}",
        )
        _print_missing(out, first, everyone)
    for frame in others:
        worst, hit = _worst(frame)
        text = "all that it promises can be placed"
        if hit:
            text = f"{worst['user']} misses {format_percent(worst['gap'])}; {_count(hit, frame)}"
        print_line(f"{frame['mechanism'][0]}, pooled too: {text}")
    if others or not hit:
        out.print()


def _worst(promises: polars.DataFrame) -> tuple[dict[str, Any], int]:
    """Return who misses most, and how many miss something."""
    worst = max(promises.iter_rows(named=True), key=lambda row: round(row["gap"], 9))
    return worst, int((promises["gap"] > _ROUND_OFF).sum())


def _count(hit: int, promises: polars.DataFrame) -> str:
    one = hit == 1
    return (
        f"{hit:,} of {format_count(len(promises), 'user')} {'misses' if one else 'miss'} something"
    )


def _print_missing(out: Any, promises: polars.DataFrame, everyone: bool) -> None:
    """Print those who miss something, the worst first."""
    rows = [row for row in promises.iter_rows(named=True) if row["gap"] > _ROUND_OFF]
    rows.sort(key=lambda row: -round(row["gap"], 9))
    shown = rows if everyone or len(rows) <= _MOST_USERS else rows[:_MOST_PROMISES]
    columns = [
        Column("promised", [format_number(row["promised"]) for row in shown]),
        Column("placed", [format_number(row["placed"]) for row in shown]),
        Column("missing", [format_percent(row["gap"]) for row in shown]),
        Column("", [bar(row["gap"]) for row in shown], right=False, spare=1),
    ]
    print_columns(out, Column("user", [row["user"] for row in shown], right=False), [columns])
    if len(shown) < len(rows):
        print_line(format_rest(len(rows) - len(shown), "user", "more (--all shows them)"))
        out.print()


def _print_tasks(out: Any, comparison: Comparison, everyone: bool) -> None:
    answers = _answers(comparison)
    many = len(comparison.scenario.users) > _MOST_USERS and not everyone
    print_line(f"{'Share' if many else 'Tasks'} of each user, and how full the cluster is")
    pool = [Column("in all", [format_number(float(a.task_vector.sum())) for a in answers])]
    used = [answer.utilisation for answer in answers]
    pool += [
        Column(resource, [format_percent(part[resource]) for part in used])
        for resource in comparison.scenario.cluster.resources
    ]
    users = _spread(comparison) if many else _each(comparison)
    print_columns(out, _names(comparison), [users, pool])
    if many:
        count = format_count(len(comparison.scenario.users), "user")
        print_line(f"worst off: tasks, and how many drfh gives (--all shows all {count})")
        out.print()
        return
    marks = {cell[0] for column in users for cell in column.cells if cell}
    if "▼" in marks:
        also = ", ▽ also below them by more than 1 %" if "▽" in marks else ""
        print_line(f"▼ furthest below its tasks with drfh{also}")
        out.print()


def _answers(comparison: Comparison) -> list[Allocation]:
    return [row.allocation for row in comparison.answered if row.allocation is not None]


def _names(comparison: Comparison) -> Column:
    return Column("mechanism", [row.name for row in comparison.answered], right=False)


def _each(comparison: Comparison) -> list[Column]:
    """Return columns of each user: tasks, marked where fewer than with DRFH, and the share."""
    names = [user.name for user in comparison.scenario.users]
    tasks = np.array([answer.task_vector for answer in _answers(comparison)])
    fair = np.array([comparison.fair.get(name, 0.0) for name in names])
    below = np.where(fair > 0, 1 - tasks / np.where(fair > 0, fair, 1.0), 0.0)
    most = below.max(axis=1, initial=_BELOW, keepdims=True) - _ROUND_OFF
    signs = np.where(below >= most, "▼ ", np.where(below > _BELOW, "▽ ", ""))
    signs = np.where(below > _BELOW, signs, "")
    shares = np.array([answer.share_vector for answer in _answers(comparison)])
    columns = []
    for i, name in enumerate(names):
        marked = zip(signs[:, i].tolist(), tasks[:, i].tolist(), strict=True)
        columns.append(Column(name, [f"{sign}{format_number(value)}" for sign, value in marked]))
        columns.append(
            Column("share", [format_percent(part) for part in shares[:, i].tolist()], spare=1)
        )
    return columns


def _spread(comparison: Comparison) -> list[Column]:
    """Return the least, the median and the largest share, and who is worst off."""
    shares = [answer.share_vector for answer in _answers(comparison)]
    columns = [
        Column(name, [format_percent(float(np.quantile(share, part))) for share in shares])
        for name, part in (("least", 0.0), ("median", 0.5), ("most", 1.0))
    ]
    worst = [_worst_off(row, comparison) for row in comparison.answered]
    return [*columns, Column("worst off", worst, right=False)]


def _worst_off(row: Row, comparison: Comparison) -> str:
    if row.allocation is None or not row.worst_off:
        return "–"
    has = row.allocation.tasks[row.worst_off]
    return (
        f"{row.worst_off}: {format_number(has)} of {format_number(comparison.fair[row.worst_off])}"
    )


def _print_quality(out: Any, comparison: Comparison) -> None:
    rows = comparison.answered
    columns = [
        Column("from fair", [format_percent(row.distance) for row in rows], wraps=True),
        Column("", [bar(row.distance, 6) for row in rows], right=False, spare=1),
        Column("worst off", [row.worst_off or "–" for row in rows], right=False, wraps=True),
        *(
            Column(name, [_mark(row, name) for row in rows], right=False, wraps=True)
            for name in comparison.properties
        ),
        Column("seconds", [f"{row.seconds:.3f}" for row in rows], spare=2),
    ]
    print_line("How fair (distance from the DRFH optimum, and properties that were measured)")
    print_columns(out, _names(comparison), [columns])


def _mark(row: Row, name: str) -> str:
    finding = row.marks[name]
    mark = MARKS[finding.verdict]
    return f"{mark} {format_percent(finding.amount)}" if finding.amount > 0 else mark


def print_mechanisms(*, as_json: bool) -> None:
    """Print the mechanisms by name, each with its first sentence."""
    from drfh.auditor.comparison import WHOLE_TASKS
    from drfh.mechanisms import MECHANISMS
    from drfh.mechanisms.shared.card import card_of

    summaries = {name: card_of(function).summary for name, function in MECHANISMS.items()}
    summaries[WHOLE_TASKS] = "drfh filled in with whole tasks, the lowest level first, by Best-Fit."
    if as_json:
        print_json({"mechanisms": summaries})
        return
    grid = table("mechanism", "what it does")
    grid.columns[0].no_wrap = True
    for name, summary in summaries.items():
        grid.add_row(name, summary)
    console().print(grid)
