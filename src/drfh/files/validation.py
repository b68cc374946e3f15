"""Checks of a cluster, its users and their jobs together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from drfh.errors import InputError, nearest
from drfh.formatting import format_quantity
from drfh.model.cluster import Cluster
from drfh.model.jobs import Job, ServerEvent, check_events, everything_up
from drfh.model.resources import TOLERANCE
from drfh.model.scenario import Scenario
from drfh.model.users import Restriction, User, resolve_restriction

__all__ = ["Issue", "check", "problems"]

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


@dataclass(frozen=True, slots=True)
class Issue:
    """Something wrong or odd about a scenario.

    Attributes
    ----------
    severity : str
        ``error``: every mechanism refuses it; ``warning``: it is allowed but odd.
    code : str
        ``invalid``, ``unit``, ``does-not-fit``, ``no-jobs`` or ``unused-resource``.
    message : str
        What is wrong.
    """

    severity: Literal["error", "warning"]
    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.message}"


def check(scenario: Scenario) -> list[Issue]:
    """Return what every mechanism refuses, then what is allowed but odd.

    Examples
    --------
    >>> from drfh.model.cluster import Server
    >>> cluster = Cluster([Server({"cpu": 4, "gpu": 1, "memory": "8Gi"})])
    >>> for issue in check(Scenario(cluster, (User("ann", {"cpu": 1, "memory": 4}),))):
    ...     print(issue)
    warning: users[0] (ann): memory 4 is 4 bytes where servers have 8Gi; did you mean 4Gi?
    warning: resource gpu: no user demands it
    """
    parts = scenario.cluster, scenario.users, scenario.jobs, scenario.events
    found = [Issue("error", "invalid", str(error)) for error in problems(*parts)]
    return [*found, *_warnings(*parts)]


def _warning(code: str, about: str, text: str) -> Issue:
    return Issue("warning", code, f"{about}: {text}")


def _warnings(
    cluster: Cluster,
    users: Sequence[User],
    jobs: Sequence[Job] = (),
    events: Sequence[ServerEvent] = (),
) -> Iterator[Issue]:
    """Yield likely wrong units, tasks that fit nowhere, and what is idle."""
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
            text = f"one whole task fits no {where}; only a divisible allocation gives it anything"
            yield _warning("does-not-fit", title, text)
    owner = {user.name: user for user in users}
    for title, job in zip(titles, jobs, strict=True):
        user = owner[job.user]
        demand = user.demand if job.demand is None else job.demand
        if fits.any(demand, user.servers, job.servers) is False:
            free = user.servers is None and job.servers is None
            text = f"a task fits no server{'' if free else ' it may use'}, so none runs"
            yield _warning("does-not-fit", title, text)
    if jobs:
        busy = {job.user for job in jobs}
        for (title, _), user in zip(named, users, strict=False):
            if user.name not in busy:
                yield _warning("no-jobs", title, "has no jobs")
    demanded = {resource for _, demand in named for resource, a in demand.items() if a > 0}
    for resource in pool.resources:
        if resource not in demanded:
            yield _warning("unused-resource", f"resource {resource}", "no user demands it")


def _small_amounts(
    pool: Cluster, named: Sequence[tuple[str, Mapping[str, float]]]
) -> Iterator[Issue]:
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
                text = f"{resource} {short} is {short} bytes where servers have {has}; "
                yield _warning("unit", title, f"{text}did you mean {short}{suffix}?")


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
