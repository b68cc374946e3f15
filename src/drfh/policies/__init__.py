"""Online policies: whose turn × fits × which server × when blocked × the order inside a user.

A policy is a value, :class:`Policy`; the brain in ``drfh.scheduler`` carries it out. Names are
read by :func:`find_policy`: one of :data:`POLICIES`, or parts joined by ``+``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from drfh.errors import InputError, UnknownNameError
from drfh.policies.policy import KNOWN, Part, find_name, part_of, read_slots, shown_names, word_of
from drfh.policies.slots import Slots

__all__ = ["POLICIES", "Policy", "find_policy"]


@dataclass(frozen=True)
class Policy:
    """How the next task and its server are found. Every part is a name or a function.

    Parameters
    ----------
    turn
        Whose turn: a name of :data:`~drfh.policies.policy.TURNS`, or a function of a user whose
        lowest value goes next.
    choice
        Which server: a name of :data:`~drfh.policies.policy.CHOICES`, or a function of a task and
        a server whose lowest value is taken. ``best-fit:RESOURCE`` names the reference resource.
    blocked
        ``skip`` or ``strict``, or a function of the user that says whether to stop.
    inside
        ``fifo`` or ``backfill``, or a function of a task: the lowest is tried first, then the
        others.
    fits
        None for what the turn implies (free resources, or slots), or a function of a task and a
        server. It decides alone: it may hold a server back, or let a task overfill one.

    Examples
    --------
    >>> Policy(choice="cosine", blocked="strict").name
    'drfh+cosine+strict'
    >>> Policy.parse("best-fit-drfh").name
    'best-fit-drfh'
    """

    turn: Part = "drfh"
    choice: Part = "best-fit"
    blocked: Part = "skip"
    inside: Part = "fifo"
    fits: Part | None = None

    def __post_init__(self) -> None:
        for part, known in KNOWN.items():
            value = getattr(self, part)
            if callable(value):
                continue
            if not isinstance(value, str):
                raise InputError(f"policy.{part}", "must be a name or a function", value)
            if find_name(value, known) is None:
                raise UnknownNameError(f"policy.{part}", value, shown_names(known))
        if self.fits is not None and not callable(self.fits):
            raise InputError("policy.fits", "must be a function or left out", self.fits)
        if isinstance(self.turn, str) and self.turn.startswith("slots:"):
            read_slots(self.turn)
        elif isinstance(self.turn, str) and self.turn == "max-min:":
            raise InputError("policy.turn", "must name a resource, such as max-min:cpu", self.turn)
        if self.choice == "best-fit:":
            raise InputError("policy.choice", "must name a resource after the colon", self.choice)

    @classmethod
    def parse(cls, name: str) -> Policy:
        """Read a name such as ``best-fit-drfh``, ``slots:14`` or ``drfh+cosine+strict+backfill``.

        A named policy or parts in any order, joined by ``+``; what is left out is ``drfh``,
        ``best-fit``, ``skip`` and ``fifo``. ``fifo`` is whose turn it is unless that is given
        before it; ``inside=fifo`` and ``turn=fifo`` leave no doubt.

        Examples
        --------
        >>> Policy.parse("drfh+cosine+strict+backfill").inside
        'backfill'
        >>> Policy.parse("best-fit-drff")
        Traceback (most recent call last):
        drfh.errors.UnknownNameError: policy must be one of best-fit-drfh, fifo, \
first-fit-drfh, mesos, slots:N (did you mean best-fit-drfh?), got 'best-fit-drff'
        """
        if not isinstance(name, str) or not name.strip():
            raise InputError("policy", "must be a name, such as best-fit-drfh", name)
        words = [word.strip() for word in name.split("+")]
        chosen: dict[str, str] = {}
        start = _named(words[0])
        if start is not None:
            words = words[1:]
        for word in words:
            part, value = part_of(
                word, chosen, turn_given=start is not None, whole=name, named=POLICIES
            )
            if part in chosen:
                rule = f"must give {part} once ({chosen[part]} and {value})"
                raise InputError("policy", rule, name)
            chosen[part] = value
        if start is None and str(chosen.get("turn", "")).startswith("slots:"):
            start = _named(chosen["turn"])
        return replace(start or cls(), **chosen)

    @property
    def name(self) -> str:
        """The name that :meth:`parse` reads; functions show as their names."""
        for known, policy in POLICIES.items():
            if policy == self:
                return known
        slots = self.slots
        if slots is not None and self == _named(str(self.turn)):
            return str(self.turn)
        default = Policy()
        # A bare fifo in front would be the policy of that name.
        first = "turn=fifo" if self.turn == "fifo" else word_of(self.turn)
        words = [first, word_of(self.choice)]
        words += [
            word_of(value)
            for part in ("blocked", "inside")
            if (value := getattr(self, part)) != getattr(default, part)
        ]
        if self.fits is not None:
            words.append(f"fits={word_of(self.fits)}")
        return "+".join(words)

    @property
    def slots(self) -> Slots | None:
        """How slots are counted, if the turn goes by slots."""
        named = isinstance(self.turn, str) and self.turn.startswith("slots:")
        return read_slots(str(self.turn)) if named else None

    @property
    def own(self) -> tuple[str, ...]:
        """Names of the parts that are Python functions."""
        return tuple(f.name for f in fields(self) if callable(getattr(self, f.name)))


#: The policies with a name. ``slots:N`` is the sixth: one for every N.
POLICIES: dict[str, Policy] = {
    "best-fit-drfh": Policy(),
    "first-fit-drfh": Policy(choice="first-fit"),
    "mesos": Policy(choice="random"),
    "fifo": Policy(turn="fifo", choice="first-fit", blocked="strict"),
}


def find_policy(policy: str | Policy | Mapping[str, Any]) -> Policy:
    """Return a policy from its name, from its parts, or as it is.

    Examples
    --------
    >>> find_policy("slots:14").choice
    'first-fit'
    >>> find_policy({"choice": "tightest"}).turn
    'drfh'
    """
    if isinstance(policy, Policy):
        return policy
    if isinstance(policy, Mapping):
        known = [f.name for f in fields(Policy)]
        for part in policy:
            if part not in known:
                raise UnknownNameError("policy", str(part), known)
        return Policy(**policy)
    return Policy.parse(policy)


def _named(word: str) -> Policy | None:
    if word.startswith("slots:"):
        return Policy(turn=word, choice="first-fit")
    return POLICIES.get(word)
