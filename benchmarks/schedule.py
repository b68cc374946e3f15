"""Placements a second: drfh's scheduler against numpy scans over the servers, as ratios.

Run with ``make bench-schedule``, or ``python benchmarks/schedule.py --quick`` (tiny pools, to see
that it works). Everybody makes the same steps on the same pool in steady state at 80 % load: the
oldest task ends, the user whose turn it is places one, and asks for the next; see
`online_rivals.churn`. The choices are compared by a hash. Loops are warm and take turns; each time
is the best of three, in seconds of the processor (all of it is one thread). The rivals find the
user whose turn it is with numpy too, and their time covers that.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import report
from benchmarks.online.drfh_runs import OurChurn, PublicChurn, Steps
from benchmarks.online.instances import Churn, churn_work
from benchmarks.online.rivals import (
    ColumnServers,
    Integers,
    NumpyServers,
    Policy,
    RowServers,
    Servers,
    churn,
    digest,
)

REPEATS = 3
KERNELS, CALLS = "drfh kernels", "drfh calls"
RIVALS: dict[str, Callable[[Integers, Integers], Servers]] = {
    "numpy scan": ColumnServers,
    "tuned scan": NumpyServers,
    "scan of rows": RowServers,
}
MEASURED_AGAINST = "numpy scan"
# The ratios that the project holds itself to: (servers, resources, policy), for 1,000 users.
GOALS: dict[tuple[int, int, Policy], float] = {
    (2_000, 2, "best-fit"): 10,
    (12_583, 2, "best-fit"): 25,
    (100_000, 2, "best-fit"): 200,
    (2_000, 2, "first-fit"): 10,
    (12_583, 2, "first-fit"): 10,
    (100_000, 2, "first-fit"): 40,
    (12_583, 3, "best-fit"): 5,
}
SIZES = (500, 2_000, 5_000, 12_583, 30_000, 100_000)


@dataclass(frozen=True)
class Case:
    """One pool: servers, users, resources and policy."""

    servers: int
    policy: Policy
    m: int = 2
    users: int = 1_000

    @property
    def goal(self) -> float | None:
        """The ratio to reach against the plain scan."""
        return GOALS.get((self.servers, self.m, self.policy)) if self.users == 1_000 else None


CASES = (
    *(Case(servers, "best-fit") for servers in SIZES),
    *(Case(servers, "first-fit") for servers in SIZES),
    Case(12_583, "best-fit", m=3),
    Case(12_583, "first-fit", m=3),
    Case(12_583, "best-fit", users=3_000),
    Case(12_583, "best-fit", users=10_000),
    Case(12_583, "first-fit", users=10_000),
)
QUICK = (
    Case(60, "best-fit", users=40),
    Case(60, "first-fit", users=40),
    Case(60, "best-fit", m=3, users=40),
)


@dataclass(frozen=True)
class Row:
    """Thousand placements a second of everybody in one case."""

    case: Case
    running: int
    rate: dict[str, float]
    same: bool

    def ratio(self, name: str) -> float:
        """How many times as fast the kernels are."""
        return self.rate[KERNELS] / self.rate[name]


def scan(name: str, work: Churn, policy: Policy, steps: int) -> Steps:
    """Return what a rival does; every run starts from the same state."""
    run = churn(work, RIVALS[name](work.capacity, work.free), policy, steps)
    return Steps(run.user, run.server, run.seconds)


def calibrated(run: Callable[[int], Steps], wanted: float, most: int) -> int:
    """Return how many steps take about `wanted` seconds, after two shorter runs to warm up."""
    steps = 20
    for part in (0.1, 1.0):
        rate = steps / run(steps).seconds
        steps = max(20, min(most, int(rate * wanted * part)))
    return steps


def agree(reference: Steps, found: Steps) -> bool:
    """Return whether these choices are the reference's at the same steps, by a hash."""
    there = slice(found.first, found.first + len(found.user))
    assert there.stop <= len(reference.user)
    return digest(found.user, found.server) == digest(
        reference.user[there], reference.server[there]
    )


def measure(case: Case, wanted: float, most: int) -> Row:
    """Let everybody churn one pool, in turns, each for about `wanted` seconds a try."""
    work = churn_work(case.servers, case.policy, users=case.users, m=case.m)
    ours = OurChurn(work, case.policy, most)
    desk = PublicChurn(work, case.policy)
    ours.run(1)  # compiles
    contenders: dict[str, Callable[[int], Steps]] = {KERNELS: ours.run, CALLS: desk.run}
    for name in RIVALS:
        contenders[name] = partial(scan, name, work, case.policy)
    steps = {
        name: calibrated(run, wanted, most if name == KERNELS else most // 8)
        for name, run in contenders.items()
    }
    tries: dict[str, list[Steps]] = {name: [] for name in contenders}
    for _ in range(REPEATS):
        for name, run in contenders.items():
            tries[name].append(run(steps[name]))
    found = [run for runs in tries.values() for run in runs]
    reference = ours.run(max(run.first + len(run.user) for run in found))
    rates = {name: steps[name] / min(run.seconds for run in tries[name]) for name in tries}
    same = all(agree(reference, run) for run in found)
    return Row(case, len(work.task_user), {n: rate / 1e3 for n, rate in rates.items()}, same)


def rates(rows: Sequence[Row]) -> Table:
    """Return the table of rates and ratios."""
    title = "thousand placements a second, and how many times as fast the kernels are (goal)"
    columns = ["policy", "m", "servers", "users", KERNELS, CALLS]
    columns += [word for name in RIVALS for word in (name, "faster")]
    grid = report.table(title, [*columns, "same hash"])
    for before, row in zip([None, *rows], rows, strict=False):
        if before is not None and before.case.policy != row.case.policy:
            grid.add_section()
        case = row.case
        cells = [case.policy, f"{case.m}", f"{case.servers:,}", f"{case.users:,}"]
        cells += [report.number(row.rate[name]) for name in (KERNELS, CALLS)]
        for name in RIVALS:
            goal = case.goal if name == MEASURED_AGAINST else None
            cells += [report.number(row.rate[name]), report.times(row.ratio(name), goal)]
        grid.add_row(*cells, "yes" if row.same else "NO")
    return grid


def curve(rows: Sequence[Row]) -> Table:
    """Return how the time of one placement grows with the servers."""
    names = [KERNELS, *RIVALS]
    title = "scaling: microseconds a placement (m = 2, 1,000 users)"
    grid = report.table(title, ["policy", "servers", "running tasks", *names])
    for row in rows:
        if row.case.m == 2 and row.case.users == CASES[0].users:
            costs = [1e3 / row.rate[name] for name in names]
            cells = [f"{row.case.servers:,}", f"{row.running:,}", *map(report.number, costs)]
            grid.add_row(row.case.policy, *cells)
    return grid


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="tiny pools: does it still work?")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    wanted, most = (0.01, 2_000) if options.quick else (0.5, 400_000)
    rows = []
    for case in QUICK if options.quick else CASES:
        rows.append(measure(case, wanted, most))
        report.say(rows[-1])
    if options.json:
        found = [
            asdict(row) | {"goal": row.case.goal, "ratio": {n: row.ratio(n) for n in RIVALS}}
            for row in rows
        ]
        report.print_json({"machine": report.machine(), "rows": found})
        return
    report.show(report.machine_line(), rates(rows), curve(rows))


if __name__ == "__main__":
    main()
