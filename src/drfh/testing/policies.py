"""Conformance suite for policies: random calls of schedulers, checked against a simple model."""

from __future__ import annotations

import functools
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Real
from typing import Any

import numpy as np

from drfh.errors import DrfhError, InputError
from drfh.model.cluster import Cluster, Server
from drfh.policies import Policy, find_policy
from drfh.scheduler import Scheduler
from drfh.testing.conformance import Conformance, ConformanceError

__all__ = ["ModelTask", "SchedulerHistory", "SchedulerModel", "Twins", "check_policy"]


#: What it means if a twin answers otherwise.
TWINS = {
    "deterministic": "decides otherwise when asked again",
    "engines": "decides otherwise on the indexed core",
    "snapshot": "has another future after snapshot and restore",
    "log": "has another future when its log is replayed",
}

_EVENTS = {
    "submit": 24, "place": 26, "finish": 18, "user": 4, "weight": 2, "leave": 1, "cancel": 3,
    "update": 3, "unplace": 3, "adopt": 2, "add": 3, "remove": 3, "resize": 3,
}  # fmt: skip
_GROUPS: dict[str, dict[str, Any]] = {"above": {"weight": 2}, "below": {"parent": "above"}}


class Twins:
    """Schedulers that get the same calls and must give the same answers."""

    def __init__(self, first: Scheduler, others: dict[str, Scheduler]) -> None:
        self.first = first
        self.others = others

    def __call__(self, call: str, *arguments: Any, **options: Any) -> Any:
        """Make a call everywhere and return the answer."""
        answer = getattr(self.first, call)(*arguments, **options)
        for check, other in self.others.items():
            again = getattr(other, call)(*arguments, **options)
            if again != answer:
                rule = f"{TWINS[check]}: {call} gives {_short(answer)} and then {_short(again)}"
                raise ConformanceError(rule)
        return answer


@dataclass
class ModelTask:
    """A task of the model."""

    user: str
    demand: Mapping[str, float]
    servers: Any
    order: int
    server: str | None = None
    returned: bool = False


@dataclass
class SchedulerModel:
    """What must be true, counted in the simplest way. Amounts are small whole numbers."""

    capacity: dict[str, dict[str, float]] = field(default_factory=dict)
    zone: dict[str, str] = field(default_factory=dict)
    users: dict[str, Any] = field(default_factory=dict)  # with their restrictions
    tasks: dict[str, ModelTask] = field(default_factory=dict)  # that have not ended
    ended: dict[str, str] = field(default_factory=dict)

    def free(self, server: str) -> dict[str, float]:
        """Return what the tasks on a server leave of it."""
        left = dict(self.capacity[server])
        for task in self.tasks.values():
            if task.server == server:
                for resource, amount in task.demand.items():
                    left[resource] -= amount
        return left

    def may_run(self, task: ModelTask, server: str) -> bool:
        """Return whether the restrictions of a task and of its user accept a server."""
        for terms in (task.servers, self.users[task.user]):
            if isinstance(terms, str) and terms != server:
                return False
            if isinstance(terms, Mapping) and terms["zone"] != self.zone[server]:
                return False
        return True

    def fits(self, task: ModelTask, server: str, available: Mapping[str, float]) -> bool:
        """Return whether a task may run on a server with so much available."""
        enough = all(amount <= available[r] for r, amount in task.demand.items() if amount)
        return enough and self.may_run(task, server)

    def queue(self, user: str) -> list[str]:
        """Return the tasks of a user that do not run: those that ran before in front."""
        waiting = [(not t.returned, t.order, name) for name, t in self.tasks.items()
                   if t.user == user and t.server is None]  # fmt: skip
        return [name for _, _, name in sorted(waiting)]


class SchedulerHistory:
    """Random events, each for all twins and for the model. `step` returns what happened.

    Parameters
    ----------
    policy
        As for :class:`drfh.Scheduler`.
    resources
        Names.
    seed
        Decides the whole history.
    twins
        Check → engine of a scheduler that is there from the start, beside a plain one.
    """

    def __init__(
        self, policy: Any, resources: Sequence[str], seed: int, twins: Mapping[str, Any]
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.resources = tuple(resources)
        self.model = SchedulerModel()
        servers = [self._server(f"s{i}") for i in range(int(self.rng.integers(2, 7)))]
        first, *others = (
            Scheduler(Cluster(servers), policy, seed=seed, engine=engine, groups=_GROUPS)
            for engine in ("plain", *twins.values())
        )
        self.twins = Twins(first, dict(zip(twins, others, strict=True)))
        self._names = 0
        self._order = 0
        for _ in range(int(self.rng.integers(1, 4))):
            self.user()

    def _server(self, name: str) -> Server:
        # Some of everything on the first, so that every resource is there.
        size = {r: float(self.rng.choice([4, 6, 8, 12])) for r in self.resources}
        if name != "s0" and self.rng.random() < 0.3:
            size[str(self.rng.choice(self.resources[1:]))] = 0.0
        zone = "ab"[int(name[1:]) % 2]
        self.model.capacity[name], self.model.zone[name] = size, zone
        return Server(size, name=name, labels={"zone": zone})

    def _demand(self) -> dict[str, float]:
        scale = 5.0 if self.rng.random() < 0.06 else 1.0
        row = {r: scale * int(self.rng.integers(0, 4)) for r in self.resources}
        return row if any(row.values()) else {**row, self.resources[0]: scale}

    def _restriction(self) -> Any:
        kind = self.rng.random()
        if kind < 0.75:
            return None
        return {"zone": str(self.rng.choice(["a", "b"]))} if kind < 0.9 else "s1"

    def _new(self, letter: str) -> str:
        self._names += 1
        return f"{letter}{self._names}"

    def _any(self, names: Sequence[str]) -> str:
        return str(self.rng.choice(list(names)))

    def _running(self) -> list[str]:
        return [name for name, task in self.model.tasks.items() if task.server is not None]

    def _waiting(self) -> list[str]:
        return [name for name, task in self.model.tasks.items() if task.server is None]

    def step(self) -> str:
        """Let something happen and return what; ``place`` is left to the caller."""
        weights = np.array(list(_EVENTS.values()), dtype=float)
        kind = str(self.rng.choice(list(_EVENTS), p=weights / weights.sum()))
        if kind != "place":
            getattr(self, kind)()
        return kind

    def user(self) -> None:
        """Add a user."""
        name, terms = self._new("u"), self._restriction() if self.rng.random() < 0.4 else None
        parent = str(self.rng.choice(["above", "below"])) if self.rng.random() < 0.6 else None
        weight = float(self.rng.choice([0.5, 1.0, 1.0, 1.0, 3.0]))
        self.twins("add_user", name, weight, terms, parent)
        self.model.users[name] = terms

    def weight(self) -> None:
        """Change a weight."""
        self.twins("set_weight", self._any(list(self.model.users)), float(self.rng.integers(1, 4)))

    def leave(self) -> None:
        """Remove a user with all it has."""
        if len(self.model.users) > 1:
            user = self._any(list(self.model.users))
            mine = {name for name, task in self.model.tasks.items() if task.user == user}
            gone = self.twins("remove_user", user, cancel=True)
            if set(gone) != mine or len(gone) != len(mine):
                raise ConformanceError(f"loses tasks: {user} left with {gone}, not {sorted(mine)}")
            self._end(gone, "cancelled")
            del self.model.users[user]

    def submit(self) -> None:
        """Submit a task or a job."""
        name, user = self._new("t"), self._any(list(self.model.users))
        count = int(self.rng.choice([1, 1, 2, 4, 7]))
        demand, terms = self._demand(), self._restriction()
        for task in self.twins("submit", name, user, demand, count=count, servers=terms):
            self.model.tasks[task] = ModelTask(user, demand, terms, self._order)
            self._order += 1

    def adopt(self) -> None:
        """Let a task run that was not placed, where it fits."""
        task = ModelTask(self._any(list(self.model.users)), self._demand(), None, self._order)
        available = {server: self.model.free(server) for server in self.model.capacity}
        for server, free in available.items():
            if self.model.fits(task, server, free):
                name = self._new("t")
                self.twins("adopt", name, task.user, task.demand, server)
                self.model.tasks[name] = task
                task.server = server
                self._order += 1
                break

    def finish(self) -> None:
        """End running tasks."""
        names = self._running()
        if names:
            number = min(len(names), int(self.rng.choice([1, 1, 2, 5])))
            done = [str(name) for name in self.rng.choice(names, size=number, replace=False)]
            self.twins("finish", *done)
            self._end(done, "done")

    def cancel(self) -> None:
        """Cancel a task."""
        if self.model.tasks:
            name = self._any(list(self.model.tasks))
            self.twins("cancel", name)
            self._end([name], "cancelled")

    def update(self) -> None:
        """Change what a waiting task needs."""
        names = self._waiting()
        if names:
            task = self.model.tasks[name := self._any(names)]
            task.demand = self._demand()
            self.twins("update", name, demand=task.demand)

    def unplace(self) -> None:
        """Let an engine refuse a task."""
        names = self._running()
        if names:
            self.twins("unplace", name := self._any(names))
            self._back([name])

    def add(self) -> None:
        """Add a server, or bring one back."""
        down = [name for name in self.model.zone if name not in self.model.capacity]
        bring = down and self.rng.random() < 0.7
        name = self._any(down) if bring else f"s{len(self.model.zone)}"
        server = self._server(name)
        self.twins("add_server", name, server.resources, server.labels)

    def remove(self) -> None:
        """Remove a server, unless it is the last."""
        if len(self.model.capacity) > 1:
            name = self._any(list(self.model.capacity))
            self._back(self.twins("remove_server", name))
            del self.model.capacity[name]

    def resize(self) -> None:
        """Change the size of a server."""
        name = self._any(list(self.model.capacity))
        size = {r: float(self.rng.choice([2, 4, 6, 12])) for r in self.resources}
        self._back(self.twins("resize_server", name, size))
        self.model.capacity[name] = size

    def _end(self, names: Sequence[str], how: str) -> None:
        for name in names:
            del self.model.tasks[name]
            self.model.ended[name] = how

    def _back(self, names: Sequence[str]) -> None:
        for name in names:
            self.model.tasks[name].server = None
            self.model.tasks[name].returned = True


def _short(answer: Any) -> str:
    text = str(answer)
    return text if len(text) <= 200 else f"{text[:200]} …"


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
    """Drive a scheduler with this policy through short random histories.

    No server is over capacity, no task is lost or runs twice or where it may not, and those that
    lose their server stand in front. Nobody is served while the turn is with somebody else who has
    a task that fits; under ``strict`` nobody at all, and under ``skip`` nothing that fits is left
    waiting. The same history gives the same placements: again, after a snapshot, when the log is
    replayed, and on the other core. Functions of your own return what they should, and change
    nothing that they are given.

    Your ``turn`` and ``fits`` are taken at their word: whether a turn is fair is not checked, and
    whose turn it is under ``hdrf`` is not either, as it is more than a number for each user.

    Parameters
    ----------
    policy
        A name, parts, or a :class:`~drfh.policies.Policy`, with functions of your own if you like.
    cases
        Number of random histories.
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
        With the broken rule, and the log of the history to replay.

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
    """One random history with all checks."""

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
        self.history = SchedulerHistory(self.policy, list(resources), seed, twins)

    def live(self, steps: int) -> Counter[str]:
        """Go through all of it and return what was checked."""
        done = Counter({"tasks": 1, "returning": 1} | dict.fromkeys(self.history.twins.others, 1))
        try:
            for step in range(steps):
                if step == steps // 2:
                    self._save()
                    done.update(snapshot=1, log=1)
                if self.history.step() == "place":
                    done |= self._place()
                self._check_model()
        except ConformanceError as error:
            raise self._broken(str(error)) from error
        except Exception as error:  # of functions that are not ours, too
            if isinstance(error.__cause__, ConformanceError):
                raise self._broken(f"fails: {error.__cause__}") from error
            kind = "" if isinstance(error, DrfhError) else f"{type(error).__name__}: "
            raise self._broken(f"fails: {kind}{error}") from error
        return done

    def _broken(self, rule: str) -> ConformanceError:
        lines = "\n".join(json.dumps(record) for record in self.history.twins.first.log)
        return ConformanceError(f"{self.name} {rule}; seed {self.seed}, the log:\n{lines}")

    def _save(self) -> None:
        first, again = self.history.twins.first, self.policy if self.policy.own else None
        state = json.loads(json.dumps(first.snapshot()))
        self.history.twins.others["snapshot"] = Scheduler.restore(state, policy=again)
        log = json.loads(json.dumps(list(first.log)))
        self.history.twins.others["log"] = Scheduler.replay(log, policy=again)

    # Placing

    def _place(self) -> Counter[str]:
        kind = self.history.rng.random()
        if kind < 0.2:
            self._start(int(self.history.rng.integers(1, 4)))
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
            for user in self.history.model.users:
                if (task := self._that_fits(user)) is not None:
                    raise ConformanceError(f"leaves {task} of {user} waiting, and it fits")
        return done

    def _start(self, limit: int | None) -> list[Any]:
        """Place, and enter what starts into the model."""
        model = self.history.model
        placed = list(self.history.twins("place", limit))
        for task, user, server in placed:
            entry = model.tasks.get(task)
            if entry is None or entry.user != user:
                raise ConformanceError(f"starts {task} of {user}, which was not submitted")
            if entry.server is not None:
                raise ConformanceError(f"starts {task}, which runs already")
            if server not in model.capacity or not model.may_run(entry, server):
                raise ConformanceError(f"starts {task} on {server}, where it may not run")
            entry.server = server
            left = model.free(server)
            short = [r for r, amount in entry.demand.items() if amount and left[r] < 0]
            if self.checks_capacity and short:
                rule = f"overfills {server}: {task} leaves {left[short[0]]:g} {short[0]} free"
                raise ConformanceError(rule)
        return placed

    def _start_one(self) -> bool:
        """Place one task and check whose turn it was."""
        first = self.history.twins.first
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
        first, model = self.history.twins.first, self.history.model
        queue = [task for task, state in first.tasks(user).items() if state == "queued"]
        available = {server: model.free(server) for server in model.capacity}
        for task in queue[:1] if self.policy.inside == "fifo" else queue:
            for server, free in available.items():
                if self.usual and model.fits(model.tasks[task], server, free):
                    return task
                if not self.usual and first.fits(task, server):
                    return task
        return None

    # SchedulerModel

    def _check_model(self) -> None:
        first, model = self.history.twins.first, self.history.model
        for user in model.users:
            seen = first.tasks(user)
            queue = [task for task, state in seen.items() if state != "running"]
            if queue != model.queue(user):
                rule = f"has {user}'s queue as {queue}, not {model.queue(user)}"
                raise ConformanceError(rule)
            running = {task for task, state in seen.items() if state == "running"}
            for task in running:
                if first.where(task) != model.tasks[task].server:
                    rule = f"has {task} on {first.where(task)}, not {model.tasks[task].server}"
                    raise ConformanceError(rule)
            if self.usual:
                self._check_never(user, seen)
        for task, how in model.ended.items():
            if first.state(task) != how:
                raise ConformanceError(f"has {task} as {first.state(task)}, not {how}")
        for server in model.capacity:
            if first.free(server) != model.free(server):
                rule = f"has {first.free(server)} free on {server}, not {model.free(server)}"
                raise ConformanceError(rule)

    def _check_never(self, user: str, seen: Mapping[str, str]) -> None:
        model = self.history.model
        for name, state in seen.items():
            task = model.tasks[name]
            could = any(model.fits(task, server, size) for server, size in model.capacity.items())
            if state != "running" and (state == "never") == could:
                raise ConformanceError(f"has {name} of {user} as {state}")


#: Slots that are counted by the CPU alone.
_OVER = {("cpu", "ceil"), ("cpu", "reject")}


def _guarded(policy: Policy) -> Policy:
    """Return the policy with functions that are checked: what they return, and change."""
    return replace(
        policy,
        **{part: _guard(getattr(policy, part), part) for part in policy.own},
    )


def _mappings(views: Sequence[Any]) -> list[dict[str, float]]:
    """Return copies of the mappings that a function of the policy is given."""
    values = (getattr(view, entry.name) for view in views for entry in fields(view))
    return [dict(value) for value in values if isinstance(value, Mapping)]


def _guard(function: Callable[..., Any], part: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def guarded(*views: Any) -> Any:
        before = _mappings(views)
        answer = function(*views)
        if _mappings(views) != before:
            raise ConformanceError(f"{part} must not change the mappings that it is given")
        if _ANSWERS[part] == "a number":
            fine = isinstance(answer, Real) and not math.isnan(answer)
        else:
            fine = isinstance(answer, (bool, np.bool_))
        if not fine:
            raise ConformanceError(f"{part} must return {_ANSWERS[part]}, got {answer!r}")
        return answer

    return guarded
