"""The answer: who gets how much, where, and why not more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from drfh.certificate import Proof, Verification
from drfh.errors import InputError, UnknownNameError
from drfh.explain import explain
from drfh.placement import Placement
from drfh.problem import Floats, Problem
from drfh.resources import some

if TYPE_CHECKING:
    import altair
    import polars

__all__ = ["Allocation"]


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
    >>> print(allocation.explain("ann").partition(": ")[2])
    cpu is used up on high-memory and memory is used up on high-cpu.
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
        """Say in one sentence what limits a user."""
        names = self.problem.names()
        if user not in names:
            raise UnknownNameError("user", str(user), names)
        return explain(self, names.index(user))

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
        from drfh.tables import placement_table

        return placement_table(self, expand=expand)

    def user_table(self) -> polars.DataFrame:
        """Return a row a user: weight, tasks, share, level, dominant resource."""
        from drfh.tables import user_table

        return user_table(self)

    def group_table(self) -> polars.DataFrame:
        """Return a row for each server group: count and utilisation of each resource."""
        from drfh.tables import group_table

        return group_table(self)

    def price_table(self) -> polars.DataFrame:
        """Return the certificate's prices: a row for each round, server group and resource."""
        from drfh.tables import price_table

        return price_table(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the single servers as plain data, ready for JSON."""
        from drfh.tables import to_dict

        return to_dict(self)

    def plot(self) -> altair.TopLevelMixin:
        """Return a picture: stacked bars per server group and resource, coloured by user."""
        from drfh.report.allocation import allocation_chart

        return allocation_chart(self)

    def __repr__(self) -> str:
        problem = self.problem
        proof = "" if self.certificate is None else f", gap {self.certificate.gap:.1e}"
        return (
            f"Allocation({self.mechanism}: {some(len(problem.users), 'user')} on "
            f"{some(problem.cluster.size, 'server')}, {self.method}{proof})"
        )
