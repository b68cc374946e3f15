"""The paper's dynamic experiment on a real Slurm: three users join, and the first one leaves.

What ``squeue --json`` and the job completion log show is laid beside a simulation of the recorded
workload. Nothing here depends on how fast the machine is: users join when so much work is done,
and a comparison is either exact or says by which jobs it is off.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

import drfh
from drfh.cli.slurm import app
from drfh.engines.cache import SchedulerCache
from drfh.engines.journal.history import SHIFT
from drfh.engines.journal.reader import Journal, read_journal
from drfh.engines.journal.replay import replay
from drfh.engines.journal.whatif import what_if
from drfh.engines.journal.workload import JournalWorkload, workload_of
from drfh.engines.journal.writer import JournalWriter
from drfh.engines.observer import Cycle, CycleFailure, Decision, Observer
from drfh.engines.service import Service
from drfh.engines.slurm.client import Slurm
from drfh.engines.slurm.config import config_of
from drfh.engines.slurm.controller import SlurmController
from drfh.engines.slurm.sandbox import Sandbox, SandboxNode
from drfh.files.scenario_file import load_scenario
from drfh.simulation.result import Result
from tests.engines.slurm.cluster import living, slurm_cluster

# The experiment runs in real time, and measures shares that a busy machine would disturb.
pytestmark = pytest.mark.slow

POLICY = "best-fit-drfh"
UNIT = {"cpu": 20, "memory": 20 * 1024}  # the paper's largest server: 1 CPU and 1 memory unit
COUNTS = (12, 3, 2, 1, 1, 1)  # of its six shapes, instead of 66, 15, 11, 6, 1 and 1
JOINS = {"user-1": 0, "user-2": 40, "user-3": 80}  # jobs done by then; in the paper 0, 200, 500 s
TASKS = {"user-1": 120, "user-2": 80, "user-3": 90}
DURATIONS = [1 + step / 10 for step in range(7)]
SLEEP = "sleep 1.$((SLURM_ARRAY_TASK_ID % 7))"
#: Who has jobs that wait, one after the other, and the share of each in the paper (not said last).
PHASES: list[tuple[set[str], float | None]] = [
    ({"user-1"}, 0.62),
    ({"user-1", "user-2"}, 0.44),
    ({"user-1", "user-2", "user-3"}, 0.26),
    ({"user-2", "user-3"}, None),
]


class Shape(NamedTuple):
    """CPUs and MiB."""

    cpu: int
    mem: int


def scaled(resources: Mapping[str, float]) -> Shape:
    return Shape(round(resources["cpu"] * UNIT["cpu"]), int(resources["memory"] * UNIT["memory"]))


SCENARIO = load_scenario("paper-dynamic")
SHAPES = [scaled(server.resources) for server in SCENARIO.cluster.servers]
DEMANDS = {user.name: scaled(user.demand or {}) for user in SCENARIO.users}
NODES = [
    SandboxNode(f"n{number}", *shape)
    for number, shape in enumerate(s for s, n in zip(SHAPES, COUNTS, strict=True) for _ in range(n))
]
TOTALS = Shape(sum(node.cpus for node in NODES), sum(node.memory for node in NODES))


class Observation(NamedTuple):
    """A state that the controller read: when, and all that ``squeue --json`` said."""

    time: float  # of the workload that is made from the journal
    jobs: list[dict[str, Any]]
    placed: int


@dataclass
class Live:
    """What was observed."""

    log: Path
    started: float
    observations: list[Observation] = field(default_factory=list)
    between: list[tuple[float, float, list[dict[str, Any]]]] = field(default_factory=list)
    troubles: list[object] = field(default_factory=list)
    completed: list[dict[str, str]] = field(default_factory=list)


class Watched(Slurm):
    """Keeps the last answer of squeue, as it came."""

    last: list[Any]

    def jobs(self) -> list[Any]:
        self.last = super().jobs()
        return self.last


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with slurm_cluster(NODES) as sandbox:
        yield drive(sandbox, tmp_path_factory.mktemp("dynamic") / "log")


def drive(sandbox: Sandbox, log: Path) -> Live:
    """Run the experiment."""
    slurm = Watched(sandbox.environment)
    config = config_of(slurm.configuration(), user_by="account", partitions=("main",))
    seen = Live(log, time.time())

    class Watcher(Observer):
        last = 0.0

        def on_decision(self, decision: Decision) -> None:
            t, placed = decision.time - seen.started, decision.placed or ()
            self.last = writer.write(t, decision.snapshot, placed) or self.last
            seen.observations.append(Observation(self.last + SHIFT, slurm.last, len(placed)))

        def on_cycle(self, cycle: Cycle) -> None:
            found = (cycle.failed, cycle.recalled, cycle.cluster.broken)
            seen.troubles.extend(filter(None, found))

        def on_failure(self, failure: CycleFailure) -> None:
            seen.troubles.append(failure)

    with JournalWriter(
        log, {"policy": POLICY, "engine": "slurm", "started": seen.started}
    ) as writer:
        controller = SlurmController(slurm, config, SchedulerCache(POLICY), observers=[Watcher()])
        service = Service(controller, interval=0.2)
        thread = threading.Thread(target=service.run)
        thread.start()
        try:
            submit_all_and_watch(sandbox, seen)
        finally:
            service.stop()
            thread.join()
    sandbox.wait(lambda: len(sandbox.completed()) >= sum(TASKS.values()), 20, "the log")
    seen.completed = sandbox.completed()
    return seen


def submit_all_and_watch(sandbox: Sandbox, seen: Live) -> None:
    """Let the users join, ask squeue again and again, and return when all is done."""
    end, todo = time.monotonic() + 300, dict(JOINS)
    while todo or living(sandbox):
        assert time.monotonic() < end, "the jobs do not come to an end"
        done = len(sandbox.completed())
        for user in [user for user, after in todo.items() if done >= after]:
            del todo[user]
            demand, array = DEMANDS[user], f"--array=0-{TASKS[user] - 1}"
            sandbox.submit(SLEEP, array, account=user, cpus=demand.cpu, memory=demand.mem)
        before = time.time()
        jobs = sandbox.jobs()
        seen.between.append((before, time.time(), jobs))
        time.sleep(0.2)
    observations = len(seen.observations)
    sandbox.wait(
        lambda: len(seen.observations) > observations + 1, 30, "a state that shows them gone"
    )


# What Slurm says, read here and nowhere else


def held(job: Mapping[str, Any]) -> bool:
    """Return whether a job has its node; while it is being cleaned up it still does."""
    return job["job_state"] in ("RUNNING", "COMPLETING")


def in_flight(job: Mapping[str, Any]) -> bool:
    """Return whether a job is released and has not started."""
    return bool(job["job_state"] == "PENDING" and job["priority"] > 0)


def name_of(job: Mapping[str, Any]) -> str:
    return f"{job['array_job_id']}_{job['array_task_id']}"


def amounts(tres: str) -> Shape:
    """Return CPUs and MiB of such as ``cpu=4,mem=6G,node=1,billing=4``."""
    pairs = dict(pair.split("=") for pair in tres.split(","))
    unit = {"M": 1, "G": 1024}[pairs["mem"][-1]]
    return Shape(int(pairs["cpu"]), round(float(pairs["mem"][:-1]) * unit))


def total(several: Iterable[Shape]) -> Shape:
    listed = list(several)
    return Shape(sum(one.cpu for one in listed), sum(one.mem for one in listed))


def dominant(used: Shape) -> float:
    return max(used.cpu / TOTALS.cpu, used.mem / TOTALS.mem)


def measured(jobs: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return the dominant share of each user in what has a node."""
    holding = [job for job in jobs if held(job)]
    return {
        user: dominant(
            total(amounts(job["tres_alloc_str"]) for job in holding if job["account"] == user)
        )
        for user in DEMANDS
    }


# What the simulator says


class Ran(NamedTuple):
    """A task of a simulation."""

    name: str
    user: str
    submission: float
    start: float
    end: float
    server: str


def ran(result: Result) -> list[Ran]:
    assert result.tasks is not None
    return [Ran(*row) for row in result.tasks.select("job", *Ran._fields[1:]).rows()]


def holding(tasks: Iterable[Ran], time: float) -> dict[str, Ran]:
    """Return what has a server when the state is read, before more is placed."""
    return {task.name: task for task in tasks if task.start < time < task.end}


def shares(tasks: Iterable[Ran]) -> dict[str, float]:
    count = Counter(task.user for task in tasks)
    return {
        user: dominant(Shape(count[user] * demand.cpu, count[user] * demand.mem))
        for user, demand in DEMANDS.items()
    }


@pytest.fixture(scope="module")
def journal(live: Live) -> Journal:
    return read_journal(live.log)


@pytest.fixture(scope="module")
def recorded(journal: Journal) -> JournalWorkload:
    return workload_of(journal)


@pytest.fixture(scope="module")
def simulated(recorded: JournalWorkload) -> list[Ran]:
    return ran(drfh.simulate(recorded.cluster, recorded.workload, POLICY, log=True))


# Placement by placement


def test_nothing_went_wrong_on_the_way(live: Live, recorded: JournalWorkload) -> None:
    assert live.troubles == []
    assert sum(observation.placed for observation in live.observations) == sum(TASKS.values())
    assert recorded.finished
    assert recorded.remarks == ()


def test_the_recorded_run_is_reproduced_in_its_order(journal: Journal) -> None:
    again = replay(journal)
    assert (again.same, again.matching) == (True, sum(TASKS.values())), str(again)


def test_the_simulator_places_as_the_controller_did(
    recorded: JournalWorkload, simulated: list[Ran]
) -> None:
    noted = recorded.placements.select("task", "user", "submission", "start", "end", "server")
    assert sorted(noted.rows()) == sorted(simulated)


def test_the_simulator_places_as_slurm_ran_them(live: Live, simulated: list[Ran]) -> None:
    where = {task.name: task.server for task in simulated}
    for jobs in (
        *(observation.jobs for observation in live.observations),
        *(jobs for *_, jobs in live.between),
    ):
        running = [job for job in jobs if held(job)]
        assert {name_of(job): job["nodes"] for job in running}.items() <= where.items()
        for node in NODES:
            used = total(amounts(j["tres_alloc_str"]) for j in running if j["nodes"] == node.name)
            assert used.cpu <= node.cpus
            assert used.mem <= node.memory
    log = {f"{line['ArrayJobId']}_{line['ArrayTaskId']}": line for line in live.completed}
    assert {name: line["NodeList"] for name, line in log.items()} == where
    assert len(live.completed) == len(log)  # each ran once
    assert {line["ExitCode"] for line in live.completed} == {"0:0"}
    for task in simulated:
        # It started after it was placed, and had ended when it was missed. The log has whole
        # seconds, cut off, of a clock that may be a few milliseconds behind.
        started, ended = (
            datetime.fromisoformat(log[task.name][key]).timestamp() - live.started + SHIFT
            for key in ("StartTime", "EndTime")
        )
        assert task.start - 1.1 < started <= ended <= task.end


# The shares


def test_shares_in_squeue_follow_the_simulator_at_every_look(
    live: Live, simulated: list[Ran]
) -> None:
    exact = 0
    for observation in live.observations:
        expected = holding(simulated, observation.time)
        late = {name_of(job) for job in observation.jobs if in_flight(job)}
        # What was released has its server in the simulation already; that is all they differ by.
        assert late <= expected.keys()
        started = [task for name, task in expected.items() if name not in late]
        assert measured(observation.jobs) == shares(started)
        if not late:
            assert measured(observation.jobs) == shares(expected.values())
            exact += bool(expected)
    assert exact > 0


def test_shares_in_squeue_between_looks_follow_the_simulator(
    live: Live, simulated: list[Ran]
) -> None:
    for before, after, jobs in live.between:
        first, last = (moment - live.started + SHIFT for moment in (before, after))
        possible = {t.name: t for t in simulated if t.start <= last and t.end >= first}
        running = {name_of(job) for job in jobs if held(job)}
        assert running <= possible.keys()
        # The simulator has more only by jobs that Slurm was about to start, or that had ended
        # and were missed in the next state, or that came or went while squeue was asked.
        assert measured(jobs) == shares(possible[name] for name in running)


def test_shares_in_the_completion_log_follow_the_simulator(
    live: Live, simulated: list[Ran]
) -> None:
    seconds = dict.fromkeys(DEMANDS, 0.0)
    for line in live.completed:
        start, end = (datetime.fromisoformat(line[key]) for key in ("StartTime", "EndTime"))
        assert amounts(line["Tres"]) == DEMANDS[line["Account"]]
        seconds[line["Account"]] += (end - start).total_seconds()
    for user in DEMANDS:
        own = [task for task in simulated if task.user == user]
        slept = sum(DURATIONS[int(task.name.partition("_")[2]) % 7] for task in own)
        # A job runs at least as long as it sleeps, and no longer than it has its server in the
        # simulation; whole seconds are off by less than one at either end.
        assert slept - len(own) <= seconds[user] <= sum(t.end - t.start for t in own) + len(own)


def test_users_who_join_and_leave_have_the_shares_of_the_experiment(
    live: Live, simulated: list[Ran]
) -> None:
    found = steady(simulated, [observation.time for observation in live.observations])
    ahead = steady(simulated_ahead(), [0.05 * step for step in range(800)])
    phases = [users for users, _ in PHASES]
    assert [set(users) for users in found if users in phases] == phases
    job = max(map(dominant, DEMANDS.values()))
    for users, paper in PHASES:
        for user in DEMANDS:
            real, virtual = (
                fmean(r[user] for r in rows[frozenset(users)]) for rows in (found, ahead)
            )
            # Jobs end in another order: one job more or less of anybody.
            assert real == pytest.approx(virtual, abs=job)
            if paper is not None:
                assert real == pytest.approx(paper if user in users else 0.0, abs=job)


def simulated_ahead() -> list[Ran]:
    """Return the same experiment in the simulator alone, at times that leave room for it."""
    cluster = drfh.Cluster(
        drfh.Server({"cpu": node.cpus, "memory": node.memory}, name=node.name) for node in NODES
    )
    plan = {"user-1": (0, 320), "user-2": (10, 200), "user-3": (20, 230)}  # when, how many
    jobs = [
        drfh.Job(
            user,
            demand={"cpu": DEMANDS[user].cpu, "memory": DEMANDS[user].mem},
            duration=DURATIONS[index % 7],
            arrival=plan[user][0],
            name=f"{user}_{index}",
        )
        for user in DEMANDS
        for index in range(plan[user][1])
    ]
    return ran(drfh.simulate(cluster, drfh.Workload(list(DEMANDS), jobs), POLICY, log=True))


def steady(
    tasks: Sequence[Ran], times: Sequence[float]
) -> dict[frozenset[str], list[dict[str, float]]]:
    """Return the shares by who has jobs that wait, once all jobs of the time before have ended."""

    def waiting(time: float) -> frozenset[str]:
        return frozenset(task.user for task in tasks if task.submission <= time < task.start)

    rows: dict[frozenset[str], list[dict[str, float]]] = {}
    for users, group in groupby(times, key=waiting):
        listed = list(group)
        settled = max((t.end for t in tasks if t.start < listed[0]), default=0.0)
        here = [
            shares(task for task in tasks if task.start <= time < task.end)
            for time in listed
            if time >= settled
        ]
        if here:
            rows.setdefault(users, []).extend(here)
    return rows


# Another policy


def test_the_command_replays_the_log(live: Live) -> None:
    result = CliRunner().invoke(app, ["replay", str(live.log), "--policy", "slots:14", "--json"])
    assert result.exit_code == 0, result.output
    data = json.loads(result.output)
    assert data["replay"]["same"] is True
    assert [run["run"] for run in data["runs"]] == ["observed", POLICY, "slots:14"]
    assert [run["done"] for run in data["runs"]] == [sum(TASKS.values())] * 3


def test_another_policy_gives_another_valid_answer(
    journal: Journal, recorded: JournalWorkload, simulated: list[Ran]
) -> None:
    answer = what_if(journal, [POLICY, "slots:14"])
    _, same, other = answer.table["runs"]
    assert same["as_recorded"] == len(simulated)
    assert other["done"] == len(simulated) > other["as_recorded"]
    tasks = ran(answer.results[1])
    arrivals = {task.name: task.submission for task in simulated}
    assert {task.name: task.submission for task in tasks} == arrivals
    assert all(task.start >= task.submission for task in tasks)
    sizes = {node.name: Shape(node.cpus, node.memory) for node in NODES}
    for moment in {task.start for task in tasks}:
        used: dict[str, list[Shape]] = {}
        for task in tasks:
            if task.start <= moment < task.end:
                used.setdefault(task.server, []).append(DEMANDS[task.user])
        assert all(
            total(shapes).cpu <= sizes[name].cpu and total(shapes).mem <= sizes[name].mem
            for name, shapes in used.items()
        )
