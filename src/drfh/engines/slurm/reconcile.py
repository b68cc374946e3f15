"""From a look at Slurm to what the brain should know, and what is to be put in order there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from drfh.engines.slurm.annotations import DAY, HELD_UNTIL, PARKED_UNTIL, Annotation
from drfh.engines.slurm.config import SlurmConfig
from drfh.engines.slurm.state import SlurmJob, SlurmState
from drfh.engines.snapshot import ClusterSnapshot, NodeSnapshot, TaskSnapshot
from drfh.wire.slurm.records import SlurmNode

__all__ = ["Reconciliation", "reconcile"]

_OWNER = "held by its owner"
# Seconds after a requeue. Slurm itself waits for two minutes: a node that was told to end a job
# takes it for that one if it comes back in the same second, and the job has failed.
_AFTERMATH = 5.0
_SEVERAL_NODES = (
    "needs {nodes} nodes at once, and drfh places jobs on one node: ask for one node, or use a "
    "partition that drfh does not manage"
)


@dataclass(frozen=True)
class Reconciliation:
    """What the brain should know, and what is to be done in Slurm besides placing.

    Parameters
    ----------
    snapshot
        For the brain.
    jobs
        The job of each task.
    known
        All jobs that have not ended, by name.
    released
        Jobs that we released and that have not started yet: job → node.
    to_hold
        New jobs, not yet under a hold of ours.
    to_take_back
        Jobs that wait for a node which they will not get: job → why.
    to_give_back
        Jobs of ours that moved to where we do not manage.
    to_park
        Jobs that wait for another job, and must do so without a hold.
    to_collect
        Jobs that waited for another job, and need not any more.
    to_keep
        Jobs that somebody has requeued under a hold: their owners must be able to lift it.
    to_note
        Jobs whose mark should say something else.
    """

    snapshot: ClusterSnapshot
    jobs: Mapping[str, SlurmJob]
    known: Mapping[str, SlurmJob]
    released: Mapping[str, str]
    to_hold: tuple[SlurmJob, ...]
    to_take_back: Mapping[str, str]
    to_give_back: tuple[SlurmJob, ...]
    to_park: tuple[SlurmJob, ...]
    to_collect: tuple[SlurmJob, ...]
    to_keep: tuple[SlurmJob, ...]
    to_note: Mapping[str, Annotation]


def reconcile(
    picture: SlurmState,
    site: SlurmConfig,
    back_off: Mapping[str, str] | None = None,
    avoided: Mapping[str, frozenset[str]] | None = None,
) -> Reconciliation:
    """Return what a look means.

    Parameters
    ----------
    picture
        The look.
    site
        How the site wants it.
    back_off
        Jobs that must not be placed for a while: job → why, in words.
    avoided
        Nodes on which a job must not be placed for a while.
    """
    sorter = _Sorter(picture, site, back_off or {}, avoided or {})
    for job in sorted(picture.jobs.values(), key=lambda job: job.order):
        sorter.sort(job)
    servers = _servers(picture, sorter.tasks)
    weights = dict(site.weights)
    return Reconciliation(
        ClusterSnapshot(servers, sorter.tasks, weights),
        sorter.jobs,
        picture.jobs,
        sorter.released,
        tuple(sorter.to_hold),
        sorter.to_take_back,
        tuple(sorter.to_give_back),
        tuple(sorter.to_park),
        tuple(sorter.to_collect),
        tuple(sorter.to_keep),
        sorter.to_note,
    )


class _Sorter:
    """Tells for each job what it is to us."""

    def __init__(
        self,
        picture: SlurmState,
        site: SlurmConfig,
        back_off: Mapping[str, str],
        avoided: Mapping[str, frozenset[str]],
    ) -> None:
        self.picture, self.site, self.back_off, self.avoided = picture, site, back_off, avoided
        self.tasks: dict[str, TaskSnapshot] = {}
        self.jobs: dict[str, SlurmJob] = {}
        self.released: dict[str, str] = {}
        self.to_hold: list[SlurmJob] = []
        self.to_take_back: dict[str, str] = {}
        self.to_give_back: list[SlurmJob] = []
        self.to_park: list[SlurmJob] = []
        self.to_collect: list[SlurmJob] = []
        self.to_keep: list[SlurmJob] = []
        self.to_note: dict[str, Annotation] = {}
        self._names = {name: position for position, name in enumerate(_useful(picture))}
        self._lists: dict[frozenset[str], tuple[str, ...]] = {}
        # Tasks of an array that run or may start: its owner may have set a limit.
        self._active = Counter(
            job.array
            for job in picture.jobs.values()
            if job.array is not None and (job.on or (job.hold == "no" and not _is_parked(job)))
        )

    def sort(self, job: SlurmJob) -> None:
        if job.on:
            self._runs(job)
        elif job.mark is None:
            if self.site.hold_by == "controller" and self.site.manages(job) and job.hold == "no":
                self.to_hold.append(job)
        elif not self.site.manages(job):
            self.to_give_back.append(job)
        elif job.hold == "requeued" and self.site.hold_by == "plugin":
            self.to_keep.append(job)
            self._add(job, job.name, self._task(job, job.demand, aside=_OWNER, returned=True))
        elif job.depends or job.mark.parked:
            self._depends(job, job.mark)
        elif job.hold == "no":
            self._released(job, job.mark)
        else:
            self._waits(job, job.mark)

    def _runs(self, job: SlurmJob) -> None:
        for node, demand in job.on.items():
            if node in self._names and demand:
                name = job.name if len(job.on) == 1 else f"{job.name}@{node}"
                self._add(job, name, self._task(job, demand, on=node))

    def _depends(self, job: SlurmJob, mark: Annotation) -> None:
        """Sort in a job that waits for another one, or did until now."""
        by_others = self._held_by_others(job)
        if by_others:
            pass  # Slurm does not look at what it waits for
        elif not job.depends:
            self.to_collect.append(job)
        elif not mark.parked or job.hold != "no":
            self.to_park.append(job)
        elif mark.held != (job.begins >= HELD_UNTIL - DAY):
            self.to_note[job.name] = replace(mark, held=not mark.held)
        aside = f"waits for another job ({job.depends})" if job.depends else "can go on in a moment"
        aside = by_others or aside
        task = self._task(job, job.demand, aside=aside, returned=mark.pin is not None)
        self._add(job, job.name, task)

    def _held_by_others(self, job: SlurmJob) -> str:
        """Return who holds a job besides us, in words; empty if nobody does."""
        if job.hold in ("no", self.site.hold):
            return ""
        if job.hold == "failed":
            return f"held by Slurm ({job.reason})"
        return "held by an administrator" if job.hold == "admin" else _OWNER

    def _later(self, job: SlurmJob) -> str:
        """Return why the time of a job has not come, in words; empty if it has."""
        if job.begins >= HELD_UNTIL - DAY:
            return _OWNER
        if job.restarts and self.picture.time < job.since + _AFTERMATH:
            return "was requeued a moment ago"
        if job.begins <= self.picture.time:
            return ""
        if job.begins >= PARKED_UNTIL - DAY:
            return "can go on in a moment"
        when = datetime.fromtimestamp(job.begins).isoformat(" ", "minutes")
        return f"must not start before {when}"

    def _released(self, job: SlurmJob, mark: Annotation) -> None:
        """Sort in a job that Slurm may start."""
        node = None if mark.pin is None else self.picture.nodes.get(mark.pin)
        if mark.pin is None and self.site.hold_by == "plugin" and not mark.held:
            return  # an administrator released it: it starts when Slurm finds room
        why = ""
        if mark.held or mark.pin is None:
            # Without the script an owner can end even an administrator's hold (by Nice=1), or
            # has ended his own; with it an administrator has released what its owner held.
            why = "it was released, and waits for its turn"
        elif job.required != mark.pin:
            why = "its node list was changed"
        elif job.restarts != mark.restarts:
            why = "it was requeued"
        elif node is None or node.state != "up":
            why = f"{mark.pin} takes no new jobs"
        elif self._later(job):
            why = self._later(job)
        if why:
            self.to_take_back[job.name] = why
            returned = mark.pin is not None
            self._add(job, job.name, self._task(job, job.demand, aside=why, returned=returned))
        else:
            assert node is not None
            assert mark.pin is not None
            self.released[job.name] = mark.pin
            demand = _taken(job, node)
            self._add(job, job.name, self._task(job, demand, on=mark.pin))

    def _waits(self, job: SlurmJob, mark: Annotation) -> None:
        """Sort in a job that is under a hold."""
        if self.avoided.get(job.name):
            names = frozenset(self._names) if job.allowed is None else job.allowed
            job = replace(job, allowed=names - self.avoided[job.name])
        later = self._later(job)
        by_others = self._held_by_others(job)
        aside = by_others or later or self.back_off.get(job.name, "")
        by_owner = _OWNER in (later, by_others)
        if by_owner != mark.held:
            self.to_note[job.name] = replace(mark, held=by_owner)
        refused = ""
        if job.nodes > 1:
            aside = refused = _SEVERAL_NODES.format(nodes=job.nodes)
        if refused != mark.refused:
            self.to_note[job.name] = replace(mark, held=by_owner, refused=refused)
        if not aside and job.array is not None and job.array_most:
            if self._active[job.array] >= job.array_most:
                aside = f"its array runs at most {job.array_most} at once"
            else:
                self._active[job.array] += 1
        task = self._task(job, job.demand, aside=aside, returned=mark.pin is not None)
        if job.whole:
            task = self._of_whole_node(job, task)
        self._add(job, job.name, task)

    def _add(self, job: SlurmJob, name: str, task: TaskSnapshot) -> None:
        if task.demand:
            self.tasks[name] = task
            self.jobs[name] = job

    def _task(
        self,
        job: SlurmJob,
        demand: Mapping[str, float],
        *,
        on: str | None = None,
        aside: str = "",
        returned: bool = False,
    ) -> TaskSnapshot:
        return TaskSnapshot(
            job.owner[self.site.user_by], demand, job.order, self._list(job.allowed),
            on=on, aside=aside, returned=returned, since=job.since, limit=job.limit,
        )  # fmt: skip

    def _list(self, allowed: frozenset[str] | None) -> tuple[str, ...] | None:
        if allowed is None:
            return None
        if allowed not in self._lists:
            known = (name for name in allowed if name in self._names)
            self._lists[allowed] = tuple(sorted(known, key=self._names.__getitem__))
        return self._lists[allowed]

    def _of_whole_node(self, job: SlurmJob, task: TaskSnapshot) -> TaskSnapshot:
        """Return a task that takes a whole node, or all memory of one: of the smallest that do."""
        kinds: dict[tuple[tuple[str, float], ...], list[str]] = {}
        for name in task.servers if task.servers is not None else self._names:
            node = self.picture.nodes[name]
            size = node.amounts
            fits = all(
                size.get(resource, 0.0) >= amount
                for resource, amount in job.demand.items()
                if not (job.whole == "memory" and resource == "memory")
            )
            if fits and node.state != "down":
                key = tuple(sorted((r, a) for r, a in size.items() if a > 0))
                kinds.setdefault(key, []).append(name)
        if not kinds:
            return task
        states = {name: node.state for name, node in self.picture.nodes.items()}
        smallest = min(
            kinds,
            key=lambda key: (all(states[name] != "up" for name in kinds[key]), _bulk(dict(key))),
        )
        names = tuple(kinds[smallest])
        return replace(task, demand=_taken(job, self.picture.nodes[names[0]]), servers=names)


def _is_parked(job: SlurmJob) -> bool:
    return job.mark is not None and job.mark.parked


def _taken(job: SlurmJob, node: SlurmNode) -> Mapping[str, float]:
    """Return what a job takes on this node."""
    size = {r: a for r, a in node.amounts.items() if a > 0}
    if job.whole == "node":
        return size
    if job.whole == "memory":
        return {**job.demand, "memory": size.get("memory", 0.0)}
    return job.demand


def _bulk(size: Mapping[str, float]) -> tuple[float, ...]:
    generic = sum(amount for name, amount in size.items() if name not in ("cpu", "memory"))
    return (generic, size.get("cpu", 0.0), size.get("memory", 0.0))


def _servers(picture: SlurmState, tasks: Mapping[str, TaskSnapshot]) -> dict[str, NodeSnapshot]:
    used: dict[str, dict[str, float]] = {}
    for task in tasks.values():
        if task.on is not None:
            held = used.setdefault(task.on, {})
            for resource, amount in task.demand.items():
                held[resource] = held.get(resource, 0.0) + amount
    return {name: _server(picture.nodes[name], used.get(name, {})) for name in _useful(picture)}


def _useful(picture: SlurmState) -> list[str]:
    """Return the nodes that have something to share."""
    return [name for name, node in picture.nodes.items() if any(node.amounts.values())]


def _server(node: SlurmNode, used: Mapping[str, float]) -> NodeSnapshot:
    size = {r: a for r, a in node.amounts.items() if a > 0}
    room = size if node.state == "up" else dict(used)
    return NodeSnapshot(size, room, node.state, node.labels)
