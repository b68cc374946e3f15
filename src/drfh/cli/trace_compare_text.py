"""Two traces side by side as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from drfh.cli.columns import Column, print_columns
from drfh.cli.output import bar, console, percent
from drfh.cli.simulate_text import say
from drfh.cli.trace_text import measured

if TYPE_CHECKING:
    from drfh.traces.comparing import Difference, TraceComparison

__all__ = ["print_comparison"]


def print_comparison(
    comparison: TraceComparison, simulated: Mapping[str, Any] | None, notes: Sequence[str]
) -> None:
    """Print two traces side by side."""
    from drfh.traces.measures import describe
    from drfh.traces.words import headline, names_of, words_of

    out = console()
    names = names_of(comparison.a, comparison.b)
    for name, trace in zip(names, (comparison.a, comparison.b), strict=True):
        say(f"{name}: {headline(describe(trace))}", "bold")
    out.print()
    found = comparison.differences
    columns = [
        Column("distance", [percent(d.distance) for d in found]),
        Column("", [bar(d.distance or 0.0) for d in found], right=False, spare=1),
    ]
    columns += [
        Column(word, [_pair(d, part) for d in found],
               spare=spare)
        for word, part, spare in (("p10", 0.1, 1), ("median", 0.5, 0), ("p90", 0.9, 0),
                                  ("p99", 0.99, 2))
    ]  # fmt: skip
    columns.append(Column("how many", [f"{d.a.size:,} | {d.b.size:,}" for d in found], spare=2))
    say("Kolmogorov-Smirnov distance (0: the same), and quantiles of both")
    measures = Column("measure", [words_of(d.name).short for d in found], right=False)
    print_columns(out, measures, [columns])
    for what, pair in (
        ("that never end, and are in no duration", comparison.endless),
        ("that are there at the start, and are in no arrival", comparison.at_the_start),
    ):
        if any(pair):
            say(f"tasks {what}: {percent(pair[0])} | {percent(pair[1])}")
    for remark in (*comparison.remarks, *notes):
        say(f"note: {remark}", "yellow")
    if simulated is not None:
        _print_simulated(out, simulated, names)


def _pair(found: Difference, part: float) -> str:
    both = [
        (found.a.quantile(part), found.a.quantile(1)),
        (found.b.quantile(part), found.b.quantile(1)),
    ]
    return " | ".join(measured(found.name, value, most) for value, most in both)


def _print_simulated(out: Any, simulated: Mapping[str, Any], names: Sequence[str]) -> None:
    out.print()
    say(f"How full the servers are under {simulated['policy']}")
    resources = list(dict.fromkeys([*simulated["a"], *simulated["b"]]))
    points = simulated["points"]
    columns = [
        Column(names[0], [percent(simulated["a"].get(r)) for r in resources]),
        Column(names[1], [percent(simulated["b"].get(r)) for r in resources]),
        Column("difference",
               [f"{points[r]:+.1f} points" if r in points else "–" for r in resources]),
    ]  # fmt: skip
    print_columns(out, Column("resource", resources, right=False), [columns])
