"""Column generation for the radial sharing problem: choose columns, solve, prove.

Small problems go to the interior-point method whole. Large ones start from a few promising
users per server; pairs that the prices reached so far leave underpriced join until the bound
over *all* pairs meets the placement.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from drfh.allocation.problem import Bools, Floats, Ints
from drfh.mechanisms.solvers.interior.points import (
    FEW_USERS,
    Columns,
    Iterate,
    RadialProblem,
    RadialState,
    Target,
    alike_order,
    every_pair,
    lacking,
    usable_pairs,
)
from drfh.mechanisms.solvers.interior.primal_dual import corrected, improve, joined, reached

__all__ = ["CLUSTERS", "RadialSolution", "coarser", "solve_radial"]


CLUSTERS, SHRINK = 200, 8  # fewest clusters, and servers per cluster, of the coarser problem
# The first choice: users per server by price and in turn, of few users and of more; fewest servers
# per user.
BY_PRICE, IN_TURN, FEWEST = (10, 20), (3, 6), 8
DISTORTION = 0.05  # how differently the servers see the users in the first choice
MARGIN = 0.05  # how far above the guessed prices to start
SOFT = 2e-4  # gap of the problem with fewer servers that is split up


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


def coarser(problem: RadialProblem) -> tuple[RadialProblem, Ints]:
    """Return the problem with alike servers made one, and the number of each server there."""
    label = _clusters(problem, max(CLUSTERS, problem.c.shape[1] // SHRINK))
    order = np.argsort(label, kind="stable")
    first = np.flatnonzero(np.diff(label[order], prepend=-1))
    c = np.add.reduceat(problem.c[:, order], first, axis=1)
    usable = problem.usable
    if usable is not None:
        usable = np.logical_or.reduceat(usable[order], first, axis=0)
        side_by_side = alike_order(usable)
        usable, c = usable[side_by_side], c[:, side_by_side]
        label = np.argsort(side_by_side)[label]
    unit, more = float(c.mean()), first.size / float(problem.a.sum())
    coarse = RadialProblem(
        problem.d,
        c / unit,
        problem.a * more,
        None if problem.fixed is None else problem.fixed / unit,
        problem.guess / (unit * more),
        problem.most * (first.size / (problem.c.shape[1] * unit * more)),
        usable,
        problem.target,
        problem.unit * unit,
        problem.more * more,
    )
    return coarse, label


def _ascending(keys: Ints) -> Ints:
    """Return the keys in order, each once; np.unique hashes, which takes ten times as long."""
    keys = np.sort(keys)
    return keys[np.diff(keys, prepend=-1) > 0]


def first_choice(problem: RadialProblem, mu: Floats) -> tuple[Ints, Floats]:
    """Return promising columns given the users' prices, and the servers' prices they imply."""
    (n, m), k = problem.d.shape, problem.c.shape[1]
    by_price, in_turn = (min(count[n > FEW_USERS], n) for count in (BY_PRICE, IN_TURN))
    prices = np.empty((k, m))
    noise = np.random.default_rng(1)
    chosen = []
    for some, keys in problem.chunks():
        # Large problems have many equally good answers. Each server sees the users through its
        # own small distortion, so that the choice spreads over all users.
        distorted = mu * (1.0 + DISTORTION * noise.random((keys.size, n)))
        prices[some], _ = problem.priced(some, distorted)
        cost = prices[some] @ problem.d.T - distorted
        best = np.argpartition(cost, by_price - 1, axis=1)[:, :by_price]
        chosen.append((keys + best)[np.take_along_axis(distorted, best, axis=1) > 0])
    # Some of every kind of server for everybody keeps the first prices sane.
    turn = np.arange(k * in_turn)
    turn = turn // in_turn * n + turn % n
    chosen.append(turn if problem.usable is None else turn[problem.usable.ravel()[turn]])
    found = _ascending(np.concatenate(chosen))
    fewest = []
    for user in np.flatnonzero(np.bincount(found % n, minlength=n) < FEWEST):
        open_to = (
            np.arange(k) if problem.usable is None else np.flatnonzero(problem.usable[:, user])
        )
        some_of = open_to[np.linspace(0, open_to.size - 1, min(open_to.size, FEWEST)).astype(int)]
        fewest.append(some_of * n + user)
    return _ascending(np.concatenate([found, *fewest])), np.ascontiguousarray(prices.T)


def near_prices(
    problem: RadialProblem, columns: Columns, p: Floats, mu: Floats, margin: float = MARGIN
) -> Iterate:
    """Return a point near good prices: cheap columns fuller, loads level."""
    live = problem.c > 0
    size = columns.servers / float(problem.a @ mu)
    mu, p = mu * size, np.where(live, p * size + margin, 0.0)
    # The prices are a guess that may leave some pair too cheap; lift its server.
    for some, _ in problem.chunks():
        short = mu - p[:, some].T @ problem.d.T
        if problem.usable is not None:
            short[~problem.usable[some]] = -np.inf
        p[:, some] += live[:, some] * np.maximum(margin + short.max(axis=1), 0.0)
    z = columns.cost(p, mu)
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


WHOLE = 50_000  # pairs up to which all of them are taken at once
AFFORDABLE = 4_000_000  # pairs up to which that is at least a last resort
ADDED = 4  # most underpriced pairs to add per server and round
COARSE = 2e-3  # gap of the problem with fewer servers
NEARLY = 1e-5  # proved gap from which on to solve the chosen columns to the end
FAR = 0.2  # proved gap above which the last point is no good start
ROUNDS = 20
# How much more than the rising users those with a fixed part may pay: what is more than enough
# costs digits, what is less leaves some of the fixed part lacking.
MOST, MORE, VERY_MOST = 10.0, 10.0, 1e5
ROUGH = 1e-4  # gap at which that shows
LACKING = 1e-10  # part of the fixed part that may be lacking
FORGOTTEN = 1e-15  # part of a user's share that may go where something is fixed
ROUND_OFF = 1e-11  # gap that another start hardly makes smaller
ENOUGH = 3.0  # times the tolerance that will do: the last digits may take as long as all others
CENTRAL = 1e-6  # restart from the last point with at least this gap: later ones hug the boundary


@dataclass(frozen=True, slots=True)
class RadialSolution:
    """A placement, prices, and the proof that they belong together.

    Attributes
    ----------
    theta
        What the placement reaches: user i holds at least ``kept * fixed[i] + theta * a[i]``,
        within capacity.
    kept
        The part of what is fixed that users who do not rise hold: 1, up to round-off.
    bound
        No placement with as much of the fixed part reaches more (proved by `prices`).
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
    kept: float
    bound: float
    prices: Floats
    mu: Floats
    user: Ints
    server: Ints
    share: Floats
    gap: float
    iterations: int
    state: object


def _split(problem: RadialProblem) -> tuple[RadialProblem, RadialState, int]:
    """Return all pairs and a point on them: that of a problem with fewer servers, split up."""
    coarse, label = coarser(problem)
    search = _Search(coarse, every_pair(coarse))
    search.run(SOFT, SOFT, 1, lambda gap: None)
    at, problem = search.latest, _aimed_as(problem, search.problem)
    live = problem.c > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(live, problem.c / coarse.c[:, label], 0.0).sum(axis=0) / live.sum(axis=0)
    of_cluster = np.zeros((coarse.c.shape[1], len(problem.d)))
    of_cluster.ravel()[coarse.keys] = at.x
    columns = problem.columns(problem.keys)
    x = of_cluster[label[columns.server], columns.user] * columns.spread(part)
    p = np.where(live, at.p[:, label], 0.0)
    z = columns.cost(p, at.mu)
    mean = (float(at.x @ at.z) + float((at.s * at.p).sum())) / at.x.size
    least = mean / np.where(live, p, 1.0)
    s = np.where(live, np.maximum(problem.c - columns.load(x), least), 1.0)
    return problem, RadialState(columns, Iterate(x, s, at.theta, p, at.mu, z)), search.made


def _aimed_as(problem: RadialProblem, coarse: RadialProblem) -> RadialProblem:
    """Return the problem with the shares that its coarser one came to, if they follow prices."""
    if problem.target is None:
        return problem
    return replace(problem, a=coarse.a * (problem.more / coarse.more))


def _guess(problem: RadialProblem) -> tuple[RadialProblem, RadialState, int]:
    """Return promising columns and a point on them, from a problem with fewer servers."""
    coarse, _ = coarser(problem)
    if coarse.d.shape[0] * coarse.c.shape[1] <= WHOLE or coarse.c.shape[1] <= CLUSTERS:
        search = _Search(coarse, every_pair(coarse))
    else:
        search = _Search(*_guess(coarse))
    search.run(COARSE, COARSE, 3, lambda gap: None)
    problem = _aimed_as(problem, search.problem)
    keys, p = first_choice(problem, search.latest.mu)
    columns = problem.columns(keys)
    point = near_prices(problem, columns, p, search.latest.mu)
    return problem, RadialState(columns, point), search.made


class _Search:
    """Column generation: the columns in play, and the best placement and bound so far."""

    def __init__(self, problem: RadialProblem, state: RadialState, made: int = 0) -> None:
        self.state, self.made = state, made
        self.latest = state.point
        self._ask(problem)

    def _ask(self, problem: RadialProblem) -> None:
        """Set what is asked, of which nothing is known."""
        self.problem = problem
        self.theta, self.kept = -np.inf, 0.0
        self.worth, self.held = np.inf, 0.0  # of the servers, and of what is fixed
        self.p, self.mu = self.state.point.p, self.state.point.mu
        self.columns, self.x = self.state.columns, self.state.point.x

    @property
    def bound(self) -> float:
        return self.worth - self.kept * self.held

    @property
    def gap(self) -> float:
        return self._gap(self.theta, self.kept)

    def _gap(self, theta: float, kept: float) -> float:
        bound = self.worth - kept * self.held
        return (bound - theta) / bound if 0 < bound < np.inf else np.inf

    def run(
        self, aim: float, tolerance: float, rounds: int, progress: Callable[[float], None]
    ) -> None:
        """Solve (to the gap `aim` at first), add columns, repeat until proved or out of ideas."""
        sure, final = False, 0.3 * tolerance
        for _ in range(rounds):
            extra, lost = self._round(aim, tolerance)
            progress(self.gap)
            stuck = extra.size == 0 and aim <= final and (sure or not lost)
            if self.gap <= max(ENOUGH * tolerance, ROUND_OFF) or stuck:
                break
            # A restart nearby is quick but may get stuck; one from afar is sure.
            sure = lost or self.gap > FAR
            if sure:
                keys = _ascending(np.concatenate((self.state.columns.keys, extra)))
                self.state = self.problem.start(self.problem.columns(keys))
            else:
                self.state = joined(self.problem, self.state, extra, self._mean())
            aim = max(final, min(aim, 0.05 * self.gap)) if self.gap > NEARLY else final

    def _mean(self) -> float:
        """Return the mean product of the point to go on from."""
        at, live = self.state.point, self.problem.c > 0
        total = float(at.x @ at.z) + float((at.s * at.p)[live].sum())
        return total / (at.x.size + int(live.sum()))

    def _round(self, aim: float, tolerance: float) -> tuple[Ints, bool]:
        """Solve from the state; return pairs left too cheap, and whether it failed."""
        central = self.state
        found: list[Ints] = []

        def watch(state: RadialState, gap: float) -> None:
            nonlocal central
            if CENTRAL <= gap < 1.0:
                central = state

        def finish(problem: RadialProblem, state: RadialState) -> bool:
            if problem is not self.problem:
                self._ask(problem)
            exact = corrected(state.columns, problem.c, problem.a, state.point, problem.fixed)
            if exact is not None:
                self.state = state
                found.append(self._judge(exact))
            return self.gap <= max(ENOUGH * tolerance, ROUND_OFF)

        problem, best, inner, made = improve(
            self.problem, self.state, aim, watch=watch, finish=finish
        )
        if problem is not self.problem:
            self._ask(problem)
        self.latest, self.state, self.made = best.point, best, self.made + made
        if self.gap > max(ENOUGH * tolerance, ROUND_OFF):
            found.append(self._judge(best.point))
        self.state = central
        extra = _ascending(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)
        return np.setdiff1d(extra, central.columns.keys, assume_unique=True), inner > 10 * aim

    def _judge(self, point: Iterate) -> Ints:
        """Keep the placement and the prices of a point if they are the best; return cheap pairs."""
        problem, columns = self.problem, self.state.columns
        p, cheapest, extra = self._price(point)
        paid = float(problem.a @ cheapest)
        if paid > 0:
            worth = float((p * problem.c).sum()) / paid
            held = 0.0 if problem.fixed is None else float(problem.fixed @ cheapest) / paid
            if worth - held < self.worth - self.held:
                self.worth, self.held = worth, held
                self.p, self.mu = p / paid, cheapest / paid
        theta, kept, _ = _within(problem, columns, point.x)
        if self._gap(theta, kept) < self.gap or self.theta < 0:
            self.theta, self.kept, self.columns, self.x = theta, kept, columns, point.x
        return extra

    def _price(self, point: Iterate) -> tuple[Floats, Floats, Ints]:
        """Return prices of the servers given those of the users, users' cheapest unit, new pairs.

        The pairs are underpriced at the point's own prices: those that would fill the servers
        best or, among many users of whom each has few servers, the most underpriced.
        """
        problem, n = self.problem, self.problem.d.shape[0]
        prices, most = np.empty_like(problem.c), min(ADDED, n)
        all_in_play = self.state.columns.user.size == problem.pairs
        cheapest, found = np.full(n, np.inf), [np.zeros(0, dtype=np.int64)]
        for some, keys in problem.chunks():
            own, basis = problem.priced(some, np.tile(point.mu, (keys.size, 1)))
            usable = None if problem.usable is None else problem.usable[some]
            cost = own @ problem.d.T
            if usable is not None:
                cost[~usable] = np.inf
            np.minimum(cheapest, cost.min(axis=0), out=cheapest)
            prices[:, some] = own.T
            if all_in_play:
                continue
            short = point.p[:, some].T @ problem.d.T - point.mu
            if usable is not None:
                short[~usable] = np.inf
            best = np.minimum(basis, n - 1)  # a slack is no user, and the last is as good as any
            if n > FEW_USERS:
                best = np.argpartition(short, most - 1, axis=1)[:, :most]
            found.append((keys + best)[np.take_along_axis(short, best, axis=1) < 0])
        return prices, cheapest, _ascending(np.concatenate(found))


def _within(problem: RadialProblem, columns: Columns, x: Floats) -> tuple[float, float, Floats]:
    """Return what `x` reaches and keeps once scaled into capacity, and so scaled."""
    fitted = columns.fitted(x, problem.c)
    fixed = np.zeros_like(problem.a) if problem.fixed is None else problem.fixed
    return *reached(columns.per_user(fitted), problem.a, fixed), fitted


def _weighty(columns: Columns, x: Floats, budget: float) -> Bools:
    """Return which entries to keep if every user can spare the fraction `budget` of its total."""
    count = np.bincount(columns.user[x > 0], minlength=columns.users)
    least = budget * columns.per_user(x) / np.maximum(count, 1)
    kept: Bools = x > columns.of_users(least)
    return kept


def _search(
    problem: RadialProblem, start: object, tolerance: float, report: Callable[[float], None]
) -> _Search:
    """Return the finished search for a solution."""
    n, k = problem.d.shape[0], problem.c.shape[1]
    if isinstance(start, RadialState):
        # Users that start or stop to rise change the prices altogether; then only the columns
        # are of use.
        elastic = start.point.calm != 1.0
        alike = 0.5 < float(problem.a @ start.point.mu) / k < 2.0
        if not alike or (problem.fixed is not None and not elastic):
            start = problem.start(start.columns)
        search = _Search(problem, start)
        search.run(0.3 * tolerance, tolerance, ROUNDS, report)
    elif n * k <= WHOLE or k <= CLUSTERS or (k <= 2 * CLUSTERS and n * k <= AFFORDABLE):
        search = _Search(problem, every_pair(problem))
        search.run(0.3 * tolerance, tolerance, ROUNDS, report)
    elif problem.alike and problem.pairs <= AFFORDABLE:
        search = _Search(*_split(problem))
        search.run(0.3 * tolerance, tolerance, ROUNDS, report)
    else:
        search = _Search(*_guess(problem))
        search.run(0.3 * tolerance, tolerance, ROUNDS, report)
        if search.gap > 10 * tolerance and n * k <= AFFORDABLE:
            search.state = every_pair(problem)
            search.run(0.3 * tolerance, tolerance, 2, report)
    return search


def solve_radial(
    d: Floats,
    c: Floats,
    a: Floats,
    allowed: Bools | None = None,
    *,
    fixed: Floats | None = None,
    guess: float = 1.0,
    start: object = None,
    tolerance: float = 1e-9,
    progress: Callable[[float], None] | None = None,
    target: Target | None = None,
) -> RadialSolution:
    """Hand every user the largest common multiple of `a`, beside `fixed`, and prove it.

    Parameters
    ----------
    d
        Demands per unit of share, largest entry of each row one, shape (n, m).
    c
        Capacities, shape (k, m).
    a
        Share each user gets per unit of ``theta``, shape (n,).
    allowed
        Which user may use which server, shape (n, k); None for all. Every user needs a server
        that has some of everything the user demands.
    fixed
        Share each user gets in any case, shape (n,); None for nothing. It must fit, and every
        user must get some of `a` or `fixed`.
    guess
        About what ``theta`` will be; of use where much is fixed.
    start
        The `state` of a solution of the same problem with slightly different `a` and `fixed`.
    tolerance
        Relative gap to reach.
    progress
        Called with the proved gap whenever it is computed.
    target
        What to ask for instead of `a`, given the prices reached.

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
    k, unit, total = c.shape[0], float(c.mean()), float(a.sum())
    usable = usable_pairs(d, c, allowed)
    order = np.arange(k)
    if usable is not None:
        order = alike_order(usable)
        usable, c = usable[order], c[order]
    problem = RadialProblem(
        np.ascontiguousarray(d, dtype=np.float64),
        np.ascontiguousarray(c.T / unit),
        a * (k / total),
        None if fixed is None else fixed / unit,
        1.0 if fixed is None else guess * total / (k * unit),
        0.0 if fixed is None else MOST * guess * total / unit,
        usable,
        target,
        unit,
        k / total,
    )
    report = progress or (lambda gap: None)
    # A rough answer shows whether some of the fixed part is left lacking on purpose.
    first = tolerance if fixed is None else max(tolerance, ROUGH)
    search = _search(problem, start, first, report)
    last = problem.most * VERY_MOST / MOST
    while fixed is not None:
        lack = 1.0 - search.kept
        wanting = lack > max(LACKING, 10.0 * first * search.bound * k / problem.most)
        if not wanting and first <= tolerance:
            break
        columns = search.state.columns
        if not wanting:
            first, state = tolerance, search.state
        elif problem.most < last and search.gap <= max(1e3 * first, ROUGH):
            problem = replace(problem, most=problem.most * MORE)
            state = problem.start(columns)
        elif first > tolerance:
            first, state = tolerance, problem.start(columns)
        else:
            break
        search = _Search(problem, state, search.made)
        search.run(0.3 * first, first, ROUNDS, report)
    problem = search.problem
    columns = search.columns
    # A fixed part that is missing would be missed for good: it may be all that stops the others.
    spare = 0.1 * (tolerance - search.gap) if fixed is None else FORGOTTEN
    weighty = _weighty(columns, search.x, spare)
    columns, x = problem.columns(columns.keys[weighty]), search.x[weighty]
    theta, kept, x = _within(problem, columns, x)
    theta *= k * unit / total
    bound = (search.worth - kept * search.held) * k * unit / total
    # What nobody can buy costs nothing to price; priced so, the proof holds for all pairs.
    prices, mu = search.p * (k / total), search.mu * (k / total)
    for r, need in enumerate(problem.d.T):
        prices[r, problem.c[r] <= 0] = (mu[need > 0] / need[need > 0]).max(initial=0.0)
    return RadialSolution(
        theta=theta,
        kept=kept,
        bound=bound,
        prices=np.ascontiguousarray(prices.T[np.argsort(order)]),
        mu=mu,
        user=columns.user,
        server=order[columns.server],
        share=x * unit,
        gap=(bound - theta) / bound,
        iterations=search.made,
        state=search.state,
    )
