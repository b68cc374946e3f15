"""``drfh slurm run`` and ``record`` on commands that print what a file has: output and logs."""

from __future__ import annotations

import json
import os
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from drfh.cli import main
from tests.support.outputs import check_output

NODES = [
    {"name": "n0", "cpus": 4, "real_memory": 1024, "state": "idle", "partitions": ["main"]},
]


def fake(folder: Path, name: str, text: str, code: int = 0) -> None:
    (folder / f"{name}.txt").write_text(text)
    program = folder / name
    program.write_text(
        f'#!/bin/sh\n/bin/cat "{folder}/{name}.txt" >&$((1 + {code}))\nexit {code}\n'
    )
    program.chmod(0o755)


@pytest.fixture
def slurm_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with a Slurm that has one node and no jobs."""
    for name in list(os.environ):
        if name.startswith("DRFH_"):
            monkeypatch.delenv(name)
    folder = tmp_path / "slurm"
    (folder / "state").mkdir(parents=True)
    fake(folder, "scontrol", f"ClusterName = tiny\nStateSaveLocation = {folder / 'state'}\n")
    fake(folder, "sinfo", json.dumps({"nodes": NODES}))
    fake(folder, "squeue", json.dumps({"jobs": []}))
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return folder


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    def call(*arguments: object) -> tuple[int, str, str]:
        code = main(["slurm", *map(str, arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


CONTROLLER = ("run", "--hold-by", "controller", "--interval", "0.01", "--rounds", "2")


def test_start_and_end_are_printed_and_a_quiet_cluster_logs_nothing(
    run: Any, slurm_commands: Path
) -> None:
    code, out, err = run(*CONTROLLER)
    assert (code, err) == (0, "")
    first, last = out.splitlines()
    assert first[8:] == " best-fit-drfh places jobs by user, in all partitions"
    assert last[8:].startswith(" stopped; waiting jobs stay held")
    code, out, err = run(*CONTROLLER, "--json")
    assert (code, err) == (0, "")
    first, last = (check_output("slurm-run", line) for line in out.splitlines())
    assert first["says"] == "best-fit-drfh places jobs by user, in all partitions"
    assert first["started"] is True


def test_failures_are_logged_to_standard_error(run: Any, slurm_commands: Path) -> None:
    fake(slurm_commands, "squeue", "slurm_load_jobs error: Unable to contact\n", code=1)
    code, out, err = run(*CONTROLLER)
    assert code == 0
    assert "Unable to contact" not in out
    first, second = err.splitlines()
    assert first.endswith(
        " WARNING drfh.engines.service: cycle aborted failures=1 kind=SlurmError "
        'error="squeue: slurm_load_jobs error: Unable to contact"'
    )
    assert "failures=2" in second
    _, _, err = run(*CONTROLLER, "--log-level", "error")
    assert err == ""
    _, _, err = run(*CONTROLLER, "--log-format", "json")
    for number, line in enumerate(err.splitlines(), 1):
        record = json.loads(line)
        assert (record["level"], record["failures"]) == ("warning", number)
        assert record["logger"] == "drfh.engines.service"
        assert record["kind"] == "SlurmError"
        assert record["error"] == "squeue: slurm_load_jobs error: Unable to contact"


def test_at_level_debug_each_command_is_logged(run: Any, slurm_commands: Path) -> None:
    code, _, err = run(*CONTROLLER, "--log-level", "debug")
    assert code == 0
    [first, *_] = [line for line in err.splitlines() if 'command="sinfo --json"' in line]
    assert " DEBUG drfh.engines.slurm.client: command finished " in first
    assert first.endswith(" ok=True")


def test_a_recorder_logs_failures_too(run: Any, slurm_commands: Path, tmp_path: Path) -> None:
    fake(slurm_commands, "squeue", "slurm_load_jobs error: Unable to contact\n", code=1)
    log = tmp_path / "log"
    code, out, err = run("record", log, "--for", "0.01", "--json", "--log-format", "json")
    assert code == 0
    found = check_output("slurm-record", out)
    assert found == {"version": 1, "log": str(log), "looks": 0, "jobs": 0}
    record = json.loads(err.splitlines()[0])
    assert record["message"].startswith("state not read failures=1 error=squeue: ")


@pytest.mark.parametrize("verb", [CONTROLLER, ("record", "log"), ("demo",)])
@pytest.mark.parametrize(("option", "value"), [("--log-level", "loud"), ("--log-format", "xml")])
def test_unknown_log_options_are_refused_first(
    run: Any, slurm_commands: Path, verb: tuple[str, ...], option: str, value: str
) -> None:
    code, out, err = run(*verb, option, value)
    assert (code, out) == (2, "")
    assert f"{option} must be one of" in err


def test_log_options_come_from_the_environment_too(
    run: Any, slurm_commands: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake(slurm_commands, "squeue", "away\n", code=1)
    monkeypatch.setenv("DRFH_LOG_FORMAT", "json")
    _, _, err = run(*CONTROLLER)
    assert json.loads(err.splitlines()[0])["error"] == "squeue: away"


def test_weights_that_change_are_read_again(
    run: Any, slurm_commands: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "weights.yaml"
    file.write_text("ann: 2\n")
    texts = iter(["ann: 3\n", "ann: -1\n"])
    from drfh.engines.slurm.controller import SlurmController

    cycle = SlurmController.cycle
    weights = []

    def changed(self: SlurmController) -> Any:
        weights.append(dict(self.config.weights))
        file.write_text(next(texts, file.read_text()))
        os.utime(file, ns=(0, len(weights)))
        return cycle(self)

    monkeypatch.setattr(SlurmController, "cycle", changed)
    code, _, err = run(*CONTROLLER[:-1], "3", "--weights", file)
    assert code == 0
    assert weights == [{"ann": 2.0}, {"ann": 3.0}, {"ann": 3.0}]
    reloaded, kept = err.splitlines()
    assert reloaded.endswith(f" INFO drfh.engines.weights: weights reloaded file={file}")
    assert " WARNING drfh.engines.weights: weights kept error=" in kept


def test_metrics_are_served_while_it_runs(
    run: Any, slurm_commands: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from drfh.engines.slurm.controller import SlurmController

    cycle, pages = SlurmController.cycle, []

    def scraped(self: SlurmController) -> Any:
        with urllib.request.urlopen(urls[-1]) as page:
            pages.append(page.read().decode())
        return cycle(self)

    urls: list[str] = []
    from drfh.engines import metrics

    serve = metrics.serve

    def serve_noted(*given: Any) -> Any:
        server = serve(*given)
        urls.append(server.url)
        return server

    monkeypatch.setattr(metrics, "serve", serve_noted)
    monkeypatch.setattr(SlurmController, "cycle", scraped)
    code, out, _ = run(*CONTROLLER, "--metrics-port", "0", "--json")
    assert code == 0
    assert json.loads(out.splitlines()[0])["metrics"] == urls[0]
    assert "\ndrfh_cycle_seconds_count 0.0\n" in pages[0]
    assert "\ndrfh_cycle_seconds_count 1.0\n" in pages[1]
    assert 'drfh_command_seconds_count{command="squeue"} 1.0\n' in pages[1]


def test_what_is_given_back_follows_its_schema(run: Any, slurm_commands: Path) -> None:
    code, out, err = run("release-all", "--hold-by", "controller", "--json")
    assert (code, err) == (0, "")
    assert check_output("slurm-release-all", out)["released"] == []
