"""Snapshots of Kubernetes: a mixed cluster, entry by entry, and what damaged files do."""

from __future__ import annotations

import gzip
import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import drfh.traces
from drfh.errors import InputError
from drfh.traces import Trace, read, recognise
from drfh.traces.scenario import observed_of, reduced, scenario_of
from tests.support.damage import damaged, folder_with, survives
from tests.support.examples import examples
from tests.support.paths import DATA
from tests.support.snapshots import admitted
from tests.support.wrong_types import with_wrong_types

CLUSTER = DATA / "kubernetes-cluster.json"
DOCUMENT = json.loads(CLUSTER.read_text())
GI, MI = 2.0**30, 2.0**20


@pytest.fixture(scope="module")
def trace() -> Trace:
    return read("kubernetes", CLUSTER)


def servers(trace: Trace) -> dict[str, dict[str, float]]:
    return {str(server.name): dict(server.resources) for server in trace.cluster}


def pods(trace: Trace) -> dict[str, tuple[str, dict[str, float], Any, str | None]]:
    """Return user, demand, restriction and server of each pod."""
    load = trace.workload
    return {
        pod: (
            load.users[load.batch_user[b]].name,
            {
                r: a
                for r, a in zip(load.resources, load.demand[load.batch_shape[b]], strict=True)
                if a
            },
            admitted(load.restrictions[load.restriction[load.batch_shape[b]]], trace.cluster),
            server,
        )
        for b, (pod, server) in enumerate(
            zip(trace.details["pod"], trace.details["server"], strict=True)
        )
    }


def with_items(*items: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def node(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "kind": "Node",
        "metadata": {"name": name},
        "spec": spec,
        "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}},
    }


def pod(name: str, on: str | None = None, **spec: Any) -> dict[str, Any]:
    own: dict[str, Any] = {"containers": [{"resources": {"requests": {"cpu": "2"}}}], **spec}
    if on is not None:
        own["nodeName"] = on
    return {"kind": "Pod", "metadata": {"name": name, "namespace": "ns"}, "spec": own}


def read_items(folder: Path, *items: Any, **options: Any) -> Trace:
    path = folder / "cluster.json"
    path.write_text(json.dumps(with_items(*items)))
    return read("kubernetes", path, **options)


def test_servers_are_the_nodes_less_what_the_system_holds(trace: Trace) -> None:
    assert servers(trace) == {
        "cp-1": {"cpu": pytest.approx(3.7), "memory": 15 * GI - 170 * MI, "example.com/fpga": 0},
        "general-1": {"cpu": pytest.approx(7.8), "memory": 30 * GI - 64 * MI},
        "general-2": {"cpu": pytest.approx(7.8), "memory": 30 * GI - 64 * MI},
        "bigmem-1": {"cpu": pytest.approx(15.8), "memory": 250 * GI - 64 * MI},
        "gpu-1": {"cpu": pytest.approx(31.7), "memory": 120 * GI - 64 * MI, "nvidia.com/gpu": 4},
        "old-1": {"cpu": 0.6, "memory": 640 * MI},  # cordoned: the one pod that runs there
    }
    assert trace.cluster.servers[4].labels["accelerator"] == "a100"


def test_pods_are_tasks_with_requests_restrictions_and_places(trace: Trace) -> None:
    shop = {"cpu": pytest.approx(0.6), "memory": 640 * MI}  # with its sidecar
    nightly = {"cpu": 3, "memory": 4 * GI}
    open_ = ("general-1", "general-2", "bigmem-1", "old-1")
    general = ("general-1", "general-2", "old-1")
    assert pods(trace) == {
        "web/shop-7d9c-2": ("web", shop, open_, "old-1"),
        "web/shop-7d9c-0": ("web", shop, open_, "general-1"),
        "web/shop-7d9c-1": ("web", shop, open_, "general-2"),
        "research/train-0": (
            "research",
            {"cpu": 8, "memory": 32 * GI, "nvidia.com/gpu": 2},
            ("general-1", "general-2", "bigmem-1", "gpu-1", "old-1"),
            "gpu-1",
        ),
        "research/genome": ("research", {"cpu": 4, "memory": 200 * GI}, ("bigmem-1",), "bigmem-1"),
        "batch/nightly-0": ("batch", nightly, general, "general-1"),
        "batch/nightly-1": ("batch", nightly, general, "general-1"),
        "batch/nightly-2": ("batch", nightly, general, None),
        "batch/nightly-4": ("batch", nightly, general, None),  # its node is not ready
        "research/train-1": (
            "research", {"cpu": 16, "memory": 64 * GI, "nvidia.com/gpu": 4}, ("gpu-1",), None,
        ),
        "demo/fpga": ("demo", {"cpu": 1, "memory": GI, "example.com/fpga": 1}, open_, None),
        "web/shop-7d9c-3": ("web", shop, open_, None),
    }  # fmt: skip


def test_running_pods_come_first_in_start_order(trace: Trace) -> None:
    assert trace.details["pod"].to_list() == [
        "web/shop-7d9c-2", "web/shop-7d9c-0", "web/shop-7d9c-1", "research/train-0",
        "research/genome", "batch/nightly-0", "batch/nightly-1",
        "batch/nightly-2", "batch/nightly-4", "research/train-1", "demo/fpga", "web/shop-7d9c-3",
    ]  # fmt: skip
    assert trace.details["state"].to_list() == ["running"] * 7 + ["queued"] * 5
    assert set(trace.workload.duration) == {math.inf}
    assert set(trace.workload.batch_arrival) == {0.0}


def test_jobs_are_what_made_the_pods(trace: Trace) -> None:
    names = [trace.workload.job_name(int(job)) for job in trace.workload.batch_job]
    assert names[0] == names[-1] == "web/shop-7d9c"
    assert names[4] == "research/genome"  # made alone
    trace.workload.check(trace.cluster)


def test_who_holds_what_where(trace: Trace) -> None:
    assert trace.running is not None
    held = {(row["user"], row["server"]): row for row in trace.running.to_dicts()}
    assert len(held) == 6
    assert held["batch", "general-1"]["cpu"] == 6
    assert held["research", "gpu-1"]["nvidia.com/gpu"] == 2
    assert held["web", "old-1"]["memory"] == 640 * MI


def test_everything_is_counted(trace: Trace) -> None:
    assert dict(trace.counts) == {
        "nodes listed": 7,
        "pods listed": 28,
        "objects listed twice, counted once": 0,
        "objects that are neither nodes nor pods, left out": 0,
        "pods that ended, left out": 1,
        "pods without requests (best effort), left out": 1,
        "pods that wait behind a gate, left out": 1,
        "pods of the system, taken off their nodes": 12,
        "pods on nodes that are down, taken as queued": 1,
        "pods on nodes that are not in the snapshot, left out": 0,
        "nodes used": 6,
        "nodes that are down, left out": 1,
        "nodes that take nothing new, only what runs there counts": 1,
        "pods that no node admits, left out": 1,
        "tasks running": 7,
        "tasks queued": 5,
    }
    # Nothing is lost: all pods but the system's are tasks, or left out by name.
    assert 28 - 12 - 1 - 1 - 1 - 1 == 7 + 5
    assert trace.oddities == ()
    assert any("run times" in remark for remark in trace.remarks)
    assert any("PriorityClasses" in remark for remark in trace.remarks)


def test_system_pods_can_be_users_or_nothing() -> None:
    kept = read("kubernetes", CLUSTER, system="keep")
    names = {user.name for user in kept.workload.users}
    assert names == {"kube-system", "monitoring", "web", "batch", "research", "demo"}
    assert servers(kept)["general-1"]["cpu"] == 7.9
    assert pods(kept)["monitoring/node-exporter-3"][2] == ("gpu-1",)
    # On the cordoned node the system's pod counts like others.
    assert servers(kept)["old-1"]["cpu"] == pytest.approx(0.7)
    dropped = read("kubernetes", CLUSTER, system="drop")
    assert servers(dropped)["general-1"]["cpu"] == 7.9
    assert {user.name for user in dropped.workload.users} == {"web", "batch", "research", "demo"}


def test_cordoned_nodes_can_count_whole_or_not_at_all() -> None:
    kept = read("kubernetes", CLUSTER, cordoned="keep")
    assert servers(kept)["old-1"]["cpu"] == pytest.approx(7.8)
    gone = read("kubernetes", CLUSTER, cordoned="drop")
    assert "old-1" not in servers(gone)
    assert gone.counts["pods on nodes that take nothing new, left out"] == 1
    assert gone.counts["tasks running"] == 6


def test_gated_pods_can_be_kept() -> None:
    kept = read("kubernetes", CLUSTER, held="keep")
    assert pods(kept)["research/gated"][3] is None


def test_more_resources_on_request() -> None:
    more = read("kubernetes", CLUSTER, also="pods, ephemeral-storage")
    assert servers(more)["general-1"]["pods"] == 108  # two of the system's
    assert servers(more)["general-1"]["ephemeral-storage"] == 95551679124
    assert pods(more)["web/shop-7d9c-0"][1]["pods"] == 1


def test_users_by_label(tmp_path: Path) -> None:
    one, two = pod("one", "a"), pod("two", "a")
    one["metadata"]["labels"] = {"team": "red"}
    for item in (one, two):
        item["metadata"]["ownerReferences"] = [{"kind": "Job", "name": "j", "controller": True}]
    found = read_items(tmp_path, node("a"), one, two, user_by="label:team")
    assert [user.name for user in found.workload.users] == ["red", "(no team)"]
    # One owner with pods of two users is two jobs.
    assert found.workload.job_names == ("ns/j", "ns/j ((no team))")
    with pytest.raises(InputError, match="user_by must be namespace or label:KEY"):
        read_items(tmp_path, node("a"), one, user_by="team")


def test_several_files_a_directory_gzip_and_bare_lists(tmp_path: Path, trace: Trace) -> None:
    nodes = [item for item in DOCUMENT["items"] if item["kind"] == "Node"]
    others = [item for item in DOCUMENT["items"] if item["kind"] == "Pod"]
    (tmp_path / "nodes.json").write_text(json.dumps(with_items(*nodes)))
    # As the API server lists them: no kind in the items.
    bare = [{key: value for key, value in item.items() if key != "kind"} for item in others]
    podlist = json.dumps({"kind": "PodList", "apiVersion": "v1", "items": bare}).encode()
    (tmp_path / "pods.json.gz").write_bytes(gzip.compress(podlist))
    for source in (tmp_path, [tmp_path / "nodes.json", tmp_path / "pods.json.gz"]):
        assert recognise(source) == "kubernetes"
        same = read(None, source)
        assert same.workload == trace.workload
        assert same.cluster == trace.cluster
    # One file after the other in one, in UTF-16 as a Windows shell writes it.
    joined = "\n".join(json.dumps(item, indent=1) for item in [*nodes, *others])
    (tmp_path / "all.json").write_bytes(joined.encode("utf-16"))
    assert read(None, tmp_path / "all.json").workload == trace.workload
    # Overlapping files count once.
    twice = read("kubernetes", [CLUSTER, tmp_path / "nodes.json"])
    assert twice.counts["objects listed twice, counted once"] == 7
    assert twice.workload == trace.workload


def test_pods_elsewhere_and_broken_entries_are_counted(tmp_path: Path) -> None:
    items = [node("a"), pod("fine", "a"), pod("away", "other"), pod("bad", "a"), {"kind": "Pod"}]
    items[3]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "many"
    found = read_items(tmp_path, *items)
    assert found.counts["pods on nodes that are not in the snapshot, left out"] == 1
    assert found.workload.task_count == 1
    assert {oddity.kind.split(" must")[0]: oddity.count for oddity in found.oddities} == {
        "spec.containers[0].resources.requests.cpu": 1,
        "metadata.name": 1,
    }
    assert "items[3] (ns/bad): spec.containers[0]" in found.oddities[1].first
    with pytest.raises(InputError, match=r"items\[4\]: metadata.name must be text"):
        read_items(tmp_path, *items, strict=True)


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nodes must be in the files"):
        read_items(tmp_path, pod("a"))
    with pytest.raises(InputError, match="pods must be in the files"):
        read_items(tmp_path, node("a"))
    down = node("a")
    down["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    with pytest.raises(InputError, match="nodes must have at least one that works"):
        read_items(tmp_path, down, pod("x"))
    with pytest.raises(InputError, match="must have at least one task"):
        read_items(tmp_path, node("a"), pod("x", containers=[{}]))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"must be a directory with \.json"):
        read("kubernetes", tmp_path / "empty")
    (tmp_path / "cut.json").write_bytes(CLUSTER.read_bytes()[:-500])
    with pytest.raises(InputError, match=r"cut\.json, line \d+: the file must be whole JSON"):
        read("kubernetes", tmp_path / "cut.json")
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(CLUSTER.read_bytes())[:-500])
    with pytest.raises(InputError, match="whole"):
        read("kubernetes", tmp_path / "cut.json.gz")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match="must not be nested so deep"):
        read("kubernetes", tmp_path / "deep.json")


def test_the_scenario_of_a_snapshot(trace: Trace) -> None:
    scenario = scenario_of(trace)
    users = {user.name: user for user in scenario.users}
    assert list(users) == ["web", "research", "batch"]  # demo's one task fits nowhere
    assert users["batch"].tasks == 4
    assert users["batch"].demand == {"cpu": 3, "memory": 4 * GI}
    assert admitted(users["batch"].servers, scenario.cluster) == ("general-*", "old-1")
    assert users["research"].tasks == 3
    assert users["research"].demand == pytest.approx(
        {"cpu": 28 / 3, "memory": 296 / 3 * GI, "nvidia.com/gpu": 2}
    )
    observed = observed_of(trace)
    assert observed is not None
    assert {"user": "batch", "server": "general-*/0", "cpu": 6.0, "memory": 8 * GI,
            "nvidia.com/gpu": 0.0} in observed  # fmt: skip
    notes = " ".join(reduced(trace).notes)
    assert "left out: 1 (demo)" in notes
    assert "research runs 2 tasks, counted as 0.324" in notes
    assert "research: may use servers here that only some of their tasks may use" in notes


TRAIN = "cpu 16, memory 64Gi, nvidia.com/gpu 4"


def test_users_of_a_snapshot_are_teams_with_one_share_each(trace: Trace) -> None:
    result = reduced(trace, split=None)
    web, research, batch = result.scenario.users
    assert (web.kinds, batch.kinds) == ((), ())
    assert (research.name, research.weight) == ("research", 1)
    assert [kind.name for kind in research.kinds] == [
        "cpu 8, memory 32Gi, nvidia.com/gpu 2",
        "cpu 4, memory 200Gi",
        TRAIN,
    ]
    assert [kind.tasks for kind in research.kinds] == [1, 1, 1]
    report = drfh.audit(
        result.scenario, observed=result.observed, properties=["feasible", "non-wasteful", "fair"]
    )
    assert report["feasible"].verdict == "holds"
    assert report["non-wasteful"].verdict == "holds"
    assert report["fair"].hurt == ("batch", "research", "web")
    assert report["fair"].text.startswith(
        "50.0 % from fair: batch has a dominant share of 8.9 %, 17.8 % in the DRFH optimum"
    )


def test_split_makes_every_kind_a_user(trace: Trace) -> None:
    result = reduced(trace, split=True)
    assert reduced(trace, split=None, kinds=False).scenario == result.scenario
    assert "users whose tasks differ are split by kind of task: research into 3" in result.notes
    users = {user.name: user for user in result.scenario.users}
    first, second, third = list(users)[1:4]
    assert first == "research (cpu 8, memory 32Gi, nvidia.com/gpu 2)"
    assert third == f"research ({TRAIN})"
    assert [users[name].parent for name in users] == [None, *["research"] * 3, None]
    # If all kinds of a user are served alike, each has the level of the whole user.
    totals = dict(
        zip(result.scenario.cluster.resources, result.scenario.cluster.totals, strict=True)
    )
    whole = max(28 / totals["cpu"], 296 * GI / totals["memory"], 6 / totals["nvidia.com/gpu"])
    for name in (first, second, third):
        user = users[name]
        share = max(amount / totals[r] for r, amount in user.demand.items())
        assert share * (user.tasks or 0) / user.weight == pytest.approx(whole)
    report = drfh.audit(
        result.scenario, observed=result.observed, properties=["feasible", "non-wasteful", "fair"]
    )
    assert report["feasible"].verdict == "holds"
    assert report["non-wasteful"].verdict == "holds"
    assert report.tasks[first] == 1
    assert report["fair"].text.startswith(f"100.0 % from fair: {third} has 0 tasks, 0.6667 in")


def sized(name: str, on: str | None, cpu: str, memory: str) -> dict[str, Any]:
    return pod(name, on, containers=[{"resources": {"requests": {"cpu": cpu, "memory": memory}}}])


def test_tasks_of_different_sizes_are_kinds(tmp_path: Path) -> None:
    one = sized("one", "a", "1", "2Gi")
    alike = read_items(tmp_path, node("a"), one, sized("two", "a", "2", "4Gi"))
    (user,) = scenario_of(alike, split=None).users
    assert [(kind.name, kind.tasks) for kind in user.kinds] == [
        ("cpu 1, memory 2Gi", 1),
        ("cpu 2, memory 4Gi", 1),
    ]
    assert reduced(alike, split=None).notes == ()
    same = read_items(tmp_path, node("a"), one, sized("two", "a", "1", "2Gi"))
    (user,) = scenario_of(same, split=None).users
    assert (user.name, user.demand, user.tasks) == ("ns", {"cpu": 1, "memory": 2 * GI}, 2)
    other = read_items(tmp_path, node("a"), one, sized("two", "a", "2", "2Gi"))
    (team,) = scenario_of(other, split=None).users
    assert [kind.name for kind in team.kinds] == ["cpu 1, memory 2Gi", "cpu 2, memory 2Gi"]
    assert len(scenario_of(alike, split=True).users) == 2


def test_what_runs_counts_where_it_runs(tmp_path: Path) -> None:
    taint = {"key": "late", "effect": "NoSchedule"}
    # A taint that came later, and a pod that is larger than its node.
    items = [node("a"), node("b", taints=[taint]), pod("x", "b"), sized("y", "a", "9", "1Gi")]
    found = read_items(tmp_path, *items)
    assert pods(found)["ns/x"][2] is None
    assert pods(found)["ns/y"][2] == ("a",)
    assert "pods that run where their rules would not let them start: 1; each may" in (
        " ".join(found.remarks)
    )
    result = reduced(found, split=True)
    assert [(user.demand["cpu"], user.tasks) for user in result.scenario.users] == [(2, 1), (9, 1)]
    report = drfh.audit(result.scenario, observed=result.observed, properties=["feasible"])
    assert report["feasible"].text == "a is over: 9 of 8 cpu are taken"


def test_nothing_runs(tmp_path: Path) -> None:
    assert observed_of(read_items(tmp_path, node("a"), pod("x"))) is None


# Some nodes and the pods of users: what the system runs tells nothing new.
LAST = CLUSTER.read_bytes().split(b"\n")[-20:]
FUZZ = settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))


def look_at(trace: Trace) -> None:
    """A trace that was read can be used."""
    trace.workload.check(trace.cluster)
    assert trace.workload.task_count == trace.counts["tasks running"] + trace.counts["tasks queued"]
    survives(lambda: reduced(trace, split=None))


@FUZZ
@given(damaged(b"\n".join(CLUSTER.read_bytes().split(b"\n")[:9] + LAST)))
def test_damaged_files(data: bytes) -> None:
    with folder_with({"cluster.json": data}) as folder:
        found = survives(lambda: read("kubernetes", folder))
        survives(lambda: read(None, folder / "cluster.json", strict=True))
    if found is not None:
        look_at(found)


@FUZZ
@given(with_wrong_types(CLUSTER))
def test_wrong_types(document: Any) -> None:
    with folder_with({"cluster.json": json.dumps(document).encode()}) as folder:
        for system in ("reserve", "keep"):
            found = survives(partial(read, "kubernetes", folder, system=system))
            if found is not None:
                look_at(found)
