"""Offered load of a trace: demand against capacity over time, integrated exactly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from drfh.model.cluster import Cluster
from drfh.model.jobs import (
    AddServers,
    RemoveServers,
    ResizeServer,
    ServerEvent,
    Workload,
    check_events,
)
from drfh.traces.base import Trace

__all__ = [
    "capacity_changes",
    "load_resources",
    "offered_load",
    "per_task",
    "pool_resources",
    "round_step",
    "server_shapes",
    "time_span",
]


Floats: TypeAlias = NDArray[np.float64]


def server_shapes(cluster: Cluster) -> pl.DataFrame:
    """Return the different servers, the most frequent first.

    Servers with the same resources have one shape, whatever their labels.

    Returns
    -------
    polars.DataFrame
        `servers` (how many), `share` (of all servers), ``capacity.cpu`` and so on, `labels` (the
        different ones, as text) and `first` (the name of a server group).

    Examples
    --------
    >>> from drfh import Server
    >>> big, small = {"cpu": 8, "memory": 16}, {"cpu": 2}
    >>> cluster = Cluster([Server(big), Server(small, count=3), Server(big)])
    >>> server_shapes(cluster).select("servers", "capacity.cpu", "capacity.memory").rows()
    [(3, 2.0, 0.0), (2, 8.0, 16.0)]
    """
    columns = [f"capacity.{name}" for name in cluster.resources]
    labels = [
        ", ".join(f"{key}={value}" for key, value in server.labels.items())
        for server in cluster.servers
    ]
    frame = pl.DataFrame(
        {
            **dict(zip(columns, cluster.capacity.T, strict=True)),
            "servers": cluster.counts,
            "labels": labels,
            "first": cluster.names,
        }
    )
    found = (
        frame.group_by(columns, maintain_order=True)
        .agg(
            pl.col("servers").sum(),
            pl.col("labels").filter(pl.col("labels") != "").unique(maintain_order=True),
            pl.col("first").first(),
        )
        .sort("servers", descending=True, maintain_order=True)
        .with_columns((pl.col("servers") / cluster.size).alias("share"))
    )
    return found.select("servers", "share", *columns, "labels", "first")


def pool_resources(cluster: Cluster, events: Iterable[ServerEvent]) -> tuple[str, ...]:
    """Return the resources of all servers, in order of first mention.

    Examples
    --------
    >>> from drfh import Server
    >>> later = AddServers(60, Server({"gpu": 8}, name="new"))
    >>> pool_resources(Cluster([Server({"cpu": 8})]), [later])
    ('cpu', 'gpu')
    """
    names = dict.fromkeys(cluster.resources)
    for event in events:
        if isinstance(event, AddServers):
            names.update(dict.fromkeys(event.server.resources))
        elif isinstance(event, ResizeServer):
            names.update(dict.fromkeys(event.resources))
    return tuple(names)


@dataclass(slots=True)
class _ServerGroup:
    """Servers that came together: how many, what one has, and which differ or have left."""

    count: int
    row: Floats
    resized: dict[int, Floats] = field(default_factory=dict)
    left: set[int] = field(default_factory=set)

    def total(self) -> Floats:
        plain = self.count - len(self.left) - len(self.resized)
        total: Floats = plain * self.row + sum(self.resized.values(), np.zeros_like(self.row))
        return total

    def one(self, index: int) -> Floats:
        return self.resized.get(index, self.row)


def capacity_changes(
    cluster: Cluster, events: Sequence[ServerEvent], resources: Sequence[str]
) -> tuple[Floats, Floats]:
    """Return times of server events, and changes of the pool.

    Parameters
    ----------
    cluster
        The servers at the start.
    events
        Checked, and ordered by time.
    resources
        Columns of the answer.

    Returns
    -------
    times : float array, events
        In seconds.
    changes : float array, events × resources
        What is added to the pool, or taken from it.

    Examples
    --------
    >>> from drfh import Server
    >>> cluster = Cluster([Server({"cpu": 8}, name="big", count=2)])
    >>> times, changes = capacity_changes(
    ...     cluster, [ResizeServer(60, "big/0", {"cpu": 2}), RemoveServers(90, "big")], ["cpu"]
    ... )
    >>> times.tolist(), changes.tolist()
    ([60.0, 90.0], [[-6.0], [-10.0]])
    """
    place = {name: position for position, name in enumerate(resources)}
    changes = np.zeros((len(events), len(resources)))
    if not len(events):
        return np.empty(0), changes
    own = np.zeros((len(cluster), len(resources)))
    for column, name in enumerate(cluster.resources):
        if name in place:
            own[:, place[name]] = cluster.capacity[:, column]
    counted = zip(cluster.names, cluster.counts.tolist(), own, strict=True)
    groups = {name: _ServerGroup(count, row) for name, count, row in counted}
    for number, event in enumerate(events):
        if isinstance(event, AddServers):
            row = _row(event.server.resources, place)
            groups[str(event.server.name)] = _ServerGroup(event.server.count, row)
            changes[number] = event.server.count * row
            continue
        name, index = _find(event.name, groups)
        group = groups[name]
        if isinstance(event, RemoveServers):
            if index is None:
                changes[number] = -group.total()
                del groups[name]
            else:
                changes[number] = -group.one(index)
                group.resized.pop(index, None)
                group.left.add(index)
                if len(group.left) == group.count:
                    del groups[name]
        else:
            row = _row(event.resources, place)
            changes[number] = row - group.one(index or 0)
            group.resized[index or 0] = row
    return np.array([event.time for event in events]), changes


def _row(amounts: Mapping[str, float], place: Mapping[str, int]) -> Floats:
    row = np.zeros(len(place))
    for name, amount in amounts.items():
        if name in place:
            row[place[name]] = amount
    return row


def _find(name: str, groups: Mapping[str, _ServerGroup]) -> tuple[str, int | None]:
    """Return the group, and the index inside it; None for all of it."""
    if name in groups:
        return name, None
    group, _, index = name.rpartition("/")
    return group, (int(index) if groups[group].count > 1 else None)


#: Steps in which people read a clock.
_STEPS = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
)  # fmt: skip
_NOTHING = 1e-9  # of what came: the round-off that is left when all has gone


def time_span(trace: Trace) -> float:
    """Return the length of a trace in seconds.

    That is the window, and of a trace without one the time until the last task that ends has
    ended, if it starts when it arrives.

    Examples
    --------
    >>> from drfh import Cluster, Job, Server
    >>> jobs = [Job("ann", demand={"cpu": 2}, duration=15, arrival=10)]
    >>> cluster, workload = Cluster([Server({"cpu": 4})]), Workload(["ann"], jobs)
    >>> time_span(Trace("mine", "", cluster, workload, pl.DataFrame()))
    25.0
    """
    if trace.window is not None and trace.window > 0:
        return float(trace.window)
    workload = trace.workload
    if not len(workload.batch_arrival):
        return 0.0
    ends = per_task(workload, workload.batch_arrival) + workload.duration
    last = float(ends.max(initial=0.0, where=np.isfinite(ends)))
    return max(last, float(workload.batch_arrival.max()))


def per_task(workload: Workload, values: NDArray[Any]) -> NDArray[Any]:
    """Return a value for each task from one for each batch.

    Examples
    --------
    >>> from drfh import Job
    >>> workload = Workload(["ann"], [Job("ann", demand={"cpu": 1}, duration=9, tasks=3)])
    >>> per_task(workload, workload.batch_user).tolist()
    [0, 0, 0]
    """
    return np.repeat(values, workload.batch_count)


def round_step(span: float, about: int = 200) -> float:
    """Return a round step in seconds, about `about` in a span.

    Examples
    --------
    >>> round_step(70_156), round_step(86_400), round_step(3), round_step(1e9, 100)
    (300.0, 600.0, 0.02, 8640000.0)
    """
    target = span / about
    if not target > 0:
        return 1.0
    unit = 1.0 if target < _STEPS[0] else _STEPS[-1]
    if _STEPS[0] <= target <= _STEPS[-1]:
        choices: list[float] = list(_STEPS)
    else:  # parts of a second, or days
        power = unit * 10.0 ** math.floor(math.log10(target / unit))
        choices = [power, 2 * power, 5 * power, 10 * power]
    return float(min(choices, key=lambda step: abs(math.log(step / target))))


def load_resources(trace: Trace) -> tuple[str, ...]:
    """Return the resources that servers have or tasks ask for.

    Examples
    --------
    >>> from drfh.files.scenario_file import load_scenario
    >>> scenario = load_scenario("gpu-day")
    >>> load_resources(Trace("scenario", "", scenario.cluster, scenario.workload, pl.DataFrame()))
    ('cpu', 'memory', 'gpu')
    """
    names = dict.fromkeys(pool_resources(trace.cluster, trace.workload.events))
    workload = trace.workload
    for column, name in enumerate(workload.resources):
        if name not in names and (workload.demand[:, column] > 0).any():
            names[name] = None
    return tuple(names)


def offered_load(trace: Trace, step: float | None = None) -> pl.DataFrame:
    """Return demand and capacity over time, as if nothing ever waited.

    Demand and capacity are integrated exactly over each step, server events included.

    Parameters
    ----------
    trace
        The servers and the jobs.
    step
        Seconds between rows; by default a round number that gives about 200.

    Returns
    -------
    polars.DataFrame
        A row a step: `time` and `end` in seconds; for each resource ``demand.cpu`` and
        ``capacity.cpu`` (means over the step) and ``load.cpu``, one divided by the other; null
        while there is no capacity.

    Examples
    --------
    >>> from drfh import Cluster, Job, Server
    >>> jobs = [Job("ann", demand={"cpu": 2}, duration=15), Job("ann", demand={"cpu": 4},
    ...         duration=10, arrival=10)]
    >>> trace = Trace("mine", "", Cluster([Server({"cpu": 4})]), Workload(["ann"], jobs),
    ...               pl.DataFrame())
    >>> offered_load(trace, step=10).select("time", "demand.cpu", "load.cpu").rows()
    [(0.0, 2.0, 0.5), (10.0, 5.0, 1.25)]
    """
    workload = trace.workload
    span = time_span(trace)
    # An instant has no length: a second of it is taken.
    edges = _edges(span, step) if span > 0 else np.array([0.0, 1.0])
    width = np.diff(edges)
    resources = load_resources(trace)
    arrival, shape = workload.batch_arrival, workload.batch_shape
    ends = per_task(workload, arrival) + workload.duration
    start_bins, end_bins = _Bins(edges, arrival), _Bins(edges, ends)
    end_shape = per_task(workload, shape)
    check_events(trace.cluster, workload.events)
    times, changes = capacity_changes(trace.cluster, workload.events, resources)
    event_bins = _Bins(edges, times)
    columns: dict[str, Floats] = {"time": edges[:-1], "end": edges[1:]}
    own = dict(zip(trace.cluster.resources, trace.cluster.totals.tolist(), strict=True))
    asked = dict(zip(workload.resources, workload.demand.T, strict=True))
    for position, name in enumerate(resources):
        need = asked.get(name, np.zeros(len(workload.demand)))
        came = start_bins.integral(need[shape] * workload.batch_count)
        went = end_bins.integral(need[end_shape])
        demand = _without_round_off((came - went) / width, came / width)
        base = own.get(name, 0.0)
        change = changes[:, position]
        most = base + float(change.sum(where=change > 0))
        capacity = base + event_bins.integral(change) / width
        capacity = _without_round_off(capacity, np.full(len(width), most))
        columns[f"demand.{name}"] = demand
        columns[f"capacity.{name}"] = capacity
        there = capacity > 0
        load = np.divide(demand, capacity, out=np.full(len(width), np.nan), where=there)
        columns[f"load.{name}"] = load
    return pl.DataFrame(columns).with_columns(pl.col(f"load.{r}").fill_nan(None) for r in resources)


def _edges(span: float, step: float | None) -> Floats:
    size = round_step(span) if step is None else step
    inner = np.arange(math.ceil(span / size)) * size
    return np.append(inner[inner < span * (1 - 1e-12)], span)


def _without_round_off(amounts: Floats, scale: Floats) -> Floats:
    return np.where(amounts > _NOTHING * scale, amounts, 0.0)


class _Bins:
    """Times sorted into bins, to integrate steps that happen at them."""

    def __init__(self, edges: Floats, times: Floats) -> None:
        self.inside = times < edges[-1]
        kept = times[self.inside]
        self.bin = np.maximum(np.searchsorted(edges, kept, side="right") - 1, 0)
        self.left = edges[self.bin + 1] - kept
        self.width = np.diff(edges)

    def integral(self, amounts: Floats) -> Floats:
        """Return for each bin the integral of the sum of the amounts that have come."""
        kept = amounts[self.inside]
        size = len(self.width)
        partial = np.bincount(self.bin, kept * self.left, minlength=size)
        came = np.cumsum(np.bincount(self.bin, kept, minlength=size))
        before = np.concatenate(([0.0], came[:-1]))
        result: Floats = partial + before * self.width
        return result
