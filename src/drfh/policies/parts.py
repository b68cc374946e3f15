"""What a policy's own Python functions get to see, and the names of the parts that we ship."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from drfh.policies.scores import SCORES

__all__ = [
    "BLOCKED",
    "CHOICES",
    "INSIDE",
    "TURNS",
    "Choice",
    "Fits",
    "Inside",
    "ServerView",
    "Stop",
    "TaskView",
    "Turn",
    "UserView",
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
