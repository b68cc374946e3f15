import subprocess
import sys
from pathlib import Path

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
