import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tools.search_gaps import off_by, zones

from drfh import allocate

TOOLS = Path(__file__).parents[1] / "tools"


def run_tool(name: str, *arguments: str) -> list[str]:
    command = [sys.executable, str(TOOLS / name), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def test_called_modules_counts_and_lists_the_modules_of_a_job() -> None:
    first, *modules = run_tool("called_modules.py", "allocate", "--list")
    assert first.split() == ["allocate", str(len(modules))]
    assert {"    allocation/problem.py", "    cli/allocate.py"} <= set(modules)
    assert not any("web/" in module for module in modules)


@pytest.mark.slow
def test_the_search_for_wrong_gaps_finds_none_among_zones_and_wide_numbers() -> None:
    rows = run_tool("search_gaps.py", "zones", "wide", "--count", "1")
    assert len(rows) == 11
    assert all("1 of 1 closed, 0 off by more than the gap" in row for row in rows)


def test_the_search_for_wrong_gaps_sees_who_could_rise() -> None:
    cluster, users = zones(20, 6, 3, 1e-3, 0)
    right = allocate(cluster, users)
    less = right.tasks["a0"] * (1 - 1e-6)
    wrong = SimpleNamespace(tasks={**right.tasks, "a0": less}, method=right.method)
    off, error = off_by(cluster, users, wrong)  # type: ignore[arg-type]
    assert 1e-6 * 0.9 < off < 1e-5  # its neighbours may fall to where it is
    assert off_by(cluster, users, right)[0] < error
