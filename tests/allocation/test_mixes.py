"""Users with several kinds of tasks."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drfh import (
    Cluster,
    InputError,
    Kind,
    Scenario,
    Server,
    User,
    allocate,
    load_scenario,
    save_scenario,
)
from drfh.files.validation import problems as cannot_run
from drfh.model.users import parse_restriction
from tests.support.paths import DATA
from tests.support.rational import leximin
from tests.support.strategies import problems

VECTORS = json.loads((DATA / "mix_vectors.json").read_text())


def number(value: Any) -> Fraction:
    return Fraction(value)


def records(vector: dict[str, Any]) -> tuple[Cluster, list[User]]:
    names = vector["resources"]

    def amounts(row: list[Any]) -> dict[str, float]:
        return {name: float(number(a)) for name, a in zip(names, row, strict=True)}

    cluster = Cluster([Server(amounts(row)) for row in vector["servers"]])
    users = [
        User(
            user["name"],
            weight=float(number(user["weight"])),
            kinds=[
                Kind(
                    amounts(kind["demand"]),
                    tasks=None if kind["tasks"] is None else float(number(kind["tasks"])),
                    ratio=float(number(kind["ratio"])),
                    servers=kind["servers"] and [cluster.names[s] for s in kind["servers"]],
                )
                for kind in user["kinds"]
            ],
        )
        for user in vector["users"]
    ]
    return cluster, users


@pytest.mark.parametrize("vector", VECTORS, ids=[v["name"] for v in VECTORS])
@pytest.mark.parametrize("method", ["auto", "simplex", "interior-point"])
def test_the_reference_answers(vector: dict[str, Any], method: str) -> None:
    cluster, users = records(vector)
    allocation = allocate(cluster, users, method=method)
    expected = vector["expected"]
    for user, tasks in zip(users, expected["tasks"], strict=True):
        assert allocation.kinds[user.name] == pytest.approx(
            [float(number(t)) for t in tasks], rel=1e-9, abs=1e-12
        )
    levels = [float(number(level)) for level in expected["levels"]]
    assert list(allocation.levels.values()) == pytest.approx(levels, rel=1e-9, abs=1e-12)
    shares = [float(number(share)) for share in expected["shares"]]
    assert list(allocation.shares.values()) == pytest.approx(shares, rel=1e-9, abs=1e-12)
    assert allocation.certificate is not None
    assert allocation.certificate.closed
    assert allocation.verify()


AMOUNTS = st.sampled_from([0, 0, 1, 2, 3, 5, 8])


@st.composite
def mixes(draw: st.DrawFn) -> tuple[Cluster, list[User]]:
    """Draw a cluster and users with kinds, small whole numbers, some of them 0."""
    resources = ["cpu", "memory", "gpu", "disk"][: draw(st.integers(1, 4))]
    row = st.lists(AMOUNTS, min_size=len(resources), max_size=len(resources))
    servers = draw(st.lists(row.filter(any), min_size=1, max_size=4))
    cluster = Cluster([Server(dict(zip(resources, s, strict=True))) for s in servers])
    have = [r for r, name in enumerate(resources) if cluster.totals[r] > 0]
    users = []
    for i in range(draw(st.integers(1, 3))):
        kinds = []
        for _ in range(draw(st.integers(1, 4))):
            demand = draw(row)
            demand = [a if r in have else 0 for r, a in enumerate(demand)]
            if not any(demand):
                demand[draw(st.sampled_from(have))] = 1
            where = draw(st.none() | st.sets(st.sampled_from(cluster.names), min_size=1))
            kinds.append(
                Kind(
                    dict(zip(resources, demand, strict=True)),
                    tasks=draw(st.none() | st.integers(0, 6)),
                    ratio=draw(st.none() | st.integers(1, 4)),
                    servers=sorted(where) if where else None,
                )
            )
        users.append(User(f"u{i}", weight=draw(st.sampled_from([1, 1, 2, 0.5])), kinds=kinds))
    return cluster, users


def by_definition(cluster: Cluster, users: list[User]) -> list[Fraction]:
    """Return the tasks of each kind by rounds of linear programs in rational arithmetic."""
    resources = cluster.resources
    capacity = [[Fraction(s.resources.get(r, 0)) for r in resources] for s in cluster.servers]
    total = [sum((row[r] for row in capacity), Fraction(0)) for r in range(len(resources))]
    demand, usable, cap, owner, ratio, weight = [], [], [], [], [], []
    for position, user in enumerate(users):
        kinds = user.kinds or (Kind(user.demand, tasks=user.tasks, servers=user.servers),)
        finite = all(kind.tasks is not None for kind in kinds)
        for kind in kinds:
            need = [Fraction(kind.demand.get(r, 0)) for r in resources]
            where = [
                s
                for s, name in enumerate(cluster.names)
                if (kind.servers is None or name in parse_restriction(kind.servers))
                and all(not n or capacity[s][r] for r, n in enumerate(need))
            ]
            demand.append(need)
            usable.append(where)
            most = None if kind.tasks is None else Fraction(kind.tasks)
            cap.append(most if where else Fraction(0))
            owner.append(position)
            ratio.append(Fraction(kind.ratio or ((kind.tasks or 1) if finite else 1)))
            weight.append(Fraction(user.weight))

    def rates(rising: frozenset[int]) -> list[Fraction]:
        speed = [Fraction(0)] * len(demand)
        for user in set(owner):
            mine = [k for k in rising if owner[k] == user]
            if mine:
                share = max(
                    sum((ratio[k] * demand[k][r] for k in mine), Fraction(0)) / total[r]
                    for r in range(len(resources))
                    if total[r]
                )
                for k in mine:
                    speed[k] = ratio[k] * weight[k] / share
        return speed

    return leximin(demand, capacity, usable, cap, rates)


@given(mixes(), st.sampled_from(["auto", "simplex", "interior-point"]))
def test_kinds_rise_as_the_definition_says(
    problem: tuple[Cluster, list[User]], method: str
) -> None:
    cluster, users = problem
    allocation = allocate(cluster, users, method=method)
    assert allocation.certificate is not None
    right = by_definition(cluster, users)
    flat = [tasks for user in users for tasks in allocation.kinds[user.name]]
    gap = max(allocation.certificate.gap, 1e-12)
    for given_, exact in zip(flat, right, strict=True):
        assert given_ == pytest.approx(float(exact), rel=gap, abs=1e-12)
    assert allocation.certificate.closed
    assert allocation.verify()


@given(problems())
def test_one_kind_is_a_demand_bit_by_bit(problem: tuple[Cluster, list[User]]) -> None:
    cluster, users = problem
    written = [
        User(
            user.name,
            weight=user.weight,
            kinds=[Kind(user.demand, tasks=user.tasks, servers=user.servers, ratio=3)],
        )
        for user in users
    ]
    for mechanism in ("drfh", "drf", "tsf"):
        assert allocate(cluster, written, mechanism=mechanism).tasks == (
            allocate(cluster, users, mechanism=mechanism).tasks
        )


@given(mixes())
def test_a_kind_may_be_written_in_two_halves(problem: tuple[Cluster, list[User]]) -> None:
    cluster, users = problem
    first = users[0].kinds or (
        Kind(users[0].demand, tasks=users[0].tasks, servers=users[0].servers),
    )
    finite = all(kind.tasks is not None for kind in first)

    def part(kind: Kind, factor: float) -> Kind:
        ratio = kind.ratio or ((kind.tasks or 1.0) if finite else 1.0)
        tasks = None if kind.tasks is None else kind.tasks * factor
        return Kind(kind.demand, tasks=tasks, servers=kind.servers, ratio=ratio * factor)

    whole = [part(kind, 1.0) for kind in first]
    halves = [part(first[0], 0.5), part(first[0], 0.5), *whole[1:]]
    one, two = (
        allocate(cluster, [User("u0", weight=users[0].weight, kinds=kinds), *users[1:]])
        for kinds in (whole, halves)
    )
    assert list(two.levels.values()) == pytest.approx(
        list(one.levels.values()), rel=1e-7, abs=1e-12
    )
    assert list(two.shares.values()) == pytest.approx(
        list(one.shares.values()), rel=1e-7, abs=1e-12
    )


def test_two_kinds_on_one_server_are_one_task_that_has_both() -> None:
    cluster = Cluster([Server({"cpu": 30, "memory": 20})])
    other = User("b", {"cpu": 1, "memory": 1})
    kinds = [Kind({"cpu": 1, "memory": 2}, ratio=2), Kind({"cpu": 3, "memory": 1})]
    apart = allocate(cluster, [User("a", kinds=kinds), other])
    joined = allocate(cluster, [User("a", {"cpu": 5, "memory": 5}), other])
    assert apart.levels == pytest.approx(joined.levels)


@given(mixes(), st.integers(0, 10**6))
def test_small_changes_of_the_numbers_change_the_answer_a_little(
    problem: tuple[Cluster, list[User]], seed: int
) -> None:
    cluster, users = problem
    random = np.random.default_rng(seed)

    def near(amounts: Mapping[str, float]) -> dict[str, float]:
        return {r: a * (1 + 1e-9 * random.uniform(-1, 1)) for r, a in amounts.items()}

    moved = Cluster([Server(near(s.resources), name=s.name) for s in cluster.servers])
    a, b = allocate(cluster, users), allocate(moved, users)
    for name in a.kinds:
        assert b.kinds[name] == pytest.approx(a.kinds[name], rel=1e-6, abs=1e-9)


def test_placement_explanations_and_plain_data_name_the_kinds() -> None:
    cluster = Cluster(
        [
            Server({"cpu": 16, "gpu": 4}, name="gpu-node", labels={"pool": "gpu"}),
            Server({"cpu": 32}, name="cpu-node", count=2),
        ]
    )
    users = [
        User(
            "ml",
            kinds=[
                Kind({"cpu": 4, "gpu": 1}, tasks=3, servers={"pool": "gpu"}, name="train"),
                Kind({"cpu": 1}, name="etl"),
            ],
        ),
        User("web", {"cpu": 2}),
    ]
    allocation = allocate(cluster, users)
    assert allocation.kinds["ml"][0] == pytest.approx(3)
    assert set(allocation.placement()["kind"].to_list()) == {"train", "etl", None}
    assert allocation.placement(expand=True).columns == ["user", "kind", "server", "tasks"]
    assert allocation.explain("ml").startswith("ml/train has all of its 3 tasks. ml/etl stops at")
    data = allocation.to_dict()
    assert [kind["kind"] for kind in data["users"][0]["kinds"]] == ["train", "etl"]
    assert "kinds" not in data["users"][1]
    assert json.loads(json.dumps(data)) == data
    with pytest.raises(
        InputError, match=r"kinds of ml must be one kind: tsf takes one kind a user"
    ):
        allocate(cluster, users, mechanism="tsf")


def test_drf_promises_by_kind_and_places_what_it_can() -> None:
    cluster = Cluster([Server({"cpu": 2, "memory": 12}), Server({"cpu": 12, "memory": 2})])
    users = [
        User("a", kinds=[Kind({"cpu": 0.2, "memory": 1}), Kind({"cpu": 1, "memory": 0.2})]),
        User("b", {"cpu": 1, "memory": 1}),
    ]
    allocation = allocate(cluster, users, mechanism="drf")
    assert allocation.promised is not None
    # On the pool a mix of a is 1.2 of 14, a task of b 1 of 14, and both rise to one half.
    assert allocation.promised == pytest.approx({"a": 2 * 7 / 1.2, "b": 7})
    assert all(
        allocation.tasks[name] <= allocation.promised[name] * (1 + 1e-9) for name in ("a", "b")
    )
    assert allocation.verify()


@pytest.mark.parametrize(
    ("kinds", "field", "rule"),
    [
        ([{"demand": {"cpu": 1}, "ratio": 0}], "users[0].kinds[0].ratio", "must be > 0"),
        ([{"demand": {"cpu": 0}}], "users[0].kinds[0].demand", "must have at least one amount > 0"),
        ([{"demnd": {"cpu": 1}}], "users[0].kinds[0].demnd", "did you mean demand"),
        ([{"tasks": 3}], "users[0].kinds[0].demand", "must be given"),
        (
            [{"demand": {"cpu": 1}, "name": "x"}, {"demand": {"cpu": 2}, "name": "x"}],
            "users[0].kinds[1].name",
            "must be unique among the kinds",
        ),
    ],
)
def test_a_scenario_file_with_wrong_kinds(
    tmp_path: Path, kinds: list[dict[str, Any]], field: str, rule: str
) -> None:
    data = {"cluster": [{"resources": {"cpu": 4}}], "users": [{"name": "ml", "kinds": kinds}]}
    file = tmp_path / "s.json"
    file.write_text(json.dumps(data))
    with pytest.raises(InputError) as caught:
        load_scenario(file)
    assert caught.value.field == field
    assert rule in str(caught.value)


def test_kinds_that_cannot_run_are_named() -> None:
    cluster = Cluster([Server({"cpu": 4}, name="a")])
    kinds = [Kind({"gpu": 1}), Kind({"cpu": 2}, servers="b")]
    found = [str(p) for p in cannot_run(cluster, [User("ml", kinds=kinds)])]
    assert found[0].startswith("users[0].kinds[0].demand.gpu must be a resource that some server")
    assert found[1].startswith("users[0].kinds[1].servers must name a server or a group")


def test_a_scenario_file_with_kinds_is_read_as_it_was_written(tmp_path: Path) -> None:
    kinds = [
        Kind({"cpu": 4, "gpu": 1}, tasks=10, servers={"pool": "gpu"}, name="train"),
        Kind({"cpu": 1}, ratio=2.5),
    ]
    cluster = Cluster([Server({"cpu": 64, "gpu": 8}, name="a", labels={"pool": "gpu"})])
    scenario = Scenario(cluster, (User("ml", kinds=kinds, weight=2), User("web", {"cpu": 1})))
    for name in ("s.yaml", "s.json"):
        save_scenario(scenario, tmp_path / name)
        assert load_scenario(tmp_path / name) == scenario
    assert pickle.loads(pickle.dumps(scenario)) == scenario


def test_what_kinds_replace_is_refused_beside_them() -> None:
    kinds = [Kind({"cpu": 1})]
    with pytest.raises(InputError, match="demand must be left out: each kind has its own"):
        User("ml", {"cpu": 1}, kinds=kinds)
    with pytest.raises(InputError, match="tasks must be left out"):
        User("ml", tasks=3, kinds=kinds)
    with pytest.raises(InputError, match=r"kinds\[0\] must be a drfh.Kind"):
        User("ml", kinds=[{"cpu": 1}])  # type: ignore[list-item]
    with pytest.raises(InputError, match=r"\[1\].demand must have at least one amount > 0"):
        Kind.from_arrays([[1, 2], [0, 0]], ["cpu", "memory"])


def test_whole_tasks_go_to_the_lowest_level_and_the_kind_that_is_behind() -> None:
    cluster = Cluster([Server({"cpu": 12}, name="one"), Server({"cpu": 1, "gpu": 2}, name="two")])
    kinds = [Kind({"gpu": 1, "cpu": 0.5}), Kind({"cpu": 1}, ratio=3)]
    allocation = allocate(
        cluster, [User("a", kinds=kinds), User("b", {"cpu": 2})], whole_tasks=True, filling="paper"
    )
    # A mix of a needs 1 of 2 gpus: a task of it adds 1/2 / 4 = 1/8, a task of b 2/13. In turn: a
    # places a gpu task, b, a three cpu tasks and the other gpu task, ... until the gpus are gone
    # and its mix is cpu alone, 1/13 a task.
    assert allocation.kinds["a"][0] == 2
    assert allocation.kinds["a"][1] + 2 * allocation.kinds["b"][0] == 12
    assert allocation.divisible is not None
    assert allocation.loss is not None
    assert allocation.loss >= 0


def test_prices_that_rising_kinds_do_not_pay_bound_nothing() -> None:
    cluster = Cluster([Server({"memory": 1, "gpu": 1})])
    memory, gpu = {"memory": 1}, {"gpu": 1}
    users = [
        User("a", kinds=[Kind(memory), Kind(gpu), Kind(gpu)]),
        User("b", kinds=[Kind(memory, ratio=4), Kind(memory, ratio=2)]),
    ]
    for method in ("auto", "simplex", "interior-point"):
        allocation = allocate(cluster, users, method=method)
        assert allocation.kinds["a"] == pytest.approx([1 / 3, 1 / 2, 1 / 2])
        assert allocation.certificate is not None
        assert allocation.certificate.closed


def test_one_kind_is_explained_by_its_name() -> None:
    kinds = [Kind({"cpu": 1}, name="train"), Kind({"cpu": 2}, tasks=1)]
    allocation = allocate(Cluster([Server({"cpu": 8})]), [User("ml", kinds=kinds)])
    both = f"{allocation.explain('ml/train')} {allocation.explain('ml/2')}"
    assert allocation.explain("ml") == both
    with pytest.raises(InputError, match=r"did you mean ml/train\?"):
        allocation.explain("ml/trian")
