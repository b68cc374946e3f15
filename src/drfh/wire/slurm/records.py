"""Nodes and jobs of Slurm, from ``sinfo --json`` and ``squeue --json``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal

from drfh.errors import InputError
from drfh.model.cluster import Server
from drfh.model.rules import AnyOf, Match, Rule, all_of
from drfh.wire.documents import listing, mapping, text
from drfh.wire.slurm.notation import (
    expand_node_list,
    feature_label,
    parse_constraint,
    parse_gres,
    parse_names,
    parse_number,
    parse_tres,
)

__all__ = [
    "EligibleNodes",
    "JobRecord",
    "PendingReason",
    "SlurmNode",
    "UnequalNodesError",
    "add_nodes",
]

_MIB = 2.0**20
_DOWN = {"DOWN", "NOT_RESPONDING", "UNKNOWN", "FUTURE", "ERROR", "INVALID", "INVALID_REG"}
_CLOSING = {"DRAIN", "DRAINED", "DRAINING", "FAIL", "FAILING", "MAINT", "MAINTENANCE", "BLOCKED"}


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """A node of Slurm.

    Parameters
    ----------
    amounts
        What jobs can have; memory in bytes.
    state
        ``closing``: takes no new jobs, but those that run there run on. ``down``: does not work.
    """

    name: str
    amounts: Mapping[str, float]
    state: Literal["up", "closing", "down"] = "up"
    partitions: frozenset[str] = frozenset()
    features: frozenset[str] = frozenset()

    @property
    def labels(self) -> dict[str, str]:
        """Its partitions and features as labels of a server."""
        labels = {_partition_label(name): "yes" for name in sorted(self.partitions)}
        return labels | {feature_label(name): "yes" for name in sorted(self.features)}


def _partition_label(name: str) -> str:
    return f"partition/{name}"


class UnequalNodesError(InputError):
    """A row of ``sinfo`` with nodes that differ."""


def add_nodes(entry: Any, key: str, nodes: dict[str, SlurmNode]) -> None:
    """Add the nodes of an entry of ``nodes`` or ``sinfo``; a known node gets its partitions."""
    read = _node_of_entry if key == "nodes" else _nodes_of_row
    for node in read(mapping(entry, key)):
        known = nodes.get(node.name)
        if known is not None:
            node = replace(known, partitions=known.partitions | node.partitions)
        nodes[node.name] = node


def _node_state(value: Any, flags: Any) -> Literal["up", "closing", "down"]:
    found = {
        name.upper().rstrip("*$~#!%@+-^")
        for given in (value, flags)
        for part in parse_names(given, "state")
        for name in part.split("+")
    }
    if found & _DOWN:
        return "down"
    return "closing" if found & _CLOSING else "up"


def _node_of_entry(entry: Mapping[str, Any]) -> Iterator[SlurmNode]:
    """Yield the node of ``sinfo --json`` (22.05) or ``scontrol show nodes --json``."""
    name = text(entry.get("name"), "name")
    tracked = parse_tres(entry.get("tres"), "tres")
    cpus = parse_number(entry.get("effective_cpus"), "effective_cpus") or parse_number(
        entry.get("cpus"), "cpus"
    )
    memory = parse_number(entry.get("real_memory"), "real_memory")
    special = parse_number(entry.get("specialized_memory"), "specialized_memory") or 0.0
    generic = parse_gres(entry.get("gres"), "gres")
    amounts = {
        "cpu": tracked.get("cpu", 0.0) if cpus is None else cpus,
        "memory": tracked.get("memory", 0.0) if memory is None else (memory - special) * _MIB,
        **{r: a for r, a in tracked.items() if r.startswith("gres/")},
        **generic,
    }
    if amounts["memory"] < 0:
        raise InputError("specialized_memory", "must be less than real_memory", special)
    features = parse_names(entry.get("active_features") or entry.get("features"), "features")
    yield SlurmNode(
        name,
        amounts,
        _node_state(entry.get("state"), entry.get("state_flags")),
        frozenset(parse_names(entry.get("partitions"), "partitions")),
        frozenset(features),
    )


def _nodes_of_row(entry: Mapping[str, Any]) -> Iterator[SlurmNode]:
    """Yield the nodes of a row of ``sinfo --json`` (23.02 and later): one row, many nodes."""
    listed = mapping(entry.get("nodes"), "nodes")
    names = [
        name
        for part in listing(listed.get("nodes"), "nodes.nodes")
        for name in expand_node_list(part, "nodes.nodes")
    ]
    amounts: dict[str, float] = {}
    for key, resource, unit in (("cpus", "cpu", 1.0), ("memory", "memory", _MIB)):
        found = mapping(entry.get(key), key)
        least = parse_number(found.get("minimum"), f"{key}.minimum")
        if least is None or least != parse_number(found.get("maximum"), f"{key}.maximum"):
            rule = (
                f"must have rows of equal nodes ({key} differs inside one): capture with "
                "scontrol show nodes --json"
            )
            raise UnequalNodesError("sinfo", rule)
        amounts[resource] = least * unit
    amounts |= parse_gres(mapping(entry.get("gres"), "gres").get("total"), "gres.total")
    features = mapping(entry.get("features"), "features")
    partition = mapping(entry.get("partition"), "partition").get("name")
    for name in names:
        yield SlurmNode(
            name,
            amounts,
            _node_state(mapping(entry.get("node"), "node").get("state"), None),
            frozenset(parse_names(partition, "partition.name")),
            frozenset(parse_names(features.get("active") or features.get("total"), "features")),
        )


_RUNNING = {
    "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT",
    "RESIZING",
}  # fmt: skip
_PENDING = {"PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
_ENDED = {
    "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL",
    "DEADLINE", "OUT_OF_MEMORY", "REVOKED", "LAUNCH_FAILED", "RECONFIG_FAIL",
}  # fmt: skip


class PendingReason(StrEnum):
    """Reasons of Slurm for a job's being pending that mean something to drfh; there are more."""

    NONE = "None"
    HELD_BY_USER = "JobHeldUser"
    HELD_BY_ADMINISTRATOR = "JobHeldAdmin"
    HELD_AFTER_REQUEUES = "JobHoldMaxRequeue"
    HELD_AFTER_FAILED_LAUNCH = "launch_failed_requeued_held"
    HELD_AFTER_EXIT = "RequeueHold"
    DEPENDENCY = "Dependency"
    DEPENDENCY_NEVER_SATISFIED = "DependencyNeverSatisfied"
    BEGIN_TIME = "BeginTime"
    NODE_NOT_AVAILABLE = "ReqNodeNotAvail"  # such as one that is reserved for others


_FAILED_HOLDS = {
    PendingReason.HELD_AFTER_REQUEUES,
    PendingReason.HELD_AFTER_FAILED_LAUNCH,
    PendingReason.HELD_AFTER_EXIT,
}
#: What a job waits for that is not a free node.
_NOT_ELIGIBLE = {
    PendingReason.HELD_BY_USER,
    PendingReason.HELD_BY_ADMINISTRATOR,
    PendingReason.HELD_AFTER_REQUEUES,
    PendingReason.DEPENDENCY,
    PendingReason.DEPENDENCY_NEVER_SATISFIED,
    PendingReason.BEGIN_TIME,
}
_REQUEUED = "job requeued in held state"  # of scontrol requeuehold


@dataclass(frozen=True)
class JobRecord:
    """An entry of ``squeue --json``; a field is parsed, and may raise, when it is read.

    Examples
    --------
    >>> job = JobRecord({"job_id": 7, "job_state": ["PENDING"], "priority": {"number": 0},
    ...                  "node_count": 2, "tres_req_str": "cpu=4,mem=1G,node=2"})
    >>> job.state, job.is_held, job.node_count, job.demand["cpu"]
    ('pending', True, 2, 2.0)
    """

    entry: Mapping[str, Any]

    def number(self, key: str) -> float | None:
        """Return a number; None if it is not set."""
        return parse_number(self.entry.get(key), key)

    def whole(self, key: str) -> int | None:
        """Return a whole number; None if it is not set."""
        found = self.number(key)
        if found is not None and found != int(found):
            raise InputError(key, "must be a whole number", self.entry.get(key))
        return None if found is None else int(found)

    def name(self, key: str, default: str = "") -> str:
        """Return a name or number as text."""
        value = self.entry.get(key)
        if default and not value:
            value = default
        return text(str(value) if isinstance(value, int) else value, key)

    @cached_property
    def state(self) -> Literal["running", "pending", "ended"]:
        """``running`` while it holds nodes, also while it is suspended or completing."""
        value = self.entry.get("job_state")
        states = {name.upper() for name in parse_names(value, "job_state")}
        if states & _RUNNING:
            return "running"
        if states & _PENDING:
            return "pending"
        if states & _ENDED:
            return "ended"
        raise InputError("job_state", "must be a state of Slurm", value)

    @property
    def is_held(self) -> bool:
        """Whether somebody holds it."""
        return self.number("priority") == 0 or self.entry.get("hold") is True

    @property
    def hold(self) -> Literal["no", "user", "admin", "requeued", "failed"]:
        """Who holds it; ``requeued`` stays until somebody holds or releases it again."""
        if self.reason in _FAILED_HOLDS:
            return "failed"
        if not self.is_held:
            return "no"
        if self.reason == PendingReason.HELD_BY_ADMINISTRATOR:
            return "admin"
        return "requeued" if self.entry.get("state_description") == _REQUEUED else "user"

    @property
    def is_eligible(self) -> bool:
        """Whether it waits for nothing but free nodes."""
        return not self.is_held and self.reason not in _NOT_ELIGIBLE

    @property
    def reason(self) -> str:
        """Slurm's reason for its being pending, such as ``Dependency``."""
        return str(self.entry.get("state_reason") or "")

    @property
    def array(self) -> str | None:
        """The number of its array, if it is in one."""
        found = self.number("array_job_id")
        return f"{found:.0f}" if found else None

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partitions that it may run in."""
        return parse_names(self.entry.get("partition"), "partition")

    @property
    def node_count(self) -> int:
        """The number of nodes that it has, or asks for at least."""
        return max(self.whole("node_count") or 1, 1)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that it runs on."""
        names = expand_node_list(self.entry.get("nodes"), "nodes")
        if not names:
            value = self.entry.get("nodes")
            raise InputError("nodes", "must name the nodes of a job that runs", value)
        return names

    @property
    def is_exclusive(self) -> bool:
        """Whether it takes whole nodes."""
        shared = self.entry.get("shared", self.entry.get("exclusive"))
        return shared in ("none", "true", True) or shared == ["true"]

    @property
    def asks_for_memory(self) -> bool:
        """Whether it says how much memory it needs; else it gets all of a node."""
        return any([self.number("memory_per_node"), self.number("memory_per_cpu")])

    @property
    def demand(self) -> dict[str, float]:
        """What it asks for on each node, if it asks for the same on all."""
        return self._even(self.node_count)

    @property
    def held(self) -> dict[str, dict[str, float]]:
        """What it holds on each of its nodes: as listed for each node, else evenly."""
        names = self.nodes
        even = self._even(len(names))
        allocated = self._allocated()
        generic = listing(self.entry.get("gres_detail"), "gres_detail")
        listed = [parse_gres(value, "gres_detail") for value in generic]
        cores = [allocated.get(name, (0.0, None))[0] for name in names]
        all_cores = sum(cores)
        held = {}
        for position, name in enumerate(names):
            demand = dict(even)
            if all_cores > 0 and min(cores) > 0:
                demand["cpu"] = even["cpu"] * len(names) * cores[position] / all_cores
            memory = allocated.get(name, (0.0, None))[1]
            if memory:
                demand["memory"] = memory * _MIB
            if len(listed) == len(names):
                demand = {r: a for r, a in demand.items() if not r.startswith("gres/")}
                demand |= listed[position]
            held[name] = demand
        return held

    @cached_property
    def _total(self) -> dict[str, float]:
        key = "tres_alloc_str"
        allocated = parse_tres(self.entry.get(key), key) if self.state == "running" else {}
        return allocated or parse_tres(self.entry.get("tres_req_str"), "tres_req_str")

    def _even(self, nodes: int) -> dict[str, float]:
        """Return what one node holds if all hold the same."""
        total = self._total
        cpus = total.get("cpu")
        if cpus is None:
            cpus = self.number("cpus") or 0.0
        demand = {"cpu": cpus / nodes}
        memory = total.get("memory")
        if memory is None:
            each = self.number("memory_per_node")
            per_cpu = self.number("memory_per_cpu") or 0.0
            memory = (each if each is not None else per_cpu * demand["cpu"]) * nodes * _MIB
        demand["memory"] = memory / nodes
        generic = {r: amount / nodes for r, amount in total.items() if r.startswith("gres/")}
        return {**demand, **(generic or self._requested_gres(nodes))}

    def _requested_gres(self, nodes: int) -> dict[str, float]:
        """Return the generic resources of one node, where Slurm does not track them."""
        tasks = self.number("tasks") or 1.0
        found: dict[str, float] = {}
        for key, times in (
            ("tres_per_node", 1.0),
            ("tres_per_job", 1.0 / nodes),
            ("tres_per_task", tasks / nodes),
        ):
            for name, amount in parse_gres(self.entry.get(key), key).items():
                if amount > 0 and name not in ("gres/cpu", "gres/mem", "gres/license"):
                    found[name] = max(found.get(name, 0.0), amount * times)
        return found

    def _allocated(self) -> dict[str, tuple[float, float | None]]:
        """Return cores and memory (MiB) by node."""
        resources = mapping(self.entry.get("job_resources"), "job_resources")
        nodes = resources.get("nodes")
        entries = nodes.get("allocation") if isinstance(nodes, dict) else None
        entries = resources.get("allocated_nodes") if entries is None else entries
        found: dict[str, tuple[float, float | None]] = {}
        for entry in listing(entries, "job_resources") if not isinstance(entries, dict) else ():
            node = mapping(entry, "job_resources.nodes")
            name = node.get("name", node.get("nodename"))
            if not isinstance(name, str):
                continue
            memory = node.get("memory_allocated")
            if isinstance(node.get("memory"), dict):
                memory = node["memory"].get("allocated")
            cpus = node.get("cpus")
            counted = parse_number(cpus.get("count"), "cpus.count") if isinstance(cpus, dict) else 0
            cores = counted or _allocated_cores(node.get("sockets"))
            found[name] = (cores, parse_number(memory, "job_resources.memory"))
        return found


def _allocated_cores(sockets: Any) -> float:
    if not isinstance(sockets, dict):
        return 0.0
    return float(
        sum(
            str(state).lower().startswith("allocated")
            for socket in sockets.values()
            if isinstance(socket, dict) and isinstance(socket.get("cores"), dict)
            for state in socket["cores"].values()
        )
    )


class EligibleNodes:
    """Finds the nodes that partition, constraint and node lists of a job allow.

    Parameters
    ----------
    nodes
        All nodes by name.

    Examples
    --------
    >>> nodes = {name: SlurmNode(name, {"cpu": 4.0}, features=frozenset({"ib"} if name == "b" else
    ...     ())) for name in "abc"}
    >>> sorted(EligibleNodes(nodes).of(JobRecord({"features": "ib"})))
    ['b']
    >>> str(EligibleNodes(nodes).rule(JobRecord({"features": "ib", "excluded_nodes": "a"})))
    'feature/ib and name≠a'
    """

    def __init__(self, nodes: Mapping[str, SlurmNode]) -> None:
        self._servers = [
            Server({"cpu": 1}, name=n, labels=node.labels) for n, node in nodes.items()
        ]
        self._has_partitions = any(node.partitions for node in nodes.values())
        self._rules: dict[tuple[Any, ...], Rule | None] = {}
        self._known: dict[Rule | None, frozenset[str] | None] = {None: None}

    def rule(self, job: JobRecord) -> Rule | None:
        """Return the rule; None if a job may run everywhere."""
        asked = job.partitions if self._has_partitions else ()
        constraint = job.entry.get("features") or ""
        if not isinstance(constraint, str):
            raise InputError("features", "must be text", constraint)
        required = expand_node_list(job.entry.get("required_nodes"), "required_nodes")
        excluded = expand_node_list(job.entry.get("excluded_nodes"), "excluded_nodes")
        if len(required) < job.node_count:
            # It asks for these and more: which more is open.
            required = ()
        key = (asked, constraint, required, excluded)
        if key not in self._rules:
            rules: list[Rule] = []
            if asked:
                some = tuple(Match(_partition_label(name), "Exists") for name in asked)
                rules.append(some[0] if len(some) == 1 else AnyOf(some))
            if constraint:
                rules.append(parse_constraint(constraint))
            if required:
                rules.append(Match(None, "In", required))
            if excluded:
                rules.append(Match(None, "NotIn", excluded))
            self._rules[key] = all_of(rules) if rules else None
        return self._rules[key]

    def of(self, job: JobRecord) -> frozenset[str] | None:
        """Return the names of the nodes; None for all."""
        rule = self.rule(job)
        if rule not in self._known:
            assert rule is not None
            names = frozenset(str(one.name) for one in self._servers if rule(one))
            self._known[rule] = None if len(names) == len(self._servers) else names
        return self._known[rule]
