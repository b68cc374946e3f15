"""Policy: its parts, their names, the named policies, and what its own functions see."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, cast

from drfh.errors import InputError, UnknownNameError
from drfh.policies.scores import SCORES
from drfh.policies.slots import COUNT_RULES, OVERSIZE, CountRule, Oversize, Slots

__all__ = [
    "BLOCKED",
    "CHOICES",
    "INSIDE",
    "KNOWN",
    "POLICIES",
    "TURNS",
    "Choice",
    "Fits",
    "Inside",
    "Policy",
    "ServerView",
    "Stop",
    "TaskView",
    "Turn",
    "UserView",
    "find_name",
    "find_policy",
    "part_name",
    "part_of",
    "read_slots",
    "shown_names",
]


@dataclass(frozen=True, slots=True)
class UserView:
    """A user as a policy sees it: what its running tasks hold, and how many wait."""

    name: str
    index: int
    weight: float
    usage: Mapping[str, float]
    shares: Mapping[str, float]
    running: int
    queued: int


@dataclass(frozen=True, slots=True)
class TaskView:
    """A queued task; `order` grows with its submission."""

    user: str
    demand: Mapping[str, float]
    shares: Mapping[str, float]
    order: int


@dataclass(frozen=True, slots=True)
class ServerView:
    """A server: its size, and what is free on it."""

    name: str
    index: int
    capacity: Mapping[str, float]
    free: Mapping[str, float]
    shares: Mapping[str, float]
    """What is free, as a part of the pool."""


#: The user with the lowest number goes next, ties to the lowest index.
Turn = Callable[[UserView], float]
#: Whether a task may go on a server (asked after its restriction, instead of the usual check).
Fits = Callable[[TaskView, ServerView], bool]
#: The server with the lowest number is taken, ties to the lowest index.
Choice = Callable[[TaskView, ServerView], float]
#: Whether to stop when this user, whose turn it is, has nothing that fits.
Stop = Callable[[UserView], bool]
#: The user's task with the lowest number is tried first, then the others, ties to the oldest.
Inside = Callable[[TaskView], float]

#: Whose turn. Those with a colon take a parameter.
TURNS: Mapping[str, str] = {
    "drfh": "lowest weighted global dominant share",
    "fifo": "oldest queued task",
    "tsf": "fewest tasks, each as a part of what the user could run alone",
    "asset": "lowest weighted sum of shares over all resources",
    "max-min:": "lowest weighted share of one resource, such as max-min:cpu",
    "slots:": "fewest slots, such as slots:14 or slots:14:cpu:reject",
    "hdrf": "down the tree of users, the lowest share at each step",
}

#: Which server.
CHOICES: Mapping[str, str] = {
    "first-fit": "lowest index that fits",
    "random": "any that fits, by a seeded draw",
    **{
        name: (score.__doc__ or "").split("\n")[0].removeprefix("Return ")
        for name, score in SCORES.items()
    },
}

#: When the user whose turn it is has nothing that fits.
BLOCKED: Mapping[str, str] = {"skip": "go on to the next user", "strict": "stop"}

#: The order inside a user.
INSIDE: Mapping[str, str] = {
    "fifo": "first in, first out: a task that waits blocks later ones",
    "backfill": "oldest task that fits, one queue for each shape of task",
}

Part = str | Callable[..., Any]


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
    token: str, chosen: Mapping[str, str], *, turn_given: bool, whole: str, named: Iterable[str]
) -> tuple[str, str]:
    """Return which part a token of a policy's name is, and its value.

    Examples
    --------
    >>> part_of("fifo", {"turn": "drfh"}, turn_given=False, whole="drfh+fifo", named=())
    ('inside', 'fifo')
    """
    part, equals, value = token.partition("=")
    if equals:
        if part not in KNOWN:
            raise UnknownNameError("policy", part, KNOWN)
        if find_name(value, KNOWN[part]) is None:
            raise UnknownNameError(f"policy.{part}", value, shown_names(KNOWN[part]))
        return part, value
    homes = [part for part, known in KNOWN.items() if find_name(token, known) is not None]
    if token == "fifo" and (turn_given or "turn" in chosen):
        homes = ["inside"]
    if homes:
        return homes[0], token
    if token == whole:
        raise UnknownNameError("policy", token, [*named, "slots:N"])
    names = [name for known in KNOWN.values() for name in shown_names(known)]
    raise UnknownNameError(f"part of policy {whole!r}", token, names)


def read_slots(turn: str) -> Slots:
    """Read ``slots:N``, with a count rule and what happens to large tasks after more colons.

    Examples
    --------
    >>> read_slots("slots:14:cpu:reject")
    Slots(number=14, count='cpu', oversize='reject')
    """
    _, _, rest = turn.partition(":")
    tokens = rest.split(":")
    if not tokens[0].isascii() or not tokens[0].isdigit() or not 1 <= int(tokens[0]) <= 2**16:
        rule = "must be slots:N with a whole number N from 1 to 65536"
        raise InputError("policy", rule, turn)
    slots = Slots(int(tokens[0]))
    for token in tokens[1:]:
        if token in COUNT_RULES:
            slots = replace(slots, count=cast("CountRule", token))
        elif token in OVERSIZE:
            slots = replace(slots, oversize=cast("Oversize", token))
        else:
            raise UnknownNameError(f"part of {turn!r}", token, [*COUNT_RULES, *OVERSIZE])
    return slots


def part_name(part: Part) -> str:
    """Return the name of a part.

    Examples
    --------
    >>> part_name("skip"), part_name(len)
    ('skip', 'len')
    """
    return part if isinstance(part, str) else getattr(part, "__name__", type(part).__name__)


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
        ``skip`` or ``strict``, or a function of the user: whether to stop.
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
        tokens = [token.strip() for token in name.split("+")]
        chosen: dict[str, str] = {}
        start = _named(tokens[0])
        if start is not None:
            tokens = tokens[1:]
        for token in tokens:
            part, value = part_of(
                token, chosen, turn_given=start is not None, whole=name, named=POLICIES
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
        first = "turn=fifo" if self.turn == "fifo" else part_name(self.turn)
        tokens = [first, part_name(self.choice)]
        tokens += [
            part_name(value)
            for part in ("blocked", "inside")
            if (value := getattr(self, part)) != getattr(default, part)
        ]
        if self.fits is not None:
            tokens.append(f"fits={part_name(self.fits)}")
        return "+".join(tokens)

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
    if callable(policy):
        rule = "must be a name or a drfh.Policy; a function of your own is a part of one, such as "
        raise InputError("policy", f"{rule}Policy(choice=my_function)", policy)
    return Policy.parse(policy)


def _named(token: str) -> Policy | None:
    if token.startswith("slots:"):
        return Policy(turn=token, choice="first-fit")
    return POLICIES.get(token)
