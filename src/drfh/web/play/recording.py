"""Recording of a finished simulation: frames at any time, from its task log.

Amounts are whole units of the simulator, so that sums are exact. A task runs from its start,
inclusive, to its end, exclusive.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from drfh.errors import InputError
from drfh.formatting import format_amounts, format_count
from drfh.model.cluster import Cluster
from drfh.model.jobs import Workload
from drfh.scheduler.nodes import NodeEntry
from drfh.simulation import Result
from drfh.simulation.plan import Plan, make_plan, units_of
from drfh.web.components.heat_map_data import STATES, HeatMapData, levels_of

__all__ = [
    "CapacityChange",
    "Frame",
    "RecordedRuns",
    "RecordedSamples",
    "Recording",
    "blocks_of",
    "record",
]


Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class RecordedRuns:
    """When and where tasks ran, one entry per run, ordered by start.

    Attributes
    ----------
    start, end : float array
        In seconds; infinity if still running when the simulation stops.
    server, user, shape : int array
        Indices of its server, its user and its row of `need`.
    cut : bool array
        Whether the task was evicted at its end, and waits again.
    """

    start: Floats
    end: Floats
    server: Ints
    user: Ints
    shape: Ints
    cut: Bools

    @classmethod
    def sorted(
        cls, start: Floats, end: Floats, server: Ints, user: Ints, shape: Ints, cut: Bools
    ) -> RecordedRuns:
        """Return runs given in any order.

        Examples
        --------
        >>> one, none = np.array([0, 0]), np.zeros(2, dtype=bool)
        >>> RecordedRuns.sorted(np.array([5.0, 0.0]), np.array([9.0, 7.0]), one, one, one, none).end
        array([7., 9.])
        """
        order = np.argsort(start, kind="stable")
        return cls(
            start[order], end[order], server[order], user[order], shape[order], cut[order]
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class CapacityChange:
    """New capacity of servers from a time on; all zeros: they are down."""

    time: float
    positions: tuple[int, ...]
    capacity: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class RecordedSamples:
    """Samples taken during the simulation.

    Attributes
    ----------
    time : float array, samples
        In seconds.
    utilisation : float array, samples × resources
        Part of each resource in use.
    share : float array, samples × users
        Dominant shares.
    fair : float array or None
        Dominant shares in the exact allocation; NaN for users with nothing to run.
    """

    time: Floats
    utilisation: Floats
    share: Floats
    fair: Floats | None = None


@dataclass(frozen=True, eq=False)
class Frame:
    """State of the cluster at one time.

    Attributes
    ----------
    time : float
        In seconds.
    used, capacity : int array, servers × resources
        Of each server; zeros if it is down.
    usage : int array, users × resources
        Held by the running tasks of each user.
    running, waiting, done : int array, users
        Numbers of tasks; waiting includes tasks that fit on no server.
    """

    time: float
    used: Ints
    capacity: Ints
    usage: Ints
    running: Ints
    waiting: Ints
    done: Ints

    @property
    def utilisation(self) -> Floats:
        """Used part of each resource; 0 where there is none."""
        return self._parts(self.used.sum(axis=0))

    @property
    def share(self) -> Floats:
        """Dominant share of each user."""
        parts: Floats = self._parts(self.usage).max(axis=1, initial=0.0)
        return parts

    def _parts(self, amounts: Ints) -> Floats:
        total = self.capacity.sum(axis=0)
        parts: Floats = np.where(total > 0, amounts / np.where(total > 0, total, 1), 0.0)
        return parts


@dataclass(frozen=True, eq=False)
class Recording:
    """Recording of a finished simulation.

    Attributes
    ----------
    policy : str
        Name.
    horizon : float
        End in seconds.
    servers : tuple of str
        Names, block by block.
    blocks : tuple
        Name and number of servers of each block of the heat map.
    resources, sizes : tuple
        Names, and the amount of one unit.
    users, weight : tuple of str, float array
        Names and entitlements.
    need : int array, shapes × resources
        Units needed by one task.
    capacity : int array, servers × resources
        At the start.
    changes : tuple of CapacityChange
        Of servers, ordered by time.
    runs : RecordedRuns
        Of tasks.
    arrival, arrival_user : arrays
        Arrival of each task, in order, and index of its user.
    samples : RecordedSamples
        For curves.
    numbers : mapping
        Summary of the run.

    Examples
    --------
    >>> from drfh import Cluster, Job, Server, Workload, simulate
    >>> from drfh.web.play.recording import record
    >>> cluster = Cluster([Server({"cpu": 4}, name="a")])
    >>> workload = Workload(["ann"], [Job("ann", demand={"cpu": 2}, duration=60, tasks=3)])
    >>> recording = record(simulate(cluster, workload, log=True), cluster, workload)
    >>> [recording.frame(t).share.tolist() for t in (0, 59, 60, 120)]
    [[1.0], [1.0], [0.5], [0.0]]
    >>> frame = recording.frame(30)
    >>> frame.running.tolist(), frame.waiting.tolist(), frame.done.tolist()
    ([2], [1], [0])
    >>> recording.cells(frame).levels.tolist(), recording.busiest
    ([[255]], 0.0)
    """

    policy: str
    horizon: float
    servers: tuple[str, ...]
    blocks: tuple[tuple[str, int], ...]
    resources: tuple[str, ...]
    sizes: tuple[float, ...]
    users: tuple[str, ...]
    weight: Floats
    need: Ints
    capacity: Ints
    changes: tuple[CapacityChange, ...]
    runs: RecordedRuns
    arrival: Floats
    arrival_user: Ints
    samples: RecordedSamples
    numbers: Mapping[str, Any]

    def frame(self, time: float) -> Frame:
        """Return the state at a time in seconds."""
        runs, users = self.runs, len(self.users)
        begun = int(np.searchsorted(runs.start, time, side="right"))
        now = np.flatnonzero(runs.end[:begun] > time)
        shape, server, user = runs.shape[now], runs.server[now], runs.user[now]
        used = np.empty_like(self.capacity)
        usage = np.empty((users, len(self.resources)), dtype=np.int64)
        for resource in range(len(self.resources)):
            # Amounts are at most 2**50: float sums are exact too, and faster.
            amount = self._need[resource][shape]
            used[:, resource] = np.bincount(server, amount, minlength=len(used))
            usage[:, resource] = np.bincount(user, amount, minlength=users)
        running = _count(user, users)
        ended, owner = self._ended
        done = _count(owner[: int(np.searchsorted(ended, time, side="right"))], users)
        arrived = int(np.searchsorted(self.arrival, time, side="right"))
        waiting = _count(self.arrival_user[:arrived], users) - running - done
        return Frame(time, used, self.capacity_at(time), usage, running, waiting, done)

    @cached_property
    def _need(self) -> Floats:
        return np.ascontiguousarray(self.need.T, dtype=np.float64)

    @cached_property
    def _ended(self) -> tuple[Floats, Ints]:
        """End of each completed task, in order, and index of its user."""
        done = np.flatnonzero(~self.runs.cut & np.isfinite(self.runs.end))
        done = done[np.argsort(self.runs.end[done], kind="stable")]
        return self.runs.end[done], self.runs.user[done]

    def capacity_at(self, time: float) -> Ints:
        """Return the capacity of the servers at a time."""
        if not self.changes or self.changes[0].time > time:
            return self.capacity
        capacity = self.capacity.copy()
        for change in self.changes:
            if change.time > time:
                break
            capacity[list(change.positions)] = change.capacity
        return capacity

    def cells(self, frame: Frame) -> HeatMapData:
        """Return the heat map of a frame."""
        levels = [
            levels_of(frame.used[:, r], frame.capacity[:, r]) for r in range(len(self.resources))
        ]
        down = ~frame.capacity.any(axis=1)
        return HeatMapData(self.blocks, self.resources, levels, down * STATES.index("down"))

    def on_server(self, time: float, server: int) -> dict[str, int]:
        """Return the number of tasks of each user on a server, largest first.

        Examples
        --------
        >>> from drfh import Cluster, Job, Server, Workload, simulate
        >>> from drfh.web.play.recording import record
        >>> cluster = Cluster([Server({"cpu": 4}, name="a")])
        >>> workload = Workload(["ann"], [Job("ann", demand={"cpu": 2}, duration=60, tasks=3)])
        >>> record(simulate(cluster, workload, log=True), cluster, workload).on_server(30, 0)
        {'ann': 2}
        """
        runs = self.runs
        there = (runs.server == server) & (runs.start <= time) & (time < runs.end)
        counts = np.bincount(runs.user[there], minlength=len(self.users))
        order = np.argsort(-counts, kind="stable")
        return {self.users[i]: int(counts[i]) for i in order[: int((counts > 0).sum())].tolist()}

    def fair_at(self, time: float) -> Floats | None:
        """Return the fair shares of the last sample until a time; None without samples."""
        samples = self.samples
        if samples.fair is None or not len(samples.time):
            return None
        last = max(int(np.searchsorted(samples.time, time, side="right")) - 1, 0)
        found: Floats = samples.fair[last]
        return found

    @cached_property
    def largest(self) -> list[int]:
        """Indices of users by mean share, largest first."""
        means = self.samples.share.mean(axis=0) if len(self.samples.time) else self.weight
        order: list[int] = np.argsort(-means, kind="stable").tolist()
        return order

    @cached_property
    def busiest(self) -> float:
        """Time of the sample with the highest mean utilisation."""
        if not len(self.samples.time):
            return 0.0
        return float(self.samples.time[int(self.samples.utilisation.mean(axis=1).argmax())])


def _count(who: Ints, users: int) -> Ints:
    counts: Ints = np.bincount(who, minlength=users).astype(np.int64)
    return counts


_MOST_BLOCKS = 40


def record(result: Result, cluster: Cluster, workload: Workload) -> Recording:
    """Return the recording of a simulation made with ``log=True``.

    Examples
    --------
    >>> from drfh import Job, Server, simulate
    >>> cluster = Cluster([Server({"cpu": 4}, name="a", count=2)])
    >>> workload = Workload(["ann"], [Job("ann", demand={"cpu": 3}, duration=60, tasks=2)])
    >>> recording = record(simulate(cluster, workload, log=True), cluster, workload)
    >>> recording.servers, recording.blocks, recording.runs.server.tolist()
    (('a/0', 'a/1'), (('a', 2),), [0, 1])
    """
    if result.tasks is None:
        raise InputError("result", "must have its tasks logged (simulate with log=True)")
    units = units_of(cluster, workload.events)
    plan, nodes = make_plan(cluster, workload, units)
    blocks, order = blocks_of(nodes.entries)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    names = [nodes.entries[position].name for position in order.tolist()]
    changes = tuple(
        CapacityChange(change.time, tuple(place[list(change.positions)].tolist()), change.capacity)
        for change in plan.changes
    )
    return Recording(
        policy=result.policy,
        horizon=result.horizon,
        servers=tuple(names),
        blocks=blocks,
        resources=units.resources,
        sizes=units.sizes,
        users=tuple(user.name for user in workload.users),
        weight=plan.weight,
        need=plan.need,
        capacity=plan.capacity[order],
        changes=changes,
        runs=_runs(result, plan, names),
        arrival=plan.arrival[plan.batch],
        arrival_user=plan.user[plan.batch],
        samples=_samples(result, units.resources, plan.weight),
        numbers=result.summary(),
    )


def _runs(result: Result, plan: Plan, names: Sequence[str]) -> RecordedRuns:
    assert result.tasks is not None
    batch = plan.batch[np.argsort(plan.task_source)]  # of the rows of the table
    table = result.tasks.select("start", "end", "server").with_row_index("row")
    table = table.filter(pl.col("start").is_not_null()).with_columns(pl.lit(False).alias("cut"))
    if result.cut is not None and len(result.cut):
        lost = result.cut.with_columns(pl.lit(True).alias("cut"))
        table = pl.concat([table, lost.select(table.columns).cast(table.schema)])
    row = table["row"].to_numpy().astype(np.int64)
    end = table["end"].fill_null(math.inf).to_numpy()
    place = {name: position for position, name in enumerate(names)}
    server = table["server"].replace_strict(place, return_dtype=pl.Int64).to_numpy()
    return RecordedRuns.sorted(
        table["start"].to_numpy(),
        np.where(end > result.horizon, math.inf, end),
        server,
        plan.user[batch][row],
        plan.shape[batch][row],
        table["cut"].to_numpy(),
    )


def _samples(result: Result, resources: Sequence[str], weight: Floats) -> RecordedSamples:
    table = result.samples
    shares = [name for name in table.columns if name.startswith("share.")]
    levels = [name for name in table.columns if name.startswith("fair_level.")]
    fair = None
    if "fair.distance" in table.columns:
        level = table.select(levels).fill_null(math.nan).to_numpy()
        fair = level.reshape(len(table), -1) * weight
    return RecordedSamples(
        table["time"].to_numpy().copy(),
        table.select([f"utilisation.{name}" for name in resources]).to_numpy(),
        table.select(shares).to_numpy().reshape(len(table), -1),
        fair,
    )


def blocks_of(members: Sequence[NodeEntry]) -> tuple[tuple[tuple[str, int], ...], Ints]:
    """Return name and size of the heat map's blocks, and server indices in their order.

    A block is a server group of the cluster; with more than 40 groups, all servers of one size.

    Examples
    --------
    >>> from drfh import Server
    >>> from drfh.scheduler.nodes import NodeTable
    >>> many = [Server({"cpu": 4 + 4 * (i % 2)}, name=f"n{i}") for i in range(50)]
    >>> blocks_of(NodeTable(Cluster(many)).entries)[0]
    (('4 cpu', 25), ('8 cpu', 25))
    """
    found: dict[str, list[int]] = {}
    for position, member in enumerate(members):
        found.setdefault(member.group, []).append(position)
    if len(found) > _MOST_BLOCKS:
        found = {}
        for position, member in enumerate(members):
            size = format_amounts({name: float(a) for name, a in member.record.resources.items()})
            found.setdefault(size, []).append(position)
    blocks = list(found.items())
    if len(blocks) > _MOST_BLOCKS:
        blocks.sort(key=lambda block: -len(block[1]))
        rest = [position for _, block in blocks[_MOST_BLOCKS - 1 :] for position in block]
        name = format_count(len(blocks) - _MOST_BLOCKS + 1, "other size")
        blocks = [*blocks[: _MOST_BLOCKS - 1], (name, rest)]
    order = np.array([position for _, block in blocks for position in block], dtype=np.int64)
    return tuple((name, len(block)) for name, block in blocks), order
