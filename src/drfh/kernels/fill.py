"""Kernels that fill servers: known amounts, task by task, and server by server."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["assign_two_resources", "fill_best_fit", "fill_with_offsets"]


def assign_two_resources(
    d1: NDArray[np.float64],
    d2: NDArray[np.float64],
    amount: NDArray[np.float64],
    c1: NDArray[np.float64],
    c2: NDArray[np.float64],
    user: NDArray[np.int64],
    server: NDArray[np.int64],
    placed: NDArray[np.float64],
) -> int:
    """Fill every server with the users whose slopes lie closest around its own.

    Users and servers come sorted by slope (second resource over first). The users together fill
    all servers exactly (dummy users (1, 0) and (0, 1) stand for idle capacity). For one server,
    the nearest user below and the nearest above are mixed so that the mix is parallel to the
    server. This loses the least for every price min(s·x1, x2), so what was feasible before a
    server is filled is feasible after it (docs/mathematics.md).

    Parameters
    ----------
    d1, d2, amount
        Direction of each user and how much of it to place. `amount` is used up: what remains
        afterwards could not be placed (round-off).
    c1, c2
        Capacities of the servers.
    user, server, placed
        Room for the result, users + 3 × servers entries.

    Returns
    -------
    int
        Number of entries written.
    """
    n = len(d1)
    below = np.empty(n, np.int64)  # a stack: users of lower slope that have something left
    top = -1
    above = 0  # the first user of higher slope
    written = 0
    for target in range(len(c1)):
        x1 = c1[target]
        x2 = c2[target]
        # Users without the first resource never move down: they stay in line before the dummy.
        while above < n and d1[above] > 0.0 and d2[above] * x1 <= x2 * d1[above]:
            top += 1
            below[top] = above
            above += 1
        left = 1.0  # part of the server that is still free; its direction does not change
        got_low = 0.0
        got_high = 0.0
        while left > 0.0:
            while top >= 0 and amount[below[top]] <= 0.0:
                top -= 1
            while above < n and amount[above] <= 0.0:
                above += 1
            if top < 0 or above >= n:
                break
            low = below[top]
            # Cramer's rule up to a common factor. The factor comes from the sums themselves and
            # not from the determinant, which is all round-off when the two are nearly parallel.
            rate_low = max(0.0, x1 * d2[above] - x2 * d1[above])
            rate_high = max(0.0, x2 * d1[low] - x1 * d2[low])
            scale = 0.0
            if x1 > 0.0:
                scale = (rate_low * d1[low] + rate_high * d1[above]) / x1
            if x2 > 0.0:
                scale = max(scale, (rate_low * d2[low] + rate_high * d2[above]) / x2)
            if scale <= 0.0:
                break
            rate_low /= scale
            rate_high /= scale
            step = left
            ends_low = False
            ends_high = False
            if rate_low * step >= amount[low]:
                step = amount[low] / rate_low
                ends_low = True
            if rate_high * step >= amount[above]:
                exact = amount[above] / rate_high
                ends_low = ends_low and exact >= step
                step = min(step, exact)
                ends_high = True
            take_low = amount[low] if ends_low else min(amount[low], rate_low * step)
            take_high = amount[above] if ends_high else min(amount[above], rate_high * step)
            amount[low] -= take_low
            amount[above] -= take_high
            got_low += take_low
            got_high += take_high
            left -= step
            if amount[low] <= 0.0 and got_low > 0.0:
                user[written] = low
                server[written] = target
                placed[written] = got_low
                written += 1
                got_low = 0.0
            if amount[above] <= 0.0 and got_high > 0.0:
                user[written] = above
                server[written] = target
                placed[written] = got_high
                written += 1
                got_high = 0.0
        if got_low > 0.0:
            user[written] = below[top]
            server[written] = target
            placed[written] = got_low
            written += 1
        if got_high > 0.0:
            user[written] = above
            server[written] = target
            placed[written] = got_high
            written += 1
        # Only round-off leaves one side empty: fill up by whichever resource ends first.
        x1 *= left
        x2 *= left
        while left > 0.0 and (top >= 0 or above < n):
            one = below[top] if top >= 0 else above
            take = amount[one]
            if d1[one] > 0.0:
                take = min(take, x1 / d1[one])
            if d2[one] > 0.0:
                take = min(take, x2 / d2[one])
            if take > 0.0:
                user[written] = one
                server[written] = target
                placed[written] = take
                written += 1
                amount[one] -= take
                x1 -= take * d1[one]
                x2 -= take * d2[one]
            if amount[one] > 0.0:
                break
            if top >= 0:
                top -= 1
            else:
                above += 1
    return written


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


def fill_with_offsets(
    direction: NDArray[np.float64],
    capacity: NDArray[np.float64],
    rate: NDArray[np.float64],
    cap: NDArray[np.float64],
    placed: NDArray[np.float64],
    total: NDArray[np.float64],
) -> float:
    """Fill every server once, in order, and write what each user has there.

    On server l all users rise together: at level t a user with o elsewhere has
    max(0, t·rate − o) there, at most cap − o. When a resource is used up, those that need it stop
    and those that come later do not start. Starts and caps are sorted once a server, so a server
    takes n log n + n·m steps, and another n·m for every resource that is used up.

    Parameters
    ----------
    direction
        What a unit of each user needs, users × resources.
    capacity
        Servers × resources.
    rate
        Servers × users: how fast a user rises there; 0 if it may not use the server.
    cap
        The most that each user may have in total.
    placed, total
        Servers × users, and its sum over the servers. Both are changed in place.

    Returns
    -------
    float
        The largest change of an entry relative to its user's total.
    """
    servers, n = rate.shape
    m = direction.shape[1]
    elsewhere = np.zeros(n)
    now = np.zeros(n)
    start = np.zeros(n)
    stop = np.zeros(n)
    waits = np.zeros(n, np.bool_)
    rises = np.zeros(n, np.bool_)
    used = np.zeros(m)
    slope = np.zeros(m)
    rising = np.zeros(m, np.int64)
    is_full = np.zeros(m, np.bool_)
    worst = 0.0
    for server in range(servers):
        for i in range(n):
            # An own entry taken off its sum leaves round-off, never less than nothing.
            elsewhere[i] = max(0.0, total[i] - placed[server, i])
            now[i] = 0.0
            rises[i] = False
            waits[i] = rate[server, i] > 0 and elsewhere[i] < cap[i]
            start[i] = elsewhere[i] / rate[server, i] if waits[i] else np.inf
            stop[i] = cap[i] / rate[server, i] if waits[i] else np.inf
        first = np.argsort(start, kind="mergesort")
        last = np.argsort(stop, kind="mergesort")
        for r in range(m):
            used[r] = 0.0
            slope[r] = 0.0
            rising[r] = 0
            is_full[r] = False
        level = 0.0
        a = 0
        b = 0
        while True:
            next_start = start[first[a]] if a < n else np.inf
            next_stop = stop[last[b]] if b < n else np.inf
            reach = min(next_start, next_stop)
            tight = -1
            for r in range(m):
                if rising[r] > 0 and not is_full[r]:
                    at = level + max(0.0, capacity[server, r] - used[r]) / slope[r]
                    if at < reach or (at == reach and tight < 0):
                        tight = r
                        reach = at
            if reach == np.inf:
                break
            if tight < 0:
                for r in range(m):
                    used[r] += slope[r] * (reach - level)
                level = reach
                starts = next_start <= next_stop
                if starts:
                    i = first[a]
                    a += 1
                    rises[i] = waits[i]
                    for r in range(m):
                        if is_full[r] and direction[i, r] > 0:
                            rises[i] = False
                    waits[i] = False
                    if not rises[i]:
                        continue
                else:
                    i = last[b]
                    b += 1
                    if not rises[i]:
                        continue
                    rises[i] = False
                    now[i] = cap[i] - elsewhere[i]
                for r in range(m):
                    if direction[i, r] > 0:
                        rising[r] += 1 if starts else -1
                        slope[r] += direction[i, r] * (
                            rate[server, i] if starts else -rate[server, i]
                        )
                continue
            level = reach
            is_full[tight] = True
            for i in range(n):
                if rises[i]:
                    now[i] = max(0.0, level * rate[server, i] - elsewhere[i])
                    if direction[i, tight] > 0:
                        rises[i] = False
            # Sums anew: what was added up step by step has lost its last digits.
            for r in range(m):
                used[r] = 0.0
                slope[r] = 0.0
                rising[r] = 0
                for i in range(n):
                    used[r] += now[i] * direction[i, r]
                    if rises[i] and direction[i, r] > 0:
                        rising[r] += 1
                        slope[r] += direction[i, r] * rate[server, i]
        for i in range(n):
            change = abs(now[i] - placed[server, i])
            total[i] = elsewhere[i] + now[i]
            if change > worst * total[i]:
                worst = change / total[i] if total[i] > 0 else 1.0
            placed[server, i] = now[i]
    return worst
