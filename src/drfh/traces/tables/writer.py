"""Writer of tables: a directory that reads back without loss."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from drfh.errors import InputError, UnknownNameError
from drfh.files.atomic import whole_directory, writing_into
from drfh.files.scenario_file import saved_restriction
from drfh.model.cluster import Cluster
from drfh.model.jobs import AddServers, RemoveServers, ResizeServer, ServerEvent, Workload
from drfh.model.users import Restriction, User
from drfh.traces.base import Trace
from drfh.traces.tables import ABOUT, COLUMNS, KINDS, LABEL, NOTE

__all__ = ["write"]


def write(
    trace: Trace, directory: str | os.PathLike[str], *, kind: str = "csv", force: bool = False
) -> None:
    """Write a trace as a directory of tables, atomically.

    Parameters
    ----------
    trace
        What to write.
    directory
        Where: a new or empty one.
    kind
        ``csv``, or ``parquet`` (compressed with zstd).
    force
        Whether to replace a directory of tables that is there.
    """
    if kind not in KINDS:
        raise UnknownNameError("kind", str(kind), KINDS)
    workload = trace.workload
    tables = {
        "servers": _servers(trace.cluster),
        "users": _users(workload.users),
        "jobs": _jobs(workload, trace.details),
        "events": _events(workload.events),
    }
    with whole_directory(directory, ABOUT, force=force) as draft, writing_into(directory):
        for name, table in tables.items():
            if table is not None:
                _save(table, draft / f"{name}.{kind}", kind)
        text = json.dumps(_about(trace), indent=2, ensure_ascii=False)
        (draft / ABOUT).write_text(text + "\n", encoding="utf-8")


def _save(table: pl.DataFrame, path: Path, kind: str) -> None:
    if kind == "csv":
        table.write_csv(path)
    else:
        table.write_parquet(path, compression="zstd")


def _about(trace: Trace) -> dict[str, Any]:
    return {
        "made_from": {"format": trace.format, "source": trace.source},
        "window": trace.window,
        "options": {name: _plain(value) for name, value in trace.options.items()},
        "counts": dict(trace.counts),
        "oddities": [odd.to_dict() for odd in trace.oddities],
        "remarks": list(trace.remarks),
        "notes": {name: _type_name(kind) for name, kind in trace.details.schema.items()},
    }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _type_name(kind: pl.DataType) -> Any:
    if isinstance(kind, pl.Enum):
        return {"Enum": kind.categories.to_list()}
    return str(kind)


def _amounts(table: str, rows: Sequence[Mapping[str, float]]) -> dict[str, list[float | None]]:
    """Return one column a resource; what is not mentioned is empty."""
    names = dict.fromkeys(name for row in rows for name in row)
    for name in names:
        if name in COLUMNS[table] or name.startswith((LABEL, NOTE)):
            raise InputError("resource", f"must not be called as a column of {table} is", name)
    return {name: [row.get(name) for row in rows] for name in names}


def _labels(rows: Sequence[Mapping[str, str]]) -> dict[str, list[str | None]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {LABEL + name: [row.get(name) for row in rows] for name in names}


def _servers(cluster: Cluster) -> pl.DataFrame:
    servers = cluster.servers
    return pl.DataFrame(
        {
            "name": [server.name for server in servers],
            "count": [server.count for server in servers],
            **_amounts("servers", [server.resources for server in servers]),
            **_labels([server.labels for server in servers]),
        }
    )


def _cell(restriction: Restriction | None, field: str) -> str | None:
    """Return a restriction as the text of one cell: a name, else JSON."""
    if restriction is None:
        return None
    saved = saved_restriction(restriction, field)
    if isinstance(saved, str) and not saved.startswith(("[", "{", '"')):
        return saved
    return json.dumps(saved, ensure_ascii=False)


def _users(users: Iterable[User]) -> pl.DataFrame:
    rows = list(users)
    frame = pl.DataFrame(
        {
            "name": [user.name for user in rows],
            "weight": [user.weight for user in rows],
            "parent": pl.Series([user.parent for user in rows], dtype=pl.String),
            "servers": pl.Series(
                [_cell(user.servers, f"servers of {user.name}") for user in rows], dtype=pl.String
            ),
            "tasks": pl.Series([user.tasks for user in rows], dtype=pl.Float64),
            **_amounts("users", [user.demand for user in rows]),
        }
    )
    optional = [name for name, needed in COLUMNS["users"].items() if not needed]
    empty = [name for name in optional if frame[name].is_null().all()]
    return frame.drop(empty)


def _jobs(workload: Workload, details: pl.DataFrame) -> pl.DataFrame:
    batches = len(workload.batch_user)
    cells = [_cell(terms, "servers of a job") for terms in workload.restrictions]
    columns: dict[str, Any] = {
        "user": pl.Series([user.name for user in workload.users])[workload.batch_user],
        "job": pl.Series(workload.job_names, dtype=pl.String)[workload.batch_job],
        "arrival": workload.batch_arrival,
        "duration": _durations(workload),
    }
    if (workload.batch_count != 1).any():
        columns["tasks"] = workload.batch_count
    _amounts("jobs", [dict.fromkeys(workload.resources, 0.0)])  # names that no column may have
    demand = workload.demand[workload.batch_shape]
    for position, resource in enumerate(workload.resources):
        columns[resource] = demand[:, position]
    if len(cells) > 1:
        which = workload.restriction[workload.batch_shape]
        columns["servers"] = pl.Series(cells, dtype=pl.String)[which]
    frame = pl.DataFrame(columns)
    if len(details) not in (0, batches):
        raise InputError("details", f"must have {batches:,} rows", len(details))
    return frame.hstack([details[name].alias(NOTE + name) for name in details.columns])


def _durations(workload: Workload) -> pl.Series:
    """Return a number for each batch; a text of several where its tasks differ."""
    seconds, first = workload.duration, workload.batch_first
    lead = seconds[first] if len(first) else seconds[:0]
    same = np.repeat(lead, workload.batch_count) == seconds
    if same.all():
        return pl.Series(lead)
    mixed = set(np.repeat(np.arange(len(first)), workload.batch_count)[~same].tolist())
    texts = []
    for batch, begin in enumerate(first.tolist()):
        end = begin + int(workload.batch_count[batch]) if batch in mixed else begin + 1
        texts.append(" ".join(map(repr, seconds[begin:end].tolist())))
    return pl.Series(texts)


def _events(events: Sequence[ServerEvent]) -> pl.DataFrame | None:
    if not events:
        return None
    servers = [event.server if isinstance(event, AddServers) else None for event in events]
    resources: list[Mapping[str, float]] = [_amounts_of(event) for event in events]
    kinds = {AddServers: "add", RemoveServers: "remove", ResizeServer: "resize"}
    return pl.DataFrame(
        {
            "time": [event.time for event in events],
            "event": [kinds[type(event)] for event in events],
            "name": [e.server.name if isinstance(e, AddServers) else e.name for e in events],
            "count": pl.Series(
                [None if server is None else server.count for server in servers], dtype=pl.Int64
            ),
            **_amounts("events", resources),
            **_labels([{} if server is None else server.labels for server in servers]),
        }
    )


def _amounts_of(event: ServerEvent) -> Mapping[str, float]:
    if isinstance(event, AddServers):
        return event.server.resources
    return event.resources if isinstance(event, ResizeServer) else {}
