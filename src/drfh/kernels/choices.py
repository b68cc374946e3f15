"""Filling of servers with whole tasks, by any of the shipped choices of a server."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["CHOICES", "fill_by_choice"]

#: Choices of a server, by number. The scores are those of ``drfh.policies.scores``.
CHOICES = (
    "first-fit", "random", "best-fit", "cosine", "simplex", "hilbert", "alignment", "dot",
    "tightest", "spread",
)  # fmt: skip


def fill_by_choice(
    need: NDArray[np.int64],
    share: NDArray[np.float64],
    reference: NDArray[np.int64],
    first: NDArray[np.int64],
    ratio: NDArray[np.float64],
    weight: NDArray[np.float64],
    left: NDArray[np.int64],
    running: NDArray[np.int64],
    level: NDArray[np.float64],
    allowed: NDArray[np.bool_],
    block: NDArray[np.int64],
    capacity: NDArray[np.int64],
    free: NDArray[np.int64],
    total: NDArray[np.float64],
    servers: NDArray[np.int64],
    choice: int,
    state: NDArray[np.int64],
    row: NDArray[np.int64],
    server: NDArray[np.int64],
) -> int:
    """Place tasks one by one until the room for results is used or nothing fits any more.

    Whose turn: the lowest level, ties to the first. A task of a user of several kinds adds the
    share of a mix of the kinds left, divided by its weight and by the tasks of a mix. Which kind:
    the one with the fewest tasks for its ratio, ties to the first. Which server: the lowest score,
    ties to the first.

    Parameters
    ----------
    need, share
        What a task of each row (a kind of a user) needs: in units, and in shares of the pool.
    reference
        Resource that Best-Fit divides by, of each row.
    first
        The first row of each user, and the number of rows.
    ratio
        Tasks of each row in a mix of its user.
    weight
        Of each user.
    left, running
        Tasks that are left (0: out) and that run, of each row.
    level
        Of each user.
    allowed, block
        Rows × blocks: where a row may run; the block of each server.
    capacity, free
        Servers × resources, in units.
    total
        Pool total of each resource in units.
    servers
        The servers to fill, in order.
    choice
        Position in :data:`CHOICES`.
    state
        Of the draws of ``random``.
    row, server
        Room for the result.

    Returns
    -------
    int
        Number of tasks placed; less than the room means that filling is complete.
    """
    m = need.shape[1]
    users = len(weight)
    step = np.zeros(users)
    stale = np.ones(users, np.bool_)
    written = 0
    while written < len(row):
        turn = -1
        for i in range(users):
            if stale[i]:
                stale[i] = False
                tasks = 0.0
                for k in range(first[i], first[i + 1]):
                    if left[k] > 0:
                        tasks += ratio[k]
                if tasks > 0:
                    mix = 0.0
                    for r in range(m):
                        part = 0.0
                        for k in range(first[i], first[i + 1]):
                            if left[k] > 0:
                                part += ratio[k] * share[k, r]
                        mix = max(mix, part)
                    step[i] = mix / (weight[i] * tasks)
                else:
                    level[i] = np.inf
            if level[i] < np.inf and (turn < 0 or level[i] < level[turn]):
                turn = i
        if turn < 0:
            break
        kind = -1
        for k in range(first[turn], first[turn + 1]):
            if left[k] > 0 and (kind < 0 or running[k] / ratio[k] < running[kind] / ratio[kind]):
                kind = k
        ref = reference[kind]
        best = -1
        best_score = np.inf
        fitting = 0
        for position in range(len(servers)):
            target = servers[position]
            if not allowed[kind, block[target]]:
                continue
            fits = True
            for r in range(m):
                if free[target, r] < need[kind, r]:
                    fits = False
                    break
            if not fits:
                continue
            if choice == 0:  # first-fit
                best = target
                break
            if choice == 1:  # random: the n-th that fits takes the place with probability 1/n
                fitting += 1
                state[0] = state[0] * 48271 % 2147483647
                if state[0] % fitting == 0:
                    best = target
                continue
            a = b = c = 0.0
            score = 0.0
            if choice == 2:  # best-fit
                v_ref = free[target, ref] / total[ref]
                for r in range(m):
                    if total[r] > 0:
                        score += abs(
                            share[kind, r] / share[kind, ref] - (free[target, r] / total[r]) / v_ref
                        )
            elif choice == 5:  # hilbert
                b = np.inf
                for r in range(m):
                    if total[r] > 0 and (need[kind, r] > 0 or free[target, r] > 0):
                        if need[kind, r] <= 0 or free[target, r] <= 0:
                            c = np.inf
                        else:
                            a = max(a, (free[target, r] / total[r]) / share[kind, r])
                            b = min(b, (free[target, r] / total[r]) / share[kind, r])
                score = c if c > 0 else a / b
            else:
                for r in range(m):
                    whole = float(capacity[target, r]) if choice == 6 else total[r]
                    if whole > 0:
                        part = free[target, r] / whole
                        mine = need[kind, r] / whole
                        if choice == 4:
                            a += mine
                            b += part
                        elif choice >= 8:
                            a += part
                        else:
                            a += mine * part
                            b += mine * mine
                            c += part * part
                if choice == 3:  # cosine
                    length = np.sqrt(b) * np.sqrt(c)
                    score = -(a / length) if length > 0 else np.inf
                elif choice == 4:  # simplex
                    if a <= 0 or b <= 0:
                        score = np.inf
                    else:
                        for r in range(m):
                            if total[r] > 0:
                                score += abs(share[kind, r] / a - (free[target, r] / total[r]) / b)
                elif choice == 8:  # tightest
                    score = a
                else:  # alignment, dot, spread
                    score = -a
            if best < 0 or score < best_score:
                best = target
                best_score = score
        if best < 0:
            left[kind] = 0
            stale[turn] = True
            continue
        running[kind] += 1
        left[kind] -= 1
        highest = 0.0
        for r in range(m):
            free[best, r] -= need[kind, r]
            if total[r] > 0:
                highest = max(highest, (running[kind] * need[kind, r]) / total[r])
        if first[turn + 1] - first[turn] == 1:
            level[turn] = highest / weight[turn]
        else:
            level[turn] += step[turn]
        if left[kind] == 0:
            stale[turn] = True
        row[written] = kind
        server[written] = best
        written += 1
    return written
