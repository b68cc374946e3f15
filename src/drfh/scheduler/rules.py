"""Rules: a policy for one cluster, in columns of integers.

Everything that is counted is a column: the resources, and for some turns one more (slots; for
``tsf`` the part of what a user could run alone). A task fits where the columns of ``fit`` have
room; whose turn it is follows from the columns of ``level``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from drfh.errors import UnknownNameError
from drfh.policies import Policy

__all__ = ["ALONE", "Rules"]

Ints = NDArray[np.int64]

#: What a user of ``tsf`` holds when it has all that it could run alone.
ALONE = 2**50
_MOST_ALONE = 2**53  # of one task: one that counts more than ALONE fits nowhere

Mode = Literal["max", "sum", "oldest", "tree", "own"]


@dataclass(frozen=True)
class Rules:
    """A policy on given resources.

    Parameters
    ----------
    policy
        What to carry out.
    resources
        Names, in the cluster's order.
    units
        Size of one integer unit of each.
    seed
        Start of the draws of ``random``.
    """

    policy: Policy
    resources: tuple[str, ...]
    units: tuple[float, ...]
    seed: int = 0

    def __post_init__(self) -> None:
        for part in (self.policy.turn, self.policy.choice):
            head, colon, name = part.partition(":") if isinstance(part, str) else ("", "", "")
            if colon and head != "slots" and name not in self.resources:
                raise UnknownNameError(f"resource of {head}", name, self.resources)

    @property
    def cpu(self) -> int:
        """``cpu`` if there is one, else the first resource."""
        return self.resources.index("cpu") if "cpu" in self.resources else 0

    @property
    def reference(self) -> int:
        """The resource that H divides by."""
        choice = self.policy.choice
        if isinstance(choice, str) and choice.startswith("best-fit:"):
            return self.resources.index(choice.partition(":")[2])
        return self.cpu

    @property
    def choice(self) -> str:
        """Name of the server choice without its parameter; ``own`` for a function."""
        choice = self.policy.choice
        return choice.partition(":")[0] if isinstance(choice, str) else "own"

    @property
    def turn(self) -> str:
        """Name of the turn without its parameter; ``own`` for a function."""
        turn = self.policy.turn
        return turn.partition(":")[0] if isinstance(turn, str) else "own"

    @property
    def mode(self) -> Mode:
        """How a level follows from its columns."""
        modes: dict[str, Mode] = {"asset": "sum", "fifo": "oldest", "hdrf": "tree", "own": "own"}
        return modes.get(self.turn, "max")

    @property
    def extra(self) -> bool:
        """Whether there is one column more than resources."""
        return self.turn in ("slots", "tsf")

    @property
    def columns(self) -> int:
        """Number of columns."""
        return len(self.resources) + self.extra

    @property
    def fit(self) -> range:
        """Columns that must have room."""
        m = len(self.resources)
        slots = self.policy.slots
        if slots is None:
            return range(m)
        return range(m + 1) if slots.oversize == "fitcheck" else range(m, m + 1)

    @property
    def level(self) -> range:
        """Columns whose use makes the level."""
        m = len(self.resources)
        turn = self.policy.turn
        if isinstance(turn, str) and turn.startswith("max-min:"):
            one = self.resources.index(turn.partition(":")[2])
            return range(one, one + 1)
        return range(m, m + 1) if self.extra else range(m)

    def denominators(self, totals: Sequence[int]) -> list[float]:
        """Return the total of each column; 0 where it does not count."""
        own = {"slots": [1.0], "tsf": [float(ALONE)]}.get(self.turn, [])
        return [float(total) for total in totals] + own

    def server_rows(self, capacity: Ints) -> Ints:
        """Return servers × columns for servers × resources; 0 for servers down."""
        if self.turn == "tsf":
            return np.column_stack((capacity, np.zeros(len(capacity), dtype=np.int64)))
        slots = self.policy.slots
        if slots is None:
            return capacity
        return np.column_stack((capacity, slots.of_servers(capacity, self.cpu)))

    def shape_row(self, need: Ints, capacity: Ints) -> Ints:
        """Return the columns of a task that needs `need` on this cluster."""
        if self.turn == "tsf":
            return np.append(need, self._alone(need, capacity))
        slots = self.policy.slots
        return need if slots is None else np.append(need, slots.of_task(need, capacity))

    def refuses(self, need: Ints, capacity: Ints) -> bool:
        """Return whether a task never runs here whatever is free."""
        slots = self.policy.slots
        return slots is not None and slots.refuses(need, capacity)

    @staticmethod
    def _alone(need: Ints, capacity: Ints) -> int:
        """Return one task as a part of all that this user could run on the empty cluster."""
        required = need > 0
        parts = capacity[:, required] / need[required]
        tasks = float(np.cumsum(parts.min(axis=1))[-1]) if len(parts) else 0.0
        return max(1, round(min(ALONE / tasks, _MOST_ALONE))) if tasks > 0 else 0
