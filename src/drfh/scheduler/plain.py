"""Plain core: the definition of the scheduler, without an index.

It says what the indexed core must do, task by task; it also runs the policies that have parts
written as Python functions, and small clusters.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np

from drfh.errors import InputError
from drfh.model.resources import Units
from drfh.policies.policy import ServerView, TaskView, UserView, part_name
from drfh.policies.scores import SCORES, best_fit
from drfh.scheduler.core import GONE, NEVER, QUEUED, RETURNED, RUNNING, CoreState, Ints, draw
from drfh.scheduler.rules import Rules

__all__ = ["PlainCore"]


class PlainCore:
    """See :class:`~drfh.scheduler.core.Core`.

    Examples
    --------
    >>> from drfh.policies import Policy
    >>> core = PlainCore(Rules(Policy(), ("cpu",), (1.0,)))
    >>> core.add_server([4]), core.add_user(1.0), core.add_shape([3])
    (0, 0, 0)
    >>> core.submit(0, 0, count=2)
    0
    >>> [numbers.tolist() for numbers in core.place()]
    [[0], [0]]
    """

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.user_name: Callable[[int], str] = str
        self.server_name: Callable[[int], str] = str
        self._weight: list[float] = []
        self._group: list[int] = []
        self._groups: list[tuple[int, float]] = []
        self._usage: list[list[int]] = []
        self._running: list[int] = []
        self._queue: list[list[tuple[int, int]]] = []  # (order, task), sorted
        self._size: list[list[int]] = []  # by resource
        self._capacity: list[list[int]] = []  # by column
        self._free: list[list[int]] = []  # by column
        self._free_array = np.zeros((0, rules.columns), dtype=np.int64)  # of `_free`
        self._on: list[dict[int, int]] = []  # task → stamp
        self._base: list[list[int]] = []  # what a shape needs, by resource
        self._need: list[list[int]] = []  # by column
        self._restriction: list[int] = []
        self._never: list[bool] = []
        # Tasks that a policy's own check would take nowhere: it may depend on whose they are.
        self._refused: set[int] = set()
        self._allowed: list[list[bool]] = [[]]
        self._task_user: list[int] = []
        self._task_shape: list[int] = []
        self._task_state: list[int] = []
        self._task_server: list[int] = []
        self._task_order: list[int] = []
        self._next_order = 0
        self._next_stamp = 0
        self._draws = rules.seed
        self._units = Units(rules.resources, rules.units)
        self._full: list[float] = rules.denominators([0] * len(rules.resources))
        self._totals: list[float] = self._full[: len(rules.resources)]

    # Users, servers, shapes

    def add_group(self, parent: int, weight: float) -> int:
        self._groups.append((parent, weight))
        return len(self._groups) - 1

    def add_user(self, weight: float, group: int = -1) -> int:
        self._weight.append(weight)
        self._group.append(group)
        self._usage.append([0] * self.rules.columns)
        self._running.append(0)
        self._queue.append([])
        return len(self._weight) - 1

    def set_weight(self, user: int, weight: float) -> None:
        self._weight[user] = weight

    def add_server(self, capacity: Sequence[int], allowed: Sequence[bool] = ()) -> int:
        self._size.append([int(amount) for amount in capacity])
        self._on.append({})
        for restriction, may in zip(self._allowed, (True, *allowed), strict=True):
            restriction.append(bool(may))
        self._rescale()
        return len(self._size) - 1

    def set_capacity(self, server: int, capacity: Sequence[int]) -> None:
        self._size[server] = [int(amount) for amount in capacity]
        self._rescale()

    def add_restriction(self, allowed: Sequence[bool]) -> int:
        self._allowed.append([bool(may) for may in allowed])
        return len(self._allowed) - 1

    def add_shape(self, need: Sequence[int], restriction: int = 0) -> int:
        self._base.append([int(amount) for amount in need])
        self._restriction.append(restriction)
        self._need.append(self._row(self._base[-1], self._sizes()))
        self._never.append(self._is_never(len(self._base) - 1))
        return len(self._base) - 1

    def _sizes(self) -> Ints:
        return np.array(self._size, dtype=np.int64).reshape(-1, len(self.rules.resources))

    def _row(self, base: Sequence[int], sizes: Ints) -> list[int]:
        row: list[int] = self.rules.shape_row(np.array(base, dtype=np.int64), sizes).tolist()
        return row

    def _rescale(self) -> None:
        """Count everything again on the servers that are up now."""
        sizes = self._sizes()
        self._totals = [float(total) for total in sizes.sum(axis=0).tolist()]
        self._full = self.rules.denominators(sizes.sum(axis=0).tolist())
        self._capacity = self.rules.server_rows(sizes).tolist()
        self._need = [self._row(base, sizes) for base in self._base]
        self._free = [list(row) for row in self._capacity]
        self._usage = [[0] * self.rules.columns for _ in self._usage]
        for tasks, free in zip(self._on, self._free, strict=True):
            for task in tasks:
                held = self._need[self._task_shape[task]]
                usage = self._usage[self._task_user[task]]
                for r, amount in enumerate(held):
                    free[r] -= amount
                    usage[r] += amount
        self._free_array = np.array(self._free, dtype=np.int64).reshape(-1, self.rules.columns)
        self._never = [self._is_never(shape) for shape in range(len(self._base))]
        for queue in self._queue:
            for _, task in queue:
                self._ask(task)

    # Tasks

    def _new_task(self, user: int, shape: int, state: int) -> int:
        self._task_user.append(user)
        self._task_shape.append(shape)
        self._task_state.append(state)
        self._task_server.append(-1)
        self._task_order.append(self._next_order)
        self._next_order += 1
        return len(self._task_user) - 1

    def submit(self, user: int, shape: int, count: int = 1) -> int:
        first = len(self._task_user)
        for _ in range(count):
            task = self._new_task(user, shape, QUEUED)
            self._queue[user].append((self._task_order[task], task))
            self._ask(task)
        return first

    def cancel(self, task: int) -> None:
        self._queue[self._task_user[task]].remove((self._task_order[task], task))
        self._task_state[task] = GONE

    def update(self, task: int, shape: int) -> None:
        self._task_shape[task] = shape
        self._ask(task)

    def finish(self, task: int) -> None:
        self._take_off(task)
        self._task_state[task] = GONE

    def put_back(self, task: int) -> None:
        self._take_off(task)
        self._task_state[task] = QUEUED
        if self._task_order[task] >= 0:
            self._task_order[task] -= RETURNED
        insort(self._queue[self._task_user[task]], (self._task_order[task], task))
        self._ask(task)

    def adopt(self, user: int, shape: int, server: int) -> int:
        task = self._new_task(user, shape, RUNNING)
        self._put_on(task, server)
        return task

    def _put_on(self, task: int, server: int) -> None:
        user = self._task_user[task]
        for r, amount in enumerate(self._need[self._task_shape[task]]):
            self._free[server][r] -= amount
            self._usage[user][r] += amount
        self._free_array[server] = self._free[server]
        self._running[user] += 1
        self._task_state[task] = RUNNING
        self._task_server[task] = server
        self._on[server][task] = self._next_stamp
        self._next_stamp += 1

    def _take_off(self, task: int) -> None:
        user, server = self._task_user[task], self._task_server[task]
        for r, amount in enumerate(self._need[self._task_shape[task]]):
            self._free[server][r] += amount
            self._usage[user][r] -= amount
        self._free_array[server] = self._free[server]
        self._running[user] -= 1
        self._task_server[task] = -1
        del self._on[server][task]

    # Whose turn

    def place(self, limit: int = -1) -> tuple[Ints, Ints]:
        tasks: list[int] = []
        servers: list[int] = []
        waiting = [user for user in range(len(self._weight)) if self._waits(user)]
        # While tasks only start, the level of a user changes with its own, and what fits nowhere
        # goes on to fit nowhere.
        levels: dict[int, float] = {}
        full: set[int] = set()
        while waiting and len(tasks) != limit:
            user = self.next_user(waiting, levels)
            found = self._next_of(user, full)
            if found is None:
                if self._stops(user):
                    break
                waiting.remove(user)
                continue
            task, server = found
            self._queue[user].remove((self._task_order[task], task))
            self._put_on(task, server)
            tasks.append(task)
            servers.append(server)
            levels.pop(user, None)
            if not self._waits(user):
                waiting.remove(user)
        return np.array(tasks, dtype=np.int64), np.array(servers, dtype=np.int64)

    def next_user(self, waiting: list[int], levels: dict[int, float] | None = None) -> int:
        """Return the user whose turn it is among those who wait.

        `levels` has those that are known, and is filled with the others.
        """
        if self.rules.mode == "tree":
            return self._next_in_tree(waiting)
        known = {} if levels is None else levels
        known.update({user: self.level(user) for user in waiting if user not in known})
        return min(waiting, key=lambda user: (known[user], user))

    def level(self, user: int) -> float:
        mode = self.rules.mode
        if mode == "oldest":
            return float(next((self._task_order[task] for task in self._ready(user)), 0))
        if mode == "own":
            return self._ask_for_number("turn", self._user_view(user))
        level = 0.0
        for column in self.rules.level:
            if self._full[column] > 0:
                share = self._usage[user][column] / self._full[column]
                level = level + share if mode == "sum" else max(level, share)
        return level / self._weight[user]

    def _next_in_tree(self, waiting: list[int]) -> int:
        """Descend from the root to the child with the least share that is not blocked (H-DRF)."""
        children: dict[int, list[tuple[bool, int]]] = {}  # group → (is a user, number)
        for user in waiting:
            above = self._group[user]
            children.setdefault(above, []).append((True, user))
            while above >= 0 and (False, above) not in children.get(self._groups[above][0], []):
                children.setdefault(self._groups[above][0], []).append((False, above))
                above = self._groups[above][0]

        def share(node: tuple[bool, int]) -> float:
            is_user, number = node
            weight = self._weight[number] if is_user else self._groups[number][1]
            return max(vector(node), default=0.0) / weight

        def vector(node: tuple[bool, int]) -> list[float]:
            is_user, number = node
            if is_user:
                held = self._usage[number][: len(self._totals)]
                pairs = zip(held, self._totals, strict=True)
                return [use / total if total > 0 else 0.0 for use, total in pairs]
            below = sorted(children[number])
            shares = [share(child) for child in below]
            least = min(shares)
            sums = [0.0] * len(self._totals)
            for child, own in zip(below, shares, strict=True):
                scale = least / own if own > 0 else 1.0
                for r, part in enumerate(vector(child)):
                    sums[r] += scale * part
            return sums

        def first_user(node: tuple[bool, int]) -> int:
            is_user, number = node
            return number if is_user else min(first_user(child) for child in children[number])

        at = -1
        while True:
            is_user, number = min(children[at], key=lambda node: (share(node), first_user(node)))
            if is_user:
                return number
            at = number

    # Which task of the user, and which server

    def _ready(self, user: int) -> Iterator[int]:
        """Yield the queued tasks that some server could hold, in order."""
        return (t for _, t in self._queue[user] if not self._never_runs(t))

    def _waits(self, user: int) -> bool:
        return any(True for _ in self._ready(user))

    def _next_of(self, user: int, full: set[int]) -> tuple[int, int] | None:
        """Return the next task of a user, and its server; `full` are shapes that fit nowhere."""
        inside = self.rules.policy.inside
        candidates: Iterable[int] = self._ready(user)
        if callable(inside):
            ranks = {t: self._ask_for_number("inside", self._task_view(t)) for t in candidates}
            candidates = sorted(ranks, key=lambda task: (ranks[task], self._task_order[task]))
        # A policy's own check may take the same shape from one user and not from another.
        tried: set[int] = set() if self._own_fits else full
        for task in candidates:
            shape = self._task_shape[task]
            if shape not in tried:
                server = self._server_for(task)
                if server is not None:
                    return task, server
                tried.add(shape)
            if inside == "fifo":
                break
        return None

    def _server_for(self, task: int) -> int | None:
        shape = self._task_shape[task]
        fitting = self._fitting(task, shape)
        if not fitting:
            return None
        choice = self.rules.choice
        if choice == "first-fit":
            return fitting[0]
        if choice == "random":
            self._draws, position = draw(self._draws, len(fitting))
            return fitting[position]
        return min(fitting, key=lambda server: (self._score(task, shape, server), server))

    def _fitting(self, task: int, shape: int) -> list[int]:
        """Return the servers that take a task, in order."""
        if self._own_fits:
            return [server for server in range(len(self._size)) if self.takes(task, server)]
        # The same as asking each in turn, in one go.
        columns = slice(self.rules.fit.start, self.rules.fit.stop)
        holds = (self._free_array[:, columns] >= self._need[shape][columns]).all(axis=1)
        may = self._allowed[self._restriction[shape]]
        return [server for server in np.flatnonzero(holds).tolist() if may[server]]

    def _score(self, task: int, shape: int, server: int) -> float:
        choice = self.rules.choice
        if choice == "own":
            view = self._server_view(server, self._free[server])
            return self._ask_for_number("choice", self._task_view(task), view)
        totals = [float(c) for c in self._size[server]] if choice == "alignment" else self._totals
        need = _shares(self._need[shape], totals)
        free = _shares(self._free[server], totals)
        if choice == "best-fit":
            return best_fit(need, free, self.rules.reference)
        return SCORES[choice](need, free)

    def takes(self, task: int, server: int) -> bool:
        """Return whether a task may go on a server now."""
        shape = self._task_shape[task]
        return self._allowed[self._restriction[shape]][server] and self._holds(
            shape, server, self._free[server], self._task_view(task) if self._own_fits else None
        )

    @property
    def _own_fits(self) -> bool:
        return self.rules.policy.fits is not None

    def _holds(self, shape: int, server: int, free: list[int], view: TaskView | None) -> bool:
        if self._own_fits:
            there = self._server_view(server, free)
            return any(self._size[server]) and bool(self._ask_own("fits", view, there))
        need = self._need[shape]
        return all(free[r] >= need[r] for r in self.rules.fit)

    def _is_never(self, shape: int) -> bool:
        if self.rules.refuses(np.array(self._base[shape], dtype=np.int64), self._sizes()):
            return True
        if self._own_fits:
            return False  # asked task by task
        return not any(self.could_hold(shape, server) for server in range(len(self._size)))

    def _never_runs(self, task: int) -> bool:
        return self._never[self._task_shape[task]] or task in self._refused

    def _ask(self, task: int) -> None:
        """Ask a policy's own check about a queued task on every server as if it were empty."""
        if not self._own_fits:
            return
        shape, view = self._task_shape[task], self._task_view(task)
        may = self._allowed[self._restriction[shape]]
        servers = (server for server, yes in enumerate(may) if yes)
        taken = any(self._holds(shape, server, self._capacity[server], view) for server in servers)
        (self._refused.discard if taken else self._refused.add)(task)

    def _stops(self, user: int) -> bool:
        blocked = self.rules.policy.blocked
        if callable(blocked):
            return bool(self._ask_own("blocked", self._user_view(user)))
        return blocked == "strict"

    # Reading

    def state(self, task: int) -> int:
        never = self._task_state[task] == QUEUED and self._never_runs(task)
        return NEVER if never else self._task_state[task]

    def user_of(self, task: int) -> int:
        return self._task_user[task]

    def shape_of(self, task: int) -> int:
        return self._task_shape[task]

    def server_of(self, task: int) -> int:
        return self._task_server[task]

    def running_on(self, server: int) -> list[int]:
        return list(self._on[server])

    def queue_of(self, user: int) -> list[int]:
        return [task for _, task in self._queue[user]]

    def usage(self, user: int) -> list[int]:
        return self._usage[user][: len(self._totals)]

    def counts(self, user: int) -> tuple[int, int, int]:
        waiting = len(self._queue[user])
        some_never = bool(self._refused) or any(self._never)
        queued = sum(1 for _ in self._ready(user)) if some_never else waiting
        return self._running[user], queued, waiting - queued

    def capacity(self, server: int) -> list[int]:
        return list(self._size[server])

    def free(self, server: int) -> list[int]:
        return self._free[server][: len(self._totals)]

    def overfull(self, server: int) -> bool:
        return any(self._free[server][r] < 0 for r in self.rules.fit)

    def could_hold(self, shape: int, server: int) -> bool:
        if not self._allowed[self._restriction[shape]][server]:
            return False
        view = self._shape_view(shape) if self._own_fits else None
        return self._holds(shape, server, self._capacity[server], view)

    # A policy's own functions, and what they see

    def _ask_own(self, part: str, *views: Any) -> Any:
        """Call a function of the policy; what it raises is the mistake of who wrote it."""
        function = getattr(self.rules.policy, part)
        try:
            return function(*views)
        except Exception as error:
            rule = f"must accept everything ({type(error).__name__}: {error})"
            raise InputError(f"policy.{part} {part_name(function)}()", rule) from error

    def _ask_for_number(self, part: str, *views: Any) -> float:
        answer = self._ask_own(part, *views)
        try:
            number = float(answer)
        except (TypeError, ValueError):
            number = math.nan
        if math.isnan(number):
            function = part_name(getattr(self.rules.policy, part))
            raise InputError(f"policy.{part} {function}()", "must return a number", answer)
        return number

    def _amounts(self, row: Sequence[int]) -> dict[str, float]:
        return self._units.amounts(row[: len(self._totals)])

    def _named_shares(self, row: Sequence[int]) -> dict[str, float]:
        return dict(zip(self.rules.resources, _shares(row, self._totals), strict=True))

    def _user_view(self, user: int) -> UserView:
        row = self._usage[user]
        running, queued, _ = self.counts(user)
        return UserView(
            self.user_name(user), user, self._weight[user],
            self._amounts(row), self._named_shares(row), running, queued,
        )  # fmt: skip

    def _shape_view(self, shape: int, user: str = "", order: int = 0) -> TaskView:
        row = self._base[shape]
        return TaskView(user, self._amounts(row), self._named_shares(row), order)

    def _task_view(self, task: int) -> TaskView:
        user = self.user_name(self._task_user[task])
        return self._shape_view(self._task_shape[task], user, self._task_order[task])

    def _server_view(self, server: int, free: Sequence[int]) -> ServerView:
        return ServerView(
            self.server_name(server), server, self._amounts(self._size[server]),
            self._amounts(free), self._named_shares(free),
        )  # fmt: skip

    # Saving

    def copy(self) -> PlainCore:
        """Return a core in the same state, without calling the policy's functions."""
        twin = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, (set, np.ndarray)):
                setattr(twin, name, value.copy())
            elif isinstance(value, list):
                rows = [v.copy() if isinstance(v, (list, dict)) else v for v in value]
                setattr(twin, name, rows)
        return twin

    def dump(self) -> CoreState:
        tasks = [t for t, state in enumerate(self._task_state) if state != GONE]
        stamps = {task: stamp for on in self._on for task, stamp in on.items()}
        return CoreState(
            weight=list(self._weight), group=list(self._group), groups=list(self._groups),
            capacity=[list(size) for size in self._size],
            need=[list(base) for base in self._base], restriction=list(self._restriction),
            allowed=[list(row) for row in self._allowed[1:]], tasks=tasks,
            user=[self._task_user[t] for t in tasks], shape=[self._task_shape[t] for t in tasks],
            server=[self._task_server[t] for t in tasks],
            order=[self._task_order[t] for t in tasks], stamp=[stamps.get(t, -1) for t in tasks],
            next_order=self._next_order, next_stamp=self._next_stamp, draws=self._draws,
        )  # fmt: skip

    def load(self, state: CoreState) -> None:
        self._groups = list(state.groups)
        for weight, group in zip(state.weight, state.group, strict=True):
            self.add_user(weight, group)
        for size in state.capacity:
            self._size.append(list(size))
            self._on.append({})
        self._allowed = [[True] * len(self._size), *(list(row) for row in state.allowed)]
        if self._size:
            self._rescale()
        for need, restriction in zip(state.need, state.restriction, strict=True):
            self.add_shape(need, restriction)
        self._task_user, self._task_shape = list(state.user), list(state.shape)
        self._task_server, self._task_order = [-1] * len(state.user), list(state.order)
        self._task_state = [QUEUED] * len(state.user)
        runs = [(stamp, task) for task, stamp in enumerate(state.stamp) if stamp >= 0]
        for stamp, task in sorted(runs):
            self._next_stamp = stamp
            self._put_on(task, state.server[task])
        for task, order in enumerate(state.order):
            if self._task_state[task] == QUEUED:
                insort(self._queue[state.user[task]], (order, task))
                self._ask(task)
        self._next_order, self._next_stamp = state.next_order, state.next_stamp
        self._draws = state.draws


def _shares(row: Sequence[int], totals: Sequence[float]) -> list[float]:
    pairs = zip(row, totals, strict=False)  # a row may have one column more
    return [amount / total if total > 0 else 0.0 for amount, total in pairs]
