"""The annotation of a managed job in Slurm: all that must survive the controller.

It stands in the job's ``AdminComment``, which only administrators can write. Text without
blanks, as ``scontrol`` takes it from its input: ``drfh;pin=n3;nodes=n[1-4];restarts=0``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = [
    "DAY",
    "DEFERRED_UNTIL",
    "FLAGS",
    "HELD_UNTIL",
    "PREFIX",
    "Annotation",
    "read_annotation",
]

#: Begin times with a meaning: held by its owner (2099); deferred until another job ends (2098).
#: Slurm checks dependencies only of jobs that are not held, so a begin time holds those.
HELD_UNTIL, DEFERRED_UNTIL = 4_070_908_800, 4_039_372_800
#: Tolerance of a begin time in seconds, as commands write local time.
DAY = 86_400

#: Start of the text.
PREFIX = "drfh"
#: The flags in the text.
FLAGS = {"held": "held", "deferred": "parked"}


@dataclass(frozen=True, slots=True)
class Annotation:
    """What drfh must remember of a managed job.

    Parameters
    ----------
    held
        Its owner holds it.
    deferred
        It waits for another job, under a begin time instead of a hold.
    begin
        The begin time that its owner had asked for before that; seconds since 1970, or 0.
    pin
        Node on which it was placed last; None: it was never placed.
    nodes
        The node list that its owner asked for, which the pin has replaced.
    restarts
        How often it had been restarted when it was placed.
    most
        The largest number of nodes that its owner allowed; 0: not said.
    refused
        Why it is not placed, as text.

    Examples
    --------
    >>> annotation = Annotation(pin="n3", nodes="n[1-4]", restarts=1)
    >>> str(annotation)
    'drfh;pin=n3;nodes=n[1-4];restarts=1'
    >>> read_annotation(str(annotation)) == annotation
    True
    """

    held: bool = False
    deferred: bool = False
    begin: int = 0
    pin: str | None = None
    nodes: str = ""
    restarts: int = 0
    most: int = 0
    refused: str = ""

    def __str__(self) -> str:
        parts = [PREFIX]
        parts += [flag for name, flag in FLAGS.items() if getattr(self, name)]
        if self.pin is not None:
            parts.append(f"pin={self.pin}")
        for name in ("begin", "nodes", "restarts", "most", "refused"):
            value = getattr(self, name)
            if value or (name == "restarts" and self.pin is not None):
                parts.append(f"{name}={value}")
        return ";".join(parts)


def read_annotation(comment: Any) -> Annotation | None:
    """Return the annotation in an ``AdminComment``; None if it is not drfh's.

    Examples
    --------
    >>> read_annotation("drfh") == Annotation(), read_annotation("from the help desk")
    (True, None)
    """
    if not isinstance(comment, str):
        return None
    first, *parts = comment.strip().split(";")
    if first != PREFIX:
        return None
    facts: dict[str, str] = {}
    for part in parts:
        name, _, value = part.partition("=")
        facts[name] = value
    return Annotation(
        held=FLAGS["held"] in facts,
        deferred=FLAGS["deferred"] in facts,
        begin=_count(facts.get("begin")),
        pin=facts.get("pin") or None,
        nodes=facts.get("nodes", ""),
        restarts=_count(facts.get("restarts")),
        most=_count(facts.get("most")),
        refused=facts.get("refused", ""),
    )


def _count(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() else 0
