"""Protocol of a core: the scheduler in numbers, plain or indexed.

Users, servers, shapes and tasks are numbered from 0 in the order in which they come. Names, bad
input, the log and explanations are the business of :class:`drfh.Scheduler`; a core may assume
that it is called rightly. A *shape* is what a task needs and where it may run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from drfh.scheduler.rules import Rules

__all__ = ["GONE", "NEVER", "QUEUED", "RETURNED", "RUNNING", "Core", "CoreState", "draw"]

Ints = NDArray[np.int64]

#: States of a task. ``GONE``: done or cancelled.
QUEUED, NEVER, RUNNING, GONE = range(4)

#: Taken from the order of a task that ran before: it stands before all that did not.
RETURNED = 2**52

_MASK = 2**64 - 1


def draw(state: int, among: int) -> tuple[int, int]:
    """Return the next state and a number below `among`: splitmix64 (Steele, Lea, Flood, 2014).

    Examples
    --------
    >>> state, first = draw(0, 10)
    >>> first, draw(state, 10)[1]
    (8, 4)
    """
    state = (state + 0x9E3779B97F4A7C15) & _MASK
    mixed = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    mixed ^= mixed >> 31
    return state, ((mixed >> 32) * among) >> 32


@dataclass
class CoreState:
    """State of a core: enough to build the same one again, plain or indexed.

    Only tasks that are queued, never to run, or running are listed; `tasks` has their numbers, and
    a restored core numbers them from 0 in the same order.
    """

    weight: list[float]
    group: list[int]
    groups: list[tuple[int, float]]
    capacity: list[list[int]]
    need: list[list[int]]
    restriction: list[int]
    allowed: list[list[bool]]
    tasks: list[int]
    user: list[int]
    shape: list[int]
    server: list[int]
    order: list[int]
    stamp: list[int]
    next_order: int
    next_stamp: int
    draws: int
    extra: dict[str, object] = field(default_factory=dict)


class Core(Protocol):
    """Decides which task starts where, in numbers."""

    rules: Rules

    def add_group(self, parent: int, weight: float) -> int:
        """Add a group of users under group `parent` (-1: the root), for ``hdrf``."""

    def add_user(self, weight: float, group: int = -1) -> int:
        """Add a user (under a group of users, or under the root) and return its number."""

    def set_weight(self, user: int, weight: float) -> None:
        """Change a weight."""

    def add_server(self, capacity: Sequence[int], allowed: Sequence[bool] = ()) -> int:
        """Add a server; `allowed` has one entry for each restriction from 1 on."""

    def set_capacity(self, server: int, capacity: Sequence[int]) -> None:
        """Change a server; all zeros: it is down. Tasks on it stay until they are put back."""

    def add_restriction(self, allowed: Sequence[bool]) -> int:
        """Add a set of servers and return its number; 0 is there from the start: all of them."""

    def add_shape(self, need: Sequence[int], restriction: int = 0) -> int:
        """Add a kind of task and return its number."""

    def submit(self, user: int, shape: int, count: int = 1) -> int:
        """Queue `count` tasks and return the number of the first; the others follow it."""

    def cancel(self, task: int) -> None:
        """Drop a task that does not run."""

    def update(self, task: int, shape: int) -> None:
        """Change what a task needs that does not run; it keeps its place."""

    def place(self, limit: int = -1) -> tuple[Ints, Ints]:
        """Start tasks until nothing more may start, or `limit`: tasks and servers in order."""

    def finish(self, task: int) -> None:
        """End a running task."""

    def put_back(self, task: int) -> None:
        """Take a running task off its server, to the head of its user's queue."""

    def adopt(self, user: int, shape: int, server: int) -> int:
        """Count a task that already runs, even where it overfills the server."""

    def state(self, task: int) -> int:
        """Return ``QUEUED``, ``NEVER``, ``RUNNING`` or ``GONE``."""

    def user_of(self, task: int) -> int:
        """Return the user of a task."""

    def shape_of(self, task: int) -> int:
        """Return the shape of a task."""

    def server_of(self, task: int) -> int:
        """Return where a task runs, or -1."""

    def running_on(self, server: int) -> list[int]:
        """Return the tasks on a server, the one placed first in front."""

    def queue_of(self, user: int) -> list[int]:
        """Return the tasks of a user that do not run, in their order (``NEVER`` ones too)."""

    def level(self, user: int) -> float:
        """Return the number by which its turn comes."""

    def usage(self, user: int) -> list[int]:
        """Return what the running tasks of a user hold, by resource."""

    def counts(self, user: int) -> tuple[int, int, int]:
        """Return how many tasks of a user are running, queued, and never to run."""

    def capacity(self, server: int) -> list[int]:
        """Return the size of a server by resource."""

    def free(self, server: int) -> list[int]:
        """Return what is free on a server by resource; below 0 where it is overfilled."""

    def overfull(self, server: int) -> bool:
        """Return whether the tasks on a server are more than fit."""

    def could_hold(self, shape: int, server: int) -> bool:
        """Return whether a task of this shape would fit on the server if it were empty."""

    def takes(self, task: int, server: int) -> bool:
        """Return whether a task may go on the server now."""

    def dump(self) -> CoreState:
        """Return the state."""

    def load(self, state: CoreState) -> None:
        """Take over a state, into a core that is still empty."""
