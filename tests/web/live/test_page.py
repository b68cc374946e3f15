"""The live view: what it says, and the page in a real browser, on a real Slurm."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from drfh.cli import main
from drfh.engines.slurm.cluster import cluster_of
from drfh.engines.slurm.config import SlurmConfig
from drfh.engines.slurm.sandbox import Sandbox
from drfh.engines.slurm.state import read_state
from drfh.engines.snapshot import BlockedCode, BlockedReason
from drfh.engines.status import status_of
from drfh.errors import InputError
from drfh.formatting import format_percent
from drfh.web.live.events import LiveEvent
from drfh.web.live.history import SPANS
from drfh.web.live.labels import (
    choose_users,
    events_markup,
    pending_markup,
    shares_text,
    status_tiles,
    users_markup,
)
from drfh.web.live.pending import Pending
from drfh.web.live.store import LiveStore
from tests.engines.slurm.entries import JOBS, NODES, NOW, SITE, job, node
from tests.web.live.pages import LiveTab, View, environment, made_up_view
from tests.web.live.server import USERS, made_up

# Texts


def test_numbers_at_the_top() -> None:
    live = cluster_of(read_state(NODES, JOBS, NOW), SITE)
    facts = {fact.name: fact for fact in status_tiles(status_of(live))}
    assert (facts["distance"].value, facts["distance"].note) == (
        "41.7 %", "bob has 0 % of its fair share")  # fmt: skip
    assert facts["jobs"].value == "3 run, 11 wait"
    assert facts["jobs"].note == "1 starting, 2 set aside, 1 never fit, 3 not drfh's"
    assert (facts["nodes"].value, facts["nodes"].note) == ("2 up", "1 draining, 1 down")
    assert (facts["used-cpu"].value, facts["used-cpu"].note) == ("58.3 %", "7 of 12")
    assert facts["used-memory"].note == "3Gi of 16Gi"
    even = [job(1, "ann", 2, on="n0"), job(2, "bob", 2, on="n0")]
    facts_even = status_tiles(
        status_of(cluster_of(read_state([node("n0")], even, NOW), SlurmConfig()))
    )
    assert facts_even[0].note == "nobody has less than its fair share"
    empty = status_tiles(status_of(cluster_of(read_state([node("n0")], [], NOW), SlurmConfig())))
    assert empty[0].note == "nobody has jobs that could run"
    assert empty[2].note == "all of them"


def test_names_are_never_markup() -> None:
    status = made_up(4)
    bad = "<b>eve</b>"
    why = BlockedReason(BlockedCode.HELD_BY_ENGINE, bad)
    for markup in (
        users_markup(status),
        pending_markup([Pending(bad, 1, 0, {why: 1}, {"1": bad})]),
        events_markup([LiveEvent(0.0, "note", bad), LiveEvent(0.0, bad, "x")]),
    ):
        assert "&lt;b&gt;eve" in markup
        assert "<b>eve" not in markup
    assert bad in shares_text(status, [bad, "nobody"])


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
    assert pending_markup([]) == '<p class="note">Nobody waits.</p>'
    assert events_markup([]) == '<p class="note">Nothing has happened yet.</p>'
    assert choose_users(status, [], 2) == ["zoe", "a-user-with-quite-a-long-name"]


# What needs NiceGUI, and what does without


def test_nicegui_is_not_imported_before_a_page_is_served() -> None:
    code = (
        "import sys, drfh.web, drfh.web.live.store, drfh.web.live.publisher, "
        "drfh.web.server.app, drfh.web.live.labels; "
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
    from drfh.web.live.page import live_server

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        rule = r"--web-port must be free on 127.0.0.1 \(Address already in use"
        with pytest.raises(InputError, match=rule):
            live_server(LiveStore(), port)
    with pytest.raises(InputError, match="--web-port must be from 0 to 65535, got 70000"):
        live_server(LiveStore(), 70000)
    with pytest.raises(InputError, match=r"--web-host must be an address of this machine"):
        live_server(LiveStore(), 0, "192.0.2.1")
    with pytest.raises(InputError, match="--web-host must be an address of this machine"):
        live_server(LiveStore(), 0, "no such host")


# In a browser


def last(page: LiveTab, chart: str) -> Any:
    text = page.page.get_attribute(f"[data-testid={chart}]", "data-last")
    return json.loads(text)


def check_page(page: LiveTab, nodes: int) -> None:
    """Check that the page says what the made-up cluster is at its first step."""
    status = made_up(nodes)
    assert page.text("live-title") == "sandbox, live"
    assert "best-fit-drfh places jobs by user" in page.text("live-how")
    for fact in status_tiles(status):
        shown = page.text(f"tile-{fact.name}")
        assert [fact.label, fact.value] == shown.splitlines()[:2]
        assert fact.note in shown
    users = page.text("live-users")
    for user in status.users:
        assert user.name in users
        assert format_percent(user.share, trim=True) in users
    shares = last(page, "live-shares-chart")
    known = {user.name: user for user in status.users}
    drawn = [known[name] for name in choose_users(status, [], 6)]
    expected = [*(user.share for user in drawn), *(user.fair_share for user in drawn)]
    assert shares == pytest.approx(expected, rel=1e-4)
    assert last(page, "live-distance-chart") == pytest.approx([status.distance])
    assert last(page, "live-queue-chart") == [50, 0]
    assert "job 12 of bob waits: it needs 64 cpu" in page.text("live-waits")
    assert "2 jobs set aside: held by its owner" in page.text("live-waits")
    assert "job 13 of <b>eve</b> waits" in page.text("live-waits")
    assert "the made-up cluster has started" in page.text("live-events")
    heat = page.page.locator("[data-testid=heat-view]")
    assert heat.get_attribute("data-cells") == str(nodes)


@pytest.mark.parametrize(
    ("scheme", "width"),
    [
        ("light", 1400),
        ("dark", 400),
        pytest.param("light", 400, marks=pytest.mark.slow),
        pytest.param("dark", 1400, marks=pytest.mark.slow),
    ],
)
def test_the_page_says_what_is(browser: Any, small: View, scheme: str, width: int) -> None:
    page = LiveTab(browser, small.url, scheme, width)
    check_page(page, 64)
    background = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 24, 31)")
    wider = page.page.evaluate("""() => [...document.querySelectorAll(".live *")].filter((one) => {
        const box = one.getBoundingClientRect();
        return box.width && (box.right > innerWidth + 1 || box.left < -1)
          && !one.closest(".table, .visually-hidden, ol.events"); }).map((one) => one.className)""")
    assert wider == []
    page.close()


def test_the_switch_wins_over_the_system(browser: Any, small: View) -> None:
    page = LiveTab(browser, small.url, "light")
    colours = []
    for name in ("dark", "light", "auto"):
        page.page.click(f"[data-testid=live-scheme] >> text={name}")
        page.page.wait_for_timeout(400)
        colours.append(page.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert colours == ["rgb(20, 24, 31)", "rgb(255, 255, 255)", "rgb(255, 255, 255)"]
    page.close()


def check_follows(page: LiveTab, view: View, nodes: int) -> None:
    """Check that the page says what the cluster is at its first step, and then at the next."""
    check_page(page, nodes)
    points = int(page.page.get_attribute("[data-testid=live-shares-chart]", "data-points"))
    page.page.wait_for_timeout(1100)  # a point of the past is a second at least
    view.tell("step")
    status = made_up(nodes, 1)
    facts = {fact.name: fact for fact in status_tiles(status)}
    page.page.wait_for_function(
        "text => document.querySelector('[data-testid=tile-jobs]').innerText.includes(text)",
        arg=facts["jobs"].value,
    )
    assert facts["distance"].note in page.text("tile-distance")
    [ann] = [user.share for user in status.users if user.name == "ann"]
    position = choose_users(status, [], 6).index("ann")
    page.page.wait_for_function(
        """([points, at, share]) => {
          const chart = document.querySelector("[data-testid=live-shares-chart]").dataset;
          return +chart.points > points
            && Math.abs(JSON.parse(chart.last)[at] - share) < 1e-4; }""",
        arg=[points, position, ann],
    )


def test_the_page_follows_by_itself_and_can_be_paused(browser: Any, small: View) -> None:
    page = LiveTab(browser, small.url)
    check_follows(page, small, 64)
    other = LiveTab(browser, small.url, width=900)
    page.page.click("[data-testid=live-pause]")
    page.page.wait_for_selector("[data-testid=live-pause]:has-text('go on')")
    small.tell("step")
    news = status_tiles(made_up(64, 2))[1].value
    other.page.wait_for_selector(f"[data-testid=tile-jobs]:has-text('{news}')")
    page.page.wait_for_timeout(1500)
    assert status_tiles(made_up(64, 1))[1].value in page.text("tile-jobs")
    page.page.click("[data-testid=live-pause]")
    page.page.wait_for_selector(f"[data-testid=tile-jobs]:has-text('{news}')")
    page.close()
    other.close()


@pytest.mark.slow
def test_the_page_of_a_large_cluster_follows_by_itself(browser: Any) -> None:
    with made_up_view(12_583) as view:
        page = LiveTab(browser, view.url)
        check_follows(page, view, 12_583)
        page.close()


def test_users_and_spans_can_be_chosen(browser: Any, small: View) -> None:
    page = LiveTab(browser, small.url)
    assert len(last(page, "live-shares-chart")) == 2 * len(USERS)
    page.page.click("[data-testid=live-choice]")
    page.page.click(".q-menu >> text=bob")
    page.page.keyboard.press("Escape")
    chart = "JSON.parse(document.querySelector('[data-testid=live-shares-chart]').dataset.last)"
    page.page.wait_for_function(f"{chart}.length === 2")
    share = made_up(64).users[1]
    assert last(page, "live-shares-chart") == pytest.approx([share.share, share.fair_share])
    points = int(page.page.get_attribute("[data-testid=live-shares-chart]", "data-points"))
    page.page.click(f"[data-testid=live-span] >> text={list(SPANS)[1]}")
    page.page.wait_for_function(
        "points => +document.querySelector('[data-testid=live-shares-chart]').dataset.points"
        " < points",
        arg=points,
    )
    page.close()


def test_a_question_on_the_page(browser: Any, small: View) -> None:
    page = LiveTab(browser, small.url)
    page.page.fill("[data-testid=live-job]", "everything")
    page.page.click("[data-testid=live-ask]")
    page.page.wait_for_selector("[data-testid=live-answer]:has-text('job must be a number')")
    page.page.fill("[data-testid=live-job]", "12")
    page.page.keyboard.press("Enter")
    page.page.wait_for_selector("[data-testid=live-answer]:has-text('comes with the next look')")
    page.close()


def test_trouble_old_numbers_and_faults_are_shown(browser: Any) -> None:
    with made_up_view(4) as view:
        page = LiveTab(browser, view.url)
        assert not page.page.is_visible("[data-testid=live-trouble]")
        view.tell("trouble slurmctld does not answer")
        page.page.wait_for_selector("[data-testid=live-trouble]:has-text('does not answer')")
        view.tell("step")
        page.page.wait_for_selector("[data-testid=live-trouble]", state="hidden")
        view.tell("old 36000")
        page.page.wait_for_selector("[data-testid=live-trouble]:has-text('No new look for 10 h')")
        assert "10 h ago" in page.text("live-observed")
        view.tell("break")
        page.page.wait_for_selector("[data-testid=live-trouble]:has-text('has a fault')")
        assert not page.page.is_visible("[data-testid=live-lost]")
        page.check()
    page.page.wait_for_selector("[data-testid=live-lost]:has-text('no connection to drfh')")
    assert page.page.is_visible("[data-testid=live-tiles]")  # the last numbers stay
    page.discard()


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

    def begin(*options: str) -> tuple[subprocess.Popen[str], str]:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "drfh", "slurm", *options],
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


def shown(page: LiveTab, name: str, text: str) -> None:
    page.page.wait_for_selector(f"[data-testid={name}]:has-text({json.dumps(text)})")


@pytest.mark.slow
def test_a_live_run(browser: Any, quiet_slurm: Sandbox, start: Any) -> None:
    """Shares appear and change without reloading; a page that only looks says the same."""
    controller, url = start("run", "--web-port", "0", "--partition", "main", "--interval", "0.5")
    page = LiveTab(browser, url)
    shown(page, "live-users", "Nobody has a job.")
    assert page.page.locator("[data-testid=heat-view]").get_attribute("data-cells") == "16"
    options = ("--partition=main",)
    games = [quiet_slurm.submit("sleep 600", *options, user="games", cpus=4) for _ in range(4)]
    shown(page, "tile-jobs", "4 run, 0 wait")
    shown(page, "live-users", "games")
    total = sum(one.cpus for one in quiet_slurm.nodes.values())
    assert format_percent(16 / total, trim=True) in page.text("live-users")
    shown(page, "live-events", f"job {games[0]} of games on n")
    mail = [quiet_slurm.submit("sleep 600", *options, user="mail", cpus=8) for _ in range(2)]
    large = quiet_slurm.submit("sleep 600", *options, user="news", cpus=64)
    shown(page, "tile-jobs", "6 run, 0 wait")
    shown(page, "live-users", "mail")
    shown(page, "live-waits", f"job {large} of news never runs: it needs 64 cpu")
    page.page.wait_for_function(
        f"""JSON.parse(document.querySelector("[data-testid=live-shares-chart]").dataset.last)
          .filter((share) => Math.abs(share - {16 / total}) < 1e-4).length >= 2"""
    )
    shown(page, "tile-used-cpu", f"32 of {total}")
    quiet_slurm.run("scontrol", "update", "NodeName=n15", "State=DRAIN", "Reason=test")
    shown(page, "live-events", "n15 takes nothing new")
    shown(page, "tile-nodes", "15 up")
    page.page.fill("[data-testid=live-job]", mail[0])
    page.page.keyboard.press("Enter")
    shown(page, "live-answer", f"job {mail[0]} of mail runs on n")
    # Another page, of somebody who only looks.
    watcher, other_url = start("status", "--web-port", "0", "0.5")
    other = LiveTab(browser, other_url, width=900)
    shown(other, "tile-jobs", "6 run, 0 wait")
    assert "a view that only looks" in other.text("live-how")
    quiet_slurm.run("scancel", *games)
    for one in (page, other):
        shown(one, "tile-jobs", "2 run, 0 wait")
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
