"""Resource names and amounts (``500m``, ``16Gi``, ``2T``), and the numeric tolerance."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drfh.errors import InputError

__all__ = [
    "TOLERANCE",
    "FrozenMap",
    "integer_unit",
    "parse_amounts",
    "parse_quantity",
]

#: Relative difference below which two computed amounts are the same.
TOLERANCE = 1e-9

# Kubernetes' suffixes. Slurm writes G where it means Gi; its engine converts before this point.
_SUFFIXES = {
    "": 1.0,
    "n": 1e-9,
    "u": 1e-6,
    "m": 1e-3,
    "k": 1e3,
    "K": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "E": 1e18,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
    "Pi": 2.0**50,
    "Ei": 2.0**60,
}
_QUANTITY = re.compile(
    r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([numkKMGTPE]|[KMGTPE]i)?[bB]?\s*"
)
_RULE = "must be a finite number ≥ 0, such as 4, 0.5, '500m' or '16Gi'"
_LARGEST_POOL_IN_UNITS = 2**43

Value = TypeVar("Value")


class FrozenMap(Mapping[str, Value], Generic[Value]):
    """A mapping that cannot change, can be hashed, compared and pickled.

    Examples
    --------
    >>> FrozenMap({"cpu": 2.0})
    {'cpu': 2.0}
    >>> FrozenMap({"cpu": 2.0}) == {"cpu": 2.0}
    True
    """

    __slots__ = ("_data",)

    def __init__(self, data: Mapping[str, Value] | None = None) -> None:
        self._data: dict[str, Value] = dict(data or {})

    def __getitem__(self, key: str) -> Value:
        return self._data[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __hash__(self) -> int:
        return hash(frozenset(self._data.items()))

    def __repr__(self) -> str:
        return repr(self._data)


def parse_quantity(value: Any, field: str = "quantity", rule: str = _RULE) -> float:
    """Read an amount: a number, or a string with a Kubernetes suffix.

    Parameters
    ----------
    value
        A finite number ≥ 0, or a string such as ``"500m"`` (0.5), ``"16Gi"`` (16 × 2³⁰),
        ``"2T"`` (2 × 10¹²) or ``"4"``. A trailing ``B`` is allowed.
    field, rule
        What to call it, and what to ask for, in an error.

    Examples
    --------
    >>> parse_quantity("500m"), parse_quantity("16Gi"), parse_quantity("2T"), parse_quantity(4)
    (0.5, 17179869184.0, 2000000000000.0, 4.0)
    >>> parse_quantity("4 cores", "cpu")
    Traceback (most recent call last):
    drfh.errors.InputError: cpu must be a finite number ≥ 0, such as 4, 0.5, '500m' or '16Gi', \
got '4 cores'
    """
    if isinstance(value, str):
        found = _QUANTITY.fullmatch(value)
        if found is None:
            raise InputError(field, rule, value)
        number = float(found[1])
        suffix = found[2] or ""
        # Dividing by 1000 rounds once; multiplying by 0.001 would round twice.
        amount = (
            number / round(1 / _SUFFIXES[suffix])
            if suffix in "num" and suffix
            else (number * _SUFFIXES[suffix])
        )
    elif isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        try:
            amount = float(value)
        except OverflowError:
            amount = math.inf
    else:
        raise InputError(field, rule, value)
    if not (0 <= amount < math.inf):
        raise InputError(field, rule, value)
    return amount + 0.0  # turns -0.0 into 0.0


def parse_amounts(amounts: Any, field: str) -> FrozenMap[float]:
    """Read a mapping of resource name to amount.

    Examples
    --------
    >>> parse_amounts({"cpu": "500m", "memory": "1Gi"}, "demand")
    {'cpu': 0.5, 'memory': 1073741824.0}
    """
    if not isinstance(amounts, Mapping):
        raise InputError(field, "must map resource names to amounts, such as {'cpu': 4}", amounts)
    for name in amounts:
        if not isinstance(name, str) or not name.strip():
            raise InputError(field, "must have resource names that are non-empty strings", name)
    return FrozenMap({name: parse_quantity(a, f"{field}.{name}") for name, a in amounts.items()})


def integer_unit(values: ArrayLike, total: float) -> float:
    """Return a unit in which `values` become integers and `total` at most 2⁴³ of them.

    Whole-task decisions are made in integers, so that they never drift. A decimal unit in which
    every value is whole is taken if there is one (0.2 is 2 × 0.1: ten such tasks fill a capacity
    of 2 exactly); otherwise the finest power of two that the bound allows.

    Parameters
    ----------
    values
        All amounts of one resource, of servers and of tasks.
    total
        Sum of the resource over all servers.

    Examples
    --------
    >>> integer_unit([0.2, 1.0, 12.0], 14.0)
    0.1
    >>> integer_unit([3.0, 1.0], 3.0)
    1.0
    """
    amounts: NDArray[np.float64] = np.unique(np.asarray(values, dtype=np.float64))
    if total <= 0:
        return 1.0
    for digits in range(13):
        scaled = amounts * 10.0**digits
        if total * 10.0**digits > _LARGEST_POOL_IN_UNITS:
            break
        if np.all(np.abs(scaled - np.rint(scaled)) <= 4e-16 * scaled):
            return float(10.0**-digits)
    return float(2.0 ** math.ceil(math.log2(total / _LARGEST_POOL_IN_UNITS)))
