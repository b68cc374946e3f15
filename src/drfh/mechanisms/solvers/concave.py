"""An interior-point method for welfares: concave functions of what the users have.

Maximise Σ_i w_i·q_i^(1-beta)/(1-beta) over all placements, where q_i = unit_i·share_i/w_i (for
beta = 1: Σ w_i·log q_i), plus, for the family of Joe-Wong et al., a part that depends on the total
Σ_i unit_i·share_i.
A user's marginal welfare is unit_i·(phi_i + kappa) with phi_i = q_i^(-beta) and kappa = `extra`
times the mean of phi, each user counting with what it has. Only the direction of this vector
matters, so its length is free: all that users have is worth 1 together.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drfh.mechanisms.solvers.central_path import Path
from drfh.mechanisms.solvers.classes import Classes
from drfh.problem import Floats

__all__ = ["LIGHTEST", "Optimum", "maximise"]

#: Products of ratios beyond this leave the range of floats.
LIGHTEST = 1e-100


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """The allocation and its prices, whose common length is arbitrary.

    Attributes
    ----------
    share : array
        Of every user.
    amount, prices : arrays
        By class: share on each class of servers; price of each resource there.
    worth : array
        Least price of a share, by class of users.
    gradient : array
        Marginal welfare of every user's share, on the scale of the prices.
    """

    share: Floats
    amount: Floats
    prices: Floats
    worth: Floats
    gradient: Floats


def maximise(
    classes: Classes, unit: Floats, beta: float, extra: float = 0.0, lightest: float = LIGHTEST
) -> Optimum:
    """Return the allocation of the largest welfare.

    Parameters
    ----------
    classes
        The problem, alike users and servers joined.
    unit
        What one share of each user counts.
    beta
        How much the poor count more, > 0.
    extra
        Weight of the total, ≥ 0.
    lightest
        Part of the largest weight that everybody is taken to have at least.
    """
    problem = classes.problem
    who = np.flatnonzero(problem.share_limit > 0)
    n, k = classes.usable.shape
    result = Optimum(
        np.zeros(len(problem.users)),
        np.zeros((n, k)),
        np.zeros_like(classes.capacity),
        np.zeros(n),
        np.zeros(len(problem.users)),
    )
    if len(who) == 0:
        return result
    present, group = np.unique(classes.user_class[who], return_inverse=True)
    with np.errstate(all="ignore"):  # a step too far is noticed and taken back
        path = Path(classes, present, who, group, unit[who], beta, extra, lightest)
        path.follow()
    result.share[who] = path.u
    result.amount[present] = path.x * path.alone
    with np.errstate(divide="ignore", invalid="ignore"):
        result.prices[:] = np.where(classes.capacity > 0, path.p.T / classes.capacity, 0.0)
    result.worth[present] = path.mu
    result.gradient[who] = path.mu[group] + path.tau
    return result
