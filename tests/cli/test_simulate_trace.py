"""``drfh simulate --trace``: from somebody's files to a table, the way a user runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drfh.cli import main

SERVERS = "name,count,cpu,gpu\nnode,2,8,2\n"
JOBS = "user,job,arrival,duration,tasks,cpu,gpu\nann,a,0,100,4,4,1\nbob,b,50,100,4,4,\n"
ABOUT = '{"window": 120}'
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time\n"
    "p0,1000,1024,1,600,,LS,Running,0,100,0\n"
    "p1,1000,1024,1,600,,LS,Running,0,100,0\n"
    "p2,1000,1024,1,500,,BE,Running,1,100,1\n"
)
NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,8000,65536,2,T4\n"


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    folder = tmp_path / "tables"
    folder.mkdir()
    for name, text in (("servers.csv", SERVERS), ("jobs.csv", JOBS), ("trace.json", ABOUT)):
        (folder / name).write_text(text)
    return folder


@pytest.fixture
def openb(tmp_path: Path) -> Path:
    folder = tmp_path / "openb"
    folder.mkdir()
    (folder / "openb_node_list_all_node.csv").write_text(NODES)
    (folder / "openb_pod_list_default.csv").write_text(PODS)
    return folder


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main(["simulate", *(str(word) for word in words)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_trace_ends_with_its_window(capsys: pytest.CaptureFixture[str], tables: Path) -> None:
    code, out, err = run(capsys, "--trace", tables, "--json")
    assert (code, err) == (0, "rows of jobs: 2\n")
    answer = json.loads(out)
    assert answer["trace"]["format"] == "tables"
    assert answer["trace"]["window"] == 120
    (only,) = answer["runs"]
    assert only["horizon"] == 120
    tasks = only["tasks"]
    assert tasks["submitted"] == 8
    assert sum(tasks[s] for s in ("completed", "running", "queued", "never")) == 8
    drained = json.loads(run(capsys, "--trace", f"tables:{tables}", "--drain", "--json")[1])
    assert drained["runs"][0]["tasks"]["completed"] == 8
    earlier = json.loads(run(capsys, "--trace", tables, "--until", 60, "--json")[1])
    assert earlier["runs"][0]["horizon"] == 60


def test_options_of_the_format(capsys: pytest.CaptureFixture[str], tables: Path) -> None:
    code, out, _ = run(capsys, "--trace", tables, "--set", "users=bob", "--json")
    assert code == 0
    answer = json.loads(out)
    assert answer["trace"]["options"]["users"] == ["bob"]
    assert answer["runs"][0]["tasks"]["submitted"] == 4


def test_broken_rows_are_shown(capsys: pytest.CaptureFixture[str], tables: Path) -> None:
    (tables / "jobs.csv").write_text(JOBS + "cyd,c,0,-5,1,1,\n")
    code, _, err = run(capsys, "--trace", tables)
    assert code == 0
    assert "warning: 1 broken row, left out; the first: jobs.csv, line 4: duration must be" in err
    code, out, err = run(capsys, "--trace", tables, "--strict")
    assert (code, out) == (2, "")
    assert err.startswith("drfh: jobs.csv, line 4: duration must be")


def test_parts_of_gpus_are_followed_to_devices(
    capsys: pytest.CaptureFixture[str], openb: Path, tmp_path: Path
) -> None:
    code, out, _ = run(capsys, "--trace", openb, "--policy", "best-fit-drfh,first-fit-drfh")
    assert code == 0
    assert "1 of 3 tasks with a part of a GPU (33.3 %) were placed where no single" in out
    code, out, _ = run(capsys, "--trace", openb, "--until", 0.5, "--cut", "--json")
    assert code == 0
    assert json.loads(out)["runs"][0]["devices"]["fractional"] == 2
    code, out, _ = run(capsys, "--trace", openb, "-o", tmp_path / "run")
    assert code == 0
    assert (tmp_path / "run" / "tasks.parquet").exists()
    assert "source: openb:" in (tmp_path / "run" / "config.yaml").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gpu-day", "--trace", "{}"], "FILE must not be given together with --trace"),
        ([], "FILE must be given, or --trace (see"),
        (["gpu-day", "--drain"], "--drain must be used with a trace or a snapshot"),
        (["gpu-day", "--strict"], "--strict must be used with a trace or a snapshot"),
        (["gpu-day", "--set", "hours=1"], "--set must be used with a trace or a snapshot"),
        (["--trace", "{}", "--set", "hours"], "--set must be NAME=VALUE"),
        (["--trace", "{}", "--set", "hour=1"], "option of tables must be one of"),
        (["--trace", "{}", "--set", "hours=-1"], "hours must be a finite number"),
        (["--trace", "{}", "--set", "users=zoe"], "users must name users of the trace"),
        (["--trace", "tabels:{}"], "format must be one of"),
        (["--trace", "no-such-folder"], "path must be a file or directory that exists"),
        (["--trace", "swf:{}"], "path must be"),
    ],
)
def test_mistakes(
    capsys: pytest.CaptureFixture[str], tables: Path, words: list[str], message: str
) -> None:
    code, out, err = run(capsys, *(word.format(tables) for word in words))
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
