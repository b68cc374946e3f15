"""What the online benchmarks run on: Google-like servers, a day of tasks, a pool in churn.

Everything is in int64 units and drawn by one numpy generator from its seed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.online.rivals import NumpyServers, Policy, churn, prepare, search_with

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

UNIT = 10_000_000  # parts of the largest server's CPU and memory
LARGEST_TOTAL = 2**43
ROUND = UNIT // 2000  # people ask for round numbers

# Table I of the paper: servers, CPU, memory as the trace has it (the paper rounds to two digits).
GOOGLE = (
    (6732, 0.5, 0.4995),
    (3863, 0.5, 0.2493),
    (1001, 0.5, 0.749),
    (795, 1.0, 1.0),
    (126, 0.25, 0.2498),
    (52, 0.5, 0.1241),
    (5, 0.5, 0.03085),
    (5, 0.5, 0.9678),
    (3, 1.0, 0.5),
    (1, 0.5, 0.06158),
)


def cluster_units(k: int, seed: int = 0, m: int = 2) -> Integers:
    """Return the capacities (servers × resources) of k servers drawn from Google's ten shapes.

    Resources: CPU, memory, and for m = 3 GPUs (1, 2, 4 or 8 on about 10 % of the servers). For
    m = 1 there is CPU alone.

    >>> cluster_units(3).tolist()
    [[5000000, 2493000], [5000000, 4995000], [5000000, 4995000]]
    """
    random = np.random.default_rng(seed)
    table = np.array(GOOGLE)
    kind = random.choice(len(table), size=k, p=table[:, 0] / table[:, 0].sum())
    found = np.zeros((k, max(m, 2)), np.int64)
    found[:, :2] = np.rint(table[kind, 1:] * UNIT)
    if m > 2:
        chosen = random.random(k) < 0.1
        chosen[random.integers(k)] = True
        found[chosen, 2] = random.choice([1, 2, 4, 8], size=int(chosen.sum()))
    if (found.sum(axis=0) > LARGEST_TOTAL).any():
        raise ValueError(f"k: the pool has at most 2^43 units, got {k} servers")
    return np.ascontiguousarray(found[:, :m])


def _shapes(random: np.random.Generator, number: int, capacity: Integers) -> Integers:
    """Return task shapes, each of which some empty server can hold; the median is 3.5 %."""
    m = capacity.shape[1]
    size = random.normal(np.log(0.035), 0.7, (number, 1))
    lean = random.normal(0.0, 0.5, (number, min(m, 2)))
    amount = np.clip(np.exp(size + lean), 0.0005, 0.45) * UNIT
    need = np.zeros((number, m), np.int64)
    need[:, :2] = np.rint(amount / ROUND) * ROUND
    if m > 2:
        wants = random.random(number) < 0.04
        need[wants, 2] = random.choice([1, 2], size=int(wants.sum()), p=[0.8, 0.2])
    roomy = capacity[np.argsort(-capacity[:, :2].min(axis=1), kind="stable")]
    has_all = np.all((roomy > 0) | (need[:, None, :] == 0), axis=2)
    holder: Integers = roomy[has_all.argmax(axis=1)]
    return np.minimum(need, holder)


@dataclass(frozen=True)
class Day:
    """Batches of equal tasks in order of arrival; a task's number counts through the batches.

    Attributes
    ----------
    capacity : array, servers × resources
    weight : array, users
    shape : array, shapes × resources
        Units that a task needs.
    batch_arrival, batch_user, batch_shape, batch_count : arrays, batches
        Arrivals in seconds, ascending. Batches of one instant arrive in this order.
    duration : array, tasks
        Seconds.
    horizon : float
        Seconds.
    """

    capacity: Integers
    weight: Floats
    shape: Integers
    batch_arrival: Floats
    batch_user: Integers
    batch_shape: Integers
    batch_count: Integers
    duration: Floats
    horizon: float

    @property
    def first(self) -> Integers:
        """The number of the first task of each batch, and at the end the number of tasks."""
        return np.concatenate(([0], np.cumsum(self.batch_count)))

    @property
    def load(self) -> float:
        """Demand × duration over capacity × horizon, of the busiest resource."""
        work = np.add.reduceat(self.duration, self.first[:-1])
        asked = np.bincount(self.batch_shape, work, len(self.shape)) @ self.shape
        total = self.capacity.sum(axis=0)
        return float((asked[total > 0] / (total[total > 0] * self.horizon)).max())


def day(
    users: int = 900,
    tasks: int = 1_000_000,
    servers: int = 2000,
    load: float = 1.3,
    hours: float = 24,
    seed: int = 0,
    m: int = 2,
) -> Day:
    """Return a day of tasks whose offered load on the busiest resource is `load`.

    Users are Zipf (exponent 1.1) in batches; batch sizes are Pareto (1.1) up to 1/200 of all
    tasks; 120 shapes, two to six a user; durations are log-normal with a part (1.2) that a batch
    has in common and one (0.5) of each task, cut at 25 medians and scaled to the load. Arrivals
    follow a day's swing, on a grid of 1/1024 s.

    >>> round(day(users=5, tasks=100, servers=10).load, 12)
    1.3
    """
    random = np.random.default_rng([seed, 1])
    capacity = cluster_units(servers, seed, m)
    shape = _shapes(random, 120, capacity)
    horizon = hours * 3600.0

    count = np.empty(0, np.int64)
    while count.sum() < tasks:
        drawn = (1.0 - random.random(tasks // 6 + 16)) ** (-1 / 1.1)
        count = np.concatenate((count, np.minimum(drawn, max(tasks // 200, 1)).astype(np.int64)))
    last = int(np.searchsorted(np.cumsum(count), tasks))
    count = count[: last + 1]
    count[-1] -= count.sum() - tasks
    batches = len(count)

    popular = random.permutation(1.0 / np.arange(1, users + 1) ** 1.1)
    user = random.choice(users, size=batches, p=popular / popular.sum())
    owned = random.integers(2, 7, users)
    own = random.integers(0, len(shape), (users, 6))
    batch_shape = own[user, (random.random(batches) ** 2 * owned[user]).astype(np.int64)]

    part = np.sort(random.random(batches))
    arrival = horizon * (part + 0.08 * np.sin(2 * np.pi * part))  # ascending
    arrival = np.floor(arrival * 1024) / 1024

    spread = np.repeat(random.normal(0.0, 1.2, batches), count)
    spread += random.normal(0.0, 0.5, tasks)
    duration = np.minimum(np.exp(spread, out=spread), 25.0)
    found = Day(
        capacity, np.ones(users), shape, arrival, user, batch_shape, count, duration, horizon
    )
    return replace(found, duration=duration * (load / found.load))


@dataclass(frozen=True)
class Churn:
    """A pool in steady state: every user has one task shape and endless tasks.

    Attributes
    ----------
    capacity : array, servers × resources
    weight : array, users
    need : array, users × resources
    task_user, task_server : arrays, running tasks
        Oldest first.
    """

    capacity: Integers
    weight: Floats
    need: Integers
    task_user: Integers
    task_server: Integers

    @property
    def free(self) -> Integers:
        """Free units, servers × resources."""
        found = self.capacity.copy()
        np.subtract.at(found, self.task_server, self.need[self.task_user])
        return found

    @property
    def usage(self) -> Integers:
        """Units that each user holds, users × resources."""
        running = np.bincount(self.task_user, minlength=len(self.need))
        return self.need * running[:, None]

    @property
    def load(self) -> float:
        """The used part of the busiest resource."""
        return float((self.usage.sum(axis=0) / self.capacity.sum(axis=0)).max())


def churn_work(
    servers: int,
    policy: Policy,
    users: int = 1000,
    load: float = 0.8,
    seed: int = 0,
    m: int = 2,
    base: int = 2000,
) -> Churn:
    """Return a pool that the policy itself has filled to the load and then churned for long.

    To fill 100,000 servers takes a scan half an hour. So a pool of about `base` servers is filled
    and each of its tasks replaced three times, and this state is copied: server s becomes a run of
    equal neighbours (a low index stays low, for First-Fit), cut to the number of servers asked
    for. Ages are shuffled, so that copies do not leave one after the other.
    """
    random = np.random.default_rng([seed, 2])
    copies = -(-servers // base)
    small = -(-servers // copies)
    capacity = cluster_units(small, seed, m)
    need = _shapes(random, users, capacity)
    need[:, :2] = np.minimum(need[:, :2], round(0.24 * UNIT))  # fits nearly everywhere

    # As many tasks of each user as make the levels equal and the busiest resource that full.
    totals = capacity.sum(axis=0)
    running = 1.0 / (need / totals).max(axis=1)
    running *= load / ((running @ need) / totals).max()
    line = random.permutation(np.repeat(np.arange(users), np.rint(running).astype(np.int64)))

    backend = NumpyServers(capacity)
    search = search_with(backend, policy)
    tasks = [prepare(row, backend.totals) for row in need.tolist()]
    placed = np.full(len(line), -1)
    for number, user in enumerate(line.tolist()):
        server = search(tasks[user])
        if server >= 0:
            backend.take(server, tasks[user].need)
            placed[number] = server
    work = Churn(capacity, np.ones(users), need, line[placed >= 0], placed[placed >= 0])

    steps = 3 * len(work.task_user)
    run = churn(work, backend, policy, steps)
    lived = run.server >= 0  # one task left a step: the rest of the sequence runs
    user_now = np.concatenate((work.task_user, run.user[lived]))[steps:]
    server_now = np.concatenate((work.task_server, run.server[lived]))[steps:]

    copied = server_now * copies + np.arange(copies)[:, None]
    inside = np.flatnonzero(copied.ravel() < servers)
    order = random.permutation(inside)
    return Churn(
        np.repeat(capacity, copies, axis=0)[:servers],
        work.weight,
        need,
        np.tile(user_now, copies)[order],
        copied.ravel()[order],
    )
