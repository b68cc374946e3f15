"""The servers of a trace: their shapes, and how much of each resource is up over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from drfh.cluster import Cluster
from drfh.jobs import AddServers, RemoveServers, ResizeServer, ServerEvent

__all__ = ["capacity_changes", "pool_resources", "server_shapes"]

Floats: TypeAlias = NDArray[np.float64]


def server_shapes(cluster: Cluster) -> pl.DataFrame:
    """Return the different servers, the most frequent first.

    Servers with the same resources have one shape, whatever their labels.

    Returns
    -------
    polars.DataFrame
        `servers` (how many), `share` (of all servers), ``capacity.cpu`` and so on, `labels` (the
        different ones, as text) and `first` (the name of a server group).

    Examples
    --------
    >>> from drfh import Server
    >>> big, small = {"cpu": 8, "memory": 16}, {"cpu": 2}
    >>> cluster = Cluster([Server(big), Server(small, count=3), Server(big)])
    >>> server_shapes(cluster).select("servers", "capacity.cpu", "capacity.memory").rows()
    [(3, 2.0, 0.0), (2, 8.0, 16.0)]
    """
    columns = [f"capacity.{name}" for name in cluster.resources]
    labels = [
        ", ".join(f"{key}={value}" for key, value in server.labels.items())
        for server in cluster.servers
    ]
    frame = pl.DataFrame(
        {
            **dict(zip(columns, cluster.capacity.T, strict=True)),
            "servers": cluster.counts,
            "labels": labels,
            "first": cluster.names,
        }
    )
    found = (
        frame.group_by(columns, maintain_order=True)
        .agg(
            pl.col("servers").sum(),
            pl.col("labels").filter(pl.col("labels") != "").unique(maintain_order=True),
            pl.col("first").first(),
        )
        .sort("servers", descending=True, maintain_order=True)
        .with_columns((pl.col("servers") / cluster.size).alias("share"))
    )
    return found.select("servers", "share", *columns, "labels", "first")


def pool_resources(cluster: Cluster, events: Iterable[ServerEvent]) -> tuple[str, ...]:
    """Return the resources of all servers that are ever up, in order of first mention.

    Examples
    --------
    >>> from drfh import Server
    >>> later = AddServers(60, Server({"gpu": 8}, name="new"))
    >>> pool_resources(Cluster([Server({"cpu": 8})]), [later])
    ('cpu', 'gpu')
    """
    names = dict.fromkeys(cluster.resources)
    for event in events:
        if isinstance(event, AddServers):
            names.update(dict.fromkeys(event.server.resources))
        elif isinstance(event, ResizeServer):
            names.update(dict.fromkeys(event.resources))
    return tuple(names)


@dataclass(slots=True)
class _Group:
    """Servers that came together: how many, what one has, and which differ or have left."""

    count: int
    row: Floats
    resized: dict[int, Floats] = field(default_factory=dict)
    left: set[int] = field(default_factory=set)

    def total(self) -> Floats:
        plain = self.count - len(self.left) - len(self.resized)
        total: Floats = plain * self.row + sum(self.resized.values(), np.zeros_like(self.row))
        return total

    def one(self, index: int) -> Floats:
        return self.resized.get(index, self.row)


def capacity_changes(
    cluster: Cluster, events: Sequence[ServerEvent], resources: Sequence[str]
) -> tuple[Floats, Floats]:
    """Return when servers come, go or change size, and by how much the pool changes.

    Parameters
    ----------
    cluster
        The servers at the start.
    events
        Checked, and ordered by time.
    resources
        Columns of the answer.

    Returns
    -------
    times : float array, events
        In seconds.
    changes : float array, events × resources
        What is added to the pool, or taken from it.

    Examples
    --------
    >>> from drfh import Server
    >>> cluster = Cluster([Server({"cpu": 8}, name="big", count=2)])
    >>> times, changes = capacity_changes(
    ...     cluster, [ResizeServer(60, "big/0", {"cpu": 2}), RemoveServers(90, "big")], ["cpu"]
    ... )
    >>> times.tolist(), changes.tolist()
    ([60.0, 90.0], [[-6.0], [-10.0]])
    """
    place = {name: position for position, name in enumerate(resources)}
    changes = np.zeros((len(events), len(resources)))
    if not len(events):
        return np.empty(0), changes
    own = np.zeros((len(cluster), len(resources)))
    for column, name in enumerate(cluster.resources):
        if name in place:
            own[:, place[name]] = cluster.capacity[:, column]
    counted = zip(cluster.names, cluster.counts.tolist(), own, strict=True)
    groups = {name: _Group(count, row) for name, count, row in counted}
    for number, event in enumerate(events):
        if isinstance(event, AddServers):
            row = _row(event.server.resources, place)
            groups[str(event.server.name)] = _Group(event.server.count, row)
            changes[number] = event.server.count * row
            continue
        name, index = _find(event.name, groups)
        group = groups[name]
        if isinstance(event, RemoveServers):
            if index is None:
                changes[number] = -group.total()
                del groups[name]
            else:
                changes[number] = -group.one(index)
                group.resized.pop(index, None)
                group.left.add(index)
                if len(group.left) == group.count:
                    del groups[name]
        else:
            row = _row(event.resources, place)
            changes[number] = row - group.one(index or 0)
            group.resized[index or 0] = row
    return np.array([event.time for event in events]), changes


def _row(amounts: Mapping[str, float], place: Mapping[str, int]) -> Floats:
    row = np.zeros(len(place))
    for name, amount in amounts.items():
        if name in place:
            row[place[name]] = amount
    return row


def _find(name: str, groups: Mapping[str, _Group]) -> tuple[str, int | None]:
    """Return the group, and the index inside it; None for all of it."""
    if name in groups:
        return name, None
    group, _, index = name.rpartition("/")
    return group, (int(index) if groups[group].count > 1 else None)
