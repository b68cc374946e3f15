"""Counts, broken rows and remarks of one reading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

from drfh.errors import InputError

__all__ = ["BROKEN_ROW", "Ledger", "Oddity", "Progress"]

#: Called with how far a long reading is: what, how much of it, of how much.
Progress: TypeAlias = Callable[[str, float, int], None]

#: What nearly all oddities are: a row that is left out.
BROKEN_ROW = "broken row"


@dataclass(frozen=True, slots=True)
class Oddity:
    """One kind of fault of an input: how many there are, and the first of them.

    `what` is the noun that is counted. Only a broken row is left out; a damaged file is read as far
    as it goes, a missing part cannot be read, and disordered rows are put in order.

    Examples
    --------
    >>> Oddity("priority must be a whole number", 3, "part-7.csv, line 12: …").count
    3
    """

    kind: str
    count: int
    first: str
    what: str = BROKEN_ROW

    @property
    def left_out(self) -> bool:
        """Whether what is wrong was not used."""
        return self.what == BROKEN_ROW

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data.

        Examples
        --------
        >>> Oddity("row must have 2 fields", 1, "a.csv, line 3: …").to_dict()["count"]
        1
        """
        return asdict(self)


class Ledger:
    """The counts of one reading.

    Parameters
    ----------
    strict
        Stop at the first broken row instead of counting it.

    Examples
    --------
    >>> ledger = Ledger()
    >>> ledger.count("rows", 10)
    >>> wrong = InputError("priority", "must be a whole number", "x", place="a.csv, line 3")
    >>> ledger.broken(wrong, 2)
    >>> ledger.counts, ledger.oddities[0].count, ledger.oddities[0].first
    ({'rows': 10}, 2, "a.csv, line 3: priority must be a whole number, got 'x'")
    >>> Ledger(strict=True).broken(wrong)
    Traceback (most recent call last):
    drfh.errors.InputError: a.csv, line 3: priority must be a whole number, got 'x'
    """

    def __init__(self, *, strict: bool = False) -> None:
        self.strict = strict
        self.counts: dict[str, int] = {}
        self.remarks: list[str] = []
        self._broken: dict[str, Oddity] = {}

    def count(self, what: str, number: int = 1) -> None:
        """Add to a count; a count of 0 is kept too, as it says that this was looked for."""
        self.counts[what] = self.counts.get(what, 0) + int(number)

    def broken(self, error: InputError, number: int = 1, what: str = BROKEN_ROW) -> None:
        """Count rows (or `what`) that break one rule; `error` is about the first of them.

        Raises
        ------
        InputError
            The error itself, in a strict reading.
        """
        if number < 1:
            return
        if self.strict:
            raise error
        self._add(Oddity(f"{error.field} {error.rule}", int(number), str(error), what))

    def _add(self, more: Oddity) -> None:
        known = self._broken.get(more.kind)
        if known is not None:
            more = replace(known, count=known.count + more.count)
        self._broken[more.kind] = more

    def merge(self, other: Ledger) -> None:
        """Add what another ledger counted: of a part that was read at the same time."""
        for what, number in other.counts.items():
            self.count(what, number)
        for text in other.remarks:
            self.remark(text)
        for oddity in other.oddities:
            self._add(oddity)

    def remark(self, text: str) -> None:
        """Keep a sentence about what the data cannot tell, or what was decided for it."""
        if text not in self.remarks:
            self.remarks.append(text)

    @property
    def oddities(self) -> tuple[Oddity, ...]:
        """The kinds of what is wrong, the most frequent first."""
        return tuple(sorted(self._broken.values(), key=lambda oddity: -oddity.count))
