"""The radial sharing problem with every user-server pair: choose columns, solve, prove.

Small problems go to the interior-point method whole. Large ones start from a few promising
users per server; pairs that the prices reached so far leave underpriced join until the bound
over *all* pairs meets the placement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import heapq

import numpy as np
import numpy.typing as npt

from drfh.kernels import fast
from drfh.kernels.schur import price_servers
from drfh.mechanisms.solvers.interior import Columns, Floats, Ints, Iterate, cold_start, improve

__all__ = ["RadialSolution", "solve_radial"]

Flags = npt.NDArray[np.bool_]

# Pairs up to which all of them are taken at once.
WHOLE = 200_000
CLUSTERS = 200
SHRINK = 8
COARSE_RUNGS = (1e-2, 1e-3)
# Candidates per server, and servers per user, in the first choice.
PER_SERVER, PER_USER = 24, 12
CYCLED = 6
TAU = 0.03
MARGIN = 0.05
BALANCE = 10
M1=30
M2=0.3
M3=0.01
SHRINKX=0
# Most underpriced pairs to add per server and round.
ADDED = 8
# Gaps on the chosen columns at which the prices are good enough to look for more columns.
RUNGS = (1e-2, 1e-3, 1e-4, 1e-6)
CHUNK = 2_000_000
ROUNDS = 9


@dataclass(frozen=True, slots=True)
class RadialSolution:
    """A placement, prices, and the proof that they belong together.

    Attributes
    ----------
    theta
        What the placement reaches: user i holds at least ``theta * a[i]``, within capacity.
    bound
        No placement reaches more (proved by `prices`).
    prices
        Price of each resource at each server, shape (k, m).
    mu
        Cheapest price of a unit of each user, shape (n,); ``a @ mu`` is one.
    user, server, share
        The placement, one entry per used pair.
    gap
        ``(bound - theta) / bound``.
    iterations
        Interior-point iterations made, over all column sets.
    state
        Pass it as `start` for the same problem with slightly different `a`.
    """

    theta: float
    bound: float
    prices: Floats
    mu: Floats
    user: Ints
    server: Ints
    share: Floats
    gap: float
    iterations: int
    state: object


@dataclass(slots=True)
class _State:
    """Columns (as ``server * n + user``) and a well-centred point on them."""

    keys: Ints
    point: Iterate


@dataclass(slots=True)
class _Problem:
    """The problem, scaled: capacities (m, k) average one and `a` sums to the servers."""

    d: Floats
    c: Floats
    a: Floats
    usable: Flags | None  # (k, n); None if every user may use every server

    def columns(self, keys: Ints) -> Columns:
        server, user = np.divmod(keys, self.d.shape[0])
        return Columns(self.d, self.c.shape[1], user, server)

    def chunks(self) -> Iterator[slice]:
        """Yield runs of servers whose pairs fit into memory comfortably."""
        step = max(1, CHUNK // self.d.shape[0])
        for first in range(0, self.c.shape[1], step):
            yield slice(first, first + step)

    def reduced(self, p: Floats, mu: Floats, some: slice) -> Floats:
        """Return the reduced costs of all pairs of some servers, infinite where unusable."""
        cost = p[:, some].T @ self.d.T - mu
        if self.usable is not None:
            cost[~self.usable[some]] = np.inf
        return cost


def _usable(d: Floats, c: Floats, allowed: Flags | None) -> Flags | None:
    """Return which pairs (k, n) can be used at all, or None if all can."""
    usable = None if allowed is None or allowed.all() else np.ascontiguousarray(allowed.T)
    for r in range(d.shape[1]):
        empty, needy = c[:, r] <= 0, d[:, r] > 0
        if empty.any() and needy.any():
            if usable is None:
                usable = np.ones((c.shape[0], d.shape[0]), dtype=bool)
            usable &= ~(empty[:, None] & needy)
    return usable


def _every_pair(problem: _Problem) -> Ints:
    if problem.usable is None:
        return np.arange(problem.d.shape[0] * problem.c.shape[1])
    return np.flatnonzero(problem.usable)


def _clusters(problem: _Problem, count: int) -> Ints:
    """Return a cluster number per server: alike in direction and in who may use them."""
    c = problem.c
    level = np.log(np.maximum(c, 1e-6 * c.max(axis=0)))
    features = level - level.mean(axis=0)
    weight = c.sum(axis=0)
    if problem.usable is not None:
        # Servers open to the same users agree on any projection, others rarely do.
        n = problem.d.shape[0]
        signs = np.cos(np.outer(np.arange(3) + 1.0, np.arange(n) ** 2))
        features = np.vstack((features, signs @ problem.usable.T / np.sqrt(n)))
    groups = [np.arange(c.shape[1])]

    def spread(group: Ints) -> tuple[float, int]:
        part, heavy = features[:, group], weight[group] / weight[group].sum()
        variance = ((part - (part @ heavy)[:, None]) ** 2) @ weight[group]
        return float(variance.max()), int(variance.argmax())

    # Split the group that differs most within, in the middle of its weight, again and again.
    heap = [(-spread(groups[0])[0], 0, spread(groups[0])[1])]
    while len(groups) < count and heap[0][0] < 0:
        _, worst, axis = heapq.heappop(heap)
        group = groups[worst]
        group = group[np.argsort(features[axis, group], kind="stable")]
        mass = np.cumsum(weight[group])
        cut = min(max(int(np.searchsorted(mass, mass[-1] / 2)), 1), group.size - 1)
        groups[worst] = group[:cut]
        groups.append(group[cut:])
        for number in (worst, len(groups) - 1):
            size, axis = spread(groups[number])
            heapq.heappush(heap, (-size, number, axis))
    label = np.empty(c.shape[1], dtype=np.int64)
    for number, group in enumerate(groups):
        label[group] = number
    return label


def _coarse(problem: _Problem, count: int) -> _Problem:
    """Return the problem with alike servers made one."""
    label = _clusters(problem, count)
    count = int(label.max()) + 1
    c = np.stack([np.bincount(label, row, minlength=count) for row in problem.c])
    usable = None
    if problem.usable is not None:
        usable = np.zeros((count, problem.d.shape[0]), dtype=bool)
        np.logical_or.at(usable, label, problem.usable)
    return _Problem(problem.d, c / c.mean(), problem.a * (count / problem.a.sum()), usable)


def _guided(problem: _Problem) -> tuple[_State, int]:
    """Return promising columns and a point on them, from the problem with fewer servers."""
    k = problem.c.shape[1]
    coarse = _coarse(problem, max(CLUSTERS, k // SHRINK))
    if coarse.c.size * coarse.d.shape[0] <= WHOLE * 4:
        keys = _every_pair(coarse)
        columns = coarse.columns(keys)
        start = cold_start(columns, coarse.c, coarse.a)
        point, _, iterations = improve(columns, coarse.c, coarse.a, start, 1e-3)
    else:
        state, before = _guided(coarse)
        point, iterations = _generate(coarse, state, COARSE_RUNGS)
        iterations += before
    import time; print("coarse",time.process_time(),iterations)
    keys, p = _first_choice(problem, point.mu)
    start= _guided_start(problem, keys, p, point.mu)
    print("choice",time.process_time())
    return _State(keys, start), iterations


def _first_choice(problem: _Problem, mu: Floats) -> tuple[Ints, Floats]:
    """Return promising columns given the users' prices, and the servers' prices they imply."""
    n, m = problem.d.shape
    k = problem.c.shape[1]
    prices = np.empty((k, m))
    kernel = fast(price_servers, steps=10.0 * n * k * m)
    noise = np.random.default_rng(1)
    chosen = []
    take = min(PER_SERVER, n)
    for some in problem.chunks():
        c = np.ascontiguousarray(problem.c[:, some].T)
        # Large problems have many equally good answers; each server sees the users through
        # its own small distortion, so that the choice spreads over all users.
        seen = mu * (1.0 + TAU * noise.random((c.shape[0], n)))
        if problem.usable is not None:
            seen[~problem.usable[some]] = -1.0
        kernel(problem.d, c, seen, 60, prices[some])
        cost = prices[some] @ problem.d.T - seen
        best = np.argpartition(cost, take - 1, axis=1)[:, :take]
        rows = np.arange(some.start, some.start + c.shape[0])
        chosen.append((rows[:, None] * n + best)[np.take_along_axis(seen, best, axis=1) > 0])
    p = np.ascontiguousarray(prices.T)
    # A share of every kind of server for everybody keeps the first prices sane.
    turn = np.arange(k * min(CYCLED, n))
    cycled = turn // min(CYCLED, n) * n + turn % n
    if problem.usable is not None:
        cycled = cycled[problem.usable.ravel()[cycled]]
    chosen.append(cycled)
    return np.unique(np.concatenate(chosen)), p


def _guided_start(problem: _Problem, keys: Ints, p: Floats, mu: Floats) -> Iterate:
    """Return a strictly feasible point near good prices: cheap columns fuller, loads level."""
    columns, live = problem.columns(keys), problem.c > 0
    mu = mu * (columns.servers / float(problem.a @ mu))
    p = np.where(live, p + MARGIN, 0.0)
    z = columns.cost(p) - mu[columns.user]
    # Only a guide may have underpriced some column; lift its server.
    short = np.zeros(columns.servers)
    np.maximum.at(short, columns.server, MARGIN - z)
    p = np.where(live, p + short, 0.0)
    z = columns.cost(p) - mu[columns.user]
    x = columns.spread(np.where(live, problem.c, np.inf).min(axis=0)) / z
    for _ in range(BALANCE):
        x *= (problem.a / columns.per_user(x))[columns.user]
        load = columns.load(x) / np.where(live, problem.c, np.inf)
        x /= columns.spread(np.sqrt(np.maximum(load.max(axis=0), 1e-9)))
    x *= (problem.a / columns.per_user(x))[columns.user]
    load = columns.load(x)
    theta = 0.9 / float((load[live] / problem.c[live]).max())
    return Iterate(theta * x, np.where(live, problem.c - theta * load, 1.0), theta, p, mu, z)


def _certify(problem: _Problem, p: Floats, mu: Floats) -> tuple[Floats, Ints, float]:
    """Return each user's cheapest cost over all pairs, pairs to add, and the worst shortfall."""
    n = problem.d.shape[0]
    cheapest = np.full(n, np.inf)
    found, worst = [], 0.0
    for some in problem.chunks():
        cost = problem.reduced(p, mu, some)
        np.minimum(cheapest, cost.min(axis=0), out=cheapest)
        worst = max(worst, -float(cost.min()))
        take = min(ADDED, n)
        best = np.argpartition(cost, take - 1, axis=1)[:, :take]
        under = np.take_along_axis(cost, best, axis=1) < 0
        found.append(((np.arange(cost.shape[0]) + some.start)[:, None] * n + best)[under])
    return cheapest + mu, np.sort(np.concatenate(found)), worst


def _carry(problem: _Problem, state: _State, keys: Ints) -> Iterate:
    """Return the point of `state` on the wider column set `keys`."""
    old, columns = state.point, problem.columns(keys)
    pairs = old.x.size + int((problem.c > 0).sum())
    mean = (float(old.x @ old.z) + float((old.s * old.p).sum())) / pairs
    known = np.searchsorted(keys, state.keys)
    cost = columns.cost(old.p)
    short = np.zeros(columns.servers)
    fresh = np.ones(keys.size, dtype=bool)
    fresh[known] = False
    wanted = old.mu[columns.user] + M1*mean
    np.maximum.at(short, columns.server[fresh], (wanted / cost-1)[fresh])
    p = old.p * (1 + short)
    z = columns.cost(p) - old.mu[columns.user]
    x = np.empty(keys.size)
    x[known] = old.x
    z[known] = old.z + (cost*columns.spread(short))[known]
    x[fresh] = M2 * mean / z[fresh]
    total = columns.per_user(x * ~fresh)
    more = columns.per_user(x * fresh)
    x[fresh] *= np.minimum(1, M3 * total / np.maximum(more, 1e-300))[columns.user[fresh]]
    x *= (total/columns.per_user(x))[columns.user]
    s, theta = old.s.copy(), old.theta
    if SHRINKX:
        live = problem.c > 0
        load = columns.load(x)
        f = min(1.0, float(((problem.c - SHRINKX*s) / load)[live].min()))
        x *= f
        theta *= f
        s = np.where(live, problem.c - f*load, 1.0)
        s = np.where(live, np.maximum(s, SHRINKX*old.s),1.0)
    return Iterate(x, s, theta, p, old.mu.copy(), z)


def _negligible(columns: Columns, x: Floats, tolerance: float) -> Flags:
    """Return the columns whose amounts together matter to no user at this tolerance."""
    total = columns.per_user(x) / np.bincount(columns.user, minlength=columns.users)
    return np.asarray(x < 0.01 * tolerance * total[columns.user], dtype=np.bool_)


def solve_radial(
    d: Floats,
    c: Floats,
    a: Floats,
    allowed: Flags | None = None,
    *,
    start: object = None,
    tolerance: float = 1e-9,
    progress: Callable[[float], None] | None = None,
) -> RadialSolution:
    """Hand every user the largest common multiple of `a` that fits, and prove it.

    Parameters
    ----------
    d
        Demands per unit of share, largest entry of each row one, shape (n, m).
    c
        Capacities, shape (k, m).
    a
        Share each user gets per unit of ``theta``, positive, shape (n,).
    allowed
        Which user may use which server, shape (n, k); None for all.
    start
        The `state` of a solution of the same problem with slightly different `a`.
    tolerance
        Relative gap to reach.
    progress
        Called with the proved gap whenever it is computed.

    Returns
    -------
    RadialSolution
        The best placement and bound found; look at `gap`, it may miss the tolerance.

    Examples
    --------
    >>> d, c = np.array([[1.0, 0.5], [0.5, 1.0]]), np.array([[0.5, 0.5], [0.5, 0.5]])
    >>> solution = solve_radial(d, c, np.ones(2))
    >>> round(solution.theta, 6), solution.gap <= 1e-9
    (0.666667, True)
    """
    n, k = d.shape[0], c.shape[0]
    unit = float(c.mean())
    problem = _Problem(
        np.ascontiguousarray(d, dtype=np.float64),
        np.ascontiguousarray(c.T / unit),
        a * (k / a.sum()),
        _usable(d, c, allowed),
    )
    live = problem.c > 0
    iterations = 0
    whole = n * k <= WHOLE
    rungs = iter(() if whole else RUNGS)
    if isinstance(start, _State):
        state, rungs = _State(start.keys, start.point.copy()), iter(RUNGS[-1:])
    elif whole:
        keys = _every_pair(problem)
        state = _State(keys, cold_start(problem.columns(keys), problem.c, problem.a))
    else:
        state, iterations = _guided(problem)
    _generate(problem, state, () if whole else RUNGS, tolerance)


def _generate(problem, state, rungs, tolerance=None,progress=None):
    iterations=0
    rungs = iter(rungs)
    live = problem.c > 0
    saved = state
    aim = next(rungs, tolerance and 0.3 * tolerance)
    best: RadialSolution | None = None
    for _ in range(ROUNDS):
        columns = problem.columns(state.keys)
        middle = [state.point, 1.0]

        def watch(point: Iterate, gap: float, middle: list = middle) -> None:
            if gap >= 1e-5 or middle[1] == 1.0:
                middle[0], middle[1] = point, gap

        point, inner, made = improve(columns, problem.c, problem.a, state.point, aim, watch=watch)
        iterations += made
        cheapest, keys, worst = _certify(problem, point.p, point.mu)
        paid = float(problem.a @ cheapest)
        bound = float((point.p * problem.c).sum()) / paid if paid > 0 else np.inf
        given = columns.per_user(point.x)
        theta = float((given / problem.a).min())
        theta /= float((columns.load(point.x)[live] / problem.c[live]).max())
        gap = (bound - theta) / bound
        extra = np.setdiff1d(keys, state.keys, assume_unique=True)
        import os
        if os.environ.get('DBG'):
            import time
            print(f"{time.process_time():.2f} cols {state.keys.size} aim {aim:.0e} inner {inner:.1e} gap {gap:.2e} made {made} new {keys.size} {extra.size} worst {worst:.1e}")
        if progress is not None:
            progress(gap)
        if tolerance and( gap <= tolerance or (extra.size == 0 and aim <= tolerance)):
            break
        keys = np.union1d(state.keys, extra)
        source = _State(state.keys, middle[0])
        state = _State(keys, _carry(problem, source, keys))
        aim = next(rungs, tolerance and 0.3 * tolerance)
        if aim is None: break
    return point, iterations
