"""Validation of the arrays of a workload, column by column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from drfh.errors import InputError
from drfh.formatting import join_names
from drfh.model.cluster import Cluster, Server, check_name
from drfh.model.jobs.records import (
    DURATION_RULE,
    TIME_RULE,
    AddServers,
    RemoveServers,
    ResizeServer,
    ServerEvent,
)
from drfh.model.users import Restriction, nearest_server, parse_restriction, unknown_server

__all__ = [
    "check_events",
    "check_names",
    "counts",
    "everything_up",
    "jobs",
    "names",
    "positions",
    "seconds",
    "shapes",
]


Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]


def names(given: Any, field: str, *, loose: bool = False) -> tuple[str, ...]:
    """Return a list of unique names; spaces around resource names are allowed.

    Examples
    --------
    >>> names(["cpu", "memory"], "resources")
    ('cpu', 'memory')
    """
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError(field, "must be a list of names", given)
    listed = tuple(given)
    for position, name in enumerate(listed):
        blank = not isinstance(name, str) or not name.strip()
        if blank or not loose:
            check_name(name, f"{field}[{position}]")
    if len(set(listed)) != len(listed):
        seen: set[str] = set()
        for position, name in enumerate(listed):
            if name in seen:
                raise InputError(f"{field}[{position}]", "must be unique", name)
            seen.add(name)
    return listed


def positions(given: Any, field: str, size: int | None, end: int, thing: str) -> Ints:
    """Return an array of positions below `end`.

    Examples
    --------
    >>> positions([0, 3], "user", None, 2, "a user")
    Traceback (most recent call last):
    drfh.errors.InputError: user[1] must be the position of a user (0 to 1), got 3
    """
    array = _whole(given, field, size)
    wrong = (array < 0) | (array >= end)
    some = f"0 to {end - 1}" if end else "there is none"
    _refuse(wrong, array, field, f"must be the position of {thing} ({some})")
    return _own(array, np.int64)


def counts(given: Any, size: int) -> Ints:
    """Return an array of whole numbers ≥ 1.

    Examples
    --------
    >>> counts([1, 0], 2)
    Traceback (most recent call last):
    drfh.errors.InputError: count[1] must be a whole number ≥ 1, got 0
    """
    array = _whole(given, "count", size)
    _refuse((array < 1) | (array >= 2**53), array, "count", "must be a whole number ≥ 1")
    return _own(array, np.int64)


def seconds(given: Any, field: str, sizes: Sequence[int], *, endless: bool) -> Floats:
    """Return an array of times; it has one of `sizes`.

    Examples
    --------
    >>> seconds([0, -1], "arrival", (2,), endless=False)
    Traceback (most recent call last):
    drfh.errors.InputError: arrival[1] must be a finite number of seconds ≥ 0, got -1.0
    """
    array = _array(given, field, "must be an array of numbers")
    if array.dtype.kind not in "fiu":
        raise InputError(field, "must be an array of numbers", given)
    if array.ndim != 1 or len(array) not in sizes:
        allowed = join_names((f"{size:,}" for size in dict.fromkeys(sizes)), "or")
        raise InputError(field, f"must have {allowed} numbers in one dimension", array.shape)
    times: Floats = _own(array, np.float64)
    if len(times):
        # A comparison with NaN is false, so a lowest of NaN fails as well.
        low, high = float(times.min()), float(times.max())
        if not (low >= 0 and (endless or high < np.inf)):
            wrong = ~(times >= 0) | (np.isinf(times) & (not endless))
            _refuse(wrong, times, field, DURATION_RULE if endless else TIME_RULE)
    return times


def shapes(
    columns: Sequence[str], demand: Any, restrictions: Any, restriction: Any
) -> tuple[tuple[Restriction | None, ...], Floats, Ints, Ints]:
    """Return restrictions, unique shapes, and the shape of each row.

    Examples
    --------
    >>> shapes(["cpu"], [[1], [2], [1]], [None, "a"], [0, 1, 0])[1:]
    (array([[1.],
           [2.]]), array([0, 1]), array([0, 1, 0]))
    """
    table = _array(demand, "demand", "must be an array of numbers")
    if table.dtype.kind not in "fiu":
        raise InputError("demand", "must be an array of numbers", demand)
    if table.ndim != 2 or table.shape[1] != len(columns):
        rule = f"must have shape (shapes, {len(columns)} resources)"
        raise InputError("demand", rule, table.shape)
    table = table.astype(np.float64) + 0.0  # turns -0.0 into 0.0
    wrong = ~((table >= 0) & np.isfinite(table))
    if wrong.any():
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        field = f"demand[{row}].{columns[column]}"
        raise InputError(field, "must be a finite number ≥ 0", float(table[row, column]))
    empty = np.flatnonzero(~(table > 0).any(axis=1))
    if len(empty):
        raise InputError(f"demand[{empty[0]}]", "must have at least one amount > 0")
    terms, merged = _restrictions(restrictions)
    if restriction is None:
        kind = np.zeros(len(table), dtype=np.int64)
    else:
        kind = positions(restriction, "restriction", len(table), len(merged), "a restriction")
        kind = merged[kind]
    joined = np.column_stack((table, kind.astype(np.float64)))
    _, first, inverse = np.unique(joined, axis=0, return_index=True, return_inverse=True)
    if len(first) == len(table):
        return terms, table, kind, np.arange(len(table))
    order = np.argsort(first)  # in order of first mention, not of size
    rank = np.empty(len(first), dtype=np.int64)
    rank[order] = np.arange(len(first))
    kept = first[order]
    return terms, table[kept], kind[kept], rank[inverse.reshape(-1)]


def _restrictions(given: Any) -> tuple[tuple[Restriction | None, ...], Ints]:
    if given is None:
        return (None,), np.zeros(1, dtype=np.int64)
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise InputError("restrictions", "must be a list that starts with None", given)
    if given[0] is not None:
        raise InputError("restrictions[0]", "must be None, for no restriction", given[0])
    number: dict[Any, int] = {}
    merged = []
    for position, entry in enumerate(given):
        try:
            terms = None if entry is None else parse_restriction(entry)
        except InputError as error:
            raise error.with_root({"servers": f"restrictions[{position}]"}) from None
        merged.append(number.setdefault(terms, len(number)))
    return tuple(number), np.array(merged, dtype=np.int64)


def jobs(given: Any, owner: Ints, named: int | None) -> tuple[Ints, Ints]:
    """Return the job of each batch and the user of each job.

    Examples
    --------
    >>> jobs([0, 0, 1], np.array([2, 2, 0]), None)
    (array([0, 0, 1]), array([2, 0]))
    """
    size = len(owner)
    if given is None:
        if named is not None and named != size:
            raise InputError("job_names", f"must be {size:,} names, one for each job", named)
        return np.arange(size), owner.copy()
    whole = _whole(given, "job", size)
    end = (max(int(whole.max()), 0) + 1 if size else 0) if named is None else named
    if end > size:
        rule = f"must number {size:,} batches from 0 without gaps" if size else "must be empty"
        raise InputError("job" if named is None else "job_names", rule, f"{end:,} jobs")
    job = positions(whole, "job", size, end, "a job")
    user = np.full(end, -1, dtype=np.int64)
    user[job] = owner
    missing = np.flatnonzero(user < 0)
    if len(missing):
        rule = f"must number the jobs from 0 to {end - 1} without gaps"
        raise InputError("job", f"{rule}, but {missing[0]} is missing")
    rule = "must be the user of the job's other batches"
    _refuse(user[job] != owner, owner, "user", rule)
    return job, user


def _array(given: Any, field: str, rule: str) -> NDArray[Any]:
    try:
        return np.asarray(given)
    except (TypeError, ValueError):
        raise InputError(field, rule, given) from None


def _whole(given: Any, field: str, size: int | None) -> NDArray[Any]:
    rule = "must be an array of whole numbers"
    array = _array(given, field, rule)
    if array.size == 0 and array.ndim == 1:
        array = array.astype(np.int64)  # an empty list is one of floats to NumPy
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise InputError(field, rule, given)
    if size is not None and len(array) != size:
        raise InputError(field, f"must have {size:,} entries", len(array))
    return array


def _own(array: NDArray[Any], kind: Any) -> NDArray[Any]:
    """Return an array that nobody else can change: the same one only if it is so already."""
    ready = array.dtype == kind and array.flags.c_contiguous
    shared = ready and not array.flags.writeable and array.base is None
    return array if shared else np.array(array, dtype=kind)


def _refuse(wrong: NDArray[np.bool_], array: NDArray[Any], field: str, rule: str) -> None:
    if wrong.any():
        position = int(wrong.argmax())
        raise InputError(f"{field}[{position}]", rule, array[position].item())


@dataclass(slots=True)
class _Group:
    """A group that is up: how many servers it came with, and which of them left."""

    count: int
    left: set[int] = field(default_factory=set)


class _Up:
    """The names of the servers that are up, as events change them."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.groups = {name: _Group(count) for name, count in counts.items()}
        # Only these can be taken for a server of another group.
        self.with_slash = {name for name in counts if "/" in name}

    def find(self, name: str) -> tuple[str, int | None] | None:
        """Return (group, index inside it); index None for a whole group."""
        if name in self.groups:
            return name, None
        found = _single(name)
        group = self.groups.get(found[0]) if found else None
        if found is None or group is None or found[1] >= group.count or found[1] in group.left:
            return None
        return found[0], (found[1] if group.count > 1 else None)

    def single(self, name: str) -> bool:
        found = self.find(name)
        return found is not None and (found[1] is not None or self.groups[found[0]].count == 1)

    def remove(self, name: str) -> bool:
        found = self.find(name)
        if found is None:
            return False
        group = self.groups[found[0]]
        if found[1] is not None:
            group.left.add(found[1])
        if found[1] is None or len(group.left) == group.count:
            del self.groups[found[0]]
            self.with_slash.discard(found[0])
        return True

    def add(self, name: str, count: int) -> bool:
        if self.find(name) is not None:
            return False
        inside = (_single(other) for other in self.with_slash)
        if any(one is not None and one[0] == name and one[1] < count for one in inside):
            return False
        self.groups[name] = _Group(count)
        if "/" in name:
            self.with_slash.add(name)
        return True

    def counts(self) -> dict[str, int]:
        return {name: group.count for name, group in self.groups.items()}


def _single(name: str) -> tuple[str, int] | None:
    """Split ``big/3``, as a cluster does."""
    group, slash, digits = name.rpartition("/")
    if not slash or not (digits.isascii() and digits.isdigit() and len(digits) < 16):
        return None
    return group, int(digits)


def check_events(cluster: Cluster, events: Sequence[ServerEvent]) -> None:
    """Raise unless the server of every event is there at its time.

    A name may be added again once no server that is up has it: so a server comes back.

    Parameters
    ----------
    cluster
        The servers at the start.
    events
        In any order; those of one time happen in the order given.

    Examples
    --------
    >>> cluster = Cluster([Server({"cpu": 8}, name="big", count=2)])
    >>> check_events(cluster, [RemoveServers(60, "big/0"), RemoveServers(90, "big/0")])
    Traceback (most recent call last):
    drfh.errors.InputError: events[1].remove must name a server or group that is up at 90 s, \
got 'big/0'
    """
    if not events:
        return
    up = _Up(dict(zip(cluster.names, cluster.counts.tolist(), strict=True)))
    for position in sorted(range(len(events)), key=lambda i: events[i].time):
        event = events[position]
        when = f"at {event.time:,.6g} s"
        if isinstance(event, AddServers):
            name = str(event.server.name)
            if not up.add(name, event.server.count):
                rule = f"must not be the name of a server or group that is up {when}"
                raise InputError(f"events[{position}].add.name", rule, name)
        elif isinstance(event, RemoveServers):
            if not up.remove(event.name):
                rule = f"must name a server or group that is up {when}"
                raise _near(f"events[{position}].remove", rule, event.name, up)
        elif not up.single(event.name):
            rule = f"must name a single server that is up {when}"
            raise _near(f"events[{position}].resize", rule, event.name, up)


def _near(field: str, rule: str, name: str, up: _Up) -> InputError:
    """Return the error with the nearest name, where there is one."""
    if name in up.groups:  # all of a group where one server is asked for
        last = up.groups[name].count - 1
        return InputError(field, f"{rule} ({name} has {name}/0 to {name}/{last})", name)
    found = _single(name)
    group = up.groups.get(found[0]) if found else None
    if found and group is not None and found[1] in group.left:
        return InputError(field, rule, name)  # it left: no other name was meant
    return InputError(field, rule + nearest_server(name, up.counts()), name)


def check_names(names: Mapping[str, str], cluster: Cluster, events: Sequence[ServerEvent]) -> None:
    """Raise if a restriction names a server that never exists.

    Parameters
    ----------
    names
        Who restricts itself to it (for the error), by name of a server or group.
    cluster, events
        The servers.

    Examples
    --------
    >>> check_names({"bgi": "ann"}, Cluster([Server({"cpu": 8}, name="big", count=2)]), ())
    Traceback (most recent call last):
    drfh.errors.InputError: servers of ann must name a server or a group of the cluster \
(did you mean big?), got 'bgi'
    """
    lost = {name: owner for name, owner in names.items() if cluster.find_server(name) is None}
    if not lost:
        return
    added: dict[str, int] = {}
    for event in events:
        if isinstance(event, AddServers):
            name = str(event.server.name)
            added[name] = max(event.server.count, added.get(name, 0))
    later = _Up(added)
    for name, owner in lost.items():
        if later.find(name) is None:
            counts = dict(zip(cluster.names, cluster.counts.tolist(), strict=True))
            raise unknown_server(owner, name, {**counts, **added})


def everything_up(cluster: Cluster, events: Sequence[ServerEvent]) -> Cluster:
    """Return a cluster with every server that is ever up.

    It is not a pool that ever exists: it tells whether a task could run at some time.

    Examples
    --------
    >>> cluster = Cluster([Server({"cpu": 8}, name="big", count=2)])
    >>> everything_up(cluster, [
    ...     AddServers(60, Server({"gpu": 1}, name="new")), ResizeServer(90, "big/0", {"cpu": 12}),
    ... ])
    Cluster(3 servers in 2 groups: cpu 24, gpu 1)
    """
    if not events:
        return cluster
    groups = {str(server.name): server for server in cluster.servers}
    for event in sorted(events, key=lambda event: event.time):
        if isinstance(event, AddServers):
            name = str(event.server.name)
            found = _home(name, groups)
            if found is not None and groups[found].labels != event.server.labels:
                found, name = None, f"{name} from {event.time:g} s"
            if found is None:
                for other in [o for o in groups if "/" in o and (_single(o) or ("",))[0] == name]:
                    del groups[other]  # it left before, or the name could not be added
                groups[name] = replace(event.server, name=name)
            else:
                count = event.server.count if found == name else 1
                groups[found] = _larger(groups[found], event.server.resources, count)
        elif isinstance(event, ResizeServer):
            found = _home(event.name, groups)
            if found is not None:
                groups[found] = _larger(groups[found], event.resources, 1)
    return Cluster(groups.values())


def _home(name: str, groups: Mapping[str, Server]) -> str | None:
    """Return the group that a name belongs to."""
    if name in groups:
        return name
    found = _single(name)
    return found[0] if found and found[0] in groups else None


def _larger(server: Server, resources: Mapping[str, float], count: int) -> Server:
    names = {**server.resources, **resources}
    amounts = {r: max(server.resources.get(r, 0.0), resources.get(r, 0.0)) for r in names}
    return replace(server, resources=amounts, count=max(server.count, count))
