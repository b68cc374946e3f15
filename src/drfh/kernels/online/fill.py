"""Progressive filling from the empty cluster with the index of the core.

The twin of ``drfh.kernels.fill.fill_best_fit``, with the core's index and tree.
"""

from __future__ import annotations

from drfh.kernels.online.place import index_update, search
from drfh.kernels.online.state import (
    AT_FIRST_QUEUE,
    AT_NEED,
    AT_QUEUE_SHAPE,
    AT_QUEUE_STATE,
    AT_READY_FIRST,
    AT_SERVER,
    AT_USAGE,
    EMPTY,
    FREE,
    READY,
    USERS,
    Ints,
    flags1,
    ints2,
    kernel,
    small1,
)
from drfh.kernels.online.turns import queue_for, set_level, touch
from drfh.kernels.online.views import bare

__all__ = ["fill", "fill_start"]


@kernel
def fill_start(b: Ints, left: Ints, ahead: bool) -> None:
    """Let every user with tasks stand in line; user i has shape i.

    With `ahead` the turn goes by the level with one task more.
    """
    b = bare(b)
    b_need, b_usage = ints2(b, AT_NEED), ints2(b, AT_USAGE)
    b_queue_state = flags1(b, AT_QUEUE_STATE)
    for user in range(b[USERS]):
        queue = queue_for(b, user, user)
        b_queue_state[queue] = READY if left[user] > 0 else EMPTY
        for r in range(b_need.shape[1]):
            b_usage[user, r] = b_need[user, r] if ahead else 0
        set_level(b, user)
        touch(b, user)


@kernel
def fill(b: Ints, left: Ints, users: Ints, servers: Ints) -> int:
    """Place tasks until the room for results is used or nothing fits any more; return how many."""
    b = bare(b)
    b_need, b_usage = ints2(b, AT_NEED), ints2(b, AT_USAGE)
    b_server = ints2(b, AT_SERVER)
    b_first_queue = small1(b, AT_FIRST_QUEUE)
    b_queue_shape = small1(b, AT_QUEUE_SHAPE)
    b_queue_state = flags1(b, AT_QUEUE_STATE)
    b_ready_first = small1(b, AT_READY_FIRST)
    placed = 0
    while placed < len(users):
        user = b_ready_first[1]
        if user < 0:
            break
        queue = b_first_queue[user]
        shape = b_queue_shape[queue]
        server = search(b, shape)
        if server >= 0:
            for r in range(b_need.shape[1]):
                b_server[server, FREE + r] -= b_need[shape, r]
                b_usage[user, r] += b_need[shape, r]
            index_update(b, server)
            set_level(b, user)
            users[placed], servers[placed] = user, server
            placed += 1
            left[user] -= 1
        # What fits nowhere now never will: nothing is released.
        if server < 0 or left[user] <= 0:
            b_queue_state[queue] = EMPTY
        touch(b, user)
    return placed
