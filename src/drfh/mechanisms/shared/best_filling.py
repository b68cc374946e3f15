"""The best whole tasks found: all shipped choices of a server, then a local search.

Better is leximin: the lowest level first, then the next. Where users have several kinds of tasks,
the level at which each kind stopped counts, as in the rounds of DRFH.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from drfh.allocation.placement import Placement
from drfh.allocation.problem import Floats, Ints, Problem
from drfh.kernels.choices import CHOICES
from drfh.mechanisms.shared.progressive_filling import (
    WholeTasks,
    filling_order,
    placement_of,
    reference_position,
)

__all__ = ["BestFilling", "best_filling", "kind_levels"]

_MOST_STEPS = 1e9  # of a choice that looks at all servers for each task: a second or two
_MOST_RUINED, _MOST_OTHERS = 6, 4
_STALLS_EACH, _FEWEST_STALLS, _MOST_STALLS = 40, 300, 5000


@dataclass(frozen=True)
class BestFilling:
    """The best of several fillings.

    Attributes
    ----------
    placement : Placement
        Where tasks run.
    found_by : str
        The choice of servers, or the search, that found it.
    complete : bool
        Whether the search ended by itself, not by its time.
    left_out : tuple of str
        Choices that were not tried, as the cluster is too large for them.
    """

    placement: Placement
    found_by: str
    complete: bool
    left_out: tuple[str, ...]


def best_filling(
    problem: Problem,
    *,
    reference: str | None = None,
    seconds: float = 2.0,
    seed: int = 0,
    enough: Floats | None = None,
    progress: Callable[[str], None] | None = None,
) -> BestFilling:
    """Return the leximin best of the shipped choices and of a local search.

    Parameters
    ----------
    problem
        Cluster and users.
    reference
        Resource that Best-Fit divides by, of the paper's filling; the others are tried too.
    seconds
        For the search. The choices take as long as they take.
    seed
        Of its draws, and of the choice ``random``.
    enough
        Tasks of each row that nothing can better: the divisible ones.
    progress
        Called with what is done next.

    Examples
    --------
    >>> from drfh import Cluster, Server, User
    >>> users = [User("a", {"cpu": 1}), User("b", {"cpu": 4})]
    >>> best = best_filling(Problem.build(Cluster([Server({"cpu": 6})]), users))
    >>> best.placement.user_tasks, best.found_by
    (array([2., 1.]), 'best-fit filling')
    """
    arrays = WholeTasks.of(problem)
    counted = _counted(arrays)
    best: tuple[Ints, Ints] | None = None
    tasks = np.zeros(len(arrays.need), dtype=np.int64)
    found_by, left_out = "", []
    for name, pieces in _fillings(problem, arrays, reference, seed):
        if pieces is None:
            left_out.append(name)
            continue
        if progress is not None:
            progress(name)
        # A piece is good until the next one.
        kept = [(rows.copy(), servers.copy()) for rows, servers in pieces]
        rows, servers = (np.concatenate(column) for column in zip(*kept, strict=True))
        found = np.bincount(rows, minlength=len(tasks))
        if best is None or _better(arrays, found, tasks, counted):
            best, tasks, found_by = (rows, servers), found, f"{name} filling"
    assert best is not None
    complete = True
    if len(counted) and not _reached(tasks, enough):
        if progress is not None:
            progress("local search")
        search = _LocalSearch(arrays, *best, counted, seed, reference_position(problem, reference))
        complete = search.run(time.monotonic() + seconds, enough)
        if search.improved:
            best, found_by = search.placed(), f"local search after {found_by}"
    return BestFilling(placement_of(problem, [best]), found_by, complete, tuple(left_out))


def _fillings(
    problem: Problem, arrays: WholeTasks, reference: str | None, seed: int
) -> Iterator[tuple[str, Iterator[tuple[Ints, Ints]] | None]]:
    """Yield the name of each choice and its filling, or None for one that would take too long."""
    names = problem.cluster.resources
    first = reference_position(problem, reference)
    yield "best-fit", filling_order(problem, reference=reference)
    quick = arrays.steps <= _MOST_STEPS
    others = [(f"best-fit:{name}", "best-fit", r) for r, name in enumerate(names) if r != first]
    others += [(name, name, first) for name in CHOICES if name != "best-fit"]
    for name, choice, position in others:
        if quick:
            yield name, arrays.filled(choice, position, seed)
        elif problem.mixes is None and choice in ("best-fit", "first-fit"):  # they have an index
            by = names[position]
            yield name, filling_order(problem, reference=by, first_fit=choice == "first-fit")
        else:
            yield name, None


def _counted(arrays: WholeTasks) -> Ints:
    """Return the rows that can have a task at all."""
    rows = [
        row for row in range(len(arrays.need)) if arrays.limit[row] > 0 and len(_hosts(arrays, row))
    ]
    return np.array(rows, dtype=np.int64)


def _hosts(arrays: WholeTasks, row: int) -> Ints:
    """Return the servers that could hold a task of a row if they were empty."""
    fits = (arrays.capacity >= arrays.need[row]).all(axis=1)
    return np.flatnonzero(fits & arrays.allowed[row, arrays.block])


def kind_levels(arrays: WholeTasks, tasks: Ints, counted: Ints) -> Floats:
    """Return the level at which each row stopped, sorted; of users of one kind their level.

    The kinds of a user rise together, in their ratio, until one stops; the others rise on.

    Parameters
    ----------
    arrays
        Who asks for what.
    tasks
        Tasks of each row.
    counted
        The rows that can have a task at all: the others take no part.
    """
    levels = tasks * arrays.share.max(axis=1)
    owner = np.repeat(np.arange(len(arrays.weight)), np.diff(arrays.first))
    levels /= arrays.weight[owner]
    for user in np.flatnonzero(np.diff(arrays.first) > 1).tolist():
        rows = counted[(arrays.first[user] <= counted) & (counted < arrays.first[user + 1])]
        mixes = tasks[rows] / arrays.ratio[rows]
        order = np.argsort(mixes, kind="stable")
        level = before = 0.0
        for position, kind in enumerate(order.tolist()):
            rising = rows[order[position:]]
            share = float((arrays.ratio[rising, None] * arrays.share[rising]).sum(axis=0).max())
            level += (mixes[kind] - before) * share / float(arrays.weight[user])
            before = mixes[kind]
            levels[rows[kind]] = level
    result: Floats = np.sort(levels[counted])
    return result


def _better(arrays: WholeTasks, tasks: Ints, than: Ints, counted: Ints) -> bool:
    return _compare(kind_levels(arrays, tasks, counted), kind_levels(arrays, than, counted)) > 0


def _compare(levels: Floats, others: Floats) -> float:
    """Return a number above 0 if the first sorted levels are leximin better, below 0 if worse."""
    different = np.flatnonzero(levels != others)
    return float(levels[different[0]] - others[different[0]]) if len(different) else 0.0


def _reached(tasks: Ints, enough: Floats | None) -> bool:
    return enough is not None and bool((tasks >= enough * (1 - 1e-9)).all())


class _LocalSearch:
    """Empties a few servers and fills them again, as long as that makes nothing worse."""

    def __init__(
        self,
        arrays: WholeTasks,
        rows: Ints,
        servers: Ints,
        counted: Ints,
        seed: int,
        reference: int,
    ) -> None:
        self.arrays = arrays
        self.improved = False
        self._counted = counted
        self._reference = reference
        self._random = np.random.default_rng(seed)
        self._hosts: dict[int, Ints] = {}
        self._on: list[dict[int, int]] = [{} for _ in arrays.capacity]
        for row, server in zip(rows.tolist(), servers.tolist(), strict=True):
            self._on[server][row] = self._on[server].get(row, 0) + 1
        self._tasks = np.bincount(rows, minlength=len(arrays.need))
        self._free = arrays.capacity.copy()
        np.subtract.at(self._free, servers, arrays.need[rows])
        self._levels = kind_levels(arrays, self._tasks, counted)
        # A row as a user of its own, at about the level that its user has.
        self._first = np.arange(len(arrays.need) + 1)
        self._ratio = np.ones(len(arrays.need))
        self._weight = self._row_weights()

    def _row_weights(self) -> Floats:
        arrays, weight = self.arrays, np.ones(len(self.arrays.need))
        for user in range(len(arrays.weight)):
            rows = slice(arrays.first[user], arrays.first[user + 1])
            share, ratio = arrays.share[rows], arrays.ratio[rows]
            mix = float((ratio[:, None] * share).sum(axis=0).max())
            weight[rows] = arrays.weight[user] * ratio * share.max(axis=1) / mix
        return weight

    def run(self, deadline: float, enough: Floats | None) -> bool:
        """Search until nothing better is found for long; return False if time ended it."""
        size = len(self.arrays.need) + len(self.arrays.capacity)
        stalls = min(max(_STALLS_EACH * size, _FEWEST_STALLS), _MOST_STALLS)
        stalled = 0
        while stalled < stalls and not _reached(self._tasks, enough):
            if time.monotonic() >= deadline:
                return False
            target = self._target()
            if target is None:
                break
            stalled = 0 if self._step(target) else stalled + 1
        return True

    def placed(self) -> tuple[Ints, Ints]:
        """Return rows and servers of all tasks."""
        tasks = [
            (row, server)
            for server, on in enumerate(self._on)
            for row, number in sorted(on.items())
            for _ in range(number)
        ]
        table = np.array(tasks, dtype=np.int64).reshape(-1, 2)
        return table[:, 0], table[:, 1]

    def _target(self) -> int | None:
        """Return a row that could have more, more often one of the lowest."""
        rows = self._counted[self._tasks[self._counted] < self.arrays.limit[self._counted]]
        if not len(rows):
            return None
        level = self._tasks[rows] * self.arrays.share[rows].max(axis=1) / self._weight[rows]
        order = rows[np.argsort(level, kind="stable")]
        return int(order[min(int(self._random.geometric(0.4)) - 1, len(order) - 1)])

    def _step(self, target: int) -> bool:
        """Fill a few servers again; return whether that was better."""
        random, arrays = self._random, self.arrays
        if target not in self._hosts:
            self._hosts[target] = _hosts(arrays, target)
        hosts = self._hosts[target]
        number = int(random.integers(1, min(_MOST_RUINED, len(hosts)) + 1))
        ruined = random.choice(hosts, number, replace=False)
        others = random.integers(0, len(arrays.capacity), int(random.integers(0, _MOST_OTHERS + 1)))
        servers = random.permutation(np.union1d(ruined, others))
        before = self._free[servers]
        tasks = self._tasks.copy()
        for server in ruined.tolist():
            for row, count in self._on[server].items():
                tasks[row] -= count
            self._free[server] = arrays.capacity[server]
        rows, where = self._refill(servers, tasks)
        tasks = tasks + np.bincount(rows, minlength=len(tasks))
        levels = kind_levels(arrays, tasks, self._counted)
        gain = _compare(levels, self._levels)
        if gain < 0:
            self._free[servers] = before
            return False
        for server in ruined.tolist():
            self._on[server] = {}
        for row, server in zip(rows.tolist(), where.tolist(), strict=True):
            self._on[server][row] = self._on[server].get(row, 0) + 1
        self._tasks, self._levels = tasks, levels
        self.improved |= gain > 0
        return gain > 0

    def _refill(self, servers: Ints, tasks: Ints) -> tuple[Ints, Ints]:
        random, arrays = self._random, self.arrays
        # Turns go by the level that a row would have with so many tasks more.
        ahead = random.integers(0, int(random.integers(1, 4)), len(tasks))
        choice = CHOICES[int(random.integers(0, len(CHOICES)))]
        seed = int(random.integers(0, 2**31))
        running = tasks + ahead
        level = running * arrays.share.max(axis=1) / self._weight
        need = arrays.need[:, None] <= self._free[servers]
        may = need.all(axis=2) & arrays.allowed[:, arrays.block[servers]]
        left = np.where(may.any(axis=1), arrays.limit - tasks, 0)
        pieces = arrays.refilled(
            choice, self._reference, servers, self._free, left, running, level,
            self._first, self._ratio, self._weight, seed,
            steps=float(len(servers) * len(arrays.need) * 4),
        )  # fmt: skip
        kept = [(rows.copy(), where.copy()) for rows, where in pieces]
        rows, where = (np.concatenate(column) for column in zip(*kept, strict=True))
        return rows, where
