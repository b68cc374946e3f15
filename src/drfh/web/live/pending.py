"""Who waits in a live cluster, and why: a few jobs of each user, asked of the brain in turn.

An answer looks at every server. On a large cluster there is not the time to ask for everybody
in each round, so those who were answered longest ago come first, and the others keep theirs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drfh.engines.slurm.explain import why_job

if TYPE_CHECKING:
    from drfh.engines.slurm.cluster import SlurmCluster
    from drfh.engines.slurm.status import Status, UserStatus

__all__ = ["Pending", "PendingQueue"]

_MOST_USERS = 25
_KINDS_EACH = 2
_BUDGET = 0.1  # seconds


@dataclass(frozen=True, slots=True)
class Pending:
    """What a user waits for.

    Parameters
    ----------
    user
        Whose jobs.
    waiting, never
        Jobs that could be placed when there is room, and that no node could hold.
    aside
        Jobs that must not be placed now: why → how many.
    answers
        Why its first jobs wait: job → words.
    """

    user: str
    waiting: int
    never: int
    aside: Mapping[str, int]
    answers: Mapping[str, str]


class PendingQueue:
    """Keeps the answers of the last looks."""

    def __init__(self) -> None:
        self._answers: dict[str, dict[str, str]] = {}
        self._when: dict[str, float] = {}

    def look(
        self, live: SlurmCluster, status: Status, budget: float = _BUDGET
    ) -> tuple[Pending, ...]:
        """Return who waits and why, furthest from fair first.

        Parameters
        ----------
        live, status
            The cluster.
        budget
            Seconds for answers; one is given in any case.
        """
        users = [user for user in status.users if user.waiting or user.never or user.aside]
        users.sort(key=_farness)
        users = users[:_MOST_USERS]
        first = _first_jobs(live, {user.name for user in users})
        end = time.perf_counter() + budget
        kept, when = self._answers, self._when
        self._answers, self._when = {}, {}
        for place, user in enumerate(sorted(users, key=lambda user: when.get(user.name, 0.0))):
            jobs = first.get(user.name, ())
            now = time.perf_counter()
            if place == 0 or now < end:
                self._answers[user.name] = {job: why_job(live, job).text for job in jobs}
                self._when[user.name] = now
            else:
                old = kept.get(user.name, {})
                self._answers[user.name] = {job: old[job] for job in jobs if job in old}
                self._when[user.name] = when.get(user.name, 0.0)
        return tuple(
            Pending(user.name, user.waiting, user.never, user.aside, self._answers[user.name])
            for user in users
        )


def _farness(user: UserStatus) -> tuple[bool, float, str]:
    far = user.fulfilled
    return far is None, 0.0 if far is None else far, user.name


def _first_jobs(live: SlurmCluster, users: set[str]) -> dict[str, list[str]]:
    """Return the first waiting jobs of users, of different kinds; those that never run come last.

    The tasks of a look are in the order of their queues.
    """
    state = live.cache.scheduler.state
    kinds: dict[str, dict[tuple[object, ...], str]] = {name: {} for name in users}
    never: dict[str, str] = {}
    for name, task in live.view.snapshot.tasks.items():
        if task.user not in users or task.on is not None or task.aside:
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
