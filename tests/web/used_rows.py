"""How full each server group is and with whose tasks: a reference for the bars of the page."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drfh.web.session.answers import Answer


@dataclass(frozen=True, slots=True)
class UsedRow:
    """How full one resource of one server group is, and with whose tasks.

    Attributes
    ----------
    group : str
        Name of the group.
    count : int
        How many servers it has.
    resource : str
        Name of the resource.
    capacity : float
        How much all its servers have.
    used : tuple
        User and amount, in user order; users that hold nothing are left out.
    free : float
        What nobody holds.
    """

    group: str
    count: int
    resource: str
    capacity: float
    used: tuple[tuple[str, float], ...]
    free: float


def used_rows(answer: Answer) -> list[UsedRow]:
    """Return a row for each server group and each resource that it has."""
    allocation = answer.allocation
    problem, placed = allocation.problem, allocation.assignment
    cluster, names = problem.cluster, problem.names()
    block, user, tasks = placed.entries_of(np.arange(len(problem.blocks)))
    # One entry for each user in each group, in this order; a group may be several blocks.
    key, where = np.unique(problem.blocks.group[block] * len(names) + user, return_inverse=True)
    joined = np.bincount(where.reshape(-1), tasks, len(key))
    group, user = key // len(names), key % len(names)
    edges = np.searchsorted(group, np.arange(len(cluster) + 1)).tolist()
    who = [names[i] for i in user.tolist()]
    needs = problem.demand[user]
    capacity = (cluster.capacity * cluster.counts[:, None]).tolist()
    held = [list(zip(who, column.tolist(), strict=True)) for column in (joined[:, None] * needs).T]
    idle = (needs <= 0).any(axis=0).tolist()  # whether somebody needs none of a resource
    rows = []
    for g, (name, count) in enumerate(zip(cluster.names, cluster.counts.tolist(), strict=True)):
        for r, resource in enumerate(cluster.resources):
            size = capacity[g][r]
            if size > 0:
                used = held[r][edges[g] : edges[g + 1]]
                if idle[r]:
                    used = [pair for pair in used if pair[1] > 0]
                free = max(0.0, size - sum([amount for _, amount in used]))
                rows.append(UsedRow(name, count, resource, size, tuple(used), free))
    return rows
