"""``per-server-drf``: DRF on each server by itself, the naive extension."""

from __future__ import annotations

import numpy as np

from drfh.allocation.placement import Placement, Pools, Solution
from drfh.allocation.problem import Floats, Problem, water_level
from drfh.allocation.proofs.bottleneck import BottleneckProof
from drfh.errors import InputError

__all__ = ["per_server_drf"]

_MOST_ENTRIES = 50_000_000


def per_server_drf(problem: Problem) -> Solution:
    """Share every server by DRF, without a look at the other servers.

    Definition
        On server l, leximin of max_r(D_ir/C_lr)·x_il/weight over the users that can use it;
        x_i = Σ_l x_il. A user with finite tasks asks each server for a part of them, in the
        proportion in which endless tasks would have been placed.

    Paper
        Wang, Li, Liang (INFOCOM 2014), section III-D, Fig. 2.

    Properties
        envy-free: yes if endless tasks; on each server by itself (Ghodsi et al. 2011)
        truthful: yes if endless tasks, no restrictions; on each server by itself
        sharing-incentive: yes if endless tasks, no restrictions; on each server by itself
        single-server: yes; it is DRF there
        pareto: no; it may use arbitrarily little of the cluster (Wang et al. 2014, Fig. 2)

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 2, "memory": 12}), Server({"cpu": 12, "memory": 2})])
    >>> users = [User("a", {"cpu": 0.2, "memory": 1}), User("b", {"cpu": 1, "memory": 0.2})]
    >>> [round(t, 9) for t in allocate(cluster, users, mechanism="per-server-drf").tasks.values()]
    [6.0, 6.0]
    """
    n, blocks = len(problem.users), len(problem.blocks)
    if n * blocks > _MOST_ENTRIES:
        raise InputError(
            "per-server-drf",
            f"must place at most {_MOST_ENTRIES:,} pairs of user and group",
            n * blocks,
        )
    endless = _each_server(problem, np.full((n, blocks), np.inf))
    tasks = endless
    if np.isfinite(problem.limit).any():
        total = endless.sum(axis=1, keepdims=True)
        with np.errstate(invalid="ignore", divide="ignore"):
            limit = np.where(endless > 0, problem.limit[:, None] * (endless / total), 0.0)
        tasks = _each_server(problem, limit)
    pool, user = np.nonzero(tasks.T > 0)
    placement = Placement.fitted(problem, user, pool, tasks[user, pool], Pools.single(blocks))
    # With finite tasks the parts that servers are asked for are a choice: nothing to be proven.
    endless_tasks = bool(np.isinf(problem.limit).all())
    proof = BottleneckProof.of(placement, totals=False) if endless_tasks else None
    return Solution(placement, proof)


def _each_server(problem: Problem, limit: Floats) -> Floats:
    """Return tasks of each user in each block, given the most it may run there."""
    usable = problem.usable_on(np.arange(len(problem.blocks)))
    tasks = np.zeros(limit.shape)
    capacity = problem.cluster.capacity[problem.blocks.group]
    for block, count in enumerate(problem.blocks.count.tolist()):
        can = np.ones(len(tasks), dtype=bool) if usable is None else usable[:, block]
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(problem.demand > 0, problem.demand / capacity[block], 0.0)
        part[~can] = 0.0
        largest = part.max(axis=1)
        direction = part / np.where(can, largest, 1.0)[:, None]
        tasks[:, block] = count * _one_server(
            direction, largest, np.where(can, problem.weight, 0.0), limit[:, block] / count
        )
    return tasks


def _one_server(direction: Floats, task_share: Floats, weight: Floats, limit: Floats) -> Floats:
    """Return the tasks of DRF on one server, by rounds over its resources."""
    share = np.zeros(len(weight))
    rising = weight.copy()
    with np.errstate(invalid="ignore"):
        cap = np.where(weight > 0, task_share * limit, 0.0)
    cap[np.isnan(cap)] = 0.0
    while rising.any():
        levels = [
            water_level(column, rising, cap, 1.0 - float(column @ share)) for column in direction.T
        ]
        tight = int(np.argmin(levels))
        if np.isinf(levels[tight]):
            share = np.where(rising > 0, cap, share)
            break
        reached = np.minimum(rising * levels[tight], cap)
        stopped = (rising > 0) & ((direction[:, tight] > 0) | (reached >= cap))
        share[stopped] = reached[stopped]
        rising[stopped] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(weight > 0, share / task_share, 0.0)
