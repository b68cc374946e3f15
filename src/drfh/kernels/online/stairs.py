"""First-Fit index: a tree over the servers with a staircase at each node.

A node knows, for up to 256 amounts g of the first column, the most of the second column that is
free on a server below it with at least g of the first. So a server that has enough of both is
promised where separate maxima would promise two halves. The amounts are what tasks need. The
second column is rounded up to 15 bits, which may promise too much and never too little. Further
columns have plain maxima. A server that is dirty still stands where it stood before: the search
passes it over.
"""

from __future__ import annotations

import numpy as np

from drfh.kernels.online.state import (
    AT_ALLOWED,
    AT_NEED,
    AT_RESTRICTION,
    AT_SERVER,
    AT_STAIRS,
    AT_STAIRS_REST,
    AT_STANDING,
    AT_STEPS,
    FIT_FROM,
    FIT_TO,
    FREE,
    IS_DIRTY,
    LEAF,
    ROUNDING,
    SERVERS,
    STAIR_LEAVES,
    STEPS,
    Ints,
    flags2,
    ints1,
    ints2,
    kernel,
    small1,
    tiny2,
)
from drfh.kernels.online.views import bare

__all__ = ["stairs_build", "stairs_search", "stairs_update"]


@kernel
def step_of(b: Ints, amount: int) -> int:
    """Return the highest step that an amount of the first column reaches."""
    b_steps = ints1(b, AT_STEPS)
    low, left = 0, b[STEPS]
    while left > 1:  # as many rounds for every amount, and none with a branch
        half = left // 2
        low += half * (b_steps[low + half] <= amount)
        left -= half
    return low


@kernel
def rounded_up(b: Ints, amount: int) -> int:
    """Return an amount of the second column in the staircase's own, coarser unit."""
    return -((-amount) >> b[ROUNDING])


@kernel
def standing(b: Ints, server: int) -> tuple[int, int]:
    """Return which step a server reaches and what it has there; (-1, -1) where it has nothing."""
    b_server = ints2(b, AT_SERVER)
    one, last = b[FIT_FROM], b[FIT_TO]
    amount = b_server[server, FREE + one]
    height = rounded_up(b, b_server[server, FREE + min(one + 1, last - 1)])
    if amount < 0 or height < 0:
        return -1, -1
    return step_of(b, amount), height


@kernel
def fill_steps(b: Ints, leaf: int, low: int, high: int) -> None:
    """Compute the steps of a leaf from `low` up to `high` from its servers."""
    b_standing = tiny2(b, AT_STANDING)
    here = tiny2(b, AT_STAIRS)[b[STAIR_LEAVES] + leaf]
    for j in range(low, high + 1):
        here[j] = -1
    for server in range(leaf * LEAF, min(leaf * LEAF + LEAF, b[SERVERS])):
        height = b_standing[server, 1]
        for j in range(low, min(int(b_standing[server, 0]), high) + 1):
            here[j] = max(here[j], height)


@kernel
def fill_node(b: Ints, node: int, low: int, high: int) -> bool:
    """Join some steps of the two nodes below; return whether anything changed."""
    b_stairs = tiny2(b, AT_STAIRS)
    left, right, here = b_stairs[2 * node], b_stairs[2 * node + 1], b_stairs[node]
    differs = np.int16(0)
    for j in range(low, high + 1):  # without a branch, so that it becomes vector code
        most = max(left[j], right[j])
        differs |= most ^ here[j]
        here[j] = most
    return differs != 0


@kernel
def fill_rest(b: Ints, leaf: int) -> None:
    """Read the further columns of the servers of a leaf."""
    b_server = ints2(b, AT_SERVER)
    b_stairs_rest = ints2(b, AT_STAIRS_REST)
    node, column = b[STAIR_LEAVES] + leaf, FREE + b[FIT_FROM] + 2
    for r in range(b[FIT_TO] - b[FIT_FROM] - 2):
        most = -1
        for server in range(leaf * LEAF, min(leaf * LEAF + LEAF, b[SERVERS])):
            if not b_server[server, IS_DIRTY]:
                most = max(most, b_server[server, column + r])
        b_stairs_rest[node, r] = most


@kernel
def join_rest(b: Ints, node: int) -> bool:
    """Join the further columns of the two nodes below; return whether anything changed."""
    b_stairs_rest = ints2(b, AT_STAIRS_REST)
    changed = False
    for r in range(b[FIT_TO] - b[FIT_FROM] - 2):
        rest = max(b_stairs_rest[2 * node, r], b_stairs_rest[2 * node + 1, r])
        if rest != b_stairs_rest[node, r]:
            b_stairs_rest[node, r] = rest
            changed = True
    return changed


@kernel
def stairs_build(b: Ints) -> None:
    """Build the tree anew."""
    b = bare(b)
    b_standing = tiny2(b, AT_STANDING)
    for server in range(b[SERVERS]):
        b_standing[server, 0], b_standing[server, 1] = standing(b, server)
    for leaf in range(b[STAIR_LEAVES]):
        fill_steps(b, leaf, 0, b[STEPS] - 1)
        fill_rest(b, leaf)
    for node in range(b[STAIR_LEAVES] - 1, 0, -1):
        fill_node(b, node, 0, b[STEPS] - 1)
        join_rest(b, node)


@kernel
def lower(b: Ints, leaf: int, step: int, height: int) -> None:
    """Follow a server of a leaf that stood there and does no longer.

    Stairs only go down. What it alone held up ends at its step and is as high as it was.
    """
    b_stairs = tiny2(b, AT_STAIRS)
    node = b[STAIR_LEAVES] + leaf
    here = b_stairs[node]
    low = step + 1
    while low > 0 and here[low - 1] == height:
        low -= 1
    if low > step:
        return  # another one reaches further, higher
    fill_steps(b, leaf, low, step)
    node //= 2
    while node >= 1 and fill_node(b, node, low, step):
        node //= 2


@kernel
def lift(b: Ints, leaf: int, step: int, height: int) -> None:
    """Follow a server of a leaf that stands there now."""
    b_stairs = tiny2(b, AT_STAIRS)
    node = b[STAIR_LEAVES] + leaf
    while node >= 1:
        here = b_stairs[node]
        at = step
        while at >= 0 and here[at] < height:
            here[at] = height
            at -= 1
        if at == step:
            return  # it stands in the shadow of others
        node //= 2


@kernel
def stairs_update(b: Ints, server: int) -> None:
    """Bring the tree up to date with one server."""
    b_standing = tiny2(b, AT_STANDING)
    leaf = server // LEAF
    step, height = standing(b, server)
    step_before, height_before = b_standing[server, 0], b_standing[server, 1]
    b_standing[server, 0], b_standing[server, 1] = step, height
    if step > step_before or height > height_before:
        lift(b, leaf, step, height)
    if step < step_before or height < height_before:
        lower(b, leaf, step_before, height_before)
    if b[FIT_TO] - b[FIT_FROM] > 2:
        fill_rest(b, leaf)
        node = (b[STAIR_LEAVES] + leaf) // 2
        while node >= 1 and join_rest(b, node):
            node //= 2


@kernel
def stairs_search(b: Ints, shape: int) -> int:
    """Return the first clean server that holds a task, or -1."""
    b_server = ints2(b, AT_SERVER)
    b_need = ints2(b, AT_NEED)
    b_restriction = small1(b, AT_RESTRICTION)
    b_standing = tiny2(b, AT_STANDING)
    b_stairs = tiny2(b, AT_STAIRS)
    b_stairs_rest = ints2(b, AT_STAIRS_REST)
    b_allowed = flags2(b, AT_ALLOWED)
    one, last = b[FIT_FROM], b[FIT_TO]
    two = min(one + 1, last - 1)
    leaves = b[STAIR_LEAVES]
    step = step_of(b, b_need[shape, one])
    wanted = rounded_up(b, b_need[shape, two])
    restriction = b_restriction[shape]
    node = 1
    while True:
        passes = b_stairs[node, step] >= wanted
        for r in range(one + 2, last):
            if b_stairs_rest[node, r - one - 2] < b_need[shape, r]:
                passes = False
        if passes:
            if node < leaves:
                node *= 2
                continue
            start = (node - leaves) * LEAF
            for server in range(start, min(start + LEAF, b[SERVERS])):
                if b_standing[server, 0] < step or b_standing[server, 1] < wanted:
                    continue
                holds = not b_server[server, IS_DIRTY]
                for r in range(one, last):
                    if b_server[server, FREE + r] < b_need[shape, r]:
                        holds = False
                        break
                if holds and (restriction == 0 or b_allowed[restriction, server]):
                    return server
        while node & 1:
            node //= 2
        if node == 0:
            return -1
        node += 1
