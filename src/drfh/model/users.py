"""Users: demand of a task, number of tasks, and allowed servers."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from drfh.errors import InputError, nearest
from drfh.model.cluster import Cluster, Server, check_name
from drfh.model.resources import FrozenMap, parse_amounts, parse_quantity, resource_columns
from drfh.model.rules import Rule, RuleRecord, parse_rule

__all__ = [
    "Kind",
    "Restriction",
    "Term",
    "User",
    "eligible_servers",
    "nearest_server",
    "parse_demand",
    "parse_restriction",
    "parse_weight",
    "resolve_restriction",
    "shown_restriction",
    "unknown_server",
]

#: One term of a restriction: a group or server name, labels, a rule, or (Python only) a predicate.
Term: TypeAlias = str | Mapping[str, Any] | Rule | Callable[[Server], bool]
Restriction: TypeAlias = Term | Sequence[Term]

# What a user without a demand has; told by identity from an empty one that was given.
_NO_DEMAND: FrozenMap[float] = FrozenMap()

# One tuple object for each set of resource names, so that many users share and compare it fast.
_NAMES: dict[tuple[str, ...], tuple[str, ...]] = {}


Record = TypeVar("Record")


def _numbers(field: str, values: Any) -> list[Any]:
    try:
        found: list[Any] = np.asarray(values, float).tolist()
    except (TypeError, ValueError):
        raise InputError(field, "must be numbers", values) from None
    return found if isinstance(found, list) else [found]


def _records(
    cls: Callable[..., Record], demand: Any, resources: Sequence[str] | None, **columns: Any
) -> Iterator[Record]:
    """Yield a record for each row of a table of demands, with its entry of each column."""
    demand, resources = resource_columns(demand, resources, "demand")
    try:
        table = np.asarray(demand, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("demand", "must be an array of numbers", demand) from None
    if table.ndim != 2 or table.shape[1] != len(resources):
        rule = f"must have the shape (rows, {len(resources)})"
        raise InputError("demand", rule, table.shape)
    lists: dict[str, list[Any]] = {}
    for name, values in columns.items():
        if values is None:
            continue
        numbers = name in ("tasks", "ratio", "weight") and None not in list(values)
        lists[name] = _numbers(name, values) if numbers else list(values)
        if len(lists[name]) != len(table):
            raise InputError(name, f"must have {len(table)} entries", len(lists[name]))
    for number, row in enumerate(table.tolist()):
        given = {name: values[number] for name, values in lists.items()}
        try:
            yield cls(demand=dict(zip(resources, row, strict=True)), **given)
        except InputError as error:
            raise error.within(f"[{number}]") from None


@dataclass(frozen=True, slots=True, init=False)
class Kind:
    """Tasks of one shape, among the kinds of tasks of a user.

    Parameters
    ----------
    demand
        What one task needs, by resource name; at least one amount is > 0.
    tasks
        How many tasks of this kind there are; None for no end.
    servers
        Where they may run, as for :class:`User`.
    ratio
        How many tasks of this kind are in one mix, > 0. By default `tasks` if all kinds of the
        user have an end, else 1.
    name
        Unique among the kinds of a user; by default its number, from 1.

    Examples
    --------
    >>> Kind({"cpu": 4, "gpu": 1}, tasks=10, servers={"pool": "gpu"})
    Kind({'cpu': 4.0, 'gpu': 1.0}, tasks=10.0, servers=({'pool': ('gpu',)},))
    """

    demand: Mapping[str, float]
    tasks: float | None
    servers: Restriction | None
    ratio: float | None
    name: str | None

    def __init__(
        self,
        demand: Mapping[str, float | str],
        *,
        tasks: float | str | None = None,
        servers: Restriction | None = None,
        ratio: float | str | None = None,
        name: str | None = None,
    ) -> None:
        check_name(name, "name", optional=True)
        set_ = object.__setattr__
        set_(self, "demand", parse_demand(demand))
        set_(self, "tasks", _parse_tasks(tasks))
        set_(self, "servers", None if servers is None else parse_restriction(servers))
        set_(self, "ratio", None if ratio is None else parse_weight(ratio, "ratio"))
        set_(self, "name", name)

    @classmethod
    def from_arrays(
        cls,
        demand: Any,
        resources: Sequence[str] | None = None,
        *,
        tasks: Any = None,
        ratios: Any = None,
        servers: Sequence[Restriction | None] | None = None,
    ) -> tuple[Kind, ...]:
        """Return many kinds at once.

        Parameters
        ----------
        demand
            Kinds × resources: an array, or a polars, pandas or Arrow table, whose columns are taken
            by name.
        resources
            Names of the columns; by default those of a table.
        tasks, ratios
            One number a kind; None for no end and for the default.
        servers
            One restriction a kind.

        Examples
        --------
        >>> Kind.from_arrays([[4, 1], [1, 0]], ["cpu", "gpu"], tasks=[10, 50])
        (Kind({'cpu': 4.0, 'gpu': 1.0}, tasks=10.0), Kind({'cpu': 1.0, 'gpu': 0.0}, tasks=50.0))
        """
        return tuple(_records(cls, demand, resources, tasks=tasks, ratio=ratios, servers=servers))

    def __reduce__(self) -> tuple[Any, ...]:
        names = ("demand", "tasks", "servers", "ratio", "name")
        return _kind, ({name: getattr(self, name) for name in names},)

    def __repr__(self) -> str:
        given = {"tasks": self.tasks, "servers": self.servers, "ratio": self.ratio}
        parts = [
            f"{name}={value!r}"
            for name, value in (given | {"name": self.name}).items()
            if value is not None
        ]
        return f"Kind({', '.join([repr(self.demand), *parts])})"


def _kind(arguments: dict[str, Any]) -> Kind:
    return Kind(**arguments)


def _parse_tasks(tasks: Any) -> float | None:
    rule = "must be a number ≥ 0, such as 100 (leave it out for no end)"
    return None if tasks is None else parse_quantity(tasks, "tasks", rule)


@dataclass(frozen=True, slots=True, init=False)
class User:
    """Somebody who runs tasks of one shape, or of several kinds.

    Parameters
    ----------
    name
        Unique among the users of a problem.
    demand
        What one task needs, by resource name. What is not mentioned is 0; at least one is > 0.
        Left out (an empty mapping), only the user's jobs say it: then there is nothing to
        allocate, but something to simulate.
    weight
        Entitlement relative to other users, > 0.
    tasks
        How many tasks there are; None for no end.
    servers
        Where tasks may run: the name of a group or server, labels (a mapping; a list of values
        means any of them), a rule of :mod:`drfh.model.rules`, a predicate on :class:`Server`, or
        a list of these of which one must hold. None for everywhere.
    parent
        Name of the group of users above, for hierarchical mechanisms.
    kinds
        Kinds of tasks, each with a demand, a number and servers of its own, instead of `demand`,
        `tasks` and `servers`. Just one kind is the same as these three.

    Examples
    --------
    >>> User("ann", {"cpu": "200m", "memory": 1})
    User('ann', {'cpu': 0.2, 'memory': 1.0})
    >>> User("bob", {"gpu": 1}, weight=2, tasks=10, servers={"gpu": ["a100", "h100"]}).tasks
    10.0
    """

    name: str
    demand: Mapping[str, float]
    weight: float
    tasks: float | None
    servers: Restriction | None
    parent: str | None
    kinds: tuple[Kind, ...]
    # The same numbers, ready to be joined into an array: weight, tasks, then the demand.
    row: bytes = field(init=False, repr=False, compare=False)
    needs: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        name: str,
        demand: Mapping[str, float | str] | None = None,
        *,
        weight: float | str = 1.0,
        tasks: float | str | None = None,
        servers: Restriction | None = None,
        parent: str | None = None,
        kinds: Sequence[Kind] = (),
    ) -> None:
        check_name(name, "name")
        several = _parse_kinds(kinds, demand=demand, tasks=tasks, servers=servers)
        if len(several) == 1:
            demand, tasks, servers = several[0].demand, several[0].tasks, several[0].servers
        none = demand is None or demand is _NO_DEMAND
        amounts = _NO_DEMAND if none else parse_demand(demand)
        entitled = parse_weight(weight)
        limit = _parse_tasks(tasks)
        check_name(parent, "parent", optional=True)
        names = tuple(amounts)
        set_ = object.__setattr__
        set_(self, "name", name)
        set_(self, "demand", amounts)
        set_(self, "weight", entitled)
        set_(self, "tasks", limit)
        set_(self, "servers", None if servers is None else parse_restriction(servers))
        set_(self, "parent", parent)
        set_(self, "kinds", several if len(several) > 1 else ())
        set_(self, "needs", _NAMES.setdefault(names, names))
        numbers = (entitled, math.inf if limit is None else limit, *amounts.values())
        set_(self, "row", struct.pack(f"{len(numbers)}d", *numbers))

    @classmethod
    def from_arrays(
        cls,
        names: Sequence[str],
        demand: Any,
        resources: Sequence[str] | None = None,
        *,
        weights: Any = None,
        tasks: Any = None,
        servers: Sequence[Restriction | None] | None = None,
    ) -> tuple[User, ...]:
        """Return many users at once.

        Parameters
        ----------
        names
            One a user.
        demand
            Users × resources: an array, or a polars, pandas or Arrow table, whose columns are taken
            by name.
        resources
            Names of the columns; by default those of a table.
        weights, tasks
            One number a user; by default 1, and no end. An infinite number of tasks is no end too.
        servers
            One restriction a user.

        Examples
        --------
        >>> User.from_arrays(["ann", "bob"], [[1], [2]], ["cpu"], weights=[1, 2])
        (User('ann', {'cpu': 1.0}), User('bob', {'cpu': 2.0}, weight=2.0))
        """
        limits = None if tasks is None else _numbers("tasks", tasks)
        if limits is not None:
            limits = [None if number == math.inf else number for number in limits]
        weights = [1.0] * len(names) if weights is None else weights
        return tuple(
            _records(
                cls, demand, resources, name=names, weight=weights, tasks=limits, servers=servers
            )
        )

    def __reduce__(self) -> tuple[Any, ...]:
        rest = {"weight": self.weight, "tasks": self.tasks, "servers": self.servers}
        demand = self.demand or None
        arguments = {"name": self.name, "demand": demand, **rest, "parent": self.parent}
        return _user, (arguments | {"kinds": self.kinds},)

    def __repr__(self) -> str:
        parts = [repr(self.name), repr(self.demand)] if self.demand else [repr(self.name)]
        if self.weight != 1:
            parts.append(f"weight={self.weight!r}")
        given = {"tasks": self.tasks, "servers": self.servers, "parent": self.parent}
        parts += [f"{name}={value!r}" for name, value in given.items() if value is not None]
        if self.kinds:
            parts.append(f"kinds={list(self.kinds)!r}")
        return f"User({', '.join(parts)})"


def _parse_kinds(kinds: Any, **instead: Any) -> tuple[Kind, ...]:
    """Return the kinds of a user, checked against each other and against what they replace."""
    if not isinstance(kinds, Sequence) or isinstance(kinds, str):
        raise InputError("kinds", "must be a list of drfh.Kind", kinds)
    if not kinds:
        return ()
    for name, value in instead.items():
        if value is not None and value is not _NO_DEMAND:
            raise InputError(name, "must be left out: each kind has its own", value)
    names: set[str] = set()
    for number, kind in enumerate(kinds):
        if not isinstance(kind, Kind):
            raise InputError(f"kinds[{number}]", "must be a drfh.Kind", kind)
        name = kind.name or str(number + 1)
        if name in names:
            raise InputError(f"kinds[{number}].name", "must be unique among the kinds", name)
        names.add(name)
    return tuple(kinds)


def _user(arguments: dict[str, Any]) -> User:
    return User(**arguments)


def parse_demand(demand: Any) -> FrozenMap[float]:
    """Read what one task needs.

    Examples
    --------
    >>> parse_demand({"cpu": "500m", "gpu": 1})
    {'cpu': 0.5, 'gpu': 1.0}
    """
    amounts = parse_amounts(demand, "demand")
    if not any(amounts.values()):
        rule = "must have at least one amount > 0 (else its tasks never end)"
        raise InputError("demand", rule, dict(amounts))
    return amounts


def parse_weight(weight: Any, field: str = "weight") -> float:
    """Read a weight, > 0.

    Examples
    --------
    >>> parse_weight("2.5")
    2.5
    """
    number = parse_quantity(weight, field, "must be a number > 0, such as 1 or 2.5")
    if number <= 0:
        raise InputError(field, "must be > 0", weight)
    return number


def parse_restriction(restriction: Any) -> tuple[Term, ...]:
    """Read a restriction as comparable terms, of which one must hold.

    Examples
    --------
    >>> parse_restriction({"zone": "a", "gpu": ["a100", "h100"]})
    ({'zone': ('a',), 'gpu': ('a100', 'h100')},)
    """
    single = isinstance(restriction, (str, Mapping)) or callable(restriction)
    listed = [restriction] if single else restriction
    if not isinstance(listed, Sequence) or not listed:
        raise InputError("servers", "must name servers or labels, or be left out", restriction)
    terms: list[Term] = []
    for term in listed:
        if isinstance(term, Mapping) and isinstance(term.get("rule"), Mapping):
            if len(term) > 1:
                raise InputError("servers", "must have nothing beside rule", dict(term))
            terms.append(parse_rule(term["rule"], "servers.rule"))
        elif isinstance(term, Mapping) and term:
            terms.append(FrozenMap({str(key): _choices(key, term[key]) for key in term}))
        elif isinstance(term, Hashable) and (callable(term) or (isinstance(term, str) and term)):
            terms.append(cast("Term", term))
        else:
            raise InputError("servers", "must be made of names, labels or predicates", term)
    return tuple(terms)


def _choices(label: Any, value: Any) -> tuple[str, ...]:
    if isinstance(value, (str, int, float)):
        return (str(value),)
    if not isinstance(value, Sequence) or not value:
        raise InputError(f"servers.{label}", "must be a value or a list of values", value)
    return tuple(str(choice) for choice in value)


def eligible_servers(user: User, cluster: Cluster) -> tuple[NDArray[np.bool_], dict[int, set[int]]]:
    """Resolve the restriction of a user.

    Returns
    -------
    groups
        For each group, whether all its servers may be used.
    singles
        For groups of which only some servers may be used, their indices.

    Examples
    --------
    >>> cluster = Cluster([Server({"cpu": 1}, name="a", count=9), Server({"cpu": 2}, name="b")])
    >>> eligible_servers(User("u", {"cpu": 1}, servers=["b", "a/3"]), cluster)
    (array([False,  True]), {0: {3}})
    """
    return resolve_restriction(user.servers or (), cluster, user.name)


def resolve_restriction(
    restriction: Restriction, cluster: Cluster, owner: str
) -> tuple[NDArray[np.bool_], dict[int, set[int]]]:
    """Resolve a restriction that `owner` (a name, for errors) has, as :func:`eligible_servers`.

    Examples
    --------
    >>> cluster = Cluster([Server({"cpu": 1}, name="a"), Server({"cpu": 2}, name="b")])
    >>> resolve_restriction("b", cluster, "job-1")
    (array([False,  True]), {})
    """
    groups = np.zeros(len(cluster), dtype=bool)
    singles: dict[int, set[int]] = {}
    for term in parse_restriction(restriction) if restriction else ():
        if isinstance(term, str):
            found = cluster.find_server(term)
            if found is None:
                counts = dict(zip(cluster.names, cluster.counts.tolist(), strict=True))
                raise unknown_server(owner, term, counts)
            group, index = found
            if index is None:
                groups[group] = True
            else:
                singles.setdefault(group, set()).add(index)
        elif isinstance(term, Mapping):
            groups |= cluster.labelled(term)
        else:
            groups |= np.array([_holds(term, server, owner) for server in cluster.servers])
    singles = {group: picked for group, picked in singles.items() if not groups[group]}
    if not groups.any() and not singles:
        rule = f"must match at least one server, got {shown_restriction(restriction)}"
        raise InputError(f"servers of {owner}", rule, item="servers")
    return groups, singles


def unknown_server(owner: str, name: str, counts: Mapping[str, int]) -> InputError:
    """Return the error for an unknown name in a restriction.

    Parameters
    ----------
    owner
        Who restricts itself to it.
    name
        The name.
    counts
        Number of servers of each group that there is.

    Examples
    --------
    >>> print(unknown_server("ann", "bgi", {"big": 3}))
    servers of ann must name a server or a group of the cluster (did you mean big?), got 'bgi'
    """
    rule = "must name a server or a group of the cluster"
    rule += nearest_server(name, counts)
    return InputError(f"servers of {owner}", rule, name, item="servers")


def nearest_server(name: str, counts: Mapping[str, int]) -> str:
    """Return which server may be meant, in parentheses after a blank; empty if none is near.

    Examples
    --------
    >>> nearest_server("bgi", {"big": 3}), nearest_server("big/3", {"big": 3})
    (' (did you mean big?)', ' (big has big/0 to big/2)')
    """
    group = name.rpartition("/")[0]
    if group in counts:
        return f" ({group} has {group}/0 to {group}/{counts[group] - 1})"
    near = nearest(name, counts)
    return f" (did you mean {near}?)" if near else ""


def _holds(predicate: Callable[[Server], bool], server: Server, owner: str) -> bool:
    try:
        return bool(predicate(server))
    except Exception as error:
        rule = f"must accept every server (on {server.name}: {type(error).__name__}: {error})"
        raise InputError(f"predicate of {owner}", rule, item="servers") from error


def shown_restriction(restriction: Restriction | None) -> str:
    """Return a restriction in words.

    Examples
    --------
    >>> shown_restriction(User("u", {"cpu": 1}, servers=["a", {"gpu": ["x", "y"]}]).servers)
    'a or gpu=x|y'
    """
    if restriction is None:
        return "all"
    return " or ".join(
        term
        if isinstance(term, str)
        else ", ".join(f"{key}={'|'.join(choices)}" for key, choices in term.items())
        if isinstance(term, Mapping)
        else str(term)
        if isinstance(term, RuleRecord)
        else getattr(term, "__name__", "a predicate")
        for term in parse_restriction(restriction)
    )
