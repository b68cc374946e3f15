"""Who runs how many tasks where: a sparse table that is never over capacity."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from drfh.problem import Floats, Ints, Problem

__all__ = ["Placement", "Pools"]

_EPSILON = 2.0**-52
_MOST_ATTEMPTS = 60


@dataclass(frozen=True, eq=False)
class Pools:
    """Blocks of proportional servers that are filled alike, joined into pools.

    Attributes
    ----------
    of_block : int array
        Pool of each block.
    part : array
        Part of its pool's tasks that each block runs.
    """

    of_block: Ints
    part: Floats

    @classmethod
    def single(cls, blocks: int) -> Pools:
        """Return one pool for each block."""
        return cls(np.arange(blocks, dtype=np.int64), np.ones(blocks))

    @cached_property
    def size(self) -> int:
        """Number of pools."""
        return int(self.of_block.max()) + 1

    @cached_property
    def trivial(self) -> bool:
        """Whether every block is its own pool."""
        return self.size == len(self.of_block)


@dataclass(frozen=True, eq=False)
class Placement:
    """Tasks of users on pools of servers, sorted by pool and then by user.

    Attributes
    ----------
    user, pool : int arrays
        One entry for each user that runs in each pool.
    tasks : array
        Tasks of the user in the whole pool.
    pools : Pools
        How the pools are made of blocks of servers.
    """

    problem: Problem
    user: Ints
    pool: Ints
    tasks: Floats
    pools: Pools

    @classmethod
    def fitted(
        cls, problem: Problem, user: Ints, pool: Ints, tasks: Floats, pools: Pools
    ) -> Placement:
        """Sort the entries, join doubles, and scale down what is over a limit or over capacity.

        Solvers work with relative amounts and leave errors in the last digits. Here each server's
        column is scaled down until the sum of its tasks in float64, in user order, is within its
        capacity. Nothing is ever scaled up.
        """
        keep = tasks > 0
        if not keep.all():
            user, pool, tasks = user[keep], pool[keep], tasks[keep]
        key = pool * len(problem.users) + user
        order = np.argsort(key)
        key, user, pool, tasks = key[order], user[order], pool[order], tasks[order]
        first = np.empty(len(key), dtype=bool)
        first[:1] = True
        np.not_equal(key[1:], key[:-1], out=first[1:])
        if not first.all():
            tasks = np.add.reduceat(tasks, np.flatnonzero(first))
            user, pool = user[first], pool[first]
        placement = cls(problem, user, pool, tasks.copy(), pools)
        placement._scale_into_limits()
        placement._scale_into_capacity()
        return placement

    def _scale_into_limits(self) -> None:
        limit = self.problem.limit
        if np.isinf(limit).all():
            return
        for attempt in range(_MOST_ATTEMPTS):
            total = np.bincount(self.user, self.tasks, minlength=len(limit))
            over = total > limit
            if not over.any():
                return
            factor = np.ones(len(limit))
            factor[over] = limit[over] / total[over] * (1 - attempt * _EPSILON / 2)
            self.tasks[:] *= factor[self.user]

    def _scale_into_capacity(self) -> None:
        if not self.pools.trivial:
            # A pool of several blocks: room for the rounding of every product and sum, once.
            self.tasks[:] *= 1 - (8 + np.bincount(self.pool, minlength=1)[self.pool]) * _EPSILON
        capacity, tasks = self._representative_capacity, self.tasks
        for attempt in range(_MOST_ATTEMPTS):
            # A pool of one block: what one of its equal servers holds is what is compared.
            used = self._used(tasks / self._servers_per_pool[self.pool])
            over = used > capacity
            if not over.any():
                return
            pools = np.flatnonzero(over.any(axis=1))
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.where(over[pools], capacity[pools] / used[pools], 1.0)
            factor = np.ones(self.pools.size)
            factor[pools] = ratio.min(axis=1) * (1 - attempt * _EPSILON / 2)
            tasks *= factor[self.pool]

    @cached_property
    def _servers_per_pool(self) -> Floats:
        blocks = self.problem.blocks
        if self.pools.trivial:
            return blocks.count.astype(np.float64)
        return np.ones(self.pools.size)

    @cached_property
    def _representative_capacity(self) -> Floats:
        """Capacity of one server of a pool with one block, else of the whole pool."""
        blocks, cluster = self.problem.blocks, self.problem.cluster
        capacity = cluster.capacity[blocks.group]
        if self.pools.trivial:
            return capacity
        whole = np.zeros((self.pools.size, capacity.shape[1]))
        np.add.at(whole, self.pools.of_block, capacity * blocks.count[:, None])
        return whole

    def _used(self, tasks: Floats) -> Floats:
        demand = self.problem.demand
        columns = [
            np.bincount(self.pool, tasks * demand[self.user, r], minlength=self.pools.size)
            for r in range(demand.shape[1])
        ]
        return np.stack(columns, axis=1)

    @cached_property
    def user_tasks(self) -> Floats:
        """Tasks of each user."""
        total: Floats = np.bincount(self.user, self.tasks, len(self.problem.users)).astype(float)
        return total

    @cached_property
    def pool_usage(self) -> Floats:
        """What is used of each resource in each pool."""
        return self._used(self.tasks)

    @cached_property
    def group_usage(self) -> Floats:
        """What is used of each resource in each group of the cluster."""
        usage = np.zeros((len(self.problem.cluster), self.problem.demand.shape[1]))
        blocks = self.pool_usage[self.pools.of_block] * self.pools.part[:, None]
        np.add.at(usage, self.problem.blocks.group, blocks)
        return usage

    def entries_of(self, blocks: Ints) -> tuple[Ints, Ints, Floats]:
        """Return (block, user, tasks in the whole block) for the blocks asked for, in order."""
        starts = np.searchsorted(self.pool, np.arange(self.pools.size + 1))
        pool = self.pools.of_block[blocks]
        length = starts[pool + 1] - starts[pool]
        entry = np.repeat(starts[pool] - np.concatenate(([0], np.cumsum(length)[:-1])), length)
        entry += np.arange(len(entry))
        repeated = np.repeat(blocks, length)
        return repeated, self.user[entry], self.tasks[entry] * self.pools.part[repeated]

    def overload(self, blocks: Ints) -> float:
        """Return by how much the fullest single server exceeds its capacity, relatively.

        0 or less means that none does. Sums are taken in user order, one server at a time.
        """
        problem = self.problem
        block, user, tasks = self.entries_of(blocks)
        each = tasks / problem.blocks.count[block]
        position = np.searchsorted(blocks, block)
        worst = -np.inf
        capacity = problem.cluster.capacity[problem.blocks.group[blocks]]
        for r in range(capacity.shape[1]):
            used = np.bincount(position, each * problem.demand[user, r], minlength=len(blocks))
            limit = capacity[:, r]
            over = used > limit
            if over.any():
                with np.errstate(divide="ignore"):
                    worst = max(worst, float(np.max(used[over] / limit[over]) - 1))
            else:
                worst = max(worst, 0.0 if (used == limit).any() else -1.0)
        return worst

    def misplaced(self, blocks: Ints) -> int:
        """Return how many entries are on blocks that their user cannot use."""
        block, user, _ = self.entries_of(blocks)
        return int((~self.problem.can_use(user, block)).sum())
