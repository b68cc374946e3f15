"""The controller as a service, against a Slurm in memory: observers, logs, failures."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drfh.engines import metrics as metrics_module
from drfh.engines.cache import SchedulerCache
from drfh.engines.journal.reader import read_journal
from drfh.engines.journal.writer import JournalWriter
from drfh.engines.metrics import Metrics, MetricsObserver
from drfh.engines.observer import Cycle, CycleFailure, CycleWriter, Decision, Observer
from drfh.engines.service import Service
from drfh.engines.slurm.client import SlurmError
from drfh.engines.slurm.config import SlurmConfig
from drfh.engines.slurm.controller import SlurmController, SlurmCycle
from drfh.engines.status import status_of
from tests.engines.slurm.model import ModelSlurm

SIZES = {"n0": (4, 8000), "n1": (8, 4000)}


class Flaky(ModelSlurm):
    """A Slurm whose next answers are errors."""

    def __init__(self) -> None:
        super().__init__(SIZES)
        self.errors: list[Exception] = []

    def nodes(self) -> list[Any]:
        if self.errors:
            raise self.errors.pop(0)
        return super().nodes()


class EventList(Observer):
    """Keeps all events, in order."""

    def __init__(self) -> None:
        self.events: list[object] = []

    def on_decision(self, decision: Decision) -> None:
        self.events.append(decision)

    def on_cycle(self, cycle: Cycle) -> None:
        self.events.append(cycle)

    def on_failure(self, failure: CycleFailure) -> None:
        self.events.append(failure)


class Failing(Observer):
    """Fails at every event but a decision."""

    def on_cycle(self, cycle: Cycle) -> None:
        raise ZeroDivisionError

    def on_failure(self, failure: CycleFailure) -> None:
        raise ZeroDivisionError

    def on_command(self, command: str, seconds: float, succeeded: bool) -> None:
        raise ZeroDivisionError


@pytest.fixture
def slurm() -> Flaky:
    return Flaky()


@pytest.fixture(autouse=True)
def everything_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.INFO, "drfh"):
        yield


def service(slurm: ModelSlurm, *observers: Observer) -> Service:
    controller = SlurmController(
        slurm, SlurmConfig(), SchedulerCache(), clock=lambda: slurm.now, observers=observers
    )
    return Service(controller, interval=0.001)


def test_observers_get_decisions_cycles_and_failures(slurm: Flaky) -> None:
    slurm.submit("ann", 1, 100)
    listener = EventList()
    ours = service(slurm, listener)
    ours.run(1)
    slurm.errors = [SlurmError("squeue: no answer"), KeyError("x")]
    ours.run(4)
    decision, cycle, engine, internal, *_, last = listener.events
    assert isinstance(decision, Decision)
    assert [one.task for one in decision.placed or ()] == ["1"]
    assert (decision.time, decision.limit) == (slurm.now, 200)
    assert isinstance(cycle, Cycle)
    assert (cycle.released, cycle.pending) == (["1"], {"1": "n1"})
    assert isinstance(engine, CycleFailure)
    assert (engine.text, engine.count, engine.internal) == ("squeue: no answer", 1, False)
    assert (engine.kind, str(engine.error)) == ("SlurmError", "squeue: no answer")
    assert isinstance(internal, CycleFailure)
    assert internal.text == "this round was given up (KeyError: 'x')"
    assert (internal.count, internal.internal, internal.kind) == (2, True, "KeyError")
    assert isinstance(last, Cycle)
    assert last.fresh  # all that was known before the error is forgotten
    assert ours.failures == 0


def test_what_happens_is_logged(slurm: Flaky, caplog: pytest.LogCaptureFixture) -> None:
    slurm.submit("ann", 1, 100)
    slurm.submit("bob", 1, 100)
    slurm.submit("bob", 99, 100)
    slurm.errors = [SlurmError("squeue: no answer")]
    slurm.fails = {2}
    service(slurm).run(2)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "cycle aborted failures=1 kind=SlurmError error=squeue: no answer"),
        ("INFO", "cycles resumed failures=1"),
        ("WARNING", "change refused job=2 error=refused"),
        ("INFO", "jobs placed count=2 waiting=1 users=ann:1,bob:1"),
    ]


def test_at_level_debug_every_step_of_a_cycle_is_counted(
    slurm: Flaky, caplog: pytest.LogCaptureFixture
) -> None:
    slurm.submit("ann", 1, 100)
    with caplog.at_level(logging.DEBUG, "drfh"):
        service(slurm).run(2)
    found = [f"{record.name.removeprefix('drfh.engines.')}: {record.getMessage()}"
             for record in caplog.records if record.levelname == "DEBUG"]  # fmt: skip
    assert found[:3] == [
        "slurm.reconcile: state reconciled nodes=2 jobs=1 running=0 blocked=0 released=0 broken=0",
        "cache: scheduler rebuilt nodes=2 tasks=1 starts=1",
        "slurm.controller: cycle carried out nodes=2 jobs=1 tasks=1 placed=1 released=1 recalled=0 "
        "held=0 deferred=0 undeferred=0 unmanaged=0 annotated=0 refused=0",
    ]
    assert found[3].startswith("service: cycle finished seconds=0.")
    assert "cache: snapshot followed tasks=1 new=0 ended=0" in found


def test_an_observer_that_fails_stops_neither_the_controller_nor_others(
    slurm: Flaky, caplog: pytest.LogCaptureFixture
) -> None:
    name = slurm.submit("ann", 1, 100)
    listener = EventList()
    slurm.errors = [SlurmError("squeue: no answer")]
    service(slurm, Failing(), listener).run(2)
    assert [type(event) for event in listener.events] == [CycleFailure, Decision, SlurmCycle]
    assert slurm.table[name]["priority"] > 0
    logged = [message for message in caplog.messages if message.startswith("observer failed")]
    assert logged == ["observer failed observer=Failing error=ZeroDivisionError()"] * 2


def test_a_decision_that_an_observer_refuses_is_not_carried_out(slurm: Flaky) -> None:
    class Refusing(Observer):
        def on_decision(self, decision: Decision) -> None:
            raise ZeroDivisionError

    name = slurm.submit("ann", 1, 100)
    ours = service(slurm, Refusing())
    ours.run(2)
    assert ours.failures == 2
    assert slurm.table[name]["priority"] == 0


def test_a_full_disk_leaves_a_gap_in_the_journal_and_stops_nothing(
    slurm: Flaky, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "log"
    with JournalWriter(
        log, {"policy": "best-fit-drfh", "engine": "slurm", "started": slurm.now}
    ) as writer:
        ours = service(slurm, writer)
        ours.run(1)
        with monkeypatch.context() as full:

            def write(fd: int, data: bytes) -> int:
                raise OSError(28, "No space left on device")

            full.setattr(os, "write", write)
            first = slurm.submit("ann", 1, 100)
            ours.run(2)
            slurm.submit("ann", 1, 100)
            ours.run(3)
        assert slurm.table[first]["priority"] > 0
        errors = [record for record in caplog.records if record.levelname == "ERROR"]
        [message] = [record.getMessage() for record in errors]  # once
        assert message.startswith("journal has a gap error=")
        assert message.endswith("No space left on device")
        third = slurm.submit("ann", 1, 100)
        ours.run(4)
    *_, last = read_journal(log)
    assert [task for task, _ in last.placed or ()] == [third]


def test_cycles_are_written_as_plain_data(slurm: Flaky) -> None:
    written: list[dict[str, Any]] = []
    slurm.submit("ann", 1, 100)
    service(slurm, CycleWriter(written.append)).run(3)
    [cycle] = written  # those in which nothing happened are not
    assert (cycle["placed"], cycle["released"]) == ([["1", "ann", "n1"]], ["1"])


# The exact allocation for the metrics


def value(metrics: Metrics, sample: str) -> float | None:
    for line in metrics.render().splitlines():
        name, _, number = line.rpartition(" ")
        if name == sample:
            return float(number)
    return None


def wait_for(metrics: Metrics, sample: str, expected: float) -> None:
    end = time.monotonic() + 60
    while value(metrics, sample) != expected:
        assert time.monotonic() < end, metrics.render()
        time.sleep(0.01)


def test_metrics_follow_the_controller(slurm: Flaky) -> None:
    metrics = Metrics()
    slurm.submit("ann", 4, 100)
    with MetricsObserver(metrics, "1.0", "best-fit-drfh") as observer:
        ours = service(slurm, observer)
        slurm.errors = [KeyError("x")]
        ours.run(2)
        wait_for(metrics, 'drfh_user_fair_share{user="ann"}', 1 / 3)
    assert value(metrics, "drfh_placements_total") == 1
    assert value(metrics, "drfh_releases_total") == 1
    assert value(metrics, "drfh_cycle_seconds_count") == 1
    assert value(metrics, 'drfh_errors_total{command="drfh"}') == 1
    # What was placed in the cycle counts as started.
    assert value(metrics, 'drfh_user_dominant_share{user="ann"}') == pytest.approx(1 / 3)
    assert value(metrics, 'drfh_tasks{state="running",user="ann"}') == 1
    assert value(metrics, 'drfh_used{resource="cpu"}') == 4
    assert time.time() - (value(metrics, "drfh_last_cycle_timestamp_seconds") or 0) < 60


def test_recalled_jobs_are_counted_by_the_code_of_the_reason(slurm: Flaky) -> None:
    metrics = Metrics()
    name = slurm.submit("ann", 1, 100)
    with MetricsObserver(metrics, "1.0", "best-fit-drfh") as observer:
        ours = service(slurm, observer)
        ours.run(1)
        slurm.table[name]["state_reason"] = "ReqNodeNotAvail"
        ours.run(2)
    assert value(metrics, 'drfh_take_backs_total{reason="not-started"}') == 1


def test_a_solve_that_takes_for_ever_delays_no_cycle(
    slurm: Flaky, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, over = threading.Event(), threading.Event()
    threads: set[int] = set()
    solve = status_of

    def slow(cluster: Any) -> Any:
        threads.add(threading.get_ident())
        begun.set()
        over.wait(60)
        return solve(cluster)

    monkeypatch.setattr(metrics_module, "status_of", slow)
    metrics = Metrics()
    with MetricsObserver(metrics, "1.0", "best-fit-drfh") as observer:
        ours = service(slurm, observer)
        ours.run(1)
        assert begun.wait(60)
        names = []
        for count in range(2, 12):
            names.append(slurm.submit("ann", 1, 100))
            ours.run(count)
        assert value(metrics, "drfh_cycle_seconds_count") == 11
        assert value(metrics, "drfh_placements_total") == 10
        assert value(metrics, 'drfh_user_weight{user="ann"}') is None  # it still solves
        assert all(slurm.table[name]["priority"] > 0 for name in names)
        over.set()
    assert threading.get_ident() not in threads


def test_a_solve_that_fails_delays_no_cycle_and_is_logged(
    slurm: Flaky, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(cluster: Any) -> Any:
        raise ZeroDivisionError("division by zero")

    solve = status_of
    monkeypatch.setattr(metrics_module, "status_of", broken)
    monkeypatch.setattr(metrics_module, "_STATUS_SECONDS", 0.0)
    metrics = Metrics()
    slurm.submit("ann", 4, 100)
    with MetricsObserver(metrics, "1.0", "best-fit-drfh") as observer:
        ours = service(slurm, observer)
        ours.run(3)
        end = time.monotonic() + 60
        while "background work failed" not in caplog.text:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert ours.failures == 0
        assert value(metrics, "drfh_cycle_seconds_count") == 3
        monkeypatch.setattr(metrics_module, "status_of", solve)
        ours.run(4)
        wait_for(metrics, 'drfh_user_fair_share{user="ann"}', 1 / 3)
