"""Problem: cluster and users as arrays, and the levels that mechanisms equalise.

Every leximin mechanism is one scale of levels: the share of each user that counts as 1, and its
limit. DRFH measures the dominant share per weight, TSF the tasks against those a user could run
alone, asset fairness the sum of shares, and placing a promise measures what part of it is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import chain, pairwise, repeat
from operator import attrgetter, is_
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from drfh.allocation.mixes import Mixes, MixPath
from drfh.errors import InputError, nearest
from drfh.formatting import format_count
from drfh.model.cluster import Cluster
from drfh.model.users import User, eligible_servers

__all__ = [
    "Blocks",
    "Entitlement",
    "PerTask",
    "Problem",
    "Promise",
    "Rule",
    "by_weight",
    "water_level",
    "water_level_above",
]


Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

# Ratios beyond this cannot be told from zero once they are multiplied and summed.
_SMALLEST_RATIO = 1e-200

_row = attrgetter("row")
_needs = attrgetter("needs")
_name = attrgetter("name")
_servers = attrgetter("servers")
_kinds = attrgetter("kinds")


@dataclass(frozen=True, slots=True)
class Blocks:
    """Runs of equal servers inside one group that no restriction tells apart.

    Nearly always a block is a group; a restriction to ``big/3`` splits the group ``big``.
    """

    group: Ints
    first: Ints
    count: Ints

    def __len__(self) -> int:
        return len(self.group)


@dataclass(frozen=True, eq=False)
class Problem:
    """A cluster and its users as arrays.

    Attributes
    ----------
    demand : array, users × resources
        What one task needs, in the cluster's units.
    weight, limit : array, users
        Weights, and how many tasks there are (inf for no end).
    blocks : Blocks
        The servers, as runs of equal ones.
    eligible : array, restrictions × blocks, or None
        Which blocks each distinct restriction allows; None if nobody is restricted.
    restriction : array, users
        Row of `eligible` for each user.
    mixes : Mixes or None
        If users have several kinds of tasks: each kind is one of `users` here, and this says
        whose it is.

    Examples
    --------
    >>> from drfh import Cluster, Server
    >>> cluster = Cluster([Server({"cpu": 2, "memory": 12}), Server({"cpu": 12, "memory": 2})])
    >>> problem = Problem.build(cluster, [User("ann", {"cpu": 0.2, "memory": 1})])
    >>> problem.task_share.round(4).tolist(), problem.direction.round(4).tolist()
    ([0.0714], [[0.2, 1.0]])
    """

    cluster: Cluster
    users: tuple[User, ...]
    demand: Floats
    weight: Floats
    limit: Floats
    blocks: Blocks
    eligible: Bools | None
    restriction: Ints | None
    mixes: Mixes | None = None

    @classmethod
    def build(
        cls, cluster: Cluster, users: Iterable[User], *, restrictions: bool = True
    ) -> Problem:
        """Gather the arrays and check what only the whole can tell.

        Without `restrictions` every user may use every server, until :meth:`restricted`.
        """
        if not isinstance(cluster, Cluster):
            raise InputError("cluster", "must be a drfh.Cluster", cluster)
        if isinstance(users, (User, str)) or not isinstance(users, Iterable):
            raise InputError("users", "must be a list of drfh.User", users)
        everyone = tuple(users)
        if not everyone:
            raise InputError("users", "must have at least one user")
        mixes = None
        try:
            if any(map(_kinds, everyone)):
                mixes = Mixes.of(everyone)
                everyone = mixes.rows
            # Users that name the same resources share one tuple: identity is enough.
            first = everyone[0].needs
            alike = all(map(is_, map(_needs, everyone), repeat(first)))
            shapes = {first} if alike else set(map(_needs, everyone))
            names = set(map(_name, everyone))
        except AttributeError:
            wrong = next(u for u in everyone if not isinstance(u, User))
            raise InputError("users", "must all be drfh.User", wrong) from None
        if () in shapes:
            lacking = next(u for u in everyone if not u.needs)
            rule = "must have at least one amount > 0 (with jobs alone it can only be simulated)"
            raise InputError(f"demand of {lacking.name}", rule, item="demand")
        if len(names) != len(everyone):
            earlier: set[str] = set()
            for position, user in enumerate(everyone):
                if user.name in earlier:
                    raise InputError(
                        f"users[{position}].name", "must be unique", user.name, item="name"
                    )
                earlier.add(user.name)
        weight, limit, demand = _gather(cluster, everyone, shapes)
        order = np.arange(len(cluster), dtype=np.int64)
        blocks = Blocks(order, np.zeros_like(order), cluster.counts)
        problem = cls(cluster, everyone, demand, weight, limit, blocks, None, None, mixes)
        if restrictions:
            problem = problem.restricted()
        problem._check_range()
        return problem

    def restricted(self) -> Problem:
        """Return the problem with the restrictions of its users applied."""
        if all(servers is None for servers in map(_servers, self.users)):
            return self
        blocks, eligible, restriction = _restrictions(self.cluster, self.users)
        if eligible.all():  # rules that every server of this cluster meets
            return self
        return replace(self, blocks=blocks, eligible=eligible, restriction=restriction)

    def _check_range(self) -> None:
        direction = self.direction
        share = self.task_share
        if (
            direction.min() >= _SMALLEST_RATIO
            and share.min() >= _SMALLEST_RATIO
            and share.max() < (1 / _SMALLEST_RATIO)
        ):
            return
        far = (share < _SMALLEST_RATIO) | ~(share < 1 / _SMALLEST_RATIO)
        lost = (self.demand > 0) & ((direction < _SMALLEST_RATIO) | far[:, None])
        if lost.any():
            user, resource = (int(i) for i in np.argwhere(lost)[0])
            raise InputError(
                f"users[{user}].demand.{self.cluster.resources[resource]}",
                f"must be at least {_SMALLEST_RATIO:g} of the user's other demands and within a "
                f"factor of {1 / _SMALLEST_RATIO:g} of the pool",
                float(self.demand[user, resource]),
                item=self.cluster.resources[resource],
            )

    @cached_property
    def part_of_pool(self) -> Floats:
        """What one task needs, as parts of the whole pool, users × resources."""
        totals = self.cluster.totals
        with np.errstate(over="ignore"):
            share: Floats = self.demand / np.where(totals > 0, totals, 1.0)
        return share

    @cached_property
    def task_share(self) -> Floats:
        """Dominant share of one task of each user."""
        # Column by column: a reduction over short rows takes several times as long.
        share: Floats = reduce(np.maximum, self.part_of_pool.T)
        return share

    @cached_property
    def direction(self) -> Floats:
        """Demand in shares of the pool, scaled to a maximum of 1."""
        with np.errstate(invalid="ignore"):
            direction: Floats = self.part_of_pool / self.task_share[:, None]
        return direction

    @cached_property
    def capacity(self) -> Floats:
        """Capacity of each block in shares of the pool."""
        totals = self.cluster.totals
        raw = self.cluster.capacity[self.blocks.group] * self.blocks.count[:, None]
        capacity: Floats = raw / np.where(totals > 0, totals, 1.0)
        return capacity

    @cached_property
    def share_limit(self) -> Floats:
        """Share of all tasks of each user; 0 if none can run."""
        limit: Floats = self.task_share * self.limit
        if not self.reachable.all():
            limit[~self.reachable] = 0.0
        return limit

    @cached_property
    def lacks(self) -> Bools | None:
        """Blocks × resources: the block has none; None if all have everything."""
        lacking = self.cluster.capacity <= 0
        return lacking[self.blocks.group] if lacking.any() else None

    @cached_property
    def reachable(self) -> Bools:
        """Whether some server has all that a user needs."""
        if self.eligible is None:
            if self.lacks is None:
                return np.ones(len(self.users), dtype=bool)
            _, example = np.unique(self.lacks, axis=0, return_index=True)
        else:
            example = np.arange(len(self.blocks))
        usable = self.usable_on(example)
        if usable is None:
            return np.ones(len(self.users), dtype=bool)
        reachable: Bools = np.any(usable, axis=1)
        return reachable

    def usable_on(self, blocks: Ints) -> Bools | None:
        """Users × `blocks`: may run there and needs nothing the block lacks; None if all."""
        if self.lacks is None:
            if self.eligible is None or self.restriction is None:
                return None
            return self.eligible[np.ix_(self.restriction, blocks)]
        # Sets of resources as bits: a product of zeros and ones may set floating-point flags.
        needs = np.packbits(self.demand > 0, axis=1)
        lacks = np.packbits(self.lacks[blocks], axis=1)
        conflicts = needs[:, :1] & lacks[:, 0]
        for byte in range(1, needs.shape[1]):
            conflicts |= needs[:, byte, None] & lacks[:, byte]
        fits: Bools = conflicts == 0
        if self.eligible is not None and self.restriction is not None:
            fits &= self.eligible[np.ix_(self.restriction, blocks)]
        return fits

    def can_use(self, users: Ints, blocks: Ints) -> Bools:
        """Whether each of `users` may run and has all it needs on each of `blocks`, pairwise."""
        allowed = np.ones(len(users), dtype=bool)
        if self.lacks is not None:
            allowed &= ~((self.demand[users] > 0) & self.lacks[blocks]).any(axis=1)
        if self.eligible is not None and self.restriction is not None:
            allowed &= self.eligible[self.restriction[users], blocks]
        return allowed

    def rows_of(self, user: int) -> Ints:
        """Return the positions of a user's kinds of tasks."""
        return np.array([user]) if self.mixes is None else np.flatnonzero(self.mixes.owner == user)

    def path(self, rising: Bools, share: Floats) -> MixPath:
        """Return what each kind has at every level above the present one, in tasks."""
        assert self.mixes is not None
        limit = np.where(self.reachable, self.limit, 0.0)
        return MixPath(self.mixes, self.part_of_pool, rising, share / self.task_share, limit)

    def __repr__(self) -> str:
        return f"Problem({format_count(len(self.users), 'user')}, {self.cluster!r})"

    def block_name(self, block: int) -> str:
        """Return the name of a block: of its server, or of the group if it has several."""
        group, first = int(self.blocks.group[block]), int(self.blocks.first[block])
        if self.blocks.count[block] > 1:
            return self.cluster.names[group]
        return self.cluster.server_name(group, first)

    def names(self) -> list[str]:
        """Names of the users, in order."""
        return list(map(_name, self.users))


def _gather(
    cluster: Cluster, users: tuple[User, ...], shapes: set[tuple[str, ...]]
) -> tuple[Floats, Floats, Floats]:
    """Return weight, limit and demand; users that name the same resources are read at once."""
    column = {resource: position for position, resource in enumerate(cluster.resources)}
    n = len(users)
    weight, limit = np.full((2, n), np.nan)  # every row is set below
    demand = np.zeros((n, len(column)))
    for shape in shapes:
        chosen = slice(None) if len(shapes) == 1 else [u.needs == shape for u in users]
        picked = users if len(shapes) == 1 else [u for u in users if u.needs == shape]
        flat = np.frombuffer(b"".join(map(_row, picked)))
        table = flat.reshape(len(picked), 2 + len(shape))
        weight[chosen], limit[chosen] = table[:, 0], table[:, 1]
        for position, resource in enumerate(shape):
            amounts = table[:, 2 + position]
            index = column.get(resource)
            if index is not None and cluster.totals[index] > 0:
                demand[chosen, index] = amounts
            elif amounts.any():
                user = next(u for u in picked if u.demand[resource] > 0)
                known = ", ".join(cluster.resources)
                fold = {name.casefold(): name for name in cluster.resources}
                near = nearest(resource.casefold(), fold)
                hint = f"; did you mean {fold[near]}?" if near else ""
                raise InputError(
                    f"demand.{resource} of {user.name}",
                    f"must be a resource that some server has ({known}{hint})",
                    resource,
                    item=resource,
                )
    return weight, limit, demand


def _restrictions(cluster: Cluster, users: tuple[User, ...]) -> tuple[Blocks, Bools, Ints]:
    counts = cluster.counts
    distinct: dict[object, int] = {None: 0}
    resolved: list[tuple[Bools, dict[int, set[int]]]] = [(np.ones(len(counts), dtype=bool), {})]
    restriction = np.zeros(len(users), dtype=np.int64)
    for position, user in enumerate(users):
        if user.servers not in distinct:
            distinct[user.servers] = len(resolved)
            resolved.append(eligible_servers(user, cluster))
        restriction[position] = distinct[user.servers]
    # A server that some restriction names by itself becomes a block of its own.
    cuts: dict[int, set[int]] = {}
    for _, singles in resolved:
        for group, picked in singles.items():
            cuts.setdefault(group, set()).update(chain(picked, (i + 1 for i in picked)))
    rows: list[tuple[int, int, int]] = []
    for group, count in enumerate(counts.tolist()):
        edges = sorted({0, count} | {cut for cut in cuts.get(group, ()) if cut < count})
        rows.extend((group, a, b - a) for a, b in pairwise(edges))
    blocks = Blocks(*(np.array(c, dtype=np.int64) for c in zip(*rows, strict=True)))
    eligible = np.array([groups[blocks.group] for groups, _ in resolved])
    for row, (_, singles) in enumerate(resolved):
        for group, picked in singles.items():
            inside = np.flatnonzero(blocks.group == group)
            eligible[row, inside] = [int(blocks.first[b]) in picked for b in inside]
    return blocks, eligible, restriction


@dataclass(frozen=True, slots=True, eq=False)
class Entitlement:
    """The scale on which users rise.

    Attributes
    ----------
    share : array
        Dominant share that makes a level of 1, > 0.
    cap : array
        The most share that each user may have.
    phase : int array or None
        Users of a later phase rise only when those of the earlier ones have stopped.
    """

    share: Floats
    cap: Floats
    phase: Ints | None = None


#: From a problem to the scale of a mechanism: certificates keep it and measure anew with it.
Rule: TypeAlias = Callable[[Problem], Entitlement]


def by_weight(problem: Problem) -> Entitlement:
    """Return the scale of DRFH: the weight is level 1.

    Examples
    --------
    >>> from drfh import Cluster, Server, User
    >>> problem = Problem.build(Cluster([Server({"cpu": 4})]), [User("a", {"cpu": 1}, tasks=2)])
    >>> by_weight(problem).cap
    array([0.5])
    """
    return Entitlement(problem.weight, problem.share_limit)


def by_mix(problem: Problem) -> Entitlement:
    """Return the scale of DRFH where users have several kinds of tasks.

    It has the limits alone: how fast a kind rises changes with the kinds that are left, see
    :class:`~drfh.allocation.mixes.MixPath`.
    """
    return Entitlement(problem.weight, problem.share_limit)


@dataclass(frozen=True, slots=True, eq=False)
class Promise:
    """The part of promised tasks that is placed, at most 1."""

    tasks: Floats

    def __call__(self, problem: Problem) -> Entitlement:
        """Return the scale."""
        share = self.tasks * problem.task_share
        cap = np.where(problem.reachable, share, 0.0)
        return Entitlement(np.where(share > 0, share, 1.0), cap)


@dataclass(frozen=True, slots=True, eq=False)
class PerTask:
    """Level = tasks · measure / weight, for a measure of one task of each user.

    A user whose task measures 0 stays at level 0 whatever it gets, so leximin says nothing about
    it: such users share what the others leave, by dominant share.
    """

    measure: Callable[[Problem], Floats]

    def __call__(self, problem: Problem) -> Entitlement:
        """Return the scale."""
        one = self.measure(problem)
        counts = one > 0
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(counts, problem.weight * problem.task_share / one, problem.weight)
        phase = None if counts.all() else np.where(counts, 0, 1).astype(np.int64)
        return Entitlement(share, problem.share_limit, phase)


def water_level(
    price: NDArray[np.float64],
    weight: NDArray[np.float64],
    cap: NDArray[np.float64],
    budget: float,
) -> float:
    """Return the largest t with ``sum(price * minimum(weight * t, cap)) <= budget``.

    Parameters
    ----------
    price
        What one unit of each user costs, ≥ 0.
    weight
        Weights, ≥ 0 (0: the user takes no part).
    cap
        The most that each may have; inf for no cap.
    budget
        What may be spent.

    Returns
    -------
    float
        The level; inf if everyone fits at its cap, 0 if nothing can be spent.

    Examples
    --------
    >>> import numpy as np
    >>> water_level(np.ones(3), np.ones(3), np.array([1.0, np.inf, np.inf]), 6.0)
    2.5
    """
    cost = price * weight
    total = float(cost.sum())
    if total <= 0:
        return math.inf
    if budget <= 0:
        return 0.0
    if not np.isfinite(cap).any():
        return budget / total
    paying = cost > 0
    cost, cap, weight, price = cost[paying], cap[paying], weight[paying], price[paying]
    stop = cap / weight  # the level at which each user has enough
    order = np.argsort(stop, kind="stable")
    stop, cost = stop[order], cost[order]
    full = np.where(np.isfinite(stop), price[order] * cap[order], 0.0)
    spent_full = np.concatenate(([0.0], np.cumsum(full)))  # by the users before each
    rising = np.concatenate((np.cumsum(cost[::-1])[::-1], [0.0]))  # rate of it and those after
    with np.errstate(invalid="ignore"):
        spent = spent_full[:-1] + stop * rising[:-1]
    over = np.flatnonzero(~(spent <= budget))
    if len(over) == 0:
        return math.inf
    first = int(over[0])
    return max(0.0, (budget - float(spent_full[first])) / float(rising[first]))


def water_level_above(
    price: NDArray[np.float64],
    weight: NDArray[np.float64],
    floor: NDArray[np.float64],
    cap: NDArray[np.float64],
    budget: float,
) -> float:
    """Return the largest t with ``sum(price * clip(weight * t, floor, cap)) <= budget``.

    Parameters
    ----------
    price
        What one unit of each user costs, ≥ 0.
    weight
        Weights, > 0.
    floor, cap
        What each has already, and the most that it may have; floor ≤ cap.
    budget
        What may be spent.

    Returns
    -------
    float
        The level; inf if everyone fits at its cap. If already the floors use up the budget, the
        level at which the first that costs something begins to rise.

    Examples
    --------
    >>> import numpy as np
    >>> water_level_above(np.ones(2), np.ones(2), np.array([3.0, 0.0]), np.full(2, np.inf), 5.0)
    2.0
    """
    paying = (price > 0) & (floor < cap)
    cost, one = price[paying] * weight[paying], weight[paying]
    level = np.concatenate((floor[paying] / one, cap[paying] / one))
    order = np.argsort(level, kind="stable")
    level = level[order]
    slope = np.cumsum(np.concatenate((cost, -cost))[order])
    ends = np.isfinite(level)
    level, slope = level[ends], slope[ends]
    if len(level) == 0:
        return math.inf
    held = price > 0
    spent = float(price[held] @ floor[held]) + np.concatenate(
        ([0.0], np.cumsum(slope[:-1] * np.diff(level)))
    )
    last = max(int(np.searchsorted(spent, budget, side="right")) - 1, 0)
    if last == len(level) - 1 and slope[-1] <= 1e-12 * float(cost.sum()):
        return math.inf
    return float(level[last] + max(0.0, budget - float(spent[last])) / slope[last])
