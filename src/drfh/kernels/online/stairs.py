"""First-Fit index: a tree over the servers in their order, with a staircase at each node.

A node knows, for 16 amounts g of the first column, the most of the second column that is free on
a server below it with at least g of the first. So a server that has enough of both is promised
where separate maxima would promise two halves. Further columns have plain maxima.
"""

from __future__ import annotations

from drfh.kernels.online.state import (
    AT_ALLOWED,
    AT_NEED,
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
    SERVERS,
    STAIR_LEAVES,
    STEPS,
    Ints,
    flags2,
    ints1,
    ints2,
    kernel,
    small1,
)

__all__ = ["stairs_build", "stairs_search", "stairs_update"]


@kernel
def fill_leaf(b: Ints, leaf: int) -> None:
    """Read the servers of a leaf."""
    b_server = ints2(b, AT_SERVER)
    b_stairs = ints2(b, AT_STAIRS)
    b_stairs_rest = ints2(b, AT_STAIRS_REST)
    b_steps = ints1(b, AT_STEPS)
    node = b[STAIR_LEAVES] + leaf
    one, last = b[FIT_FROM], b[FIT_TO]
    two = min(one + 1, last - 1)
    for j in range(STEPS):
        b_stairs[node, j] = -1
    for r in range(one + 2, last):
        b_stairs_rest[node, r - one - 2] = -1
    for server in range(leaf * LEAF, min(leaf * LEAF + LEAF, b[SERVERS])):
        if b_server[server, IS_DIRTY]:
            continue
        amount = b_server[server, FREE + one]
        if amount >= 0:
            # The highest step that it reaches; what it has counts for all lower ones below.
            low, high = 0, STEPS
            while high - low > 1:
                middle = (low + high) // 2
                if b_steps[middle] <= amount:
                    low = middle
                else:
                    high = middle
            b_stairs[node, low] = max(b_stairs[node, low], b_server[server, FREE + two])
        for r in range(one + 2, last):
            if b_server[server, FREE + r] > b_stairs_rest[node, r - one - 2]:
                b_stairs_rest[node, r - one - 2] = b_server[server, FREE + r]
    for j in range(STEPS - 2, -1, -1):
        b_stairs[node, j] = max(b_stairs[node, j], b_stairs[node, j + 1])


@kernel
def fill_node(b: Ints, node: int) -> None:
    """Join the two nodes below."""
    b_stairs = ints2(b, AT_STAIRS)
    b_stairs_rest = ints2(b, AT_STAIRS_REST)
    for j in range(STEPS):
        b_stairs[node, j] = max(b_stairs[2 * node, j], b_stairs[2 * node + 1, j])
    for r in range(b[FIT_TO] - b[FIT_FROM] - 2):
        b_stairs_rest[node, r] = max(b_stairs_rest[2 * node, r], b_stairs_rest[2 * node + 1, r])


@kernel
def stairs_build(b: Ints) -> None:
    """Build the tree anew."""
    leaves = b[STAIR_LEAVES]
    for leaf in range(leaves):
        fill_leaf(b, leaf)
    for node in range(leaves - 1, 0, -1):
        fill_node(b, node)


@kernel
def stairs_update(b: Ints, server: int) -> None:
    """Bring the tree up to date with one server."""
    b_stairs = ints2(b, AT_STAIRS)
    b_stairs_rest = ints2(b, AT_STAIRS_REST)
    fill_leaf(b, server // LEAF)
    node = (b[STAIR_LEAVES] + server // LEAF) // 2
    while node >= 1:
        changed = False
        for j in range(STEPS):
            most = max(b_stairs[2 * node, j], b_stairs[2 * node + 1, j])
            if most != b_stairs[node, j]:
                b_stairs[node, j] = most
                changed = True
        for r in range(b[FIT_TO] - b[FIT_FROM] - 2):
            most = max(b_stairs_rest[2 * node, r], b_stairs_rest[2 * node + 1, r])
            if most != b_stairs_rest[node, r]:
                b_stairs_rest[node, r] = most
                changed = True
        if not changed:
            return
        node //= 2


@kernel
def stairs_search(b: Ints, shape: int) -> int:
    """Return the first clean server that holds a task, or -1."""
    b_server = ints2(b, AT_SERVER)
    b_steps = ints1(b, AT_STEPS)
    b_need = ints2(b, AT_NEED)
    b_restriction = small1(b, AT_RESTRICTION)
    b_stairs = ints2(b, AT_STAIRS)
    b_stairs_rest = ints2(b, AT_STAIRS_REST)
    b_allowed = flags2(b, AT_ALLOWED)
    one, last = b[FIT_FROM], b[FIT_TO]
    two = min(one + 1, last - 1)
    leaves = b[STAIR_LEAVES]
    step = 0
    while step + 1 < STEPS and b_steps[step + 1] <= b_need[shape, one]:
        step += 1
    restriction = b_restriction[shape]
    node = 1
    while True:
        passes = b_stairs[node, step] >= b_need[shape, two]
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
