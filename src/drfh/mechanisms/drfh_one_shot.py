"""``drfh-one-shot``: the linear program (7) of the DRFH paper as printed, without rounds."""

from __future__ import annotations

import numpy as np

from drfh.allocation.placement import Solution
from drfh.allocation.problem import Problem
from drfh.allocation.proofs.welfare import LowestLevel, WelfareProof
from drfh.mechanisms.shared.leximin import choose_oracle

__all__ = ["drfh_one_shot"]


def drfh_one_shot(problem: Problem, *, method: str = "auto") -> Solution:
    """Raise all users to one common level, as high as it goes, and stop there.

    Definition
        Maximise g such that every user has the share weight·g: linear program (7) as printed. One
        user that has all its tasks, or that no server can serve, stops everybody.

    Paper
        Wang, Li, Liang (INFOCOM 2014), section IV-A, LP (7).

    Properties
        pareto: yes if positive demands, no restrictions, endless tasks; Wang et al. 2014, Prop. 2
        envy-free: yes; everybody has the same level, per weight
        truthful: yes if positive demands, no restrictions, endless tasks; it is DRFH there (Wang
            et al. 2014, Prop. 3)
        resource-monotone: no; a new server changes who is dominant in what
        sharing-incentive: no; unboundedly so with skewed servers

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 1, "memory": 1})])
    >>> users = [User("a", {"cpu": 1}), User("b", {"memory": 1}), User("c", {"memory": 1})]
    >>> allocate(cluster, users, mechanism="drfh-one-shot").tasks  # drfh gives 1 to a
    {'a': 0.5, 'b': 0.5, 'c': 0.5}
    """
    oracle, used = choose_oracle(problem, method)
    n = len(problem.users)
    cut = oracle.raise_level(np.zeros(n), problem.weight, np.full(n, np.inf))
    first_done = float((problem.share_limit / problem.weight).min())
    level = min(cut.level, first_done)
    placement = oracle.place(problem.weight * level)
    if cut.prices is not None and level < first_done:
        # What a share costs is what it counts; everybody has the lowest level.
        prices, gradient = cut.prices, cut.prices.of_users(problem)
    else:
        # Whoever has all its tasks stops everybody, whatever servers cost.
        prices, gradient = None, np.zeros(n)
        gradient[int(np.argmin(problem.share_limit / problem.weight))] = 1.0
    return Solution(placement, WelfareProof.of(placement, LowestLevel(), gradient, prices), used)
