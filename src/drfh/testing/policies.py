"""What every online policy must do, ours and yours."""

from __future__ import annotations

import functools
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from drfh.errors import DrfhError, InputError
from drfh.policies import Policy, find_policy
from drfh.scheduler import Scheduler
from drfh.testing.outcome import Conformance, ConformanceError
from drfh.testing.random_calls import SchedulerHistory

__all__ = ["check_policy"]

_ANSWERS = {"turn": "a number", "choice": "a number", "inside": "a number",
            "fits": "True or False", "blocked": "True or False"}  # fmt: skip


def check_policy(
    policy: str | Policy | Mapping[str, Any],
    *,
    cases: int = 30,
    seed: int = 0,
    steps: int = 60,
    overfills: bool = False,
) -> Conformance:
    """Drive a scheduler with this policy through short random lives.

    No server is over capacity, no task is lost or runs twice or where it may not, and those that
    lose their server stand in front. Nobody is served while the turn is with somebody else who has
    a task that fits; under ``strict`` nobody at all, and under ``skip`` nothing that fits is left
    waiting. The same life gives the same placements: again, after a snapshot, when the log is
    replayed, and on the other brain.

    Whose turn it is under ``hdrf`` is not checked: it is more than a number for each user.

    Parameters
    ----------
    policy
        A name, parts, or a :class:`~drfh.policies.Policy`, with functions of your own if you like.
    cases
        Number of random lives.
    seed
        Of the first one.
    steps
        Events in each.
    overfills
        Whether your ``fits`` lets tasks overfill servers on purpose. The capacity of servers is
        not checked then. Slots that overfill by definition are known: ``overcommit``, and ``cpu``
        without ``fitcheck``.

    Raises
    ------
    ConformanceError
        With the broken rule, and the log of the life to replay.

    Examples
    --------
    >>> print(check_policy("drfh+cosine+strict", cases=3))
    drfh+cosine+strict
    ok capacity: 3 lives
    ok deterministic: 3 lives
    ok engines: 3 lives
    ok log: 3 lives
    ok returning: 3 lives
    ok snapshot: 3 lives
    ok strict: 3 lives
    ok tasks: 3 lives
    ok turn: 3 lives
    >>> def generous(task, server):
    ...     return task.demand["cpu"] <= server.capacity["cpu"]
    >>> check_policy({"fits": generous})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    drfh.testing.ConformanceError: drfh+best-fit+fits=generous overfills ...
    """
    if isinstance(cases, bool) or not isinstance(cases, int) or cases < 1:
        raise InputError("cases", "must be a whole number ≥ 1", cases)
    chosen = find_policy(policy)
    done: Counter[str] = Counter()
    for case in range(seed, seed + cases):
        done.update(_Checked(chosen, case, overfills).live(steps))
    return Conformance(chosen.name, dict(done), "lives")


class _Checked:
    """One life with all checks."""

    def __init__(self, policy: Policy, seed: int, overfills: bool) -> None:
        slots = policy.slots
        over = slots is not None and (
            slots.oversize == "overcommit" or (slots.count, slots.oversize) in _OVER
        )
        self.checks_capacity = not (overfills or over)
        self.policy = _guarded(policy)
        named = [
            part.partition(":")[2]
            for part in (policy.turn, policy.choice)
            if isinstance(part, str) and ":" in part and not part.startswith("slots:")
        ]
        resources = dict.fromkeys([*("cpu", "memory", "gpu")[: 2 + seed % 2], *named])
        self.usual = policy.fits is None and slots is None
        self.checks_turn = policy.turn != "hdrf"
        self.seed = seed
        self.name = policy.name
        twins = {"deterministic": "plain"}
        if not policy.own and policy.turn != "hdrf":
            twins["engines"] = "indexed"
        self.life = SchedulerHistory(self.policy, list(resources), seed, twins)

    def live(self, steps: int) -> Counter[str]:
        """Go through all of it and return what was checked."""
        done = Counter({"tasks": 1, "returning": 1} | dict.fromkeys(self.life.twins.others, 1))
        try:
            for step in range(steps):
                if step == steps // 2:
                    self._save()
                    done.update(snapshot=1, log=1)
                if self.life.step() == "place":
                    done |= self._place()
                self._check_books()
        except ConformanceError as error:
            raise self._broken(str(error)) from error
        except Exception as error:  # of functions that are not ours, too
            if isinstance(error.__cause__, ConformanceError):
                raise self._broken(f"fails: {error.__cause__}") from error
            kind = "" if isinstance(error, DrfhError) else f"{type(error).__name__}: "
            raise self._broken(f"fails: {kind}{error}") from error
        return done

    def _broken(self, rule: str) -> ConformanceError:
        lines = "\n".join(json.dumps(record) for record in self.life.twins.first.log)
        return ConformanceError(f"{self.name} {rule}; seed {self.seed}, the log:\n{lines}")

    def _save(self) -> None:
        first, again = self.life.twins.first, self.policy if self.policy.own else None
        state = json.loads(json.dumps(first.snapshot()))
        self.life.twins.others["snapshot"] = Scheduler.restore(state, policy=again)
        log = json.loads(json.dumps(list(first.log)))
        self.life.twins.others["log"] = Scheduler.replay(log, policy=again)

    # Placing

    def _place(self) -> Counter[str]:
        kind = self.life.rng.random()
        if kind < 0.2:
            self._start(int(self.life.rng.integers(1, 4)))
            return Counter()
        done = Counter({"capacity": 1} if self.checks_capacity else {})
        if kind < 0.6:
            self._start(None)
        else:
            while self._start_one():
                pass
            done.update({"turn": 1} if self.checks_turn else {})
            if self.checks_turn and self.policy.blocked == "strict":
                done["strict"] = 1
        if self.policy.blocked == "skip":
            done["work-conserving"] = 1
            for user in self.life.books.users:
                if (task := self._that_fits(user)) is not None:
                    raise ConformanceError(f"leaves {task} of {user} waiting, and it fits")
        return done

    def _start(self, limit: int | None) -> list[Any]:
        """Place, and enter what starts into the books."""
        books = self.life.books
        placed = list(self.life.twins("place", limit))
        for task, user, server in placed:
            entry = books.tasks.get(task)
            if entry is None or entry.user != user:
                raise ConformanceError(f"starts {task} of {user}, which was not submitted")
            if entry.server is not None:
                raise ConformanceError(f"starts {task}, which runs already")
            if server not in books.capacity or not books.may_run(entry, server):
                raise ConformanceError(f"starts {task} on {server}, where it may not run")
            entry.server = server
            left = books.free(server)
            short = [r for r, amount in entry.demand.items() if amount and left[r] < 0]
            if self.checks_capacity and short:
                rule = f"overfills {server}: {task} leaves {left[short[0]]:g} {short[0]} free"
                raise ConformanceError(rule)
        return placed

    def _start_one(self) -> bool:
        """Place one task and look whose turn it was."""
        first = self.life.twins.first
        order = {user: number for number, user in enumerate(first.users)}
        waiting = {user: (first.level(user), order[user]) for user in order if first.queued(user)}
        able = {user for user in waiting if self._that_fits(user) is not None}
        placed = self._start(1)
        if not self.checks_turn or not waiting:
            return bool(placed)
        whose = min(waiting, key=waiting.__getitem__)
        if not placed:
            if whose in able:
                raise ConformanceError(f"starts nothing, though {whose} has a task that fits")
            return False
        served = placed[0].user
        strict = self.policy.blocked == "strict"
        for user, turn in waiting.items():
            if turn < waiting[served] and (strict or user in able):
                why = "whose turn it is" if strict else "who comes first and has a task that fits"
                raise ConformanceError(f"serves {served} before {user}, {why}")
        return True

    def _that_fits(self, user: str) -> str | None:
        """Return a task of a user that may start now, if there is one."""
        first, books = self.life.twins.first, self.life.books
        queue = [task for task, state in first.tasks(user).items() if state == "queued"]
        rooms = {server: books.free(server) for server in books.capacity}
        for task in queue[:1] if self.policy.inside == "fifo" else queue:
            for server, room in rooms.items():
                if self.usual and books.fits(books.tasks[task], server, room):
                    return task
                if not self.usual and self._asked(first, task, server):
                    return task
        return None

    @staticmethod
    def _asked(scheduler: Scheduler, task: str, server: str) -> bool:
        """Ask the brain whether a task fits: it alone counts slots and calls functions."""
        core: Any = scheduler._core
        number, position = scheduler._tasks[task], scheduler._fleet.position[server]
        if scheduler.policy.fits is not None:
            return bool(core.takes(number, position))
        return bool(core.fits(core.shape_of(number), position))

    # Books

    def _check_books(self) -> None:
        first, books = self.life.twins.first, self.life.books
        for user in books.users:
            seen = first.tasks(user)
            queue = [task for task, state in seen.items() if state != "running"]
            if queue != books.queue(user):
                rule = f"has {user}'s queue as {queue}, not {books.queue(user)}"
                raise ConformanceError(rule)
            running = {task for task, state in seen.items() if state == "running"}
            for task in running:
                if first.where(task) != books.tasks[task].server:
                    rule = f"has {task} on {first.where(task)}, not {books.tasks[task].server}"
                    raise ConformanceError(rule)
            if self.usual:
                self._check_never(user, seen)
        for task, how in books.ended.items():
            if first.state(task) != how:
                raise ConformanceError(f"has {task} as {first.state(task)}, not {how}")
        for server in books.capacity:
            if first.free(server) != books.free(server):
                rule = f"has {first.free(server)} free on {server}, not {books.free(server)}"
                raise ConformanceError(rule)

    def _check_never(self, user: str, seen: Mapping[str, str]) -> None:
        books = self.life.books
        for name, state in seen.items():
            task = books.tasks[name]
            could = any(books.fits(task, server, size) for server, size in books.capacity.items())
            if state != "running" and (state == "never") == could:
                raise ConformanceError(f"has {name} of {user} as {state}")


#: Slots whose count looks at the CPU alone.
_OVER = {("cpu", "ceil"), ("cpu", "reject")}


def _guarded(policy: Policy) -> Policy:
    """Return the policy with functions whose answers are looked at."""
    return replace(
        policy,
        **{part: _guard(getattr(policy, part), part) for part in policy.own},
    )


def _guard(function: Callable[..., Any], part: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def guarded(*views: Any) -> Any:
        answer = function(*views)
        if _ANSWERS[part] == "a number":
            fine = isinstance(answer, Real) and not math.isnan(answer)
        else:
            fine = isinstance(answer, (bool, np.bool_))
        if not fine:
            raise ConformanceError(f"{part} must return {_ANSWERS[part]}, got {answer!r}")
        return answer

    return guarded
