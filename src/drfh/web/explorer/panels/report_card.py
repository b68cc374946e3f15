"""The panel "Report card": the auditor's findings and cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from nicegui import ui

from drfh.auditor import PROPERTIES, Finding, Report
from drfh.auditor.questions import answers_by_question
from drfh.formatting import format_number, format_percent, format_rest
from drfh.model.scenario import Scenario
from drfh.report.html import Content, Markup, join, mark, table, tag
from drfh.report.pages.audit import answer_line, audit_headline, before_after, finding_text, legend
from drfh.web.components.controls import container, markup, section
from drfh.web.components.jobs import JobPanel, PanelJob, ReportProgress
from drfh.web.components.panel import Page
from drfh.web.session.answers import Answer, changes
from drfh.web.session.report_card import audit_answer, case_book, case_steps
from drfh.web.session.steps import LieStep, Step

__all__ = ["CardPanel", "CaseDialog", "applied_markup", "case_markup"]


_MOST_ROWS = 20
_MOST_STEPS = 8
# Label, test id and handler of a button of the dialog; the first one is flat.
_Button: TypeAlias = tuple[str, str, Callable[[], object]]


class CaseDialog:
    """A dialog that explains a finding and applies its case."""

    def __init__(self, page: Page) -> None:
        self._page = page
        # Applied and not answered yet: the finding, the answer before, how many steps.
        self._pending: tuple[Finding, Answer, int] | None = None
        with ui.dialog() as self._dialog, ui.card().classes("drfh-case") as card:
            card.props("data-testid=case role=document")
            self._content(Markup(""), [])
        self._dialog.props('aria-label="A case that shows it"')

    def open(self, finding: Finding, answer: Answer) -> None:
        """Explain a finding of the report card of an answer."""
        steps = case_steps(finding, answer.scenario)
        buttons: list[_Button] = [("Close", "case-close", self._dialog.close)]
        if steps:
            lie = any(isinstance(step, LieStep) for step in steps)
            label = "Apply this lie and see" if lie else "Apply this and see"
            buttons.append((label, "case-apply", lambda: self._apply(finding, answer, steps)))
        elif not finding.shown_in(answer.scenario):
            buttons.append(("Open this case", "case-open", lambda: self._load(finding, answer)))
        self._content.refresh(case_markup(finding, answer.scenario, steps), buttons)
        self._dialog.open()

    @ui.refreshable_method
    def _content(self, text: Markup, buttons: list[_Button]) -> None:
        with container("drfh-panel"):
            markup(text)
            with container("tools end"):
                for place, (label, testid, on_click) in enumerate(buttons):
                    button = ui.button(label, on_click=on_click)
                    button.props(f"no-caps data-testid={testid}" + " flat" * (place == 0))

    def _apply(self, finding: Finding, answer: Answer, steps: list[Step]) -> None:
        if self._page.answer is not answer:
            self._page.notify("The scenario has changed since: look at the new card.", "warning")
            self._dialog.close()
            return
        self._pending = finding, answer, len(steps)
        # Quick answers are shown before it returns.
        if not self._page.attempt(lambda: self._page.do(*steps)):
            self._pending = None
        elif self._pending is not None:
            note = tag("p", "The page is solving …", "note")
            self._show(join([tag("h2", f"{finding.name}: applied"), note]), len(steps))

    def answered(self, answer: Answer) -> None:
        """Show what the applied case does, if this is the answer to it."""
        if self._pending is None:
            return
        finding, before, steps = self._pending
        self._pending = None
        if answer.mechanism == before.mechanism:
            self._show(applied_markup(finding, before, answer), steps)

    def _show(self, text: Markup, steps: int) -> None:
        def back() -> None:
            self._pending = None
            self._dialog.close()
            self._page.undo(steps)

        buttons: list[_Button] = [
            ("Take it back", "case-undo", back),
            ("Keep it", "case-keep", self._dialog.close),
        ]
        self._content.refresh(text, buttons)

    def _load(self, finding: Finding, answer: Answer) -> None:
        book = case_book(finding)
        if book is not None:
            self._dialog.close()
            self._page.attempt(lambda: self._page.load(book, answer.mechanism))


def case_markup(finding: Finding, scenario: Scenario, steps: list[Step]) -> Markup:
    """Return a counterexample: its story, numbers and steps.

    Parameters
    ----------
    finding
        With a counterexample.
    scenario
        What was audited.
    steps
        From there to the case.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.auditor import audit
    >>> scenario = load_scenario("claim-b-user-leaves")
    >>> finding = audit(scenario, properties=["population-monotone"])["population-monotone"]
    >>> "<li>b leaves</li>" in case_markup(finding, scenario, case_steps(finding, scenario))
    True
    """
    example = finding.counterexample
    title = PROPERTIES[finding.name].title if finding.name in PROPERTIES else ""
    parts = [tag("h2", f"{finding.name}: {title}" if title else finding.name)]
    if example is None:
        return join([*parts, tag("p", finding.text)])
    parts.append(tag("p", example.story))
    if example.detail:
        parts.append(tag("p", finding.text))
    if finding.verdict == "fails":
        parts.append(tag("p", f"It fails by {format_percent(finding.amount, trim=True)}.", "note"))
    if example.before or example.after:
        parts.append(before_after(finding.name, example))
    if steps:
        listed = [tag("li", step.text) for step in steps[:_MOST_STEPS]]
        if len(steps) > _MOST_STEPS:
            listed.append(tag("li", f"and {len(steps) - _MOST_STEPS} more"))
        parts += [tag("p", "To see it, from the scenario as it is:"), tag("ul", join(listed))]
        if any(isinstance(step, LieStep) for step in steps):
            text = "Nothing else changes: what the user really needs stays what it was."
            parts.append(tag("p", text, "note"))
    elif finding.shown_in(scenario):
        text = "Nothing needs to change: this is the scenario as it is, and its numbers as shown."
        parts.append(tag("p", text, "note"))
    else:
        text = "It is a scenario of its own. Opening it leaves yours: save or share that first."
        parts.append(tag("p", text, "note"))
    return join(parts, "\n")


def applied_markup(finding: Finding, before: Answer, after: Answer) -> Markup:
    """Return what an applied case does, beside what the auditor found.

    Parameters
    ----------
    finding
        What the auditor found.
    before, after
        Answers without and with the case.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.auditor import audit
    >>> from drfh.web.session.answers import answer_of
    >>> from drfh.web.session.workbook import Workbook
    >>> book = Workbook(load_scenario("claim-b-user-leaves"))
    >>> before = answer_of(book)
    >>> finding = audit(book.scenario, properties=["population-monotone"])["population-monotone"]
    >>> for step in case_steps(finding, book.scenario):
    ...     book.do(step)
    >>> "The auditor was right" in applied_markup(finding, before, answer_of(book))
    True
    """
    example = finding.counterexample
    predicted = {} if example is None else example.after
    rows: list[list[Content]] = []
    right = bool(predicted)
    moved = changes(before, after)
    now = {row.user: row.tasks_after for row in moved if row.tasks_after is not None}
    owner: dict[str, str] = {}
    if finding.name == "split-proof":  # the tasks of both users are those of the one that they are
        new = [user for user in now if user not in before.allocation.tasks]
        owner = {", ".join([user, *new]): user for user in predicted}
        for pair, user in owner.items():
            now[pair] = sum(now.pop(name) for name in [user, *new])
        predicted = {pair: predicted[user] for pair, user in owner.items()}
    old = {row.user: row.tasks_before for row in moved}
    for user in sorted(now, key=lambda name: name not in predicted)[:_MOST_ROWS]:
        was = old.get(owner.get(user, user))
        expected = predicted.get(user)
        if expected is not None:
            right = right and abs(expected - now[user]) <= 1e-3 * max(abs(expected), 1e-9)
        rows.append([user, was, expected, now[user], _change(was, now[user])])
    parts = [tag("h2", f"{finding.name}: applied")]
    if right:
        parts.append(tag("p", Markup("✔ The auditor was right."), "mark holds"))
    head = ["tasks of", "before", "the auditor said", "after", "change"]
    parts.append(table(head, rows, "cards labelled"))
    if after.truths:
        text = f"Tasks of {', '.join(after.truths)}: those that it can really run."
        parts.append(tag("p", text, "note"))
    more = len(now) - _MOST_ROWS
    if more > 0:
        parts.append(tag("p", format_rest(more, "more user", ""), "note"))
    return join(parts, "\n")


def _change(was: float | None, now: float) -> str:
    if was is None:
        return "new"
    apart = now - was
    if abs(apart) <= 1e-6 * max(abs(was), abs(now), 1e-12):
        return "="
    return f"{'▲ +' if apart > 0 else '▼ −'}{format_number(abs(apart), 5)}"


#: Users times server groups, up to which the audit starts by itself.
SMALL = 2_000


class CardPanel(JobPanel):
    """The auditor's findings, by question."""

    name = "card"
    title = "Report card"
    icon = "fact_check"
    small = SMALL
    cost = "an audit searches for lies and other cases, which takes a while and can be stopped."

    def __init__(self) -> None:
        super().__init__()
        # What is on the page, and for which answer.
        self._report: Report | None = None
        self._report_of: Answer | None = None

    def build(self, page: Page) -> None:
        """Make its elements."""
        with section("Report card", "drfh-panel"):
            self._message = markup(testid="card-headline").props("aria-live=polite")
            self._start = ui.button("Audit", on_click=self._work)
            self._start.props("no-caps data-testid=card-start")
            self._job = PanelJob(page, "card", self._offer)
            self._list = container().props("role=list data-testid=card-list")
            with self._list:
                self._findings()
            markup(legend())
        self._start.set_visibility(False)
        self._dialog = CaseDialog(page)

    def _outdate(self, answer: Answer) -> None:
        self._dialog.answered(answer)
        self._list.classes(add="stale")

    def _work(self) -> None:
        if self._answer is None:
            return
        answer = self._answer
        self._start.set_visibility(False)
        order = {name: position for position, name in enumerate(PROPERTIES)}

        def work(report: ReportProgress) -> Report:
            def progress(name: str, part: float) -> None:
                done = order[name]
                text = f"{name}: {done + 1} of {len(order)} properties"
                report(text, (done + part) / len(order))

            return audit_answer(answer, progress=progress)

        def then(report: Report | None, why_not: str) -> None:
            if report is None:
                self._fail(why_not)
                return
            self._report, self._report_of = report, answer
            self._draw(report, answer)

        self._job.start(work, then, "auditing")

    def _draw(self, report: Report, answer: Answer) -> None:
        parts = [tag("p", audit_headline(report), "headline")]
        about = f"{report.subject}, audited in {report.seconds:.2g} s."
        if answer.truths:
            about += f" As the users report it: {', '.join(answer.truths)} lies."
        parts.append(tag("p", about, "note"))
        parts += [tag("p", f"Warning: {warning}") for warning in report.warnings]
        self._message.set_content(join(parts))
        self._list.classes(remove="stale")
        self._findings.refresh()

    @ui.refreshable_method
    def _findings(self) -> None:
        if self._report is not None and self._report_of is not None:
            for group in answers_by_question(self._report):
                with container().props("role=listitem"):
                    markup(answer_line(group))
                    for finding in group.findings:
                        self._row(finding, self._report_of, finding.name in group.made_up)

    def _row(self, finding: Finding, answer: Answer, made_up: bool) -> None:
        sign = mark(finding)
        title = PROPERTIES[finding.name].title if finding.name in PROPERTIES else ""
        row = container("finding")
        with row.props(f"data-testid=finding-{finding.name}"):
            markup(tag("span", sign.content, sign.kind)).classes("sign")
            name = join([tag("b", finding.name), tag("span", title, "soft")])
            markup(name).classes("name")
            measured = finding.verdict in ("fails", "measured")
            amount = ui.label(format_percent(finding.amount, trim=True) if measured else "")
            if measured:
                amount.classes("bar amount").style(f"--part: {100 * min(finding.amount, 1.0):.2f}%")
            markup(finding_text(finding, made_up=made_up)).classes("text")
            if finding.counterexample is not None:
                label = f"See a case for {finding.name}"
                see = ui.button("See why", on_click=lambda: self._dialog.open(finding, answer))
                see.props(f"outline dense no-caps data-testid=see-{finding.name}")
                see.props(f'aria-label="{label}"').classes("act")
