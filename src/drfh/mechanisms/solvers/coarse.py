"""Where column generation starts: a problem with fewer servers, and what it suggests."""

from __future__ import annotations

import heapq

import numpy as np

from drfh.kernels import fast
from drfh.kernels.schur import price_servers
from drfh.mechanisms.solvers.pairs import RadialProblem
from drfh.mechanisms.solvers.point import Iterate, lacking
from drfh.problem import Floats, Ints

__all__ = ["CLUSTERS", "coarser", "first_choice", "near_prices"]

CLUSTERS, SHRINK = 200, 8  # fewest clusters, and servers per cluster, of the coarser problem
# The first choice: users per server by price, users per server in turn, fewest servers per user.
BY_PRICE, IN_TURN, FEWEST = 20, 6, 8
DISTORTION = 0.05  # how differently the servers see the users in the first choice
MARGIN = 0.05  # how far above the guessed prices to start


def _clusters(problem: RadialProblem, count: int) -> Ints:
    """Return a cluster number per server: alike in direction and in who may use them."""
    c, weight = problem.c, problem.c.sum(axis=0)
    level = np.log(np.maximum(c, 1e-6 * np.maximum(c.max(axis=0), 1e-300)))
    features = level - level.mean(axis=0)
    if problem.usable is not None:
        # Servers open to the same users agree on any projection, others rarely do.
        n = problem.d.shape[0]
        signs = np.cos(np.outer(np.arange(3) + 1.0, np.arange(n) ** 2))
        features = np.vstack((features, signs @ problem.usable.T / np.sqrt(n)))

    def spread(group: Ints) -> tuple[float, int]:
        part, mass = features[:, group], weight[group]
        mean = part @ mass / max(float(mass.sum()), 1e-300)
        variance = (part - mean[:, None]) ** 2 @ mass
        return -float(variance.max()), int(variance.argmax())

    # Split the group that differs most within, in the middle of its weight, again and again.
    groups: list[Ints] = [np.arange(c.shape[1])]
    heap = [(*spread(groups[0]), 0)]
    while len(groups) < count and heap[0][0] < 0:
        _, axis, worst = heapq.heappop(heap)
        group = groups[worst][np.argsort(features[axis, groups[worst]], kind="stable")]
        mass = np.cumsum(weight[group])
        cut = min(max(int(np.searchsorted(mass, mass[-1] / 2)), 1), group.size - 1)
        groups[worst] = group[:cut]
        groups.append(group[cut:])
        for number in (worst, len(groups) - 1):
            heapq.heappush(heap, (*spread(groups[number]), number))
    label = np.empty(c.shape[1], dtype=np.int64)
    for number, group in enumerate(groups):
        label[group] = number
    return label


def coarser(problem: RadialProblem) -> RadialProblem:
    """Return the problem with alike servers made one."""
    label = _clusters(problem, max(CLUSTERS, problem.c.shape[1] // SHRINK))
    order = np.argsort(label, kind="stable")
    first = np.flatnonzero(np.diff(label[order], prepend=-1))
    c = np.add.reduceat(problem.c[:, order], first, axis=1)
    usable = problem.usable
    if usable is not None:
        usable = np.logical_or.reduceat(usable[order], first, axis=0)
    unit, more = float(c.mean()), first.size / float(problem.a.sum())
    return RadialProblem(
        problem.d,
        c / unit,
        problem.a * more,
        None if problem.fixed is None else problem.fixed / unit,
        problem.guess / (unit * more),
        problem.most * (first.size / (problem.c.shape[1] * unit * more)),
        usable,
    )


def first_choice(problem: RadialProblem, mu: Floats) -> tuple[Ints, Floats]:
    """Return promising columns given the users' prices, and the servers' prices they imply."""
    (n, m), k = problem.d.shape, problem.c.shape[1]
    prices = np.empty((k, m))
    kernel = fast(price_servers, steps=5.0 * n * k * m)
    noise = np.random.default_rng(1)
    chosen = []
    for some, keys in problem.chunks():
        # Large problems have many equally good answers. Each server sees the users through its
        # own small distortion, so that the choice spreads over all users.
        seen = mu * (1.0 + DISTORTION * noise.random((keys.size, n)))
        if problem.usable is not None:
            seen[~problem.usable[some]] = -1.0
        kernel(problem.d, np.ascontiguousarray(problem.c[:, some].T), seen, 60, prices[some])
        cost = prices[some] @ problem.d.T - seen
        best = np.argpartition(cost, min(BY_PRICE, n) - 1, axis=1)[:, :BY_PRICE]
        chosen.append((keys + best)[np.take_along_axis(seen, best, axis=1) > 0])
    # Some of every kind of server for everybody keeps the first prices sane.
    turn = np.arange(k * min(IN_TURN, n))
    turn = turn // min(IN_TURN, n) * n + turn % n
    chosen.append(turn if problem.usable is None else turn[problem.usable.ravel()[turn]])
    found = np.unique(np.concatenate(chosen))
    for user in np.flatnonzero(np.bincount(found % n, minlength=n) < FEWEST):
        open_to = (
            np.arange(k) if problem.usable is None else np.flatnonzero(problem.usable[:, user])
        )
        some_of = open_to[np.linspace(0, open_to.size - 1, min(open_to.size, FEWEST)).astype(int)]
        chosen.append(some_of * n + user)
    return np.unique(np.concatenate(chosen)), np.ascontiguousarray(prices.T)


def near_prices(problem: RadialProblem, keys: Ints, p: Floats, mu: Floats) -> Iterate:
    """Return a point near good prices: cheap columns fuller, loads level."""
    columns, live = problem.columns(keys), problem.c > 0
    mu = mu * (columns.servers / float(problem.a @ mu))
    p = np.where(live, p + MARGIN, 0.0)
    # The prices are a guess that may leave some column too cheap; lift its server.
    short = np.zeros(columns.servers)
    np.maximum.at(short, columns.server, MARGIN - columns.cost(p) + mu[columns.user])
    p = np.where(live, p + short, 0.0)
    z = columns.cost(p) - mu[columns.user]
    x = columns.spread(np.where(live, problem.c, np.inf).min(axis=0)) / z
    likely = problem.likely()
    for _ in range(10):
        x *= (likely / columns.per_user(x))[columns.user]
        load = columns.load(x) / np.where(live, problem.c, np.inf)
        x /= columns.spread(np.sqrt(np.maximum(load.max(axis=0), 1e-9)))
    x *= (likely / columns.per_user(x))[columns.user]
    load = columns.load(x)
    part = 0.9 / float((load[live] / problem.c[live]).max())
    s = np.where(live, problem.c - part * load, 1.0)
    point = Iterate(part * x, s, part * problem.guess, p, mu, z)
    if problem.fixed is not None:
        point.lack, point.calm = lacking(part, float(problem.fixed @ mu), problem.most)
    return point
