"""The welfare that ``fds`` and ``gfj`` maximise: between efficiency and fairness.

Joe-Wong, Sen, Lan, Chiang: Multi-resource allocation: fairness-efficiency tradeoffs in a unifying
framework, INFOCOM 2012 and ToN 2013.
"""

from __future__ import annotations

import math

import numpy as np

from drfh.errors import InputError
from drfh.problem import Floats, Problem
from drfh.welfare import PowerWelfare

__all__ = ["objective", "power_welfare"]

_LEAST, _MOST = 0.2, 20.0
_ROUND_OFF = 1e-12  # of a lam that was computed from beta


def objective(
    name: str, problem: Problem, y: Floats, beta: float | str, lam: float | str | None
) -> float:
    """Return the value of what a family maximises, for tasks or shares y."""
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


def power_welfare(
    name: str, beta: float | str, lam: float | str | None, *, of_tasks: bool
) -> PowerWelfare:
    """Return the same as a welfare that can be maximised and proven."""
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
