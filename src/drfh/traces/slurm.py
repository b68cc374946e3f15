"""Format ``slurm``: what ``sinfo --json`` and ``squeue --json`` say of a live cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drfh.errors import InputError
from drfh.files.ledger import Ledger, Progress
from drfh.traces.base import Format, Option, TraceReading
from drfh.traces.snapshot import HELD, closing_option, snapshot
from drfh.wire.documents import documents, head_text, items_of, json_files, nothing_of
from drfh.wire.slurm import Node, SlurmJobs, take_nodes

__all__ = ["FORMAT"]

_OPTIONS = (
    Option(
        "user_by",
        "Who the users are.",
        "choice",
        "user",
        ("user", "account", "partition", "qos"),
    ),
    closing_option("draining", "Nodes that drain, fail or are under maintenance"),
    HELD,
)
_LISTS = re.compile(r'"(?:nodes|jobs|sinfo)"\s*:\s*\[')
_SLURM = re.compile(
    r'"Slurm"\s*:|openapi|data_parser|"array_job_id"|"accrue_time"|"burstbuffer_network_address"'
    r'|"real_memory"|"tres_req_str"'
)
_CANNOT = (
    "a snapshot has no run times: every task runs on for ever, and all are there from the start",
    "a snapshot does not tell weights, shares, limits or priorities: all users count the same",
    "a job on several nodes is one task for each node: tasks that must start together are not told",
)


def _recognises(paths: tuple[Path, ...]) -> bool:
    for path in json_files(paths):
        head = head_text(path)
        if _SLURM.search(head) and (_LISTS.search(head) or '"meta"' in head):
            return True
    return False


def _read(
    paths: tuple[Path, ...], options: Mapping[str, Any], ledger: Ledger, progress: Progress | None
) -> TraceReading:
    nodes: dict[str, Node] = {}
    jobs: dict[str, tuple[str, Mapping[str, Any]]] = {}
    other = 0
    for place, value in documents(paths, ledger, progress):
        known = False
        if not isinstance(value, dict):
            raise InputError("the file", "must be what sinfo --json prints", value, place=place)
        for key in ("nodes", "sinfo"):
            if key in value:
                known = True
                for where, entry in items_of(value, key, place):
                    take_nodes(entry, key, where, nodes, ledger)
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
    partitions: dict[str, set[str]] = {}
    for name, node in nodes.items():
        for partition in node.partitions:
            partitions.setdefault(partition, set()).add(name)
    features = {name: node.features for name, node in nodes.items()}
    reader = SlurmJobs(options, ledger, partitions, features)
    tasks = list(reader.read(jobs))
    for remark in _CANNOT:
        ledger.remark(remark)
    return snapshot(
        [node.labelled() for node in nodes.values()],
        tasks,
        ledger,
        words=("nodes", "tasks"),
        closing=options["draining"],
    )


FORMAT = Format(
    "nodes and jobs of a live Slurm cluster (sinfo --json, squeue --json)",
    _read,
    _recognises,
    _OPTIONS,
    snapshot=True,
)
