"""Trees that are changed step by step are what they would be if built anew."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from drfh.kernels.online import place as steps
from drfh.kernels.online import state as st
from drfh.kernels.online.stairs import stairs_build
from drfh.kernels.online.turns import turns_build
from drfh.policies import Policy
from drfh.scheduler.indexed import IndexedCore
from drfh.scheduler.rules import Rules

NAMES = ("cpu", "memory", "gpu", "disk")


def rebuilt(core: IndexedCore) -> st.CoreArrays:
    """Return a copy of the arrays with new trees."""
    arrays = copy.deepcopy(core.data)
    turns_build(arrays.head)
    if arrays.head[st.INDEX] == st.BY_STAIRS:
        arrays.stairs[:] = arrays.standing[:] = -7
        stairs_build(arrays.head)
    return arrays


def same_trees(core: IndexedCore) -> bool:
    """Return whether the trees are what they should be; no server may be dirty."""
    found, expected = core.data, rebuilt(core)
    leaves, nodes = int(found.head[st.LEAVES]), int(found.head[st.STAIR_LEAVES])
    names = ["ready_first", "waiting_first", "waiting_need"]
    same = all(
        np.array_equal(
            getattr(found, name)[1 : 2 * leaves], getattr(expected, name)[1 : 2 * leaves]
        )
        for name in names
    )
    if found.head[st.INDEX] == st.BY_STAIRS:
        k = int(found.head[st.SERVERS])
        same &= np.array_equal(found.standing[:k], expected.standing[:k])
        for name in ("stairs", "stairs_rest"):
            one, two = getattr(found, name), getattr(expected, name)
            same &= np.array_equal(one[1 : 2 * nodes], two[1 : 2 * nodes])
    return same


@pytest.mark.parametrize("m", [1, 2, 3, 4])
@pytest.mark.parametrize("policy", ["first-fit-drfh", "best-fit-drfh"])
@pytest.mark.parametrize("seed", range(3))
def test_trees_follow_every_step(policy: str, m: int, seed: int) -> None:
    random = np.random.default_rng([seed, m])
    core = IndexedCore(Rules(Policy.parse(policy), NAMES[:m], (1.0,) * m))
    core.add_servers(random.integers(50, 100_000, (37, m)))
    for user in range(11):
        core.add_user(1.0 + user % 3)
    # A task may come that needs more of one resource and less of another than the one that left.
    core.add_shapes(random.integers(1, 30_000, (40, m)), np.zeros(40, np.int64))
    running: list[int] = []
    waited = 0
    for step in range(400):
        for _ in range(int(random.integers(0, 5))):
            core.submit(int(random.integers(11)), int(random.integers(40)))
        for _ in range(min(len(running), int(random.integers(0, 4)))):
            core.finish(running.pop(int(random.integers(len(running)))))
        running += core.place()[0].tolist()
        assert core.data.head[st.DIRTY] == 0
        assert same_trees(core), step
        waited += int(core.data.head[st.WAITERS] > 0)
    assert waited > 0
    assert len(running) > 20
    steps.wake_all(core.data.head)
    assert same_trees(core)
