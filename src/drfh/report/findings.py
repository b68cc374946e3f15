"""Findings of the auditor in words: for pages, with or without charts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drfh.report.parts import Markup, join, part_text, table, tag, text

if TYPE_CHECKING:
    from drfh.auditor import Counterexample, Finding, Report

__all__ = ["audit_headline", "before_after", "found_words", "legend"]

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
    """Return what matters most: how far from fair, and how many properties fail.

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
    words = []
    fair = {finding.name: finding for finding in report}.get("fair")
    if fair is not None and fair.verdict == "fails":
        words.append(f"{part_text(fair.amount)} from fair.")
    elif fair is not None and fair.verdict == "holds":
        words.append("Fair: nobody is below its DRFH level.")
    failed = len(report.failed)
    asked = sum(finding.verdict != "not applicable" for finding in report)
    if asked == 0:
        return "No property applies here."
    properties = "property" if asked == 1 else "properties"
    fail = "fails" if failed <= 1 else "fail"
    words.append(f"{failed or 'None'} of {asked} {properties} {fail}.")
    return " ".join(words)


def found_words(finding: Finding) -> Markup:
    """Return what was found, who is hurt, and what is proven.

    Examples
    --------
    >>> from drfh.auditor import Finding
    >>> found_words(Finding("fair", "fails", 0.25, "ann has 3 tasks of 4", ("ann",)))
    'ann has 3 tasks of 4<span class="soft">Hurt, worst first: ann</span>'
    """
    lines = [text(finding.text)]
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
        words = f"No proof here; it would need: {', '.join(finding.outside)}"
        lines.append(tag("span", words, "soft"))
    return join(lines)


def legend() -> Markup:
    """Return what the marks of a report card mean."""
    words = (
        "✔ holds: measured. ✘ fails: measured, by the part that the one hurt most misses of what "
        "it should have. ? not found: searched, and no counterexample turned up, which is no "
        "proof. · a measure without a line between good and bad. – not applicable: nothing to "
        "measure here."
    )
    return tag("p", words, "note")


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
    return join([shown, tag("p", f"… and {more:,} more", "note")]) if more > 0 else shown
