"""The panels "Who gets what", "Compare" and "Report card", in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest

import drfh
from drfh import Cluster, Scenario, Server, User
from drfh.formatting import format_amount, format_number, format_percent
from drfh.mechanisms.shared.slots import slots_mechanism
from drfh.web.components.bars import MOST_USERS, stacked_bars
from drfh.web.explorer.panels.compare import difference, side_by_side
from drfh.web.explorer.panels.report_card import SMALL, applied_markup, case_markup
from drfh.web.explorer.panels.shares import user_table
from drfh.web.session.answers import answer_of, user_rows
from drfh.web.session.comparison import COMPARED, CompareRow
from drfh.web.session.report_card import audit_answer, case_steps
from drfh.web.session.share_links import book_to_link
from drfh.web.session.workbook import Workbook
from tests.web.explorer.site import ExplorerTab, Site, explorer_tab
from tests.web.used_rows import used_rows

LONG = 240_000  # milliseconds: other work may keep the machine busy


def many() -> Scenario:
    servers = [
        Server({"cpu": 4 + g % 7, "memory": 8 + g % 5}, name=f"rack-{g:02}", count=1 + g % 3)
        for g in range(60)
    ]
    users = [
        User(f"team-{i:02}", {"cpu": 1 + i % 3, "memory": 1 + i % 4}, weight=1 + i % 5)
        for i in range(30)
    ]
    return Scenario(Cluster(servers), tuple(users))


def huge() -> Scenario:
    """Return a cluster with too many servers to be filled one by one."""
    servers = [Server({"cpu": 4, "memory": 8}, name="node", count=300_000)]
    return Scenario(Cluster(servers), (User("ann", {"cpu": 1, "memory": 1}),))


def hostile() -> Scenario:
    names = ["<img src=x onerror=alert(1)>", "{a} {b} {c}", "a" * 80, 'q"uote | %']
    servers = [Server({"cpu": 4, "memory": 4}, name=name) for name in names]
    users = [User(name, {"cpu": 1 + i, "memory": 1}) for i, name in enumerate(names)]
    return Scenario(Cluster(servers), tuple(users))


def lie() -> Scenario:
    """Return a scenario in which lies pay with Nash welfare."""
    servers = [Server({"cpu": 100, "memory": 100}, name="node")]
    users = [User("ann", {"cpu": 16, "memory": 1}), User("bob", {"cpu": 1, "memory": 2})]
    return Scenario(Cluster(servers), tuple(users))


OWN = {"many": many, "huge": huge, "hostile": hostile, "lie": lie}


def scenario_of(name: str) -> Scenario:
    return OWN[name]() if name in OWN else drfh.load_scenario(name)


# Cells whose text takes more than one line.
_WRAPPED = """cells => cells.filter((cell) => {
  const range = document.createRange();
  range.selectNodeContents(cell);
  return new Set([...range.getClientRects()].map((box) => box.top)).size > 1;
}).map((cell) => cell.innerText)"""


# What the panels show, without a browser.


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


def test_a_mechanism_without_an_answer_is_words_and_the_others_stay() -> None:
    fair = CompareRow("drfh", "fair", {"ann": 4.0}, {"ann": 0.5}, total=4.0)
    wrong = CompareRow("nash", "product", why_not="the solver <gave> up")
    markup, listed, everybody = side_by_side([fair, wrong])
    assert "✘ no answer" in markup
    assert "the solver &lt;gave&gt; up" in markup
    assert (listed, everybody) == (1, 1)
    alone, *_ = side_by_side([wrong])
    assert "✘ no answer" in alone


def test_differences_have_a_sign_a_word_and_a_size() -> None:
    assert difference(0.0, 4.0) == ("▼ −4 (−100 %)", "less", 1.0)
    assert difference(40.0, 4.0)[1:] == ("more", 1.0)
    assert difference(4.0 + 1e-9, 4.0) == ("=", "same", 0.0)
    assert difference(0.0, 0.0) == ("=", "same", 0.0)


def test_the_users_that_differ_most_are_listed() -> None:
    users = [f"u{i}" for i in range(50)]
    fair = CompareRow("drfh", "", dict.fromkeys(users, 1.0), dict.fromkeys(users, 0.1))
    tasks = {user: 1.0 + (i == 33) * 4 for i, user in enumerate(users)}
    other = CompareRow("tsf", "", tasks, dict.fromkeys(users, 0.1))
    markup, listed, everybody = side_by_side([fair, other])
    assert (listed, everybody) == (20, 50)
    assert "u33" in markup
    assert "▲ +4 (+400 %)" in markup
    assert side_by_side([fair, other], find="u4")[1] == 11  # u4, u40 … u49


@pytest.mark.parametrize(
    ("name", "mechanism"),
    [("lie", "nash"), ("claim-b-user-leaves", "drfh"), ("claim-h-whole-tasks", "whole-tasks"),
     ("gpu-cluster", "drf")],
)  # fmt: skip
def test_every_case_that_is_applied_does_what_the_auditor_said(name: str, mechanism: str) -> None:
    base = Workbook(scenario_of(name))
    before = answer_of(base, mechanism)
    applied = 0
    for finding in audit_answer(before, tries=200):
        steps = case_steps(finding, before.scenario)
        if finding.counterexample is None:
            continue
        text = case_markup(finding, before.scenario, steps)
        assert finding.name in text
        if not steps:
            continue
        applied += 1
        book = Workbook(base.base)
        for step in steps:
            book.do(step)
        markup = applied_markup(finding, before, answer_of(book, mechanism))
        if finding.counterexample.after:
            assert "The auditor was right" in markup, (finding, markup)
    assert applied


# In a browser.


@contextmanager
def opened(
    browser: Any,
    site: Site,
    panel: str,
    name: str,
    mechanism: str = "drfh",
    *,
    scheme: str = "light",
    width: int = 1200,
) -> Iterator[ExplorerTab]:
    """Open a panel on a scenario; at the end it must have been quiet, and not too wide."""
    query = {"panel": panel, "m": mechanism}
    if name in OWN:
        query["s"] = book_to_link(Workbook(scenario_of(name))) or ""
        assert query["s"]
    else:
        query["open"] = name
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 900}}
    with explorer_tab(browser, site, f"?{urlencode(query)}", **options) as page:
        page.page.set_default_timeout(LONG)
        yield page
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width


def rows_of(page: ExplorerTab, name: str) -> list[list[str]]:
    """Return the cells of a table, its head first; parts of a cell with spaces between."""
    page.page.wait_for_selector(f"[data-testid={name}] td", state="attached")
    text = "cell => [...cell.childNodes].map(node => node.textContent).join(' ')"
    lines: list[list[str]] = (
        page.part(name)
        .locator("tr")
        .evaluate_all(f"rows => rows.map(row => [...row.cells].map({text}))")
    )
    return lines


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


def test_mechanisms_side_by_side_are_right(browser: Any, site: Site) -> None:
    with opened(browser, site, "compare", "gpu-cluster") as page:
        page.page.wait_for_function(
            "n => document.querySelectorAll('[data-testid=compare-table] th').length == n",
            arg=len(COMPARED) + 1,
        )
        head, *lines = rows_of(page, "compare-table")
        assert head == ["tasks of", *COMPARED]
        scenario = drfh.load_scenario("gpu-cluster")
        fair = drfh.allocate(scenario.cluster, scenario.users).tasks
        cells = {line[0]: line[1:] for line in lines}
        for column, name in enumerate(COMPARED):
            mechanism: Any = slots_mechanism(name) if ":" in name else name
            answer = drfh.allocate(scenario.cluster, scenario.users, mechanism=mechanism)
            for user, tasks in answer.tasks.items():
                shown = cells[user][column]
                assert shown.split()[0] == format_number(tasks), (name, user)
                apart = tasks - fair[user]
                if name == "drfh":
                    assert shown == format_number(tasks)
                elif abs(apart) < 1e-6 * fair[user]:
                    assert shown.endswith("=")
                else:
                    sign = "▲ +" if apart > 0 else "▼ −"
                    part = format_percent(abs(apart) / fair[user], trim=True)
                    said = f"{sign}{format_number(abs(apart))} ({sign[-1]}{part})"
                    assert shown.endswith(said), (name, user)
                if answer.promised is not None:
                    assert f"of {format_number(answer.promised[user])} promised" in shown
            for resource, used in answer.utilisation.items():
                assert cells[f"{resource} in use"][column] == format_percent(used, trim=True)
        other = drfh.allocate(scenario.cluster, scenario.users, mechanism="tsf").tasks
        distance = 1 - min(other[user] / fair[user] for user in fair)
        assert (
            cells["below fair, at worst"][3].split("%")[0]
            == format_percent(distance, trim=True)[:-1]
        )
        page.part("compare-unit").get_by_text("Dominant shares").click()
        page.page.locator("[data-testid=compare-table] th", has_text="dominant share of").wait_for()
        shares = drfh.allocate(scenario.cluster, scenario.users).shares
        cells = {line[0]: line[1:] for line in rows_of(page, "compare-table")}
        for user, share in shares.items():
            assert cells[user][0] == format_percent(share, trim=True)


def test_a_mechanism_that_fails_says_why(browser: Any, site: Site) -> None:
    with opened(browser, site, "compare", "huge") as page:
        page.page.locator("[data-testid=compare-table] td.no-answer").wait_for()
        text = page.page.locator("[data-testid=compare-table] td.no-answer").inner_text()
        assert "✘ no answer" in text
        assert "servers must be at most 200,000" in text
        assert rows_of(page, "compare-table")[0][-1] == "slots:14"


def test_the_card_is_the_auditors(browser: Any, site: Site) -> None:
    with opened(browser, site, "card", "claim-b-user-leaves") as page:
        page.part("finding-fair").wait_for()
        scenario = scenario_of("claim-b-user-leaves")
        report = drfh.audit(scenario, tries=1_000)
        shown = page.page.locator(".finding .name b").all_inner_texts()
        assert shown == [finding.name for finding in report]
        for finding in report:
            text = page.part(f"finding-{finding.name}").inner_text()
            assert finding.verdict == "measured" or finding.verdict in text
            if finding.verdict == "fails":
                assert format_percent(finding.amount, trim=True) in text
                assert page.part(f"see-{finding.name}").is_visible() == bool(finding.counterexample)
            if finding.proof:
                assert f"Proven for the mechanism: {finding.proof}" in text
            assert finding.text.partition(" (")[0] in text
        assert any(finding.proof for finding in report)


def test_a_lie_is_one_click_away_and_does_what_the_auditor_said(browser: Any, site: Site) -> None:
    with opened(browser, site, "card", "lie", "nash") as page:
        scenario = scenario_of("lie")
        before = drfh.allocate(scenario.cluster, scenario.users, mechanism="nash").tasks
        page.part("see-truthful").click()
        page.part("case-apply").wait_for()
        assert page.part("case-apply").inner_text() == "Apply this lie and see"
        claim = page.part("case").locator("li").inner_text()
        page.part("case-apply").click()
        page.part("case").locator("text=The auditor was right").wait_for()
        _, *rows = rows_of(page, "case")
        cells = {row[0]: row for row in rows}
        liar = claim.partition(" claims ")[0]
        # The same lie, told to the mechanism without any page.
        claimed = {
            name: float(amount)
            for name, amount in map(str.split, claim.partition(" claims ")[2].split(", "))
        }
        users = [
            drfh.User(user.name, claimed if user.name == liar else user.demand)
            for user in scenario.users
        ]
        after = drfh.allocate(scenario.cluster, users, mechanism="nash").tasks
        truth = next(user.demand for user in scenario.users if user.name == liar)
        after[liar] *= min(claimed[name] / amount for name, amount in truth.items())
        assert after[liar] > before[liar]
        for user in before:
            assert float(cells[user][1]) == pytest.approx(before[user], rel=1e-4)
            assert float(cells[user][3]) == pytest.approx(after[user], rel=1e-3)
        assert float(cells[liar][2]) == pytest.approx(after[liar], rel=1e-3)
        assert page.part("undo").is_enabled()
        page.page.locator("text=As the users report it").wait_for()  # the card is made again
        page.part("case-undo").click()
        page.page.wait_for_function("document.querySelector('[data-testid=undo]').disabled")


def test_what_is_applied_and_kept_stays_in_the_address(browser: Any, site: Site) -> None:
    with explorer_tab(browser, site, "?open=paper-two-servers&panel=card") as page:
        page.part("see-resource-monotone").click(timeout=60_000)
        page.part("case-apply").click()
        page.part("case").locator("text=The auditor was right").wait_for()
        page.part("case-keep").click()
        page.page.wait_for_url(re.compile(r"[?&]s="))
        page.page.reload()
        page.page.wait_for_selector("body[data-ready]")
        assert page.part("undo").is_enabled()


def test_a_case_that_is_here_already_needs_nothing(browser: Any, site: Site) -> None:
    with opened(browser, site, "card", "claim-b-user-leaves", "utilitarian") as page:
        page.part("see-fair").click()
        page.page.locator("text=Nothing needs to change").wait_for()
        assert page.part("case-apply").count() == page.part("case-open").count() == 0
        page.part("case-close").click()
        page.part("see-truthful").click()
        page.part("case-apply").wait_for()
        assert page.nameless() == []
        page.page.keyboard.press("Escape")
        page.part("case").wait_for(state="hidden")


def test_work_can_be_stopped_and_started_again(browser: Any, site: Site) -> None:
    assert len(scenario_of("many").users) * len(scenario_of("many").cluster) <= SMALL
    with opened(browser, site, "card", "many") as page:
        page.page.get_by_text(re.compile(r"of 22 properties")).first.wait_for()
        page.part("card-stop").click()
        page.part("card-start").wait_for()
        assert page.page.locator(".finding").count() == 0
        assert not page.part("card-stop").is_visible()
        page.part("card-start").click()
        page.part("card-stop").wait_for()
        page.part("card-stop").click()


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_panels_fit_and_can_be_read(browser: Any, site: Site, scheme: str) -> None:
    with opened(browser, site, "shares", "gpu-cluster", scheme=scheme, width=400) as page:
        for panel, name in (
            ("shares", "shares-user-table"),
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
