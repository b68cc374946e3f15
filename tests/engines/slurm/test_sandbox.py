"""The cluster of the tests itself: it keeps to loopback, survives accidents and leaves nothing."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from drfh.engines.slurm import sandbox as module
from drfh.engines.slurm.sandbox import Sandbox, SandboxNode, missing
from drfh.errors import DrfhError
from tests.engines.slurm.cluster import job, living, slurm_cluster

SMALL = [SandboxNode("n0", 4, 4096), SandboxNode("n1", 2, 8192)]


@pytest.fixture
def small() -> Iterator[Sandbox]:
    with slurm_cluster(SMALL, script="") as sandbox:
        yield sandbox


@pytest.fixture
def place() -> Iterator[Path]:
    if missing():
        pytest.skip(f"a real Slurm {missing()} (make slurm)")
    with tempfile.TemporaryDirectory(prefix="drfh-slurm-") as directory:
        yield Path(directory)


def processes(sandbox: Sandbox) -> set[int]:
    """Return all that belongs to a cluster: by environment, by command line, or below such one."""
    words = str(sandbox.directory).encode()
    parents, found = {}, set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):
            stat = (entry / "stat").read_text().rpartition(")")[2].split()
            if stat[0] == "Z":  # it is over; its parent has not asked yet
                continue
            parents[int(entry.name)] = int(stat[1])
            if words in (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes():
                found.add(int(entry.name))
    while below := {child for child, parent in parents.items() if parent in found} - found:
        found |= below
    return found


def local_addresses(numbers: set[int]) -> list[str]:
    """Return the local ends of all their sockets of the internet: an address and a state each."""
    inodes = set()
    for number in numbers:
        with suppress(OSError):
            for entry in Path(f"/proc/{number}/fd").iterdir():
                with suppress(OSError):
                    inodes.update(re.findall(r"socket:\[(\d+)\]", os.readlink(entry)))
    found = []
    for protocol in ("tcp", "tcp6", "udp", "udp6", "raw", "raw6"):
        table = Path("/proc/net") / protocol
        for line in table.read_text().splitlines()[1:] if table.exists() else []:
            fields = line.split()
            if fields[9] in inodes:
                address, port = fields[1].split(":")
                if len(address) == 8:
                    address = socket.inet_ntoa(int(address, 16).to_bytes(4, "little"))
                found.append(f"{protocol} {address}:{int(port, 16)} {fields[3]}")
    return found


def test_it_listens_on_loopback_only(slurm: Sandbox) -> None:
    number = slurm.submit("sleep 60", "--partition=other", user="games")
    slurm.wait(lambda: job(slurm, number)["job_state"] == "RUNNING", 30, "the job")
    found = local_addresses(processes(slurm))
    listening = [line for line in found if line.endswith(" 0A")]
    assert len(listening) >= 1 + len(slurm.nodes)
    assert all(line.startswith("tcp 127.0.0.1:") for line in found), found
    slurm.run("scancel", number)


def test_stop_leaves_no_process() -> None:
    with slurm_cluster(SMALL, script="") as sandbox:
        # A job with children, one of which has thrown away what would tell whose it is.
        numbers = [
            sandbox.submit("sleep 600 & sleep 600", user="games"),
            sandbox.submit("env --ignore-environment sleep 600 & sleep 600", user="mail"),
            sandbox.submit("srun sleep 600"),
        ]
        sandbox.wait(
            lambda: sum(b"sleep" in command(p) for p in processes(sandbox)) >= 5, 30, "the jobs"
        )
        assert [job(sandbox, n)["job_state"] for n in numbers] == ["RUNNING"] * 3
        # What a person does with the cluster is not the cluster's.
        person = subprocess.Popen(["sleep", "600"], env=sandbox.environment)
        everything = processes(sandbox)
        assert {sandbox.pid("slurmctld"), sandbox.pid("n1"), person.pid} < everything
        sandbox.stop()
        assert processes(sandbox) == {person.pid}
        assert all(command(number) == b"" for number in everything - {person.pid})
        person.kill()
        person.wait()


def command(number: int) -> bytes:
    """Return the command line of a process: empty if it is over."""
    try:
        return Path(f"/proc/{number}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_restart_of_the_controller_keeps_jobs(small: Sandbox) -> None:
    runs = small.submit("sleep 600", cpus=2, user="games")
    waiting = small.submit("sleep 600", "--hold", user="mail", account="physics", memory=77)
    small.wait(lambda: job(small, runs)["job_state"] == "RUNNING", 30, "the job")
    small.kill("slurmctld", signal.SIGTERM)
    assert not small.alive("slurmctld")
    small.start_controller()
    assert job(small, runs)["job_state"] == "RUNNING"
    found = job(small, waiting)
    assert (found["job_state"], found["user_name"], found["account"]) == (
        "PENDING",
        "mail",
        "physics",
    )
    assert found["memory_per_node"] == 77


def test_a_killed_node_comes_back(small: Sandbox) -> None:
    small.kill("n1")
    assert not small.alive("n1")
    assert small.alive("n0")
    small.start_node("n1")
    number = small.submit("true", "--nodelist=n1", user="news")
    small.wait(lambda: number not in living(small), 30, "the job")
    small.wait(lambda: len(small.completed()) == 1, 10, "the log of completed jobs")
    assert small.completed()[0] | {"JobId": number} == small.completed()[0]
    assert (small.completed()[0]["NodeList"], small.completed()[0]["JobState"]) == (
        "n1",
        "COMPLETED",
    )


def test_jobs_run_as_their_users(small: Sandbox) -> None:
    output = small.directory / "spool" / "who"
    output.touch()
    output.chmod(0o666)
    number = small.submit(f"id -un >{output}; id -Gn >>{output}", user="games")
    small.wait(lambda: number not in living(small), 30, "the job")
    assert output.read_text().split() == ["games", "games"]


@pytest.fixture
def stealing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, int], list[int]]]:
    """Return what makes a stranger bind a port just after a sandbox has chosen it."""
    search = module._free_ports
    with ExitStack() as strangers:

        def steal(which: int, times: int) -> list[int]:
            stolen: list[int] = []

            def found(number: int) -> tuple[list[int], list[socket.socket]]:
                ports, claims = search(number)
                if len(stolen) < times:
                    stranger = strangers.enter_context(socket.socket())
                    stranger.bind(("127.0.0.1", ports[which]))
                    stolen.append(ports[which])
                return ports, claims

            monkeypatch.setattr(module, "_free_ports", found)
            return stolen

        yield steal


@pytest.mark.parametrize("which", [0, 2], ids=["slurmctld", "slurmd"])
def test_a_port_that_somebody_takes_first(
    place: Path, stealing: Callable[[int, int], list[int]], which: int
) -> None:
    stolen = stealing(which, 2)
    with Sandbox(place, SMALL) as sandbox:
        assert len(stolen) == 2
        assert not set(stolen) & set(sandbox._ports)
        number = sandbox.submit("true", user="games")
        sandbox.wait(lambda: number not in living(sandbox), 30, "the job")


def test_when_every_port_is_taken(place: Path, stealing: Callable[[int, int], list[int]]) -> None:
    stolen = stealing(0, 99)
    sandbox = Sandbox(place, SMALL)
    with pytest.raises(DrfhError, match=r"^slurmctld ended: .*Address already in use$"):
        sandbox.start()
    assert len(stolen) == 5
    assert not processes(sandbox)


def test_sandboxes_claim_their_ports() -> None:
    first, claims = module._free_ports(3)
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:  # everybody looks at the same place
        patch.setattr(module, "_SPARE_PORTS", range(first[0], first[0] + 201))
        patch.setattr(secrets, "randbelow", lambda number: 0)
        second, more = module._free_ports(3)
        assert not set(first) & set(second)
        for claim in claims + more:
            claim.close()
        third, again = module._free_ports(3)
        assert third == first
    for claim in again:
        claim.close()


def test_what_a_sandbox_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "PROGRAMS", ("sh", "slurmlord", "slurmslave"))
    assert missing() == "needs Slurm's programs; not installed: slurmlord, slurmslave"
    with pytest.raises(DrfhError, match="on this machine needs Slurm's programs"):
        Sandbox(tmp_path, SMALL).start()
    monkeypatch.setattr(module, "PROGRAMS", ("sh",))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert missing() == "needs root, to run jobs of several users"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert missing() is None
    assert shutil.which("sh")
