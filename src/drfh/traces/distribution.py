"""Samples as sorted values with counts: quantiles, and how far two of them are apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drfh.errors import InputError

__all__ = ["Distribution", "ks_distance", "plain_ks_distance"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

_LARGEST_PRODUCT = 2**62


@dataclass(frozen=True, eq=False)
class Distribution:
    """Different values in ascending order, and how often each occurs.

    Attributes
    ----------
    values : float array
        Ascending.
    counts : int array
        All > 0.

    Examples
    --------
    >>> sample = Distribution.of([3, 1, 3, 2])
    >>> sample.values.tolist(), sample.counts.tolist(), sample.quantile(0.5)
    ([1.0, 2.0, 3.0], [1, 1, 2], 2.0)
    """

    values: Floats
    counts: Ints

    @classmethod
    def of(cls, values: ArrayLike, counts: ArrayLike | None = None) -> Distribution:
        """Sort a sample of finite numbers.

        Parameters
        ----------
        values
            In any order.
        counts
            How often each occurs, by default once; those that never do are left out.

        Examples
        --------
        >>> Distribution.of([5, 4, 5], [1, 0, 2]).counts.tolist()
        [3]
        """
        numbers = np.asarray(values, dtype=np.float64)
        if not np.isfinite(numbers).all():
            raise InputError("values", "must be finite numbers")
        if counts is None:
            distinct, often = np.unique(numbers, return_counts=True)
            return cls(distinct, often.astype(np.int64))
        times = np.asarray(counts, dtype=np.int64)
        there = times > 0
        distinct, place = np.unique(numbers[there], return_inverse=True)
        often = np.zeros(len(distinct), dtype=np.int64)
        np.add.at(often, place, times[there])
        return cls(distinct, often)

    def rounded(self) -> Distribution:
        """Return the same with every value rounded to a whole number.

        Examples
        --------
        >>> Distribution.of([0.2, 4.9, 5.1]).rounded().counts.tolist()
        [1, 2]
        """
        return Distribution.of(np.rint(self.values), self.counts)

    @cached_property
    def upto(self) -> Ints:
        """How many are at most each value."""
        return np.cumsum(self.counts)

    @property
    def size(self) -> int:
        """How many there are."""
        return int(self.upto[-1]) if len(self.upto) else 0

    @property
    def mean(self) -> float | None:
        """The mean, or None of nothing."""
        if not self.size:
            return None
        # Divided first: large values must not overflow in the sum.
        return float((self.values * (self.counts / self.size)).sum())

    def quantile(self, part: float) -> float | None:
        """Return the least value that at least this part of the sample does not exceed.

        Examples
        --------
        >>> sample = Distribution.of([1, 2, 3, 4])
        >>> sample.quantile(0), sample.quantile(0.5), sample.quantile(0.51), sample.quantile(1)
        (1.0, 2.0, 3.0, 4.0)
        """
        if not self.size:
            return None
        place = int(np.searchsorted(self.upto, part * self.size * (1 - 1e-12), side="left"))
        return float(self.values[min(place, len(self.values) - 1)])

    def curve(self, most: int = 300) -> tuple[Floats, Floats]:
        """Return values, and the part of the sample that does not exceed each.

        Between the values that are left out, the part changes by less than 1/`most`.

        Examples
        --------
        >>> x, part = Distribution.of([1, 2, 2, 3]).curve()
        >>> x.tolist(), part.tolist()
        ([1.0, 2.0, 3.0], [0.25, 0.75, 1.0])
        """
        if not self.size:
            return np.empty(0), np.empty(0)
        parts = self.upto / self.size
        kept = np.ones(len(parts), dtype=bool)
        if len(parts) > most:
            step = np.floor(parts * most)
            # The first value of each step: what is left out after it is less than a step above.
            kept[1:] = step[1:] > step[:-1]
            kept[0] = kept[-1] = True
        return self.values[kept], parts[kept]


def ks_distance(a: Distribution, b: Distribution) -> float | None:
    """Return the Kolmogorov–Smirnov distance of two samples, or None if one is empty.

    It is the largest difference between the two parts that do not exceed some value: 0 for equal
    distributions, 1 if all of one is below all of the other. Exact: counts are whole numbers.

    Parameters
    ----------
    a, b
        The samples; their sizes may differ.

    Examples
    --------
    >>> ks_distance(Distribution.of([1, 2, 3, 4]), Distribution.of([3, 4, 5, 6]))
    0.5
    """
    if not a.size or not b.size:
        return None
    at = np.union1d(a.values, b.values)
    below_a, below_b = _upto(a, at), _upto(b, at)
    if a.size * b.size < _LARGEST_PRODUCT:
        apart = np.abs(below_a * b.size - below_b * a.size).max()
        return float(int(apart) / (a.size * b.size))
    return float(np.abs(below_a / a.size - below_b / b.size).max())


def _upto(sample: Distribution, at: Floats) -> Ints:
    padded = np.concatenate(([0], sample.upto))
    counts: Ints = padded[np.searchsorted(sample.values, at, side="right")]
    return counts


def plain_ks_distance(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Return the same by the definition: one value after the other, in fractions.

    Examples
    --------
    >>> plain_ks_distance([1, 2, 3, 4], [3, 4, 5, 6])
    0.5
    """
    if not a or not b:
        return None
    return float(
        max(
            abs(
                Fraction(sum(x <= at for x in a), len(a))
                - Fraction(sum(x <= at for x in b), len(b))
            )
            for at in {*a, *b}
        )
    )
