"""What a verb works on: a scenario file, or the users of a trace or of a live cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drfh.cli.render.console import console, progress_bar
from drfh.errors import InputError

if TYPE_CHECKING:
    from drfh.model.scenario import Scenario
    from drfh.traces import Trace

__all__ = [
    "FileArgument",
    "SetOption",
    "SplitOption",
    "StrictOption",
    "Subject",
    "TraceOption",
    "open_trace",
    "print_trace_notes",
    "read_subject",
    "trace_facts",
]


def open_trace(
    source: str,
    *,
    strict: bool = False,
    settings: Sequence[str] = (),
    **options: Any,
) -> Trace:
    """Read ``PATH`` or ``FORMAT:PATH`` with a progress bar on a terminal.

    Parameters
    ----------
    source
        The trace.
    strict
        Stop at the first broken row.
    settings
        ``NAME=VALUE`` words of ``--set``: any option of the format.
    **options
        Options with a flag of their own; None if it was not given.
    """
    from drfh.traces import FORMATS, read
    from drfh.traces.base import split_source

    given = {name: value for name, value in options.items() if value is not None}
    for word in settings:
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            raise InputError("--set", "must be NAME=VALUE (see drfh trace formats)", word)
        given[name.strip()] = value.strip()
    format_, paths = split_source(source, FORMATS)
    with progress_bar() as tell:
        return read(format_, paths, strict=strict, progress=tell, **given)


def trace_facts(trace: Trace) -> dict[str, Any]:
    """Return where a trace comes from and how its reading went, for JSON."""
    return {
        "format": trace.format,
        "source": trace.source,
        "window": trace.window,
        "options": {k: list(v) if isinstance(v, tuple) else v for k, v in trace.options.items()},
        "counts": dict(trace.counts),
        "oddities": [odd.to_dict() for odd in trace.oddities],
        "remarks": list(trace.remarks),
    }


def print_trace_notes(trace: Trace) -> None:
    """Print what was broken, left out or decided, in a few dim lines."""
    from drfh.model.resources import some

    out = console()
    left_out = {
        what.split(": ", 1)[-1]: number
        for what, number in trace.counts.items()
        if "left out" in what and number
    }
    if left_out:
        words = ", ".join(f"{number:,} {what}" for what, number in left_out.items())
        out.print(f"left out: {words}", style="dim", highlight=False)
    for odd in trace.oddities:
        what = odd.what.removeprefix("broken ")
        line = f"broken: {some(odd.count, what)}, the first at {odd.first}"
        out.print(line, style="yellow", highlight=False, markup=False)
    for remark in trace.remarks:
        out.print(remark, style="dim", highlight=False, markup=False)


_PANEL = "Trace"

FileArgument = Annotated[
    str | None,
    typer.Argument(metavar="FILE", help="A YAML or JSON file, or a shipped scenario."),
]
TraceOption = Annotated[
    str | None,
    typer.Option(
        "--trace",
        metavar="SOURCE",
        rich_help_panel=_PANEL,
        help="Instead of FILE: a trace or a snapshot, such as kubernetes:cluster.json.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", rich_help_panel=_PANEL, help="An option of the format."
    ),
]
StrictOption = Annotated[
    bool,
    typer.Option("--strict", rich_help_panel=_PANEL, help="Stop at the first broken entry."),
]
SplitOption = Annotated[
    bool | None,
    typer.Option(
        "--split/--no-split",
        rich_help_panel=_PANEL,
        help="Each kind of task by itself, or the mean task of its user; by default, in a "
        "snapshot, by itself where tasks of a user differ in more than size.",
    ),
]


@dataclass(frozen=True, slots=True)
class Subject:
    """A scenario and where it comes from.

    Attributes
    ----------
    scenario : Scenario
        Cluster and users.
    source : str
        Its file or trace.
    trace : Trace or None
        What it was made from.
    observed : list of dict or None
        Of a snapshot: who holds what where.
    notes : tuple of str
        What got lost on the way from the trace.
    """

    scenario: Scenario
    source: str
    trace: Trace | None = None
    observed: list[dict[str, Any]] | None = None
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return how the reading went, ready for JSON: nothing for a scenario file."""
        if self.trace is None:
            return {}
        trace = self.trace
        return {
            "trace": {
                "format": trace.format,
                "source": trace.source,
                "options": dict(trace.options),
                "counts": dict(trace.counts),
                "broken": [
                    {"kind": o.kind, "count": o.count, "first": o.first} for o in trace.oddities
                ],
                "remarks": [*trace.remarks, *self.notes],
            }
        }

    def print_account(self) -> None:
        """Say on stderr how the reading went: counts, what was broken, what cannot be told."""
        if self.trace is None:
            return
        out = console(stderr=True)
        trace = self.trace
        counted = [f"{what}: {number:,}" for what, number in trace.counts.items() if number]
        out.print("; ".join(counted), style="dim")
        for oddity in trace.oddities:
            out.print(f"warning: {oddity.count:,} broken: {oddity.first}", style="yellow")
        for remark in trace.remarks:
            out.print(f"note: {remark}", style="dim")
        for note in self.notes:
            out.print(f"warning: {note}", style="yellow")


def read_subject(
    file: str | None,
    trace: str | None,
    *,
    verb: str,
    settings: Sequence[str] | None = None,
    strict: bool = False,
    split: bool | None = None,
    complete: bool = True,
) -> Subject:
    """Read the scenario file or the trace that a verb is given.

    Parameters
    ----------
    file, trace
        One of them.
    verb
        Whose help to point to.
    settings, strict, split
        For a trace.
    complete
        Refuse a scenario file that no mechanism can run.
    """
    if file is not None and trace is not None:
        raise InputError("FILE", "must not be given together with --trace", file)
    if trace is None:
        for option, given in (
            ("--set", settings),
            ("--strict", strict),
            ("--split", split is not None),
        ):
            if given:
                raise InputError(option, "must be used together with --trace")
        if file is None:
            raise InputError("FILE", f"must be given, or --trace (see drfh {verb} --help)")
        return _read_file(file, complete)
    from drfh.traces.scenario import reduced

    read = open_trace(trace, strict=strict, settings=settings or ())
    result = reduced(read, split=split)
    return Subject(result.scenario, trace, read, result.observed, result.notes)


def _read_file(file: str, complete: bool) -> Subject:
    from drfh.cli.allocate import check_mechanism
    from drfh.files import load_scenario

    try:
        scenario = load_scenario(file, strict=complete)
    except InputError as error:
        found = _snapshot_format(file)
        if found is None:
            raise
        rule = f"must be a scenario, and this is a snapshot: use --trace {found}:{file}"
        raise InputError("the file", rule, place=error.place.partition(", line")[0]) from None
    check_mechanism(scenario, file)
    return Subject(scenario, file)


def _snapshot_format(file: str) -> str | None:
    """Return the format of a live cluster that a file looks like."""
    from pathlib import Path

    from drfh.traces import FORMATS

    try:
        if not Path(file).exists():
            return None
    except (OSError, ValueError):
        return None
    for name, chosen in FORMATS.items():
        if chosen.snapshot and chosen.signature.matches(Path(file)):
            return name
    return None
