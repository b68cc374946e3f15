"""The errors that drfh raises.

::

    DrfhError
    ├── InputError (also ValueError)   the user's mistake: exit code 2
    │   └── UnknownNameError           a name that is not there; carries the nearest one
    └── SolverError                    ours: exit code 1

An :class:`InputError` says four things in one line: the field, the rule, the value it got and
the place (file and line, where there is one).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from drfh.formatting import escaped

__all__ = ["DrfhError", "InputError", "SolverError", "UnknownNameError", "nearest", "shown"]

_LONGEST_VALUE = 60
# Limits of the search for the nearest name: a name of a hundred letters can take a second.
_LONGEST_NAME = 60
_MOST_LETTERS = 100_000
_SHORT_NAME = 4
_FIRST_NAME = re.compile(r"[^.\[]*")


def shown(value: Any) -> str:
    """Return `value` as one short line for a message.

    Examples
    --------
    >>> shown("x" * 100)[:12]
    "'xxxxxxxxxxx"
    """
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known name that is most like `name`, or None.

    Names of up to four letters begin alike: gpu is not a misspelt cpu.

    Examples
    --------
    >>> nearest("memroy", ["cpu", "memory"])
    'memory'
    >>> nearest("cpus", ["cpu", "memory"]), nearest("gpu", ["cpu", "memory"])
    ('cpu', None)
    """
    if len(name) > _LONGEST_NAME:
        return None
    short: list[str] = []
    letters = 0
    for other in known:
        letters += len(other)
        if letters > _MOST_LETTERS:
            break
        is_short = max(len(name), len(other)) <= _SHORT_NAME
        if len(other) <= _LONGEST_NAME and not (is_short and name[:1] != other[:1]):
            short.append(other)
    found = difflib.get_close_matches(name, short, n=1, cutoff=cutoff)
    return found[0] if found else None


class DrfhError(Exception):
    """Base of all errors that drfh raises on purpose."""

    exit_code = 1


class InputError(DrfhError, ValueError):
    """The input breaks a rule.

    Parameters
    ----------
    field
        What the rule is about, such as ``users[0].demand.cpu``.
    rule
        The rule, as the end of a sentence: ``"must be a finite number ≥ 0"``.
    value
        What was found; left out of the message when not given.
    place
        File and line, or empty.
    item
        The resource, label or attribute that it is about; by default `field`. It stays when the
        field gets another name.
    names
        Parameters that the rule mentions in braces, and what they are called in Python.

    Examples
    --------
    >>> print(InputError("weight", "must be > 0", 0, place="team.yaml, line 4"))
    team.yaml, line 4: weight must be > 0, got 0
    """

    exit_code = 2
    _MISSING = object()

    def __init__(
        self,
        field: str,
        rule: str,
        value: Any = _MISSING,
        *,
        place: str = "",
        item: str | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        self.field = field
        self.item = field if item is None else item
        self.place = place
        self.value = None if value is self._MISSING else value
        self._got = "" if value is self._MISSING else f", got {shown(value)}"
        self._rule = rule
        self._names = dict(names or {})
        super().__init__(field, rule)

    @property
    def rule(self) -> str:
        """The rule, with the names of the parameters that it mentions."""
        return self._rule.format(**self._names) if self._names else self._rule

    def __str__(self) -> str:
        where = f"{self.place}: " if self.place else ""
        return escaped(f"{where}{self.field} {self.rule}{self._got}")

    def __reduce__(self) -> tuple[Any, ...]:
        # By its state, as a subclass has other arguments.
        return _rebuilt, (type(self), self.args, self.__dict__)

    def within(self, prefix: str) -> InputError:
        """Return the same error for a field inside `prefix`.

        Examples
        --------
        >>> print(InputError("weight", "must be > 0", 0).within("users[3]"))
        users[3].weight must be > 0, got 0
        """
        joint = "" if self.field.startswith("[") else "."
        self.field = f"{prefix}{joint}{self.field}"
        return self

    def with_root(self, names: Mapping[str, str]) -> InputError:
        """Return the same error with another first name of its field.

        Examples
        --------
        >>> print(InputError("servers[3].name", "must be unique").with_root({"servers": "cluster"}))
        cluster[3].name must be unique
        """
        self.field = _FIRST_NAME.sub(lambda found: names.get(found[0], found[0]), self.field, 1)
        return self

    def renamed(self, names: Mapping[str, str]) -> InputError:
        """Return the same error with other names for parameters, and for a field of no file.

        Examples
        --------
        >>> error = InputError("path", "must be new (or see {force})", names={"force": "force"})
        >>> print(error.renamed({"path": "--output", "force": "--force"}))
        --output must be new (or see --force)
        """
        if not self.place:
            self.field = names.get(self.field, self.field)
        self._names = {name: names.get(name, known) for name, known in self._names.items()}
        return self


def _rebuilt(kind: type[InputError], args: tuple[Any, ...], state: dict[str, Any]) -> InputError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class UnknownNameError(InputError):
    """A name that is not among the known ones.

    Examples
    --------
    >>> print(UnknownNameError("mechanism", "server-drf", ["drfh", "per-server-drf"]))
    mechanism must be one of drfh, per-server-drf (did you mean per-server-drf?), got 'server-drf'
    """

    def __init__(self, field: str, name: str, known: Iterable[str], *, place: str = "") -> None:
        known = sorted(known)
        # Another case, or two letters swapped.
        turned = [k for k in known if k.casefold() == name.casefold() or sorted(k) == sorted(name)]
        self.nearest = turned[0] if turned else nearest(name, known, cutoff=0.5)
        named = (k if len(k) <= _LONGEST_NAME else f"{k[:_LONGEST_NAME]}…" for k in known[:12])
        listed = ", ".join(named) + (", …" if len(known) > 12 else "")
        hint = f" (did you mean {self.nearest}?)" if self.nearest else ""
        rule = f"must be one of {listed}{hint}" if known else "must be one that is there: none is"
        super().__init__(field, rule, name, place=place)


class SolverError(DrfhError):
    """A solver failed where it must not: a defect of drfh, not of the input.

    Examples
    --------
    >>> SolverError.exit_code
    1
    """
