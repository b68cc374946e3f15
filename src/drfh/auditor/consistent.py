"""``consistent``: when a user leaves with what it holds, the rest stays as it was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from drfh.auditor.case import Case
from drfh.auditor.finding import Finding
from drfh.auditor.monotone import without_user
from drfh.auditor.words import number, tasks_text
from drfh.cluster import Cluster
from drfh.problem import Blocks, Floats, Problem

__all__ = ["consistent"]

_MOST_USERS = 20
_NOTHING = 1e-12


def consistent(case: Case) -> Finding:
    """When a user leaves with its bundle and the rest is shared again, nothing changes."""
    n = len(case.problem.users)
    if n < 2:
        return case.skipped("consistent", "there is one user only")
    worst, who, leaver, after = 0.0, 0, 0, case.tasks
    tried = 0
    for j in case.timed(case.shuffled(n, _MOST_USERS)):
        tried += 1
        rest = _residual(case, j)
        if rest is None:
            continue
        full = np.insert(case.ask(rest).placement.user_tasks, j, case.tasks[j])
        change = _difference(full, case.tasks)
        if change.max() > worst:
            worst, who, leaver, after = float(change.max()), int(np.argmax(change)), j, full
    text = f"nothing changes when one of {tried} users leaves with what it holds"
    if worst <= case.tolerance:
        some_only = tried < n
        return case.found("consistent", worst, text, tries=tried, searched=some_only)
    me, gone = case.name(who), case.name(leaver)
    text = f"when {gone} leaves with what it holds, {me} goes from {number(case.tasks[who])} to "
    text += f"{tasks_text(after[who])}"
    example = case.changed(
        f"{gone} leaves with its bundle", text, before={me: float(case.tasks[who])},
        after={me: float(after[who])}, cluster=_residual_cluster(case, leaver),
        users=[u for u in case.scenario.users if u.name != gone],
    )  # fmt: skip
    falls = np.where(after < case.tasks, _difference(after, case.tasks), 0.0)
    return case.found(
        "consistent", worst, text, hurt=case.hurt(falls), counterexample=example, tries=tried
    )


def _difference(a: Floats, b: Floats) -> Floats:
    largest = np.maximum(a, b)
    with np.errstate(divide="ignore", invalid="ignore"):
        part: Floats = np.where(largest > 0, np.abs(a - b) / largest, 0.0)
    return part


def _left(case: Case, user: int) -> Floats:
    """Return what is left of each block when a user takes its bundle along."""
    bundles = case.bundles
    mine = bundles.user == user
    left = bundles.capacity.copy()
    np.subtract.at(left, bundles.block[mine], bundles.amounts[mine])
    left[left <= _NOTHING * bundles.capacity] = 0.0
    return left


def _residual(case: Case, user: int) -> Problem | None:
    problem = without_user(case.problem, user)
    count = problem.blocks.count
    left = _left(case, user) / count[:, None]
    keep = left.any(axis=1)
    if not keep.any():
        return None
    index = np.arange(int(keep.sum()), dtype=np.int64)
    return replace(
        problem,
        cluster=Cluster.from_arrays(left[keep], problem.cluster.resources, counts=count[keep]),
        blocks=Blocks(index, np.zeros_like(index), count[keep]),
        eligible=None if problem.eligible is None else problem.eligible[:, keep],
    )


def _residual_cluster(case: Case, user: int) -> Cluster | None:
    """Return the cluster of the counterexample, if groups stay groups."""
    problem, cluster = case.problem, case.scenario.cluster
    if len(problem.blocks) != len(cluster):
        return None
    left = _left(case, user) / cluster.counts[:, None]
    servers = []
    for server, row in zip(cluster.servers, left.tolist(), strict=True):
        amounts = dict(zip(cluster.resources, row, strict=True))
        if any(row):
            servers.append(replace(server, resources=amounts))
    return Cluster(servers)
