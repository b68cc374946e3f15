"""Lies: false claims of users, and what they gain by them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from drfh.allocation.placement import Placement
from drfh.allocation.problem import Bools, Floats, Ints, Problem
from drfh.auditor.bundles import Bundles, best_use
from drfh.auditor.case import Case, rows_of_others
from drfh.auditor.finding import Counterexample
from drfh.errors import InputError, SolverError
from drfh.formatting import format_amount, join_names, plural
from drfh.mechanisms import Solution, prepare
from drfh.model.users import Kind, User, shown_restriction

__all__ = [
    "MARGIN",
    "Lie",
    "Search",
    "asked",
    "candidates",
    "claimed_problem",
    "lying",
    "outcome",
    "utility",
    "verified",
    "who_pays",
]


_FACTORS = (1.1, 1.5, 2.0, 4.0, 8.0)
_MOST_COPIED = 6
_MOST_SHAPES = 6
_MOST_GROUPS = 3
_MOST_KINDS = 5
_RATIOS = (0.25, 0.5, 2.0, 4.0)


@dataclass(frozen=True, eq=False)
class Lie:
    """A false claim of a user: one demand, or a whole record.

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
    kind : int
        Which of its kinds of tasks the demand is of.
    """

    user: int
    label: str
    demand: Floats | None = None
    record: User | None = None
    kind: int = 0


def candidates(case: Case, user: int, rng: np.random.Generator) -> Iterator[Lie]:
    """Yield lies worth trying, from what helped against other mechanisms.

    One resource more or less; all as much as the dominant one; the shape of another user or of a
    server; a resource that it does not need; other servers; another number of tasks; and, for
    whole tasks, larger or smaller tasks. Of a user with several kinds of tasks all that for each
    kind (a sample of many), and other mixes: another ratio, kinds joined, split, and left out.
    """
    record = case.scenario.users[user]
    rows = case.problem.rows_of(user).tolist()
    for kind in _some(rng, len(rows), _MOST_KINDS):
        whose = _of_kind(record, kind)
        for label, demand in _demands(case, rows[kind], rng):
            yield Lie(user, label + whose, demand, kind=kind)
        for label, changes in _records(case, record, kind, rows[kind], rng):
            yield Lie(user, label + whose, record=_with_kind(record, kind, **changes))
    if record.kinds:
        for label, kinds in _mixes(case, user, rng):
            yield Lie(user, label, record=replace(record, kinds=tuple(kinds)))


def _of_kind(record: User, kind: int) -> str:
    return f" for {_kind_name(record.kinds, kind)}" if record.kinds else ""


def _kind_name(kinds: Sequence[Kind], kind: int) -> str:
    return kinds[kind].name or f"kind {kind + 1}"


def _with_kind(record: User, kind: int, **changes: Any) -> User:
    """Return a record with changes to one of its kinds of tasks."""
    if not record.kinds:
        return replace(record, **changes)
    kinds = list(record.kinds)
    kinds[kind] = replace(kinds[kind], **changes)
    return replace(record, kinds=tuple(kinds))


def _demands(case: Case, user: int, rng: np.random.Generator) -> Iterator[tuple[str, Floats]]:
    """Yield claims about the demand of one kind of tasks."""
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
            yield f"{factor:.3g} times its {names[r]}", claim
    if len(needed) > 1:
        alike = np.where(true > 0, dominant * totals, 0.0)
        yield "as much of everything as of its dominant resource", alike
    yield from _shapes(case, user, rng)
    for r in np.flatnonzero((true == 0) & (problem.cluster.totals > 0)).tolist():
        for part in (0.01, 0.3, 1.0):
            claim = true.copy()
            claim[r] = part * dominant * totals[r]
            yield f"some {names[r]} that it does not need", claim
    if case.whole:
        for factor in (0.5, 2.0, 3.0, 4.0):
            yield f"tasks {factor:g} times as large", true * factor


def _shapes(case: Case, user: int, rng: np.random.Generator) -> Iterator[tuple[str, Floats]]:
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
        yield label, claim
        covered = claim[true > 0] / true[true > 0]
        yield f"{label}, all needs covered", claim / covered.min()


def _records(
    case: Case, record: User, kind: int, row: int, rng: np.random.Generator
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield claims about servers and about the number of tasks."""
    cluster = case.scenario.cluster
    group = case.problem.blocks.group
    allowed = np.unique(group[_allowed(case.problem, row)])
    others = np.setdiff1d(group, allowed)
    for g in _some(rng, len(others), _MOST_GROUPS):
        claim = [cluster.names[i] for i in (*allowed.tolist(), int(others[g]))]
        yield f"that it may use {cluster.names[int(others[g])]}", {"servers": claim}
    if 1 < len(allowed) <= 50:
        for g in _some(rng, len(allowed), _MOST_GROUPS):
            claim = [cluster.names[i] for i in allowed.tolist() if i != allowed[g]]
            yield f"that it may not use {cluster.names[int(allowed[g])]}", {"servers": claim}
    tasks = record.kinds[kind].tasks if record.kinds else record.tasks
    if tasks is not None:
        yield "half of its tasks", {"tasks": tasks / 2}
        yield "twice its tasks", {"tasks": tasks * 2}
        yield "endless tasks", {"tasks": None}


def _allowed(problem: Problem, row: int) -> Bools:
    """Return on which blocks a user may run tasks of one kind."""
    if problem.eligible is None or problem.restriction is None:
        return np.ones(len(problem.blocks), dtype=bool)
    may: Bools = problem.eligible[problem.restriction[row]]
    return may


def _mixes(case: Case, user: int, rng: np.random.Generator) -> Iterator[tuple[str, list[Kind]]]:
    """Yield claims about the mix: ratios; kinds joined, split, left out."""
    problem, true, kinds = case.problem, case.scenario.users[user].kinds, case.kinds_of(user)
    rows = problem.rows_of(user)
    for k in _some(rng, len(kinds), _MOST_KINDS):
        before, kind, after = kinds[:k], kinds[k], kinds[k + 1 :]
        name, ratio = _kind_name(true, k), kind.ratio or 1.0
        for factor in _RATIOS:
            changed = replace(kind, ratio=factor * ratio)
            yield f"{factor:g} times the ratio of {name}", [*before, changed, *after]
        half = None if kind.tasks is None else kind.tasks / 2
        halves = [
            replace(kind, ratio=ratio / 2, tasks=half, name=f"{kind.name}, part {part}")
            for part in (1, 2)
        ]
        yield f"{name} as two kinds", [*before, *halves, *after]
        yield f"no {name}", [*before, *after]
    pairs = list(combinations(range(len(kinds)), 2))
    joined: list[tuple[int, ...]] = [pairs[p] for p in _some(rng, len(pairs), _MOST_KINDS)]
    if len(kinds) > 2:
        joined.append(tuple(range(len(kinds))))
    for parts in joined:
        together = _joint(problem, rows[list(parts)], [kinds[k] for k in parts])
        if together is not None:
            label = f"{join_names(_kind_name(true, k) for k in parts)} as one task"
            rest = [kind for k, kind in enumerate(kinds) if k not in parts]
            yield label, [*rest, together]


def _joint(problem: Problem, rows: Ints, kinds: list[Kind]) -> Kind | None:
    """Return several kinds as one task; None without a common server."""
    assert problem.mixes is not None
    cluster, group = problem.cluster, problem.blocks.group
    parts = problem.mixes.ratio[rows] / problem.mixes.ratio[rows[0]]
    demand = parts @ problem.demand[rows]
    end = float((problem.limit[rows] / parts).min())
    servers = None
    if any(kind.servers is not None for kind in kinds):
        may = np.all([_allowed(problem, row) for row in rows.tolist()], axis=0)
        allowed = np.setdiff1d(group[may], group[~may]).tolist()
        if not allowed:
            return None
        servers = [cluster.names[g] for g in allowed]
    return Kind(
        {r: a for r, a in zip(cluster.resources, demand.tolist(), strict=True) if a > 0},
        tasks=end if math.isfinite(end) else None,
        servers=servers,
        ratio=kinds[0].ratio,
        name=" and ".join(kind.name or "" for kind in kinds),
    )


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
    if all(lie.demand is None for lie in lies):
        return problem
    demand = problem.demand.copy()
    for lie in lies:
        if lie.demand is not None:
            demand[problem.rows_of(lie.user)[lie.kind]] = lie.demand
    return replace(problem, demand=demand)


def outcome(
    case: Case, answer: Solution, user: int, claimed: Sequence[int] | None = None
) -> Floats:
    """Return everybody's true tasks after the claim of one user.

    Parameters
    ----------
    case
        The truth.
    answer
        To the claim.
    user
        Who gets something else than in the case.
    claimed
        The users of the answer that it is, if it claims to be several.
    """
    tasks, problem, placement = case.outcome.copy(), case.problem, answer.placement
    rows = problem.rows_of(user)
    if problem.mixes is not None and not case.whole:
        held = _truly_held(case, placement, claimed or [user])
        tasks[rows] = best_use(problem, user, *held)
    elif claimed is None:
        tasks[user] = utility(case, answer, user)
    else:
        counts = [placement.user_tasks[placement.problem.rows_of(i)] for i in claimed]
        tasks[rows] = np.minimum(sum(counts), problem.limit[rows])
    return tasks


def _truly_held(case: Case, placement: Placement, users: Sequence[int]) -> tuple[Ints, Floats]:
    """Return the blocks, in truth, of what users hold, and amounts."""
    sizes = case.problem.cluster.counts
    start = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    blocks = case.problem.blocks, placement.problem.blocks
    first = [start[b.group] + b.first for b in blocks]
    edges = np.union1d(*first)
    true, claimed = (np.searchsorted(f, edges, side="right") - 1 for f in first)
    part = np.diff(np.append(edges, sizes.sum())) / blocks[1].count[claimed]
    block, amounts = Bundles.of(placement).held_by(users)
    held = np.zeros((len(blocks[1]), amounts.shape[1]))
    held[block] = amounts
    return true, held[claimed] * part[:, None]


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
        self._best: list[tuple[float, Floats, Lie]] = []  # (gain, outcome, lie)

    def run(self) -> tuple[Lie, Floats, str] | None:
        """Return the best lie, what everybody could run with it, and how that is proven."""
        case = self._case
        n = len(case.scenario.users)
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
                return lie, gained, how
        return None

    def _random(self, user: int, rng: np.random.Generator) -> list[Lie]:
        problem, record = self._case.problem, self._case.scenario.users[user]
        rows = problem.rows_of(user).tolist()
        lies = []
        for kind in _some(rng, len(rows), _MOST_KINDS):
            true = problem.demand[rows[kind]]
            label = f"a demand drawn at random{_of_kind(record, kind)}"
            for _ in range(_RANDOM):
                claim = true * rng.lognormal(0, 0.5, len(true))
                lies.append(Lie(user, label, claim, kind=kind))
        return lies

    def _try(self, lie: Lie) -> float:
        self.tries += 1
        case = self._case
        answer = asked(case, [lie])
        if answer is None:
            return 0.0
        try:
            gained = outcome(case, answer, lie.user)
        except SolverError:
            return 0.0
        gain = float(case.lost(case.outcome, gained)[lie.user])
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
                    label = _described(self._case, lie, claim)
                    gain = self._try(replace(lie, label=label, demand=claim))
                    if gain > best * (1 + 1e-9):
                        best, demand, moved = gain, claim, True
            if not moved:
                step /= 2


def _described(case: Case, lie: Lie, claim: Floats) -> str:
    names = case.problem.cluster.resources
    parts = [f"{format_amount(a)} {r}" for r, a in zip(names, claim.tolist(), strict=True) if a > 0]
    true = case.problem.demand[case.problem.rows_of(lie.user)[lie.kind]]
    instead = [
        f"{format_amount(a)} {r}" for r, a in zip(names, true.tolist(), strict=True) if a > 0
    ]
    whose = _of_kind(case.scenario.users[lie.user], lie.kind)
    return f"{', '.join(parts)} instead of {', '.join(instead)}{whose}"


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
    liars = [lie.user for lie in lies]
    others = rows_of_others(answer.placement.problem, liars)
    after = case.outcome_beside(liars, case.outcome_of(answer)[others])
    return case.hurt(case.lost(after, case.outcome))


def lying(case: Case, lies: list[Lie], text: str, gained: Floats) -> Counterexample:
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
            claim = {r: a for r, a in claim.items() if a > 0}
            user = _with_kind(user, lie.kind, demand=claim)
        truths.append(f"{user.name} in truth: {_in_truth(users[lie.user])}")
        users[lie.user] = user
    liars = [lie.user for lie in lies]
    who = join_names(map(case.name, liars))
    return case.changed(
        f"{who} {plural(len(lies), 'lies', 'lie')}", text, detail=f"{'; '.join(truths)}.",
        users=users, before=case.by_name(case.outcome, liars), after=case.by_name(gained, liars),
    )  # fmt: skip


def _in_truth(user: User | Kind) -> str:
    if isinstance(user, User) and user.kinds:
        return "; ".join(
            f"{kind.name or f'kind {number}'} {_in_truth(kind)}"
            for number, kind in enumerate(user.kinds, start=1)
        )
    parts = [f"{format_amount(amount)} {r}" for r, amount in user.demand.items() if amount > 0]
    if user.tasks is not None:
        parts.append(f"{format_amount(user.tasks)} tasks")
    if user.servers is not None:
        parts.append(f"servers {shown_restriction(user.servers)}")
    if isinstance(user, Kind) and user.ratio is not None:
        parts.append(f"ratio {format_amount(user.ratio)}")
    return ", ".join(parts)
