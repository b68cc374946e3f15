"""Check the arrays of a large workload, column by column; an error names the first bad position."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from drfh.cluster import check_name
from drfh.errors import InputError
from drfh.jobs.records import DURATION_RULE, TIME_RULE
from drfh.workload import Restriction, parse_restriction

__all__ = ["counts", "jobs", "names", "positions", "seconds", "shapes"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]


def names(given: Any, field: str, *, loose: bool = False) -> tuple[str, ...]:
    """Return a list of different names; those of resources may have spaces around them.

    Examples
    --------
    >>> names(["cpu", "memory"], "resources")
    ('cpu', 'memory')
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError(field, "must be a list of names", given)
    listed = tuple(given)
    for position, name in enumerate(listed):
        blank = not isinstance(name, str) or not name.strip()
        if blank or not loose:
            check_name(name, f"{field}[{position}]")
    if len(set(listed)) != len(listed):
        seen: set[str] = set()
        for position, name in enumerate(listed):
            if name in seen:
                raise InputError(f"{field}[{position}]", "must be unique", name)
            seen.add(name)
    return listed


def positions(given: Any, field: str, size: int | None, end: int, thing: str) -> Ints:
    """Return an array of positions below `end`.

    Examples
    --------
    >>> positions([0, 3], "user", None, 2, "a user")
    Traceback (most recent call last):
    drfh.errors.InputError: user[1] must be the position of a user (0 to 1), got 3
    """
    array = _whole(given, field, size)
    wrong = (array < 0) | (array >= end)
    some = f"0 to {end - 1}" if end else "there is none"
    _refuse(wrong, array, field, f"must be the position of {thing} ({some})")
    return _own(array, np.int64)


def counts(given: Any, size: int) -> Ints:
    """Return an array of whole numbers ≥ 1.

    Examples
    --------
    >>> counts([1, 0], 2)
    Traceback (most recent call last):
    drfh.errors.InputError: count[1] must be a whole number ≥ 1, got 0
    """
    array = _whole(given, "count", size)
    _refuse((array < 1) | (array >= 2**53), array, "count", "must be a whole number ≥ 1")
    return _own(array, np.int64)


def seconds(given: Any, field: str, sizes: Sequence[int], *, endless: bool) -> Floats:
    """Return an array of times; it has one of `sizes`.

    Examples
    --------
    >>> seconds([0, -1], "arrival", (2,), endless=False)
    Traceback (most recent call last):
    drfh.errors.InputError: arrival[1] must be a finite number of seconds ≥ 0, got -1.0
    """
    array = _array(given, field, "must be an array of numbers")
    if array.dtype.kind not in "fiu":
        raise InputError(field, "must be an array of numbers", given)
    if array.ndim != 1 or len(array) not in sizes:
        wanted = " or ".join(f"{size:,}" for size in dict.fromkeys(sizes))
        raise InputError(field, f"must have {wanted} numbers in one dimension", array.shape)
    times: Floats = _own(array, np.float64)
    if len(times):
        # A comparison with NaN is false, so a lowest of NaN fails as well.
        low, high = float(times.min()), float(times.max())
        if not (low >= 0 and (endless or high < np.inf)):
            wrong = ~(times >= 0) | (np.isinf(times) & (not endless))
            _refuse(wrong, times, field, DURATION_RULE if endless else TIME_RULE)
    return times


def shapes(
    columns: Sequence[str], demand: Any, restrictions: Any, restriction: Any
) -> tuple[tuple[Restriction | None, ...], Floats, Ints, Ints]:
    """Return restrictions, demand and restriction of each different shape, and the new numbers.

    Examples
    --------
    >>> shapes(["cpu"], [[1], [2], [1]], [None, "a"], [0, 1, 0])[1:]
    (array([[1.],
           [2.]]), array([0, 1]), array([0, 1, 0]))
    """
    table = _array(demand, "demand", "must be an array of numbers")
    if table.dtype.kind not in "fiu":
        raise InputError("demand", "must be an array of numbers", demand)
    if table.ndim != 2 or table.shape[1] != len(columns):
        rule = f"must have shape (shapes, {len(columns)} resources)"
        raise InputError("demand", rule, table.shape)
    table = table.astype(np.float64) + 0.0  # turns -0.0 into 0.0
    wrong = ~((table >= 0) & np.isfinite(table))
    if wrong.any():
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        field = f"demand[{row}].{columns[column]}"
        raise InputError(field, "must be a finite number ≥ 0", float(table[row, column]))
    empty = np.flatnonzero(~(table > 0).any(axis=1))
    if len(empty):
        raise InputError(f"demand[{empty[0]}]", "must have at least one amount > 0")
    terms, merged = _restrictions(restrictions)
    if restriction is None:
        kind = np.zeros(len(table), dtype=np.int64)
    else:
        kind = positions(restriction, "restriction", len(table), len(merged), "a restriction")
        kind = merged[kind]
    joined = np.column_stack((table, kind.astype(np.float64)))
    _, first, inverse = np.unique(joined, axis=0, return_index=True, return_inverse=True)
    if len(first) == len(table):
        return terms, table, kind, np.arange(len(table))
    order = np.argsort(first)  # in order of first mention, not of size
    rank = np.empty(len(first), dtype=np.int64)
    rank[order] = np.arange(len(first))
    kept = first[order]
    return terms, table[kept], kind[kept], rank[inverse.reshape(-1)]


def _restrictions(given: Any) -> tuple[tuple[Restriction | None, ...], Ints]:
    if given is None:
        return (None,), np.zeros(1, dtype=np.int64)
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise InputError("restrictions", "must be a list that starts with None", given)
    if given[0] is not None:
        raise InputError("restrictions[0]", "must be None, for no restriction", given[0])
    number: dict[Any, int] = {}
    merged = []
    for position, entry in enumerate(given):
        try:
            terms = None if entry is None else parse_restriction(entry)
        except InputError as error:
            error.field = f"restrictions[{position}]{error.field.removeprefix('servers')}"
            raise
        merged.append(number.setdefault(terms, len(number)))
    return tuple(number), np.array(merged, dtype=np.int64)


def jobs(given: Any, owner: Ints, named: int | None) -> tuple[Ints, Ints]:
    """Return the job of each batch and the user of each job.

    Examples
    --------
    >>> jobs([0, 0, 1], np.array([2, 2, 0]), None)
    (array([0, 0, 1]), array([2, 0]))
    """
    size = len(owner)
    if given is None:
        if named is not None and named != size:
            raise InputError("job_names", f"must be {size:,} names, one for each job", named)
        return np.arange(size), owner.copy()
    whole = _whole(given, "job", size)
    end = (max(int(whole.max()), 0) + 1 if size else 0) if named is None else named
    if end > size:
        rule = f"must number {size:,} batches from 0 without gaps" if size else "must be empty"
        raise InputError("job" if named is None else "job_names", rule, f"{end:,} jobs")
    job = positions(whole, "job", size, end, "a job")
    user = np.full(end, -1, dtype=np.int64)
    user[job] = owner
    missing = np.flatnonzero(user < 0)
    if len(missing):
        rule = f"must number the jobs from 0 to {end - 1} without gaps"
        raise InputError("job", f"{rule}, but {missing[0]} is missing")
    rule = "must be the user of the job's other batches"
    _refuse(user[job] != owner, owner, "user", rule)
    return job, user


def _array(given: Any, field: str, rule: str) -> NDArray[Any]:
    try:
        return np.asarray(given)
    except (TypeError, ValueError):
        raise InputError(field, rule, given) from None


def _whole(given: Any, field: str, size: int | None) -> NDArray[Any]:
    rule = "must be an array of whole numbers"
    array = _array(given, field, rule)
    if array.size == 0 and array.ndim == 1:
        array = array.astype(np.int64)  # an empty list is one of floats to NumPy
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise InputError(field, rule, given)
    if size is not None and len(array) != size:
        raise InputError(field, f"must have {size:,} entries", len(array))
    return array


def _own(array: NDArray[Any], kind: Any) -> NDArray[Any]:
    """Return an array that nobody else can change: the same one only if it is so already."""
    ready = array.dtype == kind and array.flags.c_contiguous
    shared = ready and not array.flags.writeable and array.base is None
    return array if shared else np.array(array, dtype=kind)


def _refuse(wrong: NDArray[np.bool_], array: NDArray[Any], field: str, rule: str) -> None:
    if wrong.any():
        position = int(wrong.argmax())
        raise InputError(f"{field}[{position}]", rule, array[position].item())
