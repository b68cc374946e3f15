"""Why jobs, tasks of arrays and arrays of Slurm wait, or where they run."""

from __future__ import annotations

import json

import pytest

import drfh
from drfh.engines.slurm.cluster import SlurmCluster, cluster_of
from drfh.engines.slurm.config import SlurmConfig
from drfh.engines.slurm.state import read_state
from tests.engines.slurm.entries import JOBS, NODES, NOW, SITE, job, node


@pytest.fixture(scope="module")
def cluster() -> SlurmCluster:
    return cluster_of(read_state(NODES, JOBS, NOW), SITE)


@pytest.mark.parametrize(
    ("name", "state", "text"),
    [
        ("1", "running", "job 1 of ann runs on n0 since "),
        ("1", "running", "(1 min 30 s)."),
        ("2", "waiting", "job 2 of ann can start when its turn comes: 1 server has room."),
        ("3", "aside", "job 3 of bob waits for another job (afterok:1) (Slurm says: "
                       "DependencyNeverSatisfied)."),
        ("4", "waiting", "job 4 of bob can start"),
        ("5", "never", "job 5 of bob never runs: it needs 64 cpu, and no server"),
        ("6", "starting", "job 6 of eve is released to n1, Slurm starts it (Slurm says: "
                          "Resources)."),
        ("7", "aside", "job 7 of eve waits: held by its owner."),
        ("8", "outside", "job 8 of dan is left to Slurm's own scheduler: drfh does not manage the "
                         "partition other (Slurm says: Priority)."),
        ("9", "outside", "it was not handed to drfh when it was submitted"),
        ("10", "outside", "it asks for a reservation"),
        ("30", "unknown", "job 30 is not in Slurm's queue: it has ended, or there was never one."),
        ("20_0", "running", "job 20_0 of ann runs on n1"),
        ("20_3", "waiting", "job 20_3 of ann can start"),
        ("20_10", "unknown", "job 20_10 is not in Slurm's queue"),
        ("20", "array", "array 20 of ann has 10 tasks left: 1 runs, 9 wait."),
        ("20_[1-9]", "array", "array 20 of ann has 10 tasks left"),
        (" 007 ", "aside", "job 7 of eve"),
    ],
)  # fmt: skip
def test_why(cluster: SlurmCluster, name: str, state: str, text: str) -> None:
    answer = cluster.explain(name)
    assert answer.state == state
    assert text in answer.text
    assert json.loads(json.dumps(answer.to_dict()))["state"] == state


def test_why_of_an_array_has_the_first_that_waits(cluster: SlurmCluster) -> None:
    answer = cluster.explain("20")
    assert answer.tasks == {"running": 1, "waiting": 9}
    assert answer.first is not None
    assert answer.first.job == "20_1"
    assert answer.first.why is not None
    assert answer.first.why.earlier == 1


def test_why_of_a_job_on_many_nodes() -> None:
    nodes = [node(f"n{i}") for i in range(8)]
    entry = job(1, "ann", 8, on="n0") | {"nodes": "n[0-7]", "time_limit": 90}
    answer = cluster_of(read_state(nodes, [entry], NOW), SlurmConfig()).explain("1")
    assert "runs on n0, n1, n2 and 5 other nodes since" in answer.text
    assert "(1 min 30 s, for at most 1 h 30 min)" in answer.text
    assert len(answer.nodes) == 8


@pytest.mark.parametrize("name", ["", "ann", "-1", "12_", "12_x", "1 2", "１2x", "12.0"])
def test_why_of_what_is_no_job(cluster: SlurmCluster, name: str) -> None:
    with pytest.raises(drfh.errors.InputError, match=r"^job must be a number such as 12"):
        cluster.explain(name)
