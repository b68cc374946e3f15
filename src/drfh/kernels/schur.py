"""Schur complement of the users, and server prices, for the interior-point solver."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["price_servers", "subtract_outer"]


def subtract_outer(
    start: npt.NDArray[np.int64],
    user: npt.NDArray[np.int64],
    factor: npt.NDArray[np.float64],
    schur: npt.NDArray[np.float64],
) -> None:
    """Take every server's block ``F_l' F_l`` out of the lower triangle of `schur`, in place.

    Server ``l`` owns the columns ``start[l]:start[l + 1]``. Column ``j`` stands for user
    ``user[j]`` and holds one entry of ``F_l`` per resource in ``factor[j]``. Users must ascend
    within a server; then only the lower triangle is touched.

    Parameters
    ----------
    start
        First column of each server, and one past the last, shape (k + 1,).
    user
        User of each column, shape (J,).
    factor
        Entries of each column, shape (J, m).
    schur
        Matrix to update, shape (n, n).

    Examples
    --------
    >>> schur = 10 * np.eye(2)
    >>> subtract_outer(np.array([0, 2]), np.array([0, 1]), np.array([[1.0], [2.0]]), schur)
    >>> schur.tolist()
    [[9.0, 0.0], [-2.0, 6.0]]
    """
    m = factor.shape[1]
    for server in range(start.size - 1):
        first = start[server]
        for j in range(first, start[server + 1]):
            row = user[j]
            for other in range(first, j + 1):
                total = 0.0
                for r in range(m):
                    total += factor[j, r] * factor[other, r]
                schur[row, user[other]] -= total


def price_servers(
    d: npt.NDArray[np.float64],
    c: npt.NDArray[np.float64],
    mu: npt.NDArray[np.float64],
    pivots: int,
    prices: npt.NDArray[np.float64],
) -> None:
    """Price each server's resources by its own little linear program, given the users' prices.

    For every server: minimise ``p . c_l`` subject to ``p . d_i >= mu_i`` for its users and
    ``p >= 0``, by the primal simplex method on the dual (fill the server with the dearest users).
    A server that needs more than `pivots` pivots keeps the prices it has reached, so the result
    is a guide, not a certificate.

    Parameters
    ----------
    d
        Demands, shape (n, m).
    c
        Capacities, shape (k, m).
    mu
        Users' prices as each server sees them, shape (k, n); negative keeps a user out.
    pivots
        Most pivots per server.
    prices
        Filled with the prices, shape (k, m).

    Examples
    --------
    >>> prices = np.empty((1, 2))
    >>> d = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> price_servers(d, np.array([[3.0, 3.0]]), np.array([[3.0, 3.0]]), 9, prices)
    >>> prices.round(12).tolist()
    [[2.0, 2.0]]
    """
    n, m = d.shape
    inverse = np.zeros((m, m))
    worth = np.zeros(m)
    amount = np.zeros(m)
    move = np.zeros(m)
    for server in range(c.shape[0]):
        # The first basis is the slacks: an empty server and free resources.
        for r in range(m):
            worth[r] = 0.0
            amount[r] = c[server, r]
            prices[server, r] = 0.0
            for q in range(m):
                inverse[r, q] = 0.0
            inverse[r, r] = 1.0
        for _ in range(pivots):
            best = 1e-9
            enter = -1
            for i in range(n):
                gain = mu[server, i]
                for r in range(m):
                    gain -= prices[server, r] * d[i, r]
                if gain > best:
                    best = gain
                    enter = i
            for r in range(m):
                if -prices[server, r] > best:
                    best = -prices[server, r]
                    enter = n + r
            if enter < 0:
                break
            leave = -1
            step = np.inf
            for r in range(m):
                if enter < n:
                    total = 0.0
                    for q in range(m):
                        total += inverse[r, q] * d[enter, q]
                    move[r] = total
                else:
                    move[r] = inverse[r, enter - n]
                if move[r] > 1e-11 and amount[r] < step * move[r]:
                    step = amount[r] / move[r]
                    leave = r
            if leave < 0:
                break
            worth[leave] = mu[server, enter] if enter < n else 0.0
            for q in range(m):
                inverse[leave, q] /= move[leave]
            for r in range(m):
                if r != leave:
                    amount[r] = max(amount[r] - step * move[r], 0.0)
                    for q in range(m):
                        inverse[r, q] -= move[r] * inverse[leave, q]
            amount[leave] = step
            for q in range(m):
                total = 0.0
                for r in range(m):
                    total += worth[r] * inverse[r, q]
                prices[server, q] = total
        for r in range(m):
            prices[server, r] = max(prices[server, r], 0.0)
