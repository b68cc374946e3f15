"""Random histories of events for the plain core and the indexed one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from drfh.policies import Policy
from drfh.scheduler.core import GONE, NEVER, QUEUED, RUNNING, Core
from drfh.scheduler.rules import Rules

TURNS = ["drfh", "fifo", "tsf", "asset", "max-min:r0", "slots:4", "slots:7:cpu", "slots:5:reject",
         "slots:6:overcommit", "slots:3:fitcheck"]  # fmt: skip
CHOICES = ["best-fit", "first-fit", "cosine", "simplex", "hilbert", "alignment", "dot", "tightest",
           "spread", "random"]  # fmt: skip
NUMBERS = ["few", "equal", "many", "huge", "lopsided"]

# What happens, and how often.
EVENTS = {
    "submit": 22, "place": 20, "finish": 18, "flood": 2, "user": 5, "shape": 7, "weight": 3,
    "server": 2, "resize": 2, "down": 2, "up": 1, "cancel": 3, "back": 3, "adopt": 3, "update": 3,
    "restriction": 1, "limit": 4, "swap": 1,
}  # fmt: skip


@dataclass
class History:
    """One random history, decided by a seed.

    Parameters
    ----------
    seed, policy, resources
        What decides it.
    servers, users
        How many there are at the start: of servers at least half, of users at most so many.
    numbers
        ``few``: small amounts, so that there are many ties; ``equal``: servers of one size;
        ``many``: hardly two alike; ``huge``: close to 2⁴³, so that ratios are equal only rounded;
        ``lopsided``: a task needs so little of the first resource that differences are rounded off.
    swaps
        Whether states are exchanged between cores now and then.
    """

    seed: int
    policy: str
    resources: int
    servers: int = 12
    users: int = 1
    numbers: str = "few"
    swaps: bool = False

    def rules(self) -> Rules:
        names = tuple(f"r{i}" for i in range(self.resources))
        return Rules(Policy.parse(self.policy), names, (1.0,) * self.resources, seed=self.seed)


def random_history(seed: int, servers: int, users: int) -> History:
    """Return a history with parts drawn by a seed, more often choices that have an index."""
    rng = np.random.default_rng([seed, 1])
    turn = str(rng.choice(TURNS)) if rng.random() < 0.5 else "drfh"
    choice = str(rng.choice(CHOICES)) if rng.random() < 0.3 else str(rng.choice(CHOICES[:2]))
    blocked = str(rng.choice(["skip", "skip", "skip", "strict"]))
    inside = str(rng.choice(["fifo", "backfill"]))
    policy = f"turn={turn}+{choice}+{blocked}+inside={inside}"
    return History(
        seed,
        policy,
        int(rng.choice([1, 2, 2, 2, 3, 5])),
        servers=servers,
        users=users,
        numbers=str(rng.choice(NUMBERS)),
        swaps=bool(rng.random() < 0.3),
    )


def same(one: Core, two: Core, users: int, servers: int, tasks: int) -> None:
    """Compare all that can be seen."""
    for user in range(users):
        assert one.counts(user) == two.counts(user)
        assert one.usage(user) == two.usage(user)
        assert one.queue_of(user) == two.queue_of(user)
        if one.counts(user)[1]:
            assert one.level(user) == two.level(user)
    for server in range(servers):
        assert one.free(server) == two.free(server)
        assert one.running_on(server) == two.running_on(server)
        assert one.overfull(server) == two.overfull(server)
    assert [one.state(t) for t in range(tasks)] == [two.state(t) for t in range(tasks)]


class _Amounts:
    """Sizes of servers and needs of tasks."""

    def __init__(self, history: History, rng: np.random.Generator) -> None:
        self.numbers, self.m, self.rng = history.numbers, history.resources, rng
        kinds = 1 if self.numbers == "equal" else 6
        self.sizes = rng.choice([2, 4, 8, 12], size=(kinds, self.m))
        self.sizes = self.sizes * (rng.random((kinds, self.m)) > 0.15)
        self.sizes[:, 0] = np.maximum(self.sizes[:, 0], 2)
        # So that about so many tasks fit on a server.
        pool = 2**43 // (max(history.servers, 1) * 12)
        self.base = {"many": 1000, "huge": pool}
        self.lopsided = pool if self.numbers == "lopsided" else 0

    def size(self) -> list[int]:
        if self.lopsided:
            first = self.lopsided + int(self.rng.integers(0, 16))
            other = int(self.rng.choice([2, 4, 4, 4, 4]))
            return [first, *[other] * (self.m - 1)]
        row = self.sizes[self.rng.integers(len(self.sizes))]
        base = self.base.get(self.numbers)
        if base is not None:
            row = row * base + self.rng.integers(0, 7 if self.numbers == "huge" else base, self.m)
        return [int(amount) for amount in row]

    def need(self) -> list[int]:
        rng, m = self.rng, self.m
        if self.lopsided:
            first = int(rng.integers(1, 4)) * max(self.lopsided >> 26, 1)
            return [first, *rng.integers(0, 3, m - 1).tolist()]
        row = rng.integers(0, 5, size=m) * (rng.random(m) > 0.25)
        if rng.random() < 0.08:
            row = row * 5
        base = self.base.get(self.numbers)
        if base is not None:
            more = rng.integers(-3, 4, m) if self.numbers == "huge" else rng.integers(0, base, m)
            row = np.where(row > 0, row * base + more, 0)
        if not row.any():
            row[rng.integers(m)] = 1
        return [int(amount) for amount in row]


def run_history(history: History, cores: list[Any], steps: int, *, compared: bool = True) -> int:
    """Send the same random events through all cores; every placement must agree, in order."""
    rng = np.random.default_rng(history.seed)
    amounts = _Amounts(history, rng)
    servers, users, shapes, restrictions, tasks = 0, 0, 0, 0, 0
    placed = 0
    kinds = list(EVENTS)
    odds = np.array([EVENTS[kind] for kind in kinds]) / sum(EVENTS.values())

    def each(call: str, *arguments: Any) -> Any:
        results = [getattr(core, call)(*arguments) for core in cores]
        assert all(r == results[0] for r in results[1:]), (call, arguments, results)
        return results[0]

    def compare() -> None:
        if compared:
            for other in cores[1:]:
                same(cores[0], other, users, servers, tasks)

    def of_state(*states: int) -> list[int]:
        return [task for task in range(tasks) if cores[0].state(task) in states]

    def add_server() -> None:
        nonlocal servers
        share = rng.choice([0.05, 0.6])
        allowed = [bool(rng.random() < share) for _ in range(restrictions)]
        each("add_server", amounts.size(), allowed)
        servers += 1

    def add_user() -> None:
        nonlocal users
        each("add_user", float(rng.choice([0.5, 1.0, 1.0, 1.0, 3.0])))
        users += 1

    def swap() -> None:
        nonlocal tasks
        states = [core.dump() for core in cores]
        for core, other in zip(cores, states[1:] + states[:1], strict=True):
            core.__init__(core.rules)
            core.load(other)
        tasks = len(states[0].tasks)

    for _ in range(int(rng.integers(history.servers // 2 + 1, history.servers + 1))):
        add_server()
    for _ in range(int(rng.integers(1, history.users + 1))):
        add_user()
    for _ in range(steps):
        kind = str(rng.choice(kinds, p=odds))
        if kind == "user":
            add_user()
        elif kind == "restriction":
            share = rng.choice([0.02, 0.5])
            each("add_restriction", [bool(rng.random() < share) for _ in range(servers)])
            restrictions += 1
        elif kind == "shape" or shapes == 0:
            within = int(rng.integers(restrictions + 1)) if rng.random() < 0.3 else 0
            each("add_shape", amounts.need(), within)
            shapes += 1
        elif kind in ("submit", "flood"):
            # A flood keeps everybody waiting, as long as there are not too many servers.
            for _ in range(1 if kind == "submit" else users):
                number = int(rng.choice([1, 1, 2, 5, 9, servers // 4 + 1]))
                each("submit", int(rng.integers(users)), int(rng.integers(shapes)), number)
                tasks += number
        elif kind in ("place", "limit"):
            limit = int(rng.integers(3)) if kind == "limit" else -1
            found = [core.place(limit) for core in cores]
            for other in found[1:]:
                assert other[0].tolist() == found[0][0].tolist()
                assert other[1].tolist() == found[0][1].tolist()
            placed += len(found[0][0])
        elif kind == "weight":
            each("set_weight", int(rng.integers(users)), float(rng.choice([0.5, 1.0, 2.0])))
        elif kind == "server":
            add_server()
        elif kind in ("resize", "down", "up"):
            server = int(rng.integers(servers))
            if kind == "up":
                down = [s for s in range(servers) if not any(cores[0].capacity(s))]
                server = int(rng.choice(down)) if down else server
            size = [0] * history.resources if kind == "down" else amounts.size()
            if kind == "down":
                for task in cores[0].running_on(server):
                    each("put_back", task)
            each("set_capacity", server, size)
            while kind == "resize" and cores[0].overfull(server) and cores[0].running_on(server):
                each("put_back", cores[0].running_on(server)[-1])
        elif kind == "adopt":
            each("adopt", int(rng.integers(users)), int(rng.integers(shapes)),
                 int(rng.integers(servers)))  # fmt: skip
            tasks += 1
        elif kind in ("finish", "back"):
            running = of_state(RUNNING)
            number = min(len(running), int(rng.choice([1, 1, 2, 6, len(running) // 2 + 1])))
            for task in rng.choice(running, size=number, replace=False).tolist() if running else ():
                each("finish" if kind == "finish" else "put_back", task)
        elif kind in ("cancel", "update"):
            waiting = of_state(QUEUED, NEVER)
            if waiting:
                task = int(rng.choice(waiting))
                if kind == "cancel":
                    each("cancel", task)
                else:
                    each("update", task, int(rng.integers(shapes)))
        elif kind == "swap" and history.swaps:
            swap()
        if rng.random() < (0.2 if servers < 20 else 0.02):
            compare()
    compare()
    assert GONE not in {cores[0].state(t) for t in of_state(RUNNING)}
    return placed
