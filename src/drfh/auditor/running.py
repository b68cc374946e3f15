"""What runs now beside the fair allocation: shares, what fits, who holds what is lacking."""

from __future__ import annotations

import heapq
import math
from typing import Any

import numpy as np

from drfh.allocation.allocation import Allocation
from drfh.allocation.explain import Cache, Explanation, LimitCode, Scarcity, explain
from drfh.allocation.fairness import missing_share, worst_off
from drfh.allocation.problem import Bools, Floats, Problem
from drfh.auditor.answer import ALMOST, FairnessAnswer, KindShare, TeamShare, Truthfulness
from drfh.auditor.case import Case, lost
from drfh.mechanisms.drfh import drfh
from drfh.mechanisms.shared.card import card_of

__all__ = ["answer_of"]

_MOST_STEPS = 20_000  # turns of starting waiting tasks


def answer_of(case: Case) -> FairnessAnswer:
    """Compare what runs now with the exact DRFH allocation.

    Parameters
    ----------
    case
        What was observed, see :func:`drfh.auditor.case_of`.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.auditor import case_of
    >>> rows = [{"user": "ann", "server": "high-memory", "tasks": 5},
    ...         {"user": "bob", "server": "high-cpu", "tasks": 10}]
    >>> answer = answer_of(case_of(load_scenario("paper-two-servers"), observed=rows))
    >>> answer.missing, [(team.name, round(team.difference, 4)) for team in answer.short]
    (0.25, [('ann', -0.3571)])
    >>> answer.worst_off, answer["ann"].fits
    ('ann', 5.0)
    """
    problem, best = case.problem, case.fair
    fair_tasks, tasks = best.placement.user_tasks, case.bundles.unlimited_tasks
    beyond = np.where(lost(problem.limit, tasks) > case.tolerance, tasks - problem.limit, 0.0)
    now, fair = case.shares(tasks), case.shares(fair_tasks)
    level = np.where(fair > 0, fair / case.weight, np.nan)
    below, above = lost(now, fair) > case.tolerance, lost(fair, now) > case.tolerance
    lacks, who = worst_off(now, case.weight, level)
    waiting = np.where(problem.reachable, np.maximum(problem.limit - tasks, 0.0), 0.0)
    waiting[waiting <= case.tolerance * np.maximum(tasks, 1.0)] = 0.0
    order = np.argsort(now - fair, kind="stable")
    fits, free = _fitting(case, tasks, waiting)
    allocation = Allocation(problem, best.placement, "drfh", best.method, best.certificate)
    cache: Cache = {}
    lacking = (waiting - fits > 0) & (tasks + fits < fair_tasks * (1 - case.tolerance))
    holders, furthest = _holders(case, lacking, above, free), order[::-1].tolist()
    parts, fair_parts = _parts(problem, tasks), _parts(problem, fair_tasks)
    totals = problem.cluster.totals
    teams = []
    for i in order.tolist():
        rows = problem.rows_of(i)
        why = [explain(allocation, row, cache) for row in rows.tolist()]
        code, scarce = _limit(why)
        kinds = [
            KindShare(
                case.kind_name(row) if len(rows) > 1 else "",
                float(tasks[row]),
                float(fair_tasks[row]),
                float(waiting[row]),
                float(fits[row]),
                *_limit([one]),
            )
            for row, one in zip(rows.tolist(), why, strict=True)
        ]
        queued = rows[waiting[rows] > 0]
        held = {j for row in rows.tolist() for j in holders[row]}
        least = problem.task_share[queued].min(initial=math.inf)
        largest = int((parts if above[i] else fair_parts)[i].argmax())
        teams.append(
            TeamShare(
                name=case.name(i),
                weight=float(case.weight[i]),
                now=float(now[i]),
                fair=float(fair[i]),
                tasks=float(tasks[rows].sum()),
                fair_tasks=float(fair_tasks[rows].sum()),
                waiting=float(waiting[rows].sum()),
                fits=float(fits[rows].sum()),
                resource=problem.cluster.resources[largest],
                amount=float(parts[i, largest] * totals[largest]),
                fair_amount=float(fair_parts[i, largest] * totals[largest]),
                below=bool(below[i]),
                within_a_task=bool(fair[i] - now[i] < least * (1 - ALMOST)),
                above=bool(above[i]),
                code=code,
                scarce=scarce,
                kinds=tuple(kinds),
                held_by=tuple(case.name(j) for j in furthest if j in held) if below[i] else (),
                beyond=float(beyond[rows].sum()),
            )
        )
    used, capacity = case.bundles.used, case.bundles.capacity
    total, unused = capacity.sum(axis=0), np.maximum(capacity - used, 0.0).sum(axis=0)
    claim, proof = card_of(drfh).claims["truthful"], best.certificate
    return FairnessAnswer(
        teams=tuple(teams),
        missing=float(missing_share(now, case.weight, level)),
        missing_later=float(missing_share(case.shares(tasks + fits), case.weight, level)),
        worst_off=case.name(int(who)) if below.any() else "",
        worst_missing=float(lacks) if below.any() else 0.0,
        free={
            resource: float(unused[r] / total[r])
            for r, resource in enumerate(problem.cluster.resources)
            if total[r] > 0
        },
        overfull=bool((used > capacity * (1 + ALMOST)).any()),
        by_group=bool((problem.blocks.count > 1).any()),
        truthful=Truthfulness(claim.source, claim.unmet(problem)),
        closed=proof is None or proof.closed,
        gap=0.0 if proof is None else proof.gap,
    )


def _limit(kinds: list[Explanation]) -> tuple[LimitCode, tuple[Scarcity, ...]]:
    """Return what limits a team: the kinds of tasks that do not all run count."""
    every = list(dict.fromkeys(part for kind in kinds for part in kind.scarce))
    scarce = tuple(part for part in every if not any(part.within(other) for other in every))
    codes = [kind.code for kind in kinds if kind.code is not LimitCode.ALL_TASKS]
    if scarce:
        return LimitCode.USED_UP, scarce
    return codes[0] if codes else LimitCode.ALL_TASKS, ()


def _parts(problem: Problem, tasks: Floats) -> Floats:
    """Return the parts of the pool that each team has, teams × resources."""
    parts: Floats = tasks[:, None] * problem.part_of_pool
    return parts if problem.mixes is None else problem.mixes.sums(parts)


def _fitting(case: Case, tasks: Floats, waiting: Floats) -> tuple[Floats, Floats]:
    """Return how many waiting tasks of each row fit now, nothing moved, and what is free then.

    The team with the lowest level starts a task next, of the kind of which it has least beside
    what the mix says, on the first server with room.
    """
    problem, bundles = case.problem, case.bundles
    free = np.maximum(bundles.capacity - bundles.used, 0.0)
    blocks = np.arange(len(free))
    left = np.floor(waiting * (1 + ALMOST))
    room: dict[int, list[int]] = {}  # blocks of each row on which a task may still fit
    most = 0.0
    for row in np.flatnonzero((left > 0) & problem.demand.any(axis=1)).tolist():
        needed = problem.demand[row] > 0
        fits = np.min(free[:, needed] / problem.demand[row, needed], axis=1) * (1 + ALMOST) >= 1
        here = np.flatnonzero(fits & problem.can_use(np.full(len(blocks), row), blocks))
        if len(here):
            room[row] = here[::-1].tolist()
            most += min(left[row], float(len(free)) * _MOST_STEPS)
    step = max(1.0, math.ceil(most / _MOST_STEPS))  # tasks that start together
    tasks, started = tasks.copy(), np.zeros(len(waiting))
    parts = _parts(problem, tasks)
    ratio = np.ones(len(waiting)) if problem.mixes is None else problem.mixes.ratio
    owner = {row: i for i in range(len(parts)) for row in problem.rows_of(i).tolist()}
    rows: dict[int, list[int]] = {}
    for row in room:
        rows.setdefault(owner[row], []).append(row)
    queue = [(float(parts[i].max() / case.weight[i]), i) for i in rows]
    heapq.heapify(queue)
    while queue:
        _, i = heapq.heappop(queue)
        while rows[i]:
            row = min(rows[i], key=lambda row: tasks[row] / ratio[row])
            need, where = problem.demand[row], room[row]
            while where and not (free[where[-1]] * (1 + ALMOST) >= need).all():
                where.pop()
            if not where or left[row] < 1:
                rows[i].remove(row)
                continue
            needed = need > 0
            some = float(np.floor((free[where[-1], needed] / need[needed]).min() * (1 + ALMOST)))
            some = min(some, left[row], step)
            free[where[-1]] = np.maximum(free[where[-1]] - some * need, 0.0)
            left[row] -= some
            tasks[row] += some
            started[row] += some
            parts[i] += some * problem.part_of_pool[row]
            heapq.heappush(queue, (float(parts[i].max() / case.weight[i]), i))
            break
    return started, free


def _holders(case: Case, lacking: Bools, above: Bools, free: Floats) -> list[list[int]]:
    """Return, for each row that lacks tasks, teams that hold what these need.

    Only teams above their fair share count, and only what keeps a task off a server that it may
    use: of what is `free` there it needs more.
    """
    problem = case.problem
    held = [(j, *case.bundles.held_by([j])) for j in np.flatnonzero(above).tolist()]
    blocks = np.arange(len(free))
    known: dict[Any, list[int]] = {}
    found: list[list[int]] = []
    for row in range(len(problem.users)):
        need = problem.demand[row]
        rule = None if problem.restriction is None else int(problem.restriction[row])
        key = (rule, need.tobytes())
        if lacking[row] and key not in known:
            usable = problem.can_use(np.full(len(blocks), row), blocks)
            short = (free * (1 + ALMOST) < need) & usable[:, None]
            known[key] = [team for team, block, amounts in held if (amounts * short[block]).any()]
        found.append(known[key] if lacking[row] else [])
    return found
