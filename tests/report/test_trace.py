"""Pages and pictures of traces, in a real browser, light and dark (Debian's chromium)."""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drfh import Cluster, Job, Server, Workload
from drfh.report.charts.axes import LogAxis, kind_of
from drfh.report.charts.trace import load_chart, request_chart, spread_chart
from drfh.report.pages.trace import save_trace, save_trace_comparison
from drfh.traces import Oddity, Trace
from drfh.traces.compare import compare
from drfh.traces.load import offered_load
from drfh.traces.measure import Distribution
from tests.support.pages import opened

NASTY = "</script><script>throw 1</script>"


@cache
def crowd(seed: int = 1, shapes: int = 4_000) -> Trace:
    """Return a trace with many requests, zeros among them, and names that try to break a page."""
    draw = np.random.default_rng(seed)
    jobs, users = 400, 60
    sizes = np.minimum(draw.zipf(1.7, jobs), 900)
    job = np.repeat(np.arange(jobs), sizes)
    tasks = len(job)
    demand = np.column_stack((draw.lognormal(-4, 1, shapes), draw.lognormal(-4, 1, shapes)))
    demand[::50, 0] = 0
    duration = draw.lognormal(6, 2, tasks)
    duration[:20], duration[20:40] = 0, np.inf
    workload = Workload.from_arrays(
        [NASTY, *(f"user-{i}" for i in range(1, users))],
        ["cpu", "memory"],
        demand,
        user=draw.integers(0, users, jobs)[job],
        arrival=np.sort(draw.uniform(0, 86_400, jobs))[job],
        shape=draw.integers(0, shapes, tasks),
        duration=duration,
        job=job,
    )
    cluster = Cluster([Server({"cpu": 0.5, "memory": 0.25 + i / 100}, count=2) for i in range(40)])
    return Trace(
        "google-2011", f"data/{NASTY}-{seed}", cluster, workload, pl.DataFrame(), window=86_400.0,
        counts={"rows": 12_345}, oddities=(Oddity("x", 3, f"a.csv, line 3: {NASTY}"),),
        remarks=("a <b>remark</b>",),
    )  # fmt: skip


def drawn_from(chart: Any) -> Any:
    """Return the table behind a chart."""
    return chart.data


def small(**servers: float) -> Trace:
    amounts = servers or {"cpu": 4, "memory": 8}
    jobs = [Job("ann", demand=dict.fromkeys(amounts, 1.0), duration=60, tasks=2)]
    workload = Workload(["ann"], jobs)
    return Trace("mine", "small", Cluster([Server(amounts)]), workload, pl.DataFrame())


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 420)])
def test_the_page_of_a_trace(browser: object, scheme: str, width: int, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    trace = crowd()
    save_trace(trace, file)
    page = opened(browser, file, scheme, width)
    tasks = f"{trace.workload.task_count:,}"
    assert f"60 users ask for {tasks} tasks in 400 jobs" in page.inner_text("p.headline")
    assert page.locator(".figure svg.marks").count() == 4
    text = page.text_content("body")
    for word in ("12,345", "a <b>remark</b>", f"a.csv, line 3: {NASTY}", "… and 10 shapes more"):
        assert word in text
    drawn = [page.locator(".figure svg.marks").nth(i).text_content() for i in range(4)]
    assert "cpu of a task" in drawn[0]
    assert "0.01" in drawn[0]
    assert "hours since the start" in drawn[1]
    assert "10 min" in drawn[2]
    page.close()


@pytest.mark.parametrize(
    ("scheme", "width"), [("light", 1200), pytest.param("dark", 420, marks=pytest.mark.slow)]
)
def test_the_page_of_two_traces(browser: object, scheme: str, width: int, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    simulated = {
        "policy": "best-fit-drfh",
        "a": {"cpu": 0.61, "memory": 0.5},
        "b": {"cpu": 0.585, "gpu": 0.1},
    }
    comparison = compare(crowd(), crowd(2, 300))
    save_trace_comparison(comparison, file, simulated=simulated)
    page = opened(browser, file, scheme, width)
    assert page.inner_text("p.headline").startswith("Furthest apart: ")
    text = page.text_content("body")
    assert "under best-fit-drfh" in text
    assert "-2.5 points" in text
    assert page.locator(".figure svg.marks").count() == 1 + len(comparison.differences)
    assert page.locator("table").first.locator("tr").count() == 1 + len(comparison.differences)
    page.close()


def test_axes_have_their_labels(browser: object, tmp_path: Path) -> None:
    """Every tick says something, also where its position is no round number."""
    amounts = {"cpu": 64.0, "memory": 2.0**40}
    jobs = [
        Job("ann", demand={"cpu": 1 + i, "memory": 2.0**30 * 2**i}, duration=60 * 4**i)
        for i in range(7)
    ]
    trace = Trace("mine", "x", Cluster([Server(amounts)]), Workload(["ann"], jobs), pl.DataFrame())
    save_trace(trace, tmp_path / "page.html")
    save_trace(trace, tmp_path / "page.svg")
    page = opened(browser, tmp_path / "page.html")
    drawn = page.locator("#figure-1 svg.marks").text_content()
    paper = (tmp_path / "page.svg").read_text()
    for word in ("1Gi", "2Gi", "4Gi", "64Gi"):
        assert word in drawn
        assert f">{word}<" in paper
    page.close()


def test_all_tasks_are_in_the_bubbles() -> None:
    trace = crowd()
    frame = drawn_from(request_chart([("one", trace)], "cpu", "memory"))
    assert frame["tasks"].sum() == trace.workload.task_count
    assert frame["part"].sum() == pytest.approx(1)
    assert len(frame) <= 2_500
    assert frame["joined"].max() > 1  # some are joined, as there are thousands
    # Those that ask for no cpu stay apart.
    asked = trace.workload.demand[trace.workload.batch_shape, 0]
    zero = LogAxis.of(asked).zero
    at_zero = frame.filter((pl.col("x_place") - zero).abs() < 1e-9)
    assert at_zero["tasks"].sum() == (trace.workload.batch_count * (asked == 0)).sum()


def test_two_traces_have_bubbles_of_one_scale() -> None:
    frame = drawn_from(request_chart([("a", crowd()), ("b", crowd(2, 300))], "cpu", "memory"))
    parts = frame.group_by("trace").agg(pl.col("part").sum())
    assert parts["part"].to_list() == pytest.approx([1, 1])


def test_curves_are_thin() -> None:
    sample = Distribution.of(np.random.default_rng(0).lognormal(6, 2, 100_000))
    frame = drawn_from(spread_chart([("a", sample)], "x", kind="seconds"))
    assert len(frame) < 320
    assert frame["part"].is_sorted()
    assert (frame["part"][0], frame["part"][-1]) == (0, 1)


def test_the_line_of_the_load_ends_with_the_window() -> None:
    trace = crowd()
    frame = drawn_from(load_chart([("a", offered_load(trace))], ["cpu", "memory"]))
    assert frame["time"].max() == 24
    assert set(frame["of"]) == {"cpu", "memory"}


def test_little_load_is_drawn_large() -> None:
    chart = load_chart([("a", offered_load(small(cpu=400.0)))], ["cpu"])
    assert len(chart.layer) == 1  # no line for a capacity that is far above
    assert len(load_chart([("a", offered_load(small(cpu=2.0)))], ["cpu"]).layer) == 3


@pytest.mark.parametrize(
    "trace",
    [
        pytest.param(small(cpu=4.0), marks=pytest.mark.slow),
        small(cpu=4.0, memory=8.0, gpu=2.0, disk=9.0, net=1.0),
        pytest.param(
            Trace(
                "mine", "endless", Cluster([Server({"cpu": 4})]),
                Workload(["ann"], [Job("ann", demand={"cpu": 1}, duration=math.inf)]),
                pl.DataFrame(),
            ),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["one resource", "five resources", "an instant"],
)  # fmt: skip
def test_odd_traces_are_drawn(browser: object, trace: Trace, tmp_path: Path) -> None:
    save_trace(trace, tmp_path / "page.html")
    save_trace(trace, tmp_path / "page.svg")
    save_trace_comparison(compare(trace, small()), tmp_path / "both.html")
    save_trace_comparison(compare(trace, small()), tmp_path / "both.svg")
    for name in ("page", "both"):
        opened(browser, tmp_path / f"{name}.html").close()
        assert "NaN" not in (tmp_path / f"{name}.svg").read_text()


@given(st.lists(st.just(0.0) | st.floats(1e-9, 1e15), min_size=1, max_size=20), st.data())
def test_an_axis_has_room_and_ticks(values: list[float], data: Any) -> None:
    kind = data.draw(st.sampled_from(["plain", "count", "bytes", "seconds"]))
    axis = LogAxis.of(values, kind)
    places = axis.place(values)
    start, end = axis.scale().to_dict()["domain"]
    assert start < places.min()
    assert places.max() < end
    # In order, and 0 first of all.
    order = np.argsort(values, kind="stable")
    assert (np.diff(places[order]) >= 0).all()
    ticks, words = axis.ticks()
    assert len(ticks) == len(words) <= 9
    assert sorted(ticks) == ticks
    assert all(start <= tick <= end for tick in ticks)
    assert ("0" in words) == (0 in values)
    assert all(words)


def test_bytes_are_known_by_their_look() -> None:
    assert kind_of([2.0**30, 2.0**31]) == "bytes"
    assert kind_of([1e9, 3e9]) == "plain"
    assert kind_of([]) == "plain"
