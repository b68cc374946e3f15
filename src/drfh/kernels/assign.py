"""Assignment of known amounts to servers with two resources, in one sweep."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["assign_two_resources"]


def assign_two_resources(
    d1: NDArray[np.float64],
    d2: NDArray[np.float64],
    amount: NDArray[np.float64],
    c1: NDArray[np.float64],
    c2: NDArray[np.float64],
    user: NDArray[np.int64],
    server: NDArray[np.int64],
    placed: NDArray[np.float64],
) -> int:
    """Fill every server with the users whose slopes lie closest around its own.

    Users and servers come sorted by slope (second resource over first). The users together fill
    all servers exactly (dummy users (1, 0) and (0, 1) stand for idle capacity). For one server,
    the nearest user below and the nearest above are mixed so that the mix is parallel to the
    server. This loses the least for every price min(s·x1, x2), so what was feasible before a
    server is filled is feasible after it (docs/mathematics.md).

    Parameters
    ----------
    d1, d2, amount
        Direction of each user and how much of it to place. `amount` is used up: what remains
        afterwards could not be placed (round-off).
    c1, c2
        Capacities of the servers.
    user, server, placed
        Room for the result, users + 3 × servers entries.

    Returns
    -------
    int
        Number of entries written.
    """
    n = len(d1)
    below = np.empty(n, np.int64)  # a stack: users of lower slope that have something left
    top = -1
    above = 0  # the first user of higher slope
    written = 0
    for target in range(len(c1)):
        x1 = c1[target]
        x2 = c2[target]
        # Users without the first resource never move down: they stay in line before the dummy.
        while above < n and d1[above] > 0.0 and d2[above] * x1 <= x2 * d1[above]:
            top += 1
            below[top] = above
            above += 1
        left = 1.0  # part of the server that is still free; its direction does not change
        got_low = 0.0
        got_high = 0.0
        while left > 0.0:
            while top >= 0 and amount[below[top]] <= 0.0:
                top -= 1
            while above < n and amount[above] <= 0.0:
                above += 1
            if top < 0 or above >= n:
                break
            low = below[top]
            # Cramer's rule up to a common factor. The factor comes from the sums themselves and
            # not from the determinant, which is all round-off when the two are nearly parallel.
            rate_low = max(0.0, x1 * d2[above] - x2 * d1[above])
            rate_high = max(0.0, x2 * d1[low] - x1 * d2[low])
            scale = 0.0
            if x1 > 0.0:
                scale = (rate_low * d1[low] + rate_high * d1[above]) / x1
            if x2 > 0.0:
                scale = max(scale, (rate_low * d2[low] + rate_high * d2[above]) / x2)
            if scale <= 0.0:
                break
            rate_low /= scale
            rate_high /= scale
            step = left
            ends_low = False
            ends_high = False
            if rate_low * step >= amount[low]:
                step = amount[low] / rate_low
                ends_low = True
            if rate_high * step >= amount[above]:
                exact = amount[above] / rate_high
                ends_low = ends_low and exact >= step
                step = min(step, exact)
                ends_high = True
            take_low = amount[low] if ends_low else min(amount[low], rate_low * step)
            take_high = amount[above] if ends_high else min(amount[above], rate_high * step)
            amount[low] -= take_low
            amount[above] -= take_high
            got_low += take_low
            got_high += take_high
            left -= step
            if amount[low] <= 0.0 and got_low > 0.0:
                user[written] = low
                server[written] = target
                placed[written] = got_low
                written += 1
                got_low = 0.0
            if amount[above] <= 0.0 and got_high > 0.0:
                user[written] = above
                server[written] = target
                placed[written] = got_high
                written += 1
                got_high = 0.0
        if got_low > 0.0:
            user[written] = below[top]
            server[written] = target
            placed[written] = got_low
            written += 1
        if got_high > 0.0:
            user[written] = above
            server[written] = target
            placed[written] = got_high
            written += 1
        # Only round-off leaves one side empty: fill up by whichever resource ends first.
        x1 *= left
        x2 *= left
        while left > 0.0 and (top >= 0 or above < n):
            one = below[top] if top >= 0 else above
            take = amount[one]
            if d1[one] > 0.0:
                take = min(take, x1 / d1[one])
            if d2[one] > 0.0:
                take = min(take, x2 / d2[one])
            if take > 0.0:
                user[written] = one
                server[written] = target
                placed[written] = take
                written += 1
                amount[one] -= take
                x1 -= take * d1[one]
                x2 -= take * d2[one]
            if amount[one] > 0.0:
                break
            if top >= 0:
                top -= 1
            else:
                above += 1
    return written
