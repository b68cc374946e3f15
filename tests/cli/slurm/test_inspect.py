"""``drfh slurm status``, ``why`` and ``audit``, with commands that print what a file has."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import drfh
from drfh.cli import main
from drfh.cli.cluster import status as cluster_status
from drfh.cli.slurm.options import connect
from drfh.engines.cache import SchedulerCache
from drfh.engines.lock import ControllerLock
from drfh.engines.slurm.client import Slurm
from drfh.engines.slurm.config import SlurmConfig
from drfh.engines.slurm.controller import SlurmController
from drfh.engines.slurm.sandbox import Sandbox
from tests.engines.slurm.entries import JOBS, NODES, job
from tests.support.outputs import check_output

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: object) -> tuple[int, str, str]:
        code = main(["slurm", *(str(argument) for argument in arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def fake(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}.txt").write_text(text)
    program = folder / name
    program.write_text(f'#!/bin/sh\nexec /bin/cat "{folder}/{name}.txt"\n')
    program.chmod(0o755)


@pytest.fixture
def slurm_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a Slurm that only tells what is in files."""
    for name in list(os.environ):
        if name.startswith("DRFH_SLURM"):
            monkeypatch.delenv(name)
    folder = tmp_path / "slurm"
    (folder / "state").mkdir(parents=True)
    fake(folder, "scontrol", "SelectTypeParameters    = CR_CPU_MEMORY\nClusterName   = tiny\n"
                             f"StateSaveLocation       = {folder / 'state'}\n")  # fmt: skip
    fake(folder, "sinfo", json.dumps({"nodes": NODES, "errors": []}))
    fake(folder, "squeue", json.dumps({"jobs": JOBS, "errors": []}))
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_status_command(run: Run, slurm_commands: Path) -> None:
    code, out, err = run("status", "--partition", "main")
    assert (code, err) == (0, "")
    assert "3 jobs run, 11 wait" in out
    assert "no controller runs" in out
    code, out, _ = run("status", "--json")
    data = check_output("slurm-status", out)
    assert (code, data["cluster"], data["policy"]) == (0, "tiny", "best-fit-drfh")
    assert data["controller"] == {"running": False, "pid": None, "host": None, "started": None}
    assert set(data["outside"]) == {"it was not handed to drfh when it was submitted",
                                    "it asks for a reservation"}  # fmt: skip


def test_options_and_environment(
    run: Run, slurm_commands: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = slurm_commands / "weights.yaml"
    weights.write_text("physics: 3\nchemistry: 0.5\n")
    arguments = (
        "status",
        "--user-by",
        "account",
        "--weights",
        weights,
        "--policy",
        "first-fit-drfh",
    )
    data = json.loads(run(*arguments, "--json")[1])
    assert [(user["name"], user["weight"]) for user in data["users"]] == [
        ("chemistry", 0.5), ("physics", 3.0),
    ]  # fmt: skip
    assert data["policy"] == "first-fit-drfh"
    monkeypatch.setenv("DRFH_SLURM_USER_BY", "account")
    monkeypatch.setenv("DRFH_SLURM_WEIGHTS", str(weights))
    monkeypatch.setenv("DRFH_SLURM_POLICY", "first-fit-drfh")
    monkeypatch.setenv("DRFH_SLURM_PARTITIONS", "main,more other")
    same = json.loads(run("status", "--json")[1])
    assert same["users"] == data["users"]
    assert same["policy"] == "first-fit-drfh"
    assert connect(partitions=["main, more", "main"]).config.partitions == ("main", "more")
    assert same["notes"] == ["no node is in the managed partition more",
                             "no node is in the managed partition other"]  # fmt: skip


def test_what_is_not_given_is_as_the_controller_has_it(run: Run, slurm_commands: Path) -> None:
    facts = {"policy": "first-fit-drfh", "weights": {"bob": 5}, "user_by": "user",
             "partitions": ["main"], "hold_by": "controller"}  # fmt: skip
    with ControllerLock(slurm_commands / "state" / "drfh.lock").acquire(facts):
        code, out, _ = run("status")
        assert code == 0
        assert f"controller runs: process {os.getpid()} on " in out
        data = json.loads(run("status", "--json")[1])
        assert data["controller"]["pid"] == os.getpid()
        assert data["controller"]["running"] is True
        assert data["policy"] == "first-fit-drfh"
        assert {user["name"]: user["weight"] for user in data["users"]}["bob"] == 5.0
        new = "it is new: the controller takes it over at its next look"
        assert data["outside"][new] == 1
        assert data["outside"]["drfh does not manage the partition other"] == 1
        weights = slurm_commands / "weights.json"
        weights.write_text('{"bob": 7}')
        given = json.loads(run("status", "--json", "--weights", weights)[1])
        assert {user["name"]: user["weight"] for user in given["users"]}["bob"] == 7.0
        assert given["policy"] == "first-fit-drfh"
    assert "no controller runs" in run("status")[1]


def test_a_controller_elsewhere_or_killed(run: Run, slurm_commands: Path) -> None:
    lock = slurm_commands / "state" / "drfh.lock"
    facts = {"pid": 12, "host": "elsewhere", "started": "2024-05-01T12:00:00+00:00"}
    lock.write_text(json.dumps(facts))
    assert "controller: process 12 on elsewhere since 2024-05-01" in run("status")[1]
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    host = os.uname().nodename
    lock.write_text(json.dumps({**facts, "pid": process.pid, "host": host}))
    assert f"no controller runs: process {process.pid} on {host} was killed" in run("status")[1]
    # What it wrote down is damaged, in any way.
    damaged: list[Any] = [None, 7, ["x"], {}]
    for weights in damaged:
        odd = {"policy": 7, "weights": weights, "user_by": "x", "partitions": "main", "hold_by": []}
        lock.write_text(json.dumps({**facts, **odd}))
        assert run("status")[0] == 0
    lock.write_text("{")
    assert "no controller runs" in run("status")[1]
    lock.unlink()
    (slurm_commands / "state").rmdir()  # as on every host but that of slurmctld
    code, out, _ = run("status")
    assert code == 0
    assert "controller" not in out
    assert json.loads(run("status", "--json")[1])["controller"]["running"] is None


def test_why_command(run: Run, slurm_commands: Path) -> None:
    code, out, err = run("why", "20", "--partition", "main")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "array 20 of ann has 10 tasks left: 1 runs, 9 wait."
    assert out.splitlines()[1].startswith("The first that does not run: job 20_1 of ann can start")
    data = check_output("slurm-why", run("why", "5", "--json")[1])
    assert (data["state"], data["user"], data["slurm"]) == ("never", "bob", "JobHeldUser")
    assert data["why"]["missing"]
    assert run("why", "5", "--user-by", "account")[1].startswith("job 5 of physics never runs")
    code, out, _ = run("why", "4711")
    assert (code, out) == (
        0, "job 4711 is not in Slurm's queue: it has ended, or there was never one.\n",
    )  # fmt: skip
    assert run("why", "soon")[::2] == (
        2, "drfh: job must be a number such as 12, or 12_3 for a task of an array, got 'soon'\n",
    )  # fmt: skip


def test_audit_command(run: Run, slurm_commands: Path, tmp_path: Path) -> None:
    code, out, err = run("audit", "--partition", "main")
    assert code == 0
    assert "slurm: tiny, 20" in out
    assert "observed allocation, " in out
    assert "✔   feasible" in out
    assert "tasks running: 2; tasks queued: 13" in err  # what is released holds nothing yet
    assert "tasks that must not be placed now, left out: 2" in err
    assert "warning: broken: job 31" in err
    weights = tmp_path / "weights.yaml"
    weights.write_text("ann: 100\n")
    arguments = ("audit", "--no-split", "--weights", weights, "--json")
    data = json.loads(run(*arguments)[1])
    assert data["tasks"] == pytest.approx({"ann": 1 + 0.96, "bob": 0.0, "eve": 0.0})
    assert data["trace"]["options"] == {"user_by": "user"}
    fair = {f["property"]: f for f in data["findings"]}["fair"]
    assert (fair["verdict"], fair["hurt"]) == ("fails", ["bob", "eve", "ann"])
    assert "bob has 0 tasks, 0.02" in fair["text"]
    plain = check_output("slurm-audit", run("audit", "--no-split", "--json")[1])
    fair = {f["property"]: f for f in plain["findings"]}["fair"]
    assert "bob has 0 tasks, 1 in the DRFH optimum" in fair["text"]
    assert run("audit", "--only", "feasible", "--require", "feasible")[0] == 0
    assert run("audit", "--require", "fair")[0] == 3
    assert run("audit", "--require", "truthful")[:2] == (2, "")
    page = tmp_path / "page.html"
    code, out, _ = run("audit", "--show", "fair", "--save", tmp_path / "c.yaml", "--html", page)
    assert code == 0
    assert "fair: fails" in out
    assert page.stat().st_size > 1000


def test_audit_when_nothing_runs(run: Run, slurm_commands: Path) -> None:
    fake(slurm_commands, "squeue", json.dumps({"jobs": [job(2, "ann")]}))
    assert run("audit", "--require", "fair") == (0, "nothing runs, so there is nothing to audit\n",
                                                 "")  # fmt: skip
    assert check_output("slurm-audit", run("audit", "--json")[1])["findings"] == []


@pytest.mark.parametrize("verb", [("status",), ("why", "1"), ("audit",)])
def test_what_is_wrong_is_one_line(run: Run, slurm_commands: Path, verb: tuple[str, ...]) -> None:
    def complaint(code: int, *arguments: object) -> str:
        found, out, err = run(*verb, *arguments)
        assert (found, out) == (code, "")
        assert err.startswith("drfh: ")
        assert err.count("\n") == 1
        return err

    weights = slurm_commands / "weights.yaml"
    weights.write_text("ann: 2\nbob: -1\n")
    wrong = complaint(2, "--weights", weights)
    assert f"{weights}, line 2: bob must be" in wrong
    assert "must exist" in complaint(2, "--weights", slurm_commands / "nothing.yaml")
    assert "--user-by must be one of account, partition, user" in complaint(
        2, "--user-by", "acount"
    )
    assert "did you mean best-fit-drfh?" in complaint(2, "--policy", "best-fit-drf")
    fake(slurm_commands, "squeue", "slurm_load_jobs error: nothing here")
    assert "squeue: its answer is not JSON" in complaint(1)
    fake(slurm_commands, "sinfo", json.dumps({"nodes": 7}))
    assert "sinfo: its answer has no list of nodes" in complaint(1)
    (slurm_commands / "scontrol").write_text(
        "#!/bin/sh\necho 'Unable to contact slurm controller' >&2\nexit 1\n"
    )
    assert "scontrol: Unable to contact slurm controller" in complaint(1)
    (slurm_commands / "scontrol").unlink()
    assert "scontrol is not installed, or not in PATH" in complaint(1)


def test_watch_in_a_pipe(run: Run, slurm_commands: Path) -> None:
    code, out, err = run("status", "--watch", "0", "--count", "3", "--json")
    assert (code, err) == (0, "")
    lines = [check_output("slurm-status", line) for line in out.splitlines()]
    assert [line["cluster"] for line in lines] == ["tiny"] * 3
    code, out, _ = run("status", "--watch", "0", "--count", "2")
    assert code == 0
    assert out.count("3 jobs run, ") == 2
    assert "\x1b" not in out
    for arguments in (("3",), ("--count", "3"), ("-1", "--watch"), ("--watch", "nan")):
        assert run("status", *arguments)[0] == 2


def test_watch_goes_on_when_slurmctld_is_away(
    run: Run, slurm_commands: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    down = iter([True, False, True])

    def away(seconds: float) -> None:
        fake(slurm_commands, "squeue", json.dumps({"jobs": JOBS}) if not next(down) else "down")

    monkeypatch.setattr(cluster_status, "_pause", away)
    arguments = ("status", "--watch", "--count", "3")
    code, out, _ = run(*arguments, "--json")
    lines = [check_output("slurm-status", line) for line in out.splitlines()]
    assert code == 0
    assert "its answer is not JSON" in lines[1]["error"]
    assert "users" in lines[2]
    fake(slurm_commands, "squeue", json.dumps({"jobs": JOBS}))
    down = iter([True, False, True])
    code, out, _ = run(*arguments)
    assert code == 0
    assert re.search(r"\d\d:\d\d:\d\d: squeue: its answer is not JSON", out)
    assert out.count("3 jobs run, ") == 2
    fake(slurm_commands, "squeue", "down")
    down = iter([True, True, True])
    code, out, err = run(*arguments)  # there was nothing to begin with
    assert (code, out) == (1, "")
    assert "its answer is not JSON" in err


def test_watch_ends_with_ctrl_c(
    run: Run, slurm_commands: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(seconds: float) -> None:
        assert seconds == 7.5
        raise KeyboardInterrupt

    monkeypatch.setattr(cluster_status, "_pause", pressed)
    code, out, err = run("status", "--watch", "7.5")
    assert (code, err) == (0, "")
    assert "3 jobs run, " in out


def on_a_terminal(
    slurm_commands: Path, *arguments: str, rows: int = 30, columns: int = 80, until: bytes = b""
) -> tuple[int, str]:
    """Run a command on a terminal of its own; press Ctrl-C when it has shown `until`."""
    environment = {**os.environ, "PATH": str(slurm_commands), "TERM": "xterm-256color",
                   "COLUMNS": str(columns), "LINES": str(rows), "PYTHONPATH": os.pathsep.join(
                       [str(Path(drfh.__file__).parent.parent), *sys.path])}  # fmt: skip
    environment.pop("NO_COLOR", None)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "drfh", "slurm", *arguments],
        stdin=theirs, stdout=theirs, stderr=theirs, env=environment,
    )  # fmt: skip
    os.close(theirs)
    output, pressed, end = b"", False, time.monotonic() + 60
    while time.monotonic() < end:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                output += os.read(ours, 65_536)
            except OSError:  # the other side is closed
                break
        elif process.poll() is not None:
            break
        if until and not pressed and output.count(until) >= 2:
            process.send_signal(signal.SIGINT)
            pressed = True
    os.close(ours)
    return process.wait(10), output.decode()


def test_watch_on_a_terminal(slurm_commands: Path) -> None:
    code, text = on_a_terminal(
        slurm_commands, "status", "--watch", "0.05", until=b"fullest resource"
    )
    assert code == 0
    assert "Traceback" not in text
    assert text.count("\x1b[?1049h") == text.count("\x1b[?1049l") == 1  # a screen, and back
    assert "\x1b[2J" not in text.partition("fullest resource")[2]  # drawn over, never wiped
    assert "ann" in text


def test_users_fill_the_height_of_a_terminal(slurm_commands: Path) -> None:
    entries = [job(number, f"user{number:02}") for number in range(1, 41)]
    fake(slurm_commands, "squeue", json.dumps({"jobs": entries}))
    arguments = ("status", "--watch", "0", "--count", "1")
    shown = {}
    for rows in (24, 40, 80):
        code, text = on_a_terminal(slurm_commands, *arguments, rows=rows)
        assert code == 0
        assert "fullest resource" in text  # the end is not cut off
        shown[rows] = len(set(re.findall(r"user\d\d", text)))
    assert 4 <= shown[24] < shown[40] < shown[80] == 40


def test_why_on_a_terminal_breaks_at_blanks(slurm_commands: Path) -> None:
    code, text = on_a_terminal(slurm_commands, "why", "8", "--partition", "main", columns=50)
    assert code == 0
    lines = text.split("\r\n")
    assert max(map(len, lines)) <= 50
    assert " ".join(" ".join(lines).split()) == (
        "job 8 of dan is left to Slurm's own scheduler: drfh does not manage the partition other "
        "(Slurm says: Priority)."
    )


# A real Slurm


def settled(slurm: Sandbox, rounds: int = 6) -> None:
    controller = SlurmController(
        Slurm(slurm.environment), SlurmConfig(partitions=("main",)), SchedulerCache()
    )
    for _ in range(rounds):
        controller.cycle()
        time.sleep(0.2)


def test_a_real_cluster(quiet_slurm: Sandbox, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = quiet_slurm
    for name in ("SLURM_CONF", "PATH"):
        monkeypatch.setenv(name, slurm.environment[name])
    monkeypatch.setenv("DRFH_SLURM_PARTITIONS", "main")
    first = slurm.submit("sleep 300", user="games", cpus=2)
    after = slurm.submit("sleep 1", f"--dependency=afterok:{first}", user="games")
    array = slurm.submit("sleep 300", "--array=0-19%8", user="mail")
    large = slurm.submit("sleep 300", "--array=0-39", user="news", cpus=8)
    never = slurm.submit("sleep 300", "--gres=accel:9", user="news", cpus=8)
    held = slurm.submit("sleep 300", "--hold", user="daemon")
    other = slurm.submit("sleep 300", "--partition=other", "--begin=now+1hour", user="daemon")
    slurm.run("scontrol", "update", "NodeName=n3", "State=DRAIN", "Reason=test")
    settled(slurm)
    slurm.wait(lambda: " PD " not in slurm.run("squeue", "--format=%r %t ", "--noheader")
               .replace("JobHeldUser PD ", "").replace("Dependency PD ", "")
               .replace("BeginTime PD ", ""), 30, "released jobs to start")  # fmt: skip
    code, out, err = run("status", "--json")
    assert (code, err) == (0, "")
    data = json.loads(out)
    users = {user["name"]: user for user in data["users"]}
    assert (users["games"]["running"], users["games"]["aside"]) == (
        1, {"waits for another job": 1},
    )  # fmt: skip
    assert users["mail"]["running"] == 8
    assert users["mail"]["aside"] == {"its array runs at most 8 at once": 12}
    assert users["news"]["never"] == 1
    assert users["news"]["running"] + users["news"]["waiting"] == 40
    assert users["news"]["running"] >= 8
    assert users["daemon"]["aside"] == {"held by its owner": 1}
    assert data["outside"] == {"drfh does not manage the partition other": 1}
    assert {node["name"]: node["state"] for node in data["nodes"]}["n3"] == "closing"
    assert data["broken"] == []
    assert all(part["used"] <= part["capacity"] for part in data["totals"].values())
    texts = {name: run("why", name)[1] for name in
             (first, after, array, f"{array}_3", large, never, held, other)}  # fmt: skip
    assert f"job {first} of games runs on n" in texts[first]
    assert f"job {after} of games waits for another job (afterok:{first}" in texts[after]
    assert f"array {array} of mail has 20 tasks left: 8 run, 12 are set aside." in texts[array]
    assert f"job {array}_3 of mail runs on n" in texts[f"{array}_3"]
    assert " of news waits: it needs 8 cpu" in texts[large]
    assert "never runs: it needs 9 gres/accel, and no server" in texts[never]
    assert texts[held] == f"job {held} of daemon waits: held by its owner.\n"
    assert "is left to Slurm's own scheduler: drfh does not manage" in texts[other]
    code, out, _ = run("audit", "--require", "feasible")
    assert code == 0
    assert "✔   feasible" in out
    code, out, _ = run("status")
    assert code == 0
    assert "16 nodes: 15 up, 1 takes nothing new" in out
