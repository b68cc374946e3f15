"""Nothing half-written stays: not after SIGTERM, and not long after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from drfh.files.atomic import whole_directory, write_whole
from drfh.files.drafts import Draft
from tests.support.paths import ROOT

# Write a directory, and wait: with everything in the draft, or between the two last steps.
HALF_WAY = """
import os, sys, time
from drfh.files.atomic import whole_directory
where = sys.argv[2]
rename = os.rename
def wait(*paths):
    os.rename = rename
    if paths:
        rename(*paths)
    print("ready", flush=True)
    time.sleep(60)
with whole_directory(sys.argv[1], "done", force=True) as draft:
    (draft / "done").write_text("new")
    if where == "draft":
        wait()
    os.rename = wait
"""
FILE = """
import os, sys, time
from drfh.files.atomic import write_whole
os.fsync = lambda file: (print("ready", flush=True), time.sleep(60))
write_whole(sys.argv[1], b"new")
"""


def started(code: str, *words: str) -> subprocess.Popen[str]:
    """Return a process that is half-way through writing."""
    child = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


def stopped(child: subprocess.Popen[str], number: signal.Signals) -> None:
    child.send_signal(number)
    assert child.wait(30) == -number
    assert child.stdout is not None
    child.stdout.close()


def old_run(folder: Path) -> Path:
    run = folder / "run"
    run.mkdir()
    (run / "done").write_text("old")
    return run


@pytest.mark.parametrize("where", ["draft", "between"])
def test_sigterm_leaves_the_directory_that_was(tmp_path: Path, where: str) -> None:
    run = old_run(tmp_path)
    stopped(started(HALF_WAY, str(run), where), signal.SIGTERM)
    assert os.listdir(tmp_path) == ["run"]
    assert (run / "done").read_text() == "old"


def test_sigterm_leaves_no_file(tmp_path: Path) -> None:
    stopped(started(FILE, str(tmp_path / "a.json")), signal.SIGTERM)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("where", ["draft", "between"])
def test_a_later_run_clears_what_a_kill_left(tmp_path: Path, where: str) -> None:
    run = old_run(tmp_path)
    for number in range(2):
        stopped(started(HALF_WAY, str(run), where), signal.SIGKILL)
        assert len(os.listdir(tmp_path)) > 1
        write_whole(tmp_path / "a.json", b"{}")
        assert sorted(os.listdir(tmp_path)) == ["a.json", "run"], number
        assert (run / "done").read_text() == "old"


def test_a_later_run_clears_a_file(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 240)  # as long as names get
    stopped(started(FILE, str(path)), signal.SIGKILL)
    (left,) = os.listdir(tmp_path)
    assert left.endswith(".tmp")
    with whole_directory(tmp_path / "run", "done") as draft:
        (draft / "done").write_text("")
    assert os.listdir(tmp_path) == ["run"]


@pytest.mark.parametrize("where", ["draft", "between"])
def test_what_a_live_process_writes_stays(tmp_path: Path, where: str) -> None:
    child = started(HALF_WAY, str(old_run(tmp_path)), where)
    before = set(os.listdir(tmp_path))
    write_whole(tmp_path / "a.json", b"{}")
    assert set(os.listdir(tmp_path)) == before | {"a.json"}
    stopped(child, signal.SIGTERM)
    assert sorted(os.listdir(tmp_path)) == ["a.json", "run"]


def test_other_hidden_files_stay(tmp_path: Path) -> None:
    names = {".drfh.tmp", ".run.tmp", "run.drfh-0123456789abcdef.tmp", ".x.drfh-0123.tmp"}
    for name in names:
        (tmp_path / name).touch()
    write_whole(tmp_path / "a.json", b"{}")
    assert set(os.listdir(tmp_path)) == names | {"a.json"}


def test_a_link_that_looks_like_a_draft_is_not_followed(tmp_path: Path) -> None:
    run = old_run(tmp_path)
    (tmp_path / ".run.drfh-0123456789abcdef.tmp").symlink_to(run)
    write_whole(tmp_path / "a.json", b"{}")
    assert (run / "done").read_text() == "old"


def test_a_draft_that_was_taken_for_a_left_one_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = Draft(str(tmp_path), str(tmp_path / "run"))
    hold, times = Draft._hold, []

    def late(self: Draft, path: str) -> int | None:
        times.append(path)
        lock = hold(self, path)
        if len(times) == 1:
            os.rmdir(path)
        return lock

    monkeypatch.setattr(Draft, "_hold", late)
    draft.make(directory=True)
    assert os.path.isdir(draft.path)
    assert len(times) == 2
    draft.close()
    assert os.listdir(tmp_path) == []


def test_the_handler_of_the_caller_stays(tmp_path: Path) -> None:
    received: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
    try:
        with whole_directory(tmp_path / "run", "done") as draft:
            signal.raise_signal(signal.SIGTERM)
            (draft / "done").write_text("")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert received == [signal.SIGTERM]
    assert os.listdir(tmp_path) == ["run"]
