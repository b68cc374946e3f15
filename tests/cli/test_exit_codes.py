"""The exit codes of docs/cli.md are those that happen."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest

from tests.support.paths import ROOT
from tests.support.processes import default_sigint

DRFH = (sys.executable, "-m", "drfh")
# Waits for its input; by then the verb runs.
WAITING = (
    "import sys; from drfh.cli import main; print('ready', flush=True); "
    "sys.exit(main(['scenario', 'check', '-']))"
)


def run(*words: str, stdout: int | IO[Any] = subprocess.PIPE) -> tuple[int, str]:
    """Return the exit code and what is on standard error."""
    done = subprocess.run(
        [*DRFH, *words], stdout=stdout, stderr=subprocess.PIPE, text=True, env=environment(),
        check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def done() -> tuple[int, str]:
    return run("allocate", "paper-two-servers", "--verify")


def failed() -> tuple[int, str]:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with open("/dev/full", "wb") as full:
        return run("scenario", "list", stdout=full)


def wrong() -> tuple[int, str]:
    return run("allocate", "no-such-file.yaml")


def required() -> tuple[int, str]:
    words = ("--mechanism", "utilitarian", "--only", "sharing", "--require", "sharing-incentive")
    return run("audit", "claim-c-skewed-servers", *words)


def closed_pipe() -> tuple[int, str]:
    ended = subprocess.run(
        ["bash", "-c", 'set -o pipefail; "$@" | true', "bash", *DRFH, "scenario", "schema"],
        capture_output=True, text=True, env=environment(), check=False,
    )  # fmt: skip
    return ended.returncode, ended.stderr


def signalled(number: signal.Signals) -> tuple[int, str]:
    with subprocess.Popen(
        [sys.executable, "-c", WAITING], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env=environment(), preexec_fn=default_sigint,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(0.5)
        child.send_signal(number)
        code = child.wait(30)
        assert child.stderr is not None
        return code if code >= 0 else 128 - code, child.stderr.read()  # as a shell has it


#: How each code comes about, and the number of lines on standard error.
CODES: dict[int, tuple[Callable[[], tuple[int, str]], int]] = {
    0: (done, 0),
    1: (failed, 1),
    2: (wrong, 1),
    3: (required, 1),
    130: (lambda: signalled(signal.SIGINT), 1),
    141: (closed_pipe, 0),
    143: (lambda: signalled(signal.SIGTERM), 0),
}


def test_all_codes_of_the_table_are_tried() -> None:
    page = (ROOT / "docs" / "cli.md").read_text()
    table = page.partition("## Exit codes")[2]
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)} == set(CODES)


@pytest.mark.parametrize("code", CODES)
def test_exit_code(code: int) -> None:
    happen, lines = CODES[code]
    found, errors = happen()
    assert found == code, errors
    assert len(errors.splitlines()) == lines, errors


def test_a_check_of_verify_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    from drfh.allocation.allocation import Allocation
    from drfh.cli import main

    real = Allocation.verify

    class Failed:
        def __init__(self, text: str) -> None:
            self.text = text

        def __bool__(self) -> bool:
            return False

        def __str__(self) -> str:
            return self.text

    monkeypatch.setattr(Allocation, "verify", lambda self: Failed(str(real(self))))
    assert main(["allocate", "paper-two-servers", "--verify"]) == 1
