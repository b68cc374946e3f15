"""Placements of mechanisms of one's own: what cannot be carried out is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from drfh import (
    Cluster,
    InputError,
    Placement,
    Pools,
    Scenario,
    Server,
    Solution,
    User,
    allocate,
    audit,
    compare,
)
from drfh.allocation.problem import Problem

CASE = Scenario(
    Cluster([Server({"cpu": 4}, name="big"), Server({"cpu": 2}, name="small", count=3)]),
    (User("ann", {"cpu": 1}, tasks=3), User("bob", {"cpu": 1}, servers=["small"])),
)


def placing(
    user: Sequence[float], pool: Sequence[int], tasks: Sequence[float]
) -> Callable[[Problem], Solution]:
    """Return a mechanism that always gives the same answer."""

    def mine(problem: Problem) -> Solution:
        single = Pools.single(len(problem.blocks))
        return Solution(Placement(problem, np.array(user), np.array(pool), np.array(tasks), single))

    return mine


@pytest.mark.parametrize(
    ("user", "pool", "tasks", "message"),
    [
        ([0, 1], [0, 1], [3.0, 6.1], "at most 2 cpu on each server of small, got 2.03"),
        ([1], [0], [1.0], "must not place bob on big, where it may not or cannot run, got 1.0"),
        ([0], [0], [3.5], "must give ann at most its 3 tasks, got 3.5"),
        ([0], [0], [math.nan], "a finite number ≥ 0 of tasks on big, got nan"),
        ([1], [1], [-1.0], "give bob a finite number ≥ 0 of tasks on small, got -1.0"),
        ([2], [0], [1.0], "must place each user in 0 … 1, got 2"),
        ([0], [2], [1.0], "must place each pool in 0 … 1, got 2"),
        ([0, 0], [1, 0], [1.0, 1.0], "must have entries sorted by pool"),
        ([0, 0], [1, 1], [1.0, 1.0], "must have entries sorted by pool"),
    ],
)
def test_an_answer_that_cannot_be_carried_out_is_refused(
    user: list[float], pool: list[int], tasks: list[float], message: str
) -> None:
    mechanism = placing(user, pool, tasks)
    with pytest.raises(InputError, match="mechanism mine must") as error:
        allocate(CASE, mechanism=mechanism)
    assert message in str(error.value)
    with pytest.raises(InputError, match="mechanism mine must"):
        compare(CASE, mechanisms=[mechanism], properties=[])


def test_round_off_is_not_refused() -> None:
    answer = allocate(CASE, mechanism=placing([0, 1], [0, 1], [3.0, 6 * (1 + 1e-12)]))
    assert answer.tasks == {"ann": 3.0, "bob": 6 * (1 + 1e-12)}


def test_an_audit_measures_what_does_not_fit_and_refuses_what_is_no_number() -> None:
    report = audit(CASE, mechanism=placing([0], [0], [5.0]), properties=["feasible"])
    assert report.failed == ("feasible",)
    with pytest.raises(InputError, match="a finite number ≥ 0 of tasks on big, got nan"):
        audit(CASE, mechanism=placing([0], [0], [math.nan]), properties=["feasible"])


def test_fitted_takes_lists_and_nothing_at_all_but_no_nan() -> None:
    problem = Problem.build(CASE.cluster, CASE.users)
    pools = Pools.single(len(problem.blocks))
    none = Placement.fitted(problem, [], [], [], pools)  # type: ignore[arg-type]
    assert none.user_tasks.tolist() == [0.0, 0.0]
    some = Placement.fitted(problem, [1, 0], [1, 0], [9, 9], pools)  # type: ignore[arg-type]
    assert some.user_tasks.tolist() == [3.0, 6.0]
    with pytest.raises(InputError, match=r"placement.tasks must be finite, got nan"):
        Placement.fitted(problem, np.array([0]), np.array([0]), np.array([math.nan]), pools)


@pytest.mark.parametrize(
    ("user", "tasks", "message"),
    [
        ([0.5], [1.0], "placement.user must be positions"),
        ([0, 1], [1.0], "placement must have user, pool and tasks of equal length"),
    ],
)
def test_entries_that_do_not_match_are_refused(
    user: list[float], tasks: list[float], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        allocate(CASE, mechanism=placing(user, [0], tasks))
