"""The reproduction of the paper: its computation, its record, its directory."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from drfh import __version__
from drfh.errors import InputError
from drfh.experiments.claims import Claim, claims_table
from drfh.experiments.extensions import SEVEN, audit_table, busy_users, fair_table, policies_table
from drfh.experiments.figures import (
    Dynamic,
    ahead_table,
    completion_numbers,
    completion_table,
    dynamic_experiment,
    ratios_table,
    reduction_table,
    sharing_numbers,
    sharing_table,
    slots_table,
    two_servers_tables,
    utilisation_table,
)
from drfh.experiments.runs import Evidence, run_count, simulate_runs
from drfh.experiments.scorecard import score
from drfh.experiments.setup import Inputs, Setup, load_inputs
from drfh.files.atomic import read_text, shown_path, writing_into
from drfh.files.reader import Progress
from drfh.traces.base import Trace

__all__ = [
    "RUNS",
    "SUMMARY_FILE",
    "TABLES",
    "Reproduction",
    "recompute",
    "reproduce",
    "tables_of",
]


#: The file by which the directory of a reproduction is known.
SUMMARY_FILE = "summary.json"
RUNS = "runs"
TABLES = "tables"


@dataclass(frozen=True, eq=False)
class Reproduction:
    """Tables, numbers and claims of a reproduction.

    Attributes
    ----------
    setup : dict
        Every choice, as plain data.
    tables : dict
        Name → table; each is described where it is made, in ``drfh.experiments``.
    numbers : dict
        What stands beside the tables, as plain data.
    claims : tuple of Claim
        The scorecard.
    evidence : Evidence or None
        The runs; None if this was read from a directory.
    """

    setup: dict[str, Any]
    tables: dict[str, pl.DataFrame]
    numbers: dict[str, Any]
    claims: tuple[Claim, ...]
    evidence: Evidence | None = None

    def summary(self) -> dict[str, Any]:
        """Return all but the tables as plain data, ready for JSON."""
        return {
            "setup": self.setup,
            "numbers": self.numbers,
            "claims": [asdict(claim) for claim in self.claims],
        }

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write tables (CSV and Parquet), the summary, and the runs, into a folder that is there.

        Parameters
        ----------
        folder
            ``tables/``, ``runs/`` and ``summary.json`` are written into it.
        """
        place = Path(folder)
        with writing_into(place):
            (place / TABLES).mkdir(exist_ok=True)
            for name, table in self.tables.items():
                table.write_parquet(place / TABLES / f"{name}.parquet")
                table.write_csv(place / TABLES / f"{name}.csv")
            if self.evidence is not None:
                self.evidence.write(place / RUNS)
            text = json.dumps(self.summary(), indent=2, ensure_ascii=False, allow_nan=False)
            (place / SUMMARY_FILE).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Reproduction:
        """Read tables and summary again.

        Examples
        --------
        >>> Reproduction.load("no-such-folder")
        Traceback (most recent call last):
        drfh.errors.InputError: no-such-folder: the directory must be one that drfh reproduce \
wrote (summary.json is missing)
        """
        place = Path(folder)
        if not (place / SUMMARY_FILE).is_file():
            rule = f"must be one that drfh reproduce wrote ({SUMMARY_FILE} is missing)"
            raise InputError("the directory", rule, place=shown_path(str(folder)))
        summary: Mapping[str, Any] = json.loads(read_text(str(place / SUMMARY_FILE)))
        tables = {
            path.stem: pl.read_parquet(path) for path in sorted((place / TABLES).glob("*.parquet"))
        }
        claims = tuple(
            Claim(**{**fields, "spread": fields["spread"] and tuple(fields["spread"])})
            for fields in summary["claims"]
        )
        return cls(dict(summary["setup"]), tables, dict(summary["numbers"]), claims)


# How long the parts take beside the runs, as a number of runs.
_READING, _AUDIT, _PAGE = 2, 4, 2


def reproduce(
    setup: Setup | None = None,
    *,
    trace: Trace | None = None,
    folder: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
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
    report = _whole_progress(progress, run_count(setup))
    report("generating" if setup.data is None else "reading", 0, "reading")
    inputs = load_inputs(setup, trace)
    seconds = {"reading": time.perf_counter() - started}
    evidence = simulate_runs(
        setup,
        inputs,
        processes=processes or os.cpu_count() or 1,
        folder=None if folder is None else Path(folder) / RUNS,
        progress=None if progress is None else lambda what, done: report(what, done, "runs"),
    )
    seconds["runs"] = time.perf_counter() - started - seconds["reading"]
    report("three users on 100 servers", 0, "audit")
    dynamic = dynamic_experiment()
    users, use = two_servers_tables()
    tables = {"two_servers": users, "two_servers_use": use, "dynamic": dynamic.table}
    tables |= {"phases": dynamic.phases, **tables_of(evidence)}
    before = time.perf_counter()
    moment, cluster, active = busy_users(inputs, evidence)
    tables["audit"] = audit_table(
        cluster,
        active,
        tries=setup.audit_tries,
        seed=setup.seed,
        progress=lambda name, part: report(
            f"audit: {name}", (SEVEN.index(name) + part) / len(SEVEN), "audit"
        ),
    )
    seconds["audit"] = time.perf_counter() - before
    numbers = _numbers(inputs, evidence, dynamic)
    numbers["busy_moment"] = {"time": moment, "users": len(active)}
    numbers["sharing"] = sharing_numbers(tables["sharing"])
    numbers["completion"] = completion_numbers(evidence)
    claims = score(evidence, tables, dynamic, numbers)
    tables["claims"] = claims_table(claims)
    seconds["total"] = time.perf_counter() - started
    numbers["seconds"] = seconds
    return Reproduction(setup.to_dict(), tables, numbers, claims, evidence)


def _whole_progress(progress: Progress | None, runs: int) -> Callable[[str, float, str], None]:
    """Return what to call with a part that is going on, so that all parts are one display."""
    begins = {"reading": 0, "runs": _READING, "audit": _READING + runs}
    total = _READING + runs + _AUDIT + _PAGE

    def report(what: str, done: float, part: str) -> None:
        if progress is not None:
            scale = {"reading": _READING, "audit": _AUDIT}.get(part, 1)
            progress(what, begins[part] + scale * done, total)

    return report


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


def _numbers(inputs: Inputs, evidence: Evidence, dynamic: Dynamic) -> dict[str, Any]:
    """Return what stands beside the tables."""
    trace, workload = inputs.trace, inputs.workload
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
            "machines": inputs.shapes.size,
        },
        "window": inputs.window,
        "users": len(workload.users),
        "jobs": workload.job_count,
        "tasks": workload.task_count,
        "pool": {
            str(seed): dict(
                zip(
                    inputs.shapes.resources,
                    inputs.cluster(seed).totals.tolist(),
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
