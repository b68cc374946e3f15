"""Servers of one size, found quickly."""

from __future__ import annotations

import numpy as np

from drfh.scheduler.core import Ints

__all__ = ["different_rows"]


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
