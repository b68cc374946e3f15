"""``norm:P``: equalise a norm of the vector of shares."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from drfh.allocation.placement import Solution
from drfh.allocation.problem import Floats, PerTask, Problem
from drfh.errors import InputError
from drfh.mechanisms.shared.leximin import lexicographic

__all__ = ["norm"]


def _norm_of_task(problem: Problem, p: float) -> Floats:
    length: Floats = np.linalg.norm(problem.direction, ord=p, axis=1) * problem.task_share
    return length


def norm(problem: Problem, *, p: float | str, method: str = "auto") -> Solution:
    """Equalise the P-norm of what each user holds, in shares of the pool.

    Definition
        Leximin of tasks·‖(D_ir/T_r)_r‖_P/weight over all placements. The norm ∞ is DRFH, the
        norm 1 asset fairness.

    Paper
        Gutman, Nisan: Fair allocation without trade, AAMAS 2012, section 4, on many servers.

    Properties
        pareto: yes; a leximin point leaves nobody room
        envy-free: yes; Lemma B of the mathematics page
        truthful: yes; Lemma A of the mathematics page, the norm grows with every demand
        group-truthful: yes; Lemma A of the mathematics page
        single-resource: yes if no restrictions; all norms agree there

    Parameters
    ----------
    problem
        Cluster and users.
    p
        At least 1; ``inf`` for the largest share.
    method
        See :func:`~drfh.mechanisms.drfh.drfh`.

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 9, "memory": 18})])
    >>> users = [User("a", {"cpu": 1, "memory": 4}), User("b", {"cpu": 3, "memory": 1})]
    >>> [round(t, 9) for t in allocate(cluster, users, mechanism="norm:inf").tasks.values()]
    [3.0, 2.0]
    """
    try:
        order = float(p)
    except ValueError:
        order = math.nan
    if not order >= 1:
        raise InputError("norm:P", "must be a number ≥ 1 or inf", p)
    return lexicographic(problem, PerTask(partial(_norm_of_task, p=order)), method=method)
