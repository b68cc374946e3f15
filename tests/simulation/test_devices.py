"""Devices: cases by hand, and a plain twin that keeps no state between two starts."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drfh
from drfh.errors import InputError
from drfh.simulation import Result
from drfh.simulation.devices import Devices, replay_devices
from tests.support.examples import examples

Pod = tuple[float, float, int, int]  # arrival, duration, num_gpu, gpu_milli


def run(gpus: list[float], pods: list[Pod], **options: Any) -> tuple[Result, Devices]:
    """Simulate pods on nodes with so many GPUs, and replay it."""
    cluster = drfh.Cluster(
        [drfh.Server({"cpu": 100, "gpu": gpu}, name=f"n{i}") for i, gpu in enumerate(gpus)]
    )
    jobs = [
        drfh.Job("ann", demand={"cpu": 1, "gpu": n * m / 1000}, duration=long, arrival=at)
        for at, long, n, m in pods
    ]
    workload = drfh.Workload(["ann"], jobs, options.pop("events", ()))
    details = pl.DataFrame(
        {"num_gpu": [pod[2] for pod in pods], "gpu_milli": [pod[3] for pod in pods]}
    )
    result = drfh.simulate(cluster, workload, "first-fit-drfh", log=True, **options)
    return result, replay_devices(result, cluster, workload, details)


@pytest.mark.parametrize(
    ("gpus", "pods", "fractional_no_room", "whole_no_room"),
    [
        # Two parts on one device: the second goes to the fullest one, so a whole one finds room.
        ([2], [(0, 9, 1, 400), (1, 9, 1, 600), (2, 9, 1, 1000)], 0, 0),
        # Each part has a device of its own, so 0.8 is free but no device has so much.
        ([2], [(0, 9, 1, 600), (1, 9, 1, 600), (2, 9, 1, 800)], 1, 0),
        ([2], [(0, 9, 1, 400), (1, 9, 1, 700), (2, 9, 1, 900)], 1, 0),
        # The same with whole ones.
        ([3], [(0, 9, 1, 600), (1, 9, 1, 600), (2, 9, 1, 600), (3, 9, 1, 1000)], 0, 1),
        ([4], [(0, 9, 1, 600), (1, 9, 1, 600), (2, 9, 2, 1000)], 0, 0),
        ([4], [(0, 9, 1, 600), (1, 9, 1, 600), (2, 9, 1, 600), (3, 9, 2, 1000)], 0, 1),
        # It waits for room in the pool, and finds it on one device.
        ([1], [(0, 9, 1, 600), (1, 9, 1, 600)], 0, 0),
        # What ends makes room for what starts at the same instant.
        ([2], [(0, 5, 1, 600), (0, 9, 1, 600), (5, 9, 1, 1000)], 0, 0),
        # A task without room is spread: 400 and 400 of two devices, free again when it ends.
        ([2], [(0, 20, 1, 600), (1, 20, 1, 600), (2, 3, 1, 800), (6, 9, 1, 400)], 1, 0),
        ([2], [(0, 20, 1, 600), (1, 20, 1, 600), (2, 3, 1, 700), (3, 9, 1, 100)], 1, 0),
        # Several parts must be on several devices.
        ([2], [(0, 9, 2, 500), (1, 9, 2, 500)], 0, 0),
        ([3], [(0, 9, 1, 900), (0, 9, 1, 900), (1, 9, 2, 500)], 1, 0),
        # No time at all, and one that asks for nothing.
        ([1], [(0, 0, 1, 1000), (0, 9, 0, 0), (1, 9, 1, 1000)], 0, 0),
    ],
)
def test_by_hand(
    gpus: list[float], pods: list[Pod], fractional_no_room: int, whole_no_room: int
) -> None:
    _, devices = run(gpus, pods)
    assert devices.tasks == len(pods)
    assert devices.fractional == sum(n > 0 and m < 1000 for _, _, n, m in pods)
    assert devices.whole == sum(n > 0 and m == 1000 for _, _, n, m in pods)
    assert (devices.fractional_no_room, devices.whole_no_room) == (
        fractional_no_room,
        whole_no_room,
    )


def test_servers_do_not_share_devices() -> None:
    # First-Fit: 0.6 and 0.6 on the first node, then 0.9 on the second.
    _, devices = run([2, 1], [(0, 9, 1, 600), (1, 9, 1, 600), (2, 9, 1, 900)])
    assert devices.no_room == 0


def test_servers_that_come_later_have_devices() -> None:
    event = drfh.AddServers(5, drfh.Server({"cpu": 9, "gpu": 1}, name="new", count=2))
    result, devices = run([0], [(0, 9, 1, 1000), (1, 9, 1, 500)], events=[event])
    assert result.tasks is not None
    assert result.tasks["server"].to_list() == ["new/0", "new/1"]
    assert devices.no_room == 0


def test_a_server_with_half_a_gpu_has_no_device() -> None:
    _, devices = run([0.5], [(0, 9, 1, 400)])
    assert devices.no_room == 1


def test_tasks_that_never_start_are_not_counted() -> None:
    _, devices = run([1], [(0, math.inf, 1, 600), (1, 9, 1, 600), (2, 9, 2, 1000)])
    assert devices == Devices(1, 1, 0, 0, 0)
    assert devices.to_dict()["no_room_share"] == 0
    assert Devices(1, 0, 0, 0, 0).no_room_share is None


def test_what_is_wrong_is_said() -> None:
    cluster = drfh.Cluster([drfh.Server({"gpu": 1})])
    workload = drfh.Workload(["ann"], [drfh.Job("ann", demand={"gpu": 1}, duration=1)])
    details = pl.DataFrame({"num_gpu": [1], "gpu_milli": [1000]})
    silent = drfh.simulate(cluster, workload)
    with pytest.raises(InputError, match="result must have a log of tasks"):
        replay_devices(silent, cluster, workload, details)
    result = drfh.simulate(cluster, workload, log=True)
    with pytest.raises(InputError, match="details must have the column gpu_milli"):
        replay_devices(result, cluster, workload, details.drop("gpu_milli"))
    with pytest.raises(InputError, match="details must have 1 rows, one for each batch, got 2"):
        replay_devices(result, cluster, workload, pl.concat([details, details]))


def twin(result: Result, gpus: list[float], pods: list[Pod]) -> set[int]:
    """Return the tasks without room; at each start it adds up what others hold at that time."""
    assert result.tasks is not None
    log = result.tasks.with_row_index().filter(pl.col("start").is_not_null())
    rows = log.sort("start", "index").select("index", "start", "end", "server").rows()
    holds: dict[int, list[int]] = {}
    homes = {index: (start, math.inf if end is None else end, server)
             for index, start, end, server in rows}  # fmt: skip
    lost = set()
    for index, (now, _, server) in homes.items():
        count, milli = pods[index][2:]
        size = int(gpus[int(server[1:])])
        there = [i for i in holds if homes[i][2] == server and homes[i][1] > now]
        free = [1000 - sum(holds[i][device] for i in there) for device in range(size)]
        holds[index] = [0] * size
        for _ in range(count):
            roomy = [d for d in range(size) if free[d] >= milli and not holds[index][d]]
            if not roomy:
                break
            holds[index][min(roomy, key=lambda d: (free[d], d))] = milli
        if sum(holds[index]) < count * milli:
            lost.add(index)
            rest = count * milli
            holds[index] = [0] * size
            for device in sorted(range(size), key=lambda d: -free[d]):
                holds[index][device] = min(free[device], rest)
                rest -= holds[index][device]
    return lost


PARTS = st.sampled_from([100, 250, 300, 460, 500, 600, 810, 1000])
PODS = st.lists(
    st.tuples(
        st.integers(0, 30).map(float),
        st.sampled_from([0.0, 1.0, 3.0, 10.0, math.inf]),
        st.sampled_from([0, 1, 1, 1, 2, 3]),
        PARTS,
    ),
    min_size=1,
    max_size=40,
)


@settings(max_examples=examples(200))
@given(st.lists(st.sampled_from([0.0, 1.0, 2.0, 4.0]), min_size=1, max_size=3), PODS)
def test_the_twin_agrees(gpus: list[float], pods: list[Pod]) -> None:
    gpus[0] = max(gpus[0], 1.0)
    result, devices = run(gpus, pods)
    lost = twin(result, gpus, pods)
    assert devices.fractional_no_room == sum(pods[i][3] < 1000 for i in lost)
    assert devices.whole_no_room == sum(pods[i][3] == 1000 for i in lost)
