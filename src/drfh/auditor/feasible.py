"""``feasible`` and ``non-wasteful``: nobody holds what is not there, or what it cannot use."""

from __future__ import annotations

import numpy as np

from drfh.auditor.case import Case, lost
from drfh.auditor.finding import Counterexample, Finding
from drfh.auditor.words import amount_text, number, percent, tasks_text

__all__ = ["feasible", "non_wasteful"]

_RELATIVE = 1e-12  # sums of many tasks round in the last digits


def feasible(case: Case) -> Finding:
    """Every server holds what is on it, restrictions and numbers of tasks are respected."""
    problem, bundles = case.problem, case.bundles
    over = lost(bundles.capacity, bundles.used * (1 - _RELATIVE))
    worst = np.unravel_index(int(np.argmax(over)), over.shape)
    amount = float(over[worst])
    text = "every server holds what is placed on it"
    hurt: tuple[str, ...] = ()
    if amount > 0:
        server = _server(case, int(worst[0]))
        resource = problem.cluster.resources[int(worst[1])]
        used, room = float(bundles.used[worst]), float(bundles.capacity[worst])
        text = f"{server} is over: {amount_text(used)} of {amount_text(room)} {resource} are taken"
        here = np.unique(bundles.user[bundles.block == worst[0]])
        hurt = tuple(case.name(i) for i in here[:10].tolist())
    # Where a user may not run, or beyond its tasks, all that it holds is too much.
    outside = ~problem.can_use(bundles.user, bundles.block) & bundles.amounts.any(axis=1)
    if outside.any():
        names = [case.name(i) for i in np.unique(bundles.user[outside]).tolist()]
        first = int(np.flatnonzero(outside)[0])
        where = (
            f"{case.name(int(bundles.user[first]))} on {_server(case, int(bundles.block[first]))}"
        )
        return case.found(
            "feasible", 1.0, f"tasks run where they may not or cannot: {where}",
            hurt=tuple(names[:10]), counterexample=_same(case, "runs where it may not"),
        )  # fmt: skip
    beyond = lost(problem.limit, bundles.room * (1 - _RELATIVE))
    if beyond.max() > max(amount, case.tolerance):
        i = int(np.argmax(beyond))
        amount, hurt = float(beyond[i]), case.hurt(beyond)
        text = f"{case.name(i)} holds room for {tasks_text(bundles.room[i])} and has only "
        text += number(problem.limit[i])
    return case.found("feasible", amount, text, hurt=hurt, counterexample=_same(case, text))


def non_wasteful(case: Case) -> Finding:
    """Nobody holds more of a resource than its tasks use (Wang et al. 2014, definition 2)."""
    problem, bundles = case.problem, case.bundles
    need = problem.demand[bundles.user]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(need > 0, bundles.amounts / need, np.inf)
    tasks = ratio.min(axis=1)
    tasks[~problem.can_use(bundles.user, bundles.block)] = 0.0
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
    worst = int(np.argmax(by_user))
    resource = problem.cluster.resources[int(np.argmax(part[worst]))]
    text = "everybody can use all that it holds"
    if amount > case.tolerance:
        text = f"{case.name(worst)} cannot use {percent(amount)} of the {resource} that it holds"
    return case.found(
        "non-wasteful",
        amount,
        text,
        hurt=case.hurt(by_user),
        counterexample=_same(case, text),
    )


def _server(case: Case, block: int) -> str:
    blocks, cluster = case.problem.blocks, case.problem.cluster
    group, first = int(blocks.group[block]), int(blocks.first[block])
    if blocks.count[block] > 1:
        return cluster.names[group]
    return cluster.server_name(group, first)


def _same(case: Case, story: str) -> Counterexample:
    return case.changed(f"{case.scenario.title or 'case'}: {story}", story)
