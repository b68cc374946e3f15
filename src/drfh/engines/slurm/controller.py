"""The Slurm controller: reads the state, lets the scheduler decide, carries it out.

All that it must know comes from Slurm. What it remembers (since when a released job has not
started, which jobs Slurm refused lately) only makes it more patient.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from drfh.engines.cache import SchedulerCache
from drfh.engines.observer import Cycle, Decision, Observer
from drfh.engines.slurm import actions
from drfh.engines.slurm.client import Slurm, SlurmError
from drfh.engines.slurm.cluster import SlurmCluster
from drfh.engines.slurm.config import SlurmConfig
from drfh.engines.slurm.reconcile import Reconciliation, reconcile
from drfh.engines.slurm.state import SlurmJob, SlurmState, read_state
from drfh.engines.snapshot import BlockedCode, BlockedReason
from drfh.wire.slurm.records import PendingReason
from drfh.wire.slurm.scontrol import is_about_ended_job

__all__ = ["SlurmController", "SlurmCycle", "release_all"]

log = logging.getLogger(__name__)

_MAX_BACK_OFF = 300.0
_COMMENTS_A_CYCLE = 20  # with blanks: each is a process of its own, and the rest has time
_MIN_TASKS_FOR_IDS = 8  # of arrays
_PIN_BATCH = 40  # jobs that are pinned before they are released


@dataclass(slots=True)
class SlurmCycle(Cycle):
    """One cycle of the Slurm controller."""

    state: SlurmState = field(kw_only=True)
    reconciliation: Reconciliation = field(kw_only=True)


@dataclass(slots=True)
class _Refusals:
    """Refusals of a job by Slurm in a row, and until when it is left alone.

    `nodes` did not take it, and are left out until the time there: they may be reserved for
    others, now or before the job would end.
    """

    count: int = 0
    until: float = 0.0
    reason: str = ""
    nodes: dict[str, float] = field(default_factory=dict)


class SlurmController:
    """Drives Slurm, one cycle at a time.

    Parameters
    ----------
    slurm
        Its commands.
    config
        How the cluster is shared.
    cache
        The scheduler.
    patience
        Seconds that a released job may wait for its node before it is recalled.
    batch
        Most jobs that are placed in one cycle.
    observers
        Their ``on_decision`` is called before anything is done about the decision.
    clock
        Seconds since 1970.
    """

    def __init__(
        self,
        slurm: Slurm,
        config: SlurmConfig,
        cache: SchedulerCache,
        *,
        patience: float = 60.0,
        batch: int = 200,
        observers: Sequence[Observer] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.slurm, self.config, self.cache = slurm, config, cache
        self.patience, self.batch, self.observers, self.clock = patience, batch, observers, clock
        self._released_since: dict[str, float] = {}
        self._refusals: dict[str, _Refusals] = {}
        # Jobs that the last cycle placed → why Slurm would not have started them.
        self._expected: dict[str, str] = {}

    def forget(self) -> None:
        """Drop everything that was remembered, as after a restart."""
        self.cache = SchedulerCache(self.cache.policy, seed=self.cache.seed)
        self._released_since.clear()
        self._refusals.clear()
        self._expected.clear()

    def set_weights(self, weights: Mapping[str, float]) -> None:
        """Share by other weights from the next cycle on."""
        self.config = replace(self.config, weights=dict(weights))

    def read_state(self) -> SlurmState:
        """Read nodes and jobs."""
        nodes, jobs = self.slurm.nodes(), self.slurm.jobs()
        return read_state(
            nodes, jobs, self.clock(), memory=self.config.memory, linear=self.config.linear
        )

    def cycle(self) -> SlurmCycle:
        """Run one cycle; raise :class:`SlurmError` if Slurm cannot be read."""
        started = time.perf_counter()
        state = self.read_state()
        found = self._reconcile(state)
        if self._learn(found, state.time):
            found = self._reconcile(state)
        before, starts = time.perf_counter(), self.cache.starts
        self.cache.follow(found.snapshot)
        placed = self.cache.place(self.batch)
        cluster = SlurmCluster(
            time=state.time, snapshot=found.snapshot, cache=self.cache,
            starting=found.released, broken=state.broken, notes=found.notes,
            config=self.config, state=state,
        )  # fmt: skip
        cycle = SlurmCycle(
            cluster,
            dict(self.cache.placed),
            placed,
            decision_seconds=time.perf_counter() - before,
            fresh=self.cache.starts > starts,
            state=state,
            reconciliation=found,
        )
        decision = Decision(state.time, found.snapshot, placed, self.batch)
        for observer in self.observers:
            observer.on_decision(decision)
        self._repair(cycle)
        self._carry_out(cycle)
        changed = (found.to_hold, found.to_unmanage, found.to_defer, found.to_undefer)
        self._log(cycle)
        cycle.busy = bool(placed or cycle.recalled or any(changed) or found.to_owner_hold)
        cycle.seconds = time.perf_counter() - started
        return cycle

    def _log(self, cycle: SlurmCycle) -> None:
        """Log the numbers of a cycle, for operators who want to see it at work."""
        found = cycle.reconciliation
        fields = {
            "nodes": len(cycle.state.nodes), "jobs": len(cycle.state.jobs),
            "tasks": len(found.snapshot.tasks), "placed": len(cycle.placed),
            "released": len(cycle.released), "recalled": len(cycle.recalled),
            "held": len(found.to_hold), "deferred": len(found.to_defer),
            "undeferred": len(found.to_undefer), "unmanaged": len(found.to_unmanage),
            "annotated": len(found.to_annotate), "refused": len(cycle.failed),
        }  # fmt: skip
        log.debug("cycle carried out " + " ".join(f"{key}=%({key})d" for key in fields), fields)

    # What follows from the state

    def _reconcile(self, state: SlurmState) -> Reconciliation:
        now = state.time
        avoided = {
            name: frozenset(node for node, until in known.nodes.items() if until > now)
            for name, known in self._refusals.items()
        }
        return reconcile(state, self.config, self._back_off(now), avoided)

    def _back_off(self, now: float) -> dict[str, BlockedReason]:
        return {
            name: BlockedReason(
                BlockedCode.BACK_OFF,
                "Slurm did not take it",
                f" ({known.reason}); tried again in {known.until - now:.0f} s",
            )
            for name, known in self._refusals.items()
            if known.until > now
        }

    def _learn(self, found: Reconciliation, now: float) -> bool:
        """Check what became of released jobs; return whether one is to be left alone now."""
        changed = False
        for name in list(self._refusals):
            job = found.jobs.get(name)
            if job is None or job.on:
                del self._refusals[name]
        for name, reason in self._expected.items():
            task = found.snapshot.tasks.get(name)
            if task is not None and task.on is None and task.blocked is None:
                self._refuse(name, reason, now)
                changed = True
        self._expected.clear()
        since = self._released_since
        self._released_since = {name: since.get(name, now) for name in found.released}
        return changed

    def _refuse(self, name: str, reason: str, now: float) -> None:
        known = self._refusals.setdefault(name, _Refusals())
        known.count += 1
        known.reason = reason
        known.until = now + min(2.0 ** min(known.count - 1, 20), _MAX_BACK_OFF)
        log.debug(
            "job backed off job=%(job)s count=%(count)d seconds=%(seconds)g reason=%(reason)s",
            {"job": name, "count": known.count, "seconds": known.until - now, "reason": reason},
        )

    def _avoid(self, name: str, node: str, cycle: SlurmCycle) -> None:
        """Leave out a node that did not take a job; the job may go elsewhere at once."""
        known = self._refusals.setdefault(name, _Refusals())
        known.nodes[node] = cycle.state.time + _MAX_BACK_OFF
        log.debug("node avoided job=%(job)s node=%(node)s", {"job": name, "node": node})
        job = cycle.reconciliation.jobs[name]
        allowed = cycle.state.nodes.keys() if job.allowed is None else job.allowed
        if not allowed - known.nodes.keys():
            known.nodes.clear()
            self._refuse(name, job.reason, cycle.state.time)

    # Changes in Slurm

    def _repair(self, cycle: SlurmCycle) -> None:
        """Bring jobs into the state that they must have before any is placed."""
        found = cycle.reconciliation
        recalled = dict(found.to_recall)
        for name, since in self._released_since.items():
            job, node = found.jobs[name], found.released[name]
            if (
                cycle.state.time - since > self.patience
                or job.reason == PendingReason.NODE_NOT_AVAILABLE
            ):
                recalled[name] = BlockedReason(
                    BlockedCode.NOT_STARTED, f"it did not start on {node}", f" ({job.reason})"
                )
                self._avoid(name, node, cycle)
        cycle.recalled = recalled
        known = found.known.values()
        self._hold_again(cycle, {name: found.jobs[name] for name in recalled})
        self._defer(cycle)
        lines = [
            *actions.hold_new(actions.job_ids(found.to_hold, known)),
            *actions.owner_hold(actions.job_ids(found.to_owner_hold, known)),
        ]
        self._scontrol(lines, cycle)
        unmanaged = actions.job_ids(found.to_unmanage, known)
        actions.unmanage(
            lambda lines: self._scontrol(lines, cycle),
            unmanaged,
            cycle.state.time,
            self.config.hold_by,
        )
        lines, commands = actions.annotate(found.to_annotate, found.known)
        self._scontrol(lines, cycle)
        for name, command in list(commands.items())[:_COMMENTS_A_CYCLE]:
            try:
                self.slurm.call(*command)
            except SlurmError as error:
                cycle.failed[name] = str(error)

    def _defer(self, cycle: SlurmCycle) -> None:
        """Give jobs a begin time far away; release those that have it: without, they would start.

        Those of which that is not sure are released when a later state shows it.
        """
        found = cycle.reconciliation
        jobs = actions.job_ids(found.to_defer, found.known.values())
        deferred = [name for name, job in jobs.items() if actions.is_deferred(job)]
        others = {name: job for name, job in jobs.items() if not actions.is_deferred(job)}
        failed = self._scontrol(list(actions.defer(others)), cycle)
        ready = [*deferred, *actions.succeeded(failed, others)]
        self._scontrol(list(actions.release(ready)), cycle)

    def _hold_again(self, cycle: SlurmCycle, recalled: dict[str, SlurmJob]) -> None:
        """Hold what was released or deferred; change what delays it only after that."""
        found = cycle.reconciliation
        deferred = actions.job_ids(found.to_undefer, found.known.values())
        free = [*recalled, *(name for name, job in deferred.items() if job.hold == "no")]
        failed = self._scontrol(list(actions.hold(free, self.config.hold_by)), cycle)
        held = {name for name in deferred if name not in free}
        held |= set(actions.succeeded(failed, free))
        recalled = {name: job for name, job in recalled.items() if name in held}
        deferred = {name: job for name, job in deferred.items() if name in held}
        lines = [*actions.reset_recalled(recalled), *actions.undefer(deferred, cycle.state.time)]
        self._scontrol(lines, cycle)

    def _carry_out(self, cycle: SlurmCycle) -> None:
        """Pin and release what was placed, in batches: Slurm starts some while others wait."""
        nodes = {one.task: one.server for one in cycle.placed}
        ids = self._task_job_ids(nodes)
        names = list(nodes)
        self._expected = {}
        for start in range(0, len(names), _PIN_BATCH):
            some = names[start : start + _PIN_BATCH]
            self._start({name: nodes[name] for name in some}, ids, cycle)

    def _start(self, nodes: dict[str, str], ids: Mapping[str, str], cycle: SlurmCycle) -> None:
        """Pin jobs, and release those of which that is sure."""
        jobs = cycle.reconciliation.jobs
        lines = [actions.pin(ids.get(name, name), node, jobs[name]) for name, node in nodes.items()]
        names = {ids[name]: name for name in nodes if name in ids}
        failed = self._scontrol(lines, cycle, self.slurm.scontrol_parallel, names)
        pinned = actions.succeeded(failed, nodes)
        if failed is None or "" in failed:
            pinned = self._pinned(nodes, cycle)
        self._expected |= {
            name: (failed or {}).get(name, "its node could not be set")
            for name in nodes.keys() - set(pinned)
        }
        failed = self._scontrol(list(actions.release(pinned)), cycle)
        self._expected |= dict.fromkeys(pinned, "it was not released")
        if failed is not None:
            cycle.released += pinned

    def _pinned(self, nodes: dict[str, str], cycle: SlurmCycle) -> list[str]:
        """Return which jobs are pinned as requested, from a new state.

        For when it is unknown which jobs an error was about. A job without its pin would start
        anywhere, but one that cannot be pinned must not keep all others from starting.
        """
        try:
            jobs = self.read_state().jobs
        except SlurmError as error:
            cycle.failed[""] = str(error)
            return []
        return [
            name
            for name, node in nodes.items()
            if name in jobs and _is_on(jobs[name], node) and jobs[name].hold == self.config.hold
        ]

    def _task_job_ids(self, names: Iterable[str]) -> dict[str, str]:
        """Return job ids of array tasks, by which Slurm finds them quickly.

        A task gets an id of its own when it is changed and others of its array are not: to hold
        what is held is the change that changes nothing, and one of them stays out of it. Nothing
        relies on it: a task without an id is addressed by its name.
        """
        tasks = [name for name in names if "_" in name]
        if len(tasks) < _MIN_TASKS_FOR_IDS:
            return {}
        last = set({name.partition("_")[0]: name for name in tasks}.values())
        first = [name for name in tasks if name not in last]
        try:
            self.slurm.scontrol(actions.hold(first, self.config.hold_by))
            found = self.slurm.task_job_ids(tasks)
        except SlurmError:
            return {}
        return {name: found[name] for name in tasks if name in found}

    def _scontrol(
        self,
        lines: list[str],
        cycle: SlurmCycle,
        run: Callable[[list[str]], dict[str, str]] | None = None,
        names: Mapping[str, str] | None = None,
    ) -> dict[str, str] | None:
        """Carry out lines; return what failed, or None if that is unknown.

        `names` are those of jobs that the lines address by an id.
        """
        try:
            failed = (run or self.slurm.scontrol)(lines)
        except SlurmError as error:
            cycle.failed[""] = str(error)
            return None
        failed = {(names or {}).get(name, name): message for name, message in failed.items()}
        cycle.failed |= failed
        return failed


def release_all(slurm: Slurm, config: SlurmConfig) -> tuple[list[str], dict[str, str]]:
    """Leave all waiting managed jobs to Slurm's own scheduler.

    Parameters
    ----------
    slurm
        Its commands.
    config
        How it is shared; all partitions are meant.

    Returns
    -------
    tuple
        Jobs that were left to Slurm, and what failed: job → message.
    """
    state = read_state(slurm.nodes(), slurm.jobs(), time.time())
    managed = [job for job in state.jobs.values() if job.annotation is not None and not job.on]
    failed: dict[str, str] = {}

    def scontrol(lines: list[str]) -> dict[str, str]:
        errors = slurm.scontrol(lines)
        failed.update(errors)
        return errors

    ids = actions.job_ids(managed, state.jobs.values())
    actions.unmanage(scontrol, ids, state.time, config.hold_by)
    ended = {name for name, message in failed.items() if name and is_about_ended_job(message)}
    return [job.name for job in managed], {k: v for k, v in failed.items() if k not in ended}


def _is_on(job: SlurmJob, node: str) -> bool:
    return job.annotation is not None and job.annotation.pin == node == job.required
