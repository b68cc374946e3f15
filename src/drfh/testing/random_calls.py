"""Random lives of a scheduler: several of them in lockstep, and simple books beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from drfh.model.cluster import Cluster, Server
from drfh.scheduler import Scheduler
from drfh.testing.outcome import ConformanceError

__all__ = ["Books", "ModelTask", "SchedulerHistory", "Twins"]

#: What it means if a twin answers otherwise.
TWINS = {
    "deterministic": "decides otherwise when asked again",
    "engines": "decides otherwise on the indexed brain",
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
    """A task in the books."""

    user: str
    demand: Mapping[str, float]
    servers: Any
    order: int
    server: str | None = None
    returned: bool = False


@dataclass
class Books:
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

    def fits(self, task: ModelTask, server: str, room: Mapping[str, float]) -> bool:
        """Return whether a task may run on a server with so much room."""
        enough = all(amount <= room[r] for r, amount in task.demand.items() if amount)
        return enough and self.may_run(task, server)

    def queue(self, user: str) -> list[str]:
        """Return the tasks of a user that do not run: those that ran before in front."""
        waiting = [(not t.returned, t.order, name) for name, t in self.tasks.items()
                   if t.user == user and t.server is None]  # fmt: skip
        return [name for _, _, name in sorted(waiting)]


class SchedulerHistory:
    """Random events, each for all twins and for the books. `step` says what happened.

    Parameters
    ----------
    policy
        As for :class:`drfh.Scheduler`.
    resources
        Names.
    seed
        Decides the whole life.
    twins
        Check → engine of a scheduler that is there from the start, beside a plain one.
    """

    def __init__(
        self, policy: Any, resources: Sequence[str], seed: int, twins: Mapping[str, Any]
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.resources = tuple(resources)
        self.books = Books()
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
        self.books.capacity[name], self.books.zone[name] = size, zone
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
        return [name for name, task in self.books.tasks.items() if task.server is not None]

    def _waiting(self) -> list[str]:
        return [name for name, task in self.books.tasks.items() if task.server is None]

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
        self.books.users[name] = terms

    def weight(self) -> None:
        """Change a weight."""
        self.twins("set_weight", self._any(list(self.books.users)), float(self.rng.integers(1, 4)))

    def leave(self) -> None:
        """Remove a user with all it has."""
        if len(self.books.users) > 1:
            user = self._any(list(self.books.users))
            mine = {name for name, task in self.books.tasks.items() if task.user == user}
            gone = self.twins("remove_user", user, cancel=True)
            if set(gone) != mine or len(gone) != len(mine):
                raise ConformanceError(f"loses tasks: {user} left with {gone}, not {sorted(mine)}")
            self._end(gone, "cancelled")
            del self.books.users[user]

    def submit(self) -> None:
        """Submit a task or a job."""
        name, user = self._new("t"), self._any(list(self.books.users))
        count = int(self.rng.choice([1, 1, 2, 4, 7]))
        demand, terms = self._demand(), self._restriction()
        for task in self.twins("submit", name, user, demand, count=count, servers=terms):
            self.books.tasks[task] = ModelTask(user, demand, terms, self._order)
            self._order += 1

    def adopt(self) -> None:
        """Let a task run that was not placed, where it fits."""
        task = ModelTask(self._any(list(self.books.users)), self._demand(), None, self._order)
        rooms = {server: self.books.free(server) for server in self.books.capacity}
        for server, room in rooms.items():
            if self.books.fits(task, server, room):
                name = self._new("t")
                self.twins("adopt", name, task.user, task.demand, server)
                self.books.tasks[name] = task
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
        if self.books.tasks:
            name = self._any(list(self.books.tasks))
            self.twins("cancel", name)
            self._end([name], "cancelled")

    def update(self) -> None:
        """Change what a waiting task needs."""
        names = self._waiting()
        if names:
            task = self.books.tasks[name := self._any(names)]
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
        down = [name for name in self.books.zone if name not in self.books.capacity]
        bring = down and self.rng.random() < 0.7
        name = self._any(down) if bring else f"s{len(self.books.zone)}"
        server = self._server(name)
        self.twins("add_server", name, server.resources, server.labels)

    def remove(self) -> None:
        """Remove a server, unless it is the last."""
        if len(self.books.capacity) > 1:
            name = self._any(list(self.books.capacity))
            self._back(self.twins("remove_server", name))
            del self.books.capacity[name]

    def resize(self) -> None:
        """Change the size of a server."""
        name = self._any(list(self.books.capacity))
        size = {r: float(self.rng.choice([2, 4, 6, 12])) for r in self.resources}
        self._back(self.twins("resize_server", name, size))
        self.books.capacity[name] = size

    def _end(self, names: Sequence[str], how: str) -> None:
        for name in names:
            del self.books.tasks[name]
            self.books.ended[name] = how

    def _back(self, names: Sequence[str]) -> None:
        for name in names:
            self.books.tasks[name].server = None
            self.books.tasks[name].returned = True


def _short(answer: Any) -> str:
    text = str(answer)
    return text if len(text) <= 200 else f"{text[:200]} …"
