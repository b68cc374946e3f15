"""Matrix products run in one thread during a solve, and as before after it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import drfh
from drfh.kernels import threads
from drfh.mechanisms.solvers.interior import points


def test_a_solve_of_several_resources_uses_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    load = points.Columns.load

    def watched(self: points.Columns, *given: Any) -> Any:
        seen.append(threads.blas_threads())
        return load(self, *given)

    monkeypatch.setattr(points.Columns, "load", watched)
    random = np.random.default_rng(0)
    cluster = drfh.Cluster.from_arrays(random.uniform(1, 4, (40, 3)), ["cpu", "memory", "gpu"])
    users = [
        drfh.User(f"u{i}", dict(zip(cluster.resources, row, strict=True)))
        for i, row in enumerate(random.uniform(0.1, 1, (60, 3)).tolist())
    ]
    with threadpool_limits(limits=2, user_api="blas"):
        drfh.allocate(cluster, users, method="interior-point")
        assert threads.blas_threads() == 2
    assert set(seen) == {1}
