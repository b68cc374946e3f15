"""The other mechanisms: what defines each of them, on random problems."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drfh import Cluster, InputError, Server, User, allocate, load_scenario
from drfh.allocation.problem import Problem, water_level_above
from drfh.allocation.proofs.bottleneck import BottleneckProof
from drfh.allocation.proofs.welfare import WelfareProof
from drfh.mechanisms.cautious_lp import cautious_lp_steps
from drfh.mechanisms.dynamic_drf import dynamic_drf_steps
from drfh.mechanisms.gavel import gavel
from drfh.mechanisms.hdrf import hdrf_shares
from drfh.mechanisms.hug import hug
from drfh.mechanisms.quincy import quincy
from drfh.mechanisms.sequential_min_max import sequential_min_max_order
from tests.support.examples import examples
from tests.support.strategies import problems

Records = tuple[Cluster, list[User]]


# Bottlenecks


@settings(max_examples=examples(150))
@given(problems())
def test_ps_dsf_finds_a_bottleneck_for_everybody(records: Records) -> None:
    allocation = allocate(*records, mechanism="ps-dsf")
    assert allocation.certificate is not None
    assert allocation.certificate.closed
    assert allocation.verify(), str(allocation.verify())


@settings(max_examples=examples(100))
@given(problems(caps=False))
def test_per_server_drf_is_proven(records: Records) -> None:
    allocation = allocate(*records, mechanism="per-server-drf")
    assert allocation.verify(), str(allocation.verify())


def test_per_server_drf_of_finite_tasks_claims_no_proof() -> None:
    cluster = Cluster([Server({"cpu": 4})])
    answer = allocate(cluster, [User("a", {"cpu": 1}, tasks=1)], mechanism="per-server-drf")
    assert answer.certificate is None


@pytest.mark.parametrize("mechanism", ["ps-dsf", "per-server-drf"])
@settings(max_examples=examples(100))
@given(problems(caps=False), st.sampled_from([0.5, 0.999, 1.001, 2]), st.data())
def test_the_proof_sees_what_was_changed(
    mechanism: str, records: Records, factor: float, data: st.DataObject
) -> None:
    proof = allocate(*records, mechanism=mechanism).certificate
    assert isinstance(proof, BottleneckProof)
    placement = proof.placement
    if not len(placement.tasks):
        return
    tasks = placement.tasks.copy()
    tasks[data.draw(st.integers(0, len(tasks) - 1))] *= factor
    changed = replace(placement, tasks=tasks)
    assert not replace(proof, placement=changed).verify()
    # The gap that was measured once does not count.
    assert replace(proof, placement=changed).closed


def test_taking_more_than_others_is_seen() -> None:
    cluster = Cluster([Server({"cpu": 4})])
    users = [User("a", {"cpu": 1}), User("b", {"cpu": 1})]
    proof = allocate(cluster, users, mechanism="ps-dsf").certificate
    assert isinstance(proof, BottleneckProof)
    unfair = replace(proof.placement, tasks=np.array([3.0, 1.0]))
    # All is used up, so only the levels tell: 1 of 4 against 3 of 4.
    assert BottleneckProof.of(unfair, totals=True).gap == pytest.approx(2 / 3)


@settings(max_examples=30)
@given(problems())
def test_proportional_servers_are_one(records: Records) -> None:
    cluster, users = records
    free = [User(u.name, u.demand, weight=u.weight, tasks=u.tasks) for u in users]
    split = [
        Server({r: a * part for r, a in s.resources.items()}, count=s.count)
        for s in cluster.servers
        for part in (0.25, 0.75)
    ]
    one = allocate(cluster, free, mechanism="ps-dsf")
    two = allocate(Cluster(split), free, mechanism="ps-dsf")
    assert list(two.tasks.values()) == pytest.approx(list(one.tasks.values()), rel=1e-7, abs=1e-9)


# Whole tasks


def min_max_by_definition(cluster: Cluster, users: list[User]) -> list[int]:
    """One server, exact rationals: the order of the tasks."""
    (server,) = cluster.servers
    total = {r: Fraction(str(a)) for r, a in server.resources.items()}
    free = dict(total)
    need = [{r: Fraction(str(a)) for r, a in u.demand.items() if a > 0} for u in users]
    count = [0] * len(users)
    order: list[int] = []
    while True:
        able = [
            i
            for i, u in enumerate(users)
            if all(free[r] >= a for r, a in need[i].items())
            and (u.tasks is None or count[i] + 1 <= u.tasks)
        ]
        if not able:
            return order
        turn = min(
            able,
            key=lambda i: (
                (count[i] + 1)
                * max(a / total[r] for r, a in need[i].items())
                / Fraction(users[i].weight),
                i,
            ),
        )
        count[turn] += 1
        order.append(turn)
        for r, a in need[turn].items():
            free[r] -= a


# Powers of two: no rounding decides a tie.
EXACT = st.sampled_from([0.25, 0.5, 1, 2, 4])


@settings(max_examples=examples(200))
@given(
    st.tuples(st.sampled_from([4, 8, 16]), st.sampled_from([4, 8, 16])),
    st.lists(
        st.tuples(EXACT, EXACT, st.sampled_from([0.5, 1, 2]), st.sampled_from([None, 0, 1, 3])),
        min_size=1,
        max_size=4,
    ),
)
def test_sequential_min_max_by_definition(
    capacity: tuple[int, int], rows: list[tuple[float, float, float, int | None]]
) -> None:
    cluster = Cluster([Server({"cpu": capacity[0], "memory": capacity[1]})])
    users = [
        User(f"u{i}", {"cpu": c, "memory": m}, weight=w, tasks=t)
        for i, (c, m, w, t) in enumerate(rows)
    ]
    order = sequential_min_max_order(Problem.build(cluster, users)).tolist()
    assert order == min_max_by_definition(cluster, users)
    answer = allocate(cluster, users, mechanism="sequential-min-max")
    assert list(answer.tasks.values()) == [order.count(i) for i in range(len(users))]
    assert answer.whole


@settings(max_examples=50)
@given(problems())
def test_sequential_min_max_leaves_no_room(records: Records) -> None:
    cluster, users = records
    answer = allocate(cluster, users, mechanism="sequential-min-max")
    placement, problem = answer.assignment, answer.problem
    left = problem.capacity - placement.pool_usage / cluster.totals.clip(1e-300)
    one = problem.direction * problem.task_share[:, None]
    usable = problem.usable_on(np.arange(len(problem.blocks)))
    for i, tasks in enumerate(placement.user_tasks):
        assert tasks == int(tasks)
        if tasks + 1 <= problem.limit[i]:
            fits = (left >= one[i] + 1e-9).all(axis=1)
            assert not (fits if usable is None else fits & usable[i]).any()


# Arrivals


@settings(max_examples=examples(100))
@given(problems())
def test_nothing_is_taken_back(records: Records) -> None:
    problem = Problem.build(*records)
    arrived = np.cumsum(problem.weight) / problem.weight.sum()
    for steps, part in (
        (dynamic_drf_steps(problem), arrived),
        (cautious_lp_steps(problem), np.ones(len(arrived))),
    ):
        before = np.zeros(0)
        for k, share in enumerate(steps):
            assert (share[:-1] >= before).all()
            assert (share @ problem.direction[: k + 1] <= part[k] + 1e-9).all()
            before = share


@settings(max_examples=examples(100))
@given(problems(positive=True, caps=False, restrictions=False))
def test_arrivals_keep_the_sharing_incentive(records: Records) -> None:
    problem = Problem.build(*records)
    entitled = problem.weight / problem.weight.sum()
    for steps in (dynamic_drf_steps(problem), cautious_lp_steps(problem)):
        for share in steps:
            assert (share >= entitled[: len(share)] * (1 - 1e-9)).all()


@settings(max_examples=50)
@given(problems(positive=True, restrictions=False))
def test_the_last_cautious_step_is_drf(records: Records) -> None:
    cluster, users = records
    answer = allocate(cluster, users, mechanism="cautious-lp")
    fair = allocate(cluster, users, mechanism="drf")
    assert answer.promised == pytest.approx(fair.promised, rel=1e-9)


@given(
    st.lists(
        st.tuples(*[st.sampled_from([0.0, 0.5, 1.0, 2.0])] * 2, st.sampled_from([0.5, 1.0, 3.0]),
                  st.sampled_from([0.0, 1.0, np.inf])),
        min_size=1, max_size=5,
    ),
    st.sampled_from([0.5, 1.0, 3.0, 10.0]),
)  # fmt: skip
def test_water_level_above(rows: list[tuple[float, ...]], budget: float) -> None:
    price, floor, weight, room = np.array(rows).T
    cap = floor + room
    t = water_level_above(price, weight, floor, cap, budget)

    def spent(level: float) -> float:
        return float((price * np.clip(weight * level, floor, cap))[price > 0].sum())

    if spent(0.0) > budget:
        return
    if np.isinf(t):
        assert spent(1e9) <= budget * (1 + 1e-9)
    else:
        assert spent(t) <= budget * (1 + 1e-9)
        assert spent(t * 1.001 + 0.001) > budget


# Trees


def tiny_tasks(users: list[User], groups: dict[str, dict[str, object]], size: float) -> list[float]:
    """H-DRF as its procedure says, task by task, for users of one server of ones."""
    children: dict[str | None, list[str | int]] = {}
    for name in {u.parent for u in users if u.parent} | set(groups):
        children.setdefault(groups.get(name, {}).get("parent"), []).append(name)  # type: ignore[arg-type]
    for i, u in enumerate(users):
        children.setdefault(u.parent, []).append(i)
    need = np.array([[u.demand.get(r, 0) for r in ("cpu", "memory")] for u in users])
    need = size * need / need.max(axis=1, keepdims=True)
    held = np.zeros_like(need)
    blocked = [False] * len(users)

    def is_blocked(node: str | int) -> bool:
        if isinstance(node, int):
            return blocked[node]
        return all(is_blocked(child) for child in children[node])

    def weight(node: str | int) -> float:
        if isinstance(node, int):
            return users[node].weight
        return float(groups.get(node, {}).get("weight", 1))  # type: ignore[arg-type]

    def vector(node: str | int) -> np.ndarray:
        if isinstance(node, int):
            row: np.ndarray = held[node]
            return row
        inner = [(vector(c), weight(c)) for c in children[node] if not is_blocked(c)]
        least = min(v.max() / w for v, w in inner)
        return sum((v * (least / (v.max() / w)) for v, w in inner if v.max() > 0), np.zeros(2))

    while True:
        node: str | int | None = None
        while not isinstance(node, int):
            able = [c for c in children[node] if not is_blocked(c)]
            if not able:
                return list(held.max(axis=1))
            node = min(able, key=lambda c: vector(c).max() / weight(c))
        if (held.sum(axis=0) + need[node] > 1 + 1e-9).any():
            blocked[node] = True
        else:
            held[node] += need[node]


DEMAND = st.sampled_from([(1, 1), (1, 0), (0, 1), (1, 0.5), (0.5, 1), (1, 0.1), (0.2, 1)])


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(DEMAND, st.sampled_from([None, "a", "b", "c"]), st.sampled_from([1, 2])),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from([1, 3]),
)
def test_hdrf_is_the_limit_of_tiny_tasks(
    rows: list[tuple[tuple[float, float], str | None, int]], heavy: int
) -> None:
    users = [
        User(f"u{i}", {"cpu": c, "memory": m}, weight=w, parent=p)
        for i, ((c, m), p, w) in enumerate(rows)
    ]
    named = {u.parent for u in users}
    groups: dict[str, dict[str, object]] = {}
    if "c" in named:
        groups["c"] = {"parent": "b", "weight": heavy}
    if "a" in named:
        groups["a"] = {"weight": heavy}
    cluster = Cluster([Server({"cpu": 1, "memory": 1})])
    exact = hdrf_shares(Problem.build(cluster, users), groups)
    if "c" in named:
        groups.setdefault("b", {})
    assert exact.tolist() == pytest.approx(tiny_tasks(users, groups, 2e-3), abs=2e-2)


@settings(max_examples=50)
@given(problems(restrictions=False))
def test_a_flat_tree_is_drf(records: Records) -> None:
    cluster, users = records
    flat = allocate(cluster, users, mechanism="hdrf").promised
    one_group = [
        User(u.name, u.demand, weight=u.weight, tasks=u.tasks, parent="all") for u in users
    ]
    inside = allocate(cluster, one_group, mechanism="hdrf").promised
    fair = allocate(cluster, users, mechanism="drf").promised
    assert flat == pytest.approx(fair, rel=1e-9)
    assert inside == pytest.approx(fair, rel=1e-9)


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ({"t": {"wieght": 2}}, "did you mean weight"),
        ({"t": {"parent": "x"}, "x": {"parent": "t"}}, "must not be above itself"),
        ({"t": {"weight": 0}}, "must be > 0"),
        ({"other": {}}, "must be the group of some user"),
        ({"t": 3}, "must have a parent"),
        ({"t": {"parent": 3}}, "must be the name of a group"),
        (3, "must map names"),
    ],
)
def test_bad_groups(groups: object, words: str) -> None:
    cluster = Cluster([Server({"cpu": 4})])
    with pytest.raises(InputError, match=words):
        allocate(cluster, [User("a", {"cpu": 1}, parent="t")], mechanism="hdrf", groups=groups)


# Endowments


@settings(max_examples=50)
@given(problems(restrictions=False))
def test_endowments_by_weight_are_drf(records: Records) -> None:
    cluster, users = records
    answer = allocate(cluster, users, mechanism="endowment-drf")
    assert answer.promised == pytest.approx(
        allocate(cluster, users, mechanism="drf").promised, rel=1e-7, abs=1e-12
    )


def test_endowments_take_the_place_of_weights() -> None:
    cluster = Cluster([Server({"cpu": 12})])
    users = [User("a", {"cpu": 1}, weight=5), User("b", {"cpu": 1})]
    own = {"a": {"cpu": 0.25}, "b": {"cpu": 0.75}}
    answer = allocate(cluster, users, mechanism="endowment-drf", endowments=own)
    assert answer.tasks == pytest.approx({"a": 3, "b": 9})


@pytest.mark.parametrize(
    ("endowments", "words"),
    [
        ({"an": {"cpu": 1}}, "did you mean"),
        ({"ann": {"cup": 1}}, "did you mean cpu"),
        ({"ann": {"cpu": 2}}, "from 0 to 1"),
        ({"ann": {"cpu": 0}}, "tasks need it"),
        ({"ann": {"cpu": 0.9}}, "at most 1"),
        ({"ann": 1}, "must map resources"),
        (1, "must map user names"),
    ],
)
def test_bad_endowments(endowments: object, words: str) -> None:
    cluster = Cluster([Server({"cpu": 4})])
    users = [User("ann", {"cpu": 1}), User("bob", {"cpu": 1})]
    with pytest.raises(InputError, match=words):
        allocate(cluster, users, mechanism="endowment-drf", endowments=endowments)


# Links, accelerators, slots


LINKS = st.lists(
    st.tuples(*[st.sampled_from([0.0, 0.1, 0.5, 1.0])] * 2).filter(lambda row: max(row) > 0),
    min_size=1,
    max_size=5,
)


@given(LINKS, st.booleans())
def test_hug_fills_links(rows: list[tuple[float, float]], cooperative: bool) -> None:
    demand = np.array(rows)
    demand /= demand.max(axis=1, keepdims=True)
    progress, allocation = hug(demand.tolist(), cooperative=cooperative)
    assert (allocation >= progress * demand * (1 - 1e-12)).all()
    assert (allocation.sum(axis=0) <= 1 + 1e-9).all()
    used = demand.any(axis=0)
    if cooperative:
        assert allocation.sum(axis=0)[used] == pytest.approx(1.0)
    else:
        assert allocation.max() <= progress * (1 + 1e-12)
        spare = allocation.sum(axis=0) < 1 - 1e-9
        wanted = (demand > 0) & spare
        assert allocation[wanted] == pytest.approx(progress)


@settings(max_examples=30)
@given(
    st.lists(st.tuples(*[st.sampled_from([1.0, 2.0, 5.0])] * 2), min_size=1, max_size=4),
    st.tuples(*[st.sampled_from([1, 2])] * 2),
)
def test_gavel_is_no_worse_than_an_even_split(
    rows: list[tuple[float, float]], workers: tuple[int, int]
) -> None:
    objective, time = gavel(rows, workers)
    # Every job may take its n-th part of all workers, or all its time if that is less.
    even = min(1.0, sum(workers) / len(rows))
    assert objective >= even * (1 - 1e-9)
    assert (time.sum(axis=0) <= np.array(workers) + 1e-9).all()


@settings(max_examples=50)
@given(
    st.lists(st.tuples(*[st.integers(0, 9)] * 2), min_size=1, max_size=4),
    st.tuples(*[st.integers(0, 2)] * 2),
    st.integers(0, 9),
    st.integers(0, 2),
)
def test_quincy_by_enumeration(
    rows: list[tuple[int, int]], slots: tuple[int, int], unscheduled: int, least: int
) -> None:
    names = [f"t{i}" for i in range(len(rows))]
    costs = {name: {"x": row[0], "y": row[1]} for name, row in zip(names, rows, strict=True)}
    floor = min(least, len(rows))
    options = [
        sum(unscheduled if m == 2 else rows[t][m] for t, m in enumerate(choice))
        for choice in product(range(3), repeat=len(rows))
        if all(choice.count(m) <= slots[m] for m in range(2))
        and len(rows) - choice.count(2) >= floor
    ]
    room = {"x": slots[0], "y": slots[1]}
    if not options:
        with pytest.raises(InputError, match="within reach"):
            quincy(costs, room, {"j": names}, unscheduled=unscheduled, job_min_running={"j": floor})
        return
    plan = quincy(costs, room, {"j": names}, unscheduled=unscheduled, job_min_running={"j": floor})
    assert plan.cost == min(options)
    assert list(plan.assignment) == names


@pytest.mark.parametrize(
    "call",
    [
        lambda: hug([[0.5, 0.5]]),
        lambda: hug([]),
        lambda: hug([["a"]]),  # type: ignore[list-item]
        lambda: hug([[1, -1]]),
        lambda: gavel([[1, 2], [3]], [1, 1]),
        lambda: gavel([[1, 2]], [1]),
        lambda: gavel([[0, 0]], [1, 1]),
        lambda: gavel([[1, 1]], [0, 0]),
        lambda: gavel([[1, 1]], [1, 1], weights=[0]),
        lambda: quincy({}, {}, {}, unscheduled=1),
        lambda: quincy({"t": {"m": 1}}, {}, {"j": ["t"]}, unscheduled=1),
        lambda: quincy({"t": {"m": 1}}, {"m": -1}, {"j": ["t"]}, unscheduled=1),
        lambda: quincy({"t": {}}, {}, {}, unscheduled=1),
        lambda: quincy({"t": {}}, {}, {"j": ["t", "t"]}, unscheduled=1),
        lambda: quincy({"t": {}}, {}, {"j": ["t"]}, unscheduled=float("nan")),
        lambda: quincy({"t": {}}, {}, {"j": ["t"]}, unscheduled=1, job_min_running={"j": 2}),
    ],
)
def test_bad_input_is_told(call: Callable[[], object]) -> None:
    with pytest.raises(InputError):
        call()


def test_what_is_placed_of_an_unproven_promise_is_unproven(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = load_scenario("paper-two-servers")
    proven = allocate(scenario.cluster, scenario.users, mechanism="bbf").certificate
    assert proven is not None
    assert proven.closed
    monkeypatch.setattr(WelfareProof, "closed", property(lambda self: False))
    unproven = allocate(scenario.cluster, scenario.users, mechanism="bbf").certificate
    assert unproven is not None
    assert not unproven.closed
