"""Recording the journal of a cluster of any engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from drfh.engines.engine import EngineError
from drfh.engines.journal.reader import read_journal
from drfh.engines.journal.writer import JournalWriter
from drfh.engines.recorder import Recorder
from drfh.engines.snapshot import ClusterSnapshot, NodeSnapshot, TaskSnapshot


def test_what_any_engine_reads_is_in_the_journal_and_a_failure_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0})
    task = TaskSnapshot("ann", {"cpu": 1.0}, (7, 0))
    answers: list[EngineError | ClusterSnapshot] = [EngineError("the cluster is away")]
    answers.append(ClusterSnapshot({"n0": node}, {"7": task}))

    def read() -> ClusterSnapshot:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, EngineError):
            raise answer
        return answer

    header = {"policy": "fifo", "engine": "slurm", "started": 0, "controls": False}
    with JournalWriter(tmp_path / "log", header) as writer:
        recorder = Recorder(read, [writer])
        recorder.run(interval=0.01, duration=0.1)
    assert recorder.snapshots >= 1
    assert recorder.jobs == {"7"}
    assert "state not read failures=1 error=the cluster is away" in caplog.text
    steps = list(read_journal(tmp_path / "log").steps())
    assert dict(steps[0].entry.snapshot.tasks) == {"7": task}
