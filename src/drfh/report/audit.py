"""The page of an audit: a report card, and every failure as a case to run again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from drfh.auditor import PROPERTIES
from drfh.errors import InputError
from drfh.files import scenario_text
from drfh.report.audit_charts import failures_chart, fair_chart
from drfh.report.findings import audit_headline, before_after, found_words, legend
from drfh.report.page import page_of, save_picture
from drfh.report.parts import (
    Cell,
    Figure,
    Markup,
    bar,
    details,
    join,
    mark,
    table,
    tag,
    text,
)

if TYPE_CHECKING:
    from drfh.auditor import Counterexample, Finding, Report

__all__ = ["audit_headline", "save_audit"]

_MOST_USERS = 1_000
_FEW_USERS = 12
_LONGEST_CASE = 200_000  # characters of a scenario that still stand on the page


def save_audit(report: Report, path: str | os.PathLike[str], title: str = "") -> None:
    """Write a report card to an .html file, or its main chart to an .svg, .png or .pdf file.

    The page needs no network, and is written whole or not at all.

    Parameters
    ----------
    report
        From :func:`drfh.auditor.audit`.
    path
        The file; what it ends in says what is written.
    title
        Head of the page.

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
    save_picture(path, lambda: failures_chart(report, title), lambda: _page(report, title))


def _page(report: Report, title: str) -> str:
    parts: list[str | Figure] = [
        tag("p", audit_headline(report), "headline"),
        tag("p", _summary(report, named=not title), "summary"),
        *(tag("p", f"Warning: {warning}", "headline") for warning in report.warnings),
    ]
    if report.failed:
        parts += [tag("h2", "What fails, and by how much"), Figure(failures_chart(report), True)]
    chart = fair_chart(report)
    if chart is not None:
        parts += [
            tag("h2", "What everybody has of its fair level"),
            tag(
                "p",
                "The line at 100 % is the DRFH optimum: the most that everybody can have of its "
                "dominant resource, the worst-off first. The numbers are tasks.",
                "note",
            ),
            Figure(chart, True),
        ]
    parts += [tag("h2", "Report card"), _card(report), legend()]
    cases = [_case(finding, report) for finding in report if finding.counterexample is not None]
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
    count = {"holds": 0, "not found": 0, "not applicable": 0}
    for finding in report:
        if finding.verdict in count:
            count[finding.verdict] += 1
    rest = (
        (count["holds"], "hold" if count["holds"] != 1 else "holds"),
        (count["not found"], "searched without finding a counterexample"),
        (count["not applicable"], "not applicable here"),
    )
    others = ", ".join(f"{number} {words}" for number, words in rest if number)
    servers = f"{cluster.size:,} server{'' if cluster.size == 1 else 's'}"
    return (
        f"{where}{users:,} user{'' if users == 1 else 's'} on {servers}. "
        f"{others[:1].upper()}{others[1:]}{'. ' if others else ''}"
        f"Audited in {report.seconds:.2g} s."
    )


def _card(report: Report) -> Markup:
    rows = []
    for finding in report:
        title = PROPERTIES[finding.name].title if finding.name in PROPERTIES else ""
        name = Markup(f'<a href="#case-{text(finding.name)}">{text(finding.name)}</a>')
        shown = name if finding.counterexample is not None else text(finding.name)
        amount = finding.amount if finding.verdict in ("fails", "measured") else None
        rows.append(
            [
                mark(finding),
                Cell(join([tag("b", shown), tag("span", title, "soft")]), "name"),
                bar(amount),
                Cell(found_words(finding)),
            ]
        )
    return table(["", "property", "by how much", "what was found"], rows, "cards")


def _case(finding: Finding, report: Report) -> Markup:
    example = finding.counterexample
    if example is None:
        raise ValueError("a finding without a case")
    sign = mark(finding)
    head = join(
        [
            tag("span", sign.content.split()[0], sign.kind),
            " ",
            tag("b", finding.name),
            f": {finding.text}",
        ]
    )
    content = [tag("p", example.story)] if example.story != finding.text else []
    if example.before or example.after:
        content.append(before_after(finding.name, example))
    content += _again(
        finding.name, example, again=report.again(finding.name, f"{finding.name}.yaml")
    )
    return details(head, join(content, "\n"), name=f"case-{finding.name}")


def _again(name: str, example: Counterexample, again: str) -> list[Markup]:
    """Return the case as text, and how to run it."""
    try:
        scenario = scenario_text(example.scenario)
    except InputError as error:  # such as a restriction that is a function
        return [tag("p", f"The case cannot be written to a file: {error}.", "note")]
    if len(scenario) > _LONGEST_CASE:
        words = f'Too long for a page; write it with report["{name}"].counterexample.save(path).'
        return [tag("p", words, "note")]
    source = f"yaml-{text(name)}"
    button = f'<button class="copy" type="button" data-source="{source}">copy</button>'
    return [
        Markup(f"<p>Save this as <code>{text(name)}.yaml</code> {button}</p>"),
        Markup(f'<pre id="{source}">{text(scenario)}</pre>'),
        Markup(f"<p>Then run it:</p><pre>{text(again)}</pre>"),
    ]


def _tasks(report: Report) -> Markup:
    fair: dict[str, float] = {}
    for finding in report:
        if finding.name == "fair" and finding.counterexample is not None:
            fair = finding.counterexample.after
    users = list(report.tasks.items())
    rows = [[user, tasks, fair.get(user)] for user, tasks in users[:_MOST_USERS]]
    width = 3 if fair else 2
    shown = table(["user", "tasks", "fair level"][:width], [row[:width] for row in rows])
    if len(users) > _MOST_USERS:
        shown = join([shown, tag("p", f"… and {len(users) - _MOST_USERS:,} more", "note")])
    return details(f"{len(users):,} users", shown) if len(users) > _FEW_USERS else shown
