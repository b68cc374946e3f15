"""The record of a generator, and quantile draws that they share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from drfh.files.reader import Ledger
from drfh.traces.base import Option, TraceReading

__all__ = ["Generator", "at_levels", "even_ranks", "reflected", "rounded_evenly", "spans"]


@dataclass(frozen=True, slots=True)
class Generator:
    """A generator of a cluster and a workload.

    Parameters
    ----------
    title
        A short description.
    make
        Takes the options (each with a value) and a ledger for counts and remarks.
    options
        Its options.
    """

    title: str
    make: Callable[[Mapping[str, Any], Ledger], TraceReading]
    options: tuple[Option, ...] = ()


Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]


def even_ranks(draw: np.random.Generator, number: int) -> Floats:
    """Return ranks in [0, 1) in random order, one in each of `number` equal parts.

    Examples
    --------
    >>> ranks = even_ranks(np.random.default_rng(1), 4)
    >>> sorted((ranks * 4).astype(int).tolist())
    [0, 1, 2, 3]
    """
    return (draw.permutation(number) + draw.random(number)) / max(number, 1)


def spans(draw: np.random.Generator, sizes: Ints) -> Floats:
    """Return ranks in [0, 1) so that each part of it gets its part of all tasks.

    Jobs are laid end to end in random order, each as long as it has tasks; a job's rank is a random
    place in it.

    Examples
    --------
    >>> ranks = spans(np.random.default_rng(1), np.array([8, 1, 1]))
    >>> bool(((0 <= ranks) & (ranks < 1)).all())
    True
    """
    order = draw.permutation(len(sizes))
    laid = sizes[order].astype(np.float64)
    end = np.cumsum(laid)
    ranks = np.empty(len(sizes))
    ranks[order] = (end - laid * (1 - draw.random(len(sizes)))) / max(end[-1], 1.0)
    return np.minimum(ranks, np.nextafter(1.0, 0.0))


def rounded_evenly(expected: Floats, offset: float) -> Ints:
    """Return whole numbers near `expected`; any run of them adds up to the sum of its numbers ± 1.

    Examples
    --------
    >>> rounded_evenly(np.array([0.5, 0.5, 2.0, 0.25, 0.75]), 0.1).tolist()
    [0, 1, 2, 0, 1]
    """
    total = np.floor(np.cumsum(expected) + offset + 1e-9)
    found: Ints = np.diff(total, prepend=np.floor(offset + 1e-9)).astype(np.int64)
    return found


def reflected(ranks: Floats) -> Floats:
    """Return ranks in [0, 1]: what lies outside is reflected at the ends, so even ranks stay even.

    Examples
    --------
    >>> reflected(np.array([-0.25, 0.5, 1.25])).tolist()
    [0.25, 0.5, 0.75]
    """
    inside = np.abs(ranks)
    return np.where(inside > 1, 2 - inside, inside)


def at_levels(ranks: Floats, levels: Floats, values: Floats) -> Floats:
    """Return the values at `ranks`, between the known ones on a logarithmic scale from 1.

    Examples
    --------
    >>> levels, values = np.array([0.0, 1.0]), np.array([0.0, 99.0])
    >>> at_levels(np.array([0.0, 0.5]), levels, values).round(6).tolist()
    [0.0, 9.0]
    """
    if len(values) == 1:
        return np.full(len(ranks), values[0])
    return np.expm1(np.interp(ranks, levels, np.log1p(values)))
