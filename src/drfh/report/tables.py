"""Tables of records, as HTML for notebooks and as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from drfh.allocation.proofs.certificate import proof_text
from drfh.auditor import PROPERTIES
from drfh.formatting import (
    format_count,
    format_duration,
    format_number,
    format_percent,
    format_quantity,
    format_rest,
)
from drfh.report.html import Cell, Content, as_cell, bar, join, mark, stylesheet, table, tag
from drfh.report.pages.runs import job_scope, name_runs, run_metrics

if TYPE_CHECKING:
    from drfh.allocation.allocation import Allocation
    from drfh.auditor import Report
    from drfh.auditor.comparison import Comparison
    from drfh.model.cluster import Cluster
    from drfh.model.jobs import Workload
    from drfh.simulation.result import Result

__all__ = [
    "RecordTable",
    "allocation_table",
    "audit_table",
    "cluster_table",
    "comparison_table",
    "escape_latex",
    "result_table",
    "workload_table",
]

_MOST_ROWS = 20  # in a notebook
_FEW_USERS = 6  # that have a column each
_LABELS = 60  # characters of labels

_SPECIAL = {
    "-": "-{}",  # before another one
    " %": "\\,\\%",
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "✔": "yes",
    "✘": "no",
    "–": "--",
    "·": r"$\cdot$",
    "…": r"\dots{}",
    "×": r"$\times$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "µ": r"$\mu$",
    "∞": r"$\infty$",
}
_SPECIALS = re.compile("|".join(["-(?=-)", *map(re.escape, list(_SPECIAL)[1:])]))


def escape_latex(text: str) -> str:
    r"""Return text as LaTeX prints it: special characters escaped, in one line.

    Examples
    --------
    >>> print(escape_latex("gpu_a & 50 %"))
    gpu\_a \& 50\,\%
    """
    return _SPECIALS.sub(lambda found: _SPECIAL[found.group()], " ".join(text.split()))


@dataclass(frozen=True)
class RecordTable:
    """Table of a record.

    Attributes
    ----------
    title : str
        What it is about, in a line.
    head : sequence of str
        Names of the columns.
    rows : sequence
        Cells, texts and numbers.
    note : str
        What the rows do not say.
    scope : str
        What the rows are of, if not of all; in LaTeX a comment above the table.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Content]]
    note: str = ""
    scope: str = ""

    def to_html(self, most: int = _MOST_ROWS) -> str:
        """Return it as HTML without scripts; rows beyond `most` are counted.

        Examples
        --------
        >>> html = RecordTable("Two", ["user"], [["<ann>"], ["bob"]]).to_html(most=1)
        >>> html.count("<tr>"), "&lt;ann&gt;" in html, "and 1 more" in html
        (2, True, True)
        """
        more = len(self.rows) - most
        notes = [*([format_rest(more)] if more > 0 else []), *filter(None, (self.note, self.scope))]
        parts = [
            tag("style", stylesheet("drfh.report", "notebook.css")),
            tag("p", self.title),
            table(self.head, self.rows[:most]),
            *(tag("p", note, "note") for note in notes),
        ]
        return str(tag("div", join(parts, "\n"), "drfh"))

    def to_latex(self) -> str:
        r"""Return it as a ``tabular`` for the package booktabs.

        Examples
        --------
        >>> print(RecordTable("", ["user", "tasks"], [["a_1", 2.5]]).to_latex())
        \begin{tabular}{lr}
        \toprule
        user & tasks \\
        \midrule
        a\_1 & 2.5 \\
        \bottomrule
        \end{tabular}
        <BLANKLINE>
        """
        cells = [[as_cell(value) for value in row] for row in self.rows]
        columns = "".join(_alignment([row[i] for row in cells]) for i in range(len(self.head)))
        lines = [
            *([f"% {self.scope}"] if self.scope else []),
            f"\\begin{{tabular}}{{{columns}}}",
            "\\toprule",
            _latex_row([escape_latex(name) for name in self.head]),
            "\\midrule",
            *(_latex_row([_latex_cell(cell) for cell in row]) for row in cells),
            "\\bottomrule",
            "\\end{tabular}",
        ]
        return "\n".join(lines) + "\n"


def _alignment(cells: Sequence[Cell]) -> str:
    kinds = {cell.kind.partition(" ")[0] for cell in cells if cell.content}
    if "wrap" in kinds:
        return r"p{.5\linewidth}"
    return "r" if kinds and kinds <= {"number", "part"} else "l"


def _latex_cell(cell: Cell) -> str:
    text = escape_latex(cell.content)
    return f"\\textbf{{{text}}}" if "best" in cell.kind.split() else text


def _latex_row(cells: Sequence[str]) -> str:
    # After the end of a row a bracket or a star would be an argument of it.
    first = "{}" if cells[0][:1] in ("[", "*") else ""
    return f"{first}{' & '.join(cells)} \\\\"


def allocation_table(allocation: Allocation) -> RecordTable:
    """Return users with their tasks and shares.

    Examples
    --------
    >>> from drfh import allocate, load_scenario
    >>> allocation_table(allocate(load_scenario("paper-two-servers"))).head
    ['user', 'weight', 'tasks', 'share', 'largest in']
    """
    frame = allocation.user_table()
    extra = [name for name in ("promised", "divisible") if name in frame.columns]
    rows = [
        [
            row["user"],
            row["weight"],
            *(row[name] for name in extra),
            row["tasks"],
            bar(row["share"]),
            row["dominant"],
        ]
        for row in frame.iter_rows(named=True)
    ]
    proof = allocation.certificate
    how = allocation.method if proof is None else proof_text(proof)
    cluster = allocation.problem.cluster
    return RecordTable(
        f"{allocation.mechanism}: {format_count(len(rows), 'user')} on "
        f"{format_count(cluster.size, 'server')} ({how})",
        ["user", "weight", *extra, "tasks", "share", "largest in"],
        rows,
        f"Used: {_parts(allocation.utilisation)}.",
    )


def _parts(used: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {format_percent(part)}" for name, part in used.items())


def result_table(result: Result, beside: Sequence[Result] = ()) -> RecordTable:
    """Return the metrics of a run, and of others beside it.

    Times of jobs are of those that finished in all of them.

    Examples
    --------
    >>> from drfh import load_scenario, simulate
    >>> result_table(simulate(load_scenario("gpu-day"))).rows[1][0]
    'tasks done'
    """
    runs = name_runs([result, *beside])
    heads, cells = run_metrics(runs)
    rows: list[list[Content]] = [[head, *line] for head, line in zip(heads, cells, strict=True)]
    scope = job_scope(runs).strip()
    if beside:
        title = f"{len(runs)} runs of {format_count(result.numbers['tasks']['submitted'], 'task')}"
        names = [run.name for run in runs]
        return RecordTable(title, ["metric", *names], rows, scope=scope)
    numbers = result.numbers
    tasks, jobs = numbers["tasks"], numbers["jobs"]
    return RecordTable(
        f"{result.policy}: {tasks['completed']:,} of {format_count(tasks['submitted'], 'task')} "
        f"of {format_count(jobs['submitted'], 'job')} completed in "
        f"{format_duration(result.horizon)}",
        ["metric", result.policy],
        rows,
        f"Tables: jobs ({len(result.jobs):,} rows), users ({len(result.users):,}), "
        f"samples ({len(result.samples):,}); figures: plot().",
        scope,
    )


def comparison_table(comparison: Comparison) -> RecordTable:
    """Return mechanisms with tasks of few users, use, distance from fair, properties.

    Examples
    --------
    >>> from drfh import compare, load_scenario
    >>> comparison = compare(load_scenario("paper-two-servers"), mechanisms=["drf"])
    >>> comparison_table(comparison).head[:4]
    ['mechanism', 'ann', 'bob', 'tasks']
    """
    users = [user.name for user in comparison.scenario.users]
    shown = users if len(users) <= _FEW_USERS else []
    resources = comparison.scenario.cluster.resources
    rows: list[list[Content]] = []
    for row in comparison.answered:
        answer = row.allocation
        if answer is None:
            raise ValueError("a row without an answer")
        tasks, used = answer.tasks, answer.utilisation
        marks = [row.marks.get(name) for name in comparison.properties]
        rows.append(
            [
                row.name,
                *(tasks[user] for user in shown),
                float(answer.task_vector.sum()),
                *(bar(used[name]) for name in resources),
                bar(row.distance),
                row.worst_off,
                *(None if finding is None else mark(finding, short=True) for finding in marks),
            ]
        )
    without = [f"{row.name} ({row.why_not})" for row in comparison.rows if row.allocation is None]
    return RecordTable(
        f"{format_count(len(rows), 'mechanism')} for {format_count(len(users), 'user')}"
        + (f": {comparison.scenario.title}" if comparison.scenario.title else ""),
        ["mechanism", *shown, "tasks", *(f"{name} used" for name in resources), "from fair",
         "worst off", *comparison.properties],
        rows,
        f"No answer: {'; '.join(without)}." if without else "",
    )  # fmt: skip


def audit_table(report: Report) -> RecordTable:
    """Return properties with verdict, amount and what was found.

    Examples
    --------
    >>> from drfh import audit, load_scenario
    >>> report = audit(load_scenario("paper-two-servers"), properties=["pareto"])
    >>> [cell.content for cell in audit_table(report).rows[0][1:3]]
    ['holds', '']
    """
    rows: list[list[Content]] = []
    for finding in report:
        measured = finding.verdict in ("fails", "measured")
        titled = PROPERTIES[finding.name].title if finding.name in PROPERTIES else ""
        rows.append(
            [
                Cell(finding.name, title=titled),
                Cell(finding.verdict),
                bar(finding.amount if measured else None),
                Cell(finding.text, "wrap"),
            ]
        )
    title = report.scenario.title
    return RecordTable(
        f"{f'{title}: ' if title else ''}{report.subject}, {len(report.failed)} of "
        f"{len(rows)} properties fail",
        ["property", "verdict", "by", "what was found"],
        rows,
        " ".join(report.warnings),
    )


def cluster_table(cluster: Cluster) -> RecordTable:
    """Return server groups with their size, resources and labels.

    Examples
    --------
    >>> from drfh import Cluster, Server
    >>> cluster_table(Cluster([Server({"memory": "4Gi"}, name="a", count=2)])).rows[0][2].content
    '4Gi'
    """
    labelled = any(server.labels for server in cluster.servers)
    rows: list[list[Content]] = []
    for server in cluster.servers:
        amounts = (server.resources.get(name, 0.0) for name in cluster.resources)
        row: list[Content] = [str(server.name), server.count]
        row += [Cell(format_quantity(amount), "number") for amount in amounts]
        if labelled:
            text = ", ".join(f"{name}={value}" for name, value in server.labels.items())
            row.append(text if len(text) <= _LABELS else f"{text[: _LABELS - 1]}…")
        rows.append(row)
    head = ["group", "servers", *cluster.resources, *(["labels"] if labelled else [])]
    return RecordTable(cluster.summary, head, rows)


def workload_table(workload: Workload) -> RecordTable:
    """Return users with their jobs, tasks and arrivals.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> workload_table(load_scenario("gpu-day").workload).head
    ['user', 'weight', 'jobs', 'tasks', 'first arrival', 'last arrival']
    """
    count = len(workload.users)
    jobs = np.bincount(workload.job_user, minlength=count)
    tasks = np.bincount(workload.batch_user, workload.batch_count, minlength=count)
    first, last = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(first, workload.batch_user, workload.batch_arrival)
    np.maximum.at(last, workload.batch_user, workload.batch_arrival)
    rows: list[list[Content]] = [
        [user.name, user.weight, int(jobs[i]), int(tasks[i]), *map(_moment, (first[i], last[i]))]
        for i, user in enumerate(workload.users)
    ]
    head = ["user", "weight", "jobs", "tasks", "first arrival", "last arrival"]
    return RecordTable(f"{format_count(count, 'user')}, {workload.summary}", head, rows)


def _moment(seconds: float) -> Cell:
    text = format_duration(float(seconds)) if np.isfinite(seconds) else format_number(None)
    return Cell(text, "number")
