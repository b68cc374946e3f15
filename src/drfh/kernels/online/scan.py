"""Server choices without an index: a scan of all servers.

Scores repeat ``drfh.policies.scores`` operation by operation.
"""

from __future__ import annotations

import numpy as np

from drfh.kernels.online.blocks import distance
from drfh.kernels.online.state import (
    ALIGNMENT,
    AT_ALLOWED,
    AT_CAPACITY,
    AT_DRAWS,
    AT_NEED,
    AT_PART,
    AT_RESTRICTION,
    AT_SERVER,
    AT_TOTAL,
    BEST_FIT,
    CHOICE,
    COSINE,
    DOT,
    FIRST_FIT,
    FIT_FROM,
    FIT_TO,
    FREE,
    HILBERT,
    RESOURCES,
    SERVERS,
    SIMPLEX,
    SPREAD,
    Ints,
    flags2,
    floats1,
    floats2,
    ints2,
    kernel,
    small1,
    words1,
)

__all__ = ["draw", "holds", "scan", "score"]


@kernel
def holds(b: Ints, shape: int, server: int) -> bool:
    """Return whether a server has room for a task that may use it."""
    b_server = ints2(b, AT_SERVER)
    b_need = ints2(b, AT_NEED)
    b_restriction = small1(b, AT_RESTRICTION)
    b_allowed = flags2(b, AT_ALLOWED)
    for r in range(b[FIT_FROM], b[FIT_TO]):
        if b_server[server, FREE + r] < b_need[shape, r]:
            return False
    return b_restriction[shape] == 0 or b_allowed[b_restriction[shape], server] != 0


@kernel
def draw(b: Ints, among: int) -> np.int64:
    """Return the next number below `among` (splitmix64, as in drfh.scheduler.core)."""
    b_draws = words1(b, AT_DRAWS)
    b_draws[0] += np.uint64(0x9E3779B97F4A7C15)
    mixed = b_draws[0]
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return np.int64(((mixed >> np.uint64(32)) * np.uint64(among)) >> np.uint64(32))


@kernel
def score(b: Ints, shape: int, server: int) -> float:
    """Return the score of a server by the policy's choice; the lowest wins."""
    b_server = ints2(b, AT_SERVER)
    b_capacity = ints2(b, AT_CAPACITY)
    b_need = ints2(b, AT_NEED)
    b_part = floats2(b, AT_PART)
    b_total = floats1(b, AT_TOTAL)
    choice = b[CHOICE]
    m = b[RESOURCES]
    if choice == FIRST_FIT:
        return 0.0
    if choice == BEST_FIT:
        return distance(b, shape, server)
    if choice == ALIGNMENT:
        product = 0.0
        for r in range(m):
            size = float(b_capacity[server, r])
            if size > 0:
                product += (b_need[shape, r] / size) * (b_server[server, FREE + r] / size)
        return -product
    product = tasks = frees = 0.0
    for r in range(m):
        need = b_part[shape, r]
        left = b_server[server, FREE + r] / b_total[r] if b_total[r] > 0 else 0.0
        if choice == COSINE:
            product += need * left
            tasks += need * need
            frees += left * left
        elif choice == DOT:
            product += need * left
        else:
            tasks += need
            frees += left
    if choice == COSINE:
        length = np.sqrt(tasks) * np.sqrt(frees)
        return -(product / length) if length > 0 else np.inf
    if choice == DOT:
        return -product
    if choice == SIMPLEX:
        if tasks <= 0 or frees <= 0:
            return np.inf
        gap = 0.0
        for r in range(m):
            left = b_server[server, FREE + r] / b_total[r] if b_total[r] > 0 else 0.0
            gap += abs(b_part[shape, r] / tasks - left / frees)
        return gap
    if choice == HILBERT:
        most, least = 0.0, np.inf
        for r in range(m):
            need = b_part[shape, r]
            left = b_server[server, FREE + r] / b_total[r] if b_total[r] > 0 else 0.0
            if need <= 0 and left <= 0:
                continue
            if need <= 0 or left <= 0:
                return np.inf
            most = max(most, left / need)
            least = min(least, left / need)
        return most / least
    return -frees if choice == SPREAD else frees


@kernel
def scan(b: Ints, shape: int) -> int:
    """Return the server with the lowest score that holds a task, ties to the lowest number."""
    best, best_score = -1, np.inf
    for server in range(b[SERVERS]):
        if holds(b, shape, server):
            value = score(b, shape, server)
            if best < 0 or value < best_score:
                best, best_score = server, value
    return best
