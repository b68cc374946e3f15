"""Rules by which a server admits tasks: its labels, its name, its taints.

A taint is a label whose name is ``taint:KEY:EFFECT``; its value is the value of the taint.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from drfh.errors import InputError, UnknownNameError
from drfh.model.cluster import Server

__all__ = [
    "OPERATORS",
    "RULE_SCHEMA",
    "AllOf",
    "AnyOf",
    "Match",
    "Rule",
    "RuleRecord",
    "Tolerates",
    "Toleration",
    "all_of",
    "matches_of",
    "named_servers",
    "parse_rule",
    "parse_taint",
    "renamed",
    "taint_label",
]

#: How labels are compared, as Kubernetes has it.
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_TAINT = "taint:"
_DEEPEST = 50


class RuleRecord:
    """Part of a rule."""

    __slots__ = ()

    def __call__(self, server: Server) -> bool:
        """Return whether it holds for a server."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return the rule, ready for a file."""
        raise NotImplementedError


def taint_label(key: str, effect: str) -> str:
    """Return the label that stands for a taint of a server.

    Examples
    --------
    >>> taint_label("nvidia.com/gpu", "NoSchedule")
    'taint:nvidia.com/gpu:NoSchedule'
    """
    return f"{_TAINT}{key}:{effect}"


def parse_taint(text: str) -> tuple[str, str]:
    """Read a taint as kubectl writes it; return the label and its value.

    Examples
    --------
    >>> parse_taint("gpu=yes:NoExecute"), parse_taint("gpu")
    (('taint:gpu:NoExecute', 'yes'), ('taint:gpu:NoSchedule', ''))
    """
    whole, colon, effect = text.rpartition(":")
    if not colon:
        whole, effect = text, "NoSchedule"
    key, _, value = whole.partition("=")
    if not key.strip() or effect not in ("NoSchedule", "NoExecute"):
        rule = "must look like KEY, KEY=VALUE or KEY=VALUE:NoSchedule (or NoExecute)"
        raise InputError("taint", rule, text)
    return taint_label(key.strip(), effect), value.strip()


@dataclass(frozen=True, slots=True)
class Match(RuleRecord):
    """Compares a label of a server, or its name.

    Parameters
    ----------
    label
        None for the name.
    operator
        One of :data:`OPERATORS`; ``Gt`` and ``Lt`` compare whole numbers.
    values
        What to compare with; one for ``Gt`` and ``Lt``, none for ``Exists``.

    Examples
    --------
    >>> rule = Match("zone", "In", ("a", "b"))
    >>> rule(Server({"cpu": 1}, labels={"zone": "b"})), str(rule)
    (True, 'zone=a|b')
    """

    label: str | None
    operator: str
    values: tuple[str, ...] = ()

    def __call__(self, server: Server) -> bool:
        """Return whether it holds for a server."""
        has = server.name if self.label is None else server.labels.get(self.label)
        if self.operator == "In":
            return has in self.values
        if self.operator == "NotIn":
            return has not in self.values
        if self.operator in ("Exists", "DoesNotExist"):
            return (has is not None) == (self.operator == "Exists")
        number, bound = _whole(has), _whole(self.values[0] if self.values else None)
        if number is None or bound is None:
            return False
        return number > bound if self.operator == "Gt" else number < bound

    def __str__(self) -> str:
        what = "name" if self.label is None else self.label
        if self.operator in ("Exists", "DoesNotExist"):
            return what if self.operator == "Exists" else f"no {what}"
        sign = {"In": "=", "NotIn": "≠", "Gt": ">", "Lt": "<"}[self.operator]
        return f"{what}{sign}{'|'.join(self.values)}"

    def to_dict(self) -> dict[str, Any]:
        """Return the rule, ready for a file."""
        label = {} if self.label is None else {"label": self.label}
        values = {"values": list(self.values)} if self.values else {}
        return {**label, "operator": self.operator, **values}


def _whole(written: str | None) -> int | None:
    found = re.fullmatch(r"-?[0-9]{1,19}", written or "")
    return int(found[0]) if found else None


class Toleration(NamedTuple):
    """A toleration; empty fields stand for any, and ``Exists`` for any value."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def covers(self, key: str, value: str, effect: str) -> bool:
        """Return whether a taint is tolerated."""
        if self.effect not in ("", effect) or self.key not in ("", key):
            return False
        return self.operator == "Exists" or (self.key == key and self.value == value)

    def __str__(self) -> str:
        value = "" if self.operator == "Exists" else f"={self.value}"
        return f"{self.key or 'all'}{value}{f':{self.effect}' if self.effect else ''}"


@dataclass(frozen=True, slots=True)
class Tolerates(RuleRecord):
    """Holds if every taint of a server is tolerated.

    Examples
    --------
    >>> tainted = Server({"gpu": 1}, labels={"taint:gpu:NoSchedule": "yes"})
    >>> Tolerates(())(tainted), Tolerates((Toleration("gpu", "Exists"),))(tainted)
    (False, True)
    """

    tolerations: tuple[Toleration, ...] = ()

    def __call__(self, server: Server) -> bool:
        """Return whether it holds for a server."""
        for label, value in server.labels.items():
            if label.startswith(_TAINT):
                key, _, effect = label[len(_TAINT) :].rpartition(":")
                if not any(one.covers(key, value, effect) for one in self.tolerations):
                    return False
        return True

    def __str__(self) -> str:
        listed = ", ".join(map(str, self.tolerations))
        return f"tolerates {listed}" if listed else "no taints"

    def to_dict(self) -> dict[str, Any]:
        """Return the rule, ready for a file."""
        plain = [{k: v for k, v in one._asdict().items() if v} for one in self.tolerations]
        return {"tolerates": plain}


@dataclass(frozen=True, slots=True)
class AllOf(RuleRecord):
    """Holds if all its rules hold.

    Examples
    --------
    >>> rule = AllOf((Match("zone", "In", ("a",)), Tolerates()))
    >>> str(rule), rule(Server({"cpu": 1}, labels={"zone": "a"}))
    ('zone=a and no taints', True)
    """

    rules: tuple[Rule, ...]

    def __call__(self, server: Server) -> bool:
        """Return whether it holds for a server."""
        return all(rule(server) for rule in self.rules)

    def __str__(self) -> str:
        return " and ".join(map(_inside, self.rules)) or "everywhere"

    def to_dict(self) -> dict[str, Any]:
        """Return the rule, ready for a file."""
        return {"all": [rule.to_dict() for rule in self.rules]}


@dataclass(frozen=True, slots=True)
class AnyOf(RuleRecord):
    """Holds if one of its rules holds.

    Examples
    --------
    >>> rule = AnyOf((Match("partition/a", "Exists"), Match("partition/b", "Exists")))
    >>> str(rule), rule(Server({"cpu": 1}))
    ('partition/a or partition/b', False)
    """

    rules: tuple[Rule, ...]

    def __call__(self, server: Server) -> bool:
        """Return whether it holds for a server."""
        return any(rule(server) for rule in self.rules)

    def __str__(self) -> str:
        return " or ".join(map(_inside, self.rules)) or "nowhere"

    def to_dict(self) -> dict[str, Any]:
        """Return the rule, ready for a file."""
        return {"any": [rule.to_dict() for rule in self.rules]}


Rule: TypeAlias = Match | Tolerates | AllOf | AnyOf


def _inside(rule: Rule) -> str:
    several = isinstance(rule, (AllOf, AnyOf)) and len(rule.rules) > 1
    return f"({rule})" if several else str(rule)


def all_of(rules: Iterable[Rule]) -> Rule:
    """Return one rule for several that must all hold.

    Examples
    --------
    >>> all_of([Match("zone", "Exists")])
    Match(label='zone', operator='Exists', values=())
    """
    listed = tuple(rules)
    return listed[0] if len(listed) == 1 else AllOf(listed)


def matches_of(rule: Rule) -> Iterator[Match]:
    """Yield the comparisons of labels and names that a rule is made of.

    Examples
    --------
    >>> [str(match) for match in matches_of(AllOf((Match("zone", "Exists"), Tolerates())))]
    ['zone']
    """
    if isinstance(rule, Match):
        yield rule
    elif not isinstance(rule, Tolerates):
        for one in rule.rules:
            yield from matches_of(one)


def named_servers(rule: Rule) -> set[str]:
    """Return the servers that a rule names.

    Examples
    --------
    >>> named_servers(AllOf((Match(None, "NotIn", ("n3",)), Tolerates())))
    {'n3'}
    """
    return {name for one in matches_of(rule) if one.label is None for name in one.values}


def renamed(rule: Rule, name: Callable[[str], str | None]) -> Rule:
    """Return a rule with other names of servers; None for those that are gone.

    Examples
    --------
    >>> renamed(Match(None, "In", ("a", "b")), {"a": "c"}.get)
    Match(label=None, operator='In', values=('c',))
    """
    if isinstance(rule, Tolerates) or not named_servers(rule):
        return rule
    if isinstance(rule, Match):
        kept = tuple(new for old in rule.values if (new := name(old)) is not None)
        return Match(None, rule.operator, kept)
    return type(rule)(tuple(renamed(one, name) for one in rule.rules))


def parse_rule(value: Any, field: str = "rule", depth: int = 0) -> Rule:
    """Read a rule of a file.

    Examples
    --------
    >>> parse_rule({"any": [{"label": "zone", "operator": "In", "values": ["a"]},
    ...                     {"tolerates": [{"key": "gpu", "operator": "Exists"}]}]})
    ... # doctest: +NORMALIZE_WHITESPACE
    AnyOf(rules=(Match(label='zone', operator='In', values=('a',)),
                 Tolerates(tolerations=(Toleration(key='gpu', operator='Exists', value='',
                                                   effect=''),))))
    """
    if not isinstance(value, Mapping) or depth > _DEEPEST:
        raise InputError(field, "must be all, any, tolerates, or operator with label", value)
    for several, record in (("all", AllOf), ("any", AnyOf)):
        if several in value:
            _only(value, {several}, field)
            inner = _listed(value[several], f"{field}.{several}")
            rules = (
                parse_rule(one, f"{field}.{several}[{number}]", depth + 1)
                for number, one in enumerate(inner)
            )
            return record(tuple(rules))
    if "tolerates" in value:
        _only(value, {"tolerates"}, field)
        place = f"{field}.tolerates"
        found = []
        for number, one in enumerate(_listed(value["tolerates"], place)):
            if not isinstance(one, Mapping):
                raise InputError(f"{place}[{number}]", "must have key, value or effect", one)
            _only(one, set(Toleration._fields), f"{place}[{number}]")
            found.append(Toleration(**{str(k): str(v) for k, v in one.items()}))
        return Tolerates(tuple(found))
    _only(value, {"label", "operator", "values"}, field)
    operator = value.get("operator")
    if operator not in OPERATORS:
        raise UnknownNameError(f"{field}.operator", str(operator), OPERATORS)
    label = value.get("label")
    values = _listed(value.get("values", ()), f"{field}.values")
    if not all(isinstance(one, (str, int, float)) for one in (*values, label or "")):
        raise InputError(f"{field}.values", "must be a list of texts", value)
    return Match(None if label is None else str(label), operator, tuple(str(one) for one in values))


def _listed(value: Any, field: str) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise InputError(field, "must be a list", value)
    return list(value)


def _only(value: Mapping[Any, Any], known: set[str], field: str) -> None:
    for key in value:
        if key not in known:
            raise UnknownNameError(f"key of {field}", str(key), known)


_RULES = {"type": "array", "items": {"$ref": "#/$defs/Rule"}}
#: JSON Schema of a rule in a file, which refers to itself as ``#/$defs/Rule``.
RULE_SCHEMA: Mapping[str, Any] = {
    "description": "A rule on labels, name and taints of a server.",
    "type": "object",
    "properties": {
        "all": {**_RULES, "description": "Rules that must all hold."},
        "any": {**_RULES, "description": "Rules of which one must hold."},
        "tolerates": {
            "description": "Holds if one of these covers each taint of the server.",
            "type": "array",
            "items": {
                "type": "object",
                "properties": {name: {"type": "string"} for name in Toleration._fields},
                "additionalProperties": False,
            },
        },
        "label": {"description": "Left out: the name of the server.", "type": "string"},
        "operator": {"description": "How to compare.", "enum": list(OPERATORS)},
        "values": {
            "description": "What to compare with.",
            "type": "array",
            "items": {"type": "string"},
        },
    },
    "oneOf": [
        *({"required": [key], "maxProperties": 1} for key in ("all", "any", "tolerates")),
        {"required": ["operator"]},
    ],
    "additionalProperties": False,
}
