"""Both cores agree on random histories: every placement and everything that can be read."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drfh import Cluster, Scheduler, Server
from drfh.errors import InputError
from drfh.kernels.machine_code import source_stamp
from drfh.kernels.online import place
from drfh.policies import Policy
from drfh.policies.scores import best_fit, simplex
from drfh.policies.slots import Slots
from drfh.scheduler import indexed
from drfh.scheduler.core import NEVER
from drfh.scheduler.indexed import IndexedCore
from drfh.scheduler.plain import PlainCore
from drfh.scheduler.rules import Rules
from tests.scheduler.cores import CHOICES, NUMBERS, History, random_history, run_history
from tests.support.examples import examples

SEEDS = st.integers(0, 2**32 - 1)
CORES: list[Any] = [PlainCore, IndexedCore]


def agree(history: History, steps: int) -> None:
    run_history(history, [PlainCore(history.rules()), IndexedCore(history.rules())], steps)


@settings(max_examples=examples(150))
@given(SEEDS, st.integers(2, 40), st.integers(1, 12))
def test_cores_agree(seed: int, servers: int, users: int) -> None:
    agree(random_history(seed, servers, users), 120)


@settings(max_examples=12)
@given(SEEDS, st.integers(100, 250), st.integers(1, 60))
def test_cores_agree_on_large_clusters(seed: int, servers: int, users: int) -> None:
    agree(random_history(seed, servers, users), 120)


@pytest.mark.parametrize("numbers", NUMBERS)
@pytest.mark.parametrize("choice", ["best-fit", "first-fit"])
def test_an_index_is_right_after_many_changes(choice: str, numbers: str) -> None:
    """Few users and many servers: blocks split and join, and large releases start anew."""
    history = History(7, f"drfh+{choice}", 2, servers=200, users=3, numbers=numbers)
    agree(history, 150)


@pytest.mark.parametrize("choice", ["best-fit", "first-fit", "random", "dot"])
@pytest.mark.parametrize("inside", ["fifo", "backfill"])
def test_a_large_release_lets_those_in_who_wait(choice: str, inside: str) -> None:
    found = []
    for core_class in CORES:
        core = core_class(
            Rules(Policy.parse(f"drfh+{choice}+inside={inside}"), ("r0", "r1"), (1.0,) * 2)
        )
        for _ in range(100):
            core.add_server([4, 4])
        for user in range(2):
            core.add_user(1.0 + user)
            core.submit(user, core.add_shape([4 - user, 1]), 120)
        first = core.place()[0].tolist()
        assert len(first) == 100
        for task in first[10:]:
            core.finish(task)
        found.append([numbers.tolist() for numbers in core.place()])
        assert len(found[-1][0]) == 90
    assert found[0] == found[1]


@given(SEEDS)
@settings(max_examples=20)
def test_long_rounds_go_on_where_they_stopped(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexed, "_MOST_RESULTS", 3)
        agree(random_history(seed, 20, 6), 80)


@pytest.mark.slow
@settings(max_examples=400)
@given(SEEDS, st.integers(2, 60), st.integers(1, 40), st.integers(100, 1500))
def test_cores_agree_in_long_histories(seed: int, servers: int, users: int, steps: int) -> None:
    agree(random_history(seed, servers, users), steps)


@pytest.mark.slow
@settings(max_examples=60)
@given(SEEDS, st.integers(200, 400), st.integers(1, 200), st.integers(100, 500))
def test_cores_agree_on_very_large_clusters(
    seed: int, servers: int, users: int, steps: int
) -> None:
    agree(random_history(seed, servers, users), steps)


# What went wrong once


@pytest.mark.parametrize("core_class", CORES)
def test_a_head_that_comes_forward_when_slots_change(core_class: Any) -> None:
    core = core_class(Rules(Policy.parse("slots:4"), ("cpu",), (1.0,)))
    core.add_server([7])
    core.add_server([16])
    for _ in range(3):
        core.add_user(1.0)
    large, small = core.add_shape([16]), core.add_shape([3])
    leaves = core.adopt(2, large, 1)
    core.adopt(2, small, 0)
    core.submit(1, small)
    assert not core.place()[0].size  # a server of 7 has one slot beside one of 16
    core.submit(0, large)
    waiting = core.submit(0, small)
    core.put_back(leaves)
    core.set_capacity(1, [0])
    # Nothing holds the large one now, a server of 7 has four slots and a small task takes two.
    assert [found.tolist() for found in core.place()] == [[waiting], [0]]


@pytest.mark.parametrize("core_class", CORES)
@pytest.mark.parametrize("choice", CHOICES)
def test_overcommit_takes_what_the_pool_has_nothing_of(choice: str, core_class: Any) -> None:
    core = core_class(
        Rules(Policy.parse(f"slots:4:cpu:overcommit+{choice}"), ("cpu", "gpu"), (1.0,) * 2)
    )
    core.add_server([4, 0])
    core.add_user(1.0)
    core.submit(0, core.add_shape([0, 1]))
    assert [found.tolist() for found in core.place()] == [[0], [0]]


def test_scores_of_a_task_that_needs_nothing_there_is() -> None:
    assert best_fit((0, 0), (1, 1)) == simplex((0, 0), (1, 1)) == np.inf


@pytest.mark.parametrize("core_class", CORES)
def test_tsf_with_a_task_that_would_hardly_run_alone(core_class: Any) -> None:
    core = core_class(Rules(Policy.parse("tsf"), ("cpu", "memory"), (1.0,) * 2))
    core.add_server([2**42, 1])
    core.add_server([1, 2**42])
    core.add_user(1.0)
    task = core.submit(0, core.add_shape([2**41, 2**41]))
    assert core.state(task) == NEVER
    core.adopt(0, 0, 0)
    assert core.level(0) == 8.0


def test_slots_of_servers_too_large_for_a_product() -> None:
    capacity = np.array([[2**50], [2**49], [1]])
    assert Slots(2**16).of_servers(capacity, 0).tolist() == [2**16, 2**15, 0]


def test_own_checks_know_whose_task_it_is() -> None:
    def fits(task: Any, server: Any) -> bool:
        return bool(task.user == "ann" and server.free["cpu"] >= task.demand["cpu"])

    scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]), Policy(fits=fits))
    scheduler.add_user("ann")
    scheduler.add_user("bob")
    scheduler.submit("a", "ann", {"cpu": 3}, count=2)
    scheduler.submit("b", "bob", {"cpu": 3})
    assert scheduler.tasks() == {"a/0": "queued", "a/1": "queued", "b": "never"}
    assert scheduler.why("a/0").text == (
        "a/0 of ann can start when its turn comes: 1 server has room."
    )
    assert [placed.task for placed in scheduler.place()] == ["a/0"]
    assert "takes it on none of the 1 server now" in scheduler.why("a/1").text
    assert Scheduler.restore(scheduler.snapshot(), policy=scheduler.policy).tasks() == {
        "a/0": "running", "a/1": "queued", "b": "never",
    }  # fmt: skip


def test_nothing_is_left_of_a_call_in_which_an_own_check_fails() -> None:
    fails = True

    def fits(task: Any, server: Any) -> bool:
        if fails:
            raise ValueError("not now")
        return True

    def anywhere(server: Any) -> bool:
        return True

    policy = Policy(fits=fits)
    scheduler = Scheduler(Cluster([Server({"cpu": 4}, name="a")]), policy)
    scheduler.add_user("ann")
    scheduler.adopt("r", "ann", {"cpu": 1}, "a")
    before, log = scheduler.snapshot(), list(scheduler.log)
    for call in (
        lambda: scheduler.submit("t", "ann", {"cpu": 2}, servers=anywhere),
        lambda: scheduler.unplace("r"),
        lambda: scheduler.remove_server("a"),
    ):
        with pytest.raises(InputError, match=r"accept everything \(ValueError: not now\)"):
            call()
        assert (scheduler.snapshot(), list(scheduler.log)) == (before, log)
    fails = False
    scheduler.submit("t", "ann", {"cpu": 2}, servers=anywhere)
    before, log = scheduler.snapshot(), list(scheduler.log)
    fails = True
    with pytest.raises(InputError, match="not now"):
        scheduler.update("t", demand={"cpu": 3}, servers=lambda server: True)
    assert (scheduler.snapshot(), list(scheduler.log)) == (before, log)
    fails = False
    scheduler.update("t", servers=lambda server: False)
    assert Scheduler.replay(scheduler.log, policy=policy).status() == scheduler.status()


def test_a_server_that_comes_back_with_other_labels_and_a_check_that_fails() -> None:
    def fits(task: Any, server: Any) -> bool:
        return not 1 / (server.name != "b")  # never on a, so b is asked

    labels = {"zone": "x"}
    cluster = Cluster([Server({"cpu": 4}, name="a", labels=labels), Server({"cpu": 4}, name="b")])
    scheduler = Scheduler(cluster, Policy(fits=fits))
    scheduler.add_user("ann")
    scheduler.submit("t", "ann", {"cpu": 1}, servers=labels)
    scheduler.remove_server("b")
    before, log = scheduler.snapshot(), list(scheduler.log)
    with pytest.raises(InputError, match="ZeroDivisionError"):
        scheduler.add_server("b", {"cpu": 4}, labels=labels)
    assert (scheduler.snapshot(), list(scheduler.log)) == (before, log)


def _by_length(user: Any) -> float:
    return float(len(user.name))


@pytest.mark.parametrize("way", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
@pytest.mark.parametrize(
    ("engine", "policy"),
    [("plain", "mesos"), ("indexed", "mesos"), ("plain", Policy(turn=_by_length))],
)
def test_copies_live_on_their_own(engine: Any, policy: Any, way: Any) -> None:
    def make() -> Scheduler:
        cluster = Cluster([Server({"cpu": 4}, name="a", count=3)])
        scheduler = Scheduler(cluster, policy, engine=engine)
        scheduler.add_user("ann")
        scheduler.submit("t", "ann", {"cpu": 1}, count=5)
        return scheduler

    scheduler = make()
    before = scheduler.snapshot()
    twin = way(scheduler)
    assert twin.snapshot() == before
    twin.add_user("bob")
    twin.submit("k", "bob", {"cpu": 1}, count=3)
    twin.place()
    assert twin.running("bob") == 3
    assert scheduler.snapshot() == before
    placed = scheduler.place()
    assert placed == make().place()
    del scheduler
    twin.finish("k/1")
    assert twin.running("bob") == 2


def test_machine_code_is_made_again_when_any_source_changes() -> None:
    # Numba alone would look at one file; see drfh.kernels.machine_code.
    files = place.place._cache._files  # type: ignore[attr-defined]
    stamp = source_stamp(Path(place.__file__).parent)
    assert [file._source_stamp for file in files] == [stamp] * len(files)


@pytest.mark.parametrize("part", ["turn", "choice", "inside"])
def test_own_functions_must_return_numbers(part: str) -> None:
    scheduler = Scheduler(Cluster([Server({"cpu": 4})]), {part: lambda *_: float("nan")})
    scheduler.add_user("ann")
    scheduler.submit("t", "ann", {"cpu": 1})
    before = scheduler.snapshot()
    with pytest.raises(InputError, match=f"policy.{part} .* must return a number, got nan"):
        scheduler.place()
    assert scheduler.snapshot() == before


def test_a_damaged_snapshot_is_refused() -> None:
    scheduler = Scheduler(Cluster([Server({"cpu": 4})]))
    for name in ("resources", "core", "tasks", "done", "groups", "predicates", "users"):
        with pytest.raises(InputError, match="snapshot"):
            Scheduler.restore({**scheduler.snapshot(), name: "x"})


def test_a_scheduler_shows_what_it_has() -> None:
    scheduler = Scheduler(Cluster([Server({"cpu": 4}, count=2)]))
    scheduler.add_user("ann")
    scheduler.submit("t", "ann", {"cpu": 3}, count=3)
    scheduler.place()
    assert repr(scheduler) == "Scheduler(best-fit-drfh, 2 servers, 1 user, 2 of 3 tasks running)"
    with pytest.raises(InputError, match="printable"):
        scheduler.submit("a\nb", "ann", {"cpu": 1})


def test_a_resource_that_comes_later_is_counted_in_parts() -> None:
    scheduler = Scheduler(Cluster([Server({"cpu": 4, "gpu": 0})]))
    scheduler.add_user("ann")
    scheduler.add_server("g", {"cpu": 4, "gpu": 1.5})
    scheduler.submit("t", "ann", {"gpu": 0.4}, count=4)
    assert len(scheduler.place()) == 3
    assert scheduler.free("g")["gpu"] == 0.3
    with pytest.raises(InputError, match=r"resources\.gpu must be at most 1\.1259e\+12"):
        scheduler.add_server("h", {"gpu": 1e15})
