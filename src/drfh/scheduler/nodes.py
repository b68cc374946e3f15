"""Servers by name and position, and which of them each task may use.

A task obeys its own restriction and that of its user, so what counts is the pair of them. Names
and labels can be written down. A predicate cannot, so its answers are: it has a number, and the
names of the servers that it accepts stand in the log and in a snapshot in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from drfh.errors import InputError, UnknownNameError
from drfh.model.cluster import Cluster, Server, check_name
from drfh.model.users import Restriction, parse_restriction

__all__ = ["NodeEntry", "NodeTable", "Remembered", "Restrictions", "Terms", "from_json", "to_json"]


@dataclass(frozen=True, slots=True)
class NodeEntry:
    """One server: name, group, and the record with size and labels."""

    name: str
    group: str
    record: Server


class NodeTable:
    """Servers by position and name; one that returns keeps its position.

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
        """Add a server and return its position.

        The group is its name up to the last ``/``.
        """
        check_name(name, "server")
        return self._put(NodeEntry(name, group or name.rpartition("/")[0] or name, record))

    def named(self, name: str, field: str = "server") -> list[int]:
        """Return the positions of a server, or of a group."""
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


#: Names, labels and numbers of predicates, of which one must hold.
Terms: TypeAlias = tuple[str | Mapping[str, tuple[str, ...]] | int, ...]


@dataclass(frozen=True, slots=True)
class Remembered:
    """A predicate of which only the answers are known."""

    number: int

    def __call__(self, server: Server) -> bool:
        """Never asked: :class:`Restrictions` has the answers."""
        raise NotImplementedError


class Restrictions:
    """The restrictions of a scheduler; number 0 allows every server.

    Examples
    --------
    >>> from drfh import Cluster
    >>> cluster = Cluster([Server({"cpu": 1}, name="a", count=2), Server({"cpu": 2}, name="b")])
    >>> known = Restrictions(NodeTable(cluster))
    >>> large = known.read(lambda server: server.resources["cpu"] > 1)
    >>> large, known.answers
    ((0,), [{'b'}])
    >>> known.row(large), known.both(large, known.read("a"))
    ([False, False, True], [False, False, False])
    """

    def __init__(self, nodes: NodeTable) -> None:
        self.nodes = nodes
        self.answers: list[set[str]] = []  # predicate → names of servers that it accepts
        self._predicates: list[Callable[[Server], bool]] = []
        self._numbers: dict[Callable[[Server], bool], int] = {}
        self.pairs: list[tuple[Terms | None, Terms | None]] = []  # from number 1 on
        self.rows: list[list[bool]] = []
        self._pair_numbers: dict[tuple[Terms | None, Terms | None], int] = {(None, None): 0}
        self._names_read: dict[Any, Terms] = {}
        self._expected: dict[str, list[int]] = {}

    def remember(self, names: Iterable[str]) -> Remembered:
        """Add a predicate of which only the answers are known."""
        predicate = Remembered(len(self._predicates))
        self._take(predicate, set(names))
        return predicate

    def _take(self, predicate: Callable[[Server], bool], accepted: set[str]) -> int:
        number = self._numbers[predicate] = len(self._predicates)
        self._predicates.append(predicate)
        self.answers.append(accepted)
        return number

    def read(self, restriction: Restriction | None, field: str = "servers") -> Terms | None:
        """Check a restriction and return its terms."""
        if restriction is None:
            return None
        only_names = isinstance(restriction, tuple) and all(type(t) is str for t in restriction)
        if only_names and restriction in self._names_read:
            return self._names_read[restriction]
        given: Any = parse_restriction(restriction)
        new: dict[Callable[[Server], bool], set[str]] = {}
        plain = [term for term in given if not callable(term)]
        if plain:
            self.nodes.allowed(plain, field)
        if only_names:
            # Names once good stay so: thousands of jobs of one partition bring the same tuple.
            self._names_read[restriction] = given
        for term in given:
            if callable(term) and term not in self._numbers:
                may = self.nodes.allowed([term], field)
                members = self.nodes.entries
                new[term] = {m.name for m, yes in zip(members, may, strict=True) if yes}
        for predicate, accepted in new.items():
            self._take(predicate, accepted)
        return tuple(self._numbers[term] if callable(term) else term for term in given)

    def row(self, terms: Terms | None) -> list[bool]:
        """Return for each server whether one of the terms holds."""
        members = self.nodes.entries
        if terms is None:
            return [True] * len(members)
        plain = [term for term in terms if not isinstance(term, int)]
        may = self.nodes.allowed(plain) if plain else [False] * len(members)
        for term in terms:
            if isinstance(term, int):
                found = [entry.name in self.answers[term] for entry in members]
                may = [a or b for a, b in zip(may, found, strict=True)]
        return may

    def both(self, first: Terms | None, second: Terms | None) -> list[bool]:
        """Return for each server whether both restrictions hold."""
        return [a and b for a, b in zip(self.row(first), self.row(second), strict=True)]

    def find(self, pair: tuple[Terms | None, Terms | None]) -> int | None:
        """Return the number of a pair, or None if it is new."""
        return self._pair_numbers.get(pair)

    def add(self, pair: tuple[Terms | None, Terms | None], row: list[bool]) -> int:
        """Add a pair with its servers (`row`) and return its number."""
        self.pairs.append(pair)
        self.rows.append(row)
        number = self._pair_numbers[pair] = len(self.pairs)
        return number

    @property
    def known(self) -> tuple[int, int]:
        """How many predicates and pairs there are, for :meth:`forget`."""
        return len(self._predicates), len(self.pairs)

    def forget(self, known: tuple[int, int]) -> None:
        """Drop the predicates and pairs that came after there were so many."""
        predicates, pairs = known
        for predicate in self._predicates[predicates:]:
            del self._numbers[predicate]
        for pair in self.pairs[pairs:]:
            del self._pair_numbers[pair]
        del self._predicates[predicates:], self.answers[predicates:]
        del self.pairs[pairs:], self.rows[pairs:]

    def pair(self, number: int) -> tuple[Terms | None, Terms | None]:
        """Return the restrictions of user and task of pair `number`."""
        return self.pairs[number - 1] if number else (None, None)

    def allows(self, number: int, server: int) -> bool:
        """Return whether a server may be used."""
        return number == 0 or self.rows[number - 1][server]

    def expect(self, name: str, accepting: Iterable[int]) -> None:
        """Set what :meth:`ask` returns for a server, as a log has it."""
        self._expected[name] = list(accepting)

    def ask(self, name: str, record: Server) -> list[int]:
        """Return the numbers of the predicates that accept a new server."""
        if name in self._expected:
            return self._expected.pop(name)
        accepting = []
        for number, predicate in enumerate(self._predicates):
            try:
                # A remembered predicate cannot be called: its last answer holds.
                remembered = isinstance(predicate, Remembered)
                yes = name in self.answers[number] if remembered else bool(predicate(record))
            except Exception as error:
                rule = f"must accept every server (on {name}: {type(error).__name__}: {error})"
                raise InputError("predicate of servers", rule) from error
            if yes:
                accepting.append(number)
        return accepting

    def column(self, position: int, accepting: Iterable[int]) -> list[bool]:
        """Return for each pair whether it allows the server at `position`."""
        accepted = set(accepting)

        def holds(terms: Terms | None) -> bool:
            return terms is None or any(
                term in accepted if isinstance(term, int) else self.nodes.allows([term], position)
                for term in terms
            )

        return [holds(first) and holds(second) for first, second in self.pairs]

    def rows_with(self, position: int, column: list[bool]) -> list[list[bool]] | None:
        """Return the rows with this column for a server; None if unchanged."""
        if all(row[position] == may for row, may in zip(self.rows, column, strict=True)):
            return None
        pairs = zip(self.rows, column, strict=True)
        return [[*row[:position], may, *row[position + 1 :]] for row, may in pairs]

    def settle(self, position: int, accepting: Iterable[int], column: list[bool]) -> None:
        """Keep what :meth:`column` found."""
        name = self.nodes.entries[position].name
        accepted = set(accepting)
        for number, names in enumerate(self.answers):
            (names.add if number in accepted else names.discard)(name)
        for row, may in zip(self.rows, column, strict=True):
            row[position:] = [may, *row[position + 1 :]]


def to_json(terms: Terms | None) -> list[Any] | None:
    """Return terms as JSON has them.

    Examples
    --------
    >>> to_json(("a", {"zone": ("x", "y")}, 0))
    ['a', {'zone': ['x', 'y']}, 0]
    """
    if terms is None:
        return None
    return [
        {key: list(choices) for key, choices in term.items()} if isinstance(term, Mapping) else term
        for term in terms
    ]


def from_json(terms: list[Any] | None) -> list[Any] | None:
    """Return a restriction that :meth:`Restrictions.read` takes.

    Examples
    --------
    >>> from_json(["a", 0])
    ['a', Remembered(number=0)]
    """
    if terms is None:
        return None
    return [Remembered(term) if isinstance(term, int) else term for term in terms]
