"""How full the servers are, and with whose tasks: what the bars of the page are made of.

The picture stays small however large the cluster is: the largest users and server groups, or
those that were searched for, and the rest joined. Where servers are listed one by one, as in most
traces, those of one size are joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from drfh.cluster import Cluster
from drfh.problem import Floats, Ints
from drfh.resources import some
from drfh.web.answers import Answer
from drfh.web.nodes import amounts_text

__all__ = ["MOST_USERS", "Stacks", "chosen", "stacks"]

#: Users with a colour of their own.
MOST_USERS = 8
# Bars in the picture, and server groups however many resources there are.
_MOST_BARS, _FEWEST_GROUPS = 36, 4


@dataclass(frozen=True, eq=False)
class Stacks:
    """Stacked bars: a bar for each server group and resource.

    Attributes
    ----------
    groups : tuple of str
        Server groups, or their sizes; the last one may be the rest of them, joined.
    notes : tuple of str
        What a group is made of: ``4 servers``.
    resources : tuple of str
        Names of the resources.
    users : tuple of str
        Whose tasks have a colour of their own, in the order of listing.
    others : str
        All other users, in words; empty if there are none.
    joined : int
        How many groups have no bars of their own.
    capacity : array, groups × resources
        How much there is.
    used : array, groups × resources × users
        How much each holds; the last entry is that of the others, if there are any.
    """

    groups: tuple[str, ...]
    notes: tuple[str, ...]
    resources: tuple[str, ...]
    users: tuple[str, ...]
    others: str
    joined: int
    capacity: Floats
    used: Floats

    @property
    def names(self) -> tuple[str, ...]:
        """The users, and then the others."""
        return (*self.users, self.others) if self.others else self.users

    @property
    def free(self) -> Floats:
        """What nobody holds, groups × resources."""
        left: Floats = np.maximum(self.capacity - self.used.sum(axis=2), 0.0)
        return np.where(left > 1e-12 * self.capacity, left, 0.0)

    @property
    def bars(self) -> list[tuple[int, int]]:
        """Group and resource of each bar, from the top; a group has no bar of what it lacks."""
        rows, columns = np.nonzero(self.capacity > 0)
        return list(zip(rows.tolist(), columns.tolist(), strict=True))


def chosen(names: Sequence[str], size: Floats, find: str, most: int) -> list[int]:
    """Return the positions of the largest of those whose names have a text in them, in order.

    Parameters
    ----------
    names, size
        Of what is to be chosen.
    find
        What was searched for, upper and lower case alike; several texts with commas between.
    most
        How many at most.

    Examples
    --------
    >>> chosen(["ann", "bob", "Anton"], np.array([1.0, 3.0, 2.0]), "", 2)
    [1, 2]
    >>> chosen(["ann", "bob", "Anton"], np.array([1.0, 3.0, 2.0]), "an", 2)
    [0, 2]
    """
    wanted = [part.strip().casefold() for part in find.split(",") if part.strip()]
    matching = np.arange(len(names))
    if wanted:
        plain = [name.casefold() for name in names]
        matching = np.array(
            [i for i, name in enumerate(plain) if any(part in name for part in wanted)],
            dtype=np.int64,
        )
    largest = np.argsort(-size[matching], kind="stable")[:most]
    return sorted(matching[largest].tolist())


def stacks(answer: Answer, find_users: str = "", find_groups: str = "") -> Stacks:
    """Return the bars for an answer.

    Parameters
    ----------
    answer
        What to show.
    find_users, find_groups
        What was searched for; empty: the largest.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.web.answers import answer_of
    >>> from drfh.web.workbook import Workbook
    >>> seen = stacks(answer_of(Workbook(load_scenario("paper-two-servers"))))
    >>> seen.groups, seen.users, seen.used[0].round(3).tolist(), seen.free[0].round(3).tolist()
    (('high-memory', 'high-cpu'), ('ann', 'bob'), [[2.0, 0.0], [10.0, 0.0]], [0.0, 2.0])
    """
    allocation = answer.allocation
    problem, cluster = allocation.problem, allocation.problem.cluster
    resources = len(cluster.resources)
    held = cluster.capacity * cluster.counts[:, None]
    size = (held / np.where(cluster.totals > 0, cluster.totals, 1.0)).max(axis=1)
    most_groups = max(_FEWEST_GROUPS, _MOST_BARS // resources)
    users = chosen(problem.names(), allocation.share_vector, find_users, MOST_USERS)
    alike = None if find_groups.strip() else _sizes(cluster, most_groups)
    if alike is not None:
        names, group_place = alike
        joined = len(cluster)
    else:
        groups = chosen(cluster.names, size, find_groups, most_groups)
        group_place, joined = _places(len(cluster), groups)
        names = [*(cluster.names[g] for g in groups), *_rest(joined, "group")]
    user_place, others = _places(len(problem.users), users)
    rows, columns = len(names), len(users) + (others > 0)
    capacity = np.zeros((rows, resources))
    np.add.at(capacity, group_place, held)
    used = np.zeros((rows, resources, columns))
    block, user, tasks = allocation.assignment.entries_of(np.arange(len(problem.blocks)))
    where = group_place[problem.blocks.group[block]] * columns + user_place[user]
    for r in range(resources):
        amount = np.bincount(where, tasks * problem.demand[user, r], minlength=rows * columns)
        used[:, r] = amount.reshape(rows, columns)
    counts = np.bincount(group_place, cluster.counts, minlength=rows).astype(np.int64)
    return Stacks(
        tuple(names),
        tuple(some(count, "server") for count in counts.tolist()),
        tuple(cluster.resources),
        tuple(problem.users[i].name for i in users),
        "".join(_rest(others, "user")),
        joined,
        capacity,
        used,
    )


def _sizes(cluster: Cluster, most: int) -> tuple[list[str], Ints] | None:
    """Return the sizes of servers in order of listing, and the place of every group.

    None if all groups have room, or if there are too many sizes as well.
    """
    if len(cluster) <= most:
        return None
    sizes, first, place = np.unique(
        cluster.capacity, axis=0, return_index=True, return_inverse=True
    )
    if len(sizes) > most:
        return None
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    names = [
        amounts_text(dict(zip(cluster.resources, sizes[i].tolist(), strict=True)))
        for i in order.tolist()
    ]
    return names, rank[place.reshape(-1)]


def _places(size: int, chosen: list[int]) -> tuple[Ints, int]:
    """Return the place of everything, what is not chosen last, and how much that is."""
    place = np.full(size, len(chosen), dtype=np.int64)
    place[chosen] = np.arange(len(chosen))
    return place, size - len(chosen)


def _rest(count: int, word: str) -> list[str]:
    return [f"{count:,} other {word}{'s' * (count != 1)}"] if count else []
