"""What a workbook comes to: who gets what and why, as rows for tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drfh.explain import explain
from drfh.resources import some
from drfh.web.answering import Answer, answer_of, own_mechanism, own_parameters
from drfh.web.truth import real_tasks

__all__ = [
    "Answer",
    "UsedRow",
    "UserChange",
    "UserRow",
    "answer_of",
    "change_words",
    "changes",
    "own_mechanism",
    "own_parameters",
    "used_rows",
    "user_rows",
    "why",
]

# Pairs of user and server group that are looked through for words on what limits whom.
_MOST_REASONS = 200_000


@dataclass(frozen=True, slots=True)
class UserRow:
    """What one user gets.

    Attributes
    ----------
    user : str
        Its name.
    weight : float
        Its weight.
    limit : float or None
        How many tasks it has; None for no end.
    tasks : float
        Tasks that it is given, of the shape that it reports.
    share : float
        Its dominant share.
    level : float
        Its share / weight.
    ideal : float
        Its share in the exact DRFH allocation.
    dominant : str
        The resource that it holds the largest part of.
    promised : float or None
        Tasks that a pooled mechanism promises.
    real : float
        Tasks that it can really run with what it is given: differs from `tasks` for a liar.
    lying : bool
        Whether it lies.
    limiting : str
        What limits it, in a sentence; empty where that would take long: see :func:`why`.
    """

    user: str
    weight: float
    limit: float | None
    tasks: float
    share: float
    level: float
    ideal: float
    dominant: str
    promised: float | None
    real: float
    lying: bool
    limiting: str


def user_rows(answer: Answer) -> list[UserRow]:
    """Return a row a user, in user order.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.web.workbook import Workbook
    >>> row = user_rows(answer_of(Workbook(load_scenario("paper-two-servers"))))[0]
    >>> row.user, row.tasks, round(row.share, 3), row.limiting.partition(": ")[2]
    ('ann', 10.0, 0.714, 'cpu is used up on high-memory and memory is used up on high-cpu.')
    """
    allocation = answer.allocation
    problem = allocation.problem
    real = real_tasks(allocation, answer.truths)
    promised = allocation.promised_tasks
    words = len(problem.users) * len(problem.blocks) <= _MOST_REASONS
    said: dict[Any, Any] = {}
    dominant = np.argmax(problem.direction, axis=1).tolist()
    columns = zip(
        problem.users,
        allocation.assignment.user_tasks.tolist(),
        allocation.share_vector.tolist(),
        (allocation.share_vector / problem.weight).tolist(),
        answer.fair.share_vector.tolist(),
        strict=True,
    )
    return [
        UserRow(
            user.name,
            user.weight,
            user.tasks,
            tasks,
            share,
            level,
            ideal,
            problem.cluster.resources[dominant[i]],
            None if promised is None else float(promised[i]),
            real.get(user.name, tasks),
            user.name in real,
            explain(allocation, i, said) if words else "",
        )
        for i, (user, tasks, share, level, ideal) in enumerate(columns)
    ]


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
    """Return a row for each server group and each resource that it has.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.web.workbook import Workbook
    >>> rows = used_rows(answer_of(Workbook(load_scenario("paper-two-servers"))))
    >>> rows[0].group, rows[0].resource, rows[0].used, rows[0].free
    ('high-memory', 'cpu', (('ann', 2.0),), 0.0)
    """
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


@dataclass(frozen=True, slots=True)
class UserChange:
    """One user before and after; None where it is not there.

    Attributes
    ----------
    user : str
        Its name.
    tasks_before, tasks_after : float or None
        Tasks that it can really run.
    share_before, share_after : float or None
        Its dominant share, of what it is given.
    """

    user: str
    tasks_before: float | None
    tasks_after: float | None
    share_before: float | None
    share_after: float | None

    @property
    def difference(self) -> float | None:
        """How many tasks more it can run, round-off left out; None if it came or left."""
        was, now = self.tasks_before, self.tasks_after
        if was is None or now is None:
            return None
        return 0.0 if abs(now - was) <= 1e-9 * max(was, now) else now - was


def changes(before: Answer, after: Answer) -> list[UserChange]:
    """Return every user before and after: in the order of `after`, then those who left.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.web.workbook import Workbook
    >>> from drfh.web.steps import RemoveUser
    >>> book = Workbook(load_scenario("paper-two-servers"))
    >>> before = answer_of(book)
    >>> book.do(RemoveUser("bob"))
    >>> [(row.user, row.tasks_before, row.tasks_after) for row in changes(before, answer_of(book))]
    [('ann', 10.0, 12.0), ('bob', 10.0, None)]
    """
    old, new = _held(before), _held(after)
    nothing = (None, None)
    rows = []
    for user in (*new, *(name for name in old if name not in new)):
        (tasks, share), (later, larger) = old.get(user, nothing), new.get(user, nothing)
        rows.append(UserChange(user, tasks, later, share, larger))
    return rows


def change_words(before: Answer, after: Answer, rows: Sequence[UserChange]) -> str:
    """Return who wins and who loses, in a line; and whether new servers help nobody.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.web.workbook import Workbook
    >>> from drfh.web.steps import RemoveUser
    >>> book = Workbook(load_scenario("paper-two-servers"))
    >>> before = answer_of(book)
    >>> book.do(RemoveUser("bob"))
    >>> after = answer_of(book)
    >>> change_words(before, after, changes(before, after))
    '1 user left; 1 user can run more'
    """
    apart = [row.difference for row in rows]
    told = (
        (sum(row.tasks_before is None for row in rows), "came"),
        (sum(row.tasks_after is None for row in rows), "left"),
        (sum(one is not None and one > 0 for one in apart), "can run more"),
        (sum(one is not None and one < 0 for one in apart), "can run less"),
    )
    words = "; ".join(f"{some(count, 'user')} {what}" for count, what in told if count)
    if not any(apart):
        words = f"{words}; the others can run the same" if words else "Everybody can run the same."
    known = set(before.scenario.cluster.names)
    idle = [name for name in _unusable(after) if name not in known]
    if idle:
        listed = ", ".join(idle[:3]) + (f" and {len(idle) - 3:,} more" if len(idle) > 3 else "")
        words = f"{words.rstrip('.')}. Nobody may use {listed}: see “may use” in the users' table, "
        words += "or raise the count of servers that they may use."
    return words


def _unusable(answer: Answer) -> list[str]:
    """Return the groups on which nobody may run, or has all that it needs."""
    problem = answer.allocation.problem
    usable = problem.usable_on(np.arange(len(problem.blocks)))
    if usable is None:
        return []
    used = np.bincount(problem.blocks.group, usable.any(axis=0), len(problem.cluster)) > 0
    return [problem.cluster.names[group] for group in np.flatnonzero(~used).tolist()]


def _held(answer: Answer) -> dict[str, tuple[float, float]]:
    """Return the tasks that each user can really run, and its share."""
    allocation = answer.allocation
    tasks = {**allocation.tasks, **real_tasks(allocation, answer.truths)}
    return {user: (tasks[user], share) for user, share in allocation.shares.items()}


def why(answer: Answer, user: str) -> str:
    """Return what limits a user, in a sentence.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.web.workbook import Workbook
    >>> why(answer_of(Workbook(load_scenario("nsdi11-single-server"))), "A").partition(": ")[2]
    'cpu is used up on server.'
    """
    return answer.allocation.explain(user)
