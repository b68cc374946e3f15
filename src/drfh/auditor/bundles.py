"""Bundles: what each user holds where, and its worth to others.

A bundle is worth the tasks that a user could run with it. A user with several kinds of tasks places
them anew inside the bundle, by the rounds that DRFH has for a mix: of all it could run, the numbers
of mixes by kind (tasks / ratio), sorted, are lexicographically the largest. Of two bundles it
prefers the one with which they are larger.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from drfh.allocation.placement import Placement
from drfh.allocation.problem import Blocks, Bools, Floats, Ints, PerTask, Problem
from drfh.mechanisms.shared.leximin import lexicographic
from drfh.model.cluster import Cluster

__all__ = ["Bundles", "best_use"]

_ALMOST = 1e-9  # a task that is short by this part is a whole task


@dataclass(frozen=True, eq=False)
class Bundles:
    """Amounts of every resource that users hold on blocks of servers.

    Attributes
    ----------
    problem : Problem
        Whose users and blocks these are. Where users have several kinds of tasks, each kind is
        one of its users.
    user, block : int arrays
        One entry for each user on each block.
    amounts : array, entries × resources
        What the user holds on the whole block, in the cluster's units.
    whole : bool
        Whether tasks are whole. Then every block is a single server.
    """

    problem: Problem
    user: Ints
    block: Ints
    amounts: Floats
    whole: bool = False

    @classmethod
    def of(cls, placement: Placement, *, whole: bool = False) -> Bundles:
        """Return what the tasks of a placement hold.

        Examples
        --------
        >>> from drfh import Cluster, Server, User, allocate
        >>> users = [User("a", {"cpu": 1}), User("b", {"cpu": 2})]
        >>> allocation = allocate(Cluster([Server({"cpu": 4})]), users)
        >>> Bundles.of(allocation.assignment).amounts.tolist()
        [[2.0], [2.0]]
        """
        problem = placement.problem
        block, user, tasks = placement.entries_of(np.arange(len(problem.blocks)))
        return cls(problem, user, block, tasks[:, None] * problem.demand[user], whole)

    def worth(self, user: int) -> Floats:
        """Return the tasks `user` could run with each bundle, its limit ignored."""
        total: Floats = np.bincount(
            self.user, self.entry_worth(user), len(self.problem.users)
        ).astype(float)
        return total

    def entry_worth(self, user: int) -> Floats:
        """Return the tasks that `user` could run with each entry."""
        need = self.problem.demand[user]
        tasks = np.full(len(self.user), math.inf)
        for r in np.flatnonzero(need > 0).tolist():
            np.minimum(tasks, self.amounts[:, r] / need[r], out=tasks)
        tasks[~self._usable_by(user)] = 0.0
        return np.floor(tasks * (1 + _ALMOST)) if self.whole else tasks

    def _usable_by(self, user: int) -> Bools:
        return self.problem.can_use(np.full(len(self.block), user, dtype=np.int64), self.block)

    @property
    def tasks(self) -> Floats:
        """Tasks that each user can run with its bundle, within its limit."""
        return np.minimum(self.unlimited_tasks, self.problem.limit)

    @cached_property
    def unlimited_tasks(self) -> Floats:
        """Tasks that each user could run with its bundle, without its limit."""
        problem = self.problem
        tasks = np.full(len(self.user), math.inf)
        for r in range(problem.demand.shape[1]):
            need = problem.demand[self.user, r]
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = np.where(need > 0, self.amounts[:, r] / need, math.inf)
            np.minimum(tasks, ratio, out=tasks)
        tasks[~problem.can_use(self.user, self.block)] = 0.0
        if self.whole:
            tasks = np.floor(tasks * (1 + _ALMOST))
        total: Floats = np.bincount(self.user, tasks, len(problem.users)).astype(float)
        return total

    @cached_property
    def best_tasks(self) -> Floats:
        """Best tasks of each user with its bundle, kinds placed anew."""
        mixes = self.problem.mixes
        if mixes is None or self.whole:
            return self.tasks
        best = self.tasks.copy()
        for user, record in enumerate(mixes.users):
            if record.kinds:
                held = self.held_by([user])
                best[self.problem.rows_of(user)] = best_use(self.problem, user, *held)
        return best

    def held_by(self, users: Sequence[int]) -> tuple[Ints, Floats]:
        """Return blocks and amounts that users hold, all kinds together."""
        rows = np.concatenate([self.problem.rows_of(user) for user in users])
        mine = np.isin(self.user, rows)
        block, place = np.unique(self.block[mine], return_inverse=True)
        amounts = np.zeros((len(block), self.amounts.shape[1]))
        np.add.at(amounts, place, self.amounts[mine])
        return block, amounts

    @cached_property
    def used(self) -> Floats:
        """What is held of each resource on each block."""
        columns = [
            np.bincount(self.block, self.amounts[:, r], len(self.problem.blocks))
            for r in range(self.amounts.shape[1])
        ]
        return np.stack(columns, axis=1)

    @cached_property
    def capacity(self) -> Floats:
        """Capacity of each block, in the cluster's units."""
        blocks = self.problem.blocks
        capacity: Floats = self.problem.cluster.capacity[blocks.group] * blocks.count[:, None]
        return capacity


def best_use(problem: Problem, user: int, block: Ints, amounts: Floats) -> Floats:
    """Return the best tasks of a user, by kind, with amounts.

    Parameters
    ----------
    problem
        Cluster and users.
    user
        Who would have them.
    block, amounts
        Amounts of each resource, and the block of servers that they are on; each entry counts as
        one server.

    Examples
    --------
    >>> from drfh import Cluster, Kind, Server, User
    >>> kinds = [Kind({"cpu": 1, "gpu": 1}), Kind({"cpu": 1}, ratio=2)]
    >>> cluster = Cluster([Server({"cpu": 9, "gpu": 9})])
    >>> problem = Problem.build(cluster, [User("ml", kinds=kinds)])
    >>> best_use(problem, 0, np.array([0]), np.array([[6.0, 4.0]])).tolist()
    [2.0, 4.0]
    """
    rows = problem.rows_of(user)
    some = amounts.any(axis=1)
    if problem.mixes is None or len(rows) == 1 or not some.any():
        bundle = Bundles(problem, np.zeros_like(block), block, amounts)
        worth = [float(bundle.entry_worth(row).sum()) for row in rows.tolist()]
        return np.minimum(worth, problem.limit[rows])
    block, amounts = block[some], amounts[some]
    eligible, restriction = None, None
    if problem.eligible is not None and problem.restriction is not None:
        eligible = problem.eligible[problem.restriction[rows]][:, block]
        restriction = np.arange(len(rows))
    index = np.arange(len(block), dtype=np.int64)
    alone = replace(
        problem,
        cluster=Cluster.from_arrays(amounts, problem.cluster.resources),
        users=tuple(problem.users[row] for row in rows.tolist()),
        demand=problem.demand[rows],
        weight=problem.weight[rows],
        limit=problem.limit[rows],
        blocks=Blocks(index, np.zeros_like(index), np.ones_like(index)),
        eligible=eligible,
        restriction=restriction,
        mixes=None,
    )
    per_mix = 1 / problem.mixes.ratio[rows]
    return lexicographic(alone, PerTask(lambda _: per_mix)).placement.user_tasks
