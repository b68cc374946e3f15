"""Progressive filling of whole tasks with Best-Fit, from the empty cluster.

Wang, Li, Liang (INFOCOM 2014), section V: the user with the lowest global dominant share goes
next, on the server whose free resources look most like its task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from drfh.allocation.mixes import Mixes
from drfh.allocation.placement import Placement, Pools, Solution
from drfh.allocation.problem import Blocks, Bools, Floats, Ints, Problem
from drfh.errors import InputError
from drfh.kernels import fast
from drfh.kernels.fill import fill_best_fit
from drfh.model.resources import integer_unit

__all__ = [
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
    n = len(problem.users)
    counts: dict[int, int] = {}
    done = 0
    for user, server in filling_order(problem, reference=reference, ahead=ahead):
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
    problem: Problem, *, reference: str | None = None, ahead: bool = False
) -> Iterator[tuple[Ints, Ints]]:
    """Yield users and servers of tasks in order of placement, in pieces.

    The parameters are those of :func:`fill_whole_tasks`; a piece is good until the next one.
    """
    names = problem.cluster.resources
    if reference is not None and reference not in names:
        raise InputError("reference", f"must be one of {', '.join(names)}", reference)
    chosen = names.index(reference or ("cpu" if "cpu" in names else names[0]))
    need, free, total = _in_units(problem)
    m = need.shape[1]
    share = need / np.where(total > 0, total, 1.0)
    left = np.where(np.isinf(problem.limit), _ENDLESS, np.floor(problem.limit + 1e-9))
    left = np.minimum(left, _ENDLESS).astype(np.int64)
    _check_size(problem, share, left)
    if problem.mixes is not None:
        yield from _in_mixes(problem, problem.mixes, need, free, total, left, chosen)
        return
    # A scan looks at all users and at no more servers than are in use.
    tasks = min(1 / float(share.max(axis=1).min()), float(left.astype(np.float64).sum()))
    steps = tasks * m * (len(need) + len(problem.blocks))
    if steps > _WORTH_AN_INDEX:
        yield from _with_index(problem, need, free, left, chosen, ahead=ahead)
    else:
        yield from _by_scan(problem, need, free, total, left, chosen, ahead=ahead, steps=steps)


def _with_index(
    problem: Problem, need: Ints, free: Ints, left: Ints, reference: int, *, ahead: bool
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


def _in_mixes(
    problem: Problem,
    mixes: Mixes,
    need: Ints,
    free: Ints,
    total: Floats,
    left: Ints,
    reference: int,
) -> Iterator[tuple[Ints, Ints]]:
    """Yield kinds and servers of tasks in order of placement, where users have several kinds.

    Whose turn: the lowest level, ties to the first. A task adds the share of a mix of the kinds
    left, divided by its weight and by the tasks of a mix. Which kind: the one with the fewest
    tasks for its ratio, ties to the first. Which server: as for users of one kind.
    """
    share = need / np.where(total > 0, total, 1.0)
    ref = np.where(need[:, reference] > 0, reference, np.argmax(need > 0, axis=1))
    ratio = share / share[np.arange(len(need)), ref][:, None]
    count = problem.blocks.count
    available = np.repeat(free, count, axis=0)
    allowed = np.repeat(_allowed(problem), count, axis=1)
    scale = np.where(total > 0, total, 1.0)
    rows = [np.flatnonzero(mixes.owner == user) for user in range(len(mixes.users))]
    running = np.zeros(len(need))
    level = np.where(mixes.sums(left.astype(np.float64)) > 0, 0.0, np.inf)
    step = np.zeros(len(rows))

    def measure(user: int) -> None:
        kinds = rows[user][left[rows[user]] > 0]
        if not len(kinds):
            level[user] = np.inf
            return
        amount = mixes.ratio[kinds]
        mix = float((amount[:, None] * share[kinds]).sum(axis=0).max())
        step[user] = mix / (mixes.weight[user] * float(amount.sum()))

    for user in range(len(rows)):
        measure(user)
    placed: list[tuple[int, int]] = []
    while np.isfinite(level).any():
        user = int(np.argmin(level))
        kinds = rows[user][left[rows[user]] > 0]
        kind = int(kinds[np.argmin(running[kinds] / mixes.ratio[kinds])])
        fits = np.flatnonzero(allowed[kind] & (available >= need[kind]).all(axis=1))
        if not len(fits):
            left[kind] = 0
            measure(user)
            continue
        part = available[fits] / scale
        alike = np.abs(ratio[kind] - part / part[:, [ref[kind]]])[:, total > 0].sum(axis=1)
        server = int(fits[np.argmin(alike)])
        available[server] -= need[kind]
        running[kind] += 1
        left[kind] -= 1
        level[user] += step[user]
        if not left[kind]:
            measure(user)
        placed.append((kind, server))
        if len(placed) == _ROOM:
            yield _columns(placed)
            placed = []
    if placed:
        yield _columns(placed)


def _columns(placed: list[tuple[int, int]]) -> tuple[Ints, Ints]:
    table = np.array(placed, dtype=np.int64)
    return table[:, 0], table[:, 1]


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
