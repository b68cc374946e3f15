"""Allocation: who gets how much, where, and what limits it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars

from drfh.allocation.explain import explain
from drfh.allocation.placement import Placement
from drfh.allocation.problem import Floats, Problem
from drfh.allocation.proofs.certificate import Certificate, Prices, Proof, Verification
from drfh.allocation.proofs.welfare import WelfareProof
from drfh.errors import InputError, UnknownNameError
from drfh.formatting import format_count

if TYPE_CHECKING:
    import altair

__all__ = [
    "Allocation",
    "group_table",
    "placement_table",
    "price_table",
    "to_dict",
    "user_table",
]


@dataclass(frozen=True, eq=False)
class Allocation:
    """What each user gets. Big tables are built when they are asked for.

    Attributes
    ----------
    mechanism, method : str
        Which mechanism, and which solver found the answer.
    certificate : Proof or None
        Prices and gap: the proof, for mechanisms that have one.
    divisible : Allocation or None
        For whole tasks: the divisible optimum beside it.
    whole : bool
        Whether tasks are whole.
    seconds : float
        From records to answer, certificate included.
    notes : tuple of str
        What the reader should know.
    parameters : dict
        Parameters of the mechanism.
    source : callable or None
        The mechanism with its parameters: asks it about another problem.

    Examples
    --------
    >>> import drfh
    >>> cluster = drfh.Cluster([
    ...     drfh.Server({"cpu": 2, "memory": 12}, name="high-memory"),
    ...     drfh.Server({"cpu": 12, "memory": 2}, name="high-cpu"),
    ... ])
    >>> users = [
    ...     drfh.User("ann", {"cpu": 0.2, "memory": 1}),
    ...     drfh.User("bob", {"cpu": 1, "memory": 0.2}),
    ... ]
    >>> allocation = drfh.allocate(cluster, users)
    >>> {name: round(share, 6) for name, share in allocation.shares.items()}
    {'ann': 0.714286, 'bob': 0.714286}
    >>> print(allocation.explain("ann"))
    ann stops at 10 tasks, 71.4 % of the pool's memory: cpu is used up on high-memory and \
memory is used up on high-cpu.
    >>> bool(allocation.verify())
    True
    """

    problem: Problem
    assignment: Placement
    mechanism: str
    method: str
    certificate: Proof | None = None
    promised_tasks: Floats | None = None
    divisible: Allocation | None = None
    whole: bool = False
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    source: Callable[[Problem], Any] | None = None

    def _by_user(self, values: Floats) -> dict[str, float]:
        return dict(zip(self.problem.names(), values.tolist(), strict=True))

    @cached_property
    def share_vector(self) -> Floats:
        """Global dominant shares, in user order."""
        share: Floats = self.assignment.user_tasks * self.problem.task_share
        return share

    @property
    def tasks(self) -> dict[str, float]:
        """Tasks of each user."""
        return self._by_user(self.assignment.user_tasks)

    @property
    def shares(self) -> dict[str, float]:
        """Global dominant share of each user."""
        return self._by_user(self.share_vector)

    @property
    def levels(self) -> dict[str, float]:
        """Share / weight of each user: what DRFH equalises."""
        return self._by_user(self.share_vector / self.problem.weight)

    @property
    def promised(self) -> dict[str, float] | None:
        """Tasks that a pooled mechanism promises; `tasks` is what can be placed of them."""
        return None if self.promised_tasks is None else self._by_user(self.promised_tasks)

    @property
    def utilisation(self) -> dict[str, float]:
        """Part of each resource of the pool that is in use."""
        cluster = self.problem.cluster
        used = self.assignment.pool_usage.sum(axis=0) / np.where(
            cluster.totals > 0, cluster.totals, 1.0
        )
        return dict(zip(cluster.resources, used.tolist(), strict=True))

    @property
    def loss(self) -> float | None:
        """Whole tasks: 1 − min_i (level_i / divisible level_i); None for divisible ones."""
        worst = self.worst_off()
        return None if worst is None else worst[1]

    def worst_off(self) -> tuple[str, float] | None:
        """Whole tasks: who loses most against the divisible optimum, and how much."""
        if self.divisible is None:
            return None
        best = self.divisible.share_vector
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(best > 0, self.share_vector / best, 1.0)
        user = int(np.argmin(ratio))
        return self.problem.users[user].name, max(0.0, float(1 - ratio[user]))

    def verify(self) -> Verification:
        """Check placement and prices from scratch, without a solver."""
        if self.certificate is None:
            if self.whole:
                raise InputError("verify", "needs divisible tasks: whole ones have no certificate")
            raise InputError("verify", "needs a mechanism with a certificate", self.mechanism)
        return self.certificate.verify()

    def explain(self, user: str) -> str:
        """Return in one sentence what limits a user."""
        names = self.problem.names()
        if user not in names:
            raise UnknownNameError("user", str(user), names)
        return str(explain(self, names.index(user)))

    def placement(self, *, expand: bool = False) -> polars.DataFrame:
        """Return who runs where.

        Parameters
        ----------
        expand
            Single servers instead of server groups.

        Returns
        -------
        polars.DataFrame
            Columns user, group (or server), tasks.
        """
        return placement_table(self, expand=expand)

    def user_table(self) -> polars.DataFrame:
        """Return a row a user: weight, tasks, share, level, dominant resource."""
        return user_table(self)

    def group_table(self) -> polars.DataFrame:
        """Return a row for each server group: count and utilisation of each resource."""
        return group_table(self)

    def price_table(self) -> polars.DataFrame:
        """Return the certificate's prices: a row for each round, server group and resource."""
        return price_table(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the single servers as plain data, ready for JSON."""
        return to_dict(self)

    def plot(self) -> altair.TopLevelMixin:
        """Return a chart: stacked bars per server group and resource, coloured by user."""
        from drfh.report.charts.allocation import allocation_chart

        return allocation_chart(self)

    def __repr__(self) -> str:
        problem = self.problem
        proof = "" if self.certificate is None else f", gap {self.certificate.gap:.1e}"
        return (
            f"Allocation({self.mechanism}: {format_count(len(problem.users), 'user')} on "
            f"{format_count(problem.cluster.size, 'server')}, {self.method}{proof})"
        )


_MOST_ROWS = 100_000_000
_MOST_REASONS = 10_000_000  # pairs of user and servers that are looked through for reasons


def user_table(allocation: Allocation) -> polars.DataFrame:
    """Return a row a user.

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> allocation = allocate(Cluster([Server({"cpu": 4})]), [User("ann", {"cpu": 1})])
    >>> user_table(allocation).row(0, named=True)["tasks"]
    4.0
    """
    problem = allocation.problem
    resources = np.array(problem.cluster.resources)
    columns: dict[str, Any] = {
        "user": problem.names(),
        "weight": problem.weight,
        "limit": polars.Series(
            [None if math.isinf(t) else t for t in problem.limit.tolist()], dtype=polars.Float64
        ),
        "tasks": allocation.assignment.user_tasks,
        "share": allocation.share_vector,
        "level": allocation.share_vector / problem.weight,
        "dominant": resources[np.argmax(problem.direction, axis=1)].tolist(),
    }
    if allocation.promised_tasks is not None:
        columns["promised"] = allocation.promised_tasks
    if allocation.divisible is not None:
        columns["divisible"] = allocation.divisible.assignment.user_tasks
    return polars.DataFrame(columns)


def group_table(allocation: Allocation) -> polars.DataFrame:
    """Return a row for each server group: servers, utilisation of each resource.

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> allocation = allocate(Cluster([Server({"cpu": 4}, count=2)]), [User("a", {"cpu": 1})])
    >>> group_table(allocation).rows()
    [('server-1', 2, 1.0)]
    """
    cluster = allocation.problem.cluster
    capacity = cluster.capacity * cluster.counts[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        used = allocation.assignment.group_usage / capacity
    columns: dict[str, Any] = {"group": list(cluster.names), "servers": cluster.counts}
    for r, resource in enumerate(cluster.resources):
        part = [None if math.isnan(u) else u for u in used[:, r].tolist()]
        # Any name is a good name for a resource, even that of a column.
        column = f"{resource} used" if resource in columns else resource
        columns[column] = polars.Series(part, dtype=polars.Float64)
    return polars.DataFrame(columns)


def placement_table(allocation: Allocation, *, expand: bool = False) -> polars.DataFrame:
    """Return who runs where, by group or (`expand`) by server.

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 4}, name="node", count=2)])
    >>> placement_table(allocate(cluster, [User("a", {"cpu": 1})]), expand=True).rows()
    [('a', 'node/0', 4.0), ('a', 'node/1', 4.0)]
    """
    problem, assignment = allocation.problem, allocation.assignment
    cluster, blocks = problem.cluster, problem.blocks
    entries = np.bincount(assignment.pool, minlength=assignment.pools.size)
    rows = entries[assignment.pools.of_block] * (blocks.count if expand else 1)
    if rows.sum() > _MOST_ROWS:
        raise InputError("placement", f"must have at most {_MOST_ROWS:,} rows", int(rows.sum()))
    block, user, tasks = assignment.entries_of(np.arange(len(blocks)))
    names = np.array(problem.names(), dtype=object)
    if not expand:
        frame = polars.DataFrame({"user": user, "group": blocks.group[block], "tasks": tasks})
        if len(blocks) != len(cluster):
            frame = frame.group_by("user", "group", maintain_order=True).agg(
                polars.col("tasks").sum()
            )
        frame = frame.sort("user", "group")
        groups = np.array(cluster.names, dtype=object)
        return frame.with_columns(
            polars.Series("user", names[frame["user"].to_numpy()].tolist(), polars.String),
            polars.Series("group", groups[frame["group"].to_numpy()].tolist(), polars.String),
        )
    # Whole blocks, server by server: every server of a block runs the same.
    each = tasks / blocks.count[block]
    edges = np.searchsorted(block, np.arange(len(blocks) + 1))
    copies = np.repeat(np.arange(len(blocks)), blocks.count)
    start = np.concatenate(([0], np.cumsum(blocks.count)[:-1]))
    inside = np.arange(len(copies)) - start[copies] + blocks.first[copies]
    length = (edges[1:] - edges[:-1])[copies]
    entry = np.repeat(edges[copies] - (np.cumsum(length) - length), length)
    entry += np.arange(len(entry))
    by_user = np.argsort(user[entry], kind="stable")
    server = [
        cluster.server_name(group, index)
        for group, index in zip(blocks.group[copies].tolist(), inside.tolist(), strict=True)
    ]
    return polars.DataFrame(
        {
            "user": polars.Series(names[user[entry[by_user]]].tolist(), dtype=polars.String),
            "server": polars.Series(
                np.repeat(np.array(server, dtype=object), length)[by_user].tolist(),
                dtype=polars.String,
            ),
            "tasks": each[entry[by_user]],
        }
    )


def price_table(allocation: Allocation) -> polars.DataFrame:
    """Return the certificate's prices by round, servers and resource.

    Prices are per share of the pool: what all of a resource would cost. Servers are a group,
    or a part of one that a restriction tells apart: ``big/0``, ``big/1-5``.

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> allocation = allocate(Cluster([Server({"cpu": 4})]), [User("a", {"cpu": 1})])
    >>> price_table(allocation).rows()
    [(1, 'server-1', 'cpu', 1.0)]
    """
    problem = allocation.problem
    resources = list(problem.cluster.resources)
    schema = {
        "round": polars.Int64,
        "servers": polars.String,
        "resource": polars.String,
        "price": polars.Float64,
    }
    frames = [polars.DataFrame(schema=schema)]
    names = np.array(_block_names(problem), dtype=object)
    certificate = allocation.certificate
    by_round: list[Prices | None] = []
    if isinstance(certificate, Certificate):
        by_round = [r.prices for r in certificate.rounds]
    elif isinstance(certificate, WelfareProof):
        by_round = [certificate.prices]
    for number, prices in enumerate(by_round, start=1):
        if prices is None:
            continue
        table = prices.of_blocks(problem)
        columns = {
            "round": np.full(table.size, number),
            "servers": np.repeat(names, table.shape[1]).tolist(),
            "resource": resources * len(names),
            "price": table.ravel(),
        }
        frames.append(polars.DataFrame(columns, schema=schema))
    return polars.concat(frames)


def _block_names(problem: Problem) -> list[str]:
    cluster, blocks = problem.cluster, problem.blocks
    names = []
    for group, first, count in zip(
        blocks.group.tolist(), blocks.first.tolist(), blocks.count.tolist(), strict=True
    ):
        if count == cluster.counts[group]:
            names.append(cluster.names[group])
        else:
            last = "" if count == 1 else f"-{first + count - 1}"
            names.append(f"{cluster.names[group]}/{first}{last}")
    return names


def to_dict(allocation: Allocation) -> dict[str, Any]:
    """Return the allocation as plain data: users, groups, placement by group, certificate.

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> allocation = allocate(Cluster([Server({"cpu": 4})]), [User("a", {"cpu": 1})])
    >>> to_dict(allocation)["users"][0]["tasks"]
    4.0
    """
    problem = allocation.problem
    result: dict[str, Any] = {
        "mechanism": allocation.mechanism,
        "method": allocation.method,
        "seconds": allocation.seconds,
        "servers": problem.cluster.size,
        "utilisation": allocation.utilisation,
        "users": user_table(allocation).to_dicts(),
        "groups": group_table(allocation).to_dicts(),
        "placement": placement_table(allocation).to_dicts(),
    }
    if len(problem.users) * len(problem.blocks) <= _MOST_REASONS:
        cache: dict[Any, Any] = {}
        for position, row in enumerate(result["users"]):
            row["why"] = str(explain(allocation, position, cache))
    if allocation.certificate is not None:
        result["certificate"] = _proof(allocation)
    if allocation.divisible is not None:
        result["loss"] = allocation.loss
        result["divisible"] = to_dict(allocation.divisible)
    if allocation.notes:
        result["notes"] = list(allocation.notes)
    return result


def _proof(allocation: Allocation) -> dict[str, Any]:
    certificate = allocation.certificate
    if certificate is None:
        return {}
    result: dict[str, Any] = {
        "proves": certificate.what,
        "gap": certificate.gap,
        "tolerance": certificate.tolerance,
        "closed": certificate.closed,
    }
    if isinstance(certificate, Certificate | WelfareProof):
        # Round → servers → resource → price, of what is not free.
        prices: dict[int, dict[str, dict[str, float]]] = {}
        for number, servers, resource, price in price_table(allocation).iter_rows():
            if price > 0:
                prices.setdefault(number, {}).setdefault(servers, {})[resource] = price
    if isinstance(certificate, WelfareProof):
        result["prices"] = prices.get(1, {})
    if isinstance(certificate, Certificate):
        names = allocation.problem.names()
        result["rounds"] = [
            {
                "level": None if math.isinf(r.level) else r.level,
                "bound": None if math.isinf(r.bound) else r.bound,
                "gap": r.gap,
                "users": [names[i] for i in r.users.tolist()],
                "prices": prices.get(number, {}),
            }
            for number, r in enumerate(certificate.rounds, start=1)
        ]
    return result
