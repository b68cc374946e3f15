"""Welfare functions, and the proof that an allocation has the largest.

A concave welfare W lies below its tangent: with g_i the marginal welfare of user i's share at the
answer x, no allocation x' has more than W(x) + Σ g_i·(x'_i − x_i). Prices p ≥ 0 bound what the
tangent can reach: user i pays at least its least price mu_i for a share, so Σ g_i·x'_i is at most
P = Σ p·c + Σ_i max(0, g_i − mu_i)·(the most share of i), for *every* allocation. If the answer has
Σ g_i·x_i = P, nothing is better. (These are the conditions of Karush, Kuhn and Tucker.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np

from drfh.allocation.placement import Placement
from drfh.allocation.problem import Floats, Problem
from drfh.allocation.proofs.certificate import (
    Check,
    Prices,
    TablePrices,
    Verification,
    placement_checks,
    proof_text,
)
from drfh.model.resources import TOLERANCE

__all__ = ["LowestLevel", "PowerWelfare", "Welfare", "WelfareProof"]

# A stored gradient may differ from the recomputed one by round-off only.
_SAME = 1e-9
# Part of a resource, or of a user's tasks, that may be left where nothing should be.
_LEFT = 1e-5
# How far a single user may be, relatively, from where the prices stop it.
_MOST_STRAIN = 1e-5


class Welfare(Protocol):
    """A concave, increasing function of the users' shares, known by its gradients.

    `of_each` says whether its best allocation is one for every user: then users that count for
    next to nothing in the sum must be where the prices stop them, too.
    """

    @property
    def of_each(self) -> bool: ...  # noqa: D102

    def strays(self, problem: Problem, share: Floats, gradient: Floats) -> float:
        """Return the relative distance from a supergradient at the shares."""


@dataclass(frozen=True, slots=True)
class PowerWelfare:
    """The fairness family of Joe-Wong et al., with beta and lambda.

    With y_i a user's tasks or its share and q_i = y_i/weight_i, the marginal welfare of y_i is
    q_i^(-beta) + extra·(mean of q^(-beta), each user counting y_i), up to a factor for all. The
    values beta = 0, 1, → ∞ (extra = 0) are total, Nash welfare and the lowest level.

    Attributes
    ----------
    beta : float
        How much the poor count more, ≥ 0.
    extra : float
        How much the total counts, ≥ 0: (|lam| − |1 − beta|/beta) / (|1 − beta|/beta).
    of_tasks : bool
        Whether y is the number of tasks; else the dominant share.
    """

    beta: float
    extra: float = 0.0
    of_tasks: bool = False

    @property
    def of_each(self) -> bool:
        """Whether every user has its own best: a total counts only as a whole."""
        return self.beta > 0

    def unit(self, problem: Problem) -> Floats:
        """Return what one unit of dominant share counts, for each user."""
        return 1 / problem.task_share if self.of_tasks else np.ones(len(problem.users))

    def gradient(self, problem: Problem, share: Floats) -> Floats:
        """Return the marginal welfare of each user's share, or 0.

        Examples
        --------
        >>> from drfh import Cluster, Server, User
        >>> users = [User("a", {"cpu": 1}), User("b", {"cpu": 1})]
        >>> problem = Problem.build(Cluster([Server({"cpu": 4})]), users)
        >>> PowerWelfare(beta=2).gradient(problem, np.array([0.25, 0.75])).round(3)
        array([1.   , 0.111])
        """
        counts = problem.share_limit > 0
        gradient = np.zeros(len(share))
        if not counts.any():
            return gradient
        unit = self.unit(problem)[counts]
        # The lowest counts 1: no power overflows.
        with np.errstate(all="ignore"):
            y = unit * share[counts]
            q = y / problem.weight[counts]
            phi = (q / q.min()) ** -self.beta
            kappa = self.extra * float(y @ phi) / float(y.sum()) if self.extra > 0 else 0.0
            gradient[counts] = unit * (phi + kappa)
        # Somebody without anything: there the welfare is as low as can be.
        return gradient if np.isfinite(gradient).all() else np.full(len(share), math.nan)

    def strays(self, problem: Problem, share: Floats, gradient: Floats) -> float:
        """Return the largest relative difference to the gradient, both normalised."""
        right = self.gradient(problem, share)
        if not (np.isfinite(right).all() and np.isfinite(gradient).all()):
            return math.inf
        if not right.any():
            return 0.0 if not gradient.any() else math.inf
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = gradient[right > 0] / right[right > 0]
            off = float(np.abs(ratio / ratio.max() - 1).max())
        return math.inf if math.isnan(off) or gradient[right <= 0].any() else off


@dataclass(frozen=True, slots=True)
class LowestLevel:
    """The lowest level: share per weight of the user that has least."""

    of_each: ClassVar[bool] = False

    def strays(self, problem: Problem, share: Floats, gradient: Floats) -> float:
        """Return how far those that the gradient counts are above the lowest, on average."""
        level = share / problem.weight
        count = gradient * problem.weight
        lowest = float(level.min())
        if not (count.min() >= 0 and math.isfinite(count.sum()) and count.sum() > 0):
            return math.inf
        if lowest <= 0:
            return float(count @ level) / float(count.sum())
        return float(count @ (level / lowest - 1)) / float(count.sum())


@dataclass(frozen=True, eq=False)
class WelfareProof:
    """Prices that bound the welfare of every allocation, and their gap.

    Attributes
    ----------
    placement : Placement
        The answer.
    welfare : Welfare
        What it maximises.
    gradient : array
        Marginal welfare of each user's share at the answer.
    prices : Prices or None
        Of resources on servers; None if every user that counts has all its tasks.
    gap : float
        How far the bound is above the answer, relative to Σ gradient·share; or, if that is more
        than round-off, how far any single user is from where the prices stop it. The whole does not
        see a user that counts for little.
    tolerance : float
        The gap that it should reach.
    of_whole : float
        The gap of the whole alone.
    """

    placement: Placement
    welfare: Welfare
    gradient: Floats
    prices: Prices | None
    gap: float = math.inf
    tolerance: float = 10 * TOLERANCE
    of_whole: float = math.inf

    @classmethod
    def of(
        cls, placement: Placement, welfare: Welfare, gradient: Floats, prices: Prices | None
    ) -> WelfareProof:
        """Measure the gap."""
        proof = cls(placement, welfare, gradient, prices)
        gap, strain = proof._measure(), proof._strain()
        worst = gap if strain <= _MOST_STRAIN else max(gap, strain)
        return replace(proof, gap=worst, of_whole=gap)

    @property
    def what(self) -> str:
        """What is proven."""
        return "optimal"

    def __repr__(self) -> str:
        return f"WelfareProof(gap {self.gap:.1e}, {proof_text(self)})"

    @property
    def closed(self) -> bool:
        """Whether the gap is within the tolerance."""
        return self.gap <= self.tolerance

    def _measure(self) -> float:
        problem = self.placement.problem
        share = self.placement.user_tasks * problem.task_share
        held = float(self.gradient @ share)
        bound, least = 0.0, np.zeros(len(share))
        if self.prices is not None:
            bound, least = self.prices.value(problem), self.prices.of_users(problem)
        # Nobody has more than its tasks, nor more than all of what it needs most.
        most = np.minimum(problem.share_limit, 1.0)
        bound += float(np.maximum(self.gradient - least, 0.0) @ most)
        if not (math.isfinite(bound) and math.isfinite(held)):
            return math.inf
        if bound <= 0:
            return 0.0
        if held <= 0:
            return math.inf
        gap = bound / held - 1
        # Clearly above a bound that holds for all allocations: that is no allocation.
        return abs(gap) if gap < -TOLERANCE else max(gap, 0.0)

    def _strain(self) -> float:
        if not self.welfare.of_each:
            return 0.0
        placement, problem = self.placement, self.placement.problem
        blocks = np.arange(len(problem.blocks))
        block, user, tasks = placement.entries_of(blocks)
        part = tasks * problem.task_share[user]
        used = np.stack(
            [np.bincount(block, part * d[user], len(blocks)) for d in problem.direction.T], axis=1
        )
        # A price counts only where there is nothing left.
        firm = np.zeros(used.shape)
        if self.prices is not None:
            full = used >= problem.capacity * (1 - _LEFT)
            firm = np.where(full, self.prices.of_blocks(problem), 0.0)
        share = np.bincount(user, part, len(problem.users))
        own = self.gradient
        counts = (own > 0) & problem.reachable
        wants = counts & (share < problem.share_limit * (1 - _LEFT))
        least = TablePrices(firm, blocks).of_users(problem)
        each = part * np.einsum("er,er->e", problem.direction[user], firm[block])
        paid = np.bincount(user, each, len(share))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            short = np.where(wants, 1 - least / own, 0.0)
            over = np.where(counts & (share > 0), paid / (own * share) - 1, 0.0)
        worst = float(np.maximum(short, over).max(initial=0.0))
        return math.inf if math.isnan(worst) else max(worst, 0.0)

    def verify(self) -> Verification:
        """Check placement, gradient and prices from scratch, without a solver.

        Examples
        --------
        >>> import drfh
        >>> cluster = drfh.Cluster([drfh.Server({"cpu": 9, "memory": 18})])
        >>> users = [drfh.User("a", {"cpu": 1, "memory": 4}), drfh.User("b", {"cpu": 3})]
        >>> bool(drfh.allocate(cluster, users, mechanism="nash").certificate.verify())
        True
        """
        placement, problem = self.placement, self.placement.problem
        share = placement.user_tasks * problem.task_share
        numbers = [placement.tasks, self.gradient]
        if self.prices is not None:
            numbers.append(self.prices.of_blocks(problem))
        unsound = sum(int((~(np.isfinite(t) & (t >= 0))).sum()) for t in numbers)
        checks = (
            *placement_checks(placement),
            Check("negative or infinite task, gradient or price", float(unsound), 0.0),
            Check(
                "gradient that is none of the welfare",
                self.welfare.strays(problem, share, self.gradient),
                _SAME,
            ),
            Check("relative gap", self._measure(), self.tolerance),
            Check("user that the prices do not stop", self._strain(), _MOST_STRAIN),
        )
        return Verification(checks)
