"""Traces to read: some parts of Google's, or all of it several times, one after another."""

from __future__ import annotations

import gzip
from pathlib import Path

import polars as pl

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
