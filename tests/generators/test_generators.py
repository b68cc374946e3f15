"""Generated workloads: like what they say, the same every time, and each with its lesson true."""

from __future__ import annotations

import importlib.util
import json
import os
from importlib import resources
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drfh
from drfh.errors import DrfhError, InputError
from drfh.files.scenario_file import load_scenario
from drfh.generators import GENERATORS, generate
from drfh.generators.base import even_ranks, reflected, rounded_evenly, spans
from drfh.generators.google_like import draw_stream, mean_work
from drfh.generators.google_parameters import as_stream, shipped_table
from drfh.traces import Trace, read
from tests.support.paths import ROOT

DATA = Path(os.environ.get("DRFH_DATA", "/nowhere")) / "clusterdata-2011-2"


def distance(a: Any, b: Any) -> float:
    """Return the Kolmogorov–Smirnov distance."""
    a, b = np.sort(a), np.sort(b)
    both = np.concatenate([a, b])
    below = [np.searchsorted(x, both, side="right") / len(x) for x in (a, b)]
    return float(np.abs(below[0] - below[1]).max())


@pytest.fixture(scope="module")
def google() -> Trace:
    return generate("google-like", users=200, servers=400, hours=12, seed=3)


@pytest.mark.parametrize("name", GENERATORS)
def test_same_seed_same_workload(name: str) -> None:
    small = {"users": 30, "hours": 2, "servers": 40} if name == "google-like" else {}
    one, two = generate(name, **small), generate(name, **small)
    assert one.cluster == two.cluster
    assert one.workload == two.workload
    assert one.details.equals(two.details)
    assert len(one.details) == len(one.workload.batch_user)
    assert one.format == name
    assert one.remarks
    if any(option.name == "seed" for option in GENERATORS[name].options):
        assert generate(name, **small, seed=8).workload != one.workload


@pytest.mark.parametrize("name", GENERATORS)
def test_options_are_declared_and_checked(name: str) -> None:
    with pytest.raises(InputError, match="option of"):
        generate(name, colour="red")
    for option in GENERATORS[name].options:
        assert option.help.endswith(".")
        with pytest.raises(InputError, match=option.name):
            generate(name, **{option.name: -1})
        if option.name != "seed":
            with pytest.raises(InputError, match=option.name):
                generate(name, **{option.name: 0})


def test_unknown_name() -> None:
    with pytest.raises(InputError, match="did you mean google-like"):
        generate("google-lik")


def test_google_like_window(google: Trace) -> None:
    workload, details = google.workload, google.details
    assert google.window == 12 * 3600
    start = details["at_start"].to_numpy()
    assert (workload.batch_arrival[start] == 0).all()
    assert (workload.batch_arrival[~start] > 0).all()
    last = workload.batch_arrival + workload.duration
    assert (last <= 12 * 3600 * (1 + 1e-12)).all()
    assert (workload.duration >= 0).all()
    late = details.with_columns(last=last).filter((pl.col("end") == "cut") & ~pl.col("at_start"))
    assert np.allclose(late["last"], 12 * 3600)
    assert set(details["end"].unique()) >= {"cut", "finish", "kill"}
    assert len(workload.users) == 200
    assert workload.job_user.max() == 199
    assert google.counts["tasks"] == workload.task_count == len(details)


@pytest.mark.parametrize("load", [0.5, 1.0, 4.0])
def test_google_like_load_is_met(load: float) -> None:
    trace = generate("google-like", users=200, servers=400, hours=12, load=load, seed=5)
    capacity = trace.cluster.capacity.T @ trace.cluster.counts
    workload = trace.workload
    asked = workload.demand[workload.batch_shape] * workload.duration[:, None]
    share = asked.sum(axis=0) / 12 / 3600 / capacity
    assert share.max() == pytest.approx(load, rel=0.02)
    assert f"offered load {share.max():.3f}" in trace.remarks[1]


def test_a_load_that_cannot_be_met_is_said() -> None:
    trace = generate("google-like", users=500, servers=2, hours=1, load=0.001)
    assert trace.remarks[-1].startswith("a load of 0.001 could not be met")
    with pytest.raises(InputError, match="load must be so low that"):
        generate("google-like", servers=1_000_000, load=999)


def test_google_like_is_skewed_and_alike(google: Trace) -> None:
    workload = google.workload
    tasks = np.sort(np.bincount(workload.batch_user, minlength=200))[::-1]
    assert tasks[:20].sum() > 0.6 * tasks.sum()
    assert np.median(tasks) < 0.1 * tasks.mean()
    frame = pl.DataFrame({"job": workload.batch_job, "shape": workload.batch_shape})
    shapes = frame.group_by("job").agg(pl.col("shape").n_unique(), pl.len())
    alike = (shapes.filter(pl.col("len") > 1)["shape"] == 1).to_numpy()
    assert alike.mean() > 0.9
    sizes = np.bincount(workload.batch_job)
    assert np.median(sizes) == 1
    assert sizes.max() > 500


@given(st.integers(1, 60), st.integers(1, 60), st.floats(0.05, 30), st.floats(0.01, 20))
@settings(max_examples=15, deadline=None)
def test_any_options_make_a_workload(users: int, servers: int, hours: float, load: float) -> None:
    trace = generate("google-like", users=users, servers=servers, hours=hours, load=load)
    assert len(trace.workload.users) == users
    assert trace.cluster.size == servers
    trace.workload.check(trace.cluster)


def test_table_is_small_and_says_where_it_is_from() -> None:
    text = (resources.files("drfh.generators") / "google_like.json").read_text(encoding="utf-8")
    assert len(text) < 100_000
    data = json.loads(text)
    about = " ".join(data["about"])
    for words in ("clusterdata-2011-2", "CC-BY 4.0", "Wilkes", "Reiss", "no rows of the trace"):
        assert words in about
    assert sum(profile["users"] for profile in data["profiles"]) == data["users"] == 565
    assert sum(count for _, _, count in data["servers"]) == 12477


def test_mean_work_is_what_is_drawn() -> None:
    table = shipped_table()
    draw = np.random.default_rng(0)
    window, checked = table.window, 0
    for profile in table.profiles[:40]:
        for stream in profile.streams:
            if not stream.start or stream.sizes.mean() > 200:
                continue
            drawn = draw_stream(stream, table, np.zeros(1500, dtype=np.int64), draw)
            ran = np.minimum(drawn.seconds, window * (1 - drawn.missing)) / window
            found = np.array([drawn.cpu @ ran, drawn.memory @ ran]) / 1500
            expected = mean_work(stream, table.requests, window)
            assert found == pytest.approx(expected, rel=0.35)
            checked += 1
    assert checked > 30


def test_a_stream_draws_what_it_says() -> None:
    table = shipped_table()
    stream = as_stream(
        {
            "sizes": [1, 3],
            "ask": [0, 0.75, 1, 0.25],
            "seconds": [100],
            "kill": [1],
            "age": [0, 1],
            "stay": 0.5,
            "spread": 0,
        },
        start=True,
    )
    drawn = draw_stream(stream, table, np.arange(400), np.random.default_rng(1))
    assert np.bincount(drawn.size).tolist() == [0, 200, 0, 200]
    assert np.mean(drawn.cpu == table.requests[0, 0]) >= 0.7
    stays = np.isinf(drawn.seconds)
    assert stays.mean() == pytest.approx(0.5, abs=0.02)
    assert (drawn.seconds[~stays] == 100).all()
    assert drawn.killed[~stays].all()
    assert not drawn.killed[stays].any()
    # Without spread all tasks of a job end alike; and what is older stays.
    job = np.repeat(np.arange(400), drawn.size)
    ends = np.bincount(job, weights=stays)
    assert set((ends / drawn.size).tolist()) == {0.0, 1.0}
    assert drawn.age[ends > 0].mean() > drawn.age[ends == 0].mean() + 0.3


def test_the_longest_third_is_killed() -> None:
    quantiles = [10, 20, 30, 40, 50, 60, 70, 80, 90]
    stream = as_stream({"ask": [0, 1], "seconds": quantiles, "kill": [0, 0, 1]}, start=False)
    drawn = draw_stream(stream, shipped_table(), np.arange(900), np.random.default_rng(1))
    assert drawn.killed.mean() == pytest.approx(1 / 3, abs=0.03)
    assert drawn.seconds[drawn.killed].min() > drawn.seconds[~drawn.killed].max()
    assert (drawn.age == 0).all()


def test_google_like_arrivals_come_all_day_in_sittings(google: Trace) -> None:
    later = pl.DataFrame(
        {
            "user": google.workload.batch_user,
            "job": google.workload.batch_job,
            "arrival": google.workload.batch_arrival,
        }
    ).filter(~google.details["at_start"])
    jobs = later.unique("job").sort("user", "arrival")
    hours = np.histogram(jobs["arrival"], np.arange(13) * 3600)[0]
    assert hours.min() > 0.3 * hours.mean()
    gaps = jobs.select(pl.col("arrival").diff().over("user")).drop_nulls()["arrival"].to_numpy()
    assert np.median(gaps) < 0.33 * gaps.mean()  # 0.43 if each came on its own


@given(st.lists(st.floats(0, 50), min_size=1, max_size=40), st.floats(0, 0.999))
def test_rounding_keeps_every_sum(expected: list[float], offset: float) -> None:
    found = rounded_evenly(np.array(expected), offset)
    assert (found >= 0).all()
    assert (np.abs(np.cumsum(found) - np.cumsum(expected)) <= 1 + 1e-6).all()


def test_even_draws_stay_even() -> None:
    draw = np.random.default_rng(0)
    assert np.allclose(np.sort(even_ranks(draw, 1000)), np.arange(1000) / 1000, atol=1e-3)
    size = draw.integers(1, 50, 5000)
    ranks = np.repeat(spans(draw, size), size)
    assert distance(ranks, np.arange(1000) / 1000) < 0.02
    spread = reflected(even_ranks(draw, 50_000) + 0.7 * (draw.random(50_000) - 0.5))
    assert distance(spread, np.arange(1000) / 1000) < 0.02


@pytest.mark.parametrize(
    ("name", "user", "other", "times"),
    [
        ("bursts", "steady", "fifo", 5),
        ("elephants-and-mice", "mouse", "fifo", 3),
        ("gpu-mix", "training", "first-fit-drfh", 4),
        ("two-shapes", "", "first-fit-drfh", 3),
    ],
)
def test_lessons_are_true(name: str, user: str, other: str, times: float) -> None:
    trace = generate(name)
    waiting = []
    for policy in (other, "best-fit-drfh"):
        result = drfh.simulate(trace.cluster, trace.workload, policy)
        users = result.users.filter(pl.col("user").str.starts_with(user))
        waiting.append(float(users["mean_waiting"].sum()))
    assert waiting[0] > times * waiting[1]


def test_paper_dynamic_is_the_scenario() -> None:
    trace, scenario = generate("paper-dynamic"), load_scenario("paper-dynamic")
    assert trace.cluster == scenario.cluster
    assert trace.workload == scenario.workload
    assert trace.details["at_start"].to_list() == [True, False, False]


def script() -> ModuleType:
    path = ROOT / "tools" / "fit_google_like.py"
    spec = importlib.util.spec_from_file_location("fit_google_like", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_script_fits_what_was_generated(tmp_path: Path, google: Trace) -> None:
    """A trace that is drawn, fitted and drawn again is like itself."""
    fitted = script()
    text = fitted.text_of(fitted.fit(google))
    assert fitted.text_of(fitted.fit(google)) == text
    from drfh.files.reader import Ledger
    from drfh.generators import google_like
    from drfh.generators.google_parameters import as_table

    table = as_table(json.loads(text))
    assert table.users == 200
    again = google_like.make(google.options, Ledger(), table)
    one, two = google.workload, again.workload
    assert distance(one.duration, two.duration) < 0.1
    for column in range(2):
        old, new = (w.demand[w.batch_shape][:, column] for w in (one, two))
        assert distance(old, new) < 0.1
    assert distance(np.bincount(one.batch_job), np.bincount(two.batch_job)) < 0.1
    assert distance(np.bincount(one.batch_user), np.bincount(two.batch_user)) < 0.15


def test_the_script_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fitted = script()
    monkeypatch.setattr("sys.argv", ["fit", str(tmp_path / "none"), "-o", str(tmp_path / "t")])
    assert fitted.main() == DrfhError.exit_code + 1
    assert "must be" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="needs the trace: set DRFH_DATA")
def test_google_like_is_like_google() -> None:
    real = read("google-2011", DATA, servers=2000)
    fitted = script()
    shipped = (resources.files("drfh.generators") / "google_like.json").read_text(encoding="utf-8")
    assert fitted.text_of(fitted.fit(read("google-2011", DATA))) == shipped
    hours = float(real.window or 0) / 3600
    capacity = real.cluster.capacity[:, 0].sum()
    work = real.workload.demand[real.workload.batch_shape][:, 0] @ real.workload.duration
    load = work / 3600 / hours / capacity
    made = generate("google-like", users=565, hours=hours, servers=2000, load=load, seed=0)
    one, two = real.workload, made.workload
    assert distance(one.duration.round(), two.duration.round()) < 0.05
    for column in range(2):
        old, new = (w.demand[w.batch_shape][:, column] for w in (one, two))
        assert distance(old, new) < 0.05
    assert distance(np.bincount(one.batch_job), np.bincount(two.batch_job)) < 0.1
    assert distance(np.bincount(one.batch_user), np.bincount(two.batch_user)) < 0.1
    old, new = (
        drfh.simulate(real.cluster, w, "best-fit-drfh", until=real.window).summary()["utilisation"]
        for w in (one, two)
    )
    assert new["cpu"] == pytest.approx(old["cpu"], abs=0.02)
    assert new["memory"] == pytest.approx(old["memory"], abs=0.06)
