"""The exact mechanism against independent answers and symmetries, on random clusters."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import highspy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drfh import Cluster, InputError, Server, User, allocate
from drfh.allocation.allocation import Allocation
from tests.support.examples import examples
from tests.support.oracles import leximin_owa, single_server_drf, water_filling
from tests.support.strategies import RESOURCES, clusters, parallel_problems, problems

Pair = tuple[Cluster, list[User]]


def levels(allocation: Allocation) -> np.ndarray:
    return np.array(list(allocation.levels.values()))


def same(a: Allocation, b: Allocation, rel: float = 1e-8) -> None:
    assert a.tasks == pytest.approx(b.tasks, rel=rel, abs=1e-12)


def proven(cluster: Cluster, users: list[User], method: str = "auto") -> Allocation:
    allocation = allocate(cluster, users, method=method)
    assert allocation.certificate is not None
    assert allocation.certificate.closed, repr(allocation)
    found = allocation.verify()
    assert found, str(found)
    return allocation


def over_capacity(allocation: Allocation) -> list[str]:
    """Sum up every single server from the placement table alone, in plain Python."""
    problem = allocation.problem
    demand = {u.name: u.demand for u in problem.users}
    used: dict[str, dict[str, float]] = {}
    order = {name: i for i, name in enumerate(problem.names())}
    rows = sorted(allocation.placement(expand=True).rows(), key=lambda row: order[row[0]])
    for user, server, tasks in rows:
        cell = used.setdefault(server, dict.fromkeys(problem.cluster.resources, 0.0))
        for r, amount in demand[user].items():
            cell[r] += tasks * amount
    over = []
    for server, cell in used.items():
        found = problem.cluster.find_server(server)
        assert found is not None
        capacity = problem.cluster.servers[found[0]].resources
        over += [f"{server} {r}" for r, a in cell.items() if a > capacity.get(r, 0.0)]
    return over


@settings(max_examples=examples(400))
@given(problems())
def test_feasible_proven_and_leximin(pair: Pair) -> None:
    cluster, users = pair
    allocation = proven(cluster, users)
    assert over_capacity(allocation) == []
    for user in users:
        assert allocation.tasks[user.name] <= (np.inf if user.tasks is None else user.tasks)
    assert levels(allocation) == pytest.approx(leximin_owa(cluster, users), rel=1e-6, abs=1e-8)


@settings(max_examples=examples(300))
@given(problems(m=st.integers(1, 2), restrictions=False))
def test_closed_form_agrees_with_simplex(pair: Pair) -> None:
    cluster, users = pair
    exact = proven(cluster, users, "closed-form")
    same(exact, proven(cluster, users, "simplex"))
    assert over_capacity(exact) == []


@settings(max_examples=examples(300))
@given(parallel_problems())
def test_closed_form_with_nearly_parallel_servers_and_users(pair: Pair) -> None:
    cluster, users = pair
    exact = proven(cluster, users, "closed-form")
    same(exact, proven(cluster, users, "simplex"))
    assert over_capacity(exact) == []


@settings(max_examples=60)
@given(problems())
def test_interior_point_agrees_with_simplex(pair: Pair) -> None:
    cluster, users = pair
    interior = allocate(cluster, users, method="interior-point")
    exact = proven(cluster, users, "simplex")
    assert interior.certificate is not None
    if interior.certificate.closed:
        assert levels(interior) == pytest.approx(levels(exact), rel=1e-6, abs=1e-9)
    assert over_capacity(interior) == []


@given(clusters(3, most=1), st.data())
def test_single_pool_agrees_with_simplex(cluster: Cluster, data: st.DataObject) -> None:
    _, users = data.draw(problems(m=st.just(3), restrictions=False))
    usable = [u for u in users if all(cluster.servers[0].resources[r] for r in u.needs)]
    if usable:
        same(proven(cluster, usable, "single-pool"), proven(cluster, usable, "simplex"))


@given(problems(), st.randoms(use_true_random=False))
def test_order_does_not_matter(pair: Pair, random: object) -> None:
    cluster, users = pair
    servers, people = list(cluster.servers), list(users)
    random.shuffle(servers)  # type: ignore[attr-defined]
    random.shuffle(people)  # type: ignore[attr-defined]
    names = list(cluster.resources)
    random.shuffle(names)  # type: ignore[attr-defined]
    turned = [
        replace(s, resources={r: s.resources[r] for r in names if r in s.resources})
        for s in servers
    ]
    same(allocate(cluster, users), allocate(Cluster(turned), people))


@given(problems(), st.sampled_from([1e-9, 1e-3, 3.0, 2.0**30, 1e12]))
def test_units_do_not_matter(pair: Pair, factor: float) -> None:
    cluster, users = pair
    first = cluster.resources[0]

    def scaled(amounts: object) -> dict[str, float]:
        return {r: a * factor if r == first else a for r, a in amounts.items()}  # type: ignore[attr-defined]

    other = Cluster([replace(s, resources=scaled(s.resources)) for s in cluster.servers])
    same(
        allocate(cluster, users),
        allocate(other, [replace(u, demand=scaled(u.demand)) for u in users]),
    )


@given(problems(restrictions=False))
def test_splitting_and_merging_servers_does_not_matter(pair: Pair) -> None:
    cluster, users = pair
    halves = Cluster(
        [
            Server({r: a / 2 for r, a in s.resources.items()}, count=2 * s.count)
            for s in cluster.servers
        ]
    )
    merged = Cluster(
        [Server({r: a * s.count for r, a in s.resources.items()}) for s in cluster.servers]
    )
    single = Cluster([Server(s.resources) for s in cluster.servers for _ in range(s.count)])
    whole = allocate(cluster, users)
    for other in (halves, merged, single):
        same(whole, allocate(other, users))


@given(problems(restrictions=False), st.integers(2, 4))
def test_splitting_a_user_by_weight_does_not_matter(pair: Pair, parts: int) -> None:
    cluster, users = pair
    first = users[0]
    tasks = None if first.tasks is None else first.tasks / parts
    split = [
        User(f"part{i}", first.demand, weight=first.weight / parts, tasks=tasks)
        for i in range(parts)
    ]
    whole, pieces = allocate(cluster, users), allocate(cluster, split + users[1:])
    total = sum(pieces.tasks[f"part{i}"] for i in range(parts))
    assert total == pytest.approx(whole.tasks[first.name], rel=1e-8, abs=1e-12)


@given(problems(positive=True, caps=False, restrictions=False))
def test_single_server_is_closed_form_drf(pair: Pair) -> None:
    cluster, users = pair
    server = cluster.servers[0]
    alone = Cluster([Server(server.resources)])
    expected = single_server_drf(server.resources, users)
    for mechanism in ("drfh", "drf", "per-server-drf"):
        tasks = allocate(alone, users, mechanism=mechanism).tasks
        assert list(tasks.values()) == pytest.approx(expected, rel=1e-9)


@given(problems(m=st.just(1), restrictions=False))
def test_single_resource_is_water_filling(pair: Pair) -> None:
    cluster, users = pair
    expected = water_filling(float(cluster.totals[0]), users)
    for method in ("closed-form", "single-pool", "simplex"):
        tasks = allocate(cluster, users, method=method).tasks
        assert list(tasks.values()) == pytest.approx(expected, rel=1e-8, abs=1e-12)


@given(problems(positive=True, caps=False, restrictions=False))
def test_positive_demands_end_on_one_level(pair: Pair) -> None:
    reached = levels(allocate(*pair))
    assert reached == pytest.approx(np.full(len(reached), reached[0]), rel=1e-8)


@given(problems())
def test_explanations_name_what_is_used_up(pair: Pair) -> None:
    cluster, users = pair
    allocation = proven(cluster, users)
    groups = {row["group"]: row for row in allocation.group_table().to_dicts()}
    for user in users:
        sentence = allocation.explain(user.name)
        assert sentence.startswith(user.name)
        assert sentence.endswith(".")
        # "cpu is used up on s1": the whole group is full in that resource.
        for clause in sentence.split(": ")[-1].rstrip(".").split(" is used up on ")[1:]:
            resource = sentence.split(f" is used up on {clause}")[0].split()[-1]
            for name, row in groups.items():
                if clause == name or clause == f"the {row['servers']} {name} servers":
                    assert row[resource] == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("method", "names"),
    [("closed-form", RESOURCES[:3]), ("single-pool", RESOURCES[:2])],
)
def test_a_method_that_does_not_apply_is_refused(method: str, names: tuple[str, ...]) -> None:
    cluster = Cluster(
        [Server(dict.fromkeys(names, 1)), Server({r: i + 1 for i, r in enumerate(names)})]
    )
    with pytest.raises(InputError, match=f"method {method} needs"):
        allocate(cluster, [User("a", dict.fromkeys(names, 1))], method=method)


def mixed(users: int, servers: int, seed: int) -> Pair:
    """A medium instance with zeros, caps, weights and labels at once."""
    random = np.random.default_rng(seed)
    m = int(random.integers(3, 5))
    capacity = random.lognormal(0, 1, (servers, m))
    capacity[random.random(servers) < 0.3, -1] = 0
    demand = random.lognormal(-3, 1, (users, m))
    demand[random.random((users, m)) < random.choice([0, 0.2, 0.5])] = 0
    demand[demand.max(axis=1) <= 0] = 0.1
    fair = 1 / (demand / capacity.sum(axis=0)).max(axis=1) / users
    cluster = Cluster(
        [
            Server(dict(zip(RESOURCES, row, strict=False)), labels={"zone": "abc"[i % 3]})
            for i, row in enumerate(capacity.tolist())
        ]
    )
    return cluster, [
        User(
            f"u{i}",
            dict(zip(RESOURCES, demand[i].tolist(), strict=False)),
            weight=float(random.choice([0.5, 1, 2])),
            tasks=None
            if random.random() < 0.6
            else float(random.integers(0, 3 * int(fair[i]) + 1)),
            servers=None if random.random() < 0.7 else {"zone": str(random.choice(list("abc")))},
        )
        for i in range(users)
    ]


@pytest.mark.parametrize("size", [(6, 8), (12, 15), pytest.param((20, 30), marks=pytest.mark.slow)])
def test_medium_instances_by_two_methods(size: tuple[int, int]) -> None:
    compared = 0
    for seed in range(25):
        cluster, users = mixed(*size, seed)
        exact = proven(cluster, users, "simplex")
        other = allocate(cluster, users, method="interior-point")
        assert other.certificate is not None
        if other.certificate.closed:
            assert levels(other) == pytest.approx(levels(exact), rel=1e-6, abs=1e-12)
            compared += 1
    assert compared >= 15


def test_noise_in_prices_freezes_nobody() -> None:
    # HiGHS' duals are off by 1e-11 here; taken at their word they stopped u4 at 1.46 tasks.
    capacity = [
        [0.77, 0.28, 1.41, 4.02], [0.83, 1.3, 0.07, 0.75], [1.02, 0.75, 3.77, 3.46],
        [0.43, 0.89, 1.04, 0.88], [9.69, 1.36, 4.81, 0], [0.88, 0.58, 2.46, 10.64],
    ]  # fmt: skip
    demand = [
        [0.22, 1.66, 0.5, 0], [0, 0.23, 0, 0.9], [0.47, 0.07, 1.83, 0.25], [0.08, 0.43, 0, 0.78],
        [0.49, 0, 1.18, 0], [0.39, 0.2, 0, 0], [0, 1.54, 0, 0.5], [0.17, 0.08, 0.29, 0.38],
    ]  # fmt: skip
    weights = [1, 1, 1, 1, 0.5, 0.5, 1, 1]
    for noise in (0.0, 1e-17):
        noisy = [[round(a - 0.01, 2) + 0.01 + noise if a else 0 for a in row] for row in capacity]
        cluster = Cluster.from_arrays(noisy, RESOURCES[:4])
        users = [
            User(f"u{i}", dict(zip(RESOURCES, row, strict=False)), weight=weights[i])
            for i, row in enumerate(demand)
        ]
        assert proven(cluster, users).tasks["u4"] == pytest.approx(6.1173, abs=1e-4)


def test_an_open_certificate_gets_a_second_try(monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("drfh.mechanisms.shared.leximin")
    monkeypatch.setattr(module, "_SIMPLEX_PAIRS", 0)
    for name in ("_TARGET", "_FINE"):
        monkeypatch.setattr(f"drfh.mechanisms.solvers.interior.rounds.{name}", 1e-3)
    cluster, users = mixed(12, 15, 3)
    assert allocate(cluster, users, method="interior-point").method == "interior-point"
    second = proven(cluster, users)
    assert second.method == "simplex"


def test_ctrl_c_inside_highs_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    status = highspy.HighsModelStatus.kInterrupt
    monkeypatch.setattr("highspy.Highs.getModelStatus", lambda self: status)
    with pytest.raises(KeyboardInterrupt):
        allocate(*mixed(6, 8, 0), method="simplex")
