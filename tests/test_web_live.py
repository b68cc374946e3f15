"""The live view: what it remembers and says, and the page in a real browser, on a real Slurm."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from drfh.cli import main
from drfh.cli.slurm_web import Place, follow
from drfh.engines.mirror import Mirror
from drfh.engines.slurm.controller import Controller, Cycle
from drfh.engines.slurm.live import Live, understood
from drfh.engines.slurm.picture import look
from drfh.engines.slurm.sandbox import Sandbox
from drfh.engines.slurm.site import Site
from drfh.engines.slurm.status import status_of
from drfh.errors import InputError, UnknownNameError
from drfh.report.parts import part_text
from drfh.web.feed import Feed
from drfh.web.follower import Follower
from drfh.web.happened import Event, changes
from drfh.web.history import SPANS, History, Moment
from drfh.web.live_server import live_site
from drfh.web.live_words import (
    choose_users,
    events_markup,
    facts_of,
    shares_words,
    users_markup,
    waits_markup,
)
from drfh.web.waits import Waits, WaitsDesk
from tests.live_pages import View, Watched, environment, made_up_view
from tests.live_server import USERS, made_up
from tests.model_slurm import ModelSlurm
from tests.test_slurm_look import JOBS, NODES, NOW, SITE, job, node

SIZES = {"n0": (4, 8000), "n1": (8, 4000), "n2": (4, 4000)}


# The past


def test_the_past_is_bounded_and_in_order() -> None:
    history = History(points=10, users=3)
    for second in range(50):
        users = {f"u{second // 10}": (second / 100, 0.5), "ann": (0.1, None)}
        history.add(Moment(1000.0 + second, users, distance=second / 50, placed=1))
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
    history = History(points=4, users=2)
    history.add(Moment(1000.0, {"a": (0.1, 0.1), "b": (0.2, 0.2), "c": (0.3, 0.3)}))
    assert set(history.columns("15 min", "abc").share) == {"a", "b"}
    history.add(Moment(990.0, {}))  # a little back: it does not count
    assert history.columns("15 min").time.tolist() == [1000.0]
    history.add(Moment(500.0, {"c": (0.3, 0.3)}))
    assert history.columns("15 min", "abc").time.tolist() == [500.0]
    assert set(history.columns("15 min", "abc").share) == {"c"}


# What happened


def test_changes_between_two_looks() -> None:
    before = understood(look(NODES, JOBS, NOW), SITE)
    nodes = [node("n0", state="drained"), NODES[1], node("n3", 16), node("n9")]
    jobs = [one for one in JOBS if one["job_id"] not in (1, 2, 20)]
    jobs += [job(2, "ann", 1, on="n1"), job(20, "ann", 2, array_job_id=20, array_task_id=0)]
    after = understood(look(nodes, jobs, NOW + 5), SITE)
    assert changes(None, before, starts=True) == []
    found = [(event.kind, event.text) for event in changes(before, after, starts=True)]
    assert found == [
        ("node", "n0 takes nothing new"),
        ("node", "n3 is up"),
        ("node", "n9 is new"),
        ("node", "n2 is gone"),
        ("ended", "job 1 of ann on n0"),
        ("back", "job 20_0 of ann on n1"),
        ("started", "job 2 of ann on n1"),
    ]
    quiet = [(event.kind, event.text) for event in changes(before, after)]
    assert quiet == [pair for pair in found if pair[0] in ("node", "ended")]


def test_many_events_of_a_kind_are_one_line() -> None:
    entries = [job(i, f"u{i % 7}", 1, on="n1") for i in range(1, 9)]
    before = understood(look([node("n1", 64)], entries, NOW), Site())
    after = understood(look([node("n1", 64)], [], NOW + 1), Site())
    [event] = changes(before, after)
    assert event.text == "8 jobs (u1 2, u2 1, u3 1, u4 1, 3 others)"


# The feed


def test_rounds_of_a_controller_are_told() -> None:
    slurm = ModelSlurm(SIZES)
    clock = [0.0]
    feed = Feed("model", clock=lambda: clock[0])
    ours = Controller(slurm, Site(), Mirror(), clock=lambda: slurm.now)
    for i in range(6):
        slurm.submit("ann" if i % 2 else "bob", 4, 1000)
    done = ours.cycle()
    follower = Follower(feed)
    follower.round(ours, done)
    assert follower.step()
    seen = feed.snapshot()
    assert seen.status is not None
    # What was placed counts as started, in all numbers alike.
    assert sum(user.starting for user in seen.status.users) == len(done.placed) == 4
    assert sum(user.waiting for user in seen.status.users) == 2
    assert seen.status.totals["cpu"].used == 16
    assert [user.share for user in seen.status.users] == [0.5, 0.5]
    assert seen.placed == 4
    assert [event.kind for event in seen.events] == ["placed"] * 4
    assert [one.user for one in seen.waits] == ["ann", "bob"]
    assert "needs 4 cpu" in seen.waits[0].answers["6"]
    where = {one.task: one.server for one in done.placed}
    assert {node: {name for name, _ in tasks} for node, tasks in seen.on_nodes.items()} == {
        node: {name for name in where if where[name] == node} for node in where.values()
    }
    slurm.schedule()
    slurm.end("1")
    slurm.now += 1
    clock[0] += 1.5
    follower.round(ours, ours.cycle())
    assert follower.step()
    assert not follower.step()  # there is nothing new
    later = feed.snapshot()
    assert later.version == seen.version + 2  # numbers, then words
    assert [event.kind for event in later.events][:2] == ["ended", "placed"]
    found = feed.columns("15 min", ["ann", "bob"])
    assert found.time.size == 2
    assert found.placed.tolist() == [4.0, 1.0]
    assert found.share["bob"].tolist() == [0.5, 0.5]
    assert found.fair["ann"].tolist() == pytest.approx([0.5, 0.5])


def test_looks_are_not_taken_too_often() -> None:
    clock = [0.0]
    feed = Feed(clock=lambda: clock[0])
    live = understood(look(NODES, JOBS, NOW), SITE)
    assert feed.due()
    feed.look(live)
    clock[0] = 5.0
    assert not feed.due()  # nobody watches
    feed.snapshot()
    assert feed.due()  # now somebody does
    feed.look(live)
    clock[0] = 5.4
    assert not feed.due()
    clock[0] = 6.5
    feed.snapshot()
    assert feed.due()
    feed.look(live)
    feed.ask("4")
    assert feed.due()  # somebody waits for an answer


def test_a_slow_look_is_followed_by_a_long_pause() -> None:
    now = [0.0]

    def clock() -> float:
        now[0] += 1.0  # every step of a look takes long
        return now[0]

    feed = Feed(clock=clock)
    feed.snapshot()
    began = now[0]
    feed.look(understood(look(NODES, JOBS, NOW), SITE))
    ended = now[0]
    while not feed.due():
        feed.snapshot()
    assert now[0] - ended >= ended - began  # as long as the look at least


class Busy:
    """A controller, and a cluster to which a job is submitted before each round."""

    def __init__(self) -> None:
        self.slurm = ModelSlurm(SIZES)
        self.controller = Controller(self.slurm, Site(), Mirror(), clock=lambda: self.slurm.now)

    def round(self) -> Cycle:
        self.slurm.submit("ann", 1, 100)
        self.slurm.schedule()
        self.slurm.now += 1
        return self.controller.cycle()


def test_the_controller_only_hands_over_and_the_newest_round_counts() -> None:
    busy = Busy()
    threads: list[int] = []
    times: list[float] = []
    begun, go_on, seen_all = threading.Event(), threading.Event(), threading.Event()

    class Slow(Feed):
        def due(self) -> bool:
            return True

        def look(self, live: Live, *, starts: bool = True) -> None:
            threads.append(threading.get_ident())
            times.append(live.picture.time)
            begun.set()
            go_on.wait(60)
            super().look(live, starts=starts)
            if len(times) == 2:
                seen_all.set()

    feed = Slow()
    with Follower(feed) as follower:
        follower.round(busy.controller, first := busy.round())
        assert begun.wait(60)
        follower.round(busy.controller, busy.round())
        follower.round(busy.controller, third := busy.round())
        go_on.set()
        assert seen_all.wait(60)
    assert times == [first.time, third.time]
    assert threading.get_ident() not in threads
    assert not follower._thread.is_alive()
    seen = feed.snapshot()
    assert (seen.placed, len(seen.events)) == (3, 3)  # also of the round that nobody looked at
    assert seen.status is not None
    assert seen.status.totals["cpu"].used == 3


def test_a_view_that_cannot_follow_says_so_once_and_recovers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = Busy()
    done = ours.round()
    said: list[str] = []
    feed = Feed()
    follower = Follower(feed, said.append)
    with monkeypatch.context() as broken:
        broken.setattr("drfh.web.feed.status_of", lambda live: 1 / 0)
        for _ in range(2):
            follower.round(ours.controller, done)
            assert follower.step()
    words = "the live view could not follow (ZeroDivisionError: division by zero)"
    assert said == [words]
    assert feed.snapshot().trouble == words
    now = replace(done, picture=replace(done.picture, time=time.time()))
    follower.round(ours.controller, now)
    assert follower.step()
    assert feed.snapshot().trouble == ""
    assert feed.snapshot().status is not None


def test_rounds_that_fail_are_trouble_and_going_on_is_not() -> None:
    ours, feed = Busy(), Feed()
    follower = Follower(feed)
    for _ in range(2):  # twice alike
        follower.failed("slurmctld does not answer", 1)
        assert feed.snapshot().trouble == "slurmctld does not answer"
        follower.failed("goes on after 1 rounds that failed", 1)
        done = ours.round()
        now = replace(done, picture=replace(done.picture, time=time.time()))
        follower.round(ours.controller, now)
        feed.ask("1")
        assert follower.step()
        assert feed.snapshot().trouble == ""
    kinds = Counter(event.kind for event in feed.snapshot().events)
    assert (kinds["trouble"], kinds["note"]) == (2, 2)


def test_a_taken_port_does_not_keep_a_controller_from_its_work() -> None:
    pytest.importorskip("nicegui")
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as taken, ExitStack() as stack:
        place = Place("127.0.0.1", taken.getsockname()[1])
        assert follow(stack, "a cluster", "", place, said.append, 1.0) is None
    [line] = said
    assert line.startswith("there is no live view (--web-port must be free on 127.0.0.1")


def test_trouble_is_not_over_because_of_an_older_look() -> None:
    feed = Feed()
    live = understood(look(NODES, JOBS, NOW), SITE)
    feed.trouble("slurmctld is away", NOW + 1)
    feed.look(live)
    assert feed.snapshot().trouble == "slurmctld is away"
    assert feed.snapshot().status is not None
    feed.look(understood(look(NODES, JOBS, NOW + 2), SITE))
    assert feed.snapshot().trouble == ""


def test_questions_are_answered_with_the_next_look() -> None:
    feed = Feed()
    live = understood(look(NODES, JOBS, NOW), SITE)
    feed.look(live)
    assert feed.ask(" 5 ") == "5"
    assert feed.ask("20_[1-9]") == "20"
    for wrong in ("all", "", "5; rm"):
        with pytest.raises(InputError, match="job must be a number"):
            feed.ask(wrong)
    assert not feed.snapshot().answers
    feed.look(live)
    answers = feed.snapshot().answers
    assert answers["5"].text.startswith("job 5 of bob never runs: it needs 64 cpu")
    assert "array 20 of ann has 10 tasks left" in answers["20"].text
    assert "job 20_1 of ann" in answers["20"].text
    for i in range(200):
        feed.ask(str(1000 + i))
        if i % 10 == 0:
            feed.look(live)
    assert len(feed.snapshot().answers) <= 50


def test_trouble_is_told_once_and_ends_with_a_look() -> None:
    feed = Feed()
    feed.trouble("slurmctld is away", 1.0)
    feed.trouble("slurmctld is away", 2.0)
    seen = feed.snapshot()
    assert (seen.trouble, len(seen.events), seen.status) == ("slurmctld is away", 1, None)
    feed.look(understood(look(NODES, JOBS, NOW), SITE))
    assert feed.snapshot().trouble == ""
    assert feed.snapshot().events[0].kind == "note"  # an entry of Slurm that cannot be read
    for i in range(1000):
        feed.note(f"line {i}")
    feed.trouble("again")
    assert len(feed.snapshot().events) == 300


def test_pages_in_other_threads_see_whole_snapshots() -> None:
    feed = Feed()
    stop = threading.Event()
    wrong: list[str] = []

    def read() -> None:
        while not stop.is_set():
            seen = feed.snapshot()
            found = feed.columns("15 min", USERS)
            if seen.status is not None and seen.nodes.cells.states.size != 64:
                wrong.append("half a snapshot")
            if any(row.size != found.time.size for row in found.share.values()):
                wrong.append("half a history")

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for step in range(60):
        status = made_up(64, step)
        feed.take(replace(status, time=NOW + step))
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


# Who waits


def test_answers_take_turns_when_time_is_short() -> None:
    entries = [job(i, f"u{i}", 64 if i == 3 else 4) for i in range(8)]
    entries += [job(100, "u1", 4, on="n0"), job(101, "u2", 8, on="n1")]
    live = understood(look([node("n0"), node("n1", 8)], entries, NOW), Site())
    status = status_of(live)
    desk = WaitsDesk()
    answered: list[str] = []
    for number in range(1, 9):
        found = {one.user: one for one in desk.look(live, status, budget=0.0)}
        assert set(found) == {f"u{i}" for i in range(8)}
        told = [user for user, one in found.items() if one.answers]
        assert len(told) == number  # one more each time, and nobody loses his
        answered += [user for user in told if user not in answered]
    assert sorted(answered) == sorted(found)
    assert found["u3"].answers["3"].startswith("job 3 of u3 never runs")
    assert (found["u3"].never, found["u3"].waiting) == (1, 0)
    fewer = [entry for entry in entries if entry["job_id"] != 5]
    live = understood(look([node("n0"), node("n1", 8)], fewer, NOW), Site())
    later = {one.user: one for one in desk.look(live, status_of(live), budget=0.0)}
    assert later == {user: one for user, one in found.items() if user != "u5"}


def test_kinds_of_jobs_are_told_and_not_each_job() -> None:
    entries = [job(i, "ann", 1 + i // 10) for i in range(40)]
    live = understood(look([node("n0", 8)], entries, NOW), Site())
    [found] = WaitsDesk().look(live, status_of(live))
    assert list(found.answers) == ["0", "10"]
    assert found.waiting == 40


# Words


def test_numbers_at_the_top() -> None:
    live = understood(look(NODES, JOBS, NOW), SITE)
    facts = {fact.name: fact for fact in facts_of(status_of(live))}
    assert (facts["distance"].value, facts["distance"].note) == (
        "100 %", "bob has 0 % of its fair share")  # fmt: skip
    assert facts["jobs"].value == "3 run, 11 wait"
    assert facts["jobs"].note == "1 starting, 2 set aside, 1 never fit, 3 not drfh's"
    assert (facts["nodes"].value, facts["nodes"].note) == ("2 up", "1 draining, 1 down")
    assert (facts["used-cpu"].value, facts["used-cpu"].note) == ("58.3 %", "7 of 12")
    assert facts["used-memory"].note == "3Gi of 16Gi"
    even = [job(1, "ann", 2, on="n0"), job(2, "bob", 2, on="n0")]
    facts_even = facts_of(status_of(understood(look([node("n0")], even, NOW), Site())))
    assert facts_even[0].note == "nobody has less than its fair share"
    empty = facts_of(status_of(understood(look([node("n0")], [], NOW), Site())))
    assert empty[0].note == "nobody has jobs that could run"
    assert empty[2].note == "all of them"


def test_names_are_never_markup() -> None:
    status = made_up(4)
    bad = "<b>eve</b>"
    for markup in (
        users_markup(status),
        waits_markup([Waits(bad, 1, 0, {bad: 1}, {"1": bad})]),
        events_markup([Event(0.0, "note", bad), Event(0.0, bad, "x")]),
    ):
        assert "&lt;b&gt;eve" in markup
        assert "<b>eve" not in markup
    assert bad in shares_words(status, [bad, "nobody"])


def test_users_in_a_table() -> None:
    status = made_up(4)
    markup = users_markup(status)
    assert markup.count("<tr>") == 1 + len(USERS)
    assert markup.index(">ann<") < markup.index(">zoe<")  # furthest from fair first
    assert "--has: 20.00%; --fair: 33.33%" in markup  # of the largest, which is zoe's
    assert "weight" in markup
    many = replace(status, users=tuple(replace(status.users[0], name=f"u{i}") for i in range(30)))
    assert users_markup(many).count("<tr>") == 21
    assert "… and 10 users nearer to fair" in users_markup(many)
    assert users_markup(many, everyone=True).count("<tr>") == 31
    assert "Nobody has a job." in users_markup(replace(status, users=()))
    assert waits_markup([]) == '<p class="note">Nobody waits.</p>'
    assert events_markup([]) == '<p class="note">Nothing has happened yet.</p>'
    assert choose_users(status, [], 2) == ["zoe", "a-user-with-quite-a-long-name"]


# What needs NiceGUI, and what does without


def test_nicegui_is_not_imported_before_a_page_is_served() -> None:
    code = (
        "import sys, drfh.web, drfh.web.feed, drfh.web.follower, "
        "drfh.web.live_server, drfh.web.live_words; "
        "assert not {'nicegui', 'fastapi', 'uvicorn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], env=environment(), check=True)


@pytest.mark.parametrize("verb", ["run", "status"])
@pytest.mark.parametrize("option", ["--web", "--web-port=0"])
def test_without_the_extra(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    option: str,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["slurm", verb, option]) == 2
    assert (
        capsys.readouterr()
        .err.strip()
        .endswith("pages need the extra [web]: pip install 'drfh[web]'")
    )


def test_places_that_cannot_be_had() -> None:
    pytest.importorskip("nicegui")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        rule = r"--web-port must be free on 127.0.0.1 \(Address already in use"
        with pytest.raises(InputError, match=rule):
            live_site(Feed(), port)
    with pytest.raises(InputError, match="--web-port must be from 0 to 65535, got 70000"):
        live_site(Feed(), 70000)
    with pytest.raises(InputError, match=r"--web-port must be free on 192\.0\.2\.1"):
        live_site(Feed(), 0, "192.0.2.1")
    with pytest.raises(InputError, match="--web-host must be an address of this machine"):
        live_site(Feed(), 0, "no such host")


# In a browser


@pytest.fixture(scope="module")
def small(browser: Any) -> Iterator[View]:
    with made_up_view(64) as found:
        yield found


def last(page: Watched, chart: str) -> Any:
    text = page.page.get_attribute(f"[data-testid={chart}]", "data-last")
    return json.loads(text)


def check_page(page: Watched, nodes: int) -> None:
    """Check that the page says what the made-up cluster is at its first step."""
    status = made_up(nodes)
    assert page.text("live-title") == "sandbox, live"
    assert "best-fit-drfh places jobs by user" in page.text("live-how")
    for fact in facts_of(status):
        shown = page.text(f"fact-{fact.name}")
        assert [fact.label, fact.value] == shown.splitlines()[:2]
        assert fact.note in shown
    users = page.text("live-users")
    for user in status.users:
        assert user.name in users
        assert part_text(user.share) in users
    shares = last(page, "live-shares-chart")
    known = {user.name: user for user in status.users}
    drawn = [known[name] for name in choose_users(status, [], 6)]
    expected = [*(user.share for user in drawn), *(user.ideal for user in drawn)]
    assert shares == pytest.approx(expected, rel=1e-4)
    assert last(page, "live-distance-chart") == pytest.approx([status.distance])
    assert last(page, "live-queue-chart") == [50, 0]
    assert "job 12 of bob waits: it needs 64 cpu" in page.text("live-waits")
    assert "2 jobs set aside: held by its owner" in page.text("live-waits")
    assert "job 13 of <b>eve</b> waits" in page.text("live-waits")
    assert "the made-up cluster has started" in page.text("live-events")
    heat = page.page.locator("[data-testid=heat-view]")
    assert heat.get_attribute("data-cells") == str(nodes)


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_says_what_is(browser: Any, small: View, scheme: str, width: int) -> None:
    page = Watched(browser, small.url, scheme, width)
    check_page(page, 64)
    background = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 24, 31)")
    wider = page.page.evaluate("""() => [...document.querySelectorAll(".live *")].filter((one) => {
        const box = one.getBoundingClientRect();
        return box.width && (box.right > innerWidth + 1 || box.left < -1)
          && !one.closest(".table, .unseen, ol.events"); }).map((one) => one.className)""")
    assert wider == []
    page.close()


def test_the_switch_wins_over_the_system(browser: Any, small: View) -> None:
    page = Watched(browser, small.url, "light")
    colours = []
    for name in ("dark", "light", "auto"):
        page.page.click(f"[data-testid=live-scheme] >> text={name}")
        page.page.wait_for_timeout(400)
        colours.append(page.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgb(20, 24, 31)", "rgb(255, 255, 255)", "rgb(255, 255, 255)"]
    page.close()


@pytest.mark.parametrize("nodes", [64, 12_583])
def test_the_page_follows_by_itself(browser: Any, nodes: int) -> None:
    with made_up_view(nodes) as view:
        page = Watched(browser, view.url)
        check_page(page, nodes)
        points = int(page.page.get_attribute("[data-testid=live-shares-chart]", "data-points"))
        page.page.wait_for_timeout(1100)  # a point of the past is a second at least
        view.tell("step")
        status = made_up(nodes, 1)
        facts = {fact.name: fact for fact in facts_of(status)}
        page.page.wait_for_function(
            "text => document.querySelector('[data-testid=fact-jobs]').innerText.includes(text)",
            arg=facts["jobs"].value,
        )
        assert facts["distance"].note in page.text("fact-distance")
        [ann] = [user.share for user in status.users if user.name == "ann"]
        position = choose_users(status, [], 6).index("ann")
        page.page.wait_for_function(
            """([points, at, share]) => {
              const chart = document.querySelector("[data-testid=live-shares-chart]").dataset;
              return +chart.points > points
                && Math.abs(JSON.parse(chart.last)[at] - share) < 1e-4; }""",
            arg=[points, position, ann],
        )
        page.close()


def test_a_page_can_be_paused(browser: Any) -> None:
    with made_up_view(64) as view:
        page, other = Watched(browser, view.url), Watched(browser, view.url, width=900)
        page.page.click("[data-testid=live-pause]")
        page.page.wait_for_selector("[data-testid=live-pause]:has-text('go on')")
        view.tell("step")
        news = facts_of(made_up(64, 1))[1].value
        other.page.wait_for_selector(f"[data-testid=fact-jobs]:has-text('{news}')")
        page.page.wait_for_timeout(1500)
        assert facts_of(made_up(64))[1].value in page.text("fact-jobs")
        page.page.click("[data-testid=live-pause]")
        page.page.wait_for_selector(f"[data-testid=fact-jobs]:has-text('{news}')")
        page.close()
        other.close()


def test_users_and_spans_can_be_chosen(browser: Any, small: View) -> None:
    page = Watched(browser, small.url)
    assert len(last(page, "live-shares-chart")) == 2 * len(USERS)
    page.page.click("[data-testid=live-choice]")
    page.page.click(".q-menu >> text=bob")
    page.page.keyboard.press("Escape")
    chart = "JSON.parse(document.querySelector('[data-testid=live-shares-chart]').dataset.last)"
    page.page.wait_for_function(f"{chart}.length === 2")
    share = made_up(64).users[1]
    assert last(page, "live-shares-chart") == pytest.approx([share.share, share.ideal])
    points = int(page.page.get_attribute("[data-testid=live-shares-chart]", "data-points"))
    page.page.click(f"[data-testid=live-span] >> text={list(SPANS)[1]}")
    page.page.wait_for_function(
        "points => +document.querySelector('[data-testid=live-shares-chart]').dataset.points"
        " < points",
        arg=points,
    )
    page.close()


def test_a_question_on_the_page(browser: Any, small: View) -> None:
    page = Watched(browser, small.url)
    page.page.fill("[data-testid=live-job]", "everything")
    page.page.click("[data-testid=live-ask]")
    page.page.wait_for_selector("[data-testid=live-answer]:has-text('job must be a number')")
    page.page.fill("[data-testid=live-job]", "12")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("[data-testid=live-answer]:has-text('comes with the next look')")
    page.close()


def test_trouble_and_faults_are_shown(browser: Any) -> None:
    with made_up_view(4) as view:
        page = Watched(browser, view.url)
        assert not page.page.is_visible("[data-testid=live-trouble]")
        view.tell("trouble slurmctld does not answer")
        page.page.wait_for_selector("[data-testid=live-trouble]:has-text('does not answer')")
        view.tell("step")
        page.page.wait_for_selector("[data-testid=live-trouble]", state="hidden")
        view.tell("break")
        page.page.wait_for_selector("[data-testid=live-trouble]:has-text('has a fault')")
        assert not page.page.is_visible("[data-testid=live-lost]")
        page.check()
    page.page.wait_for_selector("[data-testid=live-lost]:has-text('no connection to drfh')")
    assert page.page.is_visible("[data-testid=live-facts]")  # what was seen last stays
    page.page.close()


def test_old_numbers_are_told_of(browser: Any) -> None:
    with made_up_view(4) as view:
        page = Watched(browser, view.url)
        view.tell("old 36000")
        page.page.wait_for_selector("[data-testid=live-trouble]:has-text('No new look for 10 h')")
        assert "10 h ago" in page.text("live-seen")
        page.close()


def answer(port: int | None, path: str = "/", **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port or 0, timeout=30)
    connection.request("GET", path, headers=headers)
    found = connection.getresponse().status
    connection.close()
    return found


def test_names_of_others_do_not_lead_here(small: View) -> None:
    port = urlsplit(small.url).port
    assert answer(port, Host=f"127.0.0.1:{port}") == 200
    assert answer(port, Host=f"evil.example:{port}") == 403
    assert answer(port, Host=f"127.0.0.1:{port}", Origin="http://evil.example") == 403


def test_an_address_that_others_reach_needs_the_token() -> None:
    with made_up_view(4, "0.0.0.0") as view:
        found = urlsplit(view.url)
        assert answer(found.port) == 403
        assert answer(found.port, "/?token=guess") == 403
        assert answer(found.port, f"/?{found.query}") == 303  # it becomes a cookie


# On a real Slurm


@pytest.fixture
def start(quiet_slurm: Sandbox) -> Iterator[Any]:
    """Return what starts drfh on the cluster, and gives it and where its page is."""
    pytest.importorskip("nicegui")
    running: list[subprocess.Popen[str]] = []

    def begin(*words: str) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "drfh", "slurm", *words],
            env=environment(quiet_slurm.environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        running.append(process)
        assert process.stdout is not None
        for line in process.stdout:
            if "live view: " in line:
                return process, line.split()[-1]
        raise AssertionError("there is no live view")

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def shown(page: Watched, name: str, words: str) -> None:
    page.page.wait_for_selector(f"[data-testid={name}]:has-text({json.dumps(words)})")


def test_a_live_run(browser: Any, quiet_slurm: Sandbox, start: Any) -> None:
    """Shares appear and change without reloading; a page that only looks says the same."""
    controller, url = start("run", "--web-port", "0", "--partition", "main", "--interval", "0.5")
    page = Watched(browser, url)
    shown(page, "live-users", "Nobody has a job.")
    assert page.page.locator("[data-testid=heat-view]").get_attribute("data-cells") == "16"
    options = ("--partition=main",)
    games = [quiet_slurm.submit("sleep 600", *options, user="games", cpus=4) for _ in range(4)]
    shown(page, "fact-jobs", "4 run, 0 wait")
    shown(page, "live-users", "games")
    total = sum(one.cpus for one in quiet_slurm.nodes.values())
    assert part_text(16 / total) in page.text("live-users")
    shown(page, "live-events", f"job {games[0]} of games on n")
    mail = [quiet_slurm.submit("sleep 600", *options, user="mail", cpus=8) for _ in range(2)]
    large = quiet_slurm.submit("sleep 600", *options, user="news", cpus=64)
    shown(page, "fact-jobs", "6 run, 0 wait")
    shown(page, "live-users", "mail")
    shown(page, "live-waits", f"job {large} of news never runs: it needs 64 cpu")
    page.page.wait_for_function(
        f"""JSON.parse(document.querySelector("[data-testid=live-shares-chart]").dataset.last)
          .filter((share) => Math.abs(share - {16 / total}) < 1e-4).length >= 2"""
    )
    shown(page, "fact-used-cpu", f"32 of {total}")
    quiet_slurm.run("scontrol", "update", "NodeName=n15", "State=DRAIN", "Reason=test")
    shown(page, "live-events", "n15 takes nothing new")
    shown(page, "fact-nodes", "15 up")
    page.page.fill("[data-testid=live-job]", mail[0])
    page.page.keyboard.press("Enter")
    shown(page, "live-answer", f"job {mail[0]} of mail runs on n")
    # Another page, of somebody who only looks.
    watcher, other_url = start("status", "--web-port", "0", "0.5")
    other = Watched(browser, other_url, width=900)
    shown(other, "fact-jobs", "6 run, 0 wait")
    assert "a view that only looks" in other.text("live-how")
    quiet_slurm.run("scancel", *games)
    for one in (page, other):
        shown(one, "fact-jobs", "2 run, 0 wait")
        shown(one, "live-events", "ended")
        one.close()
    watcher.send_signal(signal.SIGINT)
    assert watcher.wait(60) == 0
    controller.send_signal(signal.SIGTERM)
    assert controller.stdout is not None
    said = controller.stdout.read()
    assert controller.wait(60) == 0
    assert "stopped; waiting jobs stay held" in said
    assert "Traceback" not in said
