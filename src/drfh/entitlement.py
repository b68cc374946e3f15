"""What a level is: the share of each user that counts as level 1, and the most it may have.

Every leximin mechanism is one such scale. DRFH measures the dominant share per weight, TSF the
tasks against those a user could run alone, asset fairness the sum of shares, and placing a promise
measures what part of it is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from drfh.problem import Floats, Ints, Problem

__all__ = ["Entitlement", "PerTask", "Promise", "Rule", "by_weight"]


@dataclass(frozen=True, slots=True, eq=False)
class Entitlement:
    """The scale on which users rise.

    Attributes
    ----------
    share : array
        Dominant share that makes a level of 1, > 0.
    cap : array
        The most share that each user may have.
    phase : int array or None
        Users of a later phase rise only when those of the earlier ones have stopped.
    """

    share: Floats
    cap: Floats
    phase: Ints | None = None


#: From a problem to the scale of a mechanism: certificates keep it and measure anew with it.
Rule: TypeAlias = Callable[[Problem], Entitlement]


def by_weight(problem: Problem) -> Entitlement:
    """Return the scale of DRFH: a share of the size of the weight is level 1.

    Examples
    --------
    >>> from drfh import Cluster, Server, User
    >>> problem = Problem.build(Cluster([Server({"cpu": 4})]), [User("a", {"cpu": 1}, tasks=2)])
    >>> by_weight(problem).cap
    array([0.5])
    """
    return Entitlement(problem.weight, problem.share_limit)


@dataclass(frozen=True, slots=True, eq=False)
class Promise:
    """The part of promised tasks that is kept, at most 1; who can use no server gets nothing."""

    tasks: Floats

    def __call__(self, problem: Problem) -> Entitlement:
        """Return the scale."""
        share = self.tasks * problem.task_share
        cap = np.where(problem.reachable, share, 0.0)
        return Entitlement(np.where(share > 0, share, 1.0), cap)


@dataclass(frozen=True, slots=True, eq=False)
class PerTask:
    """Level = tasks · measure / weight, for a measure of one task of each user.

    A user whose task measures 0 stays at level 0 whatever it gets, so leximin says nothing about
    it: such users share what the others leave, by dominant share.
    """

    measure: Callable[[Problem], Floats]

    def __call__(self, problem: Problem) -> Entitlement:
        """Return the scale."""
        one = self.measure(problem)
        counts = one > 0
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(counts, problem.weight * problem.task_share / one, problem.weight)
        phase = None if counts.all() else np.where(counts, 0, 1).astype(np.int64)
        return Entitlement(share, problem.share_limit, phase)
