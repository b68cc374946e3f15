"""What a workbook comes to: who gets what and why, as rows for tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from drfh.allocation.allocation import Allocation
from drfh.allocation.explain import explain
from drfh.allocation.problem import Problem
from drfh.auditor.bundles import Bundles
from drfh.auditor.case import Case
from drfh.auditor.comparison import WHOLE_TASKS
from drfh.auditor.lies import utility
from drfh.errors import DrfhError, InputError, SolverError
from drfh.mechanisms import Mechanism, Solution, allocate
from drfh.mechanisms.shared.slots import check_servers, slots_mechanism
from drfh.model.resources import some
from drfh.model.scenario import Scenario
from drfh.model.users import User
from drfh.web.session.editing import unrestricted
from drfh.web.session.workbook import Workbook

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
    "real_tasks",
    "used_rows",
    "user_rows",
    "why",
]


@dataclass(frozen=True, eq=False)
class Answer:
    """What a mechanism gives, and what is known about it.

    Attributes
    ----------
    scenario : Scenario
        As the users report it.
    allocation : Allocation
        The answer.
    fair : Allocation
        The DRFH answer: the ideal. The same one, if that is the mechanism.
    mechanism : str
        Its name.
    seconds : float
        How long the solver took, certificate included.
    gap : float or None
        Relative gap of the proof; None if the mechanism has none.
    proven : bool
        Whether the gap is closed.
    truths : dict
        The true record of every user that lies.
    """

    scenario: Scenario
    allocation: Allocation
    fair: Allocation
    mechanism: str
    seconds: float
    gap: float | None
    proven: bool
    truths: Mapping[str, User] = field(default_factory=dict)

    @property
    def lies(self) -> dict[str, Mapping[str, float]]:
        """The true demand of every user that lies."""
        return {name: user.demand for name, user in self.truths.items()}


def answer_of(book: Workbook, mechanism: str = "drfh") -> Answer:
    """Return what a mechanism gives for a workbook.

    Parameters
    ----------
    book
        What to share, among whom.
    mechanism
        A name as `drfh.allocate` takes it; ``whole-tasks``; or ``slots:N``.

    Raises
    ------
    DrfhError
        If the mechanism has no answer.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> answer = answer_of(Workbook(load_scenario("paper-two-servers")))
    >>> answer.allocation.tasks, answer.proven
    ({'ann': 10.0, 'bob': 10.0}, True)
    """
    scenario = book.scenario
    allocation = _allocated(scenario, mechanism)
    fair = allocation if mechanism == "drfh" else allocation.divisible
    proof = allocation.certificate
    return Answer(
        scenario,
        allocation,
        _allocated(scenario, "drfh") if fair is None else fair,
        mechanism,
        allocation.seconds,
        None if proof is None else proof.gap,
        proof is not None and proof.closed,
        book.truths,
    )


def own_mechanism(scenario: Scenario) -> str:
    """Return the mechanism that a scenario asks for.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> own_mechanism(load_scenario("claim-h-whole-tasks"))
    'whole-tasks'
    """
    if scenario.mechanism == "drfh" and scenario.parameters.get("whole_tasks"):
        return WHOLE_TASKS
    return scenario.mechanism


def own_parameters(scenario: Scenario, mechanism: str) -> dict[str, Any]:
    """Return the parameters that a scenario has for a mechanism.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> own_parameters(load_scenario("claim-h-whole-tasks"), "whole-tasks")
    {}
    """
    whole = mechanism == WHOLE_TASKS
    if scenario.mechanism != ("drfh" if whole else mechanism):
        return {}
    left_out = {"whole_tasks"} if whole else {"whole_tasks", "reference"}
    return {name: value for name, value in scenario.parameters.items() if name not in left_out}


def _allocated(scenario: Scenario, mechanism: str) -> Allocation:
    whole = mechanism == WHOLE_TASKS
    chosen: str | Mechanism = "drfh" if whole else mechanism
    own = own_parameters(scenario, mechanism)
    if whole:
        check_servers(scenario.cluster.size)
    if mechanism.startswith("slots:"):
        chosen = slots_mechanism(mechanism)
    try:
        return allocate(
            scenario.cluster, scenario.users, mechanism=chosen, whole_tasks=whole, **own
        )
    except DrfhError:
        raise
    except Exception as error:
        words = " ".join(str(error).split())
        raise SolverError(f"{mechanism}: {type(error).__name__}: {words}") from error


def real_tasks(allocation: Allocation, truths: Mapping[str, User]) -> dict[str, float]:
    """Return the true tasks of every liar, as the auditor counts them.

    Parameters
    ----------
    allocation
        The answer to what the users report.
    truths
        The true record of every user that lies.

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> told = allocate(Cluster([Server({"cpu": 8})]), [User("ann", {"cpu": 2})])
    >>> real_tasks(told, {"ann": User("ann", {"cpu": 1})})
    {'ann': 8.0}
    """
    return {name: _real(allocation, name, truth) for name, truth in truths.items()}


def _real(allocation: Allocation, name: str, truth: User) -> float:
    told = allocation.problem
    position = told.names().index(name)
    # Of the others only the number matters, and to resolve their restrictions takes long.
    users = [unrestricted(user) for user in told.users]
    users[position] = truth
    try:
        problem = Problem.build(told.cluster, users)
    except InputError:
        return 0.0  # it truly needs what no server has any more
    nothing = np.zeros(0, dtype=np.int64)
    empty = np.zeros((0, problem.demand.shape[1]))
    bundles = Bundles(problem, nothing, nothing, empty, whole=allocation.whole)
    case = Case(Scenario(told.cluster, tuple(users)), bundles)
    return utility(case, Solution(allocation.assignment), position)


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
    >>> from drfh.web.session.workbook import Workbook
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
    >>> from drfh.web.session.workbook import Workbook
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
    >>> from drfh.web.session.workbook import Workbook
    >>> from drfh.web.session.steps import RemoveUser
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
    >>> from drfh.web.session.workbook import Workbook
    >>> from drfh.web.session.steps import RemoveUser
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
    >>> from drfh.web.session.workbook import Workbook
    >>> why(answer_of(Workbook(load_scenario("nsdi11-single-server"))), "A").partition(": ")[2]
    'cpu is used up on server.'
    """
    return answer.allocation.explain(user)
