"""Workloads: jobs that arrive, servers that come and go."""

from drfh.model.jobs.records import AddServers, Job, RemoveServers, ResizeServer, ServerEvent
from drfh.model.jobs.validation import check_events, everything_up
from drfh.model.jobs.workload import Workload

__all__ = [
    "AddServers",
    "Job",
    "RemoveServers",
    "ResizeServer",
    "ServerEvent",
    "Workload",
    "check_events",
    "everything_up",
]
