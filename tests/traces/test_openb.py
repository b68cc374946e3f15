"""The openb reader: what the published lists hold, each choice, and files that are not in order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drfh
from drfh import traces
from drfh.errors import InputError
from drfh.simulation.devices import replay_devices
from drfh.traces import Trace
from tests.support.damage import damaged, folder_with, packed, survives
from tests.support.examples import examples

NODES = b"""\
sn,cpu_milli,memory_mib,gpu,model
n0,32000,65536,0,
n1,64000,262144,2,P100
n2,96000,786432,8,V100M32
"""
PODS = b"""\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
p0,12000,16384,1,1000,,LS,Running,0,900,0
p1,500,0,1,460,P100|V100M16,LS,Succeeded,10,70,15
p2,8000,2048,0,0,P100,BE,Failed,20,50,20
p3,8000,2048,8,1000,V100M32,BE,Pending,30,60,
p4,8000,2048,2,1000,A10,Burstable,Running,40,140,40
p5,1000,1024,1,320,,BE,Succeeded,50,50,50
"""
FILES = {"openb_node_list_all_node.csv": NODES, "openb_pod_list_default.csv": PODS}
POLICIES = ("best-fit-drfh", "first-fit-drfh", "drfh+cosine")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in FILES.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def with_pods(folder: Path, *rows: str) -> Path:
    """Replace the pods of a directory."""
    header = PODS.partition(b"\n")[0].decode()
    (folder / "openb_pod_list_default.csv").write_text("\n".join([header, *rows, ""]))
    return folder


def test_servers(folder: Path) -> None:
    trace = traces.read(None, folder)
    assert trace.format == "openb"
    assert trace.cluster.resources == ("cpu", "memory", "gpu")
    assert trace.cluster.names == ("n0", "n1", "n2")
    assert trace.cluster.capacity.tolist() == [
        [32.0, 64.0 * 2**30, 0.0],
        [64.0, 256.0 * 2**30, 2.0],
        [96.0, 768.0 * 2**30, 8.0],
    ]
    labels = [dict(server.labels) for server in trace.cluster]
    assert labels == [{}, {"gpu_model": "P100"}, {"gpu_model": "V100M32"}]


def test_pods(folder: Path) -> None:
    cluster, workload = trace = traces.read("openb", folder)
    workload.check(cluster)
    assert workload.job_names == ("p0", "p1", "p2", "p4", "p5")
    assert [user.name for user in workload.users] == ["LS", "BE", "Burstable"]
    assert workload.batch_user.tolist() == [0, 0, 1, 2, 1]
    assert workload.batch_arrival.tolist() == [0, 10, 20, 40, 50]
    assert workload.duration.tolist() == [900, 55, 30, 100, 0]
    assert workload.demand[workload.batch_shape].tolist() == [
        [12.0, 16.0 * 2**30, 1.0],
        [0.5, 0.0, 0.46],
        [8.0, 2.0 * 2**30, 0.0],
        [8.0, 2.0 * 2**30, 2.0],
        [1.0, 1.0 * 2**30, 0.32],
    ]
    asked = [workload.restrictions[n] for n in workload.restriction[workload.batch_shape].tolist()]
    # p2 asks for no GPU, so the model of one does not matter.
    assert asked == [
        None,
        ({"gpu_model": ("P100", "V100M16")},),
        None,
        ({"gpu_model": ("A10",)},),
        None,
    ]
    assert trace.details.to_dicts()[1] == {
        "qos": "LS",
        "phase": "Succeeded",
        "num_gpu": 1,
        "gpu_milli": 460,
        "gpu_spec": "P100|V100M16",
        "waited": 5.0,
    }
    assert trace.window == 900
    counts = trace.counts
    assert counts["pods"] == 6
    assert counts["pods left out: never ran"] == 1
    assert counts["pods with pod_phase Failed"] == 1
    assert counts["pods still running at the end"] == 1  # p4 was gone before
    assert counts["pods that ran 0 s"] == 1
    assert counts["pods that ask for a GPU model that no node has"] == 1
    assert counts["pods kept"] == 5
    assert any("A10" in remark for remark in trace.remarks)
    assert trace.oddities == ()


def test_a_pod_for_a_model_that_no_node_has_is_counted_as_never(folder: Path) -> None:
    cluster, workload = traces.read("openb", folder)
    for policy in POLICIES:
        result = drfh.simulate(cluster, workload, policy, log=True)
        tasks = result.summary()["tasks"]
        assert (tasks["completed"], tasks["never"]) == (4, 1)
        assert result.tasks is not None
        where = dict(result.tasks.select("job", "server").rows())
        assert (where["p1"], where["p4"]) == ("n1", None)


@pytest.mark.parametrize(
    ("options", "jobs", "seconds"),
    [
        ({"failed": "drop"}, "p0 p1 p4 p5", [900, 55, 100, 0]),
        ({"at_cut": "drop"}, "p1 p2 p4 p5", [55, 30, 100, 0]),
        ({"at_cut": "run"}, "p0 p1 p2 p4 p5", [float("inf"), 55, 30, 100, 0]),
        ({"start": 15 / 3600, "hours": 25 / 3600}, "p2 p4", [30, 100]),
        ({"users": "LS"}, "p0 p1", [900, 55]),
        ({"users": ["Burstable", "LS"]}, "p0 p1 p4", [900, 55, 100]),
    ],
)
def test_choices(folder: Path, options: dict[str, Any], jobs: str, seconds: list[float]) -> None:
    trace = traces.read("openb", folder, **options)
    assert trace.workload.job_names == tuple(jobs.split())
    assert trace.workload.duration.tolist() == pytest.approx(seconds)
    left_out = sum(n for what, n in trace.counts.items() if what.startswith("pods left out"))
    assert left_out + trace.counts["pods kept"] == trace.counts["pods"] == 6


def test_at_once(folder: Path) -> None:
    workload = traces.read("openb", folder, arrivals="at_once").workload
    assert workload.batch_arrival.tolist() == [0] * 5


@pytest.mark.parametrize(
    ("user_by", "users"),
    [
        ("pod", "p0 p1 p2 p4 p5"),
        ("pod_phase", "Running Succeeded Failed"),
        ("gpu_spec", "none P100|V100M16 P100 A10"),
        ("num_gpu", "1 0 2"),
    ],
)
def test_user_by(folder: Path, user_by: str, users: str) -> None:
    workload = traces.read("openb", folder, user_by=user_by).workload
    assert [user.name for user in workload.users] == users.split()


def test_user_by_a_column_of_your_own(folder: Path) -> None:
    team = [b"team", b"red", b"blue", b"red", b"red", b"", b"blue"]
    rows = zip(PODS.splitlines(), team, strict=True)
    (folder / "openb_pod_list_default.csv").write_bytes(b"\n".join(b",".join(r) for r in rows))
    workload = traces.read("openb", folder, user_by="team").workload
    assert [user.name for user in workload.users] == ["red", "blue", "none"]
    with pytest.raises(InputError, match=r"user_by must be one of .*\(did you mean team\?\)"):
        traces.read("openb", folder, user_by="taem")


def test_where_the_lists_may_be(tmp_path: Path) -> None:
    named = {"nodes.csv": NODES, "pods.csv": PODS}
    inside = {f"csv/{name}.gz": packed(data) for name, data in FILES.items()}
    more = {"openb_pod_list_cpu050.csv": b"\n".join(PODS.splitlines()[:3])}
    with folder_with({**named, **inside}) as folder, folder_with({**FILES, **more}) as other:
        one = traces.read(None, folder)
        two = traces.read(None, [folder / "pods.csv", folder / "nodes.csv"])
        three = traces.read("openb", other)
        assert one.workload == two.workload == three.workload
        assert one.cluster == two.cluster == three.cluster
        assert traces.read("openb", other, pods="cpu050").workload.job_names == ("p0", "p1")
        with pytest.raises(InputError, match=r"pods must be one of cpu050, default .*'cpu51'"):
            traces.read("openb", other, pods="cpu51")
        with pytest.raises(InputError, match="nodes must be one of all, got 'gpu'"):
            traces.read("openb", other, nodes="gpu")
        with pytest.raises(InputError, match="path must be a directory with openb lists, or two"):
            traces.read("openb", folder / "nodes.csv")
    with pytest.raises(InputError, match=r"path must be a directory with openb_node_list_\*"):
        traces.read("openb", tmp_path)


def test_a_list_without_times_is_refused(folder: Path) -> None:
    short = b"\n".join(line.rsplit(b",", 3)[0] for line in PODS.splitlines())
    (folder / "openb_pod_list_default.csv").write_bytes(short)
    with pytest.raises(InputError, match="line 1: creation_time must be among the columns"):
        traces.read("openb", folder)


GOOD = "g,1000,1024,1,500,,LS,Running,0,10,0"


@pytest.mark.parametrize(
    ("row", "word"),
    [
        ("x,-1000,1024,0,0,,LS,Running,0,10,0", "cpu_milli must be from 0 to"),
        ("x,nan,1024,0,0,,LS,Running,0,10,0", "cpu_milli must be from 0 to"),
        ("x,1000,1e300,0,0,,LS,Running,0,10,0", "memory_mib must be from 0 to"),
        ("x,1000,1024,1,1001,,LS,Running,0,10,0", "gpu_milli must be from 0 to 1,000"),
        ("x,1000,1024,1,0,,LS,Running,0,10,0", "gpu_milli must be > 0 for a pod with num_gpu > 0"),
        ("x,0,0,0,0,,LS,Running,0,10,0", "cpu_milli must be > 0 for a pod that asks for nothing"),
        ("x,1000,1024,a,0,,LS,Running,0,10,0", "num_gpu must be a whole number"),
        ("x,1000,1024,1,500,,LS,Running,0,10,11", "deletion_time must be at least scheduled_time"),
        ("x,1000,1024,1,500,,LS,Running,,10,1", "creation_time must be given"),
        (" ,1000,1024,1,500,,LS,Running,0,10,1", "name must be given"),
        ("g,1000,1024,1,500,,LS,Running,0,10,1", "name must be unique"),
        ("x,1000,1024", "row must have 11 fields"),
    ],
)
def test_broken_rows_are_counted(folder: Path, row: str, word: str) -> None:
    path = with_pods(folder, GOOD, row)
    trace = traces.read("openb", path)
    assert trace.workload.job_names == ("g",)
    (oddity,) = trace.oddities
    assert oddity.kind.startswith(word)
    assert oddity.count == 1
    assert oddity.first.startswith("openb_pod_list_default.csv, line 3: ")
    with pytest.raises(InputError, match="line 3"):
        traces.read("openb", path, strict=True)


def test_time_that_runs_backwards_is_put_in_order(folder: Path) -> None:
    late, early = "a,1000,0,0,0,,LS,Failed,9,10,9", "b,1000,0,0,0,,LS,Failed,3,10,4"
    trace = traces.read("openb", with_pods(folder, late, early))
    assert trace.workload.job_names == ("b", "a")
    assert trace.counts["pods listed after a later one"] == 1


def test_nothing_to_read(folder: Path) -> None:
    with pytest.raises(InputError, match="trace must have at least one task"):
        traces.read("openb", with_pods(folder))
    (folder / "openb_node_list_all_node.csv").write_bytes(b"sn,cpu_milli,memory_mib,gpu,model\n")
    with pytest.raises(InputError, match="nodes must have at least one row"):
        traces.read("openb", folder)


def look_at(trace: Trace | None) -> None:
    """Use all of what was read."""
    if trace is None:
        return
    trace.workload.check(trace.cluster)
    assert len(trace.details) == len(trace.workload.batch_count)
    left_out = sum(n for what, n in trace.counts.items() if what.startswith("pods left out"))
    assert left_out + trace.counts["pods kept"] == trace.counts["pods"]


@settings(max_examples=examples(300))
@given(damaged(PODS), st.booleans(), st.sampled_from(["qos", "pod", "gpu_spec", "creation_time"]))
def test_damaged_pods(data: bytes, strict: bool, user_by: str) -> None:
    with folder_with({**FILES, "openb_pod_list_default.csv": data}) as folder:
        look_at(survives(lambda: traces.read("openb", folder, strict=strict, user_by=user_by)))


@settings(max_examples=examples(200))
@given(damaged(NODES))
def test_damaged_nodes(data: bytes) -> None:
    with folder_with({**FILES, "openb_node_list_all_node.csv": data}) as folder:
        survives(lambda: traces.recognise([folder]))
        look_at(survives(lambda: traces.read("openb", folder)))


# --- the published lists -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def read(data: Path) -> Callable[..., Trace]:
    return lambda **options: traces.read(None, data / "alibaba_gpu_v2023_openb", **options)


def test_the_published_lists(read: Callable[..., Trace]) -> None:
    trace = read(strict=True)
    assert trace.format == "openb"
    expected = {
        "nodes": 1_523,
        "nodes without GPUs": 310,
        "shapes of nodes": 27,
        "pods": 8_152,
        "pods with pod_phase Pending": 897,
        "pods with pod_phase Failed": 1_870,
        "pods without GPUs": 1_088,
        "pods with qos LS": 4_647,
        "pods with qos BE": 3_398,
        "pods with qos Burstable": 100,
        "pods with qos Guaranteed": 7,
        "pods left out: never ran": 897,
        "pods kept": 8_152 - 897,
    }
    assert {what: trace.counts[what] for what in expected} == expected
    assert trace.cluster.size == 1_523
    assert len({(*s.resources.values(), *s.labels.values()) for s in trace.cluster}) == 27
    assert trace.window is not None
    assert round(trace.window / 86_400, 1) == 149.3
    assert trace.workload.job_count == len(trace.details) == 7_255
    assert read(nodes="gpu").cluster.size == 1_523 - 310


@pytest.mark.parametrize(
    ("pods", "number"),
    [("cpu050", 7_439), ("cpu100", 7_853), ("cpu200", 8_832), ("gpushare100", 8_152)],
)
def test_the_other_published_lists(read: Callable[..., Trace], pods: str, number: int) -> None:
    trace = read(pods=pods, strict=True)
    assert trace.counts["pods"] == number
    look_at(trace)


@pytest.mark.parametrize("arrivals", ["created", "at_once"])
@pytest.mark.parametrize("policy", POLICIES)
def test_the_published_lists_run(read: Callable[..., Trace], policy: str, arrivals: str) -> None:
    trace = read(arrivals=arrivals)
    result = drfh.simulate(trace.cluster, trace.workload, policy, log=True)
    tasks = result.summary()["tasks"]
    parts = [tasks[name] for name in ("completed", "running", "queued", "never")]
    assert sum(parts) == tasks["submitted"] == 7_255
    assert tasks["completed"] == 7_255
    assert result.tasks is not None
    gpus = dict(zip(trace.cluster.names, trace.cluster.capacity[:, 2].tolist(), strict=True))
    used = {gpus[server] > 0 for server in result.tasks["server"]}
    assert used == {True, False}  # GPU-less nodes are among them
    devices = replay_devices(result, trace.cluster, trace.workload, trace.details)
    assert devices.tasks == 7_255
    assert (
        devices.fractional
        == trace.details.filter(
            (trace.details["num_gpu"] > 0) & (trace.details["gpu_milli"] < 1000)
        ).height
    )
    assert 0 <= devices.fractional_no_room < devices.fractional
