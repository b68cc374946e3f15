"""Microseconds a call of ``drfh.Scheduler``, by core and size of the cluster.

Run with ``python benchmarks/calls.py``, or with ``--quick`` (tiny pools, to see that it works).
Servers of 16 CPU and 64 GiB are full, and every user has tasks waiting: a task ends, `place` starts
the next one, and one more is submitted. Means over the calls, in seconds of the processor; the
first calls, which load compiled code, do not count. `log=True`, as by default.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import report
from drfh import Cluster, Scheduler, Server

CALLS = ("submit", "place", "finish", "why", "status", "snapshot", "restore")
_WARM = 20


@dataclass(frozen=True)
class Size:
    """A cluster, and how often the calls are made."""

    engine: Any
    servers: int
    users: int
    calls: int


SIZES = (
    Size("plain", 10, 10, 2_000),
    Size("plain", 50, 50, 500),
    Size("indexed", 50, 50, 5_000),
    Size("indexed", 2_000, 50, 20_000),
    Size("indexed", 12_583, 1_000, 20_000),
)
QUICK = (Size("plain", 2, 2, 5), Size("indexed", 4, 2, 5))


def measure(size: Size) -> dict[str, float]:
    """Return seconds a call, by the name of the call."""
    cluster = Cluster([Server({"cpu": 16, "memory": "64Gi"}, name="n", count=size.servers)])
    scheduler = Scheduler(cluster, engine=size.engine)
    for user in range(size.users):
        scheduler.add_user(f"u{user}")
        demand: dict[str, float | str] = {"cpu": 1 + user % 3, "memory": "3Gi"}
        waiting = 2 + size.servers * 20 // size.users
        scheduler.submit(f"w{user}", f"u{user}", demand, count=waiting)
    running = [placed.task for placed in scheduler.place()]
    spent: Counter[str] = Counter()
    times = Counter(dict.fromkeys(CALLS, 1))

    def timed(call: str, function: Callable[..., Any], *arguments: Any) -> Any:
        start = time.process_time()
        answer = function(*arguments)
        spent[call] += time.process_time() - start  # type: ignore[assignment]
        return answer

    for step in range(size.calls + _WARM):
        if step == _WARM:
            spent.clear()
        timed("finish", scheduler.finish, running.pop(0))
        running += [placed.task for placed in timed("place", scheduler.place)]
        demand = {"cpu": 1, "memory": "3Gi"}
        timed("submit", scheduler.submit, f"x{step}", f"u{step % size.users}", demand)
    times.update(dict.fromkeys(("finish", "place", "submit"), size.calls - 1))
    timed("why", scheduler.why, f"x{size.calls + _WARM - 1}")
    timed("status", scheduler.status)
    snapshot = timed("snapshot", scheduler.snapshot)
    timed("restore", partial(Scheduler.restore, engine=size.engine), snapshot)
    return {call: spent[call] / times[call] for call in CALLS}


def table(rows: Sequence[tuple[Size, dict[str, float]]]) -> Table:
    """Return the table of times."""
    grid = report.table("time of a call", ["core", "servers", "users", *CALLS])
    for size, cost in rows:
        cells = [size.engine, f"{size.servers:,}", f"{size.users:,}"]
        grid.add_row(*cells, *(report.seconds(cost[call]) for call in CALLS))
    return grid


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="tiny pools: does it still work?")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    rows = [(size, measure(size)) for size in (QUICK if options.quick else SIZES)]
    if options.json:
        found = [asdict(size) | {"seconds": cost} for size, cost in rows]
        report.print_json({"machine": report.machine(), "rows": found})
        return
    report.show(report.machine_line(), table(rows))


if __name__ == "__main__":
    main()
