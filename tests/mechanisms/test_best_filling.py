"""The best whole tasks found: never worse than a shipped choice of servers, within capacity."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drfh import Allocation, Cluster, InputError, Kind, Scheduler, Server, User, allocate
from drfh.allocation.problem import Problem
from drfh.kernels import compiled
from drfh.kernels.choices import CHOICES, fill_by_choice
from drfh.mechanisms.shared import best_filling as module
from drfh.mechanisms.shared import progressive_filling
from drfh.mechanisms.shared.best_filling import best_filling, kind_levels
from drfh.mechanisms.shared.progressive_filling import WholeTasks, fill_whole_tasks, filling_order
from drfh.mechanisms.solvers.whole_leximin import whole_leximin
from drfh.policies.policy import CHOICES as POLICY_CHOICES
from tests.allocation.test_mixes import mixes
from tests.support.examples import examples
from tests.support.strategies import problems

Pair = tuple[Cluster, list[User]]


@pytest.fixture(autouse=True)
def short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let searches end by themselves soon: what is tested does not depend on how long they are."""
    monkeypatch.setattr(module, "_FEWEST_STALLS", 20)
    monkeypatch.setattr(module, "_STALLS_EACH", 1)


def shared_node() -> Pair:
    """Best-Fit puts web's tasks on the only node that ml may use."""
    cluster = Cluster(
        [
            Server({"cpu": 20, "memory": 20}, name="gpu", labels={"gpu": "yes"}),
            Server({"cpu": 20, "memory": 60}, name="cpu"),
        ]
    )
    demand = {"cpu": 1, "memory": 1}
    ml = User("ml", demand, tasks=19, servers={"gpu": "yes"})
    return cluster, [ml, User("web", demand, tasks=9)]


def test_another_choice_of_servers_gives_one_more_and_nobody_less() -> None:
    paper = allocate(*shared_node(), whole_tasks=True, filling="paper")
    assert paper.tasks == {"ml": 11, "web": 9}
    assert paper.method == "best-fit filling"
    best = allocate(*shared_node(), whole_tasks=True)
    assert best.tasks == {"ml": 19, "web": 9}
    assert best.method == "dot filling"
    assert best.loss == 0
    assert best.parameters["filling"] == "best"
    assert best.to_dict()["method"] == best.method
    assert best.to_dict()["filling"] == "best"


def test_the_search_finds_what_no_choice_does() -> None:
    shapes = [(29, 33), (12, 16), (11, 5), (19, 24)]
    cluster = Cluster([Server({"cpu": c, "memory": m}) for c, m in shapes])
    demands = [(11, 2), (11, 8), (6, 4), (8, 6)]
    users = [User(f"u{i}", {"cpu": c, "memory": m}) for i, (c, m) in enumerate(demands)]
    paper = allocate(cluster, users, whole_tasks=True, filling="paper")
    best = allocate(cluster, users, whole_tasks=True, seconds=60)
    assert list(paper.tasks.values()) == [2, 1, 2, 2]
    assert sorted(best.tasks.values()) == [1, 2, 2, 3]
    assert best.tasks["u2"] == 3
    assert best.method == "local search after best-fit filling"


def levels(arrays: WholeTasks, tasks: Any) -> list[float]:
    counted = module._counted(arrays)
    return list(kind_levels(arrays, np.asarray(tasks, dtype=np.int64), counted))


def never_worse(cluster: Cluster, users: list[User]) -> None:
    problem = Problem.build(cluster, users)
    arrays = WholeTasks.of(problem)
    best = best_filling(problem, seconds=60)
    assert best.complete
    found = levels(arrays, best_filling(problem, seconds=0).placement.user_tasks)
    assert levels(arrays, best.placement.user_tasks) >= found  # the search makes nothing worse
    assert found >= levels(arrays, fill_whole_tasks(problem).user_tasks)
    for choice in CHOICES:
        for reference in range(len(cluster.resources)) if choice == "best-fit" else (0,):
            tasks = np.zeros(len(arrays.need))
            for rows, _ in arrays.filled(choice, reference):
                tasks += np.bincount(rows, minlength=len(tasks))
            assert found >= levels(arrays, tasks), choice
    fits(problem, arrays, best.placement)


def fits(problem: Problem, arrays: WholeTasks, placement: Any) -> None:
    """Check capacities, numbers of tasks and restrictions."""
    used = np.zeros_like(arrays.capacity)
    for row, server, tasks in zip(placement.user, placement.pool, placement.tasks, strict=True):
        assert tasks == int(tasks) > 0
        assert arrays.allowed[row, arrays.block[server]]
        used[server] += int(tasks) * arrays.need[row]
    assert (used <= arrays.capacity).all()
    assert (placement.user_tasks <= arrays.limit).all()


@settings(max_examples=examples(100))
@given(problems())
def test_never_worse_than_a_shipped_choice(pair: Pair) -> None:
    never_worse(*pair)


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_never_worse_where_choices_differ(first: int) -> None:
    for seed in range(first, first + 10):
        never_worse(*random_pair(seed))


@settings(max_examples=examples(60))
@given(mixes())
def test_never_worse_with_several_kinds(pair: Pair) -> None:
    never_worse(*pair)


def test_all_shipped_choices_are_tried() -> None:
    assert set(CHOICES) == set(POLICY_CHOICES)


@settings(max_examples=examples(60))
@given(problems(), st.sampled_from([name for name in CHOICES if name != "random"]))
def test_a_choice_is_that_of_the_scheduler(pair: Pair, choice: str) -> None:
    cluster, users = pair
    arrays = WholeTasks.of(Problem.build(cluster, users))
    found: Counter[tuple[int, int]] = Counter()
    reference = cluster.resources.index("cpu") if "cpu" in cluster.resources else 0
    for rows, servers in arrays.filled(choice, reference):
        found.update(zip(rows.tolist(), servers.tolist(), strict=True))
    scheduler = Scheduler(cluster, {"choice": choice}, engine="plain")
    names = [name for group in cluster.servers for name in server_names(group)]
    for user, limit in zip(users, arrays.limit.tolist(), strict=True):
        scheduler.add_user(user.name, user.weight, servers=user.servers)
        most = min(limit, 500)
        if most:
            scheduler.submit(user.name, user.name, user.demand, count=most)
    placed = scheduler.place()
    numbers = {user.name: position for position, user in enumerate(users)}
    expected = Counter((numbers[p.user], names.index(p.server)) for p in placed)
    assert found == expected


def server_names(group: Server) -> list[str]:
    if group.count == 1:
        return [str(group.name)]
    return [f"{group.name}/{number}" for number in range(group.count)]


@settings(max_examples=examples(40))
@given(mixes(), st.sampled_from(CHOICES))
def test_twins_agree_exactly(pair: Pair, choice: str) -> None:
    arrays = WholeTasks.of(Problem.build(*pair))
    answers = []
    for twin in (fill_by_choice, compiled(fill_by_choice)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(progressive_filling, "fast", lambda *_, twin=twin, **__: twin)
            answers.append([(r.tolist(), s.tolist()) for r, s in arrays.filled(choice, 0, 3)])
    assert answers[0] == answers[1]


def random_pair(seed: int) -> Pair:
    random = np.random.default_rng(seed)
    shapes = random.integers(4, 17, (4, 2)).tolist()
    demands = random.integers(1, 6, (3, 2)).tolist()
    return (
        Cluster([Server({"cpu": c, "memory": m}) for c, m in shapes]),
        [User(f"u{i}", {"cpu": c, "memory": m}) for i, (c, m) in enumerate(demands)],
    )


def test_the_same_seed_gives_the_same_placement() -> None:
    for number in range(5):
        answers = [
            allocate(*random_pair(number), whole_tasks=True, seconds=60, seed=seed)
            for seed in (7, 7, 8)
        ]
        rows = [answer.placement(expand=True).rows() for answer in answers]
        assert rows[0] == rows[1]
        assert answers[0].method == answers[1].method


def test_most_small_clusters_end_at_the_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FEWEST_STALLS", 300)
    optimal = 0
    for number in range(10):
        problem = Problem.build(*random_pair(number))
        arrays = WholeTasks.of(problem)
        exact = levels(arrays, whole_leximin(problem))
        found = levels(arrays, best_filling(problem, seconds=60).placement.user_tasks)
        assert found <= exact
        optimal += found == exact
    assert optimal >= 8


def test_without_time_the_best_choice_stands_and_says_so() -> None:
    whole = allocate(*random_pair(0), whole_tasks=True, seconds=0)
    assert whole.method.endswith("filling")
    assert whole.notes == ("the local search ended with its time; more seconds may find more",)


def test_a_large_cluster_leaves_slow_choices_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_STEPS", 1.0)
    whole = allocate(*random_pair(0), whole_tasks=True, seconds=60)
    (note,) = whole.notes
    assert note.startswith("not tried on so large a cluster: random, cosine, simplex")


@settings(max_examples=examples(40))
@given(problems())
def test_first_fit_by_an_index_is_the_same(pair: Pair) -> None:
    problem = Problem.build(*pair)
    plain = [(r.tolist(), s.tolist()) for r, s in WholeTasks.of(problem).filled("first-fit", 0)]
    indexed = [(r.tolist(), s.tolist()) for r, s in filling_order(problem, first_fit=True)]
    assert plain == indexed


def test_a_kind_that_stops_early_counts() -> None:
    """Two kinds, one of them only on the small server: levels are those at which kinds stop."""
    kinds = [Kind({"cpu": 1}, name="here", servers="small"), Kind({"cpu": 1}, name="any")]
    cluster = Cluster([Server({"cpu": 2}, name="small"), Server({"cpu": 6}, name="large")])
    problem = Problem.build(cluster, [User("a", kinds=kinds), User("b", {"cpu": 1})])
    arrays = WholeTasks.of(problem)
    assert levels(arrays, [2, 2, 4]) == [0.5, 0.5, 0.5]
    assert levels(arrays, [1, 3, 4]) == [0.25, 0.5, 0.5]
    best = best_filling(problem, seconds=60)
    assert best.placement.user_tasks.tolist() == [2, 2, 4]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"filling": "bset"}, "filling must be one of best, paper (did you mean best?)"),
        ({"filling": 3}, "filling must be one of best, paper, got '3'"),
        ({"seconds": -1}, "seconds must be a finite number ≥ 0, got -1"),
        ({"seconds": float("nan")}, "seconds must be a finite number ≥ 0, got nan"),
        ({"seconds": "2"}, "seconds must be a finite number ≥ 0, got '2'"),
        ({"seed": 1.5}, "seed must be an integer ≥ 0, got 1.5"),
        ({"reference": "disk"}, "reference must be one of cpu, memory, got 'disk'"),
    ],
)
def test_wrong_parameters(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        allocate(*shared_node(), whole_tasks=True, **wrong)
    assert str(caught.value).startswith(message)


def test_without_whole_tasks_there_is_no_filling() -> None:
    with pytest.raises(InputError, match="parameter of drfh must be one of method, got 'filling'"):
        allocate(*shared_node(), filling="best")


def test_the_best_is_no_rule_that_an_audit_could_ask_again() -> None:
    from drfh import audit

    best: Allocation = allocate(*shared_node(), whole_tasks=True)
    verdicts = {finding.name: finding.verdict for finding in audit(best)}
    assert verdicts["truthful"] == "not applicable"
    assert verdicts["feasible"] == "holds"


def test_sorted_levels() -> None:
    arrays = WholeTasks.of(Problem.build(*random_pair(3)))
    assert all(a <= b for a, b in pairwise(levels(arrays, [3, 1, 2])))
