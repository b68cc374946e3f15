"""Format ``slurm``: what ``sinfo --json`` and ``squeue --json`` say of a live cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from drfh.errors import InputError
from drfh.traces.documents import (
    documents,
    head_text,
    items_of,
    json_files,
    listing,
    mapping,
    nothing_of,
    text,
)
from drfh.traces.format import Format, Tell
from drfh.traces.ledger import Ledger
from drfh.traces.options import Option
from drfh.traces.slurm_jobs import Jobs
from drfh.traces.slurm_words import expand_nodes, gres, number, tres, words
from drfh.traces.snapshot import HELD, Machine, closing_option, snapshot
from drfh.traces.trace import Reading

__all__ = ["FORMAT"]

_OPTIONS = (
    Option(
        "user_by",
        "Who the users are.",
        "choice",
        "user",
        ("user", "account", "partition", "qos"),
    ),
    closing_option("draining", "Nodes that drain, fail or are under maintenance"),
    HELD,
)
_MIB = 2.0**20
_DOWN = {"DOWN", "NOT_RESPONDING", "UNKNOWN", "FUTURE", "ERROR", "INVALID", "INVALID_REG"}
_CLOSING = {"DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "MAINT", "MAINTENANCE", "BLOCKED"}
_LISTS = re.compile(r'"(?:nodes|jobs|sinfo)"\s*:\s*\[')
_SLURM = re.compile(
    r'"Slurm"\s*:|openapi|data_parser|"array_job_id"|"accrue_time"|"burstbuffer_network_address"'
    r'|"real_memory"|"tres_req_str"'
)
_CANNOT = (
    "a snapshot has no run times: every task runs on for ever, and all are there from the start",
    "a snapshot does not tell weights, shares, limits or priorities: all users count the same",
    "a job on several nodes is one task for each node: tasks that must start together are not told",
)


@dataclass(slots=True)
class _Node:
    """A node, and the partitions that it is in."""

    machine: Machine
    partitions: set[str] = field(default_factory=set)
    features: frozenset[str] = frozenset()


def _recognises(paths: tuple[Path, ...]) -> bool:
    for path in json_files(paths):
        head = head_text(path)
        if _SLURM.search(head) and (_LISTS.search(head) or '"meta"' in head):
            return True
    return False


def _read(
    paths: tuple[Path, ...], options: Mapping[str, Any], ledger: Ledger, progress: Tell | None
) -> Reading:
    nodes: dict[str, _Node] = {}
    jobs: dict[str, tuple[str, Mapping[str, Any]]] = {}
    other = 0
    for place, value in documents(paths, ledger, progress):
        known = False
        if not isinstance(value, dict):
            raise InputError("the file", "must be what sinfo --json prints", value, place=place)
        for key in ("nodes", "sinfo"):
            if key in value:
                known = True
                for where, entry in items_of(value, key, place):
                    _take(entry, key, where, nodes, ledger)
        if "jobs" in value:
            known = True
            for where, entry in items_of(value, "jobs", place):
                identity = entry.get("job_id", where) if isinstance(entry, dict) else where
                jobs.setdefault(str(identity), (where, entry))
        other += not known
    where = ", ".join(map(str, paths))
    if not nodes:
        rule = "must be in the files (sinfo --json, or scontrol show nodes --json)"
        raise nothing_of("nodes", rule, where, ledger)
    if not jobs:
        raise nothing_of("jobs", "must be in the files (squeue --json)", where, ledger)
    ledger.count("nodes listed", len(nodes))
    ledger.count("jobs listed", len(jobs))
    ledger.count("files of another kind, left out", other)
    partitions: dict[str, set[str]] = {}
    for name, node in nodes.items():
        for partition in node.partitions:
            partitions.setdefault(partition, set()).add(name)
    features = {name: node.features for name, node in nodes.items()}
    reader = Jobs(options, ledger, partitions, features)
    tasks = list(reader.read(jobs))
    for remark in _CANNOT:
        ledger.remark(remark)
    return snapshot(
        [_labelled(node) for node in nodes.values()],
        tasks,
        ledger,
        words=("nodes", "tasks"),
        closing=options["draining"],
    )


def _take(entry: Any, key: str, where: str, nodes: dict[str, _Node], ledger: Ledger) -> None:
    """Add the nodes of one entry; a node that is there already gets its partitions."""
    try:
        read = _node if key == "nodes" else _row
        for node in read(mapping(entry, key)):
            there = nodes.setdefault(node.machine.name, node)
            there.partitions |= node.partitions
    except InputError as error:
        error.place = where
        if error.field == "sinfo":  # it is so for all rows, and there is a better command
            raise
        ledger.broken(error)


def _state(value: Any, flags: Any) -> Literal["up", "closing", "down"]:
    """Return what a node can do, from its state and flags in any version's writing."""
    found = {
        word.upper().rstrip("*$~#!%@+-^")
        for given in (value, flags)
        for part in words(given, "state")
        for word in part.split("+")
    }
    if found & _DOWN:
        return "down"
    return "closing" if found & _CLOSING else "up"


def _node(entry: Mapping[str, Any]) -> Iterator[_Node]:
    """Yield the node of ``sinfo --json`` (22.05) or ``scontrol show nodes --json``."""
    name = text(entry.get("name"), "name")
    tracked = tres(entry.get("tres"), "tres")
    cpus = number(entry.get("effective_cpus"), "effective_cpus") or number(
        entry.get("cpus"), "cpus"
    )
    memory = number(entry.get("real_memory"), "real_memory")
    special = number(entry.get("specialized_memory"), "specialized_memory") or 0.0
    generic = gres(entry.get("gres"), "gres")
    amounts = {
        "cpu": tracked.get("cpu", 0.0) if cpus is None else cpus,
        "memory": tracked.get("memory", 0.0) if memory is None else (memory - special) * _MIB,
        **{r: a for r, a in tracked.items() if r.startswith("gres/")},
        **generic,
    }
    if amounts["memory"] < 0:
        raise InputError("specialized_memory", "must be less than real_memory", special)
    features = words(entry.get("active_features") or entry.get("features"), "features")
    yield _Node(
        Machine(name, amounts, {}, _state(entry.get("state"), entry.get("state_flags"))),
        set(words(entry.get("partitions"), "partitions")),
        frozenset(features),
    )


def _row(entry: Mapping[str, Any]) -> Iterator[_Node]:
    """Yield the nodes of a row of ``sinfo --json`` (23.02 and later): one row, many nodes."""
    listed = mapping(entry.get("nodes"), "nodes")
    names = [
        name
        for part in listing(listed.get("nodes"), "nodes.nodes")
        for name in expand_nodes(part, "nodes.nodes")
    ]
    amounts: dict[str, float] = {}
    for key, resource, unit in (("cpus", "cpu", 1.0), ("memory", "memory", _MIB)):
        found = mapping(entry.get(key), key)
        least = number(found.get("minimum"), f"{key}.minimum")
        if least is None or least != number(found.get("maximum"), f"{key}.maximum"):
            rule = (
                f"must have rows of equal nodes ({key} differs inside one): capture with "
                "scontrol show nodes --json"
            )
            raise InputError("sinfo", rule)
        amounts[resource] = least * unit
    amounts |= gres(mapping(entry.get("gres"), "gres").get("total"), "gres.total")
    features = mapping(entry.get("features"), "features")
    partition = mapping(entry.get("partition"), "partition").get("name")
    for name in names:
        yield _Node(
            Machine(
                name, amounts, {}, _state(mapping(entry.get("node"), "node").get("state"), None)
            ),
            set(words(partition, "partition.name")),
            frozenset(words(features.get("active") or features.get("total"), "features")),
        )


def _labelled(node: _Node) -> Machine:
    """Return the machine with its partitions and features as labels."""
    labels = {f"partition/{name}": "yes" for name in sorted(node.partitions)}
    labels |= {f"feature/{name}": "yes" for name in sorted(node.features)}
    return replace(node.machine, labels=labels)


FORMAT = Format(
    "nodes and jobs of a live Slurm cluster (sinfo --json, squeue --json)",
    _read,
    _recognises,
    _OPTIONS,
    snapshot=True,
)
