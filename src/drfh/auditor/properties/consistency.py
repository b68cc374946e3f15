"""``consistent``: when a user leaves with what it holds, the rest stays as it was."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from drfh.allocation.problem import Blocks, Floats, Problem
from drfh.auditor.case import Case, lost
from drfh.auditor.finding import Finding
from drfh.auditor.properties.monotonicity import without_user
from drfh.formatting import format_count, format_number
from drfh.model.cluster import Cluster, Server
from drfh.model.users import User

__all__ = ["consistent"]

_MOST_USERS = 20
_NOTHING = 1e-12


def consistent(case: Case) -> Finding:
    """When a user leaves with its bundle and the rest is shared again, nothing changes."""
    n = len(case.problem.users)
    if n < 2:
        return case.skipped("consistent", "there is one user only")
    worst, leaver, after = (0.0, 0.0), 0, case.tasks
    tried = 0
    for j in case.timed(case.shuffled(n, _MOST_USERS)):
        tried += 1
        rest = _residual(case, j)
        if rest is None:
            continue
        answer = case.ask(rest)
        full = np.insert(answer.placement.user_tasks, j, case.tasks[j])
        fall, rise = case.fall(answer, case.tasks, full), case.fall(answer, full, case.tasks)
        change = (float(fall.max()), float(rise.max()))
        if change > worst:  # who falls counts first, then who rises
            worst, leaver, after = change, j, full
    text = f"nothing changes when one of {format_count(tried, 'user')} leaves with what it holds"
    if not any(worst):
        return case.found("consistent", 0.0, text, tries=tried, searched=tried < n)
    falls = lost(after, case.tasks)
    who = int(np.argmax(falls if worst[0] > 0 else lost(case.tasks, after)))
    me, gone = case.name(who), case.name(leaver)
    text = (
        f"when {gone} leaves with what it holds, {me} goes from "
        f"{format_number(case.tasks[who])} to "
    )
    text += format_count(after[who], "task", 4)
    cluster, users = _residual_records(case, leaver)
    example = case.changed(
        f"{gone} leaves with its bundle", text, cluster=cluster, users=users,
        before=case.by_name(case.tasks),
        after={name: t for name, t in case.by_name(after).items() if name != gone},
    )  # fmt: skip
    return case.found(
        "consistent", worst[0] or worst[1], text, hurt=case.hurt(falls), counterexample=example,
        tries=tried,
    )  # fmt: skip


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
    users = []
    for i, record in enumerate(case.scenario.users):
        if i == user:
            continue
        if record.servers is not None and problem.eligible is not None:
            may = problem.eligible[_row(problem, i)]
            allowed = [n for n, ok in zip(names, may.tolist(), strict=True) if ok and n in kept]
            if allowed:
                record = replace(record, servers=allowed)
            else:  # who has no server left has no tasks that could run
                record = replace(record, servers=None, tasks=0.0)
        users.append(record)
    return Cluster(servers), users


def _row(problem: Problem, user: int) -> int:
    return 0 if problem.restriction is None else int(problem.restriction[user])
