"""Prices that a solver's tolerances left too low, mended."""

from __future__ import annotations

import math

import numpy as np

from drfh.allocation.problem import Floats
from drfh.mechanisms.solvers.presolve import Classes

__all__ = ["raised_prices"]

_PRICE_ERROR = 1e-11  # what is less short than this is round-off and must not raise a price


def raised_prices(classes: Classes, prices: Floats, worth: Floats) -> Floats:
    """Raise prices where a user could run for less than its share is worth.

    That is so on servers that are too small for the solver's tolerances to see. Pricing them
    costs as little as they have, and without it the user's least price would be 0 there.
    """
    prices = prices.copy()
    d, c = classes.direction, classes.capacity
    paying = worth > 0
    cheap = (d @ prices.T < worth[:, None] * (1 - _PRICE_ERROR)) & classes.usable
    for server in np.flatnonzero(cheap.any(axis=0)).tolist():
        users = np.flatnonzero(classes.usable[:, server] & paying)
        for _ in range(2 * len(users)):
            covered = d[users] @ prices[server] / worth[users]
            worst = int(np.argmin(covered))
            if covered[worst] >= 1 - _PRICE_ERROR / 2:
                break
            row = d[users[worst]]
            with np.errstate(divide="ignore", invalid="ignore"):
                r = int(np.argmin(np.where(row > 0, c[server] / row, math.inf)))
            prices[server, r] += (1 - covered[worst]) * worth[users[worst]] / row[r]
    return prices
