"""Numbers many orders of magnitude apart: proven, or honestly not."""

from __future__ import annotations

import numpy as np
import pytest

from drfh import Cluster, User, allocate
from drfh.allocation.allocation import Allocation

RESOURCES = ("a", "b", "c", "d")


def instance(seed: int, m: int, spread: float, *, zeros: bool) -> tuple[Cluster, list[User]]:
    random = np.random.default_rng(seed)
    n, k = (int(x) for x in random.integers(1, 10, 2))
    capacity = np.clip(np.exp(random.normal(0, spread, (k, m))), 1e-15, 1e15)
    demand = np.clip(np.exp(random.normal(0, spread, (n, m))), 1e-15, 1e15)
    if zeros:
        capacity *= random.random((k, m)) < 0.7
        demand *= random.random((n, m)) < 0.7
    capacity[0] = np.where(capacity.sum(axis=0) > 0, capacity[0], 1.0)
    capacity, demand = capacity[capacity.max(axis=1) > 0], demand[demand.max(axis=1) > 0]
    cluster = Cluster.from_arrays(capacity, RESOURCES[:m])
    users = [
        User(
            f"u{i}",
            dict(zip(RESOURCES, row, strict=False)),
            weight=float(random.choice([1, 1, 0.01, 100])),
            tasks=[None, None, 0.5, 1e-3, 1e3][int(random.integers(5))],
        )
        for i, row in enumerate(demand.tolist())
    ]
    return cluster, users or [User("u0", {"a": 1})]


def levels(allocation: Allocation) -> list[float]:
    return list(allocation.levels.values())


@pytest.mark.parametrize("spread", [1.0, 5.0, 12.0, 30.0])
@pytest.mark.parametrize("zeros", [False, True])
def test_two_resources_are_always_proven(spread: float, zeros: bool) -> None:
    for seed in range(40):
        cluster, users = instance(seed, 2, spread, zeros=zeros)
        exact = allocate(cluster, users)
        found = exact.verify()
        assert found, f"seed {seed}: {found}"
        other = allocate(cluster, users, method="simplex")
        assert other.certificate is not None
        if other.certificate.closed:
            assert levels(other) == pytest.approx(levels(exact), rel=1e-7, abs=0)


@pytest.mark.parametrize("m", [3, 4])
def test_more_resources_at_sensible_scales_are_proven(m: int) -> None:
    for seed in range(60):
        allocation = allocate(*instance(seed, m, 3.0, zeros=seed % 2 == 0))
        assert allocation.verify(), f"seed {seed}: {allocation.verify()}"


def test_more_resources_at_absurd_scales_never_crash() -> None:
    proven = 0
    for seed in range(60):
        allocation = allocate(*instance(seed, 3, 20.0, zeros=seed % 2 == 0))
        checks = {check.name: check.ok for check in allocation.verify().checks}
        assert allocation.certificate is not None
        assert checks.pop("relative gap") == allocation.certificate.closed
        assert all(checks.values()), f"seed {seed}"
        proven += allocation.certificate.closed
    assert proven >= 20  # the others say that they are not
