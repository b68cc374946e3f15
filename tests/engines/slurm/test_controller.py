"""Rounds of the controller, against a Slurm in memory: killed at any line, refused at any line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from drfh.engines.cache import SchedulerCache
from drfh.engines.slurm import controller as module
from drfh.engines.slurm.config import SlurmConfig
from drfh.engines.slurm.controller import SlurmController
from drfh.engines.slurm.reconcile import reconcile
from drfh.engines.slurm.state import read_state
from tests.engines.slurm.model import KilledError, ModelSlurm
from tests.support.examples import examples

SIZES = {"n0": (4, 8000), "n1": (8, 4000), "n2": (4, 4000)}


@pytest.fixture(scope="module", autouse=True)
def all_numbers() -> Iterator[None]:
    """Tasks of arrays are called by their own numbers, also if they are few."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_MIN_TASKS_FOR_IDS", 1)
        yield


def controller(slurm: ModelSlurm, **more: Any) -> SlurmController:
    return SlurmController(slurm, SlurmConfig(), SchedulerCache(), clock=lambda: slurm.now, **more)


def within(slurm: ModelSlurm) -> bool:
    return all(min(slurm.free(node)) >= 0 for node in slurm.sizes)


jobs = st.tuples(st.sampled_from(["ann", "bob", "cat"]), st.integers(1, 4), st.integers(100, 4000))


@settings(max_examples=examples(100), deadline=None)
@given(data=st.data())
def test_killed_and_refused_at_any_line(data: st.DataObject) -> None:
    slurm = ModelSlurm(SIZES)
    ours = controller(slurm, patience=5.0)
    for _ in range(data.draw(st.integers(1, 10), label="rounds")):
        for _ in range(data.draw(st.integers(0, 3), label="arrivals")):
            user, cpus, memory = data.draw(jobs)
            last = len(slurm.table)
            needs = f"afterany:{last}(unfulfilled)" if last and data.draw(st.booleans()) else ""
            if last and slurm.table[str(last)]["job_state"] == "COMPLETED":
                needs = ""
            array = data.draw(st.sampled_from([(), (0, 2), (0, 1, 2, 3)]), label="array")
            for task in array:
                numbers = {"array_job_id": 900 + last, "array_task_id": task}
                slurm.submit(user, cpus, memory, dependency=needs, **numbers)
            if not array:
                slurm.submit(user, cpus, memory, dependency=needs)
        slurm.doom = data.draw(st.none() | st.integers(0, 12), label="killed after")
        slurm.fails = {slurm.lines + n for n in data.draw(st.sets(st.integers(1, 9), max_size=2))}
        slurm.tells = data.draw(st.booleans(), label="errors name jobs")
        try:
            ours.cycle()
        except KilledError:
            event("killed")
            ours = controller(slurm, patience=5.0)
        slurm.doom, slurm.fails = None, set()
        slurm.now += data.draw(st.sampled_from([0.1, 1.0, 10.0]))
        if data.draw(st.booleans(), label="slurm schedules"):
            slurm.schedule()
        assert within(slurm)
        assert not slurm.jumped
        running = sorted(n for n, job in slurm.table.items() if job["job_state"] == "RUNNING")
        if running:
            some = data.draw(st.sampled_from(running))
            fate = data.draw(st.sampled_from(["runs", "ends", "requeued"]))
            if fate == "ends":
                slurm.end(some)
            elif fate == "requeued":
                slurm.requeue(some)
        node = data.draw(st.sampled_from([*SIZES, None]))
        if node is not None:
            slurm.states[node] = data.draw(st.sampled_from(["idle", "idle", "drained"]))
    # The troubles are over: everything runs, and nothing stays held.
    slurm.states = dict.fromkeys(SIZES, "idle")
    for _ in range(400):
        slurm.now += 5.0
        ours.cycle()
        slurm.schedule()
        assert within(slurm)
        for name, job in slurm.table.items():
            if job["job_state"] == "RUNNING":
                slurm.end(name)
        if all(job["job_state"] == "COMPLETED" for job in slurm.table.values()):
            break
    stuck = {n: job for n, job in slurm.table.items() if job["job_state"] != "COMPLETED"}
    assert not stuck
    assert not slurm.jumped
    for name in slurm.table:
        runs = [node for started, node in slurm.started if started == name]
        assert len(runs) == 1 + slurm.table[name]["restart_cnt"]


@pytest.mark.parametrize("tells", [True, False])
def test_one_that_slurm_always_refuses_stops_nobody(tells: bool) -> None:
    slurm = ModelSlurm(SIZES)
    names = [slurm.submit("ann", 1, 100) for _ in range(3)]
    after = [slurm.submit("bob", 1, 100, dependency=f"afterany:{names[2]}") for _ in range(2)]
    for slurm.poison in (names[0], after[0]):
        ours = controller(slurm)
        slurm.tells = tells
        for _ in range(8):
            ours.cycle()
            slurm.schedule()
            slurm.now += 1.0
        for name in names[1:]:
            if slurm.table[name]["job_state"] == "RUNNING":
                slurm.end(name)
    for _ in range(8):
        ours.cycle()
        slurm.schedule()
        slurm.now += 1.0
    states = {name: slurm.table[name]["job_state"] for name in (*names, *after)}
    assert states[names[0]] == "RUNNING", "it was not poison any more"
    assert states[after[0]] == "PENDING"
    assert states[after[1]] == "RUNNING"


def test_a_second_round_changes_nothing() -> None:
    slurm = ModelSlurm(SIZES)
    for user in ("ann", "bob"):
        slurm.submit(user, 2, 1000)
    ours = controller(slurm)
    assert len(ours.cycle().placed) == 2
    again = ours.cycle()
    assert not again.busy
    assert ours.cache.starts == 1


def test_one_that_does_not_start_is_recalled_and_left_alone_for_a_while() -> None:
    slurm = ModelSlurm(SIZES)
    name = slurm.submit("ann", 2, 1000, required_nodes="n1")
    ours = controller(slurm, patience=30.0)
    ours.cycle()
    slurm.now += 31.0  # Slurm has not started it
    assert not ours.cycle().recalled, "it is seen for the first time now"
    slurm.now += 31.0
    slurm.table[name]["state_reason"] = "Resources"
    assert list(ours.cycle().recalled) == [name]
    done = ours.cycle()
    assert not done.placed
    assert "Slurm did not take it (Resources)" in str(
        done.reconciliation.snapshot.tasks[name].blocked
    )
    slurm.now += 2.0
    assert [one.task for one in ours.cycle().placed] == [name]


def test_one_that_does_not_start_tries_all_nodes() -> None:
    slurm = ModelSlurm(SIZES)
    name = slurm.submit("ann", 2, 1000)
    ours = controller(slurm)
    tried = []
    for _ in range(3):
        tried += [one.server for one in ours.cycle().placed]
        slurm.table[name]["state_reason"] = "ReqNodeNotAvail"
        slurm.now += 1.0
        assert list(ours.cycle().recalled) == [name]
    assert sorted(tried) == ["n0", "n1", "n2"]
    done = ours.cycle()
    assert not done.placed
    assert "Slurm did not take it (ReqNodeNotAvail)" in str(
        done.reconciliation.snapshot.tasks[name].blocked
    )
    slurm.now += 2.0
    assert ours.cycle().placed, "and begins again"


def test_the_owners_node_list_survives_the_pin() -> None:
    slurm = ModelSlurm(SIZES)
    name = slurm.submit("ann", 2, 1000, required_nodes="n1")
    controller(slurm).cycle()
    job = slurm.table[name]
    assert (job["required_nodes"], job["admin_comment"]) == (
        "n1",
        "drfh;pin=n1;nodes=n1;restarts=0",
    )
    state = read_state(slurm.nodes(), slurm.jobs(), slurm.now)
    assert reconcile(state, SlurmConfig()).snapshot.tasks[name].servers == ("n1",)
