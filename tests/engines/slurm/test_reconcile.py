"""Reconciliation: which jobs are managed, which wait and why, and what is changed in Slurm."""

from __future__ import annotations

from typing import Any

import pytest

from drfh.engines.slurm import actions
from drfh.engines.slurm.config import SlurmConfig, config_of
from drfh.engines.slurm.reconcile import Reconciliation, reconcile
from drfh.engines.slurm.state import (
    DEFERRED_UNTIL,
    HELD_UNTIL,
    Annotation,
    SlurmJob,
    SlurmState,
    read_annotation,
    read_state,
)

NOW = 1_800_000_000.0
MIB = 2.0**20
NODES: list[dict[str, Any]] = [
    {"name": "n0", "cpus": 4, "real_memory": 8000, "state": "idle", "partitions": ["main"]},
    {"name": "n1", "cpus": 8, "real_memory": 4000, "state": "idle",
     "partitions": ["main", "other"], "features": "fast"},
    {"name": "n2", "cpus": 8, "real_memory": 4000, "state": "idle", "partitions": ["main"],
     "gres": "accel:2"},
]  # fmt: skip


def job(number: int, **more: Any) -> dict[str, Any]:
    return {
        "job_id": number, "job_state": "PENDING", "user_name": "ann", "account": "physics",
        "partition": "main", "priority": 0, "state_reason": "JobHeldUser",
        "admin_comment": "drfh", "tres_req_str": "cpu=2,mem=100M,node=1", "memory_per_node": 100,
        "node_count": 1, "tasks": 1, **more,
    }  # fmt: skip


def seen(
    *jobs: dict[str, Any], nodes: list[dict[str, Any]] | None = None, **config: Any
) -> Reconciliation:
    return reconcile(state(*jobs, nodes=nodes), SlurmConfig(**config))


def state(*jobs: dict[str, Any], nodes: list[dict[str, Any]] | None = None) -> SlurmState:
    found = read_state(NODES if nodes is None else nodes, jobs, NOW)
    assert not found.broken
    return found


def running(number: int, node: str = "n0", **more: Any) -> dict[str, Any]:
    asked = {"job_state": "RUNNING", "priority": 9, "state_reason": "None", "nodes": node}
    return job(number, **{**asked, "tres_alloc_str": "cpu=2,mem=100M,node=1", **more})


def unmanaged(jobs: dict[str, SlurmJob], failing: str = "") -> list[str]:
    """Return the lines that give jobs back, if those about one job fail."""
    asked: list[str] = []

    def ask(lines: list[str]) -> dict[str, str]:
        asked.extend(lines)
        failed = failing and any(f"JobId={failing} " in f"{line} " for line in lines)
        return {failing: "refused"} if failed else {}

    actions.unmanage(ask, jobs, NOW)
    return asked


def test_a_waiting_job() -> None:
    task = seen(job(7)).snapshot.tasks["7"]
    assert (task.user, task.on, task.blocked, task.recalled) == ("ann", None, None, False)
    assert task.demand == {"cpu": 2.0, "memory": 100 * MIB}
    assert task.servers is None


@pytest.mark.parametrize("who", ["account", "partition", "user"])
def test_who_shares(who: str) -> None:
    names = {"account": "physics", "partition": "main", "user": "ann"}
    assert seen(job(7), user_by=who).snapshot.tasks["7"].user == names[who]


@pytest.mark.parametrize(
    ("asked", "servers"),
    [
        ({"required_nodes": "n[0,2]", "node_count": 1}, ("n0", "n2")),
        ({"excluded_nodes": "n0"}, ("n1", "n2")),
        ({"features": "fast"}, ("n1",)),
        ({"partition": "other"}, ("n1",)),
        ({"features": "fast", "excluded_nodes": "n1"}, ()),
    ],
)
def test_where_it_may_run(asked: dict[str, Any], servers: tuple[str, ...]) -> None:
    assert seen(job(7, **asked)).snapshot.tasks["7"].servers == servers


def test_the_tasks_of_an_array_and_its_limit() -> None:
    array = job(7, array_job_id=7, array_task_string="0-5:2,9%2", array_max_tasks=2)
    one = running(8, array_job_id=7, array_task_id=1, array_max_tasks=2)
    tasks = seen(array, one).snapshot.tasks
    assert set(tasks) == {"7_0", "7_1", "7_2", "7_4", "7_9"}
    assert tasks["7_1"].on == "n0"
    assert tasks["7_0"].blocked is None
    assert str(tasks["7_2"].blocked) == "its array runs at most 2 at once"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"eligible_time": NOW + 60}, "must not start before"),
        ({"eligible_time": HELD_UNTIL}, "held by its owner"),
        ({"state_reason": "JobHeldAdmin"}, "held by an administrator"),
        ({"state_reason": "JobHoldMaxRequeue"}, "held by Slurm (JobHoldMaxRequeue)"),
        ({"node_count": 2}, "needs 2 nodes at once"),
        ({"dependency": "afterok:3(unfulfilled)"}, "waits for another job (afterok:3"),
    ],
)
def test_who_must_not_be_placed(asked: dict[str, Any], words: str) -> None:
    assert words in str(seen(job(7, **asked)).snapshot.tasks["7"].blocked)


def test_in_controller_mode_an_admin_hold_is_ours() -> None:
    held = job(7, state_reason="JobHeldAdmin")
    assert seen(held, hold_by="controller").snapshot.tasks["7"].blocked is None
    new = job(8, admin_comment="", priority=5)
    found = seen(new, hold_by="controller")
    assert [one.name for one in found.to_hold] == ["8"]
    assert list(actions.hold_new(actions.job_ids(found.to_hold, found.known.values()))) == [
        "update JobId=8 Priority=0 AdminComment=drfh"
    ]
    assert not seen(new).to_hold, "with the plugin, what it has not marked is not ours"


def test_whole_nodes_are_of_the_smallest_kind_that_fits() -> None:
    exclusive = seen(job(7, shared="none")).snapshot.tasks["7"]
    assert (exclusive.demand, exclusive.servers) == ({"cpu": 4.0, "memory": 8000 * MIB}, ("n0",))
    large = job(8, shared="none", tres_req_str="cpu=6,mem=100M,node=1")
    assert seen(large).snapshot.tasks["8"].servers == ("n1",), "not the one with accelerators"
    greedy = job(9, memory_per_node=None, tres_req_str="cpu=6,mem=8000M,node=1")
    task = seen(greedy).snapshot.tasks["9"]
    assert (task.demand, task.servers) == ({"cpu": 6.0, "memory": 4000 * MIB}, ("n1",))


def test_a_released_job_is_on_its_node() -> None:
    annotation = "drfh;pin=n1;nodes=n[0-1];restarts=0"
    released = job(
        7, priority=5, state_reason="None", admin_comment=annotation, required_nodes="n1"
    )
    found = seen(released)
    assert found.released == {"7": "n1"}
    assert found.snapshot.tasks["7"].on == "n1"
    assert found.snapshot.tasks["7"].servers == ("n0", "n1"), "as its owner asked"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"restart_cnt": 1}, "it was requeued"),
        ({"required_nodes": "n0"}, "its node list was changed"),
        ({"eligible_time": HELD_UNTIL}, "held by its owner"),
    ],
)
def test_a_released_job_is_recalled(change: dict[str, Any], why: str) -> None:
    annotation = "drfh;pin=n1;restarts=0"
    more = {
        "priority": 5,
        "state_reason": "None",
        "admin_comment": annotation,
        "required_nodes": "n1",
    }
    found = seen(job(7, **{**more, **change}))
    assert {name: str(reason) for name, reason in found.to_recall.items()} == {"7": why}
    assert found.snapshot.tasks["7"].on is None
    assert found.snapshot.tasks["7"].recalled


def test_a_requeued_job_waits_for_the_dust_to_settle() -> None:
    fresh = job(7, restart_cnt=1, submit_time=NOW - 2)
    assert str(seen(fresh).snapshot.tasks["7"].blocked) == "was requeued a moment ago"
    assert seen({**fresh, "submit_time": NOW - 9}).snapshot.tasks["7"].blocked is None
    assert seen({**fresh, "restart_cnt": 0}).snapshot.tasks["7"].blocked is None


def test_a_node_that_takes_nothing_new() -> None:
    drained = [{**NODES[0], "state": "drained"}, *NODES[1:]]
    annotation = "drfh;pin=n0;restarts=0"
    waiting = job(7, priority=5, admin_comment=annotation, required_nodes="n0")
    found = seen(waiting, running(8), nodes=drained)
    assert str(found.to_recall["7"]) == "n0 takes no new jobs"
    assert set(found.to_recall) == {"7"}
    server = found.snapshot.servers["n0"]
    assert (server.state, server.available) == ("closing", {"cpu": 2.0, "memory": 100 * MIB})


def test_others_are_counted_and_not_touched() -> None:
    foreign = running(7, admin_comment="", user_name="eve")
    waiting = job(8, admin_comment="", priority=5)
    several = running(9, "n[1-2]", admin_comment="", tres_alloc_str="cpu=4,mem=200M,node=2")
    found = seen(foreign, waiting, several)
    assert {name: task.on for name, task in found.snapshot.tasks.items()} == {
        "7": "n0", "9@n1": "n1", "9@n2": "n2",
    }  # fmt: skip
    assert found.snapshot.users == ("ann", "eve")
    asked = (found.to_hold, found.to_recall, found.to_unmanage, found.to_defer, found.to_annotate)
    assert not any(asked)


def test_one_that_moved_elsewhere_is_unmanaged() -> None:
    moved = job(7, partition="other", admin_comment="drfh;pin=n2;nodes=n1;restarts=0",
                required_nodes="n2", tasks=4)  # fmt: skip
    found = seen(moved, partitions=("main",))
    assert not found.snapshot.tasks
    given = actions.job_ids(found.to_unmanage, found.known.values())
    assert unmanaged(given) == [
        "update JobId=7 ReqNodeList=n1 NumNodes=1-500000",
        "release 7",
        "update JobId=7 AdminComment=",
    ]


def test_dependencies_are_deferred_until_they_are_met() -> None:
    depends = job(7, dependency="afterok:3(unfulfilled)", eligible_time=NOW + 900)
    found = seen(depends)
    (line,) = actions.defer(actions.job_ids(found.to_defer, found.known.values()))
    assert line.startswith("update JobId=7 StartTime=2098-01-01T")
    assert f"AdminComment=drfh;parked;begin={NOW + 900:.0f}" in line
    annotation = str(Annotation(deferred=True, begin=int(NOW + 900)))
    deferred = job(7, priority=5, dependency="afterok:3(unfulfilled)", admin_comment=annotation,
                 eligible_time=DEFERRED_UNTIL)  # fmt: skip
    again = seen(deferred)
    assert not again.to_defer
    assert not again.to_undefer
    done = seen({**deferred, "dependency": ""})
    (update,) = actions.undefer(actions.job_ids(done.to_undefer, done.known.values()), NOW)
    assert "AdminComment=drfh " in update
    assert "StartTime=20" in update, "as its owner asked for"


def test_a_whole_array_has_one_line() -> None:
    array = job(7, array_job_id=7, array_task_string="0-999", dependency="afterok:3(unfulfilled)")
    found = seen(array)
    assert len(found.to_defer) == 1000
    assert list(actions.job_ids(found.to_defer, found.known.values())) == ["7"]
    one = running(8, array_job_id=7, array_task_id=1000)
    found = seen(array, one)
    assert len(actions.job_ids(found.to_defer, found.known.values())) == 1000


def test_release_all_keeps_what_owners_and_administrators_hold() -> None:
    jobs = [
        job(1),
        job(2, eligible_time=HELD_UNTIL, admin_comment="drfh;held"),
        job(3, state_reason="JobHeldAdmin"),
        job(4, priority=5, dependency="afterok:9", admin_comment="drfh;parked",
            eligible_time=DEFERRED_UNTIL),
    ]  # fmt: skip
    found = state(*jobs)
    lines = unmanaged(dict(found.jobs))
    assert [line for line in lines if "release" in line] == ["release 1"]
    assert lines[:2] == [
        "update JobId=2 StartTime=now AdminComment=",
        "update JobId=4 StartTime=now",
    ]
    assert lines[-3:] == [f"update JobId={n} AdminComment=" for n in (1, 3, 4)], (
        "the annotation last"
    )


def test_an_annotation_stays_where_giving_back_failed() -> None:
    pinned = job(7, required_nodes="n1", admin_comment="drfh;pin=n1;nodes=n2;restarts=0")
    found = state(pinned, job(8))
    lines = unmanaged(dict(found.jobs), failing="7")
    assert lines[1:] == ["release 8", "update JobId=8 AdminComment="]


def test_a_task_whose_array_waits_for_others_is_free() -> None:
    array = {"array_job_id": 7, "array_max_tasks": 2}
    deferred = [
        job(n, priority=5, array_task_id=n, dependency="aftercorr:3", eligible_time=DEFERRED_UNTIL,
            admin_comment="drfh;parked", **array)
        for n in (1, 2, 3)
    ]  # fmt: skip
    found = seen(*deferred, job(9, array_task_id=9, **array))
    assert found.snapshot.tasks["7_9"].blocked is None


def test_whole_nodes_are_not_those_that_take_nothing_new() -> None:
    drained = [{**NODES[0], "state": "drained"}, *NODES[1:]]
    assert seen(job(7, shared="none"), nodes=drained).snapshot.tasks["7"].servers == ("n1",)


def test_annotations_are_written_in_few_lines() -> None:
    array = job(7, array_job_id=7, array_task_string="0-999", eligible_time=HELD_UNTIL)
    found = seen(array, job(9, node_count=2))
    lines, commands = actions.annotate(found.to_annotate, found.known)
    assert lines == ["update JobId=7 AdminComment=drfh;held"]
    assert list(commands) == ["9"]
    assert "needs 2 nodes" in commands["9"][3]


def test_tasks_that_are_not_alike_are_named_one_by_one() -> None:
    array = job(7, array_job_id=7, array_task_string="0-3")
    pinned = job(8, array_job_id=7, array_task_id=4, required_nodes="n1",
                 admin_comment="drfh;pin=n1;restarts=0")  # fmt: skip
    found = state(array, pinned)
    lines = unmanaged(actions.job_ids(found.jobs.values(), found.jobs.values()))
    assert "update JobId=7_4 ReqNodeList= NumNodes=1-500000" in lines
    assert "release 7_[0,1,2,3,4]" in lines


def test_annotations_of_others_and_strange_ones() -> None:
    assert read_annotation(None) is None
    assert read_annotation("drfhx;pin=n0") is None
    assert read_annotation("drfh;pin=;restarts=x;;what=ever") == Annotation()
    words = Annotation(refused="needs 2 nodes; no")
    assert read_annotation(str(words)) is not None


def test_an_entry_that_cannot_be_read_is_reported_and_left_out() -> None:
    found = read_state(NODES, [job(7), {"job_id": 8}, "x", job(9, job_state="DANCING")], NOW)
    assert list(found.jobs) == ["7"]
    assert [line.split(":")[0] for line in found.broken] == ["job 8", "jobs[2]", "job 9"]


def test_every_node_that_cannot_be_read_is_named_and_the_others_count() -> None:
    found = read_state([*NODES, {"name": ""}, "n2", {"name": ""}], [job(7)], NOW)
    assert len(found.nodes) == len(NODES)
    places = [f"nodes[{len(NODES) + k}]" for k in range(3)]
    assert [line.split(":")[0] for line in found.broken] == places


def test_a_slurm_that_counts_only_cpus() -> None:
    config = config_of({"SelectType": "select/cons_res", "SelectTypeParameters": "CR_CORE"})
    found = read_state(NODES, [job(7)], NOW, memory=config.memory, linear=config.linear)
    snapshot = reconcile(found, config).snapshot
    assert snapshot.tasks["7"].demand == {"cpu": 2.0}
    assert snapshot.servers["n0"].size == {"cpu": 4.0}
