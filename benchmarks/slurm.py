"""Jobs a second on a real Slurm: drfh's controller against Slurm's own backfill scheduler.

Run with ``make bench-slurm``, or ``python benchmarks/slurm.py --quick`` (few nodes and jobs, to
see that it works). One cluster on this machine for each row; the same short jobs of three users
wait there under a hold, as arrays, and are then left to Slurm's own scheduler (all released at
once) or placed by drfh, in turns that change their order. The clock runs from the first release,
or from the start of the controller, until the last job is in Slurm's completion log.

All daemons share the processors of this machine. On a cluster a node has its own: so the slurmds,
and the jobs, run at the lowest priority here, for both. What a job costs in seconds of the
processor says more than the clock where the machine is small.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import report
from drfh.engines.cache import SchedulerCache
from drfh.engines.service import Service
from drfh.engines.slurm.client import Slurm
from drfh.engines.slurm.cluster import observe
from drfh.engines.slurm.config import SlurmConfig, config_of
from drfh.engines.slurm.controller import SlurmController, SlurmCycle
from drfh.engines.slurm.sandbox import Sandbox, SandboxNode, missing
from drfh.engines.slurm.state import SlurmState
from drfh.engines.slurm.submit_plugin import plugin_source

OURS, THEIRS = "drfh", "Slurm"
POLICY = "best-fit-drfh"
SHAPES = ((4, 16_384), (8, 8_192), (16, 4_096), (8, 16_384))  # CPUs and MiB
DEMANDS = {"ann": (1, 2_048), "bob": (2, 512), "cat": (1, 1_024)}
MANAGED, UNMANAGED = "main", "plain"
LONGEST = 600.0  # seconds for one run


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
        commands = self.seconds["sinfo"] + self.seconds["squeue"]
        parts = {
            "read": commands,
            "parse": self.seconds["state"] - commands,
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
    """Slurm's commands, with a clock."""

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

    def scontrol_parallel(self, lines: Iterable[str]) -> dict[str, str]:
        """Pin jobs."""
        lines = list(lines)
        with self.meters.timed("pin", len(lines)):
            return super().scontrol_parallel(lines)

    def scontrol(self, lines: Iterable[str]) -> dict[str, str]:
        """Hold or release jobs, or pin some of many."""
        lines = list(lines)
        kind = lines[0].split()[0] if lines else ""
        if kind != "release":
            return super().scontrol(lines)
        jobs = sum(line.count(",") + 1 for line in lines)
        with self.meters.timed("release", jobs):
            return super().scontrol(lines)


class TimedController(SlurmController):
    """A controller with a clock."""

    def __init__(self, slurm: TimedSlurm, config: SlurmConfig, cache: SchedulerCache) -> None:
        super().__init__(slurm, config, cache)
        self.meters = slurm.meters

    def read_state(self) -> SlurmState:
        """Read nodes and jobs."""
        with self.meters.timed("state"):
            return super().read_state()

    def cycle(self) -> SlurmCycle:
        """Run one cycle."""
        done = super().cycle()
        self.meters.note("round", done.seconds)
        self.meters.note("decide", done.decision_seconds)
        return done


@dataclass(frozen=True)
class Case:
    """One cluster, and how many jobs go through it."""

    nodes: int
    each: int
    repeats: int

    @property
    def jobs(self) -> int:
        """How many there are of all users."""
        return self.each * len(DEMANDS)


@dataclass
class Row:
    """What was measured on one cluster."""

    case: Case
    at_once: int = 0
    brain: float = 0.0
    rates: dict[str, list[float]] = field(default_factory=lambda: {OURS: [], THEIRS: []})
    processor: dict[str, dict[str, float]] = field(default_factory=dict)
    meters: Meters = field(default_factory=Meters)

    @property
    def ratios(self) -> list[float]:
        """Ours against theirs, run by run."""
        return [ours / theirs for ours, theirs in zip(*self.rates.values(), strict=True)]


class Bench:
    """A cluster, and what is done with it."""

    def __init__(self, sandbox: Sandbox, case: Case) -> None:
        self.sandbox, self.row = sandbox, Row(case)
        slurm = TimedSlurm(sandbox.environment, Meters())
        self.config: SlurmConfig = config_of(
            slurm.configuration(), user_by="account", partitions=(MANAGED,)
        )

    def submit(self, *options: str) -> list[str]:
        """Submit all jobs, held, and return the numbers of their arrays."""
        array = f"--array=0-{self.row.case.each - 1}"
        return [
            self.sandbox.submit("true", array, *options, account=user, cpus=cpus, memory=memory)
            for user, (cpus, memory) in DEMANDS.items()
        ]

    def completed(self) -> int:
        """Return how many jobs have ended, all in all."""
        log = self.sandbox.directory / "completed.txt"
        return log.read_bytes().count(b"\n") if log.exists() else 0

    def wait(self, number: int) -> None:
        """Return when so many jobs have ended, all in all."""
        end = time.monotonic() + LONGEST
        while self.completed() < number:
            if time.monotonic() > end:
                raise SystemExit(f"only {self.completed()} of {number} jobs ended: given up")
            time.sleep(0.02)

    def run(self, who: str, *, counts: bool = True) -> None:
        """Let all jobs run once."""
        meters = Meters()
        goal = self.completed()
        arrays = self.submit(f"--partition={MANAGED if who == OURS else UNMANAGED}",
                             *(["--hold"] if who == THEIRS else []))  # fmt: skip
        goal += self.row.case.jobs
        before, started = meters.processor(self.sandbox), time.perf_counter()
        if who == THEIRS:
            self.sandbox.run("scontrol", "release", *arrays)
            self.wait(goal)
        else:
            self._drive(meters, goal)
        seconds = time.perf_counter() - started
        if not counts:
            return
        used = meters.processor(self.sandbox)
        jobs = self.row.case.jobs
        self.row.rates[who].append(jobs / seconds)
        spent = self.row.processor.setdefault(who, dict.fromkeys(used, 0.0))
        for name in used:
            spent[name] += 1e3 * (used[name] - before[name]) / jobs / self.row.case.repeats
        self.row.meters.add(meters)
        report.say(f"{self.row.case.nodes} nodes, {who}: {jobs / seconds:.1f} jobs a second")

    def _drive(self, meters: Meters, goal: int) -> None:
        slurm = TimedSlurm(self.sandbox.environment, meters)
        controller = TimedController(slurm, self.config, SchedulerCache(POLICY))
        service = Service(controller)
        thread = threading.Thread(target=service.run)
        thread.start()
        try:
            self.wait(goal)
        finally:
            service.stop()
            thread.join()

    def decide(self, repeats: int = 5) -> None:
        """Measure the brain alone, on all jobs and the empty cluster."""
        arrays = self.submit(f"--partition={MANAGED}")
        slurm = TimedSlurm(self.sandbox.environment, Meters())
        snapshot = observe(slurm, self.config, POLICY).snapshot
        best = float("inf")
        for _ in range(repeats):
            cache = SchedulerCache(POLICY)
            cache.follow(snapshot)
            started = time.perf_counter()
            self.row.at_once = len(cache.place())
            best = min(best, time.perf_counter() - started)
        self.row.brain = self.row.at_once / best
        self.sandbox.run("scancel", *arrays)
        self.sandbox.wait(lambda: not self.sandbox.run("squeue", "--noheader"), 60, "no jobs")


def measure(case: Case) -> Row:
    """Start a cluster and let the two schedule on it in turns."""
    nodes = [
        SandboxNode(f"n{number}", *SHAPES[number % len(SHAPES)]) for number in range(case.nodes)
    ]
    names = [node.name for node in nodes]
    with tempfile.TemporaryDirectory(prefix="drfh-bench-", ignore_cleanup_errors=True) as place:
        sandbox = Sandbox(
            Path(place),
            nodes,
            partitions={MANAGED: names, UNMANAGED: names},
            settings={"MinJobAge": "2"},  # what has ended soon leaves the queue
            plugin_source=plugin_source([MANAGED]),
        )
        with sandbox:
            lowest_priority(sandbox)
            bench = Bench(sandbox, case)
            bench.decide()
            bench.run(OURS, counts=False)
            for repeat in range(case.repeats):
                for who in (THEIRS, OURS) if repeat % 2 == 0 else (OURS, THEIRS):
                    bench.run(who)
    return bench.row


def speeds(rows: Sequence[Row]) -> Table:
    """Return jobs a second, and the ratio."""
    grid = report.table(
        "jobs a second, medians (lowest to highest), and what the brain alone decides",
        ["nodes", "jobs", "fit at once", THEIRS, OURS, "drfh / Slurm", "decisions a second"],
    )
    for row in rows:
        cells = [f"{row.case.nodes}", f"{row.case.jobs:,}", f"{row.at_once:,}"]
        cells += [spread(row.rates[name]) for name in (THEIRS, OURS)]
        grid.add_row(*cells, spread(row.ratios), report.number(row.brain))
    return grid


def spread(values: Sequence[float]) -> str:
    """Return the median and the range.

    >>> spread([41.0, 39.5, 44.25])
    '41.0 (39.5 to 44.2)'
    """
    low, middle, high = (report.number(f(values)) for f in (min, median, max))
    return middle if len(values) == 1 else f"{middle} ({low} to {high})"


def costs(rows: Sequence[Row]) -> Table:
    """Return what the commands cost, and where a round's time goes."""
    parts = ("read", "parse", "decide", "pin", "release", "other")
    grid = report.table(
        "what is asked of Slurm (means), and where the time of a round goes",
        ["nodes", "rounds", "jobs a round", "sinfo ms", "squeue ms", "pin ms/job", "release ms/job",
         *(f"{part} %" for part in parts)],
    )  # fmt: skip
    for row in rows:
        meters = row.meters
        split = meters.split()
        cells = [meters.mean("sinfo"), meters.mean("squeue"), meters.mean("pin"),
                 meters.mean("release")]  # fmt: skip
        rounds = meters.count["round"]
        grid.add_row(
            f"{row.case.nodes}",
            f"{rounds}",
            report.number(meters.count["pin"] / rounds),
            *(report.number(1e3 * cell) for cell in cells),
            *(f"{100 * split[part]:.0f}" for part in parts),
        )
    return grid


def processors(rows: Sequence[Row]) -> Table:
    """Return milliseconds of the processor for each job."""
    names = list(next(iter(rows[0].processor.values())))
    grid = report.table("milliseconds of the processor a job", ["nodes", "scheduler", *names])
    for row in rows:
        for who in (THEIRS, OURS):
            cells = (report.number(row.processor[who][name]) for name in names)
            grid.add_row(f"{row.case.nodes}", who, *cells)
    return grid


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="few nodes: does it still work?")
    parser.add_argument("--nodes", default="16,32,64", help="a cluster of each size")
    parser.add_argument("--jobs", type=int, default=600, help="how many go through it")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each scheduler")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    reason = missing()
    if reason is not None:
        raise SystemExit(f"a Slurm cluster on this machine {reason} (make slurm)")
    cases = [
        Case(int(nodes), options.jobs // len(DEMANDS), options.repeats)
        for nodes in options.nodes.split(",")
    ]
    rows = [measure(case) for case in ([Case(4, 10, 1)] if options.quick else cases)]
    if options.json:
        found = [asdict(row) | {"ratios": row.ratios} for row in rows]
        report.print_json({"machine": report.machine(), "rows": found})
        return
    report.show(report.machine_line(), speeds(rows), costs(rows), processors(rows))


if __name__ == "__main__":
    main()
