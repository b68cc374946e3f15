"""Bottleneck proof for mechanisms that fill servers.

On server l a user's level is s_il = x_i/(weight·gamma_il), gamma_il being the tasks it could run
with the server for itself. Nobody can complain about a server if it finds there a resource that it
needs, that is used up, and of which nobody with a higher level than its own has any. This takes no
prices and no solver to check: it is one look at every pair of user and server.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from drfh.allocation.placement import Placement
from drfh.allocation.problem import Floats, Ints
from drfh.allocation.proofs.certificate import Check, Verification, placement_checks, proof_text
from drfh.model.resources import TOLERANCE

__all__ = ["BottleneckProof"]

_CHUNK = 2_000_000  # pairs of user and block looked at together


@dataclass(frozen=True, eq=False)
class BottleneckProof:
    """Whether everybody has a bottleneck on every server it may use.

    Attributes
    ----------
    placement : Placement
        What was given out.
    totals : bool
        Whether a level counts what a user has on all servers (``ps-dsf``), or on that server alone
        (``per-server-drf``).
    gap : float
        The largest violation. That of a user on a server is, for the resource that explains best
        why it has no more there, the part of the resource that is free or the part by which
        somebody's level exceeds its own, whichever is more; at most the part of its tasks that a
        user lacks.
    tolerance : float
        The gap that it should reach.

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 2, "memory": 12}), Server({"cpu": 12, "memory": 2})])
    >>> users = [User("a", {"cpu": 0.2, "memory": 1}), User("b", {"cpu": 1, "memory": 0.2})]
    >>> proof = allocate(cluster, users, mechanism="ps-dsf").certificate
    >>> proof.what, proof.closed, bool(proof.verify())
    ('bottleneck for every user on every server', True, True)
    """

    placement: Placement
    totals: bool
    gap: float
    tolerance: float = 10 * TOLERANCE

    @classmethod
    def of(cls, placement: Placement, *, totals: bool) -> BottleneckProof:
        """Measure a placement."""
        return cls(placement, totals, _violation(placement, totals=totals))

    @property
    def what(self) -> str:
        """What is proven."""
        return "bottleneck for every user on every server"

    def __repr__(self) -> str:
        return f"BottleneckProof(gap {self.gap:.1e}, {proof_text(self)})"

    @property
    def closed(self) -> bool:
        """Whether the gap is within the tolerance."""
        return self.gap <= self.tolerance

    def verify(self) -> Verification:
        """Check placement and bottlenecks from scratch, server by server."""
        tasks = self.placement.tasks
        unsound = int((~(np.isfinite(tasks) & (tasks >= 0))).sum())
        checks = (
            *placement_checks(self.placement),
            Check("negative or infinite task", float(unsound), 0.0),
            Check("no bottleneck", _violation(self.placement, totals=self.totals), self.tolerance),
        )
        return Verification(checks)


def _violation(placement: Placement, *, totals: bool) -> float:
    problem = placement.problem
    total = placement.user_tasks
    with np.errstate(divide="ignore", invalid="ignore"):
        # Who has all its tasks, or none and no server to run them, wants nothing.
        lacking = np.where(problem.limit > 0, 1 - total / problem.limit, 0.0)
    blocks = np.arange(len(problem.blocks))
    parts = np.array_split(blocks, 1 + len(blocks) * len(total) // _CHUNK)
    return max(_worst(placement, part, lacking, totals=totals) for part in parts)


def _worst(placement: Placement, blocks: Ints, lacking: Floats, *, totals: bool) -> float:
    """Return the largest violation on some of the blocks."""
    problem = placement.problem
    capacity = problem.cluster.capacity[problem.blocks.group[blocks]]
    here = np.zeros((len(blocks), len(problem.users)))  # tasks on one server of each block
    block, user, tasks = placement.entries_of(blocks)
    here[np.searchsorted(blocks, block), user] = tasks / problem.blocks.count[block]
    usable = problem.usable_on(blocks)
    alone = np.full(here.shape, np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        for r, need in enumerate(problem.demand.T):
            np.minimum(alone, capacity[:, r, None] / need, out=alone, where=need > 0)
        level = (placement.user_tasks if totals else here) / (problem.weight * alone)
        violation = np.full(here.shape, np.inf)
        for r, need in enumerate(problem.demand.T):
            free = 1 - (here @ need) / capacity[:, r]
            highest = np.where((here > 0) & (need > 0), level, 0.0).max(axis=1)
            above = np.where(level < highest[:, None], 1 - level / highest[:, None], 0.0)
            np.fmin(violation, np.maximum(free[:, None], above), out=violation, where=need > 0)
    violation = np.minimum(violation, lacking)
    if usable is not None:
        violation[~usable.T] = 0.0
    largest = float(violation.max(initial=0.0))
    return math.inf if math.isnan(largest) else max(largest, 0.0)
