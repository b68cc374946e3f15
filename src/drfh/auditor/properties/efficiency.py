"""``feasible`` and ``non-wasteful``: nobody holds what is not there, or what it cannot use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drfh.allocation.problem import Entitlement, Floats, Problem
from drfh.auditor.case import Case, lost, worst_of
from drfh.auditor.finding import Counterexample, Finding
from drfh.formatting import format_amount, format_count, format_number, format_percent, join_names
from drfh.mechanisms.shared.leximin import lexicographic
from drfh.mechanisms.solvers.presolve import tasks_alone
from drfh.model.resources import TOLERANCE

__all__ = ["feasible", "non_wasteful", "pareto"]


_RELATIVE = 1e-12  # sums of many tasks round in the last digits
_ALONE = 10 * TOLERANCE  # of the tasks that a user could run alone: what a solver leaves open


def feasible(case: Case) -> Finding:
    """Every server holds what is on it, restrictions and numbers of tasks are respected."""
    problem, bundles = case.problem, case.bundles
    over = lost(bundles.capacity, bundles.used * (1 - _RELATIVE))
    worst = np.unravel_index(int(np.argmax(over)), over.shape)
    amount = float(over[worst])
    text = "every server holds what is placed on it"
    hurt: tuple[str, ...] = ()
    if amount > 0:
        server = problem.block_name(int(worst[0]))
        resource = problem.cluster.resources[int(worst[1])]
        used, capacity = float(bundles.used[worst]), float(bundles.capacity[worst])
        text = (
            f"{server} is over: {format_amount(used)} of {format_amount(capacity)} {resource} "
            "are taken"
        )
        here = np.unique(bundles.user[bundles.block == worst[0]])
        hurt = tuple(case.kind_name(i) for i in here[:10].tolist())
    # Where a user may not run, or beyond its tasks, all that it holds is too much.
    outside = ~problem.can_use(bundles.user, bundles.block) & bundles.amounts.any(axis=1)
    if outside.any():
        names = [case.kind_name(i) for i in np.unique(bundles.user[outside]).tolist()]
        first = int(np.flatnonzero(outside)[0])
        where = case.kind_name(int(bundles.user[first]))
        where += f" on {problem.block_name(int(bundles.block[first]))}"
        return case.found(
            "feasible", 1.0, f"tasks run where they may not or cannot: {where}",
            hurt=tuple(names[:10]), counterexample=_same(case, "runs where it may not"),
        )  # fmt: skip
    beyond = lost(problem.limit, bundles.unlimited_tasks * (1 - _RELATIVE))
    if beyond.max() > max(amount, case.tolerance):
        i = worst_of(beyond)
        amount, hurt = float(beyond[i]), case.hurt(beyond, problem.names())
        text = (
            f"{case.kind_name(i)} holds room for "
            f"{format_count(bundles.unlimited_tasks[i], 'task', 4)} and has only "
        )
        text += format_number(problem.limit[i])
    return case.found("feasible", amount, text, hurt=hurt, counterexample=_same(case, text))


def non_wasteful(case: Case) -> Finding:
    """Nobody holds more of a resource than its tasks use (Wang et al. 2014, definition 2)."""
    problem, bundles = case.problem, case.bundles
    need = problem.demand[bundles.user]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(need > 0, bundles.amounts / need, np.inf)
    tasks = ratio.min(axis=1)
    tasks[~problem.can_use(bundles.user, bundles.block)] = 0.0
    # Nor can a user use what it holds beyond its number of tasks.
    tasks *= (1 - lost(problem.limit, bundles.unlimited_tasks))[bundles.user]
    totals = np.where(problem.cluster.totals > 0, problem.cluster.totals, 1.0)
    spare = np.maximum(bundles.amounts - tasks[:, None] * need, 0.0) / totals
    held = bundles.amounts / totals
    n = len(problem.users)
    wasted = np.stack([np.bincount(bundles.user, c, n) for c in spare.T], axis=1)
    holds = np.stack([np.bincount(bundles.user, c, n) for c in held.T], axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(wasted > 1e-9 * holds, wasted / holds, 0.0)
    part[~np.isfinite(part)] = 0.0
    by_user = part.max(axis=1)
    amount = float(by_user.max(initial=0.0))
    worst = worst_of(by_user)
    resource = problem.cluster.resources[int(np.argmax(part[worst]))]
    text = "everybody can use all that it holds"
    if amount > case.tolerance:
        text = (
            f"{case.kind_name(worst)} cannot use {format_percent(amount)} of the {resource} that "
            "it holds"
        )
    return case.found(
        "non-wasteful",
        amount,
        text,
        hurt=case.hurt(by_user, problem.names()),
        counterexample=_same(case, text),
    )


def _same(case: Case, story: str) -> Counterexample:
    return case.changed(f"{case.scenario.title or 'case'}: {story}", story)


@dataclass(frozen=True, slots=True, eq=False)
class _Improved:
    """Level = tasks against what a user has now: leximin of it is the fairest improvement.

    What is there now puts everybody at level 1, so the leximin point is above 1 for somebody,
    and below 1 for nobody, exactly if there is a better allocation. Who has nothing, but for the
    round-off of what it could run alone, rises last.
    """

    tasks: Floats
    round_off: Floats

    def __call__(self, problem: Problem) -> Entitlement:
        share = self.tasks * problem.task_share
        some = self.tasks > self.round_off
        phase = None if some.all() else np.where(some, 0, 1).astype(np.int64)
        return Entitlement(np.where(some, share, problem.weight), problem.share_limit, phase)


def pareto(case: Case) -> Finding:
    """No other allocation gives somebody more and nobody less; else show the better one.

    One leximin of tasks / tasks now decides it, with its own certificate. A difference counts if
    it is no round-off of what the user could run alone.
    """
    if case.whole:
        return _one_more_task(case)
    now, round_off = case.tasks, _ALONE * tasks_alone(case.problem)
    answer = lexicographic(case.problem, _Improved(now, round_off))
    better = answer.placement.user_tasks
    counts = np.abs(better - now) > round_off
    gain = np.where(counts, lost(now, better), 0.0)
    worse = float(np.where(counts, lost(better, now), 0.0).max(initial=0.0))
    i = worst_of(gain)
    amount = float(gain[i])
    text = "nobody can have more without somebody having less"
    if case.problem.mixes is not None:
        text = "no kind of tasks can have more without another having less"
    example = None
    proof = answer.certificate
    if worse > case.tolerance:
        if feasible(case).verdict == "fails":  # then there is no allocation to compare with
            return case.skipped("pareto", "what is held does not fit on the servers")
        gap = 1.0 if proof is None else max(proof.gap, worse)
        return Finding("pareto", "not found", 0.0, f"{text}, but for a gap of {gap:.0e}")
    if amount > case.tolerance:
        names = [case.kind_name(j) for j in np.flatnonzero(gain > case.tolerance).tolist()]
        text = (
            f"{case.kind_name(i)} could have {format_count(better[i], 'task', 4)} instead of "
            f"{format_number(now[i])}"
        )
        text += f" and nobody less; {join_names(names, most=3)} would gain"
        example = case.changed(
            "a better allocation for all",
            text,
            before=case.by_name(now),
            after=case.by_name(better),
        )
    if proof is not None and not proof.closed and amount <= case.tolerance:
        return Finding("pareto", "not found", 0.0, f"{text}, but for a gap of {proof.gap:.0e}")
    hurt = case.hurt(gain, case.problem.names())
    return case.found("pareto", amount, text, hurt=hurt, counterexample=example)


def _one_more_task(case: Case) -> Finding:
    """Whole tasks: look for room for one more task, others left where they are."""
    problem, bundles = case.problem, case.bundles
    free = bundles.capacity - bundles.used
    blocks = np.arange(len(free))
    gain = np.zeros(len(problem.users))
    where = np.zeros(len(gain), dtype=np.int64)
    for i in range(len(gain)):
        if case.tasks[i] + 1 > problem.limit[i] * (1 + 1e-9):
            continue
        fits = (free >= problem.demand[i] * (1 - 1e-9)).all(axis=1)
        fits &= problem.can_use(np.full(len(blocks), i), blocks)
        if fits.any():
            gain[i] = float(lost(case.tasks[i], case.tasks[i] + 1))
            where[i] = int(np.argmax(fits))
    i = worst_of(gain)
    amount = float(gain[i])
    text = "no further task fits beside the others; moving tasks was not tried"
    example = None
    if amount > 0:
        server = problem.cluster.names[int(problem.blocks.group[where[i]])]
        text = f"{case.kind_name(i)} could run one more task on {server}, all others left in place"
        example = case.changed("one more task fits", text)
    return case.found(
        "pareto",
        amount,
        text,
        hurt=case.hurt(gain, problem.names()),
        counterexample=example,
        searched=True,
    )
