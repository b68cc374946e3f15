"""Tables of a reproduction: Table II, who is ahead, who loses by sharing, audit, choices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from drfh.report.parts import MARKS, Cell, Content, Markup, join, part_text, table, tag
from drfh.report.reproduction_charts import Tables, mean_and_spread, one_name_for_slots

__all__ = ["choices_table", "has_rows", "tables_of"]

_FALLEN = 12
_LONG_NAME = 14


def has_rows(tables: Tables, name: str) -> bool:
    """Return whether a table is there, and not empty.

    Examples
    --------
    >>> has_rows({"audit": pl.DataFrame()}, "audit")
    False
    """
    return name in tables and len(tables[name]) > 0


def tables_of(section: str, tables: Tables) -> list[str]:
    """Return what stands below the figures of a section.

    Examples
    --------
    >>> tables_of("slots", {})
    []
    """
    if section == "slots" and has_rows(tables, "slots"):
        return [_slots_table(tables["slots"])]
    if section == "utilisation" and has_rows(tables, "ahead"):
        return [_ahead_table(tables["ahead"])]
    if section == "sharing" and has_rows(tables, "sharing"):
        return _fallen_table(tables["sharing"])
    if section == "fairness" and has_rows(tables, "audit"):
        return [
            Markup("<h3>The paper's seven properties, audited at a busy moment</h3>"),
            _audit_table(tables["audit"]),
        ]
    return []


def _slots_table(frame: pl.DataFrame) -> Markup:
    """Return Table II: the paper's row on top, ours below, CPU and memory of each number."""
    numbers = frame["slots"].unique().sort().to_list()
    rows: list[list[Content]] = []
    rules = frame.select("source", "count_rule", "oversize").unique(maintain_order=True)
    for source, count, oversize in rules.rows():
        same = pl.col("source") == source
        if source != "paper":
            same &= (pl.col("count_rule") == count) & (pl.col("oversize") == oversize)
        own = frame.filter(same)
        name = "the paper" if source == "paper" else f"{count} count, {oversize}"
        cells: list[Content] = [name]
        for number in numbers:
            of_number = own.filter(pl.col("slots") == number)
            means: list[Any] = [of_number[c].mean() for c in ("cpu", "memory")]
            known = all(mean is not None for mean in means)
            cells.append(
                Cell(" | ".join(f"{100 * m:.1f}" for m in means) if known else "–", "number")
            )
        rows.append(cells)
    head = ["CPU | memory in use, %", *(f"{number} slots" for number in numbers)]
    return table(head, rows)


def _ahead_table(frame: pl.DataFrame) -> Markup:
    """Return for which part of the time the first of two is ahead."""
    frame = frame.with_columns(
        one_name_for_slots(frame, "first"), one_name_for_slots(frame, "second")
    )
    keys = ["first", "second", "blocked"]
    resources = frame["resource"].unique(maintain_order=True).to_list()
    rows: list[list[Content]] = []
    for (first, second, blocked), part in frame.group_by(keys, maintain_order=True):
        cells: list[Content] = [f"{first} over {second}", str(blocked)]
        for resource in resources:
            own = part.filter(pl.col("resource") == resource)
            times = own["part_of_time"].to_list()
            mean: Any = own["mean_difference"].mean()
            value: Any = own["part_of_time"].mean()
            cells += [
                Cell(mean_and_spread(times), "part", value),
                Cell(f"{100 * mean:+.2f}" if mean is not None else "–", "number"),
            ]
        rows.append(cells)
    head = ["", "blocked users"]
    for resource in resources:
        head += [f"{resource}: time ahead", "points"]
    note = "For which part of the time more is in use, and by how many points on average."
    return join([table(head, rows), tag("p", note, "note")])


def _fallen_table(frame: pl.DataFrame) -> list[str]:
    """Return who loses most by sharing, under the first rule and seed."""
    first = frame.filter(
        (pl.col("seed") == frame["seed"][0]) & (pl.col("blocked") == frame["blocked"][0])
    )
    lost = first.with_columns((pl.col("shared") - pl.col("dedicated")).alias("gain")).filter(
        (pl.col("tasks") > 0) & (pl.col("gain") < -1e-9)
    )
    if not len(lost):
        return [tag("p", "Nobody gets less done in the shared cloud.", "note")]
    worst = lost.sort("gain").head(_FALLEN)
    rows: list[list[Content]] = [
        [
            _short(str(row["user"])),
            row["tasks"],
            row["servers"],
            Cell(part_text(row["largest_task"]), "number"),
            Cell(part_text(row["shared"]), "part", row["shared"]),
            Cell(part_text(row["dedicated"]), "part", row["dedicated"]),
            Cell(f"{100 * row['gain']:+.1f}", "number"),
        ]
        for row in worst.iter_rows(named=True)
    ]
    head = ["user", "tasks", "own servers", "largest task", "done, shared", "done, own", "points"]
    note = (
        f"Who loses most by sharing (blocked users: {frame['blocked'][0]}, seed "
        f"{frame['seed'][0]}): {len(worst)} of {len(lost)}. Largest task: its dominant share of "
        "the largest server."
    )
    return [tag("p", note, "note"), table(head, rows)]


def _short(name: str) -> Cell:
    """Return a name that fits: Google's users have names of 44 letters that say nothing."""
    return Cell(name if len(name) <= _LONG_NAME else f"{name[:_LONG_NAME]}…", title=name)


def _audit_table(frame: pl.DataFrame) -> Markup:
    rows: list[list[Content]] = []
    for row in frame.iter_rows(named=True):
        sign, kind = MARKS.get(row["verdict"], ("?", "nothing"))
        rows.append(
            [
                Cell(f"{sign} {row['verdict']}", f"mark {kind}"),
                Cell(row["property"], "name"),
                Cell(row["text"] or "", "wrap"),
            ]
        )
    return table(["verdict", "property", "what was found"], rows, "cards")


def choices_table(setup: Mapping[str, Any]) -> Markup:
    """Return every choice and its value.

    Examples
    --------
    >>> choices_table({"data": None}).partition("<tr>")[2].splitlines()[1]
    '<tr><td>data</td><td class="wrap">–</td></tr></table></div>'
    """
    rows: list[list[Content]] = []
    for name, value in setup.items():
        shown = ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else value
        rows.append([name.replace("_", " "), Cell("–" if shown is None else str(shown), "wrap")])
    return table(["choice", "value"], rows)
