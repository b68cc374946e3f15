"""Checks that take minutes: run with ``make test-slow``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import drfh
from drfh import Cluster, User, allocate
from tests.allocation.test_extremes import instance
from tests.mechanisms.test_drfh import levels, mixed, proven

pytestmark = pytest.mark.slow


def test_four_resources_at_the_size_of_googles_cluster() -> None:
    random = np.random.default_rng(0)
    names = ("cpu", "memory", "gpu", "disk")
    cluster = Cluster.from_arrays(np.exp(random.normal(0, 1, (12_583, 4))), names)
    demand = np.exp(random.normal(0, 0.3, (933, 4)))
    users = [
        User(f"u{i}", dict(zip(names, row, strict=True))) for i, row in enumerate(demand.tolist())
    ]
    assert proven(cluster, users).method == "interior-point"


def test_many_users_on_few_shapes() -> None:
    random = np.random.default_rng(0)
    names = ("cpu", "memory", "gpu")
    counts = random.integers(1, 1000, 20)
    cluster = Cluster.from_arrays(np.exp(random.normal(0, 1, (20, 3))), names, counts=counts)
    demand = np.exp(random.normal(0, 0.3, (10_000, 3)))
    users = [
        User(f"u{i}", dict(zip(names, row, strict=True))) for i, row in enumerate(demand.tolist())
    ]
    proven(cluster, users)


@pytest.mark.parametrize("spread", [1.0, 5.0, 12.0, 30.0])
def test_two_resources_are_always_proven(spread: float) -> None:
    for seed in range(1000, 2000):
        cluster, users = instance(seed, 2, spread, zeros=seed % 2 == 0)
        assert allocate(cluster, users).verify(), f"seed {seed}"


@pytest.mark.parametrize("size", [(6, 8), (12, 15), (20, 30), (30, 50)])
def test_medium_instances_by_two_methods(size: tuple[int, int]) -> None:
    unproven = 0
    for seed in range(100, 250):
        cluster, users = mixed(*size, seed)
        exact = allocate(cluster, users, method="simplex")
        other = allocate(cluster, users, method="interior-point")
        assert exact.certificate is not None
        assert other.certificate is not None
        if exact.certificate.closed and other.certificate.closed:
            assert levels(other) == pytest.approx(levels(exact), rel=1e-6, abs=1e-12)
        else:
            unproven += 1
    assert unproven <= 15


def test_after_install_nothing_is_compiled(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(tmp_path),
        "NUMBA_DEBUG_CACHE": "1",
        "PYTHONPATH": str(Path(drfh.__file__).parents[1]),
    }
    environment.pop("NUMBA_DISABLE_JIT", None)

    def kept(*words: str) -> tuple[int, int]:
        """Return how much machine code was read from disk, and how much was written."""
        done = subprocess.run(
            [sys.executable, *words], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.count("data loaded"), done.stdout.count("data saved")

    assert kept("-m", "drfh.precompile")[1] > 50
    for policy in ("best-fit-drfh", "first-fit-drfh", "mesos", "fifo", "slots:14", "tsf+hilbert"):
        code = (
            "import drfh; s = drfh.load_scenario('gpu-day'); drfh.simulate(s.cluster, s.workload, "
            f"{policy!r}, engine='indexed', fair=True, log=True)"
        )
        loaded, saved = kept("-c", code)
        assert loaded > 5
        assert saved == 0, policy
