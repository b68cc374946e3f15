"""Mechanisms side by side on one cluster."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from drfh.allocation.allocation import Allocation
from drfh.auditor import PROPERTIES, audit
from drfh.auditor.case import ROUND_OFF, lost, worst_of
from drfh.auditor.finding import Finding
from drfh.errors import DrfhError, InputError, SolverError, UnknownNameError
from drfh.formatting import format_count, format_percent
from drfh.mechanisms import WHOLE_PARAMETERS, Mechanism, allocate, find_mechanism
from drfh.model.cluster import Cluster
from drfh.model.scenario import Scenario
from drfh.model.users import User

if TYPE_CHECKING:
    import polars
    from altair import TopLevelMixin as Chart

__all__ = ["Comparison", "Row", "compare", "default_mechanisms"]

#: What is compared by default; names with a colon are filled in from the cluster.
MECHANISMS_COMPARED = (
    "drfh", "drf", "per-server-drf", "drfh-one-shot", "tsf", "cdrf", "ps-dsf", "nash",
    "asset-fairness", "norm:2", "max-min:RESOURCE", "cmmf", "egalitarian", "fds", "gfj",
    "utilitarian", "bbf", "endowment-drf", "hdrf", "dynamic-drf", "cautious-lp",
    "sequential-min-max", "whole-tasks",
)  # fmt: skip

#: Whole tasks are no mechanism of their own; here they have a row.
WHOLE_TASKS = "whole-tasks"

#: Properties that are measured for every row: those of one allocation, and quick.
MARKS = ("envy-free", "pareto", "sharing-incentive")

_MOST_NAMED = 6


@dataclass(frozen=True, eq=False)
class Row:
    """One mechanism.

    Attributes
    ----------
    name : str
        The mechanism; ``whole-tasks`` is DRFH filled in with whole tasks.
    allocation : Allocation or None
        Its answer; None if it has none here.
    why_not : str
        Why it has no answer.
    distance : float
        From fair: 1 − min_i level_i / DRFH level_i.
    worst_off : str
        Who is furthest below its DRFH level.
    gap : float or None
        For pooled mechanisms: the largest part of a promise that cannot be placed.
    marks : dict
        Property name → finding.
    seconds : float
        To the answer, marks not counted.
    """

    name: str
    allocation: Allocation | None
    why_not: str = ""
    distance: float = 0.0
    worst_off: str = ""
    gap: float | None = None
    marks: dict[str, Finding] = field(default_factory=dict)
    seconds: float = 0.0

    def __repr__(self) -> str:
        if self.allocation is None:
            return f"Row({self.name}: no answer, {self.why_not})"
        total = float(self.allocation.task_vector.sum())
        gap = "" if self.gap is None else f", promise gap {format_percent(self.gap)}"
        return (
            f"Row({self.name}: {total:.6g} tasks, {format_percent(self.distance)} from fair{gap})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON data; None for what is not finite."""
        data: dict[str, Any] = {"mechanism": self.name, "seconds": self.seconds}
        if self.allocation is None:
            return {**data, "why_not": self.why_not}
        answer = self.allocation
        proof = answer.certificate
        row = {
            **data,
            "tasks": answer.tasks,
            "shares": answer.shares,
            "promised": answer.promised,
            "promise_gap": self.gap,
            "utilisation": answer.utilisation,
            "total_tasks": sum(answer.tasks.values()),
            "worst_off": self.worst_off,
            "distance": self.distance,
            "certificate_gap": None if proof is None else proof.gap,
            "certificate_closed": None if proof is None else proof.closed,
            "properties": {name: finding.to_dict() for name, finding in self.marks.items()},
        }
        return {name: _finite(value) for name, value in row.items()}


@dataclass(frozen=True, eq=False)
class Comparison:
    """Mechanisms as rows.

    Attributes
    ----------
    scenario : Scenario
        What they were compared on.
    rows : tuple of Row
        In the order asked for.
    properties : tuple of str
        Properties that every row has a mark for.
    fair : dict
        Tasks of each user in the DRFH optimum, whether or not it has a row.
    """

    scenario: Scenario
    rows: tuple[Row, ...]
    properties: tuple[str, ...] = MARKS
    fair: Mapping[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        names = [row.name for row in self.rows]
        listed = ", ".join(names[:_MOST_NAMED]) + (", …" if len(names) > _MOST_NAMED else "")
        users = format_count(len(self.scenario.users), "user")
        return f"Comparison({format_count(len(names), 'mechanism')} for {users}: {listed})"

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise UnknownNameError("mechanism", str(name), [row.name for row in self.rows])

    @property
    def answered(self) -> tuple[Row, ...]:
        """Rows with an answer."""
        return tuple(row for row in self.rows if row.allocation is not None)

    def same_as_drfh(self) -> tuple[str, ...]:
        """Return the other mechanisms that give everybody the same tasks as DRFH here.

        Examples
        --------
        >>> from drfh import load_scenario
        >>> scenario = load_scenario("paper-two-servers")
        >>> compare(scenario, mechanisms=["drfh", "drf", "per-server-drf"]).same_as_drfh()
        ('drf',)
        """
        if not self.fair:
            return ()
        fair = np.array([self.fair[user.name] for user in self.scenario.users])
        same = []
        for row in self.answered:
            if row.allocation is not None and row.name != "drfh":
                tasks = row.allocation.task_vector
                if max(lost(tasks, fair).max(), lost(fair, tasks).max()) <= ROUND_OFF:
                    same.append(row.name)
        return tuple(same)

    def promises(self) -> polars.DataFrame:
        """Return what pooled mechanisms promise and what can be placed of it, user by user.

        Examples
        --------
        >>> from drfh import load_scenario
        >>> compare(load_scenario("paper-two-servers"), mechanisms=["drf"]).promises().rows()
        [('drf', 'ann', 11.666666666666666, 10.0, 0.1428571428571428), \
('drf', 'bob', 11.666666666666666, 10.0, 0.1428571428571428)]
        """
        import polars

        schema = {
            "mechanism": polars.String,
            "user": polars.String,
            "promised": polars.Float64,
            "placed": polars.Float64,
            "gap": polars.Float64,
        }
        frames = [polars.DataFrame(schema=schema)]
        for row in self.answered:
            answer = row.allocation
            if answer is None or answer.promised_tasks is None:
                continue
            placed, promised = answer.task_vector, answer.sums(answer.promised_tasks)
            columns = {
                "mechanism": [row.name] * len(placed),
                "user": [user.name for user in answer.users],
                "promised": promised,
                "placed": placed,
                "gap": lost(placed, promised),
            }
            frames.append(polars.DataFrame(columns, schema=schema))
        return polars.concat(frames)

    def table(self) -> polars.DataFrame:
        """Return a row for each mechanism and user: tasks, share, level, promise."""
        import polars

        numbers = dict.fromkeys(("tasks", "share", "level", "promised"), polars.Float64)
        schema = {"mechanism": polars.String, "user": polars.String, **numbers}
        frames = [polars.DataFrame(schema=schema)]
        for row in self.answered:
            if row.allocation is not None:
                frame = row.allocation.user_table()
                frame = frame.with_columns(polars.lit(row.name).alias("mechanism"))
                if "promised" not in frame.columns:
                    missing = polars.lit(None, dtype=polars.Float64)
                    frame = frame.with_columns(missing.alias("promised"))
                frames.append(frame.select(*schema))
        return polars.concat(frames)

    def plot(self, figure: str = "users") -> Chart:
        """Return a chart of the comparison.

        Parameters
        ----------
        figure
            ``users``: tasks of each user (of many: the spread of their shares) by mechanism;
            ``promises``: the placed part of what pooled mechanisms promise.

        Examples
        --------
        >>> from drfh import load_scenario
        >>> comparison = compare(load_scenario("paper-two-servers"), mechanisms=["drfh", "drf"])
        >>> comparison.plot("promises").data["label"].to_list()[0]
        '10 of 11.67'
        """
        from drfh.report.charts.comparison import comparison_chart

        return comparison_chart(self, figure)

    def to_latex(self) -> str:
        """Return a row for each mechanism as a LaTeX table (booktabs)."""
        from drfh.report.tables import comparison_table

        return comparison_table(self).to_latex()

    def _repr_html_(self) -> str:
        from drfh.report.tables import comparison_table

        return comparison_table(self).to_html()

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, ready for JSON."""
        return {
            "title": self.scenario.title,
            "properties": list(self.properties),
            "same_as_drfh": list(self.same_as_drfh()),
            "promises": _finite(self.promises().to_dicts()),
            "mechanisms": [row.to_dict() for row in self.rows],
        }


def default_mechanisms(cluster: Cluster, users: Sequence[User]) -> list[str]:
    """Return what is compared by default: everything that makes a difference here.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> scenario = load_scenario("paper-two-servers")
    >>> default_mechanisms(scenario.cluster, scenario.users)[:3]
    ['drfh', 'drf', 'per-server-drf']
    """
    needed = {
        r
        for user in users
        for one in (user.kinds or (user,))
        for r, amount in one.demand.items()
        if amount > 0
    }
    left_out = {"endowment-drf"}  # without endowments it is drf, as hdrf without a tree
    if all(user.parent is None for user in users):
        left_out.add("hdrf")
    if len(needed) > 1:
        left_out.add("cmmf")
    names: list[str] = []
    for name in MECHANISMS_COMPARED:
        if name == "max-min:RESOURCE":
            names += [f"max-min:{r}" for r in cluster.resources if r in needed]
        elif name not in left_out:
            names.append(name)
    return names


def compare(
    subject: Scenario | Cluster,
    users: Iterable[User] | None = None,
    *,
    mechanisms: Sequence[str | Mechanism] | str | None = None,
    properties: Sequence[str] = MARKS,
    progress: Callable[[str, int, int], None] | None = None,
) -> Comparison:
    """Run mechanisms side by side.

    Parameters
    ----------
    subject
        A scenario; or a cluster, with its `users`.
    users
        Who shares the cluster, if `subject` is one.
    mechanisms
        Names, or functions from a problem to a solution; ``whole-tasks`` fills in whole tasks.
        A text is names separated by commas. By default all that apply.
    properties
        Which properties to mark, see :data:`drfh.auditor.PROPERTIES`.
    progress
        Called with the name of the next mechanism, how many are done, and of how many.

    Raises
    ------
    DrfhError
        If a mechanism that was asked for has no answer. By default the others go on.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> comparison = compare(load_scenario("paper-two-servers"), mechanisms=["drfh", "drf"])
    >>> comparison
    Comparison(2 mechanisms for 2 users: drfh, drf)
    >>> comparison["drf"]  # of what drf promises, 1/7 cannot be placed
    Row(drf: 20 tasks, 0.0 % from fair, promise gap 14.3 %)
    """
    if isinstance(subject, Cluster):
        if users is None:
            raise InputError("users", "must be given with a cluster")
        subject = Scenario(subject, tuple(users))
    elif not isinstance(subject, Scenario):
        raise InputError("subject", "must be a Scenario or a Cluster", subject)
    for name in properties:
        if name not in PROPERTIES:
            raise UnknownNameError("property", str(name), PROPERTIES)
    if isinstance(mechanisms, str):
        mechanisms = [name.strip() for name in mechanisms.split(",")]
    elif callable(mechanisms):
        raise InputError("mechanisms", "must be a list of names and functions", mechanisms)
    asked_for = bool(mechanisms)
    chosen = _named(mechanisms or default_mechanisms(subject.cluster, subject.users))
    fair = allocate(subject.cluster, subject.users)
    rows = []
    for number, (name, mechanism) in enumerate(chosen.items()):
        if progress is not None:
            progress(name, number, len(chosen))
        started = time.perf_counter()
        try:
            answer = _answer(subject, mechanism)
        except Exception as error:
            if asked_for:
                if isinstance(error, DrfhError):
                    raise
                raise SolverError(f"{name}: {_error_text(error)}") from error
            rows.append(Row(name, None, _error_text(error), seconds=time.perf_counter() - started))
            continue
        seconds = time.perf_counter() - started
        rows.append(_row(name, answer, fair, tuple(properties), seconds))
    return Comparison(subject, tuple(rows), tuple(properties), fair.tasks)


def _named(mechanisms: Iterable[str | Mechanism]) -> dict[str, str | Mechanism]:
    """Return mechanisms by names that differ; the same name asked for twice counts once."""
    asked = list(mechanisms)
    taken = {mechanism for mechanism in asked if isinstance(mechanism, str)}
    result: dict[str, str | Mechanism] = {}
    for mechanism in asked:
        if mechanism == WHOLE_TASKS:
            result[WHOLE_TASKS] = mechanism
            continue
        plain = name = find_mechanism(mechanism)[0]  # an unknown one is refused before the work
        number = 1
        while not isinstance(mechanism, str) and name in taken:
            number += 1
            name = f"{plain}-{number}"
        taken.add(name)
        result[name] = mechanism
    return result


def _answer(scenario: Scenario, mechanism: str | Mechanism) -> Allocation:
    whole = mechanism == WHOLE_TASKS
    chosen = "drfh" if whole else mechanism
    own = dict(scenario.parameters) if chosen == scenario.mechanism else {}
    # Whole tasks have a row of their own, whatever the scenario says.
    own.pop("whole_tasks", None)
    for name in WHOLE_PARAMETERS:
        if not whole or name != "reference":
            own.pop(name, None)
    if whole:
        own["filling"] = "paper"  # as the audit has it: a rule, the same each time
    return allocate(scenario.cluster, scenario.users, mechanism=chosen, whole_tasks=whole, **own)


def _row(
    name: str, answer: Allocation, fair: Allocation, properties: tuple[str, ...], seconds: float
) -> Row:
    tasks = answer.assignment.user_tasks
    if answer.problem.mixes is None:
        short = lost(tasks, fair.assignment.user_tasks)
    else:  # what a user with several kinds of tasks has is its dominant share
        short = lost(answer.share_vector, fair.share_vector)
    worst = worst_of(short)
    promised = answer.promised_tasks
    gap = None if promised is None else float(lost(tasks, promised).max())
    marks = _marks(answer, properties)
    who = answer.users[worst].name if short[worst] > 1e-9 else ""
    return Row(name, answer, "", float(short[worst]), who, gap, marks, seconds)


def _marks(answer: Allocation, properties: tuple[str, ...]) -> dict[str, Finding]:
    if not properties:
        return {}
    try:
        return {finding.name: finding for finding in audit(answer, properties=properties)}
    except Exception as error:
        if len(properties) == 1:
            text = f"could not be measured: {_error_text(error)}"
            return {properties[0]: Finding(properties[0], "not applicable", 0.0, text)}
    return {name: finding for one in properties for name, finding in _marks(answer, (one,)).items()}


def _error_text(error: Exception) -> str:
    """Return an error as one line."""
    text = " ".join(str(error).split())
    if isinstance(error, DrfhError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _finite(value: Any) -> Any:
    """Return plain data with None for numbers that JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, (list, tuple)) else value
