"""What limits a user, read off the prices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from drfh.allocation.problem import Floats, Ints, Problem
from drfh.allocation.proofs.certificate import Certificate
from drfh.formatting import format_count, format_percent, join_names

if TYPE_CHECKING:
    from drfh.allocation.allocation import Allocation

__all__ = ["Explanation", "explain"]

#: Prices by round, and names of sets of servers: kept while many users are explained.
Cache: TypeAlias = dict[Any, Any]

_NAMED = 3  # groups that a sentence names before it counts the rest
_MATTERS = 0.05


@dataclass(frozen=True, slots=True)
class Explanation:
    """What limits a user.

    Attributes
    ----------
    user : str
        Its name.
    outcome : str
        What it gets, such as ``stops at 10 tasks, 71.4 % of the pool's cpu``.
    reason : str
        Why it gets no more; empty if there is nothing more to get.
    stopped : bool
        Whether it has something and could use more.
    """

    user: str
    outcome: str
    reason: str = ""
    stopped: bool = False

    @property
    def predicate(self) -> str:
        """The sentence without its subject."""
        return f"{self.outcome}: {self.reason}." if self.reason else f"{self.outcome}."

    def __str__(self) -> str:
        return f"{self.user} {self.predicate}"


def explain(allocation: Allocation, user: int, cache: Cache | None = None) -> Explanation:
    """Return what limits a user.

    Parameters
    ----------
    allocation
        The answer.
    user
        Position of the user.
    cache
        To explain many users of one allocation, give all of them the same empty dict.

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 4}, name="small", count=12)])
    >>> print(explain(allocate(cluster, [User("ann", {"cpu": 1}, tasks=5)]), 0))
    ann has all of its 5 tasks.
    """
    problem = allocation.problem
    name = problem.users[user].name
    tasks = float(allocation.assignment.user_tasks[user])
    if not problem.reachable[user]:
        needs = join_names([r for r, a in problem.users[user].demand.items() if a > 0])
        return Explanation(name, "gets nothing", f"no server that it may use has {needs}")
    if tasks >= problem.limit[user] * (1 - 1e-9):
        return Explanation(name, f"has all of its {format_count(tasks, 'task')}")
    share = float(allocation.share_vector[user])
    dominant = problem.cluster.resources[int(np.argmax(problem.direction[user]))]
    outcome = (
        f"stops at {format_count(tasks, 'task')}, {format_percent(share)} of the pool's {dominant}"
    )
    if allocation.promised_tasks is not None:
        promise = float(allocation.promised_tasks[user])
        if tasks >= promise * (1 - 1e-9):
            reason = "all that the pooled mechanism promises"
            return Explanation(name, outcome, reason, stopped=True)
        outcome += f" ({format_count(promise, 'task')} promised)"
    reasons = _reasons(allocation, user, {} if cache is None else cache)
    reason = join_names(reasons) or f"{allocation.mechanism} gives it no more"
    return Explanation(name, outcome, reason, stopped=True)


def _reasons(allocation: Allocation, user: int, cache: Cache) -> list[str]:
    """Return what is used up where, for the servers on which the user's next task costs least."""
    problem = allocation.problem
    certificate = allocation.certificate
    if not isinstance(certificate, Certificate):
        return _full_resources(allocation, user, cache)
    number = certificate.round_of(user)
    prices = certificate.rounds[number].prices
    if prices is None:
        return []
    if number not in cache:
        cache[number] = prices.of_blocks(problem), problem.capacity.max(axis=1)
    price, weight = cache[number]
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
            reasons.append(f"{resource} is used up on {_servers(problem, where, cache)}")
    return reasons


def _full_resources(allocation: Allocation, user: int, cache: Cache) -> list[str]:
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
            reasons.append(f"{name} is used up on {_servers(problem, full, cache)}")
    return reasons


def _servers(problem: Problem, blocks: Ints, cache: Cache) -> str:
    """Name a set of blocks; users that stop together mostly stop on the same ones."""
    key = blocks.tobytes()
    if key not in cache:
        cache[key] = _named(problem, blocks)
    return str(cache[key])


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
        named.append(format_count(rest, "more server"))
    return join_names(named)


def _group(problem: Problem, blocks: Ints, group: int, size: int) -> str:
    cluster = problem.cluster
    name, count = cluster.names[group], int(cluster.counts[group])
    if size == 1:
        block = blocks[problem.blocks.group[blocks] == group][0]
        return cluster.server_name(group, int(problem.blocks.first[block]))
    part = "" if size == count else f"{size:,} of "
    return f"{part}the {count:,} {name} servers"
