"""Mechanisms side by side, as rows for a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from drfh.auditor.case import ROUND_OFF, lost
from drfh.auditor.comparison import WHOLE_TASKS, compare
from drfh.errors import DrfhError
from drfh.mechanisms.shared.slots import check_servers
from drfh.web.session.answers import Answer, mechanism_of

__all__ = ["COMPARED", "CompareRow", "compare_rows"]

#: The mechanisms that are compared: name → summary.
COMPARED: dict[str, str] = {
    "drfh": "equal dominant shares, server by server",
    "drf": "equal dominant shares, as if all were one server",
    "per-server-drf": "DRF on every server by itself",
    "tsf": "equal parts of what each could run alone",
    "ps-dsf": "DRF on every server, by what each could run there",
    "nash": "the largest product of tasks",
    "slots:14": "whole tasks in equal slots, as Hadoop does",
}


@dataclass(frozen=True, slots=True)
class CompareRow:
    """What one mechanism gives.

    Attributes
    ----------
    mechanism : str
        Its name.
    summary : str
        What it does, in a line.
    tasks, shares : dict
        User → tasks and dominant share; empty if it has no answer.
    promised : dict or None
        User → tasks that a pooled mechanism promises; `tasks` is what can be placed.
    utilisation : dict
        Resource → part of the pool in use.
    total : float
        All tasks.
    distance : float
        From fair: 1 − min_i level_i / DRFH level_i.
    worst_off : str
        Who is furthest below its DRFH level; empty if nobody is.
    differs : tuple of str
        Users whose tasks differ from those of DRFH.
    why_not : str
        Why it has no answer; empty if it has.
    seconds : float
        How long it took.
    """

    mechanism: str
    summary: str
    tasks: Mapping[str, float] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    promised: Mapping[str, float] | None = None
    utilisation: Mapping[str, float] = field(default_factory=dict)
    total: float = 0.0
    distance: float = 0.0
    worst_off: str = ""
    differs: tuple[str, ...] = ()
    why_not: str = ""
    seconds: float = 0.0


def compare_rows(
    answer: Answer,
    mechanisms: Sequence[str] = tuple(COMPARED),
    *,
    progress: Callable[[str, int, int], None] | None = None,
) -> list[CompareRow]:
    """Return a row for each mechanism, also for one that fails.

    Parameters
    ----------
    answer
        Whose scenario to compare them on.
    mechanisms
        Names as :func:`~drfh.web.session.answers.answer_of` takes them.
    progress
        Called with the name of the next mechanism, how many are done, and of how many; what it
        raises stops the work.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> from drfh.web.session.answers import answer_of
    >>> from drfh.web.session.workbook import Workbook
    >>> answer = answer_of(Workbook(load_scenario("paper-two-servers")))
    >>> for row in compare_rows(answer, ["drf", "slots:14"]):
    ...     print(row.mechanism, row.tasks, row.differs)
    drf {'ann': 10.0, 'bob': 10.0} ()
    slots:14 {'ann': 1.0, 'bob': 1.0} ('ann', 'bob')
    """
    rows = []
    for number, name in enumerate(mechanisms):
        if progress is not None:
            progress(name, number, len(mechanisms))
        rows.append(_row(answer, name))
    return rows


def _row(answer: Answer, name: str) -> CompareRow:
    summary = COMPARED.get(name, "")
    started = time.perf_counter()
    try:
        if name == WHOLE_TASKS:
            check_servers(answer.scenario.cluster.size)
        row = compare(answer.scenario, mechanisms=[mechanism_of(name)], properties=()).rows[0]
    except DrfhError as error:
        seconds = time.perf_counter() - started
        return CompareRow(name, summary, why_not=str(error), seconds=seconds)
    found = row.allocation
    if found is None:
        return CompareRow(name, summary, why_not=row.why_not, seconds=row.seconds)
    tasks, fair = found.assignment.user_tasks, answer.fair.assignment.user_tasks
    apart = np.maximum(lost(tasks, fair), lost(fair, tasks)) > ROUND_OFF
    return CompareRow(
        name,
        summary,
        found.tasks,
        found.shares,
        found.promised,
        found.utilisation,
        float(tasks.sum()),
        row.distance,
        row.worst_off,
        tuple(found.problem.users[i].name for i in np.flatnonzero(apart).tolist()),
        seconds=row.seconds,
    )
