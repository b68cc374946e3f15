"""The machine of an SWF log: from a small table of its nodes, or from the header of the log."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from drfh.cluster import Cluster, Server
from drfh.errors import InputError
from drfh.traces.ledger import Ledger
from drfh.traces.opening import as_paths
from drfh.traces.tables import read_servers

__all__ = ["machine_of_header", "read_machine"]

_MOST_NODES = 10_000_000


def read_machine(path: str) -> Cluster:
    """Read a table of nodes as ``servers`` of the format ``tables`` is: a row for each kind.

    Parameters
    ----------
    path
        A CSV file (plain or gzip) or a Parquet file. Any column but ``name``, ``count`` and
        ``label.…`` is a resource; ``memory`` is in bytes and may be written ``16Gi``.

    Raises
    ------
    InputError
        At the first row that is wrong: a machine of which a part is missing is of no use.
    """
    try:
        (found,) = as_paths(path)
        cluster = read_servers(found, Ledger(strict=True))
    except InputError as error:
        if error.field in ("path", "servers"):
            error.field = "machine"
        raise
    if "cpu" not in cluster.resources:
        raise InputError("cpu", "must be among the columns", place=f"{found.name}, line 1")
    if cluster.size > _MOST_NODES:
        rule = f"must have at most {_MOST_NODES:,} nodes"
        raise InputError("machine", rule, cluster.size, place=found.name)
    return cluster


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
