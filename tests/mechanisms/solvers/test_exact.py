"""Answers that say they are closed are right for every single user."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray

from drfh import Cluster, User, allocate
from drfh.allocation.allocation import Allocation
from drfh.allocation.problem import Problem, by_weight
from drfh.allocation.proofs.certificate import Certificate
from drfh.allocation.proofs.rational import RationalProblem
from drfh.mechanisms.solvers.rational import TooLargeError, rational_leximin
from tests.support.rational import leximin
from tests.support.strategies import rational_problems

RESOURCES = ("x", "y", "z", "v")


def gap(allocation: Allocation) -> float:
    assert allocation.certificate is not None
    return float(allocation.certificate.gap)


def user(name: str, row: NDArray[np.float64], **options: Any) -> User:
    return User(name, dict(zip(RESOURCES, row.tolist(), strict=False)), **options)


def lognormal(seed: int, *shapes: tuple[int, int]) -> list[NDArray[np.float64]]:
    random = np.random.default_rng(seed)
    return [np.exp(random.normal(0, 0.7, shape)) for shape in shapes]


@pytest.mark.parametrize("delta", [1e-3, 1e-4, 1e-5, 1e-6, 1e-7])
def test_a_user_that_could_rise_a_little_more_does(delta: float) -> None:
    """One user has a zone for itself and ends a little above the many of the other zone."""
    n = 40
    capacity, demand = lognormal(0, (400, 3), (n + 1, 3))
    demand *= 0.01
    zones = [{"zone": "1"}] * 100 + [{"zone": "2"}] * 300
    cluster = Cluster.from_arrays(capacity, RESOURCES[:3], labels=zones)

    def run(weight: float) -> Allocation:
        many = [user(f"u{i}", demand[i], servers={"zone": "1"}) for i in range(n)]
        one = user("one", demand[n], weight=weight, servers={"zone": "2"})
        return allocate(cluster, [*many, one])

    equal = run(1.0)
    allocation = run(equal.shares["one"] / (equal.shares["u0"] * (1 + delta)))
    alone = (capacity[100:] / demand[n]).min(axis=1).sum()
    assert abs(1 - allocation.tasks["one"] / alone) <= max(gap(allocation), 1e-13)
    assert allocation.verify()


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-7])
def test_zones_of_nearly_the_same_level_are_told_apart(delta: float) -> None:
    servers, users = 60, 30
    capacity, demand = lognormal(1, (servers, 3), (users, 3))
    zones = [{"zone": "1"}] * servers + [{"zone": "2"}] * servers
    cluster = Cluster.from_arrays(np.vstack((capacity, capacity)), RESOURCES[:3], labels=zones)
    everyone = [
        user(f"{zone}-{i}", demand[i] * 0.01, weight=weight, servers={"zone": zone})
        for zone, weight in (("1", 1.0), ("2", 1 / (1 + delta)))
        for i in range(users)
    ]
    allocation = allocate(cluster, everyone)
    assert allocation.verify()
    for i in range(users):  # alike, each in a zone of its own
        shares = allocation.shares[f"1-{i}"], allocation.shares[f"2-{i}"]
        assert shares[0] == pytest.approx(shares[1], rel=2 * gap(allocation) + 1e-13)


def wide(seed: int, n: int, k: int, m: int, spread: float) -> tuple[Cluster, list[User]]:
    random = np.random.default_rng(seed)
    capacity, demand = (10 ** random.uniform(-spread, spread, (rows, m)) for rows in (k, n))
    cluster = Cluster.from_arrays(capacity, RESOURCES[:m])
    return cluster, [user(f"u{i}", row) for i, row in enumerate(demand)]


@pytest.mark.parametrize("spread", [6.0, 12.0])
@pytest.mark.parametrize("m", [3, 4])
def test_numbers_of_any_range_are_exact_on_small_problems(m: int, spread: float) -> None:
    for seed in range(10):
        cluster, users = wide(seed, 6, 5, m, spread)
        allocation = allocate(cluster, users)
        assert allocation.verify(), f"seed {seed}: {allocation.verify()}"
    for seed in range(4):
        cluster, users = wide(seed, 3, 3, m, spread)
        allocation = allocate(cluster, users)
        right = by_definition(cluster, users)
        given_ = list(allocation.tasks.values())
        assert given_ == pytest.approx([float(t) for t in right], rel=max(gap(allocation), 1e-15))


@pytest.mark.slow
def test_numbers_of_any_range_on_larger_problems_are_open_and_say_so() -> None:
    cluster, users = wide(0, 60, 30, 3, 12.0)
    allocation = allocate(cluster, users)
    assert allocation.certificate is not None
    assert allocation.certificate.closed == bool(allocation.verify())


def by_definition(cluster: Cluster, users: list[User]) -> list[Fraction]:
    resources = cluster.resources
    capacity = [[Fraction(s.resources.get(r, 0)) for r in resources] for s in cluster.servers]
    total = [sum(row[r] for row in capacity) for r in range(len(resources))]
    demand = [[Fraction(u.demand.get(r, 0)) for r in resources] for u in users]
    usable = [
        [s for s, row in enumerate(capacity) if all(row[r] or not n for r, n in enumerate(need))]
        for need in demand
    ]
    share = [max(n / total[r] for r, n in enumerate(need) if total[r]) for need in demand]
    rate = [Fraction(u.weight) / one for u, one in zip(users, share, strict=True)]
    cap = [None if u.tasks is None else Fraction(u.tasks) for u in users]
    cap = [most if where else Fraction(0) for most, where in zip(cap, usable, strict=True)]
    return leximin(demand, capacity, usable, cap, lambda rising: rate)


@given(rational_problems())
def test_rational_rounds_are_those_of_the_definition(problem: RationalProblem) -> None:
    proof = rational_leximin(problem, work=4.0)
    assert proof.gap() == 0.0
    right = leximin(
        problem.demand, problem.capacity, problem.usable, problem.cap, lambda rising: problem.rate
    )
    assert proof.tasks() == right


def test_a_rational_proof_that_is_not_one_does_not_hold() -> None:
    cluster, users = wide(0, 4, 3, 3, 12.0)
    problem = Problem.build(cluster, users)
    proof = rational_leximin(RationalProblem.of(problem, by_weight(problem)), work=4.0)
    assert proof.gap() == 0.0
    key, amount = next(iter(proof.placement.items()))
    first = proof.rounds[0]
    assert first.prices is not None
    server, price = next(iter(first.prices.items()))
    for wrong in (
        {"placement": {**proof.placement, key: amount * 2}},
        {"placement": {**proof.placement, key: amount / 2}},
        {"rounds": (replace(first, level=first.level * 2), *proof.rounds[1:])},
        {"rounds": (replace(first, prices={**first.prices, server: price * 2}), *proof.rounds[1:])},
        {"rounds": (replace(first, prices={**first.prices, server: -price}), *proof.rounds[1:])},
        {"rounds": (replace(first, users=first.users[1:]), *proof.rounds[1:])},
    ):
        assert replace(proof, **wrong).gap() > 1e-3, wrong
    with pytest.raises(TooLargeError):
        rational_leximin(RationalProblem.of(problem, by_weight(problem)), work=1e-5)


def mixture(seed: int, k: int, n: int, m: int) -> tuple[Cluster, list[User]]:
    """Return servers that lack something, and users with zeros, restrictions and few tasks."""
    random = np.random.default_rng(seed)
    capacity, demand = lognormal(seed, (k, m), (n, m))
    demand *= 0.01
    demand[random.random((n, m)) < 0.3] = 0
    demand[demand.max(axis=1) <= 0, 0] = 0.01
    lacking = np.flatnonzero(random.random(k) < 0.1)
    capacity[lacking, random.integers(0, m, len(lacking))] = 0
    zones = random.integers(0, 10, k)
    labels = [{"zone": str(zone)} for zone in zones]
    cluster = Cluster.from_arrays(capacity, RESOURCES[:m], labels=labels)
    fair = 1 / (demand / capacity.sum(axis=0)).max(axis=1) / n
    users = []
    for i, row in enumerate(demand):
        where = [str(z) for z in random.choice(np.unique(zones), 2)]
        users.append(
            user(
                f"u{i}",
                row,
                servers={"zone": where} if random.random() < 0.4 else None,
                tasks=float(int(fair[i] * np.exp(random.normal()))) + 1
                if random.random() < 0.5
                else None,
            )
        )
    return cluster, users


LARGER = [(200, 60, 4), (300, 100, 3)]


@pytest.mark.parametrize(
    "size",
    [(100, 30, 3), *(pytest.param(size, marks=pytest.mark.slow) for size in LARGER)],
)
def test_mixtures_are_proven(size: tuple[int, int, int]) -> None:
    for seed in range(3):
        allocation = allocate(*mixture(seed, *size))
        assert isinstance(allocation.certificate, Certificate)
        assert allocation.verify(), f"seed {seed}: {allocation.verify()}"
