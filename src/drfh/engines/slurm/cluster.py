"""A live Slurm cluster: its state, read and reconciled; jobs and arrays explained."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from drfh.engines.cache import SchedulerCache
from drfh.engines.engine import LiveCluster, TaskExplanation, TaskState
from drfh.engines.slurm.client import Slurm
from drfh.engines.slurm.config import SlurmConfig
from drfh.engines.slurm.reconcile import reconcile
from drfh.engines.slurm.state import Annotation, SlurmJob, SlurmState, read_state
from drfh.engines.snapshot import BlockedCode, BlockedReason, ClusterSnapshot
from drfh.formatting import format_count
from drfh.policies import Policy
from drfh.wire.slurm.notation import parse_job_name
from drfh.wire.slurm.records import PendingReason

__all__ = ["SlurmCluster", "cluster_of", "observe", "snapshot_of_all"]

#: States of tasks in the order of a summary, with the verbs for one and for several.
_STATES = {
    TaskState.RUNNING: ("runs", "run"),
    TaskState.STARTING: ("starts", "start"),
    TaskState.WAITING: ("waits", "wait"),
    TaskState.BLOCKED: ("is set aside", "are set aside"),
    TaskState.NEVER: ("never runs", "never run"),
    TaskState.UNMANAGED: ("is not drfh's", "are not drfh's"),
}
_NOT_RUNNING = (TaskState.WAITING, TaskState.BLOCKED, TaskState.NEVER, TaskState.UNMANAGED)
#: Reasons of Slurm that say nothing beyond drfh's: holds and begin times are mostly its own.
_NOT_QUOTED = {
    "",
    PendingReason.NONE,
    PendingReason.HELD_BY_USER,
    PendingReason.HELD_BY_ADMINISTRATOR,
    PendingReason.BEGIN_TIME,
    PendingReason.DEPENDENCY,
}


@dataclass(frozen=True, kw_only=True)
class SlurmCluster(LiveCluster):
    """A Slurm cluster as observed at one moment.

    Parameters
    ----------
    config, state
        How the cluster is shared, and what Slurm says.

    Examples
    --------
    >>> node = {"name": "n0", "cpus": 4, "real_memory": 1024, "state": "idle", "partitions": ["a"]}
    >>> job = {"job_id": 7, "job_state": "PENDING", "user_name": "ann", "partition": "a",
    ...        "tres_req_str": "cpu=6,mem=100M,node=1", "memory_per_node": 100, "priority": 0,
    ...        "state_reason": "JobHeldUser", "admin_comment": "drfh"}
    >>> cluster = cluster_of(read_state([node], [job], 0.0), SlurmConfig())
    >>> print(cluster.explain("7").text)
    job 7 of ann never runs: it needs 6 cpu, and no server has more than 4 cpu.
    >>> print(cluster.explain("8").text)
    job 8 is not in Slurm's queue: it has ended, or there was never one.
    """

    config: SlurmConfig
    state: SlurmState

    engine: ClassVar[str] = "slurm"
    title: ClassVar[str] = "Slurm"

    @classmethod
    def job_name(cls, text: str) -> str:
        """Return the name of a job (12), a task of an array (12_3) or an array (12)."""
        number, task = parse_job_name(text)
        return number if task is None else f"{number}_{task}"

    def unmanaged(self) -> dict[str, BlockedReason]:
        """Return the jobs that wait, and not for drfh: job → why."""
        return {
            name: self._unmanaged_reason(job)
            for name, job in self.state.jobs.items()
            if not job.on and name not in self.snapshot.tasks
        }

    def explain(self, job: str) -> TaskExplanation:
        """Return why a job, a task of an array or the first task of an array waits."""
        name = self.job_name(job)
        if name not in self.state.jobs:
            members = [job for job in self.state.jobs.values() if job.array == name]
            if members:
                return self._explain_array(name, sorted(members, key=lambda job: job.order))
            return self.explain_unknown(name)
        return self._explain_job(self.state.jobs[name])

    def _explain_job(self, job: SlurmJob) -> TaskExplanation:
        name, user, reason = job.name, job.owner[self.config.user_by], job.reason
        if job.on:
            return self.explain_running(name, user, list(job.on), job.since, job.limit)
        task = self.snapshot.tasks.get(name)
        quoted = reason not in _NOT_QUOTED
        if task is None:
            why = self._unmanaged_reason(job)
            return self.explain_unmanaged(name, user, why, reason, quoted=quoted)
        if task.blocked is not None and task.blocked.code is BlockedCode.HELD_BY_ENGINE:
            quoted = False  # it is quoted already
        return self.explain_task(name, user, reason, quoted=quoted)

    def _explain_array(self, number: str, members: Sequence[SlurmJob]) -> TaskExplanation:
        user = members[0].owner[self.config.user_by]
        states = {job.name: self._job_state(job) for job in members}
        counts = Counter(states.values())
        tasks = {state: counts[state] for state in _STATES if counts[state]}
        listed = ", ".join(f"{n:,} {_STATES[state][n != 1]}" for state, n in tasks.items())
        text = f"array {number} of {user} has {format_count(len(members), 'task')} left: {listed}."
        first = None
        for state in _NOT_RUNNING:
            job = next((job for job in members if states[job.name] is state), None)
            if job is not None:
                first = self._explain_job(job)
                break
        return TaskExplanation(
            number, user, TaskState.ARRAY, text, engine=self.engine,
            tasks={str(state): count for state, count in tasks.items()}, first=first,
        )  # fmt: skip

    def _job_state(self, job: SlurmJob) -> TaskState:
        """Return the state alone: an array may have many thousands of tasks."""
        if job.on:
            return TaskState.RUNNING
        if job.name not in self.snapshot.tasks:
            return TaskState.UNMANAGED
        return self.task_state(job.name)

    def _unmanaged_reason(self, job: SlurmJob) -> BlockedReason:
        """Return why a job that waits is not drfh's to place."""
        config = self.config
        if job.reserved:
            return BlockedReason(BlockedCode.RESERVATION, "it asks for a reservation")
        if not config.manages(job):
            others = [name for name in job.partitions if name not in config.partitions]
            summary = f"drfh does not manage the partition {', '.join(others)}"
            return BlockedReason(BlockedCode.OTHER_PARTITION, summary)
        if job.annotation is None:
            if config.hold_by == "controller" and job.hold == "no":
                summary = "it is new: the controller takes it over at its next look"
                return BlockedReason(BlockedCode.NEW, summary)
            summary = "it was not handed to drfh when it was submitted"
            return BlockedReason(BlockedCode.OTHER_SCHEDULER, summary)
        if not job.demand:
            return BlockedReason(BlockedCode.NO_DEMAND, "it asks for nothing that Slurm counts")
        return BlockedReason(BlockedCode.RELEASED, "an administrator has released it")


def observe(
    slurm: Slurm, config: SlurmConfig, policy: str | Policy | Mapping[str, Any] = "best-fit-drfh"
) -> SlurmCluster:
    """Read the state of a cluster once, and change nothing there.

    Parameters
    ----------
    policy
        By which its scheduler would decide.
    """
    nodes, jobs = slurm.nodes(), slurm.jobs()
    state = read_state(nodes, jobs, time.time(), memory=config.memory, linear=config.linear)
    return cluster_of(state, config, policy)


def cluster_of(
    state: SlurmState,
    config: SlurmConfig,
    policy: str | Policy | Mapping[str, Any] = "best-fit-drfh",
) -> SlurmCluster:
    """Return the cluster of a state that was read, with a scheduler that holds it.

    Examples
    --------
    >>> node = {"name": "n0", "cpus": 4, "real_memory": 1024, "state": "idle", "partitions": ["a"]}
    >>> cluster_of(read_state([node], [], 0.0), SlurmConfig()).cache.scheduler.servers
    ('n0',)
    """
    reconciliation = reconcile(state, config)
    cache = SchedulerCache(policy)
    cache.follow(reconciliation.snapshot)
    return SlurmCluster(
        time=state.time, snapshot=reconciliation.snapshot, cache=cache,
        starting=reconciliation.released, broken=state.broken, notes=reconciliation.notes,
        config=config, state=state,
    )  # fmt: skip


def snapshot_of_all(slurm: Slurm, config: SlurmConfig) -> ClusterSnapshot:
    """Read Slurm; return a snapshot with the jobs that its own scheduler would start.

    So a journal tells who waited for a node, and what another policy could have done.
    """
    nodes, jobs = slurm.nodes(), slurm.jobs()
    state = read_state(nodes, jobs, time.time(), memory=config.memory, linear=config.linear)

    def managed(job: SlurmJob) -> SlurmJob:
        if job.on or job.annotation is not None or not config.manages(job):
            return job
        return replace(job, annotation=Annotation(), hold="user" if job.hold == "no" else "admin")

    managed_jobs = {name: managed(job) for name, job in state.jobs.items()}
    return reconcile(replace(state, jobs=managed_jobs), config).snapshot
