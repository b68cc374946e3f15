"""Jobs that drfh does not place, and why it does not."""

from __future__ import annotations

from drfh.engines.slurm.cluster import SlurmCluster
from drfh.engines.slurm.state import SlurmJob

__all__ = ["unmanaged_reason", "waiting_unmanaged"]


def waiting_unmanaged(live: SlurmCluster) -> dict[str, str]:
    """Return the jobs that wait, and not for drfh: job → why, in words.

    Parameters
    ----------
    live
        The cluster.
    """
    return {
        name: unmanaged_reason(live, job)
        for name, job in live.picture.jobs.items()
        if not job.on and name not in live.view.jobs
    }


def unmanaged_reason(live: SlurmCluster, job: SlurmJob) -> str:
    """Return why a job that waits is not drfh's to place.

    Parameters
    ----------
    live
        The cluster.
    job
        One of its jobs, which the brain does not know.
    """
    site = live.site
    if job.reserved:
        return "it asks for a reservation"
    if not site.manages(job):
        others = [name for name in job.partitions if name not in site.partitions]
        return f"drfh does not manage the partition {', '.join(others)}"
    if job.mark is None:
        if site.hold_by == "controller" and job.hold == "no":
            return "it is new: the controller takes it over at its next look"
        return "it was not handed to drfh when it was submitted"
    if not job.demand:
        return "it asks for nothing that Slurm counts"
    return "an administrator has released it"
