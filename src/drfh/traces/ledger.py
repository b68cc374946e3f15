"""What a reader counts while it reads: rows, what it left out, and what was broken."""

from __future__ import annotations

from dataclasses import dataclass

from drfh.errors import InputError

__all__ = ["Ledger", "Oddity"]


@dataclass(frozen=True, slots=True)
class Oddity:
    """One kind of broken row: how many there are, and the first of them in words.

    Examples
    --------
    >>> Oddity("priority must be a whole number", 3, "part-7.csv, line 12: …").count
    3
    """

    kind: str
    count: int
    first: str


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
        self._broken: dict[str, list[int | str]] = {}

    def count(self, what: str, number: int = 1) -> None:
        """Add to a count; a count of 0 is kept too, as it says that this was looked for."""
        self.counts[what] = self.counts.get(what, 0) + int(number)

    def broken(self, error: InputError, number: int = 1) -> None:
        """Count rows that break one rule; `error` is about the first of them.

        Raises
        ------
        InputError
            The error itself, in a strict reading.
        """
        if number < 1:
            return
        if self.strict:
            raise error
        entry = self._broken.setdefault(f"{error.field} {error.rule}", [0, str(error)])
        entry[0] = int(entry[0]) + int(number)

    def merge(self, other: Ledger) -> None:
        """Add what another ledger counted: of a part that was read at the same time."""
        for what, number in other.counts.items():
            self.count(what, number)
        for text in other.remarks:
            self.remark(text)
        for oddity in other.oddities:
            entry = self._broken.setdefault(oddity.kind, [0, oddity.first])
            entry[0] = int(entry[0]) + oddity.count

    def remark(self, text: str) -> None:
        """Keep a sentence about what the data cannot tell, or what was decided for it."""
        if text not in self.remarks:
            self.remarks.append(text)

    @property
    def oddities(self) -> tuple[Oddity, ...]:
        """The kinds of broken rows, the most frequent first."""
        found = [Oddity(kind, int(n), str(first)) for kind, (n, first) in self._broken.items()]
        return tuple(sorted(found, key=lambda oddity: -oddity.count))
