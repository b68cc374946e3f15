"""Measures of a trace: distributions of requests, durations, sizes and arrivals."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from drfh.errors import InputError
from drfh.model.jobs import Workload
from drfh.traces.base import Trace
from drfh.traces.load import load_resources, offered_load, per_task, server_shapes, time_span

__all__ = [
    "QUANTILES",
    "Distribution",
    "describe",
    "distributions",
    "heaviest_users",
    "ks_distance",
    "plain_ks_distance",
    "request_table",
]


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
        """Return a quantile: the least value that `part` do not exceed.

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
        """Return the values and cumulative parts of the sample.

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
    """Return the Kolmogorov–Smirnov distance of two samples; None if one is empty.

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
    """Return the same by definition, value by value, in fractions.

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


#: Name → part of the sample.
QUANTILES = {
    "min": 0.0, "p10": 0.1, "p25": 0.25, "median": 0.5, "p75": 0.75, "p90": 0.9, "p99": 0.99,
    "max": 1.0,
}  # fmt: skip
_HOUR = 3600.0


def heaviest_users(trace: Trace) -> pl.DataFrame:
    """Return the users, those that ask for most first.

    Parameters
    ----------
    trace
        The servers and the jobs.

    Returns
    -------
    polars.DataFrame
        `user`, `jobs`, `tasks`, for each resource ``work.cpu``: the part of all that is asked for
        inside the time span (amount × seconds), and `work`, the largest of these parts.

    Examples
    --------
    >>> from drfh import Cluster, Job, Server
    >>> jobs = [Job("ann", demand={"cpu": 1}, duration=30), Job("bob", demand={"cpu": 1},
    ...         duration=10, tasks=9)]
    >>> trace = Trace("mine", "", Cluster([Server({"cpu": 4})]), Workload(["ann", "bob"], jobs),
    ...               pl.DataFrame())
    >>> heaviest_users(trace).rows()
    [('bob', 1, 9, 0.75, 0.75), ('ann', 1, 1, 0.25, 0.25)]
    """
    workload = trace.workload
    count = len(workload.users)
    span = time_span(trace)
    arrival = per_task(workload, workload.batch_arrival)
    inside = np.minimum(workload.duration, np.maximum(span - arrival, 0.0))
    if not span:  # an instant: amounts alone count
        inside = np.ones(len(arrival))
    first = workload.batch_first
    of_batch = np.add.reduceat(inside, first) if len(first) else np.empty(0)
    columns: dict[str, Any] = {
        "user": pl.Series([user.name for user in workload.users], dtype=pl.String),
        "jobs": np.bincount(workload.job_user, minlength=count),
        "tasks": _sums(workload.batch_user, workload.batch_count, count),
    }
    parts = []
    for column, name in enumerate(workload.resources):
        amount = workload.demand[workload.batch_shape, column] * of_batch
        work = np.bincount(workload.batch_user, amount, minlength=count)
        total = work.sum()
        parts.append(work / total if total > 0 else np.zeros(count))
        columns[f"work.{name}"] = parts[-1]
    columns["work"] = np.max(parts, axis=0) if parts else np.zeros(count)
    order = ["work", "tasks"]
    return pl.DataFrame(columns).sort(order, descending=True, maintain_order=True)


def _sums(place: Ints, counts: Ints, size: int) -> Ints:
    """Return whole sums; float64 holds them exactly up to 2⁵³, as many tasks as there may be."""
    return np.bincount(place, counts, minlength=size).astype(np.int64)


def request_table(trace: Trace) -> pl.DataFrame:
    """Return the different requests, the most frequent first.

    Returns
    -------
    polars.DataFrame
        ``request.cpu`` and so on, and `tasks`, how many ask for it.

    Examples
    --------
    >>> from drfh import Cluster, Job, Server
    >>> jobs = [Job("ann", demand={"cpu": c}, duration=9, tasks=c) for c in (1, 2, 2)]
    >>> trace = Trace("mine", "", Cluster([Server({"cpu": 4})]), Workload(["ann"], jobs),
    ...               pl.DataFrame())
    >>> request_table(trace).rows()
    [(2.0, 4), (1.0, 1)]
    """
    workload = trace.workload
    names = [f"request.{name}" for name in workload.resources]
    tasks = _sums(workload.batch_shape, workload.batch_count, len(workload.demand))
    frame = pl.DataFrame({**dict(zip(names, workload.demand.T, strict=True)), "tasks": tasks})
    merged = frame.group_by(names, maintain_order=True).agg(pl.col("tasks").sum())
    return merged.filter(pl.col("tasks") > 0).sort("tasks", descending=True, maintain_order=True)


def distributions(trace: Trace) -> dict[str, Distribution]:
    """Return what tasks, jobs, users and hours are like.

    Parameters
    ----------
    trace
        The servers and the jobs.

    Returns
    -------
    dict
        ``request.cpu`` and so on, of tasks; ``duration`` of tasks that end; ``job size`` in tasks;
        ``tasks per user``, of users that have any; ``tasks per hour`` and ``jobs per hour``, of
        whole hours, without what is there at the start.

    Examples
    --------
    >>> from drfh import Cluster, Job, Server
    >>> jobs = [Job("ann", demand={"cpu": c}, duration=60 * c, tasks=c) for c in (1, 2, 3)]
    >>> trace = Trace("mine", "", Cluster([Server({"cpu": 4})]), Workload(["ann"], jobs),
    ...               pl.DataFrame())
    >>> found = distributions(trace)
    >>> found["request.cpu"].quantile(1), found["job size"].quantile(0.5), found["duration"].size
    (3.0, 2.0, 6)
    """
    workload = trace.workload
    tasks = _sums(workload.batch_shape, workload.batch_count, len(workload.demand))
    found = {
        f"request.{name}": Distribution.of(workload.demand[:, column], tasks)
        for column, name in enumerate(workload.resources)
    }
    long = workload.duration
    found["duration"] = Distribution.of(long[np.isfinite(long)])
    sizes = _sums(workload.batch_job, workload.batch_count, workload.job_count)
    found["job size"] = Distribution.of(sizes[sizes > 0])
    users = _sums(workload.batch_user, workload.batch_count, len(workload.users))
    found["tasks per user"] = Distribution.of(users[users > 0])
    span = time_span(trace)
    arrival, count = workload.batch_arrival, workload.batch_count
    found["tasks per hour"] = _hourly(arrival, count, span)
    submitted = _job_arrival(workload)
    found["jobs per hour"] = _hourly(submitted, np.ones_like(submitted), span)
    return found


def _job_arrival(workload: Workload) -> Floats:
    submitted = np.full(workload.job_count, math.inf)
    np.minimum.at(submitted, workload.batch_job, workload.batch_arrival)
    return submitted


def _hourly(arrival: Floats, count: NDArray[Any], span: float) -> Distribution:
    """Return how many arrive in each whole hour; of a trace shorter than one, the rate."""
    hours = int(span // _HOUR)
    end = hours * _HOUR if hours else span
    inside = (arrival > 0) & (arrival < end)
    if not hours:
        total = float(count[inside].sum())
        return Distribution.of([total * _HOUR / span] if span > 0 else [])
    hour = (arrival[inside] // _HOUR).astype(np.int64)
    return Distribution.of(np.bincount(hour, count[inside], minlength=hours))


def describe(trace: Trace, load: pl.DataFrame | None = None) -> dict[str, Any]:
    """Return the facts of a trace: sizes, durations, load, spread.

    Parameters
    ----------
    trace
        The servers and the jobs.
    load
        From :func:`offered_load`, if it is at hand.

    Examples
    --------
    >>> from drfh import Cluster, Job, Server
    >>> jobs = [Job("ann", demand={"cpu": 2}, duration=60)]
    >>> trace = Trace("mine", "", Cluster([Server({"cpu": 4})]), Workload(["ann"], jobs),
    ...               pl.DataFrame())
    >>> facts = describe(trace)
    >>> facts["tasks"], facts["span"], facts["load"]["cpu"]["mean"]
    (1, 60.0, 0.5)
    """
    workload, cluster = trace.workload, trace.cluster
    table = offered_load(trace) if load is None else load
    shapes = server_shapes(cluster)
    kinds = Counter(type(event).__name__ for event in workload.events)
    long = workload.duration
    first = workload.batch_arrival <= 0
    return {
        "format": trace.format,
        "source": trace.source,
        "window": trace.window,
        "span": time_span(trace),
        "servers": cluster.size,
        "server_shapes": len(shapes),
        "labelled_shapes": int(shapes["labels"].list.len().clip(1).sum()),
        "capacity": dict(zip(cluster.resources, cluster.totals.tolist(), strict=True)),
        "server_events": {
            name: kinds.get(kind, 0)
            for name, kind in (
                ("add", "AddServers"),
                ("remove", "RemoveServers"),
                ("resize", "ResizeServer"),
            )
        },
        "users": len(workload.users),
        "users_with_tasks": len(np.unique(workload.batch_user)),
        "jobs": workload.job_count,
        "tasks": workload.task_count,
        "requests": len(request_table(trace)),
        "tasks_at_the_start": int(workload.batch_count[first].sum()),
        "endless_tasks": int(np.isinf(long).sum()),
        "last_arrival": float(workload.batch_arrival.max(initial=0.0)),
        "load": {name: _load_of(table, name) for name in load_resources(trace)},
        "distributions": {n: _numbers(found) for n, found in distributions(trace).items()},
    }


def _load_of(table: pl.DataFrame, name: str) -> dict[str, float | None]:
    length = table["end"] - table["time"]
    demand = float((table[f"demand.{name}"] * length).sum())
    capacity = float((table[f"capacity.{name}"] * length).sum())
    peak: Any = table[f"load.{name}"].max()
    return {
        "mean": demand / capacity if capacity > 0 else None,
        "peak": None if peak is None else float(peak),
    }


def _numbers(found: Distribution) -> dict[str, Any]:
    return {
        "count": found.size,
        "mean": found.mean,
        **{name: found.quantile(part) for name, part in QUANTILES.items()},
    }
