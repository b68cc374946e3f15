"""The mark that a job of ours carries in Slurm: all that must survive the controller.

It stands in the job's ``AdminComment``, which only administrators can write. Text without
blanks, as ``scontrol`` takes it from its input: ``drfh;pin=n3;nodes=n[1-4];restarts=0``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["DAY", "HELD_UNTIL", "PARKED_UNTIL", "Annotation", "read_annotation"]

#: Begin times that mean something: its owner holds it (2099); it waits for another job (2098).
#: Slurm looks at dependencies only of jobs that are not held, so a begin time holds those.
HELD_UNTIL, PARKED_UNTIL = 4_070_908_800, 4_039_372_800
#: How far a begin time may be off, as commands write local time.
DAY = 86_400

_NAME = "drfh"


@dataclass(frozen=True, slots=True)
class Annotation:
    """What we must know of a job of ours.

    Parameters
    ----------
    held
        Its owner holds it.
    parked
        It waits for another job, under a begin time instead of a hold.
    begin
        The begin time that its owner had asked for before that; seconds since 1970, or 0.
    pin
        Node on which we put it last; None: it was never placed.
    nodes
        The node list that its owner asked for, which the pin has replaced.
    restarts
        How often it had been restarted when it was placed.
    most
        The largest number of nodes that its owner allowed; 0: not said.
    refused
        Why we do not place it, in words.

    Examples
    --------
    >>> mark = Annotation(pin="n3", nodes="n[1-4]", restarts=1)
    >>> str(mark)
    'drfh;pin=n3;nodes=n[1-4];restarts=1'
    >>> read_annotation(str(mark)) == mark
    True
    """

    held: bool = False
    parked: bool = False
    begin: int = 0
    pin: str | None = None
    nodes: str = ""
    restarts: int = 0
    most: int = 0
    refused: str = ""

    def __str__(self) -> str:
        words = [_NAME]
        words += [name for name in ("held", "parked") if getattr(self, name)]
        if self.pin is not None:
            words.append(f"pin={self.pin}")
        for name in ("begin", "nodes", "restarts", "most", "refused"):
            value = getattr(self, name)
            if value or (name == "restarts" and self.pin is not None):
                words.append(f"{name}={value}")
        return ";".join(words)


def read_annotation(comment: Any) -> Annotation | None:
    """Return the mark in an ``AdminComment``; None if it is not ours.

    Examples
    --------
    >>> read_annotation("drfh") == Annotation(), read_annotation("from the help desk")
    (True, None)
    """
    if not isinstance(comment, str):
        return None
    first, *words = comment.strip().split(";")
    if first != _NAME:
        return None
    facts: dict[str, str] = {}
    for word in words:
        name, _, value = word.partition("=")
        facts[name] = value
    return Annotation(
        held="held" in facts,
        parked="parked" in facts,
        begin=_count(facts.get("begin")),
        pin=facts.get("pin") or None,
        nodes=facts.get("nodes", ""),
        restarts=_count(facts.get("restarts")),
        most=_count(facts.get("most")),
        refused=facts.get("refused", ""),
    )


def _count(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() else 0
