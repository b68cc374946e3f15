"""From the result of a simulation to its film."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from drfh.cluster import Cluster
from drfh.errors import InputError
from drfh.jobs import Workload
from drfh.resources import some
from drfh.scheduler.fleet import Member
from drfh.simulation import Result
from drfh.simulation.plan import Plan, make_plan
from drfh.simulation.servers import units_of
from drfh.web.nodes import amounts_text
from drfh.web.play_film import Film, Resizing, Runs, Samples

__all__ = ["blocks_of", "film_of"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

_MOST_BLOCKS = 40


def film_of(result: Result, cluster: Cluster, workload: Workload) -> Film:
    """Return the film of a simulation.

    Parameters
    ----------
    result
        With its tasks logged.
    cluster, workload
        What was simulated.

    Examples
    --------
    >>> from drfh import Job, Server, simulate
    >>> cluster = Cluster([Server({"cpu": 4}, name="a", count=2)])
    >>> workload = Workload(["ann"], [Job("ann", demand={"cpu": 3}, duration=60, tasks=2)])
    >>> film = film_of(simulate(cluster, workload, log=True), cluster, workload)
    >>> film.servers, film.blocks, film.runs.server.tolist()
    (('a/0', 'a/1'), (('a', 2),), [0, 1])
    """
    if result.tasks is None:
        raise InputError("result", "must have its tasks logged (simulate with log=True)")
    units = units_of(cluster, workload.events)
    plan, fleet = make_plan(cluster, workload, units)
    blocks, order = blocks_of(fleet.members)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    names = [fleet.members[position].name for position in order.tolist()]
    changes = tuple(
        Resizing(change.time, tuple(place[list(change.positions)].tolist()), change.capacity)
        for change in plan.changes
    )
    return Film(
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


def _runs(result: Result, plan: Plan, names: Sequence[str]) -> Runs:
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
    return Runs.sorted(
        table["start"].to_numpy(),
        np.where(end > result.horizon, math.inf, end),
        server,
        plan.user[batch][row],
        plan.shape[batch][row],
        table["cut"].to_numpy(),
    )


def _samples(result: Result, resources: Sequence[str], weight: Floats) -> Samples:
    table = result.samples
    shares = [name for name in table.columns if name.startswith("share.")]
    levels = [name for name in table.columns if name.startswith("fair_level.")]
    fair = None
    if "fair.distance" in table.columns:
        level = table.select(levels).fill_null(math.nan).to_numpy()
        fair = level.reshape(len(table), -1) * weight
    return Samples(
        table["time"].to_numpy().copy(),
        table.select([f"utilisation.{name}" for name in resources]).to_numpy(),
        table.select(shares).to_numpy().reshape(len(table), -1),
        fair,
    )


def blocks_of(members: Sequence[Member]) -> tuple[tuple[tuple[str, int], ...], Ints]:
    """Return blocks of servers for a heat map, and the servers in their order.

    A block is a group of the cluster; where there are too many, servers of one size are one.

    Examples
    --------
    >>> from drfh import Server
    >>> from drfh.scheduler.fleet import Fleet
    >>> many = [Server({"cpu": 4 + 4 * (i % 2)}, name=f"n{i}") for i in range(50)]
    >>> blocks_of(Fleet(Cluster(many)).members)[0]
    (('4 cpu', 25), ('8 cpu', 25))
    """
    found: dict[str, list[int]] = {}
    for position, member in enumerate(members):
        found.setdefault(member.group, []).append(position)
    if len(found) > _MOST_BLOCKS:
        found = {}
        for position, member in enumerate(members):
            size = amounts_text({name: float(a) for name, a in member.record.resources.items()})
            found.setdefault(size, []).append(position)
    blocks = list(found.items())
    if len(blocks) > _MOST_BLOCKS:
        blocks.sort(key=lambda block: -len(block[1]))
        rest = [position for _, block in blocks[_MOST_BLOCKS - 1 :] for position in block]
        name = some(len(blocks) - _MOST_BLOCKS + 1, "other size")
        blocks = [*blocks[: _MOST_BLOCKS - 1], (name, rest)]
    order = np.array([position for _, block in blocks for position in block], dtype=np.int64)
    return tuple((name, len(block)) for name, block in blocks), order
