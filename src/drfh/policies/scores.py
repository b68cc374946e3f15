"""Scores of a task on a server; the lowest is chosen.

All take shares of the pool: `task` is what the task needs, `free` what the server has left, both
divided by the pool's totals (0 where the pool has none). Each is written in
one order of operations, which the compiled twin in ``kernels/online.py`` repeats, so that both
give the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

__all__ = [
    "SCORES",
    "Score",
    "alignment",
    "best_fit",
    "cosine",
    "dot",
    "hilbert",
    "simplex",
    "spread",
    "tightest",
]

Shares = Sequence[float]
Score = Callable[[Shares, Shares], float]


def best_fit(task: Shares, free: Shares, reference: int = 0) -> float:
    """Return the paper's H: how far the server's free proportions are from the task's.

    H = Σ_r |D_r/D_ref − v_r/v_ref| (Wang, Li, Liang, INFOCOM 2014, section V). It depends on the
    reference resource; a task that does not need it uses the first one that it does need. Infinite
    where nothing of that is free, or nothing that the task needs is in the pool (overcommit).

    Examples
    --------
    >>> round(best_fit((0.2, 1), (12, 2)), 3), round(best_fit((1, 0.2), (12, 2)), 3)
    (4.833, 0.033)
    """
    if task[reference] <= 0:
        reference = next((r for r, need in enumerate(task) if need > 0), reference)
    if task[reference] <= 0 or free[reference] <= 0:
        return math.inf
    distance = 0.0
    for need, left in zip(task, free, strict=True):
        distance += abs(need / task[reference] - left / free[reference])
    return distance


def cosine(task: Shares, free: Shares) -> float:
    """Return minus the cosine of the angle between the task and the free resources.

    Examples
    --------
    >>> round(cosine((1, 1), (1, 3)), 4), round(cosine((1, 1), (4, 1)), 4)
    (-0.8944, -0.8575)
    """
    product = tasks = frees = 0.0
    for need, left in zip(task, free, strict=True):
        product += need * left
        tasks += need * need
        frees += left * left
    length = math.sqrt(tasks) * math.sqrt(frees)
    return -(product / length) if length > 0 else math.inf


def simplex(task: Shares, free: Shares) -> float:
    """Return the distance of the two when each is scaled to a sum of one.

    Examples
    --------
    >>> simplex((1, 1), (1, 3)), round(simplex((1, 1), (4, 1)), 9)
    (0.5, 0.6)
    """
    tasks = frees = 0.0
    for need, left in zip(task, free, strict=True):
        tasks += need
        frees += left
    if tasks <= 0 or frees <= 0:
        return math.inf
    distance = 0.0
    for need, left in zip(task, free, strict=True):
        distance += abs(need / tasks - left / frees)
    return distance


def hilbert(task: Shares, free: Shares) -> float:
    """Return max_r(v_r/u_r) / min_r(v_r/u_r): Hilbert's projective distance before its logarithm.

    It depends neither on scale nor on the order of resources. A resource that only one of the two
    has makes it infinite; one that neither has is left out.

    Examples
    --------
    >>> hilbert((1, 1), (1, 3)), hilbert((1, 1), (4, 1)), hilbert((1, 0), (1, 1))
    (3.0, 4.0, inf)
    """
    most, least = 0.0, math.inf
    for need, left in zip(task, free, strict=True):
        if need <= 0 and left <= 0:
            continue
        if need <= 0 or left <= 0:
            return math.inf
        most = max(most, left / need)
        least = min(least, left / need)
    return most / least


def alignment(task: Shares, free: Shares) -> float:
    """Return minus the inner product, both as parts of *that* server (Tetris).

    Grandl et al., Multi-resource packing for cluster schedulers, SIGCOMM 2014. The arguments are
    divided by the server's capacity, not by the pool's totals. It prefers empty servers.

    Examples
    --------
    >>> round(alignment((2 / 10, 1 / 10), (4 / 10, 6 / 10)), 9)
    -0.14
    """
    return dot(task, free)


def dot(task: Shares, free: Shares) -> float:
    """Return minus the inner product in shares of the pool.

    Examples
    --------
    >>> dot((1, 1), (1, 3))
    -4.0
    """
    product = 0.0
    for need, left in zip(task, free, strict=True):
        product += need * left
    return -product


def tightest(task: Shares, free: Shares) -> float:
    """Return how much is left in all: the fullest server that fits goes first.

    Examples
    --------
    >>> tightest((1, 1), (1, 3))
    4.0
    """
    total = 0.0
    for left in free:
        total += left
    return total


def spread(task: Shares, free: Shares) -> float:
    """Return minus how much is left in all: the emptiest server goes first.

    Examples
    --------
    >>> spread((1, 1), (1, 3))
    -4.0
    """
    return -tightest(task, free)


#: Name → score, for the choices that compare all servers that fit.
SCORES: dict[str, Callable[..., float]] = {
    "best-fit": best_fit,
    "cosine": cosine,
    "simplex": simplex,
    "hilbert": hilbert,
    "alignment": alignment,
    "dot": dot,
    "tightest": tightest,
    "spread": spread,
}
