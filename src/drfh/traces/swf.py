"""Format ``swf``: the Standard Workload Format of the Parallel Workloads Archive.

S. J. Chapin et al., *Benchmarks and Standards for the Evaluation of Parallel Job Schedulers*, JSSPP
1999; version 2.2. One line for each job: 18 numbers, −1 where something is not known; comments
begin with ``;``, and the first of them describe the machine (``; MaxNodes: 128``).

- A job of N processors becomes N tasks of one cpu each, or one task of N cpus (``tasks``). Tasks of
  a job may start at different times: that they must start together is not modelled.
- Lines may have more than 18 fields, as some sites add their own: those are not read. Submit times
  count from the start of the log; where they are dates (seconds since 1970), from the first one.
- A job arrives at its submit time and runs for its run time. A run time of 0 means less than half a
  second; such jobs are kept. Jobs without a run time or without processors, and those cancelled
  before they ran, are left out. Failed and cancelled jobs held their processors, so they are kept
  unless asked otherwise.
- A job that was checkpointed or swapped has a line of its own and one for each part that ran
  (status 2, 3, 4): the lines of parts are left out, as the job's own has it all.
- Memory is in kilobytes of 1,024 bytes for each processor, or in bytes where that is plain: many
  jobs would fit no node, and most would need many times what a node has for a processor. It is
  left out if nothing says how much the machine has.
- The machine is what a table of nodes says (``machine``: CSV with ``name,count,cpu,memory``, a row
  for each kind of node), else what the header does. If the nodes have a label ``partition``, jobs
  run on those of their own partition only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from drfh.errors import InputError
from drfh.files.reader import Ledger, Progress, as_paths, read_head, unpacked
from drfh.formatting import format_count, plural
from drfh.model.cluster import Cluster, Server
from drfh.model.users import Restriction
from drfh.traces.base import SAMPLING, WINDOW, Format, Option, Signature, TraceReading
from drfh.traces.build import build, keep_sample, keep_window
from drfh.traces.rows import LINE, header_of, refuse
from drfh.traces.tables.reader import read_servers

__all__ = ["FORMAT", "machine_of_header", "read_machine"]


_MOST_NODES = 10_000_000


def read_machine(path: str) -> Cluster:
    """Read a table of nodes as ``servers`` of the format ``tables`` is: a row for each kind.

    Parameters
    ----------
    path
        A CSV file (plain or gzip) or a Parquet file. Any column but ``name``, ``count`` and
        ``label.…`` is a resource; ``memory`` is in bytes and may be written ``16Gi``.

    Raises
    ------
    InputError
        At the first row that is wrong: a machine of which a part is missing is of no use.
    """
    try:
        (found,) = as_paths(path)
        _check_table(found)
        cluster = read_servers(found, Ledger(strict=True))
    except InputError as error:
        raise error.with_root({"path": "machine", "servers": "machine"}) from None
    if "cpu" not in cluster.resources:
        rule = f"must be among the columns (found: {', '.join(cluster.resources)[:200]})"
        raise InputError("cpu", rule, place=f"{found.name}, line 1")
    if cluster.size > _MOST_NODES:
        rule = f"must have at most {_MOST_NODES:,} nodes"
        raise InputError("machine", rule, cluster.size, place=found.name)
    return cluster


def _check_table(path: Path) -> None:
    """Raise if the first line of a file cannot be the header of a table of nodes."""
    if path.suffix == ".parquet":
        return
    first = read_head(path).partition(b"\n")[0]
    names = header_of(first)
    if "cpu" in names or not any(names):
        return
    if len(names) == 1 or any(_is_number(name) for name in names):
        rule = (
            "must be a table of nodes, separated by commas, with a header such as "
            "name,count,cpu,memory"
        )
        text = first.decode("utf-8", "replace").strip()
        raise InputError("machine", rule, text, place=f"{path.name}, line 1")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def machine_of_header(header: Mapping[str, str], ledger: Ledger, place: str | Path) -> Cluster:
    """Return the machine of a log's header, as equal nodes.

    Parameters
    ----------
    header
        ``MaxNodes``, ``MaxProcs``, and ``MaxMemory``: kilobytes of one processor.
    ledger
        Where assumptions are remarked.
    place
        What to call the log.

    Examples
    --------
    >>> machine_of_header({"MaxNodes": "4", "MaxProcs": "10"}, Ledger(), "a.swf").servers
    (Server({'cpu': 3.0}, name='node-of-3', count=2), Server({'cpu': 2.0}, name='node-of-2', \
count=2))
    """
    nodes, processors = (_number(header.get(key, "")) for key in ("MaxNodes", "MaxProcs"))
    if nodes is None and processors is None:
        rule = "must be given (a CSV file): the header says neither MaxNodes nor MaxProcs"
        raise InputError("machine", rule, place=str(place))
    for key, number in (("MaxNodes", nodes), ("MaxProcs", processors)):
        if number is not None and number > _MOST_NODES:
            raise InputError(key, f"must be at most {_MOST_NODES:,}", number, place=str(place))
    if nodes is None:
        nodes = 1
        ledger.remark(
            "The header says MaxProcs only: all processors are on one server (machine=FILE says "
            "otherwise)."
        )
    processors = max(nodes, processors or 0)
    small, larger = divmod(processors, nodes)
    memory = _number(header.get("MaxMemory", ""))
    if memory is not None:
        ledger.remark("MaxMemory of the header is taken for the memory of one processor.")
    groups = {small + 1: larger, small: nodes - larger}
    return Cluster(
        Server(
            {"cpu": cpus} | ({} if memory is None else {"memory": cpus * memory * 1024}),
            name=f"node-of-{cpus}" if larger else "node",
            count=count,
        )
        for cpus, count in groups.items()
        if count
    )


def _number(text: str) -> int | None:
    """Return the number that a value begins with, as in ``128 (64 thin, 64 wide)``."""
    parts = text.split()
    digits = parts[0].replace(",", "") if parts else ""
    if not (digits.isascii() and digits.isdigit() and len(digits) < 16) or int(digits) == 0:
        return None
    return int(digits)


#: The fields of a line, in order; those marked are whole numbers.
_FIELDS = {
    "job": True,
    "submit": False,
    "wait": False,
    "run": False,
    "allocated": True,
    "cpu_time": False,
    "used_memory": False,
    "requested": True,
    "requested_time": False,
    "requested_memory": False,
    "status": True,
    "user": True,
    "group": True,
    "executable": True,
    "queue": True,
    "partition": True,
    "preceding": True,
    "think": False,
}
_LARGEST = 2.0**53
_DATE = 5e8  # a submit time from here on is a date: no log is 15 years long
_LAST_DATE = 1e11
_KILOBYTE = 1024
_SOME = 0.1  # a part of the jobs that is no accident
_HALF_WAY = 32  # times the memory of a processor: between kilobytes and bytes
_MOST_PROCESSORS = 10_000_000
_MOST_TASKS = 100_000_000
_FAILED, _COMPLETED, _CANCELLED = 0, 1, 5
_PARTS = (2, 3, 4)
_STATUS = {_COMPLETED: "completed", _FAILED: "failed", _CANCELLED: "cancelled"}
_COMMENT = re.compile(r";+\s*([A-Za-z]+)\s*:\s*(.*)")
_KEYS = ("Version", "Computer", "Installation", "MaxJobs", "MaxNodes", "MaxProcs", "UnixStartTime")

_OPTIONS = (
    *WINDOW,
    *SAMPLING,
    Option("machine", "A CSV file with the nodes; by default what the header says.", "text"),
    Option(
        "user_by",
        "Who is a user: the user, group, executable, queue or partition of a job.",
        "choice",
        "user",
        ("user", "group", "executable", "queue", "partition"),
    ),
    Option(
        "tasks",
        "What a job of N processors becomes: processors (N tasks of one cpu) or one (a task of N "
        "cpus, which must fit one server).",
        "choice",
        "processors",
        ("processors", "one"),
    ),
    Option(
        "processors",
        "How many a job has: requested or allocated; where one is not known, the other.",
        "choice",
        "requested",
        ("requested", "allocated"),
    ),
    Option(
        "memory",
        "How much a job needs: requested, used, or none (leave it out).",
        "choice",
        "requested",
        ("requested", "used", "none"),
    ),
    Option(
        "memory_unit",
        "What memory is in: kilobytes, as the format says, or bytes; by default kilobytes, unless "
        "the nodes show that it is bytes.",
        "choice",
        None,
        ("kilobytes", "bytes"),
    ),
    Option("failed", "Jobs that failed: keep or drop.", "choice", "keep", ("keep", "drop")),
    Option(
        "cancelled",
        "Jobs that were cancelled while they ran: keep or drop.",
        "choice",
        "keep",
        ("keep", "drop"),
    ),
)


def _read(
    paths: tuple[Path, ...], options: Mapping[str, Any], ledger: Ledger, progress: Progress | None
) -> TraceReading:
    if len(paths) != 1:
        raise InputError("path", "must be one file", ", ".join(map(str, paths)))
    path = paths[0]
    lines = unpacked(path, ledger).decode("utf-8", "replace").split("\n")
    header = _header(lines)
    if options["machine"] is None:
        cluster = machine_of_header(header, ledger, path.name)
    else:
        cluster = read_machine(options["machine"])
    if progress is not None:
        progress("lines", 0, len(lines))
    jobs = _that_ran(_parsed(lines, ledger, path.name), options, ledger)
    if progress is not None:
        progress("lines", len(lines), len(lines))
    batches, restrictions, resources = _batches(jobs, cluster, options, ledger)
    ends = batches["arrival"] + batches["wait"].clip(0) + batches["duration"]
    inside = keep_window(batches, options)
    ledger.leave_out("jobs", "not submitted in the window", len(batches) - len(inside))
    kept = keep_sample(inside, options)
    ledger.leave_out("jobs", "not in the sample", len(inside) - len(kept))
    ledger.count("jobs kept", len(kept))
    if float(kept["tasks"].sum()) > _MOST_TASKS:
        rule = f"must be one: processors would be more than {_MOST_TASKS:,} tasks"
        raise InputError("tasks", rule, options["tasks"])
    workload, details = build(kept, resources, restrictions=restrictions)
    length = float(ends.max() or 0.0) - options["start"] * 3600  # type: ignore[arg-type]
    if options["hours"] is not None:
        length = min(length, options["hours"] * 3600)
    return TraceReading(cluster, workload, details, window=length)


def _header(lines: Sequence[str]) -> dict[str, str]:
    """Return the header comments, the first of each key."""
    found: dict[str, str] = {}
    for line in lines:
        comment = _COMMENT.match(line) if line.startswith(";") else None
        if comment is not None:
            found.setdefault(comment[1], comment[2].strip())
    return found


def _parsed(lines: Sequence[str], ledger: Ledger, place: str) -> pl.DataFrame:
    """Return the lines of jobs as numbers."""
    frame = pl.DataFrame({"row": pl.Series(lines, dtype=pl.String)}).with_row_index(LINE, offset=1)
    text = pl.col("row").str.strip_chars()
    frame = frame.filter((text != "") & ~text.str.starts_with(";"))
    ledger.count("lines", len(frame))
    frame = frame.with_columns(row=pl.col("row").str.extract_all(r"\S+"))
    frame = frame.with_columns(fields=pl.col("row").list.len())
    rule = f"must be {len(_FIELDS)} numbers"
    frame = refuse(frame, pl.col("fields") < len(_FIELDS), "fields", rule, ledger, place)
    longer = int((frame["fields"] > len(_FIELDS)).sum())
    ledger.count(f"lines with more than {len(_FIELDS)} fields", longer)
    if longer:
        have = f"{format_count(longer, 'line')} {plural(longer, 'has', 'have')}"
        ledger.remark(f"{have} more than {len(_FIELDS)} fields: the rest of them is not read.")
    frame = frame.select(
        LINE, *(pl.col("row").list.get(i, null_on_oob=True).alias(n) for i, n in enumerate(_FIELDS))
    )
    wrong = {name: _not_a_number(name, whole) for name, whole in _FIELDS.items()}
    if frame.select(pl.any_horizontal(*wrong.values()).any()).item():
        for name, whole in _FIELDS.items():
            rule = f"must be a {'whole ' * whole}number"
            frame = refuse(frame, wrong[name], name, rule, ledger, place)
    frame = frame.with_columns(
        pl.col(name).cast(pl.Float64).cast(pl.Int64 if whole else pl.Float64)
        for name, whole in _FIELDS.items()
    )
    frame = frame.filter(~_parts(frame, ledger))
    frame = refuse(frame, pl.col("submit") < 0, "submit", "must be ≥ 0", ledger, place)
    again = ~pl.col("job").is_first_distinct()
    frame = refuse(frame, again, "job", "must be unique", ledger, place)
    frame = _from_first(frame, ledger, place)
    ledger.count("jobs", len(frame))
    backwards = int((frame["submit"].diff() < 0).sum())
    ledger.count("jobs listed after a later one", backwards)
    return frame.sort("submit", maintain_order=True)


def _from_first(frame: pl.DataFrame, ledger: Ledger, place: str) -> pl.DataFrame:
    """Return the jobs with submit times from the first on, if they are dates."""
    middle = frame["submit"].median()
    if not isinstance(middle, float) or middle < _DATE:
        return frame
    rule = "must be a date in seconds since 1970, as those of most jobs are"
    frame = refuse(frame, pl.col("submit") < _DATE, "submit", rule, ledger, place)
    first = float(frame["submit"].min())  # type: ignore[arg-type]
    when = f"{first:,.0f}"
    if first < _LAST_DATE:
        when = f"{datetime.fromtimestamp(first, UTC):%Y-%m-%d %H:%M} UTC"
    ledger.remark(f"Submit times are seconds since 1970; here they count from the first ({when}).")
    return frame.with_columns(pl.col("submit") - first)


def _not_a_number(name: str, whole: bool) -> pl.Expr:
    number = pl.col(name).cast(pl.Float64, strict=False)
    wrong = number.is_null() | ~number.is_between(-_LARGEST, _LARGEST)  # also of NaN
    return wrong | (number != number.floor()) if whole else wrong


def _parts(frame: pl.DataFrame, ledger: Ledger) -> pl.Series:
    """Return which lines are of a part of a job."""
    parts = frame["status"].is_in(_PARTS)
    own = frame["job"].is_in(frame.filter(~parts)["job"].implode())
    ledger.leave_out("lines", "a part of a job that has its own line", int((parts & own).sum()))
    ledger.leave_out("lines", "a part of a job without one", int((parts & ~own).sum()))
    return parts


def _that_ran(jobs: pl.DataFrame, options: Mapping[str, Any], ledger: Ledger) -> pl.DataFrame:
    """Return the jobs with a running time and with processors; ``processors`` is new."""
    for status, name in _STATUS.items():
        ledger.count(f"jobs {name}", int((jobs["status"] == status).sum()))
    other = ~jobs["status"].is_in(list(_STATUS))
    ledger.count("jobs of which it is not known how they ended", int(other.sum()))
    chosen = options["processors"]
    second = "allocated" if chosen == "requested" else "requested"
    known = pl.col(chosen) > 0
    jobs = jobs.with_columns(processors=pl.when(known).then(chosen).otherwise(second))
    ledger.count(f"jobs with {second} processors, as {chosen} are not known",
                 int(((jobs[chosen] <= 0) & (jobs[second] > 0)).sum()))  # fmt: skip
    never = (pl.col("run") < 0) | ((pl.col("run") == 0) & (pl.col("status") == _CANCELLED))
    too_many = pl.col("processors") > _MOST_PROCESSORS
    reasons = [
        ("never ran", never, ""),
        ("no processors", pl.col("processors") <= 0, ""),
        (f"more than {_MOST_PROCESSORS:,} processors", too_many, ""),
    ]
    for status in (_FAILED, _CANCELLED):
        name = _STATUS[status]
        if options[name] == "drop":
            reasons.append((name, pl.col("status") == status, f"{name}=keep"))
    for reason, wrong, option in reasons:
        kept = jobs.filter(~wrong)
        ledger.leave_out("jobs", reason, len(jobs) - len(kept), option)
        jobs = kept
    ledger.count("jobs that ran 0 s", int((jobs["run"] == 0).sum()))
    follow = int((jobs["preceding"] > 0).sum())
    if follow:
        ledger.remark(f"{follow:,} jobs wait for another one in the log; here they do not.")
    return jobs


def _batches(
    jobs: pl.DataFrame, cluster: Cluster, options: Mapping[str, Any], ledger: Ledger
) -> tuple[pl.DataFrame, list[Restriction | None], list[str]]:
    """Return the table of batches, the restrictions, and the names of resources."""
    single = options["tasks"] == "one"
    factor = pl.col("processors") if single else pl.lit(1)
    resources = {"cpu": factor.cast(pl.Float64)}
    memory = _memory(jobs, cluster, options, ledger)
    if memory is not None:
        resources["memory"] = memory * factor
    if single:
        _count_too_wide(jobs["processors"], cluster, ledger)
    by = options["user_by"]
    ledger.count(f"jobs of which the {by} is not known", int((jobs[by] < 0).sum()))
    owner = pl.when(pl.col(by) < 0).then(pl.lit("unknown")).otherwise(pl.col(by).cast(pl.String))
    if not single and int((jobs["processors"] > 1).sum()):
        ledger.remark(
            "The tasks of a parallel job may start at different times (tasks=one makes it one)."
        )
    restriction, restrictions = _restrictions(jobs["partition"], cluster, ledger)
    batches = jobs.select(
        user=pl.lit(f"{by}-") + owner,
        job="job",
        arrival="submit",
        duration="run",
        tasks=pl.lit(1) if single else pl.col("processors"),
        restriction=restriction,
        **resources,
        **{name: pl.col(name) for name in ("wait", "status", "processors", "requested_time")},
        **{name: pl.col(name) for name in ("group", "executable", "queue", "partition")},
    )
    return batches, restrictions, list(resources)


def _count_too_wide(processors: pl.Series, cluster: Cluster, ledger: Ledger) -> None:
    most = cluster.capacity[:, cluster.resources.index("cpu")].max()
    wide = int((processors > most).sum())
    ledger.count("jobs that need more processors than any node has", wide)
    if wide:
        who = f"{format_count(wide, 'job')} {plural(wide, 'needs', 'need')}"
        ledger.remark(
            f"{who} more processors than any node has, and never {plural(wide, 'runs', 'run')} "
            "(tasks=processors spreads a job over nodes)."
        )


def _memory(
    jobs: pl.DataFrame, cluster: Cluster, options: Mapping[str, Any], ledger: Ledger
) -> pl.Expr | None:
    """Return bytes of one processor, or None to leave memory out."""
    which = options["memory"]
    if which == "none":
        return None
    known = {name: int((jobs[f"{name}_memory"] > 0).sum()) for name in ("requested", "used")}
    if "memory" not in cluster.resources:
        if any(known.values()):
            ledger.remark(
                "Memory is left out: nothing says how much the machine has (machine=FILE does)."
            )
        return None
    if not known[which]:
        hint = " (memory=used is)" if which == "requested" and known["used"] else ""
        ledger.remark(f"Memory is left out: what jobs {which} is not in the log{hint}.")
        return None
    ledger.count(f"jobs without {which} memory", len(jobs) - known[which])
    asked = jobs[f"{which}_memory"].clip(0)
    size = _unit_of_memory(asked, jobs["processors"], cluster, options, ledger)
    return pl.col(f"{which}_memory").clip(0) * size


def _unit_of_memory(
    asked: pl.Series,
    processors: pl.Series,
    cluster: Cluster,
    options: Mapping[str, Any],
    ledger: Ledger,
) -> int:
    """Return how many bytes the unit is; jobs that fit no node are counted."""
    asks = asked > 0
    each, task = asked.filter(asks), asked.filter(asks)
    if options["tasks"] == "one":
        task = task * processors.filter(asks)
    total = dict(zip(cluster.resources, cluster.totals.tolist(), strict=True))
    largest = float(cluster.capacity[:, cluster.resources.index("memory")].max())
    too_large = {size: int((task * size > largest).sum()) for size in (_KILOBYTE, 1)}
    if options["memory_unit"] is not None:
        size = _KILOBYTE if options["memory_unit"] == "kilobytes" else 1
    else:
        middle: Any = each.median()
        many = too_large[_KILOBYTE] > _SOME * len(task) >= too_large[1]
        far = middle * _KILOBYTE * total["cpu"] > _HALF_WAY * total["memory"]
        size = 1 if many and far else _KILOBYTE
        if size == 1:
            ledger.remark(
                f"Memory is taken for bytes: in kilobytes {too_large[_KILOBYTE]:,} of "
                f"{format_count(len(task), 'job')} would need more for a task than any node has "
                "(memory_unit=kilobytes takes it for that)."
            )
    large = too_large[size]
    ledger.count("jobs that need more memory for a task than any node has", large)
    if large:
        who = f"{format_count(large, 'job')} {plural(large, 'needs', 'need')}"
        other = ", memory_unit=bytes takes it for bytes" if too_large[1] < large else ""
        ledger.remark(
            f"{who} more memory for a task than any node has, and never "
            f"{plural(large, 'runs', 'run')} (memory=none leaves memory out{other})."
        )
    return size


def _restrictions(
    partition: pl.Series, cluster: Cluster, ledger: Ledger
) -> tuple[pl.Series, list[Restriction | None]]:
    """Return for each job the number of its restriction, and the restrictions."""
    there = {server.labels.get("partition") for server in cluster} - {None}
    restrictions: list[Restriction | None] = [None]
    if not there:
        return pl.Series([0], dtype=pl.Int64).new_from_index(0, len(partition)), restrictions
    number: dict[int, int] = {}
    lost = 0
    for value, job_count in partition.value_counts().sort(partition.name).rows():
        number[value] = 0 if value < 0 else len(restrictions)
        if value >= 0:
            restrictions.append({"partition": str(value)})
            lost += 0 if str(value) in there else job_count
    ledger.count("jobs of a partition that no node has", lost)
    if lost:
        ledger.remark(
            f"{format_count(lost, 'job')} {plural(lost, 'is', 'are')} of a partition that no node "
            f"has, and never {plural(lost, 'runs', 'run')} (label.partition in the table of "
            "machine=FILE names them)."
        )
    codes = [number[value] for value in partition.to_list()]
    return pl.Series(codes, dtype=pl.Int64), restrictions


#: The reader.
FORMAT = Format(
    title="Standard Workload Format of the Parallel Workloads Archive",
    read=_read,
    signature=Signature(suffixes=(".swf", ".swf.gz"), heads=(rf"^;+\s*({'|'.join(_KEYS)})\s*:",)),
    options=_OPTIONS,
)
