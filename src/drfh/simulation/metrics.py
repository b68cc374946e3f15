"""Metrics of a run: samples over time, and tables of its result."""

from __future__ import annotations

import math
import os
import platform
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from drfh import __version__
from drfh.allocation.fairness import missing_share, worst_off
from drfh.model.jobs import Workload
from drfh.model.resources import Units
from drfh.policies import Policy
from drfh.policies.policy import part_name
from drfh.scheduler.core import Core
from drfh.scheduler.nodes import NodeTable
from drfh.scheduler.rules import Rules
from drfh.simulation.driver import Driver, TaskLog
from drfh.simulation.plan import Plan
from drfh.simulation.result import Result, fair_numbers

__all__ = [
    "CoreUsage",
    "Finished",
    "Sample",
    "Samples",
    "default_interval",
    "jain",
    "make_result",
    "read_sample",
    "read_usage",
    "spread",
    "time_span",
]


Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

_MOST_SAMPLES = 1_000  # of a chosen interval; more are thinned out
_AIM = 200


@dataclass(frozen=True, eq=False)
class CoreUsage:
    """What the users of a core hold now.

    Attributes
    ----------
    usage : int array, users × resources
        Units that running tasks hold.
    running, queued, never : int array, users
        Tasks in each state.
    total : int array, resources
        Units of the servers that are up.
    """

    usage: Ints
    running: Ints
    queued: Ints
    never: Ints
    total: Ints

    @property
    def share(self) -> Floats:
        """Dominant share of each user."""
        parts = self.usage / np.where(self.total > 0, self.total, 1)
        share: Floats = parts.max(axis=1, initial=0.0, where=self.total > 0)
        return share

    @property
    def utilisation(self) -> Floats:
        """Used part of each resource; 0 where there is none."""
        used = self.usage.sum(axis=0)
        return np.where(self.total > 0, used / np.where(self.total > 0, self.total, 1), 0.0)

    @property
    def sample(self) -> Sample:
        """What a sample keeps of it."""
        running, queued = int(self.running.sum()), int(self.queued.sum())
        return Sample(self.share, self.utilisation, running, queued)


class Sample(NamedTuple):
    """What a sample keeps; see :class:`CoreUsage`."""

    share: Floats
    utilisation: Floats
    running: int
    """Tasks of all users."""
    queued: int


def read_sample(core: Core, plan: Plan) -> Sample:
    """Read a sample, with ``core.sample()`` where there is one."""
    own = getattr(core, "sample", None)
    return read_usage(core, plan).sample if own is None else Sample(*own())


def read_usage(core: Core, plan: Plan) -> CoreUsage:
    """Read what users hold, with ``core.usage_table()`` where there is one.

    ``core.usage_table()`` has the first four attributes of :class:`CoreUsage` and ``capacity``,
    servers × resources.
    """
    arrays = getattr(core, "usage_table", None)
    if arrays is not None:
        found = arrays()
        total = found.capacity.sum(axis=0)
        return CoreUsage(found.usage, found.running, found.queued, found.never, total)
    users, servers = range(len(plan.weight)), range(len(plan.capacity))
    resources = plan.need.shape[1]
    usage = np.array([core.usage(u) for u in users], dtype=np.int64).reshape(-1, resources)
    counts = np.array([core.counts(u) for u in users], dtype=np.int64).reshape(-1, 3)
    sizes = np.array([core.capacity(s) for s in servers], dtype=np.int64).reshape(-1, resources)
    return CoreUsage(usage, counts[:, 0], counts[:, 1], counts[:, 2], sizes.sum(axis=0))


def default_interval(plan: Plan, until: float | None) -> float:
    """Return a round number of seconds that gives about 200 samples.

    Examples
    --------
    >>> from drfh import Cluster, Job, Server, Workload
    >>> from drfh.policies import Policy
    >>> from drfh.simulation.plan import build
    >>> workload = Workload(["ann"], [Job("ann", demand={"cpu": 1}, duration=9, tasks=100)])
    >>> plan = build(Cluster([Server({"cpu": 4})]), workload, Policy())[1]
    >>> default_interval(plan, None), default_interval(plan, 3600)
    (2.0, 20.0)
    """
    span = time_span(plan) if until is None else until
    if not 0 < span < math.inf:
        return 1.0
    ten = 10.0 ** math.floor(math.log10(span / _AIM))
    return next(float(f"{s * ten:.0e}") for s in (1, 2, 5, 10, 20) if s * ten >= 0.99 * span / _AIM)


def time_span(plan: Plan) -> float:
    """Return roughly how long a plan takes.

    Until the last arrival, or until all work is done.

    Tasks that no server can ever hold are no work.
    """
    last = float(plan.arrival[-1]) if len(plan.arrival) else 0.0
    runs = np.isfinite(plan.duration) & _can_run(plan)[plan.shape][plan.batch]
    seconds = np.where(runs, plan.duration, 0.0)
    longest = float(seconds.max(initial=0.0))
    by_batch = np.bincount(plan.batch, seconds, minlength=len(plan.count))
    work = by_batch @ plan.need[plan.shape].astype(np.float64)
    total = plan.capacity.sum(axis=0)
    busy = work[total > 0] / total[total > 0]
    return max(last + longest, float(busy.max(initial=0.0)))


def _can_run(plan: Plan) -> Bools:
    """Return for each shape whether a server that is up at some time can hold a task of it."""
    rows, places = [plan.capacity], [np.arange(len(plan.capacity))]
    for change in plan.changes:
        places.append(np.array(change.positions, dtype=np.int64))
        rows.append(np.tile(np.array(change.capacity, dtype=np.int64), (len(change.positions), 1)))
    sizes, server = np.concatenate(rows), np.concatenate(places)
    can = np.zeros(len(plan.need), dtype=bool)
    for restriction in np.unique(plan.restriction).tolist():
        asks = np.flatnonzero(plan.restriction == restriction)
        kinds = np.unique(sizes[plan.allowed[restriction, server]], axis=0)
        if len(kinds) <= len(asks):
            for kind in kinds:
                can[asks] |= (plan.need[asks] <= kind).all(axis=1)
        else:
            for shape in asks.tolist():
                can[shape] = (plan.need[shape] <= kinds).all(axis=1).any()
    return can


class Samples:
    """Samples at multiples of an interval, kept as rows.

    Parameters
    ----------
    interval
        Seconds between samples.
    thin
        Whether to keep every other one, and double the interval, when there are too many.
    """

    def __init__(self, interval: float, *, thin: bool) -> None:
        self.interval = interval
        self.thin = thin
        self.number = 0  # of the next sample
        self.time: list[float] = []
        self.utilisation: list[Floats] = []
        self.running: list[int] = []
        self.queued: list[int] = []
        self.share: list[Floats] = []
        self.fair: list[Floats] = []  # fair levels; NaN for who is not active

    @property
    def next_time(self) -> float:
        """Time of the next sample."""
        return self.number * self.interval

    def take(self, sample: Sample, fair: Floats | None) -> None:
        """Keep a sample."""
        self.time.append(self.next_time)
        self.utilisation.append(sample.utilisation)
        self.running.append(sample.running)
        self.queued.append(sample.queued)
        self.share.append(sample.share)
        if fair is not None:
            self.fair.append(fair)
        self.number += 1
        if self.thin and len(self.time) > _MOST_SAMPLES:
            for column in (self.time, self.utilisation, self.running, self.queued, self.share):
                del column[1::2]
            del self.fair[1::2]
            self.interval *= 2
            self.number = len(self.time)


_ROUND_OFF = 1e-9  # of a fair level: less than this below it is not below


@dataclass(frozen=True, eq=False)
class Finished:
    """A run that is over, in numbers."""

    workload: Workload
    plan: Plan
    nodes: NodeTable
    units: Units
    driver: Driver
    samples: Samples
    policy: Policy
    seed: int
    source: str
    until: float | None
    horizon: float
    evicted: Ints
    usage: CoreUsage
    engine: str
    sample_seconds: float
    fair_seconds: float | None
    fair_solved: int
    fair_mixed: int
    seconds: float


def make_result(run: Finished) -> Result:
    """Return tables and summary."""
    jobs = job_table(run)
    samples, below = sample_table(run)
    users = user_table(run, below)
    return Result(
        jobs=jobs,
        users=users,
        samples=samples,
        tasks=None if run.driver.log is None else task_table(run, run.driver.log),
        config=_config(run),
        info=_info(run),
        numbers=summary(run, jobs, users, samples),
        cut=None if run.driver.log is None else cut_table(run, run.driver.log),
    )


def job_table(run: Finished) -> pl.DataFrame:
    """Return a row for each job, with arrival, start and finish."""
    plan, driver, jobs = run.plan, run.driver, run.workload.job_count
    submission = np.full(jobs, math.inf)
    np.minimum.at(submission, plan.job, plan.arrival)
    longest = np.zeros(jobs)
    if len(plan.duration):
        np.maximum.at(longest, plan.job, np.maximum.reduceat(plan.duration, plan.first))
    names = [user.name for user in run.workload.users]
    turnaround = driver.job_finish - submission
    with np.errstate(divide="ignore", invalid="ignore"):
        stretch = np.where((longest > 0) & np.isfinite(longest), turnaround / longest, math.nan)
    table = pl.DataFrame(
        {
            "job": pl.Series(run.workload.job_names, dtype=pl.String),
            "user": pl.Series(names, dtype=pl.String).gather(run.workload.job_user),
            "tasks": plan.job_size,
            "done": driver.job_done,
            "submission": submission,
            "first_start": driver.job_start,
            "finish": driver.job_finish,
            "waiting": driver.job_start - submission,
            "turnaround": turnaround,
            "stretch": stretch,
        }
    )
    return table.fill_nan(None)


def user_table(run: Finished, below: Floats | None) -> pl.DataFrame:
    """Return a row for each user."""
    driver, plan = run.driver, run.plan
    submitted = np.bincount(plan.user, plan.count, minlength=len(plan.weight)).astype(np.int64)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = driver.user_done / submitted
        waiting = driver.user_wait / driver.user_started
    share = driver.user_share / run.horizon if run.horizon > 0 else np.zeros(len(plan.weight))
    table = pl.DataFrame(
        {
            "user": pl.Series([user.name for user in run.workload.users], dtype=pl.String),
            "weight": plan.weight,
            "submitted": submitted,
            "started": driver.user_started,
            "completed": driver.user_done,
            "evictions": run.evicted,
            "completion_ratio": ratio,
            "mean_waiting": waiting,
            "mean_share": share,
            "below_fair": np.full(len(ratio), math.nan) if below is None else below,
        }
    )
    return table.fill_nan(None)


def sample_table(run: Finished) -> tuple[pl.DataFrame, Floats | None]:
    """Return a row for each sample, and each user's time below fair."""
    samples, names = run.samples, [user.name for user in run.workload.users]
    resources = run.units.resources
    used = np.array(samples.utilisation).reshape(-1, len(resources))
    share = np.array(samples.share).reshape(-1, len(names))
    columns: dict[str, Any] = {"time": np.array(samples.time)}
    columns |= {f"utilisation.{r}": used[:, i] for i, r in enumerate(resources)}
    columns["running"] = np.array(samples.running, dtype=np.int64)
    columns["queued"] = np.array(samples.queued, dtype=np.int64)
    below = None
    fair = np.array(samples.fair).reshape(-1, len(names))
    if run.fair_seconds is not None:
        columns["fair.missing"] = missing_share(share, run.plan.weight, fair)
        columns["fair.distance"], worst = worst_off(share, run.plan.weight, fair)
        who = pl.Series(names, dtype=pl.String)
        columns["fair.worst"] = who.gather(pl.Series([None if w < 0 else w for w in worst.tolist()],
                                                     dtype=pl.UInt32))  # fmt: skip
        with np.errstate(invalid="ignore"):
            short = share / run.plan.weight < fair * (1 - _ROUND_OFF)
        below = short.sum(axis=0) * samples.interval
    columns |= {f"share.{name}": share[:, i] for i, name in enumerate(names)}
    if run.fair_seconds is not None:
        columns |= {f"fair_level.{name}": fair[:, i] for i, name in enumerate(names)}
    return pl.DataFrame(columns).fill_nan(None), below


def task_table(run: Finished, log: TaskLog) -> pl.DataFrame:
    """Return a row for each task, in the order of the workload."""
    plan = run.plan
    order = np.argsort(plan.task_source)
    batch = plan.batch[order]
    names = pl.Series([entry.name for entry in run.nodes.entries], dtype=pl.String)
    server = pl.Series(log.server[order])
    users = pl.Series([user.name for user in run.workload.users], dtype=pl.String)
    job = plan.job[batch]
    table = pl.DataFrame(
        {
            "job": pl.Series(run.workload.job_names, dtype=pl.String).gather(job),
            "user": users.gather(plan.user[batch]),
            "task": order - plan.first[batch] + _offset_in_job(plan)[batch],
            "submission": plan.arrival[batch],
            "duration": plan.duration[order],
            "first_start": log.first[order],
            "start": log.start[order],
            "end": log.end[order],
            "server": names.gather(server.replace(-1, None).cast(pl.UInt32)),
            "evictions": log.evictions[order],
            "lost": log.lost[order],
            **_demands(run, batch),
        }
    )
    return table.fill_nan(None)


def _demands(run: Finished, batch: Ints) -> dict[str, Floats]:
    """Return what the task of each batch needs, by column name."""
    workload, columns = run.workload, {}
    shape = workload.batch_shape[run.plan.source[batch]]
    for name in run.units.resources:
        columns[f"demand.{name}"] = np.zeros(len(shape))
        if name in workload.resources:
            demand = workload.demand[:, workload.resources.index(name)]
            columns[f"demand.{name}"] = demand[shape]
    return columns


def cut_table(run: Finished, log: TaskLog) -> pl.DataFrame:
    """Return a row for each evicted run; `row` is its task's."""
    names = np.array([entry.name for entry in run.nodes.entries], dtype=object)
    tasks = [run.plan.task_source[which] for which, *_ in log.cut]
    ends = [np.full(len(which), time) for which, _, _, time in log.cut]
    servers = [names[server] for _, server, _, _ in log.cut]
    return pl.DataFrame(
        {
            "row": np.concatenate([np.empty(0, dtype=np.int64), *tasks]),
            "start": np.concatenate([np.empty(0), *(start for _, _, start, _ in log.cut)]),
            "end": np.concatenate([np.empty(0), *ends]),
            "server": pl.Series([str(n) for part in servers for n in part], dtype=pl.String),
        }
    )


def _offset_in_job(plan: Plan) -> Ints:
    """Return how many tasks of the same job stand in earlier batches of the workload."""
    offset = np.zeros(len(plan.count), dtype=np.int64)
    back = np.empty(len(plan.count), dtype=np.int64)
    back[plan.source] = np.arange(len(plan.count))
    counted: dict[int, int] = {}
    for batch in back.tolist():
        job = int(plan.job[batch])
        offset[batch] = counted.get(job, 0)
        counted[job] = int(offset[batch]) + int(plan.count[batch])
    return offset


def jain(values: Floats) -> float | None:
    """Return Jain's index, 1/n to 1; None if all are 0.

    Examples
    --------
    >>> jain(np.array([1.0, 1.0])), jain(np.array([1.0, 0.0]))
    (1.0, 0.5)
    """
    squares = float(values @ values)
    return float(values.sum()) ** 2 / (len(values) * squares) if squares > 0 else None


def summary(
    run: Finished, jobs: pl.DataFrame, users: pl.DataFrame, samples: pl.DataFrame
) -> dict[str, Any]:
    """Return the numbers of a run; times in seconds."""
    driver, usage = run.driver, run.usage
    submitted, completed = len(run.plan.duration), int(driver.user_done.sum())
    started = int(driver.user_started.sum())
    used = [
        float(u / r) if r > 0 else 0.0 for u, r in zip(driver.used, driver.capacity, strict=True)
    ]
    there = users.filter(pl.col("submitted") > 0)
    level = (there["mean_share"] / there["weight"]).to_numpy()
    fair = None
    if run.fair_seconds is not None:
        fair = {**fair_numbers(samples), "mixed_users": run.fair_mixed}
    return {
        "policy": run.policy.name,
        "seed": run.seed,
        "horizon": run.horizon,
        "tasks": {
            "submitted": submitted,
            "started": started,
            "completed": completed,
            "running": int(usage.running.sum()),
            "queued": int(usage.queued.sum()),
            "never": int(usage.never.sum()),
            "evictions": int(run.evicted.sum()),
        },
        "jobs": {"submitted": len(jobs), "completed": int(jobs["finish"].is_not_null().sum())},
        "completion_ratio": completed / submitted if submitted else None,
        "utilisation": dict(zip(run.units.resources, used, strict=True)),
        "mean_waiting": float(driver.user_wait.sum()) / started if started else None,
        "turnaround": spread(jobs["turnaround"]),
        "stretch": spread(jobs["stretch"]),
        "jain": jain(level),
        "fair": fair,
        "placements": driver.placements,
        "seconds": {
            "total": run.seconds,
            "samples": run.sample_seconds,
            "fair": run.fair_seconds,
        },
    }


def spread(values: pl.Series) -> dict[str, float] | None:
    """Return mean, median and 95 % quantile of complete jobs.

    Examples
    --------
    >>> spread(pl.Series([10.0, None, 30.0]))
    {'mean': 20.0, 'median': 20.0, 'p95': 29.0}
    """
    known = values.drop_nulls().to_numpy()
    if not len(known):
        return None
    median, high = np.quantile(known, [0.5, 0.95]).tolist()
    return {"mean": float(known.mean()), "median": median, "p95": high}


def _config(run: Finished) -> dict[str, Any]:
    policy, rules = run.policy, Rules(run.policy, run.units.resources, run.units.sizes)
    parts = {
        name: part_name(getattr(policy, name)) for name in ("turn", "choice", "blocked", "inside")
    }
    if policy.fits is not None:
        parts["fits"] = part_name(policy.fits)
    return {
        "source": run.source,
        "policy": policy.name,
        "parts": parts,
        "reference_resource": run.units.resources[rules.reference],
        "seed": run.seed,
        "until": run.until,
        "interval": run.samples.interval,
        "fair": run.fair_seconds is not None,
        "log": run.driver.log is not None,
        "units": dict(zip(run.units.resources, run.units.sizes, strict=True)),
        "servers": int(run.plan.capacity.any(axis=1).sum()),
        "capacity": _capacity(run),
        "users": len(run.plan.weight),
        "jobs": len(run.plan.job_size),
        "tasks": len(run.plan.duration),
        "server_events": len(run.plan.changes),
    }


def _capacity(run: Finished) -> dict[str, float]:
    """Return what the servers that are up have of each resource, the mean over the run."""
    mean = run.driver.capacity / run.horizon if run.horizon > 0 else run.usage.total
    return run.units.amounts(np.rint(mean))


def _info(run: Finished) -> dict[str, Any]:
    return {
        "versions": {
            "drfh": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "polars": pl.__version__,
        },
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "engine": run.engine,
        "seed": run.seed,
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        "wall_seconds": run.seconds,
        "sample_seconds": run.sample_seconds,
        "fair_seconds": run.fair_seconds,
        "fair_solved": run.fair_solved,
    }
