"""Amounts of resources (``500m``, ``16Gi``, ``2T``), and integer units of them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drfh.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from drfh.model.cluster import Cluster

__all__ = [
    "LARGEST_AMOUNT",
    "TOLERANCE",
    "FrozenMap",
    "Units",
    "column_names",
    "integer_unit",
    "parse_amounts",
    "parse_quantity",
    "resource_columns",
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
_LARGEST_POOL = 2**43  # in units

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
        if total * 10.0**digits > _LARGEST_POOL:
            break
        if np.all(np.abs(scaled - np.rint(scaled)) <= 4e-16 * scaled):
            return float(10.0**-digits)
    return float(2.0 ** math.ceil(math.log2(total / _LARGEST_POOL)))


#: Of one task or one server, in units: sums of them stay exact in float64.
LARGEST_AMOUNT = 2**50
_FINEST_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Units:
    """Resource names and the size of one integer unit of each.

    The unit is as fine as the pool allows: its total is at most 2⁴³ units, so that servers can
    come later. It is a power of ten (0.1 of a CPU stays exact, ten of them are one CPU) while it
    is at most 1, and a power of two above (bytes of large pools).

    Examples
    --------
    >>> from drfh import Cluster, Server
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
            rule = "must have at least one amount > 0 (any number of such tasks would fit)"
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


def column_names(table: Any) -> list[str] | None:
    """Return the names of a polars, pandas or Arrow table's columns; None if it has none.

    Examples
    --------
    >>> import polars
    >>> column_names(polars.DataFrame({"memory": [1], "cpu": [2]})), column_names([[1, 2]])
    (['memory', 'cpu'], None)
    """
    names = getattr(table, "column_names", None)  # of pyarrow, whose columns are arrays
    names = getattr(table, "columns", None) if names is None else names
    if names is None or not hasattr(table, "__getitem__"):
        return None
    found = list(names)
    return found if found and all(isinstance(name, str) for name in found) else None


def resource_columns(
    table: Any, resources: Sequence[str] | None, field: str
) -> tuple[Any, Sequence[str]]:
    """Return amounts and names of their columns, taken by name where the table has names.

    Parameters
    ----------
    table
        Rows × resources: an array, or a polars, pandas or Arrow table.
    resources
        Names of the columns, in the order that is wanted; by default those of the table.
    field
        What the table is called in messages.

    Examples
    --------
    >>> import polars
    >>> table = polars.DataFrame({"memory": [8], "cpu": [2]})
    >>> resource_columns(table, ["cpu", "memory"], "capacity")[0].tolist()
    [[2, 8]]
    """
    names = column_names(table)
    if names is None:
        if resources is None:
            rule = f"must be a list of names: {field} has no named columns"
            raise InputError("resources", rule)
        return table, resources
    if resources is None:
        resources = names
    if isinstance(resources, str):
        raise InputError("resources", "must be a list of names", resources)
    wanted = list(resources)
    for name in wanted:
        if name not in names:
            raise UnknownNameError(f"column of {field}", str(name), names)
    for name in names:
        if name not in wanted:
            known = ", ".join(map(str, wanted))
            rule = f"must have only columns that are resources ({known})"
            raise InputError(field, rule, name)
    return np.column_stack([np.asarray(table[name]) for name in wanted]), wanted
