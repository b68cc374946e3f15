"""A journal decides the same again, and simulates the same under its own policy."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import polars as pl
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from drfh import simulate
from drfh.engines.cache import SchedulerCache
from drfh.engines.journal.reader import Journal, read_journal
from drfh.engines.journal.replay import replay
from drfh.engines.journal.whatif import what_if
from drfh.engines.journal.workload import JournalWorkload, workload_of
from drfh.engines.journal.writer import JournalWriter
from drfh.engines.snapshot import (
    BlockedCode,
    BlockedReason,
    ClusterSnapshot,
    NodeSnapshot,
    TaskSnapshot,
)
from drfh.errors import InputError
from drfh.scheduler import Placed

SIZES = {
    "n0": {"cpu": 4.0, "memory": 8.0},
    "n1": {"cpu": 8.0, "memory": 4.0},
    "n2": {"cpu": 4.0, "memory": 4.0, "gpu": 2.0},
    "n3": {"cpu": 6.0, "memory": 6.0},
}
POLICIES = ["best-fit-drfh", "first-fit-drfh", "slots:4", "fifo", "drfh+cosine+strict+backfill",
            "max-min:cpu+tightest", "tsf+best-fit"]  # fmt: skip

demands = st.fixed_dictionaries(
    {"cpu": st.integers(1, 5).map(float), "memory": st.integers(1, 5).map(float)},
    optional={"gpu": st.integers(1, 2).map(float)},
)
restrictions = st.none() | st.lists(st.sampled_from(list(SIZES)), max_size=3, unique=True).map(
    lambda names: tuple(sorted(names))
)
spans = st.integers(1, 5000).map(lambda ticks: ticks / 1024)


@dataclass
class SimulatedEngine:
    """Plays a cluster: what runs ends after its time, nodes come and go, users submit."""

    policy: str
    path: Path
    weights: dict[str, float] = field(default_factory=dict)
    nodes: list[str] = field(default_factory=lambda: ["n0", "n2", "n3"])
    tasks: dict[str, TaskSnapshot] = field(default_factory=dict)
    ends: dict[str, float] = field(default_factory=dict)
    placed: list[tuple[str, float, str]] = field(default_factory=list)
    time: float = 0.0
    number: int = 0

    def __post_init__(self) -> None:
        self.sizes = {name: dict(size) for name, size in SIZES.items()}
        self.states = dict.fromkeys(SIZES, "up")
        self.cache = SchedulerCache(self.policy)
        header = {"policy": self.policy, "engine": "slurm", "started": 1.8e9}
        self.writer = JournalWriter(self.path, header)

    def submit(self, user: str, demand: dict[str, float], servers: Any = None, **more: Any) -> str:
        self.number += 1
        name = str(self.number)
        self.tasks[name] = TaskSnapshot(user, demand, (self.number, 0), servers, **more)
        return name

    def end(self) -> None:
        for name in [n for n, t in self.ends.items() if t <= self.time and n in self.tasks]:
            del self.tasks[name]

    def fail(self, node: str) -> None:
        """What runs on a node that fails is killed."""
        for name in [n for n, task in self.tasks.items() if task.on == node]:
            del self.tasks[name]

    @property
    def snapshot(self) -> ClusterSnapshot:
        servers = {}
        for name in self.nodes:
            used: dict[str, float] = {}
            for task in self.tasks.values():
                for resource, amount in task.demand.items() if task.on == name else ():
                    used[resource] = used.get(resource, 0.0) + amount
            size, state = self.sizes[name], self.states[name]
            room = {"up": dict(size), "closing": used, "down": {}}[state]
            servers[name] = NodeSnapshot(dict(size), room, state)
        return ClusterSnapshot(servers, dict(self.tasks), self.weights)

    def observe(self, limit: int | None = None) -> list[Placed]:
        snapshot = self.snapshot
        self.cache.follow(snapshot)
        placed = self.cache.place(limit)
        assert self.writer.write(self.time, snapshot, placed, limit) in (self.time, None)
        return placed

    def start(self, placed: list[Placed], seconds: Any) -> None:
        for one in placed:
            self.tasks[one.task] = replace(self.tasks[one.task], on=one.server)
            self.ends[one.task] = self.time + seconds()
            self.placed.append((one.task, self.time, one.server))

    def close(self) -> Journal:
        self.writer.close()
        return read_journal(self.path)


def play(data: st.DataObject, policy: str, path: Path) -> SimulatedEngine:
    """Drive a cache through a random run, without what a simulation cannot know."""
    weights = data.draw(st.sampled_from([{}, {"bob": 2.0}, {"ann": 0.5, "cat": 3.0}]))
    engine = SimulatedEngine(policy, path, weights)
    for _ in range(data.draw(st.integers(2, 8), label="entries")):
        engine.end()
        for _ in range(data.draw(st.integers(0, 2), label="node changes")):
            node = data.draw(st.sampled_from(list(SIZES)), label="node")
            what = data.draw(st.sampled_from(["up", "closing", "down", "listed", "grows"]))
            if what == "listed" and node in engine.nodes and len(engine.nodes) > 1:
                if any(node in (task.servers or ()) for task in engine.tasks.values()):
                    continue  # an engine would tell that such a task has changed
                engine.fail(node)
                engine.nodes.remove(node)
            elif what == "listed" and node not in engine.nodes:
                engine.nodes = sorted([*engine.nodes, node])
            elif what == "grows":
                engine.sizes[node]["memory"] += 2.0
            elif what == "closing" and policy.startswith("slots"):
                continue  # the room that is left may be less than a slot, though a task is there
            elif what in ("up", "closing", "down"):
                engine.states[node] = what
                if what == "down":
                    engine.fail(node)
        for _ in range(data.draw(st.integers(0, 4), label="arrivals")):
            user = data.draw(st.sampled_from(["ann", "bob", "cat"]))
            may = data.draw(restrictions)
            if may is not None:
                may = tuple(name for name in may if name in engine.nodes)
            engine.submit(user, data.draw(demands), may)
        placed = engine.observe()
        engine.start(placed, lambda: data.draw(spans))
        engine.time += data.draw(spans)
    if data.draw(st.booleans(), label="to the end"):
        while any(task.on for task in engine.tasks.values()):
            engine.end()
            engine.start(engine.observe(), lambda: 1.0)
            engine.time += 5.0
    return engine


def starts(tasks: pl.DataFrame, name: str = "job") -> list[tuple[str, float, str]]:
    there = tasks.filter(pl.col("start").is_not_null())
    return sorted(there.select(name, pl.col("start") - 1, "server").rows())


def near(numbers: Any) -> Any:
    return pytest.approx(numbers, rel=1e-9, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), policy=st.sampled_from(POLICIES))
def test_its_own_policy_gives_the_same_again(data: st.DataObject, policy: str) -> None:
    with TemporaryDirectory() as folder:
        engine = play(data, policy, Path(folder) / "log")
        journal = engine.close()
        replayed = replay(journal)
        assert replayed.same, str(replayed)
        assert replayed.recorded == replayed.replayed == replayed.matching == len(engine.placed)
        if not engine.number:
            return
        found = what_if(journal, [policy])
        event("finished" if found.workload.finished else "unfinished")
        assert found.results[0].tasks is not None
        assert starts(found.workload.placements, "task") == sorted(engine.placed)
        assert starts(found.results[0].tasks) == sorted(engine.placed)
        # The remarks and numbers of both are the same, up to the last digits of integrals.
        observed, simulated = found.table["runs"]
        assert observed.pop("utilisation") == near(simulated.pop("utilisation"))
        assert {**observed, "run": policy, "evictions": 0} == simulated
        users = found.table["users"]
        half = len(users) // 2
        for row, other in zip(users[:half], users[half:], strict=True):
            assert row.pop("mean_share") == near(other.pop("mean_share"))
            assert {**row, "run": policy} == other


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_another_policy_gives_another_answer(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        engine = SimulatedEngine("best-fit-drfh", Path(folder) / "log")
        lasts: dict[str, float] = {}
        for user in ("ann", "bob", "cat"):
            for _ in range(8):
                engine.submit(user, data.draw(demands), data.draw(restrictions) and ("n0", "n2"))
        while engine.tasks and engine.time < 1000:
            engine.end()
            placed = engine.observe()
            engine.start(placed, lambda: data.draw(spans))
            lasts |= {one.task: engine.ends[one.task] - engine.time for one in placed}
            engine.time += 1.0
        found = what_if(engine.close(), ["best-fit-drfh", "fifo"], drain=True)
    same, other = (result.tasks for result in found.results)
    assert same is not None
    assert other is not None
    assert starts(same) == sorted(engine.placed)
    assert found.table["runs"][1]["as_recorded"] == len(engine.placed)
    differs = starts(other) != starts(same)
    event("differs" if differs else "the same")
    demand = dict(zip(found.workload.workload.job_names, found.workload.workload.demand[
        found.workload.workload.batch_shape].tolist(), strict=True))  # fmt: skip
    changes = []
    for row in other.filter(pl.col("start").is_not_null()).iter_rows(named=True):
        assert row["start"] >= row["submission"]
        assert row["end"] is None or row["end"] - row["start"] == row["duration"]
        if row["end"] is not None:
            changes.append((row["end"], -1, row["server"], demand[row["job"]]))
        changes.append((row["start"], 1, row["server"], demand[row["job"]]))
    resources = found.workload.workload.resources
    used = {name: [0.0] * len(resources) for name in SIZES}
    for _, sign, server, amounts in sorted(changes, key=lambda change: change[:2]):
        for r, amount in enumerate(amounts):
            used[server][r] += sign * amount
            assert used[server][r] <= SIZES[server].get(resources[r], 0.0)


def test_first_in_first_out_makes_small_tasks_wait(tmp_path: Path) -> None:
    engine = SimulatedEngine("best-fit-drfh", tmp_path / "log", nodes=["n0"])
    for _ in range(4):
        engine.submit("ann", {"cpu": 2.0})
    engine.submit("bob", {"cpu": 2.0})
    while engine.tasks:
        engine.end()
        engine.start(engine.observe(), lambda: 10.0)
        engine.time += 10.0
    engine.observe()
    found = what_if(engine.close(), ["best-fit-drfh", "fifo"])
    waiting = {(row["user"], row["run"]): row["mean_waiting"] for row in found.table["users"]}
    assert waiting["bob", "observed"] == waiting["bob", "best-fit-drfh"] == 0.0
    assert waiting["ann", "observed"] == waiting["ann", "best-fit-drfh"] == 10.0
    assert waiting["bob", "fifo"] == 20.0
    assert waiting["ann", "fifo"] == 5.0
    runs = {row["run"]: row for row in found.table["runs"]}
    assert [runs[name]["makespan"] for name in ("observed", "fifo")] == [30.0, 30.0]
    assert [row["as_recorded"] for row in runs.values()] == [5, 5, 2]
    assert runs["observed"]["utilisation"]["cpu"] == pytest.approx(100 / 4 / 31)
    assert runs["fifo"]["utilisation"] == pytest.approx(runs["observed"]["utilisation"])
    assert found.workload.remarks == ()


# What a simulation cannot know, by hand

HELD = BlockedReason(BlockedCode.RECORDED, "held")
ROOM = {
    "n0": NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0}),
    "n1": NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0}),
}


def task(number: int, user: str = "ann", **more: Any) -> TaskSnapshot:
    return TaskSnapshot(user, {"cpu": 2.0}, (number, 0), **more)


#: Time, tasks, and task → server of what was placed.
Observed: TypeAlias = tuple[float, dict[str, TaskSnapshot], dict[str, str]]


def journal_of(path: Path, *entries: Observed, **header: Any) -> Journal:
    with JournalWriter(
        path, {"policy": "best-fit-drfh", "engine": "slurm", "started": 1000, **header}
    ) as writer:
        for time, tasks, placed in entries:
            chosen = [Placed(name, tasks[name].user, server) for name, server in placed.items()]
            writer.write(time, ClusterSnapshot(ROOM, tasks), chosen)
    return read_journal(path)


def rows(recorded: JournalWorkload) -> dict[str, dict[str, Any]]:
    """Return each task's job: arrival, duration, restriction; and who started it."""
    workload = recorded.workload
    terms = [workload.restrictions[i] for i in workload.restriction[workload.batch_shape]]
    columns = zip(workload.job_names, workload.batch_arrival.tolist(), workload.duration.tolist(),
                  terms, recorded.placements["by"], strict=True)  # fmt: skip
    return {
        name: {"arrival": arrival, "duration": long, "servers": terms, "by": by}
        for name, arrival, long, terms, by in columns
    }


def test_what_runs_at_first_has_its_server_from_the_start(tmp_path: Path) -> None:
    before = {"1": task(1, on="n1", since=990.0, limit=60.0), "2": task(2, on="n1", limit=600.0)}
    recorded = workload_of(
        journal_of(
            tmp_path / "log",
            (2.0, {**before, "3": task(3)}, {"3": "n0"}),
            (9.0, {"2": before["2"], "3": task(3, on="n0")}, {}),
            (10.0, {"2": before["2"]}, {}),
        )
    )
    assert rows(recorded) == {
        "1": {"arrival": 0.0, "duration": 10.0, "servers": ("n1",), "by": "before"},
        "2": {"arrival": 0.0, "duration": 603.0, "servers": ("n1",), "by": "before"},
        "3": {"arrival": 3.0, "duration": 8.0, "servers": None, "by": "drfh"},
    }
    result = simulate(recorded.cluster, recorded.workload, until=recorded.horizon, log=True)
    assert result.tasks is not None
    assert starts(result.tasks) == [("1", -1.0, "n1"), ("2", -1.0, "n1"), ("3", 2.0, "n0")]
    assert result.numbers["tasks"]["completed"] == 2
    assert recorded.remarks == (
        "2 tasks running when the journal began: bound to the server",
        "1 task still running at the end: taken to last until the limit",
    )


def test_a_limit_that_is_partly_used_up(tmp_path: Path) -> None:
    before = {
        "1": task(1, on="n1", since=990.0, limit=60.0),
        "2": task(2, on="n1", since=1.0, limit=5.0),
    }
    recorded = workload_of(journal_of(tmp_path / "log", (2.0, before, {})))
    # Of 60 s, 12 are gone when it is first seen, at 3 s of the workload; the other is overdue.
    assert [row["duration"] for row in rows(recorded).values()] == [48.0 + 3.0, 1.0 + 3.0]


def test_what_others_start_is_bound_to_its_server(tmp_path: Path) -> None:
    entries: list[Observed] = [
        (0.0, {"1": task(1), "2": task(2, blocked=HELD)}, {"1": "n0"}),
        (4.0, {"1": task(1, on="n1"), "2": task(2, on="n0"), "3": task(3, on="n1")}, {}),
        (5.0, {}, {}),
    ]
    recorded = workload_of(journal_of(tmp_path / "log", *entries))
    assert rows(recorded) == {
        name: {"arrival": 5.0, "duration": 1.0, "servers": (server,), "by": "others"}
        for name, server in (("1", "n1"), ("2", "n0"), ("3", "n1"))
    }
    assert recorded.remarks == (
        "3 tasks started by somebody else: bound to the server",
        "1 task held for a while: arriving when free to run",
        "1 placement refused by the engine",
    )
    # An engine that drfh only watches starts everything by itself.
    entries = [(time, tasks, {}) for time, tasks, _ in entries]
    watched = workload_of(journal_of(tmp_path / "watched", *entries, controls=False))
    assert [(row["arrival"], row["servers"], row["by"]) for row in rows(watched).values()] == [
        (1.0, None, "engine"), (5.0, None, "engine"), (5.0, None, "engine"),
    ]  # fmt: skip
    mean = what_if(read_journal(tmp_path / "watched"), []).table["runs"][0]["mean_waiting"]
    assert mean == 4 / 3


def test_requeued_refused_cancelled_and_changed(tmp_path: Path) -> None:
    recorded = workload_of(
        journal_of(
            tmp_path / "log",
            (0.0, {"1": task(1), "2": task(2), "3": task(3), "4": task(4, blocked=HELD)},
             {"1": "n0"}),
            (1.0, {"1": task(1, on="n0"), "2": task(2), "3": task(3), "4": task(4)}, {"2": "n1"}),
            (2.0, {"1": task(1, recalled=True), "2": task(2), "4": task(4)}, {"1": "n1"}),
            (3.0, {"1": task(1, on="n1"), "2": task(2, limit=7.0, servers=("n1", "n7")),
                   "4": task(4)}, {}),
            (5.0, {"2": task(2, limit=7.0, servers=("n1", "n7")), "4": task(4),
                   "5": task(5, blocked=HELD), "6": task(6, "bob")}, {}),
        )
    )  # fmt: skip
    assert rows(recorded) == {
        "1": {"arrival": 1.0, "duration": 3.0, "servers": None, "by": "drfh"},
        "2": {"arrival": 1.0, "duration": 7.0, "servers": ("n1",), "by": None},
        "4": {"arrival": 2.0, "duration": 3.0, "servers": None, "by": None},
        "6": {"arrival": 6.0, "duration": 3.0, "servers": None, "by": None},
    }
    assert recorded.remarks == (
        "1 task cancelled before a start: left out",
        "1 task held all the time: left out",
        "1 task held for a while: arriving when free to run",
        "1 run cut short by a requeue: only the last run of a task counts",
        "1 placement refused by the engine",
        "1 change of a waiting task: the last demand and servers count",
        "1 task not started at the end: taken to last as long as the limit",
        "2 tasks not started at the end: taken to last as long as the user's mean",
    )
    # Both of its runs count in what was used: 1 s and 3 s of 2 CPUs, of 8 CPUs in 6 s.
    assert recorded.utilisation == {"cpu": pytest.approx(2 * (2 + 3) / (8 * 6))}


def test_one_that_waits_again_has_not_run(tmp_path: Path) -> None:
    recorded = workload_of(
        journal_of(
            tmp_path / "log",
            (0.0, {"1": task(1)}, {"1": "n0"}),
            (1.0, {"1": task(1, on="n0")}, {}),
            (2.0, {"1": task(1, recalled=True)}, {}),
        )
    )
    row = recorded.placements.row(0, named=True)
    assert (row["first_start"], row["start"], row["end"], row["by"]) == (1.0, None, None, None)
    assert not recorded.finished
    assert recorded.workload.duration.tolist() == [float("inf")]


def test_weights_limits_and_the_order_of_servers(tmp_path: Path) -> None:
    tasks = {"1": task(1), "2": task(2, "bob")}
    turned = {name: ROOM[name] for name in ("n1", "n0")}
    with JournalWriter(
        tmp_path / "log", {"policy": "fifo", "engine": "slurm", "started": 0}
    ) as writer:
        writer.write(0.0, ClusterSnapshot(ROOM, tasks, {"bob": 1.0}), [], 0)
        writer.write(1.0, ClusterSnapshot(turned, tasks, {"bob": 3.0, "zoe": 9.0}), [], 5)
    recorded = workload_of(read_journal(tmp_path / "log"))
    assert [(user.name, user.weight) for user in recorded.workload.users] == [
        ("ann", 1),
        ("bob", 3),
    ]
    assert recorded.remarks[:3] == (
        "1 change of a weight: the last one counts",
        "1 look cut short by a limit on placements: a simulation has none",
        "1 change of the order of the servers: the first one counts",
    )


def test_a_name_that_is_used_again(tmp_path: Path) -> None:
    entries: list[Observed] = [
        (0.0, {"1": task(1)}, {"1": "n0"}),
        (2.0, {}, {}),
        (3.0, {"1": task(9)}, {"1": "n1"}),
        (7.0, {}, {}),
    ]
    recorded = workload_of(journal_of(tmp_path / "log", *entries))
    assert {name: row["duration"] for name, row in rows(recorded).items()} == {"1": 2, "1 (2)": 4}


def test_servers_in_the_middle_keep_their_place(tmp_path: Path) -> None:
    size = NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0})
    down = NodeSnapshot({"cpu": 4.0, "gpu": 1.0}, {}, "down")
    half = NodeSnapshot({"cpu": 4.0}, {"cpu": 2.0}, "closing")
    tasks = {"1": task(1)}
    with JournalWriter(
        tmp_path / "log", {"policy": "fifo", "engine": "slurm", "started": 0}
    ) as writer:
        writer.write(0.0, ClusterSnapshot({"n1": size, "n5": down, "n7": half}, tasks))
        writer.write(
            1.0,
            ClusterSnapshot({"n0": size, "n1": down, "n3": size, "n5": size, "n9": size}, tasks),
        )
    recorded = workload_of(read_journal(tmp_path / "log"))
    assert recorded.cluster.names == ("n0", "n1", "n3", "n5", "n9", "n7")
    assert recorded.cluster.resources == ("cpu", "gpu")
    assert [repr(event).replace(", {}", "") for event in recorded.workload.events] == [
        "RemoveServers(0.0, 'n0')", "RemoveServers(0.0, 'n3')", "RemoveServers(0.0, 'n5')",
        "RemoveServers(0.0, 'n9')", "ResizeServer(0.0, 'n7', {'cpu': 2.0})",
        "AddServers(2.0, Server({'cpu': 4.0}, name='n0'))", "RemoveServers(2.0, 'n1')",
        "AddServers(2.0, Server({'cpu': 4.0}, name='n3'))",
        "AddServers(2.0, Server({'cpu': 4.0}, name='n5'))",
        "AddServers(2.0, Server({'cpu': 4.0}, name='n9'))", "RemoveServers(2.0, 'n7')",
    ]  # fmt: skip


def test_a_journal_without_tasks(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"log: the journal must show at least one server, and"):
        workload_of(journal_of(tmp_path / "log", (0.0, {}, {})))
    assert replay(read_journal(tmp_path / "log")).same


# The same again


def test_a_difference_is_named(tmp_path: Path) -> None:
    tasks = {"1": task(1), "2": task(2, "bob")}
    journal = journal_of(
        tmp_path / "log",
        (0.0, tasks, {"1": "n0", "2": "n1"}),  # the best fit of both is n0
        (
            1.0,
            {**tasks, "3": task(3)},
            {
                "1": "n0",
                "2": "n0",
                "3": "n1",
            },
        ),
    )
    replayed = replay(journal)
    assert not replayed.same
    assert (replayed.recorded, replayed.replayed, replayed.matching) == (5, 5, 4)
    assert str(replayed) == (
        "not reproduced: 4 of 5 placements of best-fit-drfh are the same; first difference at 0 s "
        "(line 2): recorded 2 on n1, replayed 2 on n0"
    )
    assert replayed.to_dict()["difference"] == {
        "t": 0.0, "line": 2, "recorded": ["2", "n1"], "replayed": ["2", "n0"]
    }  # fmt: skip
    fewer = journal_of(tmp_path / "fewer", (0.0, tasks, {"1": "n0"}))
    assert "recorded nothing, replayed 2 on n0" in str(replay(fewer))
    more = journal_of(tmp_path / "more", (0.0, {"1": task(1, blocked=HELD)}, {"1": "n0"}))
    assert "recorded 1 on n0, replayed nothing" in str(replay(more))
    other = replay(journal, "drfh+tightest")
    assert other.policies == ("drfh+tightest",)


def test_a_journal_of_another_scheduler_has_no_placements(tmp_path: Path) -> None:
    with JournalWriter(
        tmp_path / "log", {"policy": "fifo", "engine": "slurm", "started": 0, "controls": False}
    ) as writer:
        writer.write(0.0, ClusterSnapshot(ROOM, {"1": task(1)}))
        writer.write(1.0, ClusterSnapshot(ROOM, {"1": task(1, on="n0")}))
    replayed = replay(read_journal(tmp_path / "log"))
    assert str(replayed) == "drfh only watched (2 looks): there are no placements of its own"
    assert replayed.to_dict()["same"] is None


def test_a_restart_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "log"
    journal_of(path, (0.0, {"1": task(1), "2": task(2)}, {"1": "n0", "2": "n0"}))
    cache = SchedulerCache("first-fit-drfh")
    with JournalWriter(
        path, {"policy": "first-fit-drfh", "engine": "slurm", "started": 1060}, append=True
    ) as writer:
        for time, tasks in (
            (0.5, {"1": task(1, on="n0"), "3": task(3)}),
            (2.5, {"3": task(3, on="n0")}),
        ):
            cache.follow(ClusterSnapshot(ROOM, tasks))
            writer.write(time, ClusterSnapshot(ROOM, tasks), cache.place())
    journal = read_journal(path)
    replayed = replay(journal)
    assert replayed.same
    assert replayed.policies == ("best-fit-drfh", "first-fit-drfh")
    assert (replayed.recorded, replayed.starts) == (3, 2)
    recorded = workload_of(journal)
    # What was placed before the restart and is there after it was placed by drfh.
    assert rows(recorded) == {
        "1": {"arrival": 1.0, "duration": 62.5, "servers": None, "by": "drfh"},
        "2": {"arrival": 1.0, "duration": 60.5, "servers": None, "by": "drfh"},
        "3": {"arrival": 61.5, "duration": float("inf"), "servers": None, "by": "drfh"},
    }
    assert recorded.remarks[0] == "1 restart of drfh: the next look shows what happened meanwhile"


def test_a_snapshot_that_no_scheduler_can_hold(tmp_path: Path) -> None:
    journal = journal_of(tmp_path / "log", (0.0, {}, {}), (1.0, {"1": task(1, on="n7")}, {}))
    with pytest.raises(InputError, match=r"log, line 3: server must be one of n0, n1"):
        replay(journal)
