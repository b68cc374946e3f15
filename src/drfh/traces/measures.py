"""A trace in numbers: how much is asked for and when, by whom, and of what size."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from drfh.jobs import Workload
from drfh.traces.distribution import Distribution
from drfh.traces.load import load_resources, offered_load, per_task, time_span
from drfh.traces.pool import server_shapes
from drfh.traces.trace import Trace

__all__ = ["QUANTILES", "describe", "distributions", "heaviest_users", "request_table"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

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
    """Return the numbers of a trace: what it has, how long, how full, how spread.

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
            word: kinds.get(kind, 0)
            for word, kind in (
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
