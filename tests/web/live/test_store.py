"""The store of the live view: cycles, observations, trouble, pending jobs and why they wait."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest

from drfh.cli.cluster.web import WebAddress, publish
from drfh.engines.cache import SchedulerCache
from drfh.engines.engine import LiveCluster
from drfh.engines.observer import Cycle, CycleFailure
from drfh.engines.slurm.client import SlurmError
from drfh.engines.slurm.cluster import cluster_of
from drfh.engines.slurm.config import SlurmConfig
from drfh.engines.slurm.controller import SlurmController
from drfh.engines.slurm.state import read_state
from drfh.engines.status import status_of
from drfh.errors import InputError, UnknownNameError
from drfh.web.live.events import change_events
from drfh.web.live.history import HistorySample, ShareHistory
from drfh.web.live.pending import PendingQueue
from drfh.web.live.publisher import Publisher
from drfh.web.live.store import LiveStore
from tests.engines.slurm.entries import JOBS, NODES, NOW, SITE, job, node
from tests.engines.slurm.model import ModelSlurm
from tests.web.live.server import USERS, made_up

SIZES = {"n0": (4, 8000), "n1": (8, 4000), "n2": (4, 4000)}


# The past


def test_the_past_is_bounded_and_in_order() -> None:
    history = ShareHistory(points=10, users=3)
    for second in range(50):
        users = {f"u{second // 10}": (second / 100, 0.5), "ann": (0.1, None)}
        history.add(HistorySample(1000.0 + second, users, distance=second / 50, placed=1))
    found = history.columns("15 min", ["u4", "u3", "u0", "ann"])
    assert found.time.tolist() == [1040.0 + i for i in range(10)]
    assert found.distance.tolist() == [(40 + i) / 50 for i in range(10)]
    assert found.share["u4"] == pytest.approx([(40 + i) / 100 for i in range(10)])
    assert found.share["u3"].tolist() == [0.0] * 10  # it has nothing any more
    assert np.isnan(found.fair["ann"]).all()
    assert "u0" not in found.share  # there was no room for it
    assert history.users("15 min") == ("ann", "u4")
    long = history.columns("3 h", since=1012.0)
    assert long.time.tolist() == [1024.0, 1036.0, 1048.0]
    assert long.placed.tolist() == [12.0, 12.0, 12.0]  # all that were placed since the last point
    with pytest.raises(UnknownNameError, match="span"):
        history.columns("a week")
    with pytest.raises(UnknownNameError, match="span"):
        history.users("a week")


def test_too_many_users_at_once_and_a_clock_that_jumps_back() -> None:
    history = ShareHistory(points=4, users=2)
    history.add(HistorySample(1000.0, {"a": (0.1, 0.1), "b": (0.2, 0.2), "c": (0.3, 0.3)}))
    assert set(history.columns("15 min", "abc").share) == {"a", "b"}
    history.add(HistorySample(990.0, {}))  # a little back: it does not count
    assert history.columns("15 min").time.tolist() == [1000.0]
    history.add(HistorySample(500.0, {"c": (0.3, 0.3)}))
    assert history.columns("15 min", "abc").time.tolist() == [500.0]
    assert set(history.columns("15 min", "abc").share) == {"c"}


# What happened


def test_changes_between_two_observations_are_events() -> None:
    before = cluster_of(read_state(NODES, JOBS, NOW), SITE)
    nodes = [node("n0", state="drained"), NODES[1], node("n3", 16), node("n9")]
    jobs = [one for one in JOBS if one["job_id"] not in (1, 2, 20)]
    jobs += [job(2, "ann", 1, on="n1"), job(20, "ann", 2, array_job_id=20, array_task_id=0)]
    after = cluster_of(read_state(nodes, jobs, NOW + 5), SITE)
    assert change_events(None, before, starts=True) == []
    found = [(event.kind, event.text) for event in change_events(before, after, starts=True)]
    assert found == [
        ("node", "n0 takes nothing new"),
        ("node", "n3 is up"),
        ("node", "n9 is new"),
        ("node", "n2 is gone"),
        ("ended", "job 1 of ann on n0"),
        ("back", "job 20_0 of ann on n1"),
        ("started", "job 2 of ann on n1"),
    ]
    quiet = [(event.kind, event.text) for event in change_events(before, after)]
    assert quiet == [pair for pair in found if pair[0] in ("node", "ended")]


def test_many_events_of_a_kind_are_one_line() -> None:
    entries = [job(i, f"u{i % 7}", 1, on="n1") for i in range(1, 9)]
    before = cluster_of(read_state([node("n1", 64)], entries, NOW), SlurmConfig())
    after = cluster_of(read_state([node("n1", 64)], [], NOW + 1), SlurmConfig())
    [event] = change_events(before, after)
    assert event.text == "8 jobs (u1 2, u2 1, u3 1, u4 1, 3 others)"


# The store


def test_cycles_of_a_controller_are_published() -> None:
    slurm = ModelSlurm(SIZES)
    clock = [0.0]
    store = LiveStore("model", clock=lambda: clock[0])
    ours = SlurmController(slurm, SlurmConfig(), SchedulerCache(), clock=lambda: slurm.now)
    for i in range(6):
        slurm.submit("ann" if i % 2 else "bob", 4, 1000)
    done = ours.cycle()
    publisher = Publisher(store)
    publisher.on_cycle(done)
    assert publisher.worker.step()
    view = store.view()
    assert view.status is not None
    # What was placed counts as started, in all numbers alike.
    assert sum(user.starting for user in view.status.users) == len(done.placed) == 4
    assert sum(user.waiting for user in view.status.users) == 2
    assert view.status.totals["cpu"].used == 16
    assert [user.share for user in view.status.users] == [0.5, 0.5]
    assert view.placed == 4
    assert [event.kind for event in view.events] == ["placed"] * 4
    assert [one.user for one in view.pending] == ["ann", "bob"]
    assert "needs 4 cpu" in view.pending[0].explanations["6"]
    where = {one.task: one.server for one in done.placed}
    assert {node: {name for name, _ in tasks} for node, tasks in view.on_nodes.items()} == {
        node: {name for name in where if where[name] == node} for node in where.values()
    }
    slurm.schedule()
    slurm.end("1")
    slurm.now += 1
    clock[0] += 1.5
    done = ours.cycle()
    publisher.on_cycle(done)
    assert publisher.worker.step()
    assert not publisher.worker.step()  # there is nothing new
    later = store.view()
    assert later.version == view.version + 2  # numbers, then explanations
    assert [event.kind for event in later.events][:2] == ["ended", "placed"]
    found = store.columns("15 min", ["ann", "bob"])
    assert found.time.size == 2
    assert found.placed.tolist() == [4.0, 1.0]
    assert found.share["bob"].tolist() == [0.5, 0.5]
    assert found.fair["ann"].tolist() == pytest.approx([0.5, 0.5])


def test_a_cluster_is_not_observed_too_often() -> None:
    clock = [0.0]
    store = LiveStore(clock=lambda: clock[0])
    live = cluster_of(read_state(NODES, JOBS, NOW), SITE)
    assert store.due()
    store.observe(live)
    clock[0] = 5.0
    assert not store.due()  # nobody watches
    store.view()
    assert store.due()  # now somebody does
    store.observe(live)
    clock[0] = 5.4
    assert not store.due()
    clock[0] = 6.5
    store.view()
    assert store.due()
    store.observe(live)
    store.request_explanation("4")
    assert store.due()  # somebody waits for an answer


def test_a_slow_observation_is_followed_by_a_long_pause() -> None:
    now = [0.0]

    def clock() -> float:
        now[0] += 1.0  # every step of an observation takes long
        return now[0]

    store = LiveStore(clock=clock)
    store.view()
    began = now[0]
    store.observe(cluster_of(read_state(NODES, JOBS, NOW), SITE))
    ended = now[0]
    while not store.due():
        store.view()
    assert now[0] - ended >= ended - began  # as long as the observation at least


class Busy:
    """A controller, and a cluster to which a job is submitted before each round."""

    def __init__(self) -> None:
        self.slurm = ModelSlurm(SIZES)
        self.controller = SlurmController(
            self.slurm, SlurmConfig(), SchedulerCache(), clock=lambda: self.slurm.now
        )

    def round(self) -> Cycle:
        self.slurm.submit("ann", 1, 100)
        self.slurm.schedule()
        self.slurm.now += 1
        return self.controller.cycle()


def test_the_controller_only_hands_over_and_the_newest_cycle_counts() -> None:
    busy = Busy()
    threads: list[int] = []
    times: list[float] = []
    begun, go_on, both = threading.Event(), threading.Event(), threading.Event()

    class Slow(LiveStore):
        def due(self) -> bool:
            return True

        def observe(self, cluster: LiveCluster, *, starts: bool = True) -> None:
            threads.append(threading.get_ident())
            times.append(cluster.time)
            begun.set()
            go_on.wait(60)
            super().observe(cluster, starts=starts)
            if len(times) == 2:
                both.set()

    store = Slow()
    with Publisher(store) as publisher:
        publisher.on_cycle(first := busy.round())
        assert begun.wait(60)
        publisher.on_cycle(busy.round())
        publisher.on_cycle(third := busy.round())
        go_on.set()
        assert both.wait(60)
    assert times == [first.cluster.time, third.cluster.time]
    assert threading.get_ident() not in threads
    assert not publisher.worker.alive
    view = store.view()
    assert (view.placed, len(view.events)) == (3, 3)  # also of the round that was not observed
    assert view.status is not None
    assert view.status.totals["cpu"].used == 3


def test_a_view_that_cannot_follow_says_so_once_and_recovers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ours = Busy()
    done = ours.round()
    store = LiveStore()
    publisher = Publisher(store)
    with monkeypatch.context() as broken:
        broken.setattr("drfh.web.live.store.status_of", lambda live: 1 / 0)
        for _ in range(2):
            publisher.on_cycle(done)
            assert publisher.worker.step()
    text = "the live view could not follow (ZeroDivisionError: division by zero)"
    assert caplog.messages == ["live view not updated error=ZeroDivisionError('division by zero')"]
    assert store.view().trouble == text
    now = replace(done, cluster=replace(done.cluster, time=time.time()))
    publisher.on_cycle(now)
    assert publisher.worker.step()
    assert store.view().trouble == ""
    assert store.view().status is not None


def test_cycles_that_fail_are_trouble_and_going_on_is_not() -> None:
    ours, store = Busy(), LiveStore()
    publisher = Publisher(store)
    for _ in range(2):  # twice alike
        publisher.on_failure(CycleFailure(SlurmError("slurmctld does not answer"), 1))
        assert store.view().trouble == "slurmctld does not answer"
        done = ours.round()
        now = replace(done, cluster=replace(done.cluster, time=time.time()))
        publisher.on_cycle(now)
        store.request_explanation("1")
        assert publisher.worker.step()
        assert store.view().trouble == ""
    kinds = Counter(event.kind for event in store.view().events)
    assert (kinds["trouble"], kinds["note"]) == (2, 2)


def test_a_taken_port_does_not_keep_a_controller_from_its_work() -> None:
    pytest.importorskip("nicegui")
    said: list[str] = []
    facts: dict[str, str] = {}

    def printer(text: str, **more: str) -> None:
        said.append(text)
        facts.update(more)

    with socket.create_server(("127.0.0.1", 0)) as taken, ExitStack() as stack:
        place = WebAddress("127.0.0.1", taken.getsockname()[1])
        assert publish(stack, "a cluster", "", place, printer, 1.0) is None
    [line] = said
    assert line.startswith("there is no live view (--web-port must be free on 127.0.0.1")
    assert facts == {"live_view_error": line}


def test_trouble_is_not_over_because_of_an_older_observation() -> None:
    store = LiveStore()
    live = cluster_of(read_state(NODES, JOBS, NOW), SITE)
    store.trouble("slurmctld is away", NOW + 1)
    store.observe(live)
    assert store.view().trouble == "slurmctld is away"
    assert store.view().status is not None
    store.observe(cluster_of(read_state(NODES, JOBS, NOW + 2), SITE))
    assert store.view().trouble == ""


def test_requested_explanations_come_with_the_next_observation() -> None:
    store = LiveStore()
    live = cluster_of(read_state(NODES, JOBS, NOW), SITE)
    store.observe(live)
    assert store.request_explanation(" 5 ") == "5"
    assert store.request_explanation("20_[1-9]") == "20"
    for wrong in ("all", "", "5; rm"):
        with pytest.raises(InputError, match="job must be a number"):
            store.request_explanation(wrong)
    assert not store.view().explanations
    store.observe(live)
    answers = store.view().explanations
    assert answers["5"].text.startswith("job 5 of bob never runs: it needs 64 cpu")
    assert "array 20 of ann has 10 tasks left" in answers["20"].text
    assert "job 20_1 of ann" in answers["20"].text
    for i in range(200):
        store.request_explanation(str(1000 + i))
        if i % 10 == 0:
            store.observe(live)
    assert len(store.view().explanations) <= 50


def test_trouble_is_one_event_and_ends_with_an_observation() -> None:
    store = LiveStore()
    store.trouble("slurmctld is away", 1.0)
    store.trouble("slurmctld is away", 2.0)
    view = store.view()
    assert (view.trouble, len(view.events), view.status) == ("slurmctld is away", 1, None)
    store.observe(cluster_of(read_state(NODES, JOBS, NOW), SITE))
    assert store.view().trouble == ""
    assert store.view().events[0].kind == "note"  # an entry of Slurm that cannot be read
    for i in range(1000):
        store.note(f"line {i}")
    store.trouble("again")
    assert len(store.view().events) == 300


def test_pages_in_other_threads_see_whole_snapshots() -> None:
    store = LiveStore()
    stop = threading.Event()
    wrong: list[str] = []

    def read() -> None:
        while not stop.is_set():
            view = store.view()
            found = store.columns("15 min", USERS)
            if view.status is not None and view.nodes.cells.states.size != 64:
                wrong.append("half a snapshot")
            if any(row.size != found.time.size for row in found.share.values()):
                wrong.append("half a history")

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for step in range(60):
        status = made_up(64, step)
        store.update(replace(status, time=NOW + step))
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


# Who waits


def test_answers_take_turns_when_time_is_short() -> None:
    entries = [job(i, f"u{i}", 64 if i == 3 else 4) for i in range(8)]
    entries += [job(100, "u1", 4, on="n0"), job(101, "u2", 8, on="n1")]
    live = cluster_of(read_state([node("n0"), node("n1", 8)], entries, NOW), SlurmConfig())
    status = status_of(live)
    queue = PendingQueue()
    answered: list[str] = []
    for number in range(1, 9):
        found = {one.user: one for one in queue.observe(live, status, budget=0.0)}
        assert set(found) == {f"u{i}" for i in range(8)}
        explained = [user for user, one in found.items() if one.explanations]
        assert len(explained) == number  # one more each time, and nobody loses his
        answered += [user for user in explained if user not in answered]
    assert sorted(answered) == sorted(found)
    assert found["u3"].explanations["3"].startswith("job 3 of u3 never runs")
    assert (found["u3"].never, found["u3"].waiting) == (1, 0)
    fewer = [entry for entry in entries if entry["job_id"] != 5]
    live = cluster_of(read_state([node("n0"), node("n1", 8)], fewer, NOW), SlurmConfig())
    later = {one.user: one for one in queue.observe(live, status_of(live), budget=0.0)}
    assert later == {user: one for user, one in found.items() if user != "u5"}


def test_kinds_of_jobs_are_explained_and_not_each_job() -> None:
    entries = [job(i, "ann", 1 + i // 10) for i in range(40)]
    live = cluster_of(read_state([node("n0", 8)], entries, NOW), SlurmConfig())
    [found] = PendingQueue().observe(live, status_of(live))
    assert list(found.explanations) == ["0", "10"]
    assert found.waiting == 40
