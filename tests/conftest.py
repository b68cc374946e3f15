"""Settings of hypothesis and of signals, and fixtures for data, browser and Slurm."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from drfh.engines.slurm.sandbox import Sandbox
from tests.engines.slurm.cluster import make_quiet, slurm_cluster
from tests.support.examples import SLOW

COMMON: dict[str, Any] = {
    "deadline": None,
    "derandomize": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.filter_too_much],
}
settings.register_profile("drfh", max_examples=40, **COMMON)
settings.register_profile(SLOW, max_examples=100, **COMMON)
settings.load_profile("drfh")


def pytest_configure() -> None:
    """Let processes that tests start be interrupted.

    Background jobs of a shell ignore SIGINT (``nohup make test &``), and hand that on to theirs.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# Files whose tests wait for Slurm, a browser or a process for long: each worker begins with some
# of them, so that nobody waits for them at the end.
WAITING = (
    "tests/engines/slurm/test_live.py",
    "tests/test_docs.py",
    "tests/web/live/test_page.py",
    "tests/engines/slurm/test_kills.py",
    "tests/experiments/test_experiments.py",
    "tests/web/play/test_play.py",
    "tests/report/test_reproduction.py",
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the files that take long where workers begin: each has an equal run of the tests."""
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    files: dict[str, list[pytest.Item]] = {name: [] for name in WAITING}
    others: list[pytest.Item] = []
    for item in items:
        files.get(item.nodeid.partition("::")[0], others).append(item)
    ordered: list[pytest.Item] = []
    for worker in range(workers):
        for name in WAITING[worker::workers]:
            ordered += files[name]
        missing = max(0, (worker + 1) * len(items) // workers - len(ordered))
        ordered += others[:missing]
        others = others[missing:]
    items[:] = ordered + others


@pytest.fixture(scope="session")
def data() -> Path:
    """Return the directory with the published traces, which are not in this repository."""
    place = os.environ.get("DRFH_DATA")
    if not place:
        pytest.skip("needs the published traces: set DRFH_DATA to their directory")
    if not Path(place).is_dir():
        pytest.fail(f"DRFH_DATA must be a directory that exists, got {place!r}")
    return Path(place)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Return Debian's chromium, for the tests that look at pages."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("needs Debian's chromium (make browser)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=chromium,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield found
        found.close()


@pytest.fixture(scope="session")
def slurm() -> Iterator[Sandbox]:
    """Return a real Slurm of this worker: 16 nodes, partition ``main`` is managed by drfh."""
    with slurm_cluster() as sandbox:
        yield sandbox


@pytest.fixture
def quiet_slurm(slurm: Sandbox) -> Sandbox:
    """Return the same, with no job and all nodes idle."""
    make_quiet(slurm)
    return slurm
