"""Status of a live cluster: users and their shares, nodes, jobs that are not managed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

import drfh
from drfh.engines.fair_share import fair_share_of
from drfh.engines.slurm.cluster import SlurmCluster, cluster_of
from drfh.engines.slurm.config import SlurmConfig
from drfh.engines.slurm.state import read_state
from drfh.engines.snapshot import (
    BlockedCode,
    BlockedReason,
    ClusterSnapshot,
    NodeSnapshot,
    TaskSnapshot,
)
from drfh.engines.status import Status, Total, UserStatus, status_of
from tests.engines.slurm.entries import INACTIVE, JOBS, NODES, NOW, SITE, job, node


@pytest.fixture(scope="module")
def cluster() -> SlurmCluster:
    return cluster_of(read_state(NODES, JOBS, NOW), SITE)


@pytest.fixture(scope="module")
def status(cluster: SlurmCluster) -> Status:
    return status_of(cluster)


def by_name(status: Status) -> dict[str, UserStatus]:
    return {user.name: user for user in status.users}


def test_users_and_their_jobs(status: Status) -> None:
    users = by_name(status)
    assert list(users) == ["ann", "bob", "eve", "zoe"]  # dan has nothing that is ours
    ann, bob, eve = users["ann"], users["bob"], users["eve"]
    assert (ann.running, ann.starting, ann.waiting, ann.never) == (2, 0, 10, 0)
    assert (bob.running, bob.waiting, bob.never) == (0, 1, 1)
    assert bob.blocked == {BlockedReason(BlockedCode.DEPENDENCY, "waits for another job"): 1}
    assert (eve.starting, eve.blocked) == (
        1,
        {BlockedReason(BlockedCode.HELD_BY_OWNER, "held by its owner"): 1},
    )
    assert (users["zoe"].jobs, users["zoe"].fair_share, users["zoe"].weight) == (0, None, 3.0)
    # 12 CPUs are up: what drains and is empty counts nothing, what is down neither.
    assert ann.share == pytest.approx(6 / 12)
    assert (ann.resource, ann.level) == ("cpu", ann.share)
    assert (bob.share, bob.resource) == (0.0, None)


def test_ideal_shares_are_those_of_the_exact_allocation(status: Status) -> None:
    cluster = drfh.Cluster([
        drfh.Server({"cpu": 4, "memory": "8Gi"}, name="n0"),
        drfh.Server({"cpu": 8, "memory": "8Gi"}, name="n1"),
    ])  # fmt: skip
    mean: dict[str, float | str] = {"cpu": (4 + 1 + 2 + 9 * 2) / 12, "memory": "1Gi"}
    users = [
        drfh.User("ann", mean, tasks=12),
        drfh.User("bob", {"cpu": 4, "memory": "1Gi"}, tasks=1, weight=2),
        drfh.User("eve", {"cpu": 1, "memory": "1Gi"}, tasks=1),
    ]
    expected = drfh.allocate(cluster, users).shares
    found = {user.name: user.fair_share for user in status.users if user.fair_share is not None}
    assert found == pytest.approx(expected)
    # Bob has nothing of its fair share, ann half a share too much, which makes up for nothing.
    share = {"ann": 0.5, "bob": 0.0, "eve": 1 / 12}
    short = sum(max(0.0, expected[name] - share[name]) for name in expected)
    assert status.distance == pytest.approx(short / sum(expected.values()))
    assert status.worst == "bob"
    assert by_name(status)["ann"].uneven  # its memory is the same for all sizes
    assert not by_name(status)["eve"].uneven


def test_distance_with_weights() -> None:
    entries = [job(1, "ann", 1, on="n0"), job(2, "bob", 2, on="n0"), job(3, "ann", 1),
               job(4, "bob", 2)]  # fmt: skip
    found = status_of(
        cluster_of(read_state([node("n0", 6)], entries, NOW), SlurmConfig(weights={"bob": 2.0}))
    )
    assert [user.fair_share for user in found.users] == pytest.approx([1 / 3, 2 / 3])
    assert [user.level for user in found.users] == pytest.approx([1 / 6, 1 / 6])
    assert found.distance == pytest.approx(0.5)
    assert found.worst == "ann"  # as far as bob, and first by name
    even = [job(1, "ann", 2, on="n0"), job(2, "bob", 4, on="n0")]
    found = status_of(
        cluster_of(read_state([node("n0", 6)], even, NOW), SlurmConfig(weights={"bob": 2.0}))
    )
    assert (found.distance, found.worst) == (0.0, None)


def test_nodes_and_totals(status: Status) -> None:
    assert [(n.name, n.state, n.jobs) for n in status.nodes] == [
        ("n0", "up", 1), ("n1", "up", 2), ("n2", "closing", 0), ("n3", "down", 0),
    ]  # fmt: skip
    assert status.nodes[1].used == {"cpu": 3.0, "memory": 2 * 2.0**30}
    assert status.nodes[0].fullness == 1.0
    assert status.totals["cpu"] == Total(12.0, 7.0)
    assert status.totals["memory"] == Total(16 * 2.0**30, 3 * 2.0**30)


def test_what_is_not_ours_and_what_is_broken(status: Status) -> None:
    assert status.unmanaged == {
        BlockedReason(BlockedCode.OTHER_PARTITION, "drfh does not manage the partition other"): 1,
        BlockedReason(
            BlockedCode.OTHER_SCHEDULER, "it was not handed to drfh when it was submitted"
        ): 1,
        BlockedReason(BlockedCode.RESERVATION, "it asks for a reservation"): 1,
    }
    assert len(status.broken) == 1
    assert "job_state must be a state of Slurm, got 'DANCING'" in status.broken[0]
    assert status.notes == ()
    strange = status_of(cluster_of(read_state(NODES, JOBS, NOW), SlurmConfig(partitions=("mian",))))
    assert strange.notes == ("no node is in the managed partition mian",)


def test_status_is_plain_data(status: Status) -> None:
    data = json.loads(json.dumps(status.to_dict(), allow_nan=False))
    assert data["distance_from_fair"] == pytest.approx(5 / 12)
    assert data["users"][1]["fulfilled"] == 0.0
    assert data["nodes"][0]["fullness"] == 1.0
    assert data["totals"]["cpu"] == {"capacity": 12.0, "used": 7.0}


@pytest.mark.parametrize(("nodes", "jobs"), INACTIVE)
def test_nobody_is_active(nodes: list[Any], jobs: list[Any]) -> None:
    found = status_of(cluster_of(read_state(nodes, jobs, NOW), SlurmConfig()))
    assert all(user.fair_share is None for user in found.users)
    assert (found.distance, found.worst) == (0.0, None)


def test_a_node_that_went_down_with_a_job() -> None:
    nodes = [node("n0", 4, "down"), node("n1", 4)]
    found = status_of(
        cluster_of(read_state(nodes, [job(1, "ann", 2, on="n0")], NOW), SlurmConfig())
    )
    assert found.totals["cpu"] == Total(6.0, 2.0)
    assert found.users[0].fair_share == pytest.approx(found.users[0].share)


def test_a_job_on_several_nodes_is_one_job() -> None:
    entry = job(1, "ann", 4, on="n0") | {"nodes": "n[0-1]", "tres_alloc_str": "cpu=4,mem=2G,node=2"}
    found = status_of(cluster_of(read_state([node("n0"), node("n1")], [entry], NOW), SlurmConfig()))
    assert found.users[0].running == 1
    assert [n.jobs for n in found.nodes] == [1, 1]


def test_ideal_of_restricted_users() -> None:
    servers = {name: NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0}) for name in ("a", "b")}
    tasks = {str(i): TaskSnapshot("ann", {"cpu": 1.0}, (i, 0), ("a",)) for i in range(8)}
    tasks |= {str(i): TaskSnapshot("bob", {"cpu": 1.0}, (i, 0)) for i in range(8, 20)}
    assert fair_share_of(ClusterSnapshot(servers, tasks)).shares == pytest.approx(
        {"ann": 0.5, "bob": 0.5}
    )
    tasks = {name: replace(task, on="a") if name in "01" else task for name, task in tasks.items()}
    more = {"ann": 3.0}
    shares = fair_share_of(ClusterSnapshot(servers, tasks, more)).shares
    assert shares == pytest.approx({"ann": 0.5, "bob": 0.5})  # there is no more on a
    shares = fair_share_of(
        ClusterSnapshot({**servers, "a": servers["a"]}, tasks, {"bob": 3.0})
    ).shares
    assert shares == pytest.approx({"ann": 0.25, "bob": 0.75})
