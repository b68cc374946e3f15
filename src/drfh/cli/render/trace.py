"""Traces as text and as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drfh.cli.input import oddity_text, trace_facts
from drfh.cli.render.console import Column, bar, console, print_columns, print_line, table
from drfh.cli.render.simulation import spark
from drfh.formatting import (
    format_amount,
    format_bytes,
    format_count,
    format_duration,
    format_percent,
    format_points,
    format_quantity,
    format_rest,
    plural,
)

if TYPE_CHECKING:
    from drfh.traces import Trace
    from drfh.traces.compare import Difference, TraceComparison

__all__ = [
    "formats_data",
    "option_text",
    "print_comparison",
    "print_formats",
    "print_saved",
    "print_trace",
    "print_written",
    "trace_data",
]


_MOST_SHAPES = 10
_MOST_USERS = 10
_SPARK = 48
_BESIDE_SPARK = 48  # columns for names and numbers
_LITTLE = 0.2  # of the capacity at the peak: less is drawn larger
_LONGEST_LABEL = 24
_SPREAD = ("min", "median", "mean", "p90", "p99", "max")


def trace_data(trace: Trace, *, everyone: bool = False) -> dict[str, Any]:
    """Return what is in a trace as plain data."""
    from drfh.traces.load import offered_load, server_shapes
    from drfh.traces.measure import describe, heaviest_users

    load = offered_load(trace)
    users = heaviest_users(trace)
    return {
        **describe(trace, load),
        **trace_facts(trace),
        "shapes": server_shapes(trace.cluster).to_dicts(),
        "heaviest_users": (users if everyone else users.head(_MOST_USERS)).to_dicts(),
        "load_over_time": load.to_dict(as_series=False),
    }


def print_trace(trace: Trace, *, everyone: bool = False) -> None:
    """Print what is in a trace."""
    from drfh.traces.load import offered_load
    from drfh.traces.measure import describe

    out = console()
    load = offered_load(trace)
    facts = describe(trace, load)
    _print_head(trace, facts)
    _print_counts(out, trace)
    _print_shapes(out, trace, facts, everyone)
    if facts["span"]:
        _print_load(out, facts, load)
    else:
        _print_instant(out, trace, facts)
    _print_spread(out, facts)
    _print_users(out, trace, everyone)
    _print_quirks(out, trace)


def _print_head(trace: Trace, facts: Mapping[str, Any]) -> None:
    from drfh.traces.labels import headline

    print_line(f"{trace.format}: {trace.source}", "bold")
    print_line(headline(facts))
    parts = ["at one instant"]
    if facts["window"]:
        parts = [f"window {format_duration(facts['window'])}"]
    elif facts["span"]:
        parts = [f"until {format_duration(facts['span'])}, when the last task ends if none waits"]
    if facts["span"] and facts["tasks_at_the_start"]:
        parts.append(f"{format_count(facts['tasks_at_the_start'], 'task')} at the start")
    if facts["span"] and facts["endless_tasks"]:
        ends = plural(facts["endless_tasks"], "ends", "end")
        parts.append(f"{format_count(facts['endless_tasks'], 'task')} that never {ends}")
    idle = facts["users"] - facts["users_with_tasks"]
    if idle:
        parts.append(f"{format_count(idle, 'user')} without a task")
    events = facts["server_events"]
    verbs = (("add", "come"), ("remove", "leave"), ("resize", "change size"))
    moves = [f"{events[key]:,} {verb}" for key, verb in verbs if events[key]]
    if moves:
        parts.append(f"servers: {', '.join(moves)}")
    print_line("; ".join(parts))
    chosen = [f"{k}={option_text(v)}" for k, v in trace.options.items() if v is not None]
    if chosen:
        print_line(f"read with {', '.join(chosen)}", "dim")


def option_text(value: Any) -> str:
    """Return the value of an option as it would be given.

    Examples
    --------
    >>> option_text(("ann", "bob")), option_text(24.0), option_text("keep")
    ('ann,bob', '24', 'keep')
    """
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _print_counts(out: Any, trace: Trace) -> None:
    """Print what was read and left out, in as many columns as fit."""
    rows = [(what, f"{count:,}") for what, count in trace.counts.items() if count]
    if not rows:
        return
    width = max(len(what) for what, _ in rows) + max(len(n) for _, n in rows) + 6
    columns = max(1, min(3, out.width // width))
    height = -(-len(rows) // columns)
    rows += [("", "")] * (height * columns - len(rows))
    from rich import box
    from rich.table import Table

    grid = Table(box=box.SIMPLE, pad_edge=False, show_header=False)
    for _ in range(columns):
        grid.add_column(overflow="fold")
        grid.add_column(justify="right", no_wrap=True)
    for line in range(height):
        grid.add_row(*(cell for c in range(columns) for cell in rows[c * height + line]))
    out.print(grid)


def _print_shapes(out: Any, trace: Trace, facts: Mapping[str, Any], everyone: bool) -> None:
    from drfh.traces.load import server_shapes

    shapes = server_shapes(trace.cluster)
    shown = (shapes if everyone else shapes.head(_MOST_SHAPES)).to_dicts()
    print_line(
        f"{format_count(facts['servers'], 'server')} of {format_count(len(shapes), 'shape')}"
    )
    columns = [
        Column(name, [format_quantity(row[f"capacity.{name}"]) for row in shown])
        for name in trace.cluster.resources
    ]
    columns += [
        Column("of all", [format_percent(row["share"]) for row in shown]),
        Column("", [bar(row["share"]) for row in shown], right=False, spare=2),
    ]
    labels = [_labels(row["labels"]) for row in shown]
    if any(labels):
        columns.append(Column("labels", labels, right=False, spare=1))
    counts = Column("servers", [f"{row['servers']:,}" for row in shown])
    print_columns(out, counts, [columns])
    if len(shown) < len(shapes):
        left = format_count(int(shapes["servers"][len(shown) :].sum()), "server")
        end = f"more, of {left} (--all shows them)"
        print_line(format_rest(len(shapes) - len(shown), "shape", end))


def _labels(labels: Sequence[str]) -> str:
    cut = [
        text if len(text) <= _LONGEST_LABEL else f"{text[: _LONGEST_LABEL - 1]}…" for text in labels
    ]
    return ", ".join(cut) if len(cut) <= 2 else f"{len(cut):,} different"


def _print_load(out: Any, facts: Mapping[str, Any], load: Any) -> None:
    names = [name for name, found in facts["load"].items() if found["peak"] is not None]
    if not names:
        return
    peak = max(facts["load"][name]["peak"] for name in names)
    top = max(1.0, peak) if peak >= _LITTLE else peak or 1.0
    height = "capacity" if top == 1 else format_percent(top)
    width = min(_SPARK, max(out.width - _BESIDE_SPARK, 16))
    print_line(f"Demand against capacity, if every task started when it arrives (█ is {height})")
    columns = [
        Column("pool", [_pool(facts, name) for name in names]),
        Column("mean", [format_percent(facts["load"][name]["mean"]) for name in names]),
        Column("peak", [format_percent(facts["load"][name]["peak"]) for name in names]),
        Column(
            f"over {format_duration(facts['span'])}",
            [spark(load[f"load.{name}"].to_numpy(), width, top) for name in names],
            right=False,
        ),
    ]
    print_columns(out, Column("resource", names, right=False), [columns])


def _print_instant(out: Any, trace: Trace, facts: Mapping[str, Any]) -> None:
    """Print what is asked for and, of a snapshot, what is in use, as parts of what there is."""
    names = [name for name, found in facts["load"].items() if found["mean"] is not None]
    parts = [facts["load"][name]["mean"] for name in names]
    columns = [
        Column("pool", [_pool(facts, name) for name in names]),
        Column("asked for", [format_percent(part) for part in parts]),
        Column("", [bar(part) for part in parts], right=False, spare=1),
    ]
    if trace.running is not None:
        used = [_in_use(trace, name) for name in names]
        columns += [
            Column("in use", [format_percent(part) for part in used]),
            Column("", [bar(part) for part in used], right=False, spare=1),
        ]
    print_line("Demand against capacity")
    print_columns(out, Column("resource", names, right=False), [columns])


def _in_use(trace: Trace, resource: str) -> float:
    total = dict(zip(trace.cluster.resources, trace.cluster.totals.tolist(), strict=True))
    if trace.running is None or resource not in trace.running.columns:
        return 0.0
    capacity = total.get(resource, 0.0)
    return float(trace.running[resource].sum()) / capacity if capacity > 0 else 0.0


def _pool(facts: Mapping[str, Any], resource: str) -> str:
    total = facts["capacity"].get(resource, 0.0)
    return format_amount(total, like=total)


def _print_spread(out: Any, facts: Mapping[str, Any]) -> None:
    from drfh.traces.labels import format_measure, measure_labels

    found = {n: f for n, f in facts["distributions"].items() if f["count"]}
    columns = [
        Column(
            name,
            [format_measure(measure, own[name], like=own["max"]) for measure, own in found.items()],
            spare=2 if name in ("min", "mean") else 0,
        )
        for name in _SPREAD
    ]
    names = Column("", [measure_labels(measure).short for measure in found], right=False)
    print_line("How it is spread")
    print_columns(out, names, [columns])


def _print_users(out: Any, trace: Trace, everyone: bool) -> None:
    from drfh.traces.measure import heaviest_users

    users = heaviest_users(trace)
    shown = (users if everyone else users.head(_MOST_USERS)).to_dicts()
    if not shown:
        return
    print_line("The heaviest users, by their part of what all ask for (amount × time)")
    columns = [
        Column("jobs", [f"{row['jobs']:,}" for row in shown]),
        Column("tasks", [f"{row['tasks']:,}" for row in shown]),
        *(
            Column(name, [format_percent(row[f"work.{name}"]) for row in shown])
            for name in trace.workload.resources
        ),
        Column("", [bar(row["work"]) for row in shown], right=False, spare=1),
    ]
    print_columns(out, Column("user", [row["user"] for row in shown], right=False), [columns])
    if len(shown) < len(users):
        rest = users[len(shown) :]
        tasks = format_count(int(rest["tasks"].sum()), "task")
        print_line(format_rest(len(rest), "user", f"more, with {tasks} (--all shows them)"))


def _print_quirks(out: Any, trace: Trace) -> None:
    if trace.oddities:
        print_line(_oddities_text(trace), "yellow")
        grid = table("how many", "the first of its kind", right=("how many",))
        for odd in trace.oddities:
            grid.add_row(f"{odd.count:,}", odd.first)
        out.print(grid)
    for remark in trace.remarks:
        print_line(f"note: {remark}")


def _oddities_text(trace: Trace) -> str:
    """Return how much is wrong: rows that are left out, and what is wrong otherwise."""
    total = Counter[tuple[str, bool]]()
    for odd in trace.oddities:
        total[odd.what, odd.left_out] += odd.count
    return "; ".join(
        format_count(number, what) + ", left out" * left_out
        for (what, left_out), number in total.items()
    )


def print_written(trace: Trace, directory: Path, files: Mapping[str, int]) -> None:
    """Print what was written."""
    from drfh.traces.measure import describe

    _print_head(trace, describe(trace))
    for odd in trace.oddities:
        print_line(oddity_text(odd), "yellow")
    for remark in trace.remarks:
        print_line(f"note: {remark}")
    if trace.running is not None:
        print_line(
            "note: where tasks run now is a mere note in the tables: to audit it keep the snapshot"
        )
    shown = ", ".join(f"{name} {format_bytes(size)}" for name, size in files.items())
    print_line(f"saved: {directory} ({shown})")


def print_saved(path: Path | None) -> None:
    """Name a file that was written, if any."""
    if path is not None:
        print_line(f"saved: {path}")


def print_comparison(
    comparison: TraceComparison, simulated: Mapping[str, Any] | None, notes: Sequence[str]
) -> None:
    """Print two traces side by side."""
    from drfh.traces.labels import headline, measure_labels, short_names
    from drfh.traces.measure import describe

    out = console()
    names = short_names(comparison.a, comparison.b)
    for name, trace in zip(names, (comparison.a, comparison.b), strict=True):
        print_line(f"{name}: {headline(describe(trace))}", "bold")
    out.print()
    found = comparison.differences
    columns = [
        Column("distance", [format_percent(d.distance) for d in found]),
        Column("", [bar(d.distance or 0.0) for d in found], right=False, spare=1),
    ]
    columns += [
        Column(name, [_pair(d, part) for d in found],
               spare=spare)
        for name, part, spare in (("p10", 0.1, 1), ("median", 0.5, 0), ("p90", 0.9, 0),
                                  ("p99", 0.99, 2))
    ]  # fmt: skip
    columns.append(Column("how many", [f"{d.a.size:,} | {d.b.size:,}" for d in found], spare=2))
    print_line("Kolmogorov-Smirnov distance (0: the same), and quantiles of both")
    measures = Column("measure", [measure_labels(d.name).short for d in found], right=False)
    print_columns(out, measures, [columns])
    for what, pair in (
        ("that never end, and are in no duration", comparison.endless),
        ("that are there at the start, and are in no arrival", comparison.at_the_start),
    ):
        if any(pair):
            print_line(f"tasks {what}: {format_percent(pair[0])} | {format_percent(pair[1])}")
    for remark in (*comparison.remarks, *notes):
        print_line(f"note: {remark}", "yellow")
    if simulated is not None:
        _print_simulated(out, simulated, names)


def _pair(found: Difference, part: float) -> str:
    from drfh.traces.labels import format_measure

    both = [
        (found.a.quantile(part), found.a.quantile(1)),
        (found.b.quantile(part), found.b.quantile(1)),
    ]
    return " | ".join(format_measure(found.name, value, like=most) for value, most in both)


def _print_simulated(out: Any, simulated: Mapping[str, Any], names: Sequence[str]) -> None:
    out.print()
    print_line(f"How full the servers are under {simulated['policy']}")
    resources = list(dict.fromkeys([*simulated["a"], *simulated["b"]]))
    points = {name: value / 100 for name, value in simulated["points"].items()}
    columns = [
        Column(names[0], [format_percent(simulated["a"].get(r)) for r in resources]),
        Column(names[1], [format_percent(simulated["b"].get(r)) for r in resources]),
        Column("difference", [format_points(points.get(r), signed=True) for r in resources]),
    ]
    print_columns(out, Column("resource", resources, right=False), [columns])


def formats_data(formats: Mapping[str, Any], generators: Mapping[str, Any]) -> dict[str, Any]:
    """Return formats and generators with their options as plain data."""

    def data(one: Any) -> dict[str, Any]:
        options = [
            {
                "name": o.name,
                "kind": o.kind,
                "default": list(o.default) if isinstance(o.default, tuple) else o.default,
                **({"choices": list(o.choices)} if o.choices else {}),
                "help": o.help,
            }
            for o in one.options
        ]
        snapshot = {"snapshot": one.snapshot} if hasattr(one, "snapshot") else {}
        return {"title": one.title, **snapshot, "options": options}

    return {
        "formats": {name: data(one) for name, one in formats.items()},
        "generators": {name: data(one) for name, one in generators.items()},
    }


def print_formats(
    formats: Mapping[str, Any], generators: Mapping[str, Any], *, whole: bool = False
) -> None:
    """Print formats and generators with their options; shared ones once.

    Parameters
    ----------
    formats, generators
        By name.
    whole
        Whether it is about one of them alone.
    """
    out = console()
    every = {**formats, **generators}
    for what, known in (("format", formats), ("generator", generators)):
        if whole or not known:
            continue
        grid = table(what, "what it is")
        grid.columns[0].no_wrap = True
        for name, one in known.items():
            grid.add_row(name, _title(one))
        out.print(grid)
    owners: dict[Any, list[str]] = {}
    for name, one in every.items():
        for option in one.options:
            owners.setdefault(option, []).append(name)
    sections: dict[str, list[Any]] = {}
    for option, names in owners.items():
        sections.setdefault(", ".join(names), []).append(option)
    if whole:
        for name, one in every.items():
            print_line(f"{name}: {_title(one)}", "bold")
    for whose, options in sections.items():
        if not whole:
            print_line(f"Options of {whose}", "bold")
        grid = table("option", "default", "what it does")
        grid.columns[0].no_wrap = True
        for option in options:
            default = "–" if option.default is None else option_text(option.default)
            unsaid = any(choice not in option.help for choice in option.choices)
            choices = f" ({', '.join(option.choices)})" if unsaid else ""
            grid.add_row(option.name, default, option.help + choices)
        out.print(grid)
    flags = "--hours, --start, --users, --sample and --seed are flags of their own"
    print_line(f"{flags}; set any other with --set NAME=VALUE")


def _title(one: Any) -> str:
    return f"{one.title} (a snapshot)" if getattr(one, "snapshot", False) else str(one.title)
