"""A scheduler that follows a cluster decides as one that has just been started."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from drfh import Scheduler
from drfh.engines.cache import SchedulerCache, fresh
from drfh.engines.snapshot import (
    BlockedCode,
    BlockedReason,
    ClusterSnapshot,
    NodeSnapshot,
    TaskSnapshot,
)
from drfh.errors import InputError
from tests.support.examples import examples

BLOCKED = BlockedReason(BlockedCode.DEPENDENCY, "it depends")
NODES = {
    "n0": {"cpu": 4.0, "memory": 8.0},
    "n1": {"cpu": 8.0, "memory": 4.0},
    "n2": {"cpu": 4.0, "memory": 4.0, "gpu": 2.0},
}


def nodes_of(
    states: Mapping[str, str], tasks: Mapping[str, TaskSnapshot]
) -> dict[str, NodeSnapshot]:
    """Return the servers: one that takes nothing new has available what runs there."""
    servers = {}
    for name, size in NODES.items():
        used: dict[str, float] = {}
        for task in tasks.values():
            if task.on == name:
                for resource, amount in task.demand.items():
                    used[resource] = used.get(resource, 0.0) + amount
        servers[name] = NodeSnapshot(size, size if states[name] == "up" else used, states[name])
    return servers


def state_of(scheduler: Scheduler) -> dict[str, Any]:
    """Return all of a scheduler that decides its future, but draws and times."""
    return {
        "tasks": {user: list(scheduler.tasks(user).items()) for user in scheduler.users},
        "where": {task: scheduler.where(task) for task in sorted(scheduler.tasks())},
        "levels": {user: scheduler.level(user) for user in scheduler.users},
        "free": {server: scheduler.free(server) for server in scheduler.servers},
    }


def same(scheduler: Scheduler, twin: Scheduler) -> bool:
    mine, other = state_of(scheduler), state_of(twin)
    for user, rows in mine["tasks"].items():  # of those that run, the order says nothing
        waiting = [row for row in rows if row[1] != "running"]
        assert waiting == [row for row in other["tasks"][user] if row[1] != "running"]
    mine["tasks"] = {user: sorted(rows) for user, rows in mine["tasks"].items()}
    other["tasks"] = {user: sorted(rows) for user, rows in other["tasks"].items()}
    assert mine == other
    return True


demands = st.fixed_dictionaries(
    {"cpu": st.integers(1, 5).map(float), "memory": st.integers(1, 5).map(float)},
    optional={"gpu": st.integers(1, 2).map(float)},
)
restrictions = st.none() | st.lists(st.sampled_from(list(NODES)), max_size=2, unique=True).map(
    lambda names: tuple(sorted(names))
)


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data(), policy=st.sampled_from(["best-fit-drfh", "first-fit-drfh", "slots:4"]))
def test_a_cache_decides_as_a_fresh_scheduler(data: st.DataObject, policy: str) -> None:
    cache = SchedulerCache(policy)
    states = dict.fromkeys(NODES, "up")
    tasks: dict[str, TaskSnapshot] = {}
    weights: dict[str, float] = {}
    number = 0
    for _ in range(data.draw(st.integers(2, 8), label="snapshots")):
        for name, server in cache.placed.items():  # what the engine made of the decisions
            task = tasks[name]
            fate = data.draw(st.sampled_from(["runs", "starts", "refused", "gone", "elsewhere"]))
            if states[server] != "up" or (fate == "runs" and task.blocked):
                fate = "refused"
            if fate in ("runs", "starts"):
                tasks[name] = replace(task, on=server, recalled=False)
            elif fate == "refused":
                tasks[name] = replace(task, recalled=data.draw(st.booleans()))
            elif fate == "gone":
                del tasks[name]
            else:
                tasks[name] = replace(task, on="n1")
        for _ in range(data.draw(st.integers(0, 4), label="changes")):
            what = data.draw(
                st.sampled_from(["new", "end", "requeue", "block", "change", "node", "weight"])
            )
            some = data.draw(st.sampled_from(sorted(tasks))) if tasks else None
            if what == "new":
                number += 1
                user = data.draw(st.sampled_from(["ann", "bob", "cat"]))
                on = data.draw(st.sampled_from([None, None, None, "n0"]))
                may = data.draw(restrictions)
                demand = data.draw(demands)
                tasks[str(number)] = TaskSnapshot(user, demand, (number, 0), may, on=on)
            elif what == "node":
                states[data.draw(st.sampled_from(list(NODES)))] = data.draw(
                    st.sampled_from(["up", "closing", "down"])
                )
            elif what == "weight":
                weights["bob"] = data.draw(st.sampled_from([1.0, 2.0]))
            elif some is None:
                continue
            elif what == "end":
                del tasks[some]
            elif what == "requeue" and tasks[some].on is not None:
                tasks[some] = replace(tasks[some], on=None, recalled=True)
            elif what == "block" and tasks[some].on is None:
                tasks[some] = replace(tasks[some], blocked=None if tasks[some].blocked else BLOCKED)
            elif what == "change" and tasks[some].on is None:
                tasks[some] = replace(
                    tasks[some], demand=data.draw(demands), servers=data.draw(restrictions)
                )
        snapshot = ClusterSnapshot(nodes_of(states, tasks), dict(tasks), dict(weights))
        before = cache.starts
        cache.follow(snapshot)
        event("afresh" if cache.starts > before else "followed")
        twin = fresh(snapshot, policy)
        assert same(cache.scheduler, twin)
        limit = data.draw(st.none() | st.integers(0, 2))
        assert cache.place(limit) == twin.place(limit)


def test_most_snapshots_need_no_fresh_scheduler() -> None:
    cache = SchedulerCache()
    tasks: dict[str, TaskSnapshot] = {}
    for number in range(1, 30):
        tasks[str(number)] = TaskSnapshot("ann", {"cpu": 1.0}, (number, 0))
        cache.follow(ClusterSnapshot(nodes_of(dict.fromkeys(NODES, "up"), tasks), dict(tasks)))
        for placed in cache.place():
            tasks[placed.task] = replace(tasks[placed.task], on=placed.server)
        if number % 3 == 0:
            del tasks[next(iter(tasks))]
    assert cache.starts == 1


def test_before_the_first_snapshot_there_is_no_scheduler() -> None:
    with pytest.raises(InputError, match="must have seen the cluster first"):
        SchedulerCache().place()
