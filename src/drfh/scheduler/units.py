"""Units: amounts as integers, with one unit for each resource.

The unit is as fine as the pool allows: its total is at most 2⁴³ units, which leaves room for
servers that come later. It is a power of ten (0.1 of a CPU stays exact, ten of them are one CPU)
while it is at most 1, and a power of two above (bytes of large pools).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from drfh.errors import InputError, UnknownNameError
from drfh.model.cluster import Cluster
from drfh.model.resources import parse_amounts

__all__ = ["LARGEST_AMOUNT", "Units"]

_LARGEST_POOL = 2**43
#: Of one task or one server, in units: sums of them stay exact in float64.
LARGEST_AMOUNT = 2**50
_FINEST_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Units:
    """Resource names and the size of one unit of each.

    Examples
    --------
    >>> from drfh import Server
    >>> units = Units.of(Cluster([Server({"cpu": 10, "memory": "64Ti"}, count=10)]))
    >>> units.sizes
    (1e-10, 128.0)
    >>> units.demand({"cpu": 0.1})
    [1000000000, 0]
    """

    resources: tuple[str, ...]
    sizes: tuple[float, ...]

    @classmethod
    def of(cls, cluster: Cluster) -> Units:
        """Return the units for a cluster."""
        return cls(cluster.resources, tuple(_unit(total) for total in cluster.totals.tolist()))

    def rows(self, amounts: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return amounts (… × resources) in whole units, to the nearest."""
        whole = np.rint(amounts / np.array(self.sizes))
        rows: NDArray[np.int64] = np.minimum(whole, LARGEST_AMOUNT).astype(np.int64)
        return rows

    def amounts(self, row: Any) -> dict[str, float]:
        """Return units as amounts by name, as they were written.

        Examples
        --------
        >>> Units(("cpu",), (1e-10,)).amounts([1000000000])
        {'cpu': 0.1}
        """
        return {
            name: _times(int(amount), size)
            for name, size, amount in zip(self.resources, self.sizes, row, strict=True)
        }

    def demand(self, demand: Mapping[str, float | str], field: str = "demand") -> list[int]:
        """Read what a task needs."""
        amounts = self._read(demand, field)
        row: list[int] = self.rows(np.array(amounts)).tolist()
        for name, amount, whole in zip(self.resources, amounts, row, strict=True):
            if amount > 0 and whole == 0:
                size = self.sizes[self.resources.index(name)]
                raise InputError(f"{field}.{name}", f"must be 0 or at least {size / 2:g}", amount)
        if not any(row):
            rule = "must have at least one amount > 0 (else its tasks never end)"
            raise InputError(field, rule, dict(demand))
        return row

    def capacity(self, resources: Mapping[str, float | str], field: str = "resources") -> list[int]:
        """Read the size of a server."""
        amounts = self._read(resources, field)
        for name, amount, size in zip(self.resources, amounts, self.sizes, strict=True):
            if amount / size > LARGEST_AMOUNT:
                most = f"{LARGEST_AMOUNT * size:g}"
                rule = f"must be at most {most}: units were chosen for the servers at the start"
                raise InputError(f"{field}.{name}", rule, amount)
        row: list[int] = self.rows(np.array(amounts)).tolist()
        if not any(row):
            raise InputError(field, "must have at least one amount > 0", dict(resources))
        return row

    def _read(self, amounts: Mapping[str, float | str], field: str) -> list[float]:
        parsed = parse_amounts(amounts, field)
        for name in parsed:
            if name not in self.resources:
                raise UnknownNameError(f"resource of {field}", name, self.resources)
        return [parsed.get(name, 0.0) for name in self.resources]


def _unit(total: float) -> float:
    if total <= 0:
        return 1e-3  # nobody has any yet: thousandths, and room for large amounts
    digits = math.floor(math.log10(_LARGEST_POOL / total))
    if digits >= 0:
        return float(f"1e-{min(digits, _FINEST_DIGITS)}")
    return float(2.0 ** math.ceil(math.log2(total / _LARGEST_POOL)))


def _times(amount: int, size: float) -> float:
    # Dividing by 10^d rounds once: 3 units of 0.1 are 0.3, not 0.30000000000000004.
    return amount / round(1 / size) if size < 1 else amount * size
