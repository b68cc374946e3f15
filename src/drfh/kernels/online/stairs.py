"""First-Fit index: a tree over the servers in their order, with a staircase at each node.

A node knows, for up to 256 amounts g of the first column, the most of the second column that is
free on a server below it with at least g of the first. So a server that has enough of both is
promised where separate maxima would promise two halves. The amounts are what tasks need. The
second column is rounded up to 31 bits, which may promise too much and never too little. Further
columns have plain maxima.
"""

from __future__ import annotations

import numpy as np

from drfh.kernels.online.state import (
    AT_ALLOWED,
    AT_NEED,
    AT_REACH,
    AT_RESTRICTION,
    AT_SERVER,
    AT_STAIRS,
    AT_STAIRS_REST,
    AT_STEPS,
    FIT_FROM,
    FIT_TO,
    FREE,
    IS_DIRTY,
    LEAF,
    ROUNDING,
    SERVERS,
    SLOT,
    STAIR_LEAVES,
    STEPS,
    Ints,
    flags2,
    ints1,
    ints2,
    kernel,
    small1,
    small2,
)
from drfh.kernels.online.views import bare

__all__ = ["stairs_build", "stairs_search", "stairs_update"]


@kernel
def step_of(b: Ints, amount: int) -> int:
    """Return the highest step that an amount of the first column reaches."""
    b_steps = ints1(b, AT_STEPS)
    low, high = 0, b[STEPS]
    while high - low > 1:
        middle = (low + high) // 2
        if b_steps[middle] <= amount:
            low = middle
        else:
            high = middle
    return low


@kernel
def set_step(b: Ints, server: int) -> None:
    """Note which step a server reaches; -1 where it is overfilled."""
    b_server = ints2(b, AT_SERVER)
    amount = b_server[server, FREE + b[FIT_FROM]]
    b_server[server, SLOT] = step_of(b, amount) if amount >= 0 else -1


@kernel
def rounded_up(b: Ints, amount: int) -> int:
    """Return an amount of the second column in the staircase's own, coarser unit."""
    return -((-amount) >> b[ROUNDING])


@kernel
def fill_leaf(b: Ints, leaf: int) -> int:
    """Read the servers of a leaf; return how many steps may have changed."""
    b_server = ints2(b, AT_SERVER)
    b_stairs = small2(b, AT_STAIRS)
    b_stairs_rest = ints2(b, AT_STAIRS_REST)
    b_reach = small1(b, AT_REACH)
    here = b_stairs[b[STAIR_LEAVES] + leaf]
    one, last = b[FIT_FROM], b[FIT_TO]
    two = min(one + 1, last - 1)
    before = b_reach[leaf]
    for j in range(before):
        here[j] = -1
    for r in range(one + 2, last):
        b_stairs_rest[b[STAIR_LEAVES] + leaf, r - one - 2] = -1
    reach = 0
    for server in range(leaf * LEAF, min(leaf * LEAF + LEAF, b[SERVERS])):
        if b_server[server, IS_DIRTY]:
            continue
        step = b_server[server, SLOT]
        if step >= 0:
            # What it has counts for all lower steps, below.
            reach = max(reach, step + 1)
            here[step] = max(here[step], rounded_up(b, b_server[server, FREE + two]))
        for r in range(one + 2, last):
            rest = b_stairs_rest[b[STAIR_LEAVES] + leaf]
            rest[r - one - 2] = max(rest[r - one - 2], b_server[server, FREE + r])
    for j in range(reach - 2, -1, -1):
        here[j] = max(here[j], here[j + 1])
    b_reach[leaf] = reach
    return max(reach, before)


@kernel
def fill_node(b: Ints, node: int, steps: int) -> bool:
    """Join the first so many steps of the two nodes below; return whether anything changed."""
    b_stairs = small2(b, AT_STAIRS)
    left, right, here = b_stairs[2 * node], b_stairs[2 * node + 1], b_stairs[node]
    differs = np.int32(0)
    for j in range(steps):  # without a branch, so that it becomes vector code
        most = max(left[j], right[j])
        differs |= most ^ here[j]
        here[j] = most
    changed = differs != 0
    b_stairs_rest = ints2(b, AT_STAIRS_REST)
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
    leaves = b[STAIR_LEAVES]
    b_reach = small1(b, AT_REACH)
    for server in range(b[SERVERS]):
        set_step(b, server)
    for leaf in range(leaves):
        b_reach[leaf] = b[STEPS]  # what is there is of another tree
        fill_leaf(b, leaf)
    for node in range(leaves - 1, 0, -1):
        fill_node(b, node, b[STEPS])


@kernel
def stairs_update(b: Ints, server: int) -> None:
    """Bring the tree up to date with one server."""
    set_step(b, server)
    steps = fill_leaf(b, server // LEAF)
    node = (b[STAIR_LEAVES] + server // LEAF) // 2
    while node >= 1 and fill_node(b, node, steps):
        node //= 2


@kernel
def stairs_search(b: Ints, shape: int) -> int:
    """Return the first clean server that holds a task, or -1."""
    b_server = ints2(b, AT_SERVER)
    b_need = ints2(b, AT_NEED)
    b_restriction = small1(b, AT_RESTRICTION)
    b_stairs = small2(b, AT_STAIRS)
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
