"""HUG: high utilisation with guarantees, for links of a network. A plain function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from drfh.allocation.problem import Floats, water_level_above
from drfh.errors import InputError

__all__ = ["HugShares", "hug"]


class HugShares(NamedTuple):
    """What HUG gives out.

    Attributes
    ----------
    progress : float
        The guarantee M: every tenant has M times its demand on every link.
    allocation : array, tenants × links
    """

    progress: float
    allocation: Floats


def hug(demand: Sequence[Sequence[float]], *, cooperative: bool = False) -> HugShares:
    """Give everybody the same progress, then hand out what is left of each link.

    Definition
        Stage 1: M = 1/max_r Σ_i d_ir, and a_ir = M·d_ir. Stage 2: on every link the lowest a_ir
        of those that use it are raised together until the link is full; no entry above M, unless
        tenants are cooperative. The cap is what makes lies useless.

    Paper
        Chowdhury, Liu, Ghodsi, Stoica: HUG: multi-resource fairness for correlated and elastic
        demands, NSDI 2016.

    Parameters
    ----------
    demand
        Tenants × links, each tenant scaled to a largest entry of 1; links have capacity 1.
    cooperative
        Whether tenants can be trusted: then links are filled without a cap.

    Examples
    --------
    >>> progress, allocation = hug([[0.5, 1], [1, 1 / 6]])
    >>> round(progress, 6), allocation.round(6).tolist()
    (0.666667, [[0.333333, 0.666667], [0.666667, 0.333333]])
    """
    try:
        table = np.array(demand, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("demand", "must be a table of numbers, tenants × links") from None
    if table.ndim != 2 or table.size == 0:
        raise InputError("demand", "must be a table, tenants × links")
    if not (np.isfinite(table).all() and table.min() >= 0):
        raise InputError("demand", "must be finite and ≥ 0")
    off = np.flatnonzero(np.abs(table.max(axis=1) - 1) > 1e-9)
    if len(off):
        rule = "must have a largest entry of 1"
        raise InputError(f"demand[{off[0]}]", rule, float(table[off[0]].max()))
    progress = 1 / float(table.sum(axis=0).max())
    allocation = progress * table
    most = np.inf if cooperative else progress
    for link in allocation.T:
        cap = np.where(link > 0, np.maximum(link, most), 0.0)
        level = water_level_above(np.ones(len(link)), np.ones(len(link)), link, cap, 1.0)
        link[:] = np.clip(level, link, cap)
    return HugShares(progress, allocation)
