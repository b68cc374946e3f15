"""Best-Fit index: servers sorted by their ratio of free resources, in blocks.

The key of a server is (v_o/T_o)/(v_ref/T_ref), with the reference resource and the first other
one. A block holds the servers from its bound (key, number) up to the next block's, in no order, so
that a change costs a removal, a search in the directory and an append. For two resources H of a
task is |a − key|: the search goes outward from the task's own ratio a. With more resources, or
another reference, each block gives a lower bound of H. A block also knows the largest free amount
of each resource: most blocks that cannot hold the task are never opened.
"""

from __future__ import annotations

import numpy as np

from drfh.kernels.online.state import (
    AT_ALLOWED,
    AT_BLOCK_BOUND,
    AT_BLOCK_FIRST,
    AT_BLOCK_FREE,
    AT_BLOCK_HIGH,
    AT_BLOCK_KEY,
    AT_BLOCK_LEAST,
    AT_BLOCK_LENGTH,
    AT_BLOCK_LOW,
    AT_BLOCK_MOST,
    AT_BLOCK_SCRATCH,
    AT_BLOCK_SERVER,
    AT_CAPACITY,
    AT_DIRECTORY,
    AT_DIRECTORY_KEY,
    AT_NEED,
    AT_RATIO,
    AT_REFERENCE,
    AT_RESTRICTION,
    AT_SERVER,
    AT_SPARE,
    AT_TOTAL,
    BLOCK,
    DIRECTORY,
    FREE,
    IS_DIRTY,
    LARGEST,
    OTHER,
    REFERENCE,
    RESOURCES,
    SERVERS,
    SLOT,
    SPARE,
    SPLIT,
    Ints,
    flags2,
    floats1,
    floats2,
    ints1,
    ints2,
    kernel,
    small1,
    small2,
)
from drfh.kernels.online.views import bare

__all__ = ["blocks_build", "blocks_search", "blocks_update", "distance", "server_keys"]


@kernel
def server_key(b: Ints, server: int) -> float:
    """Return the sort key of a server; infinite where the reference is used up.

    With three and more resources the key only has to put alike servers side by side: servers that
    have the same resources at all stay together.
    """
    b_total = floats1(b, AT_TOTAL)
    b_server = ints2(b, AT_SERVER)
    ref, other = b[REFERENCE], b[OTHER]
    if b_total[ref] <= 0 or b_server[server, FREE + ref] <= 0:
        return np.inf
    if b_total[other] <= 0:
        return 0.0
    base = b_server[server, FREE + ref] / b_total[ref]
    key = (b_server[server, FREE + other] / b_total[other]) / base
    if b[RESOURCES] > 2:
        b_capacity = ints2(b, AT_CAPACITY)
        kind = 0
        for r in range(b[RESOURCES]):
            kind = 2 * kind + (b_capacity[server, r] > 0)
        key = kind + key / (1.0 + key) if key > 0 else float(kind)
    return key


@kernel
def server_keys(b: Ints) -> np.ndarray:
    """Return the keys of all servers."""
    b = bare(b)
    keys = np.empty(b[SERVERS])
    for server in range(b[SERVERS]):
        keys[server] = server_key(b, server)
    return keys


@kernel
def distance(b: Ints, shape: int, server: int) -> float:
    """Return H, in the plain twin's order of operations."""
    b_reference = small1(b, AT_REFERENCE)
    b_total = floats1(b, AT_TOTAL)
    b_server = ints2(b, AT_SERVER)
    b_ratio = floats2(b, AT_RATIO)
    ref = b_reference[shape]
    if b_ratio[shape, ref] <= 0 or b_server[server, FREE + ref] <= 0:
        return np.inf
    base = b_server[server, FREE + ref] / b_total[ref]
    h = 0.0
    for r in range(b[RESOURCES]):
        left = b_server[server, FREE + r] / b_total[r] if b_total[r] > 0 else 0.0
        h += abs(b_ratio[shape, r] - left / base)
    return h


@kernel
def widen(b: Ints, block: int, i: int) -> None:
    """Let the summary of a block take in one of its entries."""
    b_block_server = small2(b, AT_BLOCK_SERVER)
    b_block_free = ints2(b, AT_BLOCK_FREE)
    b_block_first = ints1(b, AT_BLOCK_FIRST)
    b_block_most = ints2(b, AT_BLOCK_MOST)
    m = b[RESOURCES]
    row = block * BLOCK + i
    b_block_first[block] = min(b_block_first[block], np.int64(b_block_server[block, i]))
    for r in range(m):
        if b_block_free[row, r] > b_block_most[block, r]:
            b_block_most[block, r] = b_block_free[row, r]
    if m > 2:
        b_total = floats1(b, AT_TOTAL)
        b_block_low = floats2(b, AT_BLOCK_LOW)
        b_block_high = floats2(b, AT_BLOCK_HIGH)
        ref = b[REFERENCE]
        base = b_block_free[row, ref] / b_total[ref] if b_total[ref] > 0 else 0.0
        for r in range(m):
            left = b_block_free[row, r] / b_total[r] if b_total[r] > 0 else 0.0
            ratio = left / base if base > 0 else np.inf
            b_block_low[block, r] = min(b_block_low[block, r], ratio)
            b_block_high[block, r] = max(b_block_high[block, r], ratio)


@kernel
def summarise(b: Ints, block: int) -> None:
    """Compute the summary of a block from its entries."""
    b_block_length = ints1(b, AT_BLOCK_LENGTH)
    b_block_first = ints1(b, AT_BLOCK_FIRST)
    b_block_most = ints2(b, AT_BLOCK_MOST)
    b_block_low = floats2(b, AT_BLOCK_LOW)
    b_block_high = floats2(b, AT_BLOCK_HIGH)
    b_block_first[block] = LARGEST
    for r in range(b[RESOURCES]):
        b_block_most[block, r] = -LARGEST
        b_block_low[block, r] = np.inf
        b_block_high[block, r] = -np.inf
    for i in range(b_block_length[block]):
        widen(b, block, i)


@kernel
def set_entry(b: Ints, block: int, i: int, server: int, key: float) -> None:
    """Write one entry of a block."""
    b_server = ints2(b, AT_SERVER)
    b_block_key = floats2(b, AT_BLOCK_KEY)
    b_block_server = small2(b, AT_BLOCK_SERVER)
    b_block_free = ints2(b, AT_BLOCK_FREE)
    b_block_key[block, i] = key
    b_block_server[block, i] = server
    b_server[server, SLOT] = block * BLOCK + i
    for r in range(b[RESOURCES]):
        b_block_free[block * BLOCK + i, r] = b_server[server, FREE + r]


@kernel
def move_entry(b: Ints, block: int, i: int, target: int, j: int) -> None:
    """Copy entry i of a block to entry j of another one, or of the same."""
    b_server = ints2(b, AT_SERVER)
    b_block_key = floats2(b, AT_BLOCK_KEY)
    b_block_server = small2(b, AT_BLOCK_SERVER)
    b_block_free = ints2(b, AT_BLOCK_FREE)
    b_block_key[target, j] = b_block_key[block, i]
    b_block_server[target, j] = b_block_server[block, i]
    b_server[b_block_server[block, i], SLOT] = target * BLOCK + j
    for r in range(b[RESOURCES]):
        b_block_free[target * BLOCK + j, r] = b_block_free[block * BLOCK + i, r]


@kernel
def blocks_build(b: Ints, order: Ints, keys: np.ndarray) -> None:
    """Build the index anew; `order` lists the servers sorted by (key, number)."""
    b = bare(b)
    b_spare = small1(b, AT_SPARE)
    b_directory = small1(b, AT_DIRECTORY)
    b_directory_key = floats1(b, AT_DIRECTORY_KEY)
    b_block_length = ints1(b, AT_BLOCK_LENGTH)
    b_block_bound = floats1(b, AT_BLOCK_BOUND)
    b_block_least = ints1(b, AT_BLOCK_LEAST)
    n = len(order)
    # Large directories are slow to search and to shift, large blocks slow to open.
    b[SPLIT] = BLOCK // 4
    if n > 20_000 or b[RESOURCES] > 2:
        b[SPLIT] = BLOCK if n > 60_000 else BLOCK // 2
    size = b[SPLIT] * 3 // 4
    blocks = max((n + size - 1) // size, 1)
    b[DIRECTORY] = blocks
    b[SPARE] = 0
    for block in range(len(b_spare) - 1, blocks - 1, -1):
        b_spare[b[SPARE]] = block
        b[SPARE] += 1
    for block in range(blocks):
        length = min(size, n - block * size)
        b_block_length[block] = length
        for i in range(length):
            server = order[block * size + i]
            set_entry(b, block, i, server, keys[server])
        b_directory[block] = block
        b_block_bound[block] = keys[order[block * size]] if block > 0 else -np.inf
        b_block_least[block] = order[block * size] if block > 0 else -1
        b_directory_key[block] = b_block_bound[block]
        summarise(b, block)


@kernel
def find_block(b: Ints, key: float, server: int) -> int:
    """Return the position of the block to which (key, server) belongs."""
    b_directory = small1(b, AT_DIRECTORY)
    b_directory_key = floats1(b, AT_DIRECTORY_KEY)
    b_block_least = ints1(b, AT_BLOCK_LEAST)
    low, high = 0, b[DIRECTORY]
    while high - low > 1:
        middle = (low + high) // 2
        bound = b_directory_key[middle]
        if bound < key or (bound == key and b_block_least[b_directory[middle]] <= server):
            low = middle
        else:
            high = middle
    return low


@kernel
def drop_position(b: Ints, position: int) -> None:
    """Take a block out of the directory."""
    b_spare = small1(b, AT_SPARE)
    b_directory = small1(b, AT_DIRECTORY)
    b_directory_key = floats1(b, AT_DIRECTORY_KEY)
    b_spare[b[SPARE]] = b_directory[position]
    b[SPARE] += 1
    b[DIRECTORY] -= 1
    for p in range(position, b[DIRECTORY]):
        b_directory[p] = b_directory[p + 1]
        b_directory_key[p] = b_directory_key[p + 1]


@kernel
def split(b: Ints, position: int) -> None:
    """Cut a full block in two."""
    b_spare = small1(b, AT_SPARE)
    b_directory = small1(b, AT_DIRECTORY)
    b_directory_key = floats1(b, AT_DIRECTORY_KEY)
    b_block_key = floats2(b, AT_BLOCK_KEY)
    b_block_server = small2(b, AT_BLOCK_SERVER)
    b_block_length = ints1(b, AT_BLOCK_LENGTH)
    b_block_bound = floats1(b, AT_BLOCK_BOUND)
    b_block_least = ints1(b, AT_BLOCK_LEAST)
    old = b_directory[position]
    length = b_block_length[old]
    b[SPARE] -= 1
    new = b_spare[b[SPARE]]
    # The bound is the middle one of (key, number): the entry with half of the others before it.
    half = length // 2
    at = 0
    for i in range(length):
        smaller = 0
        for j in range(length):
            if b_block_key[old, j] < b_block_key[old, i] or (
                b_block_key[old, j] == b_block_key[old, i]
                and b_block_server[old, j] < b_block_server[old, i]
            ):
                smaller += 1
        if smaller == half:
            at = i
            break
    bound, least = b_block_key[old, at], np.int64(b_block_server[old, at])
    kept = moved = 0
    for i in range(length):
        key = b_block_key[old, i]
        if key < bound or (key == bound and b_block_server[old, i] < least):
            if kept < i:
                move_entry(b, old, i, old, kept)
            kept += 1
        else:
            move_entry(b, old, i, new, moved)
            moved += 1
    b_block_length[old], b_block_length[new] = kept, moved
    for p in range(b[DIRECTORY], position + 1, -1):
        b_directory[p] = b_directory[p - 1]
        b_directory_key[p] = b_directory_key[p - 1]
    b[DIRECTORY] += 1
    b_directory[position + 1] = new
    b_directory_key[position + 1] = bound
    b_block_bound[new], b_block_least[new] = bound, least
    summarise(b, old)
    summarise(b, new)


@kernel
def shrink(b: Ints, block: int) -> None:
    """Join a block that is nearly empty to a neighbour with room."""
    b_directory = small1(b, AT_DIRECTORY)
    b_block_length = ints1(b, AT_BLOCK_LENGTH)
    b_block_bound = floats1(b, AT_BLOCK_BOUND)
    b_block_least = ints1(b, AT_BLOCK_LEAST)
    position = find_block(b, b_block_bound[block], b_block_least[block])
    for left in (position, position - 1):
        if not 0 <= left < b[DIRECTORY] - 1:
            continue
        one, two = b_directory[left], b_directory[left + 1]
        length = b_block_length[one]
        if length + b_block_length[two] <= b[SPLIT] * 3 // 4:
            for i in range(b_block_length[two]):
                move_entry(b, two, i, one, length + i)
            b_block_length[one] = length + b_block_length[two]
            drop_position(b, left + 1)
            summarise(b, one)
            return


@kernel
def take_out(b: Ints, server: int) -> None:
    """Take a server out of its block."""
    b_server = ints2(b, AT_SERVER)
    b_block_free = ints2(b, AT_BLOCK_FREE)
    b_block_length = ints1(b, AT_BLOCK_LENGTH)
    b_block_most = ints2(b, AT_BLOCK_MOST)
    m = b[RESOURCES]
    slot = b_server[server, SLOT]
    block = slot // BLOCK
    stale = False
    for r in range(m):
        if b_block_free[slot, r] >= b_block_most[block, r]:
            stale = True
    if m > 2 and not stale:
        b_total = floats1(b, AT_TOTAL)
        b_block_low = floats2(b, AT_BLOCK_LOW)
        b_block_high = floats2(b, AT_BLOCK_HIGH)
        ref = b[REFERENCE]
        base = b_block_free[slot, ref] / b_total[ref] if b_total[ref] > 0 else 0.0
        for r in range(m):
            left = b_block_free[slot, r] / b_total[r] if b_total[r] > 0 else 0.0
            ratio = left / base if base > 0 else np.inf
            # Alike servers share their bounds: only an end that the others do not reach matters,
            # and to leave a bound too wide costs time, not truth.
            if b_block_low[block, r] < b_block_high[block, r] and (
                ratio <= b_block_low[block, r] or ratio >= b_block_high[block, r]
            ):
                stale = True
    length = b_block_length[block] - 1
    b_block_length[block] = length
    at = slot - block * BLOCK
    if at < length:
        move_entry(b, block, length, block, at)
    if stale:
        summarise(b, block)
    if length < b[SPLIT] // 4:
        shrink(b, block)


@kernel
def blocks_update(b: Ints, server: int) -> None:
    """Move a server to where its free resources now belong."""
    b_directory = small1(b, AT_DIRECTORY)
    b_block_length = ints1(b, AT_BLOCK_LENGTH)
    take_out(b, server)
    key = server_key(b, server)
    position = find_block(b, key, server)
    if b_block_length[b_directory[position]] == b[SPLIT]:
        split(b, position)
        position = find_block(b, key, server)
    block = b_directory[position]
    at = b_block_length[block]
    set_entry(b, block, at, server, key)
    b_block_length[block] = at + 1
    widen(b, block, at)


@kernel
def can_hold(b: Ints, block: int, shape: int) -> bool:
    """Return whether the largest free amounts of a block hold a task."""
    b_block_most = ints2(b, AT_BLOCK_MOST)
    b_need = ints2(b, AT_NEED)
    for r in range(b[RESOURCES]):  # noqa: SIM110 (numba)
        if b_block_most[block, r] < b_need[shape, r]:
            return False
    return True


@kernel
def may_use(b: Ints, shape: int, server: int) -> bool:
    """Return whether a server is clean and a task may run there."""
    b_server = ints2(b, AT_SERVER)
    b_restriction = small1(b, AT_RESTRICTION)
    b_allowed = flags2(b, AT_ALLOWED)
    if b_server[server, IS_DIRTY]:
        return False
    return b_restriction[shape] == 0 or b_allowed[b_restriction[shape], server] != 0


@kernel
def nearest(b: Ints, block: int, shape: int, best: int, best_h: float) -> tuple[int, float]:
    """Return the better of the best so far and the best of a block, two resources."""
    if not can_hold(b, block, shape):
        return best, best_h
    b_block_key = floats2(b, AT_BLOCK_KEY)
    b_block_server = small2(b, AT_BLOCK_SERVER)
    b_block_free = ints2(b, AT_BLOCK_FREE)
    b_block_length = ints1(b, AT_BLOCK_LENGTH)
    b_need = ints2(b, AT_NEED)
    a = floats2(b, AT_RATIO)[shape, b[OTHER]]
    one, two = b_need[shape, 0], b_need[shape, 1]
    for i in range(b_block_length[block]):
        row = block * BLOCK + i
        if b_block_free[row, 0] >= one and b_block_free[row, 1] >= two:
            h = abs(a - b_block_key[block, i])
            if h <= best_h:
                server = int(b_block_server[block, i])
                if (h < best_h or server < best) and may_use(b, shape, server):
                    best, best_h = server, h
    return best, best_h


@kernel
def search_outward(b: Ints, shape: int) -> tuple[int, float]:
    """Return the clean server with the least |a − key| that holds a task, two resources."""
    b_directory = small1(b, AT_DIRECTORY)
    b_directory_key = floats1(b, AT_DIRECTORY_KEY)
    b_block_first = ints1(b, AT_BLOCK_FIRST)
    b_block_key = floats2(b, AT_BLOCK_KEY)
    b_server = ints2(b, AT_SERVER)
    a = floats2(b, AT_RATIO)[shape, b[OTHER]]
    blocks = b[DIRECTORY]
    start = find_block(b, a, -1)
    right, left = start + 1, start - 1
    best, best_h = nearest(b, b_directory[start], shape, -1, np.inf)
    while True:
        h_right = b_directory_key[right] - a if right < blocks else np.inf
        h_left = a - b_directory_key[left + 1] if left >= 0 else np.inf
        h = min(h_right, h_left)
        # At an infinite distance the reference is used up: nothing fits there.
        if h > best_h or h == np.inf:
            return best, best_h
        if h_right <= h_left:
            block = b_directory[right]
            if h < best_h or b_block_first[block] < best:
                best, best_h = nearest(b, block, shape, best, best_h)
            right += 1
        elif h < best_h:
            best, best_h = nearest(b, b_directory[left], shape, best, best_h)
            left -= 1
        else:
            # Many servers may have one key, and the lowest number is wanted: it is in the first
            # block of the run that has a server with room.
            key = b_directory_key[left + 1]
            first = find_block(b, key, -1)
            for position in range(first, left + 1):
                block = b_directory[position]
                if b_block_first[block] < best:
                    before = best
                    best, best_h = nearest(b, block, shape, best, best_h)
                    slot = b_server[best, SLOT]
                    if best != before and b_block_key[slot // BLOCK, slot % BLOCK] == key:
                        break
            left = first - 1


@kernel
def lower_bound(b: Ints, block: int, shape: int) -> float:
    """Return a number that H of no server in the block is below."""
    b_reference = small1(b, AT_REFERENCE)
    b_ratio = floats2(b, AT_RATIO)
    b_block_low = floats2(b, AT_BLOCK_LOW)
    b_block_high = floats2(b, AT_BLOCK_HIGH)
    if b_reference[shape] != b[REFERENCE] or b[RESOURCES] < 3:
        return 0.0
    h = 0.0
    for r in range(b[RESOURCES]):
        wanted = b_ratio[shape, r]
        # Each term is no more than the server's own, and sums of rounded terms keep the order.
        if wanted < b_block_low[block, r]:
            h += b_block_low[block, r] - wanted
        elif wanted > b_block_high[block, r]:
            h += wanted - b_block_high[block, r]
    return h


@kernel
def most_alike(b: Ints, block: int, shape: int, best: int, best_h: float) -> tuple[int, float]:
    """Return the better of the best so far and the best of a block."""
    b_block_server = small2(b, AT_BLOCK_SERVER)
    b_block_free = ints2(b, AT_BLOCK_FREE)
    b_block_length = ints1(b, AT_BLOCK_LENGTH)
    b_need = ints2(b, AT_NEED)
    m = b[RESOURCES]
    for i in range(b_block_length[block]):
        row = block * BLOCK + i
        holds = True
        for r in range(m):
            if b_block_free[row, r] < b_need[shape, r]:
                holds = False
                break
        if not holds:
            continue
        server = int(b_block_server[block, i])
        if may_use(b, shape, server):
            h = distance(b, shape, server)
            if best < 0 or h < best_h or (h == best_h and server < best):
                best, best_h = server, h
    return best, best_h


@kernel
def search_bounded(b: Ints, shape: int) -> tuple[int, float]:
    """Return the clean server with the least H that holds a task: the best block first."""
    b_directory = small1(b, AT_DIRECTORY)
    b_block_first = ints1(b, AT_BLOCK_FIRST)
    b_bound = floats1(b, AT_BLOCK_SCRATCH)
    start, least = -1, np.inf
    for position in range(b[DIRECTORY]):
        block = b_directory[position]
        bound = lower_bound(b, block, shape) if can_hold(b, block, shape) else np.inf
        b_bound[position] = bound
        if bound < least:
            start, least = position, bound
    best, best_h = -1, np.inf
    if start < 0:
        return best, best_h
    best, best_h = most_alike(b, b_directory[start], shape, best, best_h)
    b_bound[start] = np.inf
    for position in range(b[DIRECTORY]):
        # On a tie the lowest number is wanted.
        if b_bound[position] > best_h or b_bound[position] == np.inf:
            continue
        block = b_directory[position]
        if b_bound[position] < best_h or b_block_first[block] < best:
            best, best_h = most_alike(b, block, shape, best, best_h)
    return best, best_h


@kernel
def blocks_search(b: Ints, shape: int) -> tuple[int, float]:
    """Return the clean server with the least H that holds a task, ties to the lowest number."""
    b_reference = small1(b, AT_REFERENCE)
    if b[RESOURCES] == 2 and b_reference[shape] == b[REFERENCE]:
        return search_outward(b, shape)
    return search_bounded(b, shape)
