"""What the benchmark on a real Slurm measures: commands, rounds, and seconds of processors."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drfh.engines.cache import SchedulerCache
from drfh.engines.slurm.client import Slurm
from drfh.engines.slurm.config import SlurmConfig
from drfh.engines.slurm.controller import Controller, Cycle
from drfh.engines.slurm.sandbox import Sandbox
from drfh.engines.slurm.state import SlurmState

TICK = 1 / os.sysconf("SC_CLK_TCK")


@dataclass
class Meters:
    """Counts and seconds by name."""

    count: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def note(self, name: str, seconds: float, count: int = 1) -> None:
        """Count something that took so long."""
        self.count[name] = self.count.get(name, 0) + count
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    @contextmanager
    def timed(self, name: str, count: int = 1) -> Iterator[None]:
        """Count what is done inside."""
        started = time.perf_counter()
        yield
        self.note(name, time.perf_counter() - started, count)

    def add(self, others: Meters) -> None:
        """Count what others have counted."""
        for name, count in others.count.items():
            self.note(name, others.seconds[name], count)

    def mean(self, name: str) -> float:
        """Return seconds for one."""
        return self.seconds.get(name, 0.0) / max(self.count.get(name, 0), 1)

    def split(self) -> dict[str, float]:
        """Return which part of the time of rounds went where."""
        whole = self.seconds["round"]
        look = self.seconds["sinfo"] + self.seconds["squeue"]
        parts = {
            "look": look,
            "understand": self.seconds["look"] - look,
            **{name: self.seconds.get(name, 0.0) for name in ("decide", "pin", "release")},
        }
        return {
            **{n: s / whole for n, s in parts.items()},
            "other": 1 - sum(parts.values()) / whole,
        }

    @staticmethod
    def processor(sandbox: Sandbox) -> dict[str, float]:
        """Return seconds of the processor until now: ours, and of Slurm's own daemons."""
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {
            "controller": time.process_time(),
            "its commands": children.ru_utime + children.ru_stime,
            "slurmctld": _used(sandbox.pid("slurmctld")),
            "munged": _used(sandbox.pid("munged")),
            "slurmds": sum(_used(sandbox.pid(name)) for name in sandbox.nodes),
        }


def _used(number: int) -> float:
    fields = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
    return TICK * (int(fields[11]) + int(fields[12]))


def lowest_priority(sandbox: Sandbox) -> None:
    """Let the nodes, and what they start from now on, wait for everybody else."""
    for name in sandbox.nodes:
        for thread in Path(f"/proc/{sandbox.pid(name)}/task").iterdir():
            os.setpriority(os.PRIO_PROCESS, int(thread.name), 19)


class TimedSlurm(Slurm):
    """Slurm's commands, with a watch."""

    def __init__(self, environment: Mapping[str, str], meters: Meters) -> None:
        super().__init__(environment)
        self.meters = meters

    def jobs(self) -> list[Any]:
        """Return the jobs."""
        with self.meters.timed("squeue"):
            return super().jobs()

    def nodes(self) -> list[Any]:
        """Return the nodes."""
        with self.meters.timed("sinfo"):
            return super().nodes()

    def at_once(self, commands: Iterable[str]) -> dict[str, str]:
        """Pin jobs."""
        lines = list(commands)
        with self.meters.timed("pin", len(lines)):
            return super().at_once(lines)

    def together(self, commands: Iterable[str]) -> dict[str, str]:
        """Hold or release jobs, or pin some of many."""
        lines = list(commands)
        kind = lines[0].split()[0] if lines else ""
        if kind != "release":
            return super().together(lines)
        jobs = sum(line.count(",") + 1 for line in lines)
        with self.meters.timed("release", jobs):
            return super().together(lines)


class TimedController(Controller):
    """A controller with a watch."""

    def __init__(self, slurm: TimedSlurm, site: SlurmConfig, cache: SchedulerCache) -> None:
        super().__init__(slurm, site, cache)
        self.meters = slurm.meters

    def read_state(self) -> SlurmState:
        """Read nodes and jobs."""
        with self.meters.timed("look"):
            return super().read_state()

    def cycle(self) -> Cycle:
        """Go round once."""
        done = super().cycle()
        self.meters.note("round", done.seconds)
        self.meters.note("decide", done.decision_seconds)
        return done
