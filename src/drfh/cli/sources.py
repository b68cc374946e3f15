"""Traces named on the command line, with their options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from drfh.cli.output import console, progress_bar
from drfh.errors import InputError

if TYPE_CHECKING:
    from drfh.traces import Trace

__all__ = ["open_trace", "print_trace_notes", "trace_facts"]


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
    from drfh.traces.source import split_source

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
    from drfh.resources import some

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
