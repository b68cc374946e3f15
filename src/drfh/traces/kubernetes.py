"""Format ``kubernetes``: what ``kubectl get nodes,pods -A -o json`` says of a live cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drfh.errors import InputError
from drfh.files.ledger import Ledger, Progress
from drfh.traces.base import Format, Option, TraceReading
from drfh.traces.snapshot import HELD, closing_option, snapshot
from drfh.wire.documents import (
    documents,
    head_text,
    items_of,
    json_files,
    listing,
    mapping,
    nothing_of,
    text,
)
from drfh.wire.kubernetes import Admission, NodeFacts, amounts_of, pod_requests, read_taints
from drfh.wire.records import Machine, Task

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
    closing_option("cordoned", "Cordoned nodes"),
    HELD,
    Option(
        "also",
        "More resources to count, separated by commas: pods, ephemeral-storage, hugepages-2Mi.",
        "text",
    ),
)
_KINDS = re.compile(r'"kind"\s*:\s*"(?:Node|Pod|NodeList|PodList|List)"')
_API = re.compile(r'"apiVersion"\s*:\s*"v1"')
_SYSTEM = "kube-system"
_CANNOT = (
    "a snapshot has no run times: every task runs on for ever, and all are there from the start",
    "a snapshot does not tell weights, quotas (ResourceQuota) or PriorityClasses: all users count "
    "the same",
)


@dataclass(slots=True)
class _Seen:
    """Everything that the files list, by name: what is listed twice counts once."""

    nodes: dict[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    pods: dict[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)


def _recognises(paths: tuple[Path, ...]) -> bool:
    for path in json_files(paths):
        head = head_text(path)
        if _KINDS.search(head) and _API.search(head):
            return True
    return False


def _read(
    paths: tuple[Path, ...], options: Mapping[str, Any], ledger: Ledger, progress: Progress | None
) -> TraceReading:
    by = _label(options["user_by"])
    also = tuple(word.strip() for word in (options["also"] or "").split(",") if word.strip())
    seen = _gather(paths, ledger, progress)
    where = ", ".join(map(str, paths))
    if not seen.nodes:
        rule = "must be in the files (kubectl get nodes -o json)"
        raise nothing_of("nodes", rule, where, ledger)
    if not seen.pods:
        rule = "must be in the files (kubectl get pods -A -o json)"
        raise nothing_of("pods", rule, where, ledger)
    machines, facts = [], []
    for name, (place, item) in seen.nodes.items():
        try:
            machine, taints = _machine(name, item, also)
        except InputError as error:
            ledger.broken(_at(error, place))
            continue
        machines.append(machine)
        if machine.state != "down":
            facts.append(NodeFacts(name, machine.labels, taints))
    reader = _Pods(Admission(facts), options, by, also, ledger)
    tasks = list(reader.read(seen.pods))
    for remark in _CANNOT:
        ledger.remark(remark)
    if reader.spread:
        ledger.remark(
            f"{reader.spread:,} pods ask to be near or far from other pods (pod affinity, "
            "topology spread): that is not read"
        )
    return snapshot(
        machines,
        tasks,
        ledger,
        words=("nodes", "pods"),
        closing=options["cordoned"],
        reserved=reader.reserved,
    )


def _label(user_by: str) -> str | None:
    """Return the label that names the users, or None for the namespace."""
    if user_by == "namespace":
        return None
    word, colon, label = user_by.partition(":")
    if word != "label" or not colon or not label.strip():
        raise InputError("user_by", "must be namespace or label:KEY", user_by)
    return label.strip()


def _gather(paths: tuple[Path, ...], ledger: Ledger, progress: Progress | None) -> _Seen:
    seen = _Seen()
    twice = other = 0
    for place, value in documents(paths, ledger, progress):
        for where, item in _items(value, place):
            try:
                kind = mapping(item, "item").get("kind")
                if kind not in ("Node", "Pod"):
                    other += 1
                    continue
                facts = mapping(item.get("metadata"), "metadata")
                name = text(facts.get("name"), "metadata.name")
                if kind == "Pod":
                    name = f"{text(facts.get('namespace', 'default'), 'namespace')}/{name}"
            except InputError as error:
                ledger.broken(_at(error, where))
                continue
            known = seen.nodes if kind == "Node" else seen.pods
            twice += name in known
            known.setdefault(name, (where, item))
    ledger.count("nodes listed", len(seen.nodes))
    ledger.count("pods listed", len(seen.pods))
    ledger.count("objects listed twice, counted once", twice)
    ledger.count("objects that are neither nodes nor pods, left out", other)
    return seen


def _items(value: Any, place: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise InputError("the file", "must hold Kubernetes objects", value, place=place)
    kind = value.get("kind")
    if isinstance(kind, str) and kind.endswith("List") and "items" in value:
        # A NodeList of the API does not repeat the kind in its items.
        inner = kind.removesuffix("List")
        for where, item in items_of(value, "items", place):
            bare = inner and isinstance(item, dict) and "kind" not in item
            yield where, {**item, "kind": inner} if bare else item
    elif isinstance(kind, str):
        yield place, value
    else:
        raise InputError("kind", "must name a kind of Kubernetes object", kind, place=place)


def _at(error: InputError, place: str) -> InputError:
    error.place = place
    return error


def _wanted(resource: str, also: tuple[str, ...]) -> bool:
    """Return whether a resource counts: CPU, memory, extended ones such as nvidia.com/gpu."""
    return resource in ("cpu", "memory") or "/" in resource or resource in also


def _machine(
    name: str, item: Mapping[str, Any], also: tuple[str, ...]
) -> tuple[Machine, tuple[tuple[str, str, str], ...]]:
    status = mapping(item.get("status"), "status")
    spec = mapping(item.get("spec"), "spec")
    has = status.get("allocatable", status.get("capacity"))
    if has is None:
        raise InputError("status.allocatable", "must be given")
    amounts = {
        resource: amount
        for resource, amount in amounts_of(has, "status.allocatable").items()
        if _wanted(resource, also)
    }
    labels = mapping(mapping(item.get("metadata"), "metadata").get("labels"), "metadata.labels")
    plain = {text(key, "metadata.labels"): str(value) for key, value in labels.items()}
    taints = read_taints(spec.get("taints"))
    ready = True
    for condition in listing(status.get("conditions"), "status.conditions"):
        if mapping(condition, "status.conditions[]").get("type") == "Ready":
            ready = condition.get("status") == "True"
    cordoned = spec.get("unschedulable") is True
    state = "down" if not ready else "closing" if cordoned else "up"
    return Machine(name, amounts, plain, state), taints  # type: ignore[arg-type]


@dataclass(slots=True)
class _Pods:
    """Pods → tasks, and what system pods take off their nodes."""

    admission: Admission
    options: Mapping[str, Any]
    label: str | None
    also: tuple[str, ...]
    ledger: Ledger
    reserved: dict[str, dict[str, float]] = field(default_factory=dict)
    spread: int = 0

    def read(self, pods: Mapping[str, tuple[str, Mapping[str, Any]]]) -> Iterator[Task]:
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
                self.ledger.broken(_at(error, f"{place} ({name})"))
                continue
            if isinstance(found, str):
                self.ledger.count(found)
            else:
                yield found

    def _task(self, name: str, item: Mapping[str, Any], system: str | None) -> Task | str:
        """Return a task, or the kind of pod that it is instead."""
        facts = mapping(item.get("metadata"), "metadata")
        spec = mapping(item.get("spec"), "spec")
        status = mapping(item.get("status"), "status")
        if status.get("phase") in ("Succeeded", "Failed"):
            return "pods that ended, left out"
        node = spec.get("nodeName")
        on = None if node in (None, "") else text(node, "spec.nodeName")
        if on is None and facts.get("deletionTimestamp"):
            return "pods that ended, left out"
        demand = {
            resource: amount
            for resource, amount in pod_requests(spec).items()
            if _wanted(resource, self.also) and amount > 0
        }
        if "pods" in self.also:
            demand["pods"] = 1.0
        owner = _owner(facts)
        namespace = name.partition("/")[0]
        if system and (namespace == _SYSTEM or owner[0] in ("DaemonSet", "Node")):
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
            labels = mapping(facts.get("labels"), "metadata.labels")
            user = text(labels.get(self.label, f"(no {self.label})"), "metadata.labels")
        self.spread += _asks_for_neighbours(spec)
        times = status.get("startTime"), facts.get("creationTimestamp")
        since = next((t for t in (times if on else times[1:]) if isinstance(t, str)), "")
        return Task(
            user,
            f"{namespace}/{owner[1] or name.partition('/')[2]}",
            demand,
            self.admission.of(spec),
            on,
            _seconds(since),
            details={"pod": name, "priority_class": _word(spec.get("priorityClassName"))},
        )


def _owner(facts: Mapping[str, Any]) -> tuple[str, str]:
    """Return kind and name of what made the pod; empty if it was made alone."""
    owners = listing(facts.get("ownerReferences"), "metadata.ownerReferences")
    for owner in owners:
        entry = mapping(owner, "metadata.ownerReferences[]")
        if entry.get("controller") is True or len(owners) == 1:
            kind = text(entry.get("kind"), "metadata.ownerReferences[].kind")
            return kind, text(entry.get("name"), "metadata.ownerReferences[].name")
    return "", ""


def _asks_for_neighbours(spec: Mapping[str, Any]) -> bool:
    affinity = mapping(spec.get("affinity"), "spec.affinity")
    hard = "requiredDuringSchedulingIgnoredDuringExecution"
    for kind in ("podAffinity", "podAntiAffinity"):
        if mapping(affinity.get(kind), f"spec.affinity.{kind}").get(hard):
            return True
    spread = listing(spec.get("topologySpreadConstraints"), "spec.topologySpreadConstraints")
    return any(mapping(s, "spread").get("whenUnsatisfiable") == "DoNotSchedule" for s in spread)


def _seconds(stamp: str) -> float:
    """Return a time such as 2026-03-01T09:30:00Z as a number; what is no time comes last."""
    from datetime import datetime

    try:
        return datetime.fromisoformat(stamp).timestamp()
    except (ValueError, OverflowError, OSError):
        return float("inf")


def _word(value: Any) -> str | None:
    """Return a detail; what cannot be written is none."""
    try:
        return text(value, "detail")
    except InputError:
        return None


FORMAT = Format(
    "nodes and pods of a live Kubernetes cluster (kubectl get nodes,pods -A -o json)",
    _read,
    _recognises,
    _OPTIONS,
    snapshot=True,
)
