"""Progressive filling of whole tasks with Best-Fit, from the empty cluster.

Wang, Li, Liang (INFOCOM 2014), section V: the user with the lowest global dominant share goes
next, on the server whose free resources look most like its task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from drfh.allocation.placement import Placement, Pools, Solution
from drfh.allocation.problem import Blocks, Bools, Floats, Ints, Problem
from drfh.errors import InputError
from drfh.kernels import fast
from drfh.kernels.choices import CHOICES, fill_by_choice
from drfh.kernels.fill import fill_best_fit
from drfh.model.resources import integer_unit

__all__ = [
    "WholeTasks",
    "fill_whole_tasks",
    "filling_order",
    "fits_some_server",
    "progressive_filling",
    "single_servers",
]

_ENDLESS = 2**62
_MOST_TASKS = 200_000_000
_WORTH_AN_INDEX = 2e7  # steps of a scan: some tens of milliseconds in machine code
_ROOM = 1 << 16  # tasks between two reports of progress


def _in_units(problem: Problem) -> tuple[Ints, Ints, Floats]:
    """Return demand and capacity of single servers of each block in integers, and totals."""
    capacity = problem.cluster.capacity[problem.blocks.group]
    columns = [
        integer_unit(
            np.concatenate((capacity[:, r], problem.demand[:, r])),
            float(problem.cluster.totals[r]),
        )
        for r in range(capacity.shape[1])
    ]
    unit = np.array(columns)
    need = np.rint(problem.demand / unit).astype(np.int64)
    lost = np.argwhere((need == 0) & (problem.demand > 0))
    if len(lost):
        user, resource = lost[0].tolist()
        raise InputError(
            f"demand.{problem.cluster.resources[resource]} of {problem.users[user].name}",
            "must be at least about 1e-13 of the pool when tasks are whole",
            float(problem.demand[user, resource]),
        )
    free = np.rint(capacity / unit).astype(np.int64)
    total = (free * problem.blocks.count[:, None]).sum(axis=0).astype(np.float64)
    return need, free, total


def _allowed(problem: Problem) -> Bools:
    usable = problem.usable_on(np.arange(len(problem.blocks)))
    if usable is None:
        return np.ones((len(problem.users), len(problem.blocks)), dtype=bool)
    return usable


def fits_some_server(problem: Problem) -> Bools:
    """Return whether a task of each user fits on some empty server."""
    need, free, _ = _in_units(problem)
    allowed = _allowed(problem)
    fits = np.zeros(len(need), dtype=bool)
    for user in range(len(need)):
        fits[user] = ((free >= need[user]).all(axis=1) & allowed[user]).any()
    return fits


def fill_whole_tasks(
    problem: Problem,
    *,
    reference: str | None = None,
    ahead: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Placement:
    """Return the placement that progressive filling with Best-Fit ends with.

    Parameters
    ----------
    problem
        Cluster and users.
    reference
        Resource that H divides by: ``cpu`` if there is one, else the first, by default. A task
        that does not need it uses the first resource that it does need.
    ahead
        Whether the turn goes by the level that a user would have with one task more.
    progress
        Called with the number of tasks placed so far.
    """
    pieces = filling_order(problem, reference=reference, ahead=ahead)
    return placement_of(problem, pieces, progress)


def placement_of(
    problem: Problem,
    pieces: Iterable[tuple[Ints, Ints]],
    progress: Callable[[int], None] | None = None,
) -> Placement:
    """Return where tasks are, from their users (or kinds) and servers, in pieces."""
    n = len(problem.users)
    counts: dict[int, int] = {}
    done = 0
    for user, server in pieces:
        done += len(user)
        keys, times = np.unique(server * n + user, return_counts=True)
        for key, number in zip(keys.tolist(), times.tolist(), strict=True):
            counts[key] = counts.get(key, 0) + number
        if progress is not None:
            progress(done)
    single = single_servers(problem)
    keys = np.fromiter(counts.keys(), np.int64, count=len(counts))
    tasks = np.fromiter(counts.values(), np.float64, count=len(counts))
    order = np.argsort(keys)
    pool, who = keys[order] // n, keys[order] % n
    return Placement(single, who, pool, tasks[order], Pools.single(len(single.blocks)))


def filling_order(
    problem: Problem,
    *,
    reference: str | None = None,
    first_fit: bool = False,
    ahead: bool = False,
) -> Iterator[tuple[Ints, Ints]]:
    """Yield users and servers of tasks in order of placement, in pieces.

    Parameters
    ----------
    problem, reference, ahead
        As for :func:`fill_whole_tasks`.
    first_fit
        Whether the first server that fits is taken, by an index; for users of one kind.

    Yields
    ------
    tuple of int arrays
        A piece is good until the next one.
    """
    chosen = reference_position(problem, reference)
    need, free, total = _in_units(problem)
    m = need.shape[1]
    share = need / np.where(total > 0, total, 1.0)
    left = _most_tasks(problem)
    _check_size(problem, share, left)
    if problem.mixes is not None:
        yield from WholeTasks.of(problem).filled("best-fit", chosen)
        return
    # A scan looks at all users and at no more servers than are in use.
    tasks = min(1 / float(share.max(axis=1).min()), float(left.astype(np.float64).sum()))
    steps = tasks * m * (len(need) + len(problem.blocks))
    if first_fit or steps > _WORTH_AN_INDEX:
        yield from _with_index(problem, need, free, left, chosen, first_fit=first_fit, ahead=ahead)
    else:
        yield from _by_scan(problem, need, free, total, left, chosen, ahead=ahead, steps=steps)


def reference_position(problem: Problem, reference: str | None) -> int:
    """Return the position of the resource that Best-Fit divides by."""
    names = problem.cluster.resources
    if reference is not None and reference not in names:
        raise InputError("reference", f"must be one of {', '.join(names)}", reference)
    return names.index(reference or ("cpu" if "cpu" in names else names[0]))


def _most_tasks(problem: Problem) -> Ints:
    left = np.where(np.isinf(problem.limit), _ENDLESS, np.floor(problem.limit + 1e-9))
    most: Ints = np.minimum(left, _ENDLESS).astype(np.int64)
    return most


@dataclass(frozen=True, eq=False)
class WholeTasks:
    """Servers and tasks in integer units, with a row for each kind of tasks.

    Attributes
    ----------
    need, share : array
        What a task of each row needs, in units and in shares of the pool.
    capacity : int array
        Servers × resources.
    total : array
        Of each resource, in units.
    limit : int array
        Tasks of each row.
    allowed, block : array
        Rows × blocks: where a row may run; the block of each server.
    first : int array
        The first row of each user, and the number of rows.
    ratio, weight : array
        Tasks of each row in a mix of its user; weight of each user.
    """

    need: Ints
    share: Floats
    capacity: Ints
    total: Floats
    limit: Ints
    allowed: Bools
    block: Ints
    first: Ints
    ratio: Floats
    weight: Floats

    @classmethod
    def of(cls, problem: Problem) -> WholeTasks:
        """Return the arrays of a problem."""
        need, free, total = _in_units(problem)
        share = need / np.where(total > 0, total, 1.0)
        limit = _most_tasks(problem)
        _check_size(problem, share, limit)
        count, mixes = problem.blocks.count, problem.mixes
        owner = np.arange(len(need)) if mixes is None else mixes.owner
        users = int(owner[-1]) + 1
        return cls(
            need,
            share,
            np.repeat(free, count, axis=0),
            total,
            limit,
            _allowed(problem),
            np.repeat(np.arange(len(count)), count),
            np.searchsorted(owner, np.arange(users + 1)).astype(np.int64),
            np.ones(len(need)) if mixes is None else mixes.ratio,
            problem.weight if mixes is None else mixes.weight,
        )

    @property
    def steps(self) -> float:
        """About how many steps it takes to fill the empty cluster."""
        dominant = self.share.max(axis=1)
        most = float(self.limit.astype(np.float64).sum())
        tasks = min(self.share.shape[1] / float(dominant.min()), most)
        return float(tasks * (len(self.need) + len(self.capacity) * self.need.shape[1]))

    def filled(self, choice: str, reference: int, seed: int = 0) -> Iterator[tuple[Ints, Ints]]:
        """Yield rows and servers of tasks in order of placement, from the empty cluster.

        Parameters
        ----------
        choice
            Which server: one of the choices of :mod:`drfh.policies`.
        reference
            Position of the resource that Best-Fit divides by.
        seed
            Of ``random``.
        """
        rows, users = len(self.need), len(self.weight)
        yield from self.refilled(
            choice,
            reference,
            np.arange(len(self.capacity)),
            self.capacity.copy(),
            self.limit.copy(),
            np.zeros(rows, dtype=np.int64),
            np.zeros(users),
            self.first,
            self.ratio,
            self.weight,
            seed,
            steps=self.steps,
        )

    def refilled(
        self,
        choice: str,
        reference: int,
        servers: Ints,
        free: Ints,
        left: Ints,
        running: Ints,
        level: Floats,
        first: Ints,
        ratio: Floats,
        weight: Floats,
        seed: int,
        *,
        steps: float,
    ) -> Iterator[tuple[Ints, Ints]]:
        """Yield what is placed on some servers; see :func:`~drfh.kernels.choices.fill_by_choice`.

        `free`, `left`, `running` and `level` are changed.
        """
        fallback = np.argmax(self.need > 0, axis=1)
        ref = np.where(self.need[:, reference] > 0, reference, fallback).astype(np.int64)
        row, server = np.empty(_ROOM, dtype=np.int64), np.empty(_ROOM, dtype=np.int64)
        kernel = fast(fill_by_choice, steps=steps)
        written = _ROOM
        state = np.array([1 + seed % 2147483646])
        while written == _ROOM:
            written = kernel(
                self.need, self.share, ref, first, ratio, weight, left, running, level,
                self.allowed, self.block, self.capacity, free, self.total, servers,
                CHOICES.index(choice), state, row, server,
            )  # fmt: skip
            yield row[:written], server[:written]


def _with_index(
    problem: Problem,
    need: Ints,
    free: Ints,
    left: Ints,
    reference: int,
    *,
    first_fit: bool,
    ahead: bool,
) -> Iterator[tuple[Ints, Ints]]:
    from drfh.scheduler.indexed import fill_indexed  # loads numba

    count = problem.blocks.count
    usable = problem.usable_on(np.arange(len(problem.blocks)))
    rows, which = np.ones((1, len(count)), dtype=bool), np.zeros(len(need), dtype=np.int64)
    if usable is not None:
        rows, which = np.unique(usable, axis=0, return_inverse=True)
    yield from fill_indexed(
        need,
        np.repeat(free, count, axis=0),
        np.repeat(rows, count, axis=1),
        which.reshape(-1),
        problem.weight.tolist(),
        left,
        reference=reference,
        first_fit=first_fit,
        ahead=ahead,
    )


def _by_scan(
    problem: Problem,
    need: Ints,
    free: Ints,
    total: Floats,
    left: Ints,
    reference: int,
    *,
    ahead: bool,
    steps: float,
) -> Iterator[tuple[Ints, Ints]]:
    share = need / np.where(total > 0, total, 1.0)
    ref = np.where(need[:, reference] > 0, reference, np.argmax(need > 0, axis=1)).astype(np.int64)
    ratio = share / share[np.arange(len(need)), ref][:, None]
    blocks = problem.blocks
    size = int(blocks.count.sum())
    first = np.concatenate(([0], np.cumsum(blocks.count)[:-1])).astype(np.int64)
    user, server = np.empty(_ROOM, dtype=np.int64), np.empty(_ROOM, dtype=np.int64)
    # Who counts a task ahead is as if it had one from the start: the kernel goes on from there.
    running = np.full(len(need), 1 if ahead else 0, dtype=np.int64)
    level = running * share.max(axis=1) / problem.weight
    state = [
        need, ratio, ref, problem.weight, left, level, running, _allowed(problem), total,
        np.repeat(free, blocks.count, axis=0), first, blocks.count,
        np.zeros(len(first), dtype=np.int64), np.empty(size + 1, dtype=np.int64),
        np.empty(size + 1, dtype=np.int64), np.zeros(1, dtype=np.int64), user, server,
    ]  # fmt: skip
    kernel = fast(fill_best_fit, steps=steps)
    written = _ROOM
    while written == _ROOM:
        written = kernel(*state)
        yield user[:written], server[:written]


def progressive_filling(problem: Problem, *, reference: str | None = None) -> Solution:
    """Fill with whole tasks, the lowest level first, as a mechanism.

    Examples
    --------
    >>> from drfh import Cluster, Server, User
    >>> users = [User("a", {"cpu": 1}), User("b", {"cpu": 4})]
    >>> problem = Problem.build(Cluster([Server({"cpu": 6})]), users)
    >>> progressive_filling(problem).placement.user_tasks
    array([2., 1.])
    """
    placement = fill_whole_tasks(problem, reference=reference)
    return Solution(placement, method="best-fit filling", whole=True)


def _check_size(problem: Problem, share: Floats, left: Ints) -> None:
    dominant = share.max(axis=1)
    # Dominant shares add up to at most one for each resource.
    most = min(
        float(np.minimum(1 / dominant, left.astype(np.float64)).sum()),
        share.shape[1] / float(dominant.min()),
    )
    if most > _MOST_TASKS:
        smallest = problem.users[int(np.argmin(dominant))].name
        raise InputError(
            f"tasks of {smallest}",
            f"must not be so small that more than {_MOST_TASKS:,} whole tasks may be placed "
            "(leave out whole_tasks for the divisible answer)",
        )


def single_servers(problem: Problem) -> Problem:
    """Return the same problem with every server a block of its own."""
    blocks = problem.blocks
    row = np.repeat(np.arange(len(blocks)), blocks.count)
    start = np.concatenate(([0], np.cumsum(blocks.count)[:-1]))
    inside = np.arange(len(row)) - start[row] + blocks.first[row]
    split = Blocks(blocks.group[row], inside, np.ones(len(row), dtype=np.int64))
    eligible = None if problem.eligible is None else problem.eligible[:, row]
    return replace(problem, blocks=split, eligible=eligible)
