"""Drives a real Slurm round by round, and checks after each that all is as it must be."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from drfh.engines.cache import SchedulerCache
from drfh.engines.slurm.client import Slurm
from drfh.engines.slurm.config import SlurmConfig, config_of
from drfh.engines.slurm.controller import SlurmController, SlurmCycle
from drfh.engines.slurm.reconcile import reconcile
from drfh.engines.slurm.sandbox import Sandbox
from drfh.engines.snapshot import TaskSnapshot
from drfh.wire.slurm.notation import array_indices
from tests.engines.slurm.cluster import MANAGED

COMMANDS = ("scontrol", "squeue", "sinfo")


def used_by_node(jobs: Sequence[Mapping[str, Any]]) -> dict[str, Counter[str]]:
    """Return what is allocated on each node, from the entries of ``squeue --json``."""
    used: dict[str, Counter[str]] = {}
    for job in jobs:
        if job["job_state"] not in ("RUNNING", "COMPLETING"):
            continue
        nodes = (job.get("job_resources") or {}).get("allocated_nodes") or []
        for node, generic in zip(nodes, job["gres_detail"] or [""] * len(nodes), strict=True):
            here = used.setdefault(node["nodename"], Counter())
            here["cpus"] += sum(len(socket["cores"]) for socket in node["sockets"].values())
            here["memory"] += node["memory_allocated"]
            for kind, count in re.findall(r"(\w+)\(CNT:(\d+)\)", generic):
                here[kind] += int(count)
    return used


def overfull(sandbox: Sandbox, jobs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the nodes on which more is allocated than there is, as text."""
    lines = []
    for name, used in used_by_node(jobs).items():
        node = sandbox.nodes[name]
        size = Counter(cpus=node.cpus, memory=node.memory, **node.gres)
        if not used <= size:
            lines.append(f"{name}: {dict(used)} of {dict(size)}")
    return lines


class Driver:
    """A controller in this process, and the jobs that it has seen.

    `more` goes to the config: `user_by`, `weights`, `hold_by`.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        slurm: Slurm | None = None,
        patience: float = 60.0,
        partitions: tuple[str, ...] = (MANAGED,),
        batch: int = 200,
        **more: Any,
    ) -> None:
        self.sandbox = sandbox
        self.slurm = slurm or Slurm(sandbox.environment)
        self.config: SlurmConfig = config_of(
            self.slurm.configuration(), partitions=partitions, **more
        )
        self.patience, self.batch = patience, batch
        self.controller = self._controller()

    def _controller(self) -> SlurmController:
        return SlurmController(
            self.slurm, self.config, SchedulerCache(), patience=self.patience, batch=self.batch
        )

    def restart(self) -> None:
        """As after a kill: what the controller remembered is gone."""
        self.controller = self._controller()

    def round(self) -> SlurmCycle:
        """Go round once."""
        return self.controller.cycle()

    def until(self, condition: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
        """Go round until a condition holds."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"not in {seconds:g} s: {what}\n{self._story()}")
            self.round()

    def _story(self) -> str:
        """Return what Slurm says of all jobs, and its last lines."""
        jobs = self.sandbox.run("squeue", "--states=all", "--array", "--format=%i %u %T %r %n %N")
        log = (self.sandbox.directory / "log" / "slurmctld.log").read_text(errors="replace")
        return jobs + "\n".join(log.splitlines()[-30:])

    def rounds(self, number: int = 4) -> list[SlurmCycle]:
        """Go round so often that what could happen would have, with time for Slurm to act."""
        done = []
        for _ in range(number):
            done.append(self.round())
            time.sleep(0.2)
            self.jobs()
        return done

    # Looking at jobs

    def jobs(self) -> dict[str, dict[str, Any]]:
        """Return all entries by the name that users know, an array's waiting tasks one by one.

        At each of these states no node is over its capacity.
        """
        found: dict[str, dict[str, Any]] = {}
        entries = self.sandbox.jobs()
        assert not overfull(self.sandbox, entries)
        for job in entries:
            if not job["array_job_id"]:
                found[str(job["job_id"])] = job
            elif job["array_task_id"] is not None:
                found[f"{job['array_job_id']}_{job['array_task_id']}"] = job
            else:
                listed = job["array_task_string"]  # empty once no task is left
                for index in array_indices(listed, "array") if listed else ():
                    found[f"{job['array_job_id']}_{index}"] = job
        return found

    def states(self, *names: str) -> list[str]:
        """Return the states of jobs."""
        jobs = self.jobs()
        return [jobs[name]["job_state"] for name in names]

    def running(self, *names: str) -> bool:
        """Return whether all of these run."""
        return set(self.states(*names)) <= {"RUNNING"}

    def ended(self, *names: str) -> bool:
        """Return whether all of these have ended well."""
        return set(self.states(*names)) <= {"COMPLETED"}

    def node(self, name: str) -> str:
        """Return where a job runs or ran."""
        return str(self.jobs()[name]["nodes"])

    def run_all(self, *names: str, seconds: float = 30.0) -> None:
        """Go round until all of these run."""
        self.until(lambda: self.running(*names), f"{names} run", seconds)

    def task(self, name: str) -> TaskSnapshot:
        """Return the explanation of a job."""
        state = self.controller.read_state()
        return reconcile(state, self.config).snapshot.tasks[name]

    def annotation(self, name: str) -> str:
        """Return the AdminComment of a job."""
        return str(self.jobs()[name]["admin_comment"])

    def as_user(self, user: str, *arguments: str) -> bool:
        """Run a command as a user, and return whether it worked."""
        arguments = ("sh", "-c", '"$@" && echo worked', "-", *arguments)
        return self.sandbox.run(*arguments, check=False, user=user).rstrip().endswith("worked")


class Faults:
    """Wrappers of Slurm's commands: each call may meet with an accident that was planned for it."""

    def __init__(self, directory: Path, sandbox: Sandbox) -> None:
        self.directory = directory
        directory.mkdir(parents=True)
        for name in COMMANDS:
            (directory / f"{name}.plan").mkdir()
            # The plan of a call is shell code, which may end it, or do things before it.
            (directory / name).write_text(
                f"""#!/bin/sh
real=/usr/bin/{name}
test -e {directory}/{name}.always && . {directory}/{name}.always
for plan in {directory}/{name}.plan/*; do
   mv "$plan" {directory}/{name}.now 2>/dev/null && . {directory}/{name}.now
   break
done
exec $real "$@"
"""
            )
            (directory / name).chmod(0o755)
        self.environment = {
            **sandbox.environment,
            "PATH": f"{directory}:{sandbox.environment['PATH']}",
        }

    def plan(self, command: str, *accidents: str) -> None:
        """Plan what the next calls of a command do; an empty text is a normal call."""
        for position, text in enumerate(accidents):
            (self.directory / f"{command}.plan" / f"{position:03d}").write_text(text + "\n")

    def forget(self) -> None:
        """Let the accidents that have not happened yet never happen."""
        for path in self.directory.glob("*.plan/*"):
            path.unlink()

    def following(self, command: str) -> str:
        """Return the accident that the next call of a command meets with; empty if none."""
        plans = sorted((self.directory / f"{command}.plan").iterdir())
        return plans[0].read_text() if plans else ""

    def always(self, command: str, text: str) -> None:
        """Let every call of a command begin with this shell code."""
        (self.directory / f"{command}.always").write_text(text + "\n")

    def left(self) -> list[str]:
        """Return the accidents that have not happened yet."""
        return [
            str(path) for name in COMMANDS for path in (self.directory / f"{name}.plan").iterdir()
        ]
