"""``fds`` and ``gfj``: the two families of Joe-Wong et al., between efficiency and fairness."""

from __future__ import annotations

import math

import numpy as np

from drfh.errors import InputError
from drfh.mechanisms.most_welfare import most_welfare
from drfh.mechanisms.solution import Solution
from drfh.problem import Floats, Problem
from drfh.welfare import PowerWelfare

__all__ = ["fds", "fds_objective", "gfj", "gfj_objective"]

_LEAST, _MOST = 0.2, 20.0
_ROUND_OFF = 1e-12  # of a lam that was computed from beta


def fds(problem: Problem, *, beta: float = 2, lam: float | None = None) -> Solution:
    """Maximise fairness on dominant shares: as fair as beta says, as efficient as lam says.

    Definition
        With y_i the dominant share of user i, maximise
        sgn(1−β)·(Σ_i (y_i/Σy)^(1−β))^(1/β)·(Σy)^λ. A user of weight w counts as w users that
        have y_i/w each: then β = 1 is weighted Nash welfare, β → ∞ DRFH. Users that can have
        nothing are left out.

    Paper
        Joe-Wong, Sen, Lan, Chiang: Multi-resource allocation: fairness-efficiency tradeoffs in a
        unifying framework, INFOCOM 2012 and ToN 2013; here on many servers.

    Properties
        pareto: yes; Joe-Wong et al. 2013, for |λ| ≥ |1−β|/β
        envy-free: yes if default parameters; who holds more dominant share holds what costs less
            (β > 1, λ = (1−β)/β)
        sharing-incentive: yes if one server, endless tasks, default parameters; Joe-Wong et al.
            2013 (β > 1, λ = (1−β)/β)

    Parameters
    ----------
    problem
        Cluster and users.
    beta
        How much fairness counts, from 0.2 to 20. The properties are those of the default, 2.
    lam
        How much the total counts: at most (1−β)/β for β > 1, at least that for β < 1 (else the
        problem is not convex). By default just that: the α-fair allocation with α = β.

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 9, "memory": 18})])
    >>> users = [User("a", {"cpu": 1, "memory": 4}), User("b", {"cpu": 3, "memory": 1})]
    >>> [round(t, 4) for t in allocate(cluster, users, mechanism="fds", beta=5).tasks.values()]
    [3.2834, 1.9055]
    """
    return most_welfare(problem, _welfare("fds", beta, lam, of_tasks=False))


def gfj(problem: Problem, *, beta: float = 2, lam: float | None = None) -> Solution:
    """Maximise fairness on numbers of tasks: as fair as beta says, as efficient as lam says.

    Definition
        As ``fds``, with y_i the tasks of user i: β = 1 is weighted Nash welfare, β → ∞ tasks in
        proportion to the weights.

    Paper
        Joe-Wong, Sen, Lan, Chiang: Multi-resource allocation: fairness-efficiency tradeoffs in a
        unifying framework, INFOCOM 2012 and ToN 2013; here on many servers.

    Properties
        pareto: yes; Joe-Wong et al. 2013, for |λ| ≥ |1−β|/β

    Parameters
    ----------
    problem
        Cluster and users.
    beta, lam
        See :func:`fds`.

    Examples
    --------
    >>> from drfh import Cluster, Server, User, allocate
    >>> cluster = Cluster([Server({"cpu": 9, "memory": 18})])
    >>> users = [User("a", {"cpu": 1, "memory": 4}), User("b", {"cpu": 3, "memory": 1})]
    >>> [round(t, 4) for t in allocate(cluster, users, mechanism="gfj", beta=5).tasks.values()]
    [2.6407, 2.1198]
    """
    return most_welfare(problem, _welfare("gfj", beta, lam, of_tasks=True))


def fds_objective(
    problem: Problem, tasks: Floats, *, beta: float = 2, lam: float | None = None
) -> float:
    """Return the value that ``fds`` maximises, for given tasks of all users.

    Examples
    --------
    >>> from drfh import Cluster, Server, User
    >>> users = [User("a", {"cpu": 1, "memory": 4}), User("b", {"cpu": 3, "memory": 1})]
    >>> problem = Problem.build(Cluster([Server({"cpu": 9, "memory": 18})]), users)
    >>> round(fds_objective(problem, np.array([3, 2])) ** 2, 9)
    3.0
    """
    return _objective("fds", problem, tasks * problem.task_share, beta, lam)


def gfj_objective(
    problem: Problem, tasks: Floats, *, beta: float = 2, lam: float | None = None
) -> float:
    """Return the value that ``gfj`` maximises, for given tasks of all users.

    Examples
    --------
    >>> from drfh import Cluster, Server, User
    >>> users = [User("a", {"cpu": 1, "memory": 4}), User("b", {"cpu": 3, "memory": 1})]
    >>> problem = Problem.build(Cluster([Server({"cpu": 9, "memory": 18})]), users)
    >>> round(gfj_objective(problem, np.array([3, 2])) ** 2 * 6, 9)
    5.0
    """
    return _objective("gfj", problem, np.asarray(tasks, dtype=float), beta, lam)


def _objective(
    name: str, problem: Problem, y: Floats, beta: float | str, lam: float | str | None
) -> float:
    b, power = _parameters(name, beta, lam)
    counts = problem.share_limit > 0
    y, weight = y[counts], problem.weight[counts]
    total = float(y.sum())
    if b == 1:  # the limit, up to what does not depend on y
        with np.errstate(divide="ignore"):
            return float(weight @ np.log(y))
    with np.errstate(divide="ignore"):
        parts = float(weight @ (y / weight / total) ** (1 - b))
    return math.copysign(parts ** (1 / b) * total**power, 1 - b)


def _welfare(
    name: str, beta: float | str, lam: float | str | None, *, of_tasks: bool
) -> PowerWelfare:
    b, power = _parameters(name, beta, lam)
    least = abs(1 - b) / b
    extra = max(0.0, abs(power) / least - 1) if b != 1 else 0.0
    return PowerWelfare(b, extra if extra > _ROUND_OFF else 0.0, of_tasks)


def _parameters(name: str, beta: float | str, lam: float | str | None) -> tuple[float, float]:
    """Return beta and lam as numbers that make the problem convex."""
    b = _number(beta)
    if not _LEAST <= b <= _MOST:
        raise InputError(f"beta of {name}", f"must be a number from {_LEAST:g} to {_MOST:g}", beta)
    least = (1 - b) / b
    if lam is None:
        return b, least
    power = _number(lam)
    slack = _ROUND_OFF * (1 + abs(least))
    if b == 1:
        fine, rule = power == 0, "must be 0 where beta is 1"
    elif b > 1:
        fine, rule = -math.inf < power <= least + slack, f"must be at most {least:g}"
    else:
        fine, rule = least - slack <= power < math.inf, f"must be at least {least:g}"
    if not fine:
        reason = "" if b == 1 else ", (1 − beta)/beta: else the problem is not convex"
        raise InputError(f"lam of {name}", rule + reason, lam)
    return b, power


def _number(value: object) -> float:
    """Return a number, NaN if it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str, np.number)):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan
