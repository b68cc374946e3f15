"""``drfh slurm replay`` the way a user runs it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from drfh.cli import main
from drfh.cli.slurm.inspect import replay
from drfh.engines.cache import SchedulerCache
from drfh.engines.journal.writer import JournalWriter
from drfh.engines.snapshot import ClusterSnapshot, NodeSnapshot, TaskSnapshot
from drfh.errors import InputError
from tests.support.outputs import check_output

ROOM = {"n0": NodeSnapshot({"cpu": 4.0, "memory": 8.0}, {"cpu": 4.0, "memory": 8.0})}


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Ann has four tasks and bob one, each 2 CPUs for 10 s on a node of 4."""
    path = tmp_path / "cluster.journal"
    tasks = {str(i): TaskSnapshot("ann", {"cpu": 2.0}, (i,)) for i in range(1, 5)}
    tasks["5"] = TaskSnapshot("bob", {"cpu": 2.0}, (5,))
    cache = SchedulerCache("best-fit-drfh")
    with JournalWriter(
        path, {"policy": "best-fit-drfh", "engine": "slurm", "started": 1.8e9}
    ) as writer:
        for time in range(0, 40, 10):
            tasks = {name: task for name, task in tasks.items() if task.on is None}
            snapshot = ClusterSnapshot(ROOM, tasks)
            cache.follow(snapshot)
            placed = cache.place()
            writer.write(time, snapshot, placed)
            tasks = dict(tasks)
            for one in placed:
                tasks[one.task] = replace(tasks[one.task], on=one.server)
    return path


def run(*arguments: object) -> Result:
    app = typer.Typer()
    app.command()(replay)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_it_says_whether_it_is_the_same_and_compares(journal: Path) -> None:
    result = run(journal, "--policy", "fifo,slots:2", "--policy", "best-fit-drfh")
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert lines[0].endswith("cluster.journal: slurm, best-fit-drfh, 4 looks in 30 s")
    assert lines[1] == "reproduced: all 5 placements of best-fit-drfh, at 4 looks"
    assert "observed 5 5 5 8 s 18 s 30 s 80.6 % 0.0 %" in lines
    assert "fifo 5 5 2 8 s 18 s 30 s 80.6 % 0.0 %" in lines
    assert "bob 0 s 0 s 20 s 0 s" in lines
    assert "user observed best-fit-drfh fifo slots:2" in lines


def test_json(journal: Path, tmp_path: Path) -> None:
    result = run(journal, "--policy", "fifo", "--json", "-o", tmp_path / "runs")
    data = check_output("slurm-replay", result.output)
    assert data["replay"]["same"] is True
    assert data["journal"]["seconds"] == 30.0
    assert [row["run"] for row in data["runs"]] == ["observed", "best-fit-drfh", "fifo"]
    assert [row["mean_waiting"] for row in data["runs"]] == [8.0, 8.0, 8.0]
    assert [row["as_recorded"] for row in data["runs"]] == [5, 5, 2]
    assert [row["directory"] for row in data["runs"]] == [
        None, str(tmp_path / "runs" / "best-fit-drfh"), str(tmp_path / "runs" / "fifo")
    ]  # fmt: skip
    assert data["remarks"] == []
    # A page can show them.
    assert main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "page.html")]) == 0
    again = run(journal, "--policy", "fifo", "-o", tmp_path / "runs")
    assert isinstance(again.exception, InputError)
    assert "--output must be new (or be replaced with --force)" in str(again.exception)
    assert run(journal, "--policy", "fifo", "-o", tmp_path / "runs", "--force").exit_code == 0


def test_a_difference_ends_with_code_3(journal: Path) -> None:
    text = journal.read_text()
    journal.write_text(text.replace('"policy":"best-fit-drfh"', '"policy":"fifo"'))
    result = run(journal)
    assert result.exit_code == 3
    assert "not reproduced: 4 of 5 placements of fifo are the same; first" in result.output
    assert "at 0 s (line 2): recorded 5 on n0, replayed 2 on n0" in result.output


def test_only_watched(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with JournalWriter(
        path, {"policy": "fifo", "engine": "slurm", "started": 0, "controls": False}
    ) as writer:
        writer.write(0.0, ClusterSnapshot(ROOM, {"1": TaskSnapshot("ann", {"cpu": 2.0}, (1,))}))
        writer.write(
            4.0, ClusterSnapshot(ROOM, {"1": TaskSnapshot("ann", {"cpu": 2.0}, (1,), on="n0")})
        )
    result = run(path)
    assert result.exit_code == 0
    assert "drfh only watched (2 looks): there are no placements of its own" in result.output
    assert "1 task still running at the end, without a limit: taken to never end" in result.output


def test_mistakes(journal: Path, tmp_path: Path) -> None:
    for arguments, says in (
        ((tmp_path / "none",), "none: the journal must be readable (No such file or directory)"),
        ((journal, "--policy", "slots"), "policy must be one of best-fit-drfh"),
        ((journal, "--policy", ","), "--policy must name at least one policy, got ','"),
        ((journal, "--force"), "--force must be used together with --output"),
        ((journal, "--policy", "max-min:gpus"), "resource of max-min must be one of cpu, memory"),
    ):
        error = run(*arguments).exception
        assert isinstance(error, InputError)
        assert says in str(error)
