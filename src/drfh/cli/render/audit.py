"""Report cards as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drfh.cli.render.console import bar, console, lines, print_json, table
from drfh.formatting import format_count, format_number, format_percent, format_rest, plural

if TYPE_CHECKING:
    from drfh.auditor import Finding, Report

__all__ = ["MARKS", "print_finding", "print_properties", "print_report"]

#: How verdicts look: never by colour alone.
MARKS = {"holds": "✔", "fails": "✘", "not found": "?", "measured": "·", "not applicable": "–"}
_STYLES = {"holds": "green", "fails": "bold red", "not found": "green", "measured": "cyan",
           "not applicable": "dim"}  # fmt: skip
_MOST_TASKS = 12


def print_report(report: Report) -> None:
    """Print one line a property, worst first."""
    out = console()
    if report.scenario.title:
        out.print(report.scenario.title, style="bold")
    counted = [f for f in report if f.verdict != "not applicable"]
    failing = len(report.failed)
    out.print(
        f"{report.subject}, {format_count(len(report.scenario.users), 'user')} on "
        f"{format_count(report.scenario.cluster.size, 'server')}: {failing} of {len(counted)} "
        "properties "
        f"{plural(failing, 'fails', 'fail')}"
    )
    for warning in report.warnings:
        out.print(f"warning: {warning}", style="bold red")
    grid = table("", "property", "by", "", "what was found", right=("by",))
    for finding in counted:
        amount = format_percent(finding.amount) if finding.amount > 0 else ""
        strip = bar(finding.amount, 6) if finding.amount > 0 else ""
        grid.add_row(
            MARKS[finding.verdict], finding.name, amount, strip, _sentence(finding),
            style=_STYLES[finding.verdict] if finding.verdict == "fails" else None,
        )  # fmt: skip
    out.print(grid)
    skipped = [f for f in report if f.verdict == "not applicable"]
    if skipped:
        out.print("Not applicable here", style="dim")
        for finding in skipped:
            out.print(f"  – {finding.name}: {finding.text}", style="dim")
    if report.failed:
        hint = f"--show {report.failed[0]} shows the counterexample, --save FILE keeps it"
        out.print(hint, style="dim")
    out.print(f"{report.seconds:.1f} s", style="dim")


def _sentence(finding: Finding) -> Any:
    texts = [finding.text]
    if finding.proof and finding.verdict == "fails":
        texts.append(f"CONTRADICTS what is proven: {finding.proof}")
    elif finding.proof:
        texts.append(f"proven: {finding.proof}")
    if finding.known:
        texts.append(f"fails in other cases: {finding.known}")
    if finding.outside:
        texts.append(f"proven only for {', '.join(finding.outside)}")
    return lines(*texts)


def print_finding(finding: Finding, *, again: str = "") -> None:
    """Print a finding with its counterexample; `again` is the command for it."""
    out = console()
    out.print(f"{MARKS[finding.verdict]} {finding.name}: {finding.verdict}", style="bold")
    out.print(_sentence(finding))
    if finding.hurt:
        out.print(f"hurt: {', '.join(finding.hurt)}")
    example = finding.counterexample
    if example is None:
        return
    users = list(dict.fromkeys((*example.before, *example.after)))
    if users:
        grid = table("user", "tasks", "tasks then", right=("tasks", "tasks then"))
        for name in users[:_MOST_TASKS]:
            cells = [example.before.get(name), example.after.get(name)]
            grid.add_row(name, *(format_number(c, 6) for c in cells))
        out.print(grid)
        if len(users) > _MOST_TASKS:
            out.print(format_rest(len(users) - _MOST_TASKS, "user", "more (--json has them)"))
    if again:
        out.print(f"saved; to see it again: {again}")
    else:
        out.print("--save FILE keeps the case as a scenario to run again", style="dim")


def print_properties(*, as_json: bool) -> None:
    """Print the properties by name."""
    from drfh.auditor import PROPERTIES

    if as_json:
        print_json({"properties": {name: item.title for name, item in PROPERTIES.items()}})
        return
    grid = table("property", "what it asks", "about")
    for name, item in PROPERTIES.items():
        grid.add_row(name, item.title, "a mechanism" if item.of_mechanism else "an allocation")
    console().print(grid)
