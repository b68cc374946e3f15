"""The compiled twin of a kernel gives the same bits as the plain one."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from drfh import Cluster, User
from drfh.allocation.problem import Problem
from drfh.kernels import compiled
from drfh.kernels.fill import assign_two_resources, fill_with_offsets
from drfh.precompile import warm_up
from tests.support.examples import examples
from tests.support.strategies import problems

AMOUNT = st.one_of(st.just(0.0), st.floats(1e-9, 1e3), st.sampled_from([0.1, 0.3, 1.0, 3.0]))


def sorted_rows(rows: list[tuple[float, float]]) -> np.ndarray:
    table = np.array(rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        return table[np.argsort(table[:, 1] / table[:, 0], kind="stable")]


@settings(max_examples=examples(200))
@given(
    st.lists(st.tuples(AMOUNT, AMOUNT).filter(any), min_size=1, max_size=12),
    st.lists(st.tuples(AMOUNT, AMOUNT).filter(any), min_size=1, max_size=12),
    st.data(),
)
def test_assign_twins(
    users: list[tuple[float, float]], servers: list[tuple[float, float]], data: st.DataObject
) -> None:
    d, c = sorted_rows(users), sorted_rows(servers)
    amounts = data.draw(st.lists(AMOUNT, min_size=len(d), max_size=len(d)))
    results = []
    for twin in (assign_two_resources, compiled(assign_two_resources)):
        left = np.array(amounts)
        room = len(d) + 3 * len(c)
        user, server = np.zeros((2, room), dtype=np.int64)
        placed = np.zeros(room)
        written = twin(d[:, 0], d[:, 1], left, c[:, 0], c[:, 1], user, server, placed)
        assert written <= room
        results.append((written, left, user, server, placed))
        # Whatever the amounts are, no server is over-filled and nothing is invented.
        for r in range(2):
            load = np.bincount(server[:written], placed[:written] * d[user[:written], r], len(c))
            assert (load <= c[:, r] * (1 + 1e-9) + 1e-300).all()
        given_out = np.bincount(user[:written], placed[:written], len(d))
        assert np.allclose(given_out + left, amounts, rtol=1e-12, atol=0)
    for plain, fast in zip(*results, strict=True):
        assert np.array_equal(plain, fast)


@settings(max_examples=examples(100))
@given(problems(), st.integers(1, 3))
def test_offset_fill_twins(records: tuple[Cluster, list[User]], sweeps: int) -> None:
    problem = Problem.build(*records)
    blocks, n = len(problem.blocks), len(problem.users)
    usable = problem.usable_on(np.arange(blocks))
    rate = np.random.default_rng(n).uniform(0.1, 1, (blocks, n))
    if usable is not None:
        rate[~usable.T] = 0.0
    states = []
    for twin in (fill_with_offsets, compiled(fill_with_offsets)):
        placed = np.zeros_like(rate)
        for _ in range(sweeps):
            total = placed.sum(axis=0)
            change = twin(
                problem.direction, problem.capacity, rate, problem.share_limit, placed, total
            )
        states.append((change, placed, total))
        used = placed @ problem.direction
        assert (used <= problem.capacity * (1 + 1e-12) + 1e-15).all()
    for plain, fast in zip(*states, strict=True):
        assert np.array_equal(plain, fast)


def test_warm_up_goes_through() -> None:
    warm_up()
