"""``drfh slurm status``, ``why`` and ``audit``."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import drfh
from drfh.cli import main
from drfh.cli.cluster import status as cluster_status
from drfh.cli.cluster.render import glyph, print_nodes, write_status
from drfh.cli.slurm.options import open_site
from drfh.engines.cache import SchedulerCache
from drfh.engines.engine import ControllerFacts
from drfh.engines.fair_share import fair_share_of
from drfh.engines.lock import ControllerLock
from drfh.engines.slurm.annotations import HELD_UNTIL
from drfh.engines.slurm.client import Slurm
from drfh.engines.slurm.cluster import SlurmCluster, cluster_of
from drfh.engines.slurm.config import SlurmConfig
from drfh.engines.slurm.controller import Controller
from drfh.engines.slurm.sandbox import Sandbox
from drfh.engines.slurm.state import read_state
from drfh.engines.snapshot import ClusterSnapshot, NodeSnapshot, TaskSnapshot
from drfh.engines.status import NodeStatus, Status, Total, UserStatus, status_of

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


@pytest.fixture(scope="module")
def live() -> SlurmCluster:
    return cluster_of(read_state(NODES, JOBS, NOW), SITE)


@pytest.fixture(scope="module")
def status(live: SlurmCluster) -> Status:
    return status_of(live)


# The numbers


def by_name(status: Status) -> dict[str, UserStatus]:
    return {user.name: user for user in status.users}


def test_users_and_their_jobs(status: Status) -> None:
    users = by_name(status)
    assert list(users) == ["ann", "bob", "eve", "zoe"]  # dan has nothing that is ours
    ann, bob, eve = users["ann"], users["bob"], users["eve"]
    assert (ann.running, ann.starting, ann.waiting, ann.never) == (2, 0, 10, 0)
    assert (bob.running, bob.waiting, bob.never) == (0, 1, 1)
    assert bob.blocked == {"waits for another job": 1}
    assert (eve.starting, eve.blocked) == (1, {"held by its owner": 1})
    assert (users["zoe"].jobs, users["zoe"].fair_share, users["zoe"].weight) == (0, None, 3.0)
    # 12 CPUs are up: what drains and is empty counts nothing, what is down neither.
    assert ann.share == pytest.approx(6 / 12)
    assert (ann.resource, ann.level) == ("cpu", ann.share)
    assert (bob.share, bob.resource) == (0.0, None)


def test_ideal_shares_are_those_of_the_exact_allocation(status: Status) -> None:
    cluster = drfh.Cluster([
        drfh.Server({"cpu": 4, "memory": "8Gi"}, name="n0"),
        drfh.Server({"cpu": 8, "memory": "8Gi"}, name="n1"),
    ])  # fmt: skip
    mean: dict[str, float | str] = {"cpu": (4 + 1 + 2 + 9 * 2) / 12, "memory": "1Gi"}
    users = [
        drfh.User("ann", mean, tasks=12),
        drfh.User("bob", {"cpu": 4, "memory": "1Gi"}, tasks=1, weight=2),
        drfh.User("eve", {"cpu": 1, "memory": "1Gi"}, tasks=1),
    ]
    expected = drfh.allocate(cluster, users).shares
    found = {user.name: user.fair_share for user in status.users if user.fair_share is not None}
    assert found == pytest.approx(expected)
    assert (status.distance, status.worst) == (1.0, "bob")  # it has nothing
    assert by_name(status)["ann"].uneven  # its memory is the same for all sizes
    assert not by_name(status)["eve"].uneven


def test_distance_with_weights() -> None:
    entries = [job(1, "ann", 1, on="n0"), job(2, "bob", 2, on="n0"), job(3, "ann", 1),
               job(4, "bob", 2)]  # fmt: skip
    found = status_of(
        cluster_of(read_state([node("n0", 6)], entries, NOW), SlurmConfig(weights={"bob": 2.0}))
    )
    assert [user.fair_share for user in found.users] == pytest.approx([1 / 3, 2 / 3])
    assert [user.level for user in found.users] == pytest.approx([1 / 6, 1 / 6])
    assert found.distance == pytest.approx(0.5)
    assert found.worst == "ann"  # as far as bob, and first by name
    even = [job(1, "ann", 2, on="n0"), job(2, "bob", 4, on="n0")]
    found = status_of(
        cluster_of(read_state([node("n0", 6)], even, NOW), SlurmConfig(weights={"bob": 2.0}))
    )
    assert (found.distance, found.worst) == (0.0, None)


def test_nodes_and_totals(status: Status) -> None:
    assert [(n.name, n.state, n.jobs) for n in status.nodes] == [
        ("n0", "up", 1), ("n1", "up", 2), ("n2", "closing", 0), ("n3", "down", 0),
    ]  # fmt: skip
    assert status.nodes[1].used == {"cpu": 3.0, "memory": 2 * 2.0**30}
    assert status.nodes[0].fullness == 1.0
    assert status.totals["cpu"] == Total(12.0, 7.0)
    assert status.totals["memory"] == Total(16 * 2.0**30, 3 * 2.0**30)


def test_what_is_not_ours_and_what_is_broken(status: Status) -> None:
    assert status.unmanaged == {
        "drfh does not manage the partition other": 1,
        "it was not handed to drfh when it was submitted": 1,
        "it asks for a reservation": 1,
    }
    assert len(status.broken) == 1
    assert "job_state must be a state of Slurm, got 'DANCING'" in status.broken[0]
    assert status.notes == ()
    strange = status_of(cluster_of(read_state(NODES, JOBS, NOW), SlurmConfig(partitions=("mian",))))
    assert strange.notes == ("no node is in the managed partition mian",)


def test_status_is_plain_data(status: Status) -> None:
    data = json.loads(json.dumps(status.to_dict(), allow_nan=False))
    assert data["distance_from_fair"] == 1.0
    assert data["users"][1]["fulfilled"] == 0.0
    assert data["nodes"][0]["fullness"] == 1.0
    assert data["totals"]["cpu"] == {"capacity": 12.0, "used": 7.0}


@pytest.mark.parametrize(
    ("nodes", "jobs"),
    [
        ([node("n0", state="down")], [job(1, "ann")]),
        ([node("n0")], []),
        ([node("n0")], [job(1, "ann", 64)]),
        ([node("n0")], [job(1, "ann", eligible_time=HELD_UNTIL)]),
        ([node("n0")], [job(1, "ann", excluded_nodes="n0")]),
        ([node("n0")], [job(1, "ann", 1) | {"tres_req_str": "cpu=1,node=1,gres/gpu=1"}]),
    ],
)
def test_nobody_is_active(nodes: list[Any], jobs: list[Any]) -> None:
    found = status_of(cluster_of(read_state(nodes, jobs, NOW), SlurmConfig()))
    assert all(user.fair_share is None for user in found.users)
    assert (found.distance, found.worst) == (0.0, None)
    assert "distance" not in drawn(found, 80)


def test_a_node_that_went_down_with_a_job() -> None:
    nodes = [node("n0", 4, "down"), node("n1", 4)]
    found = status_of(
        cluster_of(read_state(nodes, [job(1, "ann", 2, on="n0")], NOW), SlurmConfig())
    )
    assert found.totals["cpu"] == Total(6.0, 2.0)
    assert found.users[0].fair_share == pytest.approx(found.users[0].share)


def test_a_job_on_several_nodes_is_one_job() -> None:
    entry = job(1, "ann", 4, on="n0") | {"nodes": "n[0-1]", "tres_alloc_str": "cpu=4,mem=2G,node=2"}
    found = status_of(cluster_of(read_state([node("n0"), node("n1")], [entry], NOW), SlurmConfig()))
    assert found.users[0].running == 1
    assert [n.jobs for n in found.nodes] == [1, 1]


def test_ideal_of_restricted_users() -> None:
    servers = {name: NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0}) for name in ("a", "b")}
    tasks = {str(i): TaskSnapshot("ann", {"cpu": 1.0}, (i, 0), ("a",)) for i in range(8)}
    tasks |= {str(i): TaskSnapshot("bob", {"cpu": 1.0}, (i, 0)) for i in range(8, 20)}
    assert fair_share_of(ClusterSnapshot(servers, tasks)).shares == pytest.approx(
        {"ann": 0.5, "bob": 0.5}
    )
    tasks = {name: replace(task, on="a") if name in "01" else task for name, task in tasks.items()}
    more = {"ann": 3.0}
    shares = fair_share_of(ClusterSnapshot(servers, tasks, more)).shares
    assert shares == pytest.approx({"ann": 0.5, "bob": 0.5})  # there is no more on a
    shares = fair_share_of(
        ClusterSnapshot({**servers, "a": servers["a"]}, tasks, {"bob": 3.0})
    ).shares
    assert shares == pytest.approx({"ann": 0.25, "bob": 0.75})


# Why


@pytest.mark.parametrize(
    ("name", "state", "words"),
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
def test_why(live: SlurmCluster, name: str, state: str, words: str) -> None:
    answer = live.explain(name)
    assert answer.state == state
    assert words in answer.text
    assert json.loads(json.dumps(answer.to_dict()))["state"] == state


def test_why_of_an_array_has_the_first_that_waits(live: SlurmCluster) -> None:
    answer = live.explain("20")
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
def test_why_of_what_is_no_job(live: SlurmCluster, name: str) -> None:
    with pytest.raises(drfh.errors.InputError, match=r"^job must be a number such as 12"):
        live.explain(name)


# The text


def drawn(status: Status, width: int, *, most: int | None = None, colour: bool = False) -> str:
    out = io.StringIO()
    console = Console(
        file=out, width=width, markup=False, highlight=False, emoji=False, soft_wrap=True,
        force_terminal=colour, color_system="256" if colour else None,
    )  # fmt: skip
    write_status(console, status, controller=ControllerFacts(False, {}), most=most)
    return out.getvalue()


def many(status: Status, users: int, nodes: int) -> Status:
    """Return a status with so many users and nodes, of three sizes and all levels."""
    someone = by_name(status)["ann"]
    sizes = [{"cpu": 64.0, "memory": 2.0**38}, {"cpu": 32.0, "memory": 2.0**40},
             {"cpu": 128.0, "memory": 2.0**39, "gres/gpu": 8.0}]  # fmt: skip
    states = ["up"] * 40 + ["closing", "down"]
    return replace(
        status,
        users=tuple(
            replace(someone, name=f"user{i:04}", share=(i + 1) / 2 / users**2, fair_share=1 / users,
                    waiting=12_345, uneven=i % 3 == 0)
            for i in range(users)
        ),
        nodes=tuple(
            NodeStatus(f"node{i:05}", states[j % 42], size, {"cpu": size["cpu"] * (j % 9) / 8}, i)
            for i in range(nodes)
            for j, size in [(i // 3, sizes[i % 3])]
        ),
        worst="user0000",
    )  # fmt: skip


def test_the_text(status: Status) -> None:
    text = drawn(status, 100)
    assert "3 jobs run, 11 wait  (best-fit-drfh)" in text
    assert "no controller runs" in text
    [ann] = [line for line in text.splitlines() if line.startswith(" ann")]
    assert ann.split()[:3] == ["ann", "1", "50.0"]
    assert "zoe" not in text
    assert "1 user with a weight has no job" in text
    assert "distance from fair 100.0 %: bob has 0.0 % of its ideal share" in text
    assert "cpu         7 of 12 used   58.3 %  █████████▍" in text
    assert "4 nodes: 2 up, 1 takes nothing new, 1 down" in text
    assert "n0 █▃◇✘" in text
    assert "◇ draining  ✘ down" in text
    assert "of those that run, 1 has a node and will start" in text
    assert "aside: 1 job: held by its owner" in text
    assert "not drfh's: 1 job that waits: it asks for a reservation" in text
    assert "broken: job 31: job_state must be" in text


def test_a_bar_has_a_line_at_the_ideal(status: Status) -> None:
    def strip(share: float, ideal: float | None) -> str:
        someone = replace(by_name(status)["ann"], share=share, fair_share=ideal, uneven=False)
        other = replace(someone, name="bob", share=0.0, fair_share=1.0)
        text = drawn(replace(status, users=(someone, other), worst=None), 120)
        [line] = [line for line in text.splitlines() if line.startswith(" ann")]
        return line.partition("%")[2][3:19]

    assert strip(0.25, 0.5) == "████    │       "
    assert strip(0.75, 0.5) == "████████│███    "
    assert strip(0.5, None) == "████████        "
    assert strip(1.0, 1.0) == "███████████████│"


@pytest.mark.parametrize("width", [40, 80, 120, 200])
@pytest.mark.parametrize(("users", "nodes"), [(3, 16), (60, 64), (60, 640), (60, 5000)])
def test_nothing_is_cut_or_too_wide(status: Status, width: int, users: int, nodes: int) -> None:
    shown = replace(many(status, users, nodes), unmanaged={}, broken=())
    text = drawn(shown, width, most=12)
    rows = [line for line in text.splitlines() if line.startswith(" user0")]
    parts = len(rows) // min(users, 12)
    assert len(rows) == parts * min(users, 12)
    assert parts == 1 or width == 40
    names = sorted({row.split()[0] for row in rows})
    assert names == [f"user{i:04}" for i in range(min(users, 12))]  # who is worst off
    assert sum(row.count("12,345") for row in rows) == min(users, 12)
    if width >= 80:
        assert all("│" in row for row in rows)
        assert max(map(len, text.splitlines())) <= width
        assert ("aside" in text.split("───")[0]) is False
    assert "…" not in text.replace("… and 48 users", "")
    assert ("… and 48 users nearer to fair" in text) == (users == 60)


def test_the_map_has_every_node(status: Status) -> None:
    for width in (60, 80, 120):
        for nodes in (1, 10, 64, 500):
            shown = many(status, 1, nodes).nodes
            out = io.StringIO()
            print_nodes(Console(file=out, width=width, soft_wrap=True), shown, width)
            _, head, *lines, _ = out.getvalue().splitlines()
            assert head.startswith(f"{nodes} node")
            assert "".join("".join(line.split()[1:]) for line in lines) == "".join(
                glyph(one) for one in shown
            )
            assert max(map(len, lines)) <= width
            for line in lines:  # each begins with the name of its first node
                first = next(n for n in shown if n.name == line.split()[0])
                assert glyph(first) == line.split()[1][0]
    # 64 nodes need few lines.
    assert drawn(many(status, 1, 64), 80).count("\nnode0") == 2


def test_thousands_of_nodes_are_a_strip_for_each_size(status: Status) -> None:
    shown = many(status, 1, 5001)
    for width in (80, 120):
        text = drawn(shown, width)
        rows = [line for line in text.splitlines() if line.startswith("1,667 × ")]
        assert len(rows) == 3
        assert any("1,667 × cpu 128, memory 512Gi, gpu 8 " in row for row in rows)
        for row in rows:
            strip = row.split(" ")[-1]
            order = [("█▇▆▅▄▃▂▁·◇✘").index(one) for one in strip]
            assert order == sorted(order)
            assert {"◇", "✘", "█"} <= set(strip)
    lone = [NodeStatus(f"n{i}", "down" if i == 7 else "up", {"cpu": 1.0}, {}, 0)
            for i in range(3000)]  # fmt: skip
    text = drawn(replace(shown, nodes=tuple(lone)), 80)
    assert re.search(r"3,000 × cpu 1 ·+✘\n", text)  # one of thousands is still seen
    odd = [NodeStatus(f"n{i}", "up", {"cpu": 1.0 + i % 50}, {}, 0) for i in range(3000)]
    text = drawn(replace(shown, nodes=tuple(odd)), 80)
    assert text.count(" × ") == 12
    assert "2,340 × 39 other sizes " in text


def test_colours_tell_nothing_that_glyphs_do_not(status: Status) -> None:
    shown = many(status, 3, 64)
    coloured = drawn(shown, 80, colour=True)
    assert "\x1b[38;5;" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == drawn(shown, 80)


def test_a_node_that_is_full_but_for_rounding_is_full() -> None:
    used = sum([0.1] * 80)
    assert 7.99 < used < 8
    assert glyph(NodeStatus("n0", "up", {"cpu": 8.0}, {"cpu": used}, 80)) == "█"


def test_long_names_of_nodes_keep_their_end(status: Status) -> None:
    nodes = [NodeStatus(f"rack-seven-of-the-north-hall-{i:03}", "up", {"cpu": 1.0}, {}, 0)
             for i in range(100)]  # fmt: skip
    text = drawn(replace(status, nodes=tuple(nodes)), 80)
    assert "\n…-the-north-hall-050 ·" in text


# The command line, with commands that print what a file has


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def call(*words: object) -> tuple[int, str, str]:
        code = main(["slurm", *(str(word) for word in words)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def fake(folder: Path, name: str, text: str) -> None:
    (folder / f"{name}.txt").write_text(text)
    program = folder / name
    program.write_text(f'#!/bin/sh\nexec /bin/cat "{folder}/{name}.txt"\n')
    program.chmod(0o755)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a Slurm that only tells what is in files."""
    for name in list(os.environ):
        if name.startswith("DRFH_SLURM"):
            monkeypatch.delenv(name)
    folder = tmp_path / "slurm"
    (folder / "state").mkdir(parents=True)
    fake(folder, "scontrol", "SelectTypeParameters    = CR_CPU_MEMORY\nClusterName   = tiny\n"
                             f"StateSaveLocation       = {folder / 'state'}\n")  # fmt: skip
    fake(folder, "sinfo", json.dumps({"nodes": NODES, "errors": []}))
    fake(folder, "squeue", json.dumps({"jobs": JOBS, "errors": []}))
    monkeypatch.setenv("PATH", str(folder))
    return folder


def test_status_command(run: Run, site: Path) -> None:
    code, out, err = run("status", "--partition", "main")
    assert (code, err) == (0, "")
    assert "3 jobs run, 11 wait" in out
    assert "no controller runs" in out
    code, out, _ = run("status", "--json")
    data = json.loads(out)
    assert (code, data["cluster"], data["policy"]) == (0, "tiny", "best-fit-drfh")
    assert data["controller"] == {"running": False, "pid": None, "host": None, "started": None}
    assert set(data["outside"]) == {"it was not handed to drfh when it was submitted",
                                    "it asks for a reservation"}  # fmt: skip


def test_options_and_environment(run: Run, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = site / "weights.yaml"
    weights.write_text("physics: 3\nchemistry: 0.5\n")
    words = ("status", "--user-by", "account", "--weights", weights, "--policy", "first-fit-drfh")
    data = json.loads(run(*words, "--json")[1])
    assert [(user["name"], user["weight"]) for user in data["users"]] == [
        ("chemistry", 0.5), ("physics", 3.0),
    ]  # fmt: skip
    assert data["policy"] == "first-fit-drfh"
    monkeypatch.setenv("DRFH_SLURM_USER_BY", "account")
    monkeypatch.setenv("DRFH_SLURM_WEIGHTS", str(weights))
    monkeypatch.setenv("DRFH_SLURM_POLICY", "first-fit-drfh")
    monkeypatch.setenv("DRFH_SLURM_PARTITIONS", "main,more other")
    same = json.loads(run("status", "--json")[1])
    assert same["users"] == data["users"]
    assert same["policy"] == "first-fit-drfh"
    assert open_site(partitions=["main, more", "main"]).site.partitions == ("main", "more")
    assert same["notes"] == ["no node is in the managed partition more",
                             "no node is in the managed partition other"]  # fmt: skip


def test_what_is_not_given_is_as_the_controller_has_it(run: Run, site: Path) -> None:
    facts = {"policy": "first-fit-drfh", "weights": {"bob": 5}, "user_by": "user",
             "partitions": ["main"], "hold_by": "controller"}  # fmt: skip
    with ControllerLock(site / "state" / "drfh.lock").acquire(facts):
        code, out, _ = run("status")
        assert code == 0
        assert f"controller runs: process {os.getpid()} on " in out
        data = json.loads(run("status", "--json")[1])
        assert data["controller"]["pid"] == os.getpid()
        assert data["controller"]["running"] is True
        assert data["policy"] == "first-fit-drfh"
        assert {user["name"]: user["weight"] for user in data["users"]}["bob"] == 5.0
        new = "it is new: the controller takes it over at its next look"
        assert data["outside"][new] == 1
        assert data["outside"]["drfh does not manage the partition other"] == 1
        weights = site / "weights.json"
        weights.write_text('{"bob": 7}')
        given = json.loads(run("status", "--json", "--weights", weights)[1])
        assert {user["name"]: user["weight"] for user in given["users"]}["bob"] == 7.0
        assert given["policy"] == "first-fit-drfh"
    assert "no controller runs" in run("status")[1]


def test_a_controller_elsewhere_or_killed(run: Run, site: Path) -> None:
    lock = site / "state" / "drfh.lock"
    told = {"pid": 12, "host": "elsewhere", "started": "2024-05-01T12:00:00+00:00"}
    lock.write_text(json.dumps(told))
    assert "controller: process 12 on elsewhere since 2024-05-01" in run("status")[1]
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    host = os.uname().nodename
    lock.write_text(json.dumps({**told, "pid": process.pid, "host": host}))
    assert f"no controller runs: process {process.pid} on {host} was killed" in run("status")[1]
    # What it wrote down is damaged, in any way.
    damaged: list[Any] = [None, 7, ["x"], {}]
    for weights in damaged:
        odd = {"policy": 7, "weights": weights, "user_by": "x", "partitions": "main", "hold_by": []}
        lock.write_text(json.dumps({**told, **odd}))
        assert run("status")[0] == 0
    lock.write_text("{")
    assert "no controller runs" in run("status")[1]
    lock.unlink()
    (site / "state").rmdir()  # as on every host but that of slurmctld
    code, out, _ = run("status")
    assert code == 0
    assert "controller" not in out
    assert json.loads(run("status", "--json")[1])["controller"]["running"] is None


def test_why_command(run: Run, site: Path) -> None:
    code, out, err = run("why", "20", "--partition", "main")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "array 20 of ann has 10 tasks left: 1 runs, 9 wait."
    assert out.splitlines()[1].startswith("The first that does not run: job 20_1 of ann can start")
    data = json.loads(run("why", "5", "--json")[1])
    assert (data["state"], data["user"], data["slurm"]) == ("never", "bob", "JobHeldUser")
    assert data["why"]["missing"]
    assert run("why", "5", "--user-by", "account")[1].startswith("job 5 of physics never runs")
    code, out, _ = run("why", "4711")
    assert (code, out) == (
        0, "job 4711 is not in Slurm's queue: it has ended, or there was never one.\n",
    )  # fmt: skip
    assert run("why", "soon")[::2] == (
        2, "drfh: job must be a number such as 12, or 12_3 for a task of an array, got 'soon'\n",
    )  # fmt: skip


def test_audit_command(run: Run, site: Path, tmp_path: Path) -> None:
    code, out, err = run("audit", "--partition", "main")
    assert code == 0
    assert "slurm: tiny, 20" in out
    assert "observed allocation, " in out
    assert "✔   feasible" in out
    assert "tasks running: 2; tasks queued: 13" in err  # what is released holds nothing yet
    assert "tasks that must not be placed now, left out: 2" in err
    assert "warning: broken: job 31" in err
    weights = tmp_path / "weights.yaml"
    weights.write_text("ann: 100\n")
    words = ("audit", "--no-split", "--weights", weights, "--json")
    data = json.loads(run(*words)[1])
    assert data["tasks"] == pytest.approx({"ann": 1 + 0.96, "bob": 0.0, "eve": 0.0})
    assert data["trace"]["options"] == {"user_by": "user"}
    fair = {f["property"]: f for f in data["findings"]}["fair"]
    assert (fair["verdict"], fair["hurt"]) == ("fails", ["bob", "eve", "ann"])
    assert "bob has 0 tasks, 0.02" in fair["text"]
    plain = json.loads(run("audit", "--no-split", "--json")[1])
    fair = {f["property"]: f for f in plain["findings"]}["fair"]
    assert "bob has 0 tasks, 1 in the DRFH optimum" in fair["text"]
    assert run("audit", "--only", "feasible", "--require", "feasible")[0] == 0
    assert run("audit", "--require", "fair")[0] == 3
    assert run("audit", "--require", "truthful")[:2] == (2, "")
    page = tmp_path / "page.html"
    code, out, _ = run("audit", "--show", "fair", "--save", tmp_path / "c.yaml", "--html", page)
    assert code == 0
    assert "fair: fails" in out
    assert page.stat().st_size > 1000


def test_audit_when_nothing_runs(run: Run, site: Path) -> None:
    fake(site, "squeue", json.dumps({"jobs": [job(2, "ann")]}))
    assert run("audit", "--require", "fair") == (0, "nothing runs, so there is nothing to audit\n",
                                                 "")  # fmt: skip
    assert json.loads(run("audit", "--json")[1])["findings"] == []


@pytest.mark.parametrize("verb", [("status",), ("why", "1"), ("audit",)])
def test_what_is_wrong_is_one_line(run: Run, site: Path, verb: tuple[str, ...]) -> None:
    def complaint(code: int, *words: object) -> str:
        found, out, err = run(*verb, *words)
        assert (found, out) == (code, "")
        assert err.startswith("drfh: ")
        assert err.count("\n") == 1
        return err

    weights = site / "weights.yaml"
    weights.write_text("ann: 2\nbob: -1\n")
    wrong = complaint(2, "--weights", weights)
    assert f"{weights}, line 2: bob must be" in wrong
    assert "must exist" in complaint(2, "--weights", site / "nothing.yaml")
    assert "--user-by must be one of account, partition, user" in complaint(
        2, "--user-by", "acount"
    )
    assert "did you mean best-fit-drfh?" in complaint(2, "--policy", "best-fit-drf")
    fake(site, "squeue", "slurm_load_jobs error: nothing here")
    assert "squeue: its answer is not JSON" in complaint(1)
    fake(site, "sinfo", json.dumps({"nodes": 7}))
    assert "sinfo: its answer has no list of nodes" in complaint(1)
    (site / "scontrol").write_text("#!/bin/sh\necho 'Unable to contact slurm controller' >&2\n"
                                   "exit 1\n")  # fmt: skip
    assert "scontrol: Unable to contact slurm controller" in complaint(1)
    (site / "scontrol").unlink()
    assert "scontrol is not installed, or not in PATH" in complaint(1)


def test_watch_in_a_pipe(run: Run, site: Path) -> None:
    code, out, err = run("status", "--watch", "0", "--count", "3", "--json")
    assert (code, err) == (0, "")
    assert [json.loads(line)["cluster"] for line in out.splitlines()] == ["tiny"] * 3
    code, out, _ = run("status", "--watch", "0", "--count", "2")
    assert code == 0
    assert out.count("3 jobs run, ") == 2
    assert "\x1b" not in out
    for words in (("3",), ("--count", "3"), ("-1", "--watch"), ("--watch", "nan")):
        assert run("status", *words)[0] == 2


def test_watch_goes_on_when_slurmctld_is_away(
    run: Run, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([True, False, True])

    def away(seconds: float) -> None:
        fake(site, "squeue", json.dumps({"jobs": JOBS}) if not next(looks) else "down")

    monkeypatch.setattr(cluster_status, "_pause", away)
    words = ("status", "--watch", "--count", "3")
    code, out, _ = run(*words, "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert "its answer is not JSON" in lines[1]["error"]
    assert "users" in lines[2]
    fake(site, "squeue", json.dumps({"jobs": JOBS}))
    looks = iter([True, False, True])
    code, out, _ = run(*words)
    assert code == 0
    assert re.search(r"\d\d:\d\d:\d\d: squeue: its answer is not JSON", out)
    assert out.count("3 jobs run, ") == 2
    fake(site, "squeue", "down")
    looks = iter([True, True, True])
    code, out, err = run(*words)  # there was nothing to begin with
    assert (code, out) == (1, "")
    assert "its answer is not JSON" in err


def test_watch_ends_with_ctrl_c(run: Run, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed(seconds: float) -> None:
        assert seconds == 7.5
        raise KeyboardInterrupt

    monkeypatch.setattr(cluster_status, "_pause", pressed)
    code, out, err = run("status", "--watch", "7.5")
    assert (code, err) == (0, "")
    assert "3 jobs run, " in out


def on_a_terminal(
    site: Path, *words: str, rows: int = 30, columns: int = 80, until: bytes = b""
) -> tuple[int, str]:
    """Run a command on a terminal of its own; press Ctrl-C when it has shown `until`."""
    environment = {**os.environ, "PATH": str(site), "TERM": "xterm-256color",
                   "COLUMNS": str(columns), "LINES": str(rows), "PYTHONPATH": os.pathsep.join(
                       [str(Path(drfh.__file__).parent.parent), *sys.path])}  # fmt: skip
    environment.pop("NO_COLOR", None)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "drfh", "slurm", *words],
        stdin=theirs, stdout=theirs, stderr=theirs, env=environment,
    )  # fmt: skip
    os.close(theirs)
    seen, pressed, end = b"", False, time.monotonic() + 60
    while time.monotonic() < end:
        if select.select([ours], [], [], 0.1)[0]:
            try:
                seen += os.read(ours, 65_536)
            except OSError:  # the other side is closed
                break
        elif process.poll() is not None:
            break
        if until and not pressed and seen.count(until) >= 2:
            process.send_signal(signal.SIGINT)
            pressed = True
    os.close(ours)
    return process.wait(10), seen.decode()


def test_watch_on_a_terminal(site: Path) -> None:
    code, text = on_a_terminal(site, "status", "--watch", "0.05", until=b"fullest resource")
    assert code == 0
    assert "Traceback" not in text
    assert text.count("\x1b[?1049h") == text.count("\x1b[?1049l") == 1  # a screen, and back
    assert "\x1b[2J" not in text.partition("fullest resource")[2]  # drawn over, never wiped
    assert "ann" in text


def test_users_fill_the_height_of_a_terminal(site: Path) -> None:
    entries = [job(number, f"user{number:02}") for number in range(1, 41)]
    fake(site, "squeue", json.dumps({"jobs": entries}))
    words = ("status", "--watch", "0", "--count", "1")
    shown = {}
    for rows in (24, 40, 80):
        code, text = on_a_terminal(site, *words, rows=rows)
        assert code == 0
        assert "fullest resource" in text  # the end is not cut off
        shown[rows] = len(set(re.findall(r"user\d\d", text)))
    assert 4 <= shown[24] < shown[40] < shown[80] == 40


def test_why_on_a_terminal_breaks_at_blanks(site: Path) -> None:
    code, text = on_a_terminal(site, "why", "8", "--partition", "main", columns=50)
    assert code == 0
    lines = text.split("\r\n")
    assert max(map(len, lines)) <= 50
    assert " ".join(" ".join(lines).split()) == (
        "job 8 of dan is left to Slurm's own scheduler: drfh does not manage the partition other "
        "(Slurm says: Priority)."
    )


# A real Slurm


def settled(slurm: Sandbox, rounds: int = 6) -> None:
    controller = Controller(
        Slurm(slurm.environment), SlurmConfig(partitions=("main",)), SchedulerCache()
    )
    for _ in range(rounds):
        controller.cycle()
        time.sleep(0.2)


def test_a_real_cluster(quiet_slurm: Sandbox, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm = quiet_slurm
    for name in ("SLURM_CONF", "PATH"):
        monkeypatch.setenv(name, slurm.environment[name])
    monkeypatch.setenv("DRFH_SLURM_PARTITIONS", "main")
    first = slurm.submit("sleep 300", user="games", cpus=2)
    after = slurm.submit("sleep 1", f"--dependency=afterok:{first}", user="games")
    array = slurm.submit("sleep 300", "--array=0-19%8", user="mail")
    large = slurm.submit("sleep 300", "--array=0-39", user="news", cpus=8)
    never = slurm.submit("sleep 300", "--gres=accel:9", user="news", cpus=8)
    held = slurm.submit("sleep 300", "--hold", user="daemon")
    other = slurm.submit("sleep 300", "--partition=other", "--begin=now+1hour", user="daemon")
    slurm.run("scontrol", "update", "NodeName=n3", "State=DRAIN", "Reason=test")
    settled(slurm)
    slurm.wait(lambda: " PD " not in slurm.run("squeue", "--format=%r %t ", "--noheader")
               .replace("JobHeldUser PD ", "").replace("Dependency PD ", "")
               .replace("BeginTime PD ", ""), 30, "released jobs to start")  # fmt: skip
    code, out, err = run("status", "--json")
    assert (code, err) == (0, "")
    data = json.loads(out)
    users = {user["name"]: user for user in data["users"]}
    assert (users["games"]["running"], users["games"]["aside"]) == (
        1, {"waits for another job": 1},
    )  # fmt: skip
    assert users["mail"]["running"] == 8
    assert users["mail"]["aside"] == {"its array runs at most 8 at once": 12}
    assert users["news"]["never"] == 1
    assert users["news"]["running"] + users["news"]["waiting"] == 40
    assert users["news"]["running"] >= 8
    assert users["daemon"]["aside"] == {"held by its owner": 1}
    assert data["outside"] == {"drfh does not manage the partition other": 1}
    assert {node["name"]: node["state"] for node in data["nodes"]}["n3"] == "closing"
    assert data["broken"] == []
    assert all(part["used"] <= part["capacity"] for part in data["totals"].values())
    texts = {name: run("why", name)[1] for name in
             (first, after, array, f"{array}_3", large, never, held, other)}  # fmt: skip
    assert f"job {first} of games runs on n" in texts[first]
    assert f"job {after} of games waits for another job (afterok:{first}" in texts[after]
    assert f"array {array} of mail has 20 tasks left: 8 run, 12 are set aside." in texts[array]
    assert f"job {array}_3 of mail runs on n" in texts[f"{array}_3"]
    assert " of news waits: it needs 8 cpu" in texts[large]
    assert "never runs: it needs 9 gres/accel, and no server" in texts[never]
    assert texts[held] == f"job {held} of daemon waits: held by its owner.\n"
    assert "is left to Slurm's own scheduler: drfh does not manage" in texts[other]
    code, out, _ = run("audit", "--require", "feasible")
    assert code == 0
    assert "✔   feasible" in out
    code, out, _ = run("status")
    assert code == 0
    assert "16 nodes: 15 up, 1 takes nothing new" in out
