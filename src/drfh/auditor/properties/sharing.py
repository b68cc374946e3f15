"""``sharing-incentive`` and ``dedicated-cloud``: nobody is better off alone."""

from __future__ import annotations

import math

import numpy as np

from drfh.allocation.problem import Floats, Ints, Problem
from drfh.auditor.case import Case, lost
from drfh.auditor.finding import Finding
from drfh.formatting import format_count, format_number, format_percent

__all__ = ["dedicated_cloud", "sharing_incentive", "tasks_on"]


def sharing_incentive(case: Case) -> Finding:
    """Everybody has at least what its part of every server, by weight, would run."""
    problem = case.problem
    part = problem.weight / problem.weight.sum()
    blocks = problem.blocks
    alone = np.empty(len(part))
    for i in range(len(part)):
        alone[i] = tasks_on(problem, i, blocks.count, part=float(part[i]), whole=case.whole)
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
    if problem.cluster.size < len(problem.users):
        return case.skipped("dedicated-cloud", "there are fewer servers than users")
    blocks = problem.blocks
    block_of = np.repeat(np.arange(len(blocks)), blocks.count)
    order = np.random.default_rng(case.seed).permutation(len(block_of))
    edges = np.cumsum(problem.weight) * (len(block_of) / problem.weight.sum())
    edges = np.floor(edges * (1 + 1e-12)).astype(np.int64)
    starts = np.concatenate(([0], edges[:-1]))
    alone = np.empty(len(edges))
    for i, (a, b) in enumerate(zip(starts.tolist(), edges.tolist(), strict=True)):
        counts = np.bincount(block_of[order[a:b]], minlength=len(blocks))
        alone[i] = tasks_on(problem, i, counts, whole=case.whole)
    return _finding(
        case,
        "dedicated-cloud",
        alone,
        "its own servers, drawn at random",
        "everybody has at least what servers of its own, drawn at random once, would run",
        sampled=True,
    )


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
    case: Case, name: str, alone: Floats, what: str, fine: str, *, sampled: bool = False
) -> Finding:
    short = lost(case.tasks, alone)
    i = int(np.argmax(short))
    amount = float(short[i])
    if amount <= case.tolerance:
        return case.found(name, amount, fine, searched=sampled)
    count = int((short > case.tolerance).sum())
    text = (
        f"{case.name(i)} has {format_count(case.tasks[i], 'task', 4)} and would have "
        f"{format_number(alone[i])} "
    )
    text += f"with {what}"
    if count > 1:
        text += f"; {format_percent(count / len(short))} of the users lose"
    me = case.name(i)
    example = case.changed(
        f"{me} is better off alone", text, before={me: float(case.tasks[i])},
        after={me: float(alone[i])},
    )  # fmt: skip
    return case.found(name, amount, text, hurt=case.hurt(short), counterexample=example)
