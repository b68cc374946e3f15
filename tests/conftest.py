"""Hypothesis profiles: the same examples everywhere, no timing; and where the real data is."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "drfh",
    deadline=None,
    derandomize=True,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("drfh")


@pytest.fixture(scope="session")
def data() -> Path:
    """Return the directory with the published traces, which are not in this repository."""
    place = os.environ.get("DRFH_DATA")
    if not place:
        pytest.skip("needs the published traces: set DRFH_DATA to their directory")
    if not Path(place).is_dir():
        pytest.fail(f"DRFH_DATA must be a directory that exists, got {place!r}")
    return Path(place)
