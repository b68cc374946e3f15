"""The format of a journal: its header, the grid of its times, and how a line is parsed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from drfh.engines.diff import is_number
from drfh.errors import InputError
from drfh.files.atomic import LARGEST_FILE

__all__ = [
    "FORMAT",
    "LONGEST_LINE",
    "TICK",
    "JournalHeader",
    "on_grid",
    "parse_line",
    "read_header",
]

#: What the first line of a journal begins with.
FORMAT = "journal 1"
#: Times are multiples of this many seconds.
TICK = 1 / 1024
#: In bytes.
LONGEST_LINE = LARGEST_FILE


def on_grid(seconds: float) -> float:
    """Return the nearest multiple of 1/1024 s.

    Examples
    --------
    >>> on_grid(0.3), on_grid(7.0)
    (0.2998046875, 7.0)
    """
    return round(seconds * 1024) / 1024


@dataclass(frozen=True)
class JournalHeader:
    """The header of a journal.

    Attributes
    ----------
    policy, seed : str, int
        Of the scheduler.
    started : float
        Seconds since 1970.
    engine : str
        What kind of cluster it is, such as ``slurm``.
    controls : bool
        Whether drfh placed the tasks, or only observed.
    version : str
        Of drfh.
    facts : mapping
        Anything else.
    """

    policy: str
    seed: int
    started: float
    engine: str
    controls: bool
    version: str
    facts: Mapping[str, Any] = field(default_factory=dict)


def read_header(record: Mapping[str, Any]) -> JournalHeader:
    """Read a header.

    Examples
    --------
    >>> read_header({"drfh": "journal 2"})
    Traceback (most recent call last):
    drfh.errors.InputError: drfh must be 'journal 1', got 'journal 2'
    """
    facts = dict(record)
    if facts.pop("drfh", None) != FORMAT:
        raise InputError("drfh", f"must be {FORMAT!r}", record.get("drfh"))
    kinds: dict[str, tuple[type, str]] = {
        "policy": (str, "the name of a policy"), "engine": (str, "text"), "version": (str, "text"),
        "controls": (bool, "true or false"), "seed": (int, "a whole number"),
    }  # fmt: skip
    values = {}
    for name, (kind, rule) in kinds.items():
        values[name] = facts.pop(name, None)
        if type(values[name]) is not kind:
            raise InputError(name, f"must be {rule}", values[name])
    started = facts.pop("started", None)
    if not is_number(started):
        raise InputError("started", "must be a number of seconds since 1970", started)
    return JournalHeader(**values, started=float(started), facts=facts)


def parse_line(data: bytes, name: str) -> dict[str, Any]:
    """Parse a line; `name` is what errors call it.

    Examples
    --------
    >>> parse_line(b"[1]", "the line")
    Traceback (most recent call last):
    drfh.errors.InputError: the line must be a JSON object, got [1]
    """
    try:
        record = json.loads(data)
    except (ValueError, RecursionError):
        raise InputError(name, "must be JSON", data[:40].decode(errors="replace")) from None
    if not isinstance(record, dict):
        raise InputError(name, "must be a JSON object", record)
    return record
