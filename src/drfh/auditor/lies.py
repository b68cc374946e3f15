"""Lies: false claims of users, and what they gain by them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from drfh.allocation.placement import Placement
from drfh.allocation.problem import Floats, Problem
from drfh.auditor.case import Case, lost
from drfh.auditor.finding import Counterexample
from drfh.errors import InputError, SolverError
from drfh.formatting import format_amount, join_names, plural
from drfh.mechanisms import Solution, prepare
from drfh.model.users import User, shown_restriction

__all__ = [
    "MARGIN",
    "Lie",
    "Search",
    "asked",
    "candidates",
    "claimed_problem",
    "demand_lie",
    "lying",
    "utility",
    "verified",
    "who_pays",
]


_FACTORS = (1.1, 1.5, 2.0, 4.0, 8.0)
_MOST_COPIED = 6
_MOST_SHAPES = 6
_MOST_GROUPS = 3


@dataclass(frozen=True, eq=False)
class Lie:
    """A false claim of a user: a demand, or a whole record.

    Attributes
    ----------
    user : int
        Who lies.
    label : str
        What is claimed; the same for the same kind of lie of another user.
    demand : array or None
        Claimed demand of one task; None for the true one.
    record : User or None
        Claimed record, for lies about anything but the demand.
    """

    user: int
    label: str
    demand: Floats | None = None
    record: User | None = None


def demand_lie(case: Case, user: int, demand: Floats, label: str) -> Lie:
    """Return a lie about the demand."""
    return Lie(user, label, demand)


def candidates(case: Case, user: int, rng: np.random.Generator) -> Iterator[Lie]:
    """Yield lies worth trying, from what helped against other mechanisms.

    One resource more or less; all as much as the dominant one; the shape of another user or of a
    server; a resource that it does not need; other servers; another number of tasks; and, for
    whole tasks, larger or smaller tasks.
    """
    problem = case.problem
    true = problem.demand[user]
    totals = np.where(problem.cluster.totals > 0, problem.cluster.totals, 1.0)
    dominant = float(problem.task_share[user])
    names = problem.cluster.resources
    needed = np.flatnonzero(true > 0).tolist()
    for r in needed:
        for factor in (*_FACTORS, *(1 / f for f in _FACTORS)):
            claim = true.copy()
            claim[r] *= factor
            yield Lie(user, f"{factor:.3g} times its {names[r]}", claim)
    if len(needed) > 1:
        yield Lie(
            user, "as much of everything as of its dominant resource",
            np.where(true > 0, dominant * totals, 0.0),
        )  # fmt: skip
    yield from _shapes(case, user, rng)
    for r in np.flatnonzero((true == 0) & (problem.cluster.totals > 0)).tolist():
        for part in (0.01, 0.3, 1.0):
            claim = true.copy()
            claim[r] = part * dominant * totals[r]
            yield Lie(user, f"some {names[r]} that it does not need", claim)
    if case.whole:
        for factor in (0.5, 2.0, 3.0, 4.0):
            yield Lie(user, f"tasks {factor:g} times as large", true * factor)
    yield from _records(case, user, rng)


def _shapes(case: Case, user: int, rng: np.random.Generator) -> Iterator[Lie]:
    """Yield claims that look like another user or like a server, as large as the own task."""
    problem = case.problem
    totals = np.where(problem.cluster.totals > 0, problem.cluster.totals, 1.0)
    dominant = float(problem.task_share[user])
    shapes = [
        (f"the shape of {problem.users[j].name}", problem.direction[j])
        for j in _some(rng, len(problem.users), _MOST_COPIED)
        if j != user
    ]
    capacity = problem.cluster.capacity / totals
    shapes += [
        (f"the shape of {problem.cluster.names[g]}", capacity[g] / capacity[g].max())
        for g in _some(rng, len(capacity), _MOST_SHAPES)
    ]
    true = problem.demand[user]
    for label, shape in shapes:
        claim = shape * dominant * totals
        # What it needs it must claim, else what it gets is of no use.
        claim = np.where((true > 0) & (claim <= 0), 1e-3 * true, claim)
        yield Lie(user, label, claim)
        covered = claim[true > 0] / true[true > 0]
        yield Lie(user, f"{label}, all needs covered", claim / covered.min())


def _records(case: Case, user: int, rng: np.random.Generator) -> Iterator[Lie]:
    """Yield claims about servers and about the number of tasks."""
    record = case.scenario.users[user]
    cluster = case.scenario.cluster
    problem = case.problem
    blocks = np.arange(len(problem.blocks))
    group = problem.blocks.group
    may = np.ones(len(blocks), dtype=bool)
    if problem.eligible is not None and problem.restriction is not None:
        may = problem.eligible[problem.restriction[user]]
    allowed = np.unique(group[may])
    others = np.setdiff1d(group, allowed)
    for g in _some(rng, len(others), _MOST_GROUPS):
        claim = [cluster.names[i] for i in (*allowed.tolist(), int(others[g]))]
        label = f"that it may use {cluster.names[int(others[g])]}"
        yield Lie(user, label, record=replace(record, servers=claim))
    if 1 < len(allowed) <= 50:
        for g in _some(rng, len(allowed), _MOST_GROUPS):
            claim = [cluster.names[i] for i in allowed.tolist() if i != allowed[g]]
            label = f"that it may not use {cluster.names[int(allowed[g])]}"
            yield Lie(user, label, record=replace(record, servers=claim))
    if record.tasks is not None:
        for label, tasks in (
            ("half of its tasks", record.tasks / 2),
            ("twice its tasks", record.tasks * 2),
            ("endless tasks", None),
        ):
            yield Lie(user, label, record=replace(record, tasks=tasks))


def _some(rng: np.random.Generator, count: int, most: int) -> list[int]:
    if count <= most:
        return list(range(count))
    return sorted(int(i) for i in rng.choice(count, most, replace=False))


def claimed_problem(case: Case, lies: list[Lie]) -> Problem:
    """Return the problem that the mechanism sees when users lie."""
    problem = case.problem
    records = {lie.user: lie.record for lie in lies if lie.record is not None}
    if records:
        users = [records.get(i, user) for i, user in enumerate(case.scenario.users)]
        problem = Problem.build(case.scenario.cluster, users)
    demands = {lie.user: lie.demand for lie in lies if lie.demand is not None}
    if not demands:
        return problem
    demand = problem.demand.copy()
    for user, row in demands.items():
        demand[user] = row
    return replace(problem, demand=demand)


def utility(case: Case, solution: Solution, user: int) -> float:
    """Return the true tasks of a user with a lie's bundle."""
    placement = solution.placement
    mine = placement.user == user
    need, claim = case.problem.demand[user], placement.problem.demand[user]
    use = float((claim[need > 0] / need[need > 0]).min())  # true tasks for each claimed one
    if use <= 0 or not mine.any():
        return 0.0
    blocks = np.arange(len(placement.problem.blocks))
    if case.whole or case.problem.eligible is not None or placement.problem.eligible is not None:
        block, owner, tasks = placement.entries_of(blocks)
        tasks, block = tasks[owner == user], block[owner == user]
        tasks = tasks * use * _truly_usable(case, placement, user)[block]
        if case.whole:
            tasks = np.floor(tasks * (1 + 1e-9))
        total = float(tasks.sum())
    else:
        total = float(placement.tasks[mine].sum()) * use
    return min(total, float(case.problem.limit[user]))


def _truly_usable(case: Case, placement: Placement, user: int) -> Floats:
    """Return the part of the servers of each block, as claimed, that the user can really use."""
    problem = case.problem
    sizes = problem.cluster.counts
    start = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    blocks = problem.blocks
    can = problem.can_use(np.full(len(blocks), user), np.arange(len(blocks)))
    edges = np.append(start[blocks.group] + blocks.first, sizes.sum())
    usable = np.concatenate(([0.0], np.cumsum(can * blocks.count)))
    blocks = placement.problem.blocks
    first = start[blocks.group] + blocks.first
    inside = np.interp(first + blocks.count, edges, usable) - np.interp(first, edges, usable)
    part: Floats = inside / blocks.count
    return part


#: A gain below this is not told from a solver's noise.
MARGIN = 1e-4
_BEST = 5
_SMALLEST_STEP = 0.02
_RANDOM = 4
_MOST_MOVES = 60


class Search:
    """Search for lies: directed candidates, then a pattern search."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self.tries = 0
        self.planned = 0
        self._best: list[tuple[float, float, Lie]] = []  # (gain, utility, lie)

    def run(self) -> tuple[Lie, float, float, str] | None:
        """Return the best lie, tasks with truth and lie, and proof."""
        case = self._case
        n = len(case.problem.users)
        prepare(case.problem, case.tries)
        rng = np.random.default_rng(case.seed)
        lies = [
            lie
            for i in case.shuffled(n, max(1, case.tries // 20))
            for lie in (*candidates(case, i, rng), *self._random(i, rng))
        ]
        # In any order: what is cut off, by their number or by time, is a sample of all.
        order = rng.permutation(len(lies))[: case.tries].tolist()
        self.planned = len(order)
        for lie in case.timed([lies[k] for k in order]):
            self._try(lie)
        for _, _, lie in case.timed(list(self._best)):
            if lie.demand is not None:
                self._pattern(lie)
        for gain, gained, lie in self._best:
            if gain <= MARGIN:
                break
            answer = asked(case, [lie])
            if answer is not None and (how := verified(case, answer)):
                return lie, float(case.tasks[lie.user]), gained, how
        return None

    def _random(self, user: int, rng: np.random.Generator) -> list[Lie]:
        true = self._case.problem.demand[user]
        return [
            Lie(user, "a demand drawn at random", true * rng.lognormal(0, 0.5, len(true)))
            for _ in range(_RANDOM)
        ]

    def _try(self, lie: Lie) -> float:
        self.tries += 1
        case = self._case
        answer = asked(case, [lie])
        if answer is None:
            return 0.0
        gained = utility(case, answer, lie.user)
        truth = float(case.tasks[lie.user])
        gain = float(lost(truth, gained))
        if gain > 1e-9:
            self._best.append((gain, gained, lie))
            self._best.sort(key=lambda entry: -entry[0])
            del self._best[_BEST:]
        return gain

    def _pattern(self, lie: Lie) -> None:
        """Move one coordinate at a time while it pays; halve the step where it does not."""
        if lie.demand is None:
            return
        best, demand, step = self._try(lie), lie.demand, 0.5
        last = self.tries + _MOST_MOVES
        while step > _SMALLEST_STEP and self.tries < last:
            moved = False
            for r in np.flatnonzero(demand > 0).tolist():
                for factor in (1 + step, 1 / (1 + step)):
                    claim: Floats = demand.copy()
                    claim[r] *= factor
                    gain = self._try(Lie(lie.user, _described(self._case, lie.user, claim), claim))
                    if gain > best * (1 + 1e-9):
                        best, demand, moved = gain, claim, True
            if not moved:
                step /= 2


def _described(case: Case, user: int, claim: Floats) -> str:
    names = case.problem.cluster.resources
    parts = [f"{format_amount(a)} {r}" for r, a in zip(names, claim.tolist(), strict=True) if a > 0]
    true = case.problem.demand[user]
    instead = [
        f"{format_amount(a)} {r}" for r, a in zip(names, true.tolist(), strict=True) if a > 0
    ]
    return f"{', '.join(parts)} instead of {', '.join(instead)}"


def asked(case: Case, lies: list[Lie]) -> Solution | None:
    """Return the mechanism's answer to lies; None if they are refused."""
    try:
        return case.ask(claimed_problem(case, lies))
    except (InputError, SolverError):
        return None


def verified(case: Case, answer: Solution) -> str:
    """Return how both answers are proven, or nothing."""
    if case.whole:
        return "counting in integers"
    first, second = case.certificate, answer.certificate
    if first is None or second is None:
        # Nothing to prove it with: the answer was asked for twice, and the text has it.
        return "asking again only, there is no certificate" if first is second else ""
    return "certificates" if first.verify() and second.verify() else ""


def who_pays(case: Case, lies: list[Lie]) -> tuple[str, ...]:
    """Return who pays for the lie."""
    answer = asked(case, lies)
    if answer is None:
        return ()
    fall = lost(answer.placement.user_tasks, case.tasks)
    for lie in lies:
        fall[lie.user] = 0.0
    return case.hurt(fall)


def lying(
    case: Case, lies: list[Lie], text: str, before: dict[str, float], after: dict[str, float]
) -> Counterexample:
    """Return the counterexample: the case as the users claim it to be."""
    users = list(case.scenario.users)
    names = case.problem.cluster.resources
    truths = []
    for lie in lies:
        user = users[lie.user]
        if lie.record is not None:
            user = lie.record
        if lie.demand is not None:
            claim = dict(zip(names, lie.demand.tolist(), strict=True))
            user = replace(user, demand={r: a for r, a in claim.items() if a > 0})
        truths.append(f"{user.name} in truth: {_in_truth(users[lie.user])}")
        users[lie.user] = user
    who = join_names(case.name(lie.user) for lie in lies)
    return case.changed(
        f"{who} {plural(len(lies), 'lies', 'lie')}", text, detail=f"{'; '.join(truths)}.",
        users=users, before=before, after=after,
    )  # fmt: skip


def _in_truth(user: User) -> str:
    parts = [f"{format_amount(amount)} {r}" for r, amount in user.demand.items() if amount > 0]
    if user.tasks is not None:
        parts.append(f"{format_amount(user.tasks)} tasks")
    if user.servers is not None:
        parts.append(f"servers {shown_restriction(user.servers)}")
    return ", ".join(parts)
