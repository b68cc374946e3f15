"""A Slurm cluster on this machine: its own munged, slurmctld, and a slurmd for each node.

For the demonstration, the benchmark and the tests. Everything it starts listens on loopback and
keeps its files in one directory; :meth:`Sandbox.stop` ends what was started, by process id.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from drfh.errors import DrfhError

__all__ = ["PROGRAMS", "Sandbox", "SandboxNode", "missing"]

#: What must be installed (Debian: slurmctld slurmd slurm-client munge slurm-wlm-basic-plugins).
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "sinfo", "squeue", "scancel")
_SYSTEM = ("/usr/sbin", "/usr/local/sbin", "/sbin")
_SPARE_PORTS = range(20_000, 32_000)  # below what the kernel gives to outgoing connections
_GRACE = 3.0  # seconds that the daemons have to end
_TRIES = 5  # a port may be taken between the check and the daemon's bind


def missing() -> str | None:
    """Return why no sandbox can be started here, or None.

    Examples
    --------
    >>> reason = missing()
    >>> reason is None or reason.startswith("needs")
    True
    """
    absent = [name for name in PROGRAMS if _found(name) is None]
    if absent:
        return f"needs Slurm's programs; not installed: {', '.join(absent)}"
    if os.geteuid() != 0:
        return "needs root, to run jobs of several users"
    return None


def _found(program: str) -> str | None:
    return shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", ""), *_SYSTEM]))


@dataclass(frozen=True)
class SandboxNode:
    """A node: so many CPUs, so much memory (MiB), generic resources, features.

    Examples
    --------
    >>> SandboxNode("n0", 4, 4096, {"accel": 2}).gres
    {'accel': 2}
    """

    name: str
    cpus: int
    memory: int
    gres: Mapping[str, int] = field(default_factory=dict)
    features: Sequence[str] = ()


class Sandbox:
    """A Slurm cluster in a directory.

    Parameters
    ----------
    directory
        Where its files go; it must be new or empty.
    nodes
        Its nodes.
    partitions
        Names of nodes by partition, the first is the default; None: one partition of all, ``main``.
    settings
        More lines of slurm.conf, which win over those written here.
    plugin_source
        Text of ``job_submit.lua``; empty: no such plugin.

    Examples
    --------
    >>> sandbox = Sandbox(Path("/tmp/demo"), [SandboxNode("n0", 4, 4096)])
    >>> sandbox.environment["SLURM_CONF"]
    '/tmp/demo/slurm.conf'
    """

    def __init__(
        self,
        directory: Path,
        nodes: Sequence[SandboxNode],
        *,
        partitions: Mapping[str, Sequence[str]] | None = None,
        settings: Mapping[str, str] | None = None,
        plugin_source: str = "",
    ) -> None:
        self.directory = directory
        self.nodes = {node.name: node for node in nodes}
        self.partitions = dict(partitions or {"main": list(self.nodes)})
        self.settings = dict(settings or {})
        self.plugin_source = plugin_source
        self.environment = {
            **os.environ,
            "SLURM_CONF": str(directory / "slurm.conf"),
            "PATH": os.pathsep.join([os.environ.get("PATH", ""), *_SYSTEM]),
        }
        self._ports: list[int] = []
        self._claims: list[socket.socket] = []
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    # Start and stop

    def start(self, timeout: float = 60.0) -> Self:
        """Start everything, and return when all nodes are idle."""
        reason = missing()
        if reason is not None:
            raise DrfhError(f"a Slurm cluster on this machine {reason}")
        self.directory.mkdir(parents=True, exist_ok=True)
        # Users write nothing here, but slurmctld and the jobs of all of them pass through.
        self.directory.chmod(0o755)
        for attempt in range(1, _TRIES + 1):
            try:
                self._start_all(timeout)
            except BaseException as error:
                self.stop()
                if not isinstance(error, _PortTakenError) or attempt == _TRIES:
                    raise
            else:
                return self
        raise AssertionError("unreachable")

    def _start_all(self, timeout: float) -> None:
        self._ports, self._claims = _free_ports(len(self.nodes) + 1)
        for name in ("munge", "state", "spool", "log"):
            (self.directory / name).mkdir(exist_ok=True)
        self._start_munge()
        self.write_configuration()
        self.start_controller()
        for name in self.nodes:
            self.start_node(name)
        self.wait_until_idle(timeout)

    def stop(self) -> None:
        """End everything that was started, nodes first, and the processes of jobs."""
        order = sorted(self._daemons, key=lambda name: (name == "munged", name == "slurmctld"))
        for name in order:
            self.kill(name, signal.SIGTERM, wait=False)
        # A slurmd that is ending a job would take long.
        end = time.monotonic() + _GRACE
        for name in reversed(order):
            process = self._daemons.pop(name)
            try:
                process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)
        self._end_jobs()
        for claim in self._claims:
            claim.close()
        self._claims = []

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start_controller(self) -> None:
        """Start slurmctld, with what it saved."""
        # In the foreground: the process is ours, and its number is known.
        self._start("slurmctld", ["slurmctld", "-D"])
        self.wait(self._answers, 30, "slurmctld to answer")

    def start_node(self, name: str) -> None:
        """Start the slurmd of a node."""
        self._start(name, ["slurmd", "-D", "-N", name])

    def kill(self, name: str, how: signal.Signals = signal.SIGKILL, *, wait: bool = True) -> None:
        """Send a signal to ``slurmctld``, ``munged`` or the slurmd of a node."""
        process = self._daemons[name]
        if process.poll() is None:
            process.send_signal(how)
        if wait:
            process.wait(20)

    def pid(self, name: str) -> int:
        """Return the process id of ``slurmctld``, ``munged`` or the slurmd of a node."""
        return self._daemons[name].pid

    def alive(self, name: str) -> bool:
        """Return whether ``slurmctld``, ``munged`` or the slurmd of a node runs."""
        return name in self._daemons and self._daemons[name].poll() is None

    def wait_until_idle(self, timeout: float = 60.0) -> None:
        """Return when all nodes are idle."""
        self.wait(self._all_idle, timeout, "all nodes to be idle")

    # Use

    def run(self, *command: str, check: bool = True, user: str | None = None) -> str:
        """Run a command of Slurm, as root or as a user of the system, and return what it prints."""
        as_user: dict[str, Any] = {}
        if user is not None:
            as_user = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
        done: subprocess.CompletedProcess[str] = subprocess.run(
            command, env=self.environment, capture_output=True, text=True, cwd="/", **as_user
        )
        if check and done.returncode:
            raise DrfhError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout + ("" if check else done.stderr)

    def submit(
        self,
        script: str = "sleep 1",
        *options: str,
        user: str | None = None,
        account: str | None = None,
        cpus: int = 1,
        memory: int = 100,
    ) -> str:
        """Submit a job and return its number."""
        command = ["sbatch", "--parsable", "--output=/dev/null", "--chdir=/", f"--mem={memory}"]
        command += [f"--cpus-per-task={cpus}", *options, f"--wrap={script}"]
        if account is not None:
            command.insert(1, f"--account={account}")
        return self.run(*command, user=user).strip().partition(";")[0]

    def jobs(self) -> list[dict[str, Any]]:
        """Return the jobs as ``squeue --json`` has them."""
        found: list[dict[str, Any]] = json.loads(self.run("squeue", "--json"))["jobs"]
        return found

    def completed(self) -> list[dict[str, str]]:
        """Return the lines of the job completion log: names to values."""
        log = self.directory / "completed.txt"
        if not log.exists():
            return []
        return [dict(re.findall(r"(\w+)=(\S*)", line)) for line in log.read_text().splitlines()]

    def wait(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        """Return when a condition holds; raise when it does not in this time."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise DrfhError(f"waited {seconds:g} s for {what} in vain (logs: {self.directory})")
            time.sleep(0.05)

    def write_configuration(self) -> None:
        """Write slurm.conf and what belongs to it; ``scontrol reconfigure`` reads it again."""
        base = self.directory
        host = socket.gethostname().partition(".")[0]
        settings = {
            "ClusterName": "sandbox",
            "SlurmctldHost": f"{host}(127.0.0.1)",
            "SlurmctldPort": str(self._ports[0]),
            "SlurmUser": "root",
            "SlurmdUser": "root",
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={base / 'munge' / 'socket'}",
            # Both: with the first alone slurmctld listens everywhere.
            "CommunicationParameters": "NoInAddrAny,NoCtldInAddrAny",
            "StateSaveLocation": str(base / "state"),
            "SlurmctldPidFile": str(base / "slurmctld.pid"),
            "SlurmdPidFile": str(base / "slurmd.%n.pid"),
            "SlurmdSpoolDir": str(base / "spool" / "%n"),
            "SlurmctldLogFile": str(base / "log" / "slurmctld.log"),
            "SlurmdLogFile": str(base / "log" / "slurmd.%n.log"),
            "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/none",
            "JobAcctGatherType": "jobacct_gather/none",
            "MpiDefault": "none",
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_CPU_Memory",
            "SchedulerType": "sched/backfill",
            "SchedulerParameters": "batch_sched_delay=0,sched_interval=1,bf_interval=1,"
            "sched_min_interval=0,defer",
            "SlurmdParameters": "config_overrides",  # believe the sizes below
            "ReturnToService": "2",
            "SlurmdTimeout": "20",
            "KillWait": "2",
            "MinJobAge": "60",
            "MaxJobCount": "50000",
            "JobCompType": "jobcomp/filetxt",
            "JobCompLoc": str(base / "completed.txt"),
        }
        kinds = sorted({kind for node in self.nodes.values() for kind in node.gres})
        if kinds:
            settings["GresTypes"] = ",".join(kinds)
        if self.plugin_source:
            settings["JobSubmitPlugins"] = "lua"
            (base / "job_submit.lua").write_text(self.plugin_source)
        lines = [f"{key}={value}" for key, value in {**settings, **self.settings}.items()]
        generic = []
        for port, node in zip(self._ports[1:], self.nodes.values(), strict=True):
            parts = [
                f"NodeName={node.name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port}",
                f"CPUs={node.cpus} RealMemory={node.memory} State=UNKNOWN",
            ]
            if node.gres:
                parts.append("Gres=" + ",".join(f"{k}:{n}" for k, n in node.gres.items()))
                generic += [
                    f"NodeName={node.name} Name={kind} Count={count}"
                    for kind, count in node.gres.items()
                ]
            if node.features:
                parts.append("Feature=" + ",".join(node.features))
            lines.append(" ".join(parts))
        for position, (name, members) in enumerate(self.partitions.items()):
            default = "YES" if position == 0 else "NO"
            lines.append(
                f"PartitionName={name} Nodes={','.join(members)} Default={default} "
                "MaxTime=INFINITE State=UP"
            )
        (base / "slurm.conf").write_text("\n".join(lines) + "\n")
        (base / "gres.conf").write_text("\n".join(generic) + "\n")

    # Parts

    def _start_munge(self) -> None:
        base = self.directory / "munge"
        base.chmod(0o711)  # munged asks for this
        key = base / "key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        options = [f"--{what}={base / what.partition('-')[0]}" for what in ("key-file", "socket")]
        options += [f"--{what}={base / f'munged.{what[:3]}'}" for what in ("log-file", "pid-file")]
        self._start("munged", ["munged", "--foreground", f"--seed-file={base / 'seed'}", *options])
        self.wait(self._munge_answers, 20, "munged")

    def _start(self, name: str, command: list[str]) -> None:
        program = _found(command[0])
        assert program is not None
        # If this process is killed, nothing else would end them.
        guard = _found("setpriv")
        before = [guard, "--pdeathsig", "KILL"] if guard is not None else []
        with (self.directory / "log" / f"{name}.out").open("ab") as log:
            self._daemons[name] = subprocess.Popen(
                [*before, program, *command[1:]],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,  # Ctrl-C at the terminal must not end the cluster
            )

    def _munge_answers(self) -> bool:
        self._check("munged")
        return (self.directory / "munge" / "socket").exists()

    def _answers(self) -> bool:
        self._check("slurmctld")
        return "is UP" in self.run("scontrol", "ping", check=False)

    def _check(self, name: str) -> None:
        """Raise if a daemon has ended by itself."""
        if self._daemons[name].poll() is None:
            return
        text = (self.directory / "log" / f"{name}.out").read_text(errors="replace")
        last = (text.strip() or "without a word").rpartition("\n")[2]
        kind = _PortTakenError if "Address already in use" in last else DrfhError
        raise kind(f"{name} ended: {last}")

    def _all_idle(self) -> bool:
        for name in self._daemons:
            self._check(name)
        states = self.run("sinfo", "--noheader", "--Node", "--format=%N %t").split("\n")
        idle = {line.split()[0] for line in states if line.endswith(" idle")}
        return idle == set(self.nodes)

    def _end_jobs(self) -> None:
        """End the processes that jobs of this cluster have left behind: no slurmd does."""
        for _ in range(3):  # a job may start a process meanwhile
            for number in _job_processes(f"SLURM_CONF={self.environment['SLURM_CONF']}"):
                with suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)


class _PortTakenError(DrfhError):
    """Somebody took the port of a daemon first."""


def _job_processes(configuration: str) -> list[int]:
    """Return slurmstepd and job processes with this environment variable, and their children."""
    parents: dict[int, int] = {}
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with suppress(OSError, ValueError, IndexError):
            environment = (entry / "environ").read_bytes().split(b"\0")
            parents[int(entry.name)] = int(
                (entry / "stat").read_text().rpartition(")")[2].split()[1]
            )
            # A user's own shell may name this cluster as well: it is no job.
            if configuration.encode() in environment and (
                b"slurmstepd" in (entry / "cmdline").read_bytes()
                or any(variable.startswith(b"SLURMD_NODENAME=") for variable in environment)
            ):
                found.add(int(entry.name))
    grown = True
    while grown:
        below = {child for child, parent in parents.items() if parent in found} - found
        found |= below
        grown = bool(below)
    return sorted(found)


def _free_ports(number: int) -> tuple[list[int], list[socket.socket]]:
    """Return free ports on loopback, and claims that keep other sandboxes off them.

    A claim is the name of a local socket: it lasts while a slurmd is down, until this process ends.
    """
    found: list[int] = []
    claims: list[socket.socket] = []
    start = secrets.randbelow(len(_SPARE_PORTS) - 200)
    for port in _SPARE_PORTS[start:]:
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0drfh-sandbox-{port}")
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
            continue
        found.append(port)
        claims.append(claim)
        if len(found) == number:
            return found, claims
    for claim in claims:
        claim.close()
    raise DrfhError(f"found no {number} free ports on loopback")
