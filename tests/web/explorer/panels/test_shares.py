"""The panel "Who gets what": its numbers, and the page in a real browser."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from drfh import Cluster, Scenario, Server, User
from drfh.formatting import format_amount, format_number, format_percent
from drfh.web.components.bars import MOST_USERS, stacked_bars
from drfh.web.explorer.panels.shares import user_table
from drfh.web.session.answers import answer_of, user_rows
from drfh.web.session.workbook import Workbook
from tests.web.explorer.panels.scenarios import opened, rows_of, scenario_of
from tests.web.explorer.site import Site
from tests.web.used_rows import used_rows

# Cells whose text takes more than one line.
_WRAPPED = """cells => cells.filter((cell) => {
  const range = document.createRange();
  range.selectNodeContents(cell);
  return new Set([...range.getClientRects()].map((box) => box.top)).size > 1;
}).map((cell) => cell.innerText)"""


@pytest.mark.parametrize("name", ["gpu-cluster", "many", "hostile"])
@pytest.mark.parametrize("mechanism", ["drfh", "drf", "whole-tasks"])
def test_stacks_hold_what_the_rows_say(name: str, mechanism: str) -> None:
    answer = answer_of(Workbook(scenario_of(name)), mechanism)
    stacked = stacked_bars(answer)
    rows = used_rows(answer)
    everything: dict[str, float] = {}
    for row in rows:
        everything[row.resource] = everything.get(row.resource, 0.0) + row.capacity - row.free
        if row.group not in stacked.groups:
            continue
        line = stacked.groups.index(row.group), stacked.resources.index(row.resource)
        assert stacked.capacity[line] == pytest.approx(row.capacity)
        assert stacked.free[line] == pytest.approx(row.free, abs=1e-9 * row.capacity)
        used = dict(row.used)
        for position, user in enumerate(stacked.users):
            assert stacked.used[line][position] == pytest.approx(used.get(user, 0.0))
        if stacked.others:
            rest = sum(amount for user, amount in row.used if user not in stacked.users)
            assert stacked.used[line][-1] == pytest.approx(rest)
    for position, resource in enumerate(stacked.resources):
        assert stacked.used[:, position].sum() == pytest.approx(everything[resource])


def test_stacks_of_many_are_the_largest_and_those_searched_for() -> None:
    answer = answer_of(Workbook(scenario_of("many")))
    stacked = stacked_bars(answer)
    shares = answer.allocation.shares
    least = min(shares[user] for user in stacked.users)
    assert len(stacked.users) == MOST_USERS
    assert all(shares[user] <= least + 1e-12 for user in shares if user not in stacked.users)
    assert stacked.others == "22 other users"
    assert stacked.groups[-1] == f"{60 - len(stacked.groups) + 1} other groups"
    found = stacked_bars(answer, "TEAM-03, team-04", "rack-1")
    assert found.users == ("team-03", "team-04")
    assert found.groups == (*(f"rack-{g}" for g in range(10, 20)), "50 other groups")
    nobody = stacked_bars(answer, "nobody", "nowhere")
    assert (nobody.users, nobody.others) == ((), "30 other users")
    assert nobody.capacity.sum() == pytest.approx(stacked.capacity.sum())
    assert nobody.used.sum() == pytest.approx(stacked.used.sum())


def test_servers_that_are_listed_one_by_one_are_joined_by_size() -> None:
    sizes = [{"cpu": 8, "memory": 4}, {"cpu": 4, "memory": 32}, {"cpu": 4}]
    servers = [Server(sizes[s % 7 % 3], name=f"m{s}", count=1 + s % 2) for s in range(500)]
    users = (User("ann", {"cpu": 1, "memory": 2}), User("bob", {"cpu": 1}, servers=["m2", "m4"]))
    answer = answer_of(Workbook(Scenario(Cluster(servers), users)))
    stacked = stacked_bars(answer)
    assert stacked.groups == ("8 cpu, 4 memory", "4 cpu, 32 memory", "4 cpu")
    assert stacked.joined == 500  # so that one can be searched for
    rows = used_rows(answer)
    for group, size in enumerate(sizes):
        members = {s.name: s.count for s in servers if dict(s.resources) == size}
        assert stacked.notes[group] == f"{sum(members.values())} servers"
        for position, resource in enumerate(stacked.resources):
            found = [row for row in rows if row.group in members and row.resource == resource]
            line = group, position
            assert stacked.capacity[line] == pytest.approx(sum(row.capacity for row in found))
            assert stacked.free[line] == pytest.approx(sum(row.free for row in found), abs=1e-6)
    assert stacked_bars(answer, "", "m499").groups == ("m499", "499 other groups")


def test_reasons_do_not_repeat_long_names() -> None:
    long = "team-" * 12
    users = (User(long, {"cpu": 1}, tasks=2), User("gpus", {"gpu": 1}, servers=["a"]))
    servers = [Server({"cpu": 4}, name="a"), Server({"cpu": 1, "gpu": 1}, name="b")]
    shown = user_table(user_rows(answer_of(Workbook(Scenario(Cluster(servers), users)))), 2)
    assert shown.count(long) == 1
    assert ">it has all of its 2 tasks.<" in shown
    assert ">it gets nothing: no server that it may use has gpu.<" in shown


@pytest.mark.parametrize("mechanism", ["drfh", "drf"])
def test_shares_on_the_page_are_right(browser: Any, site: Site, mechanism: str) -> None:
    with opened(browser, site, "shares", "gpu-cluster", mechanism) as page:
        answer = answer_of(Workbook(scenario_of("gpu-cluster")), mechanism)
        head, *rows = rows_of(page, "shares-server-table")
        names = list(answer.allocation.tasks)
        assert head == ["server group", "resource", "there is", *names, "free"]
        expected = []
        for row in used_rows(answer):
            used = dict(row.used)
            servers = f"{row.count} server{'s' * (row.count != 1)}"
            free = row.free if row.free > 1e-12 * row.capacity else 0.0
            amounts = [row.capacity, *(used.get(user, 0.0) for user in names), free]
            expected.append([f"{row.group}, {servers}", row.resource, *map(format_amount, amounts)])
        assert rows == expected
        _, *users = rows_of(page, "shares-user-table")
        assert len(users) == len(names)
        for cells, record in zip(users, user_rows(answer), strict=True):
            assert cells[0] == record.user
            assert cells[1].split()[0] == format_number(record.tasks, 5)
            assert cells[2] == f"{format_percent(record.share, trim=True)} of {record.dominant}"
            assert cells[3] == format_percent(record.ideal, trim=True)
            assert str(record.limiting).endswith(cells[4].removeprefix("it "))
            assert cells[4]
        wrapped = page.part("shares-user-table").locator("td.number").evaluate_all(_WRAPPED)
        assert wrapped == []
        total = float(answer.allocation.assignment.user_tasks.sum())
        assert f"runs {format_number(total, 5)} tasks" in page.part("shares-headline").inner_text()
        assert not page.part("find-users").is_visible()


def test_bars_are_as_long_as_what_is_used_and_say_it(browser: Any, site: Site) -> None:
    with opened(browser, site, "shares", "paper-two-servers") as page:
        chart = page.part("shares-bars")
        chart.locator("svg text", has_text="free").first.wait_for()
        labels = chart.locator("svg text").all_text_contents()
        assert {"high-memory  (1 server)", "high-cpu  (1 server)", "cpu", "memory"} <= set(labels)
        assert labels.count("free") == 2
        page.page.wait_for_timeout(600)  # bars grow for a moment
        fills: dict[str, list[float]] = chart.locator("svg path").evaluate_all(
            "paths => paths.reduce((all, p) => { const fill = p.getAttribute('fill'); "
            "(all[fill] ??= []).push(p.getBBox().width); return all }, {})"
        )
        ann, bob = sorted(fills["#2d7dc4"]), sorted(fills["#e07b00"])
        assert ann == pytest.approx(bob)
        assert ann[0] / ann[1] == pytest.approx(10 / 12, rel=0.01)
        # Pointing at a piece says what it is.
        chart.locator("svg text", has_text="bob").first.hover(force=True)
        tip = page.page.locator(".drfh-tip:visible")
        page.expect(tip).to_have_text("bob holds 10 of 12 cpu on high-cpu: 83.3 %")
        assert page.part("shares-bars").get_attribute("role") == "img"


def test_many_users_can_be_searched(browser: Any, site: Site) -> None:
    with opened(browser, site, "shares", "many") as page:
        assert len(rows_of(page, "shares-user-table")) == 1 + 16
        assert "16 of 30 users" in page.part("shares-user-table").inner_text()
        page.part("find-users").fill("team-03")
        page.part("shares-keys").locator("span", has_text="29 other users").wait_for()
        _, row = rows_of(page, "shares-user-table")
        assert row[0] == "team-03"
        page.part("find-groups").fill("rack-00")
        page.page.locator("text=59 other groups").first.wait_for()
        assert len(rows_of(page, "shares-server-table")) == 1 + 2 * 2
        page.part("find-users").fill("nobody")
        page.page.locator("text=No user has this in its name.").wait_for()


def test_names_are_only_text(browser: Any, site: Site) -> None:
    with opened(browser, site, "shares", "hostile", width=400) as page:
        users = [row[0] for row in rows_of(page, "shares-user-table")[1:]]
        assert users == [user.name for user in scenario_of("hostile").users]
        chart = page.part("shares-bars")
        chart.locator("svg text", has_text="(a) (b) (c)").first.hover(force=True)
        page.page.locator(".drfh-tip", has_text="{a} {b} {c} holds").wait_for()
        chart.locator("svg text", has_text="<img").first.hover(force=True)
        page.page.locator(".drfh-tip", has_text="<img src=x onerror=alert(1)>").wait_for()
        assert page.page.locator("img[src=x]").count() == 0
        for panel, name in (("compare", "compare-table"), ("card", "finding-fair")):
            page.part(f"tab-{panel}").click()
            page.part(name).locator("b").first.wait_for()
            assert page.page.locator("img[src=x]").count() == 0
            assert page.page.evaluate("document.documentElement.scrollWidth") <= 400


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_panels_fit_and_can_be_read(browser: Any, site: Site, scheme: str) -> None:
    with opened(browser, site, "shares", "gpu-cluster", scheme=scheme, width=400) as page:
        for panel, name in (
            ("tables", "shares-user-table"),
            ("compare", "compare-table"),
            ("card", "finding-fair"),
        ):
            if panel == "card":  # a card of the larger one takes long
                page.part("example-three-resources").click()
                page.page.wait_for_selector("h1:has-text('Three servers')")
            page.part(f"tab-{panel}").click()
            page.part(name).locator("b").first.wait_for()
            panels = page.page.locator(".drfh-panel:visible")
            colour = panels.first.evaluate("e => getComputedStyle(e).color")
            red, green, blue = (int(part) for part in re.findall(r"\d+", colour)[:3])
            light = np.mean([red, green, blue])
            assert light < 60 if scheme == "light" else light > 200
            assert page.page.evaluate("document.documentElement.scrollWidth") <= 400
            assert page.nameless() == [], panel
            if panel == "shares":
                ink = page.part("shares-bars").locator("svg text", has_text="memory").first
                assert ink.evaluate("e => getComputedStyle(e).fill") == colour
