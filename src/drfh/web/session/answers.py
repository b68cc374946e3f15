"""Answers to a workbook: solved, kept, and as rows for tables."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from drfh.allocation.allocation import Allocation
from drfh.allocation.explain import Explanation, explain
from drfh.allocation.problem import Problem
from drfh.allocation.proofs.certificate import proof_text
from drfh.auditor.bundles import Bundles
from drfh.auditor.case import Case
from drfh.auditor.comparison import WHOLE_TASKS
from drfh.auditor.lies import utility
from drfh.errors import DrfhError, InputError, SolverError
from drfh.formatting import format_count, format_elapsed, join_names
from drfh.mechanisms import WHOLE_PARAMETERS, Mechanism, Solution, allocate_problem, find_mechanism
from drfh.model.scenario import Scenario
from drfh.model.users import User
from drfh.web.session.steps import WorkbookState
from drfh.web.session.workbook import Workbook

__all__ = [
    "Answer",
    "AnswerCache",
    "UserChange",
    "UserRow",
    "answer_of",
    "change_text",
    "changes",
    "check_mechanism",
    "is_quick",
    "mechanism_of",
    "own_mechanism",
    "own_parameters",
    "real_tasks",
    "solve",
    "solved_text",
    "user_rows",
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
    proven : bool
        Whether there is a proof and its gap is closed.
    truths : dict
        The true record of every user that lies.
    """

    scenario: Scenario
    allocation: Allocation
    fair: Allocation
    mechanism: str
    seconds: float
    proven: bool
    truths: Mapping[str, User] = field(default_factory=dict)


def answer_of(book: Workbook, mechanism: str = "drfh") -> Answer:
    """Return the answer of a mechanism to a workbook.

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
    return solve(book.state, mechanism)


def solve(state: WorkbookState, mechanism: str) -> Answer:
    """Return the answer of a mechanism to a workbook's state."""
    allocation = _allocation(state, mechanism)
    fair = allocation if mechanism == "drfh" else allocation.divisible
    proof = allocation.certificate
    return Answer(
        state.scenario,
        allocation,
        _allocation(state, "drfh") if fair is None else fair,
        mechanism,
        allocation.seconds,
        proof is not None and proof.closed,
        state.true_users,
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
    left_out = {"whole_tasks", *WHOLE_PARAMETERS} - ({"reference"} if whole else set())
    return {name: value for name, value in scenario.parameters.items() if name not in left_out}


def mechanism_of(name: str) -> str | Mechanism:
    """Return a mechanism as `drfh.allocate` takes it, also of ``slots:N``.

    Examples
    --------
    >>> mechanism_of("tsf")
    'tsf'
    """
    if not name.startswith("slots:"):
        return name
    from drfh.mechanisms.shared.slots import slots_mechanism

    return slots_mechanism(name)


def check_mechanism(name: str) -> None:
    """Raise if there is no mechanism of a name that :func:`answer_of` takes; empty is the own one.

    Examples
    --------
    >>> check_mechanism("tsf"), check_mechanism("whole-tasks")
    (None, None)
    """
    if name and name != WHOLE_TASKS:
        find_mechanism(mechanism_of(name))


def _allocation(state: WorkbookState, mechanism: str) -> Allocation:
    whole = mechanism == WHOLE_TASKS
    own = own_parameters(state.scenario, mechanism)
    if whole:
        from drfh.mechanisms.shared.slots import check_servers

        check_servers(state.scenario.cluster.size)
    chosen = "drfh" if whole else mechanism_of(mechanism)
    try:
        if whole:
            own["filling"] = "paper"  # an answer at once, the same each time
        return allocate_problem(state.problem, mechanism=chosen, whole_tasks=whole, **own)
    except DrfhError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())
        raise SolverError(f"{mechanism}: {type(error).__name__}: {text}") from error


def real_tasks(allocation: Allocation, truths: Mapping[str, User]) -> dict[str, float]:
    """Return how many true tasks every user that lies can run.

    Parameters
    ----------
    allocation
        The answer to what the users report.
    truths
        The true record of every user that lies.

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> reported = allocate(Cluster([Server({"cpu": 8})]), [User("ann", {"cpu": 2})])
    >>> real_tasks(reported, {"ann": User("ann", {"cpu": 1})})
    {'ann': 8.0}
    """
    return {name: _real(allocation, name, truth) for name, truth in truths.items()}


def _real(allocation: Allocation, name: str, truth: User) -> float:
    reported = allocation.problem
    position = reported.names().index(name)
    # Of the others only the number matters, and to resolve their restrictions takes long.
    users = [_unrestricted(user) for user in reported.users]
    users[position] = truth
    try:
        problem = Problem.build(reported.cluster, users)
    except InputError:
        return 0.0  # it truly needs what no server has any more
    nothing = np.zeros(0, dtype=np.int64)
    empty = np.zeros((0, problem.demand.shape[1]))
    bundles = Bundles(problem, nothing, nothing, empty, whole=allocation.whole)
    case = Case(Scenario(reported.cluster, tuple(users)), bundles)
    return utility(case, Solution(allocation.assignment), position)


def _unrestricted(user: User) -> User:
    return user if user.servers is None else replace(user, servers=None)


# Pairs of user and server group up to which rows say what limits each user.
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
    limiting : Explanation or None
        What limits it; None where that would take long.
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
    limiting: Explanation | None


def user_rows(answer: Answer) -> list[UserRow]:
    """Return a row a user, in user order.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.web.session.workbook import Workbook
    >>> row = user_rows(answer_of(Workbook(load_scenario("paper-two-servers"))))[0]
    >>> row.user, row.tasks, round(row.share, 3), row.limiting.reason
    ('ann', 10.0, 0.714, 'cpu is used up on high-memory and memory is used up on high-cpu')
    """
    allocation = answer.allocation
    problem = allocation.problem
    real = real_tasks(allocation, answer.truths)
    promised = allocation.promised_tasks
    explained = len(problem.users) * len(problem.blocks) <= _MOST_REASONS
    known: dict[Any, Any] = {}
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
            explain(allocation, i, known) if explained else None,
        )
        for i, (user, tasks, share, level, ideal) in enumerate(columns)
    ]


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
        """How many tasks more it can run; None if it came or left."""
        was, now = self.tasks_before, self.tasks_after
        if was is None or now is None:
            return None
        return 0.0 if abs(now - was) <= 1e-9 * max(was, now) else now - was


def changes(before: Answer, after: Answer) -> list[UserChange]:
    """Return every user before and after; those who left come last.

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


def change_text(before: Answer, after: Answer, rows: Sequence[UserChange]) -> str:
    """Return how many users can run more or less, as text.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.web.session.workbook import Workbook
    >>> from drfh.web.session.steps import RemoveUser
    >>> book = Workbook(load_scenario("paper-two-servers"))
    >>> before = answer_of(book)
    >>> book.do(RemoveUser("bob"))
    >>> after = answer_of(book)
    >>> change_text(before, after, changes(before, after))
    '1 user left; 1 user can run more'
    """
    apart = [row.difference for row in rows]
    counted = (
        (sum(row.tasks_before is None for row in rows), "came"),
        (sum(row.tasks_after is None for row in rows), "left"),
        (sum(one is not None and one > 0 for one in apart), "can run more"),
        (sum(one is not None and one < 0 for one in apart), "can run less"),
    )
    text = "; ".join(f"{format_count(count, 'user')} {what}" for count, what in counted if count)
    if not any(apart):
        text = f"{text}; the others can run the same" if text else "Everybody can run the same."
    known = set(before.scenario.cluster.names)
    idle = [name for name in _unusable(after) if name not in known]
    if idle:
        listed = join_names(idle, "", most=3)
        text = f"{text.rstrip('.')}. Nobody may use {listed}: see “may use” in the users' table, "
        text += "or raise the count of servers that they may use."
    return text


def _unusable(answer: Answer) -> list[str]:
    """Return the groups on which no user can run."""
    problem = answer.allocation.problem
    usable = problem.usable_on(np.arange(len(problem.blocks)))
    if usable is None:
        return []
    used = np.bincount(problem.blocks.group, usable.any(axis=0), len(problem.cluster)) > 0
    return [problem.cluster.names[group] for group in np.flatnonzero(~used).tolist()]


def _held(answer: Answer) -> dict[str, tuple[float, float]]:
    """Return the tasks that each user can run, and its share."""
    allocation = answer.allocation
    tasks = {**allocation.tasks, **real_tasks(allocation, answer.truths)}
    return {user: (tasks[user], share) for user, share in allocation.shares.items()}


_KEPT = 8
# Pairs of user and server group up to which a linear program is quick; and without one.
_MOST_PAIRS = 2_500
_MOST_SIMPLE_PAIRS = 200_000


class AnswerCache:
    """The last answers of a page, by state and mechanism."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, str], tuple[WorkbookState, Answer]] = OrderedDict()

    def get(self, state: WorkbookState, mechanism: str) -> Answer | None:
        """Return a kept answer."""
        kept, answer = self._kept.get((id(state), mechanism), (None, None))
        return answer if kept is state else None

    def keep(self, state: WorkbookState, answer: Answer) -> None:
        """Keep an answer, until there are :data:`_KEPT` newer ones."""
        self._kept[id(state), answer.mechanism] = state, answer
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)


def is_quick(scenario: Scenario, mechanism: str) -> bool:
    """Return whether a page may wait for an answer.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> scenario = load_scenario("google-2011")
    >>> is_quick(scenario, "drfh"), is_quick(scenario, "nash")
    (True, False)
    """
    if mechanism != "drfh":
        return False
    pairs = len(scenario.users) * len(scenario.cluster)
    simple = all(user.servers is None for user in scenario.users)
    return pairs <= (_MOST_SIMPLE_PAIRS if simple else _MOST_PAIRS)


def solved_text(answer: Answer) -> str:
    """Return how an answer was found and how sure it is.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from drfh import load_scenario
    >>> answer = answer_of(Workbook(load_scenario("paper-two-servers")))
    >>> solved_text(replace(answer, seconds=0.0004))
    '0.4 ms: proven optimal'
    """
    took = format_elapsed(answer.seconds)
    proof = answer.allocation.certificate
    return took if proof is None else f"{took}: {proof_text(proof)}"
