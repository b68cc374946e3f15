"""Progressive filling with the indexed brain, for many servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from drfh.kernels.online.fill import fill, fill_start
from drfh.kernels.online.place import settle
from drfh.policies import Policy
from drfh.scheduler.core import Ints
from drfh.scheduler.indexed import IndexedCore
from drfh.scheduler.rules import Rules

__all__ = ["fill_indexed"]

_ROOM = 1 << 16  # tasks between two reports of progress


def fill_indexed(
    need: Ints,
    room: Ints,
    allowed: NDArray[np.bool_],
    restriction: Ints,
    weight: Sequence[float],
    left: Ints,
    *,
    reference: int,
    ahead: bool = False,
) -> Iterator[tuple[Ints, Ints]]:
    """Yield users and servers of the tasks in the order in which they are placed, in pieces.

    Parameters
    ----------
    need
        Units that one task needs, users × resources.
    room
        Units of each server, servers × resources.
    allowed
        Sets of servers, one a row.
    restriction
        Which of these rows a user may use.
    weight, left
        Weight, and how many tasks there are, of each user. `left` counts down.
    reference
        Resource that H divides by.
    ahead
        Whether the turn goes by the level with one task more.

    Examples
    --------
    >>> everywhere = np.ones((1, 1), dtype=bool), np.array([0, 0])
    >>> pieces = fill_indexed(np.array([[1], [4]]), np.array([[6]]), *everywhere, [1.0, 1.0],
    ...                       np.array([9, 9]), reference=0)
    >>> [users.tolist() for users, servers in pieces]
    [[0, 1, 0]]
    """
    names = tuple(f"r{position}" for position in range(need.shape[1]))
    policy = Policy(choice=f"best-fit:{names[reference]}")
    core = IndexedCore(Rules(policy, names, (1.0,) * len(names)))
    core.reserve(users=len(need), shapes=len(need), queues=len(need))
    for entitled in weight:
        core.add_user(float(entitled))
    core.add_servers(room)
    number = [0 if row.all() else core.add_restriction(row.tolist()) for row in allowed]
    core.add_shapes(need, np.array(number, dtype=np.int64)[restriction])
    head = core.ready()
    settle(head)
    fill_start(head, left, ahead)
    users, servers = np.empty(_ROOM, dtype=np.int64), np.empty(_ROOM, dtype=np.int64)
    written = _ROOM
    while written == _ROOM:
        written = int(fill(head, left, users, servers))
        yield users[:written], servers[:written]
