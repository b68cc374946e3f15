"""Snapshots of Slurm: what Slurm 22.05 really printed, newer writing, and damaged files.

``slurm-22.05-*.json`` come from a small cluster that was run for this; what names the machine or
is not read was cut out.
"""

from __future__ import annotations

import copy
import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from drfh.errors import InputError
from drfh.traces import Trace, read, recognise
from drfh.traces.scenario import reduced
from drfh.wire.slurm.notation import parse_gres, parse_tres
from tests.support.damage import damaged, folder_with, survives
from tests.support.examples import examples
from tests.support.paths import DATA
from tests.support.snapshots import admitted
from tests.support.wrong_types import with_wrong_types

SINFO, SQUEUE = DATA / "slurm-22.05-sinfo.json", DATA / "slurm-22.05-squeue.json"
NODES, JOBS = json.loads(SINFO.read_text())["nodes"], json.loads(SQUEUE.read_text())["jobs"]
GI, MI = 2.0**30, 2.0**20


@pytest.fixture(scope="module")
def trace() -> Trace:
    return read("slurm", [SINFO, SQUEUE])


def write(folder: Path, nodes: Any, jobs: Any, key: str = "nodes") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "sinfo.json").write_text(json.dumps({key: nodes, "meta": {"Slurm": {}}}))
    (folder / "squeue.json").write_text(json.dumps({"jobs": jobs, "meta": {"Slurm": {}}}))
    return folder


def tasks(trace: Trace) -> list[tuple[str, str, str | None, int, dict[str, float], Any]]:
    """Return user, job, server, number, demand and restriction of each batch."""
    load = trace.workload
    return [
        (
            load.users[load.batch_user[b]].name,
            load.job_name(int(load.batch_job[b])),
            trace.details["server"][b],
            int(load.batch_count[b]),
            {
                r: a
                for r, a in zip(load.resources, load.demand[load.batch_shape[b]], strict=True)
                if a
            },
            admitted(load.restrictions[load.restriction[load.batch_shape[b]]], trace.cluster),
        )
        for b in range(len(load.batch_user))
    ]


def test_servers_are_the_nodes(trace: Trace) -> None:
    found = {str(server.name): dict(server.resources) for server in trace.cluster}
    gpu = {"cpu": 32, "memory": 128 * GI, "gres/accel": 4}
    assert found == {
        "big01": {"cpu": 32, "memory": 512 * GI},
        "cpu01": {"cpu": 16, "memory": 32 * GI},
        "cpu02": {"cpu": 14, "memory": GI},  # drains: what runs there, and no more
        "gpu01": gpu,
        "gpu02": gpu,
    }  # cpu03 is drained
    assert trace.cluster.servers[0].labels == {
        "partition/all": "yes",
        "partition/main": "yes",
        "feature/bigmem": "yes",
        "feature/skylake": "yes",
    }


def test_jobs_are_tasks_one_for_each_node(trace: Trace) -> None:
    main, gpu = ("big01", "cpu01", "cpu02"), ("gpu01", "gpu02")
    small = {"cpu": 14, "memory": GI}
    large = {"cpu": 16, "memory": 64 * GI, "gres/accel": 4}
    assert tasks(trace) == [
        ("ann", "1", "cpu01", 1, {"cpu": 4, "memory": 8 * GI}, main),
        ("ann", "2", "big01", 1, {"cpu": 8, "memory": 8 * GI}, main),
        ("ann", "2", "cpu01", 1, {"cpu": 8, "memory": 8 * GI}, main),
        ("bob", "3", "gpu01", 1, {"cpu": 8, "memory": 48 * GI, "gres/accel": 2}, gpu),
        ("bob", "4", "gpu02", 1, large, gpu),
        ("cho", "6", "big01", 1, {"cpu": 8, "memory": 200 * GI}, ("big01", "gpu01", "gpu02")),
        ("cho", "8", "big01", 1, small, main),  # two tasks of an array
        ("cho", "8", "cpu02", 1, small, main),
        ("bob", "5", None, 1, large, gpu),
        ("cho", "7", None, 1, {"cpu": 20, "memory": 400 * GI}, ("big01",)),
        ("ann", "10", None, 1, {"cpu": 14, "memory": 14 * GI}, ("cpu01",)),
        # Two nodes of three each, a kind of resource that Slurm does not track here.
        ("bob", "15", None, 2, {"cpu": 4, "memory": 12 * GI, "gres/accel": 3}, gpu),
    ]
    assert set(trace.workload.duration) == {math.inf}
    trace.workload.check(trace.cluster)


def test_what_runs_is_what_slurm_says_is_allocated(trace: Trace) -> None:
    assert trace.running is not None
    for node in NODES:
        rows = [row for row in trace.running.to_dicts() if row["server"] == node["name"]]
        for resource, amount in parse_tres(node["tres_used"], "tres_used").items():
            assert sum(row[resource] for row in rows) == amount, node["name"]
        used = parse_gres(node["gres_used"], "gres_used").get("gres/accel", 0.0)
        assert sum(row["gres/accel"] for row in rows) == used


def test_everything_is_counted(trace: Trace) -> None:
    assert dict(trace.counts) == {
        "nodes listed": 6,
        "jobs listed": 15,
        "files of another kind, left out": 0,
        "jobs that ended, left out": 1,
        "jobs that are held or wait for another job or a time, left out": 2,
        "array tasks beyond the array's own limit, left out": 3,
        "jobs that ask for nothing, left out": 0,
        "tasks on nodes that are down, taken as queued": 0,
        "tasks on nodes that are not in the snapshot, left out": 0,
        "nodes used": 5,
        "nodes that are down, left out": 0,
        "nodes that take nothing new, only what runs there counts": 2,
        "tasks that no node admits, left out": 0,
        "tasks running": 8,
        "tasks queued": 5,
    }
    assert trace.oddities == ()
    assert any("one task for each node" in remark for remark in trace.remarks)


def test_held_jobs_can_be_kept() -> None:
    kept = read("slurm", [SINFO, SQUEUE], held="keep")
    queued = [(job, count) for _, job, server, count, *_ in tasks(kept) if server is None]
    assert sorted(queued) == [
        ("10", 1), ("14", 1), ("15", 2), ("5", 1), ("7", 1), ("8", 3), ("9", 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("user", ["ann", "bob", "cho"]),
        ("account", ["sim", "ml", "bio", "(no account)"]),
        ("partition", ["main", "gpu", "all"]),
        ("qos", ["(no qos)"]),
    ],
)
def test_users_by(by: str, names: list[str]) -> None:
    found = read("slurm", [SINFO, SQUEUE], user_by=by)
    assert [user.name for user in found.workload.users] == names


def newer(value: Any) -> dict[str, Any]:
    return {"set": value is not None, "infinite": False, "number": value or 0}


def as_24_05(nodes: list[Any], jobs: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the same in the writing of data_parser/v0.0.41."""
    nodes, jobs = copy.deepcopy(nodes), copy.deepcopy(jobs)
    for node in nodes:
        node["state"] = [node["state"].upper(), *node.pop("state_flags")]
        node["features"] = node["features"].split(",")
        node["active_features"] = node["active_features"].split(",")
        node["effective_cpus"] = node["cpus"]
        node["specialized_memory"] = 0
    for job in jobs:
        job["job_state"] = [job["job_state"]]
        for key in ("cpus", "node_count", "tasks", "memory_per_cpu", "memory_per_node",
                    "array_job_id", "array_task_id", "array_max_tasks", "start_time",
                    "submit_time", "priority"):  # fmt: skip
            job[key] = newer(job[key])
        resources = job.get("job_resources")
        if resources:
            allocated = resources.pop("allocated_nodes")
            resources["nodes"] = {
                "count": len(allocated),
                "list": resources["nodes"],
                "allocation": [
                    {
                        "index": position,
                        "name": entry["nodename"],
                        "cpus": {"count": len(entry["sockets"]), "used": 0},
                        "memory": {"used": 0, "allocated": entry["memory_allocated"]},
                    }
                    for position, entry in enumerate(allocated)
                ],
            }
    return nodes, jobs


def test_newer_versions_write_it_otherwise(tmp_path: Path, trace: Trace) -> None:
    folder = write(tmp_path, *as_24_05(NODES, JOBS))
    assert recognise(folder) == "slurm"
    same = read(None, folder)
    assert same.workload == trace.workload
    assert same.cluster == trace.cluster


def sinfo_rows() -> list[dict[str, Any]]:
    """Return the nodes as ``sinfo --json`` of 23.02 and later lists them."""
    return [
        {
            "node": {"state": [node["state"].upper(), *node["state_flags"]]},
            "nodes": {"total": 1, "nodes": [node["name"]], "hostnames": []},
            "cpus": {"minimum": node["cpus"], "maximum": node["cpus"], "total": node["cpus"]},
            "memory": {"minimum": node["real_memory"], "maximum": node["real_memory"]},
            "features": {"total": node["features"], "active": node["features"]},
            "gres": {"total": node["gres"], "used": ""},
            "partition": {"name": partition},
        }
        for partition in ("main", "gpu", "all")
        for node in NODES
        if partition in node["partitions"]
    ]


def test_rows_of_sinfo(tmp_path: Path, trace: Trace) -> None:
    rows = sinfo_rows()
    found = read("slurm", write(tmp_path, rows, JOBS, "sinfo"))
    assert found.counts["nodes listed"] == 6
    assert {s.name: s for s in found.cluster} == {s.name: s for s in trace.cluster}
    # A row of several equal nodes is as good; one of different nodes tells no shapes.
    rows[0]["nodes"]["nodes"] = ["big[01-02]"]
    found = read("slurm", write(tmp_path, rows, JOBS, "sinfo"))
    assert found.cluster.find_server("big02") is not None
    rows[0]["memory"]["maximum"] += 1
    with pytest.raises(InputError, match=r"memory differs inside one.*scontrol show nodes"):
        read("slurm", write(tmp_path, rows, JOBS, "sinfo"))


def test_nodes_that_are_down_and_jobs_elsewhere(tmp_path: Path) -> None:
    nodes = copy.deepcopy(NODES)
    nodes[4].update(state="down", state_flags=["NOT_RESPONDING"])  # gpu01 runs job 3
    found = read("slurm", write(tmp_path, nodes, JOBS))
    assert found.counts["nodes that are down, left out"] == 1
    assert found.counts["tasks on nodes that are down, taken as queued"] == 1
    assert ("bob", "3", None, 1) in [row[:4] for row in tasks(found)]
    found = read("slurm", write(tmp_path, nodes[:4], JOBS))  # no gpu nodes at all
    assert found.counts["tasks on nodes that are not in the snapshot, left out"] == 2
    assert found.counts["tasks that no node admits, left out"] == 3  # jobs 5 and 15
    gone = read("slurm", [SINFO, SQUEUE], draining="drop")
    assert gone.cluster.find_server("cpu02") is None
    assert gone.counts["tasks on nodes that take nothing new, left out"] == 1
    whole = read("slurm", [SINFO, SQUEUE], draining="keep")
    assert whole.cluster.size == 6


def job(**more: Any) -> dict[str, Any]:
    return {"job_id": 1, "user_name": "ann", "partition": "main", "job_state": "PENDING",
            "tres_req_str": "cpu=4,mem=8G", **more}  # fmt: skip


@pytest.mark.parametrize(
    ("more", "count", "demand"),
    [
        ({}, 1, {"cpu": 4, "memory": 8 * GI}),
        ({"node_count": 2}, 2, {"cpu": 2, "memory": 4 * GI}),
        ({"array_task_string": "0-9"}, 10, {"cpu": 4, "memory": 8 * GI}),
        ({"tres_req_str": "", "cpus": 6, "memory_per_cpu": 512}, 1,
         {"cpu": 6, "memory": 3 * GI}),
        ({"tres_req_str": "", "cpus": 6, "node_count": 2, "memory_per_node": 512}, 2,
         {"cpu": 3, "memory": 512 * MI}),
        ({"tres_per_node": "gres/accel:a100:2", "node_count": 2}, 2,
         {"cpu": 2, "memory": 4 * GI, "gres/accel": 2}),
        ({"tres_per_job": "gres:accel:4", "node_count": 2}, 2,
         {"cpu": 2, "memory": 4 * GI, "gres/accel": 2}),
        ({"tres_per_task": "gres:accel:1", "tasks": 3}, 1,
         {"cpu": 4, "memory": 8 * GI, "gres/accel": 3}),
        ({"tres_req_str": "cpu=4,mem=512M,gres/accel:a100=2"}, 1,
         {"cpu": 4, "memory": 512 * MI, "gres/accel": 2}),
    ],
)  # fmt: skip
def test_what_a_job_asks_for(
    tmp_path: Path, more: dict[str, Any], count: int, demand: dict[str, float]
) -> None:
    found = read("slurm", write(tmp_path, NODES, [job(**more)]))
    assert [row[3:5] for row in tasks(found)] == [(count, demand)]


def test_nodes_of_a_job_need_not_hold_the_same(tmp_path: Path) -> None:
    def held(name: str, cores: int, memory: int) -> dict[str, Any]:
        sockets = {"0": {"cores": dict.fromkeys(map(str, range(cores)), "allocated")}}
        return {"nodename": name, "sockets": sockets, "memory_allocated": memory}

    uneven = job(
        job_state="RUNNING", nodes="cpu01,gpu01", tres_alloc_str="cpu=8,mem=8G,node=2",
        gres_detail=["", "accel:a100(CNT:1)"],
        job_resources={"allocated_nodes": [held("gpu01", 1, 6144), held("cpu01", 3, 2048)]},
    )  # fmt: skip
    found = read("slurm", write(tmp_path, NODES, [uneven]))
    assert [(row[2], row[4]) for row in tasks(found)] == [
        ("cpu01", {"cpu": 6, "memory": 2 * GI}),
        ("gpu01", {"cpu": 2, "memory": 6 * GI, "gres/accel": 1}),
    ]


@pytest.mark.parametrize(
    ("more", "servers"),
    [
        ({"partition": "all"}, None),
        ({"partition": "main"}, ("big01", "cpu01")),
        ({"partition": "main,gpu"}, None),
        ({"partition": "all", "features": "a100|bigmem"}, ("big01", "gpu01", "gpu02")),
        ({"partition": "all", "excluded_nodes": "gpu[01-02]"}, ("big01", "cpu01")),
        ({"partition": "all", "required_nodes": "gpu02"}, ("gpu02",)),
        # It must have gpu02 and three more, whichever: no restriction.
        ({"partition": "all", "required_nodes": "gpu02", "node_count": 4}, None),
    ],
)
def test_where_a_job_may_run(tmp_path: Path, more: dict[str, Any], servers: Any) -> None:
    found = read("slurm", write(tmp_path, NODES, [job(**more)]))
    restriction = found.workload.restrictions[found.workload.restriction[0]]
    assert admitted(restriction, found.cluster) == servers


def test_broken_entries_are_counted(tmp_path: Path) -> None:
    jobs = [*JOBS, job(job_id=90, tres_req_str="cpu=many"), job(job_id=91, job_state="ODD"), 7,
            job(job_id=92, features="a&")]  # fmt: skip
    found = read("slurm", write(tmp_path, [*NODES, {"name": "x", "cpus": -1}], jobs))
    assert sorted(oddity.kind.split(" must")[0] for oddity in found.oddities) == [
        "cpus", "features", "job", "job_state", "tres_req_str",
    ]  # fmt: skip
    assert "jobs[16]: job_state must be a state of Slurm, got 'ODD'" in str(found.oddities)
    assert found.workload.task_count == 13
    with pytest.raises(InputError, match=r"nodes\[6\]: cpus must be a number"):
        read("slurm", write(tmp_path, [*NODES, {"name": "x", "cpus": -1}], jobs), strict=True)


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="jobs must be in the files"):
        read("slurm", SINFO)
    with pytest.raises(InputError, match="nodes must be in the files"):
        read("slurm", SQUEUE)
    both = tmp_path / "both.json"
    both.write_bytes(SINFO.read_bytes() + SQUEUE.read_bytes())
    assert read(None, both).workload.task_count == 13


FUZZ = settings(max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck))


def look_at(trace: Trace) -> None:
    """A trace that was read can be used."""
    trace.workload.check(trace.cluster)
    assert trace.workload.task_count == trace.counts["tasks running"] + trace.counts["tasks queued"]
    survives(lambda: reduced(trace, split=None))


@FUZZ
@given(damaged(SINFO.read_bytes()), damaged(SQUEUE.read_bytes()))
def test_damaged_files(nodes: bytes, jobs: bytes) -> None:
    for files in (
        {"a.json": nodes, "b.json": SQUEUE.read_bytes()},
        {"a.json": SINFO.read_bytes(), "b.json": jobs},
    ):
        with folder_with(files) as folder:
            found = survives(partial(read, "slurm", folder))
            survives(partial(read, None, folder, strict=True))
        if found is not None:
            look_at(found)


@FUZZ
@given(with_wrong_types(SINFO), with_wrong_types(SQUEUE))
def test_wrong_types(nodes: Any, jobs: Any) -> None:
    files = {"a.json": json.dumps(nodes).encode(), "b.json": json.dumps(jobs).encode()}
    with folder_with(files) as folder:
        found = survives(lambda: read("slurm", folder))
    if found is not None:
        look_at(found)
