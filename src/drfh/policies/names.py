"""Reading the names of policies and of their parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
    if value in known and not value.endswith(":"):
        return value
    head, colon, _ = value.partition(":")
    return head + colon if colon and head + colon in known else None


def shown_names(known: Mapping[str, str]) -> list[str]:
    return [name + {"slots:": "N"}.get(name, "RESOURCE") if name.endswith(":") else name
            for name in known]  # fmt: skip


def part_of(
    word: str, chosen: Mapping[str, str], *, turn_given: bool, whole: str, named: Iterable[str]
) -> tuple[str, str]:
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
    _, _, rest = turn.partition(":")
    words = rest.split(":")
    if not words[0].isascii() or not words[0].isdigit() or not 1 <= int(words[0]) <= 2**16:
        rule = "must be slots:N with a whole number N from 1 to 65536"
        raise InputError("policy", rule, turn)
    count: str | None = None
    oversize: str | None = None
    for word in words[1:]:
        if word in COUNT_RULES and count is None:
            count = word
        elif word in OVERSIZE and oversize is None:
            oversize = word
        else:
            raise UnknownNameError(f"part of {turn!r}", word, [*COUNT_RULES, *OVERSIZE])
    return Slots(int(words[0]), _count(count), _oversize(oversize))


def _count(word: str | None) -> CountRule:
    return "cpu" if word == "cpu" else "min"


def _oversize(word: str | None) -> Oversize:
    if word == "reject" or word == "overcommit" or word == "fitcheck":
        return word
    return "ceil"


def word_of(part: Part) -> str:
    return part if isinstance(part, str) else getattr(part, "__name__", type(part).__name__)
