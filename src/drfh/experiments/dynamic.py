"""Fig. 4: three users come and go on 100 servers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl

from drfh.cluster import Cluster
from drfh.files import load_scenario
from drfh.mechanisms import allocate
from drfh.mechanisms.solvers.whole_leximin import whole_leximin
from drfh.problem import Problem
from drfh.simulation import simulate
from drfh.workload import User

__all__ = ["Dynamic", "dynamic_experiment"]

_INTERVAL = 5.0
_FIRST_FIT_STRICT = "drfh+first-fit+strict"


@dataclass(frozen=True, eq=False)
class Dynamic:
    """What the experiment found.

    Attributes
    ----------
    table : polars.DataFrame
        ``time``, ``user``, ``cpu``, ``memory``, ``dominant`` (parts of the pool that its tasks
        hold in the simulation under Best-Fit), ``exact`` (its share in the exact divisible
        allocation of the users who are active then), ``whole`` (its share in the exact optimum of
        whole tasks: the leximin of levels by an integer program); 0 for who is not active.
    phases : polars.DataFrame
        ``start``, ``end``, ``users`` (active), joined by +.
    totals : dict
        What the servers have together.
    task_seconds : float
        How long tasks run: so long after a change the old tasks are still there.
    first_fit : polars.DataFrame
        ``time``, ``user``, ``dominant`` under First-Fit where a blocked user stops all.
    """

    table: pl.DataFrame
    phases: pl.DataFrame
    totals: dict[str, float]
    task_seconds: float
    first_fit: pl.DataFrame


def dynamic_experiment() -> Dynamic:
    """Simulate the scenario ``paper-dynamic`` and solve it exactly for each set of users."""
    scenario = load_scenario("paper-dynamic")
    cluster, workload = scenario.cluster, scenario.workload
    result = simulate(cluster, workload, interval=_INTERVAL)
    totals = dict(zip(cluster.resources, cluster.totals.tolist(), strict=True))
    users = {user.name: user for user in scenario.users}
    stays = {user: (start, end) for user, start, end in
             result.jobs.select("user", "submission", "finish").rows()}  # fmt: skip
    solved: dict[tuple[str, ...], dict[str, tuple[float, float]]] = {}
    rows = []
    for user, time, share in result.shares().select("user", "time", "share").rows():
        active = tuple(u for u, (start, end) in stays.items() if start <= time < end)
        if active not in solved:
            solved[active] = _optima(cluster, [users[name] for name in active])
        need = users[user].demand
        parts = {name: need[name] / totals[name] for name in ("cpu", "memory")}
        running = round(share / max(parts.values()))
        held = [running * part for part in parts.values()]
        rows.append((time, user, *held, share, *solved[active].get(user, (0.0, 0.0))))
    columns = ["time", "user", "cpu", "memory", "dominant", "exact", "whole"]
    return Dynamic(
        pl.DataFrame(rows, schema=columns, orient="row"),
        _phases(stays),
        totals,
        float(workload.duration.max()),
        simulate(cluster, workload, _FIRST_FIT_STRICT, interval=_INTERVAL)
        .shares()
        .select("time", "user", pl.col("share").alias("dominant")),
    )


def _optima(cluster: Cluster, users: list[User]) -> dict[str, tuple[float, float]]:
    """Return the exact shares of divisible and of whole tasks, by user."""
    if not users:
        return {}
    shares = allocate(cluster, users).shares
    problem = Problem.build(cluster, users)
    whole = whole_leximin(problem) * problem.task_share
    return {u.name: (shares[u.name], float(w)) for u, w in zip(users, whole, strict=True)}


def _phases(stays: dict[str, tuple[float, float]]) -> pl.DataFrame:
    edges = np.unique([edge for stay in stays.values() for edge in stay]).tolist()
    rows = [
        (start, end, "+".join(u for u, (a, b) in stays.items() if a <= start < b))
        for start, end in pairwise(edges)
    ]
    return pl.DataFrame(rows, schema=["start", "end", "users"], orient="row")
