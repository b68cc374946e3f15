"""Nodes of Slurm, in the writing of any version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from drfh.errors import InputError
from drfh.traces.documents import listing, mapping, text
from drfh.traces.ledger import Ledger
from drfh.traces.records import Machine
from drfh.traces.slurm_words import expand_nodes, gres, number, tres, words

__all__ = ["Node", "take_nodes"]

_MIB = 2.0**20
_DOWN = {"DOWN", "NOT_RESPONDING", "UNKNOWN", "FUTURE", "ERROR", "INVALID", "INVALID_REG"}
_CLOSING = {"DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "MAINT", "MAINTENANCE", "BLOCKED"}


@dataclass(slots=True)
class Node:
    """A node, and the partitions that it is in."""

    machine: Machine
    partitions: set[str] = field(default_factory=set)
    features: frozenset[str] = frozenset()

    def labelled(self) -> Machine:
        """Return the machine with its partitions and features as labels."""
        labels = {f"partition/{name}": "yes" for name in sorted(self.partitions)}
        labels |= {f"feature/{name}": "yes" for name in sorted(self.features)}
        return replace(self.machine, labels=labels)


def take_nodes(entry: Any, key: str, where: str, nodes: dict[str, Node], ledger: Ledger) -> None:
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


def _node(entry: Mapping[str, Any]) -> Iterator[Node]:
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
    yield Node(
        Machine(name, amounts, {}, _state(entry.get("state"), entry.get("state_flags"))),
        set(words(entry.get("partitions"), "partitions")),
        frozenset(features),
    )


def _row(entry: Mapping[str, Any]) -> Iterator[Node]:
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
        yield Node(
            Machine(
                name, amounts, {}, _state(mapping(entry.get("node"), "node").get("state"), None)
            ),
            set(words(partition, "partition.name")),
            frozenset(words(features.get("active") or features.get("total"), "features")),
        )
