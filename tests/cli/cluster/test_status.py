"""The verbs on live clusters and the live view work for an engine that is not Slurm."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from drfh.cli.cluster.replay import replay_journal
from drfh.cli.cluster.status import audit_cluster, print_job_explanation, show_status
from drfh.engines.journal.writer import JournalWriter
from drfh.web.live.store import LiveStore
from tests.cli.cluster.pods import TASKS, PodEngine


def test_status_of_any_engine(capsys: pytest.CaptureFixture[str]) -> None:
    show_status(PodEngine)
    text = capsys.readouterr().out
    assert "2 jobs run, 1 waits" in text
    assert "no controller runs" in text
    assert "aside: 1 job: needs a volume\n" in text
    assert "not drfh's: 1 job that waits: it names another scheduler" in text
    show_status(PodEngine, as_json=True)
    data = json.loads(capsys.readouterr().out)
    assert data["cluster"] == "a cluster of pods"
    assert [(user["name"], user["starting"], user["aside"]) for user in data["users"]] == [
        ("ann", 0, {}),
        ("bob", 1, {"needs a volume": 1}),
    ]


@pytest.mark.parametrize(
    ("job", "text"),
    [
        ("ann/a-0", "job ann/a-0 of ann runs on n0."),
        (" ann/a-1", "job ann/a-1 of ann can start when its turn comes: 1 server has room."),
        ("bob/b-0", "job bob/b-0 of bob is released to n1, Pods starts it."),
        ("bob/b-1", "job bob/b-1 of bob needs a volume, and drfh cannot judge that."),
        ("x", "job x is not in Pods's queue: it has ended, or there was never one."),
    ],
)
def test_why_of_any_engine(job: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_job_explanation(PodEngine(), job)
    assert capsys.readouterr().out == f"{text}\n"
    print_job_explanation(PodEngine(), job, as_json=True)
    data = json.loads(capsys.readouterr().out)
    assert (data["text"], data["pods"]) == (text, "")


def test_audit_of_any_engine(capsys: pytest.CaptureFixture[str]) -> None:
    audit_cluster(PodEngine, only="feasible", as_json=True)
    data = json.loads(capsys.readouterr().out)
    assert data["trace"]["format"] == "pods"
    assert data["trace"]["options"] == {"user_by": "namespace"}
    assert [finding["property"] for finding in data["findings"]] == ["feasible"]


def test_live_view_of_any_engine() -> None:
    store = LiveStore("pods")
    cluster = PodEngine().observe()
    store.observe(cluster)
    assert store.request_explanation(" bob/b-1 ") == "bob/b-1"
    ended = {name: task for name, task in TASKS.items() if name != "ann/a-0"}
    cluster = replace(cluster, time=1e9 + 1, snapshot=replace(cluster.snapshot, tasks=ended))
    cluster.cache.follow(cluster.snapshot)
    store.observe(cluster)
    view = store.view()
    assert "job ann/a-0 of ann on n0" in [event.text for event in view.events]
    assert view.explanations["bob/b-1"].text.startswith("job bob/b-1 of bob needs a volume")


def test_a_journal_of_any_engine_is_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = PodEngine().observe()
    header = {"policy": "best-fit-drfh", "engine": "pods", "started": 1e9}
    with JournalWriter(tmp_path / "log", header) as writer:
        writer.write(0.0, cluster.snapshot, cluster.cache.place())
    replay_journal(tmp_path / "log", as_json=True)
    data = json.loads(capsys.readouterr().out)
    assert (data["journal"]["engine"], data["replay"]["same"]) == ("pods", True)
