"""Compile every kernel once, so that the first real call finds machine code on disk.

The install step runs ``python -m drfh.precompile``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from drfh.allocation.problem import Problem
from drfh.mechanisms import allocate
from drfh.mechanisms.shared.progressive_filling import filling_order
from drfh.model.cluster import Cluster, Server
from drfh.model.jobs import AddServers, Job, RemoveServers, ResizeServer, Workload
from drfh.model.users import User
from drfh.scheduler import Scheduler
from drfh.simulation import simulate
from drfh.traces import read

__all__ = ["warm_up"]

# Between them all ways to search, to count and to wait.
_POLICIES = ("best-fit-drfh", "first-fit-drfh", "mesos", "asset+cosine+strict+backfill",
             "fifo", "slots:4", "tsf+tightest", "max-min:cpu+best-fit:memory")  # fmt: skip


def warm_up() -> None:
    """Load numba and send a tiny problem through every kernel.

    From then on, in this process, all sizes take the compiled twins.
    """
    import numba  # noqa: F401  (its presence is what selects the compiled twins)

    cluster = Cluster(
        [Server({"cpu": 2, "memory": 12, "gpu": 1}), Server({"cpu": 12, "memory": 2, "gpu": 2})]
    )
    two = [User("a", {"cpu": 0.2, "memory": 1}), User("b", {"cpu": 1, "memory": 0.2})]
    three = [*two, User("c", {"cpu": 1, "memory": 1, "gpu": 1})]
    allocate(cluster, two)
    allocate(cluster, two, whole_tasks=True, filling="paper")
    allocate(cluster, three, whole_tasks=True, seconds=0.1)
    _fill_large()
    allocate(cluster, two, mechanism="ps-dsf")
    allocate(cluster, three, method="interior-point")
    small = Cluster([Server({"cpu": 4, "memory": 8}, name="s", count=3)])
    large = Cluster([Server({"cpu": 4, "memory": 8, "gpu": 1}, name="s", count=3)])
    for policy in _POLICIES:
        for servers in (small, large):
            _live(servers, policy)
            _simulate(servers, policy)
    _trace()


def _fill_large() -> None:
    """Fill so many servers that an index is used."""
    servers = Cluster([Server({"cpu": 1 + n % 7, "memory": 1 + n % 5}) for n in range(3000)])
    users = [User("a", {"cpu": 0.2, "memory": 0.1}), User("b", {"cpu": 0.1, "memory": 0.2})]
    allocate(servers, users, whole_tasks=True, filling="paper")
    for _ in filling_order(Problem.build(servers, users), first_fit=True):
        pass


def _live(cluster: Cluster, policy: str) -> None:
    """Make every call that a scheduler has."""
    one = Scheduler(cluster, policy, engine="indexed")
    one.add_user("ann")
    one.add_user("bob", 2, servers=["s/1", "s/2"])
    one.submit("a", "ann", {"cpu": 1, "memory": 1}, count=9)
    one.submit("b", "bob", {"memory": 1}, count=9, servers="s/1")
    one.submit("c", "bob", {"cpu": 3, "memory": 3}, count=3)
    one.submit("never", "bob", {"cpu": 40})
    one.place(2)
    one.place()
    one.adopt("d", "ann", {"cpu": 1}, "s/0")
    one.finish("d")
    running = [task for task, state in one.tasks().items() if state == "running"]
    one.unplace(running.pop())
    one.cancel(running.pop(), "never")
    one.update("c/2", demand={"cpu": 1})
    one.set_weight("bob", 1.5)
    one.resize_server("s/0", {"cpu": 1, "memory": 2})
    one.remove_server("s/1")
    one.add_server("s/1", {"cpu": 8, "memory": 8})
    one.add_server("t", {"cpu": 2, "memory": 2}, labels={"zone": "a"})
    one.place()
    one.status()
    for task, state in one.tasks().items():
        if state == "queued":
            one.why(task)
    Scheduler.restore(one.snapshot(), engine="indexed").place()
    Scheduler.replay(one.log, engine="indexed")
    one.remove_user("bob", cancel=True)


def _simulate(cluster: Cluster, policy: str) -> None:
    """Run the compiled clock, with all that can happen to servers."""
    workload = Workload(
        ["ann", "bob"],
        [
            Job("ann", demand={"cpu": 1, "memory": 1}, duration=9, tasks=9),
            Job("bob", demand={"cpu": 2, "memory": 1}, duration=[1, 2, 0], arrival=3),
        ],
        [
            RemoveServers(2, "s/1"),
            ResizeServer(3, "s/0", {"cpu": 2, "memory": 2}),
            AddServers(4, Server({"cpu": 4, "memory": 8}, name="t")),
        ],
    )
    for until in (None, 8):
        simulate(
            cluster, workload, policy, until, interval=2, fair=True, log=True, engine="indexed"
        )


def _trace() -> None:
    """Read a trace with enough jobs, users and forms that all tables grow."""
    job = range(5_000)
    rows = [f"{10**9 + n},,{n},0,,{e},user-{n},1,9,0.5,0.25,1e-05,0" for n in job for e in (0, 1)]
    with tempfile.TemporaryDirectory() as folder:
        for table, text in (("machine", "0,1,0,p,1,1"), ("task", "\n".join(rows))):
            inside = Path(folder) / f"{table}_events"
            inside.mkdir()
            (inside / "part-00000-of-00001.csv").write_text(text)
        for choice in ("dedup", "each"):
            read("google-2011", folder, resubmissions=choice)


if __name__ == "__main__":
    warm_up()
