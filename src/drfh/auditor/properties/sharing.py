"""``sharing-incentive`` and ``dedicated-cloud``: nobody is better off alone."""

from __future__ import annotations

import math

import numpy as np

from drfh.allocation.problem import Floats, Ints, Problem
from drfh.auditor.bundles import best_use
from drfh.auditor.case import Case, worst_of
from drfh.auditor.finding import Finding
from drfh.formatting import format_percent

__all__ = ["dedicated_cloud", "sharing_incentive", "tasks_on"]


def sharing_incentive(case: Case) -> Finding:
    """Everybody has at least what its part of every server, by weight, would run."""
    weight = case.weight
    part = weight / weight.sum()
    count = case.problem.blocks.count
    alone = [_alone(case, i, count, part=p) for i, p in enumerate(part.tolist())]
    return _finding(
        case,
        "sharing-incentive",
        alone,
        "its part of every server",
        "everybody has at least what its part of every server would run",
    )


def dedicated_cloud(case: Case) -> Finding:
    """Everybody has at least what its number of servers, drawn at random by weight, would run."""
    problem = case.problem
    weight = case.weight
    if problem.cluster.size < len(weight):
        return case.skipped("dedicated-cloud", "there are fewer servers than users")
    blocks = problem.blocks
    block_of = np.repeat(np.arange(len(blocks)), blocks.count)
    order = np.random.default_rng(case.seed).permutation(len(block_of))
    edges = np.cumsum(weight) * (len(block_of) / weight.sum())
    edges = np.floor(edges * (1 + 1e-12)).astype(np.int64)
    starts = np.concatenate(([0], edges[:-1]))
    alone = []
    for i, (a, b) in enumerate(zip(starts.tolist(), edges.tolist(), strict=True)):
        counts = np.bincount(block_of[order[a:b]], minlength=len(blocks))
        alone.append(_alone(case, i, counts))
    return _finding(
        case,
        "dedicated-cloud",
        alone,
        "its own servers, drawn at random",
        "everybody has at least what servers of its own, drawn at random once, would run",
        sampled=True,
    )


def _alone(case: Case, user: int, counts: Ints, *, part: float = 1.0) -> Floats:
    """Return a user's tasks by kind, alone with some servers."""
    problem = case.problem
    if problem.mixes is None:
        return np.array([tasks_on(problem, user, counts, part=part, whole=case.whole)])
    blocks = np.arange(len(counts))
    capacity = problem.cluster.capacity[problem.blocks.group] * counts[:, None]
    return best_use(problem, user, blocks, capacity * part)


def tasks_on(
    problem: Problem, user: int, counts: Ints, *, part: float = 1.0, whole: bool = False
) -> float:
    """Return the tasks of one user alone with some servers of each block, or a part of each.

    Examples
    --------
    >>> from drfh import Cluster, Server, User
    >>> cluster = Cluster([Server({"cpu": 6, "memory": 1}), Server({"cpu": 1, "memory": 6})])
    >>> problem = Problem.build(cluster, [User("a", {"cpu": 1, "memory": 0.1})])
    >>> tasks_on(problem, 0, np.array([1, 1]), part=0.5)
    3.5
    """
    need = problem.demand[user]
    capacity = problem.cluster.capacity[problem.blocks.group] * part
    tasks: Floats = np.full(len(capacity), math.inf)
    for r in np.flatnonzero(need > 0).tolist():
        np.minimum(tasks, capacity[:, r] / need[r], out=tasks)
    blocks = np.arange(len(capacity))
    tasks[~problem.can_use(np.full(len(blocks), user), blocks)] = 0.0
    if whole:
        tasks = np.floor(tasks * (1 + 1e-9))
    return min(float(tasks @ counts), float(problem.limit[user]))


def _finding(
    case: Case, name: str, by_user: list[Floats], what: str, fine: str, *, sampled: bool = False
) -> Finding:
    alone = np.concatenate(by_user)
    short = case.lost(case.outcome, alone)
    i = worst_of(short)
    amount = float(short[i])
    if amount <= case.tolerance:
        return case.found(name, amount, fine, searched=sampled)
    count = int((short > case.tolerance).sum())
    me = case.name(i)
    has, would = case.shown(i, case.outcome, alone)
    text = f"{me} has {has} and would have {would} with {what}"
    if count > 1:
        text += f"; {format_percent(count / len(short))} of the users lose"
    example = case.changed(
        f"{me} is better off alone", text, before=case.by_name(case.outcome, [i]),
        after=case.by_name(alone, [i]),
    )  # fmt: skip
    return case.found(name, amount, text, hurt=case.hurt(short), counterexample=example)
