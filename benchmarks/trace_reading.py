"""Google's trace: drfh against a plain pandas reader of the same rows, as ratios.

Run with ``make bench-trace``; ``--full`` adds ten times the size. It needs ``DRFH_DATA``, the
directory with ``clusterdata-2011-2`` in it, or ``--path``. drfh and the rival of `trace_rivals`
take turns in one process; times are the best of several, by the clock on the wall. drfh reads
servers and server events too, checks every row and builds a workload; the rival stops at a table of
tasks. The tasks are compared one by one. First reads and peaks of memory are of fresh processes.
"""

from __future__ import annotations

import argparse
import gzip
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import report
from benchmarks.processes import apart, peak_memory
from drfh.traces import Trace, read

FORMAT = "google-2011"
SIZES = (2, 7, 14)
COPIES = 10
REPEATS = 5
GOAL_PARTS, GOAL = 14, 3  # times as fast, for so many parts
MOST_MEMORY = 4.0  # GiB, for ten times that
START = 600_000_000  # microseconds; what has time 0 was there before
JOBS = 10**10  # no job of the trace has such a number


def parts(folder: Path) -> list[Path]:
    """Return the files of ``task_events``.

    >>> parts(Path("no-such-trace"))
    []
    """
    return sorted((folder / "task_events").glob("part-*"))


def part_of(folder: Path, to: Path, size: int) -> Path:
    """Make a trace of the first parts of another one, by links."""
    (to / "task_events").mkdir(parents=True)
    (to / "machine_events").symlink_to((folder / "machine_events").resolve())
    for path in parts(folder)[:size]:
        (to / "task_events" / path.name).symlink_to(path.resolve())
    return to


def longer(folder: Path, to: Path, copies: int) -> Path:
    """Write a trace of several copies, each after the one before it and with jobs of its own."""
    (to / "task_events").mkdir(parents=True)
    (to / "machine_events").symlink_to((folder / "machine_events").resolve())
    found = parts(folder)
    length = int(_rows(found[-1])["time"].max()) - START  # type: ignore[arg-type]
    for number, path in enumerate(found):
        rows = _rows(path)
        for copy in range(copies):
            time = pl.col("time") if not copy else pl.max_horizontal("time", pl.lit(START))
            moved = rows.with_columns(time + copy * length, pl.col("job") + copy * JOBS)
            name = f"part-{copy * len(found) + number:05}-of-{copies * len(found):05}.csv.gz"
            text = moved.write_csv(include_header=False, null_value="").encode()
            (to / "task_events" / name).write_bytes(gzip.compress(text, 1))
    return to


def _rows(path: Path) -> pl.DataFrame:
    """Return rows with time and job as numbers, and the rest as the text that it is."""
    frame = pl.read_csv(path, has_header=False, infer_schema=False)
    names = frame.columns
    frame = frame.rename({names[0]: "time", names[2]: "job"})
    return frame.with_columns(pl.col("time", "job").cast(pl.Int64))


@dataclass(frozen=True)
class Row:
    """Seconds of both for some parts; `processor` is what drfh's threads took together."""

    parts: int
    rows: int
    tasks: int
    ours: float
    processor: float
    rival: float
    same: bool


@dataclass(frozen=True)
class Fresh:
    """A first read in a process of its own: seconds of the clock, and the peak in GiB."""

    reader: str
    parts: int
    tasks: int
    seconds: float
    peak: float


def ours(folder: Path) -> Trace:
    """Read with drfh."""
    return read(FORMAT, folder)


def rival(folder: Path) -> Any:
    """Read with pandas."""
    from benchmarks.trace_rivals import read_tasks

    return read_tasks(folder)


def same_tasks(trace: Trace, table: Any) -> bool:
    """Return whether both found the same tasks: who, when, how long and what for."""
    workload = trace.workload
    if workload.task_count != len(table):
        return False
    names = np.array([user.name for user in workload.users], dtype=object)
    demand = workload.demand[workload.batch_shape]
    pairs = [
        (workload.batch_arrival, table["arrival"]),
        (workload.duration, table["duration"]),
        (demand[:, 0], table["cpu"].fillna(0)),
        (demand[:, 1], table["memory"].fillna(0)),
        (names[workload.batch_user], table["user"].astype(object)),
    ]
    return all(bool((mine == other.to_numpy()).all()) for mine, other in pairs)


def measure(folder: Path, repeats: int) -> Row:
    """Let both read, in turns."""
    mine, processor, others = [], [], []
    for _ in range(repeats):
        began, used = time.perf_counter(), time.process_time()
        trace = ours(folder)
        mine.append(time.perf_counter() - began)
        processor.append(time.process_time() - used)
        began = time.perf_counter()
        table = rival(folder)
        others.append(time.perf_counter() - began)
    return Row(
        parts=len(parts(folder)),
        rows=trace.counts["rows"],
        tasks=trace.workload.task_count,
        ours=min(mine),
        processor=min(processor),
        rival=min(others),
        same=same_tasks(trace, table),
    )


def first_read(reader: Callable[[Path], Any], folder: Path) -> Fresh:
    """Read once, in this process."""
    if reader is rival:
        import benchmarks.trace_rivals  # noqa: F401  (drfh is loaded by now as well)
    began = time.perf_counter()
    found = reader(folder)
    seconds = time.perf_counter() - began
    tasks = found.workload.task_count if isinstance(found, Trace) else len(found)
    name = "drfh" if reader is ours else "pandas"
    return Fresh(name, len(parts(folder)), tasks, seconds, peak_memory())


def turns_table(rows: Sequence[Row]) -> Table:
    """Return times and ratios."""
    title = "Google's trace, and how many times as fast as pandas drfh is"
    columns = ["parts", "rows", "tasks", "drfh", "processor", "rows/s", "pandas", "times"]
    grid = report.table(title, [*columns, "same tasks"], words=0)
    for row in rows:
        cells = [f"{row.parts:,}", f"{row.rows:,}", f"{row.tasks:,}", report.seconds(row.ours)]
        cells += [report.seconds(row.processor), f"{row.rows / row.ours:,.0f}"]
        goal = GOAL if row.parts == GOAL_PARTS else None
        cells += [report.seconds(row.rival), report.times(row.rival / row.ours, goal)]
        grid.add_row(*cells, "yes" if row.same else "NO")
    return grid


def fresh_table(rows: Sequence[Fresh]) -> Table:
    """Return first reads."""
    title = "a first read in a process of its own (drfh loads its compiled code in that time)"
    grid = report.table(title, ["reader", "parts", "tasks", "seconds", "peak memory"])
    for row in rows:
        peak = f"{row.peak:.2f} GiB"
        if row.reader == "drfh" and row.parts >= COPIES * GOAL_PARTS:
            peak = report.at_most(row.peak, MOST_MEMORY, "GiB")
        seconds = report.seconds(row.seconds)
        grid.add_row(row.reader, f"{row.parts:,}", f"{row.tasks:,}", seconds, peak)
    return grid


def find_trace(path: Path | None) -> Path | None:
    """Return the directory of the trace; None if there is none at hand."""
    data = os.environ.get("DRFH_DATA")
    if path is None and data:
        path = Path(data) / "clusterdata-2011-2"
    return path if path is not None and (path / "task_events").is_dir() else None


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--path", type=Path, help="the trace, if not in DRFH_DATA")
    parser.add_argument("--quick", action="store_true", help="read once: does it still work?")
    parser.add_argument("--full", action="store_true", help="ten times the size too")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    folder = find_trace(options.path)
    if folder is None:
        report.say(
            "skipped: set DRFH_DATA to the directory with clusterdata-2011-2 in it, or --path"
        )
        return
    there = len(parts(folder))
    with tempfile.TemporaryDirectory() as scratch:
        if not options.quick:
            import numba  # noqa: F401  (so that small sizes take compiled code as well)
        rows = []
        for size in dict.fromkeys(min(size, there) for size in SIZES):
            some = part_of(folder, Path(scratch) / f"{size}-parts", size)
            ours(some)  # loads the machine code
            rows.append(measure(some, 1 if options.quick else REPEATS))
            report.say(rows[-1])
        folders = [folder]
        if options.full:
            report.say(f"writing {COPIES} times the trace")
            folders.append(longer(folder, Path(scratch) / "longer", COPIES))
        fresh = []
        for one in folders:
            for reader in (ours, rival):
                fresh.append(apart(first_read, reader, one))
                report.say(fresh[-1])
    if options.json:
        found = {"turns": [*map(asdict, rows)], "fresh": [*map(asdict, fresh)]}
        report.print_json({"machine": report.machine(), **found})
        return
    report.show(report.machine_line(), turns_table(rows), fresh_table(fresh))


if __name__ == "__main__":
    main()
