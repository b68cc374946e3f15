"""How Slurm writes numbers, node lists, resources, arrays and constraints."""

from __future__ import annotations

import re
from collections.abc import Set
from typing import Any

from drfh.errors import InputError
from drfh.traces.documents import listing, text

__all__ = [
    "array_indices",
    "array_tasks",
    "expand_nodes",
    "gres",
    "meets",
    "number",
    "tres",
    "words",
]

_MOST_NAMES = 1_000_000
_MOST_ARRAY_TASKS = 4_000_001  # what Slurm allows
_UNSET = (4294967294.0, 4294967295.0)  # NO_VAL and INFINITE of older versions
_BINARY = {"": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40, "P": 2.0**50}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)B?", re.IGNORECASE | re.ASCII)
_GRES = re.compile(r"([^,()]+)(\([^)]*\))?")
_COUNT = re.compile(r"\(CNT:(\d{1,15})\)", re.ASCII)
_TOKEN = re.compile(r"\s*([&|()\[\]]|[^&|()\[\]*,\s]+)(?:\*\d+)?")
_NODE_LIST = re.compile(r"(?:[^\[\]]|\[[^\[\]]*\])+")
_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?(?::(\d{1,18}))?", re.ASCII)


def number(value: Any, field: str) -> float | None:
    """Return a number ≥ 0, plain or ``{"set": true, "infinite": false, "number": 4}``.

    None if it is not set or has no end.

    Examples
    --------
    >>> number(4, "cpus"), number({"set": True, "infinite": False, "number": 4}, "cpus")
    (4.0, 4.0)
    >>> number({"set": False, "number": 0}, "cpus") is None
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


def words(value: Any, field: str) -> tuple[str, ...]:
    """Return names, from a list or from text with commas.

    Examples
    --------
    >>> words("skylake,ib", "features"), words(["a"], "features"), words("", "features")
    (('skylake', 'ib'), ('a',), ())
    """
    if value is None:
        return ()
    listed = value.split(",") if isinstance(value, str) else listing(value, field)
    given = [word.strip() if isinstance(word, str) else word for word in listed]
    return tuple(text(word, field) for word in given if word != "")


def _amount(word: str, field: str, unit: str = "") -> float:
    found = _AMOUNT.fullmatch(word)
    if found is None:
        raise InputError(field, "must be a number such as 4, 62.5G or 4096M", word)
    return float(found[1]) * _BINARY[(found[2] or unit).upper()]


def tres(value: Any, field: str) -> dict[str, float]:
    """Read trackable resources; memory in bytes, as Slurm's G is 2³⁰.

    What belongs to no server (nodes, billing, energy, licenses, file systems) is left out.

    Examples
    --------
    >>> tres("cpu=4,mem=16G,node=1,billing=4,gres/gpu=2,gres/gpu:a100=2", "tres")
    {'cpu': 4.0, 'memory': 17179869184.0, 'gres/gpu': 2.0}
    """
    if value is None or value == "":
        return {}
    if not isinstance(value, str):
        raise InputError(field, "must be text such as cpu=4,mem=16G", value)
    found: dict[str, float] = {}
    typed: dict[str, float] = {}
    for part in value.split(","):
        name, equals, word = part.strip().partition("=")
        if not equals:
            raise InputError(field, "must be text such as cpu=4,mem=16G", value)
        if name == "cpu":
            found["cpu"] = _amount(word, field)
        elif name == "mem":
            found["memory"] = _amount(word, field, "M")
        elif name.startswith("gres/"):
            general, colon, _ = text(name, field).partition(":")
            known = typed if colon else found
            known[general] = known.get(general, 0.0) + _amount(word, field)
    return {**found, **{name: a for name, a in typed.items() if name not in found}}


def gres(value: Any, field: str) -> dict[str, float]:
    """Read generic resources as nodes and jobs list them, types put together.

    Examples
    --------
    >>> gres("gpu:a100:4(S:0-1),gpu:v100:2", "gres")
    {'gres/gpu': 6.0}
    >>> gres("gres:accel:a100:2", "gres"), gres("accel:a100(CNT:2)", "gres")
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
        counted = _COUNT.search(part[2] or "")
        if counted:
            amount = float(counted[1])
        elif rest and _AMOUNT.fullmatch(rest[-1]):
            amount = _amount(rest[-1], field)
        else:
            amount = 1.0
        key = f"gres/{text(name, field)}"
        found[key] = found.get(key, 0.0) + amount
    return found


def expand_nodes(value: Any, field: str) -> tuple[str, ...]:
    """Return the names in a node list.

    Examples
    --------
    >>> expand_nodes("node[01-03,07],login1", "nodes")
    ('node01', 'node02', 'node03', 'node07', 'login1')
    >>> expand_nodes("r[1-2]n[1-2]", "nodes")
    ('r1n1', 'r1n2', 'r2n1', 'r2n2')
    """
    if value is None or value in ("", "(null)", "None assigned"):
        return ()
    if not isinstance(value, str):
        raise InputError(field, "must be a node list such as node[01-03,07]", value)
    names: list[str] = []
    if _NODE_LIST.fullmatch(value) is None:
        raise InputError(field, "must be a node list such as node[01-03,07]", value)
    for part in re.findall(r"(?:\[[^\]]*\]|[^,\[])+", value):
        heads = [""]
        for piece in re.findall(r"\[[^\]]*\]|[^\[]+", part.strip()):
            tails = _ranges(piece[1:-1], field) if piece.startswith("[") else [piece]
            if len(heads) * len(tails) + len(names) > _MOST_NAMES:
                raise InputError(field, f"must name at most {_MOST_NAMES:,} nodes", value)
            heads = [head + tail for head in heads for tail in tails]
        names += heads
    for name in names:
        text(name, field)
    return tuple(dict.fromkeys(names))


def _ranges(inside: str, field: str) -> list[str]:
    names: list[str] = []
    for part in inside.split(","):
        found = _RANGE.fullmatch(part.strip())
        if found is None or found[3] is not None:
            raise InputError(field, "must have ranges such as 01-03 in brackets", inside)
        first, last = found[1], found[2] or found[1]
        size = int(last) - int(first) + 1
        if not 1 <= size <= _MOST_NAMES:
            raise InputError(field, "must have ranges such as 01-03 in brackets", inside)
        names += [str(i).zfill(len(first)) for i in range(int(first), int(last) + 1)]
    return names


def array_tasks(value: Any, field: str) -> tuple[int, bool]:
    """Return how many tasks of an array wait, and whether the list of them was cut short.

    Examples
    --------
    >>> array_tasks("6,9,20-29:3%2", "array_task_string")
    (6, False)
    >>> array_tasks("", "array_task_string"), array_tasks("1,3,...", "array_task_string")
    ((1, False), (2, True))
    """
    if value is None or value == "":
        return 1, False
    if not isinstance(value, str):
        raise InputError(field, "must be text such as 1-10:2%4", value)
    total, cut = 0, False
    for part in value.partition("%")[0].strip("[]").split(","):
        if part.strip() == "...":
            cut = True
            continue
        found = _RANGE.fullmatch(part.strip())
        step = int(found[3] or 1) if found else 0
        if found is None or step < 1 or int(found[2] or found[1]) < int(found[1]):
            raise InputError(field, "must be text such as 1-10:2%4", value)
        total += (int(found[2] or found[1]) - int(found[1])) // step + 1
    if not 1 <= total <= _MOST_ARRAY_TASKS:
        raise InputError(field, f"must be at most {_MOST_ARRAY_TASKS:,} tasks", value)
    return total, cut


def array_indices(value: Any, field: str) -> list[int]:
    """Return the numbers of the tasks of an array that wait; of a list cut short, those in it.

    Examples
    --------
    >>> array_indices("6,9,20-29:3%2", "array_task_string")
    [6, 9, 20, 23, 26, 29]
    """
    array_tasks(value, field)  # raises where it is not such a list
    indices: list[int] = []
    for part in str(value).partition("%")[0].strip("[]").split(","):
        found = _RANGE.fullmatch(part.strip())
        if found is not None:
            indices += range(int(found[1]), int(found[2] or found[1]) + 1, int(found[3] or 1))
    return indices


def meets(constraint: str, features: Set[str]) -> bool:
    """Return whether one node with these features meets a constraint.

    In square brackets any one feature will do: they are about several nodes together.

    Examples
    --------
    >>> meets("skylake&bigmem", {"skylake"}), meets("a100|(ib&skylake)", {"skylake", "ib"})
    (False, True)
    >>> meets("[rack1*2&rack2*4]", {"rack2"})
    True
    """
    tokens = _tokens(constraint)
    holds, end = _either(tokens, 0, features, constraint)
    if end != len(tokens):
        raise _wrong(constraint)
    return holds


def _tokens(constraint: str) -> list[str]:
    found: list[str] = []
    start = 0
    whole = constraint.rstrip()
    while start < len(whole):
        token = _TOKEN.match(whole, start)
        if token is None or len(found) > 1000:
            raise _wrong(constraint)
        found.append(token[1])
        start = token.end()
    return found


def _wrong(constraint: str) -> InputError:
    return InputError("features", "must be a constraint such as a100|(ib&skylake)", constraint)


def _either(tokens: list[str], start: int, features: Set[str], whole: str) -> tuple[bool, int]:
    holds, end = _both(tokens, start, features, whole)
    while end < len(tokens) and tokens[end] == "|":
        other, end = _both(tokens, end + 1, features, whole)
        holds = holds or other
    return holds, end


def _both(tokens: list[str], start: int, features: Set[str], whole: str) -> tuple[bool, int]:
    holds, end = _one(tokens, start, features, whole)
    while end < len(tokens) and tokens[end] == "&":
        other, end = _one(tokens, end + 1, features, whole)
        holds = holds and other
    return holds, end


def _one(tokens: list[str], start: int, features: Set[str], whole: str) -> tuple[bool, int]:
    token = tokens[start] if start < len(tokens) else ""
    if token == "(":
        holds, end = _either(tokens, start + 1, features, whole)
        if end >= len(tokens) or tokens[end] != ")":
            raise _wrong(whole)
        return holds, end + 1
    if token == "[":
        if "]" not in tokens[start:]:
            raise _wrong(whole)
        end = tokens.index("]", start)
        return any(word in features for word in tokens[start + 1 : end]), end + 1
    if token in ("", "&", "|", ")", "]"):
        raise _wrong(whole)
    return token in features, start + 1
