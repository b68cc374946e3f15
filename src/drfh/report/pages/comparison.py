"""Page of a comparison: promised and placed, then each mechanism."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import polars

from drfh.allocation.proofs.certificate import proof_text
from drfh.auditor import PROPERTIES
from drfh.formatting import format_count, format_number, format_percent, format_rest, plural
from drfh.report.charts.comparison import FEW_USERS, promise_chart, users_chart
from drfh.report.html import (
    Cell,
    Content,
    Figure,
    Markup,
    bar,
    details,
    join,
    mark,
    page_of,
    save_page,
    table,
    tag,
)

if TYPE_CHECKING:
    from drfh.auditor.comparison import Comparison, Row

__all__ = ["comparison_headline", "save_comparison"]

_MOST_USERS = 1_000
_ROUND_OFF = 1e-6


def save_comparison(comparison: Comparison, path: str | os.PathLike[str], title: str = "") -> None:
    """Write a comparison (.html), or its main chart (.svg, .png, .pdf).

    The page needs no network, and is written whole or not at all.

    Parameters
    ----------
    comparison
        From :func:`drfh.auditor.comparison.compare`.
    path
        The file; what it ends in says what is written.
    title
        Head of the page.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from drfh import load_scenario
    >>> from drfh.auditor.comparison import compare
    >>> comparison = compare(load_scenario("paper-two-servers"), mechanisms=["drfh", "drf"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_comparison(comparison, f"{folder}/page.html")
    ...     "10 can be placed" in Path(f"{folder}/page.html").read_text()
    True
    """
    save_page(path, lambda: users_chart(comparison, title), lambda: _page(comparison, title))


def comparison_headline(comparison: Comparison) -> str:
    """Return the headline: the part of a pooled promise that can be placed.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.auditor.comparison import compare
    >>> comparison = compare(load_scenario("paper-two-servers"), mechanisms=["drfh", "drf"])
    >>> comparison_headline(comparison)
    'drf promises ann 11.667 tasks; 10 can be placed (14.3 % missing). 2 of 2 users miss something.'
    """
    promises = _main_promises(comparison)
    if promises is None:
        return _furthest(comparison)
    worst = promises.sort(-polars.col("gap").round(9), maintain_order=True).row(0, named=True)
    if worst["gap"] <= _ROUND_OFF:
        return f"All that {worst['mechanism']} promises can be placed on these servers."
    hit = promises.filter(polars.col("gap") > _ROUND_OFF).height
    return (
        f"{worst['mechanism']} promises {worst['user']} {format_number(worst['promised'], 5)} "
        "tasks; "
        f"{format_number(worst['placed'], 5)} can be placed "
        f"({format_percent(worst['gap'], trim=True)} missing). "
        f"{hit:,} of {format_count(len(promises), 'user')} "
        f"{plural(hit, 'misses', 'miss')} something."
    )


def _furthest(comparison: Comparison) -> str:
    rows = comparison.answered
    if not rows:
        return "No mechanism has an answer here."
    worst = max(rows, key=lambda row: row.distance)
    if worst.distance <= _ROUND_OFF:
        return "With every mechanism here, nobody is below its DRFH level."
    return (
        f"Furthest from fair: {worst.name}, with {worst.worst_off} "
        f"{format_percent(worst.distance, trim=True)} below its DRFH level."
    )


def _main_promises(comparison: Comparison) -> polars.DataFrame | None:
    """Return the promises that lead the page: those of drf, or the ones broken most."""
    pooled = [row for row in comparison.answered if row.gap is not None]
    if not pooled:
        return None
    names = [row.name for row in pooled]
    name = "drf" if "drf" in names else max(pooled, key=lambda row: row.gap or 0.0).name
    return comparison.promises().filter(polars.col("mechanism") == name)


def _page(comparison: Comparison, title: str) -> str:
    scenario = comparison.scenario
    parts: list[str | Figure] = [
        tag("p", comparison_headline(comparison), "headline"),
        tag("p", _summary(comparison), "summary"),
        *_promised(comparison),
    ]
    if comparison.answered:
        few = len(scenario.users) <= FEW_USERS
        parts += [
            tag("h2", "Who has how much"),
            tag("p", _users_note(comparison), "note"),
            Figure(
                users_chart(comparison), True, least=150 + 66 * len(scenario.users) if few else 0
            ),
            *_same(comparison),
            tag("h2", "Mechanisms"),
            _mechanisms(comparison),
            tag("h2", "How full the cluster is"),
            _utilisation(comparison),
        ]
        if comparison.properties:
            parts += [tag("h2", "Properties"), _properties(comparison)]
    missing = [row for row in comparison.rows if row.allocation is None]
    if missing:
        rows: list[list[Content]] = [[row.name, Cell(row.why_not, "wrap")] for row in missing]
        parts += [tag("h2", "Without an answer here"), table(["mechanism", "why"], rows)]
    return page_of(title or scenario.title or "Mechanisms side by side", parts)


def _summary(comparison: Comparison) -> str:
    cluster, users = comparison.scenario.cluster, len(comparison.scenario.users)
    number = len(comparison.answered)
    return (
        f"{format_count(number, 'mechanism')} side by side: {format_count(users, 'user')} on "
        f"{format_count(cluster.size, 'server')} in {format_count(len(cluster), 'group')}."
    )


def _promised(comparison: Comparison) -> list[str | Figure]:
    promises = _main_promises(comparison)
    if promises is None:
        return []
    hit = promises.filter(polars.col("gap") > _ROUND_OFF)
    name = promises["mechanism"][0]
    text = (
        f"Fair shares as they are computed today ({name}) add up all servers and share the sum, as "
        "if it were one big server. But a task needs all its resources on one server, so part of "
        "what is promised may have no place. "
    )
    if hit.is_empty():
        text += "Here all of it has."
    else:
        get = plural(len(hit), "gets less than its", "get less than their")
        text += f"Here {len(hit):,} of {len(promises):,} users {get} promise"
        half = _median(promises)
        text += (
            f"; half of all miss {format_percent(half, trim=True)} or more."
            if half > _ROUND_OFF
            else "."
        )
    rows: list[list[Content]] = [
        [row["user"], row["promised"], row["placed"], bar(row["gap"])]
        for row in promises.head(_MOST_USERS).iter_rows(named=True)
    ]
    users = table(["user", "promised", "can be placed", "missing"], rows)
    if len(promises) > _MOST_USERS:
        users = join([users, tag("p", format_rest(len(promises) - _MOST_USERS), "note")])
    parts: list[str | Figure] = [
        tag("h2", "What is promised, and what can be placed"),
        tag("p", text, "text"),
    ]
    if not hit.is_empty():
        parts.append(Figure(promise_chart(promises), True))
    short = len(promises) <= FEW_USERS and not hit.is_empty()
    parts.append(users if short else details(f"All {len(promises):,} users", users))
    others = _other_promises(comparison)
    if others:
        parts.append(others)
    return parts


def _median(promises: polars.DataFrame) -> float:
    values = promises["gap"].sort().to_list()
    return float(values[len(values) // 2])


def _other_promises(comparison: Comparison) -> Markup | None:
    """Return a line for each pooled mechanism, if there are several."""
    promises = comparison.promises()
    rows: list[list[Content]] = []
    for (name,), group in promises.group_by("mechanism", maintain_order=True):
        worst = group.sort(-polars.col("gap").round(9), maintain_order=True).row(0, named=True)
        hit = group.filter(polars.col("gap") > _ROUND_OFF)
        who = worst["user"] if len(hit) else ""
        rows.append([str(name), f"{len(hit):,} of {len(group):,}", who, bar(worst["gap"])])
    if len(rows) < 2:
        return None
    return table(["promises of", "users who miss something", "worst hit", "missing"], rows)


def _users_note(comparison: Comparison) -> str:
    if len(comparison.scenario.users) <= FEW_USERS:
        if any(row.name == "drfh" for row in comparison.answered):
            return "Tasks of each user. Blue: more than with DRFH; red: less."
        return "Tasks of each user. Red: less than with the mechanism that gives it the most."
    return (
        "Each line spans the shares per weight of all users; the bars hold the middle 80 % and "
        "50 %, the yellow tick is the median; a line that meets the right edge goes on. The red "
        "diamond is the user furthest below its DRFH level."
    )


def _same(comparison: Comparison) -> list[str | Figure]:
    same = comparison.same_as_drfh()
    return [tag("p", f"Same tasks as drfh: {', '.join(same)}.", "note")] if same else []


def _mechanisms(comparison: Comparison) -> Markup:
    def line(row: Row) -> list[Content]:
        answer = row.allocation
        if answer is None:
            raise ValueError("a row without an answer")
        proof = answer.certificate
        certificate = Cell("none")
        if proof is not None:
            text = "✔ proven" if proof.closed else f"✘ NOT proven, gap {proof.gap:.0e}"
            kind = "holds" if proof.closed else "fails"
            certificate = Cell(text, f"mark {kind}", title=proof_text(proof))
        return [
            Cell(tag("b", row.name)),
            bar(row.distance),
            row.worst_off or "nobody",
            float(answer.task_vector.sum()),
            None if row.gap is None else bar(row.gap),
            certificate,
            Cell(f"{row.seconds:.2g}", "number"),
        ]

    head = [
        "mechanism",
        "from fair",
        "worst off",
        "tasks in total",
        "promise missing",
        "proof",
    ]
    return table([*head, "seconds"], [line(row) for row in comparison.answered])


def _utilisation(comparison: Comparison) -> Markup:
    resources = comparison.scenario.cluster.resources
    rows: list[list[Content]] = []
    for row in comparison.answered:
        if row.allocation is not None:
            used = row.allocation.utilisation
            rows.append([Cell(tag("b", row.name)), *(bar(used[name]) for name in resources)])
    return table(["mechanism", *resources], rows)


def _properties(comparison: Comparison) -> Markup:
    rows: list[list[Content]] = []
    reasons: list[list[Content]] = []
    for row in comparison.answered:
        found = [row.marks.get(name) for name in comparison.properties]
        cells = [None if finding is None else mark(finding, short=True) for finding in found]
        rows.append([Cell(tag("b", row.name)), *cells])
        reasons += [
            [row.name, finding.name, Cell(finding.text, "wrap")]
            for finding in found
            if finding is not None and finding.verdict == "fails"
        ]
    titles = "; ".join(f"{name}: {PROPERTIES[name].title}" for name in comparison.properties)
    note = f"✔ holds, ✘ fails, ? searched and not found, · a measure, – not applicable. {titles}."
    parts = [table(["", *comparison.properties], rows), tag("p", note, "note")]
    if reasons:
        heading = f"Why: {format_count(len(reasons), 'failure')} in words"
        parts.append(details(heading, table(["mechanism", "property", "found"], reasons)))
    return join(parts, "\n")
