"""What a format is: a name, a reader with its options, and how to recognise it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drfh.traces.ledger import Ledger, Progress
from drfh.traces.options import Option
from drfh.traces.trace import Reading

__all__ = ["Format"]


@dataclass(frozen=True, slots=True)
class Format:
    """One outside format.

    Parameters
    ----------
    title
        What it is, in a few words.
    read
        Takes the paths, the options (each with a value), a ledger, and somebody to tell of
        progress or None.
    recognises
        Whether the paths look like this format; looks at names and first bytes only.
    options
        What the reader can be asked for.
    snapshot
        Whether it is the state of a live cluster at one instant.
    """

    title: str
    read: Callable[[tuple[Path, ...], Mapping[str, Any], Ledger, Progress | None], Reading]
    recognises: Callable[[tuple[Path, ...]], bool]
    options: tuple[Option, ...] = ()
    snapshot: bool = False
