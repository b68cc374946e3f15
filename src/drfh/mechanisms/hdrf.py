"""``hdrf``: hierarchical DRF, groups of users and groups of groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from drfh.allocation.placement import Solution
from drfh.allocation.problem import Bools, Floats, Problem, water_level_above
from drfh.errors import InputError, UnknownNameError
from drfh.mechanisms.pooled import one_server
from drfh.mechanisms.shared.leximin import placed
from drfh.model.resources import parse_quantity

__all__ = ["hdrf", "hdrf_shares"]

Groups = Mapping[str, Mapping[str, Any]]

_FULL = 1e-12


def hdrf(problem: Problem, *, groups: Groups | None = None, method: str = "auto") -> Solution:
    """Equalise dominant shares at every node of a tree, blocked nodes left out.

    Definition
        Always the task of the leaf is next that is found by descending from the root to the
        child with the least share/weight that is not blocked. The share of a group is the
        largest entry of the sum of its children that are not blocked, each scaled down to the
        least share/weight among them. A user is blocked when a resource that it needs is used
        up or when it has all its tasks; a group, when all its children are. This is the limit
        of ever smaller tasks on the pool; its shares are then placed, leximin of placed/promised.

    Paper
        Bhattacharya, Culler, Friedman, Ghodsi, Shenker, Stoica: Hierarchical scheduling for
        diverse datacenter workloads, SoCC 2013.

    Properties
        promise-kept: no; the pool is not one server

    Parameters
    ----------
    problem
        Cluster and users; ``User.parent`` names the group of a user.
    groups
        Groups that have a weight other than 1 or a group above:
        ``{"vision": {"parent": "research", "weight": 2}}``.
    method
        How to place, see :func:`~drfh.mechanisms.drfh.drfh`.

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 1, "memory": 1})])
    >>> users = [User("a", {"cpu": 1, "memory": 1}), User("b", {"cpu": 1}, parent="team"),
    ...          User("c", {"memory": 1}, parent="team")]
    >>> [round(t, 9) for t in allocate(cluster, users, mechanism="hdrf").tasks.values()]
    [0.5, 0.5, 0.5]
    """
    return placed(problem, hdrf_shares(problem, groups) / problem.task_share, method=method)


def hdrf_shares(problem: Problem, groups: Groups | None = None) -> Floats:
    """Return the dominant shares that H-DRF ends with on the pool.

    While the same nodes are blocked, a group that is given the share S raises each child to
    weight·S/σ, where σ is the largest entry of Σ weight·direction of its children. So leaf i
    stands at share/a_i on the scale of the root, a_i being the product of weight/σ on the way
    down to it, and the least goes first: all rise to max(share, a_i·t).

    Examples
    --------
    >>> from drfh import Cluster, Server, User
    >>> cluster = Cluster([Server({"cpu": 1})])
    >>> users = [User("a", {"cpu": 1}), User("b", {"cpu": 1}, parent="team"),
    ...          User("c", {"cpu": 1}, parent="team")]
    >>> hdrf_shares(Problem.build(cluster, users)).tolist()
    [0.5, 0.25, 0.25]
    """
    parent, weight = _tree(problem, groups or {})
    cap = one_server(problem).share_limit
    direction = problem.direction
    share = np.zeros(len(cap))
    active = cap > 0
    while active.any():
        rate = _rates(problem, parent, weight, active)[active]
        floor, most = share[active], cap[active]
        levels = [
            water_level_above(
                column[active], rate, floor, most, 1 - float(column[~active] @ share[~active])
            )
            for column in direction.T
        ]
        # Who has all its tasks is blocked, and that changes how fast the others rise.
        level = min(min(levels), float((most / rate).min()))
        share[active] = np.maximum(floor, np.minimum(rate * level, most))
        stops = share >= cap * (1 - _FULL)
        for r, reached in enumerate(levels):
            if reached <= level * (1 + _FULL):
                stops |= direction[:, r] > 0
        active &= ~stops
    return share


def _rates(
    problem: Problem, parent: dict[str, str | None], weight: dict[str, float], active: Bools
) -> Floats:
    """Return how fast each active leaf rises with the level of the root; children first."""
    total = {name: np.zeros(problem.demand.shape[1]) for name in parent}
    for i in np.flatnonzero(active).tolist():
        group = problem.users[i].parent
        if group is not None:
            total[group] += problem.weight[i] * problem.direction[i]
    sigma: dict[str, float] = {}
    for name, above in parent.items():  # from the leaves to the root
        sigma[name] = float(total[name].max())
        if above is not None and sigma[name] > 0:
            total[above] += weight[name] * total[name] / sigma[name]
    rate: dict[str | None, float] = {None: 1.0}
    for name, above in reversed(parent.items()):
        rate[name] = rate[above] * weight[name] / sigma[name] if sigma[name] > 0 else 0.0
    rates: Floats = problem.weight * np.array([rate[user.parent] for user in problem.users])
    return rates


def _tree(problem: Problem, groups: Groups) -> tuple[dict[str, str | None], dict[str, float]]:
    """Return parent and weight of each group, groups below before those above."""
    if not isinstance(groups, Mapping):
        raise InputError("groups", "must map names of groups to their parent and weight", groups)
    parent: dict[str, str | None] = {}
    weight: dict[str, float] = {}
    for name, fields in groups.items():
        if not isinstance(fields, Mapping):
            raise InputError(f"groups.{name}", "must have a parent, a weight or both", fields)
        for key in fields:
            if key not in ("parent", "weight"):
                raise UnknownNameError(f"groups.{name}", str(key), ["parent", "weight"])
        above = fields.get("parent")
        if above is not None and not isinstance(above, str):
            raise InputError(f"groups.{name}.parent", "must be the name of a group", above)
        parent[name] = above
        weight[name] = parse_quantity(
            fields.get("weight", 1.0), f"groups.{name}.weight", "must be a number > 0"
        )
        if weight[name] <= 0:
            raise InputError(f"groups.{name}.weight", "must be > 0", weight[name])
    inhabited: dict[str, int] = {}  # group → distance from the root
    for user in problem.users:
        path: list[str] = []
        above = user.parent
        while above is not None and above not in inhabited:
            if above in path:
                raise InputError(f"groups.{above}", "must not be above itself")
            path.append(above)
            above = parent.get(above)
        depth = -1 if above is None else inhabited[above]
        for name in reversed(path):
            depth += 1
            inhabited[name] = depth
    for name in groups:
        if name not in inhabited:
            raise InputError(f"groups.{name}", "must be the group of some user or group")
    order = sorted(inhabited, key=inhabited.__getitem__, reverse=True)
    return {name: parent.get(name) for name in order}, {n: weight.get(n, 1.0) for n in order}
