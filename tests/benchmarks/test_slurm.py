"""The benchmark on a real Slurm still runs, and its tables say what was measured."""

from __future__ import annotations

import json

import pytest
from benchmarks.slurm import Meters

from benchmarks import report, slurm
from drfh.engines.slurm.sandbox import missing


@pytest.mark.slow
def test_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    if missing():
        pytest.skip(f"a real Slurm {missing()} (make slurm)")
    slurm.main(["--quick", "--json"])
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["at_once"] > 0
    assert [len(row["rates"][who]) for who in (slurm.THEIRS, slurm.OURS)] == [1, 1]
    assert row["meters"]["count"]["pin"] == 30
    assert row["meters"]["count"]["release"] == 30


def test_tables_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    rates = {slurm.OURS: [30.0, 33.0, 36.0], slurm.THEIRS: [40.0, 44.0, 40.0]}
    used = {"controller": 0.5, "slurmctld": 2.0}
    row = slurm.Row(slurm.Case(16, 100, 3), 103, 20_000.0, rates, dict.fromkeys(rates, used))
    for name, seconds, count in [("round", 10.0, 4), ("sinfo", 1.0, 4), ("squeue", 3.0, 4),
                                 ("state", 4.5, 4), ("decide", 0.5, 4), ("pin", 3.0, 300),
                                 ("release", 1.0, 300)]:  # fmt: skip
        row.meters.note(name, seconds, count)
    report.show(slurm.speeds([row]), slurm.costs([row]), slurm.processors([row]))
    shown = " ".join(capsys.readouterr().out.split())
    assert "16 300 103 40.0 (40.0 to 44.0) 33.0 (30.0 to 36.0) 0.750 (0.750 to 0.900)" in shown
    assert "16 4 75.0 250 750 10.0 3.33 40 5 5 30 10 10" in shown


def test_meters_add_up() -> None:
    one, other = Meters(), Meters()
    one.note("pin", 2.0, 4)
    other.note("pin", 1.0, 2)
    other.note("state", 1.0)
    one.add(other)
    assert (one.mean("pin"), one.mean("state"), one.mean("never")) == (0.5, 1.0, 0.0)
