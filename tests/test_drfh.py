"""The exact mechanism against independent answers and symmetries, on random clusters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drfh import Cluster, InputError, Server, User, allocate
from drfh.allocation import Allocation
from tests.oracles import leximin_owa, single_server_drf, water_filling
from tests.strategies import RESOURCES, clusters, parallel_problems, problems

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


@settings(max_examples=400)
@given(problems())
def test_feasible_proven_and_leximin(pair: Pair) -> None:
    cluster, users = pair
    allocation = proven(cluster, users)
    assert over_capacity(allocation) == []
    for user in users:
        assert allocation.tasks[user.name] <= (np.inf if user.tasks is None else user.tasks)
    assert levels(allocation) == pytest.approx(leximin_owa(cluster, users), rel=1e-6, abs=1e-8)


@settings(max_examples=300)
@given(problems(m=st.integers(1, 2), restrictions=False))
def test_closed_form_agrees_with_simplex(pair: Pair) -> None:
    cluster, users = pair
    exact = proven(cluster, users, "closed-form")
    same(exact, proven(cluster, users, "simplex"))
    assert over_capacity(exact) == []


@settings(max_examples=300)
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
