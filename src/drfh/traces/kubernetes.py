"""Format ``kubernetes``: the output of ``kubectl get nodes,pods -A -o json``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drfh.errors import InputError
from drfh.files.reader import Ledger, Progress
from drfh.model.rules import Rule
from drfh.traces.base import Format, Option, Signature, TraceReading
from drfh.traces.snapshot import (
    CLOSING,
    CLOSING_HELP,
    HELD,
    NO_RUN_TIMES,
    NodeRecord,
    TaskRecord,
    snapshot,
)
from drfh.wire.documents import JSON_FILES, documents, listing, mapping, nothing_of, text
from drfh.wire.kubernetes import (
    list_objects,
    needs_neighbours,
    placement_rule,
    pod_owner,
    pod_requests,
    read_node,
    read_timestamp,
)

__all__ = ["FORMAT"]

_OPTIONS = (
    Option(
        "user_by",
        "Who the users are: namespace, or label:KEY for a label of the pods.",
        "text",
        "namespace",
    ),
    Option(
        "system",
        "Pods of kube-system, of DaemonSets and of the nodes themselves. reserve: take what they "
        "hold off their node, as nobody can have it; keep: they are users like others; drop: "
        "leave them out, and count the nodes whole.",
        "choice",
        "reserve",
        ("reserve", "keep", "drop"),
    ),
    Option("cordoned", f"Cordoned nodes {CLOSING_HELP}", "choice", "used", CLOSING),
    HELD,
    Option(
        "also",
        "More resources to count, separated by commas: pods, ephemeral-storage, hugepages-2Mi.",
        "text",
    ),
)
_SYSTEM = "kube-system"
_CANNOT = (
    f"a snapshot {NO_RUN_TIMES}",
    "a snapshot does not tell weights, quotas (ResourceQuota) or PriorityClasses: all users count "
    "the same",
)


#: Objects by name, each with where it is: what is listed twice counts once.
_Objects = dict[str, tuple[str, Mapping[str, Any]]]


def _read(
    paths: tuple[Path, ...], options: Mapping[str, Any], ledger: Ledger, progress: Progress | None
) -> TraceReading:
    label = _label(options["user_by"])
    also = tuple(name.strip() for name in (options["also"] or "").split(",") if name.strip())
    nodes, pods = _read_objects(paths, ledger, progress)
    where = ", ".join(map(str, paths))
    if not nodes:
        rule = "must be in the files (kubectl get nodes -o json)"
        raise nothing_of("nodes", rule, where, ledger)
    if not pods:
        rule = "must be in the files (kubectl get pods -A -o json)"
        raise nothing_of("pods", rule, where, ledger)
    records = []
    for place, item in nodes.values():
        try:
            node = read_node(item)
        except InputError as error:
            error.place = place
            ledger.broken(error)
            continue
        amounts = {r: a for r, a in node.allocatable.items() if _counts(r, also)}
        records.append(NodeRecord(node.name, amounts, node.all_labels, node.state))
    reader = _PodReader(options, label, also, ledger)
    tasks = list(reader.read(pods))
    for remark in _CANNOT:
        ledger.remark(remark)
    if reader.with_neighbours:
        ledger.remark(
            f"{reader.with_neighbours:,} pods ask to be near or far from other pods (pod affinity, "
            "topology spread): that is not read"
        )
    return snapshot(
        records,
        tasks,
        ledger,
        nouns=("nodes", "pods"),
        closing=options["cordoned"],
        reserved=reader.reserved,
    )


def _label(user_by: str) -> str | None:
    """Return the label that names the users, or None for the namespace."""
    if user_by == "namespace":
        return None
    kind, colon, label = user_by.partition(":")
    if kind != "label" or not colon or not label.strip():
        raise InputError("user_by", "must be namespace or label:KEY", user_by)
    return label.strip()


def _read_objects(
    paths: tuple[Path, ...], ledger: Ledger, progress: Progress | None
) -> tuple[_Objects, _Objects]:
    """Return the nodes and the pods of the files."""
    nodes: _Objects = {}
    pods: _Objects = {}
    twice = other = 0
    for place, value in documents(paths, ledger, progress):
        for where, item in list_objects(value, place):
            try:
                kind = mapping(item, "item").get("kind")
                if kind not in ("Node", "Pod"):
                    other += 1
                    continue
                metadata = mapping(item.get("metadata"), "metadata")
                name = text(metadata.get("name"), "metadata.name")
                if kind == "Pod":
                    name = f"{text(metadata.get('namespace', 'default'), 'namespace')}/{name}"
            except InputError as error:
                error.place = where
                ledger.broken(error)
                continue
            known = nodes if kind == "Node" else pods
            twice += name in known
            known.setdefault(name, (where, item))
    ledger.count("nodes listed", len(nodes))
    ledger.count("pods listed", len(pods))
    ledger.count("objects listed twice, counted once", twice)
    ledger.count("objects that are neither nodes nor pods, left out", other)
    return nodes, pods


def _counts(resource: str, also: tuple[str, ...]) -> bool:
    """Return whether a resource counts: CPU, memory, extended ones such as nvidia.com/gpu."""
    return resource in ("cpu", "memory") or "/" in resource or resource in also


@dataclass(slots=True)
class _PodReader:
    """Reads pods as tasks, and adds up what system pods take off their nodes."""

    options: Mapping[str, Any]
    label: str | None
    also: tuple[str, ...]
    ledger: Ledger
    reserved: dict[str, dict[str, float]] = field(default_factory=dict)
    with_neighbours: int = 0
    _rules: dict[str, Rule] = field(default_factory=dict)

    def read(self, pods: _Objects) -> Iterator[TaskRecord]:
        """Yield the tasks; pods that are not are counted."""
        system = {
            "reserve": "pods of the system, taken off their nodes",
            "drop": "pods of the system, left out",
        }.get(self.options["system"])
        kinds = (
            "pods that ended, left out",
            "pods without requests (best effort), left out",
            "pods that wait behind a gate, left out",
            *((system,) if system else ()),
        )
        for kind in kinds:
            self.ledger.count(kind, 0)
        for name, (place, item) in pods.items():
            try:
                found = self._task(name, item, system)
            except InputError as error:
                error.place = f"{place} ({name})"
                self.ledger.broken(error)
                continue
            if isinstance(found, str):
                self.ledger.count(found)
            else:
                yield found

    def _task(self, name: str, item: Mapping[str, Any], system: str | None) -> TaskRecord | str:
        """Return a task, or the kind of pod that it is instead."""
        metadata = mapping(item.get("metadata"), "metadata")
        spec = mapping(item.get("spec"), "spec")
        status = mapping(item.get("status"), "status")
        if status.get("phase") in ("Succeeded", "Failed"):
            return "pods that ended, left out"
        node = spec.get("nodeName")
        on = None if node in (None, "") else text(node, "spec.nodeName")
        if on is None and metadata.get("deletionTimestamp"):
            return "pods that ended, left out"
        demand = {
            resource: amount
            for resource, amount in pod_requests(spec).items()
            if _counts(resource, self.also) and amount > 0
        }
        if "pods" in self.also:
            demand["pods"] = 1.0
        owner = pod_owner(metadata)
        namespace = name.partition("/")[0]
        if system and (namespace == _SYSTEM or owner.kind in ("DaemonSet", "Node")):
            if on is not None and self.options["system"] == "reserve":
                off = self.reserved.setdefault(on, {})
                for resource, amount in demand.items():
                    off[resource] = off.get(resource, 0.0) + amount
            return system
        if not any(amount > 0 for resource, amount in demand.items() if resource != "pods"):
            return "pods without requests (best effort), left out"
        gates = listing(spec.get("schedulingGates"), "spec.schedulingGates")
        if gates and on is None and self.options["held"] == "drop":
            return "pods that wait behind a gate, left out"
        user = namespace
        if self.label is not None:
            labels = mapping(metadata.get("labels"), "metadata.labels")
            user = text(labels.get(self.label, f"(no {self.label})"), "metadata.labels")
        self.with_neighbours += needs_neighbours(spec)
        times = status.get("startTime"), metadata.get("creationTimestamp")
        since = next((t for t in (times if on else times[1:]) if isinstance(t, str)), "")
        return TaskRecord(
            user,
            f"{namespace}/{owner.name or name.partition('/')[2]}",
            demand,
            self._rule(spec),
            on,
            read_timestamp(since),
            details={"pod": name, "priority_class": _detail(spec.get("priorityClassName"))},
        )

    def _rule(self, spec: Mapping[str, Any]) -> Rule:
        """Return where a pod may run; pods that ask for the same have the same record."""
        affinity = mapping(spec.get("affinity"), "spec.affinity").get("nodeAffinity")
        asked = (spec.get("nodeSelector"), affinity, spec.get("tolerations"))
        key = json.dumps(asked, sort_keys=True)
        if key not in self._rules:
            self._rules[key] = placement_rule(spec)
        return self._rules[key]


def _detail(value: Any) -> str | None:
    """Return a detail as text; None if it is none."""
    try:
        return text(value, "detail")
    except InputError:
        return None


FORMAT = Format(
    "nodes and pods of a live Kubernetes cluster (kubectl get nodes,pods -A -o json)",
    _read,
    Signature(
        files=JSON_FILES,
        heads=(
            r"\A\{",
            r'"kind"\s*:\s*"(?:Node|Pod|NodeList|PodList|List)"',
            r'"apiVersion"\s*:\s*"v1"',
        ),
    ),
    _OPTIONS,
    snapshot=True,
)
