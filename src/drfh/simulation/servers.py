"""Servers that come, go and change size: names become positions before the clock starts.

Every server that is ever up has its place from the start, with nothing on it to use while it is
down: a brain that is asked then says the same as one that learns of it later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from drfh.cluster import Cluster, Server
from drfh.jobs import AddServers, RemoveServers, ServerEvent, Workload, everything_up
from drfh.scheduler.core import Core
from drfh.scheduler.fleet import Fleet
from drfh.scheduler.units import LARGEST_AMOUNT, Units
from drfh.workload import Restriction

__all__ = [
    "Change",
    "apply_change",
    "has_predicate",
    "resolve_allowed",
    "resolve_changes",
    "units_of",
]

Bools: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Change:
    """At `time` the servers at `positions` have `capacity` (in units; all zeros: they are down)."""

    time: float
    kind: Literal["add", "remove", "resize"]
    positions: tuple[int, ...]
    capacity: tuple[int, ...]


def units_of(cluster: Cluster, events: Sequence[ServerEvent]) -> Units:
    """Return the units of a cluster, with those of resources that only come later.

    Examples
    --------
    >>> new = AddServers(60, Server({"gpu": 8}, name="new"))
    >>> units_of(Cluster([Server({"cpu": 8})]), [new]).resources
    ('cpu', 'gpu')
    """
    units = Units.of(cluster)
    if not events:
        return units
    every = everything_up(cluster, events)
    later = Units.of(every)
    size = dict(zip(later.resources, later.sizes, strict=True))
    largest = dict(zip(every.resources, every.totals.tolist(), strict=True))
    own = zip(units.resources, units.sizes, cluster.totals.tolist(), strict=True)
    # The same integers as a scheduler on this cluster has, unless the pool outgrows them.
    size |= {
        name: unit
        for name, unit, total in own
        if total > 0 and largest.get(name, 0.0) / unit < LARGEST_AMOUNT
    }
    names = (*units.resources, *(name for name in later.resources if name not in units.resources))
    return Units(names, tuple(size[name] for name in names))


def resolve_changes(
    fleet: Fleet, events: Sequence[ServerEvent], units: Units, *, by_size: bool
) -> list[Change]:
    """Give every server that comes a place in the fleet, and return the events in numbers.

    Parameters
    ----------
    fleet
        The servers at the start; the later ones are put into it.
    events
        Checked, and ordered by time.
    units
        Of all resources.
    by_size
        Whether some restriction looks at the size of a server (a predicate may).
    """
    up = dict(fleet.position)
    groups = {position: member.group for position, member in enumerate(fleet.members)}
    changes: list[Change] = []
    for event in events:
        if isinstance(event, AddServers):
            record = event.server
            names = [str(record.name)]
            if record.count > 1:
                names = [f"{record.name}/{index}" for index in range(record.count)]
            positions = tuple(_enter(fleet, name, record, by_size) for name in names)
            up.update(zip(names, positions, strict=True))
            groups.update(dict.fromkeys(positions, str(record.name)))
            row = units.capacity(record.resources)
            changes.append(Change(event.time, "add", positions, tuple(row)))
            continue
        names = _names_up(event.name, up, groups)
        positions = tuple(up[name] for name in names)
        if isinstance(event, RemoveServers):
            for name in names:
                del up[name]
            nothing = (0,) * len(units.resources)
            changes.append(Change(event.time, "remove", positions, nothing))
        else:
            row = units.capacity(event.resources)
            changes.append(Change(event.time, "resize", positions, tuple(row)))
    return changes


def _enter(fleet: Fleet, name: str, record: Server, by_size: bool) -> int:
    """Return the place of a server that comes: its old one, unless others may use it now."""
    old = fleet.position.get(name)
    if old is not None:
        before = fleet.members[old].record
        sizes_differ = by_size and before.resources != record.resources
        if before.labels != record.labels or sizes_differ:
            del fleet.position[name]
    return fleet.add(name, record, str(record.name))


def _names_up(name: str, up: dict[str, int], groups: dict[int, str]) -> list[str]:
    if name in up:
        return [name]
    group, _, index = name.rpartition("/")
    if index == "0" and group in up:  # the only server of its group
        return [group]
    return [server for server, position in up.items() if groups[position] == name]


def resolve_allowed(
    fleet: Fleet, restriction: Restriction, owner: str, *, changes: bool = False
) -> Bools:
    """Return for each server that is ever up whether a restriction allows it."""
    field = f"servers of {owner}"
    terms = restriction if isinstance(restriction, tuple) else (restriction,)
    known = tuple(_as_here(term, fleet) if isinstance(term, str) else term for term in terms)
    if not changes:
        return np.array(fleet.allowed(known, field), dtype=bool)
    # One by one: a name may have been that of a server, and later of a group or another server.
    every = range(len(fleet.members))
    return np.array([fleet.allows(known, position, field) for position in every], dtype=bool)


def _as_here(name: str, fleet: Fleet) -> str:
    """Return ``big`` for ``big/0`` where that is the only one."""
    group, _, index = name.rpartition("/")
    return (
        group if index == "0" and name not in fleet.position and group in fleet.position else name
    )


def apply_change(core: Core, change: Change) -> list[int]:
    """Change the servers of a brain, and return the tasks that were put back."""
    evicted: list[int] = []
    for server in change.positions:
        shrinks = any(
            new < old for new, old in zip(change.capacity, core.capacity(server), strict=True)
        )
        core.set_capacity(server, change.capacity)
        newest_first = core.running_on(server)[::-1] if shrinks else []
        for task in newest_first:
            if change.kind != "remove" and not core.overfull(server):
                break
            core.put_back(task)
            evicted.append(task)
    return evicted


def has_predicate(workload: Workload) -> bool:
    """Return whether some restriction is a Python function."""
    everyone = (*(user.servers for user in workload.users), *workload.restrictions)
    return any(callable(term) for terms in everyone for term in terms or ())  # type: ignore[union-attr]
