"""The other mechanisms: what defines each of them, on random problems."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drfh import Cluster, Server, User, allocate
from drfh.bottleneck import BottleneckProof
from drfh.kernels import compiled
from drfh.kernels.offset_fill import fill_with_offsets
from tests.strategies import problems

Records = tuple[Cluster, list[User]]


# Bottlenecks


@settings(max_examples=150)
@given(problems())
def test_ps_dsf_finds_a_bottleneck_for_everybody(records: Records) -> None:
    allocation = allocate(*records, mechanism="ps-dsf")
    assert allocation.certificate is not None
    assert allocation.certificate.closed
    assert allocation.verify(), str(allocation.verify())


@settings(max_examples=100)
@given(problems(caps=False))
def test_per_server_drf_is_proven(records: Records) -> None:
    allocation = allocate(*records, mechanism="per-server-drf")
    assert allocation.verify(), str(allocation.verify())


def test_per_server_drf_of_finite_tasks_claims_no_proof() -> None:
    cluster = Cluster([Server({"cpu": 4})])
    answer = allocate(cluster, [User("a", {"cpu": 1}, tasks=1)], mechanism="per-server-drf")
    assert answer.certificate is None


@pytest.mark.parametrize("mechanism", ["ps-dsf", "per-server-drf"])
@settings(max_examples=100)
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


@settings(max_examples=100)
@given(problems(), st.integers(1, 3))
def test_offset_fill_twins(records: Records, sweeps: int) -> None:
    from drfh.problem import Problem

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
