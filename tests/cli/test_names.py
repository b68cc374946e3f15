"""Names with control characters: shown escaped, kept exactly."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import drfh
from drfh.cli import main
from drfh.errors import InputError
from drfh.files.scenario_file import save_scenario
from drfh.formatting import escaped
from tests.support.paths import ROOT

# A line of its own, colours, the screen cleared, text turned around, nothing to see.
USER = "ann\nnote: all is fair\x1b[31m"
OTHER = "b\u202eo\u2066b\u200b\u061c\x9b2J\x7f"
GROUP = "node\x1b]0;title\x07\rx"
ACTS = {*map(chr, range(32)), *map(chr, range(127, 160)), *"\u202e\u2066\u200b\u061c\u200e\u2028"}


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    cluster = drfh.Cluster(
        [
            drfh.Server({"cpu": 4, "memory": 8}, name=GROUP, count=2),
            drfh.Server({"cpu": 1, "memory": 8}, name="plain"),
        ]
    )
    users = (drfh.User(USER, {"cpu": 1, "memory": 1}), drfh.User(OTHER, {"cpu": 1, "memory": 3}))
    jobs = tuple(drfh.Job(name, duration=5, tasks=3, name=f"of {name}") for name in (USER, OTHER))
    path = tmp_path / "team.json"
    save_scenario(drfh.Scenario(cluster, users, title=USER, jobs=jobs), path)
    return str(path)


VERBS = (
    ["allocate"],
    ["allocate", "--placement"],
    ["allocate", "--whole-tasks"],
    ["allocate", "--explain", OTHER],
    ["allocate", "--weight", f"{OTHER}=2"],
    ["compare", "--mechanisms", "drfh,drf,per-server-drf"],
    ["audit", "--only", "envy,sharing"],
    ["simulate"],
    ["scenario", "check"],
)


@pytest.mark.parametrize("words", VERBS, ids=lambda words: " ".join(words[:2]))
def test_shown_escaped(scenario: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    verb = [*words[:2], scenario] if words[0] == "scenario" else [words[0], scenario, *words[1:]]
    assert main(verb) == 0
    shown = "".join(capsys.readouterr())
    assert escaped(OTHER) in shown or escaped(USER) in shown
    assert not (ACTS - {"\n"}) & set(shown)
    assert not any(line.startswith("note: all is fair") for line in shown.splitlines())


def test_json_and_files_keep_them(
    scenario: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "out.csv"
    assert main(["allocate", scenario, "--json", "--save", str(saved)]) == 0
    shown = capsys.readouterr().out
    assert not (ACTS - {"\n"}) & set(shown)
    assert [row["user"] for row in json.loads(shown)["users"]] == [USER, OTHER]
    with saved.open(newline="") as file:
        assert [row["user"] for row in csv.DictReader(file)] == [USER, OTHER]
    assert main(["allocate", scenario, "--csv"]) == 0
    rows = csv.DictReader(io.StringIO(capsys.readouterr().out, newline=""))
    assert [row["user"] for row in rows] == [USER, OTHER]


def test_csv_on_a_terminal(scenario: str) -> None:
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-m", "drfh", "allocate", scenario, "--csv"],
        stdout=theirs,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=True,
    )
    shown = os.read(ours, 10_000).decode()
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 0
    assert escaped(OTHER) in shown
    assert not (ACTS - {"\r", "\n"}) & set(shown)


@pytest.mark.parametrize(
    "words", [["--explain", "nobody"], ["--weight", f"{OTHER}=x"], ["--remove", f"{GROUP}:9"]]
)
def test_errors(scenario: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["allocate", scenario, *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert not ACTS & set(line)


def test_errors_in_python() -> None:
    with pytest.raises(InputError) as caught:
        drfh.Cluster([drfh.Server({"cpu": 1}, name=GROUP)] * 2)
    assert not ACTS & set(str(caught.value))
