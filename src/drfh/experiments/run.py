"""The whole reproduction: from the choices to the tables and the scorecard."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from drfh import __version__
from drfh.experiments.beyond import SEVEN, audit_table, busy_users, fair_table, policies_table
from drfh.experiments.claims import claims_table
from drfh.experiments.completion import completion_numbers, completion_table, reduction_table
from drfh.experiments.evidence import Evidence
from drfh.experiments.figures import (
    Dynamic,
    ahead_table,
    dynamic_experiment,
    ratios_table,
    slots_table,
    two_servers_tables,
    utilisation_table,
)
from drfh.experiments.plan import gather_evidence, run_count
from drfh.experiments.reproduction import RUNS, Reproduction
from drfh.experiments.scorecard import score
from drfh.experiments.setup import Ground, Setup, ground_of
from drfh.experiments.sharing import sharing_numbers, sharing_table
from drfh.traces.base import Trace

__all__ = ["Step", "recompute", "reproduce", "tables_of"]

#: Called with what is going on, how much of the whole is done, and of how much.
Step: TypeAlias = Callable[[str, float, int], None]

# How long the parts take beside the runs, as a number of runs.
_READING, _AUDIT, _PAGE = 2, 4, 2


def reproduce(
    setup: Setup | None = None,
    *,
    trace: Trace | None = None,
    folder: str | os.PathLike[str] | None = None,
    progress: Step | None = None,
    processes: int | None = None,
) -> Reproduction:
    """Run the evaluation of the paper, and more.

    Parameters
    ----------
    setup
        Every choice; by default the usual ones.
    trace
        Jobs and server shapes, instead of those that `setup` speaks of.
    folder
        A folder that is there, into which runs are written as soon as they are done;
        :meth:`Reproduction.write` writes the rest.
    progress
        Called with what is going on, how much of the whole is done, and of how much.
    processes
        How many runs at a time; by default one for each processor.

    Returns
    -------
    Reproduction
        The same for the same choices, however many processes there are.
    """
    started = time.perf_counter()
    setup = setup or Setup()
    tell = _whole(progress, run_count(setup))
    tell("generating" if setup.data is None else "reading", 0, "reading")
    ground = ground_of(setup, trace)
    seconds = {"reading": time.perf_counter() - started}
    evidence = gather_evidence(
        setup,
        ground,
        processes=processes or os.cpu_count() or 1,
        folder=None if folder is None else Path(folder) / RUNS,
        progress=None if progress is None else lambda what, done: tell(what, done, "runs"),
    )
    seconds["runs"] = time.perf_counter() - started - seconds["reading"]
    tell("three users on 100 servers", 0, "audit")
    dynamic = dynamic_experiment()
    users, use = two_servers_tables()
    tables = {"two_servers": users, "two_servers_use": use, "dynamic": dynamic.table}
    tables |= {"phases": dynamic.phases, **tables_of(evidence)}
    before = time.perf_counter()
    moment, cluster, active = busy_users(ground, evidence)
    tables["audit"] = audit_table(
        cluster,
        active,
        tries=setup.audit_tries,
        seed=setup.seed,
        progress=lambda name, part: tell(
            f"audit: {name}", (SEVEN.index(name) + part) / len(SEVEN), "audit"
        ),
    )
    seconds["audit"] = time.perf_counter() - before
    numbers = _numbers(ground, evidence, dynamic)
    numbers["busy_moment"] = {"time": moment, "users": len(active)}
    numbers["sharing"] = sharing_numbers(tables["sharing"])
    numbers["completion"] = completion_numbers(evidence)
    claims = score(evidence, tables, dynamic, numbers)
    tables["claims"] = claims_table(claims)
    seconds["total"] = time.perf_counter() - started
    numbers["seconds"] = seconds
    return Reproduction(setup.to_dict(), tables, numbers, claims, evidence)


def _whole(progress: Step | None, runs: int) -> Callable[[str, float, str], None]:
    """Return what to call with a part that is going on, so that all parts are one display."""
    begins = {"reading": 0, "runs": _READING, "audit": _READING + runs}
    total = _READING + runs + _AUDIT + _PAGE

    def tell(what: str, done: float, part: str) -> None:
        if progress is not None:
            scale = {"reading": _READING, "audit": _AUDIT}.get(part, 1)
            progress(what, begins[part] + scale * done, total)

    return tell


def tables_of(evidence: Evidence) -> dict[str, pl.DataFrame]:
    """Return the tables that rest on the runs alone: Table II and Fig. 5 to 8, and beyond."""
    return {
        "slots": slots_table(evidence),
        "utilisation": utilisation_table(evidence),
        "ahead": ahead_table(evidence),
        "completion": completion_table(evidence),
        "reduction": reduction_table(evidence),
        "ratios": ratios_table(evidence),
        "sharing": sharing_table(evidence),
        "policies": policies_table(evidence),
        "fair": fair_table(evidence),
    }


def recompute(folder: str | os.PathLike[str]) -> dict[str, pl.DataFrame]:
    """Return :func:`tables_of` the runs that a reproduction has written, and of nothing else.

    Examples
    --------
    >>> recompute("no-such-folder")
    Traceback (most recent call last):
    drfh.errors.InputError: the directory must hold the runs of a reproduction (index.json is \
missing), got 'no-such-folder/runs'
    """
    return tables_of(Evidence.load(Path(folder) / RUNS))


def _numbers(ground: Ground, evidence: Evidence, dynamic: Dynamic) -> dict[str, Any]:
    """Return what stands beside the tables."""
    trace, workload = ground.trace, ground.workload
    return {
        "version": __version__,
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "source": {
            "format": trace.format,
            "generated": trace.source == "generated",
            "options": {name: _plain(value) for name, value in trace.options.items()},
            "counts": dict(trace.counts),
            "remarks": list(trace.remarks),
            "machines": ground.shapes.size,
        },
        "window": ground.window,
        "users": len(workload.users),
        "jobs": workload.job_count,
        "tasks": workload.task_count,
        "pool": {
            str(seed): dict(
                zip(
                    ground.shapes.resources,
                    ground.cluster(seed).totals.tolist(),
                    strict=True,
                )
            )
            for seed in evidence.seeds
        },
        "best_slots": {str(seed): evidence.best_slots(seed) for seed in evidence.seeds},
        "dynamic": {"totals": dynamic.totals, "task_seconds": dynamic.task_seconds},
        "runs": [
            {**key._asdict(), "name": key.name, **_counts(result.numbers)}
            for key, result in evidence.runs.items()
        ],
    }


def _counts(numbers: Any) -> dict[str, Any]:
    return {
        **{name: numbers["tasks"][name] for name in
           ("submitted", "completed", "running", "queued", "never")},
        **numbers["utilisation"],
    }  # fmt: skip


def _plain(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)
