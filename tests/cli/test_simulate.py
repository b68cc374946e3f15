"""``drfh simulate`` the way a user runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import drfh
from drfh.cli import main
from drfh.cli.render.simulation import spark
from drfh.errors import DrfhError
from drfh.files.atomic import DirectoryError
from drfh.simulation import parallel as many
from drfh.simulation.parallel import SimulationRun, simulate_many
from tests.support.paths import ROOT
from tests.support.processes import default_sigint

SMALL = """\
title: Two users, one server
cluster: [{name: a, resources: {cpu: 2}}]
users: [{name: ann, demand: {cpu: 1}}, {name: bob, demand: {cpu: 1}}]
jobs:
  - {user: ann, duration: 10, tasks: 4}
  - {user: bob, duration: 5, tasks: 3, arrival: 5, name: late}
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def run(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    code = main(["simulate", *(str(word) for word in words)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_one_policy_shows_its_users(capsys: pytest.CaptureFixture[str], small: Path) -> None:
    code, out, err = run(capsys, small, "--fair")
    assert (code, err) == (0, "")
    assert "Two users, one server" in out
    assert "2 users, 2 jobs, 7 tasks, arrivals 0 to 5 s" in out
    assert "best-fit-drfh" in out
    assert "full over time" in out
    assert "Users, with their dominant share over time" in out
    assert "furthest from fair at 5 s: 50.0 % of the fair shares missing; worst off: bob, " in out
    assert "exact allocations took" in out
    assert "█" in out


def test_several_policies_are_rows(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "gpu-day", "--policy", "best-fit-drfh, slots:4,fifo")
    assert (code, err) == (0, "")
    rows = [line.split()[0] for line in out.splitlines() if line.startswith((" best", " slots"))]
    assert rows == ["best-fit-drfh", "slots:4"]
    assert "slots:4: 4 tasks could run on no server, not even on an empty one" in out
    assert "best-fit-drfh: 5 tasks were put back when servers left or shrank" in out
    assert "Users, with" not in out


def test_json_has_the_summary_of_each_run(capsys: pytest.CaptureFixture[str], small: Path) -> None:
    code, out, _ = run(capsys, small, "--policy", "fifo,mesos", "--json", "--until", 12)
    data = json.loads(out)
    assert code == 0
    assert [row["run"] for row in data["runs"]] == ["fifo", "mesos"]
    assert data["runs"][0]["tasks"]["completed"] == 2
    assert data["runs"][0]["horizon"] == 12
    assert data["runs"][0]["directory"] is None


def test_a_run_directory(capsys: pytest.CaptureFixture[str], small: Path, tmp_path: Path) -> None:
    place = tmp_path / "runs" / "first"
    code, out, _ = run(capsys, small, "-o", place, "--log", "--interval", 5)
    assert code == 0
    assert f"saved: {place}" in out
    result = drfh.Result.load(place)
    assert result.config["source"] == str(small)
    assert result.samples["time"].to_list() == [0, 5, 10, 15, 20, 25, 30]
    assert result.tasks is not None
    before = (place / "run_info.json").read_bytes()
    code, out, err = run(capsys, small, "-o", place)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "--output must be new (or be replaced with --force), got" in err
    assert (place / "run_info.json").read_bytes() == before
    code, _, _ = run(capsys, small, "-o", place, "--force", "--seed", 7)
    assert code == 0
    assert drfh.Result.load(place).seed == 7
    assert not (place / "tasks.parquet").exists()


def test_several_runs_have_a_directory_each(
    capsys: pytest.CaptureFixture[str], small: Path, tmp_path: Path
) -> None:
    words = (small, "--policy", "mesos,slots:4", "--seeds", 2, "-o", tmp_path / "runs")
    code, out, _ = run(capsys, *words, "--json")
    assert code == 0
    names = ["mesos-0", "mesos-1", "slots-4-0"]
    assert sorted(os.listdir(tmp_path / "runs")) == names
    assert [Path(row["directory"]).name for row in json.loads(out)["runs"]] == names
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert "must be new" in err
    code, _, err = run(capsys, small, "--policy", "fifo,drfh+cosine", "-o", tmp_path / "runs")
    assert (code, err) == (0, "")
    assert len(os.listdir(tmp_path / "runs")) == 5
    code, _, err = run(capsys, small, "--policy", "fifo,mesos", "-o", tmp_path / "runs" / "fifo")
    assert code == 2
    assert "must be a directory for several runs, not a run directory" in err
    code, out, _ = run(capsys, *words, "--force")
    assert code == 0
    assert "a policy that draws nothing is the same for all seeds: it ran once" in out
    assert {path.name for path in tmp_path.iterdir()} == {"small.yaml", "runs"}


def test_processes_give_the_same_results(
    capsys: pytest.CaptureFixture[str], small: Path, tmp_path: Path
) -> None:
    words = (small, "--policy", "best-fit-drfh,mesos,fifo", "--json", "--fair")
    alone = json.loads(run(capsys, *words, "--jobs", 1)[1])
    code, out, err = run(capsys, *words, "--jobs", 2, "-o", tmp_path / "runs")
    assert (code, err) == (0, "")
    for one, other in zip(alone["runs"], json.loads(out)["runs"], strict=True):
        for row in (one, other):
            del row["seconds"], row["directory"]
        assert one == other
    assert len(os.listdir(tmp_path / "runs")) == 3


def test_an_error_in_a_process_is_one_line(small: Path) -> None:
    scenario = drfh.load_scenario(small)
    runs = [SimulationRun("good", "fifo", 0), SimulationRun("bad", "max-min:gpu", 0)]
    told: list[int] = []
    with pytest.raises(DrfhError, match=r"^bad: resource of max-min must be one of cpu") as caught:
        simulate_many(
            scenario.cluster, scenario.workload, runs, processes=2,
            progress=lambda position, news: told.append(position),
        )  # fmt: skip
    assert caught.value.exit_code == 2


def leave(*words: object) -> None:
    """Be a process that ends without a word."""
    os._exit(3)


def test_a_process_that_dies_is_one_line(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = drfh.load_scenario(small)
    monkeypatch.setattr(many, "_run_in_worker", leave)
    with pytest.raises(DrfhError, match=r"^[ab]: its process ended with code 3$"):
        simulate_many(
            scenario.cluster,
            scenario.workload,
            [SimulationRun("a", "fifo", 0), SimulationRun("b", "fifo", 1)],
            processes=2,
        )


def start_for_interrupt(directory: Path) -> subprocess.Popen[str]:
    """Start three simulations in two processes, which take seconds: hdrf has the plain core."""
    words = ["simulate", "paper-dynamic", "--policy", "hdrf,hdrf+cosine,hdrf+first-fit"]
    return subprocess.Popen(
        [sys.executable, "-m", "drfh", *words, "-o", "runs", "--jobs", "2"],
        cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(drfh.__file__).parents[1])},
        start_new_session=True, preexec_fn=default_sigint,
    )  # fmt: skip


@pytest.mark.parametrize("delay", [0.0, 0.3, 1.0])  # while processes start, and later
def test_an_interrupt_stops_all_and_leaves_nothing(tmp_path: Path, delay: float) -> None:
    child = start_for_interrupt(tmp_path)
    while not os.listdir(tmp_path) and child.poll() is None:  # until the drafts are there
        time.sleep(0.05)
    time.sleep(delay)
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does: to all of them
    out, err = child.communicate(timeout=60)
    assert (out, err) == ("", "drfh: interrupted\n")
    # Python itself ends by the signal, which a shell shows as 130, if it came while it imported.
    assert child.returncode in (130, -signal.SIGINT)
    assert os.listdir(tmp_path) == []


def sigint_is_blocked(*_: object) -> bool:
    """Run in a worker process instead of a simulation."""
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, set())


def test_no_worker_process_receives_an_interrupt() -> None:
    # In a Python of its own, where no other test has started what the first process starts.
    code = """\
import drfh
from drfh.simulation import parallel
from tests.cli.test_simulate import sigint_is_blocked
if __name__ == "__main__":
    parallel._run_in_worker = sigint_is_blocked
    scenario = drfh.load_scenario("gpu-day")
    runs = [parallel.SimulationRun(name, name, 0) for name in ("fifo", "mesos")]
    print(parallel.simulate_many(scenario.cluster, scenario.workload, runs, processes=2))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True,
        text=True, check=False, timeout=60,
        env={**os.environ, "PYTHONPATH": str(Path(drfh.__file__).parents[1])},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("[True, True]\n", "")


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    child = start_for_interrupt(tmp_path)
    workers = Path(f"/proc/{child.pid}/task/{child.pid}/children")
    while len(started := [int(pid) for pid in workers.read_text().split()]) < 3:  # and the tracker
        assert child.poll() is None
        time.sleep(0.05)
    time.sleep(1)
    child.kill()
    child.communicate(timeout=60)
    until = time.monotonic() + 60
    while not all(map(gone, started)) and time.monotonic() < until:
        time.sleep(0.05)
    assert all(map(gone, started))


def test_list_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--list")
    assert code == 0
    assert "policies: best-fit-drfh, first-fit-drfh, mesos, fifo, slots:N" in out
    assert "lowest weighted global dominant share" in out
    data = json.loads(run(capsys, "--list", "--json")[1])
    assert "hdrf" in data["parts"]["turn"]
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert "drfh simulate gpu-day --fair" in out


def test_cut_leaves_later_jobs_out(capsys: pytest.CaptureFixture[str], small: Path) -> None:
    code, out, err = run(capsys, small, "--until", 3)
    assert (code, out) == (2, "")
    assert err == (
        "drfh: arrival of late must be at most until = 3 (--cut leaves later jobs out), got 5.0\n"
    )
    code, out, _ = run(capsys, small, "--until", 3, "--cut")
    assert code == 0
    assert "at the end 2 tasks ran and 2 waited" in out


def test_a_note_says_whose_fair_level_is_of_a_mean(
    capsys: pytest.CaptureFixture[str], small: Path
) -> None:
    assert "mean task" not in run(capsys, small, "--fair")[1]
    small.write_text(SMALL + "  - {user: ann, duration: 9, demand: {cpu: 2}}\n")
    assert "mean task" not in run(capsys, small)[1]
    _, out, _ = run(capsys, small, "--fair")
    note = "1 user had tasks that differ: its fair level is that of the mean task, which may "
    assert note in out


def test_a_note_says_whose_times_these_are(capsys: pytest.CaptureFixture[str], small: Path) -> None:
    _, out, _ = run(capsys, small)
    assert "never did" not in out
    assert "that finished" not in out
    _, out, _ = run(capsys, small, "--until", 26)
    assert "never did" not in out
    assert "job times are of the 1 job that finished; 1 did not\n" in out
    _, out, _ = run(capsys, small, "--until", 12, "--policy", "fifo,mesos")
    assert "fifo: mean waiting is of the 4 tasks that started; 3 never did\n" in out
    assert "that finished" not in out


UNFINISHED = """\
cluster: [{name: a, resources: {cpu: 1}}]
users: [{name: ann, demand: {cpu: 1}, weight: 3}, {name: bob, demand: {cpu: 1}}]
jobs:
  - {user: ann, duration: 4}
  - {user: bob, duration: 2, arrival: 1}
  - {user: ann, duration: 8, arrival: 2}
"""


def test_the_median_job_is_of_the_same_jobs_in_every_row(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "unfinished.yaml"
    path.write_text(UNFINISHED)
    # Ann's long job goes before bob's under one policy and after it under the other.
    words = (path, "--until", 12, "--policy", "max-min:cpu,fifo")
    _, out, _ = run(capsys, *words, "--json")
    assert [one["turnaround"]["median"] for one in json.loads(out)["runs"]] == [7.0, 4.5]
    _, out, _ = run(capsys, *words)
    rows = [line.split() for line in out.splitlines() if line.startswith((" max-min", " fifo"))]
    assert [row[7:11] for row in rows] == [["4", "s", "4", "s"]] * 2
    assert "job times are of the 1 job that finished in all runs; 2 did not\n" in out
    path.write_text(UNFINISHED.replace("{user: ann, duration: 4}", "{user: ann, duration: 0}"))
    _, out, _ = run(capsys, path, "--until", 12)
    assert "in all runs" not in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--policy", "best-fit-drff"], "did you mean best-fit-drfh?), got 'best-fit-drff'"),
        (["--policy", ","], "--policy must name at least one policy"),
        (["--policy", "fifo,fifo"], "--policy must name each policy once, got 'fifo'"),
        (["--policy", "max-min:gpu"], "resource of max-min must be one of cpu"),
        (["--until", "-1"], "--until must be a finite number of seconds > 0, got -1.0"),
        (["--until", "nan"], "--until must be a finite number of seconds > 0, got nan"),
        (["--interval", "0"], "--interval must be a finite number of seconds > 0, got 0.0"),
        (["--seed", "-4"], "--seed must be a whole number from 0 to 4611686018427387903, got -4"),
        (["--seed", str(2**62)], "from 0 to 4611686018427387903, got 4611686018427387904"),
        (["--interval", "1e-9"], "--interval must be at least 2.8e-05 (at most 1,000,000 samples"),
        (["--seeds", "0"], "--seeds must be a whole number from 1 to 1,000, got 0"),
        (["--jobs", "0"], "--jobs must be a whole number ≥ 1, got 0"),
        (["--cut"], "--cut must be used together with --until"),
        (["--log"], "--log must be used together with --output"),
        (["--force"], "--force must be used together with --output"),
        (["--output", "small.yaml"], "--output must be a directory or a new one"),
        (["--output", "."], "--output must be new, empty, or have a run_info.json"),
        (["--bad"], "No such option: --bad"),
    ],
)
def test_mistakes_are_one_line_and_nothing_is_written(
    capsys: pytest.CaptureFixture[str],
    small: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(small.parent)
    code, out, err = run(capsys, "small.yaml", *words)
    assert (code, out) == (2, "")
    assert err.startswith("drfh: ")
    assert err.count("\n") == 1
    assert message in err
    assert os.listdir() == ["small.yaml"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("duration: 10", "duration: -1", "jobs[0].duration"),
        ("duration: 10", "duration: .nan", "jobs[0].duration"),
        ("arrival: 5", "arrival: -5", "jobs[1].arrival"),
        ("user: ann", "user: anm", "did you mean ann?"),
        ("cpu: 2", "gpu: 2", "gpu"),
    ],
)
def test_mistakes_in_the_file(
    capsys: pytest.CaptureFixture[str],
    small: Path,
    old: str,
    new: str,
    message: str,
) -> None:
    small.write_text(SMALL.replace(old, new, 1))
    code, out, err = run(capsys, small, "-o", small.parent / "run")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert message in err
    assert os.listdir(small.parent) == ["small.yaml"]


def test_files_without_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "google-2011")
    assert code == 2
    assert err.startswith("drfh: google-2011: jobs must have at least one entry")
    code, _, err = run(capsys)
    assert code == 2
    assert "FILE must be given, or --trace" in err


@pytest.mark.parametrize("processes", [1, 2])
def test_a_disk_that_is_full(
    capsys: pytest.CaptureFixture[str],
    small: Path,
    monkeypatch: pytest.MonkeyPatch,
    processes: int,
) -> None:
    def full(*words: object, **_: object) -> None:
        raise DirectoryError("directory", "must be writable (No space left)", "/draft")

    if processes == 1:
        monkeypatch.setattr(drfh.Result, "write", full)
    else:
        monkeypatch.setattr(many, "_run_in_worker", fail_to_write)
    monkeypatch.chdir(small.parent)
    words = (small, "--policy", "fifo,mesos", "-o", "runs", "--jobs", processes)
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert err.endswith("--output must be writable (No space left), got 'runs'\n")
    assert os.listdir() == ["small.yaml"]


def fail_to_write(*_: object) -> None:
    """Run in a worker process instead of a simulation."""
    raise DirectoryError("directory", "must be writable (No space left)", "/draft", place="fifo")


def test_sparks() -> None:
    assert spark([]) == ""
    assert spark([0, 0]) == "▁▁"
    assert spark([float("nan"), 2.0]) == "▁█"
    assert len(spark(range(1000))) == 24
