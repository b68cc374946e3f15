"""Reconciliation of Slurm's state: the snapshot to schedule, and the changes to make in Slurm."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from drfh.engines.slurm.config import SlurmConfig
from drfh.engines.slurm.state import (
    DAY,
    DEFERRED_UNTIL,
    HELD_UNTIL,
    Annotation,
    SlurmJob,
    SlurmState,
)
from drfh.engines.snapshot import (
    BlockedCode,
    BlockedReason,
    ClusterSnapshot,
    NodeSnapshot,
    TaskSnapshot,
)
from drfh.formatting import format_time
from drfh.wire.slurm.records import SlurmNode

__all__ = ["Reconciliation", "reconcile"]

log = logging.getLogger(__name__)

# Seconds after a requeue. Slurm itself waits for two minutes: a node that was told to end a job
# takes it for that one if it comes back in the same second, and the job has failed.
_AFTERMATH = 5.0
_HELD_BY_OWNER = BlockedReason(BlockedCode.HELD_BY_OWNER, "held by its owner")
_HELD_BY_ADMINISTRATOR = BlockedReason(
    BlockedCode.HELD_BY_ADMINISTRATOR, "held by an administrator"
)
_RESUMING = BlockedReason(BlockedCode.RESUMING, "can go on in a moment")
_SEVERAL_NODES = (
    ", and drfh places jobs on one node: ask for one node, or use a partition that drfh does not "
    "manage"
)


@dataclass(frozen=True)
class Reconciliation:
    """The snapshot for the scheduler, and the changes to make in Slurm besides placing.

    Parameters
    ----------
    jobs
        The job of each task.
    known
        All jobs that have not ended, by name.
    released
        Jobs that we released and that have not started yet: job → node.
    to_hold
        New jobs, not yet under a hold of ours.
    to_recall
        Jobs that wait for a node which they will not get: job → why.
    to_unmanage
        Jobs of ours that moved to where we do not manage.
    to_defer
        Jobs that wait for another job, and must do so without a hold.
    to_undefer
        Jobs that waited for another job, and need not any more.
    to_owner_hold
        Jobs that somebody has requeued under a hold: their owners must be able to lift it.
    to_annotate
        Jobs whose annotation must change.
    notes
        What an operator should know, a sentence each.
    """

    snapshot: ClusterSnapshot
    jobs: Mapping[str, SlurmJob]
    known: Mapping[str, SlurmJob]
    released: Mapping[str, str]
    to_hold: tuple[SlurmJob, ...] = ()
    to_recall: Mapping[str, BlockedReason] = field(default_factory=dict)
    to_unmanage: tuple[SlurmJob, ...] = ()
    to_defer: tuple[SlurmJob, ...] = ()
    to_undefer: tuple[SlurmJob, ...] = ()
    to_owner_hold: tuple[SlurmJob, ...] = ()
    to_annotate: Mapping[str, Annotation] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def reconcile(
    state: SlurmState,
    config: SlurmConfig,
    back_off: Mapping[str, BlockedReason] | None = None,
    avoided: Mapping[str, frozenset[str]] | None = None,
) -> Reconciliation:
    """Return what the state of a Slurm cluster means for drfh.

    Parameters
    ----------
    back_off
        Jobs that must not be placed for a while: job → why.
    avoided
        Nodes on which a job must not be placed for a while.
    """
    sorter = _JobSorter(state, config, back_off or {}, avoided or {})
    for job in sorted(state.jobs.values(), key=lambda job: job.order):
        sorter.sort(job)
    if log.isEnabledFor(logging.DEBUG):
        tasks = sorter.tasks.values()
        log.debug(
            "state reconciled nodes=%(nodes)d jobs=%(jobs)d running=%(running)d "
            "blocked=%(blocked)d released=%(released)d broken=%(broken)d",
            {
                "nodes": len(state.nodes),
                "jobs": len(state.jobs),
                "running": sum(task.on is not None for task in tasks) - len(sorter.released),
                "blocked": sum(task.blocked is not None for task in tasks),
                "released": len(sorter.released),
                "broken": len(state.broken),
            },
        )
    return Reconciliation(
        ClusterSnapshot(_servers(state, sorter.tasks), sorter.tasks, dict(config.weights)),
        sorter.jobs,
        state.jobs,
        sorter.released,
        tuple(sorter.to_hold),
        sorter.to_recall,
        tuple(sorter.to_unmanage),
        tuple(sorter.to_defer),
        tuple(sorter.to_undefer),
        tuple(sorter.to_owner_hold),
        sorter.to_annotate,
        _notes(state, config),
    )


def _notes(state: SlurmState, config: SlurmConfig) -> tuple[str, ...]:
    known = {name for node in state.nodes.values() for name in node.partitions}
    missing = (name for name in config.partitions if name not in known)
    return tuple(f"no node is in the managed partition {name}" for name in missing)


class _JobSorter:
    """Sorts jobs by what must happen with them."""

    def __init__(
        self,
        state: SlurmState,
        config: SlurmConfig,
        back_off: Mapping[str, BlockedReason],
        avoided: Mapping[str, frozenset[str]],
    ) -> None:
        self.state, self.config, self.back_off, self.avoided = state, config, back_off, avoided
        self.tasks: dict[str, TaskSnapshot] = {}
        self.jobs: dict[str, SlurmJob] = {}
        self.released: dict[str, str] = {}
        self.to_hold: list[SlurmJob] = []
        self.to_recall: dict[str, BlockedReason] = {}
        self.to_unmanage: list[SlurmJob] = []
        self.to_defer: list[SlurmJob] = []
        self.to_undefer: list[SlurmJob] = []
        self.to_owner_hold: list[SlurmJob] = []
        self.to_annotate: dict[str, Annotation] = {}
        self._names = {name: position for position, name in enumerate(_useful(state))}
        self._lists: dict[frozenset[str], tuple[str, ...]] = {}
        # Tasks of an array that run or may start: its owner may have set a limit.
        self._active = Counter(
            job.array
            for job in state.jobs.values()
            if job.array is not None and (job.on or (job.hold == "no" and not _is_deferred(job)))
        )

    def sort(self, job: SlurmJob) -> None:
        config, annotation = self.config, job.annotation
        if job.on:
            self._running(job)
        elif annotation is None:
            if config.hold_by == "controller" and config.manages(job) and job.hold == "no":
                self.to_hold.append(job)
        elif not config.manages(job):
            self.to_unmanage.append(job)
        elif job.hold == "requeued" and config.hold_by == "plugin":
            self.to_owner_hold.append(job)
            task = self._task(job, job.demand, blocked=_HELD_BY_OWNER, recalled=True)
            self._add(job, job.name, task)
        elif job.depends or annotation.deferred:
            self._dependent(job, annotation)
        elif job.hold == "no":
            self._released(job, annotation)
        else:
            self._held(job, annotation)

    def _running(self, job: SlurmJob) -> None:
        for node, demand in job.on.items():
            if node in self._names and demand:
                name = job.name if len(job.on) == 1 else f"{job.name}@{node}"
                self._add(job, name, self._task(job, demand, on=node))

    def _dependent(self, job: SlurmJob, annotation: Annotation) -> None:
        """Sort a job that waits for another one, or did until now."""
        blocked = self._other_hold(job)
        if blocked:
            pass  # Slurm does not look at what it waits for
        elif not job.depends:
            self.to_undefer.append(job)
        elif not annotation.deferred or job.hold != "no":
            self.to_defer.append(job)
        elif annotation.held != (job.begins >= HELD_UNTIL - DAY):
            self.to_annotate[job.name] = replace(annotation, held=not annotation.held)
        if blocked is None:
            blocked = _RESUMING
            if job.depends:
                detail = f" ({job.depends})"
                blocked = BlockedReason(BlockedCode.DEPENDENCY, "waits for another job", detail)
        recalled = annotation.pin is not None
        self._add(job, job.name, self._task(job, job.demand, blocked=blocked, recalled=recalled))

    def _other_hold(self, job: SlurmJob) -> BlockedReason | None:
        """Return the hold of a job that is not ours."""
        if job.hold in ("no", self.config.hold):
            return None
        if job.hold == "failed":
            detail = f" ({job.reason})"
            return BlockedReason(BlockedCode.HELD_BY_ENGINE, "held by Slurm", detail)
        return _HELD_BY_ADMINISTRATOR if job.hold == "admin" else _HELD_BY_OWNER

    def _not_yet(self, job: SlurmJob) -> BlockedReason | None:
        """Return why a job must not start before some time; None if that has passed."""
        if job.begins >= HELD_UNTIL - DAY:
            return _HELD_BY_OWNER
        if job.restarts and self.state.time < job.since + _AFTERMATH:
            return BlockedReason(BlockedCode.REQUEUED, "was requeued a moment ago")
        if job.begins <= self.state.time:
            return None
        if job.begins >= DEFERRED_UNTIL - DAY:
            return _RESUMING
        when = format_time(job.begins, date=True, seconds=False)
        return BlockedReason(BlockedCode.BEGIN_TIME, "must not start", f" before {when}")

    def _released(self, job: SlurmJob, annotation: Annotation) -> None:
        """Sort a job that Slurm may start."""
        if annotation.pin is None and self.config.hold_by == "plugin" and not annotation.held:
            return  # an administrator released it: it starts when Slurm has room
        pin = annotation.pin
        reason = self._recall_reason(job, annotation)
        if reason is not None:
            self.to_recall[job.name] = reason
            task = self._task(job, job.demand, blocked=reason, recalled=pin is not None)
            self._add(job, job.name, task)
        else:
            assert pin is not None
            self.released[job.name] = pin
            self._add(job, job.name, self._task(job, _taken(job, self.state.nodes[pin]), on=pin))

    def _recall_reason(self, job: SlurmJob, annotation: Annotation) -> BlockedReason | None:
        """Return why a job that Slurm may start must not start; None if it may."""
        pin = annotation.pin
        if annotation.held or pin is None:
            # Without the plugin an owner can end even an administrator's hold (by Nice=1), or
            # has ended his own; with it an administrator has released what its owner held.
            detail = ", and waits for its turn"
            return BlockedReason(BlockedCode.RELEASED, "it was released", detail)
        if job.required != pin:
            return BlockedReason(BlockedCode.NODE_LIST_CHANGED, "its node list was changed")
        if job.restarts != annotation.restarts:
            return BlockedReason(BlockedCode.REQUEUED, "it was requeued")
        node = self.state.nodes.get(pin)
        if node is None or node.state != "up":
            return BlockedReason(BlockedCode.NODE_UNAVAILABLE, f"{pin} takes no new jobs")
        return self._not_yet(job)

    def _held(self, job: SlurmJob, annotation: Annotation) -> None:
        """Sort a job that is under a hold."""
        if self.avoided.get(job.name):
            names = frozenset(self._names) if job.allowed is None else job.allowed
            job = replace(job, allowed=names - self.avoided[job.name])
        not_yet, other_hold = self._not_yet(job), self._other_hold(job)
        blocked = other_hold or not_yet or self.back_off.get(job.name)
        by_owner = _HELD_BY_OWNER in (not_yet, other_hold)
        if by_owner != annotation.held:
            self.to_annotate[job.name] = replace(annotation, held=by_owner)
        refused = ""
        if job.nodes > 1:
            summary = f"needs {job.nodes} nodes at once"
            blocked = BlockedReason(BlockedCode.UNSUPPORTED, summary, _SEVERAL_NODES)
            refused = str(blocked)
        if refused != annotation.refused:
            self.to_annotate[job.name] = replace(annotation, held=by_owner, refused=refused)
        if blocked is None and job.array is not None and job.array_most:
            if self._active[job.array] >= job.array_most:
                summary = f"its array runs at most {job.array_most} at once"
                blocked = BlockedReason(BlockedCode.ARRAY_LIMIT, summary)
            else:
                self._active[job.array] += 1
        recalled = annotation.pin is not None
        task = self._task(job, job.demand, blocked=blocked, recalled=recalled)
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
        blocked: BlockedReason | None = None,
        recalled: bool = False,
    ) -> TaskSnapshot:
        return TaskSnapshot(
            job.owner[self.config.user_by], demand, job.order, self._list(job.allowed),
            on=on, blocked=blocked, recalled=recalled, since=job.since, limit=job.limit,
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
            node = self.state.nodes[name]
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
        states = {name: node.state for name, node in self.state.nodes.items()}
        smallest = min(
            kinds,
            key=lambda key: (all(states[name] != "up" for name in kinds[key]), _bulk(dict(key))),
        )
        names = tuple(kinds[smallest])
        return replace(task, demand=_taken(job, self.state.nodes[names[0]]), servers=names)


def _is_deferred(job: SlurmJob) -> bool:
    return job.annotation is not None and job.annotation.deferred


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


def _servers(state: SlurmState, tasks: Mapping[str, TaskSnapshot]) -> dict[str, NodeSnapshot]:
    used: dict[str, dict[str, float]] = {}
    for task in tasks.values():
        if task.on is not None:
            held = used.setdefault(task.on, {})
            for resource, amount in task.demand.items():
                held[resource] = held.get(resource, 0.0) + amount
    return {name: _server(state.nodes[name], used.get(name, {})) for name in _useful(state)}


def _useful(state: SlurmState) -> list[str]:
    """Return the nodes that have something to share."""
    return [name for name, node in state.nodes.items() if any(node.amounts.values())]


def _server(node: SlurmNode, used: Mapping[str, float]) -> NodeSnapshot:
    size = {r: a for r, a in node.amounts.items() if a > 0}
    available = size if node.state == "up" else dict(used)
    return NodeSnapshot(size, available, node.state, node.labels)
