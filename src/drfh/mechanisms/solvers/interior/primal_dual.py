"""Primal-dual interior-point method for the radial sharing problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from drfh.allocation.problem import Bools, Floats, Ints
from drfh.mechanisms.solvers.interior.newton import Newton, Residual, newton_system
from drfh.mechanisms.solvers.interior.points import (
    Columns,
    Iterate,
    RadialProblem,
    RadialState,
)

__all__ = ["corrected", "improve", "joined", "reached"]

# Most attempts per iteration to lengthen the step by pulling outlying products back.
CORRECTORS = 1
# Iterations without progress after which to give up, and with products that are small enough.
PATIENCE, LATE = 12, 3
# Times a step is refined, once the gap is below the second number.
REFINE, REFINED = 1, 1e-3
# Times the last point is corrected, the error that is none, and what a correction must leave at
# most of it; times what is in use is chosen anew, and the part by which a capacity is exceeded
# that calls for it.
CORRECTIONS, EXACT, STALLED, REPAIRS, OVER = 6, 1e-14, 0.5, 3, 1e-13
# Complementarity, as a part of the value, from which on the last digits are tried to compute, and
# how much smaller it must be to try again.
ENDGAME, AGAIN = 1e-6, 0.05
# A pair that joins: part of its central amount, most part of its user's total, least part of its
# cost that is its reduced cost.
SMALL, LITTLE, FAINT = 0.3, 1e-3, 1e-6


def reached(given: Floats, a: Floats, fixed: Floats) -> tuple[float, float]:
    """Return theta and the part of `fixed`, at most 1, that users with these totals have.

    The users that rise come up short in theta, the others in their fixed part.

    Examples
    --------
    >>> reached(np.array([1.0, 2.0]), np.array([0.0, 1.0]), np.array([2.0, 0.5]))
    (1.5, 0.5)
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        theta = np.where(a > 0, (given - fixed) / a, np.inf)
        kept = np.where(a > 0, 1.0, given / fixed)
    return float(theta.min()), min(1.0, float(kept.min()))


def _reach(value: Floats, step: Floats) -> float:
    """Return the longest step (at most a huge one) that keeps `value` nonnegative."""
    worst = float((step / value).min(initial=0.0))
    return 1e30 if worst >= 0 else -1.0 / worst


def improve(
    problem: RadialProblem,
    state: RadialState,
    target: float,
    limit: int = 80,
    watch: Callable[[RadialState, float], None] = lambda state, gap: None,
    finish: Callable[[RadialProblem, RadialState], bool] = lambda problem, state: False,
) -> tuple[RadialProblem, RadialState, float, int]:
    """Follow the central path until the relative gap is `target`.

    Pairs out of play join before prices make them too cheap. The prices of the start must leave
    none of them so.

    Parameters
    ----------
    problem
        What is asked. What is fixed may have just one place; then prices that keep it there may
        be as high as they like, and the method would lose itself. So some of it may be lacking,
        at the price `most`.
    state
        Where to start: the pairs in play and a point; positive, but it need not be feasible.
    target
        Relative gap to reach.
    limit
        Most iterations.
    watch
        Called with each state and its gap.
    finish
        Called with states near the end; whether the answer is known without going on.

    Returns
    -------
    tuple of RadialProblem, RadialState, float, int
        The problem with the shares that its target has come to, the best state, its gap (scaled
        into capacity, hence honest) and the iterations made.

    Examples
    --------
    >>> from drfh.mechanisms.solvers.interior.points import every_pair
    >>> d, c, a = np.ones((2, 1)), np.array([[1.0]]), np.array([0.5, 0.5])
    >>> problem = RadialProblem(d, c, a, None, 1.0, 0.0, None)
    >>> _, state, gap, _ = improve(problem, every_pair(problem), 1e-9)
    >>> gap <= 1e-9  # once the point is scaled into capacity
    True
    """
    c, most, at = problem.c, problem.most, state.point
    live = c > 0
    held = np.zeros_like(problem.a) if problem.fixed is None else problem.fixed
    elastic = bool(held.any())
    columns, some = state.columns, state.columns.user.size < problem.pairs
    best, asked, best_gap, least, since, iteration = state, problem, np.inf, np.inf, 0, 0
    tried, late = ENDGAME, 0
    for iteration in range(limit + 1):
        worth = float((at.p * c).sum())
        problem = problem.aimed(at.mu, worth)
        a = problem.a
        pairs = at.x.size + int(live.sum()) + elastic
        load, given = columns.load(at.x), columns.per_user(at.x)
        capacity = np.where(live, c - load - at.s, 0.0)
        user = held * (1.0 - at.lack) + at.theta * a - given
        unit = columns.servers - float(a @ at.mu)
        short = columns.cost(at.p, at.mu)
        reduced = short - at.z
        calm = most - float(held @ at.mu) - at.calm if elastic else 0.0
        residual = (capacity, user, unit, reduced, calm)
        # What is certain: the placement scaled into capacity, and the prices.
        given = columns.per_user(columns.fitted(at.x, c, load))
        lower, kept = reached(given, a, held)
        mu = at.mu if some else at.mu + columns.least(short)
        paid = float(a @ mu)
        burden = float(held @ mu)
        cost = worth - kept * burden
        # What is lacking must be worth it.
        waste = (1.0 - kept) * max(most - burden, 0.0)
        gap = 1.0 - (lower * paid - waste) / cost if paid > 0 and cost > 0 else np.inf
        xz, sp, lc = at.x * at.z, np.where(live, at.s * at.p, 0.0), elastic * at.lack * at.calm
        mean = (float(xz.sum()) + float(sp.sum()) + lc) / pairs
        since = 0 if gap < 0.9 * best_gap or mean < 0.9 * least else since + 1
        least = min(least, mean)
        if gap < best_gap:
            best, asked, best_gap = state, problem, gap
        watch(state, gap)
        rest = mean * pairs / worth
        late += rest <= target
        if rest <= tried or late == LATE:
            tried = AGAIN * rest
            if finish(problem, state):
                return problem, state, 0.0, iteration
        lost = best_gap < 1e-6 and gap > 1e3 * best_gap
        if gap <= target or lost or since >= PATIENCE or late >= LATE or iteration == limit:
            break
        try:
            with np.errstate(divide="raise", over="raise", invalid="raise"):
                newton = newton_system(columns, a, at, live, held)
                # Products far below what the target needs only spoil the conditioning.
                floor = 0.1 * target * cost / pairs
                keep = max(0.9, 1.0 - 10.0 * gap)
                refine = REFINE if gap < REFINED else 0
                products = (xz, sp, lc)
                step, primal, dual = _step(
                    newton, at, live, products, residual, mean, floor, elastic, refine
                )
                primal, dual = min(1.0, keep * primal), min(1.0, keep * dual)
                joining: Ints = np.zeros(0, dtype=np.int64)
                if some:
                    reach, joining = problem.ahead(columns, at, step)
                    dual = min(dual, keep * reach)
                state = RadialState(columns, _moved(at, step, live, primal, dual))
                if joining.size:
                    state = joined(problem, state, joining, mean)
                    columns = state.columns
                at = state.point
        except (np.linalg.LinAlgError, FloatingPointError):
            break  # rounding has eaten the system; the best point stands
    return asked, best, best_gap, iteration


def joined(problem: RadialProblem, state: RadialState, fresh: Ints, mean: float) -> RadialState:
    """Return the state with more pairs in play, so small that they upset nobody's total."""
    old, keys = state.point, np.concatenate((state.columns.keys, fresh))
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    columns = problem.columns(keys)
    new = order >= old.x.size
    server, user = columns.server[new], columns.user[new]
    cost = (old.p[:, server] * problem.d.T[:, user]).sum(axis=0)
    x, z = np.zeros(keys.size), np.empty(keys.size)
    x[~new], z[~new] = old.x, old.z
    z[new] = np.maximum(cost - old.mu[user], FAINT * cost)
    total = columns.per_user(x)
    x[new] = SMALL * mean / z[new]
    limit = LITTLE * total / np.maximum(columns.per_user(np.where(new, x, 0.0)), 1e-300)
    x[new] *= np.minimum(1.0, limit)[user]
    return RadialState(columns, replace(old, x=x, z=z))


def _step(
    newton: Newton,
    at: Iterate,
    live: Bools,
    products: tuple[Floats, Floats, float],
    residual: Residual,
    mean: float,
    floor: float,
    elastic: bool,
    refine: int,
) -> tuple[Iterate, float, float]:
    """Return a step and how far it may go, primal and dual.

    It is a predictor, a corrector, and attempts to go further. `products` are those of each pair
    at the point and `mean` their mean; the new ones aim at `floor` or more.
    """
    xz, sp, lc = products
    pairs = at.x.size + int(live.sum()) + elastic
    step = newton.step(-xz, -sp, -lc, residual, refine=0)
    primal, dual = (min(1.0, length) for length in _lengths(at, step, live))
    after = float((at.x + primal * step.x) @ (at.z + dual * step.z))
    after += float(((at.s + primal * step.s) * (at.p + dual * step.p))[live].sum())
    after += elastic * (at.lack + primal * step.lack) * (at.calm + dual * step.calm)
    aim = max(mean * (after / pairs / mean) ** 3, floor)
    xz = aim - xz - step.x * step.z
    sp = np.where(live, aim - sp - step.s * step.p, 0.0)
    lc = elastic * (aim - lc - step.lack * step.calm)
    step = newton.step(xz, sp, lc, residual, refine=refine)
    primal, dual = _lengths(at, step, live)
    for _ in range(CORRECTORS):
        far, deep = min(1.0, 1.1 * primal + 0.1), min(1.0, 1.1 * dual + 0.1)
        xz = xz + _pull((at.x + far * step.x) * (at.z + deep * step.z), aim)
        sp = sp + live * _pull((at.s + far * step.s) * (at.p + deep * step.p), aim)
        product = (at.lack + far * step.lack) * (at.calm + deep * step.calm)
        lc += elastic * float(_pull(np.array(product), aim))
        other = newton.step(xz, sp, lc, residual, refine=refine)
        far, deep = _lengths(at, other, live)
        if min(far, 1.0) + min(deep, 1.0) < min(primal, 1.0) + min(dual, 1.0) + 0.01:
            break
        step, primal, dual = other, far, deep
    return step, primal, dual


def _moved(at: Iterate, step: Iterate, live: Bools, primal: float, dual: float) -> Iterate:
    """Return the point after a step of these lengths."""
    return Iterate(
        at.x + primal * step.x,
        np.where(live, at.s + primal * step.s, 1.0),
        at.theta + primal * step.theta,
        np.where(live, at.p + dual * step.p, 0.0),
        at.mu + dual * step.mu,
        at.z + dual * step.z,
        at.lack + primal * step.lack,
        at.calm + dual * step.calm,
    )


def corrected(
    columns: Columns, c: Floats, a: Floats, at: Iterate, fixed: Floats | None = None
) -> Iterate | None:
    """Return the point that `at` comes near to, without its last digits; None if there is none.

    At the end of the path a column is in use or has a reduced cost, a capacity is used up or costs
    nothing. Held to that, amounts and prices solve linear equations, with the matrix of a step.
    """
    live = c > 0
    used = at.x > at.z
    tight = live & (at.p > at.s) & (columns.load(np.where(used, at.x, 0.0)) > 0)
    exact = at
    for _ in range(REPAIRS):
        found = _solved(columns, c, a, at, fixed, used, tight)
        if found is None:
            return None
        exact = found
        over = live & ~tight & (columns.load(exact.x) > c * (1.0 + OVER))
        if not over.any() and not (exact.x < 0).any():
            break
        tight |= over
        used &= exact.x >= 0
    return replace(exact, x=np.maximum(exact.x, 0.0), p=np.maximum(exact.p, 0.0))


def _solved(
    columns: Columns,
    c: Floats,
    a: Floats,
    at: Iterate,
    fixed: Floats | None,
    used: Bools,
    tight: Bools,
) -> Iterate | None:
    """Return the point with these columns in use and these capacities used up, if there is one."""
    x = np.where(used, at.x, 0.0)
    if not tight.any() or not (columns.per_user(x) > 0).all():
        return None
    held = np.zeros_like(a) if fixed is None else fixed
    theta, p, mu = at.theta, np.where(tight, at.p, 0.0), at.mu
    # Ratios are squares of amounts: so each of them moves in proportion to itself.
    start = Iterate(x, at.s, theta, at.p, mu, np.where(used, 1.0 / at.x, 1.0))
    none = np.zeros_like(x)
    try:
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            newton = newton_system(columns, a, start, tight, np.zeros_like(a))
            last = np.inf
            for _ in range(CORRECTIONS):
                capacity = np.where(tight, c - columns.load(x), 0.0)
                asked = held + theta * a
                user = asked - columns.per_user(x)
                short = float((np.abs(user) / np.where(asked > 0, asked, 1.0)).max())
                wrong = max(float(np.abs(capacity[tight] / c[tight]).max()), short)
                if wrong <= EXACT or wrong > STALLED * last:
                    break
                last, right = wrong, (capacity, user, 0.0, none, 0.0)
                step = newton.step(none, np.zeros_like(c), 0.0, right, refine=0)
                x, theta = x + step.x, theta + step.theta
            last = np.inf
            for _ in range(CORRECTIONS):
                reduced = np.where(used, columns.cost(p, mu), 0.0)
                unit = columns.servers - float(a @ mu)
                wrong = max(float(np.abs(reduced).max()), abs(unit) / columns.servers)
                if wrong <= EXACT or wrong > STALLED * last:
                    break
                last, right = wrong, (np.zeros_like(c), np.zeros_like(a), unit, reduced, 0.0)
                step = newton.step(none, np.zeros_like(c), 0.0, right, refine=0)
                p, mu = p + step.p, mu + step.mu
    except (np.linalg.LinAlgError, FloatingPointError):
        return None
    if not (np.isfinite(x).all() and np.isfinite(p).all()):
        return None
    return replace(at, x=x, theta=theta, p=p, mu=mu)


def _lengths(at: Iterate, step: Iterate, live: Bools) -> tuple[float, float]:
    """Return how far the primal and the dual part can move along `step`."""
    primal = min(_reach(at.x, step.x), _reach(at.s[live], step.s[live]))
    dual = min(_reach(at.z, step.z), _reach(at.p[live], step.p[live]))
    lack = _reach(np.array(at.lack), np.array(step.lack))
    return min(primal, lack), min(dual, _reach(np.array(at.calm), np.array(step.calm)))


def _pull(product: Floats, aim: float) -> Floats:
    """Return the change that takes each product at the trial point back near `aim`."""
    return np.maximum(np.clip(product, 0.1 * aim, 10.0 * aim) - product, -10.0 * aim)
