"""The exact mechanism against solvers of linear programs: one run, three tables, ratios.

Run with ``make bench`` (all), or ``python benchmarks/allocate.py --quick`` (without the rows that
take minutes). Every time is from ready-made records to an answer with its certificate; big
tables are not built. Rivals are given the program as arrays, solve it once in a process of their
own after a warm-up, and certify nothing. Times are medians for us, single runs for them: only
the ratio means something on a noisy machine.

Fleets and mixtures, which take several rounds of the leximin order, have tables of their own: see
`rounds`.
"""

from __future__ import annotations

import argparse
import functools
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import report
from benchmarks.instances import Instance, google, hard, merged
from benchmarks.processes import apart, peak_memory
from benchmarks.rivals import RIVALS
from benchmarks.rounds import fleet_table, mixture_table
from drfh import allocate
from drfh.allocation.allocation import Allocation
from drfh.allocation.proofs.certificate import Certificate
from drfh.mechanisms.solvers.closed_form import Slopes

# Minimal ratios that the project holds itself to: (row, rival) → (public call, array core).
GOALS = {
    ("hard 100 × 1,000, m = 2", "cvxpy"): (1000, 5000),
    ("Google, 933 users", "cvxpy"): (100, 500),
    ("hard 100 × 1,000, m = 4", "cvxpy"): (5, None),
}


def timed(call: Callable[[], object], least: float = 0.5) -> float:
    """Return the median seconds of a call, repeated for about `least` seconds."""
    times: list[float] = []
    while not times or (sum(times) < least and len(times) < 500):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return median(times)


def core(instance: Instance) -> float:
    """Solve two resources from arrays: level, placement, price bound; return the gap."""
    d, c = instance.direction, instance.capacity
    slopes = Slopes(d[:, 0], d[:, 1], c[:, 0], c[:, 1])
    level, which = slopes.highest_level(np.ones(len(d)))
    user, server, placed, _ = slopes.sweep(np.full(len(d), level))
    reached = np.bincount(user, placed, len(d))
    load = [np.bincount(server, placed * d[user, r], len(c)) for r in range(2)]
    over = max(float((load[r] / c[:, r]).max()) for r in range(2))
    if which < len(d):
        s = slopes.slope[which]
        bound = np.minimum(s * c[:, 0], c[:, 1]).sum() / np.minimum(s * d[:, 0], d[:, 1]).sum()
    else:
        bound = c[:, which - len(d)].sum() / d[:, which - len(d)].sum()
    return float(1 - reached.min() / max(over, 1.0) / bound)


def _rival(name: str, instance: Instance) -> tuple[float, float]:
    """Run in a process of its own: (seconds, level) of a rival, imports and a warm-up apart."""
    RIVALS[name](hard(3, 3, 2))
    started = time.perf_counter()
    level = RIVALS[name](instance)
    return time.perf_counter() - started, level


def rival(name: str, instance: Instance) -> tuple[float, float]:
    """Return (seconds, level) of a rival. Some bring their own HiGHS: one process each."""
    return apart(_rival, name, instance)


def _memory(size: tuple[int, int, int]) -> tuple[float, float, float]:
    """Run in a process of its own: (seconds, gap, peak MB) of the second call."""
    instance = hard(*size)
    allocate(instance.cluster, instance.users)
    started = time.perf_counter()
    allocation = allocate(instance.cluster, instance.users)
    seconds = time.perf_counter() - started
    assert allocation.certificate is not None
    return seconds, allocation.certificate.gap, 1024 * peak_memory()


def level_of(allocation: Allocation) -> float:
    assert isinstance(allocation.certificate, Certificate)
    return float(allocation.certificate.rounds[0].level)


class AgainstSolvers:
    """One table, a row for each instance and solver; progress goes to stderr."""

    def __init__(self) -> None:
        columns = ("instance", "solver", "time", "faster, call", "faster, core", "error or gap")
        self.table = report.table("two and four resources, one round", columns, words=2)
        self.table.add_column("goal", no_wrap=True)

    def add(self, *cells: str) -> None:
        """Add a row."""
        report.say(*(cell for cell in cells if cell))
        self.table.add_row(*cells)

    def compare(self, instance: Instance, against: Instance, names: list[str]) -> None:
        """Add one instance: us, the core, and every rival with its ratios."""
        self.table.add_section()
        allocation = allocate(instance.cluster, instance.users)
        assert allocation.certificate is not None
        assert allocation.verify()
        public = timed(lambda: allocate(instance.cluster, instance.users))
        two = instance.direction.shape[1] == 2
        inner = timed(lambda: core(instance)) if two else math.nan
        gap = f"{allocation.certificate.gap:.0e}"
        method = f"drfh, {allocation.method}"
        self.add(instance.name, method, report.seconds(public), "", "", gap, "")
        if two:
            gap = f"{core(instance):.0e}"
            self.add("", "drfh, array core", report.seconds(inner), "", "", gap, "")
        for name in names:
            seconds, level = rival(name, against)
            ratio, core_ratio = seconds / public, seconds / inner
            goal = GOALS.get((instance.name, name))
            verdict = ""
            if goal:
                met = ratio >= goal[0] and (goal[1] is None or core_ratio >= goal[1])
                wanted = " and ".join(f"{g:,}×" for g in goal if g)
                verdict = f"{wanted}: {'met' if met else 'NOT MET'}"
            self.add(
                "",
                name,
                report.seconds(seconds),
                f"{ratio:,.0f}×" if ratio >= 10 else f"{ratio:.1f}×",
                f"{core_ratio:,.0f}×" if two else "",
                f"{level / level_of(allocation) - 1:+.0e}",
                verdict,
            )

    def large(self) -> None:
        """Add the largest case of two resources, in a process of its own."""
        self.table.add_section()
        seconds, gap, peak = apart(_memory, (10_000, 100_000, 2))
        met = "met" if seconds < 0.5 and peak < 500 else "NOT MET"
        goal = f"0.5 s and 500 MB: {met} ({peak:.0f} MB)"
        name = "hard 10,000 × 100,000, m = 2"
        self.add(name, "drfh, closed-form", report.seconds(seconds), "", "", f"{gap:.0e}", goal)

    def stretch(self) -> None:
        """Add the large cases of three and four resources; the goals are CPU seconds."""
        self.table.add_section()
        for instance, most in ((hard(933, 12_583, 4), 15), (hard(100, 100_000, 3), 25)):
            cpu, wall = time.process_time(), time.perf_counter()
            allocation = allocate(instance.cluster, instance.users)
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            assert allocation.certificate is not None
            assert allocation.verify()
            gap = allocation.certificate.gap
            met = "met" if gap <= 1e-8 and cpu <= most else "NOT MET"
            goal = f"gap 1e-8 in {most} CPU s: {met} ({cpu:.1f} CPU s)"
            method = f"drfh, {allocation.method}"
            self.add(instance.name, method, report.seconds(wall), "", "", f"{gap:.0e}", goal)

    def scaling(self, quick: bool) -> list[tuple[int, int, float, float]]:
        """Add a scaling curve; return (resources, servers, our seconds, cvxpy's or NaN)."""
        rows = []
        for m, largest, rival_until in ((2, 100_000, 1_000), (4, 10_000, 1_000)):
            self.table.add_section()
            for servers in (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000):
                if servers > largest or (quick and m == 4 and servers > 1_000):
                    continue
                instance = hard(100, servers, m)
                ours = timed(functools.partial(allocate, instance.cluster, instance.users))
                theirs = rival("cvxpy", instance)[0] if servers <= rival_until else math.nan
                faster = "" if math.isnan(theirs) else f"{theirs / ours:,.0f}×"
                other = "" if math.isnan(theirs) else f"cvxpy {report.seconds(theirs)}"
                name = f"scaling: 100 × {servers:,}, m = {m}"
                self.add(name, "drfh", report.seconds(ours), faster, "", "", other)
                rows.append((m, servers, ours, theirs))
        return rows


def draw(rows: list[tuple[int, int, float, float]], path: Path) -> None:
    """Draw the scaling curve."""
    import altair
    import polars

    from drfh.report.html import figure_bytes

    points = [(k, s, f"drfh, m = {m}") for m, k, s, _ in rows]
    points += [(k, s, f"cvxpy, m = {m}") for m, k, _, s in rows if not math.isnan(s)]
    frame = polars.DataFrame(points, schema=["servers", "seconds", "solver"], orient="row")
    chart = (
        altair.Chart(frame, width=460, height=280)
        .mark_line(point=True)
        .encode(
            altair.X("servers:Q", scale=altair.Scale(type="log")),
            altair.Y("seconds:Q", scale=altair.Scale(type="log")),
            altair.Color("solver:N", title=None),
        )
    )
    path.write_bytes(figure_bytes(chart, path.suffix))


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="leave out what takes minutes")
    parser.add_argument("--plot", type=Path, help="draw the scaling curve to .svg or .png")
    options = parser.parse_args()
    from drfh.precompile import warm_up

    warm_up()
    against = AgainstSolvers()
    one = google()
    against.compare(one, merged(one), list(RIVALS))
    two = hard(100, 1_000, 2)
    against.compare(two, two, list(RIVALS))
    four = hard(100, 1_000, 4)
    against.compare(four, four, ["cvxpy"] if options.quick else list(RIVALS))
    against.large()
    if not options.quick:
        against.stretch()
    rows = against.scaling(options.quick)
    report.show(against.table, fleet_table(options.quick), mixture_table(options.quick))
    if options.plot:
        draw(rows, options.plot)


if __name__ == "__main__":
    main()
