"""Progressive filling server by server, given what users have elsewhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["fill_with_offsets"]


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
