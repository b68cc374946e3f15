"""The data of a heat map: levels and states of servers in groups.

Numbers go to the browser as one byte each. Only what is empty is 0, and only what is full is 255,
so that what is almost empty or almost full differs from both.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drfh.errors import InputError
from drfh.formatting import format_count, plural
from drfh.model.resources import TOLERANCE

__all__ = [
    "FULL",
    "STATES",
    "CellChange",
    "CellText",
    "HeatMapData",
    "change_between",
    "levels_by_resource",
    "levels_of",
]

#: The level of what is full.
FULL = 255
#: In the order of their numbers.
STATES = ("up", "closing", "down")
_STATE_TEXTS = {
    "up": ("is up", "are up"),
    "closing": ("takes nothing new", "take nothing new"),
    "down": ("is down", "are down"),
}


@dataclass(frozen=True, slots=True)
class CellText:
    """The text of a cell's tooltip.

    Parameters
    ----------
    title
        Its name and state.
    lines
        What it has and what of that is used.
    tasks
        What runs there.

    Examples
    --------
    >>> CellText("n0", ["cpu 3 of 4"]).to_dict()
    {'title': 'n0', 'lines': ['cpu 3 of 4'], 'tasks': []}
    """

    title: str
    lines: Sequence[str] = ()
    tasks: Sequence[str] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON for the browser."""
        return {"title": self.title, "lines": list(self.lines), "tasks": list(self.tasks)}


def levels_of(used: ArrayLike, size: ArrayLike) -> NDArray[np.uint8]:
    """Return how full servers are of a resource, from 0 to 255.

    Parameters
    ----------
    used, size
        Of each server; one that has nothing of the resource is empty.

    Examples
    --------
    >>> levels_of([0.0, 1e-6, 2.0, 3.999, 4.0, 5.0], 4.0).tolist()
    [0, 1, 128, 254, 255, 255]
    >>> levels_of([0.0, 1.0], [0.0, 0.0]).tolist()
    [0, 0]
    """
    amount, capacity = np.broadcast_arrays(
        np.asarray(used, dtype=np.float64), np.asarray(size, dtype=np.float64)
    )
    part = np.divide(amount, capacity, out=np.zeros(capacity.shape), where=capacity > 0)
    level = np.clip(np.rint(part * FULL), 1, FULL - 1)
    level = np.where(part <= TOLERANCE, 0, np.where(part >= 1 - TOLERANCE, FULL, level))
    found: NDArray[np.uint8] = level.astype(np.uint8)
    return found


class HeatMapData:
    """The cells of a heat map, immutable.

    Parameters
    ----------
    groups
        Name and number of servers of each block; the servers come in this order.
    resources
        Their names.
    levels
        As :func:`levels_of` has them: a row for each resource, a column for each server.
    states
        Of each server, a number into :data:`STATES`; None: all are up.
    thing
        What a cell stands for.

    Examples
    --------
    >>> cells = HeatMapData([("big", 2), ("small", 1)], ["cpu"], [[0, 255, 128]], [0, 0, 2])
    >>> len(cells), cells.summary
    (3, '3 servers in 2 groups: 2 are up, 1 is down. 1 is empty, 1 has a resource that is full.')
    """

    def __init__(
        self,
        groups: Sequence[tuple[str, int]],
        resources: Sequence[str],
        levels: ArrayLike,
        states: ArrayLike | None = None,
        thing: str = "server",
    ) -> None:
        number = sum(count for _, count in groups)
        rows = np.asarray(levels, dtype=np.uint8)
        if not rows.size:
            rows = np.zeros((len(resources), number), dtype=np.uint8)
        if rows.shape != (len(resources), number):
            rule = f"must have {len(resources)} rows of {number} levels"
            raise InputError("levels", rule, rows.shape)
        state = np.zeros(number) if states is None else np.asarray(states)
        if state.shape != (number,) or (number and state.max() >= len(STATES)):
            raise InputError("states", f"must be {number} numbers from 0 to 2", state.shape)
        self.groups, self.resources = tuple(groups), tuple(resources)
        self.levels, self.states = rows, state.astype(np.uint8)
        self.thing = thing

    def __len__(self) -> int:
        return int(self.states.size)

    def same_layout(self, other: HeatMapData) -> bool:
        """Return whether the blocks and resources of both are the same."""
        return (self.groups, self.resources) == (other.groups, other.resources)

    @property
    def summary(self) -> str:
        """The map as text, for screen readers."""
        if not len(self):
            return f"no {self.thing}s"
        up = self.states != STATES.index("down")
        fullest = self.levels.max(axis=0, initial=0)[up]
        counts = [int(np.count_nonzero(self.states == s)) for s in range(len(STATES))]
        listed = [
            f"{count:,} {_STATE_TEXTS[state][count != 1]}"
            for state, count in zip(STATES, counts, strict=True)
            if count
        ]
        empty, full = (int(np.count_nonzero(fullest == level)) for level in (0, FULL))
        where = f" in {format_count(len(self.groups), 'group')}" if len(self.groups) > 1 else ""
        return (
            f"{format_count(len(self), self.thing)}{where}: {', '.join(listed)}. "
            f"{empty:,} {plural(empty, 'is', 'are')} empty, "
            f"{full:,} {plural(full, 'has', 'have')} a resource that is full."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON for the browser.

        Examples
        --------
        >>> HeatMapData([("big", 2)], ["cpu"], [[0, 255]]).to_dict()["levels"]
        ['AP8=']
        """
        return {
            "groups": [list(group) for group in self.groups],
            "resources": list(self.resources),
            "levels": [_written(row) for row in self.levels],
            "states": _written(self.states),
            "summary": self.summary,
            "thing": self.thing,
        }


@dataclass(frozen=True, eq=False)
class CellChange:
    """Cells that have changed.

    Parameters
    ----------
    at
        Their positions.
    levels, states
        What they are now, as in :class:`HeatMapData`.
    summary
        The whole map as text.
    """

    at: NDArray[np.uint32]
    levels: NDArray[np.uint8]
    states: NDArray[np.uint8]
    summary: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON for the browser."""
        return {
            "at": _written(self.at.astype("<u4")),
            "levels": [_written(row) for row in self.levels],
            "states": _written(self.states),
            "summary": self.summary,
        }


def change_between(before: HeatMapData, after: HeatMapData) -> CellChange | None:
    """Return the cells that differ; None if the layout does.

    Examples
    --------
    >>> before = HeatMapData([("big", 3)], ["cpu"], [[0, 255, 7]])
    >>> after = HeatMapData([("big", 3)], ["cpu"], [[0, 254, 7]])
    >>> change = change_between(before, after)
    >>> change.at.tolist(), change.levels.tolist()
    ([1], [[254]])
    >>> change_between(before, HeatMapData([("big", 2)], ["cpu"], [[0, 255]])) is None
    True
    """
    if not before.same_layout(after):
        return None
    differ = (before.levels != after.levels).any(axis=0) | (before.states != after.states)
    at = np.flatnonzero(differ)
    return CellChange(at.astype(np.uint32), after.levels[:, at], after.states[at], after.summary)


def levels_by_resource(
    sizes: Sequence[Mapping[str, float]], used: Sequence[Mapping[str, float]]
) -> tuple[tuple[str, ...], NDArray[np.uint8]]:
    """Return the resources of servers, and each server's levels.

    Parameters
    ----------
    sizes, used
        Of each server, by resource.

    Examples
    --------
    >>> sizes = [{"cpu": 4.0}, {"cpu": 2.0, "gpu": 1.0}]
    >>> names, levels = levels_by_resource(sizes, [{}, {"gpu": 1.0}])
    >>> names, levels.tolist()
    (('cpu', 'gpu'), [[0, 0], [0, 255]])
    """
    names: dict[str, None] = {}
    for size in sizes:
        names.update(dict.fromkeys(size))
    rows = [
        levels_of([one.get(name, 0.0) for one in used], [size.get(name, 0.0) for size in sizes])
        for name in names
    ]
    return tuple(names), np.array(rows, dtype=np.uint8).reshape(len(names), len(sizes))


def _written(numbers: NDArray[Any]) -> str:
    return b64encode(np.ascontiguousarray(numbers).tobytes()).decode("ascii")
