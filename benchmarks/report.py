"""Words and numbers that the benchmarks print alike."""

from __future__ import annotations

import json
import math
import platform
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

WIDTH = 200


def say(*words: object) -> None:
    """Tell on stderr how far it is."""
    print(*words, file=sys.stderr, flush=True)


def number(value: float | None) -> str:
    """Return a number of three digits, or more before the point.

    >>> number(12345.6), number(12.345), number(None)
    ('12,346', '12.3', '')
    """
    if value is None or math.isnan(value):
        return ""
    digits = 2 if not value else max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}"


def seconds(value: float | None) -> str:
    """Return seconds in words.

    >>> seconds(0.0123), seconds(75.02), seconds(36e-6)
    ('12.3 ms', '75.0 s', '36.0 µs')
    """
    if value is None:
        return ""
    for scale, unit in ((1.0, "s"), (1e-3, "ms")):
        if value >= scale:
            return f"{number(value / scale)} {unit}"
    return f"{number(value / 1e-6)} µs"


def times(value: float | None, goal: float | None = None) -> str:
    """Return a ratio, and beside it the goal and whether it is met.

    >>> times(31.4), times(31.4, 25), times(18, 25)
    ('31.4×', '31.4× (25: met)', '18.0× (25: NOT MET)')
    """
    if value is None:
        return ""
    if goal is None:
        return f"{number(value)}×"
    return f"{number(value)}× ({goal:g}: {'met' if value >= goal else 'NOT MET'})"


def at_most(value: float, goal: float, unit: str) -> str:
    """Return an amount with its upper goal.

    >>> at_most(1.234, 2, "s")
    '1.23 s (2 s: met)'
    """
    return f"{number(value)} {unit} ({goal:g} {unit}: {'met' if value <= goal else 'NOT MET'})"


def table(title: str, columns: Iterable[str], words: int = 1) -> Table:
    """Return an empty table; all columns but the first `words` ones are numbers."""
    found = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for position, name in enumerate(columns):
        found.add_column(name, justify="left" if position < words else "right", no_wrap=True)
    return found


def show(*parts: Table | str) -> None:
    """Print tables and sentences."""
    console = Console(width=WIDTH, highlight=False, markup=False)
    for part in parts:
        console.print(part)


def machine() -> dict[str, Any]:
    """Return what the numbers depend on most."""
    return {
        "processor": _processor(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": numba.__version__,
    }


def machine_line() -> str:
    """Return the same in one line."""
    found = machine()
    return ", ".join([found.pop("processor"), *(f"{name} {it}" for name, it in found.items())])


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def print_json(value: Any) -> None:
    """Print JSON to stdout."""
    print(json.dumps(value, indent=2))
