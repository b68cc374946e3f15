"""Events of a live cluster, for people: what a round did, and what changed between two looks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drfh.model.resources import some

if TYPE_CHECKING:
    from drfh.engines.slurm.cluster import SlurmCluster
    from drfh.engines.slurm.controller import Cycle
    from drfh.engines.slurm.status import Status
    from drfh.engines.snapshot import ClusterSnapshot

__all__ = ["KINDS", "LiveEvent", "changes", "done_in", "remarks"]

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
_FEW = 4  # so many of one kind in a round have a line each; more are counted in one
_STATES = {"up": "is up", "closing": "takes nothing new", "down": "is down"}


@dataclass(frozen=True, slots=True)
class LiveEvent:
    """Something that happened.

    Parameters
    ----------
    time
        Seconds since 1970.
    kind
        One of :data:`KINDS`.
    text
        In words.
    """

    time: float
    kind: str
    text: str


def done_in(done: Cycle) -> list[LiveEvent]:
    """Return what a round of the controller did."""
    time = done.time
    placed = [(f"job {one.task} of {one.user} on {one.server}", one.user) for one in done.placed]
    back = [(f"job {name}: {why}", why) for name, why in done.taken_back.items()]
    failed = [(f"job {name}: {why}" if name else why, why) for name, why in done.failed.items()]
    return [
        *_told(time, "back", back, "job"),
        *_told(time, "failed", failed, "answer"),
        *_told(time, "placed", placed, "job"),
    ]


def changes(
    before: SlurmCluster | None, after: SlurmCluster, *, starts: bool = False
) -> list[LiveEvent]:
    """Return what happened between two looks: jobs that ended, nodes that changed.

    Parameters
    ----------
    before, after
        The looks; nothing has happened before the first.
    starts
        Also jobs that started, or wait again; not needed where a round tells it.
    """
    if before is None:
        return []
    time, old, new = after.picture.time, before.view.snapshot, after.view.snapshot
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
    events = _told(time, "node", nodes, "node")
    events += _told(time, "ended", _only_in(old, new, gone=True), "job")
    if starts:
        events += _told(time, "back", _only_in(old, new, gone=False), "job")
        events += _told(time, "started", _only_in(new, old), "job")
    return events


def _only_in(
    one: ClusterSnapshot, other: ClusterSnapshot, gone: bool | None = None
) -> list[tuple[str, str]]:
    """Return jobs that have a node in one look and none in the other: words, and whose they are.

    Those alone that are not in the other at all (`gone`), or that wait there (not `gone`).
    """
    found: dict[str, tuple[str, str]] = {}
    for name, task in one.tasks.items():
        there = other.tasks.get(name)
        if gone is not None and gone != (there is None):
            continue
        if task.on is not None and (there is None or there.on is None):
            job = name.partition("@")[0]  # one on several nodes is a task for each
            found.setdefault(job, (f"job {job} of {task.user} on {task.on}", task.user))
    return list(found.values())


def remarks(before: Status | None, after: Status) -> list[LiveEvent]:
    """Return what Slurm says now that cannot be read, or should be known, and did not before."""
    known = set() if before is None else {*before.broken, *before.notes}
    lines = [line for line in (*after.notes, *after.broken) if line not in known]
    return _told(after.time, "note", [(line, "note") for line in lines], "remark")


def _told(time: float, kind: str, found: Iterable[tuple[str, str]], thing: str) -> list[LiveEvent]:
    """Return an event for each, or one for all with how many there are of each sort."""
    listed = list(found)
    if len(listed) <= _FEW:
        return [LiveEvent(time, kind, text) for text, _ in listed]
    sorts = Counter(sort for _, sort in listed).most_common()
    shown = ", ".join(f"{sort} {number:,}" for sort, number in sorts[:_FEW])
    more = f", {some(len(sorts) - _FEW, 'other')}" if len(sorts) > _FEW else ""
    return [LiveEvent(time, kind, f"{some(len(listed), thing)} ({shown}{more})")]
