"""Pages of audits and comparisons in a real browser, light and dark (Debian's chromium)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from drfh import Cluster, InputError, Scenario, Server, User, load_scenario
from drfh.auditor import PROPERTIES, Finding, Report, audit
from drfh.auditor.comparison import Comparison, Row, compare
from drfh.auditor.questions import QUESTIONS, answers_by_question
from drfh.files.scenario_file import scenario_text
from drfh.report.charts.audit import failures_chart, fair_chart
from drfh.report.charts.comparison import promise_chart, users_chart
from drfh.report.html import mark
from drfh.report.pages.audit import audit_headline, save_audit
from drfh.report.pages.comparison import comparison_headline, save_comparison
from tests.support.pages import opened

NASTY = (
    "</script><script>throw 1</script>",
    "<!--<script>",
    "a & \"b\" 'c'",
    "<img src=http://x/>",
)
MECHANISMS = ("drfh", "drf", "per-server-drf", "tsf", "egalitarian")


@cache
def audited(name: str, mechanism: str, whole: bool = False) -> Report:
    return audit(load_scenario(name), mechanism=mechanism, whole_tasks=whole, tries=200)


@cache
def compared(name: str) -> Comparison:
    found = compare(load_scenario(name), mechanisms=MECHANISMS)
    return replace(found, rows=(*found.rows, Row("none", None, "it needs < 1 server")))


@cache
def nasty() -> Scenario:
    servers = [Server({"cpu": 2, "memory": 12}, name=NASTY[0]), Server({"cpu": 12, "memory": 2})]
    users = [User(n, {"cpu": 0.2 + i, "memory": 1}) for i, n in enumerate(NASTY)]
    return Scenario(Cluster(servers), tuple(users), title=NASTY[0])


@cache
def crowd() -> Comparison:
    cluster = Cluster(
        [Server({"cpu": 9, "memory": 90}, count=20), Server({"cpu": 90, "memory": 9}, count=20)]
    )
    users = [
        User(f"u{i}", {"cpu": 0.1 + i % 7, "memory": 0.1 + i % 5}, weight=1 + i % 3)
        for i in range(300)
    ]
    return compare(cluster, users, mechanisms=["drfh", "drf", "per-server-drf"])


def drawn(chart: Any) -> Any:
    """Return the table behind a chart."""
    return chart.data


@pytest.mark.parametrize(
    ("scheme", "width"), [("light", 1200), pytest.param("dark", 420, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize(
    ("name", "mechanism", "whole"),
    [
        ("paper-two-servers", "drf", False),
        pytest.param("gpu-cluster", "per-server-drf", False, marks=pytest.mark.slow),
        ("three-resources", "drfh", True),
    ],
)
def test_the_page_of_an_audit(
    browser: object, name: str, mechanism: str, whole: bool, width: int, scheme: str, tmp_path: Path
) -> None:
    report = audited(name, mechanism, whole)
    file = tmp_path / "page.html"
    save_audit(report, file)
    page = opened(browser, file, scheme, width)
    assert page.inner_text("p.headline") == audit_headline(report)
    answers = answers_by_question(report)
    assert page.locator("h3").all_text_contents() == [answer.question for answer in answers]
    lines_of_answers = page.locator("p.mark").all_text_contents()
    assert [line[2:] for line in lines_of_answers] == [answer.text for answer in answers]
    cards = page.locator("table.cards")
    tables = [a for a in answers if any(f.verdict != "not applicable" for f in a.findings)]
    assert cards.count() == len(tables)
    for number, answer in enumerate(tables):  # none without a sign
        here = answer.findings
        applies = [f for f in here if f.verdict != "not applicable"]
        lines = cards.nth(number).locator("tr")
        assert lines.count() == 1 + len(applies)
        for place, finding in enumerate(applies, start=1):
            line = lines.nth(place).text_content()
            assert line.startswith(mark(finding).content + finding.name)
            assert PROPERTIES[finding.name].title in line
            assert finding.text in line
        for finding in here:
            if finding not in applies:
                assert f"{finding.name}: {finding.text}" in page.text_content("body")
    page.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 420)])
@pytest.mark.parametrize(
    "name",
    ["paper-two-servers", pytest.param("gpu-cluster", marks=pytest.mark.slow), "google-2011"],
)
def test_the_page_of_a_comparison(
    browser: object, name: str, width: int, scheme: str, tmp_path: Path
) -> None:
    comparison = compared(name)
    file = tmp_path / "page.html"
    save_comparison(comparison, file, title="A <b>title</b>")
    page = opened(browser, file, scheme, width)
    assert page.inner_text("h1") == "A <b>title</b>"
    assert page.inner_text("p.headline") == comparison_headline(comparison)
    text = page.text_content("body")
    assert "it needs < 1 server" in text
    marks = page.locator("td.mark[title]")
    titles = [marks.nth(i).get_attribute("title") for i in range(marks.count())]
    for row in comparison.answered:
        for finding in row.marks.values():
            assert any(finding.text in title for title in titles)
    page.close()


def test_what_is_cut_on_a_narrow_screen_says_so(browser: object, tmp_path: Path) -> None:
    save_comparison(compared("google-2011"), tmp_path / "page.html")
    page = opened(browser, tmp_path / "page.html", width=420)
    page.wait_for_function("document.querySelector('.scroll.wide.more')")
    page.wait_for_function("document.querySelectorAll('.table.wide.more').length > 1")
    # The observer of sizes answers when it likes: wait until every box is as it should be.
    page.wait_for_function(
        """[...document.querySelectorAll('.table, .scroll')].every(b =>
             (getComputedStyle(b, '::before').content === '"scroll →"')
             === (b.scrollWidth - b.clientWidth > 1))"""
    )
    table = page.locator(".table.more").first.element_handle()  # this one, whatever its class
    table.evaluate("b => b.scrollLeft = b.scrollWidth")
    page.wait_for_function("b => !b.classList.contains('more')", arg=table)
    page.close()
    page = opened(browser, tmp_path / "page.html", width=1600)
    assert page.locator(".table.wide").count() == 0
    page.close()


def test_pages_count_what_applies() -> None:
    report = audited("paper-two-servers", "drf")
    applies = [f for f in report if f.verdict != "not applicable"]
    assert len(applies) < len(report.findings)
    assert audit_headline(report).endswith(f" of {len(applies)} properties fail.")
    nothing = audit(load_scenario("paper-two-servers"), properties=["promise-kept"])
    assert audit_headline(nothing) == "No property applies here."


def test_pages_and_text_have_the_same_marks() -> None:
    from drfh.cli.render.audit import MARKS as IN_TEXT
    from drfh.report.html import MARKS as ON_PAGES

    assert {verdict: sign for verdict, (sign, _) in ON_PAGES.items()} == IN_TEXT


def test_names_cannot_break_out(browser: object, tmp_path: Path) -> None:
    report = audit(nasty(), mechanism="per-server-drf", tries=100)
    assert report.failed
    comparison = compare(nasty(), mechanisms=MECHANISMS)
    comparison = replace(comparison, rows=(*comparison.rows, Row(NASTY[1], None, NASTY[3])))
    save_audit(report, tmp_path / "audit.html", title=NASTY[0])
    save_comparison(comparison, tmp_path / "comparison.html", title=NASTY[0])
    for name in ("audit", "comparison"):
        page = opened(browser, tmp_path / f"{name}.html")
        assert page.inner_text("h1") == NASTY[0]
        assert page.locator("img").count() == 0
        assert page.locator("script").count() == 1
        text = page.text_content("body")
        for user in NASTY:
            assert user in text
        page.locator(".figure .mark-rect.role-mark path").last.hover(force=True)
        tip = page.locator("#vg-tooltip-element")
        tip.wait_for(state="visible")
        assert any(user in tip.inner_text() for user in NASTY)
        assert page.locator("img").count() == 0
        page.close()


def test_a_case_opens_and_is_the_scenario(browser: object, tmp_path: Path) -> None:
    report = audited("gpu-cluster", "drf")
    save_audit(report, tmp_path / "page.html")
    page = opened(browser, tmp_path / "page.html")
    assert page.locator("body > details[id]").count() == len(report.failed)
    for name in report.failed:
        shown = [f for answer in answers_by_question(report) for f in answer.findings]
        example = next(f for f in shown if f.name == name).counterexample
        assert example is not None
        block = page.locator(f"#case-{name}")
        assert not block.locator("pre").first.is_visible()
        block.locator("summary").click()
        assert block.locator("pre").first.is_visible()
        assert page.text_content(f"#yaml-{name}") == scenario_text(example.scenario)
        assert report.again(name, f"{name}.yaml") in block.text_content()
    page.click("#case-fair button.copy")
    example = report["fair"].counterexample
    assert example is not None
    selected = page.evaluate("getSelection().toString()")
    assert selected.strip() == scenario_text(example.scenario).strip()
    page.close()


def test_a_case_that_no_file_can_hold(tmp_path: Path) -> None:
    users = [
        User("ann", {"cpu": 0.2, "memory": 1}, servers=lambda server: True),
        User("bob", {"cpu": 1, "memory": 0.2}),
    ]
    cluster = load_scenario("paper-two-servers").cluster
    report = audit(cluster, users, mechanism="per-server-drf", properties=["fair"])
    save_audit(report, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "The case cannot be written to a file" in page
    assert "✘ fails" in page


def test_what_was_observed(browser: object, tmp_path: Path) -> None:
    rows = [
        {"user": "ann", "server": "high-memory", "tasks": 9},
        {"user": "bob", "server": "high-cpu", "tasks": 2},
    ]
    report = audit(load_scenario("paper-two-servers"), observed=rows)
    save_audit(report, tmp_path / "page.html", title="Monday")
    page = opened(browser, tmp_path / "page.html")
    assert page.inner_text("p.headline").startswith(
        "Not fair: 45.0 % of all fair shares is missing"
    )
    rows_shown = page.locator("table.answer tr").all_text_contents()
    assert rows_shown[1].startswith("bob14.3 %71.4 %-57.1 pointscpucpu on high-memory")
    points = page.locator("ul.answer li").all_text_contents()
    assert report.answer is not None
    assert points == [str(sentence) for sentence in report.answer.sentences[1:]]
    assert page.inner_text("p.summary").startswith("observed allocation. Two servers, two users:")
    assert "--observed TABLE (it is not in the file)" in page.text_content("#case-fair")
    page.close()


@pytest.mark.parametrize("suffix", [".svg", ".png", ".pdf"])
def test_the_main_chart_alone(suffix: str, tmp_path: Path) -> None:
    start = {".svg": b"<svg", ".png": b"\x89PNG", ".pdf": b"%PDF"}[suffix]
    nothing = audit(load_scenario("paper-two-servers"), properties=["fair"])
    for number, report in enumerate([audited("gpu-cluster", "drf"), nothing]):
        file = tmp_path / f"audit-{number}{suffix}"
        save_audit(report, file, title="A title")
        assert file.read_bytes().startswith(start)
    for number, comparison in enumerate([compared("gpu-cluster"), crowd()]):
        file = tmp_path / f"comparison-{number}{suffix}"
        save_comparison(comparison, file, title="A title")
        assert file.read_bytes().startswith(start)


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"must end in one of \.html"):
        save_audit(audited("gpu-cluster", "drf"), tmp_path / "page.txt")
    with pytest.raises(InputError, match=r"must end in one of \.html"):
        save_comparison(compared("gpu-cluster"), tmp_path / "page")
    assert not list(tmp_path.iterdir())


def test_many_users(browser: object, tmp_path: Path) -> None:
    comparison = crowd()
    promises = comparison.promises()
    chart = promise_chart(promises)
    assert drawn(chart)["user"].n_unique() == 12
    assert drawn(chart)["part"].sum() == pytest.approx(12)
    spread = drawn(users_chart(comparison))
    plain = users_chart(comparison).to_dict()
    domain = plain["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert domain[0] <= min(spread["min"]) <= max(spread["max"]) <= domain[1]
    assert plain["title"]["text"]  # without one there is no subtitle
    assert all(mark in str(plain["title"]["subtitle"]) for mark in ("line", "tick", "diamond"))
    assert spread["mechanism"].to_list() == [row.name for row in comparison.rows]
    for row, line in zip(comparison.answered, spread.to_dicts(), strict=True):
        assert row.allocation is not None
        levels = row.allocation.levels
        assert line["min"] == pytest.approx(min(levels.values()))
        assert line["max"] == pytest.approx(max(levels.values()))
        if row.worst_off:
            assert line["worst"] == pytest.approx(levels[row.worst_off])
    save_comparison(comparison, tmp_path / "page.html")
    opened(browser, tmp_path / "page.html").close()
    allocation = comparison["per-server-drf"].allocation
    assert allocation is not None
    report = audit(allocation, properties=["fair", "envy-free", "pareto"])
    chart_of_few = fair_chart(report)
    assert chart_of_few is not None
    assert len(drawn(chart_of_few)) == 24
    save_audit(report, tmp_path / "audit.html")
    opened(browser, tmp_path / "audit.html").close()


def test_charts_show_what_was_found() -> None:
    report = audited("gpu-cluster", "drf")
    bars = drawn(failures_chart(report))
    assert bars["property"].to_list() == list(report.failed)
    assert bars["amount"].to_list() == [report[name].amount for name in report.failed]
    chart = fair_chart(report)
    assert chart is not None
    assert drawn(chart)["part"].min() == pytest.approx(1 - report["fair"].amount)
    assert fair_chart(audited("paper-two-servers", "drf")) is None


def test_headlines_without_a_failure_or_a_promise() -> None:
    scenario = load_scenario("paper-two-servers")
    report = audit(scenario, properties=["envy-free"])
    assert audit_headline(report) == "None of 1 property fails."
    fair = compare(scenario, mechanisms=["drfh"])
    assert comparison_headline(fair) == "With every mechanism here, nobody is below its DRFH level."
    worse = compare(scenario, mechanisms=["per-server-drf"])
    assert comparison_headline(worse).startswith(
        "Furthest from fair: per-server-drf, with ann 40 %"
    )
    broken = compared("gpu-cluster")
    assert comparison_headline(broken) == (
        "drf promises training 72 tasks; 65.365 can be placed (9.2 % missing). "
        "6 of 6 users miss something."
    )
    kept = compared("google-2011")
    assert comparison_headline(kept) == "All that drf promises can be placed on these servers."
    empty = replace(fair, rows=(Row("bbf", None, "why not"),))
    assert comparison_headline(empty) == "No mechanism has an answer here."


def test_a_comparison_without_an_answer(tmp_path: Path) -> None:
    comparison = compare(load_scenario("paper-two-servers"), mechanisms=["drfh"])
    comparison = replace(comparison, rows=(Row("bbf", None, "why not"),))
    save_comparison(comparison, tmp_path / "page.html")
    assert "why not" in (tmp_path / "page.html").read_text()


def test_every_property_answers_one_question() -> None:
    assert sorted(name for names in QUESTIONS.values() for name in names) == sorted(PROPERTIES)


def test_a_made_up_example_decides_no_answer_and_is_marked(tmp_path: Path) -> None:
    report = audited("claim-b-user-leaves", "drfh")
    answers = {name: a for a in answers_by_question(report) for name in QUESTIONS[a.question]}
    assert report["resource-monotone"].verdict == "fails"
    buying = answers["resource-monotone"]
    assert buying.verdict == "not found"
    assert "resource-monotone" in buying.made_up
    assert answers["envy-free"].text == "No (proven)"
    assert answers["population-monotone"].text.startswith("Yes: when ")
    assert answers["population-monotone"].findings[-1].name == "consistent"
    save_audit(report, tmp_path / "page.html")
    assert "Made-up example, not your cluster:" in (tmp_path / "page.html").read_text()


def test_more_of_the_own_servers_decide_where_the_worst_is_made_up() -> None:
    report = audited("gpu-cluster", "drfh")
    buying = next(a for a in answers_by_question(report) if "buy" in a.question)
    assert report["resource-monotone"].text.startswith("with a server of ")
    assert buying.verdict == "fails"
    assert buying.text.startswith("Yes: with 11 times as many servers ")
    assert not buying.made_up


def test_every_verdict_has_a_sign() -> None:
    shown = {
        verdict: mark(Finding("fair", verdict, 0.2, "")).content
        for verdict in ("holds", "fails", "not found", "measured", "not applicable")
    }
    assert shown == {
        "holds": "✔ holds",
        "fails": "✘ fails",
        "not found": "? not found",
        "measured": "· 20 %",
        "not applicable": "– not applicable",
    }
