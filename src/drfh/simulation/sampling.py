"""Looking at a run from outside, at chosen instants."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from drfh.scheduler.core import Core
from drfh.simulation.plan import Plan

__all__ = ["Glance", "SampleTime", "Samples", "default_interval", "glance", "look", "time_span"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

_MOST_SAMPLES = 1_000  # of a chosen interval; more are thinned out
_AIM = 200


@dataclass(frozen=True, eq=False)
class SampleTime:
    """What a brain holds now.

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
        """Part of each resource that is in use; 0 where there is none."""
        used = self.usage.sum(axis=0)
        return np.where(self.total > 0, used / np.where(self.total > 0, self.total, 1), 0.0)

    @property
    def glance(self) -> Glance:
        """What a sample keeps of it."""
        running, queued = int(self.running.sum()), int(self.queued.sum())
        return Glance(self.share, self.utilisation, running, queued)


class Glance(NamedTuple):
    """What a sample keeps; see :class:`SampleTime`."""

    share: Floats
    utilisation: Floats
    running: int
    """Tasks of all users."""
    queued: int


def glance(core: Core, plan: Plan) -> Glance:
    """SampleTime at what a sample keeps; a brain that has ``glance()`` knows that in one go."""
    own = getattr(core, "glance", None)
    return look(core, plan).glance if own is None else Glance(*own())


def look(core: Core, plan: Plan) -> SampleTime:
    """SampleTime at a brain; one that has ``arrays()`` is asked for all at once.

    ``core.arrays()`` returns an object with the first four attributes of :class:`SampleTime` and
    ``capacity``, servers × resources.
    """
    arrays = getattr(core, "arrays", None)
    if arrays is not None:
        seen = arrays()
        total = seen.capacity.sum(axis=0)
        return SampleTime(seen.usage, seen.running, seen.queued, seen.never, total)
    users, servers = range(len(plan.weight)), range(len(plan.capacity))
    resources = plan.need.shape[1]
    usage = np.array([core.usage(u) for u in users], dtype=np.int64).reshape(-1, resources)
    counts = np.array([core.counts(u) for u in users], dtype=np.int64).reshape(-1, 3)
    sizes = np.array([core.capacity(s) for s in servers], dtype=np.int64).reshape(-1, resources)
    return SampleTime(usage, counts[:, 0], counts[:, 1], counts[:, 2], sizes.sum(axis=0))


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
    """Return roughly how long a plan takes: until the last arrival, or until all work is done.

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

    def take(self, seen: Glance, fair: Floats | None) -> None:
        """Keep a sample."""
        self.time.append(self.next_time)
        self.utilisation.append(seen.utilisation)
        self.running.append(seen.running)
        self.queued.append(seen.queued)
        self.share.append(seen.share)
        if fair is not None:
            self.fair.append(fair)
        self.number += 1
        if self.thin and len(self.time) > _MOST_SAMPLES:
            for column in (self.time, self.utilisation, self.running, self.queued, self.share):
                del column[1::2]
            del self.fair[1::2]
            self.interval *= 2
            self.number = len(self.time)
