"""Indexed core: decisions of the plain core, from arrays and compiled loops.

All of its state is one tuple of arrays, :class:`~drfh.kernels.online.state.CoreArrays`; this class
makes room, keeps totals and columns up to date, and hands over to ``kernels/online``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drfh.kernels.online import place as steps
from drfh.kernels.online import state as st
from drfh.kernels.online.blocks import blocks_build, server_keys
from drfh.kernels.online.clock import sample
from drfh.kernels.online.fill import fill, fill_start
from drfh.kernels.online.stairs import stairs_build
from drfh.kernels.online.turns import enqueue, turns_build, unlink
from drfh.policies import Policy
from drfh.scheduler.core import GONE, NEVER, QUEUED, RUNNING, CoreState, Ints
from drfh.scheduler.feasibility import too_large
from drfh.scheduler.rules import Rules

__all__ = ["IndexedCore", "fill_indexed"]

Floats = st.Floats

_MOST_RESULTS = 4096
_FILL_ROOM = 1 << 16  # tasks between two reports of progress
_LINE = 64  # bytes of the processor's cache that come together

# Array → (what it has a row for, number type, what new rows hold). Shapes beyond the first axis
# are found in _widths.
_ROWS: dict[str, tuple[str, Any, float]] = {
    "capacity": ("server", np.int64, 0), "server": ("server", np.int64, 0),
    "dirty_list": ("server", np.int64, 0), "weight": ("user", np.float64, 1),
    "usage": ("user", np.int64, 0), "level": ("user", np.float64, 0),
    "running": ("user", np.int64, 0), "queued": ("user", np.int64, 0),
    "never_tasks": ("user", np.int64, 0),
    "first_queue": ("user", np.int32, -1), "ready_first": ("leaf", np.int32, -1),
    "waiting_first": ("leaf", np.int32, -1), "waiting_need": ("leaf", np.int64, st.LARGEST),
    "need": ("shape", np.int64, 0), "part": ("shape", np.float64, 0),
    "ratio": ("shape", np.float64, 0), "reference": ("shape", np.int32, 0),
    "restriction": ("shape", np.int32, 0), "never": ("shape", np.uint8, 0),
    "blocked": ("shape", np.int64, -1), "waiters": ("shape", np.int64, 0),
    "queue_user": ("queue", np.int32, 0), "queue_shape": ("queue", np.int32, 0),
    "queue_head": ("queue", np.int32, -1), "queue_tail": ("queue", np.int32, -1),
    "queue_state": ("queue", np.uint8, 0), "next_queue": ("queue", np.int32, -1),
    "task": ("task", np.int64, 0), "spare": ("block", np.int32, 0),
    "block_key": ("block", np.float64, 0), "block_server": ("block", np.int32, 0),
    "block_length": ("block", np.int64, 0), "block_free": ("entry", np.int64, 0),
    "directory": ("block", np.int32, 0), "directory_key": ("block", np.float64, 0),
    "block_bound": ("block", np.float64, 0), "block_least": ("block", np.int64, 0),
    "block_first": ("block", np.int64, 0), "block_most": ("block", np.int64, 0),
    "block_low": ("block", np.float64, 0), "block_high": ("block", np.float64, 0),
    "block_scratch": ("block", np.float64, 0),
    "standing": ("server", np.int16, -1),
    "stairs_rest": ("stair", np.int64, -1),
}  # fmt: skip


class UsageTable(NamedTuple):
    """Units and tasks of each user, and sizes of the servers."""

    usage: Ints
    running: Ints
    queued: Ints
    never: Ints
    capacity: Ints


def _lined_up(shape: tuple[int, ...], number: Any) -> Any:
    """Return an array that begins where a line of the processor's cache does."""
    size = math.prod(shape) * np.dtype(number).itemsize
    memory = np.empty(size + _LINE, dtype=np.uint8)
    start = -memory.ctypes.data % _LINE
    return memory[start : start + size].view(number).reshape(shape)


def _whole_lines(columns: int) -> int:
    """Return how many columns of int64 a row has that is in no more lines than it must."""
    return columns if columns > _LINE // 8 else _LINE // 8


class IndexedCore:
    """See :class:`~drfh.scheduler.core.Core`.

    Examples
    --------
    >>> from drfh.policies import Policy
    >>> core = IndexedCore(Rules(Policy(), ("cpu",), (1.0,)))
    >>> core.add_server([4]), core.add_user(1.0), core.add_shape([3])
    (0, 0, 0)
    >>> core.submit(0, 0, count=2)
    0
    >>> [numbers.tolist() for numbers in core.place()]
    [[0], [0]]
    """

    def __init__(self, rules: Rules) -> None:
        if rules.policy.own or rules.mode not in st.MODES:
            raise ValueError(f"{rules.policy.name} runs on the plain core only")
        self.rules = rules
        m, columns = len(rules.resources), rules.columns
        self._widths: dict[str, tuple[int, ...]] = {
            "capacity": (columns,), "server": (_whole_lines(st.FREE + columns),),
            "usage": (columns,), "need": (columns,), "waiting_need": (columns,), "part": (m,),
            "ratio": (m,), "task": (8,), "block_key": (st.BLOCK,), "block_server": (st.BLOCK,),
            "block_free": (m,), "block_most": (m,), "block_low": (m,), "block_high": (m,),
            "standing": (2,), "stairs_rest": (max(0, len(rules.fit) - 2),),
        }  # fmt: skip
        self._allocated: dict[str, int] = {}
        self._size = np.zeros((0, m), dtype=np.int64)
        self._base = np.zeros((0, m), dtype=np.int64)
        arrays: dict[str, Any] = {
            "draws": np.array([rules.seed % 2**64], dtype=np.uint64),
            "full": np.zeros(columns), "total": np.zeros(m),
            "allowed": np.ones((1, 0), dtype=np.uint8),
            "stack": np.zeros(256, dtype=np.int32),
            "steps": np.zeros(st.MOST_STEPS, dtype=np.int64),
            "stairs": np.zeros((0, 1), dtype=np.int16),
        }  # fmt: skip
        for name, (kind, number, start) in _ROWS.items():
            self._allocated[kind] = 0
            arrays[name] = np.full((0, *self._widths.get(name, ())), start, dtype=number)
        self.data = st.CoreArrays()
        self.data.head[: st.RULES] = self._rule()
        for name, array in arrays.items():
            self.data.set(name, array)
        self._stepped = 0  # shapes that the staircases know
        self._scaled = False  # columns and totals are those of the servers
        self._results = np.zeros((2, _MOST_RESULTS), dtype=np.int64)
        self._grow_users(1)  # so that there is a tree of turns before the first user comes

    def _rule(self) -> Ints:
        rules, m = self.rules, len(self.rules.resources)
        rule = np.zeros(st.RULES, dtype=np.int64)
        rule[st.CHOICE] = choice = st.CHOICES.index(rules.choice)
        rule[st.STRICT] = rules.policy.blocked == "strict"
        rule[st.BACKFILL] = rules.policy.inside == "backfill"
        rule[st.MODE] = st.MODES.index(rules.mode)
        rule[st.FIT_FROM], rule[st.FIT_TO] = rules.fit.start, rules.fit.stop
        rule[st.LEVEL_FROM], rule[st.LEVEL_TO] = rules.level.start, rules.level.stop
        rule[st.RESOURCES], rule[st.REFERENCE] = m, rules.reference
        rule[st.OTHER] = next((r for r in range(m) if r != rules.reference), 0)
        rule[st.LISTS] = 1
        rule[st.INDEX] = st.BY_SCAN
        # With one resource H is 0 everywhere: Best-Fit is First-Fit.
        if choice == st.FIRST_FIT or (choice == st.BEST_FIT and rules.fit == range(1)):
            rule[st.INDEX] = st.BY_STAIRS
        elif choice == st.BEST_FIT and rules.fit == range(m):
            rule[st.INDEX] = st.BY_BLOCKS
        return rule

    # Sizes of arrays

    def _grow(self, kind: str, rows: int) -> None:
        """Grow the arrays to so many rows of a kind."""
        have = self._allocated[kind]
        if rows <= have:
            return
        size = max(rows, have * 3 // 2, 16)
        self._allocated[kind] = size
        for name, (of, number, start) in _ROWS.items():
            if of == kind:
                old = getattr(self.data, name)
                new = _lined_up((size, *old.shape[1:]), number)
                new[: len(old)], new[len(old) :] = old, start
                if name == "server":
                    new[len(old) :, st.FIRST_ON] = new[len(old) :, st.LAST_ON] = -1
                self.data.set(name, new)

    def reserve(self, *, users: int = 0, tasks: int = 0, shapes: int = 0, queues: int = 0) -> None:
        """Grow the arrays once for what is known to come."""
        count = self.data.head
        self._grow_users(int(count[st.USERS]) + users)
        self._grow("task", int(count[st.TASKS]) + tasks)
        self._grow("shape", len(self._base) + shapes)
        self._grow("queue", int(count[st.QUEUES]) + queues)

    def _grow_users(self, users: int) -> None:
        self._grow("user", users)
        leaves = int(self.data.head[st.LEAVES])
        if users > leaves:
            self.data.head[st.LEAVES] = leaves = 1 << max(users - 1, 1).bit_length()
            self._grow("leaf", 2 * leaves)
            turns_build(self.data.head)

    # Users, servers, shapes

    def add_group(self, parent: int, weight: float) -> int:
        raise NotImplementedError("groups of users are for hdrf, which the plain core runs")

    def add_user(self, weight: float, group: int = -1) -> int:
        user = int(self.data.head[st.USERS])
        self._grow_users(user + 1)
        self.data.head[st.USERS] = user + 1
        self.data.weight[user] = weight
        return user

    def set_weight(self, user: int, weight: float) -> None:
        self.data.weight[user] = weight
        steps.changed(self.data.head, user)

    def add_server(self, capacity: Sequence[int], allowed: Sequence[bool] = ()) -> int:
        row = np.array([capacity], dtype=np.int64)
        return self.add_servers(row, np.array([allowed], dtype=np.uint8).reshape(1, -1))

    def add_servers(self, capacity: Ints, allowed: Any = None) -> int:
        """Add many servers (rows) at once and return the number of the first.

        `allowed` has a row for each server and a column for each restriction from 1 on.
        """
        first = len(self._size)
        self._size = np.concatenate((self._size, capacity))
        self._grow("server", len(self._size))
        self.data.head[st.SERVERS] = len(self._size)
        more = np.ones((len(self.data.allowed), len(capacity)), dtype=np.uint8)
        if allowed is not None:
            more[1:] = np.asarray(allowed, dtype=np.uint8).T
        self._set_allowed(np.concatenate((self.data.allowed, more), axis=1))
        self._changed_servers(range(first, len(self._size)))
        return first

    def set_capacity(self, server: int, capacity: Sequence[int]) -> None:
        self._size[server] = capacity
        self._changed_servers([server])

    def _set_allowed(self, allowed: Any) -> None:
        self.data.set("allowed", np.ascontiguousarray(allowed))

    def _changed_servers(self, servers: Sequence[int]) -> None:
        b, m = self.data, len(self.rules.resources)
        at = np.array(servers, dtype=np.int64)
        b.free[at, :m] += self._size[at] - b.capacity[at, :m]
        b.capacity[at, :m] = self._size[at]
        for server in servers:
            steps.mark_dirty(b.head, server)
        # Columns that depend on the whole cluster are counted again when they are needed.
        self._scaled = False

    def add_restriction(self, allowed: Sequence[bool]) -> int:
        row = np.array([allowed], dtype=np.uint8).reshape(1, -1)
        self._set_allowed(np.concatenate((self.data.allowed, row)))
        return len(self.data.allowed) - 1

    def add_shape(self, need: Sequence[int], restriction: int = 0) -> int:
        return self.add_shapes(np.array([need], dtype=np.int64), np.array([restriction]))

    def add_shapes(self, need: Ints, restriction: Ints) -> int:
        """Add many shapes (rows) at once and return the number of the first."""
        first = len(self._base)
        self._base = np.concatenate((self._base, need))
        self._grow("shape", len(self._base))
        self.data.restriction[first : len(self._base)] = restriction
        if self._scaled:
            self._scale_shapes(np.arange(first, len(self._base)))
            # A staircase is good for the tasks it was made for.
            by_stairs = self.data.head[st.INDEX] == st.BY_STAIRS
            if by_stairs and len(self._base) > 2 * self._stepped + 8:
                self._build_index()
        return first

    # Totals and columns

    def _scale(self) -> None:
        """Count everything on the servers that are up now, and build the index anew."""
        if self._scaled:
            return
        b, rules = self.data, self.rules
        totals = self._size.sum(axis=0)
        b.total[:] = totals
        b.full[:] = rules.denominators(totals.tolist())
        before = b.never[: len(self._base)].copy()
        self._scaled = True
        self._scale_shapes(np.arange(len(self._base)))
        if rules.extra:
            self._recount()
        self._regroup(before)
        turns_build(b.head)
        if rules.extra:
            # Now that the tree knows them all: heads that came forward above may wait too.
            steps.wake_all(b.head)
        self._build_index()

    def _recount(self) -> None:
        """Count the extra column of servers and users from the tasks that run."""
        b, m, k = self.data, len(self.rules.resources), len(self._size)
        b.capacity[:k] = self.rules.server_rows(self._size)
        b.free[:k, m] = b.capacity[:k, m]
        b.usage[:, m] = 0
        running = np.flatnonzero(b.task[: b.head[st.TASKS], st.TASK_STATE] == RUNNING)
        held = b.need[b.task[running, st.TASK_SHAPE], m]
        np.subtract.at(b.free[:, m], b.task[running, st.TASK_SERVER], held)
        np.add.at(b.usage[:, m], b.task[running, st.TASK_USER], held)

    def _scale_shapes(self, shapes: Ints) -> None:
        b, rules = self.data, self.rules
        total = b.total
        base = self._base[shapes]
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(total > 0, base / total, 0.0)
        chosen = np.where(
            part[:, rules.reference] > 0, rules.reference, np.argmax(part > 0, axis=1)
        )
        own = part[np.arange(len(shapes)), chosen][:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            b.ratio[shapes] = np.where(own > 0, part / own, 0.0)
        b.part[shapes], b.reference[shapes] = part, chosen
        # Slots are counted in parts of the largest server: one row stands for all.
        sizes = self._size if rules.turn == "tsf" else self._size.max(axis=0, initial=0)[None]
        if rules.extra:
            for shape, need in zip(shapes.tolist(), base, strict=True):
                b.need[shape] = rules.shape_row(need, sizes)
        else:
            b.need[shapes] = base
        columns = slice(rules.fit.start, rules.fit.stop)
        capacity = rules.server_rows(self._size)[:, columns]
        b.never[shapes] = too_large(
            b.need[shapes, columns], b.restriction[shapes], capacity, b.allowed[:, : len(capacity)]
        )
        slots = rules.policy.slots
        if slots is not None and slots.oversize == "reject":
            for shape, need in zip(shapes.tolist(), base, strict=True):
                b.never[shape] |= rules.refuses(need, sizes)

    def _regroup(self, before: Any) -> None:
        """Move queued tasks that no server can hold now to *never*, and back."""
        b = self.data
        now = b.never[: len(before)]
        n = int(b.head[st.TASKS])
        for shape in np.flatnonzero(now != before).tolist():
            mine = b.task[:n, st.TASK_SHAPE] == shape
            if now[shape]:
                for task in np.flatnonzero(mine & (b.task[:n, st.TASK_STATE] == QUEUED)).tolist():
                    unlink(b.head, task)
                    b.task[task, st.TASK_STATE] = NEVER
                    b.never_tasks[b.task[task, st.TASK_USER]] += 1
            else:
                for task in np.flatnonzero(mine & (b.task[:n, st.TASK_STATE] == NEVER)).tolist():
                    self._grow_queues()
                    unlink(b.head, task)
                    enqueue(b.head, task)

    def _build_index(self) -> None:
        b, k = self.data, len(self._size)
        b.server[:k, st.IS_DIRTY] = 0
        if b.head[st.INDEX] == st.BY_BLOCKS:
            blocks = k // 4 + 16
            self._grow("block", blocks)
            self._grow("entry", self._allocated["block"] * st.BLOCK)
            b = self.data
            keys = server_keys(b.head)
            blocks_build(b.head, np.argsort(keys, kind="stable"), keys)
        elif b.head[st.INDEX] == st.BY_STAIRS:
            leaves = 1 << max((k + st.LEAF - 1) // st.LEAF - 1, 0).bit_length()
            b.head[st.STAIR_LEAVES] = leaves
            self._grow("stair", 2 * leaves)
            b = self.data
            steps = self._steps()
            b.head[st.STEPS] = len(steps)
            b.steps[: len(steps)] = steps
            b.set("stairs", _lined_up((2 * leaves, len(steps)), np.int16))
            second = int(
                b.capacity[:k, self.rules.fit[min(1, len(self.rules.fit) - 1)]].max(initial=0)
            )
            rounding = max(0, second.bit_length() - 15)
            if -(-second >> rounding) > np.iinfo(np.int16).max:
                rounding += 1
            b.head[st.ROUNDING] = rounding
            self._stepped = len(self._base)
            stairs_build(b.head)
        b.server[b.dirty_list[: b.head[st.DIRTY]], st.IS_DIRTY] = 1

    def _steps(self) -> Ints:
        """Return the amounts of a staircase: 0, and what tasks need of the first column."""
        if len(self.rules.fit) == 1:
            return np.zeros(1, dtype=np.int64)
        needs = np.sort(self.data.need[: len(self._base), self.rules.fit.start])
        different = np.unique(needs)
        if len(different) >= st.MOST_STEPS:
            places = np.linspace(0, len(needs) - 1, st.MOST_STEPS - 1)
            different = np.unique(needs[places.astype(np.int64)])
        return np.unique(np.append(different, 0))

    # Tasks

    def _grow_queues(self, more: int = 1) -> None:
        self._grow("queue", int(self.data.head[st.QUEUES]) + more)

    def submit(self, user: int, shape: int, count: int = 1) -> int:
        self._scale()
        self._grow("task", int(self.data.head[st.TASKS]) + count)
        self._grow_queues()
        return int(steps.submit(self.data.head, user, shape, count))

    def cancel(self, task: int) -> None:
        self._scale()
        steps.cancel(self.data.head, task)

    def update(self, task: int, shape: int) -> None:
        self._scale()
        self._grow_queues()
        b = self.data
        unlink(b.head, task)
        b.task[task, st.TASK_SHAPE] = shape
        enqueue(b.head, task)
        steps.changed(b.head, int(b.task[task, st.TASK_USER]))

    def place(self, limit: int = -1) -> tuple[Ints, Ints]:
        self._scale()
        found: list[Ints] = []
        left = limit if limit >= 0 else 2**62
        while left > 0:
            most = min(left, _MOST_RESULTS)
            number = int(steps.place(self.data.head, self._results[0], self._results[1], most))
            found.append(self._results[:, :number].copy())
            left -= number
            if number < most:
                break
        tasks, servers = np.concatenate(found, axis=1) if found else np.zeros((2, 0), np.int64)
        return tasks, servers

    def finish(self, task: int) -> None:
        self._scale()
        steps.finish(self.data.head, task)

    def put_back(self, task: int) -> None:
        self._scale()
        self._grow_queues()
        steps.put_back(self.data.head, task)

    def adopt(self, user: int, shape: int, server: int) -> int:
        self._scale()
        b = self.data
        task = int(b.head[st.TASKS])
        self._grow("task", task + 1)
        b = self.data
        b.head[st.TASKS] += 1
        b.task[task, st.TASK_USER], b.task[task, st.TASK_SHAPE] = user, shape
        b.task[task, st.TASK_ORDER] = b.head[st.NEXT_ORDER]
        b.head[st.NEXT_ORDER] += 1
        self._run(task, server)
        return task

    def _run(self, task: int, server: int) -> None:
        b = self.data
        steps.put_on(b.head, task, server)
        if not b.server[server, st.IS_DIRTY]:
            steps.index_update(b.head, server)
        steps.changed(b.head, int(b.task[task, st.TASK_USER]))

    # Reading

    def state(self, task: int) -> int:
        self._scale()
        return int(self.data.task[task, st.TASK_STATE])

    def user_of(self, task: int) -> int:
        return int(self.data.task[task, st.TASK_USER])

    def shape_of(self, task: int) -> int:
        return int(self.data.task[task, st.TASK_SHAPE])

    def server_of(self, task: int) -> int:
        return int(self.data.task[task, st.TASK_SERVER])

    def running_on(self, server: int) -> list[int]:
        b = self.data
        tasks: list[int] = []
        task = int(b.server[server, st.FIRST_ON])
        while task >= 0:
            tasks.append(task)
            task = int(b.task[task, st.TASK_AFTER])
        return tasks

    def queue_of(self, user: int) -> list[int]:
        self._scale()
        b, n = self.data, int(self.data.head[st.TASKS])
        waiting = (b.task[:n, st.TASK_STATE] == QUEUED) | (b.task[:n, st.TASK_STATE] == NEVER)
        tasks = np.flatnonzero(waiting & (b.task[:n, st.TASK_USER] == user))
        ordered: list[int] = tasks[np.argsort(b.task[tasks, st.TASK_ORDER], kind="stable")].tolist()
        return ordered

    def level(self, user: int) -> float:
        self._scale()
        return float(self.data.level[user])

    def usage(self, user: int) -> list[int]:
        held: list[int] = self.data.usage[user, : len(self.rules.resources)].tolist()
        return held

    def counts(self, user: int) -> tuple[int, int, int]:
        self._scale()
        b = self.data
        return int(b.running[user]), int(b.queued[user]), int(b.never_tasks[user])

    def capacity(self, server: int) -> list[int]:
        size: list[int] = self._size[server].tolist()
        return size

    def free(self, server: int) -> list[int]:
        left: list[int] = self.data.free[server, : len(self.rules.resources)].tolist()
        return left

    def overfull(self, server: int) -> bool:
        self._scale()
        return bool((self.data.free[server, self.rules.fit.start : self.rules.fit.stop] < 0).any())

    def could_hold(self, shape: int, server: int) -> bool:
        return self._holds(shape, server, self.data.capacity)

    def takes(self, task: int, server: int) -> bool:
        return self._holds(self.shape_of(task), server, self.data.free)

    def _holds(self, shape: int, server: int, amounts: Ints) -> bool:
        self._scale()
        b, fit = self.data, slice(self.rules.fit.start, self.rules.fit.stop)
        holds = bool((amounts[server, fit] >= b.need[shape, fit]).all())
        return holds and bool(b.allowed[b.restriction[shape], server])

    def forget_places(self) -> None:
        """Keep no list of tasks by server: for runs without server events."""
        self.data.head[st.LISTS] = 0

    def ready(self) -> Ints:
        """Return the header for a kernel, with all columns counted."""
        self._scale()
        return self.data.head

    def usage_table(self) -> UsageTable:
        """Return usage and task counts of users, and capacity of servers."""
        self._scale()
        b, m = self.data, len(self.rules.resources)
        users = int(b.head[st.USERS])
        held = b.usage[:users, :m].copy()
        running, queued, never = (a[:users].copy() for a in (b.running, b.queued, b.never_tasks))
        return UsageTable(held, running, queued, never, self._size)

    def sample(self) -> tuple[Floats, Floats, int, int]:
        """Return dominant shares, utilisation, and tasks that run and wait."""
        self._scale()
        share = np.empty(int(self.data.head[st.USERS]))
        utilisation = np.empty(len(self.rules.resources))
        running, queued = sample(self.data.head, share, utilisation)
        return share, utilisation, int(running), int(queued)

    # Saving

    def dump(self) -> CoreState:
        self._scale()
        b, k = self.data, len(self._size)
        n, users = int(b.head[st.TASKS]), int(b.head[st.USERS])
        tasks = np.flatnonzero(b.task[:n, st.TASK_STATE] != GONE)
        rows = b.task[tasks]
        stamp = np.full(n, -1, dtype=np.int64)
        placed = [task for server in range(k) for task in self.running_on(server)]
        stamp[placed] = np.arange(len(placed))
        return CoreState(
            weight=b.weight[:users].tolist(), group=[-1] * users, groups=[],
            capacity=self._size.tolist(), need=self._base.tolist(),
            restriction=b.restriction[: len(self._base)].tolist(),
            allowed=(b.allowed[1:] != 0).tolist(), tasks=tasks.tolist(),
            user=rows[:, st.TASK_USER].tolist(), shape=rows[:, st.TASK_SHAPE].tolist(),
            server=rows[:, st.TASK_SERVER].tolist(), order=rows[:, st.TASK_ORDER].tolist(),
            stamp=stamp[tasks].tolist(), next_order=int(b.head[st.NEXT_ORDER]),
            next_stamp=len(placed), draws=int(b.draws[0]),
        )  # fmt: skip

    def load(self, state: CoreState) -> None:
        n = len(state.user)
        self.reserve(users=len(state.weight), tasks=n, shapes=len(state.need))
        for weight in state.weight:
            self.add_user(weight)
        self.add_servers(np.array(state.capacity, dtype=np.int64).reshape(-1, len(self._size.T)))
        for row in state.allowed:
            self.add_restriction(row)
        for need, restriction in zip(state.need, state.restriction, strict=True):
            self.add_shape(need, restriction)
        self._scale()
        b = self.data
        b.head[st.TASKS] = n
        b.task[:n, st.TASK_USER], b.task[:n, st.TASK_SHAPE] = state.user, state.shape
        b.task[:n, st.TASK_ORDER], b.task[:n, st.TASK_SERVER] = state.order, -1
        runs = sorted((stamp, task) for task, stamp in enumerate(state.stamp) if stamp >= 0)
        for _, task in runs:
            self._run(task, state.server[task])
        for task in range(n):
            if b.task[task, st.TASK_STATE] != RUNNING:
                self._grow_queues()
                enqueue(self.data.head, task)
                steps.changed(self.data.head, int(self.data.task[task, st.TASK_USER]))
        self.data.head[st.NEXT_ORDER] = state.next_order
        self.data.draws[0] = state.draws


def fill_indexed(
    need: Ints,
    capacity: Ints,
    allowed: NDArray[np.bool_],
    restriction: Ints,
    weight: Sequence[float],
    left: Ints,
    *,
    reference: int,
    first_fit: bool = False,
    ahead: bool = False,
) -> Iterator[tuple[Ints, Ints]]:
    """Yield users and servers of progressive filling, in pieces.

    Parameters
    ----------
    need
        Units that one task needs, users × resources.
    capacity
        Units of each server, servers × resources.
    allowed
        Sets of servers, one a row.
    restriction
        Which of these rows a user may use.
    weight, left
        Weight, and how many tasks there are, of each user. `left` counts down.
    reference
        Resource that H divides by.
    first_fit
        Whether the first server that fits is taken, not the one with the lowest H.
    ahead
        Whether the turn goes by the level with one task more.

    Examples
    --------
    >>> everywhere = np.ones((1, 1), dtype=bool), np.array([0, 0])
    >>> pieces = fill_indexed(np.array([[1], [4]]), np.array([[6]]), *everywhere, [1.0, 1.0],
    ...                       np.array([9, 9]), reference=0)
    >>> [users.tolist() for users, servers in pieces]
    [[0, 1, 0]]
    """
    names = tuple(f"r{position}" for position in range(need.shape[1]))
    policy = Policy(choice="first-fit" if first_fit else f"best-fit:{names[reference]}")
    core = IndexedCore(Rules(policy, names, (1.0,) * len(names)))
    core.reserve(users=len(need), shapes=len(need), queues=len(need))
    for entitled in weight:
        core.add_user(float(entitled))
    core.add_servers(capacity)
    number = [0 if row.all() else core.add_restriction(row.tolist()) for row in allowed]
    core.add_shapes(need, np.array(number, dtype=np.int64)[restriction])
    head = core.ready()
    steps.settle(head)
    fill_start(head, left, ahead)
    users, servers = np.empty(_FILL_ROOM, dtype=np.int64), np.empty(_FILL_ROOM, dtype=np.int64)
    written = _FILL_ROOM
    while written == _FILL_ROOM:
        written = int(fill(head, left, users, servers))
        yield users[:written], servers[:written]
