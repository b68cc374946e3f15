"""Which tasks no server could hold, found quickly: servers of one size are looked at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfh.scheduler.core import Ints

__all__ = ["different_rows", "too_large"]

_MOST_PAIRS = 1_000_000  # shapes × kinds of server that are compared at once


def too_large(
    need: Ints, restriction: NDArray[np.integer[Any]], rooms: Ints, allowed: NDArray[np.uint8]
) -> NDArray[np.bool_]:
    """Return for each shape whether no server that it may use could hold it empty.

    Parameters
    ----------
    need, rooms
        Shapes × columns and servers × columns.
    restriction
        Number of each shape's restriction; 0 is none.
    allowed
        Restrictions × servers: not 0 where a server may be used.

    Examples
    --------
    >>> rooms, allowed = np.array([[4, 8], [9, 1]]), np.array([[1, 1], [1, 0]], dtype=np.uint8)
    >>> too_large(np.array([[5, 1], [5, 1]]), np.array([0, 1]), rooms, allowed)
    array([False,  True])
    """
    kinds, which = different_rows(rooms)
    answer = np.ones(len(need), dtype=bool)
    for number in np.unique(restriction).tolist():
        mine = np.flatnonzero(restriction == number)
        here = kinds[np.unique(which[allowed[number] != 0])] if number else kinds
        for some in np.array_split(mine, len(mine) * len(here) // _MOST_PAIRS + 1):
            fits: NDArray[np.bool_] = np.all(here[None] >= need[some][:, None], axis=2)
            answer[some] = ~fits.any(axis=1)
    return answer


def different_rows(rows: Ints) -> tuple[Ints, Ints]:
    """Return the different rows, in some order, and which of them each row is.

    Sorting one number a row is many times as fast as sorting rows; two rows with the same number
    are so unlikely that it is enough to notice.

    Examples
    --------
    >>> kinds, which = different_rows(np.array([[4, 8], [2, 2], [4, 8]]))
    >>> kinds[which].tolist(), len(kinds)
    ([[4, 8], [2, 2], [4, 8]], 2)
    """
    odd = np.random.default_rng(0).integers(1, 2**62, rows.shape[1], dtype=np.int64) | 1
    mixed = (rows.astype(np.uint64) * odd.astype(np.uint64)).sum(axis=1, dtype=np.uint64)
    _, first, which = np.unique(mixed, return_index=True, return_inverse=True)
    kinds = rows[first]
    if not np.array_equal(kinds[which], rows):
        kinds, which = np.unique(rows, axis=0, return_inverse=True)
    return kinds, which.reshape(-1)
