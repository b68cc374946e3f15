"""``drfh``: Dominant Resource Fairness with Heterogeneous servers."""

from __future__ import annotations

from collections.abc import Callable

from drfh.allocation.placement import Solution
from drfh.allocation.problem import Problem
from drfh.mechanisms.shared.leximin import lexicographic

__all__ = ["drfh"]


def drfh(
    problem: Problem, *, method: str = "auto", progress: Callable[[float], None] | None = None
) -> Solution:
    """Equalise weighted global dominant shares, each server respected: leximin of levels.

    Definition
        T_r is the total of resource r over all servers, s_i = max_r D_ir/T_r the dominant share
        of one task of user i. Its level is s_i·tasks/weight. Among all placements that respect
        every server, every restriction and every number of tasks, the sorted vector of levels is
        lexicographically the largest.

    Paper
        Wang, Li, Liang: Dominant Resource Fairness in Cloud Computing Systems with Heterogeneous
        Servers, INFOCOM 2014, section IV; with rounds for what LP (7) leaves open (zero demands,
        finite tasks, restrictions).

    Properties
        pareto: yes; a leximin point leaves nobody room (Wang et al. 2014, Prop. 2)
        envy-free: yes; Wang et al. 2014, Prop. 1, per weight and up to the number of tasks
        truthful: yes; Wang et al. 2014, Prop. 3, and Lemma A of the mathematics page
        group-truthful: yes; Lemma A of the mathematics page, no lies let all of a group gain
        population-monotone: yes if positive demands, no restrictions; Wang et al. 2014, Prop. 7
        single-server: yes; Wang et al. 2014, Prop. 4
        single-resource: yes; Wang et al. 2014, Prop. 5
        bottleneck-fair: yes if positive demands, no restrictions; Wang et al. 2014, Prop. 6
        resource-monotone: no; a new server changes who is dominant in what
        sharing-incentive: no; unboundedly so with skewed servers
        dedicated-cloud: no; unboundedly so with skewed servers
        consistent: no; shares are measured anew against what is left

    Parameters
    ----------
    problem
        Cluster and users.
    method
        ``"auto"``, ``"closed-form"``, ``"single-pool"``, ``"simplex"`` or ``"interior-point"``.
    progress
        Called with the relative gap while a large problem is being solved.

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 6, "memory": 1}), Server({"cpu": 1, "memory": 6})])
    >>> users = [User("a", {"cpu": 1, "memory": 0.1}), User("b", {"cpu": 1, "memory": 1})]
    >>> [round(t, 6) for t in allocate(cluster, users).tasks.values()]  # 20/11 each
    [1.818182, 1.818182]
    """
    return lexicographic(problem, method=method, progress=progress)
