"""``consistent``: when a user leaves with what it holds, the rest stays as it was."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np

from drfh.allocation.problem import Blocks, Floats, Problem
from drfh.auditor.case import Case, worst_of
from drfh.auditor.finding import Finding
from drfh.auditor.properties.monotonicity import without_user
from drfh.formatting import format_count
from drfh.model.cluster import Cluster, Server
from drfh.model.users import Kind, User

__all__ = ["consistent"]

_MOST_USERS = 20
_NOTHING = 1e-12

Restricted = TypeVar("Restricted", User, Kind)


def consistent(case: Case) -> Finding:
    """When a user leaves with its bundle and the rest is shared again, nothing changes."""
    n = len(case.scenario.users)
    if n < 2:
        return case.skipped("consistent", "there is one user only")
    worst, leaver, after = (0.0, 0.0), 0, case.outcome
    tried = 0
    for j in case.timed(case.shuffled(n, _MOST_USERS)):
        tried += 1
        rest = _residual(case, j)
        if rest is None:
            continue
        answer = case.ask(rest)
        full = case.outcome_beside([j], case.outcome_of(answer))
        fall, rise = case.fall(answer, case.outcome, full), case.fall(answer, full, case.outcome)
        change = (float(fall.max()), float(rise.max()))
        if change > worst:  # who falls counts first, then who rises
            worst, leaver, after = change, j, full
    text = f"nothing changes when one of {format_count(tried, 'user')} leaves with what it holds"
    if not any(worst):
        return case.found("consistent", 0.0, text, tries=tried, searched=tried < n)
    falls = case.lost(after, case.outcome)
    who = worst_of(falls if worst[0] > 0 else case.lost(case.outcome, after))
    me, gone = case.name(who), case.name(leaver)
    then, now = case.shown(who, after, case.outcome)
    text = f"when {gone} leaves with what it holds, {me} goes from {now} to {then}"
    cluster, users = _residual_records(case, leaver)
    example = case.changed(
        f"{gone} leaves with its bundle", text, cluster=cluster, users=users,
        before=case.by_name(case.outcome),
        after=case.by_name(after, (i for i in range(n) if i != leaver)),
    )  # fmt: skip
    return case.found(
        "consistent", worst[0] or worst[1], text, hurt=case.hurt(falls), counterexample=example,
        tries=tried,
    )  # fmt: skip


def _left(case: Case, user: int) -> Floats:
    """Return what is left of each block when a user takes its bundle along."""
    bundles = case.bundles
    mine = np.isin(bundles.user, case.problem.rows_of(user))
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


def _residual_records(case: Case, user: int) -> tuple[Cluster, list[User]]:
    """Return cluster and users of the counterexample: a record a block, restrictions by name."""
    problem, cluster = case.problem, case.scenario.cluster
    blocks = problem.blocks
    whole = len(blocks) == len(cluster)
    left = _left(case, user) / blocks.count[:, None]
    servers, names = [], []
    for b, (group, first) in enumerate(
        zip(blocks.group.tolist(), blocks.first.tolist(), strict=True)
    ):
        name = cluster.names[group] if whole else f"{cluster.names[group]}-from-{first}"
        names.append(name)
        if left[b].any():
            amounts = dict(zip(cluster.resources, left[b].tolist(), strict=True))
            labels = cluster.servers[group].labels
            servers.append(Server(amounts, name=name, count=int(blocks.count[b]), labels=labels))
    kept = {server.name for server in servers}

    def left_over(one: Restricted, row: int) -> Restricted:
        if one.servers is None or problem.eligible is None or problem.restriction is None:
            return one
        may = problem.eligible[problem.restriction[row]]
        allowed = [n for n, ok in zip(names, may.tolist(), strict=True) if ok and n in kept]
        if allowed:
            return replace(one, servers=allowed)
        return replace(one, servers=None, tasks=0.0)  # no server left, no tasks that could run

    users = []
    for i, record in enumerate(case.scenario.users):
        rows = problem.rows_of(i).tolist()
        if i != user and record.kinds:
            kinds = map(left_over, case.kinds_of(i), rows)
            users.append(replace(record, kinds=tuple(kinds)))
        elif i != user:
            users.append(left_over(record, rows[0]))
    return Cluster(servers), users
