"""Reading the names of policies and of their parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import cast

from drfh.errors import InputError, UnknownNameError
from drfh.policies.parts import BLOCKED, CHOICES, INSIDE, TURNS, Part
from drfh.policies.slots import COUNT_RULES, OVERSIZE, CountRule, Oversize, Slots

__all__ = ["KNOWN", "find_name", "part_of", "read_slots", "shown_names", "word_of"]

#: Part → the names that it may have.
KNOWN: Mapping[str, Mapping[str, str]] = {
    "turn": TURNS,
    "choice": {**CHOICES, "best-fit:": "the same with another reference resource"},
    "blocked": BLOCKED,
    "inside": INSIDE,
}


def find_name(value: str, known: Mapping[str, str]) -> str | None:
    """Return the entry of `known` that a value is, or None.

    Examples
    --------
    >>> find_name("slots:14", TURNS), find_name("slots", TURNS)
    ('slots:', None)
    """
    if value in known and not value.endswith(":"):
        return value
    head, colon, _ = value.partition(":")
    return head + colon if colon and head + colon in known else None


def shown_names(known: Mapping[str, str]) -> list[str]:
    """Return names as people would write them.

    Examples
    --------
    >>> shown_names({"drfh": "", "slots:": ""})
    ['drfh', 'slots:N']
    """
    return [name + {"slots:": "N"}.get(name, "RESOURCE") if name.endswith(":") else name
            for name in known]  # fmt: skip


def part_of(
    word: str, chosen: Mapping[str, str], *, turn_given: bool, whole: str, named: Iterable[str]
) -> tuple[str, str]:
    """Return which part a word of a policy's name is, and its value.

    Examples
    --------
    >>> part_of("fifo", {"turn": "drfh"}, turn_given=False, whole="drfh+fifo", named=())
    ('inside', 'fifo')
    """
    part, equals, value = word.partition("=")
    if equals:
        if part not in KNOWN:
            raise UnknownNameError("policy", part, KNOWN)
        if find_name(value, KNOWN[part]) is None:
            raise UnknownNameError(f"policy.{part}", value, shown_names(KNOWN[part]))
        return part, value
    homes = [part for part, known in KNOWN.items() if find_name(word, known) is not None]
    if word == "fifo" and (turn_given or "turn" in chosen):
        homes = ["inside"]
    if homes:
        return homes[0], word
    if word == whole:
        raise UnknownNameError("policy", word, [*named, "slots:N"])
    names = [name for known in KNOWN.values() for name in shown_names(known)]
    raise UnknownNameError(f"part of policy {whole!r}", word, names)


def read_slots(turn: str) -> Slots:
    """Read ``slots:N``, with a count rule and what happens to large tasks after more colons.

    Examples
    --------
    >>> read_slots("slots:14:cpu:reject")
    Slots(number=14, count='cpu', oversize='reject')
    """
    _, _, rest = turn.partition(":")
    words = rest.split(":")
    if not words[0].isascii() or not words[0].isdigit() or not 1 <= int(words[0]) <= 2**16:
        rule = "must be slots:N with a whole number N from 1 to 65536"
        raise InputError("policy", rule, turn)
    slots = Slots(int(words[0]))
    for word in words[1:]:
        if word in COUNT_RULES:
            slots = replace(slots, count=cast("CountRule", word))
        elif word in OVERSIZE:
            slots = replace(slots, oversize=cast("Oversize", word))
        else:
            raise UnknownNameError(f"part of {turn!r}", word, [*COUNT_RULES, *OVERSIZE])
    return slots


def word_of(part: Part) -> str:
    """Return the name of a part.

    Examples
    --------
    >>> word_of("skip"), word_of(len)
    ('skip', 'len')
    """
    return part if isinstance(part, str) else getattr(part, "__name__", type(part).__name__)
