"""``drfh audit``: a report card of fairness, with counterexamples."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drfh.cli.input import (
    OUTPUT_PANEL,
    FileArgument,
    Input,
    JsonOutputOption,
    PageOption,
    SetOption,
    SplitOption,
    StrictOption,
    TraceOption,
    read_input,
)
from drfh.cli.render.console import console, print_json, progress_bar
from drfh.cli.whatif import (
    AddOption,
    DemandOption,
    Edits,
    RemoveOption,
    TasksOption,
    WeightOption,
    WeightsOption,
)
from drfh.errors import InputError, UnknownNameError
from drfh.files.atomic import check_writable
from drfh.formatting import format_count

if TYPE_CHECKING:
    from drfh.auditor import FairnessAnswer, Report

__all__ = ["Request", "audit", "audit_subject", "check_page", "property_names", "read_request"]

REQUIRED_FAILS = 3

_SEARCH = "Search"


def audit(
    file: FileArgument = None,
    trace: TraceOption = None,
    settings: SetOption = None,
    strict: StrictOption = False,
    split: SplitOption = None,
    mechanism: Annotated[
        str | None,
        typer.Option(help="Audit this mechanism instead of the file's, or of what runs."),
    ] = None,
    whole_tasks: Annotated[
        bool, typer.Option("--whole-tasks", help="Tasks are whole (filled in by Best-Fit).")
    ] = False,
    observed: Annotated[
        str | None,
        typer.Option(
            metavar="CSV",
            help="Audit what a scheduler really did: columns user, server, and tasks or amounts.",
        ),
    ] = None,
    only: Annotated[
        str | None, typer.Option(metavar="A,B", help="Measure these properties only.")
    ] = None,
    require: Annotated[
        str | None,
        typer.Option(
            metavar="A,B=10%",
            help="Exit with code 3 if one of these properties fails, or by more than a limit.",
        ),
    ] = None,
    add: AddOption = None,
    remove: RemoveOption = None,
    weight: WeightOption = None,
    weights: WeightsOption = None,
    demand: DemandOption = None,
    tasks: TasksOption = None,
    tries: Annotated[
        int,
        typer.Option(min=1, rich_help_panel=_SEARCH, help="About how many lies to try."),
    ] = 6_000,
    seconds: Annotated[
        float,
        typer.Option(min=0, rich_help_panel=_SEARCH, help="How long to search for each property."),
    ] = 20,
    seed: Annotated[
        int, typer.Option(min=0, rich_help_panel=_SEARCH, help="Seed of what is sampled.")
    ] = 0,
    show: Annotated[
        str | None,
        typer.Option(
            metavar="PROPERTY", rich_help_panel=OUTPUT_PANEL, help="Show the counterexample to one."
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=OUTPUT_PANEL,
            help="With --show: write the counterexample as a scenario file; what was observed "
            "goes beside it (.observed.csv).",
        ),
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option(
            metavar="TEAM", rich_help_panel=OUTPUT_PANEL, help="Why a team has what it has now."
        ),
    ] = None,
    html: PageOption = None,
    as_json: JsonOutputOption = False,
    listed: Annotated[
        bool,
        typer.Option("--list", rich_help_panel=OUTPUT_PANEL, help="Name the properties and stop."),
    ] = False,
) -> None:
    """Measure every fairness property on your cluster: a report card, worst first.

    Of a snapshot, or with --observed, it begins with the answer: what
    everybody has now, what is fair, who is short and why.

    ✘ fails, by how much and who is hurt. ✔ holds. ? a search found
    nothing: that is not a proof, and a proof is cited where there is one.

    Try:

      drfh audit paper-two-servers

      drfh audit team.yaml --show sharing --save worse-off.yaml

      drfh audit team.yaml --observed running.csv

      drfh audit team.yaml --require envy-free,pareto

      drfh audit --trace kubernetes:cluster.json

      drfh audit --trace kubernetes:cluster.json --add "5x cpu=8,memory=32Gi"
    """
    from drfh.auditor.observed import read_observed
    from drfh.cli.render import audit as text

    if listed:
        text.print_properties(as_json=as_json)
        return
    if observed == "-" and "-" in (file, (trace or "").rpartition(":")[2]):
        raise InputError("--observed", "must not be standard input too", observed)
    asked = read_request(only, require, show, save, html, explain)
    given = read_input(
        file,
        trace,
        verb="audit",
        settings=settings,
        strict=strict,
        split=split,
        edits=Edits(add, remove, weight, weights, demand, tasks),
    )
    given.print_account()
    if observed is not None and mechanism is not None:
        raise InputError("--observed", "must not be used together with --mechanism")
    snapshot = given.trace is not None and given.trace.running is not None
    if observed is not None or (snapshot and mechanism is None):
        asked.check_for_observed()
    table = None if observed is None else read_observed(observed)
    audit_subject(
        given,
        asked,
        observed=_observed(given, table, mechanism),
        before=given.observed_before if table is None else table,
        as_json=as_json,
        mechanism=mechanism,
        whole_tasks=whole_tasks,
        seed=seed,
        tries=tries,
        seconds=seconds,
    )


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of an audit.

    Attributes
    ----------
    measured : list of str or None
        Properties to measure; None for all.
    required : dict of float
        Those that must not fail, and by how much they may.
    shown : str or None
        The one whose counterexample is shown.
    save, html : Path or None
        Where the counterexample and a page go.
    explained : str or None
        The team that is asked about; nothing is measured then.
    """

    measured: list[str] | None
    required: dict[str, float]
    shown: str | None
    save: Path | None
    html: Path | None
    explained: str | None = None

    def check_for_observed(self) -> None:
        """Raise if something is required that one allocation cannot show."""
        from drfh.auditor import PROPERTIES

        for name in self.required:
            if PROPERTIES[name].of_mechanism:
                rule = "must not ask of an observed allocation what only a mechanism has"
                raise InputError("--require", rule, name)


def read_request(
    only: str | None,
    require: str | None,
    show: str | None,
    save: Path | None,
    html: Path | None,
    explain: str | None = None,
) -> Request:
    """Check the options of an audit before anything is read."""
    measured = property_names(only, "--only") or None
    required = _required(require)
    shown = property_names(show, "--show")
    if "price-of-fairness" in required:
        raise InputError("--require", "must not ask for a number that cannot fail", require)
    if len(shown) > 1:
        raise InputError("--show", "must name one property", show)
    if save is not None and not shown:
        raise InputError("--save", "must be used with --show", str(save))
    if measured is not None:
        measured = list(dict.fromkeys([*measured, *required, *shown]))
    elif shown:
        measured = [*shown, *required]
    check_page(html)
    if save is not None:
        check_writable(save, "--save")
    if explain is not None and (shown or required or html is not None):
        raise InputError("--explain", "must not be used with --show, --require or --html", explain)
    return Request(measured, required, shown[0] if shown else None, save, html, explain)


def _required(text: str | None) -> dict[str, float]:
    """Return the properties that a list requires, and the part by which each may fail."""
    required: dict[str, float] = {}
    for part in (text or "").split(","):
        name, equals, limit = part.partition("=")
        for found in property_names(name if text is not None else None, "--require", exact=True):
            required[found] = _limit(limit, found) if equals else 0.0
    return required


def _limit(text: str, name: str) -> float:
    number = text.strip()
    try:
        value = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise InputError(f"--require {name}", "must be a part such as 50% or 0.5", text)
    return value


def audit_subject(
    given: Input,
    asked: Request,
    *,
    observed: Sequence[Mapping[str, Any]] | None,
    before: Sequence[Mapping[str, Any]] | None = None,
    as_json: bool,
    **options: Any,
) -> None:
    """Measure, print, and exit with code 3 if a required property fails.

    Of what was observed the answer is printed first, before properties are measured.

    Parameters
    ----------
    given
        Whom to audit.
    asked
        What about.
    observed
        What really runs; None to audit a mechanism.
    before
        What ran before the edits, if there are any.
    as_json
        Print JSON.
    **options
        For :func:`drfh.audit`.
    """
    from drfh.auditor import PROPERTIES, answer_of, case_of
    from drfh.auditor import audit as measure
    from drfh.cli.render import audit as text

    if asked.explained is not None:
        whole = options.get("whole_tasks", False)
        _explain(given, asked.explained, observed, whole_tasks=whole, as_json=as_json)
        return
    earlier = None
    if given.edits and before and observed and asked.shown is None:
        whole = options.get("whole_tasks", False)
        earlier = answer_of(case_of(given.before, observed=before, whole_tasks=whole))

    def print_answer(answer: FairnessAnswer) -> None:
        if asked.shown is None and not as_json:
            text.print_answer(answer, given.scenario, earlier)

    with given.one_kind_named(), _progress(len(asked.measured or PROPERTIES)) as progress:
        report = measure(
            given.scenario,
            observed=observed,
            properties=asked.measured,
            progress=progress,
            on_answer=print_answer,
            **options,
        )
    if asked.html is not None:
        from drfh.report.pages.audit import save_audit

        notes = [f"After these edits: {'; '.join(given.edits.options)}"] if given.edits else []
        if earlier is not None:
            notes.append(f"Before the edits: {earlier.sentences[0]}")
        save_audit(report, asked.html, title=given.scenario.title, notes=notes)
    if asked.shown is not None:
        _show(report, asked.shown, asked.save, observed, as_json=as_json)
    elif as_json:
        data = {**report.to_dict(), **given.to_dict()}
        if given.edits:
            data["edits"] = given.edits.options
        if earlier is not None:
            data["answer_before"] = earlier.to_dict()
        print_json({**data, "warnings": [*given.warnings, *data["warnings"]]})
    else:
        text.print_report(report)
    for name in asked.required:
        if report[name].verdict == "not applicable":
            rule = f"must ask for what can be measured here ({report[name].text})"
            raise InputError("--require", rule, name)
    broken = [
        name
        for name, limit in asked.required.items()
        if report[name].verdict == "fails" and report[name].amount > limit
    ]
    if broken:
        console(stderr=True).print(f"drfh: required and failing: {', '.join(broken)}", style="red")
        raise typer.Exit(REQUIRED_FAILS)


def _explain(
    given: Input,
    name: str,
    observed: Sequence[Mapping[str, Any]] | None,
    *,
    whole_tasks: bool,
    as_json: bool,
) -> None:
    """Print why a team has what it has now."""
    from drfh.auditor import answer_of, case_of
    from drfh.cli.render import audit as text

    if observed is None:
        rule = "must be about what runs now: a snapshot, or --observed (see allocate --explain)"
        raise InputError("--explain", rule, name)
    answer = answer_of(case_of(given.scenario, observed=observed, whole_tasks=whole_tasks))
    try:
        team = answer[name]
    except UnknownNameError as error:
        error.field = "--explain"
        raise
    if as_json:
        print_json(team.to_dict())
    else:
        text.print_team(team)


def _observed(
    given: Input, table: Sequence[Mapping[str, Any]] | None, mechanism: str | None
) -> Sequence[Mapping[str, Any]] | None:
    """Return what really runs, by a table or by the snapshot; None to audit a mechanism."""
    rows: Sequence[Mapping[str, Any]] | None
    if table is not None:
        rows = table
    elif mechanism is not None or given.trace is None or given.trace.running is None:
        return None
    else:
        rows = given.observed
    if rows is None:
        rule = "must be used, as nothing runs in this snapshot"
        raise InputError("--mechanism", rule)
    kept, gone = given.follow_edits(rows)
    if gone:
        text = f"what runs on servers that are removed waits again: {format_count(gone, 'row')}"
        console(stderr=True).print(f"note: {text}", style="dim")
    if not kept:
        raise InputError("--remove", "must leave a server on which something runs")
    return kept


def property_names(text: str | None, option: str, *, exact: bool = False) -> list[str]:
    """Return the properties that a list names; unless `exact`, the beginning is enough."""
    from drfh.auditor import PROPERTIES

    names = []
    for part in (text or "").split(","):
        name_part = part.strip()
        if not name_part:
            continue
        found = name_part if name_part in PROPERTIES else None
        if not exact:
            found = found or next((name for name in PROPERTIES if name.startswith(name_part)), None)
        if found is None:
            raise UnknownNameError(option, name_part, PROPERTIES)
        names.append(found)
    if text is not None and not names:
        raise InputError(option, "must name at least one property", text)
    return names


def check_page(path: Path | None) -> None:
    """Raise, before the long work, unless a page has the right suffix and can be written."""
    if path is None:
        return
    if path.suffix != ".html":
        raise InputError("--html", "must end in .html", str(path))
    check_writable(path, "--html")


def _show(
    report: Report,
    name: str,
    save: Path | None,
    observed: Sequence[Mapping[str, Any]] | None,
    *,
    as_json: bool,
) -> None:
    from drfh.auditor.observed import save_observed
    from drfh.cli.render import audit as text
    from drfh.files.scenario_file import scenario_text

    finding = report[name]
    example, table = finding.counterexample, None
    if save is not None:
        if example is None:
            raise InputError("--save", f"needs a counterexample, and {name} has none here", name)
        example.save(save)
        if observed is not None and report.shows_itself(name):
            table = save.with_suffix(".observed.csv")
            save_observed(observed, table)
    if as_json:
        data: dict[str, Any] = finding.to_dict()
        if example is not None:
            data["counterexample"]["scenario"] = scenario_text(example.scenario)
        print_json(data)
    else:
        text.print_finding(finding, again="" if save is None else report.again(name, save, table))


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str, float], None]]:
    """Count whole properties and the part of the one at work, from the first of them on."""
    with ExitStack() as stack:
        bars: list[Callable[[str, float, int], None] | None] = []
        done: set[str] = set()

        def report(name: str, part: float) -> None:
            if not bars:  # an answer that comes before is not printed into a bar
                bars.append(stack.enter_context(progress_bar()))
            if part >= 1:
                done.add(name)
            if bars[0] is not None:
                bars[0](name, len(done) + (part if part < 1 else 0.0), total)

        yield report
