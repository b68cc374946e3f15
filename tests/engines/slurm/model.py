"""A Slurm in memory, as far as the controller asks: for tests that try every moment to fail at."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from drfh.engines.slurm.client import Slurm, SlurmError
from drfh.wire.slurm.notation import parse_tres

__all__ = ["KilledError", "ModelSlurm"]

MIB = 2**20


class KilledError(Exception):
    """The controller was killed at this point."""


class ModelSlurm(Slurm):
    """Holds, pins and starts jobs as slurmctld does.

    `doom` counts down with every line that scontrol carries out; at 0 the controller is dead, and
    the rest of the lines is never carried out. `fails` has numbers of lines that are refused.
    `tells` is whether the message about that names the job.
    """

    def __init__(self, sizes: dict[str, tuple[int, int]]) -> None:
        super().__init__({"PATH": ""})
        self.sizes = sizes
        self.states = dict.fromkeys(sizes, "idle")
        self.table: dict[str, dict[str, Any]] = {}
        self.now = 1_000_000.0
        self.doom: int | None = None
        self.fails: set[int] = set()
        self.poison = ""  # a job of which every update is refused
        self.tells = True
        self.lines = 0
        self.started: list[tuple[str, str]] = []
        self.jumped: list[str] = []

    # What the outside does

    def submit(self, user: str, cpus: int, memory: int, **more: Any) -> str:
        number = len(self.table) + 1
        self.table[str(number)] = {
            "job_id": number, "job_state": "PENDING", "user_name": user, "partition": "main",
            "priority": 0, "state_reason": "JobHeldUser", "admin_comment": "drfh",
            "tres_req_str": f"cpu={cpus},mem={memory}M,node=1", "memory_per_node": memory,
            "node_count": 1, "required_nodes": "", "dependency": "", "eligible_time": 0,
            "restart_cnt": 0, "nodes": "", "submit_time": int(self.now), "tasks": 1, **more,
        }  # fmt: skip
        return str(number)

    def end(self, name: str) -> None:
        job = self.table[name]
        job["job_state"], job["nodes"] = "COMPLETED", ""

    def requeue(self, name: str) -> None:
        job = self.table[name]
        job.update(job_state="PENDING", nodes="", restart_cnt=job["restart_cnt"] + 1)
        job["state_reason"], job["eligible_time"] = "BeginTime", int(self.now) + 120

    def free(self, node: str) -> tuple[float, float]:
        used = [parse_tres(job["tres_req_str"], "tres") for job in self.table.values()
                if job["nodes"] == node]  # fmt: skip
        cpus, memory = self.sizes[node]
        return (
            cpus - sum(one["cpu"] for one in used),
            memory - sum(one["memory"] for one in used) / MIB,
        )

    def schedule(self) -> None:
        """Start what may start: the main scheduler of slurmctld."""
        for name, job in self.table.items():
            if job["job_state"] != "PENDING" or job["priority"] == 0:
                continue
            if self._depends(job) or job["eligible_time"] > self.now:
                continue
            asked = parse_tres(job["tres_req_str"], "tres")
            snapshot = [job["required_nodes"]] if job["required_nodes"] else list(self.sizes)
            for node in snapshot:
                cpus, memory = self.free(node)
                if (
                    self.states[node] == "idle"
                    and asked["cpu"] <= cpus
                    and (asked["memory"] / MIB <= memory)
                ):
                    job.update(job_state="RUNNING", nodes=node, state_reason="None")
                    job["tres_alloc_str"] = job["tres_req_str"]
                    self.started.append((name, node))
                    if "pin=" not in str(job["admin_comment"]):
                        self.jumped.append(name)
                    break

    def _depends(self, job: dict[str, Any]) -> bool:
        found = re.match(r"afterany:(\d+)", job["dependency"])
        if found is None:
            return False
        if self.table[found[1]]["job_state"] == "COMPLETED":
            job["dependency"] = ""
            return False
        return True

    # What the controller asks

    def jobs(self) -> list[Any]:
        return [dict(job) for job in self.table.values()]

    def nodes(self) -> list[Any]:
        return [
            {"name": name, "cpus": cpus, "real_memory": memory, "partitions": ["main"],
             "state": self.states[name]}
            for name, (cpus, memory) in self.sizes.items()
        ]  # fmt: skip

    def scontrol(self, lines: Iterable[str]) -> dict[str, str]:
        failed: dict[str, str] = {}
        for line in lines:
            self.lines += 1
            if self.doom is not None:
                self.doom -= 1
                if self.doom < 0:
                    raise KilledError
            self._carry_out(line, failed, refused=self.lines in self.fails)
        return failed

    def task_job_ids(self, names: Iterable[str]) -> dict[str, str]:
        return {self.name(own): own for own in self.table if self.name(own) in set(names)}

    def name(self, own: str) -> str:
        """Return what the controller calls a job."""
        job = self.table[own]
        array = job.get("array_job_id")
        return f"{array}_{job['array_task_id']}" if array else own

    def _owns(self, text: str) -> dict[str, str]:
        """Return the jobs of a list such as ``7,8``, ``9`` or ``9_[3,5]``: as called → number."""
        array, _, tasks = text.partition("_")
        names = {self.name(own): own for own in self.table}
        if tasks:
            return {
                f"{array}_{task}": names[f"{array}_{task}"] for task in tasks.strip("[]").split(",")
            }
        owns: dict[str, str] = {}
        for one in text.split(","):
            whole = {name: own for name, own in names.items() if name.startswith(f"{one}_")}
            owns |= whole or {one: one}
        return owns

    def call(self, *arguments: str) -> str:
        failed = self.scontrol([" ".join(arguments[1:])])
        if failed:
            raise SlurmError("scontrol: refused")
        return ""

    def _carry_out(self, line: str, failed: dict[str, str], *, refused: bool) -> None:
        verb, rest = line.split(" ", 1)
        called, *changes = rest.removeprefix("JobId=").split(" ")
        for name, own in self._owns(called).items():
            job = self.table[own]
            if name == self.poison and verb == "update":
                failed[name if self.tells else ""] = "refused"
            elif refused:  # of a list, the first; scontrol goes on with the others
                failed[name if self.tells else ""], refused = "refused", False
            elif job["job_state"] != "PENDING":
                failed[name] = f"Job is no longer pending execution for job {name}"
            elif verb == "update":
                self._update(job, changes)
            elif verb == "release":
                job["priority"], job["state_reason"] = 1000, "None"
            else:
                job["priority"], job["state_reason"] = 0, "JobHeldUser"

    def _update(self, job: dict[str, Any], changes: Iterable[str]) -> None:
        for change in changes:
            key, value = change.split("=", 1)
            if key == "ReqNodeList":
                job["required_nodes"] = value
            elif key == "AdminComment":
                job["admin_comment"] = value
            elif key == "StartTime" and value == "now":
                job["eligible_time"] = int(self.now)
            elif key == "StartTime":
                job["eligible_time"] = int(datetime.fromisoformat(value).timestamp())
