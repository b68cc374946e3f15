"""Explanation: what limits a user of an allocation."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from drfh.allocation.problem import Floats, Ints, Problem
from drfh.allocation.proofs.certificate import Certificate
from drfh.formatting import format_count, format_percent, join_names

if TYPE_CHECKING:
    from drfh.allocation.allocation import Allocation

__all__ = ["Cache", "Explanation", "LimitCode", "Scarcity", "explain"]


#: Prices by round, and names of sets of servers: kept while many users are explained.
Cache: TypeAlias = dict[Any, Any]

_NAMED = 3  # groups that a sentence names before it counts the rest
_MATTERS = 0.05


class LimitCode(StrEnum):
    """Kinds of what limits a user."""

    NO_SERVER = "no-server"  # none that it may use has what it needs
    ALL_TASKS = "all-tasks"  # it has all of its tasks
    PROMISE = "promise"  # it has all that a pooled mechanism promises
    USED_UP = "used-up"  # resources are used up, or too short for a whole task
    MECHANISM = "mechanism"  # it gives no more


class Scarcity(NamedTuple):
    """A resource that is used up on some servers.

    Attributes
    ----------
    resource : str
        Its name.
    servers : str
        The servers, in words.
    blocks : frozenset of int
        The same, as blocks of the problem.
    """

    resource: str
    servers: str
    blocks: frozenset[int]

    def within(self, other: Scarcity) -> bool:
        """Return whether another one says the same of more servers."""
        return self.resource == other.resource and self.blocks < other.blocks

    def to_dict(self) -> dict[str, str]:
        """Return resource and servers as plain data."""
        return {"resource": self.resource, "servers": self.servers}

    def __str__(self) -> str:
        return f"{self.resource} on {self.servers}"


class _NamedLimit(NamedTuple):
    """A resource that limits a user: what of it, as data, and in words."""

    key: Hashable
    text: str
    scarcity: Scarcity | None = None


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
    code : LimitCode
        What kind of limit it is.
    about : tuple
        Which resources, servers or tasks limit it: equal for users that are limited alike.
    scarce : tuple of Scarcity
        The resources that are used up, and where.
    """

    user: str
    outcome: str
    reason: str = ""
    code: LimitCode = LimitCode.ALL_TASKS
    about: tuple[Hashable, ...] = ()
    scarce: tuple[Scarcity, ...] = ()

    @property
    def stopped(self) -> bool:
        """Whether it has something and could use more."""
        return self.code not in (LimitCode.NO_SERVER, LimitCode.ALL_TASKS)

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
        Position of the user in the problem, which has one for each kind of tasks.
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
        needs = [r for r, a in problem.users[user].demand.items() if a > 0]
        reason = f"no server that it may use has {join_names(needs)}"
        return Explanation(name, "gets nothing", reason, LimitCode.NO_SERVER, tuple(needs))
    limit = float(problem.limit[user])
    if tasks >= limit * (1 - 1e-9):
        outcome = f"has all of its {format_count(tasks, 'task')}"
        return Explanation(name, outcome, code=LimitCode.ALL_TASKS, about=(limit,))
    share = tasks * float(problem.task_share[user])
    dominant = problem.cluster.resources[int(np.argmax(problem.direction[user]))]
    outcome = (
        f"stops at {format_count(tasks, 'task')}, {format_percent(share)} of the pool's {dominant}"
    )
    if allocation.promised_tasks is not None:
        promise = float(allocation.promised_tasks[user])
        if tasks >= promise * (1 - 1e-9):
            reason = "all that the pooled mechanism promises"
            return Explanation(name, outcome, reason, LimitCode.PROMISE)
        outcome += f" ({format_count(promise, 'task')} promised)"
    parts = _used_up(allocation, user, {} if cache is None else cache)
    if not parts:
        reason = f"{allocation.mechanism} gives it no more"
        return Explanation(name, outcome, reason, LimitCode.MECHANISM)
    reason = join_names([part.text for part in parts])
    about = tuple(part.key for part in parts)
    scarce = tuple(part.scarcity for part in parts if part.scarcity is not None)
    return Explanation(name, outcome, reason, LimitCode.USED_UP, about, scarce)


def _used_up(allocation: Allocation, user: int, cache: Cache) -> list[_NamedLimit]:
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
    found = []
    for r in np.argsort(-blame.sum(axis=0), kind="stable").tolist():
        where = usable[part[:, r] > _MATTERS]
        if len(where):
            found.append(_used_up_on(problem, r, where, cache))
    return found


def _used_up_on(problem: Problem, resource: int, blocks: Ints, cache: Cache) -> _NamedLimit:
    name, servers = problem.cluster.resources[resource], _servers(problem, blocks, cache)
    text = f"{name} is used up on {servers.text}"
    return _NamedLimit(
        (name, servers.key), text, Scarcity(name, servers.text, frozenset(blocks.tolist()))
    )


def _full_resources(allocation: Allocation, user: int, cache: Cache) -> list[_NamedLimit]:
    """Without prices: which of the user's resources are full, on servers that it can use."""
    problem = allocation.problem
    blocks = np.arange(len(problem.blocks))
    usable = problem.can_use(np.full(len(blocks), user), blocks)
    pools = allocation.assignment.pools
    used: Floats = allocation.assignment.pool_usage[pools.of_block] * pools.part[:, None]
    raw = problem.cluster.capacity[problem.blocks.group] * problem.blocks.count[:, None]
    need = problem.demand[user]
    whole = allocation.whole
    found = []
    for r in np.flatnonzero(need > 0).tolist():
        name = problem.cluster.resources[r]
        if whole:
            short = int(np.count_nonzero(usable & (raw[:, r] - used[:, r] < need[r] * (1 - 1e-9))))
            if short:
                of = int(usable.sum())
                text = f"{name} is too short for one more task on {short:,} of {of:,} servers"
                found.append(_NamedLimit((name, short, of), text))
            continue
        full = np.flatnonzero(usable & (raw[:, r] - used[:, r] <= 1e-9 * raw[:, r]))
        if len(full):
            found.append(_used_up_on(problem, r, full, cache))
    return found


def _servers(problem: Problem, blocks: Ints, cache: Cache) -> _NamedLimit:
    """Name a set of blocks; users that stop together mostly stop on the same ones."""
    key = blocks.tobytes()
    if key not in cache:
        cache[key] = _named(problem, blocks)
    part: _NamedLimit = cache[key]
    return part


def _named(problem: Problem, blocks: Ints) -> _NamedLimit:
    """Name a set of blocks: every server, or groups with their numbers of servers."""
    cluster = problem.cluster
    if len(blocks) == len(problem.blocks) and len(cluster) > 1:
        return _NamedLimit("all", f"all {cluster.size:,} servers")
    size = np.bincount(
        problem.blocks.group[blocks], problem.blocks.count[blocks], minlength=len(cluster)
    ).astype(np.int64)
    groups = np.argsort(-size, kind="stable")[: np.count_nonzero(size)]
    named = [_group(problem, blocks, g, int(size[g])) for g in groups[:_NAMED].tolist()]
    rest = int(size[groups[_NAMED:]].sum())
    if rest:
        named.append(_NamedLimit(rest, format_count(rest, "more server")))
    return _NamedLimit(tuple(part.key for part in named), join_names([part.text for part in named]))


def _group(problem: Problem, blocks: Ints, group: int, size: int) -> _NamedLimit:
    cluster = problem.cluster
    name, count = cluster.names[group], int(cluster.counts[group])
    if size == 1:
        block = blocks[problem.blocks.group[blocks] == group][0]
        server = cluster.server_name(group, int(problem.blocks.first[block]))
        return _NamedLimit(server, server)
    part = "" if size == count else f"{size:,} of "
    return _NamedLimit((name, size), f"{part}the {count:,} {name} servers")
