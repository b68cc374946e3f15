"""The radial sharing problem, scaled, and sets of user-server pairs in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from drfh.mechanisms.solvers.point import Columns, Iterate, cold_start
from drfh.problem import Bools, Floats, Ints

__all__ = ["RadialProblem", "State", "every_pair", "usable_pairs"]

CHUNK = 2_000_000  # pairs looked at together


@dataclass(frozen=True, slots=True)
class State:
    """Columns (as ``server * n + user``, ascending) and a point on them."""

    keys: Ints
    point: Iterate


@dataclass(frozen=True, slots=True)
class RadialProblem:
    """The problem, scaled: capacities (m, k) average one and `a` sums to the servers.

    User i gets ``fixed[i] + theta * a[i]``, where theta is likely to be about `guess`. `fixed` is
    None if nothing is; else `most` is what it may cost at most.
    """

    d: Floats
    c: Floats
    a: Floats
    fixed: Floats | None
    guess: float
    most: float
    usable: Bools | None  # (k, n); None if every user may use every server

    def columns(self, keys: Ints) -> Columns:
        """Return the columns of some pairs."""
        server, user = np.divmod(keys, self.d.shape[0])
        return Columns(self.d, self.c.shape[1], user, server)

    def start(self, keys: Ints) -> Iterate:
        """Return a point on these columns, away from everything that is known."""
        return cold_start(self.columns(keys), self.c, self.a, self.fixed, self.guess, self.most)

    def likely(self) -> Floats:
        """Return what each user is likely to get."""
        return self.guess * self.a + (0.0 if self.fixed is None else self.fixed)

    def chunks(self) -> Iterator[tuple[slice, Ints]]:
        """Yield runs of servers whose pairs fit into memory, with the keys of their first pairs."""
        step = max(1, CHUNK // self.d.shape[0])
        for first in range(0, self.c.shape[1], step):
            last = min(first + step, self.c.shape[1])
            yield slice(first, last), np.arange(first, last)[:, None] * self.d.shape[0]


def usable_pairs(d: Floats, c: Floats, allowed: Bools | None) -> Bools | None:
    """Return which pairs (k, n) can be used at all, or None if all can."""
    usable = None if allowed is None or allowed.all() else np.array(allowed.T, order="C")
    for empty, needy in zip(c.T <= 0, d.T > 0, strict=True):
        if empty.any() and needy.any():
            if usable is None:
                usable = np.ones((c.shape[0], d.shape[0]), dtype=np.bool_)
            usable[empty] &= ~needy
    return usable


def every_pair(problem: RadialProblem) -> State:
    """Return all columns and a point on them."""
    keys = np.arange(problem.d.shape[0] * problem.c.shape[1])
    if problem.usable is not None:
        keys = np.flatnonzero(problem.usable)
    return State(keys, problem.start(keys))
