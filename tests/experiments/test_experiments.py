"""The paper's evaluation: computed once on a small workload, and looked at from all sides."""

from __future__ import annotations

import dataclasses
import itertools
import json
import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import drfh
from drfh.allocation.problem import Problem
from drfh.cli import main
from drfh.errors import InputError
from drfh.experiments import Claim, Reproduction, Setup, recompute, reproduce
from drfh.experiments.claims import Reading, claims_table, judge, tally
from drfh.experiments.extensions import SEVEN, busy_users
from drfh.experiments.figures import (
    _COLUMNS,
    CLASSES,
    PAPER,
    both_complete,
    dynamic_experiment,
    reductions,
    sharing_numbers,
)
from drfh.experiments.runs import (
    BEST_FIT,
    BLOCKED,
    FIRST_FIT,
    OTHERS,
    Evidence,
    RunKey,
    dedicated_clouds,
    dedicated_workload,
    run_count,
)
from drfh.experiments.scorecard import _sharing, _slots, _utilisation, rank_correlation, score
from drfh.experiments.setup import load_inputs, with_users
from drfh.mechanisms.solvers.whole_leximin import whole_leximin
from drfh.simulation import simulate
from drfh.traces.base import Trace
from tests.support.outputs import check_output

SHAPES = [[0.5, 0.5], [0.5, 0.25], [1.0, 1.0], [0.25, 0.25]]
# By the clock, and nothing else may differ.
TIMED = {"policies": "wall_seconds"}


def small_trace(large: float = 0.75) -> Trace:
    """Return an hour of 12 users, too much for the 10 servers that will be drawn.

    `large` is what the largest tasks need; servers have up to 1.
    """
    draw = np.random.default_rng(5)
    users, batches = 12, 120
    job = np.arange(batches) // 2  # jobs of two batches
    arrival = np.sort(np.floor(draw.uniform(0, 3000, batches // 2)))
    arrival[:15] = 0.0
    arrival = arrival[job]
    count = np.where(np.arange(batches) % 40 == 0, 60, draw.integers(1, 6, batches))
    demand = np.ceil(draw.uniform(0.01, 0.25, (8, 2)) * 128) / 128
    demand[7] = [large, large]  # fits on the largest servers only
    workload = drfh.Workload.from_arrays(
        [f"user-{i}" for i in range(users)],
        ["cpu", "memory"],
        demand,
        user=draw.integers(0, users, batches // 2)[job],
        arrival=arrival,
        shape=draw.integers(0, 8, batches // 2)[job],
        duration=np.ceil(draw.exponential(300.0, int(count.sum()))),
        count=count,
        job=job,
    )
    cluster = drfh.Cluster.from_arrays(SHAPES, ["cpu", "memory"], counts=[5, 2, 2, 1])
    details = pl.DataFrame({"at_start": arrival == 0})
    return Trace("small", "made up", cluster, workload, details, window=3600.0)


SETUP = Setup(servers=10, seeds=2, samples=30, audit_tries=5)


@pytest.fixture(scope="module")
def trace() -> Trace:
    return small_trace()


@pytest.fixture(scope="module")
def found(trace: Trace) -> Reproduction:
    return reproduce(SETUP, trace=trace, processes=1)


@pytest.fixture(scope="module")
def folder(found: Reproduction, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("reproduction")
    found.write(place)
    return place


def evidence_of(found: Reproduction) -> Evidence:
    assert found.evidence is not None
    return found.evidence


COLUMNS = {
    "two_servers": "mechanism kind user tasks share",
    "two_servers_use": "mechanism kind server resource used",
    "dynamic": "time user cpu memory dominant exact whole",
    "slots": "source slots count_rule oversize seed cpu memory completed",
    "utilisation": "policy blocked seed time cpu memory",
    "ahead": "first second blocked seed resource part_of_time part_behind mean_difference",
    "completion": "policy seconds fraction",
    "reduction": "job_class low high jobs mean_of_reductions reduction_of_means median_reduction "
    "seed rival",
    "ratios": "user tasks best_fit slots seed",
    "sharing": "user tasks weight shared dedicated servers largest_task blocked seed",
    "policies": "policy seed cpu memory completed mean_waiting median_turnaround jain "
    "mean_missing mean_distance mixed_users below_fair wall_seconds",
    "fair": "policy time missing distance worst",
    "audit": "property verdict value text",
    "claims": "id figure claim paper ours low high verdict condition note unit ours_text beside",
}


def test_the_tables_have_the_columns_that_the_page_reads(found: Reproduction) -> None:
    assert {name: " ".join(found.tables[name].columns) for name in COLUMNS} == COLUMNS
    assert all(len(table) for table in found.tables.values())


def test_every_task_is_somewhere(found: Reproduction, trace: Trace) -> None:
    runs = evidence_of(found).runs
    assert len(runs) == len(found.numbers["runs"])
    for key, run in runs.items():
        tasks = run.numbers["tasks"]
        there = sum(tasks[state] for state in ("completed", "running", "queued", "never"))
        assert there == tasks["submitted"], key
        assert tasks["completed"] == run.users["completed"].sum() == run.jobs["done"].sum(), key
        if not key.dedicated:  # where a user may have no server, and so no task
            assert tasks["submitted"] == trace.workload.task_count


def test_each_run_is_made_once(found: Reproduction) -> None:
    evidence = evidence_of(found)
    # Slots at their best number run once more, with samples, and replace their first run.
    assert len(evidence.runs) == run_count(SETUP) - len(evidence.seeds)
    names = [key.name for key in evidence.runs]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("policy", [BEST_FIT, "mesos", "drfh+best-fit+strict"])
def test_each_draw_has_servers_of_its_own(found: Reproduction, trace: Trace, policy: str) -> None:
    inputs = load_inputs(SETUP, trace)
    assert inputs.cluster(0) != inputs.cluster(1)
    alone = simulate(inputs.cluster(1), trace.workload, policy, 3600, 1)
    ours = evidence_of(found).runs[RunKey(policy, 1)]
    assert_frame_equal(ours.jobs, alone.jobs, check_exact=True)
    assert ours.numbers["utilisation"] == alone.numbers["utilisation"]


@pytest.mark.slow
def test_one_process_and_two_find_the_same(found: Reproduction, trace: Trace) -> None:
    seen: list[tuple[str, float, int]] = []
    again = reproduce(SETUP, trace=trace, processes=2, progress=lambda *news: seen.append(news))
    assert again.tables.keys() == found.tables.keys()
    for name, table in found.tables.items():
        drop = [TIMED[name]] if name in TIMED else []
        assert_frame_equal(again.tables[name].drop(drop), table.drop(drop), check_exact=True)
    assert again.claims == found.claims
    assert {total for *_, total in seen} == {seen[0][2]}
    assert all(0 <= done <= total for _, done, total in seen)


def test_tables_are_the_same_from_the_runs_on_disk(found: Reproduction, folder: Path) -> None:
    again = recompute(folder)
    assert set(again) >= {"slots", "utilisation", "completion", "reduction", "ratios", "sharing"}
    for name, table in again.items():
        assert_frame_equal(table, found.tables[name], check_exact=True)


def test_what_is_recomputed_comes_from_the_runs(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "other")
    place = tmp_path / "other" / "runs" / RunKey("slots:14:cpu:reject", 0).name / "summary.json"
    numbers = json.loads(place.read_text())
    numbers["utilisation"]["cpu"] = 0.123
    place.write_text(json.dumps(numbers))
    assert 0.123 in recompute(tmp_path / "other")["slots"]["cpu"]


def test_it_is_read_back(found: Reproduction, folder: Path) -> None:
    again = Reproduction.load(folder)
    assert again.claims == found.claims
    assert again.setup == json.loads(json.dumps(found.setup))
    for name, table in found.tables.items():
        assert_frame_equal(again.tables[name], table, check_exact=True)
    assert (folder / "tables" / "ratios.csv").read_text().startswith("user,tasks,best_fit,slots")


# --- single figures ---------------------------------------------------------------------------


def test_slots_have_the_paper_on_top(found: Reproduction) -> None:
    table = found.tables["slots"]
    top = table.head(len(PAPER))
    assert set(top["source"]) == {"paper"}
    assert top.select("slots", "cpu", "memory").rows()[2] == (14, 0.439, 0.28)
    assert len(table) == 5 + 2 * 2 * 2 * 5
    run = evidence_of(found).runs[RunKey("slots:12:cpu:ceil", 1)]
    row = table.filter(slots=12, count_rule="cpu", oversize="ceil", seed=1)
    used = run.numbers["utilisation"]
    assert row.select("cpu", "memory").row(0) == (used["cpu"], used["memory"])
    assert row["completed"].item() == run.numbers["tasks"]["completed"]


def test_the_best_slots_are_fullest(found: Reproduction) -> None:
    evidence = evidence_of(found)
    usual = found.tables["slots"].filter(count_rule="min", oversize="ceil")
    for seed in evidence.seeds:
        rows = usual.filter(pl.col("seed") == seed)
        most = (rows["cpu"] + rows["memory"]).max()
        best = rows.filter(slots=int(evidence.best_slots(seed).split(":")[1]))
        assert (best["cpu"] + best["memory"]).item() == most


def test_who_is_ahead_follows_from_the_samples(found: Reproduction) -> None:
    ahead = found.tables["ahead"]
    used = found.tables["utilisation"].filter(blocked="skip", seed=1)
    ours = used.filter(policy=BEST_FIT)["memory"]
    theirs = used.filter(policy="first-fit-drfh")["memory"]
    row = ahead.filter(
        first=BEST_FIT, second="first-fit-drfh", blocked="skip", seed=1, resource="memory"
    )
    assert row["part_of_time"].item() == (ours > theirs).mean()
    assert row["part_behind"].item() == (ours < theirs).mean()


def test_completion_leaves_out_jobs_of_the_start_and_incomplete_ones(found: Reproduction) -> None:
    evidence = evidence_of(found)
    seed = evidence.seeds[0]
    rival = evidence.best_slots(seed)
    jobs = both_complete(evidence, seed, rival)
    ours, theirs = evidence.run(BEST_FIT, seed).jobs, evidence.run(rival, seed).jobs
    wanted = [
        one["job"]
        for one, two in zip(ours.to_dicts(), theirs.to_dicts(), strict=True)
        if one["finish"] is not None and two["finish"] is not None and one["submission"] > 0
    ]
    assert jobs["job"].to_list() == wanted
    assert wanted
    curve = found.tables["completion"].filter(policy=BEST_FIT)
    assert curve["seconds"].is_sorted()
    assert curve["fraction"].to_list()[-1] == 1.0
    assert curve["seconds"].to_list()[-1] == jobs["ours"].max()
    counted = found.tables["reduction"].filter(seed=seed, rival=rival)["jobs"].sum()
    assert counted == len(jobs)


def test_the_two_statistics_of_a_class() -> None:
    jobs = pl.DataFrame(
        {"tasks": [60, 60, 2000], "ours": [1.0, 90.0, 3.0], "theirs": [2.0, 100.0, 0.0]}
    )
    table = reductions(jobs)
    assert table["job_class"].to_list() == [name for name, *_ in CLASSES]
    row = table.row(1, named=True)
    assert row["jobs"] == 2
    assert row["mean_of_reductions"] == pytest.approx((0.5 + 0.1) / 2)
    assert row["reduction_of_means"] == pytest.approx(1 - 91 / 102)
    assert table["mean_of_reductions"].to_list()[0] is None


def test_ratios_are_those_of_the_runs(found: Reproduction) -> None:
    evidence = evidence_of(found)
    rows = found.tables["ratios"].filter(seed=1)
    users = evidence.run(BEST_FIT, 1).users
    assert rows["best_fit"].to_list() == (users["completed"] / users["submitted"]).to_list()
    slots = evidence.run(evidence.best_slots(1), 1).users
    assert rows["slots"].to_list() == slots["completion_ratio"].to_list()


@pytest.mark.parametrize(("weights", "servers"), [([1, 1, 1], 7), ([1, 2, 3], 12), ([5, 1, 1], 3)])
def test_dedicated_clouds_are_a_partition(weights: list[float], servers: int) -> None:
    weight = np.array(weights, dtype=float)
    clouds = dedicated_clouds(weight, servers, seed=3)
    assert sorted(np.concatenate(clouds).tolist()) == list(range(servers))
    edges = np.floor(np.cumsum(weight) * servers / weight.sum() + 1e-9)
    assert [len(cloud) for cloud in clouds] == np.diff(edges, prepend=0).tolist()
    other = dedicated_clouds(weight, servers, seed=4)
    assert any(a.tolist() != b.tolist() for a, b in zip(clouds, other, strict=True))


@pytest.mark.parametrize("blocked", BLOCKED)
def test_one_run_is_all_dedicated_clouds(trace: Trace, blocked: str) -> None:
    """Every user alone on its own servers does the same, whatever happens when it is blocked."""
    inputs = load_inputs(dataclasses.replace(SETUP, servers=31), trace)
    cluster, workload, seed = inputs.cluster(7), inputs.workload, 7
    together = simulate(
        cluster, dedicated_workload(workload, cluster, seed), BEST_FIT, until=3600, log=True
    )
    assert together.tasks is not None
    clouds = dedicated_clouds(np.ones(len(workload.users)), cluster.size, seed)
    assert min(map(len, clouds)) > 0
    never = 0
    for user, cloud in zip(workload.users, clouds, strict=True):
        place = drfh.Cluster([cluster.servers[i] for i in cloud.tolist()])
        mine = [
            drfh.Job(
                user.name,
                demand=dict(zip(workload.resources, workload.demand[shape].tolist(), strict=True)),
                duration=workload.duration[first : first + count].tolist(),
                arrival=arrival,
                name=workload.job_name(job),
            )
            for owner, shape, first, count, arrival, job in zip(
                workload.batch_user.tolist(), workload.batch_shape.tolist(),
                workload.batch_first.tolist(), workload.batch_count.tolist(),
                workload.batch_arrival.tolist(), workload.batch_job.tolist(), strict=True,
            )
            if workload.users[owner].name == user.name
        ]  # fmt: skip
        policy = BEST_FIT if blocked == "skip" else f"{BEST_FIT}+strict"
        alone = simulate(place, drfh.Workload([user], mine), policy, until=3600, log=True)
        assert alone.tasks is not None
        columns = ["job", "submission", "duration", "start", "end", "server"]
        ours = together.tasks.filter(pl.col("user") == user.name).select(columns)
        assert_frame_equal(ours, alone.tasks.select(columns), check_exact=True)
        never += alone.numbers["tasks"]["never"]
    assert never > 0  # some tasks fit on no server of a small cloud
    assert together.numbers["tasks"]["never"] == never


def test_a_user_without_a_server_completes_nothing(found: Reproduction) -> None:
    table = found.tables["sharing"]
    without = table.filter(pl.col("servers") == 0)
    assert len(without) == 2 * 2 * 2  # of 12 users on 10 servers
    assert set(without["dedicated"]) == {0.0}
    assert (without["tasks"] > 0).all()
    alone = table.filter(blocked="skip").select("user", "seed", "dedicated")
    assert_frame_equal(alone, table.filter(blocked="strict").select("user", "seed", "dedicated"))
    falls = sharing_numbers(table)
    first = table.filter(blocked="skip", seed=0)
    assert falls[0]["fall"] == (first["shared"] < first["dedicated"]).sum()


def test_largest_tasks_are_parts_of_the_largest_server(found: Reproduction, trace: Trace) -> None:
    table = found.tables["sharing"].filter(blocked="skip", seed=0)
    workload = trace.workload
    for position, row in enumerate(table.to_dicts()):
        shapes = workload.batch_shape[workload.batch_user == position]
        assert row["largest_task"] == workload.demand[shapes].max()


# --- dynamic allocation and the optimum of whole tasks ----------------------------------------


def brute_force(problem: Problem) -> list[float]:
    """Return the best sorted levels over all ways to fill single servers."""
    users = len(problem.users)
    reachable = {(0,) * users}
    capacity = problem.cluster.capacity[problem.blocks.group]
    for block, count in enumerate(problem.blocks.count.tolist()):
        most = [
            int(min(capacity[block, r] / d[r] for r in np.flatnonzero(d)) + 1e-9)
            for d in problem.demand
        ]
        fills = [
            fill
            for fill in itertools.product(*(range(n + 1) for n in most))
            if (np.array(fill) @ problem.demand <= capacity[block] + 1e-9).all()
        ]
        for _ in range(count):
            reachable = {
                tuple(a + b for a, b in zip(have, fill, strict=True))
                for have in reachable
                for fill in fills
            }
    step = problem.task_share / problem.weight
    levels = [sorted((np.minimum(t, problem.limit) * step).round(12)) for t in reachable]
    return max(levels)


@pytest.mark.parametrize("seed", range(6))
def test_whole_tasks_are_leximin(seed: int) -> None:
    draw = np.random.default_rng(seed)
    cluster = drfh.Cluster.from_arrays(
        draw.integers(3, 9, (2, 2)), ["cpu", "memory"], counts=[1, 2]
    )
    users = []
    for i in range(3):
        cpu, memory = draw.integers(1, 5, 2).tolist()
        weight, tasks = float(draw.integers(1, 3)), None if i else 3
        users.append(drfh.User(f"u{i}", {"cpu": cpu, "memory": memory}, weight=weight, tasks=tasks))
    problem = Problem.build(cluster, users)
    levels = sorted((whole_leximin(problem) * problem.task_share / problem.weight).round(12))
    assert levels == pytest.approx(brute_force(problem))


def test_too_many_ways_to_fill_a_server() -> None:
    cluster = drfh.Cluster([drfh.Server({"cpu": 1000, "memory": 1000})])
    users = [drfh.User(f"u{i}", {"cpu": 1 + i, "memory": 3 - i}) for i in range(3)]
    with pytest.raises(InputError, match="must have at most 20,000 ways"):
        whole_leximin(Problem.build(cluster, users))


def test_three_users_on_100_servers() -> None:
    found = dynamic_experiment()
    assert found.phases["users"].to_list()[:3] == [
        "user-1", "user-1+user-2", "user-1+user-2+user-3",
    ]  # fmt: skip
    assert found.phases["end"][2] == 1080.0
    alone = found.table.filter(time=100.0, user="user-1").row(0, named=True)
    assert (round(alone["cpu"], 2), round(alone["memory"], 2)) == (0.40, 0.62)
    assert alone["exact"] == pytest.approx(1.0)
    assert alone["whole"] == alone["dominant"]
    active = found.table.filter(pl.col("exact") > 0)
    assert (active["whole"] <= active["exact"] + 1e-9).all()


# --- beyond the paper, and claims -------------------------------------------------------------


def test_all_policies_are_compared(found: Reproduction) -> None:
    table = found.tables["policies"]
    evidence = evidence_of(found)
    for seed in evidence.seeds:
        rows = table.filter(pl.col("seed") == seed)
        assert rows["policy"].to_list() == [*evidence.main_policies(seed), *OTHERS]
    assert table["mean_missing"].is_between(0, 1).all()
    assert (table["mean_missing"] <= table["mean_distance"]).all()
    assert table["below_fair"].is_between(0, 1).all()
    assert set(found.tables["fair"]["policy"]) == {*evidence.main_policies(0), *OTHERS}
    assert found.tables["audit"]["property"].to_list() == list(SEVEN)


def test_the_median_time_is_of_the_same_jobs_under_every_policy(found: Reproduction) -> None:
    evidence = evidence_of(found)
    later = (~evidence.jobs["at_start"]).to_list()
    for seed in evidence.seeds:
        rows = found.tables["policies"].filter(pl.col("seed") == seed)
        jobs = {policy: evidence.run(policy, seed).jobs for policy in rows["policy"]}
        # One queue for all gets to almost none of them: the others keep theirs.
        assert jobs["fifo"]["finish"].filter(~evidence.jobs["at_start"]).count() <= 1
        assert rows.filter(policy="fifo")["median_turnaround"].item() is None
        able = {policy: table for policy, table in jobs.items() if policy != "fifo"}
        alike = [
            position
            for position, came_later in enumerate(later)
            if came_later and all(t["finish"][position] is not None for t in able.values())
        ]
        assert 0 < len(alike) < sum(later)
        for policy, table in able.items():
            median = rows.filter(policy=policy)["median_turnaround"].item()
            assert median == table["turnaround"].gather(alike).median()


def test_time_below_the_fair_share(found: Reproduction) -> None:
    run = evidence_of(found).run(BEST_FIT, 0)
    shares = run.shares().drop_nulls("fair_level")
    below = shares.filter(pl.col("share") < pl.col("fair_level") * (1 - 1e-9))
    row = found.tables["policies"].filter(policy=BEST_FIT, seed=0)
    assert row["below_fair"].item() == pytest.approx(len(below) / len(shares))


def test_the_busy_moment_is_that_of_the_samples(found: Reproduction) -> None:
    run = evidence_of(found).run(BEST_FIT, 0)
    shares = run.shares().drop_nulls("fair_level").group_by("time").len().sort("time")
    assert found.numbers["busy_moment"]["users"] == shares["len"].max()
    busiest = shares.filter(pl.col("len") == shares["len"].max())["time"][0]
    assert found.numbers["busy_moment"]["time"] == busiest


@pytest.mark.parametrize("large", [0.75, 2.0])
def test_users_at_the_busy_moment_have_the_tasks_of_that_moment(large: float) -> None:
    """They run or wait then in the run over the whole window; what fits nowhere does not count."""
    inputs = load_inputs(SETUP, small_trace(large))
    cluster, workload = inputs.cluster(0), inputs.workload
    run = simulate(cluster, workload, BEST_FIT, 3600, interval=120, fair=True, log=True)
    evidence: Any = SimpleNamespace(seeds=(0,), run=lambda policy, seed: run)
    moment, _, users = busy_users(inputs, evidence)
    assert run.tasks is not None
    there = run.tasks.filter(
        pl.col("submission") <= moment, pl.col("end").is_null() | (pl.col("end") > moment)
    )
    fits = there.filter(pl.col("demand.cpu") <= 1, pl.col("demand.memory") <= 1)
    assert (len(fits) < len(there)) == (large > 1)
    expected = fits.group_by("user").agg(
        pl.len(), pl.col("demand.cpu").mean(), pl.col("demand.memory").mean()
    )
    ours = {user.name: (user.tasks, *user.demand.values()) for user in users}
    assert ours == {name: pytest.approx(row) for name, *row in expected.rows()}
    levels = run.samples.filter(time=moment).select(pl.col("^fair_level\\..*$"))
    assert len(ours) == sum(level is not None for level in levels.row(0))


def test_a_verdict_follows_from_numbers() -> None:
    def verdict(*readings: Reading) -> Claim:
        return judge("id", "Fig. 9", "text", "paper", readings, "rule")

    good = Reading("a", [0.2, 0.4], [True, True])
    mixed = Reading("b", [0.1, 0.9], [True, False])
    bad = Reading("c", [0.0, 0.0], [False, False])
    assert verdict(good).verdict == "holds"
    assert verdict(good, mixed).verdict == "holds if …"
    assert verdict(good, mixed).condition == "a"
    assert verdict(mixed, bad).verdict == "does not hold"
    assert "for 1 of 2 draws" in verdict(mixed, bad).note
    assert verdict(bad, good, good).condition == "a; or a"
    silent = Reading("d", [], [])
    assert verdict(silent).verdict == "not tested"
    assert verdict(silent, good).verdict == "holds"
    assert verdict().ours is None
    ways = [Reading(c, [1.0], [h], w) for c, h, w in
            (("a", True, "x"), ("b", False, "x"), ("a", True, "y"), ("b", True, "y"))]  # fmt: skip
    assert verdict(*ways).condition == "a and x; or y"
    claim = verdict(good)
    assert claim.ours == pytest.approx(0.3)
    assert claim.spread == (0.2, 0.4)
    assert claims_table([claim]).row(0, named=True)["high"] == 0.4


def test_the_scorecard(found: Reproduction) -> None:
    claims = {claim.id: claim for claim in found.claims}
    assert len(claims) == len(found.claims) >= 30
    assert {claim.figure for claim in found.claims} >= {
        "Fig. 4", "Table II", "Fig. 5", "Fig. 6a", "Fig. 6b", "Fig. 7", "Fig. 8",
    }  # fmt: skip
    for claim in found.claims:
        assert claim.note
        assert (claim.verdict == "holds if …") == bool(claim.condition)
        if claim.verdict in ("holds", "does not hold"):
            assert claim.ours is not None
    assert claims["two-drfh"].verdict == "holds"
    assert claims["dynamic-alone-cpu"].verdict == "holds"
    # The paper's 26 % are those of First-Fit with head-of-line blocking: another algorithm.
    three = claims["dynamic-three"]
    assert (three.verdict, three.condition) == ("does not hold", "")
    assert three.beside.startswith("First-Fit where a blocked user stops all, another algorithm,")
    assert three.beside.endswith("gives 26.4 %")
    assert three.ours == pytest.approx(0.286, abs=0.002)
    assert claims["dynamic-two"].verdict == "holds"
    precise = claims["dynamic-precise"]
    assert (precise.verdict, precise.condition) == (
        "holds if …", "the optimum of whole tasks is meant",
    )  # fmt: skip
    rows = found.tables["ratios"]
    parts = rows.group_by("seed", maintain_order=True).agg(
        ((pl.col("best_fit") == 1) & (pl.col("slots") < 1)).mean().alias("part")
    )["part"]
    assert claims["ratios-all-tasks"].ours == pytest.approx(parts.mean())
    assert claims["ratios-all-tasks"].spread == (parts.min(), parts.max())


def slots_like_the_paper(shifts: dict[str, float]) -> dict[str, Claim]:
    """Return the claims on Table II if our cells are the paper's plus a shift for each rule."""
    rows: list[tuple[Any, ...]] = [
        ("ours", number, "min", oversize, seed, cpu + shift, memory, 1)
        for number, (cpu, memory) in PAPER.items()
        for oversize, shift in shifts.items()
        for seed in (0, 1)
    ]
    return {c.id: c for c in _slots(pl.DataFrame(rows, schema=_COLUMNS, orient="row"))}


def test_table_ii_is_judged_once_for_each_rule_of_slots() -> None:
    claims = slots_like_the_paper({"ceil": 0.0, "reject": 0.05})
    assert set(claims) == {"slots-min-ceil", "slots-min-reject", "slots-best"}
    same, other = claims["slots-min-ceil"], claims["slots-min-reject"]
    assert (same.verdict, same.ours_text) == ("holds", "10 cells")
    assert same.text.endswith("if slots follow the scarcer resource and large tasks take several")
    # Half of the cells are right: that is not Table II, under no condition.
    assert (other.verdict, other.condition, other.ours) == ("does not hold", "", 5.0)
    assert other.beside == "2.5 points apart on average, 5.0 points at most"
    assert claims["slots-best"].verdict == "holds"
    assert claims["slots-best"].ours == 14


def sharing_like(falls: list[float], stay: int) -> dict[str, Claim]:
    """Return the claims on Fig. 8 if some users fall so much, and the others have the same."""
    shared = [1.0 - fall for fall in falls] + [1.0] * stay
    tables = [
        pl.DataFrame({"shared": shared, "dedicated": [1.0] * len(shared), "blocked": blocked,
                      "seed": 0})
        for blocked in BLOCKED
    ]  # fmt: skip
    evidence: Any = SimpleNamespace(seeds=(0,))
    return {claim.id: claim for claim in _sharing(evidence, pl.concat(tables))}


@pytest.mark.parametrize(
    ("falls", "verdict", "beside"),
    [
        ([0.02] * 9 + [0.2], "holds", "10.0 % of them fall by more than 10 points, the worst by"),
        # The median is 2 points, but two of them lose a third.
        ([0.02] * 8 + [0.3, 0.3], "does not hold", "20.0 % of them fall by more than 10 points"),
        # The mean is 10 points, but somebody loses everything.
        ([0.0025] * 10 + [1.0], "does not hold", "9.1 % of them fall by more than 10 points"),
        ([0.12] * 10, "does not hold", "100.0 % of them fall by more than 10 points"),
    ],
)
def test_slightly_is_the_mean_the_part_above_and_the_worst(
    falls: list[float], verdict: str, beside: str
) -> None:
    claim = sharing_like(falls, 90)["sharing-slightly"]
    assert claim.ours == pytest.approx(np.mean(falls))
    assert claim.verdict == verdict
    assert claim.beside.startswith(beside)
    assert claim.beside.endswith(f"the worst by {100 * max(falls):.1f} points")


def test_ties_are_not_behind_and_are_named() -> None:
    claim = sharing_like([0.5], 9)["sharing-most"]
    assert (claim.verdict, claim.condition, claim.ours) == ("holds", "", 0.9)
    assert claim.beside == "ties: 90.0 % of the users"


def test_uniformly_higher_is_never_behind_with_ties_named() -> None:
    def verdict(ahead: float, behind: float) -> tuple[str, str]:
        rows = [
            {"first": first, "second": second, "blocked": blocked, "seed": 0, "resource": resource,
             "part_of_time": ahead, "part_behind": behind, "mean_difference": 0.2}
            for first, second in itertools.combinations((BEST_FIT, FIRST_FIT, "slots:14"), 2)
            for blocked in BLOCKED for resource in ("cpu", "memory")
        ]  # fmt: skip
        evidence: Any = SimpleNamespace(seeds=(0,), best_slots=lambda seed: "slots:14")
        claims = {claim.id: claim for claim in _utilisation(evidence, pl.DataFrame(rows))}
        claim = claims["utilisation-over-first-fit-cpu"]
        assert claim.ours == 1 - behind
        return claim.verdict, claim.beside

    assert verdict(0.75, 0.0) == ("holds", "ties: 25.0 % of the samples")
    assert verdict(1.0, 0.0) == ("holds", "no ties")
    assert verdict(0.0, 0.0) == ("does not hold", "ties: 100.0 % of the samples")
    assert verdict(0.75, 0.125) == ("does not hold", "ties: 12.5 % of the samples")


@pytest.mark.parametrize("ties", [False, True])
def test_the_rank_correlation_is_that_of_scipy(ties: bool) -> None:
    stats = pytest.importorskip("scipy.stats")
    draw = np.random.default_rng(3)
    one = draw.integers(0, 5, 200) if ties else draw.normal(size=200)
    two = one + draw.normal(size=200)
    found, low, high = rank_correlation(pl.Series(one), pl.Series(two))
    assert found == pytest.approx(stats.spearmanr(one, two).statistic)
    assert -1 < low < found < high < 1
    few = rank_correlation(pl.Series(one[:20]), pl.Series(two[:20]))
    assert few[2] - few[1] > high - low


def test_the_larger_the_job_the_more_is_a_rank_correlation(found: Reproduction) -> None:
    claim = {c.id: c for c in found.claims}["completion-grows"]
    evidence = evidence_of(found)
    values = []
    for seed in evidence.seeds:
        jobs = both_complete(evidence, seed, evidence.best_slots(seed))
        saved = 1 - jobs["ours"] / jobs["theirs"]
        values.append(float(np.corrcoef(jobs["tasks"].rank(), saved.rank())[0, 1]))
    assert claim.ours == pytest.approx(np.mean(values))
    assert claim.beside.startswith("95 % interval ")
    low = float(claim.beside.split()[3])
    assert (claim.verdict == "holds") <= (low > 0.1)


def test_on_a_generated_workload_no_claim_about_the_trace_holds_or_fails(
    found: Reproduction,
) -> None:
    numbers = found.numbers | {"source": found.numbers["source"] | {"generated": True}}
    claims = score(evidence_of(found), found.tables, dynamic_experiment(), numbers)
    for claim, real in zip(claims, found.claims, strict=True):
        if claim.figure in ("Fig. 2", "Fig. 3", "Fig. 4"):
            assert claim == real
        else:
            assert claim.verdict == ("not tested" if claim.ours is None else "generated")
            assert claim.condition == ""
        if claim.verdict == "generated":
            assert (claim.ours, claim.spread) == (real.ours, real.spread)
    counted = tally(claims)
    assert counted["generated"] >= 15
    assert counted["does not hold"] == 1  # the 26 % of Figure 4


# --- the set-up, the command line, the real trace -----------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"preset": "C"}, "preset must be one of backlog_cut, each_drop"),
        ({"servers": 0}, "servers must be a whole number from 1"),
        ({"seeds": True}, "seeds must be a whole number"),
        ({"hours": 0}, "hours must be a number > 0"),
        ({"slots": ()}, "slots must be whole numbers"),
    ],
)
def test_a_wrong_choice_is_named(words: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Setup(**words)


def test_no_trace_in_the_directory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="data must hold Google's trace of 2011"):
        load_inputs(Setup(data=tmp_path))


def test_without_a_trace_one_is_generated() -> None:
    inputs = load_inputs(Setup(servers=20, users=15, hours=1.0))
    assert inputs.trace.source == "generated"
    assert inputs.cluster(0) != inputs.cluster(1)
    assert len(inputs.jobs) == inputs.workload.job_count


def test_the_same_jobs_without_what_happens_to_servers(trace: Trace) -> None:
    assert with_users(trace.workload, None) == trace.workload


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Stand in for the page, which has tests of its own."""
    written: list[Path] = []
    module = ModuleType("drfh.report.pages.reproduction")

    def save_reproduction(found: Reproduction, folder: Path) -> None:
        assert found.claims
        (folder / "index.html").write_text("a page")
        written.append(folder)

    module.save_reproduction = save_reproduction  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "drfh.report.pages.reproduction", module)
    monkeypatch.delenv("DRFH_DATA", raising=False)
    return written


def test_the_command(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    page: list[Path],
    trace: Trace,
) -> None:
    from drfh.experiments import reproduction as run
    from drfh.experiments import setup

    monkeypatch.setattr(run, "load_inputs", lambda s, _: setup.load_inputs(s, trace))
    output = tmp_path / "deep" / "paper"
    words = ["reproduce", "--quick", "--servers", "10", "--jobs", "1", "-o", str(output)]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "12 users" in out
    assert "Best-Fit precisely achieves" in out
    assert "holds if the optimum of whole tasks is meant" in " ".join(out.split())
    assert f"page: {output / 'index.html'}" in out
    assert (output / "index.html").is_file()
    assert (output / "summary.json").is_file()
    assert recompute(output)["slots"].height == 10
    assert main(words) == 2
    assert "--output must be new (or be replaced with --force)" in capsys.readouterr().err
    assert main([*words, "--force", "--json"]) == 0
    data = check_output("reproduce", capsys.readouterr().out)
    assert data["page"] == str(output / "index.html")
    assert {claim["id"] for claim in data["claims"]} >= {"slots-best", "sharing-fall"}
    assert data["setup"]["quick"] is True
    assert len(page) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--preset", "C"], "--preset must be one of A, B"),
        (["--jobs", "0"], "--jobs must be a whole number ≥ 1, got 0"),
        (["--seeds", "0"], "--seeds must be a whole number from 1 to 100, got 0"),
        (["--data", "no-such-folder"], "--data must hold Google's trace"),
    ],
)
def test_the_command_names_what_is_wrong(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    page: list[Path],
    words: list[str],
    message: str,
) -> None:
    assert main(["reproduce", *words, "-o", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not page
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_little_of_the_real_trace(data: Path) -> None:
    found = reproduce(
        Setup(data=data, servers=100, hours=0.5, seeds=1, samples=6, audit_tries=2), processes=1
    )
    assert found.numbers["source"]["machines"] == 12_477
    assert 300 < found.numbers["users"] < 600
    again = drfh.traces.read(
        "google-2011", data / "clusterdata-2011-2", hours=0.5, servers=100, seed=0
    )
    inputs = load_inputs(Setup(data=data, servers=100, hours=0.5))
    assert inputs.cluster(0) == again.cluster
    assert inputs.workload == again.workload
    evidence = evidence_of(found)
    assert evidence.jobs["at_start"].sum() > 1000
    for key, run in evidence.runs.items():
        tasks = run.numbers["tasks"]
        there = sum(tasks[state] for state in ("completed", "running", "queued", "never"))
        assert there == tasks["submitted"], key
    claims = {claim.id: claim for claim in found.claims}
    assert claims["set-machines"].verdict == "holds"
    assert claims["utilisation-over-slots-cpu"].verdict == "holds"
