"""Keeps the event log of a cluster that somebody else schedules."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from drfh.engines.lifecycle import Stoppable
from drfh.engines.slurm.client import Slurm, SlurmError
from drfh.engines.slurm.config import SlurmConfig
from drfh.engines.slurm.reconcile import reconcile
from drfh.engines.slurm.state import SlurmJob, SlurmState, read_state
from drfh.engines.snapshot import ClusterSnapshot
from drfh.scheduler import Placed

__all__ = ["Recorder"]

_LONGEST_PAUSE = 30.0


class Recorder(Stoppable):
    """Looks at a cluster again and again, and touches nothing.

    Parameters
    ----------
    slurm
        Its commands.
    site
        How it is shared.
    note
        Told of every look: time, what there is, and nothing placed.
    say
        Told in a line what went wrong.
    """

    def __init__(
        self,
        slurm: Slurm,
        site: SlurmConfig,
        note: Callable[[float, ClusterSnapshot, list[Placed]], None],
        *,
        say: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__()
        self.slurm, self.site, self.note = slurm, site, note
        self.say = say or (lambda line: None)
        self.looks = 0
        self.jobs: set[str] = set()

    def run(self, interval: float, duration: float | None = None) -> None:
        """Look until told to stop, or for so many seconds."""
        end = None if duration is None else time.monotonic() + duration
        failures = 0
        while not self.stop_requested.is_set():
            try:
                self.once()
                failures = 0
            except SlurmError as error:
                failures += 1
                self.say(str(error))
            pause = interval if not failures else min(interval * 2.0**failures, _LONGEST_PAUSE)
            if end is not None:
                if time.monotonic() >= end:
                    return
                pause = min(pause, max(end - time.monotonic(), 0.01))
            self.stop_requested.wait(pause)

    def once(self) -> None:
        """Look once."""
        nodes, jobs = self.slurm.nodes(), self.slurm.jobs()
        now = time.time()
        picture = read_state(nodes, jobs, now, memory=self.site.memory, linear=self.site.linear)
        snapshot = reconcile(as_ours(picture, self.site), self.site).snapshot
        self.note(now, snapshot, [])
        self.looks += 1
        self.jobs.update(snapshot.tasks)


def as_ours(picture: SlurmState, site: SlurmConfig) -> SlurmState:
    """Return a picture in which the jobs that Slurm's own scheduler would start are ours.

    So the log tells who waited for a node, and what another policy could have done.

    Parameters
    ----------
    picture
        What there is.
    site
        Which partitions count.
    """
    from drfh.engines.slurm.annotations import Annotation

    def ours(job: SlurmJob) -> SlurmJob:
        if job.on or job.annotation is not None or not site.manages(job):
            return job
        if job.hold != "no":
            return replace(job, annotation=Annotation(), hold="admin")
        return replace(job, annotation=Annotation(), hold="user")

    return replace(picture, jobs={name: ours(job) for name, job in picture.jobs.items()})
