"""Reader of YAML (and so JSON) into plain values with line numbers.

Not `yaml.safe_load`, for three reasons: an error must name the line; YAML 1.1 turns ``no`` into
False, ``1:30`` into 90 and ``1e3`` into text; and aliases or nesting must not blow up. This
reads the event stream of the parser, which does not recurse, and follows the YAML 1.2 core
schema (`drfh.files.yaml`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml

from drfh.errors import InputError

__all__ = ["Document", "Scalar", "dump", "parse", "plain", "resolve", "written"]


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
    """A number or boolean, with the text as written."""

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


#: How many values aliases may add to a file, and how deep it may be nested.
ALIAS_BUDGET = 1_000_000
DEEPEST = 20

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# What YAML does not allow in a text, except the byte order mark.
_CONTROL = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# JSON writes a character beyond U+FFFF as two escapes; YAML knows only one long escape.
_PAIR = re.compile(r"(\\\\)|\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")

Lines: TypeAlias = dict[str | int, int]


@dataclass(slots=True)
class Document:
    """The values of a file, and their lines."""

    root: Any
    place: str
    first_line: int
    # By identity of a dict or list: the line of each of its entries.
    lines: dict[int, Lines]

    def line(self, path: str) -> int:
        r"""Return the line of a field such as ``users[2].demand.cpu``, or the nearest.

        Examples
        --------
        >>> document = parse("users:\n- name: ann\n  demand:\n    nvidia.com/gpu: 1", "a.yaml")
        >>> document.line("users[0].demand.nvidia.com/gpu"), document.line("users[0].weight")
        (4, 2)
        """
        line, here = self.first_line, self.root
        while path:
            found = _step(here, path)
            if found is None:
                break
            key, path = found
            line = self.lines[id(here)][key]
            here = here[key]
        return line

    def at(self, error: InputError, section: str = "") -> InputError:
        """Return `error` with the file and line of its field, or of `section` if it has none."""
        path = error.field if _step(self.root, error.field) else section
        error.place = f"{self.place}, line {self.line(path)}"
        return error


def _step(here: Any, path: str) -> tuple[str | int, str] | None:
    """Split the first step off a path; keys may have dots, so the value says where it ends."""
    path = path.removeprefix(".")
    if isinstance(here, list):
        found = re.match(r"\[(\d+)\]", path)
        if found and int(found[1]) < len(here):
            return int(found[1]), path[found.end() :]
    elif isinstance(here, dict):
        fitting = [
            k for k in here if path.startswith(k) and path[len(k) : len(k) + 1] in ("", ".", "[")
        ]
        if fitting:
            key = max(fitting, key=len)
            return key, path[len(key) :]
    return None


@dataclass(slots=True)
class _Frame:
    """A mapping or list that is still open."""

    into: Any
    step: str
    anchor: str | None
    line: int
    lines: Lines = field(default_factory=dict)
    key: str | None = None
    key_line: int = 0
    size: int = 1


class _Builder:
    """Turns parser events into a :class:`Document`."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.document: Document | None = None
        self.lines: dict[int, Lines] = {}
        self.stack: list[_Frame] = []
        self.anchors: dict[str, tuple[Any, int]] = {}
        self.from_aliases = 0

    def fail(self, line: int, rule: str, *, within: str = "") -> InputError:
        steps = [frame.step for frame in self.stack if frame.step] + ([within] if within else [])
        path = "".join(s if s.startswith("[") else f".{s}" for s in steps).removeprefix(".")
        return InputError(path or "the file", rule, place=f"{self.place}, line {line}")

    def feed(self, event: Any) -> None:
        kind = type(event)
        if kind is yaml.ScalarEvent:
            self.scalar(event)
        elif kind is yaml.MappingStartEvent:
            self.open({}, event)
        elif kind is yaml.SequenceStartEvent:
            self.open([], event)
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            frame = self.stack.pop()
            self.lines[id(frame.into)] = frame.lines
            self.add(frame.into, frame.line, frame.size, frame.anchor)
        elif kind is yaml.AliasEvent:
            self.alias(event)
        elif kind is yaml.DocumentStartEvent and self.document is not None:
            raise self.fail(event.start_mark.line + 1, "must hold one document, not several")

    def scalar(self, event: Any) -> None:
        line = event.start_mark.line + 1
        self.refuse_tag(event, line)
        top = self.stack[-1] if self.stack else None
        if top is not None and top.key is None and type(top.into) is dict:
            if event.value in top.into:
                raise self.fail(line, "must be given only once", within=event.value)
            top.key, top.key_line = event.value, line
            return
        value = resolve(event.value) if event.implicit[0] else event.value
        self.add(value, line, 1, event.anchor)

    def open(self, into: Any, event: Any) -> None:
        line = event.start_mark.line + 1
        self.refuse_tag(event, line)
        if len(self.stack) >= DEEPEST:
            # The path would be as deep as the nesting: the line is enough.
            self.stack.clear()
            raise self.fail(line, f"must be nested at most {DEEPEST} deep")
        self.stack.append(_Frame(into, self.step(line), event.anchor, line))

    def alias(self, event: Any) -> None:
        line = event.start_mark.line + 1
        if any(frame.anchor == event.anchor for frame in self.stack):
            raise self.fail(line, f"must not contain itself (*{event.anchor})")
        if event.anchor not in self.anchors:
            raise self.fail(line, f"must not use *{event.anchor} before &{event.anchor}")
        value, size = self.anchors[event.anchor]
        self.step(line)
        self.from_aliases += size
        if self.from_aliases > ALIAS_BUDGET:
            raise self.fail(
                line, f"must not grow by more than {ALIAS_BUDGET:,} values through aliases"
            )
        self.add(value, line, size, None)

    def refuse_tag(self, event: Any, line: int) -> None:
        if event.tag is not None and event.tag != "!":
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            raise self.fail(
                line, f"must have no tags (quote text instead of {' '.join(tag.split())})"
            )

    def step(self, line: int) -> str:
        """Return the path step at which the next value comes; refuse it as a key."""
        if not self.stack:
            return ""
        top = self.stack[-1]
        if isinstance(top.into, list):
            return f"[{len(top.into)}]"
        if top.key is None:
            raise self.fail(line, "must have keys that are text")
        return top.key

    def add(self, value: Any, line: int, size: int, anchor: str | None) -> None:
        if anchor is not None:
            self.anchors[anchor] = value, size
        if not self.stack:
            self.document = Document(value, self.place, line, self.lines)
            return
        top = self.stack[-1]
        top.size += size
        if type(top.into) is dict:
            top.into[top.key] = value
            top.lines[top.key] = top.key_line  # type: ignore[index]  # a key came before
            top.key = None
        else:
            top.lines[len(top.into)] = line
            top.into.append(value)


def parse(text: str, place: str) -> Document:
    r"""Read YAML or JSON text.

    Parameters
    ----------
    text
        The whole file.
    place
        What to call it in errors.

    Examples
    --------
    >>> parse("a: [1, x]\n", "a.yaml").root
    {'a': [1, 'x']}
    >>> parse("a: 1\na: 2\n", "a.yaml")
    Traceback (most recent call last):
    drfh.errors.InputError: a.yaml, line 2: a must be given only once
    """
    wrong = _CONTROL.search(text)
    if wrong:
        line = text.count("\n", 0, wrong.start()) + 1
        raise InputError(
            "the file",
            "must be text, without control characters",
            wrong[0],
            place=f"{place}, line {line}",
        )
    if text.lstrip()[:1] == "{":
        text = _PAIR.sub(_joined, text)
    builder = _Builder(place)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.feed(event)
    except yaml.YAMLError as error:
        raise _syntax_error(error, text, place) from None
    if builder.document is None:
        raise InputError("the file", "must not be empty", place=place)
    return builder.document


def _joined(found: re.Match[str]) -> str:
    if found[1]:
        return found[1]  # an escaped backslash, which starts no escape
    high, low = int(found[2], 16), int(found[3], 16)
    return f"\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08X}"


def _syntax_error(error: yaml.YAMLError, text: str, place: str) -> InputError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    parts = [getattr(error, "context", None), getattr(error, "problem", None)]
    reason = ": ".join(part for part in parts if part) or " ".join(str(error).split())
    if mark is None:
        return InputError("the file", f"must be YAML or JSON ({reason})", place=place)
    lines = text.splitlines()
    line = min(mark.line, max(len(lines) - 1, 0))
    if lines and "\t" in lines[line][: len(lines[line]) - len(lines[line].lstrip())]:
        reason = "indent with spaces, not with a tab"
    return InputError(
        "the file", f"must be YAML or JSON ({reason})", place=f"{place}, line {line + 1}"
    )
