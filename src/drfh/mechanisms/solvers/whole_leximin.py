"""Leximin of whole tasks by an integer program, for small cases.

Servers of one shape are alike, and what one of them holds is a *pattern*: how many tasks of each
user. So the program counts servers by shape and pattern, and needs no variable for each server.
"""

from __future__ import annotations

from collections.abc import Iterator

import highspy
import numpy as np

from drfh.allocation.problem import Bools, Floats, Ints, Problem
from drfh.errors import InputError, SolverError

__all__ = ["whole_leximin"]

_MOST_WAYS = 20_000
_SLACK = 1e-9  # of a server: what rounding may take away
_SAME = 1e-9  # levels closer than this are equal


def whole_leximin(problem: Problem) -> Ints:
    """Return the tasks of each user in the leximin of whole tasks.

    Parameters
    ----------
    problem
        A few users; few tasks fit on one server.

    Raises
    ------
    InputError
        If there are more than 20,000 ways to fill the servers.

    Examples
    --------
    >>> from drfh import Cluster, Server, User
    >>> cluster = Cluster([Server({"cpu": 5}), Server({"cpu": 3})])
    >>> users = [User("a", {"cpu": 2}), User("b", {"cpu": 3})]
    >>> whole_leximin(Problem.build(cluster, users)).tolist()
    [2, 1]
    """
    blocks = problem.blocks
    capacity = problem.cluster.capacity[blocks.group]
    users = len(problem.users)
    ways = 0
    patterns: list[Ints] = []
    for block in range(len(blocks)):
        may = problem.can_use(np.arange(users), np.full(users, block))
        found = []
        for pattern, last in _fillings(problem.demand, capacity[block] * (1 + _SLACK), may):
            ways += 1
            if ways > _MOST_WAYS:
                rule = f"must have at most {_MOST_WAYS:,} ways to fill the servers"
                raise InputError("problem", rule)
            if last:
                found.append(pattern)
        patterns.append(np.array(found, dtype=np.int64))
    step = problem.task_share / problem.weight
    model = _IntegerModel(patterns, blocks.count, step, problem.limit)
    for rank in range(users):
        model.raise_level(rank)
    return model.tasks()


def _fillings(
    demand: Floats, available: Floats, may: Bools
) -> Iterator[tuple[tuple[int, ...], bool]]:
    """Give out every pattern of one server, and whether no task can be added to it."""

    def fill(
        user: int, free: Floats, so_far: tuple[int, ...]
    ) -> Iterator[tuple[tuple[int, ...], bool]]:
        if user == len(demand):
            yield so_far, not (may & (demand <= free).all(axis=1)).any()
            return
        number = 0
        while (free >= 0).all():
            yield from fill(user + 1, free, (*so_far, number))
            if not may[user]:
                return
            free = free - demand[user]
            number += 1

    yield from fill(0, available, ())


class _IntegerModel:
    """Counts of patterns; tasks of users follow. Levels are raised one rank after the other."""

    def __init__(self, patterns: list[Ints], count: Ints, step: Floats, limit: Floats) -> None:
        self._step = step
        model = self._highs = highspy.Highs()
        model.silent()
        model.setOptionValue("mip_rel_gap", 0.0)
        model.setOptionValue("mip_abs_gap", 0.0)
        model.setOptionValue("mip_feasibility_tolerance", 1e-9)
        users = len(step)
        use = [
            [model.addIntegral(0, int(number)) for _ in table]
            for table, number in zip(patterns, count.tolist(), strict=True)
        ]
        for columns, number in zip(use, count.tolist(), strict=True):
            model.addConstr(model.qsum(columns) <= number)
        most = sum(
            table.max(axis=0) * number for table, number in zip(patterns, count, strict=True)
        )
        # At most what the patterns allow: a user may have fewer tasks than that.
        self._tasks = [
            model.addIntegral(0, float(min(most[user], limit[user]))) for user in range(users)
        ]
        for user in range(users):
            available = model.qsum(
                int(table[p, user]) * columns[p]
                for table, columns in zip(patterns, use, strict=True)
                for p in range(len(table))
                if table[p, user]
            )
            model.addConstr(self._tasks[user] <= available)
        self._most = float((np.asarray(most) * step).max(initial=0.0)) or 1.0

    def raise_level(self, rank: int) -> None:
        """Maximise the level that all but `rank` users reach, and keep it."""
        model, users = self._highs, len(self._step)
        level = model.addVariable(0, self._most)
        counts = [model.addBinary() for _ in range(users)]
        for user, counted in enumerate(counts):
            have = float(self._step[user]) * self._tasks[user]
            model.addConstr(have - level - self._most * counted >= -self._most)
        model.addConstr(model.qsum(counts) >= users - rank)
        model.maximize(level)
        if model.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            status = model.modelStatusToString(model.getModelStatus())
            raise SolverError(f"HiGHS found no best whole tasks (status {status})")
        model.changeColBounds(level.index, model.val(level) * (1 - _SAME), self._most)

    def tasks(self) -> Ints:
        """Return the tasks of the last solution."""
        return np.array([round(self._highs.val(one)) for one in self._tasks], dtype=np.int64)
