"""Reader of tables: ``servers``, ``jobs``, ``users`` and ``events``, CSV or Parquet."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from drfh.errors import InputError, UnknownNameError
from drfh.files.reader import Ledger, Progress, unpacked
from drfh.model.cluster import Cluster, Server
from drfh.model.jobs import AddServers, RemoveServers, ResizeServer, ServerEvent
from drfh.model.resources import parse_quantity
from drfh.model.users import User, parse_restriction
from drfh.traces.base import SAMPLING, WINDOW, Format, Signature, TraceReading
from drfh.traces.build import build, keep_sample, keep_window
from drfh.traces.rows import LINE, header_of, parse_rows, refuse
from drfh.traces.tables import ABOUT, COLUMNS, KINDS, LABEL, NOTE

__all__ = ["FORMAT", "read_servers"]


_LONGEST_NAME = 100
_TYPES = {"arrival": pl.Float64, "count": pl.Int64, "time": pl.Float64, "weight": pl.Float64}


def _find_table(folder: Path, table: str) -> Path | None:
    found = [path for kind in KINDS if (path := folder / f"{table}.{kind}").is_file()]
    if len(found) > 1:
        rule = f"must have one of {table}.csv and {table}.parquet, not both"
        raise InputError("path", rule, str(folder))
    return found[0] if found else None


def _needed_table(folder: Path, table: str) -> Path:
    found = _find_table(folder, table)
    if found is None:
        raise InputError("path", f"must have a {table}.csv or {table}.parquet in it", str(folder))
    return found


def _read_table(
    path: Path, table: str, ledger: Ledger, known: Iterable[str] | None
) -> tuple[pl.DataFrame, list[str], str]:
    """Return the rows of one file, its resource columns and its name.

    `known` are the resources that there are; None if this file says so itself.
    """
    own = COLUMNS[table]
    frame = _parquet(path) if path.suffix == ".parquet" else None
    data = b"" if frame is not None else unpacked(path, ledger)
    names = header_of(data) if frame is None else frame.columns
    prefix = NOTE if table == "jobs" else LABEL
    resources = [name for name in names if name not in own and not name.startswith(prefix)]
    place = path.name
    for name in names:
        if not name or len(name) > _LONGEST_NAME:
            rule = f"must have a name of 1 to {_LONGEST_NAME} characters"
            raise InputError("column", rule, name, place=f"{place}, line 1")
    for name in resources:
        if known is not None and name not in known:
            allowed = {*own, *(known or ())}
            raise UnknownNameError("column", name, allowed, place=f"{place}, line 1")
    for name, needed in own.items():
        if needed and name not in names:
            rule = f"must be among the columns (found: {', '.join(names)[:200]})"
            raise InputError(name, rule, place=f"{place}, line 1")
    required = [name for name, needed in own.items() if needed]
    if frame is None:
        kinds = {name: _TYPES.get(name, pl.String) for name in dict.fromkeys([*own, *names])}
        frame = parse_rows(data, kinds, ledger, place, header=True, required=required)
    else:
        frame = frame.with_row_index(LINE, offset=1)
        missing = [name for name in own if name not in names]
        frame = frame.with_columns(pl.lit(None, pl.String).alias(name) for name in missing)
        for name in required:
            frame = refuse(frame, pl.col(name).is_null(), name, "must be given", ledger, place)
    for resource in resources:
        frame = _quantities(frame, resource, ledger, place)
    return frame, resources, place


def _parquet(path: Path) -> pl.DataFrame:
    try:
        return pl.read_parquet(path)
    except Exception as error:  # polars has many; a damaged file may raise any of them
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise InputError("the file", f"must be Parquet ({reason})", place=str(path)) from None


def _quantities(frame: pl.DataFrame, name: str, ledger: Ledger, place: str) -> pl.DataFrame:
    """Read a column of amounts: numbers, or text such as 16Gi. Empty stays empty."""
    column = frame[name]
    if column.dtype.is_numeric():
        typed = column.cast(pl.Float64)
    elif column.dtype == pl.String or column.dtype == pl.Null:
        typed = column.cast(pl.String).cast(pl.Float64, strict=False)
        odd = column.filter(typed.is_null() & column.is_not_null()).unique().to_list()
        read = {text: _quantity(text) for text in odd}
        if read:
            spelt = column.replace_strict(read, default=None, return_dtype=pl.Float64)
            typed = typed.fill_null(spelt)
    else:
        rule = "must be a column of amounts"
        raise InputError(name, rule, str(column.dtype), place=place)
    bad = (column.is_not_null() & typed.is_null()) | ~(typed.is_finite() & (typed >= 0))
    rule = "must be a finite number ≥ 0, such as 4, 0.5, '500m' or '16Gi'"
    frame = frame.with_columns(bad.fill_null(False).alias("_bad"), typed.alias("_typed"))
    frame = refuse(frame, pl.col("_bad"), name, rule, ledger, place)
    return frame.with_columns(pl.col("_typed").alias(name)).drop("_bad", "_typed")


def _quantity(text: str) -> float | None:
    try:
        return parse_quantity(text)
    except InputError:
        return None


_PLAIN = (
    *(pl.Int8(), pl.Int16(), pl.Int32(), pl.Int64(), pl.UInt8(), pl.UInt32(), pl.UInt64()),
    *(pl.Float32(), pl.Float64(), pl.Boolean()),
)
_SECONDS = "must be a number of seconds ≥ 0"


def _read(
    paths: tuple[Path, ...], options: Mapping[str, Any], ledger: Ledger, progress: Progress | None
) -> TraceReading:
    if len(paths) != 1 or not paths[0].is_dir():
        rule = "must be one directory, with servers and jobs in it (CSV or Parquet)"
        raise InputError("path", rule, ", ".join(map(str, paths)))
    folder = paths[0]
    about = _about(folder / ABOUT)
    cluster = read_servers(_needed_table(folder, "servers"), ledger)
    events = _events(_find_table(folder, "events"), ledger)
    known = {*cluster.resources, *(r for event in events for r in _resources(event))}
    users = _users(_find_table(folder, "users"), known, ledger)
    jobs, resources, place = _read_table(_needed_table(folder, "jobs"), "jobs", ledger, known)
    ledger.count("rows of jobs", len(jobs))
    batches, restrictions = _batches(jobs, resources, ledger, place)
    batches = keep_sample(keep_window(batches, options), options)
    ledger.leave_out("rows of jobs", "not in the window or sample", len(jobs) - len(batches))
    begin = options["start"] * 3600.0
    if options["users"] is not None:
        named = set(batches["user"].to_list())
        users = [user for user in users if user.name in named]
    workload, details = build(
        batches,
        resources,
        users=users,
        restrictions=restrictions,
        events=[_moved(event, begin) for event in events] if begin else events,
    )
    details = _typed(details.rename(lambda name: name.removeprefix(NOTE)), about.get("notes"))
    return TraceReading(cluster, workload, details, window=_window(about.get("window"), options))


def _window(length: Any, options: Mapping[str, Any]) -> float | None:
    """Return the length of the window, from the options or from what the directory says."""
    hours: float | None = options["hours"]
    rest = None
    if isinstance(length, (int, float)) and not isinstance(length, bool) and 0 < length < math.inf:
        rest = max(float(length) - options["start"] * 3600.0, 0.0)
    if hours is None:
        return rest
    return hours * 3600.0 if rest is None else min(rest, hours * 3600.0)


def _moved(event: ServerEvent, begin: float) -> ServerEvent:
    """Return an event with a later start of time; what was before it happens at its start."""
    time = max(event.time - begin, 0.0)
    if isinstance(event, AddServers):
        return AddServers(time, event.server)
    if isinstance(event, RemoveServers):
        return RemoveServers(time, event.name)
    return ResizeServer(time, event.name, event.resources)


def _about(path: Path) -> dict[str, Any]:
    """Return what the directory says of itself; nothing if it does not."""
    if not path.is_file():
        return {}
    try:
        about = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError("the file", f"must be JSON ({error})", place=str(path)) from None
    if not isinstance(about, dict):
        raise InputError("the file", "must be a JSON object", place=str(path))
    return about


def read_servers(path: Path, ledger: Ledger) -> Cluster:
    """Read a table of servers: name, count, one column a resource, ``label.X``.

    Parameters
    ----------
    path
        A CSV or Parquet file.
    ledger
        Where broken rows are counted.
    """
    frame, resources, place = _read_table(path, "servers", ledger, None)
    if not resources:
        raise InputError("columns", "must have one for each resource", place=f"{place}, line 1")
    servers: dict[str, Server] = {}

    def add(row: dict[str, Any]) -> None:
        server = _server(row, resources, f"server-{len(servers) + 1}")
        if str(server.name) in servers:
            raise InputError("name", "must be unique", server.name)
        servers[str(server.name)] = server

    _each(frame, add, ledger, place)
    if not servers:
        raise InputError("servers", "must have at least one server", place=place)
    return Cluster(servers.values())


def _server(row: Mapping[str, Any], resources: Iterable[str], name: str | None) -> Server:
    return Server(
        {resource: row[resource] for resource in resources if row[resource] is not None},
        name=_text(row["name"]) or name,
        count=1 if row["count"] is None else _whole(row["count"], "count"),
        labels={
            key.removeprefix(LABEL): value
            for key, value in row.items()
            if key.startswith(LABEL) and value is not None
        },
    )


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _whole(value: Any, field: str) -> int:
    if isinstance(value, bool) or int(value) != value:
        raise InputError(field, "must be a whole number ≥ 1", value)
    return int(value)


def _each(
    frame: pl.DataFrame, take: Callable[[dict[str, Any]], None], ledger: Ledger, place: str
) -> None:
    """Give every row to `take`; what it refuses is counted."""
    for row in frame.iter_rows(named=True):
        try:
            take(row)
        except InputError as error:
            error.place = f"{place}, line {row[LINE]}"
            ledger.broken(error)


def _users(path: Path | None, known: Iterable[str], ledger: Ledger) -> list[User]:
    if path is None:
        return []
    frame, resources, place = _read_table(path, "users", ledger, known)
    users: dict[str, User] = {}

    def add(row: dict[str, Any]) -> None:
        demand = {r: row[r] for r in resources if row[r] is not None}
        user = User(
            str(row["name"]),
            demand or None,
            weight=1.0 if row["weight"] is None else row["weight"],
            tasks=row["tasks"],
            servers=_restriction(row["servers"]),
            parent=_text(row["parent"]),
        )
        if users.setdefault(user.name, user) is not user:
            raise InputError("name", "must be unique", user.name)

    _each(frame, add, ledger, place)
    return list(users.values())


def _restriction(cell: Any) -> Any:
    """Read a restriction: a name, or JSON."""
    text = _text(cell)
    if text is None or not text.startswith(("[", "{", '"')):
        return text
    try:
        terms = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError("servers", "must be a name, or JSON", text) from None
    return parse_restriction(terms)


def _events(path: Path | None, ledger: Ledger) -> list[ServerEvent]:
    if path is None:
        return []
    frame, resources, place = _read_table(path, "events", ledger, None)
    events: list[ServerEvent] = []

    def add(row: dict[str, Any]) -> None:
        kind, time, name = row["event"], row["time"], str(row["name"])
        amounts = {r: row[r] for r in resources if row[r] is not None}
        if kind == "add":
            events.append(AddServers(time, _server(row, resources, None)))
        elif kind == "remove":
            events.append(RemoveServers(time, name))
        elif kind == "resize":
            events.append(ResizeServer(time, name, amounts))
        else:
            raise UnknownNameError("event", str(kind), ("add", "remove", "resize"))

    _each(frame, add, ledger, place)
    return events


def _resources(event: ServerEvent) -> Iterable[str]:
    if isinstance(event, AddServers):
        return event.server.resources
    return event.resources if isinstance(event, ResizeServer) else ()


def _batches(
    jobs: pl.DataFrame, resources: list[str], ledger: Ledger, place: str
) -> tuple[pl.DataFrame, list[Any]]:
    """Check the rows of jobs; return them as batches, and the different restrictions."""
    if not resources:
        raise InputError("columns", "must have one for each resource", place=f"{place}, line 1")
    frame = jobs.with_columns(
        pl.col("user", "job").cast(pl.String),
        pl.col("arrival").cast(pl.Float64).fill_null(0.0),
        pl.col("tasks").cast(pl.Int64, strict=False).alias("_tasks"),
        *(pl.col(resource).fill_null(0.0) for resource in resources),
    )
    asks = pl.max_horizontal(resources) > 0
    named = (pl.col("user").str.strip_chars() == pl.col("user")) & (pl.col("user") != "")
    called = (pl.col("job").str.strip_chars() == pl.col("job")) & (pl.col("job") != "")
    time = pl.col("arrival").is_finite() & (pl.col("arrival") >= 0)
    count = pl.col("_tasks").is_between(1, 2**53) | pl.col("tasks").is_null()
    spaces = "must be text without spaces around it"
    for field, wrong, rule in (
        ("user", ~named, spaces),
        ("job", ~called, spaces),
        ("arrival", ~time, _SECONDS),
        ("tasks", ~count.fill_null(False), "must be a whole number ≥ 1"),
        (resources[0], ~asks, "or another amount must be > 0"),
    ):
        frame = refuse(frame, wrong, field, rule, ledger, place)
    frame = frame.with_columns(pl.col("_tasks").alias("tasks")).drop("_tasks")
    frame = _durations(frame, ledger, place).with_columns(pl.col("tasks").fill_null(1))
    frame = _named_jobs(frame)
    owner = frame.group_by("job").agg(pl.col("user").first().alias("_owner"))
    frame = frame.join(owner, on="job", how="left", maintain_order="left")
    rule = "must be that of the job's other rows"
    frame = refuse(frame, pl.col("user") != pl.col("_owner"), "user", rule, ledger, place)
    number, restrictions = {None: 0}, [None]
    for text in frame["servers"].cast(pl.String).unique(maintain_order=True).drop_nulls().to_list():
        try:
            restrictions.append(_restriction(text))
            number[text] = len(number)
        except InputError as error:
            wrong = pl.col("servers") == text
            rule = error.rule
            frame = refuse(frame, wrong, "servers", rule, ledger, place)
    which = frame["servers"].cast(pl.String).replace_strict(number, return_dtype=pl.Int64)
    return frame.with_columns(which.alias("restriction")).drop("servers", "_owner", LINE), (
        restrictions
    )


def _durations(frame: pl.DataFrame, ledger: Ledger, place: str) -> pl.DataFrame:
    """Read how long tasks run: a number, or a text of one for each task."""
    column = frame["duration"]
    if column.dtype.is_numeric():
        seconds = column.cast(pl.Float64)
    else:
        seconds = column.cast(pl.String).str.strip_chars().cast(pl.Float64, strict=False)
    if seconds.null_count():  # some cells have several numbers
        counts = frame["tasks"].to_list()
        cells = zip(column.cast(pl.String).to_list(), seconds.to_list(), counts, strict=True)
        lists = [_listed(text, single, tasks) for text, single, tasks in cells]
        seconds = pl.Series(lists, dtype=pl.List(pl.Float64))
        fine = seconds.is_not_null()
    else:
        fine = (seconds >= 0).fill_null(False)
    frame = frame.with_columns(seconds.alias("_seconds"), fine.alias("_fine"))
    rule = "must be a number of seconds ≥ 0, or one for each task, separated by spaces"
    frame = refuse(frame, ~pl.col("_fine"), "duration", rule, ledger, place)
    return frame.with_columns(pl.col("_seconds").alias("duration")).drop("_seconds", "_fine")


def _listed(text: str, single: float | None, tasks: int | None) -> list[float] | None:
    """Return one number for each task; None if that is not what the cell says."""
    try:
        numbers = [float(number) for number in text.split()] if single is None else [single]
    except ValueError:
        return None
    if single is not None:
        numbers *= tasks or 1
    fits = tasks is None or len(numbers) == tasks
    return numbers if numbers and fits and all(number >= 0 for number in numbers) else None


def _named_jobs(frame: pl.DataFrame) -> pl.DataFrame:
    """Call jobs without a name after their line."""
    if not frame["job"].null_count():
        return frame
    taken = set(frame["job"].drop_nulls().to_list())
    names = []
    for name, line in frame.select("job", LINE).iter_rows():
        given = name
        if given is None:
            given = f"job-{line}"
            while given in taken:
                given += "-2"
        names.append(given)
    return frame.with_columns(pl.Series("job", names))


def _typed(details: pl.DataFrame, types: Any) -> pl.DataFrame:
    """Give details the types that they had when they were written."""
    if not isinstance(types, Mapping):
        return details
    for name in details.columns:
        kind = _type(types.get(name))
        if kind is None:
            continue
        text = details[name]
        try:
            if kind == pl.Boolean and text.dtype == pl.String:
                typed = text == "true"
            else:
                typed = text.cast(kind)
        except pl.exceptions.PolarsError:  # somebody changed the file
            continue
        details = details.with_columns(typed.alias(name))
    return details


def _type(name: Any) -> Any:
    """Return a polars type by its name; None if it is not a plain one."""
    if isinstance(name, Mapping) and isinstance(name.get("Enum"), list):
        values = name["Enum"]
        return pl.Enum(values) if all(isinstance(value, str) for value in values) else None
    return next((kind for kind in _PLAIN if str(kind) == name), None)


FORMAT = Format(
    title="Our own tables: servers, jobs, users, events (CSV or Parquet)",
    read=_read,
    signature=Signature(folders=tuple((f"jobs.{kind}", f"servers.{kind}") for kind in KINDS)),
    options=(*WINDOW, *SAMPLING),
)
