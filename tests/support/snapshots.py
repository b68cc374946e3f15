"""Synthetic snapshots of Kubernetes clusters, as ``kubectl get nodes,pods -A -o json`` has them."""

from __future__ import annotations

import json
import random
import sys
from typing import Any

from drfh.model.cluster import Cluster
from drfh.model.users import Restriction, resolve_restriction

__all__ = ["admitted", "kubernetes_node", "kubernetes_pod", "large_snapshot"]

GPU = "nvidia.com/gpu"


def admitted(restriction: Restriction | None, cluster: Cluster) -> tuple[str, ...] | None:
    """Return the groups that a restriction admits; None if that is all of them."""
    if restriction is None:
        return None
    groups, _ = resolve_restriction(restriction, cluster, "a task")
    names = tuple(name for name, may in zip(cluster.names, groups, strict=True) if may)
    return None if len(names) == len(cluster) else names


def kubernetes_node(
    name: str,
    cpu: str,
    memory: str,
    gpus: int = 0,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return a node that is ready."""
    has = {"cpu": cpu, "memory": memory, "pods": "110", **({GPU: str(gpus)} if gpus else {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": spec,
        "status": {"allocatable": has, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def kubernetes_pod(
    namespace: str, name: str, on: str | None, requests: dict[str, str], **spec: Any
) -> dict[str, Any]:
    """Return a pod that runs on a node, or waits."""
    where = {} if on is None else {"nodeName": on}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"containers": [{"resources": {"requests": requests}}], **where, **spec},
        "status": {"phase": "Pending" if on is None else "Running"},
    }


_TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
_TOLERATION = {"key": GPU, "operator": "Exists"}
#: Pool, part of the nodes, cpu, memory in Gi, GPUs.
_POOLS = (
    ("general", 0.60, 32, 128, 0),
    ("highmem", 0.20, 48, 384, 0),
    ("gpu", 0.15, 64, 512, 8),
    ("spot", 0.05, 16, 64, 0),
)
_SIZES = ((1, 2), (2, 4), (4, 32), (0.5, 1), (8, 16), (4, 8), (2, 24))


def large_snapshot(
    nodes: int = 870, pods: int = 5_000, namespaces: int = 40, seed: int = 0
) -> dict[str, Any]:
    """Return a List of nodes in four pools and three zones, and of pods of several kinds.

    About one pod in six waits; GPU nodes are tainted, and some kinds have selectors or affinity.
    """
    draw = random.Random(seed)
    items: list[dict[str, Any]] = []
    pools: dict[str, list[str]] = {}
    free: dict[str, list[float]] = {}
    for pool, part, cpu, memory, gpus in _POOLS:
        for number in range(round(nodes * part)):
            name = f"{pool}-{number:04}"
            labels = {"pool": pool, "topology.kubernetes.io/zone": "abc"[number % 3]}
            taints = [_TAINT] if gpus else []
            items.append(
                kubernetes_node(name, str(cpu), f"{memory}Gi", gpus, labels, taints=taints)
            )
            pools.setdefault(pool, []).append(name)
            free[name] = [cpu, memory, gpus]
            agent = {"cpu": "100m", "memory": "128Mi"}
            items.append(kubernetes_pod("kube-system", f"agent-{name}", name, agent))
            free[name][0] -= 0.1
            free[name][1] -= 0.125
    kinds = [
        (f"team-{space:02}", f"job-{number}", _kind(draw))
        for space in range(namespaces)
        for number in range(draw.randint(2, 6))
    ]
    for number in range(pods):
        namespace, job, (pool, cores, gib, gpus, spec) = draw.choice(kinds)
        requests = {"cpu": str(cores), "memory": f"{gib}Gi", **({GPU: str(gpus)} if gpus else {})}
        needs = (cores, gib, gpus)
        on = None
        if draw.random() > 0.1:
            for name in draw.sample(pools[pool], 5):
                if all(a >= b for a, b in zip(free[name], needs, strict=True)):
                    free[name] = [a - b for a, b in zip(free[name], needs, strict=True)]
                    on = name
                    break
        items.append(kubernetes_pod(namespace, f"{job}-{number}", on, requests, **spec))
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _kind(draw: random.Random) -> tuple[str, float, float, int, dict[str, Any]]:
    """Return the pool that a kind prefers, what one pod asks for, and its rules."""
    cpu, memory = draw.choice(_SIZES)
    chance = draw.random()
    if chance < 0.25:
        return "gpu", 4 * cpu, 4 * memory, draw.choice((1, 2, 4)), {"tolerations": [_TOLERATION]}
    if chance < 0.45:
        return "highmem", cpu, 4 * memory, 0, {"nodeSelector": {"pool": "highmem"}}
    if chance < 0.6:
        pools = {"key": "pool", "operator": "In", "values": ["general", "spot"]}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [pools]}]}
        hard = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        return "general", cpu, memory, 0, {"affinity": {"nodeAffinity": hard}}
    return "general", cpu, memory, 0, {}


if __name__ == "__main__":
    json.dump(large_snapshot(), sys.stdout)
