"""One sentence on what limits a user, read off the prices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from drfh.allocation.problem import Floats, Ints, Problem
from drfh.allocation.proofs.certificate import Certificate

if TYPE_CHECKING:
    from drfh.allocation.allocation import Allocation

__all__ = ["explain"]

#: Prices by round, and the words for sets of servers.
Said: TypeAlias = dict[Any, Any]

_NAMED = 3  # groups that a sentence names before it counts the rest
_MATTERS = 0.05


def explain(allocation: Allocation, user: int, said: Said | None = None) -> str:
    """Say what limits a user.

    Parameters
    ----------
    allocation
        The answer.
    user
        Position of the user.
    said
        What was worked out for other users of the same allocation: to explain many, give all of
        them the same empty dict.

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 4}, name="small", count=12)])
    >>> explain(allocate(cluster, [User("ann", {"cpu": 1}, tasks=5)]), 0)
    'ann has all of its 5 tasks.'
    """
    problem = allocation.problem
    name = problem.users[user].name
    tasks = float(allocation.assignment.user_tasks[user])
    if not problem.reachable[user]:
        wanted = _joined([r for r, a in problem.users[user].demand.items() if a > 0])
        return f"{name} gets nothing: no server that it may use has {wanted}."
    if tasks >= problem.limit[user] * (1 - 1e-9):
        return f"{name} has all of its {_some_tasks(tasks)}."
    share = float(allocation.share_vector[user])
    dominant = problem.cluster.resources[int(np.argmax(problem.direction[user]))]
    head = f"{name} stops at {_some_tasks(tasks)}, {100 * share:.1f} % of the pool's {dominant}"
    if allocation.promised_tasks is not None:
        promise = float(allocation.promised_tasks[user])
        if tasks >= promise * (1 - 1e-9):
            return f"{head}: all that the pooled mechanism promises."
        head += f" ({_some_tasks(promise)} promised)"
    reasons = _reasons(allocation, user, {} if said is None else said)
    if not reasons:
        return f"{head}: {allocation.mechanism} gives it no more."
    return f"{head}: {_joined(reasons)}."


def _reasons(allocation: Allocation, user: int, said: Said) -> list[str]:
    """Return what is used up where, for the servers on which the user's next task costs least."""
    problem = allocation.problem
    certificate = allocation.certificate
    if not isinstance(certificate, Certificate):
        return _full_resources(allocation, user, said)
    number = certificate.round_of(user)
    prices = certificate.rounds[number].prices
    if prices is None:
        return []
    if number not in said:
        said[number] = prices.of_blocks(problem), problem.capacity.max(axis=1)
    price, weight = said[number]
    blocks = np.arange(len(problem.blocks))
    usable = np.flatnonzero(problem.can_use(np.full(len(blocks), user), blocks))
    # On every server that it may use, its next task costs something: what is it that costs?
    part = price[usable] * problem.direction[user]
    part /= part.sum(axis=1, keepdims=True)
    blame = part * weight[usable, None]
    reasons = []
    for r in np.argsort(-blame.sum(axis=0), kind="stable").tolist():
        where = usable[part[:, r] > _MATTERS]
        if len(where):
            resource = problem.cluster.resources[r]
            reasons.append(f"{resource} is used up on {_servers(problem, where, said)}")
    return reasons


def _full_resources(allocation: Allocation, user: int, said: Said) -> list[str]:
    """Without prices: which of the user's resources are full, on servers that it can use."""
    problem = allocation.problem
    blocks = np.arange(len(problem.blocks))
    usable = problem.can_use(np.full(len(blocks), user), blocks)
    pools = allocation.assignment.pools
    used: Floats = allocation.assignment.pool_usage[pools.of_block] * pools.part[:, None]
    raw = problem.cluster.capacity[problem.blocks.group] * problem.blocks.count[:, None]
    need = problem.demand[user]
    whole = allocation.whole
    reasons = []
    for r in np.flatnonzero(need > 0).tolist():
        name = problem.cluster.resources[r]
        if whole:
            short = int(np.count_nonzero(usable & (raw[:, r] - used[:, r] < need[r] * (1 - 1e-9))))
            if short:
                reasons.append(
                    f"{name} is too short for one more task on {short:,} of "
                    f"{int(usable.sum()):,} servers"
                )
            continue
        full = np.flatnonzero(usable & (raw[:, r] - used[:, r] <= 1e-9 * raw[:, r]))
        if len(full):
            reasons.append(f"{name} is used up on {_servers(problem, full, said)}")
    return reasons


def _servers(problem: Problem, blocks: Ints, said: Said) -> str:
    """Name a set of blocks; users that stop together mostly stop on the same ones."""
    key = blocks.tobytes()
    if key not in said:
        said[key] = _named(problem, blocks)
    return str(said[key])


def _named(problem: Problem, blocks: Ints) -> str:
    """Name a set of blocks: every server, or groups with their numbers of servers."""
    cluster = problem.cluster
    if len(blocks) == len(problem.blocks) and len(cluster) > 1:
        return f"all {cluster.size:,} servers"
    size = np.bincount(
        problem.blocks.group[blocks], problem.blocks.count[blocks], minlength=len(cluster)
    ).astype(np.int64)
    groups = np.argsort(-size, kind="stable")[: np.count_nonzero(size)]
    named = [_group(problem, blocks, g, int(size[g])) for g in groups[:_NAMED].tolist()]
    rest = int(size[groups[_NAMED:]].sum())
    if rest:
        named.append(f"{rest:,} more server{'s' * (rest != 1)}")
    return _joined(named)


def _group(problem: Problem, blocks: Ints, group: int, size: int) -> str:
    cluster = problem.cluster
    name, count = cluster.names[group], int(cluster.counts[group])
    if size == 1:
        block = blocks[problem.blocks.group[blocks] == group][0]
        return cluster.server_name(group, int(problem.blocks.first[block]))
    part = "" if size == count else f"{size:,} of "
    return f"{part}the {count:,} {name} servers"


def _some_tasks(tasks: float) -> str:
    return "1 task" if tasks == 1 else f"{tasks:,.6g} tasks"


def _joined(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
