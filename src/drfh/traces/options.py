"""The options of a reader: declared once, checked here, from Python and from the command line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from drfh.errors import InputError, UnknownNameError

__all__ = ["SAMPLING", "WINDOW", "Option", "read_options"]

Kind = Literal["number", "whole", "choice", "text", "users"]
_RULES = {
    "number": "must be a finite number ≥ 0",
    "whole": "must be a whole number ≥ 0",
    "text": "must be text",
    "users": "must be a number of users ≥ 1, or a list of names",
}


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a reader.

    Parameters
    ----------
    name, help
        What it is called, and what it is for.
    kind
        What values it takes; ``users`` is a number or names.
    default
        None if it may be left out.
    choices
        The values of a ``choice``.

    Examples
    --------
    >>> option = Option("start", "Skip so many hours.", "number", 0.0)
    >>> option.read("1.5")
    1.5
    >>> option.read(-1)
    Traceback (most recent call last):
    drfh.errors.InputError: start must be a finite number ≥ 0, got -1
    """

    name: str
    help: str
    kind: Kind
    default: Any = None
    choices: tuple[str, ...] = ()

    def read(self, value: Any) -> Any:
        """Return a value of the right type; text stands for what it spells."""
        if value is None and self.default is None:
            return None
        if self.kind == "choice":
            if not isinstance(value, str) or value not in self.choices:
                raise UnknownNameError(self.name, str(value), self.choices)
            return value
        if self.kind == "text":
            if not isinstance(value, str) or not value:
                raise self._wrong(value)
            return value
        if self.kind == "users":
            return self._users(value)
        return self._number(value)

    def _number(self, value: Any) -> Any:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise self._wrong(value)
        try:
            number = float(value)
        except (ValueError, OverflowError):
            raise self._wrong(value) from None
        if not 0 <= number < math.inf:
            raise self._wrong(value)
        if self.kind == "number":
            return number
        if number != int(number) or number >= 2**62:
            raise self._wrong(value)
        return int(number)

    def _users(self, value: Any) -> int | tuple[str, ...]:
        if isinstance(value, str):
            if value.isascii() and value.isdigit():
                return self._users(int(value))
            value = [word.strip() for word in value.split(",")]
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 2**53:
            return value
        listed = isinstance(value, Sequence) and len(value) > 0
        if not listed or not all(isinstance(name, str) and name for name in value):
            raise self._wrong(value)
        return tuple(value)

    def _wrong(self, value: Any) -> InputError:
        return InputError(self.name, _RULES[self.kind], value)


#: What part of the time to read.
WINDOW = (
    Option("start", "Leave out so many hours at the beginning.", "number", 0.0),
    Option("hours", "Read so many hours; by default all.", "number"),
)
#: What part of the jobs to keep.
SAMPLING = (
    Option("users", "Keep so many users, drawn at random, or those named.", "users"),
    Option("sample", "Keep this part of the jobs, drawn at random.", "number", 1.0),
    Option("seed", "Start of the draws.", "whole", 0),
)


def read_options(
    declared: Iterable[Option], given: Mapping[str, Any], *, of: str
) -> dict[str, Any]:
    """Return every declared option with its value.

    Parameters
    ----------
    declared
        The options that there are.
    given
        Values by name; the rest have their defaults.
    of
        Whose options they are, for an error.

    Examples
    --------
    >>> read_options(SAMPLING, {"users": "3", "sample": 0.5}, of="swf")
    {'users': 3, 'sample': 0.5, 'seed': 0}
    >>> read_options(SAMPLING, {"user": 3}, of="swf")
    Traceback (most recent call last):
    drfh.errors.UnknownNameError: option of swf must be one of sample, seed, users \
(did you mean users?), got 'user'
    """
    known = {option.name: option for option in declared}
    for name in given:
        if name not in known:
            raise UnknownNameError(f"option of {of}", name, known)
    values = {name: o.read(given.get(name, o.default)) for name, o in known.items()}
    if not 0 < values.get("sample", 1.0) <= 1:
        raise InputError("sample", "must be a part of all jobs, > 0 and ≤ 1", values["sample"])
    if values.get("hours") == 0:
        raise InputError("hours", "must be > 0", 0)
    return values
