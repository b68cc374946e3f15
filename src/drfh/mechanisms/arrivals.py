"""Users that arrive one by one: what both mechanisms of Kash et al. have in common."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from drfh.mechanisms.pooled import one_server
from drfh.problem import Floats, Problem

__all__ = ["steps"]


def steps(problem: Problem, level: Callable[[int, Floats, Floats], float]) -> list[Floats]:
    """Return the shares after each arrival: raised to a level, and never taken back.

    Parameters
    ----------
    problem
        Cluster and users, in the order of their arrival.
    level
        From how many have arrived, what they have and the most they may have, to the level.
    """
    cap = one_server(problem).share_limit
    share = np.zeros(0)
    after = []
    for k in range(1, len(cap) + 1):
        share = np.append(share, 0.0)
        reached = problem.weight[:k] * level(k, share, cap[:k])
        share = np.maximum(share, np.minimum(reached, cap[:k]))
        after.append(share)
    return after
