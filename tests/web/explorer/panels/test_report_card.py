"""The panel "Report card": findings, cases, and the page in a real browser."""

from __future__ import annotations

import re
from typing import Any

import pytest

import drfh
from drfh.auditor.questions import answers_by_question
from drfh.formatting import format_percent
from drfh.web.explorer.panels.report_card import SMALL, applied_markup, case_markup
from drfh.web.session.answers import answer_of
from drfh.web.session.report_card import audit_answer, case_steps
from drfh.web.session.workbook import Workbook
from tests.web.explorer.panels.scenarios import opened, rows_of, scenario_of
from tests.web.explorer.site import Site, explorer_tab


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


def test_the_card_is_the_auditors(browser: Any, site: Site) -> None:
    with opened(browser, site, "card", "claim-b-user-leaves") as page:
        page.part("finding-fair").wait_for()
        scenario = scenario_of("claim-b-user-leaves")
        report = drfh.audit(scenario, tries=1_000)
        shown = page.page.locator(".finding .name b").all_inner_texts()
        answers = answers_by_question(report)
        assert shown == [finding.name for answer in answers for finding in answer.findings]
        questions = page.part("card-list").locator("h3").all_inner_texts()
        assert questions == [answer.question for answer in answers]
        for finding in (finding for answer in answers for finding in answer.findings):
            text = page.part(f"finding-{finding.name}").inner_text()
            assert finding.verdict == "measured" or finding.verdict in text
            if finding.verdict == "fails":
                assert format_percent(finding.amount, trim=True) in text
                assert page.part(f"see-{finding.name}").is_visible() == bool(finding.counterexample)
            if finding.proof:
                assert f"Proven for the mechanism: {finding.proof}" in text
            assert finding.text.partition(" (")[0] in text
        assert any(finding.proof for finding in report)


@pytest.mark.slow
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
