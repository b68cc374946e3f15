"""Events of a live cluster: what a cycle did, and what changed between two observations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drfh.engines.snapshot import job_of
from drfh.formatting import format_count

if TYPE_CHECKING:
    from drfh.engines.engine import LiveCluster
    from drfh.engines.observer import Cycle
    from drfh.engines.snapshot import ClusterSnapshot
    from drfh.engines.status import Status

__all__ = ["KINDS", "LiveEvent", "change_events", "cycle_events", "remark_events"]

#: What each kind of event is called.
KINDS: Mapping[str, str] = {
    "placed": "placed",
    "started": "started",
    "ended": "ended",
    "back": "taken back",
    "failed": "failed",
    "node": "node",
    "note": "note",
    "trouble": "trouble",
}
_FEW = 4  # so many of one kind have an event each; more are counted in one
_STATES = {"up": "is up", "closing": "takes nothing new", "down": "is down"}


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """An event of a live cluster.

    Parameters
    ----------
    time
        Seconds since 1970.
    kind
        One of :data:`KINDS`.
    """

    time: float
    kind: str
    text: str


def cycle_events(cycle: Cycle) -> list[LiveEvent]:
    """Return what a cycle of the controller did."""
    time = cycle.cluster.time
    placed = [(f"job {one.task} of {one.user} on {one.server}", one.user) for one in cycle.placed]
    recalled = [(f"job {name}: {why}", why) for name, why in cycle.recalled.items()]
    failed = [(f"job {name}: {why}" if name else why, why) for name, why in cycle.failed.items()]
    return [
        *_grouped(time, "back", recalled, "job"),
        *_grouped(time, "failed", failed, "answer"),
        *_grouped(time, "placed", placed, "job"),
    ]


def change_events(
    before: LiveCluster | None, after: LiveCluster, *, starts: bool = False
) -> list[LiveEvent]:
    """Return what happened between two observations: jobs that ended, nodes that changed.

    Parameters
    ----------
    before, after
        None before the first observation.
    starts
        Also jobs that started, or wait again; not needed where a cycle reports it.
    """
    if before is None:
        return []
    time, old, new = after.time, before.snapshot, after.snapshot
    nodes = []
    for name, server in new.servers.items():
        known = old.servers.get(name)
        if known is None:
            nodes.append((f"{name} is new", "new"))
        elif known.state != server.state:
            nodes.append((f"{name} {_STATES.get(server.state, server.state)}", server.state))
        elif known.size != server.size:
            nodes.append((f"{name} has another size", "another size"))
    nodes += [(f"{name} is gone", "gone") for name in old.servers if name not in new.servers]
    events = _grouped(time, "node", nodes, "node")
    events += _grouped(time, "ended", _only_in(old, new, gone=True), "job")
    if starts:
        events += _grouped(time, "back", _only_in(old, new, gone=False), "job")
        events += _grouped(time, "started", _only_in(new, old), "job")
    return events


def _only_in(
    one: ClusterSnapshot, other: ClusterSnapshot, gone: bool | None = None
) -> list[tuple[str, str]]:
    """Return text and user of jobs that have a node in one snapshot and none in the other.

    Those alone that are not in the other at all (`gone`), or that wait there (not `gone`).
    """
    found: dict[str, tuple[str, str]] = {}
    for name, task in one.tasks.items():
        there = other.tasks.get(name)
        if gone is not None and gone != (there is None):
            continue
        if task.on is not None and (there is None or there.on is None):
            job = job_of(name)
            found.setdefault(job, (f"job {job} of {task.user} on {task.on}", task.user))
    return list(found.values())


def remark_events(before: Status | None, after: Status) -> list[LiveEvent]:
    """Return what is new among the entries that cannot be read and the notes."""
    known = set() if before is None else {*before.broken, *before.notes}
    lines = [line for line in (*after.notes, *after.broken) if line not in known]
    return _grouped(after.time, "note", [(line, "note") for line in lines], "remark")


def _grouped(
    time: float, kind: str, found: Iterable[tuple[str, Hashable]], thing: str
) -> list[LiveEvent]:
    """Return an event for each, or one for all with how many there are of each sort."""
    listed = list(found)
    if len(listed) <= _FEW:
        return [LiveEvent(time, kind, text) for text, _ in listed]
    sorts = Counter(sort for _, sort in listed).most_common()
    shown = ", ".join(f"{sort} {number:,}" for sort, number in sorts[:_FEW])
    more = f", {format_count(len(sorts) - _FEW, 'other')}" if len(sorts) > _FEW else ""
    return [LiveEvent(time, kind, f"{format_count(len(listed), thing)} ({shown}{more})")]
