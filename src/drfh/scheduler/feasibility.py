"""Feasibility: which servers can hold a task, and what others lack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from drfh.scheduler.core import Ints

if TYPE_CHECKING:
    from drfh.scheduler.state import SchedulerState

__all__ = ["Lack", "Shortage", "Survey", "different_rows", "too_large"]

_MOST_PAIRS = 1_000_000  # shapes × kinds of server that are compared at once


def too_large(
    need: Ints, restriction: NDArray[np.integer[Any]], amounts: Ints, allowed: NDArray[np.uint8]
) -> NDArray[np.bool_]:
    """Return for each shape whether no allowed server is large enough.

    Parameters
    ----------
    need, amounts
        Shapes × columns and servers × columns.
    restriction
        Number of each shape's restriction; 0 is none.
    allowed
        Restrictions × servers: not 0 where a server may be used.

    Examples
    --------
    >>> amounts, allowed = np.array([[4, 8], [9, 1]]), np.array([[1, 1], [1, 0]], dtype=np.uint8)
    >>> too_large(np.array([[5, 1], [5, 1]]), np.array([0, 1]), amounts, allowed)
    array([False,  True])
    """
    kinds, which = different_rows(amounts)
    answer = np.ones(len(need), dtype=bool)
    for number in np.unique(restriction).tolist():
        mine = np.flatnonzero(restriction == number)
        here = kinds[np.unique(which[allowed[number] != 0])] if number else kinds
        for some in np.array_split(mine, len(mine) * len(here) // _MOST_PAIRS + 1):
            fits: NDArray[np.bool_] = np.all(here[None] >= need[some][:, None], axis=2)
            answer[some] = ~fits.any(axis=1)
    return answer


def different_rows(rows: Ints) -> tuple[Ints, Ints]:
    """Return the unique rows, and the index of each row's own.

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


@dataclass(frozen=True, slots=True)
class Lack:
    """A resource that is short: what is needed, and the most free."""

    resource: str
    needed: float
    free: float


@dataclass(frozen=True, slots=True)
class Shortage:
    """What servers of one size lack.

    `group` is the group of all of them, or the name of a single one; None where equal servers
    are from several groups. `free` in `lacks` is the most on any of them; where each resource
    alone would fit somewhere but never all together, it is that of the server `nearest`. A kind
    that is `too_small` would not do empty. Where adopted tasks overfill a server, `free` is
    below 0, and that alone keeps others out.
    """

    group: str | None
    servers: int
    capacity: dict[str, float]
    lacks: tuple[Lack, ...]
    too_small: bool = False
    nearest: str | None = None


class Survey:
    """The servers of a task: allowed, fitting now, and short of something."""

    def __init__(self, state: SchedulerState, task: int) -> None:
        core, rules = state.core, state.rules
        shape = core.shape_of(task)
        base, restriction = state.needs[shape]
        allows = state.restrictions.allows
        self._state = state
        self.restrictions = state.restrictions.pair(restriction)
        self.restricted = restriction > 0
        self.servers = [s for s, up in enumerate(state.up) if up and allows(restriction, s)]
        self.fitting = sum(core.takes(task, server) for server in self.servers)
        sizes: Ints = np.array(
            [core.capacity(s) for s in range(len(state.server_names))], dtype=np.int64
        )
        need = np.array(base, dtype=np.int64)
        self.refused = rules.refuses(need, sizes)
        self._capacity = rules.server_rows(sizes)[self.servers]
        self._need = rules.shape_row(need, sizes)
        self._free = self._free_rows(sizes)
        self._columns = list(rules.fit)  # also where it needs 0: a server may be overfilled
        self.needs = [
            (self._name(c), self._amount(c, self._need[c]))
            for c in self._columns
            if self._need[c] > 0
        ]
        most = self._capacity.max(axis=0, initial=0)
        self.too_large = [
            (self._name(c), self._amount(c, self._need[c]), self._amount(c, most[c]))
            for c in self._columns
            if most[c] < self._need[c]
        ]
        self.missing = () if self.fitting or not self.servers else self._missing()

    def _free_rows(self, sizes: Ints) -> Ints:
        """Return what is free by column; slots are counted from the tasks on the server."""
        state = self._state
        core, rules = state.core, state.rules
        rows: Ints = np.array([core.free(s) for s in self.servers], dtype=np.int64)
        rows = rows.reshape(-1, len(rules.resources))
        if not rules.extra:
            return rows
        slots = self._capacity[:, -1].copy()
        of_shape: dict[int, int] = {}
        for row, server in enumerate(self.servers):
            for task in core.running_on(server):
                shape = core.shape_of(task)
                if shape not in of_shape:
                    need = np.array(state.needs[shape][0], dtype=np.int64)
                    of_shape[shape] = int(rules.shape_row(need, sizes)[-1])
                slots[row] -= of_shape[shape]
        return np.column_stack((rows, slots))

    def _name(self, column: int) -> str:
        resources = self._state.units.resources
        return resources[column] if column < len(resources) else "slots"

    def _amount(self, column: int, units: int) -> float:
        row = [0] * len(self._state.units.resources)
        if column >= len(row):
            return float(units)
        row[column] = int(units)
        return self._state.units.amounts(row)[self._name(column)]

    def _missing(self) -> tuple[Shortage, ...]:
        kinds: dict[tuple[int, ...], list[int]] = {}
        for row, server in enumerate(self.servers):
            kinds.setdefault(tuple(self._state.core.capacity(server)), []).append(row)
        found = [self._of_kind(rows, size) for size, rows in kinds.items()]
        found.sort(key=lambda pair: (pair[1].too_small, pair[0]))
        return tuple(missing for _, missing in found)

    def _group(self, rows: list[int]) -> str | None:
        entries = [self._state.nodes.entries[self.servers[row]] for row in rows]
        if len(entries) == 1:
            return entries[0].name
        groups = {entry.group for entry in entries}
        return groups.pop() if len(groups) == 1 else None

    def _of_kind(self, rows: list[int], size: tuple[int, ...]) -> tuple[float, Shortage]:
        """Return the largest part of its need that is missing, and what is missing."""
        columns, need = self._columns, self._need
        needed = np.maximum(need[columns], 1).astype(float)
        small = bool((self._capacity[rows[0]][columns] < need[columns]).any())
        amounts = (self._capacity if small else self._free)[rows][:, columns]
        short = np.maximum((need[columns] - amounts) / needed, 0.0).max(axis=1, initial=0.0)
        best = int(short.argmin())
        most = amounts.max(axis=0)
        apart = not (most < need[columns]).any()
        free = amounts[best] if apart else most
        lacks = tuple(
            Lack(self._name(c), self._amount(c, need[c]), self._amount(c, amount))
            for c, amount in zip(columns, free.tolist(), strict=True)
            if amount < need[c]
        )
        nearest = self._state.server_names[self.servers[rows[best]]] if apart else None
        capacity = self._state.units.amounts(size)
        missing = Shortage(self._group(rows), len(rows), capacity, lacks, small, nearest)
        return float(short[best]), missing
