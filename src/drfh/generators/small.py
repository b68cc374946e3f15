"""Small workloads that each show one effect; the paper's experiment of three users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from drfh.errors import InputError
from drfh.files.reader import Ledger
from drfh.files.scenario_file import load_scenario
from drfh.generators.base import Generator
from drfh.model.cluster import Cluster, Server
from drfh.model.jobs import Workload
from drfh.traces.base import Option, TraceReading
from drfh.traces.build import build

__all__ = ["BURSTS", "ELEPHANTS_AND_MICE", "GPU_MIX", "PAPER_DYNAMIC", "TWO_SHAPES"]

Floats: TypeAlias = NDArray[np.float64]

_SEED = Option("seed", "Start of the draws.", "whole", 7)


def _hours(default: float) -> Option:
    return Option("hours", "For how long jobs arrive.", "number", default)


def _servers(default: int) -> Option:
    return Option("servers", "How many servers.", "whole", default)


def _at_least(options: Mapping[str, Any], **least: int) -> None:
    for name, number in least.items():
        if options[name] < number:
            raise InputError(name, f"must be a whole number ≥ {number}", options[name])


class _WorkloadBuilder:
    """Batches of equal tasks, collected user by user."""

    def __init__(self, *resources: str) -> None:
        self._resources = resources
        self._parts: list[pl.DataFrame] = []

    def add(
        self,
        user: str,
        demand: Sequence[float],
        arrival: Floats,
        duration: Floats,
        tasks: NDArray[np.int64] | int = 1,
    ) -> None:
        """Add a job at each arrival, of equal tasks."""
        columns: dict[str, Any] = {
            "user": user,
            "arrival": arrival,
            "duration": np.round(np.broadcast_to(duration, arrival.shape), 3),
            "tasks": np.broadcast_to(tasks, arrival.shape),
        }
        columns |= dict(zip(self._resources, map(float, demand), strict=True))
        self._parts.append(pl.DataFrame(columns))

    def build(self, servers: Sequence[Server], lesson: str, ledger: Ledger) -> TraceReading:
        """Return it all, in the order of arrival."""
        frame = pl.concat(self._parts).sort("arrival", maintain_order=True)
        frame = frame.with_row_index("job", offset=1).with_columns(
            pl.format("job-{}", "job").alias("job"),
            (pl.col("arrival") == 0).alias("at_start"),
            pl.lit("finish").alias("end"),
        )
        workload, details = build(frame, self._resources)
        return _reading(Cluster(servers), workload, details, lesson, ledger)


def _reading(
    cluster: Cluster, workload: Workload, details: pl.DataFrame, lesson: str, ledger: Ledger
) -> TraceReading:
    ledger.count("users", len(workload.users))
    ledger.count("jobs", workload.job_count)
    ledger.count("tasks", workload.task_count)
    ledger.remark(lesson)
    return TraceReading(cluster, workload, details)


def _bursts(options: Mapping[str, Any], ledger: Ledger) -> TraceReading:
    _at_least(options, servers=1)
    draw, servers = np.random.default_rng(options["seed"]), options["servers"]
    builder = _WorkloadBuilder("cpu", "memory")
    # 5 minutes on average, so many a second that they fill two fifths of the CPUs.
    rate = 0.4 * servers * 16 / 2 / 300
    length = options["hours"] * 3600
    arrival = np.sort(draw.uniform(0, length, max(1, round(rate * length))))
    builder.add("steady", (2, 6), arrival, draw.uniform(200, 400, len(arrival)))
    hours = np.arange(0, length, 3600.0) + 900
    builder.add("bursty", (2, 6), hours, np.full(len(hours), 300.0), servers * 8 * 4)
    lesson = (
        "a burst may take what is idle, but under DRFH a steady user who asks for less than its "
        "share hardly waits for it, while under fifo it waits for the whole burst"
    )
    return builder.build([Server({"cpu": 16, "memory": 64}, count=servers)], lesson, ledger)


def _two_shapes(options: Mapping[str, Any], ledger: Ledger) -> TraceReading:
    _at_least(options, servers=2, users=2)
    draw, servers, users = (
        np.random.default_rng(options["seed"]),
        options["servers"],
        options["users"],
    )
    builder = _WorkloadBuilder("cpu", "memory")
    # 700 s on average, so many that each kind would fill three quarters of its own servers.
    jobs = max(1, round(0.75 * 8 * servers / 2 * 3600 / 700 / 2 * options["hours"] * 2 / users))
    for number in range(users):
        kind, demand = (("cpu", (4, 4)), ("memory", (1, 16)))[number % 2]
        arrival = np.sort(draw.uniform(0, options["hours"] * 3600, jobs))
        builder.add(f"{kind}-{number // 2 + 1}", demand, arrival, draw.uniform(500, 900, jobs), 2)
    lesson = (
        "where servers differ it matters which one a task gets: Best-Fit sends tasks that need "
        "CPU and tasks that need memory to servers of their kind, and few wait; First-Fit does not"
    )
    half = servers // 2
    pool = [
        Server({"cpu": 32, "memory": 32}, name="high-cpu", count=servers - half),
        Server({"cpu": 8, "memory": 128}, name="high-memory", count=half),
    ]
    return builder.build(pool, lesson, ledger)


def _elephants(options: Mapping[str, Any], ledger: Ledger) -> TraceReading:
    _at_least(options, servers=1, users=2)
    draw, servers = np.random.default_rng(options["seed"]), options["servers"]
    builder = _WorkloadBuilder("cpu", "memory")
    length = options["hours"] * 3600
    huge = np.arange(0, length, 3600.0)
    # Each fills all servers for an hour.
    builder.add("elephant", (1, 4), huge, np.full(len(huge), 1200.0), servers * 16 * 3)
    for number in range(1, options["users"]):
        jobs = max(1, round(options["hours"] * 4))
        arrival = np.sort(draw.uniform(0, length, jobs))
        tasks = draw.integers(1, 5, jobs)
        builder.add(f"mouse-{number}", (1, 2), arrival, draw.uniform(60, 300, jobs), tasks)
    lesson = (
        "first in, first out makes the small users wait behind the huge one; fair shares let them "
        "pass, and cost the huge one little"
    )
    return builder.build([Server({"cpu": 16, "memory": 64}, count=servers)], lesson, ledger)


def _gpu_mix(options: Mapping[str, Any], ledger: Ledger) -> TraceReading:
    _at_least(options, servers=2)
    draw, servers = np.random.default_rng(options["seed"]), options["servers"]
    length, equipped = options["hours"] * 3600, max(1, servers // 4)
    builder = _WorkloadBuilder("cpu", "memory", "gpu")

    def when(number: float) -> Floats:
        return np.sort(draw.uniform(0, length, max(1, round(number))))

    training = when(options["hours"] * equipped)
    builder.add("training", (8, 64, 2), training, draw.uniform(1800, 5400, len(training)), 2)
    notebooks = when(options["hours"] * equipped * 2)
    builder.add("notebooks", (2, 16, 1), notebooks, draw.uniform(300, 1800, len(notebooks)))
    cleaning = when(options["hours"] * 16)
    many = round(servers * 1.3)
    builder.add("cleaning", (4, 16, 0), cleaning, draw.uniform(600, 1800, len(cleaning)), many)
    lesson = (
        "tasks that need no GPU can fill the servers that have some: First-Fit strands GPUs behind "
        "full CPUs, Best-Fit sends such tasks where there are no GPUs first"
    )
    pool = [
        Server({"cpu": 64, "memory": 512, "gpu": 8}, name="gpu", count=equipped),
        Server({"cpu": 64, "memory": 256}, name="cpu", count=servers - equipped),
    ]
    return builder.build(pool, lesson, ledger)


def _paper(options: Mapping[str, Any], ledger: Ledger) -> TraceReading:
    del options
    scenario = load_scenario("paper-dynamic")
    workload = scenario.workload
    details = pl.DataFrame({"at_start": workload.batch_arrival == 0}).with_columns(
        pl.lit("finish").alias("end")
    )
    lesson = (
        "when users come and go the dominant shares of those present are soon equal again; the "
        "paper gives no numbers or run times of tasks: these let user 1 leave near 1,080 s"
    )
    return _reading(scenario.cluster, workload, details, lesson, ledger)


BURSTS = Generator("A steady user beside a bursty one", _bursts, (_hours(4.0), _servers(10), _SEED))
TWO_SHAPES = Generator(
    "CPU-heavy against memory-heavy users on two shapes of servers",
    _two_shapes,
    (Option("users", "How many users.", "whole", 6), _hours(3.0), _servers(10), _SEED),
)
ELEPHANTS_AND_MICE = Generator(
    "One user with huge jobs among many with small ones",
    _elephants,
    (Option("users", "How many users.", "whole", 11), _hours(4.0), _servers(10), _SEED),
)
GPU_MIX = Generator(
    "Training, notebooks and CPU-only work where some servers have GPUs",
    _gpu_mix,
    (_hours(12.0), _servers(16), _SEED),
)
PAPER_DYNAMIC = Generator("The paper's experiment of three users on 100 servers", _paper)
