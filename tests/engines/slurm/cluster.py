"""A real Slurm for the tests: sixteen nodes of four shapes, one managed partition and one not."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from drfh.engines.slurm.sandbox import Sandbox, SandboxNode, missing
from drfh.engines.slurm.submit_plugin import plugin_source

GIB = 1024  # Slurm counts MiB
USERS = ("games", "mail", "news", "daemon")  # every Debian has them; jobs need users that exist
MANAGED, UNMANAGED = "main", "other"

NODES = [
    *(SandboxNode(f"n{i}", 4, 16 * GIB, features=("slow",)) for i in range(4)),
    *(SandboxNode(f"n{i}", 8, 8 * GIB, features=("slow",)) for i in range(4, 8)),
    *(SandboxNode(f"n{i}", 16, 4 * GIB, features=("fast",)) for i in range(8, 12)),
    *(SandboxNode(f"n{i}", 8, 16 * GIB, {"accel": 2}, ("fast",)) for i in range(12, 16)),
]
PARTITIONS = {MANAGED: [node.name for node in NODES], UNMANAGED: ["n0", "n4", "n8", "n12"]}
SETTINGS = {"SlurmdTimeout": "5", "KillWait": "1"}  # soon enough for a test to wait for


@contextmanager
def slurm_cluster(
    nodes: Sequence[SandboxNode] = NODES,
    partitions: Mapping[str, Sequence[str]] | None = None,
    settings: Mapping[str, str] | None = None,
    script: str | None = None,
) -> Iterator[Sandbox]:
    """Start a cluster, by default the one above with drfh's script for its partition ``main``.

    Skips the test where that is impossible.
    """
    reason = missing()
    if reason is not None:
        pytest.skip(f"a real Slurm {reason} (make slurm)")
    # Not pytest's own place: the users of jobs must be able to look into it.
    with tempfile.TemporaryDirectory(prefix="drfh-slurm-", ignore_cleanup_errors=True) as place:
        sandbox = Sandbox(
            Path(place),
            nodes,
            partitions=PARTITIONS if partitions is None and nodes is NODES else partitions,
            settings={**SETTINGS, **(settings or {})},
            plugin_source=plugin_source([MANAGED]) if script is None else script,
        )
        with sandbox:
            yield sandbox


def make_quiet(sandbox: Sandbox) -> None:
    """End all jobs and reservations, and bring every node back; numbers of jobs go on."""
    if not sandbox.alive("slurmctld"):
        sandbox.start_controller()
    for name in sandbox.nodes:
        if not sandbox.alive(name):
            sandbox.start_node(name)
    if living(sandbox):
        # By numbers of arrays: scancel does not take 7_[1-4%2] as squeue prints it.
        numbers = sandbox.run("squeue", "--noheader", "--format=%F").split()
        sandbox.run("scancel", *sorted(set(numbers)), check=False)
        sandbox.wait(lambda: not living(sandbox), 30, "all jobs to end")
    for line in sandbox.run("scontrol", "show", "reservation", "--oneliner").splitlines():
        if line.startswith("ReservationName="):
            sandbox.run("scontrol", "delete", line.split()[0])
    states = sandbox.run("sinfo", "--noheader", "--Node", "--format=%N %T").splitlines()
    ill = {line.split()[0] for line in states if "drain" in line or "down" in line}
    if ill:
        sandbox.run("scontrol", "update", f"NodeName={','.join(ill)}", "State=RESUME", check=False)
    sandbox.wait_until_idle()


def living(sandbox: Sandbox) -> list[str]:
    """Return the numbers of the jobs that have not ended."""
    return sandbox.run("squeue", "--noheader", "--format=%i").split()


def job(sandbox: Sandbox, number: str) -> dict[str, Any]:
    """Return what ``squeue --json`` says of one job, or of one task of an array (``7_2``)."""
    array, _, task = number.partition("_")
    for found in sandbox.jobs():
        if task and (found["array_job_id"], found["array_task_id"]) == (int(array), int(task)):
            return found
        if not task and found["job_id"] == int(array):
            return found
    raise AssertionError(f"no job {number}")
