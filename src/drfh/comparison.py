"""Mechanisms side by side on one cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from drfh.allocation import Allocation
from drfh.auditor import PROPERTIES, audit
from drfh.auditor.case import lost
from drfh.auditor.finding import Finding
from drfh.cluster import Cluster
from drfh.errors import InputError, SolverError, UnknownNameError
from drfh.files import Scenario
from drfh.mechanisms import allocate
from drfh.problem import Floats
from drfh.workload import User

if TYPE_CHECKING:
    import polars

__all__ = ["Comparison", "Row", "compare", "default_mechanisms"]

#: What is compared unless one says otherwise; names with a colon are filled in from the cluster.
MECHANISMS_COMPARED = (
    "drfh", "drf", "per-server-drf", "drfh-one-shot", "tsf", "cdrf", "ps-dsf", "nash",
    "asset-fairness", "norm:2", "max-min:RESOURCE", "cmmf", "egalitarian", "fds", "gfj",
    "utilitarian", "bbf", "endowment-drf", "hdrf", "dynamic-drf", "cautious-lp",
    "sequential-min-max", "whole-tasks",
)  # fmt: skip

#: Properties that are measured for every row: those of one allocation, and quick.
MARKS = ("envy-free", "pareto", "sharing-incentive")


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

    def to_dict(self) -> dict[str, Any]:
        """Return the row as plain data."""
        data: dict[str, Any] = {"mechanism": self.name, "seconds": self.seconds}
        if self.allocation is None:
            return {**data, "why_not": self.why_not}
        answer = self.allocation
        proof = answer.certificate
        return {
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
    """

    scenario: Scenario
    rows: tuple[Row, ...]
    properties: tuple[str, ...] = MARKS

    def __getitem__(self, name: str) -> Row:
        for row in self.rows:
            if row.name == name:
                return row
        raise UnknownNameError("mechanism", str(name), [row.name for row in self.rows])

    @property
    def answered(self) -> tuple[Row, ...]:
        """Rows with an answer."""
        return tuple(row for row in self.rows if row.allocation is not None)

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
            placed = answer.assignment.user_tasks
            columns = {
                "mechanism": [row.name] * len(placed),
                "user": answer.problem.names(),
                "promised": answer.promised_tasks,
                "placed": placed,
                "gap": lost(placed, answer.promised_tasks),
            }
            frames.append(polars.DataFrame(columns, schema=schema))
        return polars.concat(frames)

    def table(self) -> polars.DataFrame:
        """Return a row for each mechanism and user: tasks, share, level, promise."""
        import polars

        frames = []
        for row in self.answered:
            if row.allocation is not None:
                frame = row.allocation.user_table()
                frame = frame.with_columns(polars.lit(row.name).alias("mechanism"))
                if "promised" not in frame.columns:
                    missing = polars.lit(None, dtype=polars.Float64)
                    frame = frame.with_columns(missing.alias("promised"))
                frames.append(
                    frame.select("mechanism", "user", "tasks", "share", "level", "promised")
                )
        return polars.concat(frames)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data, ready for JSON."""
        return {
            "title": self.scenario.title,
            "properties": list(self.properties),
            "promises": self.promises().to_dicts(),
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
    needed = {r for user in users for r, amount in user.demand.items() if amount > 0}
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
    mechanisms: Sequence[str] | None = None,
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
        Names; ``whole-tasks`` fills in whole tasks. By default all that apply.
    properties
        Which properties to mark, see :data:`drfh.auditor.PROPERTIES`.
    progress
        Called with the name of the next mechanism, how many are done, and of how many.

    Examples
    --------
    >>> from drfh import load_scenario
    >>> comparison = compare(load_scenario("paper-two-servers"), mechanisms=["drfh", "drf"])
    >>> round(comparison["drf"].gap, 4)  # of what drf promises, 1/7 cannot be placed
    0.1429
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
    chosen = mechanisms or default_mechanisms(subject.cluster, subject.users)
    fair = allocate(subject.cluster, subject.users).assignment.user_tasks
    rows = []
    for number, name in enumerate(chosen):
        if progress is not None:
            progress(name, number, len(chosen))
        asked_for = mechanisms is not None
        rows.append(_row(subject, name, fair, tuple(properties), strict=asked_for))
    return Comparison(subject, tuple(rows), tuple(properties))


def _row(
    scenario: Scenario, name: str, fair: Floats, properties: tuple[str, ...], *, strict: bool
) -> Row:
    started = time.perf_counter()
    own = dict(scenario.parameters) if name == scenario.mechanism else {}
    whole = name == "whole-tasks" or bool(own.pop("whole_tasks", False))
    mechanism = "drfh" if name == "whole-tasks" else name
    try:
        answer = allocate(
            scenario.cluster, scenario.users, mechanism=mechanism, whole_tasks=whole, **own
        )
    except UnknownNameError:
        raise
    except (InputError, SolverError) as error:
        if strict and isinstance(error, InputError):
            raise
        return Row(name, None, str(error), seconds=time.perf_counter() - started)
    seconds = time.perf_counter() - started
    tasks = answer.assignment.user_tasks
    short = lost(tasks, fair)
    worst = int(np.argmax(short))
    promised = answer.promised_tasks
    gap = None if promised is None else float(lost(tasks, promised).max())
    marks = {f.name: f for f in audit(answer, properties=properties)} if properties else {}
    who = answer.problem.users[worst].name if short[worst] > 1e-9 else ""
    return Row(name, answer, "", float(short[worst]), who, gap, marks, seconds)
