"""The controller is killed again and again on a busy cluster: all jobs run, each once."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from drfh.engines.slurm.sandbox import Sandbox
from tests.engines.slurm.cluster import MANAGED, living
from tests.engines.slurm.driver import Driver, Faults, overfull

USERS = ("games", "mail", "news")
RUN_COMMAND = ("slurm", "run", "--partition", MANAGED, "--interval", "0.1")

# One process has imported everything, and makes a controller by fork whenever it is told to: as
# `python -m drfh slurm run`, but ready at once, so that a kill meets all that a controller does.
LAUNCHER = """
import os, sys
from drfh.cli import main
from drfh.cli.slurm import run
from drfh.engines import cache, lock, metrics, service, weights
from drfh.engines.journal import writer
from drfh.engines.slurm import controller
print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        os.dup2(os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT), 1)
        os.dup2(1, 2)
        os._exit(main(line.split()))
    print(child, flush=True)
    sys.stdin.readline()  # until then its number is nobody else's
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Launcher:
    """Starts controllers, and says how they ended."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.typed: IO[str] = process.stdin
        self.replies: IO[str] = process.stdout
        self.log = log
        assert self._line() == "ready"

    def start(self, *arguments: str) -> int:
        """Start a controller and return its process id."""
        print(*RUN_COMMAND, *arguments, file=self.typed, flush=True)
        return int(self._line())

    def ended(self) -> int:
        """Wait until it has ended, and return its exit code, below 0 for a signal."""
        print(file=self.typed, flush=True)
        return int(self._line())

    def _line(self) -> str:
        return self.replies.readline().strip()


@contextmanager
def launcher(environment: dict[str, str], log: Path) -> Iterator[Launcher]:
    arguments = [sys.executable, "-c", LAUNCHER, str(log)]
    with subprocess.Popen(
        arguments, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Launcher(process, log)
        finally:
            process.kill()


@pytest.fixture
def faults(quiet_slurm: Sandbox, tmp_path: Path) -> Faults:
    return Faults(tmp_path / "bin", quiet_slurm)


@pytest.fixture
def start(quiet_slurm: Sandbox, faults: Faults, tmp_path: Path) -> Iterator[Launcher]:
    with launcher(environment(faults.environment), tmp_path / "log") as found:
        yield found


def environment(given: dict[str, str]) -> dict[str, str]:
    return {**given, "PYTHONUNBUFFERED": "1", "OPENBLAS_NUM_THREADS": "1"}


def has_said(start: Launcher, text: str) -> bool:
    return start.log.exists() and text in start.log.read_text()


class Watcher:
    """Observes the cluster all the time, in a thread, for what must never be."""

    def __init__(self, sandbox: Sandbox, limits: dict[str, int]) -> None:
        self.sandbox, self.limits = sandbox, limits
        self.wrong: list[str] = []
        self.observations = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(0.3):
            try:
                self._look(self.sandbox.jobs())
            except Exception as error:  # told by the test
                self.wrong.append(repr(error))
            self.observations += 1

    def _look(self, jobs: list[dict[str, Any]]) -> None:
        self.wrong += overfull(self.sandbox, jobs)
        running = [job for job in jobs if job["job_state"] in ("RUNNING", "COMPLETING")]
        arrays = Counter(str(job["array_job_id"]) for job in running)
        for array, most in self.limits.items():
            if arrays[array] > most:
                self.wrong.append(f"{arrays[array]} tasks of array {array} at once")
        for job in running:
            if job["partition"] == MANAGED and f";pin={job['nodes']};" not in job["admin_comment"]:
                self.wrong.append(f"{job['job_id']} on {job['nodes']}: {job['admin_comment']}")


class Work:
    """Jobs of three users that come meanwhile; each writes a line when it runs."""

    def __init__(self, sandbox: Sandbox, seed: int) -> None:
        self.sandbox, self.chance = sandbox, random.Random(seed)
        self.file = sandbox.directory / f"ran-{seed}-{time.monotonic_ns()}"
        self.file.touch()
        self.file.chmod(0o666)
        self.allowed: dict[str, set[str]] = {}
        self.limits: dict[str, int] = {}
        self.held: list[tuple[str, str]] = []
        self._last = ""

    def submit(self) -> None:
        """Submit an array and one or two jobs, of any kind."""
        line = "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}"
        chance = self.chance
        for kind in ("array", chance.choice(("plain", "depends", "held")), "plain")[
            : chance.randint(2, 3)
        ]:
            options, nodes = chance.choice(RESTRICTIONS)
            arguments = list(options)
            # Somebody whose name sorts before the others' comes late.
            user = chance.choice(("daemon", *USERS) if len(self.allowed) > 100 else USERS)
            count, most = 4, chance.choice((0, 2))
            if kind == "array":
                arguments.append(f"--array=1-{count}" + (f"%{most}" if most else ""))
            elif kind == "depends" and self._last:
                arguments.append(f"--dependency=afterany:{self._last}")
            elif kind == "held":
                arguments.append("--hold")
            script = (
                f"echo {line} $SLURMD_NODENAME >>{self.file}; sleep {chance.random() * 0.6:.2f}"
            )
            cpus, memory = chance.choice(((1, 100), (2, 1000), (4, 3000)))
            name = self.sandbox.submit(script, *arguments, user=user, cpus=cpus, memory=memory)
            names = [f"{name}_{i}" for i in range(1, count + 1)] if kind == "array" else [name]
            self.allowed.update(dict.fromkeys(names, nodes))
            if kind == "array" and most:
                self.limits[name] = most
            if kind == "held":
                self.held.append((name, user))
            self._last = name

    def ran(self) -> list[tuple[str, str]]:
        """Return (job, node) for each time that a job ran."""
        lines = (line.split() for line in self.file.read_text().splitlines())
        return [(name, node) for name, node in lines]


EVERYWHERE = {f"n{i}" for i in range(16)}
RESTRICTIONS: Sequence[tuple[tuple[str, ...], set[str]]] = (
    ((), EVERYWHERE),
    ((), EVERYWHERE),
    (("--constraint=fast",), {f"n{i}" for i in range(8, 16)}),
    (("--exclude=n[0-9]",), {f"n{i}" for i in range(10, 16)}),
    (("--nodelist=n7",), {"n7"}),
    (("--gres=accel:1",), {f"n{i}" for i in range(12, 16)}),
)

# Every seventh scontrol or so meets with the end of the controller: before it has done anything,
# in the middle of its lines (and goes on to their end, or does not), or when all is done.
MURDER = """
case $(($(od -An -N2 -tu2 /dev/urandom) % 28)) in
0) kill -9 $PPID; exit 1 ;;
1) kill -9 $PPID ;;
2) head -n $(($(od -An -N1 -tu1 /dev/urandom) % 6)) | $real; kill -9 $PPID; exit 1 ;;
3) $real "$@"; kill -9 $PPID; exit 1 ;;
esac
"""


@pytest.mark.parametrize("kills", [8, pytest.param(300, marks=pytest.mark.slow)])
def test_killed_again_and_again(
    quiet_slurm: Sandbox, faults: Faults, start: Launcher, kills: int
) -> None:
    chance, work = random.Random(kills), Work(quiet_slurm, kills)
    faults.always("scontrol", MURDER)
    known = len(quiet_slurm.completed())
    codes: Counter[int] = Counter()
    with Watcher(quiet_slurm, work.limits) as watcher:
        while codes[-signal.SIGKILL] < kills:
            delay = chance.uniform(0.0, 0.6)
            pid, started = start.start(), time.monotonic()
            work.submit()
            time.sleep(max(delay - (time.monotonic() - started), 0.0))
            if chance.random() < 0.3:
                for name, user in work.held[::2]:
                    quiet_slurm.run("scontrol", "release", name, user=user, check=False)
            os.kill(pid, signal.SIGKILL)  # it may be dead already
            codes[start.ended()] += 1
        faults.always("scontrol", "")
        for name, user in work.held:
            quiet_slurm.run("scontrol", "release", name, user=user, check=False)
        pid = start.start()
        refused = second_controller(faults)
        quiet_slurm.wait(lambda: not living(quiet_slurm), 240, "all jobs to have run")
        os.kill(pid, signal.SIGTERM)
        assert start.ended() == 0
    story = start.log.read_text()
    assert set(codes) == {-signal.SIGKILL}, story[-2000:]
    # Commands may fail; nothing else may abort a cycle.
    assert set(re.findall(r"cycle aborted .*kind=(\w+)", story)) <= {"SlurmError"}
    assert "Traceback" not in story
    assert refused.returncode == 2
    assert "must be the only one for this cluster" in refused.stderr
    assert not watcher.wrong
    assert watcher.observations > 10
    ran = work.ran()
    assert Counter(name for name, _ in ran) == Counter(list(work.allowed)), "each once"
    assert all(node in work.allowed[name] for name, node in ran)
    completed = quiet_slurm.completed()[known:]
    assert len(completed) == len(work.allowed)
    assert {job["JobState"] for job in completed} == {"COMPLETED"}
    assert len({job["JobId"] for job in completed}) == len(completed)


def second_controller(faults: Faults) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "drfh", *RUN_COMMAND],
        env=environment(faults.environment),
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_stopped_controller_keeps_its_place(
    quiet_slurm: Sandbox, faults: Faults, start: Launcher
) -> None:
    pid = start.start()
    quiet_slurm.wait(lambda: has_said(start, "places jobs"), 30, "the controller")
    os.kill(pid, signal.SIGSTOP)
    name = quiet_slurm.submit("sleep 60", user="games")
    refused = second_controller(faults)
    assert (refused.returncode, "must be the only one" in refused.stderr) == (2, True)
    assert Driver(quiet_slurm).states(name) == ["PENDING"]
    os.kill(pid, signal.SIGCONT)
    quiet_slurm.wait(lambda: Driver(quiet_slurm).running(name), 30, "the job")
    os.kill(pid, signal.SIGKILL)
    assert start.ended() == -signal.SIGKILL


def test_the_next_controller_waits_for_the_commands_of_the_last(
    quiet_slurm: Sandbox, faults: Faults, start: Launcher, tmp_path: Path
) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    names = [quiet_slurm.submit("sleep 60", user=user) for user in USERS]
    # The release of a controller that is dead by then.
    wait = f"touch {begun}; until test -e {go}; do sleep 0.05; done"
    faults.plan("scontrol", "", "", wait)  # its configuration; pins; release
    first = start.start()
    quiet_slurm.wait(begun.exists, 30, "the release")
    os.kill(first, signal.SIGKILL)
    assert start.ended() == -signal.SIGKILL
    second = start.start()
    quiet_slurm.wait(lambda: has_said(start, "a command that it started has not"), 30, "waiting")
    ours = Driver(quiet_slurm)
    assert ours.states(*names) == ["PENDING"] * 3
    assert start.log.read_text().count("places jobs") == 1
    go.touch()
    quiet_slurm.wait(lambda: ours.running(*names), 30, "the jobs")
    quiet_slurm.wait(lambda: start.log.read_text().count("places jobs") == 2, 30, "the second")
    os.kill(second, signal.SIGTERM)
    assert start.ended() == 0


def test_scontrol_gets_no_half_line(tmp_path: Path) -> None:
    """Of a controller that is killed while scontrol reads, slowly."""
    got, fake = tmp_path / "got", tmp_path / "scontrol"
    fake.write_text(
        f"#!/bin/sh\ntouch {got}.begun\nsleep 0.5\ncat >{got}.part\nmv {got}.part {got}\n"
    )
    fake.chmod(0o755)
    code = (
        "from drfh.engines.slurm.client import Slurm\n"
        "Slurm().scontrol(f'release {n}' for n in range(1_000_000, 1_040_000))\n"
    )
    here = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with subprocess.Popen([sys.executable, "-c", code], env=here) as process:
        end = time.monotonic() + 30
        while not Path(f"{got}.begun").exists() and time.monotonic() < end:
            time.sleep(0.01)
        process.kill()
    while not got.exists() and time.monotonic() < end:
        time.sleep(0.01)
    lines = got.read_text().splitlines()
    assert lines[-1] == "quit"
    assert len(lines) == 40_001


def test_it_runs_on_when_nobody_listens(
    quiet_slurm: Sandbox, faults: Faults, tmp_path: Path
) -> None:
    """What it prints and logs has no reader any more: the terminal is closed, the disk is full."""
    arguments = [sys.executable, "-m", "drfh", *RUN_COMMAND, "--log-level", "debug"]
    reader, writer = os.pipe()
    with subprocess.Popen(
        arguments, env=environment(faults.environment), stdout=writer, stderr=writer
    ) as process:
        os.close(writer)
        os.read(reader, 10)
        os.close(reader)
        name = quiet_slurm.submit("sleep 60", user="games")
        ours = Driver(quiet_slurm)
        quiet_slurm.wait(lambda: ours.running(name), 30, "the job")
        second = quiet_slurm.submit("sleep 60", user="games")
        quiet_slurm.wait(lambda: ours.running(second), 30, "another job")
        assert process.poll() is None
        process.kill()
