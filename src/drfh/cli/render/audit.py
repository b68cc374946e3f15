"""Report cards as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drfh.auditor import PROPERTIES, PropertyGroup, Topic
from drfh.cli.render.console import bar, console, lines, print_json, print_line, table
from drfh.formatting import (
    format_count,
    format_number,
    format_percent,
    format_rest,
    plural,
)

if TYPE_CHECKING:
    from drfh.auditor import FairnessAnswer, Finding, Report, TeamShare
    from drfh.model.scenario import Scenario

__all__ = [
    "MARKS",
    "print_answer",
    "print_finding",
    "print_properties",
    "print_report",
    "print_team",
]

#: How verdicts look: never by colour alone.
MARKS = {"holds": "✔", "fails": "✘", "not found": "?", "measured": "·", "not applicable": "–"}
_STYLES = {"holds": "green", "fails": "bold red", "not found": "green", "measured": "cyan",
           "not applicable": "dim"}  # fmt: skip
_MOST_TASKS = 12
_MOST_TEAMS = 12
_ROOM_FOR_BARS = 100  # columns of a terminal
_WIDE = 140  # from here on, what a property asks is a column of its own


def print_answer(
    answer: FairnessAnswer, scenario: Scenario, before: FairnessAnswer | None = None
) -> None:
    """Print who has what beside what is fair, and the sentences of an answer.

    Parameters
    ----------
    answer
        About what runs now.
    scenario
        Where it runs.
    before
        With edits: the answer about the cluster as it was.
    """
    out = console()
    if scenario.title:
        out.print(scenario.title, style="bold")
    edited = "" if before is None else " after the edits"
    out.print(
        f"what runs now, {format_count(len(answer.teams), 'team')} on "
        f"{format_count(scenario.cluster.size, 'server')}{edited}"
    )
    weighted = len({team.weight for team in answer.teams}) > 1
    numbers = ("weight", "has now", "fair", "difference")
    several = len({team.resource for team in answer.teams}) > 1
    names = ["largest in", "limited by"][not several :]
    grid = table("team", *numbers[not weighted :], *names, right=numbers)
    shown = answer.furthest(_MOST_TEAMS)
    for team in shown:
        grid.add_row(
            team.name,
            *([format_number(team.weight)] if weighted else []),
            format_percent(team.now),
            format_percent(team.fair),
            team.points,
            *([team.resource] if several else []),
            team.limited_by,
            style="red" if team.below and not team.within_a_task else None,
        )
    out.print(grid)
    rest = len(answer.teams) - len(shown)
    if rest > 0:
        print_line(format_rest(rest, "team", "nearer to fair (--json has them)"), style="dim")
    print_line(answer.legend, style="dim")
    out.print()
    for sentence in answer.sentences:
        print_line(str(sentence), style="bold" if sentence.topic is Topic.FAIR else None)
        if sentence.topic is Topic.FAIR and before is not None:
            print_line(f"Before the edits: {before.sentences[0]}")
    out.print()


def print_team(team: TeamShare) -> None:
    """Print why a team has what it has now: in words, and kind by kind."""
    for sentence in team.sentences:
        print_line(sentence)
    numbers = ("now", "wait", "would fit", "in the fair allocation")
    grid = table("tasks", *numbers, "limited by", right=numbers)
    for kind in team.kinds:
        counts = (kind.tasks, kind.waiting, kind.fits, kind.fair_tasks)
        name = kind.name.removeprefix(f"{team.name}/") or team.name
        grid.add_row(name, *map(format_number, counts), kind.limited_by)
    console().print(grid)


def print_report(report: Report) -> None:
    """Print one line a property, worst first: about the cluster, then about the rule."""
    out = console()
    if report.scenario.title and report.answer is None:
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
    for group in PropertyGroup:
        # Nobody knows which rule placed what was observed.
        unknown = report.observed and group is PropertyGroup.RULE
        skips = f"not applicable {'without --mechanism' if unknown else 'here'}"
        here = [finding for finding in report if PROPERTIES[finding.name].group is group]
        _print_group(out, group.value, here, skips)
    if report.failed:
        hint = f"--show {report.failed[0]} shows the counterexample, --save FILE keeps it"
        out.print(hint, style="dim")
    out.print(f"{report.seconds:.1f} s", style="dim")


def _print_group(out: Any, heading: str, findings: list[Finding], skips: str) -> None:
    """Print a table of what applies, and a line of what does not."""
    counted = [finding for finding in findings if finding.verdict != "not applicable"]
    wide = out.width >= _WIDE
    if counted:
        columns = ("by", "") if out.width >= _ROOM_FOR_BARS else ("by",)
        asks = ("what it asks",) if wide else ()
        grid = table("", heading, *asks, *columns, "what was found", right=("by",))
        for finding in counted:
            title = PROPERTIES[finding.name].title
            amount = format_percent(finding.amount) if finding.amount > 0 else ""
            strip = bar(finding.amount, 6) if finding.amount > 0 else ""
            grid.add_row(
                MARKS[finding.verdict],
                finding.name if wide else _with_gloss(finding.name, title),
                *((title,) if wide else ()),
                *(amount, strip)[: len(columns)],
                _sentence(finding),
                style=_STYLES[finding.verdict] if finding.verdict == "fails" else None,
            )
        out.print(grid)
    skipped = [finding.name for finding in findings if finding.verdict == "not applicable"]
    if skipped:
        print_line(f"{heading}, {skips}: {', '.join(skipped)} (--show tells why)", style="dim")


def _with_gloss(name: str, title: str) -> Any:
    from rich.text import Text

    return Text.assemble(name, "\n", (title, "dim"))


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
    if as_json:
        print_json({"properties": {name: item.title for name, item in PROPERTIES.items()}})
        return
    grid = table("property", "what it asks", "")
    for name, item in PROPERTIES.items():
        grid.add_row(name, item.title, item.group.value)
    console().print(grid)
