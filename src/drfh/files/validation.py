"""What is wrong, or looks odd, about a cluster, its users and their jobs together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfh.errors import InputError, nearest
from drfh.model.cluster import Cluster
from drfh.model.jobs import Job, ServerEvent, check_events, everything_up
from drfh.model.resources import TOLERANCE, format_quantity
from drfh.model.users import Restriction, User, resolve_restriction

__all__ = ["problems", "warnings"]

# A demand below this part of the smallest server, where others count in millions, has the wrong
# unit rather than a small task.
_TINY = 1e-6
_LARGE = 2**20


def problems(
    cluster: Cluster,
    users: Sequence[User],
    jobs: Sequence[Job] = (),
    events: Sequence[ServerEvent] = (),
) -> Iterator[InputError]:
    """Yield what cannot run: unknown resources, restrictions that match nothing, lost events.

    Examples
    --------
    >>> from drfh.model.cluster import Server
    >>> cluster = Cluster([Server({"cpu": 4, "memory": 8})])
    >>> for problem in problems(cluster, [User("ann", {"cpu": 1, "memoy": 1})]):
    ...     print(problem)
    users[0].demand.memoy must be a resource that some server has (did you mean memory?), got 1.0
    """
    pool = cluster
    if events:
        try:
            check_events(cluster, events)
        except InputError as error:
            yield error
            return  # which servers there are is not known
        pool = everything_up(cluster, events)
    had = [r for r, total in zip(pool.resources, pool.totals, strict=True) if total > 0]
    matched = _Restrictions(pool)
    entries: list[tuple[str, User | Job, str]] = [
        (f"users[{position}]", user, user.name) for position, user in enumerate(users)
    ]
    entries += [(f"jobs[{p}]", job, job.name or f"job-{p + 1}") for p, job in enumerate(jobs)]
    for field, entry, name in entries:
        for resource, amount in (entry.demand or {}).items():
            if amount > 0 and resource not in had:
                near = nearest(resource, had, cutoff=0.7)
                hint = f"did you mean {near}?" if near else f"these are {', '.join(had)}"
                rule = f"must be a resource that some server has ({hint})"
                yield InputError(f"{field}.demand.{resource}", rule, amount)
        if isinstance(entry, User) and not entry.demand and not jobs:
            yield InputError(f"{field}.demand", "must be given (there are no jobs either)")
        try:
            matched.groups(entry.servers, name)
        except InputError as error:
            error.field = f"{field}.servers"
            yield error


def warnings(
    cluster: Cluster,
    users: Sequence[User],
    jobs: Sequence[Job] = (),
    events: Sequence[ServerEvent] = (),
) -> Iterator[str]:
    """Yield what is allowed but odd: likely wrong units, tasks that fit nowhere, idle resources.

    Examples
    --------
    >>> from drfh.model.cluster import Server
    >>> cluster = Cluster([Server({"cpu": 4, "memory": "8Gi"})])
    >>> for warning in warnings(cluster, [User("ann", {"cpu": 1, "memory": 4})]):
    ...     print(warning)
    users[0] (ann): memory 4 is 4 bytes where servers have 8Gi; did you mean 4Gi?
    """
    try:
        pool = everything_up(cluster, events)
    except InputError:
        return  # the events are wrong, which is a problem and not a warning
    named = [(f"users[{p}] ({user.name})", user.demand) for p, user in enumerate(users)]
    titles = [f"jobs[{p}] ({job.name or f'job-{p + 1}'})" for p, job in enumerate(jobs)]
    named += [(title, job.demand or {}) for title, job in zip(titles, jobs, strict=True)]
    yield from _small_amounts(pool, named)
    fits = _Fits(pool)
    for (title, _), user in zip(named, users, strict=False):
        if user.demand and fits.any(user.demand, user.servers) is False:
            where = "server" if user.servers is None else "server it may use"
            yield (
                f"{title}: one whole task fits no {where}; "
                "only a divisible allocation gives it anything"
            )
    owner = {user.name: user for user in users}
    for title, job in zip(titles, jobs, strict=True):
        user = owner[job.user]
        demand = user.demand if job.demand is None else job.demand
        if fits.any(demand, user.servers, job.servers) is False:
            free = user.servers is None and job.servers is None
            yield f"{title}: a task fits no server{'' if free else ' it may use'}, so none runs"
    if jobs:
        busy = {job.user for job in jobs}
        for (title, _), user in zip(named, users, strict=False):
            if user.name not in busy:
                yield f"{title}: has no jobs"
    wanted = {resource for _, demand in named for resource, a in demand.items() if a > 0}
    for resource in pool.resources:
        if resource not in wanted:
            yield f"resource {resource}: no user demands it"


def _small_amounts(
    pool: Cluster, named: Sequence[tuple[str, Mapping[str, float]]]
) -> Iterator[str]:
    for position, resource in enumerate(pool.resources):
        amounts = pool.capacity[:, position]
        smallest = float(amounts[amounts > 0].min(initial=np.inf))
        if not _LARGE < smallest < np.inf:
            continue
        for title, demand in named:
            amount = demand.get(resource, 0.0)
            if 0 < amount < _TINY * smallest:
                has = format_quantity(smallest)
                short = format_quantity(amount)
                suffix = next((s for s in ("Gi", "Mi") if has.endswith(s)), "Gi")
                yield (
                    f"{title}: {resource} {short} is {short} bytes where "
                    f"servers have {has}; did you mean {short}{suffix}?"
                )


class _Restrictions:
    """The groups that a restriction allows, worked out once for each different one."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.known: dict[Any, NDArray[np.bool_]] = {None: np.ones(len(cluster), dtype=bool)}

    def groups(self, restriction: Restriction | None, owner: str) -> NDArray[np.bool_]:
        if restriction not in self.known:
            groups, singles = resolve_restriction(restriction or (), self.cluster, owner)
            groups[list(singles)] = True
            self.known[restriction] = groups
        return self.known[restriction]


class _Fits:
    """Whether one task fits a server, worked out once for each different shape."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.column = {resource: position for position, resource in enumerate(cluster.resources)}
        self.matched = _Restrictions(cluster)
        self.known: dict[Any, bool | None] = {}

    def any(self, demand: Mapping[str, float], *restrictions: Restriction | None) -> bool | None:
        """Return whether some server holds it; None if that is a problem, not a warning."""
        shape = demand, restrictions
        if shape not in self.known:
            self.known[shape] = self._any(demand, restrictions)
        return self.known[shape]

    def _any(
        self, demand: Mapping[str, float], restrictions: Sequence[Restriction | None]
    ) -> bool | None:
        if not set(demand) <= set(self.column):
            return None
        needs = np.zeros(len(self.column))
        for resource, amount in demand.items():
            needs[self.column[resource]] = amount
        allowed = (self.cluster.capacity * (1 + TOLERANCE) >= needs).all(axis=1)
        try:
            for restriction in restrictions:
                allowed &= self.matched.groups(restriction, "")
        except InputError:
            return None
        return bool(allowed.any())
