"""What unquoted text in YAML means (the 1.2 core schema), and writing values so that it holds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import yaml

__all__ = ["Scalar", "dump", "plain", "resolve", "written"]

_WORDS = {
    **dict.fromkeys(["", "~", "null", "Null", "NULL"]),
    **dict.fromkeys(["true", "True", "TRUE"], True),
    **dict.fromkeys(["false", "False", "FALSE"], False),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], float("nan")),
    **dict.fromkeys([".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"], float("inf")),
    **dict.fromkeys(["-.inf", "-.Inf", "-.INF"], float("-inf")),
}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NUMBER_STARTS = frozenset("-+.0123456789")
_BREAKS = re.compile("[\x85\u2028\u2029]")
# Python refuses to read integers of more than 4,300 digits.
_LONGEST_INTEGER = 400


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number or truth value, with the text as written (a name may be ``007``)."""

    value: Any
    text: str

    def __repr__(self) -> str:
        return repr(self.value)


def resolve(text: str) -> Any:
    """Return the value of unquoted text: None, a string, or a :class:`Scalar`.

    Examples
    --------
    >>> [resolve(text) for text in ("1e3", "007", "no", "1:30", "true", "~")]
    [1000.0, 7, 'no', '1:30', True, None]
    >>> resolve("007").text
    '007'
    """
    if text[:1] in _NUMBER_STARTS:
        if _INTEGER.fullmatch(text) and len(text) <= _LONGEST_INTEGER:
            return Scalar(int(text), text)
        if _FLOAT.fullmatch(text):
            return Scalar(float(text), text)
        if _BASED.fullmatch(text) and len(text) <= _LONGEST_INTEGER:
            return Scalar(int(text, 0), text)
    if text in _WORDS:
        value = _WORDS[text]
        return None if value is None else Scalar(value, text)
    return text


def plain(value: Any) -> Any:
    """Return a value without :class:`Scalar` in it.

    Examples
    --------
    >>> plain({"a": [Scalar(7, "007")]})
    {'a': [7]}
    """
    if isinstance(value, Scalar):
        return value.value
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [plain(entry) for entry in value]
    return value


def written(value: Any) -> Any:
    """Return the text of a scalar as written; anything else unchanged.

    Examples
    --------
    >>> written(Scalar(7, "007")), written("ann"), written(None)
    ('007', 'ann', None)
    """
    return value.text if isinstance(value, Scalar) else value


class _Dumper(yaml.SafeDumper):
    """Block style with indented lists and no aliases; quotes what `resolve` would not call text."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_str(self, data: str) -> yaml.ScalarNode:
        # Quotes of one kind keep these, and reading then folds them into spaces.
        style = '"' if _BREAKS.search(data) else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


_Dumper.add_representer(str, _Dumper.represent_str)
for _pattern in (_FLOAT, _BASED):
    _Dumper.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(f"(?:{_pattern.pattern})$"), sorted(_NUMBER_STARTS)
    )


def dump(data: Any) -> str:
    """Write plain values as YAML that :func:`parse` reads back unchanged.

    Examples
    --------
    >>> print(dump({"users": [{"name": "no", "version": "1e3", "weight": 2}]}), end="")
    users:
      - name: 'no'
        version: '1e3'
        weight: 2
    """
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text
