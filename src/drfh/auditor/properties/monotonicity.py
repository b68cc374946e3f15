"""``population-monotone`` and ``resource-monotone``: good news hurts nobody."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import compress
from typing import TypeAlias

import numpy as np

from drfh.allocation.mixes import Mixes
from drfh.allocation.problem import Floats, Problem
from drfh.auditor.case import Case, worst_of
from drfh.auditor.finding import Finding
from drfh.formatting import format_amount, format_count
from drfh.model.cluster import Cluster, Server

__all__ = ["population_monotone", "resource_monotone", "without_user"]

_MOST_USERS = 200
_MOST_GROUPS = 8
# Label, cluster, whether of its own kinds; then what users have, and what they miss.
_Growth: TypeAlias = tuple[str, Cluster, bool, Floats, Floats]


def without_user(problem: Problem, user: int) -> Problem:
    """Return the problem without one user.

    Examples
    --------
    >>> from drfh import Cluster, Server, User
    >>> users = [User("a", {"cpu": 1}), User("b", {"cpu": 1})]
    >>> without_user(Problem.build(Cluster([Server({"cpu": 4})]), users), 0).names()
    ['b']
    """
    mixes = problem.mixes
    keep = np.ones(len(problem.users), dtype=bool)
    keep[problem.rows_of(user)] = False
    if mixes is not None:
        users = mixes.users[:user] + mixes.users[user + 1 :]
        mixes = Mixes.of(users) if any(other.kinds for other in users) else None
    restriction = problem.restriction
    return replace(
        problem,
        users=tuple(compress(problem.users, keep.tolist())),
        demand=problem.demand[keep],
        weight=problem.weight[keep],
        limit=problem.limit[keep],
        restriction=None if restriction is None else restriction[keep],
        mixes=mixes,
    )


def population_monotone(case: Case) -> Finding:
    """When a user leaves, nobody else has less."""
    n = len(case.scenario.users)
    if n < 2:
        return case.skipped("population-monotone", "there is one user only")
    worst, leaver = np.zeros(n), 0
    after = case.outcome
    tried = 0
    for j in case.timed(case.shuffled(n, _MOST_USERS)):
        tried += 1
        answer = case.ask(without_user(case.problem, j))
        full = case.outcome_beside([j], case.outcome_of(answer))
        fall = case.fall(answer, case.outcome, full)
        if fall.max() > worst.max():
            worst, leaver, after = fall, j, full
    text = f"nobody has less when one of {format_count(tried, 'user')} leaves"
    if not worst.any():
        return case.found("population-monotone", 0.0, text, tries=tried, searched=tried < n)
    loser = worst_of(worst)
    me, gone = case.name(loser), case.name(leaver)
    then, now = case.shown(loser, after, case.outcome)
    text = f"when {gone} leaves, {me} falls from {now} to {then}"
    example = case.changed(
        f"{gone} leaves and {me} has less", text,
        users=[u for u in case.scenario.users if u.name != gone],
        before=case.by_name(case.outcome),
        after=case.by_name(after, (i for i in range(n) if i != leaver)),
    )  # fmt: skip
    return case.found(
        "population-monotone", float(worst.max()), text, hurt=case.hurt(worst),
        counterexample=example, tries=tried,
    )  # fmt: skip


def resource_monotone(case: Case) -> Finding:
    """When the cluster grows, nobody has less: servers added, and single resources enlarged."""
    tried: list[_Growth] = []
    for label, cluster, own in case.timed(list(_growth(case))):
        answer = case.answer(cluster, case.scenario.users)
        then = case.outcome_of(answer)
        tried.append((label, cluster, own, then, case.fall(answer, case.outcome, then)))
    finding = _worst_growth(case, tried)
    return replace(
        finding, own_kinds=_worst_growth(case, [growth for growth in tried if growth[2]])
    )


def _worst_growth(case: Case, tried: list[_Growth]) -> Finding:
    worst, what = np.zeros(len(case.scenario.users)), ""
    grown: Cluster | None = None
    after: Floats = case.outcome
    tries = len(tried)
    for label, cluster, _, then, fall in tried:
        if fall.max() > worst.max() + 1e-12:
            worst, what, grown, after = fall, label, cluster, then
    text = f"nobody has less after any of {format_count(tries, 'addition')} to the cluster"
    if grown is None:
        return case.found("resource-monotone", 0.0, text, tries=tries, searched=True)
    loser = worst_of(worst)
    me = case.name(loser)
    few, many = case.shown(loser, after, case.outcome)
    text = f"with {what}, {me} falls from {many} to {few}"
    example = case.changed(
        f"more capacity and {me} has less", text, cluster=grown,
        before=case.by_name(case.outcome), after=case.by_name(after),
    )  # fmt: skip
    return case.found(
        "resource-monotone", float(worst.max()), text, hurt=case.hurt(worst),
        counterexample=example, tries=tries,
    )  # fmt: skip


def _growth(case: Case) -> Iterator[tuple[str, Cluster, bool]]:
    """Yield additions, and whether they are servers of the same kinds."""
    cluster = case.scenario.cluster
    name = next(n for k in range(len(cluster) + 1) if (n := f"added-{k + 1}") not in cluster.names)
    for r, resource in enumerate(cluster.resources):
        total = float(cluster.totals[r])
        for part in (1.0, 0.5, 0.1):
            if total > 0:
                extra = Server({resource: part * total}, name=name)
                yield (
                    f"a server of {format_amount(part * total)} {resource} and nothing else",
                    cluster.plus(extra),
                    False,
                )
    servers = cluster.servers
    for g in case.shuffled(len(servers), _MOST_GROUPS):
        group = servers[g]
        for times in (2, 11):
            more = [*servers[:g], replace(group, count=group.count * times), *servers[g + 1 :]]
            yield f"{times} times as many servers {group.name}", Cluster(more), True
        for resource, amount in group.resources.items():
            if amount > 0:
                larger = {**group.resources, resource: 2 * amount}
                more = [*servers[:g], replace(group, resources=larger), *servers[g + 1 :]]
                yield f"twice the {resource} on {group.name}", Cluster(more), False
