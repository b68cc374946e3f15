"""Distance of what users hold from their fair shares."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["missing_share", "worst_off"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

_ROUND_OFF = 1e-9  # of a fair level: less than this below it is not below


def missing_share(share: Floats, weight: Floats, fair: Floats) -> Floats:
    """Return the part of all fair shares that their users do not have.

    Σ w·max(0, fair − level) / Σ w·fair over the active users, level = share / w; 0 to 1, and 0 if
    nobody has a fair level above 0. What a user has beyond its fair level makes up for nobody.

    Parameters
    ----------
    share
        Dominant shares. The last axis is that of users; one before it may be that of samples.
    weight
        Of each user.
    fair
        Fair levels (shares over weight); NaN for who is not active.

    Returns
    -------
    float array
        A number, or one for each sample.

    Examples
    --------
    Ann has half of her fair share of 40 %; bob has all of his 40 %, then more than that.

    >>> fair = np.array([0.4, 0.4])
    >>> float(missing_share(np.array([0.2, 0.4]), np.ones(2), fair))
    0.25
    >>> float(missing_share(np.array([0.2, 0.8]), np.ones(2), fair))
    0.25
    """
    wanted = np.where(fair > 0, fair * weight, 0.0)
    short = wanted - share
    short = np.where(short > _ROUND_OFF * wanted, short, 0.0)
    total = wanted.sum(axis=-1)
    missing: Floats = short.sum(axis=-1) / np.where(total > 0, total, 1.0)
    return np.clip(missing, 0.0, 1.0)


def worst_off(share: Floats, weight: Floats, fair: Floats) -> tuple[Floats, Ints]:
    """Return what the worst-off user lacks of its fair level, and who that is (-1: nobody).

    1 − min level / fair level over the active users, 0 to 1.

    Parameters
    ----------
    share, weight, fair
        As of :func:`missing_share`.

    Examples
    --------
    >>> share = np.array([[0.2, 0.4], [0.3, 0.0]])
    >>> fair = np.array([[0.4, 0.4], [0.3, np.nan]])
    >>> lacks, who = worst_off(share, np.ones(2), fair)
    >>> lacks.tolist(), who.tolist()
    ([0.5, 0.0], [0, 0])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(fair > 0, share / weight / fair, np.inf)
    least = part.min(axis=-1, initial=np.inf)
    known = np.isfinite(least)
    who = part.argmin(axis=-1) if part.shape[-1] else np.zeros(part.shape[:-1], dtype=np.int64)
    return np.clip(1 - np.where(known, least, 1.0), 0.0, 1.0), np.where(known, who, -1)
