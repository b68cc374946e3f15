"""Random lives of a brain: the same events for the plain twin and the indexed one."""

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


@dataclass
class Life:
    """One random life, decided by a seed: small numbers, so that there are many ties."""

    seed: int
    policy: str
    resources: int

    def rules(self) -> Rules:
        names = tuple(f"r{i}" for i in range(self.resources))
        return Rules(Policy.parse(self.policy), names, (1.0,) * self.resources, seed=self.seed)


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


def live(life: Life, cores: list[Any], steps: int, *, look: bool = True) -> int:
    """Send the same random events through all cores; every placement must agree, in order."""
    rng = np.random.default_rng(life.seed)
    m = life.resources
    sizes = rng.choice([2, 4, 8, 12], size=(6, m)) * (rng.random((6, m)) > 0.15)
    sizes[:, 0] = np.maximum(sizes[:, 0], 2)
    servers, users, shapes, restrictions, tasks = 0, 0, 0, 0, 0
    placed = 0

    def each(call: str, *arguments: Any) -> Any:
        results = [getattr(core, call)(*arguments) for core in cores]
        assert all(r == results[0] for r in results[1:]), (call, arguments, results)
        return results[0]

    def compare() -> None:
        if look:
            for other in cores[1:]:
                same(cores[0], other, users, servers, tasks)

    def of_state(*states: int) -> list[int]:
        return [task for task in range(tasks) if cores[0].state(task) in states]

    def add_server() -> None:
        nonlocal servers
        allowed = [bool(rng.random() < 0.6) for _ in range(restrictions)]
        each("add_server", sizes[rng.integers(6)].tolist(), allowed)
        servers += 1

    for _ in range(int(rng.integers(1, 12))):
        add_server()
    for _ in range(steps):
        kind = rng.choice(
            ["submit", "place", "finish", "user", "shape", "weight", "server", "resize", "down",
             "cancel", "back", "adopt", "update", "restriction", "limit"],
            p=[0.22, 0.2, 0.2, 0.05, 0.07, 0.03, 0.02, 0.02, 0.02, 0.03, 0.03, 0.03, 0.03, 0.01,
               0.04],
        )  # fmt: skip
        if kind == "user" or users == 0:
            each("add_user", float(rng.choice([0.5, 1.0, 1.0, 1.0, 3.0])))
            users += 1
        elif kind == "restriction":
            each("add_restriction", [bool(rng.random() < 0.5) for _ in range(servers)])
            restrictions += 1
        elif kind == "shape" or shapes == 0:
            need = rng.integers(0, 5, size=m) * (rng.random(m) > 0.25)
            if rng.random() < 0.08:
                need = need * 5
            if not need.any():
                need[rng.integers(m)] = 1
            within = int(rng.integers(restrictions + 1)) if rng.random() < 0.3 else 0
            each("add_shape", need.tolist(), within)
            shapes += 1
        elif kind == "submit":
            number = int(rng.choice([1, 1, 2, 5, 9]))
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
        elif kind in ("resize", "down"):
            server = int(rng.integers(servers))
            size = sizes[rng.integers(6)].tolist() if kind == "resize" else [0] * m
            if kind == "down":
                for task in cores[0].running_on(server):
                    each("put_back", task)
            each("set_capacity", server, size)
            while kind == "resize" and cores[0].overfull(server) and cores[0].running_on(server):
                each("put_back", cores[0].running_on(server)[-1])
        elif kind == "adopt" and shapes:
            each("adopt", int(rng.integers(users)), int(rng.integers(shapes)),
                 int(rng.integers(servers)))  # fmt: skip
            tasks += 1
        elif kind in ("finish", "back"):
            running = of_state(RUNNING)
            number = min(len(running), int(rng.choice([1, 1, 2, 6])))
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
        if rng.random() < 0.2:
            compare()
    compare()
    assert GONE not in {cores[0].state(t) for t in of_state(RUNNING)}
    return placed
