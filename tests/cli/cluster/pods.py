"""An engine that is not Slurm: a few pods on two nodes, in memory."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar

from drfh.engines.cache import SchedulerCache
from drfh.engines.engine import ControllerFacts, LiveCluster
from drfh.engines.observer import Cycle, Decision, Observer
from drfh.engines.snapshot import (
    BlockedCode,
    BlockedReason,
    ClusterSnapshot,
    NodeSnapshot,
    TaskSnapshot,
)

GATED = BlockedReason(BlockedCode.UNSUPPORTED, "needs a volume", ", and drfh cannot judge that")
TASKS = {
    "ann/a-0": TaskSnapshot("ann", {"cpu": 3.0}, (1,), on="n0"),
    "ann/a-1": TaskSnapshot("ann", {"cpu": 3.0}, (2,)),
    "bob/b-0": TaskSnapshot("bob", {"cpu": 1.0}, (3,), on="n1"),
    "bob/b-1": TaskSnapshot("bob", {"cpu": 1.0}, (4,), blocked=GATED),
}
NODES = {name: NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0}) for name in ("n0", "n1")}


@dataclass(frozen=True)
class PodCluster(LiveCluster):
    engine: ClassVar[str] = "pods"
    title: ClassVar[str] = "Pods"

    def unmanaged(self) -> dict[str, BlockedReason]:
        why = "it names another scheduler"
        return {"eve/e-0": BlockedReason(BlockedCode.OTHER_SCHEDULER, why)}


class PodEngine:
    name, user_by, policy = "a cluster of pods", "namespace", "best-fit-drfh"
    sharing: Mapping[str, Any] = MappingProxyType({"user_by": "namespace"})
    controller = ControllerFacts(False, {})
    cluster_type = PodCluster

    def observe(self) -> PodCluster:
        snapshot = self.snapshot()
        cache = SchedulerCache("best-fit-drfh")
        cache.follow(snapshot)
        return PodCluster(1e9, snapshot, cache, starting={"bob/b-0"}, notes=("the API is slow",))

    def snapshot(self) -> ClusterSnapshot:
        return ClusterSnapshot(NODES, TASKS, {"bob": 2.0})


class PodController:
    """Binds pods at once; its first cycles raise `errors`."""

    def __init__(
        self, cache: SchedulerCache, observers: Sequence[Observer], errors: Sequence[Exception] = ()
    ) -> None:
        self.cache, self.observers, self.errors = cache, observers, list(errors)
        self.tasks = dict(TASKS)
        self.weights: Mapping[str, float] = {"bob": 2.0}
        self.forgotten = 0

    def cycle(self) -> Cycle:
        started = time.perf_counter()
        if self.errors:
            raise self.errors.pop(0)
        snapshot = ClusterSnapshot(NODES, dict(self.tasks), self.weights)
        self.cache.follow(snapshot)
        placed = self.cache.place()
        for observer in self.observers:
            observer.on_decision(Decision(time.time(), snapshot, placed))
        for one in placed:
            self.tasks[one.task] = replace(self.tasks[one.task], on=one.server)
        cluster = PodCluster(
            time.time(), snapshot, self.cache, broken=("pod eve/e-1: no requests",)
        )
        pending = dict(self.cache.placed)
        released = list(pending)
        return Cycle(
            cluster, pending, placed, released=released, busy=bool(placed),
            seconds=time.perf_counter() - started,
        )  # fmt: skip

    def forget(self) -> None:
        self.forgotten += 1
        self.cache = SchedulerCache(self.cache.policy)

    def set_weights(self, weights: Mapping[str, float]) -> None:
        self.weights = weights
