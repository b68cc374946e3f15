"""Pages and charts of a trace, and of two traces compared."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import altair
import polars as pl

from drfh.formatting import format_percent, format_points, format_quantity, format_rest, join_names
from drfh.report.charts.axes import Kind
from drfh.report.charts.trace import load_chart, panel, request_chart, spread_chart
from drfh.report.html import Cell, Content, Figure, bar, join, page_of, save_page, table, tag
from drfh.traces import Trace
from drfh.traces.compare import Difference, TraceComparison
from drfh.traces.labels import format_measure, headline, measure_labels, short_names
from drfh.traces.load import load_resources, offered_load, server_shapes, time_span
from drfh.traces.measure import describe, distributions, heaviest_users

__all__ = ["save_trace", "save_trace_comparison"]

_MOST_SHAPES = 30
_MOST_USERS = 30
_LEAST = 420
_QUANTILES = {"median": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
_KINDS: dict[str, Kind | None] = {"seconds": "seconds", "amount": None, "count": "count"}

Drawn = list[tuple[str, altair.Chart | altair.LayerChart]]


def save_trace(trace: Trace, path: str | os.PathLike[str], title: str = "") -> None:
    """Write the page of a trace (.html), or its charts (.svg, .png, .pdf).

    The page needs no network, and is written whole or not at all.

    Parameters
    ----------
    trace
        The trace.
    path
        The file; what it ends in says what is written.
    title
        Head of the page, by default the name of the trace.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from drfh.files.scenario_file import load_scenario
    >>> scenario = load_scenario("gpu-day")
    >>> trace = Trace("scenario", "gpu-day", scenario.cluster, scenario.workload, pl.DataFrame())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_trace(trace, f"{folder}/page.html")
    ...     "of the gpu" in Path(f"{folder}/page.html").read_text()
    True
    """
    load = offered_load(trace)
    name = title or short_names(trace)[0]
    save_page(
        path,
        lambda: panel([chart for _, chart in _figures(trace, load, titles=True)], name),
        lambda: _page(trace, load, name),
    )


def save_trace_comparison(
    comparison: TraceComparison,
    path: str | os.PathLike[str],
    title: str = "",
    simulated: Mapping[str, Any] | None = None,
) -> None:
    """Write the page of two traces (.html), or their charts (.svg, .png, .pdf).

    Parameters
    ----------
    comparison
        From :func:`drfh.traces.compare.compare`.
    path
        The file; what it ends in says what is written.
    title
        Head of the page, by default the names of the traces.
    simulated
        Utilisation under a policy: ``policy``, and ``a`` and ``b`` by resource.
    """
    names = short_names(comparison.a, comparison.b)
    head = title or f"{names[0]} and {names[1]}"
    save_page(
        path,
        lambda: panel([c for _, c in _both_figures(comparison, names, titles=True)], head),
        lambda: _comparison_page(comparison, names, head, simulated),
    )


def _pairs(resources: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of resources to draw: each against cpu, memory first."""
    if not resources:
        return []
    first = "cpu" if "cpu" in resources else resources[0]
    others = [name for name in resources if name != first]
    others.sort(key=lambda name: name != "memory")
    return [(first, other) for other in others[:3]]


def _asked(*traces: Trace) -> list[str]:
    return list(dict.fromkeys(name for trace in traces for name in trace.workload.resources))


def _kind(measure: str) -> Kind | None:
    return _KINDS.get(measure_labels(measure).kind, "plain")


def _figures(trace: Trace, load: pl.DataFrame, *, titles: bool = False) -> Drawn:
    name = short_names(trace)[0]
    found = distributions(trace)
    drawn: Drawn = []

    def add(heading: str, make: Any, *arguments: Any, **more: Any) -> None:
        drawn.append((heading, make(*arguments, title=heading if titles else "", **more)))

    pairs = _pairs(_asked(trace))
    for x, y in pairs[: 1 if titles else None]:
        add(f"What tasks ask for: {x} and {y}", request_chart, [(name, trace)], x, y)
    if not pairs:
        for measure in [m for m in found if m.startswith("request.")]:
            _add_spread(add, measure, [(name, found[measure])])
    resources = [r for r in load_resources(trace) if load[f"load.{r}"].count()]
    if resources and time_span(trace):
        heading = "Demand against capacity, if every task started when it arrives"
        add(heading, load_chart, [(name, load)], resources)
    for measure in ("duration", "job size"):
        if found[measure].size:
            _add_spread(add, measure, [(name, found[measure])])
    return drawn


def _add_spread(add: Any, measure: str, samples: Sequence[Any]) -> None:
    labels = measure_labels(measure)
    add(
        labels.heading,
        spread_chart,
        samples,
        labels.title,
        kind=_kind(measure),
        things=labels.things,
        log=labels.log_scale,
    )


def _both_figures(
    comparison: TraceComparison, names: Sequence[str], *, titles: bool = False
) -> Drawn:
    a, b = comparison.a, comparison.b
    drawn: Drawn = []

    def add(heading: str, make: Any, *arguments: Any, **more: Any) -> None:
        drawn.append((heading, make(*arguments, title=heading if titles else "", **more)))

    both = [r for r in a.workload.resources if r in b.workload.resources]
    traces = list(zip(names, (a, b), strict=True))
    for x, y in _pairs(both)[: 1 if titles else None]:
        add(f"What tasks ask for: {x} and {y}", request_chart, traces, x, y)
    loads = list(zip(names, (comparison.load_a, comparison.load_b), strict=True))
    for found in comparison.differences:
        if found.distance is None:
            continue
        if found.name.startswith("load."):
            resource = found.name.removeprefix("load.")
            add(measure_labels(found.name).heading, load_chart, loads, [resource])
        else:
            _add_spread(add, found.name, list(zip(names, (found.a, found.b), strict=True)))
    return drawn


def _page(trace: Trace, load: pl.DataFrame, title: str) -> str:
    facts = describe(trace, load)
    parts: list[str | Figure] = [
        tag("p", f"{headline(facts)}.", "headline"),
        tag("p", f"{trace.format}: {trace.source}", "summary"),
    ]
    for heading, chart in _figures(trace, load):
        parts += [tag("h2", heading), Figure(chart, stretch=True, least=_LEAST)]
    parts += [tag("h2", "Servers"), *_shapes(trace)]
    parts += [tag("h2", "The heaviest users"), *_users(trace)]
    if trace.counts:
        rows: list[list[Content]] = [[what, count] for what, count in trace.counts.items()]
        parts += [tag("h2", "What was read"), table(["what", "how many"], rows)]
    if trace.oddities:
        odd: list[list[Content]] = [[o.count, Cell(o.first, "wrap")] for o in trace.oddities]
        parts += [tag("h2", "What is broken"), table(["how many", "the first of its kind"], odd)]
    parts += [tag("p", remark, "note") for remark in trace.remarks]
    return page_of(title, parts)


def _shapes(trace: Trace) -> list[str]:
    shapes = server_shapes(trace.cluster)
    resources = trace.cluster.resources
    rows: list[list[Content]] = []
    for row in shapes.head(_MOST_SHAPES).iter_rows(named=True):
        amounts = [Cell(format_quantity(row[f"capacity.{r}"]), "number") for r in resources]
        rows.append([*amounts, row["servers"], bar(row["share"]), _labels(row["labels"])])
    head = [*resources, "servers", "of all", "labels"]
    if not any(row[-1] for row in rows):
        head, rows = head[:-1], [row[:-1] for row in rows]
    more = len(shapes) - len(rows)
    return [table(head, rows), *([tag("p", format_rest(more, "shape"))] if more else [])]


def _labels(labels: Sequence[str]) -> str:
    return "; ".join(labels) if len(labels) <= 3 else f"{len(labels):,} different"


def _users(trace: Trace) -> list[str]:
    users = heaviest_users(trace)
    resources = trace.workload.resources
    rows: list[list[Content]] = [
        [
            Cell(row["user"], "wrap"),
            row["jobs"],
            row["tasks"],
            *(bar(row[f"work.{r}"]) for r in resources),
        ]
        for row in users.head(_MOST_USERS).iter_rows(named=True)
    ]
    more = len(users) - len(rows)
    head = ["user", "jobs", "tasks", *(f"{r} × time" for r in resources)]
    return [table(head, rows), *([tag("p", format_rest(more, "user"))] if more else [])]


def _comparison_page(
    comparison: TraceComparison,
    names: Sequence[str],
    title: str,
    simulated: Mapping[str, Any] | None,
) -> str:
    measured = [d for d in comparison.differences if d.distance is not None]
    parts: list[str | Figure] = []
    if measured:
        worst = max(measured, key=lambda found: found.distance or 0.0)
        parts.append(tag("p", f"{_furthest(worst)}.", "headline"))
    for name, trace in zip(names, (comparison.a, comparison.b), strict=True):
        facts = describe(trace)
        parts.append(tag("p", f"{name} ({trace.format}): {headline(facts)}.", "summary"))
    parts += [
        tag("h2", "How far apart (0: the same, 100 %: nothing in common)"),
        _distances(comparison, names),
    ]
    for what, pair in (
        ("that never end, and are in no duration", comparison.endless),
        ("that are there at the start, and are in no arrival", comparison.at_the_start),
    ):
        if any(pair):
            shown = join_names(
                f"{format_percent(p, trim=True)} of {n}" for p, n in zip(pair, names, strict=True)
            )
            parts.append(tag("p", f"Tasks {what}: {shown}.", "note"))
    if simulated is not None:
        parts += [
            tag("h2", f"How full the servers are under {simulated['policy']}"),
            _simulated(simulated, names),
        ]
    for heading, chart in _both_figures(comparison, names):
        parts += [tag("h2", heading), Figure(chart, stretch=True, least=_LEAST)]
    parts += [tag("p", remark, "note") for remark in comparison.remarks]
    return page_of(title, parts)


def _furthest(worst: Difference) -> str:
    if not worst.distance:
        return "All that was measured is the same"
    distance = format_percent(worst.distance, trim=True)
    return f"Furthest apart: {measure_labels(worst.name).title}, a distance of {distance}"


def _distances(comparison: TraceComparison, names: Sequence[str]) -> str:
    rows: list[list[Content]] = []
    for found in comparison.differences:
        cells: list[Content] = [measure_labels(found.name).title, bar(found.distance)]
        for part in _QUANTILES.values():
            pair = [
                format_measure(found.name, sample.quantile(part), like=sample.quantile(1))
                for sample in (found.a, found.b)
            ]
            cells.append(Cell(" | ".join(pair), "number"))
        rows.append(cells)
    note = tag("p", f"Quantiles: {names[0]} | {names[1]}.", "note")
    return join([table(["measure", "distance", *_QUANTILES], rows), note])


def _simulated(simulated: Mapping[str, Any], names: Sequence[str]) -> str:
    rows: list[list[Content]] = []
    for resource, first in simulated["a"].items():
        second = simulated["b"].get(resource)
        apart = "" if second is None else format_points(second - first, signed=True)
        rows.append([resource, bar(first), bar(second), Cell(apart, "number")])
    return table(["resource", *names, "difference"], rows)
