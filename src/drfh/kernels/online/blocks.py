"""Best-Fit index: servers sorted by their ratio of free resources, in blocks of at most 64.

The key of a server is (v_o/T_o)/(v_ref/T_ref), with the reference resource and the first other
one. For two resources H of a task is |a − key|, so the search goes outward from the task's own
ratio a. With more resources, or another reference, each block gives a lower bound of H. The
directory knows the largest free amount of each resource in a block: most blocks that cannot hold
the task are never opened.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from drfh.kernels.online.state import (
    AT_ALLOWED,
    AT_BLOCK_FREE,
    AT_BLOCK_KEY,
    AT_BLOCK_LENGTH,
    AT_BLOCK_SERVER,
    AT_DIRECTORY,
    AT_DIRECTORY_BOUND,
    AT_DIRECTORY_FIRST,
    AT_DIRECTORY_HIGH,
    AT_DIRECTORY_KEY,
    AT_DIRECTORY_LOW,
    AT_DIRECTORY_MOST,
    AT_DIRTY,
    AT_FREE,
    AT_KEY,
    AT_NEED,
    AT_RATIO,
    AT_REFERENCE,
    AT_RESTRICTION,
    AT_SPARE,
    AT_TOTAL,
    BLOCK,
    DIRECTORY,
    LARGEST,
    OTHER,
    REFERENCE,
    RESOURCES,
    SPARE,
    Ints,
    flags1,
    flags2,
    floats1,
    floats2,
    ints1,
    ints2,
    small1,
    small2,
)

__all__ = ["blocks_build", "blocks_search", "blocks_update"]


@njit(cache=True)
def server_key(b: Ints, server: int) -> float:
    """Return the sort key of a server; infinite where the reference is used up."""
    b_total = floats1(b, AT_TOTAL)
    b_free = ints2(b, AT_FREE)
    ref, other = b[REFERENCE], b[OTHER]
    if b_total[ref] <= 0 or b_free[server, ref] <= 0:
        return np.inf
    if b_total[other] <= 0:
        return 0.0
    return (b_free[server, other] / b_total[other]) / (b_free[server, ref] / b_total[ref])


@njit(cache=True)
def distance(b: Ints, shape: int, server: int) -> float:
    """Return H, in the plain twin's order of operations."""
    b_reference = small1(b, AT_REFERENCE)
    b_total = floats1(b, AT_TOTAL)
    b_free = ints2(b, AT_FREE)
    b_ratio = floats2(b, AT_RATIO)
    ref = b_reference[shape]
    if b_total[ref] <= 0 or b_free[server, ref] <= 0:
        return np.inf
    base = b_free[server, ref] / b_total[ref]
    h = 0.0
    for r in range(b[RESOURCES]):
        left = b_free[server, r] / b_total[r] if b_total[r] > 0 else 0.0
        h += abs(b_ratio[shape, r] - left / base)
    return h


@njit(cache=True)
def summarise(b: Ints, position: int) -> None:
    """Bring the directory's entry up to date with its block."""
    b_directory = small1(b, AT_DIRECTORY)
    b_directory_key = floats1(b, AT_DIRECTORY_KEY)
    b_block_key = floats2(b, AT_BLOCK_KEY)
    b_directory_first = ints1(b, AT_DIRECTORY_FIRST)
    b_directory_most = ints2(b, AT_DIRECTORY_MOST)
    b_directory_low = floats2(b, AT_DIRECTORY_LOW)
    b_directory_high = floats2(b, AT_DIRECTORY_HIGH)
    b_block_length = ints1(b, AT_BLOCK_LENGTH)
    b_block_server = small2(b, AT_BLOCK_SERVER)
    b_block_free = ints2(b, AT_BLOCK_FREE)
    b_total = floats1(b, AT_TOTAL)
    block = b_directory[position]
    m = b[RESOURCES]
    ref = b[REFERENCE]
    b_directory_key[position] = b_block_key[block, 0]
    b_directory_first[position] = LARGEST
    for r in range(m):
        b_directory_most[position, r] = -LARGEST
        b_directory_low[position, r] = np.inf
        b_directory_high[position, r] = -np.inf
    for i in range(b_block_length[block]):
        if b_block_server[block, i] < b_directory_first[position]:
            b_directory_first[position] = b_block_server[block, i]
        for r in range(m):
            if b_block_free[block * BLOCK + i, r] > b_directory_most[position, r]:
                b_directory_most[position, r] = b_block_free[block * BLOCK + i, r]
        if m > 2:
            base = b_block_free[block * BLOCK + i, ref] / b_total[ref] if b_total[ref] > 0 else 0.0
            for r in range(m):
                left = b_block_free[block * BLOCK + i, r] / b_total[r] if b_total[r] > 0 else 0.0
                ratio = left / base if base > 0 else np.inf
                if ratio < b_directory_low[position, r]:
                    b_directory_low[position, r] = ratio
                if ratio > b_directory_high[position, r]:
                    b_directory_high[position, r] = ratio


@njit(cache=True)
def blocks_build(b: Ints, order: np.ndarray) -> None:
    """Build the index anew; `order` lists the servers sorted by (key, number)."""
    b_spare = small1(b, AT_SPARE)
    b_directory = small1(b, AT_DIRECTORY)
    b_block_length = ints1(b, AT_BLOCK_LENGTH)
    b_block_server = small2(b, AT_BLOCK_SERVER)
    b_block_key = floats2(b, AT_BLOCK_KEY)
    b_key = floats1(b, AT_KEY)
    b_block_free = ints2(b, AT_BLOCK_FREE)
    b_free = ints2(b, AT_FREE)
    size = BLOCK * 3 // 4
    n = len(order)
    blocks = (n + size - 1) // size
    b[DIRECTORY] = blocks
    spare = 0
    for block in range(len(b_spare) - 1, blocks - 1, -1):
        b_spare[spare] = block
        spare += 1
    b[SPARE] = spare
    for block in range(blocks):
        b_directory[block] = block
        length = min(size, n - block * size)
        b_block_length[block] = length
        for i in range(length):
            server = order[block * size + i]
            b_block_server[block, i] = server
            b_block_key[block, i] = b_key[server]
            for r in range(b[RESOURCES]):
                b_block_free[block * BLOCK + i, r] = b_free[server, r]
        summarise(b, block)


@njit(cache=True)
def find_block(b: Ints, key: float, server: int) -> int:
    """Return the position of the block in which (key, server) is, or belongs."""
    b_directory_key = floats1(b, AT_DIRECTORY_KEY)
    b_block_server = small2(b, AT_BLOCK_SERVER)
    b_directory = small1(b, AT_DIRECTORY)
    low, high = 0, b[DIRECTORY]
    while high - low > 1:
        middle = (low + high) // 2
        first = b_directory_key[middle]
        if first < key or (first == key and b_block_server[b_directory[middle], 0] <= server):
            low = middle
        else:
            high = middle
    return low


@njit(cache=True)
def find_inside(b: Ints, block: int, key: float, server: int) -> int:
    """Return the first place in a block that is not before (key, server)."""
    b_block_length = ints1(b, AT_BLOCK_LENGTH)
    b_block_key = floats2(b, AT_BLOCK_KEY)
    b_block_server = small2(b, AT_BLOCK_SERVER)
    low, high = 0, b_block_length[block]
    while low < high:
        middle = (low + high) // 2
        here = b_block_key[block, middle]
        if here < key or (here == key and b_block_server[block, middle] < server):
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def move_entry(b: Ints, block: int, i: int, target: int, j: int) -> None:
    """Copy entry i of a block to entry j of another one, or of the same."""
    b_block_key = floats2(b, AT_BLOCK_KEY)
    b_block_server = small2(b, AT_BLOCK_SERVER)
    b_block_free = ints2(b, AT_BLOCK_FREE)
    b_block_key[target, j] = b_block_key[block, i]
    b_block_server[target, j] = b_block_server[block, i]
    for r in range(b[RESOURCES]):
        b_block_free[target * BLOCK + j, r] = b_block_free[block * BLOCK + i, r]


@njit(cache=True)
def copy_position(b: Ints, source: int, target: int) -> None:
    """Copy an entry of the directory."""
    b_directory = small1(b, AT_DIRECTORY)
    b_directory_key = floats1(b, AT_DIRECTORY_KEY)
    b_directory_first = ints1(b, AT_DIRECTORY_FIRST)
    b_directory_most = ints2(b, AT_DIRECTORY_MOST)
    b_directory_low = floats2(b, AT_DIRECTORY_LOW)
    b_directory_high = floats2(b, AT_DIRECTORY_HIGH)
    b_directory[target] = b_directory[source]
    b_directory_key[target] = b_directory_key[source]
    b_directory_first[target] = b_directory_first[source]
    for r in range(b[RESOURCES]):
        b_directory_most[target, r] = b_directory_most[source, r]
        b_directory_low[target, r] = b_directory_low[source, r]
        b_directory_high[target, r] = b_directory_high[source, r]


@njit(cache=True)
def drop_position(b: Ints, position: int) -> None:
    """Take a block out of the directory."""
    b_spare = small1(b, AT_SPARE)
    b_directory = small1(b, AT_DIRECTORY)
    b_spare[b[SPARE]] = b_directory[position]
    b[SPARE] += 1
    last = b[DIRECTORY] - 1
    for p in range(position, last):
        copy_position(b, p + 1, p)
    b[DIRECTORY] = last


@njit(cache=True)
def open_position(b: Ints, position: int) -> int:
    """Make room for a new block in the directory and return the block."""
    b_spare = small1(b, AT_SPARE)
    b_directory = small1(b, AT_DIRECTORY)
    for p in range(b[DIRECTORY], position, -1):
        copy_position(b, p - 1, p)
    b[DIRECTORY] += 1
    b[SPARE] -= 1
    block = b_spare[b[SPARE]]
    b_directory[position] = block
    return block


@njit(cache=True)
def split(b: Ints, position: int) -> None:
    """Cut a full block in two."""
    b_directory = small1(b, AT_DIRECTORY)
    b_block_length = ints1(b, AT_BLOCK_LENGTH)
    old = b_directory[position]
    new = open_position(b, position + 1)
    half = b_block_length[old] // 2
    moved = b_block_length[old] - half
    for i in range(moved):
        move_entry(b, old, half + i, new, i)
    b_block_length[new] = moved
    b_block_length[old] = half
    summarise(b, position)
    summarise(b, position + 1)


@njit(cache=True)
def merge(b: Ints, position: int) -> None:
    """Append the block after `position` to it."""
    b_directory = small1(b, AT_DIRECTORY)
    b_block_length = ints1(b, AT_BLOCK_LENGTH)
    left, right = b_directory[position], b_directory[position + 1]
    length = b_block_length[left]
    for i in range(b_block_length[right]):
        move_entry(b, right, i, left, length + i)
    b_block_length[left] = length + b_block_length[right]
    drop_position(b, position + 1)
    summarise(b, position)


@njit(cache=True)
def take_out(b: Ints, server: int) -> None:
    """Take a server out of its block."""
    b_key = floats1(b, AT_KEY)
    b_directory = small1(b, AT_DIRECTORY)
    b_block_free = ints2(b, AT_BLOCK_FREE)
    b_directory_most = ints2(b, AT_DIRECTORY_MOST)
    b_block_length = ints1(b, AT_BLOCK_LENGTH)
    b_directory_key = floats1(b, AT_DIRECTORY_KEY)
    b_block_key = floats2(b, AT_BLOCK_KEY)
    m = b[RESOURCES]
    position = find_block(b, b_key[server], server)
    block = b_directory[position]
    at = find_inside(b, block, b_key[server], server)
    stale = m > 2
    for r in range(m):
        if b_block_free[block * BLOCK + at, r] >= b_directory_most[position, r]:
            stale = True
    length = b_block_length[block] - 1
    for i in range(at, length):
        move_entry(b, block, i + 1, block, i)
    b_block_length[block] = length
    if length == 0:
        if b[DIRECTORY] > 1:
            drop_position(b, position)
        return
    if length < BLOCK // 4:
        for other in (position, position - 1):
            if 0 <= other < b[DIRECTORY] - 1:
                both = b_block_length[b_directory[other]] + b_block_length[b_directory[other + 1]]
                if both <= BLOCK * 3 // 4:
                    merge(b, other)
                    return
    if stale:
        summarise(b, position)
    else:
        b_directory_key[position] = b_block_key[block, 0]


@njit(cache=True)
def put_in(b: Ints, server: int) -> None:
    """Put a server where its key belongs."""
    b_key = floats1(b, AT_KEY)
    b_directory = small1(b, AT_DIRECTORY)
    b_block_length = ints1(b, AT_BLOCK_LENGTH)
    b_block_key = floats2(b, AT_BLOCK_KEY)
    b_block_server = small2(b, AT_BLOCK_SERVER)
    b_block_free = ints2(b, AT_BLOCK_FREE)
    b_free = ints2(b, AT_FREE)
    b_directory_key = floats1(b, AT_DIRECTORY_KEY)
    b_directory_first = ints1(b, AT_DIRECTORY_FIRST)
    b_directory_most = ints2(b, AT_DIRECTORY_MOST)
    m = b[RESOURCES]
    key = b_key[server]
    position = find_block(b, key, server)
    block = b_directory[position]
    if b_block_length[block] == BLOCK:
        split(b, position)
        position = find_block(b, key, server)
        block = b_directory[position]
    at = find_inside(b, block, key, server)
    length = b_block_length[block]
    for i in range(length, at, -1):
        move_entry(b, block, i - 1, block, i)
    b_block_key[block, at] = key
    b_block_server[block, at] = server
    for r in range(m):
        b_block_free[block * BLOCK + at, r] = b_free[server, r]
    b_block_length[block] = length + 1
    if length == 0 or m > 2:
        summarise(b, position)
        return
    b_directory_key[position] = b_block_key[block, 0]
    b_directory_first[position] = min(b_directory_first[position], server)
    for r in range(m):
        if b_free[server, r] > b_directory_most[position, r]:
            b_directory_most[position, r] = b_free[server, r]


@njit(cache=True)
def blocks_update(b: Ints, server: int) -> None:
    """Move a server to where its free resources now belong."""
    b_key = floats1(b, AT_KEY)
    take_out(b, server)
    b_key[server] = server_key(b, server)
    put_in(b, server)


@njit(cache=True)
def can_hold(b: Ints, position: int, shape: int) -> bool:
    """Return whether the largest free amounts of a block hold a task."""
    b_directory_most = ints2(b, AT_DIRECTORY_MOST)
    b_need = ints2(b, AT_NEED)
    for r in range(b[RESOURCES]):  # noqa: SIM110 (numba)
        if b_directory_most[position, r] < b_need[shape, r]:
            return False
    return True


@njit(cache=True)
def entry_fits(b: Ints, block: int, i: int, shape: int) -> bool:
    """Return whether a task may go on the server of an entry (not on a dirty one)."""
    b_block_free = ints2(b, AT_BLOCK_FREE)
    b_need = ints2(b, AT_NEED)
    b_block_server = small2(b, AT_BLOCK_SERVER)
    b_dirty = flags1(b, AT_DIRTY)
    b_restriction = small1(b, AT_RESTRICTION)
    b_allowed = flags2(b, AT_ALLOWED)
    for r in range(b[RESOURCES]):
        if b_block_free[block * BLOCK + i, r] < b_need[shape, r]:
            return False
    server = b_block_server[block, i]
    if b_dirty[server]:
        return False
    return b_restriction[shape] == 0 or b_allowed[b_restriction[shape], server] != 0


@njit(cache=True)
def run_start(b: Ints, key: float) -> tuple[int, int]:
    """Return (position, place) of the first entry with this key."""
    b_directory = small1(b, AT_DIRECTORY)
    b_block_length = ints1(b, AT_BLOCK_LENGTH)
    position = find_block(b, key, -1)
    at = find_inside(b, b_directory[position], key, -1)
    if at == b_block_length[b_directory[position]]:
        return position + 1, 0
    return position, at


@njit(cache=True)
def search_outward(b: Ints, shape: int) -> tuple[int, float]:
    """Return the clean server with the least |a − key| that holds a task, two resources."""
    b_ratio = floats2(b, AT_RATIO)
    b_block_length = ints1(b, AT_BLOCK_LENGTH)
    b_directory = small1(b, AT_DIRECTORY)
    b_block_key = floats2(b, AT_BLOCK_KEY)
    b_block_server = small2(b, AT_BLOCK_SERVER)
    a = b_ratio[shape, b[OTHER]]
    blocks = b[DIRECTORY]
    right, right_at = run_start(b, a)
    left, left_at = right, right_at - 1
    if left_at < 0:
        left -= 1
        left_at = b_block_length[b_directory[left]] - 1 if left >= 0 else -1
    best, best_h = -1, np.inf
    while True:
        h_right = h_left = np.inf
        if right < blocks:
            h_right = abs(a - b_block_key[b_directory[right], right_at])
        if left >= 0:
            h_left = abs(a - b_block_key[b_directory[left], left_at])
        h = min(h_right, h_left)
        # Beyond an infinite distance the reference is used up: nothing fits there.
        if h > best_h or h == np.inf:
            return best, best_h
        if h_right <= h_left:
            block = b_directory[right]
            onward, onward_at = right + 1, 0
            if can_hold(b, right, shape):
                for i in range(right_at, b_block_length[block]):
                    key = b_block_key[block, i]
                    h = abs(a - key)
                    if h > best_h:
                        break
                    if entry_fits(b, block, i, shape):
                        server = b_block_server[block, i]
                        if h < best_h or server < best:
                            best, best_h = server, h
                        # The rest of this run has higher numbers; what comes after it counts
                        # only if its distance rounds to the same.
                        onward, onward_at = run_start(b, np.nextafter(key, np.inf))
                        break
            right, right_at = onward, onward_at
        else:
            block = b_directory[left]
            found = False
            if can_hold(b, left, shape):
                for i in range(left_at, -1, -1):
                    h = abs(a - b_block_key[block, i])
                    if h > best_h:
                        break
                    if entry_fits(b, block, i, shape):
                        found = True
                        left_at = i
                        break
            if not found:
                left -= 1
                left_at = b_block_length[b_directory[left]] - 1 if left >= 0 else -1
                continue
            # The lowest number of the same key is wanted: it stands where the run begins.
            key = b_block_key[block, left_at]
            left, left_at = run_start(b, key)
            position, at = left, left_at
            server = -1
            while server < 0:
                block = b_directory[position]
                if can_hold(b, position, shape):
                    for i in range(at, b_block_length[block]):
                        if entry_fits(b, block, i, shape):
                            server = b_block_server[block, i]
                            break
                position, at = position + 1, 0
            h = abs(a - key)
            if h < best_h or server < best:
                best, best_h = server, h
            left_at -= 1
            if left_at < 0:
                left -= 1
                left_at = b_block_length[b_directory[left]] - 1 if left >= 0 else -1


@njit(cache=True)
def lower_bound(b: Ints, position: int, shape: int) -> float:
    """Return a number that H of no server in the block is below."""
    b_reference = small1(b, AT_REFERENCE)
    b_ratio = floats2(b, AT_RATIO)
    b_directory_low = floats2(b, AT_DIRECTORY_LOW)
    b_directory_high = floats2(b, AT_DIRECTORY_HIGH)
    if b_reference[shape] != b[REFERENCE] or b[RESOURCES] < 3:
        return 0.0
    h = 0.0
    for r in range(b[RESOURCES]):
        wanted = b_ratio[shape, r]
        # Each term is no more than the server's own, and sums of rounded terms keep the order.
        if wanted < b_directory_low[position, r]:
            h += b_directory_low[position, r] - wanted
        elif wanted > b_directory_high[position, r]:
            h += wanted - b_directory_high[position, r]
    return h


@njit(cache=True)
def search_block(b: Ints, position: int, shape: int, best: int, best_h: float) -> tuple[int, float]:
    """Return the better of the best so far and the best of a block."""
    b_directory = small1(b, AT_DIRECTORY)
    b_block_length = ints1(b, AT_BLOCK_LENGTH)
    b_block_server = small2(b, AT_BLOCK_SERVER)
    block = b_directory[position]
    for i in range(b_block_length[block]):
        if entry_fits(b, block, i, shape):
            server = b_block_server[block, i]
            h = distance(b, shape, server)
            if h < best_h or (h == best_h and server < best) or best < 0:
                best, best_h = server, h
    return best, best_h


@njit(cache=True)
def search_bounded(b: Ints, shape: int) -> tuple[int, float]:
    """Return the clean server with the least H that holds a task: the best block first."""
    b_directory_bound = floats1(b, AT_DIRECTORY_BOUND)
    b_directory_first = ints1(b, AT_DIRECTORY_FIRST)
    first, first_bound = -1, np.inf
    for position in range(b[DIRECTORY]):
        if can_hold(b, position, shape):
            bound = lower_bound(b, position, shape)
            b_directory_bound[position] = bound
            if bound < first_bound:
                first, first_bound = position, bound
        else:
            b_directory_bound[position] = np.inf
    best, best_h = -1, np.inf
    if first >= 0:
        best, best_h = search_block(b, first, shape, best, best_h)
    for position in range(b[DIRECTORY]):
        bound = b_directory_bound[position]
        if position == first or bound == np.inf:
            continue
        # On a tie the lowest number is wanted, so an equal bound has to be opened unless every
        # server of the block comes later.
        if bound < best_h or (bound == best_h and b_directory_first[position] < best):
            best, best_h = search_block(b, position, shape, best, best_h)
    return best, best_h


@njit(cache=True)
def blocks_search(b: Ints, shape: int) -> tuple[int, float]:
    """Return the clean server with the least H that holds a task, ties to the lowest number."""
    b_reference = small1(b, AT_REFERENCE)
    if b[RESOURCES] == 2 and b_reference[shape] == b[REFERENCE]:
        return search_outward(b, shape)
    return search_bounded(b, shape)
