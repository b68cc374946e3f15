"""Requests of pods, and the nodes that may run them, by the rules of Kubernetes."""

from __future__ import annotations

from typing import Any

import pytest

from drfh import Server
from drfh.wire.kubernetes import KubernetesNode, placement_rule, pod_requests

GI = 2.0**30


def request(**amounts: str) -> dict[str, Any]:
    return {"resources": {"requests": amounts}}


def test_requests_follow_the_rules_of_kubernetes() -> None:
    sidecar = {**request(cpu="1"), "restartPolicy": "Always"}
    # An init container beside the sidecar before it: 5 + 1; sidecars and containers: 1 + 2 + 2.
    spec: dict[str, Any] = {"containers": [request(cpu="2")] * 2}
    spec["initContainers"] = [sidecar, request(cpu="5")]
    assert pod_requests(spec) == {"cpu": 6}
    # The sidecar that comes later is not there yet.
    spec["initContainers"] = [request(cpu="5"), sidecar]
    assert pod_requests(spec) == {"cpu": 5}
    assert pod_requests({**spec, "overhead": {"cpu": "250m"}}) == {"cpu": 5.25}
    # Requests of the pod replace the sum of those resources that they name.
    spec = {**spec, "resources": {"requests": {"cpu": "3"}}, "overhead": {"cpu": "250m"}}
    spec["containers"] = [request(cpu="2", memory="1Gi")]
    assert pod_requests(spec) == {"cpu": 3.25, "memory": GI}
    # A limit alone is a request.
    limit = {"resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "1"}}}
    assert pod_requests({"containers": [limit]}) == {"nvidia.com/gpu": 1, "cpu": 1}
    assert pod_requests({}) == {}


NODES = [
    KubernetesNode("a", {"zone": "1", "size": "4"}),
    KubernetesNode("b", {"zone": "2", "size": "16"}, (("gpu", "yes", "NoSchedule"),)),
    KubernetesNode("c", {}, (("evict", "", "NoExecute"),)),
]
EVERYWHERE = [{"operator": "Exists"}]


def affinity(*terms: list[tuple[str, str, list[str]]]) -> dict[str, Any]:
    listed = [
        {"matchExpressions": [{"key": k, "operator": o, "values": v} for k, o, v in term]}
        for term in terms
    ]
    hard = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": listed}}
    return {"affinity": {"nodeAffinity": hard}, "tolerations": EVERYWHERE}


@pytest.mark.parametrize(
    ("spec", "names"),
    [
        ({}, "a"),
        ({"tolerations": EVERYWHERE}, "abc"),
        ({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, "ab"),
        ({"tolerations": [{"key": "gpu", "value": "yes"}]}, "ab"),
        ({"tolerations": [{"key": "gpu", "value": "no"}]}, "a"),
        ({"tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}]}, "a"),
        ({"tolerations": [{"key": "evict", "effect": "NoExecute"}]}, "ac"),
        ({"nodeSelector": {"zone": "2"}}, ""),
        ({"nodeSelector": {"zone": "2"}, "tolerations": EVERYWHERE}, "b"),
        (affinity([("zone", "In", ["1", "2"])]), "ab"),
        (affinity([("zone", "NotIn", ["1"])]), "bc"),
        (affinity([("zone", "Exists", [])]), "ab"),
        (affinity([("zone", "DoesNotExist", [])]), "c"),
        (affinity([("size", "Gt", ["4"])]), "b"),
        (affinity([("size", "Lt", ["16"])]), "a"),
        (affinity([("zone", "Gt", ["x"])]), ""),
        (affinity([("zone", "In", ["1"]), ("size", "In", ["16"])]), ""),
        (affinity([("zone", "In", ["1"])], [("size", "In", ["16"])]), "ab"),  # terms are ORed
        (affinity([]), ""),  # an empty term holds nowhere
        (affinity(), ""),
    ],
)
def test_nodes_that_selector_affinity_and_taints_allow(spec: dict[str, Any], names: str) -> None:
    rule = placement_rule(spec)
    nodes = [Server({"cpu": 1}, name=node.name, labels=node.all_labels) for node in NODES]
    assert [node.name for node in nodes if rule(node)] == list(names)
