"""Records the journal of a cluster that another scheduler runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from drfh.engines.lifecycle import Stoppable
from drfh.engines.observer import Decision, Observer
from drfh.engines.slurm.annotations import Annotation
from drfh.engines.slurm.client import Slurm, SlurmError
from drfh.engines.slurm.config import SlurmConfig
from drfh.engines.slurm.reconcile import reconcile
from drfh.engines.slurm.state import SlurmJob, SlurmState, read_state

__all__ = ["Recorder"]

log = logging.getLogger(__name__)

_MAX_PAUSE = 30.0


class Recorder(Stoppable):
    """Reads the state of a cluster at intervals, and changes nothing.

    Parameters
    ----------
    slurm
        Its commands.
    config
        How it is shared.
    observers
        Their ``on_decision`` gets every snapshot, without placements.
    """

    def __init__(self, slurm: Slurm, config: SlurmConfig, observers: Sequence[Observer]) -> None:
        super().__init__()
        self.slurm, self.config, self.observers = slurm, config, observers
        self.snapshots = 0
        self.jobs: set[str] = set()

    def run(self, interval: float, duration: float | None = None) -> None:
        """Record until stopped, or for so many seconds."""
        end = None if duration is None else time.monotonic() + duration
        failures = 0
        while not self.stop_requested.is_set():
            try:
                self.record()
                failures = 0
            except SlurmError as error:
                failures += 1
                fields = {"failures": failures, "error": error}
                log.warning("state not read failures=%(failures)d error=%(error)s", fields)
            pause = interval if not failures else min(interval * 2.0**failures, _MAX_PAUSE)
            if end is not None:
                if time.monotonic() >= end:
                    return
                pause = min(pause, max(end - time.monotonic(), 0.01))
            self.stop_requested.wait(pause)

    def record(self) -> None:
        """Record one snapshot."""
        nodes, jobs = self.slurm.nodes(), self.slurm.jobs()
        now, config = time.time(), self.config
        state = read_state(nodes, jobs, now, memory=config.memory, linear=config.linear)
        snapshot = reconcile(_managed(state, config), config).snapshot
        for observer in self.observers:
            observer.on_decision(Decision(now, snapshot))
        self.snapshots += 1
        self.jobs.update(snapshot.tasks)


def _managed(state: SlurmState, config: SlurmConfig) -> SlurmState:
    """Return a state in which the jobs that Slurm's own scheduler would start are managed.

    So the journal tells who waited for a node, and what another policy could have done.
    """

    def managed(job: SlurmJob) -> SlurmJob:
        if job.on or job.annotation is not None or not config.manages(job):
            return job
        return replace(job, annotation=Annotation(), hold="user" if job.hold == "no" else "admin")

    return replace(state, jobs={name: managed(job) for name, job in state.jobs.items()})
