"""Every checker from both sides: a case that holds, and a case that fails by a known amount."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from drfh import (
    Cluster,
    InputError,
    Placement,
    Pools,
    Problem,
    Scenario,
    Server,
    Solution,
    UnknownNameError,
    User,
    allocate,
    audit,
    load_scenario,
)
from drfh.allocation.proofs.certificate import Certificate
from drfh.auditor import PROPERTIES, Finding, Report
from drfh.auditor.bundles import Bundles
from drfh.auditor.case import Case
from drfh.auditor.families import little_used, skewed
from drfh.auditor.lies import Lie, claimed_problem, utility
from drfh.mechanisms import MECHANISMS, find_mechanism
from drfh.mechanisms.shared.card import card_of
from drfh.mechanisms.shared.leximin import choose_oracle
from tests.support.strategies import problems

Rows = Sequence[Sequence[float]]
FIG1: Rows = [(2, 12), (12, 2)]


def case(servers: Rows, users: Rows, **lists: Sequence[Any]) -> Scenario:
    names = ("cpu", "memory")
    cluster = Cluster(
        [Server(dict(zip(names, s, strict=True)), name=f"s{k}") for k, s in enumerate(servers)]
    )
    return Scenario(
        cluster,
        tuple(
            User(f"u{i}", dict(zip(names, d, strict=True)), **{k: v[i] for k, v in lists.items()})
            for i, d in enumerate(users)
        ),
    )


def one(scenario: Any, name: str, **options: Any) -> Finding:
    return audit(scenario, properties=[name], **options)[name]


def fails(finding: Finding, amount: float, *hurt: str) -> None:
    assert finding.verdict == "fails", finding
    assert finding.amount == pytest.approx(amount, rel=1e-6), finding
    assert finding.counterexample is not None
    assert set(hurt) <= set(finding.hurt), finding


def holds(finding: Finding) -> None:
    assert (finding.verdict, finding.amount) == ("holds", 0.0), finding
    assert finding.counterexample is None
    assert finding.hurt == ()


def rows(*entries: tuple[str, str, dict[str, float]]) -> list[dict[str, Any]]:
    return [{"user": user, "server": server, **amounts} for user, server, amounts in entries]


# One allocation


def test_feasible() -> None:
    scenario = case([(4, 4)], [(1, 1), (1, 1)])
    two = rows(("u0", "s0", {"tasks": 2}), ("u1", "s0", {"tasks": 2}))
    holds(one(scenario, "feasible", observed=two))
    five = rows(("u0", "s0", {"tasks": 2}), ("u1", "s0", {"tasks": 3}))
    fails(one(scenario, "feasible", observed=five), 1 / 5, "u0", "u1")
    pinned = case([(4, 4), (4, 4)], [(1, 1), (1, 1)])
    pinned = replace(pinned, users=(replace(pinned.users[0], servers="s0"), pinned.users[1]))
    fails(one(pinned, "feasible", observed=rows(("u0", "s1", {"tasks": 1}))), 1.0, "u0")


def test_nobody_holds_more_than_its_tasks() -> None:
    scenario = load_scenario("claim-g-finite-tasks")
    three = rows(("a", "server", {"tasks": 3}), ("b", "server", {"tasks": 1}))
    fails(one(scenario, "feasible", observed=three), 2 / 3, "a")


def test_non_wasteful() -> None:
    scenario = case([(4, 4)], [(1, 1), (1, 2)])
    fair = rows(("u0", "s0", {"cpu": 1, "memory": 1}), ("u1", "s0", {"cpu": 1, "memory": 2}))
    holds(one(scenario, "non-wasteful", observed=fair))
    spare = rows(("u0", "s0", {"cpu": 2, "memory": 1}), ("u1", "s0", {"cpu": 1, "memory": 2}))
    fails(one(scenario, "non-wasteful", observed=spare), 1 / 2, "u0")


def test_envy_counts_weights_and_tasks() -> None:
    equal = case([(8, 8)], [(1, 1), (1, 1)])
    holds(one(equal, "envy-free"))
    uneven = rows(("u0", "s0", {"tasks": 2}), ("u1", "s0", {"tasks": 6}))
    fails(one(equal, "envy-free", observed=uneven), 2 / 3, "u0")
    holds(one(replace(equal, users=case([(8, 8)], [(1, 1)] * 2, weight=[1, 3]).users), "envy-free",
              observed=uneven))  # fmt: skip
    done = case([(8, 8)], [(1, 1), (1, 1)], tasks=[2, None])
    holds(one(done, "envy-free", observed=uneven))
    fails(one(done, "envy-free-literal", observed=uneven), 2 / 3, "u0")
    assert one(equal, "envy-free-literal").verdict == "not applicable"


def test_envy_looks_server_by_server() -> None:
    # All of u1's memory is on one server and its CPU on the other: of no use to u0.
    scenario = case([(4, 4), (4, 4)], [(1, 1), (1, 1)])
    split = rows(
        ("u0", "s0", {"cpu": 1, "memory": 1}),
        ("u1", "s0", {"cpu": 3, "memory": 0}),
        ("u1", "s1", {"cpu": 0, "memory": 4}),
    )
    assert one(scenario, "envy-free", observed=split).hurt == ("u1",)


def test_envy_up_to_one_task() -> None:
    scenario = case([(6, 6)], [(1, 1), (4, 3)])
    fails(one(scenario, "envy-free", whole_tasks=True), 1 / 3, "u0")
    holds(one(scenario, "envy-free-1", whole_tasks=True))
    unfair = rows(("u0", "s0", {"tasks": 1}), ("u1", "s0", {"tasks": 1}))
    fails(one(scenario, "envy-free-1", observed=unfair, whole_tasks=True), 1 / 2, "u0")
    assert one(scenario, "envy-free-1").verdict == "not applicable"


def test_pareto_shows_the_better_allocation() -> None:
    scenario = case(FIG1, [(0.2, 1), (1, 0.2)])
    holds(one(scenario, "pareto"))
    finding = one(scenario, "pareto", mechanism="per-server-drf")
    fails(finding, 0.4, "u0", "u1")
    assert finding.counterexample is not None
    assert finding.counterexample.after == pytest.approx({"u0": 10, "u1": 10})


def test_pareto_finds_room_for_who_has_nothing() -> None:
    scenario = case([(4, 4)], [(1, 1), (1, 0)])
    idle = rows(("u0", "s0", {"tasks": 2}))
    finding = one(scenario, "pareto", observed=idle)
    assert finding.verdict == "fails"
    assert finding.counterexample is not None
    assert finding.counterexample.after["u0"] >= 2 - 1e-9


def one_after_another(problem: Problem) -> Solution:
    """Give each user all that it can use of what is left: round-off remains for the next."""
    free = problem.cluster.capacity[problem.blocks.group].copy()
    entries = []
    for user, need in enumerate(problem.demand):
        for block in range(len(free)):
            tasks = float((free[block] / need).min())
            if tasks > 0:
                entries.append((user, block, tasks))
                free[block] -= tasks * need
    users, blocks, tasks_there = map(np.array, zip(*entries, strict=True))
    pools = Pools.single(len(free))
    return Solution(Placement.fitted(problem, users, blocks, tasks_there, pools))


def large(servers: int, users: int, seed: int) -> Scenario:
    rng, names = np.random.default_rng(seed), ("cpu", "memory", "gpu")
    cluster = Cluster.from_arrays(rng.lognormal(3, 0.6, (servers, 3)), names)
    demands = rng.lognormal(0, 0.8, (users, 3)).tolist()
    return Scenario(
        cluster,
        tuple(User(f"u{i}", dict(zip(names, d, strict=True))) for i, d in enumerate(demands)),
    )


@pytest.mark.parametrize(
    ("servers", "users", "seed"),
    [(30, 10, 2), pytest.param(200, 50, 3, marks=pytest.mark.slow)],
)
def test_pareto_knows_round_off_from_a_gain(servers: int, users: int, seed: int) -> None:
    scenario = large(servers, users, seed)
    report = audit(scenario, mechanism=one_after_another, properties=["feasible", "pareto"])
    holds(report["feasible"])
    holds(report["pareto"])


@pytest.mark.parametrize("part", [1e-3, 1e-4, 1.0])
def test_pareto_does_not_take_a_small_gain_for_round_off(part: float) -> None:
    def less(problem: Problem) -> Solution:
        placement = one_after_another(problem).placement
        tasks = placement.tasks * np.where(placement.user == 0, 1 - part, 1.0)
        return Solution(replace(placement, tasks=tasks))

    finding = one(large(30, 10, 2), "pareto", mechanism=less)
    assert finding.verdict == "fails"
    assert finding.amount >= part / 2


def test_pareto_sees_a_gain_on_a_small_server_of_a_large_cluster() -> None:
    servers = [Server({"cpu": 1e6}, name="large"), Server({"cpu": 1}, name="small")]
    users = (User("a", {"cpu": 1}, servers=["large"]), User("b", {"cpu": 1}, servers=["small"]))
    table = rows(("a", "large", {"tasks": 1e6}), ("b", "small", {"tasks": 0.999}))
    fails(one(Scenario(Cluster(servers), users), "pareto", observed=table), 1e-3, "b")


def test_pareto_of_whole_tasks() -> None:
    scenario = case([(6, 6)], [(1, 1), (4, 3)])
    assert one(scenario, "pareto", whole_tasks=True).verdict == "not found"
    idle = rows(("u0", "s0", {"tasks": 1}), ("u1", "s0", {"tasks": 1}))
    fails(one(scenario, "pareto", observed=idle, whole_tasks=True), 1 / 2, "u0")


@given(problems())
@settings(max_examples=40)
def test_drfh_is_always_pareto_optimal_and_halves_never_are(
    pair: tuple[Cluster, list[User]],
) -> None:
    cluster, users = pair
    allocation = allocate(cluster, users)
    holds(one(allocation, "pareto"))
    half = replace(allocation.assignment, tasks=allocation.assignment.tasks / 2)
    finding = one(replace(allocation, assignment=half), "pareto")
    if allocation.assignment.user_tasks.any():
        assert finding.verdict == "fails"
        assert finding.amount >= 0.5 - 1e-6  # who gains most at least doubles


def test_sharing_incentive() -> None:
    scenario = case([(6, 1), (1, 6)], [(1, 0.1), (1, 1)])
    fails(one(scenario, "sharing-incentive"), 1 - (20 / 11) / 3.5, "u0")
    holds(one(scenario, "sharing-incentive", mechanism="tsf"))
    weighted = case([(6, 6)], [(1, 1), (1, 1)], weight=[1, 2])
    holds(one(weighted, "sharing-incentive"))
    swapped = rows(("u0", "s0", {"tasks": 4}), ("u1", "s0", {"tasks": 2}))
    fails(one(weighted, "sharing-incentive", observed=swapped), 1 / 2, "u1")


def test_dedicated_cloud() -> None:
    scenario = case([(4, 4)] * 4, [(1, 1), (1, 1)])
    assert one(scenario, "dedicated-cloud").verdict == "not found"  # in one draw
    little = rows(
        ("u0", "s0", {"tasks": 4}), ("u0", "s1", {"tasks": 2}), ("u1", "s2", {"tasks": 4})
    )
    fails(one(scenario, "dedicated-cloud", observed=little), 1 / 2, "u1")
    assert one(case([(4, 4)], [(1, 1)] * 2), "dedicated-cloud").verdict == "not applicable"


def test_distance_from_fair() -> None:
    scenario = case([(8, 8)], [(1, 1), (1, 1)])
    holds(one(scenario, "fair"))
    uneven = rows(("u0", "s0", {"tasks": 3}), ("u1", "s0", {"tasks": 5}))
    finding = one(scenario, "fair", observed=uneven)
    fails(finding, 1 / 4, "u0")
    assert "25.0 % from fair: u0" in finding.text
    assert "u1 is over" in finding.text


def test_promise_kept() -> None:
    fails(one(case(FIG1, [(0.2, 1), (1, 0.2)]), "promise-kept", mechanism="drf"), 1 / 7, "u0")
    holds(one(case([(9, 18)], [(1, 4), (3, 1)]), "promise-kept", mechanism="drf"))
    assert one(case([(9, 18)], [(1, 4)]), "promise-kept").verdict == "not applicable"


def test_price_of_fairness() -> None:
    finding = one(load_scenario("claim-d-low-utilisation"), "price-of-fairness")
    assert finding.verdict == "measured"
    assert finding.amount == pytest.approx(1 - (11 * 110 / 101) / 20, rel=1e-6)
    best = one(load_scenario("claim-d-low-utilisation"), "price-of-fairness", mechanism="nash")
    assert best.amount == pytest.approx(0, abs=1e-5)


def test_bottleneck() -> None:
    scenario = case(FIG1, [(1, 0.9), (1, 0.9)])
    holds(one(scenario, "bottleneck-fair"))
    share = 2 * (2 + 2 / 0.9) / 2 / 14 / 2
    fails(one(scenario, "bottleneck-share"), 1 - share / 0.5, "u0", "u1")
    holds(one(case([(4, 8)], [(1, 1), (1, 1)]), "bottleneck-share"))
    uneven = rows(("u0", "s0", {"tasks": 1}), ("u1", "s0", {"tasks": 0.5}))
    fails(one(scenario, "bottleneck-fair", observed=uneven), 1 / 2, "u1")
    mixed = one(case(FIG1, [(0.2, 1), (1, 0.2)]), "bottleneck-fair")
    assert mixed.verdict == "not applicable"


def test_no_justified_complaints() -> None:
    nsdi = case([(9, 18)], [(1, 4), (3, 1)])
    fails(one(nsdi, "bbf"), 1 - (1 / 3) / (1 / 2), "u0")
    holds(one(nsdi, "bbf", mechanism="nash"))
    assert one(case(FIG1, [(1, 1)]), "bbf").verdict == "not applicable"


# Mechanisms


def test_population_monotone() -> None:
    fails(one(case([(1, 1)], [(1, 0.5), (1, 0), (0, 1)]), "population-monotone"), 1 / 9, "u2")
    finding = one(case([(1, 1)], [(1, 0.5), (1, 0.1), (0.1, 1)]), "population-monotone")
    assert finding.verdict == "holds"
    assert "Prop. 7" in finding.proof


def test_resource_monotone() -> None:
    scenario = case(FIG1, [(0.2, 1), (1, 0.2)])
    finding = one(scenario, "resource-monotone")
    fails(finding, 1 - (60 / 11) / 10, "u0")
    assert finding.counterexample is not None
    added = finding.counterexample.scenario
    assert [dict(s.resources) for s in added.cluster.servers][-1] == {"cpu": 14}
    assert allocate(added.cluster, added.users).tasks == pytest.approx(
        {"u0": 60 / 11, "u1": 120 / 11}
    )
    calm = one(scenario, "resource-monotone", mechanism="egalitarian")
    assert calm.verdict == "not found"
    assert calm.proof


def test_consistent() -> None:
    finding = one(case([(11, 8)], [(1, 1), (3, 1), (1, 1)]), "consistent")
    assert finding.verdict == "fails"
    example = finding.counterexample
    assert example is not None
    assert example.after["u2"] == pytest.approx(2.943, abs=1e-3)
    again = allocate(example.scenario.cluster, example.scenario.users).tasks
    assert again["u2"] == pytest.approx(example.after["u2"])
    holds(one(case([(8, 8)], [(1, 1), (1, 1)]), "consistent"))


def test_single_server_and_single_resource() -> None:
    nsdi = case([(9, 18)], [(1, 4), (3, 1)])
    holds(one(nsdi, "single-server"))
    fails(one(nsdi, "single-server", mechanism="asset-fairness"), 1 - 2.52 / 3, "u0")
    holds(one(nsdi, "single-resource", mechanism="asset-fairness"))

    def first_only(problem: Problem) -> Solution:
        weight = np.where(np.arange(len(problem.users)) == 0, 9.0, 1.0) * problem.weight
        answer = MECHANISMS["drfh"](replace(problem, weight=weight))
        return replace(answer, certificate=None)

    fails(one(nsdi, "single-resource", mechanism=first_only), 1 - 0.1 / 0.5, "u1")


def test_splitting_pays_where_weights_do_not_count() -> None:
    nsdi = case([(9, 18)], [(1, 4), (3, 1)])
    assert one(nsdi, "split-proof").verdict == "not found"

    def heads(problem: Problem) -> Solution:
        answer = MECHANISMS["drfh"](replace(problem, weight=np.ones(len(problem.users))))
        return replace(answer, certificate=None)

    finding = one(nsdi, "split-proof", mechanism=heads)
    assert finding.verdict == "fails"
    assert finding.counterexample is not None
    assert len(finding.counterexample.scenario.users) == 3


@pytest.mark.slow
def test_lies_against_nash_are_found_and_can_be_run_again() -> None:
    finding = one(case([(100, 100)], [(16, 1), (1, 2)]), "truthful", mechanism="nash")
    assert finding.verdict == "fails"
    assert finding.amount >= 1 - (100 / 31) / (25 / 6) - 1e-6  # at least the published lie
    example = finding.counterexample
    assert example is not None
    assert "in truth" in example.story
    lied = allocate(example.scenario.cluster, example.scenario.users, mechanism="nash")
    liar = next(iter(example.after))
    true = {user.name: user.demand for user in case([(100, 100)], [(16, 1), (1, 2)]).users}[liar]
    claim = {user.name: user.demand for user in example.scenario.users}[liar]
    use = min(claim[r] / true[r] for r in true)
    assert lied.tasks[liar] * use == pytest.approx(example.after[liar], rel=1e-6)
    assert "verified by certificates" in finding.text


def test_a_lie_without_a_certificate_says_so() -> None:
    def bare(problem: Problem) -> Solution:
        return replace(MECHANISMS["nash"](problem), certificate=None)

    finding = one(case([(100, 100)], [(16, 1), (1, 2)]), "truthful", mechanism=bare)
    assert finding.verdict == "fails"
    assert "asking again only, there is no certificate" in finding.text


def test_lies_with_whole_tasks() -> None:
    finding = one(case([(6, 6)], [(1, 1), (4, 3)]), "truthful", whole_tasks=True)
    fails(finding, 1 - 2 / 6)  # claiming (3, 3) gives room for 6; the published (3, 2) for 4
    assert finding.outside == ("divisible tasks",)


def test_what_is_known_elsewhere_is_said() -> None:
    finding = one(case(FIG1, [(0.2, 1), (1, 0.2)]), "truthful", mechanism="cdrf")
    assert finding.verdict == "not found"
    assert "claiming servers" in finding.known


def test_lies_about_servers_are_valued_where_the_user_may_run() -> None:
    # u0 may use s0 only. Claiming s1 too, it is given room there that it cannot use.
    scenario = case([(4, 4), (4, 4)], [(1, 1), (1, 1)])
    scenario = replace(
        scenario, users=(replace(scenario.users[0], servers="s0"), scenario.users[1])
    )
    claim = replace(scenario.users[0], servers=["s0", "s1"])
    problem = Problem.build(scenario.cluster, scenario.users)
    answer = MECHANISMS["drfh"](problem)
    honest = Case(scenario, Bundles.of(answer.placement), MECHANISMS["drfh"], answer.certificate)
    problem = claimed_problem(honest, [Lie(0, "both", record=claim)])
    spread = Placement.fitted(
        problem, np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([1.0, 3.0, 1.0]),
        Pools.single(2),
    )  # fmt: skip
    assert utility(honest, Solution(spread), 0) == pytest.approx(1.0)


def test_truthfulness_says_what_was_tried_and_what_is_proven() -> None:
    finding = one(case(FIG1, [(0.2, 1), (1, 0.2)]), "truthful")
    assert finding.verdict == "not found"
    assert finding.tries is not None
    assert finding.tries > 50
    assert f"no lie found in {finding.tries:,} tries" in finding.text
    assert "against Nash welfare and" in finding.text  # the control
    assert "Prop. 3" in finding.proof


def test_pairs_that_lie_together() -> None:
    scenario = case([(100, 100)], [(16, 1), (16, 1), (1, 2), (1, 2)])
    calm = one(scenario, "group-truthful")
    assert calm.verdict == "not found"
    assert "6 pairs" in calm.text
    found = one(scenario, "group-truthful", mechanism="nash")
    assert found.verdict == "fails"
    assert found.counterexample is not None
    assert len(found.counterexample.after) == 2


# The paper's claims


@pytest.mark.parametrize(
    ("name", "property_", "amount"),
    [
        ("claim-a-zero-demands", "pareto", 1 / 2),
        ("claim-b-user-leaves", "population-monotone", 1 / 9),
        ("claim-c-skewed-servers", "sharing-incentive", 1 - (20 / 11) / 3.5),
        ("paper-two-servers", "resource-monotone", 1 - (60 / 11) / 10),
        ("claim-f-common-bottleneck", "bottleneck-share", 1 - 0.150794 / 0.5),
        ("claim-g-finite-tasks", "envy-free-literal", 2 / 3),
        ("claim-h-whole-tasks", "envy-free", 1 / 3),
        ("claim-h-whole-tasks", "sharing-incentive", 1 / 3),
        ("claim-h-whole-tasks", "truthful", 2 / 3),
        ("claim-i-leaves-with-bundle", "consistent", 0.0957),
    ],
)
def test_counterexamples_come_out_by_themselves(name: str, property_: str, amount: float) -> None:
    report = audit(load_scenario(name))
    finding = report[property_]
    assert finding.verdict == "fails"
    assert finding.amount == pytest.approx(amount, abs=5e-4)
    assert finding.proof == ""  # nothing that is proven is refuted
    assert property_ in report.failed


@pytest.mark.parametrize("mechanism", ["drfh", "per-server-drf"])
def test_a_family_that_uses_arbitrarily_little(mechanism: str) -> None:
    used = []
    for n in (10, 100, 400):
        scenario = little_used(n)
        answer = allocate(scenario.cluster, scenario.users, mechanism=mechanism)
        used.append(answer.utilisation["memory"])
        best = allocate(scenario.cluster, scenario.users, mechanism="utilitarian")
        assert best.utilisation["memory"] > 0.9
    assert used == pytest.approx([2 / 10, 2 / 100, 2 / 400], rel=0.12)
    with pytest.raises(InputError, match="whole number"):
        little_used(1)


def test_a_family_that_breaks_the_sharing_incentive_without_bound() -> None:
    for n in (10, 100, 1000):
        finding = one(skewed(n), "sharing-incentive")
        assert finding.amount == pytest.approx(1 - 4 / (n + 1), rel=1e-6)


# A mechanism with a defect


def frozen_placements(problem: Problem) -> Solution:
    """DRFH with the defect of trap 1: what a round placed stays where it is."""
    n = len(problem.users)
    oracle, _ = choose_oracle(problem, "simplex")
    tasks = np.zeros((n, len(problem.blocks)))
    active = np.ones(n, dtype=bool)
    left = problem.cluster.capacity[problem.blocks.group] * problem.blocks.count[:, None]
    while active.any():
        rest = Cluster.from_arrays(np.maximum(left, 1e-9), problem.cluster.resources)
        users = tuple(u for i, u in enumerate(problem.users) if active[i])
        part = Problem.build(rest, [replace(u, tasks=None) for u in users])
        oracle, _ = choose_oracle(part, "simplex")
        cut = oracle.raise_level(np.zeros(len(users)), part.weight, np.full(len(users), np.inf))
        cap = problem.limit[active] - tasks[active].sum(axis=1)
        level = min(cut.level, float((cap * part.task_share / part.weight).min()))
        placed = oracle.place(part.weight * level)
        block, user, count = placed.entries_of(np.arange(len(part.blocks)))
        where = np.flatnonzero(active)[user]
        tasks[where, block] += count
        np.subtract.at(left, block, count[:, None] * problem.demand[where])
        done = tasks.sum(axis=1) >= problem.limit * (1 - 1e-9)
        if level >= cut.level * (1 - 1e-9):
            done[:] = True
        active &= ~done
    pool, user = np.nonzero(tasks.T > 0)
    pools = Pools.single(len(problem.blocks))
    return Solution(Placement.fitted(problem, user, pool, tasks[user, pool], pools))


def test_freezing_placements_between_rounds_is_noticed() -> None:
    scenario = case([(2, 12), (12, 2)], [(1, 0.9), (1, 0.2), (0.2, 1)], tasks=[1, None, None])
    good = audit(scenario, properties=["pareto", "fair"])
    assert good.failed == ()
    report = audit(scenario, mechanism=frozen_placements, properties=["pareto", "fair"])
    assert "fair" in report.failed or "pareto" in report.failed


# What reviewers found


def test_an_unproven_answer_is_no_excuse() -> None:
    """Give everything to the first user, with a certificate of something else."""
    scenario = case([(10, 10)], [(1, 1), (1, 1)])

    def grabbing(problem: Problem) -> Solution:
        """Claim a proof.

        Properties
            envy-free: yes; not for this answer
        """
        answer = MECHANISMS["drfh"](problem)
        zero = np.zeros(1, dtype=np.int64)
        all_of_it = Placement.fitted(problem, zero, zero, np.array([10.0]), Pools.single(1))
        assert isinstance(answer.certificate, Certificate)
        return Solution(all_of_it, Certificate.of(all_of_it, list(answer.certificate.rounds)))

    report = audit(scenario, mechanism=grabbing)
    assert not any(finding.proof for finding in report)
    assert {"fair", "envy-free", "sharing-incentive"} <= set(report.failed)
    assert report["truthful"].verdict == "not applicable"
    assert "NOT proven" in report["truthful"].text
    assert "NOT proven" in report.warnings[0]


def test_whole_tasks_are_split_into_whole_tasks() -> None:
    for tasks in (0, 1, 3):
        scenario = case([(6, 6)], [(1, 1), (1, 1)], tasks=[tasks, None])
        finding = one(scenario, "split-proof", whole_tasks=True)
        assert finding.verdict == "not found", finding


def test_a_proof_for_default_parameters_is_not_cited_for_others() -> None:
    scenario = case([(9, 18)], [(1, 4), (3, 1)])
    assert one(scenario, "sharing-incentive", mechanism="fds").proof
    other = one(scenario, "sharing-incentive", mechanism="fds", beta=0.5)
    assert other.proof == ""
    assert other.outside == ("default parameters",)


def test_a_case_of_split_groups_runs_again_as_told() -> None:
    cluster = Cluster([Server({"cpu": 11, "memory": 8}, name="big", count=3)])
    users = [
        User("a", {"cpu": 1, "memory": 1}, servers=["big/0", "big/1"]),
        User("b", {"cpu": 3, "memory": 1}),
        User("c", {"cpu": 1, "memory": 1}),
    ]
    finding = one(Scenario(cluster, tuple(users)), "consistent")
    assert finding.verdict == "fails"
    assert finding.counterexample is not None
    again = finding.counterexample.scenario
    tasks = allocate(again.cluster, again.users).tasks
    assert tasks == pytest.approx(finding.counterexample.after)


def test_who_has_no_server_left_has_no_tasks_in_the_case() -> None:
    cluster = Cluster([Server({"cpu": 8}, name="s0"), Server({"cpu": 6, "memory": 2}, name="s1")])
    users = [
        User("u0", {"cpu": 2, "memory": 0.25}),
        User("u1", {"cpu": 0.25}, servers=["s0"]),
        User("u2", {"cpu": 0.1, "memory": 0.25}, weight=3, servers=["s0"]),
        User("u3", {"cpu": 1, "memory": 3}, weight=2),
    ]
    example = one(Scenario(cluster, tuple(users)), "consistent").counterexample
    assert example is not None
    again = allocate(example.scenario.cluster, example.scenario.users).tasks
    assert again == pytest.approx(example.after, abs=1e-9)


def test_predicates_are_no_obstacle() -> None:
    cluster = Cluster([Server({"cpu": 4, "gpu": 2}, name="a"), Server({"cpu": 4}, name="b")])
    users = [User("x", {"cpu": 1}, servers=lambda s: s.resources.get("gpu", 0) > 0),
             User("y", {"cpu": 1, "gpu": 1})]  # fmt: skip
    report = audit(Scenario(cluster, tuple(users)))
    assert report["feasible"].verdict == "holds"


def test_all_who_fall_are_named() -> None:
    cluster = Cluster([Server({"cpu": 2, "memory": 12}), Server({"cpu": 12, "memory": 2})])
    users = [User(n, {"cpu": 0.2, "memory": 1}) for n in "ab"]
    users += [User(n, {"cpu": 1, "memory": 0.2}) for n in "cd"]
    finding = one(Scenario(cluster, tuple(users)), "resource-monotone")
    assert set(finding.hurt) in ({"a", "b"}, {"c", "d"})


def test_an_allocation_goes_with_nothing_else() -> None:
    scenario = load_scenario("paper-two-servers")
    allocation = allocate(scenario.cluster, scenario.users)
    with pytest.raises(InputError, match="subject must be a Scenario or a Cluster"):
        audit(allocation, mechanism="nash")


def test_whole_tasks_by_name() -> None:
    report = audit(load_scenario("claim-c-skewed-servers"), mechanism="whole-tasks")
    assert report.subject == "drfh, whole tasks"


# The report


def test_the_report_is_sorted_and_complete() -> None:
    report = audit(load_scenario("claim-c-skewed-servers"))
    assert {f.name for f in report} == set(PROPERTIES)
    verdicts = [f.verdict for f in report]
    assert verdicts == sorted(
        verdicts, key=["fails", "measured", "not found", "holds", "not applicable"].index
    )
    amounts = [f.amount for f in report if f.verdict == "fails"]
    assert amounts == sorted(amounts, reverse=True)
    data = report.to_dict()
    assert data["findings"][0]["counterexample"]["story"]
    assert "fails of 22 properties" in repr(report)
    with pytest.raises(UnknownNameError, match="property must be one of"):
        report["envy"]


def test_counterexamples_are_saved_and_run_again(tmp_path: Path) -> None:
    report = audit(load_scenario("claim-b-user-leaves"))
    for finding in report:
        if finding.counterexample is None:
            continue
        path = tmp_path / f"{finding.name}.yaml"
        finding.counterexample.save(path)
        again = load_scenario(path, strict=True)
        assert again == finding.counterexample.scenario
        allocate(again.cluster, again.users, mechanism=again.mechanism)


def test_an_allocation_is_audited_with_its_mechanism() -> None:
    scenario = load_scenario("claim-c-skewed-servers")
    by_hand = allocate(scenario.cluster, scenario.users, mechanism="norm:2", method="simplex")
    report = audit(by_hand, properties=["fair", "resource-monotone"])
    assert report["resource-monotone"].verdict in ("fails", "not found")
    assert report.scenario.parameters == {"method": "simplex"}
    whole = allocate(scenario.cluster, scenario.users, whole_tasks=True)
    assert audit(whole, properties=["envy-free-1"])["envy-free-1"].verdict == "holds"


def test_what_was_observed_has_no_mechanism() -> None:
    scenario = load_scenario("paper-two-servers")
    seen = rows(("ann", "high-memory", {"tasks": 6}), ("bob", "high-cpu", {"tasks": 8}))
    report = audit(scenario, observed=seen)
    assert report["truthful"].verdict == "not applicable"
    assert report["fair"].amount == pytest.approx(0.4)
    assert report.subject == "observed allocation"


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"user": "x", "server": "high-cpu", "tasks": 1}, "user must be one of ann, bob"),
        ({"user": "ann", "server": "big", "tasks": 1}, "server must be one of"),
        ({"user": "ann", "server": "high-cpu"}, "must have tasks, or amounts of cpu, memory"),
        ({"user": "ann", "server": "high-cpu", "tasks": -1}, "tasks must be"),
        ({"user": "ann", "server": "high-cpu", "tasks": 1, "cpu": 1}, "must not stand beside"),
        ({"user": "ann", "server": "high-cpu", "gpus": 1}, "column must be one of"),
    ],
)
def test_bad_tables_are_refused(row: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        audit(load_scenario("paper-two-servers"), observed=[row])


def test_whole_groups_and_single_servers_can_be_observed() -> None:
    cluster = Cluster([Server({"cpu": 4}, name="node", count=2)])
    scenario = Scenario(cluster, (User("a", {"cpu": 1}),))
    report = audit(scenario, observed=rows(("a", "node", {"tasks": 8})))
    assert report.tasks == {"a": 8.0}
    one_server = audit(scenario, observed=rows(("a", "node/1", {"tasks": 3})))
    assert one_server.tasks == {"a": 3.0}
    with pytest.raises(InputError, match="one server such as node/0"):
        audit(scenario, observed=rows(("a", "node", {"tasks": 8})), whole_tasks=True)


def test_rows_of_one_user_on_one_server_count_together() -> None:
    scenario = case([(4, 4)], [(1, 1), (1, 1)])
    apart = rows(("u0", "s0", {"cpu": 2}), ("u0", "s0", {"memory": 2}), ("u1", "s0", {"tasks": 2}))
    assert audit(scenario, observed=apart, properties=["fair"]).tasks == {"u0": 2.0, "u1": 2.0}


def test_bad_questions_are_refused() -> None:
    scenario = load_scenario("paper-two-servers")
    with pytest.raises(UnknownNameError, match="property must be one of bbf"):
        audit(scenario, properties=["honest"])
    with pytest.raises(InputError, match="users must be given with a cluster"):
        audit(scenario.cluster)
    with pytest.raises(InputError, match="subject must be"):
        audit("paper-two-servers")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="must be used with the mechanism drfh"):
        audit(scenario, mechanism="tsf", whole_tasks=True)
    with pytest.raises(UnknownNameError, match="parameter of drfh"):
        audit(scenario, metod="simplex")


def test_progress_is_told() -> None:
    reports: list[tuple[str, float]] = []
    audit(
        load_scenario("paper-two-servers"),
        properties=["envy-free", "truthful"],
        progress=lambda name, part: reports.append((name, part)),
    )
    assert reports[0] == ("envy-free", 0.0)
    assert reports[-1] == ("truthful", 1.0)
    assert any(0 < part < 1 for _, part in reports)


def test_a_refuted_proof_would_be_seen() -> None:
    def liar(problem: Problem) -> Solution:
        """Claim too much.

        Properties
            sharing-incentive: yes; it is not so
        """
        return replace(MECHANISMS["drfh"](problem), certificate=None)

    finding = one(load_scenario("claim-c-skewed-servers"), "sharing-incentive", mechanism=liar)
    assert (finding.verdict, finding.proof) == ("fails", "it is not so")


@pytest.mark.parametrize("name", list(MECHANISMS))
def test_cards_name_properties_that_exist(name: str) -> None:
    from drfh.testing import SYMMETRIES

    card = card_of(MECHANISMS[name])
    assert card.summary
    assert card.definition
    assert card.paper
    assert set(card.claims) <= {*PROPERTIES, *SYMMETRIES}
    assert find_mechanism(name)[0] == name if ":" not in name else True


def test_report_type_is_public() -> None:
    assert isinstance(audit(load_scenario("paper-two-servers"), properties=["fair"]), Report)
