"""Nodes and pods of Kubernetes: requests, taints, tolerations, selectors, affinity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from drfh.errors import InputError
from drfh.model.resources import FrozenMap, parse_quantity
from drfh.model.rules import (
    OPERATORS,
    AnyOf,
    Match,
    Rule,
    Tolerates,
    Toleration,
    all_of,
    taint_label,
)
from drfh.wire.documents import items_of, listing, mapping, text

__all__ = [
    "KubernetesNode",
    "PodOwner",
    "list_objects",
    "needs_neighbours",
    "parse_amounts",
    "placement_rule",
    "pod_owner",
    "pod_requests",
    "read_node",
    "read_taints",
    "read_timestamp",
]

_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"  # the node's state says so already
_HARD_EFFECTS = ("NoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

#: Key, value and effect.
Taint = tuple[str, str, str]


def list_objects(document: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Yield the objects of a document of ``kubectl -o json``, each with where it is.

    Examples
    --------
    >>> list(list_objects({"kind": "NodeList", "items": [{}]}, "a.json"))
    [('a.json, items[0]', {'kind': 'Node'})]
    """
    if not isinstance(document, dict):
        raise InputError("the file", "must hold Kubernetes objects", document, place=place)
    kind = document.get("kind")
    if isinstance(kind, str) and kind.endswith("List") and "items" in document:
        # A NodeList of the API does not repeat the kind in its items.
        inner = kind.removesuffix("List")
        for where, item in items_of(document, "items", place):
            bare = inner and isinstance(item, dict) and "kind" not in item
            yield where, {**item, "kind": inner} if bare else item
    elif isinstance(kind, str):
        yield place, document
    else:
        raise InputError("kind", "must name a kind of Kubernetes object", kind, place=place)


def read_timestamp(stamp: str) -> float:
    """Return a time such as 2026-03-01T09:30:00Z in seconds since 1970; inf if it is none.

    Examples
    --------
    >>> read_timestamp("1970-01-01T00:01:00Z"), read_timestamp("soon")
    (60.0, inf)
    """
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except (ValueError, OverflowError, OSError):
        return float("inf")


def parse_amounts(value: Any, field: str) -> dict[str, float]:
    """Return amounts by resource name.

    Examples
    --------
    >>> parse_amounts({"cpu": "1500m", "memory": "2Gi"}, "requests")
    {'cpu': 1.5, 'memory': 2147483648.0}
    """
    return {
        text(name, field): parse_quantity(amount, f"{field}.{name}")
        for name, amount in mapping(value, field).items()
    }


def pod_requests(spec: Mapping[str, Any]) -> dict[str, float]:
    """Return what a pod holds on its node, as the Kubernetes scheduler counts it.

    Containers and restartable init containers (sidecars) add up; an init container runs beside
    the sidecars before it and nothing else, so the largest of these counts if it is larger.
    Requests of the whole pod replace the sum; the overhead of its runtime class comes on top.

    Examples
    --------
    >>> pod_requests({
    ...     "containers": [{"resources": {"requests": {"cpu": "1"}}}] * 2,
    ...     "initContainers": [{"resources": {"requests": {"cpu": "3", "memory": "1Gi"}}}],
    ... })
    {'cpu': 3.0, 'memory': 1073741824.0}
    """
    together: dict[str, float] = {}
    for number, container in enumerate(listing(spec.get("containers"), "spec.containers")):
        _add(together, _container(container, f"spec.containers[{number}]"))
    beside: dict[str, float] = {}
    largest: dict[str, float] = {}
    for number, container in enumerate(listing(spec.get("initContainers"), "spec.initContainers")):
        place = f"spec.initContainers[{number}]"
        needs = _container(container, place)
        if mapping(container, place).get("restartPolicy") == "Always":
            _add(together, needs)
            _add(beside, needs)
            needs = {}
        alone = dict(beside)
        _add(alone, needs)
        for name, amount in alone.items():
            largest[name] = max(largest.get(name, 0.0), amount)
    for name, amount in largest.items():
        together[name] = max(together.get(name, 0.0), amount)
    whole = mapping(spec.get("resources"), "spec.resources")
    together.update(_requests(whole, "spec.resources"))
    _add(together, parse_amounts(spec.get("overhead"), "spec.overhead"))
    return together


def _container(container: Any, place: str) -> dict[str, float]:
    resources = mapping(container, place).get("resources")
    return _requests(mapping(resources, f"{place}.resources"), f"{place}.resources")


def _requests(resources: Mapping[str, Any], place: str) -> dict[str, float]:
    """Return the requests; a limit without a request is one, as the API server has it."""
    limits = parse_amounts(resources.get("limits"), f"{place}.limits")
    return {**limits, **parse_amounts(resources.get("requests"), f"{place}.requests")}


def _add(total: dict[str, float], more: Mapping[str, float]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0.0) + amount


class PodOwner(NamedTuple):
    """What made a pod; both are empty if nothing did."""

    kind: str
    name: str


def pod_owner(metadata: Mapping[str, Any]) -> PodOwner:
    """Return the controller of a pod, such as a ReplicaSet.

    Examples
    --------
    >>> pod_owner({"ownerReferences": [{"kind": "DaemonSet", "name": "proxy"}]})
    PodOwner(kind='DaemonSet', name='proxy')
    """
    owners = listing(metadata.get("ownerReferences"), "metadata.ownerReferences")
    for owner in owners:
        entry = mapping(owner, "metadata.ownerReferences[]")
        if entry.get("controller") is True or len(owners) == 1:
            kind = text(entry.get("kind"), "metadata.ownerReferences[].kind")
            return PodOwner(kind, text(entry.get("name"), "metadata.ownerReferences[].name"))
    return PodOwner("", "")


def needs_neighbours(spec: Mapping[str, Any]) -> bool:
    """Return whether a pod requires pod affinity, anti-affinity or topology spread.

    Examples
    --------
    >>> needs_neighbours({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]})
    True
    """
    affinity = mapping(spec.get("affinity"), "spec.affinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        if mapping(affinity.get(kind), f"spec.affinity.{kind}").get(_REQUIRED):
            return True
    spread = listing(spec.get("topologySpreadConstraints"), "spec.topologySpreadConstraints")
    return any(mapping(s, "spread").get("whenUnsatisfiable") == "DoNotSchedule" for s in spread)


@dataclass(frozen=True, slots=True)
class KubernetesNode:
    """A node of Kubernetes.

    Parameters
    ----------
    allocatable
        What pods can have; memory in bytes.
    taints
        Those that keep pods away.
    state
        ``closing`` if it is cordoned, ``down`` if it is not ready.
    """

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, float] = FrozenMap()
    state: Literal["up", "closing", "down"] = "up"

    @property
    def all_labels(self) -> dict[str, str]:
        """Its labels and taints, as labels of a server."""
        tainted = {taint_label(key, effect): value for key, value, effect in self.taints}
        return {**self.labels, **tainted}


def read_node(item: Mapping[str, Any]) -> KubernetesNode:
    """Return the node of an object of kind Node.

    Examples
    --------
    >>> read_node({"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "4"}}}).allocatable
    {'cpu': 4.0}
    """
    status = mapping(item.get("status"), "status")
    spec = mapping(item.get("spec"), "spec")
    metadata = mapping(item.get("metadata"), "metadata")
    has = status.get("allocatable", status.get("capacity"))
    if has is None:
        raise InputError("status.allocatable", "must be given")
    allocatable = parse_amounts(has, "status.allocatable")
    labels = mapping(metadata.get("labels"), "metadata.labels")
    plain = {text(key, "metadata.labels"): str(value) for key, value in labels.items()}
    taints = read_taints(spec.get("taints"))
    state: Literal["up", "closing", "down"] = "up"
    if spec.get("unschedulable") is True:
        state = "closing"
    for condition in listing(status.get("conditions"), "status.conditions"):
        entry = mapping(condition, "status.conditions[]")
        if entry.get("type") == "Ready" and entry.get("status") != "True":
            state = "down"
    return KubernetesNode(
        text(metadata.get("name"), "metadata.name"), plain, taints, allocatable, state
    )


def read_taints(value: Any) -> tuple[Taint, ...]:
    """Return the taints that keep pods away.

    Examples
    --------
    >>> read_taints([{"key": "gpu", "effect": "NoSchedule"}, {"key": "b", "effect":
    ...     "PreferNoSchedule"}])
    (('gpu', '', 'NoSchedule'),)
    """
    found = []
    for number, taint in enumerate(listing(value, "spec.taints")):
        entry = mapping(taint, f"spec.taints[{number}]")
        effect = text(entry.get("effect"), f"spec.taints[{number}].effect")
        key = text(entry.get("key"), f"spec.taints[{number}].key")
        if effect in _HARD_EFFECTS and key != _UNSCHEDULABLE:
            found.append((key, str(entry.get("value") or ""), effect))
    return tuple(found)


def placement_rule(spec: Mapping[str, Any]) -> Rule:
    """Return where a pod may run: node selector, node affinity, taints and tolerations.

    Examples
    --------
    >>> str(placement_rule({"nodeSelector": {"zone": "1"}}))
    'zone=1 and no taints'
    >>> str(placement_rule({"tolerations": [{"operator": "Exists"}]}))
    'tolerates all'
    """
    rules: list[Rule] = []
    affinity = mapping(spec.get("affinity"), "spec.affinity")
    place = "spec.affinity.nodeAffinity"
    required = mapping(mapping(affinity.get("nodeAffinity"), place).get(_REQUIRED), place)
    if required:
        listed = listing(required.get("nodeSelectorTerms"), "nodeSelectorTerms")
        terms = tuple(_read_term(term) for term in listed)
        rules.append(terms[0] if len(terms) == 1 else AnyOf(terms))
    selector = mapping(spec.get("nodeSelector"), "spec.nodeSelector")
    rules += [Match(str(label), "In", (str(value),)) for label, value in sorted(selector.items())]
    tolerated = {
        _read_toleration(mapping(entry, f"spec.tolerations[{number}]"))
        for number, entry in enumerate(listing(spec.get("tolerations"), "spec.tolerations"))
    }
    return all_of([*rules, Tolerates(tuple(sorted(tolerated)))])


def _read_term(value: Any) -> Rule:
    """Return the rule of a term: all its expressions hold; an empty one holds nowhere."""
    term = mapping(value, "nodeSelectorTerms[]")
    found: list[Rule] = []
    for kind, is_field in (("matchFields", True), ("matchExpressions", False)):
        for entry in listing(term.get(kind), kind):
            expression = mapping(entry, kind)
            operator = expression.get("operator")
            if operator not in OPERATORS:
                raise InputError(f"{kind}.operator", f"must be one of {OPERATORS}", operator)
            values = tuple(str(v) for v in listing(expression.get("values"), f"{kind}.values"))
            key = text(expression.get("key"), f"{kind}.key")
            found.append(Match(None if is_field else key, operator, values))
    return all_of(found) if found else AnyOf(())


def _read_toleration(entry: Mapping[str, Any]) -> Toleration:
    key, value, effect = (str(entry.get(name) or "") for name in ("key", "value", "effect"))
    return Toleration(
        key, "Exists" if entry.get("operator") == "Exists" else "Equal", value, effect
    )
