"""``endowment-drf``: DRF for users that own different parts of different resources."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from drfh.allocation.placement import Solution
from drfh.allocation.problem import Floats, PerTask, Problem
from drfh.errors import InputError, UnknownNameError
from drfh.mechanisms.pooled import one_server
from drfh.mechanisms.shared.leximin import lexicographic, placed

__all__ = ["endowment_drf"]

_ROUND_OFF = 1e-9


def endowment_drf(
    problem: Problem,
    *,
    endowments: Mapping[str, Mapping[str, float]] | None = None,
    method: str = "auto",
) -> Solution:
    """Equalise the tasks of users as multiples of what they could run on what they own.

    Definition
        User i owns the part e_ir of resource r of the pool and could run
        rho_i = min_r e_ir/(D_ir/T_r) tasks on it. The promise is leximin of tasks/rho_i on one
        server that has all resources of the pool; what is placed is leximin of placed/promised.
        Endowments take the place of weights.

    Paper
        Parkes, Procaccia, Shah: Beyond dominant resource fairness: extensions, limitations, and
        indivisibilities, TEAC 2015.

    Properties
        pareto: yes if one server; Parkes, Procaccia, Shah 2015
        group-truthful: yes if one server; Parkes, Procaccia, Shah 2015
        truthful: yes if one server; Parkes, Procaccia, Shah 2015
        promise-kept: no; the pool is not one server

    Parameters
    ----------
    problem
        Cluster and users.
    endowments
        What part of each resource belongs to each user: user name → resource → part. At most 1
        of a resource belongs to somebody. Users that are not named own weight/(sum of weights)
        of everything.
    method
        How to place, see :func:`~drfh.mechanisms.drfh.drfh`.

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 9, "memory": 18})])
    >>> users = [User("a", {"cpu": 1, "memory": 4}), User("b", {"cpu": 3, "memory": 1})]
    >>> own = {"a": {"cpu": 0.75, "memory": 0.25}, "b": {"cpu": 0.25, "memory": 0.75}}
    >>> answer = allocate(cluster, users, mechanism="endowment-drf", endowments=own)
    >>> [round(t, 9) for t in answer.tasks.values()]
    [3.0, 2.0]
    """
    owned = _table(problem, endowments or {})
    promise = lexicographic(one_server(problem), PerTask(partial(_measure, owned=owned)))
    return placed(problem, promise, method=method)


def _measure(problem: Problem, owned: Floats) -> Floats:
    """Return 1/rho; levels are per weight, which must not count here."""
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(problem.demand > 0, problem.direction / owned, 0.0)
    measure: Floats = parts.max(axis=1) * problem.task_share * problem.weight
    return measure


def _table(problem: Problem, endowments: Mapping[str, Mapping[str, float]]) -> Floats:
    """Return parts, users × resources, checked."""
    if not isinstance(endowments, Mapping):
        raise InputError("endowments", "must map user names to parts of resources", endowments)
    resources, names = problem.cluster.resources, problem.names()
    part = problem.weight / problem.weight.sum()
    table = np.repeat(part[:, None], len(resources), axis=1)
    row = {name: position for position, name in enumerate(names)}
    for name, parts in endowments.items():
        if name not in row:
            raise UnknownNameError("endowments", str(name), names)
        if not isinstance(parts, Mapping):
            raise InputError(f"endowments.{name}", "must map resources to parts", parts)
        table[row[name]] = 0.0
        for resource, value in parts.items():
            field = f"endowments.{name}.{resource}"
            if resource not in resources:
                raise UnknownNameError(f"endowments.{name}", str(resource), resources)
            if (
                isinstance(value, bool)
                or not isinstance(value, (int, float))
                or not 0 <= value <= 1
            ):
                raise InputError(field, "must be a number from 0 to 1", value)
            table[row[name], resources.index(resource)] = value
    total = table.sum(axis=0)
    if total.max() > 1 + _ROUND_OFF:
        r = int(np.argmax(total))
        rule = "must give away at most 1 of it (who is not named owns weight/sum of weights)"
        raise InputError(f"endowments of {resources[r]}", rule, float(total[r]))
    lost = np.argwhere((problem.demand > 0) & (table <= 0))
    if len(lost):
        user, r = lost[0].tolist()
        field = f"endowments.{names[user]}.{resources[r]}"
        raise InputError(field, "must be > 0: the user's tasks need it", float(table[user, r]))
    return table
