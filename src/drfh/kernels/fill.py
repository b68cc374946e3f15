"""Progressive filling with whole tasks and Best-Fit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["fill_best_fit"]


def fill_best_fit(
    need: NDArray[np.int64],
    ratio: NDArray[np.float64],
    reference: NDArray[np.int64],
    weight: NDArray[np.float64],
    left: NDArray[np.int64],
    level: NDArray[np.float64],
    running: NDArray[np.int64],
    allowed: NDArray[np.bool_],
    total: NDArray[np.float64],
    free: NDArray[np.int64],
    block_first: NDArray[np.int64],
    block_count: NDArray[np.int64],
    block_touched: NDArray[np.int64],
    opened: NDArray[np.int64],
    opened_block: NDArray[np.int64],
    state: NDArray[np.int64],
    user: NDArray[np.int64],
    server: NDArray[np.int64],
) -> int:
    """Place tasks one by one until the room for results is used or nothing fits any more.

    Whose turn: the lowest level among users with tasks left, ties to the lowest index. Which
    server: the smallest H = Σ_r |D_r/D_ref − v_r/v_ref| in shares of the pool among those that
    fit, ties to the lowest index. A user whose task fits nowhere is passed over for good, as
    nothing is ever released here.

    Only servers that hold something and one fresh server a block are looked at: the fresh ones
    of a block are all alike and the lowest index wins. A server that can hold no task of anybody
    left is closed.

    Parameters
    ----------
    need
        Integer demand, users × resources.
    ratio
        D_r/D_ref of each user in shares of the pool.
    reference
        Reference resource of each user.
    weight, left, level, running
        Weight, tasks left (0: out), current level and tasks running of each user.
    allowed
        Users × blocks.
    total
        Pool total of each resource in units.
    free
        Free units, servers × resources.
    block_first, block_count, block_touched
        Servers of each block: the first, how many, how many of them are in use.
    opened, opened_block, state
        Servers in use that are not closed, their blocks, and their number in ``state[0]``.
    user, server
        Room for the result.

    Returns
    -------
    int
        Number of tasks placed; less than the room means that filling is complete.
    """
    n, m = need.shape
    blocks = len(block_first)
    count = state[0]
    written = 0
    smallest = np.zeros(m, np.int64)
    stale = True
    while written < len(user):
        if stale:
            # Who is out changed: close the servers that are too full for everybody left.
            some = False
            for r in range(m):
                smallest[r] = 0
            for i in range(n):
                if left[i] > 0:
                    for r in range(m):
                        if not some or need[i, r] < smallest[r]:
                            smallest[r] = need[i, r]
                    some = True
            if not some:
                break
            kept = 0
            for position in range(count):
                is_open = True
                for r in range(m):
                    if free[opened[position], r] < smallest[r]:
                        is_open = False
                if is_open:
                    opened[kept] = opened[position]
                    opened_block[kept] = opened_block[position]
                    kept += 1
            count = kept
            stale = False
        turn = -1
        for i in range(n):
            if left[i] > 0 and (turn < 0 or level[i] < level[turn]):
                turn = i
        ref = reference[turn]
        best = -1
        best_h = np.inf
        best_at = -1
        for candidate in range(count + blocks):
            fresh = candidate >= count
            if fresh:
                block = candidate - count
                if block_touched[block] >= block_count[block]:
                    continue
                target = block_first[block] + block_touched[block]
            else:
                block = opened_block[candidate]
                target = opened[candidate]
            if not allowed[turn, block]:
                continue
            fits = True
            for r in range(m):
                if free[target, r] < need[turn, r]:
                    fits = False
                    break
            if not fits:
                continue
            v_ref = free[target, ref] / total[ref]
            h = 0.0
            for r in range(m):
                if total[r] > 0:
                    h += abs(ratio[turn, r] - (free[target, r] / total[r]) / v_ref)
            if h < best_h or (h == best_h and target < best):
                best = target
                best_h = h
                best_at = candidate
        if best < 0:
            left[turn] = 0
            stale = True
            continue
        if best_at >= count:
            block = best_at - count
            block_touched[block] += 1
            best_at = count
            opened[count] = best
            opened_block[count] = block
            count += 1
        running[turn] += 1
        left[turn] -= 1
        highest = 0.0
        for r in range(m):
            free[best, r] -= need[turn, r]
            if total[r] > 0:
                highest = max(highest, (running[turn] * need[turn, r]) / total[r])
        level[turn] = highest / weight[turn]
        is_open = False
        for i in range(n):
            if left[i] > 0:
                is_open = True
                for r in range(m):
                    if free[best, r] < need[i, r]:
                        is_open = False
                        break
                if is_open:
                    break
        if not is_open:
            count -= 1
            opened[best_at] = opened[count]
            opened_block[best_at] = opened_block[count]
        if left[turn] == 0:
            stale = True
        user[written] = turn
        server[written] = best
        written += 1
    state[0] = count
    return written
