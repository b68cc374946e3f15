"""Choices of the reproduction, and the jobs and servers that it simulates."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import polars as pl

from drfh.errors import InputError, UnknownNameError
from drfh.formatting import join_names
from drfh.model.cluster import Cluster
from drfh.model.jobs import Workload
from drfh.policies.slots import COUNT_RULES, OVERSIZE
from drfh.traces.base import Trace
from drfh.traces.google2011.machine_events import drawn_servers

__all__ = ["RESOURCES", "Inputs", "Preset", "Setup", "load_inputs", "with_users"]

Preset = Literal["backlog_cut", "each_drop"]
RESOURCES = ("cpu", "memory")

_QUICK_HOURS = 3.0
_TRACE = "clusterdata-2011-2"  # as Google calls the folder
_MOST_SEEDS = 100
# Resource time that Google's tasks ask for over what 2,000 servers have (cpu, memory): 5.49 and
# 4.55 under backlog_cut, 0.98 and 1.02 under each_drop.
_LOAD: dict[Preset, float] = {"backlog_cut": 5.5, "each_drop": 1.0}


@dataclass(frozen=True)
class Setup:
    """What to reproduce, and every choice that the paper leaves open.

    Parameters
    ----------
    data
        Directory of Google's trace of 2011, or one above it; None for a generated workload.
    preset
        How the events of the trace become tasks: ``backlog_cut`` (A) or ``each_drop`` (B).
    servers
        How many are drawn from the shapes of Google's machines.
    seeds, seed
        How many draws of the servers, and the first. A draw is also the start of what a policy
        draws, and of the shuffle of the dedicated clouds.
    hours
        Length of the window; None for all there is.
    full
        All rules of slots, not only the usual ones.
    quick
        One seed, three hours, one rule of slots, fewer samples.
    samples
        About how many there are of each run; 60 if it is to be quick.
    users, load
        Of the generated workload; by default it asks for as much as Google's does under the same
        preset: 5.5 times what 2,000 servers have under A, and just what they have under B.
    slots
        Numbers of slots per largest server that are tried.
    audit_tries
        About how many problems each search of the audit solves.

    Examples
    --------
    >>> Setup(quick=True).draws, Setup(quick=True).window_hours
    ((0,), 3.0)
    >>> Setup(seeds=0)
    Traceback (most recent call last):
    drfh.errors.InputError: seeds must be a whole number from 1 to 100, got 0
    """

    data: Path | None = None
    preset: Preset = "backlog_cut"
    servers: int = 2000
    seeds: int = 3
    seed: int = 0
    hours: float | None = None
    full: bool = False
    quick: bool = False
    samples: int | None = None
    users: int = 900
    load: float | None = None
    slots: tuple[int, ...] = (10, 12, 14, 16, 20)
    audit_tries: int = 40

    def __post_init__(self) -> None:
        if self.preset not in get_args(Preset):
            raise UnknownNameError("preset", str(self.preset), get_args(Preset))
        for name, least, most in (
            ("servers", 1, 10**6), ("seeds", 1, _MOST_SEEDS), ("seed", 0, 2**62),
            ("sample_count", 2, 10_000),
            ("users", 1, 10**6), ("audit_tries", 1, 10**6),
        ):  # fmt: skip
            value = getattr(self, name)
            whole = isinstance(value, int) and not isinstance(value, bool)
            if not whole or not least <= value <= most:
                rule = f"must be a whole number from {least} to {most:,}"
                raise InputError("samples" if name == "sample_count" else name, rule, value)
        for name in ("hours", "load"):
            value = getattr(self, name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if value is not None and not (number and 0 < value < math.inf):
                raise InputError(name, "must be a number > 0", value)
        if not self.slots or any(not isinstance(n, int) or n < 1 for n in self.slots):
            raise InputError("slots", "must be whole numbers ≥ 1", self.slots)

    @property
    def draws(self) -> tuple[int, ...]:
        """Seeds of the draws."""
        return tuple(range(self.seed, self.seed + (1 if self.quick else self.seeds)))

    @property
    def window_hours(self) -> float | None:
        """Length of the window that is asked for."""
        if self.hours is None and self.quick:
            return _QUICK_HOURS
        return self.hours

    @property
    def sample_count(self) -> int:
        """About how many samples of each run there are."""
        if self.samples is None:
            return 60 if self.quick else 240
        return self.samples

    @property
    def offered_load(self) -> float:
        """Load of the generated workload."""
        return _LOAD[self.preset] if self.load is None else self.load

    @property
    def count_rules(self) -> tuple[str, ...]:
        """How slots of a server are counted."""
        return ("min",) if self.quick and not self.full else COUNT_RULES

    @property
    def oversize(self) -> tuple[str, ...]:
        """What happens to a task that is larger than a slot."""
        if self.full:
            return OVERSIZE
        return ("ceil",) if self.quick else ("ceil", "reject")

    def to_dict(self) -> dict[str, Any]:
        """Return every choice as plain data."""
        choices: dict[str, Any] = asdict(self)
        choices["data"] = None if self.data is None else str(self.data)
        choices["slots"] = list(self.slots)
        return choices | {
            "draws": list(self.draws),
            "window_hours": self.window_hours,
            "sample_count": self.sample_count,
            "offered_load": self.offered_load,
            "count_rules": list(self.count_rules),
            "oversize": list(self.oversize),
        }


@dataclass(frozen=True, eq=False)
class Inputs:
    """Jobs and server shapes that all runs share.

    Attributes
    ----------
    trace : Trace
        As it was read or generated.
    workload : Workload
        The same jobs, without what happened to Google's own machines.
    window : float
        Seconds; every run ends then.
    shapes : Cluster
        What servers are drawn from.
    servers : int
        How many are drawn.
    """

    trace: Trace
    workload: Workload
    window: float
    shapes: Cluster
    servers: int
    _drawn: dict[int, Cluster] = field(default_factory=dict)

    def cluster(self, seed: int) -> Cluster:
        """Return the servers of a draw."""
        if seed not in self._drawn:
            self._drawn[seed] = drawn_servers(self.shapes, self.servers, seed)
        return self._drawn[seed]

    @property
    def jobs(self) -> pl.DataFrame:
        """A row for each job: its name, and whether tasks of it were there at the start."""
        workload = self.workload
        there = np.zeros(workload.job_count, dtype=bool)
        if "at_start" in self.trace.details.columns:
            early = self.trace.details["at_start"].to_numpy()
            there[workload.batch_job[early]] = True
        return pl.DataFrame(
            {"job": pl.Series(workload.job_names, dtype=pl.String), "at_start": there}
        )


def load_inputs(setup: Setup, trace: Trace | None = None) -> Inputs:
    """Read or generate the jobs and servers to simulate.

    Parameters
    ----------
    setup
        The choices.
    trace
        To be used instead of Google's: its servers are the shapes that are drawn from.

    Examples
    --------
    >>> inputs = load_inputs(Setup(servers=5, users=10, hours=1))
    >>> inputs.cluster(0).size, inputs.window
    (5, 3600.0)
    """
    shapes = None
    if trace is None and setup.data is not None:
        trace = _read(setup, setup.data)
    elif trace is None:
        trace, shapes = _generate(setup)
    window = trace.window
    if window is None:
        raise InputError("trace", "must cover a time that has an end")
    missing = [name for name in RESOURCES if name not in trace.cluster.resources]
    if missing:
        raise InputError("trace", f"must have servers with {join_names(RESOURCES)}")
    return Inputs(
        trace, with_users(trace.workload, None), window, shapes or trace.cluster, setup.servers
    )


def _read(setup: Setup, data: Path) -> Trace:
    from drfh import traces

    folder = data
    if not (folder / "task_events").is_dir() and (folder / _TRACE / "task_events").is_dir():
        folder = folder / _TRACE
    if not (folder / "task_events").is_dir():
        rule = f"must hold Google's trace of 2011 (task_events/, or {_TRACE}/ with it)"
        raise InputError("data", rule, str(data))
    options: dict[str, Any] = {}
    if setup.window_hours is not None:
        options["hours"] = setup.window_hours
    return traces.read("google-2011", folder, preset=setup.preset, **options)


def _generate(setup: Setup) -> tuple[Trace, Cluster]:
    from drfh.generators import generate
    from drfh.generators.google_parameters import shipped_table

    options: dict[str, Any] = {"users": setup.users, "load": setup.offered_load, "seed": setup.seed}
    if setup.window_hours is not None:
        options["hours"] = setup.window_hours
    trace = generate("google-like", servers=setup.servers, **options)
    table = shipped_table().servers
    return trace, Cluster.from_arrays(table[:, :2], RESOURCES, counts=table[:, 2].astype(np.int64))


def with_users(workload: Workload, servers: list[tuple[str, ...]] | None) -> Workload:
    """Return the same jobs without server events, each user restricted to its own `servers`.

    Examples
    --------
    >>> from drfh import Job
    >>> jobs = [Job("ann", demand={"cpu": 1}, duration=9)]
    >>> with_users(Workload(["ann"], jobs), [("server-2",)]).users[0].servers
    ('server-2',)
    """
    from drfh.model.users import User

    users = list(workload.users)
    if servers is not None:
        users = [
            User(user.name, weight=user.weight, servers=names)
            for user, names in zip(users, servers, strict=True)
        ]
    return Workload.from_arrays(
        users,
        workload.resources,
        workload.demand,
        user=workload.batch_user,
        arrival=workload.batch_arrival,
        shape=workload.batch_shape,
        duration=workload.duration,
        count=workload.batch_count,
        job=workload.batch_job,
        job_names=workload.job_names,
        restrictions=workload.restrictions,
        restriction=workload.restriction,
    )
