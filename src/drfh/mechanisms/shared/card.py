"""Property cards: what is proven about a mechanism, read from its docstring.

A mechanism states its properties once, where it is defined::

    Properties
        envy-free: yes; Author 2014, Prop. 1
        population-monotone: yes if positive demands; Author 2014, Prop. 7
        resource-monotone: no; a counterexample in a few words

The auditor cites these lines, the documentation shows them, and
:func:`drfh.testing.check_mechanism` tries to refute them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from drfh.allocation.problem import Problem
from drfh.errors import InputError, UnknownNameError

__all__ = ["ASSUMPTIONS", "Card", "PropertyClaim", "beyond_kinds", "card_of"]


def _divisible(problem: Problem, whole: bool) -> bool:
    return not whole


#: What a claim may assume, and how to see whether a problem fulfils it.
ASSUMPTIONS: dict[str, Callable[[Problem, bool], bool]] = {
    "default parameters": lambda problem, _: (
        True
    ),  # seen by the parameters, see PropertyClaim.unmet
    "divisible tasks": _divisible,
    "endless tasks": lambda problem, _: bool(np.isinf(problem.limit).all()),
    "equal weights": lambda problem, _: bool(np.ptp(problem.weight) == 0),
    "no restrictions": lambda problem, _: problem.eligible is None,
    "one resource": lambda problem, _: bool(problem.demand.any(axis=0).sum() == 1),
    "one server": lambda problem, _: problem.cluster.size == 1,
    "positive demands": lambda problem, _: bool(
        (problem.demand[:, problem.demand.any(axis=0)] > 0).all()
    ),
}


def beyond_kinds(problem: Problem) -> tuple[str, ...]:
    """Return the assumption of every claim that several kinds break.

    Examples
    --------
    >>> from drfh import Cluster, Kind, Server, User
    >>> kinds = [Kind({"cpu": 1}), Kind({"cpu": 2})]
    >>> beyond_kinds(Problem.build(Cluster([Server({"cpu": 4})]), [User("a", kinds=kinds)]))
    ('one kind of tasks a user',)
    """
    return () if problem.mixes is None else ("one kind of tasks a user",)


_LINE = re.compile(r"([a-z0-9-]+): (yes|no)(?: if ([^;]+))?; (.+)")
_HARMLESS = {
    "method",
    "reference",
    "whole_tasks",
    "filling",
    "seconds",
    "seed",
}  # parameters that do not change the rule
_HEADS = ("Definition", "Paper", "Properties")


@dataclass(frozen=True, slots=True)
class PropertyClaim:
    """One line of a card: a property holds or not, under assumptions, and why.

    Attributes
    ----------
    holds : bool
        Whether the property is proven; else a counterexample is known.
    assumes : tuple of str
        Names from :data:`ASSUMPTIONS`, all needed.
    source : str
        Where it is proven or refuted.
    """

    holds: bool
    assumes: tuple[str, ...]
    source: str

    def unmet(
        self, problem: Problem, *, whole: bool = False, parameters: Mapping[str, Any] | None = None
    ) -> tuple[str, ...]:
        """Return the assumptions that a problem, or the parameters, do not fulfil."""
        changed = set(parameters or ()) - _HARMLESS
        unmet = tuple(
            name
            for name in self.assumes
            if not ASSUMPTIONS[name](problem, whole) or (name == "default parameters" and changed)
        )
        return unmet + beyond_kinds(problem)


@dataclass(frozen=True, slots=True)
class Card:
    """Claims of a mechanism about itself, and their sources.

    Attributes
    ----------
    summary, definition, paper : str
        As text.
    claims : dict
        Property name → claim.
    """

    summary: str
    definition: str
    paper: str
    claims: dict[str, PropertyClaim]


@cache
def _parsed(text: str, name: str) -> Card:
    summary = text.partition("\n\n")[0].replace("\n", " ").strip()
    blocks = {head: _block(text, head) for head in _HEADS}
    claims: dict[str, PropertyClaim] = {}
    for line in _joined(blocks["Properties"]):
        found = _LINE.fullmatch(line)
        if found is None:
            rule = "must look like 'envy-free: yes if positive demands; source'"
            raise InputError(f"properties of {name}", rule, line)
        assumes = tuple(part.strip() for part in (found[3] or "").split(",") if part.strip())
        for assumption in assumes:
            if assumption not in ASSUMPTIONS:
                raise UnknownNameError(f"assumption of {name}", assumption, ASSUMPTIONS)
        # Whatever a card says of divisible tasks says nothing of whole ones.
        claims[found[1]] = PropertyClaim(found[2] == "yes", assumes, found[4])
    texts = {head: " ".join(" ".join(blocks[head]).split()) for head in ("Definition", "Paper")}
    return Card(summary, texts["Definition"], texts["Paper"], claims)


def _block(text: str, head: str) -> list[str]:
    """Return the indented lines under a heading."""
    lines = text.splitlines()
    if head not in lines:
        return []
    start = lines.index(head) + 1
    block = []
    for line in lines[start:]:
        if line and not line.startswith(" "):
            break
        block.append(line)
    return block


def _joined(lines: list[str]) -> list[str]:
    """Join lines that go on, indented deeper than the first."""
    result: list[str] = []
    for line in lines:
        if line.startswith("     ") and result:
            result[-1] += f" {line.strip()}"
        elif line.strip():
            result.append(line.strip())
    return result


def card_of(mechanism: Callable[..., Any]) -> Card:
    """Return the card of a mechanism.

    Examples
    --------
    >>> from drfh.mechanisms.drfh import drfh
    >>> card_of(drfh).claims["population-monotone"].assumes
    ('positive demands', 'no restrictions')
    """
    while isinstance(mechanism, partial):
        mechanism = mechanism.func
    text = inspect.getdoc(mechanism) or ""
    return _parsed(text, getattr(mechanism, "__name__", "custom"))
