"""Presolve: proportional servers and proportional users joined into classes.

In the divisible model a server twice as large is two servers, so servers with proportional
capacities (and the same users allowed) act as one. Users with proportional demands (and the same
restriction) act as one user with the sum of their shares.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from drfh.allocation.placement import Placement, Pools
from drfh.allocation.problem import Bools, Floats, Ints, Problem

__all__ = ["Classes", "tasks_alone"]


# Two numbers that agree in this many binary digits are the same number, computed in two ways.
_DIGITS = 44


def _same_rows(*columns: NDArray[np.generic]) -> tuple[Ints, Ints]:
    """Return (first row of each class, class of each row); classes in order of first rows."""
    raw = [np.ascontiguousarray(c).view(np.uint8).reshape(len(c), -1) for c in columns]
    table = np.ascontiguousarray(np.concatenate(raw, axis=1))
    keys = table.view(np.dtype((np.void, table.shape[1]))).ravel()
    _, first, member = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.argsort(first)
    position = np.empty_like(rank)
    position[rank] = np.arange(len(rank))
    return first[rank], position[member]


def _rounded(direction: Floats) -> Floats:
    mantissa, exponent = np.frexp(direction)
    rounded: Floats = np.ldexp(np.rint(np.ldexp(mantissa, _DIGITS)), exponent - _DIGITS) + 0.0
    return rounded


@dataclass(frozen=True, eq=False)
class Classes:
    """The problem with alike servers and alike users joined.

    Attributes
    ----------
    user_class, server_class : int arrays
        Class of each user and of each block.
    direction, capacity : arrays
        Rows of the classes: direction of users, sum of capacities of servers.
    usable : bool array, user classes × server classes
    """

    problem: Problem
    user_class: Ints
    server_class: Ints
    direction: Floats
    capacity: Floats
    usable: Bools
    pools: Pools

    @classmethod
    def of(cls, problem: Problem) -> Classes:
        """Join what is alike, looking only at resources that somebody demands."""
        needed = problem.demand.any(axis=0)
        capacity = problem.capacity * needed
        largest = capacity.max(axis=1, keepdims=True)
        shape = _rounded(capacity / np.where(largest > 0, largest, 1.0))
        if problem.eligible is None or problem.restriction is None:
            first_server, server_class = _same_rows(shape)
            first_user, user_class = _same_rows(_rounded(problem.direction))
        else:
            first_server, server_class = _same_rows(shape, np.packbits(problem.eligible.T, axis=1))
            first_user, user_class = _same_rows(_rounded(problem.direction), problem.restriction)
        joined = np.zeros((len(first_server), capacity.shape[1]))
        np.add.at(joined, server_class, capacity)
        with np.errstate(divide="ignore", invalid="ignore"):
            part = capacity / joined[server_class]
        part = np.nanmin(np.where(capacity > 0, part, np.nan), axis=1, initial=1.0)
        part[largest[:, 0] <= 0] = 0.0
        usable = problem.usable_on(first_server)
        return cls(
            problem,
            user_class,
            server_class,
            problem.direction[first_user][:, needed],
            joined[:, needed],
            np.ones((len(first_user), len(first_server)), dtype=bool)
            if usable is None
            else usable[first_user],
            Pools(server_class, part),
        )

    @cached_property
    def needed(self) -> Ints:
        """Resources that somebody demands."""
        return np.flatnonzero(self.problem.demand.any(axis=0))

    def sum_users(self, values: Floats) -> Floats:
        """Return the sum of a value over the users of each class."""
        total: Floats = np.bincount(self.user_class, values, len(self.direction)).astype(float)
        return total

    def full_prices(self, table: Floats) -> Floats:
        """Return prices with a column for every resource of the cluster."""
        full = np.zeros((len(table), self.problem.demand.shape[1]))
        full[:, self.needed] = table
        return full

    def place(self, share: Floats, user: Ints, server: Ints, amount: Floats) -> Placement:
        """Share out what a class was given among its users.

        Parameters
        ----------
        share
            What each user should have; never exceeded.
        user, server, amount
            Entries by class: share of a user class on a server class.
        """
        required = self.sum_users(share)
        given = np.bincount(user, amount, minlength=len(required))
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(given > 0, np.minimum(1.0, required / given), 0.0)
            own = np.where(required[self.user_class] > 0, share / required[self.user_class], 0.0)
        amount = amount * factor[user]
        order = np.argsort(self.user_class, kind="stable")  # users, class by class
        size = np.bincount(self.user_class, minlength=len(required))
        start = np.concatenate(([0], np.cumsum(size)[:-1]))
        repeat = size[user]
        entry = np.repeat(np.arange(len(user)), repeat)
        offset = np.arange(len(entry)) - np.repeat(np.cumsum(repeat) - repeat, repeat)
        member = order[start[user[entry]] + offset]
        tasks = amount[entry] * own[member] / self.problem.task_share[member]
        return Placement.fitted(self.problem, member, server[entry], tasks, self.pools)


_CHUNK = 4_000_000  # numbers in one temporary array


def tasks_alone(problem: Problem) -> Floats:
    """Return the tasks of each user alone, without its limit.

    Examples
    --------
    >>> from drfh import Cluster, Server, User
    >>> cluster = Cluster([Server({"cpu": 6, "memory": 1}), Server({"cpu": 1, "memory": 6})])
    >>> tasks_alone(Problem.build(cluster, [User("a", {"cpu": 1, "memory": 1})]))
    array([2.])
    """
    classes = Classes.of(problem)
    d, c = classes.direction, classes.capacity
    share = np.empty(len(d))
    step = max(1, _CHUNK // c.size)
    for start in range(0, len(d), step):
        rows = slice(start, start + step)
        alone = np.full((len(d[rows]), len(c)), math.inf)
        for r in range(d.shape[1]):
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = c[:, r] / d[rows, r][:, None]
            np.minimum(alone, np.where(d[rows, r][:, None] > 0, ratio, math.inf), out=alone)
        alone[~classes.usable[rows]] = 0.0
        share[rows] = alone.sum(axis=1)
    tasks: Floats = share[classes.user_class] / problem.task_share
    return tasks
