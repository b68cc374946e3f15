"""Entries of ``sinfo --json`` and ``squeue --json`` for tests, and how their cluster is shared."""

from __future__ import annotations

from typing import Any

from drfh.engines.slurm.config import SlurmConfig
from drfh.engines.slurm.state import HELD_UNTIL

NOW = 1_700_000_000.0
GIB = 1024  # Slurm counts MiB


def node(name: str, cpus: int = 4, state: str = "idle", **more: Any) -> dict[str, Any]:
    return {"name": name, "cpus": cpus, "real_memory": 8 * GIB, "state": state,
            "partitions": ["main"], **more}  # fmt: skip


def job(number: int, user: str, cpus: int = 1, on: str = "", **more: Any) -> dict[str, Any]:
    """Return a job that waits for drfh, or runs."""
    asked = f"cpu={cpus},mem=1G,node=1"
    entry: dict[str, Any] = {
        "job_id": number, "user_name": user, "account": "physics", "partition": "main",
        "job_state": "PENDING", "tres_req_str": asked, "memory_per_node": GIB, "priority": 0,
        "state_reason": "JobHeldUser", "admin_comment": "drfh", "submit_time": int(NOW) - 60,
    }  # fmt: skip
    if on:
        entry |= {"job_state": "RUNNING", "nodes": on, "tres_alloc_str": asked, "priority": 1,
                  "state_reason": "None", "start_time": int(NOW) - 90,
                  "admin_comment": f"drfh;pin={on};restarts=0"}  # fmt: skip
    return entry | more


def released(number: int, user: str, to: str, **more: Any) -> dict[str, Any]:
    return job(number, user) | {"priority": 9, "required_nodes": to, "state_reason": "Resources",
                                "admin_comment": f"drfh;pin={to};restarts=0"} | more  # fmt: skip


NODES = [node("n0"), node("n1", 8), node("n2", 2, "drained"), node("n3", 8, "down")]
JOBS = [
    job(1, "ann", 4, on="n0"),
    job(2, "ann", 1),
    job(3, "bob", 2, dependency="afterok:1", state_reason="DependencyNeverSatisfied"),
    job(4, "bob", 4),
    job(5, "bob", 64),
    released(6, "eve", "n1"),
    job(7, "eve", eligible_time=HELD_UNTIL),
    job(8, "dan", partition="other", admin_comment="", priority=5, state_reason="Priority"),
    job(9, "dan", admin_comment="", priority=5, state_reason="Priority"),
    job(10, "dan", admin_comment="", resv_name="class", priority=5, state_reason="Reservation"),
    job(20, "ann", 2, on="n1", array_job_id=20, array_task_id=0),
    job(21, "ann", 2, array_job_id=20, array_task_string="1-9"),
    {"job_id": 30, "job_state": "COMPLETED", "user_name": "ann"},
    {"job_id": 31, "job_state": "DANCING", "user_name": "ann"},
]
SITE = SlurmConfig(partitions=("main",), weights={"bob": 2.0, "zoe": 3.0})

#: (nodes, jobs) of clusters in which nobody has jobs that run or could run.
INACTIVE: list[tuple[list[Any], list[Any]]] = [
    ([node("n0", state="down")], [job(1, "ann")]),
    ([node("n0")], []),
    ([node("n0")], [job(1, "ann", 64)]),
    ([node("n0")], [job(1, "ann", eligible_time=HELD_UNTIL)]),
    ([node("n0")], [job(1, "ann", excluded_nodes="n0")]),
    ([node("n0")], [job(1, "ann", 1) | {"tres_req_str": "cpu=1,node=1,gres/gpu=1"}]),
]
