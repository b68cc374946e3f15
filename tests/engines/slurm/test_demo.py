"""``drfh slurm demo`` the way a user runs it: nothing is left when it ends, however it ends."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from drfh.cli.slurm import app
from drfh.engines.slurm.demo import open_directory
from drfh.engines.slurm.sandbox import missing
from tests.support.outputs import check_output


@pytest.fixture
def place() -> Iterator[Path]:
    """Return where the demonstration puts its files: all that it starts can be known by that."""
    if missing():
        pytest.skip(f"a real Slurm {missing()} (make slurm)")
    with tempfile.TemporaryDirectory(prefix="drfh-test-") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@contextmanager
def started(place: Path, *options: str, out: int = subprocess.PIPE) -> Iterator[Any]:
    """Start the demonstration, with `out` as its terminal; it does not outlive the test."""
    arguments = [sys.executable, "-m", "drfh", "slurm", "demo", "--nodes", "6", *options]
    error = subprocess.PIPE if out == subprocess.PIPE else out
    process = subprocess.Popen(
        arguments, env={**os.environ, "TMPDIR": str(place)}, stdin=subprocess.DEVNULL, stdout=out,
        stderr=error,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=60)


def left(place: Path) -> list[str]:
    """Return what is left: files, and processes that know of the place."""
    found = [str(path) for path in place.iterdir()]
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                data = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
                if str(place).encode() in data:
                    found.append(data.replace(b"\0", b" ").decode(errors="replace")[-200:])
    return found


@pytest.mark.slow
def test_it_runs_by_itself_to_its_end(place: Path) -> None:
    log = place.with_suffix(".journal")
    with started(place, "--seconds", "8", "--json", "--record", str(log)) as process:
        out, said = process.communicate(timeout=240)
    assert process.returncode == 0, said
    data = check_output("slurm-demo", out)
    assert not data["stopped"]
    assert [user["user"] for user in data["users"]] == ["ann", "bob", "cat"]
    assert sum(user["completed"] for user in data["users"]) > 0
    assert max(user["mean_share"] or 0.0 for user in data["users"]) > 0
    news = [word for sample in data["looks"] for word in sample["news"]]
    assert [word.split()[:2] for word in news if "joins" in word] == [
        [name, "joins"] for name in ("ann", "bob", "cat")
    ]
    assert sum("leaves" in word for word in news) == 3
    assert left(place) == []
    again = CliRunner().invoke(app, ["replay", str(log), "--json"])
    log.unlink()
    assert json.loads(again.output)["replay"]["same"] is True


def test_a_place_that_not_all_may_enter_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert open_directory() == "/tmp"


@pytest.mark.slow
def test_a_pipe_gets_a_few_looks_and_a_summary(place: Path) -> None:
    pytest.importorskip("nicegui")
    with started(place, "--seconds", "6", "--web-port", "0") as process:
        out, said = process.communicate(timeout=240)
    text = out.decode()
    assert process.returncode == 0, said
    assert "\x1b" not in text
    assert 1 <= text.count("6 nodes: 6 up") <= 6
    assert "ann joins with" in text
    assert b"live view: http://127.0.0.1:" in said
    assert "drfh slurm replay" in text
    assert left(place) == []


def test_ctrl_c_on_a_terminal_stops_all_that_was_started(place: Path) -> None:
    ours, theirs = pty.openpty()
    with started(place, "--seconds", "600", out=theirs) as process:
        os.close(theirs)
        shown = read_until(ours, b"in another terminal")
        assert b"\x1b[?1049h" in shown  # a screen of its own
        assert left(place)
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)  # people are impatient
        assert b"stopped:" in read_until(ours, b"drfh slurm --help")
        assert process.wait(60) == 0
    os.close(ours)
    assert left(place) == []


def read_until(terminal: int, word: bytes) -> bytes:
    text, end = b"", time.monotonic() + 120
    while word not in text:
        assert time.monotonic() < end, text[-2000:]
        text += os.read(terminal, 4096)
    return text


def test_a_controller_that_ends_is_told_of(place: Path) -> None:
    with started(place, "--seconds", "600") as process:
        end = time.monotonic() + 120
        while not (found := controllers(place)):
            assert time.monotonic() < end
            time.sleep(0.1)
        os.kill(found[0], signal.SIGKILL)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert b"the controller ended: " in said
    assert b"Traceback" not in said
    assert left(place) == []


def controllers(place: Path) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
                if b"run" in arguments and str(place).encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
    return found


def test_without_slurm_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path: None)
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 1
    text = str(result.exception)
    assert "needs Slurm's programs; not installed: munged, slurmctld" in text
    assert "apt-get install --no-install-recommends slurmctld" in text


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [
        ("--nodes", "0", "nodes must be from 1 to 64, got 0"),
        ("--seconds", "0", "--seconds must be > 0, got 0"),
        ("--policy", "best", "policy"),
        ("--record", __file__, "--record must be a new file"),
    ],
)
def test_options_are_checked_first(option: str, value: str, text: str) -> None:
    result = CliRunner().invoke(app, ["demo", option, value])
    assert text in str(result.exception)
