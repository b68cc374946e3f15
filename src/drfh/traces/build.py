"""Builder of workloads from a table of batches, for all readers."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from drfh.errors import InputError
from drfh.model.jobs import ServerEvent, Workload
from drfh.model.users import Restriction, User
from drfh.traces.base import EmptyTraceError

__all__ = ["CORE", "build", "codes", "keep_sample", "keep_window"]

#: The columns of a batch, beside one for each resource. The rest are details.
CORE = ("user", "job", "arrival", "duration", "tasks", "restriction")


def codes(frame: pl.DataFrame, keys: Sequence[str]) -> tuple[NDArray[np.int64], pl.DataFrame]:
    """Return group numbers of rows by `keys`, in order of appearance.

    Examples
    --------
    >>> number, values = codes(pl.DataFrame({"a": ["y", "x", "y"]}), ["a"])
    >>> number.tolist(), values["a"].to_list()
    ([0, 1, 0], ['y', 'x'])
    """
    quick = _compiled_codes(frame, keys) if "numba" in sys.modules else None
    if quick is not None:
        return quick
    values = frame.select(keys).unique(maintain_order=True)
    numbered = values.with_row_index("_code")
    joined = frame.select(keys).join(
        numbered, on=list(keys), how="left", nulls_equal=True, maintain_order="left"
    )
    return joined["_code"].cast(pl.Int64).to_numpy(), values


def _compiled_codes(
    frame: pl.DataFrame, keys: Sequence[str]
) -> tuple[NDArray[np.int64], pl.DataFrame] | None:
    """Return the same by a compiled kernel, for columns of numbers or categories without nulls."""
    from drfh.kernels.trace_runs import number

    code = np.zeros(len(frame), dtype=np.int64)
    first = np.zeros(1, dtype=np.int64)
    for position, name in enumerate(keys):
        bits = _as_bits(frame[name])
        if bits is None:
            return None
        own, own_first = number(bits)
        if position and len(own_first) > 1:
            code, first = number(code * len(own_first) + own)
        elif not position:
            code, first = own, own_first
    return code, frame.select(keys)[first]


def _as_bits(column: pl.Series) -> NDArray[np.int64] | None:
    """Return whole numbers that are equal where the values are; None if that takes more."""
    if column.null_count():
        return None
    if isinstance(column.dtype, (pl.Categorical, pl.Enum)):
        column = column.to_physical()
    if column.dtype.is_integer() and column.dtype != pl.UInt64:
        return column.cast(pl.Int64).to_numpy()
    if column.dtype != pl.Float64 or column.is_nan().any():
        return None
    return (column.to_numpy() + 0.0).view(np.int64)  # turns -0.0 into 0.0


def build(
    batches: pl.DataFrame,
    resources: Sequence[str],
    *,
    users: Iterable[User] = (),
    restrictions: Sequence[Restriction | None] = (None,),
    events: Iterable[ServerEvent] = (),
) -> tuple[Workload, pl.DataFrame]:
    """Build a workload from a table of batches.

    Parameters
    ----------
    batches
        One row for each batch of equal tasks, in the order in which they were submitted: `user`
        and `job` (text; or whole numbers, which become text), `arrival` and `duration` in seconds,
        a column for each resource, and where needed `tasks` (how many, else 1) and `restriction`
        (position in `restrictions`, else 0). Other columns become the details. A `duration` may
        be a list with one number for each task.
    resources
        Names of the resource columns; missing amounts are 0.
    users
        Users with a weight, a parent or a restriction of their own. They come first, in this
        order, also if they have no job; the others follow in order of first appearance.
    restrictions
        The different restrictions; the first is None.
    events
        What happens to the servers.

    Returns
    -------
    workload
        Users, jobs and shapes are numbered in order of first appearance.
    details
        The other columns.

    Examples
    --------
    >>> workload, details = build(
    ...     pl.DataFrame({
    ...         "user": ["bob", "ann"], "job": ["7", "8"], "arrival": [0.0, 5.0],
    ...         "duration": [60.0, 30.0], "cpu": [1.0, 2.0], "priority": [9, 0],
    ...     }),
    ...     ["cpu"],
    ... )
    >>> workload, [user.name for user in workload.users], details["priority"].to_list()
    (Workload(2 users, 2 jobs, 2 tasks, arrivals 0 to 5 s), ['bob', 'ann'], [9, 0])
    """
    if not len(batches):
        raise EmptyTraceError("must have at least one task that can be read")
    frame = batches.with_columns(
        *(pl.col(r).cast(pl.Float64).fill_null(0.0) for r in resources),
        (pl.col("restriction") if "restriction" in batches.columns else pl.lit(0))
        .cast(pl.Int64)
        .alias("restriction"),
    )
    everyone = {user.name: user for user in users}
    owner, names = codes(frame, ["user"])
    for name in names["user"].cast(pl.String).to_list():
        everyone.setdefault(name, User(name))
    place = {name: position for position, name in enumerate(everyone)}
    positions = np.array([place[n] for n in names["user"].cast(pl.String).to_list()])
    terms, frame = _restrictions(frame, restrictions)
    count = frame["tasks"].cast(pl.Int64).to_numpy() if "tasks" in frame.columns else None
    duration = frame["duration"]
    if isinstance(duration.dtype, pl.List):
        count = duration.list.len().cast(pl.Int64).to_numpy()
        duration = duration.explode()
    job, job_names = codes(frame, ["job"])
    shape, shapes = codes(frame, [*resources, "restriction"])
    workload = Workload.from_arrays(
        everyone.values(),
        resources,
        shapes.select(resources).to_numpy(),
        user=positions[owner],
        arrival=frame["arrival"].to_numpy(),
        shape=shape,
        duration=duration.to_numpy(),
        count=count,
        job=job,
        job_names=job_names["job"].cast(pl.String).to_list(),
        restrictions=terms,
        restriction=shapes["restriction"].to_numpy(),
        events=events,
    )
    rest = [name for name in batches.columns if name not in CORE and name not in resources]
    return workload, batches.select(rest)


def _restrictions(
    frame: pl.DataFrame, given: Sequence[Restriction | None]
) -> tuple[list[Restriction | None], pl.DataFrame]:
    """Keep the restrictions that some batch has, in order of first appearance."""
    used = frame["restriction"].unique(maintain_order=True)
    order = [0, *(number for number in used.to_list() if number != 0)]
    renumber = {old: new for new, old in enumerate(order)}
    if all(old == new for old, new in renumber.items()):
        return [given[number] for number in order], frame
    column = pl.col("restriction").replace_strict(renumber, return_dtype=pl.Int64)
    return [given[number] for number in order], frame.with_columns(column)


def keep_window(batches: pl.DataFrame, options: Mapping[str, Any]) -> pl.DataFrame:
    """Return the batches that arrive in the window, which begins at 0.

    Examples
    --------
    >>> frame = pl.DataFrame({"arrival": [0.0, 3600.0, 7200.0, 9000.0]})
    >>> keep_window(frame, {"start": 1.0, "hours": 1.0})["arrival"].to_list()
    [0.0, 3600.0]
    """
    begin = options["start"] * 3600.0
    end = float("inf") if options["hours"] is None else begin + options["hours"] * 3600.0
    inside = batches.filter(pl.col("arrival").is_between(begin, end))
    return inside.with_columns(pl.col("arrival") - begin) if begin else inside


def keep_sample(batches: pl.DataFrame, options: Mapping[str, Any]) -> pl.DataFrame:
    """Return the batches of the chosen users and sample of jobs.

    Draws are made over users and jobs in order of first appearance, so they are the same every
    time.

    Examples
    --------
    >>> frame = pl.DataFrame({"user": ["a", "b", "c"], "job": [1, 2, 3]})
    >>> keep_sample(frame, {"users": ("c", "a"), "sample": 1.0, "seed": 0})["job"].to_list()
    [1, 3]
    """
    users, part = options["users"], options["sample"]
    draw = np.random.default_rng(options["seed"])
    if users is not None:
        there = batches["user"].unique(maintain_order=True)
        if isinstance(users, int):
            chosen = there.gather(np.sort(draw.permutation(len(there))[:users]))
        else:
            for name in users:
                if not (there == name).any():
                    rule = f"must name users of the trace ({len(there):,} users)"
                    raise InputError("users", rule, name)
            chosen = pl.Series(users, dtype=there.dtype)
        batches = batches.filter(pl.col("user").is_in(chosen.implode()))
    if part < 1:
        jobs = batches["job"].unique(maintain_order=True)
        kept = jobs.filter(pl.Series(draw.random(len(jobs)) < part))
        batches = batches.filter(pl.col("job").is_in(kept.implode()))
    return batches
