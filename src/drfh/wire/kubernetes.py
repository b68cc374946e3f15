"""Nodes and pods of Kubernetes: requests, taints, tolerations, selectors, affinity."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from drfh.errors import InputError
from drfh.model.resources import FrozenMap, parse_quantity
from drfh.wire.documents import items_of, listing, mapping, text

__all__ = [
    "KubernetesNode",
    "NodeFilter",
    "PodOwner",
    "list_objects",
    "needs_neighbours",
    "parse_amounts",
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


class NodeFilter:
    """Finds the nodes that node selector, node affinity, taints and tolerations allow.

    Parameters
    ----------
    nodes
        Those that pods may be bound to.

    Examples
    --------
    >>> tainted = KubernetesNode("b", {}, (("gpu", "", "NoSchedule"),))
    >>> nodes = NodeFilter([KubernetesNode("a", {"zone": "1"}), tainted])
    >>> sorted(nodes.feasible({})), sorted(nodes.feasible({"nodeSelector": {"zone": "2"}}))
    (['a'], [])
    >>> nodes.feasible({"tolerations": [{"operator": "Exists"}]}) is None
    True
    """

    def __init__(self, nodes: Sequence[KubernetesNode]) -> None:
        self._nodes = {node.name: node for node in nodes}
        self._known: dict[str, frozenset[str] | None] = {}

    def feasible(self, spec: Mapping[str, Any]) -> frozenset[str] | None:
        """Return the names of the nodes for the spec of a pod; None for all."""
        affinity = mapping(spec.get("affinity"), "spec.affinity")
        place = "spec.affinity.nodeAffinity"
        required = mapping(mapping(affinity.get("nodeAffinity"), place).get(_REQUIRED), place)
        terms = (spec.get("nodeSelector"), required, spec.get("tolerations"))
        key = json.dumps(terms, sort_keys=True)
        if key not in self._known:
            self._known[key] = self._find(*terms)
        return self._known[key]

    def _find(
        self, selector: Any, required: Mapping[str, Any], tolerations: Any
    ) -> frozenset[str] | None:
        labels = {
            name: str(value) for name, value in mapping(selector, "spec.nodeSelector").items()
        }
        listed = listing(required.get("nodeSelectorTerms"), "nodeSelectorTerms")
        terms = [_read_term(term) for term in listed]
        tolerated = [
            mapping(entry, f"spec.tolerations[{number}]")
            for number, entry in enumerate(listing(tolerations, "spec.tolerations"))
        ]
        names = frozenset(
            node.name
            for node in self._candidates(terms)
            if all(node.labels.get(label) == value for label, value in labels.items())
            and (not required or any(_holds(term, node) for term in terms))
            and all(any(_tolerates(t, taint) for t in tolerated) for taint in node.taints)
        )
        return None if len(names) == len(self._nodes) else names

    def _candidates(self, terms: Sequence[_Term]) -> Iterable[KubernetesNode]:
        """Return the nodes to check: a pod of a DaemonSet names its only one."""
        named: set[str] = set()
        for term in terms:
            own = [v for is_field, _, operator, v in term if is_field and operator == "In"]
            if not own:
                return self._nodes.values()
            named.update(own[0])
        if not terms:
            return self._nodes.values()
        return [self._nodes[name] for name in named if name in self._nodes]


#: Whether it is about a field and not a label; key, operator, values.
_Expression = tuple[bool, str, str, tuple[str, ...]]
_Term = list[_Expression]
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def _read_term(value: Any) -> _Term:
    term = mapping(value, "nodeSelectorTerms[]")
    found: _Term = []
    for kind, is_field in (("matchExpressions", False), ("matchFields", True)):
        for entry in listing(term.get(kind), kind):
            expression = mapping(entry, kind)
            operator = expression.get("operator")
            if operator not in _OPERATORS:
                raise InputError(f"{kind}.operator", f"must be one of {_OPERATORS}", operator)
            values = tuple(str(v) for v in listing(expression.get("values"), f"{kind}.values"))
            found.append((is_field, text(expression.get("key"), f"{kind}.key"), operator, values))
    return found


def _holds(term: _Term, node: KubernetesNode) -> bool:
    """Return whether all expressions of a term hold; an empty term holds nowhere."""
    return bool(term) and all(_expression_holds(expression, node) for expression in term)


def _expression_holds(expression: _Expression, node: KubernetesNode) -> bool:
    is_field, key, operator, values = expression
    has = node.name if is_field else node.labels.get(key)
    if operator == "In":
        return has in values
    if operator == "NotIn":
        return has not in values
    if operator == "Exists":
        return has is not None
    if operator == "DoesNotExist":
        return has is None
    number, bound = _whole(has), _whole(values[0] if values else None)
    if number is None or bound is None:
        return False
    return number > bound if operator == "Gt" else number < bound


def _whole(written: str | None) -> int | None:
    digits = (written or "").removeprefix("-")
    fine = digits.isascii() and digits.isdigit() and len(digits) < 20
    return int(written or "") if fine else None


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    key, value, effect = taint
    if toleration.get("effect") not in (None, "", effect):
        return False
    tolerated = toleration.get("key")
    if tolerated not in (None, "", key):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return tolerated == key and str(toleration.get("value") or "") == value
