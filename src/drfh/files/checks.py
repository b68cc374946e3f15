"""What is wrong, or looks odd, about a cluster and its users together."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfh.cluster import Cluster
from drfh.errors import InputError
from drfh.resources import TOLERANCE, format_quantity
from drfh.workload import User, eligible_servers

__all__ = ["problems", "warnings"]

# A demand below this part of the smallest server, where others count in millions, has the wrong
# unit rather than a small task.
_TINY = 1e-6
_LARGE = 2**20


def problems(cluster: Cluster, users: Sequence[User]) -> Iterator[InputError]:
    """Yield what no mechanism can run: unknown resources, restrictions that match nothing.

    Examples
    --------
    >>> from drfh.cluster import Server
    >>> cluster = Cluster([Server({"cpu": 4, "memory": 8})])
    >>> for problem in problems(cluster, [User("ann", {"cpu": 1, "memoy": 1})]):
    ...     print(problem)
    users[0].demand.memoy must be a resource that some server has (did you mean memory?), got 1.0
    """
    had = [r for r, total in zip(cluster.resources, cluster.totals, strict=True) if total > 0]
    matched = _Restrictions(cluster)
    for position, user in enumerate(users):
        for resource, amount in user.demand.items():
            if amount > 0 and resource not in had:
                near = difflib.get_close_matches(resource, had, n=1, cutoff=0.7)
                hint = f"did you mean {near[0]}?" if near else f"these are {', '.join(had)}"
                rule = f"must be a resource that some server has ({hint})"
                yield InputError(f"users[{position}].demand.{resource}", rule, amount)
        try:
            matched.groups(user)
        except InputError as error:
            error.field = f"users[{position}].servers"
            yield error


def warnings(cluster: Cluster, users: Sequence[User]) -> Iterator[str]:
    """Yield what is allowed but odd: likely wrong units, tasks that fit nowhere, idle resources.

    Examples
    --------
    >>> from drfh.cluster import Server
    >>> cluster = Cluster([Server({"cpu": 4, "memory": "8Gi"})])
    >>> for warning in warnings(cluster, [User("ann", {"cpu": 1, "memory": 4})]):
    ...     print(warning)
    users[0] (ann): memory 4 is 4 bytes where servers have 8Gi; did you mean 4Gi?
    """
    column = {resource: position for position, resource in enumerate(cluster.resources)}
    yield from _small_amounts(cluster, users, column)
    matched = _Restrictions(cluster)
    fitting: dict[Any, bool] = {}
    for position, user in enumerate(users):
        if not set(user.demand) <= set(column):
            continue
        shape = user.demand, user.servers
        if shape not in fitting:
            try:
                groups = matched.groups(user)
            except InputError:
                continue  # a problem, not a warning
            needs = np.zeros(len(column))
            for resource, amount in user.demand.items():
                needs[column[resource]] = amount
            room = cluster.capacity * (1 + TOLERANCE) >= needs
            fitting[shape] = bool((groups & room.all(axis=1)).any())
        if not fitting[shape]:
            where = "server" if user.servers is None else "server it may use"
            yield (
                f"users[{position}] ({user.name}): one whole task fits no {where}; "
                "only a divisible allocation gives it anything"
            )
    wanted = {resource for user in users for resource, amount in user.demand.items() if amount > 0}
    for resource in cluster.resources:
        if resource not in wanted:
            yield f"resource {resource}: no user demands it"


def _small_amounts(
    cluster: Cluster, users: Sequence[User], column: dict[str, int]
) -> Iterator[str]:
    for resource, position in column.items():
        amounts = cluster.capacity[:, position]
        smallest = float(amounts[amounts > 0].min(initial=np.inf))
        if not _LARGE < smallest < np.inf:
            continue
        for index, user in enumerate(users):
            amount = user.demand.get(resource, 0.0)
            if 0 < amount < _TINY * smallest:
                has = format_quantity(smallest)
                short = format_quantity(amount)
                suffix = next((s for s in ("Gi", "Mi") if has.endswith(s)), "Gi")
                yield (
                    f"users[{index}] ({user.name}): {resource} {short} is {short} bytes where "
                    f"servers have {has}; did you mean {short}{suffix}?"
                )


class _Restrictions:
    """The groups that a user may use, worked out once for each different restriction."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.known: dict[Any, NDArray[np.bool_]] = {}

    def groups(self, user: User) -> NDArray[np.bool_]:
        if user.servers is None:
            return np.ones(len(self.cluster), dtype=bool)
        if user.servers not in self.known:
            groups, singles = eligible_servers(user, self.cluster)
            groups = groups.copy()
            groups[list(singles)] = True
            self.known[user.servers] = groups
        return self.known[user.servers]
