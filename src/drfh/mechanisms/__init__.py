"""Divisible allocation: one file per mechanism, one visible registry, one entry point."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np

from drfh.allocation import Allocation
from drfh.cluster import Cluster
from drfh.errors import InputError, UnknownNameError
from drfh.mechanisms.drf import drf
from drfh.mechanisms.drfh import drfh
from drfh.mechanisms.filling import fill_whole_tasks, fits_some_server
from drfh.mechanisms.per_server_drf import per_server_drf
from drfh.mechanisms.solution import Solution
from drfh.problem import Problem
from drfh.workload import User

__all__ = ["MECHANISMS", "Mechanism", "Solution", "allocate"]

#: A mechanism: the problem (and parameters of its own) in, a solution out.
Mechanism: TypeAlias = Callable[..., Solution]

#: Every mechanism by name.
MECHANISMS: dict[str, Mechanism] = {
    "drf": drf,
    "drfh": drfh,
    "per-server-drf": per_server_drf,
}


def allocate(
    cluster: Cluster,
    users: Iterable[User],
    *,
    mechanism: str | Mechanism = "drfh",
    whole_tasks: bool = False,
    **parameters: Any,
) -> Allocation:
    """Share a cluster among users.

    Parameters
    ----------
    cluster
        The servers.
    users
        Who wants to run what.
    mechanism
        A name from :data:`MECHANISMS`, or a function from a
        :class:`~drfh.problem.Problem` to a :class:`Solution`.
    whole_tasks
        Fill the cluster with whole tasks, the lowest level first and Best-Fit, and report the
        loss against the divisible optimum. Only for ``drfh``.
    **parameters
        For the mechanism. ``drfh`` takes ``method=``: ``"auto"``, ``"closed-form"``,
        ``"single-pool"``, ``"simplex"`` or ``"interior-point"``; and ``progress=``. Whole tasks
        take ``reference=``, the resource that Best-Fit divides by.

    Returns
    -------
    Allocation
        Tasks, shares, placement, utilisation and, where the mechanism has one, the certificate.

    Examples
    --------
    >>> from drfh import Cluster, Server, User
    >>> cluster = Cluster([Server({"cpu": 6, "memory": 6})])
    >>> users = [User("a", {"cpu": 1, "memory": 1}), User("b", {"cpu": 4, "memory": 3})]
    >>> whole = allocate(cluster, users, whole_tasks=True)
    >>> whole.tasks
    {'a': 2.0, 'b': 1.0}
    >>> round(whole.loss, 4)  # a has 2 tasks instead of 3
    0.3333
    """
    started = time.perf_counter()
    name, function = _find(mechanism)
    problem = Problem.build(cluster, users)
    reference = parameters.pop("reference", None) if whole_tasks else None
    try:
        solution = function(problem, **parameters)
    except TypeError as error:
        if "unexpected keyword argument" in str(error) and name in str(error).replace("_", "-"):
            unknown = str(error).rsplit("'", 2)[-2]
            raise InputError("parameters", f"must be ones that {name} takes", unknown) from None
        raise
    allocation = Allocation(
        problem,
        solution.placement,
        mechanism=name,
        method=solution.method,
        certificate=solution.certificate,
        promised_tasks=solution.promised,
        seconds=time.perf_counter() - started,
    )
    if not whole_tasks:
        return allocation
    if function is not drfh:
        raise InputError("whole_tasks", "must be used with the mechanism drfh", name)
    never = np.flatnonzero(~fits_some_server(problem))
    placement = fill_whole_tasks(problem, reference=reference)
    return Allocation(
        placement.problem,
        placement,
        mechanism="drfh",
        method="best-fit filling",
        divisible=allocation,
        seconds=time.perf_counter() - started,
        notes=tuple(f"{problem.users[i].name}: one whole task fits no server" for i in never),
    )


def _find(mechanism: str | Mechanism) -> tuple[str, Mechanism]:
    if callable(mechanism):
        return getattr(mechanism, "__name__", "custom").replace("_", "-"), mechanism
    if mechanism not in MECHANISMS:
        raise UnknownNameError("mechanism", str(mechanism), MECHANISMS)
    return mechanism, MECHANISMS[mechanism]
