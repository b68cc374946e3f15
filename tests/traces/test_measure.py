"""Traces in numbers: the fast way says the same as the plain one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drfh import AddServers, Cluster, InputError, Job, RemoveServers, ResizeServer, Server, Workload
from drfh.model.jobs import ServerEvent
from drfh.traces import Trace
from drfh.traces.load import (
    capacity_changes,
    load_resources,
    offered_load,
    round_step,
    server_shapes,
    time_span,
)
from drfh.traces.measure import Distribution, describe, distributions, heaviest_users, request_table


def trace_of(
    jobs: list[Job], cluster: Cluster | None = None, window: float | None = None, **more: Any
) -> Trace:
    users = list(dict.fromkeys(job.user for job in jobs)) or ["ann"]
    pool = cluster or Cluster([Server({"cpu": 4, "memory": 8}, name="a", count=2)])
    events = more.pop("events", ())
    workload = Workload(users, jobs, events)
    return Trace("mine", "here", pool, workload, pl.DataFrame(), window=window, **more)


def overlap(a: float, b: float, low: float, high: float) -> float:
    return max(0.0, min(b, high) - max(a, low))


def plain_load(trace: Trace, low: float, high: float, resource: str) -> tuple[float, float]:
    """Return mean demand and mean capacity between two times, task by task, second pieces."""
    workload = trace.workload
    demand = 0.0
    column = workload.resources.index(resource) if resource in workload.resources else None
    for batch in range(len(workload.batch_user)):
        for task in range(int(workload.batch_count[batch])):
            start = float(workload.batch_arrival[batch])
            end = start + float(workload.duration[workload.batch_first[batch] + task])
            if column is not None:
                need = float(workload.demand[workload.batch_shape[batch], column])
                demand += need * overlap(start, end, low, high)
    servers = {
        trace.cluster.server_name(g, i): dict(server.resources)
        for g, server in enumerate(trace.cluster.servers)
        for i in range(server.count)
    }
    capacity, now = 0.0, 0.0
    for event in [*workload.events, None]:
        until = math.inf if event is None else event.time
        total = sum(amounts.get(resource, 0.0) for amounts in servers.values())
        capacity += total * overlap(now, until, low, high)
        now = until
        if isinstance(event, AddServers):
            for i in range(event.server.count):
                one = event.server.name if event.server.count == 1 else f"{event.server.name}/{i}"
                servers[str(one)] = dict(event.server.resources)
        elif isinstance(event, RemoveServers):
            group = f"{event.name}/"
            for name in [n for n in servers if n == event.name or n.startswith(group)]:
                del servers[name]
        elif event is not None:
            servers[event.name] = dict(event.resources)
    return demand / (high - low), capacity / (high - low)


EVENTS: list[ServerEvent] = [
    ResizeServer(7, "a/1", {"cpu": 1, "gpu": 2}),
    AddServers(12.5, Server({"cpu": 3}, name="b", count=2)),
    RemoveServers(20, "a/1"),
    RemoveServers(20, "b/0"),
    AddServers(31, Server({"memory": 5}, name="c")),
    ResizeServer(33, "b/1", {"cpu": 0.5}),
    RemoveServers(41, "a"),
    RemoveServers(55, "b"),
]

a_job = st.builds(
    Job,
    user=st.sampled_from(["ann", "bob"]),
    demand=st.sampled_from([{"cpu": 1}, {"cpu": 0.1, "memory": 3}, {"memory": 0.7}]),
    duration=st.sampled_from([0.5, 3, 10, 17.25, 1000, math.inf]),
    tasks=st.integers(1, 4),
    arrival=st.sampled_from([0, 0.3, 5, 10, 29.5, 60, 80]),
)


@given(
    st.lists(a_job, min_size=1, max_size=12),
    st.integers(0, len(EVENTS)),
    st.sampled_from([None, 33.0, 60.0, 100.0]),
    st.sampled_from([None, 1.0, 7.0, 10.0, 64.0, 1e4]),
)
def test_offered_load_is_the_exact_integral(
    jobs: list[Job], events: int, window: float | None, step: float | None
) -> None:
    trace = trace_of(jobs, window=window, events=EVENTS[:events])
    table = offered_load(trace, step)
    assert table["time"][0] == 0
    assert table["end"][-1] == (time_span(trace) or 1.0)  # an instant is a second
    assert table["time"].to_list()[1:] == table["end"].to_list()[:-1]
    for row in table.to_dicts()[:: max(1, len(table) // 8)]:
        for resource in load_resources(trace):
            demand, capacity = plain_load(trace, row["time"], row["end"], resource)
            assert row[f"demand.{resource}"] == pytest.approx(demand, rel=1e-9, abs=1e-9)
            assert row[f"capacity.{resource}"] == pytest.approx(capacity, rel=1e-9, abs=1e-9)
            if capacity == 0:
                assert row[f"load.{resource}"] is None
            else:
                assert row[f"load.{resource}"] == pytest.approx(
                    demand / capacity, rel=1e-6, abs=1e-6
                )


def test_a_pool_that_is_gone_has_no_load() -> None:
    third = Server({"cpu": 0.1}, name="a", count=3)
    gone = [RemoveServers(10, f"a/{i}") for i in range(3)]
    jobs = [Job("ann", demand={"cpu": 0.1}, duration=30)]
    table = offered_load(trace_of(jobs, Cluster([third]), events=gone), 10)
    assert table["load.cpu"].to_list() == [pytest.approx(1 / 3), None, None]
    assert table["capacity.cpu"].to_list()[1:] == [0.0, 0.0]


def test_an_instant_is_a_second() -> None:
    trace = trace_of([Job("ann", demand={"cpu": 2}, duration=math.inf)])
    assert time_span(trace) == 0
    assert offered_load(trace).select("demand.cpu", "load.cpu").rows() == [(2.0, 0.25)]
    assert heaviest_users(trace)["work"].to_list() == [1.0]
    assert distributions(trace)["tasks per hour"].size == 0


@given(st.floats(1e-6, 1e12), st.integers(1, 1000))
def test_steps_are_near_what_was_asked(span: float, about: int) -> None:
    step = round_step(span, about)
    assert 1 / 3 <= span / about / step <= 3


def test_events_by_name() -> None:
    cluster = Cluster([Server({"cpu": 4}, name="lone"), Server({"cpu": 1}, name="x", count=3)])
    events: list[ServerEvent] = [
        ResizeServer(1, "lone/0", {"cpu": 6}),
        RemoveServers(2, "lone/0"),
        RemoveServers(3, "x/2"),
        ResizeServer(4, "x/0", {"cpu": 5}),
        RemoveServers(5, "x"),
        AddServers(6, Server({"cpu": 7}, name="lone")),
    ]
    times, changes = capacity_changes(cluster, events, ["cpu"])
    assert times.tolist() == [1, 2, 3, 4, 5, 6]
    assert changes[:, 0].tolist() == [2, -6, -1, 4, -6, 7]


def test_shapes_of_servers_ignore_labels_but_name_them() -> None:
    cluster = Cluster(
        [
            Server({"cpu": 8, "gpu": 1}, labels={"model": "T4"}),
            Server({"cpu": 2}, count=5),
            Server({"gpu": 1, "cpu": 8}, labels={"model": "A10"}, count=2),
        ]
    )
    table = server_shapes(cluster)
    assert table["servers"].to_list() == [5, 3]
    assert table["share"].to_list() == [5 / 8, 3 / 8]
    assert table["labels"].to_list() == [[], ["model=T4", "model=A10"]]
    assert table["first"].to_list() == ["server-2", "server-1"]
    assert describe(trace_of([Job("ann", demand={"cpu": 1}, duration=1)], cluster))[
        "labelled_shapes"
    ] == 3  # fmt: skip


def test_resources_with_odd_names_do_not_clash() -> None:
    names = ["servers", "tasks", "time", "work", "user", "load.cpu", "share"]
    cluster = Cluster([Server(dict.fromkeys(names, 2.0))])
    trace = trace_of([Job("ann", demand=dict.fromkeys(names, 1.0), duration=5)], cluster)
    assert server_shapes(cluster)["servers"].to_list() == [1]
    assert request_table(trace)["tasks"].to_list() == [1]
    assert heaviest_users(trace)["work"].to_list() == [1.0]
    assert {facts["mean"] for facts in describe(trace)["load"].values()} == {0.5}


def test_the_heaviest_are_those_that_ask_for_most_inside_the_window() -> None:
    jobs = [
        Job("ann", demand={"cpu": 1}, duration=math.inf, arrival=90),  # ten seconds of it
        Job("bob", demand={"cpu": 1}, duration=[10, 20], tasks=2),
        Job("eve", demand={"memory": 1}, duration=1),
        Job("bob", demand={"cpu": 2}, duration=5, arrival=100),  # none
    ]
    table = heaviest_users(trace_of(jobs, window=100))
    assert table.rows() == [
        ("eve", 1, 1, 0.0, 1.0, 1.0),
        ("bob", 2, 3, 0.75, 0.0, 0.75),
        ("ann", 1, 1, 0.25, 0.0, 0.25),
    ]


def test_distributions_of_a_small_trace() -> None:
    jobs = [
        Job("ann", demand={"cpu": 2}, duration=[5, math.inf], name="one"),
        Job("ann", demand={"cpu": 1}, duration=5, tasks=3, arrival=3600, name="one"),
        Job("bob", demand={"cpu": 1}, duration=7, arrival=3700),
        Job("bob", demand={"cpu": 1}, duration=7, arrival=9000, tasks=9),  # not a whole hour
    ]
    found = distributions(trace_of(jobs, window=9500))
    assert found["request.cpu"].values.tolist() == [1, 2]
    assert found["request.cpu"].counts.tolist() == [13, 2]
    assert found["duration"].values.tolist() == [5, 7]
    assert found["duration"].counts.tolist() == [4, 10]
    assert found["job size"].values.tolist() == [1, 5, 9]
    assert found["tasks per user"].values.tolist() == [5, 10]
    assert found["tasks per hour"].values.tolist() == [0, 4]  # not the two at the start
    assert found["jobs per hour"].values.tolist() == [0, 1]


def test_less_than_an_hour_has_a_rate() -> None:
    jobs = [Job("ann", demand={"cpu": 1}, duration=5, arrival=t) for t in (0, 300, 600, 900)]
    found = distributions(trace_of(jobs, window=1800))
    assert found["tasks per hour"].values.tolist() == [6]


def test_description() -> None:
    jobs = [
        Job("ann", demand={"cpu": 1}, duration=100, tasks=3),
        Job("bob", demand={"cpu": 1, "memory": 2}, duration=math.inf, arrival=50),
    ]
    facts = describe(trace_of(jobs, window=100, events=EVENTS[:4]))
    assert (facts["users"], facts["jobs"], facts["tasks"], facts["requests"]) == (2, 2, 4, 2)
    assert (facts["tasks_at_the_start"], facts["endless_tasks"]) == (3, 1)
    assert facts["server_events"] == {"add": 1, "remove": 2, "resize": 1}
    assert facts["capacity"] == {"cpu": 8, "memory": 16}
    assert (facts["servers"], facts["server_shapes"]) == (2, 1)
    # 350 of cpu are asked for; the pool is 8, then 5, 11 from 12.5 s on, 7 from 20 s on.
    pool = 7 * 8 + 5.5 * 5 + 7.5 * 11 + 80 * 7
    assert facts["load"]["cpu"]["mean"] == pytest.approx(350 / pool)
    assert facts["load"]["cpu"]["peak"] == pytest.approx(3 / 5)
    assert facts["load"]["gpu"] == {"mean": 0.0, "peak": 0.0}
    assert facts["distributions"]["duration"]["max"] == 100


def test_no_jobs_at_all() -> None:
    facts = describe(trace_of([]))
    assert (facts["tasks"], facts["span"]) == (0, 0)
    assert facts["distributions"]["duration"]["median"] is None


@given(
    st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 4)), max_size=30),
    st.sampled_from([0, 0.1, 0.25, 0.5, 0.9, 1]),
)
def test_quantiles_are_those_of_numpy(pairs: list[tuple[int, int]], part: float) -> None:
    values, counts = [p[0] for p in pairs], [p[1] for p in pairs]
    found = Distribution.of(values, counts)
    whole = np.repeat(np.array(values, dtype=float), np.array(counts, dtype=int))
    assert found.size == len(whole)
    if not len(whole):
        assert found.quantile(part) is None
        assert found.mean is None
        return
    assert found.quantile(part) == np.quantile(whole, part, method="inverted_cdf")
    assert found.mean == pytest.approx(whole.mean())
    again = Distribution.of(whole)
    assert again.values.tolist() == found.values.tolist()
    assert again.counts.tolist() == found.counts.tolist()


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=400), st.integers(2, 50))
def test_a_thinned_curve_stays_near(values: list[float], most: int) -> None:
    found = Distribution.of(values)
    x, part = found.curve(most)
    assert len(x) <= max(most, 0) + 2 or len(x) == len(found.values)
    assert part[-1] == 1
    assert x[0] == min(values)
    drawn = np.concatenate(([0.0], part))[np.searchsorted(x, found.values, side="right")]
    assert np.abs(drawn - found.upto / found.size).max() <= 1 / most + 1e-9


def test_only_finite_numbers_have_a_distribution() -> None:
    with pytest.raises(InputError, match="finite"):
        Distribution.of([1.0, math.inf])
