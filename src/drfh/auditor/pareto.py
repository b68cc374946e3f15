"""``pareto``: nobody can have more without somebody having less."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drfh.auditor.case import Case, lost
from drfh.auditor.finding import Finding
from drfh.auditor.words import listed, number, tasks_text
from drfh.entitlement import Entitlement
from drfh.mechanisms.lexicographic import lexicographic
from drfh.problem import Floats, Problem

__all__ = ["pareto"]


@dataclass(frozen=True, slots=True, eq=False)
class _Improved:
    """Level = tasks against what a user has now: leximin of it is the fairest improvement.

    What is there now puts everybody at level 1, so the leximin point is above 1 for somebody,
    and below 1 for nobody, exactly if there is a better allocation. Who has nothing rises last.
    """

    tasks: Floats

    def __call__(self, problem: Problem) -> Entitlement:
        share = self.tasks * problem.task_share
        some = share > 0
        phase = None if some.all() else np.where(some, 0, 1).astype(np.int64)
        return Entitlement(np.where(some, share, problem.weight), problem.share_limit, phase)


def pareto(case: Case) -> Finding:
    """No other allocation gives somebody more and nobody less; else show the better one.

    One leximin of tasks / tasks now decides it, with its own certificate.
    """
    if case.whole:
        return _one_more_task(case)
    now = case.tasks
    answer = lexicographic(case.problem, _Improved(now))
    better = answer.placement.user_tasks
    gain = lost(now, better)
    worse = float(lost(better, now).max(initial=0.0))
    i = int(np.argmax(gain))
    amount = float(gain[i])
    text = "nobody can have more without somebody having less"
    example = None
    if worse > case.tolerance:
        # More is held than there is: then there is no allocation to compare with.
        return case.skipped("pareto", "what is held does not fit on the servers")
    if amount > case.tolerance:
        names = [case.name(j) for j in np.flatnonzero(gain > case.tolerance).tolist()]
        text = f"{case.name(i)} could have {tasks_text(better[i])} instead of {number(now[i])}"
        text += f" and nobody less; {listed(names)} would gain"
        example = case.changed(
            "a better allocation for all",
            text,
            before=dict(zip(case.problem.names(), now.tolist(), strict=True)),
            after=dict(zip(case.problem.names(), better.tolist(), strict=True)),
        )
    proof = answer.certificate
    if proof is not None and not proof.closed and amount <= case.tolerance:
        return Finding("pareto", "not found", 0.0, f"{text}, but for a gap of {proof.gap:.0e}")
    return case.found("pareto", amount, text, hurt=case.hurt(gain), counterexample=example)


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
    i = int(np.argmax(gain))
    amount = float(gain[i])
    text = "no further task fits beside the others; moving tasks was not tried"
    example = None
    if amount > 0:
        server = problem.cluster.names[int(problem.blocks.group[where[i]])]
        text = f"{case.name(i)} could run one more task on {server}, all others left in place"
        example = case.changed("one more task fits", text)
    return case.found(
        "pareto", amount, text, hurt=case.hurt(gain), counterexample=example, searched=True
    )
