"""``envy-free``, as the paper writes it, and up to one task."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from drfh.allocation.problem import Floats
from drfh.auditor.case import Case, lost
from drfh.auditor.finding import Finding
from drfh.formatting import format_count, format_number

__all__ = ["envy_free", "envy_free_1", "envy_free_literal"]


def envy_free(case: Case) -> Finding:
    """Nobody could run more with what another user holds, per weight, up to its own tasks.

    N_i(A_j)·w_i/w_j, at most the tasks of i, is compared with N_i(A_i).
    """
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
        whom[i] = int(np.argmax(worth))
        value[i] = worth[whom[i]]
        envy[i] = lost(case.tasks[i], value[i])
        if i % 64 == 0:
            case.progress(i / n)
    i = int(np.argmax(envy))
    amount = float(envy[i])
    text = "nobody could run more with what another user holds"
    example = None
    if amount > case.tolerance:
        me, other = case.name(i), case.name(int(whom[i]))
        text = (
            f"{me} has {format_count(case.tasks[i], 'task', 4)} and would have "
            f"{format_number(value[i])} with "
        )
        text += f"what {other} holds"
        example = case.changed(
            f"{me} envies {other}",
            text,
            before={me: float(case.tasks[i]), other: float(case.tasks[whom[i]])},
            after={me: float(value[i])},
        )
    return case.found(name, amount, text, hurt=case.hurt(envy), counterexample=example)
