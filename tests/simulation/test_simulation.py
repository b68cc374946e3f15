"""The simulator: hand-made cases, conservation laws, exact integrals, run directories."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import drfh
from drfh import AddServers, Cluster, InputError, Job, RemoveServers, ResizeServer, Server, Workload
from drfh.policies import POLICIES, Policy
from drfh.simulation import Progress, Result
from drfh.simulation.driver import PlainDriver
from drfh.simulation.metrics import Samples, read_usage, time_span
from drfh.simulation.plan import build
from drfh.simulation.result import common_jobs
from tests.simulation.naive_simulator import Naive

ONE = Cluster([Server({"cpu": 1}, name="a")])
TIMINGS = ("seconds",)


def cpu(user: str, duration: Any, amount: float = 1, **more: Any) -> Job:
    return Job(user, demand={"cpu": amount}, duration=duration, **more)


def run(cluster: Cluster, jobs: list[Job], *events: Any, **options: Any) -> Result:
    names = sorted({job.user for job in jobs})
    return drfh.simulate(cluster, Workload(names, jobs, events), **options)


def facts(result: Result) -> dict[str, Any]:
    return {k: v for k, v in result.summary().items() if k not in TIMINGS}


# Instants


def test_releases_come_before_arrivals() -> None:
    result = run(ONE, [cpu("ann", 10), cpu("bob", 5, arrival=10)])
    assert result.jobs["first_start"].to_list() == [0, 10]
    assert result.jobs["finish"].to_list() == [10, 15]
    assert result.summary()["utilisation"] == {"cpu": 1.0}


def test_arrivals_of_one_instant_are_placed_together() -> None:
    # Bob comes second in the list, but both are there when the policy looks.
    jobs = [cpu("ann", 4, tasks=2), cpu("bob", 4), cpu("ann", 4, arrival=0)]
    result = run(Cluster([Server({"cpu": 2})]), jobs, log=True)
    assert result.tasks is not None
    assert result.tasks["start"].to_list() == [0, 4, 0, 4]


def test_tasks_of_no_duration_end_at_once_and_make_room() -> None:
    result = run(ONE, [cpu("ann", 0, tasks=3, arrival=5), cpu("ann", 2, arrival=5)])
    assert result.jobs["finish"].to_list() == [5, 7]
    assert result.jobs["stretch"].to_list() == [None, 1.0]
    assert result.summary()["utilisation"]["cpu"] == pytest.approx(2 / 7)
    assert result.summary()["placements"] == 4


def test_a_duration_that_is_lost_in_the_clock_ends_at_once() -> None:
    result = run(ONE, [cpu("ann", 1e-9, tasks=2, arrival=1e9)])
    assert result.jobs["finish"].to_list() == [1e9]
    assert result.summary()["tasks"]["completed"] == 2


@pytest.mark.parametrize("engine", ["plain", "indexed"])
def test_at_the_horizon_tasks_end_and_arrive_and_none_starts(engine: Any) -> None:
    jobs = [cpu("ann", 10, tasks=2), cpu("ann", 1, arrival=10), cpu("bob", 0, arrival=10)]
    result = run(ONE, jobs, until=10, engine=engine, log=True)
    tasks = result.summary()["tasks"]
    assert (tasks["completed"], tasks["running"], tasks["queued"]) == (1, 0, 3)
    assert (tasks["started"], result.summary()["placements"]) == (1, 1)
    assert result.summary()["mean_waiting"] == 0  # not (0 + 10) / 2
    assert result.horizon == 10
    assert result.jobs["finish"].to_list() == [None, None, None]
    assert result.jobs["done"].to_list() == [1, 0, 0]
    assert result.tasks is not None
    assert result.tasks["start"].to_list() == [0, None, None, None]
    longer = run(ONE, jobs[:2], until=50, interval=10, engine=engine)
    assert longer.summary()["utilisation"]["cpu"] == pytest.approx(21 / 50)
    assert longer.samples["time"].to_list() == [0, 10, 20, 30, 40]


@pytest.mark.parametrize("engine", ["plain", "indexed"])
def test_servers_change_at_the_horizon_and_nothing_starts_on_them(engine: Any) -> None:
    events = [RemoveServers(10, "a"), AddServers(10, Server({"cpu": 5}, name="b"))]
    result = run(ONE, [cpu("ann", 15, tasks=2)], *events, until=10, engine=engine, log=True)
    tasks = result.summary()["tasks"]
    assert (tasks["evictions"], tasks["running"], tasks["queued"]) == (1, 0, 2)
    assert result.summary()["utilisation"] == {"cpu": 1.0}
    assert result.tasks is not None
    assert result.tasks["lost"].to_list() == [10, 0]


def test_without_a_horizon_it_ends_when_nothing_more_happens() -> None:
    jobs = [cpu("ann", math.inf), cpu("ann", 1), cpu("bob", 1, amount=2)]
    result = run(ONE, jobs)
    assert result.horizon == 0
    tasks = result.summary()["tasks"]
    assert (tasks["running"], tasks["queued"], tasks["never"]) == (1, 1, 1)
    assert result.summary()["utilisation"] == {"cpu": 0.0}
    assert result.jobs["stretch"].to_list() == [None, None, None]
    assert len(result.samples) == 1


@pytest.mark.parametrize("engine", ["plain", "indexed"])
def test_server_events_after_the_last_task_do_not_stretch_the_run(engine: Any) -> None:
    events = [AddServers(3, Server({"cpu": 1}, name="b")), RemoveServers(1000, "b")]
    result = run(ONE, [cpu("ann", 5)], *events, interval=1, engine=engine)
    assert result.horizon == 5
    assert result.samples["time"].to_list() == [0, 1, 2, 3, 4, 5]
    assert result.summary()["utilisation"]["cpu"] == pytest.approx(5 / 7)
    # One that ends then still counts, and so does one that somebody waits for.
    assert run(ONE, [cpu("ann", 5)], RemoveServers(5, "a"), engine=engine).horizon == 5
    waits = run(ONE, [cpu("ann", 5), cpu("ann", 1, amount=9)], *events, engine=engine)
    assert waits.horizon == 1000
    assert run(ONE, [cpu("ann", math.inf)], *events, engine=engine).horizon == 1000
    later = run(ONE, [cpu("ann", 1, arrival=2000)], *events, engine=engine)
    assert later.horizon == 2001


def test_samples_see_what_is_after_the_instant() -> None:
    result = run(ONE, [cpu("ann", 10), cpu("bob", 10, arrival=10)], interval=5)
    assert result.samples["share.ann"].to_list() == [1, 1, 0, 0, 0]
    assert result.samples["share.bob"].to_list() == [0, 0, 1, 1, 0]
    assert result.samples["running"].to_list() == [1, 1, 1, 1, 0]
    assert result.samples["queued"].to_list() == [0] * 5


def test_waiting_is_counted_by_task_and_by_job() -> None:
    result = run(ONE, [cpu("ann", 4, tasks=3, arrival=1)])
    assert result.users["mean_waiting"].to_list() == [4.0]
    assert result.jobs.select("waiting", "turnaround", "stretch").rows() == [(0.0, 12.0, 3.0)]
    assert result.users["mean_share"].to_list() == [pytest.approx(12 / 13)]


def test_a_job_of_several_batches_is_one_row() -> None:
    jobs = [cpu("ann", 2, name="j", arrival=3), cpu("ann", 4, amount=0.5, name="j", arrival=1)]
    result = run(ONE, jobs, log=True)
    assert result.jobs.select("tasks", "submission", "finish").rows() == [(2, 1.0, 7.0)]
    assert result.jobs["stretch"].to_list() == [6 / 4]
    assert result.tasks is not None
    assert result.tasks.select("task", "submission", "start", "end", "server").rows() == [
        (0, 3.0, 5.0, 7.0, "a"),
        (1, 1.0, 1.0, 5.0, "a"),
    ]


# Servers


def test_a_server_that_leaves_sends_its_tasks_back_to_start_again() -> None:
    back = AddServers(8, Server({"cpu": 1}, name="a"))
    result = run(ONE, [cpu("ann", 10, tasks=2)], RemoveServers(5, "a"), back, log=True)
    assert result.jobs.select("first_start", "finish").rows() == [(0.0, 28.0)]
    assert result.users.select("evictions", "started", "completed").rows() == [(1, 2, 2)]
    assert result.users["mean_waiting"].to_list() == [9.0]  # of first starts: 0 and 18
    assert result.summary()["placements"] == 3
    assert result.tasks is not None
    columns = ("user", "first_start", "start", "end", "server", "evictions", "lost")
    assert result.tasks.select(columns).rows() == [
        ("ann", 0.0, 8.0, 18.0, "a", 1, 5.0),
        ("ann", 18.0, 18.0, 28.0, "a", 0, 0.0),
    ]
    # 25 seconds of use in 25 seconds of server.
    assert result.summary()["utilisation"] == {"cpu": 1.0}
    assert result.users["mean_share"].to_list() == [pytest.approx(25 / 28)]


def test_a_task_that_ends_when_its_server_leaves_is_done() -> None:
    result = run(ONE, [cpu("ann", 5)], RemoveServers(5, "a"))
    assert result.jobs["finish"].to_list() == [5]
    assert result.summary()["tasks"]["evictions"] == 0


def test_a_server_that_shrinks_sends_back_the_newest_tasks() -> None:
    cluster = Cluster([Server({"cpu": 3}, name="a")])
    jobs = [cpu("ann", 10, name="old"), cpu("ann", 10, name="new", arrival=1, tasks=2)]
    result = run(cluster, jobs, ResizeServer(4, "a", {"cpu": 2}), log=True)
    assert result.tasks is not None
    assert result.tasks["end"].to_list() == [10, 11, 20]
    assert result.summary()["tasks"]["evictions"] == 1


def test_shares_follow_the_servers_that_are_up() -> None:
    more = AddServers(5, Server({"cpu": 3}, name="b"))
    result = run(ONE, [cpu("ann", 10)], more, interval=5)
    assert result.samples["share.ann"].to_list() == [1, 0.25, 0]
    assert result.users["mean_share"].to_list() == [pytest.approx((5 + 5 / 4) / 10)]
    assert result.summary()["utilisation"]["cpu"] == pytest.approx(10 / (5 + 20))


def test_tasks_that_never_fit_run_when_a_server_grows() -> None:
    cluster = Cluster([Server({"cpu": 1}, name="a"), Server({"cpu": 1}, name="b")])
    jobs = [cpu("ann", 1, amount=2), cpu("ann", 1)]
    result = run(cluster, jobs, ResizeServer(7, "b/0", {"cpu": 2}))
    assert result.jobs["first_start"].to_list() == [7, 0]


def test_servers_may_bring_a_resource_that_was_not_there() -> None:
    event = AddServers(9, Server({"cpu": 4, "gpu": 2}, name="g", count=2))
    job = Job("ann", demand={"cpu": 1, "gpu": 1}, duration=1, tasks=4)
    result = run(ONE, [job], event, interval=9)
    assert result.jobs.select("first_start", "finish").rows() == [(9.0, 10.0)]
    assert result.samples["utilisation.gpu"].to_list() == [0, 1]


@pytest.mark.parametrize("engine", ["plain", "indexed"])
def test_servers_may_outgrow_the_units_of_the_start(engine: Any) -> None:
    cluster = Cluster([Server({"cpu": 8}, name="a")])
    job = Job("ann", demand={"cpu": 2e6}, duration=8, tasks=5, arrival=2)
    events = [AddServers(2, Server({"cpu": 7_999_992}, name="new"))]
    result = drfh.simulate(cluster, Workload(["ann"], [job], events), log=True, engine=engine)
    assert result.tasks is not None
    assert result.tasks["start"].to_list() == [2, 2, 2, 10, 10]
    assert result.users["mean_share"].to_list() == [40 * 2e6 / 8e6 / 18]


def test_a_group_leaves_without_those_that_left_before() -> None:
    cluster = Cluster([Server({"cpu": 1}, name="a", count=3), Server({"cpu": 1}, name="b")])
    jobs = [cpu("ann", 10, tasks=4)]
    result = run(cluster, jobs, RemoveServers(1, "a/1"), RemoveServers(2, "a"), interval=1)
    assert result.samples["running"].to_list()[:3] == [4, 3, 1]


def test_a_server_that_comes_back_with_other_labels_has_other_guests() -> None:
    cluster = Cluster([Server({"cpu": 1}, name="a", labels={"zone": "x"})])
    jobs = [
        cpu("ann", 1, arrival=5, servers={"zone": "x"}),
        cpu("bob", 1, arrival=5, servers={"zone": "y"}),
        cpu("eve", 1, arrival=5, servers="a"),
    ]
    back = AddServers(4, Server({"cpu": 1}, name="a", labels={"zone": "y"}))
    result = run(cluster, jobs, RemoveServers(3, "a"), back)
    assert result.jobs["finish"].to_list() == [None, 6, 7]
    assert result.summary()["tasks"]["never"] == 1


def test_a_name_may_be_a_server_first_and_a_group_later() -> None:
    pair = AddServers(4, Server({"cpu": 1}, name="a", count=2))
    jobs = [cpu("ann", 1, tasks=2, arrival=5, servers="a"), cpu("ann", 1, servers="a")]
    result = run(ONE, jobs, RemoveServers(3, "a"), pair, log=True)
    assert result.tasks is not None
    assert result.tasks["server"].to_list() == ["a/0", "a/1", "a"]


# Restrictions and policies


def test_restrictions_of_user_and_job_hold_together() -> None:
    cluster = Cluster([
        Server({"cpu": 1}, name=name, labels={"zone": zone, "kind": kind})
        for name, zone, kind in (("a", "x", "k"), ("b", "x", "l"), ("c", "y", "l"))
    ])  # fmt: skip
    ann = drfh.User("ann", servers={"zone": "x"})
    jobs = [cpu("ann", 1, tasks=3, servers={"kind": "l"})]
    result = drfh.simulate(cluster, Workload([ann], jobs), log=True)
    assert result.tasks is not None
    assert result.tasks["server"].to_list() == ["b"] * 3


def test_predicates_and_single_servers() -> None:
    cluster = Cluster([Server({"cpu": n}, name=f"s{n}") for n in (1, 2, 3)])
    jobs = [
        cpu("ann", 1, servers=lambda server: server.resources["cpu"] == 3),
        cpu("ann", 1, servers="s2/0"),
    ]
    result = run(cluster, jobs, log=True)
    assert result.tasks is not None
    assert result.tasks["server"].to_list() == ["s3", "s2"]


@pytest.mark.parametrize("policy", [*POLICIES, "slots:4", "hdrf+first-fit", "tsf", "asset+cosine"])
def test_policies_run_and_repeat(policy: str) -> None:
    scenario = drfh.load_scenario("gpu-day")
    first = drfh.simulate(scenario.cluster, scenario.workload, policy, seed=3, interval=3600)
    again = drfh.simulate(scenario.cluster, scenario.workload, policy, seed=3, interval=3600)
    assert facts(first) == facts(again)
    for table in ("jobs", "users", "samples"):
        assert getattr(first, table).equals(getattr(again, table))


def test_seeds_change_what_is_drawn() -> None:
    cluster = Cluster([Server({"cpu": 1}, name="a", count=50)])
    tables = [run(cluster, [cpu("ann", 1, tasks=5)], policy="mesos", seed=s, log=True).tasks
              for s in (0, 1)]  # fmt: skip
    assert tables[0] is not None
    assert tables[1] is not None
    assert tables[0]["server"].to_list() != tables[1]["server"].to_list()


def test_own_functions_see_names() -> None:
    seen: set[str] = set()

    def newest(user: Any) -> float:
        seen.add(user.name)
        return -float(user.index)

    jobs = [cpu("ann", 1), cpu("bob", 1)]
    result = run(ONE, jobs, policy=Policy(turn=newest, choice=lambda task, server: 0.0))
    assert result.jobs["first_start"].to_list() == [1, 0]
    assert seen == {"ann", "bob"}
    assert result.policy.startswith("newest+")


def test_groups_of_users_share_under_hdrf() -> None:
    users = [drfh.User("a"), drfh.User("b", parent="team"), drfh.User("c", parent="team")]
    jobs = [cpu(name, 10, tasks=8) for name in "abc"]
    cluster = Cluster([Server({"cpu": 8})])
    result = drfh.simulate(cluster, Workload(users, jobs), "hdrf", until=5, interval=1)
    assert result.samples.select("share.a", "share.b", "share.c").row(0) == (0.5, 0.25, 0.25)


def test_the_experiment_of_the_paper() -> None:
    scenario = drfh.load_scenario("paper-dynamic")
    short = scenario.workload.until(500)
    result = drfh.simulate(scenario.cluster, short, interval=20, until=560, engine="plain")
    at = {row["time"]: row for row in result.samples.iter_rows(named=True)}
    alone = at[180]
    assert alone["running"] == 106
    assert alone["utilisation.cpu"] == pytest.approx(0.4019, abs=5e-5)
    assert alone["utilisation.memory"] == pytest.approx(0.6197, abs=1e-4)
    two = at[480]
    assert two["share.user-1"] == pytest.approx(0.44, abs=0.02)
    assert two["share.user-2"] == pytest.approx(0.44, abs=0.02)
    assert two["share.user-3"] == 0


# Conservation, and integrals against the log of tasks

amounts = st.integers(0, 4)
seconds = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, math.inf])


@st.composite
def workloads(draw: Callable[..., Any], events: bool = True) -> tuple[Cluster, Workload]:
    servers = [
        Server({"cpu": draw(st.integers(1, 6)), "memory": draw(st.integers(1, 6))}, name=f"s{i}")
        for i in range(draw(st.integers(1, 3)))
    ]
    users = [drfh.User(name, weight=draw(st.sampled_from([1, 2]))) for name in "abc"]
    jobs = []
    for _ in range(draw(st.integers(1, 6))):
        demand = {"cpu": draw(amounts), "memory": draw(amounts)}
        if not any(demand.values()):
            demand["cpu"] = 1
        jobs.append(
            Job(
                draw(st.sampled_from("abc")),
                demand=demand,
                duration=draw(seconds),
                tasks=draw(st.integers(1, 5)),
                arrival=draw(st.integers(0, 5)),
                servers=draw(st.sampled_from([None, "s0"])),
            )
        )
    happens: list[Any] = []
    if events and draw(st.booleans()):
        size = {"cpu": draw(st.integers(1, 6)), "memory": draw(st.integers(1, 6))}
        happens = [
            ResizeServer(draw(st.integers(0, 3)), "s0", size),
            RemoveServers(draw(st.integers(4, 5)), "s0"),
            AddServers(draw(st.integers(6, 8)), Server(size, name="s0")),
        ]
    return Cluster(servers), Workload(users, jobs, happens)


@given(workloads(), st.sampled_from(["best-fit-drfh", "fifo", "slots:3", "drfh+random+backfill"]))
def test_no_task_is_lost_or_made(case: tuple[Cluster, Workload], policy: str) -> None:
    cluster, workload = case
    result = drfh.simulate(cluster, workload, policy, until=9, log=True, interval=1, fair=True)
    tasks = result.summary()["tasks"]
    ends = ("completed", "running", "queued", "never")
    assert sum(tasks[state] for state in ends) == tasks["submitted"] == workload.task_count
    assert result.users["completed"].sum() == tasks["completed"] == result.jobs["done"].sum()
    stopped = tasks["completed"] + tasks["running"] + tasks["evictions"]
    assert result.summary()["placements"] == stopped
    log = result.tasks
    assert log is not None
    assert log["end"].is_not_null().sum() == tasks["completed"]
    done = log.filter(pl.col("end").is_not_null())
    assert (done["end"] - done["start"]).to_list() == pytest.approx(done["duration"].to_list())
    assert (done["start"] >= done["submission"]).all()
    missing, distance = result.samples["fair.missing"], result.samples["fair.distance"]
    assert ((missing >= 0) & (missing <= distance + 1e-9) & (distance <= 1)).all()


def three_weighted() -> drfh.Result:
    """Return a run in which bob, of weight 2, waits behind ann, and eve comes and goes."""
    users = [drfh.User("ann"), drfh.User("bob", weight=2), drfh.User("eve")]
    jobs = [
        Job("ann", demand={"cpu": 1}, duration=10, tasks=8),
        Job("bob", demand={"cpu": 2, "memory": 1}, duration=5, tasks=4, arrival=3),
        Job("eve", demand={"memory": 3}, duration=4, tasks=1, arrival=4),
    ]
    cluster = Cluster([Server({"cpu": 4, "memory": 4}, count=2)])
    return drfh.simulate(cluster, Workload(users, jobs), until=20, interval=1, fair=True)


def test_the_missing_share_is_that_of_its_formula() -> None:
    """Σ w·max(0, fair − level) / Σ w·fair over the active users."""
    result = three_weighted()
    weight = dict(result.users.select("user", "weight").rows())
    for row in result.samples.rows(named=True):
        fair = {n: row[f"fair_level.{n}"] for n in weight if row[f"fair_level.{n}"] is not None}
        short = sum(w * max(0.0, fair[n] - row[f"share.{n}"] / w)
                    for n, w in weight.items() if n in fair)  # fmt: skip
        total = sum(weight[n] * level for n, level in fair.items())
        assert row["fair.missing"] == pytest.approx(short / total if total else 0.0, abs=1e-8)
    numbers = result.summary()["fair"]
    assert numbers["mean_missing"] == pytest.approx(result.samples["fair.missing"].mean())
    assert numbers["max_missing"] == result.samples["fair.missing"].max()
    # The worst-off user alone would say that nothing is as it should be.
    assert 0 < numbers["max_missing"] < numbers["max_distance"] == 1


def test_a_run_directory_of_old_gets_the_missing_share(tmp_path: Path) -> None:
    result = three_weighted()
    result.save(tmp_path / "run")
    result.samples.drop("fair.missing").write_parquet(tmp_path / "run" / "samples.parquet")
    numbers = result.summary()
    for name in ("mean_missing", "max_missing"):
        del numbers["fair"][name]
    (tmp_path / "run" / "summary.json").write_text(json.dumps(numbers))
    again = drfh.Result.load(tmp_path / "run")
    assert_frame_equal(again.samples, result.samples, check_exact=True)
    assert again.summary() == result.summary()


@given(workloads(), st.sampled_from(["plain", "indexed"]), st.sampled_from([None, 7.0]))
@settings(max_examples=30)
def test_the_summary_can_be_had_from_the_task_log(
    case: tuple[Cluster, Workload], engine: Any, until: float | None
) -> None:
    cluster, workload = case
    result = drfh.simulate(cluster, workload, until=until, log=True, engine=engine)
    log, numbers = result.tasks, result.summary()
    assert log is not None
    waiting = (log["first_start"] - log["submission"]).drop_nulls()
    assert waiting.len() == numbers["tasks"]["started"]
    assert waiting.mean() == (
        None if numbers["mean_waiting"] is None else pytest.approx(numbers["mean_waiting"])
    )
    by_user = log.group_by("user").agg(pl.col("evictions").sum(), pl.col("end").count())
    expected = result.users.filter(pl.col("submitted") > 0).select("user", "evictions", "completed")
    assert sorted(by_user.rows()) == sorted(expected.rows())
    assert log["evictions"].sum() == numbers["tasks"]["evictions"]
    runs = log.filter(pl.col("start").is_not_null())
    assert runs["end"].is_null().sum() == numbers["tasks"]["running"]
    # What was used of the CPU: runs that count, and runs that were cut short.
    ran = (log["end"].fill_null(result.horizon) - log["start"]).fill_null(0) + log["lost"]
    need = np.repeat(workload.demand[workload.batch_shape], workload.batch_count, axis=0)
    column = workload.resources.index("cpu") if "cpu" in workload.resources else None
    used = 0.0 if column is None else float(ran.to_numpy() @ need[:, column])
    mean = numbers["utilisation"]["cpu"]
    if not workload.events and result.horizon > 0:
        assert mean == pytest.approx(used / cluster.totals[0] / result.horizon)
    else:
        assert (mean > 0) == (used > 0)


@given(workloads(events=False))
@settings(max_examples=60)
def test_integrals_are_those_of_the_task_log(case: tuple[Cluster, Workload]) -> None:
    cluster, workload = case
    until = 7.0
    result = drfh.simulate(cluster, workload, until=until, log=True)
    log = result.tasks
    assert log is not None
    start = log["start"].fill_null(math.inf).to_numpy()
    end = np.minimum(log["end"].fill_null(math.inf).to_numpy(), until)
    need = np.repeat(workload.demand[workload.batch_shape], workload.batch_count, axis=0)
    user = np.repeat(workload.batch_user, workload.batch_count)
    column = [workload.resources.index(r) if r in workload.resources else -1
              for r in cluster.resources]  # fmt: skip
    need = np.column_stack([need[:, c] if c >= 0 else np.zeros(len(need)) for c in column])
    used = (need * np.maximum(end - start, 0)[:, None]).sum(axis=0)
    expected = dict(zip(cluster.resources, (used / cluster.totals / until).tolist(), strict=True))
    assert result.summary()["utilisation"] == pytest.approx(expected)
    # Shares between all times at which something changes.
    times = np.unique(np.concatenate((start, end, [0.0, until])))
    times = times[times <= until]
    for i, mean in enumerate(result.users["mean_share"].to_list()):
        total = 0.0
        for left, right in pairwise(times.tolist()):
            held = need[(user == i) & (start <= left) & (end >= right)].sum(axis=0)
            total += float((held / cluster.totals).max()) * (right - left)
        assert mean == pytest.approx(total / until)
    # And never more on a server than it has.
    for name, size in zip(cluster.names, cluster.capacity, strict=True):
        here = (log["server"] == name).fill_null(value=False).to_numpy()
        for left, right in pairwise(times.tolist()):
            held = need[here & (start <= left) & (end >= right)].sum(axis=0)
            assert (held <= size).all()


@given(workloads(), st.sampled_from([None, 7.0]))
@settings(max_examples=60)
def test_utilisation_follows_from_a_run_directory_alone(
    case: tuple[Cluster, Workload], until: float | None
) -> None:
    with TemporaryDirectory() as folder:
        drfh.simulate(*case, "drfh+backfill", until, log=True).save(f"{folder}/run")
        result = Result.load(f"{folder}/run")
    log = result.tasks
    assert log is not None
    ran = (log["end"].fill_null(result.horizon) - log["start"]).fill_null(0) + log["lost"]
    for name, part in result.summary()["utilisation"].items():
        used = float((ran * log[f"demand.{name}"]).sum())
        there = result.config["capacity"][name] * result.horizon
        assert part == pytest.approx(used / there if there else 0.0)


@given(workloads())
def test_a_second_simulator_agrees(case: tuple[Cluster, Workload]) -> None:
    cluster, workload = case
    columns = [np.zeros(len(workload.demand)) if name not in workload.resources
               else workload.demand[:, workload.resources.index(name)]
               for name in cluster.resources]  # fmt: skip
    alone = Workload.from_arrays(
        ["ann"], cluster.resources, np.column_stack(columns),
        user=np.zeros_like(workload.batch_user), arrival=workload.batch_arrival,
        shape=workload.batch_shape, duration=workload.duration, count=workload.batch_count,
        events=workload.events,
    )  # fmt: skip
    result = drfh.simulate(cluster, alone, "fifo", until=9, log=True)
    naive = Naive(cluster, alone, 9.0)
    assert result.tasks is not None
    for name in ("start", "end"):
        times = result.tasks[name].to_list()
        found = {task: at for task, at in enumerate(times) if at is not None}
        known = getattr(naive, name).items()
        runs = naive.running.keys() | naive.end.keys()  # others were put back, and wait
        assert found == {naive.order[task]: at for task, at in known if task in runs}
    assert result.summary()["tasks"]["evictions"] == naive.evictions
    used = (naive.used / np.where(naive.capacity > 0, naive.capacity, 1)).tolist()
    assert list(result.summary()["utilisation"].values()) == pytest.approx(used)
    assert result.users["mean_share"].to_list() == pytest.approx([naive.share / 9])


@given(
    workloads(),
    st.sampled_from([*POLICIES, "slots:3", "tsf+cosine+backfill", "slots:2:overcommit+random"]),
    st.sampled_from([None, 7.5, 9]),
    st.sampled_from([2, 4096]),
)
@settings(max_examples=40)
def test_both_cores_give_the_same_run(
    case: tuple[Cluster, Workload], policy: str, until: float | None, at_once: int
) -> None:
    options: dict[str, Any] = {"until": until, "log": True, "interval": 1, "fair": True, "seed": 5}
    plain = drfh.simulate(*case, policy, engine="plain", **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("drfh.simulation.compiled._PLACED_AT_ONCE", at_once)
        fast = drfh.simulate(*case, policy, engine="indexed", **options)
    assert fast.info["engine"] == "indexed"
    assert facts(plain) == facts(fast)
    for table in ("jobs", "users", "samples", "tasks"):
        assert getattr(plain, table).equals(getattr(fast, table))


# Fair levels


def test_fair_levels_are_those_of_the_exact_mechanism() -> None:
    cluster = Cluster([Server({"cpu": 4, "memory": 8}, name="a"), Server({"cpu": 8, "memory": 4})])
    users = [drfh.User("ann", {"cpu": 1, "memory": 2}, weight=2), drfh.User("bob", {"cpu": 1})]
    jobs = [Job("ann", duration=5, tasks=9), Job("bob", duration=5, tasks=9)]
    result = drfh.simulate(cluster, Workload(users, jobs), "fifo", until=4, fair=True, interval=2)
    limited = [drfh.User("ann", {"cpu": 1, "memory": 2}, weight=2, tasks=9),
               drfh.User("bob", {"cpu": 1}, tasks=9)]  # fmt: skip
    levels = drfh.allocate(cluster, limited).levels
    row = result.samples.row(0, named=True)
    assert {name: row[f"fair_level.{name}"] for name in levels} == pytest.approx(levels)
    parts = {name: row[f"share.{name}"] / user.weight / levels[name]
             for name, user in zip(levels, users, strict=True)}  # fmt: skip
    assert row["fair.distance"] == pytest.approx(1 - min(parts.values()))
    assert row["fair.worst"] == min(parts, key=lambda name: parts[name])
    assert result.summary()["fair"]["max_distance"] == pytest.approx(row["fair.distance"])


def test_users_with_tasks_that_differ_are_counted() -> None:
    jobs = [cpu("ann", 9), cpu("ann", 9, amount=0.5), cpu("bob", 9, tasks=3), cpu("eve", 5),
            cpu("eve", 9, amount=0.5, arrival=100), cpu("dan", 9), cpu("dan", 9, servers="a"),
            cpu("fay", 1), cpu("fay", 1, amount=9)]  # fmt: skip
    result = run(Cluster([Server({"cpu": 4}, name="a")]), jobs, interval=1, fair=True)
    assert result.summary()["fair"]["mixed_users"] == 1  # fay's other task never runs


def test_time_below_fair_is_that_of_the_samples() -> None:
    # Bob's tasks are in front under fifo, ann has nothing for 10 seconds.
    jobs = [cpu("bob", 10, tasks=2), cpu("ann", 10, arrival=0)]
    cluster = Cluster([Server({"cpu": 2})])
    result = run(cluster, jobs, policy="fifo", interval=2, fair=True)
    below = dict(result.users.select("user", "below_fair").rows())
    assert below == {"ann": 10.0, "bob": 0.0}
    assert result.samples["fair.worst"].to_list()[:5] == ["ann"] * 5
    assert result.samples["fair.worst"].to_list()[-1] is None
    # Nobody can be below fair for longer than the run.
    short = run(cluster, jobs, policy="fifo", interval=2, fair=True, until=10)
    assert dict(short.users.select("user", "below_fair").rows()) == {"ann": 10.0, "bob": 0.0}


def test_who_is_restricted_has_a_fair_level_on_its_servers() -> None:
    cluster = Cluster([Server({"cpu": 2}, name="a"), Server({"cpu": 6}, name="b")])
    jobs = [cpu("ann", 9, tasks=9, servers="a"), cpu("bob", 9, tasks=9), cpu("eve", 9, amount=7)]
    result = run(cluster, jobs, until=1, interval=1, fair=True)
    row = result.samples.row(0, named=True)
    assert (row["fair_level.ann"], row["fair_level.bob"]) == (0.25, 0.75)
    assert row["fair_level.eve"] is None  # its task never runs


def test_a_cluster_without_servers_for_a_while() -> None:
    back = AddServers(6, Server({"cpu": 1}, name="a"))
    result = run(ONE, [cpu("ann", 4)], RemoveServers(2, "a"), back, interval=1, fair=True)
    assert result.samples["utilisation.cpu"].to_list() == [1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0]
    assert result.samples["fair_level.ann"].to_list()[2:6] == [None] * 4
    assert result.summary()["utilisation"] == {"cpu": 1.0}


# Samples, progress, long table


def test_many_samples_are_thinned_only_if_nobody_chose_the_interval() -> None:
    core, plan, _, _ = build(ONE, Workload(["ann"], [cpu("ann", 1)]), Policy())
    for thin, left in ((True, 501), (False, 1001)):
        samples = Samples(1.0, thin=thin)
        for _ in range(1001):
            samples.take(read_usage(core, plan).sample, None)
        assert len(samples.time) == left
        assert samples.time[-1] == 1000
        assert samples.next_time == (1002 if thin else 1001)


def test_tasks_that_can_never_run_are_no_work() -> None:
    jobs = [cpu("ann", 10), cpu("ann", 1e9, amount=2, tasks=10), cpu("ann", 1e9, servers="b")]
    cluster = Cluster([Server({"cpu": 1}, name="a"), Server({"memory": 1}, name="b")])
    assert 100 <= len(run(cluster, jobs).samples) <= 400
    _, plan, _, _ = build(cluster, Workload(["ann"], jobs), Policy())
    assert time_span(plan) == 10
    grows = [ResizeServer(5, "a", {"cpu": 2, "memory": 1})]
    _, plan, _, _ = build(cluster, Workload(["ann"], jobs, grows), Policy())
    assert time_span(plan) == 2e10 + 10


@pytest.mark.parametrize("duration", [1e-200, 1e-10, 1.0, 1e15, 1e200])
def test_clusters_of_all_speeds(duration: float) -> None:
    told: list[Progress] = []
    result = run(ONE, [cpu("ann", duration, tasks=2)], progress=told.append)
    assert result.horizon == told[-1].time == 2 * duration
    assert 100 <= len(result.samples) <= 500


def test_progress_far_beyond_what_was_expected() -> None:
    # One of two jobs waits for a server that comes very late.
    late = AddServers(1e12, Server({"cpu": 2}, name="b"))
    told: list[Progress] = []
    result = run(ONE, [cpu("ann", 1), cpu("ann", 1, amount=2)], late, progress=told.append)
    assert result.horizon == 1e12 + 1
    assert len(result.samples) <= 1001


def test_the_clock_stops_often_enough_to_hear_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    stops: list[float] = []

    def advance(self: PlainDriver, before: float) -> None:
        stops.append(before)
        real(self, before)

    real = PlainDriver.advance
    monkeypatch.setattr(PlainDriver, "advance", advance)
    result = run(ONE, [cpu("ann", 1, tasks=1000)], interval=1000)
    assert result.horizon == 1000
    assert len(set(stops)) >= 400


def test_progress_is_told() -> None:
    told: list[Progress] = []
    run(ONE, [cpu("ann", 1, tasks=50)], progress=told.append)
    assert told[-1] == Progress(50.0, None, 50, 50)


def test_shares_as_a_long_table() -> None:
    result = run(ONE, [cpu("bob", 2), cpu("ann", 2)], interval=2, fair=True)
    table = result.shares()
    assert table.columns == ["time", "user", "share", "fair_level"]
    assert table.select("time", "user", "share").rows()[:2] == [
        (0.0, "ann", 1.0),
        (0.0, "bob", 0.0),
    ]


def test_jobs_are_compared_where_they_finished_in_all_runs() -> None:
    jobs = [cpu("ann", 4, tasks=2), cpu("bob", 3), cpu("ann", 7, arrival=2)]
    narrow, wide = (run(Cluster([Server({"cpu": n})]), jobs, until=10) for n in (1, 3))
    assert narrow.jobs["finish"].to_list() == [8, None, None]
    assert wide.jobs["finish"].to_list() == [4, 3, 10]
    tables = common_jobs([narrow, wide])
    assert [table["turnaround"].to_list() for table in tables] == [[8], [4]]
    # Other jobs cannot be compared: each run has those that it finished.
    other = run(ONE, [cpu("ann", 5)])
    tables = common_jobs([narrow, other])
    assert [table["turnaround"].to_list() for table in tables] == [[8], [5]]


# Run directories


@pytest.fixture
def small() -> Result:
    return run(ONE, [cpu("ann", 5, tasks=2)], fair=True, log=True, interval=5)


def test_a_run_directory_holds_everything(small: Result, tmp_path: Path) -> None:
    place = tmp_path / "new" / "run"
    small.save(place)
    assert sorted(os.listdir(place)) == [
        "config.yaml", "jobs.parquet", "run_info.json", "samples.parquet", "summary.json",
        "tasks.parquet", "users.parquet",
    ]  # fmt: skip
    assert os.listdir(tmp_path) == ["new"]  # no draft is left
    info = json.loads((place / "run_info.json").read_text())
    assert {"versions", "seed", "wall_seconds"} <= set(info)
    again = Result.load(place)
    assert again.summary() == small.summary()
    assert again.config == small.config
    assert again.tasks is not None
    assert again.samples.equals(small.samples)
    assert repr(again) == repr(small)


def test_a_run_directory_is_replaced_only_by_force(small: Result, tmp_path: Path) -> None:
    small.save(tmp_path / "run")
    (tmp_path / "run" / "note").write_text("mine")
    with pytest.raises(InputError, match="must be new"):
        small.save(tmp_path / "run")
    assert (tmp_path / "run" / "note").exists()
    small.save(tmp_path / "run", force=True)
    assert not (tmp_path / "run" / "note").exists()
    assert os.listdir(tmp_path) == ["run"]


def test_other_directories_are_never_replaced(small: Result, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("all my work")
    with pytest.raises(InputError, match=r"must be new, empty, or have a run_info\.json"):
        small.save(tmp_path, force=True)
    with pytest.raises(InputError, match="must be a directory or a new one"):
        small.save(tmp_path / "thesis.tex", force=True)
    assert os.listdir(tmp_path) == ["thesis.tex"]
    (tmp_path / "empty").mkdir()
    small.save(tmp_path / "empty")
    assert (tmp_path / "empty" / "users.parquet").exists()


def test_a_run_directory_is_written_whole_or_not_at_all(
    small: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(InputError, match="No space left"):
        small.save(tmp_path / "run")
    assert os.listdir(tmp_path) == []


def test_what_is_not_a_run_directory_cannot_be_loaded(small: Result, tmp_path: Path) -> None:
    small.save(tmp_path / "run")
    (tmp_path / "run" / "summary.json").write_text("{")
    with pytest.raises(InputError, match="must be readable"):
        Result.load(tmp_path / "run")
    (tmp_path / "run" / "jobs.parquet").unlink()
    with pytest.raises(InputError, match=r"jobs\.parquet is missing"):
        Result.load(tmp_path / "run")


# Bad input

WORK = Workload(["ann"], [cpu("ann", 5, arrival=7, name="late")])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"until": 5}, "arrival of late must be at most until = 5 (Workload.until leaves later "
                       "jobs out), got 7.0"),
        ({"until": -1}, "until must be a finite number of seconds > 0, got -1"),
        ({"until": math.nan}, "until must be a finite number of seconds > 0, got nan"),
        ({"until": "1h"}, "until must be a finite number of seconds > 0, got '1h'"),
        ({"interval": 0}, "interval must be a finite number of seconds > 0, got 0"),
        ({"interval": 1e-9, "until": 8}, "interval must be at least 8e-06 (at most 1,000,000 "
                                         "samples until 8 s), got 1e-09"),
        ({"interval": 1e-6}, "interval must be at least 1.2e-05 (at most 1,000,000 samples of a "
                             "run that takes about 12 s), got 1e-06"),
        ({"seed": -1}, "seed must be a whole number from 0 to 9223372036854775807, got -1"),
        ({"seed": 0.5}, "seed must be a whole number from 0 to 9223372036854775807, got 0.5"),
        ({"seed": 2**63}, "from 0 to 9223372036854775807, got 9223372036854775808"),
        ({"engine": "fast"}, "engine must be one of auto, indexed, plain"),
        ({"engine": "indexed", "policy": "hdrf"}, "engine must be plain for a policy with the "
                                                  "turn hdrf, got 'indexed'"),
        ({"policy": "bestfit-drfh"}, "did you mean best-fit-drfh?"),
        ({"policy": "max-min:gpu"}, "resource of max-min must be one of cpu"),
    ],
)  # fmt: skip
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        drfh.simulate(ONE, WORK, **options)
    assert message in str(caught.value)


def test_too_many_samples_that_nobody_could_foresee(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("drfh.simulation.run._MOST_SAMPLES", 100)
    late = AddServers(1e6, Server({"cpu": 2}, name="b"))
    with pytest.raises(InputError) as caught:
        run(ONE, [cpu("ann", 1), cpu("ann", 1, amount=2)], late, interval=1)
    assert str(caught.value) == (
        "interval must be longer, or until be given: after 100 samples the run is at 100 s and "
        "goes on, got 1.0"
    )


def test_bad_workloads() -> None:
    with pytest.raises(InputError, match=r"cluster must be a drfh\.Cluster"):
        drfh.simulate("ONE", WORK)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"workload must be a drfh\.Workload"):
        drfh.simulate(ONE, [cpu("ann", 1)])  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"resource demanded by job-1 must be one of cpu"):
        run(ONE, [Job("ann", demand={"gpu": 1}, duration=1)])
    with pytest.raises(InputError, match="servers of job-1 must name a server"):
        run(ONE, [cpu("ann", 1, servers="b")])
    with pytest.raises(InputError, match=r"events\[0\]\.remove must name a server"):
        run(ONE, [cpu("ann", 1)], RemoveServers(1, "b"))
    with pytest.raises(InputError, match=r"demand\.cpu of tiny must be 0 or at least"):
        run(ONE, [cpu("ann", 1, amount=1e-14, name="tiny")])
    assert WORK.until(5).task_count == 0
    assert drfh.simulate(ONE, WORK.until(5), until=5).summary()["tasks"]["submitted"] == 0


def test_a_trace_runs_until_the_end_of_its_window() -> None:
    cluster = Cluster([Server({"cpu": 1})])
    workload = Workload(["a"], [Job("a", demand={"cpu": 1}, duration=60, tasks=3)])
    trace = drfh.traces.Trace(
        "swf", "log.swf", cluster, workload, details=pl.DataFrame(), window=100.0
    )
    result = drfh.simulate(trace)
    assert (result.horizon, result.summary()["tasks"]["completed"]) == (100.0, 1)
    assert result.config["source"] == "log.swf"
    assert drfh.simulate(trace, until=130.0).summary()["tasks"]["completed"] == 2
    assert drfh.simulate(*trace).summary()["tasks"]["completed"] == 3
    with pytest.raises(InputError, match="workload must be left out: the trace has one"):
        drfh.simulate(trace, workload)


def test_a_function_is_no_policy_but_a_part_of_one() -> None:
    with pytest.raises(InputError, match=r"Policy\(choice=my_function\)"):
        drfh.simulate(drfh.load_scenario("gpu-day"), policy=len)  # type: ignore[arg-type]
