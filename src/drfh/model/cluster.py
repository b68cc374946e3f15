"""Servers in groups of equal ones, and the cluster of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drfh.errors import InputError, UnknownNameError
from drfh.formatting import format_count, format_quantity
from drfh.model.resources import FrozenMap, parse_amounts, resource_columns

__all__ = ["Cluster", "Server"]


@dataclass(frozen=True, slots=True, init=False)
class Server:
    """A group of equal servers.

    Parameters
    ----------
    resources
        Capacity of one server by resource name. What is not mentioned is 0.
    name
        Name of the group. Its servers are ``name/0``, ``name/1``, …; just ``name`` for a single
        one. A cluster names unnamed groups ``server-1``, ``server-2``, … by position.
    count
        How many servers the group has.
    labels
        Free labels that users can restrict themselves to, such as ``{"zone": "a"}``.

    Examples
    --------
    >>> Server({"cpu": 8, "memory": "64Gi"}, name="big", count=3)
    Server({'cpu': 8.0, 'memory': 68719476736.0}, name='big', count=3)
    """

    resources: Mapping[str, float]
    name: str | None
    count: int
    labels: Mapping[str, str]

    def __init__(
        self,
        resources: Mapping[str, float | str],
        *,
        name: str | None = None,
        count: int = 1,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        amounts = parse_amounts(resources, "resources")
        if not any(amounts.values()):
            raise InputError("resources", "must have at least one amount > 0", dict(amounts))
        check_name(name, "name", optional=True)
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)):
            raise InputError("count", "must be a whole number ≥ 1", count)
        if not 1 <= count < 2**53:
            raise InputError("count", "must be a whole number ≥ 1", count)
        if labels is not None and not isinstance(labels, Mapping):
            raise InputError("labels", "must map label names to values", labels)
        texts = {str(key): str(value) for key, value in (labels or {}).items()}
        set_ = object.__setattr__
        set_(self, "resources", amounts)
        set_(self, "name", name)
        set_(self, "count", int(count))
        set_(self, "labels", FrozenMap(texts))

    def __repr__(self) -> str:
        parts = [repr(self.resources)]
        if self.name is not None:
            parts.append(f"name={self.name!r}")
        if self.count != 1:
            parts.append(f"count={self.count}")
        if self.labels:
            parts.append(f"labels={self.labels!r}")
        return f"Server({', '.join(parts)})"


class Cluster:
    """A pool of servers of many shapes.

    Parameters
    ----------
    servers
        The groups, in order. Server and resource order follow it.

    Attributes
    ----------
    resources : tuple of str
        Resource names in order of first mention.
    capacity : array, groups × resources
        Capacity of *one* server of each group.
    counts : int array
        Number of servers in each group.
    totals : array
        Sum of each resource over all servers.

    Examples
    --------
    >>> cluster = Cluster([
    ...     Server({"cpu": 2, "memory": 12}, name="high-memory"),
    ...     Server({"cpu": 12, "memory": 2}, name="high-cpu"),
    ... ])
    >>> cluster
    Cluster(2 servers in 2 groups: cpu 14, memory 14)
    """

    # Of the groups, while they have no record each.
    _labels: tuple[Mapping[str, str], ...] | None = None

    def __init__(self, servers: Iterable[Server]) -> None:
        if isinstance(servers, (Server, str)) or not isinstance(servers, Iterable):
            raise InputError("servers", "must be a list of drfh.Server", servers)
        groups = tuple(servers)
        for position, server in enumerate(groups):
            if not isinstance(server, Server):
                raise InputError(f"servers[{position}]", "must be a drfh.Server", server)
        if not groups:
            raise InputError("servers", "must have at least one server")
        order: dict[str, int] = {}
        for server in groups:
            for resource in server.resources:
                order.setdefault(resource, len(order))
        capacity = np.zeros((len(groups), len(order)))
        for row, server in enumerate(groups):
            for resource, amount in server.resources.items():
                capacity[row, order[resource]] = amount
        self._set(
            capacity,
            np.array([server.count for server in groups], dtype=np.int64),
            tuple(order),
        )
        named = tuple(
            server if server.name is not None else replace(server, name=_default_name(position))
            for position, server in enumerate(groups)
        )
        self.__dict__["servers"] = named
        self._check_names()

    def _set(
        self, capacity: NDArray[np.float64], counts: NDArray[np.int64], resources: tuple[str, ...]
    ) -> None:
        self.resources = resources
        self.capacity = capacity
        self.counts = counts
        with np.errstate(over="ignore"):
            self.totals: NDArray[np.float64] = (capacity * counts[:, None]).sum(axis=0)
        if not 0 < float(counts.astype(np.float64).sum()) < 2**53:
            raise InputError("servers", "must be fewer than 2**53", float(counts.sum()))
        for name, total in zip(resources, self.totals.tolist(), strict=True):
            if not total < np.finfo(np.float64).max:
                raise InputError(f"total of {name}", "must be a finite number", total, item=name)
        for array in (self.capacity, self.counts, self.totals):
            array.flags.writeable = False

    @classmethod
    def from_arrays(
        cls,
        capacity: ArrayLike,
        resources: Sequence[str] | None = None,
        *,
        counts: ArrayLike | None = None,
        names: Sequence[str] | None = None,
        labels: Sequence[Mapping[str, str]] | None = None,
    ) -> Cluster:
        """Build a large cluster from an array, without a record for each group.

        Parameters
        ----------
        capacity
            Capacity of one server of each group, groups × resources: an array, or a polars, pandas
            or Arrow table, whose columns are taken by name.
        resources
            Names of the columns; by default those of a table.
        counts
            Number of servers in each group, by default 1.
        names
            Names of the groups, by default ``server-1``, ``server-2``, …
        labels
            Labels of the groups, by default none.

        Examples
        --------
        >>> Cluster.from_arrays([[2, 12], [12, 2]], ["cpu", "memory"], counts=[3, 1])
        Cluster(4 servers in 2 groups: cpu 18, memory 38)
        """
        cluster = cls.__new__(cls)
        capacity, resources = resource_columns(capacity, resources, "capacity")
        if isinstance(resources, str) or not isinstance(resources, Iterable):
            raise InputError("resources", "must be a list of names", resources)
        columns = tuple(resources)
        parse_amounts(dict.fromkeys(map(_name_or_blank, columns), 0), "resources")
        if not columns:
            raise InputError("resources", "must have at least one name")
        try:
            table = np.array(capacity, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError("capacity", "must be an array of numbers", capacity) from None
        if table.ndim != 2 or len(table) == 0 or table.shape[1] != len(columns):
            raise InputError(
                "capacity", f"must have shape (servers ≥ 1, {len(columns)} resources)", table.shape
            )
        if len(set(columns)) != len(columns):
            raise InputError("resources", "must have no name twice", columns)
        wrong = ~((table >= 0) & np.isfinite(table))
        if wrong.any():
            row, column = (int(i) for i in np.argwhere(wrong)[0])
            raise InputError(
                f"capacity[{row}].{columns[column]}",
                "must be a finite number ≥ 0",
                float(table[row, column]),
            )
        empty = np.flatnonzero(table.max(axis=1) <= 0)
        if len(empty):
            raise InputError(f"capacity[{empty[0]}]", "must have at least one amount > 0")
        if counts is None:
            sizes = np.ones(len(table), dtype=np.int64)
        else:
            given = np.asarray(counts)
            whole = given.shape == (len(table),) and given.dtype.kind in "iu"
            if not whole or given.min() < 1 or given.max() >= 2**53:
                raise InputError("counts", "must be one whole number ≥ 1 for each group")
            sizes = given.astype(np.int64)
        cluster._set(table, sizes, columns)
        if names is not None:
            if isinstance(names, str) or not isinstance(names, Sequence):
                raise InputError("names", "must be a list of names", names)
            if len(names) != len(table):
                raise InputError("names", "must be one for each group", len(names))
            for position, name in enumerate(names):
                check_name(name, f"names[{position}]")
            cluster.__dict__["names"] = tuple(names)
            cluster._check_names()
        if labels is not None:
            if not isinstance(labels, Sequence) or len(labels) != len(table):
                raise InputError("labels", "must be a list with one entry for each group")
            for position, entry in enumerate(labels):
                if not isinstance(entry, Mapping):
                    rule = "must map label names to values"
                    raise InputError(f"labels[{position}]", rule, entry)
            cluster._labels = tuple(labels)
        return cluster

    @cached_property
    def servers(self) -> tuple[Server, ...]:
        """The groups, each with a name."""
        return tuple(
            Server(
                {r: a for r, a in zip(self.resources, row, strict=True) if a},
                name=name,
                count=count,
                labels=labels,
            )
            for row, name, count, labels in zip(
                self.capacity.tolist(),
                self.names,
                self.counts.tolist(),
                self._labels or [None] * len(self),
                strict=True,
            )
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the groups."""
        if "servers" in self.__dict__:
            return tuple(str(server.name) for server in self.servers)
        return tuple(_default_name(position) for position in range(len(self.counts)))

    @cached_property
    def group_index(self) -> Mapping[str, int]:
        """Position of each group by name."""
        return {name: position for position, name in enumerate(self.names)}

    @cached_property
    def _by_label(self) -> dict[str, dict[str, list[int]]]:
        """Positions of the groups with each value of each label."""
        found: dict[str, dict[str, list[int]]] = {}
        for position, server in enumerate(self.servers):
            for key, value in server.labels.items():
                found.setdefault(key, {}).setdefault(value, []).append(position)
        return found

    def labelled(self, labels: Mapping[str, Iterable[str]]) -> NDArray[np.bool_]:
        """Return which groups have one of the values of every label.

        Examples
        --------
        >>> cluster = Cluster([Server({"cpu": 1}, labels={"zone": z}) for z in "aba"])
        >>> cluster.labelled({"zone": ["a"]})
        array([ True, False,  True])
        """
        every = np.ones(len(self.counts), dtype=bool)
        for key, choices in labels.items():
            by_value = self._by_label.get(key, {})
            one = np.zeros_like(every)
            for value in choices:
                one[by_value.get(value, [])] = True
            every &= one
        return every

    @property
    def size(self) -> int:
        """Number of single servers."""
        return int(self.counts.sum())

    def _check_names(self) -> None:
        if len(self.group_index) != len(self.names):
            seen: set[str] = set()
            for position, name in enumerate(self.names):
                if name in seen:
                    raise InputError(
                        f"servers[{position}].name", "must be unique", name, item="name"
                    )
                seen.add(name)
        for position, name in enumerate(self.names):
            if "/" in name and self.find_server(name, groups=False) is not None:
                rule = "must not be a server of another group"
                raise InputError(f"servers[{position}].name", rule, name, item="name")

    def find_server(self, name: str, *, groups: bool = True) -> tuple[int, int | None] | None:
        """Return (group, index inside it) of a group (index None) or of a single server.

        Examples
        --------
        >>> cluster = Cluster([Server({"cpu": 1}, name="a", count=2)])
        >>> cluster.find_server("a"), cluster.find_server("a/1"), cluster.find_server("a/2")
        ((0, None), (0, 1), None)
        """
        if groups and name in self.group_index:
            return self.group_index[name], None
        group, slash, digits = name.rpartition("/")
        position = self.group_index.get(group) if slash else None
        if position is None or not (digits.isascii() and digits.isdigit() and len(digits) < 16):
            return None
        index = int(digits)
        count = int(self.counts[position])
        if index >= count:
            return None
        return position, (index if count > 1 else None)

    def server_name(self, group: int, index: int) -> str:
        """Return the name of one server.

        Examples
        --------
        >>> Cluster([Server({"cpu": 1}, name="a", count=2)]).server_name(0, 1)
        'a/1'
        """
        name = self.names[group]
        return name if self.counts[group] == 1 else f"{name}/{index}"

    def plus(self, *servers: Server) -> Cluster:
        """Return a cluster with more groups.

        Examples
        --------
        >>> Cluster([Server({"cpu": 1})]).plus(Server({"cpu": 3}, count=2))
        Cluster(3 servers in 2 groups: cpu 7)
        """
        return Cluster((*self.servers, *servers))

    def minus(self, name: str, count: int | None = None) -> Cluster:
        """Return a cluster without `count` servers of group `name` (all of them by default).

        Examples
        --------
        >>> Cluster([Server({"cpu": 1}, name="a", count=5)]).minus("a", 2)
        Cluster(3 servers in 1 group: cpu 3)
        """
        if name not in self.group_index:
            raise UnknownNameError("server group", name, self.names)
        position = self.group_index[name]
        server = self.servers[position]
        if count is not None and not 1 <= count <= server.count:
            raise InputError("count", f"must be between 1 and {server.count} ({name})", count)
        left = 0 if count is None else server.count - count
        kept = (replace(server, count=left),) if left else ()
        if not left and len(self.servers) == 1:
            raise InputError("servers", "must have at least one server left")
        return Cluster((*self.servers[:position], *kept, *self.servers[position + 1 :]))

    def __len__(self) -> int:
        return len(self.counts)

    def __iter__(self) -> Iterator[Server]:
        return iter(self.servers)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Cluster) and self.servers == other.servers

    def __hash__(self) -> int:
        return hash(self.servers)

    @property
    def summary(self) -> str:
        """How many servers and groups there are, and what they have together."""
        pool = ", ".join(
            f"{name} {format_quantity(total)}"
            for name, total in zip(self.resources, self.totals.tolist(), strict=True)
        )
        servers, groups = format_count(self.size, "server"), format_count(len(self), "group")
        return f"{servers} in {groups}: {pool}"

    def __repr__(self) -> str:
        return f"Cluster({self.summary})"

    def _repr_html_(self) -> str:
        from drfh.report.tables import cluster_table

        return cluster_table(self).to_html()


def _name_or_blank(name: Any) -> str:
    return name if isinstance(name, str) else ""


def _default_name(position: int) -> str:
    return f"server-{position + 1}"


def check_name(name: Any, field: str, *, optional: bool = False) -> None:
    """Raise unless `name` is a non-empty string without surrounding white space.

    Examples
    --------
    >>> check_name("ann", "name")
    """
    if name is None and optional:
        return
    if not isinstance(name, str) or not name or name != name.strip():
        raise InputError(field, "must be a non-empty string without spaces around it", name)
