"""Slurm's notation of numbers, TRES, GRES, node lists, job arrays and constraints.

Each version writes some of them in its own way; all ways are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from drfh.errors import InputError
from drfh.model.cluster import Server
from drfh.model.rules import AnyOf, Match, Rule, all_of
from drfh.wire.documents import listing, text

__all__ = [
    "array_indices",
    "count_array_tasks",
    "expand_node_list",
    "feature_label",
    "meets_constraint",
    "parse_constraint",
    "parse_gres",
    "parse_job_name",
    "parse_names",
    "parse_number",
    "parse_tres",
]

# Numbers and names

_UNSET = (4294967294.0, 4294967295.0)  # NO_VAL and INFINITE of older versions
_BINARY = {"": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40, "P": 2.0**50}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)B?", re.IGNORECASE | re.ASCII)


def parse_number(value: Any, field: str) -> float | None:
    """Return a number ≥ 0, plain or ``{"set": true, "infinite": false, "number": 4}``.

    None if it is not set or infinite.

    Examples
    --------
    >>> parse_number(4, "cpus"), parse_number({"set": True, "infinite": False, "number": 4}, "cpus")
    (4.0, 4.0)
    >>> parse_number({"set": False, "number": 0}, "cpus") is None
    True
    """
    if isinstance(value, dict):
        if value.get("infinite") is True or value.get("set") is False:
            return None
        value = value.get("number")
    if value is None or value == "":
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 2**62:
        raise InputError(field, "must be a number ≥ 0", value)
    return None if float(value) in _UNSET else float(value)


def parse_names(value: Any, field: str) -> tuple[str, ...]:
    """Return names, from a list or from text with commas.

    Examples
    --------
    >>> parse_names("skylake,ib", "features"), parse_names(["a"], "features")
    (('skylake', 'ib'), ('a',))
    """
    if value is None:
        return ()
    listed = value.split(",") if isinstance(value, str) else listing(value, field)
    given = [name.strip() if isinstance(name, str) else name for name in listed]
    return tuple(text(name, field) for name in given if name != "")


def _amount(written: str, field: str, unit: str = "") -> float:
    found = _AMOUNT.fullmatch(written)
    if found is None:
        raise InputError(field, "must be a number such as 4, 62.5G or 4096M", written)
    return float(found[1]) * _BINARY[(found[2] or unit).upper()]


# Trackable and generic resources

_GRES = re.compile(r"([^,()]+)(\([^)]*\))?")
_GRES_COUNT = re.compile(r"\(CNT:(\d{1,15})\)", re.ASCII)


def parse_tres(value: Any, field: str) -> dict[str, float]:
    """Return the amounts of a TRES string; memory in bytes, as Slurm's G is 2³⁰.

    What belongs to no node (nodes, billing, energy, licenses, file systems) is left out.

    Examples
    --------
    >>> parse_tres("cpu=4,mem=16G,node=1,billing=4,gres/gpu=2,gres/gpu:a100=2", "tres")
    {'cpu': 4.0, 'memory': 17179869184.0, 'gres/gpu': 2.0}
    """
    if value is None or value == "":
        return {}
    if not isinstance(value, str):
        raise InputError(field, "must be text such as cpu=4,mem=16G", value)
    found: dict[str, float] = {}
    typed: dict[str, float] = {}
    for part in value.split(","):
        name, equals, written = part.strip().partition("=")
        if not equals:
            raise InputError(field, "must be text such as cpu=4,mem=16G", value)
        if name == "cpu":
            found["cpu"] = _amount(written, field)
        elif name == "mem":
            found["memory"] = _amount(written, field, "M")
        elif name.startswith("gres/"):
            general, colon, _ = text(name, field).partition(":")
            known = typed if colon else found
            known[general] = known.get(general, 0.0) + _amount(written, field)
    return {**found, **{name: a for name, a in typed.items() if name not in found}}


def parse_gres(value: Any, field: str) -> dict[str, float]:
    """Return the amounts of a GRES string; types of one resource are added up.

    Examples
    --------
    >>> parse_gres("gpu:a100:4(S:0-1),gpu:v100:2", "gres")
    {'gres/gpu': 6.0}
    >>> parse_gres("gres:accel:a100:2", "gres"), parse_gres("accel:a100(CNT:2)", "gres")
    ({'gres/accel': 2.0}, {'gres/accel': 2.0})
    """
    if value is None:
        return {}
    if not isinstance(value, str):
        raise InputError(field, "must be text such as gpu:a100:4", value)
    found: dict[str, float] = {}
    if value in ("(null)", "N/A"):
        return found
    for part in _GRES.finditer(value):
        named = part[1].strip().replace("=", ":").removeprefix("gres/").removeprefix("gres:")
        if not named:
            continue
        name, *rest = named.split(":")
        counted = _GRES_COUNT.search(part[2] or "")
        if counted:
            amount = float(counted[1])
        elif rest and _AMOUNT.fullmatch(rest[-1]):
            amount = _amount(rest[-1], field)
        else:
            amount = 1.0
        key = f"gres/{text(name, field)}"
        found[key] = found.get(key, 0.0) + amount
    return found


# Node lists

_MAX_NAMES = 1_000_000
_NODE_LIST = re.compile(r"(?:[^\[\]]|\[[^\[\]]*\])+")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?(?::(\d{1,18}))?", re.ASCII)


def expand_node_list(value: Any, field: str) -> tuple[str, ...]:
    """Return the names in a node list.

    Examples
    --------
    >>> expand_node_list("node[01-03,07],login1", "nodes")
    ('node01', 'node02', 'node03', 'node07', 'login1')
    >>> expand_node_list("r[1-2]n[1-2]", "nodes")
    ('r1n1', 'r1n2', 'r2n1', 'r2n2')
    """
    if value is None or value in ("", "(null)", "None assigned"):
        return ()
    if not isinstance(value, str) or _NODE_LIST.fullmatch(value) is None:
        raise InputError(field, "must be a node list such as node[01-03,07]", value)
    names: list[str] = []
    for part in re.findall(r"(?:\[[^\]]*\]|[^,\[])+", value):
        heads = [""]
        for piece in re.findall(r"\[[^\]]*\]|[^\[]+", part.strip()):
            tails = _expand_ranges(piece[1:-1], field) if piece.startswith("[") else [piece]
            if len(heads) * len(tails) + len(names) > _MAX_NAMES:
                raise InputError(field, f"must name at most {_MAX_NAMES:,} nodes", value)
            heads = [head + tail for head in heads for tail in tails]
        names += heads
    for name in names:
        text(name, field)
    return tuple(dict.fromkeys(names))


def _expand_ranges(inside: str, field: str) -> list[str]:
    names: list[str] = []
    for part in inside.split(","):
        found = _RANGE.fullmatch(part.strip())
        if found is None or found[3] is not None:
            raise InputError(field, "must have ranges such as 01-03 in brackets", inside)
        first, last = found[1], found[2] or found[1]
        size = int(last) - int(first) + 1
        if not 1 <= size <= _MAX_NAMES:
            raise InputError(field, "must have ranges such as 01-03 in brackets", inside)
        names += [str(i).zfill(len(first)) for i in range(int(first), int(last) + 1)]
    return names


# Job arrays

_MAX_ARRAY_TASKS = 4_000_001  # what Slurm allows
_JOB_NAME = re.compile(r"(\d{1,18})(?:_(\d{1,18}|\[[^\]]*\]?))?")


def _array_ranges(value: Any, field: str) -> tuple[list[range], bool]:
    if not isinstance(value, str):
        raise InputError(field, "must be text such as 1-10:2%4", value)
    ranges, cut = [], False
    for part in value.partition("%")[0].strip("[]").split(","):
        if part.strip() == "...":
            cut = True
            continue
        found = _RANGE.fullmatch(part.strip())
        step = int(found[3] or 1) if found else 0
        if found is None or step < 1 or int(found[2] or found[1]) < int(found[1]):
            raise InputError(field, "must be text such as 1-10:2%4", value)
        first, last = int(found[1]), int(found[2] or found[1])
        # Of huge numbers len() of the range itself would overflow.
        if (last - first) // step >= _MAX_ARRAY_TASKS:
            raise InputError(field, f"must be at most {_MAX_ARRAY_TASKS:,} tasks", value)
        ranges.append(range(first, last + 1, step))
    if not 1 <= sum(map(len, ranges)) <= _MAX_ARRAY_TASKS:
        raise InputError(field, f"must be at most {_MAX_ARRAY_TASKS:,} tasks", value)
    return ranges, cut


def count_array_tasks(value: Any, field: str) -> tuple[int, bool]:
    """Return the number of pending tasks of an array, and whether Slurm cut the list short.

    Examples
    --------
    >>> count_array_tasks("6,9,20-29:3%2", "array_task_string")
    (6, False)
    >>> count_array_tasks("", "array_task_string"), count_array_tasks("1,3,...", "tasks")
    ((1, False), (2, True))
    """
    if value is None or value == "":
        return 1, False
    ranges, cut = _array_ranges(value, field)
    return sum(map(len, ranges)), cut


def array_indices(value: Any, field: str) -> list[int]:
    """Return the indices of the pending tasks of an array; of a list cut short, those in it.

    Examples
    --------
    >>> array_indices("6,9,20-29:3%2", "array_task_string")
    [6, 9, 20, 23, 26, 29]
    """
    return [index for part in _array_ranges(value, field)[0] for index in part]


def parse_job_name(name: str) -> tuple[str, str | None]:
    """Return the number of a job, and its array index if it names a single task.

    Examples
    --------
    >>> parse_job_name("12_3"), parse_job_name("12_[4-9%2]")
    (('12', '3'), ('12', None))
    >>> parse_job_name("all")
    Traceback (most recent call last):
    drfh.errors.InputError: job must be a number such as 12, or 12_3 for a task of an array, \
got 'all'
    """
    found = _JOB_NAME.fullmatch(name.strip())
    if found is None:
        raise InputError("job", "must be a number such as 12, or 12_3 for a task of an array", name)
    task = found[2]
    if task is None or task.startswith("["):
        return str(int(found[1])), None
    return str(int(found[1])), str(int(task))


# Constraints

_TOKEN = re.compile(r"\s*([&|()\[\]]|[^&|()\[\]*,\s]+)(?:\*\d+)?")
_MAX_TOKENS = 1000


def parse_constraint(constraint: str) -> Rule:
    """Read a constraint as a rule on the features of a node.

    In square brackets any one feature is enough: they are about several nodes together.

    Examples
    --------
    >>> str(parse_constraint("a100|(ib&skylake)"))
    'feature/a100 or (feature/ib and feature/skylake)'
    >>> str(parse_constraint("[rack1*2&rack2*4]"))
    'feature/rack1 or feature/rack2'
    """
    tokens: list[str] = []
    start, whole = 0, constraint.rstrip()
    while start < len(whole):
        token = _TOKEN.match(whole, start)
        if token is None or len(tokens) > _MAX_TOKENS:
            raise _bad_constraint(constraint)
        tokens.append(token[1])
        start = token.end()
    rule, end = _disjunction(tokens, 0, constraint)
    if end != len(tokens):
        raise _bad_constraint(constraint)
    return rule


def meets_constraint(constraint: str, features: Iterable[str]) -> bool:
    """Return whether one node with these features meets a constraint.

    Examples
    --------
    >>> meets_constraint("skylake&bigmem", {"skylake"})
    False
    """
    labels = {feature_label(name): "yes" for name in features}
    return parse_constraint(constraint)(Server({"cpu": 1}, labels=labels))


def feature_label(name: str) -> str:
    """Return the label of a server that has a feature.

    Examples
    --------
    >>> feature_label("ib")
    'feature/ib'
    """
    return f"feature/{name}"


def _bad_constraint(constraint: str) -> InputError:
    return InputError("features", "must be a constraint such as a100|(ib&skylake)", constraint)


def _disjunction(tokens: list[str], start: int, whole: str) -> tuple[Rule, int]:
    rule, end = _conjunction(tokens, start, whole)
    rules = [rule]
    while end < len(tokens) and tokens[end] == "|":
        rule, end = _conjunction(tokens, end + 1, whole)
        rules.append(rule)
    return rules[0] if len(rules) == 1 else AnyOf(tuple(rules)), end


def _conjunction(tokens: list[str], start: int, whole: str) -> tuple[Rule, int]:
    rule, end = _term(tokens, start, whole)
    rules = [rule]
    while end < len(tokens) and tokens[end] == "&":
        rule, end = _term(tokens, end + 1, whole)
        rules.append(rule)
    return all_of(rules), end


def _term(tokens: list[str], start: int, whole: str) -> tuple[Rule, int]:
    token = tokens[start] if start < len(tokens) else ""
    if token == "(":
        rule, end = _disjunction(tokens, start + 1, whole)
        if end >= len(tokens) or tokens[end] != ")":
            raise _bad_constraint(whole)
        return rule, end + 1
    if token == "[":
        if "]" not in tokens[start:]:
            raise _bad_constraint(whole)
        end = tokens.index("]", start)
        names = (name for name in tokens[start + 1 : end] if name not in "&|()[")
        return AnyOf(tuple(Match(feature_label(name), "Exists") for name in names)), end + 1
    if token in ("", "&", "|", ")", "]"):
        raise _bad_constraint(whole)
    return Match(feature_label(token), "Exists"), start + 1
