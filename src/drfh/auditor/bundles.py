"""Bundles: what each user holds where, and its worth to others."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from drfh.allocation.placement import Placement
from drfh.allocation.problem import Bools, Floats, Ints, Problem

__all__ = ["Bundles"]

_ALMOST = 1e-9  # a task that is short by this part is a whole task


@dataclass(frozen=True, eq=False)
class Bundles:
    """Amounts of every resource that users hold on blocks of servers.

    Attributes
    ----------
    problem : Problem
        Whose users and blocks these are.
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
