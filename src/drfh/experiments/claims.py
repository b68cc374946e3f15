"""Claims of the paper, and the rule that decides on them by numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import polars as pl

from drfh.formatting import format_number, format_percent, join_names

__all__ = ["Claim", "Reading", "Verdict", "claims_table", "judge", "number_text", "tally"]

Verdict: TypeAlias = Literal["holds", "holds if …", "does not hold", "not tested", "generated"]
Unit: TypeAlias = Literal["part", "points", "seconds", "tasks", "slots", "cells", "hours", "number"]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper with its verdict.

    Attributes
    ----------
    id : str
        Short name.
    figure : str
        Figure or table of the paper that it belongs to.
    text : str
        What is claimed.
    paper : str
        The paper's value, as text.
    ours : float or None
        Our value under the usual choices, the mean over the seeds.
    spread : pair of float, or None
        The least and the most over the seeds.
    verdict : str
        See :data:`Verdict`; ``generated`` if the claim is about the trace and the workload is
        generated: then it can neither hold nor fail.
    condition : str
        Under which choices it holds, if not under all.
    note : str
        The rule of the verdict, and details.
    unit : str
        ``part`` (of 1, shown as percent), ``points`` (a difference of parts), or what is counted.
    beside : str
        What must be said beside our value: ties, another algorithm, further numbers.
    """

    id: str
    figure: str
    text: str
    paper: str
    ours: float | None
    spread: tuple[float, float] | None
    verdict: Verdict
    condition: str = ""
    note: str = ""
    unit: Unit = "part"
    beside: str = ""

    @property
    def ours_text(self) -> str:
        """Our value and its spread as text.

        Examples
        --------
        >>> Claim("a", "Fig. 1", "", "", 0.5, (0.25, 0.75), "holds").ours_text
        '50.0 % (25.0 to 75.0)'
        """
        if self.ours is None:
            return "–"
        text = number_text(self.ours, self.unit)
        if self.spread is None or self.spread[0] == self.spread[1]:
            return text
        low, high = (_amount_text(value, self.unit) for value in self.spread)
        return f"{text} ({low} to {high})"


@dataclass(frozen=True)
class Reading:
    """A claim under one set of choices: its value for each seed, and whether it holds there.

    Attributes
    ----------
    condition : str
        The choices, as the end of “holds if …”.
    values : sequence of float
        One for each seed.
    holds : sequence of bool
        One for each seed.
    way : str
        How the sentence is understood, if there are several ways; also an end of “holds if …”.
    beside : str
        See :class:`Claim`.
    """

    condition: str
    values: Sequence[float]
    holds: Sequence[bool]
    way: str = ""
    beside: str = ""

    @property
    def text(self) -> str:
        """Choices and way."""
        return join_names(part for part in (self.condition, self.way) if part)

    @property
    def all_hold(self) -> bool:
        """Whether it holds for every seed."""
        return len(self.holds) > 0 and all(self.holds)


def judge(
    id: str,  # noqa: A002 - as in Claim
    figure: str,
    text: str,
    paper: str,
    readings: Sequence[Reading],
    rule: str,
    unit: Unit = "part",
    each: str = "draws",
) -> Claim:
    """Return the claim with its verdict.

    It holds if it does under all choices and for all seeds; it holds *if …* the choices under
    which it does for all seeds; else it does not hold. A reading without values has nothing to
    say; without any other the claim was not tested. The value is that of the first reading: the
    usual choices. `each` says what there is a value of, if not of each draw of the servers.

    Examples
    --------
    >>> readings = [Reading("skip", [0.5, 0.7], [True, True]), Reading("strict", [0], [False])]
    >>> claim = judge("a", "Fig. 1", "more than half", "> 50 %", readings, "at least 0.5")
    >>> claim.verdict, claim.condition, claim.ours, claim.spread
    ('holds if …', 'skip', 0.6, (0.5, 0.7))
    """
    readings = [reading for reading in readings if reading.values]
    if not readings:
        return Claim(id, figure, text, paper, None, None, "not tested", "", rule, unit)
    usual = readings[0]
    good = [reading for reading in readings if reading.all_hold]
    verdict: Verdict = "does not hold"
    condition = ""
    if len(good) == len(readings):
        verdict = "holds"
    elif good:
        verdict, condition = "holds if …", _condition(readings)
    values = [float(value) for value in usual.values]
    note = f"holds where {rule}"
    some = sum(usual.holds)
    if 0 < some < len(values):
        note += f"; so for {some} of {len(values)} {each}"
    if len(readings) > 1:
        note += f". {'; '.join(_reading_text(reading, unit) for reading in readings)}"
    return Claim(
        id, figure, text, paper, sum(values) / len(values), (min(values), max(values)), verdict,
        condition, note, unit, usual.beside,
    )  # fmt: skip


def _reading_text(reading: Reading, unit: Unit) -> str:
    value = number_text(sum(reading.values) / len(reading.values), unit)
    beside = f" ({reading.beside})" if reading.beside else ""
    return f"{reading.text}: {value}{beside}"


def tally(claims: Iterable[Claim]) -> dict[Verdict, int]:
    """Return how many claims have each verdict, in the order of :data:`Verdict`.

    Examples
    --------
    >>> claim = Claim("a", "Fig. 1", "", "", None, None, "not tested")
    >>> tally([claim, claim])
    {'not tested': 2}
    """
    found = Counter(claim.verdict for claim in claims)
    return {verdict: found[verdict] for verdict in get_args(Verdict) if found[verdict]}


def _condition(readings: Sequence[Reading]) -> str:
    """Return under which choices it holds; a way for which all do goes without them."""
    conditions: list[str] = []
    for way in dict.fromkeys(reading.way for reading in readings):
        of_way = [reading for reading in readings if reading.way == way]
        good = [reading for reading in of_way if reading.all_hold]
        conditions += [way] if way and len(good) == len(of_way) else [r.text for r in good]
    return "; or ".join(conditions)


def number_text(value: float, unit: Unit) -> str:
    """Return a value with its unit.

    Examples
    --------
    >>> number_text(0.402, "part"), number_text(-0.5, "points"), number_text(14, "slots")
    ('40.2 %', '-50.0 points', '14 slots')
    >>> number_text(1, "hours")
    '1 hour'
    """
    amount = _amount_text(value, unit)
    if unit == "number":
        return amount
    symbol = {"part": "%", "seconds": "s"}.get(unit, unit)
    if unit in ("tasks", "slots", "cells", "hours") and amount == "1":
        symbol = unit[:-1]
    return f"{amount} {symbol}"


def _amount_text(value: float, unit: Unit) -> str:
    """Return a value without its unit."""
    return format_percent(value, unit="") if unit in ("part", "points") else format_number(value)


def claims_table(claims: Sequence[Claim]) -> pl.DataFrame:
    """Return the scorecard.

    Columns: ``id``, ``figure``, ``claim``, ``paper``, ``ours``, ``low``, ``high``, ``verdict``,
    ``condition``, ``note``, ``unit``, ``ours_text``, ``beside``.
    """
    rows = [
        {
            "id": c.id,
            "figure": c.figure,
            "claim": c.text,
            "paper": c.paper,
            "ours": c.ours,
            "low": None if c.spread is None else c.spread[0],
            "high": None if c.spread is None else c.spread[1],
            "verdict": str(c.verdict),
            "condition": c.condition,
            "note": c.note,
            "unit": str(c.unit),
            "ours_text": c.ours_text,
            "beside": c.beside,
        }
        for c in claims
    ]
    floats = dict.fromkeys(("ours", "low", "high"), pl.Float64)
    schema = {name: floats.get(name, pl.String) for name in rows[0]} if rows else None
    return pl.DataFrame(rows, schema=schema)
