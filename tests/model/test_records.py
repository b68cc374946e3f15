"""Servers, clusters, users: what they accept, and one clear line for what they do not."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drfh import Cluster, InputError, Kind, Server, UnknownNameError, User, allocate
from drfh.formatting import format_quantity
from drfh.model.resources import integer_unit, parse_quantity
from drfh.model.users import eligible_servers

BAD_NUMBERS = [
    -1,
    -0.1,
    math.nan,
    math.inf,
    -math.inf,
    "x",
    "",
    "1 2",
    "1Zi",
    None,
    [],
    True,
    10**400,
]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500m", 0.5), ("16Gi", 16 * 2**30), ("2T", 2e12), ("4", 4), (4, 4), (0.25, 0.25),
        ("1e3", 1000), ("1E3", 1000), ("1E", 1e18), ("1.5Ki", 1536), ("3u", 3e-6), ("7n", 7e-9),
        ("2k", 2000), ("2K", 2000), (" 8 GiB ", 8 * 2**30), ("8GB", 8e9), (".5", 0.5), ("5.", 5),
        ("+3", 3), (np.float32(0.5), 0.5), (np.int64(7), 7), (-0.0, 0), ("0", 0), ("1e-3", 0.001),
    ],
)  # fmt: skip
def test_quantities(text: Any, value: float) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize("value", BAD_NUMBERS)
def test_bad_quantities(value: Any) -> None:
    with pytest.raises(InputError, match=r"^cpu must be a finite number ≥ 0") as caught:
        parse_quantity(value, "cpu")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@given(st.integers(1, 10**6), st.sampled_from(["", "Mi", "Gi", "Ti"]))
def test_formatted_bytes_read_back(number: int, suffix: str) -> None:
    value = parse_quantity(f"{number}{suffix}")
    assert parse_quantity(format_quantity(value)) == pytest.approx(value, rel=1e-5)


@given(st.lists(st.decimals(0, 1000, places=3), min_size=1, max_size=6))
def test_decimal_amounts_become_whole_units(values: list[Any]) -> None:
    amounts = [float(v) for v in values]
    unit = integer_unit(amounts, sum(amounts))
    scaled = np.array(amounts) / unit
    assert np.allclose(scaled, np.rint(scaled), rtol=1e-12, atol=0)


@given(st.floats(1e-15, 1e15), st.floats(1e-15, 1e15))
def test_totals_stay_below_the_bound(a: float, b: float) -> None:
    assert (a + b) / integer_unit([a, b], a + b) <= 2**43 * (1 + 1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Server({}), "resources must have at least one amount > 0, got {}"),
        (lambda: Server({"cpu": 0}), "resources must have at least one amount > 0"),
        (lambda: Server({"cpu": -1}), "resources.cpu must be a finite number ≥ 0"),
        (lambda: Server({"": 1}), "resources must have resource names that are non-empty strings"),
        (lambda: Server([1]), "resources must map resource names to amounts"),  # type: ignore[arg-type]
        (lambda: Server({"cpu": 1}, count=0), "count must be a whole number ≥ 1, got 0"),
        (lambda: Server({"cpu": 1}, count=1.5), "count must be a whole number"),  # type: ignore[arg-type]
        (lambda: Server({"cpu": 1}, count=True), "count must be a whole number"),
        (lambda: Server({"cpu": 1}, name=""), "name must be a non-empty string"),
        (lambda: Server({"cpu": 1}, name=" a"), "name must be a non-empty string"),
        (lambda: Server({"cpu": 1}, labels=[1]), "labels must map label names"),  # type: ignore[arg-type]
        (lambda: Cluster(None), "servers must be a list of drfh.Server, got None"),  # type: ignore[arg-type]
        (lambda: Cluster(Server({"cpu": 1})), "servers must be a list of drfh.Server"),  # type: ignore[arg-type]
        (lambda: Cluster.from_arrays([[1]], "a"), "resources must be a list of names, got 'a'"),
        (lambda: Cluster.from_arrays([[1]], None), "resources must be a list of names"),
        (lambda: Cluster.from_arrays([[1]], [["a"]]), "resources must have resource names"),  # type: ignore[list-item]
        (lambda: Cluster.from_arrays(np.zeros((1, 0)), []), "resources must have at least one"),
        (lambda: Cluster.from_arrays([[1]], ["a"], names="x"), "names must be a list of names"),
        (
            lambda: Cluster.from_arrays([[1]], ["a"], counts=np.array([2**63], np.uint64)),
            "counts must",
        ),
        (lambda: Cluster([Server({"cpu": 1}, count=2**53 - 1)] * 2), "servers must be fewer than"),
        (lambda: Cluster([]), "servers must have at least one server"),
        (lambda: Cluster(["a"]), r"servers\[0\] must be a drfh.Server, got 'a'"),  # type: ignore[list-item]
        (lambda: Cluster([Server({"cpu": 1}, name="a")] * 2), r"servers\[1\].name must be unique"),
        (
            lambda: Cluster(
                [Server({"cpu": 1}, name="a", count=2), Server({"cpu": 1}, name="a/1")]
            ),
            r"servers\[1\].name must not be a server of another group, got 'a/1'",
        ),
        (
            lambda: Cluster([Server({"cpu": 1e308}, count=9)]),
            "total of cpu must be a finite number",
        ),
        (lambda: Cluster.from_arrays([[1, -1]], ["a", "b"]), r"capacity\[0\].b must be a finite"),
        (lambda: Cluster.from_arrays([[1, math.nan]], ["a", "b"]), r"capacity\[0\].b must be"),
        (lambda: Cluster.from_arrays([[0, 0]], ["a", "b"]), r"capacity\[0\] must have at least"),
        (lambda: Cluster.from_arrays([[1]], ["a", "b"]), "capacity must have shape"),
        (lambda: Cluster.from_arrays([["x"]], ["a"]), "capacity must be an array of numbers"),
        (lambda: Cluster.from_arrays([[1, 1]], ["a", "a"]), "resources must have no name twice"),
        (lambda: Cluster.from_arrays([[1]], ["a"], counts=[0]), "counts must be one whole number"),
        (lambda: Cluster.from_arrays([[1]], ["a"], names=["x", "y"]), "names must be one for each"),
        (lambda: User("", {"cpu": 1}), "name must be a non-empty string"),
        (lambda: User("a", {}), "demand must have at least one amount > 0"),
        (lambda: User("a", {"cpu": 0}), r"demand must .* \(else its tasks never end\)"),
        (lambda: User("a", {"cpu": math.nan}), "demand.cpu must be a finite number ≥ 0"),
        (lambda: User("a", {"cpu": 1}, weight=0), "weight must be > 0, got 0"),
        (lambda: User("a", {"cpu": 1}, weight=-2), "weight must be a number > 0, such as 1"),
        (lambda: User("a", {"cpu": 1}, tasks=-1), "tasks must be a number ≥ 0, such as 100"),
        (lambda: User("a", {"cpu": 1}, servers=[]), "servers must name servers or labels"),
        (lambda: User("a", {"cpu": 1}, servers=[3]), "servers must be made of names"),  # type: ignore[list-item]
        (lambda: User("a", {"cpu": 1}, servers={"zone": None}), "servers.zone must be a value"),
        (lambda: User("a", {"cpu": 1}, parent=""), "parent must be a non-empty string"),
    ],
)
def test_bad_records(make: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}") as caught:
        make()
    assert "\n" not in str(caught.value)


ONE = Cluster([Server({"cpu": 4, "memory": 8}, name="a", count=3, labels={"zone": "x"})])


@pytest.mark.parametrize(
    ("users", "message"),
    [
        ([], "users must have at least one user"),
        (None, "users must be a list of drfh.User, got None"),
        (User("a", {"cpu": 1}), "users must be a list of drfh.User"),
        ([User("a", {"CPU": 1})], r"demand.CPU of a must be .* did you mean cpu\?"),
        (
            [User("a", {"cpu": 1}, servers="a/" + "9" * 5000)],
            r"servers of a must name .*a/0 to a/2",
        ),
        ([User("a", {"cpu": 1}, servers="aa")], r"servers of a must name .*did you mean a\?"),
        (["ann"], "users must all be drfh.User, got 'ann'"),
        ([User("a", {"cpu": 1})] * 2, r"users\[1\].name must be unique, got 'a'"),
        (
            [User("a", {"gpu": 1})],
            r"demand.gpu of a must be a resource that some server has \([^)]*\), got 'gpu'",
        ),
        ([User("a", {"cpu": 1}, servers="b")], "servers of a must name a server or a group"),
        ([User("a", {"cpu": 1}, servers="a/3")], "servers of a must name a server or a group"),
        ([User("a", {"cpu": 1}, servers={"zone": "y"})], "servers of a must match at least one"),
        ([User("a", {"cpu": 1}, servers=lambda s: False)], "servers of a must match at least one"),
        ([User("a", {"cpu": 1, "memory": 1e-250})], r"users\[0\].demand.memory must be at least"),
    ],
)
def test_bad_problems(users: list[Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}"):
        allocate(ONE, users)


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean per-server-drf"):
        allocate(ONE, [User("a", {"cpu": 1})], mechanism="per-sever-drf")
    with pytest.raises(UnknownNameError, match="did you mean drfh"):
        allocate(ONE, [User("a", {"cpu": 1})], mechanism="drhf")
    with pytest.raises(UnknownNameError, match=r"method must be one of .*, got '3'"):
        allocate(ONE, [User("a", {"cpu": 1})], method=3)
    with pytest.raises(InputError, match=r"predicate of a must accept .*on a: KeyError"):
        allocate(ONE, [User("a", {"cpu": 1}, servers=lambda s: s.resources["gpu"] > 1)])
    with pytest.raises(UnknownNameError, match="did you mean simplex"):
        allocate(ONE, [User("a", {"cpu": 1})], method="simplx")
    with pytest.raises(InputError, match="parameter of drfh must be one of method, got 'speed'"):
        allocate(ONE, [User("a", {"cpu": 1})], speed=3)
    with pytest.raises(UnknownNameError, match="did you mean ann"):
        allocate(ONE, [User("ann", {"cpu": 1})]).explain("anne")


def test_a_mechanism_must_return_a_solution() -> None:
    def nothing(problem: object) -> None:
        return None

    with pytest.raises(InputError, match=r"mechanism nothing must return a drfh\.Solution"):
        allocate(ONE, [User("a", {"cpu": 1})], mechanism=nothing)  # type: ignore[arg-type]


def test_a_single_server_has_two_names() -> None:
    cluster = Cluster([Server({"cpu": 1}, name="a"), Server({"cpu": 2}, name="b")])
    for name in ("a", "a/0"):
        assert allocate(cluster, [User("u", {"cpu": 1}, servers=name)]).tasks == {"u": 1}


def test_records_are_frozen_and_can_be_copied() -> None:
    user = User("ann", {"cpu": "500m"}, weight=2, tasks=3, servers=["a", {"zone": "x"}])
    with pytest.raises(AttributeError):
        user.weight = 3  # type: ignore[misc]
    with pytest.raises(TypeError):
        user.demand["cpu"] = 3  # type: ignore[index]
    for clone in (pickle.loads(pickle.dumps(user)), copy.deepcopy(user)):
        assert clone == user
        assert hash(clone) == hash(user)
    again = pickle.loads(pickle.dumps(ONE))
    assert again == ONE
    assert allocate(again, [user]).tasks == allocate(ONE, [user]).tasks
    with pytest.raises(ValueError, match="read-only"):
        ONE.capacity[0, 0] = 9


def test_restrictions() -> None:
    cluster = Cluster(
        [
            Server({"cpu": 1}, name="a", count=3, labels={"gpu": "a100", "zone": "x"}),
            Server({"cpu": 2}, name="b", labels={"gpu": "h100", "zone": "x"}),
            Server({"cpu": 4}, name="c", labels={"zone": "y"}),
        ]
    )
    cases: list[tuple[Any, list[bool], dict[int, set[int]]]] = [
        ("b", [False, True, False], {}),
        ("a/1", [False, False, False], {0: {1}}),
        (["a/0", "a/2", "c"], [False, False, True], {0: {0, 2}}),
        (["a", "a/0"], [True, False, False], {}),
        ({"zone": "x"}, [True, True, False], {}),
        ({"gpu": ["h100", "a100"], "zone": "x"}, [True, True, False], {}),
        (lambda server: server.resources["cpu"] >= 2, [False, True, True], {}),
    ]
    for servers, groups, singles in cases:
        found = eligible_servers(User("u", {"cpu": 1}, servers=servers), cluster)
        assert (found[0].tolist(), found[1]) == (groups, singles)
        tasks = allocate(cluster, [User("u", {"cpu": 1}, servers=servers)]).tasks["u"]
        single = sum(len(s) for s in singles.values())
        assert tasks == pytest.approx(single + np.dot(groups, [3, 2, 4]))


def test_restricted_placements_stay_where_they_may() -> None:
    cluster = Cluster([Server({"cpu": 4}, name="a", count=3)])
    users = [User("x", {"cpu": 1}, servers="a/1"), User("y", {"cpu": 1})]
    allocation = allocate(cluster, users)
    assert allocation.tasks == pytest.approx({"x": 4, "y": 8})
    rows = allocation.placement(expand=True)
    assert set(rows.filter(user="x")["server"]) == {"a/1"}
    assert set(rows.filter(user="y")["server"]) == {"a/0", "a/2"}
    assert allocation.placement().rows() == [("x", "a", 4.0), ("y", "a", 8.0)]


def test_a_user_that_no_server_can_serve_gets_nothing_and_hurts_nobody() -> None:
    cluster = Cluster([Server({"cpu": 4}), Server({"gpu": 2})])
    users = [User("both", {"cpu": 1, "gpu": 1}), User("cpu", {"cpu": 1})]
    allocation = allocate(cluster, users)
    assert allocation.tasks == {"both": 0, "cpu": 4}
    assert allocation.explain("both") == (
        "both gets nothing: no server that it may use has cpu and gpu."
    )
    assert allocation.verify()


def test_cluster_arithmetic() -> None:
    cluster = Cluster([Server({"cpu": 1}, name="a", count=5), Server({"cpu": 2})])
    assert cluster.names == ("a", "server-2")
    assert cluster.plus(Server({"gpu": 1}, name="g")).resources == ("cpu", "gpu")
    assert cluster.minus("a").size == 1
    assert cluster.minus("a", 2).size == 4
    with pytest.raises(UnknownNameError, match="server group must be one of a, server-2"):
        cluster.minus("b")
    with pytest.raises(InputError, match="count must be between 1 and 5"):
        cluster.minus("a", 6)
    with pytest.raises(InputError, match="at least one server left"):
        Cluster([Server({"cpu": 1}, name="a")]).minus("a")


def test_a_million_servers() -> None:
    random = np.random.default_rng(0)
    many = Cluster.from_arrays(random.random((1_000_000, 2)) + 0.1, ["cpu", "memory"])
    users = [User(f"u{i}", {"cpu": 1 + i % 3, "memory": 1 + i % 5}) for i in range(20)]
    allocation = allocate(many, users)
    assert allocation.certificate is not None
    assert allocation.certificate.closed
    equal = Cluster([Server({"cpu": 1, "memory": 2, "gpu": 1}, count=1_000_000)])
    three = [User("a", {"cpu": 1, "memory": 1, "gpu": 1}), User("b", {"cpu": 1, "memory": 3})]
    assert allocate(equal, three).verify()


def test_tiny_and_huge_numbers_together() -> None:
    cluster = Cluster(
        [Server({"cpu": 1e15, "memory": 1e-15}), Server({"cpu": 1e-15, "memory": 1e15})]
    )
    users = [User("a", {"cpu": 1, "memory": 1}), User("b", {"cpu": 1e15, "memory": 1e-15})]
    allocation = allocate(cluster, users)
    assert allocation.verify(), str(allocation.verify())
    # Each server has 1e-15 of what it lacks; b needs next to nothing of it.
    assert allocation.shares["a"] == pytest.approx(allocation.shares["b"], rel=1e-9)


def test_any_resource_names_work() -> None:
    odd = ("group", "servers", "user", "nvidia.com/gpu", "размер")
    cluster = Cluster([Server(dict.fromkeys(odd, 2), name="n", count=2)])
    allocation = allocate(cluster, [User("u", dict.fromkeys(odd, 1))])
    assert allocation.group_table().row(0)[2:] == (1.0,) * 5
    assert allocation.to_dict()["utilisation"] == dict.fromkeys(odd, 1.0)
    assert allocation.plot().to_dict()


def test_pickled_users_are_users() -> None:
    cluster = Cluster([Server({"cpu": 10, "memory": 10})])
    users = [
        User("x", {"cpu": 1, "memory": 1}),
        User("y", {"memory": 1}),
        User("z", {"cpu": 2, "memory": 1}),
    ]
    mixed = [users[0], users[1], pickle.loads(pickle.dumps(users[2]))]
    assert allocate(cluster, mixed).tasks == pytest.approx({"x": 4, "y": 4, "z": 2})
    assert mixed[2].needs is users[0].needs


MIXED_UP = {"memory": [64.0, 8.0], "cpu": [4.0, 2.0]}


def _polars(columns: dict[str, list[float]]) -> Any:
    return pytest.importorskip("polars").DataFrame(columns)


def _pandas(columns: dict[str, list[float]]) -> Any:
    return pytest.importorskip("pandas").DataFrame(columns)


@pytest.mark.parametrize("table", [_polars, _pandas])
def test_columns_of_a_table_are_taken_by_name(table: Callable[[dict[str, Any]], Any]) -> None:
    cluster = Cluster.from_arrays(table(MIXED_UP), ["cpu", "memory"])
    assert cluster.resources == ("cpu", "memory")
    assert cluster.capacity.tolist() == [[4.0, 64.0], [2.0, 8.0]]
    assert Cluster.from_arrays(table(MIXED_UP)).resources == ("memory", "cpu")
    kinds = Kind.from_arrays(table(MIXED_UP), ["cpu", "memory"])
    assert kinds[1].demand == {"cpu": 2.0, "memory": 8.0}
    users = User.from_arrays(["a", "b"], table(MIXED_UP), ["cpu", "memory"], tasks=[3, math.inf])
    assert users[0] == User("a", {"cpu": 4, "memory": 64}, tasks=3)
    assert users[1].tasks is None
    with pytest.raises(UnknownNameError, match=r"did you mean memory\?\), got 'memroy'"):
        Cluster.from_arrays(table(MIXED_UP), ["cpu", "memroy"])
    with pytest.raises(InputError, match=r"only columns that are resources \(cpu\), got 'memory'"):
        User.from_arrays(["a", "b"], table(MIXED_UP), ["cpu"])


def test_many_users_at_once_say_which_one_is_wrong() -> None:
    with pytest.raises(InputError, match=r"\[1\]\.weight must be"):
        User.from_arrays(["a", "b"], [[1], [1]], ["cpu"], weights=[1, -1])
    with pytest.raises(InputError, match=r"name must have 2 entries, got 1"):
        User.from_arrays(["a"], [[1], [1]], ["cpu"], weights=[1, 1])
    with pytest.raises(
        InputError, match=r"resources must be a list of names: demand has no named columns"
    ):
        User.from_arrays(["a"], [[1]])


def test_an_allocation_warns_of_a_demand_without_its_unit() -> None:
    cluster = Cluster([Server({"cpu": 4, "memory": "64Gi"})])
    allocation = allocate(cluster, [User("a", {"cpu": 1, "memory": 4})])
    assert allocation.warnings == (
        "users[0] (a): memory 4 is 4 bytes where servers have 64Gi; did you mean 4Gi?",
    )
    assert "1 warning: users[0] (a)" in repr(allocation)
    kinds = [Kind({"cpu": 1, "memory": 4}), Kind({"cpu": 2})]
    assert "kinds[0]" in allocate(cluster, [User("a", kinds=kinds)]).warnings[0]
    assert allocate(cluster, [User("a", {"cpu": 1, "memory": "4Gi"})]).warnings == ()
