"""Jobs, server events and workloads: what is accepted, what is refused, and the arrays."""

from __future__ import annotations

import copy
import json
import math
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drfh import (
    AddServers,
    Cluster,
    InputError,
    Job,
    RemoveServers,
    ResizeServer,
    Scenario,
    Server,
    UnknownNameError,
    User,
    Workload,
    allocate,
    audit,
    compare,
    load_scenario,
    save_scenario,
)
from drfh.cli import main
from drfh.model.jobs import ServerEvent, check_events, everything_up

ANN = User("ann", {"cpu": 1, "memory": "1Gi"})
CLUSTER = Cluster([Server({"cpu": 8, "memory": "16Gi"}, name="big", count=2)])
SECONDS = "must be a number of seconds ≥ 0 (infinite for a task that never ends)"


def refusal(act: Callable[[], Any]) -> str:
    with pytest.raises(InputError) as caught:
        act()
    line = str(caught.value)
    assert "\n" not in line
    return line


# --- a user without a demand --------------------------------------------------------------------


def test_a_user_may_have_no_demand() -> None:
    user = User("ann", weight=2)
    assert user.demand == {}
    assert repr(user) == "User('ann', weight=2.0)"
    for twin in (copy.deepcopy(user), pickle.loads(pickle.dumps(user)), replace(user)):
        assert twin == user
    assert replace(user, weight=1) == User("ann")
    with pytest.raises(InputError, match="demand must have at least one amount > 0"):
        User("ann", {})


def test_nothing_is_allocated_to_a_user_without_a_demand() -> None:
    users = [ANN, User("bob")]
    message = (
        "demand of bob must have at least one amount > 0 (with jobs alone it can only be simulated)"
    )
    assert refusal(lambda: allocate(CLUSTER, users)) == message
    assert refusal(lambda: audit(CLUSTER, users)) == message
    assert refusal(lambda: compare(CLUSTER, users)) == message


# --- records ------------------------------------------------------------------------------------


def test_a_job() -> None:
    job = Job(
        ANN,
        demand={"cpu": "500m"},
        duration=np.array([60.0, math.inf]),
        arrival=np.float64(5),
        servers={"zone": "a"},
        name="x",
    )
    assert (job.user, job.duration, job.tasks, job.arrival) == ("ann", (60, math.inf), 2, 5)
    assert job.demand == {"cpu": 0.5}
    assert eval(repr(job), {"Job": Job, "inf": math.inf}) == job
    assert pickle.loads(pickle.dumps(job)) == job
    assert hash(replace(job, name="x")) == hash(job)
    assert eval(repr(Job("ann", duration=0))) == Job("ann", duration=-0.0, tasks=1)
    with pytest.raises(FrozenInstanceError):
        job.tasks = 3  # type: ignore[misc]


BAD_JOBS: list[tuple[dict[str, Any], str]] = [
    ({"user": ""}, "user must be a non-empty string without spaces around it, got ''"),
    ({"name": 3}, "name must be a non-empty string without spaces around it, got 3"),
    ({"demand": {"cpu": 0}}, "demand must have at least one amount > 0 (else its tasks never end)"),
    ({"demand": {}}, "demand must have at least one amount > 0 (else its tasks never end)"),
    ({"demand": {"cpu": "x"}}, "demand.cpu must be a finite number ≥ 0"),
    ({"duration": "10m"}, f"duration {SECONDS}, got '10m'"),
    ({"duration": -1}, f"duration {SECONDS}, got -1"),
    ({"duration": math.nan}, f"duration {SECONDS}, got nan"),
    ({"duration": True}, f"duration {SECONDS}, got True"),
    ({"duration": None}, f"duration {SECONDS}, got None"),
    ({"duration": 10**400}, f"duration {SECONDS}, got 1000"),
    ({"duration": [1, -1]}, f"duration[1] {SECONDS}, got -1"),
    ({"duration": []}, "duration must be one number, or at least one in a list, got []"),
    (
        {"duration": [1, 2], "tasks": 1},
        "duration must be one number, or one for each of 1 tasks, got '2 numbers'",
    ),
    ({"tasks": 0}, "tasks must be a whole number ≥ 1, got 0"),
    ({"tasks": 1.5}, "tasks must be a whole number ≥ 1, got 1.5"),
    ({"tasks": True}, "tasks must be a whole number ≥ 1, got True"),
    ({"arrival": math.inf}, "arrival must be a finite number of seconds ≥ 0, got inf"),
    ({"arrival": -1}, "arrival must be a finite number of seconds ≥ 0, got -1"),
    ({"arrival": "0"}, "arrival must be a finite number of seconds ≥ 0, got '0'"),
    ({"servers": []}, "servers must name servers or labels, or be left out, got []"),
]


@pytest.mark.parametrize(("wrong", "message"), BAD_JOBS)
def test_bad_jobs(wrong: dict[str, Any], message: str) -> None:
    right: dict[str, Any] = {"user": "ann", "duration": 60}
    assert refusal(lambda: Job(**{**right, **wrong})).startswith(message)


def test_events_are_records() -> None:
    events: list[ServerEvent] = [
        AddServers(1, Server({"cpu": 1}, name="new")),
        RemoveServers(2.5, "big/0"),
        ResizeServer(3, "big/1", {"cpu": "500m"}),
    ]
    for event in events:
        assert eval(repr(event)) == event
        assert pickle.loads(pickle.dumps(event)) == event
        assert hash(event) == hash(copy.copy(event))


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: AddServers(-1, Server({"cpu": 1}, name="a")), "time must be a finite number of"),
        (lambda: AddServers(1, Server({"cpu": 1})), "server.name must be given"),
        (lambda: AddServers(1, "big"), "server must be a drfh.Server, got 'big'"),  # type: ignore[arg-type]
        (lambda: RemoveServers(math.inf, "a"), "time must be a finite number of seconds ≥ 0"),
        (lambda: RemoveServers(1, ""), "name must be a non-empty string"),
        (lambda: ResizeServer(1, "a", {}), "resources must have at least one amount > 0 (to have"),
        (lambda: ResizeServer(1, "a", {"cpu": -1}), "resources.cpu must be a finite number ≥ 0"),
    ],
)
def test_bad_events(act: Callable[[], Any], message: str) -> None:
    assert refusal(act).startswith(message)


# --- a workload of records ----------------------------------------------------------------------


def test_the_arrays() -> None:
    workload = Workload(
        [ANN, "bob"],
        [
            Job("bob", demand={"gpu": 1, "cpu": 2}, duration=[5, 6], arrival=9, name="x"),
            Job("ann", duration=60, tasks=3),
            Job("bob", demand={"cpu": 2, "gpu": 1}, duration=7, servers="big"),
            Job("bob", demand={"cpu": 2}, duration=math.inf, name="x", servers=["big"]),
            Job("ann", demand={"cpu": 1, "memory": "1Gi", "gpu": 0}, duration=1),
        ],
        [RemoveServers(9, "b"), RemoveServers(3, "c"), RemoveServers(9, "a")],
    )
    assert workload.resources == ("gpu", "cpu", "memory")
    assert workload.demand.tolist() == [[1, 2, 0], [0, 1, 2**30], [1, 2, 0], [0, 2, 0]]
    assert workload.restrictions == (None, ("big",))
    assert workload.restriction.tolist() == [0, 0, 1, 1]
    assert workload.batch_user.tolist() == [1, 0, 1, 1, 0]
    assert workload.batch_job.tolist() == [0, 1, 2, 0, 3]
    assert workload.batch_arrival.tolist() == [9, 0, 0, 0, 0]
    assert workload.batch_shape.tolist() == [0, 1, 2, 3, 1]
    assert workload.batch_first.tolist() == [0, 2, 5, 6, 7]
    assert workload.batch_count.tolist() == [2, 3, 1, 1, 1]
    assert workload.duration.tolist() == [5, 6, 60, 60, 60, 7, math.inf, 1]
    assert workload.job_names == ("x", "job-2", "job-3", "job-5")
    assert workload.job_user.tolist() == [1, 0, 1, 0]
    assert (workload.job_count, workload.task_count) == (4, 8)
    assert [event.name for event in workload.events] == ["c", "b", "a"]  # type: ignore[union-attr]
    assert repr(workload) == (
        "Workload(2 users, 4 jobs, 8 tasks, 3 server events, arrivals 0 to 9 s)"
    )


def test_a_workload_does_not_change() -> None:
    workload = Workload([ANN], [Job("ann", duration=1)])
    with pytest.raises(FrozenInstanceError):
        workload.users = ()  # type: ignore[misc]
    for name in ("demand", "batch_user", "batch_arrival", "duration", "job_user", "batch_first"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(workload, name)[0] = 7
    assert pickle.loads(pickle.dumps(workload)) == workload
    assert len({workload, copy.copy(workload)}) == 1
    assert workload != Workload([ANN], [Job("ann", duration=2)])
    assert workload != 3


def test_names_of_jobs_do_not_clash() -> None:
    jobs = [Job("ann", duration=1, name=name) for name in ("job-2", None, "job-2-2", "a")]
    assert Workload([ANN], jobs).job_names == ("job-2", "job-2-3", "job-2-2", "a")
    assert Workload([ANN], []).job_names == ()


def test_a_workload_may_be_empty() -> None:
    workload = Workload(["ann"], [])
    assert repr(workload) == "Workload(1 user, 0 jobs, 0 tasks)"
    assert workload.demand.shape == (0, 0)
    assert workload.duration.shape == (0,)
    assert workload == Workload.from_arrays(
        ["ann"], [], np.zeros((0, 0)), user=[], arrival=[], shape=[], duration=[]
    )
    workload.check(CLUSTER)


@pytest.mark.parametrize(
    ("users", "jobs", "message"),
    [
        ([], [], "users must have at least one user"),
        ("ann", [], "users must be a list of drfh.User or of names, got 'ann'"),
        ([3], [], "users[0] must be a drfh.User or a name, got 3"),
        (["ann", ""], [], "users[1].name must be a non-empty string without spaces around it"),
        (["ann", ANN], [], "users[1].name must be unique, got 'ann'"),
        ([ANN], Job("ann", duration=1), "jobs must be a list of drfh.Job, got Job('ann'"),
        ([ANN], [ANN], "jobs[0] must be a drfh.Job, got User('ann'"),
        (
            ["ann", "bob"],
            [Job("anne", demand={"cpu": 1}, duration=1)],
            "jobs[0].user must be one of ann, bob (did you mean ann?), got 'anne'",
        ),
        (
            ["ann"],
            [Job("ann", duration=1)],
            "jobs[0].demand must be given (ann has no demand of its own)",
        ),
        (
            [ANN, User("bob", {"cpu": 1})],
            [Job("ann", duration=1, name="x"), Job("bob", duration=1, name="x")],
            "jobs[1].name must not be that of a job of another user (ann), got 'x'",
        ),
        (
            [ANN],
            [Job("ann", duration=1, tasks=2**52)] * 3000,
            "jobs must have at most 100,000,000 tasks in all, got '13,510,798,882,111,488,000'",
        ),
    ],
)
def test_bad_workloads(users: Any, jobs: Any, message: str) -> None:
    assert refusal(lambda: Workload(users, jobs)).startswith(message)


def test_events_must_be_events() -> None:
    for wrong in (3, "remove", RemoveServers(1, "a")):
        message = refusal(lambda wrong=wrong: Workload([ANN], [], wrong))  # type: ignore[misc]
        assert message.startswith("events must be a list of server events, got ")
    message = refusal(lambda: Workload([ANN], [], [Server({"cpu": 1})]))  # type: ignore[list-item]
    assert message.startswith("events[0] must be a drfh.AddServers, RemoveServers or ResizeServer")


def test_until() -> None:
    jobs = [
        Job("ann", duration=[1, 2], arrival=5, name="late"),
        Job("ann", duration=3, arrival=1),
        Job("ann", duration=4, arrival=9, name="late"),
        Job("ann", duration=5, arrival=2, tasks=2),
    ]
    events = [RemoveServers(7, "big/0")]
    workload = Workload([ANN], jobs, events)
    assert workload.until(9) is workload
    assert workload.until(5) == Workload(
        [ANN], [jobs[0], jobs[1], replace(jobs[3], name="job-4")], events
    )
    early = workload.until(1.5)
    assert early.job_names == ("job-2",)
    assert early.duration.tolist() == [3]
    assert workload.until(0).task_count == 0
    assert refusal(lambda: workload.until("1h")) == "time must be a number of seconds, got '1h'"  # type: ignore[arg-type]


# --- with a cluster -----------------------------------------------------------------------------


def of(demand: dict[str, float], *events: ServerEvent, **more: Any) -> Workload:
    return Workload(["ann"], [Job("ann", demand=demand, duration=1, **more)], events)


def test_check() -> None:
    gpus = AddServers(5, Server({"gpu": 1}, name="gpu", count=2, labels={"kind": "x"}))
    of({"cpu": 99}).check(CLUSTER)  # never runs, which is no mistake
    of({"cpu": 1, "gpu": 0}).check(CLUSTER)
    of({"cpu": 1}, servers={"kind": "none"}).check(CLUSTER)
    for servers in ("big", "big/1", "gpu", "gpu/1", ["gpu/0", {"kind": "x"}]):
        of({"gpu": 1}, gpus, servers=servers).check(CLUSTER)
    of({"gpu": 1}, ResizeServer(1, "big/0", {"gpu": 1})).check(CLUSTER)
    with pytest.raises(UnknownNameError) as caught:
        of({"cpu": 1, "memroy": 1}, name="x").check(CLUSTER)
    assert caught.value.nearest == "memory"
    assert str(caught.value) == (
        "resource demanded by x must be one of cpu, memory (did you mean memory?), got 'memroy'"
    )
    assert refusal(lambda: of({"cpu": 1}, servers="bgi").check(CLUSTER)) == (
        "servers of job-1 must name a server or a group of the cluster (did you mean big?), "
        "got 'bgi'"
    )
    assert refusal(lambda: of({"cpu": 1}, gpus, servers="gpu/2").check(CLUSTER)) == (
        "servers of job-1 must name a server or a group of the cluster (gpu has gpu/0 to gpu/1), "
        "got 'gpu/2'"
    )
    lost = Workload([replace(ANN, servers=["big", "small"])], [])
    assert refusal(lambda: lost.check(CLUSTER)) == (
        "servers of ann must name a server or a group of the cluster, got 'small'"
    )
    assert refusal(lambda: lost.check(3)) == "cluster must be a drfh.Cluster, got 3"  # type: ignore[arg-type]


def test_events_find_their_servers() -> None:
    one = Server({"cpu": 1}, name="one")
    pair = Server({"cpu": 1}, name="pair", count=2)
    check_events(CLUSTER, [])
    check_events(
        CLUSTER,
        [
            RemoveServers(1, "big/0"),
            AddServers(2, Server({"cpu": 1}, name="big/0")),  # it comes back
            ResizeServer(3, "big/0", {"cpu": 2}),
            RemoveServers(4, "big/0"),
            RemoveServers(4, "big/1"),
            AddServers(5, Server({"cpu": 1}, name="big", count=3)),
            RemoveServers(6, "big"),
            AddServers(7, one),
            ResizeServer(8, "one/0", {"cpu": 2}),
            RemoveServers(9, "one"),
            AddServers(9, one),
            AddServers(9, pair),
        ],
    )
    up = "must name a server or group that is up at 5 s"
    wrong: dict[str, list[ServerEvent]] = {
        f"events[1].remove {up}, got 'big/0'": [
            RemoveServers(1, "big/0"),
            RemoveServers(5, "big/0"),
        ],
        f"events[0].remove {up}, got 'one'": [RemoveServers(5, "one"), AddServers(6, one)],
        f"events[0].remove {up} (did you mean big?), got 'bigg'": [RemoveServers(5, "bigg")],
        f"events[0].remove {up} (big has big/0 to big/1), got 'big/x'": [RemoveServers(5, "big/x")],
        "events[0].resize must name a single server that is up at 5 s (big has big/0 to big/1), "
        "got 'big'": [ResizeServer(5, "big", {"cpu": 1})],
        "events[1].add.name must not be the name of a server or group that is up at 6 s, "
        "got 'one'": [AddServers(5, one), AddServers(6, one)],
        "events[0].add.name must not be the name of a server or group that is up at 5 s, "
        "got 'big/1'": [AddServers(5, Server({"cpu": 1}, name="big/1"))],
        "events[1].add.name must not be the name of a server or group that is up at 6 s, "
        "got 'pair'": [AddServers(5, replace(one, name="pair/1")), AddServers(6, pair)],
    }
    for message, events in wrong.items():
        assert refusal(lambda events=events: check_events(CLUSTER, events)) == message  # type: ignore[misc]


def test_everything_that_is_ever_up() -> None:
    added = Server({"cpu": 1}, name="new/1", labels={"zone": "a"})
    events: list[ServerEvent] = [
        AddServers(4, Server({"gpu": 1}, name="new", count=4)),
        AddServers(1, added),
        RemoveServers(2, "new/1"),
        ResizeServer(3, "big/1", {"cpu": 1, "disk": 5}),
        AddServers(9, Server({"cpu": 1}, name="big", count=3, labels={"zone": "b"})),
    ]
    assert [(s.name, s.count, dict(s.resources)) for s in everything_up(CLUSTER, events)] == [
        ("big", 2, {"cpu": 8, "memory": 16 * 2**30, "disk": 5}),
        ("new", 4, {"gpu": 1}),
        ("big from 9 s", 3, {"cpu": 1}),
    ]
    again: list[ServerEvent] = [
        RemoveServers(1, "big"),
        AddServers(2, Server({"cpu": 9}, name="big", count=3)),
    ]
    assert [(s.name, s.count) for s in everything_up(CLUSTER, again)] == [("big", 3)]


# --- a workload of arrays -----------------------------------------------------------------------

demands = st.dictionaries(
    st.sampled_from(["cpu", "memory", "gpu"]), st.sampled_from([0.0, 1.0, 2.5]), min_size=1
).filter(lambda mapping: any(mapping.values()))


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    users = [User("ann", {"cpu": 1}), User("bob"), User("cyd", {"gpu": 1}, servers="big")]
    jobs = []
    for position in range(draw(st.integers(0, 6))):
        user = draw(st.sampled_from(users))
        count = draw(st.integers(1, 3))
        jobs.append(
            Job(
                user,
                demand=draw(demands if not user.demand else st.none() | demands),
                duration=draw(st.lists(st.floats(0), min_size=count, max_size=count)),
                arrival=draw(st.floats(0, 1e9)),
                servers=draw(st.sampled_from([None, "big", {"zone": "a"}])),
                name=f"{user.name} {position}" if draw(st.booleans()) else None,
            )
        )
    return Workload(users, jobs)


@settings(deadline=None)
@given(workloads())
def test_arrays_and_records_are_the_same(workload: Workload) -> None:
    assert workload == Workload.from_arrays(
        workload.users,
        workload.resources,
        workload.demand,
        user=workload.batch_user,
        arrival=workload.batch_arrival,
        shape=workload.batch_shape,
        duration=workload.duration,
        count=workload.batch_count,
        job=workload.batch_job,
        job_names=workload.job_names,
        restrictions=workload.restrictions,
        restriction=workload.restriction,
    )


@settings(deadline=None)
@given(workloads(), st.floats(0, 1e9))
def test_until_is_the_same_for_records_and_arrays(workload: Workload, time: float) -> None:
    short = workload.until(time)
    assert short.batch_arrival.max(initial=0) <= time
    kept = workload.batch_arrival <= time
    assert short.task_count == workload.batch_count[kept].sum()
    assert short.job_names == tuple(
        name
        for job, name in enumerate(workload.job_names)
        if (kept & (workload.batch_job == job)).any()
    )
    assert [short.users[u].name for u in short.job_user] == [
        workload.users[workload.job_user[workload.job_names.index(name)]].name
        for name in short.job_names
    ]


def test_equal_shapes_of_arrays_become_one() -> None:
    workload = Workload.from_arrays(
        ["ann"],
        ["cpu"],
        [[3], [1], [3], [1], [1]],
        user=[0] * 5,
        arrival=[0] * 5,
        shape=[4, 3, 2, 1, 0],
        duration=[1] * 5,
        restrictions=[None, "a", ["a"], {"zone": "b"}],
        restriction=[0, 1, 0, 2, 3],
    )
    assert workload.restrictions == (None, ("a",), ({"zone": ("b",)},))
    assert workload.demand.tolist() == [[3], [1], [1]]
    assert workload.restriction.tolist() == [0, 1, 2]
    assert workload.batch_shape.tolist() == [2, 1, 0, 1, 0]


def test_a_duration_for_each_batch_or_task() -> None:
    right: dict[str, Any] = {"user": [0, 0], "arrival": [0, 1], "shape": [0, 0], "count": [2, 1]}
    build = Workload.from_arrays
    for duration in ([5, 6], [5, 5, 6]):
        workload = build(["ann"], ["cpu"], [[1]], duration=duration, **right)
        assert workload.duration.tolist() == [5, 5, 6]


def test_arrays_are_copied_unless_nobody_can_change_them() -> None:
    arrival = np.array([1.0, 2.0])
    right: dict[str, Any] = {"user": [0, 0], "shape": [0, 0], "duration": [1, 1]}
    workload = Workload.from_arrays(["ann"], ["cpu"], [[1]], arrival=arrival, **right)
    arrival[0] = 7
    assert workload.batch_arrival.tolist() == [1, 2]
    arrival.flags.writeable = False
    workload = Workload.from_arrays(["ann"], ["cpu"], [[1]], arrival=arrival, **right)
    assert workload.batch_arrival is arrival


BAD_ARRAYS: list[tuple[dict[str, Any], str]] = [
    ({"users": []}, "users must have at least one user"),
    ({"resources": "cpu"}, "resources must be a list of names, got 'cpu'"),
    ({"resources": ["cpu", "cpu"]}, "resources[1] must be unique, got 'cpu'"),
    ({"resources": ["cpu", []]}, "resources[1] must be a non-empty string"),
    ({"demand": [[1, "x"]]}, "demand must be an array of numbers"),
    ({"demand": [[1], [1, 2]]}, "demand must be an array of numbers"),
    ({"demand": [1, 2]}, "demand must have shape (shapes, 2 resources), got (2,)"),
    ({"demand": [[1, 1], [1, -1]]}, "demand[1].memory must be a finite number ≥ 0, got -1.0"),
    ({"demand": [[1, math.nan]]}, "demand[0].memory must be a finite number ≥ 0, got nan"),
    ({"demand": [[1, 1], [0, 0]]}, "demand[1] must have at least one amount > 0"),
    ({"demand": np.zeros((0, 2))}, "shape[0] must be the position of a shape (there is none)"),
    ({"user": [0, 1, 2]}, "user[2] must be the position of a user (0 to 1), got 2"),
    ({"user": [0, -1, 0]}, "user[1] must be the position of a user (0 to 1), got -1"),
    ({"user": [0.0, 1, 0]}, "user must be an array of whole numbers, got [0.0, 1, 0]"),
    ({"user": [True, False, True]}, "user must be an array of whole numbers"),
    ({"user": [[0, 1, 0]]}, "user must be an array of whole numbers"),
    ({"user": "ann"}, "user must be an array of whole numbers, got 'ann'"),
    ({"arrival": [0, 1]}, "arrival must have 3 numbers in one dimension, got (2,)"),
    ({"arrival": [0, -1, 2]}, "arrival[1] must be a finite number of seconds ≥ 0, got -1.0"),
    ({"arrival": [0, 1, math.inf]}, "arrival[2] must be a finite number of seconds ≥ 0, got inf"),
    ({"arrival": [math.nan, 1, 2]}, "arrival[0] must be a finite number of seconds ≥ 0, got nan"),
    ({"arrival": ["0", "1", "2"]}, "arrival must be an array of numbers"),
    ({"shape": [0, 0, 9]}, "shape[2] must be the position of a shape (0 to 1), got 9"),
    ({"shape": [0]}, "shape must have 3 entries, got 1"),
    ({"duration": [1, math.nan, 1]}, f"duration[1] {SECONDS}, got nan"),
    ({"duration": [1, -1, 1]}, f"duration[1] {SECONDS}, got -1.0"),
    ({"duration": [1] * 7}, "duration must have 3 or 4 numbers in one dimension, got (7,)"),
    ({"count": [1, 0, 1]}, "count[1] must be a whole number ≥ 1, got 0"),
    ({"count": [1, 2**40, 1]}, "jobs must have at most 100,000,000 tasks in all, got '1,099,511,"),
    ({"job": [0, 2, 0]}, "job must number the jobs from 0 to 2 without gaps, but 1 is missing"),
    ({"job": [0, 9, 0]}, "job must number 3 batches from 0 without gaps, got '10 jobs'"),
    ({"job": [-1, 0, 0]}, "job[0] must be the position of a job (0 to 0), got -1"),
    ({"job": [0, 0, 1]}, "user[0] must be the user of the job's other batches, got 0"),
    ({"job_names": ["a", "b"]}, "job_names must be 3 names, one for each job, got 2"),
    ({"job_names": ["a", "b", "a"]}, "job_names[2] must be unique, got 'a'"),
    ({"job_names": ["a", "b", ""]}, "job_names[2] must be a non-empty string"),
    ({"job_names": 3}, "job_names must be a list of names, got 3"),
    ({"restriction": [0, 1]}, "restriction[1] must be the position of a restriction (0 to 0)"),
    ({"restrictions": ["a"]}, "restrictions[0] must be None, for no restriction, got 'a'"),
    ({"restrictions": []}, "restrictions must be a list that starts with None, got []"),
    ({"restrictions": [None, 3]}, "restrictions[1] must name servers or labels"),
    ({"events": [3]}, "events[0] must be a drfh.AddServers"),
]


@pytest.mark.parametrize(("wrong", "message"), BAD_ARRAYS)
def test_bad_arrays(wrong: dict[str, Any], message: str) -> None:
    right: dict[str, Any] = {
        "users": ["ann", "bob"],
        "resources": ["cpu", "memory"],
        "demand": [[1, 2], [2, 1]],
        "user": [0, 1, 0],
        "arrival": [0, 1, 2],
        "shape": [0, 1, 1],
        "duration": [1, 1, 1],
        "count": [1, 2, 1],
    }
    assert refusal(lambda: Workload.from_arrays(**{**right, **wrong})).startswith(message)


def test_a_million_batches() -> None:
    size = 1_000_000
    rng = np.random.default_rng(1)
    workload = Workload.from_arrays(
        [f"user-{u}" for u in range(100)],
        ["cpu", "memory"],
        rng.random((1000, 2)) + 0.1,
        user=rng.integers(0, 100, size),
        arrival=rng.random(size) * 86_400,
        shape=rng.integers(0, 1000, size, dtype=np.int32),
        duration=rng.random(size, dtype=np.float32),
    )
    assert workload.task_count == workload.job_count == size
    assert workload.batch_shape.dtype == np.int64
    assert workload.duration.dtype == np.float64
    workload.check(CLUSTER)
    half = workload.until(43_200)
    assert 0.49 < half.task_count / size < 0.51
    first = int(np.flatnonzero(workload.batch_arrival <= 43_200)[0])
    assert half.job_name(0) == f"job-{first + 1}"
    assert "job_names" not in half.__dict__  # a million strings that nobody asked for
    assert half.job_names[0] == half.job_name(0)


# --- shipped workloads --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["paper-dynamic", "gpu-day"])
def test_shipped_workloads(name: str) -> None:
    scenario: Scenario = load_scenario(name)
    scenario.workload.check(scenario.cluster)
    assert allocate(scenario.cluster, scenario.users).tasks


def test_the_dynamic_experiment_is_that_of_the_paper() -> None:
    workload = load_scenario("paper-dynamic").workload
    assert workload.batch_arrival.tolist() == [0, 200, 500]
    assert workload.demand.tolist() == [[0.2, 0.3], [0.5, 0.1], [0.1, 0.3]]
    # Under Best-Fit 106 tasks of user 1 run at once, 75 beside user 2, and 49 beside both.
    waves = [10 * [106], 15 * [75], 29 * [49]]
    assert workload.batch_count[0] == sum(map(sum, waves))
    assert workload.duration[0] * sum(map(len, waves)) == 1080


def test_check_says_what_is_in_a_workload(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenario", "check", "gpu-day", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["jobs"], facts["tasks"], facts["events"]) == (9, 432, 4)
    assert main(["scenario", "check", "gpu-day"]) == 0
    line = "9 jobs, 432 tasks, 4 server events, arrivals 0 to 68,400 s\n"
    assert line in capsys.readouterr().out


def test_many_jobs_in_a_file(tmp_path: Path) -> None:
    jobs = tuple(Job("ann", duration=60, arrival=i) for i in range(5_000))
    save_scenario(Scenario(CLUSTER, (ANN,), jobs=jobs), tmp_path / "a.yaml")
    assert load_scenario(tmp_path / "a.yaml", strict=True).jobs == jobs


def test_audits_do_not_look_at_jobs() -> None:
    scenario = load_scenario("gpu-day")
    report = audit(scenario, properties=["population-monotone", "consistent"], tries=20)
    shown = [finding.counterexample for finding in report.findings]
    assert all(case is None or not case.scenario.jobs for case in shown)
