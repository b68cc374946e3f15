"""Inputs of the verbs (scenario file, trace, snapshot), and options of several verbs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drfh.cli.render.console import console, progress_bar
from drfh.cli.whatif import NO_EDITS, Edits
from drfh.errors import InputError, nearest
from drfh.formatting import format_count, join_names

if TYPE_CHECKING:
    from drfh.files.reader import Oddity
    from drfh.model.cluster import Cluster
    from drfh.model.jobs import Workload
    from drfh.model.scenario import Scenario
    from drfh.traces import Trace
    from drfh.traces.scenario import Reduced

__all__ = [
    "OUTPUT_PANEL",
    "AllUsersOption",
    "FigureFormatOption",
    "FiguresOption",
    "FileArgument",
    "ForceOption",
    "Input",
    "JsonOutputOption",
    "PageOption",
    "SetOption",
    "SplitOption",
    "StrictOption",
    "TraceOption",
    "check_figures",
    "oddity_text",
    "open_trace",
    "parse_settings",
    "read_input",
    "trace_facts",
]

_PANEL = "Trace"
_MOST_NAMED = 5

FileArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE",
        help="A scenario (YAML, JSON, or the name of a shipped one), a trace or a snapshot; - for "
        "standard input.",
    ),
]
TraceOption = Annotated[
    str | None,
    typer.Option(
        "--trace",
        metavar="SOURCE",
        rich_help_panel=_PANEL,
        help="Instead of FILE: FORMAT:PATH or PATH, such as kubernetes:cluster.json.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", rich_help_panel=_PANEL, help="An option of the format."
    ),
]
StrictOption = Annotated[
    bool,
    typer.Option("--strict", rich_help_panel=_PANEL, help="Stop at the first broken entry."),
]
SplitOption = Annotated[
    bool | None,
    typer.Option(
        "--split/--no-split",
        rich_help_panel=_PANEL,
        help="Each kind of task a user of its own, or the mean task of its user; by default, in a "
        "snapshot, users have kinds of tasks and one share each.",
    ),
]

#: Heading of the options of what is printed and written, in the help.
OUTPUT_PANEL = "Output"
AllUsersOption = Annotated[
    bool,
    typer.Option("--all", rich_help_panel=OUTPUT_PANEL, help="Show every user, however many."),
]
ForceOption = Annotated[
    bool,
    typer.Option(
        "--force", rich_help_panel=OUTPUT_PANEL, help="Replace run directories that are there."
    ),
]
JsonOutputOption = Annotated[
    bool, typer.Option("--json", rich_help_panel=OUTPUT_PANEL, help="Print JSON.")
]
PageOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", rich_help_panel=OUTPUT_PANEL, help="Write one offline page with charts."
    ),
]
FiguresOption = Annotated[
    Path | None,
    typer.Option(
        "--figures",
        metavar="DIR",
        rich_help_panel=OUTPUT_PANEL,
        help="Write each figure by itself, 3.5 inches wide: one column of a paper.",
    ),
]
FigureFormatOption = Annotated[
    str | None,
    typer.Option(
        "--figure-format",
        metavar="A,B",
        rich_help_panel=OUTPUT_PANEL,
        help="Formats of the figures: svg, pdf, png; by default all three.",
    ),
]


@dataclass(frozen=True)
class Input:
    """The scenario file or the trace that a verb is given.

    Attributes
    ----------
    source : str
        The file, or the trace with its format and settings.
    file : Scenario or None
        What the file holds.
    trace : Trace or None
        What was read instead of a file.
    split, kinds : bool or None, bool
        How users of a trace become users of :attr:`scenario`, see
        :func:`drfh.traces.scenario.reduced`.
    edits : Edits
        What is changed in it.
    """

    source: str
    file: Scenario | None = None
    trace: Trace | None = None
    split: bool | None = None
    kinds: bool = True
    edits: Edits = NO_EDITS

    def _reduce(self, trace: Trace) -> Reduced:
        from drfh.traces.scenario import reduced

        return reduced(trace, split=self.split, kinds=self.kinds)

    @cached_property
    def _reduced(self) -> Reduced:
        assert self.trace is not None
        return self._reduce(self.trace)

    @cached_property
    def weighted(self) -> Trace | None:
        """The trace with the weights that are given."""
        if self.trace is None:
            return None
        workload = self.trace.workload
        weights = self.edits.team_weights([user.name for user in workload.users])
        if not weights:
            return self.trace
        return replace(self.trace, workload=workload.with_weights(weights))

    @property
    def before(self) -> Scenario:
        """Cluster and users as they were read."""
        return self._reduced.scenario if self.file is None else self.file

    @cached_property
    def scenario(self) -> Scenario:
        """Cluster and users after the edits."""
        if self.file is not None:
            return self.edits.apply(self.file) if self.edits else self.file
        weighted = self.weighted
        assert weighted is not None
        found = self._reduced if weighted is self.trace else self._reduce(weighted)
        # A user that is split has its weight already, and is nobody in the scenario.
        known = {user.name for user in weighted.workload.users}
        return self.edits.apply(found.scenario, weighted=known, nodes=found.nodes)

    @property
    def node_names(self) -> dict[str, str]:
        """Name of the node that each server of a group is, after the edits."""
        if self.trace is None:
            return {}
        return _server_nodes(self.edits.nodes_left(self._reduced.nodes))

    @property
    def observed(self) -> list[dict[str, Any]] | None:
        """Of a snapshot: who holds what where, on the nodes that are left."""
        if self.trace is None or self._reduced.observed is None:
            return None
        old = _server_nodes(self._reduced.nodes)
        new = {node: server for server, node in self.node_names.items()}  # a lone one: its group
        here = {server: new.get(node) for server, node in old.items()}
        moved = [
            {**row, "server": here.get(row["server"], row["server"])}
            for row in self._reduced.observed
        ]
        return [row for row in moved if row["server"] is not None]

    @property
    def observed_before(self) -> list[dict[str, Any]] | None:
        """Of a snapshot: who holds what where, before the edits."""
        return None if self.trace is None else self._reduced.observed

    def follow_edits(
        self, rows: Sequence[Mapping[str, Any]]
    ) -> tuple[Sequence[Mapping[str, Any]], int]:
        """Return what runs after the edits, and how many rows are gone with their servers."""
        from drfh.auditor.observed import follow_edits

        if not self.edits:
            return rows, 0
        kept, gone = follow_edits(rows, self.before, self.scenario)
        if self.trace is not None and rows == self.observed:
            gone += len(self._reduced.observed or ()) - len(rows)
        return kept, gone

    @property
    def cluster(self) -> Cluster:
        """The servers at the start."""
        return self.scenario.cluster if self.trace is None else self.trace.cluster

    @property
    def workload(self) -> Workload:
        """The jobs over time."""
        if self.weighted is not None:
            workload = self.weighted.workload
            self.edits.check_weights([user.name for user in workload.users])
            return workload
        from drfh.files.atomic import shown_path

        try:
            return self.scenario.workload
        except InputError as error:
            error.place = shown_path(self.source)
            raise

    @property
    def title(self) -> str:
        """The title of the file, or the format and source of the trace."""
        if self.trace is None:
            return self.scenario.title
        from drfh.files.atomic import shown_path

        return f"{self.trace.format}: {shown_path(self.trace.source)}"

    @property
    def warnings(self) -> list[str]:
        """What is odd about new servers: resources of nobody, amounts, rules that admit no task."""
        if not self.edits:
            return []
        cluster = self.scenario.cluster
        new = {name: cluster.group_index[name] for name in cluster.names}
        new = {n: p for n, p in new.items() if n not in self.before.cluster.group_index}
        return [*self._odd_amounts(new), *self._unused(new)] if new else []

    def _odd_amounts(self, new: Mapping[str, int]) -> Iterator[str]:
        """Yield new resources that nobody demands, and amounts that look like other units."""
        from drfh.model.scenario import unit_slips

        before = self.before.cluster
        demands = [one.demand for user in self.scenario.users for one in user.kinds or (user,)]
        demanded = {resource for demand in demands for resource in demand}
        for name in new:
            resources = self.scenario.cluster.servers[new[name]].resources
            for resource in resources:
                if resource in before.resources or resource in demanded:
                    continue
                known = [r for r in before.resources if r.endswith(f"/{resource}")]
                near = known[0] if known else nearest(resource, before.resources, cutoff=0.5)
                hint = f" (did you mean {near}?)" if near else ""
                yield f"{name}: nobody demands {resource}{hint}"
            for title, text in unit_slips(before, [(name, resources)]):
                yield f"{title}: {text}"

    def _unused(self, new: Mapping[str, int]) -> list[str]:
        """Return new groups that the rules of no task admit."""
        import numpy as np

        from drfh.model.users import resolve_restriction

        cluster = self.scenario.cluster
        owners: dict[Any, str] = {}
        for user in self.scenario.users:
            for one in user.kinds or (user,):
                owners.setdefault(one.servers, user.name)
        if None in owners:
            return []
        used = np.zeros(len(cluster), dtype=bool)
        for restriction, owner in owners.items():
            used |= resolve_restriction(restriction, cluster, owner)[0]
        how = "nobody may use it: --add takes labels (zone:a), taints, and like=NAME"
        return [f"{name}: {how}" for name, position in new.items() if not used[position]]

    @contextmanager
    def one_kind_named(self) -> Iterator[None]:
        """Say in an error about several kinds which option makes one of them."""
        from drfh.allocation.mixes import SeveralKindsError

        try:
            yield
        except SeveralKindsError as error:
            if self.trace is None:
                raise
            which = "--no-split takes the mean task, --split each kind as a user"
            raise InputError(error.field, f"{error.rule}; {which}") from None

    def to_dict(self, *, over_time: bool = False) -> dict[str, Any]:
        """Return how a trace was read, ready for JSON; nothing for a scenario file.

        Parameters
        ----------
        over_time
            Whether its jobs were used and not its :attr:`scenario`, which loses something.
        """
        if self.trace is None:
            return {}
        if over_time:
            return {"trace": trace_facts(self.trace)}
        return {"trace": trace_facts(self.trace, self._reduced.notes, self._reduced.nodes)}

    def print_account(self, *, over_time: bool = False) -> None:
        """Print on stderr how a trace was read: counts, what was broken, remarks.

        Parameters
        ----------
        over_time
            As for :meth:`to_dict`.
        """
        out = console(stderr=True)
        users = self.before.users if self.trace is None else self.trace.workload.users
        listed = self.edits.listed_weights if self.edits else {}
        nobody = listed.keys() - {user.name for user in users}
        if nobody:
            names = join_names(sorted(nobody), "", most=_MOST_NAMED)
            out.print(f"warning: weights of nobody who is here: {names}", style="yellow")
        for warning in () if over_time else self.warnings:
            out.print(f"warning: {warning}", style="yellow")
        if self.trace is None:
            return
        trace = self.trace
        counted = [f"{what}: {number:,}" for what, number in trace.counts.items() if number]
        if counted:
            out.print("; ".join(counted), style="dim")
        for odd in trace.oddities:
            out.print(f"warning: {oddity_text(odd)}", style="yellow")
        for remark in trace.remarks:
            out.print(f"note: {remark}", style="dim")
        for note in () if over_time else self._reduced.notes:
            out.print(f"warning: {note}", style="yellow")


def _server_nodes(nodes: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return nodes by the name of the server that each is in its group."""
    several = {
        f"{group}/{index}": node
        for group, names in nodes.items()
        for index, node in enumerate(names)
    }
    return several | {group: names[0] for group, names in nodes.items() if len(names) == 1}


def oddity_text(odd: Oddity) -> str:
    """Return what is wrong in a trace, how often, and the first of it.

    Examples
    --------
    >>> from drfh.files.reader import Oddity
    >>> oddity_text(Oddity("cpu must be a number", 2, "jobs.csv, line 5: cpu must be a number"))
    '2 broken rows, left out; the first: jobs.csv, line 5: cpu must be a number'
    """
    left_out = ", left out" if odd.left_out else ""
    return f"{format_count(odd.count, odd.what)}{left_out}; the first: {odd.first}"


def trace_facts(
    trace: Trace, notes: Sequence[str] = (), nodes: Mapping[str, Sequence[str]] | None = None
) -> dict[str, Any]:
    """Return where a trace comes from and how its reading went, for JSON.

    Parameters
    ----------
    trace
        What was read.
    notes
        What was lost when it was reduced to a scenario.
    nodes
        Names of the nodes of groups of several, by group.
    """
    return {
        "format": trace.format,
        "source": trace.source,
        "window": trace.window,
        "options": {k: list(v) if isinstance(v, tuple) else v for k, v in trace.options.items()},
        "counts": dict(trace.counts),
        "oddities": [odd.to_dict() for odd in trace.oddities],
        "remarks": [*trace.remarks, *notes],
        "nodes": {group: list(names) for group, names in (nodes or {}).items()},
    }


def check_figures(directory: Path | None, formats: str | None) -> list[str]:
    """Return the formats of ``--figure-format``; raise now if figures could not be written."""
    if directory is None:
        if formats is not None:
            raise InputError("--figure-format", "must be used together with --figures")
        return []
    from drfh.files.atomic import check_folder
    from drfh.report.pages.runs import FIGURE_FORMATS, check_formats

    check_folder(directory, "--figures")
    named = list(FIGURE_FORMATS) if formats is None else [f.strip() for f in formats.split(",")]
    return check_formats([name for name in named if name], "--figure-format")


def parse_settings(settings: Sequence[str] | None) -> dict[str, str]:
    """Return the options of a format that ``--set NAME=VALUE`` gives.

    Examples
    --------
    >>> parse_settings(["hours=4"])
    {'hours': '4'}
    """
    given = {}
    for setting in settings or ():
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise InputError("--set", "must be NAME=VALUE (see drfh trace formats)", setting)
        given[name.strip()] = value.strip()
    return given


def open_trace(
    source: str,
    *,
    strict: bool = False,
    settings: Sequence[str] | None = None,
    **options: Any,
) -> Trace:
    """Read ``PATH`` or ``FORMAT:PATH`` with a progress bar on a terminal.

    Parameters
    ----------
    source
        The trace.
    strict
        Stop at the first broken row.
    settings
        ``NAME=VALUE`` of ``--set``: any option of the format.
    **options
        Options with a flag of their own; None if it was not given.
    """
    from drfh.traces import FORMATS, read
    from drfh.traces.base import split_source

    given = {name: value for name, value in options.items() if value is not None}
    given |= parse_settings(settings)
    format_, paths = split_source(source, FORMATS)
    with progress_bar() as progress:
        return read(format_, paths, strict=strict, progress=progress, **given)


def read_input(
    file: str | None,
    trace: str | None,
    *,
    verb: str,
    settings: Sequence[str] | None = None,
    strict: bool = False,
    split: bool | None = None,
    kinds: bool = True,
    edits: Edits = NO_EDITS,
    of_trace: Mapping[str, bool] | None = None,
) -> Input:
    """Read the scenario file or the trace that a verb is given.

    Parameters
    ----------
    file, trace
        One of them.
    verb
        Whose help to point to.
    settings, strict, split, kinds
        For a trace.
    edits
        What to change in it. Without new servers and demands, a scenario file that no mechanism
        can run is refused.
    of_trace
        Further options that need a trace, and whether they are given.
    """
    if file is not None and trace is not None:
        raise InputError("FILE", "must not be given together with --trace", file)
    if file is None and trace is None:
        raise InputError("FILE", f"must be given, or --trace (see drfh {verb} --help)")
    source = trace if file is None else file
    assert source is not None
    scenario = None
    if not _is_trace(source):
        complete = not (edits.add or edits.demand)
        scenario = _read_scenario(source, complete=complete, required=trace is None)
    if scenario is not None:
        options = {"--set": bool(settings), "--strict": strict, "--split": split is not None}
        for option, given in {**options, **(of_trace or {})}.items():
            if given:
                raise InputError(option, "must be used with a trace or a snapshot")
        return Input(source, scenario, edits=edits)
    read = open_trace(source, strict=strict, settings=settings)
    named = " ".join([f"{read.format}:{read.source}", *(settings or ())])
    return Input(named, trace=read, split=split, kinds=kinds, edits=edits)


def _is_trace(source: str) -> bool:
    """Return whether a source is a trace or a snapshot, by its format or its content."""
    if source != "-" and ":" not in source and not os.path.lexists(source):
        return False
    from drfh.traces import FORMATS, known_format

    if source.partition(":")[0] in FORMATS and ":" in source:
        return True
    try:
        return known_format([Path(source)]) is not None
    except (OSError, ValueError):  # too long, or a null byte
        return False


def _read_scenario(source: str, *, complete: bool, required: bool) -> Scenario | None:
    """Return the scenario of a file, or a shipped one; None if there is none and none is required.

    With `complete` one that no mechanism can run is refused.
    """
    from drfh.cli.allocate import check_mechanism
    from drfh.files.scenario_file import load_scenario

    try:
        scenario = load_scenario(source, strict=complete)
    except InputError:
        if required:
            raise
        return None
    check_mechanism(scenario, source)
    return scenario
