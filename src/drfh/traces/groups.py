"""Groups of nodes that have one shape and that the same rules admit."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from drfh.model.cluster import Cluster, Server
from drfh.model.resources import FrozenMap
from drfh.model.rules import AllOf, AnyOf, Match, Rule, Tolerates, matches_of
from drfh.model.users import Restriction, Term, parse_restriction

__all__ = ["NodeGroups", "group_nodes"]

_DIGITS = "0123456789"


@dataclass(frozen=True, slots=True)
class NodeGroups:
    """Nodes in groups, for a cluster whose nodes were records of their own.

    Attributes
    ----------
    cluster : Cluster
        The groups.
    nodes : mapping
        Names of the nodes of each group that has several.
    place : mapping
        Group of each node, and the name of the server that it is there.
    """

    cluster: Cluster
    nodes: Mapping[str, tuple[str, ...]]
    place: Mapping[str, tuple[str, str]]

    def restriction(self, restriction: Restriction | None) -> Restriction | None:
        """Return a restriction with groups in place of nodes."""
        if restriction is None:
            return None
        terms: dict[Term, None] = {}
        for term in parse_restriction(restriction):
            terms[self.place[term][0] if isinstance(term, str) else term] = None
        return tuple(terms)


def group_nodes(cluster: Cluster, restrictions: Iterable[Restriction | None]) -> NodeGroups:
    """Group the nodes of a cluster that no restriction tells apart.

    A group has the labels that its nodes have in common. It is called after them, such as
    ``worker-*``.

    Parameters
    ----------
    cluster
        One server a group.
    restrictions
        All that there are: rules and names.

    Examples
    --------
    >>> nodes = [Server({"cpu": 8}, name=f"worker-{i}", labels={"host": str(i)}) for i in (1, 2)]
    >>> found = group_nodes(Cluster([*nodes, Server({"cpu": 4}, name="small")]), [None])
    >>> found.cluster.names, found.nodes
    (('worker-*', 'small'), {'worker-*': ('worker-1', 'worker-2')})
    """
    parsed = [parse_restriction(one) for one in dict.fromkeys(restrictions) if one is not None]
    terms = dict.fromkeys(term for one in parsed for term in one if not isinstance(term, str))
    rules = [term for term in terms if isinstance(term, (Match, Tolerates, AllOf, AnyOf))]
    if cluster.size != len(cluster) or len(rules) != len(terms):
        names = cluster.names
        return NodeGroups(cluster, FrozenMap(), {name: (name, name) for name in names})
    servers = cluster.servers
    answers = [np.array([rule(server) for server in servers]) for rule in rules]
    for one in parsed:
        named = [cluster.group_index[term] for term in one if isinstance(term, str)]
        if named:
            answers.append(np.zeros(len(servers), dtype=bool))
            answers[-1][named] = True
    # Sums of what the system takes off may differ in the last digits.
    amounts, which = np.unique(cluster.capacity, return_inverse=True)
    rounded = np.array([float(f"{amount:.12g}") for amount in amounts.tolist()])
    shape = rounded[which].reshape(cluster.capacity.shape)
    told = np.array(answers, dtype=bool).reshape(len(answers), len(servers)).T.copy()
    groups: dict[bytes, list[int]] = {}
    for position, (size, admitted) in enumerate(zip(shape, told, strict=True)):
        groups.setdefault(size.tobytes() + admitted.tobytes(), []).append(position)
    return _named_groups(servers, groups.values(), rules)


def _named_groups(
    servers: Sequence[Server], groups: Iterable[list[int]], rules: Sequence[Rule]
) -> NodeGroups:
    labels = {match.label for rule in rules for match in matches_of(rule)} - {None}
    taken = {str(server.name) for server in servers}
    records: dict[int, Server] = {}
    nodes: dict[str, tuple[str, ...]] = {}
    place: dict[str, tuple[str, str]] = {}
    waiting = deque(groups)
    while waiting:
        positions = waiting.popleft()
        members = [servers[position] for position in positions]
        names = tuple(str(member.name) for member in members)
        record = members[0]
        if len(members) > 1:
            common = dict(members[0].labels)
            for member in members[1:]:
                common = {k: v for k, v in common.items() if member.labels.get(k) == v}
            name = _pattern(names, taken)
            record = Server(record.resources, name=name, count=len(members), labels=common)
            if any(rule(record) != rule(members[0]) for rule in rules):
                # What they have in common does not say it: their names or other labels do.
                waiting.extendleft(reversed(_finer(positions, servers, labels)))
                continue
            taken.add(name)
            nodes[name] = names
        records[positions[0]] = record
        for index, name in enumerate(names):
            group = str(record.name)
            place[name] = group, name if len(names) == 1 else f"{group}/{index}"
    ordered = [records[position] for position in sorted(records)]
    return NodeGroups(Cluster(ordered), FrozenMap(nodes), place)


def _finer(
    positions: Sequence[int], servers: Sequence[Server], labels: Iterable[str | None]
) -> list[list[int]]:
    """Return smaller groups: of equal values of some labels, or of one node each."""
    by_labels: dict[Any, list[int]] = {}
    for position in positions:
        values = tuple(servers[position].labels.get(str(label)) for label in labels)
        by_labels.setdefault(values, []).append(position)
    if len(by_labels) > 1:
        return list(by_labels.values())
    return [[position] for position in positions]


def _pattern(names: Sequence[str], taken: set[str]) -> str:
    """Return a name for nodes: what their names begin and end with."""
    start = _common_start(names).rstrip(_DIGITS)
    rest = [name[len(start) :][::-1] for name in names]
    end = _common_start(rest)[::-1].lstrip(_DIGITS)
    shown = f"{start}*{end}" if start or end else f"{names[0]} +{len(names) - 1}"
    name, number = shown, 2
    while name in taken:
        name, number = f"{shown} #{number}", number + 1
    return name


def _common_start(names: Sequence[str]) -> str:
    first, last = min(names), max(names)
    size = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), None)
    return first if size is None else first[:size]
