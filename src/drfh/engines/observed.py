"""What a journal shows to have happened: when tasks ran, how full it was, who had what share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from drfh.engines.lives import SHIFT, History, Life
from drfh.engines.wanted import WantedServer

if TYPE_CHECKING:
    import polars

__all__ = ["integrals", "placements", "rooms_over_time", "working"]


def working(server: WantedServer | None) -> dict[str, float]:
    """Return what counts of a server: nothing if it is down or not there.

    Examples
    --------
    >>> working(WantedServer({"cpu": 4.0, "gpu": 1.0}, {"cpu": 2.0, "gpu": 0.0}, "closing"))
    {'cpu': 2.0}
    >>> working(None)
    {}
    """
    return {name: amount for name, amount in server.room.items() if amount} if server else {}


def rooms_over_time(history: History) -> list[tuple[float, Mapping[str, WantedServer]]]:
    """Return the servers with times of the workload: what the first look shows is so from 0 on."""
    first, *later = history.servers
    return [(0.0, first[1]), *((time + SHIFT, servers) for time, servers in later)]


def placements(lives: Sequence[Life]) -> polars.DataFrame:
    """Return a row for each task, as :class:`~drfh.engines.recorded.Recorded` has it."""
    import polars as pl

    first, last = [life.first for life in lives], [life.last for life in lives]
    columns: dict[str, tuple[list[Any], Any]] = {
        "task": ([life.name for life in lives], pl.String),
        "user": ([life.task.user for life in lives], pl.String),
        "submission": ([life.arrives for life in lives], pl.Float64),
        "first_start": ([run and run.starts for run in first], pl.Float64),
        "start": ([run and run.starts for run in last], pl.Float64),
        "end": ([run and run.ends for run in last], pl.Float64),
        "server": ([run and run.server for run in last], pl.String),
        "by": ([run and run.by for run in last], pl.String),
    }
    return pl.DataFrame({name: pl.Series(v, dtype=kind) for name, (v, kind) in columns.items()})


def integrals(
    history: History, lives: Sequence[Life], users: Sequence[str], horizon: float
) -> tuple[dict[str, float], dict[str, float]]:
    """Return utilisation by resource and mean dominant share by user, from 0 to `horizon`."""
    resources = history.resources
    changes: list[tuple[float, int, Any]] = []  # (time, servers before tasks, what)
    for time, servers in rooms_over_time(history):
        rooms = [working(server) for server in servers.values()]
        changes.append((time, 0, [sum(room.get(r, 0.0) for room in rooms) for r in resources]))
    for life in lives:
        held = [life.task.demand.get(r, 0.0) for r in resources]
        for run in life.runs:
            stop = horizon if run.ends is None else run.ends
            changes.append((run.starts, 1, (life.task.user, 1, held)))
            changes.append((stop, 1, (life.task.user, -1, held)))
    changes.sort(key=lambda change: change[:2])
    pool = _Pool(users, len(resources))
    for time, kind, what in changes:
        if time <= horizon:
            pool.change(time, kind, what)
    pool.pass_time(horizon)
    pairs = zip(resources, pool.used, pool.room, strict=True)
    return (
        {name: used / room if room > 0 else 0.0 for name, used, room in pairs},
        {user: pool.passed_share(user, horizon) / horizon for user in users},
    )


class _Pool:
    """What is there, what is used and who has which share, integrated over time."""

    def __init__(self, users: Sequence[str], resources: int) -> None:
        self.used, self.room = [0.0] * resources, [0.0] * resources
        self._now = 0.0
        self._totals = [0.0] * resources
        self._held = [0.0] * resources
        self._of = {user: [0.0] * resources for user in users}
        self._integral = dict.fromkeys(users, 0.0)
        self._since = dict.fromkeys(users, 0.0)

    def pass_time(self, time: float) -> None:
        """Count what is there and used up to `time`."""
        passed = time - self._now
        if passed > 0:
            for r, total in enumerate(self._totals):
                self.room[r] += passed * total
                self.used[r] += passed * self._held[r]
            self._now = time

    def passed_share(self, user: str, time: float) -> float:
        """Count the share of a user up to `time`, and return its integral."""
        passed = time - self._since[user]
        if passed > 0:
            pairs = zip(self._of[user], self._totals, strict=True)
            share = max((held / total if total > 0 else 0.0 for held, total in pairs), default=0.0)
            self._integral[user] += passed * share
            self._since[user] = time
        return self._integral[user]

    def change(self, time: float, kind: int, what: Any) -> None:
        """Change the servers (kind 0) or what somebody has."""
        self.pass_time(time)
        if kind == 0:
            for user in self._of:
                self.passed_share(user, time)
            self._totals = what
            return
        user, sign, held = what
        self.passed_share(user, time)
        for r, amount in enumerate(held):
            self._of[user][r] += sign * amount
            self._held[r] += sign * amount
