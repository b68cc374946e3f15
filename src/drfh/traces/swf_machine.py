"""The machine of an SWF log: from a small table of its nodes, or from the header of the log."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from drfh.cluster import Cluster, Server
from drfh.errors import InputError
from drfh.resources import parse_quantity
from drfh.traces.ledger import Ledger
from drfh.traces.opening import as_paths, unpacked

__all__ = ["machine_of_header", "read_machine"]

_LABEL = "label."
_MOST_NODES = 10_000_000


def read_machine(path: str, ledger: Ledger) -> Cluster:
    """Read a table of nodes: ``name,count,cpu,memory,label.partition``, a row for each kind.

    Parameters
    ----------
    path
        A CSV file, plain or gzip. Any column but ``name``, ``count`` and ``label.…`` is a
        resource; ``memory`` is in bytes and may be written ``16Gi``.
    ledger
        Where damage of a gzip file is counted.

    Raises
    ------
    InputError
        At the first row that is wrong: a machine of which a part is missing is of no use.
    """
    try:
        (found,) = as_paths(path)
        data = unpacked(found, ledger)
    except InputError as error:
        error.field = "machine"
        raise
    place = found.name
    text = io.StringIO(data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace"), newline="")
    reader = csv.reader(text)
    servers = []
    names: list[str] = []
    try:
        for row in reader:
            where = f"{place}, line {reader.line_num}"
            cells = [cell.strip() for cell in row]
            if not any(cells):
                continue
            if not names:
                names = _columns(cells, where)
                continue
            if len(cells) != len(names):
                raise InputError("row", f"must have {len(names)} fields", len(cells), place=where)
            servers.append(_server(dict(zip(names, cells, strict=True)), where))
    except csv.Error as error:
        rule = f"must be comma-separated text ({error})"
        raise InputError("row", rule, place=f"{place}, line {reader.line_num}") from None
    if not servers:
        raise InputError("machine", "must have a header and at least one row", place=place)
    try:
        return Cluster(servers)
    except InputError as error:
        error.place = place
        raise


def _columns(cells: list[str], where: str) -> list[str]:
    if len(set(cells)) != len(cells) or not all(cells):
        raise InputError("header", "must name every column, each once", cells, place=where)
    if "cpu" not in cells:
        raise InputError("cpu", "must be among the columns", cells, place=where)
    return cells


def _server(row: Mapping[str, str], where: str) -> Server:
    labels = {name.removeprefix(_LABEL): v for name, v in row.items() if name.startswith(_LABEL)}
    amounts = {
        name: value
        for name, value in row.items()
        if value and name not in ("name", "count") and not name.startswith(_LABEL)
    }
    try:
        count = parse_quantity(row.get("count") or 1, "count", "must be a whole number ≥ 1")
        if not count.is_integer() or not 1 <= count <= _MOST_NODES:
            rule = f"must be a whole number from 1 to {_MOST_NODES:,}"
            raise InputError("count", rule, row["count"])
        return Server(
            amounts,
            name=row.get("name") or None,
            count=int(count),
            labels={name: value for name, value in labels.items() if value},
        )
    except InputError as error:
        error.place = where
        raise


def machine_of_header(header: Mapping[str, str], ledger: Ledger, place: str | Path) -> Cluster:
    """Return the machine that the header of a log speaks of: equal nodes, as far as it goes.

    Parameters
    ----------
    header
        ``MaxNodes``, ``MaxProcs``, and ``MaxMemory``: kilobytes of one processor.
    ledger
        Where it is said what was made of it.
    place
        What to call the log.

    Examples
    --------
    >>> machine_of_header({"MaxNodes": "4", "MaxProcs": "10"}, Ledger(), "a.swf").servers
    (Server({'cpu': 3.0}, name='node-of-3', count=2), Server({'cpu': 2.0}, name='node-of-2', \
count=2))
    """
    nodes, processors = (_number(header.get(key, "")) for key in ("MaxNodes", "MaxProcs"))
    if nodes is None and processors is None:
        rule = "must be given (a CSV file): the header says neither MaxNodes nor MaxProcs"
        raise InputError("machine", rule, place=str(place))
    for key, number in (("MaxNodes", nodes), ("MaxProcs", processors)):
        if number is not None and number > _MOST_NODES:
            raise InputError(key, f"must be at most {_MOST_NODES:,}", number, place=str(place))
    if nodes is None:
        nodes = 1
        ledger.remark("The header says MaxProcs only: all processors are on one server.")
    processors = max(nodes, processors or 0)
    small, larger = divmod(processors, nodes)
    memory = _number(header.get("MaxMemory", ""))
    if memory is not None:
        ledger.remark("MaxMemory of the header is taken for the memory of one processor.")
    groups = {small + 1: larger, small: nodes - larger}
    return Cluster(
        Server(
            {"cpu": cpus} | ({} if memory is None else {"memory": cpus * memory * 1024}),
            name=f"node-of-{cpus}" if larger else "node",
            count=count,
        )
        for cpus, count in groups.items()
        if count
    )


def _number(text: str) -> int | None:
    """Return the number that a value begins with, as in ``128 (64 thin, 64 wide)``."""
    words = text.split()
    digits = words[0].replace(",", "") if words else ""
    if not (digits.isascii() and digits.isdigit() and len(digits) < 16) or int(digits) == 0:
        return None
    return int(digits)
