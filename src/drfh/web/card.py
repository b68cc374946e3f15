"""The panel "Report card": what the auditor finds, and each failure one click away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drfh.auditor import PROPERTIES, Finding, Report
from drfh.report.findings import audit_headline, found_words, legend
from drfh.report.parts import join, mark, part_text, tag
from drfh.resources import some
from drfh.web.answers import Answer
from drfh.web.cards import card
from drfh.web.case_dialog import CaseDialog
from drfh.web.looks import PANEL_STYLE
from drfh.web.working import Tell, Working

if TYPE_CHECKING:
    from nicegui import ui

    from drfh.web.panel import Page

__all__ = ["CardPanel"]

#: Users times server groups, up to which the audit starts by itself.
SMALL = 2_000


class CardPanel:
    """The auditor's report card, the worst first.

    Attributes
    ----------
    name, title, icon : str
        See :class:`drfh.web.panel.Panel`.
    """

    name = "card"
    title = "Report card"
    icon = "fact_check"

    _working: Working
    _dialog: CaseDialog
    _start: ui.button
    _headline: ui.html
    _list: ui.element

    def __init__(self) -> None:
        self._answer: Answer | None = None
        # What is on the page, and for which answer.
        self._report: Report | None = None
        self._report_of: Answer | None = None

    def build(self, page: Page) -> None:
        """Make its elements."""
        from nicegui import ui

        ui.add_css(PANEL_STYLE)
        with ui.element("section").classes("drfh-panel").props('aria-label="Report card"'):
            self._headline = ui.html("", sanitize=False).props(
                "data-testid=card-headline aria-live=polite"
            )
            self._start = ui.button("Audit", on_click=self._audit)
            self._start.props("no-caps data-testid=card-start")
            self._working = Working(page, "card", self._offer)
            self._list = ui.element("div").props("role=list data-testid=card-list")
            ui.html(legend(), sanitize=False)
        self._start.set_visibility(False)
        self._dialog = CaseDialog(page)

    def show(self, answer: Answer) -> None:
        """Audit an answer; a large one waits for a click."""
        if self._answer is answer:
            return
        self._answer = answer
        self._dialog.answered(answer)
        self._list.classes(add="stale")
        if len(answer.scenario.users) * len(answer.scenario.cluster) <= SMALL:
            self._audit()
        else:
            self._working.stop()
            self._offer()

    def _offer(self) -> None:
        self._start.set_visibility(True)
        if self._answer is not None:
            users, cluster = self._answer.scenario.users, self._answer.scenario.cluster
            words = f"{some(len(users), 'user')}, {some(len(cluster), 'server group')}: an audit "
            words += "searches for lies and other cases, which takes a while and can be stopped."
            self._headline.set_content(tag("p", words, "note"))

    def _audit(self) -> None:
        if self._answer is None:
            return
        answer = self._answer
        self._start.set_visibility(False)
        order = {name: position for position, name in enumerate(PROPERTIES)}

        def work(tell: Tell) -> Report:
            def progress(name: str, part: float) -> None:
                done = order[name]
                tell(f"{name}: {done + 1} of {len(order)} properties", (done + part) / len(order))

            return card(answer, progress=progress)

        def then(report: Report | None, why_not: str) -> None:
            if report is None:
                self._offer()
                self._headline.set_content(tag("p", f"✘ {why_not}", "mark fails"))
                return
            self._report, self._report_of = report, answer
            self._draw(report, answer)

        self._working.start(work, then, "auditing")

    def _draw(self, report: Report, answer: Answer) -> None:
        parts = [tag("p", audit_headline(report), "headline")]
        told = f"{report.subject}, audited in {report.seconds:.2g} s, the worst first."
        if answer.truths:
            told += f" As the users report it: {', '.join(answer.truths)} lies."
        parts.append(tag("p", told, "note"))
        parts += [tag("p", f"Warning: {warning}") for warning in report.warnings]
        self._headline.set_content(join(parts))
        self._list.clear()
        self._list.classes(remove="stale")
        with self._list:
            for finding in report:
                self._row(finding, answer)

    def _row(self, finding: Finding, answer: Answer) -> None:
        from nicegui import ui

        sign = mark(finding)
        title = PROPERTIES[finding.name].title if finding.name in PROPERTIES else ""
        with (
            ui.element("div")
            .classes("finding")
            .props(f"role=listitem data-testid=finding-{finding.name}")
        ):
            ui.html(tag("span", sign.content, sign.kind), sanitize=False).classes("sign")
            name = join([tag("b", finding.name), tag("span", title, "soft")])
            ui.html(name, sanitize=False).classes("name")
            measured = finding.verdict in ("fails", "measured")
            amount = ui.html(part_text(finding.amount) if measured else "", sanitize=False)
            if measured:
                amount.classes("bar amount").style(f"--part: {100 * min(finding.amount, 1.0):.2f}%")
            ui.html(found_words(finding), sanitize=False).classes("text")
            if finding.counterexample is not None:
                label = f"See a case for {finding.name}"
                see = ui.button("See why", on_click=lambda: self._see(finding, answer))
                see.props(f"outline dense no-caps data-testid=see-{finding.name}")
                see.props(f'aria-label="{label}"').classes("act")

    def _see(self, finding: Finding, answer: Answer) -> None:
        self._dialog.open(finding, answer)
