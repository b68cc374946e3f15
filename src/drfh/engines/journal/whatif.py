"""Simulations of a journal under other policies, beside what happened."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from drfh.engines.journal.history import SHIFT
from drfh.engines.journal.reader import Journal
from drfh.engines.journal.workload import JournalWorkload, workload_of
from drfh.policies import Policy, find_policy

if TYPE_CHECKING:
    import polars

    from drfh.simulation.result import Result

__all__ = ["OBSERVED", "WhatIf", "comparison", "horizon_of", "what_if"]

#: What a comparison calls what really happened.
OBSERVED = "observed"


@dataclass(frozen=True, eq=False)
class WhatIf:
    """A journal under several policies, beside what happened.

    Attributes
    ----------
    workload : JournalWorkload
    names : tuple of str
        Of the policies.
    results : tuple of Result
        Of the simulations, one for each policy.
    table : dict
        The comparison; see :func:`comparison`.
    """

    workload: JournalWorkload
    names: tuple[str, ...]
    results: tuple[Result, ...]
    table: Mapping[str, Any]


def what_if(
    journal: Journal,
    policies: Sequence[str | Policy],
    *,
    drain: bool | None = None,
    fair: bool = False,
    interval: float | None = None,
) -> WhatIf:
    """Simulate a journal under other policies.

    Parameters
    ----------
    journal
        From :func:`~drfh.engines.journal.reader.read_journal`.
    policies
        Their names, or the policies themselves.
    drain
        Whether to go on after the last entry until nothing more happens; by default only if all
        tasks had ended there.
    fair, interval
        As for :func:`drfh.simulate`.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from drfh.engines.journal.reader import read_journal
    >>> from drfh.engines.journal.writer import JournalWriter
    >>> from drfh.engines.snapshot import ClusterSnapshot, NodeSnapshot, TaskSnapshot
    >>> from drfh.scheduler import Placed
    >>> nodes = {"n0": NodeSnapshot({"cpu": 4.0}, {"cpu": 4.0})}
    >>> task = TaskSnapshot("ann", {"cpu": 2.0}, (8, 0))
    >>> with TemporaryDirectory() as folder:
    ...     header = {"policy": "best-fit-drfh", "engine": "slurm", "started": 0}
    ...     with JournalWriter(f"{folder}/log", header) as writer:
    ...         first = ClusterSnapshot(nodes, {"8": task})
    ...         times = [writer.write(0, first, [Placed("8", "ann", "n0")]),
    ...                  writer.write(9, ClusterSnapshot(nodes, {}), [])]
    ...     found = what_if(read_journal(f"{folder}/log"), ["best-fit-drfh", "slots:1"])
    >>> [(row["run"], row["mean_turnaround"], row["as_recorded"]) for row in found.table["runs"]]
    [('observed', 9.0, 1), ('best-fit-drfh', 9.0, 1), ('slots:1', 9.0, 1)]
    """
    from drfh.simulation.run import simulate

    workload = workload_of(journal)
    chosen = [find_policy(policy) for policy in policies]
    results = [
        simulate(
            workload.cluster,
            workload.workload,
            policy,
            until=horizon_of(workload, drain=drain),
            seed=journal.headers[-1].seed,
            interval=interval,
            fair=fair,
            log=True,
            source=journal.path,
        )
        for policy in chosen
    ]
    names = tuple(policy.name for policy in chosen)
    return WhatIf(workload, names, tuple(results), comparison(workload, names, results))


def horizon_of(workload: JournalWorkload, *, drain: bool | None = None) -> float | None:
    """Return until when to simulate: None to go on until nothing more happens.

    Else the last entry; just after it if tasks were started then, as at a horizon none is.
    """
    if workload.finished if drain is None else drain:
        return None
    if (workload.placements["start"] == workload.horizon).any():
        return math.nextafter(workload.horizon, math.inf)
    return workload.horizon


def comparison(
    workload: JournalWorkload, names: Sequence[str], results: Sequence[Result]
) -> dict[str, Any]:
    """Compare simulations of a journal with what happened, as plain data.

    Parameters
    ----------
    workload
        From :func:`~drfh.engines.journal.workload.workload_of`.
    names
        What to call the results.
    results
        Simulations of it with ``log=True``.

    Returns
    -------
    dict
        ``runs``: a row for what was observed and for each result, with ``run`` (its name),
        ``tasks``, ``started``, ``done``, ``mean_waiting`` of the tasks that started and
        ``mean_turnaround`` of those that ended (in both without the tasks that are bound to
        their servers), ``makespan`` (seconds of the journal until the last task ended; None
        unless all did), ``utilisation`` of each resource, ``as_recorded`` (tasks that started
        when and where they really did), ``evictions``. ``users``: a row for each user and run,
        with ``user``, ``run``, ``weight``, ``tasks``, ``started``, ``done``, ``mean_waiting``,
        ``mean_turnaround`` and ``mean_share``.
    """
    import polars as pl

    bound = pl.col("by").is_in(["before", "others"]).fill_null(value=False)
    marked = workload.placements.with_columns(bound.alias("bound"))
    really = marked.select("task", "bound", was_start="start", was_server="server")
    tables = [marked]
    for result in results:
        assert result.tasks is not None
        ran = result.tasks.select(
            "user", "submission", "first_start", "start", "end", "server", task="job"
        )
        tables.append(ran.join(really.select("task", "bound"), on="task"))
    shares = [
        workload.shares,
        *(dict(r.users.select("user", "mean_share").rows()) for r in results),
    ]
    used = [workload.utilisation, *(result.numbers["utilisation"] for result in results)]
    evictions = [None, *(result.numbers["tasks"]["evictions"] for result in results)]
    weights = {user.name: user.weight for user in workload.workload.users}
    runs, users = [], []
    for number, (name, table) in enumerate(zip((OBSERVED, *names), tables, strict=True)):
        beside = table.join(really.drop("bound"), on="task")
        agrees = (pl.col("start") == pl.col("was_start")) & (
            pl.col("server") == pl.col("was_server")
        )
        ended = table["end"].is_not_null().all()
        runs.append(
            {
                "run": name,
                **_measures(table),
                "makespan": table["end"].max() - SHIFT if ended else None,  # type: ignore[operator]
                "utilisation": dict(used[number]),
                "as_recorded": beside.filter(agrees).height,
                "evictions": evictions[number],
            }
        )
        own = table.partition_by("user", as_dict=True)
        users += [
            {"user": user, "run": name, "weight": weight, **_measures(own[user,]),
             "mean_share": shares[number][user]}
            for user, weight in weights.items()
        ]  # fmt: skip
    return {"runs": runs, "users": users}


def _measures(table: polars.DataFrame) -> dict[str, Any]:
    """Return counts of tasks and mean times; of those not bound to a server."""
    import polars as pl

    free = table.filter(~pl.col("bound"))
    return {
        "tasks": table.height,
        "started": table["first_start"].count(),
        "done": table["end"].count(),
        "mean_waiting": (free["first_start"] - free["submission"]).mean(),
        "mean_turnaround": (free["end"] - free["submission"]).mean(),
    }
