"""Tables behind the paper's Fig. 1 to 8 and Table II."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import polars as pl

from drfh.allocation.allocation import Allocation
from drfh.allocation.problem import Problem
from drfh.experiments.runs import BEST_FIT, BLOCKED, FIRST_FIT, Evidence, RunKey, slots_name
from drfh.experiments.setup import RESOURCES
from drfh.files.scenario_file import load_scenario
from drfh.mechanisms import allocate
from drfh.mechanisms.solvers.whole_leximin import whole_leximin
from drfh.model.cluster import Cluster
from drfh.model.users import User
from drfh.simulation import simulate

__all__ = [
    "CLASSES",
    "PAPER",
    "Dynamic",
    "ahead_table",
    "both_complete",
    "completion_numbers",
    "completion_table",
    "dynamic_experiment",
    "job_reductions",
    "ratios_of",
    "ratios_table",
    "reduction_table",
    "reductions",
    "sharing_numbers",
    "sharing_table",
    "slots_table",
    "two_servers_tables",
    "utilisation_table",
]


_DIVISIBLE, _WHOLE = "divisible", "whole tasks"


def two_servers_tables() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return who has how much, and how full each server is.

    The first: ``mechanism``, ``kind`` (divisible or whole tasks), ``user``, ``tasks``, ``share``
    (global dominant). The second: ``mechanism``, ``kind``, ``server``, ``resource``, ``used``
    (a part of the server).

    Examples
    --------
    >>> two_servers_tables()[0].select("mechanism", "tasks").row(0)
    ('per-server-drf', 6.0)
    """
    scenario = load_scenario("paper-two-servers")
    found = [
        ("per-server-drf", _DIVISIBLE, _allocate(scenario, "per-server-drf")),
        ("drfh", _DIVISIBLE, _allocate(scenario, "drfh")),
        ("drfh", _WHOLE, _allocate(scenario, "drfh", whole_tasks=True)),
    ]
    users, use = [], []
    for mechanism, kind, allocation in found:
        # An exact solver stops a rounding away from 10.
        tasks = {name: float(f"{n:.12g}") for name, n in allocation.tasks.items()}
        users += [(mechanism, kind, u, n, allocation.shares[u]) for u, n in tasks.items()]
        use += [(mechanism, kind, *row) for row in _used(allocation)]
    return (
        pl.DataFrame(users, schema=["mechanism", "kind", "user", "tasks", "share"], orient="row"),
        pl.DataFrame(use, schema=["mechanism", "kind", "server", "resource", "used"], orient="row"),
    )


def _allocate(scenario: object, mechanism: str, *, whole_tasks: bool = False) -> Allocation:
    cluster, users = scenario.cluster, scenario.users  # type: ignore[attr-defined]
    own: dict[str, Any] = {"whole_tasks": True, "filling": "paper"} if whole_tasks else {}
    return allocate(cluster, users, mechanism=mechanism, **own)


def _used(allocation: Allocation) -> list[tuple[str, str, float]]:
    problem = allocation.problem
    cluster = problem.cluster
    place = {name: position for position, name in enumerate(cluster.names)}
    demand = dict(zip(problem.names(), problem.demand, strict=True))
    used = np.zeros_like(cluster.capacity)
    for user, group, tasks in allocation.placement().rows():
        used[place[group]] += tasks * demand[user]
    part = used / (cluster.capacity * cluster.counts[:, None])
    return [
        (server, resource, float(part[s, r]))
        for s, server in enumerate(cluster.names)
        for r, resource in enumerate(cluster.resources)
    ]


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


def utilisation_table(evidence: Evidence) -> pl.DataFrame:
    """Return a row for each sample of Best-Fit, First-Fit and slots at their best number.

    Columns: ``policy``, ``blocked``, ``seed``, ``time``, ``cpu``, ``memory``.
    """
    parts = []
    for seed in evidence.seeds:
        for blocked in BLOCKED:
            for policy in evidence.main_policies(seed):
                samples = evidence.run(policy, seed, blocked).samples
                parts.append(
                    samples.select(
                        pl.lit(policy).alias("policy"),
                        pl.lit(blocked).alias("blocked"),
                        pl.lit(seed, dtype=pl.Int64).alias("seed"),
                        "time",
                        *(pl.col(f"utilisation.{name}").alias(name) for name in RESOURCES),
                    )
                )
    return pl.concat(parts)


def ahead_table(evidence: Evidence) -> pl.DataFrame:
    """Return for each pair of the three how often, and by how much, the first is ahead.

    Columns: ``first``, ``second``, ``blocked``, ``seed``, ``resource``; ``part_of_time`` and
    ``part_behind``, of the samples at which the first is fuller or less full than the second;
    ``mean_difference`` of the utilisation over the whole window.
    """
    rows: list[dict[str, object]] = []
    for seed in evidence.seeds:
        for blocked in BLOCKED:
            for first, second in combinations(evidence.main_policies(seed), 2):
                one, two = (evidence.run(p, seed, blocked) for p in (first, second))
                for name in RESOURCES:
                    column = f"utilisation.{name}"
                    apart = one.samples[column] - two.samples[column]
                    mean = [r.numbers["utilisation"][name] for r in (one, two)]
                    rows.append(
                        {
                            "first": first,
                            "second": second,
                            "blocked": blocked,
                            "seed": seed,
                            "resource": name,
                            "part_of_time": float((apart > 0).mean()),  # type: ignore[arg-type]
                            "part_behind": float((apart < 0).mean()),  # type: ignore[arg-type]
                            "mean_difference": mean[0] - mean[1],
                        }
                    )
    return pl.DataFrame(rows)


def ratios_of(evidence: Evidence, seed: int, blocked: str = "skip") -> pl.DataFrame:
    """Return ``user``, ``tasks``, ``best_fit`` and ``slots``: tasks completed over submitted."""
    one = evidence.run(BEST_FIT, seed, blocked).users
    two = evidence.run(evidence.best_slots(seed), seed, blocked).users
    return one.select(
        "user",
        pl.col("submitted").alias("tasks"),
        pl.col("completion_ratio").alias("best_fit"),
    ).with_columns(two["completion_ratio"].alias("slots"))


def ratios_table(evidence: Evidence) -> pl.DataFrame:
    """Return a row for each user and seed: ``user``, ``tasks``, ``best_fit``, ``slots``, ``seed``.

    Ratios of completed to submitted tasks, under Best-Fit and under slots at their best number.
    """
    return pl.concat(
        ratios_of(evidence, seed).with_columns(pl.lit(seed, dtype=pl.Int64).alias("seed"))
        for seed in evidence.seeds
    )


#: Slots per largest server → CPU and memory utilisation that the paper states.
PAPER = {
    10: (0.351, 0.234),
    12: (0.422, 0.274),
    14: (0.439, 0.280),
    16: (0.454, 0.242),
    20: (0.406, 0.200),
}
_COLUMNS = {
    "source": pl.String, "slots": pl.Int64, "count_rule": pl.String, "oversize": pl.String,
    "seed": pl.Int64, "cpu": pl.Float64, "memory": pl.Float64, "completed": pl.Int64,
}  # fmt: skip


def slots_table(evidence: Evidence) -> pl.DataFrame:
    """Return the paper's rows, then ours: a row for each number, rule and seed.

    Columns: ``source`` (paper or ours), ``slots``, ``count_rule``, ``oversize``, ``seed``, the
    utilisation of ``cpu`` and ``memory`` over the whole window, tasks ``completed``.
    """
    rows: list[tuple[object, ...]] = [
        ("paper", number, None, None, None, *used, None) for number, used in PAPER.items()
    ]
    for seed in evidence.seeds:
        for count in evidence.count_rules:
            for oversize in evidence.oversize:
                for number in evidence.slots:
                    run = evidence.run(slots_name(number, count, oversize), seed).numbers
                    used = run["utilisation"]
                    done = run["tasks"]["completed"]
                    rows.append(
                        ("ours", number, count, oversize, seed, used["cpu"], used["memory"], done)
                    )
    return pl.DataFrame(rows, schema=_COLUMNS, orient="row")


#: Name, least and most tasks of a job (the paper has five classes and does not give their edges).
CLASSES: tuple[tuple[str, int, int | None], ...] = (
    ("1–50", 1, 50),
    ("51–100", 51, 100),
    ("101–500", 101, 500),
    ("501–1,000", 501, 1000),
    ("> 1,000", 1001, None),
)
_POINTS = 500


def both_complete(
    evidence: Evidence, seed: int, rival: str, blocked: str = "skip", *, at_start: bool = False
) -> pl.DataFrame:
    """Return the jobs that are complete under both: ``job``, ``tasks``, ``ours``, ``theirs``.

    Parameters
    ----------
    evidence
        The runs.
    seed, blocked
        Which.
    rival
        The policy that Best-Fit is compared with.
    at_start
        Whether to keep jobs that were there at the start, whose run times are cut off.
    """
    one = evidence.run(BEST_FIT, seed, blocked).jobs
    two = evidence.run(rival, seed, blocked).jobs
    table = one.select("job", "tasks", pl.col("turnaround").alias("ours")).with_columns(
        two["turnaround"].alias("theirs"), evidence.jobs["at_start"]
    )
    keep = pl.col("ours").is_not_null() & pl.col("theirs").is_not_null()
    if not at_start:
        keep &= ~pl.col("at_start")
    return table.filter(keep).drop("at_start")


def completion_table(evidence: Evidence) -> pl.DataFrame:
    """Return the distribution of job completion times, of the first draw.

    Columns: ``policy``, ``seconds``, ``fraction`` of the jobs that are complete by then. Jobs
    that are complete under Best-Fit and under slots, and were not there at the start.
    """
    seed = evidence.seeds[0]
    rival = evidence.best_slots(seed)
    jobs = both_complete(evidence, seed, rival)
    parts = []
    for policy, column in ((BEST_FIT, "ours"), (rival, "theirs")):
        times = np.sort(jobs[column].to_numpy())
        pick = np.unique(np.linspace(0, len(times) - 1, min(len(times), _POINTS)).astype(np.int64))
        parts.append(
            pl.DataFrame(
                {
                    "policy": pl.Series([policy] * len(pick), dtype=pl.String),
                    "seconds": times[pick],
                    "fraction": (pick + 1) / max(len(times), 1),
                }
            )
        )
    return pl.concat(parts)


def reduction_table(evidence: Evidence) -> pl.DataFrame:
    """Return how much sooner jobs are complete under Best-Fit, by class of size.

    Columns: ``job_class``, ``low``, ``high`` (tasks), ``jobs``, ``mean_of_reductions``,
    ``reduction_of_means``, ``median_reduction``, ``seed``, ``rival``. A reduction is 1 − seconds
    under Best-Fit / seconds under the rival; the same jobs as in the distribution.
    """
    parts = []
    for seed in evidence.seeds:
        for rival in (evidence.best_slots(seed), FIRST_FIT):
            jobs = both_complete(evidence, seed, rival)
            parts.append(
                reductions(jobs).with_columns(
                    pl.lit(seed, dtype=pl.Int64).alias("seed"), pl.lit(rival).alias("rival")
                )
            )
    return pl.concat(parts)


def job_reductions(jobs: pl.DataFrame) -> pl.Series:
    """Return how much sooner each job is complete, as part of the other time.

    A job of no length is complete at once under both: 0.

    Examples
    --------
    >>> job_reductions(pl.DataFrame({"ours": [5.0, 0.0], "theirs": [10.0, 0.0]})).to_list()
    [0.5, 0.0]
    """
    ours, theirs = jobs["ours"].to_numpy(), jobs["theirs"].to_numpy()
    return pl.Series(1 - np.divide(ours, theirs, out=np.ones_like(ours), where=theirs > 0))


def reductions(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return both statistics of each class.

    Examples
    --------
    >>> jobs = pl.DataFrame({"tasks": [1, 2], "ours": [5.0, 90.0], "theirs": [10.0, 90.0]})
    >>> reductions(jobs).row(0)[3:]
    (2, 0.25, 0.050000000000000044, 0.25)
    """
    rows = []
    for name, low, high in CLASSES:
        of_class = jobs.filter(
            pl.col("tasks") >= low, pl.lit(True) if high is None else pl.col("tasks") <= high
        )
        ours, theirs = of_class["ours"].to_numpy(), of_class["theirs"].to_numpy()
        numbers: tuple[float | None, ...] = (None, None, None)
        if len(ours):
            each = job_reductions(of_class).to_numpy()
            whole = 1 - float(ours.mean() / theirs.mean()) if theirs.any() else 0.0
            numbers = float(each.mean()), whole, float(np.median(each))
        rows.append((name, low, high, len(ours), *numbers))
    schema = {
        "job_class": pl.String, "low": pl.Int64, "high": pl.Int64, "jobs": pl.Int64,
        "mean_of_reductions": pl.Float64, "reduction_of_means": pl.Float64,
        "median_reduction": pl.Float64,
    }  # fmt: skip
    return pl.DataFrame(rows, schema=schema, orient="row")


def completion_numbers(evidence: Evidence) -> list[dict[str, Any]]:
    """Return how many jobs the figure speaks of, and what jobs at the start would change.

    For each seed: jobs complete under both, those of them that were there at the start and are
    left out; and the reductions by class if they were not.
    """
    found = []
    for seed in evidence.seeds:
        rival = evidence.best_slots(seed)
        every = both_complete(evidence, seed, rival, at_start=True)
        kept = both_complete(evidence, seed, rival)
        found.append(
            {
                "seed": seed,
                "rival": rival,
                "all_jobs": len(evidence.jobs),
                "jobs": len(kept),
                "left_out_at_start": len(every) - len(kept),
                "with_jobs_at_start": reductions(every).to_dicts(),
            }
        )
    return found


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
        alone = evidence.runs[RunKey(BEST_FIT, seed, dedicated=True)].users["completed"]
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
