"""Traces named on the command line, with their options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from drfh.cli.output import progress_bar
from drfh.errors import InputError

if TYPE_CHECKING:
    from drfh.traces import Trace

__all__ = ["open_trace"]


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
