"""Format ``slurm``: the output of ``sinfo --json`` and ``squeue --json``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drfh.errors import InputError
from drfh.files.reader import Ledger, Progress
from drfh.traces.base import Format, Option, Signature, TraceReading
from drfh.traces.snapshot import (
    CLOSING,
    CLOSING_HELP,
    HELD,
    NO_GANGS,
    NO_RUN_TIMES,
    NodeRecord,
    TaskRecord,
    snapshot,
)
from drfh.wire.documents import JSON_FILES, documents, items_of, mapping, nothing_of
from drfh.wire.slurm.notation import count_array_tasks
from drfh.wire.slurm.records import (
    EligibleNodes,
    JobRecord,
    SlurmNode,
    UnequalNodesError,
    add_nodes,
)

__all__ = ["FORMAT"]

_OPTIONS = (
    Option(
        "user_by",
        "Who the users are.",
        "choice",
        "user",
        ("user", "account", "partition", "qos"),
    ),
    Option(
        "draining",
        f"Nodes that drain, fail or are under maintenance {CLOSING_HELP}",
        "choice",
        "used",
        CLOSING,
    ),
    HELD,
)
_CANNOT = (
    f"a snapshot {NO_RUN_TIMES}",
    "a snapshot does not tell weights, shares, limits or priorities: all users count the same",
    NO_GANGS,
)
_ENDED = "jobs that ended, left out"
_HELD = "jobs that are held or wait for another job or a time, left out"
_BEYOND_LIMIT = "array tasks beyond the array's own limit, left out"
_EMPTY = "jobs that ask for nothing, left out"
_MAX_NODES = 1_000_000


def _read(
    paths: tuple[Path, ...], options: Mapping[str, Any], ledger: Ledger, progress: Progress | None
) -> TraceReading:
    nodes: dict[str, SlurmNode] = {}
    jobs: dict[str, tuple[str, Any]] = {}
    other = 0
    for place, value in documents(paths, ledger, progress):
        known = False
        if not isinstance(value, dict):
            raise InputError("the file", "must be what sinfo --json prints", value, place=place)
        for key in ("nodes", "sinfo"):
            if key in value:
                known = True
                for where, entry in items_of(value, key, place):
                    try:
                        add_nodes(entry, key, nodes)
                    except InputError as error:
                        error.place = where
                        if isinstance(error, UnequalNodesError):
                            raise  # all rows are so: the message names another command
                        ledger.broken(error)
        if "jobs" in value:
            known = True
            for where, entry in items_of(value, "jobs", place):
                identity = entry.get("job_id", where) if isinstance(entry, dict) else where
                jobs.setdefault(str(identity), (where, entry))
        other += not known
    where = ", ".join(map(str, paths))
    if not nodes:
        rule = "must be in the files (sinfo --json, or scontrol show nodes --json)"
        raise nothing_of("nodes", rule, where, ledger)
    if not jobs:
        raise nothing_of("jobs", "must be in the files (squeue --json)", where, ledger)
    ledger.count("nodes listed", len(nodes))
    ledger.count("jobs listed", len(jobs))
    ledger.count("files of another kind, left out", other)
    tasks = list(_JobReader(options, ledger, EligibleNodes(nodes)).read(jobs.values()))
    for remark in _CANNOT:
        ledger.remark(remark)
    return snapshot(
        [NodeRecord(node.name, node.amounts, node.labels, node.state) for node in nodes.values()],
        tasks,
        ledger,
        nouns=("nodes", "tasks"),
        closing=options["draining"],
    )


@dataclass(slots=True)
class _JobReader:
    """Reads jobs as tasks: one for each node that a job has or asks for."""

    options: Mapping[str, Any]
    ledger: Ledger
    eligible: EligibleNodes
    _running: dict[str, int] = field(default_factory=dict)  # tasks of each array

    def read(self, jobs: Iterable[tuple[str, Any]]) -> Iterator[TaskRecord]:
        """Yield the tasks; jobs that have none are counted."""
        for kind in (_ENDED, _HELD, _BEYOND_LIMIT, _EMPTY):
            self.ledger.count(kind, 0)
        pending: list[tuple[str, JobRecord]] = []
        for place, entry in jobs:
            try:
                job = JobRecord(mapping(entry, "job"))
                if job.state == "running":
                    yield from self._running_tasks(job)
                elif job.state == "pending":
                    pending.append((place, job))  # how many of an array run is known later
                else:
                    self.ledger.count(_ENDED)
            except InputError as error:
                error.place = place
                self.ledger.broken(error)
        for place, job in pending:
            try:
                yield from self._pending_tasks(job)
            except InputError as error:
                error.place = place
                self.ledger.broken(error)

    def _running_tasks(self, job: JobRecord) -> list[TaskRecord]:
        held = job.held
        common = self._common(job)
        if job.array is not None:
            self._running[job.array] = self._running.get(job.array, 0) + 1
        since = job.number("start_time") or 0.0
        allowed = self.eligible.rule(job)
        tasks = [
            TaskRecord(demand=demand, servers=allowed, on=name, since=since, **common)
            for name, demand in held.items()
            if any(demand.values())
        ]
        if not tasks:
            self.ledger.count(_EMPTY)
        return tasks

    def _pending_tasks(self, job: JobRecord) -> list[TaskRecord]:
        drop = self.options["held"] == "drop"
        if drop and not job.is_eligible:
            self.ledger.count(_HELD)
            return []
        nodes = job.node_count
        if nodes > _MAX_NODES:
            raise InputError("node_count", f"must be at most {_MAX_NODES:,}", nodes)
        common = self._common(job)
        demand = job.demand
        listed = job.entry.get("array_task_string")
        count, cut = count_array_tasks(listed, "array_task_string")
        if cut:
            self.ledger.remark("a list of array tasks was cut short by Slurm: the rest is missing")
        limit = job.number("array_max_tasks") or 0
        if limit > 0 and job.array is not None and listed:
            free = max(int(limit) - self._running.get(job.array, 0), 0)
            if free < count and drop:
                self.ledger.count(_BEYOND_LIMIT, count - free)
                count = free
        if count == 0:
            return []
        if not any(demand.values()):
            self.ledger.count(_EMPTY)
            return []
        since = job.number("submit_time") or 0.0
        allowed = self.eligible.rule(job)
        return [
            TaskRecord(demand=demand, servers=allowed, since=since, count=nodes * count, **common)
        ]

    def _common(self, job: JobRecord) -> dict[str, Any]:
        """Return user, job name and details."""
        number = job.name("job_id")
        user = job.name("user_name", f"uid-{job.entry.get('user_id')}")
        groups = {key: job.name(key, f"(no {key})") for key in ("account", "partition", "qos")}
        by = self.options["user_by"]
        return {
            "user": user if by == "user" else groups[by],
            "job": job.array or number,
            "details": {"job_id": number, **groups},
        }


FORMAT = Format(
    "nodes and jobs of a live Slurm cluster (sinfo --json, squeue --json)",
    _read,
    Signature(
        files=JSON_FILES,
        heads=(
            r"\A\{",
            r'"Slurm"\s*:|openapi|data_parser|"array_job_id"|"accrue_time"'
            r'|"burstbuffer_network_address"|"real_memory"|"tres_req_str"',
            r'"(?:nodes|jobs|sinfo)"\s*:\s*\[|"meta"',
        ),
    ),
    _OPTIONS,
    snapshot=True,
)
