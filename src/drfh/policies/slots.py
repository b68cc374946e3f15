"""Slots: servers cut into equal bundles, as in Hadoop's Fair Scheduler.

A slot is 1/N of the component-wise largest server in every resource (semantics: section Online).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

__all__ = ["CountRule", "Oversize", "Slots"]

CountRule = Literal["min", "cpu"]
Oversize = Literal["ceil", "reject", "overcommit", "fitcheck"]
COUNT_RULES: tuple[str, ...] = get_args(CountRule)
OVERSIZE: tuple[str, ...] = get_args(Oversize)
_TOO_MANY = 2**32  # slots of a task that needs what no server has


@dataclass(frozen=True, slots=True)
class Slots:
    """How servers and tasks are counted in slots.

    Parameters
    ----------
    number
        Slots of the largest server.
    count
        ``min``: a server has floor(N · its scarcest part); ``cpu``: floor(N · its CPU part).
    oversize
        A task larger than a slot takes several on one server (``ceil``), never runs
        (``reject``), takes one and may exceed the server (``overcommit``), or takes one if it
        also fits (``fitcheck``).

    Examples
    --------
    >>> capacity = np.array([[100, 100], [50, 25]])
    >>> Slots(10).of_servers(capacity, cpu=0)
    array([10,  2])
    >>> Slots(10).of_task(np.array([15, 5]), capacity)
    2
    """

    number: int
    count: CountRule = "min"
    oversize: Oversize = "ceil"

    def of_servers(self, capacity: NDArray[np.int64], cpu: int) -> NDArray[np.int64]:
        """Return the slots of each server; `capacity` is servers × resources in units."""
        largest = capacity.max(axis=0, initial=0)
        used = [cpu] if self.count == "cpu" else np.flatnonzero(largest > 0).tolist()
        if not used or not largest[used].all():
            return np.zeros(len(capacity), dtype=np.int64)
        # In integers: floor(N · c) must not lose a slot to rounding, nor N · c all its bits.
        exact = capacity[:, used]
        if int(largest.max()) * self.number >= 2**63:
            exact = exact.astype(object)
        parts = exact * self.number // largest[used]
        fewest: NDArray[np.int64] = parts.min(axis=1).astype(np.int64)
        return fewest

    def of_task(self, need: NDArray[np.int64], capacity: NDArray[np.int64]) -> int:
        """Return the slots that a task takes."""
        if self.oversize in ("overcommit", "fitcheck"):
            return 1
        return self._slots(need, capacity)

    def refuses(self, need: NDArray[np.int64], capacity: NDArray[np.int64]) -> bool:
        """Return whether a task never runs because it is larger than a slot."""
        return self.oversize == "reject" and self._slots(need, capacity) > 1

    def _slots(self, need: NDArray[np.int64], capacity: NDArray[np.int64]) -> int:
        largest = capacity.max(axis=0, initial=0)
        slots = 1
        for amount, most in zip(need.tolist(), largest.tolist(), strict=True):
            if amount > 0:
                slots = max(slots, -(-amount * self.number // most) if most > 0 else _TOO_MANY)
        return min(slots, _TOO_MANY)
