"""The demonstration: a sandbox cluster, the controller, and three users who join and leave.

Everything is started in one directory and stopped by process id: the cluster is a
:class:`~drfh.engines.slurm.sandbox.Sandbox`, the controller is ``drfh slurm run`` as it is.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from drfh.engines.lifecycle import Stoppable
from drfh.engines.slurm.client import Slurm, SlurmError
from drfh.engines.slurm.cluster import observe
from drfh.engines.slurm.config import SlurmConfig, config_of
from drfh.engines.slurm.sandbox import Sandbox, SandboxNode
from drfh.engines.slurm.submit_plugin import plugin_source
from drfh.engines.status import Status, status_of
from drfh.errors import DrfhError, InputError
from drfh.formatting import format_count

__all__ = ["PARTITION", "USERS", "Demo", "DemoSample", "DemoUser", "demo_nodes", "open_directory"]

#: The partition that drfh manages.
PARTITION = "main"
_SIZES = ((4, 16_384), (8, 8_192), (16, 4_096), (8, 16_384))  # CPUs and MiB
_MOST_NODES, _MOST_TASKS = 64, 1000  # of Slurm in one array
_WAVES = 12  # of jobs, one after the other, in the whole time


@dataclass(frozen=True)
class DemoUser:
    """A user with jobs of one size, who joins and leaves at fractions of the whole time.

    Examples
    --------
    >>> DemoUser("ann", 1, 4096, 0.0, 0.7).request
    '1 CPU and 4 GiB'
    """

    name: str
    cpus: int
    memory: int
    joins: float
    leaves: float

    @property
    def request(self) -> str:
        """What one of its jobs asks for, as text."""
        size = f"{self.memory / 1024:g} GiB" if self.memory >= 1024 else f"{self.memory} MiB"
        return f"{format_count(self.cpus, 'CPU')} and {size}"


USERS = (
    DemoUser("ann", 1, 3_072, 0.0, 0.68),
    DemoUser("bob", 3, 512, 0.18, 0.85),
    DemoUser("cat", 1, 1_024, 0.42, 0.85),
)


@dataclass(frozen=True)
class DemoSample:
    """The status of the cluster so many seconds after the start, and who joined or left."""

    seconds: float
    status: Status
    events: tuple[str, ...] = ()


def demo_nodes(number: int) -> list[SandboxNode]:
    """Return nodes of four sizes.

    Examples
    --------
    >>> [(node.name, node.cpus, node.memory) for node in demo_nodes(2)]
    [('n00', 4, 16384), ('n01', 8, 8192)]
    """
    if not 1 <= number <= _MOST_NODES:
        raise InputError("nodes", f"must be from 1 to {_MOST_NODES}", number)
    return [SandboxNode(f"n{i:02}", *_SIZES[i % len(_SIZES)]) for i in range(number)]


def open_directory() -> str:
    """Return a directory for temporary files which everybody may pass through, as munged asks.

    Examples
    --------
    >>> Path(open_directory()).is_absolute()
    True
    """
    usual = tempfile.gettempdir()
    for place in (usual, "/tmp", "/var/tmp"):
        path = Path(place).resolve()
        if path.is_dir() and all(part.stat().st_mode & 0o001 for part in (path, *path.parents)):
            return place
    return usual


@dataclass
class Demo(Stoppable):
    """Runs the demonstration; a ``with`` block starts and stops everything.

    Parameters
    ----------
    directory
        Where the cluster's files go; new or empty.
    nodes
        How many.
    seconds
        How long it all takes, apart from the start.
    policy
        By which jobs are placed.
    log
        Where the journal goes.
    users
        Who submits jobs.
    web_port
        Where the controller serves its live view; 0: any free port, None: it does not.
    log_options
        Of the controller, whose log is in ``drfh.log`` of the directory.

    Attributes
    ----------
    samples : list of DemoSample
        One a second so far.
    """

    directory: Path
    nodes: int = 16
    seconds: float = 75.0
    policy: str = "best-fit-drfh"
    log: Path | None = None
    users: Sequence[DemoUser] = USERS
    web_port: int | None = None
    log_options: Sequence[str] = ()
    samples: list[DemoSample] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        if not 0 < self.seconds < 1e6:
            raise InputError("seconds", "must be > 0", self.seconds)
        self.sandbox = Sandbox(
            self.directory, demo_nodes(self.nodes), plugin_source=plugin_source([PARTITION])
        )
        self._controller: subprocess.Popen[bytes] | None = None
        self._started: dict[str, Any] = {}  # what the controller printed at its start
        self._joined: set[str] = set()
        self._left: set[str] = set()

    # Starting and stopping

    def __enter__(self) -> Self:
        self.sandbox.start()
        try:
            self._start_controller()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        try:
            self._stop_controller()
        finally:
            self.sandbox.stop()

    def _start_controller(self) -> None:
        command = [sys.executable, "-m", "drfh", "slurm", "run", f"--policy={self.policy}"]
        command += ["--user-by=account", f"--partition={PARTITION}", "--interval=0.5", "--json"]
        command += self.log_options
        if self.log is not None:
            command.append(f"--record={self.log.absolute()}")
        if self.web_port is not None:
            command.append(f"--web-port={self.web_port}")
        with self._output.open("wb") as output, self._log_file.open("wb") as log:
            self._controller = subprocess.Popen(
                command,
                env=self.sandbox.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the demonstration, which stops it
            )
        self.sandbox.wait(self._has_started, 60, "the controller")

    @property
    def live_view(self) -> str:
        """Address of the live view; empty if there is none."""
        return str(self._started.get("live_view", ""))

    @property
    def live_view_error(self) -> str:
        """Why there is no live view though one was asked for; else empty."""
        return str(self._started.get("live_view_error", ""))

    @property
    def _output(self) -> Path:
        return self.directory / "drfh.json"

    @property
    def _log_file(self) -> Path:
        return self.directory / "drfh.log"

    def _check_controller(self) -> None:
        """Raise if the controller has ended."""
        if self._controller is not None and self._controller.poll() is not None:
            last = self._log_file.read_text(errors="replace").strip().rpartition("\n")[2]
            raise DrfhError(f"the controller ended: {last or 'without a word'}")

    def _has_started(self) -> bool:
        """Read what the controller has printed; return whether it has started."""
        self._check_controller()
        for line in self._output.read_text(errors="replace").splitlines(keepends=True):
            if line.endswith("\n"):
                self._started |= json.loads(line)
        return "started" in self._started

    def _stop_controller(self) -> None:
        controller = self._controller
        if controller is None:
            return
        if controller.poll() is None:
            controller.send_signal(signal.SIGTERM)
        try:
            controller.wait(20)
        except subprocess.TimeoutExpired:
            controller.kill()
            controller.wait(10)

    @contextmanager
    def signals(self) -> Iterator[None]:
        """Let Ctrl-C, SIGTERM and the end of the terminal stop it after the current sample."""
        before = signal.signal(signal.SIGHUP, self.stop)
        try:
            with super().signals():
                yield
        finally:
            signal.signal(signal.SIGHUP, before)

    # Users

    def run(self, show: Callable[[DemoSample], None], every: float = 1.0) -> None:
        """Let users join and leave, and show samples; return at the end, or when stopped."""
        slurm = Slurm(self.sandbox.environment)
        try:
            config = config_of(slurm.configuration(), user_by="account", partitions=(PARTITION,))
            self._run(slurm, config, show, every)
        except (SlurmError, DrfhError):
            if not self.stop_requested.is_set():  # Ctrl-C ends the commands that run, too
                raise

    def _run(
        self, slurm: Slurm, config: SlurmConfig, show: Callable[[DemoSample], None], every: float
    ) -> None:
        started = time.monotonic()
        while not self.stop_requested.is_set():
            passed = time.monotonic() - started
            events = (*self._join(passed), *self._leave(passed))
            self._check_controller()
            sample = DemoSample(passed, status_of(observe(slurm, config, self.policy)), events)
            self.samples.append(sample)
            show(sample)
            passed = time.monotonic() - started
            if passed >= self.seconds:
                return
            self.stop_requested.wait(min(every, self.seconds - passed))

    def _join(self, passed: float) -> Iterator[str]:
        for user in self.users:
            if user.name in self._joined or passed < user.joins * self.seconds:
                continue
            self._joined.add(user.name)
            number = self._enough(user)
            least = max(1, round(self.seconds / _WAVES) - 1)
            script = f"sleep $(({least} + SLURM_ARRAY_TASK_ID % 3))"
            self.sandbox.submit(
                script,
                f"--array=0-{number - 1}",
                f"--job-name={user.name}",
                account=user.name,
                cpus=user.cpus,
                memory=user.memory,
            )
            yield f"{user.name} joins with {number} jobs of {user.request}"

    def _leave(self, passed: float) -> Iterator[str]:
        for user in self.users:
            if user.name in self._left or passed < user.leaves * self.seconds:
                continue
            self._left.add(user.name)
            self.sandbox.run(
                "scancel", "--quiet", f"--account={user.name}", "--state=PENDING", check=False
            )
            yield f"{user.name} leaves: what waits is cancelled, what runs goes on"

    def _enough(self, user: DemoUser) -> int:
        """Return how many jobs keep a user busy from joining to leaving."""
        at_once = sum(
            min(node.cpus // user.cpus, node.memory // user.memory)
            for node in self.sandbox.nodes.values()
        )
        waves = (user.leaves - user.joins) * _WAVES + 1
        return min(max(int(at_once * waves), 3), _MOST_TASKS)

    def completed(self) -> Counter[str]:
        """Return how many jobs of each user have completed."""
        return Counter(
            line["Account"]
            for line in self.sandbox.completed()
            if line.get("JobState") == "COMPLETED"
        )
