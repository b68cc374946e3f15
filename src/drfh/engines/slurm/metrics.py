"""What Prometheus is told of a round of the controller, and of the cluster as it is."""

from __future__ import annotations

import time
from collections import Counter

from drfh.engines.metrics import Metrics
from drfh.engines.slurm.controller import Controller, Cycle
from drfh.engines.status import Status, status_of

__all__ = ["Gauges"]

_BETWEEN = 5.0  # seconds: the exact allocation is solved for it, and nobody scrapes more often


class Gauges:
    """Keeps metrics up to date.

    Parameters
    ----------
    metrics
        Where they are kept.
    version, policy
        What runs.
    """

    def __init__(self, metrics: Metrics, version: str, policy: str) -> None:
        self.metrics = metrics
        self._next = 0.0
        metrics.set("drfh_build_info", 1, version=version, policy=policy)

    def command(self, name: str, seconds: float, worked: bool) -> None:
        """Note a command of Slurm."""
        self.metrics.observe("drfh_command_seconds", seconds, command=name)
        if not worked:
            self.metrics.add("drfh_errors_total", command=name)

    def round(self, controller: Controller, done: Cycle) -> None:
        """Note a round, and now and then who has what."""
        metrics = self.metrics
        metrics.add("drfh_placements_total", len(done.placed))
        metrics.add("drfh_releases_total", len(done.released))
        for code, times in Counter(why.code for why in done.recalled.values()).items():
            metrics.add("drfh_take_backs_total", times, reason=code)
        metrics.observe("drfh_decision_seconds", done.decision_seconds)
        metrics.observe("drfh_cycle_seconds", done.seconds)
        metrics.set("drfh_last_cycle_timestamp_seconds", time.time())
        if time.monotonic() >= self._next:
            self.cluster(status_of(controller.cluster(done)))
            self._next = time.monotonic() + _BETWEEN

    def cluster(self, status: Status) -> None:
        """Note who has what."""
        replace, users = self.metrics.replace, status.users
        replace("drfh_user_dominant_share", {user.name: user.share for user in users})
        replace("drfh_user_weight", {user.name: user.weight for user in users})
        fair = {u.name: u.fair_share for u in users if u.fair_share is not None}
        replace("drfh_user_fair_share", fair)
        tasks: dict[tuple[str, str], float] = {}
        for user in users:
            tasks[user.name, "running"] = user.running + user.starting
            tasks[user.name, "waiting"] = user.waiting
            tasks[user.name, "never"] = user.never
            tasks[user.name, "aside"] = sum(user.blocked.values())
        replace("drfh_tasks", tasks)
        replace("drfh_servers", dict(Counter(node.state for node in status.nodes)))
        replace("drfh_capacity", {name: total.capacity for name, total in status.totals.items()})
        replace("drfh_used", {name: total.used for name, total in status.totals.items()})
