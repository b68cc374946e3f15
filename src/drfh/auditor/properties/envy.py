"""``envy-free``, as the paper writes it, and up to one task."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np

from drfh.allocation.problem import Floats
from drfh.auditor.bundles import best_use
from drfh.auditor.case import Case, lost, worst_of
from drfh.auditor.finding import Finding

__all__ = ["envy_free", "envy_free_1", "envy_free_literal"]


def envy_free(case: Case) -> Finding:
    """Nobody could run more with what another user holds, per weight, up to its own tasks.

    N_i(A_j)·w_i/w_j, at most the tasks of i, is compared with N_i(A_i).
    """
    if case.problem.mixes is not None:
        return _compare_kinds(case)
    weight, limit = case.problem.weight, case.problem.limit

    def prefers(i: int, worth: Floats) -> Floats:
        best: Floats = np.minimum(worth * (weight[i] / weight), limit[i])
        return best

    return _compare(case, "envy-free", prefers)


def envy_free_literal(case: Case) -> Finding:
    """Nobody could run more with what another user holds, weights and numbers of tasks ignored."""
    problem = case.problem
    if np.ptp(problem.weight) == 0 and np.isinf(problem.limit).all():
        return case.skipped(
            "envy-free-literal", "weights are equal and tasks endless: it is envy-free"
        )
    return _compare(case, "envy-free-literal", lambda i, worth: worth)


def envy_free_1(case: Case) -> Finding:
    """Whole tasks: nobody could run more with another's bundle less one task of its own (EF1)."""
    if not case.whole:
        return case.skipped("envy-free-1", "for whole tasks only")
    weight, limit = case.problem.weight, case.problem.limit

    def prefers(i: int, worth: Floats) -> Floats:
        # On a server that holds a task of i, taking one away leaves exactly one less.
        best: Floats = np.minimum(np.maximum(worth - 1, 0) * (weight[i] / weight), limit[i])
        return best

    return _compare(case, "envy-free-1", prefers)


def _compare(case: Case, name: str, prefers: Callable[[int, Floats], Floats]) -> Finding:
    n = len(case.problem.users)
    envy = np.zeros(n)
    whom = np.zeros(n, dtype=np.int64)
    value = np.zeros(n)
    for i in range(n):
        worth = prefers(i, case.bundles.worth(i))
        worth[i] = 0.0
        whom[i] = worst_of(worth)
        value[i] = worth[whom[i]]
        envy[i] = lost(case.tasks[i], value[i])
        if i % 64 == 0:
            case.progress(i / n)
    i = worst_of(envy)
    return _finding(case, name, envy, i, int(whom[i]), value)


def _compare_kinds(case: Case) -> Finding:
    """Compare bundles of users with several kinds of tasks."""
    problem, weight = case.problem, case.weight
    n = len(weight)
    # In any order: what is cut off by time is a sample of all.
    pairs = np.random.default_rng(case.seed).permutation(list(permutations(range(n), 2))).tolist()
    held = [case.bundles.held_by([j]) for j in range(n)]
    envy, who, whom, value = np.zeros(n), 0, 0, case.outcome
    looked_at = 0
    for i, j in case.timed(pairs):
        looked_at += 1
        block, amounts = held[j]
        would = case.outcome.copy()
        would[problem.rows_of(i)] = best_use(problem, i, block, amounts * (weight[i] / weight[j]))
        amount = float(case.lost(case.outcome, would)[i])
        if amount > envy.max():
            who, whom, value = i, j, would
        envy[i] = max(envy[i], amount)
    return _finding(case, "envy-free", envy, who, whom, value, cut=looked_at < len(pairs))


def _finding(
    case: Case, name: str, envy: Floats, i: int, whom: int, value: Floats, *, cut: bool = False
) -> Finding:
    amount = float(envy[i])
    text = "nobody could run more with what another user holds"
    if cut:
        text += ", as far as was looked: time was up"
    example = None
    if amount > case.tolerance:
        me, other = case.name(i), case.name(whom)
        has, would = case.shown(i, case.outcome, value)
        text = f"{me} has {has} and would have {would} with what {other} holds"
        example = case.changed(
            f"{me} envies {other}",
            text,
            before=case.by_name(case.outcome, [i, whom]),
            after=case.by_name(value, [i]),
        )
    return case.found(
        name, amount, text, hurt=case.hurt(envy), counterexample=example, searched=cut
    )
