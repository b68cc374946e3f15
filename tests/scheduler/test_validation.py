"""A damaged snapshot is refused in one line, or restored as it stands."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest

from drfh import Cluster, Scheduler, Server
from drfh.errors import InputError

WILD: list[Any] = [
    -1,
    0,
    3,
    10**8,
    2**62,
    2**100,
    10**400,
    0.5,
    math.nan,
    math.inf,
    True,
    None,
    "x",
    [],
    {},
]
TEXTS = ["", "ghost", 7, None, []]


def busy(policy: str = "best-fit-drfh") -> dict[str, Any]:
    """Return the snapshot of a scheduler that has some of everything."""
    cluster = Cluster(
        [
            Server({"cpu": 8, "memory": "64Gi"}, name="big", count=2, labels={"zone": "a"}),
            Server({"cpu": 4, "memory": "8Gi"}, name="small", count=2),
        ]
    )
    groups = {"vision": {"parent": "research", "weight": 2}}
    scheduler = Scheduler(cluster, policy, seed=3, groups=groups)
    scheduler.add_user("ann", parent="vision")
    scheduler.add_user("bob", 2, servers=["big", {"zone": ["b"]}])
    scheduler.add_user("eve", servers=lambda server: server.resources["cpu"] > 4)
    scheduler.submit("a", "ann", {"cpu": 2, "memory": "1Gi"}, count=4)
    scheduler.submit("b", "bob", {"cpu": 3}, count=5)
    scheduler.submit("huge", "ann", {"cpu": 16})
    scheduler.submit("e", "eve", {"memory": "4Gi"}, servers={"zone": "a"})
    scheduler.place()
    scheduler.adopt("over", "eve", {"cpu": 5}, "small/0")
    scheduler.add_user("gone")
    scheduler.remove_user("gone")
    scheduler.remove_server("small/1")
    scheduler.finish("a/0")
    scheduler.cancel("b/4")
    snapshot: dict[str, Any] = json.loads(json.dumps(scheduler.snapshot()))
    return snapshot


def parts(at: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value in plain data."""
    if path:
        yield path
    inside = at.items() if isinstance(at, dict) else enumerate(at) if isinstance(at, list) else ()
    for key, value in inside:
        yield from parts(value, (*path, key))


def damages(snapshot: dict[str, Any]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield paths, and what to put there (or KeyError, to drop it)."""
    for path in parts(snapshot):
        value: Any = snapshot
        changes: list[Any]
        for key in path:
            value = value[key]
        if isinstance(value, list):
            changes = [value[:-1], value[1:], [*value, *value[-1:]], value[::-1], [], "x", None]
        elif isinstance(value, str):
            changes = list(TEXTS)
        elif isinstance(value, dict):
            changes = [{}, [], None]
        else:
            changes = list(WILD)
        if isinstance(path[-1], str):
            changes.append(KeyError)
        yield from ((path, change) for change in changes if change is KeyError or change != value)


def damaged(snapshot: dict[str, Any], path: tuple[Any, ...], change: Any) -> dict[str, Any]:
    copy = deepcopy(snapshot)
    at: Any = copy
    for key in path[:-1]:
        at = at[key]
    if change is KeyError:
        del at[path[-1]]
    else:
        at[path[-1]] = deepcopy(change)
    return copy


def future(scheduler: Scheduler) -> list[Any]:
    """Return all that is seen of a scheduler until nothing runs any more."""
    seen: list[Any] = [json.dumps(scheduler.status()), scheduler.tasks(), scheduler.place()]
    for _ in range(9):
        runs = [task for task, state in scheduler.tasks().items() if state == "running"]
        scheduler.finish(*runs)
        seen.append(scheduler.place())
    scheduler.add_server("new", {"cpu": 9}, {"zone": "b"})
    return [*seen, scheduler.place(), json.dumps(scheduler.status())]


def comparable(snapshot: dict[str, Any]) -> dict[str, Any]:
    """Return a snapshot without zeros and without the order of what has none."""
    copy: dict[str, Any] = json.loads(json.dumps(snapshot))
    copy["predicates"] = [sorted(names) for names in copy["predicates"]]
    for server in copy["servers"]:
        server["resources"] = {r: amount for r, amount in server["resources"].items() if amount}
    return copy


def restored_or_refused(snapshot: dict[str, Any], engine: Any) -> Scheduler | str:
    """Return the scheduler, or the message of the error."""
    try:
        return Scheduler.restore(snapshot, engine=engine)
    except InputError as error:
        return str(error) if "snapshot" in error.field else f"elsewhere on {engine}: {error}"


@pytest.mark.parametrize("policy", ["best-fit-drfh", "tsf+first-fit+backfill"])
def test_any_damage_is_refused_or_restored_as_it_stands(policy: str) -> None:
    snapshot = busy(policy)
    assert future(Scheduler.restore(snapshot, engine="plain")) == future(
        Scheduler.restore(snapshot, engine="indexed")
    )
    refused = restored = 0
    for path, change in damages(snapshot):
        wrong = damaged(snapshot, path, change)
        plain, indexed = restored_or_refused(wrong, "plain"), restored_or_refused(wrong, "indexed")
        if isinstance(plain, Scheduler) and isinstance(indexed, Scheduler):
            assert comparable(plain.snapshot()) == comparable(wrong), (path, change)
            assert future(plain) == future(indexed), (path, change)
            restored += 1
        else:
            assert plain == indexed, (path, change)
            refused += 1
    assert refused > 5 * restored > 0


def put(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Return a damage: another value at a path such as ``core.server.0``."""

    def change(snapshot: dict[str, Any]) -> None:
        at: Any = snapshot
        *above, last = [int(key) if key.isdecimal() else key for key in path.split(".")]
        for key in above:
            at = at[key]
        at[last] = value(at[last]) if callable(value) else value

    return change


@pytest.mark.parametrize("engine", ["plain", "indexed"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("core.capacity", lambda rows: rows[:50]), "snapshot.core.capacity must have 100 "
         "entries (for each server), got 50"),
        (put("core.shape.0", 10**8), "snapshot.core.shape[0] must be a whole number from 0 to 0, "
         "got 100000000"),
        (put("core.server.0", 10**6), "snapshot.core.server[0] must be a whole number from -1 to "
         "99, got 1000000"),
        (put("core.server", lambda row: row[:-1]), "snapshot.core.server must have 900 entries "
         "(for each task), got 899"),
        (put("core.user.7", 1), "snapshot.core.user[7] must be a whole number from 0 to 0, got 1"),
        (put("tasks", lambda names: names[:-1]), "snapshot.core.user must have 899 entries (for "
         "each task), got 900"),
        (put("tasks.1", "t/0"), "snapshot.tasks[1] must be unique, got 't/0'"),
        (put("done", ["t/5"]), "snapshot.done[0] must be in one list (it is in tasks too), got "
         "'t/5'"),
        (put("core.capacity.3.0", -1), "snapshot.core.capacity[3][0] must be a whole number from 0 "
         "to 1125899906842624, got -1"),
        (put("core.weight.0", math.nan), "snapshot.core.weight[0] must be a finite number > 0, got "
         "nan"),
        (put("core.weight.0", 0.0), "snapshot.core.weight[0] must be a finite number > 0, got 0.0"),
        (put("units", [1, 1]), "snapshot.core.capacity[0][0] must be 8, the cpu of "
         "snapshot.servers[0], got 80000000000"),
        (put("units", [1, 0]), "snapshot.units[1] must be a whole number ≥ 1, or 1 divided by one, "
         "got 0"),
        (put("resources", ["memory", "cpu"]), "snapshot.servers[0].resources.memory must be a "
         "number from 0 to 112590, got 34359738368.0"),
        (put("servers.1.up", False), "snapshot.core.capacity[1][0] must be 0, the cpu of a server "
         "that was removed, got 80000000000"),
        (put("servers.1.name", "n/0"), "snapshot.servers[1].name must be unique, got 'n/0'"),
        (put("core.stamp.0", -1), "snapshot.core.stamp[0] must be ≥ 0 where a task runs, and -1 "
         "elsewhere, got -1"),
        (put("core.stamp.0", 1), "snapshot.core.stamp[100] must be unique, got 1"),
        (put("core.order.1", 0), "snapshot.core.order[1] must be unique, got 0"),
        (put("core.order.1", 900), "snapshot.core.order[1] must be of a task before 900, got 900"),
        (put("policy", "fofi"), "snapshot.policy must be one of best-fit-drfh, fifo, "
         "first-fit-drfh, mesos, slots:N (did you mean fifo?), got 'fofi'"),
        (put("users.0.left", True), "snapshot.core.user[0] must be a user who is there, got 0"),
    ],
)  # fmt: skip
def test_damage_is_named_by_field_rule_and_value(
    engine: Any, change: Callable[[dict[str, Any]], None], message: str
) -> None:
    cluster = Cluster([Server({"cpu": 8, "memory": "32Gi"}, name="n", count=100)])
    scheduler = Scheduler(cluster)
    scheduler.add_user("a")
    scheduler.submit("t", "a", {"cpu": 1}, count=900)
    scheduler.place()
    snapshot = scheduler.snapshot()
    change(snapshot)
    with pytest.raises(InputError) as found:
        Scheduler.restore(snapshot, engine=engine)
    assert str(found.value) == message


def test_a_task_obeys_the_restriction_of_its_user() -> None:
    snapshot = busy()
    bobs = snapshot["tasks"].index("b/0")
    snapshot["core"]["shape"][bobs] = snapshot["core"]["shape"][0]
    with pytest.raises(InputError, match=r"shape\[\d\] must have the restriction of .* bob, got 0"):
        Scheduler.restore(snapshot)
