"""What the servers lack for a task, by kind of server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from drfh.scheduler.core import Ints
from drfh.scheduler.plain import PlainCore

if TYPE_CHECKING:
    from drfh.scheduler.looking import Looking

__all__ = ["Lack", "Missing", "Survey"]


@dataclass(frozen=True, slots=True)
class Lack:
    """A resource of which there is not enough: what is needed, and the most that is free."""

    resource: str
    needed: float
    free: float


@dataclass(frozen=True, slots=True)
class Missing:
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
    """A look at all servers for one task."""

    def __init__(self, desk: Looking, task: int) -> None:
        core, rules = desk._core, desk._rules
        shape = core.shape_of(task)
        base, restriction = desk._needs[shape]
        allows = desk._restrictions.allows
        self._desk = desk
        self.restrictions = desk._restrictions.pair(restriction)
        self.restricted = restriction > 0
        self.servers = [s for s, up in enumerate(desk._up) if up and allows(restriction, s)]
        if isinstance(core, PlainCore):  # whose policy may look at whose task it is
            self.fitting = sum(core.takes(task, server) for server in self.servers)
        else:
            self.fitting = sum(core.fits(shape, server) for server in self.servers)
        sizes: Ints = np.array(
            [core.capacity(s) for s in range(len(desk._server_names))], dtype=np.int64
        )
        need = np.array(base, dtype=np.int64)
        self.refused = rules.refuses(need, sizes)
        self._room = rules.server_rows(sizes)[self.servers]
        self._need = rules.shape_row(need, sizes)
        self._free = self._free_rows(sizes)
        self._columns = list(rules.fit)  # also where it needs 0: a server may be overfilled
        self.needs = [
            (self._name(c), self._amount(c, self._need[c]))
            for c in self._columns
            if self._need[c] > 0
        ]
        most = self._room.max(axis=0, initial=0)
        self.too_large = [
            (self._name(c), self._amount(c, self._need[c]), self._amount(c, most[c]))
            for c in self._columns
            if most[c] < self._need[c]
        ]
        self.missing = () if self.fitting or not self.servers else self._missing()

    def _free_rows(self, sizes: Ints) -> Ints:
        """Return what is free by column; slots are counted from the tasks on the server."""
        desk = self._desk
        core, rules = desk._core, desk._rules
        rows: Ints = np.array([core.free(s) for s in self.servers], dtype=np.int64)
        rows = rows.reshape(-1, len(rules.resources))
        if not rules.extra:
            return rows
        slots = self._room[:, -1].copy()
        of_shape: dict[int, int] = {}
        for row, server in enumerate(self.servers):
            for task in core.running_on(server):
                shape = core.shape_of(task)
                if shape not in of_shape:
                    need = np.array(desk._needs[shape][0], dtype=np.int64)
                    of_shape[shape] = int(rules.shape_row(need, sizes)[-1])
                slots[row] -= of_shape[shape]
        return np.column_stack((rows, slots))

    def _name(self, column: int) -> str:
        resources = self._desk._units.resources
        return resources[column] if column < len(resources) else "slots"

    def _amount(self, column: int, units: int) -> float:
        row = [0] * len(self._desk._units.resources)
        if column >= len(row):
            return float(units)
        row[column] = int(units)
        return self._desk._units.amounts(row)[self._name(column)]

    def _missing(self) -> tuple[Missing, ...]:
        kinds: dict[tuple[int, ...], list[int]] = {}
        for row, server in enumerate(self.servers):
            kinds.setdefault(tuple(self._desk._core.capacity(server)), []).append(row)
        found = [self._of_kind(rows, size) for size, rows in kinds.items()]
        found.sort(key=lambda pair: (pair[1].too_small, pair[0]))
        return tuple(missing for _, missing in found)

    def _group(self, rows: list[int]) -> str | None:
        members = [self._desk._fleet.members[self.servers[row]] for row in rows]
        if len(members) == 1:
            return members[0].name
        groups = {member.group for member in members}
        return groups.pop() if len(groups) == 1 else None

    def _of_kind(self, rows: list[int], size: tuple[int, ...]) -> tuple[float, Missing]:
        """Return how far it is from fitting (of what it needs), and what is missing."""
        columns, need = self._columns, self._need
        wanted = np.maximum(need[columns], 1).astype(float)
        small = bool((self._room[rows[0]][columns] < need[columns]).any())
        rooms = (self._room if small else self._free)[rows][:, columns]
        short = np.maximum((need[columns] - rooms) / wanted, 0.0).max(axis=1, initial=0.0)
        best = int(short.argmin())
        most = rooms.max(axis=0)
        apart = not (most < need[columns]).any()
        free = rooms[best] if apart else most
        lacks = tuple(
            Lack(self._name(c), self._amount(c, need[c]), self._amount(c, amount))
            for c, amount in zip(columns, free.tolist(), strict=True)
            if amount < need[c]
        )
        nearest = self._desk._server_names[self.servers[rows[best]]] if apart else None
        capacity = self._desk._units.amounts(size)
        missing = Missing(self._group(rows), len(rows), capacity, lacks, small, nearest)
        return float(short[best]), missing
