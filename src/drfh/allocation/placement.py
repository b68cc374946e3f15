"""Placements: sparse tables of tasks by user and server, within capacity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from drfh.allocation.problem import Floats, Ints, Problem
from drfh.errors import InputError
from drfh.formatting import format_amount, format_count, format_number, plural
from drfh.model.resources import TOLERANCE

if TYPE_CHECKING:
    from drfh.allocation.proofs.certificate import Proof

__all__ = ["Placement", "Pools", "Solution"]


_EPSILON = 2.0**-52
_MOST_ATTEMPTS = 60
_ROUND_OFF = 1e-14
_MOST_EXPANDED = 2_000_000
_READABLE = 256  # entries that somebody may look at one by one
_NOBODY = np.zeros(0, dtype=np.int64)
_NOTHING = np.zeros(0)


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
    """Tasks of users on pools of servers, sorted by pool, then user.

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

    def __post_init__(self) -> None:
        user, pool, tasks = _entries(self.user, self.pool, self.tasks)
        for name, column in (("user", user), ("pool", pool), ("tasks", tasks)):
            object.__setattr__(self, name, column)

    def __repr__(self) -> str:
        entries = f"{len(self.tasks):,} {plural(len(self.tasks), 'entry', 'entries')}"
        return f"Placement({entries}: {format_count(float(self.tasks.sum()), 'task', 4)})"

    @classmethod
    def fitted(
        cls, problem: Problem, user: Ints, pool: Ints, tasks: Floats, pools: Pools
    ) -> Placement:
        """Sort and join entries; scale down what exceeds a limit or capacity.

        Solvers work with relative amounts and leave errors in the last digits. Here each server's
        column is scaled down until the sum of its tasks in float64, in user order, is within its
        capacity. Nothing is ever scaled up, but for the last digit of a small table.
        """
        user, pool, tasks = _entries(user, pool, tasks)
        if not np.isfinite(tasks).all():
            raise InputError(
                "placement.tasks", "must be finite", float(tasks[~np.isfinite(tasks)][0])
            )
        # A solver's round-off is no task of anybody.
        total = np.bincount(user, tasks, minlength=len(problem.users))
        keep = tasks > _ROUND_OFF * total[user]
        if not keep.all():
            user, pool, tasks = user[keep], pool[keep], tasks[keep]
        key = pool * len(problem.users) + user
        order = np.argsort(key, kind="stable")
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
        if len(placement.tasks) <= _READABLE:
            placement._tidy()
        return placement

    def _tidy(self) -> None:
        """Mend the last digits where it still fits: 10 tasks are 10, not 9.999999999999996."""
        exact = self.tasks.copy()
        with np.errstate(over="ignore", invalid="ignore"):
            scale = 10.0 ** (9 - np.floor(np.log10(exact)))  # ten digits
            rounded = np.rint(exact * scale) / scale
            close = np.abs(rounded - exact) <= 5e-14 * exact
        self.tasks[close] = rounded[close]
        pools, _ = self._over_capacity()
        limit = self.problem.limit
        total = np.bincount(self.user, self.tasks, len(limit))
        back = np.isin(self.pool, pools) | (total > limit)[self.user]
        self.tasks[back] = exact[back]

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
        for attempt in range(_MOST_ATTEMPTS):
            pools, factor = self._over_capacity()
            if len(pools) == 0:
                return
            scale = np.ones(self.pools.size)
            np.minimum.at(scale, pools, factor * (1 - attempt * _EPSILON / 2))
            self.tasks[:] *= scale[self.pool]

    def _over_capacity(self) -> tuple[Ints, Floats]:
        """Return pools with a server that is over capacity, and factors that would mend it."""
        problem, pools = self.problem, self.pools
        capacity = self._server_capacity
        if pools.trivial:
            used = self._used(self.tasks / problem.blocks.count[self.pool])
        elif self.expanded <= _MOST_EXPANDED:
            used = self._used_per_server(np.arange(len(problem.blocks)))
        else:
            # Too many to look at one by one: leave room for the rounding of every sum instead.
            margin = 1 - (8 + np.bincount(self.pool, minlength=pools.size)) * _EPSILON
            per_pool = self._used(self.tasks / margin[self.pool])
            used = per_pool[pools.of_block] * (pools.part / problem.blocks.count)[:, None]
        over = used > capacity
        if not over.any():
            return _NOBODY, _NOTHING
        blocks = np.flatnonzero(over.any(axis=1))
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(over[blocks], capacity[blocks] / used[blocks], 1.0)
        return pools.of_block[blocks], ratio.min(axis=1, initial=1.0)

    @cached_property
    def _server_capacity(self) -> Floats:
        """Capacity of one server of each block."""
        capacity: Floats = self.problem.cluster.capacity[self.problem.blocks.group]
        return capacity

    @cached_property
    def _needs(self) -> list[Floats]:
        """What a task of each entry needs, resource by resource."""
        return [column[self.user] for column in self.problem.demand.T]

    @cached_property
    def expanded(self) -> int:
        """Number of entries by block instead of by pool."""
        per_pool = np.bincount(self.pool, minlength=self.pools.size)
        return int(per_pool[self.pools.of_block].sum())

    def _used_per_server(self, blocks: Ints) -> Floats:
        """Return what one server of each of `blocks` (ascending) uses, summed in user order."""
        problem = self.problem
        block, user, tasks = self.entries_of(blocks)
        each = tasks / problem.blocks.count[block]
        position = np.searchsorted(blocks, block)
        columns = [
            np.bincount(position, each * problem.demand[user, r], minlength=len(blocks))
            for r in range(problem.demand.shape[1])
        ]
        return np.stack(columns, axis=1)

    def _used(self, tasks: Floats) -> Floats:
        size = self.pools.size
        used = np.empty((size, len(self._needs)))
        for r, need in enumerate(self._needs):
            used[:, r] = np.bincount(self.pool, tasks * need, size)
        return used

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
        """Return (block, user, tasks in the block) of some blocks, in order."""
        starts = np.searchsorted(self.pool, np.arange(self.pools.size + 1))
        pool = self.pools.of_block[blocks]
        length = starts[pool + 1] - starts[pool]
        entry = np.repeat(starts[pool] - np.concatenate(([0], np.cumsum(length)[:-1])), length)
        entry += np.arange(len(entry))
        repeated = np.repeat(blocks, length)
        return repeated, self.user[entry], self.tasks[entry] * self.pools.part[repeated]

    def overload(self, blocks: Ints) -> float:
        """Return by how much the fullest single server exceeds its capacity, relatively.

        0 means that none does. Sums are taken in user order, one server at a time.
        """
        problem = self.problem
        used = self._used_per_server(blocks)
        limit = problem.cluster.capacity[problem.blocks.group[blocks]]
        over = used > limit
        if not over.any():
            return 0.0
        with np.errstate(divide="ignore"):
            return float((used[over] / limit[over]).max()) - 1

    def lost(self) -> float:
        """Return the largest part of a pool's tasks missing from its blocks."""
        total = np.bincount(self.pools.of_block, self.pools.part, self.pools.size)[self.pool]
        if len(total) == 0:
            return 0.0
        return math.inf if self.pools.part.min() < 0 else float(np.abs(1 - total).max())

    def misplaced(self, blocks: Ints) -> int:
        """Return how many entries are on blocks that their user cannot use."""
        block, user, _ = self.entries_of(blocks)
        return int((~self.problem.can_use(user, block)).sum())

    def check(self, field: str) -> None:
        """Raise an error about `field` unless this can be carried out, but for round-off.

        Parameters
        ----------
        field
            Who placed it, such as ``mechanism my-rule``.

        Examples
        --------
        >>> from drfh import Cluster, Server, User
        >>> problem = Problem.build(Cluster([Server({"cpu": 4})]), [User("a", {"cpu": 1})])
        >>> Placement(problem, [0], [0], [9.0], Pools.single(1)).check("mechanism mine")
        Traceback (most recent call last):
        drfh.errors.InputError: mechanism mine must place at most 4 cpu on server-1, got 9.0
        """
        problem, blocks = self.problem, np.arange(len(self.problem.blocks))
        self.check_entries(field)
        block, user, tasks = self.entries_of(blocks)
        outside = np.flatnonzero(~problem.can_use(user, block) & (tasks > 0))
        if len(outside):
            name, server = (
                problem.users[user[outside[0]]].name,
                problem.block_name(block[outside[0]]),
            )
            rule = f"must not place {name} on {server}, where it may not or cannot run"
            raise InputError(field, rule, float(tasks[outside[0]]))
        if self.lost() > TOLERANCE:
            raise InputError(field, "must have pools whose parts are ≥ 0 and add up to 1")
        pools, factor = self._over_capacity()
        if len(pools) and factor.min() < 1 - TOLERANCE:
            fullest = np.flatnonzero(self.pools.of_block == pools[int(np.argmin(factor))])
            used, capacity = self._used_per_server(fullest), self._server_capacity[fullest]
            with np.errstate(divide="ignore", invalid="ignore"):
                over = np.where(used > capacity, used / capacity, 0.0)
            row, resource = np.unravel_index(int(np.argmax(over)), over.shape)
            most, name = float(capacity[row, resource]), problem.cluster.resources[int(resource)]
            each = "each server of " if problem.blocks.count[fullest[row]] > 1 else ""
            rule = f"must place at most {format_amount(most)} {name} on {each}"
            rule += problem.block_name(int(fullest[row]))
            raise InputError(field, rule, float(used[row, resource]))
        beyond = np.flatnonzero(self.user_tasks > problem.limit * (1 + TOLERANCE))
        if len(beyond):
            i = int(beyond[0])
            limit = format_number(problem.limit[i])
            rule = f"must give {problem.users[i].name} at most its {limit} tasks"
            raise InputError(field, rule, float(self.user_tasks[i]))

    def check_entries(self, field: str) -> None:
        """Raise unless entries are of users and pools that exist, in order, and finite."""
        problem, n = self.problem, len(self.problem.users)
        pools = self.pools
        if len(pools.of_block) != len(problem.blocks) or len(pools.part) != len(problem.blocks):
            rule = "must have a pool and a part for each of the problem's blocks"
            raise InputError(field, rule, len(pools.of_block))
        for what, column, size in (("user", self.user, n), ("pool", self.pool, pools.size)):
            wrong = column[(column < 0) | (column >= size)]
            if len(wrong):
                raise InputError(field, f"must place each {what} in 0 … {size - 1}", int(wrong[0]))
        wrong = np.flatnonzero(~(np.isfinite(self.tasks) & (self.tasks >= 0)))
        if len(wrong):
            i = int(wrong[0])
            server = problem.block_name(int(np.argmax(pools.of_block == self.pool[i])))
            name = problem.users[self.user[i]].name
            rule = f"must give {name} a finite number ≥ 0 of tasks on {server}"
            raise InputError(field, rule, float(self.tasks[i]))
        if (np.diff(self.pool * n + self.user) <= 0).any():
            rule = "must have entries sorted by pool, then user, each once (Placement.fitted sorts)"
            raise InputError(field, rule)


def _entries(user: Any, pool: Any, tasks: Any) -> tuple[Ints, Ints, Floats]:
    """Return the entries of a placement as arrays of equal length."""
    columns = np.asarray(user), np.asarray(pool), np.asarray(tasks, dtype=float)
    if len({column.shape for column in columns}) != 1 or columns[0].ndim != 1:
        shapes = ", ".join(str(column.shape) for column in columns)
        raise InputError("placement", f"must have user, pool and tasks of equal length: {shapes}")
    for name, column in zip(("user", "pool"), columns, strict=False):
        if len(column) and column.dtype.kind not in "iu":
            raise InputError(f"placement.{name}", "must be positions, whole numbers", column[0])
    return (
        columns[0].astype(np.int64, copy=False),
        columns[1].astype(np.int64, copy=False),
        columns[2],
    )


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """A placement and what is known about it.

    Attributes
    ----------
    placement
        Who runs how many tasks where.
    certificate
        Proof that it is what the mechanism defines, for mechanisms that have one.
    method
        Which solver found it.
    promised
        Tasks that a pooled mechanism promises, before they meet the servers.
    whole
        Whether tasks are whole.
    """

    placement: Placement
    certificate: Proof | None = None
    method: str = "direct"
    promised: Floats | None = None
    whole: bool = False
