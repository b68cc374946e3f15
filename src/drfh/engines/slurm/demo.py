"""A demonstration: a real Slurm on this machine, the controller, and three users who come and go.

Everything is started in one directory and stopped by process id: the cluster is a
:class:`~drfh.engines.slurm.sandbox.Sandbox`, the controller is ``drfh slurm run`` as it is.
"""

from __future__ import annotations

import re
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
from typing import Self

from drfh.engines.lifecycle import Stoppable
from drfh.engines.slurm.client import Slurm, SlurmError
from drfh.engines.slurm.cluster import observe
from drfh.engines.slurm.config import SlurmConfig, config_of
from drfh.engines.slurm.sandbox import Sandbox, SandboxNode
from drfh.engines.slurm.submit_plugin import submit_script
from drfh.engines.status import Status, status_of
from drfh.errors import DrfhError, InputError
from drfh.formatting import format_count

__all__ = ["PARTITION", "VISITORS", "Demo", "DemoMoment", "Visitor", "demo_nodes", "open_directory"]

#: The partition that drfh manages.
PARTITION = "main"
_SHAPES = ((4, 16_384), (8, 8_192), (16, 4_096), (8, 16_384))  # CPUs and MiB
_MOST_NODES, _MOST_TASKS = 64, 1000  # of Slurm in one array
_ROUNDS = 12  # of jobs, one after the other, in the whole time


@dataclass(frozen=True)
class Visitor:
    """Somebody with jobs of one shape, who joins and leaves at parts of the whole time.

    Examples
    --------
    >>> Visitor("ann", 1, 4096, 0.0, 0.7).words
    '1 CPU and 4 GiB'
    """

    name: str
    cpus: int
    memory: int
    joins: float
    leaves: float

    @property
    def words(self) -> str:
        """What one of its jobs asks for."""
        size = f"{self.memory / 1024:g} GiB" if self.memory >= 1024 else f"{self.memory} MiB"
        return f"{format_count(self.cpus, 'CPU')} and {size}"


VISITORS = (
    Visitor("ann", 1, 3_072, 0.0, 0.68),
    Visitor("bob", 3, 512, 0.18, 0.85),
    Visitor("cat", 1, 1_024, 0.42, 0.85),
)


@dataclass(frozen=True)
class DemoMoment:
    """A look at the cluster, so many seconds after the start; `news` says who joined or left."""

    seconds: float
    status: Status
    news: tuple[str, ...] = ()


def demo_nodes(number: int) -> list[SandboxNode]:
    """Return so many nodes, of four shapes.

    Examples
    --------
    >>> [(node.name, node.cpus, node.memory) for node in demo_nodes(2)]
    [('n00', 4, 16384), ('n01', 8, 8192)]
    """
    if not 1 <= number <= _MOST_NODES:
        raise InputError("nodes", f"must be from 1 to {_MOST_NODES}", number)
    return [SandboxNode(f"n{i:02}", *_SHAPES[i % len(_SHAPES)]) for i in range(number)]


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
    """Starts everything, lets the visitors come and go, and stops everything.

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
        Where the event log goes.
    visitors
        Who comes.
    web_port
        Where the controller serves its live view; 0: any free port, None: it does not.

    Attributes
    ----------
    moments : list of DemoMoment
        What was seen so far.
    """

    directory: Path
    nodes: int = 16
    seconds: float = 75.0
    policy: str = "best-fit-drfh"
    log: Path | None = None
    visitors: Sequence[Visitor] = VISITORS
    web_port: int | None = None
    moments: list[DemoMoment] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        if not 0 < self.seconds < 1e6:
            raise InputError("seconds", "must be > 0", self.seconds)
        self.sandbox = Sandbox(
            self.directory, demo_nodes(self.nodes), submit_script=submit_script([PARTITION])
        )
        self._controller: subprocess.Popen[bytes] | None = None
        self._there: set[str] = set()
        self._gone: set[str] = set()

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
        words = [sys.executable, "-m", "drfh", "slurm", "run", f"--policy={self.policy}"]
        words += ["--user-by=account", f"--partition={PARTITION}", "--interval=0.5"]
        if self.log is not None:
            words.append(f"--record={self.log.absolute()}")
        if self.web_port is not None:
            words.append(f"--web-port={self.web_port}")
        with self._said.open("wb") as said:
            self._controller = subprocess.Popen(
                words,
                env=self.sandbox.environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,  # Ctrl-C is for us: we stop it when all has been seen
            )
        self.sandbox.wait(self._controls, 60, "the controller")

    @property
    def live_view(self) -> str:
        """Address of the live view; empty if there is none."""
        found = re.search(r"live view: (\S+)", self._said.read_text(errors="replace"))
        return found[1] if found else ""

    @property
    def no_live_view(self) -> str:
        """Why there is no live view though one was asked for; else empty."""
        found = re.search(r"there is no live view.*", self._said.read_text(errors="replace"))
        return found[0] if found else ""

    @property
    def _said(self) -> Path:
        return self.directory / "drfh.log"

    def _controls(self) -> bool:
        """Return whether the controller has begun; raise if it has ended."""
        if self._controller is not None and self._controller.poll() is not None:
            words = self._said.read_text(errors="replace").strip().rpartition("\n")[2]
            raise DrfhError(f"the controller ended: {words or 'without a word'}")
        return " places jobs by " in self._said.read_text(errors="replace")

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
        """Let Ctrl-C, SIGTERM and the end of the terminal stop it after the look that goes on."""
        before = signal.signal(signal.SIGHUP, self.stop)
        try:
            with super().signals():
                yield
        finally:
            signal.signal(signal.SIGHUP, before)

    # What happens

    def run(self, show: Callable[[DemoMoment], None], every: float = 1.0) -> None:
        """Go through it all, and show every look; return at the end, or when told to stop."""
        slurm = Slurm(self.sandbox.environment)
        try:
            site = config_of(slurm.configuration(), user_by="account", partitions=(PARTITION,))
            self._go_through(slurm, site, show, every)
        except (SlurmError, DrfhError):
            if not self.stop_requested.is_set():  # Ctrl-C ends the commands that run, too
                raise

    def _go_through(
        self, slurm: Slurm, site: SlurmConfig, show: Callable[[DemoMoment], None], every: float
    ) -> None:
        started = time.monotonic()
        while not self.stop_requested.is_set():
            passed = time.monotonic() - started
            news = (*self._join(passed), *self._leave(passed))
            self._controls()
            moment = DemoMoment(passed, status_of(observe(slurm, site, self.policy)), tuple(news))
            self.moments.append(moment)
            show(moment)
            passed = time.monotonic() - started
            if passed >= self.seconds:
                return
            self.stop_requested.wait(min(every, self.seconds - passed))

    def _join(self, passed: float) -> Iterator[str]:
        for visitor in self.visitors:
            if visitor.name in self._there or passed < visitor.joins * self.seconds:
                continue
            self._there.add(visitor.name)
            number = self._enough(visitor)
            least = max(1, round(self.seconds / _ROUNDS) - 1)
            script = f"sleep $(({least} + SLURM_ARRAY_TASK_ID % 3))"
            self.sandbox.submit(
                script,
                f"--array=0-{number - 1}",
                f"--job-name={visitor.name}",
                account=visitor.name,
                cpus=visitor.cpus,
                memory=visitor.memory,
            )
            yield f"{visitor.name} joins with {number} jobs of {visitor.words}"

    def _leave(self, passed: float) -> Iterator[str]:
        for visitor in self.visitors:
            if visitor.name in self._gone or passed < visitor.leaves * self.seconds:
                continue
            self._gone.add(visitor.name)
            self.sandbox.run(
                "scancel", "--quiet", f"--account={visitor.name}", "--state=PENDING", check=False
            )
            yield f"{visitor.name} leaves: what waits is cancelled, what runs goes on"

    def _enough(self, visitor: Visitor) -> int:
        """Return how many jobs keep somebody busy for as long as it is there."""
        at_once = sum(
            min(node.cpus // visitor.cpus, node.memory // visitor.memory)
            for node in self.sandbox.nodes.values()
        )
        rounds = (visitor.leaves - visitor.joins) * _ROUNDS + 1
        return min(max(int(at_once * rounds), 3), _MOST_TASKS)

    def completed(self) -> Counter[str]:
        """Return how many jobs of each visitor have run to their end."""
        return Counter(
            line["Account"]
            for line in self.sandbox.completed()
            if line.get("JobState") == "COMPLETED"
        )
