"""The indexed brain decides as the plain one does, which is the definition: random lives."""

from __future__ import annotations

import numpy as np
import pytest

from drfh.scheduler.core import Core
from drfh.scheduler.indexed import IndexedCore
from drfh.scheduler.plain import PlainCore
from tests.brains import CHOICES, TURNS, Life, live


def policy(seed: int) -> str:
    rng = np.random.default_rng(seed)
    turn = str(rng.choice(TURNS)).replace("fifo", "turn=fifo")
    inside = rng.choice(["inside=fifo", "backfill"])
    return f"{turn}+{rng.choice(CHOICES)}+{rng.choice(['skip', 'strict'])}+{inside}"


@pytest.mark.parametrize("seed", range(60))
def test_any_policy(seed: int) -> None:
    life = Life(seed, policy(seed), 1 + seed % 4)
    cores: list[Core] = [PlainCore(life.rules()), IndexedCore(life.rules())]
    live(life, cores, 120)


@pytest.mark.parametrize("resources", [2, 3])
@pytest.mark.parametrize("choice", ["best-fit", "first-fit"])
def test_many_tasks_are_placed(choice: str, resources: int) -> None:
    placed = 0
    for seed in range(4):
        life = Life(seed, f"drfh+{choice}", resources)
        placed += live(life, [PlainCore(life.rules()), IndexedCore(life.rules())], 300, look=False)
    assert placed > 200
