"""The way out that stands in the documentation, for those who have no drfh at hand."""

from __future__ import annotations

import re
import subprocess

from drfh.engines.slurm.sandbox import Sandbox
from tests.engines.slurm.cluster import job
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "slurm.md"


def script() -> str:
    found = re.search(r"the same in shell, as root:\n\n```text\n(.*?)```", PAGE.read_text(), re.S)
    assert found is not None
    return found[1]


def test_the_shell_script_gives_everything_back(quiet_slurm: Sandbox) -> None:
    plain = quiet_slurm.submit("sleep 30", user="games")
    pinned = quiet_slurm.submit("sleep 30", user="games")
    annotation = "AdminComment=drfh;pin=n1;nodes=n2;restarts=0"
    quiet_slurm.run("scontrol", "update", f"JobId={pinned}", "ReqNodeList=n1", annotation)
    held = quiet_slurm.submit("sleep 30", "--hold", user="games")
    deferred = quiet_slurm.submit("sleep 30", f"--dependency=afterany:{plain}", user="games")
    far = "StartTime=2098-01-01T00:00:00"
    quiet_slurm.run("scontrol", "update", f"JobId={deferred}", far, "AdminComment=drfh;parked")
    quiet_slurm.run("scontrol", "release", deferred)
    subprocess.run(["sh", "-c", script()], env=quiet_slurm.environment, check=True, timeout=120)

    def runs(number: str) -> bool:
        return bool(job(quiet_slurm, number)["job_state"] == "RUNNING")

    quiet_slurm.wait(lambda: runs(plain) and runs(pinned), 60, "jobs that were given back")
    assert job(quiet_slurm, pinned)["nodes"] == "n2", "as its owner asked"
    assert job(quiet_slurm, held)["priority"] == 0
    assert job(quiet_slurm, held)["state_reason"] == "JobHeldUser"
    assert job(quiet_slurm, deferred)["state_reason"] == "Dependency"
    assert job(quiet_slurm, deferred)["eligible_time"] < 4_000_000_000
    assert not any(job(quiet_slurm, n)["admin_comment"] for n in (plain, pinned, held, deferred))
