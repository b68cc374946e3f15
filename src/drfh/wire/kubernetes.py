"""The rules of Kubernetes that decide what a pod holds and which nodes admit it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from drfh.errors import InputError
from drfh.model.resources import parse_quantity
from drfh.wire.documents import listing, mapping, text

__all__ = ["Admission", "NodeFacts", "amounts_of", "pod_requests", "read_taints"]

# Taints of these nodes are told by their state already.
_STATE_TAINTS = "node.kubernetes.io/unschedulable"
_HARD = ("NoSchedule", "NoExecute")


def amounts_of(value: Any, field: str) -> dict[str, float]:
    """Read amounts by resource name.

    Examples
    --------
    >>> amounts_of({"cpu": "1500m", "memory": "2Gi"}, "requests")
    {'cpu': 1.5, 'memory': 2147483648.0}
    """
    return {
        text(name, field): parse_quantity(amount, f"{field}.{name}")
        for name, amount in mapping(value, field).items()
    }


def pod_requests(spec: Mapping[str, Any]) -> dict[str, float]:
    """Return what a pod holds while it runs, as the Kubernetes scheduler counts it.

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
    _add(together, amounts_of(spec.get("overhead"), "spec.overhead"))
    return together


def _container(container: Any, place: str) -> dict[str, float]:
    resources = mapping(container, place).get("resources")
    return _requests(mapping(resources, f"{place}.resources"), f"{place}.resources")


def _requests(resources: Mapping[str, Any], place: str) -> dict[str, float]:
    """Return the requests; a limit without a request is one, as the API server has it."""
    limits = amounts_of(resources.get("limits"), f"{place}.limits")
    return {**limits, **amounts_of(resources.get("requests"), f"{place}.requests")}


def _add(total: dict[str, float], more: Mapping[str, float]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0.0) + amount


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What decides whether a node admits a pod: its name, its labels, its hard taints."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[tuple[str, str, str], ...] = ()


def read_taints(value: Any) -> tuple[tuple[str, str, str], ...]:
    """Return the taints (key, value, effect) that keep pods away.

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
        if effect in _HARD and key != _STATE_TAINTS:
            found.append((key, str(entry.get("value") or ""), effect))
    return tuple(found)


@dataclass(slots=True)
class Admission:
    """Which nodes admit a pod: node selector, required node affinity, taints and tolerations.

    Examples
    --------
    >>> nodes = [NodeFacts("a", {"zone": "1"}), NodeFacts("b", {}, (("gpu", "", "NoSchedule"),))]
    >>> admission = Admission(nodes)
    >>> sorted(admission.of({})), sorted(admission.of({"nodeSelector": {"zone": "2"}}))
    (['a'], [])
    >>> admission.of({"tolerations": [{"operator": "Exists"}]}) is None
    True
    """

    nodes: Sequence[NodeFacts]
    _known: dict[str, frozenset[str] | None] = field(default_factory=dict)
    _by_name: dict[str, NodeFacts] = field(default_factory=dict)

    def of(self, spec: Mapping[str, Any]) -> frozenset[str] | None:
        """Return the names of the nodes; None if all admit it."""
        affinity = mapping(spec.get("affinity"), "spec.affinity")
        place = "spec.affinity.nodeAffinity"
        node = mapping(affinity.get("nodeAffinity"), place)
        required = mapping(node.get("requiredDuringSchedulingIgnoredDuringExecution"), place)
        asks = (spec.get("nodeSelector"), required, spec.get("tolerations"))
        key = json.dumps(asks, sort_keys=True)
        if key not in self._known:
            self._known[key] = self._find(*asks)
        return self._known[key]

    def _find(
        self, selector: Any, required: Mapping[str, Any], tolerations: Any
    ) -> frozenset[str] | None:
        wanted = {
            name: str(value) for name, value in mapping(selector, "spec.nodeSelector").items()
        }
        terms = [_term(term) for term in _terms(required)]
        tolerated = [
            mapping(entry, f"spec.tolerations[{number}]")
            for number, entry in enumerate(listing(tolerations, "spec.tolerations"))
        ]
        names = frozenset(
            node.name
            for node in self._candidates(terms)
            if all(node.labels.get(label) == value for label, value in wanted.items())
            and (not required or any(_holds(term, node) for term in terms))
            and all(any(_tolerates(t, taint) for t in tolerated) for taint in node.taints)
        )
        return None if len(names) == len(self.nodes) else names

    def _candidates(self, terms: Sequence[_Term]) -> Iterable[NodeFacts]:
        """Return the nodes to look at: a pod of a DaemonSet names the only one."""
        if not self._by_name:
            self._by_name = {node.name: node for node in self.nodes}
        named: set[str] = set()
        for term in terms:
            own = [v for field_, _, operator, v in term if field_ and operator == "In"]
            if not own:
                return self.nodes
            named.update(own[0])
        return [self._by_name[n] for n in named if n in self._by_name] if terms else self.nodes


#: Whether it is about a field and not a label; key, operator, values.
_Expression = tuple[bool, str, str, tuple[str, ...]]
_Term = list[_Expression]
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def _terms(required: Mapping[str, Any]) -> list[Any]:
    return listing(required.get("nodeSelectorTerms"), "nodeSelectorTerms")


def _term(value: Any) -> _Term:
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


def _holds(term: _Term, node: NodeFacts) -> bool:
    """Return whether all expressions of a term hold; an empty term holds nowhere."""
    return bool(term) and all(_expression_holds(expression, node) for expression in term)


def _expression_holds(expression: _Expression, node: NodeFacts) -> bool:
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


def _whole(word: str | None) -> int | None:
    digits = (word or "").removeprefix("-")
    fine = digits.isascii() and digits.isdigit() and len(digits) < 20
    return int(word or "") if fine else None


def _tolerates(toleration: Mapping[str, Any], taint: tuple[str, str, str]) -> bool:
    key, value, effect = taint
    if toleration.get("effect") not in (None, "", effect):
        return False
    asked = toleration.get("key")
    if asked not in (None, "", key):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return asked == key and str(toleration.get("value") or "") == value
