"""What happens over time: jobs that arrive, servers that come and go, and both as arrays."""

from drfh.jobs.checks import check_events, everything_up
from drfh.jobs.events import AddServers, RemoveServers, ResizeServer, ServerEvent
from drfh.jobs.records import Job
from drfh.jobs.workload import Workload

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
