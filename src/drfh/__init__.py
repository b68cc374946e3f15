"""drfh: Dominant Resource Fairness on mixed clusters, exact and proven.

The public names load on first use, so that importing the package costs nothing.

Examples
--------
>>> import drfh
>>> cluster = drfh.Cluster([
...     drfh.Server({"cpu": 2, "memory": 12}, name="high-memory"),
...     drfh.Server({"cpu": 12, "memory": 2}, name="high-cpu"),
... ])
>>> users = [
...     drfh.User("ann", {"cpu": 0.2, "memory": 1}),
...     drfh.User("bob", {"cpu": 1, "memory": 0.2}),
... ]
>>> allocation = drfh.allocate(cluster, users)
>>> {name: round(tasks, 9) for name, tasks in allocation.tasks.items()}
{'ann': 10.0, 'bob': 10.0}
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drfh import generators, policies, testing, traces
    from drfh.allocation.allocation import Allocation
    from drfh.allocation.placement import Placement, Pools
    from drfh.allocation.problem import Problem
    from drfh.allocation.proofs.certificate import Certificate
    from drfh.auditor import PROPERTIES, Report, audit
    from drfh.auditor.comparison import Comparison, compare
    from drfh.errors import DrfhError, InputError, SolverError, UnknownNameError
    from drfh.files.scenario_file import load_scenario, save_scenario
    from drfh.kernels import warm
    from drfh.mechanisms import MECHANISMS, Solution, allocate
    from drfh.model.cluster import Cluster, Server
    from drfh.model.jobs import AddServers, Job, RemoveServers, ResizeServer, Workload
    from drfh.model.scenario import Scenario
    from drfh.model.users import Kind, User
    from drfh.policies import ServerView, TaskView, UserView
    from drfh.scheduler import Scheduler
    from drfh.simulation import Result, simulate

__version__ = "0.1.0"

# Public name → the module that has it.
_HOME = {
    "MECHANISMS": "drfh.mechanisms",
    "AddServers": "drfh.model.jobs",
    "Allocation": "drfh.allocation.allocation",
    "Certificate": "drfh.allocation.proofs.certificate",
    "Cluster": "drfh.model.cluster",
    "Comparison": "drfh.auditor.comparison",
    "DrfhError": "drfh.errors",
    "InputError": "drfh.errors",
    "Job": "drfh.model.jobs",
    "Kind": "drfh.model.users",
    "PROPERTIES": "drfh.auditor",
    "Placement": "drfh.allocation.placement",
    "Pools": "drfh.allocation.placement",
    "Problem": "drfh.allocation.problem",
    "RemoveServers": "drfh.model.jobs",
    "Report": "drfh.auditor",
    "ResizeServer": "drfh.model.jobs",
    "Result": "drfh.simulation",
    "Scenario": "drfh.model.scenario",
    "Scheduler": "drfh.scheduler",
    "Server": "drfh.model.cluster",
    "ServerView": "drfh.policies",
    "Solution": "drfh.mechanisms",
    "SolverError": "drfh.errors",
    "TaskView": "drfh.policies",
    "UnknownNameError": "drfh.errors",
    "User": "drfh.model.users",
    "UserView": "drfh.policies",
    "Workload": "drfh.model.jobs",
    "allocate": "drfh.mechanisms",
    "audit": "drfh.auditor",
    "compare": "drfh.auditor.comparison",
    "load_scenario": "drfh.files.scenario_file",
    "save_scenario": "drfh.files.scenario_file",
    "simulate": "drfh.simulation",
    "warm": "drfh.kernels",
}
# Packages that are used by their own names, such as drfh.traces.read.
_PACKAGES = ("generators", "policies", "testing", "traces")

__all__ = [
    "MECHANISMS",
    "PROPERTIES",
    "AddServers",
    "Allocation",
    "Certificate",
    "Cluster",
    "Comparison",
    "DrfhError",
    "InputError",
    "Job",
    "Kind",
    "Placement",
    "Pools",
    "Problem",
    "RemoveServers",
    "Report",
    "ResizeServer",
    "Result",
    "Scenario",
    "Scheduler",
    "Server",
    "ServerView",
    "Solution",
    "SolverError",
    "TaskView",
    "UnknownNameError",
    "User",
    "UserView",
    "Workload",
    "__version__",
    "allocate",
    "audit",
    "compare",
    "generators",
    "load_scenario",
    "policies",
    "save_scenario",
    "simulate",
    "testing",
    "traces",
    "warm",
]


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"drfh.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'drfh' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
