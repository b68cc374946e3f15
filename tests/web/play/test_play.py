"""The panel "Play": frames from the log of a simulation, and the panel in a real browser."""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import drfh
from drfh import Cluster, Job, Scenario, Server, User, Workload
from drfh.errors import DrfhError, InputError
from drfh.formatting import format_duration, format_percent
from drfh.model.jobs import AddServers, RemoveServers, ResizeServer
from drfh.web.play import run as play_run
from drfh.web.play.figures import now_text, summary_table, times_of, user_table
from drfh.web.play.recording import (
    CapacityChange,
    RecordedRuns,
    RecordedSamples,
    Recording,
    blocks_of,
    record,
)
from drfh.web.play.run import play, simulate_policies
from drfh.web.play.workload import (
    PlayChoice,
    PlayInput,
    play_input,
    users_workload,
    workload_choices,
)
from drfh.web.session.answers import answer_of
from drfh.web.session.workbook import Workbook
from tests.web.explorer.site import ExplorerTab, Site, explorer_tab

LONG = 120_000  # milliseconds: other work may keep the machine busy


# Frames


@st.composite
def recordings(draw: st.DrawFn) -> Recording:
    servers, users, shapes = (draw(st.integers(1, 3)) for _ in range(3))
    small = st.integers(0, 6)
    tasks = draw(st.lists(st.tuples(small, small, st.booleans()), max_size=12))
    rows = [
        (
            float(start),
            math.inf if endless else float(start + long),
            draw(st.integers(0, servers - 1)),
            draw(st.integers(0, users - 1)),
            draw(st.integers(0, shapes - 1)),
            draw(st.booleans()) and not endless,
        )
        for start, long, endless in tasks
    ]
    columns: list[Any] = [np.array(c) for c in zip(*rows, strict=True)] or [np.zeros(0)] * 6
    start, end = (column.astype(np.float64) for column in columns[:2])
    server, user, shape = (column.astype(np.int64) for column in columns[2:5])
    cut = columns[5].astype(np.bool_)
    arrival = np.sort(np.concatenate([start[~cut], draw(st.lists(small, max_size=3))]))
    need = np.array(draw(st.lists(st.tuples(small, small), min_size=shapes, max_size=shapes)))
    changes = tuple(
        CapacityChange(
            float(time), (draw(st.integers(0, servers - 1)),), (draw(small), draw(small))
        )
        for time in sorted(draw(st.lists(small, max_size=2)))
    )
    return Recording(
        "p", 12.0, tuple(f"s{i}" for i in range(servers)), (("s", servers),), ("a", "b"),
        (1.0, 1.0), tuple(f"u{i}" for i in range(users)), np.ones(users), need,
        np.full((servers, 2), 50), changes,
        RecordedRuns.sorted(start, end, server, user, shape, cut),
        arrival.astype(np.float64), np.zeros(len(arrival), dtype=np.int64),
        RecordedSamples(np.zeros(0), np.zeros((0, 2)), np.zeros((0, users))), {},
    )  # fmt: skip


@given(recordings(), st.integers(-1, 14).map(float))
def test_a_frame_is_the_sum_over_what_runs_then(recording: Recording, time: float) -> None:
    frame, runs = recording.frame(time), recording.runs
    used = [[0, 0] for _ in recording.servers]
    usage = [[0, 0] for _ in recording.users]
    running, done = [0] * len(recording.users), [0] * len(recording.users)
    for i in range(len(runs.start)):
        server, user = int(runs.server[i]), int(runs.user[i])
        if runs.start[i] <= time < runs.end[i]:
            running[user] += 1
            for r in range(2):
                used[server][r] += int(recording.need[runs.shape[i], r])
                usage[user][r] += int(recording.need[runs.shape[i], r])
        elif runs.end[i] <= time and not runs.cut[i]:
            done[user] += 1
    assert frame.used.tolist() == used
    assert frame.usage.tolist() == usage
    assert (frame.running.tolist(), frame.done.tolist()) == (running, done)
    arrived = sum(arrival <= time for arrival in recording.arrival.tolist())
    assert int(frame.waiting.sum()) == arrived - sum(running) - sum(done)
    capacity = [[50, 50] for _ in recording.servers]
    for change in recording.changes:
        if change.time <= time:
            capacity[change.positions[0]] = list(change.capacity)
    assert frame.capacity.tolist() == capacity
    total = [sum(row[r] for row in capacity) for r in range(2)]
    shares = [max([row[r] / total[r] for r in range(2) if total[r]] or [0.0]) for row in usage]
    assert frame.share.tolist() == shares
    assert recording.cells(frame).levels.shape == (2, len(recording.servers))
    for server in range(len(recording.servers)):
        assert sum(recording.on_server(time, server).values()) == int(
            ((runs.server == server) & (runs.start <= time) & (time < runs.end)).sum()
        )


def changing() -> Scenario:
    """Return servers that come, shrink and go while tasks run on them, and one that fits none."""
    small, large = Server({"cpu": 4, "memory": 8}, name="a", count=3), Server({"cpu": 8}, name="b")
    jobs = [
        Job("ann", demand={"cpu": 1, "memory": 2}, duration=[9, 17, 25, 11], tasks=4, arrival=i)
        for i in range(6)
    ]
    jobs.append(Job("bob", demand={"cpu": 3}, duration=13, tasks=5))
    jobs.append(Job("bob", demand={"cpu": 90}, duration=5))
    new = AddServers(20, Server({"cpu": 6, "memory": 6}, name="c", count=2))
    events = RemoveServers(7, "a"), ResizeServer(12, "b", {"cpu": 3}), new, RemoveServers(30, "b")
    users = User("ann"), User("bob", weight=2)
    return Scenario(Cluster([small, large]), users, jobs=tuple(jobs), events=events)


@pytest.mark.parametrize("name", ["changing", "gpu-day", "paper-dynamic"])
@pytest.mark.parametrize("policy", ["best-fit-drfh", "slots:4"])
def test_frames_are_what_the_simulator_saw(name: str, policy: str) -> None:
    scenario = changing() if name == "changing" else drfh.load_scenario(name)
    cluster, workload = scenario.cluster, scenario.workload
    until = 1000.0 if name == "paper-dynamic" else None
    result = drfh.simulate(cluster, workload, policy, until, log=True, engine="indexed")
    recording = record(result, cluster, workload)
    assert len(recording.samples.time) > 5
    if name == "changing":
        assert result.cut is not None
        assert len(result.cut) == result.summary()["tasks"]["evictions"] > 0
    for i, row in enumerate(result.samples.select("time", "running", "queued").rows()):
        frame = recording.frame(row[0])
        assert int(frame.running.sum()) == row[1]
        waiting = int(frame.waiting.sum())  # also for servers that are not there now
        assert waiting == row[2] if name == "paper-dynamic" else waiting >= row[2]
        assert frame.share.tolist() == recording.samples.share[i].tolist()
        assert frame.utilisation.tolist() == recording.samples.utilisation[i].tolist()
    last = recording.frame(recording.horizon)
    tasks = result.summary()["tasks"]
    assert int(last.done.sum()) == tasks["completed"]
    assert int(last.waiting.sum()) == tasks["queued"] + tasks["never"]


# What is played, and where


def test_users_come_one_after_the_other() -> None:
    users = [User("ann", {"cpu": 1}, tasks=2.5), User("bob", {"gpu": 1}), User("eve", {"cpu": 1})]
    workload = users_workload(users, [2.5, 4.0, 0.0])
    assert workload.batch_count.tolist() == [3, 16, 1]
    assert workload.batch_arrival.tolist() == [0, 30, 60]
    assert workload.resources == ("cpu", "gpu")
    idle = [User("ann", {"cpu": 1}, tasks=0), *users[1:]]
    assert users_workload(idle, [0.0, 4.0, 0.0]).batch_user.tolist() == [1, 2]
    assert users_workload(idle[:1], [0.0]).task_count == 0
    with pytest.raises(InputError, match="at most 1,000,000 to be played on a page"):
        users_workload([User("ann", {"cpu": 1}, tasks=1e300)])


def test_made_up_work_is_on_the_servers_of_the_page_if_they_suit_it() -> None:
    like = Scenario(
        Cluster([Server({"cpu": 16, "memory": 64}, name="mine", count=12)]),
        (User("ann", {"cpu": 1}),),
    )
    assert play_input(PlayChoice("bursts", like)).cluster is like.cluster
    other = drfh.load_scenario("paper-two-servers")
    assert play_input(PlayChoice("bursts", other)).cluster is not other.cluster
    for key in workload_choices(other):
        if key != "google-like":
            assert play_input(PlayChoice(key, other, (10.0, 10.0))).description.endswith(".")
    with pytest.raises(DrfhError, match="workload must be one of"):
        play_input(PlayChoice("nothing", other))


def test_the_jobs_of_a_trace_run_on_the_servers_as_they_are_edited() -> None:
    cluster = Cluster([Server({"cpu": 4}, name="a")])
    workload = Workload(["ann"], [Job("ann", demand={"cpu": 1}, duration=9)])
    more = Scenario(cluster.plus(Server({"cpu": 4}, name="b")), (User("ann", {"cpu": 1}),))
    trace = cluster, workload, 60.0
    assert play_input(PlayChoice("trace", more, trace=trace)).cluster is more.cluster
    inputs = play_input(PlayChoice("trace", drfh.load_scenario("gpu-day"), trace=trace))
    assert (inputs.cluster, inputs.until) == (cluster, 60.0)
    # Who shares the servers is not edited with them: the page says so where it differs.
    said = "those of the trace, not of the table"
    assert said not in play_input(PlayChoice("trace", more, trace=trace)).description
    for users in ((User("ann", {"cpu": 1}, weight=2),), (*more.users, User("bob", {"cpu": 1}))):
        assert (
            said
            in play_input(PlayChoice("trace", replace(more, users=users), trace=trace)).description
        )


def same(left: Sequence[Recording], right: Sequence[Recording]) -> bool:
    def content(recording: Recording) -> Any:
        numbers = {key: value for key, value in recording.numbers.items() if key != "seconds"}
        return numbers, [column.tolist() for column in vars(recording.runs).values()]

    return [content(recording) for recording in left] == [content(recording) for recording in right]


def test_a_process_simulates_the_same_and_is_gone_when_it_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    choice = PlayChoice("users", drfh.load_scenario("paper-two-servers"), (10.0, 10.0))
    policies = ["best-fit-drfh", "slots:14"]
    here = play(choice, policies, lambda text, part: None)
    monkeypatch.setattr(play_run, "_SMALL_WORK", 0)
    progress: list[tuple[str, float]] = []
    there = play(choice, policies, lambda text, part: progress.append((text, part)))
    assert same(here.recordings, there.recordings)
    assert progress[0] == ("starting a process", 0.0)
    assert any(text.startswith("slots:14: ") and part >= 0.5 for text, part in progress)

    class StopError(Exception):
        pass

    def stop(text: str, part: float) -> None:
        if multiprocessing.active_children():
            raise StopError

    with pytest.raises(StopError):
        play(choice, policies, stop)
    assert not multiprocessing.active_children()
    assert play_run._PROCESSES.acquire(blocking=False)
    play_run._PROCESSES.release()
    with pytest.raises(DrfhError, match="policy must be one of"):
        play(choice, ["best-fot"], stop)


def test_what_goes_wrong_in_a_process_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play_run, "is_small", lambda inputs: False)
    monkeypatch.setattr(play_run, "check_size", lambda inputs: None)
    workload = Workload(["ann"], [Job("ann", demand={"cpu": 1}, duration=9, tasks=1_000_001)])
    choice = PlayChoice("trace", changing(), trace=(Cluster([Server({"cpu": 4})]), workload, None))
    with pytest.raises(DrfhError, match=r"^tasks must be at most 1,000,000 to be played"):
        play(choice, ["fifo"], lambda text, part: None)


def test_texts_and_tables_of_odd_workloads() -> None:
    names = '<b>"x"</b>', "{a}"
    users = [User(name, {"cpu": 1}) for name in names]
    cluster = Cluster([Server({"cpu": 1}, name="<i>")])
    endless = Workload(users, [Job(name, duration=math.inf) for name in names])
    inputs = PlayInput(cluster, endless, None, "")
    [recording] = simulate_policies(inputs, ["fifo"], lambda text, part: None).recordings
    assert (recording.horizon, times_of([recording]).tolist()) == (0.0, [0.0])
    frame = recording.frame(0.0)
    assert "<b>&lt;b&gt;&#34;x&#34;" in user_table([recording], [frame])
    assert "1 task runs, 1 waits, 0 done. In use: cpu 100 %." in now_text(recording, frame)
    assert "0 of 2" in summary_table([recording])
    many = [Server({"cpu": i + 1}, name=f"n{i}") for i in range(99)]
    from drfh.scheduler.nodes import NodeTable

    blocks, order = blocks_of(NodeTable(Cluster(many)).entries)
    assert (len(blocks), blocks[-1]) == (40, ("60 other sizes", 60))
    assert sorted(order.tolist()) == list(range(99))


# The page


def choose(page: ExplorerTab, chooser: str, text: str) -> None:
    page.part(f"play-{chooser}").click()
    page.page.get_by_role("option", name=text).first.click()


def run(page: ExplorerTab) -> None:
    """Run what is chosen, and stop at the start of it."""
    from playwright.sync_api import expect

    page.part("play-start").click()
    expect(page.part("play-start")).to_have_text("play_arrowRun again", timeout=LONG)
    page.part("play-slider").focus()
    page.page.keyboard.press("Home")
    expect(page.part("play-time")).to_have_text("0 s", timeout=LONG)


def simulated(name: str, policy: str) -> Recording:
    answer = answer_of(Workbook(drfh.load_scenario(name)))
    fair = tuple(answer.fair.assignment.user_tasks.tolist())
    inputs = play_input(PlayChoice("users", answer.scenario, fair))
    result = drfh.simulate(inputs.cluster, inputs.workload, policy, log=True, fair=True)
    return record(result, inputs.cluster, inputs.workload)


def test_a_played_simulation_shows_the_numbers_of_its_time(browser: Any, site: Site) -> None:
    from playwright.sync_api import expect

    recording = simulated("paper-two-servers", "best-fit-drfh")
    with explorer_tab(browser, site, "?panel=play") as page:
        about = page.part("play-about")
        expect(about).to_contain_text("2 users, 80 tasks on 2 servers", timeout=LONG)
        page.part("play-start").click()
        # It plays by itself, until somebody takes the slider.
        slider = page.part("play-slider")
        expect(slider).not_to_have_value("0", timeout=LONG)
        slider.focus()
        page.page.keyboard.press("Home")
        expect(page.part("play-time")).to_have_text("0 s", timeout=LONG)
        for _ in range(90):
            page.page.keyboard.press("ArrowRight")
        expect(page.part("play-time")).to_have_text("1 min 30 s", timeout=LONG)
        text = "1 minute 30 seconds of 5 minutes 50 seconds"
        expect(slider).to_have_attribute("aria-label", f"time: {text}")
        expect(slider).to_have_attribute("aria-valuetext", text)
        frame = recording.frame(90.0)
        # By the log alone: 10 tasks each, 5/7 of their dominant resource.
        assert frame.running.tolist() == [10, 10]
        for user, waiting in zip(recording.users, frame.waiting.tolist(), strict=True):
            row = page.part("play-users").locator("tr", has_text=user)
            expect(row).to_have_text(f"{user}71.4 %71.4 %10{waiting}", timeout=LONG)
        used = format_percent(float(frame.utilisation[0]), trim=True)
        expect(page.part("play-now-0")).to_contain_text(f"20 tasks run, {frame.waiting.sum()} wait")
        expect(page.part("play-now-0")).to_contain_text(f"cpu {used}")
        heat = page.part("play-recording-0").get_by_test_id("heat-view")
        expect(heat).to_have_attribute("aria-label", recording.cells(frame).summary, timeout=LONG)
        mean = format_duration(recording.numbers["mean_waiting"])
        expect(page.part("play-summary")).to_contain_text(f"mean wait of a task{mean}")


def test_two_policies_run_in_step_and_an_edit_is_said(browser: Any, site: Site) -> None:
    from playwright.sync_api import expect

    recordings = [simulated("paper-two-servers", name) for name in ("best-fit-drfh", "slots:14")]
    with explorer_tab(browser, site, "?panel=play", viewport={"width": 390, "height": 844}) as page:
        run(page)
        choose(page, "beside", "slots:14")
        expect(page.part("play-stale")).to_contain_text("press Run for what is chosen now")
        run(page)
        for _ in range(10):
            page.page.keyboard.press("PageUp")
        step = page.page.evaluate("document.querySelector('[data-testid=play-slider]').value")
        time = float(times_of(recordings)[int(step)])
        assert time > 0
        for number, recording in enumerate(recordings):
            text = (
                now_text(recording, recording.frame(time)).removeprefix("<p>").removesuffix("</p>")
            )
            expect(page.part(f"play-now-{number}")).to_have_text(text, timeout=LONG)
        page.page.keyboard.press("End")
        expect(page.part("play-now-0")).to_contain_text("It ended at 5 min 50 s.", timeout=LONG)
        expect(page.part("play-now-1")).to_contain_text("80 done")
        assert page.page.evaluate("document.documentElement.scrollWidth") <= 390
        page.page.set_viewport_size({"width": 1400, "height": 900})
        # It plays on while nobody sees it, and complains of nothing.
        for heat in page.page.get_by_test_id("heat-shown").all():
            heat.select_option("fullest")
        page.part("play-flip").click()
        page.part("tab-tables").click()
        page.edit("users", 0, "weight", "2")
        page.wait_for("users", 0, "weight", "2")
        page.page.wait_for_timeout(500)
        page.part("tab-play").click()
        expect(page.part("play-stale")).to_contain_text("The scenario has changed", timeout=LONG)
        page.part("play-slider").focus()
        page.page.keyboard.press("End")
        expect(page.part("play-now-1")).to_contain_text("80 done")


def children(site: Site) -> set[str]:
    """Return the processes that the server has started."""
    place = Path(f"/proc/{site.process.pid}/task")
    return {pid for task in place.iterdir() for pid in (task / "children").read_text().split()}


@pytest.mark.slow
def test_a_simulation_can_be_stopped_while_others_use_the_server(browser: Any, site: Site) -> None:
    from playwright.sync_api import expect

    with explorer_tab(browser, site, "?panel=play&open=google-2011") as page:
        page.part("play-start").click()
        expect(page.part("play-progress")).to_be_visible(timeout=LONG)
        with explorer_tab(browser, site, "?panel=play&open=gpu-day") as other:
            expect(other.part("play-about")).to_contain_text("The jobs of this scenario")
        page.part("play-stop").click()
        expect(page.part("play-progress")).to_be_hidden(timeout=LONG)
        expect(page.part("play-start")).to_be_enabled(timeout=LONG)
        expect(page.part("play-start")).to_have_text("play_arrowRun")
        # The page's own button ends it too, and with it the process.
        page.part("play-start").click()
        expect(page.part("stop-job")).to_be_visible(timeout=LONG)
        deadline = time.monotonic() + LONG / 1_000
        while len(children(site)) < 2 and time.monotonic() < deadline:
            time.sleep(0.1)  # beside it, what tracks resources
        before = children(site)
        assert len(before) == 2
        page.part("stop-job").click()
        while children(site) == before and time.monotonic() < deadline:
            time.sleep(0.1)
        assert len(children(site)) == 1
        expect(page.part("play-start")).to_be_enabled(timeout=LONG)
        choose(page, "workload", "bursts")
        run(page)
        expect(page.part("play-about")).to_contain_text("on 10 servers of its own")
