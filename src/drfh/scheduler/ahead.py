"""Whose turn comes before that of a user, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from drfh.scheduler.core import QUEUED
from drfh.scheduler.plain import PlainCore

if TYPE_CHECKING:
    from drfh.scheduler.looking import Looking

__all__ = ["Ahead", "earlier_tasks", "users_ahead"]


@dataclass(frozen=True, slots=True)
class Ahead:
    """A user whose turn comes first: its level, that of the one who asks, and the reason."""

    user: str
    level: float
    own_level: float
    reason: str


def earlier_tasks(desk: Looking, task: int) -> int:
    """Return how many tasks of the same user go before this one."""
    core = desk._core
    inside = desk.policy.inside
    if callable(inside):
        return 0  # only the function knows
    count = 0
    for other in core.queue_of(core.user_of(task)):
        if other == task:
            break
        same = inside == "fifo" or core.shape_of(other) == core.shape_of(task)
        count += same and core.state(other) == QUEUED
    return count


def users_ahead(desk: Looking, user: int) -> tuple[Ahead, ...]:
    """Return the users with queued tasks whose turn comes first, the next one in front."""
    core = desk._core
    own = float(core.level(user))
    waiting = [number for number in desk._users.values() if core.counts(number)[1]]
    if desk._rules.mode == "tree" and isinstance(core, PlainCore):
        ahead = []
        while (first := core._down_the_tree(waiting)) != user:
            waiting.remove(first)
            reason = "first down the tree of users"
            ahead.append(Ahead(desk._user_names[first], float(core.level(first)), own, reason))
        return tuple(ahead)
    levels = {number: float(core.level(number)) for number in waiting}
    before = sorted((level, n) for n, level in levels.items() if (level, n) < (own, user))
    return tuple(
        Ahead(desk._user_names[n], level, own, _reason(desk, n, level, user, own))
        for level, n in before
    )


def _reason(desk: Looking, other: int, level: float, user: int, own: float) -> str:
    turn = desk._rules.turn
    if turn == "fifo":
        return "its oldest task is older"
    words = {
        "drfh": "dominant share",
        "tsf": "part of what it could run alone",
        "asset": "sum of shares",
        "max-min": f"share of {str(desk.policy.turn).partition(':')[2]}",
        "slots": "number of slots",
    }
    word = words.get(turn, "value of the policy's function")
    if turn in words and (desk._weights[other] != 1 or desk._weights[user] != 1):
        word += " by weight"
    if level == own:
        return f"same {word} {own:.3g}, added first"
    digits = 3
    while f"{level:.{digits}g}" == f"{own:.{digits}g}" and digits < 17:
        digits += 1
    lower = "smaller" if turn in ("slots", "tsf") else "lower"
    return f"{lower} {word} {level:.{digits}g} < {own:.{digits}g}"
