"""A second, naive simulator to compare with: one user, first in, first out, lists only."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from drfh import AddServers, Cluster, RemoveServers, Workload

__all__ = ["Naive"]


class Naive:
    """Plays a workload of one user on servers with cpu and memory under ``fifo``, until a time.

    The clock jumps to the next time at which something happens; nothing is indexed or cached. At
    `until` tasks still end and arrive, and none starts.
    """

    def __init__(self, cluster: Cluster, workload: Workload, until: float) -> None:
        need = np.repeat(workload.demand[workload.batch_shape], workload.batch_count, axis=0)
        arrival = np.repeat(workload.batch_arrival, workload.batch_count)
        self.order = np.argsort(arrival, kind="stable").tolist()
        self.need = need[self.order]
        self.arrival = arrival[self.order].tolist()
        self.duration = workload.duration[self.order].tolist()
        rows = zip(cluster.names, cluster.capacity, strict=True)
        self.size: dict[str, Any] = {name: row.copy() for name, row in rows}
        self.waiting: list[tuple[bool, int]] = []  # (was never put back, task)
        self.running: dict[int, tuple[str, float]] = {}  # task → server and end, by start
        self.start: dict[int, float] = {}
        self.end: dict[int, float] = {}
        self.used, self.capacity = np.zeros(2), np.zeros(2)
        self.share, self.evictions, self.now = 0.0, 0, 0.0
        self.coming = list(range(len(self.order)))
        self.events = list(workload.events)
        while self.now <= until:
            self._finish()
            self._change()
            while self.coming and self.arrival[self.coming[0]] == self.now:
                self.waiting.append((True, self.coming.pop(0)))
            if self.now < until:
                self._place()
                while self._finish():
                    self._place()
            self._jump(until)

    def _finish(self) -> bool:
        over = [task for task, (_, end) in self.running.items() if end == self.now]
        for task in over:
            self.end[task] = self.now
            del self.running[task]
        return bool(over)

    def _free(self, name: str) -> Any:
        held = [self.need[task] for task, (server, _) in self.running.items() if server == name]
        return self.size[name] - sum(held, np.zeros(2))

    def _change(self) -> None:
        while self.events and self.events[0].time == self.now:
            event = self.events.pop(0)
            if isinstance(event, RemoveServers):
                name, amounts = event.name, {"cpu": 0.0, "memory": 0.0}
            elif isinstance(event, AddServers):
                name, amounts = str(event.server.name), dict(event.server.resources)
            else:
                name, amounts = event.name, dict(event.resources)
            self.size[name] = np.array([amounts["cpu"], amounts["memory"]])
            for task in [t for t, (server, _) in self.running.items() if server == name][::-1]:
                if (self._free(name) < 0).any():
                    del self.running[task]
                    self.waiting.append((False, task))
                    self.evictions += 1

    def _place(self) -> None:
        self.waiting.sort()
        for entry in list(self.waiting):
            need = self.need[entry[1]]
            if not any((size >= need).all() for size in self.size.values()):
                continue  # never, as things are
            fitting = [name for name in self.size if (self._free(name) >= need).all()]
            if not fitting:
                return
            self.waiting.remove(entry)
            self.start[entry[1]] = self.now
            self.running[entry[1]] = fitting[0], self.now + self.duration[entry[1]]

    def _jump(self, until: float) -> None:
        times = [end for _, end in self.running.values()]
        times += [event.time for event in self.events[:1]]
        times += [self.arrival[task] for task in self.coming[:1]]
        after = min([*times, math.inf])
        passed = min(after, until) - self.now
        total = sum(self.size.values(), np.zeros(2))
        held = sum((self.need[task] for task in self.running), np.zeros(2))
        self.used, self.capacity = self.used + held * passed, self.capacity + total * passed
        parts = held[total > 0] / total[total > 0]
        self.share += passed * float(parts.max(initial=0.0))
        self.now = after
