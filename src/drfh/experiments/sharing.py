"""Fig. 8: every user alone on servers of its own, against the shared cloud."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from drfh.experiments.evidence import BEST_FIT, BLOCKED, Evidence, Key
from drfh.experiments.setup import Ground, with_users
from drfh.model.cluster import Cluster
from drfh.model.jobs import Workload

__all__ = [
    "dedicated_clouds",
    "dedicated_workload",
    "sharing_numbers",
    "sharing_table",
    "user_facts",
]

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

_ROUND_OFF = 1e-12


def dedicated_clouds(weight: Floats, servers: int, seed: int) -> list[Ints]:
    """Return the positions of the servers of each user: a random partition by weight.

    The servers are shuffled; user i takes the positions from ⌊cum_{i−1}⌋ to ⌊cum_i⌋ of the
    shuffled order, cum in steps of servers · w_i / Σw. Each cloud keeps the pool's order.

    Examples
    --------
    >>> [len(cloud) for cloud in dedicated_clouds(np.ones(3), 5, seed=0)]
    [1, 2, 2]
    """
    order = np.random.default_rng(seed).permutation(servers)
    edges = np.cumsum(weight) * (servers / weight.sum())
    cuts = np.floor(edges * (1 + _ROUND_OFF)).astype(np.int64)[:-1]
    return [np.sort(part) for part in np.split(order, cuts)]


def dedicated_workload(workload: Workload, cluster: Cluster, seed: int) -> Workload:
    """Return the jobs with every user restricted to its own servers, all in one workload.

    Users with disjoint servers meet only in the order of turns, which cannot matter: a turn of
    one changes nothing for another. So one run is all dedicated clouds at once. It must be one
    that skips a blocked user; alone, a user that is skipped and one that stops are the same.
    A user without a server is left with no task at all.
    """
    weight = np.array([user.weight for user in workload.users])
    names = _server_names(cluster)
    clouds = dedicated_clouds(weight, cluster.size, seed)
    rich = np.array([len(cloud) > 0 for cloud in clouds])
    kept = _without(workload, rich)
    terms = [tuple(names[i] for i in cloud.tolist()) for cloud in clouds]
    # Nobody asks where the tasks of a user without tasks may run.
    return with_users(kept, [term or (names[0],) for term in terms])


def _server_names(cluster: Cluster) -> list[str]:
    return [
        cluster.server_name(group, index)
        for group, count in enumerate(cluster.counts.tolist())
        for index in range(count)
    ]


def _without(workload: Workload, kept_user: NDArray[np.bool_]) -> Workload:
    """Return the jobs of the users that are kept; the others are there without jobs."""
    keep = kept_user[workload.batch_user]
    if keep.all():
        return workload
    jobs, job = np.unique(workload.batch_job[keep], return_inverse=True)
    return Workload.from_arrays(
        workload.users,
        workload.resources,
        workload.demand,
        user=workload.batch_user[keep],
        arrival=workload.batch_arrival[keep],
        shape=workload.batch_shape[keep],
        duration=workload.duration[np.repeat(keep, workload.batch_count)],
        count=workload.batch_count[keep],
        job=job.reshape(-1),
        job_names=[workload.job_names[j] for j in jobs.tolist()],
        restrictions=workload.restrictions,
        restriction=workload.restriction,
    )


def user_facts(ground: Ground, seeds: tuple[int, ...]) -> pl.DataFrame:
    """Return a row for each seed and user: tasks, weight, dedicated servers, largest task."""
    workload = ground.workload
    count = len(workload.users)
    weight = np.array([user.weight for user in workload.users])
    tasks = np.bincount(workload.batch_user, workload.batch_count, minlength=count)
    parts = []
    for seed in seeds:
        cluster = ground.cluster(seed)
        most = dict(zip(cluster.resources, cluster.capacity.max(axis=0).tolist(), strict=True))
        size = np.array([most[name] for name in workload.resources])
        part = (workload.demand / size).max(axis=1)
        largest = np.zeros(count)
        np.maximum.at(largest, workload.batch_user, part[workload.batch_shape])
        clouds = dedicated_clouds(weight, cluster.size, seed)
        parts.append(
            pl.DataFrame(
                {
                    "seed": np.full(count, seed, dtype=np.int64),
                    "user": pl.Series([user.name for user in workload.users], dtype=pl.String),
                    "tasks": tasks.astype(np.int64),
                    "weight": weight,
                    "servers": np.array([len(cloud) for cloud in clouds], dtype=np.int64),
                    "largest_task": largest,
                }
            )
        )
    return pl.concat(parts)


def sharing_table(evidence: Evidence) -> pl.DataFrame:
    """Return a row for each user, rule and seed.

    Columns: ``user``, ``tasks``, ``weight``; ``shared`` and ``dedicated``, the part of its tasks
    that is completed in the shared cloud and alone; ``servers`` of its dedicated cloud,
    ``largest_task`` (dominant share of the largest server), ``blocked`` (in the shared cloud),
    ``seed``. A user without a server completes nothing.
    """
    parts = []
    for seed in evidence.seeds:
        facts = evidence.users.filter(pl.col("seed") == seed)
        alone = evidence.runs[Key(BEST_FIT, seed, dedicated=True)].users["completed"]
        for blocked in BLOCKED:
            done = evidence.run(BEST_FIT, seed, blocked).users["completed"]
            parts.append(
                facts.select(
                    "user",
                    "tasks",
                    "weight",
                    (done / pl.col("tasks")).alias("shared"),
                    (alone / pl.col("tasks")).alias("dedicated"),
                    "servers",
                    "largest_task",
                    pl.lit(blocked).alias("blocked"),
                    "seed",
                )
            )
    return pl.concat(parts)


def sharing_numbers(table: pl.DataFrame) -> list[dict[str, Any]]:
    """Return who falls in the shared cloud and by how much, for each seed and rule.

    Parameters
    ----------
    table
        What :func:`sharing_table` returned.

    Examples
    --------
    >>> table = pl.DataFrame({
    ...     "seed": [0, 0], "blocked": ["skip"] * 2, "shared": [1.0, 0.5],
    ...     "dedicated": [0.5, 0.75], "largest_task": [0.1, 0.5],
    ... })
    >>> found = sharing_numbers(table)[0]
    >>> found["users"], found["fall"], found["median_fall"], found["largest_task_of_them"]
    (2, 1, 0.25, 0.5)
    """
    found = []
    for (seed, blocked), rows in table.group_by("seed", "blocked", maintain_order=True):
        lost = rows.with_columns((pl.col("dedicated") - pl.col("shared")).alias("lost"))
        fall, stay = lost.filter(pl.col("lost") > 0), lost.filter(pl.col("lost") <= 0)
        found.append(
            {
                "seed": seed,
                "blocked": blocked,
                "users": len(rows),
                "fall": len(fall),
                "median_fall": fall["lost"].median(),
                "largest_fall": fall["lost"].max(),
                "gain": int((lost["lost"] < 0).sum()),
                # Large tasks starve where others may overtake: it shows in the median size.
                "largest_task_of_them": fall["largest_task"].median(),
                "largest_task_of_others": stay["largest_task"].median(),
            }
        )
    return found
