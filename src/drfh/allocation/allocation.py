"""Allocation: who gets how much, where, and what limits it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import polars

from drfh.allocation.explain import Cache, explain
from drfh.allocation.placement import Placement
from drfh.allocation.problem import Floats, Ints, Problem, by_mix
from drfh.allocation.proofs.certificate import (
    Certificate,
    Prices,
    Proof,
    Verification,
    placement_checks,
)
from drfh.allocation.proofs.welfare import WelfareProof
from drfh.errors import InputError, UnknownNameError
from drfh.formatting import format_count
from drfh.model.scenario import titled_shapes, unit_slips
from drfh.model.users import User

if TYPE_CHECKING:
    import altair

__all__ = [
    "Allocation",
    "group_table",
    "kind_names",
    "kind_table",
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

    @property
    def users(self) -> tuple[User, ...]:
        """The users; where they have several kinds of tasks, the problem has one for each kind."""
        mixes = self.problem.mixes
        return self.problem.users if mixes is None else mixes.users

    def rows_of(self, user: int) -> Ints:
        """Return the positions in the problem of a user's kinds of tasks."""
        return self.problem.rows_of(user)

    def _by_user(self, values: Floats) -> dict[str, float]:
        names = [user.name for user in self.users]
        return dict(zip(names, values.tolist(), strict=True))

    def sums(self, values: Floats) -> Floats:
        """Return the sum of a value over the kinds of tasks of each user, in user order."""
        mixes = self.problem.mixes
        return values if mixes is None else mixes.sums(values)

    @cached_property
    def task_vector(self) -> Floats:
        """Tasks of all kinds, in user order."""
        return self.sums(self.assignment.user_tasks)

    @cached_property
    def use_vector(self) -> Floats:
        """Which resources each user needs most, in user order: the largest is its dominant one."""
        problem = self.problem
        if problem.mixes is None:
            return problem.direction
        return problem.mixes.sums(self.assignment.user_tasks[:, None] * problem.part_of_pool)

    @cached_property
    def share_vector(self) -> Floats:
        """Global dominant shares, in user order."""
        problem = self.problem
        if problem.mixes is not None:
            most: Floats = self.use_vector.max(axis=1)
            return most
        share: Floats = self.assignment.user_tasks * problem.task_share
        return share

    @cached_property
    def level_vector(self) -> Floats:
        """What DRFH equalises, in user order: share / weight, for mixes the sum over rounds."""
        problem = self.problem
        if problem.mixes is None:
            return self.share_vector / problem.weight
        if isinstance(self.certificate, Certificate) and self.certificate.rule is by_mix:
            return self.certificate.mix_levels()
        return self.share_vector / problem.mixes.weight

    @property
    def tasks(self) -> dict[str, float]:
        """Tasks of each user, of all kinds."""
        return self._by_user(self.task_vector)

    @property
    def kinds(self) -> dict[str, list[float]]:
        """Tasks of each user by kind, in the order of its kinds."""
        mixes, tasks = self.problem.mixes, self.assignment.user_tasks
        owner = np.arange(len(tasks)) if mixes is None else mixes.owner
        result: dict[str, list[float]] = {user.name: [] for user in self.users}
        for position, number in zip(owner.tolist(), tasks.tolist(), strict=True):
            result[self.users[position].name].append(number)
        return result

    @property
    def shares(self) -> dict[str, float]:
        """Global dominant share of each user."""
        return self._by_user(self.share_vector)

    @property
    def levels(self) -> dict[str, float]:
        """Share / weight of each user: what DRFH equalises (for mixes the sum over rounds)."""
        return self._by_user(self.level_vector)

    @property
    def promised(self) -> dict[str, float] | None:
        """Tasks that a pooled mechanism promises; `tasks` is what can be placed of them."""
        return (
            None if self.promised_tasks is None else self._by_user(self.sums(self.promised_tasks))
        )

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
        return self.users[user].name, max(0.0, float(1 - ratio[user]))

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What looks wrong in the problem: demands without their unit."""
        named = [(title, shape.demand) for title, shape in titled_shapes(self.users)]
        return tuple(f"{title}: {text}" for title, text in unit_slips(self.problem.cluster, named))

    def verify(self) -> Verification:
        """Check placement and prices from scratch, without a solver.

        Of a mechanism without a certificate only the placement is checked.
        """
        if self.certificate is not None:
            return self.certificate.verify()
        if self.whole:
            raise InputError("verify", "needs divisible tasks: whole ones have no certificate")
        return Verification(placement_checks(self.assignment))

    def explain(self, user: str) -> str:
        """Return what limits a user: a sentence, for each of its kinds of tasks.

        Parameters
        ----------
        user
            Its name; or ``user/kind`` for one of its kinds.
        """
        names, kinds = [known.name for known in self.users], self.problem.names()
        if user in names:
            rows = self.rows_of(names.index(user)).tolist()
        elif user in kinds:
            rows = [kinds.index(user)]
        else:
            raise UnknownNameError("user", str(user), dict.fromkeys([*names, *kinds]))
        cache: Cache = {}
        return " ".join(str(explain(self, row, cache)) for row in rows)

    def placement(self, *, expand: bool = False) -> polars.DataFrame:
        """Return who runs where.

        Parameters
        ----------
        expand
            Single servers instead of server groups.

        Returns
        -------
        polars.DataFrame
            Columns user, group (or server), tasks; and kind, where users have several.
        """
        return placement_table(self, expand=expand)

    def user_table(self) -> polars.DataFrame:
        """Return a row a user: weight, tasks, share, level, dominant resource."""
        return user_table(self)

    def kind_table(self) -> polars.DataFrame:
        """Return a row for each kind of tasks of each user: ratio, limit, tasks."""
        return kind_table(self)

    def group_table(self) -> polars.DataFrame:
        """Return a row for each server group: count and utilisation of each resource."""
        return group_table(self)

    def price_table(self) -> polars.DataFrame:
        """Return the certificate's prices: a row for each round, server group and resource."""
        return price_table(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the single servers as plain data, ready for JSON."""
        return to_dict(self)

    def plot(self, figure: str = "servers") -> altair.TopLevelMixin:
        """Return a chart of the allocation.

        Parameters
        ----------
        figure
            ``servers``: stacked bars per server group and resource, coloured by user; ``shares``:
            the users' dominant shares.
        """
        from drfh.report.charts.allocation import allocation_figure

        return allocation_figure(self, figure)

    def to_latex(self) -> str:
        """Return a row for each user as a LaTeX table (booktabs)."""
        from drfh.report.tables import allocation_table

        return allocation_table(self).to_latex()

    def _repr_html_(self) -> str:
        from drfh.report.tables import allocation_table

        return allocation_table(self).to_html()

    def __repr__(self) -> str:
        problem = self.problem
        proof = "" if self.certificate is None else f", gap {self.certificate.gap:.1e}"
        if self.warnings:
            proof += f", {format_count(len(self.warnings), 'warning')}: {self.warnings[0]}"
        return (
            f"Allocation({self.mechanism}: {format_count(len(self.users), 'user')} on "
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
        "user": [user.name for user in allocation.users],
        "weight": [user.weight for user in allocation.users],
        "limit": _limits(allocation.sums(problem.limit)),
        "tasks": allocation.task_vector,
        "share": allocation.share_vector,
        "level": allocation.level_vector,
        "dominant": resources[np.argmax(allocation.use_vector, axis=1)].tolist(),
    }
    if allocation.promised_tasks is not None:
        columns["promised"] = allocation.sums(allocation.promised_tasks)
    if allocation.divisible is not None:
        columns["divisible"] = allocation.divisible.task_vector
    return polars.DataFrame(columns)


def _limits(numbers: Floats) -> polars.Series:
    """Return numbers of tasks, None for no end."""
    return polars.Series(
        [None if math.isinf(t) else t for t in numbers.tolist()], dtype=polars.Float64
    )


def kind_table(allocation: Allocation) -> polars.DataFrame:
    """Return a row for each kind of tasks of each user; one without kinds has a row without a name.

    Examples
    --------
    >>> from drfh import Cluster, Kind, Server, User, allocate
    >>> kinds = [Kind({"cpu": 1}, name="web"), Kind({"cpu": 2}, tasks=1, name="etl")]
    >>> allocation = allocate(Cluster([Server({"cpu": 8})]), [User("ann", kinds=kinds)])
    >>> kind_table(allocation).select("user", "kind", "tasks").rows()
    [('ann', 'web', 6.0), ('ann', 'etl', 1.0)]
    """
    problem = allocation.problem
    owner = range(len(problem.users)) if problem.mixes is None else problem.mixes.owner.tolist()
    ratio = np.ones(len(problem.users)) if problem.mixes is None else problem.mixes.ratio
    return polars.DataFrame(
        {
            "user": [allocation.users[position].name for position in owner],
            "kind": polars.Series(kind_names(problem), dtype=polars.String),
            "ratio": ratio,
            "limit": _limits(problem.limit),
            "tasks": allocation.assignment.user_tasks,
        }
    )


def kind_names(problem: Problem) -> list[str | None]:
    """Return the name of the kind of each row of a problem; None where a user has but one."""
    if problem.mixes is None:
        return [None] * len(problem.users)
    return [
        kind.name or str(number) if kind is not None else None
        for user in problem.mixes.users
        for number, kind in enumerate(user.kinds or (None,), start=1)
    ]


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
    if not expand:
        frame = polars.DataFrame({"user": user, "group": blocks.group[block], "tasks": tasks})
        if len(blocks) != len(cluster):
            frame = frame.group_by("user", "group", maintain_order=True).agg(
                polars.col("tasks").sum()
            )
        frame = frame.sort("user", "group")
        groups = np.array(cluster.names, dtype=object)
        frame = frame.with_columns(
            polars.Series("group", groups[frame["group"].to_numpy()].tolist(), polars.String)
        )
        return _with_names(allocation, frame)
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
    frame = polars.DataFrame(
        {
            "user": user[entry[by_user]],
            "server": polars.Series(
                np.repeat(np.array(server, dtype=object), length)[by_user].tolist(),
                dtype=polars.String,
            ),
            "tasks": each[entry[by_user]],
        }
    )
    return _with_names(allocation, frame)


def _with_names(allocation: Allocation, frame: polars.DataFrame) -> polars.DataFrame:
    """Return a table with the names of users, and of kinds if there are any, for their numbers."""
    problem, rows = allocation.problem, frame["user"].to_numpy()
    names = problem.names()
    if problem.mixes is not None:
        names = [allocation.users[position].name for position in problem.mixes.owner.tolist()]
        kinds = np.array(kind_names(problem), dtype=object)[rows].tolist()
        frame.insert_column(1, polars.Series("kind", kinds, polars.String))
    named = np.array(names, dtype=object)[rows].tolist()
    return frame.with_columns(polars.Series("user", named, polars.String))


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
    explained = len(problem.users) * len(problem.blocks) <= _MOST_REASONS
    cache: Cache = {}
    for position, row in enumerate(result["users"]):
        rows = allocation.rows_of(position).tolist()
        reasons = [str(explain(allocation, kind, cache)) for kind in rows] if explained else []
        if explained:
            row["why"] = " ".join(reasons)
        if allocation.users[position].kinds:
            row["kinds"] = kind_table(allocation)[rows].drop("user").to_dicts()
            for kind, reason in zip(row["kinds"], reasons, strict=explained):
                kind["why"] = reason
    if allocation.certificate is not None:
        result["certificate"] = _proof(allocation)
    if allocation.divisible is not None:
        result["filling"] = allocation.parameters.get("filling")
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
