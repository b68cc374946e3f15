"""Simulation of a workload on a virtual clock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from drfh.errors import InputError
from drfh.model.cluster import Cluster
from drfh.model.jobs import Workload
from drfh.model.scenario import Scenario
from drfh.policies import Policy, find_policy
from drfh.scheduler.plain import PlainCore
from drfh.simulation.driver import Driver, make_driver
from drfh.simulation.fairness import FairLevels
from drfh.simulation.metrics import (
    Finished,
    Samples,
    default_interval,
    make_result,
    read_sample,
    read_usage,
    time_span,
)
from drfh.simulation.plan import Engine, Plan, apply_change, build
from drfh.simulation.result import Result
from drfh.traces.base import Trace

__all__ = ["Progress", "check_length", "check_simulation", "simulate"]

_MOST_SAMPLES = 1_000_000
_TICKS = 400
_SECONDS_BETWEEN_REPORTS = 0.1


class Progress(NamedTuple):
    """How far a simulation is."""

    time: float
    """Simulated seconds."""
    until: float | None
    """The horizon, if there is one."""
    done: int
    """Tasks that have ended."""
    tasks: int
    """All tasks."""


def simulate(
    cluster: Cluster | Scenario | Trace,
    workload: Workload | None = None,
    policy: str | Policy | Mapping[str, Any] = "best-fit-drfh",
    until: float | None = None,
    seed: int = 0,
    *,
    interval: float | None = None,
    fair: bool = False,
    log: bool = False,
    engine: Engine = "auto",
    source: str = "",
    progress: Callable[[Progress], None] | None = None,
) -> Result:
    """Run a workload on a cluster under a policy, on a virtual clock.

    At one instant tasks end first, then servers change, then tasks arrive, and then the policy
    places what it can; at `until` it no longer does. The same input gives the same result, always.

    Parameters
    ----------
    cluster
        The servers at the start; or a scenario, with its workload; or a trace, which ends with its
        window if `until` is not given.
    workload
        Users, their jobs, and what happens to the servers, if `cluster` is nothing but servers.
    policy
        A name such as ``"best-fit-drfh"``, or a :class:`~drfh.policies.Policy`.
    until
        When to stop, in seconds. At that very time tasks still end and arrive, and none starts.
        None: when nothing more happens, or only to servers after the last task has ended.
    seed
        Start of the policy's draws, if it makes any.
    interval
        Seconds between samples, which are taken before `until`; by default a round number that
        gives about 200.
    fair
        Solve the exact allocation at every sample, to tell how far the run is from fair.
    log
        Keep a table of all tasks.
    engine
        ``"plain"``, ``"indexed"``, or ``"auto"`` for the one that is done sooner. They place
        alike.
    source
        Where the workload is from, to be kept with the result.
    progress
        Called now and then with a :class:`Progress`.

    Returns
    -------
    Result
        Tables of jobs, users and samples.

    Examples
    --------
    >>> from drfh import Job, Server
    >>> cluster = Cluster([Server({"cpu": 4})])
    >>> workload = Workload(["ann", "bob"], [
    ...     Job("ann", demand={"cpu": 2}, duration=60, tasks=3),
    ...     Job("bob", demand={"cpu": 1}, duration=30, arrival=10),
    ... ])
    >>> result = simulate(cluster, workload)
    >>> result.jobs.select("job", "waiting", "turnaround", "stretch").rows()
    [('job-1', 0.0, 120.0, 2.0), ('job-2', 50.0, 80.0, 2.6666666666666665)]
    >>> result.summary()["utilisation"]
    {'cpu': 0.8125}
    >>> from drfh import load_scenario
    >>> simulate(load_scenario("gpu-day"), policy="fifo").policy
    'fifo'
    """
    started = time.perf_counter()
    if isinstance(cluster, Scenario):
        if workload is not None:
            raise InputError("workload", "must be left out: the scenario has one", workload)
        workload, cluster = cluster.workload, cluster.cluster
    elif isinstance(cluster, Trace):
        if workload is not None:
            raise InputError("workload", "must be left out: the trace has one", workload)
        until = cluster.window if until is None else until
        source = source or cluster.source
        workload, cluster = cluster.workload, cluster.cluster
    elif workload is None:
        raise InputError("workload", "must be given with a cluster")
    chosen = find_policy(policy)
    check_simulation(cluster, workload, until, seed, interval)
    core, plan, nodes, units = build(cluster, workload, chosen, int(seed), engine)
    if until is None and interval is not None:
        check_length(plan, float(interval))
    horizon = math.inf if until is None else float(until)
    driver = make_driver(core, plan, log=log)
    step = default_interval(plan, until) if interval is None else float(interval)
    samples = Samples(step, thin=interval is None)
    levels = FairLevels(core, plan, workload.users, units.resources) if fair else None
    reporter = _Reporter(progress, plan, until)
    evicted = np.zeros(len(plan.weight), dtype=np.int64)
    last_change, coming, sampling = 0.0, 0, 0.0
    while True:
        change = plan.changes[coming].time if coming < len(plan.changes) else math.inf
        change = change if change <= horizon else math.inf
        if until is None and samples.number > 0 and _over(driver, plan, coming):
            break
        stop = min(change, samples.next_time, reporter.next_time, horizon)
        driver.advance(stop)
        if until is None and stop > max(driver.now, last_change) and _over(driver, plan, coming):
            break  # a sample now would be of a time after the end
        last = stop == horizon  # then tasks still end and arrive, and none starts
        if last or change == stop:
            driver.release(stop)
        if change == stop:
            driver.flush(stop)
            while coming < len(plan.changes) and plan.changes[coming].time == stop:
                tasks = apply_change(core, plan.changes[coming])
                driver.evicted(tasks, stop)
                np.add.at(evicted, plan.user[plan.batch[tasks]] if tasks else [], 1)
                coming += 1
            driver.rescale()
            if levels is not None:
                levels.servers_changed()
            last_change = stop
        if last:
            driver.arrive(stop)
            break
        if change == stop:
            driver.settle(stop)
        else:
            driver.advance(math.nextafter(stop, math.inf))
        if samples.next_time == stop:
            _check_number(samples)
            before = time.perf_counter()
            fair_levels = None if levels is None else levels.at(driver.active)
            samples.take(read_sample(core, plan), fair_levels)
            sampling += time.perf_counter() - before
        reporter.report(stop, driver)
    end = max(driver.now, last_change) if until is None else horizon
    driver.flush(end)
    reporter.report(end, driver, last=True)
    return make_result(
        Finished(
            workload=workload, plan=plan, nodes=nodes, units=units, driver=driver, samples=samples,
            policy=chosen, seed=int(seed), source=source, until=until, horizon=end, evicted=evicted,
            usage=read_usage(core, plan), sample_seconds=sampling,
            engine="plain" if isinstance(core, PlainCore) else "indexed",
            fair_seconds=None if levels is None else levels.seconds,
            fair_solved=0 if levels is None else levels.solved,
            fair_mixed=0 if levels is None else int(levels.mixed.sum()),
            seconds=time.perf_counter() - started,
        )
    )  # fmt: skip


def _over(driver: Driver, plan: Plan, coming: int) -> bool:
    """Return whether nothing more happens, or nothing that matters to a task."""
    if driver.next_time() < math.inf:
        return False
    return coming == len(plan.changes) or int(driver.user_done.sum()) == len(plan.duration)


def check_simulation(
    cluster: Cluster, workload: Workload, until: Any, seed: Any, interval: Any
) -> None:
    """Raise unless the arguments of a simulation make sense together."""
    if not isinstance(cluster, Cluster):
        raise InputError("cluster", "must be a drfh.Cluster", cluster)
    if not isinstance(workload, Workload):
        raise InputError("workload", "must be a drfh.Workload", workload)
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**63:
        raise InputError("seed", f"must be a whole number from 0 to {2**63 - 1}", seed)
    for name, value in (("until", until), ("interval", interval)):
        if value is None:
            continue
        number = isinstance(value, (int, float, np.integer, np.floating))
        if not number or isinstance(value, bool) or not 0 < value < math.inf:
            raise InputError(name, "must be a finite number of seconds > 0", value)
    if until is not None:
        late = np.flatnonzero(workload.batch_arrival > until)
        if len(late):
            batch = int(late[0])
            job = workload.job_name(int(workload.batch_job[batch]))
            rule = f"must be at most until = {until:g} ({{cut}} leaves later jobs out)"
            late_at = float(workload.batch_arrival[batch])
            names = {"cut": "Workload.until"}
            raise InputError(f"arrival of {job}", rule, late_at, names=names)
        if interval is not None:
            _check_interval(interval, until, f"until {until:g} s")
    workload.check(cluster)


def check_length(plan: Plan, interval: float) -> None:
    """Raise if a run would have too many samples."""
    span = time_span(plan)
    _check_interval(interval, span, f"of a run that takes about {span:g} s")


def _check_interval(interval: float, span: float, when: str) -> None:
    if span / interval > _MOST_SAMPLES:
        least = span / _MOST_SAMPLES
        short = float(f"{least:.1e}")
        if short < least:  # two digits, rounded up
            short = float(f"{1.05 * least:.1e}")
        rule = f"must be at least {short:g} (at most {_MOST_SAMPLES:,} samples {when})"
        raise InputError("interval", rule, interval)


def _check_number(samples: Samples) -> None:
    if len(samples.time) > _MOST_SAMPLES:
        so_far = f"after {_MOST_SAMPLES:,} samples the run is at {samples.time[-1]:g} s"
        rule = f"must be longer, or {{until}} be given: {so_far} and goes on"
        raise InputError("interval", rule, samples.interval, names={"until": "until"})


class _Reporter:
    """Reports the progress of a run, now and then.

    It stops the clock for that even without a callback: Python handles Ctrl-C only between two
    calls of compiled code.
    """

    def __init__(
        self, progress: Callable[[Progress], None] | None, plan: Plan, until: float | None
    ) -> None:
        self.progress = progress
        self.until = until
        self.tasks = len(plan.duration)
        span = time_span(plan) if until is None else until
        self._step = span / _TICKS or math.inf
        self._reported = 0.0
        self.next_time = self._step

    def report(self, now: float, driver: Driver, *, last: bool = False) -> None:
        if self.next_time <= now:
            # Steps grow with the time, should the whole take much longer than it looked.
            self.next_time = now + max(self._step, now / _TICKS)
        if self.progress is None:
            return
        clock = time.monotonic()
        if last or clock - self._reported >= _SECONDS_BETWEEN_REPORTS:
            self._reported = clock
            self.progress(Progress(now, self.until, int(driver.user_done.sum()), self.tasks))
