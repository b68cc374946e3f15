"""What another scheduler really did: a table of who holds what where."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from drfh.allocation.allocation import kind_names
from drfh.allocation.problem import Blocks, Floats, Ints, Problem
from drfh.auditor.bundles import Bundles
from drfh.errors import InputError, UnknownNameError
from drfh.files.atomic import read_text, write_whole
from drfh.mechanisms.shared.progressive_filling import single_servers
from drfh.model.resources import column_names, parse_quantity
from drfh.model.scenario import Scenario

__all__ = ["Table", "follow_edits", "observed_bundles", "read_observed", "save_observed"]

#: Rows by column name, or a table of polars, pandas or Arrow.
Table: TypeAlias = Any

_TO_LIST = ("to_list", "to_pylist", "tolist")  # of polars and pandas, of pyarrow, of numpy


def read_observed(path: str | Path) -> list[dict[str, Any]]:
    """Read a CSV file of users, servers, and tasks or amounts.

    Parameters
    ----------
    path
        The file, or ``-`` for standard input.
    """
    reader = csv.DictReader(io.StringIO(read_text(str(path)), newline=""))
    header = list(reader.fieldnames or ())
    for column in ("user", "server"):
        if column not in header and not (column == "server" and "group" in header):
            found = ", ".join(header)
            rule = f"must be among the columns, separated by commas (found: {found})"
            raise InputError(column, rule, place=f"{path}, line 1")
    rows: list[dict[str, Any]] = []
    for row in reader:
        place = f"{path}, line {reader.line_num}"
        if None in row or None in row.values():
            raise InputError("row", f"must have {len(reader.fieldnames or ())} fields", place=place)
        rows.append({**row, "": place})
    if not rows:
        raise InputError("table", "must have a header and at least one row", place=str(path))
    return rows


def save_observed(rows: Sequence[Mapping[str, Any]], path: str | os.PathLike[str]) -> None:
    """Write what was observed as a CSV file that :func:`read_observed` reads.

    Examples
    --------
    >>> import tempfile
    >>> rows = [{"user": "ann", "server": "a", "tasks": 3.0}]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_observed(rows, f"{folder}/running.csv")
    ...     [(row["user"], row["tasks"]) for row in read_observed(f"{folder}/running.csv")]
    [('ann', '3.0')]
    """
    columns = list(dict.fromkeys(name for row in rows for name in row if name))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_whole(path, text.getvalue().encode())


def follow_edits(
    rows: Iterable[Mapping[str, Any]], before: Scenario, after: Scenario
) -> tuple[list[Mapping[str, Any]], int]:
    """Return what runs after edits of its scenario, and how many rows are gone.

    What ran on servers that are gone waits again. Where a demand changed, the same tasks run.

    Examples
    --------
    >>> from drfh import Cluster, Server, User
    >>> servers = [Server({"cpu": 4}, name=name) for name in "ab"]
    >>> before = Scenario(Cluster(servers), [User("ann", {"cpu": 1})])
    >>> after = Scenario(Cluster(servers[:1]), [User("ann", {"cpu": 2})])
    >>> follow_edits([{"user": "ann", "server": s, "cpu": 3} for s in "ab"], before, after)
    ([{'user': 'ann', 'server': 'a', 'tasks': 3.0}], 1)
    """
    old, new = _demands(before), _demands(after)
    kept: list[Mapping[str, Any]] = []
    gone = 0
    for row in rows:
        target = str(row.get("server", row.get("group")))
        if before.cluster.find_server(target) and not after.cluster.find_server(target):
            gone += 1
            continue
        whose = str(row.get("user")), str(row.get("kind") or "")
        demand = old.get(whose)
        if demand is None or demand == new.get(whose) or row.get("tasks") not in (None, ""):
            kept.append(row)
            continue
        held = [parse_quantity(row.get(r) or 0.0, r) / a for r, a in demand.items() if a > 0]
        rest = {name: row[name] for name in ("user", "kind", "server", "group", "") if name in row}
        kept.append({**rest, "tasks": min(held)})
    return kept, gone


def _demands(scenario: Scenario) -> dict[tuple[str, str], Mapping[str, float]]:
    """Return demands by user and kind; an only kind is empty."""
    found = {(user.name, ""): user.demand for user in scenario.users if user.demand}
    for user in scenario.users:
        for number, kind in enumerate(user.kinds, start=1):
            found[user.name, kind.name or str(number)] = kind.demand
    return found


def observed_bundles(
    problem: Problem,
    table: Table,
    *,
    whole: bool = False,
) -> Bundles:
    """Return what users hold according to a table.

    Parameters
    ----------
    problem
        Cluster and users.
    table
        Rows, or a polars, pandas or Arrow table, with ``user``, ``server`` (a server or a whole
        group; ``group`` is as good) and either ``tasks`` or amounts by resource name: what the
        user holds there, in total. Of a user with several kinds of tasks every row names its
        ``kind``.
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
    cluster = problem.cluster
    users = _positions(problem)
    who, where, amounts = [], [], []
    for number, row in enumerate(rows):
        place = str(row.get("", ""))
        at = "" if place else f"rows[{number}]."
        name = row.get("user")
        if name not in users:
            raise UnknownNameError(f"{at}user", str(name), users, place=place)
        target = str(row.get("server", row.get("group")))
        found = cluster.find_server(target)
        if found is None:
            group_name = target.rpartition("/")[0]
            if group_name in cluster.group_index:
                last = int(cluster.counts[cluster.group_index[group_name]]) - 1
                rule = f"must be one of {group_name}/0 to {group_name}/{last}"
                raise InputError(f"{at}server", rule, target, place=place)
            raise UnknownNameError(f"{at}server", target, cluster.names, place=place)
        group, index = found
        if index is None and cluster.counts[group] > 1 and whole:
            rule = f"must be one server such as {target}/0 for whole tasks"
            raise InputError(f"{at}server", rule, target, place=place)
        position = _position(users[name], row, at, place)
        who.append(position)
        where.append((group, -1 if index is None else index))
        amounts.append(_amounts(problem, position, row, at, place))
    held = np.array(amounts).reshape(len(rows), problem.demand.shape[1])
    return _on_blocks(problem, np.array(who), np.array(where), held, whole)


def _on_blocks(problem: Problem, who: Ints, where: Ints, held: Floats, whole: bool) -> Bundles:
    """Return bundles by block: servers one by one only where the table names them so."""
    group, index = where.T
    if whole or ((index >= 0) & (problem.cluster.counts[group] > 1)).any():
        problem = single_servers(problem)
    blocks = problem.blocks
    first = np.searchsorted(blocks.group, group)
    last = np.searchsorted(blocks.group, group, side="right")
    one = index >= 0
    # A server by name is in the block that starts at or before it; a group is all its blocks.
    size = np.where(one, 1, last - first)
    entry = np.repeat(np.arange(len(who)), size)
    block = first[entry] + np.arange(len(entry)) - np.repeat(np.cumsum(size) - size, size)
    block = np.where(one[entry], first[entry] + _offset(blocks, first, index)[entry], block)
    part = np.where(one[entry], 1.0, blocks.count[block] / problem.cluster.counts[group[entry]])
    amounts = held[entry] * part[:, None]
    # Two rows of one user on one server are one bundle: what they hold together counts.
    key, member = np.unique(block * len(problem.users) + who[entry], return_inverse=True)
    together = np.zeros((len(key), held.shape[1]))
    np.add.at(together, member, amounts)
    n = len(problem.users)
    return Bundles(problem, key % n, key // n, together, whole)


def _offset(blocks: Blocks, first: Ints, index: Ints) -> Ints:
    """Return how many blocks into its group each named server is; 0 for whole groups."""
    single = blocks.count[first] == 1
    return np.where((index > 0) & single, index, 0)


def _positions(problem: Problem) -> dict[str, dict[str, int]]:
    """Return positions by user and kind; an only kind is empty."""
    mixes = problem.mixes
    users = problem.users if mixes is None else [mixes.users[i] for i in mixes.owner.tolist()]
    positions: dict[str, dict[str, int]] = {}
    for position, (user, kind) in enumerate(zip(users, kind_names(problem), strict=True)):
        positions.setdefault(user.name, {})[kind or ""] = position
    return positions


def _position(kinds: Mapping[str, int], row: Mapping[str, Any], at: str, place: str) -> int:
    """Return the position of the kind that a row names."""
    if "" in kinds:
        return kinds[""]
    kind = str(row.get("kind") or "")
    if not kind:
        rule = f"must name the kind of tasks of {row['user']}: {', '.join(kinds)}"
        raise InputError(f"{at}kind", rule, place=place)
    if kind not in kinds:
        raise UnknownNameError(f"{at}kind", kind, kinds, place=place)
    return kinds[kind]


def _rows(table: Table) -> list[Mapping[str, Any]]:
    names = column_names(table)
    if names is not None:
        cells = zip(*(_cells(table[name]) for name in names), strict=True)
        table = [dict(zip(names, row, strict=True)) for row in cells]
    rows = list(table) if isinstance(table, Iterable) else []
    if not rows or not all(isinstance(row, Mapping) for row in rows):
        raise InputError("observed", "must be a table with at least one row")
    return rows


def _cells(column: Any) -> list[Any]:
    """Return a column as plain values; None where pandas has NaN or NA."""
    plain = next((getattr(column, name) for name in _TO_LIST if hasattr(column, name)), None)
    cells = list(column) if plain is None else plain()
    return [None if _is_missing(cell) else cell for cell in cells]


def _is_missing(cell: Any) -> bool:
    try:
        return bool(cell != cell)  # of NaN alone
    except TypeError:  # pandas' NA is neither
        return True


def _amounts(problem: Problem, user: int, row: Mapping[str, Any], at: str, place: str) -> Floats:
    resources = problem.cluster.resources
    known = {"user", "server", "group", "tasks", "", *resources}
    if problem.mixes is not None:
        known.add("kind")
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
        held: Floats = value("tasks") * problem.demand[user]
        return held
    if not named:
        rule = f"must have tasks, or amounts of {', '.join(resources)}"
        raise InputError(f"{at}row".lstrip("."), rule, place=place)
    return np.array([value(r) if r in named else 0.0 for r in resources])
