"""One controller per cluster, with real processes."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import drfh
from drfh.engines.lock import ControllerLock, is_running
from drfh.errors import InputError

# A controller: takes the lock, says so, and stays until its standard input ends.
CONTROLLER = """
import sys
from drfh.engines.lock import ControllerLock
lock = ControllerLock(sys.argv[1]).acquire({"policy": "best-fit-drfh"})
print("inside", flush=True)
sys.stdin.read()
lock.release()
"""

# One with a command that outlives it; the command is given the descriptor, or not.
WITH_COMMAND = """
import subprocess, sys
from drfh.engines.lock import ControllerLock
lock = ControllerLock(sys.argv[1]).acquire({})
command = subprocess.Popen(
    ["sleep", "600"],
    stdout=subprocess.DEVNULL,
    stderr=subprocess.DEVNULL,
    pass_fds=(lock.fd,) if sys.argv[2] == "given" else (),
)
print(command.pid, flush=True)
sys.stdin.read()
lock.release()
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "drfh.lock"


@pytest.fixture
def start() -> Iterator[Start]:
    """Start Python processes, which are ended in the end."""
    started: list[subprocess.Popen[str]] = []
    source = str(Path(drfh.__file__).parent.parent)

    def begin(code: str, *arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": source},
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                stream.close()


@pytest.fixture
def commands() -> Iterator[list[int]]:
    """Collect process ids of commands, which are ended in the end."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        end(pid)


def end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def leave(process: subprocess.Popen[str]) -> None:
    process.communicate()  # closes its standard input
    assert process.returncode == 0


def never(seconds: float) -> None:
    pytest.fail("waited")


# In one process


def test_who_runs_is_written_down(path: Path) -> None:
    lock = ControllerLock(path)
    assert lock.acquire({"policy": "best-fit-drfh", "pid": -1, "ports": [1, 2]}) is lock
    found = ControllerLock.read(path)
    assert found is not None
    assert (found["policy"], found["ports"]) == ("best-fit-drfh", [1, 2])
    assert (found["pid"], found["host"]) == (os.getpid(), socket.gethostname())
    assert datetime.fromisoformat(found["started"]).tzinfo is not None
    assert is_running(found) is True
    assert path.read_text() == json.dumps(found) + "\n"
    lock.release()
    assert path.read_bytes() == b""
    assert ControllerLock.read(path) is None


def test_longer_text_of_the_last_one_leaves_no_trace(path: Path) -> None:
    path.write_text("x" * 5000)
    with ControllerLock(path).acquire({}):
        assert ControllerLock.read(path) is not None


def test_the_file_stays_and_can_be_read_by_all(path: Path) -> None:
    before = os.umask(0o077)
    try:
        with ControllerLock(path).acquire({}):
            number = path.stat().st_ino
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o644
    path.chmod(0o600)
    with ControllerLock(path).acquire({}):
        assert path.stat().st_ino == number
        assert path.stat().st_mode & 0o777 == 0o600  # what an administrator chose stays


def test_a_lock_that_is_given_back_can_be_taken_again(path: Path) -> None:
    lock = ControllerLock(str(path))
    for _ in range(3):
        with lock.acquire({}):
            assert os.fstat(lock.fd).st_ino == path.stat().st_ino
            assert not os.get_inheritable(lock.fd)
        lock.release()
        with pytest.raises(InputError, match="controller must hold its lock before it starts"):
            _ = lock.fd


def test_twice_in_one_process_is_once_too_often(path: Path) -> None:
    lock = ControllerLock(path)
    with lock.acquire({}):
        for other in (lock, ControllerLock(path)):
            with pytest.raises(InputError, match=f"process {os.getpid()} on host"):
                other.acquire({})
        lock.check()
        assert ControllerLock.read(path) is not None


def test_no_descriptor_is_left_open(path: Path) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = descriptors()
    with ControllerLock(path).acquire({}):
        assert descriptors() == before + 1
        for _ in range(5):
            with pytest.raises(InputError):
                ControllerLock(path).acquire({})
            ControllerLock.read(path)
        assert descriptors() == before + 1
    with pytest.raises(TypeError):
        ControllerLock(path).acquire({"policy": object()})
    assert descriptors() == before


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b"{",
        b'{"pid": 1, "host": "x", "started": "now"',
        b'{"pid": "1", "host": "x", "started": "now"}',
        b'{"pid": 0, "host": "x", "started": "now"}',
        b'{"pid": 1}',
        b"[]",
        b"null",
        b"\xff\xfe",
        b"\x00" * 100,
        b"[" * 100_000,
    ],
)
def test_text_that_says_nothing_is_nothing(path: Path, text: bytes) -> None:
    path.write_bytes(text)
    assert ControllerLock.read(path) is None
    with ControllerLock(path).acquire({}):
        assert ControllerLock.read(path) is not None


def test_a_file_that_is_not_there_says_nothing(path: Path) -> None:
    assert ControllerLock.read(path) is None
    path.write_text("")
    assert ControllerLock.read(path / "below") is None


def test_a_file_that_was_removed_is_noticed(path: Path) -> None:
    with ControllerLock(path).acquire({}) as first:
        first.check()
        path.unlink()
        with pytest.raises(InputError, match="controller must stop: its lock was removed or repl"):
            first.check()
        with ControllerLock(path).acquire({}) as second:
            second.check()
            with pytest.raises(InputError, match="must stop"):
                first.check()


def test_a_file_that_is_removed_while_it_is_being_locked_is_not_the_lock(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fcntl.flock
    removed: list[int] = []

    def flock(fd: int, how: int) -> None:
        if not removed:
            removed.append(path.stat().st_ino)
            path.rename(path.with_suffix(".old"))
        real(fd, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with ControllerLock(path).acquire({}) as lock:
        assert os.fstat(lock.fd).st_ino == path.stat().st_ino != removed[0]


# Files that cannot be a lock


def refused(path: Path) -> str:
    with pytest.raises(InputError) as raised:
        ControllerLock(path, "run it elsewhere").acquire({})
    assert raised.value.__cause__ is None
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "spool" / "drfh.lock"
    assert refused(path) == (
        f"{path}: controller must be able to lock this file (No such file or directory): "
        "run it elsewhere"
    )
    assert not path.parent.exists()


def test_a_folder_that_is_none(path: Path) -> None:
    path.write_text("")
    assert "(Not a directory): run it elsewhere" in refused(path / "drfh.lock")


def test_a_folder_that_may_not_be_written_to(path: Path, start: Start) -> None:
    path.parent.chmod(0o555)
    process = start(
        """
import os, sys
from drfh.engines.lock import ControllerLock
from drfh.errors import InputError
if os.geteuid() == 0:
    os.seteuid(65534)
try:
    ControllerLock(sys.argv[1]).acquire({})
except InputError as error:
    print(error)
""",
        path,
    )
    out, err = process.communicate()
    path.parent.chmod(0o755)
    assert (out.strip(), err) == (
        f"{path}: controller must be able to lock this file (Permission denied)",
        "",
    )


def test_no_link_is_followed(tmp_path: Path, path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("keep")
    path.symlink_to(secret)
    assert "controller must be able to lock this file (" in refused(path)
    assert secret.read_text() == "keep"


def test_what_is_no_file_is_no_lock(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "controller must have a regular file as its lock" in refused(tmp_path / "pipe")
    assert "(Is a directory)" in refused(tmp_path)
    assert ControllerLock.read(tmp_path / "pipe") is None


def test_a_file_system_without_locks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(fd: int, how: int) -> None:
        raise OSError(37, os.strerror(37))

    monkeypatch.setattr(fcntl, "flock", flock)
    assert "must be able to lock this file (No locks available)" in refused(path)


# Other processes


def test_the_second_is_refused_at_once_and_told_of_the_first(
    path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", never)
    first = start(CONTROLLER, path)
    assert line(first) == "inside"
    found = ControllerLock.read(path)
    assert found is not None
    assert (found["pid"], found["policy"], is_running(found)) == (first.pid, "best-fit-drfh", True)
    assert refused(path) == (
        f"{path}: controller must be the only one for this cluster (process {first.pid} "
        f"on host {socket.gethostname()} runs since {found['started']})"
    )
    assert ControllerLock.read(path) == found  # nothing of the first is lost
    leave(first)
    with ControllerLock(path).acquire({}):
        pass


def test_after_a_kill_the_next_one_takes_it(
    path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", never)
    first = start(CONTROLLER, path)
    assert line(first) == "inside"
    first.kill()
    first.wait()
    left = ControllerLock.read(path)
    assert left is not None
    assert is_running(left) is False
    with ControllerLock(path).acquire({}, timeout=0):
        found = ControllerLock.read(path)
        assert found is not None
        assert found["pid"] == os.getpid()


def killed_with_a_command(
    path: Path, start: Start, commands: list[int], how: str
) -> subprocess.Popen[str]:
    first = start(WITH_COMMAND, path, how)
    commands.append(int(line(first)))
    first.kill()
    return first


def test_a_command_that_was_left_behind_is_waited_for(
    path: Path,
    start: Start,
    commands: list[int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = killed_with_a_command(path, start, commands, "given")
    first.wait()
    pid = first.pid
    why = f"process {pid} on host {socket.gethostname()} has ended, but a command that it started"
    with pytest.raises(InputError, match=re.escape(f"only one for this cluster ({why} has not)")):
        ControllerLock(path).acquire({}, timeout=0)
    real, pauses = time.sleep, []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            end(commands[0])
        real(seconds)

    monkeypatch.setattr(time, "sleep", sleep)
    with caplog.at_level("INFO"), ControllerLock(path).acquire({}, timeout=60):
        assert len(pauses) >= 3
        assert caplog.messages == [f"lock awaited seconds=60 reason={why} has not"]


def test_patience_ends(path: Path, start: Start, commands: list[int]) -> None:
    killed_with_a_command(path, start, commands, "given").wait()
    with pytest.raises(InputError, match="has ended, but a command that it started has not"):
        ControllerLock(path).acquire({}, timeout=0.2)
    os.kill(commands[0], 0)  # nothing was done to the command


def test_a_command_that_was_not_given_the_lock_does_not_hold_it(
    path: Path, start: Start, commands: list[int]
) -> None:
    killed_with_a_command(path, start, commands, "not").wait()
    with ControllerLock(path).acquire({}, timeout=0):
        os.kill(commands[0], 0)


def test_one_that_was_killed_and_not_yet_buried_does_not_live(
    path: Path, start: Start, commands: list[int]
) -> None:
    first = killed_with_a_command(path, start, commands, "given")
    os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is a zombie
    with pytest.raises(InputError, match="has ended, but a command that it started has not"):
        ControllerLock(path).acquire({}, timeout=0)
    found = ControllerLock.read(path)
    assert found is not None
    assert is_running(found) is False


def test_a_command_keeps_the_lock_when_its_controller_gives_it_back(
    path: Path, start: Start, commands: list[int]
) -> None:
    first = start(WITH_COMMAND, path, "given")
    commands.append(int(line(first)))
    first.stdin.close()  # type: ignore[union-attr]
    assert first.wait() == 0
    assert ControllerLock.read(path) is None
    with pytest.raises(InputError, match="a process that has not said who it is holds the lock"):
        ControllerLock(path).acquire({}, timeout=0)
    end(commands[0])
    with ControllerLock(path).acquire({}, timeout=60):
        pass


def test_the_first_of_two_that_wait_sends_the_second_away(
    path: Path,
    start: Start,
    commands: list[int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    killed_with_a_command(path, start, commands, "given").wait()
    results: list[Any] = []
    waiting = threading.Barrier(3)
    logger = logging.getLogger("drfh.engines.lock")
    # Both have logged that they wait before the command ends.
    caplog.set_level(logging.INFO, logger.name)
    monkeypatch.setattr(logger, "filters", [lambda record: waiting.wait(60) >= 0])

    def wait() -> None:
        lock = ControllerLock(path)
        try:
            lock.acquire({}, timeout=60)
        except InputError as error:
            results.append(error)
        else:
            results.append(lock)

    threads = [threading.Thread(target=wait) for _ in range(2)]
    for thread in threads:
        thread.start()
    waiting.wait(60)
    end(commands[0])
    for thread in threads:
        thread.join()
    errors = [str(result) for result in results if isinstance(result, InputError)]
    (winner,) = [result for result in results if isinstance(result, ControllerLock)]
    winner.release()
    assert len(errors) == 1
    assert f"(process {os.getpid()} on host" in errors[0]


def test_one_on_another_host_is_not_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ControllerLock(path).acquire({}):
        facts = {"pid": 2**22 + 1, "host": "elsewhere", "started": "2026-01-01T00:00:00+00:00"}
        path.write_text(json.dumps(facts))
        monkeypatch.setattr(time, "sleep", never)
        assert is_running(facts) is None
        assert "(process 4194305 on host elsewhere runs since 2026-01-01T00:00" in refused(path)


def test_a_later_process_with_the_same_number_is_another() -> None:
    facts = {"pid": os.getpid(), "host": socket.gethostname()}
    assert is_running(facts) is True
    assert is_running(facts | {"birth": None}) is True
    assert is_running(facts | {"birth": "1"}) is False
    assert is_running(facts | {"pid": 2**70}) is False


def test_no_two_processes_share_a_birth(path: Path) -> None:
    with ControllerLock(path).acquire({}):
        own = ControllerLock.read(path)
    assert own is not None
    assert int(own["birth"]) > 0
    assert is_running(own | {"pid": 1, "birth": None}) is True
    assert is_running(own | {"pid": 1}) is False


HAMMER = """
import os, random, sys
from drfh.engines.lock import ControllerLock
from drfh.errors import InputError
path, counter, marker, rounds = *sys.argv[1:4], int(sys.argv[4])
random.seed(os.getpid())
done = refusals = 0
while done < rounds:
    lock = ControllerLock(path)
    try:
        lock.acquire({"round": done, "padding": "x" * random.randrange(3000)}, timeout=60)
    except InputError as error:
        assert "must be the only one" in str(error), error
        refusals += 1
        continue
    os.close(os.open(marker, os.O_CREAT | os.O_EXCL))  # fails if another is inside
    with open(counter, "r+") as file:
        count = int(file.read())
        file.seek(0)
        file.write(str(count + 1))
    found = ControllerLock.read(path)
    assert found["pid"] == os.getpid() and found["round"] == done, found
    lock.check()
    os.unlink(marker)
    done += 1
    lock.release()
print(done, refusals)
"""


def test_eight_that_fight_for_it_are_never_two_inside(tmp_path: Path, start: Start) -> None:
    path, counter, rounds = tmp_path / "drfh.lock", tmp_path / "counter", 300
    counter.write_text("0")
    arguments = (path, counter, tmp_path / "inside", rounds)
    fighters = [start(HAMMER, *arguments) for _ in range(8)]
    seen = 0
    while any(fighter.poll() is None for fighter in fighters):
        found = ControllerLock.read(path)  # half a text would be no JSON, or not end as it should
        if found is not None:
            seen += 1
            assert set(found["padding"]) <= {"x"}
            assert {"pid", "host", "started", "birth", "round", "padding"} == set(found)
    for fighter in fighters:
        out, err = fighter.communicate()
        assert err == ""
        assert out.split()[0] == str(rounds)
    assert int(counter.read_text()) == 8 * rounds
    assert seen


# Killed while inside, again and again: what counts is that the file of the last one is whole.
MORTAL = """
import os, signal, sys
from drfh.engines.lock import ControllerLock
from drfh.errors import InputError
path, counter = sys.argv[1:]
while True:
    try:
        lock = ControllerLock(path).acquire({}, timeout=60)
        break
    except InputError:
        pass
with open(counter, "r+") as file:
    count = int(file.read())
    file.seek(0)
    file.write(str(count + 1))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_those_that_die_inside_hand_it_on(tmp_path: Path, start: Start) -> None:
    path, counter = tmp_path / "drfh.lock", tmp_path / "counter"
    counter.write_text("0")
    mortals = [start(MORTAL, path, counter) for _ in range(8)]
    for mortal in mortals:
        _, err = mortal.communicate()
        assert (mortal.returncode, err) == (-signal.SIGKILL, "")
    assert counter.read_text() == "8"
    with ControllerLock(path).acquire({}, timeout=0):
        pass
