"""Audits where users have several kinds of tasks."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from typer.testing import CliRunner

from drfh import (
    Cluster,
    InputError,
    Kind,
    Problem,
    Scenario,
    Server,
    Solution,
    User,
    allocate,
    audit,
    compare,
    load_scenario,
    save_scenario,
)
from drfh.auditor import PROPERTIES, Finding, Report, case_of
from drfh.auditor.bundles import Bundles, best_use
from drfh.auditor.case import Case
from drfh.auditor.lies import Search, candidates, outcome
from drfh.auditor.observed import read_observed
from drfh.auditor.properties.monotonicity import without_user
from drfh.auditor.properties.truthfulness import split_proof, truthful
from drfh.cli import app
from drfh.mechanisms import MECHANISMS, Mechanism
from tests.allocation.test_mixes import mixes
from tests.support.strategies import problems

ONE_KIND_ONLY = {
    "envy-free-literal", "envy-free-1", "bottleneck-fair", "bottleneck-share", "bbf",
    "single-server", "single-resource",
}  # fmt: skip
OF_BUNDLES = {"envy-free", "sharing-incentive", "dedicated-cloud", "truthful", "group-truthful"}


def one(subject: Any, name: str, **options: Any) -> Finding:
    return audit(subject, properties=[name], **options)[name]


def teams() -> Scenario:
    """Return a case in which ml has 4 mixes of 1 train and 2 prepare, and web 12 tasks."""
    cluster = Cluster(
        [
            Server({"cpu": 12, "gpu": 8}, name="gpu-node"),
            Server({"cpu": 6}, name="cpu-node", count=2),
        ]
    )
    kinds = [Kind({"cpu": 1, "gpu": 1}, name="train"), Kind({"cpu": 1}, ratio=2, name="prepare")]
    return Scenario(cluster, (User("ml", kinds=kinds), User("web", {"cpu": 1})), title="Teams")


def twins(weight: float = 1) -> Scenario:
    """Return a case of two teams alike, each with 4 mixes; or the second of another weight."""
    ml = teams().users[0]
    return replace(teams(), users=(ml, replace(ml, name="ai", weight=weight)))


def free_cpus() -> Scenario:
    """Return a case in which only ml needs CPUs, and a lie about them pays."""
    cluster = Cluster([Server({"cpu": 4, "gpu": 8}, name="node")])
    kinds = [Kind({"cpu": 1}, name="prepare"), Kind({"gpu": 1}, name="train")]
    return Scenario(cluster, (User("ml", kinds=kinds), User("web", {"gpu": 1})))


def asked(scenario: Scenario, mechanism: Mechanism) -> Case:
    """Return a case of a mechanism that is not among those that take kinds."""
    answer = mechanism(Problem.build(scenario.cluster, scenario.users))
    return Case(scenario, Bundles.of(answer.placement), mechanism, answer.certificate)


def plain(report: Report) -> Any:
    data = report.to_dict()
    for part in (data, *data["findings"]):
        part.pop("seconds")
    return data


# What a bundle is worth


@given(mixes())
@settings(max_examples=60)
def test_nobody_gains_by_placing_its_kinds_anew(pair: tuple[Cluster, list[User]]) -> None:
    answer = allocate(*pair)
    best = Bundles.of(answer.assignment).best_tasks
    np.testing.assert_allclose(best, answer.assignment.user_tasks, rtol=1e-6, atol=1e-9)


@given(mixes())
@settings(max_examples=60)
def test_the_best_use_of_servers_is_the_allocation_with_nobody_else(
    pair: tuple[Cluster, list[User]],
) -> None:
    cluster, users = pair
    problem = Problem.build(cluster, users)
    blocks = np.arange(len(problem.blocks))
    capacity = problem.cluster.capacity[problem.blocks.group] * problem.blocks.count[:, None]
    for position, user in enumerate(users):
        alone = allocate(cluster, [user]).assignment.user_tasks
        best = best_use(problem, position, blocks, capacity)
        np.testing.assert_allclose(best, alone, rtol=1e-6, atol=1e-9)


def test_the_first_mixes_that_differ_decide() -> None:
    case = case_of(teams())
    # Mixes of ml: 4 and 10 against 4 and 5 (first by ratio, then sorted).
    has, other = np.array([4.0, 20.0, 1.0]), np.array([5.0, 8.0, 2.0])
    assert [part.tolist() for part in case.decisive(has, other)] == [[10.0, 1.0], [5.0, 2.0]]
    assert case.lost(has, other).tolist() == [0.0, 0.5]
    assert case.lost(other, has).tolist() == [0.5, 0.0]
    assert case.lost(has, has * (1 + 1e-7)).tolist() == pytest.approx([0, 0], abs=1e-6)


def test_a_user_leaves_with_all_its_kinds() -> None:
    scenario = teams()
    problem = Problem.build(
        scenario.cluster, (*scenario.users, replace(scenario.users[0], name="x"))
    )
    rest = without_user(problem, 0)
    assert rest.names() == ["web", "x/train", "x/prepare"]
    assert rest.mixes is not None
    assert rest.mixes.owner.tolist() == [0, 1, 1]
    assert without_user(without_user(problem, 2), 0).mixes is None


# One kind


@given(problems())
@settings(max_examples=5)
def test_one_kind_is_a_demand(pair: tuple[Cluster, list[User]]) -> None:
    cluster, users = pair
    as_kinds = [
        User(
            user.name,
            weight=user.weight,
            kinds=[Kind(user.demand, tasks=user.tasks, servers=user.servers)],
        )
        for user in users
    ]
    options: dict[str, Any] = {"tries": 20, "seconds": 1e3}
    assert plain(audit(cluster, as_kinds, **options)) == plain(audit(cluster, users, **options))


@pytest.mark.slow
@given(problems())
@settings(max_examples=20)
def test_two_equal_kinds_are_judged_as_one(pair: tuple[Cluster, list[User]]) -> None:
    cluster, users = pair
    halves = []
    for user in users:
        half = None if user.tasks is None else user.tasks / 2
        kind = Kind(user.demand, tasks=half, servers=user.servers, ratio=1)
        halves.append(User(user.name, weight=user.weight, kinds=[kind, kind]))
    names = [
        "feasible", "fair", "envy-free", "pareto", "sharing-incentive", "dedicated-cloud",
        "population-monotone", "resource-monotone", "consistent", "split-proof",
    ]  # fmt: skip
    expected = audit(cluster, users, properties=names)
    found = audit(cluster, halves, properties=names)
    for name in names:
        assert found[name].verdict == expected[name].verdict, name
        assert found[name].amount == pytest.approx(expected[name].amount, abs=2e-5), name


# What is measured


def test_no_proof_is_cited() -> None:
    report = audit(teams(), tries=20)
    assert {f.name for f in report if f.verdict == "not applicable"} == {
        "promise-kept",
        *ONE_KIND_ONLY,
    }
    for finding in report:
        assert finding.proof == ""
    for name in ("envy-free", "pareto", "truthful", "population-monotone"):
        assert report[name].outside[-1] == "one kind of tasks a user"
    assert report["pareto"].verdict == "holds"
    assert report.tasks == pytest.approx({"ml/train": 4, "ml/prepare": 8, "web": 12})


def test_whole_tasks() -> None:
    report = audit(teams(), whole_tasks=True, tries=20)
    skipped = {f.name for f in report if f.verdict == "not applicable"}
    assert skipped == {"promise-kept", *ONE_KIND_ONLY, *OF_BUNDLES}
    assert report["fair"].verdict == "holds"
    assert report["pareto"].outside == ("divisible tasks", "one kind of tasks a user")


def test_what_is_left_when_a_team_takes_its_part_along() -> None:
    cluster = Cluster([Server({"cpu": 11, "memory": 8}, name=name) for name in "ab"])
    kinds = [Kind({"cpu": 1, "memory": 1}, servers="a"), Kind({"cpu": 1, "memory": 1}, ratio=2)]
    users = User("u", kinds=kinds), User("v", {"cpu": 3, "memory": 1}), User("w", kinds=kinds)
    finding = one(Scenario(cluster, users), "consistent")
    assert finding.verdict == "fails"
    example = finding.counterexample
    assert example is not None
    again = allocate(example.scenario.cluster, example.scenario.users)
    rows = dict(zip(again.problem.names(), again.assignment.user_tasks.tolist(), strict=True))
    assert rows == pytest.approx(example.after)
    assert len(example.after) < len(example.before)


def test_the_promise_is_kept_or_not_by_kind() -> None:
    cluster = Cluster([Server({"cpu": 8}), Server({"gpu": 8})])
    kinds = [Kind({"cpu": 1, "gpu": 1}, name="train"), Kind({"cpu": 1}, name="prepare")]
    finding = one(Scenario(cluster, (User("ml", kinds=kinds),)), "promise-kept", mechanism="drf")
    assert finding.verdict == "fails"
    assert finding.text == "ml/train is promised 4 tasks and 0 can be placed"
    assert finding.hurt == ("ml/train",)


def test_mechanisms_that_take_one_kind_are_refused() -> None:
    with pytest.raises(InputError, match="tsf takes one kind a user"):
        audit(teams(), mechanism="tsf")


# What was observed


def rows(*entries: tuple[str, str, str, float]) -> list[dict[str, Any]]:
    return [
        {"user": user, "kind": kind, "server": server, "tasks": tasks}
        for user, kind, server, tasks in entries
    ]


def test_what_was_observed_by_kind() -> None:
    fair = rows(
        ("ml", "train", "gpu-node", 4),
        ("ml", "prepare", "cpu-node", 8),
        ("web", "", "gpu-node", 8),
        ("web", "", "cpu-node", 4),
    )
    names = ["feasible", "non-wasteful", "fair", "envy-free", "pareto", "sharing-incentive"]
    report = audit(teams(), observed=fair, properties=names)
    assert [finding.verdict for finding in report] == ["holds"] * len(names)

    half = rows(
        ("ml", "train", "gpu-node", 2),
        ("ml", "prepare", "cpu-node", 4),
        ("web", "", "gpu-node", 8),
        ("web", "", "cpu-node", 4),
    )
    report = audit(teams(), observed=half, properties=names)
    assert report["fair"].amount == pytest.approx(0.5)
    assert report["fair"].text == (
        "50.0 % from fair: ml has a dominant share of 25.0 %, 50.0 % in the DRFH optimum"
    )
    assert report["fair"].hurt == ("ml",)
    # Of 24 CPUs 6 are idle.
    better = report["pareto"]
    assert better.verdict == "fails"
    assert "ml/train" in better.hurt
    assert better.counterexample is not None
    before, after = better.counterexample.before, better.counterexample.after
    assert all(after[name] >= before[name] - 1e-9 for name in before)
    assert sum(after.values()) == pytest.approx(24)
    assert report["sharing-incentive"].text.startswith(
        "ml has 2 train and 4 prepare and would have 4 train and 8 prepare with its part"
    )


def test_envy_of_what_another_team_holds() -> None:
    uneven = rows(
        ("ml", "train", "gpu-node", 2),
        ("ml", "prepare", "cpu-node", 4),
        ("ai", "train", "gpu-node", 4),
        ("ai", "prepare", "cpu-node", 8),
    )
    finding = one(twins(), "envy-free", observed=uneven)
    assert finding.amount == pytest.approx(0.5)
    assert finding.text == (
        "ml has 2 train and 4 prepare and would have 4 train and 8 prepare with what ai holds"
    )
    assert one(twins(weight=2), "envy-free", observed=uneven).verdict == "holds"
    cut = one(twins(weight=2), "envy-free", observed=uneven, seconds=-1)
    assert (cut.verdict, cut.text[-13:]) == ("not found", ": time was up")


def test_equal_shares_may_leave_envy() -> None:
    # Both have half of the GPUs, and with the bundle of ai come more of the scarce CPUs.
    ml = User("ml", kinds=[Kind({"gpu": 1}, name="train"), Kind({"cpu": 1}, name="prepare")])
    others = User("ai", {"gpu": 1, "cpu": 2}), User("web", {"cpu": 1})
    scenario = Scenario(Cluster([Server({"cpu": 36, "gpu": 8})]), (ml, *others))
    finding = one(scenario, "envy-free")
    assert finding.text == "ml has 7 prepare and would have 8 prepare with what ai holds"
    assert finding.amount == pytest.approx(1 / 8)
    assert finding.proof == ""


def test_what_a_team_holds_counts_for_all_its_kinds() -> None:
    odd = rows(("ml", "train", "gpu-node", 6), ("ml", "prepare", "gpu-node", 3))
    case = case_of(teams(), observed=odd)
    assert case.tasks.tolist() == [6, 3, 0]
    assert case.outcome.tolist() == pytest.approx([3, 6, 0])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"user": "ml"}, r"rows\[0\].kind must name the kind of tasks of ml: train, prepare"),
        (
            {"user": "ml", "kind": "trian"},
            r"rows\[0\].kind must be one of prepare, train \(did you",
        ),
        ({"user": "ml/train"}, r"rows\[0\].user must be one of ml, web"),
    ],
)
def test_rows_that_do_not_name_a_kind(row: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        case_of(teams(), observed=[{**row, "server": "gpu-node", "tasks": 1}])


# Lies


def test_the_lies_that_are_tried() -> None:
    labels = {lie.label for lie in candidates(case_of(teams()), 0, np.random.default_rng(0))}
    assert {
        "2 times its cpu for prepare",
        "some gpu that it does not need for prepare",
        "that it may not use cpu-node for prepare",
        "the shape of web for train",
        "2 times the ratio of train",
        "train as two kinds",
        "no prepare",
        "train and prepare as one task",
    } <= labels


def test_joined_kinds_run_where_all_of_them_may() -> None:
    cluster = Cluster([Server({"cpu": 8, "gpu": 8}, name=name) for name in "abc"])
    kinds = [
        Kind({"cpu": 1}, tasks=6, ratio=2, servers=["a", "b"]),
        Kind({"gpu": 3}, ratio=1, servers=["b", "c"]),
        Kind({"cpu": 1}, ratio=1, servers="c"),
    ]
    case = case_of(Scenario(cluster, (User("u", kinds=kinds),)))
    lies = {lie.label: lie for lie in candidates(case, 0, np.random.default_rng(0))}
    record = lies["kind 1 and kind 2 as one task"].record
    assert record is not None
    joint = record.kinds[-1]
    assert joint.demand == {"cpu": 1, "gpu": 1.5}
    assert (joint.tasks, joint.ratio, joint.servers) == (6, 2, ("b",))
    assert "kind 1 and kind 3 as one task" not in lies  # no server admits both
    assert "kind 1, kind 2 and kind 3 as one task" not in lies


def test_what_a_lie_brings_counts_on_servers_that_can_truly_be_used() -> None:
    cluster = Cluster([Server({"cpu": 4}, name="node", count=2)])
    ml = User("ml", kinds=[Kind({"cpu": 1}, servers="node/1"), Kind({"cpu": 1}, servers="node/1")])
    case = case_of(Scenario(cluster, (ml,)))
    everywhere = replace(ml, kinds=tuple(replace(kind, servers="node") for kind in ml.kinds))
    answer = case.answer(cluster, [everywhere])
    assert answer.placement.user_tasks.tolist() == pytest.approx([4, 4])
    assert outcome(case, answer, 0).tolist() == pytest.approx([2, 2])
    wider = case_of(Scenario(cluster, (everywhere,)))
    assert outcome(wider, wider.answer(cluster, [ml]), 0).tolist() == pytest.approx([2, 2])


def test_a_lie_pays_where_only_one_team_needs_a_resource() -> None:
    # By its CPUs ml is ahead of web, so it stops at 8/3 of 8 GPUs, and has all CPUs in the end.
    scenario = free_cpus()
    assert allocate(scenario.cluster, scenario.users).kinds["ml"] == pytest.approx([4, 8 / 3])
    finding = one(scenario, "truthful", tries=300)
    assert finding.amount == pytest.approx(1 / 3)
    assert finding.text.startswith("ml gains 50.0 % by claiming ")
    assert "for prepare" in finding.text or "the ratio of" in finding.text
    assert "2.667 train become 4 train (verified by certificates" in finding.text
    assert finding.hurt == ("web",)
    example = finding.counterexample
    assert example is not None
    assert example.after == pytest.approx({"ml/prepare": 4, "ml/train": 4})
    assert "ml in truth: prepare 1 cpu; train 1 gpu." in example.story
    again = allocate(example.scenario.cluster, example.scenario.users)
    assert again.tasks["web"] == pytest.approx(4)


def weighted(weight: Callable[[User], float]) -> Mechanism:
    """Return DRFH with weights of its own."""

    def mechanism(problem: Problem) -> Solution:
        mixes = problem.mixes
        users = tuple(
            replace(user, weight=weight(user))
            for user in (problem.users if mixes is None else mixes.users)
        )
        of_row = range(len(users)) if mixes is None else mixes.owner.tolist()
        changed = replace(
            problem,
            weight=np.array([users[i].weight for i in of_row]),
            mixes=mixes and replace(mixes, users=users),
        )
        answer = MECHANISMS["drfh"](changed)
        return replace(answer, placement=replace(answer.placement, problem=problem))

    return mechanism


@pytest.mark.parametrize(
    ("power", "label"), [(-2, "train and prepare as one task"), (2, "as two kinds")]
)
def test_lies_are_found_where_the_number_of_kinds_counts(power: int, label: str) -> None:
    scenario = Scenario(
        Cluster([Server({"cpu": 12, "gpu": 12})]),
        (
            User("ml", kinds=[Kind({"cpu": 1, "gpu": 1}, name=n) for n in ("train", "prepare")]),
            User("web", {"cpu": 1, "gpu": 1}),
        ),
    )
    mechanism = weighted(lambda user: max(1, len(user.kinds)) ** power)
    case = replace(asked(scenario, mechanism), tries=200)
    found = Search(case).run()
    assert found is not None
    assert label in found[0].label
    finding = truthful(case)
    assert finding.verdict == "fails"
    assert "control failed" not in finding.text


def test_the_control_with_kinds_finds_its_lie() -> None:
    text = one(teams(), "truthful", tries=20).text
    assert (
        "45.0 % against Nash welfare, 200.0 % against whole tasks and 50.0 % against DRFH" in text
    )


def test_splitting_a_team_pays_where_weights_do_not_count() -> None:
    finding = split_proof(asked(twins(), weighted(lambda user: 1.0)))
    assert finding.amount == pytest.approx(1 / 4)
    text = (
        "ml gains by becoming two users: 4 train and 8 prepare become 5.333 train and 10.67 prepare"
    )
    assert finding.text == text
    assert finding.counterexample is not None
    users = finding.counterexample.scenario.users
    assert [(user.name, user.weight) for user in users] == [("ml", 0.5), ("ml-2", 0.5), ("ai", 1)]


def test_half_of_all_tasks_of_each_kind() -> None:
    scenario = teams()
    kinds = [replace(kind, tasks=5.0) for kind in scenario.users[0].kinds]
    finite = replace(scenario, users=(replace(scenario.users[0], kinds=tuple(kinds)),))
    for whole, expected in ((False, [2.5, 2.5]), (True, [2, 3])):
        seen: list[list[float | None]] = []

        def record(problem: Problem, seen: list[list[float | None]] = seen) -> Solution:
            assert problem.mixes is not None
            seen.append([user.kinds[0].tasks for user in problem.mixes.users])
            return MECHANISMS["drfh"](problem)

        case = replace(case_of(finite, whole_tasks=whole), mechanism=record)
        assert split_proof(case).verdict == "not found"
        assert seen[-1] == expected


# On the command line


@pytest.fixture
def saved(tmp_path: Path) -> str:
    path = tmp_path / "teams.yaml"
    save_scenario(free_cpus(), path)
    return str(path)


def test_the_command(saved: str, tmp_path: Path) -> None:
    run = CliRunner()
    names = [*sorted(set(PROPERTIES) - {"group-truthful"})]
    page = tmp_path / "card.html"
    asked_for = ["audit", saved, "--only", ",".join(names), "--html", str(page), "--json"]
    result = run.invoke(app, asked_for)
    assert result.exit_code == 0, result.output
    data = json.loads(result.output)
    found = {finding["property"]: finding for finding in data["findings"]}
    assert found["truthful"]["outside"] == ["one kind of tasks a user"]
    assert data["tasks"] == pytest.approx({"ml/prepare": 4, "ml/train": 8 / 3, "web": 16 / 3})
    assert "ml/train" in page.read_text()

    kept = tmp_path / "lie.yaml"
    result = run.invoke(app, ["audit", saved, "--show", "truthful", "--save", str(kept)])
    assert result.exit_code == 0, result.output
    assert "ml/train" in result.output
    again = load_scenario(kept)
    assert allocate(again.cluster, again.users).tasks["web"] == pytest.approx(4)


def test_the_observed_table(saved: str, tmp_path: Path) -> None:
    table = tmp_path / "running.csv"
    table.write_text("user,kind,server,tasks\nml,prepare,node,4\nml,train,node,2\nweb,,node,6\n")
    result = CliRunner().invoke(app, ["audit", saved, "--observed", str(table), "--only", "fair"])
    assert result.exit_code == 0, result.output
    assert "2 users on 1 server" in result.output
    table.write_text("user,server,tasks\nml,node,4\n")
    with pytest.raises(InputError, match="line 2: kind must name the kind of tasks of ml: prepare"):
        audit(free_cpus(), observed=read_observed(table))


def test_comparisons_have_marks_and_say_who_takes_one_kind() -> None:
    comparison = compare(teams())
    assert comparison["drfh"].marks["envy-free"].verdict == "holds"
    assert comparison["drf"].marks["sharing-incentive"].verdict == "holds"
    assert "takes one kind a user" in comparison["tsf"].why_not
