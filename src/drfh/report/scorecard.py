"""The scorecard of a reproduction: what the paper says, what we found, and the verdict."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import polars as pl

from drfh.report.parts import Cell, Content, Markup, details, join, number_text, table, tag, text

__all__ = ["scorecard"]

# Verdict → sign, word, style.
_VERDICTS = {
    "holds": ("✔", "holds", "yes"),
    "holds if …": ("◐", "holds if …", "partly"),
    "does not hold": ("✘", "does not hold", "no"),
    "not tested": ("–", "not tested", "untested"),
}


def scorecard(claims: pl.DataFrame, figures: set[str]) -> list[str]:
    """Return how many claims hold, and a row for each.

    Parameters
    ----------
    claims
        Columns ``figure``, ``claim``, ``paper``, ``ours``, ``low``, ``high``, ``verdict``,
        ``condition``; with ``ours_text`` and ``note`` what is written instead and why.
    figures
        What is on the page and can be linked to.

    Examples
    --------
    >>> row = {"figure": "Fig. 5", "claim": "it is full", "paper": "98 %", "ours": 0.9}
    >>> claims = pl.DataFrame([row | {"verdict": "holds", "condition": ""}])
    >>> scorecard(claims, {"fig-5"})[0]  # doctest: +ELLIPSIS
    '<div class="tally"><span class="yes" style="--n: 1" title="holds">✔ 1</span></div>...'
    """
    rows: list[list[Content]] = []
    tally = dict.fromkeys(_VERDICTS, 0)
    for claim in claims.iter_rows(named=True):
        verdict = str(claim["verdict"])
        tally[verdict] = tally.get(verdict, 0) + 1
        said = [text(_unbroken(claim["claim"]))]
        if claim.get("note"):
            said.append(details("why", tag("span", _unbroken(claim["note"]), "soft")))
        condition = claim.get("condition") or ""
        rows.append(
            [
                Cell(_verdict(verdict, condition), "wrap"),
                Cell(join(said), "wrap"),
                Cell(_unbroken(_value(claim["paper"])), "wrap"),
                Cell(_unbroken(_ours(claim)), "wrap"),
                Cell(_figure_link(str(claim["figure"]), figures)),
            ]
        )
    head = ["verdict", "claim", "the paper", "ours", "figure"]
    note = (
        "Ours is the mean over the draws of the servers (in Fig. 2 to 4: over the users), with "
        "the least and the most."
    )
    return [
        _tally(tally),
        table(head, rows, "cards labelled scorecard"),
        tag("p", note, "note"),
    ]


def _verdict(verdict: str, condition: str) -> Markup:
    sign, word, kind = _VERDICTS.get(verdict, ("?", verdict, "untested"))
    badge = Markup(f'<span class="verdict {kind}"><b>{sign}</b>{text(word)}</span>')
    return join([badge, *([tag("span", condition, "soft")] if condition else [])])


def _tally(counts: Mapping[str, int]) -> Markup:
    """Return how many claims hold: a strip in which each verdict has its sign and its count."""
    spans, words = [], []
    for verdict, count in counts.items():
        sign, word, kind = _VERDICTS.get(verdict, ("?", verdict, "untested"))
        if count:
            spans.append(
                Markup(f'<span class="{kind}" style="--n: {count}" title="{word}">')
                + Markup(f"{sign} {count}</span>")
            )
            words.append(f"{sign} {count} {word}")
    strip = Markup('<div class="tally">') + Markup("".join(spans)) + Markup("</div>")
    total = sum(counts.values())
    line = tag("p", f"{total} claims of the paper's evaluation: {', '.join(words)}.", "summary")
    return Markup(strip + line)


def _value(value: Any) -> str:
    if value is None:
        return "–"
    return number_text(value) if isinstance(value, (int, float)) else str(value)


def _unbroken(words: str) -> str:
    return words.replace(" %", "\u00a0%")


def _ours(claim: Mapping[str, Any]) -> str:
    if claim.get("ours_text"):
        return str(claim["ours_text"])
    words = _value(claim["ours"])
    low, high = claim.get("low"), claim.get("high")
    if low is None or high is None or low == high:
        return words
    return f"{words} ({_value(low)} to {_value(high)})"


def _figure_link(figure: str, figures: set[str]) -> str:
    """Return a link to the figure of the paper, if it is on the page.

    Examples
    --------
    >>> _figure_link("Fig. 5", {"fig-5"})
    '<a href="#fig-5">Fig. 5</a>'
    """
    found = re.match(r"Fig\. (\d+)", figure)
    name = f"fig-{max(int(found[1]), 2)}" if found else ""  # the first two are one
    if figure.startswith("Table"):
        name = "table-2"
    if name in figures:
        return Markup(f'<a href="#{name}">{text(figure)}</a>')
    if figure.lower() == "set-up":
        return Markup(f'<a href="#setup">{text(figure)}</a>')
    return figure
