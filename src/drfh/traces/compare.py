"""Comparison of two traces: distances of their distributions and loads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from drfh.traces.base import Trace
from drfh.traces.load import load_resources, offered_load, round_step, time_span
from drfh.traces.measure import QUANTILES, Distribution, distributions, ks_distance

__all__ = ["Difference", "TraceComparison", "compare"]

_SAME_WINDOW = 1.001


@dataclass(frozen=True, eq=False)
class Difference:
    """One measure of two traces.

    Attributes
    ----------
    name : str
        Such as ``request.cpu``, ``duration`` or ``load.memory``.
    a, b : Distribution
        What was measured.
    """

    name: str
    a: Distribution
    b: Distribution

    @cached_property
    def distance(self) -> float | None:
        """The Kolmogorov–Smirnov distance; None if one trace has nothing to measure."""
        return ks_distance(self.a, self.b)


@dataclass(frozen=True, eq=False)
class TraceComparison:
    """How two traces differ.

    Attributes
    ----------
    a, b : Trace
        The traces.
    differences : tuple of Difference
        Requests of each resource, duration, job size, tasks per user, tasks and jobs per hour, and
        the offered load of each resource.
    load_a, load_b : polars.DataFrame
        The offered loads, in steps of one length.
    endless : tuple
        Parts of the tasks that never end, which the durations leave out.
    at_the_start : tuple
        Parts of the tasks that are there at the start, which the arrivals leave out.
    remarks : tuple of str
        What could not be compared.
    """

    a: Trace
    b: Trace
    differences: tuple[Difference, ...]
    load_a: pl.DataFrame
    load_b: pl.DataFrame
    endless: tuple[float, float]
    at_the_start: tuple[float, float]
    remarks: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Difference:
        return next(found for found in self.differences if found.name == name)

    def table(self) -> pl.DataFrame:
        """Return a row for each measure: distance, sizes, means and quantiles.

        Columns of a quantile are called ``median.a``, ``median.b`` and so on.
        """
        rows = []
        for found in self.differences:
            row: dict[str, Any] = {"measure": found.name, "distance": found.distance}
            row |= {"count.a": found.a.size, "count.b": found.b.size}
            row |= {"mean.a": found.a.mean, "mean.b": found.b.mean}
            for name, part in QUANTILES.items():
                row[f"{name}.a"] = found.a.quantile(part)
                row[f"{name}.b"] = found.b.quantile(part)
            rows.append(row)
        numbers = {name: pl.Float64 for name in rows[0] if name != "measure"}
        whole = {"count.a": pl.Int64, "count.b": pl.Int64}
        return pl.DataFrame(rows, schema_overrides={**numbers, **whole})

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain data."""
        return {
            "a": {"format": self.a.format, "source": self.a.source},
            "b": {"format": self.b.format, "source": self.b.source},
            "measures": self.table().to_dicts(),
            "endless_tasks": list(self.endless),
            "tasks_at_the_start": list(self.at_the_start),
            "remarks": list(self.remarks),
        }


def compare(a: Trace, b: Trace) -> TraceComparison:
    """Compare two traces.

    Parameters
    ----------
    a, b
        The traces.

    Examples
    --------
    >>> from drfh import Cluster, Job, Server, Workload
    >>> def trace(seconds):
    ...     jobs = [Job("ann", demand={"cpu": 1}, duration=s) for s in seconds]
    ...     cluster = Cluster([Server({"cpu": 4})])
    ...     return Trace("mine", "", cluster, Workload(["ann"], jobs), pl.DataFrame())
    >>> found = compare(trace([10, 20, 30, 40]), trace([30, 40, 50, 60]))
    >>> found["duration"].distance, found["request.cpu"].distance
    (0.5, 0.0)
    """
    one, two = distributions(a), distributions(b)
    windows = time_span(a), time_span(b)
    for measured in (one, two):
        measured["duration"] = _comparable(measured["duration"], *windows)
    remarks = []
    both = [name for name in one if name in two]
    for name in [*one, *(n for n in two if n not in one)]:
        if name not in both:
            whose = "the first" if name in one else "the second"
            resource = name.partition(".")[2]
            remarks.append(f"only tasks of {whose} ask for {resource}: it is not compared")
    # One step for both, as loads over shorter steps vary more.
    step = round_step(max(time_span(a), time_span(b)))
    load_a, load_b = offered_load(a, step), offered_load(b, step)
    found = [Difference(name, one[name], two[name]) for name in both]
    for name in load_resources(a):
        if name in load_resources(b):
            column = f"load.{name}"
            found.append(Difference(column, _sample(load_a[column]), _sample(load_b[column])))
    if a.cluster.resources != b.cluster.resources:
        remarks.append(
            f"servers have {', '.join(a.cluster.resources)} in the first and "
            f"{', '.join(b.cluster.resources)} in the second"
        )
    return TraceComparison(
        a=a,
        b=b,
        differences=tuple(found),
        load_a=load_a,
        load_b=load_b,
        endless=(_endless(a), _endless(b)),
        at_the_start=(_at_the_start(a), _at_the_start(b)),
        remarks=tuple(remarks),
    )


def _comparable(duration: Distribution, *windows: float) -> Distribution:
    """Return durations in whole seconds, those that end with either of two near windows as one.

    Runs that are cut at the end of the window pile up there: a window that is longer by a second
    must not make all of them differ.
    """
    values, shorter, longer = duration.values, min(windows), max(windows)
    if longer <= _SAME_WINDOW * shorter:
        values = np.where((values > shorter) & (values <= longer), shorter, values)
    return Distribution.of(values, duration.counts).rounded()


def _sample(column: pl.Series) -> Distribution:
    return Distribution.of(column.drop_nulls().to_numpy())


def _endless(trace: Trace) -> float:
    duration = trace.workload.duration
    return float(np.isinf(duration).mean()) if len(duration) else 0.0


def _at_the_start(trace: Trace) -> float:
    workload = trace.workload
    tasks = workload.task_count
    there = int(workload.batch_count[workload.batch_arrival <= 0].sum())
    return there / tasks if tasks else 0.0
