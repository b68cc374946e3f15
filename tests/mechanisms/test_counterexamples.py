"""Where the paper's claims about DRFH need an assumption, or fail: each with exact numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from drfh import Cluster, Server, User, allocate
from drfh.allocation.allocation import Allocation

Rows = Sequence[Sequence[float]]


def solve(servers: Rows, users: Rows, **lists: Sequence[Any]) -> Allocation:
    names = ("cpu", "memory")
    cluster = Cluster([Server(dict(zip(names, s, strict=True))) for s in servers])
    return allocate(
        cluster,
        [
            User(f"u{i}", dict(zip(names, d, strict=True)), **{k: v[i] for k, v in lists.items()})
            for i, d in enumerate(users)
        ],
    )


def tasks(allocation: Allocation) -> list[float]:
    return list(allocation.tasks.values())


def worth(allocation: Allocation, of: int, to: int) -> float:
    """Tasks that user `to` could run with what user `of` holds, server by server."""
    problem, placed = allocation.problem, allocation.assignment
    need = problem.demand[to]
    mine = placed.user == of
    held = placed.tasks[mine][:, None] * problem.demand[of]
    return float(sum(np.min(row[need > 0] / need[need > 0]) for row in held))


def test_a_one_level_for_all_is_not_pareto_optimal_with_zero_demands() -> None:
    # LP (7) as printed would stop at 1/2 each and leave half of the cpu idle.
    assert tasks(solve([(1, 1)], [(1, 0), (0, 1), (0, 1)])) == pytest.approx([1, 0.5, 0.5])
    assert tasks(solve([(4, 0), (2, 8)], [(1, 0), (0.5, 1)])) == pytest.approx([4, 4])


def test_b_population_monotonicity_fails_with_zero_demands() -> None:
    before = tasks(solve([(1, 1)], [(1, 0.5), (1, 0), (0, 1)]))
    after = tasks(solve([(1, 1)], [(1, 0.5), (0, 1)]))
    assert before == pytest.approx([0.5, 0.5, 0.75])
    assert after == pytest.approx([2 / 3, 2 / 3])
    assert after[1] < before[2]


@pytest.mark.parametrize("e", [0.1, 0.001])
def test_c_sharing_incentive_fails_without_bound(e: float) -> None:
    shared = tasks(solve([(1 - e, e), (e, 1 - e)], [(1, e), (1, 1)]))
    alone = tasks(solve([((1 - e) / 2, e / 2), (e / 2, (1 - e) / 2)], [(1, e)]))
    assert shared == pytest.approx([2 * e / (1 + e)] * 2)
    assert alone[0] == pytest.approx(0.5, rel=1e-2)


def test_c_weights_from_dedicated_clouds_bring_it_back() -> None:
    assert tasks(solve([(6, 1), (1, 6)], [(1, 0.1), (1, 1)], weight=[1 / 2, 1 / 7])) == (
        pytest.approx([140 / 27, 40 / 27])
    )


def test_d_utilisation_can_be_low() -> None:
    allocation = solve([(1, 10), (10, 1)], [(0.1, 1)] + [(1, 0.1)] * 10)
    assert tasks(allocation) == pytest.approx([110 / 101] * 11)
    assert allocation.utilisation["memory"] == pytest.approx(2.178 / 11, rel=1e-3)


def test_e_adding_a_server_can_hurt() -> None:
    servers, users = [(2, 12), (12, 2)], [(0.2, 1), (1, 0.2)]
    assert tasks(solve(servers, users)) == pytest.approx([10, 10])
    assert tasks(solve([*servers, (14, 0)], users)) == pytest.approx([60 / 11, 120 / 11])


def test_f_bottleneck_fairness_is_equal_amounts_not_one_half() -> None:
    shares = solve([(2, 12), (12, 2)], [(1, 0.9)] * 2).shares
    assert list(shares.values()) == pytest.approx([0.1508] * 2, abs=5e-5)


def test_g_envy_needs_the_number_of_tasks() -> None:
    allocation = solve([(4, 4)], [(1, 1), (1, 1)], tasks=[1, None])
    assert tasks(allocation) == pytest.approx([1, 3])
    assert worth(allocation, of=1, to=0) == pytest.approx(3)  # more than its own 1, if uncapped


def test_h_whole_tasks_can_be_gamed() -> None:
    cluster = Cluster([Server({"cpu": 6, "memory": 6})])
    other = User("b", {"cpu": 4, "memory": 3})
    truth = allocate(
        cluster, [User("a", {"cpu": 1, "memory": 1}), other], whole_tasks=True, filling="paper"
    )
    lie = allocate(
        cluster, [User("a", {"cpu": 3, "memory": 2}), other], whole_tasks=True, filling="paper"
    )
    assert tasks(truth) == [2, 1]
    assert tasks(lie)[0] * 2 == 4  # (6, 4) is worth four true tasks


def test_i_leaving_with_ones_bundle_moves_the_others() -> None:
    users = [(1, 1), (3, 1), (1, 1)]
    full = tasks(solve([(11, 8)], users))
    assert full == pytest.approx([192 / 59, 88 / 59, 192 / 59])
    rest = solve([(11 - full[2], 8 - full[2])], users[:2])
    assert tasks(rest) == pytest.approx([2.943, 1.601], abs=1e-3)


def test_discontinuous_at_zero_demand() -> None:
    for e in (1e-3, 1e-6, 1e-9, 1e-12):
        assert tasks(solve([(6, 1), (1, 6)], [(1, e), (1, 1)])) == pytest.approx([2 / (1 + e)] * 2)
    assert tasks(solve([(6, 1), (1, 6)], [(1, 0), (1, 1)])) == pytest.approx([5, 2])


def test_frozen_placements_would_be_wrong() -> None:
    # Freezing where the one task of user 0 runs could leave 7 for user 1.
    assert tasks(solve([(2, 12), (12, 2)], [(0.2, 1), (1, 0.2)], tasks=[1, None])) == (
        pytest.approx([1, 11.8])
    )


def test_pooled_promise_cannot_be_placed() -> None:
    cluster = Cluster([Server({"cpu": 2, "memory": 12}), Server({"cpu": 12, "memory": 2})])
    users = [User("a", {"cpu": 0.2, "memory": 1}), User("b", {"cpu": 1, "memory": 0.2})]
    pooled = allocate(cluster, users, mechanism="drf")
    assert pooled.promised == pytest.approx({"a": 35 / 3, "b": 35 / 3})
    assert pooled.tasks == pytest.approx({"a": 10, "b": 10})
    assert pooled.verify()
    assert allocate(cluster, users).promised is None
