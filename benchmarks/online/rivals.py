"""Online scheduling without drfh: numpy scans over the servers, and a simpy model of a whole day.

They follow drfh's written meaning (integers decide what fits; levels and H are float64 in one
order of operations), so placements can be compared one by one: see `digest`. Nothing here imports
drfh. There are three scans. `RowServers` is the formula in five lines on one servers × resources
array, what one may write first; numpy is slow along such short rows. `ColumnServers` is the same
with an array a resource, the plain scan that numpy is good at. `NumpyServers` is tuned, as one
would once one cares: buffers that are used again, free shares divided when a server changes and
not in every search, H only where the task fits, First-Fit in blocks, scalars through memoryviews.

Times are of the processor, not of the clock on the wall: all of this is one thread, and what else
the machine does should not count.
"""

from __future__ import annotations

import hashlib
import heapq
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # instances are filled with the help of this module
    from benchmarks.online.instances import Churn, Day

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Policy = Literal["best-fit", "first-fit"]

BLOCK = 8192  # servers that First-Fit looks at in one go
FEW = 24  # up to so many servers a loop in Python is faster than a scan
NOBODY = np.iinfo(np.int64).max  # the need of a user that does not wait: fits no server


def digest(*arrays: NDArray[Any]) -> str:
    """Return one hash of arrays, equal for equal numbers whatever their width.

    >>> digest(np.array([1, 2], np.int32)) == digest(np.array([1, 2]))
    True
    """
    found = hashlib.sha256()
    for array in arrays:
        kind = np.float64 if array.dtype.kind == "f" else np.int64
        found.update(np.ascontiguousarray(array, kind).tobytes())
    return found.hexdigest()[:16]


def scalars(array: NDArray[Any]) -> Any:
    """Return the array as a memoryview: Python numbers in and out, much faster one by one."""
    return np.ascontiguousarray(array).data


@dataclass(frozen=True)
class Task:
    """One task shape, ready for searches.

    Attributes
    ----------
    need : tuple of int
        Units, one a resource.
    ratio : tuple of float
        ``(need_r / T_r) / (need_ref / T_ref)``; 0 for a resource that the pool lacks.
    ref : int
        Resource 0, or the first one the task needs.
    """

    need: tuple[int, ...]
    ratio: tuple[float, ...]
    ref: int


def prepare(need: Sequence[int], totals: Sequence[int]) -> Task:
    """Return a shape with its reference resource and ratios.

    >>> prepare([0, 2, 1], [8, 4, 4])
    Task(need=(0, 2, 1), ratio=(0.0, 1.0, 0.5), ref=1)
    """
    row = tuple(int(x) for x in need)
    ref = next((r for r, x in enumerate(row) if x), 0)
    if not row[ref]:
        raise ValueError("need: a task needs something")
    share = [x / t if t else 0.0 for x, t in zip(row, totals, strict=True)]
    return Task(row, tuple(x / share[ref] if share[ref] else 0.0 for x in share), ref)


def level_of(usage: Sequence[int], totals: Sequence[int], weight: float) -> float:
    """Return max_r (usage_r / T_r) / weight."""
    highest = 0.0
    for used, total in zip(usage, totals, strict=True):
        if total and used / total > highest:
            highest = used / total
    return highest / weight


class Servers(Protocol):
    """What `churn` asks of a backend; -1 says that no server fits."""

    def best_fit(self, need: tuple[int, ...], ratio: tuple[float, ...], ref: int) -> int:
        """Return the fitting server of least H, ties to the lowest index."""

    def first_fit(self, need: tuple[int, ...]) -> int:
        """Return the lowest fitting server."""

    def take(self, server: int, need: tuple[int, ...]) -> None:
        """Put a task on a server."""

    def release(self, server: int, need: tuple[int, ...]) -> None:
        """Free what a task held."""


class RowServers:
    """Free units of every server in one array, and the formula as it is written.

    Parameters
    ----------
    capacity : array, servers × resources
        Units; sets the totals T.
    free : array, servers × resources, optional
        Units; without it all is free.
    """

    def __init__(self, capacity: Integers, free: Integers | None = None) -> None:
        self.totals = capacity.sum(axis=0)
        self.free = (capacity if free is None else free).copy()

    def best_fit(self, need: tuple[int, ...], ratio: tuple[float, ...], ref: int) -> int:
        """Return the fitting server of least H, ties to the lowest index, or -1."""
        fits: NDArray[np.bool_] = np.all(self.free >= need, axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):  # full servers, which are masked
            share = self.free / self.totals
            badness = np.abs(ratio - share / share[:, ref, None]).sum(axis=1)
        server = int(np.where(fits, badness, np.inf).argmin())
        return server if fits[server] else -1

    def first_fit(self, need: tuple[int, ...]) -> int:
        """Return the lowest fitting server, or -1."""
        fits: NDArray[np.bool_] = np.all(self.free >= need, axis=1)
        server = int(fits.argmax())
        return server if fits[server] else -1

    def take(self, server: int, need: tuple[int, ...]) -> None:
        """Put a task on a server."""
        self.free[server] -= need

    def release(self, server: int, need: tuple[int, ...]) -> None:
        """Free what a task held."""
        self.free[server] += need


class ColumnServers:
    """Free units in one array a resource, and the formula over all servers in every search.

    Parameters
    ----------
    capacity : array, servers × resources
        Units; sets the totals T.
    free : array, servers × resources, optional
        Units; without it all is free.
    """

    def __init__(self, capacity: Integers, free: Integers | None = None) -> None:
        self.totals = [int(t) for t in capacity.sum(axis=0)]
        self.free = [column.copy() for column in (capacity if free is None else free).T]

    def _fits(self, need: tuple[int, ...]) -> NDArray[np.bool_]:
        fits: NDArray[np.bool_] = self.free[0] >= need[0]
        for column, units in zip(self.free[1:], need[1:], strict=True):
            fits &= column >= units
        return fits

    def best_fit(self, need: tuple[int, ...], ratio: tuple[float, ...], ref: int) -> int:
        """Return the fitting server of least H, ties to the lowest index, or -1."""
        fits = self._fits(need)
        badness = np.zeros(len(fits))
        with np.errstate(divide="ignore", invalid="ignore"):  # full servers, which are masked
            below = self.free[ref] / self.totals[ref]
            for r, total in enumerate(self.totals):
                if r != ref and total:
                    badness += np.abs(ratio[r] - self.free[r] / total / below)
        badness[~fits] = np.inf
        server = int(badness.argmin())
        return server if fits[server] else -1

    def first_fit(self, need: tuple[int, ...]) -> int:
        """Return the lowest fitting server, or -1."""
        fits = self._fits(need)
        server = int(fits.argmax())
        return server if fits[server] else -1

    def take(self, server: int, need: tuple[int, ...]) -> None:
        """Put a task on a server."""
        for column, units in zip(self.free, need, strict=True):
            column[server] -= units

    def release(self, server: int, need: tuple[int, ...]) -> None:
        """Free what a task held."""
        for column, units in zip(self.free, need, strict=True):
            column[server] += units


class NumpyServers:
    """Free units of every server, searched by vectorised scans.

    Parameters
    ----------
    capacity : array, servers × resources
        Units; sets the totals T.
    free : array, servers × resources, optional
        Units; without it all is free.
    """

    def __init__(self, capacity: Integers, free: Integers | None = None) -> None:
        k, m = capacity.shape
        self.totals = [int(t) for t in capacity.sum(axis=0)]
        self.free = np.ascontiguousarray((capacity if free is None else free).T, np.int64).copy()
        self.share = np.zeros((m, k))  # free_r / T_r
        for r, total in enumerate(self.totals):
            if total:
                np.divide(self.free[r], total, out=self.share[r])
        self.known = [r for r, total in enumerate(self.totals) if total]
        self.quotient = np.full((m, k), np.nan)  # (free_r / T_r) / (free_0 / T_0)
        with np.errstate(divide="ignore", invalid="ignore"):
            for r in self.known:
                np.divide(self.share[r], self.share[0], out=self.quotient[r])
        self._fits, self._also = np.empty(k, np.bool_), np.empty(k, np.bool_)
        self.cells = [scalars(row) for row in self.free]
        self._shares = [scalars(row) for row in self.share]
        self._quotients = [scalars(row) for row in self.quotient]

    def best_fit(self, need: tuple[int, ...], ratio: tuple[float, ...], ref: int) -> int:
        """Return the fitting server of least H, ties to the lowest index, or -1."""
        fits, also, free = self._fits, self._also, self.free
        np.greater_equal(free[0], need[0], out=fits)
        for r in range(1, len(need)):
            if need[r]:
                np.greater_equal(free[r], need[r], out=also)
                np.logical_and(fits, also, out=fits)
        where = fits.nonzero()[0]
        if not where.size:
            return -1
        below = self.share[ref].take(where) if ref else None
        badness = None
        for r in self.known:
            if r == ref:  # |1 - 1|: adds nothing
                continue
            if below is None:
                term = self.quotient[r].take(where)
            else:
                term = self.share[r].take(where)
                np.divide(term, below, out=term)
            np.subtract(ratio[r], term, out=term)
            np.abs(term, out=term)
            badness = term if badness is None else np.add(badness, term, out=badness)
        return int(where[0] if badness is None else where[badness.argmin()])

    def first_fit(self, need: tuple[int, ...]) -> int:
        """Return the lowest fitting server, or -1; looks at `BLOCK` servers in one go."""
        free, k = self.free, self.free.shape[1]
        for start in range(0, k, BLOCK):
            stop = min(start + BLOCK, k)
            fits, also = self._fits[start:stop], self._also[start:stop]
            np.greater_equal(free[0, start:stop], need[0], out=fits)
            for r in range(1, len(need)):
                if need[r]:
                    np.greater_equal(free[r, start:stop], need[r], out=also)
                    np.logical_and(fits, also, out=fits)
            first = int(fits.argmax())
            if fits[first]:
                return start + first
        return -1

    def among(self, servers: Sequence[int], task: Task, policy: Policy) -> int:
        """Return what a search over these few servers (ascending) alone finds, in plain Python."""
        cells, need, ref = self.cells, task.need, task.ref
        chosen, least = -1, math.inf
        for server in servers:
            for r, units in enumerate(need):
                if cells[r][server] < units:
                    break
            else:
                if policy == "first-fit":
                    return server
                badness = 0.0
                for r in self.known:
                    if r != ref:
                        share = self._shares
                        badness += abs(task.ratio[r] - share[r][server] / share[ref][server])
                if badness < least:
                    chosen, least = server, badness
        return chosen

    def take(self, server: int, need: tuple[int, ...]) -> None:
        """Put a task on a server."""
        for r, units in enumerate(need):
            if units:
                self.cells[r][server] -= units
        self._divide(server)

    def release(self, server: int, need: tuple[int, ...]) -> None:
        """Free what a task held."""
        for r, units in enumerate(need):
            if units:
                self.cells[r][server] += units
        self._divide(server)

    def _divide(self, server: int) -> None:
        share, quotient = self._shares, self._quotients
        for r in self.known:
            share[r][server] = self.cells[r][server] / self.totals[r]
        below = share[0][server]
        for r in self.known:
            quotient[r][server] = share[r][server] / below if below else math.nan


def search_with(servers: Servers, policy: Policy) -> Callable[[Task], int]:
    """Return a policy's full search as a function of the task shape."""
    if policy == "first-fit":
        return lambda task: servers.first_fit(task.need)
    return lambda task: servers.best_fit(task.need, task.ratio, task.ref)


@dataclass(frozen=True)
class ChurnRun:
    """What churn did: one entry a step; user and server are -1 where nobody's task fitted."""

    user: Integers
    server: Integers
    searches: int
    seconds: float


def churn(work: Churn, servers: Servers, policy: Policy, steps: int) -> ChurnRun:
    """Run search, placement and release in a steady state; the time covers the steps alone.

    Every user has one task shape and endless tasks. The running tasks stand in a line, at the
    beginning in the order of `work.task_user` and `work.task_server` (oldest first); `servers`
    holds `work.free`. One step:

    1. The oldest running task finishes: its server is given its units back, its user's usage
       shrinks, its user's level is computed anew.
    2. One turn: users are tried in ascending order of (level, index) until the task of one fits
       on a server. It is placed there (ties and choice: the policy), its user's usage and level
       grow, and it goes to the end of the line. If no user's task fits, nothing is placed and
       -1, -1 is recorded: the line gets shorter.

    The number of running tasks, hence the load, stays. There is exactly one placement a step, and
    one search for nearly all steps, because the pool is not saturated.
    """
    totals = [int(t) for t in work.capacity.sum(axis=0)]
    tasks = [prepare(row, totals) for row in work.need.tolist()]
    weights = work.weight.tolist()
    usage = work.usage.tolist()
    level = np.array(
        [level_of(used, totals, w) for used, w in zip(usage, weights, strict=True)], np.float64
    )
    running = deque(zip(work.task_user.tolist(), work.task_server.tolist(), strict=True))
    search = search_with(servers, policy)
    users, places, searches = np.full(steps, -1), np.full(steps, -1), 0

    def change(user: int, sign: int) -> None:
        held = usage[user]
        for r, units in enumerate(tasks[user].need):
            held[r] += sign * units
        level[user] = level_of(held, totals, weights[user])

    started = time.process_time()
    for step in range(steps):
        if running:
            user, server = running.popleft()
            servers.release(server, tasks[user].need)
            change(user, -1)
        user = int(level.argmin())
        server = search(tasks[user])
        searches += 1
        if server < 0:
            for other in np.argsort(level, kind="stable")[1:].tolist():
                user, server = other, search(tasks[other])
                searches += 1
                if server >= 0:
                    break
            else:
                continue
        servers.take(server, tasks[user].need)
        change(user, 1)
        running.append((user, server))
        users[step], places[step] = user, server
    return ChurnRun(users, places, searches, time.process_time() - started)


@dataclass(frozen=True)
class SimulationRun:
    """When and where each task started (NaN and -1: it did not), and the work that took."""

    start: Floats
    server: Integers
    searches: int
    rounds: int
    seconds: float

    @property
    def digest(self) -> str:
        """One hash of starts and servers; a task that did not start counts as -1."""
        return digest(np.where(np.isnan(self.start), -1.0, self.start), self.server)


def simpy_simulate(
    day: Day,
    policy: Policy = "best-fit",
    wake: Literal["exact", "everyone"] = "exact",
    until: float | None = None,
) -> SimulationRun:
    """Simulate a day with simpy: tasks of a user first in, first out; blocked users are skipped.

    At every instant before `until` (None: to the end) all departures and arrivals of that instant
    are applied, then there is one placing round: the queued user of lowest (level, index) has its
    oldest task searched for and placed, or is out of the round if it fits nowhere; until all are
    out or have no queue. A task placed at t with duration d departs at the float64 sum t + d; for
    d = 0 that is the same instant, and there is another round at it. A task that would fit on no
    empty server is set aside when it arrives, and blocks nobody.

    wake="everyone" searches for every queued user in every round. wake="exact" knows that a
    waiting user (its oldest task fitted nowhere) can only fit on a server that was released since:
    it asks such users only about these. Same placements.
    """
    import simpy

    servers = NumpyServers(day.capacity)
    totals, m = servers.totals, len(servers.totals)
    tasks = [prepare(row, totals) for row in day.shape.tolist()]
    possible = [bool((day.capacity >= row).all(axis=1).any()) for row in day.shape]
    weights, n = day.weight.tolist(), len(day.weight)
    duration, first = scalars(day.duration), day.first.tolist()
    usage = [[0] * m for _ in range(n)]
    level = [0.0] * n
    queue: list[deque[list[int]]] = [deque() for _ in range(n)]  # [shape, next task, end] a batch
    ready: set[int] = set()  # users whose oldest task may fit anywhere
    waits_for = np.full((m, n), NOBODY)  # the needs of users that wait
    dirty: set[int] = set()
    start, place = np.full(len(day.duration), np.nan), np.full(len(day.duration), -1)
    starts, places = scalars(start), scalars(place)
    search = search_with(servers, policy)
    searches = rounds = 0
    pending = False
    env: Any = simpy.Environment()

    def change(user: int, need: tuple[int, ...], sign: int) -> None:
        held = usage[user]
        for r, units in enumerate(need):
            held[r] += sign * units
        level[user] = level_of(held, totals, weights[user])

    def call_round() -> None:
        nonlocal pending
        if not pending:
            pending = True
            # simpy keeps the order of scheduling within an instant, and all events of this one
            # were scheduled before it began: the round comes after them.
            env.timeout(0).callbacks.append(placing_round)

    def depart(event: Any) -> None:
        user, server, need = event.value
        servers.release(server, need)
        change(user, need, -1)
        dirty.add(server)
        call_round()

    def arrivals() -> Any:
        rows = zip(
            day.batch_arrival.tolist(),
            day.batch_user.tolist(),
            day.batch_shape.tolist(),
            strict=True,
        )
        for batch, (arrival, user, shape) in enumerate(rows):
            if arrival > env.now:
                delay = arrival - env.now
                while env.now + delay != arrival:  # land on the very float
                    delay = math.nextafter(delay, math.inf if env.now + delay < arrival else 0.0)
                yield env.timeout(delay)
            if possible[shape]:
                if not queue[user]:
                    ready.add(user)
                queue[user].append([shape, first[batch], first[batch + 1]])
                call_round()

    def woken() -> list[int]:
        """Return the waiting users that may fit on a released server."""
        fits: NDArray[np.bool_] | None = None
        for needs, cells in zip(waits_for, servers.cells, strict=True):
            enough = needs <= max(cells[server] for server in dirty)
            fits = enough if fits is None else np.logical_and(fits, enough, out=fits)
        return [] if fits is None else fits.nonzero()[0].tolist()

    def placing_round(_: Any) -> None:
        nonlocal pending, searches, rounds
        pending = False
        rounds += 1
        asked = sorted(dirty)
        if wake == "everyone":
            ready.update(user for user in range(n) if queue[user])
            turn = [(level[user], user) for user in ready]
        else:
            turn = [(level[user], user) for user in ready]
            if asked:
                turn += [(level[user], user) for user in woken()]
        heapq.heapify(turn)
        while turn:
            user = turn[0][1]
            batch = queue[user][0]
            task = tasks[batch[0]]
            if user in ready or len(asked) > FEW:
                server = search(task)
                searches += 1
            else:
                server = servers.among(asked, task, policy)
            if server < 0:
                heapq.heappop(turn)
                if user in ready:
                    ready.discard(user)
                    waits_for[:, user] = task.need
                continue
            servers.take(server, task.need)
            change(user, task.need, 1)
            number = batch[1]
            starts[number], places[number] = env.now, server
            leave = env.timeout(duration[number], (user, server, task.need))
            leave.callbacks.append(depart)
            batch[1] += 1
            if batch[1] == batch[2]:
                queue[user].popleft()
                waits_for[:, user] = NOBODY
                if not queue[user]:
                    ready.discard(user)
                    heapq.heappop(turn)
                    continue
                ready.add(user)  # another shape, perhaps: it may fit anywhere
            heapq.heapreplace(turn, (level[user], user))
        dirty.clear()

    env.process(arrivals())
    began = time.process_time()
    env.run(until=until)
    return SimulationRun(start, place, searches, rounds, time.process_time() - began)
