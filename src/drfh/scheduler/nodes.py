"""Single servers with their names: which is which, and who may use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from drfh.errors import InputError, UnknownNameError
from drfh.model.cluster import Cluster, Server, check_name
from drfh.model.users import Restriction, User

__all__ = ["Fleet", "Member"]


@dataclass(frozen=True, slots=True)
class Member:
    """One server: its name, its group, and the record with size and labels."""

    name: str
    group: str
    record: Server


class Fleet:
    """The servers of a scheduler, by position. A server that comes back takes its old place.

    Examples
    --------
    >>> pair = Server({"cpu": 1}, name="a", count=2)
    >>> fleet = Fleet(Cluster([pair, Server({"cpu": 2}, name="b")]))
    >>> [member.name for member in fleet.members]
    ['a/0', 'a/1', 'b']
    >>> fleet.allowed(["b", "a/1"])
    [False, True, True]
    """

    def __init__(self, cluster: Cluster) -> None:
        self.members: list[Member] = []
        self.position: dict[str, int] = {}
        for group, (record, count) in enumerate(
            zip(cluster.servers, cluster.counts.tolist(), strict=True)
        ):
            for index in range(count):
                self._put(Member(cluster.server_name(group, index), str(record.name), record))

    def _put(self, member: Member) -> int:
        position = self.position.setdefault(member.name, len(self.members))
        if position == len(self.members):
            self.members.append(member)
        else:
            self.members[position] = member
        return position

    def add(self, name: str, record: Server, group: str | None = None) -> int:
        """Put a server in its place and return it. The group is its name up to the last ``/``."""
        check_name(name, "server")
        return self._put(Member(name, group or name.rpartition("/")[0] or name, record))

    def find(self, name: str, field: str = "server") -> int:
        """Return the position of a server."""
        if name not in self.position:
            raise UnknownNameError(field, str(name), self.position)
        return self.position[name]

    def named(self, name: str, field: str = "server") -> list[int]:
        """Return the positions of a server, or of all servers of a group."""
        if name in self.position:
            return [self.position[name]]
        found = [p for p, member in enumerate(self.members) if member.group == name]
        if not found:
            known = {*self.position, *(member.group for member in self.members)}
            raise UnknownNameError(field, str(name), known)
        return found

    def allowed(self, restriction: Restriction | None, field: str = "servers") -> list[bool]:
        """Return for each server whether a restriction lets a task use it.

        A name must be that of a server or group which is or was here; labels may match nothing.
        """
        if restriction is None:
            return [True] * len(self.members)
        terms = User("-", {"-": 1}, servers=restriction).servers
        may = [False] * len(self.members)
        for term in terms or ():  # type: ignore[union-attr]
            if isinstance(term, str):
                for position in self.named(term, field):
                    may[position] = True
            else:
                for position, member in enumerate(self.members):
                    may[position] = may[position] or self._matches(term, member, field)
        return may

    def allows(
        self, restriction: Restriction | None, position: int, field: str = "servers"
    ) -> bool:
        """Return the same for one server."""
        if restriction is None:
            return True
        terms = User("-", {"-": 1}, servers=restriction).servers
        member = self.members[position]
        return any(
            term in (member.name, member.group)
            if isinstance(term, str)
            else self._matches(term, member, field)
            for term in terms or ()  # type: ignore[union-attr]
        )

    @staticmethod
    def _matches(term: object, member: Member, field: str) -> bool:
        if isinstance(term, Mapping):
            return all(member.record.labels.get(k) in choices for k, choices in term.items())
        assert callable(term)
        try:
            return bool(term(member.record))
        except Exception as error:
            rule = f"must accept every server (on {member.name}: {type(error).__name__}: {error})"
            raise InputError(f"predicate of {field}", rule) from error
