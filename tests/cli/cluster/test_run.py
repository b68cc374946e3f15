"""The controller, its service loop and the recorder work for an engine that is not Slurm."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from drfh.cli.cluster.replay import replay_journal
from drfh.cli.cluster.run import RunOptions, record_journal, run_controller
from drfh.engines.cache import SchedulerCache
from drfh.engines.engine import EngineError
from drfh.engines.journal.reader import read_journal
from drfh.engines.lock import ControllerLock
from drfh.engines.observer import Cycle, Observer
from drfh.engines.service import Service
from tests.cli.cluster.pods import NODES, TASKS, PodController, PodEngine
from tests.support.outputs import check_output

FACTS = {"policy": "best-fit-drfh", "user_by": "namespace"}


def run_pods(
    directory: Path, controller: type[PodController] = PodController, **options: object
) -> PodController:
    made: list[PodController] = []

    def start(cache: SchedulerCache, observers: Sequence[Observer]) -> PodController:
        made.append(controller(cache, observers))
        return made[0]

    run_controller(
        PodEngine(),
        ControllerLock(directory / "lock"),
        FACTS,
        start,
        RunOptions(interval=0.001, **{"cycles": 2, **options}),  # type: ignore[arg-type]
        scope="all namespaces",
        farewell="pods that wait stay gated",
    )
    return made[0]


def test_a_controller_of_any_engine_places_and_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    controller = run_pods(tmp_path, as_json=True)
    assert controller.tasks["ann/a-1"].on == "n1"
    lines = capsys.readouterr().out.splitlines()
    first, cycle, last = (check_output("slurm-run", line) for line in lines)
    assert first["says"] == "best-fit-drfh places jobs by namespace, in all namespaces"
    assert cycle["placed"] == [["ann/a-1", "ann", "n1"]]
    assert last["says"] == "stopped; pods that wait stay gated"


def test_its_journal_is_replayed_and_continued(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "journal"
    for _ in range(2):
        run_pods(tmp_path, journal=log)
    first, header = read_journal(log).headers
    assert first.engine == "pods"
    assert (header.engine, header.controls) == ("pods", True)
    assert header.facts == {"user_by": "namespace"}
    capsys.readouterr()
    replay_journal(log, as_json=True)
    data = json.loads(capsys.readouterr().out)
    assert (data["journal"]["engine"], data["replay"]["same"]) == ("pods", True)


def test_its_metrics_and_the_facts_of_its_lock_are_there_while_it_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages, facts = [], []

    class ScrapedController(PodController):
        def cycle(self) -> Cycle:
            found = ControllerLock.read(tmp_path / "lock")
            facts.append({key: (found or {}).get(key) for key in FACTS})
            text = capsys.readouterr().out
            if text:
                self.url = text.split()[-1] if len(text.splitlines()) == 1 else text.split()[2]
            with urllib.request.urlopen(self.url) as page:
                pages.append(page.read().decode())
            return super().cycle()

    run_pods(tmp_path, ScrapedController, metrics_port=0)
    assert facts == [FACTS] * 2
    assert "\ndrfh_placements_total 1.0\n" in pages[1]
    assert ControllerLock.read(tmp_path / "lock") is None


def test_weights_that_change_are_used(tmp_path: Path) -> None:
    file = tmp_path / "weights.yaml"
    file.write_text("ann: 2\n")
    found = []

    class ChangedController(PodController):
        def cycle(self) -> Cycle:
            file.write_text("ann: 3\n")
            os.utime(file, ns=(0, 1))
            found.append(dict(self.weights))
            facts.append((ControllerLock.read(tmp_path / "lock") or {}).get("weights"))
            return super().cycle()

    facts: list[object] = []
    run_pods(tmp_path, ChangedController, weights=file)
    assert found == [{"bob": 2.0}, {"ann": 3.0}]
    assert facts == [None, {"ann": 3.0}]


def test_the_loop_of_any_engine_goes_on_after_failures(caplog: pytest.LogCaptureFixture) -> None:
    errors = [EngineError("the API is away"), KeyError("x")]
    controller = PodController(SchedulerCache("best-fit-drfh"), [], errors)
    service = Service(controller, interval=0.001)
    with caplog.at_level(logging.INFO, "drfh"):
        service.run(4)
    assert controller.forgotten == 1  # after an error that is not the engine's
    assert service.failures == 0
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "cycle aborted failures=1 kind=EngineError error=the API is away"),
        ("WARNING", "cycle aborted failures=2 kind=KeyError error='x'"),
        ("INFO", "cycles resumed failures=2"),
        ("WARNING", "entry skipped error=pod eve/e-1: no requests"),  # once
        ("INFO", "jobs placed count=1 waiting=0 users=ann:1"),
    ]


@pytest.mark.parametrize("as_json", [False, True])
def test_a_cluster_of_any_engine_is_recorded(
    as_json: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "journal"
    record_journal(PodEngine(), log, interval=0.001, duration=0.02, as_json=as_json)
    text = capsys.readouterr().out
    if as_json:
        data = json.loads(text)
        assert (data["log"], data["jobs"]) == (str(log), 4)
    else:
        assert text.endswith(" looks, 4 jobs\n")
    journal = read_journal(log)
    [header] = journal.headers
    assert (header.engine, header.controls) == ("pods", False)
    assert header.facts == {"user_by": "namespace"}
    [entry] = journal  # nothing has changed since
    assert dict(entry.snapshot.servers) == NODES
    recorded = dict(entry.snapshot.tasks)
    assert str(recorded["bob/b-1"].blocked) == str(TASKS["bob/b-1"].blocked)
    blocked = {"bob/b-1": replace(recorded["bob/b-1"], blocked=TASKS["bob/b-1"].blocked)}
    assert recorded | blocked == TASKS


def test_nothing_of_slurm_is_loaded_for_another_engine(tmp_path: Path) -> None:
    code = (
        "import sys, drfh.cli.cluster.replay, drfh.cli.cluster.render, drfh.cli.cluster.web; "
        "from pathlib import Path; "
        "from drfh.web.live import publisher, store; "
        "from drfh.cli.cluster.status import show_status; "
        "from drfh.cli.cluster.run import record_journal; "
        "from tests.cli.cluster.pods import PodEngine; "
        "from tests.cli.cluster.test_run import run_pods; "
        "show_status(PodEngine); folder = Path(sys.argv[1]); run_pods(folder); "
        "record_journal(PodEngine(), folder / 'journal', duration=0.01); "
        "found = [name for name in sys.modules if name.startswith('drfh.engines.slurm')]; "
        "assert not found, found"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
