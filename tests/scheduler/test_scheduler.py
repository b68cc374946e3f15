"""The public scheduler: nothing lost, nothing run twice, errors that change nothing."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drfh import Cluster, InputError, Scheduler, Server, UnknownNameError, User, audit
from drfh.auditor.observed import read_observed, save_observed
from drfh.policies import Policy
from tests.support.examples import examples

USERS = ("ann", "bob", "cid")
SERVERS = ("big/0", "big/1", "small/0", "small/1", "lone")
SIZES: tuple[dict[str, float], ...] = (
    {"cpu": 8, "memory": 32},
    {"cpu": 4, "memory": 8},
    {"cpu": 2},
)
DEMANDS: tuple[dict[str, float], ...] = (
    {"cpu": 1, "memory": 1},
    {"cpu": 3, "memory": 4},
    {"memory": 6},
    {"cpu": 0.1, "memory": 20},
    {"cpu": 50},
)
LIMITS: tuple[Any, ...] = (None, "big", ["small", "lone"], {"zone": "a"})
POLICIES = (
    "best-fit-drfh", "first-fit-drfh", "mesos", "fifo", "slots:4", "slots:4:overcommit",
    "drfh+cosine+backfill", "tsf+best-fit", "asset+best-fit", "max-min:cpu+tightest",
    "hdrf+best-fit",
)  # fmt: skip
CALLS = (
    "submit", "job", "place", "place", "finish", "finish", "cancel", "unplace", "adopt", "update",
    "weight", "add", "remove", "resize", "leave", "join",
)  # fmt: skip


def pool() -> Cluster:
    return Cluster(
        [
            Server(SIZES[0], name="big", count=2, labels={"zone": "a"}),
            Server(SIZES[1], name="small", count=2, labels={"zone": "b"}),
            Server(SIZES[2], name="lone"),
        ]
    )


def plain(scheduler: Scheduler) -> Any:
    """Return the whole state after a journey through JSON."""
    return json.loads(json.dumps(scheduler.snapshot()))


def started(policy: str | Policy = "best-fit-drfh", **options: Any) -> Scheduler:
    scheduler = Scheduler(pool(), policy, groups={"team": {"weight": 2}}, **options)
    scheduler.add_user("ann")
    scheduler.add_user("bob", 2, servers={"zone": ["a", "b"]}, parent="team")
    scheduler.add_user("cid", parent="team")
    return scheduler


class Driver:
    """Makes calls by numbers, and knows from them alone what must be true."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.count = 0
        self.state: dict[str, str] = {}
        self.evictions = 0

    def some(self, state: tuple[str, ...], pick: int) -> str | None:
        found = [name for name, known in self.state.items() if known in state]
        return found[pick % len(found)] if found else None

    def call(self, call: str, pick: int) -> None:
        s = self.scheduler
        users = s.users
        user = users[pick % len(users)] if users else None
        demand, limit = DEMANDS[pick % 5], LIMITS[pick // 5 % 4]
        if call in ("submit", "job") and user is not None:
            self.count += 1
            count = 1 if call == "submit" else 2 + pick % 5
            names = s.submit(f"t{self.count}", user, demand, count=count, servers=limit)
            self.state.update(dict.fromkeys(names, "waits"))
        elif call == "adopt" and user is not None and s.servers:
            self.count += 1
            s.adopt(f"t{self.count}", user, demand, s.servers[pick % len(s.servers)])
            self.state[f"t{self.count}"] = "running"
        elif call == "place":
            for placed in s.place(None if pick % 3 else pick % 7):
                assert self.state[placed.task] == "waits"
                assert s.where(placed.task) == placed.server
                self.state[placed.task] = "running"
        elif call == "finish" and (task := self.some(("running",), pick)):
            s.finish(task)
            self.state[task] = "done"
        elif call == "cancel" and (task := self.some(("running", "waits"), pick)):
            s.cancel(task)
            self.state[task] = "cancelled"
        elif call == "unplace" and (task := self.some(("running",), pick)):
            s.unplace(task)
            self.state[task] = "waits"
        elif call == "update" and (task := self.some(("waits",), pick)):
            s.update(task, demand=demand) if pick % 2 else s.update(task, servers=limit)
        elif call == "weight" and user is not None:
            s.set_weight(user, 1 + pick % 4)
        elif call == "add":
            name = (*SERVERS, "big/2", "new")[pick % 7]
            if name not in s.servers:
                s.add_server(name, SIZES[pick % 3], {"zone": "ab"[pick % 2]})
        elif call in ("remove", "resize") and s.servers:
            name = s.servers[pick % len(s.servers)]
            ran = {t for t, state in self.state.items() if state == "running"}
            on = {task for task in ran if s.where(task) == name}
            back = (
                s.remove_server(name)
                if call == "remove"
                else s.resize_server(name, SIZES[pick // 7 % 3])
            )
            assert set(back) <= on
            assert call == "resize" or set(back) == on
            self.state.update(dict.fromkeys(back, "waits"))
            self.evictions += len(back)
        elif call == "leave" and user is not None and pick % 3 == 0:
            for task in s.remove_user(user, cancel=True):
                self.state[task] = "cancelled"
        elif call == "join" and (gone := [name for name in USERS if name not in users]):
            s.add_user(gone[0], servers=LIMITS[pick % 4])

    def check(self) -> None:
        s = self.scheduler
        for task, known in self.state.items():
            state = s.state(task)
            assert ("waits" if state in ("queued", "never") else state) == known
            assert (s.where(task) is not None) == (known == "running")
        running = sum(known == "running" for known in self.state.values())
        status = s.status()
        assert sum(server["running"] for server in status["servers"].values()) == running
        assert s.evictions == status["evictions"] == self.evictions
        assert set(s.tasks()) == {t for t, k in self.state.items() if k in ("waits", "running")}


STEPS = st.lists(st.tuples(st.sampled_from(CALLS), st.integers(0, 10_000)), max_size=40)


@settings(max_examples=examples(120), deadline=None)
@given(STEPS, st.sampled_from(POLICIES), STEPS)
def test_random_calls(
    before: list[tuple[str, int]], policy: str, after: list[tuple[str, int]]
) -> None:
    scheduler = started(policy, seed=7)
    driver = Driver(scheduler)
    for step in before:
        driver.call(*step)
    driver.check()
    twins = [
        Scheduler.restore(plain(scheduler)),
        Scheduler.replay(json.loads(json.dumps(list(scheduler.log)))),
    ]
    for twin in twins:
        assert plain(twin) == plain(scheduler)
        assert twin.status() == scheduler.status()
        shadow = Driver(twin)
        shadow.count, shadow.evictions = driver.count, driver.evictions
        shadow.state = dict(driver.state)
        for step in after:
            shadow.call(*step)
        shadow.check()
    for step in after:
        driver.call(*step)
    for twin in twins:
        assert plain(twin) == plain(scheduler)
    again = Scheduler.replay(twins[0].log)  # its log starts with the snapshot
    assert plain(again) == plain(scheduler)
    for task in driver.state:
        why = scheduler.why(task)
        assert why.text.endswith(".")
        json.dumps(why.to_dict())
        assert (why.state == "waiting") == (scheduler.state(task) == "queued")


@settings(max_examples=60, deadline=None)
@given(STEPS, st.sampled_from(POLICIES[:-1]), STEPS)
def test_both_engines_decide_and_explain_alike(
    before: list[tuple[str, int]], policy: str, after: list[tuple[str, int]]
) -> None:
    drivers = [Driver(started(policy, seed=7, engine=engine)) for engine in ("plain", "indexed")]
    for driver in drivers:
        for step in before:
            driver.call(*step)
        driver.check()
    first, second = drivers
    # Each goes on from the snapshot of the other.
    twins = [
        Scheduler.restore(plain(first.scheduler), engine="indexed"),
        Scheduler.restore(plain(second.scheduler), engine="plain"),
    ]
    for twin in twins:
        shadow = Driver(twin)
        shadow.count, shadow.evictions = first.count, first.evictions
        shadow.state = dict(first.state)
        drivers.append(shadow)
    for driver in drivers:
        for step in after:
            driver.call(*step)
        assert driver.state == first.state
        assert driver.scheduler.status() == first.scheduler.status()
        for task in driver.state:
            assert driver.scheduler.why(task) == first.scheduler.why(task)
    again = Scheduler.replay(first.scheduler.log, engine="indexed")
    assert again.status() == first.scheduler.status()


def test_large_clusters_get_the_index() -> None:
    servers = [Server({"cpu": 4, "memory": 8}, name="a", count=65)]
    scheduler = Scheduler(Cluster(servers))
    assert (scheduler.engine, scheduler.place()) == ("indexed", [])
    assert scheduler.status()["users"] == {}
    scheduler.add_user("ann", parent="team")  # groups are of no interest to this policy
    scheduler.submit("t", "ann", {"cpu": 3}, count=70)
    assert [placed.server for placed in scheduler.place()] == list(scheduler.servers)
    assert Scheduler.restore(plain(scheduler)).status() == scheduler.status()
    assert Scheduler(Cluster(servers), "hdrf").engine == "plain"
    assert Scheduler(Cluster(servers), {"choice": most_free}).engine == "plain"


@settings(max_examples=examples(100), deadline=None)
@given(STEPS)
def test_no_server_overfilled_and_no_room_left(steps: list[tuple[str, int]]) -> None:
    scheduler = started()
    driver = Driver(scheduler)
    for step in steps:
        if step[0] != "adopt":
            driver.call(*step)
    driver.call("place", 1)
    for server in scheduler.servers:
        assert min(scheduler.free(server).values()) >= 0
    # Work conserving: the task at the head of each queue fits nowhere.
    for user in scheduler.users:
        queue = [t for t, state in scheduler.tasks(user).items() if state == "queued"]
        if queue:
            why = scheduler.why(queue[0])
            assert why.earlier == 0
            assert why.missing
            assert all(missing.lacks for missing in why.missing)


WRONG: dict[str, tuple[Callable[[Scheduler], Any], str]] = {
    "user twice": (lambda s: s.add_user("ann"), "user must be new, got 'ann'"),
    "user without a name": (lambda s: s.add_user(" "), "user must be a non-empty string"),
    "negative weight": (lambda s: s.add_user("eve", -1), "weight must be a number > 0"),
    "weight not a number": (lambda s: s.set_weight("ann", math.nan), "weight must be a number > 0"),
    "weight zero": (lambda s: s.set_weight("ann", 0), "weight must be > 0, got 0"),
    "unknown user": (lambda s: s.set_weight("anne", 1), r"did you mean ann\?\), got 'anne'"),
    "user not a name": (lambda s: s.level([]), "user must be one of"),  # type: ignore[arg-type]
    "unknown restriction": (lambda s: s.add_user("eve", servers="bigg"), "did you mean big"),
    "bad predicate": (lambda s: s.add_user("e", servers=lambda x: 1 / 0 > 0), "must accept every"),
    "user with tasks": (lambda s: s.remove_user("ann"), r"no running tasks .*1 runs\), got 'ann'"),
    "negative demand": (lambda s: s.submit("x", "ann", {"cpu": -1}), "demand.cpu must be a finite"),
    "demand not a number": (lambda s: s.submit("x", "ann", {"cpu": math.nan}), "must be a finite"),
    "no demand": (lambda s: s.submit("x", "ann", {"cpu": 0}), "at least one amount > 0"),
    "demand true": (lambda s: s.submit("x", "ann", {"cpu": True}), "must be a finite number"),
    "demand a list": (lambda s: s.submit("x", "ann", {"cpu": []}), "must be a finite"),  # type: ignore[dict-item]
    "unknown resource": (lambda s: s.submit("x", "ann", {"cpus": 1}), r"did you mean cpu\?"),
    "tiny demand": (lambda s: s.submit("x", "ann", {"cpu": 1e-300}), "must be 0 or at least"),
    "submit for nobody": (lambda s: s.submit("x", "eve", {"cpu": 1}), "user must be one of"),
    "submit twice": (lambda s: s.submit("run", "ann", {"cpu": 1}), "never used, got 'run'"),
    "submit after done": (lambda s: s.submit("done", "ann", {"cpu": 1}), "never used"),
    "job over a task": (lambda s: s.submit("job", "ann", {"cpu": 1}, count=9), "got 'job/0'"),
    "count zero": (lambda s: s.submit("x", "ann", {"cpu": 1}, count=0), "count must be a whole"),
    "count half": (lambda s: s.submit("x", "ann", {"cpu": 1}, count=1.5), "whole"),  # type: ignore[arg-type]
    "count true": (lambda s: s.submit("x", "ann", {"cpu": 1}, count=True), "count must be"),
    "task without a name": (lambda s: s.submit("", "ann", {"cpu": 1}), "task must be a non-empty"),
    "bad task limit": (lambda s: s.submit("x", "ann", {"cpu": 1}, servers=[]), "servers must name"),
    "resource of another kind": (
        lambda s: s.submit("x", "ann", {"gpu": 1}),
        r"resource of demand must be one of cpu, memory, got 'gpu'",
    ),
    "a demand of nothing": (lambda s: s.submit("x", "ann", {}), "any number of such tasks"),
    "a list of tasks": (lambda s: s.finish(*[["run"]]), r"must be a name \(unpack .*: \*tasks\)"),  # type: ignore[arg-type]
    "unknown task": (lambda s: s.finish("rum"), r"did you mean run\?"),
    "task not a name": (lambda s: s.state(None), "task must be one of"),  # type: ignore[arg-type]
    "finish twice": (lambda s: s.finish("done"), r"running \(it is done\), got 'done'"),
    "finish one twice": (lambda s: s.finish("run", "run"), "must be named once, got 'run'"),
    "finish queued": (lambda s: s.finish("run", "job/1"), r"running \(it is queued\), got 'job/1'"),
    "finish never": (lambda s: s.finish("large"), r"running \(it is never\)"),
    "cancel twice": (lambda s: s.cancel("run", "gone"), r"it is cancelled\), got 'gone'"),
    "unplace queued": (lambda s: s.unplace("job/1"), "must be running"),
    "update running": (lambda s: s.update("run", demand={"cpu": 1}), r"queued \(it is running\)"),
    "update badly": (lambda s: s.update("job/1", demand={"cpu": -1}), "must be a finite"),
    "update to nowhere": (lambda s: s.update("job/1", servers="x"), "servers of job/1 must be one"),
    "why of nothing": (lambda s: s.why("x"), "task must be one of"),
    "adopt on nothing": (lambda s: s.adopt("x", "ann", {"cpu": 1}, "bug/0"), r"big/0\?"),
    "adopt on removed": (lambda s: s.adopt("x", "ann", {"cpu": 1}, "lone"), "it was removed"),
    "adopt twice": (lambda s: s.adopt("run", "ann", {"cpu": 1}, "big/0"), "never used"),
    "server twice": (lambda s: s.add_server("big/0", {"cpu": 1}), "server must be new"),
    "server as group": (lambda s: s.add_server("big", {"cpu": 1}), "name of a group"),
    "server of nothing": (lambda s: s.add_server("x", {"cpu": 0}), "at least one amount > 0"),
    "server of gold": (lambda s: s.add_server("x", {"gold": 1}), "resource of resources must be"),
    "server too large": (lambda s: s.add_server("x", {"cpu": 1e30}), "must be at most"),
    "server with odd labels": (lambda s: s.add_server("x", {"cpu": 1}, 3), "labels must"),  # type: ignore[arg-type]
    "remove twice": (lambda s: s.remove_server("lone"), r"up \(it was removed\), got 'lone'"),
    "remove unknown": (lambda s: s.remove_server("big"), "server must be one of"),
    "resize to less than 0": (lambda s: s.resize_server("big/0", {"cpu": -1}), "must be a finite"),
    "resize removed": (lambda s: s.resize_server("lone", {"cpu": 1}), "it was removed"),
    "negative limit": (lambda s: s.place(-1), "limit must be a whole number"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=WRONG)
def test_an_error_changes_nothing(wrong: str) -> None:
    scheduler = started()
    scheduler.remove_server("lone")
    scheduler.submit("done", "ann", {"cpu": 1})
    scheduler.place()
    scheduler.finish("done")
    scheduler.submit("run", "ann", {"cpu": 1})
    scheduler.place()
    scheduler.submit("gone", "bob", {"cpu": 1})
    scheduler.cancel("gone")
    scheduler.submit("large", "bob", {"cpu": 99})
    scheduler.submit("job", "bob", {"cpu": 1}, count=2)
    before, status, log = plain(scheduler), scheduler.status(), json.dumps(list(scheduler.log))
    call, message = WRONG[wrong]
    with pytest.raises(InputError, match=message):
        call(scheduler)
    assert plain(scheduler) == before
    assert scheduler.status() == status
    assert json.dumps(list(scheduler.log)) == log


def test_total_has_a_limit() -> None:
    scheduler = Scheduler(Cluster([Server({"cpu": 1}, name="a")]))
    largest = 2**50 * scheduler.snapshot()["units"][0] * 0.99
    for number in range(4):
        scheduler.add_server(f"x/{number}", {"cpu": largest})
    with pytest.raises(InputError, match="total of cpu must be at most"):
        scheduler.add_server("y", {"cpu": largest})
    assert "y" not in scheduler.servers
    with pytest.raises(InputError, match="total of cpu must be at most"):
        scheduler.resize_server("a", {"cpu": largest})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"policy": "best-fit-drff"}, r"did you mean best-fit-drfh\?"),
        ({"policy": {"choise": "cosine"}}, r"did you mean choice\?"),
        ({"engine": "fast"}, "engine must be one of"),
        ({"engine": "indexed", "policy": "hdrf+best-fit"}, "must be plain or auto"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"seed": 0.5}, "seed must be a whole number"),
        ({"groups": ["a"]}, "groups must map"),
        ({"groups": {"a": 1}}, "groups.a must have"),
        ({"groups": {"a": {"wight": 1}}}, r"did you mean weight\?"),
        ({"groups": {"a": {"weight": 0}}}, "groups.a.weight must be > 0"),
        ({"groups": {"a": {"parent": "b"}, "b": {"parent": "a"}}}, "must not be above itself"),
        ({"policy": "max-min:gold"}, "resource of max-min must be one of"),
    ],
)
def test_wrong_start(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Scheduler(pool(), **options)


def test_cluster_must_be_one() -> None:
    with pytest.raises(InputError, match=r"cluster must be a drfh\.Cluster"):
        Scheduler([Server({"cpu": 1})])  # type: ignore[arg-type]


def test_returned_tasks_stand_in_front_in_submission_order() -> None:
    scheduler = Scheduler(Cluster([Server({"cpu": 3}, name="a"), Server({"cpu": 3}, name="b")]))
    scheduler.add_user("ann")
    scheduler.submit("t", "ann", {"cpu": 1}, count=8)
    where = {placed.task: placed.server for placed in scheduler.place()}
    on_a = [task for task, server in where.items() if server == "a"]
    assert scheduler.remove_server("a") == on_a
    scheduler.unplace(next(task for task, server in where.items() if server == "b"))
    queue = [task for task, state in scheduler.tasks("ann").items() if state == "queued"]
    assert queue[:4] == sorted(queue[:4])
    assert queue[4:] == ["t/6", "t/7"]
    assert scheduler.evictions == 3
    assert scheduler.status()["users"]["ann"]["evictions"] == 3
    assert [scheduler.evictions_of(task) for task in on_a] == [1, 1, 1]
    assert scheduler.evictions_of("t/7") == 0
    assert scheduler.place(1)[0].task == queue[0]


def test_resize_evicts_the_newest_until_the_rest_fits() -> None:
    scheduler = Scheduler(Cluster([Server({"cpu": 6}, name="a")]))
    scheduler.add_user("ann")
    scheduler.submit("t", "ann", {"cpu": 2}, count=3)
    scheduler.place()
    assert scheduler.resize_server("a", {"cpu": 9}) == []
    assert scheduler.resize_server("a", {"cpu": 3}) == ["t/2", "t/1"]
    assert scheduler.free("a") == {"cpu": 1.0}
    assert scheduler.share("ann") == 2 / 3


def test_growing_an_overfilled_server_evicts_nobody() -> None:
    scheduler = Scheduler(Cluster([Server({"cpu": 2}, name="a")]))
    scheduler.add_user("ann")
    scheduler.adopt("t", "ann", {"cpu": 9}, "a")
    assert scheduler.resize_server("a", {"cpu": 4}) == []
    assert scheduler.free("a") == {"cpu": -5.0}
    assert scheduler.share("ann") == 9 / 4
    assert scheduler.resize_server("a", {"cpu": 3}) == ["t"]
    assert scheduler.state("t") == "never"
    scheduler.add_server("b", {"cpu": 9})
    assert [placed.server for placed in scheduler.place()] == ["b"]


def test_a_task_too_large_blocks_nobody() -> None:
    scheduler = started("fifo")
    scheduler.submit("large", "ann", {"cpu": 99})
    scheduler.submit("next", "ann", {"cpu": 1})
    assert [placed.task for placed in scheduler.place()] == ["next"]
    assert scheduler.status()["users"]["ann"]["never"] == 1
    assert (scheduler.queued("ann"), scheduler.running("ann")) == (0, 1)
    scheduler.update("large", demand={"cpu": 2})
    assert [placed.task for placed in scheduler.place()] == ["large"]


def test_restrictions_of_user_and_task_both_hold() -> None:
    scheduler = Scheduler(pool())
    scheduler.add_user("ann", servers=["big", "lone"])
    scheduler.add_user("bob", servers=lambda server: server.resources["cpu"] < 8)
    scheduler.submit("a", "ann", {"cpu": 1}, servers=["small", "lone"])
    scheduler.submit("b", "bob", {"cpu": 1}, servers={"zone": ["a", "b"]})
    scheduler.submit("c", "bob", {"cpu": 1}, servers="big/1")
    where = {placed.task: placed.server for placed in scheduler.place()}
    assert where["a"] == "lone"
    assert where["b"].startswith("small/")
    assert scheduler.state("c") == "never"
    scheduler.update("c", servers=None)
    assert scheduler.place()[0].server in ("small/0", "small/1", "lone")


def test_a_server_that_comes_back_with_other_labels() -> None:
    scheduler = Scheduler(pool())
    scheduler.add_user("ann", servers={"zone": "a"})
    scheduler.submit("t", "ann", {"cpu": 8}, count=4)
    assert [placed.server for placed in scheduler.place()] == ["big/0", "big/1"]
    assert scheduler.remove_server("big/0") == ["t/0"]
    scheduler.finish("t/1")
    scheduler.add_server("big/0", {"cpu": 8}, labels={"zone": "c"})
    assert [placed.server for placed in scheduler.place()] == ["big/1"]
    scheduler.remove_server("big/0")
    scheduler.add_server("big/0", {"cpu": 8}, labels={"zone": "a"})
    assert scheduler.servers[0] == "big/0"
    assert [(p.task, p.server) for p in scheduler.place()] == [("t/2", "big/0")]
    assert plain(Scheduler.replay(scheduler.log)) == plain(scheduler)


def test_predicates_are_replayed_by_their_answers() -> None:
    scheduler = Scheduler(pool())
    scheduler.add_user("ann", servers=lambda server: server.labels.get("zone") == "z")
    scheduler.submit("t", "ann", {"cpu": 1}, count=2)
    assert scheduler.state("t/0") == "never"
    scheduler.add_server("new", {"cpu": 1}, {"zone": "z"})
    assert [placed.server for placed in scheduler.place()] == ["new"]
    log = json.loads(json.dumps(list(scheduler.log)))
    assert plain(Scheduler.replay(log)) == plain(scheduler)
    twin = Scheduler.restore(plain(scheduler))
    for one in (scheduler, twin):  # it comes back: what the predicate said holds on
        one.remove_server("new")
        one.add_server("new", {"cpu": 1}, {"zone": "z"})
    assert twin.place() == scheduler.place() != []


def test_weights_while_running() -> None:
    scheduler = Scheduler(Cluster([Server({"cpu": 12}, name="a")]))
    scheduler.add_user("ann")
    scheduler.add_user("bob")
    for user in ("ann", "bob"):
        scheduler.submit(user, user, {"cpu": 1}, count=20)
    scheduler.place(4)
    assert (scheduler.running("ann"), scheduler.running("bob")) == (2, 2)
    scheduler.set_weight("bob", 3)
    scheduler.place()
    assert (scheduler.running("ann"), scheduler.running("bob")) == (3, 9)
    assert scheduler.level("ann") == scheduler.level("bob") == 0.25


def test_users_who_leave_and_come_back() -> None:
    scheduler = started()
    scheduler.submit("q", "cid", {"cpu": 1})
    assert scheduler.remove_user("cid") == ["q"]
    assert scheduler.state("q") == "cancelled"
    with pytest.raises(UnknownNameError):
        scheduler.submit("r", "cid", {"cpu": 1})
    scheduler.add_user("cid", weight=3)
    scheduler.submit("r", "cid", {"cpu": 1})
    assert scheduler.users == ("ann", "bob", "cid")
    assert Scheduler.restore(plain(scheduler)).place() == scheduler.place() != []


def test_without_a_log() -> None:
    scheduler = started(log=False)
    scheduler.submit("t", "ann", {"cpu": 1})
    scheduler.place()
    assert len(scheduler.log) == 0


def test_wrong_logs_and_snapshots() -> None:
    scheduler = started("drfh+random")
    scheduler.submit("t", "ann", {"cpu": 1})
    scheduler.place()
    log = plain_log = json.loads(json.dumps(list(scheduler.log)))
    with pytest.raises(InputError, match=r"log\[5\].place must start 7 tasks, as when .* got 1"):
        Scheduler.replay([*log[:5], {"call": "place", "placed": 7}])
    with pytest.raises(InputError, match=r"log\[1\].call must be one of"):
        Scheduler.replay([log[0], {"call": "sumbit"}])
    with pytest.raises(InputError, match=r"log\[1\] must be a record of finish"):
        Scheduler.replay([log[0], {"call": "finish"}])
    with pytest.raises(InputError, match=r"log\[0\].call must be one of"):
        Scheduler.replay(plain_log[1:])
    with pytest.raises(InputError, match="log must be a list"):
        Scheduler.replay([])
    with pytest.raises(InputError, match=r"log\[0\].policy must be that of the log, .*simulate"):
        Scheduler.replay(log, policy="fifo")
    with pytest.raises(InputError, match="snapshot must be what"):
        Scheduler.restore({})
    broken = plain(scheduler)
    del broken["core"]["order"]
    with pytest.raises(InputError, match=r"snapshot.core must have .*order"):
        Scheduler.restore(broken)
    broken = plain(scheduler)
    del broken["users"]
    with pytest.raises(InputError, match=r"snapshot\.users must be a list"):
        Scheduler.restore(broken)


def most_free(task: Any, server: Any) -> float:
    return -float(server.free["cpu"])


def test_own_functions_are_given_again() -> None:
    policy = Policy(choice=most_free)
    scheduler = started(policy)
    scheduler.submit("t", "ann", {"cpu": 1}, count=3)
    scheduler.place(2)
    with pytest.raises(InputError, match=r"must be given again: .*most_free"):
        Scheduler.restore(plain(scheduler))
    with pytest.raises(InputError, match=r"must be given again: .*most_free"):
        Scheduler.replay(scheduler.log)
    twins = [
        Scheduler.restore(plain(scheduler), policy=policy),
        Scheduler.replay(scheduler.log, policy=policy),
    ]
    placed = scheduler.place()
    assert [twin.place() for twin in twins] == [placed, placed]


def test_own_functions_that_fail_change_nothing() -> None:
    calls = 0

    def choice(task: Any, server: Any) -> float:
        nonlocal calls
        calls += 1
        return 1 / (8 - calls)

    scheduler = started(Policy(choice=choice))
    scheduler.submit("t", "ann", {"cpu": 1}, count=9)
    scheduler.submit("c", "cid", {"cpu": 1})
    scheduler.cancel("c")
    before = plain(scheduler)
    with pytest.raises(InputError, match=r"accept everything \(ZeroDivisionError"):
        scheduler.place()
    assert plain(scheduler) == before
    assert len(scheduler.place()) == 9

    def fits(task: Any, server: Any) -> bool:
        return bool(1 / server.capacity["memory"]) and server.free["cpu"] >= task.demand["cpu"]

    roomy = Cluster([Server({"cpu": 1, "memory": 1}, name="a")])
    scheduler = Scheduler(roomy, Policy(fits=fits))
    scheduler.add_user("ann")
    scheduler.submit("t", "ann", {"cpu": 1}, count=2)
    scheduler.submit("large", "ann", {"cpu": 2})
    before, log = plain(scheduler), list(scheduler.log)
    with pytest.raises(InputError, match="ZeroDivisionError"):
        scheduler.add_server("b", {"cpu": 1})
    assert (plain(scheduler), list(scheduler.log)) == (before, log)
    assert scheduler.servers == ("a",)
    scheduler.place()
    assert "the policy's own check takes it on none of the 1 server" in scheduler.why("t/1").text


# What why() says


def test_why_waiting() -> None:
    scheduler = Scheduler(pool())
    scheduler.add_user("ann")
    scheduler.add_user("bob")
    scheduler.submit("a", "ann", {"cpu": 4, "memory": 16}, count=9)
    assert scheduler.why("a/1").text == (
        "a/1 of ann can start when its turn comes: 2 servers have room. "
        "1 earlier task of ann goes first."
    )
    scheduler.place()
    scheduler.submit("b", "bob", {"cpu": 3, "memory": 16})
    why = scheduler.why("a/5")
    assert why.text == (
        "a/5 of ann waits: it needs 4 cpu and 16 memory; the 2 big servers have at most 0 cpu and "
        "0 memory free; 3 servers are too small. 1 earlier task of ann goes first. "
        "bob (lower dominant share 0 < 0.8) goes before ann."
    )
    assert (why.state, why.user, why.earlier) == ("waiting", "ann", 1)
    assert [(m.group, m.servers, m.too_small) for m in why.missing] == [
        ("big", 2, False),
        ("small", 2, True),
        ("lone", 1, True),
    ]
    assert why.to_dict()["ahead"] == [
        {
            "user": "bob",
            "level": 0.0,
            "own_level": 0.8,
            "reason": "lower dominant share 0 < 0.8",
        }
    ]


def test_why_restricted_and_together() -> None:
    scheduler = Scheduler(Cluster([Server({"cpu": 4, "memory": 4}, name="a", count=2)]))
    scheduler.add_user("ann", weight=2)
    scheduler.adopt("x", "ann", {"cpu": 3}, "a/0")
    scheduler.adopt("y", "ann", {"memory": 4}, "a/1")
    scheduler.submit("t", "ann", {"cpu": 2, "memory": 2})
    assert scheduler.why("t").text == (
        "t of ann waits: it needs 2 cpu and 2 memory; "
        "a/0, the nearest of the 2 a servers, has 1 cpu free."
    )
    scheduler.update("t", servers="a/1")
    assert "a/1 has 0 memory free" in scheduler.why("t").text
    assert scheduler.why("x").text == "x of ann runs on a/0."
    scheduler.finish("x")
    assert scheduler.why("x").text == "x is done."


def test_why_on_an_overfilled_server() -> None:
    scheduler = Scheduler(Cluster([Server({"cpu": 4, "memory": 4}, name="a")]))
    scheduler.add_user("ann")
    scheduler.adopt("x", "ann", {"cpu": 6}, "a")
    scheduler.submit("t", "ann", {"memory": 2})
    assert scheduler.place() == []
    assert scheduler.why("t").text == "t of ann waits: it needs 2 memory; a has −2 cpu free."


def test_why_never() -> None:
    scheduler = Scheduler(pool())
    scheduler.add_user("ann")
    scheduler.submit("a", "ann", {"cpu": 9, "memory": 64})
    assert scheduler.why("a").text == (
        "a of ann never runs: it needs 9 cpu and 64 memory, "
        "and no server has more than 8 cpu or 32 memory."
    )
    scheduler.submit("b", "ann", {"cpu": 6}, servers=["small", "lone"])
    assert scheduler.why("b").text == (
        "b of ann never runs: it needs 6 cpu, and no server that it may use has more than 4 cpu."
    )
    scheduler.submit("c", "ann", {"cpu": 1}, servers={"zone": "q"})
    assert scheduler.why("c").text == (
        "c of ann never runs: no server is among those that it may use (zone=q)."
    )
    assert scheduler.why("c").state == "never"
    for server in scheduler.servers:
        scheduler.remove_server(server)
    assert scheduler.why("c").text == "c of ann never runs: there is no server."


def test_why_never_all_together() -> None:
    servers = [Server({"cpu": 8, "memory": 1}, name="c"), Server({"cpu": 1, "memory": 8}, name="m")]
    scheduler = Scheduler(Cluster(servers))
    scheduler.add_user("ann")
    scheduler.submit("t", "ann", {"cpu": 4, "memory": 4})
    assert scheduler.why("t").text == (
        "t of ann never runs: it needs 4 cpu and 4 memory, and no server has all of it."
    )


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        ("fifo", "ann (its oldest task is older) goes before bob, and nobody may overtake."),
        ("asset+best-fit", "ann (same sum of shares 0, added first) goes before bob."),
        ("max-min:cpu", "ann (same share of cpu 0, added first) goes before bob."),
        ("hdrf+best-fit", "ann (first down the tree of users) goes before bob."),
        ("slots:4", "ann (same number of slots 0, added first) goes before bob."),
        ("slots:4:reject", "it is larger than a slot, which slots:4:reject does not take."),
    ],
)
def test_why_by_policy(policy: str, text: str) -> None:
    scheduler = Scheduler(pool(), policy)
    scheduler.add_user("ann")
    scheduler.add_user("bob")
    scheduler.submit("a", "ann", {"cpu": 1})
    scheduler.submit("b", "bob", {"cpu": 5})
    assert text in scheduler.why("b").text


def test_why_slots() -> None:
    scheduler = Scheduler(Cluster([Server({"cpu": 8}, name="a", count=2)]), "slots:4")
    scheduler.add_user("ann")
    scheduler.submit("t", "ann", {"cpu": 3}, count=9)
    scheduler.place()
    text = scheduler.why("t/4").text
    assert text == "t/4 of ann waits: it needs 2 slots; the 2 a servers have at most 0 slots free."


def test_a_wrong_name_among_many_tasks() -> None:
    scheduler = started()
    scheduler.submit("t", "ann", {"cpu": 1}, count=1001)
    with pytest.raises(InputError, match="task must be one that was submitted, got 't/x'"):
        scheduler.finish("t/x")


def test_many_users_are_counted_not_listed() -> None:
    scheduler = Scheduler(Cluster([Server({"cpu": 1}, name="a")]))
    for number in range(9):
        scheduler.add_user(f"u{number}")
        scheduler.submit(f"t{number}", f"u{number}", {"cpu": 1})
    text = scheduler.why("t8").text
    assert text.endswith("added first) and 5 other users go before u8.")
    assert len(scheduler.why("t8").ahead) == 8


@pytest.mark.parametrize("engine", ["plain", "indexed"])
def test_what_runs_can_be_audited(engine: Any, tmp_path: Path) -> None:
    cluster = Cluster([Server({"cpu": 4, "memory": 8}, name="a", count=2)])
    scheduler = Scheduler(cluster, engine=engine)
    users = [User("ann", {"cpu": 1, "memory": 1}), User("bob", {"cpu": 0.1, "memory": 2})]
    for user in users:
        scheduler.add_user(user.name)
        scheduler.submit(user.name, user.name, user.demand, count=20)
    assert scheduler.observed() == []
    scheduler.place()
    scheduler.finish("ann/0")
    rows = scheduler.observed()
    assert {(row["user"], row["server"]) for row in rows} == {
        (scheduler._state.owners[number], scheduler.where(task))
        for task, number in scheduler._state.tasks.items()
        if scheduler.where(task)
    }
    for server in scheduler.servers:
        held = sum(row["memory"] for row in rows if row["server"] == server)
        assert held == 8 - scheduler.free(server)["memory"]
    answer = audit(cluster, users, observed=rows, properties=["feasible"]).answer
    assert answer is not None
    has = {team.name: team.now for team in answer.teams}
    assert has == {user.name: pytest.approx(scheduler.share(user.name)) for user in users}
    save_observed(rows, tmp_path / "running.csv")
    again = audit(
        cluster, users, observed=read_observed(tmp_path / "running.csv"), properties=["feasible"]
    )
    assert again.answer == answer


def test_a_log_is_a_copy() -> None:
    scheduler = started()
    scheduler.submit("t", "ann", {"cpu": 1}, count=2)
    before, snapshot = scheduler.log, scheduler.snapshot()
    assert not hasattr(before, "append")
    scheduler.log[-1]["demand"]["cpu"] = 2.0
    scheduler.submit("u", "ann", {"cpu": 1})
    assert scheduler.log[-1]["demand"] == {"cpu": 1.0}
    assert len(before) == len(scheduler.log) - 1
    # Neither is the record of a snapshot the caller's own.
    twin = Scheduler.restore(snapshot)
    snapshot["tasks"].append("x")
    assert Scheduler.replay(twin.log).status() == twin.status()


def test_a_scheduler_that_does_not_remember_keeps_no_log() -> None:
    scheduler = Scheduler(Cluster([Server({"cpu": 4})]), remember=False)
    scheduler.add_user("ann")
    for _ in range(2):  # a name may be used again
        scheduler.submit("t", "ann", {"cpu": 1})
        scheduler.place()
        scheduler.finish("t")
    assert (len(scheduler.log), scheduler.status()["tasks"]["done"]) == (0, 0)
    with pytest.raises(UnknownNameError, match="task must be one that is there: none is"):
        scheduler.state("t")
    with pytest.raises(InputError, match="log must be False with remember=False"):
        Scheduler(Cluster([Server({"cpu": 4})]), log=True, remember=False)
    scheduler = Scheduler.restore(scheduler.snapshot(), remember=False)
    for _ in range(2):
        scheduler.adopt("t", "ann", {"cpu": 1}, scheduler.servers[0])
        scheduler.finish("t")
    assert len(scheduler.log) == 0


def test_a_resized_server_has_what_is_named_and_no_more() -> None:
    scheduler = Scheduler(Cluster([Server({"cpu": 4, "memory": 8}, name="a")]))
    scheduler.add_user("ann")
    scheduler.submit("t", "ann", {"cpu": 1, "memory": 1})
    scheduler.place()
    assert scheduler.resize_server("a", {"cpu": 2}) == ["t"]
    assert scheduler.free("a") == {"cpu": 2.0, "memory": 0.0}
