"""What another scheduler really did: a table of who holds what where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from drfh.auditor.bundles import Bundles
from drfh.disk import read_text
from drfh.errors import InputError, UnknownNameError
from drfh.mechanisms.filling import single_servers
from drfh.problem import Problem
from drfh.resources import parse_quantity

if TYPE_CHECKING:
    import polars

__all__ = ["observed_bundles", "read_observed"]


def read_observed(path: str | Path) -> list[dict[str, Any]]:
    """Read a CSV file with the columns user, server, and tasks or one column a resource.

    Parameters
    ----------
    path
        The file, or ``-`` for standard input.
    """
    import csv
    import io

    reader = csv.DictReader(io.StringIO(read_text(str(path)), newline=""))
    rows: list[dict[str, Any]] = []
    for row in reader:
        place = f"{path}, line {reader.line_num}"
        if None in row or None in row.values():
            raise InputError("row", f"must have {len(reader.fieldnames or ())} fields", place=place)
        rows.append({**row, "": place})
    if not rows:
        raise InputError("table", "must have a header and at least one row", place=str(path))
    return rows


def observed_bundles(
    problem: Problem,
    table: Iterable[Mapping[str, Any]] | polars.DataFrame,
    *,
    whole: bool = False,
) -> Bundles:
    """Return what users hold according to a table.

    Parameters
    ----------
    problem
        Cluster and users.
    table
        Rows with ``user``, ``server`` (a server or a whole group) and either ``tasks`` or
        amounts by resource name: what the user holds there, in total.
    whole
        Whether tasks are whole: then `server` must be a single server.

    Examples
    --------
    >>> from drfh import Cluster, Server, User
    >>> cluster = Cluster([Server({"cpu": 4, "memory": 8}, name="node", count=2)])
    >>> problem = Problem.build(cluster, [User("ann", {"cpu": 1, "memory": 1})])
    >>> rows = [{"user": "ann", "server": "node/0", "cpu": 3, "memory": 4}]
    >>> observed_bundles(problem, rows).tasks
    array([3.])
    """
    rows = _rows(table)
    single = single_servers(problem)
    cluster = problem.cluster
    users = {name: i for i, name in enumerate(problem.names())}
    start = np.concatenate(([0], np.cumsum(cluster.counts)[:-1]))
    who: list[int] = []
    where: list[int] = []
    amounts: list[np.ndarray[Any, np.dtype[np.float64]]] = []
    for number, row in enumerate(rows):
        place = str(row.get("", ""))
        at = "" if place else f"rows[{number}]."
        name = row.get("user")
        if name not in users:
            raise UnknownNameError(f"{at}user", str(name), users, place=place)
        target = str(row.get("server"))
        found = cluster.find_server(target)
        if found is None:
            raise UnknownNameError(f"{at}server", target, cluster.names, place=place)
        group, index = found
        if index is None and whole and cluster.counts[group] > 1:
            raise InputError(
                f"{at}server", f"must be one server such as {target}/0 for whole tasks",
                target, place=place,
            )  # fmt: skip
        held = _amounts(problem, users[name], row, at, place)
        span = range(int(cluster.counts[group])) if index is None else [index]
        for k in span:
            who.append(users[name])
            where.append(int(start[group]) + k)
            amounts.append(held / len(span))
    order = np.lexsort((who, where))
    return Bundles(
        single,
        np.array(who, dtype=np.int64)[order],
        np.array(where, dtype=np.int64)[order],
        np.array(amounts).reshape(len(who), problem.demand.shape[1])[order],
        whole,
    )


def _rows(table: Iterable[Mapping[str, Any]] | polars.DataFrame) -> list[Mapping[str, Any]]:
    if hasattr(table, "to_dicts"):
        table = table.to_dicts()
    rows = list(table)
    if not rows or not all(isinstance(row, Mapping) for row in rows):
        raise InputError("observed", "must be a table with at least one row")
    return rows


def _amounts(
    problem: Problem, user: int, row: Mapping[str, Any], at: str, place: str
) -> np.ndarray[Any, np.dtype[np.float64]]:
    resources = problem.cluster.resources
    known = {"user", "server", "tasks", "", *resources}
    for column in row:
        if column not in known:
            raise UnknownNameError(f"{at}column", column, sorted(known - {""}), place=place)

    def value(column: str) -> float:
        try:
            return parse_quantity(row[column], f"{at}{column}")
        except InputError as error:
            error.place = place
            raise

    named = [r for r in resources if r in row and row[r] not in ("", None)]
    if "tasks" in row and row["tasks"] not in ("", None):
        if named:
            raise InputError(f"{at}tasks", "must not stand beside amounts", place=place)
        held: np.ndarray[Any, np.dtype[np.float64]] = value("tasks") * problem.demand[user]
        return held
    if not named:
        rule = f"must have tasks, or amounts of {', '.join(resources)}"
        raise InputError(f"{at}row".lstrip("."), rule, place=place)
    return np.array([value(r) if r in named else 0.0 for r in resources])
