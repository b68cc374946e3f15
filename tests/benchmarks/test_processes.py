"""Measurements apart: answers and errors come back, limits are seen."""

from __future__ import annotations

import math
import os

import pytest
from benchmarks.processes import apart, limit_processor


def spin() -> None:
    limit_processor(0.1)
    while True:
        math.sqrt(2.0)


def test_a_process_of_its_own_gives_its_answer() -> None:
    assert apart(os.getpid) != os.getpid()


def test_an_error_comes_back() -> None:
    with pytest.raises(ValueError, match=r"math domain|nonnegative"):
        apart(math.sqrt, -1.0)


def test_the_limit_of_processor_time_is_told_from_another_end() -> None:
    with pytest.raises(TimeoutError):
        apart(spin)
    with pytest.raises(ChildProcessError, match="code 3"):
        apart(os._exit, 3)
