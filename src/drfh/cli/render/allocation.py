"""Allocations as text: tables with small bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drfh.allocation.proofs.certificate import proof_text
from drfh.cli.render.console import bar, console, lines, table
from drfh.formatting import format_count, format_elapsed, format_number, format_percent, format_rest

if TYPE_CHECKING:
    import polars

    from drfh.allocation.allocation import Allocation
    from drfh.allocation.explain import Explanation
    from drfh.allocation.proofs.certificate import Verification

__all__ = [
    "print_allocation",
    "print_change",
    "print_placement",
    "print_verification",
    "unproven",
]

_MOST_ROWS = 24
_NUMBERS = ("weight", "tasks", "of", "share", "divisible", "promised", "servers", "before",
            "after", "change")  # fmt: skip


def _number(value: float | None) -> str:
    return "∞" if value is None else format_number(value, 6)


def _rest(total: int, shown: int, thing: str, where: str = "--csv and --json have") -> str:
    return format_rest(total - shown, thing, f"more (--all shows them, {where} them)")


def print_allocation(allocation: Allocation, title: str = "", *, everyone: bool = False) -> None:
    """Print users, server groups and the proof."""
    out = console()
    if title:
        out.print(title, style="bold")
    out.print(allocation.problem.cluster.summary)
    out.print()
    _print_users(out, allocation, everyone)
    _print_groups(out, allocation, everyone)
    if len(allocation.users) <= _MOST_ROWS:
        _print_reasons(out, allocation)
    _print_proof(out, allocation)


def _print_users(out: Any, allocation: Allocation, everyone: bool) -> None:
    frame = allocation.user_table()
    columns = ["user", "weight", "tasks"]
    limited = frame["limit"].null_count() < len(frame)
    columns += ["of"] * limited
    columns += [name for name in ("promised", "divisible") if name in frame.columns]
    columns += ["share", "", "largest in"]
    grid = table(*columns, right=_NUMBERS)
    shown = frame if everyone else frame.head(_MOST_ROWS)
    more = [name for name in ("promised", "divisible") if name in frame.columns]
    kinds = _kinds_by_user(allocation)
    for row in shown.iter_rows(named=True):
        cells = [row["user"], f"{row['weight']:g}", _number(row["tasks"])]
        cells += [_number(row["limit"])] * limited
        cells += [_number(row[name]) for name in more]
        cells += [format_percent(row["share"]), bar(row["share"]), row["dominant"]]
        grid.add_row(*cells)
        for kind in kinds.get(row["user"], ()):
            cells = [f"  {kind['kind']}", "", _number(kind["tasks"])]
            cells += [_number(kind["limit"])] * limited
            grid.add_row(*cells, *[""] * (len(more) + 3), style="dim")
    out.print(grid)
    if len(shown) < len(frame):
        out.print(_rest(len(frame), len(shown), "user"))


def _kinds_by_user(allocation: Allocation) -> dict[str, list[dict[str, Any]]]:
    """Return the kinds of tasks of the users that have several."""
    found: dict[str, list[dict[str, Any]]] = {}
    if allocation.problem.mixes is not None:
        for row in allocation.kind_table().iter_rows(named=True):
            if row["kind"] is not None:
                found.setdefault(row["user"], []).append(row)
    return found


def _print_reasons(out: Any, allocation: Allocation) -> None:
    """Print what limits the users, those that are limited alike in one line."""
    from drfh.allocation.explain import explain

    alike: dict[Any, list[Explanation]] = {}
    cache: dict[Any, Any] = {}
    for position in range(min(len(allocation.problem.users), _MOST_ROWS)):
        found = explain(allocation, position, cache)
        alike.setdefault((found.code, found.about), []).append(found)
    out.print("Why not more")
    for some in alike.values():
        names = ", ".join(one.user for one in some)
        out.print(f"  {names}: {some[0].reason or some[0].outcome}")
    out.print()


def _print_groups(out: Any, allocation: Allocation, everyone: bool) -> None:
    frame = allocation.group_table()
    resources = allocation.problem.cluster.resources
    totals = list(allocation.utilisation.values())
    shown = frame if everyone else frame.head(_MOST_ROWS)
    # Bars go first when the terminal is narrow, then the table is split; names and numbers stay.
    left = max(len(str(name)) for name in [*shown["group"], "group"]) + 11
    widths = [max(len(resource), 7) + 3 for resource in resources]
    bars = left + sum(widths) + 9 * len(resources) <= out.width
    for part in _parts(widths, out.width - left - 1, bars):
        headers: list[str] = []
        for r in part:
            headers += [resources[r], ""] if bars else [resources[r]]
        grid = table("group", "servers", *headers, right=(*_NUMBERS, *resources))
        rows = [(*row[:2], *(row[2 + r] for r in part)) for row in shown.iter_rows()]
        for group, servers, *used in rows:
            grid.add_row(group, f"{servers:,}", *_used_cells(used, bars))
        if len(frame) > 1:
            grid.add_section()
            cells = _used_cells([totals[r] for r in part], bars)
            grid.add_row("all", f"{allocation.problem.cluster.size:,}", *cells)
        out.print(grid)
    if len(shown) < len(frame):
        out.print(_rest(len(frame), len(shown), "group", "--json has"))


def _parts(widths: list[int], available: int, together: bool) -> list[list[int]]:
    """Return columns that fit side by side."""
    parts: list[list[int]] = [[]]
    used = 0
    for column, width in enumerate(widths):
        if parts[-1] and used + width > available and not together:
            parts.append([])
            used = 0
        parts[-1].append(column)
        used += width
    return parts


def _used_cells(used: list[float | None], bars: bool) -> list[str]:
    cells: list[str] = []
    for part in used:
        cells += [format_percent(part), bar(part or 0.0, 6)] if bars else [format_percent(part)]
    return cells


def _print_proof(out: Any, allocation: Allocation) -> None:
    time = format_elapsed(allocation.seconds, in_milliseconds=True)
    head = f"{allocation.mechanism}, {allocation.method}, {time}"
    certificate = allocation.certificate
    if certificate is not None:
        style = None if certificate.closed else "bold red"
        out.print(f"{allocation.mechanism}, {time}: {proof_text(certificate)}", style=style)
    elif allocation.loss is not None:
        name, loss = allocation.worst_off() or ("", 0.0)
        who = f" ({name} is worst off)" if loss > 0 else ""
        out.print(f"{head}: loses {format_percent(loss)} against divisible tasks{who}")
    else:
        out.print(head)
    for note in allocation.notes:
        out.print(f"note: {note}", style="yellow")


def unproven(allocation: Allocation) -> str | None:
    """Return the warning for an allocation whose certificate is open, or None."""
    certificate = allocation.certificate
    if certificate is None or certificate.closed:
        return None
    return proof_text(certificate)


def print_verification(
    allocation: Allocation, checked: Verification, *, stderr: bool = False
) -> None:
    """Print how an allocation was found, its gap, and what was checked."""
    out = console(stderr=stderr)
    certificate = allocation.certificate
    if certificate is not None:
        rounds = getattr(certificate, "rounds", ())
        tail = f" in {format_count(len(rounds), 'round')}" if rounds else ""
        out.print(f"found by {allocation.method}{tail}, relative gap {certificate.gap:.1e}")
    out.print(lines(*str(checked).splitlines()))


def print_change(
    before: Allocation, after: Allocation, title: str = "", *, everyone: bool = False
) -> None:
    """Print what a change does to every user and to the pool."""
    out = console()
    if title:
        out.print(title, style="bold")
    out.print(f"before: {before.problem.cluster.summary}")
    out.print(f"after:  {after.problem.cluster.summary}")
    out.print()
    numbers = ("tasks before", "tasks after", "change", "share before", "share after")
    grid = table("user", *numbers, right=numbers)
    rows = list(
        zip(
            (user.name for user in after.users),
            before.tasks.values(),
            after.tasks.values(),
            before.shares.values(),
            after.shares.values(),
            strict=True,
        )
    )
    if not everyone:
        # The largest changes first when not all can be shown.
        if len(rows) > _MOST_ROWS:
            rows.sort(key=lambda row: -abs(row[2] - row[1]) / max(row[1], row[2], 1e-300))
        rows = rows[:_MOST_ROWS]
    for name, old, new, old_share, new_share in rows:
        style = "green" if new > old * (1 + 1e-9) else "red" if new < old * (1 - 1e-9) else None
        shares = [format_percent(old_share), format_percent(new_share)]
        grid.add_row(name, _number(old), _number(new), _relative(old, new), *shares, style=style)
    out.print(grid)
    if len(rows) < len(after.users):
        out.print(_rest(len(after.users), len(rows), "user"))
    use = table("resource", "used before", "used after", right=("used before", "used after"))
    old_use, new_use = before.utilisation, after.utilisation
    for resource in dict.fromkeys((*old_use, *new_use)):
        use.add_row(
            resource, format_percent(old_use.get(resource)), format_percent(new_use.get(resource))
        )
    out.print(use)
    if len(after.users) <= _MOST_ROWS:
        _print_reasons(out, after)
    _print_proof(out, after)


def _relative(old: float, new: float) -> str:
    if old == 0:
        return "new" if new > 0 else "–"
    change = new / old - 1
    if abs(change) < 5e-10:
        return "–"
    return format_percent(change, signed=True)


def print_placement(frame: polars.DataFrame, *, everyone: bool) -> None:
    """Print who runs where.

    Parameters
    ----------
    frame
        User, kind where there are several, server or group, and tasks.
    everyone
        All rows, however many.
    """
    out = console()
    grid = table(*frame.columns, right=_NUMBERS)
    shown = frame if everyone else frame.head(4 * _MOST_ROWS)
    for *names, tasks in shown.iter_rows():
        grid.add_row(*(name or "" for name in names), _number(tasks))
    out.print(grid)
    if len(shown) < len(frame):
        out.print(_rest(len(frame), len(shown), "row"))
