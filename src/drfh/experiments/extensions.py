"""Tables beyond the paper: more policies, distance from fair, audit at a busy time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from drfh.auditor import audit
from drfh.experiments.runs import BEST_FIT, OTHERS, Evidence
from drfh.experiments.setup import Inputs
from drfh.model.cluster import Cluster
from drfh.model.jobs import Workload
from drfh.model.resources import TOLERANCE
from drfh.model.users import User
from drfh.simulation import simulate
from drfh.simulation.result import Result, common_jobs

__all__ = ["SEVEN", "audit_table", "busy_users", "fair_table", "policies_table"]

#: The seven properties that the paper defines for DRFH: three essential, four important ones.
SEVEN = (
    "envy-free",
    "pareto",
    "truthful",
    "single-server",
    "single-resource",
    "bottleneck-fair",
    "population-monotone",
)

# The clock must not decide what a search finds: only the number of tries does.
_NO_HURRY = 1e6
_AT_ONCE = 1e-6  # seconds
_HARDLY_ANY = 0.1  # of the jobs that another policy completes


def policies_table(evidence: Evidence) -> pl.DataFrame:
    """Return a row for each policy and seed.

    Columns: ``policy``, ``seed``, utilisation of ``cpu`` and ``memory``, tasks ``completed``,
    ``mean_waiting`` of tasks that started in seconds; ``median_turnaround`` in seconds of the same
    jobs under every policy, without jobs that were there at the start, whose run times are cut off
    (null where a policy completes hardly any of those); ``jain`` (Jain's index of mean levels);
    ``mean_missing`` and ``mean_distance`` over the samples (the missing share, and what the
    worst-off user lacks), ``mixed_users`` (whose fair level is that of their mean task),
    ``below_fair`` (the part of the time for which users were active that they were below their
    fair share); ``wall_seconds`` of the run.
    """
    rows = []
    for seed in evidence.seeds:
        policies = (*evidence.main_policies(seed), *OTHERS)
        median = _median_turnaround(evidence, seed, policies)
        for policy in policies:
            run = evidence.run(policy, seed)
            numbers = run.numbers
            fair = numbers["fair"] or {}
            rows.append(
                {
                    "policy": policy,
                    "seed": seed,
                    "cpu": numbers["utilisation"]["cpu"],
                    "memory": numbers["utilisation"]["memory"],
                    "completed": numbers["tasks"]["completed"],
                    "mean_waiting": numbers["mean_waiting"],
                    "median_turnaround": median.get(policy),
                    "jain": numbers["jain"],
                    "mean_missing": fair.get("mean_missing"),
                    "mean_distance": fair.get("mean_distance"),
                    "mixed_users": fair.get("mixed_users"),
                    "below_fair": _below_fair(run),
                    "wall_seconds": run.info["wall_seconds"],
                }
            )
    return pl.DataFrame(rows, infer_schema_length=None)


def _median_turnaround(
    evidence: Evidence, seed: int, policies: tuple[str, ...]
) -> dict[str, float]:
    """Return the median over the jobs that are complete under all of these policies.

    Policies that complete less than a tenth as many as another have none, and leave the others
    their jobs: under a heavy load one queue for all gets to almost none that came later.
    """
    later = evidence.jobs.filter(~pl.col("at_start")).select("job")
    runs = []
    for policy in policies:
        run = evidence.run(policy, seed)
        jobs = run.jobs.join(later, on="job", how="semi", maintain_order="left")
        runs.append(replace(run, jobs=jobs))
    done = [run.jobs["finish"].count() for run in runs]
    kept = [i for i, number in enumerate(done) if number >= _HARDLY_ANY * max(done)]
    tables = common_jobs([runs[i] for i in kept])
    medians: list[Any] = [table["turnaround"].median() for table in tables]
    return {policies[i]: median for i, median in zip(kept, medians, strict=True)}


def _below_fair(run: Result) -> float | None:
    if run.numbers["fair"] is None:
        return None
    active = run.samples.select(pl.col("^fair_level\\..*$").count()).row(0)
    seconds = sum(active) * run.config["interval"]
    return float(run.users["below_fair"].sum()) / seconds if seconds else 0.0


def fair_table(evidence: Evidence) -> pl.DataFrame:
    """Return how far each policy is from fair over time, in the first draw.

    Columns: ``policy``, ``time``, ``missing`` (the missing share), ``distance`` (what the worst-off
    user lacks of its fair level), ``worst`` (who that is).
    """
    seed = evidence.seeds[0]
    return pl.concat(
        evidence.run(policy, seed).samples.select(
            pl.lit(policy).alias("policy"),
            "time",
            pl.col("fair.missing").alias("missing"),
            pl.col("fair.distance").alias("distance"),
            pl.col("fair.worst").alias("worst"),
        )
        for policy in (*evidence.main_policies(seed), *OTHERS)
    )


def busy_users(inputs: Inputs, evidence: Evidence) -> tuple[float, Cluster, list[User]]:
    """Return the moment with the most active users under Best-Fit, the servers, and who they are.

    Of the samples of the first draw, the first with the most. Users have the mean demand and the
    number of their tasks that run or wait then, as in the distance from fair: tasks that end at
    that moment are gone, those that arrive are there, and tasks that fit on no server do not count.
    """
    seed = evidence.seeds[0]
    samples = evidence.run(BEST_FIT, seed).samples
    levels = samples.select(pl.col("^fair_level\\..*$"))
    active = levels.select(pl.sum_horizontal(pl.all().is_not_null())).to_series()
    moment = float(samples["time"][int(active.arg_max() or 0)])
    cluster, workload = inputs.cluster(seed), inputs.workload.until(moment)
    # The same run once more, only so far, for what the samples do not tell: which tasks.
    until = moment or _AT_ONCE
    run = simulate(cluster, workload, BEST_FIT, until, seed, interval=until, log=True)
    assert run.tasks is not None
    left = run.tasks["end"].is_null().to_numpy()
    batch = np.repeat(np.arange(len(workload.batch_count)), workload.batch_count)[left]
    batch = batch[_fit_somewhere(workload, cluster)[workload.batch_shape[batch]]]
    owner = workload.batch_user[batch]
    need = workload.demand[workload.batch_shape[batch]]
    count = np.bincount(owner, minlength=len(workload.users))
    total = [np.bincount(owner, column, minlength=len(count)) for column in need.T]
    users = [
        User(
            workload.users[i].name,
            {r: float(t[i] / count[i]) for r, t in zip(workload.resources, total, strict=True)},
            weight=workload.users[i].weight,
            tasks=int(count[i]),
        )
        for i in np.flatnonzero(count).tolist()
    ]
    return moment, _by_shape(cluster), users


def _fit_somewhere(workload: Workload, cluster: Cluster) -> NDArray[np.bool_]:
    """Return for each shape of tasks whether a server can hold one."""
    column = [cluster.resources.index(name) for name in workload.resources]
    sizes = np.unique(cluster.capacity[:, column], axis=0)
    fits = np.all(workload.demand[:, None] <= sizes * (1 + TOLERANCE), axis=2)
    return np.asarray(np.any(fits, axis=1))


def _by_shape(cluster: Cluster) -> Cluster:
    """Return the same servers, equal ones in one group."""
    kinds, which = np.unique(cluster.capacity, axis=0, return_inverse=True)
    counts = np.bincount(which.reshape(-1), cluster.counts).astype(np.int64)
    return Cluster.from_arrays(kinds, cluster.resources, counts=counts)


def audit_table(
    cluster: Cluster,
    users: list[User],
    *,
    tries: int,
    seed: int = 0,
    progress: Callable[[str, float], None] | None = None,
) -> pl.DataFrame:
    """Return the seven properties of the paper, audited on the divisible DRFH allocation.

    Columns: ``property``, ``verdict``, ``value`` (by how much it fails, from 0 to 1), ``text``.
    """
    report = audit(
        cluster,
        users,
        mechanism="drfh",
        properties=SEVEN,
        tries=tries,
        seed=seed,
        seconds=_NO_HURRY,
        progress=progress,
    )
    found = [report[name] for name in SEVEN]
    return pl.DataFrame(
        {
            "property": [f.name for f in found],
            "verdict": [str(f.verdict) for f in found],
            "value": [f.amount for f in found],
            "text": [f.text for f in found],
        }
    )
