"""Two traces side by side."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drfh import Cluster, Job, Server, Workload
from drfh.traces import Trace
from drfh.traces.compare import compare
from drfh.traces.measure import Distribution, ks_distance, plain_ks_distance

samples = st.lists(st.integers(-4, 4) | st.floats(-10, 10), max_size=25)


def trace_of(jobs: list[Job], servers: int = 2, window: float | None = 7200.0) -> Trace:
    users = list(dict.fromkeys(job.user for job in jobs))
    cluster = Cluster([Server({"cpu": 4, "memory": 8}, name="a", count=servers)])
    return Trace("mine", "here", cluster, Workload(users, jobs), pl.DataFrame(), window=window)


@given(samples, samples)
def test_the_distance_is_that_of_the_definition(a: list[float], b: list[float]) -> None:
    fast = ks_distance(Distribution.of(a), Distribution.of(b))
    assert fast == plain_ks_distance(a, b)
    assert ks_distance(Distribution.of(b), Distribution.of(a)) == fast


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=60), st.integers(1, 9))
def test_how_often_all_values_occur_does_not_matter(a: list[float], times: int) -> None:
    assert ks_distance(Distribution.of(a), Distribution.of(a * times)) == 0


def test_the_distance_is_that_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    draw = np.random.default_rng(3)
    for size in (1, 2, 10, 1_000, 20_000):
        a, b = draw.lognormal(0, 1, size), np.round(draw.lognormal(0.1, 1, size + 7), 1)
        fast = ks_distance(Distribution.of(a), Distribution.of(b))
        assert fast == pytest.approx(stats.ks_2samp(a, b).statistic, abs=1e-12)


def test_huge_counts_do_not_overflow() -> None:
    a, b = Distribution.of([1, 2], [2**50, 2**50]), Distribution.of([1, 2], [2**50, 3 * 2**50])
    assert ks_distance(a, b) == 0.25


def test_runs_cut_by_nearly_the_same_window_are_alike() -> None:
    def cut(window: float) -> Trace:
        jobs = [Job("ann", demand={"cpu": 1}, duration=s) for s in (60.0, window, window)]
        return trace_of(jobs, window=window)

    assert compare(cut(7200), cut(7201.5))["duration"].distance == 0
    assert compare(cut(7200), cut(9000))["duration"].distance == pytest.approx(2 / 3)


def test_a_trace_is_like_itself() -> None:
    jobs = [
        Job(f"u{i % 3}", demand={"cpu": 1 + i % 2, "memory": 1}, duration=60 * i, arrival=200 * i)
        for i in range(1, 30)
    ]
    found = compare(trace_of(jobs), trace_of(jobs))
    assert [d.name for d in found.differences] == [
        "request.cpu", "request.memory", "duration", "job size", "tasks per user",
        "tasks per hour", "jobs per hour", "load.cpu", "load.memory",
    ]  # fmt: skip
    assert {d.distance for d in found.differences} == {0.0}
    assert found.remarks == ()


def test_what_differs_is_told_apart() -> None:
    jobs = [Job("ann", demand={"cpu": 1}, duration=60, tasks=4, arrival=t) for t in (0, 60, 4000)]
    other = [Job("ann", demand={"cpu": 1}, duration=math.inf, arrival=60), *jobs]
    found = compare(trace_of(jobs), trace_of(other, servers=1))
    assert found["request.cpu"].distance == 0
    assert found["duration"].distance == 0  # of those that end
    assert found.endless == (0, 1 / 13)
    assert found.at_the_start == (4 / 12, 4 / 13)
    assert found["job size"].distance == 0.25
    assert found["load.cpu"].distance > 0.9  # type: ignore[operator]
    row = found.table().row(by_predicate=pl.col("measure") == "job size", named=True)
    assert (row["min.a"], row["min.b"], row["median.a"], row["median.b"]) == (4, 1, 4, 4)
    assert (row["count.a"], row["count.b"]) == (3, 4)
    assert found.to_dict()["measures"][0]["measure"] == "request.cpu"


def test_what_one_lacks_is_said() -> None:
    a = trace_of([Job("ann", demand={"cpu": 1}, duration=math.inf)])
    b = trace_of([Job("ann", demand={"cpu": 1, "memory": 1}, duration=5)])
    found = compare(a, b)
    assert found["duration"].distance is None
    assert found.remarks == ("only tasks of the second ask for memory: it is not compared",)
    assert [d.name for d in found.differences][-1] == "load.memory"
    gpus = Cluster([Server({"cpu": 1, "gpu": 1})])
    c = Trace("mine", "", gpus, b.workload, pl.DataFrame(), window=60.0)
    assert compare(b, c).remarks == ("servers have cpu, memory in the first and cpu, gpu in the "
                                     "second",)  # fmt: skip


def test_loads_are_compared_over_steps_of_one_length() -> None:
    jobs = [Job("ann", demand={"cpu": 1}, duration=60, arrival=t) for t in range(0, 3600, 60)]
    found = compare(trace_of(jobs, window=3600), trace_of(jobs, window=36_000))
    assert found.load_a["end"][0] == found.load_b["end"][0]


def test_a_window_that_is_a_little_longer_changes_no_duration() -> None:
    jobs = [Job("ann", demand={"cpu": 1}, duration=d) for d in (60.0, 3600.0)]
    longer = [Job("ann", demand={"cpu": 1}, duration=d) for d in (60.0, 3600.000001)]
    assert compare(trace_of(jobs), trace_of(longer))["duration"].distance == 0
