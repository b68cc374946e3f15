"""Replay of a run by device: which GPUs its tasks would hold.

The scheduler sees the GPUs of a server as one pool: two halves that are left on two devices look
like one whole. This tells how much that matters.

A task asks for `num_gpu` devices and `gpu_milli` thousandths of each of them: 1000 for whole
devices. When it starts, it takes those of the devices with room for its part that are fullest; so
a whole one takes empty devices, and a part goes where the least is left over. If there are fewer
devices with room than it asks for, it had *no room*: it is spread over the emptiest devices, as
much on each as is free there, so that later tasks find the devices as full as the server is. When
it ends, what it took is free again.

At one instant tasks end before others start, as in the simulation; those that start together do so
in the order of the workload. Runs that were cut short by the loss of a server are not in the log
of tasks, so they are not replayed. A policy may give away more than there is (slots): such a task
had no room, and holds what was left.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from drfh.errors import InputError
from drfh.model.cluster import Cluster
from drfh.model.jobs import Workload
from drfh.model.jobs.validation import everything_up
from drfh.model.resources import TOLERANCE
from drfh.simulation.result import Result

__all__ = ["Devices", "replay_devices"]

_WHOLE = 1000
Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Devices:
    """How the tasks of a run would have found the devices.

    Attributes
    ----------
    tasks : int
        Tasks that started, with or without GPUs.
    fractional : int
        Those that asked for a part of a device.
    fractional_no_room : int
        Those of them that were placed where no single device had room.
    whole : int
        Tasks that asked for whole devices.
    whole_no_room : int
        Those of them that were placed where too few devices were empty.

    Examples
    --------
    >>> Devices(10, 4, 1, 3, 0).no_room_share
    0.14285714285714285
    """

    tasks: int
    fractional: int
    fractional_no_room: int
    whole: int
    whole_no_room: int

    @property
    def no_room(self) -> int:
        """Tasks with GPUs that had no room."""
        return self.fractional_no_room + self.whole_no_room

    @property
    def no_room_share(self) -> float | None:
        """Part of the tasks with GPUs that had no room; None if there are none."""
        asked = self.fractional + self.whole
        return self.no_room / asked if asked else None

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain data."""
        return {**asdict(self), "no_room": self.no_room, "no_room_share": self.no_room_share}


def replay_devices(
    result: Result,
    cluster: Cluster,
    workload: Workload,
    details: pl.DataFrame,
    *,
    resource: str = "gpu",
) -> Devices:
    """Replay a run device by device (see the module).

    Parameters
    ----------
    result
        A run that kept its log of tasks (``log=True``).
    cluster, workload
        What was simulated.
    details
        A row for each batch of the workload, with ``num_gpu`` and ``gpu_milli``: those of a trace.
    resource
        The resource that stands for devices; a server has as many as the whole part of it, at
        the time when it has most.

    Examples
    --------
    >>> import drfh
    >>> cluster = drfh.Cluster([drfh.Server({"gpu": 2}, name="node")])
    >>> workload = drfh.Workload(["ann"], [
    ...     drfh.Job("ann", demand={"gpu": 0.6}, duration=9),
    ...     drfh.Job("ann", demand={"gpu": 0.6}, duration=9),
    ...     drfh.Job("ann", demand={"gpu": 0.5}, duration=9, arrival=1),
    ... ])
    >>> details = pl.DataFrame({"num_gpu": [1, 1, 1], "gpu_milli": [600, 600, 500]})
    >>> result = drfh.simulate(cluster, workload, log=True)
    >>> replay_devices(result, cluster, workload, details).to_dict()
    {'tasks': 3, 'fractional': 3, 'fractional_no_room': 1, 'whole': 0, 'whole_no_room': 0, \
'no_room': 1, 'no_room_share': 0.3333333333333333}
    """
    if result.tasks is None:
        raise InputError("result", "must have a log of tasks (simulate with log=True)")
    for name in ("num_gpu", "gpu_milli"):
        if name not in details.columns:
            raise InputError("details", f"must have the column {name}", details.columns)
    batches, tasks = len(workload.batch_count), workload.task_count
    if len(details) != batches:
        raise InputError("details", f"must have {batches:,} rows, one for each batch", len(details))
    if len(result.tasks) != tasks:
        rule = f"must be of this workload ({tasks:,} tasks)"
        raise InputError("result", rule, len(result.tasks))
    counts, milli = (
        np.repeat(details[name].fill_null(0).cast(pl.Int64).to_numpy(), workload.batch_count)
        for name in ("num_gpu", "gpu_milli")
    )
    started = result.tasks["start"].is_not_null().to_numpy()
    asks = started & (counts > 0) & (milli > 0)
    devices = _devices(cluster, workload, resource)
    servers = result.tasks["server"].to_list()
    free = {name: [_WHOLE] * number for name, number in devices.items()}
    held: dict[int, list[tuple[int, int]]] = {}
    no_room = np.zeros(tasks, dtype=bool)
    for task, starts in _moments(result.tasks, np.flatnonzero(asks)):
        node = free.setdefault(servers[task], [])
        if starts:
            held[task], no_room[task] = _take(node, int(counts[task]), int(milli[task]))
        else:
            for device, amount in held.pop(task):
                node[device] += amount
    part = asks & (milli < _WHOLE)
    whole = asks & ~part
    return Devices(
        tasks=int(started.sum()),
        fractional=int(part.sum()),
        fractional_no_room=int((no_room & part).sum()),
        whole=int(whole.sum()),
        whole_no_room=int((no_room & whole).sum()),
    )


def _devices(cluster: Cluster, workload: Workload, resource: str) -> dict[str, int]:
    """Return the number of devices of each server that has any."""
    up = everything_up(cluster, workload.events)
    if resource not in up.resources:
        return {}
    amounts = up.capacity[:, up.resources.index(resource)].tolist()
    return {
        up.server_name(group, index): int(amount + TOLERANCE)
        for group, amount in enumerate(amounts)
        if amount >= 1 - TOLERANCE
        for index in range(int(up.counts[group]))
    }


def _moments(log: pl.DataFrame, tasks: Ints) -> list[tuple[int, bool]]:
    """Return (task, whether it starts) in order of time; at one instant ends come first.

    A task that ends as it starts does so at once, before the next one starts.
    """
    start = log["start"].to_numpy()[tasks]
    end = log["end"].fill_null(float("inf")).to_numpy()[tasks]
    over = np.isfinite(end)
    time = np.concatenate((start, end[over]))
    rank = np.concatenate((np.ones(len(tasks)), np.where(end > start, 0, 1)[over]))
    who = np.concatenate((tasks, tasks[over]))
    starts = np.arange(len(who)) < len(tasks)
    order = np.lexsort((~starts, who, rank, time))
    return list(zip(who[order].tolist(), starts[order].tolist(), strict=True))


def _take(free: list[int], count: int, milli: int) -> tuple[list[tuple[int, int]], bool]:
    """Take devices for a task: what it holds on which, and whether it had no room.

    Examples
    --------
    >>> free = [1000, 400, 600]
    >>> _take(free, 1, 400), free  # the fullest one with room
    (([(1, 400)], False), [1000, 0, 600])
    >>> _take(free, 1, 1000), _take(free, 1, 800), free  # no room: what is left of the last
    (([(0, 1000)], False), ([(2, 600)], True), [0, 0, 0])
    """
    roomy = sorted((left, device) for device, left in enumerate(free) if left >= milli)
    if len(roomy) >= count:
        held = [(device, milli) for _, device in roomy[:count]]
    else:
        held = []
        rest = count * milli
        for left, device in sorted(((-left, device) for device, left in enumerate(free))):
            amount = min(-left, rest)
            if amount > 0:
                held.append((device, amount))
                rest -= amount
    for device, amount in held:
        free[device] -= amount
    return held, len(roomy) < count
