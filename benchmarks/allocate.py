"""The exact mechanism against solvers of linear programs: one run, one table, ratios.

Run with ``make bench`` (all), or ``python benchmarks/allocate.py --quick`` (without the rows that
take minutes). Every time is from ready-made records to an answer with its certificate; big
tables are not built. Rivals are given the program as arrays, solve it once in a process of their
own after a warm-up, and certify nothing. Times are medians for us, single runs for them: only
the ratio means something on a noisy machine.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from statistics import median

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.instances import Instance, google, hard, merged
from benchmarks.rivals import RIVALS
from drfh import allocate
from drfh.allocation import Allocation
from drfh.mechanisms.solvers.slopes import Slopes

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
    """Return (seconds, level) of a rival. Two of them bring their own HiGHS: one process each."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_rival, name, instance).result()


def _memory(size: tuple[int, int, int]) -> tuple[float, float, float]:
    """Run in a process of its own: (seconds, gap, peak MB) of the second call."""
    instance = hard(*size)
    allocate(instance.cluster, instance.users)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    allocation = allocate(instance.cluster, instance.users)
    seconds = time.perf_counter() - started
    peak = max(before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    assert allocation.certificate is not None
    return seconds, allocation.certificate.gap, peak / 1024


def level_of(allocation: Allocation) -> float:
    assert allocation.certificate is not None
    return float(allocation.certificate.rounds[0].level)


def show(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-6:.2g} µs"


def compare(instance: Instance, against: Instance, names: list[str]) -> None:
    """Print one instance: us, the core, and every rival with its ratio."""
    allocation = allocate(instance.cluster, instance.users)
    assert allocation.certificate is not None
    assert allocation.verify()
    public = timed(lambda: allocate(instance.cluster, instance.users))
    two = instance.direction.shape[1] == 2
    inner = timed(lambda: core(instance)) if two else None
    gap = core(instance) if two else allocation.certificate.gap
    print(f"\n{instance.name}: {allocation.method}, gap {allocation.certificate.gap:.0e}")
    line = f"  {'us, public call':<16}{show(public):>10}"
    print(line + (f"   array core {show(inner)} (gap {gap:.0e})" if inner else ""))
    for name in names:
        seconds, level = rival(name, against)
        ratios = [f"{seconds / public:,.0f}×"] + ([f"{seconds / inner:,.0f}×"] if inner else [])
        goal = GOALS.get((instance.name, name))
        verdict = ""
        if goal:
            met = seconds / public >= goal[0] and (
                goal[1] is None or (inner is not None and seconds / inner >= goal[1])
            )
            wanted = " and ".join(f"{g:,}×" for g in goal if g)
            verdict = f"   goal {wanted}: {'met' if met else 'NOT MET'}"
        error = level / level_of(allocation) - 1
        print(
            f"  {name:<16}{show(seconds):>10}   us faster by {' / core '.join(ratios):<24} "
            f"its level differs by {error:+.0e}{verdict}",
            flush=True,
        )


def large() -> None:
    """Print the largest case of two resources, in a process of its own."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        seconds, gap, peak = pool.submit(_memory, (10_000, 100_000, 2)).result()
    met = seconds < 0.5 and peak < 500
    print(
        f"\nhard 10,000 × 100,000, m = 2: {show(seconds)} with certificate (gap {gap:.0e}), peak "
        f"memory {peak:.0f} MB   goal 0.5 s and 500 MB: {'met' if met else 'NOT MET'}",
        flush=True,
    )


def stretch() -> None:
    """Print the large case of four resources."""
    instance = hard(933, 12_583, 4)
    cpu, wall = time.process_time(), time.perf_counter()
    allocation = allocate(instance.cluster, instance.users)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    assert allocation.certificate is not None
    print(
        f"\n{instance.name}: {show(wall)}, {cpu:.0f} CPU s, gap {allocation.certificate.gap:.0e}, "
        f"verified: {bool(allocation.verify())}   goal gap 1e-8 in 113 CPU s: "
        f"{'met' if allocation.certificate.gap <= 1e-8 and cpu < 113 else 'NOT MET'}",
        flush=True,
    )


def scaling(quick: bool) -> list[tuple[int, int, float, float]]:
    """Print and return (resources, servers, our seconds, cvxpy's seconds or NaN)."""
    print(f"\nscaling, 100 users\n  {'servers':>9} {'m':>3} {'us':>10} {'cvxpy':>10} {'ratio':>9}")
    rows = []
    for m, largest, rival_until in ((2, 100_000, 1_000), (4, 10_000, 300)):
        for servers in (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000):
            if servers > largest or (quick and m == 4 and servers > 1_000):
                continue
            instance = hard(100, servers, m)
            ours = timed(lambda one=instance: allocate(one.cluster, one.users))  # type: ignore[misc]
            theirs = rival("cvxpy", instance)[0] if servers <= rival_until else float("nan")
            ratio = f"{theirs / ours:,.0f}×" if theirs == theirs else ""
            other = show(theirs) if theirs == theirs else ""
            print(f"  {servers:>9,} {m:>3} {show(ours):>10} {other:>10} {ratio:>9}", flush=True)
            rows.append((m, servers, ours, theirs))
    return rows


def draw(rows: list[tuple[int, int, float, float]], path: Path) -> None:
    """Draw the scaling curve."""
    import altair
    import polars

    from drfh.report.page import figure_bytes

    points = [(k, s, f"drfh, m = {m}") for m, k, s, _ in rows]
    points += [(k, s, f"cvxpy, m = {m}") for m, k, _, s in rows if s == s]
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
    from drfh.warm import warm_up

    warm_up()
    one = google()
    compare(one, merged(one), list(RIVALS))
    two = hard(100, 1_000, 2)
    compare(two, two, list(RIVALS))
    four = hard(100, 1_000, 4)
    compare(four, four, ["cvxpy"] if options.quick else list(RIVALS))
    large()
    if not options.quick:
        stretch()
    rows = scaling(options.quick)
    if options.plot:
        draw(rows, options.plot)


if __name__ == "__main__":
    main()
