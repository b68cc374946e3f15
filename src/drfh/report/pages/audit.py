"""Page of an audit: report card, and reproducible counterexamples."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from drfh.auditor import PROPERTIES
from drfh.auditor.questions import QuestionAnswer, answers_by_question
from drfh.errors import InputError
from drfh.files.scenario_file import scenario_text
from drfh.formatting import format_count, format_percent, format_rest, plural
from drfh.report.charts.audit import failures_chart, fair_chart
from drfh.report.html import (
    MARKS,
    Cell,
    Content,
    Figure,
    Markup,
    bar,
    details,
    join,
    mark,
    page_of,
    save_page,
    table,
    tag,
)

if TYPE_CHECKING:
    from drfh.auditor import Counterexample, FairnessAnswer, Finding, Report, TeamShare

__all__ = ["answer_line", "audit_headline", "before_after", "finding_text", "legend", "save_audit"]


_MOST_HURT = 5
_MOST_NAMED = 10  # the auditor names no more
_MOST_USERS = 1_000
_OF_THE_SAME_CASE = ("has", "would have")
_COLUMNS = {
    "fair": ("has", "fair level"),
    "promise-kept": ("promised", "can be placed"),
    "envy-free": _OF_THE_SAME_CASE,
    "envy-free-literal": _OF_THE_SAME_CASE,
    "envy-free-1": _OF_THE_SAME_CASE,
    "pareto": ("has", "could have"),
    "sharing-incentive": _OF_THE_SAME_CASE,
    "dedicated-cloud": _OF_THE_SAME_CASE,
    "single-server": ("should have", "has"),
    "single-resource": ("should have", "has"),
}


def audit_headline(report: Report) -> str:
    """Return the headline: whether it is fair, number of failed properties.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.auditor import audit
    >>> scenario, some = load_scenario("gpu-cluster"), ["fair", "envy-free"]
    >>> audit_headline(audit(scenario, mechanism="drf", properties=some))
    '9.2 % from fair. 2 of 2 properties fail.'
    >>> audit_headline(audit(scenario, properties=some))
    'Fair: nobody is below its DRFH level. None of 2 properties fails.'
    """
    parts = []
    fair = {finding.name: finding for finding in report}.get("fair")
    if report.answer is not None:
        parts.append(str(report.answer.sentences[0]))
    elif fair is not None and fair.verdict == "fails":
        parts.append(f"{format_percent(fair.amount, trim=True)} from fair.")
    elif fair is not None and fair.verdict == "holds":
        parts.append("Fair: nobody is below its DRFH level.")
    failed = len(report.failed)
    asked = sum(finding.verdict != "not applicable" for finding in report)
    if asked == 0 and not parts:
        return "No property applies here."
    if asked == 0:
        return parts[0]
    properties = plural(asked, "property", "properties")
    fail = "fails" if failed <= 1 else "fail"
    parts.append(f"{failed or 'None'} of {asked} {properties} {fail}.")
    return " ".join(parts)


def answer_line(answer: QuestionAnswer) -> Markup:
    """Return a question as a heading, and its answer with a mark."""
    sign, kind = MARKS[answer.verdict]
    return join([tag("h3", answer.question), tag("p", f"{sign} {answer.text}", f"mark {kind}")])


def finding_text(finding: Finding, *, made_up: bool = False) -> Markup:
    """Return the text of a finding: result, users hurt, proof.

    Examples
    --------
    >>> from drfh.auditor import Finding
    >>> print(finding_text(Finding("fair", "fails", 0.25, "ann has 3 tasks of 4", ("ann",))))
    ann has 3 tasks of 4<span class="soft">Hurt, worst first: ann</span>
    """
    lines = [finding.text]
    if made_up:
        lines.insert(0, tag("span", "Made-up example, not your cluster:", "soft"))
    if finding.hurt:
        named = ", ".join(finding.hurt[:_MOST_HURT])
        more = len(finding.hurt) - _MOST_HURT
        if more > 0:
            named += f" and {more}{' or more' if len(finding.hurt) >= _MOST_NAMED else ''}"
        lines.append(tag("span", f"Hurt, worst first: {named}", "soft"))
    if finding.proof:
        lines.append(tag("span", f"Proven for the mechanism: {finding.proof}", "soft"))
    if finding.known:
        lines.append(tag("span", f"Fails in other cases: {finding.known}", "soft"))
    if finding.outside:
        text = f"No proof here; it would need: {', '.join(finding.outside)}"
        lines.append(tag("span", text, "soft"))
    return join(lines)


def legend() -> Markup:
    """Return the legend of the marks."""
    text = (
        "✔ holds: measured. ✘ fails: measured, by the part that the one hurt most misses of what "
        "it should have. ? not found: searched, and no counterexample turned up, which is no "
        "proof. · a measure without a line between good and bad. – not applicable: nothing to "
        "measure here."
    )
    return tag("p", text, "note")


def before_after(name: str, example: Counterexample) -> Markup:
    """Return the tasks of a counterexample as a table.

    Parameters
    ----------
    name
        Of the property: it says what stands side by side.
    example
        The case.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.auditor import Counterexample
    >>> scenario = load_scenario("paper-two-servers")
    >>> case = Counterexample("", scenario, {"ann": 3.0}, {"ann": 4.0})
    >>> "fair level</th>" in before_after("fair", case)
    True
    """
    users = list(dict.fromkeys([*example.before, *example.after]))
    before, after = _COLUMNS.get(name, ("before", "after"))
    shown = table(
        ["tasks of", before, after],
        [[user, example.before.get(user), example.after.get(user)] for user in users[:_MOST_USERS]],
    )
    more = len(users) - _MOST_USERS
    return join([shown, tag("p", format_rest(more), "note")]) if more > 0 else shown


_FEW_USERS = 12
_LONGEST_CASE = 200_000  # characters of a scenario that still stand on the page


def save_audit(
    report: Report, path: str | os.PathLike[str], title: str = "", notes: Sequence[str] = ()
) -> None:
    """Write a report card (.html), or its main chart (.svg, .png, .pdf).

    The page needs no network, and is written whole or not at all.

    Parameters
    ----------
    report
        From :func:`drfh.auditor.audit`.
    path
        The file; what it ends in says what is written.
    title
        Head of the page.
    notes
        Lines below the headline, such as what was edited.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from drfh import load_scenario
    >>> from drfh.auditor import audit
    >>> report = audit(load_scenario("paper-two-servers"), properties=["fair", "envy-free"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_audit(report, f"{folder}/card.html")
    ...     "✔ holds" in Path(f"{folder}/card.html").read_text()
    True
    """
    save_page(path, lambda: failures_chart(report, title), lambda: _page(report, title, notes))


def _page(report: Report, title: str, notes: Sequence[str]) -> str:
    parts: list[str | Figure] = [
        tag("p", audit_headline(report), "headline"),
        *(tag("p", note) for note in notes),
        tag("p", _summary(report, named=not title), "summary"),
        *(tag("p", f"Warning: {warning}", "headline") for warning in report.warnings),
    ]
    if report.answer is not None:
        parts += _answer(report.answer)
    parts += [tag("h2", "Report card"), *_card(report), legend()]
    if report.failed:
        parts += [tag("h2", "What fails, and by how much"), Figure(failures_chart(report), True)]
    chart = fair_chart(report)
    if chart is not None:
        parts += [
            tag("h2", "What everybody has of its fair share"),
            tag(
                "p",
                "The line at 100 % is the DRFH optimum: the most that everybody can have of its "
                "dominant resource, the worst-off first. The numbers are "
                f"{'tasks' if report.answer is None else 'shares'}.",
                "note",
            ),
            Figure(chart, True),
        ]
    shown = [finding for answer in answers_by_question(report) for finding in answer.findings]
    cases = [_case(finding, report) for finding in shown if finding.counterexample is not None]
    if cases:
        parts += [
            tag("h2", "Cases that show it"),
            tag("p", "Each can be saved and run again.", "note"),
            *cases,
        ]
    parts += [tag("h2", "Tasks"), _tasks(report)]
    return page_of(title or f"Audit of {report.subject}", parts)


def _summary(report: Report, *, named: bool) -> str:
    scenario = report.scenario
    cluster, users = scenario.cluster, len(scenario.users)
    where = "" if named else f"{report.subject}. "
    where += f"{scenario.title}: " if scenario.title else ""
    count = Counter(finding.verdict for finding in report)
    rest = (
        (count["holds"], plural(count["holds"], "holds", "hold")),
        (count["not found"], "searched without finding a counterexample"),
        (count["not applicable"], "not applicable here"),
    )
    others = ", ".join(f"{number} {label}" for number, label in rest if number)
    servers = format_count(cluster.size, "server")
    return (
        f"{where}{format_count(users, 'user')} on {servers}. "
        f"{others[:1].upper()}{others[1:]}{'. ' if others else ''}"
        f"Audited in {report.seconds:.2g} s."
    )


def _answer(answer: FairnessAnswer) -> list[Markup]:
    """Return who has what beside what is fair, and the sentences but the first, the headline."""
    points = [tag("li", str(sentence)) for sentence in answer.sentences[1:]]
    parts = [
        tag("h2", "What teams have now, and in the fair allocation"),
        tag("p", answer.legend, "note"),
        _teams(answer, answer.furthest(_FEW_USERS)),
    ]
    if len(answer.teams) > _FEW_USERS:
        every = answer.furthest(_MOST_USERS)
        head = f"{len(every):,} of {format_count(len(answer.teams), 'team')}"
        parts.append(details(head, _teams(answer, every)))
    return [*parts, tag("ul", join(points), "answer")]


def _teams(answer: FairnessAnswer, teams: Sequence[TeamShare]) -> Markup:
    weighted = len({team.weight for team in answer.teams}) > 1
    numbers = [*(["weight"] if weighted else []), "has now", "fair", "difference"]
    several = len({team.resource for team in answer.teams}) > 1
    rows: list[list[Content]] = []
    for team in teams:
        weight: list[Content] = [team.weight] if weighted else []
        shares = (format_percent(team.now), format_percent(team.fair), team.points)
        cells = [Cell(text, "number") for text in shares]
        largest: list[Content] = [team.resource] if several else []
        rows.append([team.name, *weight, *cells, *largest, team.limited_by])
    names = ["largest in", "limited by"][not several :]
    return table(["team", *numbers, *names], rows, "answer")


def _card(report: Report) -> list[Markup]:
    """Return a table for each question, and a line of what does not apply."""
    parts = []
    for answer in answers_by_question(report):
        counted = [finding for finding in answer.findings if finding.verdict != "not applicable"]
        skipped = [finding for finding in answer.findings if finding.verdict == "not applicable"]
        parts.append(answer_line(answer))
        if counted:
            rows = [_card_row(finding, finding.name in answer.made_up) for finding in counted]
            parts.append(table(["", "property", "by how much", "what was found"], rows, "cards"))
        if skipped:
            reasons = [tag("li", f"{finding.name}: {finding.text}") for finding in skipped]
            head = f"Not applicable here: {', '.join(finding.name for finding in skipped)}"
            parts.append(details(head, tag("ul", join(reasons))))
    return parts


def _card_row(finding: Finding, made_up: bool) -> list[Content]:
    shown = finding.name
    if finding.counterexample is not None:
        shown = Markup('<a href="#case-{0}">{0}</a>').format(finding.name)
    amount = finding.amount if finding.verdict in ("fails", "measured") else None
    title = tag("span", PROPERTIES[finding.name].title, "soft")
    return [
        mark(finding),
        Cell(join([tag("b", shown), title]), "name"),
        bar(amount),
        Cell(finding_text(finding, made_up=made_up)),
    ]


def _case(finding: Finding, report: Report) -> Markup:
    example = finding.counterexample
    if example is None:
        raise ValueError("a finding without a case")
    symbol, kind = MARKS[finding.verdict]
    head = join(
        [tag("span", symbol, f"mark {kind}"), " ", tag("b", finding.name), f": {finding.text}"]
    )
    content = [tag("p", example.story)] if example.detail else []
    if example.before or example.after:
        content.append(before_after(finding.name, example))
    content += _again(finding.name, example, report.again(finding.name, f"{finding.name}.yaml"))
    return details(head, join(content, "\n"), name=f"case-{finding.name}")


def _again(name: str, example: Counterexample, again: str) -> list[Markup]:
    """Return a counterexample as YAML, and the command to run it."""
    try:
        scenario = scenario_text(example.scenario)
    except InputError as error:  # such as a restriction that is a function
        return [tag("p", f"The case cannot be written to a file: {error}.", "note")]
    if len(scenario) > _LONGEST_CASE:
        text = f'Too long for a page; write it with report["{name}"].counterexample.save(path).'
        return [tag("p", text, "note")]
    return [
        Markup(
            '<p>Save this as <code>{0}.yaml</code> <button class="copy" type="button" '
            'data-source="yaml-{0}">copy</button></p>'
        ).format(name),
        Markup('<pre id="yaml-{}">{}</pre>').format(name, scenario),
        Markup("<p>Then run it:</p>") + tag("pre", again),
    ]


def _tasks(report: Report) -> Markup:
    cases = [finding.counterexample for finding in report if finding.name == "fair"]
    fair = cases[0].after if cases and cases[0] is not None else {}
    users = list(report.tasks.items())
    rows = [[user, tasks, fair.get(user)] for user, tasks in users[:_MOST_USERS]]
    width = 3 if fair else 2
    shown = table(["user", "tasks", "fair level"][:width], [row[:width] for row in rows])
    if len(users) > _MOST_USERS:
        shown = join([shown, tag("p", format_rest(len(users) - _MOST_USERS), "note")])
    head = f"{len(report.scenario.users):,} users"
    return details(head, shown) if len(users) > _FEW_USERS else shown
