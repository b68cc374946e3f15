"""A simulated day: drfh against two simpy models that place alike, as ratios.

Run with ``make bench-simulate``; ``--full`` adds the rival that takes five minutes and ``--large``
10,000,000 tasks on 100,000 servers; ``--quick`` only shows that it works. The days have 900 users
and an offered load of 1.3; fewer tasks make a shorter day, so that they are as dense. The simpy
models are in `online_rivals`: one wakes exactly the users that a release may help, as drfh does,
and one asks everyone again. When and where each task starts is compared by a hash. Times are the
best of three, in seconds of the processor; large days and fresh processes have seconds of the clock
on the wall beside them.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import polars
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import drfh
from benchmarks import report
from benchmarks.online.drfh_runs import play, records
from benchmarks.online.instances import Day, day
from benchmarks.online.rivals import digest, simpy_simulate
from benchmarks.processes import apart, peak_memory

REPEATS = 3
POLICY = "best-fit-drfh"
MINUTE = 60.0
GOAL_TASKS, LARGEST = 1_000_000, 10_000_000
GOAL_EXACT, GOAL_EVERYONE = 15, 100  # times as fast, for so many tasks
MOST_MEMORY = 12.0  # GiB, for the largest on 100,000 servers
MOST_SECONDS_TO_START = 2.0
LONG = 10.0  # seconds of a rival that is not run again

Wake: TypeAlias = Literal["exact", "everyone"]


def dense_day(tasks: int, servers: int = 2_000, users: int = 900) -> Day:
    """Return a day of a million tasks on 2,000 servers, or a part of it that is as dense."""
    return day(users=users, tasks=tasks, servers=servers, hours=24 * min(1.0, tasks / 1e6))


@dataclass(frozen=True)
class Row:
    """Seconds for one day; a rival that was left out has None.

    Attributes
    ----------
    clock
        Compiled clock and brain alone: what simpy's time covers.
    whole, unsampled
        All of `drfh.simulate`, tables of jobs and users included: with a sample each minute, and
        with one at the end alone.
    sampling
        Of `whole`, looking at the state, by the clock on the wall.
    """

    tasks: int
    servers: int
    started: int
    clock: float
    whole: float
    unsampled: float
    samples: int
    sampling: float
    exact: float | None
    everyone: float | None
    same: bool

    def ratios(self, rival: float | None) -> tuple[float | None, float | None]:
        """Return how many times as fast the clock and the whole call are."""
        return (None, None) if rival is None else (rival / self.clock, rival / self.whole)


def whole_call(work: Day, interval: float, repeats: int = REPEATS) -> tuple[float, drfh.Result]:
    """Return the best seconds of `drfh.simulate`, and a result."""
    cluster, workload = records(work)
    found = []
    for _ in range(repeats):
        began = time.process_time()
        result = drfh.simulate(
            cluster, workload, POLICY, work.horizon, interval=interval, engine="indexed"
        )
        found.append((time.process_time() - began, result))
    return min(found, key=lambda pair: pair[0])


def logged(work: Day) -> str:
    """Return the hash of what `drfh.simulate` itself says about every task."""
    cluster, workload = records(work)
    result = drfh.simulate(cluster, workload, POLICY, work.horizon, log=True, engine="indexed")
    assert result.tasks is not None
    start = result.tasks["start"].fill_null(-1.0).to_numpy()
    number = result.tasks["server"].str.strip_prefix("server-").cast(polars.Int64) - 1
    return digest(start, number.fill_null(-1).to_numpy())


def rival(work: Day, wake: Wake) -> tuple[float, set[str]]:
    """Return the best seconds of a simpy model and its hashes; one run if that takes long."""
    runs = [simpy_simulate(work, "best-fit", wake, until=work.horizon)]
    while len(runs) < REPEATS and runs[0].seconds < LONG:
        runs.append(simpy_simulate(work, "best-fit", wake, until=work.horizon))
    return min(run.seconds for run in runs), {run.digest for run in runs}


def measure(work: Day, everyone: bool) -> Row:
    """Simulate one day with everybody."""
    plays = [play(work) for _ in range(REPEATS)]
    hashes = {run.digest for run in plays} | {logged(work)}
    whole, result = whole_call(work, MINUTE)
    unsampled, _ = whole_call(work, work.horizon)
    wakes: tuple[Wake, ...] = ("exact", "everyone") if everyone else ("exact",)
    times = {}
    for wake in wakes:
        times[wake], found = rival(work, wake)
        hashes |= found
    return Row(
        tasks=len(work.duration),
        servers=len(work.capacity),
        started=int((plays[0].server >= 0).sum()),
        clock=min(run.seconds for run in plays),
        whole=whole,
        unsampled=unsampled,
        samples=result.samples.height,
        sampling=float(result.summary()["seconds"]["samples"]),
        exact=times.get("exact"),
        everyone=times.get("everyone"),
        same=len(hashes) == 1,
    )


@dataclass(frozen=True)
class Large:
    """One big simulation in a process of its own; peaks in GiB.

    Attributes
    ----------
    wall, processor
        Seconds of `drfh.simulate`.
    drawn
        Peak when the workload was there.
    peak
        Peak at the end.
    """

    tasks: int
    servers: int
    started: int
    wall: float
    processor: float
    sampling: float
    samples: int
    drawn: float
    peak: float


def _large(tasks: int, servers: int) -> Large:
    whole_call(day(users=5, tasks=50, servers=5), MINUTE, 1)  # loads the machine code
    work = day(tasks=tasks, servers=servers)
    drawn = peak_memory()
    began = time.perf_counter()
    processor, result = whole_call(work, MINUTE, 1)
    wall = time.perf_counter() - began
    summary = result.summary()
    return Large(
        tasks, servers, summary["placements"], wall, processor, summary["seconds"]["samples"],
        result.samples.height, drawn, peak_memory(),
    )  # fmt: skip


def start_up(repeats: int) -> dict[str, tuple[float, float]]:
    """Return the least seconds (wall, processor) of a small simulation in a fresh process."""
    indexed = f"""
import drfh
from drfh.files.scenario_file import load_scenario
found = load_scenario("paper-dynamic")
print(drfh.simulate(found.cluster, found.workload, "{POLICY}", engine="indexed").summary())
"""
    commands = {
        "drfh simulate paper-dynamic --policy best-fit-drfh": [
            "-m", "drfh", "simulate", "paper-dynamic", "--policy", POLICY,
        ],
        "the same from Python with engine=\"indexed\"": ["-c", indexed],
    }  # fmt: skip
    found = {}
    for name, command in commands.items():
        times = []
        for _ in range(repeats):
            before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            subprocess.run([sys.executable, *command], check=True, capture_output=True)
            wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
            user, system = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
            times.append((wall, user + system))
        found[name] = min(times)
    return found


def days_table(rows: Sequence[Row]) -> Table:
    """Return times and ratios."""
    title = "a simulated day (best-fit-drfh), and how many times as fast drfh is: clock and whole"
    grid = report.table(
        title,
        ["tasks", "servers", "started", "drfh clock", "drfh.simulate", "tasks/s", "simpy, exact",
         "clock", "whole", "simpy, everyone", "clock", "whole", "same hash"], words=0,
    )  # fmt: skip
    for row in rows:
        cells = [f"{row.tasks:,}", f"{row.servers:,}", f"{row.started:,}"]
        cells += [report.seconds(row.clock), report.seconds(row.whole)]
        cells.append(f"{row.tasks / row.whole:,.0f}")
        goals = (GOAL_EXACT, GOAL_EVERYONE) if row.tasks == GOAL_TASKS else (None, None)
        for seconds, goal in zip((row.exact, row.everyone), goals, strict=True):
            cells.append(report.seconds(seconds))
            cells += [report.times(ratio, goal) for ratio in row.ratios(seconds)]
        grid.add_row(*cells, "yes" if row.same else "NO")
    return grid


def samples_table(rows: Sequence[Row]) -> Table:
    """Return what samples cost."""
    title = "drfh.simulate with a sample each simulated minute, and with one at the end"
    columns = ["tasks", "samples", "with", "without", "for each sample", "of the whole"]
    grid = report.table(title, columns, words=0)
    for row in rows:
        cost = row.whole - row.unsampled
        cells = [f"{row.tasks:,}", f"{row.samples:,}"]
        cells += map(report.seconds, (row.whole, row.unsampled))
        grid.add_row(*cells, f"{1e6 * cost / row.samples:,.0f} µs", f"{cost / row.whole:.0%}")
    return grid


def large_table(rows: Sequence[Large]) -> Table:
    """Return times and peaks of the big ones."""
    title = "large days, each in a process of its own (a sample each simulated minute)"
    columns = ["tasks", "servers", "started", "drfh.simulate", "processor", "tasks/s", "samples"]
    columns += ["workload alone, GiB", "peak, GiB"]
    grid = report.table(title, columns, words=0)
    for row in rows:
        cells = [f"{row.tasks:,}", f"{row.servers:,}", f"{row.started:,}"]
        cells += [report.seconds(row.wall), report.seconds(row.processor)]
        cells += [f"{row.tasks / row.wall:,.0f}", report.seconds(row.sampling)]
        cells.append(f"{row.drawn:.2f}")
        goal = MOST_MEMORY if row.tasks == LARGEST else None
        peak = f"{row.peak:.2f}" if goal is None else report.at_most(row.peak, goal, "GiB")
        grid.add_row(*cells, peak)
    return grid


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="tiny days: does it still work?")
    parser.add_argument("--large", action="store_true", help="10,000,000 tasks too")
    parser.add_argument("--full", action="store_true", help="that and the slowest rival too")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    if options.quick:
        works = [dense_day(tasks, servers=20, users=30) for tasks in (300, 1_000)]
        rows = [measure(work, everyone=True) for work in works]
        large = [apart(_large, 3_000, 50)]
    else:
        play(day(users=5, tasks=50, servers=5))  # loads the machine code
        rows = []
        for tasks in (10_000, 100_000, GOAL_TASKS):
            rows.append(measure(dense_day(tasks), options.full or tasks < GOAL_TASKS))
            report.say(rows[-1])
        large = []
        for tasks in (GOAL_TASKS, LARGEST) if options.full or options.large else (GOAL_TASKS,):
            large.append(apart(_large, tasks, 100_000))
            report.say(large[-1])
    starts = start_up(1 if options.quick else 5)
    if options.json:
        found = {"days": [*map(asdict, rows)], "large": [*map(asdict, large)], "start": starts}
        report.print_json({"machine": report.machine(), **found})
        return
    report.show(report.machine_line(), days_table(rows), samples_table(rows), large_table(large))
    for name, (wall, processor) in starts.items():
        words = report.at_most(wall, MOST_SECONDS_TO_START, "s")
        report.show(f"{name}: {words}, {report.seconds(processor)} of the processor")


if __name__ == "__main__":
    main()
