"""Readers of traces and snapshots: one for each outside format."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from drfh.errors import InputError, UnknownNameError, shown
from drfh.files.reader import Ledger, Oddity, Progress, as_paths
from drfh.model.resources import FrozenMap
from drfh.traces import kubernetes, openb, slurm, swf
from drfh.traces.base import EmptyTraceError, Format, Trace, read_options
from drfh.traces.google2011 import reader as google_2011
from drfh.traces.tables import reader as tables

__all__ = ["FORMATS", "Format", "Oddity", "Trace", "known_format", "read", "recognise"]

#: Name → reader. Recognised in this order.
FORMATS: dict[str, Format] = {
    "google-2011": google_2011.FORMAT,
    "openb": openb.FORMAT,
    "swf": swf.FORMAT,
    "tables": tables.FORMAT,
    "kubernetes": kubernetes.FORMAT,
    "slurm": slurm.FORMAT,
}

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def read(
    format: str | None,  # noqa: A002 - the word that everybody uses
    path: Paths | None = None,
    *,
    strict: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Trace:
    """Read a trace, or a snapshot of a live cluster.

    Parameters
    ----------
    format
        A name of :data:`FORMATS`; None to recognise it.
    path
        A file or directory, or a list of them.
    strict
        Stop at the first broken row. By default broken rows are left out and counted by kind in
        ``oddities``.
    progress
        Called with what is being read, how much of it is done, and of how much.
    **options
        Of the format: see ``drfh trace formats``.

    Returns
    -------
    Trace
        Unpacks into the cluster and the workload.

    Examples
    --------
    >>> read("google-2012", ".")
    Traceback (most recent call last):
    drfh.errors.UnknownNameError: format must be one of google-2011, kubernetes, openb, slurm, \
swf, tables (did you mean google-2011?), got 'google-2012'
    """
    if path is None:
        rule = f"must be given, after the format or None: read(None, {shown(format)})"
        raise InputError("path", rule)
    if format is not None and format not in FORMATS:
        raise UnknownNameError("format", str(format), FORMATS)
    paths = as_paths(path)
    name = recognise(paths) if format is None else format
    chosen = FORMATS[name]
    values = read_options(chosen.options, options, of=name)
    ledger = Ledger(strict=strict)
    try:
        reading = chosen.read(paths, values, ledger, progress)
    except EmptyTraceError as error:
        if not ledger.reasons:
            raise
        raise EmptyTraceError(f"{error.rule} ({'; '.join(ledger.reasons)})") from None
    return Trace(
        format=name,
        source=", ".join("standard input" if str(one) == "-" else str(one) for one in paths),
        cluster=reading.cluster,
        workload=reading.workload,
        details=reading.details,
        running=reading.running,
        window=reading.window,
        options=FrozenMap(values if reading.options is None else reading.options),
        counts=FrozenMap(ledger.counts),
        oddities=ledger.oddities,
        remarks=tuple(ledger.remarks),
    )


def known_format(paths: Iterable[Path]) -> str | None:
    """Return the name of the format that one of the files or directories has, or None.

    Examples
    --------
    >>> known_format([Path("log.swf")]), known_format([Path("no-such-file")])
    ('swf', None)
    """
    listed = list(paths)
    for name, chosen in FORMATS.items():
        if any(chosen.signature.matches(one) for one in listed):
            return name
    return None


def recognise(path: Paths) -> str:
    """Return the name of the format that a file or directory has.

    Examples
    --------
    >>> recognise("no-such-trace")
    Traceback (most recent call last):
    drfh.errors.InputError: path must be a file or directory that exists, got 'no-such-trace'
    """
    paths = as_paths(path)
    found = known_format(paths)
    if found is not None:
        return found
    for one in paths:
        if one.is_dir() and not any(one.iterdir()):
            raise InputError("path", "must not be an empty directory", str(one))
    known = ", ".join(FORMATS)
    rule = f"must hold a trace in a known format ({known}); name the format if it is one"
    raise InputError("path", rule, ", ".join(map(str, paths)))
