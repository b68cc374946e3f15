"""Distance from fair: the missing share and the worst-off user."""

from __future__ import annotations

import numpy as np
import pytest

from drfh.allocation.fairness import missing_share, worst_off

NOBODY = np.array([np.nan, np.nan])


def test_weights_count() -> None:
    """Bob has weight 3 and three times the fair share: what it lacks counts three times."""
    weight, fair = np.array([1.0, 3.0]), np.array([0.2, 0.2])
    assert missing_share(np.array([0.2, 0.3]), weight, fair) == pytest.approx(0.3 / 0.8)
    assert missing_share(np.array([0.1, 0.6]), weight, fair) == pytest.approx(0.1 / 0.8)


def test_what_somebody_has_too_much_makes_up_for_nobody() -> None:
    fair = np.array([0.5, 0.5])
    assert missing_share(np.array([1.0, 0.0]), np.ones(2), fair) == 0.5


def test_the_worst_off_alone_says_little() -> None:
    """One of a hundred waits: nothing of its share is there, a hundredth of all shares."""
    share = np.full(100, 0.01)
    share[7] = 0.0
    fair = np.full(100, 0.01)
    assert missing_share(share, np.ones(100), fair) == pytest.approx(0.01)
    lacks, who = worst_off(share, np.ones(100), fair)
    assert (float(lacks), int(who)) == (1.0, 7)


@pytest.mark.parametrize("fair", [NOBODY, np.zeros(2), np.array([0.0, np.nan])])
def test_nobody_to_be_fair_to(fair: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    share = np.array([0.3, 0.0])
    assert missing_share(share, np.ones(2), fair) == 0
    assert [float(found) for found in worst_off(share, np.ones(2), fair)] == [0.0, -1.0]


def test_round_off_is_not_missing() -> None:
    fair = np.array([0.1 + 0.2, 1 / 3])
    assert missing_share(fair * (1 - 1e-12), np.ones(2), fair) == 0


def test_no_users_and_no_samples() -> None:
    empty = np.zeros((3, 0))
    assert missing_share(empty, np.zeros(0), empty).tolist() == [0, 0, 0]
    assert worst_off(empty, np.zeros(0), empty)[1].tolist() == [-1, -1, -1]
    assert missing_share(np.zeros((0, 2)), np.ones(2), np.zeros((0, 2))).shape == (0,)
