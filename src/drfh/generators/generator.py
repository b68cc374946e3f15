"""What a generator is: a title, options, and a function that makes a cluster and a workload."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from drfh.traces.ledger import Ledger
from drfh.traces.options import Option
from drfh.traces.trace import Reading

__all__ = ["Generator"]


@dataclass(frozen=True, slots=True)
class Generator:
    """One kind of made-up workload.

    Parameters
    ----------
    title
        What it is, in a few words.
    make
        Takes the options (each with a value) and a ledger for counts and remarks.
    options
        What it can be asked for.
    """

    title: str
    make: Callable[[Mapping[str, Any], Ledger], Reading]
    options: tuple[Option, ...] = ()
