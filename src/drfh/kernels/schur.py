"""Sums over columns, Schur complement of the users, server prices: the interior-point solver's."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = [
    "nearest_pairs",
    "price_servers",
    "server_loads",
    "subtract_outer",
    "unit_costs",
]


def server_loads(
    start: npt.NDArray[np.int64],
    demand: npt.NDArray[np.float64],
    x: npt.NDArray[np.float64],
    load: npt.NDArray[np.float64],
) -> None:
    """Sum what the columns of each server use.

    Parameters
    ----------
    start
        First column of each server, and one past the last, shape (k + 1,).
    demand
        Demand of a unit of each column, shape (m, J).
    x
        Amount of each column, shape (J,).
    load
        Filled with the sums, shape (m, k).

    Examples
    --------
    >>> load = np.empty((1, 2))
    >>> server_loads(np.array([0, 2, 2]), np.array([[1.0, 0.5]]), np.array([1.0, 2.0]), load)
    >>> load.tolist()
    [[2.0, 0.0]]
    """
    for r in range(demand.shape[0]):
        for server in range(start.size - 1):
            total = 0.0
            for j in range(start[server], start[server + 1]):
                total += demand[r, j] * x[j]
            load[r, server] = total


def unit_costs(
    start: npt.NDArray[np.int64],
    demand: npt.NDArray[np.float64],
    p: npt.NDArray[np.float64],
    cost: npt.NDArray[np.float64],
) -> None:
    """Price a unit of each column.

    Parameters
    ----------
    start, demand
        As of :func:`server_loads`.
    p
        Price of each resource at each server, shape (m, k).
    cost
        Filled with the costs, shape (J,).

    Examples
    --------
    >>> cost = np.empty(2)
    >>> unit_costs(np.array([0, 2]), np.array([[1.0, 0.5]]), np.array([[3.0]]), cost)
    >>> cost.tolist()
    [3.0, 1.5]
    """
    for server in range(start.size - 1):
        for j in range(start[server], start[server + 1]):
            total = 0.0
            for r in range(demand.shape[0]):
                total += demand[r, j] * p[r, server]
            cost[j] = total


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


def nearest_pairs(
    start: npt.NDArray[np.int64],
    user: npt.NDArray[np.int64],
    d: npt.NDArray[np.float64],
    usable: npt.NDArray[np.bool_],
    p: npt.NDArray[np.float64],
    mu: npt.NDArray[np.float64],
    step_p: npt.NDArray[np.float64],
    step_mu: npt.NDArray[np.float64],
    shrunk: float,
    found: npt.NDArray[np.int64],
    reach: npt.NDArray[np.float64],
) -> None:
    """Find pairs out of play that a step of the prices makes much cheaper.

    Parameters
    ----------
    start, user
        The columns in play, as of :func:`subtract_outer`.
    d
        Demands, shape (n, m).
    usable
        Which pairs there are, shape (k, n); with no rows, all of them.
    p, mu
        Prices of the servers' resources, shape (k, m), and of the users.
    step_p, step_mu
        How they change.
    shrunk
        Part of its reduced cost that the whole step leaves to a pair that counts.
    found
        Filled with users of each server, those that become too cheap first; -1 for no more.
    reach
        Filled with the multiple of the step at which that happens; inf for no more.

    Examples
    --------
    >>> d, one, found = np.array([[1.0], [0.5]]), np.ones((1, 1)), np.empty((1, 1), dtype=int)
    >>> play, every = np.array([0], dtype=int), np.empty((0, 2), dtype=bool)
    >>> ends, mu, reach = np.array([0, 1]), np.array([0.9, 0.1]), np.empty((1, 1))
    >>> nearest_pairs(ends, play, d, every, one, mu, -one, 0 * mu, 0.5, found, reach)
    >>> found.tolist(), reach.tolist()
    ([[1]], [[0.8]])
    """
    n, m = d.shape
    most = found.shape[1]
    for server in range(start.size - 1):
        for slot in range(most):
            found[server, slot] = -1
            reach[server, slot] = np.inf
        column = start[server]
        for i in range(n):
            if column < start[server + 1] and user[column] == i:
                column += 1
                continue
            if usable.shape[0] > 0 and not usable[server, i]:
                continue
            z = -mu[i]
            step = -step_mu[i]
            for r in range(m):
                z += p[server, r] * d[i, r]
                step += step_p[server, r] * d[i, r]
            slot = most - 1
            if z + step >= shrunk * z:
                continue
            length = -z / step if z > 0 else 0.0
            if length >= reach[server, slot]:
                continue
            while slot > 0 and reach[server, slot - 1] > length:
                reach[server, slot] = reach[server, slot - 1]
                found[server, slot] = found[server, slot - 1]
                slot -= 1
            reach[server, slot] = length
            found[server, slot] = i


def price_servers(
    d: npt.NDArray[np.float64],
    c: npt.NDArray[np.float64],
    mu: npt.NDArray[np.float64],
    pivots: int,
    least: float,
    prices: npt.NDArray[np.float64],
    basis: npt.NDArray[np.int64],
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
    least
        Amount by which a user's price must be missed to count.
    prices
        Filled with the prices, shape (k, m).
    basis
        Filled with the users that fill the server, n and more for a slack, shape (k, m).

    Examples
    --------
    >>> prices, basis = np.empty((1, 2)), np.empty((1, 2), dtype=int)
    >>> d = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> price_servers(d, np.array([[3.0, 3.0]]), np.array([[3.0, 3.0]]), 9, 1e-9, prices, basis)
    >>> prices.round(12).tolist(), basis.tolist()
    ([[2.0, 2.0]], [[0, 1]])
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
            basis[server, r] = n + r
            for q in range(m):
                inverse[r, q] = 0.0
            inverse[r, r] = 1.0
        for _ in range(pivots):
            best = least
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
            basis[server, leave] = enter
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
