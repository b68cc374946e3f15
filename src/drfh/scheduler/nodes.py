"""Table of single servers: names, positions, groups, and who may use them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from drfh.errors import InputError, UnknownNameError
from drfh.model.cluster import Cluster, Server, check_name
from drfh.model.users import Restriction, parse_restriction

__all__ = ["NodeEntry", "NodeTable"]


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """One server: its name, its group, and the record with size and labels."""

    name: str
    group: str
    record: Server


class NodeTable:
    """Servers by position and by name. A server that comes back takes its old position.

    Without a cluster the table is empty.

    Examples
    --------
    >>> pair = Server({"cpu": 1}, name="a", count=2)
    >>> nodes = NodeTable(Cluster([pair, Server({"cpu": 2}, name="b")]))
    >>> [entry.name for entry in nodes.entries]
    ['a/0', 'a/1', 'b']
    >>> nodes.allowed(["b", "a/1"])
    [False, True, True]
    """

    def __init__(self, cluster: Cluster | None = None) -> None:
        self.entries: list[NodeEntry] = []
        self.position: dict[str, int] = {}
        if cluster is None:
            return
        for group, (record, count) in enumerate(
            zip(cluster.servers, cluster.counts.tolist(), strict=True)
        ):
            for index in range(count):
                self._put(NodeEntry(cluster.server_name(group, index), str(record.name), record))

    def _put(self, entry: NodeEntry) -> int:
        position = self.position.setdefault(entry.name, len(self.entries))
        if position == len(self.entries):
            self.entries.append(entry)
        else:
            self.entries[position] = entry
        return position

    def add(self, name: str, record: Server, group: str | None = None) -> int:
        """Put a server in its place and return it. The group is its name up to the last ``/``."""
        check_name(name, "server")
        return self._put(NodeEntry(name, group or name.rpartition("/")[0] or name, record))

    def named(self, name: str, field: str = "server") -> list[int]:
        """Return the positions of a server, or of all servers of a group."""
        if name in self.position:
            return [self.position[name]]
        found = [p for p, entry in enumerate(self.entries) if entry.group == name]
        if not found:
            known = {*self.position, *(entry.group for entry in self.entries)}
            raise UnknownNameError(field, str(name), known)
        return found

    def allowed(self, restriction: Restriction | None, field: str = "servers") -> list[bool]:
        """Return for each server whether a restriction lets a task use it.

        A name must be that of a server or group which is or was here; labels may match nothing.
        """
        if restriction is None:
            return [True] * len(self.entries)
        terms = parse_restriction(restriction)
        may = [False] * len(self.entries)
        for term in terms:
            if isinstance(term, str):
                for position in self.named(term, field):
                    may[position] = True
            else:
                for position, entry in enumerate(self.entries):
                    may[position] = may[position] or self._matches(term, entry, field)
        return may

    def allows(
        self, restriction: Restriction | None, position: int, field: str = "servers"
    ) -> bool:
        """Return the same for one server."""
        if restriction is None:
            return True
        terms = parse_restriction(restriction)
        entry = self.entries[position]
        return any(
            term in (entry.name, entry.group)
            if isinstance(term, str)
            else self._matches(term, entry, field)
            for term in terms
        )

    @staticmethod
    def _matches(term: object, entry: NodeEntry, field: str) -> bool:
        if isinstance(term, Mapping):
            return all(entry.record.labels.get(k) in choices for k, choices in term.items())
        assert callable(term)
        try:
            return bool(term(entry.record))
        except Exception as error:
            rule = f"must accept every server (on {entry.name}: {type(error).__name__}: {error})"
            raise InputError(f"predicate of {field}", rule) from error
