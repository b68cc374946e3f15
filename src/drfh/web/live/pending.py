"""Pending jobs of a live cluster: a few of each user, with explanations.

An explanation looks at every server. On a large cluster there is not the time to explain the jobs
of everybody each time, so those explained longest ago come first, and the others keep theirs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drfh.engines.engine import LiveCluster
    from drfh.engines.snapshot import BlockedReason
    from drfh.engines.status import Status, UserStatus

__all__ = ["Pending", "PendingQueue"]

_MOST_USERS = 25
_KINDS_EACH = 2
_BUDGET = 0.1  # seconds


@dataclass(frozen=True, slots=True)
class Pending:
    """The pending jobs of a user.

    Parameters
    ----------
    waiting, never, blocked
        As of :class:`~drfh.engines.status.UserStatus`.
    explanations
        Why its first jobs wait: job → text.
    """

    user: str
    waiting: int
    never: int
    blocked: Mapping[BlockedReason, int]
    explanations: Mapping[str, str]


class PendingQueue:
    """Explains pending jobs, and keeps the explanations of users whose turn has not come."""

    def __init__(self) -> None:
        self._explanations: dict[str, dict[str, str]] = {}
        self._when: dict[str, float] = {}

    def observe(
        self, cluster: LiveCluster, status: Status, budget: float = _BUDGET
    ) -> tuple[Pending, ...]:
        """Return who waits and why, furthest from fair first.

        Parameters
        ----------
        budget
            Seconds for explanations; one user's are made in any case.
        """
        users = [user for user in status.users if user.waiting or user.never or user.blocked]
        users.sort(key=_need)
        users = users[:_MOST_USERS]
        first = _first_jobs(cluster, {user.name for user in users})
        end = time.perf_counter() + budget
        kept, when = self._explanations, self._when
        self._explanations, self._when = {}, {}
        for place, user in enumerate(sorted(users, key=lambda user: when.get(user.name, 0.0))):
            jobs = first.get(user.name, ())
            now = time.perf_counter()
            if place == 0 or now < end:
                self._explanations[user.name] = {job: cluster.explain(job).text for job in jobs}
                self._when[user.name] = now
            else:
                old = kept.get(user.name, {})
                self._explanations[user.name] = {job: old[job] for job in jobs if job in old}
                self._when[user.name] = when.get(user.name, 0.0)
        return tuple(
            Pending(
                user.name, user.waiting, user.never, user.blocked, self._explanations[user.name]
            )
            for user in users
        )


def _need(user: UserStatus) -> tuple[bool, float, str]:
    far = user.fulfilled
    return far is None, 0.0 if far is None else far, user.name


def _first_jobs(cluster: LiveCluster, users: set[str]) -> dict[str, list[str]]:
    """Return the first waiting jobs of users, of different kinds; those that never run come last.

    The tasks of a snapshot are in the order of their queues.
    """
    state = cluster.cache.scheduler.state
    kinds: dict[str, dict[tuple[object, ...], str]] = {name: {} for name in users}
    never: dict[str, str] = {}
    for name, task in cluster.snapshot.tasks.items():
        if task.user not in users or task.on is not None or task.blocked:
            continue
        mine = kinds[task.user]
        kind = (tuple(sorted(task.demand.items())), task.servers)
        if kind in mine or (len(mine) >= _KINDS_EACH and task.user in never):
            continue
        if state(name) == "never":
            never.setdefault(task.user, name)
        elif len(mine) < _KINDS_EACH:
            mine[kind] = name
    return {
        user: [*mine.values(), *([never[user]] if user in never else [])]
        for user, mine in kinds.items()
    }
