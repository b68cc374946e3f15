"""Journals and run directories that version 0.1.0 wrote are read, and mean the same.

`data/old/slurm.journal` was written by its controller on a model of Slurm: two controllers one
after the other, with held, dependent, requeued and refused jobs, an array, a node that drained
and new weights. `slurm-replay.json` is what its ``drfh slurm replay slurm.journal --policy fifo
--json`` printed, and `run` what its ``drfh simulate gpu-day -o run`` left behind.
"""

import json
from pathlib import Path

from typer.testing import CliRunner

import drfh
from drfh.cli import app
from drfh.engines.journal.reader import read_journal

OLD = Path(__file__).parent / "data" / "old"


def test_an_old_journal_replays_to_the_same_numbers() -> None:
    words = ["slurm", "replay", str(OLD / "slurm.journal"), "--policy", "fifo", "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    del found["journal"]["path"]
    assert found.pop("version") == 1
    assert found == json.loads((OLD / "slurm-replay.json").read_text())


def test_an_old_journal_has_its_entries() -> None:
    journal = read_journal(OLD / "slurm.journal")
    assert [header.version for header in journal.headers] == ["0.1.0", "0.1.0"]
    first, *_, last = journal
    assert (first.t, len(first.snapshot.tasks), len(first.placed or ())) == (0.0, 14, 11)
    assert tuple(first.snapshot.servers) == ("n0", "n1", "g0")
    assert (last.t, dict(last.snapshot.weights)) == (35.5, {"bob": 2.0, "eve": 0.5})


def test_an_old_run_is_read_and_reported(tmp_path: Path) -> None:
    old = drfh.Result.load(OLD / "run")
    assert old.numbers["tasks"]["completed"] == 432
    assert old.numbers["mean_waiting"] == 12775 / 3
    assert (old.jobs.height, old.users.height, old.config["policy"]) == (9, 5, "best-fit-drfh")
    page = tmp_path / "page.html"
    done = CliRunner().invoke(app, ["report", str(OLD / "run"), "-o", str(page)])
    assert done.exit_code == 0, done.output
    assert "research" in page.read_text()


def test_simulating_again_gives_the_numbers_of_an_old_run(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["simulate", "gpu-day", "-o", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    old, new = drfh.Result.load(OLD / "run"), drfh.Result.load(tmp_path / "run")
    assert {**new.numbers, "seconds": None} == {**old.numbers, "seconds": None}
    assert new.jobs.equals(old.jobs)
    assert new.users.equals(old.users)
