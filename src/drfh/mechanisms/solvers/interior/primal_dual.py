"""Primal-dual interior-point method for the radial sharing problem."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from drfh.allocation.problem import Bools, Floats
from drfh.mechanisms.solvers.interior.newton import Newton, Residual, newton_system
from drfh.mechanisms.solvers.interior.points import Columns, Iterate

__all__ = ["corrected", "improve", "reached"]

# Most attempts per iteration to lengthen the step by pulling outlying products back.
CORRECTORS = 2
# Iterations without progress after which to give up.
PATIENCE = 12
# Times a step is refined, once the gap is below the second number.
REFINE, REFINED = 1, 1e-3
# Times the last point is corrected.
CORRECTIONS = 3


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
    columns: Columns,
    c: Floats,
    a: Floats,
    at: Iterate,
    target: float,
    fixed: Floats | None = None,
    most: float = 0.0,
    limit: int = 80,
    watch: Callable[[Iterate, float], None] = lambda point, gap: None,
) -> tuple[Iterate, float, int]:
    """Follow the central path from `at` until the relative gap on these columns is `target`.

    Parameters
    ----------
    columns, c, a
        The pairs in play, capacities (m, k) averaging about one, and shares (n,) summing to the
        number of servers.
    at
        Where to start; positive, but it need not be feasible.
    target
        Relative gap to reach.
    fixed, most
        What the users get in any case, shape (n,), and the most that may cost. There may be
        just one way to place it; then prices that keep it in place may be as high as they like,
        and the method would lose itself. So some of it may be lacking, at the price `most`.
    limit
        Most iterations.
    watch
        Called with each point and its gap.

    Returns
    -------
    tuple of Iterate, float, int
        The best point, its gap (scaled into capacity, hence honest) and the iterations made.

    Examples
    --------
    >>> from drfh.mechanisms.solvers.interior.points import cold_start
    >>> columns = Columns(np.array([[1.0], [1.0]]), 1, np.array([0, 1]), np.array([0, 0]))
    >>> c, a = np.array([[1.0]]), np.array([0.5, 0.5])
    >>> point, gap, _ = improve(columns, c, a, cold_start(columns, c, a), 1e-9)
    >>> gap <= 1e-9  # once the point is scaled into capacity
    True
    """
    live = c > 0
    held = np.zeros_like(a) if fixed is None else fixed
    elastic = bool(held.any())
    pairs = at.x.size + int(live.sum()) + elastic
    best, best_gap, least, since, iteration = at, np.inf, np.inf, 0, 0
    for iteration in range(limit + 1):
        load, given = columns.load(at.x), columns.per_user(at.x)
        capacity = np.where(live, c - load - at.s, 0.0)
        user = held * (1.0 - at.lack) + at.theta * a - given
        unit = columns.servers - float(a @ at.mu)
        price = columns.cost(at.p)
        reduced = price - at.mu[columns.user] - at.z
        calm = most - float(held @ at.mu) - at.calm if elastic else 0.0
        residual = (capacity, user, unit, reduced, calm)
        # What is certain on these columns: the placement scaled into capacity, and the prices.
        given = columns.per_user(columns.fitted(at.x, c))
        lower, kept = reached(given, a, held)
        mu = columns.least(price)
        paid = float(a @ mu)
        burden = float(held @ mu)
        cost = float((at.p * c).sum()) - kept * burden
        # What is lacking must be worth it.
        waste = (1.0 - kept) * max(most - burden, 0.0)
        gap = 1.0 - (lower * paid - waste) / cost if paid > 0 and cost > 0 else np.inf
        xz, sp, lc = at.x * at.z, np.where(live, at.s * at.p, 0.0), elastic * at.lack * at.calm
        mean = (float(xz.sum()) + float(sp.sum()) + lc) / pairs
        since = 0 if gap < 0.9 * best_gap or mean < 0.9 * least else since + 1
        least = min(least, mean)
        if gap < best_gap:
            best, best_gap = at, gap
        watch(at, gap)
        lost = best_gap < 1e-6 and gap > 1e3 * best_gap
        if gap <= target or lost or since >= PATIENCE or iteration == limit:
            break
        try:
            with np.errstate(divide="raise", over="raise", invalid="raise"):
                newton = newton_system(columns, a, at, live, held)
                # Products far below what the target needs only spoil the conditioning.
                floor = 0.1 * target * cost / pairs
                keep = max(0.9, 1.0 - 10.0 * gap)
                refine = REFINE if gap < REFINED else 0
                products = (xz, sp, lc)
                at = _advanced(
                    newton, at, live, products, residual, mean, floor, keep, elastic, refine
                )
        except (np.linalg.LinAlgError, FloatingPointError):
            break  # rounding has eaten the system; the best point stands
    return best, best_gap, iteration


def _advanced(
    newton: Newton,
    at: Iterate,
    live: Bools,
    products: tuple[Floats, Floats, float],
    residual: Residual,
    mean: float,
    floor: float,
    keep: float,
    elastic: bool,
    refine: int,
) -> Iterate:
    """Return the next point: a predictor, a corrector, and attempts to go further.

    `products` are those of each pair at the point and `mean` their mean; the new ones aim at
    `floor` or more. Of the way to the edge, `keep` is gone.
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
    primal, dual = min(1.0, keep * primal), min(1.0, keep * dual)
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
    used = np.flatnonzero(at.x > at.z)
    tight = (c > 0) & (at.p > at.s) & (columns.load(np.where(at.x > at.z, at.x, 0.0)) > 0)
    some = columns.subset(used, tight)
    if not some.complete or not tight.any():
        return None
    held = np.zeros_like(a) if fixed is None else fixed
    x, theta, p, mu = at.x[used], at.theta, np.where(tight, at.p, 0.0), at.mu
    start = Iterate(x, at.s, theta, at.p, mu, 1.0 / x)
    none = np.zeros_like(x)
    try:
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            newton = newton_system(some, a, start, tight, np.zeros_like(a))
            for _ in range(CORRECTIONS):
                capacity = np.where(tight, c - some.load(x), 0.0)
                user = held + theta * a - some.per_user(x)
                step = newton.step(
                    none, np.zeros_like(c), 0.0, (capacity, user, 0.0, none, 0.0), refine=1
                )
                x, theta = x + step.x, theta + step.theta
                reduced = some.cost(p) - mu[some.user]
                unit = some.servers - float(a @ mu)
                zero = (np.zeros_like(c), np.zeros_like(a), unit, reduced, 0.0)
                step = newton.step(none, np.zeros_like(c), 0.0, zero, refine=1)
                p, mu = p + step.p, mu + step.mu
    except (np.linalg.LinAlgError, FloatingPointError):
        return None
    if not (np.isfinite(x).all() and np.isfinite(p).all()):
        return None
    whole = np.zeros_like(at.x)
    whole[used] = np.maximum(x, 0.0)
    return Iterate(whole, at.s, theta, np.maximum(p, 0.0), mu, at.z, at.lack, at.calm)


def _lengths(at: Iterate, step: Iterate, live: Bools) -> tuple[float, float]:
    """Return how far the primal and the dual part can move along `step`."""
    primal = min(_reach(at.x, step.x), _reach(at.s[live], step.s[live]))
    dual = min(_reach(at.z, step.z), _reach(at.p[live], step.p[live]))
    lack = _reach(np.array(at.lack), np.array(step.lack))
    return min(primal, lack), min(dual, _reach(np.array(at.calm), np.array(step.calm)))


def _pull(product: Floats, aim: float) -> Floats:
    """Return the change that takes each product at the trial point back near `aim`."""
    return np.maximum(np.clip(product, 0.1 * aim, 10.0 * aim) - product, -10.0 * aim)
