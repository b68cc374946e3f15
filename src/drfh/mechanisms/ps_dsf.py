"""``ps-dsf``: Per-Server Dominant-Share Fairness, each server fair with a look at the others."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from drfh.allocation.placement import Placement, Solution
from drfh.allocation.problem import Floats, Problem
from drfh.allocation.proofs.bottleneck import BottleneckProof
from drfh.errors import InputError
from drfh.kernels import fast
from drfh.kernels.fill import fill_with_offsets
from drfh.mechanisms.solvers.presolve import Classes

__all__ = ["ps_dsf"]

_MOST_ENTRIES = 20_000_000
_MOST_STEPS = 5e9  # inner-loop steps: half a minute
_MOST_SWEEPS = 20_000
_SWEEPS = 10  # between two attempts to leap ahead
_HISTORY = 6
_STEADY = 0.1  # relative difference of sweeps that change the same in the same way
_ENOUGH = 1e-11


def ps_dsf(problem: Problem) -> Solution:
    """Share every server by DRF, counting what each user has on all servers together.

    Definition
        gamma_il is how many tasks user i could run with server l for itself, and
        s_il = x_i/(weight·gamma_il) its level there, x_i counting all its tasks. On every server
        that it may use, a user that has tasks left finds a resource that it needs, that is used
        up, and of which nobody with a higher level there holds any. Found server by server,
        round after round, until nothing changes.

    Paper
        Khamse-Ashari, Lambadaris, Kesidis, Urgaonkar, Zhao: Per-server dominant-share fairness
        (PS-DSF): a multi-resource fair allocation mechanism for heterogeneous servers, ICC 2017.

    Properties
        order-of-servers: no; with finite tasks there are several fixed points
        pareto: no; DRFH gives everybody more on servers (2, 3), (5, 7) with tasks (5, 1), (5, 4),
            (1, 6)
        truthful: no; there the first user gains by asking for (4, 6)
        single-server: yes; the level there is the dominant share

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 6, "memory": 1}), Server({"cpu": 1, "memory": 6})])
    >>> users = [User("a", {"cpu": 1, "memory": 0.1}), User("b", {"cpu": 1, "memory": 1})]
    >>> [round(t, 9) for t in allocate(cluster, users, mechanism="ps-dsf").tasks.values()]
    [6.0, 1.0]
    """
    # A server twice as large doubles gamma for everybody: proportional servers rank all users
    # alike, so what is fair on their sum is fair on each of them, split in proportion.
    classes = Classes.of(problem)
    servers, n = len(classes.capacity), len(problem.users)
    if n * servers > _MOST_ENTRIES:
        rule = f"must have at most {_MOST_ENTRIES:,} pairs of user and kind of server"
        raise InputError("ps-dsf", rule, n * servers)
    direction = np.ascontiguousarray(problem.direction[:, classes.needed])
    rate = np.full((servers, n), np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        for r, need in enumerate(direction.T):
            np.minimum(rate, classes.capacity[:, r, None] / need, out=rate, where=need > 0)
    rate *= problem.weight
    rate[~classes.usable[classes.user_class].T] = 0.0
    size = rate.size * (direction.shape[1] + np.log2(n + 1))
    kernel = fast(fill_with_offsets, steps=20 * size)

    def sweep(placed: Floats) -> float:
        total = placed.sum(axis=0)
        return kernel(direction, classes.capacity, rate, problem.share_limit, placed, total)

    most = int(np.clip(_MOST_STEPS / size, 200, _MOST_SWEEPS))
    placed = _fixed_point(sweep, np.zeros_like(rate), most)
    pool, user = np.nonzero(placed)
    tasks = placed[pool, user] / problem.task_share[user]
    placement = Placement.fitted(problem, user, pool, tasks, classes.pools)
    return Solution(placement, BottleneckProof.of(placement, totals=True), "round robin")


def _fixed_point(sweep: Callable[[Floats], float], placed: Floats, most: int) -> Floats:
    """Return what a sweep leaves as it is, or the last state after about `most` sweeps.

    A sweep is linear as long as the same users share the same servers, so nearly always the
    state either drifts at a constant speed until somebody has left a server, or approaches its
    end geometrically. Both can be seen in a few sweeps and be leapt over. Leaps need no proof:
    sweeps go on from where they lead, and what comes out in the end is measured.
    """
    done = 0
    while done < most:
        for _ in range(_SWEEPS):
            change = sweep(placed)
            if change < _ENOUGH:
                return placed
        states = [placed]
        for _ in range(_HISTORY):
            states.append(states[-1].copy())
            change = sweep(states[-1])
        done += _SWEEPS + _HISTORY
        placed = states[-1]
        for target, allowed in _leaps(states):
            attempt = np.maximum(target, 0.0)
            sweep(attempt)
            done += 2
            if sweep(attempt) <= allowed * change:
                placed = attempt
                break
    return placed


def _leaps(states: list[Floats]) -> list[tuple[Floats, float]]:
    """Return where to leap, the best first, and how much more a sweep may change there."""
    last = states[-1]
    total = last.sum(axis=0)
    scale = 1 / np.where(total > 0, total, 1.0)
    steps = np.array([((b - a) * scale).ravel() for a, b in pairwise(states)])
    turn = steps[:-1] - steps[-1]
    leaps: list[tuple[Floats, float]] = []
    if np.abs(turn[0]).max() <= _STEADY * np.abs(steps[-1]).max():
        drift = last - states[-2]
        leaving = drift < 0
        ends = np.sort(last[leaving] / -drift[leaving])  # when each of them has left
        ends = ends[ends > 2]
        if len(ends):
            many = [ends[len(ends) // 10], ends[len(ends) // 100], ends[0], 0.1 * ends[0]]
            leaps += [(last + time * drift, 1.2) for time in dict.fromkeys(many)]
    # Reduced rank extrapolation: the mean of the states whose step is least.
    gram = turn @ turn.T
    gram[np.diag_indices(len(gram))] += 1e-14 * np.trace(gram) + 1e-300
    mix = np.linalg.solve(gram, -turn @ steps[-1])
    apart = np.array([(state - last).ravel() for state in states[1:-1]])
    leaps.append((last + (mix @ apart).reshape(last.shape), 0.5))
    return leaps
