"""The benchmarks of scheduler and simulation still run, and everybody in them places alike."""

from __future__ import annotations

import json

import pytest

from benchmarks import calls, report, schedule, simulate


@pytest.mark.slow
def test_schedule_runs_and_all_choose_alike(capsys: pytest.CaptureFixture[str]) -> None:
    schedule.main(["--quick", "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert len(rows) == len(schedule.QUICK)
    for row in rows:
        assert row["same"]
        assert set(row["rate"]) == {schedule.KERNELS, schedule.CALLS, *schedule.RIVALS}


def test_every_call_is_timed_on_both_cores(capsys: pytest.CaptureFixture[str]) -> None:
    calls.main(["--quick"])
    printed = capsys.readouterr().out
    assert all(word in printed for word in (*calls.CALLS, "plain", "indexed"))


@pytest.mark.slow
def test_simulate_runs_and_all_place_alike(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("simpy")
    simulate.main(["--quick", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert all(row["same"] and row["everyone"] for row in found["days"])
    assert found["large"][0]["peak"] > 0
    assert len(found["start"]) == 2


def test_tables_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    cases = [case for case in schedule.CASES if case.servers == 2_000]
    names = (schedule.KERNELS, schedule.CALLS, *schedule.RIVALS)
    rates = dict(zip(names, (100.0, 10.0, 9.0, 11.0, 1.0), strict=True))
    rows = [schedule.Row(case, 5, rates, same=True) for case in cases]
    day = simulate.Row(1_000_000, 2_000, 9, 1.0, 2.0, 1.5, 1440, 0.1, 20.0, 300.0, same=False)
    big = simulate.Large(10_000_000, 100_000, 9, 30.0, 31.0, 0.5, 1440, 1.0, 12.5)
    report.show(schedule.rates(rows), schedule.curve(rows))
    report.show(
        simulate.days_table([day]), simulate.samples_table([day]), simulate.large_table([big])
    )
    shown = capsys.readouterr().out
    for word in ("11.1× (10: met)", "9.09×", "111", "10.0× (15: NOT MET)", "150× (100: met)", "NO",
                 "347 µs", "25%", "12.5 GiB (12 GiB: NOT MET)"):  # fmt: skip
        assert word in shown
