"""Fleets and mixtures are what they say, and their rivals solve the same problem."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from benchmarks.instances import Case, fleet, hard, mixture
from benchmarks.rivals import first_round, highs_ipm, old_second_try
from benchmarks.rounds import FIRST, OLD, Measured, Ours, questions

from benchmarks import report, rounds
from drfh import allocate
from drfh.allocation.problem import Problem

SMALL = [
    *(partial(fleet, 8, 40, seed=seed) for seed in range(3)),
    *(partial(fleet, 5, 30, kinds=3, seed=seed) for seed in range(3)),
    *(partial(mixture, 20, 9, 3, 4, seed=seed) for seed in range(3)),
    *(partial(mixture, 15, 12, 4, 4, seed=seed) for seed in range(3)),
]


@pytest.mark.parametrize("kinds", [1, 4])
def test_fleets_have_distinct_nodes_tainted_gpus_and_restricted_finite_tasks(kinds: int) -> None:
    cluster, users = fleet(300, 400, kinds=kinds)
    assert len(users) == 300
    assert {len(user.kinds) for user in users} == ({0} if kinds == 1 else {kinds})
    assert len(np.unique(cluster.capacity, axis=0)) == len(cluster) == 400
    gpus = cluster.capacity[:, cluster.resources.index("gpu")]
    pools = np.array([server.labels["pool"] for server in cluster.servers])
    assert ((gpus > 0) == (pools == "gpu")).all()
    zones = np.array([server.labels["zone"] for server in cluster.servers])

    problem = Problem.build(cluster, users)
    assert problem.eligible is not None
    allowed = problem.eligible[problem.restriction]
    needs_gpu = problem.demand[:, cluster.resources.index("gpu")] > 0
    on_gpu_nodes, on_others = (allowed[:, pools == "gpu"], allowed[:, pools != "gpu"])
    assert 0.2 < needs_gpu.mean() < 0.4
    assert not on_others[needs_gpu].any()
    assert 0.03 < on_gpu_nodes[~needs_gpu].any(axis=1).mean() < 0.15  # who tolerates the taint
    in_zone = np.array([allowed[:, zones == zone].any(axis=1) for zone in "abc"]).sum(axis=0)
    assert set(in_zone.tolist()) == {2, 3}
    assert 0.15 < (in_zone == 2).mean() < 0.35
    assert 0.4 < np.isfinite(problem.limit).mean() < 0.6
    assert len({user.weight for user in users}) == 3


def test_mixtures_have_zero_demands_servers_that_lack_something_and_restrictions() -> None:
    cluster, users = mixture(1_000, 1_000, 3)
    demand = np.array([[user.demand.get(r, 0.0) for r in cluster.resources] for user in users])
    assert 0.25 < (demand == 0).mean() < 0.33
    assert demand.any(axis=1).all()
    lacking = (cluster.capacity == 0).sum(axis=1)
    assert lacking.max() == 1
    assert 0.07 < lacking.mean() < 0.13
    assert 0.35 < np.mean([user.servers is not None for user in users]) < 0.45
    assert 0.45 < np.mean([user.tasks is not None for user in users]) < 0.55


@pytest.mark.parametrize("make", [partial(fleet, 6, 20, kinds=2), partial(mixture, 20, 6, 3, 4)])
def test_a_seed_draws_the_same_again(make: partial[Case]) -> None:
    (cluster, users), (again, same), (other, _) = make(), make(), make(seed=1)
    assert users == same
    assert (cluster.capacity == again.capacity).all()
    assert (cluster.capacity != other.capacity).any()


@pytest.mark.parametrize("make", SMALL)
def test_highs_finds_the_level_of_our_first_round(make: partial[Case]) -> None:
    asked = questions(allocate(*make()))[FIRST]
    assert asked.error(first_round(*asked.arguments)) < 1e-6
    faster = (*asked.arguments[:-1], 1.25 * asked.arguments[-1])
    assert asked.error(first_round(*faster)) == pytest.approx(0.2, abs=1e-6)


@pytest.mark.parametrize("resources", [2, 3, 4])
def test_highs_finds_the_level_of_hard_instances(resources: int) -> None:
    instance = hard(8, 20, resources)
    allocation = allocate(instance.cluster, instance.users)
    assert highs_ipm(instance) == pytest.approx(min(allocation.levels.values()), rel=1e-6)


@pytest.mark.parametrize("make", [make for make in SMALL if "kinds" not in make.keywords])
def test_the_old_second_try_finds_our_shares(make: partial[Case]) -> None:
    asked = questions(allocate(*make()))[OLD]
    shares = old_second_try(*asked.arguments)
    assert asked.error(shares) < 1e-6
    shares[0] *= 1.001
    assert asked.error(shares) == pytest.approx(1e-3, rel=1e-3)


def test_teams_with_kinds_are_no_question_for_the_old_second_try() -> None:
    assert set(questions(allocate(*fleet(3, 20, kinds=2)))) == {FIRST}


def test_a_row_says_what_a_limit_ended() -> None:
    ours = [Ours(seconds, 2 * seconds, 4, 1e-12, True, {}) for seconds in (2.0, 3.0, 4.0)]
    row = Measured("m", 2.5, 3, ours, {FIRST: [1.0, 6.0, 9.0], OLD: [5.0, math.inf, math.inf]})
    row.errors[OLD] = [1e-9]
    assert list(row.cells((FIRST, OLD))) == [
        "m", "3 of 3", "1e-12", "4", "3.00 s (2.5 s: NOT MET)", "6.00 s",
        "6.00 s", "2.00×", "", "> 60 s", "> 20.0×", "1e-09",
    ]  # fmt: skip
    row.problems = 4  # one of ours was ended
    assert list(row.cells((FIRST,))) == [
        "m", "3 of 4", "", "", "> 300 s (2.5 s: NOT MET)", "", "", "", "",
    ]  # fmt: skip


@pytest.mark.slow
def test_tables_are_measured_and_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rounds, "QUICK_FLEETS", ((4, 20, 1), (3, 20, 2)))
    monkeypatch.setattr(rounds, "QUICK_MIXTURES", ((60, 5, 3),))
    monkeypatch.setattr(rounds, "SEEDS", range(1))
    report.show(rounds.fleet_table(quick=True), rounds.mixture_table(quick=True))
    shown = capsys.readouterr().out
    for words in (
        "4 users × 20 nodes ",
        "3 users × 20 nodes, 2 kinds",
        "60 servers × 5 users, m = 3",
    ):
        assert words in shown
    assert shown.count("1 of 1") == 3
